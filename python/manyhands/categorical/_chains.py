"""Chains of draws: whether they agree with each other, and how many independent draws they amount to."""

from __future__ import annotations

import math

import numpy as np

from manyhands._base.estimator import Array

#: Quantities whose chains are looked at together: bounds the memory of Fourier transforms.
_BLOCK = 256


def diagnose(draws: Array) -> dict[str, Array]:
    """R-hat, bulk and tail effective sample size of draws (chains, draws, ...), each of the shape of one draw.

    Split chains and rank-normalized draws, as in A. Vehtari, A. Gelman, D. Simpson, B. Carpenter and P.-C. Bürkner,
    "Rank-normalization, folding, and localization: an improved R-hat", Bayesian Analysis 16 (2021). NaN for fewer than
    four draws a chain, and where a quantity never changes. O(draws · log draws) time for each quantity.
    """
    shape = draws.shape[2:]
    flat = draws.reshape(*draws.shape[:2], -1)
    n = flat.shape[2]
    names = ("rhat", "ess_bulk", "ess_tail")
    results = {name: np.full(n, np.nan) for name in names}
    if draws.shape[1] >= 4:
        for start in range(0, n, _BLOCK):
            block = flat[:, :, start : start + _BLOCK]
            varies = np.flatnonzero((block != block[:1, :1]).any(axis=(0, 1)))
            if len(varies):
                for name, values in zip(names, _diagnose(block[:, :, varies]), strict=True):
                    results[name][start + varies] = values
    return {name: values.reshape(shape) for name, values in results.items()}


def _diagnose(chains: Array) -> tuple[Array, Array, Array]:
    halves = _split(chains)
    bulk = _rank_normalised(halves)
    folded = _rank_normalised(np.abs(halves - np.median(halves, axis=(0, 1))))
    below = [(chains <= np.quantile(chains, q, axis=(0, 1))).astype(np.float64) for q in (0.05, 0.95)]
    tails = [_ess(_split(indicator)) for indicator in below]
    return np.maximum(_rhat(bulk), _rhat(folded)), _ess(bulk), np.minimum(*tails)


def _split(chains: Array) -> Array:
    """Halves of chains as chains of their own; a middle draw is left out."""
    half = chains.shape[1] // 2
    return np.concatenate([chains[:, :half], chains[:, -half:]])


def _rank_normalised(chains: Array) -> Array:
    """Normal scores of average ranks over all chains, quantity by quantity."""
    from statistics import NormalDist  # with decimals and fractions: a tenth of the import of the whole library

    total = chains.shape[0] * chains.shape[1]
    # Twice an average rank is a whole number, so that few scores serve all.
    scores = np.array([NormalDist().inv_cdf((rank / 2 - 3 / 8) / (total + 1 / 4)) for rank in range(2, 2 * total + 1)])
    flat = chains.reshape(total, -1)
    out = np.empty_like(flat)
    for i, values in enumerate(flat.T):
        _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
        last = np.cumsum(counts)
        out[:, i] = scores[(2 * last - counts - 1)[place]]
    return out.reshape(chains.shape)


def _rhat(chains: Array) -> Array:
    """The ratio of the spread of all draws to that within chains."""
    length = chains.shape[1]
    between = length * chains.mean(axis=1).var(axis=0, ddof=1)
    within = chains.var(axis=1, ddof=1).mean(axis=0)
    ratio: Array = np.sqrt((between / within + length - 1) / length)
    return ratio


def _ess(chains: Array) -> Array:
    """Effective sample size by Geyer's initial monotone sequence of autocorrelations."""
    n_chains, length, n = chains.shape
    covariance = _autocovariance(chains).mean(axis=0)
    within = covariance[0] * length / (length - 1)
    total = within * (length - 1) / length
    if n_chains > 1:
        total = total + chains.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = 1 - (within - covariance) / total
    rho[0] = 1.0
    size = np.empty(n)
    for i in range(n):
        size[i] = n_chains * length / _integrate(rho[:, i], n_chains * length)
    size[~(total > 0)] = np.nan
    return size


def _autocovariance(chains: Array) -> Array:
    """Autocovariance of each chain at each lag, divided by the length of the chain."""
    length = chains.shape[1]
    centred = chains - chains.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, n=2 * length, axis=1)
    power = np.fft.irfft(np.abs(spectrum) ** 2, n=2 * length, axis=1)
    covariance: Array = power[:, :length] / length
    return covariance


def _integrate(rho: Array, n_draws: int) -> float:
    """Twice the sum of autocorrelations less one: draws that amount to an independent one."""
    # The very last lags are too noisy to count.
    n_pairs = (len(rho) - 1) // 2
    pairs = rho[: 2 * n_pairs].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(~(pairs >= 0))
    end = int(negative[0]) if len(negative) else n_pairs - 1
    tau = -1 + 2 * float(np.minimum.accumulate(pairs[:end]).sum())
    if rho[2 * end] > 0:
        tau += float(rho[2 * end])
    # Antithetic chains may be worth more than independent draws, but not without bound.
    return max(tau, 1 / math.log10(n_draws))
