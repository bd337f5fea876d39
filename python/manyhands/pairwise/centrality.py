"""Rank centrality: scores from the stationary distribution of a random walk over items."""

from __future__ import annotations

from manyhands._base.checks import check_positive, check_stopping, warn_unless_converged
from manyhands._base.progress import Callback
from manyhands.pairwise.base import ComparisonEstimator, RankFit, disconnected_items_warning, no_intervals
from manyhands.pairwise.table import Comparisons


class RankCentrality(ComparisonEstimator):
    """Item scores from a random walk that moves from losers to winners.

    A fast alternative to :class:`BradleyTerry` without intervals. Every compared pair counts equally, whatever its
    number of comparisons; ties count as half a win for each item; all workers are treated alike.

    Parameters
    ----------
    prior : float, default 0.5
        Pseudo-wins and pseudo-losses added to every compared pair. They keep the walk from getting stuck at items that
        always won.
    max_iter : int, default 10_000
        Maximum number of iterations.
    tol : float, default 1e-8
        Relative change of the visit frequencies at which the fit has converged.

    Notes
    -----
    Time: O(compared pairs) per iteration; the number of iterations grows with the mixing time of the walk. Memory:
    O(comparisons). Scores are logarithms of the stationary probabilities. With many comparisons of every pair they
    approach those of :class:`BradleyTerry`.

    References
    ----------
    S. Negahban, S. Oh and D. Shah, "Iterative ranking from pair-wise comparisons", NIPS 2012.

    Examples
    --------
    >>> import manyhands as mh
    >>> games = mh.Comparisons.from_arrays(["a", "a", "b"], ["b", "c", "c"], ["a", "a", "b"])
    >>> mh.pairwise.RankCentrality().fit(games).ranks_.tolist()
    [1, 2, 3]
    """

    def __init__(self, prior: float = 0.5, max_iter: int = 10_000, tol: float = 1e-8) -> None:
        self.prior = prior
        self.max_iter = max_iter
        self.tol = tol

    def _fit(self, votes: Comparisons, progress: Callback | None) -> RankFit:
        check_positive("prior", self.prior)
        check_stopping(self.max_iter, self.tol)
        result = votes.table.rank_centrality_fit(
            prior=float(self.prior), max_iter=self.max_iter, tol=float(self.tol), progress=progress
        )
        warn_unless_converged(result["converged"], self)
        components = votes.components
        errors, intervals = no_intervals(votes.n_items)
        return RankFit(
            scores=result["scores"],
            errors=errors,
            intervals=intervals,
            components=components,
            history=result["history"],
            n_iter=result["n_iter"],
            converged=result["converged"],
            remarks=disconnected_items_warning(
                components, votes._items, "the walk never leaves a group, so each is centered at 0"
            ),
        )
