"""Confusion matrices that depend on an attribute of the task, held together where data are thin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from manyhands import metrics
from manyhands._base import arrow
from manyhands._base.checks import check_positive, plural
from manyhands._base.estimator import Array
from manyhands._base.limits import check_memory
from manyhands._base.names import Names
from manyhands._base.special import log_gamma
from manyhands.categorical._passes import expected_counts
from manyhands.categorical.base import Aggregator
from manyhands.categorical.table import Annotations
from manyhands.fairness.attribute import Attribute, Ints, read_votes

if TYPE_CHECKING:
    import pyarrow as pa

#: Strengths that are tried: answers that what is shrunk to stands for.
_STRENGTHS = np.geomspace(0.5, 5000.0, 33)


@dataclass(frozen=True, eq=False, repr=False)
class Conditioned:
    """How each worker errs on tasks of each group; to be had from :func:`confusion`."""

    names: Names
    groups: list[Any]
    classes: Names
    #: (n_workers, n_groups, n_classes true, n_classes observed); rows sum to one.
    matrices: Array
    #: The same whatever the group, (n_workers, n_classes, n_classes).
    overall: Array
    #: Pseudo-answers, distributed as `overall`, that are added to those on a group.
    strength: float
    #: Answers of each worker on tasks of each group, (n_workers, n_groups).
    n_answers: Ints
    prior: Array

    @property
    def accuracy(self) -> Array:
        """Expected share of right answers of each worker on each group, (n_workers, n_groups)."""
        return np.asarray(np.einsum("k,mgkk->mg", self.prior, self.matrices))

    def frame(self) -> pa.Table:
        """Return one row per worker and group, as an Arrow table: worker, group, n_answers, accuracy."""
        import pyarrow as pa

        m, g = self.n_answers.shape
        return arrow.table(
            {
                "worker": self.names.take(np.repeat(np.arange(m), g)).arrow(),
                "group": pa.array(self.groups * m),
                "n_answers": self.n_answers.ravel(),
                "accuracy": self.accuracy.ravel(),
            }
        )

    def __repr__(self) -> str:
        return (
            f"<Conditioned: {plural(len(self.names), 'worker')} on {', '.join(map(str, self.groups))}; what is common "
            f"to all groups stands for {self.strength:.3g} answers>"
        )


def confusion(votes: Any, truth: Any, *, attribute: Any, strength: float | None = None) -> Conditioned:
    """Estimate each worker's confusion matrix per group of tasks, A_m(z), shrunk to the worker's overall matrix A_m.

    Use it to find workers whose errors depend on a group. For each class, A_m(z) combines the worker's answers on tasks
    of the group with `strength` pseudo-answers distributed as the worker's answers on all tasks, which in turn are
    shrunk to the crowd's.

    Parameters
    ----------
    votes, truth, attribute
        As for :func:`gaps`; the attribute is one of tasks. A fitted aggregator as truth judges by its posterior.
    strength : float, optional
        Number of pseudo-answers; by default the one of largest likelihood.

    Notes
    -----
    Time O(n_annotations + n_workers · n_groups · n_classes²), the latter some tens of times; memory O(n_workers ·
    n_groups · n_classes²).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(400, 10, 2, labels_per_task=5, seed=1)
    >>> estimate = mh.fairness.confusion(crowd.log, mh.aggregate(crowd.log), attribute=["a", "b"] * 200)
    >>> estimate.matrices.shape
    (10, 2, 2, 2)
    """
    if strength is not None:
        check_positive("strength", strength)
    log, groups = read_votes(votes, attribute, "task")
    return condition_on(log, beliefs(log, truth), groups, strength)


def beliefs(log: Annotations, truth: Any) -> Array:
    """Class posteriors of a log's tasks, (n_tasks, n_classes): from gold or a model; 0 for tasks without either."""
    if isinstance(truth, Aggregator):
        truth._fitted()
        at, order = truth._tasks.match(log._tasks), truth._classes.match(log._classes)
        if (at < 0).any() or (order < 0).any():
            raise ValueError("the model was not fitted to these votes: it does not know all their tasks and classes")
        return np.ascontiguousarray(truth.posterior_[at][:, order])
    index, classes = metrics.match_gold(log.tasks, truth, unknown="ignore")
    codes = log._classes.find(classes)
    rows = np.zeros((log.n_tasks, log.n_classes))
    rows[index[codes >= 0], codes[codes >= 0]] = 1.0
    return rows


def condition_on(log: Annotations, posterior: Array, groups: Attribute, strength: float | None) -> Conditioned:
    """Matrices of workers on groups, judged by posteriors."""
    m, g, k = log.n_workers, len(groups.groups), log.n_classes
    check_memory(16 * m * g * k * k, f"confusion matrices of {m:,} workers on {g} groups", "join groups")
    counts = expected_counts(split(log, groups).table, _normalize(posterior, groups))[: m * g].reshape(m, g, k, k)
    of_worker = counts.sum(axis=1)
    crowd = of_worker.sum(axis=0) + 1.0 / k
    crowd /= crowd.sum(axis=1, keepdims=True)
    overall, _ = _shrunk(of_worker, np.broadcast_to(crowd, of_worker.shape), None)
    matrices, strength_fitted = _shrunk(counts, np.broadcast_to(overall[:, None], counts.shape), strength)
    classes = posterior.sum(axis=0) + 1e-9
    n_answers = np.bincount(split(log, groups).codes()[1], minlength=m * g)[: m * g].reshape(m, g)
    return Conditioned(
        log._workers, groups.named, log._classes, matrices, overall, strength_fitted, n_answers, classes / classes.sum()
    )


def split(log: Annotations, groups: Attribute) -> Annotations:
    """The log with a worker for each worker and group, ``worker * n_groups + group``.

    What is about tasks without a group is of one more, the last.
    """
    m, g = log.n_workers, len(groups.groups)
    tasks, workers, labels = (codes.astype(np.int64) for codes in log.codes())
    group = groups.codes[tasks]
    parts = np.where(group >= 0, workers * g + group, m * g)
    return Annotations.from_codes(
        tasks, parts, labels, n_tasks=log.n_tasks, n_workers=m * g + 1, n_classes=log.n_classes, weights=log.weights
    )


def _normalize(posterior: Array, groups: Attribute) -> Array:
    rows: Array = posterior * (groups.codes >= 0)[:, None]
    return rows


def _shrunk(counts: Array, centre: Array, strength: float | None) -> tuple[Array, float]:
    """Shrink counts to a center by pseudo-counts, as rows that sum to one; None for the most likely number."""
    if strength is None:
        strength = float(_STRENGTHS[int(np.argmax([_evidence(counts, centre * s) for s in _STRENGTHS]))])
    total: Array = counts + strength * centre
    return total / total.sum(axis=-1, keepdims=True), strength


def _evidence(counts: Array, prior: Array) -> float:
    """The logarithm of the probability of counts under Dirichlet distributions of rows, less what they share."""
    prior = np.maximum(prior, 1e-6)
    n, total = counts.sum(axis=-1), prior.sum(axis=-1)
    rows = log_gamma(total) - log_gamma(total + n) + (log_gamma(prior + counts) - log_gamma(prior)).sum(axis=-1)
    return float(rows.sum())
