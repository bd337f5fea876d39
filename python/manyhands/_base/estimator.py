"""What all estimators share, whatever kind of answers they learn from: parameters, fitting, results, files."""

from __future__ import annotations

import inspect
import json
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt

from manyhands._base import html, persist
from manyhands._base.checks import plural
from manyhands._base.fitted import Fit as Fit
from manyhands._base.fitted import Fitted, TaskFitted, pack, unpack
from manyhands._base.names import Names
from manyhands._base.overlap import Doubts, doubts
from manyhands._base.progress import Callback, reporting
from manyhands._base.results import Results
from manyhands._base.spelling import did_you_mean
from manyhands._base.table import Records
from manyhands._base.task_table import Answers
from manyhands.errors import IdentifiabilityWarning, NotFittedError, OverlapWarning

if TYPE_CHECKING:
    import pyarrow as pa

Array = npt.NDArray[np.float64]
Progress = bool | Callback
T = TypeVar("T")


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
        allowed = self._parameter_names()
        for name, value in params.items():
            if name not in allowed:
                hint = did_you_mean(name, allowed)
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}{hint}; it has {', '.join(allowed)}")
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


A = TypeVar("A", bound=Records)
B = TypeVar("B", bound=Answers)
F = TypeVar("F", bound=Fit)
S = TypeVar("S", bound=Fitted[Fit])
TS = TypeVar("TS", bound=TaskFitted[Fit])


class KnowsWorkers(ABC):
    """Parameters of workers by name, from a fit; a subclass keeps `_workers` and `_n_labels`."""

    _workers: Names
    _n_labels: npt.NDArray[np.int64]

    @abstractmethod
    def _fitted(self) -> Any:
        """Raise `NotFittedError` before ``fit``."""

    @property
    def workers_(self) -> npt.NDArray[Any]:
        """Names of the workers, in the order of all results about them."""
        self._fitted()
        return self._workers.values

    def _carried_over(self, per_worker: Array, known: npt.NDArray[np.int64]) -> Array:
        """What was learned of each worker, for a table whose worker m was worker known[m] in fit, or -1 for no worker.

        A worker not seen before gets the average, weighted by numbers of labels.
        """
        values = per_worker[known]
        values[known < 0] = np.average(per_worker, axis=0, weights=self._n_labels)
        return values


