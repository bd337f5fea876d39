"""The general scheme for answers of any kind that have a distance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import arrow
from manyhands._base.checks import check_choice, check_number, check_stopping, counted, warn_unless_converged
from manyhands._base.estimator import Array, TaskEstimator
from manyhands._base.fitted import Fit, TaskFitted, encoded, flags, numbers
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

#: Distances that have a name: between numbers, and between words of codes.
NUMBERS = ("absolute", "squared")
WORDS = ("hamming", "jaccard", "kendall", "levenshtein")

#: What holds several numbers.
_LISTS = (list, tuple, np.ndarray)

#: How much a distance may differ from the way back, as a share, and be the same.
_SYMMETRY = 1e-9


def _pack_answers(answers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return answers if answers.dtype == np.float64 else pack_objects(answers.tolist())


def _unpack_answers(content: Content, name: str) -> npt.NDArray[Any]:
    held = content.arrays.get(name)
    if held is None or held.dtype != np.float64:
        return unpack_objects(content, name)
    if held.ndim not in (1, 2):
        raise content.damaged(f"{name!r} has shape {held.shape}")
    return content.array(name, np.float64)


@dataclass(frozen=True, kw_only=True)
class DistanceFit(Fit):
    """Answers of tasks, and weights of workers."""

    #: One a task: an array of numbers where the answers are, else of objects.
    answers: npt.NDArray[Any] = field(metadata=encoded("n", _pack_answers, _unpack_answers))
    #: Share of the weight of a task's workers who gave this answer; NaN for means.
    confidence: Array = field(metadata=numbers("n", missing=True))
    spread: Array = field(metadata=numbers("n"))
    tied: npt.NDArray[np.bool_] = field(metadata=flags("n"))
    weights: Array = field(metadata=numbers("m"))
    losses: Array = field(metadata=numbers("m"))


class ByDistance(TaskEstimator[Answers, DistanceFit, TaskFitted[DistanceFit]]):
    """Base of what finds answers of any kind by their distances: results and files."""

    _kind: ClassVar[str] = "objects"
    _file_kind: ClassVar[str] = "by-distance"
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
                f"not {type(answers).__name__}; Objects.from_arrays takes answers of any form"
            )
        return Objects.from_frame(answers)

    # ----------------------------------------------------------------------------------------------- results

    @property
    def objects_(self) -> npt.NDArray[Any]:
        """The answer to each task: (n_tasks,) objects or numbers, or (n_tasks, n_dims) for points."""
        return self._fitted().fit.answers

    @property
    def spread_(self) -> Array:
        """Weighted mean distance of a task's answers to the one that was found, (n_tasks,): 0 where all agree."""
        return self._fitted().fit.spread

    @property
    def confidence_(self) -> Array:
        """Share of the workers' weight behind exactly this answer, (n_tasks,).

        NaN where answers are means, which no worker need have given: see :attr:`spread_`.
        """
        return self._fitted().fit.confidence

    @property
    def tied_(self) -> npt.NDArray[np.bool_]:
        """Whether another answer would have done as well, (n_tasks,)."""
        return self._fitted().fit.tied

    @property
    def weights_(self) -> Array:
        """Weight of each worker, (n_workers,)."""
        return self._fitted().fit.weights

    @property
    def losses_(self) -> Array:
        """Average distance of each worker's answers to those found, imaginary ones included, (n_workers,)."""
        return self._fitted().fit.losses

    def to_frame(self) -> pa.Table:
        """Return task, answer, confidence, spread and whether it was a tie, as an Arrow table.

        Answers without an Arrow type are written as their ``repr``.
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
        decided = _column(self.objects_[place : place + 1])[0].as_py()
        said = [float(_in_order(one) == _in_order(decided)) for one in rows[1].to_pylist()]
        return {"agreement": np.array(said)}


class DistanceAggregator(ByDistance, default=True):
    """The answers that are nearest to what trusted workers said, for any kind of answers with a distance.

    Minimises Σ_m w_m Σ_n d(y_n, answer of m to n) over the answers y and the workers' weights w, of which a function
    r(w) is fixed. By turns: answers given weights, and weights given how far each worker is from the answers. An
    answer is the best of those given (a medoid), or the mean where numbers have squared distances.

    Takes :class:`~manyhands.Annotations`, :class:`~manyhands.Ratings`, :class:`~manyhands.MultiLabels`,
    :class:`~manyhands.Rankings`, whose lists are all answers to one task, and :class:`~manyhands.Objects`, which holds
    answers of any form. A kind that has methods of its own is better served by them: this one knows no bias, no
    classes that are confused, only that some workers are nearer than others.

    Parameters
    ----------
    distance
        ``"hamming"`` (0 for the same, else 1), ``"absolute"`` or ``"squared"`` (sums of differences of numbers),
        ``"jaccard"`` (sets: the share that is in one only), ``"kendall"`` (lists of items, best first: the share of
        common pairs in another order), ``"levenshtein"`` (texts: edits, as a share of the longer one); a function of
        two answers; or a square array with the distances between the distinct answers, ``votes.answers`` of objects
        and ``votes.classes`` of classes. None takes hamming for classes, squared for numbers, jaccard for sets, kendall
        for rankings, and for objects what suits their form: levenshtein for text, jaccard for sets, squared for
        numbers.
    answer
        ``"medoid"``, or ``"mean"`` for numbers with squared distance; None takes the mean where it can.
    weights
        What is fixed of the weights. ``"power"``: Σ (n_m + strength) w_m^(1 − 1/power), or at power 1 the product of
        all w_m to the power of (n_m + strength), so that w_m is proportional to (loss of m)^(−power). ``"log"``:
        Σ (n_m + strength) exp(−w_m), so that w_m is minus the logarithm of m's share of the losses (CRH).
    power
        Exponent of the losses, from 0, where all workers weigh the same, to 1.
    strength
        Imaginary answers of each worker with the crowd's average loss, so that who gave few answers is weighed like
        the crowd, and nobody's weight is boundless.
    max_iter, tol
        Stop after so many turns, or when the objective changes by less than `tol` of itself.

    Notes
    -----
    The loss of a worker is the average distance of their answers to those found, imaginary answers included; with
    these, both halves of a turn lower the same objective, which never rises (`history_`). With ``"log"`` a worker
    whose share of the losses is more than all weighs 0.

    Among equally good medoids the one nearest to all answers without weights wins, then the first in the order of the
    answers themselves (classes in their order, numbers from below, texts by alphabet); the order of rows and the names
    of workers never matter, and `tied_` tells where that happened.

    Time and memory O(Σ answers²) over tasks, for the distances between all answers to a task, of which a function is
    asked twice for each two that differ; with means O(answers). Nothing is sized tasks × workers.

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
        said = Said.of(votes)
        distance = said.usual() if self.distance is None else self.distance
        by_mean = self._by_mean(said, distance)
        offsets, (_, workers, _) = votes.table.offsets(), votes.table.columns()
        given: dict[str, Any]
        if by_mean:
            given = {"values": said.points}
        else:
            n_bytes = 8 * int((votes.labels_per_task.astype(np.float64) ** 2).sum())
            answers = counted(votes.n_annotations, "answer")
            check_memory(
                n_bytes, f"distances between {answers}", "aggregate parts of the tasks, or use sample(per_task=)"
            )
            given = {"distances": said.distances(distance, offsets), "rank": said.ranks()}
        found = _core.scheme_fit(
            offsets,
            workers,
            votes.weights,
            votes.n_workers,
            **given,
            power=None if self.weights == "log" else self.power,
            strength=self.strength,
            max_iter=self.max_iter,
            tol=self.tol,
            progress=progress,
        )
        warn_unless_converged(found["converged"], self)
        n = votes.n_tasks
        if by_mean:
            confidence = np.full(n, np.nan)
        else:
            tasks = votes.table.columns()[0].astype(np.int64)
            weight = found["weights"][workers] * (1.0 if votes.weights is None else votes.weights)
            same = said.codes == said.codes[found["rows"]][tasks]
            with np.errstate(invalid="ignore"):
                confidence = np.bincount(tasks, weight * same, n) / np.bincount(tasks, weight, n)
        return DistanceFit(
            answers=said.means(found["means"]) if by_mean else said.given(found["rows"]),
            confidence=confidence,
            spread=found["spread"],
            tied=found["tied"],
            weights=found["weights"],
            losses=found["losses"],
            history=found["history"],
            n_iter=found["n_iter"],
            converged=found["converged"],
        )

    def _by_mean(self, said: Said, distance: Any) -> bool:
        can = said.points is not None and isinstance(distance, str) and distance == "squared"
        if self.answer == "mean" and not can:
            raise ValueError("answer='mean' needs numbers and distance='squared'; other answers have a medoid")
        return can and self.answer != "medoid"


