"""Aggregators, a file a family: each maps an annotation table to labels, posteriors and worker confusions."""

from manyhands.aggregate.em import DawidSkene
from manyhands.aggregate.voting import MajorityVote, WeightedVote

__all__ = ["DawidSkene", "MajorityVote", "WeightedVote"]
