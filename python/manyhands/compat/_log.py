"""Pandas frames to tables and back, for the twins of pandas libraries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.estimator import Array
from manyhands._base.labels import warn_of_many
from manyhands.categorical.table import Annotations

if TYPE_CHECKING:
    import pandas as pd

    Frame = pd.DataFrame
    Series = pd.Series[Any]
    Index = pd.Index[Any]

Codes = npt.NDArray[np.intp]

COLUMNS = ["task", "worker", "label"]


def import_pandas() -> Any:
    """Import pandas, which the rest of manyhands does without."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "manyhands.compat takes and returns pandas frames, and pandas is not installed: "
            "pip install 'manyhands[frames]', or use the classes of manyhands itself, which do not need it"
        ) from error
    return pandas


def log_columns(data: Frame) -> Frame:
    """Return the three columns of a log; errors name what is wrong with it."""
    if not isinstance(data, import_pandas().DataFrame):
        library = type(data).__module__.split(".")[0]
        raise TypeError(
            f"expected a pandas DataFrame, not {library}'s {type(data).__name__}; the classes of manyhands "
            "itself take polars, pyarrow and duckdb too (see manyhands.Annotations.from_frame)"
        )
    absent = [column for column in COLUMNS if column not in data.columns]
    if absent:
        raise KeyError(
            f"no column {', '.join(map(repr, absent))}; the columns are "
            f"{', '.join(map(repr, data.columns[:20]))} (rename yours to task, worker and label)"
        )
    columns: Frame = data[COLUMNS]
    return columns


@dataclass(frozen=True)
class Log:
    """A frame as a table, and the names of its codes.

    ``tasks``, ``workers`` and ``classes`` are indexes in code order, named and typed as the frame's columns.
    """

    data: Frame
    votes: Annotations
    tasks: Index
    workers: Index
    classes: Index

    @classmethod
    def of(cls, data: Frame, classes: Iterable[Any] | None = None) -> Log:
        """Encode a frame of at least one row. Classes are the labels that occur, unless more are given."""
        if classes is None and getattr(data["label"].dtype, "kind", "") == "f":
            # Elsewhere numbers with fractions are refused as labels; where others take them, so do their twins.
            said = np.unique(data["label"].dropna().to_numpy())
            warn_of_many(len(said), len(data), "label column 'label'")
            classes = said if len(said) else None
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

    def agreement(self, posterior: Array) -> Series:
        """Share of each worker's labels that name the winner of their task."""
        winners, _ = _core.winners(posterior)
        agree, total = _core.worker_agreement(self.votes.table, winners.astype(np.int32))
        return series(agree / total, self.workers, "skill")

    def seen(self) -> npt.NDArray[np.bool_]:
        """Which worker used which label, (n_workers, n_classes)."""
        _, workers, labels = self.votes.codes()
        seen = np.zeros((self.votes.n_workers, self.votes.n_classes), np.bool_)
        seen[workers, labels] = True
        return seen

    # Rows without a label may name tasks and workers that have no code: hence the filters below.

    def task_order(self) -> Codes:
        """Task codes in the order in which the rows first name them."""
        codes = find(self.tasks, self.data["task"].unique())
        return codes[codes >= 0]

    def worker_order(self) -> Codes:
        """Worker codes in the order in which the rows first name them."""
        codes = find(self.workers, self.data["worker"].unique())
        return codes[codes >= 0]

    def pair_order(self) -> tuple[Codes, Codes]:
        """Worker and label codes of the pairs that occur, in the order in which the rows first name them."""
        pairs = self.data[["worker", "label"]].drop_duplicates()
        workers, labels = find(self.workers, pairs["worker"]), find(self.classes, pairs["label"])
        return workers[labels >= 0], labels[labels >= 0]


def _index(names: npt.NDArray[Any], column: Series) -> Index:
    """Return the names of a column's codes, with the dtype of the column or of its categories."""
    pandas = import_pandas()
    categories = getattr(column.dtype, "categories", None)
    dtype = column.dtype if categories is None else categories.dtype
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
    named: Series = import_pandas().Series(values, index=index, name=name)
    return named


# What there is of a log without rows: axes and dtypes as crowd-kit has them.


def no_labels() -> Series:
    """Return the answers to no task."""
    return series(np.zeros(0, object), None, "agg_label")


def no_series(name: str, column: Series) -> Series:
    """Name a Series without entries, by a column without rows."""
    return series(np.zeros(0), _no_index(column), name)


def no_probas(data: Frame) -> Frame:
    """Return posteriors of no task."""
    frame: Frame = import_pandas().DataFrame(np.zeros((0, 0)), _no_index(data["task"]), _no_index(data["label"]))
    return frame


def _no_index(column: Series) -> Index:
    return _index(np.zeros(0, object), column)
