"""Methods for sequences: a tag for each token, spans with probabilities, workers who differ; and linked tasks."""

from manyhands.sequences.crowd import BSC, HMMCrowd, TokenDawidSkene
from manyhands.sequences.linked import LinkedDawidSkene
from manyhands.sequences.votes import SpanVote, TokenVote

__all__ = [
    "BSC",
    "HMMCrowd",
    "LinkedDawidSkene",
    "SpanVote",
    "TokenDawidSkene",
    "TokenVote",
]
