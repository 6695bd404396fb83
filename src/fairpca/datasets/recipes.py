"""Recipes: what each bundled data set contains and how the papers prepared it.

A recipe names columns and rows; it computes nothing. `fairpca.datasets.presets` applies it:
features = numeric columns (the protected one as 1.0 / 0.0) + one 0/1 column per category.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

RAW = "raw"
"""The preset that encodes nothing and drops no row."""

Mask = Callable[[pa.Table], Any]
"""A function of a table that gives one boolean per row."""


@dataclass(frozen=True)
class Split:
    """A two-group attribute read off one column.

    `first` is true for the rows of the first (in the papers, the privileged) group; `labels` are
    the names of the first group and of the other one.
    """

    column: str
    first: Mask
    labels: tuple[str, str]


@dataclass(frozen=True)
class Preset:
    """One way to turn the table into a matrix with `shape` rows and columns.

    Columns in `numeric` are taken as numbers, the protected one as 1.0 for the first group and 0.0
    for the other; then come those in `categorical`, as one 0/1 column per category. `rows` says
    which rows to keep, all by default; those with `first_source` in the column ``source`` come
    first.
    """

    numeric: tuple[str, ...]
    categorical: tuple[str, ...]
    shape: tuple[int, int]
    rows: Mask | None = None
    first_source: str | None = None


@dataclass(frozen=True)
class DatasetInfo:
    """A bundled data set: its columns, groups, label, license and source, and how it is prepared.

    Parameters
    ----------
    name, title : str
        The name to load it by, and the name people know.
    features : tuple of str
        The columns to start from: neither the label nor derived from another column.
    sensitive_columns : tuple of str
        Every column that can serve as sensitive attribute, the presets' own first.
    label : str
        The column to predict.
    positive : str or int
        The value of `label` that counts as 1.
    license, source : str
        One line each; ``DESCR`` of a loaded data set has the whole text.
    file : str
        The file's name in the package; its description is ``<name>.md``.
    columns : tuple of str
        All columns of the file, in order.
    numbers : frozenset of str
        The columns that hold whole numbers; the others hold text.
    protected : str
        The name in `splits` of the presets' attribute.
    splits : mapping of str to Split
        Two-group attributes. One that is named like a column reads that column; the others are
        added to the table.
    encodings : mapping of str to Preset
        How each preset makes a matrix, the default first.
    codes_file : str, optional
        The name of the file that says, by column, what each code in it means.

    Attributes
    ----------
    n_rows : int
        Rows of the table in the default preset.
    sensitive : str
        The default sensitive column.
    presets : dict of str to tuple of two int
        Rows and columns of the encoded matrix, by preset.
    """

    name: str
    title: str
    features: tuple[str, ...]
    sensitive_columns: tuple[str, ...]
    label: str
    positive: str | int
    license: str
    source: str
    file: str = field(repr=False)
    columns: tuple[str, ...] = field(repr=False)
    numbers: frozenset[str] = field(repr=False)
    protected: str = field(repr=False)
    splits: Mapping[str, Split] = field(repr=False)
    encodings: Mapping[str, Preset] = field(repr=False)
    codes_file: str | None = field(default=None, repr=False)

    @property
    def default_preset(self) -> Preset:
        """How the data set is prepared by default."""
        return next(iter(self.encodings.values()))

    @property
    def n_rows(self) -> int:
        """Rows of the table in the default preset."""
        return self.default_preset.shape[0]

    @property
    def sensitive(self) -> str:
        """The default sensitive column."""
        return self.sensitive_columns[0]

    @property
    def presets(self) -> dict[str, tuple[int, int]]:
        """Rows and columns of the encoded matrix, by preset."""
        return {name: preset.shape for name, preset in self.encodings.items()}


def recipe(name: str) -> DatasetInfo:
    """Return a bundled data set's recipe; ValueError if there is none of that name."""
    if name not in RECIPES:
        raise ValueError(f"no bundled data set {name!r}: choose one of {', '.join(RECIPES)}.")
    return RECIPES[name]


def _without(columns: tuple[str, ...], *dropped: str) -> tuple[str, ...]:
    return tuple(c for c in columns if c not in dropped)


_CC_BY = "CC BY 4.0, as stated by UCI"

# ---- German credit ------------------------------------------------------------------------------

_GERMAN_COLUMNS = (
    "status", "month", "credit_history", "purpose", "credit_amount", "savings", "employment",
    "investment_as_income_percentage", "personal_status", "other_debtors", "residence_since",
    "property", "age", "installment_plans", "housing", "number_of_credits", "skill_level",
    "people_liable_for", "telephone", "foreign_worker", "credit",
)  # fmt: skip
_GERMAN_NUMERIC = (
    "month", "credit_amount", "investment_as_income_percentage", "residence_since", "age",
    "number_of_credits", "people_liable_for",
)  # fmt: skip
_GERMAN_CATEGORICAL = (
    "status", "credit_history", "purpose", "savings", "employment", "other_debtors", "property",
    "installment_plans", "housing", "skill_level", "telephone", "foreign_worker",
)  # fmt: skip

