"""The file format of tables and fitted models: a header and plain arrays, nothing that can be executed.

Layout: eight bytes ``MANYHAND``, a little-endian 32-bit format version and 32-bit header length, the CRC-32 of
all that and of the header, the header in JSON, then the arrays' bytes back to back. The header names the kind of
object, its plain-JSON settings, and dtype, shape and CRC-32 of each array. A reader trusts none of it: sizes are
checked against the file before anything is allocated, and a file of which a bit has changed is rejected. A file of
another format version is rejected.
"""

from __future__ import annotations

import json
import math
import os
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, ClassVar, TypeVar, overload

import numpy as np
import numpy.typing as npt

from manyhands._base import atomic
from manyhands._base.arrow import is_number, plain_text, text_buffers
from manyhands._base.names import Names, sequence
from manyhands.errors import FileFormatError

MAGIC = b"MANYHAND"
VERSION = 4
_PRELUDE = struct.Struct("<8sII")
_CHECKSUM = struct.Struct("<I")
_MAX_HEADER = 1 << 24
_MOST_BYTES = 1 << 62
_KINDS = ("u1", "u2", "u4", "u8", "i4", "i8", "f8", "b1")
_DTYPES = {name: np.dtype(name).newbyteorder("<") for name in _KINDS}

T = TypeVar("T")


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
        finite: bool = True,
    ) -> npt.NDArray[Any]:
        """Return a required array of this dtype and shape, and of finite numbers unless requested otherwise."""
        stored = self.arrays.get(name)
        if stored is None or stored.dtype != np.dtype(dtype):
            raise self.damaged(f"array {name!r} is missing or has the wrong type")
        if (shape is not None and stored.shape != shape) or (ndim is not None and stored.ndim != ndim):
            raise self.damaged(f"array {name!r} has shape {stored.shape}")
        if finite and stored.dtype.kind == "f" and not np.isfinite(stored).all():
            raise self.damaged(f"array {name!r} holds numbers that are not finite")
        return stored

    def weights(self, n: int) -> npt.NDArray[np.float64] | None:
        """Return the weights of a table's rows; None where all weigh the same."""
        return self.array("weights", np.float64, shape=(n,)) if "weights" in self.arrays else None

    def names(self, name: str) -> Names:
        """Return names written by `pack_names`: all different, none missing."""
        stored = self._text(name) if f"{name}.text" in self.arrays else self.arrays.get(name)
        if stored is None or (isinstance(stored, np.ndarray) and stored.ndim != 1):
            raise self.damaged(f"names {name!r} are missing")
        if isinstance(stored, np.ndarray):
            good = len(np.unique(stored)) == len(stored) and not (stored != stored).any()
        else:
            good = len(stored.unique()) == len(stored)
        if not good:
            raise self.damaged(f"names {name!r} repeat")
        return Names(stored, self._shown(name, len(stored)))

    def _shown(self, name: str, n: int) -> Any:
        """What names stand for, as `pack_names` wrote it; None where it wrote nothing."""
        if f"{name}.shown.text" not in self.arrays:
            return None
        import pyarrow as pa
        import pyarrow.compute as pc

        text = self._text(f"{name}.shown")
        absent = self.array(f"{name}.shown.absent", np.bool_, ndim=1)
        if len(text) != n or len(absent) != n:
            raise self.damaged(f"what names {name!r} stand for is not one text per name")
        return pc.if_else(pa.array(absent), pa.scalar(None, text.type), text)

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


#: What makes an object of each kind of file; a class of `Saved` enters itself when it is defined.
_READERS: dict[str, Callable[[Content], Any]] = {}


#: Kinds of files whose classes are not imported with the library, and where they are.
_ELSEWHERE = {"campaign": "manyhands.collect"}


class Saved:
    """What can be written to a file and read back; a class whose files are of a kind of their own names it."""

    __slots__ = ()
    _file_kind: ClassVar[str]

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if "_file_kind" in vars(cls):
            _READERS[cls._file_kind] = cls._load

    @classmethod
    def _load(cls, content: Content) -> Any:
        """Make an object of what a file holds, or say what is damaged."""
        raise NotImplementedError


