"""Columns and frames that make no table are refused by name."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tables import FRAMES, LOG, ROWS, TASKS, rows_of

import manyhands as mh


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        (([], [], []), ValueError, r"there are no annotations: .* at least one \(task, worker, label\) row"),
        (([1], [1, 2], [1]), ValueError, "1 tasks.*2 workers.*1 labels"),
        (([1], [1], [1], [1.0, 2.0]), ValueError, "2 weights"),
        (([1], [1], [1], 2.0), ValueError, r"weights.*\(\)"),
        (([1], [1], [1], [[1.0]]), ValueError, r"weights.*\(1, 1\)"),
        (("abc", [1], [1]), TypeError, "tasks"),
        (([1], 5, [1]), TypeError, "workers"),
        (([1], [1], None), TypeError, "labels.*NoneType"),
        ((np.zeros((1, 1)), [1], [1]), ValueError, r"tasks.*\(1, 1\)"),
        ((np.array(3), [1], [1]), ValueError, r"tasks.*\(\)"),
        ((pd.DataFrame({"a": [1]}), [1], [1]), ValueError, r"tasks.*\(1, 1\)"),
        ((pl.DataFrame({"a": [1]}), [1], [1]), ValueError, r"tasks.*\(1, 1\)"),
        (([[1], [2]], [1, 2], [1, 2]), TypeError, "tasks.*row 0"),
        (([1, 2], [(1,), [2]], [1, 2]), TypeError, "workers.*row 1"),
        (([1, 2], [1, 2], [{}, {}]), TypeError, "labels.*row 0"),
        (([1], [1], [{1}]), TypeError, "labels.*row 0"),
        (([1], [1], [([],)]), TypeError, "labels.*row 0"),
        ((pl.Series([[1]]), [1], [1]), TypeError, "tasks.*row 0"),
        ((pa.array([[1]]), [1], [1]), TypeError, "tasks.*lists"),
        ((pa.array([{"a": 1}]), [1], [1]), TypeError, "tasks holds Arrow struct<.*>"),
        ((pa.chunked_array([[[1]]]), [1], [1]), TypeError, "tasks"),
    ],
)
def test_bad_columns_are_refused(columns, error, message):
    with pytest.raises(error, match=message):
        mh.Annotations.from_arrays(*columns)


@pytest.mark.parametrize(
    ("frame", "options", "error", "message"),
    [
        (
            LOG,
            {"task": "taks"},
            ValueError,
            "'taks'.*'task'.*'task', 'worker'",
        ),
        (LOG, {"weight": "w"}, ValueError, "column 'w'"),
        (LOG, {"task": "label"}, ValueError, "column 'label'"),
        (
            LOG,
            {"repeats": "all"},
            ValueError,
            "repeats.*'keep'.*'first'.*'last'.*'error'.*'all'",
        ),
        (LOG, {"missing": "keep"}, ValueError, "missing.*'drop'.*'error'.*'keep'"),
        (
            {"x": [1], "worker": [1], "label": [1]},
            {},
            ValueError,
            "task=….*'x'",
        ),
        (
            LOG | {"item": TASKS},
            {},
            ValueError,
            "'task'.*'item'",
        ),
        (LOG, {"task": "Task"}, ValueError, "'Task'.*'task'"),
        (
            {"Task": [1], "ITEM": [1], "worker": [1], "label": [1]},
            {},
            ValueError,
            r"several columns .* \('Task', 'ITEM'\)",
        ),
        ({"unit": [1], "worker": [1], "label": [1]}, {}, ValueError, "task_id"),
        ({}, {}, ValueError, "columns"),
        ({f"c{i}": [1] for i in range(60)}, {}, ValueError, "'c59'"),
        ({f"c{i}": [1] for i in range(130)}, {}, ValueError, "'c99', …"),
        (pl.DataFrame(LOG).lazy(), {}, TypeError, "LazyFrame.*collect"),
        (pd.Series(TASKS), {}, TypeError, "Series"),
        (pl.Series(TASKS), {}, TypeError, "Series"),
        ([1, 2], {}, TypeError, "list"),
        ("log.csv", {}, TypeError, "str"),
        (
            pd.DataFrame([[1, 2, 3, 4]], columns=["task", "task", "worker", "label"]),
            {},
            ValueError,
            "'task'",
        ),
        (
            {"task": [[1]], "worker": [1], "label": [1]},
            {},
            TypeError,
            "column 'task'.*row 0",
        ),
        (pd.DataFrame(LOG)[:0], {}, ValueError, "there are no annotations"),
    ],
)
def test_bad_frames_are_refused(frame, options, error, message):
    with pytest.raises(error, match=message):
        mh.Annotations.from_frame(frame, **options)


@pytest.mark.parametrize(
    "names", [("Task", "Worker", "Label"), ("TASK_ID", "worker id", "ANSWER"), ("TaskId", "Annotator-ID", " Response ")]
)
@pytest.mark.parametrize("form", ["mapping", "pandas", "polars", "arrow table"])
def test_well_known_names_are_known_in_capitals_too(form, names):
    frame = FRAMES[form](dict(zip(names, LOG.values(), strict=True)))
    assert rows_of(mh.Annotations.from_frame(frame)) == ROWS


def test_a_name_written_as_known_comes_before_one_that_is_not():
    frame = {"Label": ["?"] * len(TASKS), **LOG}
    assert rows_of(mh.Annotations.from_frame(frame)) == ROWS


def test_estimators_refuse_what_is_no_table():
    with pytest.raises(TypeError, match=r"Annotations.*list.*from_frame"):
        mh.MajorityVote().fit([1, 2, 3])
    assert mh.MajorityVote().fit(pd.DataFrame(LOG)).labels_.tolist() == ["cat", "dog", "dog"]


def test_the_number_of_classes_is_limited():
    n = 65_536
    with pytest.raises(ValueError, match=r"labels.*65,536 distinct.*65,535 classes"):
        mh.Annotations.from_arrays(np.zeros(n, int), np.arange(n), np.arange(n))
    with pytest.raises(ValueError, match="65,536 distinct"):
        mh.Annotations.from_arrays([1], [1], [1], classes=range(n))
    with pytest.warns(mh.errors.DataWarning, match="65,535 distinct"):
        most = mh.Annotations.from_arrays(np.zeros(n - 1, int), np.arange(n - 1), np.arange(n - 1))
    assert most.n_classes == 65_535
    assert most.codes()[2].max() == 65_534


@pytest.mark.parametrize("n_classes", [256, 257])
def test_labels_survive_where_their_width_changes(n_classes):
    labels = np.arange(n_classes)[::-1]
    votes = mh.Annotations.from_arrays(np.zeros(n_classes, int), np.arange(n_classes), labels, classes=labels[::-1])
    assert votes.codes()[2].tolist() == labels.tolist()


def test_sets_taken_for_classes_are_warned_of() -> None:
    letters = "abcdef"
    sets = ["|".join(pair) for pair in itertools.combinations(letters, 2)] + [
        "|".join(t) for t in itertools.combinations(letters, 3)
    ]
    tasks = [task for task in range(len(sets)) for _ in range(3)]
    with pytest.warns(mh.errors.DataWarning, match=r"'a\|b'.*35 combinations.*6 labels"):
        mh.Annotations.from_arrays(tasks, [0, 1, 2] * len(sets), [sets[task] for task in tasks])
