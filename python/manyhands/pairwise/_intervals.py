"""From variances to intervals of scores and of ranks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_between, check_choice, check_number
from manyhands._base.estimator import Array
from manyhands.metrics.intervals import offset_errors, student_quantile

#: Fewer workers than this say too little of how workers differ to stand for it.
LEAST_CLUSTERS = 10
#: Slopes are not taken to have been shrunk by more.
_MOST_SHRINKAGE = 0.8
METHODS = ("sandwich", "bootstrap", "none")


def check_intervals(intervals: str, level: float, n_resamples: int, seed: int) -> None:
    """Refuse settings of intervals that mean nothing."""
    check_choice("intervals", intervals, METHODS)
    check_between("level", level, such_as=0.95)
    check_number("n_resamples", n_resamples, least=2, whole=True)
    check_number("seed", seed, least=0, whole=True)


def clusters_of(n_per_worker: npt.NDArray[np.int64]) -> tuple[str, int]:
    """What is taken to be independent, workers if there are enough of them, and how many of those there are."""
    n_workers = int((n_per_worker > 0).sum())
    return ("workers", n_workers) if n_workers >= LEAST_CLUSTERS else ("comparisons", int(n_per_worker.sum()))


def few_workers(n_workers: int, what: str) -> tuple[str, ...]:
    """A remark, where intervals cannot allow for how workers differ."""
    if not 1 < n_workers < LEAST_CLUSTERS:
        return ()
    return (
        f"Intervals take {what} to be independent: {n_workers} workers are too few to tell how workers differ "
        f"({LEAST_CLUSTERS} would do), so what one worker has against an item is not in them.",
    )


def shrinkage_offset(slopes: Array, errors: Array, spread: float, n_per_worker: npt.NDArray[np.int64]) -> float:
    """By which share scores are too large because slopes of workers were shrunk to their average.

    A slope with standard error e was moved to 1 by a share of (e / spread)². Scores, which are fitted with the shrunk
    slopes a instead of those before, a*, come out larger by Σ n·a·a* / Σ n·a²: most where some workers guess.
    """
    if not len(slopes) or not spread > 0:
        return 0.0
    moved = np.minimum((errors / spread) ** 2, _MOST_SHRINKAGE)
    before = 1.0 + (slopes - 1.0) / (1.0 - moved)
    total = float(n_per_worker @ slopes**2)
    return float(n_per_worker @ (slopes * before)) / total - 1.0 if total > 0 else 0.0


def of_scores(
    scores: Array,
    *,
    model: Array,
    clustered: Array,
    components: npt.NDArray[np.int64],
    prior: float,
    clusters: tuple[str, int],
    level: float,
    offset: float,
) -> tuple[Array, Array]:
    """Standard errors and intervals of scores that average 0 in their group.

    Variances by clusters see only what answers say: of an item that always won they take the lack of surprise for
    certainty. The model's own variance, from which what is not known of the group's mean is taken away, does not, and
    no interval is narrower than it says. Intervals by clusters reach as far as Student's t for as many workers.

    Parameters
    ----------
    scores, model, clustered
        Scores, their variances by the model, and by clusters (a sandwich or a bootstrap).
    components, prior
        Groups of items that comparisons link, and the standard deviation of scores before any comparison.
    clusters
        What is taken to be independent, and how many of those there are.
    level
        Of the intervals.
    offset
        The share by which scores may be too large; see `shrinkage_offset`.
    """
    what, n = clusters
    sizes = np.bincount(components)[components]
    own = np.sqrt(np.maximum(model - prior**2 / sizes, 0.0))
    said = np.sqrt(clustered * (n / (n - 1) if n > 1 else 1.0))
    normal = student_quantile(level, None)
    wide = student_quantile(level, n - 1 if what == "workers" else None)
    errors = offset_errors(offset * scores, np.maximum(own, said), level)
    reach = normal * offset_errors(offset * scores, np.maximum(own, wide / normal * said), level)
    return errors, np.stack([scores - reach, scores + reach], axis=1)


def ranks_of(scores: Array) -> npt.NDArray[np.int64]:
    """Places of scores, 1 for the highest; equal scores share the better one."""
    return np.searchsorted(np.sort(-scores), -scores, side="left") + 1


def rank_intervals(intervals: Array) -> npt.NDArray[np.int64]:
    """The best and the worst place of each item: past all whose intervals lie beyond its own. O(n log n)."""
    low, high = np.sort(intervals[:, 0]), np.sort(intervals[:, 1])
    n = len(intervals)
    above = n - np.searchsorted(low, intervals[:, 1], side="right")
    below = np.searchsorted(high, intervals[:, 0], side="left")
    return np.stack([above + 1, n - below], axis=1)