@overload
def load(path: str | os.PathLike[str], **networks: Any) -> Any: ...
@overload
def load(path: str | os.PathLike[str], kind: type[T], **networks: Any) -> T: ...
def load(path: str | os.PathLike[str], kind: type[Any] = object, **networks: Any) -> Any:
    """Read back what ``save`` wrote: a table, a fitted model, or a trained network.

    The file holds only arrays and plain settings: reading one from a stranger cannot run code. Anything that is not
    such a file, whole and consistent, raises :class:`~manyhands.errors.FileFormatError`.

    Parameters
    ----------
    path : str or path
        The file.
    kind
        The class that it must hold, such as ``mh.DawidSkene`` or ``mh.Annotations``: type checkers then know what comes
        back, and a file that holds something else is rejected with a `TypeError`.
    **networks
        Networks of a learner or a team, by the names of the arguments they were: ``mh.load(path, backbone=network)``,
        ``mh.load(path, classifier=network)``. Their weights come from the file, and the ones given stay as they are.
        Without them, the weights and names alone are returned.
    """
    if _is_archive(path):
        from importlib import import_module

        model = import_module("manyhands._train.files").load(path, networks)
    elif networks:
        raise TypeError(f"{os.fspath(path)} holds no networks; leave {', '.join(networks)} out")
    else:
        model = _build_model(read(path))
    if not isinstance(model, kind):
        raise TypeError(f"{os.fspath(path)} holds {type(model).__name__}, not {kind.__name__}")
    return model


def _is_archive(path: str | os.PathLike[str]) -> bool:
    """Whether a file is what torch writes, an archive of tensors."""
    with Path(path).open("rb") as file:
        return file.read(4) == b"PK\3\4"


