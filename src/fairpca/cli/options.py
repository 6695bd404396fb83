"""Options that several commands share, each declared once, and the checks of their values.

A command takes a whole dataclass of options as one parameter: `fairpca.cli.console.command` gives
the command line an option for each of its fields, of the same name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import StrEnum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from fairpca.data.tables.encoder import TableEncoder


class Criterion(StrEnum):
    """As of the estimators."""

    demographic_parity = auto()
    equal_opportunity = auto()
    equalized_odds = auto()


class MissingGroups(StrEnum):
    """What becomes of rows without group label."""

    error = auto()
    unlabelled = auto()

    @property
    def plain(self) -> Literal["error", "unlabelled"]:
        """The value as the estimators take it."""
        return "unlabelled" if self is MissingGroups.unlabelled else "error"


class Missing(StrEnum):
    """What becomes of missing feature values."""

    error = auto()
    impute = auto()


def parsed(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Let a function read an option's value: its ValueError is wrong use of the command."""

    def parse(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    return parse


def _n_components(text: str) -> int | float | None:
    """Read a whole number, a share of the variance in (0, 1), or ``all``."""
    if text == "all":
        return None
    with suppress(ValueError):
        if int(text) >= 1:
            return int(text)
    with suppress(ValueError):
        if 0 < float(text) < 1:
            return float(text)
    raise ValueError(
        f"{text!r} is neither a whole number of at least 1, a share of the variance between 0 and "
        "1, nor all."
    )


DATA = typer.Argument(
    help="A file (.csv, .tsv, .parquet, .arrow, .feather, .npy, .npz), or a bundled data set's "
    "name.",
    show_default=False,
)
Data = Annotated[str, DATA]
Model = Annotated[Path, typer.Argument(help="The model file.", show_default=False)]
NaValues = Annotated[
    list[str],
    typer.Option(
        "--na-values",
        metavar="TEXT",
        help="What stands for a missing value in a CSV file, such as NA, besides the empty field; "
        "of a model, what did so when it was fitted. Repeatable.",
    ),
]
NComponents = Annotated[
    Any,
    typer.Option(
        "--n-components",
        "-k",
        metavar="K",
        parser=parsed(_n_components),
        help="Components to keep: a number, a share such as 0.9 of the variance left after the "
        "constraint, or all.",
    ),
]
MaxMmd = Annotated[
    float | None,
    typer.Option(
        min=1e-15,
        help="The largest MMD² distribution-matching may leave between groups.  [default: 0.001]",
    ),
]
CriterionOption = Annotated[
    Criterion, typer.Option(help="Whose groups are made alike; the last two need --label.")
]
PositiveLabel = Annotated[
    str | None,
    typer.Option(metavar="VALUE", help="The label that counts as positive, such as hired."),
]
MISSING_GROUPS = typer.Option(
    help="Rows without group label: error, or unlabelled (in no group). A model's own choice where "
    "there is a model."
)
MissingGroupsOption = Annotated[MissingGroups, MISSING_GROUPS]
Seed = Annotated[int, typer.Option(help="Seed of everything random.")]


@dataclass(frozen=True)
class GroupOptions:
    """Which columns say the groups and the label, and how a file is read."""

    sensitive: Annotated[
        list[str],
        typer.Option(
            "--sensitive",
            "-s",
            metavar="COL",
            help="A column that says which group a row belongs to, or a comparison that makes two "
            "groups of a numeric column, such as 'age>=25'. Repeat for several attributes.",
        ),
    ] = field(default_factory=list)
    label: Annotated[
        str | None,
        typer.Option(
            "--label",
            "-y",
            metavar="COL",
            help="The column to predict, or a comparison such as 'score>=0.3'; not a feature.",
        ),
    ] = None
    bin: Annotated[
        list[str],
        typer.Option(
            "--bin",
            metavar="COL=EDGES",
            help="Put a numeric sensitive column into classes, such as age=25,60. Repeatable.",
        ),
    ] = field(default_factory=list)
    na_values: NaValues = field(default_factory=list)


@dataclass(frozen=True)
class FeatureOptions:
    """Which columns are features, and how they are encoded."""

    drop: Annotated[
        list[str],
        typer.Option(
            "--drop",
            "-d",
            metavar="COL",
            help="A column that is no feature, such as a name. Repeatable.",
        ),
    ] = field(default_factory=list)
    categorical: Annotated[
        list[str],
        typer.Option(metavar="COL", help="A numeric column whose numbers are codes. Repeatable."),
    ] = field(default_factory=list)
    keep_sensitive: Annotated[
        bool, typer.Option("--keep-sensitive", help="Let sensitive columns be features too.")
    ] = False
    missing: Annotated[
        Missing,
        typer.Option(
            help="Missing feature values: error, or impute (the mean; for text a category of its "
            "own)."
        ),
    ] = Missing.error
    scale: Annotated[
        bool, typer.Option("--scale/--no-scale", help="Standardize numeric columns.")
    ] = True
    max_categories: Annotated[
        int | None,
        typer.Option(
            min=2, help="The most values a text column may have, each of which becomes a feature."
        ),
    ] = None

    def encoder(self) -> TableEncoder:
        """Return the unfitted encoder."""
        from fairpca.data.tables.encoder import TableEncoder

        return TableEncoder(
            scale=self.scale,
            missing="impute" if self.missing is Missing.impute else "error",
            categorical=tuple(self.categorical),
            max_categories=self.max_categories,
        )


@dataclass(frozen=True)
class Measuring:
    """How methods are measured, and where the results go."""

    test_size: Annotated[
        float, typer.Option(min=0.01, max=0.99, help="Share of rows held out to measure on.")
    ] = 0.3
    max_samples: Annotated[
        int,
        typer.Option(
            min=100, help="The most rows to measure MMD² and leakage on, or train classifiers on."
        ),
    ] = 3000
    html: Annotated[
        Path, typer.Option(help="The page to write, with figures and the same tables.")
    ] = Path("fairpca-report.html")
    no_html: Annotated[bool, typer.Option("--no-html", help="Write no page.")] = False
    csv: Annotated[
        Path | None, typer.Option(help="Write the numbers, unrounded: .csv or .parquet.")
    ] = None

    @property
    def page(self) -> Path | None:
        """The page to write, if one is wanted."""
        return None if self.no_html else self.html

    @property
    def csv_by_rank(self) -> Path | None:
        """The file of the losses by number of components, beside the other."""
        csv = self.csv
        return None if csv is None else csv.with_name(f"{csv.stem}_by_rank{csv.suffix}")


def default_of(option: Field[Any]) -> Any:
    """Return the default of an option that is a field of a dataclass."""
    return option.default if option.default_factory is MISSING else option.default_factory()


def changed(options: Any) -> dict[str, Any]:
    """Return the options of a dataclass that do not have their default, with plain values."""
    values = {f.name: (getattr(options, f.name), default_of(f)) for f in fields(options)}
    return {
        name: value.value if isinstance(value, StrEnum) else value
        for name, (value, default) in values.items()
        if value != default
    }


def as_words(*options: Any) -> list[str]:
    """Write the options that do not have their default as one types them.

    Examples
    --------
    >>> as_words(GroupOptions(["sex", "age>=25"]), FeatureOptions(scale=False))
    ['--sensitive', 'sex', '--sensitive', 'age>=25', '--no-scale']
    """
    words: list[str] = []
    for name, value in ((n, v) for each in options for n, v in changed(each).items()):
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{'' if value else 'no-'}{flag}")
        else:
            for one in value if isinstance(value, list) else [value]:
                words += [f"--{flag}", str(one)]
    return words


def check_distinct(output: Path, *inputs: str | Path, option: str = "--output") -> None:
    """Refuse to write over what is being read; `option` named the output."""
    for path in map(Path, inputs):
        if os.path.exists(path) and os.path.exists(output) and path.samefile(output):
            raise typer.BadParameter(
                f"{output} is also the input; give another name.", param_hint=option
            )


def check_table_kind(output: Path, *, option: str = "--output") -> None:
    """Refuse a name whose suffix is no kind of table that can be written."""
    from fairpca.data.files.kinds import output_suffix

    try:
        output_suffix(output)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def few(texts: Sequence[str], most: int = 40) -> str:
    """Join texts with commas, the first few where there are many."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
