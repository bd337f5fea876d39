"""Channel capacity by the plain iteration of Blahut and Arimoto."""

import numpy as np


def divergences(channel, prior):
    """Divergence in bits of each row (classes × labels) from the mix of rows."""
    mix = prior @ channel
    return np.array([sum(a * np.log2(a / q) for a, q in zip(row, mix, strict=True) if a > 0) for row in channel])


def channel_capacity(channel, steps=20_000):
    """Lower and upper bound on the capacity in bits after so many plain steps, and the class frequencies."""
    prior = np.full(len(channel), 1 / len(channel))
    for _ in range(steps):
        told = divergences(channel, prior)
        if told.max() - prior @ told < 1e-9:
            break
        prior = prior * np.exp2(told - told.max())
        prior /= prior.sum()
    told = divergences(channel, prior)
    return prior @ told, told.max(), prior
