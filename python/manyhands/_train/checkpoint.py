"""Checkpoints: what a training needs to go on, in a file that identifies its training.

A file is what ``torch.save`` writes, of tensors, numbers and text alone: nothing in it can be executed. It appears only
when it is whole, and is checked before it is trusted.
"""

from __future__ import annotations

import hashlib
import numbers
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from manyhands._base.atomic import check_writable
from manyhands._base.names import Names
from manyhands._train import archive
from manyhands._train.batch import CrowdData
from manyhands.errors import FileFormatError

#: Of what a file holds; files without are of manyhands 0.1, and do not state which crowd they know.
_FORMAT = 2
_WHAT = "checkpoint"


def prepare(path: str | os.PathLike[str] | None, *, resume: bool, overwrite: bool) -> None:
    """Raise for a file that cannot be gone on from, that would be lost, or that cannot be written, before any work."""
    if path is None:
        if resume or overwrite:
            action, what = ("resume", "resume from") if resume else ("overwrite", "write over")
            raise ValueError(f"{action}=True needs the file to {what}: set checkpoint=")
        return
    if resume and overwrite:
        raise ValueError("resume=True continues from the checkpoint, overwrite=True starts again: pass one of them")
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent} for the checkpoint {target}; make it first")
    if target.is_dir():
        raise IsADirectoryError(f"the checkpoint {target} is a folder; give the name of a file")
    if resume and not target.exists():
        raise FileNotFoundError(f"there is no checkpoint {target} to resume from; fit without resume=True begins one")
    if target.exists() and not (resume or overwrite):
        raise FileExistsError(
            f"the checkpoint {target} is there already: fit(..., resume=True) goes on from it, fit(..., "
            "overwrite=True) starts again and replaces it"
        )
    with archive.writing(target, _WHAT):
        check_writable(target)


def write(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write a checkpoint; the file that was there stays until the new one is whole and on the disk."""
    archive.write(path, {"format": _FORMAT} | content, _WHAT)


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a checkpoint; raises `FileFormatError` for anything else, and for one that is damaged."""
    content = archive.read(path, _WHAT)
    if not content.keys() & {"format", "learner"}:
        raise FileFormatError(f"{path} is a file of torch, but no checkpoint of manyhands")
    if content.get("format") != _FORMAT:
        raise FileFormatError(
            f"the checkpoint {path} is of another version of manyhands, and does not state which crowd it belongs to; "
            "start again, or continue with that version"
        )
    return content


@dataclass(frozen=True)
class Owner:
    """Whose training it is: only the same may go on from a checkpoint."""

    learner: str
    n_workers: int
    n_classes: int
    workers: str
    classes: str
    votes: str
    settings: dict[str, str]

    @classmethod
    def of(cls, learner: str, workers: Names, classes: Names, data: CrowdData, settings: Mapping[str, Any]) -> Owner:
        """The learner, its crowd and classes by name and in order, what they answered, and the settings."""
        texts = {name: _as_text(value) for name, value in settings.items()}
        return cls(learner, len(workers), len(classes), _names(workers), _names(classes), _votes(data), texts)

    def content(self) -> dict[str, Any]:
        """As it is kept in a file."""
        return {"owner": asdict(self)}

    def refuse_other(self, path: str | os.PathLike[str], content: dict[str, Any]) -> None:
        """Raise if a file's owner is another, and say in what."""
        try:
            other = Owner(**content["owner"])
        except (KeyError, TypeError):
            raise FileFormatError(
                f"the checkpoint {path} does not state which crowd it belongs to; start again"
            ) from None
        if other.learner != self.learner or (other.n_workers, other.n_classes) != (self.n_workers, self.n_classes):
            raise ValueError(
                f"{path} is of a {other.learner} with {other.n_workers} workers and {other.n_classes} classes, not of "
                f"this {self.learner} with {self.n_workers} and {self.n_classes}"
            )
        for what in ("workers", "classes"):
            if getattr(other, what) != getattr(self, what):
                raise ValueError(
                    f"{path} is of {what} with other names, or in another order, than those of these votes"
                )
        if other.votes != self.votes:
            raise ValueError(
                f"{path} is of the same workers, but of other annotations than these; resuming needs the same, begin "
                "again with others"
            )
        changed = [
            f"{name}={other.settings.get(name)}, now {self.settings.get(name)}"
            for name in sorted(other.settings.keys() | self.settings.keys())
            if other.settings.get(name) != self.settings.get(name)
        ]
        if changed:
            raise ValueError(f"{path} was written with {'; '.join(changed)}: resuming needs the same settings")


def _digest(parts: Iterable[bytes | memoryview]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _names(names: Names) -> str:
    return _digest(f"{value!r}\n".encode("utf-8", "surrogatepass") for value in names.values.tolist())


def _votes(data: CrowdData) -> str:
    """Who answered what to which sample, with what weight; the true classes, where these are known."""
    table = data.votes.table
    arrays = [*table.columns(), table.weights(), None if data.truth is None else data.truth.numpy()]
    return _digest(np.ascontiguousarray(array).data for array in [np.array(len(data)), *arrays] if array is not None)


def _as_text(value: Any) -> str:
    """A setting as text that is the same wherever the program runs; objects are replaced by their type."""
    if value is None or isinstance(value, bool | str):
        return repr(value)
    if isinstance(value, numbers.Real):
        return repr(float(value)).removesuffix(".0")
    if isinstance(value, np.ndarray):
        return _as_text(value.tolist())
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_as_text, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name!r}: {_as_text(each)}' for name, each in value.items())}}}"
    return str(getattr(value, "__qualname__", type(value).__qualname__))
