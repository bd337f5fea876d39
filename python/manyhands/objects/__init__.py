"""Aggregation of answers of any type with a distance."""

from manyhands.objects.distance import DistanceAggregator

__all__ = ["DistanceAggregator"]
