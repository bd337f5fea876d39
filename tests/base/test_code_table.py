"""The compiled table of codes against a plain sort of its rows."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands import _core

SIZES = (7, 5, 4)


@st.composite
def logs(draw):
    """Codes of tasks, workers and answers, and weights or none."""
    n = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    columns = [rng.integers(size, size=n, dtype=np.uint32) for size in SIZES]
    return (*columns, rng.integers(3, size=n) / 2 if draw(st.booleans()) else None)


def table_rows(table):
    columns = table.columns()
    assert [column.dtype for column in columns] == [np.uint32] * 3
    weights = np.ones(len(columns[0])) if table.weights() is None else table.weights()
    return list(zip(*(column.tolist() for column in columns), weights.tolist(), strict=True))


def rows_of(*log):
    weights = np.ones(len(log[0])) if log[3] is None else log[3]
    return sorted(zip(*(column.tolist() for column in log[:3]), weights.tolist(), strict=True))


@given(logs(), st.integers(0, 2**32))
def test_holds_the_sorted_rows_and_parts_of_them(log, seed):
    table = _core.CodeTable(*log, *SIZES)
    assert table_rows(table) == rows_of(*log)
    assert (table.n_tasks, table.n_workers, table.n_codes, table.n_annotations) == (*SIZES, len(log[0]))
    again = pickle.loads(pickle.dumps(table))
    assert (table_rows(again), again.n_codes) == (table_rows(table), SIZES[2])
    mask = np.random.default_rng(seed).random(len(log[0])) < 0.5
    mask[0] = True
    kept = table.keep(mask)
    assert table_rows(kept) == [row for row, keep in zip(table_rows(table), mask, strict=True) if keep]
    tasks, workers, codes = kept.columns()
    ranks = [np.unique(part, return_inverse=True)[1].astype(np.uint32) for part in (tasks, workers)]
    assert table_rows(kept.compacted()) == rows_of(*ranks, codes, kept.weights())


@given(logs(), st.sampled_from(["first", "last"]))
def test_repeats(log, repeats):
    order = range(len(log[0])) if repeats == "last" else reversed(range(len(log[0])))
    rows = sorted({(log[0][i], log[1][i]): i for i in order}.values())
    wanted = rows_of(*(None if column is None else column[rows] for column in log))
    assert table_rows(_core.CodeTable(*log, *SIZES, repeats)) == wanted


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"codes": np.array([0, 3], np.uint32)}, "code 3.*row 1"),
        ({"codes": np.zeros(3, np.uint32)}, "3 answers"),
        ({"tasks": np.array([0, 9], np.uint32)}, "code 9.*row 1"),
        ({"weights": np.array([1.0, -1.0])}, "-1e0.*row 1"),
    ],
)
def test_invalid_rows_are_named(change, message):
    log = {"tasks": np.array([0, 1], np.uint32), "workers": np.zeros(2, np.uint32), "codes": np.zeros(2, np.uint32)}
    log |= {"weights": None, "n_tasks": 2, "n_workers": 1, "n_codes": 3}
    _core.CodeTable(**log)
    with pytest.raises(ValueError, match=message):
        _core.CodeTable(**(log | change))
