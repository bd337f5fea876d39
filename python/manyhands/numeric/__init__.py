"""Methods for numbers and points: each maps a table of ratings to values with standard errors, and to workers."""

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
