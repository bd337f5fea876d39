"""What a table is told beside its rows: missing labels, repeats, weights and classes."""

from __future__ import annotations

import decimal
import fractions
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import LABELS, LOG, TASKS, WORKERS, rows_of

import manyhands as mh

# --------------------------------------------------------------------------------------------- missing labels

MISSING_LABELS = {
    "None": ["x", None, "y", None],
    "empty": ["x", "", "y", ""],
    "numpy nan": np.array(["x", np.nan, "y", np.nan], object),
    "pandas NA": pd.Series(["x", pd.NA, "y", pd.NA], dtype="string"),
    "pandas category": pd.Categorical(["x", None, "y", None]),
    "empty category": pd.Categorical(["x", "", "y", ""]),
    "polars null": pl.Series(["x", None, "y", ""]),
    "dictionary of nulls": pa.DictionaryArray.from_arrays([1, 0, 2, 0], pa.array([None, "x", "y"])),
    "sliced": pa.array(["z", "x", None, "y", ""])[1:],
    "floats": [1.0, float("nan"), 2.0, None],
    "integers": pd.Series([4, None, 6, pd.NA], dtype="Int64"),
    "booleans": [True, None, False, None],
    "dates": pd.to_datetime(["2024-01-01", None, "2024-01-02", pd.NaT]),
    "numpy dates": np.array(["2024-01-01", "NaT", "2024-01-02", "NaT"], "M8[s]"),
    "mixed": ["x", pd.NA, 3, pd.NaT],
    "mixed with NaN": ["x", float("nan"), (1,), ""],
    "masked": np.ma.array([1, 2, 3, 4], mask=[0, 1, 0, 1]),
}


@pytest.mark.parametrize("kind", MISSING_LABELS)
def test_rows_without_a_label_are_set_aside_and_told(kind):
    tasks, workers, labels = ["b", "a", "b", "a"], ["w1", "w2", "w3", "w2"], MISSING_LABELS[kind]
    message = r"set aside 2 rows without a label; 1 task has no label at all .*\('a'; see \.unlabelled\)"
    with pytest.warns(mh.errors.DataWarning, match=message) as caught:
        votes = mh.Annotations.from_arrays(tasks, workers, labels, [1.0, 2.0, 3.0, 4.0])
    assert Path(caught[0].filename) == Path(__file__)
    assert votes.tasks.tolist() == ["b"]
    assert votes.workers.tolist() == ["w1", "w3"]
    assert votes.n_classes == 2
    assert votes.unlabelled.tolist() == ["a"]
    assert votes.weights.tolist() == [1.0, 3.0]
    assert votes.describe().n_unlabelled == 1
    with pytest.raises(ValueError, match=r"labels.*2 of.*missing='drop'"):
        mh.Annotations.from_arrays(tasks, workers, labels, missing="error")


def test_a_log_without_any_label_is_refused():
    for nothing in ([None, None], ["", ""], [np.nan, np.nan]):
        with pytest.raises(ValueError, match=r"2 of 2 rows.*row 0"):
            mh.Annotations.from_arrays([1, 2], [1, 2], nothing)


def test_a_complete_log_gives_no_warning_and_lists_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        votes = mh.Annotations.from_frame(LOG, missing="error")
    assert votes.unlabelled.tolist() == []


@pytest.mark.parametrize("value", [None, float("nan"), "", pd.NA, pd.NaT])
@pytest.mark.parametrize("role", ["task", "worker"])
def test_rows_without_an_id_are_refused(role, value):
    log = {"task": ["a", "b", "c"], "worker": ["x", "y", "z"], "label": [0, 1, 0]}
    log[role] = [log[role][0], value, log[role][2]]
    with pytest.raises(ValueError, match=f"{role}.*column '{role}'.*1.*3 rows.*row 1"):
        mh.Annotations.from_frame(pd.DataFrame(log))


# ---------------------------------------------------------------------------------- repeats, weights, classes


def test_repeats_count_unless_told_otherwise():
    columns = (["b", "a", "b", "b"], ["x", "x", "x", "x"], [2, 0, 1, 0])
    assert rows_of(mh.Annotations.from_arrays(*columns)) == [
        ("a", "x", 0),
        ("b", "x", 0),
        ("b", "x", 1),
        ("b", "x", 2),
    ]
    first = mh.Annotations.from_arrays(*columns, [10.0, 20.0, 30.0, 40.0], repeats="first")
    assert rows_of(first) == [("a", "x", 0, 20.0), ("b", "x", 2, 10.0)]
    assert first.classes.tolist() == [0, 1, 2]
    last = mh.Annotations.from_arrays(*columns, [10.0, 20.0, 30.0, 40.0], repeats="last")
    assert rows_of(last) == [("a", "x", 0, 20.0), ("b", "x", 0, 40.0)]
    with pytest.raises(ValueError, match=r"'x'.*'b'.*2 such"):
        mh.Annotations.from_arrays(*columns, repeats="error")
    assert mh.Annotations.from_arrays([1, 2], [1, 1], [0, 0], repeats="error").n_annotations == 2


