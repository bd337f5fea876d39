"""Answers to deliver at a tested error rate, and a plan for the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow
from manyhands._base.binomial import binomial_tail, binomial_upper, fewest_for, unseen_tail, unseen_upper
from manyhands._base.checks import check_between, check_number, plural, preview, warn_of_data
from manyhands._base.estimator import Array
from manyhands._base.frames import names_of, take_columns
from manyhands._base.names import Names, sequence
from manyhands._base.results import Results
from manyhands.categorical.base import Aggregator
from manyhands.collect.batch import buy
from manyhands.collect.beliefs import beliefs_of
from manyhands.collect.crowd import Pool, pool_of
from manyhands.collect.gains import Ints

if TYPE_CHECKING:
    import pyarrow as pa

Marks = npt.NDArray[np.bool_]
Match = float | Callable[[Any, Any], bool]

#: Thresholds that are tested: each keeps so much more of the tasks.
_STEPS = 20
#: Wrong answers that the strictest threshold can bear, so that one bad draw does not end the test.
_BEARS = 2
#: Parts of the error probability for the first, middle and last threshold, where tests begin, if that many wrong
#: answers are expected among known ones at the promised rate.
_STARTS, _MANY = (0.6, 0.2, 0.2), 20
#: Part of the error probability for tests of each class by itself, and the wrong answers expected in each of them.
_FOR_CLASSES, _MANY_IN_CLASS = 0.1, 5
#: Tasks times options that a plan compares at most.
_MOST_PAIRS = 1 << 26
#: Standard errors by which known answers may look easier or harder than the log before that is reported.
_ODD = 4.0


@dataclass(frozen=True, eq=False, repr=False)
class Promise:
    """Answers that can be delivered at a tested error rate, and a plan for the rest; made by :func:`promise`.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(2000, 30, 3, labels_per_task=5, seed=1)
    >>> model = mh.aggregate(crowd.log)
    >>> known = {task: int(crowd.truth[task]) for task in range(400)}
    >>> promise = mh.promise(model, known, error=0.05)
    >>> len(promise.kept) + len(promise.rest)
    2000
    >>> promise.error_bound <= 0.05
    True
    """

    #: Kept tasks: the rows of the model's `to_frame`, and whether the answer is a known one.
    kept: pa.Table
    #: All other tasks, with the answers that cannot be promised.
    rest: pa.Table
    #: The least confidence of a kept answer; infinite where nothing can be kept.
    threshold: float
    #: Clopper–Pearson upper bound of the error rate of kept answers; at the strictest threshold where none passes.
    error_bound: float
    #: The same for the kept answers that are not known, exact for this log; at most `error` where something is kept.
    unseen_bound: float
    error: float
    confidence: float
    #: Known answers among the kept ones, and how many of the model's are wrong there.
    n_tested: int
    n_wrong: int
    #: All known answers.
    n_known: int
    n_kept: int
    n_rest: int
    #: Thresholds of the kept classes, where testing them one by one keeps more answers than one threshold; else empty.
    thresholds: dict[Any, float] = field(default_factory=dict)
    #: Who answers the rest: ``task``, ``worker``, ``cost``, ``expected_accuracy``; null where no option has time. None
    #: where no options were given.
    plan: pa.Table | None = None
    _model: Any = field(default=None)
    _truth: tuple[Ints, npt.NDArray[Any]] | None = field(default=None)

    @property
    def cost(self) -> float:
        """What the plan costs."""
        return 0.0 if self.plan is None else sum(self.plan.column("cost").drop_null().to_pylist(), 0.0)

    def label_sets(self) -> pa.Table:
        """Return a set of classes per task that contains the right one, for a softer promise about every task.

        With probability `confidence` over the draw of the known answers, at least 1 - `error` of the sets of tasks
        without a known answer contain the right class. A task with several classes is narrowed down, not answered. For
        classes only.

        Returns
        -------
        pyarrow.Table
            ``task``, ``labels`` (most probable first) and ``n_labels``, a row per task.

        Notes
        -----
        Split conformal prediction by the probability of the right class. The threshold is the largest order statistic
        whose coverage is at least 1 - error with the stated confidence, of all sets that could be drawn (a Beta
        variable) and of those of this log's other tasks (hypergeometric). Time O(n_tasks · n_classes).

        References
        ----------
        V. Vovk, "Conditional validity of inductive conformal predictors", ACML (2012).
        """
        if self._truth is None:
            raise TypeError(
                f"sets of labels are for answers that are classes, not those of {type(self._model).__name__}"
            )
        index, truth = self._truth
        place = {name: at for at, name in enumerate(self._model.classes_.tolist())}
        codes = np.array([place.get(name, -1) for name in truth.tolist()])
        posterior = self._model.posterior_
        scores = np.where(codes >= 0, posterior[index, codes], 0.0)
        nth = n_excluded(len(scores), len(posterior) - len(scores), self.error, self.confidence)
        least = float(np.sort(scores)[nth]) if nth >= 0 else 0.0
        inside = posterior >= least
        # A set is never empty: the answer itself is in.
        inside[np.arange(len(inside)), posterior.argmax(axis=1)] = True
        order = np.argsort(-np.where(inside, posterior, -1.0), axis=1, kind="stable")
        sizes = inside.sum(axis=1)
        rows = np.repeat(np.arange(len(sizes)), sizes)
        picks = order[rows, np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)]
        labels = arrow.lists(len(sizes), rows, self._model._classes.take(picks).arrow())
        return arrow.table({"task": self._model._tasks.arrow(), "labels": labels, "n_labels": sizes})

    def __repr__(self) -> str:
        goal = f"at most {self.error:.1%} wrong with confidence {self.confidence:g}"
        bound = max(self.error_bound, self.unseen_bound)
        tested = f"{self.n_wrong:,} of {plural(self.n_tested, 'known answer')} wrong, bound {bound:.2%}"
        total = plural(self.n_kept + self.n_rest, "task")
        where = f"confidence >= {self.threshold:.4g}"
        if self.thresholds:
            where = f"thresholds of {plural(len(self.thresholds), 'class', 'classes')}"
        share = f"{self.n_kept:,} of {total} kept at {where}"
        share = share if self.n_kept else f"none of {total} can be kept; at the strictest threshold"
        plan = ""
        if self.plan is not None:
            n = self.plan.num_rows - self.plan.column("worker").null_count
            plan = f"; {plural(n, 'task')} of the rest planned at a cost of {self.cost:,g}"
        return f"<Promise of {goal}: {share} ({tested}){plan}>"


def promise(
    model: Any,
    gold: Any,
    error: float = 0.05,
    confidence: float = 0.9,
    *,
    match: Match | None = None,
    options: Any = None,
    budget: float | None = None,
) -> Promise:
    """Split tasks into answers to deliver at a tested error rate and the rest, which is planned.

    Use it before labels are delivered under a contract such as "at most 5 % wrong". The guarantee comes from known
    answers, not from the model's confidence: a misled crowd keeps fewer tasks, and does not break it.

    Parameters
    ----------
    model
        A fitted aggregator of any kind with a confidence; its confidence only has to rank answers.
    gold
        Known answers of a random sample of the tasks, which the model was not fitted with: a mapping, a pair
        ``(tasks, answers)``, or a frame. For kinds other than classes, values that are all True or False say whether
        the model's answer is right.
    error : float, default 0.05
        The error rate to promise, such as 0.05.
    confidence : float, default 0.9
        The probability, over the draw of the known answers, with which the promise is kept.
    match
        What counts as right where answers are not compared for equality: for numbers the largest distance; for other
        kinds a function of the model's answer and the known one.
    options
        Who can answer the rest, people, experts, judges and models alike: names of workers, ``"all"`` the model's, or a
        frame with a column ``worker`` and, where there are any, ``capacity`` (answers that each can give), ``cost``
        (of one) and ``accuracy`` (needed for those the model does not know).
    budget : float or None, default None
        The most that the plan may cost; needs a column ``cost``.

    Returns
    -------
    Promise
        `kept`, `rest`, `threshold`, `error_bound`, `plan`, `label_sets()`.

    Raises
    ------
    ValueError
        If known answers are too few for any promise, or were used to fit the model.

    Warns
    -----
    DataWarning
        If no threshold passes, so that nothing is kept; or if the known answers look easier or harder than the log.

    Notes
    -----
    Thresholds are 20 quantiles of the confidence of all tasks, so that they do not depend on which answers are right.
    They are tested from the strictest down, starting where two wrong answers can be borne, up to the first that fails
    (fixed-sequence testing). A threshold passes if the Clopper–Pearson bound of the error rate above it, and the exact
    hypergeometric bound of the error rate among its tasks without a known answer, are at most `error`. Equal
    confidences are kept or left together. Time O(n_tasks log n_tasks); a plan takes O(n_rest · n_options) memory.

    The most confident answers of a misled crowd may be the worst. Where 20 wrong answers are expected among the known
    ones at the promised rate, the error probability 1 - `confidence` is divided: the test begins again at the middle
    and at the last threshold with a fifth of it each (the fallback procedure, where a threshold that passes hands its
    part on to the next), and a tenth of it tests every class by itself. The larger set is kept: that of one threshold
    for all or that of the thresholds of classes.

    References
    ----------
    C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial",
    Biometrika 26 (1934). B. L. Wiens, A. Dmitrienko, "The fallback procedure for evaluating a single family of
    hypotheses", Journal of Biopharmaceutical Statistics 15 (2005). A. N. Angelopoulos et al., "Learn then test", Annals
    of Applied Statistics 19 (2025). J. Jung, F. Brahman, Y. Choi, "Trust or escalate", ICLR (2025).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(2000, 30, 3, labels_per_task=5, seed=1)
    >>> model = mh.aggregate(crowd.log)
    >>> known = {task: int(crowd.truth[task]) for task in range(400)}
    >>> team = {"worker": ["Ann", "model"], "accuracy": [0.99, 0.9], "capacity": [300, 2000], "cost": [1.0, 0.01]}
    >>> promise = mh.promise(model, known, error=0.05, options=team)
    >>> promise  # doctest: +NORMALIZE_WHITESPACE
    <Promise of at most 5.0% wrong with confidence 0.9: 1,700 of 2,000 tasks kept at confidence >= 0.7466
    (9 of 342 known answers wrong, bound 4.27%); 242 tasks of the rest planned at a cost of 242>
    """
    if not isinstance(model, Results):
        raise TypeError(f"expected a fitted aggregator, such as mh.aggregate(votes), not {type(model).__name__}")
    check_between("error", error, such_as=0.05)
    check_between("confidence", confidence, such_as=0.9)
    model._fitted()
    now = copy(model)
    sure = np.asarray(now.confidence_, np.float64)
    if not np.isfinite(sure).any():
        raise ValueError(f"{type(model).__name__} has no confidence for its answers; use another method")
    # Answers without a confidence, such as an image without boxes, are the least sure ones.
    sure = np.nan_to_num(sure, nan=0.0)
    index, wrong, truth = _compare(now, gold, match)
    _check_unused(now, index)
    _check_enough(len(index), error, confidence)
    _warn_if_odd(sure, index)
    codes, classes = None, []
    if isinstance(now, Aggregator):
        codes, classes = now._won.codes.astype(np.int64), now.classes_.tolist()
    tested = keep_answers(chains(sure, len(index), error, confidence, codes), sure, index, wrong, error, confidence)
    keep = tested.keep
    if not keep.any():
        warn_of_data(
            f"no answer can be kept at an error of {error:g} with confidence {confidence:g}: of "
            f"{plural(tested.n, 'known answer')} at the strictest threshold {tested.n_wrong} are wrong; gather more "
            "known answers or labels"
        )
    with_gold = np.zeros(len(sure), np.bool_)
    with_gold[index] = True
    frame = _with_known(now, with_gold, truth)
    plan = None if options is None else _plan(now, np.flatnonzero(~keep & ~with_gold), options, budget)
    if options is None and budget is not None:
        raise ValueError("budget is for a plan of the rest; pass options=")
    return Promise(
        kept=_rows_of(frame, now, keep),
        rest=_rows_of(frame, now, ~keep),
        threshold=float(sure[keep].min()) if keep.any() else math.inf,
        error_bound=tested.bound,
        unseen_bound=tested.unseen_bound,
        error=float(error),
        confidence=float(confidence),
        n_tested=tested.n,
        n_wrong=tested.n_wrong,
        n_known=len(index),
        n_kept=int(keep.sum()),
        n_rest=int((~keep).sum()),
        thresholds={classes[code]: value for code, value in tested.thresholds.items()},
        plan=plan,
        _model=now,
        _truth=None if truth is None else (index, truth),
    )


# ------------------------------------------------------------------------------------------------- thresholds


@dataclass(frozen=True, eq=False)
class Chain:
    """Thresholds for all tasks or for those of one class, and the error probability each of them gets."""

    #: The tasks; None for all.
    inside: Marks | None
    #: The strictest first.
    thresholds: Array
    #: Tasks at or above each of them.
    sizes: Ints
    levels: Array
    #: The class; -1 for all tasks.
    code: int = -1


@dataclass(frozen=True, eq=False)
class Outcome:
    """The kept tasks, and bounds of their error rate."""

    keep: Marks
    bound: float
    unseen_bound: float
    n: int
    n_wrong: int
    #: Thresholds by the code of the class, where these are used.
    thresholds: dict[int, float]


def chains(sure: Array, n_known: int, error: float, confidence: float, codes: Ints | None) -> list[Chain]:
    """Return what is tested at which level: it depends on how many answers are known, not on which are right.

    The levels sum to 1 - confidence, hence a threshold that breaks the promise passes at most so often.
    """
    delta, n_expected = 1 - confidence, n_known * error
    if n_expected < _MANY:
        return [_chain(sure, None, n_known, error, delta, (1.0,))]
    sizes = np.zeros(0, np.int64) if codes is None else np.bincount(codes)
    classes = np.flatnonzero(sizes * n_expected >= _MANY_IN_CLASS * len(sure)).tolist()
    whole = delta * (1 - _FOR_CLASSES) if classes else delta
    parts = [_chain(sure, None, n_known, error, whole, _STARTS)]
    for code in classes:
        inside = np.asarray(codes == code)
        n = round(n_known * int(sizes[code]) / len(sure))
        parts.append(_chain(sure, inside, n, error, delta * _FOR_CLASSES / len(classes), _STARTS, code))
    return parts


def _chain(
    sure: Array,
    inside: Marks | None,
    n_known: int,
    error: float,
    delta: float,
    starts: tuple[float, ...],
    code: int = -1,
) -> Chain:
    """Thresholds of some tasks, and a part of the error probability for each place where the test begins."""
    ordered = np.sort(sure if inside is None else sure[inside])
    values = thresholds(ordered, n_known, error, 1 - delta)
    levels = np.zeros(len(values))
    np.add.at(levels, np.linspace(0, len(values) - 1, len(starts)).round().astype(np.int64), delta * np.array(starts))
    return Chain(inside, values, len(ordered) - np.searchsorted(ordered, values), levels, code)


def keep_answers(
    parts: list[Chain], sure: Array, index: Ints, wrong: Marks, error: float, confidence: float
) -> Outcome:
    """Return the answers to keep: the larger of what one threshold and what thresholds by class keep."""
    lowest = [_lowest(part, sure, index, wrong, error) for part in parts]
    sizes = [int(part.sizes[at]) if at >= 0 else 0 for part, at in zip(parts, lowest, strict=True)]
    whole = parts[0]
    by_class: dict[int, float] = {}
    keep = np.zeros(len(sure), np.bool_)
    if sum(sizes[1:]) > sizes[0]:
        for part, at in zip(parts[1:], lowest[1:], strict=True):
            if at >= 0:
                assert part.inside is not None
                by_class[part.code] = float(part.thresholds[at])
                keep |= part.inside & (sure >= part.thresholds[at])
    elif lowest[0] >= 0:
        keep = sure >= whole.thresholds[lowest[0]]
    # Where nothing passes, the bounds are those of the strictest threshold.
    bounded = keep if keep.any() else sure >= whole.thresholds[0]
    n, n_wrong = int(bounded[index].sum()), int(wrong[bounded[index]].sum())
    unseen = int(bounded.sum()) - n
    bounds = binomial_upper(n_wrong, n, confidence), unseen_upper(n_wrong, n, unseen, confidence)
    return Outcome(keep, *bounds, n, n_wrong, by_class)


def _lowest(part: Chain, sure: Array, index: Ints, wrong: Marks, error: float) -> int:
    """Place of the lowest threshold that passes; -1 if none does."""
    here = slice(None) if part.inside is None else part.inside[index]
    gold, bad = sure[index][here], wrong[here]
    n = len(gold) - np.searchsorted(np.sort(gold), part.thresholds)
    n_wrong = int(bad.sum()) - np.searchsorted(np.sort(gold[bad]), part.thresholds)
    level, lowest = 0.0, -1
    for at, (more, size) in enumerate(zip(part.levels.tolist(), part.sizes.tolist(), strict=True)):
        level += more
        if level and chance(int(n_wrong[at]), int(n[at]), size - int(n[at]), error) <= level:
            lowest = at
        else:
            level = 0.0
    return lowest


def chance(n_wrong: int, n: int, unseen: int, error: float) -> float:
    """Probability of at most that many wrong ones among n known answers, if the promise is broken."""
    if n_wrong >= n * error:
        return 1.0
    return max(binomial_tail(n_wrong, n, error), unseen_tail(n_wrong, n, unseen, error))


def thresholds(ordered: Array, n_known: int, error: float, confidence: float) -> Array:
    """Confidences to test, the strictest first: they depend on how many answers are known, not on which are right.

    The first passes with two wrong answers if it has as many known answers as are expected there; with one or none,
    where two would take more than half of the tasks.
    """
    n = len(ordered)
    at = (np.arange(_STEPS) * n) // _STEPS
    values = np.unique(ordered[at])[::-1]
    sizes = n - np.searchsorted(ordered, values)
    for bears in range(_BEARS, -1, -1):
        for first, size in enumerate(sizes.tolist()):
            expected = size * n_known // n
            if chance(bears, expected, size - expected, error) <= 1 - confidence:
                if bears == 0 or size <= n / 2:
                    return np.asarray(values[first:])
                break
    return np.asarray(values[-1:])


def n_excluded(n: int, unseen: int, error: float, confidence: float) -> int:
    """How many of n known answers may lie outside of their sets, so that at most `error` of all and of the unseen do.

    -1 if even none may.
    """
    low, high = -1, n
    while high - low > 1:
        middle = (low + high) // 2
        passes = chance(middle, n, unseen, error) <= 1 - confidence
        low, high = (middle, high) if passes else (low, middle)
    return low


# ------------------------------------------------------------------------------------------------ known answers


def _compare(model: Any, gold: Any, match: Match | None) -> tuple[Ints, Marks, npt.NDArray[Any] | None]:
    """Places of tasks whose answer is known, whether the model's is wrong, and the known classes."""
    if isinstance(model, Aggregator):
        from manyhands.metrics import match_gold

        if match is not None:
            raise ValueError("match= is for answers that are not classes; classes are right or wrong")
        index, truth = match_gold(model.tasks_, gold)
        _check_classes(model.classes_.tolist(), truth.tolist())
        return index, np.asarray(model.labels_[index] != truth), truth
    tasks, answers = _pairs(gold)
    index = model._about.find(tasks)
    if (index < 0).any():
        unknown = [task for task, at in zip(tasks, index.tolist(), strict=True) if at < 0]
        raise ValueError(f"{len(unknown):,} of {len(tasks):,} gold task ids are not in the log: {preview(unknown)}")
    if len(set(index.tolist())) < len(index):
        raise ValueError("gold names a task twice; keep one answer per task")
    if answers and all(isinstance(answer, bool | np.bool_) for answer in answers):
        return index, ~np.array(answers, np.bool_), None
    same = _same(model, match)
    ours = _answers_at(model, index)
    return index, np.array([not same(one, other) for one, other in zip(ours, answers, strict=True)], np.bool_), None


