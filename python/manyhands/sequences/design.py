"""Input arrays of the compiled sequence models, and shared prior parameters of worker cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from manyhands._base.estimator import Array
from manyhands.sequences.encode import starts_of
from manyhands.sequences.table import Sequences
from manyhands.sequences.tags import NO_TAG, Tags, Tokens

Codes = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Design:
    """Annotations in sequence order; `sizes` are the numbers of workers, tags and contexts.

    Tokens of sequence ``s`` start at ``starts[s]``, its annotations at ``readings[s]``; ``tags`` concatenates the tags
    of all annotations.
    """

    starts: Codes
    readings: Codes
    workers: Codes
    tags: Tokens
    sizes: tuple[int, int, int]

    @classmethod
    def of(cls, votes: Sequences, *, contexts: bool) -> Self:
        """Build the arrays of a table; with `contexts`, the worker's previous tag is a context. O(tags)."""
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
        """Return whether some token of an annotation has no tag."""
        return bool((self.tags == NO_TAG).any())


def _firsts_read(votes: Sequences) -> Array:
    """Weighted count of each tag at the start of a sequence; annotators of one sequence share a weight of one."""
    sequences, _, offsets, codes = votes.readings()
    first = codes[offsets[:-1]]
    present = first != NO_TAG
    share = 1.0 / votes.labels_per_task[sequences]
    return np.asarray(np.bincount(first[present], weights=share[present], minlength=len(votes._tags)), np.float64)


def steps_read(votes: Sequences) -> Array:
    """Transition pseudo-counts of an average annotation, shape (n_tags + 1, n_tags); the last row is the start.

    Transitions that differ only in the types involved are pooled: spans of one type inform those of another. New spans
    are split among types by type frequency. Each row sums to the number of tags, whatever the types. (With one
    pseudo-count per tag instead, a span of a rare type among fifty would nearly always be followed by another.)
    """
    k, legal = len(votes._tags), votes._tags.legal().astype(np.float64)
    _, _, offsets, codes = votes.readings()
    before, after = codes[:-1].astype(np.int64), codes[1:].astype(np.int64)
    within = np.ones(len(codes) + 1, np.bool_)
    within[offsets] = False
    present = within[1:-1] & (before != NO_TAG) & (after != NO_TAG)
    read = np.bincount(before[present] * k + after[present], minlength=k * k).reshape(k, k)
    kinds, n_kinds = (_steps_of_spans if votes._tags.spans else _steps_of_classes)(k)
    # One pseudo-count per kind of transition, and one per tag within a kind.
    times = np.bincount(kinds.reshape(-1), read.reshape(-1), n_kinds)[kinds] + 1.0
    each = (read.sum(axis=0) + 1.0) * legal[:k]
    alike = np.zeros((k, n_kinds))
    np.add.at(alike, (np.arange(k)[:, None], kinds), each)
    steps = times * each / np.maximum(np.take_along_axis(alike, kinds, axis=1), 1e-300)
    legal[:k] = k * steps / steps.sum(axis=1, keepdims=True)
    legal[k] += np.where(legal[k] > 0, _firsts_read(votes), 0.0)
    return legal


def _steps_of_spans(k: int) -> tuple[npt.NDArray[np.int64], int]:
    """Kind of each transition, (n_tags, n_tags): from outside, span start or inside, to any of these."""
    role = np.concatenate([[0], 1 + np.arange(k - 1) % 2])
    return 3 * role[:, None] + role, 9


def _steps_of_classes(k: int) -> tuple[npt.NDArray[np.int64], int]:
    """Kind of each transition, (n_tags, n_tags): to the same class, or to another one."""
    return np.eye(k, dtype=np.int64), 2


def kinds_of_cells(tags: Tags, n_contexts: int, has_gaps: bool) -> tuple[npt.NDArray[np.int32], Array]:
    """Group the cells (context, tag given, true tag) that differ only in the types involved; initial prior per group.

    Span types and token classes are exchangeable a priori, so cells that differ only in types share a parameter.
    Impossible cells have group -1. The prior is one pseudo-count per cell, and one more for the correct answer: the
    true tag, or its span start if the worker is not inside a span.
    """
    k = len(tags)
    legal = tags.legal()
    numbers: dict[Any, int] = {}
    cells = np.full((n_contexts, k, k), -1, np.int32)
    first: list[float] = []
    describe = _of_spans if tags.spans else _of_classes
    for context in range(n_contexts):
        before = None if n_contexts == 1 else context
        for tag in range(k):
            # After a token without a tag, a span may continue whose start was not annotated.
            unseen = has_gaps and before == k
            if before is not None and not unseen and not legal[before, tag]:
                continue
            for truth in range(k):
                kind, right = describe(before, tag, truth, k)
                if kind not in numbers:
                    numbers[kind] = len(first)
                    first.append(2.0 if right else 1.0)
                cells[context, tag, truth] = numbers[kind]
    return cells, np.array(first)


def _of_spans(before: int | None, tag: int, truth: int, k: int) -> tuple[Any, bool]:
    true_type, tag_type = (truth - 1) // 2, (tag - 1) // 2
    role = 0 if truth == 0 else 1 + (truth - 1) % 2
    part = 0 if tag == 0 else 1 + (tag - 1) % 2
    same_type = tag > 0 and truth > 0 and true_type == tag_type
    if before is None:
        return (role, part, same_type), tag == truth
    inside = before not in (0, k)
    within = "out" if not inside else "in" if truth == 0 else (before - 1) // 2 == true_type
    may_go_on = within is True
    right = tag == truth or (role == 2 and not may_go_on and part == 1 and same_type)
    return (role, within, part, same_type), right


def _of_classes(before: int | None, tag: int, truth: int, k: int) -> tuple[Any, bool]:
    if before is None:
        return (tag == truth,), tag == truth
    if before == k:
        return ("first", tag == truth), tag == truth
    return (tag == truth, tag == before, truth == before), tag == truth
