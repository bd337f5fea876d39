"""How well a team of experts and a classifier does, and at what load.

All measures start from `correct`, an array of shape (n, n_options) that states whether each option's answer to each
case is right, NaN where that is not known (:func:`correctness` makes it), and from `who`, the option that was chosen.
They are defined where nothing is deferred, or everything: cases without an answer have no accuracy, NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_choice, check_number
from manyhands.defer.assignment import Ints, as_shares, assign, capacities, ranked
from manyhands.defer.decision import as_who, option_names
from manyhands.defer.projection import Bound, Floats, as_rows

if TYPE_CHECKING:
    import pyarrow as pa


#: Greatest number whose products and sums are finite.
_MOST = 1e150


def correctness(truth: npt.ArrayLike, experts: npt.ArrayLike, classifier: npt.ArrayLike) -> Floats:
    """Return which option's answer to which case is right.

    Parameters
    ----------
    truth : array of shape (n,)
        Codes of the true classes.
    experts : array of shape (n, n_experts)
        Codes of the experts' answers, negative where there is none.
    classifier : array of shape (n,)
        Codes of the classifier's answers.

    Returns
    -------
    array of shape (n, n_experts + 1)
        1, 0, or NaN where an expert gave no answer; the classifier is last.

    Examples
    --------
    >>> import manyhands as mh
    >>> mh.defer.correctness([0, 1], [[0, 1], [-1, 1]], [1, 1]).tolist()
    [[1.0, 0.0, 0.0], [nan, 1.0, 1.0]]
    """
    true, expert_labels, own = np.asarray(truth), np.asarray(experts), np.asarray(classifier)
    if true.ndim != 1 or own.shape != true.shape or expert_labels.ndim != 2 or len(expert_labels) != len(true):
        raise ValueError(
            f"truth and classifier must be of shape (n,) and experts of shape (n, n_experts), not {true.shape}, "
            f"{own.shape} and {expert_labels.shape}"
        )
    for what, codes in (("truth", true), ("experts", expert_labels), ("classifier", own)):
        if codes.size and codes.dtype.kind not in "bui":
            raise TypeError(f"{what} must hold whole numbers, the codes of classes, not {codes.dtype}")
    if true.size and true.min() < 0:
        raise ValueError(f"truth holds {true.min()} in row {true.argmin()}; leave out cases whose truth is not known")
    answers = np.column_stack([expert_labels, own])
    return np.where(answers < 0, np.nan, (answers == true[:, None]).astype(np.float64))


def coverage(who: npt.ArrayLike, n_options: int) -> float:
    """Share of the cases that the classifier answers; NaN where there are no cases."""
    return float(workload(who, n_options)[-1])


def workload(who: npt.ArrayLike, n_options: int) -> Floats:
    """Share of the cases that each option answers, (n_options,); NaN where there are no cases.

    Examples
    --------
    >>> import manyhands as mh
    >>> mh.defer.workload([0, 2, 2, 2], n_options=3).tolist()
    [0.25, 0.0, 0.75]
    """
    check_number("n_options", n_options, least=1, whole=True)
    codes = as_who(who, n_options)
    with np.errstate(invalid="ignore"):
        return np.bincount(codes, minlength=n_options) / np.float64(len(codes))


def system_accuracy(who: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """Share of right answers among those that are known; NaN where none is.

    Examples
    --------
    >>> import manyhands as mh
    >>> mh.defer.system_accuracy([0, 1, 0], [[1, 0], [1, 0], [1, 1]])
    0.6666666666666666
    """
    return _mean(_is_right(who, correct))


def gate_confusion(who: npt.ArrayLike, correct: npt.ArrayLike) -> Floats:
    """Confusion matrix of a router: for each option that it chose, how often each option would have been right.

    Use it to see which option a router overrates: an entry larger than the diagonal of its row is an option that would
    have answered these cases better.

    Parameters
    ----------
    who : array of shape (n,)
        The option chosen in each case, such as ``decision.who``.
    correct : array of shape (n, n_options)
        See :func:`correctness`.

    Returns
    -------
    array of shape (n_options, n_options)
        Row i, column j: share of right answers of option j, among those known, in the cases given to option i. NaN
        where option i got no case, or none with an answer of j.

    Examples
    --------
    >>> import manyhands as mh
    >>> mh.defer.gate_confusion([0, 0, 1], [[1, 0], [0, 1], [0, 1]]).tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    right = _as_correct(correct)
    _is_right(who, right)
    codes = as_who(who, right.shape[1])
    out = np.full((right.shape[1],) * 2, np.nan)
    for option in np.unique(codes).tolist():
        rows = right[codes == option]
        has_value = ~np.isnan(rows)
        n = has_value.sum(axis=0)
        out[option] = np.divide(np.where(has_value, rows, 0.0).sum(axis=0), n, out=np.full(len(n), np.nan), where=n > 0)
    return out