def _check_classes(classes: list[Any], truth: list[Any]) -> None:
    """Raise for known answers of another type than the classes: texts for numbers, or whether the model is right."""
    verdicts = any(isinstance(label, bool) for label in truth) > any(isinstance(label, bool) for label in classes)
    if verdicts or not set(truth) & set(classes):
        labels = preview(list(dict.fromkeys(truth)))
        raise ValueError(f"gold must give the class of each task, one of {preview(classes)}, not {labels}")


def _pairs(gold: Any) -> tuple[list[Any], list[Any]]:
    """Tasks and answers, in lists."""
    if isinstance(gold, tuple) and len(gold) == 2:
        tasks, answers = list(gold[0]), list(gold[1])
        if len(tasks) != len(answers):
            raise ValueError(f"gold has {len(tasks):,} tasks and {len(answers):,} answers")
        return tasks, answers
    if isinstance(gold, Mapping):
        return list(gold), list(gold.values())
    names = names_of(gold)
    if len(names) != 2:
        raise ValueError(
            f"gold must be a mapping, a pair (tasks, answers) or a frame with two columns, not {preview(names)}"
        )
    columns = [take_columns(gold, task=name)["task"][1] for name in names]
    tasks, answers = ([getattr(one, "as_py", lambda one=one: one)() for one in column] for column in columns)
    return tasks, answers


