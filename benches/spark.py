"""The library on Spark: encoding, passes beside empty jobs, memory of the driver, answers that stay on the executors.

    python benches/spark.py --size 1e6 --workers 1e3 --master 'local[2]'
    python benches/spark.py --size 1e6 --workers 1e3 --master 'local-cluster[2,1,2048]'
    python benches/spark.py --size 1e7 --workers 1e3 --master 'local[2]'

A log of text ids, five classes and five labels a task is made as Parquet, once. Then two sessions, each in a process of
its own: one encodes the log and makes passes of full Dawid–Skene, and one goes on from its checkpoint, where every pass
is written down, with ``spark.driver.maxResultSize=1m``, and writes the answers. Seconds are by the clock, and of the
processors for the driver, its JVM and all workers together (those of workers that ended in between may be missing).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NOT_SHOWN = "What this does not show: several machines, a network, object stores, uneven crowds, a quiet machine."
TICKS = os.sysconf("SC_CLK_TCK")


def stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def family() -> list[int]:
    """This process and all it started, JVM and workers of Python among them."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int(stat(int(folder.name))[1])
        except OSError:
            continue
    found = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return sorted(found)
        found |= more


def cpu_seconds() -> float:
    total = 0
    for pid in family():
        try:
            total += sum(map(int, stat(pid)[11:15]))
        except OSError:
            continue
    return total / TICKS


def peak_megabytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024


@contextmanager
def timed(found: dict[str, Any], name: str) -> Iterator[None]:
    wall, cpu = time.perf_counter(), cpu_seconds()
    yield
    found[name] = [round(time.perf_counter() - wall, 2), round(cpu_seconds() - cpu, 2)]


def make_log(path: Path, n: int, workers: int) -> None:
    """Write a log of text ids, a part at a time."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, rows = np.random.default_rng(0), 5 * 200_000
    with pq.ParquetWriter(path, pa.schema([(name, pa.string()) for name in ("task", "worker", "label")])) as out:
        for first in range(0, n, rows):
            tasks = np.repeat(np.arange(first // 5, (first + min(rows, n - first)) // 5), 5)
            who = rng.integers(0, workers, len(tasks))
            right = rng.random(len(tasks)) < 0.5 + 0.4 * (who % 7) / 6
            said = np.where(right, tasks % 5, rng.integers(0, 5, len(tasks)))
            columns = [
                np.char.add(name, codes.astype(str)) for name, codes in (("task-", tasks), ("w", who), ("c", said))
            ]
            out.write_table(pa.table([pa.array(c, pa.string()) for c in columns], names=["task", "worker", "label"]))


def session(args: argparse.Namespace, **more: str) -> Any:
    from manyhands.spark import local_session

    found = local_session(args.master, spark__ui__enabled="false", spark__driver__memory="1g", **more)
    found.sparkContext.setLogLevel("OFF")
    return found


def fitted(args: argparse.Namespace, spark: Any) -> Any:
    from manyhands.spark import DawidSkene

    options = {"max_iter": args.passes, "tol": 0, "n_shards": args.shards, "every": 0}
    return DawidSkene(checkpoint=str(args.folder / "checkpoint"), **options).fit(spark.read.parquet(str(args.log)))


def fit(args: argparse.Namespace) -> dict[str, Any]:
    """Encode, and make passes."""
    import pyarrow as pa

    from manyhands.spark import MajorityVote, shards

    found: dict[str, Any] = {}
    with timed(found, "session"):
        spark = session(args, spark__executor__memory="1500m")
    frame = spark.read.parquet(str(args.log))
    with timed(found, "one look at the rows"):
        frame.selectExpr("bit_xor(xxhash64(task, worker, label))").toArrow()
    with timed(found, "encode and one vote"):
        model = MajorityVote(checkpoint=str(args.folder / "checkpoint"), n_shards=args.shards).fit(frame)
    found["shards"] = len(model.aggregator._votes.passes)
    found["bytes an annotation"] = round(
        sum(e.n_bytes for e in model.aggregator._votes.passes.directory.entries) / args.size, 2
    )

    def nothing(batches: Any) -> Any:
        for batch in batches:
            yield pa.RecordBatch.from_arrays([batch.column(0)], names=["id"])

    empty: list[list[float]] = []
    for _ in range(4):
        with timed(found, "an empty job"):
            spark.range(0, found["shards"], 1, found["shards"]).mapInArrow(nothing, "id long").toArrow()
        empty.append(found["an empty job"])
    add, made = shards.SparkShards.add, []

    def watched(self: Any, *sums: Any) -> float:
        with timed(found, "a pass"):
            given = add(self, *sums)
        made.append(found["a pass"])
        return given

    shards.SparkShards.add = watched  # type: ignore[method-assign]
    with timed(found, "fit of so many passes, shards at hand"):
        fitted(args, spark)
    found["passes"] = len(made)
    for name, times in (("an empty job", empty[1:]), ("a pass", made[1:])):
        found[name] = [round(statistics.median(column), 2) for column in zip(*times, strict=True)]
    found |= peaks()
    spark.stop()
    return found


def answers(args: argparse.Namespace) -> dict[str, Any]:
    """Go on from the checkpoint, and write the answers while next to nothing may come to the driver."""
    found: dict[str, Any] = {}
    spark = session(args, spark__driver__maxResultSize="1m", spark__executor__memory="1500m")
    with timed(found, "fit whose passes are written down"):
        model = fitted(args, spark)
    target = str(args.folder / "answers")
    with timed(found, "answers written, maxResultSize=1m"):
        model.answers().write.mode("overwrite").parquet(target)
    found["answers"] = spark.read.parquet(target).count()
    found |= {f"{name}, of answers": value for name, value in peaks().items()}
    spark.stop()
    return found


def peaks() -> dict[str, int]:
    """The most memory that driver and its JVM had, in MB."""
    jvm = [
        pid for pid in family() if int(stat(pid)[1]) == os.getpid() and "java" in Path(f"/proc/{pid}/comm").read_text()
    ]
    return {"MB of the driver": peak_megabytes(os.getpid()), "MB of its JVM": max(map(peak_megabytes, jvm), default=0)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=float, default=1e6)
    parser.add_argument("--workers", type=float, default=1e3)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--shards", type=int)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path("target/spark-bench"))
    parser.add_argument("--part", choices=("fit", "answers"))
    args = parser.parse_args()
    args.size, args.workers = int(args.size), int(args.workers)
    args.folder = args.folder.absolute()
    args.folder.mkdir(parents=True, exist_ok=True)
    args.log = args.folder / f"{args.size}-{args.workers}.parquet"
    if args.part:
        print(json.dumps({"fit": fit, "answers": answers}[args.part](args)))
        return
    if not args.log.exists():
        make_log(args.log, args.size, args.workers)
    shutil.rmtree(args.folder / "checkpoint", ignore_errors=True)
    print(f"{args.size:,} annotations, {args.workers:,} workers, {args.master}; [seconds, of the processors]")
    for part in ("fit", "answers"):
        done = subprocess.run([sys.executable, *sys.argv, "--part", part], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr[-4000:])
        for name, value in json.loads(done.stdout.splitlines()[-1]).items():
            print(f"  {name:45} {value}")
    print(NOT_SHOWN)


if __name__ == "__main__":
    main()
