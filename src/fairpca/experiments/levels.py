"""Which method keeps most variance at each level of fairness, from the outcomes of the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from fairpca.experiments.cells import Cell
from fairpca.experiments.running import Outcome

__all__ = ["levels_page"]

_LEVELS: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {"mmd2": (0.1, 0.03, 0.01, 0.003, 0.001), "leakage_auc": (0.9, 0.8, 0.7, 0.6, 0.55)}
)
_WORDS = MappingProxyType({"mmd2": "MMD² at most", "leakage_auc": "leakage (AUC) at most"})
_NAMES = MappingProxyType(
    {
        "PCA": "`MomentMatchingPCA(match_mean=False)`",
        "Lee et al. (2022)": "`DistributionMatchingPCA`",
        "Olfat and Aswani (2019)": "`ConvexMatchingPCA`",
        "Kleindessner et al. (2023)": "`CovarianceMatchingPCA`",
        "Ravfogel et al. (2020)": "`INLP`",
        "Ravfogel et al. (2022a)": "`RLACE`",
        "Ours (offline": "`MomentMatchingPCA`",
        "Ours (FNPM": "`StreamingMomentMatchingPCA`",
    }
)

Row = dict[str, Cell]


def levels_page(outcomes: Sequence[Outcome]) -> str:
    """Return Markdown: for each data set and k, the method that keeps most at each level.

    Parameters
    ----------
    outcomes : sequence of Outcome
        Those with the metrics ``exp_var_pct`` and ``mmd2`` of several methods count
        (``leakage_auc`` and ``fit_seconds`` are shown where they are known); the others are passed
        over.
    """
    lines = ["# Which method keeps most?", "", *_PREFACE]
    seen: set[tuple[str, str]] = set()
    for outcome in outcomes:
        for (dataset, k), rows in _tables(outcome).items():
            if (dataset, k) in seen:
                continue
            seen.add((dataset, k))
            lines += ["", f"## {dataset}, k = {k}", "", *_section(rows)]
    return "\n".join([*lines, ""])


_PREFACE = (
    "For each bundled data set: the method that keeps most of the variance of unseen rows among",
    "those that stay below a level of unfairness on these rows, on average over the splits. MMD²",
    "is the distance between the groups' distributions; leakage is how well the stronger of a",
    "linear and a non-linear reader tells the group (0.5 is chance). Time is one fit on one core.",
    "Made from the files of `fairpca reproduce`; all numbers are in [the results](reproduced.md).",
    "For a target of your own on your own data, see `fairpca compare --target`.",
)


def _tables(outcome: Outcome) -> dict[tuple[str, str], dict[str, Row]]:
    """Collect the cells of each data set and k, by method and metric."""
    found: dict[tuple[str, str], dict[str, Row]] = {}
    for cell in outcome.cells:
        labels = cell.labels
        if cell.mean is None or labels.get("classifier") or "method" not in labels:
            continue
        place = (str(labels.get("dataset")), str(labels.get("k")))
        rows = found.setdefault(place, {})
        rows.setdefault(str(labels["method"]), {})[str(labels["metric"])] = cell
    needed = {"exp_var_pct", "mmd2"}
    complete = {
        place: {method: row for method, row in rows.items() if needed <= set(row)}
        for place, rows in found.items()
    }
    return {place: rows for place, rows in complete.items() if len(rows) > 1}


def _section(rows: Mapping[str, Row]) -> list[str]:
    head = ("level", "method", "class", "%Var", "MMD²", "leakage", "seconds a fit", "splits")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return [*lines, *_choices(rows)]


def _choices(rows: Mapping[str, Row]) -> Iterator[str]:
    for metric, levels in _LEVELS.items():
        for level in levels:
            below = {m: row for m, row in rows.items() if _value(row, metric) <= level}
            best = max(below, key=lambda m: below[m]["exp_var_pct"].mean or 0.0, default=None)
            name = f"{_WORDS[metric]} {level:g}"
            if best is None:
                yield f"| {name} | none of these | | | | | | |"
                continue
            row = below[best]
            shown = (
                f"{row['exp_var_pct'].mean:.2f}",
                f"{row['mmd2'].mean:.4f}",
                f"{row['leakage_auc'].mean:.2f}" if "leakage_auc" in row else "",
                f"{row['fit_seconds'].mean:.2g}" if "fit_seconds" in row else "",
                str(row["exp_var_pct"].n),
            )
            yield f"| {name} | {best} | {_class(best)} | " + " | ".join(shown) + " |"


def _value(row: Row, metric: str) -> float:
    """Return a cell's mean; what is not known is at no level."""
    mean = row[metric].mean if metric in row else None
    return float("inf") if mean is None else mean


def _class(method: str) -> str:
    return next((name for start, name in _NAMES.items() if method.startswith(start)), "")
