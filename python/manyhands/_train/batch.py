"""Features and annotations side by side, handed out in ragged batches."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from manyhands._base.checks import preview
from manyhands._base.names import sequence
from manyhands._train.features import Features as Features
from manyhands._train.features import as_features as as_features
from manyhands.categorical.table import Annotations, as_annotations

#: Annotations that are gathered at once, for as many batches as that makes: one alone is hardly worth the calls.
_GATHERED = 1 << 16


@dataclass(frozen=True)
class Batch:
    """Some samples with all their annotations, as index triples: nothing here is samples × workers.

    Annotation ``i`` states that worker ``worker[i]`` gave the label ``label[i]`` to the sample ``sample[i]`` of this
    batch; `index` is its place among all annotations, and `tasks` are the samples' codes in the table. `truth` is the
    samples' true classes, (n,), where they are known.
    """

    x: Any
    tasks: Tensor
    sample: Tensor
    worker: Tensor
    label: Tensor
    weight: Tensor
    index: Tensor
    truth: Tensor | None = None

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def n_annotations(self) -> int:
        """How many annotations the samples have together."""
        return len(self.sample)


def as_votes(votes: Any) -> Annotations:
    """A table as it is, one made of a frame, or one made of a (samples × workers) array with -1 where none answered."""
    if isinstance(votes, np.ndarray | list | tuple):
        matrix = np.asanyarray(votes)
        return Annotations.from_dense(matrix[:, None] if matrix.ndim == 1 else matrix)
    return as_annotations(votes)


def rows_of(votes: Annotations, n_rows: int, tasks: Any) -> npt.NDArray[np.int64]:
    """Which row of X each task of the votes is.

    Rows are named by `tasks`; where that is None, the tasks' own names must be row numbers. A task without a row is an
    error that names it; a row without a task is not a sample.
    """
    if tasks is None:
        names = votes.tasks
        if names.dtype.kind not in "iu":
            raise ValueError(
                f"the tasks of the votes are names such as {names[:1].tolist()[0]!r}; say with tasks= which task each "
                "row of X is (tasks=votes.tasks if they are in that order)"
            )
        rows = names.astype(np.int64)
        lost = (rows < 0) | (rows >= n_rows)
        if lost.any():
            raise ValueError(
                f"tasks {preview(names[lost].tolist())} of the votes are not rows of X, which has {n_rows}; name the "
                "rows with tasks=, or leave those tasks out with votes.select(tasks=...)"
            )
        return rows
    names_given = sequence(tasks, "tasks")
    if len(names_given) != n_rows:
        raise ValueError(f"tasks names {len(names_given)} rows, but X has {n_rows}")
    codes, counts = np.unique(votes._tasks.match(names_given), return_counts=True)
    if (counts[codes >= 0] > 1).any():
        twice = votes.tasks[codes[(counts > 1) & (codes >= 0)]].tolist()
        raise ValueError(f"tasks names {preview(twice)} more than once; a task is one row of X")
    rows = names_given.match(votes._tasks)
    if (rows < 0).any():
        raise ValueError(
            f"tasks {preview(votes.tasks[rows < 0].tolist())} of the votes have no row in X; add them, or leave "
            "them out with votes.select(tasks=...)"
        )
    return rows


class CrowdData:
    """Samples that are tasks of a table: sample ``n`` is the task of code ``n``, with the row of X that belongs to it.

    Memory: in addition to X and the table, 28 bytes per annotation and 16 a sample.
    """

    def __init__(self, X: Any, votes: Any, tasks: Any = None) -> None:
        self._take(as_features(X), as_votes(votes), tasks)

    def _take(self, features: Features, votes: Annotations, tasks: Any) -> None:
        self.features = features
        #: Row of X of each sample.
        self.rows = torch.from_numpy(rows_of(votes, len(self.features), tasks))
        #: True class of each sample, where all are known.
        self.truth: Tensor | None = None
        self._take_votes(votes)

    def _take_votes(self, votes: Annotations) -> None:
        self.votes = votes
        table = votes.table
        _, workers, labels = table.columns()
        self._offsets = torch.from_numpy(table.offsets().astype(np.int64))
        self._workers = torch.from_numpy(workers.astype(np.int64))
        self._labels = torch.from_numpy(labels.astype(np.int64))
        weights = table.weights()
        if weights is not None and not weights.any():
            raise ValueError("all annotations have weight 0: there is nothing to learn from; give some of them more")
        self._weights = torch.ones(len(workers)) if weights is None else torch.from_numpy(weights).float()
        #: Samples that have annotations; a table made of codes may have tasks without.
        self.samples = torch.from_numpy(np.flatnonzero(np.diff(table.offsets())))

    def without(self, samples: Tensor) -> CrowdData:
        """The same tasks, workers and classes, but without some samples and their annotations."""
        if not len(samples):
            return self
        is_used = np.ones(len(self), np.bool_)
        is_used[samples.numpy()] = False
        keep = np.repeat(is_used, self.votes.labels_per_task)
        if not keep.any():
            raise ValueError(
                "every sample that has annotations is held out: lower validation, or annotate more samples"
            )
        subset = self.votes.table.keep(keep)
        remaining = copy.copy(self)
        remaining._take_votes(Annotations(subset, self.votes._tasks, self.votes._workers, self.votes._classes))
        remaining.samples = self.samples[torch.from_numpy(is_used)[self.samples]]
        return remaining

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, samples: Tensor, device: torch.device) -> Batch:
        """The given samples with their annotations. O(samples + annotations), no loop."""
        return next(self._batches([samples], [self.features.take(self.rows[samples], device)], device))

    def _batches(self, parts: Sequence[Tensor], inputs: Iterable[Any], device: torch.device) -> Iterator[Batch]:
        """Batches of the samples of each part, with their features."""
        samples = torch.cat(list(parts))
        ends = _ends(self._offsets[samples + 1] - self._offsets[samples])
        sizes = ends[_ends(torch.tensor([len(part) for part in parts]))].diff().tolist()
        gathered = (columns for group in _group_slices(sizes) for columns in self._gathered(parts[group], sizes[group]))
        for columns, x in zip(gathered, inputs, strict=True):
            yield Batch(x=x, **{name: column.to(device, non_blocking=True) for name, column in columns.items()})

    def _gathered(self, parts: Sequence[Tensor], sizes: Sequence[int]) -> Iterator[dict[str, Tensor]]:
        """What a batch of each part has in addition to features, of that many annotations each."""
        samples = torch.cat(list(parts))
        starts = self._offsets[samples]
        counts = self._offsets[samples + 1] - starts
        owner = torch.repeat_interleave(counts)
        # Its number here, moved from where its sample begins here to where it begins among all.
        index = torch.arange(len(owner)) + (starts - _ends(counts)[:-1])[owner]
        place = torch.cat([torch.arange(len(part)) for part in parts])
        columns = {
            "tasks": parts,
            "sample": place[owner].split(sizes),
            "worker": self._workers[index].split(sizes),
            "label": self._labels[index].split(sizes),
            "weight": self._weights[index].split(sizes),
            "index": index.split(sizes),
        }
        if self.truth is not None:
            columns["truth"] = self.truth[samples].split([len(part) for part in parts])
        return (dict(zip(columns, of_one, strict=True)) for of_one in zip(*columns.values(), strict=True))

    def batches(
        self, samples: Tensor, size: int, device: torch.device, *, shuffle: torch.Generator | None = None
    ) -> Iterator[Batch]:
        """All given samples in batches, in order or shuffled.

        A single one that is left goes with those before it: alone it has neither spread nor anything to compare with.
        """
        if shuffle is not None:
            samples = samples[torch.randperm(len(samples), generator=shuffle)]
        parts = list(samples.split(size))
        if len(parts) > 1 and len(parts[-1]) == 1:
            parts[-2:] = [torch.cat(parts[-2:])]
        inputs = self.features.stream([self.rows[part] for part in parts], device, shuffle)
        yield from self._batches(parts, inputs, device)


def _ends(counts: Tensor) -> Tensor:
    """Ends of batches, and the begin of the first, (n + 1,)."""
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def _group_slices(sizes: Sequence[int]) -> Iterator[slice]:
    """Consecutive ones that have no more annotations together than are gathered at once, or one that has more."""
    start = total = 0
    for number, size in enumerate(sizes):
        if number > start and total + size > _GATHERED:
            yield slice(start, number)
            start, total = number, 0
        total += size
    yield slice(start, len(sizes))
