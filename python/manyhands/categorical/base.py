"""What all aggregators of classes share: posteriors and labels of tasks, workers by how they err, prediction, files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, overload

import numpy as np
import numpy.typing as npt

from manyhands import _core, metrics
from manyhands._base import arrow
from manyhands._base.checks import check_choice, plural
from manyhands._base.estimator import Array, Estimator, Progress, TaskEstimator, concrete
from manyhands._base.fitted import Fit, TaskFitted, distributions, names, part
from manyhands._base.limits import check_memory
from manyhands._base.names import Names, sequence
from manyhands._base.write import write_frames
from manyhands.categorical._confusion import Confusion, Matrices, as_confusion
from manyhands.categorical._insight import Insight
from manyhands.categorical._passes import posterior_under
from manyhands.categorical._posterior import DensePosterior, Posterior, Winners, as_posterior
from manyhands.categorical._reference import KnownReference, Reference
from manyhands.categorical._streamed import StreamedPosterior
from manyhands.categorical.table import STREAMED, Annotations, as_annotations

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

    posterior: Posterior = field(metadata=part(DensePosterior))
    confusion: Confusion = field(metadata=part(Matrices))
    prior: Array = field(metadata=distributions("k"))

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
        **learnt: Any,
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
            **learnt,
        )

    def decide(self, posterior: Posterior) -> Winners:
        """The winning class of each task, by posteriors of these tasks or others."""
        return posterior.winners()

    def hierarchical(self) -> tuple[Array, Array] | None:
        """Class prior and confusion matrices of a `HierarchicalDawidSkene` that is part of the fit, if one is."""
        return None


SomeFit = TypeVar("SomeFit", bound=ClassFit)


def _no_names() -> Names:
    return Names(np.zeros(0, np.int64))


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassFitted(TaskFitted[ClassFit]):
    """A fit of classes with all names, the table as long as it is in this process, and a reference for errors."""

    classes: Names = field(metadata=names("k"))
    abstentions: Names = field(default_factory=_no_names, metadata=names("a", empty=True))
    votes: Annotations | None = None
    #: What standard errors of workers' measures follow from; None where the log is not at hand.
    reference: Reference | None = field(default=None, metadata=part(KnownReference, optional=True))

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise where confusion matrices are of other labels, or a class is an abstention too."""
        n_labels = sizes["k"] + sizes["a"]
        if sizes.get("l", n_labels) != n_labels:
            raise ValueError(f"its confusion matrices are of {sizes['l']} labels, and there are {n_labels}")
        if (self.classes.match(self.abstentions) >= 0).any():
            raise ValueError("a class is an abstention too")

    @cached_property
    def labels(self) -> Names:
        """What codes of labels stand for: classes, then abstentions, where it learned from those."""
        return self.classes.followed_by(self.abstentions) if len(self.abstentions) else self.classes

    @cached_property
    def won(self) -> Winners:
        """The winning class of each task."""
        return self.fit.decide(self.fit.posterior)


@overload
def fit_of(found: _core._EmFit, remarks: tuple[str, ...] = ...) -> ClassFit: ...
@overload
def fit_of(found: _core._EmFit, remarks: tuple[str, ...] = ..., *, kind: type[SomeFit], **learnt: Any) -> SomeFit: ...
def fit_of(
    found: _core._EmFit, remarks: tuple[str, ...] = (), *, kind: type[ClassFit] = ClassFit, **learnt: Any
) -> ClassFit:
    """What all fits of the core have in common, as a fit of a class, with what else was learned."""
    return kind.of(
        posterior=found["posterior"],
        confusion=found["confusion"],
        prior=found["prior"],
        history=found["history"],
        n_iter=found["n_iter"],
        converged=found["converged"],
        remarks=remarks,
        **learnt,
    )


def best_of(runs: Iterable[Run]) -> Run:
    """Return the run of the core with the highest objective; only two are kept at a time.

    The first of equals: runs that reach the same optimum differ by rounding only, and count as equal.
    """
    best, highest = None, -np.inf
    for run in runs:
        objective = float(run["history"][-1])
        if best is None or objective > highest + _SAME * max(1.0, abs(highest)):
            best, highest = run, objective
    if best is None:
        raise ValueError("there are no runs to choose from")
    return best


