"""Votes on tokens and on spans, without a model of workers."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from manyhands._base.checks import check_number
from manyhands._base.estimator import Array
from manyhands._base.progress import Callback
from manyhands.sequences.base import Segments, SequenceAggregator, SequenceFit, compared
from manyhands.sequences.encode import Ints, places
from manyhands.sequences.table import Sequences, runs
from manyhands.sequences.tags import UNSAID, Tags, Tokens


def token_shares(votes: Sequences) -> Array:
    """Share of each tag among what was said of each token, even where nobody was asked, (n_tokens, n_tags)."""
    sequences, _, _, codes = votes.readings()
    k = len(votes._tags)
    token = places(votes._grid.starts[sequences], votes._grid.lengths[sequences])
    said = codes != UNSAID
    counts = np.bincount(token[said] * k + codes[said], minlength=votes.n_tokens * k).reshape(-1, k).astype(np.float64)
    total = counts.sum(axis=1, keepdims=True)
    shares: Array = np.divide(counts, total, out=np.full_like(counts, 1.0 / k), where=total > 0)
    return shares


def legalised(tags: Tags, codes: Tokens, votes: Sequences) -> Tokens:
    """Let tokens that go on with a span that is not there begin one."""
    if not tags.spans:
        return codes
    before = np.concatenate([[0], codes[:-1]]).astype(np.int64)
    before[votes._grid.firsts()] = 0
    inside = (codes > 0) & (codes % 2 == 0)
    orphan = inside & (tags.types_of(before) != tags.types_of(codes))
    return np.where(orphan, codes - 1, codes).astype(np.uint16)


def _marks(votes: Sequences) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Spans of all readings by tokens of the table: start, end, type, sequence, reading."""
    sequences, _, offsets, codes = votes.readings()
    firsts = np.zeros(len(codes) + 1, np.bool_)
    firsts[offsets] = True
    starts, ends, types = runs(votes._tags, codes, firsts[:-1])
    reading = np.searchsorted(offsets, starts, side="right") - 1
    of = sequences[reading].astype(np.int64)
    shift = votes._grid.starts[of] - offsets[reading]
    return starts + shift, ends + shift, types, of, reading


def shares_of(votes: Sequences, found: tuple[Ints, Ints, Ints]) -> Segments:
    """Segments with the share of the readings that have each, that begin one like it there, and that end one there."""
    starts, ends, types, _, _ = _marks(votes)
    t, n = max(len(votes._tags.types), 1), votes.n_tokens + 1
    sequence = np.searchsorted(votes._grid.starts, found[0], side="right") - 1
    readers = votes.labels_per_task[sequence].astype(np.float64)

    def share(given: Ints, wanted: Ints) -> Array:
        keys, counts = np.unique(given, return_counts=True)
        if not len(keys):
            return np.zeros(len(wanted))
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.asarray(np.where(keys[at] == wanted, counts[at], 0) / readers)

    begun, ended = starts * t + types, ends * t + types
    wanted = [place * t + found[2] for place in found[:2]]
    # Numbers of exact spans may be too large for one whole number: they are numbered by what occurs.
    exact, number = np.unique(np.concatenate([ended, wanted[1]]), return_inverse=True)
    both = begun * len(exact) + number[: len(ended)]
    assert n * t * max(len(exact), 1) < 2**63
    return Segments(
        *found,
        share(both, wanted[0] * len(exact) + number[len(ended) :]),
        share(begun, wanted[0]),
        share(ended, wanted[1]),
    )


class TokenVote(SequenceAggregator):
    """The tag that most workers gave each token.

    A token that as many put into a span as out of it is in the span, since workers overlook more than they invent;
    among equal types the one that is said more often in the whole log wins. A tag that goes on with a span that did not
    win begins one. Probabilities are shares of the readers.

    Notes
    -----
    O(tags) time, 8 bytes a token and tag of memory.

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
        codes = legalised(votes._tags, _winners(votes._tags, shares), votes)
        return _vote_fit(votes, shares, codes)


def _winners(tags: Tags, shares: Array) -> Tokens:
    """The most common tag of each token; ties to spans, and then to what is more common everywhere."""
    # A share is a count over the readers: differences of shares of one token are far above rounding.
    favour = 1 + np.argsort(np.argsort(shares.sum(axis=0), kind="stable"))
    if tags.spans:
        favour[0] = 0
    found: Tokens = (shares + 1e-9 * favour / len(favour)).argmax(axis=1).astype(np.uint16)
    return found


def _vote_fit(votes: Sequences, shares: Array, codes: Tokens) -> SequenceFit:
    segments = shares_of(votes, runs(votes._tags, codes, votes._grid.firsts()))
    return SequenceFit(
        posterior=shares, codes=codes, segments=segments, spans=compared(votes, codes), history=np.zeros(0)
    )


class SpanVote(SequenceAggregator):
    """The spans that enough workers marked, matched by how much they overlap.

    Distinct spans are taken by the number of readers who marked exactly them, most first (then the shorter, then the
    earlier). Each stands for all readers with a span of its type that shares enough tokens with it; if these are a
    quorum of the readers of the sequence, and no token is taken yet, it is found.

    Parameters
    ----------
    quorum
        The share of the readers that a span needs.
    overlap
        The least that two spans have in common, as a share of the tokens that either has, to stand for the same; 1 asks
        for the same places.

    Notes
    -----
    O(s log s) time for s spans, and the number of pairs of distinct spans of a sequence that overlap.

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
            raise ValueError("SpanVote needs spans, and the table has classes of tokens: use TokenVote")
        codes = np.zeros(votes.n_tokens, np.uint16)
        starts, ends, types, of, reading = _marks(votes)
        order = np.argsort(of, kind="stable")
        bounds = np.searchsorted(of[order], np.arange(votes.n_tasks + 1))
        readers = votes.labels_per_task
        for sequence in np.flatnonzero(np.diff(bounds)):
            here = order[bounds[sequence] : bounds[sequence + 1]]
            spans = np.stack([starts[here], ends[here], types[here]], axis=1)
            need = max(self.quorum * readers[sequence] - 1e-9, 1e-9)
            for start, end, kind in _elected(spans, reading[here], need, float(self.overlap)):
                codes[start:end] = 2 + 2 * kind
                codes[start] = 1 + 2 * kind
        return _vote_fit(votes, token_shares(votes), codes)


def _elected(spans: Ints, reading: Ints, need: float, overlap: float) -> list[Any]:
    """Spans of one sequence that enough readers marked, none of which overlap."""
    distinct, which = np.unique(spans, axis=0, return_inverse=True)
    which = which.reshape(-1)
    # A reader has a span of one place and type once.
    counts = np.bincount(which, minlength=len(distinct))
    starts, ends, types = distinct.T
    order = np.lexsort((starts, ends - starts, -counts))
    taken: list[Any] = []
    for one in order:
        shared = np.minimum(ends, ends[one]) - np.maximum(starts, starts[one])
        union = np.maximum(ends, ends[one]) - np.minimum(starts, starts[one])
        alike = (types == types[one]) & (shared > 0) & (shared >= overlap * union - 1e-9)
        if len(np.unique(reading[alike[which]])) < need:
            continue
        if all(end <= starts[one] or start >= ends[one] for start, end, _ in taken):
            taken.append(distinct[one].tolist())
    return taken
