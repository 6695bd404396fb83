"""Messages that advise a setting, written for Python or for the command line.

An error may advise to impute missing values: ``missing='impute'`` in Python, ``--missing impute``
on the command line. So the message holds the setting itself, a `Setting`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """A parameter by its name in Python, and the value or values advised (None: the name alone)."""

    name: str
    value: str | int | tuple[str, ...] | None = None


def python_words(setting: Setting) -> str:
    """Write a setting as a keyword argument.

    Examples
    --------
    >>> python_words(Setting("missing", "impute"))
    "missing='impute'"
    >>> python_words(Setting("drop", ("id", "name")))
    "drop=['id', 'name']"
    >>> python_words(Setting("edges", "age=25,60"))
    "edges={'age': (25,60,)}"
    """
    if setting.value is None:
        return setting.name
    if setting.name == "edges":  # COLUMN=edge,edge
        column, _, edges = str(setting.value).rpartition("=")
        return f"edges={{{column!r}: ({edges},)}}"
    value = list(setting.value) if isinstance(setting.value, tuple) else setting.value
    return f"{setting.name}={value!r}"


class _Advice:
    """A message of words and settings; ``str`` writes it for Python."""

    def __init__(self, *parts: str | Setting, remedies: Sequence[Setting] | None = None) -> None:
        super().__init__(*parts)
        self.parts = parts
        named = [part for part in parts if isinstance(part, Setting) and part.value is not None]
        self.remedies = tuple(named[:1] if remedies is None else remedies)
        """The settings that solve the problem."""

    def worded(self, write: Callable[[Setting], str]) -> str:
        """Return the message with each setting as `write` gives it."""
        return "".join(write(p) if isinstance(p, Setting) else p for p in self.parts)

    def __str__(self) -> str:
        return self.worded(python_words)


class AdviceError(_Advice, ValueError):
    """The input cannot be used; the message says which setting would help.

    Examples
    --------
    >>> error = AdviceError("column 'age' has gaps: set ", Setting("missing", "impute"), ".")
    >>> print(error)
    column 'age' has gaps: set missing='impute'.
    >>> print(error.worded(lambda s: f"--{s.name} {s.value}"))
    column 'age' has gaps: set --missing impute.
    """


class AdviceWarning(_Advice, UserWarning):
    """The input was used, although it looks wrong; the message says which setting would help."""


def several(problems: Sequence[AdviceError], what: str) -> AdviceError:
    """Join problems into one error that ends with all settings that would help.

    Examples
    --------
    >>> gaps = AdviceError("'age' has gaps: set ", Setting("missing", "impute"), ".")
    >>> name = AdviceError("'id' is a name: leave it out (", Setting("drop", "id"), ").")
    >>> print(several([gaps, name], "columns"))
    2 problems with the columns:
      - 'age' has gaps: set missing='impute'.
      - 'id' is a name: leave it out (drop='id').
    All at once: missing='impute' drop='id'
    """
    if len(problems) == 1:
        return problems[0]
    parts: list[str | Setting] = [f"{len(problems)} problems with the {what}:"]
    for problem in problems:
        parts += ["\n  - ", *problem.parts]
    remedies = tuple(dict.fromkeys(r for problem in problems for r in problem.remedies))
    if remedies:
        parts.append("\nAll at once:")
        for remedy in remedies:
            parts += [" ", remedy]
    return AdviceError(*parts, remedies=remedies)
