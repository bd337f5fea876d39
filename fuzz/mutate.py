"""Changes of files that still look like files: blind changes of bytes hardly ever get past a checksum or a header."""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import manyhands as mh
from manyhands._base import persist
from targets import ENDINGS, scratch

#: Changes a string of bytes, to at most so many.
Change = Callable[[bytes, int], bytes]

_ODD = (0, 1, 34, 44, 57, 91, 127, 128, 255)
_ODD_NUMBERS = (0, 1, -1, 2, 255, 256, 2**31, 2**32, 2**63, -(2**63), 2**70, 0.0, -0.0, 0.5, 1e308, float("nan"))
_ODD_TEXT = (
    "",
    "random",
    "annotations",
    "aggregator",
    "DawidSkene",
    "f8",
    "u4",
    "b1",
    "O",
    "tasks.text",
    "\ud800",
    "é",
)
_DTYPES = ("u1", "u2", "u4", "u8", "i4", "i8", "f8", "b1")


def blind(rng: random.Random) -> Change:
    """Return a change of a few bytes, as good as it gets without coverage."""

    def change(data: bytes, most: int) -> bytes:
        out = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(out) + 1)
            what = rng.randrange(5)
            if what == 0 and at < len(out):
                out[at] ^= 1 << rng.randrange(8)
            elif what == 1 and at < len(out):
                out[at] = rng.choice(_ODD)
            elif what == 2:
                del out[at : at + rng.randint(1, 9)]
            elif what == 3:
                out[at:at] = out[at : at + rng.randint(1, 40)]
            else:
                out[at:at] = bytes([rng.choice(_ODD)])
        return bytes(out[:most])

    return change


def log(data: bytes, most: int, rng: random.Random, change: Change) -> bytes:
    """Change a log: its text also behind a compression, its columns also within sound Parquet."""
    if not data:
        return change(b"\0", most)
    ending = ENDINGS[data[0] % len(ENDINGS)]
    try:
        if ending == ".csv.gz" and rng.random() < 0.7:
            plain = gzip.decompress(data[1:])[: 1 << 16]
            return data[:1] + gzip.compress(change(plain, 1 << 16), 1, mtime=0)
        if ending == ".parquet" and rng.random() < 0.5:
            return data[:1] + _other_columns(data[1:], rng)
    except (OSError, EOFError, zlib.error, ValueError, TypeError, OverflowError, pa.ArrowException):
        pass  # what is no such file any more is changed as bytes
    return data[:1] + change(data[1:], most - 1)


def _other_columns(data: bytes, rng: random.Random) -> bytes:
    """Change a value, a type, a name or the order of the columns of a Parquet file."""
    table = pq.read_table(io.BytesIO(data)).slice(0, 64)
    table.validate(full=True)  # Arrow reads indices that lie outside a dictionary, and dies of them later
    at = rng.randrange(table.num_columns)
    column = table.column(at)
    what = rng.randrange(5)
    if what == 0:
        values = column.to_pylist()
        values[rng.randrange(len(values))] = rng.choice([None, *_ODD_NUMBERS, *_ODD_TEXT[:-2], *values])
        table = table.set_column(at, table.column_names[at], pa.array(values))
    elif what == 1:
        kinds = (pa.string(), pa.binary(), pa.float64(), pa.int8(), pa.uint64(), pa.float16(), pa.timestamp("ns"))
        kinds += (
            pa.dictionary(pa.int32(), column.type),
            pa.bool_(),
            pa.date32(),
            pa.decimal128(38, 2),
            pa.large_string(),
        )
        table = table.set_column(at, table.column_names[at], column.cast(rng.choice(kinds)))
    elif what == 2:
        table = table.rename_columns(rng.sample(table.column_names, table.num_columns))
    elif what == 3:
        table = pa.concat_tables([table, table.slice(rng.randrange(table.num_rows), 3)])
    else:
        table = table.add_column(at, rng.choice(["task", "weight", ""]), [column.slice(0).combine_chunks()])
    sink = io.BytesIO()
    pq.write_table(table, sink, compression=rng.choice(["none", "snappy", "zstd"]))
    return sink.getvalue()


def file(data: bytes, most: int, rng: random.Random, change: Change) -> bytes:
    """Change a file of ours: its bytes, its header, or what is in it, the latter two under sums that are right."""
    path = scratch(".mh")
    path.write_bytes(data)
    try:
        content = persist.read(path) if rng.random() < 0.7 else None
    except mh.errors.FileFormatError:
        content = None
    if content is None:
        return change(data, most)
    header: dict[str, Any] = {"kind": content.kind, "meta": content.meta}
    arrays = dict(content.arrays)
    lie = None
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if arrays and rng.random() < 0.5:
            name = rng.choice(sorted(arrays))
            arrays[name] = _other_array(arrays[name], rng, change)
            if rng.random() < 0.1:
                arrays[rng.choice(sorted(content.arrays))] = arrays.pop(name)
        elif rng.random() < 0.5:
            header["meta"] = _other_json(header["meta"], rng)
        else:
            lie = rng.getrandbits(32)
    return laid_out(header, arrays, lie)[:most]


def laid_out(header: dict[str, Any], arrays: dict[str, np.ndarray], lie: int | None = None) -> bytes:
    """Lay a file out with checksums that fit; `lie` seeds a change of the header that nothing corrects."""
    bodies = {name: np.ascontiguousarray(array).tobytes() for name, array in arrays.items()}
    specs = {
        name: [array.dtype.str.lstrip("<|="), list(array.shape), zlib.crc32(bodies[name])]
        for name, array in arrays.items()
    }
    whole = header | {"arrays": specs}
    text = json.dumps(whole if lie is None else _other_json(whole, random.Random(lie))).encode()
    start = struct.pack("<8sII", persist.MAGIC, persist.VERSION, len(text))
    sums = struct.pack("<I", zlib.crc32(text, zlib.crc32(start)))
    return start + sums + text + b"".join(bodies.values())


