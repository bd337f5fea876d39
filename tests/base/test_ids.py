"""Ids are the same where Python says so, whatever holds them and in whatever order the rows come."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import fractions
import subprocess
import sys
import textwrap
import uuid
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhands as mh
from manyhands._base.names import Names


class Number(enum.IntEnum):
    ONE = 1
    TWO = 2


class Word(enum.StrEnum):
    A = "a"


class Kind(enum.Enum):
    ONE = 1


UTC, ROME = dt.UTC, ZoneInfo("Europe/Rome")
MIDNIGHT = dt.datetime(2020, 1, 1)

#: Values of which many are equal, or are taken for each other by those who convert before they compare.
ODD = [
    *(True, False, 0, 1, 2, -1, 2**53, 2**53 + 1, 2**63, 2**64, -(2**63), 10**30),
    *(0.0, -0.0, 1.0, 1.5, 1.1, 2.0**53, 2.0**63, 1e300, float("inf"), float("-inf")),
    *(np.True_, np.int8(1), np.uint64(2**63), np.int64(2**53 + 1), np.float16(1.5), np.float32(1.1), np.float64(1.1)),
    *(np.float32(1.0), np.longdouble(1.5), np.longdouble(1) / 3, np.complex64(1), 1 + 0j, 1j),
    *(decimal.Decimal(1), decimal.Decimal("1.0"), decimal.Decimal("1.5"), decimal.Decimal("1.1")),
    *(fractions.Fraction(3, 2), fractions.Fraction(1), Number.ONE, Number.TWO, Kind.ONE),
    *("a", "b", "1", "1.0", "True", "a\0", "a\0b", "a\0c", "\ud800", "é", "e\u0301", np.str_("a"), Word.A),
    *(b"a", b"a\0b", np.bytes_(b"a"), b"1"),
    *((1,), (True,), (1.0,), (1, "a"), ("a", 1), ((1,), 2), ((1.0,), 2), (), ("a",), (np.int64(1),)),
    *(dt.date(2020, 1, 1), MIDNIGHT, dt.datetime(2020, 1, 1, 5), dt.datetime(2020, 1, 1, 7)),
    *(MIDNIGHT.replace(tzinfo=UTC), MIDNIGHT.replace(tzinfo=ROME), dt.datetime(2020, 1, 1, 1, tzinfo=ROME)),
    *(dt.time(1), dt.timedelta(1), dt.timedelta(0), dt.timedelta(microseconds=1)),
    *(pd.Timestamp(MIDNIGHT), pd.Timestamp(MIDNIGHT).as_unit("ns") + pd.Timedelta(1, "ns"), pd.Timestamp(1577836800)),
    *(pd.Timestamp(MIDNIGHT, tz="UTC"), pd.Timestamp(MIDNIGHT, tz="Europe/Rome"), pd.Timedelta(1, "D")),
    *(pd.Period("2020-01-01", "D"), pd.Period("2020-01", "M"), pd.Interval(0, 1), pd.Interval(0, 2)),
    *(np.datetime64("2020-01-01"), np.datetime64("2020"), np.datetime64("2020-01-01", "s"), np.datetime64(1, "ns")),
    *(np.datetime64("2020-01-01T05", "h"), np.datetime64(2, "ns"), np.datetime64("2020-01-01", "ns")),
    *(np.timedelta64(1, "D"), np.timedelta64(1, "ns"), np.timedelta64(24, "h"), np.timedelta64(1000, "ps")),
    *(pa.scalar(1), pa.scalar("a"), pa.scalar(1.5), pa.scalar(MIDNIGHT), pa.scalar(dt.date(2020, 1, 1))),
    *(uuid.UUID(int=1), uuid.UUID(int=2), frozenset({1}), frozenset({2}), frozenset({1, 2}), range(3)),
]


def meaning(value: object) -> object:
    """The Python value that a scalar stands for, told by each library's own means."""
    if isinstance(value, pa.Scalar):
        return value.as_py()
    if isinstance(value, np.datetime64 | np.timedelta64):
        if not isinstance(value.item(), int):
            return value.item()
        return pd.Timestamp(value) if isinstance(value, np.datetime64) else pd.Timedelta(value.astype("m8[ns]"))
    if isinstance(value, np.longdouble):
        return float(value) if float(value) == value else value
    return value.item() if isinstance(value, np.generic) else value


def table_of(column: object, n: int) -> mh.Annotations:
    """A table whose tasks are the column and whose workers are its rows."""
    return mh.Annotations.from_arrays(column, np.arange(n), np.zeros(n, np.int64))


