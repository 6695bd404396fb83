"""What is wrong with a table's columns as features: gaps, identifiers, row numbers, odd numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairpca.data.advice import AdviceError, AdviceWarning, Setting, several
from fairpca.data.columns import MISSING, column_kind, count_missing, numbers
from fairpca.data.csv_codes import code_example
from fairpca.data.disguises import MOSTLY, THOUSANDS, check_not_disguised, is_number
from fairpca.data.warn import warn_caller

__all__ = [
    "MAX_CATEGORIES",
    "check_categories",
    "check_no_missing",
    "check_not_code",
    "check_not_row_number",
    "check_usable",
]

MAX_CATEGORIES = 1_000
"""The most values a text column may have unless the user says otherwise."""

_EXACT_UP_TO = 2**53
"""Whole numbers up to here are all float64 numbers."""


def check_usable(
    table: pa.Table,
    *,
    categorical: Collection[str] = (),
    impute: bool = False,
    max_categories: int | None = None,
) -> None:
    """Look at the whole table, and refuse it with everything that is wrong with its columns.

    Parameters
    ----------
    table : pyarrow.Table
        The feature columns.
    categorical : collection of str
        Columns to be treated as text, whatever they hold.
    impute : bool
        Whether missing values are filled in.
    max_categories : int, optional
        The most values of a text column; see `check_categories`.

    Raises
    ------
    AdviceError
        Naming every column that holds dates, nothing, infinite or missing values, names or
        identifiers, or numbers with a few other values among them.
    """
    if table.num_rows == 0:
        raise ValueError("the table has no rows.")
    found: list[AdviceError] = []
    for name in table.column_names:
        found += _column_problems(table[name], name, categorical, max_categories)
    if not impute:
        try:
            check_no_missing(table)
        except AdviceError as error:
            found.append(error)
    if found:
        raise several(found, "columns")


def check_no_missing(table: pa.Table, *, fitted: bool = False) -> None:
    """Raise AdviceError naming every column with missing values, and how many.

    With `fitted`, the rows are new ones, for which it is too late to choose.
    """
    counts = {name: count_missing(table[name]) for name in table.column_names}
    # A column of nothing is another problem, which filling in does not solve.
    found = {name: n for name, n in counts.items() if n and (fitted or n < table.num_rows)}
    if not found:
        return
    shown = ", ".join(f"{name!r} ({n})" for name, n in list(found.items())[:5])
    if len(found) > 5:
        shown += f" and {len(found) - 5} more"
    start = f"columns with missing values: {shown}, in {table.num_rows} rows. Fill them in, "
    impute = Setting("missing", "impute")
    if fitted:
        raise AdviceError(
            start + "or leave those rows out: these columns had none when the model was fitted. "
            "One that is fitted with ",
            impute,
            " fills them in itself.",
        )
    raise AdviceError(
        start + "drop the columns or rows, or set ",
        impute,
        " (the column's mean; a category of its own for text).",
    )


def check_categories(name: str, values: Sequence[str], n_rows: int, limit: int | None) -> None:
    """Refuse a text column with more than `limit` values; without a limit, warn of many.

    The automatic limit is 1,000, and half of the rows once above 50.
    """
    most = limit or min(MAX_CATEGORIES, max(50, n_rows // 2))
    if len(values) > most:
        raise _too_many(name, values, n_rows, most)
    words = _words(values)
    if len(values) >= 5 and 0 < len(words) <= len(values) // 4:
        warn_caller(
            AdviceWarning(
                f"column {name!r} is taken as text because of {words[0]!r}; its other values are "
                "numbers. If that stands for a missing number, say so: ",
                Setting("na_values", words[0]),
                ".",
            )
        )
    if limit is None and len(values) > max(50, n_rows // 20):
        warn_caller(
            AdviceWarning(
                f"column {name!r} has {len(values)} different values in {n_rows} rows, each of "
                "which becomes a feature. Leave it out if it is a name or an identifier (",
                Setting("drop", name),
                ").",
            )
        )


def check_not_code(field: pa.Field) -> None:
    """Warn of a numeric column that a CSV file writes as codes are written."""
    example = code_example(field)
    if example is None:
        return
    how = "leading zeros" if example.startswith("0") else "more digits than a number keeps"
    warn_caller(
        AdviceWarning(
            f"column {field.name!r} is taken as numbers, although it has values with {how}, such "
            f"as {example!r}. If they are codes, keep them as text: ",
            Setting("categorical", field.name),
            ".",
        )
    )


def check_not_row_number(column: pa.ChunkedArray, name: str) -> None:
    """Warn of a numeric column that counts the rows."""
    values = numbers(column, name)
    if len(values) > 20 and np.all(np.diff(values) == 1.0):
        warn_caller(
            AdviceWarning(
                f"column {name!r} counts up by one from row to row: it looks like a row number, "
                "not a feature. Leave it out if so (",
                Setting("drop", name),
                ").",
            )
        )


def _column_problems(
    column: pa.ChunkedArray, name: str, categorical: Collection[str], max_categories: int | None
) -> Iterator[AdviceError]:
    as_text = name in categorical
    try:
        kind = "text" if as_text else column_kind(column, name)
        if kind == "number":
            _check_exact(column, numbers(column, name), name)
    except AdviceError as error:
        yield error
        return
    if kind != "text":
        return
    text = _text(column)
    if not as_text and not pa.types.is_dictionary(column.type):
        counts = _counts(text)
        odd = _odd_values(counts)
        if odd:
            yield _mostly_numeric(text, name, odd)
            return
        try:
            check_not_disguised(name, counts)
        except AdviceError as error:
            yield error
            return
    values = [value for value in pc.unique(text).to_pylist() if value is not None]
    most = max_categories or min(MAX_CATEGORIES, max(50, len(column) // 2))
    if len(values) > most:
        yield _too_many(name, values, len(column), most)


def _check_exact(column: pa.ChunkedArray, values: NDArray[np.float64], name: str) -> None:
    """Refuse whole numbers so large that different ones become the same number."""
    if not pa.types.is_integer(column.type) or not np.nanmax(np.abs(values)) > _EXACT_UP_TO:
        return
    known = column.drop_null()
    if len(pc.unique(known)) > len(np.unique(values[~np.isnan(values)])):
        raise AdviceError(
            f"column {name!r} holds whole numbers beyond 2**53, such as {known[0].as_py()}, of "
            "which different ones would become the same number. It looks like an identifier: "
            "leave it out (",
            Setting("drop", name),
            "), or treat it as text (",
            Setting("categorical", name),
            ").",
            remedies=[Setting("drop", name)],
        )


def _text(column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    text = column.cast(pa.string())
    return text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text


def _counts(text: pa.Array) -> Counter[str]:
    """Return how often each value occurs."""
    pairs = pc.value_counts(text.drop_null()).to_pylist()
    return Counter({pair["values"]: pair["counts"] for pair in pairs})


def _odd_values(counts: Counter[str]) -> Counter[str]:
    """Return what is not plainly a number in a column that mostly is numbers, else nothing."""
    odd = Counter({value: n for value, n in counts.items() if not is_number(value)})
    like = sum(n for value, n in odd.items() if THOUSANDS.fullmatch(value.strip()))
    share = (counts.total() - odd.total() + like) / max(1, counts.total())
    return odd if share > MOSTLY else Counter()


def _mostly_numeric(text: pa.Array, name: str, odd: Counter[str]) -> AdviceError:
    commas = [value for value in odd if THOUSANDS.fullmatch(value.strip())]
    words = [value for value in odd if value not in commas]
    parts: list[str | Setting] = [
        f"column {name!r} holds numbers, but not in {odd.total()} of {len(text)} rows: "
        f"{'; '.join(_places(text, odd))}."
    ]
    remedies = [Setting("na_values", word) for word in words[:5]]
    if commas:
        parts.append(
            f" Write numbers without thousands separators, {commas[0].replace(',', '')} for "
            f"{commas[0]}."
        )
    if words:
        parts.append(f" If {'they stand' if len(words) > 1 else 'it stands'} for a missing number:")
        for remedy in remedies:
            parts += [" ", remedy]
        parts.append(".")
    if not commas:
        parts += [" If the values are names of things: ", Setting("categorical", name), "."]
    return AdviceError(*parts, remedies=remedies)


def _places(text: pa.Array, odd: Counter[str]) -> Iterator[str]:
    """Say where the most frequent odd values stand; the first row of data is row 1."""
    for value, n in odd.most_common(3):
        rows = pc.indices_nonzero(pc.equal(text, value)).to_pylist()
        shown = ", ".join(str(row + 1) for row in rows[:3])
        yield f"{value!r} in row{'s' if n > 1 else ''} {shown}{', …' if n > 3 else ''}"
    if len(odd) > 3:
        yield f"and {len(odd) - 3} more values"


def _too_many(name: str, values: Sequence[str], n_rows: int, limit: int) -> AdviceError:
    words = _words(values)
    parts: list[str | Setting] = [
        f"column {name!r} has {len(values)} different values in {n_rows} rows, more than the "
        f"{limit} allowed for text. "
    ]
    if 0 < len(words) <= len(values) // 2:
        parts += [
            f"Most are numbers; the rest are not, such as {words[0]!r}. Correct or empty those "
            "fields to make it a numeric column, leave it out ("
        ]
    else:
        parts += ["It looks like a name or an identifier: leave it out ("]
    parts += [Setting("drop", name), "), or raise ", Setting("max_categories"), "."]
    return AdviceError(*parts)


def _words(values: Sequence[str]) -> list[str]:
    return [value for value in values if value != MISSING and not is_number(value)]
