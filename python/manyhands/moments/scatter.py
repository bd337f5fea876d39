"""How far the rows of confusion matrices are spread: the sufficiently scattered condition."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_number
from manyhands._base.estimator import Array
from manyhands.categorical._priors import probabilities

#: Steps of the search from each start, and the step length below which it ends.
_STEPS, _SHORTEST = 60, 1e-4


def scattering(confusion: npt.ArrayLike, *, n_starts: int = 200, seed: int = 0) -> float:
    """Measure how far confusion matrices are from sufficiently scattered; 1 or less if they are.

    Use it to see whether pairwise statistics can identify a crowd that has no specialists. If both groups of workers
    that a factorization compares are sufficiently scattered, confusion matrices are identified up to the order of the
    classes. Specialists for all classes, the stronger condition, are `specialists` of :func:`diagnose`.

    Parameters
    ----------
    confusion : array-like of shape (n_workers, n_classes, n_classes)
        Confusion matrices ``confusion[worker, true, observed]``, known or estimated.
    n_starts : int, default 200
        Random directions in which the search starts.
    seed : int, default 0
        Seed of the directions.

    Returns
    -------
    float
        The largest norm of a vector ``x`` that sums to one and has ``h · x >= 0`` for all rows ``h`` of the stacked
        matrices, each of which holds the probabilities of one answer of one worker under all classes. Unit vectors are
        always such. The condition holds if no other such vector is as long, so that the value is 1; the larger it is,
        the less the rows are spread. Infinite where the rows do not span the classes.

    Notes
    -----
    The condition: the cone of the rows contains ``{x : sum(x) >= sqrt(n_classes - 1) · norm(x)}``. To decide it is
    NP-hard in general. The search ascends from `n_starts` directions, so that a value above 1 proves that the condition
    fails, and 1 means that no violation was found (for two classes it is exact). Estimated matrices are never exactly
    zero: allow for a few percent above 1. Time O(n_starts · n_workers · n_classes²) per step, at most 60 steps.

    References
    ----------
    K. Huang, N. D. Sidiropoulos and A. Swami, "Non-negative matrix factorization revisited: uniqueness and algorithm
    for symmetric decomposition", IEEE TSP 62 (2014). S. Ibrahim, X. Fu, N. Kargas and K. Huang, "Crowdsourcing via
    pairwise co-occurrences: identifiability and algorithms", NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np, manyhands as mh
    >>> mh.moments.scattering(np.eye(3)[None])
    1.0
    >>> mh.moments.scattering([[[0.6, 0.4], [0.4, 0.6]]]) > 2
    True
    """
    check_number("n_starts", n_starts, least=1, whole=True)
    check_number("seed", seed, least=0, whole=True)
    shape = np.shape(confusion)
    if len(shape) != 3 or shape[1] != shape[2]:
        raise ValueError(f"confusion has shape {shape}; give (n_workers, n_classes, n_classes)")
    matrices = probabilities(confusion, shape, "confusion")
    k = shape[1]
    if k == 1:
        return 1.0
    rows = matrices.swapaxes(1, 2).reshape(-1, k)
    rows = rows[rows.sum(axis=1) > 0]
    rows = rows / rows.sum(axis=1, keepdims=True)
    rng = np.random.default_rng(seed)
    # Directions that keep the sum; those toward and away from each unit vector first.
    corners = np.eye(k) - 1 / k
    starts = np.concatenate([corners, -corners, rng.normal(size=(n_starts, k))])
    starts -= starts.mean(axis=1, keepdims=True)
    directions = starts / np.linalg.norm(starts, axis=1, keepdims=True)
    reach = _reach(rows, directions)
    step = np.full(len(directions), 0.5)
    for _ in range(_STEPS):
        trial = directions + step[:, None] * rng.normal(size=directions.shape) / np.sqrt(k)
        trial -= trial.mean(axis=1, keepdims=True)
        trial /= np.linalg.norm(trial, axis=1, keepdims=True)
        further = _reach(rows, trial)
        better = further > reach
        directions[better], reach[better] = trial[better], further[better]
        step = np.where(better, step, np.maximum(step * 0.8, _SHORTEST))
    longest = float(reach.max())
    return max(float(np.sqrt(1 / k + longest**2)), 1.0)


def _reach(rows: Array, directions: Array) -> Array:
    """How far one can go from the center in each direction before some row's product is negative."""
    k = rows.shape[1]
    slopes = directions @ rows.T
    with np.errstate(divide="ignore"):
        limits = np.where(slopes < -1e-12, (1 / k) / -slopes, np.inf)
    return np.asarray(limits.min(axis=1))