@dataclass(frozen=True, eq=False)
class Curve:
    """Accuracy of the team against the share of cases its classifier answers.

    Attributes
    ----------
    coverage, accuracy : arrays of shape (n_points,)
        In ascending order of coverage.
    """

    coverage: Floats
    accuracy: Floats

    @property
    def area(self) -> float:
        """Area under the curve, see :func:`auc_cac`."""
        return auc_cac(self.coverage, self.accuracy)


def coverage_accuracy(
    scores: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    lower: Bound = None,
    upper: Bound = None,
    n_points: int = 21,
    how: Literal["capacity", "ranked"] = "capacity",
) -> Curve:
    """Trace the coverage–accuracy curve of one gate: at each coverage, its best assignment (:func:`assign`).

    Parameters
    ----------
    scores : array of shape (n, n_options)
        What the router thinks of each option; the classifier is last.
    correct : array of shape (n, n_options)
        See :func:`correctness`.
    lower, upper : array of shape (n_experts,), a number for all experts, or None
        Bounds of each expert's share *of the deferred cases*: ``1 / n_experts`` for both is a balanced workload.
    n_points : int, default 21
        Coverages from 0 to 1, evenly spaced.
    how : {"capacity", "ranked"}, default "capacity"
        Who answers: the best assignment, or cases ranked for the classifier and the rest to their best option
        (:func:`ranked`), which reaches no coverage below that of the arg max and takes no bounds.

    Returns
    -------
    Curve
        Over the coverages that were reached.

    Examples
    --------
    >>> import manyhands as mh
    >>> curve = mh.defer.coverage_accuracy([[0.9, 0.1], [0.2, 0.8]], [[1, 0], [0, 1]], n_points=3)
    >>> curve.accuracy.tolist(), curve.area
    ([0.5, 1.0, 0.5], 0.75)
    """
    check_number("n_points", n_points, least=2, whole=True)
    rows, right = as_rows("scores", scores), _as_correct(correct)
    n, n_options = rows.shape
    if n_options == 1:
        raise ValueError("a curve needs an expert in addition to the classifier: scores have only one column")
    if right.shape != rows.shape:
        raise ValueError(f"correct must have the shape of the scores, {rows.shape}, not {right.shape}")
    check_choice("how", how, ("capacity", "ranked"))
    if how == "ranked" and not (lower is None and upper is None):
        raise ValueError("how='ranked' keeps no bounds of experts; leave out lower= and upper=, or use how='capacity'")
    least, most = as_shares(lower, upper, n_options - 1)
    accuracy, reached = [], []
    for share in np.linspace(0, 1, n_points):
        if how == "ranked":
            who = ranked(rows, float(share))
        else:
            low, high = (np.append((1 - share) * each, share) for each in (least, most))
            who = assign(rows, *capacities(low, high, n, n_options))
        accuracy.append(system_accuracy(who, right))
        reached.append(coverage(who, n_options))
    return Curve(np.array(reached), np.array(accuracy))


def auc_cac(coverage: npt.ArrayLike, accuracy: npt.ArrayLike) -> float:
    """Area under a coverage–accuracy curve (AUC-CAC), as a mean accuracy.

    The trapezoidal rule over the coverages given, divided by the range they span, so that curves that do not reach 0 or
    1 stay comparable: a constant accuracy has itself as area. Points of equal coverage count as their mean, and a
    single coverage gives its accuracy.

    Parameters
    ----------
    coverage, accuracy : array of shape (n_points,)
        In any order.

    Examples
    --------
    >>> import manyhands as mh
    >>> mh.defer.auc_cac([0, 0.5, 1], [0.9, 0.8, 0.5])
    0.75
    """
    x, y = np.asarray(coverage, np.float64), np.asarray(accuracy, np.float64)
    if x.ndim != 1 or x.shape != y.shape or not x.size:
        raise ValueError(f"coverage and accuracy must be lists of the same length, not {x.shape} and {y.shape}")
    if not (np.abs(x).max() <= _MOST and np.abs(y).max() <= _MOST):
        raise ValueError(
            f"coverage and accuracy must be finite and within ±{_MOST:g}; leave out points without an accuracy"
        )
    points, at = np.unique(x, return_inverse=True)
    means = np.bincount(at, y) / np.bincount(at)
    if len(points) == 1:
        return float(means[0])
    return float(np.sum(np.diff(points) * (means[1:] + means[:-1]) / 2) / (points[-1] - points[0]))


