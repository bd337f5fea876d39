"""Dawid–Skene for logs that do not end, or do not fit in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_count, check_number
from manyhands._base.data_checks import made_table
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, names, numbers
from manyhands._base.limits import check_memory
from manyhands._base.names import Names
from manyhands._base.progress import Callback
from manyhands.categorical._confusion import Confusion, LazyConfusion
from manyhands.categorical._passes import expected_counts, posterior_under
from manyhands.categorical._priors import row_pseudo
from manyhands.categorical.base import Aggregator, ClassFit, ClassFitted
from manyhands.categorical.table import Annotations, as_annotations

#: No probability is kept below this.
_FLOOR = 1e-30
#: By this share no log is long enough to forget.
_NEVER = 1e-100


@dataclass(frozen=True, kw_only=True)
class OnlineFit(ClassFit):
    """Answers of the latest batch, and the running averages of everything seen so far."""

    #: Averages of expected counts of each worker, the squares of their weights, and answers seen.
    counts: Array = field(metadata=numbers("mkk"))
    squares: Array = field(metadata=numbers("m"))
    seen: Array = field(metadata=numbers("m"))
    #: The same of classes: shares, then tasks seen and the squares of weights.
    class_counts: Array = field(metadata=numbers("k"))
    class_course: Array = field(metadata=numbers("2"))
    #: The latest tasks, and what is known of their classes.
    latest: Names = field(metadata=names("r", empty=True))
    latest_rows: Array = field(metadata=numbers("rk"))


class OnlineDawidSkene(Aggregator):
    """Dawid–Skene by stepwise EM: a log that comes in batches, each looked at and let go.

    :meth:`partial_fit` takes a batch: posteriors of its tasks under what is known of the workers, then expected
    counts, which are mixed into the running averages of the workers who answered, then both again, `rounds` times.
    New tasks, workers and classes may appear in any batch. After n answers, the next one moves its worker's average by
    (n + 1) to the power of -`kappa`, and no other average. The average stands for as many answers as
    Kish's effective number of its weights, in addition to `pseudo_count`.

    Results are of the latest batch (`labels_`, `posterior_`, `tasks_`) and of all workers seen so far (`workers_`,
    `confusion_`, in the order in which they appeared). Tasks of the past are not kept; :meth:`predict_proba` answers
    them if it is given their annotations. A task that comes again is taken for a new one, unless it is among the last
    `recent` tasks: then its new answers are combined with the evidence of the earlier ones.

    ``fit`` forgets everything and replays a table in task order, `batch_size` tasks at a time; `posterior_` is then
    that of all tasks under the last parameters. :meth:`partial_fit` may go on from there, as it may after ``load``.

    Parameters
    ----------
    kappa : float, default 0.9
        How fast the past fades, above 0.5 (fast) and at most 1 (never: all answers of a worker count alike).
    forget : float, default 0.0
        Least share by which an answer moves its worker's average: with 0.01, what a worker did more than a few hundred
        answers ago hardly counts. For workers who change. 0 for none.
    rounds : int, default 30
        How often a batch is looked at: as often as EM would go through a log to settle.
    pseudo_count
        Pseudo-counts in each row of each confusion matrix, as in :class:`DawidSkene`, but no array.
    class_pseudo_count : float, default 1.0
        Pseudo-counts of the class prior, spread evenly over the classes.
    recent : int, default 0
        How many of the latest tasks to remember, at 8 bytes per class and their names; 0 for none.
    batch_size : int, default 5000
        Tasks in a batch of ``fit``.

    Notes
    -----
    Time of a batch: O(rounds · (annotations · classes + workers of the batch · classes²)), and O(workers seen) to find
    them by name. Memory: O(workers seen · classes²) and what the batch needs, whatever was seen before.

    The step is that of Liang and Klein, (t + 2) to the power of -kappa with t answers before, in continuous form: so
    many answers at once, of any weight, fade the past as they would one by one. Answers are the same bits on any
    number of threads. There is no objective: each batch has its own.

    References
    ----------
    P. Liang and D. Klein, "Online EM for unsupervised models", NAACL-HLT (2009). O. Cappé and E. Moulines, "On-line
    expectation-maximization algorithm for latent data models", Journal of the Royal Statistical Society B 71 (2009).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(3000, 20, 3, labels_per_task=5, seed=1)
    >>> log, model = crowd.log.to_frame(), mh.categorical.OnlineDawidSkene()
    >>> for start in range(0, len(log), 1000):  # say, the row groups of a Parquet file
    ...     model = model.partial_fit(log.slice(start, 1000))
    >>> mh.metrics.accuracy(model.predict(crowd.log), crowd.truth) > 0.8
    True
    """

    _fit_type: ClassVar[type[Fit]] = OnlineFit

    def __init__(
        self,
        *,
        kappa: float = 0.9,
        forget: float = 0.0,
        rounds: int = 30,
        pseudo_count: float | tuple[float, float] = (2.0, 1.0),
        class_pseudo_count: float = 1.0,
        recent: int = 0,
        batch_size: int = 5000,
    ) -> None:
        self.kappa = kappa
        self.forget = forget
        self.rounds = rounds
        self.pseudo_count = pseudo_count
        self.class_pseudo_count = class_pseudo_count
        self.recent = recent
        self.batch_size = batch_size

    # ---------------------------------------------------------------------------------------------------- fit

    def partial_fit(self, votes: Any) -> Self:
        """Learn from another batch of annotations; see the class.

        Parameters
        ----------
        votes
            An :class:`~manyhands.Annotations` table, or a frame with well-known column names.
        """
        self._check()
        votes = as_annotations(votes)
        now = self._state
        running = _Running(self, votes._classes, votes._workers) if now is None else _Running.of(self, now)
        posterior = running.learn(votes)
        confusion = RunningAverages(running.counts, running.squares, self.pseudo_count)
        n_batches = 1 if now is None else now.fit.n_iter + 1
        self._state = ClassFitted(
            fit=running.fit(posterior, confusion, n_batches),
            tasks=votes._tasks,
            workers=running.workers,
            classes=running.classes,
            n_labels=running.n_labels,
        )
        return self

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        self._check()
        running = _Running(self, votes._classes, votes._workers)
        n_batches = -(-votes.n_tasks // self.batch_size)
        for batch_number, batch in enumerate(_batches(votes, self.batch_size), start=1):
            running.learn(batch)
            if progress is not None:
                progress(batch_number, float("nan"))
        confusion = _matrices(running.counts, running.squares, self.pseudo_count)
        return running.fit(posterior_under(votes.table, running.prior(), confusion), confusion, n_batches)

    def _check(self) -> None:
        check_number("kappa", self.kappa, least=0.5, most=1)
        if self.kappa <= 0.5:
            raise ValueError(f"kappa must be above 0.5, or averages never settle, not {self.kappa}")
        check_number("forget", self.forget, least=0, most=1)
        check_number("rounds", self.rounds, least=1, whole=True)
        check_count("class_pseudo_count", self.class_pseudo_count)
        check_number("recent", self.recent, least=0, whole=True)
        check_number("batch_size", self.batch_size, least=1, whole=True)
        if isinstance(self.pseudo_count, np.ndarray | list):
            raise ValueError("pseudo_count must be a number or a pair (right, wrong): classes may yet appear")
        row_pseudo(self.pseudo_count, 2)


class _Running:
    """What is kept of everything seen so far, while a batch is taken in; arrays of a fit that was published stay."""

    def __init__(self, model: OnlineDawidSkene, classes: Names, workers: Names) -> None:
        m, k = len(workers), len(classes)
        self._model, self.classes, self.workers = model, classes, workers
        self.n_labels = np.zeros(m, np.int64)
        self.counts = np.zeros((m, k, k))
        self.squares, self._seen = np.zeros(m), np.zeros(m)
        self._class_counts, self._class_course = np.zeros(k), np.zeros(2)
        self._latest = Names(np.zeros(0, np.int64))
        self._latest_rows = np.zeros((0, k))

    @classmethod
    def of(cls, model: OnlineDawidSkene, now: ClassFitted) -> _Running:
        """Go on from a fit."""
        copied, fit = cls(model, now.classes, now.workers), now.fit_as(OnlineFit)
        copied.n_labels, copied.counts = now.n_labels.copy(), fit.counts.copy()
        copied.squares, copied._seen = fit.squares.copy(), fit.seen.copy()
        copied._class_counts, copied._class_course = fit.class_counts, fit.class_course
        copied._latest, copied._latest_rows = fit.latest, fit.latest_rows
        return copied

    def fit(self, posterior: Array, confusion: Array | Confusion, n_batches: int) -> OnlineFit:
        """A fit with answers of the latest batch."""
        return OnlineFit.of(
            posterior,
            confusion,
            self.prior(),
            np.zeros(0),
            n_iter=n_batches,
            counts=self.counts,
            squares=self.squares,
            seen=self._seen,
            class_counts=self._class_counts,
            class_course=self._class_course,
            latest=self._latest,
            latest_rows=self._latest_rows,
        )

    def _meet(self, votes: Annotations) -> None:
        """Make room for classes and workers that were not seen before."""
        new = votes._classes.take(np.flatnonzero(self.classes.match(votes._classes) < 0))
        others = votes._workers.take(np.flatnonzero(self.workers.match(votes._workers) < 0))
        k, m = len(self.classes) + len(new), len(self.workers) + len(others)
        check_memory(8 * m * k * k, f"what is kept of {m:,} workers and {k:,} classes", "give them fewer classes")
        if len(new):
            wider = (0, len(new))
            self.classes = self.classes.followed_by(new)
            self.counts = np.pad(self.counts, ((0, 0), wider, wider))
            self._class_counts = np.pad(self._class_counts, wider)
            self._latest_rows = np.pad(self._latest_rows, ((0, 0), wider))
        if len(others):
            longer = (0, len(others))
            self.workers = self.workers.followed_by(others)
            self.counts = np.pad(self.counts, (longer, (0, 0), (0, 0)))
            self.squares, self._seen = np.pad(self.squares, longer), np.pad(self._seen, longer)
            self.n_labels = np.pad(self.n_labels, longer)

    def learn(self, votes: Annotations) -> Array:
        """Take in a batch; returns the posteriors of its tasks."""
        self._meet(votes)
        codes_of, k = self.classes.match(votes._labels).astype(np.uint16), len(self.classes)
        table, who = votes.table.recoded(codes_of, k, k), self.workers.match(votes._workers)
        codes, weights = votes.codes(), votes.weights
        answers = np.bincount(codes[1], weights, minlength=votes.n_workers).astype(np.float64)
        positions = self._latest.match(votes._tasks)
        new = positions < 0
        past = _Average(self.counts[who], self.squares[who], self._mixing(self._seen[who], answers), answers)
        n_new = np.array([float(new.sum())])
        class_mix = self._mixing(self._class_course[:1], n_new)
        class_past = _Average(self._class_counts[None], self._class_course[1:], class_mix, n_new)
        posterior = self._settled(table, past, class_past, new, self._latest_rows[positions[~new]])
        self.counts[who], self.squares[who] = past.after(expected_counts(table, posterior))
        self._seen[who] += answers
        self.n_labels[who] += votes.labels_per_worker
        classes, squares = class_past.after(posterior[new].sum(axis=0)[None])
        self._class_counts = classes[0]
        self._class_course = np.array([self._class_course[0] + n_new[0], squares[0]])
        self._remember(votes._tasks, positions, posterior)
        return posterior

    def _settled(
        self, table: _core.Table, past: _Average, class_past: _Average, new: npt.NDArray[np.bool_], seen: Array
    ) -> Array:
        """Posteriors of a batch after as many rounds of EM as were asked for, next to what is known of the past.

        The past weighs as pseudo-counts do. Tasks that are not `new` have rows of `seen` for a prior.
        """
        k = len(self.classes)
        revisited = None if new.all() else _Revisited(table, new, np.maximum(seen, _FLOOR))
        result = _core.em_fit(
            table if revisited is None else revisited,
            model="full",
            assignment="soft",
            start="",
            prior=self._prior_of(class_past.counts[0], float(class_past.squares[0])),
            confusion=_matrices(past.counts, past.squares, self._model.pseudo_count),
            pseudo=past.as_pseudo(row_pseudo(self._model.pseudo_count, k)),
            class_pseudo=class_past.as_pseudo(np.full(k, self._model.class_pseudo_count / k))[0],
            max_iter=self._model.rounds - 1,
            tol=0.0,
        )
        return result["posterior"] if revisited is None else revisited.posterior

    def _mixing(self, seen: Array, answers: Array) -> Array:
        """Remaining weight of the past after a number of further answers, (n,)."""
        return fading(seen, seen + answers, self._model.kappa, self._model.forget)

    def _remember(self, tasks: Names, known: npt.NDArray[np.int64], posterior: Array) -> None:
        """Keep what is known of the latest tasks, those of this batch last."""
        if not self._model.recent:
            return
        old = np.setdiff1d(np.arange(len(self._latest)), known)
        rows = np.concatenate([self._latest_rows[old], posterior])
        names = self._latest.take(old).followed_by(tasks) if len(old) else tasks
        keep = np.arange(len(names))[-self._model.recent :]
        self._latest, self._latest_rows = names.take(keep), rows[keep]

    def _prior_of(self, counts: Array, squares: float) -> Array:
        k = len(counts)
        worth = _worth(counts.sum()[None], np.array([squares]))[0]
        evidence = counts * worth + self._model.class_pseudo_count / k
        total = evidence.sum()
        shares: Array = np.maximum(evidence / total if total > 0 else np.full(k, 1 / k), _FLOOR)
        return shares

    def prior(self) -> Array:
        """Shares of the classes."""
        return self._prior_of(self._class_counts, float(self._class_course[1]))


class RunningAverages(LazyConfusion):
    """Confusion matrices of running averages and the squares of their weights, with pseudo-counts."""

    def __init__(self, counts: Array, squares: Array, pseudo_count: float | tuple[float, float]) -> None:
        super().__init__(*counts.shape[:2])
        self._parts = counts, squares, pseudo_count

    def _make(self) -> Array:
        return _matrices(*self._parts)


def _matrices(counts: Array, squares: Array, pseudo_count: float | tuple[float, float]) -> Array:
    k = counts.shape[1]
    evidence = counts * _worth(counts.sum(axis=(1, 2)), squares)[:, None, None] + row_pseudo(pseudo_count, k)
    totals = evidence.sum(axis=2, keepdims=True)
    shares = np.divide(evidence, totals, out=np.full_like(evidence, 1 / k), where=totals > _FLOOR)
    floored: Array = np.maximum(shares, _FLOOR)
    return floored


def fading(start: Array, end: Array, kappa: float, forget: float) -> Array:
    """Share of what was known after `start` answers that is left after `end`, each fading the past by its step.

    The step after s answers is the larger of (s + 1) to the power of -kappa and `forget`.
    """
    turn = forget ** (-1 / kappa) - 1 if forget > _NEVER else np.inf
    low, high = 1 + np.minimum(start, turn), 1 + np.minimum(end, turn)
    decay = np.log(high / low) if kappa == 1 else (high ** (1 - kappa) - low ** (1 - kappa)) / (1 - kappa)
    if forget > _NEVER:
        decay = decay + forget * (np.maximum(end, turn) - np.maximum(start, turn))
    left: Array = np.exp(-decay)
    return left


@dataclass(frozen=True)
class _Average:
    """Running averages of expected counts, the first axis of all arrays being that of averages, and a batch to come."""

    counts: Array
    #: Squares of the weights in each average.
    squares: Array
    #: What is left of the past after the batch.
    left: Array
    #: Answers in the batch, by their weights.
    answers: Array

    @property
    def _shares(self) -> Array:
        """What an answer of the batch weighs in its average afterwards."""
        return np.divide(1 - self.left, self.answers, out=np.zeros_like(self.left), where=self.answers > 0)

    def _squares_after(self) -> Array:
        return self.left**2 * self.squares + self._shares**2 * self.answers

    def _along(self, values: Array) -> Array:
        return values.reshape((-1,) + (1,) * (self.counts.ndim - 1))

    def after(self, expected: Array) -> tuple[Array, Array]:
        """Averages, and squares of the weights in them, after expected counts of the batch."""
        mixed = self._along(self.left) * self.counts + self._along(self._shares) * expected
        return mixed, self._squares_after()

    def as_pseudo(self, imaginary: Array) -> Array:
        """Pseudo-counts relative to which counts of the batch weigh as much as they will in the averages.

        The weights of an average determine its effective number of counts, whatever the classes of the batch turn out
        to be. Only ratios matter: all is divided by the weight that a count of the batch will have.
        """
        total = self.left * self.counts.sum(axis=tuple(range(1, self.counts.ndim))) + self._shares * self.answers
        worth = _worth(total, self._squares_after())
        scale = worth * self._shares
        past = self._along(worth * self.left) * self.counts + imaginary
        pseudo: Array = past / self._along(np.where(scale > 0, scale, 1.0))
        return pseudo


class _Revisited:
    """Passes over a batch in which tasks return: those have priors of their own, and were counted among the classes."""

    def __init__(self, table: _core.Table, new: npt.NDArray[np.bool_], seen: Array) -> None:
        self.n_workers, self.n_classes, self.n_labels = table.n_workers, seen.shape[1], seen.shape[1]
        self.posterior = np.zeros((len(new), self.n_classes))
        self._parts = [(_part(table, mask), mask, prior) for mask, prior in ((new, None), (~new, seen)) if mask.any()]

    def open(self, **how: Any) -> None:
        """Parameters are known before the batch."""
        raise NotImplementedError

    def gather(self, factors: Array, prior: Array, /, *, counts: Array, classes: Array, **how: Any) -> float:
        """Counts of all tasks, and classes of the new ones."""
        log_evidence = 0.0
        for table, _, own in self._parts:
            class_sums = classes if own is None else np.zeros_like(classes)
            class_prior = prior if own is None else own
            log_evidence += table.em_gather(factors, class_prior, counts=counts, classes=class_sums, **how)
        return log_evidence

    def conclude(self, factors: Array, prior: Array, /, *, model: str) -> float:
        """Keep the posteriors."""
        log_evidence = 0.0
        for table, mask, own in self._parts:
            result = table.em_answers(factors, prior if own is None else own, model=model, posterior=True)
            self.posterior[mask] = result["posterior"]
            log_evidence += result["log_evidence"]
        return log_evidence


def _part(table: _core.Table, chosen: npt.NDArray[np.bool_]) -> _core.Table:
    """A table of some tasks and all workers."""
    tasks, workers, labels = table.columns()
    rows, weights = chosen[tasks], table.weights()
    places = (np.cumsum(chosen) - 1).astype(np.uint32)
    row_weights = None if weights is None else weights[rows]
    sizes = int(chosen.sum()), table.n_workers, table.n_labels
    return made_table(places[tasks[rows]], workers[rows], labels[rows], row_weights, *sizes)


def _worth(weights: Array, squares: Array) -> Array:
    """Effective counts per unit of an average: the sum of its weights over the sum of their squares."""
    return np.divide(weights, squares, out=np.zeros_like(squares), where=squares > 0)


def _batches(votes: Annotations, size: int) -> Any:
    """Cut a table into runs of tasks."""
    if votes.n_tasks <= size:
        yield votes
        return
    offsets = votes.table.offsets().astype(np.int64)
    columns, weights = votes.codes(), votes.weights
    for first in range(0, votes.n_tasks, size):
        last = min(first + size, votes.n_tasks)
        rows = slice(offsets[first], offsets[last])
        if rows.start == rows.stop:
            continue
        tasks, workers, labels = columns[0][rows], columns[1][rows], columns[2][rows]
        who, codes = np.unique(workers, return_inverse=True)
        sizes = (last - first, len(who), votes.n_classes)
        part = None if weights is None else weights[rows]
        table = made_table(tasks - np.uint32(first), codes.astype(np.uint32), labels, part, *sizes)
        names = votes._tasks.take(np.arange(first, last)), votes._workers.take(who)
        yield Annotations(table, *names, votes._classes)
