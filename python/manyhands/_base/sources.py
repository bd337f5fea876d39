"""Files and streams to read: where they are, what they hold, and where they are damaged."""

from __future__ import annotations

import codecs
import csv
import glob
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from manyhands._base.archives import files_in, is_archive, read_archive
from manyhands._base.eval_logs import ENDING as EVAL
from manyhands._base.eval_logs import read_eval
from manyhands._base.limits import free_memory
from manyhands.errors import FileFormatError, argument

PathLike = str | os.PathLike[str]

#: A CSV or Parquet table, or a document (JSON, XML, text of another format).
FileKind = Literal["csv", "parquet", "document"]

#: The process's own input.
STDIN = "-"
CSV = {".csv": ",", ".tsv": "\t", ".txt": ","}
COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
PARQUET = {".parquet", ".pq"}
#: Endings of files that are not tables, and how a file of WebAnno begins, which is not a table either.
DOCUMENTS = (".json", ".jsonl", ".ndjson", ".manifest", ".xml", ".ann", EVAL)
#: Endings of files with tags in columns, a token a line.
CONLL = (".conll", ".bio", ".iob")
WEBANNO = "#FORMAT=WebAnno TSV"
#: The second version begins with its layers, or at once with the number and the text of a sentence.
WEBANNO_2 = re.compile(rb"(\xef\xbb\xbf)?( ?# [^\n]*\|[^\n]*\r?\n)?#id=\d+\r?\n#text=")
#: How compressed streams and Parquet files begin: those of no name, and so of no ending, are identified by it.
_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"PAR1": "parquet",
}
#: Endings of files that are not read, and what to do with them.
NOT_READ = {
    ".xlsx": "an Excel workbook, which is not read; save the sheet as CSV",
    ".xls": "an Excel workbook, which is not read; save the sheet as CSV",
    ".spacy": "a DocBin of spaCy, which is not read; it names no annotators: read what your annotation tool exports",
    ".xmi": "UIMA XMI, which is not read; export the project of INCEpTION or WebAnno as WebAnno TSV v3",
    ".tar": "a tar archive, which is not read; unpack it and name the folder",
    ".tgz": "a tar archive, which is not read; unpack it and name the folder",
    ".7z": "a 7z archive, which is not read; unpack it and name the folder",
    ".rar": "a RAR archive, which is not read; unpack it and name the folder",
    ".tfrecord": "TFRecord, which is not read; export as COCO",
}
_BYTE_ORDER_MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_DELIMITERS = ",;\t|"
#: How many times its size a compressed file of text may be.
_INFLATED = 6
_HEAD = 1 << 16
#: Once so much was read, so much memory must stay free for what Arrow parses at the same time.
_WATCH_FROM = _RESERVE = 1 << 28


# --------------------------------------------------------------------------------------------------------- paths


def expand(source: PathLike | Iterable[PathLike]) -> list[Path]:
    """List the files and streams that paths, globs, folders and archives name; raise if one of them names none."""
    return [path for path, _, _ in _expand(source)]


def sources_of(source: PathLike | Iterable[PathLike], layout: Layout, format: str = "auto") -> list[Source]:
    """Return what `expand` lists, ready to be read; those in folders and archives are what their endings say."""
    files = _expand(source)
    packed = {path: content for path, _, content in files if content is not None}
    return [
        Source(path, layout, "auto" if contained else format, contained=contained, packed=packed)
        for path, contained, _ in files
    ]


def one_source(path: PathLike, layout: Layout | None = None) -> Source:
    """Return the only file that a path names, ready to be read; raise where it names several."""
    files = sources_of(path, layout or Layout())
    if len(files) > 1:
        raise ValueError(f"{os.fspath(path)!r} names {len(files):,} files, and one is needed")
    return files[0]


#: A file, whether a folder or an archive that holds it was named, and its content if it is in an archive.
_File = tuple[Path, bool, bytes | None]