def _same(model: Any, match: Match | None) -> Callable[[Any, Any], bool]:
    """What decides if an answer is right."""
    if callable(match):
        return match
    if model._kind == "numeric":
        if match is None:
            raise ValueError("numbers are never exactly right; pass match=, the largest distance that counts as right")
        check_number("match", match, least=0)
        return lambda ours, known: bool(np.all(np.abs(np.subtract(_numbers(ours), _numbers(known))) <= match))
    if match is not None:
        raise TypeError(f"match must be a function of two answers for {model._kind} answers, not {match!r}")
    if model._kind in ("masks", "boxes", "objects"):
        raise ValueError(
            f"{model._kind} are never exactly right; pass match=, a function of the model's answer and the known one, "
            "or gold values True and False"
        )
    return lambda ours, known: _plain(ours) == _plain(known)


def _numbers(answer: Any) -> Any:
    return list(answer.values()) if isinstance(answer, Mapping) else answer


def _plain(answer: Any) -> Any:
    """An answer as it can be compared: sets and spans have no order."""
    if isinstance(answer, Mapping):
        return frozenset((name, _plain(value)) for name, value in answer.items())
    if isinstance(answer, list | tuple | set | frozenset | np.ndarray):
        return frozenset(map(_plain, answer))
    return answer


