"""From a DataFrame to shards of whole tasks in a checkpoint; Spark sorts, and executors build."""

from __future__ import annotations

import io
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type

from manyhands import _core
from manyhands._base import arrow, persist
from manyhands._base.building import encoded_labels
from manyhands._base.checks import plural, warn_of_data
from manyhands._base.data_checks import MAX_CLASSES, check_n_classes
from manyhands._base.names import Column as Ids
from manyhands._base.names import Names, sequence
from manyhands.categorical.shards.directory import Entry, Sizes, packed_names, unpacked_names
from manyhands.categorical.shards.encoder import NO_LABEL, Rules, table_of
from manyhands.categorical.shards.summary import Summary
from manyhands.errors import FileFormatError
from manyhands.spark.checkpoint import Checkpoint, as_bytes, content_of, retry
from manyhands.spark.columns import Log, Measured
from manyhands.spark.jobs import Sender
from manyhands.spark.shards import Frames, Stored, WorkerNames

if TYPE_CHECKING:
    import pyarrow as pa

_KIND = "log on Spark"
_VERSION = 1
#: Rows of a shard, the more the larger the crowd: sums are as large as the crowd, whatever the shard.
_LEAST_ROWS, _MOST_ROWS = 1 << 20, 1 << 24
#: Annotations that a shard, which has whole tasks, can hold.
_MOST_OF_A_TASK = (1 << 32) - 1
#: Rows of the sample that determines where the tasks are cut into shards.
_SAMPLE = 200_000
#: Workers whose names go to all executors; more are sorted.
_BROADCAST = 1 << 20


@dataclass(frozen=True)
class Coded:
    """Labels and how many workers there are."""

    #: Each label that occurs, as in the column, and its code.
    said: pa.Array
    codes: npt.NDArray[np.int64]
    classes: Names
    labels: Names
    n_workers: int


def encode(log: Log, checkpoint: Checkpoint, n_shards: int | None, retries: int, n_threads: int) -> Stored:
    """Shards of a log in a checkpoint: those that are there, or new ones."""
    measured = log.measured()
    source = f"{measured.digest} {log.settings()} {n_shards}"
    data = checkpoint.get("log", "manifest")
    if data is None:
        data = _write(log, measured, checkpoint, n_shards, source, retries)
    content = content_of(data, checkpoint.at("log"))
    if content.kind != _KIND or content.meta.get("version") != _VERSION:
        raise FileFormatError(f"{checkpoint.path} is a checkpoint of another version; name another directory")
    if content.meta["source"] != source:
        raise FileExistsError(
            f"{checkpoint.path} is the checkpoint of another log, or of other settings of how it is read; name another "
            "directory, or delete it"
        )
    return _open(log, content, checkpoint, retries, n_threads)


def _open(log: Log, content: persist.Content, checkpoint: Checkpoint, retries: int, n_threads: int) -> Stored:
    meta = content.meta
    sizes, numbers = Sizes(**meta["sizes"]), tuple(meta["numbers"])
    workers = checkpoint.read("workers", _workers_schema(log))
    shards = checkpoint.read("shards", _shards_schema(log))
    if workers is None or shards is None:
        raise FileFormatError(f"the checkpoint {checkpoint.path} is incomplete; name another, and fit again")
    classes = unpacked_names(content, "classes")
    apart = sizes.n_labels > sizes.n_classes
    labels = classes.followed_by(unpacked_names(content, "abstentions")) if apart else classes
    summary = Summary.unpacked(content, "all", sizes.n_workers, sizes.n_labels)
    # Where no row of a range of tasks has a label, there is a row and no shard.
    frames = Frames(shards.where("n_tasks > 0"), workers, Sender(checkpoint), numbers, retries, n_threads)
    return Stored(
        path=checkpoint.path,  # type: ignore[arg-type]
        folder=checkpoint.path,  # type: ignore[arg-type]
        sizes=sizes,
        entries=tuple(Entry(**entry) for entry in meta["entries"]),
        numbered=False,
        digest=meta["source"] + " ".join(str(entry["checksum"]) for entry in meta["entries"]),
        source=meta["source"],
        workers=WorkerNames(workers, sizes.n_workers),
        classes=classes,
        labels=labels,
        unlabelled=classes.take(np.zeros(0, np.int64)),
        summaries=(
            summary,
            Summary.unpacked(content, "classes", sizes.n_workers, sizes.n_classes) if apart else summary,
        ),
        frames=frames,
    )


# ----------------------------------------------------------------------------------------------------------- writing