def test_a_missing_answer_is_not_a_repeat():
    columns = ([1, 1, 1], [7, 7, 7], ["x", "y", None])
    with pytest.warns(mh.errors.DataWarning, match="1 row"):
        assert rows_of(mh.Annotations.from_arrays(*columns, repeats="last")) == [(1, 7, "y")]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=40))
def test_repeats_match_a_dictionary(rows):
    tasks, workers, labels = zip(*rows, strict=True)
    last = {(t, w): label for t, w, label in rows}
    first = {(t, w): label for t, w, label in reversed(rows)}
    for repeats, expected in (("last", last), ("first", first)):
        votes = mh.Annotations.from_arrays(tasks, workers, labels, repeats=repeats)
        assert {(t, w): label for t, w, label in rows_of(votes)} == expected
        assert votes.n_annotations == len(expected)
    kept = mh.Annotations.from_arrays(tasks, workers, labels)
    assert kept.describe().n_repeats == len(rows) - len(last)


@pytest.mark.parametrize(
    "make",
    [
        list,
        np.array,
        pd.Series,
        pl.Series,
        pa.array,
        lambda v: pd.Series(v, dtype="Float64"),
        lambda v: np.array(v, "f4"),
        lambda v: pa.chunked_array([v[:1], v[1:]]),
        lambda v: [decimal.Decimal(x) for x in v],
    ],
)
def test_weights_in_any_form(make):
    votes = mh.Annotations.from_arrays(["b", "a", "b"], [1, 2, 2], [0, 1, 1], make([0.5, 0.0, 2.0]))
    assert votes.weights.tolist() == [0.0, 0.5, 2.0]
    assert rows_of(votes)[0] == ("a", 2, 1, 0.0)
    assert ", weighted>" in repr(votes)
    frame = {
        "task": ["b", "a", "b"],
        "worker": [1, 2, 2],
        "label": [0, 1, 1],
        "how much": make([0.5, 0.0, 2.0]),
    }
    assert mh.Annotations.from_frame(frame, weight="how much") == votes
    assert votes != mh.Annotations.from_arrays(["b", "a", "b"], [1, 2, 2], [0, 1, 1])


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), -1.0, None])
def test_weights_that_are_no_weights_are_refused(value):
    shown = {float("inf"): "inf", float("-inf"): "-inf", -1.0: "-1.0"}.get(value, "nan")
    with pytest.raises(ValueError, match=f"weights.*{shown}.*row 1.*0"):
        mh.Annotations.from_arrays([1, 2], [1, 2], [0, 1], [1.0, value])
    frame = pa.table({"task": [1, 2], "worker": [1, 2], "label": [0, 1], "w": pa.array([1.0, value])})
    with pytest.raises(ValueError, match=f"column 'w'.*{shown}.*row 1"):
        mh.Annotations.from_frame(frame, weight="w")
    with pytest.raises(ValueError, match="at row 1"):
        mh.Annotations.from_codes([0, 1], [0, 0], [0, 0], n_tasks=2, n_workers=1, n_classes=1, weights=[1.0, value])


@pytest.mark.parametrize("weights", [["1", "2"], ["a", "b"], [1j, 2j], [{}, {}], [1, "2"]])
def test_weights_must_be_numbers(weights):
    with pytest.raises(TypeError, match="weights"):
        mh.Annotations.from_arrays([1, 2], [1, 2], [0, 1], weights)


def test_classes_fix_the_order_and_may_go_unused():
    for classes, labels in (
        (["dog", "ant", "emu", "cat"], LABELS),
        ([3, 1, 2, 0], [{"dog": 3, "ant": 1, "cat": 0}[x] for x in LABELS]),
        ([3.0, 1.0, 2.0, 0.0], [{"dog": 3, "ant": 1, "cat": 0}[x] for x in LABELS]),
        ([0.5, 0.25, 2.0, 0.125], [{"dog": 0.5, "ant": 0.25, "cat": 0.125}[x] for x in LABELS]),
        (["x", 1, 2.5, ("y",)], [{"dog": "x", "ant": 1, "cat": ("y",)}[x] for x in LABELS]),
    ):
        votes = mh.Annotations.from_arrays(TASKS, WORKERS, labels, classes=classes)
        assert votes.classes.tolist() == classes
        assert votes.codes()[2].tolist() == [3, 0, 1, 0, 0, 0, 0]
        assert list(votes.describe().class_shares.values())[2] == 0.0
        assert mh.MajorityVote().fit(votes).posterior_.shape == (3, 4)


