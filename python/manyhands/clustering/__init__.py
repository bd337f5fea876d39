"""Clusters of items from same-or-different answers about pairs."""

from manyhands.clustering.base import Clustering
from manyhands.clustering.consensus import ChosenClustering
from manyhands.clustering.crowd import CorrelationClustering, CrowdClustering

__all__ = [
    "ChosenClustering",
    "Clustering",
    "CorrelationClustering",
    "CrowdClustering",
]
