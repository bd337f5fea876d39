"""Base class of clustering methods: clusters, worker skills, prediction, persistence."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import arrow
from manyhands._base.estimator import Array, Estimator
from manyhands._base.fitted import Fit, ItemFitted, codes, numbers, part
from manyhands._base.items import codes_of
from manyhands._base.names import Names, sequence
from manyhands._base.overlap import Doubts
from manyhands._base.progress import Callback
from manyhands._base.results import Columns
from manyhands.clustering._memberships import Codes, Memberships
from manyhands.clustering.table import Similarities

if TYPE_CHECKING:
    import pyarrow as pa


#: Share of items outside the largest component above which the warning is emitted.
_NOTABLE = 0.05


@dataclass(frozen=True, kw_only=True)
class ClusterFit(Fit):
    """Estimated clusters of items and skills of workers."""

    #: Cluster of each item, numbered by size.
    clusters: Codes = field(metadata=codes("i"))
    memberships: Memberships = field(metadata=part(Memberships))
    #: Probability that a worker answers "same" for equal items, and "different" for different items.
    recall: Array = field(metadata=numbers("m", least=0, most=1))
    specificity: Array = field(metadata=numbers("m", least=0, most=1))

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise if a cluster number exceeds the number of clusters."""
        if (self.clusters >= self.memberships.n_clusters).any():
            raise ValueError(f"clusters contains a number beyond the last of {self.memberships.n_clusters:,} clusters")

    @classmethod
    def of(cls, memberships: Memberships, counts: Array, clusters: Codes | None = None, **course: Any) -> ClusterFit:
        """Build from memberships and expected answer counts per worker, (workers, 2 true, 2 given)."""
        best_clusters = memberships.best() if clusters is None else clusters
        numbers = _by_size(best_clusters, memberships.n_clusters)
        skills = counts / counts.sum(axis=2, keepdims=True)
        return cls(
            clusters=numbers[best_clusters],
            memberships=memberships.renumber(numbers),
            recall=np.ascontiguousarray(skills[:, 1, 1]),
            specificity=np.ascontiguousarray(skills[:, 0, 0]),
            **course,
        )

    def confidence(self) -> Array:
        """Probability that each item is in its cluster, given the other items."""
        return self.memberships.of(np.arange(len(self.clusters)), self.clusters)


def _by_size(clusters: Codes, n_clusters: int) -> Codes:
    """Renumber clusters by size; ties by first item; empty clusters last."""
    first = np.full(n_clusters, len(clusters))
    np.minimum.at(first, clusters, np.arange(len(clusters)))
    order = np.lexsort((first, -np.bincount(clusters, minlength=n_clusters)))
    numbers = np.empty(n_clusters, np.int64)
    numbers[order] = np.arange(n_clusters)
    return numbers


