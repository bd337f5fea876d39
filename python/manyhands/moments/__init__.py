"""Moments of the answers, and what they can tell about the workers.

:func:`compute` counts how often workers give which labels alone, in pairs and in triples; these are what the moment
methods factorise into confusion matrices. :func:`diagnose` says beforehand whether a table determines them.
"""

from manyhands.moments.diagnosis import Diagnosis, diagnose
from manyhands.moments.statistics import Moments, compute

__all__ = ["Diagnosis", "Moments", "compute", "diagnose"]