# -------------------------------------------------------------------------------------------------------- answers


class _Orders(Objects):
    """Rankings as answers to one task: lists of items, the best first."""

    __slots__ = ()

    @classmethod
    def of(cls, rankings: Rankings) -> _Orders:
        workers = rankings.workers[rankings.codes()[2].astype(np.int64)]
        lists = rankings.lists()
        return cls.from_arrays(["all"] * len(lists), workers, lists, rankings.weights)


def _column(answers: npt.NDArray[Any]) -> pa.Array:
    """Answers as an Arrow array; those without an Arrow type as they are written."""
    import pyarrow as pa

    plain = [_in_order(one) for one in answers.tolist()]
    try:
        return pa.array(plain)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([repr(answer) for answer in plain])


def _in_order(answer: Any) -> Any:
    """An answer whose elements have an order: a set as a list."""
    return sorted(answer, key=repr) if isinstance(answer, set | frozenset) else answer


def _sets_of(votes: MultiLabels) -> npt.NDArray[np.object_]:
    """The distinct sets of a table, in its order."""
    return as_objects([frozenset(one) for one in votes.sets])


@dataclass(frozen=True)
class Said:
    """What was said, whatever the kind: the distinct answers in their order, and which of them each row is."""

    distinct: npt.NDArray[Any]
    codes: npt.NDArray[np.int64]
    #: The numbers of each row, where answers are numbers, (rows, dims).
    points: Array | None
    #: The distance that the kind of answers has, where their form does not tell.
    own: str | None = None

    @classmethod
    def of(cls, votes: Answers) -> Said:
        """What a table says."""
        if isinstance(votes, Ratings):
            points = votes.table.columns()[2]
            distinct, codes = np.unique(points, axis=0, return_inverse=True)
            return cls(distinct, codes.reshape(-1).astype(np.int64), points)
        if isinstance(votes, Annotations):
            return cls(votes.labels, votes.table.columns()[2].astype(np.int64), None)
        if isinstance(votes, MultiLabels):
            return cls(_sets_of(votes), votes.codes()[2].astype(np.int64), None)
        assert isinstance(votes, Objects)
        _, _, said = votes.codes()
        if isinstance(votes, _Orders):
            return cls(votes.answers, said, None, "kendall")
        return cls(votes.answers, said, _points(votes.answers, said))

    def usual(self) -> str:
        """The distance that suits the form of the answers."""
        if self.own is not None:
            return self.own
        if self.points is not None:
            return "squared"
        if self.distinct.dtype != object or not isinstance(self.distinct[0], str | set | frozenset):
            if _hashable(self.distinct):
                return "hamming"
            raise ValueError(f"say distance=: none is usual between answers such as {self.distinct[0]!r}")
        return "levenshtein" if isinstance(self.distinct[0], str) else "jaccard"

    def ranks(self) -> npt.NDArray[np.uint32]:
        """Place of each row's answer in the order of answers."""
        return self.codes.astype(np.uint32)

    def given(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The answers of some rows."""
        chosen: npt.NDArray[Any] = self.distinct[self.codes[rows]]
        return chosen[:, 0] if chosen.ndim == 2 and chosen.shape[1] == 1 else chosen

    def means(self, means: Array) -> Array:
        """Means as answers: plain numbers where an answer is one."""
        return means[:, 0] if means.shape[1] == 1 else means

    def distances(self, distance: Any, offsets: Offsets) -> Array:
        """Distances between all answers of each task, on end."""
        if isinstance(distance, str):
            if distance in NUMBERS:
                if self.points is None:
                    raise ValueError(f"distance {distance!r} is one between numbers, as many in each answer")
                return _core.value_distances(offsets, self.points, distance)
            starts, words = self._words(distance)
            return _core.word_distances(offsets, starts, words, distance)
        if callable(distance):
            return self._called(distance, offsets)
        return self._looked_up(distance, offsets)

    def _words(self, distance: str) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """Answers as words of codes: where each row's begins, and all of them on end."""
        if distance == "hamming":
            return np.arange(len(self.codes) + 1, dtype=np.uint32), self.codes.astype(np.uint32)
        spelt = _spelling(distance, self.distinct)
        lengths = np.array([len(word) for word in spelt], np.int64)[self.codes]
        if lengths.sum() >= 2**32:
            raise MemoryError("answers are longer than 2**32 letters or items in all; aggregate parts of the tasks")
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32)
        return starts, np.concatenate([spelt[code] for code in self.codes]).astype(np.uint32)

    def _called(self, distance: Callable[[Any, Any], float], offsets: Offsets) -> Array:
        blocks = []
        for task in range(len(offsets) - 1):
            codes, inverse = np.unique(self.codes[offsets[task] : offsets[task + 1]], return_inverse=True)
            block = np.zeros((len(codes), len(codes)))
            for i, a in enumerate(codes):
                for j, b in enumerate(codes[:i]):
                    block[i, j] = block[j, i] = _between(distance, self._plain(a), self._plain(b))
            blocks.append(block[np.ix_(inverse, inverse)].ravel())
        return np.concatenate(blocks)

    def _plain(self, code: Any) -> Any:
        """A distinct answer, as a function of two gets it."""
        answer = self.distinct[[code]].tolist()[0]
        return answer[0] if self.distinct.ndim == 2 and len(answer) == 1 else answer

    def _looked_up(self, distance: Any, offsets: Offsets) -> Array:
        given = np.asarray(distance, np.float64)
        n = len(self.distinct)
        if given.shape != (n, n):
            raise ValueError(f"distance must be a name, a function, or an array of shape ({n}, {n}), not {given.shape}")
        for bad, why in (
            (~np.isfinite(given), "is not finite"),
            (given < 0, "is negative"),
            (np.eye(n, dtype=np.bool_) & (given != 0), "is that of an answer from itself, and not 0"),
            (np.abs(given - given.T) > _SYMMETRY * np.maximum(given, given.T), "differs from the way back"),
        ):
            if bad.any():
                i, j = (int(place) for place in np.unravel_index(int(np.argmax(bad)), bad.shape))
                raise ValueError(f"distance {given[i, j]} between {self._plain(i)!r} and {self._plain(j)!r} {why}")
        parts = [self.codes[a:b] for a, b in pairwise(offsets)]
        return np.concatenate([given[np.ix_(codes, codes)].ravel() for codes in parts])


