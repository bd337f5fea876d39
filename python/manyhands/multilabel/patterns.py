"""Where patterns of labels that go together begin."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from manyhands._base.estimator import Array
from manyhands.multilabel.design import Design

#: Rounds in which tasks go to the nearest pattern, and patterns to the middle of their tasks.
_ROUNDS = 5
#: What a pattern has of its own tasks to begin with; the rest is what all tasks have.
_OWN = 0.5


def first_patterns(design: Design, posterior: Array, prior: Array, n: int, seed: int) -> Array:
    """Shares of labels in so many patterns to begin with, (patterns, labels), from probabilities of the candidates.

    Tasks far from each other are drawn, the further the more likely (k-means++), and a few rounds of k-means on
    absolute differences follow. Time O(candidates · patterns), memory O(tasks · patterns).
    """
    rng = np.random.default_rng(seed)
    n_tasks, _, n_labels = design.sizes

    def away(centre: Array) -> Array:
        """Sums of differences between tasks and a centre; labels that are no candidates are false."""
        own = np.abs(posterior - centre[design.labels]) - centre[design.labels]
        sums: Array = np.maximum(np.bincount(design.tasks, own, n_tasks) + centre.sum(), 0.0)
        return sums

    def middle(tasks: npt.NDArray[np.bool_]) -> Array:
        here = tasks[design.tasks]
        return np.bincount(design.labels[here], posterior[here], n_labels) / max(int(tasks.sum()), 1)

    centres, nearest = [], np.full(n_tasks, np.inf)
    for _ in range(n):
        chances = nearest if np.isfinite(nearest).all() and nearest.sum() > 0 else np.ones(n_tasks)
        drawn = int(rng.choice(n_tasks, p=chances / chances.sum()))
        centres.append(middle(np.arange(n_tasks) == drawn))
        nearest = np.minimum(nearest, away(centres[-1]))
    for _ in range(_ROUNDS):
        chosen = np.argmin(np.stack([away(centre) for centre in centres]), axis=0)
        centres = [middle(chosen == g) if (chosen == g).any() else centres[g] for g in range(n)]
    return np.clip(_OWN * np.stack(centres) + (1 - _OWN) * prior, 0.0, 1.0)
