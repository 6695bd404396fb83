"""Losses by rank, d = 1 … 8: multigroup vectors, fair PCA, bicriteria and plain PCA.

For every data set and rank: the worst group's marginal loss per row, the difference between groups,
and the overall reconstruction error relative to plain PCA's. Multigroup vectors of every rank are
prefixes of one solution; the others are solved anew. Fair PCA is solved twice: for the worst mean
loss per row, as published, and for the worst sum over rows, which is what multigroup vectors are
compared by. Its convex programme's optimum is taken from the certified solver; tests hold the two
together.
"""

from __future__ import annotations

import warnings

import numpy as np
from _multigroup_common import arguments, machine, report
from _multigroup_data import Table, tables
from sklearn.decomposition import PCA

from fairpca import MultigroupPCA, WorstGroupPCA
from fairpca.comparison import BicriteriaPCA
from fairpca.metrics import group_reconstruction_error, incremental_loss, marginal_loss
from fairpca.solvers.worst_group import worst_group_subspace

RANKS = range(1, 9)
SEEDS = 5


def measure(table: Table, k: int, vectors: MultigroupPCA) -> list[dict[str, object]]:
    """Judge every system at one rank."""
    fit = {"sensitive_features": table.groups}
    systems = {
        "multigroup vectors": [vectors.components_[:k]],
        "fair PCA (worst group)": [WorstGroupPCA(k).fit(table.X, **fit).components_],
        "fair PCA (summed losses)": [worst_group_subspace(table.grams(), k).components],
        "bicriteria": [
            BicriteriaPCA(k, random_state=seed).fit(table.X, **fit).components_
            for seed in range(SEEDS)
        ],
        "plain PCA": [PCA(k).fit(table.X).components_],
    }
    plain = group_reconstruction_error(table.X, systems["plain PCA"][0], table.groups).overall
    rows: list[dict[str, object]] = []
    for name, answers in systems.items():
        marginal = [marginal_loss(table.X, V, table.groups) for V in answers]
        sums = [marginal_loss(table.X, V, table.groups, per="group") for V in answers]
        incremental = [incremental_loss(table.X, V, table.groups, per="group") for V in answers]
        errors = [group_reconstruction_error(table.X, V, table.groups).overall for V in answers]
        rows.append(
            {
                "data": table.name,
                "rank": k,
                "system": name,
                "worst marginal loss per row": float(np.mean([m.worst for m in marginal])),
                "difference": float(np.mean([m.difference for m in marginal])),
                "worst marginal loss, summed": float(np.mean([m.worst for m in sums])),
                "worst incremental loss, summed": float(np.mean([m.worst for m in incremental])),
                "overall error / plain PCA's": float(np.mean(errors)) / plain,
                "gap / loss": (
                    float(vectors.duality_gap_[k - 1] / vectors.incremental_losses_[k - 1].max())
                    if name == "multigroup vectors"
                    else ""
                ),
            }
        )
    return rows


def main() -> None:
    """Run and save."""
    warnings.simplefilter("ignore")
    options = arguments(__doc__ or "")
    print(machine())
    rows: list[dict[str, object]] = []
    for table in tables(options.data, quick=options.quick):
        print(table.name, table.sizes, flush=True)
        ranks = [1, 2] if options.quick else RANKS
        vectors = MultigroupPCA(max(ranks)).fit(table.X, sensitive_features=table.groups)
        for k in ranks:
            rows += measure(table, k, vectors)
    report("multigroup_losses", rows, save=not options.quick, note=(__doc__ or "").strip())


if __name__ == "__main__":
    main()
