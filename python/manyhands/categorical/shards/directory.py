"""Directories of shards: a manifest, the shards, the names of their tasks, and what all of them have in common."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import atomic, persist
from manyhands._base.names import Column, Names, sequence
from manyhands.categorical.shards.claim import MANIFEST, Claim, read_manifest
from manyhands.categorical.shards.summary import Summary
from manyhands.errors import FileFormatError

_NAMES = "names.mh"
_KIND = "shard names"


@dataclass(frozen=True)
class Entry:
    """A shard, as the manifest knows it."""

    n_tasks: int
    n_annotations: int
    n_bytes: int
    #: Of its columns.
    checksum: int
    #: Of the names of its tasks.
    names: str


@dataclass(frozen=True)
class Sizes:
    """How much there is of everything."""

    n_tasks: int
    n_workers: int
    n_annotations: int
    n_labels: int
    n_classes: int
    weighted: bool


@dataclass(frozen=True)
class Directory:
    """A directory of shards that is whole, opened by `open_directory` or written by `Writer`."""

    path: Path
    #: Where its files are, but for the manifest.
    folder: Path
    sizes: Sizes
    entries: tuple[Entry, ...]
    #: Whether tasks are called by their numbers.
    numbered: bool
    #: Of all content: the same log gives the same.
    digest: str
    #: Of the files it was made of, and how they were read; None where that is not known.
    source: str | None
    workers: Names = field(repr=False)
    classes: Names = field(repr=False)
    labels: Names = field(repr=False)
    unlabelled: Names = field(repr=False)
    #: With abstentions, and without.
    summaries: tuple[Summary, Summary] = field(repr=False)

    def first(self, index: int) -> int:
        """Number of the first task of a shard among all."""
        return sum(entry.n_tasks for entry in self.entries[:index])

    def shard_path(self, index: int) -> Path:
        """Where a shard lies."""
        return self.folder / f"{index:05d}.shard"

    def read(self, index: int, *, check: bool = True) -> _core.Shard:
        """Read a shard: the one that was written, or a `FileFormatError`."""
        path, entry, sizes = self.shard_path(index), self.entries[index], self.sizes
        try:
            shard = _core.Shard.read(os.fspath(path), check=check)
        except ValueError as error:
            raise FileFormatError(f"{path}: {error}") from None
        header = (shard.n_tasks, shard.n_annotations, shard.crowd, shard.n_labels, shard.n_classes, shard.checksum)
        expected = (
            entry.n_tasks,
            entry.n_annotations,
            sizes.n_workers,
            sizes.n_labels,
            sizes.n_classes,
            entry.checksum,
        )
        if header != expected:
            raise FileFormatError(
                f"{path} is a shard of another log than its directory is of; write the directory again"
            )
        return shard

    def tasks(self, index: int) -> Names:
        """Names of the tasks of a shard, in order."""
        entry = self.entries[index]
        if self.numbered:
            first = self.first(index)
            return Names(np.arange(first, first + entry.n_tasks))
        path = self.folder / f"{index:05d}.tasks"
        content = _read(path)
        names = unpacked_names(content, "tasks")
        if len(names) != entry.n_tasks or _digest(content.arrays) != entry.names:
            raise FileFormatError(f"{path} names tasks of another log than its directory is of; write it again")
        return names

    def check(self) -> list[str]:
        """What is wrong with the files, in a sentence each; nothing where all is well. Reads all of them."""
        wrong = []
        for index in range(len(self.entries)):
            for look in (self.read, self.tasks):
                try:
                    look(index)
                except (FileFormatError, OSError) as error:
                    wrong.append(str(error))
        return wrong


class Writer:
    """Writes shards one after the other; the directory is one when `finish` has written its manifest.

    Parameters
    ----------
    claim
        The right to write to the directory.
    workers, classes, labels : sequence
        Names of the workers, of the classes, and of all labels that can be given.
    numbered : bool, default False
        Whether tasks are called by their numbers.
    """

    def __init__(
        self,
        claim: Claim,
        workers: Names,
        classes: Names,
        labels: Names,
        *,
        numbered: bool = False,
    ) -> None:
        self._claim, self._folder = claim, claim.folder
        self._names = (workers, classes, labels)
        self._numbered = numbered
        self._entries: list[Entry] = []
        self._weighted = False
        self._summary = Summary.empty(len(workers), len(labels))
        self._of_classes = Summary.empty(len(workers), len(classes))

    def add(self, table: _core.Table, tasks: Names | None = None) -> None:
        """Write a shard of whole tasks, in order, whose workers are the whole crowd."""
        _, classes, labels = self._names
        shard = _core.Shard.of(table)
        index, name = len(self._entries), ""
        with atomic.atomic_write(self._folder / f"{index:05d}.shard") as part:
            part.write_bytes(shard.to_bytes())
        if tasks is not None and not self._numbered:
            arrays = packed_names("tasks", tasks)
            persist.write(self._folder / f"{index:05d}.tasks", _KIND, {}, arrays)
            name = _digest(arrays)
        self._entries.append(Entry(table.n_tasks, table.n_annotations, shard.n_bytes, shard.checksum, name))
        self._weighted |= shard.weighted
        self._summary.add(Summary.of(table))
        if len(labels) > len(classes):
            self._of_classes.add(Summary.of(shard.without_abstentions().table()), shard.who())

    def finish(self, unlabelled: Names | None = None, source: str | None = None) -> Directory:
        """Write what all shards have in common, and then the manifest."""
        workers, classes, labels = self._names
        if not self._entries:
            raise ValueError("there are no annotations: the table needs at least one (task, worker, label) row")
        summaries = {"all": self._summary, "classes": self._of_classes}
        none = workers.take(np.zeros(0, np.int64))
        arrays = packed_names("workers", workers) | packed_names("classes", classes)
        if len(labels) > len(classes):
            arrays |= packed_names("abstentions", sequence(labels.values[len(classes) :].tolist()))
        arrays |= packed_names("unlabelled", none if unlabelled is None else unlabelled)
        for name, one in summaries.items():
            arrays |= one.packed(name)
        persist.write(self._folder / _NAMES, _KIND, {}, arrays)
        sizes = Sizes(
            n_tasks=sum(entry.n_tasks for entry in self._entries),
            n_workers=len(workers),
            n_annotations=sum(entry.n_annotations for entry in self._entries),
            n_labels=len(labels),
            n_classes=len(classes),
            weighted=self._weighted,
        )
        manifest = {
            **asdict(sizes),
            "numbered": self._numbered,
            "names": _digest(arrays),
            "source": source,
            "shards": [asdict(entry) for entry in self._entries],
        }
        self._claim.finish(manifest)
        return open_directory(self._claim.path)


def is_directory(path: str | os.PathLike[str]) -> bool:
    """Whether there is a directory of shards that is complete according to its manifest."""
    manifest = read_manifest(Path(path))
    return manifest is not None and "unfinished" not in manifest


def open_directory(path: str | os.PathLike[str]) -> Directory:
    """Open a directory of shards: what is in memory is checked, shards when they are read."""
    where = Path(path)
    manifest = _manifest(where)
    folder = where / manifest["folder"]
    content = _read(folder / _NAMES)
    if _digest(content.arrays) != manifest["names"]:
        raise FileFormatError(f"{content.path} is of another log than its directory is of; write the directory again")
    sizes = Sizes(**{name: manifest[name] for name in Sizes.__dataclass_fields__})
    entries = tuple(Entry(**entry) for entry in manifest["shards"])
    classes, workers, labels = unpacked_names(content, "classes"), unpacked_names(content, "workers"), None
    if content.arrays.keys() & {"abstentions", "abstentions.text", "abstentions.arrow"}:
        labels = classes.followed_by(unpacked_names(content, "abstentions"))
    labels = labels or classes
    summary = Summary.unpacked(content, "all", len(workers), len(labels))
    of_classes = (
        Summary.unpacked(content, "classes", len(workers), len(classes)) if len(labels) > len(classes) else None
    )
    directory = Directory(
        path=where,
        folder=folder,
        sizes=sizes,
        entries=entries,
        numbered=manifest["numbered"],
        digest=_digest_of_text([manifest["names"], *(f"{e.checksum} {e.names} {e.n_tasks}" for e in entries)]),
        source=manifest["source"],
        workers=workers,
        classes=classes,
        labels=labels,
        unlabelled=unpacked_names(content, "unlabelled"),
        summaries=(summary, of_classes or summary),
    )
    expected = (len(workers), len(labels), len(classes), sum(e.n_tasks for e in entries))
    if expected != (sizes.n_workers, sizes.n_labels, sizes.n_classes, sizes.n_tasks):
        raise FileFormatError(f"{where / MANIFEST} is damaged: its sizes are not those of the names; write it again")
    return directory


def _manifest(where: Path) -> dict[str, Any]:
    """Read the manifest of a directory that is whole; raises for anything whose fields or types are others."""
    manifest = read_manifest(where)
    if manifest is None:
        raise FileNotFoundError(f"{where} is not a directory of shards: it has no {MANIFEST}")
    if "unfinished" in manifest:
        raise FileNotFoundError(f"{where} is not a directory of shards yet: encoding it has not finished")
    wrong = [name for name, kind in _FIELDS.items() if not _is_of(manifest.get(name), kind)]
    entries = manifest.get("shards")
    if not wrong and isinstance(entries, list):
        for index, entry in enumerate(entries):
            names = Entry.__dataclass_fields__
            is_complete = isinstance(entry, dict) and entry.keys() == names.keys()
            if not is_complete or not all(_is_of(entry[name], str(each.type)) for name, each in names.items()):
                wrong.append(f"shards[{index}]")
                break
    elif not wrong:
        wrong.append("shards")
    if wrong:
        raise FileFormatError(
            f"{where / MANIFEST} is damaged: {wrong[0]} is missing or has the wrong type; write the directory again"
        )
    return manifest


#: Types of the manifest's fields, but for the shards, as they are written in `Sizes`.
_FIELDS = {name: str(each.type) for name, each in Sizes.__dataclass_fields__.items()} | {
    "numbered": "bool",
    "names": "str",
    "source": "str | None",
}


def _is_of(value: Any, kind: str) -> bool:
    """Whether a value of JSON has a type, by its name; numbers are not negative and fit the core's."""
    if kind == "int":
        return type(value) is int and 0 <= value < 2**63
    return (value is None and kind == "str | None") or type(value).__name__ == kind.removesuffix(" | None")


