"""crowd-kit's Dawid–Skene models: its floor under the counts, its starts, its gold labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_number
from manyhands._base.estimator import Array
from manyhands.categorical import MajorityVote
from manyhands.categorical.base import ClassFit, fit_of
from manyhands.compat._log import LabelTwin, Log, find, import_pandas, series

if TYPE_CHECKING:
    from manyhands.compat._log import Frame, Series

#: The least count of a label that the worker used, in each row of the worker's matrix. As pseudo-counts, so that the
#: objective of EM never falls.
_LEAST_COUNT = 1e-10


@dataclass(repr=False, eq=False)
class _DawidSkene(LabelTwin):
    """EM from the vote shares, in crowd-kit's count of iterations."""

    n_iter: int = 100
    tol: float = 1e-5
    initial_error_strategy: Literal["assign", "addition"] | None = None

    _model: ClassVar[str] = "full"

    def _learn(self, data: Frame, true_labels: Series | None = None, initial_error: Frame | None = None) -> Self:
        check_number("n_iter", self.n_iter, least=0, whole=True)
        log, gold = _with_gold(data, true_labels)
        start = self._start(log, gold, initial_error)
        # crowd-kit's iteration is an E-step and then an M-step; ours goes from one M-step's parameters to the
        # next. So its n-th posteriors are those of our parameters after n - 1 iterations, and its n-th
        # parameters what one more M-step makes of those posteriors.
        fit = self._run(log, gold, max(self.n_iter - 1, 0), max(self.tol, 0.0), **start)
        if self.n_iter:
            posterior = fit.posterior.dense()
            last = self._run(log, gold, 0, posterior=posterior)
            history = np.append(fit.history[1:], last.history[-1]) / log.votes.n_annotations
            return self._publish_fit(log, posterior, last, history.tolist())
        shares = MajorityVote().fit(log.votes).posterior_
        if gold is not None:
            shares = np.where((gold >= 0)[:, None], np.eye(shares.shape[1])[gold], shares)
        return self._publish_fit(log, shares, fit, [])

    def _run(
        self,
        log: Log,
        gold: npt.NDArray[np.int32] | None,
        max_iter: int,
        tol: float = 0.0,
        *,
        extra: Array | float = 0.0,
        **start: Any,
    ) -> ClassFit:
        """Run EM, from vote shares unless `start` is passed; `extra` counts are added in every M-step."""
        k = log.votes.n_classes
        result = _core.em_fit(
            log.votes.table,
            model=self._model,
            assignment="soft",
            pseudo=np.repeat(_LEAST_COUNT * log.seen()[:, None, :], k, axis=1) + extra,
            class_pseudo=np.zeros(k),
            gold=gold,
            max_iter=max_iter,
            tol=tol,
            **({"start": "shares"} | start),
        )
        return fit_of(result)

    def _start(self, log: Log, gold: npt.NDArray[np.int32] | None, initial_error: Frame | None) -> dict[str, Any]:
        """Return the arguments of `_run` that make it start from given error matrices."""
        if initial_error is None or self.initial_error_strategy is None:
            return {}
        if self.initial_error_strategy not in ("assign", "addition"):
            raise ValueError(
                f"initial_error_strategy must be 'assign', 'addition' or None, not {self.initial_error_strategy!r}"
            )
        counts, covered = _initial_counts(log, initial_error)
        if self.initial_error_strategy == "addition":
            start = self._run(log, gold, 0, extra=counts)
            return {"prior": start.prior, "confusion": start.confusion.matrices()}
        _check_complete(log, initial_error, covered)
        confusion = np.maximum(counts, _LEAST_COUNT * covered[:, None, :])
        return {"prior": self._run(log, gold, 0).prior, "confusion": confusion}

    def _publish_fit(self, log: Log, posterior: Array, fit: ClassFit, history: list[float]) -> Self:
        pandas, confusion = import_pandas(), fit.confusion.matrices()
        workers, labels = np.nonzero(log.seen())
        index = pandas.MultiIndex.from_arrays([log.workers.take(workers), log.classes.take(labels)])
        self.errors_: Frame = pandas.DataFrame(confusion[workers, :, labels], index, log.classes.rename(None))
        self.priors_ = series(fit.prior, log.classes, "prior")
        self.loss_history_ = history
        return self._publish(log, posterior)


class DawidSkene(_DawidSkene):
    """Dawid–Skene by EM, from vote shares.

    Parameters
    ----------
    n_iter
        Most iterations.
    tol
        Stop when the log-likelihood changes by less than this share of itself; 0 for all iterations.
    initial_error_strategy
        What ``fit`` does with an `initial_error`: ``"assign"`` starts from it instead of the matrices that
        vote shares suggest, ``"addition"`` adds its counts to theirs, None leaves it aside.

    Attributes
    ----------
    labels_ : Series
        The most probable label, by task.
    probas_ : DataFrame
        Posteriors, tasks × labels; rows sum to one.
    priors_ : Series
        Class prior, by label.
    errors_ : DataFrame
        Confusion matrices: a row for each worker and each label they used, a column for each true class.
    loss_history_ : list of float
        Log-likelihood per annotation after each iteration; it never falls.

    Notes
    -----
    As :class:`manyhands.DawidSkene` with ``init="shares"`` and next to no pseudo-counts: O(annotations ·
    classes) per iteration.

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import DawidSkene
    >>> log = pd.DataFrame({"task": [1, 1, 1, 2, 2], "worker": list("abcac"), "label": list("xxyyy")})
    >>> model = DawidSkene().fit(log)
    >>> model.labels_.to_dict()
    {1: 'x', 2: 'y'}
    >>> model.errors_.loc[("a", "x"), "x"].round(6).item()
    1.0
    """

    def fit(self, data: Frame, true_labels: Series | None = None, initial_error: Frame | None = None) -> Self:
        """Learn from a log.

        Parameters
        ----------
        data : frame
            The log, with columns ``task``, ``worker`` and ``label``.
        true_labels : Series or None, default None
            Known classes, by task, kept throughout. Tasks that are not in the log are of no consequence.
        initial_error : frame or None, default None
            Counts or probabilities of past answers, indexed by ``worker`` and ``label``, a column for each
            true class. `initial_error_strategy` selects how; they are only a start.
        """
        return self._learn(data, true_labels, initial_error)


