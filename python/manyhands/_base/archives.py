"""Zip archives and folders of exports: which files they hold, read in memory and within bounds.

A member of an archive has a path below that of the archive, ``export.zip/annotation/letter.txt/ann.tsv``, so that names
of folders and files mean the same as on disk. Nothing is ever unpacked to disk.
"""

from __future__ import annotations

import zipfile
import zlib
from collections import Counter
from pathlib import Path, PurePosixPath

from manyhands._base import eval_logs
from manyhands._base.checks import preview, warn_of_data
from manyhands._base.limits import check_memory
from manyhands.errors import FileFormatError

ARCHIVE = ".zip"
#: Endings of archives within archives, which are not opened.
_NESTED = (".zip", ".tar", ".tgz", ".7z", ".rar")
#: Files that an archive may hold.
_MOST_MEMBERS = 200_000
#: From this size on, files must not grow by more than this factor: deflate reaches about 1,000, exports about 50.
_LARGE = 10 << 20
_MOST_GROWTH = 250


def is_archive(path: Path) -> bool:
    """Whether a path is a zip archive, by its ending."""
    return path.suffix.lower() == ARCHIVE and path.is_file()


def archive_of(path: Path) -> Path | None:
    """Return the archive that a path leads into; None for a file on disk."""
    return next((parent for parent in path.parents if is_archive(parent)), None)


def files_in(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    """List the files of a folder and the folders in it that have one of the endings, in order of their paths."""
    files = (path for path in folder.rglob("*") if path.is_file() and not _is_hidden(path.relative_to(folder).parts))
    return sorted(path for path in files if path.name.lower().endswith((*endings, ARCHIVE)))


def read_archive(archive: Path, endings: tuple[str, ...]) -> dict[Path, bytes]:
    """Return the files of an archive that have one of the endings; raise for one that is not safe to open."""
    with _open(archive) as content:
        entries = [entry for entry in content.infolist() if not entry.is_dir() and not _is_hidden(_parts(entry))]
        matches = _members(archive, entries, endings)
        total = sum(entry.file_size for entry in matches)
        check_memory(2 * total, f"the archive {str(archive)!r}", "unpack it, and read its files in parts")
        members = {archive / entry.filename: entry for entry in matches}
        return {path: _unpack(content, members[path], path) for path in sorted(members)}


def _members(archive: Path, entries: list[zipfile.ZipInfo], endings: tuple[str, ...]) -> list[zipfile.ZipInfo]:
    if len(entries) > _MOST_MEMBERS:
        raise FileFormatError(f"{str(archive)!r} has {len(entries):,} files; at most {_MOST_MEMBERS:,} are read")
    matches = [entry for entry in entries if entry.filename.lower().endswith(endings)]
    nested = [entry.filename for entry in entries if entry.filename.lower().endswith(_NESTED)]
    if nested and not matches:
        raise FileFormatError(
            f"{str(archive)!r} holds archives within the archive ({preview(nested)}), which are not opened; unpack it"
        )
    if nested:
        warn_of_data(
            f"{str(archive)!r}: dropped {len(nested):,} archives within the archive ({preview(nested)}); unpack it"
        )
    counts = Counter(entry.filename for entry in matches)
    for entry in matches:
        _check(archive, entry)
        if counts[entry.filename] > 1:
            raise FileFormatError(f"{entry.filename!r} is in {str(archive)!r} twice; pack the archive again")
    total = sum(entry.file_size for entry in matches)
    if total > _LARGE and total > _MOST_GROWTH * archive.stat().st_size:
        raise FileFormatError(f"{str(archive)!r} would grow to {total:,} bytes, more than exports do; it is not read")
    if not matches:
        suffixes = sorted({PurePosixPath(entry.filename).suffix or entry.filename for entry in entries})
        raise ValueError(f"{str(archive)!r} holds no file that can be read; it holds {preview(suffixes) or 'nothing'}")
    return matches


def _unpack(content: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path) -> bytes:
    try:
        with content.open(entry) as stream:
            data = stream.read(entry.file_size)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise FileFormatError(f"{str(path)!r} cannot be unpacked: {error}") from None
    return eval_logs.read_eval(path, data) if path.suffix.lower() == eval_logs.ENDING else data


def _open(archive: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(archive)
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise FileFormatError(f"{str(archive)!r} is not a zip archive that can be read: {error}") from None


def _check(archive: Path, entry: zipfile.ZipInfo) -> None:
    """Reject a member whose path leads outside, that needs a password, or that grows beyond reason."""
    what = f"{entry.filename!r} in {str(archive)!r}"
    if ".." in _parts(entry) or entry.filename.startswith("/") or "\\" in entry.filename:
        raise FileFormatError(f"{what} is not a path within the archive; it is not read")
    if entry.flag_bits & 1:
        raise FileFormatError(f"{what} is encrypted; unpack the archive first")
    if entry.file_size > _LARGE and entry.file_size > _MOST_GROWTH * max(entry.compress_size, 1):
        raise FileFormatError(
            f"{what} would grow from {entry.compress_size:,} to {entry.file_size:,} bytes, more than "
            "exports do; it is not read"
        )


def _parts(entry: zipfile.ZipInfo) -> tuple[str, ...]:
    return PurePosixPath(entry.filename).parts


def _is_hidden(parts: tuple[str, ...]) -> bool:
    return any((part.startswith(".") and part not in (".", "..")) or part == "__MACOSX" for part in parts)
