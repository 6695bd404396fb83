"""Fitted models in files that are read without running code (``.fairpca``).

A model file is an uncompressed zip of ``header.json`` and the arrays as ``.npy`` files; the format
is described in ``docs/model_format.md``. It holds what an estimator's constructor was given and
what `fit` found, so an estimator needs no code of its own to be saved.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import io
import json
import math
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from fairpca._version import __version__
from fairpca.data.files.atomic import write_bytes
from fairpca.data.files.numpy_files import read_header
from fairpca.data.files.paths import check_readable
from fairpca.data.files.plain_values import decode, encode
from fairpca.data.tables.encoder import TableEncoder
from fairpca.data.warn import warn_caller
from fairpca.models.checks import check_details, check_encoder_state, check_map, check_widths

FORMAT = "fairpca-model"
FORMAT_VERSION = 1

_CLASS_MODULES = ("fairpca", "fairpca.comparison")
"""The only modules whose public estimators a model file may name."""

_ENCODER_MODULE = "fairpca.data.encoder"
"""The module of `TableEncoder` in model files: a name that stays, wherever the class is defined."""

_ATTRIBUTE = re.compile(r"[A-Za-z][A-Za-z0-9_]*_")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same model gives the same bytes
_MAX_HEADER = 256 << 20
"""The longest header that is parsed, in bytes."""

_DAMAGE = (ValueError, TypeError, LookupError, AttributeError, RecursionError, ArithmeticError)
"""Errors of reading a header with wrong parts."""

_ZIP_DAMAGE = (EOFError, OSError, RuntimeError, NotImplementedError, ValueError)
"""Errors of reading an archive whose directory is damaged."""

_FOREIGN = "this is a zip archive, but not a fairpca model file."


class ModelFileError(ValueError):
    """A model file cannot be used; the message says why."""


@dataclass(frozen=True)
class Model:
    """The content of a model file.

    The fitted estimator, the encoder that turns raw tables into its input, and details, such as the
    names of the sensitive columns.
    """

    estimator: Any
    encoder: TableEncoder | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


def save_model(
    estimator: Any,
    path: str | Path,
    *,
    encoder: TableEncoder | None = None,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Write a fitted estimator, and the encoder that feeds it, to a model file.

    Parameters
    ----------
    estimator : estimator
        A fitted public estimator of this package.
    path : str or Path
        Where to put it; usually ending in ``.fairpca``. Written whole or not at all.
    encoder : TableEncoder, optional
        The fitted encoder for raw tables.
    details : mapping, optional
        Plain values to keep with the model; docs/model_format.md says which names have a meaning.

    Raises
    ------
    ModelFileError
        If the estimator is not fitted, not of this package, or holds a value without plain form.
    OutputFileError
        If the system refuses to write.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from fairpca.data.tables.encoder import TableEncoder
    >>> encoder = TableEncoder().fit({"age": [20.0, 40.0], "job": ["nurse", "cook"]})
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "encoder.fairpca"
    ...     save_model(encoder, path)
    ...     load_model(path).estimator.transform({"age": [30.0], "job": ["cook"]})
    array([[0., 1., 0.]])
    """
    arrays: dict[str, bytes] = {}

    def put_array(array: NDArray[Any]) -> str:
        name = f"arrays/{len(arrays)}.npy"
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        arrays[name] = buffer.getvalue()
        return name

    try:
        check_details(details or {})
        header = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "fairpca_version": __version__,
            "estimator": _describe(estimator, put_array),
            "encoder": None if encoder is None else _describe(encoder, put_array),
            "details": encode(dict(details or {}), put_array, "details"),
        }
    except (TypeError, ValueError) as error:
        raise ModelFileError(str(error)) from error
    header["arrays"] = {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in arrays.items()
    }
    text = json.dumps(header, indent=1, ensure_ascii=False, allow_nan=False)
    try:
        members = {"header.json": text.encode(), **arrays}
    except UnicodeEncodeError as error:
        raise ModelFileError(
            f"the model holds text that is not Unicode, such as a column name: "
            f"{text[max(0, error.start - 20) : error.end + 20]!r}. Rename it and fit again."
        ) from None
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        for name, content in members.items():
            file.writestr(zipfile.ZipInfo(name, _EPOCH), content)
    write_bytes(path, buffer.getvalue())


def load_model(path: str | Path) -> Model:
    """Read a model file. Loading never runs code, imports a module named in it, or unpickles.

    Raises
    ------
    FileNotFoundError, IsADirectoryError, PermissionError
        If there is no such file, or it may not be read.
    ModelFileError
        If it is no model file, is damaged, or is of a newer version.
    """
    path = Path(path)
    check_readable(path, "model file")
    content = path.read_bytes()
    if not content.startswith(b"PK\x03\x04"):
        what = "is empty" if not content else "is not a fairpca model file"
        raise ModelFileError(f"{path} {what}. Make one with `fairpca fit` or save_model.")
    try:
        members = _members(content)
        return _restore(_header(members["header.json"]), members)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error
    except _DAMAGE as error:
        raise ModelFileError(f"{path}: the model file is damaged: {error}") from error


