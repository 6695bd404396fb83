"""Options that several commands share, and the checks of their values."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import typer

from fairpca.data.choices import CRITERIA

__all__ = [
    "BIN",
    "CATEGORICAL",
    "CRITERIA",
    "CRITERION",
    "CSV",
    "DATA",
    "DROP",
    "GROUPS_MISSING",
    "HTML",
    "KEEP_SENSITIVE",
    "LABEL",
    "MAX_CATEGORIES",
    "MAX_MMD",
    "MAX_SAMPLES",
    "MISSING",
    "MISSING_GROUPS",
    "MODEL",
    "NA_VALUES",
    "NO_HTML",
    "N_COMPONENTS",
    "POSITIVE_LABEL",
    "SCALE",
    "SEED",
    "SENSITIVE",
    "TEST_SIZE",
    "check_distinct",
    "checked",
    "choice",
    "few",
    "match_label",
    "parse_components",
    "read_target",
    "target_needs_label",
]

DATA = typer.Argument(
    help="A file (.csv, .tsv, .parquet, .arrow, .feather, .npy, .npz), or a bundled data set's "
    "name.",
    show_default=False,
)
MODEL = typer.Argument(help="The model file.", show_default=False)
SENSITIVE = typer.Option(
    "--sensitive",
    "-s",
    metavar="COL",
    help="A column that says which group a row belongs to, or a comparison that makes two groups "
    "of a numeric column, such as 'age>=25'. Repeat for several attributes.",
)
LABEL = typer.Option(
    "--label",
    "-y",
    metavar="COL",
    help="The column to predict, or a comparison such as 'score>=0.3'; not a feature.",
)
DROP = typer.Option(
    "--drop", "-d", metavar="COL", help="A column that is no feature, such as a name. Repeatable."
)
BIN = typer.Option(
    "--bin",
    metavar="COL=EDGES",
    help="Put a numeric sensitive column into classes, such as age=25,60. Repeatable.",
)
CATEGORICAL = typer.Option(
    metavar="COL", help="A numeric column whose numbers are codes. Repeatable."
)
KEEP_SENSITIVE = typer.Option("--keep-sensitive", help="Let sensitive columns be features too.")
CRITERION = typer.Option(
    help="demographic_parity, equal_opportunity or equalized_odds (the last two need --label)."
)
MAX_MMD = typer.Option(
    min=1e-15,
    help="The largest MMD² distribution-matching may leave between groups.  [default: 0.001]",
)
POSITIVE_LABEL = typer.Option(
    metavar="VALUE", help="The label that counts as positive, such as hired."
)
MISSING = typer.Option(
    help="Missing feature values: error, or impute (the mean; for text a category of its own)."
)
MISSING_GROUPS = typer.Option(
    help="Rows without group label: error, or unlabelled (in no group). A model's own choice where "
    "there is a model."
)
NA_VALUES = typer.Option(
    "--na-values",
    metavar="TEXT",
    help="What stands for a missing value in a CSV file, such as NA, besides the empty field; of a "
    "model, what did so when it was fitted. Repeatable.",
)
N_COMPONENTS = typer.Option(
    "--n-components",
    "-k",
    metavar="K",
    help="Components to keep: a number, a share such as 0.9 of the variance left after the "
    "constraint, or all.",
)
SCALE = typer.Option("--scale/--no-scale", help="Standardize numeric columns.")
MAX_CATEGORIES = typer.Option(
    min=2, help="The most values a text column may have, each of which becomes a feature."
)
TEST_SIZE = typer.Option(min=0.01, max=0.99, help="Share of rows held out to measure on.")
MAX_SAMPLES = typer.Option(
    min=100, help="The most rows to measure MMD² and leakage on, or train classifiers on."
)
HTML = typer.Option(help="The page to write, with figures and the same tables.")
NO_HTML = typer.Option("--no-html", help="Write no page.")
CSV = typer.Option(help="Write the numbers, unrounded: .csv or .parquet.")
SEED = typer.Option(help="Seed of everything random.")

GROUPS_MISSING: tuple[Literal["error", "unlabelled"], ...] = ("error", "unlabelled")

Value = TypeVar("Value", bound=str)


def choice(option: str, value: str, values: tuple[Value, ...]) -> Value:
    """Return the one of `values` that was given.

    Raises
    ------
    typer.BadParameter
        If it is none of them.
    """
    for known in values:
        if value == known:
            return known
    raise typer.BadParameter(f"{value!r} is not one of {', '.join(values)}.", param_hint=option)


def checked(option: str, check: Callable[[Any], object], value: Any) -> None:
    """Turn a ValueError about an option's value into wrong use of the command.

    Raises
    ------
    typer.BadParameter
        If the check raises ValueError.
    """
    try:
        check(value)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def read_target(text: str) -> Any:
    """Read ``--target``.

    Raises
    ------
    typer.BadParameter
        If it is no target.
    """
    from fairpca.model_selection import parse_target

    try:
        return parse_target(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--target") from error


def target_needs_label(target: Any) -> bool:
    """Whether a target compares what a classifier of the label does."""
    from fairpca.model_selection.targets import find_target

    return find_target(target.name).needs_label


def parse_components(text: str) -> int | float | None:
    """Read ``--n-components``: a whole number, a share of the variance in (0, 1), or ``all``.

    Raises
    ------
    typer.BadParameter
        If it is none of these.
    """
    if text == "all":
        return None
    try:
        number = int(text)
        if number >= 1:
            return number
    except ValueError:
        try:
            share = float(text)
            if 0 < share < 1:
                return share
        except ValueError:
            pass
    raise typer.BadParameter(
        f"{text!r} is neither a whole number of at least 1, a share of the variance between 0 and "
        "1, nor all.",
        param_hint="--n-components",
    )


def check_distinct(output: Path, *inputs: str | Path, option: str = "--output") -> None:
    """Refuse to write over what is being read; `option` named the output.

    Raises
    ------
    typer.BadParameter
        If the output is one of the inputs.
    """
    for path in map(Path, inputs):
        if os.path.exists(path) and os.path.exists(output) and path.samefile(output):
            raise typer.BadParameter(
                f"{output} is also the input; give another name.", param_hint=option
            )


def few(texts: Sequence[str], most: int = 40) -> str:
    """Join texts with commas, the first few where there are many."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def match_label(label: Any, wanted: str | None, known: Any, *, required: bool = False) -> Any:
    """Return the value of the label column that is written like the wanted one.

    Parameters
    ----------
    label : ndarray
        The labels of the rows, None without a label column.
    wanted : str, optional
        What the user named.
    known : object
        What counts as positive otherwise: in a bundled data set, or to a fitted model.
    required : bool
        Whether one is needed where labels do not tell.

    Raises
    ------
    ValueError
        If no row has it, it is required and not known, or there is no label column.
    """
    from fairpca.data.advice import AdviceError, Setting

    if label is None:
        raise ValueError("this needs a label column: name it with --label.")
    values = sorted(set(label.tolist()), key=str)
    shown = few([repr(str(v)) for v in values], 10)
    if wanted is None:
        if known is None and {str(v) for v in values} in ({"0", "1"}, {"-1", "1"}):
            return values[-1]
        if required and known is None and not set(values) <= {0, 1} | {-1, 1}:
            raise AdviceError(
                "say which label counts as positive (", Setting("pos_label"), f"): {shown}."
            )
        if known is None:
            return None
    for value in values:
        if str(value) == str(known if wanted is None else wanted):
            return value
    missed = str(known if wanted is None else wanted)
    start = f"no row has the label {missed!r}; there are {shown}. "
    alike = [str(v) for v in values if _bare_label(v) == _bare_label(missed)]
    if len(alike) == 1:
        raise AdviceError(
            start + "They differ in blanks, dots or case. If it is the same, say so: ",
            Setting("pos_label", alike[0]),
            ".",
        )
    raise AdviceError(start + "Name the one that counts as positive: ", Setting("pos_label"), ".")


def _bare_label(label: Any) -> str:
    """Return a label without the dots and blanks around it that copies of a table differ in."""
    return str(label).strip(" .\t\r\n\u00a0").casefold()
