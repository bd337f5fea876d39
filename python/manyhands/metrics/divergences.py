"""f-divergences, and the information that two variables have about each other by them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_choice
from manyhands.metrics._checks import Floats

_LOG_2 = float(np.log(2.0))


def _times_log(t: Floats) -> Floats:
    return t * np.log(np.where(t > 0, t, 1.0))


#: f of each divergence, for finite ratios; the limit of f(t) / t for large t, which is what mass has where the other
#: distribution has none.
_FUNCTIONS: dict[str, tuple[Callable[[Floats], Floats], float]] = {
    "kl": (_times_log, np.inf),
    "reverse-kl": (lambda t: -np.log(t), 0.0),
    "pearson": (lambda t: (t - 1) ** 2, np.inf),
    "js": (lambda t: _times_log(t) - (t + 1) * np.log((t + 1) / 2), _LOG_2),
    "hellinger": (lambda t: (np.sqrt(t) - 1) ** 2, 1.0),
    "total-variation": (lambda t: np.abs(t - 1) / 2, 0.5),
}


def f_divergence(p: npt.ArrayLike, q: npt.ArrayLike, divergence: str = "kl") -> float:
    """f-divergence of two distributions, the sum of ``p f(q / p)``, in nats.

    Parameters
    ----------
    p, q : array-like
        Two distributions over the same values, of any shape.
    divergence : {"kl", "reverse-kl", "pearson", "js", "hellinger", "total-variation"}, default "kl"
        The function f: ``t log t``, ``-log t``, ``(t - 1)²``, ``t log t - (t + 1) log((t + 1) / 2)``, ``(√t - 1)²``, or
        ``|t - 1| / 2``.

    Returns
    -------
    float
        At least 0, and 0 if the distributions are equal; infinite where one has mass that the divergence does not
        allow, such as ``"kl"`` where ``p`` is zero and ``q`` is not.

    Notes
    -----
    O(values) time and memory. By this order of arguments ``f_divergence(p, q, "kl")`` is the Kullback–Leibler
    divergence of q from p, the mean of log(q / p) under q.

    References
    ----------
    P. Cao, Y. Xu, Y. Kong and Y. Wang, "Max-MIG", ICLR 2019, App. C and Table 1. S. Nowozin, B. Cseke and R. Tomioka,
    "f-GAN", NeurIPS 2016.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.f_divergence([0.5, 0.5], [0.75, 0.25], "pearson")
    0.25
    """
    check_choice("divergence", divergence, tuple(_FUNCTIONS))
    left, right = _distribution("p", p), _distribution("q", q)
    if left.shape != right.shape:
        raise ValueError(f"p has shape {left.shape} but q {right.shape}; give both the same values")
    return _divergence(left, right, divergence)


def f_information(joint: npt.ArrayLike, divergence: str = "kl") -> float:
    """f-mutual information of two variables, in nats: how far their joint distribution is from independence.

    With ``"kl"`` it is Shannon's mutual information. It is the largest value of the mutual information gain that
    :class:`~manyhands.learn.MaxMIG` maximizes.

    Parameters
    ----------
    joint : array-like of shape (n_x, n_y)
        Joint probabilities of the two variables, which sum to one.
    divergence : str, default "kl"
        As in :func:`f_divergence`.

    Returns
    -------
    float
        At least 0, and 0 if the variables are independent.

    Notes
    -----
    With ``U`` the joint distribution and ``V`` the product of its marginals, this is the sum of ``V f(U / V)``, which
    is ``f_divergence(V, U)``: the order for which Theorem 3.4 of Max-MIG holds. Its Definition C.1 exchanges the two.
    For that reading of ``"kl"`` pass ``"reverse-kl"``; the symmetric ones (``"js"``, ``"hellinger"`` and
    ``"total-variation"``) are the same in both. O(n_x n_y) time and memory.

    References
    ----------
    Y. Kong and G. Schoenebeck, "Water from two rocks: maximizing the mutual information", EC 2018; Cao et al. 2019,
    App. C.

    Examples
    --------
    >>> from manyhands import metrics
    >>> round(metrics.f_information([[0.4, 0.1], [0.1, 0.4]]), 4)
    0.1927
    """
    check_choice("divergence", divergence, tuple(_FUNCTIONS))
    table = _distribution("joint", joint)
    if table.ndim != 2:
        raise ValueError(f"joint has shape {table.shape}; give one row per value of one variable, one column per other")
    product = table.sum(axis=1, keepdims=True) * table.sum(axis=0)
    return _divergence(product / product.sum(), table, divergence)


def _divergence(p: Floats, q: Floats, divergence: str) -> float:
    function, at_infinity = _FUNCTIONS[divergence]
    shared = p > 0
    ratio = np.divide(q, p, out=np.ones_like(q), where=shared)
    outside = float(q[~shared].sum())
    with np.errstate(divide="ignore"):
        total = float((p * np.where(shared, function(ratio), 0.0))[shared].sum())
    # Rounding may leave a little less than zero.
    return max(total + (at_infinity * outside if outside > 0 else 0.0), 0.0)


def _distribution(name: str, value: npt.ArrayLike) -> Floats:
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must hold probabilities, not {value!r}") from None
    if not array.size or not np.isfinite(array).all() or (array < 0).any():
        raise ValueError(f"{name} must hold finite probabilities of at least 0")
    if abs(float(array.sum()) - 1) > 1e-6:
        raise ValueError(f"{name} sums to {array.sum():g}; divide it by its sum to make it a distribution")
    return array
