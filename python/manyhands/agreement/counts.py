"""Agreement of labels on the same task, regardless of which worker gave them."""

from __future__ import annotations

from typing import Any

import numpy as np

from manyhands import _core
from manyhands._base.checks import check_choice
from manyhands._base.estimator import Array
from manyhands.agreement.result import Agreement, Jackknife, check_weights, labels_of, scale_by_rank
from manyhands.categorical.shards.passes import Sharded
from manyhands.categorical.table import Annotations

#: Levels of measurement.
LEVELS = ("nominal", "ordinal", "interval", "ratio")
#: How labels differ at each level of measurement, in the core's words.
_SHAPES = {"nominal": "nominal", "ordinal": "quadratic", "interval": "quadratic", "ratio": "ratio"}


def krippendorff_alpha(
    votes: Any, *, level: str = "nominal", resamples: int = 0, confidence: float = 0.95, seed: int = 0
) -> Agreement:
    """Krippendorff's alpha: one minus observed over expected disagreement.

    Use it as the default coefficient: it allows any number of workers, labels per task and missing labels. Tasks with
    one label are left out.

    Parameters
    ----------
    votes : Annotations or frame
        The annotations, or a frame with well-known column names.
    level : {"nominal", "ordinal", "interval", "ratio"}, default "nominal"
        Distance of two labels. ``"nominal"``: equal or not. ``"ordinal"``: by the labels that rank between them, in the
        order of the table's classes (set by ``classes=``). ``"interval"``: by the
        square of their difference. ``"ratio"``: by the square of their difference relative to their sum. For the
        last two the classes must be numbers.
    resamples : int, default 0
        Number of jackknife groups for the interval, about a hundred; 0 for no interval. At most one group per task.
    confidence : float, default 0.95
        Level of the interval.
    seed : int, default 0
        Seed of the assignment of tasks to groups; the result is the same on any number of threads.

    Returns
    -------
    Agreement
        1 for perfect agreement, 0 for chance. NaN where no task has two labels, or all labels are equal.

    Notes
    -----
    Time O(annotations) for the value and for each resample, and O(classes²) where the level is not nominal. Memory at
    most 6 bytes per annotation and 21 bytes per task. A worker's second label of a task counts as one more label.

    The interval treats workers as fixed and tasks as a sample. Its standard error is that of a delete-a-group
    jackknife, with Student's quantile for the number of groups, on the scale of log(1 - alpha). If all tasks agree, it
    allows for disagreement too rare to be observed in that number of tasks. It is None, with a ``reason``, if alpha is
    undefined without some group of tasks.

    References
    ----------
    K. Krippendorff, "Computing Krippendorff's alpha-reliability" (2011). F. M. T. A. Busing, E. Meijer and R. van der
    Leeden, "Delete-m jackknife for unequal m", Statistics and Computing 9 (1999).

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_dense([[0, 0], [1, 1], [0, 1]])
    >>> round(mh.agreement.krippendorff_alpha(votes).value, 4)
    0.4444
    >>> mh.agreement.krippendorff_alpha(votes, resamples=200).interval[0] <= 0.4444
    True
    """
    check_choice("level", level, LEVELS)
    jackknife = Jackknife(resamples, confidence, seed)
    jackknife.check()
    votes = labels_of(votes)
    numbers = np.zeros(votes.n_classes)
    if level in ("interval", "ratio"):
        numbers = _numbers(votes, level)
    coefficient = "ordinal-alpha" if level == "ordinal" else "alpha"
    return _of_counts(votes, coefficient, {"shape": _SHAPES[level], "positions": numbers}, jackknife)


def fleiss_kappa(
    votes: Any, *, weights: str | None = None, resamples: int = 0, confidence: float = 0.95, seed: int = 0
) -> Agreement:
    """Fleiss' kappa, also for tasks with different numbers of labels.

    Use it to compare with published kappas. With equal numbers of labels per task, it is the published coefficient;
    otherwise Gwet's convention applies: all tasks have equal weight, the observed agreement is that of tasks with two
    labels or more, and class shares are means over all tasks.

    Parameters
    ----------
    votes : Annotations or frame
        The annotations, or a frame with well-known column names.
    weights : {None, "linear", "quadratic"}, default None
        Distance of two labels: None for equal or not; ``"linear"`` or ``"quadratic"`` by their distance in the order of
        the table's classes.
    resamples, confidence, seed
        As in :func:`krippendorff_alpha`.

    Returns
    -------
    Agreement
        1 for perfect agreement, 0 for chance. NaN where no task has two labels, or all labels are equal.

    Notes
    -----
    Cost as that of :func:`krippendorff_alpha`.

    References
    ----------
    J. L. Fleiss, "Measuring nominal scale agreement among many raters", Psychological Bulletin 76 (1971). K. L. Gwet,
    "Handbook of Inter-Rater Reliability" (2014).

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_dense([[0, 0, 1], [1, 1, 1], [0, 0, 0]])
    >>> round(mh.agreement.fleiss_kappa(votes).value, 2)
    0.55
    """
    return _by_rank(votes, "fleiss", weights, Jackknife(resamples, confidence, seed))


