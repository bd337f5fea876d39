"""Dawid–Skene for linked tasks, such as video frames or pages that cite each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_number, check_stopping, plural, preview, warn_unless_converged
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, number
from manyhands._base.frames import named_columns
from manyhands._base.names import Column, Names
from manyhands._base.progress import Callback
from manyhands.categorical._linked import STRONGEST, Graph, likeliest_strength
from manyhands.categorical._passes import expected_counts, posterior_under
from manyhands.categorical.base import Aggregator, ClassFit
from manyhands.categorical.table import Annotations

#: Dirichlet pseudo-count per cell of a confusion matrix, plus one for the correct class.
_PSEUDO = 0.1


class Linked(Aggregator):
    """Base class of aggregators for linked tasks. They need edges and are excluded from generic lists of methods."""

    _kind: ClassVar[str] = "linked classes"


@dataclass(frozen=True, kw_only=True)
class LinkedFit(ClassFit):
    """Estimated classes of linked tasks and the coupling of neighbors."""

    strength: float = field(metadata=number())


class LinkedDawidSkene(Linked):
    """Dawid–Skene with a Potts prior on linked tasks: neighbors tend to have the same class.

    Use it for video frames, time series or citation graphs, where neighboring tasks share a class more often than
    chance.

    Parameters
    ----------
    edges : list of pairs, two columns, or frame with two columns
        Pairs of task ids. Duplicate and reversed edges count once. Both tasks of an edge need at least one label.
    strength : float or None, default None
        Coupling: log-odds that two neighbors have the same class rather than two specific different ones. None
        estimates it; 0 is plain Dawid–Skene.
    max_iter : int, default 100
        Maximum number of iterations.
    tol : float, default 1e-4
        The fit has converged when no class probability changes by `tol` or more.

    Notes
    -----
    Time per iteration: that of :class:`~manyhands.DawidSkene`, plus O(edges · classes) for each of up to 50 sweeps of
    messages. Memory: 16 bytes per edge and class. ``predict`` treats tasks of other tables as unlinked.

    The prior of the classes is ``Π field[y_n] · Π exp(strength · [y_n = y_n'])`` over tasks and edges (a Potts model).
    The field is ``share[k] · exp(-strength · degree · share[k])``, with the smoothed mean posterior as ``share`` and
    the mean number of links per task as ``degree``: it takes back what links add to frequent classes on average, so
    that coupling does not change how frequent classes are. ``prior_`` is the mean posterior. Class probabilities come
    from belief propagation: exact if the edges form no cycles (a chain is a hidden Markov model), the Bethe
    approximation otherwise. The coupling maximizes the pseudo-likelihood. With cycles there is no
    objective that iterations improve, so `history_` is empty.

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
        """Coupling of neighbors as log-odds; see the parameter `strength`."""
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
            unlinked = posterior_under(table, np.full(k, 1 / k), confusion)
            evidence = np.log(np.maximum(unlinked, np.finfo(float).tiny)) + _field(graph, posterior, strength)
            beliefs = graph.beliefs(evidence, strength)
            converged = bool(np.abs(beliefs - posterior).max() < self.tol)
            posterior = beliefs
            n_iter += 1
        warn_unless_converged(converged, self)
        prior = posterior.mean(axis=0)
        shares = prior / prior.sum()
        return LinkedFit.of(posterior, confusion, shares, np.zeros(0), n_iter, converged, strength=strength)


def _likeliest(graph: Graph, posterior: Array, strength: float) -> float:
    return likeliest_strength(graph.sums(posterior), posterior, strength, lambda s: _field(graph, posterior, s))


def _field(graph: Graph, posterior: Array, strength: float) -> Array:
    """Log-potential of each class per task: its share, minus what the links already contribute on average."""
    shares = (posterior.sum(axis=0) + 1) / (len(posterior) + posterior.shape[1])
    mean = float(len(graph.neighbours)) / max(len(posterior), 1)
    # Each neighbor has class k with probability shares[k], which attracts a task by that much on average.
    return np.asarray(np.log(shares) - strength * mean * shares)


def _edge_codes(edges: Any, tasks: Names) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the codes of both ends of each distinct edge, lower code first."""
    if edges is None:
        raise ValueError("edges= is required: pass pairs of task ids")
    if isinstance(edges, Mapping) or hasattr(edges, "columns") or hasattr(edges, "column_names"):
        columns = named_columns(edges)[1]
    elif isinstance(edges, tuple) and len(edges) == 2 and not isinstance(edges[0], tuple):
        columns = list(edges)
    else:
        columns = [list(part) for part in zip(*edges, strict=True)] if len(edges) else [[], []]
    if len(columns) != 2 or len(columns[0]) != len(columns[1]):
        raise ValueError("edges must be pairs of task ids, or two columns of equal length")
    if not len(columns[0]):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    codes = []
    for column in columns:
        names = Column(column, "edges").names()
        task_codes = tasks.match(names)
        if (task_codes < 0).any():
            missing = names.values[task_codes < 0].tolist()
            raise ValueError(
                f"edges contains {plural(len(missing), 'task')} without a label: {preview(missing)}; remove these edges"
            )
        codes.append(task_codes)
    low, high = np.minimum(*codes), np.maximum(*codes)
    loops = np.flatnonzero(low == high)
    if len(loops):
        raise ValueError(f"edges links task {tasks.values[low[loops[:1]]].tolist()[0]!r} to itself; remove it")
    keys = np.unique(low * len(tasks) + high)
    return keys // len(tasks), keys % len(tasks)
