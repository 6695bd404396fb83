"""A setting of an estimator: the steps in front of the projection, and the projection itself."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import _routing_enabled, get_routing_for_object
from sklearn.utils.validation import has_fit_parameter

METADATA = ("sensitive_features", "sample_weight")


class Step(NamedTuple):
    """The last step with one setting, unfitted: the setting's position in the grid, and its name.

    The name is empty outside a pipeline.
    """

    setting: int
    name: str
    model: Any


def taken_apart(
    estimator: Any, setting: Mapping[str, Any], i: int = 0
) -> tuple[Pipeline | None, Step]:
    """Return the steps in front, if any, and the last step, with setting number i."""
    found = clone(estimator).set_params(**clone(dict(setting), safe=False))
    name, model = found.steps[-1] if isinstance(found, Pipeline) else ("", found)
    if not hasattr(model, "transform"):
        what = f"the pipeline's last step {name!r}" if name else "the estimator"
        raise TypeError(
            f"{what} ({type(model).__name__}) has no transform: choose settings of the fair "
            "projection, with the steps before it, and put FairnessTargetCV in front of what comes "
            "after it."
        )
    return found[:-1] if name and len(found.steps) > 1 else None, Step(i, name, model)


def by_preprocessing(
    estimator: Any, settings: Sequence[Mapping[str, Any]]
) -> list[tuple[Pipeline | None, list[Step]]]:
    """Group settings by the steps in front: return each such pipeline with its last steps."""
    last = taken_apart(estimator, {})[1].name
    found: dict[Hashable, tuple[Pipeline | None, list[Step]]] = {}
    for i, setting in enumerate(settings):
        front, step = taken_apart(estimator, setting, i)
        of_front = {k: v for k, v in setting.items() if last and k.partition("__")[0] != last}
        key = tuple(sorted((k, id(v)) for k, v in of_front.items()))
        found.setdefault(key, (front, []))[1].append(step)
    return list(found.values())


def requests(estimator: Any) -> tuple[frozenset[str], frozenset[str]]:
    """Return which metadata the steps in front, and the last one, take in `fit`.

    Without metadata routing, the steps in front get none; the last one gets weights, and groups if
    it takes any.
    """
    front, last = taken_apart(estimator, {})
    if not _routing_enabled():
        takes_groups = has_fit_parameter(last.model, "sensitive_features")
        return frozenset(), frozenset(METADATA if takes_groups else METADATA[1:])
    asked = [
        frozenset()
        if step is None
        else frozenset(get_routing_for_object(step).consumes(method, METADATA))
        for step, method in ((front, "fit_transform"), (last.model, "fit"))
    ]
    return asked[0], asked[1]