class Estimator(Parameters, ABC, Results, persist.Saved, Generic[A, F, S]):
    """Base of what is fitted to a table of answers of kind `A`, finds a fit of kind `F`, and publishes an `S`.

    A base for one kind of answers names it in `_kind`, in `_parts` what its results are about, and the classes of its
    fits in `_fit_type` and `_fitted_type`. A method gives ``_fit``, and the default of :func:`manyhands.aggregate` for
    its kind is declared by ``class Best(Base, default=True)``. ``fit`` validates and stores, results are read-only
    properties with a trailing underscore, and refitting forgets.
    """

    #: What the answers are, as `all_aggregators` calls it.
    _kind: ClassVar[str]
    #: The base of each kind; it enters itself when it is defined.
    _bases: ClassVar[dict[str, type[Estimator[Any, Any, Any]]]] = {}
    #: The method to use for each kind, or a part of it that a table names, where no worker chose one.
    _defaults: ClassVar[dict[str, type[Estimator[Any, Any, Any]]]] = {}
    #: The attribute that holds the answers; ``answers_`` is another name of it.
    _answer: ClassVar[str]

    #: What ``_fit`` returns, and what is published: the fit with names and counts.
    _fit_type: ClassVar[type[Fit]]
    _fitted_type: ClassVar[type[Fitted[Any]]]
    #: Parameters that are data even where they could be written as settings: files do not hold them.
    _data_parameters: ClassVar[tuple[str, ...]] = ()
    #: Checks of `manyhands.testing` that it cannot pass whatever its settings, by name, each with the reason.
    _skipped_checks: ClassVar[Mapping[str, str]] = {}

    #: All results, replaced in one step: another thread sees all of a fit or nothing.
    _state: S | None = None

    def __init_subclass__(cls, *, default: bool | str = False, **rest: Any) -> None:
        if "_kind" in vars(cls):
            Estimator._bases[cls._kind] = cls
            cls._file_kind = f"{cls._kind} model"
        super().__init_subclass__(**rest)
        if default:
            Estimator._defaults[cls._kind if default is True else default] = cls

    # --------------------------------------------------------------------------------------------------- fit

    def _as_table(self, answers: Any) -> A:
        """The table itself, or one made of a frame."""
        table: Any = Records._kinds[self._kind]._as_table(answers)
        return cast(A, table)

    @abstractmethod
    def _fit(self, votes: A, progress: Callback | None) -> F:
        """Map a table to a fit; parameters are checked here, before any work."""

    def _publish(self, fit: F, votes: A, /, **more: Any) -> S:
        """Return a fit with names and counts of its table."""
        kind: Any = self._fitted_type
        names_by_field = {
            one.name: getattr(votes, f"_{one.name}") for one in fields(kind) if hasattr(votes, f"_{one.name}")
        }
        summary: S = kind(**{"fit": fit, "n_labels": votes.labels_per_worker, "votes": votes, **names_by_field, **more})
        return summary

    def _check_room(self, votes: A) -> None:
        """Raise for what cannot fit in memory."""

    def _doubts(self, votes: A) -> Doubts:
        """What a table leaves open, whatever the method."""
        return Doubts()

    def _loud(self, fit: F) -> list[tuple[tuple[str, ...], type[Warning]]]:
        """What a fit warns of, by kind of warning."""
        return [(fit.remarks, IdentifiabilityWarning)]

    def _iterations(self) -> int | None:
        """Most iterations a fit can take, for the progress bar."""
        return getattr(self, "max_iter", None)

    def _total(self) -> int | None:
        """The same, None where parameters are not even numbers: ``_fit`` specifies which."""
        with suppress(TypeError):
            return self._iterations()
        return None

    def fit(self, votes: Any, *, progress: Progress = False) -> Self:
        """Learn from annotations.

        Parameters
        ----------
        votes
            A table, such as :class:`~manyhands.Annotations`, or a frame with well-known column names.
        progress : bool or callable, default False
            True for a progress bar, or a function called now and then as ``progress(iteration, objective)``, and in any
            case at the end.
        """
        self._fit_apart(votes, progress)
        return self

    def _fit_apart(self, votes: Any, progress: Progress) -> Self:
        """Fit, publish, and return a copy that holds this fit whatever another thread publishes."""
        fitted = copy(self)
        votes = self._as_table(votes)
        self._check_room(votes)
        with reporting(progress, self._total(), type(self).__name__) as callback:
            result = fitted._fit(votes, callback)
            if callback is not None:
                callback.finish(result.n_iter, result.objective)
        if not isinstance(result, self._fit_type):
            raise TypeError(
                f"{type(self).__name__}._fit returned {type(result).__name__}, and its files hold "
                f"{self._fit_type.__name__}: name the class in _fit_type"
            )
        doubts = self._doubts(votes)
        for remarks, category in ((doubts.loud, OverlapWarning), *self._loud(result)):
            if remarks:
                warnings.warn(f"{type(self).__name__}: {' '.join(remarks)}", category, stacklevel=3)
        result = replace(result, remarks=(*doubts.loud, *result.remarks, *doubts.quiet))
        self._state = fitted._state = self._publish(result, votes)
        return fitted

    # ----------------------------------------------------------------------------------------------- results

    def _fitted(self) -> S:
        """Return what was published; take it once, and all of it belongs to one fit."""
        if self._state is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(votes) first")
        return self._state

    def __sklearn_is_fitted__(self) -> bool:
        return self._state is not None

    def __repr__(self) -> str:
        text = super().__repr__()
        now = self._state
        if now is None:
            return text
        sizes = (plural(len(getattr(now, part)), part.removesuffix("s")) for part in self._parts)
        return f"{text}, fitted to {' and '.join(sizes)}"

    @property
    def answers_(self) -> Any:
        """The answers, whatever their kind: the attribute that the kind names after them, such as ``labels_``."""
        self._fitted()
        return getattr(self, self._answer)

    @property
    def workers_(self) -> npt.NDArray[Any]:
        """Names of the workers, in the order of all results about them."""
        return self._fitted().workers.values

    @property
    def confidence_(self) -> Array:
        """Probability that each answer is right, one per task or item; NaN for a method without such an estimate."""
        return np.full(len(getattr(self._fitted(), self._parts[0])), np.nan)

    def fit_predict(self, votes: Any, *, progress: Progress = False) -> Any:
        """Fit and return :attr:`answers_`."""
        return self._fit_apart(votes, progress).answers_

    def to_pandas(self) -> Any:
        """Return :meth:`to_frame` as a pandas frame."""
        return self.to_frame().to_pandas()

    def to_polars(self) -> Any:
        """Return :meth:`to_frame` as a polars frame."""
        import polars

        return polars.from_arrow(self.to_frame())

    def _repr_html_(self) -> str:
        if self._state is None:
            return html.block(repr(self))
        return html.block(repr(self)) + html.table(self.to_frame())

    @property
    def history_(self) -> Array:
        """The objective after each iteration; empty where the method has none."""
        return self._fitted().fit.history

    @property
    def objective_(self) -> float:
        """The objective at the end; NaN where the method has none."""
        return self._fitted().fit.objective

    @property
    def n_iter_(self) -> int:
        """Iterations made."""
        return self._fitted().fit.n_iter

    @property
    def converged_(self) -> bool:
        """Whether the stopping rule was met."""
        return self._fitted().fit.converged

    @property
    def remarks_(self) -> tuple[str, ...]:
        """What is doubtful about the answer, or was done instead of what was asked; empty where nothing is."""
        return self._fitted().fit.remarks

    # ------------------------------------------------------------------------------------------- persistence

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a versioned file that holds data only; read it with :func:`manyhands.load`.

        Parameters that are data rather than settings (gold labels, given starts) are not written. The file appears when
        it is whole and on disk, and an older one of that name stays until then; checksums detect a damaged one.
        """
        now = self._fitted()
        params = {
            name: without_numpy(value) for name, value in self.get_params().items() if name not in self._data_parameters
        }
        arrays: dict[str, npt.NDArray[Any]] = {}
        settings: dict[str, Any] = {}
        pack(now, arrays, settings)
        meta = {
            "class": file_name(type(self)),
            "params": {name: value for name, value in params.items() if _is_setting(value)},
            "fit": settings,
        }
        persist.write(path, self._file_kind, meta, arrays, read_back=self._bases[self._kind]._load)

    @classmethod
    def _load(cls, content: persist.Content) -> Self:
        # Classes of third parties too, as far as they are imported: reading a file imports nothing.
        estimator_class = {file_name(kind): kind for kind in concrete(cls, "")}.get(str(content.meta.get("class")))
        params = content.meta.get("params")
        if (
            estimator_class is None
            or not isinstance(params, dict)
            or not set(params) <= set(estimator_class._parameter_names())
        ):
            raise content.damaged("it names no estimator of this version, nor one that was imported")
        if not all(_is_setting(value) for value in params.values()):
            raise content.damaged("its settings are not what manyhands writes")
        model = estimator_class(**{name: _restore_tuples(value) for name, value in params.items()})
        state: Any = unpack(estimator_class._fitted_type, content, {}, parts={"fit": estimator_class._fit_type})
        model._state = state
        return model


class TaskEstimator(Estimator[B, F, TS], Generic[B, F, TS]):
    """Base of the estimators that are fitted to answers to tasks and return one result per task."""

    _parts: ClassVar[tuple[str, ...]] = ("tasks", "workers")

    def to_frame(self) -> pa.Table:
        """Return the answers as an Arrow table: task, answer, ``confidence``, then the rest."""
        return self._to_frame(self._fitted())

    def _to_frame(self, now: TS) -> pa.Table:
        """What `to_frame` returns of a fit."""
        raise NotImplementedError

    def _doubts(self, votes: B) -> Doubts:
        return doubts(votes)

    @property
    def tasks_(self) -> npt.NDArray[Any]:
        """Names of the tasks, in the order of all results about them."""
        return self._fitted().tasks.values


def file_name(kind: type[Any]) -> str:
    """What a file calls a class: the library's go by their name, wherever they move."""
    ours = kind.__module__.startswith("manyhands.")
    return kind.__name__ if ours else f"{kind.__module__}.{kind.__qualname__}"


