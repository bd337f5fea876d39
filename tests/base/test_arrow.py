"""Conversions of Arrow arrays that do without Arrow's own functions."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands._base import arrow

KINDS = {
    "integers": (st.integers(-5, 5), pa.int64()),
    "booleans": (st.booleans(), pa.bool_()),
    "text": (st.text(max_size=3), pa.large_string()),
    "nothing": (st.none(), pa.null()),
}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_nulls_are_those_of_arrow(kind, data):
    values, type_ = KINDS[kind]
    column = pa.array(data.draw(st.lists(st.none() | values, max_size=20)), type_)
    column = column.slice(data.draw(st.integers(0, len(column))))
    assert arrow.nulls(column).tolist() == column.is_null().to_pylist()


def test_rows_of_tables_and_chunks_are_taken_too():
    texts = pa.array(["a", "b"], pa.large_string())
    for column in (pa.table({"x": texts})["x"], pa.chunked_array([texts, texts])):
        assert arrow.take(column, np.array([1, 0])).to_pylist() == ["b", "a"]
    assert arrow.take(pa.table({"x": texts}), np.array([1])).column("x").to_pylist() == ["b"]


@given(st.lists(st.text(max_size=4), min_size=1, max_size=20), st.data())
def test_rows_of_text_are_those_that_arrow_takes(texts, data):
    first = data.draw(st.integers(0, len(texts) - 1))
    column = pa.array(texts, pa.large_string()).slice(first)
    index = np.array(data.draw(st.lists(st.integers(0, len(column) - 1), max_size=30)), np.int64)
    taken = arrow.take(column, index)
    taken.validate(full=True)
    assert taken.equals(column.take(pa.array(index)))


def test_chunks_of_dictionaries_are_joined_with_their_texts():
    chunks = [pa.array(list(texts), pa.string()).dictionary_encode() for texts in ("abca", "abca", "cd", "")]
    column = arrow.one_chunk(pa.chunked_array([*chunks, chunks[0].slice(2)]))
    assert column.to_pylist() == list("abcaabcacdca")
    assert column.dictionary.to_pylist() == list("abccdabc")
    with_null = pa.array(["x", None]).dictionary_encode()
    joined = arrow.one_chunk(pa.chunked_array([with_null, with_null]))
    assert joined.to_pylist() == ["x", None, "x", None]


def test_a_short_log_is_aggregated_without_arrow_functions(tmp_path):
    """`pyarrow.compute` takes longer to import than such a command works."""
    (tmp_path / "log.csv").write_text("task,worker,label\na,x,p\na,y,q\nb,x,q\n")
    script = f"""
import sys
from manyhands.cli import main
assert main(["aggregate", {str(tmp_path / "log.csv")!r}, "-q", "-o", {str(tmp_path / "labels.csv")!r}]) == 0
loaded = {{"pyarrow.compute", "pyarrow.parquet", "pandas", "scipy"}} & {{*sys.modules}}
assert not loaded, loaded
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_judges_are_measured_without_pandas(tmp_path):
    """Arrow imports it for lists that become arrays, which is a third of what a short command takes."""
    rows = [
        f"t{task},{judge},{'pass' if (task + at) % 3 else ''}" for task in range(40) for at, judge in enumerate("ab")
    ]
    (tmp_path / "log.csv").write_text("\n".join(["task,judge,verdict", *rows]) + "\n")
    (tmp_path / "gold.csv").write_text("task,label\n" + "".join(f"t{task},pass\n" for task in range(30)))
    files = [str(tmp_path / name) for name in ("log.csv", "gold.csv", "page.html", "page.json")]
    arguments = ["judges", files[0], "--gold", files[1], "-q", "-o", files[2], "--json", files[3]]
    script = f"""
import sys
from manyhands.cli import main
assert main({arguments!r}) == 0
loaded = {{"pandas", "scipy"}} & {{*sys.modules}}
assert not loaded, loaded
"""
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
