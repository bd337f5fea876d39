"""The way in from memory: every kind of column gives the same table, and bad ones are refused by name."""

from __future__ import annotations

import copy
import datetime as dt
import decimal
import enum
import fractions
import json
import pickle
import re
import uuid
import warnings
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import manyhands as mh
from manyhands import _core
from oracles import encode as oracle

# A log whose rows, tasks, workers and labels are all out of order; w2 answered "b" twice.
TASKS = ["b", "a", "c", "b", "a", "b", "b"]
WORKERS = ["w2", "w1", "w1", "w1", "w3", "w3", "w2"]
LABELS = ["dog", "cat", "dog", "ant", "dog", "dog", "dog"]
ROWS = sorted(zip(TASKS, WORKERS, LABELS, strict=True))
LOG = {"task": TASKS, "worker": WORKERS, "label": LABELS}
NUMBERS = {"task": [30, -7, 2**60, 30], "worker": [5, 5, 0, 1], "label": [1, 0, 1, 1]}


def rows_of(votes: mh.Annotations) -> list[tuple]:
    frame = votes.to_frame()
    return list(zip(*(frame.column(name).to_pylist() for name in frame.column_names), strict=True))


def one_column(values, **options) -> mh.Annotations:
    """A table whose tasks are the values; workers and labels are of no interest."""
    n = len(values)
    return mh.Annotations.from_arrays(values, np.arange(n), np.zeros(n, np.int64), **options)


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


def duckdb_relation(log: dict) -> duckdb.DuckDBPyRelation:
    table = pa.table(log)
    return duckdb.connect().from_arrow(table)


FRAMES = {
    "mapping": dict,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow table": pa.table,
    "arrow batch": pa.RecordBatch.from_pydict,
    "arrow reader": lambda log: pa.table(log).to_reader(),
    "duckdb relation": duckdb_relation,
}


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
    with pytest.warns(mh.DataWarning, match=r"set aside 1 row without a label$"):
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


def test_dictionaries_may_outgrow_their_index_when_joined():
    chunks = [dictionary([f"{c}{i}" for i in range(100)], [f"{c}{i}" for i in range(100)], "int8") for c in "ab"]
    assert one_column(pa.chunked_array(chunks)).n_tasks == 200


# ------------------------------------------------------------------------------------------------ the encoder

INTEGERS = st.lists(
    st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1), st.integers(2**62, 2**62 + 9)),
    max_size=60,
)
TEXTS = st.lists(
    st.one_of(
        st.text(st.sampled_from("ab\0é\U0001f600"), max_size=3),
        st.text(max_size=30),
        st.text(st.sampled_from("ab\0"), max_size=3).map("fifteen-bytes--".__add__),
        st.text(st.sampled_from("ab\0"), max_size=3).map("a long beginning that all of them share ".__add__),
        st.sampled_from(["0", "7", "07", "-7", "-0", "+7", "", "9" * 18, "9" * 20, "1e3", "٣"]),
        st.integers(-(10**18) + 1, 10**18 - 1).map(str),
    ),
    max_size=60,
)


@given(INTEGERS)
def test_integers_encode_as_numpy_would(values):
    codes, names = _core.encode_integers(np.array(values, np.int64))
    expected_codes, expected_names = oracle.encode(values)
    assert names.tolist() == expected_names
    assert codes.tolist() == expected_codes.tolist()


