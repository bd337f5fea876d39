"""Aggregators of boxes and points: which objects are there, where, and what they are."""

from manyhands.boxes.crowd import BoxCrowd
from manyhands.boxes.vote import BoxVote

__all__ = ["BoxCrowd", "BoxVote"]
