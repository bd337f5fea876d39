"""The default: structurally different models, averaged and calibrated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands.aggregators.em import gold_codes
from manyhands.aggregators.hierarchical import HierarchicalDawidSkene, HierarchicalMACE
from manyhands.annotations import Annotations
from manyhands.base import Aggregator, Array, Fit, Progress
from manyhands.checks import check_number
from manyhands.progress import Callback

#: The models that are averaged, by name.
MEMBERS: dict[str, Callable[..., Aggregator]] = {
    "hierarchical": HierarchicalDawidSkene,
    "hierarchical-mace": HierarchicalMACE,
    "mace": partial(HierarchicalMACE, strength=float("inf")),
}

#: Correlation of the errors on one task, beyond what workers and classes explain. Chosen on 24 real logs for the
#: smallest median calibration error; leaving any one of them out chooses the same (benches/default.py).
CORRELATION = 0.4

#: Imaginary tasks of known class that each member won: what holds weights together where few are known.
_PRIOR_TASKS = 10.0

#: Correlations that are tried where known classes can tell.
_GRID = np.concatenate([[0.01], np.geomspace(0.02, 1.0, 24)])


class Consensus(Aggregator):
    """The method to use when no other is named: three models that differ in structure, averaged and calibrated.

    No single model is right everywhere, and no criterion that can be computed without known classes finds the one that
    is. So the posteriors of three are averaged, each with priors learnt from the crowd and a protected start:
    `HierarchicalDawidSkene` (workers resemble the crowd), `HierarchicalMACE` (workers know or guess) and MACE itself
    (the same with infinite strength). A model with a fixed prior, such as `BayesianDawidSkene`, is not among them:
    where workers have few labels it only drew the average down.

    All of them take workers to err independently, and are overconfident, the more so the more votes a task has: hard
    tasks mislead everybody. So the average is calibrated as one does for correlated samples: the log-posterior of a
    task with ``v`` votes is divided by the design effect ``1 + correlation_ · (v - 1)``. That changes no label.

    Parameters
    ----------
    correlation
        Of the errors on one task; None for 0.4, or for what fits best where `gold` is given.
    gold
        Known classes of some tasks, as in :class:`DawidSkene`. They are fixed in all members. Members are also fitted
        without them, and judged by them: their weights become those of the most probable mixture (from equal weights,
        worth ten tasks each), and the correlation the one with the smallest log-loss.
    protected, max_iter, tol
        Passes of each member, as in :class:`HierarchicalDawidSkene`.

    Notes
    -----
    Time: three fits of at most twenty-five passes, each one to two times one of :class:`DawidSkene`; six with gold.
    Memory beside that of one fit: five arrays of (n_tasks, n_classes), and four of (n_workers, n_classes, n_classes).

    ``confusion_`` and ``prior_`` are averages over members. There is no objective.

    References
    ----------
    L. Kish, "Survey Sampling" (1965), for design effects.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(300, 40, 4, labels_per_task=5, seed=1)
    >>> model = mh.aggregate(crowd.votes)
    >>> model.members_
    ('hierarchical', 'hierarchical-mace', 'mace')
    >>> int(model.disagreement_.argmax()) in range(300)  # a task that a person should look at
    True
    """

    _learnt: ClassVar[tuple[str, ...]] = (
        "_weights",
        "_correlation",
        "_disagreement",
        "_said",
        "_confusions",
        "_priors",
    )
    _learnt_shapes: ClassVar[Mapping[str, str]] = {
        "_weights": "3",
        "_correlation": "",
        "_disagreement": "n",
        "_said": "3n",
        "_confusions": "3mkk",
        "_priors": "3k",
    }

    def __init__(
        self,
        *,
        correlation: float | None = None,
        gold: Any = None,
        protected: int = 20,
        max_iter: int = 5,
        tol: float = 1e-4,
    ) -> None:
        self.correlation = correlation
        self.gold = gold
        self.protected = protected
        self.max_iter = max_iter
        self.tol = tol

    # ------------------------------------------------------------------------------------------------ results

    @property
    def members_(self) -> tuple[str, ...]:
        """Names of the models that were averaged."""
        self._fitted()
        return tuple(MEMBERS)

    @property
    def weights_(self) -> Array:
        """Weight of each member in the average, (n_members,); equal without known classes."""
        self._fitted()
        return self._weights

    @property
    def correlation_(self) -> float:
        """Correlation of the errors on one task that the answer was calibrated with."""
        self._fitted()
        return float(self._correlation)

    @property
    def disagreement_(self) -> Array:
        """How far members are from their average on each task, (n_tasks,): the mean total variation distance.

        0 where all give the same posterior; a task on which it is large is one that a person should look at.
        """
        self._fitted()
        return self._disagreement

    @property
    def member_labels_(self) -> npt.NDArray[Any]:
        """The winning class of each task according to each member, by name, (n_members, n_tasks)."""
        self._fitted()
        return self._classes.values[self._said.astype(np.int64)]

    # ---------------------------------------------------------------------------------------------------- fit

    def _iterations(self) -> int | None:
        return (self.protected + self.max_iter) * len(MEMBERS) * (1 if self.gold is None else 2)

    def _fit(self, votes: Annotations, progress: Callback | None) -> Fit:
        if self.correlation is not None:
            check_number("correlation", self.correlation, least=0, most=1)
        gold = None if self.gold is None else gold_codes(votes, self.gold)
        counter = _Counter(progress)
        weights = np.full(len(MEMBERS), 1 / len(MEMBERS))
        correlation = CORRELATION if self.correlation is None else float(self.correlation)
        totals = task_totals(votes._table)
        if gold is not None:
            known = gold >= 0
            judged = np.stack([self._member(name, votes, None, counter).rows()[known] for name in MEMBERS])
            weights = mixture_weights(judged[:, np.arange(known.sum()), gold[known]])
            if self.correlation is None:
                mixed = np.tensordot(weights, judged, axes=1)
                correlation = best_correlation(mixed, totals[known], gold[known])
        return self._average(votes, counter, weights, correlation, totals)

    def _member(self, name: str, votes: Annotations, gold: Any, counter: _Counter) -> Fit:
        stop = {"protected": self.protected, "max_iter": self.max_iter, "tol": self.tol}
        return MEMBERS[name](**stop, gold=gold)._fit(votes, counter.next())

    def _average(self, votes: Annotations, counter: _Counter, weights: Array, correlation: float, totals: Array) -> Fit:
        posteriors, said, rows, priors, n_iter = [], [], [], [], 0
        for name in MEMBERS:
            fit = self._member(name, votes, self.gold, counter)
            posteriors.append(fit.rows())
            said.append(_core.winners(posteriors[-1])[0].astype(np.float64))
            rows.append(fit.made())
            priors.append(fit.prior)
            n_iter += fit.n_iter
        pooled, self._disagreement = _core.pool_posteriors(posteriors, weights, totals, correlation)
        self._weights, self._correlation = weights, np.array(correlation)
        self._said, self._confusions, self._priors = np.stack(said), np.stack(rows), np.stack(priors)
        confusion, prior = (np.tensordot(weights, parts, axes=1) for parts in (self._confusions, self._priors))
        return Fit(pooled, confusion, prior, np.zeros(0), n_iter=n_iter)

    def _posterior(self, table: _core.Table, known: npt.NDArray[np.int64]) -> Array:
        posteriors = [
            _core.em_posterior(table, prior, self._carried_over(rows, known))
            for rows, prior in zip(self._confusions, self._priors, strict=True)
        ]
        return _core.pool_posteriors(posteriors, self._weights, task_totals(table), float(self._correlation))[0]


class _Counter:
    """Passes of several fits on end, counted through."""

    def __init__(self, progress: Callback | None) -> None:
        self._progress = progress
        self._before = self._last = 0

    def next(self) -> Callback | None:
        """Return what the next fit reports to."""
        if self._progress is None:
            return None
        self._before += self._last
        self._last = 0
        return self._report

    def _report(self, step: int, objective: float) -> None:
        self._last = step
        assert self._progress is not None
        self._progress(self._before + step, objective)


def task_totals(table: _core.Table) -> Array:
    """Weight of all votes on each task, (n_tasks,)."""
    offsets, weights = table.offsets().astype(np.int64), table.weights()
    if weights is None:
        return np.diff(offsets).astype(np.float64)
    before = np.concatenate([[0.0], np.cumsum(weights)])
    return np.diff(before[offsets])


def calibrated(posterior: Array, totals: Array, correlation: float) -> Array:
    """Posteriors of tasks with so many votes, if errors on one task have this correlation; labels stay the same."""
    return _core.pool_posteriors([posterior], np.ones(1), totals, correlation)[0]


def mixture_weights(right: Array) -> Array:
    """Most probable weights of members that gave the known classes these probabilities, (n_members, n_gold)."""
    n_members = len(right)
    weights = np.full(n_members, 1 / n_members)
    for _ in range(100):
        shares = weights[:, None] * np.maximum(right, 1e-12)
        counts = (shares / shares.sum(axis=0)).sum(axis=1) + _PRIOR_TASKS
        weights = counts / counts.sum()
    return weights


def best_correlation(posterior: Array, totals: Array, classes: npt.NDArray[np.int32]) -> float:
    """The correlation with the smallest log-loss on known classes; the usual one where they say nothing."""
    if not len(classes):
        return CORRELATION

    def loss(correlation: float) -> float:
        right = calibrated(posterior, totals, correlation)[np.arange(len(classes)), classes]
        # A log-normal prior of one unit: a few tasks change little.
        return float(-np.log(np.maximum(right, 1e-12)).sum() + 0.5 * np.log(correlation / CORRELATION) ** 2)

    return float(min(_GRID, key=loss))


def aggregate(votes: Any, *, gold: Any = None, progress: Progress = False) -> Consensus:
    """Find the label of each task, with the library's best judgement and nothing to choose.

    Parameters
    ----------
    votes
        An :class:`~manyhands.Annotations` table, or a frame with well-known column names.
    gold
        Known classes of some tasks, if there are any.
    progress
        True for a progress bar, or a function called now and then.

    Returns
    -------
    Consensus
        The fitted model: `labels_`, `posterior_`, `disagreement_`, `confusion_`, `to_frame()`, ….

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = {"task": ["a", "a", "a", "b", "b"], "worker": [1, 2, 3, 1, 2], "label": ["x", "x", "y", "y", "y"]}
    >>> mh.aggregate(votes).labels_.tolist()
    ['x', 'y']
    """
    return Consensus(gold=gold).fit(votes, progress=progress)
