"""DistanceAggregator: truth discovery for answers of any kind with a distance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import arrow
from manyhands._base.checks import check_choice, check_number, check_stopping, plural, warn_unless_converged
from manyhands._base.estimator import Array, TaskEstimator
from manyhands._base.fitted import Fit, TaskFitted, custom, flags, numbers
from manyhands._base.limits import check_memory
from manyhands._base.persist import Content
from manyhands._base.progress import Callback
from manyhands._base.results import Columns
from manyhands._base.table import Records
from manyhands._base.task_table import Answers
from manyhands._base.values import as_objects
from manyhands.categorical.table import Annotations
from manyhands.multilabel.table import MultiLabels
from manyhands.numeric.table import Ratings
from manyhands.objects.table import Objects, encode_objects, pack_objects, unpack_objects
from manyhands.pairwise.rankings_table import Rankings

if TYPE_CHECKING:
    import pyarrow as pa

Offsets = npt.NDArray[np.uint32]

#: Named distances, between numbers and between sequences of codes.
NUMBERS = ("absolute", "squared")
WORDS = ("hamming", "jaccard", "kendall", "levenshtein")

#: Types that contain several numbers.
_LISTS = (list, tuple, np.ndarray)

#: Relative tolerance for the symmetry of a distance.
_SYMMETRY = 1e-9


def _pack_answers(answers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return answers if answers.dtype == np.float64 else pack_objects(answers.tolist())


def _unpack_answers(content: Content, name: str) -> npt.NDArray[Any]:
    stored = content.arrays.get(name)
    if stored is None or stored.dtype != np.float64:
        return unpack_objects(content, name)
    if stored.ndim not in (1, 2):
        raise content.damaged(f"{name!r} has shape {stored.shape}")
    return content.array(name, np.float64)


@dataclass(frozen=True, kw_only=True)
class DistanceFit(Fit):
    """Estimated answers of tasks and weights of workers."""

    #: One answer per task: an array of numbers, or of objects.
    answers: npt.NDArray[Any] = field(metadata=custom("n", _pack_answers, _unpack_answers))
    #: Share of the worker weight behind exactly this answer; NaN for means.
    confidence: Array = field(metadata=numbers("n", missing=True))
    spread: Array = field(metadata=numbers("n"))
    tied: npt.NDArray[np.bool_] = field(metadata=flags("n"))
    weights: Array = field(metadata=numbers("m"))
    losses: Array = field(metadata=numbers("m"))


class ByDistance(TaskEstimator[Answers, DistanceFit, TaskFitted[DistanceFit]]):
    """Base class of distance-based methods: results and persistence."""

    _kind: ClassVar[str] = "objects"
    _answer: ClassVar[str] = "objects_"
    _fit_type: ClassVar[type[Fit]] = DistanceFit
    _fitted_type: ClassVar[type[TaskFitted[Any]]] = TaskFitted

    def _as_table(self, answers: Any) -> Answers:
        if isinstance(answers, Annotations | Ratings | MultiLabels | Objects):
            return answers
        if isinstance(answers, Rankings):
            return _Orders.of(answers)
        if isinstance(answers, Records) or not (hasattr(answers, "columns") or hasattr(answers, "keys")):
            raise TypeError(
                "expected Annotations, Ratings, Rankings, MultiLabels, Objects or a frame, "
                f"not {type(answers).__name__}; use Objects.from_arrays for other answers"
            )
        return Objects.from_frame(answers)

    # ----------------------------------------------------------------------------------------------- results

    @property
    def objects_(self) -> npt.NDArray[Any]:
        """Aggregated answer of each task, shape (n_tasks,), or (n_tasks, n_dims) for points."""
        return self._fitted().fit.answers

    @property
    def spread_(self) -> Array:
        """Weighted mean distance of each task's answers to the aggregated one, shape (n_tasks,); 0 if all agree."""
        return self._fitted().fit.spread

    @property
    def confidence_(self) -> Array:
        """Share of the worker weight behind exactly the aggregated answer, shape (n_tasks,).

        NaN if answers are means, which no worker may have given; see :attr:`spread_`.
        """
        return self._fitted().fit.confidence

    @property
    def tied_(self) -> npt.NDArray[np.bool_]:
        """Whether another answer is equally good, shape (n_tasks,)."""
        return self._fitted().fit.tied

    @property
    def weights_(self) -> Array:
        """Weight of each worker, shape (n_workers,)."""
        return self._fitted().fit.weights

    @property
    def losses_(self) -> Array:
        """Mean distance of each worker's answers to the aggregated ones, including pseudo-counts, (n_workers,)."""
        return self._fitted().fit.losses

    def to_frame(self) -> pa.Table:
        """Return the task, answer, confidence, spread and tie flag of each task as an Arrow table.

        Answers without an Arrow type are converted to their ``repr``.
        """
        return super().to_frame()

    def _to_frame(self, now: TaskFitted[DistanceFit]) -> pa.Table:
        fit = now.fit
        columns = {"task": now.tasks.arrow(), "answer": _column(fit.answers), "confidence": fit.confidence}
        return arrow.table(columns | {"spread": fit.spread, "tied": fit.tied})

    def _skills(self) -> Columns:
        fit = self._fitted().fit
        return {"skill": fit.weights, "loss": fit.losses}

    def _compared(self, rows: pa.Table, place: int) -> Columns:
        answer = _column(self.objects_[place : place + 1])[0].as_py()
        worker_answers = [float(_in_order(one) == _in_order(answer)) for one in rows[1].to_pylist()]
        return {"agreement": np.array(worker_answers)}


