"""Problems of a table's columns as features: gaps, identifiers, row numbers, odd numbers.

Everything is decided from a `TableProfile`, so a table read in blocks gets the same errors and
warnings as one read whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairpca.data.advice import AdviceError, AdviceWarning, Setting, several
from fairpca.data.files.csv_text import code_example
from fairpca.data.row_numbers import COUNTED
from fairpca.data.tables.column_profile import NumberProfile, TableProfile, TextProfile
from fairpca.data.tables.columns import (
    MISSING,
    count_missing,
    refuse_empty,
    refuse_infinite,
)
from fairpca.data.tables.disguises import (
    GROUPED,
    MOSTLY,
    disguised,
    has_comma,
    is_number,
    rewritten,
)
from fairpca.data.warn import warn_caller

Floats = NDArray[np.float64]

MAX_CATEGORIES = 1_000
"""The most distinct values of a text column by default; each becomes a feature."""


def check_usable(profile: TableProfile, *, impute: bool = False) -> None:
    """Raise AdviceError if columns of a table, all of whose rows are in the profile, are unusable.

    The error names every column that holds dates, nothing, infinite or missing values (unless they
    are imputed), names or identifiers, or numbers with a few other values among them.
    """
    found = [p for name in profile.names for p in _column_problems(profile, name)]
    _raise(found, profile, impute=impute)


def check_so_far(profile: TableProfile, *, impute: bool = False) -> None:
    """Raise AdviceError as `check_usable` does, for problems that later rows cannot remove.

    A text column is refused only if it already has too many values.
    """
    found = list(profile.unusable.values())
    for name, column in profile.columns.items():
        if isinstance(column, NumberProfile):
            found += _number_problems(name, column)
        elif len(column.values) > (profile.max_categories or MAX_CATEGORIES):
            found += _text_problems(name, column, profile.max_categories)
    _raise(found, profile, impute=impute)


def check_scalable(
    profile: TableProfile,
    names: Sequence[str],
    means: Floats,
    variances: Floats,
    *,
    all_rows: bool = False,
) -> None:
    """Refuse numbers whose squares overflow in float64, or vanish although the numbers differ.

    `names` are the numeric columns; `means` and `variances`, shape (n_numeric,), are those of the
    rows so far. Small numbers are refused only after `all_rows`: larger ones may follow.
    """
    for name, mean, variance in zip(names, means, variances, strict=True):
        if not np.isfinite(mean) or not np.isfinite(variance):
            raise ValueError(
                f"column {name!r} holds numbers too large to be squared in float64. Give it in a "
                "larger unit (divide it, by 1e150 for example)."
            )
        column = profile.columns[name]
        if not all_rows or variance >= 1e-290 or not isinstance(column, NumberProfile):
            continue
        size = max(abs(column.smallest), abs(column.largest))
        if size < 1e-140 and column.largest > column.smallest:
            raise ValueError(
                f"column {name!r} holds numbers too small to be squared in float64. Give it in a "
                "smaller unit (multiply it, by 1e150 for example)."
            )


def warn_of_columns(profile: TableProfile) -> None:
    """Warn of usable columns that look like row numbers, names, or numbers taken as text."""
    for name, column in profile.columns.items():
        if isinstance(column, TextProfile):
            _warn_of_text(name, column, profile.max_categories)
        elif column.n_rows > 20 and column.is_row_number:
            _warn(
                f"column {name!r} counts up by one from row to row: it looks like a row number, "
                "not a feature. Leave it out if so (",
                Setting("drop", name),
                ").",
            )


def check_no_missing(table: pa.Table) -> None:
    """Refuse new rows with missing values, where the encoder was fitted without imputing."""
    counts = {name: count_missing(table[name]) for name in table.column_names}
    found = {name: n for name, n in counts.items() if n}
    if found:
        raise AdviceError(
            _missing(found, table.num_rows),
            "or leave those rows out: these columns had none when the model was fitted. A model "
            "fitted with ",
            Setting("missing", "impute"),
            " fills them in itself.",
        )


def check_not_code(field: pa.Field) -> None:
    """Warn of a numeric column whose text in a CSV file looks like codes."""
    example = code_example(field)
    if example is None:
        return
    how = "leading zeros" if example.startswith("0") else "more digits than a number keeps"
    _warn(
        f"column {field.name!r} is taken as numbers, although it has values with {how}, such as "
        f"{example!r}. If they are codes, keep them as text: ",
        Setting("categorical", field.name),
        ".",
    )


def _warn(*parts: str | Setting) -> None:
    warn_caller(AdviceWarning(*parts))


def _raise(found: list[AdviceError], profile: TableProfile, *, impute: bool) -> None:
    if not impute:
        # A column without any value has an error of its own: it cannot be imputed.
        counts = {name: c.n_missing for name, c in profile.columns.items()}
        gaps = {name: n for name, n in counts.items() if 0 < n < profile.n_rows}
        if gaps:
            found.append(
                AdviceError(
                    _missing(gaps, profile.n_rows),
                    "drop the columns or rows, or set ",
                    Setting("missing", "impute"),
                    " (the column's mean; a category of its own for text).",
                )
            )
    if found:
        raise several(found, "columns")


def _missing(counts: Mapping[str, int], n_rows: int) -> str:
    shown = ", ".join(f"{name!r} ({n})" for name, n in list(counts.items())[:5])
    if len(counts) > 5:
        shown += f" and {len(counts) - 5} more"
    return f"columns with missing values: {shown}, in {n_rows} rows. Fill them in, "


def _column_problems(profile: TableProfile, name: str) -> Iterator[AdviceError]:
    if name in profile.unusable:
        yield profile.unusable[name]
        return
    column = profile.columns[name]
    if column.n_missing == column.n_rows:
        yield refuse_empty(name)
    elif isinstance(column, NumberProfile):
        yield from _number_problems(name, column)
    else:
        yield from _text_problems(name, column, profile.max_categories)


def _number_problems(name: str, column: NumberProfile) -> Iterator[AdviceError]:
    if column.n_infinite:
        yield refuse_infinite(name, column.n_infinite, column.first_infinite)
    elif column.clash is not None:
        yield AdviceError(
            f"column {name!r} holds whole numbers beyond 2**53, such as {column.clash}, some of "
            "which become equal as floating-point numbers. It looks like an identifier: leave it "
            "out (",
            Setting("drop", name),
            "), or treat it as text (",
            Setting("categorical", name),
            ").",
            remedies=[Setting("drop", name)],
        )


def _text_problems(name: str, column: TextProfile, limit: int | None) -> Iterator[AdviceError]:
    if not column.by_name:
        odd = _odd_values(column)
        if odd:
            yield _mostly_numeric(name, column, odd)
            return
        disguise = disguised(name, _with_numbers(column))
        if disguise:
            yield disguise
            return
    most = limit or min(MAX_CATEGORIES, max(50, column.n_rows // 2))
    if len(column.values) > most:
        yield _too_many(name, column, most)


def _with_numbers(column: TextProfile) -> Counter[str]:
    """Return the rows of each value, with all plain numbers counted as one value."""
    example = next(iter(column.numbers), "")
    numbers = {example.strip(): column.n_numbers} if column.numbers else {}
    return Counter({**numbers, **column.counts})


def _warn_of_text(name: str, column: TextProfile, limit: int | None) -> None:
    values, n_rows = column.values, column.n_rows
    words = sorted(_words(column))
    if len(values) >= 5 and 0 < len(words) <= len(values) // 4:
        _warn(
            f"column {name!r} is taken as text because of {words[0]!r}; its other values are "
            "numbers. If that stands for a missing number, say so: ",
            Setting("na_values", words[0]),
            ".",
        )
    if limit is None and len(values) > max(50, n_rows // 20):
        _warn(
            f"column {name!r} has {len(values)} different values in {n_rows} rows, each of which "
            "becomes a feature. Leave it out if it is a name or an identifier (",
            Setting("drop", name),
            ").",
        )


def _odd_values(column: TextProfile) -> Counter[str]:
    """Return the values that are not plain numbers, if nearly all others are; else nothing."""
    odd = Counter({value: n for value, n in column.counts.items() if not is_number(value)})
    like = sum(n for value, n in odd.items() if GROUPED.fullmatch(value.strip()))
    total = column.n_numbers + column.counts.total()
    share = (total - odd.total() + like) / max(1, total)
    return odd if share > MOSTLY else Counter()


def _mostly_numeric(name: str, column: TextProfile, odd: Counter[str]) -> AdviceError:
    commas = [value for value in odd if has_comma(value)]
    words = [value for value in odd if value not in commas]
    n_odd = odd.total() + column.n_uncounted
    parts: list[str | Setting] = [
        f"column {name!r} holds numbers, but not in {n_odd} of {column.n_rows} rows: "
        f"{'; '.join(_places(column, odd))} ({COUNTED})."
    ]
    remedies = [Setting("na_values", word) for word in words[:5]]
    if commas:
        parts.append(f" For {commas[0]} {rewritten(commas[0], commas)}.")
    if words:
        parts.append(f" If {'they stand' if len(words) > 1 else 'it stands'} for a missing number:")
        for remedy in remedies:
            parts += [" ", remedy]
        parts.append(".")
    if not commas:
        parts += [" If the values are names of things: ", Setting("categorical", name), "."]
    return AdviceError(*parts, remedies=remedies)


def _places(column: TextProfile, odd: Counter[str]) -> Iterator[str]:
    """Say in which rows the most frequent odd values are."""
    for value, n in odd.most_common(3):
        shown = ", ".join(map(str, column.places[value]))
        more = ", …" if n > len(column.places[value]) else ""
        yield f"{value!r} in row{'s' if n > 1 else ''} {shown}{more}"
    if len(odd) > 3:
        yield f"and {len(odd) - 3} more values"


def _too_many(name: str, column: TextProfile, limit: int) -> AdviceError:
    words, n_values = _words(column), len(column.values)
    known = f"more than {column.kept - 1}" if column.more else str(n_values)
    parts: list[str | Setting] = [
        f"column {name!r} has {known} different values in {column.n_rows} rows, more than the "
        f"{limit} allowed for text. "
    ]
    if 0 < len(words) <= n_values // 2:
        parts += [
            f"Most are numbers; the rest are not, such as {words[0]!r}. Correct or empty those "
            "fields to make it a numeric column, leave it out ("
        ]
    else:
        parts += ["It looks like a name or an identifier: leave it out ("]
    parts += [Setting("drop", name), "), or raise ", Setting("max_categories"), "."]
    return AdviceError(*parts)


def _words(column: TextProfile) -> Sequence[str]:
    return [v for v in column.counts if v != MISSING and not is_number(v)]