def _other_array(array: np.ndarray, rng: random.Random, change: Change) -> np.ndarray:
    """Change the bytes, an entry, the dtype or the length of an array."""
    flat = array.reshape(-1).copy()
    what = rng.randrange(4)
    if what == 0 and flat.size:
        raw = change(flat.tobytes(), flat.nbytes).ljust(flat.nbytes, b"\0")[: flat.nbytes]
        flat = np.frombuffer(raw, "u1").view(flat.dtype if flat.dtype != np.bool_ else "u1").astype(flat.dtype)
    elif what == 1 and flat.size:
        with np.errstate(all="ignore"):
            flat[rng.randrange(flat.size)] = np.array(rng.choice(_ODD_NUMBERS), "f8").astype(flat.dtype)
    elif what == 2:
        with np.errstate(all="ignore"):
            return flat.reshape(array.shape).astype(rng.choice(_DTYPES))
    else:
        at = rng.randrange(flat.size + 1)
        return np.delete(flat, slice(at, at + 1)) if rng.random() < 0.5 else np.append(flat, flat[:1])
    return flat.reshape(array.shape)


def _other_json(node: Any, rng: random.Random) -> Any:
    """Change one place of a JSON value."""
    if isinstance(node, dict | list) and node and rng.random() < 0.8:
        out = dict(node) if isinstance(node, dict) else list(node)
        key = rng.choice(sorted(out)) if isinstance(out, dict) else rng.randrange(len(out))
        if rng.random() < 0.1:
            del out[key]
        else:
            out[key] = _other_json(out[key], rng)
        return out
    return rng.choice([None, True, False, [], {}, [1, 2], *_ODD_NUMBERS, *_ODD_TEXT])


def document(data: bytes, most: int, rng: random.Random, change: Change) -> bytes:
    """Change an export: places of its JSON, attributes of its XML, or its bytes."""
    if not data:
        return change(b"\0", most)
    try:
        if rng.random() < 0.8 and data[1:2] in (b"[", b"{"):
            lines = data[1:].decode().splitlines() if data[1:2] == b"{" and b"}\n{" in data else [data[1:].decode()]
            at = rng.randrange(len(lines))
            lines[at] = json.dumps(_other_json(json.loads(lines[at]), rng))
            return (data[:1] + "\n".join(lines).encode())[:most]
        if rng.random() < 0.8 and data[1:2] == b"<":
            parts = data.split(b'"')
            at = rng.randrange(1, len(parts), 2)
            parts[at] = rng.choice(
                [str(rng.choice(_ODD_NUMBERS)).encode(), parts[at][:-1], b"", parts[rng.randrange(len(parts))]]
            )
            return b'"'.join(parts)[:most]
    except (ValueError, RecursionError):
        pass  # what is no such document any more is changed as bytes
    return data[:1] + change(data[1:], most - 1)


def shard(data: bytes, most: int, rng: random.Random, change: Change) -> bytes:
    """Change a shard, and often make its checksums fit again, those of its columns and of its header."""
    out = bytearray(data)
    if rng.random() < 0.5:
        out = bytearray(change(data, most))
    else:
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    if len(out) >= 128 and rng.random() < 0.8:
        struct.pack_into("<Q", out, 96, len(out))
        struct.pack_into("<Q", out, 104, zlib.crc32(out[128:]))
        struct.pack_into("<Q", out, 120, zlib.crc32(out[:120]))
    return bytes(out)


_ODD_TAGS = (
    b"O",
    b"B-x",
    b"I-x",
    b"I-y",
    b"B-",
    b"-",
    b"?",
    b"S-x",
    b"L-x",
    b"E-x",
    b"U-x",
    b"B-\xc3\xa9",
    b"x",
    b"\xff",
    b"",
)


def conll(data: bytes, most: int, rng: random.Random, change: Change) -> bytes:
    """Change tags in columns: a tag, a line, an empty line, the end of a line; or bytes, wherever they are."""
    if rng.random() < 0.2:
        return change(data, most)
    first, lines = data[:1], data[1:].split(b"\n")
    place = rng.randrange(len(lines))
    what = rng.randrange(5)
    if what == 0:
        lines[place : place + 1] = [lines[place]] * rng.randrange(3)
    elif what == 1:
        lines.insert(place, rng.choice([b"", b"# a", b"-DOCSTART- O", b"\t", b" "]))
    elif what == 2:
        lines[place] += rng.choice([b" ", b"\r", b"\tO", b" O", b"\0"])
    else:
        fields = lines[place].split(b"\t") if b"\t" in lines[place] else lines[place].split()
        if fields:
            fields[rng.randrange(len(fields))] = rng.choice(_ODD_TAGS)
        lines[place] = rng.choice([b"\t", b" "]).join(fields)
    return (first + b"\n".join(lines))[:most]


def choices(data: bytes, most: int, rng: random.Random, change: Change) -> bytes:
    """Change bytes that choose: any do."""
    return change(data, min(most, 64)) or rng.randbytes(8)


#: How the corpus of each target is changed.
MUTATORS = {"load": file, "read": log, "export": document, "shard": shard, "conll": conll, "fields": choices}
