"""What is in a table: selections, samples, descriptions, copies; and that nothing changes it."""

from __future__ import annotations

import copy
import json
import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import LABELS, LOG, NUMBERS, TASKS, WORKERS, rows_of

import manyhands as mh


@pytest.fixture
def votes() -> mh.Annotations:
    return mh.Annotations.from_arrays(TASKS, WORKERS, LABELS, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])


def test_select_by_name_and_by_mask(votes):
    assert rows_of(votes.select(tasks=["c", "a"])) == [r for r in rows_of(votes) if r[0] in "ac"]
    assert rows_of(votes.select(workers=["w2"])) == [r for r in rows_of(votes) if r[1] == "w2"]
    both = votes.select(tasks=["a", "b"], workers=["w1", "w3"])
    assert rows_of(both) == [r for r in rows_of(votes) if r[0] in "ab" and r[1] != "w2"]
    assert both.classes.tolist() == votes.classes.tolist()
    assert votes.select() == votes
    by_name = votes.select(workers=["w1", "w3"])
    for mask in ([True, False, True], np.array([True, False, True]), pd.Series([True, False, True])):
        assert votes.select(workers=mask) == by_name
        assert votes.select(workers=pl.Series(mask)) == by_name
    assert votes.select(workers=pa.array(["w1", "w3", "w1"])) == by_name
    assert votes.select(workers=(w for w in ["w1", "w3"])) == by_name


def test_select_tells_booleans_from_masks():
    votes = mh.Annotations.from_arrays([1, 2, 3], [True, False, True], [0, 1, 0])
    assert votes.select(workers=[True]).tasks.tolist() == [1, 3]
    assert votes.select(tasks=[False, False, True]).tasks.tolist() == [3]


def test_select_reports_the_tasks_that_lose_all(votes):
    assert votes.select(workers=["w2"]).unlabelled.tolist() == ["a", "c"]
    assert votes.select(tasks=["a", "b"], workers=["w2"]).unlabelled.tolist() == ["a"]
    with pytest.warns(mh.errors.DataWarning):
        gaps = mh.Annotations.from_arrays(["b", "a", "z"], ["x", "y", "x"], [1, 1, None])
    assert gaps.select(workers=["x"]).unlabelled.tolist() == ["a", "z"]
    assert gaps.select(tasks=["a"]).unlabelled.tolist() == []
    assert gaps.sample(fraction=0.5).unlabelled.tolist() in (["a", "z"], ["b", "z"])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"tasks": ["a", "q", "r"]}, KeyError, "'q'"),
        ({"workers": ["W1"]}, KeyError, "'W1'"),
        ({"workers": [1]}, KeyError, "worker.*1"),
        ({"tasks": "a"}, TypeError, "tasks"),
        ({"tasks": ["a", None]}, ValueError, "tasks"),
        ({"tasks": [True, False]}, ValueError, "2 entries.*3 tasks"),
        ({"tasks": np.ones((3, 1), bool)}, ValueError, "tasks"),
        ({"tasks": []}, ValueError, "annotation"),
        ({"tasks": ["c"], "workers": ["w2"]}, ValueError, "common"),
    ],
)
def test_bad_selections_are_refused(votes, options, error, message):
    with pytest.raises(error, match=message):
        votes.select(**options)


def test_selecting_does_not_change_the_table(votes):
    before = rows_of(votes)
    votes.select(workers=["w1"])
    votes.sample(per_task=1)
    assert rows_of(votes) == before


@given(st.floats(0.01, 1.0), st.integers(1, 4), st.integers(0, 9))
def test_samples_are_parts_of_the_table(fraction, per_task, seed):
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, [[12], [8], [3]], (3, 100))
    votes = mh.Annotations.from_arrays(*columns, rng.random(100))
    part = votes.sample(fraction=fraction, seed=seed)
    assert part.n_annotations == round(fraction * 100)
    assert set(rows_of(part)) <= set(rows_of(votes))
    assert part == votes.sample(fraction=fraction, seed=seed)
    assert sorted([*part.tasks, *part.unlabelled]) == votes.tasks.tolist()
    capped = votes.sample(per_task=per_task, seed=seed)
    assert capped.labels_per_task.tolist() == np.minimum(votes.labels_per_task, per_task).tolist()
    assert set(rows_of(capped)) <= set(rows_of(votes))


def test_samples_depend_on_the_seed(votes):
    parts = {tuple(rows_of(votes.sample(per_task=1, seed=seed))) for seed in range(40)}
    assert len(parts) == 2 * 4  # one of a's two, one of b's four, and c's only one


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "fraction=.*per_task="),
        ({"fraction": 0.5, "per_task": 1}, "give either"),
        ({"fraction": 0.0}, "fraction.*0.0"),
        ({"fraction": 1.5}, "1.5"),
        ({"fraction": float("nan")}, "nan"),
        ({"fraction": 0.01}, "0.01.*7 annotations"),
        ({"per_task": 0}, "per_task.*1,.*0"),
    ],
)
def test_bad_samples_are_refused(votes, options, message):
    with pytest.raises(ValueError, match=message):
        votes.sample(**options)