def check_against_python(column: object, values: list, order: list[int], again: object) -> None:
    """Rows share a task if and only if their values share a place in a dictionary, in either order of the rows."""
    place: dict = {}
    expected = [place.setdefault(value, len(place)) for value in values]
    votes, shuffled = table_of(column, len(values)), table_of(again, len(values))
    tasks, rows, _ = votes.codes()
    task_of = dict(zip(rows.tolist(), tasks.tolist(), strict=True))
    assert votes.n_tasks == len(place)
    assert len({(expected[row], task) for row, task in task_of.items()}) == len(place)
    names = votes.tasks.tolist()
    assert all(names[task] == values[row] for row, task in task_of.items())
    assert [repr(name) for name in shuffled.tasks.tolist()] == [repr(name) for name in names]
    tasks, rows, _ = shuffled.codes()
    assert {order[row]: task for row, task in zip(rows.tolist(), tasks.tolist(), strict=True)} == task_of


def permuted(values: list, order: list[int]) -> list:
    return [values[i] for i in order]


def objects(values: list) -> np.ndarray:
    array = np.empty(len(values), object)
    array[:] = values
    return array


CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "iterator": iter,
    "numpy": objects,
    "pandas": lambda v: pd.Series(objects(v), dtype=object),
    "pandas index": lambda v: pd.Index(objects(v), dtype=object, tupleize_cols=False),
    "polars": lambda v: pl.Series(v, dtype=pl.Object),
}


@pytest.mark.parametrize("container", CONTAINERS)
@given(data=st.data())
def test_values_of_any_types_are_the_same_id_only_if_python_says_so(container, data):
    # polars replaces members of an enumeration by what they hold.
    pool = [value for value in ODD if container != "polars" or not isinstance(value, enum.Enum)]
    values = data.draw(st.lists(st.sampled_from(pool), min_size=1, max_size=12))
    order = data.draw(st.permutations(range(len(values))))
    make = CONTAINERS[container]
    again = permuted(values, order)
    check_against_python(make(values), [meaning(value) for value in values], order, make(again))


def test_every_pair_of_odd_values_is_told_apart_as_python_does():
    meanings = [meaning(value) for value in ODD]
    wrong = [
        (a, b)
        for i, a in enumerate(ODD)
        for j, b in enumerate(ODD)
        if table_of([a, b], 2).n_tasks != len({meanings[i], meanings[j]})
    ]
    assert wrong == []


DAYS = [MIDNIGHT, dt.datetime(2020, 1, 1, 5), dt.datetime(1970, 1, 1), dt.datetime(2020, 1, 2)]
SPANS = [dt.timedelta(0), dt.timedelta(1), dt.timedelta(seconds=1), dt.timedelta(-1)]
TIMES = [dt.time(1), dt.time(1, 2), dt.time(1, 2, 3), dt.time(0)]
WHOLE, FRACTIONS, TEXTS = [0, 1, 2, 100], [0.0, -0.0, 0.1, 1.5], ["a", "a\0b", "é", "a long text, beyond fifteen bytes"]
BYTES = [b"ab", b"a\0", b"\xff\xff", b"cd"]
DECIMALS = [decimal.Decimal(x) for x in ("0", "1", "1.50", "-2.25")]
UNITS = ("s", "ms", "us", "ns")


def arrow_of(kind: pa.DataType):
    return lambda values: pa.array(values, kind)


def numpy_of(dtype: object):
    return lambda values: np.array(values, dtype)


def pandas_of(dtype: object):
    return lambda values: pd.Series(values, dtype=dtype)


def polars_of(dtype: object):
    return lambda values: pl.Series(values, dtype=dtype)


def dictionary_of(values: list) -> pa.Array:
    return pa.array(values).dictionary_encode()