class Clustering(Estimator[Similarities, ClusterFit, ItemFitted[ClusterFit]]):
    """Base class of clustering methods. Subclasses implement ``_fit``, which maps a table to a `ClusterFit`."""

    _kind: ClassVar[str] = "clustering"
    _parts: ClassVar[tuple[str, ...]] = ("items", "workers")
    _answer: ClassVar[str] = "clusters_"
    _fit_type: ClassVar[type[Fit]] = ClusterFit
    _fitted_type: ClassVar[type[ItemFitted[Any]]] = ItemFitted

    def _doubts(self, votes: Similarities) -> Doubts:
        """Warn if the graph of compared pairs is not connected."""
        numbers = _core.components(votes.n_items, np.stack(votes.pairs(), axis=1))
        n = int(numbers.max()) + 1
        if n == 1:
            return Doubts()
        largest = int(np.bincount(numbers).max()) / votes.n_items
        remark = (
            f"The pairs asked leave {n:,} groups of items without pairs between them, with {largest:.0%} of items in "
            "the largest: whether items of different groups are the same depends on the prior only.",
        )
        return Doubts(loud=remark) if 1 - largest > _NOTABLE else Doubts(quiet=remark)

    @abstractmethod
    def _fit(self, votes: Similarities, progress: Callback | None) -> ClusterFit:
        """Fit a table."""

    # ----------------------------------------------------------------------------------------------- results

    @property
    def items_(self) -> npt.NDArray[Any]:
        """Item ids, in the order of all per-item results."""
        return self._fitted().items.values

    @property
    def clusters_(self) -> Codes:
        """Cluster of each item, shape (n_items,): numbered by size, ties by first item."""
        return self._fitted().fit.clusters

    @property
    def n_clusters_(self) -> int:
        """Number of non-empty clusters."""
        return int(self._fitted().fit.clusters.max()) + 1

    @property
    def confidence_(self) -> Array:
        """Probability that each item is in its cluster, given the other items; shape (n_items,)."""
        return self._fitted().fit.confidence()

    @property
    def recall_(self) -> Array:
        """Probability that each worker answers "same" for equal items, shape (n_workers,)."""
        return self._fitted().fit.recall

    @property
    def specificity_(self) -> Array:
        """Probability that each worker answers "different" for different items, shape (n_workers,)."""
        return self._fitted().fit.specificity

    def to_frame(self) -> pa.Table:
        """Return the item, cluster and confidence of each item as an Arrow table (``.to_pandas()``)."""
        now = self._fitted()
        return arrow.table({"item": now.items.arrow(), "cluster": now.fit.clusters, "confidence": now.fit.confidence()})

    def _skills(self) -> Columns:
        recall, specificity = self.recall_, self.specificity_
        return {
            "skill": (recall + specificity) / 2,
            "recall": recall,
            "specificity": specificity,
            # Raykar and Yu (2012): 0 for answers independent of the items, 1 for perfect answers.
            "spammer_score": (recall + specificity - 1) ** 2,
        }

    def _count_answers(self, votes: Similarities) -> npt.NDArray[np.int64]:
        pairs = votes.codes()[0]
        return np.bincount(np.concatenate([side[pairs] for side in votes.pairs()]), minlength=votes.n_items)

    def _rows_about(self, table: Similarities, task: Any) -> pa.Table:
        item = codes_of(table._items, [task], "item")[0]
        sides = [side[table.codes()[0]] for side in table.pairs()]
        rows = np.flatnonzero((sides[0] == item) | (sides[1] == item))
        frame = arrow.take(table.to_frame(), rows)
        others = np.where(sides[0] == item, sides[1], sides[0])[rows]
        frame = frame.drop_columns(["left", "right"])
        return frame.append_column("item", [arrow.take(table._items.arrow(), others)])

    def _compared(self, rows: pa.Table, place: int) -> Columns:
        now = self._fitted()
        clusters = now.fit.clusters
        others = clusters[now.items.find(rows.column("item").to_pylist())]
        same = arrow.to_numpy(rows.column("same")).astype(np.bool_)
        return {"agreement": ((others == clusters[place]) == same).astype(np.float64)}

    # -------------------------------------------------------------------------------------------- prediction

    def predict_proba(self, left: Iterable[Any], right: Iterable[Any]) -> Array:
        """Return the probability that items are the same, for any pairs of fitted items.

        Memberships of different items are treated as independent. Items that were not in ``fit`` raise.

        Parameters
        ----------
        left, right : iterable of item ids
            Items to compare, of equal length.

        Returns
        -------
        ndarray of shape (len(left),)
            Probabilities.
        """
        now = self._fitted()
        ends = [_item_codes(now.items, names, side) for names, side in ((left, "left"), (right, "right"))]
        if len(ends[0]) != len(ends[1]):
            raise ValueError(f"left has {len(ends[0]):,} items, but right has {len(ends[1]):,}: pass equal lengths")
        return now.fit.memberships.together(*ends)

    def predict(self, left: Iterable[Any], right: Iterable[Any]) -> npt.NDArray[np.bool_]:
        """Return whether items are in the same cluster; for the parameters, see :meth:`predict_proba`."""
        return self.predict_proba(left, right) > 0.5


def _item_codes(items: Names, item_ids: Iterable[Any], side: str) -> Codes:
    names_ = sequence(item_ids, side)
    item_codes = items.match(names_)
    if (item_codes < 0).any():
        name = names_.values[item_codes < 0].tolist()[0]
        raise ValueError(f"item {name!r} in {side} was not in fit: remove it, or fit a table that contains it")
    return item_codes


# ------------------------------------------------------------------------------------------------- pairs and skills


@dataclass(frozen=True)
class PairModel:
    """Worker skills with every pair as a separate task, and the evidence for each pair."""

    #: (workers, 2 true, 2 given).
    confusion: Array
    #: Prior log-odds that a pair is the same.
    prior: float

    @classmethod
    def fit(cls, votes: Similarities, progress: Callback | None) -> PairModel:
        """Fit hierarchical Dawid–Skene with pairs as tasks and two classes; the worker prior is estimated."""
        (result,) = _core.hierarchy_fit(
            votes.table,
            [("crowd", None)],
            class_pseudo=np.ones(2),
            protected=20,
            max_iter=5,
            tol=1e-6,
            progress=progress,
        )
        different, same = np.clip(result["prior"], 1e-9, 1.0)
        return cls(result["confusion"], float(np.log(same / different)))

    def evidence(self, votes: Similarities) -> Array:
        """Posterior log-odds that each pair is the same."""
        return votes.table.pair_evidence(log_odds(self.confusion)) + self.prior


def log_odds(confusion: Array) -> Array:
    """Log-odds of "same" for each worker's two answers, (workers, 2 given)."""
    rates = np.clip(confusion, 1e-9, 1.0)
    return np.ascontiguousarray(np.log(rates[:, 1] / rates[:, 0]))


def crowd_counts(counts: Array, strength: float) -> Array:
    """Pseudo-counts of worker answers, (2 true, 2 given): `strength` per true class, distributed as in the crowd."""
    crowd = counts.sum(axis=0) + 1.0
    pseudo_counts: Array = strength * crowd / crowd.sum(axis=1, keepdims=True)
    return pseudo_counts