def _write(
    log: Log, measured: Measured, checkpoint: Checkpoint, n_shards: int | None, source: str, retries: int
) -> bytes:
    """Write workers and shards, and then the manifest, without which they are nothing."""
    if log.rules.repeats == "error":
        _refuse_repeats(log)
    if measured.n_rows > _MOST_OF_A_TASK:
        _refuse_long_tasks(log)
    coded = _encode(log, checkpoint)
    rows = min(max(_LEAST_ROWS, 8 * coded.n_workers * len(coded.labels) ** 2), _MOST_ROWS)
    bounds = _bounds(log, measured.n_rows, -(-measured.n_rows // rows) if n_shards is None else n_shards)
    grouped = _assign_shards(_rows(log, coded, checkpoint), bounds, log)
    sizes = (coded.n_workers, len(coded.labels), len(coded.classes))
    kind = to_arrow_type(log.type_of("task"))
    build = Build(sizes, log.rules, log.what("task"), kind)
    shards = Sender(checkpoint).by_group(grouped, "shard", build, _shards_schema(log))
    retry(lambda: checkpoint.write(shards, "shards", maxRecordsPerFile=1), retries)
    data = _manifest(log, measured, checkpoint, coded, source)
    checkpoint.put("log", [("manifest", data)])
    return data


def _encode(log: Log, checkpoint: Checkpoint) -> Coded:
    """Dictionaries of labels, on the driver, and of workers, in the checkpoint; both in sorted order."""
    labelled = log.frame.where(~log.lacks("label"))
    label_counts = labelled.groupBy("label").count().limit(MAX_CLASSES + 1).toArrow()
    check_n_classes(len(label_counts), log.what("label"))
    label_names = arrow.one_chunk(label_counts.column("label"))
    counts = label_counts.column("count").to_numpy()
    rules = log.rules
    codes, classes, labels = encoded_labels(Ids(label_names, log.what("label")), rules.classes, rules.abstain, counts)
    order = Window.orderBy("worker")
    workers = labelled.select("worker").distinct()
    numbered = workers.select((F.row_number().over(order) - 1).cast("long").alias("code"), "worker")
    checkpoint.write(numbered, "workers")
    there = checkpoint.read("workers", _workers_schema(log))
    assert there is not None
    return Coded(label_names, codes.astype(np.int64), classes, labels, there.count())


def _bounds(log: Log, n_rows: int, n_shards: int) -> list[Any]:
    """The first task of each shard but the first.

    They follow from a part of the tasks that a hash of their ids chooses, so that they depend on the log alone, and not
    on how its rows are partitioned.
    """
    if n_shards < 1:
        raise ValueError(f"n_shards must be at least 1, not {n_shards}")
    if n_shards == 1:
        return []
    is_sampled = F.pmod(F.xxhash64("task"), F.lit(max(n_rows // max(_SAMPLE, 64 * n_shards), 1))) == 0
    task_counts = log.frame.where(is_sampled).groupBy("task").count().orderBy("task").toArrow()
    ends = np.cumsum(task_counts.column("count").to_numpy())
    if not len(ends):
        return []
    at = np.searchsorted(ends, np.arange(1, n_shards) * (ends[-1] / n_shards), side="left") + 1
    tasks = task_counts.column("task")
    return [tasks[int(i)].as_py() for i in np.unique(at) if i < len(tasks)]


def _assign_shards(frame: DataFrame, bounds: list[Any], log: Log) -> DataFrame:
    """Rows with the shard of their task: how many bounds are not above it, found in steps that become half as long."""
    frame = frame.withColumn("shard", F.lit(0).cast("long"))
    if not bounds:
        return frame
    sorted_bounds = F.array(*(F.lit(bound).cast(log.type_of("task")) for bound in bounds))
    for step in (1 << i for i in reversed(range(len(bounds).bit_length()))):
        further = F.col("shard") + step
        # A step too far finds no bound, and is not made.
        reached = F.try_element_at(sorted_bounds, further.cast("int")) <= F.col("task")
        frame = frame.withColumn("shard", F.when(reached, further).otherwise(F.col("shard")))
    return frame


def _rows(log: Log, coded: Coded, checkpoint: Checkpoint) -> DataFrame:
    """Tasks as they are, codes of workers and labels, and numbers."""
    workers = checkpoint.read("workers", _workers_schema(log))
    assert workers is not None
    frame = joined_to_workers(log.frame, workers, coded.n_workers)
    frame = joined_to_labels(frame, log, coded.said, coded.codes)
    return frame.select("task", F.col("code").alias("worker"), F.col("said").alias("label"), *extras(log))


def extras(log: Log) -> list[Column]:
    """Columns of numbers and order, where there are any."""
    number = log.number()
    extra_columns = [] if number is None else [number.alias("weight")]
    return extra_columns + ([F.col("order")] if log.roles.order else [])


def joined_to_workers(frame: DataFrame, workers: DataFrame, n_workers: int) -> DataFrame:
    """Rows with the codes of their workers, null where there is none."""
    return frame.join(F.broadcast(workers) if n_workers <= _BROADCAST else workers, "worker", "left")


def joined_to_labels(frame: DataFrame, log: Log, said: pa.Array, codes: npt.NDArray[np.int64]) -> DataFrame:
    """Rows with the codes of their labels in the column `said`, null where there is none."""
    import pyarrow as pa

    schema = f"label {log.type_of('label').simpleString()}, said long"
    table = pa.table({"label": said.cast(to_arrow_type(log.type_of("label"))), "said": codes})
    spark = frame.sparkSession
    return frame.join(F.broadcast(spark.createDataFrame(table, schema)), "label", "left")


def _refuse_repeats(log: Log) -> None:
    """Raise for a worker's second answer to the same task."""
    labelled = log.frame.where(~log.lacks("label"))
    repeats = labelled.groupBy("task", "worker").count().where("count > 1").orderBy("task", "worker").limit(1).toArrow()
    if len(repeats):
        row = repeats.to_pylist()[0]
        raise ValueError(
            f"worker {row['worker']!r} labeled task {row['task']!r} more than once; choose repeats='keep', or 'first' "
            "or 'last' with order_by="
        )


def _refuse_long_tasks(log: Log) -> None:
    """Reject tasks with more rows than a shard can hold."""
    counts = log.frame.groupBy("task").count().where(F.col("count") > _MOST_OF_A_TASK)
    for row in counts.orderBy("task").limit(1).toArrow().to_pylist():
        raise ValueError(
            f"task {row['task']!r} has {row['count']:,} rows, more than the {_MOST_OF_A_TASK:,} that a task can have; "
            "is it an id?"
        )


def _workers_schema(log: Log) -> str:
    return f"code long, worker {log.type_of('worker').simpleString()}"


def _shards_schema(log: Log) -> str:
    return (
        f"shard long, blob binary, tasks array<{log.type_of('task').simpleString()}>, n_tasks long, "
        "n_annotations long, checksum long, weighted boolean, summary binary, unlabelled long, error string"
    )


def _manifest(log: Log, measured: Measured, checkpoint: Checkpoint, coded: Coded, source: str) -> bytes:
    """The manifest that all shards share, from the description of each."""
    frame = checkpoint.read("shards", _shards_schema(log))
    assert frame is not None
    n_workers, n_labels, n_classes = coded.n_workers, len(coded.labels), len(coded.classes)
    whole, of_classes = Summary.empty(n_workers, n_labels), Summary.empty(n_workers, n_classes)
    columns = ["shard", "n_tasks", "n_annotations", "checksum", "weighted", "unlabelled", "error"]
    rows = frame.select(*columns, F.length("blob").alias("n_bytes")).orderBy("shard").toArrow().to_pylist()
    for row in rows:
        if row["error"] is not None:
            raise ValueError(row["error"])
    with_tasks = [row for row in rows if row["n_tasks"]]
    for row in frame.where("n_tasks > 0").select("summary").toLocalIterator():
        parts = _unpack(bytes(row[0]))
        whole.add(parts["all"], parts["who"])
        if n_labels > n_classes:
            of_classes.add(parts["classes"], parts["who"])
    unlabelled = sum(row["unlabelled"] for row in rows)
    _warn(measured.n_unlabelled, unlabelled)
    entries = [Entry(row["n_tasks"], row["n_annotations"], row["n_bytes"], row["checksum"], "") for row in with_tasks]
    sizes = Sizes(
        n_tasks=sum(entry.n_tasks for entry in entries),
        n_workers=n_workers,
        n_annotations=sum(entry.n_annotations for entry in entries),
        n_labels=n_labels,
        n_classes=n_classes,
        weighted=any(row["weighted"] for row in with_tasks),
    )
    meta = {
        "version": _VERSION,
        "source": source,
        "sizes": asdict(sizes),
        "numbers": [row["shard"] for row in with_tasks],
        "entries": [asdict(entry) for entry in entries],
    }
    arrays = packed_names("classes", coded.classes) | whole.packed("all") | of_classes.packed("classes")
    if n_labels > n_classes:
        arrays |= packed_names("abstentions", sequence(coded.labels.values[n_classes:].tolist()))
    return as_bytes(_KIND, meta, arrays)


def _warn(n_rows: int, n_tasks: int) -> None:
    parts = [f"set aside {plural(n_rows, 'row')} without a label"] if n_rows else []
    if n_tasks:
        have = "has" if n_tasks == 1 else "have"
        parts.append(f"{plural(n_tasks, 'task')} {have} no label at all and will get no answer")
    if parts:
        warn_of_data("; ".join(parts))


# -------------------------------------------------------------------------------------------------- on an executor


@dataclass(frozen=True)
class Build:
    """Makes a shard of all rows of its tasks."""

    sizes: tuple[int, int, int]
    rules: Rules
    what: str
    #: Of the ids of tasks.
    kind: pa.DataType

    def __call__(self, rows: pa.Table) -> pa.Table:
        """The row of a shard; without tasks where no row has a label."""
        import pyarrow as pa

        kinds = (pa.int64(), pa.binary(), pa.list_(self.kind), *[pa.int64()] * 3, pa.bool_(), pa.binary(), pa.int64())
        names = ["shard", "blob", "tasks", "n_tasks", "n_annotations", "checksum", "weighted", "summary", "unlabelled"]
        result: list[Any]
        number = rows.column("shard")[0].as_py()
        try:
            result = [number, *self._built(rows), None]
        except ValueError as error:
            result = [number, None, None, 0, 0, 0, False, None, 0, str(error)]
        columns = [pa.array([value], kind) for value, kind in zip(result, (*kinds, pa.string()), strict=True)]
        return pa.table(columns, names=[*names, "error"])

    def _built(self, rows: pa.Table) -> list[Any]:
        tasks = Ids(rows.column("task"), self.what)
        workers = arrow.to_numpy(arrow.one_chunk(rows.column("worker").fill_null(0))).astype(np.uint32)
        table, names, none = table_of_rows(rows, tasks, workers, self.sizes, self.rules)
        if table is None:
            return [None, None, 0, 0, 0, False, None, len(none)]
        shard = _core.Shard.of(table)
        parts = {"all": Summary.of(shard.table())}
        if shard.n_labels > shard.n_classes:
            parts["classes"] = Summary.of(shard.without_abstentions().table())
        ids = names.arrow().cast(self.kind)
        sizes = [shard.n_tasks, shard.n_annotations, shard.checksum, shard.weighted]
        return [shard.to_bytes(), ids, *sizes, _pack(parts, shard.who()), len(none)]


def table_of_rows(
    rows: pa.Table, tasks: Ids, workers: npt.NDArray[np.uint32], sizes: tuple[int, int, int], rules: Rules
) -> tuple[_core.Table | None, Names, Names]:
    """The table of rows of whole tasks, in whatever order they come; see `table_of`."""
    labels = arrow.to_numpy(arrow.one_chunk(rows.column("label").fill_null(NO_LABEL))).astype(np.uint16)
    weights = arrow.to_numpy(arrow.one_chunk(rows.column("weight"))) if "weight" in rows.column_names else None
    order = None
    if "order" in rows.column_names:
        order = _in_order(rows, tasks, workers)
    elif weights is not None:
        # Sums must not depend on which of several weights of the same answer comes first.
        order = np.lexsort((weights, labels, workers))
    if order is not None:
        tasks, workers, labels = tasks.at(order), workers[order], labels[order]
        weights = None if weights is None else weights[order]
    return table_of(tasks, workers, labels, weights, sizes, rules)


def _in_order(rows: pa.Table, tasks: Ids, workers: npt.NDArray[np.uint32]) -> npt.NDArray[np.intp]:
    """Order rows by the column of the order, whose values must differ between answers of a worker to a task."""
    import pyarrow.compute as pc

    distinct = arrow.one_chunk(rows.column("order")).dictionary_encode()
    place = np.empty(len(distinct.dictionary), np.int64)
    place[arrow.to_numpy(pc.sort_indices(distinct.dictionary)).astype(np.int64)] = np.arange(len(place))
    rank, (codes, names) = place[arrow.to_numpy(distinct.indices)], tasks.encode()
    order = np.lexsort((rank, workers, codes))
    same = (np.diff(codes[order].astype(np.int64)) == 0) & (np.diff(workers[order].astype(np.int64)) == 0)
    twice = np.flatnonzero(same & (np.diff(rank[order]) == 0))
    if len(twice):
        task = names.values[[codes[order[twice[0]]]]].tolist()[0]
        raise ValueError(
            f"a worker answered task {task!r} twice at the same place in the order of order_by; it is unknown which "
            "answer was the first"
        )
    return order


def _pack(parts: dict[str, Summary], who: npt.NDArray[np.uint32]) -> bytes:
    """What is known of a shard, as plain arrays."""
    out = io.BytesIO()
    arrays = {"who": who}
    for name, part in parts.items():
        arrays |= part.packed(name)
    np.savez(out, **arrays)  # type: ignore[arg-type]
    return out.getvalue()


def _unpack(data: bytes) -> dict[str, Any]:
    """Take back what `_packed` gave."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        arrays_out: dict[str, Any] = {"who": arrays["who"]}
        for name in ("all", "classes"):
            if f"{name}.numbers" in arrays:
                columns = (arrays[f"{name}.{part}"] for part in ("workers", "labels", "lengths", "groups"))
                arrays_out[name] = Summary(*columns, *arrays[f"{name}.numbers"].tolist())
    return arrays_out
