"""The default for numbers: models of the crowd and the mean, blended by how well they foretell unseen workers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import combinations
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_number, check_stopping
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, numbers
from manyhands._base.progress import Callback
from manyhands.metrics.intervals import offset_errors
from manyhands.numeric._hierarchy import Crowd, Structure, fit
from manyhands.numeric._units import Units
from manyhands.numeric.base import LEVEL, NumericAggregator, ValueFit, ValueFitted
from manyhands.numeric.gaussian import predicted, read_off, workers_of
from manyhands.numeric.simple import ALONE, pooled_variance
from manyhands.numeric.table import Ratings

#: The models that are blended with the mean, from the simplest to the richest.
MEMBERS: dict[str, Structure] = {
    "bias": Structure(bias=True, scale=False, noise=False),
    "noise": Structure(bias=False, scale=False, noise=True),
    "bias+noise": Structure(bias=True, scale=False, noise=True),
    "bias+scale": Structure(bias=True, scale=True, noise=False),
    "bias+scale+noise": Structure(bias=True, scale=True, noise=True),
}
#: Where blends start from, among the mean and the models.
_START = 1
#: On fewer tasks no model can tell how values are spread, nor a bias from a value: there is the mean alone.
_LEAST_TASKS = 3
#: Tables with more ratings are judged on some of their tasks.
_MOST = 1 << 20


class _Member(NamedTuple):
    """A model, and what brings its values to the units of the mean: values·gain + shift."""

    values: Array
    #: Standard errors, in its own unit.
    errors: Array
    gain: Array
    shift: Array


@dataclass(frozen=True, kw_only=True)
class BlendFit(ValueFit):
    """Weights of the mean and the models, and what each model learnt, in units of their own."""

    shares: Array = field(metadata=numbers("s"))
    moments: Array = field(metadata=numbers("bdm6"))
    priors: Array = field(metadata=numbers("bd2"))
    gains: Array = field(metadata=numbers("bd"))
    shifts: Array = field(metadata=numbers("bd"))
    unit: Array = field(metadata=numbers("d"))
    centre: Array = field(metadata=numbers("d"))


class Blend(NumericAggregator, default=True):
    """The method to use when no other is named: the mean and five models of workers, blended by what they foretell.

    No single model of workers is right everywhere, and on some data most of them are worse than the mean. The one to
    start from is the mean of ratings less their workers' biases, as far as biases are seen at all. To go beyond it,
    workers are split into `folds`; each part is left out in turn, and the mean and the models learnt from the others
    foretell its ratings. The blend of least squared error on unseen workers (weights are not negative and sum to one)
    is drawn back to the start by as much as its gain is uncertain: with d other members and a gain of t standard
    errors, to a share of d/t².

    The models are :class:`GaussianCrowd` with and without bias, scale and noise. What crowds leave open, the origin and
    unit of the truth, is settled in the same way for all: each model's values are given the average and the standard
    deviation of the means of the tasks.

    Parameters
    ----------
    folds
        How many parts workers are split into.
    max_iter, tol
        Stopping rule of each model; see :class:`GaussianCrowd`.

    Notes
    -----
    O(ratings) time a pass; some dozens of passes for each of five models, once and for each fold. Tables of more than a
    million ratings are judged on a million of them, by task. Memory O(ratings + 5·(tasks + workers)). Nothing is drawn
    at random. Standard errors are those of the richest model, of which the others are special cases: what it does not
    know of a value, its workers, and the crowd's origin and unit, and how far the blend is from what it expects, in its
    own unit. They are such that 90 % intervals hold 90 % if that model is right.

    Points: all numbers of an answer are blended by the same weights.

    Workers' bias, scale and noise are those of the richest model.

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

    def __init__(self, *, folds: int = 5, max_iter: int = 300, tol: float = 1e-5) -> None:
        self.folds = folds
        self.max_iter = max_iter
        self.tol = tol

    @property
    def weights_(self) -> dict[str, float]:
        """What the mean and each model count in the blend, by name."""
        shares = self._fitted().fit_as(BlendFit).shares
        return dict(zip(("mean", *MEMBERS), shares.tolist(), strict=True))

    def _iterations(self) -> int | None:
        return len(MEMBERS) * (int(self.folds) + 1)

    def _fit(self, votes: Ratings, progress: Callback | None) -> ValueFit:
        check_number("folds", self.folds, least=2, most=100, whole=True)
        check_stopping(self.max_iter, self.tol)
        table, units = votes.table, Units.of(votes.table)
        done = _Steps(progress)
        plain = _mean(table, units)
        crowds = [self._learn(table, units, structure, done) for structure in MEMBERS.values()]
        members = [_like_mean(plain, *read_off(table, units, crowd, None, shrink=True)) for crowd in crowds]
        shares = self._judge(table, units, crowds, members, plain, done)
        gains, shifts = (np.stack(parts) for parts in zip(*((one.gain, one.shift) for one in members), strict=True))
        values = _blended(shares, gains, shifts, plain.values, [member.values for member in members])
        errors = (
            plain.errors if shares[0] == 1.0 else offset_errors(values - members[-1].values, members[-1].errors, LEVEL)
        )
        return BlendFit(
            shares=shares,
            moments=np.stack([crowd.moments for crowd in crowds]),
            priors=np.stack([crowd.prior for crowd in crowds]),
            gains=gains,
            shifts=shifts,
            unit=units.unit,
            centre=units.centre,
            values=units.back(values),
            errors=units.sizes(errors),
            history=np.zeros(0),
            n_iter=done.step,
            converged=all(crowd.converged for crowd in crowds),
            remarks=() if crowds[-1].told else (ALONE,),
            **workers_of(crowds[-1], units),
        )

    def _learn(self, table: _core.Ratings, units: Units, structure: Structure, done: _Steps) -> Crowd:
        found = fit(table, units, structure, max_iter=self.max_iter, tol=self.tol)
        done()
        return found

    def _predict(self, now: ValueFitted, ratings: Ratings, known: npt.NDArray[np.int64]) -> Array:
        learnt = now.fit_as(BlendFit)
        units = Units(learnt.unit, learnt.centre)
        models = []
        for moments, prior in zip(learnt.moments, learnt.priors, strict=True):
            carried = np.stack([now.carried_over(of, known) for of in moments])
            models.append(predicted(ratings.table, units, carried, prior))
        mean = _mean(ratings.table, units).values
        return units.back(_blended(learnt.shares, learnt.gains, learnt.shifts, mean, models))

    # ------------------------------------------------------------------------------------------------- judging

    def _judge(
        self,
        table: _core.Ratings,
        units: Units,
        crowds: list[Crowd],
        members: list[_Member],
        plain: _Member,
        done: _Steps,
    ) -> Array:
        """Weights of the mean and of the models."""
        mean: Array
        alone: Array
        mean, alone = np.eye(1 + len(members))[[0, _START]]
        few = np.count_nonzero(np.diff(table.offsets())) < _LEAST_TASKS
        table = _some_tasks(table)
        folds = _folds(table, units, int(self.folds))
        if not crowds[-1].told or few or folds.max(initial=0) == 0:
            done(len(MEMBERS) * int(self.folds))
            return alone if crowds[-1].told and not few else mean
        tasks, workers, said = table.columns()
        weights = table.weights()
        counts = np.ones(len(tasks)) if weights is None else weights
        losses = _Losses(table, len(alone))
        for fold in range(int(self.folds)):
            out = folds[workers] == fold
            if not out.any() or out.all():
                done(len(MEMBERS))
                continue
            rest = table.keep(~out)
            foretold = [_mean(rest, units).values]
            for structure, member in zip(MEMBERS.values(), members, strict=True):
                crowd = self._learn(rest, units, structure, done)
                foretold.append(crowd.tasks[..., 0].T * member.gain + member.shift)
            known = np.diff(rest.offsets())[tasks[out]] > 0
            rows = np.flatnonzero(out)[known]
            actual = said[rows] * units.unit - units.centre
            losses.add(rows, np.stack([actual - values[tasks[rows]] for values in foretold]), counts[rows])
        return losses.weights()


