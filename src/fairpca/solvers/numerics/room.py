"""Errors for too few directions left after the removal, with advice on how to keep more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def ways_to_keep_more(
    n_levels: Iterable[int],
    *,
    n_unfair: Mapping[str, int] | int = 0,
    strength: bool = False,
    own: str = "",
) -> str:
    """Return advice on how to keep more directions.

    `n_levels` holds the number of groups of each attribute, and `n_unfair` the parameter of that
    name, by attribute or for all. `strength` says whether the estimator has that parameter, and
    `own` is advice that only this estimator gives.

    Examples
    --------
    >>> ways_to_keep_more([2], n_unfair=3)
    'lower n_unfair (it counts for each comparison of groups)'
    >>> ways_to_keep_more([5, 2])
    'merge rare groups or use fewer attributes'
    """
    levels = list(n_levels)
    asked = n_unfair.values() if isinstance(n_unfair, Mapping) else [n_unfair]
    ways = [own] if own else []
    if any(asked):
        ways.append("lower n_unfair (it counts for each comparison of groups)")
    if any(n > 2 for n in levels):
        ways.append("merge rare groups")
    if len(levels) > 1:
        ways.append("use fewer attributes")
    if strength:
        ways.append("set strength below 1")
    return " or ".join(filter(None, [", ".join(ways[:-1]), *ways[-1:]]))


def check_enough_directions(
    n_components: int | float | None, available: int, removed: int, why: str, ways: str = ""
) -> None:
    """Raise ValueError if no direction is left, or fewer than the number of components asked for.

    Of all directions, `removed` tell the groups apart and `available` are left; `why` explains
    the number of all, and `ways` is the answer of `ways_to_keep_more`.
    """
    if available < 1:
        raise ValueError(
            f"no direction is left: {why}, and all of them tell the groups apart. "
            + (f"{ways[0].upper()}{ways[1:]}." if ways else "Give more columns, or more rows.")
        )
    if isinstance(n_components, int) and n_components > available:
        apart = f", and {removed} of them tell the groups apart" if removed else ""
        raise ValueError(
            f"n_components={n_components} is more than the {available} directions left: "
            f"{why}{apart}. Ask for at most {available}"
            + (f", or {ways}." if removed and ways else ".")
        )
