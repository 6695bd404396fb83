"""A setting as the steps in front of the projection and the projection itself."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import _routing_enabled, get_routing_for_object
from sklearn.utils.validation import has_fit_parameter

__all__ = ["METADATA", "Candidate", "by_preprocessing", "candidate", "requests"]

METADATA = ("sensitive_features", "sample_weight")


class Candidate(NamedTuple):
    """An estimator with one setting, unfitted.

    Parameters
    ----------
    front : Pipeline or None
        The steps before the last one.
    name : str
        Of the last step; empty outside a pipeline.
    final : estimator
        The last step.
    """

    front: Any
    name: str
    final: Any


def candidate(estimator: Any, setting: Mapping[str, Any]) -> Candidate:
    """Return the estimator with a setting, taken apart.

    Raises
    ------
    ValueError
        If the setting names a parameter that the estimator does not have.
    TypeError
        If a pipeline does not end in a transformer.
    """
    found = clone(estimator).set_params(**clone(dict(setting), safe=False))
    name, final = found.steps[-1] if isinstance(found, Pipeline) else ("", found)
    if not hasattr(final, "transform"):
        what = f"the pipeline's last step {name!r}" if name else "the estimator"
        raise TypeError(
            f"{what} ({type(final).__name__}) has no transform: choose settings of the fair "
            "projection, with the steps before it, and put FairnessTargetCV in front of what comes "
            "after it."
        )
    return Candidate(found[:-1] if name and len(found.steps) > 1 else None, name, final)


def by_preprocessing(
    estimator: Any, settings: Sequence[Mapping[str, Any]]
) -> list[tuple[Any, list[tuple[int, str, Any]]]]:
    """Return the different steps in front, each with the settings of the last step after it."""
    last = candidate(estimator, {}).name
    found: dict[Hashable, tuple[Any, list[tuple[int, str, Any]]]] = {}
    for i, setting in enumerate(settings):
        front, name, final = candidate(estimator, setting)
        of_front = {k: v for k, v in setting.items() if last and k.partition("__")[0] != last}
        key = tuple(sorted((k, id(v)) for k, v in of_front.items()))
        found.setdefault(key, (front, []))[1].append((i, name, final))
    return list(found.values())


def requests(estimator: Any) -> tuple[frozenset[str], frozenset[str]]:
    """Return which metadata the steps in front, and the last one, are given in `fit`.

    Without metadata routing, the others get none, and the last step weights, and groups if it
    takes any.
    """
    front, _, final = candidate(estimator, {})
    if not _routing_enabled():
        takes_groups = has_fit_parameter(final, "sensitive_features")
        return frozenset(), frozenset(METADATA if takes_groups else METADATA[1:])
    asked = [
        frozenset()
        if step is None
        else frozenset(get_routing_for_object(step).consumes(method, METADATA))
        for step, method in ((front, "fit_transform"), (final, "fit"))
    ]
    return asked[0], asked[1]
