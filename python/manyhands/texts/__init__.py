"""Aggregators for texts: transcripts, translations and captions."""

from manyhands.texts.nearest import HRRASA, RASA, ClosestToCentre
from manyhands.texts.rover import ROVER

__all__ = ["HRRASA", "RASA", "ROVER", "ClosestToCentre"]
