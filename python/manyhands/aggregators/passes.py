"""What one pass over the annotations of a table gives: posteriors, expected counts, confusion matrices."""

from __future__ import annotations

import numpy as np

from manyhands import _core
from manyhands.estimator import Array


def posterior_under(table: _core.Table, prior: Array, confusion: Array) -> Array:
    """Class posteriors, (n_tasks, n_classes), under confusion matrices and a prior, or one for each task.

    Probabilities count as at least 1e-30: a prior and labels that contradict each other leave a posterior all the same.
    """
    return _core.em_answers(table, *_core.em_factors(confusion, prior), posterior=True)["posterior"]


def expected_counts(table: _core.Table, posterior: Array) -> Array:
    """How often each worker is expected to have given each label to each class, (n_workers, n_classes, n_labels)."""
    k = posterior.shape[1]
    counts = np.zeros((table.n_workers, table.n_labels, k))
    _core.em_open(table, posterior=posterior, counts=counts, classes=np.zeros(k))
    return np.ascontiguousarray(counts.swapaxes(1, 2))


def judged_by(table: _core.Table, posterior: Array, pseudo: Array) -> Array:
    """Confusion matrices, (n_workers, n_classes, n_labels), of workers judged by posteriors, beside pseudo-counts."""
    counts = expected_counts(table, posterior) + pseudo
    m, k, said = counts.shape
    factors, _ = _core.em_factors(counts, np.ones(k))
    return np.ascontiguousarray(factors.reshape(m, said, k).swapaxes(1, 2))
