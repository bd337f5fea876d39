"""Moments of the answers, and what they determine about the workers.

:func:`compute` counts how often workers give which labels alone, in pairs and in triples; these are what the moment
methods factorize into confusion matrices. :func:`diagnose` reports beforehand whether a table determines them, and
:func:`scattering` whether the crowd's confusion matrices can be identified without specialists.
"""

from manyhands.moments.diagnosis import Diagnosis, diagnose
from manyhands.moments.multi_spa import CoupledCPD, CoupledNMF, MultiSPA
from manyhands.moments.one_coin import MMSR, OneCoinGradient, OneCoinSpectral, SpectralMetaLearner
from manyhands.moments.scatter import scattering
from manyhands.moments.spectral import SpectralDS, SymmetricNMF
from manyhands.moments.statistics import Moments, compute

__all__ = [
    "MMSR",
    "CoupledCPD",
    "CoupledNMF",
    "Diagnosis",
    "Moments",
    "MultiSPA",
    "OneCoinGradient",
    "OneCoinSpectral",
    "SpectralDS",
    "SpectralMetaLearner",
    "SymmetricNMF",
    "compute",
    "diagnose",
    "scattering",
]
