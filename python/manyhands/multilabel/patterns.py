"""Initialization of label patterns by k-means."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from manyhands._base.estimator import Array
from manyhands.multilabel.design import Design

#: Number of k-means rounds.
_ROUNDS = 5
#: Weight of a pattern's own tasks in its initial shares; the rest is the overall prior.
_OWN = 0.5


def first_patterns(design: Design, posterior: Array, prior: Array, n: int, seed: int) -> Array:
    """Return initial label shares of the patterns, (patterns, labels), from candidate probabilities.

    Runs k-means++ seeding and a few rounds of k-means with L1 distances. Time O(candidates · patterns), memory
    O(tasks · patterns).
    """
    rng = np.random.default_rng(seed)
    n_tasks, _, n_labels = design.sizes

    def distances(centre: Array) -> Array:
        """L1 distances of tasks to a center; labels that are not candidates are zero."""
        own = np.abs(posterior - centre[design.labels]) - centre[design.labels]
        sums: Array = np.maximum(np.bincount(design.tasks, own, n_tasks) + centre.sum(), 0.0)
        return sums

    def middle(tasks: npt.NDArray[np.bool_]) -> Array:
        in_tasks = tasks[design.tasks]
        return np.bincount(design.labels[in_tasks], posterior[in_tasks], n_labels) / max(int(tasks.sum()), 1)

    centres, nearest = [], np.full(n_tasks, np.inf)
    for _ in range(n):
        chances = nearest if np.isfinite(nearest).all() and nearest.sum() > 0 else np.ones(n_tasks)
        seed_task = int(rng.choice(n_tasks, p=chances / chances.sum()))
        centres.append(middle(np.arange(n_tasks) == seed_task))
        nearest = np.minimum(nearest, distances(centres[-1]))
    for _ in range(_ROUNDS):
        assignment = np.argmin(np.stack([distances(centre) for centre in centres]), axis=0)
        centres = [middle(assignment == g) if (assignment == g).any() else centres[g] for g in range(n)]
    return np.clip(_OWN * np.stack(centres) + (1 - _OWN) * prior, 0.0, 1.0)