def _answers_at(model: Any, index: Ints) -> list[Any]:
    """Answers of some tasks as plain values."""
    if model._several_rows:
        return [model._answer_at(int(at)) for at in index]
    frame = model.to_frame()
    names = frame.column_names[1 : frame.column_names.index("confidence")]
    rows = arrow.take(frame.select(names), index).to_pylist()
    return [row[names[0]] for row in rows] if len(names) == 1 else rows


def _check_unused(model: Any, index: Ints) -> None:
    """Raise if the model was fitted with some of the known answers."""
    used = getattr(model, "gold", None)
    if used is None:
        return
    from manyhands.metrics import match_gold

    fitted, _ = match_gold(model.tasks_, used, unknown="ignore")
    both = np.intersect1d(fitted, index)
    if len(both):
        raise ValueError(
            f"{len(both):,} of {len(index):,} known answers were used to fit the model, which makes them easier than "
            "the rest; split the gold at random: one part for the fit, the other for the promise"
        )


def _check_enough(n: int, error: float, confidence: float) -> None:
    need = fewest_for(0, error, confidence)
    if n < need:
        raise ValueError(
            f"{plural(n, 'known answer')} cannot support a promise: an error of {error:g} with confidence "
            f"{confidence:g} needs at least {need:,}, from a random sample of the tasks"
        )


