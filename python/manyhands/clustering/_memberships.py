"""Sparse cluster memberships: a few clusters per item, with probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt

from manyhands._base.estimator import Array
from manyhands._base.fitted import codes, numbers, offsets, setting

Codes = npt.NDArray[np.int64]

#: Probabilities below this are dropped.
_LEAST = 1e-12


@dataclass(frozen=True)
class Memberships:
    """Clusters of each item in ascending order, with probabilities.

    Entries of item i are at ``offsets[i]`` to ``offsets[i + 1]``. The probabilities of an item may sum to less than
    one; the rest is the probability that the item forms a cluster of its own.
    """

    offsets: Codes = field(metadata=offsets("I"))
    clusters: Codes = field(metadata=codes("e"))
    shares: Array = field(metadata=numbers("e", least=0, most=1))
    n_clusters: int = field(metadata=setting(int))

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise if the entries are not probabilities of valid clusters."""
        whole = self.offsets[-1] == len(self.clusters) and (np.diff(self.offsets) > 0).all()
        if not whole or (self.clusters >= self.n_clusters).any():
            raise ValueError("memberships contain invalid offsets or clusters")
        ordered = np.diff(self.items * self.n_clusters + self.clusters) > 0
        if not ordered.all() or (np.add.reduceat(self.shares, self.offsets[:-1]) > 1 + 1e-9).any():
            raise ValueError("memberships are not sorted, or their probabilities sum to more than 1")

    @classmethod
    def of_dense(cls, memberships: Array) -> Self:
        """Build from a dense matrix of probabilities, (items, clusters)."""
        items, clusters = np.nonzero(memberships >= _LEAST)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(items, minlength=len(memberships)))])
        return cls(offsets, clusters, memberships[items, clusters], memberships.shape[1])

    @property
    def items(self) -> Codes:
        """The item of each entry."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def renumber(self, numbers: Codes) -> Self:
        """Rename cluster c to ``numbers[c]``."""
        items, clusters = self.items, numbers[self.clusters]
        order = np.lexsort((clusters, items))
        return type(self)(self.offsets, clusters[order], self.shares[order], self.n_clusters)

    def best(self) -> Codes:
        """Most probable cluster of each item; ties go to the first."""
        order = np.lexsort((self.clusters, -self.shares, self.items))
        best: Codes = self.clusters[order[self.offsets[:-1]]]
        return best

    def of(self, items: Codes, clusters: Codes) -> Array:
        """Probability that ``items[i]`` is in ``clusters[i]``."""
        keys = self.items * self.n_clusters + self.clusters
        queries = items * self.n_clusters + clusters
        at = np.searchsorted(keys, queries).clip(max=len(keys) - 1)
        return np.where(keys[at] == queries, self.shares[at], 0.0)

    def together(self, left: Codes, right: Codes) -> Array:
        """Probability that the items of each pair share a cluster; O(pairs · clusters per item · log items)."""
        lengths = np.diff(self.offsets)[left]
        pairs = np.repeat(np.arange(len(left)), lengths)
        starts = np.cumsum(lengths) - lengths
        entries = np.arange(len(pairs)) - starts[pairs] + self.offsets[left][pairs]
        joint = self.shares[entries] * self.of(right[pairs], self.clusters[entries])
        probabilities = np.bincount(pairs, joint, len(left))
        return np.where(left == right, 1.0, np.clip(probabilities, 0.0, 1.0))
