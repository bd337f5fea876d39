"""Blend: the default for numbers, a stack of the mean and five worker models."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_flag, check_number, check_stopping
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, numbers, part, setting, texts
from manyhands._base.progress import Callback
from manyhands.errors import GoldWarning
from manyhands.metrics.intervals import offset_errors
from manyhands.numeric._hierarchy import Crowd, Structure, fit
from manyhands.numeric._units import Units
from manyhands.numeric._weights import least_squares_on_simplex, shrink
from manyhands.numeric.anchoring import KnownValues, ValueAnchor, correct
from manyhands.numeric.base import LEVEL, NumericAggregator, ValueFit, ValueFitted
from manyhands.numeric.gaussian import predict_values, values_and_errors, worker_parameters_of
from manyhands.numeric.simple import SINGLE_RATINGS_WARNING, pooled_variance
from manyhands.numeric.table import Ratings

if TYPE_CHECKING:
    import pyarrow as pa

#: Models that are blended with the mean, from simplest to richest.
MEMBERS: dict[str, Structure] = {
    "bias": Structure(bias=True, scale=False, noise=False),
    "noise": Structure(bias=False, scale=False, noise=True),
    "bias+noise": Structure(bias=True, scale=False, noise=True),
    "bias+scale": Structure(bias=True, scale=True, noise=False),
    "bias+scale+noise": Structure(bias=True, scale=True, noise=True),
}
#: Index of the initial member.
_START = 1
#: Minimum number of tasks for worker models; with fewer tasks the mean is used.
_LEAST_TASKS = 3
#: Probability above which the higher of two classes is the answer.
_EVEN = 0.5
#: Maximum number of ratings used for cross-validation.
_MOST = 1 << 20


class _Member(NamedTuple):
    """A fitted model, with the linear map of its values to the scale of the means: values · gain + shift."""

    values: Array
    #: Standard errors, in the units of the model.
    errors: Array
    gain: Array
    shift: Array


@dataclass(frozen=True, kw_only=True)
class BlendFit(ValueFit):
    """Blend weights, and the parameters of each model in standardized units."""

    shares: Array = field(metadata=numbers("s"))
    moments: Array = field(metadata=numbers("bdm6"))
    priors: Array = field(metadata=numbers("bd2"))
    gains: Array = field(metadata=numbers("bd"))
    shifts: Array = field(metadata=numbers("bd"))
    unit: Array = field(metadata=numbers("d"))
    centre: Array = field(metadata=numbers("d"))
    #: Whether errors of the workers coincide.
    panel: bool = field(default=False, metadata=setting(bool))
    #: What known values corrected, and what they contradict.
    anchor: ValueAnchor | None = field(default=None, metadata=part(ValueAnchor, optional=True))
    contradictions: tuple[str, ...] = field(default=(), metadata=texts())


class Blend(NumericAggregator, default=True):
    """Weighted average of the mean and five worker models, with weights from cross-validation over workers.

    The default for numbers: no tuning is needed, and no single model is best on all data.

    Parameters
    ----------
    folds : int, default 5
        Number of cross-validation folds of workers.
    gold : mapping, pair, frame or path, optional
        Known values of some tasks, which correct those of all others; 20 to 300 are enough. A random sample of the
        tasks is best. They may be on another scale than the ratings. If all of them are 0 or 1, or the names of two
        classes, values are probabilities (of the class with higher ratings), and :attr:`labels_` has the classes.
    panel : bool, optional
        True where errors of the workers coincide, as those of LLM judges do: the standard error of a value is then that
        of a single rating, however many there are. Otherwise workers err independently.
    max_iter : int, default 300
        Maximum number of iterations of each model; see :class:`GaussianCrowd`.
    tol : float, default 1e-5
        Convergence threshold of each model; see :class:`GaussianCrowd`.

    Notes
    -----
    Time O(ratings) per iteration, with dozens of iterations for each of five models, once and per fold. Weights are
    estimated from at most a million ratings (by task). Memory O(ratings + 5·(tasks + workers)). The result is
    deterministic. All dimensions of points share the same weights. Worker bias, scale and noise are those of the
    richest model.

    The models are :class:`GaussianCrowd` with and without bias, scale and noise. The initial model corrects for worker
    bias only. Workers are split into `folds`; the mean and the models fitted to the other folds predict the ratings of
    each fold. The weights (non-negative, sum one) minimize the squared error on unseen workers, and are shrunk toward
    the initial model depending on the uncertainty of the gain: with d other members and a gain of t standard errors, by
    a share of d/t². Because origin and unit of the truth are not identified, the values of each model are rescaled to
    the mean and standard deviation of the task means.

    Standard errors are those of the richest model plus the difference between the blend and its expectation. They are
    set so that 90 % intervals contain 90 % of the true values if that model is correct.

    With gold, ridge regressions map the blend and the standardized ratings of each worker to the known values; their
    priors state that the blend is right. They enter as far as they predict held-out known values better, and standard
    errors are multiplied by what is found on these. Cost: at most eighteen regressions on at most 2,000 known tasks.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(100, 15, answers_per_task=6, seed=0, kind="numeric")
    >>> model = mh.aggregate(crowd.log)
    >>> type(model).__name__, model.values_.shape
    ('Blend', (100,))
    >>> round(sum(model.weights_.values()), 9)
    1.0
    """

    _fit_type: ClassVar[type[Fit]] = BlendFit

    _data_parameters: ClassVar[tuple[str, ...]] = ("gold",)

    def __init__(
        self,
        *,
        folds: int = 5,
        gold: Any = None,
        panel: bool | None = None,
        max_iter: int = 300,
        tol: float = 1e-5,
    ) -> None:
        self.folds = folds
        self.gold = gold
        self.panel = panel
        self.max_iter = max_iter
        self.tol = tol

    @property
    def weights_(self) -> dict[str, float]:
        """Weight of the mean and of each model, by name."""
        shares = self._fitted().fit_as(BlendFit).shares
        return dict(zip(("mean", *MEMBERS), shares.tolist(), strict=True))

    @property
    def panel_(self) -> bool:
        """Whether errors of the workers were taken to coincide."""
        return self._fitted().fit_as(BlendFit).panel

    @property
    def assumption_(self) -> str:
        """What was assumed about errors on the same task, and how to assume the opposite; in a sentence."""
        if self.panel_:
            return (
                "standard errors are those of a single rating, as declared; if errors of the workers are independent, "
                "pass panel=False: they then shrink with the number of ratings"
            )
        return (
            "standard errors assume that workers err independently; for a fixed panel of annotators with the same "
            "blind spots, such as LLM judges, pass panel=True"
        )

    @property
    def n_gold_(self) -> int:
        """Number of known tasks that corrected the values; 0 without gold."""
        anchor = self._anchor
        return 0 if anchor is None else int(anchor.n_known)

    @property
    def labels_(self) -> npt.NDArray[Any]:
        """With gold of two classes, the more probable class of each task, shape (n_tasks,)."""
        anchor = self._anchor
        if anchor is None or not anchor.classes:
            raise AttributeError("ratings have labels only with gold=, the names of two classes")
        return np.array(anchor.classes)[(self.values_ > _EVEN).astype(np.int64)]

    @property
    def _anchor(self) -> ValueAnchor | None:
        return self._fitted().fit_as(BlendFit).anchor

    @property
    def confidence_(self) -> Array:
        """Reliability of each value, shape (n_tasks,): V / (V + error²) with V the variance of the values.

        With gold of two classes, the probability of the more probable one.
        """
        return self._reliability(self._fitted().fit)

    def _reliability(self, fit: ValueFit) -> Array:
        anchor = fit.anchor if isinstance(fit, BlendFit) else None
        if anchor is None or not anchor.binary:
            return super()._reliability(fit)
        sure: Array = np.maximum(fit.values[:, 0], 1.0 - fit.values[:, 0])
        return sure

    def _to_frame(self, now: ValueFitted) -> pa.Table:
        frame, anchor = super()._to_frame(now), now.fit_as(BlendFit).anchor
        if anchor is None or not anchor.classes:
            return frame
        return frame.add_column(1, "label", [self.labels_])

    def workers_frame(self) -> pa.Table:
        """Return one row per worker, as an Arrow table: the columns of every aggregator, and ``n_gold`` with gold."""
        frame, anchor = super().workers_frame(), self._anchor
        return frame if anchor is None else frame.append_column("n_gold", [anchor.n_seen.astype(np.int64)])

    def _loud(self, fit: ValueFit) -> list[tuple[tuple[str, ...], type[Warning]]]:
        assert isinstance(fit, BlendFit)
        return [*super()._loud(fit), (fit.contradictions, GoldWarning)]

    def _iterations(self) -> int | None:
        return len(MEMBERS) * (int(self.folds) + 1)

    def _fit(self, votes: Ratings, progress: Callback | None) -> ValueFit:
        check_number("folds", self.folds, least=2, most=100, whole=True)
        if self.panel is not None:
            check_flag("panel", self.panel)
        check_stopping(self.max_iter, self.tol)
        gold = KnownValues.of(votes, self.gold)
        table, units = votes.table, Units.of(votes.table)
        count_fit = _Steps(progress)
        mean_member = _mean(table, units)
        crowds = [self._fit_member(table, units, structure, count_fit) for structure in MEMBERS.values()]
        members = [
            _rescale_to_mean(mean_member, *values_and_errors(table, units, crowd, None, shrink=True))
            for crowd in crowds
        ]
        shares = self._estimate_weights(table, units, crowds, members, mean_member, count_fit)
        gains, shifts = (np.stack(parts) for parts in zip(*((one.gain, one.shift) for one in members), strict=True))
        values = _blend(shares, gains, shifts, mean_member.values, [member.values for member in members])
        errors = (
            mean_member.errors
            if shares[0] == 1.0
            else offset_errors(values - members[-1].values, members[-1].errors, LEVEL)
        )
        if self.panel:
            errors = errors * np.sqrt(np.maximum(votes.labels_per_task, 1.0))[:, None]
        fit = {"values": units.back(values), "errors": units.sizes(errors), **worker_parameters_of(crowds[-1], units)}
        more = {} if gold is None else correct(votes, gold, fit)
        return BlendFit(
            panel=bool(self.panel),
            shares=shares,
            moments=np.stack([crowd.moments for crowd in crowds]),
            priors=np.stack([crowd.prior for crowd in crowds]),
            gains=gains,
            shifts=shifts,
            unit=units.unit,
            centre=units.centre,
            history=np.zeros(0),
            n_iter=count_fit.step,
            converged=all(crowd.converged for crowd in crowds),
            remarks=() if crowds[-1].identifiable else (SINGLE_RATINGS_WARNING,),
            **(fit | more),
        )

    def _fit_member(self, table: _core.Ratings, units: Units, structure: Structure, count_fit: _Steps) -> Crowd:
        crowd = fit(table, units, structure, max_iter=self.max_iter, tol=self.tol)
        count_fit()
        return crowd

    def _predict(self, now: ValueFitted, ratings: Ratings, known: npt.NDArray[np.int64]) -> Array:
        parameters = now.fit_as(BlendFit)
        units = Units(parameters.unit, parameters.centre)
        models = []
        for moments, prior in zip(parameters.moments, parameters.priors, strict=True):
            worker_moments = np.stack([now.carried_over(of, known) for of in moments])
            models.append(predict_values(ratings.table, units, worker_moments, prior))
        mean = _mean(ratings.table, units).values
        values = units.back(_blend(parameters.shares, parameters.gains, parameters.shifts, mean, models))
        if parameters.anchor is None:
            return values
        workers = np.where(known >= 0, known, len(now.workers))
        return parameters.anchor.of_table(ratings, workers, values)

    # ------------------------------------------------------------------------------------------------- judging

    def _estimate_weights(
        self,
        table: _core.Ratings,
        units: Units,
        crowds: list[Crowd],
        members: list[_Member],
        mean_member: _Member,
        count_fit: _Steps,
    ) -> Array:
        """Return the weights of the mean and the models."""
        mean_weights: Array
        initial_weights: Array
        mean_weights, initial_weights = np.eye(1 + len(members))[[0, _START]]
        too_few_tasks = np.count_nonzero(np.diff(table.offsets())) < _LEAST_TASKS
        table = _some_tasks(table)
        folds = _folds(table, units, int(self.folds))
        if not crowds[-1].identifiable or too_few_tasks or folds.max(initial=0) == 0:
            count_fit(len(MEMBERS) * int(self.folds))
            return initial_weights if crowds[-1].identifiable and not too_few_tasks else mean_weights
        tasks, workers, ratings = table.columns()
        weights = table.weights()
        counts = np.ones(len(tasks)) if weights is None else weights
        losses = _Losses(table, len(initial_weights))
        for fold in range(int(self.folds)):
            out = folds[workers] == fold
            if not out.any() or out.all():
                count_fit(len(MEMBERS))
                continue
            rest = table.keep(~out)
            predictions = [_mean(rest, units).values]
            for structure, member in zip(MEMBERS.values(), members, strict=True):
                crowd = self._fit_member(rest, units, structure, count_fit)
                predictions.append(crowd.tasks[..., 0].T * member.gain + member.shift)
            has_prediction = np.diff(rest.offsets())[tasks[out]] > 0
            rows = np.flatnonzero(out)[has_prediction]
            actual = ratings[rows] * units.unit - units.centre
            losses.add(
                rows, np.stack([actual - member_values[tasks[rows]] for member_values in predictions]), counts[rows]
            )
        return losses.weights()


def _blend(shares: Array, gains: Array, shifts: Array, mean: Array, models: list[Array]) -> Array:
    member_values = [mean, *(model * gain + shift for model, gain, shift in zip(models, gains, shifts, strict=True))]
    blended: Array = np.tensordot(shares, np.stack(member_values), 1)
    return blended


class _Steps:
    """Counts fits and reports progress."""

    def __init__(self, progress: Callback | None) -> None:
        self.step, self._progress = 0, progress

    def __call__(self, n: int = 1) -> None:
        self.step += n
        if self._progress is not None:
            self._progress(self.step, math.nan)


class _Losses:
    """Squared errors of blends on unseen workers, as sums over ratings."""

    def __init__(self, table: _core.Ratings, n: int) -> None:
        self._tasks, self._workers, _ = table.columns()
        self._products = np.zeros((n, n))
        self._parts: list[tuple[npt.NDArray[np.int64], Array, Array]] = []

    def add(self, rows: npt.NDArray[np.int64], errors: Array, counts: Array) -> None:
        """Add the errors of the mean and each model on some ratings, (1 + models, ratings, dimensions)."""
        self._products += np.einsum("ird,jrd,r->ij", errors, errors, counts)
        self._parts.append((rows, errors, counts))

    def weights(self) -> Array:
        """Return the least-squares weights, shrink toward the initial model by the uncertainty of their gain."""
        initial_weights: Array = np.eye(len(self._products))[_START]
        scale = float(self._products[_START, _START])
        if not scale > 0:
            return initial_weights
        best = least_squares_on_simplex(self._products / scale)
        by_task, by_worker = (np.zeros(int(codes.max(initial=0)) + 1) for codes in (self._tasks, self._workers))
        for rows, errors, counts in self._parts:
            blended = np.tensordot(best, errors, 1)
            gain = (counts[:, None] * (errors[_START] ** 2 - blended**2)).sum(axis=1)
            by_task += np.bincount(self._tasks[rows], gain, len(by_task))
            by_worker += np.bincount(self._workers[rows], gain, len(by_worker))
        total = float(by_task.sum())
        # Errors are correlated within tasks and within workers: use the larger variance.
        gain_variance = max(float((by_task**2).sum()), float((by_worker**2).sum()))
        return shrink(best, initial_weights, total, gain_variance)


def _mean(table: _core.Ratings, units: Units) -> _Member:
    """Return task means and their standard errors."""
    values, errors = [], []
    for dim in range(table.dims):
        tasks, _ = table.spread(*units.view(dim))
        variance = pooled_variance(tasks)
        values.append(tasks[:, 1])
        errors.append(np.sqrt((1.0 if variance is None else variance) * tasks[:, 3]))
    d = table.dims
    return _Member(np.stack(values, axis=1), np.stack(errors, axis=1), np.ones(d), np.zeros(d))


def _rescale_to_mean(mean_member: _Member, values: Array, errors: Array) -> _Member:
    """Rescale the values of a model to the mean and standard deviation of the task means."""
    target, own = mean_member.values.std(axis=0), values.std(axis=0)
    gain = np.divide(target, own, out=np.ones_like(own), where=own > 1e-9)
    return _Member(values, errors, gain, mean_member.values.mean(axis=0) - values.mean(axis=0) * gain)


def _folds(table: _core.Ratings, units: Units, folds: int) -> npt.NDArray[np.int64]:
    """Assign workers to folds by number and size of their ratings, independent of their names."""
    workers = np.stack([table.spread(*units.view(dim))[1] for dim in range(table.dims)])
    counts, squares = workers[0, :, 0], workers[..., 2].sum(axis=0)
    # Rounded, so that equal workers are not ordered by rounding errors of their sums.
    order = np.lexsort((np.round(squares, 6), counts))
    order = order[counts[order] > 0]
    fold_of_worker = np.full(table.n_workers, -1)
    fold_of_worker[order] = np.arange(len(order)) % min(folds, max(len(order), 1))
    return fold_of_worker


def _some_tasks(table: _core.Ratings) -> _core.Ratings:
    """Return the table, restricted to evenly spaced tasks if it is large."""
    if table.n_annotations <= _MOST:
        return table
    keep = np.arange(table.n_tasks) % math.ceil(table.n_annotations / _MOST) == 0
    return table.keep(keep[table.columns()[0]])
