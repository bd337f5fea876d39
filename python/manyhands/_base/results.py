"""Frames, explanations and reports that every fitted estimator has, whatever its kind of answer."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow
from manyhands._base.explanation import AnswerExplanation, Explained
from manyhands._base.items import codes_of
from manyhands._base.names import Names

if TYPE_CHECKING:
    import pyarrow as pa

Array = npt.NDArray[np.float64]
Columns = dict[str, Any]


class Results:
    """What can be asked of a fit of any kind; an estimator derives from it and overrides the hooks of its kind."""

    #: What results are about, workers among it: the names of each are kept in an attribute, "tasks" in `_tasks`.
    _parts: ClassVar[tuple[str, ...]] = ("workers",)
    #: Whether :meth:`to_frame` has several rows per task: tokens of a sequence, boxes of an image.
    _several_rows: ClassVar[bool] = False
    #: Whether nothing is learned from the answers, so that new tasks are predicted by a fit of their own.
    _predicts_by_fit: ClassVar[bool] = False

    if TYPE_CHECKING:

        def _fitted(self) -> Any: ...
        def _as_table(self, answers: Any) -> Any: ...
        def fit(self, votes: Any) -> Self: ...
        def get_params(self) -> dict[str, Any]: ...
        @property
        def answers_(self) -> Any: ...
        @property
        def confidence_(self) -> Array: ...

    def to_frame(self) -> pa.Table:
        """Return the answers as an Arrow table: task or item, answer, ``confidence``, then the rest."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------ frames

    def workers_frame(self) -> pa.Table:
        """Return one row per worker, as an Arrow table.

        Columns: ``worker``; ``n_answers``; ``skill``, larger is better; ``skill_error``, its standard error; then what
        else the method estimates. Both are NaN where the method has no estimate. Skill is, by kind of answer:

        - categorical and ordinal: expected share of correct answers;
        - multilabel: F1 of the worker's labels for a vote, else the mean of recall and specificity;
        - numeric: expected correlation of the worker's ratings with the values;
        - pairwise: slope (1 for the average worker, 0 for guesses), or reliability for
          :class:`~manyhands.pairwise.CrowdBT`;
        - clustering: the mean of recall and specificity, 0.5 for guesses;
        - sequences: F1 of the worker's spans;
        - texts: share of correct words for :class:`~manyhands.texts.ROVER`, else the worker's weight;
        - masks: share of correct disputed pixels, or the probability that a mask is of the object;
        - boxes: recall, the share of objects that the worker draws;
        - objects: the worker's weight.
        """
        self._fitted()
        now = copy(self)
        return frame_of_workers(now._held("workers"), now._held("n_labels"), now._skills())

    def _skills(self) -> Columns:
        """``skill``, ``skill_error`` and further columns of :meth:`workers_frame`, as far as they are known."""
        return {}

    def tasks_frame(self) -> pa.Table:
        """Return one row per task, as an Arrow table: what to look at first, sorted by ``confidence``.

        The columns of :meth:`to_frame`; ``n_answers``, the number of answers to the task (null for a model that was
        loaded from a file); then what else the method knows. Items and sequences stand in the place of tasks where
        these are what answers are about.
        """
        self._fitted()
        now = copy(self)
        answers = now._one_row_each()
        columns = {name: answers.column(name) for name in answers.column_names}
        return arrow.table(columns | {"n_answers": now._answers_each()} | now._more_of_tasks())

    def _one_row_each(self) -> pa.Table:
        """Answers with one row per task or item, in their order."""
        return self.to_frame()

    def _more_of_tasks(self) -> Columns:
        """Further columns of :meth:`tasks_frame`."""
        return {}

    def _answers_each(self) -> Any:
        """Number of answers to each task; null where the table of the fit is not at hand."""
        import pyarrow as pa

        votes = self._held("votes")
        return pa.nulls(len(self._about), pa.int64()) if votes is None else self._count_answers(votes)

    def _count_answers(self, votes: Any) -> npt.NDArray[np.int64]:
        """Number of a table's answers to each task."""
        counts: npt.NDArray[np.int64] = votes.labels_per_task
        return counts

    @property
    def _about(self) -> Names:
        """Names of what answers are about: tasks, or items."""
        names: Names = self._held(self._parts[0])
        return names

    def _held(self, name: str) -> Any:
        """Names, counts or the table of the fit; None where a loaded model has no table."""
        return getattr(self._fitted(), name)

    # ------------------------------------------------------------------------------------------- explanation

    def explain(self, task: Any, votes: Any = None) -> Explained:
        """Explain an answer: which workers gave which answers, how skilled they are, and what decided.

        Parameters
        ----------
        task
            Name of a task; of an item, where answers are about items.
        votes
            The answers, for a model that was loaded from a file; by default those of the fit.
        """
        self._fitted()
        now = copy(self)
        what = now._parts[0].removesuffix("s")
        place = int(codes_of(now._about, [task], what)[0])
        table = now._table_of(votes, "explain(task, votes)")
        rows = now._rows_about(table, task)
        by = now._held("workers").find(rows.column("worker").to_pylist())
        workers = now.workers_frame()
        names = ["worker", *(name for name in rows.column_names if name != "worker")]
        evidence: Columns = {name: rows.column(name) for name in names} | now._compared(rows, place)
        for name in ("skill", "n_answers"):
            values = workers.column(name).to_numpy().astype(float)
            evidence[name] = np.where(by >= 0, values[by], np.nan)
        spellings = now._about.shown
        return AnswerExplanation(
            task=task,
            answer=now._answer_at(place),
            confidence=float(now.confidence_[place]),
            given=arrow.table(evidence),
            method=repr(type(now)(**self.get_params())),
            decision=inspect.cleandoc(type(now).__doc__ or "").partition("\n")[0],
            shown=None if spellings is None else spellings[place].as_py(),
        )

    def _table_of(self, votes: Any, call: str) -> Any:
        """The table of the fit, or one that was passed."""
        if votes is not None:
            return self._as_table(votes)
        table = self._held("votes")
        if table is None:
            raise ValueError(f"a model that was loaded from a file does not keep the answers; pass votes=: {call}")
        return table

    def _rows_about(self, table: Any, task: Any) -> pa.Table:
        """The answers to a task: worker, the answer, and weight if there are weights."""
        frame = table.select(tasks=[task]).to_frame()
        return frame.drop_columns([frame.column_names[0]])

    def _compared(self, rows: pa.Table, place: int) -> Columns:
        """How the answers to a task compare with the one that was decided: ``agreement``, from 0 to 1."""
        return {}

    def _answer_at(self, place: int) -> Any:
        """The answer to a task as plain values: what :meth:`to_frame` has between its name and ``confidence``."""
        import pyarrow.compute as pc

        frame = self.to_frame()
        rows = frame.filter(pc.equal(frame.column(0), self._about.arrow()[place]))
        names = frame.column_names[1 : frame.column_names.index("confidence")]
        names = [name for name in names if name != "position"]
        answers = rows.select(names).to_pylist()
        plain = [row[names[0]] for row in answers] if len(names) == 1 else answers
        return plain if self._several_rows else plain[0]

    # ------------------------------------------------------------------------------------ prediction, report

    def predict(self, *votes: Any, **named: Any) -> Any:
        """Return answers to other tasks, with the workers as they were learned, where the model allows it."""
        self._fitted()
        now = copy(self)
        name = type(self).__name__
        if not now._predicts_by_fit:
            raise NotImplementedError(
                f"{name} cannot predict: it estimates workers and answers together, and only for the tasks of the fit; "
                "fit the new answers together with the old ones"
            )
        return type(self)(**now.get_params()).fit(*votes, **named).answers_

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        votes: Any = None,
        gold: tuple[Any, Any] | None = None,
        scores: Mapping[str, Any] | None = None,
        audit: bool = True,
        title: str | None = None,
        source: str | Sequence[str] = (),
        notes: Sequence[str] = (),
    ) -> list[Path]:
        """Write an HTML page about the log and this fit that opens in any browser, offline.

        Use it to hand results to people who do not program: a verdict, agreement, the answers to review first, every
        worker, and the limits of the method; for classes also an audit and confusion matrices. Tables can be sorted,
        searched and downloaded. Needs the extra ``report``.

        Parameters
        ----------
        path : str or path
            File to write; its name must end in ``.html``. Tables of more than 500 answers or 2,000 workers are written
            in full to CSV files next to it.
        votes : table, optional
            The answers; needed if the model was loaded from a file.
        gold : pair of arrays, optional
            Tasks whose class is known and their classes, to measure accuracy and calibration; for classes only.
        scores : mapping, optional
            Measures of the answers by name, for other kinds than classes.
        audit : bool, default True
            Whether to search for spammers, copies, colluders and groups; for classes only.
        title : str, optional
            Title of the page; by default the size of the log.
        source : str or list of str, optional
            Names of the input files, which the page states.
        notes : list of str, optional
            Sentences for the list of warnings, such as how many rows were set aside when the log was read.

        Returns
        -------
        list of Path
            The files that were written, the page first.

        Notes
        -----
        Cost: an audit for classes of up to two million annotations, and O(n_tasks · n_classes).
        """
        # Imported here, since the report package imports estimators.
        from manyhands.report import write_report

        self._fitted()
        return write_report(
            copy(self),
            path,
            votes=votes,
            gold=gold,
            scores=scores,
            audit=audit,
            title=title,
            source=source,
            notes=notes,
        )


def frame_of_workers(workers: Names, n_answers: Any, more: Columns) -> pa.Table:
    """One row per worker: the columns that workers of all kinds have, then what else is known of them."""
    blank = np.full(len(workers), np.nan)
    columns = {"worker": workers.arrow(), "n_answers": n_answers, "skill": blank, "skill_error": blank}
    return arrow.table(columns | more)


def reliability(values: Array, errors: Array) -> Array:
    """Share of the variance of estimates that is not error: V / (V + error²), with V the variance of the values.

    1 where an error is 0, NaN where it is unknown.
    """
    largest = float(np.abs(values).max(initial=0.0))
    spread = float(np.std(values / largest)) * largest if largest else 0.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio: Array = 1.0 / (1.0 + (errors / spread) ** 2)
    return np.where(errors == 0, 1.0, ratio)
