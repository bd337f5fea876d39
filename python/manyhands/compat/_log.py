"""Pandas frames to tables and back, and what all classes of `manyhands.compat.crowdkit` share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.estimator import Array, Parameters
from manyhands._base.extras import install_command
from manyhands._base.labels import warn_of_many
from manyhands.categorical.table import Annotations

if TYPE_CHECKING:
    import pandas as pd

    Frame = pd.DataFrame
    Series = pd.Series[Any]
    Index = pd.Index[Any]

Codes = npt.NDArray[np.intp]

COLUMNS = ("task", "worker", "label")


def import_pandas() -> Any:
    """Import pandas, which the rest of manyhands does without."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "manyhands.compat takes and returns pandas frames, and pandas is not installed: "
            f"{install_command('frames')}, or use the classes of manyhands itself, which do not need it"
        ) from error
    return pandas


def columns_of(data: Frame, *names: str) -> Frame:
    """Return columns of a frame with rows numbered from 0; errors name what is wrong with it."""
    if not isinstance(data, import_pandas().DataFrame):
        kind = type(data)
        raise TypeError(
            f"expected a pandas DataFrame, not {kind.__module__.split('.')[0]}.{kind.__name__}; the classes of "
            "manyhands itself take polars, pyarrow and duckdb too (see manyhands.Annotations.from_frame)"
        )
    absent = [name for name in names if name not in data.columns]
    if absent:
        there = ", ".join(map(repr, data.columns[:20]))
        raise KeyError(f"no column {', '.join(map(repr, absent))}; the columns are {there} (rename yours)")
    if not len(data):
        raise ValueError("the log has no rows: there is nothing to aggregate")
    columns: Frame = data[list(names)].reset_index(drop=True)
    return columns


@dataclass(frozen=True)
class Log:
    """A frame as a table; ``tasks``, ``workers`` and ``classes`` are indexes in the order of codes."""

    data: Frame
    votes: Annotations
    tasks: Index
    workers: Index
    classes: Index

    @classmethod
    def of(cls, data: Frame, classes: Iterable[Any] | None = None) -> Log:
        """Encode a frame. Classes are the labels that occur, unless more are given."""
        data = columns_of(data, *COLUMNS)
        if classes is None and getattr(data["label"].dtype, "kind", "") == "f":
            # manyhands rejects numbers with fractions as labels; crowd-kit takes them, and so does this.
            labels = np.unique(data["label"].dropna().to_numpy())
            warn_of_many(len(labels), len(data), "label column 'label'")
            classes = labels if len(labels) else None
        votes = Annotations.from_frame(data, task="task", worker="worker", label="label", classes=classes)
        names = zip((votes.tasks, votes.workers, votes.classes), COLUMNS, strict=True)
        return cls(data, votes, *(_index(values, data[column]) for values, column in names))

    def labels(self, posterior: Array) -> Series:
        """Winners of (n_tasks, n_classes) posteriors; the lowest class code among equals."""
        winners, _ = _core.winners(posterior)
        return series(self.classes.take(winners.astype(np.intp)), self.tasks, "agg_label")

    def probas(self, posterior: Array) -> Frame:
        """(n_tasks, n_classes) posteriors as a frame."""
        frame: Frame = import_pandas().DataFrame(posterior, self.tasks, self.classes)
        return frame

    def seen(self) -> npt.NDArray[np.bool_]:
        """Which worker used which label, (n_workers, n_classes)."""
        _, workers, labels = self.votes.codes()
        has_used = np.zeros((self.votes.n_workers, self.votes.n_classes), np.bool_)
        has_used[workers, labels] = True
        return has_used

    def by_worker(self, numbers: Series, what: str, default: float = np.nan) -> Array:
        """Numbers in the order of worker codes; an error if one is missing and there is no default."""
        values: Array = np.append(numbers.to_numpy(float), default)[find(numbers.index, self.workers)]
        missing = self.workers[np.isnan(values)].tolist()
        if missing:
            raise ValueError(
                f"no {what} is known for {len(missing):,} of {len(values):,} workers, such as {missing[0]!r}"
            )
        return values


def _index(names: npt.NDArray[Any], column: Series) -> Index:
    """Return the names of a column's codes, with the dtype of the column or of its categories."""
    pandas = import_pandas()
    dtype = getattr(getattr(column.dtype, "categories", None), "dtype", column.dtype)
    index: Index
    try:
        index = pandas.Index(names, dtype=dtype, name=column.name)
    except (TypeError, ValueError):
        # A table keeps some kinds in another form (times lose their zone): the column has them as they were.
        index = pandas.Index(column.dropna().unique(), name=column.name).sort_values()
    return index


def find(index: Index, values: Any) -> Codes:
    """Positions of values in an index; -1 where they are not."""
    positions: Codes = index.get_indexer(import_pandas().Index(values))
    return positions


def series(values: Any, index: Any, name: str) -> Series:
    """Name a Series."""
    result: Series = import_pandas().Series(values, index=index, name=name)
    return result


class Twin(Parameters):
    """A class of crowd-kit's: ``fit`` sets the answer, ``fit_predict`` returns it."""

    labels_: Series
    skills_: Series
    loss_history_: list[float]

    #: The attribute that holds the answers.
    _answer: ClassVar[str] = "labels_"

    def fit(self, data: Frame, *args: Any, **kwargs: Any) -> Self:
        """Learn from a log."""
        raise NotImplementedError

    def fit_predict(self, data: Frame, *args: Any, **kwargs: Any) -> Any:
        """Fit and return the answers."""
        return getattr(self.fit(data, *args, **kwargs), self._answer)


class LabelTwin(Twin):
    """A class whose answers are labels."""

    probas_: Frame

    def fit_predict_proba(self, data: Frame, *args: Any, **kwargs: Any) -> Frame:
        """Fit and return ``probas_``."""
        return self.fit(data, *args, **kwargs).probas_

    def _publish(self, log: Log, posterior: Array) -> Self:
        self.probas_, self.labels_ = log.probas(posterior), log.labels(posterior)
        return self
