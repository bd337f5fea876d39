"""What all aggregators share: parameters in the scikit-learn manner, results, frames, prediction, persistence."""

from __future__ import annotations

import inspect
import json
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, overload

import numpy as np
import numpy.typing as npt

from manyhands import _core, metrics
from manyhands.checks import counted
from manyhands.errors import FileFormatError, IdentifiabilityWarning, NotFittedError, OverlapWarning
from manyhands.progress import Callback, reporting
from manyhands.table import arrow, persist
from manyhands.table.annotations import Annotations, as_annotations
from manyhands.table.checks import made_table
from manyhands.table.limits import check_memory
from manyhands.table.names import Names
from manyhands.table.overlap import doubts

if TYPE_CHECKING:
    import pyarrow as pa

Array = npt.NDArray[np.float64]
Progress = bool | Callback
T = TypeVar("T")

#: What to do where confusion matrices do not fit.
NO_MATRICES = "ask for labels_ and workers_frame() of a SparseOneCoin, which needs none"

#: What to do where numbers for all classes do not fit.
MANY_CLASSES = (
    "if the labels are classes, not numbers or ids, SparseOneCoin takes any number of them in memory that the labels "
    "given determine"
)


class Parameters:
    """Constructor arguments as parameters: ``get_params``, ``set_params``, ``repr``, and so ``sklearn.base.clone``."""

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Change arguments given to the constructor; takes effect at the next ``fit``."""
        known = self._parameter_names()
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __sklearn_clone__(self) -> Self:
        """A fresh estimator with the same parameters, shared and not copied: a fitted start stays fitted."""
        return type(self)(**self.get_params())

    def __repr__(self) -> str:
        defaults = {name: p.default for name, p in inspect.signature(type(self)).parameters.items()}
        changed = {name: value for name, value in self.get_params().items() if not _same(value, defaults[name])}
        return f"{type(self).__name__}({', '.join(f'{name}={_short(value)}' for name, value in changed.items())})"


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and not isinstance(a, np.ndarray) and bool(a == b))


def _short(value: Any) -> str:
    text = f"array{value.shape}" if isinstance(value, np.ndarray) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True)
class Fit:
    """What an aggregator learns from a table: class posteriors, and how workers err.

    ``history`` is the objective after each iteration, empty where a method has none. ``confusion`` may be a function
    that makes it, for methods that do not need it themselves: it is called when somebody asks; so may ``posterior``.
    """

    posterior: Array | Callable[[], Array]
    confusion: Array | Callable[[], Array]
    prior: Array
    history: Array
    n_iter: int = 1
    converged: bool = True
    #: What is doubtful about the answer, or was done instead of what was asked; in whole sentences.
    remarks: tuple[str, ...] = ()

    @property
    def objective(self) -> float:
        """The objective at the end; NaN where the method has none."""
        return float(self.history[-1]) if len(self.history) else float("nan")

    def made(self) -> Array:
        """The confusion matrices, made now if they were not yet, and kept."""
        found = self.confusion
        if callable(found):
            found = found()
            object.__setattr__(self, "confusion", found)
        return found

    def rows(self) -> Array:
        """The posteriors, made now if they were not yet."""
        return self.posterior() if callable(self.posterior) else self.posterior


class Acquainted(ABC):
    """Somebody who knows a crowd from a fit: its workers by name, the classes, and how each worker errs.

    A subclass keeps `_workers`, `_classes` and `_n_labels`, and has ``confusion_`` and ``prior_``.
    """

    _workers: Names
    _classes: Names
    #: Classes, then abstentions, where it learnt from those.
    _all_labels: Names | None = None
    _n_labels: npt.NDArray[np.int64]

    @abstractmethod
    def _fitted(self) -> Any:
        """Raise `NotFittedError` before ``fit``."""

    @property
    @abstractmethod
    def confusion_(self) -> Array:
        """Confusion matrix of each worker, (n_workers, n_classes true, n_classes observed); rows sum to one."""

    @property
    @abstractmethod
    def prior_(self) -> Array:
        """Class prior, (n_classes,)."""

    def _snapshot(self) -> Self:
        """The same as it is now, whatever another thread does with it: all that belongs to one fit."""
        taken = object.__new__(type(self))
        vars(taken).update(vars(self))
        return taken

    @property
    def _labels(self) -> Names:
        """What codes of labels stand for."""
        return self._classes if self._all_labels is None else self._all_labels

    @property
    def workers_(self) -> npt.NDArray[Any]:
        """Names of the workers, aligned with `confusion_`."""
        self._fitted()
        return self._workers.values

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """Names of the classes, in code order."""
        self._fitted()
        return self._classes.values

    def workers_frame(self) -> pa.Table:
        """Return one row a worker, as an Arrow table.

        ``n_labels``; ``accuracy``, the expected share of right answers under the class prior; ``information``, the
        bits one answer carries about the class; ``spammer_score`` of Raykar & Yu (2012), 0 for an answer that does not
        depend on the class, 1 for perfect.
        """
        self._fitted()
        now = self._snapshot()
        return arrow.table(
            {
                "worker": now._workers.arrow(),
                "n_labels": now._n_labels,
                "accuracy": metrics.skill(now.confusion_, now.prior_),
                "information": metrics.information(now.confusion_, now.prior_),
                "spammer_score": metrics.spammer_score(now.confusion_),
            }
        )

    def _carried_over(self, per_worker: Array, known: npt.NDArray[np.int64]) -> Array:
        """What was learnt of each worker, for the workers of another table; see `_posterior`.

        A worker not seen before gets the average, weighted by numbers of labels.
        """
        carried = per_worker[known]
        carried[known < 0] = np.average(per_worker, axis=0, weights=self._n_labels)
        return carried

    def _recode(self, votes: Annotations) -> _core.Table:
        """The table with this model's class codes."""
        code_of = self._labels.match(votes._labels)
        tasks, workers, labels = votes.codes()
        missing = (code_of < 0) & (np.bincount(labels, minlength=len(code_of)) > 0)
        if missing.any():
            unknown = votes.labels[missing].tolist()
            raise ValueError(
                f"labels {', '.join(map(repr, unknown[:3]))} were not among the classes seen in fit "
                f"({', '.join(map(repr, self._classes.values[:5].tolist()))}); pass classes= when the tables are made"
            )
        codes = np.maximum(code_of, 0).astype(np.uint16)[labels]
        sizes = (votes.n_tasks, votes.n_workers, len(self._labels))
        return made_table(tasks, workers, codes, votes.weights, *sizes, n_classes=len(self._classes))


