"""Bradley–Terry models with ties, left bias and one slope per worker."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from manyhands._base.checks import check_choice, check_flag, check_number, check_positive, warn_unless_converged
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, ItemFitted, number, numbers
from manyhands._base.overlap import Doubts
from manyhands._base.progress import Callback
from manyhands._base.results import Columns
from manyhands.pairwise import _intervals
from manyhands.pairwise.base import (
    ComparisonEstimator,
    RankFit,
    SlopeFit,
    crowd_average,
    disconnected_items_warning,
    no_intervals,
)
from manyhands.pairwise.table import Comparisons

if TYPE_CHECKING:
    pass

Ties = Literal["davidson", "rao-kupper", "half"]
Intervals = Literal["sandwich", "bootstrap", "none"]
#: Explains how scores of different components are made comparable.
BY_PRIOR = "only the prior, which centers each group at 0, puts their scores on one scale"
#: Number of random sign vectors for the stochastic estimate of standard errors with many items.
N_PROBES = 16


@dataclass(frozen=True, kw_only=True)
class GameFit(SlopeFit):
    """Scores, and the slope and left bias of each worker."""

    left_biases: Array = field(metadata=numbers("m", infinite=True, missing=True))
    left_bias_errors: Array = field(metadata=numbers("m", infinite=True, missing=True))
    #: Left bias of the average worker.
    left_bias: float = field(metadata=number(infinite=True, missing=True))
    bias_spread: float = field(metadata=number(infinite=True, missing=True))
    tie: float = field(metadata=number(infinite=True, missing=True))
    error_of_errors: float = field(metadata=number(infinite=True, missing=True))

    def of_workers(self) -> dict[str, Array]:
        """Return the estimates per worker, by column name."""
        return super().of_workers() | {"left_bias": self.left_biases, "left_bias_error": self.left_bias_errors}


class _Fitter(ComparisonEstimator):
    """Base class of the Bradley–Terry models."""

    _fit_type: ClassVar[type[Fit]] = GameFit

    ties: Ties
    left_bias: bool | Literal["worker"]
    prior: float
    intervals: Intervals
    level: float
    n_resamples: int
    seed: int
    max_iter: int
    tol: float

    def _check(self) -> None:
        check_choice("ties", self.ties, ("davidson", "rao-kupper", "half"))
        check_positive("prior", self.prior)
        _intervals.check_intervals(self.intervals, self.level, self.n_resamples, self.seed)
        check_number("max_iter", self.max_iter, least=1, whole=True)
        check_number("tol", self.tol, least=0)

    @abstractmethod
    def _model(self, games: Comparisons) -> dict[str, Any]:
        """Return the options of the compiled fit that are specific to the model."""

    def _fit(self, votes: Comparisons, progress: Callback | None) -> RankFit:
        self._check()
        options: dict[str, Any] = {"ties": self.ties, "prior": float(self.prior), "tol": float(self.tol)}
        options |= {"max_iter": int(self.max_iter)} | self._model(votes)
        result = votes.table.bradley_terry_fit(**options, progress=progress)
        warn_unless_converged(result["converged"], self)
        n, m = votes.n_items, votes.n_workers
        components = votes.components
        errors, intervals = no_intervals(n)
        numerical_error = float("nan")
        scores = _center(result["point"][:n], components)
        slopes = _or_constant(result["slopes"], m, 1.0)
        if self.intervals != "none":
            clusters = _intervals.independent_units(votes.labels_per_worker)
            model, clustered, numerical_error = self._variances(votes, result, options, clusters[0])
            spread, of_slopes = float(result["spread"][0]), (result["slopes"], result["slope_errors"])
            errors, intervals = _intervals.score_intervals(
                scores,
                model=model,
                clustered=clustered,
                components=components,
                prior=self.prior,
                clusters=clusters,
                level=self.level,
                offset=_intervals.shrinkage_offset(*of_slopes, spread, votes.labels_per_worker),
            )
        left_bias, tie = result["point"][n:].tolist()
        return GameFit(
            scores=scores,
            errors=errors,
            intervals=intervals,
            components=components,
            slope=slopes,
            slope_error=_or_constant(result["slope_errors"], m, 0.0),
            slope_spread=float(result["spread"][0]),
            left_biases=left_bias + _or_constant(result["biases"], m, 0.0),
            left_bias_errors=_or_constant(result["bias_errors"], m, 0.0),
            left_bias=left_bias,
            bias_spread=float(result["spread"][1]),
            tie=tie,
            error_of_errors=numerical_error,
            history=result["history"],
            n_iter=result["n_iter"],
            converged=result["converged"],
            remarks=disconnected_items_warning(components, votes._items, BY_PRIOR),
        )

    def _doubts(self, votes: Comparisons) -> Doubts:
        has_intervals = self.intervals != "none"
        return Doubts(quiet=_intervals.few_workers_warning(votes.n_workers, "comparisons") if has_intervals else ())

    def _variances(
        self, games: Comparisons, result: Any, options: dict[str, Any], clusters: str
    ) -> tuple[Array, Array, float]:
        """Return model-based and clustered variances of scores, and their relative numerical error."""
        model, sandwich, numerical_errors = games.table.bradley_terry_errors(
            point=result["point"],
            slopes=result["slopes"],
            biases=result["biases"],
            ties=self.ties,
            left_bias=options["left_bias"] != "none",
            prior=float(self.prior),
            clusters=clusters,
            n_probes=N_PROBES,
            seed=int(self.seed),
        )
        if self.intervals == "sandwich":
            return model, sandwich, max(numerical_errors)
        return model, self._bootstrap(games, result, options, clusters), float("nan")

    def _bootstrap(self, games: Comparisons, result: Any, options: dict[str, Any], clusters: str) -> Array:
        """Return bootstrap variances of scores, resampling workers (or comparisons if there are few workers)."""
        rng = np.random.default_rng(self.seed)
        start = np.nan_to_num(result["point"])
        n, components = games.n_items, games.components
        workers = games.codes()[3]
        weights = np.ones(len(games)) if games.weights is None else games.weights
        resampled_scores = np.empty((self.n_resamples, n))
        for row in resampled_scores:
            if clusters == "workers":
                times = np.bincount(rng.integers(0, games.n_workers, games.n_workers), minlength=games.n_workers)
                counts = weights * times[workers]
            else:
                counts = weights * np.bincount(rng.integers(0, len(games), len(games)), minlength=len(games))
            table = games.table.counted(counts)
            row[:] = _center(table.bradley_terry_fit(**options, start=start)["point"][:n], components)
        return np.asarray(resampled_scores.var(axis=0, ddof=1))

    # ----------------------------------------------------------------------------------------------- results

    def _skills(self) -> Columns:
        columns = super()._skills()
        if not self.left_bias:
            del columns["left_bias"], columns["left_bias_error"]
        return columns

    @property
    def left_bias_(self) -> float:
        """Advantage of the left item over an equally good right item, for the average worker.

        0 if it was not estimated (``left_bias=False``).
        """
        return self._fitted().fit_as(GameFit).left_bias

    @property
    def tie_(self) -> float:
        """Tie parameter, ν of Davidson or θ of Rao and Kupper; NaN if the data have no ties to model."""
        tie = self._fitted().fit_as(GameFit).tie
        return float(np.exp(tie) if self.ties == "davidson" else np.sqrt(1.0 + np.exp(tie)))

    @property
    def error_of_errors_(self) -> float:
        """Relative numerical error of the standard errors (root mean square over items); 0 if they are exact.

        Standard errors are exact for up to 256 items and stochastic estimates for more. NaN without a sandwich.
        """
        return self._fitted().fit_as(GameFit).error_of_errors

    def _worker_parameters(self, now: ItemFitted[RankFit]) -> tuple[Array, Array]:
        fit = now.fit_as(GameFit)
        return fit.slope, fit.left_biases

    def _crowd(self, now: ItemFitted[RankFit]) -> tuple[Array, Array, Array]:
        return crowd_average(now.n_labels, *self._worker_parameters(now))

    def _chances(self, now: ItemFitted[RankFit], leads: Array, biases: Array) -> Array:
        ahead, tie = leads + biases, now.fit_as(GameFit).tie
        if np.isnan(tie):
            return super()._chances(now, leads, biases)
        if self.ties == "rao-kupper":
            need = 0.5 * np.logaddexp(0.0, tie)
            wins = [np.exp(-np.logaddexp(0.0, need - side)) for side in (ahead, -ahead)]
            return np.stack([*wins, 1.0 - wins[0] - wins[1]], axis=-1)
        logs = np.stack([0.5 * ahead, -0.5 * ahead, np.full_like(ahead, tie)], axis=-1)
        shares = np.exp(logs - logs.max(axis=-1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=-1, keepdims=True))


class BradleyTerry(_Fitter):
    r"""Bradley–Terry model with the same scores for all workers.

    Use it for a leaderboard if workers are equally reliable; otherwise use :class:`WorkerBradleyTerry`. The left item
    wins with odds :math:`e^{s_l - s_r}`.

    Parameters
    ----------
    ties : {"davidson", "rao-kupper", "half"}, default "davidson"
        ``"davidson"``: the probability of a tie is ν times the geometric mean of the win probabilities.
        ``"rao-kupper"``: a win requires a lead of ln θ. ``"half"``: a tie counts as half a win for each item, and ties
        are not predicted.
    left_bias : bool, default False
        Estimate the advantage of being shown on the left.
    prior : float, default 3.0
        Prior standard deviation of the scores, the left bias and the log tie parameter. It gives finite scores to items
        that always won or always lost, and has little effect on items with many comparisons.
    intervals : {"sandwich", "bootstrap", "none"}, default "sandwich"
        ``"sandwich"``: clustered by worker (by comparison if there are fewer than ten workers), with quantiles of
        Student's t, and never narrower than the model-based interval. ``"bootstrap"``: the same with bootstrap
        variances. For simulated coverage, see docs/evidence/coverage.md.
    level : float, default 0.95
        Confidence level of the intervals.
    n_resamples : int, default 200
        Number of bootstrap resamples.
    seed : int, default 0
        Random seed of the bootstrap, and of the standard errors if there are more than 256 items.
    max_iter : int, default 100
        Maximum number of Newton iterations.
    tol : float, default 1e-3
        Error of the scores, in standard errors, at which the fit has converged.

    Notes
    -----
    Time: a few Newton steps, each with tens of passes over the distinct compared pairs; intervals double this. Memory:
    about 100 bytes per comparison, independent of the number of items. Scores have a normal prior with mean 0.

    References
    ----------
    R. A. Bradley and M. E. Terry, Biometrika 39, 1952. R. R. Davidson, JASA 65, 1970. P. V. Rao and L. L. Kupper, JASA
    62, 1967.

    Examples
    --------
    >>> import manyhands as mh
    >>> games = mh.Comparisons.from_arrays(["a", "a", "b", "b"], ["b", "b", "c", "c"], ["a", "b", "b", "tie"])
    >>> model = mh.pairwise.BradleyTerry().fit(games)
    >>> model.ranks_.tolist()  # b ties with a and beats c
    [2, 1, 3]
    >>> model.predict_proba("a", "c").round(2).tolist()
    [[0.57, 0.19, 0.25]]
    """

    def __init__(
        self,
        ties: Ties = "davidson",
        left_bias: bool = False,
        prior: float = 3.0,
        intervals: Intervals = "sandwich",
        level: float = 0.95,
        n_resamples: int = 200,
        seed: int = 0,
        max_iter: int = 100,
        tol: float = 1e-3,
    ) -> None:
        self.ties = ties
        self.left_bias = left_bias
        self.prior = prior
        self.intervals = intervals
        self.level = level
        self.n_resamples = n_resamples
        self.seed = seed
        self.max_iter = max_iter
        self.tol = tol

    def _model(self, games: Comparisons) -> dict[str, Any]:
        check_flag("left_bias", self.left_bias)
        return {"slopes": False, "left_bias": "shared" if self.left_bias else "none"}


class WorkerBradleyTerry(_Fitter, default=True):
    r"""Bradley–Terry model with a slope per worker: :math:`\sigma(a_m (s_l - s_r) + b_m)`. The default for comparisons.

    Use it if some workers are less reliable than others. A worker with slope 1 is average, with slope 0 guesses, and
    with a negative slope prefers the worse item. With one worker there are no slopes.

    Parameters
    ----------
    ties : {"davidson", "rao-kupper", "half"}, default "davidson"
        As for :class:`BradleyTerry`.
    left_bias : bool or "worker", default False
        True estimates one advantage of being shown on the left; ``"worker"`` estimates it per worker, shrunk toward the
        mean.
    slope_spread : float or None, default None
        Standard deviation of the slopes; None estimates it.
    prior, intervals, level, n_resamples, seed
        As for :class:`BradleyTerry`. Intervals condition on the estimated slopes and are widened by the possible
        inflation of scores due to the shrinkage of slopes.
    max_iter : int, default 200
        Maximum number of Newton iterations.
    tol : float, default 1e-2
        Error of the scores and slopes, in standard errors, at which the fit has converged.

    Notes
    -----
    Time: about ten Newton steps, each with a few passes over all comparisons and tens of conjugate-gradient steps.
    Memory: about 120 bytes per comparison.

    Slopes have a normal prior with mean 1 and average 1, which fixes the scale of the scores: with equal workers the
    model reduces to :class:`BradleyTerry`, and workers with few comparisons are shrunk to the average. The fit updates
    scores and slopes in turn, starting from equal workers, so that the majority of the workers determines the sign.

    References
    ----------
    Slopes are the discriminations of item response theory, as in am-ELO (Z. Liu et al., ICML 2025) and judge-aware
    Bradley–Terry models (arXiv 2601.21817, 2026).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(12, [1.0, 1.0, 1.0, 1.0, -1.0], 2000, seed=1, kind="pairwise")
    >>> model = mh.pairwise.WorkerBradleyTerry(intervals="none").fit(crowd.log)
    >>> bool(model.slopes_[-1] < 0)
    True
    """

    def __init__(
        self,
        ties: Ties = "davidson",
        left_bias: bool | Literal["worker"] = False,
        slope_spread: float | None = None,
        prior: float = 3.0,
        intervals: Intervals = "sandwich",
        level: float = 0.95,
        n_resamples: int = 200,
        seed: int = 0,
        max_iter: int = 200,
        tol: float = 1e-2,
    ) -> None:
        self.ties = ties
        self.left_bias = left_bias
        self.slope_spread = slope_spread
        self.prior = prior
        self.intervals = intervals
        self.level = level
        self.n_resamples = n_resamples
        self.seed = seed
        self.max_iter = max_iter
        self.tol = tol

    def _model(self, games: Comparisons) -> dict[str, Any]:
        if self.slope_spread is not None:
            check_positive("slope_spread", self.slope_spread)
        if self.left_bias != "worker":
            check_flag("left_bias", self.left_bias)
        several = games.n_workers > 1
        own = "worker" if several else "shared"
        return {
            "slopes": several,
            "slope_spread": None if self.slope_spread is None else float(self.slope_spread),
            "left_bias": own if self.left_bias == "worker" else ("shared" if self.left_bias else "none"),
        }

    @property
    def slopes_(self) -> Array:
        """Slope of each worker, shape (n_workers,): 1 is average, 0 is guessing, below 0 is reversed."""
        return self._fitted().fit_as(GameFit).slope

    @property
    def slope_spread_(self) -> float:
        """Standard deviation of the slopes, fixed or estimated; NaN with a single worker."""
        return self._fitted().fit_as(GameFit).slope_spread


def _or_constant(values: Array, n: int, else_: float) -> Array:
    """Return `values`, or a constant array if the parameter was not estimated."""
    return values if len(values) else np.full(n, else_)


def _center(scores: Array, components: np.ndarray[Any, Any]) -> Array:
    """Center the scores of each component at 0 exactly."""
    means = np.bincount(components, scores) / np.bincount(components)
    return np.asarray(scores - means[components])
