"""Shares of the work that are kept on average: the I-projection of probabilities onto bounds for their mean."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_choice
from manyhands._base.data_checks import checked_weights
from manyhands.errors import ConvergenceWarning

Floats: TypeAlias = npt.NDArray[np.float64]
Bound: TypeAlias = npt.ArrayLike | None

METHODS = ("newton", "gradient")


@dataclass(frozen=True, eq=False)
class Projection:
    """Probabilities whose mean keeps bounds, and the tilt that made them so.

    Attributes
    ----------
    probabilities : array of shape (n, n_options), or None from :func:`project_chunks`
        The projected rows.
    tilt : array of shape (n_options,)
        Logarithms of the factors: a projected row is proportional to the given one times ``exp(tilt)``. Zero where no
        bound binds, positive where the lower bound does, negative where the upper one does; ``-inf`` where an option
        may have no share at all. Where all bounds bind, adding a number to all tilts changes nothing.
    shares : array of shape (n_options,)
        Weighted means of the projected rows.
    kl : float
        Weighted mean of the Kullback–Leibler divergence of the projected rows from the given ones, in nats.
    residual : float
        How far the worst share is from what the conditions of an optimum (Karush–Kuhn–Tucker) ask of it.
    n_iter : int
        Passes over all rows.
    method : str
        ``"newton"``, or ``"gradient"`` where that had to finish or was asked for.
    """

    probabilities: Floats | None
    tilt: Floats
    shares: Floats
    kl: float
    residual: float
    n_iter: int
    method: str

    def apply(self, probabilities: npt.ArrayLike) -> Floats:
        """Tilt other rows, say of a stream or a test set, by the same factors.

        Their mean keeps the bounds as far as they resemble the rows that were projected.

        Parameters
        ----------
        probabilities : array of shape (n, n_options)
            Rows that sum to one.

        Returns
        -------
        array of shape (n, n_options)
        """
        return _core.projection_apply(as_rows("probabilities", probabilities, len(self.tilt)), self.tilt)


def project(
    probabilities: npt.ArrayLike,
    lower: Bound = None,
    upper: Bound = None,
    *,
    weights: npt.ArrayLike | None = None,
    method: str = "newton",
    progress: Callable[[int, float], object] | None = None,
) -> Projection:
    """Change probabilities as little as possible so that the options' shares of the work stay within bounds.

    Of all rows whose weighted mean lies between `lower` and `upper`, those with the least mean Kullback–Leibler
    divergence from the given ones (their I-projection; Nguyen et al. 2025, Eqs. 8–10) [1]_. They are the given rows
    times one factor for each option, scaled to sum to one, so that the problem has as many unknowns as options, however
    many rows there are. These are found by Newton's method; entries that are zero stay zero.

    Parameters
    ----------
    probabilities : array of shape (n, n_options)
        Rows that sum to one: the probability that each option is the one to answer.
    lower, upper : array of shape (n_options,), a number for all options, or None
        Bounds of the shares; none is 0 or 1. Equal bounds ask for an exact share.
    weights : array of shape (n,), optional
        How much each row counts; one where not given.
    method : {"newton", "gradient"}, default "newton"
        Gradients, with momentum, take many more passes, but no second derivatives; Newton's method falls back on them.
    progress : callable, optional
        Called now and then with the number of passes and the sum of logarithms they found.

    Returns
    -------
    Projection

    Raises
    ------
    ValueError
        Where no rows keep the bounds; the message specifies which options are in the way.

    Notes
    -----
    Time O(n · n_options²) a pass with Newton's method, of which large problems take three or four, and O(n · n_options)
    with gradients; memory that of the result. Bounds hold to 1e-9. The answer is the same to the bit on any number of
    threads.

    References
    ----------
    .. [1] Nguyen, Do and Carneiro (2025). Probabilistic learning to defer: handling missing expert's annotations and
       controlling workload distribution. ICLR.

    Examples
    --------
    Two experts and a classifier, which is to answer half of the cases:

    >>> import manyhands as mh
    >>> gate = [[0.7, 0.2, 0.1], [0.6, 0.1, 0.3], [0.3, 0.3, 0.4], [0.8, 0.1, 0.1]]
    >>> found = mh.defer.project(gate, lower=[0, 0, 0.5], upper=[1, 1, 0.5])
    >>> found.shares.round(3).tolist()
    [0.397, 0.103, 0.5]
    >>> found.tilt.round(2).tolist()
    [0.0, 0.0, 1.42]
    """
    rows = as_rows("probabilities", probabilities)
    result = _core.projection_fit(
        rows,
        *as_bounds(lower, upper, rows.shape[1]),
        weights=None if weights is None else checked_weights(weights, "weights"),
        method=_checked_method(method),
        progress=progress,
    )
    return _finish(result, result["probabilities"])


def project_chunks(
    chunks: Callable[[], Iterable[npt.ArrayLike]],
    lower: Bound = None,
    upper: Bound = None,
    *,
    weights: Callable[[], Iterable[npt.ArrayLike]] | None = None,
    method: str = "newton",
) -> Projection:
    """Project rows that come in chunks, of which only one is held at a time; see :func:`project`.

    Parameters
    ----------
    chunks : callable
        Gives a fresh iterator over the same chunks, arrays of shape (n of the chunk, n_options), whenever it is called:
        once for each pass, of which there are about ten.
    lower, upper : array of shape (n_options,), a number for all options, or None
        Bounds of the shares in all chunks together.
    weights : callable, optional
        Gives an iterator over the weights of the rows of each chunk, arrays of shape (n of the chunk,).
    method : {"newton", "gradient"}, default "newton"
        See :func:`project`.

    Returns
    -------
    Projection
        Without `probabilities`: its ``apply`` gives those of a chunk.

    Examples
    --------
    >>> import manyhands as mh
    >>> import numpy as np
    >>> gate = np.random.default_rng(0).dirichlet(np.ones(3), size=1000)
    >>> found = mh.defer.project_chunks(lambda: np.split(gate, 10), upper=[0.2, 0.2, 1])
    >>> found.shares.round(6).tolist()
    [0.2, 0.2, 0.6]
    >>> np.allclose(found.apply(gate), mh.defer.project(gate, upper=[0.2, 0.2, 1]).probabilities)
    True
    """
    if not callable(chunks) or not (weights is None or callable(weights)):
        raise TypeError(
            "chunks and weights must be functions that give a fresh iterator each time they are called, for example "
            "lambda: np.split(array, 10); an iterator could be gone through only once"
        )
    stream = _Stream(chunks, weights)
    bounds = as_bounds(lower, upper, stream.n_options)
    result = _core.projection_solve(*bounds, stream.sums, stream.reach, method=_checked_method(method))
    return _finish(result, None)


class _Stream:
    """Sums over chunks, added in their order."""

    def __init__(
        self, chunks: Callable[[], Iterable[npt.ArrayLike]], weights: Callable[[], Iterable[npt.ArrayLike]] | None
    ) -> None:
        self._chunks, self._weights = chunks, weights
        for chunk in chunks():
            self.n_options = as_rows("a chunk", chunk).shape[1]
            return
        raise ValueError("there are no chunks: the function gave an empty iterator")

    def _pairs(self) -> Iterable[tuple[Floats, Floats | None, int]]:
        """Give chunks, their weights, and the number of rows before them."""
        first = 0
        weights = None if self._weights is None else iter(self._weights())
        for chunk in self._chunks():
            rows = as_rows("a chunk", chunk, self.n_options)
            weights_next = None if weights is None else next(weights, None)
            if weights is not None and weights_next is None:
                raise ValueError("there are fewer chunks of weights than of probabilities")
            yield rows, None if weights_next is None else checked_weights(weights_next, "weights"), first
            first += len(rows)

    def sums(self, tilt: Floats, second: bool) -> tuple[float, float, Floats, Floats]:
        weight, log = 0.0, 0.0
        shares, moments = np.zeros(len(tilt)), np.zeros((len(tilt), len(tilt)) if second else (0, 0))
        for rows, weights, first in self._pairs():
            part = _core.projection_sums(rows, tilt, weights=weights, second=second, first=first)
            weight, log = weight + part[0], log + part[1]
            shares += part[2]
            moments += part[3]
        return weight, log, shares, moments

    def reach(self, order: npt.NDArray[np.uint32]) -> Floats:
        total = np.zeros(len(order))
        for rows, weights, _ in self._pairs():
            total += _core.projection_reach(rows, order, weights=weights)
        return total


def as_rows(what: str, values: npt.ArrayLike, n_options: int | None = None) -> Floats:
    """Return numbers as rows of doubles, with a column for each option."""
    rows = np.asarray(values)
    if rows.dtype.kind not in "biuf":
        raise TypeError(f"{what} must hold numbers, not {rows.dtype}")
    if rows.ndim != 2 or not rows.shape[1] or (n_options is not None and rows.shape[1] != n_options):
        n_columns = "n_options" if n_options is None else n_options
        raise ValueError(f"{what} must be of shape (n, {n_columns}), not {rows.shape}")
    return np.ascontiguousarray(rows, np.float64)


def as_bounds(lower: Bound, upper: Bound, n_options: int) -> tuple[Floats, Floats]:
    """Return bounds of shares, one for each option; what they ask for is checked by the kernels."""
    return _as_bound("lower", lower, 0.0, n_options), _as_bound("upper", upper, 1.0, n_options)


def _as_bound(what: str, bound: Bound, otherwise: float, n_options: int) -> Floats:
    values = np.asarray(otherwise if bound is None else bound)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"{what} must hold numbers, not {values.dtype}")
    if values.shape not in ((), (n_options,)):
        raise ValueError(
            f"{what} must hold one bound for each of the {n_options} options (experts first, the classifier last), "
            f"not be of shape {values.shape}"
        )
    return np.ascontiguousarray(np.broadcast_to(values, n_options), np.float64)


def _checked_method(method: str) -> str:
    check_choice("method", method, METHODS)
    return method


def _finish(found: _core._Tilt, probabilities: Floats | None) -> Projection:
    if not found["converged"]:
        warnings.warn(
            f"the projection stopped after {found['n_iter']} passes with shares off by up to {found['residual']:.1e}",
            ConvergenceWarning,
            stacklevel=3,
        )
    return Projection(
        probabilities,
        tilt=found["tilt"],
        shares=found["shares"],
        kl=found["kl"],
        residual=found["residual"],
        n_iter=found["n_iter"],
        method=found["method"],
    )
