"""Rank centrality: how often a walk that leaves losers for winners visits each item."""

from __future__ import annotations

from manyhands._base.checks import check_positive, check_stopping, warn_unless_converged
from manyhands._base.progress import Callback
from manyhands.pairwise.base import ComparisonEstimator, RankFit, no_intervals, said_of_groups
from manyhands.pairwise.table import Comparisons


class RankCentrality(ComparisonEstimator):
    """Scores by the visits of a random walk that leaves items for those that beat them.

    The walk moves from an item to one that was compared with it in proportion to how often that one was better. Scores
    are the logarithms of visits: with many comparisons of every pair, those of :class:`BradleyTerry`. All pairs that
    were compared count the same, however often they were; ties are half a win for either, and workers are not told
    apart. There are no intervals.

    Time: O(pairs compared) an iteration; iterations grow with the time in which the walk gets around. Memory:
    O(comparisons).

    Parameters
    ----------
    prior
        Wins, and as many losses, added to every pair that was compared: without any, the walk would never leave an item
        that always won.
    max_iter, tol
        Most iterations, and the change of visits, as a share of them, at which to stop.

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
        found = votes.table.rank_centrality_fit(
            prior=float(self.prior), max_iter=self.max_iter, tol=float(self.tol), progress=progress
        )
        warn_unless_converged(found["converged"], self)
        components = votes.components
        errors, intervals = no_intervals(votes.n_items)
        return RankFit(
            scores=found["scores"],
            errors=errors,
            intervals=intervals,
            components=components,
            history=found["history"],
            n_iter=found["n_iter"],
            converged=found["converged"],
            remarks=said_of_groups(components, votes._items, "the walk never leaves a group, where scores average 0"),
        )
