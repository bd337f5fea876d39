"""Majority votes on tokens and on spans."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from manyhands._base.checks import check_number
from manyhands._base.estimator import Array
from manyhands._base.progress import Callback
from manyhands.sequences.base import Segments, SequenceAggregator, SequenceFit, count_matches
from manyhands.sequences.encode import Ints, places
from manyhands.sequences.table import Sequences, runs
from manyhands.sequences.tags import NO_TAG, Tags, Tokens


def token_shares(votes: Sequences) -> Array:
    """Share of each tag among the tags of each token, uniform for tokens without tags; shape (n_tokens, n_tags)."""
    sequences, _, _, codes = votes.readings()
    k = len(votes._tags)
    token = places(votes._grid.starts[sequences], votes._grid.lengths[sequences])
    present = codes != NO_TAG
    counts = (
        np.bincount(token[present] * k + codes[present], minlength=votes.n_tokens * k).reshape(-1, k).astype(np.float64)
    )
    total = counts.sum(axis=1, keepdims=True)
    shares: Array = np.divide(counts, total, out=np.full_like(counts, 1.0 / k), where=total > 0)
    return shares


def repair_orphans(tags: Tags, codes: Tokens, votes: Sequences) -> Tokens:
    """Turn tags that continue a missing span into span starts."""
    if not tags.spans:
        return codes
    before = np.concatenate([[0], codes[:-1]]).astype(np.int64)
    before[votes._grid.firsts()] = 0
    inside = (codes > 0) & (codes % 2 == 0)
    orphan = inside & (tags.types_of(before) != tags.types_of(codes))
    return np.where(orphan, codes - 1, codes).astype(np.uint16)


def _marks(votes: Sequences) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Return the start, end, type, sequence and annotation of all spans, in tokens of the table."""
    sequences, _, offsets, codes = votes.readings()
    firsts = np.zeros(len(codes) + 1, np.bool_)
    firsts[offsets] = True
    starts, ends, types = runs(votes._tags, codes, firsts[:-1])
    reading = np.searchsorted(offsets, starts, side="right") - 1
    of = sequences[reading].astype(np.int64)
    shift = votes._grid.starts[of] - offsets[reading]
    return starts + shift, ends + shift, types, of, reading


def span_shares(votes: Sequences, spans: tuple[Ints, Ints, Ints]) -> Segments:
    """Segments with the shares of annotators who marked the exact span, one starting there, and one ending there."""
    starts, ends, types, _, _ = _marks(votes)
    t, n = max(len(votes._tags.types), 1), votes.n_tokens + 1
    sequence = np.searchsorted(votes._grid.starts, spans[0], side="right") - 1
    readers = votes.labels_per_task[sequence].astype(np.float64)

    def share(observed: Ints, queries: Ints) -> Array:
        keys, counts = np.unique(observed, return_counts=True)
        if not len(keys):
            return np.zeros(len(queries))
        at = np.minimum(np.searchsorted(keys, queries), len(keys) - 1)
        return np.asarray(np.where(keys[at] == queries, counts[at], 0) / readers)

    start_keys, end_keys = starts * t + types, ends * t + types
    span_keys = [place * t + spans[2] for place in spans[:2]]
    # Exact spans are numbered by occurrence, because start and end combined may overflow an integer.
    exact, number = np.unique(np.concatenate([end_keys, span_keys[1]]), return_inverse=True)
    exact_keys = start_keys * len(exact) + number[: len(end_keys)]
    assert n * t * max(len(exact), 1) < 2**63
    return Segments(
        *spans,
        share(exact_keys, span_keys[0] * len(exact) + number[len(end_keys) :]),
        share(start_keys, span_keys[0]),
        share(end_keys, span_keys[1]),
    )


class TokenVote(SequenceAggregator):
    """Majority vote on each token.

    A fast baseline for sequences. Probabilities are shares of the annotators. Ties between ``O`` and a span go to the
    span, because workers miss spans more often than they invent them; ties between types go to the more frequent type.
    A tag that continues a span that did not win starts a new span.

    Notes
    -----
    Time O(tags); memory 8 bytes per token and tag.

    Examples
    --------
    >>> import manyhands as mh
    >>> log = {"sequence": [1] * 6, "position": [0, 1] * 3, "worker": ["a", "a", "b", "b", "c", "c"],
    ...        "label": ["B-PER", "I-PER", "B-PER", "O", "O", "O"]}
    >>> model = mh.sequences.TokenVote().fit(mh.Sequences.from_frame(log))
    >>> model.tags_.tolist()
    ['B-PER', 'O']
    >>> model.spans_.column("start_probability").to_pylist()
    [0.6666666666666666]
    """

    _predicts_by_fit: ClassVar[bool] = True

    def __init__(self) -> None:
        pass

    def _fit(self, votes: Sequences, progress: Callback | None) -> SequenceFit:
        shares = token_shares(votes)
        codes = repair_orphans(votes._tags, _winners(votes._tags, shares), votes)
        return _vote_fit(votes, shares, codes)


