"""What tests on Spark share: a session with small heaps, logs as frames, and the same shards out of core."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import manyhands as mh
from manyhands import _core
from manyhands._base.names import Names
from manyhands.categorical.shards.claim import Claim
from manyhands.categorical.shards.directory import Writer
from manyhands.categorical.shards.passes import Sharded

#: One thread compiles little, and one collects: a session starts in half the time.
FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark__driver__memory": "1g",
    "spark__ui__enabled": "false",
    "spark__sql__shuffle__partitions": "3",
    "spark__default__parallelism": "2",
}


def needs_java() -> None:
    """Skip where Spark cannot start."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: nothing runs on Spark")
    if sys.platform == "win32":
        pytest.skip("no tests on Spark here: on Windows it writes files only with a part of Hadoop beside it")
    from manyhands.spark.session import check_java

    try:
        check_java()
    except RuntimeError as error:
        pytest.skip(f"no tests on Spark here: {error}")


def text_log(n: int = 120, m: int = 12, k: int = 3, *, seed: int = 0, name: str = "t") -> pa.Table:
    """A log of a simulated crowd, with text for ids."""
    found = mh.simulate(n, m, k, labels_per_task=5, seed=seed).log.to_frame()
    tasks, workers = found.column("task").to_pylist(), found.column("worker").to_pylist()
    return pa.table(
        {
            "task": [f"{name}{task}" for task in tasks],
            "worker": [f"w{worker}" for worker in workers],
            "label": [("cat", "dog", "owl", "elk")[label] for label in found.column("label").to_pylist()],
        }
    )


def out_of_core(model: Any, path: Path) -> mh.Annotations:
    """The shards that a model on Spark went through, as a directory of the library's."""
    held = model.aggregator._votes.passes
    stored = held.directory
    names = Names(stored.workers._store)
    with Claim(path) as claim:
        writer = Writer(claim, names, stored.classes, stored.labels)
        for index in range(len(stored.entries)):
            shard = stored.read(index)
            local = shard.table()
            tasks, workers, labels = local.columns()
            sizes = (local.n_tasks, len(names), shard.n_labels, "keep", shard.n_classes)
            table = _core.Table(tasks, shard.who()[workers], labels, local.weights(), *sizes)
            assert _core.Shard.of(table).to_bytes() == shard.to_bytes()
            writer.add(table, stored.tasks(index))
        return mh.Annotations.from_shards(Sharded(writer.finish()))


def same_bits(model: Any, other: Any) -> None:
    """Hold two fitted aggregators to each other."""
    assert model.n_iter_ == other.n_iter_
    for name in ("prior_", "confusion_", "posterior_", "history_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(other, name), name)


def run_apart(script: str, *arguments: str, expect: int = 0) -> str:
    """Run a script of this folder with a Python and a Spark of its own; return what it says."""
    environment = os.environ | {"JAVA_TOOL_OPTIONS": FLAGS, "PYSPARK_PYTHON": sys.executable}
    environment["PYTHONPATH"] = os.pathsep.join([*sys.path, str(Path(__file__).parent)])
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / script), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert done.returncode == expect, done.stderr[-4000:] + done.stdout[-2000:]
    return done.stdout
