"""A model that is fitted already, on a table: plain PCA is fitted on a random part of the rows.

Both are measured on the others, as in a comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from fairpca.data.choices import CRITERIA
from fairpca.data.files.table_source import check_columns
from fairpca.data.tables.encoder import TableEncoder
from fairpca.data.tables.roles import TableParts
from fairpca.methods.catalog import METHODS, PLAIN
from fairpca.models.files import Model
from fairpca.report.comparing.comparison import Progress, gathered, reissued_warnings
from fairpca.report.comparing.evaluation import Evaluation
from fairpca.report.comparing.result import Comparison, MethodResult, Settings
from fairpca.report.comparing.splits import check_table


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
    """Measure a fitted model, beside plain PCA of as many components, on a table.

    The table holds the columns that the model's encoder takes; `parts` are the same rows' groups
    and labels. The number of components and the criterion are the model's, not those of the
    settings, and so is the positive label where none is given. The rest is as of `compare_parts`.

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
    own, given = model.estimator, settings or Settings()
    n_components = int(getattr(own, "n_components_", None) or len(own.components_))
    positive = given.pos_label
    known = replace(
        given,
        n_components=n_components,
        n_ranks=min(n_components, given.n_ranks),
        repeats=1,
        criterion=getattr(own, "criterion", CRITERIA[0]),
        pos_label=getattr(own, "pos_label", None) if positive is None else positive,
    )
    with reissued_warnings(words) as notes:
        found = _measured(
            model.encoder, own, table, parts, known, name, progress or (lambda share, text: None)
        )
    columns = ", ".join(map(str, model.encoder.feature_names_in_))
    roles = f"The model takes the columns {columns}."
    return replace(found, title=title, audited=name, roles=roles, notes=(*remarks, *notes))


def _measured(
    encoder: TableEncoder,
    estimator: Any,
    table: pa.Table,
    parts: TableParts,
    settings: Settings,
    name: str,
    tell: Progress,
) -> Comparison:
    used = list(encoder.feature_names_in_)
    check_columns(used, table.column_names, "the table")
    parts = replace(parts, features=table.select(used))
    checked = check_table(parts, encoder, settings, fitted=True)
    evaluation = Evaluation(checked.split(encoder, settings, fitted=True), settings)
    tell(0.1, "plain PCA")
    (candidate,) = PLAIN.candidates(evaluation.facts(checked.groups))
    plain = evaluation.measure(candidate)
    tell(0.4, name)
    # What its class tells; a class without an entry is shown like plain PCA.
    method = next((m for m in METHODS if m is not PLAIN and m.kind is type(estimator)), PLAIN)
    row = MethodResult(name, method=method.name, series=name, aim=method.aim)
    audited = evaluation.measure_fitted(row, estimator)
    tell(0.8, "losses")
    found = gathered(evaluation, checked, [plain, audited])
    if not len(audited.components):
        return found
    curves = (evaluation.by_rank(candidate), evaluation.prefix_curves(name, estimator))
    return replace(found, curves=tuple(curve for curve in curves if curve is not None))
