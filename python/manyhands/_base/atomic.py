"""The one way in which files are written: whole or not at all, and never over an input of the same run."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

PathLike = str | os.PathLike[str]

#: Bytes of a name that are kept in that of its temporary file; systems allow 255 in all.
_MOST_BYTES = 100

#: Files that must not be overwritten now; None outside of `protecting_inputs`.
_INPUTS: ContextVar[list[Path] | None] = ContextVar("inputs", default=None)


@contextmanager
def protecting_inputs() -> Iterator[None]:
    """Keep what `protect` names from being overwritten until the block ends."""
    token = _INPUTS.set([])
    try:
        yield
    finally:
        _INPUTS.reset(token)


def protect(paths: Iterable[PathLike]) -> None:
    """Name files that are read; writing over one of them raises, inside of `protecting_inputs`."""
    inputs = _INPUTS.get()
    if inputs is not None:
        inputs.extend(Path(path) for path in paths)


def check_output(path: PathLike) -> None:
    """Raise unless a file could be written there: it is not a folder, not an input, and may be replaced or created."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {str(target)!r}: it is a folder")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {str(target)!r}: there is no folder {str(target.parent)!r}")
    if any(same_file(target, each) for each in _INPUTS.get() or ()):
        raise ValueError(f"cannot write {str(target)!r}: it is read in the same run")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise PermissionError(f"cannot write {str(target)!r}: permission denied")


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths name one file, also by a link or in another case."""
    with suppress(OSError):
        if one.exists() and other.exists():
            return one.samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)


@contextmanager
def atomic_write(path: PathLike) -> Iterator[Path]:
    """Yield a path to write to, whose file replaces `path` when the block ends, whole and on disk.

    The temporary file is new (``O_EXCL``), in the same folder and with the same ending, and has an unpredictable name:
    any number of threads and processes may write the same file, and the last one to finish wins. If the block or the
    last step fails, the old file stays and the temporary one is removed. A file that is replaced keeps its permissions;
    a new one has those of the umask. What is not a plain file (a pipe, a device) is written in place.

    Raises
    ------
    ValueError
        If `path` is an input of the same run (see `protect`).

    Examples
    --------
    >>> from manyhands._base.atomic import atomic_write
    >>> with atomic_write("notes.txt") as part:  # doctest: +SKIP
    ...     part.write_text("all or nothing")
    """
    target = Path(os.path.realpath(path))
    if any(same_file(target, each) for each in _INPUTS.get() or ()):
        raise ValueError(f"cannot write {os.fspath(path)!r}: it is read in the same run")
    if target.exists() and not target.is_file():
        yield target
        return
    replaced = target.stat() if target.exists() else None
    part = _new_file_beside(target, 0o666 if replaced is None else 0o600)
    try:
        yield part
        _flush(part, os.O_RDWR)
        if replaced is not None:
            _take_permissions(part, replaced)
        os.replace(part, target)
    except BaseException:
        with suppress(OSError):  # the first error is the one to report
            part.unlink(missing_ok=True)
        raise
    # The name is as lasting as the file only when the folder is on disk; not every system can be asked for that.
    with suppress(OSError):
        _flush(target.parent, os.O_RDONLY)


def check_writable(path: PathLike) -> None:
    """Raise `OSError` unless a file could be written there now."""
    _new_file_beside(Path(os.path.realpath(path)), 0o600).unlink()


def _new_file_beside(target: Path, mode: int) -> Path:
    """Create an empty file in the folder of another, with the same ending."""
    name = target.name
    while len(os.fsencode(name)) > _MOST_BYTES:
        name = name[1:]
    while True:
        part = target.with_name(f".part-{os.urandom(8).hex()}-{name}")
        try:
            os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        except FileExistsError:
            continue
        return part


def _take_permissions(part: Path, replaced: os.stat_result) -> None:
    """Give a file the group and mode of the one it replaces; where the group cannot be kept, it gets no access."""
    mode = stat.S_IMODE(replaced.st_mode)
    if part.stat().st_gid != replaced.st_gid:
        try:
            os.chown(part, -1, replaced.st_gid)
        except OSError:
            mode &= ~0o070
    part.chmod(mode)


def _flush(path: Path, mode: int) -> None:
    """Wait until all of a file, or folder, is on disk."""
    handle = os.open(path, mode)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
