"""Known classes in every form, matched with tasks by name."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from draws import SEEDS
from hypothesis import given
from hypothesis import strategies as st

from manyhands import metrics

# Gold


TASKS = np.array(["t1", "t2", "t3", "t4"])


def gold_forms(ids, labels):
    pa, pd, pl = pytest.importorskip("pyarrow"), pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {"other": range(len(ids)), "label": labels, "task": ids}
    return {
        "mapping": dict(zip(ids, labels, strict=True)),
        "pair": (ids, labels),
        "arrays": (np.array(ids), np.array(labels)),
        "arrow": pa.table(columns),
        "dictionary": pa.table(
            {"task": pa.array(ids).dictionary_encode(), "label": pa.array(labels).dictionary_encode()}
        ),
        "pandas": pd.DataFrame(columns),
        "categories": pd.DataFrame(columns).astype({"label": "category"}),
        "series": pd.Series(labels, index=ids),
        "polars": pl.DataFrame(columns),
        "polars categories": pl.DataFrame(columns).cast({pl.String: pl.Categorical}),
    }


@pytest.mark.parametrize(
    ("tasks", "ids"),
    [(TASKS, ["t4", "t1", "t2"]), (TASKS.astype(object), ["t4", "t1", "t2"]), ([30, 10, 20, 5], [5, 30, 10])],
    ids=["text", "objects", "unsorted integers"],
)
@pytest.mark.parametrize("labels", [["x", "y", "x"], [1, 0, 1], [True, False, True]], ids=["text", "int", "bool"])
def test_gold_in_every_form(tasks, ids, labels):
    for form, gold in gold_forms(ids, labels).items():
        index, truth = metrics.match_gold(tasks, gold)
        assert index.tolist() == [0, 1, 3], form
        assert truth.tolist() == [labels[1], labels[2], labels[0]], form


def test_gold_from_duckdb():
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        gold = connection.sql("select * from (values ('t3', 1), ('t2', 0)) as g(task, label)")
        index, truth = metrics.match_gold(TASKS, gold)
    assert (index.tolist(), truth.tolist()) == ([1, 2], [0, 1])


@given(SEEDS, st.integers(1, 30), st.sampled_from([int, str, float, "uint64"]))
def test_match_gold_against_a_loop(seed, n, kind):
    rng = np.random.default_rng(seed)
    ids = rng.choice(1000, n, replace=False)
    tasks = ids.astype(kind)
    chosen = rng.permutation(n)[: rng.integers(1, n + 1)]
    labels = rng.integers(0, 3, len(chosen))
    index, truth = metrics.match_gold(tasks, (tasks[chosen], labels))
    expected = sorted(zip(chosen.tolist(), labels.tolist(), strict=True))
    assert list(zip(index.tolist(), truth.tolist(), strict=True)) == expected
    again, _ = metrics.match_gold(tasks, dict(zip(tasks[chosen].tolist(), labels.tolist(), strict=True)))
    assert again.tolist() == index.tolist()


def test_gold_without_a_label_is_no_gold():
    pa, pd, pl = pytest.importorskip("pyarrow"), pytest.importorskip("pandas"), pytest.importorskip("polars")
    for gold in (
        {"t1": None, "t3": 1},
        {"t1": float("nan"), "t3": 1},
        (["t1", "t3"], [np.nan, 1.0]),
        pa.table({"task": ["t1", "t3"], "label": [None, 1]}),
        pd.DataFrame({"task": ["t1", "t3"], "label": [None, 1]}),
        pd.Series([pd.NA, 1], index=["t1", "t3"], dtype="Int64"),
    ):
        index, truth = metrics.match_gold(TASKS, gold)
        assert (index.tolist(), truth.tolist()) == ([2], [1])
    some = pl.DataFrame({"task": ["t1", "t3", "t2"], "label": ["x", "y", None]})
    for gold in (some, some.cast(pl.Categorical), some.to_pandas(), some.to_pandas().astype("category")):
        index, truth = metrics.match_gold(TASKS, gold)
        assert (index.tolist(), truth.tolist()) == ([0, 2], ["x", "y"])
    nulls = pa.table({"task": ["t1", "t2"], "label": pa.array([None, 1], pa.int64())})
    assert metrics.match_gold(TASKS, nulls)[1].dtype == np.int64


def test_large_ids_keep_all_their_digits():
    big = 2**63 + np.arange(3, dtype=np.uint64)
    assert metrics.match_gold(big, (big[[1]], ["x"]))[0].tolist() == [1]
    near = 2**53 + np.arange(3)  # int64 that float64 cannot tell apart
    assert metrics.match_gold(near, (near[[1]].astype(np.uint64), ["x"]))[0].tolist() == [1]


def test_ids_that_are_tuples_or_dates():
    index, _ = metrics.match_gold([("a", 1), ("a", 2)], {("a", 2): "x"})
    assert index.tolist() == [1]
    days = np.array(["2024-01-01", "2024-01-02"], dtype="M8[D]")
    assert metrics.match_gold(days, (days[[1]].astype("M8[ns]"), ["x"]))[0].tolist() == [1]
    assert metrics.match_gold(days.tolist(), {datetime.date(2024, 1, 2): "x"})[0].tolist() == [1]


def test_unknown_tasks_can_be_ignored():
    index, truth = metrics.match_gold(TASKS, {"t9": "x", "t2": "y"}, unknown="ignore")
    assert (index.tolist(), truth.tolist()) == ([1], ["y"])


def test_match_then_measure():
    labels = np.array(["x", "y", "y", "x"])
    index, truth = metrics.match_gold(TASKS, {"t3": "y", "t1": "y"})
    assert metrics.accuracy(labels[index], truth) == 0.5


@pytest.mark.parametrize(
    ("tasks", "gold", "options", "error", "match"),
    [
        (
            TASKS,
            {"t1": 1, "u": 1},
            {},
            ValueError,
            "1 of 2 gold.*'u'.*unknown=",
        ),
        (TASKS, dict.fromkeys("abcde", 1), {}, ValueError, r"5 of 5 gold .* 'a', 'b', 'c', …"),
        (TASKS, {"u": 1}, {"unknown": "ignore"}, ValueError, "1 of 1 gold"),
        ([1, 2], {"1": 0}, {}, ValueError, "gold.*strings.*integers"),
        ([1, 2], {"1": 0}, {"unknown": "ignore"}, ValueError, "ids"),
        (
            ["1", "2"],
            ([1, 2], [0, 0]),
            {},
            ValueError,
            "1,.*2",
        ),
        (TASKS, {}, {}, ValueError, "gold"),
        (TASKS, {"t1": None}, {}, ValueError, "gold"),
        ([], {"t1": 1}, {}, ValueError, "tasks"),
        (["a", "a"], {"a": 1}, {}, ValueError, "tasks.*'a'"),
        ([2, 1, 2], {1: 1}, {}, ValueError, "tasks.*2"),
        (TASKS, (["t1", "t1"], [1, 1]), {}, ValueError, "gold.*task 't1'"),
        (TASKS, (["t1", "t2"], [1]), {}, ValueError, "2 rows.*1"),
        (TASKS, (["t1"], [1], [1]), {}, ValueError, "tuple of 3"),
        (TASKS, [("t1", 1)], {}, TypeError, "gold"),
        (TASKS, None, {}, TypeError, "gold.*NoneType"),
        (TASKS, {"t1": 1, None: 1}, {}, ValueError, "gold.*row 1"),
        ([1, 2], ([np.nan, 1.0], [0, 0]), {"unknown": "ignore"}, ValueError, "gold.*row 0"),
        (
            TASKS,
            {"t1": 1},
            {"unknown": "drop"},
            ValueError,
            "unknown.*'raise'.*'ignore'.*'drop'",
        ),
    ],
)
def test_match_gold_names_what_is_wrong(tasks, gold, options, error, match):
    with pytest.raises(error, match=match):
        metrics.match_gold(tasks, gold, **options)


def test_frames_of_the_wrong_shape():
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    with pytest.raises(ValueError, match=r"gold.*'task'.*'item', 'label'"):
        metrics.match_gold(TASKS, pa.table({"item": ["t1"], "label": [1]}))
    for ids in (pa.array(["t1", None]), pa.array(["t1", None]).dictionary_encode(), pa.array([1, None])):
        with pytest.raises(ValueError, match=r"gold.*row 1"):
            metrics.match_gold(TASKS, pa.table({"task": ids, "label": [1, 1]}))
    with pytest.raises(TypeError, match="call collect"):
        metrics.match_gold(TASKS, pl.LazyFrame({"task": ["t1"], "label": [1]}))
