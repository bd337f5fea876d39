"""Estimators on Spark, against the library in memory and out of core: one session with two cores."""

from __future__ import annotations

import datetime
import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from shard_logs import ORDER, close
from spark_logs import FLAGS, SETTINGS, needs_java, out_of_core, same_bits, text_log

import manyhands as mh
from manyhands.errors import FileFormatError

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::manyhands.errors.DataWarning"),
    pytest.mark.filterwarnings("ignore::manyhands.errors.ConvergenceWarning"),
]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    needs_java()
    from manyhands.spark import local_session

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", FLAGS)
        session = local_session("local[2]", **SETTINGS)
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


@pytest.fixture(scope="module")
def log() -> pa.Table:
    return text_log()


@pytest.fixture(scope="module")
def frame(spark: Any, log: pa.Table) -> Any:
    return spark.createDataFrame(log)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The checkpoint of the log, which all methods share."""
    return str(tmp_path_factory.mktemp("checkpoint") / "log")


def sorted_answers(frame: Any) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = frame.toArrow().sort_by("task").to_pydict()
    return found


METHODS: dict[str, dict[str, Any]] = {
    "MajorityVote": {},
    "WeightedVote": {},
    "DawidSkene": {"max_iter": 5, "restarts": 1, "tol": 0, "gold": {"t3": "cat", "t80": "owl"}},
    "BayesianDawidSkene": {"max_iter": 3, "protected": 2},
    "HierarchicalDawidSkene": {"protected": 2, "max_iter": 2},
    "HierarchicalMACE": {"protected": 2, "max_iter": 2},
    "Consensus": {"protected": 2, "max_iter": 1, "gold": {"t3": "cat", "t80": "owl"}},
}


@pytest.mark.parametrize("method", METHODS)
def test_answers_are_those_of_memory_and_the_bits_those_of_files(
    method: str, frame: Any, log: pa.Table, shared: str, tmp_path: Path
) -> None:
    import manyhands.spark

    model = getattr(manyhands.spark, method)(checkpoint=shared, n_shards=3, **METHODS[method]).fit(frame)
    whole = getattr(mh.categorical, method)(**METHODS[method]).fit(mh.Annotations.from_frame(log))
    close(whole, model.aggregator)
    same_bits(getattr(mh.categorical, method)(**METHODS[method]).fit(out_of_core(model, tmp_path)), model.aggregator)
    found = sorted_answers(model.answers())
    assert found["task"] == whole.tasks_.tolist()
    assert found["label"] == whole.labels_.tolist()
    assert found["tied"] == whole.tied_.tolist()
    np.testing.assert_allclose(found["confidence"], whole.to_frame().column("confidence"), atol=ORDER)


def test_everything_a_model_tells(spark: Any, frame: Any, log: pa.Table, shared: str) -> None:
    from manyhands.spark import DawidSkene

    estimator = DawidSkene(
        task_col="task", worker_col="worker", label_col="label", checkpoint=shared, n_shards=3, max_iter=4
    )
    assert estimator.getOrDefault(estimator.max_iter) == 4
    model = estimator.fit(frame)
    whole = mh.DawidSkene(max_iter=4).fit(mh.Annotations.from_frame(log))
    workers = model.workers().toArrow()
    for name in workers.column_names[2:]:
        np.testing.assert_allclose(workers.column(name), whole.workers_frame().column(name), atol=ORDER)
    assert workers.select([0, 1]).to_pydict() == whole.workers_frame().select([0, 1]).to_pydict()
    rows = model.answers(probabilities=True).toArrow().sort_by("task").column("probabilities").to_pylist()
    np.testing.assert_allclose(rows, whole.posterior_, atol=ORDER)
    # Other tasks, a stranger among their workers, one task twice in the rows.
    other = text_log(30, 12, 3, seed=5, name="new")
    other = pa.concat_tables([other, pa.table({"task": ["new1"], "worker": ["stranger"], "label": ["owl"]})])
    found = sorted_answers(model.transform(spark.createDataFrame(other).repartition(3)))
    votes = mh.Annotations.from_frame(other, classes=["cat", "dog", "owl"])
    assert found["task"] == votes.tasks.tolist()
    assert found["label"] == whole.predict(votes).tolist()
    np.testing.assert_allclose(found["confidence"], whole.predict_proba(votes).max(axis=1), atol=ORDER)
    with pytest.raises(ValueError, match="'cow'"):
        model.transform(spark.createDataFrame(pa.table({"task": ["a"], "worker": ["w1"], "label": ["cow"]})))
    assert "fitted to 120 tasks" in repr(model)
    again = estimator.copy({estimator.max_iter: 2})
    assert again.getOrDefault("max_iter") == 2
    assert "max_iter=2" in repr(again)


def test_neither_partitions_nor_the_order_of_rows_change_a_bit(
    spark: Any, log: pa.Table, frame: Any, shared: str, tmp_path: Path
) -> None:
    from manyhands.spark import DawidSkene

    def fitted(rows: Any, path: str, **options: Any) -> Any:
        return DawidSkene(checkpoint=path, n_shards=3, max_iter=3, **options).fit(rows)

    wanted = fitted(frame, shared).aggregator
    shuffled = spark.createDataFrame(log.take(np.random.default_rng(0).permutation(len(log))))
    empty = shuffled.repartition(7, "worker").union(frame.limit(0))
    same_bits(fitted(empty, str(tmp_path / "other")).aggregator, wanted)


def test_ranges_of_tasks_without_a_label(spark: Any, tmp_path: Path) -> None:
    from manyhands.spark import MajorityVote

    table = pa.table({"task": [*"aabbcc"], "worker": [*"xyxyxy"], "label": ["p", "q", None, None, "q", "q"]})
    model = MajorityVote(checkpoint=str(tmp_path), n_shards=3).fit(spark.createDataFrame(table))
    assert sorted_answers(model.answers())["task"] == ["a", "c"]
    assert model.aggregator.posterior_.tolist() == [[0.5, 0.5], [0.0, 1.0]]


def test_large_parameters_and_sums_go_by_frames(
    frame: Any, shared: str, monkeypatch: pytest.MonkeyPatch, spark: Any
) -> None:
    from manyhands.spark import DawidSkene, checkpoint, jobs, shards

    plain = DawidSkene(checkpoint=shared, n_shards=3, max_iter=2).fit(frame)
    monkeypatch.setattr(jobs.Sender, "__init__", lambda self, found: vars(self).update(checkpoint=found, closure=100))
    monkeypatch.setattr(shards, "GATHERED", 0)
    monkeypatch.setattr(jobs, "CHUNK", 300)
    monkeypatch.setattr(checkpoint, "CHUNK", 300)
    plain.forget()
    model = DawidSkene(checkpoint=shared, n_shards=3, max_iter=2).fit(frame)
    same_bits(model.aggregator, plain.aggregator)
    assert sorted_answers(model.answers()) == sorted_answers(plain.answers())
    assert sorted_answers(model.transform(frame)) == sorted_answers(plain.transform(frame))


# ----------------------------------------------------------------------------------------------------- any log


def names(kind: str, n: int) -> list[Any]:
    made: dict[str, list[Any]] = {
        "text": [f"é{i}\t" for i in range(n)],
        "numbers": [10**12 - 7 * i for i in range(n)],
        "dates": [datetime.date(2020, 1, 1) + datetime.timedelta(days=i) for i in range(n)],
    }
    return made[kind]


@st.composite
def logs(draw: st.DrawFn) -> tuple[pa.Table, dict[str, Any], dict[str, Any]]:
    """A log, how Spark is told of it, and how the library is."""
    n = draw(st.integers(1, 40))
    size = draw(st.integers(1, 9))
    kinds = st.sampled_from(["text", "numbers", "dates"])
    pick = np.random.default_rng(draw(st.integers(0, 10**6)))
    ids = {role: names(draw(kinds), size) for role in ("task", "worker")}
    columns = {role: [known[i] for i in pick.integers(0, size, n)] for role, known in ids.items()}
    labels = draw(st.sampled_from([["a", "b", "?"], [1.0, -2.0, 0.0], [True, False]]))
    columns["label"] = [labels[i] for i in pick.integers(0, len(labels), n)]
    table, told, plain = pa.table(columns), {}, {}
    if draw(st.booleans()) and n > 1:
        absent = pa.array([None if i % 3 == 1 else x for i, x in enumerate(columns["label"])], table.column(2).type)
        table = table.set_column(2, "label", absent)
    if draw(st.booleans()):
        role = draw(st.sampled_from(["weight", "confidence"]))
        table = table.append_column(role, pa.array(pick.uniform(0.3, 1.0, n).round(1)))
        told[f"{role}_col"] = plain[role] = role
    if labels[-1] == "?" and draw(st.booleans()):
        table = pa.concat_tables([table, table.slice(0, 1).set_column(2, "label", pa.array(["a"]))])
        told["abstain"] = plain["abstain"] = "?"
    repeats = draw(st.sampled_from(["keep", "first", "last"]))
    if repeats != "keep":
        table = table.append_column("at", pa.array(range(len(table))))
        told |= {"repeats": repeats, "order_by": "at"}
        plain["repeats"] = repeats
    return table, told, plain


@settings(max_examples=5, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(made=logs(), n_shards=st.sampled_from([1, 2, 50]), partitions=st.integers(1, 6), known=st.booleans())
def test_any_log(
    spark: Any,
    tmp_path_factory: pytest.TempPathFactory,
    made: tuple[pa.Table, dict[str, Any], dict[str, Any]],
    n_shards: int,
    partitions: int,
    known: bool,
) -> None:
    from manyhands.spark import DawidSkene

    table, told, plain = made
    votes = mh.Annotations.from_frame(table, **plain)
    gold = {votes.tasks.tolist()[0]: votes.classes.tolist()[0]} if known else None
    options = {"max_iter": 2, "tol": 0, "gold": gold}
    whole = mh.DawidSkene(**options).fit(votes)
    folder = tmp_path_factory.mktemp("any")
    rows = spark.createDataFrame(table).repartition(partitions, "worker")
    model = DawidSkene(checkpoint=str(folder / "log"), n_shards=n_shards, **options, **told).fit(rows)
    close(whole, model.aggregator)
    same_bits(mh.DawidSkene(**options).fit(out_of_core(model, folder / "files")), model.aggregator)
    found = sorted_answers(model.answers())
    assert found["task"] == votes.tasks.tolist()
    assert found["label"] == whole.labels_.tolist()


# ------------------------------------------------------------------------------------------------- what is refused


def rows(**columns: Any) -> pa.Table:
    return pa.table({"task": ["a", "b"], "worker": ["x", "y"], "label": ["c", "d"]} | columns)


BAD: dict[str, tuple[pa.Table, dict[str, Any], type[Exception], str]] = {
    "no column": (rows(), {"task_col": "item"}, ValueError, "'item'.*task_col.*'task'"),
    "no task": (rows(task=["a", None]), {}, ValueError, "'task'.*1 of 2"),
    "empty worker": (rows(worker=["", ""]), {}, ValueError, "'worker'.*2 of 2"),
    "no label": (rows(label=["c", None]), {"missing": "error"}, ValueError, "missing='drop'"),
    "no labels": (rows(label=pa.array([None, None], "string")), {}, ValueError, "label"),
    "no rows": (rows().slice(0, 0), {}, ValueError, "annotations"),
    "lists": (rows(task=[[1], [2]]), {}, TypeError, "'task'.*array<bigint>"),
    "fractions": (rows(worker=[0.5, 1.0]), {}, TypeError, "'worker'.*double"),
    "times": (
        rows(task=pa.array([1, 2], pa.timestamp("us", "UTC"))),
        {},
        TypeError,
        r"'task'.*timestamp.*unix_micros\(`task`\)",
    ),
    "decimals": (
        rows(worker=pa.array([1, 2], pa.decimal128(10, 0))),
        {},
        TypeError,
        r"'worker'.*decimal\(10,0\).*cast\(`worker` as bigint\)",
    ),
    "binary": (rows(label=pa.array([b"\x00", b"\xff"])), {}, TypeError, r"binary.*hex\(`label`\)"),
    "text for weights": (rows(w=["1", "2"]), {"weight_col": "w"}, TypeError, "'w'"),
    "negative weights": (rows(w=[1.0, -1.0]), {"weight_col": "w"}, ValueError, "weight.*'w'"),
    "great weights": (rows(w=[1.0, 1e300]), {"weight_col": "w"}, ValueError, "1e\\+300|'w'"),
    "no confidence": (rows(w=[1.0, 1.5]), {"confidence_col": "w"}, ValueError, "'w'"),
    "both": (
        rows(w=[1.0, 1.5]),
        {"confidence_col": "w", "weight_col": "w"},
        ValueError,
        "weight.*confidence|confidence.*weight",
    ),
    "no order": (rows(), {"repeats": "first"}, ValueError, "order_by"),
    "an order for nothing": (rows(), {"order_by": "task"}, ValueError, "order_by"),
    "nowhere": (rows(), {"checkpoint": None}, ValueError, "checkpoint"),
    "no such start": (rows(), {"init": "spectral"}, TypeError, "start"),
    "no such model": (rows(), {"model": "half"}, ValueError, "'half'"),
    "twice": (rows(task=["a", "a"], worker=["x", "x"]), {"repeats": "error"}, ValueError, "'x'.*'a'"),
    "at once": (
        rows(task=["a", "a"], worker=["x", "x"], at=[1, 1]),
        {"repeats": "last", "order_by": "at"},
        ValueError,
        "'a'",
    ),
    "unknown gold": (rows(), {"gold": {"z": "c"}}, ValueError, "1 of 1.*'z'"),
    "unknown class": (rows(), {"gold": {"a": "z"}}, ValueError, "'z'"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_refused(case: str, spark: Any, tmp_path: Path) -> None:
    from manyhands.spark import DawidSkene

    table, options, error, message = BAD[case]
    with pytest.raises(error, match=message):
        DawidSkene(**{"checkpoint": str(tmp_path)} | options).fit(spark.createDataFrame(table))


def test_a_task_that_is_too_long_is_refused(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from manyhands.spark import MajorityVote, encoding

    table = spark.createDataFrame(rows(task=["a", "a"]))
    monkeypatch.setattr(encoding, "_MOST_OF_A_TASK", 1)
    with pytest.raises(ValueError, match=r"'a'.*2 rows.*1"):
        MajorityVote(checkpoint=str(tmp_path)).fit(table)


def test_a_journal_that_cannot_be_written_ends_no_fit(frame: Any, shared: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.errors import PySparkException

    from manyhands.spark import DawidSkene, checkpoint

    def full(*_: Any) -> None:
        raise PySparkException("No space left on device")

    wanted = DawidSkene(checkpoint=shared, n_shards=3, max_iter=2).fit(frame)
    wanted.forget()
    monkeypatch.setattr(checkpoint.Checkpoint, "put", full)
    with pytest.warns(mh.errors.DataWarning, match="No space left"):
        model = DawidSkene(checkpoint=shared, n_shards=3, max_iter=2, every=0).fit(frame)
    same_bits(model.aggregator, wanted.aggregator)


def test_options_that_nobody_has() -> None:
    needs_java()
    from manyhands.spark import DawidSkene, MajorityVote

    with pytest.raises(TypeError, match=r"DawidSkene.*'max_itr'"):
        DawidSkene(max_itr=3)
    with pytest.raises(ValueError, match="ties='random'"):
        MajorityVote(ties="random", checkpoint="x").fit(None)


def test_naive_times_are_refused() -> None:
    pytest.importorskip("pyspark")
    from pyspark.sql import types

    from manyhands.spark.columns import _check_type

    with pytest.raises(TypeError, match="timestamp_ntz"):
        _check_type("task", "at", types.TimestampNTZType())


def test_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    from manyhands.spark import local_session

    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(RuntimeError, match=r"JAVA_HOME.*'/nowhere'"):
        local_session()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RuntimeError, match="java"):
        local_session()


def test_a_checkpoint_of_another_log_is_refused(spark: Any, frame: Any, shared: str) -> None:
    from manyhands.spark import MajorityVote

    MajorityVote(checkpoint=shared, n_shards=3).fit(frame)
    for rows_, options in (
        (frame.limit(20), {}),
        (frame, {"classes": ["owl", "dog", "cat"]}),
        (frame, {"n_shards": 2}),
    ):
        with pytest.raises(FileExistsError, match="settings"):
            MajorityVote(**{"checkpoint": shared, "n_shards": 3} | options).fit(rows_)


# --------------------------------------------------------------------------------------------------------- faults


def test_a_pass_that_fails_is_run_again(
    frame: Any, shared: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from manyhands.spark import DawidSkene, shards

    wanted = DawidSkene(checkpoint=shared, n_shards=3, max_iter=3, every=0).fit(frame)
    wanted.forget()
    flag = tmp_path / "failed"
    plain = shards.Count

    class Failing(plain):  # type: ignore[misc, valid-type]
        def __call__(self, rows: Any) -> Any:
            if not flag.exists():
                flag.touch()
                import os

                os._exit(1)  # as a worker of Python that is killed
            return super().__call__(rows)

    monkeypatch.setattr(shards, "Count", Failing)
    model = DawidSkene(checkpoint=shared, n_shards=3, max_iter=3, every=0).fit(frame)
    assert flag.exists()
    same_bits(model.aggregator, wanted.aggregator)
    flag.unlink()
    model.forget()
    from manyhands.spark.checkpoint import failures

    with pytest.raises(failures()):
        DawidSkene(checkpoint=shared, n_shards=3, max_iter=3, retries=0).fit(frame)


def test_passes_that_were_made_are_not_made_again(frame: Any, shared: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from manyhands.spark import DawidSkene, shards

    class Killed(BaseException):
        """As a driver that is."""

    count, made = shards.SparkShards.add, itertools.count()

    def add(self: Any, *sums: Any) -> float:
        if next(made) == 3:
            raise Killed
        return count(self, *sums)

    options = {"checkpoint": shared, "n_shards": 3, "max_iter": 6, "tol": 0, "every": 0}
    wanted = DawidSkene(**options).fit(frame)
    wanted.forget()
    with monkeypatch.context() as patch:
        patch.setattr(shards.SparkShards, "add", add)
        with pytest.raises(Killed):
            DawidSkene(**options).fit(frame)
        made = itertools.count(100)
        model = DawidSkene(**options).fit(frame)
    assert next(made) == 100 + 8 - 3  # an opening, six passes and the end, three of which were there
    same_bits(model.aggregator, wanted.aggregator)


def test_damaged_checkpoints_are_told(frame: Any, tmp_path: Path) -> None:
    from manyhands.spark import MajorityVote

    options = {"checkpoint": str(tmp_path / "log"), "n_shards": 3}
    model = MajorityVote(**options).fit(frame)
    (first, *_) = (tmp_path / "log" / "shards").glob("part-*")
    first.unlink()
    for checksum in (tmp_path / "log" / "shards").glob(".*.crc"):
        checksum.unlink()
    with pytest.raises(FileFormatError, match="1 shard"):
        MajorityVote(**options).fit(frame)
    assert model.aggregator.n_iter_ == 1


def test_the_library_does_not_import_spark() -> None:
    code = "import sys, manyhands as mh; mh.Consensus; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_only_frames_are_used() -> None:
    """Sessions of Connect have no more."""
    import re

    folder = Path(mh.__file__).parent / "spark"
    for path in folder.glob("*.py"):
        assert not re.search(r"\.rdd\b|sparkContext|SparkContext|\.collect\(|\.toPandas\(", path.read_text()), path
