"""The whole state of a streaming estimator as plain values and arrays, and back, exactly."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca._version import __version__
from fairpca.data.files.checkpoint import CheckpointError
from fairpca.data.files.plain_values import decode, encode
from fairpca.estimators.families.stream_base import StreamEstimator
from fairpca.estimators.families.stream_kinds import MomentStream
from fairpca.solvers.streaming.block_products import BlockProducts
from fairpca.solvers.streaming.noisy_power import NoisyPower
from fairpca.solvers.streaming.power_state import ContrastIterate, PowerSettings
from fairpca.summaries.moments import GroupMoments
from fairpca.summaries.sketch import GroupSketch
from fairpca.summaries.waiting import WaitingRows

_PARTS: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        BlockProducts,
        ContrastIterate,
        GroupMoments,
        GroupSketch,
        MomentStream,
        NoisyPower,
        PowerSettings,
        WaitingRows,
    )
}
"""The only classes that a checkpoint may name."""


def pack_state(
    estimator: StreamEstimator,
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return an estimator's parameters and state as JSON values and arrays."""
    arrays: dict[str, NDArray[Any]] = {}

    def put(array: NDArray[Any]) -> str:
        name = str(len(arrays))
        arrays[name] = array
        return name

    parameters = estimator.get_params(deep=False)
    state = {k: v for k, v in vars(estimator).items() if k not in parameters}
    values = {
        "version": __version__,
        "parameters": _described(estimator),
        "state": encode(_plain(state), put, "state"),
    }
    return values, arrays


def unpack_state(
    estimator: StreamEstimator,
    values: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Put an estimator into a packed state.

    Raises
    ------
    CheckpointError
        If it was packed with other parameters or another version.
    """
    if values["version"] != __version__:
        raise CheckpointError(
            f"the checkpoint was written by fairpca {values['version']}, this is {__version__}. "
            "Start again without resuming."
        )
    check_same("parameters", values["parameters"], _described(estimator))
    estimator._reset()
    estimator.__dict__.update(_restored(decode(values["state"], lambda name: arrays[name])))


def check_same(what: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise CheckpointError if a checkpoint and the fit that resumes it differ, naming in what."""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if names:
        changes = "; ".join(f"{n} was {before.get(n)}, now {now.get(n)}" for n in names)
        raise CheckpointError(
            f"the checkpoint belongs to a fit with other {what}: {changes}. Use the same, or start "
            "again without resuming."
        )


def _described(estimator: StreamEstimator) -> dict[str, str]:
    parameters = estimator.get_params(deep=False)
    if isinstance(parameters["random_state"], np.random.Generator | np.random.RandomState):
        parameters["random_state"] = type(parameters["random_state"]).__name__
    return {name: repr(value) for name, value in sorted(parameters.items())}


def _plain(value: Any) -> Any:
    """Replace dataclasses and generators by mappings of their parts."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"is a": type(value).__name__, "fields": fields}
    if isinstance(value, np.random.Generator):
        generator = value.bit_generator
        return {"is a": type(generator).__name__, "fields": generator.state}
    if isinstance(value, np.dtype):
        return {"is a": "dtype", "fields": value.name}
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_plain(v) for v in value)
    return value


def _restored(value: Any) -> Any:
    """Undo `_plain`."""
    if isinstance(value, tuple | list):
        return type(value)(_restored(v) for v in value)
    if not isinstance(value, dict):
        return value
    if set(value) != {"is a", "fields"}:
        return {k: _restored(v) for k, v in value.items()}
    kind, fields = value["is a"], value["fields"]
    if kind == "dtype":
        return np.dtype(fields)
    if kind in _PARTS:
        part: Any = object.__new__(_PARTS[kind])
        for name, field in fields.items():
            object.__setattr__(part, name, _restored(field))
        return part
    generators = {"PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"}
    if kind not in generators:
        raise CheckpointError(f"the checkpoint holds a {kind}, which is not known here.")
    bits = getattr(np.random, kind)()
    bits.state = fields
    return np.random.Generator(bits)
