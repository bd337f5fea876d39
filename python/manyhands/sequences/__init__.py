"""Methods for sequences: a tag for each token, spans with probabilities, and workers who differ."""

from manyhands.sequences.votes import SpanVote, TokenVote

__all__ = ["SpanVote", "TokenVote"]