def test_a_description_counts_what_there_is(votes):
    described = votes.describe()
    assert (described.n_annotations, described.n_tasks, described.n_workers, described.n_classes) == (
        7,
        3,
        3,
        3,
    )
    assert (described.n_repeats, described.n_unlabelled, described.n_components) == (1, 0, 1)
    assert (described.labels_per_task.min, described.labels_per_task.max) == (1, 4)
    assert described.labels_per_task.mean == pytest.approx(7 / 3)
    assert described.labels_per_worker.median == 2
    assert described.overlap == pytest.approx(2 / 3)
    assert described.agreement == pytest.approx(3 / 7)  # three pairs of dogs among b's six, none of a's one
    assert described.class_shares == pytest.approx({"ant": 1 / 7, "cat": 1 / 7, "dog": 5 / 7})
    assert json.loads(json.dumps(described.to_dict()))["labels_per_task"]["max"] == 4
    text = str(described)
    assert re.search(r"tasks +3", text)
    assert "dog 71.4%" in text
    assert "42.9% of pairs" in text


def test_a_description_keeps_classes_that_print_alike():
    votes = mh.Annotations.from_arrays([1, 2], [1, 2], [1, "1"])
    assert votes.describe().class_shares == {"1": 0.5, "'1'": 0.5}
    assert "in 2 groups that share no task" in str(votes.describe())


def test_contents_are_aligned(votes):
    tasks, workers, labels = votes.codes()
    named = zip(votes.tasks[tasks], votes.workers[workers], votes.classes[labels], votes.weights, strict=True)
    assert list(named) == rows_of(votes)
    assert votes.labels_per_task.tolist() == [2, 4, 1]
    assert votes.labels_per_worker.tolist() == [3, 2, 2]
    assert len(votes) == votes.n_annotations == 7


def test_frames_round_trip(votes):
    assert mh.Annotations.from_frame(votes.to_frame(), weight="weight") == votes
    assert mh.Annotations.from_frame(votes.to_frame().to_pandas(), weight="weight") == votes
    numbers = mh.Annotations.from_arrays(*NUMBERS.values())
    assert mh.Annotations.from_frame(numbers.to_frame()) == numbers


def test_ids_without_an_arrow_type_say_so():
    votes = mh.Annotations.from_arrays([1, "a"], [1, 2], [0, 1])
    with pytest.raises(TypeError, match=r"1,.*'a'"):
        votes.to_frame()


def test_tables_are_equal_by_content(votes):
    same = mh.Annotations.from_arrays(TASKS, WORKERS, LABELS, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    assert votes == same
    others = [
        mh.Annotations.from_arrays(TASKS, WORKERS, LABELS),
        mh.Annotations.from_arrays(TASKS, WORKERS, LABELS, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]),
        votes.select(tasks=["a"]),
        mh.Annotations.from_frame(LOG, classes=["dog", "cat", "ant"]),
        mh.Annotations.from_arrays([t.upper() for t in TASKS], WORKERS, LABELS),
        mh.Annotations.from_arrays([ord(t) for t in TASKS], WORKERS, LABELS),
    ]
    for other in [*others, "votes", None]:
        assert votes != other
    with pytest.raises(TypeError, match="unhashable"):
        hash(votes)


def test_tables_pickle_and_copy(votes):
    with pytest.warns(mh.errors.DataWarning):
        gaps = mh.Annotations.from_arrays([(1, 2), (3, 4)], ["x", "y"], [1, None])
    for table in (votes, gaps):
        for twin in (pickle.loads(pickle.dumps(table)), copy.copy(table), copy.deepcopy(table)):
            assert twin == table
            assert twin.unlabelled.tolist() == table.unlabelled.tolist()
            assert mh.MajorityVote().fit(twin).labels_.tolist() == mh.MajorityVote().fit(table).labels_.tolist()


def test_tables_cannot_be_changed(votes):
    numbers = mh.Annotations.from_arrays(*NUMBERS.values())
    for table in (votes, numbers):
        for names in (table.tasks, table.workers, table.classes):
            with pytest.raises(ValueError, match="read-only"):
                names[0] = names[-1]
    with pytest.raises(AttributeError):
        votes.n_tasks = 5
    with pytest.raises(AttributeError):
        votes.extra = 5
    votes.weights[:] = 0
    votes.codes()[0][:] = 0
    assert rows_of(votes)[0][3] == 2.0


def test_the_input_is_not_changed_and_not_kept():
    frame = pd.DataFrame({"task": [3, 1, 2], "worker": ["x", "y", "x"], "label": [1.0, np.nan, 0.0]})
    before = frame.copy(deep=True)
    arrays = [np.array([3, 1, 2]), np.array([5, 4, 5]), np.array([1, 0, 1])]
    with pytest.warns(mh.errors.DataWarning):
        mh.Annotations.from_frame(frame)
    pd.testing.assert_frame_equal(frame, before)
    votes = mh.Annotations.from_arrays(*arrays, weights := np.array([1.0, 2.0, 3.0]))
    expected = rows_of(votes)
    for array in (*arrays, weights):
        array[:] = 0
    assert rows_of(votes) == expected