def typed_columns() -> dict:
    """Four values and what makes a column of them, for every type that the libraries have for single values."""
    found = {}
    integers = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    for name in integers:
        found[f"arrow {name}"] = WHOLE, arrow_of(pa.type_for_alias(name))
        found[f"numpy {name}"] = WHOLE, numpy_of(name)
        found[f"numpy {name}, swapped"] = WHOLE, numpy_of(np.dtype(name).newbyteorder())
        found[f"pandas {name}"] = WHOLE, pandas_of(name)
        found[f"pandas {name.replace('i', 'I').replace('u', 'U')}"] = (
            WHOLE,
            pandas_of(name.replace("i", "I").replace("uI", "UI")),
        )
        found[f"polars {name}"] = WHOLE, polars_of(getattr(pl, name.replace("i", "I").replace("uI", "UI")))
    found["arrow large uint64"] = [1, 2**63, 2**64 - 1, 2**53 + 1], arrow_of(pa.uint64())
    found["numpy large int64"] = [2**53, 2**53 + 1, -(2**63), 2**63 - 1], numpy_of("i8")
    found["polars Int128"] = [1, 2**100, 2**63, -(2**70)], polars_of(pl.Int128)
    for name in ("float16", "float32", "float64"):
        for pool in (WHOLE, FRACTIONS):
            what = "whole" if pool is WHOLE else "fractions"
            found[f"arrow {name}, {what}"] = pool, arrow_of(pa.from_numpy_dtype(name))
            found[f"numpy {name}, {what}"] = pool, numpy_of(name)
            if name != "float16":
                found[f"pandas {name.title()}, {what}"] = pool, pandas_of(name.title())
                found[f"polars {name.title()}, {what}"] = pool, polars_of(getattr(pl, name.title()))
    found["numpy longdouble"] = FRACTIONS, numpy_of(np.longdouble)
    found["numpy complex"] = [1j, 1, 2, 0], numpy_of(complex)
    found["numpy booleans"] = [True, False, True, False], numpy_of(bool)
    found["arrow booleans"] = [True, False, True, False], arrow_of(pa.bool_())
    found["pandas booleans"] = [True, False, True, False], pandas_of("boolean")
    found["polars booleans"] = [True, False, True, False], polars_of(pl.Boolean)
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        found[f"arrow {kind}"] = TEXTS, arrow_of(kind)
    found["arrow dictionary"] = TEXTS, dictionary_of
    found["arrow dictionary of days"] = DAYS, dictionary_of
    found["numpy text"] = TEXTS, numpy_of(str)
    found["numpy StringDType"] = TEXTS, numpy_of(np.dtypes.StringDType())
    found["pandas string"] = TEXTS, pandas_of("string")
    found["pandas str"] = TEXTS, pandas_of("str")
    found["pandas arrow text"] = TEXTS, pandas_of(pd.ArrowDtype(pa.string()))
    found["polars String"] = TEXTS, polars_of(pl.String)
    found["polars Categorical"] = TEXTS, polars_of(pl.Categorical)
    found["polars Enum"] = TEXTS, polars_of(pl.Enum(TEXTS))
    for kind in (pa.binary(), pa.large_binary(), pa.binary(2), pa.binary_view()):
        found[f"arrow {kind}"] = BYTES, arrow_of(kind)
    found["numpy bytes"] = [b"ab", b"a\0b", b"\xff", b"c"], numpy_of(bytes)
    found["polars Binary"] = BYTES, polars_of(pl.Binary)
    found["numpy records"] = [(1, "a"), (1, "b"), (2, "a"), (1, "a")], numpy_of([("n", "i4"), ("s", "U1")])
    for unit in UNITS:
        for zone in (None, "UTC", "Europe/Rome"):
            found[f"arrow timestamp {unit} {zone}"] = DAYS, arrow_of(pa.timestamp(unit, zone))
            dtype = f"datetime64[{unit}]" if zone is None else f"datetime64[{unit}, {zone}]"
            found[f"pandas {dtype}"] = DAYS, pandas_of(dtype)
            if unit != "s":
                utc = [day.replace(tzinfo=UTC) if zone else day for day in DAYS]
                found[f"polars Datetime {unit} {zone}"] = utc, polars_of(pl.Datetime(unit, zone))
        found[f"arrow duration {unit}"] = SPANS, arrow_of(pa.duration(unit))
        found[f"pandas timedelta64 {unit}"] = SPANS, pandas_of(f"timedelta64[{unit}]")
    for unit in ("Y", "M", "W", "D", "h", "m", *UNITS):
        found[f"numpy datetime64[{unit}]"] = (
            DAYS,
            lambda values, unit=unit: np.array(values, "M8[us]").astype(f"M8[{unit}]"),
        )
    for unit in ("W", "D", "h", "m", *UNITS):
        found[f"numpy timedelta64[{unit}]"] = [0, 1, 7, -7], numpy_of(f"m8[{unit}]")
    found["numpy timedelta64[ps]"] = [0, 1000, 7000, -7000], numpy_of("m8[ps]")
    found["numpy timedelta64[25s]"] = [0, 1, 7, -7], numpy_of("m8[25s]")
    found["arrow date32"] = [day.date() for day in DAYS], arrow_of(pa.date32())
    found["arrow date64"] = [day.date() for day in DAYS], arrow_of(pa.date64())
    found["polars Date"] = [day.date() for day in DAYS], polars_of(pl.Date)
    found["polars Duration"] = SPANS, polars_of(pl.Duration)
    found["polars Time"] = TIMES, polars_of(pl.Time)
    for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")):
        found[f"arrow {kind}"] = TIMES, arrow_of(kind)
    for kind in (pa.decimal32(5, 2), pa.decimal64(9, 2), pa.decimal128(20, 2), pa.decimal256(50, 2)):
        found[f"arrow {kind}"] = DECIMALS, arrow_of(kind)
    found["polars Decimal"] = DECIMALS, polars_of(pl.Decimal(10, 2))
    found["arrow uuid"] = [uuid.UUID(int=i).bytes for i in (1, 2, 3, 4)], arrow_of(pa.uuid())
    found["pandas period"] = ["2020-01", "2020-02", "2019-01", "2020-01"], pandas_of("period[M]")
    found["pandas interval"] = [pd.Interval(0, i) for i in (1, 2, 3, 4)], pandas_of(None)
    found["pandas sparse"] = WHOLE, pandas_of("Sparse[int64]")
    for what, pool in {"text": TEXTS, "numbers": FRACTIONS, "days": DAYS, "mixed": [1, "a", MIDNIGHT, (1,)]}.items():
        found[f"pandas categories of {what}"] = pool, pandas_of("category")
    found["pandas categories of dates and times"] = (
        [DAYS[0], DAYS[0].date(), DAYS[1], DAYS[1].date()],
        lambda values: pd.Categorical(
            objects(values), categories=pd.Index(objects([*dict.fromkeys(values)]), dtype=object)
        ),
    )
    return found


