"""Aggregators, a file a family: each maps an annotation table to labels, posteriors and worker confusions."""

from manyhands.aggregators.base import all_aggregators
from manyhands.aggregators.bayes import BayesianDawidSkene
from manyhands.aggregators.communities import EBCC, CommunityDawidSkene
from manyhands.aggregators.competence import GLAD, MACE
from manyhands.aggregators.consensus import Consensus
from manyhands.aggregators.elimination import SpammerEliminatingDawidSkene
from manyhands.aggregators.em import DawidSkene
from manyhands.aggregators.entropy import MinimaxEntropy
from manyhands.aggregators.grouped import GroupDawidSkene, GroupVote
from manyhands.aggregators.hierarchical import HierarchicalDawidSkene, HierarchicalMACE
from manyhands.aggregators.margin import CrowdSVM, MaxMarginVote
from manyhands.aggregators.messages import KOS
from manyhands.aggregators.moments import CoupledCPD, CoupledNMF, MultiSPA
from manyhands.aggregators.online import OnlineDawidSkene
from manyhands.aggregators.skills import MMSR, OneCoinGradient, OneCoinSpectral, SpectralMetaLearner
from manyhands.aggregators.sparse import SparseOneCoin
from manyhands.aggregators.spectral import SpectralDS, SymmetricNMF
from manyhands.aggregators.voting import MajorityVote, WeightedVote

# The package above offers the same. A list spelt out is the only form that mypy follows through it.
__all__ = [
    "EBCC",
    "GLAD",
    "KOS",
    "MACE",
    "MMSR",
    "BayesianDawidSkene",
    "CommunityDawidSkene",
    "Consensus",
    "CoupledCPD",
    "CoupledNMF",
    "CrowdSVM",
    "DawidSkene",
    "GroupDawidSkene",
    "GroupVote",
    "HierarchicalDawidSkene",
    "HierarchicalMACE",
    "MajorityVote",
    "MaxMarginVote",
    "MinimaxEntropy",
    "MultiSPA",
    "OneCoinGradient",
    "OneCoinSpectral",
    "OnlineDawidSkene",
    "SpammerEliminatingDawidSkene",
    "SparseOneCoin",
    "SpectralDS",
    "SpectralMetaLearner",
    "SymmetricNMF",
    "WeightedVote",
    "all_aggregators",
]
