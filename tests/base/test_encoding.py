"""Columns to codes and back, as plain NumPy and Python would."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import one_column

from manyhands import _core
from oracles import encode as oracle

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
