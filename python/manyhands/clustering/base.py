"""What all methods for same or different share: clusters of items, skills of workers, prediction, files."""

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


#: A share of the items outside the largest group that is worth a warning.
_NOTABLE = 0.05


@dataclass(frozen=True, kw_only=True)
class ClusterFit(Fit):
    """Clusters of items, and how well workers tell same from different."""

    #: Cluster of each item, the largest cluster first.
    clusters: Codes = field(metadata=codes("i"))
    memberships: Memberships = field(metadata=part(Memberships))
    #: Probability that a worker says same of the same, and different of the different.
    recall: Array = field(metadata=numbers("m", least=0, most=1))
    specificity: Array = field(metadata=numbers("m", least=0, most=1))

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise where items are in clusters beyond the last."""
        if (self.clusters >= self.memberships.n_clusters).any():
            raise ValueError(f"it names clusters beyond the last of {self.memberships.n_clusters:,}")

    @classmethod
    def of(cls, memberships: Memberships, counts: Array, clusters: Codes | None = None, **course: Any) -> ClusterFit:
        """Make one of memberships and answers of workers, (workers, 2 true, 2 said), however clusters are called."""
        found = memberships.best() if clusters is None else clusters
        numbers = _by_size(found, memberships.n_clusters)
        skills = counts / counts.sum(axis=2, keepdims=True)
        return cls(
            clusters=numbers[found],
            memberships=memberships.renumbered(numbers),
            recall=np.ascontiguousarray(skills[:, 1, 1]),
            specificity=np.ascontiguousarray(skills[:, 0, 0]),
            **course,
        )

    def confidence(self) -> Array:
        """Probability that each item is in its cluster, given where the others are."""
        return self.memberships.of(np.arange(len(self.clusters)), self.clusters)


def _by_size(clusters: Codes, n_clusters: int) -> Codes:
    """New numbers of clusters: the largest first, of equals the one with the first item, those without items last."""
    first = np.full(n_clusters, len(clusters))
    np.minimum.at(first, clusters, np.arange(len(clusters)))
    order = np.lexsort((first, -np.bincount(clusters, minlength=n_clusters)))
    numbers = np.empty(n_clusters, np.int64)
    numbers[order] = np.arange(n_clusters)
    return numbers


class Clustering(Estimator[Similarities, ClusterFit, ItemFitted[ClusterFit]]):
    """Base of all methods for same or different: a subclass gives ``_fit``, which maps a table to a `ClusterFit`."""

    _kind: ClassVar[str] = "clustering"
    _file_kind: ClassVar[str] = "clustering"
    _parts: ClassVar[tuple[str, ...]] = ("items", "workers")
    _answer: ClassVar[str] = "clusters_"
    _fit_type: ClassVar[type[Fit]] = ClusterFit
    _fitted_type: ClassVar[type[ItemFitted[Any]]] = ItemFitted

    def _doubts(self, votes: Similarities) -> Doubts:
        """Which items no chain of pairs connects."""
        numbers = _core.components(votes.n_items, np.stack(votes.pairs(), axis=1))
        n = int(numbers.max()) + 1
        if n == 1:
            return Doubts()
        largest = int(np.bincount(numbers).max()) / votes.n_items
        remark = (
            f"The pairs asked leave {n:,} groups of items that no pair connects, with {largest:.0%} of items in one: "
            "whether items of two groups are the same rests on prior beliefs alone.",
        )
        return Doubts(loud=remark) if 1 - largest > _NOTABLE else Doubts(quiet=remark)

    @abstractmethod
    def _fit(self, votes: Similarities, progress: Callback | None) -> ClusterFit:
        """Map a table to a fit."""

    # ----------------------------------------------------------------------------------------------- results

    @property
    def items_(self) -> npt.NDArray[Any]:
        """Names of the items, in the order of all results about them."""
        return self._fitted().items.values

    @property
    def clusters_(self) -> Codes:
        """Cluster of each item, (n_items,): 0 is the largest; of equal ones, that of the first item comes first."""
        return self._fitted().fit.clusters

    @property
    def n_clusters_(self) -> int:
        """Number of clusters that have items."""
        return int(self._fitted().fit.clusters.max()) + 1

    @property
    def confidence_(self) -> Array:
        """Probability that each item is in its cluster, (n_items,), given where the others are."""
        return self._fitted().fit.confidence()

    @property
    def recall_(self) -> Array:
        """Probability that each worker says same of two items that are the same, (n_workers,)."""
        return self._fitted().fit.recall

    @property
    def specificity_(self) -> Array:
        """Probability that each worker says different of two items that are not the same, (n_workers,)."""
        return self._fitted().fit.specificity

    def to_frame(self) -> pa.Table:
        """Return item, cluster and confidence, as an Arrow table (``.to_pandas()``)."""
        now = self._fitted()
        return arrow.table({"item": now.items.arrow(), "cluster": now.fit.clusters, "confidence": now.fit.confidence()})

    def _skills(self) -> Columns:
        recall, specificity = self.recall_, self.specificity_
        return {
            "skill": (recall + specificity) / 2,
            "recall": recall,
            "specificity": specificity,
            # Raykar & Yu (2012): 0 for answers that do not depend on the items, 1 for perfect ones.
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
        """Probability that items are the same, asked about or not: (len(left),).

        Memberships are taken to be independent given what was learnt. An item that was not seen in ``fit`` is an error.

        Parameters
        ----------
        left, right
            Names of items, as many on either side.
        """
        now = self._fitted()
        ends = [_item_codes(now.items, names, side) for names, side in ((left, "left"), (right, "right"))]
        if len(ends[0]) != len(ends[1]):
            raise ValueError(f"{len(ends[0]):,} items on the left and {len(ends[1]):,} on the right make no pairs")
        return now.fit.memberships.together(*ends)

    def predict(self, left: Iterable[Any], right: Iterable[Any]) -> npt.NDArray[np.bool_]:
        """Whether items are in the same cluster, (len(left),); parameters are those of :meth:`predict_proba`."""
        return self.predict_proba(left, right) > 0.5


def _item_codes(items: Names, wanted: Iterable[Any], side: str) -> Codes:
    names_ = sequence(wanted, side)
    found = items.match(names_)
    if (found < 0).any():
        name = names_.values[found < 0].tolist()[0]
        raise ValueError(f"item {name!r} on the {side} was not seen in fit; nothing is known of it")
    return found


# ------------------------------------------------------------------------------------------------- pairs and skills


@dataclass(frozen=True)
class PairModel:
    """Skills of workers where every pair is a question of its own, and what the answers say of each pair."""

    #: (workers, 2 true, 2 said).
    confusion: Array
    #: Log-odds that each pair is the same before anybody answers.
    prior: float

    @classmethod
    def fit(cls, votes: Similarities, progress: Callback | None) -> PairModel:
        """Dawid–Skene on pairs with the two answers as classes, whose prior of workers is learnt from the crowd."""
        (found,) = _core.hierarchy_fit(
            votes.table,
            [("crowd", None)],
            class_pseudo=np.ones(2),
            protected=20,
            max_iter=5,
            tol=1e-6,
            progress=progress,
        )
        different, same = np.clip(found["prior"], 1e-9, 1.0)
        return cls(found["confusion"], float(np.log(same / different)))

    def evidence(self, votes: Similarities) -> Array:
        """Posterior log-odds that each pair is the same."""
        return votes.table.pair_evidence(log_odds(self.confusion)) + self.prior


def log_odds(confusion: Array) -> Array:
    """What each worker's two answers say: log-odds of same, (workers, 2 said)."""
    rates = np.clip(confusion, 1e-9, 1.0)
    return np.ascontiguousarray(np.log(rates[:, 1] / rates[:, 0]))


def crowd_counts(counts: Array, strength: float) -> Array:
    """Imaginary answers of every worker, (2 true, 2 said): so many of each, as the crowd gives them."""
    crowd = counts.sum(axis=0) + 1.0
    imaginary: Array = strength * crowd / crowd.sum(axis=1, keepdims=True)
    return imaginary