def gwet_ac1(votes: Any, *, resamples: int = 0, confidence: float = 0.95, seed: int = 0) -> Agreement:
    """Gwet's AC1: agreement beyond chance, robust to a dominant class.

    Use it where nearly all labels are of one class: kappa then falls toward zero, AC1 does not.

    Parameters
    ----------
    votes : Annotations or frame
        The annotations, or a frame with well-known column names. All its classes count,
        including classes without labels.
    resamples, confidence, seed
        As in :func:`krippendorff_alpha`.

    Returns
    -------
    Agreement
        1 for perfect agreement. NaN where no task has two labels, or the table has only one class.

    Notes
    -----
    Tasks of different numbers of labels are treated as in :func:`fleiss_kappa`. Cost as that of
    :func:`krippendorff_alpha`, and O(classes²) once.

    References
    ----------
    K. L. Gwet, "Computing inter-rater reliability and its variance in the presence of high agreement", British
    Journal of Mathematical and Statistical Psychology 61 (2008).

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_dense([[0, 0, 1], [1, 1, 1], [0, 0, 0]])
    >>> round(mh.agreement.gwet_ac1(votes).value, 2)
    0.56
    """
    return _by_rank(votes, "gwet", None, Jackknife(resamples, confidence, seed))


def gwet_ac2(
    votes: Any, *, weights: str = "quadratic", resamples: int = 0, confidence: float = 0.95, seed: int = 0
) -> Agreement:
    """Gwet's AC2: :func:`gwet_ac1` for ordered classes, in which near misses count as partial agreement.

    Parameters
    ----------
    votes
        As in :func:`gwet_ac1`; classes are in the order of the table.
    weights : {"linear", "quadratic"}, default "quadratic"
        How agreement falls with the distance of two classes.
    resamples, confidence, seed
        As in :func:`krippendorff_alpha`.

    Returns
    -------
    Agreement
        1 for perfect agreement. NaN where no task has two labels, or the table has only one class.

    Notes
    -----
    Cost as that of :func:`gwet_ac1`.

    References
    ----------
    K. L. Gwet, "Handbook of Inter-Rater Reliability" (2014).

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_dense([[0, 1], [2, 2], [0, 0]])
    >>> mh.agreement.gwet_ac2(votes).value > mh.agreement.gwet_ac1(votes).value
    True
    """
    if weights is None:
        raise ValueError("weights must be 'linear' or 'quadratic', not None; use gwet_ac1 for unweighted agreement")
    return _by_rank(votes, "gwet", weights, Jackknife(resamples, confidence, seed))


def _by_rank(votes: Any, coefficient: str, weights: str | None, jackknife: Jackknife) -> Agreement:
    check_weights(weights)
    jackknife.check()
    votes = labels_of(votes)
    return _of_counts(votes, coefficient, scale_by_rank(votes, weights), jackknife)


def _of_counts(votes: Annotations, coefficient: str, scale: dict[str, Any], jackknife: Jackknife) -> Agreement:
    if votes.in_shards:
        sums = _of_shards(votes.passes, coefficient, scale, jackknife)
    else:
        sums = votes.table.agreement_by_counts(coefficient=coefficient, **scale, **jackknife.arguments())
    reason = "no task has two labels" if sums["n_tasks"] == 0 else "all labels are equal: chance disagreement is 0"
    return jackknife.agreement(sums, reason)


def _of_shards(shards: Sharded, coefficient: str, scale: dict[str, Any], jackknife: Jackknife) -> _core._Counted:
    """Compute the coefficient of a log in shards, from sums over each of them."""
    if jackknife.resamples:
        raise TypeError(
            "resamples must be 0 for a log in shards on disk; for an interval, take votes.in_memory() if it fits"
        )
    k = shards.n_classes
    pairs, classes, n, n_paired, n_pairs = np.zeros((k, k)), np.zeros(k), 0.0, 0.0, 0
    for sums in shards.each(lambda part: part.shard.table().coincidences(coefficient=coefficient)):
        pairs += sums["pairs"]
        classes += sums["classes"]
        n, n_paired, n_pairs = n + sums["n"], n_paired + sums["n_paired"], n_pairs + sums["n_pairs"]
    value, worst = _core.agreement_by_coincidences(pairs, classes, n, n_paired, coefficient=coefficient, **scale)
    return {
        "value": value,
        "worst": worst,
        "left_out": np.zeros(0),
        "sizes": np.zeros(0, np.uint32),
        "n_tasks": int(n_paired),
        "n_pairs": n_pairs,
    }


def _numbers(votes: Annotations, level: str) -> Array:
    """Return the classes as numbers; raise if they are not."""
    if votes.classes.dtype.kind not in "biuf":
        raise TypeError(
            f"level={level!r} needs classes that are numbers, and {votes.classes.tolist()[0]!r} is not one; use "
            "level='ordinal' for classes that are only in order, or make the table from numbers"
        )
    numbers = votes.classes.astype(np.float64)
    if not np.isfinite(numbers).all() or (level == "ratio" and (numbers < 0).any()):
        what = "finite and at least 0" if level == "ratio" else "finite"
        bad = numbers[~np.isfinite(numbers) | (numbers < 0)][0]
        raise ValueError(f"level={level!r} needs classes that are {what}, not {bad:g}")
    return numbers
