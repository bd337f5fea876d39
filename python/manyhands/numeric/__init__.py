"""Aggregators for numeric answers and points: values with standard errors, and worker bias, scale and noise."""

from manyhands.numeric.base import NumericAggregator
from manyhands.numeric.blend import Blend
from manyhands.numeric.covariance import CovarianceCrowd
from manyhands.numeric.gaussian import GaussianCrowd
from manyhands.numeric.simple import Mean, Median, TrimmedMean, WeightedMean

__all__ = [
    "Blend",
    "CovarianceCrowd",
    "GaussianCrowd",
    "Mean",
    "Median",
    "NumericAggregator",
    "TrimmedMean",
    "WeightedMean",
]