def _blended(shares: Array, gains: Array, shifts: Array, mean: Array, models: list[Array]) -> Array:
    every = [mean, *(model * gain + shift for model, gain, shift in zip(models, gains, shifts, strict=True))]
    blended: Array = np.tensordot(shares, np.stack(every), 1)
    return blended


class _Steps:
    """Counts fits, and reports them."""

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
        """Errors of the mean and each model on some ratings, (1 + models, ratings, numbers)."""
        self._products += np.einsum("ird,jrd,r->ij", errors, errors, counts)
        self._parts.append((rows, errors, counts))

    def weights(self) -> Array:
        """Weights of least squared error, drawn back to where they start by as much as the gain is uncertain."""
        alone: Array = np.eye(len(self._products))[_START]
        scale = float(self._products[_START, _START])
        if not scale > 0:
            return alone
        best = least_squares_on_simplex(self._products / scale)
        by_task, by_worker = (np.zeros(int(codes.max(initial=0)) + 1) for codes in (self._tasks, self._workers))
        for rows, errors, counts in self._parts:
            blended = np.tensordot(best, errors, 1)
            gain = (counts[:, None] * (errors[_START] ** 2 - blended**2)).sum(axis=1)
            by_task += np.bincount(self._tasks[rows], gain, len(by_task))
            by_worker += np.bincount(self._workers[rows], gain, len(by_worker))
        total = float(by_task.sum())
        # Errors on a task, and those of a worker, go together: whichever varies more.
        uncertain = max(float((by_task**2).sum()), float((by_worker**2).sum()))
        # By chance alone, each other member gains about as much as one standard error squared.
        uncertain *= float((np.delete(best, _START) > 0).sum())
        if total <= 0 or uncertain >= total**2:
            return alone
        share = 1.0 - uncertain / total**2
        blended_weights: Array = share * best + (1.0 - share) * alone
        return blended_weights


