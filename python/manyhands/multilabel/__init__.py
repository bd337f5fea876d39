"""Aggregators for sets of labels, with worker skills pooled over labels."""

from manyhands.multilabel.relevance import PooledRelevance
from manyhands.multilabel.vote import SetVote

__all__ = ["PooledRelevance", "SetVote"]
