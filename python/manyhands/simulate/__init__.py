"""Simulated crowds: drawing their annotations, the makers of crowds, and whole data sets known from papers."""

from manyhands.simulate import crowds, synthetic
from manyhands.simulate.simulation import Simulation, simulate

__all__ = ["Simulation", "crowds", "simulate", "synthetic"]
