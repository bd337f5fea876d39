"""The directory that a fit on Spark leaves behind: written and read by Spark, wherever Spark can write."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy.typing as npt
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from manyhands._base import persist
from manyhands._base.checks import warn_of_data
from manyhands.categorical.shards.journal import Journal
from manyhands.errors import FileFormatError

T = TypeVar("T")

#: Bytes of a row, at the most, and of the rows that the driver gives away at a time.
CHUNK = 1 << 22
_AT_ONCE = 1 << 25
_BYTES = "name string, chunk long, chunks long, data binary"


class Checkpoint:
    """Frames and runs of bytes by name, in a directory that driver and executors reach: any that Spark can write to."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.spark = spark
        self.path = path.rstrip("/")

    def at(self, name: str) -> str:
        """Where something lies."""
        return f"{self.path}/{name}"

    def read(self, name: str, schema: Any) -> DataFrame | None:
        """A frame that was written, None if there is none."""
        try:
            frame = self.spark.read.schema(schema).parquet(self.at(name))
            _ = frame.schema  # Connect looks for files when it must
        except AnalysisException as error:
            if error.getCondition() == "PATH_NOT_FOUND":
                return None
            raise
        return frame

    def write(self, frame: DataFrame, name: str, mode: str = "overwrite", **options: Any) -> None:
        """Write a frame."""
        frame.write.mode(mode).options(**options).parquet(self.at(name))

    # -------------------------------------------------------------------------------------------------- bytes

    def put(self, name: str, runs: Iterable[tuple[str, bytes]], mode: str = "overwrite") -> None:
        """Write runs of bytes with names of their own."""
        for rows in _batches(runs):
            frame = self.spark.createDataFrame(_table(rows), _BYTES)
            self.write(frame.coalesce(1), name, mode)
            mode = "append"

    def names(self, name: str) -> set[str]:
        """Names of the runs of bytes that were written."""
        return set(self._runs(name).select("name").distinct().toArrow().column(0).to_pylist())

    def chunks(self, name: str, run: str) -> DataFrame:
        """Rows of a run of bytes: chunk, chunks, data."""
        return self._runs(name).where(F.col("name") == run).drop("name")

    def get(self, name: str, run: str) -> bytes | None:
        """A run of bytes, None if it is not there as a whole."""
        return join_chunks(self.chunks(name, run).toArrow())

    def _runs(self, name: str) -> DataFrame:
        # Spark complains at length of a folder that is not there.
        self.write(self.spark.createDataFrame([], _BYTES), name, "ignore")
        frame = self.read(name, _BYTES)
        assert frame is not None
        return frame


def join_chunks(rows: Any) -> bytes | None:
    """A run of bytes out of its chunks, None if some are missing; those that are there twice are the same."""
    chunks = dict(zip(rows.column("chunk").to_pylist(), rows.column("data").to_pylist(), strict=True))
    n = rows.column("chunks")[0].as_py() if len(rows) else 0
    if not n or set(chunks) != set(range(n)):
        return None
    return b"".join(chunks[chunk] for chunk in range(n))


def _batches(runs: Iterable[tuple[str, bytes]]) -> Iterator[list[tuple[str, int, int, bytes]]]:
    """Runs of bytes in chunks, some at a time."""
    pending: list[tuple[str, int, int, bytes]] = []
    for name, data in runs:
        chunks = [data[start : start + CHUNK] for start in range(0, max(len(data), 1), CHUNK)]
        for i, chunk in enumerate(chunks):
            pending.append((name, i, len(chunks), chunk))
            if sum(len(row[3]) for row in pending) >= _AT_ONCE:
                yield pending
                pending = []
    if pending:
        yield pending


def _table(rows: list[tuple[str, int, int, bytes]]) -> Any:
    import pyarrow as pa

    names, chunk, chunks, data = zip(*rows, strict=True)
    kinds = (pa.string(), pa.int64(), pa.int64(), pa.binary())
    columns = [pa.array(column, kind) for column, kind in zip((names, chunk, chunks, data), kinds, strict=True)]
    return pa.table(columns, names=["name", "chunk", "chunks", "data"])


def as_bytes(kind: str, meta: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> bytes:
    """Settings and arrays in the library's file format."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "content"
        persist.write(path, kind, meta, arrays)
        return path.read_bytes()


def content_of(data: bytes, what: str) -> persist.Content:
    """What `as_bytes` made bytes of."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "content"
        path.write_bytes(data)
        try:
            return persist.read(path)
        except FileFormatError as error:
            raise FileFormatError(f"{what}: {error}") from None


class SparkJournal(Journal):
    """Sums of passes in a checkpoint; the driver writes them down now and then."""

    _NAME = "journal"

    def __init__(self, checkpoint: Checkpoint, every: float) -> None:
        super().__init__(Path(checkpoint.at(self._NAME)))
        self._checkpoint, self._every = checkpoint, every
        self._there = checkpoint.names(self._NAME)
        self._new: list[tuple[str, bytes]] = []
        self._last = time.monotonic()

    def find(self, key: str, shapes: Any) -> Any:
        """What a pass gave, or None."""
        data = self._checkpoint.get(self._NAME, key) if key in self._there else None
        if data is None:
            return None
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / key).write_bytes(data)
            return Journal(Path(folder)).find(key, shapes)

    def keep(self, key: str, counts: Any, classes: Any, log_evidence: float) -> None:
        """Write down what a pass gave, or remember to."""
        if self._full:
            return
        with tempfile.TemporaryDirectory() as folder:
            Journal(Path(folder)).keep(key, counts, classes, log_evidence)
            path = Path(folder) / key
            if path.is_file():
                self._new.append((key, path.read_bytes()))
        n_bytes = sum(len(data) for _, data in self._new)
        if time.monotonic() - self._last >= self._every or n_bytes > _AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Write down what is not yet."""
        if self._new:
            try:
                self._checkpoint.put(self._NAME, self._new, "append")
                self._there |= {key for key, _ in self._new}
            except failures() as error:
                self._full = True
                reason = str(error).strip().splitlines()[0]
                warn_of_data(f"passes are no longer written down, so that a run that is killed loses them: {reason}")
        self._new, self._last = [], time.monotonic()

    def forget(self) -> None:
        """Delete all of it."""
        if self._there:
            self._checkpoint.write(self._checkpoint.spark.createDataFrame([], _BYTES), self._NAME)
        self._there = set()


def failures() -> tuple[type[Exception], ...]:
    """What a job raises that failed, in a session of either kind."""
    try:
        from py4j.protocol import Py4JError
    except ImportError:
        return (PySparkException,)
    return (PySparkException, Py4JError)


def retry(run: Callable[[], T], retries: int) -> T:
    """Run a job, again where it failed: one that depends on nothing but what is stored gives the same."""
    import logging

    for left in range(retries, 0, -1):
        try:
            return run()
        except failures() as error:
            reason = str(error).strip().splitlines()[0][:200]
            logging.getLogger(__name__).warning(
                "a job failed and is run again (%d times more at most): %s", left, reason
            )
    return run()
