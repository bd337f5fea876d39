"""Class labels: the table of annotations, methods that estimate one label per task, and simulated crowds."""

from manyhands.categorical import crowds, synthetic
from manyhands.categorical.base import all_aggregators
from manyhands.categorical.bayesian import BayesianDawidSkene
from manyhands.categorical.community import EBCC, CommunityDawidSkene
from manyhands.categorical.consensus import Consensus
from manyhands.categorical.dawid_skene import DawidSkene
from manyhands.categorical.group import GroupDawidSkene, GroupVote
from manyhands.categorical.hierarchical import HierarchicalDawidSkene, HierarchicalMACE
from manyhands.categorical.known import posterior
from manyhands.categorical.kos import KOS
from manyhands.categorical.mace import GLAD, MACE
from manyhands.categorical.max_margin import CrowdSVM, MaxMarginVote
from manyhands.categorical.minimax import MinimaxEntropy
from manyhands.categorical.online import OnlineDawidSkene
from manyhands.categorical.simulate import CategoricalSimulation
from manyhands.categorical.spammer_eliminating import SpammerEliminatingDawidSkene
from manyhands.categorical.sparse_one_coin import SparseOneCoin
from manyhands.categorical.voting import MajorityVote, WeightedVote

__all__ = [
    "EBCC",
    "GLAD",
    "KOS",
    "MACE",
    "BayesianDawidSkene",
    "CategoricalSimulation",
    "CommunityDawidSkene",
    "Consensus",
    "CrowdSVM",
    "DawidSkene",
    "GroupDawidSkene",
    "GroupVote",
    "HierarchicalDawidSkene",
    "HierarchicalMACE",
    "MajorityVote",
    "MaxMarginVote",
    "MinimaxEntropy",
    "OnlineDawidSkene",
    "SpammerEliminatingDawidSkene",
    "SparseOneCoin",
    "WeightedVote",
    "all_aggregators",
    "crowds",
    "posterior",
    "synthetic",
]