def _between(distance: Callable[[Any, Any], float], a: Any, b: Any) -> float:
    """What a function says of two answers that differ, if it is a distance."""
    there, back = float(distance(a, b)), float(distance(b, a))
    for found, one, other in ((there, a, b), (back, b, a)):
        if not np.isfinite(found) or found < 0:
            raise ValueError(f"distance({one!r}, {other!r}) is {found}; a distance is finite and not negative")
    if abs(there - back) > _SYMMETRY * max(there, back):
        raise ValueError(
            f"distance({a!r}, {b!r}) is {there} and distance({b!r}, {a!r}) is {back}; a distance is the same both ways"
        )
    return there


def _points(distinct: npt.NDArray[Any], codes: npt.NDArray[np.int64]) -> Array | None:
    """Numbers of each row, where all answers are numbers or equally many numbers."""
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
    """Each distinct answer as a word of codes."""
    if distance == "levenshtein":
        for answer in distinct.tolist():
            if not isinstance(answer, str):
                raise TypeError(f"distance 'levenshtein' is one between texts, not {answer!r}")
        return [np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32) for text in distinct.tolist()]
    parts = []
    for answer in distinct.tolist():
        if isinstance(answer, str) or not isinstance(answer, set | frozenset | list | tuple | np.ndarray):
            form = "sets" if distance == "jaccard" else "lists of items, best first"
            raise TypeError(f"distance {distance!r} is one between {form}, not {answer!r}")
        items = list(answer)
        if distance == "kendall" and len({repr(item) for item in items}) < len(items):
            raise ValueError(f"the order {answer!r} names an item twice")
        parts.append(items)
    codes, _ = encode_objects([item for items in parts for item in items])
    words = np.split(codes.astype(np.uint32), np.cumsum([len(items) for items in parts])[:-1])
    return [np.unique(word) for word in words] if distance == "jaccard" else words