def least_squares_on_simplex(products: Array) -> Array:
    """The weights, not negative and of sum one, of least w·products·w: by trying every set of those above zero."""
    n = len(products)
    best: Array = np.eye(n)[int(np.argmin(np.diag(products)))]
    least = float(np.diag(products).min())
    ridge = 1e-9 * np.trace(products) / n * np.eye(n)
    for size in range(2, n + 1):
        for chosen in map(list, combinations(range(n), size)):
            ones = np.linalg.solve((products + ridge)[np.ix_(chosen, chosen)], np.ones(size))
            if ones.sum() <= 0 or (ones < 0).any():
                continue
            weights = np.zeros(n)
            weights[chosen] = ones / ones.sum()
            loss = float(weights @ products @ weights)
            if loss < least * (1.0 - 1e-12):
                best, least = weights, loss
    return best


def _mean(table: _core.Ratings, units: Units) -> _Member:
    """Means of the tasks and their standard errors."""
    values, errors = [], []
    for dim in range(table.dims):
        tasks, _ = table.spread(*units.view(dim))
        variance = pooled_variance(tasks)
        values.append(tasks[:, 1])
        errors.append(np.sqrt((1.0 if variance is None else variance) * tasks[:, 3]))
    d = table.dims
    return _Member(np.stack(values, axis=1), np.stack(errors, axis=1), np.ones(d), np.zeros(d))


def _like_mean(plain: _Member, values: Array, errors: Array) -> _Member:
    """A model whose values have the average and the standard deviation of the means."""
    wanted, own = plain.values.std(axis=0), values.std(axis=0)
    gain = np.divide(wanted, own, out=np.ones_like(own), where=own > 1e-9)
    return _Member(values, errors, gain, plain.values.mean(axis=0) - values.mean(axis=0) * gain)


def _folds(table: _core.Ratings, units: Units, folds: int) -> npt.NDArray[np.int64]:
    """The part that each worker belongs to: dealt out by how much and how they rated, whatever their names."""
    workers = np.stack([table.spread(*units.view(dim))[1] for dim in range(table.dims)])
    counts, squares = workers[0, :, 0], workers[..., 2].sum(axis=0)
    # Rounded, so that workers alike but for the order of sums are alike.
    order = np.lexsort((np.round(squares, 6), counts))
    order = order[counts[order] > 0]
    dealt = np.full(table.n_workers, -1)
    dealt[order] = np.arange(len(order)) % min(folds, max(len(order), 1))
    return dealt


def _some_tasks(table: _core.Ratings) -> _core.Ratings:
    """The table, or the ratings of some of its tasks, evenly spread, where it is large."""
    if table.n_annotations <= _MOST:
        return table
    keep = np.arange(table.n_tasks) % math.ceil(table.n_annotations / _MOST) == 0
    return table.keep(keep[table.columns()[0]])
