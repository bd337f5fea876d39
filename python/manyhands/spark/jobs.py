"""Functions of shards as jobs of Spark: sent to the executors, and results brought back in the order of shards."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark import cloudpickle
from pyspark.sql import DataFrame

from manyhands import _core
from manyhands._base.names import Column, Names
from manyhands.categorical.shards.passes import Counting, Known, Part, part_of
from manyhands.spark.checkpoint import CHUNK, Checkpoint, join_chunks

if TYPE_CHECKING:
    import pyarrow as pa

#: Bytes of parameters that go along with a function; more go by a frame. Connect ends at 128 MB, and a server with the
#: usual heap before that.
CLOSURE = 1 << 25
#: Bytes of sums of all shards that the driver adds itself; more are added by the executors, in blocks of workers.
GATHERED = 1 << 28

#: What executors send back: which shard it is of, which part of the result, and the part.
RESULT = "shard long, block long, data binary"
_FAILED, _REST = -2, -1

#: Maps the rows of one key, a shard or a group of tasks, to rows.
Work = Callable[["pa.Table"], "pa.Table"]


@dataclass(frozen=True)
class Place:
    """Where a shard stands among all, the number of its first task, and the checksum of its columns."""

    place: int
    first: int
    checksum: int


@dataclass(frozen=True)
class Opener:
    """Makes a `Part` of a row of the frame of shards."""

    #: By the number that the frame gives a shard.
    places: dict[int, Place]
    known: Known
    abstentions: bool
    n_threads: int

    def __call__(self, rows: pa.Table) -> Part:
        """Open the shard of the only row."""
        if _core.get_num_threads() != self.n_threads:
            _core.set_num_threads(self.n_threads)
        place = self.places[rows.column("shard")[0].as_py()]
        shard = shard_of(rows, check=False)
        if shard.checksum != place.checksum:
            raise ValueError("this shard is of another log than its checkpoint is of; name another checkpoint")
        return part_of(shard, place.place, place.first, self.known, abstentions=self.abstentions)


# ---------------------------------------------------------------------------------------------- what executors do


@dataclass(frozen=True)
class Look:
    """Sends what a function makes of a shard."""

    function: Callable[[Any], Any]
    #: None for a function of the names of its tasks.
    opener: Opener | None

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Results of one shard."""

        def run() -> list[tuple[int, bytes]]:
            result = self.function(names_of(rows) if self.opener is None else self.opener(rows))
            data = pickle.dumps(result, protocol=5)
            return [(start // CHUNK, data[start : start + CHUNK]) for start in range(0, len(data), CHUNK)]

        return _send(rows, run)


@dataclass(frozen=True)
class Count:
    """Sends what a pass over a shard adds to sums, in blocks of workers; without counts it sends nothing."""

    count: Counting
    opener: Opener
    shapes: tuple[tuple[int, ...], tuple[int, ...]]

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Sums of one shard."""

        def run() -> list[tuple[int, bytes]]:
            counts, classes = (np.zeros(shape) for shape in self.shapes)
            part = self.opener(rows)
            log_likelihood = self.count(part, counts=counts, classes=classes)
            result = [(_REST, pickle.dumps((classes, log_likelihood), protocol=5))]
            if counts.size:
                size, who = block_size(self.shapes[0]), part.shard.who()
                ends = np.searchsorted(who, np.arange(0, len(counts) + size, size))
                for block, (start, end) in enumerate(pairwise(ends.tolist())):
                    if end > start:
                        mine = who[start:end]
                        result.append((block, pickle.dumps((mine, counts[mine]), protocol=5)))
            return result

        return _send(rows, run)


def block_size(shape: tuple[int, ...]) -> int:
    """Workers of a block of sums."""
    return max(CHUNK // (8 * int(np.prod(shape[1:]))), 1)


def _send(rows: pa.Table, run: Callable[[], list[tuple[int, bytes]]]) -> pa.Table:
    """Results of a shard as rows, or what went wrong: to run the same again would not help."""
    try:
        results = run()
    except (ValueError, TypeError, MemoryError, KeyError) as error:
        results = [(_FAILED, pickle.dumps(error))]
    return _results(rows.column("shard")[0].as_py(), results)


def _results(shard: int, found: list[tuple[int, bytes]]) -> pa.Table:
    import pyarrow as pa

    blocks, data = zip(*found, strict=True)
    columns = [pa.array([shard] * len(found), pa.int64()), pa.array(blocks, pa.int64()), pa.array(data, pa.binary())]
    return pa.table(columns, names=["shard", "block", "data"])


def _add_block(rows: pa.Table) -> pa.Table:
    """Add the sums of one block of workers, in the order of the shards; all else is passed on."""
    block = rows.column("block")[0].as_py()
    if block < 0:
        return rows
    order = np.argsort(rows.column("shard").to_numpy())
    parts = [pickle.loads(rows.column("data")[int(i)].as_py()) for i in order]
    everybody = np.unique(np.concatenate([who for who, _ in parts]))
    total = np.zeros((len(everybody), *parts[0][1].shape[1:]))
    for who, counts in parts:
        total[np.searchsorted(everybody, who)] += counts
    return _results(0, [(block, pickle.dumps((everybody, total), protocol=5))])


def shard_of(rows: pa.Table, *, check: bool) -> _core.Shard:
    """The shard of the only row."""
    return _core.Shard(np.frombuffer(rows.column("blob")[0].as_buffer(), np.uint8), check=check)


def names_of(rows: pa.Table) -> Names:
    """Names of the tasks of the shard of the only row."""
    return Column(rows.column("tasks").combine_chunks().flatten(), "task").names()


# -------------------------------------------------------------------------------------------------- how they are sent


@dataclass(frozen=True)
class Sender:
    """Sends functions with their parameters to where the rows are."""

    checkpoint: Checkpoint
    #: Bytes that may go along with a function.
    closure: int = CLOSURE

    def by_row(self, frame: DataFrame, work: Work, schema: str, *, keep: bool = False) -> DataFrame:
        """What a function makes of every row of the frame of shards; `keep` where it may be asked for later again."""
        packed = packed_work(work)
        if len(packed) > self.closure:
            return self._by_frame(frame, "shard", packed, schema, keep)

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa

            function: Any = None
            for batch in batches:
                function = function or pickle.loads(packed)
                for i in range(len(batch)):
                    yield from function(pa.Table.from_batches([batch.slice(i, 1)])).to_batches()

        return frame.mapInArrow(run, schema)

    def by_group(self, frame: DataFrame, key: str, work: Work, schema: str) -> DataFrame:
        """What a function makes of all rows that have a key in common."""
        packed = packed_work(work)
        if len(packed) > self.closure:
            return self._by_frame(frame, key, packed, schema, True)

        def run(rows: pa.Table) -> pa.Table:
            table: pa.Table = pickle.loads(packed)(rows)
            return table

        return frame.groupBy(key).applyInArrow(run, schema)

    def _by_frame(self, frame: DataFrame, key: str, packed: bytes, schema: str, keep: bool) -> DataFrame:
        """The same for functions with many parameters, which meet the rows by their key."""
        digest = hashlib.blake2b(packed, digest_size=16).hexdigest()
        name = f"parameters/{digest if keep else 'pass'}"
        self.checkpoint.put(name, [(digest, packed)])
        chunks = self.checkpoint.chunks(name, digest)
        with_key = frame.select(key).distinct().crossJoin(chunks.withColumnRenamed("data", "_data"))
        together = frame.unionByName(with_key, allowMissingColumns=True)

        def run(rows: pa.Table) -> pa.Table:
            import pyarrow.compute as pc

            is_sent = pc.is_valid(rows.column("chunk"))
            parts = (
                rows.filter(is_sent).select(["chunk", "chunks", "_data"]).rename_columns(["chunk", "chunks", "data"])
            )
            function = join_chunks(parts)
            if function is None:
                raise ValueError("parameters got lost on the way")
            table: pa.Table = pickle.loads(function)(rows.filter(pc.invert(is_sent)).drop(["chunk", "chunks", "_data"]))
            return table

        return together.groupBy(key).applyInArrow(run, schema)

    def add_blocks(self, results: DataFrame) -> DataFrame:
        """Sums that executors sent, added by blocks of workers where there are executors enough to do it."""
        return results.groupBy("block").applyInArrow(_add_block, RESULT)


def packed_work(work: Work) -> bytes:
    """A function with all it knows, of this module or made on the way."""
    payload: bytes = cloudpickle.dumps(work)  # type: ignore[no-untyped-call]
    return payload


class Results:
    """What executors sent, by shard and part; an error that one of them met is raised."""

    def __init__(self, rows: pa.Table) -> None:
        order = np.lexsort((rows.column("block").to_numpy(), rows.column("shard").to_numpy()))
        shards, blocks = (rows.column(name).to_pylist() for name in ("shard", "block"))
        data = rows.column("data")
        self.rows = [(shards[i], blocks[i], data[int(i)]) for i in order]
        for shard, block, results in self.rows:
            if block == _FAILED:
                error: BaseException = pickle.loads(results.as_py())
                error.add_note(f"in shard {shard}")
                raise error

    def whole(self) -> dict[int, Any]:
        """What a function made of each shard."""
        parts: dict[int, list[bytes]] = {}
        for shard, _, data in self.rows:
            parts.setdefault(shard, []).append(data.as_py())
        return {shard: pickle.loads(b"".join(chunks)) for shard, chunks in parts.items()}

    def add(self, counts: Any, classes: Any) -> tuple[set[int], float]:
        """Add sums in the order of shards; return which shards there were, and the sum of the rest."""
        total, seen_tasks = 0.0, set()
        for shard, block, data in self.rows:
            part = pickle.loads(data.as_py())
            if block == _REST:
                classes += part[0]
                total += part[1]
                seen_tasks.add(shard)
            else:
                counts[part[0]] += part[1]
        return seen_tasks, total