TYPED = typed_columns()


def contents(column: object) -> list:
    """The values of a column as its own library gives them."""
    if isinstance(column, pa.Array):
        return column.to_pylist()
    if isinstance(column, pl.Series):
        return column.to_list()
    if isinstance(column, np.ndarray):
        return [meaning(value) for value in column]
    return list(column)


@pytest.mark.parametrize("kind", TYPED)
@settings(max_examples=10)
@given(rows=st.lists(st.integers(0, 3), min_size=1, max_size=8), random=st.randoms(use_true_random=False))
def test_typed_columns_hold_the_ids_that_their_library_says(kind, rows, random):
    pool, make = TYPED[kind]
    order = list(range(len(rows)))
    random.shuffle(order)
    values = [pool[i] for i in rows]
    column = make(values)
    check_against_python(column, contents(column), order, make(permuted(values, order)))


# --------------------------------------------------------------------------------- what cannot be an id is refused

CENTURIES = 10**11
REFUSED = {
    "attoseconds": (np.array([1, 2], "M8[as]"), "datetime64.* has no equal in datetime64.ns."),
    "an attosecond": ([np.datetime64(1, "as"), 1], "at row 0 is .*has no equal in datetime64.ns."),
    "months": (np.array([1, 2], "m8[M]"), r"timedelta64\[M\] has no fixed length"),
    "a length without a unit": ([np.timedelta64(5), 5], "at row 0 is .* has no fixed length"),
    "days beyond": (np.array([10**9], "M8[D]"), "date32.* that Python's times cannot express"),
    "seconds beyond": (np.array([CENTURIES * 100, 1], "M8[s]"), r"Arrow timestamp\[s\] that Python's times cannot"),
    "years beyond": (np.array([2**62, 1], "M8[Y]"), "has no equal in datetime64"),
    "a year beyond": ([1, np.datetime64("10000")], "at row 1 is .* a time beyond what Python's dates hold"),
    "arrow time beyond": (pa.array([CENTURIES * 100, 1], pa.timestamp("s")), "Python's times cannot express"),
    "arrow duration beyond": (pa.array([10**18], pa.duration("s")), "Python's times cannot express"),
    "arrow scalar beyond": ([pa.scalar(CENTURIES * 100, pa.timestamp("s"))], "at row 0 is"),
    "unknown zone": (pa.array([1], pa.timestamp("s", "Nowhere/Land")), "Python's times cannot express"),
    "nanoseconds of a day": (pa.array([1001, 1002], pa.time64("ns")), "times of nanoseconds"),
    "polars nanoseconds of a day": (pl.Series([1001, 1002]).cast(pl.Time), "times of nanoseconds"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_times_without_a_python_value_are_refused_by_name(kind):
    column, message = REFUSED[kind]
    with pytest.raises(ValueError, match=f"tasks.*{message}.*text"):
        table_of(column, len(column))


def nested(depth: int, make=tuple) -> object:
    value = make()
    for _ in range(depth):
        value = make([value])
    return value


def test_tuples_may_be_nested_but_not_without_end():
    assert table_of([nested(9), nested(10)], 2).n_tasks == 2
    with pytest.raises(TypeError, match="row 1 is"):
        table_of([(), nested(100_000)], 2)


def test_a_signalling_nan_is_refused():
    with pytest.raises(TypeError, match="row 1 is"):
        table_of([decimal.Decimal(1), decimal.Decimal("sNaN")], 2)


DEADLY = {
    "numpy times and floats": "[np.datetime64('2020-01-01'), np.float32(1.1)]",
    "lists in lists": "[nested(100_000, list), 1]",
    "tuples in tuples": "[nested(100_000), 1]",
}


@pytest.mark.parametrize("kind", DEADLY)
def test_what_kills_arrow_never_reaches_it(kind):
    """In a process of its own: where this fails, the process is gone."""
    code = f"""
    import numpy as np, manyhands as mh
    def nested(depth, make=tuple):
        value = make()
        for _ in range(depth):
            value = make([value])
        return value
    try:
        votes = mh.Annotations.from_arrays({DEADLY[kind]}, [0, 1], ["a", "b"])
        print(votes.n_tasks)
        votes.to_frame()
    except TypeError as error:
        print(error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    assert "2\nno Arrow type" in done.stdout or "which cannot be an id" in done.stdout


# ----------------------------------------------------------------------------------------------------- the names


def test_numbers_that_are_equal_are_one_integer():
    for order in ([True, 1, 1.0], [1.0, True, 1], [1, 1.0, True]):
        votes = table_of(order, 3)
        assert votes.tasks.dtype == np.int64
        assert votes.tasks.tolist() == [1]


def test_unlike_numbers_are_not_compared_as_floats():
    assert Names(np.array([2**53 + 1])) != Names(np.array([2.0**53]))
    assert Names(np.array([2**53])) == Names(np.array([2.0**53]))


@pytest.mark.parametrize(
    "ids",
    [
        [dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 5)],
        [MIDNIGHT, MIDNIGHT.replace(tzinfo=UTC)],
        [1, "a"],
        [(1, "a"), (2, "b")],
        [Kind.ONE, "a"],
        [True, 2],
    ],
    ids=str,
)
def test_frames_refuse_ids_that_arrow_would_change(ids):
    with pytest.raises(TypeError, match=r"Arrow.*ids"):
        table_of(ids, 2).to_frame()


@pytest.mark.parametrize(
    "ids",
    [
        [MIDNIGHT, dt.datetime(2020, 1, 1, 5)],
        [pd.Timestamp(1), pd.Timestamp(2)],
        [pd.Timestamp(1, tz="UTC"), pd.Timestamp(2, tz="UTC")],
        [pd.Timedelta(1), pd.Timedelta(2)],
        [1, 1.5],
        [2**63, 1],
        [Number.ONE, Number.TWO],
        [Word.A, "b"],
        [(1, 2), (3, 4)],
        [b"a", b"b"],
    ],
    ids=str,
)
def test_frames_give_back_the_ids_that_arrow_keeps(ids):
    shown = table_of(ids, 2).to_frame().column("task").to_pylist()
    assert sorted(tuple(x) if isinstance(x, list) else x for x in shown) == sorted(ids)


# ------------------------------------------------------------------------------------------- text that is no text


@pytest.mark.parametrize("role", ["task", "worker", "label"])
def test_text_that_is_not_utf8_is_refused_with_its_row(role):
    text = pa.array([b"b", b"a\xff", b"b"]).view(pa.string())
    forms = [
        text,
        pa.chunked_array([["b"], text[1:]]),
        pa.DictionaryArray.from_arrays([0, 1, 0], text[:2]),
        pa.chunked_array([pa.DictionaryArray.from_arrays(*x) for x in (([0], text[:1]), ([0, 1], text[1:]))]),
    ]
    for form in forms:
        frame = pa.table({"task": [1, 2, 3], "worker": [1, 2, 3], "label": ["x", "y", "z"]} | {role: form})
        message = rf"^{role} column '{role}' holds text that is not valid UTF-8 at row 1 \(b'a\\xff'\)"
        with pytest.raises(ValueError, match=message):
            mh.Annotations.from_frame(frame)


def test_damaged_arrow_data_is_refused():
    offsets = pa.py_buffer(np.array([0, 3, 1, 3], np.int32))
    text = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"abc")])
    with pytest.raises(ValueError, match="tasks"):
        table_of(text, 3)
    indices = pa.array([0, 7, 1])
    codes = pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b"]), safe=False)
    with pytest.raises(ValueError, match="tasks"):
        table_of(codes, 3)
