"""Answers of any type that has a distance."""

from manyhands.objects.distance import DistanceAggregator

__all__ = ["DistanceAggregator"]