def _expand(source: PathLike | Iterable[PathLike]) -> list[_File]:
    """List the files that paths, globs, folders and archives name."""
    items = [source] if isinstance(source, str | os.PathLike) else list(source)
    paths: list[_File] = []
    for item in items:
        text = os.fspath(item)
        if text == STDIN or Path(text).exists():
            paths.extend(_in_container(Path(text)))
        elif glob.has_magic(text):
            names = sorted(name for name in glob.glob(text, recursive=True) if Path(name).is_file())
            if not names:
                raise FileNotFoundError(f"no file matches {text!r}")
            paths.extend(file for name in names for file in _in_container(Path(name)))
        else:
            raise FileNotFoundError(f"there is no file {text!r}")
    if not paths:
        raise FileNotFoundError("no file was named")
    return paths


def _in_container(path: Path) -> list[_File]:
    """List the files of a folder or an archive; a path to anything else is itself."""
    tables = tuple(f"{ending}{packed}" for ending in CSV for packed in ("", *COMPRESSED))
    endings = (*DOCUMENTS, *CONLL, *tables, *PARQUET)
    if path.is_dir():
        files = files_in(path, endings)
        if not files:
            raise FileNotFoundError(f"the folder {str(path)!r} holds no file that can be read")
        return [(file, True, content) for path_name in files for file, _, content in _in_container(path_name)]
    if is_archive(path):
        return [(file, True, content) for file, content in read_archive(path, endings).items()]
    return [(path, False, read_eval(path) if path.suffix.lower() == EVAL and path.is_file() else None)]


def is_stream(path: Path) -> bool:
    """Whether a path is not a file but stdin, a pipe or a device, which can be read once and has no ending."""
    return (
        str(path) == STDIN
        or str(path).startswith(("/dev/fd/", "/dev/std", "/proc/"))
        or (path.exists() and not path.is_file())
    )


def is_document(path: Path, content: bytes | None = None) -> bool:
    """Whether a file is not a table: by its ending, or, under the ending of a table, by how it begins."""
    if path.suffix.lower() in (*DOCUMENTS, *CONLL):
        return True
    if path.suffix.lower() != ".tsv" or not (path.is_file() or content):
        return False
    content = _head(path) if content is None else content
    return content.startswith(WEBANNO.encode()) or WEBANNO_2.match(content) is not None


def bare_suffix(path: Path) -> str:
    """Return the ending of a path, before that of its compression."""
    suffixes = [s.lower() for s in path.suffixes]
    return suffixes[-2] if len(suffixes) > 1 and suffixes[-1] in COMPRESSED else (suffixes or [""])[-1]


def kind_of(path: Path) -> Literal["csv", "parquet"]:
    """Return what a table is by the ending of its name."""
    kind = _by_ending(path)
    if kind is None:
        endings = ", ".join(sorted([*CSV, *PARQUET]))
        raise ValueError(f"unknown kind of file: {str(path)!r}; its name should end in one of {endings}")
    return kind


def _by_ending(path: Path) -> Literal["csv", "parquet"] | None:
    suffix = bare_suffix(path)
    return "csv" if suffix in CSV else "parquet" if suffix in PARQUET else None


#: Formats that are of one kind of file; exports of platforms are what their content is.
_KIND_OF_FORMAT: dict[str, FileKind] = {
    "csv": "csv",
    "parquet": "parquet",
    "json": "document",
    "conll": "document",
}


def file_kind(path: Path, format: str = "auto", content: bytes | None = None) -> FileKind:
    """Return the format of a log's file: by `format`, or its ending, or, under another ending, its content.

    Parameters
    ----------
    path : path
        A file.
    format : str, default "auto"
        As for :func:`manyhands.read`; a format that is named is obeyed whatever the ending.
    content
        What it holds, if it is in an archive.
    """
    suffix = path.suffix.lower()
    if suffix in NOT_READ and format not in _KIND_OF_FORMAT:
        raise ValueError(f"{str(path)!r} is {NOT_READ[suffix]}")
    if format == "auto":
        by_content = "document" if is_document(path, content) else _by_ending(path)
        if by_content is not None:
            return by_content
    elif format in _KIND_OF_FORMAT:
        return _KIND_OF_FORMAT[format]
    elif is_document(path):
        return "document"
    kind, _ = _sniff(_head(path))
    if format == "auto" and kind == "csv":
        endings = ", ".join((*sorted([*CSV, *PARQUET]), *DOCUMENTS, *CONLL))
        raise ValueError(
            f"unknown kind of file: {str(path)!r}; its name should end in one of {endings} "
            f"({', '.join(CSV)} also with {', '.join(COMPRESSED)}), or say what it is with "
            f"{argument('format')}, such as 'csv'"
        )
    return kind