def _build_model(content: Content) -> Any:
    if content.kind in _ELSEWHERE:
        from importlib import import_module

        import_module(_ELSEWHERE[content.kind])
    if content.kind not in _READERS:
        raise content.damaged(f"it holds an unknown kind of object, {content.kind[:40]!r}")
    try:
        return _READERS[content.kind](content)
    except (TypeError, ValueError, LookupError, ArithmeticError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise content.damaged(str(error)) from error


def pack_names(name: str, names: Names) -> dict[str, npt.NDArray[Any]]:
    """Turn names, and what they stand for, into plain arrays; raises for values that have no such form."""
    return _packed_names(name, names) | _packed_shown(name, names)


def _packed_shown(name: str, names: Names) -> dict[str, npt.NDArray[Any]]:
    if names.shown is None:
        return {}
    offsets, data = text_buffers(names.shown.fill_null(""))
    absent = names.shown.is_null().to_numpy(zero_copy_only=False)
    text = {"text": data[offsets[0] : offsets[-1]], "offsets": offsets - offsets[0]}
    return {f"{name}.shown.{part}": array for part, array in (text | {"absent": absent}).items()}


def _packed_names(name: str, names: Names) -> dict[str, npt.NDArray[Any]]:
    import pyarrow as pa

    try:
        column = plain_text(names.arrow())
    except TypeError as error:
        raise TypeError(f"cannot save {name}: {error}") from None
    if pa.types.is_null(column.type):  # objects, of which there are none
        return {name: np.zeros(0, np.int64)}
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


def write(
    path: str | os.PathLike[str],
    kind: str,
    meta: dict[str, Any],
    arrays: dict[str, npt.NDArray[Any]],
    read_back: Callable[[Content], object] | None = None,
) -> None:
    """Write arrays and settings; the file appears only when it is complete.

    `read_back` is what will read them, or the part of it that can fail: what it rejects is not written.
    """
    plain = {name: np.asarray(array, array.dtype.newbyteorder("<"), order="C") for name, array in arrays.items()}
    specs = {name: (array.dtype.str.lstrip("<|="), array.shape) for name, array in plain.items()}
    for name, (dtype, _) in specs.items():
        if dtype not in _KINDS:
            raise TypeError(f"cannot save array {name!r} of dtype {dtype}")
    checked = {name: (*spec, zlib.crc32(_bytes(plain[name]))) for name, spec in specs.items()}
    header = json.dumps({"kind": kind, "meta": meta, "arrays": checked}).encode()
    if len(header) > _MAX_HEADER:
        raise ValueError("the settings are too large to save")
    if read_back is not None:
        _refuse_unreadable(read_back, Content(os.fspath(path), kind, json.loads(header)["meta"], plain))
    start = _PRELUDE.pack(MAGIC, VERSION, len(header))
    with atomic.atomic_write(path) as part, part.open("wb") as file:
        file.write(start + _CHECKSUM.pack(zlib.crc32(header, zlib.crc32(start))))
        file.write(header)
        for array in plain.values():
            file.write(_bytes(array))


def _bytes(array: npt.NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _refuse_unreadable(read_back: Callable[[Content], object], content: Content) -> None:
    try:
        read_back(content)
    except FileFormatError as error:
        why = str(error).removeprefix(f"{content.path} is damaged: ").removesuffix("; write it again")
        raise ValueError(f"cannot save what could not be read again: {why}") from error


def read(path: str | os.PathLike[str]) -> Content:
    """Read a file written by `write`; raises `FileFormatError` for anything else."""
    name = os.fspath(path)
    with Path(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        kind, meta, specs = _read_header(file, name, size)
        arrays = {key: _read_array(file, name, key, *spec) for key, spec in specs.items()}
    return Content(name, kind, meta, arrays)


def _read_header(file: BufferedReader, name: str, size: int) -> tuple[str, dict[str, Any], dict[str, _Spec]]:
    """Read what comes before the arrays, which must be just as long as the rest of the file."""
    start = file.read(_PRELUDE.size)
    if len(start) < _PRELUDE.size or start[:8] != MAGIC:
        raise FileFormatError(f"{name} is not a manyhands file, or is cut off at its very start")
    _, version, length = _PRELUDE.unpack(start)
    if version != VERSION:
        cure = "make and save it again" if version < VERSION else "was it written by a newer one?"
        raise FileFormatError(
            f"{name} has format version {version}, and this manyhands reads version {VERSION} only: {cure}"
        )
    begin = _PRELUDE.size + _CHECKSUM.size
    if length > min(_MAX_HEADER, size - begin):
        raise FileFormatError(f"{name} is truncated: its header is cut off")
    checksum = file.read(begin - _PRELUDE.size)
    header = file.read(length)
    if checksum != _CHECKSUM.pack(zlib.crc32(header, zlib.crc32(start))):
        raise FileFormatError(f"{name} is damaged: its header is not the one that was written")
    kind, meta, specs = _parse_header(name, header)
    expected = begin + length + sum(_n_bytes(dtype, shape) for dtype, shape, _ in specs.values())
    if expected != size:
        raise FileFormatError(f"{name} is truncated or damaged: it has {size:,} bytes, its header states {expected:,}")
    return kind, meta, specs


def _read_array(
    file: BufferedReader, name: str, key: str, dtype: np.dtype[Any], shape: tuple[int, ...], checksum: int
) -> npt.NDArray[Any]:
    data = bytearray(_n_bytes(dtype, shape))
    if file.readinto(data) != len(data):
        raise FileFormatError(f"{name} is truncated in array {key!r}")
    if checksum != zlib.crc32(data):
        raise FileFormatError(f"{name} is damaged: array {key!r} is not the one that was written")
    # Any other byte would make a boolean that is neither true nor false.
    if dtype == np.bool_ and np.frombuffer(data, np.uint8).max(initial=0) > 1:
        raise FileFormatError(f"{name} is damaged: array {key!r} holds bytes that are not booleans")
    return np.frombuffer(data, dtype).reshape(shape)


#: Dtype, shape and checksum of an array.
_Spec = tuple[np.dtype[Any], tuple[int, ...], int]


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
    """Read the dtype, shape and checksum of an array; None if they are not what `write` writes."""
    if not (isinstance(spec, list) and len(spec) == 3 and isinstance(spec[1], list)):
        return None
    kind, shape, checksum = spec
    if type(checksum) is not int:
        return None
    if kind not in _KINDS or len(shape) > 5 or not all(type(n) is int and n >= 0 for n in shape):
        return None
    # NumPy rejects shapes that would overflow but for a zero among them.
    if _n_bytes(_DTYPES[kind], tuple(max(n, 1) for n in shape)) > _MOST_BYTES:
        return None
    return _DTYPES[kind], tuple(shape), checksum
