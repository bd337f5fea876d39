"""Simulated crowds: drawing their annotations, the makers of crowds, and whole data sets known from papers."""

from manyhands.simulate import crowds, synthetic
from manyhands.simulate.comparisons import ComparisonsSimulation, simulate_comparisons
from manyhands.simulate.simulation import Simulation, simulate

__all__ = ["ComparisonsSimulation", "Simulation", "crowds", "simulate", "simulate_comparisons", "synthetic"]
