"""Tasks that are linked, such as frames of a film or pages that cite each other: neighbours are alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands.aggregators.base import Aggregator, ClassFit
from manyhands.aggregators.passes import expected_counts, posterior_under
from manyhands.checks import check_number, check_stopping, counted, listed, warn_unless_converged
from manyhands.estimator import Array
from manyhands.progress import Callback
from manyhands.table.annotations import Annotations
from manyhands.table.frames import named_columns
from manyhands.table.names import Column, Names

Codes = npt.NDArray[np.uint32]
#: Sweeps of messages in each pass, and the change below which they end.
_SWEEPS, _SETTLED = 50, 1e-8
#: The strongest link that is learnt: neighbours are alike but for one pair in three thousand.
_STRONGEST = 8.0
#: Imaginary labels for each cell of a confusion matrix, and one more for the right one.
_PSEUDO = 0.1


@dataclass(frozen=True)
class _Graph:
    """Neighbours of each task, each edge from both ends; see `rust/linked.rs`."""

    offsets: Codes
    neighbours: Codes
    opposite: Codes

    @classmethod
    def of(cls, first: npt.NDArray[np.int64], second: npt.NDArray[np.int64], n: int) -> Self:
        """Lay out edges, each of which is given once."""
        ends = np.concatenate([first, second])
        others = np.concatenate([second, first])
        order = np.lexsort((others, ends))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        half = len(first)
        opposite = np.concatenate([place[half:], place[:half]])
        return cls(
            offsets=np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n))]).astype(np.uint32),
            neighbours=others[order].astype(np.uint32),
            opposite=opposite[order].astype(np.uint32),
        )

    def sums(self, rows: Array) -> Array:
        """The sum of the rows of each task's neighbours."""
        out = np.zeros_like(rows)
        offsets = self.offsets.astype(np.int64)
        np.add.at(out, np.repeat(np.arange(len(rows)), offsets[1:] - offsets[:-1]), rows[self.neighbours])
        return out


class Linked(Aggregator):
    """Base of aggregators of linked classes: they are nothing without edges, and so not among those for any table."""

    _kind: ClassVar[str] = "linked classes"


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

    _learnt: ClassVar[tuple[str, ...]] = ("_strength",)
    _learnt_shapes: ClassVar[Mapping[str, str]] = {"_strength": "1"}

    _strength: Array

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
        self._fitted()
        return float(self._strength[0])

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        check_stopping(self.max_iter, self.tol)
        if self.strength is not None:
            check_number("strength", self.strength, least=-_STRONGEST, most=_STRONGEST)
        graph = _Graph.of(*_edge_codes(self.edges, votes._tasks), votes.n_tasks)
        table, k = votes.table, votes.n_classes
        pseudo = _PSEUDO * (1 + np.eye(k, votes.n_labels))
        posterior = _core.vote_shares(table)[0]
        strength = float(self.strength or 0.0)
        converged, n_iter = False, 0
        while n_iter < self.max_iter and not converged:
            counts = expected_counts(table, posterior) + pseudo
            confusion = counts / counts.sum(axis=2, keepdims=True)
            if self.strength is None and n_iter:
                strength = _likeliest_strength(graph, posterior, strength)
            alone = posterior_under(table, np.full(k, 1 / k), confusion)
            evidence = np.log(np.maximum(alone, np.finfo(float).tiny)) + _field(graph, posterior, strength)
            found = _core.linked_beliefs(
                graph.offsets,
                graph.neighbours,
                graph.opposite,
                evidence,
                strength=strength,
                max_sweeps=_SWEEPS,
                tol=_SETTLED,
            )
            converged = bool(np.abs(found["posterior"] - posterior).max() < self.tol)
            posterior = found["posterior"]
            n_iter += 1
        warn_unless_converged(converged, self)
        self._strength = np.array([strength])
        prior = posterior.mean(axis=0)
        return ClassFit.of(posterior, confusion, prior / prior.sum(), np.zeros(0), n_iter, converged)


def _field(graph: _Graph, posterior: Array, strength: float) -> Array:
    """Logarithms of what each class is worth by itself: its share, less what links to such neighbours already add."""
    shares = (posterior.sum(axis=0) + 1) / (len(posterior) + posterior.shape[1])
    mean = float(len(graph.neighbours)) / max(len(posterior), 1)
    # A task expects such shares of its neighbours to be of each class, and is drawn to them so much.
    return np.asarray(np.log(shares) - strength * mean * shares)


def _likeliest_strength(graph: _Graph, posterior: Array, strength: float) -> float:
    """The strength of greatest pseudo-likelihood under expected classes, by Newton's method."""
    near = graph.sums(posterior)
    for _ in range(20):
        logs = _field(graph, posterior, strength) + strength * near
        logs -= logs.max(axis=1, keepdims=True)
        share = np.exp(logs)
        share /= share.sum(axis=1, keepdims=True)
        mean = (share * near).sum(axis=1)
        slope = float((posterior * near).sum() - mean.sum())
        curve = float(((share * near**2).sum(axis=1) - mean**2).sum())
        step = np.clip(slope / (curve + 1e-3), -1, 1)
        strength = float(np.clip(strength + step, -_STRONGEST, _STRONGEST))
        if abs(step) < 1e-6:
            break
    return strength


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
