"""From batches of rows to shards, in bounded memory: DuckDB brings the tasks together, spilling to disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import arrow
from manyhands._base import data_checks as checks
from manyhands._base import soft_labels as soft
from manyhands._base.building import encoded_labels
from manyhands._base.checks import check_choice
from manyhands._base.extras import install_command
from manyhands._base.names import Codes, Column, Names
from manyhands.categorical.shards.claim import Claim
from manyhands.categorical.shards.directory import Directory, Writer

if TYPE_CHECKING:
    import pyarrow as pa

#: Annotations of a shard, if the crowd is small; passes over larger crowds are cheaper in larger shards.
ROWS = 1 << 22
_MOST_ROWS = 1 << 24
#: Rows that DuckDB hands out at a time.
_BATCH = 1 << 18
#: Bytes that a row takes while its shard is made, at the most.
_ROW_BYTES = 160
#: Stands for a row without a label.
NO_LABEL = np.iinfo(np.uint16).max
#: What batches may take of the memory; the rest is for DuckDB.
_SHARE = 0.5
_LEAST_MEMORY = 1 << 28


@dataclass(frozen=True)
class Rules:
    """How rows become a table, as `Annotations.from_frame` is passed."""

    repeats: str = "keep"
    missing: str = "drop"
    classes: Names | None = None
    abstain: Names | None = None
    #: Whether numbers next to the labels are confidences and not weights.
    confidence: bool = False

    def check(self) -> None:
        """Raise for what means nothing."""
        check_choice("repeats", self.repeats, ("keep", "first", "last", "error"))
        check_choice("missing", self.missing, ("drop", "error"))


class Batch:
    """Columns of some rows; numbers are weights or confidences, or None."""

    def __init__(self, tasks: Column, workers: Column, labels: Column, numbers: tuple[Any, str] | None) -> None:
        self.tasks, self.workers, self.labels, self.numbers = tasks, workers, labels, numbers


class Dictionary:
    """Codes of values as they come, in the order of their first occurrence; sorted at the end."""

    def __init__(self) -> None:
        self._codes: dict[Any, int] = {}

    def encode(self, column: Column) -> Codes:
        """Codes of the rows."""
        codes, names = Column(column.data, column.what, sound=True).encode()
        code_of = self._codes
        mine = np.fromiter((code_of.setdefault(v, len(code_of)) for v in names.values.tolist()), np.uint32, len(names))
        return mine[codes]

    def __len__(self) -> int:
        return len(self._codes)

    def column(self, like: Column) -> Column:
        """The distinct values as a column, in the order of their codes."""
        values = list(self._codes)
        if {*map(type, values)} == {int, float}:
            values = [float(value) for value in values]
        return Column(values, like.what, parse_integers=like.parse_integers)


class Encoder:
    """Takes batches of a log and writes a directory of shards.

    Memory: that which is given, DuckDB's part of it for sorting, and next to it the names of workers and labels. A
    task's annotations must fit in memory. Disk: the rows as codes and task ids while they are sorted, then the shards.
    """

    def __init__(self, claim: Claim, rules: Rules, *, memory: int) -> None:
        rules.check()
        if memory < _LEAST_MEMORY:
            raise ValueError(f"memory must be at least {_LEAST_MEMORY >> 20} MB, not {memory >> 20} MB")
        self._duckdb = _duckdb()
        self._claim, self._rules, self._memory = claim, rules, memory
        self._workers, self._labels = Dictionary(), Dictionary()
        self._counts = np.zeros(0, np.int64)
        self._like: Batch | None = None
        self._kind: pa.DataType | None = None
        self._plain = True
        self._n = self._unlabelled_rows = 0

    def run(self, batches: Iterator[Batch], source: str | None = None, rows_per_shard: int | None = None) -> Directory:
        """Read all batches, sort them by task, and write the shards."""
        spill = self._claim.folder / "spill"
        spill.mkdir()
        with self._connected(spill) as connection:
            self._collect(connection, batches)
            unlabelled, writer = self._write(connection, rows_per_shard)
        shutil.rmtree(spill)
        if self._unlabelled_rows or len(unlabelled):
            checks.warn_unlabelled(self._unlabelled_rows, unlabelled)
        return writer.finish(unlabelled, source)

    @contextmanager
    def _connected(self, spill: Path) -> Iterator[Any]:
        """A database of our own, whose complaints name the directory."""
        limit = int(self._memory * (1 - _SHARE)) >> 20
        settings = {
            "memory_limit": f"{limit}MB",
            "temp_directory": os.fspath(spill / "temporary"),
            "threads": max(_core.get_num_threads(), 1),
            "preserve_insertion_order": False,
        }
        raised: list[BaseException] = []
        self._raised = raised
        try:
            connection = self._duckdb.connect(os.fspath(spill / "log.duckdb"), config=settings)
            try:
                yield connection
            finally:
                connection.close()
        except self._duckdb.Error as error:
            if raised:  # DuckDB only reports that its source of rows failed
                raise raised[0] from None
            reason = str(error).strip().splitlines()[0]
            raise OSError(
                f"cannot sort the log in {self._claim.path}: {reason}. If the disk is full, free some space or name "
                "another directory"
            ) from error

    # --------------------------------------------------------------------------------------------------- rows

    def _collect(self, connection: Any, batches: Iterator[Batch]) -> None:
        """Put all rows into a table of codes and task ids."""
        import pyarrow as pa

        rows = self._rows(batches)
        first = next(rows, None)
        if first is None:
            raise ValueError("there are no annotations: the table needs at least one (task, worker, label) row")

        def guarded() -> Iterator[pa.RecordBatch]:
            yield first
            try:
                yield from rows
            except BaseException as error:
                self._raised.append(error)
                raise

        reader = pa.RecordBatchReader.from_batches(first.schema, guarded())
        connection.register("rows", reader)
        connection.execute("CREATE TABLE log AS SELECT * FROM rows")
        connection.unregister("rows")

    def _rows(self, batches: Iterator[Batch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            if not len(batch.tasks):
                continue
            self._like = self._like or batch
            numbers = None if batch.numbers is None else self._numbers(*batch.numbers)
            checks.check_lengths(batch.tasks, batch.workers, batch.labels, numbers)
            checks.refuse_missing_ids(batch.tasks, batch.workers)
            columns: dict[str, Any] = {"task": self._ids(batch.tasks), "worker": self._workers.encode(batch.workers)}
            columns["label"] = self._label_codes(batch.labels)
            if numbers is not None:
                columns["weight"] = numbers
            if self._rules.repeats in ("first", "last"):
                columns["row"] = np.arange(self._n, self._n + len(batch.tasks))
            self._n += len(batch.tasks)
            table = pa.table(columns)
            yield from table.combine_chunks().to_batches(max_chunksize=_BATCH)

    def _numbers(self, data: Any, what: str) -> npt.NDArray[np.float64]:
        check = soft.checked_confidences if self._rules.confidence else checks.checked_weights
        return check(data, what)

    def _ids(self, tasks: Column) -> pa.Array:
        """Ids of tasks in a form that DuckDB sorts as we do, the same for all batches."""
        import pyarrow as pa
        import pyarrow.compute as pc

        data = tasks.data
        if isinstance(data, np.ndarray) or pa.types.is_decimal(data.type):
            raise TypeError(f"{tasks.what}: out of core, ids of tasks are integers, text, booleans, dates or times")
        if pa.types.is_dictionary(data.type):
            data = arrow.plain_text(data.dictionary_decode())
        if pa.types.is_integer(data.type):
            data = self._integers(data, tasks.what)
        elif pa.types.is_floating(data.type):
            data = pc.add(data.cast(pa.float64()), 0.0)
            whole = pc.all(pc.and_(pc.equal(pc.floor(data), data), pc.less(pc.abs(data), 2.0**53))).as_py()
            self._plain &= bool(whole)
        elif pa.types.is_large_string(data.type) and tasks.parse_integers:
            self._plain = self._plain and _core.canonical_integers(*arrow.text_buffers(data)) is not None
        elif pa.types.is_null(data.type):
            raise TypeError(f"{tasks.what} holds no ids")
        self._kind = self._kind or data.type
        if data.type != self._kind:
            raise TypeError(f"{tasks.what} holds {self._kind} first and {data.type} later; convert one")
        return data

    def _integers(self, data: pa.Array, what: str) -> pa.Array:
        """Whole numbers in 64 bits, with a sign unless the first rows have none: hashes may take all of them."""
        import pyarrow as pa

        goal = pa.uint64() if data.type == pa.uint64() else pa.int64()
        if self._kind is not None and pa.types.is_integer(self._kind):
            goal = self._kind
        try:
            return data.cast(goal)
        except pa.ArrowInvalid:
            raise TypeError(f"{what} holds {goal} first and {data.type} later that do not fit; convert one") from None

    def _label_codes(self, labels: Column) -> npt.NDArray[np.uint16]:
        absent, n = labels.missing(), len(labels)
        if absent is not None:
            if self._rules.missing == "error":
                checks.refuse_missing_answers(labels.what, absent, "error")
            self._unlabelled_rows += int(absent.sum())
            labels.filter(~absent)
        codes = self._labels.encode(labels) if len(labels) else np.zeros(0, np.uint32)
        checks.check_n_classes(len(self._labels), labels.what)
        counts = np.zeros(len(self._labels), np.int64)
        counts[: len(self._counts)] = self._counts
        self._counts = counts + np.bincount(codes, minlength=len(counts))
        if absent is None:
            return codes.astype(np.uint16)
        label_codes = np.full(n, NO_LABEL, np.uint16)
        label_codes[~absent] = codes
        return label_codes

    # ------------------------------------------------------------------------------------------------- shards

    def _write(self, connection: Any, rows_per_shard: int | None) -> tuple[Names, Writer]:
        """Write shards of tasks in order; also returns which tasks have no label."""
        like = self._like
        assert like is not None
        if not len(self._labels):
            raise ValueError(f"{like.labels.what} is missing in all {self._n:,} rows: there is nothing to aggregate")
        rules = self._rules
        answer_codes = encoded_labels(self._labels.column(like.labels), rules.classes, rules.abstain, self._counts)
        label_codes, classes, labels = answer_codes
        used = np.unique(self._used_workers(connection)) if self._unlabelled_rows else np.arange(len(self._workers))
        rank, workers = self._workers.column(like.workers).at(used).encode()
        worker_codes = np.zeros(len(self._workers), np.uint32)
        worker_codes[used] = rank
        integers = self._plain and (self._spells_numbers(like.tasks) or self._is_float())
        writer = Writer(self._claim, workers, classes, labels)
        target = self._target(len(workers), len(labels)) if rows_per_shard is None else rows_per_shard
        unlabelled: list[Names] = []
        for rows in self._sorted(connection, target, integers):
            table, tasks, none = self._table(rows, worker_codes, label_codes, (workers, classes, labels))
            if len(none):
                unlabelled.append(none)
            if table is not None:
                writer.add(table, tasks)
        if not unlabelled:
            return workers.take(np.zeros(0, np.int64)), writer
        loss = unlabelled[0]
        for more in unlabelled[1:]:
            loss = loss.followed_by(more)
        return loss, writer

    def _used_workers(self, connection: Any) -> npt.NDArray[Any]:
        """Workers who gave a label at all."""
        workers = connection.execute(f"SELECT DISTINCT worker FROM log WHERE label <> {NO_LABEL}").fetchnumpy()
        return np.asarray(workers["worker"])

    def _spells_numbers(self, tasks: Column) -> bool:
        import pyarrow as pa

        return tasks.parse_integers and pa.types.is_large_string(self._kind)

    def _is_float(self) -> bool:
        import pyarrow as pa

        return bool(pa.types.is_floating(self._kind))

    def _target(self, n_workers: int, n_labels: int) -> int:
        """Rows of a shard: so many that its tables of counts are small next to it, and it fits in memory."""
        most = max(int(self._memory * _SHARE) // _ROW_BYTES, 1 << 16)
        return min(rows_of_shard(n_workers, n_labels), most)

    def _sorted(self, connection: Any, target: int, integers: bool) -> Iterator[pa.Table]:
        """Yield whole tasks, in order, about as many rows as wanted at a time."""
        import pyarrow as pa

        replacement = "* REPLACE (CAST(task AS BIGINT) AS task)" if integers else "*"
        order = "task, row" if self._rules.repeats in ("first", "last") else "task"
        log = connection.sql(f"SELECT {replacement} FROM log ORDER BY {order}")
        # So called from version 1.4 on.
        read = getattr(log, "to_arrow_reader", None) or log.fetch_arrow_reader
        reader = read(_BATCH)
        batches: list[pa.RecordBatch] = []
        n = 0
        for batch in reader:
            batches.append(batch)
            n += len(batch)
            if n < target:
                continue
            rows = pa.Table.from_batches(batches).combine_chunks()
            ends = _cuts(rows.column("task"), target)
            for start, end in pairwise([0, *ends]):
                yield rows.slice(start, end - start).combine_chunks()
            left = ends[-1] if ends else 0
            batches = rows.slice(left).combine_chunks().to_batches()
            n = len(rows) - left
        if n:
            yield pa.Table.from_batches(batches).combine_chunks()

    def _table(
        self, rows: pa.Table, worker_codes: Codes, label_codes: Codes, names: tuple[Names, Names, Names]
    ) -> tuple[_core.Table | None, Names, Names]:
        """The table of a shard, names of its tasks, and of those without a label."""
        workers, classes, labels = names
        assert self._like is not None
        tasks = Column(rows.column("task"), self._like.tasks.what)
        who, answer_codes = (arrow.to_numpy(arrow.one_chunk(rows.column(name))) for name in ("worker", "label"))
        weights = arrow.to_numpy(arrow.one_chunk(rows.column("weight"))) if "weight" in rows.column_names else None
        final = np.full(NO_LABEL + 1, NO_LABEL, np.uint16)
        final[: len(label_codes)] = label_codes
        sizes = (len(workers), len(labels), len(classes))
        table, loss_found, none = table_of(tasks, worker_codes[who], final[answer_codes], weights, sizes, self._rules)
        if table is not None and self._rules.repeats == "error":
            checks.refuse_repeats(table, loss_found, workers)
        return table, loss_found, none


def table_of(
    tasks: Column,
    workers: Codes,
    labels: npt.NDArray[np.uint16],
    weights: npt.NDArray[np.float64] | None,
    sizes: tuple[int, int, int],
    rules: Rules,
) -> tuple[_core.Table | None, Names, Names]:
    """The table of rows of whole tasks, names of its tasks, and of those without a label.

    Workers and labels are codes, `NO_LABEL` where there is none; sizes are the numbers of workers, labels and classes.
    There is no table where no row has a label. What `rules` say of repeats is done, but for rejecting them.
    """
    task_codes, names = tasks.encode()
    none = names.take(np.zeros(0, np.int64))
    keep = labels != NO_LABEL
    if not keep.all():
        labelled = np.zeros(len(names), np.bool_)
        labelled[task_codes[keep]] = True
        none = names.take(np.flatnonzero(~labelled))
        names = names.take(np.flatnonzero(labelled))
        task_codes = (np.cumsum(labelled, dtype=np.uint32) - np.uint32(1))[task_codes[keep]]
        workers, labels, weights = workers[keep], labels[keep], None if weights is None else weights[keep]
    if not len(labels):
        return None, names, none
    table = checks.made_table(
        task_codes,
        workers,
        labels,
        None if weights is None else np.ascontiguousarray(weights, np.float64),
        len(names),
        *sizes[:2],
        "keep" if rules.repeats == "error" else rules.repeats,
        sizes[2],
    )
    return soft.weights_of_confidence(table) if rules.confidence else table, names, none


def rows_of_shard(n_workers: int, n_labels: int) -> int:
    """Annotations of a shard: so many that the tables of counts that a pass makes for it are small next to it."""
    return min(max(ROWS, 8 * n_workers * n_labels**2), _MOST_ROWS)


def _cuts(tasks: Any, target: int) -> list[int]:
    """Where a sorted column is cut into runs of whole tasks of about that many rows; the last task may go on."""
    import pyarrow.compute as pc

    changes = pc.not_equal(tasks.slice(1), tasks.slice(0, len(tasks) - 1))
    starts = np.flatnonzero(arrow.to_numpy(arrow.one_chunk(changes))) + 1
    cuts: list[int] = []
    while True:
        last = cuts[-1] if cuts else 0
        beyond = starts[starts > last]
        if not len(beyond) or len(tasks) - last < target:
            return cuts
        # The last start within reach, or the first one if a task is longer than that.
        within = int(np.searchsorted(beyond, last + target, side="right"))
        cuts.append(int(beyond[max(within - 1, 0)]))


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise ImportError(f"reading a log out of core needs DuckDB: {install_command('scale')}") from None
    return duckdb


def memory_of(text: str | int) -> int:
    """Bytes of an amount of memory such as ``"4GB"`` or ``"500 MB"``.

    Examples
    --------
    >>> memory_of("4GB"), memory_of("512 MB")
    (4294967296, 536870912)
    """
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    units = {"KB": 10, "MB": 20, "GB": 30, "TB": 40, "K": 10, "M": 20, "G": 30, "T": 40, "B": 0, "": 0}
    plain = str(text).strip().upper().replace("IB", "B")
    number = plain.rstrip("KMGTB ")
    try:
        return int(float(number) * (1 << units[plain[len(number) :].strip()]))
    except (ValueError, KeyError, OverflowError):
        raise ValueError(f"{text!r} is not an amount of memory; write it as '4GB' or '500MB'") from None
