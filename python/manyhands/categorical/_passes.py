"""What one pass over the annotations of a table gives: posteriors, expected counts, confusion matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from manyhands import _core
from manyhands._base.estimator import Array
from manyhands.categorical._streamed import StreamedPosterior
from manyhands.categorical.shards.passes import Part

#: Steps towards the prior of a crowd, from nothing and from what it was a moment ago.
_FIRST_ROUNDS, _ROUNDS = 20, 2


def posterior_under(table: _core.Table, prior: Array, confusion: Array) -> Array:
    """Class posteriors, (n_tasks, n_classes), under confusion matrices and a prior, or one for each task.

    Probabilities count as at least 1e-30: a prior and labels that contradict each other leave a posterior all the same.
    """
    return table.em_answers(*_core.em_factors(confusion, prior), posterior=True)["posterior"]


def expected_counts(held: Any, posterior: Array | StreamedPosterior) -> Array:
    """How often each worker is expected to have given each label to each class, (n_workers, n_classes, n_labels)."""
    return np.ascontiguousarray(_counts(held, posterior).swapaxes(1, 2))


def _counts(held: Any, posterior: Array | StreamedPosterior) -> Array:
    """The same with labels first, (n_workers, n_labels, n_classes), as the core counts."""
    k = held.n_classes
    counts = np.zeros((held.n_workers, held.n_labels, k))
    if isinstance(posterior, StreamedPosterior):
        expect = posterior.of_part

        def count(part: Part, **sums: Any) -> float:
            part.shard.em_open(posterior=expect(part), **sums)
            return 0.0

        posterior.shards.add(count, counts, np.zeros(k))
    else:
        held.em_open(posterior=posterior, counts=counts, classes=np.zeros(k))
    return counts


def resembling(table: _core.Table, posterior: Array, crowd: Array | None = None) -> tuple[Array, Array]:
    """Confusion matrices estimated from posteriors, shrunk to the degree estimated from the crowd.

    Row k of every worker's matrix, (n_workers, n_classes, n_classes), has a Dirichlet prior that is learned: its
    parameters are the second answer, labels first, and where to begin the next time.
    """
    counts = _counts(table, posterior)
    crowd = _core.crowd_prior(counts, rounds=_FIRST_ROUNDS if crowd is None else _ROUNDS, start=crowd)
    counts += crowd
    counts /= counts.sum(axis=1, keepdims=True)
    return np.ascontiguousarray(counts.swapaxes(1, 2)), crowd


def judged_by(held: Any, posterior: Array | StreamedPosterior, pseudo: Array) -> Array:
    """Confusion matrices, (n_workers, n_classes, n_labels), of workers judged by posteriors, pseudo-counts added."""
    counts = expected_counts(held, posterior) + pseudo
    m, k, n_labels = counts.shape
    factors, _ = _core.em_factors(counts, np.ones(k))
    return np.ascontiguousarray(factors.reshape(m, n_labels, k).swapaxes(1, 2))
