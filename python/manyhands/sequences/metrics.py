"""Precision, recall and F1 of spans."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.columns import columns_of
from manyhands._base.frames import if_there
from manyhands._base.known import Known
from manyhands._base.names import Names
from manyhands.sequences.encode import whole_numbers
from manyhands.sequences.table import Sequences

Ints = npt.NDArray[np.int64]

_SPANS = ("sequence", "start", "end")
_TOKENS = ("sequence", "position", "label")


@dataclass(frozen=True)
class SpanScores:
    """Precision, recall and F1 of spans, with counts.

    ``precision`` is NaN if nothing was predicted, ``recall`` if there are no true spans, and ``f1`` if both are the
    case.
    """

    precision: float
    recall: float
    f1: float
    n_found: int
    n_true: int
    n_matched: int


@dataclass(frozen=True)
class _Spans:
    """Distinct spans as columns: sequence, start, end (exclusive), type."""

    sequences: Names
    of: Ints
    starts: Ints
    ends: Ints
    types: list[Any]

    @classmethod
    def of_any(cls, spans: Any, what: str) -> _Spans:
        if hasattr(spans, "spans_"):
            spans = spans.spans_
        if isinstance(spans, Sequences):
            if spans.n_workers != 1:
                raise ValueError(f"{what} has annotations of {spans.n_workers} workers; select one, or aggregate them")
            spans = spans.spans()
        tag = if_there(spans, "tag")
        roles = {"sequence": None, "start": None, "end": None} | ({} if tag is None else {"tag": tag})
        columns = columns_of(spans, roles, ("start", "end"))
        (start, end) = (columns.others[role][0] for role in ("start", "end"))
        starts, ends = whole_numbers(*start)[0], whole_numbers(*end)[0]
        if (ends <= starts).any():
            row = int(np.argmax(ends <= starts))
            raise ValueError(f"{what} has an empty span from {starts[row]} to {ends[row]} at row {row}")
        types = (
            columns.ids["tag"].names().values.tolist() if "tag" in columns.ids and len(starts) else [""] * len(starts)
        )
        if not len(starts):
            return cls(Names(np.zeros(0, object)), starts, starts, ends, types)
        of, names = columns.ids["sequence"].encode()
        return cls(names, of.astype(np.int64), starts, ends, types)

    def keys(self, sequences: set[Any] | None) -> set[tuple[Any, int, int, Any]]:
        names = self.sequences.values.tolist()
        columns = zip(self.of.tolist(), self.starts.tolist(), self.ends.tolist(), self.types, strict=True)
        every = ((names[of], start, end, kind) for of, start, end, kind in columns)
        return {key for key in every if sequences is None or key[0] in sequences}


def span_scores(found: Any, truth: Any, *, relaxed: bool = False, sequences: Iterable[Any] | None = None) -> SpanScores:
    """Return precision, recall and F1 of predicted spans against true spans.

    Parameters
    ----------
    found : fitted sequence aggregator, Sequences of one worker, or frame
        Predicted spans. Frames have the columns sequence (or document), start, end and optionally tag.
    truth : fitted sequence aggregator, Sequences of one worker, or frame
        True spans, in the same form.
    relaxed : bool, default False
        By default a span is correct if sequence, start, end and type match. If True, each span counts by the share of
        its positions that are inside spans of the same type on the other side.
    sequences : iterable of ids, optional
        Sequences to compare; all by default.

    Returns
    -------
    SpanScores
        ``precision``, ``recall``, ``f1`` and counts.

    Examples
    --------
    >>> from manyhands import metrics
    >>> truth = {"document": [1, 1], "start": [0, 5], "end": [2, 9], "tag": ["PER", "LOC"]}
    >>> found = {"document": [1, 1], "start": [0, 5], "end": [2, 7], "tag": ["PER", "LOC"]}
    >>> metrics.span_scores(found, truth).f1
    0.5
    >>> metrics.span_scores(found, truth, relaxed=True).recall
    0.75
    """
    subset = None if sequences is None else set(sequences)
    ours, theirs = (_Spans.of_any(spans, what).keys(subset) for spans, what in ((found, "found"), (truth, "truth")))
    both = len(ours & theirs)
    hits, covered = float(both), float(both)
    if relaxed:
        hits, covered = _coverage(ours, theirs), _coverage(theirs, ours)
    precision = hits / len(ours) if ours else float("nan")
    recall = covered / len(theirs) if theirs else float("nan")
    if not ours and not theirs:
        f1 = float("nan")
    elif not ours or not theirs or precision + recall == 0:
        f1 = 0.0
    else:
        f1 = 2 * precision * recall / (precision + recall)
    return SpanScores(precision, recall, f1, len(ours), len(theirs), both)


def _coverage(spans: set[tuple[Any, int, int, Any]], others: set[tuple[Any, int, int, Any]]) -> float:
    """Sum over spans of the share of their positions covered by spans of the same sequence and type."""
    places: dict[Any, set[int]] = {}
    for of, start, end, kind in others:
        places.setdefault((of, kind), set()).update(range(start, end))
    total = 0.0
    for of, start, end, kind in sorted(spans, key=repr):
        there = places.get((of, kind), set())
        total += sum(place in there for place in range(start, end)) / (end - start)
    return total


def measures(known: Known, model: Any) -> dict[str, Any]:
    """Precision and recall of spans, exact and relaxed, against known spans or tags."""
    if known.has(*_SPANS):
        truth_columns = known.columns(*_SPANS, *(("tag",) if known.has("tag") else ()))
        of = known.grouped(model.sequences_, truth_columns["sequence"])
        starts, ends = (known.numbers(truth_columns[name], f"{name}s of true spans") for name in ("start", "end"))
        rows = [(at, row) for at, rows in of.items() for row in rows if not np.isnan(starts[row])]
        truth: Any = {
            "sequence": [str(model.sequences_[at]) for at, _ in rows],
            "start": [int(starts[row]) for _, row in rows],
            "end": [int(ends[row]) for _, row in rows],
        }
        truth |= {"tag": [str(truth_columns["tag"][row]) for _, row in rows]} if "tag" in truth_columns else {}
        scored = {str(model.sequences_[at]) for at in of}
    else:
        truth_columns = known.columns(*_TOKENS)
        columns = {
            "sequence": list(map(str, truth_columns["sequence"])),
            "worker": ["truth"] * len(truth_columns["sequence"]),
        }
        places = known.numbers(truth_columns["position"], "positions")
        read = Sequences.from_frame({**columns, "position": places, "label": truth_columns["label"]})
        scored = {str(model.sequences_[at]) for at in known.grouped(model.sequences_, read.sequences.tolist())}
        truth = _as_columns(read.spans())
    spans_out = _as_columns(model.spans_)
    strict, relaxed = (span_scores(spans_out, truth, relaxed=how, sequences=scored) for how in (False, True))
    scores_out = {name: getattr(strict, name) for name in ("precision", "recall", "f1")}
    scores_out |= {f"relaxed_{name}": getattr(relaxed, name) for name in ("precision", "recall", "f1")}
    return scores_out | {"n_found": strict.n_found, "n_true": strict.n_true, "n_tasks": len(scored)}


def _as_columns(spans: Any) -> dict[str, list[Any]]:
    """Spans with their names as text."""
    columns: dict[str, list[Any]] = spans.select(["sequence", "start", "end", "tag"]).to_pydict()
    return columns | {name: list(map(str, columns[name])) for name in ("sequence", "tag")}