GERMAN_CREDIT = DatasetInfo(
    name="german_credit",
    title="German credit (Statlog)",
    file="german.data",
    columns=_GERMAN_COLUMNS,
    numbers=frozenset(_GERMAN_NUMERIC),
    features=_without(_GERMAN_COLUMNS, "credit"),
    label="credit",
    positive="bad",
    protected="age_group",
    splits={
        "age_group": Split(
            "age", lambda t: pc.greater_equal(t["age"], 25), ("25 or older", "under 25")
        ),
        "sex": Split(
            "personal_status", lambda t: pc.starts_with(t["personal_status"], "male"),
            ("Male", "Female"),
        ),
    },
    sensitive_columns=("age_group", "sex"),
    encodings={
        "mmd": Preset(_GERMAN_NUMERIC, _GERMAN_CATEGORICAL, (1000, 57)),
        "streaming": Preset(
            _GERMAN_NUMERIC,
            (*_GERMAN_CATEGORICAL[:5], "sex", *_GERMAN_CATEGORICAL[5:]),
            (1000, 59),
        ),
    },
    license=_CC_BY,
    source="https://doi.org/10.24432/C5NC77",
    codes_file="german_codes.json",
)  # fmt: skip

# ---- Adult --------------------------------------------------------------------------------------

_ADULT_COLUMNS = (
    "source", "age", "workclass", "fnlwgt", "education", "education-num", "marital-status",
    "occupation", "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
    "native-country", "income",
)  # fmt: skip
_ADULT_NUMERIC = (
    "age", "education-num", "sex", "capital-gain", "capital-loss", "hours-per-week",
)  # fmt: skip
_ADULT_CATEGORICAL = (
    "workclass", "education", "marital-status", "occupation", "relationship", "native-country",
)  # fmt: skip

ADULT = DatasetInfo(
    name="adult",
    title="Adult (census income)",
    file="adult.parquet",
    columns=_ADULT_COLUMNS,
    numbers=frozenset(_without(_ADULT_NUMERIC, "sex")) | {"fnlwgt"},
    features=_without(_ADULT_COLUMNS, "source", "fnlwgt", "income"),
    label="income",
    positive=">50K",
    protected="sex",
    splits={"sex": Split("sex", lambda t: pc.equal(t["sex"], "Male"), ("Male", "Female"))},
    sensitive_columns=("sex", "race"),
    encodings={
        "mmd": Preset(_ADULT_NUMERIC, _ADULT_CATEGORICAL, (45222, 97)),
        "streaming": Preset(
            _ADULT_NUMERIC,
            (*_ADULT_CATEGORICAL[:5], "race", *_ADULT_CATEGORICAL[5:]),
            (45222, 102),
            first_source="adult.test",
        ),
    },
    license=_CC_BY,
    source="https://doi.org/10.24432/C5XW20",
)

# ---- COMPAS -------------------------------------------------------------------------------------

_COMPAS_COLUMNS = (
    "sex", "age", "age_cat", "race", "juv_fel_count", "decile_score", "juv_misd_count",
    "juv_other_count", "priors_count", "days_b_screening_arrest", "c_charge_degree",
    "c_charge_desc", "is_recid", "score_text", "two_year_recid",
)  # fmt: skip
_COMPAS_NUMERIC = (
    "age", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count",
)  # fmt: skip


def _published_rows(t: pa.Table) -> Any:
    """Return the rows of ProPublica's analysis: 6,172 of 7,214.

    A row without its days before the arrest is unknown here and so left out.
    """
    days = pc.less_equal(pc.abs(t["days_b_screening_arrest"]), 30)
    return pc.and_(
        pc.and_(days, pc.not_equal(t["is_recid"], -1)),
        pc.and_(pc.not_equal(t["c_charge_degree"], "O"), pc.not_equal(t["score_text"], "N/A")),
    )


def _described_rows(t: pa.Table) -> Any:
    """Return the published rows that have a charge description: 6,167."""
    return pc.and_(_published_rows(t), pc.is_valid(t["c_charge_desc"]))


COMPAS = DatasetInfo(
    name="compas",
    title="COMPAS (two-year recidivism)",
    file="compas.csv",
    columns=_COMPAS_COLUMNS,
    numbers=frozenset(
        (
            *_without(_COMPAS_NUMERIC, "race"),
            "decile_score", "days_b_screening_arrest", "is_recid", "two_year_recid",
        )
    ),
    features=(
        "sex", "age", "age_cat", "race", "juv_fel_count", "juv_misd_count", "juv_other_count",
        "priors_count", "c_charge_degree",
    ),
    label="two_year_recid",
    positive=1,
    protected="race_group",
    splits={
        "race_group": Split(
            "race", lambda t: pc.equal(t["race"], "Caucasian"), ("Caucasian", "not Caucasian")
        )
    },
    sensitive_columns=("race_group", "race", "sex", "age_cat"),
    encodings={
        "mmd": Preset(
            _COMPAS_NUMERIC, ("age_cat", "c_charge_degree"), (6167, 11), _described_rows
        ),
        "mmd_6172": Preset(
            _COMPAS_NUMERIC, ("age_cat", "c_charge_degree"), (6172, 11), _published_rows
        ),
        "streaming": Preset(
            _COMPAS_NUMERIC,
            ("sex", "age_cat", "c_charge_degree", "c_charge_desc"),
            (6167, 402),
            _described_rows,
        ),
    },
    license="none stated",
    source="https://github.com/propublica/compas-analysis",
)  # fmt: skip

RECIPES: Mapping[str, DatasetInfo] = MappingProxyType(
    {r.name: r for r in (GERMAN_CREDIT, ADULT, COMPAS)}
)
"""Every bundled data set by name."""
