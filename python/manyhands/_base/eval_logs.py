"""Logs of Inspect in their packed form (``.eval``): a zip archive with a header and a JSON file per sample.

What comes out is the log as JSON, with the fields of samples that say what was asked, answered and scored: transcripts
of events are most of a log, and are not kept.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

from manyhands._base.limits import check_memory
from manyhands.errors import FileFormatError

ENDING = ".eval"
#: Fields of a sample that are kept.
_KEPT = ("id", "epoch", "input", "choices", "target", "output", "scores", "metadata", "error")
#: The method of compression that newer versions of Inspect use.
_ZSTANDARD = 93
#: Bytes of a local file header before the name; the last four are the lengths of the name and of the extra field.
_LOCAL = 30
_LARGE, _MOST_GROWTH = 10 << 20, 1_000


def read_eval(path: Path, content: bytes | None = None) -> bytes:
    """Return a packed log of Inspect as JSON; raise for one that is cut off, damaged or unfinished."""
    content = path.read_bytes() if content is None else content
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        raise FileFormatError(
            f"{str(path)!r} is not a complete log of Inspect: it was cut off, or the evaluation was still writing it; "
            "copy it again, or wait until the evaluation ends"
        ) from None
    entries = {entry.filename: entry for entry in archive.infolist()}
    if "header.json" not in entries:
        why = (
            "the evaluation stopped before it was finished; run `inspect eval-retry` or `inspect log recover`"
            if "_journal/start.json" in entries
            else "it holds no header.json"
        )
        raise FileFormatError(f"{str(path)!r} is not a complete log of Inspect: {why}")
    samples = [entry for name, entry in entries.items() if name.startswith("samples/") and name.endswith(".json")]
    total = sum(entry.file_size for entry in samples)
    if total > _LARGE and total > _MOST_GROWTH * len(content):
        raise FileFormatError(f"{str(path)!r} would grow to {total:,} bytes, more than logs do; it is not read")
    largest = max((entry.file_size for entry in samples), default=0)
    check_memory(12 * largest + total, f"the log {str(path)!r}", "read its samples in parts")
    log: Any = _member(content, entries["header.json"], path)
    log["samples"] = []
    for entry in samples:
        sample = _member(content, entry, path)
        log["samples"].append({name: sample[name] for name in _KEPT if name in sample})
    return json.dumps(log).encode()


def _member(content: bytes, entry: zipfile.ZipInfo, path: Path) -> Any:
    """Parse a member of the archive; Python reads Zstandard from version 3.14 on only, so Arrow does."""
    try:
        parsed = json.loads(_unpack(content, entry))
        if isinstance(parsed, dict):
            return parsed
        reason = "it is not an object"
    except (ValueError, OSError, zlib.error) as error:
        reason = str(error)
    raise FileFormatError(f"{entry.filename!r} in {str(path)!r} is damaged ({reason}); copy the log again")


def _unpack(content: bytes, entry: zipfile.ZipInfo) -> bytes:
    import pyarrow as pa

    start = entry.header_offset + _LOCAL
    lengths = content[start - 4 : start]
    start += int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
    packed = content[start : start + entry.compress_size]
    most = entry.file_size + 1  # one more than the size it states, to notice a size that is too small
    if entry.compress_type == _ZSTANDARD:
        data: bytes = pa.input_stream(pa.BufferReader(packed), compression="zstd").read(most)
    elif entry.compress_type == zipfile.ZIP_DEFLATED:
        data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, most)
    elif entry.compress_type == zipfile.ZIP_STORED:
        data = packed
    else:
        raise ValueError(f"it is compressed by method {entry.compress_type}, which is not known")
    if zlib.crc32(data) != entry.CRC:
        raise ValueError("its checksum differs")
    return data
