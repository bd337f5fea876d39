"""Estimate how many more labels an accuracy takes, by simulating crowds that could have given the log."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from manyhands import _core
from manyhands._base.checks import check_between, check_number
from manyhands._base.data_checks import made_table
from manyhands._base.estimator import Array
from manyhands.categorical._calibration import (
    CORRELATION,
    calibrate,
    error_correlation,
    information,
    probability_of_correlation,
)
from manyhands.categorical._passes import posterior_under
from manyhands.collect.beliefs import Beliefs, beliefs_of, checked_model
from manyhands.collect.gains import Ints, entropy, top

#: Tasks that stand for all in a simulation, and in a refit; workers who stand for the crowd; labels per task beyond
#: which the accuracy counts as out of reach.
_TASKS, _REFIT_TASKS, _WORKERS, _MOST = 2000, 5000, 200, 40
#: Share of the tasks that get a label in a round.
_ROUND = 0.05
#: Level of the interval.
_LEVEL = 0.9


@dataclass(frozen=True)
class LabelsNeeded:
    """Number of further labels that reach an accuracy, from :func:`labels_needed`; ``int()`` of it is the median.

    Infinite where more labels from this crowd are not expected to reach it at all.
    """

    accuracy: float
    #: Expected share of right answers now, averaged over draws.
    now: float
    #: Median over draws, and the ends of the 90 % interval.
    labels: float
    low: float
    high: float
    n_tasks: int

    @property
    def interval(self) -> tuple[float, float]:
        """The 90 % interval."""
        return self.low, self.high

    def __int__(self) -> int:
        return int(self.labels)

    def __float__(self) -> float:
        return float(self.labels)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values; None for what is infinite."""
        return {name: None if value == math.inf else value for name, value in asdict(self).items()}

    def __str__(self) -> str:
        if self.labels == 0:
            return f"accuracy {self.accuracy:g} is expected now ({self.now:.3f})"
        if self.labels == math.inf:
            return f"accuracy {self.accuracy:g} is beyond what this crowd is expected to reach ({self.now:.3f} now)"
        most = "beyond reach" if self.high == math.inf else f"{self.high:,.0f}"
        return (
            f"{self.labels:,.0f} labels more for accuracy {self.accuracy:g} ({self.now:.3f} now); 90 % interval "
            f"{self.low:,.0f} to {most}"
        )


def labels_needed(
    model: Any, accuracy: float = 0.95, *, tasks: Any = None, votes: Any = None, draws: int = 40, seed: int = 0
) -> LabelsNeeded:
    """Estimate how many more labels reach an accuracy, if they go to the most uncertain tasks.

    Use it to plan a budget.

    Each draw is a crowd that may have given this log: a :class:`~manyhands.categorical.HierarchicalDawidSkene` fitted
    to tasks drawn from it with replacement, whose errors on a task are correlated with the probability that the log
    indicates, as :class:`~manyhands.Consensus` estimates it. True classes are drawn from the posterior of that crowd,
    and workers answer the tasks that `model` finds most uncertain, as often as they did so far. The model comes to know
    them by as much as its log grows, and labels are counted until its share of right answers is reached.

    The interval includes the uncertainty of classes, workers, future answers and the dependence of errors, whatever the
    confidences of `model`. In simulations of independent workers it contained the true number in 85 to 100 % of
    logs (docs/evidence/coverage.md), and was wide: without an upper end where the log is too small to exclude
    dependence. ``Consensus(correlation=0)`` excludes it and gives an upper end. The interval
    does not hold where the new labels come from other workers or by another rule than the entropy of the posterior, and
    where tasks are hard for all workers in a way that the log does not show.

    Parameters
    ----------
    model
        A fitted aggregator of classes, whose answers are to reach the accuracy.
    accuracy : float, default 0.95
        The share of right answers to reach.
    tasks
        Those that it is about, also ones without any answer; None for all of the model.
    votes
        The annotations, for a model that was loaded from a file.
    draws : int, default 40
        How often to simulate; with fewer than 19 the interval holds less than 90 %.
    seed : int, default 0
        Of the draws.

    Notes
    -----
    Time O(draws · (annotations · n_classes + labels · n_classes)) on at most 5,000 tasks for the refits and 2,000 for
    the labels, which stand for all; some seconds where many labels are needed. Beyond 40 labels per task, or one of
    each worker, the accuracy is taken to be out of reach.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(300, 20, 2, labels_per_task=2, seed=1)
    >>> needed = mh.collect.labels_needed(mh.DawidSkene().fit(crowd.log), accuracy=0.95, draws=5)
    >>> needed.low <= int(needed) <= needed.high
    True
    """
    check_between("accuracy", accuracy, such_as=0.95)
    check_number("draws", draws, least=1, whole=True)
    check_number("seed", seed, least=0, whole=True)
    beliefs = beliefs_of(model, tasks=tasks, votes=votes)
    n = len(beliefs.tasks)
    if not n:
        raise ValueError("there are no tasks to reach an accuracy on")
    worlds = _Worlds(model, beliefs)
    labels, now = np.empty(draws), np.empty(draws)
    for draw in range(draws):
        rng = np.random.default_rng([seed, draw])
        now[draw], labels[draw] = _simulate(beliefs, worlds.draw(rng), accuracy, rng)
    labels.sort()
    # Another draw, the truth, lies between these two with the level's probability, by symmetry.
    out = max(int((1 - _LEVEL) / 2 * (draws + 1)), 1)
    return LabelsNeeded(
        float(accuracy),
        float(now.mean()),
        float(np.quantile(labels, 0.5, method="nearest")),
        float(labels[out - 1]),
        float(labels[draws - out]),
        n,
    )


