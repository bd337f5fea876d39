"""Low-rank factors of the covariances of workers' answers, from which spammers and colluders are detected."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_number
from manyhands._base.estimator import Array
from manyhands.categorical.table import Annotations

Codes = npt.NDArray[np.uint32]

#: Most bytes for the blocks of all pairs; with many classes, workers keep fewer partners.
_MOST_BYTES = 1 << 30
#: Least and largest number of partners per worker; between them, as many pairs as annotations, within limits.
_PARTNERS, _PAIRS = (32, 256), (1 << 16, 1 << 19)
#: Sweeps over the workers, and the change below which factors have converged.
_SWEEPS, _TOLERANCE = 200, 1e-5
#: Scale of the random initial factors: small enough that the first sweeps are steps of a power iteration.
_INITIAL_SCALE = 0.1


def check_partners(max_partners: int | None) -> None:
    """Raise for an invalid number of partners."""
    if max_partners is not None:
        check_number("max_partners", max_partners, least=1, whole=True)


def _partners(votes: Annotations, max_partners: int | None) -> int:
    """Return the number of partners per worker: as requested, or for a pair per annotation, if memory allows."""
    k, m = votes.n_classes, votes.n_workers
    if max_partners is None:
        n_pairs = min(max(votes.n_annotations, _PAIRS[0]), _PAIRS[1])
        max_partners = min(max(n_pairs // m, _PARTNERS[0]), _PARTNERS[1])
    return max(1, min(max_partners, _MOST_BYTES // (8 * k * k * m)))


@dataclass(frozen=True)
class Covariances:
    """Covariances of pairs of workers: a (K, K) block per pair, of "one answers l" and "the other answers l'".

    Each worker's own label frequencies are the means. For Dawid–Skene workers a block is ``A_mᵀ (D - d dᵀ) A_m'``, of
    rank below K; a worker whose answers do not depend on the class has zero blocks.
    """

    n_workers: int
    #: Share of each label in each worker's answers, (M, K).
    shares: Array
    #: Pairs of workers, (P, 2), the weight of their common tasks, (P,), and their blocks, (P, K, K).
    pairs: Codes
    overlap: Array
    blocks: Array

    @classmethod
    def of(cls, votes: Annotations, max_partners: int | None) -> Covariances:
        """Compute the covariances of a log; each worker is paired with the partners that share most tasks."""
        m = votes.n_workers
        partners = _partners(votes, max_partners)
        pairs, overlap, joint = votes.table.moments_pairs(min_overlap=2.0, max_partners=partners)
        first = votes.table.moments_first()
        shares = first / np.maximum(first.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        # In place, to avoid a second array of blocks.
        joint /= overlap[:, None, None]
        joint -= shares[pairs[:, 0], :, None] * shares[pairs[:, 1], None, :]
        return cls(m, shares, pairs, overlap, joint)

    @property
    def partnered(self) -> npt.NDArray[np.bool_]:
        """Mask of the workers who share tasks with another, (M,)."""
        return np.bincount(self.pairs.ravel(), minlength=self.n_workers) > 0

    def start(self, rank: int, seed: int) -> Array:
        """Return random initial factors, (M, K, rank)."""
        k = self.shares.shape[1]
        return _INITIAL_SCALE * np.random.default_rng(seed).standard_normal((self.n_workers, k, rank))

    def factor(
        self,
        start: Array,
        ridge: float,
        weights: Array | None = None,
        sweeps: int = _SWEEPS,
        tol: float = _TOLERANCE,
    ) -> Array:
        """Fit factors ``V``, (M, K, rank), whose products ``V_m V_m'ᵀ`` are the blocks, weighted by common tasks."""
        fit = _core.low_rank_fit(
            self.pairs,
            self.blocks,
            self.overlap if weights is None else weights,
            start,
            ridge=ridge,
            max_iter=sweeps,
            tol=tol,
        )
        return fit["factor"]
