"""Tables from matrices, wide frames and codes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tables import FRAMES, LOG, rows_of

import manyhands as mh


def test_dense_matrices():
    votes = mh.Annotations.from_dense([[2, -1, 0], [-1, -1, 2]])
    assert rows_of(votes) == [(0, 0, 2), (0, 2, 0), (1, 2, 2)]
    assert votes.workers.tolist() == [0, 2]
    assert mh.Annotations.from_dense([[2.0, np.nan, 0.0], [-1, np.nan, 2.0]]) == votes
    masked = np.ma.array([[2, 0, 0], [1, 1, 2]], mask=[[0, 1, 0], [1, 1, 0]])
    assert mh.Annotations.from_dense(masked) == votes
    assert mh.Annotations.from_dense([[2, 9, 0], [9, 9, 2]], missing=9) == votes
    assert mh.Annotations.from_dense(pd.DataFrame([[2, pd.NA, 0], [-1, None, 2]], dtype=object)) == votes


WIDE = {"ann": ["x", "y", None], "bob": ["y", "y", "x"], "eve": [None, None, "x"]}


WIDE_ROWS = [("p", "ann", "y"), ("p", "bob", "y"), ("q", "ann", "x"), ("q", "bob", "y"), ("r", "bob", "x")]


WIDE_ROWS += [("r", "eve", "x")]


IDS_OF_WIDE = ["q", "p", "r"]


def test_an_index_and_columns_keep_their_names():
    assert rows_of(mh.Annotations.from_dense(pd.DataFrame(WIDE, index=IDS_OF_WIDE))) == WIDE_ROWS
    numbered = [(IDS_OF_WIDE.index(task), worker, label) for task, worker, label in WIDE_ROWS]
    for form in ("pandas", "polars", "arrow table", "mapping", "duckdb relation"):
        assert rows_of(mh.Annotations.from_dense(FRAMES[form](WIDE))) == sorted(numbered)
        frame = FRAMES[form]({"ann": WIDE["ann"], "item": IDS_OF_WIDE, "bob": WIDE["bob"], "eve": WIDE["eve"]})
        assert rows_of(mh.Annotations.from_dense(frame, task="item")) == WIDE_ROWS


def test_names_of_any_kind_name_dense_tasks_and_workers():
    frame = pd.DataFrame([[1, 0], [0, 1]], index=pd.MultiIndex.from_tuples([("b", 1), ("a", 2)]), columns=[7, 3])
    votes = mh.Annotations.from_dense(frame)
    assert votes.tasks.tolist() == [("a", 2), ("b", 1)]
    assert votes.workers.tolist() == [3, 7]
    assert votes.codes()[2].tolist() == [1, 0, 0, 1]


def test_unlabelled_rows_of_a_frame_are_named():
    frame = pd.DataFrame({"ann": ["x", None, None], "bob": ["y", None, None]}, index=["q", "s", "p"])
    with pytest.warns(mh.errors.DataWarning, match="2 tasks.*'p'.*'s'"):
        votes = mh.Annotations.from_dense(frame)
    assert votes.unlabelled.tolist() == ["p", "s"]


def test_columns_of_unlike_types_hold_the_same_labels():
    frame = pd.DataFrame({"ann": [2, 1, 0], "bob": [2.0, np.nan, 1.0], "eve": pd.array([2, 1, None], "Int64")})
    votes = mh.Annotations.from_dense(frame)
    assert votes.classes.tolist() == [0, 1, 2]
    assert rows_of(votes)[:5] == [(0, "ann", 2), (0, "bob", 2), (0, "eve", 2), (1, "ann", 1), (1, "eve", 1)]
    assert rows_of(votes)[5:] == [(2, "ann", 0), (2, "bob", 1)]
    large = pl.DataFrame({"ann": [2**53 + 1, 2**53], "bob": [0.0, 1.0]})
    assert mh.Annotations.from_dense(large).classes.tolist() == [0, 1, 2**53, 2**53 + 1]
    gaps = pl.DataFrame({"ann": [2**53 + 1, None], "bob": [2**53, 2**53]})
    assert mh.Annotations.from_dense(gaps).classes.tolist() == [2**53, 2**53 + 1]


def rated(n: int) -> dict:
    rng = np.random.default_rng(n)
    return {f"rater {i}": rng.integers(0, 3, n).tolist() for i in range(6)}


@pytest.mark.parametrize("ids", [[f"i{k}" for k in range(12)], list(range(1, 13)), list(range(100, 112))], ids=str)
@pytest.mark.parametrize("form", ["pandas", "polars", "arrow table", "mapping"])
def test_an_id_column_is_no_worker(form, ids):
    frame = FRAMES[form]({"thing": ids, **rated(12)})
    message = r"column 'thing' looks like the ids of tasks, .*all of its 12 values differ.*with task='thing'"
    with pytest.raises(ValueError, match=message):
        mh.Annotations.from_dense(frame)
    votes = mh.Annotations.from_dense(frame, task="thing")
    assert (votes.n_workers, votes.n_classes, votes.tasks.tolist()) == (6, 3, sorted(ids))


def test_an_id_column_is_known_by_its_name_in_the_smallest_frame():
    with pytest.raises(ValueError, match="column 'Item'"):
        mh.Annotations.from_dense({"Item": ["a", "b"], "ann": ["x", "y"]})
    matrix = np.column_stack([np.arange(12) + 50, *rated(12).values()])
    with pytest.raises(ValueError, match="column 0"):
        mh.Annotations.from_dense(matrix)


def test_a_worker_with_many_answers_is_no_id_column():
    # All of their labels differ, but those of others do too.
    frame = pd.DataFrame({"ann": list("abcdefg"), "bob": list("abcdefh"), "eve": list("abcdeij")})
    assert mh.Annotations.from_dense(frame).n_workers == 3
    assert mh.Annotations.from_dense([[0, 1], [2, 3]]).n_workers == 2
    assert mh.Annotations.from_dense({"ann": list("abcde")}).n_workers == 1


@pytest.mark.parametrize(
    ("frame", "options", "error", "message"),
    [
        (pd.DataFrame(WIDE, index=["a", "b", "a"]), {}, ValueError, "'a'"),
        (pd.DataFrame(WIDE, index=["a", None, "c"]), {}, ValueError, "rows"),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), {}, ValueError, "'x'"),
        (WIDE, {"task": "item"}, ValueError, "column 'item'.*'ann'.*'bob'.*'eve'"),
        ([[1, 2]], {"task": "item"}, ValueError, "matrix"),
        (LOG, {}, ValueError, "'task', 'worker', 'label' look like a log .*from_frame"),
        ({"task": ["a"]}, {"task": "task"}, ValueError, "labels"),
        ({"ann": [1, 2], "bob": [1]}, {}, ValueError, "2,.*1"),
        (pl.DataFrame(WIDE).lazy(), {}, TypeError, "LazyFrame"),
        ({"ann": [0.5, 1.5], "bob": [0.25, 1]}, {}, ValueError, "matrix"),
    ],
)
def test_bad_wide_frames_are_refused(frame, options, error, message):
    with pytest.raises(error, match=message):
        mh.Annotations.from_dense(frame, **options)


@pytest.mark.parametrize("missing", [-1, None, "", np.nan, pd.NA])
def test_dense_text_with_any_sign_of_absence(missing):
    matrix = np.array([["x", missing], ["", "y"]], object)
    assert rows_of(mh.Annotations.from_dense(matrix, missing=missing)) == [(0, 0, "x"), (1, 1, "y")]


def test_dense_rows_without_a_label_are_reported():
    with pytest.warns(mh.errors.DataWarning, match="2 tasks.*1,.*3"):
        votes = mh.Annotations.from_dense([[0, 1], [-1, -1], [1, 1], [-1, -1]], classes=[1, 0])
    assert votes.tasks.tolist() == [0, 2]
    assert votes.unlabelled.tolist() == [1, 3]
    assert votes.classes.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([1, 2], r"\(2,\)"),
        (np.zeros((1, 1, 1)), "shape"),
        (np.zeros((0, 3)), r"\(0, 3\)"),
        ([[-1, -1]], "label"),
    ],
)
def test_bad_matrices_are_refused(matrix, message):
    with pytest.raises(ValueError, match=message):
        mh.Annotations.from_dense(matrix)


def test_codes_are_their_own_names():
    votes = mh.Annotations.from_codes(
        [4, 0, 4], [1, 1, 0], [2, 0, 2], n_tasks=6, n_workers=2, n_classes=4, weights=[1, 2, 3]
    )
    assert rows_of(votes) == [(0, 1, 0, 2.0), (4, 0, 2, 3.0), (4, 1, 2, 1.0)]
    assert votes.tasks.tolist() == [0, 1, 2, 3, 4, 5]
    assert votes.labels_per_task.tolist() == [1, 0, 0, 0, 2, 0]
    assert votes.labels_per_worker.tolist() == [1, 2]


SIZES = {"n_tasks": 2, "n_workers": 2, "n_classes": 2}


@pytest.mark.parametrize(
    ("codes", "sizes", "error", "message"),
    [
        (([-1, 0], [0, 1], [0, 1]), {}, ValueError, "tasks.*0.*4,294,967,295"),
        (([0, 1], [0, 2**33], [0, 1]), {}, ValueError, "workers"),
        (([0, 1], [0, 1], [0, 65_536]), {}, ValueError, "labels.*0.*65,535"),
        (([0, 2], [0, 1], [0, 1]), {}, ValueError, "code 2.*row 1"),
        (([0, 1], [0, 2], [0, 1]), {}, ValueError, "code 2.*row 1"),
        (([0, 1], [0, 1], [2, 1]), {}, ValueError, "code 2.*row 0"),
        (([0.0, 1.0], [0, 1], [0, 1]), {}, TypeError, "tasks"),
        ((["a", "b"], [0, 1], [0, 1]), {}, TypeError, "from_arrays"),
        (([0, 1], [True, False], [0, 1]), {}, TypeError, "workers"),
        (
            ([0, 1, 1], [0, 1], [0, 1]),
            {},
            ValueError,
            "3 tasks.*2 workers.*2 labels",
        ),
        (([[0, 1]], [0, 1], [0, 1]), {}, ValueError, r"tasks.*\(1, 2\)"),
        (([], [], []), {}, ValueError, "there are no annotations"),
        (([0, 1], [0, 1], [0, 1]), {"n_tasks": 0}, ValueError, "n_tasks.*1,.*0"),
        (([0, 1], [0, 1], [0, 1]), {"n_classes": 65_536}, ValueError, "65,536 distinct"),
        (([0, 1], [0, 1], [0, 1]), {"n_workers": 2**32}, ValueError, "4294967295 tasks"),
        (([0, 1], [0, 1], [0, 1]), {"n_tasks": 2**32}, ValueError, "4294967295 tasks"),
    ],
)
def test_bad_codes_are_refused(codes, sizes, error, message):
    with pytest.raises(error, match=message):
        mh.Annotations.from_codes(*codes, **SIZES | sizes)
