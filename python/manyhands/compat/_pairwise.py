"""crowd-kit's models of comparisons, on ours."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from manyhands import pairwise
from manyhands._base.checks import check_number, check_positive
from manyhands.compat._log import Twin, columns_of, import_pandas, series
from manyhands.errors import ConvergenceWarning
from manyhands.pairwise.table import LEFT, TIE, Comparisons

if TYPE_CHECKING:
    from manyhands.compat._log import Frame, Series

#: So weak that scores of well-compared items are those of greatest likelihood; crowd-kit has no prior.
_PRIOR = 30.0
#: Keeps shares of workers with few comparisons away from 0 and 1, where no other comparison is possible.
_PSEUDO = 0.5


class _Scores(Twin):
    scores_: Series
    _answer: ClassVar[str] = "scores_"


@dataclass(repr=False, eq=False)
class BradleyTerry(_Scores):
    """Bradley–Terry: scores that sum to one; an item beats another with probability p_i / (p_i + p_j).

    Parameters
    ----------
    n_iter, tol
        Most iterations; what else ends them is up to :class:`manyhands.pairwise.BradleyTerry`.
    """

    n_iter: int
    tol: float = 1e-5

    def fit(self, data: Frame) -> Self:
        """Learn from a frame with columns ``left``, ``right`` and ``label``, the winner or ``"tie"``."""
        check_number("n_iter", self.n_iter, least=1, whole=True)
        data = columns_of(data, "left", "right", "label")
        games = Comparisons.from_frame(data, left="left", right="right", winner="label", worker=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = pairwise.BradleyTerry(ties="half", prior=_PRIOR, intervals="none", max_iter=self.n_iter).fit(games)
        self.loss_history_ = (-model.history_ / len(games)).tolist()
        shares = np.exp(model.scores_ - model.scores_.max())
        self.scores_ = import_pandas().Series(shares / shares.sum(), index=games.items)
        return self


@dataclass(repr=False, eq=False)
class NoisyBradleyTerry(_Scores):
    """Bradley–Terry with workers who compare with probability ``skills_``, and otherwise answer by ``biases_``.

    By EM, which maximizes the likelihood that crowd-kit's gradient is meant to maximize.

    Parameters
    ----------
    n_iter, tol
        Most iterations, and the change of the log-likelihood of a comparison at which to stop.
    regularization_ratio : float, default 1e-05
        Precision of the prior of scores.
    random_state : int, default 0
        Not used: nothing is drawn.
    """

    n_iter: int = 100
    tol: float = 1e-5
    regularization_ratio: float = 1e-5
    random_state: int = 0

    def fit(self, data: Frame) -> Self:
        """Learn from a frame with columns ``worker``, ``left``, ``right`` and ``label``, the winner or ``"tie"``."""
        check_number("n_iter", self.n_iter, least=1, whole=True)
        check_positive("regularization_ratio", self.regularization_ratio)
        data = columns_of(data, "worker", "left", "right", "label")
        games = Comparisons.from_frame(data, left="left", right="right", winner="label", worker="worker")
        left, right, outcomes, workers, _ = games.codes()
        m = games.n_workers
        won = np.where(outcomes == TIE, 0.5, np.where(outcomes == LEFT, 1.0, 0.0))
        skills, biases, last = np.full(m, 0.8), np.full(m, 0.5), -np.inf
        prior = min(self.regularization_ratio**-0.5, _PRIOR)
        options: dict[str, Any] = {"ties": "half", "left_bias": "none", "slopes": False, "prior": prior}
        options |= {"max_iter": 100, "tol": 1e-3}
        point = games.table.bradley_terry_fit(**options)["point"]
        total = np.bincount(workers, minlength=m)
        for _ in range(self.n_iter):
            lead = 1.0 / (1.0 + np.exp(point[right] - point[left]))
            likelihood = won * lead + (1.0 - won) * (1.0 - lead)
            guess = won * biases[workers] + (1.0 - won) * (1.0 - biases[workers])
            both = skills[workers] * likelihood + (1.0 - skills[workers]) * guess
            looked = skills[workers] * likelihood / both
            skills = (np.bincount(workers, looked, m) + _PSEUDO) / (total + 2 * _PSEUDO)
            blind = np.bincount(workers, 1.0 - looked, m)
            biases = (np.bincount(workers, (1.0 - looked) * won, m) + _PSEUDO) / (blind + 2 * _PSEUDO)
            weighted = games.table.counted(np.maximum(looked, 1e-12))
            point = weighted.bradley_terry_fit(**options, start=np.nan_to_num(point))["point"]
            now = float(np.log(both).mean())
            if abs(now - last) < self.tol:
                break
            last = now
        pandas = import_pandas()
        names = pandas.Index(games.workers, name="worker")
        shares = 1.0 / (1.0 + np.exp(-point[: games.n_items]))
        self.scores_ = series(shares, pandas.Index(games.items, name="label"), "agg_score")
        self.skills_, self.biases_ = series(skills, names, "skill"), series(biases, names, "bias")
        return self