def _head(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(_HEAD)


def _sniff(content: bytes) -> tuple[FileKind, str | None]:
    """Return what content is, by how it begins, and how it is compressed."""
    by_magic = next((kind for magic, kind in _MAGIC.items() if content.startswith(magic)), None)
    if by_magic == "parquet":
        return "parquet", None
    bare = content.removeprefix(codecs.BOM_UTF8).lstrip()
    if by_magic is None and (bare[:1] in (b"[", b"{", b"<") or bare.startswith(WEBANNO.encode())):
        return "document", None
    return "csv", by_magic


# ------------------------------------------------------------------------------------------------------- sources


@dataclass(frozen=True)
class Layout:
    """Format of CSV files; None to detect it in each file."""

    delimiter: str | None = None
    encoding: str | None = None
    header: bool = True

    def __post_init__(self) -> None:
        if self.delimiter is not None and (len(self.delimiter) != 1 or not self.delimiter.isascii()):
            raise ValueError(f"delimiter must be a single ASCII character, not {self.delimiter!r}")
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except LookupError:
                raise ValueError(
                    f"there is no encoding {self.encoding!r}; common ones are latin-1, cp1252, utf-16"
                ) from None


class Source:
    """A CSV or Parquet file, a document, or a stream of any of them, that can be opened again and again."""

    def __init__(
        self,
        path: PathLike,
        layout: Layout,
        format: str = "auto",
        *,
        contained: bool = False,
        packed: Mapping[Path, bytes] | None = None,
    ) -> None:
        self.path = Path(path)
        self.layout = layout
        #: Whether a folder or an archive was named, and not this file.
        self.contained = contained
        #: What files of archives hold, this one and those next to it.
        self._packed = {} if packed is None else packed
        self._content = self._packed.get(self.path)
        self._format = format
        #: Whether it can be read only once.
        self.is_stream = is_stream(self.path)
        #: The names of the columns of a table, once they are known.
        self.columns: list[str] | None = None
        if not self.is_stream:
            _ = self.kind  # raise for a file that cannot be read

    @cached_property
    def kind(self) -> FileKind:
        """What the file is."""
        return self._sniffed[0]

    @cached_property
    def _sniffed(self) -> tuple[FileKind, str | None]:
        """What the file is, and how it is compressed."""
        if self.is_stream:
            # Twice through a stream, for its header and its rows, needs all of it at hand.
            with enough_memory(str(self)):
                self._content = _stdin() if str(self.path) == STDIN else self.path.read_bytes()
            kind, codec = _sniff(self._content)
            return _KIND_OF_FORMAT.get(self._format, kind), codec
        kind = file_kind(self.path, self._format, self._content)
        if kind != "csv":
            return kind, None
        by_content = None if _by_ending(self.path) else _sniff(_head(self.path))[1]
        return kind, COMPRESSED.get(self.path.suffix.lower(), by_content)

    def __str__(self) -> str:
        return "stdin" if str(self.path) == STDIN else repr(str(self.path))

    def content(self) -> bytes | None:
        """Return what a stream or a member of an archive holds; None for a file on disk."""
        _ = self.kind  # of a stream, all is read now
        return self._content

    def needed_memory(self) -> int | None:
        """Bytes that reading the file into memory takes, roughly; None where that cannot be determined beforehand."""
        if self.is_stream or self._content is not None or self.kind == "document":
            return None
        if self.kind == "csv":
            return self.path.stat().st_size * (_INFLATED if self.path.suffix.lower() in COMPRESSED else 1)
        import pyarrow as pa

        try:
            content = self.parquet
        except (pa.ArrowException, OSError):
            return None  # raised again, with the file's name, by the caller
        groups = (content.row_group(group).total_byte_size for group in range(content.num_row_groups))
        return int(16 * content.num_rows + sum(groups))

    @cached_property
    def parquet(self) -> Any:
        """The metadata of a Parquet file: its schema and its groups of rows."""
        import pyarrow.parquet

        with self.open() as stream:
            return pyarrow.parquet.read_metadata(stream)

    def companion(self, ending: str) -> bytes | None:
        """Return what the file of the same name with another ending holds; None if there is none."""
        path = self.path.with_suffix(ending)
        return path.read_bytes() if path.is_file() else self._packed.get(path)

    def open(self) -> Any:
        """Return the content, decompressed, as a stream for this thread alone."""
        import pyarrow as pa

        _, codec = self._sniffed
        if self._content is not None:
            return pa.input_stream(pa.py_buffer(self._content), compression=codec)
        return pa.input_stream(os.fspath(self.path), compression=codec)

    def open_kept(self) -> Any:
        """Return the content for Arrow's reader; the first bytes, which show delimiter and encoding, are kept."""
        import pyarrow as pa

        stream = self.open()
        self._head = bytes(stream.read(_HEAD))
        return pa.PythonFile(_Shared(stream, self._head), "r")

    def open_shared(self, *, watched: bool = False) -> Any:
        """Return the content for Arrow's reader; `watched`, it gives up before memory does, where it might not fit.

        Arrow, when it runs out of memory while it parses, ends the process.
        """
        import pyarrow as pa

        return pa.PythonFile(self.open_watched() if watched else _Shared(self.open()), "r")

    def open_watched(self) -> Any:
        """Return the content as a stream that gives up before memory does, where it might not fit."""
        free, stream = free_memory(), self.open()
        small = self._sniffed[1] is None and free is not None and 4 * stream.size() < free
        return _Shared(stream, watched=not small)

    @cached_property
    def _head(self) -> bytes:
        with self.open() as stream:
            return bytes(stream.read(_HEAD))

    @cached_property
    def encoding(self) -> str:
        """The encoding given, or else UTF-8, unless a byte order mark indicates another."""
        if self.layout.encoding is not None:
            return codecs.lookup(self.layout.encoding).name
        return next((name for mark, name in _BYTE_ORDER_MARKS.items() if self._head.startswith(mark)), "utf-8")

    @cached_property
    def delimiter(self) -> str:
        """The delimiter given, or that of the ending, or another one if the first line has only that."""
        if self.layout.delimiter is not None:
            return self.layout.delimiter
        usual = CSV.get(bare_suffix(self.path), ",")
        first = self._head.decode(self.encoding, errors="replace").lstrip().partition("\n")[0]
        line = re.sub(r'"[^"]*"', "", first)
        counts = {mark: line.count(mark) for mark in _DELIMITERS}
        most = max(counts, key=lambda mark: counts[mark])
        alone = list(counts.values()).count(counts[most]) == 1
        return most if alone and not counts[usual] else usual

    def hint(self, names: Sequence[str]) -> str:
        """Return what may be wrong with a CSV file in which a column was not found."""
        if self.kind != "csv":
            return ""
        if any("\0" in name for name in names):
            return f"; the file looks like UTF-16: say {argument('encoding', 'utf-16-le')}, or 'utf-16-be'"
        other = next((mark for mark in _DELIMITERS if mark != self.delimiter and any(mark in x for x in names)), None)
        if other is not None and self.layout.delimiter is None:
            return f"; if fields are separated by {other!r}, say {argument('delimiter', other)}"
        if self.layout.header and any(re.fullmatch(r"-?\d+([.,]\d+)?|", name.strip()) for name in names):
            return (
                f"; if the first line is not a header, pass {argument('header', False)}, and name columns by "
                "their numbers: 1, 2, …"
            )
        return ""


class _Shared(io.RawIOBase):
    """A stream that a thread of Arrow's reads ahead: closing it waits for what is being read.

    Without that, the thread would read on from the number of the closed file, and so from the file opened next.
    """

    def __init__(self, stream: Any, head: bytes = b"", *, watched: bool = False) -> None:
        self._stream = stream
        #: Bytes that were read before.
        self._head = head
        #: Whether to look for memory left for what was handed out.
        self._watched = watched
        self._given = 0
        self._ended = False
        self._lock = Lock()

    def readable(self) -> bool:
        """Report that the file can be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; none once it was closed."""
        with self._lock:
            if self._ended:
                return b""
            self._given += max(size, 0)
            free = free_memory() if self._watched and self._given > _WATCH_FROM else None
            if free is not None and free < _RESERVE:
                raise MemoryError  # `enough_memory` adds the message
            head, self._head = (self._head, b"") if size < 0 else (self._head[:size], self._head[size:])
            return head + bytes(self._stream.read(size if size < 0 else size - len(head)))

    def close(self) -> None:
        """Close the stream too."""
        with self._lock:
            self._ended = True
            self._stream.close()
        super().close()


def _stdin() -> bytes:
    """Return all that the standard input holds."""
    if sys.stdin is None:
        raise FileNotFoundError("the standard input is closed; name a file, or pipe the log into it")
    return sys.stdin.buffer.read()


# ------------------------------------------------------------------------------------------------------- damages


@contextmanager
def reading(source: Source) -> Iterator[None]:
    """Turn an error of Arrow about a bad file into one that names it, and the place where it is bad."""
    import pyarrow as pa

    try:
        with enough_memory(str(source)):
            yield
    except (FileNotFoundError, PermissionError, IsADirectoryError, FileFormatError):
        raise
    except (pa.ArrowException, OSError, UnicodeError, csv.Error) as error:
        lines = str(error).strip().splitlines()
        reason = f"{lines[0] if lines else type(error).__name__} (is the file truncated, or of another format?)"
        raise FileFormatError(f"cannot read {source}: {_locate(source, error) or reason}") from error


@contextmanager
def enough_memory(what: str) -> Iterator[None]:
    """Return what it was that did not fit in memory, where Arrow or Python only say that something did not."""
    try:
        yield
    except MemoryError as error:
        if str(error) and not type(error).__module__.startswith("pyarrow"):
            raise
        raise MemoryError(
            f"the needed columns of {what} do not fit in memory ({str(error) or 'it is used up'}); read fewer rows, "
            "or where there is more memory (a compressed file can be many times its size)"
        ) from error


def _locate(source: Source, error: BaseException) -> str:
    """Return where a CSV file is bad; empty if that is not known."""
    text = str(error)
    if source.kind != "csv":
        return ""
    if "UTF8" in text or isinstance(error, UnicodeError):
        return _bad_byte(source)
    if re.search(r"Expected \d+ columns, got \d+", text):
        return _ragged_line(source)
    return ""


def _bad_byte(source: Source) -> str:
    """Find the first byte that is not of the encoding."""
    decoder = codecs.getincrementaldecoder(source.encoding)
    line, start = 1, 0
    with source.open() as stream:
        pending = decoder()
        for chunk in iter(lambda: stream.read(_HEAD), b""):
            data = bytes(pending.getstate()[0]) + chunk
            try:
                line += pending.decode(chunk).count("\n")
            except UnicodeDecodeError as error:
                line += data[: error.start].count(b"\n")
                place = start + len(chunk) - len(data) + error.start
                where = f"byte 0x{data[error.start]:02x} at {place:,}"
                where_bad = f"line {line} is not in {source.encoding.upper()} ({where})"
                return (
                    f"{where_bad}; if it was written in another encoding, such as Latin-1, say "
                    f"{argument('encoding', 'latin-1')}"
                )
            start += len(chunk)
    return ""


def _ragged_line(source: Source) -> str:
    """Find the first line that has more or fewer fields than the first one."""
    with source.open() as stream, io.TextIOWrapper(stream, source.encoding, errors="replace", newline="") as text:
        rows = csv.reader(text, delimiter=source.delimiter)
        first: list[str] = []
        for row in rows:
            first = first or row
            if row and len(row) != len(first):
                fields = f"{len(row)} field{'s' if len(row) > 1 else ''}"
                return (
                    f"line {rows.line_num} has {fields}, and the first line {len(first)} (is the file cut off, or a "
                    f"field with a {source.delimiter!r} in it not in quotes?){source.hint(first)}"
                )
    return ""
