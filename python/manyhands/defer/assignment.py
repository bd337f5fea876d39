"""Shares of the work that are kept by decisions: exactly in a batch, and nearly in a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_number
from manyhands.defer.projection import Bound, Floats, as_bounds, as_rows

Ints: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]

#: Shares times cases that miss a whole number by less than this are meant to be it.
_ROUNDING = 1e-9

#: Beyond that many cases, a double no longer distinguishes one from the next.
_MOST_CASES = 2**53

#: Greatest score that :class:`Thresholds` take, less than :func:`assign` does: noise and an offset are added to it.
_MOST_SCORE = 1e299

#: Scores closer than this share of their range are taken for equal by :class:`Thresholds`, and drawn between.
_TIE = 1e-7

# The constants of SplitMix64.
_GOLDEN, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def capacities(lower: Bound, upper: Bound, n_cases: int, n_options: int) -> tuple[Ints, Ints]:
    """Turn bounds of shares into numbers of cases.

    Lower bounds are rounded down and upper ones up, so that whole numbers can keep what shares can.

    Parameters
    ----------
    lower, upper : array of shape (n_options,), a number for all options, or None
        Bounds of the shares.
    n_cases, n_options : int
        How many cases there are, and how many options.

    Returns
    -------
    lower, upper : arrays of shape (n_options,)
        What :func:`assign` takes.

    Examples
    --------
    >>> import manyhands as mh
    >>> least, most = mh.defer.capacities([0.3, 0.3, 0.4], [0.3, 0.3, 0.4], n_cases=11, n_options=3)
    >>> least.tolist(), most.tolist()
    ([3, 3, 4], [4, 4, 5])
    """
    check_number("n_cases", n_cases, least=0, most=_MOST_CASES, whole=True)
    check_number("n_options", n_options, least=1, whole=True)
    low, high = as_shares(lower, upper, n_options)
    least, most = np.floor(low * n_cases + _ROUNDING), np.ceil(high * n_cases - _ROUNDING)
    return least.astype(np.int64), most.astype(np.int64)


def as_shares(lower: Bound, upper: Bound, n_options: int) -> tuple[Floats, Floats]:
    """Return bounds of shares, one for each option, each a share by itself."""
    low, high = as_bounds(lower, upper, n_options)
    for what, bound in (("lower", low), ("upper", high)):
        if not np.all((bound >= 0) & (bound <= 1)):
            raise ValueError(f"{what} must hold shares between 0 and 1, not {bound.tolist()}")
    return low, high


def assign(scores: npt.ArrayLike, lower: npt.ArrayLike | None = None, upper: npt.ArrayLike | None = None) -> Ints:
    """Give every case of a batch to one option, each option within its capacities, at the greatest total score.

    An arg max of probabilities does not keep the shares that the probabilities keep on average; this does, to the case.

    Parameters
    ----------
    scores : array of shape (n, n_options)
        What is gained if an option answers a case, such as the logarithm of its probability, within ±1e300; ``-inf``
        where it may not.
    lower, upper : integer array of shape (n_options,), a number for all options, or None
        How many cases each option takes at least and at most; none is 0 or all. See :func:`capacities`.

    Returns
    -------
    array of shape (n,)
        The option of each case.

    Raises
    ------
    ValueError
        Where no assignment keeps the capacities; the message specifies which options are in the way.

    Notes
    -----
    A flow of least cost over the options, exact up to rounding (1e-15 of the largest score for each case). Time
    O(n · n_options), and O(n_options²) for each of the about √n · n_options cases by which the offsets of a sample miss
    the capacities; memory O(√n · n_options²) next to the scores. Of equally good assignments always the same is given.

    Examples
    --------
    Both cases are better with the expert, who has time for one:

    >>> import manyhands as mh
    >>> mh.defer.assign([[0.9, 0.2], [0.8, 0.7]], upper=[1, 2]).tolist()
    [0, 1]
    """
    rows = as_rows("scores", scores)
    n, n_options = rows.shape
    least = _as_capacity("lower", lower, 0, n_options)
    most = _as_capacity("upper", upper, n, n_options)
    return _core.assign(rows, least, most)[0].astype(np.int64)


def ranked(scores: npt.ArrayLike, coverage: float) -> Ints:
    """Rank cases by the classifier's score: the first of them go to it, each other one to its best option.

    The rule by which coverage–accuracy curves of learning to defer have mostly been drawn. It ignores what the experts
    would make of the cases that the classifier is given, and where the classifier is the best option of one of the
    others, that one is the classifier's too: the coverage is the least share that it gets. :func:`assign` keeps the
    coverage at the greatest total score.

    Parameters
    ----------
    scores : array of shape (n, n_options)
        How well each option suits each case, the greater the better; the classifier is last.
    coverage : float
        Share of the cases that the classifier takes because of its rank, rounded down to whole cases.

    Returns
    -------
    array of shape (n,)
        The option of each case; of equal cases the earlier ranks higher, of equal options the first is the best.

    References
    ----------
    C. Nguyen, T.-T. Do and G. Carneiro, "Probabilistic learning to defer", ICLR 2025, Algorithm 2.

    Examples
    --------
    >>> import manyhands as mh
    >>> scores = [[0.9, 0.8], [0.2, 0.7], [0.6, 0.1]]
    >>> mh.defer.ranked(scores, 1 / 3).tolist()  # the second case is better with the classifier, too
    [1, 1, 0]
    >>> mh.defer.assign(scores, lower=[0, 1], upper=[3, 1]).tolist()
    [0, 1, 0]
    """
    check_number("coverage", coverage, least=0, most=1)
    rows = _as_scores(scores)
    who = np.asarray(rows.argmax(axis=1), np.int64)
    first = np.argsort(-rows[:, -1], kind="stable")[: int(coverage * len(rows) + _ROUNDING)]
    if np.isneginf(rows[first, -1]).any():
        raise ValueError(f"coverage={coverage} gives the classifier cases whose score forbids it (-inf); lower it")
    who[first] = rows.shape[1] - 1
    return who


def _as_capacity(what: str, given: npt.ArrayLike | None, otherwise: int, n_options: int) -> Words:
    numbers = np.asarray(otherwise if given is None else given)
    if numbers.dtype.kind not in "ui":
        raise TypeError(
            f"{what} must hold whole numbers of cases, not {numbers.dtype}; capacities() makes them of shares"
        )
    if numbers.shape not in ((), (n_options,)):
        raise ValueError(f"{what} must hold one capacity for each of {n_options} options, not {numbers.shape}")
    if np.any(numbers < 0):
        raise ValueError(f"{what} must not be negative: {numbers.tolist()}")
    return np.ascontiguousarray(np.broadcast_to(numbers, n_options), np.uint64)


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Offsets per option with which an arg max keeps shares of the work, one case at a time.

    Made by :meth:`fit` on scores of cases like those to come; unseen cases keep the shares up to the error of a sample,
    about ``1 / sqrt(n)`` of each of the two sets.

    Scores that are equal, as where a router knows few values, cannot be distinguished by offsets. So each score gets a
    little noise, a fixed function of the case, the option and the seed, of at most `tie`: the offsets then draw between
    equals in the right proportion, and the same case is decided the same way every time.

    Attributes
    ----------
    offsets : array of shape (n_options,)
        Added to the scores.
    tie : float
        Largest noise; scores closer than this may change places.
    seed : int
        Changes which option wins a tie.

    Examples
    --------
    >>> import manyhands as mh
    >>> import numpy as np
    >>> gate = np.random.default_rng(0).dirichlet([4, 2, 1], size=20_000)
    >>> (np.bincount(gate.argmax(axis=1)) / len(gate)).round(1).tolist()  # nobody asked for this
    [0.8, 0.2, 0.0]
    >>> thresholds = mh.defer.Thresholds.fit(gate[:10_000], lower=[0.2, 0.2, 0.6], upper=[0.2, 0.2, 0.6])
    >>> who = thresholds.decide(gate[10_000:])
    >>> (np.bincount(who) / len(who)).round(1).tolist()
    [0.2, 0.2, 0.6]
    """

    offsets: Floats
    tie: float
    seed: int = 0

    def __post_init__(self) -> None:
        check_number("seed", self.seed, least=0, whole=True)

    @classmethod
    def fit(cls, scores: npt.ArrayLike, lower: Bound = None, upper: Bound = None, *, seed: int = 0) -> Thresholds:
        """Find the offsets for which decisions on these cases keep the bounds at the greatest total score.

        Parameters
        ----------
        scores : array of shape (n, n_options)
            Scores of cases that were not used to train what scores them; ``-inf`` where an option may not answer.
        lower, upper : array of shape (n_options,), a number for all options, or None
            Bounds of the shares.
        seed : int, default 0
            Changes which option wins a tie.

        Notes
        -----
        As quick as :func:`assign`, whose potentials the offsets are.
        """
        check_number("seed", seed, least=0, whole=True)
        rows = _as_scores(scores)
        if not len(rows):
            raise ValueError("there are no cases to fit thresholds on")
        finite = rows[np.isfinite(rows)]
        span = float(np.ptp(finite)) if finite.size else 0.0
        tie = _TIE * (span or 1.0)
        least, most = capacities(lower, upper, *rows.shape)
        noisy = rows + _noise(np.arange(len(rows)), rows.shape[1], seed) * tie
        return cls(_core.assign(noisy, least.astype(np.uint64), most.astype(np.uint64))[1], tie, seed)

    def decide(self, scores: npt.ArrayLike, *, cases: npt.ArrayLike | None = None) -> Ints:
        """Choose an option for each case, whatever the others are.

        Parameters
        ----------
        scores : array of shape (n, n_options)
            As in :meth:`fit`.
        cases : integer array of shape (n,), optional
            Numbers by which cases are known, for ties; their places where not given. Give them where cases come one by
            one: the first place always draws the same.

        Returns
        -------
        array of shape (n,)
            The option of each case.
        """
        rows = _as_scores(scores, len(self.offsets))
        case_ids = np.arange(len(rows)) if cases is None else np.asarray(cases)
        if case_ids.shape != (len(rows),) or case_ids.dtype.kind not in "ui":
            raise ValueError(f"cases must be {len(rows)} whole numbers, not {case_ids.dtype} of shape {case_ids.shape}")
        total = rows + _noise(case_ids, rows.shape[1], self.seed) * self.tie + self.offsets
        return np.asarray(total.argmax(axis=1), np.int64)


def _as_scores(scores: npt.ArrayLike, n_options: int | None = None) -> Floats:
    """Return scores that can be added to, in rows that each allow an option."""
    rows = as_rows("scores", scores, n_options)
    bad = ~(np.abs(rows) <= _MOST_SCORE) & (rows != -np.inf)
    if bad.any():
        row, option = np.argwhere(bad)[0]
        raise ValueError(
            f"scores hold {rows[row, option]} in row {row}; use numbers up to {_MOST_SCORE:g}, or -inf to forbid"
        )
    empty = (rows == -np.inf).all(axis=1)
    if empty.any():
        raise ValueError(f"row {int(empty.argmax())} of the scores allows no option: all are -inf")
    return rows


def _noise(cases: npt.NDArray[Any], n_options: int, seed: int) -> Floats:
    """Numbers in [0, 1) for each case and option, by hashing."""
    mixed = _scramble(cases.astype(np.uint64) * _GOLDEN + _scramble(np.full(1, seed, np.uint64)))
    words = _scramble(mixed[:, None] + np.arange(1, n_options + 1, dtype=np.uint64) * _GOLDEN)
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _scramble(words: Words) -> Words:
    """Spread any change of a word over all its bits (the finalizer of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))
