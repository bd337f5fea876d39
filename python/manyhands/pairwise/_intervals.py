"""From variances to intervals of scores and of ranks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands.checks import check_between, check_choice, check_number
from manyhands.estimator import Array

#: Fewer workers than this say too little of how workers differ to stand for it.
LEAST_CLUSTERS = 10
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


def width(level: float, n_clusters: int | None) -> float:
    """How many standard errors an interval reaches to either side: Student's t by the number of clusters."""
    tail = 1.0 - level
    if n_clusters is None:
        from statistics import NormalDist  # slow to import, and seldom needed

        return NormalDist().inv_cdf(1.0 - tail / 2)
    freedom = max(n_clusters - 1, 1)
    below = float(_core.beta_quantile(np.array([freedom / 2]), np.array([0.5]), tail)[0])
    return float(np.sqrt(freedom * (1.0 - below) / below))


def pooled(model: Array, sandwich: Array, components: npt.NDArray[np.int64], prior: float, factor: float) -> Array:
    """Standard errors of scores that average 0 in their group, never below what the model itself says.

    The sandwich sees only what answers say: of an item that always won it takes the lack of surprise for certainty.
    The model's own variance, from which what is not known of the group's mean is taken away, does not.
    """
    sizes = np.bincount(components)[components]
    own = np.maximum(model - prior**2 / sizes, 0.0)
    return np.sqrt(np.maximum(own, factor * sandwich))


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
