"""What all methods for same or different share: clusters of items, skills of workers, prediction, files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import arrow, persist
from manyhands._base.estimator import Array, Estimator, Fit
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
    clusters: Codes
    memberships: Memberships
    #: Probability that a worker says same of the same, and different of the different.
    recall: Array
    specificity: Array

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


def _by_size(clusters: Codes, n_clusters: int) -> Codes:
    """New numbers of clusters: the largest first, of equals the one with the first item, those without items last."""
    first = np.full(n_clusters, len(clusters))
    np.minimum.at(first, clusters, np.arange(len(clusters)))
    order = np.lexsort((first, -np.bincount(clusters, minlength=n_clusters)))
    numbers = np.empty(n_clusters, np.int64)
    numbers[order] = np.arange(n_clusters)
    return numbers


class Clustering(Estimator[Similarities, ClusterFit]):
    """Base of all methods for same or different: a subclass gives ``_fit``, which maps a table to a `ClusterFit`."""

    _kind: ClassVar[str] = "clustering"
    _file_kind: ClassVar[str] = "clustering"
    _parts: ClassVar[tuple[str, ...]] = ("items", "workers")
    _items: Names
    _answer: ClassVar[str] = "clusters_"

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
        self._fitted()
        return self._items.values

    @property
    def clusters_(self) -> Codes:
        """Cluster of each item, (n_items,): 0 is the largest; of equal ones, that of the first item comes first."""
        return self._fitted().clusters

    @property
    def n_clusters_(self) -> int:
        """Number of clusters that have items."""
        return int(self._fitted().clusters.max()) + 1

    @property
    def confidence_(self) -> Array:
        """Probability that each item is in its cluster, (n_items,), given where the others are."""
        fit = self._fitted()
        return fit.memberships.of(np.arange(len(fit.clusters)), fit.clusters)

    @property
    def recall_(self) -> Array:
        """Probability that each worker says same of two items that are the same, (n_workers,)."""
        return self._fitted().recall

    @property
    def specificity_(self) -> Array:
        """Probability that each worker says different of two items that are not the same, (n_workers,)."""
        return self._fitted().specificity

    def to_frame(self) -> pa.Table:
        """Return item, cluster and confidence, as an Arrow table (``.to_pandas()``)."""
        self._fitted()
        now = self._snapshot()
        return arrow.table({"item": now._items.arrow(), "cluster": now.clusters_, "confidence": now.confidence_})

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
        clusters = self._fitted().clusters
        others = clusters[self._items.find(rows.column("item").to_pylist())]
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
        self._fitted()
        now = self._snapshot()
        ends = [now._found(names, side) for names, side in ((left, "left"), (right, "right"))]
        if len(ends[0]) != len(ends[1]):
            raise ValueError(f"{len(ends[0]):,} items on the left and {len(ends[1]):,} on the right make no pairs")
        return now._fitted().memberships.together(*ends)

    def predict(self, left: Iterable[Any], right: Iterable[Any]) -> npt.NDArray[np.bool_]:
        """Whether items are in the same cluster, (len(left),); parameters are those of :meth:`predict_proba`."""
        return self.predict_proba(left, right) > 0.5

    def _found(self, names: Iterable[Any], side: str) -> Codes:
        wanted = sequence(names, side)
        codes = self._items.match(wanted)
        if (codes < 0).any():
            name = wanted.values[codes < 0].tolist()[0]
            raise ValueError(f"item {name!r} on the {side} was not seen in fit; nothing is known of it")
        return codes

    # ------------------------------------------------------------------------------------------- persistence

    def _packed(self) -> dict[str, npt.NDArray[Any]]:
        fit = self._fitted()
        arrays: dict[str, npt.NDArray[Any]] = {
            "clusters": fit.clusters,
            "n_clusters": np.array([fit.memberships.n_clusters]),
            "recall": fit.recall,
            "specificity": fit.specificity,
        }
        return arrays | fit.memberships.packed() | {f"learnt.{name}": getattr(self, name) for name in self._learnt}

    def _take_back(self, content: persist.Content, course: Mapping[str, Any]) -> None:
        n, m = len(self._items), len(self._workers)
        self._take_learnt(content, {"n": n, "m": m, "k": 0})
        clusters = content.array("clusters", np.int64, shape=(n,))
        n_clusters = int(content.array("n_clusters", np.int64, shape=(1,))[0])
        if not ((clusters >= 0) & (clusters < n_clusters)).all():
            raise content.damaged("it names clusters that there are not")
        skills = [content.array(name, np.float64, shape=(m,)) for name in ("recall", "specificity")]
        if not all(((skill >= 0) & (skill <= 1)).all() for skill in skills):
            raise content.damaged("its skills of workers are not probabilities")
        self._result = ClusterFit(
            clusters=clusters,
            memberships=Memberships.unpacked(content, n, n_clusters),
            recall=skills[0],
            specificity=skills[1],
            **course,
        )


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
