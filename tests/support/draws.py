"""Probabilities drawn at random, for tests of measures."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

SEEDS = st.integers(0, 2**32 - 1)


SIZES = st.integers(1, 6)


TIGHT = 1e-12  # sums of a few hundred doubles of size one


def stochastic(rng: np.random.Generator, *shape: int, sharp: float = 1.0) -> np.ndarray:
    """Rows drawn from a Dirichlet; sharp rows come close to certainty, some entries underflow to zero."""
    return rng.dirichlet(np.full(shape[-1], sharp), size=shape[:-1])


def posterior_and_truth(seed: int, n: int = 200, k: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    posterior = stochastic(rng, n, k, sharp=0.5)
    truth = np.array([rng.choice(k, p=row) for row in posterior])
    return posterior, truth
