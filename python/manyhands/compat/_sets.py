"""The twin of crowd-kit's aggregation of sets of labels."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from manyhands._base.estimator import Parameters
from manyhands.compat._log import import_pandas, log_columns
from manyhands.compat._voting import MajorityVote

if TYPE_CHECKING:
    from manyhands.compat._log import Frame, Series


class BinaryRelevance(Parameters):
    """Each label as a binary question of its own, answered by another aggregator.

    :class:`manyhands.multilabel.PooledRelevance` learns workers over all labels together, and is the better choice.

    Parameters
    ----------
    base_aggregator
        A class of this module with ``fit_predict``, unfitted; None for a majority vote. Each label has a copy of its
        own.

    Attributes
    ----------
    labels_ : Series
        A list of labels, sorted, by task.

    Notes
    -----
    Time: a fit of the base aggregator for each label that occurs, over all answers.

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import BinaryRelevance
    >>> log = pd.DataFrame({"task": ["t", "t", "t"], "worker": [1, 2, 3], "label": [["a", "b"], ["a"], ["a", "c"]]})
    >>> BinaryRelevance().fit_predict(log).to_dict()
    {'t': ['a']}
    """

    labels_: Series

    def __init__(self, base_aggregator: Any = None) -> None:
        self.base_aggregator = base_aggregator

    def fit(self, data: Frame) -> Self:
        """Aggregate each label that occurs in the lists of the column ``label``."""
        pd = import_pandas()
        data = log_columns(data)
        base = MajorityVote() if self.base_aggregator is None else self.base_aggregator
        if not hasattr(base, "fit_predict"):
            raise TypeError(f"base_aggregator must have fit_predict, which {type(base).__name__} has not")
        rows = data["label"].tolist()
        for place, row in enumerate(rows):
            if not isinstance(row, list | tuple | set | frozenset | np.ndarray):
                raise TypeError(f"label holds {row!r} at row {place}; BinaryRelevance takes lists of labels")
        found: dict[Any, list[Any]] = {task: [] for task in data["task"].unique().tolist()}
        for label in sorted({item for row in rows for item in row}):
            asked = data[["task", "worker"]].assign(label=[int(label in row) for row in rows])
            for task, said in copy.deepcopy(base).fit_predict(asked).items():
                if said:
                    found[task].append(label)
        self.labels_ = pd.Series(found, name="agg_label", dtype=object).rename_axis("task")
        return self

    def fit_predict(self, data: Frame) -> Series:
        """Fit and return ``labels_``."""
        return self.fit(data).labels_
