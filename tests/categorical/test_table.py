"""The way in from memory: every kind of column gives the same table."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import json
import pickle
import uuid

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import FRAMES, LABELS, LOG, NUMBERS, ROWS, TASKS, WORKERS, one_column, rows_of

import manyhands as mh


def dictionary(values: list, order: list, index: str = "int32", text: str = "string") -> pa.DictionaryArray:
    codes = pa.array([order.index(v) for v in values], pa.type_for_alias(index))
    return pa.DictionaryArray.from_arrays(codes, pa.array(order, pa.type_for_alias(text)))


# ---------------------------------------------------------------------------------------- one log, many forms

TEXT_FORMS = {
    "list": list,
    "tuple": tuple,
    "iterator": iter,
    "numpy text": np.array,
    "numpy objects": lambda v: np.array(v, object),
    "pandas object": lambda v: pd.Series(v, dtype=object),
    "pandas string": lambda v: pd.Series(v, dtype="string"),
    "pandas category": lambda v: pd.Series(v, dtype="category"),
    "pandas category with unused": lambda v: pd.Series(pd.Categorical(v, ["zz", *sorted(set(v))[::-1], "0"])),
    "pandas Categorical": pd.Categorical,
    "pandas Index": pd.Index,
    "pandas with a wild index": lambda v: pd.Series(v, index=[9] * len(v)),
    "polars text": pl.Series,
    "polars Categorical": lambda v: pl.Series(v, dtype=pl.Categorical),
    "polars Enum": lambda v: pl.Series(v, dtype=pl.Enum(["unused", *sorted(set(v))[::-1]])),
    "polars in chunks": lambda v: pl.concat([pl.Series(v[:3]), pl.Series(v[3:])], rechunk=False),
    "arrow string": lambda v: pa.array(v, pa.string()),
    "arrow large_string": lambda v: pa.array(v, pa.large_string()),
    "arrow string_view": lambda v: pa.array(v, pa.string_view()),
    "arrow dictionary": lambda v: dictionary(v, ["?", *sorted(set(v))[::-1]]),
    "arrow dictionary of views": lambda v: dictionary(v, sorted(set(v)), text="string_view"),
    "arrow dictionary with doubles": lambda v: pa.DictionaryArray.from_arrays(pa.array(range(len(v))), pa.array(v)),
    "arrow slice": lambda v: pa.array(["x", *v, "longer than fifteen bytes"], pa.large_string())[1:-1],
    "arrow slice of a dictionary": lambda v: dictionary(["x", *v, "y"], ["x", "y", *sorted(set(v))])[1:-1],
    "arrow chunks": lambda v: pa.chunked_array([v[:2], [], v[2:]], pa.string()),
    "arrow chunks with other dictionaries": lambda v: pa.chunked_array(
        [dictionary(v[:3], sorted(set(v[:3]))), dictionary(v[3:], sorted(set(v))[::-1])]
    ),
    "arrow chunks, one sliced": lambda v: pa.chunked_array([pa.array(["x", *v[:4]])[1:], pa.array(v[4:])]),
}


@pytest.mark.parametrize("form", TEXT_FORMS)
def test_text_in_any_form_gives_the_same_table(form):
    make = TEXT_FORMS[form]
    votes = mh.Annotations.from_arrays(make(TASKS), make(WORKERS), make(LABELS))
    assert rows_of(votes) == ROWS
    assert votes.tasks.tolist() == ["a", "b", "c"]
    assert votes.workers.tolist() == ["w1", "w2", "w3"]
    assert votes.classes.tolist() == ["ant", "cat", "dog"]
    assert votes == mh.Annotations.from_arrays(TASKS, WORKERS, LABELS)


NUMBER_FORMS = {
    "list": list,
    "numpy": np.array,
    "numpy strided": lambda v: np.array([v, v]).T.copy()[:, 0],
    "numpy big-endian": lambda v: np.array(v, ">i8"),
    "numpy objects": lambda v: np.array(v, object),
    "pandas int64": pd.Series,
    "pandas Int64": lambda v: pd.Series(v, dtype="Int64"),
    "pandas category": lambda v: pd.Series(v, dtype="category"),
    "pandas from arrow": lambda v: pd.Series(v, dtype="int64[pyarrow]"),
    "polars": pl.Series,
    "arrow": pa.array,
    "arrow chunks": lambda v: pa.chunked_array([v[:1], v[1:]]),
    "arrow dictionary": lambda v: pa.array(v).dictionary_encode(),
    "arrow decimals": lambda v: pa.array(v, pa.decimal128(38, 0)),
}


@pytest.mark.parametrize("form", NUMBER_FORMS)
def test_integers_in_any_form_give_the_same_table(form):
    make = NUMBER_FORMS[form]
    votes = mh.Annotations.from_arrays(*(make(column) for column in NUMBERS.values()))
    assert rows_of(votes) == [(-7, 5, 0), (30, 1, 1), (30, 5, 1), (2**60, 0, 1)]
    assert votes == mh.Annotations.from_arrays(*NUMBERS.values())


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"])
def test_narrow_numbers_are_the_same_ids(dtype):
    votes = one_column(np.array([3, 0, 101, 3], dtype))
    assert votes.tasks.dtype == np.int64
    assert votes.tasks.tolist() == [0, 3, 101]


@pytest.mark.parametrize("form", FRAMES)
def test_any_frame_gives_the_same_table(form):
    make = FRAMES[form]
    assert rows_of(mh.Annotations.from_frame(make(LOG))) == ROWS
    odd = make({'my "task"; drop': TASKS, "order": WORKERS, "a.b": LABELS})
    votes = mh.Annotations.from_frame(odd, task='my "task"; drop', worker="order", label="a.b")
    assert rows_of(votes) == ROWS


def test_a_duckdb_query_runs_once():
    """Columns of different runs would be in different orders."""
    query = "select i % 100 as task, 'w' || i as worker, i % 3 as label from range(1000) t(i) order by random()"
    votes = mh.Annotations.from_frame(duckdb.connect().sql(query))
    assert rows_of(votes) == sorted((i % 100, f"w{i}", i % 3) for i in range(1000))


def test_frames_with_labels_that_are_not_text():
    frame = pd.DataFrame({0: TASKS, 1: WORKERS, 2: LABELS})
    assert rows_of(mh.Annotations.from_frame(frame, task="0", worker="1", label="2")) == ROWS


@given(st.permutations(range(len(TASKS))), st.sampled_from(["text", "objects", "numbers"]))
def test_the_order_of_rows_does_not_matter(order, kind):
    columns = {
        "text": (TASKS, WORKERS, LABELS),
        "objects": ([(t, 1) for t in TASKS], [1, "x", 2.5, True, (3,), "y", 1], LABELS),
        "numbers": ([ord(t) for t in TASKS], [float(w[1]) / 2 for w in WORKERS], LABELS),
    }[kind]
    weights = [1.0, 2.0, 0.5, 3.0, 0.0, 1.5, 4.0]
    expected = mh.Annotations.from_arrays(*columns, weights)
    shuffled = mh.Annotations.from_arrays(
        *([column[i] for i in order] for column in columns), [weights[i] for i in order]
    )
    assert shuffled == expected
    assert shuffled.workers.tolist() == expected.workers.tolist()


# ------------------------------------------------------------------------------------------------ kinds of id


class Color(enum.Enum):
    RED = 2
    BLUE = 1


UUIDS = [uuid.UUID(int=i) for i in (7, 3)]


IDS = {
    "negative": ([-3, 5, -(2**63)], [-(2**63), -3, 5]),
    "beyond 53 bits": ([2**53 + 1, 2**53, 2**63 - 1], [2**53, 2**53 + 1, 2**63 - 1]),
    "beyond 63 bits": (np.array([2**64 - 1, 1, 2**63], np.uint64), [1, 2**63, 2**64 - 1]),
    "dictionary beyond 63 bits": (pa.array([2**64 - 1, 1], pa.uint64()).dictionary_encode(), [1, 2**64 - 1]),
    "beyond 64 bits": ([2**70, -1, 2**65], [-1, 2**65, 2**70]),
    "booleans": ([True, False, True], [False, True]),
    "dictionary of booleans": (pa.array([True, False]).dictionary_encode(), [False, True]),
    "floats": ([0.5, -0.5, 1e300, float("inf")], [-0.5, 0.5, 1e300, float("inf")]),
    "whole floats": ([2.0, 1.0], [1, 2]),
    "both zeros": ([0.0, -0.0, 0.5], [0.0, 0.5]),
    "integers among floats": ([2**53 + 1, 0.5], [0.5, 2**53 + 1]),
    "dates": ([dt.date(2024, 2, 1), dt.date(2023, 1, 1)], [dt.date(2023, 1, 1), dt.date(2024, 2, 1)]),
    "datetimes": ([dt.datetime(2024, 2, 1, 3), dt.datetime(2023, 1, 1)], None),
    "timestamps": (pd.to_datetime(["2024-02-01 03:00", "2023-01-01 04:00"]), None),
    "timestamps with a zone": (pd.to_datetime(["2024-02-01", "2023-01-01"]).tz_localize("UTC"), None),
    "nanoseconds": (np.array(["2024-02-01", "2023-01-01"], "M8[ns]"), None),
    "numpy days": (np.array(["2024-02-01", "2023-01-01"], "M8[D]"), None),
    "durations": ([dt.timedelta(2), dt.timedelta(1)], [dt.timedelta(1), dt.timedelta(2)]),
    "periods": (pd.period_range("2024-01", periods=2, freq="M"), None),
    "intervals": (pd.cut(pd.Series([1, 2]), 2), None),
    "decimals": ([decimal.Decimal("2.5"), decimal.Decimal("-1")], None),
    "tuples": ([(2, "b"), (1, "z")], [(1, "z"), (2, "b")]),
    "tuples of a kind": ([(2, 3), (1, 4)], [(1, 4), (2, 3)]),
    "pandas tuples": (pd.Series([(2, 3), (1, 4)]), [(1, 4), (2, 3)]),
    "polars objects": (pl.Series([(2,), (1,)], dtype=pl.Object), [(1,), (2,)]),
    "bytes": ([b"\xff", b"a"], [b"a", b"\xff"]),
    "numpy bytes": (np.array([b"b", b"a"]), [b"a", b"b"]),
    "UUIDs": (UUIDS, UUIDS[::-1]),
    "arrow UUIDs": (pa.array([u.bytes for u in UUIDS], pa.uuid()), UUIDS[::-1]),
    "mixed": (["b", 10, 9.5, "a", (1,)], [9.5, 10, "a", "b", (1,)]),
    "pandas mixed": (pd.Series(["b", 10, "a"], dtype=object), [10, "a", "b"]),
    "text and its number": (["1", 1], [1, "1"]),
    "enum members": ([Color.RED, Color.BLUE], [Color.BLUE, Color.RED]),
    "complex": ([2j, 1j], [1j, 2j]),
    "lone surrogates": (["\ud800", "a"], ["a", "\ud800"]),
    "unicode": (["\U0001f600", "\uffff", "é", "e\u0301", "z"], ["e\u0301", "z", "é", "\uffff", "\U0001f600"]),
    "NULs": (["a\0", "a", "a\0\0", "\0"], ["\0", "a", "a\0", "a\0\0"]),
    "blank text": ([" ", "  "], [" ", "  "]),
    "text that looks missing": (["NA", "nan", "None", "null"], ["NA", "None", "nan", "null"]),
}


@pytest.mark.parametrize("kind", IDS)
def test_any_value_can_be_an_id(kind):
    given, expected = IDS[kind]
    votes = one_column(given)
    if expected is None:
        expected = sorted(given)
    assert votes.tasks.tolist() == expected
    assert votes.n_tasks == len(expected)
    first = given[0].as_py() if isinstance(given, pa.Array) else given[0]
    assert votes.select(tasks=[given[0]]).tasks.tolist() == [first]
    assert pickle.loads(pickle.dumps(votes)) == votes


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_are_the_same_ids_in_any_unit(unit):
    votes = one_column(np.array(["2024-02-01T10:00:00", "2023-01-01"], f"M8[{unit}]"))
    assert votes == one_column([dt.datetime(2024, 2, 1, 10), dt.datetime(2023, 1, 1)])
    wanted = np.array(["2023-01-01"], "M8[ns]")
    assert votes.select(tasks=wanted).tasks.tolist() == [dt.datetime(2023, 1, 1)]


def test_gaps_turn_integers_into_floats_and_back():
    """Pandas stores integers with a gap as floats; the names stay integers."""
    with pytest.warns(mh.errors.DataWarning, match="1 row"):
        votes = mh.Annotations.from_arrays([1, 1, 2], [1, 2, 1], pd.Series([3, np.nan, 4]))
    assert votes.classes.dtype == np.int64
    assert votes.classes.tolist() == [3, 4]


@pytest.mark.parametrize("largest", [107.0, 1e6, 2.0**53 - 1])
def test_large_whole_floats_are_integers_too(largest):
    votes = one_column(pd.Series([largest, 3.0]))
    assert votes.tasks.dtype == np.int64
    assert votes.tasks.tolist() == [3, int(largest)]
    # From here on, floats stand for several integers each.
    assert one_column(pd.Series([2.0**53, 3.0])).tasks.dtype == np.float64


@pytest.mark.parametrize(("index", "size"), [("int8", 100), ("uint8", 200), ("int16", 20_000), ("uint16", 40_000)])
def test_dictionaries_may_outgrow_their_index_when_joined(index, size):
    names = [[f"{c}{i}" for i in range(size)] for c in "ab"]
    codes = pa.array(range(size), pa.type_for_alias(index))
    votes = one_column(pa.chunked_array([pa.DictionaryArray.from_arrays(codes, part) for part in names]))
    assert votes.tasks.tolist() == sorted(names[0] + names[1])


# -------------------------------------------------------------------------------------------- smallest tables


def test_one_annotation_is_a_table():
    votes = mh.Annotations.from_arrays(["t"], ["w"], ["x"])
    assert repr(votes) == "<Annotations: 1 annotation of 1 task by 1 worker, 1 class>"
    assert len(votes) == 1
    assert votes.describe().agreement != votes.describe().agreement
    assert json.loads(json.dumps(votes.describe().to_dict(), allow_nan=False))["agreement"] is None
    assert "no task has two labels" in str(votes.describe())
    for model in (mh.MajorityVote(), mh.categorical.WeightedVote(), mh.DawidSkene()):
        model.fit(votes)
        assert model.labels_.tolist() == ["x"]
        assert model.posterior_.tolist() == [[1.0]]
        assert model.confusion_.tolist() == [[[1.0]]]


@pytest.mark.parametrize(
    "log",
    [
        ([1, 1, 1], [1, 2, 3], [0, 1, 1]),
        ([1, 2, 3], [1, 1, 1], [0, 1, 1]),
        ([1, 2, 3], [1, 1, 2], [7, 7, 7]),
    ],
    ids=["one task", "one worker", "one class"],
)
def test_one_of_a_kind(log):
    votes = mh.Annotations.from_arrays(*log)
    for model in (mh.MajorityVote(), mh.categorical.WeightedVote(), mh.DawidSkene(max_iter=20, tol=0)):
        model.fit(votes)
        assert set(model.labels_.tolist()) <= set(log[2])
        np.testing.assert_allclose(model.posterior_.sum(axis=1), 1)
        np.testing.assert_allclose(model.confusion_.sum(axis=2), 1)
