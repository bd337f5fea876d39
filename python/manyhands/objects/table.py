"""Table of answers of any type by task and worker."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import persist
from manyhands._base.building import Missing, Repeats
from manyhands._base.checks import plural
from manyhands._base.columns import Columns
from manyhands._base.description import Fact
from manyhands._base.ids import Ids
from manyhands._base.kind import KindSpec
from manyhands._base.names import Codes, Names
from manyhands._base.task_table import Answers, Parsed, Payload
from manyhands._base.values import as_objects, is_missing


class Objects(Answers):
    """Immutable, sparse table of (task, worker, answer) rows with arbitrary Python objects as answers.

    Use it for answers without a table of their own, together with a distance; see
    :class:`~manyhands.objects.DistanceAggregator`. Ids, repeats and missing answers are handled as in
    :class:`~manyhands.Annotations`. Distinct answers are stored once, by reference, and must not be modified.

    Memory: 8 bytes per row (8 more with weights) and 4 per task, plus the names and the distinct answers.

    Examples
    --------
    >>> import manyhands as mh
    >>> texts = mh.Objects.from_arrays(["a", "a", "b"], [1, 2, 1], ["a cat", "a cart", "dog"])
    >>> texts
    <Objects: 3 answers, 3 of them different, to 2 tasks by 2 workers>
    """

    __slots__ = ("_distinct",)
    spec: ClassVar[KindSpec] = KindSpec(
        word="objects",
        required=("task", "worker", "answer"),
        raw=frozenset({"answer"}),
        settings=("repeats", "missing"),
        parts=("distinct",),
        confidence="share of the weight of the workers that is behind exactly this answer",
        expected="On average, {mean} of the weight of the workers is behind the answer.",
    )
    _table: _core.CodeTable
    _distinct: npt.NDArray[np.object_]

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
        frame : DataFrame, Arrow table or mapping of columns
            The log, one row per answer. Any object with the Arrow PyCapsule interface works.
        task, worker, weight, repeats, missing
            As for :meth:`Annotations.from_frame`.
        answer : str, optional
            Column of answers. Well-known names are ``answer``, ``text`` and ``response``.

        Returns
        -------
        Objects
            The table.
        """
        columns = {"task": task, "worker": worker, "answer": answer}
        return cls._of_frame(frame, columns, {"weight": weight}, repeats=repeats, missing=missing)

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
        """Build a table from columns of equal length; for the parameters, see :meth:`from_frame`."""
        settings, answer = {"repeats": repeats, "missing": missing}, {f"{cls.spec.required[-1]}s": answers}
        return cls._of_arrays(settings, tasks=tasks, workers=workers, **answer, weights=weights)

    @classmethod
    def _parsed(cls, columns: Columns) -> Parsed:
        data, what = columns.others[cls.spec.required[-1]][0]
        answers = cls._checked(_as_list(data), what)
        absent = np.fromiter((_is_nothing(answer) for answer in answers), np.bool_, len(answers))

        def encode(ids: Ids) -> Payload:
            codes, distinct = encode_objects(
                [one for one, is_absent in zip(answers, absent, strict=True) if not is_absent]
            )
            return Payload(codes, len(distinct), (distinct,))

        return Parsed({what: len(answers)}, encode, absent)

    @classmethod
    def _checked(cls, answers: list[Any], what: str) -> list[Any]:
        """Validate the answers of a column; return None for missing ones."""
        return answers

    # ---------------------------------------------------------------------------------------------- contents

    @property
    def answers(self) -> npt.NDArray[np.object_]:
        """Distinct answers, in an order that does not depend on the order of rows."""
        return self._distinct.copy()

    def codes(self) -> tuple[Codes, Codes, npt.NDArray[np.int64]]:
        """Return task code, worker code and index in :attr:`answers` of every row in task order, as new arrays."""
        tasks, workers, answer_codes = self._table.columns()
        return tasks, workers, answer_codes.astype(np.int64)

    def _facts(self) -> Iterable[Fact]:
        distinct = len(self._distinct)
        yield from self._about("answers", f"{self.n_annotations:,}, {distinct:,} of them different")
        yield Fact("n_distinct", distinct)
        yield from self._spreads("answers")

    def __repr__(self) -> str:
        answers, tasks = plural(self.n_annotations, self.spec.required[-1]), plural(self.n_tasks, "task")
        weighted = ", weighted" if self.weights is not None else ""
        different, name = f"{len(self._distinct):,} of them different", type(self).__name__
        return f"<{name}: {answers}, {different}, to {tasks} by {plural(self.n_workers, 'worker')}{weighted}>"

    def _identity(self) -> tuple[Any, ...]:
        return (*super()._identity(), [_key(answer) for answer in self._distinct])

    # ------------------------------------------------------------------------------------------- persistence

    def _said(self, said: npt.NDArray[Any]) -> dict[str, Any]:
        import pyarrow as pa

        answers = self._distinct[said].tolist()
        try:
            return {self.spec.required[-1]: pa.array(answers)}
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            return {self.spec.required[-1]: pa.array([repr(answer) for answer in answers])}

    def _packed(self, said: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        return {"said": said, "answers": pack_objects(self._distinct.tolist())}

    @classmethod
    def _unpacked(cls, content: persist.Content, task_codes: Codes, tasks: Names) -> Payload:
        distinct = unpack_objects(content, "answers")
        return Payload(content.array("said", np.uint32, shape=task_codes.shape), len(distinct), (distinct,))


def _as_list(data: Any) -> list[Any]:
    """Return a column as a list of Python objects."""
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(data, method):
            return list(getattr(data, method)())
    return list(data)


def _is_nothing(answer: Any) -> bool:
    return answer is None or (isinstance(answer, str | float) and is_missing(answer))


def _key(answer: Any) -> tuple[str, Any]:
    """Return a key that identifies and orders answers: type name, and value or ``repr``."""
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
    """Return the code of each answer and the distinct answers in order; answers with equal keys are merged."""
    keys = [_key(answer) for answer in answers]
    first: dict[tuple[str, Any], Any] = {}
    for key, answer in zip(keys, answers, strict=True):
        first.setdefault(key, answer)
    order = {key: code for code, key in enumerate(sorted(first))}
    codes = np.fromiter((order[key] for key in keys), np.int64, len(keys))
    return codes, as_objects([first[key] for key in order])


def pack_objects(answers: list[Any]) -> npt.NDArray[np.uint8]:
    """Encode answers (JSON types and sets) as bytes for a data-only file."""
    try:
        text = json.dumps(answers, default=_plain)
    except (TypeError, ValueError) as error:
        raise TypeError(f"answers of this type cannot be saved: {error}") from None
    return np.frombuffer(text.encode(), np.uint8)


def _plain(answer: Any) -> Any:
    if isinstance(answer, set | frozenset):
        return {"set": sorted(answer, key=_key)}
    if isinstance(answer, np.ndarray | np.generic):
        return answer.tolist()
    raise TypeError(f"{type(answer).__name__} is not a string, number, list, mapping or set")


def unpack_objects(content: persist.Content, name: str) -> npt.NDArray[np.object_]:
    """Decode the result of `pack_objects`; sets become frozensets."""
    try:
        answers = json.loads(content.array(name, np.uint8, ndim=1).tobytes(), object_hook=_sets)
    except (ValueError, RecursionError, TypeError):
        raise content.damaged(f"{name} cannot be decoded") from None
    if not isinstance(answers, list):
        raise content.damaged(f"{name} is not a list")
    return as_objects(answers)


def _sets(found: dict[str, Any]) -> Any:
    return frozenset(found["set"]) if found.keys() == {"set"} and isinstance(found["set"], list) else found
