"""Bundled data sets about people, ready for fair PCA, offline.

Each loader gives the features of a published experiment (`preset`), or the raw table, with the
sensitive attribute as readable labels and the license, source and cautions in ``DESCR``. A recipe
says once what a data set is (`recipes`), `bundle` reads its files, `presets` encodes it. Problems
with known answers and the papers' splits are here too. May import `fairpca.data`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Literal

import narwhals as nw
import numpy as np
import pyarrow as pa
from sklearn.utils import Bunch

from fairpca.datasets.bundle import codes, describe, list_datasets
from fairpca.datasets.presets import Prepared, labels_of, prepare
from fairpca.datasets.recipes import RAW, DatasetInfo, recipe

__all__ = ["DatasetInfo", "list_datasets", "load_adult", "load_compas", "load_german_credit"]

FrameType = Literal["pandas", "polars", "pyarrow"]


def load_german_credit(
    *,
    preset: Literal["mmd", "streaming", "raw"] = "mmd",
    sensitive: str | Sequence[str] = "age_group",
    as_frame: bool = False,
    frame_type: FrameType | None = None,
) -> Bunch:
    """Load German credit: 1,000 applicants, good or bad credit risk (CC BY 4.0).

    Parameters
    ----------
    preset : {"mmd", "streaming", "raw"}
        "mmd": 1000 × 57, the encoding of [1]_. "streaming": 1000 × 59, that of [2]_, with sex among
        the features. In both the column ``age`` is 1 for 25 or older, else 0. "raw": the 20
        feature columns as a table, nothing encoded.
    sensitive : {"age_group", "sex"} or list of them
        The attribute(s) to return.
    as_frame : bool
        Return `data` as a data frame with column names.
    frame_type : {"pandas", "polars", "pyarrow"}, optional
        The kind of every data frame returned; pandas if it is installed, otherwise pyarrow.

    Returns
    -------
    Bunch
        data : ndarray of shape (n_samples, n_features), float64, unscaled, or a data frame.
        target : ndarray of int, shape (n_samples,); 1 = bad risk.
        target_names : list of str, the label of 0 and of 1.
        sensitive_features : ndarray of text, shape (n_samples,); for several attributes a dict of
        such arrays by name. Both can be given to ``fit(..., sensitive_features=)``.
        feature_names : list of str.
        frame : data frame of all columns, row by row the people of `data`.
        DESCR : str. preset : str. codes : dict, the published code of each label, by column.

    Raises
    ------
    ValueError
        If `preset`, `sensitive` or `frame_type` is not one of the above.
    ImportError
        If the package that `frame_type` names is not installed.

    References
    ----------
    .. [1] Lee, J., Kim, G., Olfat, M., Hasegawa-Johnson, M. and Yoo, C. D. (2022). Fast and
       Efficient MMD-based Fair PCA via Optimization over Stiefel Manifold. AAAI.
    .. [2] Lee, J., Cho, H., Yun, S.-Y. and Yun, C. (2023). Fair Streaming Principal Component
       Analysis: Statistical and Algorithmic Viewpoint. NeurIPS.

    Examples
    --------
    >>> credit = load_german_credit()
    >>> credit.data.shape, credit.feature_names[7], credit.sensitive_features[1]
    ((1000, 57), 'status=< 0 DM', np.str_('under 25'))
    """
    bunch = _load("german_credit", preset, sensitive, as_frame=as_frame, frame_type=frame_type)
    bunch.codes = {
        column: {label: code for code, label in meaning.items()}
        for column, meaning in codes("german_credit").items()
    }
    return bunch


def load_adult(
    *,
    preset: Literal["mmd", "streaming", "raw"] = "mmd",
    sensitive: str | Sequence[str] = "sex",
    as_frame: bool = False,
    frame_type: FrameType | None = None,
) -> Bunch:
    """Load Adult: 45,222 people of a US survey of 1994, income above 50,000 or not (CC BY 4.0).

    Parameters
    ----------
    preset : {"mmd", "streaming", "raw"}
        "mmd": 45222 × 97, without race. "streaming": 45222 × 102, with race, rows of UCI's test
        file first. In both the column ``sex`` is 1 for Male, else 0. "raw": the 13 feature columns
        as a table, nothing encoded.
    sensitive : {"sex", "race"} or list of them
        The attribute(s) to return.
    as_frame, frame_type
        As in `load_german_credit`.

    Returns
    -------
    Bunch
        As in `load_german_credit`, without ``codes``; target 1 = income above 50,000. The errors
        are the same.

    Examples
    --------
    >>> adult = load_adult(sensitive=["sex", "race"])
    >>> adult.data.shape, sorted(adult.sensitive_features)
    ((45222, 97), ['race', 'sex'])
    """
    return _load("adult", preset, sensitive, as_frame=as_frame, frame_type=frame_type)


def load_compas(
    *,
    preset: Literal["mmd", "mmd_6172", "streaming", "raw"] = "mmd",
    sensitive: str | Sequence[str] = "race_group",
    as_frame: bool = False,
    frame_type: FrameType | None = None,
) -> Bunch:
    """Load COMPAS: people scored on arrest, new charge within two years or not (no license stated).

    Parameters
    ----------
    preset : {"mmd", "mmd_6172", "streaming", "raw"}
        "mmd": 6167 × 11. "mmd_6172": the same with the 5 rows that have no charge description.
        "streaming": 6167 × 402, with sex and charge description. In all of them the column
        ``race`` is 1 for Caucasian, else 0. "raw": all 7,214 rows, 9 feature columns as a table,
        nothing encoded.
    sensitive : {"race_group", "race", "sex", "age_cat"} or list of them
        The attribute(s) to return; "race_group" is Caucasian or not.
    as_frame, frame_type
        As in `load_german_credit`.

    Returns
    -------
    Bunch
        As in `load_german_credit`, without ``codes``; target 1 = charged again within two years.
        The errors are the same.

    Examples
    --------
    >>> compas = load_compas()
    >>> compas.data.shape, compas.sensitive_features[0]
    ((6167, 11), np.str_('not Caucasian'))
    """
    return _load("compas", preset, sensitive, as_frame=as_frame, frame_type=frame_type)


def _load(
    name: str,
    preset: str,
    sensitive: str | Sequence[str],
    *,
    as_frame: bool,
    frame_type: FrameType | None,
) -> Bunch:
    info = recipe(name)
    kind = _frame_type(frame_type)
    wanted = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    unknown = [repr(column) for column in wanted if column not in info.sensitive_columns]
    if unknown or not wanted:
        found = f"has no sensitive attribute {', '.join(unknown)}" if unknown else "needs one"
        known = ", ".join(info.sensitive_columns)
        raise ValueError(f"sensitive: {name} {found}; choose from {known}.")
    prepared = prepare(name, preset)
    frame, data, target = prepared.frame, prepared.data, prepared.target
    if as_frame and not isinstance(data, pa.Table):
        data = pa.table(dict(zip(prepared.feature_names, data.T, strict=True)))
    groups = {column: labels_of(frame, column) for column in wanted}
    first = [int(np.argmax(target == value)) for value in (0, 1)]
    return Bunch(
        data=_to_frame(data, kind) if isinstance(data, pa.Table) else data,
        target=target,
        target_names=[str(frame[info.label][i].as_py()) for i in first],
        sensitive_features=groups[sensitive] if isinstance(sensitive, str) else groups,
        feature_names=list(prepared.feature_names),
        frame=_to_frame(frame, kind),
        DESCR=_describe(name, preset, prepared),
        preset=preset,
    )


def _frame_type(frame_type: FrameType | None) -> FrameType:
    if frame_type is None:
        return "pandas" if _importable("pandas") else "pyarrow"
    if frame_type not in ("pandas", "polars", "pyarrow"):
        raise ValueError(f"frame_type={frame_type!r}: choose 'pandas', 'polars' or 'pyarrow'.")
    if not _importable(frame_type):
        raise ImportError(
            f"frame_type={frame_type!r} needs the package {frame_type}: install it, or use "
            "frame_type='pyarrow'."
        )
    return frame_type


def _importable(package: str) -> bool:
    try:
        import_module(package)
    except ImportError:
        return False
    return True


def _to_frame(table: pa.Table, kind: FrameType) -> Any:
    return nw.from_arrow(table, backend=kind).to_native()


def _describe(name: str, preset: str, prepared: Prepared) -> str:
    rows, columns = prepared.frame.num_rows, len(prepared.feature_names)
    positive = int(prepared.target.sum())
    what = "nothing encoded" if preset == RAW else "encoded, unscaled"
    return (
        f"{describe(name)}\n## This copy\n\n"
        f"Preset {preset}: {rows} rows, {columns} features, {what}; "
        f"target 1 in {positive} rows, 0 in {rows - positive}.\n"
    )