def packed_names(name: str, names: Names) -> dict[str, npt.NDArray[Any]]:
    """Names as plain arrays, or as a stream of Arrow where there is no such form: dates, times, decimals."""
    import pyarrow as pa

    try:
        return persist.pack_names(name, names)
    except TypeError:
        column, sink = names.arrow(), pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, pa.schema([("name", column.type)])) as writer:
            writer.write_batch(pa.record_batch([column], names=["name"]))
        return {f"{name}.arrow": np.frombuffer(sink.getvalue(), np.uint8)}


def unpacked_names(content: persist.Content, name: str) -> Names:
    """Names that `packed_names` gave away."""
    import pyarrow as pa

    if f"{name}.arrow" not in content.arrays:
        return content.names(name)
    try:
        with pa.ipc.open_stream(pa.py_buffer(content.array(f"{name}.arrow", np.uint8, ndim=1))) as reader:
            column = reader.read_all().column(0)
        column.validate(full=True)
    except (pa.ArrowException, OSError, IndexError) as error:
        raise content.damaged(f"names {name!r} are not an Arrow column") from error
    return Column(column, name).names()


def _read(path: Path) -> persist.Content:
    content = persist.read(path)
    if content.kind != _KIND:
        raise FileFormatError(f"{path} does not hold names of shards")
    return content


def _digest(arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    import hashlib

    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype.str.lstrip('<|=')} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).view(np.uint8).data)
    return digest.hexdigest()


def _digest_of_text(parts: Iterable[str]) -> str:
    import hashlib

    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()
