"""Methods for sets of labels: a binary question for each label and task, with workers judged over all labels."""

from manyhands.multilabel.relevance import PooledRelevance
from manyhands.multilabel.vote import SetVote

__all__ = ["PooledRelevance", "SetVote"]
