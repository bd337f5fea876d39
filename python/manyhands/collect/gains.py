"""Expected gain of one more label: uncertainty of posteriors now and after it.

A worker is a confusion matrix A of (classes, labels), a task a posterior p. The label l comes with probability
``r[l] = Σ_k p[k] A[k, l]`` and leaves a posterior proportional to ``p[k] A[k, l]``. Where errors on a task are
correlated, a label is new information with probability `share` only, and else repeats known information: A is then
``share · A + (1 - share) · r``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from manyhands._base.estimator import Array
from manyhands._base.special import digamma

Ints: TypeAlias = npt.NDArray[np.int64]

#: Ways to rank tasks.
STRATEGIES = ("entropy", "margin", "error", "information")
#: Weight of a bit of information relative to an expected error: it only breaks ties, where no single label
#: can change the answer.
TIE = 1e-9
#: Rows looked at together, so that what is computed of them stays in the cache.
_ROWS = 1 << 14


def entropy(posterior: Array) -> Array:
    """Entropy of each row in bits, (n,)."""
    return _by_parts(lambda p, _: -_bits(p).sum(axis=0), posterior)


def margin(posterior: Array) -> Array:
    """How much more probable the first class is than the second, (n,); 1 where there is but one class."""
    if posterior.shape[1] < 2:
        return np.ones(len(posterior))
    return _by_parts(lambda p, _: np.diff(np.partition(p, -2, axis=0)[-2:], axis=0)[0], posterior)


def uncertainty(strategy: str, posterior: Array, worker: Array, share: Array | None) -> Array:
    """How much a task is worth asking about, (n,), by a strategy; `worker` is who will answer."""
    if strategy == "entropy":
        return entropy(posterior)
    if strategy == "margin":
        return 1.0 - margin(posterior)
    return gain(strategy, posterior, worker, share)


def gain(strategy: str, posterior: Array, worker: Array, share: Array | None, doubt: Array | None = None) -> Array:
    """Gain of a worker's label on each task: fall of the error probability, or information, (n,).

    `doubt` is the information of a label of each class about the worker, (n_classes,).
    """
    bits = information_gain(posterior, worker, share, doubt)
    return error_gain(posterior, worker, share) + TIE * bits if strategy == "error" else bits


def error_gain(posterior: Array, worker: Array, share: Array | None = None) -> Array:
    """By how much the probability of a wrong answer falls, expected over what the worker may say, (n,); at least 0.

    Parameters
    ----------
    posterior : ndarray of shape (n, n_classes)
        Of tasks.
    worker : ndarray of shape (n_classes, n_labels)
        Confusion matrix of who is asked.
    share : ndarray of shape (n,), optional
        How much of a label is new on each task.

    Notes
    -----
    Exact: ``Σ_l max_k p[k] A[k, l] - max_k p[k]``. Time O(n · n_classes · n_labels), memory O(n).
    """

    def fall(p: Array, s: Array | None) -> Array:
        after = np.zeros(p.shape[1])
        for column in worker.T:
            joint = p * column[:, None]
            after += (joint if s is None else s * joint + (1 - s) * p * joint.sum(axis=0)).max(axis=0)
        return np.asarray(np.maximum(after - p.max(axis=0), 0.0))

    return _by_parts(fall, posterior, share)


def information_gain(posterior: Array, worker: Array, share: Array | None = None, doubt: Array | None = None) -> Array:
    """Expected bits of a label about the class, and with `doubt` about the worker too, (n,); at least 0.

    Time O(n · n_labels), or O(n · n_classes · n_labels) with `share`.
    """
    certain = -_bits(worker).sum(axis=1)

    def told(p: Array, s: Array | None) -> Array:
        marginal = worker.T @ p
        bits = -_bits(marginal).sum(axis=0)
        if s is None:
            bits -= certain @ p
        else:
            for row, prior in zip(worker, p, strict=True):
                bits += prior * _bits(s * row[:, None] + (1 - s) * marginal).sum(axis=0)
        if doubt is not None:
            bits += (doubt @ p) * (1.0 if s is None else s)
        return np.asarray(np.maximum(bits, 0.0))

    return _by_parts(told, posterior, share)


def information(confusion: Array, posterior: Array) -> Array:
    """Expected bits of a label of each of several workers about the class of one task, (n_workers,)."""
    marginal = np.einsum("k,mkl->ml", posterior, confusion)
    bits: Array = _bits(confusion).sum(axis=-1) @ posterior - _bits(marginal).sum(axis=-1)
    return bits


def doubts(confusion: Array, strength: Array) -> Array:
    """Expected bits of one more label of each class about each worker's matrix, (n_workers, n_classes).

    Rows of a matrix are known like means of a Dirichlet distribution that stands for `strength` answers,
    (n_workers, n_classes): the entropy of its mean less its mean entropy.
    """
    counts = confusion * strength[..., None]
    mean = digamma(strength + 1) - (confusion * digamma(counts + 1)).sum(axis=-1)
    return np.asarray(np.maximum(-_bits(confusion).sum(axis=-1) - mean / np.log(2), 0.0))


def top(scores: Array, n: int) -> Ints:
    """Places of the n greatest scores, the greatest first, and of equal ones the first places."""
    if n >= len(scores):
        return np.argsort(-scores, kind="stable")
    if not n:
        return np.zeros(0, np.int64)
    least = np.partition(scores, len(scores) - n)[len(scores) - n]
    above = np.flatnonzero(scores > least)
    places = np.sort(np.concatenate([above, np.flatnonzero(scores == least)[: n - len(above)]]))
    return places[np.argsort(-scores[places], kind="stable")]


def _bits(p: Array) -> Array:
    """``p log2 p``, 0 where p is."""
    logs: Array = p * np.log2(np.where(p > 0, p, 1.0))
    return logs


def _by_parts(of: Callable[[Array, Array | None], Array], posterior: Array, share: Array | None = None) -> Array:
    """A function of posteriors, (n_classes, some tasks), and of their share, for all tasks."""
    values = np.empty(len(posterior))
    for start in range(0, len(posterior), _ROWS):
        part = slice(start, start + _ROWS)
        p = np.ascontiguousarray(posterior[part].T)
        values[part] = of(p, None if share is None else share[part])
    return values