def _warn_if_odd(sure: Array, index: Ints) -> None:
    """Warn where known answers have confidences that a random sample would hardly have."""
    n, m = len(index), len(sure) - len(index)
    if not m:
        return
    _, place, sizes = np.unique(sure, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(sizes) - (sizes - 1) / 2)[place]
    spread = math.sqrt(n * m / 12 * (len(sure) + 1))
    z = (float(ranks[index].sum()) - n * (len(sure) + 1) / 2) / spread
    if abs(z) > _ODD:
        kind = "more" if z > 0 else "less"
        warn_of_data(
            f"the model is {kind} confident about tasks with a known answer than about others (z = {z:.1f}): the "
            "promise holds for a random sample of the tasks only"
        )


# ------------------------------------------------------------------------------------------------- frames, plan


def _with_known(model: Any, known: Marks, truth: npt.NDArray[Any] | None) -> pa.Table:
    """The model's answers, those that are known in their place, and which they are."""
    frame = model.to_frame()
    if model._several_rows:
        names = sequence(frame.column(0), "tasks")
        marks = known[model._about.match(names)]
    else:
        marks = known
    if truth is not None:
        labels = frame.column("label").to_pylist()
        for at, label in zip(np.flatnonzero(known).tolist(), truth.tolist(), strict=True):
            labels[at] = label
        place = frame.column_names.index("label")
        frame = frame.set_column(place, "label", sequence(labels, "labels").arrow())
    return frame.append_column("known", arrow.from_numpy(marks))


