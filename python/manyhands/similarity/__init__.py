"""Same or different: clusters of items, and how well workers tell."""

from manyhands.similarity.base import Clustering
from manyhands.similarity.chosen import ChosenClustering
from manyhands.similarity.clusters import CorrelationClustering, CrowdClustering

__all__ = ["ChosenClustering", "Clustering", "CorrelationClustering", "CrowdClustering"]
