"""Dawid–Skene as crowd-kit runs it: its floor under the counts, its starts, its gold labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.estimator import Array
from manyhands.categorical import MajorityVote
from manyhands.categorical.base import ClassFit, fit_of
from manyhands.compat._log import Log, find, import_pandas

if TYPE_CHECKING:
    from manyhands.compat._log import Frame, Series

#: crowd-kit lets no cell of a confusion matrix fall below this count, for the labels that the worker used.
_LEAST_COUNT = 1e-10


class Em:
    """EM on one log.

    The floor goes in as pseudo-counts, which do what crowd-kit's clipping is for: cells stay positive, and
    the row of a class that a worker never met is even over the labels that the worker used. Unlike clipping,
    they leave EM an objective that never falls.

    Parameters
    ----------
    log
        The annotations.
    gold
        Class code of each task, -1 where it is not known; or None.
    model
        Worker model, as in :class:`manyhands.DawidSkene`.
    """

    def __init__(self, log: Log, gold: npt.NDArray[np.int32] | None, model: str) -> None:
        self.log = log
        self.gold = gold
        self.model = model
        k = log.votes.n_classes
        self.floor = np.repeat(_LEAST_COUNT * log.seen()[:, None, :], k, axis=1)

    def run(self, max_iter: int, tol: float = 0.0, *, extra: Array | float = 0.0, **start: Any) -> ClassFit:
        """Run EM, from vote shares unless told otherwise; `extra` counts are added in every M-step."""
        k = self.log.votes.n_classes
        options = {"start": "shares"} | start
        result = _core.em_fit(
            self.log.votes.table,
            model=self.model,
            assignment="soft",
            pseudo=self.floor + extra,
            class_pseudo=np.zeros(k),
            gold=self.gold,
            max_iter=max_iter,
            tol=tol,
            **options,
        )
        return fit_of(result)

    def shares(self) -> Array:
        """Vote shares, (n_tasks, n_classes), with certainty where the class is known."""
        shares = MajorityVote().fit(self.log.votes).posterior_
        if self.gold is None:
            return shares
        certain = np.eye(shares.shape[1])[self.gold]
        return np.where((self.gold >= 0)[:, None], certain, shares)


def errors(log: Log, confusion: Array) -> Frame:
    """Return (n_workers, true, observed) matrices as a frame: a row for each worker and label they used."""
    pandas = import_pandas()
    workers, labels = log.pair_order()
    index = pandas.MultiIndex.from_arrays([log.workers.take(workers), log.classes.take(labels)])
    frame: Frame = pandas.DataFrame(confusion[workers, :, labels], index, log.classes.rename(None))
    return frame


# ------------------------------------------------------------------------------------------------------- gold


def with_gold(data: Frame, true_labels: Series | None) -> tuple[Log, npt.NDArray[np.int32] | None]:
    """Encode a frame, and the class of each of its tasks (-1 where it is not known)."""
    log = Log.of(data)
    if true_labels is None:
        return log, None
    truth = true_labels.dropna()
    truth = truth[find(log.tasks, truth.index) >= 0]
    classes = find(log.classes, truth)
    if (classes < 0).any():
        # A class that nobody named is a class all the same.
        log = Log.of(data.dropna(subset=["label"]), _joined(log.votes.classes, truth[classes < 0].unique()))
        classes = find(log.classes, truth)
    tasks = find(log.tasks, truth.index)
    gold = np.full(log.votes.n_tasks, -1, np.int32)
    gold[tasks] = classes
    twice = gold[tasks] != classes
    if twice.any():
        raise ValueError(f"true_labels give task {truth.index[twice].tolist()[0]!r} two different classes; keep one")
    return log, gold


def _joined(classes: npt.NDArray[Any], more: Any) -> list[Any]:
    """Merge classes in sorted order."""
    try:
        return sorted([*classes.tolist(), *more.tolist()])
    except TypeError:
        raise TypeError(
            f"true_labels hold {more.tolist()[0]!r}, which does not compare with labels such as "
            f"{classes.tolist()[0]!r}; give both the same type"
        ) from None


# ----------------------------------------------------------------------------------------------------- starts


def beginning(em: Em, initial_error: Frame | None, strategy: str | None) -> dict[str, Any]:
    """Return the arguments of `Em.run` that make it start from given error matrices."""
    if initial_error is None or strategy is None:
        return {}
    if strategy not in ("assign", "addition"):
        raise ValueError(f"initial_error_strategy must be 'assign', 'addition' or None, not {strategy!r}")
    counts, given = _initial_counts(em.log, initial_error)
    if strategy == "addition":
        start = em.run(0, extra=counts)
        return {"prior": start.prior, "confusion": start.confusion.matrices()}
    _check_complete(em.log, initial_error, given)
    floor = _LEAST_COUNT * given[:, None, :]
    return {"prior": em.run(0).prior, "confusion": np.maximum(counts, floor)}


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
        unknown = log.classes[columns < 0].tolist()
        raise ValueError(f"initial_error has no column for the class {unknown[0]!r}; add it")
    values = initial_error.iloc[:, columns].to_numpy(float)
    if not (np.isfinite(values) & (values >= 0)).all():
        raise ValueError("initial_error must hold finite numbers of at least 0")
    workers = find(log.workers, index.get_level_values("worker"))
    labels = find(log.classes, index.get_level_values("label"))
    known = (workers >= 0) & (labels >= 0)
    m, k = log.votes.n_workers, log.votes.n_classes
    counts, given = np.zeros((m, k, k)), np.zeros((m, k), np.bool_)
    counts[workers[known], :, labels[known]] = values[known]
    given[workers[known], labels[known]] = True
    return counts, given


def _check_complete(log: Log, initial_error: Frame, given: npt.NDArray[np.bool_]) -> None:
    """Check what ``"assign"`` needs: all pairs of worker and label in the log, columns that sum to one."""
    absent = np.argwhere(log.seen() & ~given)
    if len(absent):
        worker, label = log.votes.workers.tolist()[absent[0][0]], log.votes.classes.tolist()[absent[0][1]]
        raise ValueError(
            f"initial_error has no row for {len(absent):,} pairs of worker and label in the data, such as "
            f"({worker!r}, {label!r}); initial_error_strategy='assign' needs them all, 'addition' does not"
        )
    totals = initial_error.groupby("worker", sort=False).sum().to_numpy(float)
    if initial_error.to_numpy(float).max() <= 1 and not np.allclose(totals, 1):
        raise ValueError(
            "initial_error holds probabilities (nothing is above 1), but those of a worker's labels do not "
            "sum to 1 in every column; divide by the sums, or give counts"
        )
