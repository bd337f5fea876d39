"""What a campaign knows: every answer so far, posteriors of tasks and matrices of workers, moved label by label."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from manyhands._base.estimator import Array
from manyhands.categorical.table import Annotations
from manyhands.collect.gains import information
from manyhands.errors import ConvergenceWarning, IdentifiabilityWarning

#: Pseudo-answers of the prior: correct ones and wrong ones of each kind, for each class.
_RIGHT, _WRONG = 2.0, 1.0
#: Pseudo-answers of the crowd's average worker that each worker starts with.
_LIKE_THE_CROWD = 4.0
#: Number of labels before the first fit, and the growth of the log between fits.
_FIRST_FIT, _GROWTH = 50, 0.15
#: No probability is kept below this.
_FLOOR = 1e-30


class State:
    """Posteriors, (n_tasks, n_classes), and matrices, (n_workers, n_classes, n_classes), after every answer so far.

    Two ways to move. Stepwise EM: an answer moves its worker's average by (answers + 1) to the power of -0.6, with the
    posterior of its task, and later answers to the task revise what earlier ones contributed. Or fits of a model to all
    answers, whenever their number has grown by 15 %; in between, only the posterior of the answered task moves.
    """

    #: Arrays by which a state is known, and their shapes in sizes n of tasks, m of workers, k of classes, v of answers.
    ARRAYS: ClassVar[Mapping[str, str]] = {
        "posterior": "nk", "prior": "k", "confusion": "mkk", "strength": "mk", "average": "mkk", "squares": "m",
        "decay": "m", "total": "kk", "class_counts": "k", "weights": "v", "settings": "2",
    }  # fmt: skip

    def __init__(self, n_tasks: int, n_workers: int, n_classes: int, model: Any, kappa: float) -> None:
        self.model, self.kappa = model, kappa
        k = n_classes
        self.prior = np.full(k, 1 / k)
        self.posterior = np.tile(self.prior, (n_tasks, 1))
        self.total = np.full((k, k), _WRONG) + (_RIGHT - _WRONG) * np.eye(k)
        self.class_counts = np.ones(k)
        self.confusion, self.strength = np.zeros((0, k, k)), np.zeros((0, k))
        self.average, self.squares, self.decay = np.zeros((0, k, k)), np.zeros(0), np.zeros(0)
        self.tasks: list[int] = []
        self.workers: list[int] = []
        self.labels: list[int] = []
        self.weights: list[float] = []
        self.of_task: dict[int, list[int]] = {}
        self.n_of_worker: list[int] = []
        #: Labels at which the next fit is due, and how far the last one discounts confidences.
        self.settings = np.array([_FIRST_FIT, 0.0])
        self.skill = np.zeros(0)
        self.meet(n_workers)

    # ------------------------------------------------------------------------------------------------- workers

    def meet(self, n: int) -> None:
        """Add a number of workers without answers."""
        if not n:
            return
        k = len(self.prior)
        crowd = self.total / self.total.sum(axis=1, keepdims=True)
        self.confusion = np.concatenate([self.confusion, np.tile(crowd, (n, 1, 1))])
        self.strength = np.concatenate([self.strength, np.full((n, k), _LIKE_THE_CROWD)])
        self.average = np.concatenate([self.average, np.zeros((n, k, k))])
        self.squares, self.decay = (np.concatenate([x, np.zeros(n)]) for x in (self.squares, self.decay))
        self.n_of_worker.extend([0] * n)
        self.skill = information(self.confusion, self.prior)

    def crowd(self) -> Array:
        """Confusion matrix of an unknown worker."""
        answers = np.array(self.n_of_worker, np.float64)
        if not answers.any():
            crowd: Array = self.total / self.total.sum(axis=1, keepdims=True)
            return crowd
        return np.asarray(np.average(self.confusion, axis=0, weights=answers))

    def share(self, task: int) -> float:
        """How much of one more label on a task is new."""
        return 1.0 / (1.0 + float(self.settings[1]) * len(self.of_task.get(task, ())))

    # ------------------------------------------------------------------------------------------------- answers

    def tell(self, task: int, worker: int, label: int) -> None:
        """Take in an answer."""
        if self.model is None:
            self._step(task, worker, label)
        else:
            row, likelihood = self.posterior[task], self.confusion[worker, :, label]
            share = self.share(task)
            self._believe(task, row * (share * likelihood + (1 - share) * float(row @ likelihood)))
        self.of_task.setdefault(task, []).append(len(self.tasks))
        self.tasks.append(task)
        self.workers.append(worker)
        self.labels.append(label)
        self.n_of_worker[worker] += 1
        if self.model is None:
            self._refresh(worker)
        else:
            self.weights.append(1.0)

    def due(self) -> bool:
        """Whether the log has grown enough for a fit."""
        return self.model is not None and len(self.tasks) >= self.settings[0]

    def _believe(self, task: int, scores: Array) -> Array:
        """Set a posterior in proportion to scores; returns what it was."""
        old: Array = self.posterior[task].copy()
        scores = np.maximum(scores, _FLOOR)
        self.posterior[task] = scores / scores.sum()
        return old

    def _step(self, task: int, worker: int, label: int) -> None:
        """Move posterior and counts by an answer."""
        before = self.of_task.get(task, [])
        logs = np.log(np.maximum(self.prior, _FLOOR)) + np.log(np.maximum(self.confusion[worker, :, label], _FLOOR))
        for at in before:
            logs = logs + np.log(np.maximum(self.confusion[self.workers[at], :, self.labels[at]], _FLOOR))
        old = self._believe(task, np.exp(logs - logs.max()))
        new = self.posterior[task]
        change = new - old if before else new
        self.class_counts += change
        self.prior = self.class_counts / self.class_counts.sum()
        for at in before:
            who, labels = self.workers[at], self.labels[at]
            self.average[who][:, labels] += self.weights[at] * np.exp(self.decay[who]) * change
            self.total[:, labels] += change
        step = (self.n_of_worker[worker] + 1.0) ** -self.kappa
        # The first answer is all there is, and fades from then on.
        fades = 0.0 if step == 1.0 else np.log1p(-step)
        self.decay[worker] += fades
        self.average[worker] *= 1.0 - step
        self.average[worker][:, label] += step * new
        self.squares[worker] = (1 - step) ** 2 * self.squares[worker] + step**2
        self.weights.append(float(step * np.exp(-self.decay[worker])))
        self.total[:, label] += new
        for at in before:
            self._refresh(self.workers[at])

    def _refresh(self, worker: int) -> None:
        """A worker's matrix from the decayed counts of answers, and a few pseudo-answers of the crowd."""
        crowd = self.total / self.total.sum(axis=1, keepdims=True)
        worth = 1.0 / self.squares[worker] if self.squares[worker] > 0 else 0.0
        counts = worth * np.maximum(self.average[worker], 0.0) + _LIKE_THE_CROWD * crowd
        self.strength[worker] = counts.sum(axis=1)
        self.confusion[worker] = counts / self.strength[worker][:, None]
        self.skill[worker] = information(self.confusion[worker : worker + 1], self.prior)[0]

    # ----------------------------------------------------------------------------------------------------- fits

    def votes(self) -> Annotations:
        """All answers, by codes."""
        k = len(self.prior)
        return Annotations.from_codes(
            self.tasks,
            self.workers,
            self.labels,
            n_tasks=len(self.posterior),
            n_workers=len(self.confusion),
            n_classes=k,
        )

    def refit(self) -> None:
        """Fit the model to all answers, and believe it."""
        if self.model is None or not self.tasks:
            return
        with warnings.catch_warnings():
            # A log that is being collected is thin, and a fit that is not final is followed by another.
            warnings.simplefilter("ignore", IdentifiabilityWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model.fit(self.votes())
        answered = np.fromiter(self.of_task, np.int64, len(self.of_task))
        self.prior = self.model.prior_
        self.posterior[:] = self.prior
        self.posterior[answered] = self.model.posterior_[answered]
        self.confusion = self.model.confusion_.copy()
        self.strength = 1.0 + np.array(self.n_of_worker)[:, None] * self.prior
        self.skill = information(self.confusion, self.prior)
        n = len(self.tasks)
        self.settings = np.array([max(_FIRST_FIT, n + max(1, int(_GROWTH * n))), getattr(self.model, "discount_", 0.0)])