@pytest.mark.parametrize(
    "make", [list, np.array, pd.Series, pl.Series, pa.array, pd.Index, pd.Categorical, iter, dict.fromkeys]
)
def test_classes_in_any_form(make):
    classes = ["dog", "emu", "cat", "ant"]
    votes = mh.Annotations.from_frame(LOG, classes=make(classes))
    assert votes.classes.tolist() == classes


def test_labels_outside_the_classes_are_refused():
    with pytest.raises(ValueError, match=r"'dog'.*'cat', 'ant'"):
        mh.Annotations.from_frame(LOG, classes=["cat", "ant"])
    with pytest.raises(ValueError, match=r"'ant', 'cat'.*2"):
        mh.Annotations.from_frame(LOG, classes=[1, 2])


@pytest.mark.parametrize(
    ("classes", "error", "message"),
    [
        (["a", "b", "a"], ValueError, "classes.*'a'"),
        ([1, 1.0], ValueError, "classes.*1"),
        ([], ValueError, "classes"),
        (["a", None], ValueError, "classes"),
        ("ab", TypeError, "classes"),
        ([["a"], ["b"]], TypeError, "classes.*row 0"),
        (np.zeros((2, 2)), ValueError, r"classes.*\(2, 2\)"),
    ],
)
def test_bad_classes_are_refused(classes, error, message):
    with pytest.raises(error, match=message):
        mh.Annotations.from_frame(LOG, classes=classes)


SCORES = {
    "floats": [3.1, 3.2, 4.0, 4.4],
    "half steps": [1.5, 2.0, 2.5, 3.0],
    "numpy": np.array([0.25, 0.5, 1.0, 2.0], "f4"),
    "pandas with a gap": pd.Series([0.25, 0.5, None, 2.0]),
    "polars": pl.Series([0.25, 0.5, 1.0, 2.0]),
    "decimals": [decimal.Decimal("1.5"), decimal.Decimal(2), decimal.Decimal(3), decimal.Decimal("1e40")],
    "arrow decimals": pa.array([decimal.Decimal("1.5")] * 4),
    "fractions": [fractions.Fraction(1, 2), 1, 2, 3],
    "with a word among them": [0.5, 1.5, "bad", 2.5],
    "infinity": [1.0, 2.0, float("inf"), 3.0],
}


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.filterwarnings("ignore:set aside")
def test_numbers_with_fractions_are_no_classes(kind):
    message = r"labels holds numbers with fractions, such as .* distinct values in \d answers\): .*convert them to text"
    with pytest.raises(ValueError, match=message):
        mh.Annotations.from_arrays([1, 1, 2, 2], [1, 2, 1, 2], SCORES[kind])
    frame = {"task": [1, 1, 2, 2], "worker": [1, 2, 1, 2], "label": SCORES[kind]}
    with pytest.raises(ValueError, match="'label'"):
        mh.Annotations.from_frame(frame)


def test_numbers_that_are_meant_as_names_are_taken():
    ids = ([1, 1, 2, 2], [1, 2, 1, 2])
    assert mh.Annotations.from_arrays(*ids, ["1.5", "2.0", "2.5", "2.5"]).classes.tolist() == ["1.5", "2.0", "2.5"]
    assert mh.Annotations.from_arrays(*ids, [1.5, 2, 1.5, 2], classes=[1.5, 2.0]).classes.tolist() == [1.5, 2.0]
    assert mh.Annotations.from_arrays(*ids, [1.0, 2.0, 3.0, 1.0]).classes.tolist() == [1, 2, 3]
    assert mh.Annotations.from_arrays(*ids, ["x", 0.5, "y", "z"]).n_classes == 4
    assert mh.Annotations.from_arrays(*ids, [0.5, 0.5, 1, 2], abstain=[0.5]).classes.tolist() == [1, 2]


def test_nearly_as_many_classes_as_answers_are_told():
    n = 13_722
    columns = (np.arange(n), np.arange(n) % 7, np.arange(n))
    message = "labels holds 13,722 distinct values in 13,722 answers: ids, numbers or free text"
    with pytest.warns(mh.errors.DataWarning, match=message):
        mh.Annotations.from_arrays(*columns)
    with pytest.warns(mh.errors.DataWarning, match=message):
        mh.Annotations.from_arrays(*columns[:2], [f"answer {i}" for i in range(n)])
    # Silent: named as classes, few, or said again and again.
    mh.Annotations.from_arrays(*columns, classes=range(n))
    mh.Annotations.from_arrays(range(20), range(20), range(20))
    mh.Annotations.from_arrays(np.arange(200) // 2, np.arange(200) % 2, np.arange(200) % 100)


def test_given_classes_are_copied():
    classes = np.array([1, 0])
    votes = mh.Annotations.from_arrays([1, 2], [1, 2], [0, 1], classes=classes)
    classes[:] = 9
    assert votes.classes.tolist() == [1, 0]
