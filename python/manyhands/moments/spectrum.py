"""How many classes the answers of workers tell apart: singular values of their moments against sampling noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

#: Shares of labels below this part of an even share are not blown up further.
_RARE = 0.25
#: Tables of noise that are drawn; the largest of them counts.
_DRAWS = 8


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Singular values of a matrix of moments, largest first, and the largest that sampling noise alone would give."""

    values: Array
    noise: float

    @property
    def rank(self) -> int:
        """How many singular values stand out of the noise."""
        return int((self.values > self.noise).sum())

    @property
    def margin(self) -> float:
        """The smallest singular value in units of the noise: above one, the rank is full."""
        return float(self.values[-1] / self.noise) if self.noise > 0 else np.inf


def spectrum(joint: Array, *, seed: int = 0) -> Spectrum:
    """Return the spectrum of blocks of counts (J, K, K), put side by side.

    Frequencies ``F[l, l'] = Σ_k d[k] C[m, k, l] C[m', k, l']`` of one worker ``m`` with several ``m'`` have as rank
    the number of classes that ``m`` and the others together tell apart. Rows and columns are divided by the square
    roots of their sums, which keeps the rank and lets rare classes count, and blocks are multiplied by the square roots
    of the counts behind them, which makes their noise alike. The noise is the largest singular value that tables drawn
    around the same frequencies show next to them.
    """
    k = joint.shape[1]
    counts = np.maximum(np.rint(joint.sum(axis=(1, 2))), 1).astype(np.int64)
    total = joint.sum(axis=0) / joint.sum()
    frequencies = joint / joint.sum(axis=(1, 2), keepdims=True)
    rows = np.maximum(total.sum(axis=1), _RARE / k)
    columns = np.maximum(frequencies.sum(axis=1), _RARE / k)
    scale = np.sqrt(counts)[:, None, None] / np.sqrt(rows[None, :, None] * columns[:, None, :])
    # A block of few counts looks less noisy than it is: it borrows from all blocks together.
    chances = joint + k * k * total
    chances /= chances.sum(axis=(1, 2), keepdims=True)
    rng = np.random.default_rng(seed)
    noise = 0.0
    for _ in range(_DRAWS):
        sample = rng.multinomial(counts, chances.reshape(len(joint), k * k)).reshape(joint.shape)
        noise = max(noise, float(_singular_values((sample / counts[:, None, None] - chances) * scale)[0]))
    return Spectrum(_singular_values(frequencies * scale), noise)


def _singular_values(blocks: Array) -> Array:
    """Singular values of blocks (J, K, K) side by side."""
    wide = blocks.swapaxes(0, 1).reshape(blocks.shape[1], -1)
    return np.asarray(np.linalg.svd(wide, compute_uv=False), np.float64)