def arrow_layout(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return offsets, np.frombuffer(b"".join(encoded), np.uint8)


@given(TEXTS)
def test_texts_encode_as_numpy_would(texts):
    codes, rows = _core.encode_strings(*arrow_layout(texts))
    expected_codes, expected_names = oracle.encode(texts)
    assert [texts[row] for row in rows] == expected_names
    assert codes.tolist() == expected_codes.tolist()


@given(st.one_of(TEXTS, st.lists(st.integers(-(10**18) + 1, 10**18 - 1).map(str), max_size=60)))
def test_only_canonical_text_becomes_integers(texts):
    values = _core.canonical_integers(*arrow_layout(texts))
    assert (None if values is None else values.tolist()) == oracle.canonical_integers(texts)


@given(TEXTS, st.randoms())
def test_text_columns_decode_to_themselves(texts, random):
    texts = [text for text in texts if text] + ["x"]
    makers = [pa.array, pd.Series, pl.Series, lambda v: pa.array(v).dictionary_encode()]
    votes = one_column(random.choice(makers)(texts))
    assert votes.tasks.tolist() == oracle.encode(texts)[1]
    frame = votes.to_frame()
    decoded = dict(zip(frame.column("worker").to_pylist(), frame.column("task").to_pylist(), strict=True))
    assert [decoded[i] for i in range(len(texts))] == texts


@pytest.mark.parametrize("offsets", [[], [1, 0], [0, 3], [-1, 1], [0, 2**62]])
def test_damaged_text_is_refused(offsets):
    with pytest.raises(ValueError, match="offsets"):
        _core.encode_strings(np.array(offsets, np.int64), np.zeros(2, np.uint8))


def test_a_large_column_decodes_to_itself():
    """Enough rows for several blocks and both of the integer encoder's ways."""
    rng = np.random.default_rng(0)
    for values in (rng.integers(-50, 50, 200_000), rng.integers(-(2**62), 2**62, 200_000) // 7 * 7):
        codes, names = _core.encode_integers(values)
        expected, inverse = np.unique(values, return_inverse=True)
        np.testing.assert_array_equal(names, expected)
        np.testing.assert_array_equal(codes, inverse)


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
    with pytest.warns(mh.DataWarning, match=message) as caught:
        votes = mh.Annotations.from_arrays(tasks, workers, labels, [1.0, 2.0, 3.0, 4.0])
    assert Path(caught[0].filename) == Path(__file__)
    assert votes.tasks.tolist() == ["b"]
    assert votes.workers.tolist() == ["w1", "w3"]
    assert votes.n_classes == 2
    assert votes.unlabelled.tolist() == ["a"]
    assert votes.weights.tolist() == [1.0, 3.0]
    assert votes.describe().n_unlabelled == 1
    with pytest.raises(ValueError, match=r"labels is missing .* in 2 of 4 rows, first at row 1; .*missing='drop'"):
        mh.Annotations.from_arrays(tasks, workers, labels, missing="error")


def test_a_log_without_any_label_is_refused():
    for nothing in ([None, None], ["", ""], [np.nan, np.nan]):
        with pytest.raises(ValueError, match="in 2 of 2 rows, first at row 0: there is nothing to aggregate"):
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
    with pytest.raises(ValueError, match=f"^{role} column '{role}' is missing .* in 1 of 3 rows, first at row 1;"):
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
    with pytest.raises(ValueError, match=r"worker 'x' labelled task 'b' more than once \(2 such rows\); choose"):
        mh.Annotations.from_arrays(*columns, repeats="error")
    assert mh.Annotations.from_arrays([1, 2], [1, 1], [0, 0], repeats="error").n_annotations == 2


def test_a_missing_answer_is_not_a_repeat():
    columns = ([1, 1, 1], [7, 7, 7], ["x", "y", None])
    with pytest.warns(mh.DataWarning, match="set aside 1 row"):
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
    with pytest.raises(ValueError, match=f"^weights holds {shown} at row 1; weights must be finite and at least 0"):
        mh.Annotations.from_arrays([1, 2], [1, 2], [0, 1], [1.0, value])
    frame = pa.table({"task": [1, 2], "worker": [1, 2], "label": [0, 1], "w": pa.array([1.0, value])})
    with pytest.raises(ValueError, match=f"^weight column 'w' holds {shown} at row 1"):
        mh.Annotations.from_frame(frame, weight="w")
    with pytest.raises(ValueError, match="at row 1"):
        mh.Annotations.from_codes([0, 1], [0, 0], [0, 0], n_tasks=2, n_workers=1, n_classes=1, weights=[1.0, value])


@pytest.mark.parametrize("weights", [["1", "2"], ["a", "b"], [1j, 2j], [{}, {}], [1, "2"]])
def test_weights_must_be_numbers(weights):
    with pytest.raises(TypeError, match="weights must hold numbers"):
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
    with pytest.raises(ValueError, match=r"label 'dog' is not among the given classes \('cat', 'ant'\)"):
        mh.Annotations.from_frame(LOG, classes=["cat", "ant"])
    with pytest.raises(ValueError, match=r"labels 'ant', 'cat', 'dog' are not among .* \(1, 2\)"):
        mh.Annotations.from_frame(LOG, classes=[1, 2])


@pytest.mark.parametrize(
    ("classes", "error", "message"),
    [
        (["a", "b", "a"], ValueError, "classes names 'a' more than once"),
        ([1, 1.0], ValueError, "classes names 1 more than once"),
        ([], ValueError, "classes is empty"),
        (["a", None], ValueError, "classes must not hold a missing value"),
        ("ab", TypeError, "classes must be a column of ids, not a single str"),
        ([["a"], ["b"]], TypeError, "classes at row 0 is a list"),
        (np.zeros((2, 2)), ValueError, r"classes must be one-dimensional, not of shape \(2, 2\)"),
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
    with pytest.raises(ValueError, match="label column 'label' holds numbers with fractions"):
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
    with pytest.warns(mh.DataWarning, match=message):
        mh.Annotations.from_arrays(*columns)
    with pytest.warns(mh.DataWarning, match=message):
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


# ----------------------------------------------------------------------------------------------- dense, codes


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
    with pytest.warns(mh.DataWarning, match=r"2 tasks have no label at all .*\('p', 's'; see"):
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
    with pytest.raises(ValueError, match=r"column 'Item' looks like the ids"):
        mh.Annotations.from_dense({"Item": ["a", "b"], "ann": ["x", "y"]})
    matrix = np.column_stack([np.arange(12) + 50, *rated(12).values()])
    with pytest.raises(ValueError, match=r"column 0 looks like the ids of tasks.*; leave it out$"):
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
        (pd.DataFrame(WIDE, index=["a", "b", "a"]), {}, ValueError, "several rows are called 'a'"),
        (pd.DataFrame(WIDE, index=["a", None, "c"]), {}, ValueError, "one of the rows has no name"),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), {}, ValueError, "several columns are called 'x'"),
        (WIDE, {"task": "item"}, KeyError, "no task column 'item'; the columns are 'ann', 'bob', 'eve'"),
        ([[1, 2]], {"task": "item"}, ValueError, "the matrix has no names"),
        (LOG, {}, ValueError, "'task', 'worker', 'label' look like a log .*from_frame"),
        ({"task": ["a"]}, {"task": "task"}, ValueError, "no column of labels"),
        ({"ann": [1, 2], "bob": [1]}, {}, ValueError, "columns differ in length: 2, 1"),
        (pl.DataFrame(WIDE).lazy(), {}, TypeError, "a LazyFrame has no data yet"),
        ({"ann": [0.5, 1.5], "bob": [0.25, 1]}, {}, ValueError, "the matrix holds numbers with fractions"),
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
    with pytest.warns(mh.DataWarning, match=r"2 tasks have no label at all .*\(1, 3; see"):
        votes = mh.Annotations.from_dense([[0, 1], [-1, -1], [1, 1], [-1, -1]], classes=[1, 0])
    assert votes.tasks.tolist() == [0, 2]
    assert votes.unlabelled.tolist() == [1, 3]
    assert votes.classes.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([1, 2], r"must be tasks × workers, not of shape \(2,\)"),
        (np.zeros((1, 1, 1)), "not of shape"),
        (np.zeros((0, 3)), r"of shape \(0, 3\), holds no label"),
        ([[-1, -1]], "holds no label"),
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
        (([-1, 0], [0, 1], [0, 1]), {}, ValueError, "tasks must lie between 0 and 4,294,967,295"),
        (([0, 1], [0, 2**33], [0, 1]), {}, ValueError, "workers must lie between"),
        (([0, 1], [0, 1], [0, 65_536]), {}, ValueError, "labels must lie between 0 and 65,535"),
        (([0, 2], [0, 1], [0, 1]), {}, ValueError, "task code 2 at row 1 is not below"),
        (([0, 1], [0, 2], [0, 1]), {}, ValueError, "worker code 2 at row 1 is not below"),
        (([0, 1], [0, 1], [2, 1]), {}, ValueError, "label code 2 at row 0 is not below"),
        (([0.0, 1.0], [0, 1], [0, 1]), {}, TypeError, r"tasks must be whole numbers \(codes\), not float64"),
        ((["a", "b"], [0, 1], [0, 1]), {}, TypeError, "use from_arrays for other ids"),
        (([0, 1], [True, False], [0, 1]), {}, TypeError, "workers must be whole numbers"),
        (
            ([0, 1, 1], [0, 1], [0, 1]),
            {},
            ValueError,
            "columns differ in length: 3 tasks, 2 workers, 2 labels",
        ),
        (([[0, 1]], [0, 1], [0, 1]), {}, ValueError, r"tasks must be one-dimensional, not of shape \(1, 2\)"),
        (([], [], []), {}, ValueError, "there are no annotations"),
        (([0, 1], [0, 1], [0, 1]), {"n_tasks": 0}, ValueError, "n_tasks must be at least 1, not 0"),
        (([0, 1], [0, 1], [0, 1]), {"n_classes": 65_536}, ValueError, "65,536 distinct labels"),
        (([0, 1], [0, 1], [0, 1]), {"n_workers": 2**32}, ValueError, "more than 4294967295 tasks or workers"),
        (([0, 1], [0, 1], [0, 1]), {"n_tasks": 2**32}, ValueError, "more than 4294967295 tasks or workers"),
    ],
)
def test_bad_codes_are_refused(codes, sizes, error, message):
    with pytest.raises(error, match=message):
        mh.Annotations.from_codes(*codes, **SIZES | sizes)