class DistanceAggregator(ByDistance, default=True):
    """Answers with the smallest distance to those of reliable workers, for any kind of answers with a distance.

    Use it for answers without a method of their own, such as trees or programs. Methods for a specific kind are usually
    better, because this one models neither bias nor confusion.

    Accepts :class:`~manyhands.Annotations`, :class:`~manyhands.Ratings`, :class:`~manyhands.MultiLabels`,
    :class:`~manyhands.Rankings` (all rankings are answers to a single task), and :class:`~manyhands.Objects`.

    Parameters
    ----------
    distance : str, callable, array or None, default None
        ``"hamming"`` (0 if equal, else 1), ``"absolute"`` or ``"squared"`` (sums of differences of numbers),
        ``"jaccard"`` (sets), ``"kendall"`` (lists of items, best first: share of discordant pairs), ``"levenshtein"``
        (texts: edits relative to the longer one); a function of two answers; or a square array with the distances
        between the distinct answers (``votes.answers``, or ``votes.classes`` of classes). None selects hamming for
        classes, squared for numbers, jaccard for sets, kendall for rankings, and for objects levenshtein, jaccard or
        squared by their type.
    answer : {"medoid", "mean"} or None, default None
        ``"medoid"`` selects one of the answers; ``"mean"`` requires numbers with squared distance. None uses the mean
        if possible.
    weights : {"log", "power"}, default "log"
        Relation of worker weights and losses. ``"log"``: the weight is minus the logarithm of the worker's share of the
        losses of all workers and one more with the average loss (CRH, where the further worker keeps weights of small
        crowds above zero). ``"power"``: the weight is proportional to the loss to the power of −`power`.
    power : float, default 1.0
        Exponent for ``"power"``, from 0 (equal weights) to 1.
    strength : float, default 5.0
        Prior strength of worker losses, as a pseudo-count of answers with the average loss.
    max_iter : int, default 100
        Maximum number of iterations.
    tol : float, default 1e-9
        Relative change of the objective at which the fit has converged.

    Notes
    -----
    Time and memory O(Σ answers²) over tasks for the pairwise distances (a function is called twice per distinct pair);
    O(answers) for means.

    Minimizes Σ_m w_m Σ_n d(y_n, answer of m to n) over answers y and weights w, subject to a constraint on w: for
    ``"power"``, Σ (n_m + strength) w_m^(1 − 1/power) is fixed (at power 1, the product of w_m^(n_m + strength)); for
    ``"log"``, Σ (n_m + strength) exp(−w_m). Answers and weights are updated in turn; the objective, `history_`, never
    increases. With ``"log"``, a worker with more loss than all of them, the further one included, has weight 0.

    Ties between medoids go to the one nearest to all answers without weights, then to the first in sort order of the
    answers; results do not depend on the order of rows or on worker ids. `tied_` marks such tasks.

    References
    ----------
    Q. Li et al., "Resolving conflicts in heterogeneous data by truth discovery and source reliability estimation",
    SIGMOD (2014). A. Braylan and M. Lease, "Modeling and aggregation of complex annotations via annotation distances",
    The Web Conference (2020).

    Examples
    --------
    >>> import manyhands as mh
    >>> answers = ["cat", "cat", "dog", "a sun", "a sun.", "x"]
    >>> texts = mh.Objects.from_arrays([1, 1, 1, 2, 2, 2], list("abcabc"), answers)
    >>> mh.objects.DistanceAggregator("levenshtein").fit(texts).objects_.tolist()
    ['cat', 'a sun']
    >>> apart = lambda a, b: abs(len(a) - len(b))
    >>> mh.objects.DistanceAggregator(apart).fit(texts).objects_.tolist()
    ['cat', 'a sun']
    """

    def __init__(
        self,
        distance: str | Callable[[Any, Any], float] | npt.ArrayLike | None = None,
        *,
        answer: str | None = None,
        weights: str = "log",
        power: float = 1.0,
        strength: float = 5.0,
        max_iter: int = 100,
        tol: float = 1e-9,
    ) -> None:
        self.distance = distance
        self.answer = answer
        self.weights = weights
        self.power = power
        self.strength = strength
        self.max_iter = max_iter
        self.tol = tol

    # --------------------------------------------------------------------------------------------------- fit

    def _check(self) -> None:
        check_choice("weights", self.weights, ("power", "log"))
        if self.answer is not None:
            check_choice("answer", self.answer, ("medoid", "mean"))
        if isinstance(self.distance, str):
            check_choice("distance", self.distance, NUMBERS + WORDS)
        check_number("power", self.power, least=0, most=1)
        check_number("strength", self.strength, least=0)
        check_stopping(self.max_iter, self.tol)

    def _fit(self, votes: Answers, progress: Callback | None) -> DistanceFit:
        self._check()
        answers_by_row = AnswersByRow.of(votes)
        distance = answers_by_row.default_distance() if self.distance is None else self.distance
        by_mean = self._by_mean(answers_by_row, distance)
        offsets, (_, workers, _) = votes.table.offsets(), votes.table.columns()
        fit_inputs: dict[str, Any]
        if by_mean:
            fit_inputs = {"values": answers_by_row.points}
        else:
            n_bytes = 8 * int((votes.labels_per_task.astype(np.float64) ** 2).sum())
            answers = plural(votes.n_annotations, "answer")
            check_memory(
                n_bytes, f"distances between {answers}", "aggregate fewer tasks at a time, or use sample(per_task=)"
            )
            fit_inputs = {"distances": answers_by_row.distances(distance, offsets), "rank": answers_by_row.ranks()}
        result = _core.scheme_fit(
            offsets,
            workers,
            votes.weights,
            votes.n_workers,
            **fit_inputs,
            power=None if self.weights == "log" else self.power,
            strength=self.strength,
            max_iter=self.max_iter,
            tol=self.tol,
            progress=progress,
        )
        warn_unless_converged(result["converged"], self)
        n = votes.n_tasks
        if by_mean:
            confidence = np.full(n, np.nan)
        else:
            tasks = votes.table.columns()[0].astype(np.int64)
            weight = result["weights"][workers] * (1.0 if votes.weights is None else votes.weights)
            same = answers_by_row.codes == answers_by_row.codes[result["rows"]][tasks]
            with np.errstate(invalid="ignore"):
                confidence = np.bincount(tasks, weight * same, n) / np.bincount(tasks, weight, n)
        return DistanceFit(
            answers=answers_by_row.means(result["means"])
            if by_mean
            else answers_by_row.answers_of_rows(result["rows"]),
            confidence=confidence,
            spread=result["spread"],
            tied=result["tied"],
            weights=result["weights"],
            losses=result["losses"],
            history=result["history"],
            n_iter=result["n_iter"],
            converged=result["converged"],
        )

    def _by_mean(self, answers_by_row: AnswersByRow, distance: Any) -> bool:
        can = answers_by_row.points is not None and isinstance(distance, str) and distance == "squared"
        if self.answer == "mean" and not can:
            raise ValueError("answer='mean' requires numbers and distance='squared'; use answer='medoid'")
        return can and self.answer != "medoid"


