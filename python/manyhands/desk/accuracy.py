"""How accurate answers are, from decided tasks: the interval is valid because part of them were drawn at random."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

#: Standard errors on either side of a 95 % interval.
_Z = 1.959964

#: The lower 5 % limits of a Poisson mean, of which 0, 1, 2 and 3 events were seen.
_RARE = (0.0, 0.0513, 0.3554, 0.8177)

#: Decided tasks with two votes that an estimate of effective annotators needs.
_FEWEST = 10

#: States of a task.
OPEN, RIGHT, WRONG, SKIPPED = -1, 0, 1, 2

Ints = npt.NDArray[np.int64]
States = npt.NDArray[np.int8]


@dataclass(frozen=True)
class Accuracy:
    """Share of right answers, with a 95 % interval.

    Before there is a sample, estimates are NaN and intervals contain all possible values.
    """

    #: Of the answers as aggregated.
    before: float
    before_low: float
    before_high: float
    #: After the decisions replaced answers; decided ones count as right.
    after: float
    after_low: float
    after_high: float
    #: Tasks drawn at random and decided, and the wrong ones among them; tasks the information stream passed.
    n_sample: int
    n_wrong: int
    n_certain: int

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, None for NaN."""
        return {name: None if value != value else value for name, value in asdict(self).items()}


def accuracy(
    states: States, permutations: Sequence[Ints], drawn: Sequence[int], order: Ints, rank: Ints, passed: int
) -> Accuracy:
    """Estimate the accuracy of answers from a random sample of each stratum and a part that is known completely.

    Tasks that the information stream has passed are decided one by one; they count as themselves. Of the others, the
    decided tasks among the first `drawn` of each permutation are a random sample. Skipped tasks are left out: the
    estimate is about tasks that can be decided.

    Parameters
    ----------
    states : ndarray, shape (n_tasks,)
        ``OPEN``, ``RIGHT``, ``WRONG`` or ``SKIPPED`` for each task.
    permutations, drawn
        Rows of each stratum in random order, and how many of them were drawn.
    order, rank, passed
        Rows in the order of the information stream, the place of each row there, and how many of them were passed. With
        several strata none is.

    Notes
    -----
    The interval is Wilson's, with the effective sample size of the stratified estimate and a finite-population
    correction; up to three wrong or right answers, where its near end is too close, that end is the Poisson limit of
    Brown, Cai and DasGupta. Cost: O(tasks drawn or passed), without a pass over all tasks.

    References
    ----------
    L. D. Brown, T. T. Cai, A. DasGupta, "Interval estimation for a binomial proportion", Statistical Science 16 (2001).
    """
    passed_states = states[order[:passed]]
    wrong_certain = int((passed_states == WRONG).sum())
    n_certain = wrong_certain + int((passed_states == RIGHT).sum())
    weights, shares, sizes, spread = [], [], [], []
    n_sample = n_wrong = 0
    for rows, m in zip(permutations, drawn, strict=True):
        head = rows[:m]
        outside = head[rank[head] >= passed]
        sampled = states[outside]
        right, wrong, skipped = (int((sampled == state).sum()) for state in (RIGHT, WRONG, SKIPPED))
        n = right + wrong
        left = len(rows) - passed
        decidable = left * n / (n + skipped) if n + skipped else float(left)
        n_sample, n_wrong = n_sample + n, n_wrong + wrong
        if not left:
            continue
        weights.append(decidable)
        sizes.append(n)
        shares.append(wrong / n if n else math.nan)
        guess = (wrong + 0.5) / (n + 1)
        spread.append(guess * (1 - guess) * max(0.0, 1 - n / max(decidable, 1)) / n if n else math.nan)
    outside_tasks = sum(weights)
    total = n_certain + outside_tasks
    if not total:
        return Accuracy(math.nan, 0.0, 1.0, math.nan, 0.0, 1.0, 0, 0, 0)
    if not outside_tasks:
        share, low, high = 0.0, 0.0, 0.0
    elif min(sizes) == 0:
        share, low, high = math.nan, 0.0, 1.0
    else:
        w = np.array(weights) / outside_tasks
        share = float(w @ np.array(shares))
        low, high = _wilson(share, w, np.array(sizes), np.array(shares), np.array(spread))
    estimate, lower, upper = (1 - (wrong_certain + outside_tasks * p) / total for p in (share, high, low))
    # The wrong answers that were seen are replaced, and all others remain.
    after, after_low, after_high = (
        1 - (p if math.isnan(p) else max(0.0, outside_tasks * p - n_wrong)) / total for p in (share, high, low)
    )
    return Accuracy(estimate, lower, upper, after, after_low, after_high, n_sample, n_wrong, n_certain)


def effective_annotators(n_votes: Ints, n_wrong: Ints, weights: npt.NDArray[np.float64]) -> float:
    """Return how many independent annotators a task has in effect, by Kish's formula k / (1 + (k - 1) ρ).

    ρ is the correlation of the errors of two annotators of one task, over tasks with a decided answer.

    Parameters
    ----------
    n_votes, n_wrong : ndarray, shape (n_decided,)
        Votes on each decided task of the random sample, and those that differ from the decision.
    weights : ndarray, shape (n_decided,)
        Tasks that each of them stands for.

    Returns
    -------
    float
        NaN where fewer than ten tasks have two votes, or where every vote is right or every vote is wrong.

    Examples
    --------
    >>> n, wrong, weights = np.full(20, 3), np.array([0] * 15 + [3] * 5), np.ones(20)
    >>> float(effective_annotators(n, wrong, weights))  # all err together
    1.0
    """
    pairs = n_votes * (n_votes - 1) / 2
    votes, wrong = float(weights @ n_votes), float(weights @ n_wrong)
    if int((pairs > 0).sum()) < _FEWEST or not 0 < wrong < votes:
        return math.nan
    p = wrong / votes
    squares = n_wrong * (1 - p) ** 2 + (n_votes - n_wrong) * p**2
    covariance = float(weights @ (((n_wrong - n_votes * p) ** 2 - squares) / 2)) / float(weights @ pairs)
    k = votes / float(weights.sum())
    rho = min(max(covariance / (p * (1 - p)), 0.0), 1.0)
    return k / (1 + (k - 1) * rho)


def _wilson(share: float, w: Any, sizes: Any, shares: Any, spread: Any) -> tuple[float, float]:
    """Wilson's interval for a stratified share, with the sample size that has the variance of the estimate."""
    variance = float(np.sum(w**2 * spread))
    if variance <= 0:
        return share, share  # every stratum is known completely
    typical = float(w @ ((shares * sizes + 0.5) / (sizes + 1)))
    n = typical * (1 - typical) / variance
    centre = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    low, high = centre - half, centre + half
    wrong, right = share * n, (1 - share) * n
    if wrong <= len(_RARE) - 1:
        low = min(low, _poisson_limit(wrong) / n)
    if right <= len(_RARE) - 1:
        high = max(high, 1 - _poisson_limit(right) / n)
    return max(0.0, low), min(1.0, high)


def _poisson_limit(events: float) -> float:
    return float(np.interp(events, range(len(_RARE)), _RARE))
