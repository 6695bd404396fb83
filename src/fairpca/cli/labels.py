"""The label that counts as positive, and what is said where there is no label."""

from __future__ import annotations

from typing import Any

import typer

from fairpca.cli.options import few


def no_label(what: str) -> typer.BadParameter:
    """Return the error of a command that is asked for `what` without a label column."""
    return typer.BadParameter(
        f"{what} needs a label column: name it with --label (-y).", param_hint="--label"
    )


def match_label(label: Any, wanted: str | None, known: Any, *, required: bool = False) -> Any:
    """Return the value of the label column, an array, that is written like the wanted one.

    `known` counts as positive where none is wanted: that of a bundled data set, of a comparison,
    or of a fitted model. None without either, unless it is `required` and labels do not tell.
    """
    from fairpca.data.advice import AdviceError, Setting

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
    missed = str(known if wanted is None else wanted)
    for value in values:
        if str(value) == missed:
            return value
    start = f"no row has the label {missed!r}; there are {shown}. "
    alike = [str(v) for v in values if _bare_label(v) == _bare_label(missed)]
    if len(alike) == 1:
        raise AdviceError(
            start + "They differ in blanks, dots or case. If it is the same, say so: ",
            Setting("pos_label", alike[0]),
            ".",
        )
    if len(values) == 1:
        raise ValueError(
            f"no row has the label {missed!r}: every row has {shown}, and a label of one value "
            "only cannot be predicted. Name another column or comparison with --label."
        )
    raise AdviceError(start + "Name the one that counts as positive: ", Setting("pos_label"), ".")


def _bare_label(label: Any) -> str:
    """Return a label without the dots and blanks around it that copies of a table differ in."""
    return str(label).strip(" .\t\r\n\u00a0").casefold()
