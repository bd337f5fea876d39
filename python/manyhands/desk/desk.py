"""A desk: tasks handed out one by one, decisions kept in a journal, and what they say about the answers."""

from __future__ import annotations

import hashlib
import math
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from manyhands._base import arrow
from manyhands.desk.accuracy import OPEN, RIGHT, SKIPPED, WRONG, Accuracy, accuracy, effective_annotators
from manyhands.desk.journal import Journal
from manyhands.desk.questions import question_of
from manyhands.desk.sampling import Pick, Queue

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ConflictError", "Desk"]

#: Characters of a note and of a name.
LONGEST_NOTE, LONGEST_NAME = 10_000, 200


class ConflictError(ValueError):
    """The task was decided by another person, or there is nothing to undo."""


class Desk:
    """Tasks for adjudicators, the most doubtful first, with a random sample that measures accuracy.

    Parameters
    ----------
    model : estimator
        A fitted model of classes, ordered classes, label sets, numbers, comparisons, spans, texts, boxes or masks.
    folder : path
        Folder of the journal. Decisions that it has are taken up.
    choose : {"information", "audit", "stratified"}, default "information"
        Which task comes next. ``"information"``: the least confident answers first, and a share `audit` of random ones.
        ``"audit"``: a random sample, which measures accuracy only. ``"stratified"``: a random sample that draws more
        from doubtful answers, with known probabilities.
    audit : float, default 0.25
        Share of random tasks for ``"information"``. Without them there is no estimate of accuracy.
    seed : int, default 0
        Seed of the sample.
    within : float, optional
        Numbers: the largest difference at which the aggregated number counts as right.
    votes : table, optional
        The answers, for a model that was loaded from a file.
    read_only : bool, default False
        Read the decisions only, also while another process adds to them.
    clock : callable, optional
        Seconds that pass, for reservations of tasks.

    Notes
    -----
    Cost: O(n_tasks log n_tasks) at the start; a step is O(annotations of the task + tasks of the sample). All methods
    may be called from several threads. There is no fit after the start: for a valid interval, the order of tasks must
    not depend on decisions.

    Examples
    --------
    >>> import tempfile
    >>> import manyhands as mh
    >>> from manyhands.desk import Desk
    >>> model = mh.aggregate(mh.simulate(100, 10, 3, seed=1).log)
    >>> with tempfile.TemporaryDirectory() as folder, Desk(model, folder) as desk:
    ...     task = desk.next("window 1")["task"]
    ...     _ = desk.adjudicate(task, 2, by="ann", client="window 1")
    ...     desk.gold().num_rows
    1
    """

    def __init__(
        self,
        model: Any,
        folder: str | os.PathLike[str],
        *,
        choose: str = "information",
        audit: float = 0.25,
        seed: int = 0,
        within: float | None = None,
        votes: Any = None,
        read_only: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        table = model._table_of(votes, "Desk(model, folder, votes=votes)")
        self.model = model
        self.question = question_of(model, table, within)
        if not len(self.question):
            raise ValueError("the log has no tasks to decide")
        self.queue = Queue(self.question.confidence, choose, audit, seed, clock)
        header = {
            "log": _fingerprint(table),
            "kind": table.kind,
            "tasks": len(self.question),
            "method": repr(type(model)(**model.get_params())) if _plain_settings(model) else type(model).__name__,
            "choose": choose,
            "audit": audit,
            "seed": seed,
        }
        self._mutex = threading.RLock()
        self._states = np.full(len(self.question), OPEN, np.int8)
        #: The latest record on each decided row; decisions and skips that can be undone, oldest first.
        self._decided: dict[int, dict[str, Any]] = {}
        self._stack: list[dict[str, Any]] = []
        self._votes: dict[int, tuple[int, int]] = {}
        self.journal = Journal(folder, header, read_only=read_only)
        try:
            for record in self.journal.records:
                self._apply(record)
            if self.journal.records:
                last = self.journal.records[-1]
                self.queue.restore(last["step"], last["drawn"], last["passed"])
        except BaseException:
            self.journal.close()
            raise

    # --------------------------------------------------------------------------------------------------- work

    def next(self, client: str) -> dict[str, Any] | None:
        """Return the next task for a window and reserve it; None if none is left.

        The aggregated answer, the votes and the confidence are not part of it.
        """
        with self._mutex:
            pick = self.queue.next(client)
            return None if pick is None else self._asked(pick)

    def adjudicate(
        self, task: Any, answer: Any, *, by: str = "", client: str = "", note: str = "", why: str | None = None
    ) -> dict[str, Any]:
        """Record the decision on a task, and return it with the votes on the task.

        Raises
        ------
        KeyError
            If the log has no such task.
        ValueError
            If the answer is not one of the kind's.
        ConflictError
            If the task was decided already, or is reserved for another window.
        JournalError
            If the decision could not be written; it is not recorded then.
        """
        with self._mutex:
            row = self.question.row(task)
            stored = self.question.parse(row, answer)
            earlier = self._decided.get(row)
            if earlier is not None:
                if earlier["client"] == client and earlier["answer"] == stored:
                    return self._outcome(earlier, row)  # sent twice, since the reply was lost
                who = earlier["by"] or "another person"
                raise ConflictError(f"task {task!r} was decided by {who} at {earlier['at']}; take that back first")
            self._check_reserved(row, client)
            proposed = self.question.proposed(row)
            sure = float(self.question.confidence[row])
            record = self._append(
                {
                    "do": "decide",
                    "task": self.question.task(row),
                    "answer": stored,
                    "before": proposed,
                    "confidence": None if math.isnan(sure) else sure,
                    "why": why or self.queue.why(row),
                },
                by,
                client,
                note,
            )
            return self._outcome(record, row)

    def skip(self, task: Any, *, by: str = "", client: str = "", note: str = "") -> None:
        """Put a task at the end; until it is decided, estimates leave it out."""
        with self._mutex:
            row = self.question.row(task)
            if row in self._decided:
                raise ConflictError(f"task {task!r} is decided already")
            self._check_reserved(row, client)
            self._append({"do": "skip", "task": self.question.task(row), "why": self.queue.why(row)}, by, client, note)

    def undo(self, *, by: str = "", client: str = "") -> dict[str, Any]:
        """Take back the latest decision or skip of a window, else of a person; returns its task, reserved again."""
        with self._mutex:
            last = next((one for one in reversed(self._stack) if client and one["client"] == client), None)
            last = last or next((one for one in reversed(self._stack) if by and one["by"] == by), None)
            if last is None:
                raise ConflictError("there is nothing to undo")
            row = self.question.row(last["task"])
            self._append({"do": "undo", "task": last["task"], "of": last["n"], "why": last["why"]}, by, client, "")
            return self._asked(Pick(row, last["why"])) | {"undone": last.get("answer")}

    def release(self, client: str) -> None:
        """Let other windows have the task that is reserved for a window, which was closed."""
        with self._mutex:
            self.queue.release(client)

    def _check_reserved(self, row: int, client: str) -> None:
        holder = self.queue.holder(row)
        if holder is not None and holder != client:
            raise ConflictError(f"task {self.question.task(row)!r} is open in another window; take the next one")

    def _append(self, record: dict[str, Any], by: str, client: str, note: str) -> dict[str, Any]:
        if len(by) > LONGEST_NAME or len(client) > LONGEST_NAME or len(note) > LONGEST_NOTE:
            raise ValueError(f"by and client have at most {LONGEST_NAME} characters, and note {LONGEST_NOTE:,}")
        place = {"step": self.queue.step, "drawn": list(self.queue.drawn), "passed": self.queue.passed}
        entry = self.journal.append(record | {"by": by, "client": client, "note": note} | place)
        self._apply(entry)
        return entry

    def _apply(self, record: dict[str, Any]) -> None:
        """Change the state by a record."""
        row = self.question.row(record["task"])
        if record["do"] == "decide":
            if self._states[row] == SKIPPED:  # which cannot be undone any more
                self._stack = [one for one in self._stack if one["task"] != record["task"]]
            self._decided[row] = record
            self._states[row] = RIGHT if self.question.is_right(row, record["answer"]) else WRONG
            counts = self.question.wrong_votes(row, record["answer"])
            if counts is not None:
                self._votes[row] = counts
            self.queue.close(row)
            self._stack.append(record)
        elif record["do"] == "skip":
            self._states[row] = SKIPPED
            self.queue.skip(row)
            self._stack.append(record)
        else:
            self._stack = [one for one in self._stack if one["n"] != record["of"]]
            self._decided.pop(row, None)
            self._votes.pop(row, None)
            self._states[row] = OPEN
            self.queue.reopen(row, record["client"], record["why"])

    # ------------------------------------------------------------------------------------------------ results

    def _asked(self, pick: Pick) -> dict[str, Any]:
        """A task without anything that could lead the person who decides it."""
        row, question = pick.row, self.question
        content = question.content(row)
        return {"task": question.task(row), "row": row, "shown": question.shown(row), **content}

    def _outcome(self, record: dict[str, Any], row: int) -> dict[str, Any]:
        return {"decision": _public(record), **self.explain(record["task"])}

    def explain(self, task: Any) -> dict[str, Any]:
        """Return the aggregated answer to a task, its confidence, the votes, and the decision if there is one."""
        row = self.question.row(task)
        sure = float(self.question.confidence[row])
        with self._mutex:
            record = self._decided.get(row)
        return {
            "task": self.question.task(row),
            "shown": self.question.shown(row),
            "answer": self.question.proposed(row),
            "confidence": None if math.isnan(sure) else sure,
            "votes": self.question.given(row),
            "decided": None if record is None else _public(record),
        }

    def is_decided(self, task: Any) -> bool:
        """Whether a task has a decision."""
        return self.question.row(task) in self._decided

    def accuracy(self) -> Accuracy:
        """Estimate the accuracy of the aggregated answers, and after the decisions replaced them."""
        with self._mutex:
            queue = self.queue
            return accuracy(self._states, queue.permutations, queue.drawn, queue.order, queue.rank, queue.passed)

    def effective_annotators(self) -> float:
        """Estimate how many independent annotators a task has in effect, from the random sample; NaN if unknown."""
        with self._mutex:
            counts, weights = [], []
            for rows, m in zip(self.queue.permutations, self.queue.drawn, strict=True):
                pairs = [self._votes[row] for row in rows[:m].tolist() if row in self._votes]
                counts += pairs
                weights += [len(rows) / max(len(pairs), 1)] * len(pairs)
        if not counts:
            return math.nan
        votes, wrong = np.array(counts, np.int64).T
        return effective_annotators(votes, wrong, np.array(weights))

    def progress(self) -> dict[str, Any]:
        """Return counts, the estimate of accuracy, and effective annotators, as plain values."""
        with self._mutex:
            effective = self.effective_annotators()
            return {
                "n_tasks": len(self.question),
                "n_decided": len(self._decided),
                "n_skipped": len(self.queue.skipped),
                "n_changed": int((self._states[list(self._decided)] == WRONG).sum()),
                "accuracy": self.accuracy().to_dict(),
                "effective_annotators": None if math.isnan(effective) else effective,
                "choose": self.queue.choose,
            }

    # ------------------------------------------------------------------------------------------------- tables

    def decisions(self) -> dict[int, dict[str, Any]]:
        """Return the record of every decision that stands, by row, in the order of tasks."""
        with self._mutex:
            return dict(sorted(self._decided.items()))

    def gold(self) -> pa.Table:
        """Return the decisions that stand as known answers: columns of task and answer, as ``gold=`` takes them."""
        from manyhands.desk.export import gold

        return gold(self)

    def labels(self) -> pa.Table:
        """Return the answers of all tasks, with decisions in the place of what was aggregated."""
        from manyhands.desk.export import labels

        return labels(self)

    def trail(self) -> pa.Table:
        """Return every decision, skip and undo: who, when, before, after, and why the task was asked."""
        from manyhands.desk.export import trail

        return trail(self)

    # ------------------------------------------------------------------------------------------------- ending

    @property
    def folder(self) -> Path:
        """Folder of the journal."""
        return self.journal.folder

    def close(self) -> None:
        """Close the journal."""
        self.journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"<Desk: {len(self._decided):,} of {len(self.question):,} tasks decided, journal in {str(self.folder)!r}>"
        )


