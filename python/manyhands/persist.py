"""The file format of tables and fitted models: a header and plain arrays, nothing that can be executed.

Layout: eight bytes ``MANYHAND``, a little-endian 32-bit format version and 32-bit header length, a JSON
header, then the arrays' bytes back to back. The header names the kind of object, its plain-JSON settings,
and dtype and shape of each array. A reader trusts none of it: sizes are checked against the file before
anything is allocated.
"""

from __future__ import annotations

import json
import math
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands.arrow import is_number, plain_text, text_buffers
from manyhands.errors import FileFormatError
from manyhands.names import Names, sequence

MAGIC = b"MANYHAND"
VERSION = 1
_PRELUDE = struct.Struct("<8sII")
_MAX_HEADER = 1 << 24
_MOST_BYTES = 1 << 62
_KINDS = ("u1", "u2", "u4", "u8", "i4", "i8", "f8", "b1")
_DTYPES = {name: np.dtype(name).newbyteorder("<") for name in _KINDS}


@dataclass(frozen=True)
class Content:
    """What a file holds. The accessors check what they return: a file may be damaged, or made to do harm."""

    path: str
    kind: str
    meta: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]]

    def array(
        self,
        name: str,
        dtype: npt.DTypeLike,
        *,
        shape: tuple[int, ...] | None = None,
        ndim: int | None = None,
    ) -> npt.NDArray[Any]:
        """Return an array that must be there with this dtype and shape."""
        found = self.arrays.get(name)
        if found is None or found.dtype != np.dtype(dtype):
            raise self.damaged(f"array {name!r} is missing or has the wrong type")
        if (shape is not None and found.shape != shape) or (ndim is not None and found.ndim != ndim):
            raise self.damaged(f"array {name!r} has shape {found.shape}")
        return found

    def names(self, name: str) -> Names:
        """Return names written by `pack_names`: all different, none missing."""
        found = self._text(name) if f"{name}.text" in self.arrays else self.arrays.get(name)
        if found is None or (isinstance(found, np.ndarray) and found.ndim != 1):
            raise self.damaged(f"names {name!r} are missing")
        if isinstance(found, np.ndarray):
            good = len(np.unique(found)) == len(found) and not (found != found).any()
        else:
            good = len(found.unique()) == len(found)
        if not good:
            raise self.damaged(f"names {name!r} repeat")
        return Names(found)

    def labels(self, classes: Names) -> Names:
        """Return the classes followed by the abstentions, if `pack_labels` wrote any."""
        if not self.arrays.keys() & {"abstentions", "abstentions.text"}:
            return classes
        never = self.names("abstentions")
        if (classes.match(never) >= 0).any():
            raise self.damaged("a class is an abstention too")
        return classes.followed_by(never)

    def _text(self, name: str) -> Any:
        import pyarrow as pa

        data = self.array(f"{name}.text", np.uint8, ndim=1)
        offsets = self.array(f"{name}.offsets", np.int64, ndim=1)
        if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(data) or (offsets[1:] < offsets[:-1]).any():
            raise self.damaged(f"offsets of names {name!r} do not fit their text")
        text = pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))
        try:
            text.validate(full=True)
        except pa.ArrowInvalid as error:
            raise self.damaged(f"names {name!r} are not valid text") from error
        return text

    def damaged(self, why: str) -> FileFormatError:
        """Make an error that names the file."""
        return FileFormatError(f"{self.path} is damaged: {why}; write it again")


def pack_names(name: str, names: Names) -> dict[str, npt.NDArray[Any]]:
    """Turn names into plain arrays; raises for values that have no such form."""
    import pyarrow as pa

    try:
        column = plain_text(names.arrow())
    except TypeError as error:
        raise TypeError(f"cannot save {name}: {error}") from None
    if is_number(column.type):
        return {name: column.to_numpy(zero_copy_only=False)}
    if not pa.types.is_large_string(column.type):
        example = names.values[0]
        raise TypeError(
            f"cannot save {name} of type {type(example).__name__} ({example!r}); use integers or text as ids"
        )
    offsets, data = text_buffers(column)
    return {f"{name}.text": data[offsets[0] : offsets[-1]], f"{name}.offsets": offsets - offsets[0]}