def _rows_of(frame: pa.Table, model: Any, keep: Marks) -> pa.Table:
    if not model._several_rows:
        return frame.filter(arrow.from_numpy(keep))
    import pyarrow.compute as pc

    return frame.filter(pc.is_in(frame.column(0), value_set=model._about.take(np.flatnonzero(keep)).arrow()))


def _plan(model: Any, rows: Ints, options: Any, budget: float | None) -> pa.Table:
    """Who answers which of the rest, as many right as possible within capacities and the budget."""
    pool = pool_of(options, model._held("workers"))
    if budget is not None:
        check_number("budget", budget, least=0)
        if pool.cost is None:
            raise ValueError("budget needs options with a column cost")
    if len(rows) * len(pool) > _MOST_PAIRS:
        raise ValueError(
            f"{len(rows):,} tasks and {plural(len(pool), 'option')} are too many to compare; name fewer options"
        )
    from manyhands.defer.assignment import assign  # `collect` alone needs no part of `defer`

    scores = _right(model, rows, pool, options)
    capacity = np.full(len(pool), len(rows)) if pool.capacity is None else np.minimum(pool.capacity, len(rows))
    if not len(rows):
        picks = np.zeros(0, np.int64)
    elif budget is not None and pool.cost is not None:
        picks = buy(scores, pool.cost, capacity, float(budget))
    else:
        # The cheaper of equally good ones; any option before none.
        cost = np.zeros(len(pool)) if pool.cost is None else pool.cost / pool.cost.max()
        idle = np.full((len(rows), 1), -2.0)
        picks = assign(np.hstack([scores - 1e-9 * cost, idle]), upper=[*capacity.tolist(), len(rows)])
        picks = np.where(picks == len(pool), -1, picks)
    import pyarrow as pa

    planned = picks >= 0
    price = np.ones(len(pool)) if pool.cost is None else pool.cost
    return arrow.table(
        {
            "task": model._about.take(rows).arrow(),
            "worker": pool.names.arrow().take(pa.array(np.maximum(picks, 0), mask=~planned)),
            "cost": pa.array(price[np.maximum(picks, 0)], mask=~planned),
            "expected_accuracy": pa.array(scores[np.arange(len(rows)), np.maximum(picks, 0)], mask=~planned),
        }
    )


