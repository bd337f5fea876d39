"""The right to write shards to a directory: one process at a time, and no file that is not ours is touched."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from manyhands._base import atomic
from manyhands._base.checks import warn_of_data
from manyhands.errors import FileFormatError

MANIFEST = "manifest.json"
FORMAT = "manyhands shards"
VERSION = 2
#: The version whose files lay next to the manifest, which had no checksum; it can still be read.
UNCHECKED = 1
_LOCK = "encoding.lock"
_FOLDER = re.compile(r"data-[0-9a-f]{32}")
#: A manifest that was being written when its process was killed.
_PART = re.compile(rf"\.part-[0-9a-f]{{16}}-{re.escape(MANIFEST)}")
#: Seconds between two looks at a directory that another process encodes to.
_PAUSE = 0.2


class Claim:
    """A directory that this process alone may write shards to, from ``with`` to the end of its block.

    All files go to a new folder in the directory, which the manifest names before the folder is there. A block that
    fails deletes that folder; what a process that was killed has left is deleted by the next one, since its manifest
    states that the folder is unfinished. Nothing else is ever deleted.

    Parameters
    ----------
    path : str or path
        The directory: one that is new, empty, or left unfinished.
    wait : bool, default False
        Whether to wait while another process encodes to it; otherwise that raises `FileExistsError`.
    """

    def __init__(self, path: str | os.PathLike[str], *, wait: bool = False) -> None:
        self.path = Path(path)
        self._wait = wait
        self._lock: int | None = None
        self._folder: Path | None = None

    def __enter__(self) -> Self:
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = self._acquired()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._lock is not None
        if self._folder is not None:  # it was not finished
            with suppress(OSError):  # the next process deletes it
                shutil.rmtree(self._folder)
                (self.path / MANIFEST).unlink()
            self._folder = None
        with suppress(OSError):  # some systems keep a file that is open
            (self.path / _LOCK).unlink()
        os.close(self._lock)
        self._lock = None

    @property
    def folder(self) -> Path:
        """The folder to write to; made when it is first asked for, unless the directory holds anything else."""
        if self._folder is None:
            self._reject_foreign()
            left = read_manifest(self.path)
            if left is not None:
                with suppress(FileNotFoundError):
                    shutil.rmtree(self.path / left["unfinished"])
            name = f"data-{os.urandom(16).hex()}"
            write_manifest(self.path, {"unfinished": name})
            self._folder = self.path / name
            self._folder.mkdir()
        return self._folder

    def finish(self, content: dict[str, Any]) -> None:
        """Write the manifest of a directory that is whole."""
        write_manifest(self.path, content | {"folder": self.folder.name})
        self._folder = None

    def _reject_foreign(self) -> None:
        ours = {_LOCK}
        if (self.path / MANIFEST).exists():
            try:
                manifest = read_manifest(self.path)
            except FileFormatError:
                manifest = None  # of another program, or damaged: not ours to delete
            if manifest is not None and "unfinished" not in manifest:
                raise FileExistsError(
                    f"{self.path} holds the shards of a log already; name another directory, or delete it"
                )
            if manifest is not None:
                ours |= {MANIFEST, manifest["unfinished"]}
        names = sorted(entry.name for entry in self.path.iterdir())
        foreign = [name for name in names if name not in ours and not _PART.fullmatch(name)]
        if foreign:
            raise FileExistsError(
                f"{self.path} holds {foreign[0]!r}, which is not of shards; name a new directory, or an empty one"
            )

    def _acquired(self) -> int:
        """Lock the directory; returns the open lock file."""
        path, is_reported = self.path / _LOCK, False
        while True:
            handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
            if _lock(handle, self.path):
                # The process that had it before may have deleted the file in the meantime.
                with suppress(OSError):
                    if os.path.samestat(os.fstat(handle), path.stat()):
                        return handle
                os.close(handle)
                continue
            os.close(handle)
            if not self._wait:
                raise FileExistsError(f"another process is writing shards to {self.path}; name another directory")
            if not is_reported:
                warn_of_data(f"another process is encoding a log to {self.path}: waiting until it has finished")
                is_reported = True
            time.sleep(_PAUSE)


def _lock(handle: int, path: Path) -> bool:
    """Lock an open file unless another process has done so."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        os.close(handle)
        raise OSError(
            error.errno, f"cannot lock {path} ({error.strerror}); name a directory on a disk that has file locks"
        ) from None
    return True


# ---------------------------------------------------------------------------------------------------- manifests


def write_manifest(path: Path, content: dict[str, Any]) -> None:
    """Write the manifest of a directory, with its checksum."""
    whole = {"format": FORMAT, "version": VERSION, **content}
    with atomic.atomic_write(path / MANIFEST) as part:
        part.write_text(json.dumps(whole | {"checksum": _checksum(whole)}, indent=1), encoding="utf-8")


def read_manifest(path: Path) -> dict[str, Any] | None:
    """Read the manifest of a directory, None where there is none; `FileFormatError` for any that is not ours."""
    where = path / MANIFEST
    try:
        content = json.loads(where.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, RecursionError):
        raise FileFormatError(f"{where} is damaged: it is not JSON; write the directory again") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise FileFormatError(f"{where} is not that of a directory of shards")
    if content.get("version") == UNCHECKED:
        return content | {"folder": "."}
    if content.get("version") != VERSION:
        raise FileFormatError(
            f"{path} has shards of version {content.get('version')}, and this manyhands reads versions up to "
            f"{VERSION}; write them again"
        )
    if content.pop("checksum", None) != _checksum(content):
        raise FileFormatError(f"{where} is damaged: its content is not what was written; write the directory again")
    folder = content.get("unfinished", content.get("folder"))
    if not isinstance(folder, str) or not _FOLDER.fullmatch(folder):
        raise FileFormatError(f"{where} is damaged: it does not name the folder of its shards")
    return content


def _checksum(content: dict[str, Any]) -> str:
    import hashlib

    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
