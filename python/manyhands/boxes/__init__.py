"""Aggregators for bounding boxes and points in images."""

from manyhands.boxes.crowd import BoxCrowd
from manyhands.boxes.vote import BoxVote

__all__ = ["BoxCrowd", "BoxVote"]