class _World(NamedTuple):
    """A crowd that may have given the log, as one draw has it."""

    #: Class posteriors of the tasks given their labels and this crowd, (n_tasks, n_classes).
    posterior: Array
    #: Confusion matrix of each worker, (n_workers, n_classes, n_classes).
    confusion: Array
    #: The part of the next label of each task that is new, (n_tasks,), and what each label takes of it.
    share: Array
    discount: float


class _Worlds:
    """Draws of crowds that may have given a log: refits to tasks drawn from it, with or without correlated errors."""

    def __init__(self, model: Any, known: Beliefs) -> None:
        if known.log is None:
            raise ValueError("a model that was loaded from a file does not know the annotations; give them: votes=…")
        self._known = known
        log = known.log.without_abstentions()
        self._table = checked_model(model)._recode(log)
        self._workers = known.workers.match(log._workers)
        self._n_labels = np.where(known.place < 0, 0, log.labels_per_task[known.place])
        fitted = _hierarchy(self._table)
        correlation = getattr(model, "correlation", None)
        if correlation is not None:
            self._correlation, self._probability = float(correlation), 1.0
        else:
            estimate = error_correlation(self._table, fitted["posterior"], fitted["prior"], fitted["alpha"])
            self._correlation, self._probability = CORRELATION, probability_of_correlation(*estimate)
        self._certain = known.posterior.max(axis=1) == 1.0 if getattr(model, "gold", None) is not None else None

    def draw(self, rng: np.random.Generator) -> _World:
        """One of them."""
        crowd = _hierarchy(self._resampled(rng))
        rows = posterior_under(self._table, crowd["prior"], crowd["confusion"])
        correlation = self._correlation if rng.random() < self._probability else 0.0
        if correlation:
            votes = self._table.effective_votes(information(crowd["confusion"]))
            rows = calibrate(rows, votes, correlation)
        beliefs = self._known
        posterior = np.where(beliefs.place[:, None] < 0, crowd["prior"], rows[beliefs.place])
        if self._certain is not None:
            posterior[self._certain] = beliefs.posterior[self._certain]
        confusion = beliefs.confusion[:, :, : posterior.shape[1]].copy()
        answered = self._workers >= 0
        confusion[self._workers[answered]] = crowd["confusion"][answered]
        return _World(posterior, confusion, 1.0 / (1.0 + correlation * self._n_labels), correlation)

    def _resampled(self, rng: np.random.Generator) -> _core.Table:
        """As many tasks as the log has, drawn from it with replacement."""
        offsets = self._table.offsets().astype(np.int64)
        sample = rng.integers(0, len(offsets) - 1, min(len(offsets) - 1, _REFIT_TASKS))
        sizes = np.diff(offsets)[sample]
        rows = np.repeat(offsets[sample] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        _, workers, labels = self._table.columns()
        weights = self._table.weights()
        return made_table(
            np.repeat(np.arange(len(sample), dtype=np.uint32), sizes),
            workers[rows],
            labels[rows],
            None if weights is None else weights[rows],
            len(sample),
            self._table.n_workers,
            self._table.n_classes,
        )


def _hierarchy(table: _core.Table) -> _core._HierarchyFit:
    """A `HierarchicalDawidSkene` of a table."""
    pseudo = np.full(table.n_classes, 1.0 / table.n_classes)
    (found,) = _core.hierarchy_fit(
        table, [("crowd", None)], class_pseudo=pseudo, gold=None, protected=20, max_iter=5, tol=1e-4
    )
    return found


def _simulate(beliefs: Beliefs, world: _World, accuracy: float, rng: np.random.Generator) -> tuple[float, float]:
    """The share of right answers to expect now, and labels until the accuracy is reached, in one draw."""
    n = len(beliefs.tasks)
    rows = rng.permutation(n)[:_TASKS]
    weights = beliefs.n_labels if beliefs.n_labels.any() else np.ones(len(beliefs.workers))
    crowd = rng.choice(len(beliefs.workers), size=min(_WORKERS, len(beliefs.workers)), p=weights / weights.sum())
    posterior, real, share = beliefs.posterior[rows].copy(), world.posterior[rows].copy(), world.share[rows].copy()
    truth = _draw(real, rng)
    at, k = np.arange(len(rows)), posterior.shape[1]
    now = float(real[at, posterior.argmax(axis=1)].mean())
    labels = _labels_of(beliefs, rows)
    total, step, n_bought = max(int(beliefs.n_labels.sum()), 1), max(1, int(_ROUND * len(rows))), 0
    most = np.minimum(labels + _MOST, np.maximum(len(beliefs.workers), labels))
    while True:
        # As the log grows, a refit comes to know workers as they are.
        weight = n_bought / (n_bought + total * len(rows) / n)
        blended = posterior ** (1.0 - weight) * real**weight
        if (blended.argmax(axis=1) == truth).mean() >= accuracy:
            return now, math.ceil(n_bought * n / len(rows))
        blended /= blended.sum(axis=1, keepdims=True)
        rows_asked = top(np.where(labels < most, entropy(blended), -1.0), step)
        rows_asked = rows_asked[labels[rows_asked] < most[rows_asked]]
        if not len(rows_asked):
            return now, math.inf
        who = rng.integers(len(crowd), size=len(rows_asked))
        matrices = world.confusion[crowd[who]]
        labels_drawn = _answers(matrices, truth[rows_asked], real[rows_asked], share[rows_asked], rng)
        posterior[rows_asked] = _update(
            posterior[rows_asked], beliefs.confusion[crowd[who]][:, :, :k], labels_drawn, share[rows_asked]
        )
        real[rows_asked] = _update(real[rows_asked], matrices, labels_drawn, share[rows_asked])
        share[rows_asked] = 1.0 / (1.0 / share[rows_asked] + world.discount)
        labels[rows_asked] += 1
        n_bought += len(rows_asked)


def _labels_of(known: Beliefs, rows: Ints) -> Ints:
    """How many labels some tasks have."""
    place = known.place[rows]
    assert known.log is not None
    counts: Ints = np.where(place < 0, 0, known.log.labels_per_task[place]).astype(np.int64)
    return counts


def _answers(matrices: Array, truth: Ints, beliefs: Array, share: Array, rng: np.random.Generator) -> Ints:
    """What workers say; where a label is not new, it is whatever the others would say."""
    new = matrices[np.arange(len(truth)), truth]
    marginals = np.einsum("nk,nkl->nl", beliefs, matrices)
    return _draw(np.where((rng.random(len(truth)) < share)[:, None], new, marginals), rng)


def _update(beliefs: Array, matrices: Array, labels: Ints, share: Array) -> Array:
    """Posteriors after labels, of which a share is new."""
    likelihood = matrices[np.arange(len(labels)), :, labels]
    evidence = (beliefs * likelihood).sum(axis=1, keepdims=True)
    joint = beliefs * (share[:, None] * likelihood + (1 - share[:, None]) * evidence)
    total = joint.sum(axis=1, keepdims=True)
    after: Array = np.where(total > 0, joint / np.where(total > 0, total, 1.0), beliefs)
    return after


def _draw(probabilities: Array, rng: np.random.Generator) -> Ints:
    """One code from each row of probabilities."""
    edges = probabilities.cumsum(axis=1)
    above = rng.random((len(edges), 1)) * edges[:, -1:] >= edges
    codes: Ints = np.minimum(above.sum(axis=1), probabilities.shape[1] - 1).astype(np.int64)
    return codes