def _describe(estimator: Any, put_array: Callable[[NDArray[Any]], str]) -> dict[str, Any]:
    """Return an estimator's class, parameters and fitted attributes in terms of JSON."""
    kind = type(estimator)
    module = next((name for name, found in _candidates(kind.__name__) if found is kind), None)
    if module is None:
        raise ModelFileError(
            f"{kind.__module__}.{kind.__name__} is not a public estimator of this package; only "
            "those can be put into a model file."
        )
    getattr(estimator, "components_", None)  # streaming estimators compute it at first access
    attributes = {
        name: value for name, value in vars(estimator).items() if _ATTRIBUTE.fullmatch(name)
    }
    if not attributes:
        raise ModelFileError(f"this {kind.__name__} is not fitted: call fit before saving.")
    parameters = estimator.get_params(deep=False)
    for name, value in parameters.items():
        if isinstance(value, np.random.Generator | np.random.RandomState | BaseEstimator):
            default = inspect.signature(kind).parameters[name].default
            warn_caller(
                f"{name} is a {type(value).__name__}, which a model file does not keep: "
                f"{default!r} is stored. The fitted model does not depend on it."
            )
            parameters[name] = default

    def coded(what: str, values: Mapping[str, Any]) -> dict[str, Any]:
        return {n: encode(v, put_array, f"{what} {n}") for n, v in sorted(values.items())}

    return {
        "module": module,
        "class": kind.__name__,
        "parameters": coded("parameter", parameters),
        "attributes": coded("attribute", attributes),
    }


def _candidates(name: str) -> list[tuple[str, type]]:
    """Return the public estimators of that name with the module each is public in."""
    found: list[tuple[str, type]] = []
    if name == TableEncoder.__name__:
        found.append((_ENCODER_MODULE, TableEncoder))
    for module in _CLASS_MODULES:
        try:
            public = importlib.import_module(module)
        except ModuleNotFoundError:
            continue
        value = getattr(public, name) if name in public.__all__ else None
        if isinstance(value, type) and issubclass(value, BaseEstimator):
            found.append((module, value))
    return found


def _members(content: bytes) -> dict[str, bytes]:
    """Return the parts of the archive, each checked against the sum that zip keeps of it."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            entries = file.infolist()
            names = [entry.filename for entry in entries]
            if "header.json" not in names:
                raise ModelFileError(_FOREIGN)
            # Stored members cannot grow: what is read is never larger than the file.
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                raise ModelFileError("compressed members are not part of the format.")
            if len(set(names)) < len(names) or sum(e.file_size for e in entries) > len(content):
                raise ModelFileError("the archive's members overlap or repeat.")
            return {name: file.read(name) for name in names}
    except ModelFileError:
        raise
    except (zipfile.BadZipFile, *_ZIP_DAMAGE) as error:
        raise ModelFileError(f"the model file is damaged or cut short: {error}") from error


def _header(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text) if len(text) <= _MAX_HEADER else None
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"the header is damaged: {error}") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ModelFileError(_FOREIGN)
    version = header.get("format_version")
    if not isinstance(version, int) or version < 1:
        raise ModelFileError(f"the header is damaged: format version {version!r}.")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"the file has format version {version}, written by fairpca "
            f"{header.get('fairpca_version')}; this is fairpca {__version__}, which reads up to "
            f"version {FORMAT_VERSION}. Install a newer fairpca to use it."
        )
    return header


def _restore(header: Mapping[str, Any], members: Mapping[str, bytes]) -> Model:
    sums = header["arrays"]
    if set(members) - {"header.json"} != set(sums):
        raise ModelFileError("the archive's members are not those its header lists.")
    for name, facts in sums.items():
        if hashlib.sha256(members[name]).hexdigest() != facts["sha256"]:
            raise ModelFileError(f"the model file is damaged: {name} does not match its checksum.")

    def get_array(name: str) -> NDArray[Any]:
        return _array(members[name], name)

    estimator = _build(header["estimator"], get_array)
    encoder = None if header["encoder"] is None else _build(header["encoder"], get_array)
    if encoder is not None and not isinstance(encoder, TableEncoder):
        raise ModelFileError("the model file's encoder is not a TableEncoder.")
    for part in (estimator, encoder):
        if isinstance(part, TableEncoder):
            check_encoder_state(part)
    check_widths(estimator, encoder)
    check_map(estimator)
    details = decode(header["details"], get_array)
    check_details(details)
    return Model(estimator, encoder, details)


def _array(content: bytes, name: str) -> NDArray[Any]:
    """Read an array, after checking that its member has the size that its header promises."""
    file = io.BytesIO(content)
    shape, dtype = read_header(file, name, len(content))
    size = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or size != len(content) - file.tell():
        raise ModelFileError(f"the model file is damaged: {name} has the wrong size.")
    return np.load(io.BytesIO(content), allow_pickle=False)  # type: ignore[no-any-return]


def _build(description: Mapping[str, Any], get_array: Callable[[str], NDArray[Any]]) -> Any:
    module, name = description["module"], description["class"]
    kind = dict(_candidates(str(name))).get(module)
    if kind is None:
        raise ModelFileError(
            f"the model is a {module}.{name}, which is no estimator of fairpca {__version__}."
        )
    parameters = {n: decode(v, get_array) for n, v in description["parameters"].items()}
    unknown = set(parameters) - set(kind._get_param_names())  # type: ignore[attr-defined]
    if unknown:
        raise ModelFileError(
            f"{name} has no parameters {sorted(unknown)} in fairpca {__version__}."
        )
    estimator = kind(**parameters)
    for attribute, value in description["attributes"].items():
        if not _ATTRIBUTE.fullmatch(attribute) or hasattr(kind, attribute):
            raise ModelFileError(f"{attribute!r} cannot be a fitted attribute of {name}.")
        setattr(estimator, attribute, decode(value, get_array))
    return estimator
