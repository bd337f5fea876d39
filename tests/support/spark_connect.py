"""A session of Spark Connect, killed in the middle of a fit and begun again; run apart by test_spark_apart.py."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

from spark_logs import out_of_core, same_bits, text_log

import manyhands as mh


def main(folder: Path, how: str) -> None:
    # Spark then serves at any free port, and not at one that another run of the tests may have.
    os.environ["SPARK_TESTING"] = "1"
    from pyspark.sql import SparkSession

    from manyhands.spark import Consensus, DawidSkene, shards

    session = (
        SparkSession.builder.remote("local[2]")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "3")
        .getOrCreate()
    )
    assert "connect" in type(session).__module__
    count, made = shards.SparkShards.add, itertools.count()

    def add(self: Any, *sums: Any) -> float:
        if next(made) == 3 and how == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        return count(self, *sums)

    shards.SparkShards.add = add  # type: ignore[method-assign]
    options: dict[str, Any] = {"max_iter": 6, "tol": 0}
    frame = session.createDataFrame(text_log()).repartition(3)
    model = DawidSkene(checkpoint=str(folder / "log"), n_shards=3, every=0, **options).fit(frame)
    assert next(made) == 8 - 3, "passes that were made before are made again"
    same_bits(mh.DawidSkene(**options).fit(out_of_core(model, folder / "files")), model.aggregator)
    whole = mh.DawidSkene(**options).fit(mh.Annotations.from_frame(text_log()))
    assert model.answers().toArrow().sort_by("task").column("label").to_pylist() == whole.labels_.tolist()
    assert model.workers().toArrow().column("worker").to_pylist() == whole.workers_.tolist()
    assert model.transform(frame).toArrow().sort_by("task").column("label").to_pylist() == whole.labels_.tolist()
    default = Consensus(checkpoint=str(folder / "log"), n_shards=3, protected=2, max_iter=1).fit(frame)
    assert default.aggregator.discount_ >= 0
    model.answers().write.parquet(str(folder / "answers"))
    session.stop()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]), sys.argv[2])