def _right(model: Any, rows: Ints, pool: Pool, options: Any) -> Array:
    """Probability that each option answers each task right, (n_rows, n_options); -inf where it answered already."""
    accuracy = _accuracies(options, len(pool))
    codes = model._held("workers").match(pool.names)
    lacking = np.isnan(accuracy) & (codes < 0)
    if lacking.any():
        names = pool.names.values[lacking].tolist()
        raise ValueError(f"the model does not know {preview(names)}; give the column accuracy of options")
    scores = np.tile(accuracy, (len(rows), 1))
    learned = np.flatnonzero(np.isnan(accuracy))
    if len(learned):
        scores[:, learned] = _skills(model, rows, pool.names.take(learned), codes[learned])
    place = {int(code): column for column, code in enumerate(codes.tolist()) if code >= 0}
    votes = model._held("votes")
    if place and votes is not None:
        task_codes, worker_codes = votes.table.columns()[:2]
        of = np.full(len(model._about), -1, np.int64)
        of[votes_places(model, votes, rows)] = np.arange(len(rows))
        mine = (of[task_codes] >= 0) & np.isin(worker_codes, list(place))
        column = np.array([place[int(code)] for code in worker_codes[mine]], np.int64)
        scores[of[task_codes[mine]], column] = -np.inf
    return scores


