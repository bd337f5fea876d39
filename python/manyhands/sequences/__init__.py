"""Aggregators for sequence labeling (token tags and spans) and for classes of linked tasks."""

from manyhands.sequences.consensus import SequenceConsensus
from manyhands.sequences.crowd import BSC, HMMCrowd, TokenDawidSkene
from manyhands.sequences.linked import LinkedDawidSkene
from manyhands.sequences.votes import SpanVote, TokenVote

__all__ = [
    "BSC",
    "HMMCrowd",
    "LinkedDawidSkene",
    "SequenceConsensus",
    "SpanVote",
    "TokenDawidSkene",
    "TokenVote",
]
