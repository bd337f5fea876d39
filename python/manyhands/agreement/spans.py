"""Agreement of spans: F1 between the spans of two workers."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np

from manyhands._base.checks import check_number
from manyhands._base.estimator import Array
from manyhands.agreement.result import Agreement, Jackknife
from manyhands.sequences.table import Sequences, runs

_Span = tuple[int, int, int]


def span_agreement(
    sequences: Any, *, tolerance: int = 0, resamples: int = 0, confidence: float = 0.95, seed: int = 0
) -> Agreement:
    """F1 between the spans of two workers, over all pairs of workers of a sequence.

    Use it for named entities and other marked spans. It is twice the number of matches over the number of spans of
    both, summed over all pairs. If spans are rare, chance agreement is negligible, and F1 equals Cohen's kappa.

    Parameters
    ----------
    sequences : Sequences or frame
        A :class:`~manyhands.Sequences` table, or a frame that makes one.
    tolerance : int, default 0
        Largest distance in tokens between the ends of two matching spans; each span matches at most one other.
    resamples, confidence, seed
        As for :func:`krippendorff_alpha`: groups of sequences that are left out for an interval, its level, and what
        decides the groups.

    References
    ----------
    G. Hripcsak and A. S. Rothschild, "Agreement, the F-measure, and reliability in information retrieval", JAMIA 12
    (2005).

    Examples
    --------
    >>> import manyhands as mh
    >>> marks = mh.Sequences.from_spans([1, 1, 1], [0, 5, 0], [3, 6, 2], ["ann", "ann", "bob"], lengths={1: 8})
    >>> mh.agreement.span_agreement(marks).value
    0.0
    >>> round(mh.agreement.span_agreement(marks, tolerance=1).value, 3)
    0.667
    """
    check_number("tolerance", tolerance, least=0, whole=True)
    jackknife = Jackknife(resamples, confidence, seed)
    jackknife.check()
    matched, marked, n_pairs = _sums(Sequences._as_table(sequences), int(tolerance))
    compared = np.flatnonzero(marked > 0)
    matched, marked = matched[compared], marked[compared]
    value = float(2 * matched.sum() / marked.sum()) if len(compared) else float("nan")
    left_out, sizes = np.zeros(0), np.zeros(0, np.uint32)
    groups = min(jackknife.resamples, len(compared))
    if groups >= 2:
        group = np.random.default_rng(seed).permutation(len(compared)) % groups
        ours, theirs = (np.bincount(group, part, groups) for part in (matched, marked))
        left_out = 2 * (matched.sum() - ours) / (marked.sum() - theirs)
        sizes = np.bincount(group, minlength=groups).astype(np.uint32)
    sums: Any = {"value": value, "n_tasks": len(compared), "n_pairs": n_pairs, "worst": 1.0}
    sums |= {"left_out": left_out, "sizes": sizes}
    return jackknife.agreement(sums, "no sequence was annotated by two workers with at least one span")


def _sums(votes: Sequences, tolerance: int) -> tuple[Array, Array, int]:
    """Return the matches and spans of all pairs of workers by sequence, and the number of pairs."""
    _, _, offsets, codes = votes.readings()
    first = np.zeros(len(codes) + 1, np.bool_)
    first[offsets] = True
    starts, ends, types = runs(votes._tags, codes, first[:-1])
    annotation = np.searchsorted(offsets, starts, side="right") - 1
    bounds = np.searchsorted(annotation, np.arange(votes.n_annotations + 1)).tolist()
    shift = offsets[annotation]
    spans: list[_Span] = list(zip((starts - shift).tolist(), (ends - shift).tolist(), types.tolist(), strict=True))
    matched, marked = np.zeros(votes.n_tasks), np.zeros(votes.n_tasks)
    n_pairs = 0
    for sequence, (one, last) in enumerate(pairwise(votes._table.offsets().tolist())):
        each = [spans[bounds[r] : bounds[r + 1]] for r in range(one, last)]
        for a, b in combinations(each, 2):
            n_pairs += 1
            marked[sequence] += len(a) + len(b)
            matched[sequence] += len(set(a) & set(b)) if not tolerance else _matches(a, b, tolerance)
    return matched, marked, n_pairs


def _matches(a: list[_Span], b: list[_Span], tolerance: int) -> int:
    """Return the largest number of matched pairs of spans of one type with near ends, each span in at most one pair.

    Spans of a worker do not overlap, and lists are in order, so that greedy matching is optimal.
    """
    n_matches, at = 0, 0
    for start, end, kind in a:
        for i in range(at, len(b)):
            other = b[i]
            if other[0] > start + tolerance:
                break
            if other[2] == kind and abs(other[0] - start) <= tolerance and abs(other[1] - end) <= tolerance:
                n_matches, at = n_matches + 1, i + 1
                break
    return n_matches