# -------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        (([], [], []), ValueError, r"there are no annotations: .* at least one \(task, worker, label\) row"),
        (([1], [1, 2], [1]), ValueError, "columns differ in length: 1 tasks, 2 workers, 1 labels"),
        (([1], [1], [1], [1.0, 2.0]), ValueError, "columns differ in length: .*, 2 weights"),
        (([1], [1], [1], 2.0), ValueError, r"weights must be one-dimensional, not of shape \(\)"),
        (([1], [1], [1], [[1.0]]), ValueError, r"weights must be one-dimensional, not of shape \(1, 1\)"),
        (("abc", [1], [1]), TypeError, "tasks must be a column of ids, not a single str"),
        (([1], 5, [1]), TypeError, "workers must be a column of ids, not a single int"),
        (([1], [1], None), TypeError, "labels must be a column of ids, not a single NoneType"),
        ((np.zeros((1, 1)), [1], [1]), ValueError, r"tasks must be one-dimensional, not of shape \(1, 1\)"),
        ((np.array(3), [1], [1]), ValueError, r"tasks must be one-dimensional, not of shape \(\)"),
        ((pd.DataFrame({"a": [1]}), [1], [1]), ValueError, r"tasks must be one-dimensional, .* \(1, 1\)"),
        ((pl.DataFrame({"a": [1]}), [1], [1]), ValueError, r"tasks must be one-dimensional, .* \(1, 1\)"),
        (([[1], [2]], [1, 2], [1, 2]), TypeError, "tasks at row 0 is a list, which cannot be an id"),
        (([1, 2], [(1,), [2]], [1, 2]), TypeError, "workers at row 1 is a list"),
        (([1, 2], [1, 2], [{}, {}]), TypeError, "labels at row 0 is a dict"),
        (([1], [1], [{1}]), TypeError, "labels at row 0 is a set"),
        (([1], [1], [([],)]), TypeError, "labels at row 0 is a tuple"),
        ((pl.Series([[1]]), [1], [1]), TypeError, "tasks at row 0 is a Series"),
        ((pa.array([[1]]), [1], [1]), TypeError, "tasks holds Arrow list<.*>; an id must be a single value"),
        ((pa.array([{"a": 1}]), [1], [1]), TypeError, "tasks holds Arrow struct<.*>"),
        ((pa.chunked_array([[[1]]]), [1], [1]), TypeError, "tasks holds Arrow list"),
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
            KeyError,
            r"no task column 'taks' \(did you mean 'task'\?\); the columns are 'task', 'worker'",
        ),
        (LOG, {"weight": "w"}, KeyError, "no weight column 'w'; the columns are"),
        (LOG, {"task": "label"}, ValueError, "column 'label' cannot be both task and label; name another"),
        (
            LOG,
            {"repeats": "all"},
            ValueError,
            "repeats must be one of 'keep', 'first', 'last', 'error', not 'all'",
        ),
        (LOG, {"missing": "keep"}, ValueError, "missing must be one of 'drop', 'error', not 'keep'"),
        (
            {"x": [1], "worker": [1], "label": [1]},
            {},
            KeyError,
            r"no column has .* name for the task: .*task=….*'x'",
        ),
        (
            LOG | {"item": TASKS},
            {},
            KeyError,
            r"several columns could be the task \('task', 'item'\): name it",
        ),
        (LOG, {"task": "Task"}, KeyError, r"no task column 'Task' \(did you mean 'task'\?\)"),
        (
            {"Task": [1], "ITEM": [1], "worker": [1], "label": [1]},
            {},
            KeyError,
            r"several columns .* \('Task', 'ITEM'\)",
        ),
        ({"unit": [1], "worker": [1], "label": [1]}, {}, KeyError, r"\(well known are task, task_id, item, "),
        ({}, {}, KeyError, "the columns are none"),
        ({f"c{i}": [1] for i in range(60)}, {}, KeyError, r"'c59' \(well known"),
        ({f"c{i}": [1] for i in range(130)}, {}, KeyError, "'c99', …"),
        (pl.DataFrame(LOG).lazy(), {}, TypeError, r"a LazyFrame has no data yet; call \.collect\(\)"),
        (pd.Series(TASKS), {}, TypeError, "expected a data frame or a mapping of columns, not Series"),
        (pl.Series(TASKS), {}, TypeError, "expected a data frame or a mapping of columns, not Series"),
        ([1, 2], {}, TypeError, "expected a data frame or a mapping of columns, not list"),
        ("log.csv", {}, TypeError, "expected a data frame or a mapping of columns, not str"),
        (
            pd.DataFrame([[1, 2, 3, 4]], columns=["task", "task", "worker", "label"]),
            {},
            ValueError,
            "several columns are called 'task'",
        ),
        (
            {"task": [[1]], "worker": [1], "label": [1]},
            {},
            TypeError,
            "task column 'task' at row 0 is a list",
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
    with pytest.raises(TypeError, match=r"expected Annotations or a frame, not list; .*from_frame"):
        mh.MajorityVote().fit([1, 2, 3])
    assert mh.MajorityVote().fit(pd.DataFrame(LOG)).labels_.tolist() == ["cat", "dog", "dog"]


def test_the_number_of_classes_is_limited():
    n = 65_536
    with pytest.raises(ValueError, match="labels holds 65,536 distinct labels, more than the 65,535 classes"):
        mh.Annotations.from_arrays(np.zeros(n, int), np.arange(n), np.arange(n))
    with pytest.raises(ValueError, match="65,536 distinct labels"):
        mh.Annotations.from_arrays([1], [1], [1], classes=range(n))
    with pytest.warns(mh.DataWarning, match="65,535 distinct values"):
        most = mh.Annotations.from_arrays(np.zeros(n - 1, int), np.arange(n - 1), np.arange(n - 1))
    assert most.n_classes == 65_535
    assert most.codes()[2].max() == 65_534


@pytest.mark.parametrize("n_classes", [256, 257])
def test_labels_survive_where_their_width_changes(n_classes):
    labels = np.arange(n_classes)[::-1]
    votes = mh.Annotations.from_arrays(np.zeros(n_classes, int), np.arange(n_classes), labels, classes=labels[::-1])
    assert votes.codes()[2].tolist() == labels.tolist()


# -------------------------------------------------------------------------------------------- smallest tables


def test_one_annotation_is_a_table():
    votes = mh.Annotations.from_arrays(["t"], ["w"], ["x"])
    assert repr(votes) == "<Annotations: 1 annotation of 1 task by 1 worker, 1 class>"
    assert len(votes) == 1
    assert votes.describe().agreement != votes.describe().agreement
    assert json.loads(json.dumps(votes.describe().to_dict(), allow_nan=False))["agreement"] is None
    assert "no task has two labels" in str(votes.describe())
    for model in (mh.MajorityVote(), mh.WeightedVote(), mh.DawidSkene()):
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
    for model in (mh.MajorityVote(), mh.WeightedVote(), mh.DawidSkene(max_iter=20, tol=0)):
        model.fit(votes)
        assert set(model.labels_.tolist()) <= set(log[2])
        np.testing.assert_allclose(model.posterior_.sum(axis=1), 1)
        np.testing.assert_allclose(model.confusion_.sum(axis=2), 1)


# --------------------------------------------------------------------------------------- subsets and contents


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
    with pytest.warns(mh.DataWarning):
        gaps = mh.Annotations.from_arrays(["b", "a", "z"], ["x", "y", "x"], [1, 1, None])
    assert gaps.select(workers=["x"]).unlabelled.tolist() == ["a", "z"]
    assert gaps.select(tasks=["a"]).unlabelled.tolist() == []
    assert gaps.sample(fraction=0.5).unlabelled.tolist() in (["a", "z"], ["b", "z"])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"tasks": ["a", "q", "r"]}, KeyError, "no task is called 'q'"),
        ({"workers": ["W1"]}, KeyError, "no worker is called 'W1'"),
        ({"workers": [1]}, KeyError, "no worker is called 1"),
        ({"tasks": "a"}, TypeError, "tasks must be a column of ids, not a single str"),
        ({"tasks": ["a", None]}, ValueError, "the tasks to select must not hold a missing value"),
        ({"tasks": [True, False]}, ValueError, "the task mask has 2 entries for 3 tasks"),
        ({"tasks": np.ones((3, 1), bool)}, ValueError, "tasks must be one-dimensional"),
        ({"tasks": []}, ValueError, "no annotation is left"),
        ({"tasks": ["c"], "workers": ["w2"]}, ValueError, "no annotation is left: .* have none in common"),
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
        ({}, "give either fraction= or per_task="),
        ({"fraction": 0.5, "per_task": 1}, "give either"),
        ({"fraction": 0.0}, r"fraction must lie in \(0, 1\], not 0.0"),
        ({"fraction": 1.5}, "not 1.5"),
        ({"fraction": float("nan")}, "not nan"),
        ({"fraction": 0.01}, "a fraction of 0.01 leaves none of 7 annotations"),
        ({"per_task": 0}, "per_task must be at least 1, not 0"),
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
    with pytest.raises(TypeError, match="no Arrow type can hold the ids 1, 'a', …; use integers or text"):
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
    with pytest.warns(mh.DataWarning):
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
    with pytest.warns(mh.DataWarning):
        mh.Annotations.from_frame(frame)
    pd.testing.assert_frame_equal(frame, before)
    votes = mh.Annotations.from_arrays(*arrays, weights := np.array([1.0, 2.0, 3.0]))
    expected = rows_of(votes)
    for array in (*arrays, weights):
        array[:] = 0
    assert rows_of(votes) == expected
