"""Simulated crowds: drawing their annotations, the makers of crowds, and whole data sets known from papers."""

from manyhands.simulate import crowds, synthetic
from manyhands.simulate.boxes import BoxSimulation, simulate_boxes
from manyhands.simulate.comparisons import ComparisonsSimulation, simulate_comparisons
from manyhands.simulate.masks import MaskSimulation, simulate_masks
from manyhands.simulate.rankings import RankingsSimulation, simulate_rankings
from manyhands.simulate.ratings import RatingSimulation, simulate_ratings
from manyhands.simulate.sequences import SimulatedSequences, simulate_sequences
from manyhands.simulate.sets import SimulatedSets, simulate_multilabels
from manyhands.simulate.similarities import SimilaritySimulation, simulate_similarities
from manyhands.simulate.simulation import Simulation, simulate
from manyhands.simulate.texts import TextSimulation, simulate_texts

__all__ = [
    "BoxSimulation",
    "ComparisonsSimulation",
    "MaskSimulation",
    "RankingsSimulation",
    "RatingSimulation",
    "SimilaritySimulation",
    "SimulatedSequences",
    "SimulatedSets",
    "Simulation",
    "TextSimulation",
    "crowds",
    "simulate",
    "simulate_boxes",
    "simulate_comparisons",
    "simulate_masks",
    "simulate_multilabels",
    "simulate_rankings",
    "simulate_ratings",
    "simulate_sequences",
    "simulate_similarities",
    "simulate_texts",
    "synthetic",
]
