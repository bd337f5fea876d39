"""Aggregators, a file a family: each maps an annotation table to labels, posteriors and worker confusions."""

from manyhands.aggregate.em import DawidSkene
from manyhands.aggregate.moments import CoupledCPD, CoupledNMF, MultiSPA
from manyhands.aggregate.spectral import SpectralDS, SymmetricNMF
from manyhands.aggregate.voting import MajorityVote, WeightedVote

__all__ = [
    "CoupledCPD",
    "CoupledNMF",
    "DawidSkene",
    "MajorityVote",
    "MultiSPA",
    "SpectralDS",
    "SymmetricNMF",
    "WeightedVote",
]
