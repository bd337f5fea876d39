"""Aggregators for segmentation masks."""

from manyhands.masks.shapes import ShapeCrowd
from manyhands.masks.staple import STAPLE
from manyhands.masks.vote import MaskVote

__all__ = ["STAPLE", "MaskVote", "ShapeCrowd"]
