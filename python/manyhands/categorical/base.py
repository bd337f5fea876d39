"""What all aggregators of classes share: posteriors and labels of tasks, workers by how they err, prediction, files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, overload

import numpy as np
import numpy.typing as npt

from manyhands import _core, metrics
from manyhands._base import arrow, persist
from manyhands._base.checks import check_choice, counted
from manyhands._base.estimator import Array, Estimator, Fit, Progress, TaskEstimator, concrete
from manyhands._base.limits import check_memory
from manyhands._base.names import Names
from manyhands._base.write import write_frames
from manyhands.categorical._confusion import Confusion, Matrices, OneCoin, as_confusion
from manyhands.categorical._insight import Insight
from manyhands.categorical._passes import posterior_under
from manyhands.categorical._posterior import DensePosterior, Posterior, Winners, as_posterior, distributions
from manyhands.categorical._reference import KnownReference, Reference
from manyhands.categorical._streamed import StreamedPosterior
from manyhands.categorical.shards.votes import STREAMED, ShardedAnnotations
from manyhands.categorical.table import Annotations, as_annotations

if TYPE_CHECKING:
    import pyarrow as pa

#: What to do where numbers for all classes do not fit.
MANY_CLASSES = (
    "if the labels are classes, not numbers or ids, SparseOneCoin takes any number of them in memory that the labels "
    "given determine"
)

#: Objectives that differ by less, as a share of their size, are the same.
_SAME = 1e-11

Run = TypeVar("Run", bound=Mapping[str, Any])


@dataclass(frozen=True, kw_only=True)
class ClassFit(Fit):
    """What an aggregator learns from a table of classes: posteriors, and how workers err."""

    posterior: Posterior
    confusion: Confusion
    prior: Array

    @classmethod
    def of(
        cls,
        posterior: Array | Posterior,
        confusion: Array | Confusion,
        prior: Array,
        history: Array,
        n_iter: int = 1,
        converged: bool = True,
        remarks: tuple[str, ...] = (),
    ) -> Self:
        """Make one of arrays, or of what else stands for them."""
        return cls(
            posterior=as_posterior(posterior),
            confusion=as_confusion(confusion),
            prior=prior,
            history=history,
            n_iter=n_iter,
            converged=converged,
            remarks=remarks,
        )


def fit_of(found: _core._EmFit, remarks: tuple[str, ...] = ()) -> ClassFit:
    """What all fits of the core have in common, as a fit."""
    return ClassFit.of(
        posterior=found["posterior"],
        confusion=found["confusion"],
        prior=found["prior"],
        history=found["history"],
        n_iter=found["n_iter"],
        converged=found["converged"],
        remarks=remarks,
    )


def best_of(runs: Iterable[Run]) -> Run:
    """Return the run of the core with the highest objective; only two are kept at a time.

    The first of equals, and equal are those that rounding alone tells apart: runs that come to the same summit.
    """
    best, highest = None, -np.inf
    for run in runs:
        objective = float(run["history"][-1])
        if best is None or objective > highest + _SAME * max(1.0, abs(highest)):
            best, highest = run, objective
    if best is None:
        raise ValueError("there are no runs to choose from")
    return best


class Aggregator(Insight, TaskEstimator[Annotations, ClassFit]):
    """Base of all aggregators of classes: a subclass gives ``_fit``, which maps a table to a `ClassFit`."""

    _kind: ClassVar[str] = "categorical"
    _file_kind: ClassVar[str] = "aggregator"
    _answer: ClassVar[str] = "labels_"

    #: How posteriors and workers' errors are kept.
    _posterior_kept: ClassVar[type[Posterior]] = DensePosterior
    _confusion_kept: ClassVar[type[Matrices | OneCoin]] = Matrices
    #: The most classes it takes; None for any number.
    _most_classes: ClassVar[int | None] = None

    _winners: Winners | None
    #: The table of the fit, as long as the model stays in memory; neither files nor pickles keep it.
    _votes: Annotations | None = None
    #: What standard errors of workers' measures follow from; None where the log is not at hand.
    _reference: Reference | None = None

    def _hears_abstentions(self) -> bool:
        """Whether abstentions tell it something; if not, they are missing answers."""
        return False

    def _knows_abstentions(self) -> bool:
        """Whether it was fitted to a table with abstentions, and learnt from them."""
        return self._result is not None and len(self._labels) > len(self._classes)

    # --------------------------------------------------------------------------------------------------- fit

    def _as_table(self, answers: Any) -> Annotations:
        return as_annotations(answers, abstentions=self._hears_abstentions())

    def _bytes(self, votes: Annotations) -> int:
        """Bytes of what a fit gives back, at the least: posteriors and confusion matrices."""
        return 8 * votes.n_labels * (votes.n_tasks + votes.n_workers * votes.n_classes)

    def _check_room(self, votes: Annotations) -> None:
        if isinstance(votes, ShardedAnnotations):
            why = self._needs_memory()
            if why is not None:
                raise TypeError(
                    f"{why}, and this log is in shards on disk: votes.in_memory() reads it, where it fits. Those that "
                    f"go through shards are {STREAMED}"
                )
            return
        check_memory(self._bytes(votes), f"{type(self).__name__} of {_sizes(votes)}", MANY_CLASSES)

    def _needs_memory(self) -> str | None:
        """Why it cannot go through a log in shards; None if it can."""
        return f"{type(self).__name__} needs all annotations in memory"

    def _settle(self, result: ClassFit, votes: Annotations) -> None:
        self._adopt(result, votes._tasks, votes._workers, votes._classes, votes.labels_per_worker)
        self._all_labels = votes._labels
        self._votes = votes
        self._reference = Reference(votes, getattr(self, "gold", None), self._hierarchical())

    def _adopt(
        self, result: ClassFit, tasks: Names, workers: Names, classes: Names, n_labels: npt.NDArray[np.int64]
    ) -> None:
        self._result = result
        self._tasks, self._workers, self._classes = tasks, workers, classes
        self._all_labels = None
        self._n_labels = n_labels
        self._reference = None
        # Of a log on disk, when somebody asks.
        self._winners = None if isinstance(result.posterior, StreamedPosterior) else self._decide(result.posterior)

    @property
    def _won(self) -> Winners:
        """The winning class of each task."""
        if self._winners is None:
            self._winners = self._decide(self._fitted().posterior)
        return self._winners

    def _decide(self, posterior: Posterior) -> Winners:
        """The winning class of each task."""
        return posterior.winners()

    def _named(self, won: Winners) -> npt.NDArray[Any]:
        """Labels of winning codes."""
        return self._classes.values[won.codes]

    def fit_predict_proba(self, votes: Any, *, progress: Progress = False) -> Array:
        """Fit and return the class posterior of each task, (n_tasks, n_classes)."""
        return self._fit_apart(votes, progress).posterior_

    # ----------------------------------------------------------------------------------------------- results

    @property
    def labels_(self) -> npt.NDArray[Any]:
        """The winning class of each task, by name, (n_tasks,). The lowest class code wins a tie."""
        self._fitted()
        now = self._snapshot()
        return now._named(now._won)

    @property
    def confidence_(self) -> Array:
        """Probability that each label is right, (n_tasks,): the posterior of the winning class."""
        self._fitted()
        return self._snapshot()._won.confidence

    @property
    def posterior_(self) -> Array:
        """Class posterior of each task, (n_tasks, n_classes); rows sum to one."""
        return self._fitted().posterior.dense()

    def _rows_of_tasks(self, tasks: npt.NDArray[np.int64]) -> Array:
        """Class posteriors of some tasks, by their codes."""
        return self._fitted().posterior.rows(tasks)

    @property
    def tied_(self) -> npt.NDArray[np.bool_]:
        """Whether another class is as probable as the winner, (n_tasks,)."""
        self._fitted()
        return self._won.tied

    @property
    def confusion_(self) -> Array:
        """Confusion matrix of each worker, (n_workers, n_classes true, n_classes observed); rows sum to one.

        Where workers may abstain, and the method learns from that, there are further columns for abstentions.
        """
        return self._fitted().confusion.matrices()

    def _errors(self) -> Confusion:
        return self._fitted().confusion

    def _hierarchical(self) -> tuple[Array, Array] | None:
        """Class prior and confusion matrices of a `HierarchicalDawidSkene` that is part of the fit, if one is."""
        return None

    def _worker_measures(self) -> metrics.Worth:
        worth = super()._worker_measures()
        if self._reference is None:
            return worth
        return self._reference.errors_of(worth, same_measure=not self._knows_abstentions())

    @property
    def prior_(self) -> Array:
        """Class prior, (n_classes,)."""
        return self._fitted().prior

    def to_frame(self) -> pa.Table:
        """Return task, label, confidence and whether it was a tie, as an Arrow table (``.to_pandas()``)."""
        self._fitted()
        now = self._snapshot()
        return now._frame(now._tasks, now._won)

    def _frame(self, tasks: Names, won: Winners) -> pa.Table:
        """What `to_frame` says of some tasks."""
        return arrow.table(
            {
                "task": tasks.arrow(),
                "label": self._classes.take(won.codes.astype(np.int64)).arrow(),
                "confidence": won.confidence,
                "tied": won.tied,
            }
        )

    def _frames(self) -> Iterator[pa.Table]:
        """What `to_frame` says, a part of the tasks at a time."""
        posterior = self._fitted().posterior
        if not isinstance(posterior, StreamedPosterior):
            yield self.to_frame()
            return
        for place, rows in enumerate(posterior.shards.each(posterior.of_part)):
            tasks = posterior.shards.directory.tasks(place)
            yield self._frame(tasks, self._decide(DensePosterior(rows)))

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write what :meth:`to_frame` returns to a file: Parquet, or CSV by the ending of its name.

        Of a log in shards, answers are made and written shard by shard, in memory for one of them. The file appears
        when it is whole.
        """
        self._fitted()
        write_frames(self._snapshot()._frames(), path)

    # -------------------------------------------------------------------------------------------- prediction

    def predict(self, votes: Any) -> npt.NDArray[Any]:
        """Label tasks, old or new, from annotations by known workers; see :meth:`predict_proba`."""
        self._fitted()
        now = self._snapshot()
        return now._named(now._decide(now._expected(votes)))

    def predict_proba(self, votes: Any) -> Array:
        """Class posteriors of tasks, old or new, with the workers as they were learnt: (votes.n_tasks, n_classes).

        A worker who was not seen in ``fit`` counts as the crowd's average worker (confusion matrices averaged with the
        number of labels as weights). Columns are :attr:`classes_`; a label outside them is an error.
        """
        self._fitted()
        return self._snapshot()._expected(votes).dense()

    def _expected(self, votes: Any) -> Posterior:
        """Posteriors of the tasks of another table."""
        k = len(self._classes)
        votes = as_annotations(votes, abstentions=self._knows_abstentions())
        needed = self._posterior_kept.n_bytes(votes.n_tasks, k)
        check_memory(needed, f"a posterior of {_sizes(votes)}", MANY_CLASSES)
        found = self._posterior(self._recode(votes), self._workers.match(votes._workers))
        return found if isinstance(found, Posterior) else DensePosterior(np.ascontiguousarray(found[:, :k]))

    def _posterior(self, table: _core.Table, known: npt.NDArray[np.int64]) -> Array | Posterior:
        """Posteriors of a table whose worker m was worker known[m] in fit, or nobody where that is -1."""
        return posterior_under(table, self.prior_, self._carried_over(self.confusion_, known))

    def _parameters_for(self, votes: Annotations) -> tuple[Array, Array]:
        """Prior and confusion matrices for other votes: workers by name, the average worker for the rest."""
        confusion = self.confusion_
        if self._classes != votes._classes:
            raise ValueError(
                f"the {type(self).__name__} to start from knows the classes {self.classes_.tolist()[:5]}, the votes "
                f"have {votes.classes.tolist()[:5]}; make both tables with the same classes="
            )
        return self.prior_, self._carried_over(confusion, self._workers.match(votes._workers))

    # ------------------------------------------------------------------------------------------- persistence

    def _packed(self) -> dict[str, npt.NDArray[Any]]:
        fit = self._fitted()
        arrays = {"prior": fit.prior} | fit.posterior.packed() | fit.confusion.packed()
        arrays |= {f"learnt.{name}": getattr(self, name) for name in self._learnt_arrays()}
        arrays |= {} if self._reference is None else self._reference.packed()
        return arrays | persist.pack_names("classes", self._classes) | persist.pack_labels(self._classes, self._labels)

    def _take_back(self, content: persist.Content, course: Mapping[str, Any]) -> None:
        tasks, workers = self._tasks, self._workers
        classes = content.names("classes")
        labels = content.labels(classes)
        if not len(classes):
            raise content.damaged("its settings are incomplete")
        sizes = {"n": len(tasks), "m": len(workers), "k": len(classes), "l": len(labels)}
        self._take_learnt(content, sizes)
        result = ClassFit(
            posterior=self._posterior_kept.unpacked(content, sizes),
            confusion=self._confusion_kept.unpacked(content, sizes),
            prior=distributions(content, "prior", (len(classes),)),
            **course,
        )
        self._adopt(result, tasks, workers, classes, self._n_labels)
        self._all_labels = labels
        if "reference" in content.arrays:
            reference = content.array("reference", np.float64, shape=(6, len(workers)))
            if (reference < 0).any():
                raise content.damaged("it holds negative errors")
            self._reference = KnownReference(metrics.Worth(*reference))


def _sizes(votes: Annotations) -> str:
    tasks, workers = counted(votes.n_tasks, "task"), counted(votes.n_workers, "worker")
    return f"{tasks}, {workers} and {counted(votes.n_labels, 'class', 'classes')}"


@overload
def all_aggregators(kind: Literal["categorical"] = ...) -> list[type[Aggregator]]: ...
@overload
def all_aggregators(kind: str) -> list[type[Estimator[Any, Any]]]: ...
def all_aggregators(kind: str = "categorical") -> list[type[Any]]:
    """Every aggregator of the library for one kind of answers, by name.

    Parameters
    ----------
    kind
        What the answers are: ``"categorical"``, those of :class:`~manyhands.Annotations`, ``"numeric"``, those of
        :class:`~manyhands.Ratings`, ….

    Examples
    --------
    >>> import manyhands as mh
    >>> mh.DawidSkene in mh.categorical.all_aggregators()
    True
    """
    check_choice("kind", kind, tuple(Estimator._bases))
    return [found for found in concrete(Estimator._bases[kind]) if found._kind == kind]
