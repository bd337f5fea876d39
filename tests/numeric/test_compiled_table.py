"""The table of numbers against a plain sort of its rows."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands import _core

N_TASKS, N_WORKERS = 7, 5


@st.composite
def logs(draw):
    """Codes, values of one to three dimensions that are often equal, and weights or none."""
    n, dims = draw(st.integers(1, 40)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    tasks, workers = rng.integers(N_TASKS, size=n, dtype=np.uint32), rng.integers(N_WORKERS, size=n, dtype=np.uint32)
    values = rng.integers(-2, 3, (n, dims)) / 3
    return tasks, workers, values, rng.integers(3, size=n) / 2 if draw(st.booleans()) else None


def rows_of(tasks, workers, values, weights):
    """Rows in the order of the table: by task, worker, values and weight."""
    weights = np.ones(len(tasks)) if weights is None else weights
    rows = zip(tasks.tolist(), workers.tolist(), values.tolist(), weights.tolist(), strict=True)
    return sorted(rows)


def table_rows(table):
    tasks, workers, values = table.columns()
    assert values.shape == (table.n_annotations, table.dims)
    weights = np.ones(len(tasks)) if table.weights() is None else table.weights()
    return list(zip(tasks.tolist(), workers.tolist(), values.tolist(), weights.tolist(), strict=True))


@given(logs())
def test_holds_the_sorted_rows(log):
    table, expected = _core.Ratings(*log, N_TASKS, N_WORKERS), rows_of(*log)
    assert table_rows(table) == expected
    assert (table.n_tasks, table.n_workers, table.n_annotations) == (N_TASKS, N_WORKERS, len(log[0]))
    assert (table.weights() is None) == (log[3] is None)
    np.testing.assert_array_equal(np.diff(table.offsets()), np.bincount(log[0], minlength=N_TASKS))
    np.testing.assert_array_equal(table.worker_counts(), np.bincount(log[1], minlength=N_WORKERS))
    pairs = [row[:2] for row in expected]
    assert table.n_repeats() == len(pairs) - len(set(pairs))
    assert table.first_repeat() == next((b for a, b in pairwise(pairs) if a == b), None)


@given(logs(), st.sampled_from(["first", "last"]))
def test_repeats(log, repeats):
    tasks, workers, values, weights = log
    order = np.arange(len(tasks)) if repeats == "last" else np.arange(len(tasks))[::-1]
    rows = sorted({(tasks[i], workers[i]): i for i in order}.values())
    wanted = rows_of(tasks[rows], workers[rows], values[rows], None if weights is None else weights[rows])
    assert table_rows(_core.Ratings(*log, N_TASKS, N_WORKERS, repeats)) == wanted


@given(logs(), st.integers(0, 2**32))
def test_keep(log, seed):
    table = _core.Ratings(*log, N_TASKS, N_WORKERS)
    mask = np.random.default_rng(seed).random(len(log[0])) < 0.5
    if not mask.any():
        with pytest.raises(ValueError, match="annotation"):
            table.keep(mask)
        return
    kept = table.keep(mask)
    assert table_rows(kept) == [row for row, keep in zip(table_rows(table), mask, strict=True) if keep]
    assert (kept.n_tasks, kept.n_workers, kept.dims) == (table.n_tasks, table.n_workers, table.dims)
    tasks, workers, values = kept.columns()
    rest = kept.compacted()
    ranks = [np.unique(codes, return_inverse=True)[1].astype(np.uint32) for codes in (tasks, workers)]
    assert table_rows(rest) == rows_of(*ranks, values, kept.weights())
    assert (rest.n_tasks, rest.n_workers) == (len(np.unique(tasks)), len(np.unique(workers)))


def test_groups_of_workers():
    codes = np.array([[0, 0, 1, 1, 2], [0, 1, 1, 2, 4]], np.uint32)
    table = _core.Ratings(*codes, np.zeros((5, 1)), None, 3, 5)
    assert table.group_counts().tolist() == [4, 1]
    assert table.n_components() == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": np.array([[1.0], [np.nan]])}, "NaN.*row 1"),
        ({"values": np.array([[-np.inf], [0.0]])}, "-inf.*row 0"),
        ({"values": np.zeros((3, 1))}, "3 values"),
        ({"values": np.zeros(2)}, "shape"),
        ({"values": np.zeros((2, 0))}, "0 numbers"),
        ({"tasks": np.array([0, 9], np.uint32)}, "code 9.*row 1"),
        ({"workers": np.array([5, 0], np.uint32)}, "code 5.*row 0"),
        ({"weights": np.array([1.0, -1.0])}, "-1e0.*row 1"),
        ({"repeats": "some"}, "repeats"),
    ],
)
def test_what_is_no_log_is_refused(change, message):
    log = {"tasks": np.array([0, 1], np.uint32), "workers": np.array([0, 0], np.uint32), "values": np.zeros((2, 1))}
    log |= {"weights": None, "n_tasks": 2, "n_workers": 1}
    _core.Ratings(**log)
    with pytest.raises(ValueError, match=message):
        _core.Ratings(**(log | change))


def test_an_odd_mask_is_refused():
    table = _core.Ratings(*np.zeros((2, 2), np.uint32), np.zeros((2, 1)), None, 1, 1)
    with pytest.raises(ValueError, match="1 entries for 2 annotations"):
        table.keep(np.ones(1, np.bool_))
    with pytest.raises(TypeError, match="mask"):
        table.keep(np.ones(4, np.bool_)[::2])