def _public(record: dict[str, Any]) -> dict[str, Any]:
    """What others may know of a decision."""
    return {name: record[name] for name in ("task", "answer", "before", "by", "at", "note", "why")}


def _plain_settings(model: Any) -> bool:
    """Whether a method's settings are short enough for a header: no gold labels or tables."""
    return all(value is None or isinstance(value, bool | int | float | str) for value in model.get_params().values())


def _fingerprint(votes: Any) -> str:
    """A hash of all answers of a log."""
    import pyarrow as pa

    digest = hashlib.sha256(votes.kind.encode())
    frame = arrow.flat(votes.to_frame())
    for name in frame.column_names:
        column = arrow.one_chunk(frame.column(name))
        digest.update(name.encode())
        if not pa.types.is_floating(column.type):
            if pa.types.is_dictionary(column.type):  # may hold values that no row has
                column = column.cast(pa.large_string())
            coded = column.dictionary_encode()
            digest.update("\0".join(coded.dictionary.cast(pa.large_string()).to_pylist()).encode())
            column = coded.indices
        digest.update(arrow.to_numpy(column.is_null()).tobytes())
        # Filling loads pandas where it is installed.
        digest.update(arrow.to_numpy(column.fill_null(0) if column.null_count else column).tobytes())
    return digest.hexdigest()[:32]
