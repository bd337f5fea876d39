"""What people ask of a fit: which tasks to look at, why an answer is what it is, how a worker errs."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow
from manyhands._base.estimator import Array
from manyhands._base.names import Column, Names
from manyhands._base.results import Results
from manyhands.categorical._confusion import KnowsConfusion
from manyhands.categorical._explanation import LEAST, Explanation, Vote, divide_log_odds, face_value
from manyhands.categorical._posterior import Winners
from manyhands.categorical.table import as_annotations

if TYPE_CHECKING:
    import pyarrow as pa

#: Tasks whose posteriors are looked at in one go, so that no N × K array is needed.
_AT_ONCE = 1 << 16


class Insight(KnowsConfusion, Results):
    """Frames and explanations of a fit of classes."""

    _tasks: Names

    @property
    @abstractmethod
    def _won(self) -> Winners:
        """The answer to each task."""

    @abstractmethod
    def _frame(self, tasks: Names, won: Winners) -> pa.Table:
        """Answers as an Arrow table."""

    @abstractmethod
    def _rows_of_tasks(self, tasks: npt.NDArray[np.int64]) -> Array:
        """Class posteriors of some tasks, by their codes."""

    def _averaged(self) -> list[tuple[float, Array, Array]]:
        """Weight, prior and confusion matrices of the models that were averaged: itself, if it is one."""
        return [(1.0, self.prior_, self.confusion_)]

    # ------------------------------------------------------------------------------------------------ frames

    def tasks_frame(self) -> pa.Table:
        """Return one row per task, as an Arrow table: what to look at first, sorted by ``confidence`` or ``margin``.

        ``label``, ``confidence`` and ``tied`` as in ``to_frame``; ``n_answers``, the number of answers to the task
        (null for a model that was loaded from a file); ``runner_up``, the most probable of the other classes (null
        where there is one class only); ``margin``, by how much it is less probable than the answer, which may be less
        than 0 where answers are not decided by probability alone; ``entropy`` of the posterior in bits. The default
        adds ``disagreement`` between its models. Time O(n_tasks · n_classes), memory O(n_tasks).

        Examples
        --------
        >>> import manyhands as mh
        >>> votes = {"task": ["a", "a", "a", "b", "b"], "worker": [1, 2, 3, 1, 2], "label": ["x", "x", "y", "y", "y"]}
        >>> mh.MajorityVote().fit(votes).tasks_frame().column("margin").to_pylist()
        [0.3333333333333333, 1.0]
        """
        return super().tasks_frame()

    def _one_row_each(self) -> pa.Table:
        return self._frame(self._tasks, self._won)

    def _more_of_tasks(self) -> dict[str, Any]:
        n, won = len(self._tasks), self._won
        spans = (np.arange(start, min(start + _AT_ONCE, n)) for start in range(0, n, _AT_ONCE))
        parts = [_margins(self._rows_of_tasks(span), won.codes[span].astype(np.int64)) for span in spans]
        second, margin, entropy = (np.concatenate(part) for part in zip(*parts, strict=True))
        return {
            "runner_up": [None] * n if len(self._classes) < 2 else self._classes.take(second).arrow(),
            "margin": margin,
            "entropy": entropy,
        }

    def confusion_frame(self, worker: Any) -> pa.Table:
        """Return the confusion matrix of a worker by name, as an Arrow table: class, label, probability."""
        self._fitted()
        now = copy(self)
        code = _code(now._workers, worker, "worker")
        matrix = now.confusion_[code]
        k, n_labels = matrix.shape
        return arrow.table(
            {
                "class": now._classes.take(np.repeat(np.arange(k), n_labels)).arrow(),
                "label": now._labels.take(np.tile(np.arange(n_labels), k)).arrow(),
                "probability": matrix.ravel(),
            }
        )

    # ------------------------------------------------------------------------------------------- explanation

    def explain(self, task: Any, votes: Any = None) -> Explanation:
        """Return why a task got its answer: every vote with the weight of evidence it carried.

        Weights of evidence are log-odds of the answer against the runner-up and add up to those of the posterior. For
        the default, which averages models and discounts confidences, a vote's evidence is the average over
        members of what it adds in each, times the share of its face value that the discount leaves.

        Parameters
        ----------
        task
            Its name.
        votes
            The annotations, for a model that was loaded from a file; by default those of the fit.

        Examples
        --------
        >>> import manyhands as mh
        >>> crowd = mh.simulate(200, 10, 3, labels_per_task=5, seed=1)
        >>> why = mh.DawidSkene().fit(crowd.log).explain(crowd.log.tasks[0])
        >>> bool(abs(why.log_odds - why.prior - sum(vote.evidence for vote in why.votes)) < 1e-9)
        True
        """
        self._fitted()
        now = copy(self)
        place = _code(now._tasks, task, "task")
        posterior = now._rows_of_tasks(np.array([place]))[0]
        workers, labels, weights, names = now._votes_on(task, votes)
        parts = [
            (weight, *face_value(prior, confusion, workers, labels, weights))
            for weight, prior, confusion in now._averaged()
        ]
        prior = sum(weight * of_prior for weight, of_prior, _ in parts)
        terms = sum(weight * of_votes for weight, _, of_votes in parts)
        first = int(now._won.codes[place])
        second, of_prior, of_votes, share, rest = divide_log_odds(
            posterior, first, np.asarray(prior), np.asarray(terms)
        )
        worth = now._worker_measures()
        votes_listed = tuple(
            Vote(
                now._workers.values[[w]].tolist()[0],
                names.values[[label]].tolist()[0],
                float(worth.skill[w]),
                int(now._n_labels[w]),
                float(evidence),
            )
            for w, label, evidence in zip(workers, labels, of_votes, strict=True)
        )
        classes = now._classes.values
        return Explanation(
            task=task,
            answer=classes[[first]].tolist()[0],
            confidence=float(posterior[first]),
            runner_up=None if second is None else classes[[second]].tolist()[0],
            runner_up_confidence=0.0 if second is None else float(posterior[second]),
            votes=votes_listed,
            prior=of_prior,
            share=share,
            rest=rest,
            one_more=None if second is None else now._one_more(posterior, second, worth.skill),
            shown=None if now._tasks.shown is None else now._tasks.shown[place].as_py(),
        )

    def _votes_on(self, task: Any, votes: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Array, Names]:
        """Workers, labels and weights of a task's votes by this model's codes, and the names of labels."""
        answers = None if votes is None else as_annotations(votes, abstentions=True)
        table = self._table_of(answers, "explain(task, votes)")
        place = _code(table._tasks, task, "task")
        part = table.select(tasks=[task]) if table.labels_per_task[place] else None
        abstaining = len(self._labels) > len(self._classes)
        if part is None or (not abstaining and (part.codes()[2] >= part.n_classes).all()):
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), self._labels  # all abstained
        workers = self._workers.match(part._workers)
        recoded = self._recode(part if abstaining else part.without_abstentions())
        _, by, labels = recoded.columns()
        is_labeled = workers[by] >= 0
        weights = recoded.weights()
        weights = np.ones(len(by)) if weights is None else weights
        return workers[by][is_labeled], labels[is_labeled].astype(np.int64), weights[is_labeled], self._labels

    def _one_more(self, posterior: Array, runner_up: int, accuracy: Array) -> tuple[Any, Any, float]:
        """What the answer would be if a good worker with many answers contradicted."""
        many = self._n_labels >= np.median(self._n_labels)
        best = int(np.argmax(np.where(many, accuracy, -1.0)))
        _, terms = face_value(self.prior_, self.confusion_, np.array([best]), np.array([runner_up]), np.ones(1))
        scores = np.log(np.maximum(posterior, LEAST)) + terms[0]
        after = np.exp(scores - scores.max())
        after /= after.sum()
        winner = int(np.argmax(after))
        return (
            self._workers.values[[best]].tolist()[0],
            self._classes.values[[winner]].tolist()[0],
            float(after[winner]),
        )


def _margins(rows: Array, answers: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], Array, Array]:
    """Runner-up, margin and entropy in bits of posteriors next to the answers; the lowest code wins a tie."""
    each = np.arange(len(rows))
    others = rows.copy()
    others[each, answers] = -1.0
    second = others.argmax(axis=1)
    margin = rows[each, answers] - np.maximum(others[each, second], 0.0)
    logs = np.log2(np.where(rows > 0, rows, 1.0))
    return second, margin, -(rows * logs).sum(axis=1)


def _code(names: Names, wanted: Any, what: str) -> int:
    """The code of a name."""
    code = int(names.match(Column([wanted], what).names())[0])
    if code < 0:
        raise KeyError(f"no {what} is called {wanted!r}")
    return code