class Aggregator(Acquainted, Parameters):
    """Base of all aggregators: a subclass gives ``_fit``, which maps a table to a `Fit`.

    ``fit`` validates and stores, results are read-only properties with a trailing underscore, and refitting forgets.
    """

    #: Arrays that a subclass learns beyond the `Fit`, by attribute name; saved with the model.
    _learnt: ClassVar[tuple[str, ...]] = ()
    #: Shapes of those that are not one number a worker, in the letters n, m and k for tasks, workers and classes,
    #: digits, and other letters for sizes that the arrays themselves must agree on.
    _learnt_shapes: ClassVar[Mapping[str, str]] = {}
    #: Those that files of earlier versions lack, and the number that then fills them; NaN says "not known", which a
    #: newer file may say too.
    _learnt_blanks: ClassVar[Mapping[str, float]] = {}
    #: Those that may be infinite.
    _learnt_infinite: ClassVar[tuple[str, ...]] = ()

    _result: Fit | None = None

    @abstractmethod
    def _fit(self, votes: Annotations, progress: Callback | None) -> Fit:
        """Map a table to a `Fit`; parameters are checked here, before any work."""

    def _learnt_arrays(self) -> Mapping[str, str]:
        """Names and shapes of the arrays that are saved with the model beyond the `Fit`."""
        return {name: self._learnt_shapes.get(name, "m") for name in self._learnt}

    def _hears_abstentions(self) -> bool:
        """Whether abstentions tell it something; if not, they are missing answers."""
        return False

    def _knows_abstentions(self) -> bool:
        """Whether it was fitted to a table with abstentions, and learnt from them."""
        return self._result is not None and len(self._labels) > len(self._classes)

    def _bytes(self, votes: Annotations) -> int:
        """Bytes of what a fit gives back, at the least: posteriors and confusion matrices."""
        return 8 * votes.n_labels * (votes.n_tasks + votes.n_workers * votes.n_classes)

    def _iterations(self) -> int | None:
        """Most iterations a fit can take, for the progress bar."""
        return getattr(self, "max_iter", None)

    def _total(self) -> int | None:
        """The same, None where parameters are not even numbers: ``_fit`` says which."""
        with suppress(TypeError):
            return self._iterations()
        return None

    def fit(self, votes: Any, *, progress: Progress = False) -> Self:
        """Learn from annotations.

        Parameters
        ----------
        votes
            An :class:`~manyhands.Annotations` table, or a frame with well-known column names.
        progress
            True for a progress bar, or a function called now and then as ``progress(iteration, objective)``, and in any
            case at the end.
        """
        self._fit_apart(votes, progress)
        return self

    def _fit_apart(self, votes: Any, progress: Progress) -> Self:
        """Fit a copy, and be like it in one step: another thread sees all of a fit or nothing. Returns the copy."""
        fitted = self._snapshot()
        votes = as_annotations(votes, abstentions=self._hears_abstentions())
        check_memory(self._bytes(votes), f"{type(self).__name__} of {_sizes(votes)}", MANY_CLASSES)
        with reporting(progress, self._total(), type(self).__name__) as callback:
            result = fitted._fit(votes, callback)
            if callback is not None:
                callback.finish(result.n_iter, result.objective)
        found = doubts(votes)
        for remarks, category in ((found.loud, OverlapWarning), (result.remarks, IdentifiabilityWarning)):
            if remarks:
                warnings.warn(f"{type(self).__name__}: {' '.join(remarks)}", category, stacklevel=3)
        result = replace(result, remarks=(*found.loud, *result.remarks, *found.quiet))
        fitted._adopt(result, votes._tasks, votes._workers, votes._classes, votes.labels_per_worker)
        fitted._all_labels = votes._labels
        vars(self).update(vars(fitted))
        return fitted

    def _adopt(
        self, result: Fit, tasks: Names, workers: Names, classes: Names, n_labels: npt.NDArray[np.int64]
    ) -> None:
        self._result = result
        self._tasks, self._workers, self._classes = tasks, workers, classes
        self._all_labels = None
        self._n_labels = n_labels
        self._winners, self._tied = self._winning(result)

    def _winning(self, result: Fit) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.bool_]]:
        """Winning class code of each task, and whether another ties with it."""
        return self._decide(result.rows())

    def _decide(self, posterior: Array) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.bool_]]:
        """Winning class code of each row, and whether another ties with it."""
        return _core.winners(posterior)

    def _named(self, winners: npt.NDArray[np.uint16], tied: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
        """Labels of winning codes."""
        return self._classes.values[winners]

    def fit_predict(self, votes: Any, *, progress: Progress = False) -> npt.NDArray[Any]:
        """Fit and return the label of each task."""
        return self._fit_apart(votes, progress).labels_

    def fit_predict_proba(self, votes: Any, *, progress: Progress = False) -> Array:
        """Fit and return the class posterior of each task, (n_tasks, n_classes)."""
        return self._fit_apart(votes, progress).posterior_

    # ----------------------------------------------------------------------------------------------- results

    def _fitted(self) -> Fit:
        if self._result is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(votes) first")
        return self._result

    def __getstate__(self) -> dict[str, Any]:
        if self._result is not None:
            _ = self.confusion_  # a function cannot be pickled, what it makes can
        return self.__dict__.copy()

    def __sklearn_is_fitted__(self) -> bool:
        return self._result is not None

    @property
    def labels_(self) -> npt.NDArray[Any]:
        """The winning class of each task, by name, (n_tasks,). The lowest class code wins a tie."""
        self._fitted()
        now = self._snapshot()
        return now._named(now._winners, now._tied)

    @property
    def posterior_(self) -> Array:
        """Class posterior of each task, (n_tasks, n_classes); rows sum to one."""
        return self._fitted().rows()

    def _rows_of_tasks(self, tasks: npt.NDArray[np.int64]) -> Array:
        """Class posteriors of some tasks, by their codes."""
        return self.posterior_[tasks]

    @property
    def tied_(self) -> npt.NDArray[np.bool_]:
        """Whether another class is as probable as the winner, (n_tasks,)."""
        self._fitted()
        return self._tied

    @property
    def confusion_(self) -> Array:
        """Confusion matrix of each worker, (n_workers, n_classes true, n_classes observed); rows sum to one.

        Where workers may abstain, and the method learns from that, there are further columns for abstentions.
        """
        fit = self._fitted()
        if callable(fit.confusion):
            m, k = len(self._workers), len(self._classes)
            check_memory(8 * m * k * k, f"confusion matrices of {counted(m, 'worker')} and {k:,} classes", NO_MATRICES)
        return fit.made()

    @property
    def prior_(self) -> Array:
        """Class prior, (n_classes,)."""
        return self._fitted().prior

    @property
    def history_(self) -> Array:
        """The objective after each iteration; empty where the method has none."""
        return self._fitted().history

    @property
    def objective_(self) -> float:
        """The objective at the end; NaN where the method has none."""
        return self._fitted().objective

    @property
    def n_iter_(self) -> int:
        """Iterations made."""
        return self._fitted().n_iter

    @property
    def converged_(self) -> bool:
        """Whether the stopping rule was met."""
        return self._fitted().converged

    @property
    def remarks_(self) -> tuple[str, ...]:
        """What is doubtful about the answer, or was done instead of what was asked; empty where nothing is."""
        return self._fitted().remarks

    @property
    def tasks_(self) -> npt.NDArray[Any]:
        """Names of the tasks, aligned with `labels_` and `posterior_`."""
        self._fitted()
        return self._tasks.values

    # ------------------------------------------------------------------------------------------------ frames

    def to_frame(self) -> pa.Table:
        """Return task, label, confidence and whether it was a tie, as an Arrow table (``.to_pandas()``)."""
        self._fitted()
        now = self._snapshot()
        return _labels_frame(now._tasks, now._classes, now.posterior_, now._winners, now._tied)

    # -------------------------------------------------------------------------------------------- prediction

    def predict(self, votes: Any) -> npt.NDArray[Any]:
        """Label tasks, old or new, from annotations by known workers; see :meth:`predict_proba`."""
        self._fitted()
        now = self._snapshot()
        return now._named(*now._decide(now.predict_proba(votes)))

    def predict_proba(self, votes: Any) -> Array:
        """Class posteriors of tasks, old or new, with the workers as they were learnt: (votes.n_tasks, n_classes).

        A worker who was not seen in ``fit`` counts as the crowd's average worker (confusion matrices averaged with the
        number of labels as weights). Columns are :attr:`classes_`; a label outside them is an error.
        """
        self._fitted()
        now = self._snapshot()
        k = len(now._classes)
        votes = as_annotations(votes, abstentions=now._knows_abstentions())
        check_memory(8 * k * votes.n_tasks, f"a posterior of {_sizes(votes)}", MANY_CLASSES)
        table = now._recode(votes)
        known = now._workers.match(votes._workers)
        return np.ascontiguousarray(now._posterior(table, known)[:, :k])

    def _posterior(self, table: _core.Table, known: npt.NDArray[np.int64]) -> Array:
        """Posteriors of a table whose worker m was worker known[m] in fit, or nobody where that is -1."""
        return _core.em_posterior(table, self.prior_, self._carried_over(self.confusion_, known))

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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a versioned file that holds data only; read it with :func:`manyhands.load`.

        Parameters that are data rather than settings (gold labels, given starts) are not written. The file appears when
        it is whole and on disk, and an older one of that name stays until then; checksums tell a damaged one.
        """
        self._fitted()
        self._snapshot()._save(path)

    def _save(self, path: str | os.PathLike[str]) -> None:
        fit = self._fitted()
        params = {name: _plain(value) for name, value in self.get_params().items()}
        params = {name: value for name, value in params.items() if _is_setting(value)}
        meta = {
            "class": type(self).__name__,
            "params": params,
            "n_iter": fit.n_iter,
            "converged": fit.converged,
            "remarks": list(fit.remarks),
        }
        arrays = {"prior": fit.prior, "history": fit.history, "n_labels": self._n_labels} | self._packed()
        for part in ("tasks", "workers", "classes"):
            arrays |= persist.pack_names(part, getattr(self, f"_{part}"))
        arrays |= persist.pack_labels(self._classes, self._labels)
        persist.write(path, "aggregator", meta, arrays, read_back=Aggregator._load)

    def _packed(self) -> dict[str, npt.NDArray[Any]]:
        """What was learnt beside the prior, as arrays."""
        learnt = {f"learnt.{name}": getattr(self, name) for name in self._learnt_arrays()}
        return {"posterior": self._fitted().rows(), "confusion": self.confusion_} | learnt

    def _unpack(self, content: persist.Content, sizes: Mapping[str, int]) -> tuple[Array, Array | Callable[[], Array]]:
        """Take back what `_packed` gave; returns posterior and confusion matrices. Sizes are by letters: n, m, k, l."""
        known = dict(sizes)
        for name, letters in self._learnt_arrays().items():
            setattr(self, name, self._learnt_array(content, name, letters, known))
        n, m, k = sizes["n"], sizes["m"], sizes["k"]
        return _distributions(content, "posterior", (n, k)), _distributions(content, "confusion", (m, k, sizes["l"]))

    def _learnt_array(self, content: persist.Content, name: str, letters: str, known: dict[str, int]) -> Array:
        """An array that was learnt; sizes of letters that are not known yet become known by it."""
        blank, key = self._learnt_blanks.get(name), f"learnt.{name}"
        if blank is not None and key not in content.arrays:
            return np.full([int(letter) if letter.isdigit() else known[letter] for letter in letters], blank)
        array: Array = content.array(key, np.float64, ndim=len(letters), finite=False)
        may_be_blank = blank is not None and np.isnan(blank)
        may_be_infinite = name in self._learnt_infinite
        if not (np.isfinite(array) | (np.isnan(array) & may_be_blank) | (np.isinf(array) & may_be_infinite)).all():
            raise content.damaged(f"its {name.strip('_')} holds numbers that are not finite")
        for letter, size in zip(letters, array.shape, strict=True):
            if size != (int(letter) if letter.isdigit() else known.setdefault(letter, size)):
                raise content.damaged(f"its {name.strip('_')} has shape {array.shape}")
        return array

    @classmethod
    def _load(cls, content: persist.Content) -> Aggregator:
        found = {kind.__name__: kind for kind in all_aggregators()}.get(str(content.meta.get("class")))
        params = content.meta.get("params")
        if found is None or not isinstance(params, dict) or not set(params) <= set(found._parameter_names()):
            raise content.damaged("it names no aggregator of this version")
        if not all(_is_setting(value) for value in params.values()):
            raise content.damaged("its settings are not what manyhands writes")
        model = found(**{name: _unpacked(value) for name, value in params.items()})
        tasks, workers, classes = (content.names(part) for part in ("tasks", "workers", "classes"))
        n, m, k = len(tasks), len(workers), len(classes)
        labels = content.labels(classes)
        n_iter, converged = content.meta.get("n_iter"), content.meta.get("converged")
        remarks = content.meta.get("remarks", [])
        plain = isinstance(remarks, list) and all(isinstance(remark, str) for remark in remarks)
        if type(n_iter) is not int or type(converged) is not bool or not plain or min(n, m, k) < 1:
            raise content.damaged("its settings are incomplete")
        posterior, confusion = model._unpack(content, {"n": n, "m": m, "k": k, "l": len(labels)})
        result = Fit(
            posterior=posterior,
            confusion=confusion,
            prior=_distributions(content, "prior", (k,)),
            history=content.array("history", np.float64, ndim=1),
            n_iter=n_iter,
            converged=converged,
            remarks=tuple(remarks),
        )
        model._adopt(result, tasks, workers, classes, content.array("n_labels", np.int64, shape=(m,)))
        model._all_labels = labels
        return model


def _distributions(content: persist.Content, name: str, shape: tuple[int, ...]) -> Array:
    """Probabilities of a file, which must sum to one along their last axis."""
    found: Array = content.array(name, np.float64, shape=shape)
    if not (found >= 0).all() or np.abs(found.sum(axis=-1) - 1).max() > 1e-6:
        raise content.damaged("it holds probabilities that do not sum to one")
    return found


def _plain(value: Any) -> Any:
    """A NumPy number as a plain one."""
    return value.item() if isinstance(value, np.generic) else value


def _is_setting(value: Any) -> bool:
    if isinstance(value, dict):
        return False
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def _unpacked(value: Any) -> Any:
    """Give a setting its type back: JSON has lists only, parameters of several numbers are tuples."""
    flat = isinstance(value, list) and not any(isinstance(item, list) for item in value)
    return tuple(value) if flat else value


def _labels_frame(
    tasks: Names,
    classes: Names,
    posterior: Array,
    winners: npt.NDArray[np.uint16],
    tied: npt.NDArray[np.bool_],
) -> pa.Table:
    confidence = np.take_along_axis(posterior, winners[:, None].astype(np.int64), axis=1)[:, 0]
    return arrow.table(
        {
            "task": tasks.arrow(),
            "label": classes.take(winners.astype(np.int64)).arrow(),
            "confidence": confidence,
            "tied": tied,
        }
    )


def _sizes(votes: Annotations) -> str:
    tasks, workers = counted(votes.n_tasks, "task"), counted(votes.n_workers, "worker")
    return f"{tasks}, {workers} and {counted(votes.n_labels, 'class', 'classes')}"


def all_aggregators() -> list[type[Aggregator]]:
    """Every aggregator class of the library, by name."""
    return concrete(Aggregator, "manyhands.aggregators")  # type: ignore[type-abstract]


def concrete(base: type[T], package: str) -> list[type[T]]:
    """The classes of a package that derive from another and can be used, by name."""
    found, stack = [], list(base.__subclasses__())
    while stack:
        cls = stack.pop()
        stack.extend(cls.__subclasses__())
        if not inspect.isabstract(cls) and cls.__module__.startswith(package):
            found.append(cls)
    return sorted(found, key=lambda cls: cls.__name__)


@overload
def load(path: str | os.PathLike[str]) -> Any: ...
@overload
def load(path: str | os.PathLike[str], kind: type[T]) -> T: ...
def load(path: str | os.PathLike[str], kind: type[Any] = object) -> Any:
    """Read back what ``save`` wrote: an :class:`~manyhands.Annotations` table or a fitted model.

    The file holds only arrays and plain settings: reading one from a stranger cannot run code. Anything that is not
    such a file, whole and consistent, raises :class:`~manyhands.errors.FileFormatError`.

    Parameters
    ----------
    path
        The file.
    kind
        The class that it must hold, such as ``mh.DawidSkene`` or ``mh.Annotations``: type checkers then know what comes
        back, and a file that holds something else is refused with a `TypeError`.
    """
    found = _loaded(persist.read(path))
    if not isinstance(found, kind):
        raise TypeError(f"{os.fspath(path)} holds {type(found).__name__}, not {kind.__name__}")
    return found


def _loaded(content: persist.Content) -> Any:
    kinds: dict[str, Callable[[persist.Content], Any]] = {
        "annotations": Annotations._load,
        "aggregator": Aggregator._load,
    }
    if content.kind not in kinds:
        raise content.damaged(f"it holds an unknown kind of object, {content.kind[:40]!r}")
    try:
        return kinds[content.kind](content)
    except (TypeError, ValueError, KeyError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise content.damaged(str(error)) from error
