"""The table of answers of any form: texts, sets, orders, trees, whatever two of can be compared."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import data_checks as checks
from manyhands._base import persist
from manyhands._base.building import Missing, Repeats
from manyhands._base.checks import check_choice, counted
from manyhands._base.columns import Columns
from manyhands._base.description import ObjectsDescription, Spread
from manyhands._base.ids import encode_ids
from manyhands._base.names import Codes, Column, Names
from manyhands._base.task_table import Answers
from manyhands._base.values import as_objects, is_missing


class Objects(Answers):
    """An immutable, sparse table of (task, worker, answer) rows, where answers are any Python objects.

    For answers that have no table of their own, and a distance: see :class:`~manyhands.objects.DistanceAggregator`.
    Ids, repeats and missing answers are those of :class:`~manyhands.Annotations`. Answers are kept as they are, equal
    ones once; they must not be changed afterwards.

    Memory: 12 bytes a row (8 more with weights) and 4 a task, besides the names and the distinct answers.

    Examples
    --------
    >>> import manyhands as mh
    >>> texts = mh.Objects.from_arrays(["a", "a", "b"], [1, 2, 1], ["a cat", "a cart", "dog"])
    >>> texts
    <Objects: 3 answers, 3 of them different, to 2 tasks by 2 workers>
    """

    __slots__ = ("_distinct",)
    _kind: ClassVar[str] = "objects"
    _roles: ClassVar[tuple[str, ...]] = ("task", "worker", "answer")
    _raw: ClassVar[frozenset[str]] = frozenset({"answer"})
    #: What an answer is called: the role of its column, the last of `_roles`.
    _one: ClassVar[str] = "answer"
    _settings: ClassVar[tuple[str, ...]] = ("repeats", "missing")
    _file_kind: ClassVar[str] = "objects"
    _table: _core.Ratings

    def __init__(
        self,
        table: _core.Ratings,
        tasks: Names,
        workers: Names,
        distinct: npt.NDArray[np.object_],
        unlabelled: Names | None = None,
    ) -> None:
        super().__init__(table, tasks, workers, unlabelled)
        self._distinct = distinct

    # ------------------------------------------------------------------------------------------ constructors

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        task: str | None = None,
        worker: str | None = None,
        answer: str | None = None,
        weight: str | None = None,
        repeats: Repeats = "keep",
        missing: Missing = "drop",
    ) -> Self:
        """Build a table from a pandas, polars, pyarrow or duckdb frame, or a mapping of columns.

        Parameters
        ----------
        frame
            The log, one row an answer. Anything with the Arrow PyCapsule interface will do.
        task, worker, weight, repeats, missing
            As for :meth:`Annotations.from_frame`.
        answer
            Column name of the answers; well known are ``answer``, ``text`` and ``response``.
        """
        given = {"task": task, "worker": worker, "answer": answer}
        return cls._of_frame(frame, given, {"weight": weight}, repeats=repeats, missing=missing)

    @classmethod
    def from_arrays(
        cls,
        tasks: Any,
        workers: Any,
        answers: Any,
        weights: Any = None,
        *,
        repeats: Repeats = "keep",
        missing: Missing = "drop",
    ) -> Self:
        """Build a table from columns of equal length; parameters are those of :meth:`from_frame`."""
        ids = {"task": Column(tasks, "tasks"), "worker": Column(workers, "workers")}
        others = {cls._one: [(answers, f"{cls._one}s")]}
        others |= {} if weights is None else {"weight": [(weights, "weights")]}
        return cls._of_columns(Columns(ids, others), repeats=repeats, missing=missing)

    @classmethod
    def _of_columns(cls, columns: Columns, *, repeats: Repeats = "keep", missing: Missing = "drop") -> Self:
        check_choice("repeats", repeats, ("keep", "first", "last", "error"))
        check_choice("missing", missing, ("drop", "error"))
        tasks, workers, given = columns.ids["task"], columns.ids["worker"], columns.only("weight")
        data, what = columns.others[cls._one][0]
        answers = cls._checked(_as_list(data), what)
        weights = None if given is None else checks.checked_weights(*given)
        sizes = {"tasks": len(tasks), "workers": len(workers), what: len(answers)}
        rows = f"(task, worker, {cls._one})"
        checks.check_sizes(sizes if weights is None else sizes | {"weights": len(weights)}, rows)
        checks.refuse_missing_ids(tasks, workers)
        absent = np.fromiter((_is_nothing(answer) for answer in answers), np.bool_, len(answers))
        if absent.any():
            checks.refuse_missing_answers(what, absent, missing)
            answers = [answer for answer, gone in zip(answers, absent, strict=True) if not gone]
            weights = None if weights is None else weights[~absent]
        ids = encode_ids(tasks, workers, absent if absent.any() else None, said=cls._one)
        codes, distinct = encode_objects(answers)
        table = _core.Ratings(
            ids.task_codes,
            ids.worker_codes,
            codes.astype(np.float64)[:, None],
            weights,
            len(ids.tasks),
            len(ids.workers),
            "keep" if repeats == "error" else repeats,
        )
        if repeats == "error":
            checks.refuse_repeats(table, ids.tasks, ids.workers)
        return cls(table, ids.tasks, ids.workers, distinct, ids.unlabelled)

    @classmethod
    def _checked(cls, answers: list[Any], what: str) -> list[Any]:
        """The answers of a column, None for those that say nothing; refuse what cannot be one."""
        return answers

    # ---------------------------------------------------------------------------------------------- contents

    @property
    def answers(self) -> npt.NDArray[np.object_]:
        """The distinct answers, in an order of their own that does not depend on the order of rows."""
        return self._distinct.copy()

    def codes(self) -> tuple[Codes, Codes, npt.NDArray[np.int64]]:
        """Task, worker and answer (its place in :attr:`answers`) of every row, in task order: fresh arrays."""
        tasks, workers, said = self._table.columns()
        return tasks, workers, said[:, 0].astype(np.int64)

    def describe(self) -> ObjectsDescription:
        """Summarise the table in numbers; prints as a short report. O(answers)."""
        return ObjectsDescription(
            n_annotations=self.n_annotations,
            n_distinct=len(self._distinct),
            n_tasks=self.n_tasks,
            n_workers=self.n_workers,
            n_repeats=self._table.n_repeats(),
            labels_per_task=Spread.of(self.labels_per_task),
            labels_per_worker=Spread.of(self.labels_per_worker),
        )

    def __repr__(self) -> str:
        answers, tasks = counted(self.n_annotations, self._one), counted(self.n_tasks, "task")
        weighted = ", weighted" if self.weights is not None else ""
        different, name = f"{len(self._distinct):,} of them different", type(self).__name__
        return f"<{name}: {answers}, {different}, to {tasks} by {counted(self.n_workers, 'worker')}{weighted}>"

    def _identity(self) -> tuple[Any, ...]:
        return (*super()._identity(), [_key(answer) for answer in self._distinct])

    def _part(self, table: _core.Ratings, tasks: Names, workers: Names, unlabelled: Names) -> Self:
        return type(self)(table, tasks, workers, self._distinct, unlabelled)

    # ------------------------------------------------------------------------------------------- persistence

    def _said(self, said: npt.NDArray[Any]) -> dict[str, Any]:
        import pyarrow as pa

        answers = self._distinct[said[:, 0].astype(np.int64)].tolist()
        try:
            return {self._one: pa.array(answers)}
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            return {self._one: pa.array([repr(answer) for answer in answers])}

    def _packed(self, said: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        return {"said": said, "answers": pack_objects(self._distinct.tolist())}

    @classmethod
    def _load(cls, content: persist.Content) -> Self:
        tasks, workers, unlabelled = cls._names_in(content)
        task_codes, worker_codes, weights = cls._links_in(content)
        said = content.array("said", np.float64, shape=(len(task_codes), 1))
        distinct = unpack_objects(content, "answers")
        if not ((said >= 0) & (said < len(distinct)) & (said == np.floor(said))).all():
            raise content.damaged("it names answers that there are not")
        table = _core.Ratings(task_codes, worker_codes, said, weights, len(tasks), len(workers))
        return cls(table, tasks, workers, distinct, unlabelled)

    def __reduce__(self) -> tuple[Any, ...]:
        names = (self._tasks, self._workers, self._distinct, self._unlabelled)
        return _unpickle, (type(self), self._table.columns(), self.weights, names)


def _unpickle(cls: type[Objects], columns: tuple[Any, Any, Any], weights: Any, names: tuple[Any, ...]) -> Objects:
    return cls(_core.Ratings(*columns, weights, len(names[0]), len(names[1])), *names)


def _as_list(data: Any) -> list[Any]:
    """A column as Python objects."""
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(data, method):
            return list(getattr(data, method)())
    return list(data)


def _is_nothing(answer: Any) -> bool:
    return answer is None or (isinstance(answer, str | float) and is_missing(answer))


def _key(answer: Any) -> tuple[str, Any]:
    """What an answer is ordered by and told apart by: its kind, and its value or how it is written."""
    if isinstance(answer, bool | np.bool_ | int | float | np.number):
        return "", float(answer)
    if isinstance(answer, str):
        return "str", answer
    if isinstance(answer, set | frozenset):
        return "set", repr(sorted(map(_key, answer)))
    if isinstance(answer, np.ndarray):
        return "array", repr(answer.tolist())
    return type(answer).__name__, repr(answer)


def encode_objects(answers: list[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.object_]]:
    """Code of each answer, and the distinct ones in order; those that are written alike are one."""
    keys = [_key(answer) for answer in answers]
    first: dict[tuple[str, Any], Any] = {}
    for key, answer in zip(keys, answers, strict=True):
        first.setdefault(key, answer)
    order = {key: code for code, key in enumerate(sorted(first))}
    codes = np.fromiter((order[key] for key in keys), np.int64, len(keys))
    return codes, as_objects([first[key] for key in order])


def pack_objects(answers: list[Any]) -> npt.NDArray[np.uint8]:
    """Answers as bytes for a file that holds data only: what JSON can say, and sets."""
    try:
        text = json.dumps(answers, default=_plain)
    except (TypeError, ValueError) as error:
        raise TypeError(f"answers of this form cannot be saved in a file that holds data only: {error}") from None
    return np.frombuffer(text.encode(), np.uint8)


def _plain(answer: Any) -> Any:
    if isinstance(answer, set | frozenset):
        return {"set": sorted(answer, key=_key)}
    if isinstance(answer, np.ndarray | np.generic):
        return answer.tolist()
    raise TypeError(f"{type(answer).__name__} is not text, a number, a list, a mapping or a set")


def unpack_objects(content: persist.Content, name: str) -> npt.NDArray[np.object_]:
    """Take back what `pack_objects` gave; sets are frozen."""
    try:
        found = json.loads(content.array(name, np.uint8, ndim=1).tobytes(), object_hook=_sets)
    except (ValueError, RecursionError, TypeError):
        raise content.damaged(f"its {name} cannot be read") from None
    if not isinstance(found, list):
        raise content.damaged(f"its {name} are no list")
    return as_objects(found)


def _sets(found: dict[str, Any]) -> Any:
    return frozenset(found["set"]) if found.keys() == {"set"} and isinstance(found["set"], list) else found
