"""The journal of a desk: an append-only file with one decision per line, on disk before it is acknowledged."""

from __future__ import annotations

import json
import os
import warnings
import zlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from manyhands.errors import DataWarning, FileFormatError

__all__ = ["Journal", "JournalError"]

#: Format that the first line of a journal names.
_FORMAT = "manyhands desk journal"
_VERSION = 1
#: What records can do.
ACTIONS = ("decide", "skip", "undo")


class JournalError(OSError):
    """A record could not be written; nothing of it is kept."""


class Journal:
    """An append-only file of decisions: one JSON record per line, each with a checksum.

    :meth:`append` returns after the record is on disk. A line that was cut off by a crash is removed when the journal
    is opened again; damage anywhere else raises.

    Parameters
    ----------
    folder : path
        Folder of the journal, which is created if it does not exist; the file is ``journal.jsonl`` in it.
    header : mapping
        What the decisions are about, such as the fingerprint of the log. A new journal starts with it; an existing one
        must have been started with the same.
    read_only : bool, default False
        Read the records and leave the file as it is, even while another process writes it. ``append`` raises.

    Attributes
    ----------
    records : list of dict
        The records, oldest first.
    header : dict
        What the journal was started with.

    Notes
    -----
    Cost: one ``fsync`` per record; opening reads the whole file.

    Examples
    --------
    >>> import tempfile
    >>> from manyhands.desk import Journal
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Journal(folder, {"log": "a1"}) as journal:
    ...         _ = journal.append({"do": "decide", "task": "q7", "answer": "cat"})
    ...     with Journal(folder, {"log": "a1"}) as journal:
    ...         [(record["task"], record["answer"]) for record in journal.records]
    [('q7', 'cat')]
    """

    def __init__(self, folder: str | os.PathLike[str], header: Mapping[str, Any], *, read_only: bool = False) -> None:
        self.folder = Path(folder)
        self.path = self.folder / "journal.jsonl"
        self.header: dict[str, Any] = dict(header)
        self.records: list[dict[str, Any]] = []
        self._file: int | None = None
        self._lock: int | None = None
        self._broken = False
        if read_only:
            if self.path.exists():
                self._load(self.path.read_bytes())
            return
        if self.folder.exists() and not self.folder.is_dir():
            raise NotADirectoryError(f"cannot keep a journal in {str(self.folder)!r}: it is a file")
        fresh = not self.folder.exists()
        self.folder.mkdir(mode=0o700, parents=False, exist_ok=True)
        self._lock = _lock_file(self.folder / "lock")
        try:
            self._open(fresh)
        except BaseException:
            self.close()
            raise

    def _open(self, fresh: bool) -> None:
        content = self.path.read_bytes() if self.path.exists() else b""
        whole = self._load(content)
        flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0)
        self._file = os.open(self.path, flags, 0o600)
        if whole < len(content):
            os.ftruncate(self._file, whole)
            os.fsync(self._file)
            if whole:
                warnings.warn(
                    f"the last line of {str(self.path)!r} was cut off in the middle ({len(content) - whole} bytes) and "
                    "is removed: it had not been acknowledged",
                    DataWarning,
                    stacklevel=4,
                )
        self._end = whole
        if not whole:
            self._write({"format": _FORMAT, "version": _VERSION, "at": now(), **self.header})
            for folder in (self.folder, self.folder.absolute().parent) if fresh else (self.folder,):
                _flush_folder(folder)

    def append(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Write a record and return it with its number and time, after it is on disk.

        Raises
        ------
        JournalError
            If the disk is full or fails. The file then has no part of the record.
        """
        if self._file is None:
            raise JournalError("the journal is closed, or was opened to be read only")
        if self._broken:
            raise JournalError(f"an earlier write to {str(self.path)!r} failed; start the desk again")
        if record.get("do") not in ACTIONS:
            raise ValueError(f"do must be one of {', '.join(ACTIONS)}, not {record.get('do')!r}")
        complete = {"n": len(self.records) + 1, "at": now(), **record}
        self._write(complete)
        self.records.append(complete)
        return complete

    def _write(self, record: Mapping[str, Any]) -> None:
        assert self._file is not None
        line = _line(record)
        try:
            os.lseek(self._file, self._end, os.SEEK_SET)
            left = memoryview(line)
            while left:
                left = left[os.write(self._file, left) :]
            os.fsync(self._file)
        except OSError as error:
            try:
                os.ftruncate(self._file, self._end)
                os.fsync(self._file)
            except OSError:
                self._broken = True
            raise JournalError(error.errno, f"cannot write to {str(self.path)!r}: {error.strerror}") from error
        self._end += len(line)

    def _load(self, content: bytes) -> int:
        """Take the records of a file; returns how many bytes of it are whole lines."""
        whole = 0
        for number, line in enumerate(_lines(content), 1):
            record = _parse(line)
            if record is None:
                if whole + len(line) < len(content):
                    raise FileFormatError(
                        f"line {number} of {str(self.path)!r} is damaged, and lines follow it; restore the file from a "
                        "copy"
                    )
                break
            if number == 1:
                self._check_header(record)
            elif record.get("do") not in ACTIONS or record.get("n") != number - 1:
                raise FileFormatError(f"line {number} of {str(self.path)!r} is not record {number - 1} of a journal")
            else:
                self.records.append(record)
            whole += len(line)
        return whole

    def _check_header(self, header: dict[str, Any]) -> None:
        if header.get("format") != _FORMAT:
            raise FileFormatError(f"{str(self.path)!r} is not a journal of a desk")
        if header.get("version") != _VERSION:
            raise FileFormatError(
                f"{str(self.path)!r} has version {header.get('version')!r}; this version of manyhands reads {_VERSION}"
            )
        for name, value in self.header.items():
            if header.get(name) != value:
                difference = f"{name} {header.get(name)!r}, not {value!r}"
                raise ValueError(
                    f"{str(self.path)!r} is a journal of another log or of other settings ({difference}); name another "
                    "folder with --journal, or move this one away"
                )
        self.header = {name: value for name, value in header.items() if name not in ("format", "version", "crc")}

    def close(self) -> None:
        """Close the file and let other processes open it."""
        for handle in (self._file, self._lock):
            if handle is not None:
                os.close(handle)
        self._file = self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Journal of {len(self.records):,} records in {str(self.folder)!r}>"


def now() -> str:
    """The time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _line(record: Mapping[str, Any]) -> bytes:
    """A record as a line of JSON that ends with a checksum of the rest."""
    text = json.dumps(record, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return f'{text[:-1]},"crc":{zlib.crc32(text.encode())}}}\n'.encode()


def _parse(line: bytes) -> dict[str, Any] | None:
    """The record of a line; None if the line is not whole."""
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict) or "crc" not in record:
        return None
    crc = record.pop("crc")
    return record if _line(record) == line and isinstance(crc, int) else None


def _lines(content: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(content):
        end = content.find(b"\n", start) + 1 or len(content)
        yield content[start:end]
        start = end


def _lock_file(path: Path) -> int:
    """Open a file and lock it until it is closed; raises if another process holds it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if os.name == "nt":
            import msvcrt

            getattr(msvcrt, "locking")(handle, getattr(msvcrt, "LK_NBLCK"), 1)  # noqa: B009  absent from other systems' stubs
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise BlockingIOError(
            f"the journal in {str(path.parent)!r} is open in another process; use that desk, or stop it first"
        ) from None
    return handle


def _flush_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk, where the system can be asked for that."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
