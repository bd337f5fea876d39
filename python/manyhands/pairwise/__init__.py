"""Item scores from pairwise comparisons and rankings, with a reliability per worker.

>>> import manyhands as mh
>>> games = mh.Comparisons.from_arrays(["a", "b", "a"], ["b", "c", "c"], ["a", "b", "a"])
>>> mh.pairwise.BradleyTerry().fit(games).items_[0]
'a'
"""

from manyhands.pairwise.base import ComparisonEstimator, ItemEstimator, RankFit
from manyhands.pairwise.bradley_terry import BradleyTerry, WorkerBradleyTerry
from manyhands.pairwise.centrality import RankCentrality
from manyhands.pairwise.crowd import CrowdBT
from manyhands.pairwise.leaderboard import leaderboard
from manyhands.pairwise.luce import PlackettLuce, RankingEstimator

__all__ = [
    "BradleyTerry",
    "ComparisonEstimator",
    "CrowdBT",
    "ItemEstimator",
    "PlackettLuce",
    "RankCentrality",
    "RankFit",
    "RankingEstimator",
    "WorkerBradleyTerry",
    "leaderboard",
]