# -------------------------------------------------------------------------------------------------------- answers


class _Orders(Objects):
    """Rankings as answers to a single task: lists of items, best first."""

    __slots__ = ()

    @classmethod
    def of(cls, rankings: Rankings) -> _Orders:
        workers = rankings.workers[rankings.codes()[2].astype(np.int64)]
        lists = rankings.lists()
        return cls.from_arrays(["all"] * len(lists), workers, lists, rankings.weights)


def _column(answers: npt.NDArray[Any]) -> pa.Array:
    """Convert answers to an Arrow array; answers without an Arrow type become their ``repr``."""
    import pyarrow as pa

    plain = [_in_order(one) for one in answers.tolist()]
    try:
        return pa.array(plain)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([repr(answer) for answer in plain])


def _in_order(answer: Any) -> Any:
    """Return an answer with a deterministic order of elements: sets as sorted lists."""
    return sorted(answer, key=repr) if isinstance(answer, set | frozenset) else answer


def _sets_of(votes: MultiLabels) -> npt.NDArray[np.object_]:
    """Return the distinct sets of a table, in table order."""
    return as_objects([frozenset(one) for one in votes.sets])


@dataclass(frozen=True)
class AnswersByRow:
    """Answers of any kind: the distinct answers in order, and the code of each row."""

    distinct: npt.NDArray[Any]
    codes: npt.NDArray[np.int64]
    #: Numbers of each row, (rows, dims), if answers are numbers.
    points: Array | None
    #: Default distance of the kind, if it does not follow from the type of the answers.
    own: str | None = None

    @classmethod
    def of(cls, votes: Answers) -> AnswersByRow:
        """Extract the answers of a table."""
        if isinstance(votes, Ratings):
            points = votes.table.columns()[2]
            distinct, codes = np.unique(points, axis=0, return_inverse=True)
            return cls(distinct, codes.reshape(-1).astype(np.int64), points)
        if isinstance(votes, Annotations):
            return cls(votes.labels, votes.table.columns()[2].astype(np.int64), None)
        if isinstance(votes, MultiLabels):
            return cls(_sets_of(votes), votes.codes()[2].astype(np.int64), None)
        assert isinstance(votes, Objects)
        _, _, answer_codes = votes.codes()
        if isinstance(votes, _Orders):
            return cls(votes.answers, answer_codes, None, "kendall")
        return cls(votes.answers, answer_codes, _points(votes.answers, answer_codes))

    def default_distance(self) -> str:
        """Return the default distance for the type of the answers."""
        if self.own is not None:
            return self.own
        if self.points is not None:
            return "squared"
        if self.distinct.dtype != object or not isinstance(self.distinct[0], str | set | frozenset):
            if _hashable(self.distinct):
                return "hamming"
            raise ValueError(f"pass distance=: there is no default for answers such as {self.distinct[0]!r}")
        return "levenshtein" if isinstance(self.distinct[0], str) else "jaccard"

    def ranks(self) -> npt.NDArray[np.uint32]:
        """Rank of each row's answer in the order of answers."""
        return self.codes.astype(np.uint32)

    def answers_of_rows(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the answers of some rows."""
        answers: npt.NDArray[Any] = self.distinct[self.codes[rows]]
        return answers[:, 0] if answers.ndim == 2 and answers.shape[1] == 1 else answers

    def means(self, means: Array) -> Array:
        """Return means as answers: plain numbers if answers have one dimension."""
        return means[:, 0] if means.shape[1] == 1 else means

    def distances(self, distance: Any, offsets: Offsets) -> Array:
        """Return the distances between all answers of each task, concatenated."""
        if isinstance(distance, str):
            if distance in NUMBERS:
                if self.points is None:
                    raise ValueError(f"distance {distance!r} requires numbers, with the same number in each answer")
                return _core.value_distances(offsets, self.points, distance)
            starts, words = self._words(distance)
            return _core.word_distances(offsets, starts, words, distance)
        if callable(distance):
            return self._call_distance(distance, offsets)
        return self._lookup_distances(distance, offsets)

    def _words(self, distance: str) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """Return the answers as sequences of codes: offsets of the rows, and all codes."""
        if distance == "hamming":
            return np.arange(len(self.codes) + 1, dtype=np.uint32), self.codes.astype(np.uint32)
        words = _spelling(distance, self.distinct)
        lengths = np.array([len(word) for word in words], np.int64)[self.codes]
        if lengths.sum() >= 2**32:
            raise MemoryError("answers contain more than 2**32 letters or items; aggregate fewer tasks at a time")
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32)
        return starts, np.concatenate([words[code] for code in self.codes]).astype(np.uint32)

    def _call_distance(self, distance: Callable[[Any, Any], float], offsets: Offsets) -> Array:
        blocks = []
        for task in range(len(offsets) - 1):
            codes, inverse = np.unique(self.codes[offsets[task] : offsets[task + 1]], return_inverse=True)
            block = np.zeros((len(codes), len(codes)))
            for i, a in enumerate(codes):
                for j, b in enumerate(codes[:i]):
                    block[i, j] = block[j, i] = _checked_distance(distance, self._plain(a), self._plain(b))
            blocks.append(block[np.ix_(inverse, inverse)].ravel())
        return np.concatenate(blocks)

    def _plain(self, code: Any) -> Any:
        """Return a distinct answer in the form passed to distance functions."""
        answer = self.distinct[[code]].tolist()[0]
        return answer[0] if self.distinct.ndim == 2 and len(answer) == 1 else answer

    def _lookup_distances(self, distance: Any, offsets: Offsets) -> Array:
        matrix = np.asarray(distance, np.float64)
        n = len(self.distinct)
        if matrix.shape != (n, n):
            raise ValueError(
                f"distance must be a name, a function, or an array of shape ({n}, {n}), not {matrix.shape}"
            )
        for bad, why in (
            (~np.isfinite(matrix), "is not finite"),
            (matrix < 0, "is negative"),
            (np.eye(n, dtype=np.bool_) & (matrix != 0), "must be 0, because the answers are equal"),
            (np.abs(matrix - matrix.T) > _SYMMETRY * np.maximum(matrix, matrix.T), "is not symmetric"),
        ):
            if bad.any():
                i, j = (int(place) for place in np.unravel_index(int(np.argmax(bad)), bad.shape))
                raise ValueError(f"distance {matrix[i, j]} between {self._plain(i)!r} and {self._plain(j)!r} {why}")
        parts = [self.codes[a:b] for a, b in pairwise(offsets)]
        return np.concatenate([matrix[np.ix_(codes, codes)].ravel() for codes in parts])


def _checked_distance(distance: Callable[[Any, Any], float], a: Any, b: Any) -> float:
    """Evaluate a distance function for two different answers, and validate it."""
    there, back = float(distance(a, b)), float(distance(b, a))
    for value, one, other in ((there, a, b), (back, b, a)):
        if not np.isfinite(value) or value < 0:
            raise ValueError(f"distance({one!r}, {other!r}) is {value}; a distance must be finite and not negative")
    if abs(there - back) > _SYMMETRY * max(there, back):
        raise ValueError(
            f"distance({a!r}, {b!r}) is {there}, but distance({b!r}, {a!r}) is {back}; a distance must be symmetric"
        )
    return there


def _points(distinct: npt.NDArray[Any], codes: npt.NDArray[np.int64]) -> Array | None:
    """Return the numbers of each row, if all answers are numbers or lists of equally many numbers."""
    kinds = int | float | np.number
    first = distinct[0]
    if isinstance(first, kinds) and not isinstance(first, bool):
        good = all(isinstance(answer, kinds) and not isinstance(answer, bool) for answer in distinct)
    else:
        good = isinstance(first, _LISTS) and all(
            isinstance(answer, _LISTS) and len(answer) == len(first) and all(isinstance(x, kinds) for x in answer)
            for answer in distinct
        )
    if not good:
        return None
    points = np.array(distinct.tolist(), np.float64).reshape(len(distinct), -1)
    return np.ascontiguousarray(points[codes]) if points.shape[1] and np.isfinite(points).all() else None


def _hashable(distinct: npt.NDArray[Any]) -> bool:
    try:
        return all(hash(answer) is not None for answer in distinct.tolist())
    except TypeError:
        return False


def _spelling(distance: str, distinct: npt.NDArray[Any]) -> list[npt.NDArray[np.uint32]]:
    """Return each distinct answer as a sequence of codes."""
    if distance == "levenshtein":
        for answer in distinct.tolist():
            if not isinstance(answer, str):
                raise TypeError(f"distance 'levenshtein' requires texts, not {answer!r}")
        return [np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32) for text in distinct.tolist()]
    parts = []
    for answer in distinct.tolist():
        if isinstance(answer, str) or not isinstance(answer, set | frozenset | list | tuple | np.ndarray):
            form = "sets" if distance == "jaccard" else "lists of items, best first"
            raise TypeError(f"distance {distance!r} requires {form}, not {answer!r}")
        items = list(answer)
        if distance == "kendall" and len({repr(item) for item in items}) < len(items):
            raise ValueError(f"the ranking {answer!r} contains an item twice")
        parts.append(items)
    codes, _ = encode_objects([item for items in parts for item in items])
    words = np.split(codes.astype(np.uint32), np.cumsum([len(items) for items in parts])[:-1])
    return [np.unique(word) for word in words] if distance == "jaccard" else words
