"""What answers to tasks have, whatever they say: which worker answered which task, parts of the table, files."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import arrow, persist
from manyhands._base import data_checks as checks
from manyhands._base.checks import check_choice, plural, preview
from manyhands._base.columns import Columns
from manyhands._base.description import Fact, Spread
from manyhands._base.ids import Ids, encode_ids
from manyhands._base.names import Codes, Names
from manyhands._base.table import Records, Rows
from manyhands.errors import argument

if TYPE_CHECKING:
    import pyarrow as pa


class Links(Rows, Protocol):
    """What the compiled tables of tasks have: which worker gave which answer, with which weight, in task order."""

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""

    def offsets(self) -> npt.NDArray[Any]:
        """Where the answers of each task begin, and where the last end."""

    def columns(self) -> tuple[Codes, Codes, npt.NDArray[Any]]:
        """Task, worker, and the answer."""

    def group_counts(self) -> npt.NDArray[Any]:
        """Number of answers in each group of workers that share tasks."""

    def n_repeats(self) -> int:
        """Number of answers to a task by a worker who answered it before."""

    def compacted(self) -> Self:
        """The same answers without the tasks and workers that have none."""


class Payload(NamedTuple):
    """What the answers of a table are made of: a row for each answer, the number of codes, and `KindSpec.parts`."""

    answers: npt.NDArray[Any]
    n_codes: int = 0
    parts: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Parsed:
    """The answers of a log as a kind parsed them, before anything is encoded."""

    #: Number of rows of each column, by what messages call it.
    sizes: Mapping[str, int]
    #: Makes the payload, once it is known which task and worker each row with an answer has.
    encode: Callable[[Ids], Payload]
    #: Marks rows without an answer.
    absent: npt.NDArray[np.bool_] | None = None


class Answers(Records):
    """Answers of workers to tasks, whatever they say: immutable, sparse, with names of tasks and workers.

    A kind of answers is a subclass that adds the answer, the third of the columns of its compiled table.
    """

    __slots__ = ("_tasks", "_unlabelled")
    _table: Links
    _weak: ClassVar[bool] = True
    _name_fields: ClassVar[tuple[str, ...]] = ("tasks", "workers", "unlabelled")

    def __init__(
        self, table: Links, tasks: Names, workers: Names, *parts: Any, unlabelled: Names | None = None
    ) -> None:
        super().__init__(table, workers)
        self._tasks = tasks
        self._unlabelled = unlabelled if unlabelled is not None else tasks.take(np.zeros(0, np.int64))
        for name, part in zip(self.spec.parts, parts, strict=True):
            setattr(self, f"_{name}", part)

    def __repr__(self) -> str:
        answers, tasks = plural(self.n_annotations, self.spec.required[-1]), plural(self.n_tasks, "task")
        weighted = ", weighted" if self.weights is not None else ""
        return f"<{type(self).__name__}: {answers} of {tasks} by {plural(self.n_workers, 'worker')}{weighted}>"

    @classmethod
    def _of_columns(cls, columns: Columns, *rest: Any, **settings: Any) -> Self:
        """Check columns, set rows without an answer aside, encode ids and answers, and build the table."""
        repeats, missing = settings.pop("repeats", "keep"), settings.pop("missing", "drop")
        check_choice("repeats", repeats, ("keep", "first", "last", "error"))
        check_choice("missing", missing, ("drop", "error"))
        tasks, workers, weight = columns.ids["task"], columns.ids["worker"], columns.only("weight")
        parsed = cls._parsed(columns, **settings)
        weights = None if weight is None else checks.checked_weights(*weight)
        rows = {"tasks": len(tasks), "workers": len(workers), **parsed.sizes}
        rows |= {} if weights is None else {"weights": len(weights)}
        noun = cls.spec.required[-1]
        checks.check_sizes(rows, f"(task, worker, {noun})")
        checks.refuse_missing_ids(tasks, workers)
        absent = parsed.absent if parsed.absent is not None and parsed.absent.any() else None
        if absent is not None:
            checks.refuse_missing_answers(", ".join(parsed.sizes), absent, missing)
            weights = None if weights is None else weights[~absent]
        ids = encode_ids(tasks, workers, absent, said=noun)
        payload = parsed.encode(ids)
        policy = "keep" if repeats == "error" else repeats
        table = cls._compiled(
            ids.task_codes, ids.worker_codes, payload, weights, len(ids.tasks), len(ids.workers), policy
        )
        if repeats == "error":
            checks.refuse_repeats(table, ids.tasks, ids.workers)
        return cls(table, ids.tasks, ids.workers, *payload.parts, unlabelled=ids.unlabelled)

    @classmethod
    def _parsed(cls, columns: Columns, *rest: Any, **settings: Any) -> Parsed:
        """The answers of a log, parsed and checked by the kind."""
        raise NotImplementedError

    @classmethod
    def _compiled(
        cls,
        tasks: Codes,
        workers: Codes,
        payload: Payload,
        weights: npt.NDArray[np.float64] | None,
        n_tasks: int,
        n_workers: int,
        repeats: str = "keep",
    ) -> Any:
        """The compiled table of a payload: one of codes, unless a kind has another."""
        codes = payload.answers.astype(np.uint32, copy=False)
        return _core.CodeTable(tasks, workers, codes, weights, n_tasks, n_workers, payload.n_codes, repeats)

    def _check_guesses(self, columns: Columns) -> None:
        guesses = columns.guesses
        if not guesses:
            return
        used = {name for names in columns.names.values() for name in names}
        others = [name for name in columns.all_names if name not in used]
        if "task" in guesses and self.n_tasks == self.n_annotations > 1:
            raise ValueError(
                f"column {guesses['task']!r} differs in every row, so it may number the answers rather than the tasks; "
                f"name the task column with {argument('task')} ({guesses['task']!r} if it is; other columns "
                f"are {_list_names(others)})"
            )
        if "worker" in guesses and self.n_workers > 1 and self._one_per_task(self._table.columns()[1]):
            raise ValueError(
                f"column {guesses['worker']!r} has one value per task, so it is about the item rather than the worker; "
                f"name the worker column with {argument('worker')} (other columns are {_list_names(others)})"
            )
        if "label" in guesses:
            self._refuse_item(guesses["label"], others)

    def _refuse_item(self, column: str, others: list[str]) -> None:
        """Raise where the column of the answer seems to be the item that the task is about.

        Parameters
        ----------
        column
            The column, which was found by its name.
        others
            Columns of the log that are not used; without any, nothing else can be the answer.
        """
        _, workers, answer_codes = self._table.columns()
        if not others:
            return
        cure = (
            f"name the answer column with {argument('label')} (other columns are {_list_names(others)}), or with "
            f"{self.spec.required[-1]}=… and kind={self.kind!r} if it is {column!r}"
        )
        if not self._differ_in_task(workers).any():
            raise ValueError(
                f"no task has answers of two workers, so column {column!r} may be the item or the answer; {cure}"
            )
        if self._one_per_task(answer_codes):
            raise ValueError(
                f"column {column!r} has one value per task for all workers: it is the item, not the answer; {cure}"
            )

    def _one_per_task(self, values: npt.NDArray[Any]) -> bool:
        """Whether values differ within no task, and some task has two rows to compare, by two workers if there are."""
        _, workers, _ = self._table.columns()
        several = self._differ_in_task(workers)
        several = several if several.any() else self.labels_per_task > 1
        differ = self._differ_in_task(values.reshape(len(values), -1)[:, 0])
        return bool(several.any() and not differ[several].any())

    def _differ_in_task(self, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Whether values of each task's rows differ."""
        starts = self._table.offsets().astype(np.int64)[:-1]
        full = self.labels_per_task > 0
        differ = np.zeros(self.n_tasks, np.bool_)
        low, high = (part.reduceat(values, starts[full]) for part in (np.minimum, np.maximum))
        differ[full] = low != high
        return differ

    # ---------------------------------------------------------------------------------------------- contents

    def _identity(self) -> tuple[Any, ...]:
        return (self._tasks, *super()._identity())

    def _columns(self) -> tuple[npt.NDArray[Any] | None, ...]:
        return (*self._table.columns(), self.weights)

    @property
    def table(self) -> Links:
        """The compiled table of codes: frozen, and what kernels take."""
        return self._table

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return self._table.n_tasks

    @property
    def tasks(self) -> npt.NDArray[Any]:
        """Names of the tasks, in code order; results are aligned with it."""
        return self._tasks.values

    @property
    def unlabelled(self) -> npt.NDArray[Any]:
        """Names of tasks that came in with rows but without a label; they are not part of the table."""
        return self._unlabelled.values

    @property
    def shown(self) -> dict[Any, str]:
        """What tasks show to workers, a text or an address, by task; empty where that is not known."""
        texts = self._tasks.shown
        if texts is None:
            return {}
        pairs = zip(self.tasks.tolist(), texts.to_pylist(), strict=True)
        return {task: text for task, text in pairs if text is not None}

    def showing(self, contents: Mapping[Any, str]) -> Self:
        """Return the same answers with what tasks show to workers: a text, or an address, for some or all of them.

        It is kept by :meth:`select` and :meth:`save`, and shown next to tasks on the command line and in reports. It
        changes no result, and tables that differ in it alone are equal.

        Parameters
        ----------
        contents : mapping
            What each task shows, by task; those of other tasks are not used.

        Examples
        --------
        >>> import manyhands as mh
        >>> votes = mh.Annotations.from_dense([[0, 1, 1], [1, 1, 0]]).showing({1: "Is this a cat?"})
        >>> votes.select(workers=[0]).shown
        {1: 'Is this a cat?'}
        """
        import pyarrow as pa

        texts = [contents.get(task) for task in self.tasks.tolist()]
        for text in texts:
            if text is not None and not isinstance(text, str):
                raise TypeError(f"tasks show texts or addresses, not {type(text).__name__} ({str(text)[:40]!r})")
        return self._showing(pa.array(texts, pa.large_string()))

    def _showing(self, texts: pa.Array) -> Self:
        """The same answers with texts that are aligned with tasks."""
        return self._part(self._table, self._tasks.showing(texts), self._workers, self._unlabelled)

    @property
    def labels_per_task(self) -> npt.NDArray[np.int64]:
        """Number of annotations of each task, (n_tasks,)."""
        offsets = self._table.offsets().astype(np.int64)
        return offsets[1:] - offsets[:-1]

    def to_frame(self) -> pa.Table:
        """Return the annotations as an Arrow table: task, worker, the answer, and weight if there are weights."""
        whole = self._whole()
        tasks, workers, answer_codes = whole._table.columns()
        columns = {
            "task": arrow.take(self._tasks.arrow(), tasks),
            "worker": arrow.take(self._workers.arrow(), workers),
        }
        columns |= self._said(answer_codes)
        return arrow.table(columns if whole.weights is None else columns | {"weight": whole.weights})

    @abstractmethod
    def _said(self, said: npt.NDArray[Any]) -> dict[str, Any]:
        """Columns of a frame for the answer, given as the compiled table holds it."""

    # ----------------------------------------------------------------------------------------------- subsets

    def select(self, *, tasks: Iterable[Any] | None = None, workers: Iterable[Any] | None = None) -> Self:
        """Return the annotations of some tasks, by some workers, or both.

        The possible labels stay as they are; workers without an annotation left are dropped, and so are tasks, which
        are listed in :attr:`unlabelled` of the result if they were not left out by name. O(annotations).

        Parameters
        ----------
        tasks, workers : sequence or None, default None
            Names to keep, or a boolean mask aligned with :attr:`tasks` or :attr:`workers`.

        Examples
        --------
        >>> import manyhands as mh
        >>> votes = mh.Annotations.from_dense([[0, 1, 1], [1, 1, 0]])
        >>> votes.select(workers=[0, 2])
        <Annotations: 4 annotations of 2 tasks by 2 workers, 2 classes>
        """
        task_keep = checks.mask_of(self._tasks, tasks, "task")
        worker_keep = checks.mask_of(self._workers, workers, "worker")
        whole = self._whole()
        task_codes, worker_codes, _ = whole._table.columns()
        keep = task_keep[task_codes] & worker_keep[worker_codes]
        if not keep.any():
            raise ValueError("no annotation is left: the selected tasks and workers have none in common")
        return whole._subset(keep, task_keep, self._unlabelled if tasks is None else None)

    def sample(self, *, fraction: float | None = None, per_task: int | None = None, seed: int = 0) -> Self:
        """Return a random part of the annotations: a fraction of all, or at most some number per task.

        Tasks that lose all their annotations are listed in :attr:`unlabelled` of the result. O(annotations),
        and their logarithm for `per_task`.

        Examples
        --------
        >>> import manyhands as mh
        >>> votes = mh.Annotations.from_dense([[0, 1, 1], [1, 1, 0]])
        >>> votes.sample(per_task=2).labels_per_task.tolist()
        [2, 2]
        """
        if (fraction is None) == (per_task is None):
            raise ValueError("give either fraction= or per_task=")
        whole = self._whole()
        key = np.random.default_rng(seed).random(self.n_annotations)
        keep = np.zeros(len(key), np.bool_)
        if fraction is not None:
            if not 0 < fraction <= 1:
                raise ValueError(f"fraction must lie in (0, 1], not {fraction}")
            n_wanted = round(fraction * len(key))
            if not n_wanted:
                raise ValueError(f"a fraction of {fraction} leaves none of {len(key):,} annotations")
            keep[np.argpartition(key, n_wanted - 1)[:n_wanted]] = True
        elif per_task is not None:
            if operator.index(per_task) < 1:
                raise ValueError(f"per_task must be at least 1, not {per_task}")
            starts = whole._table.offsets()[:-1].astype(np.int64)
            order = np.lexsort((key, whole._table.columns()[0]))
            place = np.arange(len(key)) - np.repeat(starts, self.labels_per_task)
            keep[order[place < per_task]] = True
        return whole._subset(keep, np.ones(self.n_tasks, np.bool_), self._unlabelled)

    def _subset(self, keep: npt.NDArray[np.bool_], wanted: npt.NDArray[np.bool_], unlabelled: Names | None) -> Self:
        """Keep the marked annotations; wanted tasks left with none join the unlabeled."""
        part = self._table.keep(keep)
        labelled = np.diff(part.offsets()) > 0
        tasks = self._tasks.take(np.flatnonzero(labelled))
        workers = self._workers.take(np.flatnonzero(part.worker_counts()))
        lost = self._tasks.take(np.flatnonzero(wanted & ~labelled))
        lost = lost if unlabelled is None else lost.joined(unlabelled)
        return self._part(part.compacted(), tasks, workers, lost)

    def _part(self, table: Any, tasks: Names, workers: Names, unlabelled: Names) -> Self:
        """A part of these answers, as a compiled table of the same kind."""
        return type(self)(table, tasks, workers, *self._parts_for(tasks), unlabelled=unlabelled)

    def _parts_for(self, tasks: Names) -> tuple[Any, ...]:
        """The parts of a table of some of the tasks."""
        return tuple(getattr(self, f"_{name}") for name in self.spec.parts)

    def _about(self, rows: str, text: str = "", tasks: str = "tasks", title: str = "") -> Iterator[Fact]:
        """Sizes of the table, for `_facts`."""
        yield Fact("n_annotations", self.n_annotations, title or rows, text)
        yield Fact("n_tasks", self.n_tasks, tasks)
        yield Fact("n_workers", self.n_workers, "workers")

    def _spreads(self, rows: str) -> Iterator[Fact]:
        """How many answers tasks and workers have, and repeats, for `_facts`."""
        yield Fact("labels_per_task", Spread.of(self.labels_per_task), f"{rows} per task")
        yield Fact("labels_per_worker", Spread.of(self.labels_per_worker), f"{rows} per worker")
        yield Fact("n_repeats", self._table.n_repeats(), "repeats")

    # ------------------------------------------------------------------------------------------- persistence

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        tasks, workers, answer_codes = self._table.columns()
        return {"task_codes": tasks, "worker_codes": workers} | self._packed(answer_codes)

    @classmethod
    def _read_back(cls, content: persist.Content) -> object:
        return cls._names_in(content)

    @abstractmethod
    def _packed(self, said: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        """Arrays of a file for the answer, and what it stands for."""

    @classmethod
    def _unpacked(cls, content: persist.Content, task_codes: Codes, tasks: Names) -> Payload:
        """Take back what `_packed` wrote; raise where it is damaged."""
        raise NotImplementedError

    @classmethod
    def _load(cls, content: persist.Content) -> Self:
        tasks, workers, unlabelled = cls._names_in(content)
        task_codes, worker_codes, weights = cls._links_in(content)
        payload = cls._unpacked(content, task_codes, tasks)
        table = cls._compiled(task_codes, worker_codes, payload, weights, len(tasks), len(workers))
        return cls(table, tasks, workers, *payload.parts, unlabelled=unlabelled)

    @classmethod
    def _names_in(cls, content: persist.Content) -> tuple[Names, ...]:
        """Names of tasks, workers and unlabeled tasks."""
        return tuple(content.names(part) for part in cls._name_fields)

    @staticmethod
    def _links_in(content: persist.Content) -> tuple[Codes, Codes, npt.NDArray[np.float64] | None]:
        """Task and worker of each answer, and weights."""
        tasks = content.array("task_codes", np.uint32, ndim=1)
        workers = content.array("worker_codes", np.uint32, shape=tasks.shape)
        return tasks, workers, content.weights(len(tasks))


def _list_names(names: list[str]) -> str:
    return preview(names, 20) if names else "none"
