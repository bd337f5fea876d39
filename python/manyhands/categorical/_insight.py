"""What people ask of a fit: which tasks to look at, why an answer is what it is, how a worker errs."""

from __future__ import annotations

import os
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow
from manyhands._base.estimator import Array
from manyhands._base.names import Column, Names
from manyhands.categorical._confusion import KnowsConfusion
from manyhands.categorical._explanation import LEAST, Explanation, Vote, divided, face_value
from manyhands.categorical._posterior import Winners
from manyhands.categorical.table import Annotations, as_annotations

if TYPE_CHECKING:
    import pyarrow as pa

#: Tasks whose posteriors are looked at in one go, so that no N × K array is needed.
_AT_ONCE = 1 << 16


class Insight(KnowsConfusion):
    """Frames and explanations of a fit of classes."""

    _tasks: Names
    #: The table of the fit, as long as the model stays in memory; files do not keep it.
    _votes: Annotations | None = None

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

    def _more_of_tasks(self) -> dict[str, Any]:
        """Further columns of `tasks_frame`."""
        return {}

    # ------------------------------------------------------------------------------------------------ frames

    def tasks_frame(self) -> pa.Table:
        """Return one row a task, as an Arrow table: what to look at first.

        ``label``, ``confidence`` and ``tied`` as in ``to_frame``; ``runner_up``, the most probable of the other classes
        (null where there is one class only); ``margin``, by how much it is less probable than the answer, which may be
        less than 0 where answers are not decided by probability alone; ``entropy`` of the posterior in bits;
        ``n_labels``, the answers that it rests on, where the fit was made in this process. The default adds
        ``disagreement`` between its members. Time O(n_tasks · n_classes), memory O(n_tasks).

        Examples
        --------
        >>> import manyhands as mh
        >>> votes = {"task": ["a", "a", "a", "b", "b"], "worker": [1, 2, 3, 1, 2], "label": ["x", "x", "y", "y", "y"]}
        >>> mh.MajorityVote().fit(votes).tasks_frame().column("margin").to_pylist()
        [0.3333333333333333, 1.0]
        """
        self._fitted()
        now = self._snapshot()
        n, won = len(now._tasks), now._won
        spans = (np.arange(start, min(start + _AT_ONCE, n)) for start in range(0, n, _AT_ONCE))
        parts = [_beside(now._rows_of_tasks(span), won.codes[span].astype(np.int64)) for span in spans]
        second, margin, entropy = (np.concatenate(part) for part in zip(*parts, strict=True))
        answers = now._frame(now._tasks, won)
        columns: dict[str, Any] = {name: answers.column(name) for name in answers.column_names} | {
            "runner_up": [None] * n if len(now._classes) < 2 else now._classes.take(second).arrow(),
            "margin": margin,
            "entropy": entropy,
        }
        if now._votes is not None:
            columns["n_labels"] = now._votes.labels_per_task
        return arrow.table(columns | now._more_of_tasks())

    def confusion_frame(self, worker: Any) -> pa.Table:
        """Return the confusion matrix of a worker by name, as an Arrow table: class, label, probability."""
        self._fitted()
        now = self._snapshot()
        code = _code(now._workers, worker, "worker")
        matrix = now.confusion_[code]
        k, said = matrix.shape
        return arrow.table(
            {
                "class": now._classes.take(np.repeat(np.arange(k), said)).arrow(),
                "label": now._labels.take(np.tile(np.arange(said), k)).arrow(),
                "probability": matrix.ravel(),
            }
        )

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        votes: Any = None,
        gold: tuple[Any, Any] | None = None,
        audit: bool = True,
        title: str | None = None,
    ) -> list[Path]:
        """Write a page about the log and this fit that opens in any browser, offline.

        What the log holds, how far the crowd agrees, tasks to look at first with their votes, every worker with a
        confusion matrix, what an audit finds, and what is doubtful. Tables are sorted, searched and downloaded in the
        page; those of more than 500 tasks or 2,000 workers are written whole to CSV files beside it. Needs
        ``pip install "manyhands[report]"``. Cost: an audit, up to two million annotations, and O(n_tasks · n_classes).

        Parameters
        ----------
        path
            The page, which ends in ``.html``.
        votes
            The annotations, for a model that was loaded from a file.
        gold
            Tasks whose class is known, and their classes, to measure by.
        audit
            Whether to look for spammers, copies, colluders and groups.
        title
            What the page is called.

        Returns
        -------
        list of Path
            The files that were written, the page first.
        """
        # Reports stand above all that they tell of.
        from manyhands.report import write_report

        self._fitted()
        return write_report(self._snapshot(), path, votes=votes, gold=gold, audit=audit, title=title)

    # ------------------------------------------------------------------------------------------- explanation

    def explain(self, task: Any, votes: Any = None) -> Explanation:
        """Say why a task got its answer: every vote with the weight of evidence it carried.

        Weights of evidence are log-odds of the answer against the runner-up and add up to those of the posterior. For
        the default, which averages three models and discounts confidences, a vote's evidence is the average over
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
        now = self._snapshot()
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
        second, of_prior, of_votes, share, rest = divided(posterior, first, np.asarray(prior), np.asarray(terms))
        worth = now._errors().worth(now.prior_, now._n_labels)
        known = tuple(
            Vote(
                now._workers.values[[w]].tolist()[0],
                names.values[[label]].tolist()[0],
                float(worth.accuracy[w]),
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
            votes=known,
            prior=of_prior,
            share=share,
            rest=rest,
            one_more=None if second is None else now._one_more(posterior, second, worth.accuracy),
            shown=None if now._tasks.shown is None else now._tasks.shown[place].as_py(),
        )

    def _votes_on(self, task: Any, votes: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Array, Names]:
        """Workers, labels and weights of a task's votes by this model's codes, and the names of labels."""
        table = self._votes if votes is None else as_annotations(votes, abstentions=True)
        if table is None:
            raise ValueError(
                "a model that was loaded from a file does not know the votes; give them: explain(task, votes)"
            )
        place = _code(table._tasks, task, "task")
        part = table.select(tasks=[task]) if table.labels_per_task[place] else None
        abstaining = len(self._labels) > len(self._classes)
        if part is None or (not abstaining and (part.codes()[2] >= part.n_classes).all()):
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), self._labels  # all abstained
        workers = self._workers.match(part._workers)
        recoded = self._recode(part if abstaining else part.without_abstentions())
        _, by, labels = recoded.columns()
        known = workers[by] >= 0
        weights = recoded.weights()
        weights = np.ones(len(by)) if weights is None else weights
        return workers[by][known], labels[known].astype(np.int64), weights[known], self._labels

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


def _beside(rows: Array, answers: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], Array, Array]:
    """Runner-up, margin and entropy in bits of posteriors beside the answers; the lowest code wins a tie."""
    each = np.arange(len(rows))
    others = rows.copy()
    others[each, answers] = -1.0
    second = others.argmax(axis=1)
    margin = rows[each, answers] - np.maximum(others[each, second], 0.0)
    logs = np.log2(np.where(rows > 0, rows, 1.0))
    return second, margin, -(rows * logs).sum(axis=1)


def _code(names: Names, wanted: Any, what: str) -> int:
    """The code of a name."""
    found = int(names.match(Column([wanted], what).names())[0])
    if found < 0:
        raise KeyError(f"no {what} is called {wanted!r}")
    return found
