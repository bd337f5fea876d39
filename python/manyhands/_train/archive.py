"""Files of tensors, numbers and text, as ``torch.save`` writes them: whole or not there, and checked when read."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from manyhands._base.atomic import atomic_write
from manyhands.errors import FileFormatError

#: Of an entry of a ZIP archive that is a folder: torch makes empty memory of it, whatever it holds.
_FOLDER = 0x10


def write(path: str | os.PathLike[str], content: dict[str, Any], what: str) -> None:
    """Write a file; the one that was there stays until the new one is whole and on the disk."""
    # Given a name, torch rejects one without an ending.
    with writing(path, what), atomic_write(path) as part, part.open("wb") as file:
        torch.save(content, file)


@contextmanager
def writing(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Say of a failure which file it concerns."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # torch has a RuntimeError for a disk that is full
        raise OSError(f"the {what} {path} cannot be written: {error}") from error


def read(path: str | os.PathLike[str], what: str) -> dict[str, Any]:
    """Read a file; raises `FileFormatError` for anything else, and for one that is damaged. Nothing is executed."""
    with Path(path).open("rb") as file:
        try:
            # torch does not look at the check sums that it writes.
            archive = zipfile.ZipFile(file)
            damaged = archive.testzip() or next(
                (each.filename for each in archive.infolist() if each.external_attr & _FOLDER), None
            )
            file.seek(0)
            content = torch.load(file, map_location="cpu", weights_only=True) if damaged is None else None
        except MemoryError:
            raise
        except Exception as error:  # whatever strangers' bytes make of the two readers
            raise FileFormatError(f"{path} is no {what}, or is damaged ({error}); write it again") from error
    if damaged is not None:
        raise FileFormatError(f"the {what} {path} is damaged, in {damaged}; write it again")
    if not isinstance(content, dict):
        raise FileFormatError(f"{path} is a file of torch, but no {what} of manyhands")
    return content