def _winners(tags: Tags, shares: Array) -> Tokens:
    """Return the most frequent tag of each token; ties go to spans, then to the tag with more votes overall."""
    # Shares of a token differ by at least 1 / annotators, so this tie-break cannot change a majority.
    tie_break = 1 + np.argsort(np.argsort(shares.sum(axis=0), kind="stable"))
    if tags.spans:
        tie_break[0] = 0
    codes: Tokens = (shares + 1e-9 * tie_break / len(tie_break)).argmax(axis=1).astype(np.uint16)
    return codes


def _vote_fit(votes: Sequences, shares: Array, codes: Tokens) -> SequenceFit:
    segments = span_shares(votes, runs(votes._tags, codes, votes._grid.firsts()))
    return SequenceFit(
        posterior=shares, codes=codes, segments=segments, spans=count_matches(votes, codes), history=np.zeros(0)
    )


class SpanVote(SequenceAggregator):
    """Majority vote on whole spans, matched by their overlap.

    Use it if spans should be kept or dropped as a unit. Spans are considered in order of the number of workers who
    marked exactly that span (ties: shorter first, then earlier). A span is accepted if at least `quorum` of the
    annotators marked a span of the same type with sufficient overlap, and no accepted span overlaps it.

    Parameters
    ----------
    quorum : float, default 0.5
        Minimum share of annotators.
    overlap : float, default 0.5
        Minimum overlap of two matching spans, as intersection over union of their tokens; 1 requires equal positions.

    Notes
    -----
    Time O(s log s) for s spans, plus the number of overlapping pairs of distinct spans per sequence.

    Examples
    --------
    >>> import manyhands as mh
    >>> marks = mh.Sequences.from_spans([1, 1, 1], [0, 0, 1], [3, 3, 3], ["a", "b", "c"], lengths={1: 5})
    >>> mh.sequences.SpanVote(quorum=1.0, overlap=0.5).fit(marks).spans_.select(["start", "end"]).to_pylist()
    [{'start': 0, 'end': 3}]
    """

    _predicts_by_fit: ClassVar[bool] = True

    def __init__(self, *, quorum: float = 0.5, overlap: float = 0.5) -> None:
        self.quorum = quorum
        self.overlap = overlap

    def _fit(self, votes: Sequences, progress: Callback | None) -> SequenceFit:
        check_number("quorum", self.quorum, least=0, most=1)
        check_number("overlap", self.overlap, least=0, most=1)
        if not votes._tags.spans:
            raise ValueError("SpanVote needs spans, but the table has token classes: use TokenVote")
        codes = np.zeros(votes.n_tokens, np.uint16)
        starts, ends, types, of, reading = _marks(votes)
        order = np.argsort(of, kind="stable")
        bounds = np.searchsorted(of[order], np.arange(votes.n_tasks + 1))
        readers = votes.labels_per_task
        for sequence in np.flatnonzero(np.diff(bounds)):
            here = order[bounds[sequence] : bounds[sequence + 1]]
            spans = np.stack([starts[here], ends[here], types[here]], axis=1)
            need = max(self.quorum * readers[sequence] - 1e-9, 1e-9)
            for start, end, kind in _select_spans(spans, reading[here], need, float(self.overlap)):
                codes[start:end] = 2 + 2 * kind
                codes[start] = 1 + 2 * kind
        return _vote_fit(votes, token_shares(votes), codes)


def _select_spans(spans: Ints, reading: Ints, need: float, overlap: float) -> list[Any]:
    """Return the spans of one sequence that reach the quorum, without overlaps."""
    distinct, which = np.unique(spans, axis=0, return_inverse=True)
    which = which.reshape(-1)
    # Each worker marks a span of one position and type at most once.
    counts = np.bincount(which, minlength=len(distinct))
    starts, ends, types = distinct.T
    order = np.lexsort((starts, ends - starts, -counts))
    accepted: list[Any] = []
    for one in order:
        shared = np.minimum(ends, ends[one]) - np.maximum(starts, starts[one])
        union = np.maximum(ends, ends[one]) - np.minimum(starts, starts[one])
        matching = (types == types[one]) & (shared > 0) & (shared >= overlap * union - 1e-9)
        if len(np.unique(reading[matching[which]])) < need:
            continue
        if all(end <= starts[one] or start >= ends[one] for start, end, _ in accepted):
            accepted.append(distinct[one].tolist())
    return accepted
