"""Covariances of workers' answers as products of few factors: what spammers and colluders are found by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_number
from manyhands._base.estimator import Array
from manyhands.categorical.table import Annotations

Codes = npt.NDArray[np.uint32]

#: Bytes that the blocks of all pairs may take; workers keep fewer partners where there are many classes.
_MOST_BYTES = 1 << 30
#: Partners of a worker, at the least and at the most; in between, so many that there are about so many pairs.
_PARTNERS, _PAIRS = (32, 256), 1 << 19
#: Multiplications of a sweep up to which a search is quick: those of the most pairs and four classes.
MOST_STEPS = _PAIRS * 4**2 * 3
#: Sweeps over the workers, and the change below which factors have settled.
_SWEEPS, _SETTLED = 200, 1e-5
#: Size of the random numbers that factors start from: so small that the first sweeps are steps of a power iteration.
_SPARK = 0.1


def check_partners(max_partners: int | None) -> None:
    """Refuse a number of partners that is none."""
    if max_partners is not None:
        check_number("max_partners", max_partners, least=1, whole=True)


def _partners(votes: Annotations, max_partners: int | None) -> int:
    """Partners that a worker keeps: as many as asked for, or as make about `_PAIRS` pairs, if memory allows."""
    k, m = votes.n_classes, votes.n_workers
    if max_partners is None:
        max_partners = min(max(_PAIRS // m, _PARTNERS[0]), _PARTNERS[1])
    return max(1, min(max_partners, _MOST_BYTES // (8 * k * k * m)))


@dataclass(frozen=True)
class Covariances:
    """Covariances of pairs of workers, each a (K, K) block: of "says l" by the one and "says l'" by the other.

    Centred by each worker's own frequencies. With Dawid–Skene workers a block is ``A_mᵀ (D - d dᵀ) A_m'``, of rank
    below K; a worker whose answers do not depend on the class has blocks of zeros.
    """

    n_workers: int
    #: Share of each label in each worker's answers, (M, K).
    shares: Array
    #: Pairs of workers, (P, 2), the weight of what they share, (P,), and their blocks, (P, K, K).
    pairs: Codes
    overlap: Array
    blocks: Array

    @classmethod
    def of(cls, votes: Annotations, max_partners: int | None) -> Covariances:
        """Count the pairs of a log, each worker's with the partners that it shares most tasks with."""
        m = votes.n_workers
        partners = _partners(votes, max_partners)
        pairs, overlap, joint = votes.table.moments_pairs(min_overlap=2.0, max_partners=partners)
        first = votes.table.moments_first()
        shares = first / np.maximum(first.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        # In place, and without a second array of blocks beside the products.
        joint /= overlap[:, None, None]
        joint -= shares[pairs[:, 0], :, None] * shares[pairs[:, 1], None, :]
        return cls(m, shares, pairs, overlap, joint)

    @staticmethod
    def steps(votes: Annotations) -> int:
        """Multiplications of a sweep over the pairs of a log."""
        partners = _partners(votes, None)
        pairs = votes.table.moments_pairs(min_overlap=2.0, max_partners=partners, joint=False)[0]
        return len(pairs) * votes.n_classes**2 * max(votes.n_classes - 1, 1)

    @property
    def partnered(self) -> npt.NDArray[np.bool_]:
        """Who shares tasks with anybody, (M,)."""
        return np.bincount(self.pairs.ravel(), minlength=self.n_workers) > 0

    def start(self, rank: int, seed: int) -> Array:
        """Factors to start from, (M, K, rank)."""
        k = self.shares.shape[1]
        return _SPARK * np.random.default_rng(seed).standard_normal((self.n_workers, k, rank))

    def factor(
        self,
        start: Array,
        ridge: float,
        weights: Array | None = None,
        sweeps: int = _SWEEPS,
        tol: float = _SETTLED,
    ) -> Array:
        """Factors ``V`` whose products ``V_m V_m'ᵀ`` are the blocks, (M, K, rank), weighted by what pairs share."""
        found = _core.low_rank_fit(
            self.pairs,
            self.blocks,
            self.overlap if weights is None else weights,
            start,
            ridge=ridge,
            max_iter=sweeps,
            tol=tol,
        )
        return found["factor"]
