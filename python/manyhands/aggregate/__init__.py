"""Aggregators, a file a family: each maps an annotation table to labels, posteriors and worker confusions."""

from manyhands.aggregate.competence import GLAD, MACE
from manyhands.aggregate.em import DawidSkene
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
    "CoupledCPD",
    "CoupledNMF",
    "DawidSkene",
    "MajorityVote",
    "MultiSPA",
    "OneCoinGradient",
    "OneCoinSpectral",
    "SpectralDS",
    "SpectralMetaLearner",
    "SymmetricNMF",
    "WeightedVote",
]