def without_numpy(value: Any) -> Any:
    """A setting with Python's numbers in the place of NumPy's, which are no less plain."""
    if type(value) in (list, tuple):
        return type(value)(map(without_numpy, value))
    if isinstance(value, Mapping):
        return {without_numpy(name): without_numpy(each) for name, each in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _is_setting(value: Any) -> bool:
    if isinstance(value, dict):
        return False
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def _restore_tuples(value: Any) -> Any:
    """Give a setting its type back: JSON has lists only, parameters of several numbers are tuples."""
    flat = isinstance(value, list) and not any(isinstance(item, list) for item in value)
    return tuple(value) if flat else value


def concrete(base: type[T], package: str = "manyhands.") -> list[type[T]]:
    """The classes of a package that derive from another and can be used, by name; of one name, in their order.

    A dictionary of them by name holds the last of equal names: a cell of a notebook may define a class again.
    """
    classes = list(base.__subclasses__())
    for cls in classes:
        classes.extend(cls.__subclasses__())
    usable = [
        cls for cls in dict.fromkeys(classes) if not inspect.isabstract(cls) and cls.__module__.startswith(package)
    ]
    return sorted(usable, key=lambda cls: cls.__name__)


def weighted_median(values: Array, weights: Array) -> float:
    """The weighted median, between the two middle values where there is no one."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(np.interp(total[-1] / 2, total - weights[order] / 2, values[order]))
