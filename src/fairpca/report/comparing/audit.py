"""A model that is fitted already, on a table: the measures of a comparison, beside plain PCA.

Plain PCA is fitted on a random part of the rows, both are measured on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from fairpca.data.choices import CRITERIA
from fairpca.data.files.table_source import check_columns
from fairpca.data.tables.encoder import TableEncoder
from fairpca.data.tables.giveaways import warn_of_giveaways
from fairpca.data.tables.roles import TableParts, check_attributes
from fairpca.methods.catalogue import METHODS, PLAIN
from fairpca.models.files import Model
from fairpca.report.comparing.comparison import Progress, described
from fairpca.report.comparing.result import Comparison, MethodResult, Settings
from fairpca.report.comparing.splits import (
    check_sizes,
    collected_warnings,
    groups_of,
    split_bench,
    two_classes,
)

__all__ = ["audit"]


def audit(
    model: Model,
    table: pa.Table,
    parts: TableParts,
    *,
    settings: Settings | None = None,
    name: str = "the model",
    title: str = "table",
    remarks: Sequence[str] = (),
    progress: Progress | None = None,
    words: Callable[[Any], str] = str,
) -> Comparison:
    """Judge a fitted model on a table.

    Parameters
    ----------
    model : Model
        The estimator, with the encoder that feeds it.
    table : pyarrow.Table
        Holds the columns that the encoder takes.
    parts : TableParts
        The same rows' groups and labels.
    settings : Settings, optional
        How to measure; the number of components and the criterion are the model's, and so is the
        positive label where none is given.
    name, title : str
        What to call the model, and the table.
    remarks : sequence of str
        Notes on how the table was read.
    progress : callable, optional
        Told the share that is done and what comes next.
    words : callable
        Writes a warning as those who read the result would set what it advises.

    Returns
    -------
    Comparison
        Plain PCA of as many components, then the model.

    Raises
    ------
    ValueError
        If the model has no encoder, a column that it takes is missing, or a group is too small.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca import MomentMatchingPCA
    >>> from fairpca.data.tables.columns import as_table
    >>> from fairpca.data.tables.roles import assign_roles, split_table
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["a", "b"], 100)
    >>> columns = {"x": rng.normal(size=200) + (group == "a"), "y": rng.normal(size=200)}
    >>> encoder = TableEncoder().fit(columns)
    >>> fair = MomentMatchingPCA(1).fit(encoder.transform(columns), sensitive_features=group)
    >>> table = as_table({**columns, "group": group})
    >>> parts = split_table(table, assign_roles(table.column_names, sensitive=["group"]))
    >>> found = audit(Model(fair, encoder), table, parts)
    >>> [method.name for method in found.methods]
    ['plain PCA', 'the model']
    """
    if model.encoder is None:
        raise ValueError(
            "the model was fitted on a matrix: it has no encoder that makes one of a table. "
            "Measure model.estimator.transform(X) with fairpca.metrics."
        )
    tell = progress or (lambda share, text: None)
    with collected_warnings(words) as notes:
        n_components = _n_components(model.estimator)
        given = settings or Settings()
        own = model.estimator
        positive = given.pos_label
        chosen = replace(
            given,
            n_components=n_components,
            n_ranks=min(n_components, given.n_ranks),
            repeats=1,
            criterion=getattr(own, "criterion", CRITERIA[0]),
            pos_label=getattr(own, "pos_label", None) if positive is None else positive,
        )
        found = _judged(model, table, parts, chosen, name, tell)
    columns = ", ".join(map(str, model.encoder.feature_names_in_))
    roles = f"The model takes the columns {columns}."
    return replace(found, title=title, audited=name, roles=roles, notes=(*remarks, *notes))


def _judged(
    model: Model,
    table: pa.Table,
    parts: TableParts,
    settings: Settings,
    name: str,
    tell: Progress,
) -> Comparison:
    encoder = model.encoder
    assert isinstance(encoder, TableEncoder)  # noqa: S101 - `audit` has checked it
    used = list(encoder.feature_names_in_)
    check_columns(used, table.column_names, "the table")
    parts = replace(parts, features=table.select(used))
    check_attributes(parts)
    groups = groups_of(parts, settings)
    check_sizes(groups, table.num_rows, settings)
    label = two_classes(parts, settings.pos_label)
    warn_of_giveaways(parts, categorical=encoder.categorical, positive=settings.pos_label)
    bench, names, test = split_bench(parts, groups, label, encoder, settings, fitted=True)
    tell(0.1, "plain PCA")
    (trial,), _ = PLAIN.trials(bench.facts(groups))
    plain = bench.measure(PLAIN, trial)
    tell(0.4, name)
    judged = bench.judge(_known(model.estimator, name), model.estimator)
    tell(0.8, "losses")
    found = described(bench, test, groups, parts, names, [plain, judged])
    if not len(judged.components):
        return found
    plain_curves = bench.by_rank(PLAIN, trial)
    curves = (plain_curves, bench.prefix_curves(name, model.estimator))
    return replace(found, curves=tuple(curve for curve in curves if curve is not None))


def _n_components(estimator: Any) -> int:
    return int(getattr(estimator, "n_components_", None) or len(estimator.components_))


def _known(estimator: Any, name: str) -> MethodResult:
    """Start the model's row with what its class tells."""
    method = next((m for m in METHODS if m is not PLAIN and m.kind is type(estimator)), PLAIN)
    return MethodResult(name, method=method.name, series=name, aim=method.aim)
