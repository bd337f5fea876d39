"""Moments of the answers: how often workers give which labels, alone, in pairs and in triples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_choice, check_number, check_pairing, plural
from manyhands.categorical.table import Annotations, as_annotations

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False, repr=False)
class Moments:
    """First, second and third moments of the workers' answers, as sums of weights.

    M workers, K classes, P pairs, T triples. Workers and classes are codes: places in ``votes.workers`` and
    ``votes.classes``. If worker ``m`` answers ``l`` of a task of class ``k`` with probability ``C[m, k, l]`` and
    classes have probabilities ``d``, the frequencies estimate

    - ``Σ_k d[k] C[m, k, l]`` (first),
    - ``Σ_k d[k] C[m, k, l] C[m', k, l']`` (pairs),
    - ``Σ_k d[k] C[m, k, l] C[m', k, l'] C[m'', k, l'']`` (triples).

    Attributes
    ----------
    n_workers, n_classes : int
        M and K.
    first : ndarray of shape (M, K)
        Weight of each label of each worker.
    pairs : ndarray of shape (P, 2), uint32
        The pairs that are kept, the lower worker first, sorted.
    pair_overlap : ndarray of shape (P,)
        Weight of what both labeled; the sum of the block.
    pair_joint : ndarray of shape (P, K, K)
        Weight of each pair of labels, ``pair_joint[p, l, l']``.
    triples, triple_overlap, triple_joint
        The same of triples, of shapes (T, 3), (T,) and (T, K, K, K); without entries where `order` is 2.
    order : int
        Whether triples were looked for (3) or not (2).

    Notes
    -----
    Memory: 16 + 8 K² bytes per pair and 20 + 8 K³ bytes a triple.
    """

    n_workers: int
    n_classes: int
    first: Array
    pairs: Codes
    pair_overlap: Array
    pair_joint: Array
    triples: Codes
    triple_overlap: Array
    triple_joint: Array
    order: int = 2

    @property
    def pair_frequencies(self) -> Array:
        """Share of each pair of labels in what the two labeled together, of shape (P, K, K); made afresh."""
        frequencies: Array = self.pair_joint / self.pair_overlap[:, None, None]
        return frequencies

    @property
    def triple_frequencies(self) -> Array:
        """Share of each triple of labels in what the three labeled together, of shape (T, K, K, K); made afresh."""
        frequencies: Array = self.triple_joint / self.triple_overlap[:, None, None, None]
        return frequencies

    @property
    def components(self) -> Codes:
        """Number of the connected component of each worker in the graph of the pairs, of shape (M,)."""
        return _core.components(self.n_workers, self.pairs)

    @classmethod
    def exact(
        cls,
        prior: npt.ArrayLike,
        confusion: npt.ArrayLike,
        *,
        pairs: npt.ArrayLike | None = None,
        triples: npt.ArrayLike | None = None,
        order: int = 2,
    ) -> Moments:
        """Return the moments that an endless log would have: for theory and tests.

        Parameters
        ----------
        prior : array-like of shape (K,)
            Class probabilities.
        confusion : array-like of shape (M, K, K)
            Confusion matrices ``confusion[worker, true, observed]``.
        pairs, triples : array-like of shape (P, 2) and (T, 3), optional
            The pairs and triples of workers; by default all. Their order does not matter.
        order : int, default 2
            2, or 3 for triples too; triples that are given are made in any case.

        Returns
        -------
        Moments
            Frequencies with an overlap of one each.

        Examples
        --------
        >>> import numpy as np, manyhands as mh
        >>> exact = mh.moments.Moments.exact([0.5, 0.5], np.eye(2)[None].repeat(3, axis=0))
        >>> exact
        Moments(3 workers, 2 classes, 3 pairs)
        >>> exact.pair_joint[0]
        array([[0.5, 0. ],
               [0. , 0.5]])
        """
        d, c = np.asarray(prior, np.float64), np.asarray(confusion, np.float64)
        if d.ndim != 1 or c.ndim != 3 or c.shape[1:] != (d.size, d.size):
            raise ValueError(f"a prior of shape {d.shape} and confusion of shape {c.shape} are not (K,) and (M, K, K)")
        check_choice("order", str(order), ("2", "3"))
        m, k = len(c), d.size
        twos = _groups(pairs, "pairs", 2, m)
        threes = _groups(triples if order == 3 or triples is not None else (), "triples", 3, m)
        weighted = d[None, :, None] * c
        a, b = twos.T.astype(np.intp)
        joint = np.einsum("pkl,pkj->plj", weighted[a], c[b])
        a, b, e = threes.T.astype(np.intp)
        cubes = np.einsum("tkl,tkj,tki->tlji", weighted[a], c[b], c[e])
        return cls(
            n_workers=m,
            n_classes=k,
            first=weighted.sum(axis=1),
            pairs=twos,
            pair_overlap=np.ones(len(twos)),
            pair_joint=joint,
            triples=threes,
            triple_overlap=np.ones(len(threes)),
            triple_joint=cubes,
            order=3 if triples is not None else order,
        )

    def __repr__(self) -> str:
        parts = [
            plural(self.n_workers, "worker"),
            plural(self.n_classes, "class", "classes"),
            plural(len(self.pairs), "pair"),
        ]
        if self.order == 3:
            parts.append(plural(len(self.triples), "triple"))
        return f"Moments({', '.join(parts)})"


def _groups(given: Any, what: str, size: int, n_workers: int) -> Codes:
    """Groups of different workers, each ascending, sorted and each once; all there are for None."""
    if given is None:
        index_rows = np.indices((n_workers,) * size, np.uint32).reshape(size, -1).T
        return np.ascontiguousarray(index_rows[(np.diff(index_rows.astype(np.int64), axis=1) > 0).all(axis=1)])
    groups = np.asarray(given)
    if groups.size == 0:
        return np.zeros((0, size), np.uint32)
    if groups.ndim != 2 or groups.shape[1] != size or groups.dtype.kind not in "ui":
        raise ValueError(f"{what} must be whole numbers of shape (n, {size}), not {groups.dtype} of {groups.shape}")
    if groups.min() < 0 or groups.max() >= n_workers:
        raise ValueError(f"{what} name a worker that is not below {n_workers}")
    groups = np.sort(groups, axis=1)
    if (np.diff(groups, axis=1) == 0).any():
        raise ValueError(f"{what} name a worker twice")
    return np.unique(groups.astype(np.uint32), axis=0)


def compute(
    votes: Any,
    *,
    order: int = 2,
    min_overlap: float = 1.0,
    max_partners: int = 64,
    max_triples: int = 20_000,
) -> Moments:
    """Compute first, second and third moments of the workers' answers.

    Two annotations of one task by different workers count the product of their weights (one, if there are none); a
    repeated annotation counts twice. Only pairs and triples that label tasks together are kept.

    Parameters
    ----------
    votes
        The annotations.
    order : int, default 2
        2 for first and second moments, 3 for third moments too.
    min_overlap : float, default 1.0
        Pairs and triples with less than this in common are left out.
    max_partners : int, default 64
        A pair is kept only if it is among this number of best supported of at least one of the two; of equals those
        with the lower partner. It bounds the number of pairs by ``n_workers * max_partners``.
    max_triples : int, default 20000
        The number of triples kept: the best supported; of equals the first in order of workers. All pairs of a triple
        are pairs that are kept.

    Returns
    -------
    Moments

    Notes
    -----
    Pairs take O(Σ n²) time over tasks with n annotations, triples O(Σ n³); both run in compiled code, one job for each
    worker, and give the same bits on any number of threads. Memory is that of the result, see :class:`Moments`, and the
    table in worker order (5 to 6 bytes per annotation) or, for pairs on tasks with few labels, up to 512 MB for pairs
    of workers. A result of more than 4 GiB is rejected.

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_dense([[0, 0, 1], [1, 1, -1], [0, 1, 1]])
    >>> found = mh.moments.compute(votes, order=3)
    >>> found
    Moments(3 workers, 2 classes, 3 pairs, 1 triple)
    >>> found.pairs.tolist(), found.pair_overlap.tolist()
    ([[0, 1], [0, 2], [1, 2]], [3.0, 2.0, 2.0])
    >>> found.pair_joint[0]
    array([[1., 1.],
           [0., 1.]])
    """
    check_choice("order", str(order), ("2", "3"))
    check_pairing(min_overlap, max_partners)
    check_number("max_triples", max_triples, least=1, whole=True)
    log: Annotations = as_annotations(votes)
    table, k = log.table, log.n_classes
    pairs, overlap, joint = table.moments_pairs(min_overlap=min_overlap, max_partners=max_partners)
    triples, triple_overlap, cubes = np.zeros((0, 3), np.uint32), np.zeros(0), np.zeros((0, k, k, k))
    if order == 3:
        triples, triple_overlap, cubes = table.moments_triples(pairs, min_overlap=min_overlap, max_triples=max_triples)
    return Moments(
        n_workers=log.n_workers,
        n_classes=k,
        first=table.moments_first(),
        pairs=pairs,
        pair_overlap=overlap,
        pair_joint=joint,
        triples=triples,
        triple_overlap=triple_overlap,
        triple_joint=cubes,
        order=order,
    )
