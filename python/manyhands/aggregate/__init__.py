"""Aggregators, a file a family: each maps an annotation table to labels, posteriors and worker confusions."""

from manyhands.aggregate.bayes import BayesianDawidSkene
from manyhands.aggregate.competence import GLAD, MACE
from manyhands.aggregate.consensus import Consensus
from manyhands.aggregate.em import DawidSkene
from manyhands.aggregate.hierarchical import HierarchicalDawidSkene, HierarchicalMACE
from manyhands.aggregate.messages import KOS
from manyhands.aggregate.moments import CoupledCPD, CoupledNMF, MultiSPA
from manyhands.aggregate.skills import MMSR, OneCoinGradient, OneCoinSpectral, SpectralMetaLearner
from manyhands.aggregate.spectral import SpectralDS, SymmetricNMF
from manyhands.aggregate.voting import MajorityVote, WeightedVote

__all__ = [
    "GLAD",
    "KOS",
    "MACE",
    "MMSR",
    "BayesianDawidSkene",
    "Consensus",
    "CoupledCPD",
    "CoupledNMF",
    "DawidSkene",
    "HierarchicalDawidSkene",
    "HierarchicalMACE",
    "MajorityVote",
    "MultiSPA",
    "OneCoinGradient",
    "OneCoinSpectral",
    "SpectralDS",
    "SpectralMetaLearner",
    "SymmetricNMF",
    "WeightedVote",
]