def votes_places(model: Any, votes: Any, rows: Ints) -> Ints:
    """Codes of a model's tasks in its table."""
    return rows if votes._tasks is model._about else votes._tasks.match(model._about.take(rows))


def _skills(model: Any, rows: Ints, names: Names, known: Ints) -> Array:
    """How often workers of the model are expected to be right about tasks."""
    if isinstance(model, Aggregator):
        beliefs = beliefs_of(model, workers=names)
        k = beliefs.posterior.shape[1]
        right = beliefs.confusion[:, np.arange(k), np.arange(k)]
        return np.asarray(beliefs.posterior[rows] @ right.T)
    skill = arrow.to_numpy(model.workers_frame().column("skill")).astype(np.float64)[known]
    if not np.isfinite(skill).all():
        worst = names.values[~np.isfinite(skill)].tolist()
        raise ValueError(f"the model has no skill of {preview(worst)}; give the column accuracy of options")
    return np.tile(np.clip(skill, 0.0, 1.0), (len(rows), 1))


def _accuracies(options: Any, n: int) -> Array:
    """The column of accuracies of options; NaN where there is none."""
    if isinstance(options, str) or not (
        isinstance(options, Mapping) or hasattr(options, "columns") or hasattr(options, "__arrow_c_stream__")
    ):
        return np.full(n, np.nan)
    if "accuracy" not in names_of(options):
        return np.full(n, np.nan)
    values = take_columns(options, accuracy="accuracy")["accuracy"][1]
    accuracy = np.array([np.nan if value is None else float(value) for value in _as_list(values)])
    if not ((accuracy >= 0) & (accuracy <= 1) | np.isnan(accuracy)).all():
        raise ValueError("accuracy of options must lie between 0 and 1")
    return accuracy


def _as_list(values: Any) -> list[Any]:
    return list(values.to_pylist()) if hasattr(values, "to_pylist") else list(values)