def pack_labels(classes: Names, labels: Names) -> dict[str, npt.NDArray[Any]]:
    """Turn labels that are not classes, the abstentions, into plain arrays; nothing where there are none."""
    if len(labels) == len(classes):
        return {}
    return pack_names("abstentions", sequence(labels.values[len(classes) :].tolist()))


def write(path: str | os.PathLike[str], kind: str, meta: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Write arrays and settings; the file appears only when it is complete."""
    specs = {name: (array.dtype.str.lstrip("<|="), array.shape) for name, array in arrays.items()}
    for name, (dtype, _) in specs.items():
        if dtype not in _KINDS:
            raise TypeError(f"cannot save array {name!r} of dtype {dtype}")
    header = json.dumps({"kind": kind, "meta": meta, "arrays": specs}).encode()
    if len(header) > _MAX_HEADER:
        raise ValueError("the settings are too large to save")
    target = Path(path)
    part = target.with_name(target.name + ".part")
    try:
        with part.open("wb") as file:
            file.write(_PRELUDE.pack(MAGIC, VERSION, len(header)))
            file.write(header)
            for array in arrays.values():
                file.write(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def read(path: str | os.PathLike[str]) -> Content:
    """Read a file written by `write`; raises `FileFormatError` for anything else."""
    name = os.fspath(path)
    size = Path(path).stat().st_size
    with Path(path).open("rb") as file:
        prelude = file.read(_PRELUDE.size)
        if len(prelude) < _PRELUDE.size or prelude[:8] != MAGIC:
            raise FileFormatError(f"{name} is not a manyhands file, or is cut off at its very start")
        _, version, length = _PRELUDE.unpack(prelude)
        if version != VERSION:
            raise FileFormatError(
                f"{name} has format version {version}, and this manyhands reads version {VERSION}: was it "
                "written by a newer one?"
            )
        if length > min(_MAX_HEADER, size - _PRELUDE.size):
            raise FileFormatError(f"{name} is truncated: its header is cut off")
        kind, meta, specs = _parse_header(name, file.read(length))
        expected = _PRELUDE.size + length + sum(_n_bytes(*spec) for spec in specs.values())
        if expected != size:
            raise FileFormatError(
                f"{name} is truncated or damaged: it has {size:,} bytes, its header says {expected:,}"
            )
        arrays = {}
        for key, (dtype, shape) in specs.items():
            data = bytearray(_n_bytes(dtype, shape))
            if file.readinto(data) != len(data):
                raise FileFormatError(f"{name} is truncated in array {key!r}")
            arrays[key] = np.frombuffer(data, dtype).reshape(shape)
    for key, array in arrays.items():
        # Any other byte would make a boolean that is neither true nor false.
        if array.dtype == np.bool_ and (array.view(np.uint8) > 1).any():
            raise FileFormatError(f"{name} is damaged: array {key!r} holds bytes that are not booleans")
    return Content(name, kind, meta, arrays)


_Spec = tuple[np.dtype[Any], tuple[int, ...]]


def _n_bytes(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    return dtype.itemsize * math.prod(shape)


def _parse_header(name: str, raw: bytes) -> tuple[str, dict[str, Any], dict[str, _Spec]]:
    damaged = FileFormatError(f"{name} is damaged: its header is not what manyhands writes")
    try:
        header = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise damaged from error
    if not isinstance(header, dict) or not isinstance(header.get("kind"), str):
        raise damaged
    meta, arrays = header.get("meta"), header.get("arrays")
    if not isinstance(meta, dict) or not isinstance(arrays, dict):
        raise damaged
    specs = {key: _parse_spec(spec) for key, spec in arrays.items()}
    if None in specs.values():
        raise damaged
    return header["kind"], meta, {key: spec for key, spec in specs.items() if spec is not None}


def _parse_spec(spec: Any) -> _Spec | None:
    """Read the dtype and shape of an array; None if they are not what `write` writes."""
    if not (isinstance(spec, list) and len(spec) == 2 and isinstance(spec[1], list)):
        return None
    kind, shape = spec
    if kind not in _KINDS or len(shape) > 5 or not all(type(n) is int and n >= 0 for n in shape):
        return None
    # NumPy refuses shapes that would overflow but for a zero among them.
    if _n_bytes(_DTYPES[kind], tuple(max(n, 1) for n in shape)) > _MOST_BYTES:
        return None
    return _DTYPES[kind], tuple(shape)
