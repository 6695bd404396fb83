"""What the bundled data sets contain and how the papers prepared them: one table per data set.

A recipe names columns and rows; it computes nothing. `fairpca.datasets.presets` applies it:
features = numeric columns (the protected one as 1.0 / 0.0) + one 0/1 column per category.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fairpca.datasets.recipe import Preset, Recipe, Split

__all__ = ["RAW", "RECIPES", "recipe"]

RAW = "raw"
"""The preset that encodes nothing and drops no row."""


def recipe(name: str) -> Recipe:
    """Return a bundled data set's recipe.

    Raises
    ------
    ValueError
        If there is no data set of that name.
    """
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
_GERMAN_CODES: dict[str, Mapping[str, str]] = {
    "status": {
        "A11": "< 0 DM",
        "A12": "0 to < 200 DM",
        "A13": ">= 200 DM or salary for a year",
        "A14": "no checking account",
    },
    "credit_history": {
        "A30": "no credits, or all paid back duly",
        "A31": "all at this bank paid back duly",
        "A32": "existing paid back duly till now",
        "A33": "delay in the past",
        "A34": "critical, or credits elsewhere",
    },
    "purpose": {
        "A40": "car (new)",
        "A41": "car (used)",
        "A42": "furniture/equipment",
        "A43": "radio/television",
        "A44": "domestic appliances",
        "A45": "repairs",
        "A46": "education",
        "A47": "vacation",
        "A48": "retraining",
        "A49": "business",
        "A410": "others",
    },
    "savings": {
        "A61": "< 100 DM",
        "A62": "100 to < 500 DM",
        "A63": "500 to < 1000 DM",
        "A64": ">= 1000 DM",
        "A65": "unknown or none",
    },
    "employment": {
        "A71": "unemployed",
        "A72": "< 1 year",
        "A73": "1 to < 4 years",
        "A74": "4 to < 7 years",
        "A75": ">= 7 years",
    },
    "personal_status": {
        "A91": "male, divorced/separated",
        "A92": "female, divorced/separated/married",
        "A93": "male, single",
        "A94": "male, married/widowed",
        "A95": "female, single",
    },
    "other_debtors": {"A101": "none", "A102": "co-applicant", "A103": "guarantor"},
    "property": {
        "A121": "real estate",
        "A122": "building society savings or life insurance",
        "A123": "car or other",
        "A124": "unknown or none",
    },
    "installment_plans": {"A141": "bank", "A142": "stores", "A143": "none"},
    "housing": {"A151": "rent", "A152": "own", "A153": "for free"},
    "skill_level": {
        "A171": "unemployed, or unskilled non-resident",
        "A172": "unskilled resident",
        "A173": "skilled employee/official",
        "A174": "management, self-employed or highly qualified",
    },
    "telephone": {"A191": "none", "A192": "registered"},
    "foreign_worker": {"A201": "yes", "A202": "no"},
    "credit": {"1": "good", "2": "bad"},
}

GERMAN_CREDIT = Recipe(
    name="german_credit",
    title="German credit (Statlog)",
    file="german.data",
    n_rows=1000,
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
    sensitive=("age_group", "sex"),
    presets={
        "mmd": Preset(_GERMAN_NUMERIC, _GERMAN_CATEGORICAL, (1000, 57)),
        "streaming": Preset(
            _GERMAN_NUMERIC,
            (*_GERMAN_CATEGORICAL[:5], "sex", *_GERMAN_CATEGORICAL[5:]),
            (1000, 59),
        ),
    },
    license=_CC_BY,
    source="https://doi.org/10.24432/C5NC77",
    codes=_GERMAN_CODES,
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

ADULT = Recipe(
    name="adult",
    title="Adult (census income)",
    file="adult.parquet",
    n_rows=45222,
    columns=_ADULT_COLUMNS,
    numbers=frozenset(_without(_ADULT_NUMERIC, "sex")) | {"fnlwgt"},
    features=_without(_ADULT_COLUMNS, "source", "fnlwgt", "income"),
    label="income",
    positive=">50K",
    protected="sex",
    splits={"sex": Split("sex", lambda t: pc.equal(t["sex"], "Male"), ("Male", "Female"))},
    sensitive=("sex", "race"),
    presets={
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
    """Those of the published rows that have a charge description: 6,167."""
    return pc.and_(_published_rows(t), pc.is_valid(t["c_charge_desc"]))


COMPAS = Recipe(
    name="compas",
    title="COMPAS (two-year recidivism)",
    file="compas.csv",
    n_rows=7214,
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
    sensitive=("race_group", "race", "sex", "age_cat"),
    presets={
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

RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {r.name: r for r in (GERMAN_CREDIT, ADULT, COMPAS)}
)
"""Every bundled data set by name."""
