"""One small log that tests of tables share, and ways to write and read it."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import manyhands as mh

# A log whose rows, tasks, workers and labels are all out of order; w2 answered "b" twice.
TASKS = ["b", "a", "c", "b", "a", "b", "b"]


WORKERS = ["w2", "w1", "w1", "w1", "w3", "w3", "w2"]


LABELS = ["dog", "cat", "dog", "ant", "dog", "dog", "dog"]


ROWS = sorted(zip(TASKS, WORKERS, LABELS, strict=True))


LOG = {"task": TASKS, "worker": WORKERS, "label": LABELS}


NUMBERS = {"task": [30, -7, 2**60, 30], "worker": [5, 5, 0, 1], "label": [1, 0, 1, 1]}


def rows_of(votes: mh.Annotations) -> list[tuple]:
    frame = votes.to_frame()
    return list(zip(*(frame.column(name).to_pylist() for name in frame.column_names), strict=True))


def one_column(values, **options) -> mh.Annotations:
    """A table whose tasks are the values; workers and labels are of no interest."""
    n = len(values)
    return mh.Annotations.from_arrays(values, np.arange(n), np.zeros(n, np.int64), **options)


def duckdb_relation(log: dict) -> duckdb.DuckDBPyRelation:
    table = pa.table(log)
    return duckdb.connect().from_arrow(table)


FRAMES = {
    "mapping": dict,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow table": pa.table,
    "arrow batch": pa.RecordBatch.from_pydict,
    "arrow reader": lambda log: pa.table(log).to_reader(),
    "duckdb relation": duckdb_relation,
}
