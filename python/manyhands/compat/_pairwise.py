"""crowd-kit's models of comparisons, on ours."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from manyhands import _core
from manyhands._base.checks import check_number, check_positive
from manyhands._base.estimator import Array, Parameters
from manyhands.compat._log import import_pandas, series
from manyhands.errors import ConvergenceWarning
from manyhands.pairwise import BradleyTerry as Ours
from manyhands.pairwise.table import LEFT, TIE, Comparisons

if TYPE_CHECKING:
    from manyhands.compat._log import Frame, Series

#: So weak that scores of well-compared items are those of greatest likelihood; crowd-kit has no prior.
_PRIOR = 30.0
#: Keeps shares of workers with few comparisons away from 0 and 1, where no other comparison is possible.
_PSEUDO = 0.5


def _games(data: Frame, columns: list[str]) -> Comparisons | None:
    """The comparisons of a frame; None where it has no rows."""
    pandas = import_pandas()
    if not isinstance(data, pandas.DataFrame):
        raise TypeError(f"expected a pandas DataFrame, not {type(data).__name__}")
    absent = [column for column in columns if column not in data.columns]
    if absent:
        raise KeyError(
            f"no column {', '.join(map(repr, absent))}; the columns are {', '.join(map(repr, data.columns))}"
        )
    if not len(data):
        return None
    worker = "worker" if "worker" in columns else None
    return Comparisons.from_frame(data[columns], left="left", right="right", winner="label", worker=worker)


class BradleyTerry(Parameters):
    """Scores that sum to one, by which an item beats another with probability p_i / (p_i + p_j).

    Parameters
    ----------
    n_iter, tol
        Most iterations; what else ends them is up to :class:`manyhands.pairwise.BradleyTerry`.
    """

    scores_: Series
    loss_history_: list[float]

    def __init__(self, n_iter: int, tol: float = 1e-5) -> None:
        self.n_iter = n_iter
        self.tol = tol

    def fit(self, data: Frame) -> Self:
        """Learn from a frame with columns ``left``, ``right`` and ``label``, the winner or ``"tie"``."""
        check_number("n_iter", self.n_iter, least=1, whole=True)
        games = _games(data, ["left", "right", "label"])
        self.loss_history_ = []
        if games is None:
            self.scores_ = import_pandas().Series([], dtype=np.float64)
            return self
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = Ours(ties="half", prior=_PRIOR, intervals="none", max_iter=self.n_iter).fit(games)
        self.loss_history_ = (-model.history_ / len(games)).tolist()
        shares = np.exp(model.scores_ - model.scores_.max())
        self.scores_ = import_pandas().Series(shares / shares.sum(), index=games.items)
        return self

    def fit_predict(self, data: Frame) -> Series:
        """Fit and return the scores."""
        return self.fit(data).scores_


class NoisyBradleyTerry(Parameters):
    """Bradley–Terry with workers who look with probability ``skills_``, and else say "left" by ``biases_``.

    By EM, which climbs the likelihood that crowd-kit's gradient means to climb.

    Parameters
    ----------
    n_iter, tol
        Most iterations, and the change of the log-likelihood of a comparison at which to stop.
    regularization_ratio
        Precision of the prior of scores.
    random_state
        Not used: nothing is drawn.
    """

    scores_: Series
    skills_: Series
    biases_: Series

    def __init__(
        self, n_iter: int = 100, tol: float = 1e-5, regularization_ratio: float = 1e-5, random_state: int = 0
    ) -> None:
        self.n_iter = n_iter
        self.tol = tol
        self.regularization_ratio = regularization_ratio
        self.random_state = random_state

    def fit(self, data: Frame) -> Self:
        """Learn from a frame with columns ``worker``, ``left``, ``right`` and ``label``, the winner or ``"tie"``."""
        check_number("n_iter", self.n_iter, least=1, whole=True)
        check_positive("regularization_ratio", self.regularization_ratio)
        games = _games(data, ["worker", "left", "right", "label"])
        if games is None:
            empty = [series(np.zeros(0), None, name) for name in ("agg_score", "skill", "bias")]
            self.scores_, self.skills_, self.biases_ = empty
            return self
        scores, skills, biases = _noisy(games, self.n_iter, self.tol, self.regularization_ratio)
        pandas = import_pandas()
        workers = pandas.Index(games.workers, name="worker")
        shares = 1.0 / (1.0 + np.exp(-scores))
        self.scores_ = series(shares, pandas.Index(games.items, name="label"), "agg_score")
        self.skills_, self.biases_ = series(skills, workers, "skill"), series(biases, workers, "bias")
        return self

    def fit_predict(self, data: Frame) -> Series:
        """Fit and return the scores."""
        return self.fit(data).scores_


def _noisy(games: Comparisons, n_iter: int, tol: float, ratio: float) -> tuple[Array, Array, Array]:
    """Scores, shares of comparisons at which workers look, and shares of "left" where they do not."""
    left, right, outcomes, workers, _ = games.codes()
    n, m = games.n_items, games.n_workers
    won = np.where(outcomes == TIE, 0.5, np.where(outcomes == LEFT, 1.0, 0.0))
    skills, biases, last = np.full(m, 0.8), np.full(m, 0.5), -np.inf
    asked: dict[str, Any] = {"ties": "half", "left_bias": "none", "slopes": False, "prior": min(ratio**-0.5, _PRIOR)}
    point = _core.bradley_terry_fit(games.table, **asked, max_iter=100, tol=1e-3)["point"]
    total = np.bincount(workers, minlength=m)
    for _ in range(n_iter):
        lead = 1.0 / (1.0 + np.exp(point[right] - point[left]))
        seen = won * lead + (1.0 - won) * (1.0 - lead)
        guess = won * biases[workers] + (1.0 - won) * (1.0 - biases[workers])
        both = skills[workers] * seen + (1.0 - skills[workers]) * guess
        looked = skills[workers] * seen / both
        skills = (np.bincount(workers, looked, m) + _PSEUDO) / (total + 2 * _PSEUDO)
        blind = np.bincount(workers, 1.0 - looked, m)
        biases = (np.bincount(workers, (1.0 - looked) * won, m) + _PSEUDO) / (blind + 2 * _PSEUDO)
        start = np.nan_to_num(point)
        weighed = games.table.counted(np.maximum(looked, 1e-12))
        point = _core.bradley_terry_fit(weighed, **asked, start=start, max_iter=100, tol=1e-3)["point"]
        now = float(np.log(both).mean())
        if abs(now - last) < tol:
            break
        last = now
    return point[:n], skills, biases
