"""How differently groups fare: gaps of parity, opportunity, false alarms and accuracy, with intervals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands import metrics
from manyhands._base import arrow
from manyhands._base.checks import check_between, check_choice, check_number, plural
from manyhands._base.estimator import Array
from manyhands._base.names import Names
from manyhands.categorical.base import Aggregator
from manyhands.categorical.consensus import Consensus
from manyhands.categorical.table import Annotations
from manyhands.fairness.attribute import Attribute, Ints, read_votes
from manyhands.fairness.conditioned import beliefs

if TYPE_CHECKING:
    import pyarrow as pa

#: What may differ between groups: how often the positive answer is given, how often where it is true, how often where
#: it is not, and how often answers are right.
MEASURES = ("demographic_parity", "equal_opportunity", "false_positives", "accuracy")


@dataclass(frozen=True)
class Gap:
    """The gap of one measure: the greatest rate of a group less the least, with an interval."""

    measure: str
    gap: float
    low: float
    high: float
    #: Rate of each group, and the number of cases that it rests on.
    rates: dict[Any, float]
    n: dict[Any, int]

    def __str__(self) -> str:
        rates = ", ".join(f"{group} {rate:.3f}" for group, rate in self.rates.items())
        return f"{self.measure} {self.gap:.3f} ({self.low:.3f} to {self.high:.3f}): {rates}"


@dataclass(frozen=True, eq=False, repr=False)
class Gaps:
    """Gaps of the aggregate, of predictions and of single workers; to be had from :func:`gaps`."""

    groups: list[Any]
    positive: list[Any]
    #: By measure; of the labels themselves where the attribute is one of workers.
    aggregate: dict[str, Gap]
    predictions: dict[str, Gap] | None
    #: By name of a worker, then by measure; empty where the attribute is one of workers.
    workers: dict[Any, dict[str, Gap]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def __getitem__(self, measure: str) -> Gap:
        return self.aggregate[measure]

    def frame(self) -> pa.Table:
        """Return all gaps, as an Arrow table: of, worker, measure, gap, low, high, and the rate of each group."""
        import pyarrow as pa

        rows = [("aggregate", None, gap) for gap in self.aggregate.values()]
        rows += [("predictions", None, gap) for gap in (self.predictions or {}).values()]
        rows += [("worker", name, gap) for name, measures in self.workers.items() for gap in measures.values()]
        columns: dict[str, Any] = {
            "of": [row[0] for row in rows],
            "worker": pa.array([row[1] for row in rows]),
            "measure": [row[2].measure for row in rows],
        }
        for name in ("gap", "low", "high"):
            columns[name] = np.array([getattr(row[2], name) for row in rows])
        texts = [str(group) for group in self.groups]
        for group, text in zip(self.groups, texts, strict=True):
            # Groups 1 and "1" are two.
            name = f"rate {text if texts.count(text) == 1 else repr(group)}"
            columns[name] = np.array([row[2].rates[group] for row in rows])
        return arrow.table(columns)

    def __repr__(self) -> str:
        positive = f"; positive: {', '.join(map(str, self.positive))}" if self.positive else ""
        lines = [f"<Gaps between {', '.join(map(str, self.groups))}{positive}>"]
        lines += [f"aggregate: {gap}" for gap in self.aggregate.values()]
        lines += [f"predictions: {gap}" for gap in (self.predictions or {}).values()]
        if self.workers:
            lines.append(f"and {plural(len(self.workers), 'worker')} (frame())")
        return "\n".join([*lines, *self.remarks])


def gaps(
    votes: Any,
    truth: Any,
    *,
    attribute: Any,
    about: str = "task",
    positive: Any = None,
    predictions: Any = None,
    workers: bool = True,
    level: float = 0.9,
    draws: int = 500,
    seed: int = 0,
) -> Gaps:
    """Measure differences between groups of tasks, or of workers, in rates of answers and errors.

    Use it to check a log, an aggregate or a downstream classifier for bias.

    Parameters
    ----------
    votes : Annotations or frame
        The annotations.
    truth : gold or Aggregator
        Known classes, in any form that :func:`manyhands.metrics.match_gold` takes: the default aggregate is then
        measured against them. Or a fitted aggregator: its answers are measured under its own posterior.
    attribute : column, mapping, frame or array
        Group of each task (or worker): a mapping, a pair of ids and values, a frame with a column ``task`` and another,
        a file of that form, ``(file, column)``, the name of a column of `votes`, or values in the order of its tasks.
        Tasks without a group are left out, with a warning.
    about : {"task", "worker"}, default "task"
        Whether the attribute is one of tasks or of workers; the latter compares the answers of groups of workers.
    positive : class or list of classes, optional
        Positive class or classes; by default the second of two. With more classes and no positive class, only accuracy
        is compared.
    predictions : gold-like, optional
        Answers of a downstream classifier, in a form as for known classes, which are measured as well.
    workers : bool, default True
        Whether to measure single workers too.
    level : float, default 0.9
        Level of the intervals.
    draws : int, default 500
        Number of bootstrap draws.
    seed : int, default 0
        Seed of the draws.

    Returns
    -------
    Gaps
        A gap is the difference between the groups with the largest and the smallest rate, NaN if a group has no case.

    Notes
    -----
    Time O(n_annotations), times `draws` if the truth is a posterior.

    Intervals come from the Bayesian bootstrap over tasks (over workers for an attribute of workers), with half a
    pseudo-case per outcome, so that they cover for rates near 0 or 1. If the truth is a posterior, each draw samples
    classes from it. With more than two groups, the extremes are chosen from the data, and gaps are biased upward.

    References
    ----------
    M. Hardt, E. Price, N. Srebro, "Equality of opportunity in supervised learning", NIPS (2016). D. B. Rubin, "The
    Bayesian bootstrap", Annals of Statistics 9 (1981).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(400, 10, 2, labels_per_task=5, seed=1)
    >>> gaps = mh.fairness.gaps(crowd.log, (crowd.log.tasks, crowd.truth), attribute=["a", "b"] * 200)
    >>> gaps["accuracy"].low <= gaps["accuracy"].gap <= gaps["accuracy"].high
    True
    """
    check_choice("about", about, ("task", "worker"))
    check_between("level", level, such_as=0.9)
    check_number("draws", draws, least=10, whole=True)
    check_number("seed", seed, least=0, whole=True)
    log, groups = read_votes(votes, attribute, about)
    classes = _classes(log)
    # With several classes, no class is positive unless one is passed; accuracy counts all of them.
    no_positive = positive is None and len(classes) > 2
    targets = np.zeros(len(classes), np.bool_) if no_positive else positives(log._classes, positive)
    judge = _Judge(log, truth, classes, targets, np.random.default_rng(seed), draws, level)
    if about == "worker":
        labels = [classes[code] for code in np.flatnonzero(targets)]
        return Gaps(groups.named, labels, judge.by_worker(groups), None, remarks=judge.not_compared())
    predicted = None if predictions is None else judge.of_answers(judge.codes_of(predictions), groups)
    single = judge.single(groups) if workers else {}
    labels = [classes[code] for code in np.flatnonzero(targets)]
    return Gaps(groups.named, labels, judge.of_answers(judge.answers, groups), predicted, single, judge.remarks(groups))


def positives(classes: Names, positive: Any) -> npt.NDArray[np.bool_]:
    """Which classes are the positive ones, (n_classes,)."""
    names = classes.values.tolist()
    if positive is None:
        if len(names) != 2:
            raise ValueError(
                f"with {len(names)} classes, say which matter: pass positive=, one or several of {names[:5]}"
            )
        return np.array([False, True])
    several = isinstance(positive, list | tuple | set | frozenset | np.ndarray)
    codes = classes.find(list(positive) if several else [positive])
    if (codes < 0).any():
        raise ValueError(f"positive={positive!r} is not among the classes {names[:5]}")
    marked = np.zeros(len(names), np.bool_)
    marked[codes] = True
    if marked.all():
        raise ValueError("all classes are positive; leave out those that are not")
    return marked


def _classes(log: Annotations) -> list[Any]:
    return list(log._classes.values.tolist())


class _Judge:
    """Answers judged by a truth that is known, -1 where it is not, or by posteriors from which it is drawn."""

    def __init__(
        self,
        log: Annotations,
        truth: Any,
        classes: list[Any],
        positive: npt.NDArray[np.bool_],
        rng: np.random.Generator,
        draws: int,
        level: float,
    ) -> None:
        self.log, self.positive, self.rng, self.n_draws, self.level = log, positive, rng, draws, level
        self.posterior: Array | None = None
        k = len(classes)
        if isinstance(truth, Aggregator):
            self.posterior = beliefs(log, truth)
            self.truth = np.zeros(log.n_tasks, np.int64)
            self.answers: Ints = log._classes.find(truth.labels_[truth._tasks.match(log._tasks)])
        else:
            index, answers = metrics.match_gold(log.tasks, truth, unknown="ignore")
            self.truth = np.full(log.n_tasks, -1, np.int64)
            # A class without labels gets the code -1, and no answer matches it.
            codes = log._classes.find(answers)
            self.truth[index] = np.where(codes < 0, k, codes)
            self.answers = Consensus().fit(log).posterior_.argmax(axis=1)
        self.is_positive = np.append(positive, False)

    def codes_of(self, predictions: Any) -> Ints:
        """Codes of predicted classes, -1 for tasks without."""
        index, labels = metrics.match_gold(self.log.tasks, predictions, unknown="ignore")
        codes = self.log._classes.find(labels)
        if (codes < 0).any():
            raise ValueError(f"predictions hold {labels[codes < 0].tolist()[0]!r}, which is not among the classes")
        by_task = np.full(self.log.n_tasks, -1, np.int64)
        by_task[index] = codes
        return by_task

    def remarks(self, groups: Attribute) -> tuple[str, ...]:
        """What could not be measured."""
        usable = (groups.codes >= 0) & (self.truth >= 0)
        empty = [name for g, name in enumerate(groups.named) if not (usable & (groups.codes == g)).any()]
        warnings = (f"No task of known class is in {', '.join(map(str, empty))}.",) if empty else ()
        return warnings + self.not_compared()

    def not_compared(self) -> tuple[str, ...]:
        """Which gaps were not measured, for want of a class that matters."""
        if self.positive.any():
            return ()
        return (
            f"With {plural(len(self.positive), 'class', 'classes')} only accuracy is compared; for the other gaps, "
            "name the class, or classes, that matter with positive=….",
        )

    def of_answers(self, answers: Ints, groups: Attribute) -> dict[str, Gap]:
        """Gaps of one answer per task."""
        rows = np.flatnonzero((answers >= 0) & (groups.codes >= 0) & (self.truth >= 0))
        zeros = np.zeros(len(rows), np.int64)
        return self._measured(rows, answers[rows], zeros, 1, groups)[0]

    def single(self, groups: Attribute) -> dict[Any, dict[str, Gap]]:
        """Gaps of every worker."""
        tasks, workers, labels = (codes.astype(np.int64) for codes in self.log.codes())
        keep = (groups.codes[tasks] >= 0) & (self.truth[tasks] >= 0)
        measures = self._measured(tasks[keep], labels[keep], workers[keep], self.log.n_workers, groups)
        return dict(zip(self.log.workers.tolist(), measures, strict=True))

    def _measured(self, tasks: Ints, said: Ints, who: Ints, n: int, groups: Attribute) -> list[dict[str, Gap]]:
        """Gaps of n subjects from their answers to tasks."""
        g = len(groups.groups)
        cell = who * g + groups.codes[tasks]
        point = self._counts(cell, said, self._truth_of(tasks, None), n * g, self._weights_of(tasks))
        samples = np.empty((self.n_draws, *point[0].shape))
        for draw in range(self.n_draws):
            if self.posterior is not None:
                hits, cases = self._counts(cell, said, self._truth_of(tasks, self.rng), n * g)
            else:
                hits, cases = point
            samples[draw] = self.rng.beta(hits + 0.5, np.maximum(cases - hits, 0.0) + 0.5)
        shape = (n, g, len(MEASURES))
        hits, cases = (array.reshape(shape) for array in point)
        samples = samples.reshape(self.n_draws, *shape)
        return [self._gaps(hits[i], cases[i], samples[:, i], groups) for i in range(n)]

    def _weights_of(self, tasks: Ints) -> Array | None:
        return None if self.posterior is None else self.posterior[tasks]

    def _truth_of(self, tasks: Ints, rng: np.random.Generator | None) -> Ints:
        """Classes of tasks, each drawn once where the truth is a posterior."""
        if self.posterior is None or rng is None:
            return self.truth[tasks]
        above = rng.random((len(self.posterior), 1)) > self.posterior.cumsum(axis=1)
        return np.asarray(np.minimum(above.sum(axis=1), self.posterior.shape[1] - 1)[tasks])

    def _counts(self, cell: Ints, said: Ints, truth: Ints, n: int, soft: Array | None = None) -> tuple[Array, Array]:
        """Hits and cases of each measure, (n cells, n_measures)."""
        yes = self.is_positive[said].astype(np.float64)
        if soft is None:
            true, right = self.is_positive[truth].astype(np.float64), (said == truth).astype(np.float64)
        else:
            true, right = soft[:, self.positive].sum(axis=1), soft[np.arange(len(said)), said]
        ones = np.ones(len(said))
        hits = [yes, yes * true, yes * (1 - true), right]
        cases = [ones, true, 1 - true, ones]
        totals = [np.array([np.bincount(cell, x, n) for x in many], np.float64).T for many in (hits, cases)]
        return totals[0], totals[1]

    def by_worker(self, groups: Attribute) -> dict[str, Gap]:
        """Gaps between what groups of workers say; workers are drawn."""
        tasks, workers, labels = (codes.astype(np.int64) for codes in self.log.codes())
        keep = (groups.codes[workers] >= 0) & (self.truth[tasks] >= 0)
        tasks, workers, labels = tasks[keep], workers[keep], labels[keep]
        hits, cases = self._counts(workers, labels, self.truth[tasks], self.log.n_workers, self._weights_of(tasks))
        member = np.eye(len(groups.groups))[np.maximum(groups.codes, 0)] * (groups.codes >= 0)[:, None]
        weights = self.rng.standard_exponential((self.n_draws, self.log.n_workers))
        sums = [np.einsum("dm,mg,mi->dgi", weights, member, array) for array in (hits, cases)]
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios = sums[0] / sums[1]
        return self._gaps(member.T @ hits, member.T @ cases, ratios, groups)

    def _gaps(self, hits: Array, cases: Array, drawn: Array, groups: Attribute) -> dict[str, Gap]:
        """A gap for each measure, of hits and cases (n_groups, n_measures) and drawn rates, which have draws first."""
        intervals, tail, names = {}, (1 - self.level) / 2, groups.named
        with np.errstate(invalid="ignore", divide="ignore"):
            rates = hits / cases
        for i, measure in enumerate(MEASURES):
            if measure != "accuracy" and not self.positive.any():
                continue
            column = rates[:, i]
            gap = low = high = float("nan")
            if not np.isnan(column).any():
                top, bottom = int(column.argmax()), int(column.argmin())
                if top == bottom:
                    bottom = (top + 1) % len(column)
                gap = float(column[top] - column[bottom])
                low, high = np.quantile(drawn[:, top, i] - drawn[:, bottom, i], [tail, 1 - tail]).tolist()
            n = {name: round(x) for name, x in zip(names, cases[:, i].tolist(), strict=True)}
            intervals[measure] = Gap(measure, gap, low, high, dict(zip(names, column.tolist(), strict=True)), n)
        return intervals
