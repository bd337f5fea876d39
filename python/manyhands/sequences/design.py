"""Readings as the compiled core takes them, and what workers can say as kinds of cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from manyhands._base.estimator import Array
from manyhands.sequences.encode import starts_of
from manyhands.sequences.table import Sequences
from manyhands.sequences.tags import UNSAID, Tags, Tokens

Codes = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Design:
    """Readings in the order of sequences; sizes are those of workers, tags and contexts.

    Tokens of sequence ``s`` begin at ``starts[s]``, its readings at ``readings[s]``; ``tags`` are those of one reading
    after the other.
    """

    starts: Codes
    readings: Codes
    workers: Codes
    tags: Tokens
    sizes: tuple[int, int, int]

    @classmethod
    def of(cls, votes: Sequences, *, contexts: bool) -> Self:
        """Lay out a table; with contexts, what a worker said of the token before counts. O(tags)."""
        _, workers, _, codes = votes.readings()
        k = len(votes._tags)
        return cls(
            starts=votes._grid.starts.astype(np.uint32),
            readings=starts_of(votes.labels_per_task).astype(np.uint32),
            workers=workers,
            tags=np.ascontiguousarray(codes),
            sizes=(votes.n_workers, k, k + 1 if contexts else 1),
        )

    @property
    def has_gaps(self) -> bool:
        """Whether some token of a reading has no tag."""
        return bool((self.tags == UNSAID).any())


def _firsts_read(votes: Sequences) -> Array:
    """How often each tag is the first of a sequence in what was read; readers of one sequence share a count."""
    sequences, _, offsets, codes = votes.readings()
    first = codes[offsets[:-1]]
    said = first != UNSAID
    share = 1.0 / votes.labels_per_task[sequences]
    return np.asarray(np.bincount(first[said], weights=share[said], minlength=len(votes._tags)), np.float64)


def steps_read(votes: Sequences) -> Array:
    """Imaginary steps from tag to tag, and first tags in a last row: those of an average reader, (n_tags + 1, n_tags).

    Steps that are alike but for the types involved are put together: what comes after a span of one type tells what
    comes after one of another. Spans that begin are shared among types by how often they were read. A row counts for as
    many steps as there are tags, whatever the types; with one imaginary step to each tag instead, a span of a rare
    type among fifty would nearly always be followed by another.
    """
    k, legal = len(votes._tags), votes._tags.legal().astype(np.float64)
    _, _, offsets, codes = votes.readings()
    before, after = codes[:-1].astype(np.int64), codes[1:].astype(np.int64)
    within = np.ones(len(codes) + 1, np.bool_)
    within[offsets] = False
    said = within[1:-1] & (before != UNSAID) & (after != UNSAID)
    read = np.bincount(before[said] * k + after[said], minlength=k * k).reshape(k, k)
    kinds, n_kinds = (_steps_of_spans if votes._tags.spans else _steps_of_classes)(k)
    # One imaginary step of each kind, and one to each tag among those of a kind.
    times = np.bincount(kinds.reshape(-1), read.reshape(-1), n_kinds)[kinds] + 1.0
    each = (read.sum(axis=0) + 1.0) * legal[:k]
    alike = np.zeros((k, n_kinds))
    np.add.at(alike, (np.arange(k)[:, None], kinds), each)
    steps = times * each / np.maximum(np.take_along_axis(alike, kinds, axis=1), 1e-300)
    legal[:k] = k * steps / steps.sum(axis=1, keepdims=True)
    legal[k] += np.where(legal[k] > 0, _firsts_read(votes), 0.0)
    return legal


def _steps_of_spans(k: int) -> tuple[npt.NDArray[np.int64], int]:
    """Kind of each step, (n_tags, n_tags): from outside, from a beginning or further inside, to any of these."""
    role = np.concatenate([[0], 1 + np.arange(k - 1) % 2])
    return 3 * role[:, None] + role, 9


def _steps_of_classes(k: int) -> tuple[npt.NDArray[np.int64], int]:
    """Kind of each step, (n_tags, n_tags): to the same class, or to another."""
    return np.eye(k, dtype=np.int64), 2


def kinds_of_cells(tags: Tags, n_contexts: int, has_gaps: bool) -> tuple[npt.NDArray[np.int32], Array]:
    """Kinds of (context, tag said, true tag) that are alike but for the types involved, and a first prior for each.

    Types of spans, and classes of tokens, are exchangeable before anything is known of them, so that what workers do
    with one tells what to expect with another. A cell that cannot occur has kind -1. The prior is one imaginary answer
    for each cell, and one more for what is right: the true tag, or its beginning where the worker is not inside.
    """
    k = len(tags)
    legal = tags.legal()
    numbers: dict[Any, int] = {}
    cells = np.full((n_contexts, k, k), -1, np.int32)
    first: list[float] = []
    describe = _of_spans if tags.spans else _of_classes
    for context in range(n_contexts):
        before = None if n_contexts == 1 else context
        for said in range(k):
            # Behind a token that was not asked about, a span may go on that nobody saw begin.
            unseen = has_gaps and before == k
            if before is not None and not unseen and not legal[before, said]:
                continue
            for truth in range(k):
                kind, right = describe(before, said, truth, k)
                if kind not in numbers:
                    numbers[kind] = len(first)
                    first.append(2.0 if right else 1.0)
                cells[context, said, truth] = numbers[kind]
    return cells, np.array(first)


def _of_spans(before: int | None, said: int, truth: int, k: int) -> tuple[Any, bool]:
    true_type, said_type = (truth - 1) // 2, (said - 1) // 2
    role = 0 if truth == 0 else 1 + (truth - 1) % 2
    part = 0 if said == 0 else 1 + (said - 1) % 2
    same = said > 0 and truth > 0 and true_type == said_type
    if before is None:
        return (role, part, same), said == truth
    inside = before not in (0, k)
    within = "out" if not inside else "in" if truth == 0 else (before - 1) // 2 == true_type
    may_go_on = within is True
    right = said == truth or (role == 2 and not may_go_on and part == 1 and same)
    return (role, within, part, same), right


def _of_classes(before: int | None, said: int, truth: int, k: int) -> tuple[Any, bool]:
    if before is None:
        return (said == truth,), said == truth
    if before == k:
        return ("first", said == truth), said == truth
    return (said == truth, said == before, truth == before), said == truth
