"""Answers that keep a stated gap between groups at the least loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow
from manyhands._base.checks import check_choice, check_number
from manyhands._base.estimator import Array
from manyhands._base.names import Names
from manyhands.categorical._passes import posterior_under
from manyhands.categorical.consensus import Consensus
from manyhands.categorical.table import Annotations
from manyhands.fairness.attribute import Attribute, Ints, read_votes
from manyhands.fairness.conditioned import beliefs, condition_on, split
from manyhands.fairness.gaps import positives

if TYPE_CHECKING:
    import pyarrow as pa

#: Gaps that decisions can keep. That of accuracy could be kept only by answering the easier group worse.
DECIDED = ("demographic_parity", "equal_opportunity", "false_positives")
#: Passes of a fit that models groups, and the change of posteriors at which it ends.
_PASSES, _STILL = 50, 1e-4


@dataclass(frozen=True, eq=False, repr=False)
class FairAnswers:
    """Answers that keep a gap; to be had from :func:`aggregate`."""

    tasks: Names
    classes: Names
    measure: str
    #: Codes of the answers, and of those without the condition, (n_tasks,).
    codes: Ints
    before: Ints
    posterior: Array
    groups: list[Any]
    #: Rates of the groups that are expected under the posterior, with the condition and without.
    rates: dict[Any, float]
    rates_before: dict[Any, float]
    #: Share of the answers that are expected to be wrong because of the condition.
    loss: float

    @property
    def labels(self) -> npt.NDArray[Any]:
        """The answer to each task, by name, (n_tasks,)."""
        labels: npt.NDArray[Any] = self.classes.values[self.codes]
        return labels

    @property
    def gap(self) -> float:
        """The expected gap with the condition."""
        return max(self.rates.values()) - min(self.rates.values())

    @property
    def gap_before(self) -> float:
        """The expected gap without."""
        return max(self.rates_before.values()) - min(self.rates_before.values())

    def frame(self) -> pa.Table:
        """Return task, label, probability of the label, and whether the condition changed it, as an Arrow table."""
        return arrow.table(
            {
                "task": self.tasks.arrow(),
                "label": self.classes.take(self.codes).arrow(),
                "confidence": self.posterior[np.arange(len(self.codes)), self.codes],
                "changed": self.codes != self.before,
            }
        )

    def __repr__(self) -> str:
        return (
            f"<FairAnswers: gap of {self.measure} {self.gap_before:.3f}, then {self.gap:.3f}; "
            f"{int((self.codes != self.before).sum()):,} of {len(self.codes):,} answers changed, {self.loss:.2%} more "
            "expected to be wrong>"
        )


def aggregate(
    votes: Any,
    *,
    attribute: Any,
    gap: float,
    measure: str = "demographic_parity",
    positive: Any = None,
    model: Any = None,
    within: bool = False,
) -> FairAnswers:
    """Aggregate answers so that the gap between groups is at most a stated value, at the least expected loss.

    Use it where decisions must not differ much between groups of tasks. Each group gets its own threshold. The gap is
    the expected one under the posterior; against known classes it holds as far as the posterior is correct.

    Parameters
    ----------
    votes : Annotations or frame
        The annotations.
    attribute : column, mapping, frame or array
        Group of each task, as for :func:`gaps`. Tasks without a group are answered without the condition.
    gap : float
        Largest allowed difference between the rates of groups.
    measure : str, default "demographic_parity"
        ``"demographic_parity"``, ``"equal_opportunity"`` or ``"false_positives"``.
    positive : class or list of classes, optional
        The positive class, as for :func:`gaps`.
    model : Aggregator, optional
        A fitted aggregator whose posterior is used; by default the default aggregator, fitted here.
    within : bool, default False
        Whether to refit with confusion matrices per group, which removes errors that workers make on one group only;
        for demographic parity, posteriors are also adjusted as little as possible to keep the gap after each iteration
        (posterior regularization).

    Returns
    -------
    FairAnswers
        The answers with ``gap``, ``gap_before`` and ``loss``; ``frame()`` has one row per task.

    Notes
    -----
    The best decisions among those with one threshold per group: the smallest rate of all groups is one that some
    threshold gives, and all are tried. For demographic parity no other decisions have fewer expected errors. For the
    other measures tasks have different weights in a rate, and with few tasks other decisions can be slightly better;
    the difference vanishes with many tasks. Time O(n log n) for n
    tasks, memory O(n · n_groups); with `within` that of some tens of iterations.

    References
    ----------
    M. Hardt, E. Price, N. Srebro, "Equality of opportunity in supervised learning", NIPS (2016), for thresholds; K.
    Ganchev et al., "Posterior regularization for structured latent variable models", JMLR 11 (2010).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(400, 10, 2, labels_per_task=5, seed=1)
    >>> answers = mh.fairness.aggregate(crowd.log, attribute=["a", "b"] * 200, gap=0.02)
    >>> round(answers.gap, 9) <= 0.02
    True
    """
    check_choice("measure", measure, DECIDED)
    check_number("gap", gap, least=0, most=1)
    log, groups = read_votes(votes, attribute, "task")
    targets = positives(log._classes, positive)
    rows = beliefs(log, Consensus().fit(log) if model is None else model)
    if within:
        rows = _fit_within(log, rows, groups, targets, gap if measure == "demographic_parity" else None)
    before = rows.argmax(axis=1).astype(np.int64)
    codes, rates = decide(rows, groups, targets, measure, gap)
    each = np.arange(len(rows))
    loss = float((rows[each, before] - rows[each, codes]).sum() / len(rows))
    old = _rates(rows, before, groups, targets, measure)
    return FairAnswers(log._tasks, log._classes, measure, codes, before, rows, groups.named, rates, old, loss)


def decide(
    rows: Array, groups: Attribute, positive: npt.NDArray[np.bool_], measure: str, gap: float
) -> tuple[Ints, dict[Any, float]]:
    """Codes of answers whose rates differ by at most the gap, at the least expected loss, and the rates."""
    yes = np.where(positive, rows, -1.0).argmax(axis=1)
    no = np.where(positive, -1.0, rows).argmax(axis=1)
    each = np.arange(len(rows))
    codes = rows.argmax(axis=1).astype(np.int64)
    gain = rows[each, yes] - rows[each, no]
    weight = _weight(rows, positive, measure)
    parts = [_Part(np.flatnonzero(groups.codes == g), gain, weight) for g in range(len(groups.groups))]
    parts = [part for part in parts if len(part.rows)]
    for part, n in zip(parts, _numbers(parts, gap), strict=True):
        row_order = part.rows[part.order]
        codes[row_order[:n]] = yes[row_order[:n]]
        codes[row_order[n:]] = no[row_order[n:]]
    return codes, _rates(rows, codes, groups, positive, measure)


class _Part:
    """The tasks of a group in the order in which they become positive, what that gains, and the rate then."""

    def __init__(self, rows: Ints, gain: Array, weight: Array) -> None:
        self.rows = rows
        mine, heavy = gain[rows], np.maximum(weight[rows], 1e-12)
        self.order = np.argsort(-mine / heavy, kind="stable")
        total = heavy.sum()
        self.rates = np.append(0.0, np.minimum(np.cumsum(heavy[self.order]) / total, 1.0))
        self.rates[-1] = 1.0
        self.gains = np.append(0.0, np.cumsum(mine[self.order]))
        self.best = int(self.gains.argmax())


def _numbers(parts: list[_Part], gap: float) -> list[int]:
    """Return the number of positive answers in each group."""
    rounding = 1e-12
    least = np.unique(np.concatenate([part.rates for part in parts]))
    total = np.zeros(len(least))
    counts = []
    for part in parts:
        low = np.searchsorted(part.rates, least - rounding)
        high = np.searchsorted(part.rates, least + gap + rounding, side="right") - 1
        n = np.clip(part.best, low, np.maximum(high, 0))
        total += np.where(low <= high, part.gains[np.minimum(n, len(part.gains) - 1)], -np.inf)
        counts.append(n)
    best = int(total.argmax())
    return [int(n[best]) for n in counts]


def _weight(rows: Array, positive: npt.NDArray[np.bool_], measure: str) -> Array:
    """Weight of a positive answer in the rate of its group, up to a factor common to the group."""
    true = rows[:, positive].sum(axis=1)
    if measure == "demographic_parity":
        return np.ones(len(rows))
    return np.asarray(true if measure == "equal_opportunity" else 1.0 - true)


def _rates(
    rows: Array, codes: Ints, groups: Attribute, positive: npt.NDArray[np.bool_], measure: str
) -> dict[Any, float]:
    weight, yes = np.maximum(_weight(rows, positive, measure), 1e-12), positive[codes]
    rates = {}
    for g, name in enumerate(groups.named):
        mine = groups.codes == g
        if mine.any():
            rates[name] = float(weight[mine & yes].sum() / weight[mine].sum())
    return rates


def _fit_within(
    log: Annotations, rows: Array, groups: Attribute, positive: npt.NDArray[np.bool_], gap: float | None
) -> Array:
    """Posteriors under matrices of workers on groups; with a gap, each pass ends with posteriors that keep it."""
    m, g, k = log.n_workers, len(groups.groups), log.n_classes
    table = split(log, groups).table
    for _ in range(_PASSES):
        groupwise = condition_on(log, rows, groups, None)
        whole = np.concatenate([groupwise.matrices.reshape(m * g, k, k), groupwise.overall.mean(axis=0, keepdims=True)])
        new = posterior_under(table, groupwise.prior, np.ascontiguousarray(whole))
        if gap is not None:
            new = _adjust(new, groups, positive, gap)
        change = float(np.abs(new - rows).mean())
        rows = new
        if change < _STILL:
            break
    return rows


def _adjust(rows: Array, groups: Attribute, positive: npt.NDArray[np.bool_], gap: float) -> Array:
    """Posteriors whose mean positive mass differs between groups by the gap at most; that of all tasks stays."""
    true = rows[:, positive].sum(axis=1)
    mine = [np.flatnonzero(groups.codes == g) for g in range(len(groups.groups))]
    mine = [part for part in mine if len(part)]
    rates, sizes = np.array([true[part].mean() for part in mine]), np.array([len(part) for part in mine])
    if np.ptp(rates) <= gap:
        return rows
    low, high = float(rates.min()) - gap, float(rates.max())
    for _ in range(60):
        middle = (low + high) / 2
        less = (np.clip(rates, middle, middle + gap) - rates) @ sizes < 0
        low, high = (middle, high) if less else (low, middle)
    adjusted = rows.copy()
    for part, target in zip(mine, np.clip(rates, low, low + gap), strict=True):
        odds = _tilt(true[part], float(target))
        factor = np.where(positive, odds, 1.0)
        adjusted[part] = rows[part] * factor
        adjusted[part] /= adjusted[part].sum(axis=1, keepdims=True)
    return adjusted


def _tilt(p: Array, target: float) -> float:
    """By what to multiply the odds of all probabilities for their mean to be the target."""
    low, high = -40.0, 40.0
    for _ in range(80):
        middle = (low + high) / 2
        odds = np.exp(middle)
        short = (p * odds / (p * odds + 1 - p)).mean() < target
        low, high = (middle, high) if short else (low, middle)
    return float(np.exp((low + high) / 2))