@dataclass(frozen=True, eq=False)
class DeferralReport:
    """Number of cases, share and accuracy of each option in a batch; the classifier is last.

    Attributes
    ----------
    options : list of str
    n_cases : array of shape (n_options,)
        Number of cases that each option answered.
    shares, lower, upper : arrays of shape (n_options,)
        Shares of the options, and the required bounds.
    accuracy : array of shape (n_options,)
        Accuracy on the cases that each option answered; NaN where it answered none.
    accuracy_alone : array of shape (n_options,)
        Accuracy if the option had answered every case.
    system_accuracy, coverage : float
        Accuracy of the team, and the classifier's share.
    """

    options: list[str]
    n_cases: Ints
    shares: Floats
    lower: Floats
    upper: Floats
    accuracy: Floats
    accuracy_alone: Floats
    system_accuracy: float
    coverage: float

    @property
    def miss(self) -> float:
        """By how much the worst share misses its bounds; 0 where all are kept."""
        return float(np.nanmax(np.maximum(self.lower - self.shares, self.shares - self.upper), initial=0.0))

    def to_frame(self) -> pa.Table:
        """Return a table with a row for each option."""
        import pyarrow as pa

        columns = ("n_cases", "shares", "lower", "upper", "accuracy", "accuracy_alone")
        return pa.table({"option": self.options, **{name: getattr(self, name) for name in columns}})

    def __str__(self) -> str:
        width = max(map(len, self.options))
        lines = [f"{'':{width}}    cases   share            bounds  accuracy  alone"]
        for row in self.to_frame().to_pylist():
            bounds = f"{row['lower']:.1%} to {row['upper']:.1%}"
            lines.append(
                f"{row['option']:{width}} {row['n_cases']:8,} {row['shares']:7.1%} {bounds:>17} {row['accuracy']:9.1%} "
                f"{row['accuracy_alone']:6.1%}"
            )
        return "\n".join([*lines, f"team: accuracy {self.system_accuracy:.1%} at coverage {self.coverage:.1%}"])


def deferral_report(
    who: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    lower: Bound = None,
    upper: Bound = None,
    experts: Sequence[Any] | None = None,
) -> DeferralReport:
    """Report accuracy and workload of each option and of the team.

    Parameters
    ----------
    who : array of shape (n,)
        The option of each case.
    correct : array of shape (n, n_options)
        See :func:`correctness`.
    lower, upper : array of shape (n_options,), a number for all options, or None
        Bounds the shares were to keep.
    experts : sequence of names, optional
        What to call the options after the first, which is the classifier.

    Returns
    -------
    DeferralReport

    Examples
    --------
    >>> import manyhands as mh
    >>> print(mh.defer.deferral_report([0, 1, 1, 1], [[1, 0], [1, 1], [1, 0], [0, 1]], experts=["Ann"]))
                  cases   share            bounds  accuracy  alone
    Ann               1   25.0%    0.0% to 100.0%    100.0%  75.0%
    classifier        3   75.0%    0.0% to 100.0%     66.7%  50.0%
    team: accuracy 75.0% at coverage 75.0%
    """
    right = _as_correct(correct)
    n_options = right.shape[1]
    low, high = as_shares(lower, upper, n_options)
    is_right, codes = _is_right(who, right), as_who(who, n_options)
    return DeferralReport(
        options=option_names(n_options, experts),
        n_cases=np.bincount(codes, minlength=n_options),
        shares=workload(codes, n_options),
        lower=low,
        upper=high,
        accuracy=np.array([_mean(is_right[codes == k]) for k in range(n_options)]),
        accuracy_alone=np.array([_mean(column) for column in right.T]),
        system_accuracy=_mean(is_right),
        coverage=coverage(codes, n_options),
    )


def _is_right(who: npt.ArrayLike, correct: npt.ArrayLike) -> Floats:
    """Whether the chosen option is right, (n,)."""
    right = _as_correct(correct)
    codes = as_who(who, right.shape[1])
    if len(codes) != len(right):
        raise ValueError(f"who has {len(codes)} entries but correct has {len(right)} rows")
    return right[np.arange(len(right)), codes]


def _as_correct(correct: npt.ArrayLike) -> Floats:
    """Return how right each option is in each case, (n, n_options): from 0 to 1, NaN where that is not known."""
    right = as_rows("correct", correct)
    bad = (right < 0) | (right > 1)
    if bad.any():
        row, option = np.argwhere(bad)[0]
        raise ValueError(f"correct must lie between 0 and 1; it holds {right[row, option]} in row {row}")
    return right


def _mean(values: Floats) -> float:
    valid = values[~np.isnan(values)]
    return float(valid.mean()) if valid.size else float("nan")