class OneCoinDawidSkene(_DawidSkene):
    """Dawid–Skene with one accuracy per worker, by EM from vote shares.

    Parameters
    ----------
    n_iter, tol
        As in :class:`DawidSkene`.
    initial_error_strategy
        Has no effect here, nor in crowd-kit.

    Attributes
    ----------
    skills_ : Series
        Probability of a right answer, by worker.
    labels_, probas_, priors_, errors_, loss_history_
        As in :class:`DawidSkene`.

    Notes
    -----
    As :class:`manyhands.DawidSkene` with ``model="one-coin"`` and ``init="shares"``: O(annotations + tasks ·
    classes) per iteration.

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import OneCoinDawidSkene
    >>> log = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": list("xxyyyx")})
    >>> OneCoinDawidSkene().fit(log).skills_.round(3).to_dict()
    {'a': 1.0, 'b': 1.0, 'c': 0.0}
    """

    _model: ClassVar[str] = "one-coin"

    def fit(self, data: Frame) -> Self:
        """Learn from a log, with columns ``task``, ``worker`` and ``label``."""
        return self._learn(data)

    def _publish_fit(self, log: Log, posterior: Array, fit: ClassFit, history: list[float]) -> Self:
        accuracy = fit.confusion.matrices()[:, 0, 0]  # as any entry of the diagonal
        self.skills_ = series(accuracy, log.workers, "skill")
        return super()._publish_fit(log, posterior, fit, history)


def _with_gold(data: Frame, true_labels: Series | None) -> tuple[Log, npt.NDArray[np.int32] | None]:
    """Encode a frame, and the class of each of its tasks (-1 where it is not known)."""
    log = Log.of(data)
    if true_labels is None:
        return log, None
    truth = true_labels.dropna()
    truth = truth[find(log.tasks, truth.index) >= 0]
    classes = find(log.classes, truth)
    if (classes < 0).any():
        # A class that no worker named is a class all the same.
        names, more = log.votes.classes.tolist(), truth[classes < 0].unique().tolist()
        try:
            all_names = sorted([*names, *more])
        except TypeError:
            raise TypeError(
                f"true_labels hold {more[0]!r}, which does not compare with labels such as {names[0]!r}; give both "
                "the same type"
            ) from None
        log = Log.of(data.dropna(subset=["label"]), all_names)
        classes = find(log.classes, truth)
    tasks = find(log.tasks, truth.index)
    gold = np.full(log.votes.n_tasks, -1, np.int32)
    gold[tasks] = classes
    twice = gold[tasks] != classes
    if twice.any():
        raise ValueError(f"true_labels give task {truth.index[twice].tolist()[0]!r} two different classes; keep one")
    return log, gold


def _initial_counts(log: Log, initial_error: Frame) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Read given counts, (n_workers, true, observed), and which pairs of worker and label they cover."""
    index = initial_error.index
    if list(index.names) != ["worker", "label"]:
        raise ValueError(
            f"initial_error must be indexed by worker and label, not by {', '.join(map(repr, index.names))}"
        )
    if index.has_duplicates:
        raise ValueError(f"initial_error has two rows for {index[index.duplicated()].tolist()[0]}; keep one")
    columns = find(initial_error.columns, log.classes)
    if (columns < 0).any():
        raise ValueError(f"initial_error has no column for the class {log.classes[columns < 0].tolist()[0]!r}; add it")
    values = initial_error.iloc[:, columns].to_numpy(float)
    if not (np.isfinite(values) & (values >= 0)).all():
        raise ValueError("initial_error must hold finite numbers of at least 0")
    workers = find(log.workers, index.get_level_values("worker"))
    labels = find(log.classes, index.get_level_values("label"))
    is_valid = (workers >= 0) & (labels >= 0)
    m, k = log.votes.n_workers, log.votes.n_classes
    counts, covered = np.zeros((m, k, k)), np.zeros((m, k), np.bool_)
    counts[workers[is_valid], :, labels[is_valid]] = values[is_valid]
    covered[workers[is_valid], labels[is_valid]] = True
    return counts, covered


def _check_complete(log: Log, initial_error: Frame, covered: npt.NDArray[np.bool_]) -> None:
    """Check what ``"assign"`` needs: all pairs of worker and label in the log, columns that sum to one."""
    absent = np.argwhere(log.seen() & ~covered)
    if len(absent):
        pair = log.votes.workers.tolist()[absent[0][0]], log.votes.classes.tolist()[absent[0][1]]
        raise ValueError(
            f"initial_error has no row for {len(absent):,} pairs of worker and label in the data, such as "
            f"{pair!r}; initial_error_strategy='assign' needs them all, 'addition' does not"
        )
    totals = initial_error.groupby("worker", sort=False).sum().to_numpy(float)
    if initial_error.to_numpy(float).max() <= 1 and not np.allclose(totals, 1):
        raise ValueError(
            "initial_error holds probabilities (nothing is above 1), but those of a worker's labels do not "
            "sum to 1 in every column; divide by the sums, or give counts"
        )