class Aggregator(TaskEstimator[Annotations, ClassFit, ClassFitted], Insight):
    """Base of all aggregators of classes: a subclass gives ``_fit``, which maps a table to a `ClassFit`."""

    _kind: ClassVar[str] = "categorical"
    _answer: ClassVar[str] = "labels_"

    _fit_type: ClassVar[type[Fit]] = ClassFit
    _fitted_type: ClassVar[type[ClassFitted]] = ClassFitted
    #: How posteriors are kept.
    _posterior_kept: ClassVar[type[Posterior]] = DensePosterior
    #: The most classes it takes; None for any number.
    _most_classes: ClassVar[int | None] = None

    def _hears_abstentions(self) -> bool:
        """Whether the method learns from abstentions; if not, they are missing answers."""
        return False

    def _knows_abstentions(self) -> bool:
        """Whether it was fitted to a table with abstentions, and learned from them."""
        return self._state is not None and len(self._state.abstentions) > 0

    # --------------------------------------------------------------------------------------------------- fit

    def _as_table(self, answers: Any) -> Annotations:
        return as_annotations(answers, abstentions=self._hears_abstentions())

    def _bytes(self, votes: Annotations) -> int:
        """Bytes of what a fit gives back, at the least: posteriors and confusion matrices."""
        return 8 * votes.n_labels * (votes.n_tasks + votes.n_workers * votes.n_classes)

    def _check_room(self, votes: Annotations) -> None:
        if votes.in_shards:
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

    def _publish(self, fit: ClassFit, votes: Annotations, /, **more: Any) -> ClassFitted:
        k = votes.n_classes
        never = votes._labels.values[k:].tolist() if len(votes._labels) > k else []
        return super()._publish(
            fit,
            votes,
            reference=Reference(votes, self._clamped(), fit.hierarchical()),
            **({"abstentions": sequence(never)} if never else {}),
            **more,
        )

    def _clamped(self) -> Any:
        """Known classes that were fixed in the fit, if any."""
        return getattr(self, "gold", None)

    # What one published fit holds; methods that need several of these read them from a copy of the model.

    @property
    def _tasks(self) -> Names:  # type: ignore[override]
        return self._fitted().tasks

    @property
    def _workers(self) -> Names:  # type: ignore[override]
        return self._fitted().workers

    @property
    def _classes(self) -> Names:  # type: ignore[override]
        return self._fitted().classes

    @property
    def _labels(self) -> Names:
        return self._fitted().labels

    @property
    def _n_labels(self) -> npt.NDArray[np.int64]:  # type: ignore[override]
        return self._fitted().n_labels

    @property
    def _votes(self) -> Annotations | None:
        return self._fitted().votes

    @property
    def _won(self) -> Winners:
        return self._fitted().won

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
        now = copy(self)
        return now._named(now._won)

    @property
    def confidence_(self) -> Array:
        """Probability that each label is right, (n_tasks,): the posterior of the winning class."""
        self._fitted()
        return self._fitted().won.confidence

    @property
    def posterior_(self) -> Array:
        """Class posterior of each task, (n_tasks, n_classes); rows sum to one."""
        return self._fitted().fit.posterior.dense()

    def _rows_of_tasks(self, tasks: npt.NDArray[np.int64]) -> Array:
        """Class posteriors of some tasks, by their codes."""
        return self._fitted().fit.posterior.rows(tasks)

    @property
    def tied_(self) -> npt.NDArray[np.bool_]:
        """Whether another class is as probable as the winner, (n_tasks,)."""
        return self._fitted().won.tied

    @property
    def confusion_(self) -> Array:
        """Confusion matrix of each worker, (n_workers, n_classes true, n_classes observed); rows sum to one.

        Where workers may abstain, and the method learns from that, there are further columns for abstentions.
        """
        return self._fitted().fit.confusion.matrices()

    def _errors(self) -> Confusion:
        return self._fitted().fit.confusion

    def _worker_measures(self) -> metrics.Worth:
        worth = super()._worker_measures()
        reference = self._fitted().reference
        if reference is None:
            return worth
        return reference.errors_of(worth, same_measure=not self._knows_abstentions())

    @property
    def prior_(self) -> Array:
        """Class prior, (n_classes,)."""
        return self._fitted().fit.prior

    def to_frame(self) -> pa.Table:
        """Return task, label, confidence and whether it was a tie, as an Arrow table (``.to_pandas()``)."""
        self._fitted()
        now = copy(self)
        return now._frame(now._tasks, now._won)

    def _frame(self, tasks: Names, won: Winners) -> pa.Table:
        """Columns of `to_frame` for some tasks."""
        return arrow.table(
            {
                "task": tasks.arrow(),
                "label": self._classes.take(won.codes.astype(np.int64)).arrow(),
                "confidence": won.confidence,
                "tied": won.tied,
            }
        )

    def _frames(self) -> Iterator[pa.Table]:
        """Frames of `to_frame`, one part of the tasks at a time."""
        posterior = self._fitted().fit.posterior
        if not isinstance(posterior, StreamedPosterior):
            yield self.to_frame()
            return
        for place, rows in enumerate(posterior.shards.each(posterior.of_part)):
            tasks = posterior.shards.directory.tasks(place)
            yield self._frame(tasks, self._fitted().fit.decide(DensePosterior(rows)))

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write what :meth:`to_frame` returns to a file: Parquet, or CSV by the ending of its name.

        Of a log in shards, answers are made and written shard by shard, in memory for one of them. The file appears
        when it is whole.
        """
        self._fitted()
        write_frames(copy(self)._frames(), path)

    # -------------------------------------------------------------------------------------------- prediction

    def predict(self, votes: Any) -> npt.NDArray[Any]:
        """Label tasks, old or new, from annotations by known workers; see :meth:`predict_proba`."""
        self._fitted()
        now = copy(self)
        return now._named(now._fitted().fit.decide(now._expected(votes)))

    def predict_proba(self, votes: Any) -> Array:
        """Class posteriors of tasks, old or new, with the workers as they were learned: (votes.n_tasks, n_classes).

        A worker who was not seen in ``fit`` counts as the crowd's average worker (confusion matrices averaged with the
        number of labels as weights). Columns are :attr:`classes_`; a label outside them is an error.
        """
        self._fitted()
        return copy(self)._expected(votes).dense()

    def _expected(self, votes: Any) -> Posterior:
        """Posteriors of the tasks of another table."""
        k = len(self._classes)
        votes = as_annotations(votes, abstentions=self._knows_abstentions())
        n_bytes = self._posterior_kept.n_bytes(votes.n_tasks, k)
        check_memory(n_bytes, f"a posterior of {_sizes(votes)}", MANY_CLASSES)
        posterior = self._posterior(self._recode(votes), self._workers.match(votes._workers))
        return posterior if isinstance(posterior, Posterior) else DensePosterior(np.ascontiguousarray(posterior[:, :k]))

    def _posterior(self, table: _core.Table, known: npt.NDArray[np.int64]) -> Array | Posterior:
        """Posteriors of a table whose worker m was worker known[m] in fit; -1 stands for a new worker."""
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


def _sizes(votes: Annotations) -> str:
    tasks, workers = plural(votes.n_tasks, "task"), plural(votes.n_workers, "worker")
    return f"{tasks}, {workers} and {plural(votes.n_labels, 'class', 'classes')}"


@overload
def all_aggregators(kind: Literal["categorical"] = ...) -> list[type[Aggregator]]: ...
@overload
def all_aggregators(kind: str) -> list[type[Estimator[Any, Any, Any]]]: ...
def all_aggregators(kind: str = "categorical") -> list[type[Any]]:
    """Every aggregator of the library for one kind of answers, by name.

    Parameters
    ----------
    kind : str, default "categorical"
        What the answers are: ``"categorical"``, those of :class:`~manyhands.Annotations`, ``"numeric"``, those of
        :class:`~manyhands.Ratings`, ….

    Examples
    --------
    >>> import manyhands as mh
    >>> mh.DawidSkene in mh.categorical.all_aggregators()
    True
    """
    check_choice("kind", kind, tuple(Estimator._bases))
    return [cls for cls in concrete(Estimator._bases[kind]) if cls._kind == kind]
