"""Tasks that are linked, such as frames of a film or pages that cite each other: neighbours are alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_number, check_stopping, counted, listed, warn_unless_converged
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, number
from manyhands._base.frames import named_columns
from manyhands._base.names import Column, Names
from manyhands._base.progress import Callback
from manyhands.categorical._linked import STRONGEST, Graph, likeliest_strength
from manyhands.categorical._passes import expected_counts, posterior_under
from manyhands.categorical.base import Aggregator, ClassFit
from manyhands.categorical.table import Annotations

#: Imaginary labels for each cell of a confusion matrix, and one more for the right one.
_PSEUDO = 0.1


class Linked(Aggregator):
    """Base of aggregators of linked classes: they are nothing without edges, and so not among those for any table."""

    _kind: ClassVar[str] = "linked classes"


@dataclass(frozen=True, kw_only=True)
class LinkedFit(ClassFit):
    """Classes of linked tasks, and how alike neighbors are."""

    strength: float = field(metadata=number())


class LinkedDawidSkene(Linked):
    """Dawid–Skene with tasks that are linked: the classes of neighbours are alike as often as the crowd finds them so.

    Classes have the prior ``Π prior[y_n] · Π exp(strength · [y_n = y_n'])`` over tasks and edges (a Potts field). Class
    probabilities come from belief propagation, exact where edges form no cycles (a chain is a hidden Markov model) and
    Bethe's approximation elsewhere; the strength is the one of greatest pseudo-likelihood.

    Parameters
    ----------
    edges
        Pairs of names of tasks, as two columns or a list of pairs: frames that follow each other, pages that link. An
        edge given twice, or in both directions, counts once. Tasks that nobody labelled cannot be linked.
    strength
        How many times, as a logarithm, neighbours are of one class rather than of two given others; None to learn it.
        0 is plain Dawid–Skene.
    max_iter, tol
        Stop after so many passes, or when no class probability changes by as much as `tol`.

    Notes
    -----
    There is no objective that passes improve where there are cycles, so `history_` is empty. Time per pass that of
    :class:`~manyhands.DawidSkene`, and O(edges · classes) for each of up to 50 sweeps of messages; memory 16 bytes an
    edge and class.

    ``predict`` of other tables takes tasks one by one: edges are those of fit.

    References
    ----------
    P. A. Traganitis and G. B. Giannakis, "Unsupervised ensemble classification with sequential and networked data",
    IEEE TKDE 34 (2022).

    Examples
    --------
    >>> import manyhands as mh
    >>> frames = mh.Annotations.from_dense([[0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1], [1, 1, 0], [0, 1, 1]])
    >>> model = mh.sequences.LinkedDawidSkene(edges=[(i, i + 1) for i in range(5)]).fit(frames)
    >>> model.labels_.tolist()
    [0, 0, 0, 1, 1, 1]
    """

    _data_parameters: ClassVar[tuple[str, ...]] = ("edges",)
    _fit_type: ClassVar[type[Fit]] = LinkedFit

    def __init__(
        self, edges: Any = None, *, strength: float | None = None, max_iter: int = 100, tol: float = 1e-4
    ) -> None:
        self.edges = edges
        self.strength = strength
        self.max_iter = max_iter
        self.tol = tol

    @property
    def strength_(self) -> float:
        """How readily neighbours are of one class, as a logarithm; see the parameter."""
        return self._fitted().fit_as(LinkedFit).strength

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        check_stopping(self.max_iter, self.tol)
        if self.strength is not None:
            check_number("strength", self.strength, least=-STRONGEST, most=STRONGEST)
        graph = Graph.of(*_edge_codes(self.edges, votes._tasks), votes.n_tasks)
        table, k = votes.table, votes.n_classes
        pseudo = _PSEUDO * (1 + np.eye(k, votes.n_labels))
        posterior = table.vote_shares()[0]
        strength = float(self.strength or 0.0)
        converged, n_iter = False, 0
        while n_iter < self.max_iter and not converged:
            counts = expected_counts(table, posterior) + pseudo
            confusion = counts / counts.sum(axis=2, keepdims=True)
            if self.strength is None and n_iter:
                strength = _likeliest(graph, posterior, strength)
            alone = posterior_under(table, np.full(k, 1 / k), confusion)
            evidence = np.log(np.maximum(alone, np.finfo(float).tiny)) + _field(graph, posterior, strength)
            found = graph.beliefs(evidence, strength)
            converged = bool(np.abs(found - posterior).max() < self.tol)
            posterior = found
            n_iter += 1
        warn_unless_converged(converged, self)
        prior = posterior.mean(axis=0)
        shares = prior / prior.sum()
        return LinkedFit.of(posterior, confusion, shares, np.zeros(0), n_iter, converged, strength=strength)


def _likeliest(graph: Graph, posterior: Array, strength: float) -> float:
    return likeliest_strength(graph.sums(posterior), posterior, strength, lambda s: _field(graph, posterior, s))


def _field(graph: Graph, posterior: Array, strength: float) -> Array:
    """Logarithms of what each class is worth by itself: its share, less what links to such neighbours already add."""
    shares = (posterior.sum(axis=0) + 1) / (len(posterior) + posterior.shape[1])
    mean = float(len(graph.neighbours)) / max(len(posterior), 1)
    # A task expects such shares of its neighbours to be of each class, and is drawn to them so much.
    return np.asarray(np.log(shares) - strength * mean * shares)


def _edge_codes(edges: Any, tasks: Names) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Codes of the ends of each edge, once each, the lower first."""
    if edges is None:
        raise ValueError("edges= is needed: pairs of names of tasks that are linked")
    if isinstance(edges, Mapping) or hasattr(edges, "columns") or hasattr(edges, "column_names"):
        columns = named_columns(edges)[1]
    elif isinstance(edges, tuple) and len(edges) == 2 and not isinstance(edges[0], tuple):
        columns = list(edges)
    else:
        columns = [list(part) for part in zip(*edges, strict=True)] if len(edges) else [[], []]
    if len(columns) != 2 or len(columns[0]) != len(columns[1]):
        raise ValueError("edges must be pairs of names of tasks, or two columns of equal length")
    if not len(columns[0]):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    codes = []
    for column in columns:
        names = Column(column, "edges").names()
        found = tasks.match(names)
        if (found < 0).any():
            lost = names.values[found < 0].tolist()
            raise ValueError(f"edges name {counted(len(lost), 'task')} without a label: {listed(lost)}; leave them out")
        codes.append(found)
    low, high = np.minimum(*codes), np.maximum(*codes)
    loops = np.flatnonzero(low == high)
    if len(loops):
        raise ValueError(f"edges link task {tasks.values[low[loops[:1]]].tolist()[0]!r} with itself")
    keys = np.unique(low * len(tasks) + high)
    return keys // len(tasks), keys % len(tasks)
