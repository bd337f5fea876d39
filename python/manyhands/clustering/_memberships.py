"""Where items belong: a few clusters for each, with their probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt

from manyhands._base.estimator import Array
from manyhands._base.fitted import codes, numbers, offsets, setting

Codes = npt.NDArray[np.int64]

#: Probabilities below this are not kept.
_LEAST = 1e-12


@dataclass(frozen=True)
class Memberships:
    """Clusters of each item, in ascending order, with their probabilities.

    Those of item i are at ``offsets[i]`` to ``offsets[i + 1]``. What is missing to one is the probability of a cluster
    that the item has to itself.
    """

    offsets: Codes = field(metadata=offsets("I"))
    clusters: Codes = field(metadata=codes("e"))
    shares: Array = field(metadata=numbers("e", least=0, most=1))
    n_clusters: int = field(metadata=setting(int))

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise where they are not probabilities of clusters."""
        whole = self.offsets[-1] == len(self.clusters) and (np.diff(self.offsets) > 0).all()
        if not whole or (self.clusters >= self.n_clusters).any():
            raise ValueError("its memberships are not probabilities of clusters")
        ordered = np.diff(self.items * self.n_clusters + self.clusters) > 0
        if not ordered.all() or (np.add.reduceat(self.shares, self.offsets[:-1]) > 1 + 1e-9).any():
            raise ValueError("its memberships are not probabilities of clusters")

    @classmethod
    def of_dense(cls, memberships: Array) -> Self:
        """Make them of probabilities of all clusters, (items, clusters)."""
        items, clusters = np.nonzero(memberships >= _LEAST)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(items, minlength=len(memberships)))])
        return cls(offsets, clusters, memberships[items, clusters], memberships.shape[1])

    @property
    def items(self) -> Codes:
        """The item of each entry."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def renumbered(self, numbers: Codes) -> Self:
        """The same, where cluster c is called ``numbers[c]``."""
        items, clusters = self.items, numbers[self.clusters]
        order = np.lexsort((clusters, items))
        return type(self)(self.offsets, clusters[order], self.shares[order], self.n_clusters)

    def best(self) -> Codes:
        """The most probable cluster of each item, the first of equals."""
        order = np.lexsort((self.clusters, -self.shares, self.items))
        best: Codes = self.clusters[order[self.offsets[:-1]]]
        return best

    def of(self, items: Codes, clusters: Codes) -> Array:
        """The probability that each item is in the cluster beside it."""
        keys = self.items * self.n_clusters + self.clusters
        wanted = items * self.n_clusters + clusters
        at = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
        return np.where(keys[at] == wanted, self.shares[at], 0.0)

    def together(self, left: Codes, right: Codes) -> Array:
        """The probability that both items of each pair are in one cluster; O(pairs · clusters an item · log items)."""
        lengths = np.diff(self.offsets)[left]
        pairs = np.repeat(np.arange(len(left)), lengths)
        starts = np.cumsum(lengths) - lengths
        entries = np.arange(len(pairs)) - starts[pairs] + self.offsets[left][pairs]
        both = self.shares[entries] * self.of(right[pairs], self.clusters[entries])
        found = np.bincount(pairs, both, len(left))
        return np.where(left == right, 1.0, np.clip(found, 0.0, 1.0))
