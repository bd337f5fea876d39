"""The compiled reader of plain CSV files, next to Arrow's."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

import manyhands as mh
from manyhands._base import plain_csv
from manyhands._base.plain_csv import read_plain_csv
from manyhands._base.sources import Layout, Source

NAMES = ["task", "worker", "label"]

fields = st.text(st.sampled_from('ab0é,"\n\r; '), max_size=4) | st.sampled_from(["", "fifteen-letters", "a" * 16])


def by_arrow(path: Path, columns: list[str]) -> list[list[str | None]]:
    options = pyarrow.csv.ConvertOptions(
        include_columns=columns,
        column_types=dict.fromkeys(columns, pa.large_string()),
        null_values=[""],
        strings_can_be_null=True,
    )
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    table = pyarrow.csv.read_csv(path, parse_options=parse, convert_options=options)
    return [table.column(name).to_pylist() for name in columns]


def plain(path: Path, columns: list[str]) -> list[list[str | None]] | None:
    found = read_plain_csv(Source(path, Layout()), NAMES, columns)
    return None if found is None else [[text or None for text in column.to_pylist()] for column in found]


@given(
    st.lists(st.tuples(fields, fields, fields.map("x{}".format)), max_size=30),
    st.sampled_from(["", ',"\n\r']),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(8, 60),
)
def test_what_is_read_is_what_arrow_reads(tmp_path_factory, rows, special, end, block):
    def written(field: str) -> str:
        bare = special and not set(field) & set(special)
        return field if bare else '"' + field.replace('"', '""') + '"'

    path = tmp_path_factory.mktemp("csv") / "log.csv"
    text = "".join(",".join(map(written, row)) + end for row in [NAMES, *rows])
    path.write_text(text, encoding="utf-8", newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_csv, "_BLOCK", block)
        found = plain(path, ["label", "task"])
    assert found == by_arrow(path, ["label", "task"])


@pytest.mark.parametrize(
    "line", ["a,b", "a,b,c,d", 'a,"b"x,c', 'a,b"c,d', "a,b\rc,d", 'a,b,"c', "a,b,\xff", " "], ids=repr
)
def test_what_is_not_plain_is_left_to_arrow(tmp_path, line):
    path = tmp_path / "log.csv"
    path.write_bytes(("task,worker,label\n1,2,3\n" + line + "\n").encode("latin-1"))
    assert plain(path, NAMES) is None


@pytest.mark.parametrize("names", [["task", "worker", "task"], ["task"]])
def test_columns_that_cannot_be_told_apart_are_left_to_arrow(tmp_path, names):
    path = tmp_path / "log.csv"
    path.write_text(",".join(names) + "\n")
    assert read_plain_csv(Source(path, Layout()), names, ["task"]) is None


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_any_threads_and_compression_give_the_same_log(tmp_path, monkeypatch, ending, n_threads):
    monkeypatch.setattr(plain_csv, "_BLOCK", 1 << 17)
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, n, 30_000) for n in (9_000, 50, 3)]
    columns = {name: [f"{name} {code:04d}" for code in column] for name, column in zip(NAMES, codes, strict=True)}
    lines = [",".join(NAMES), *map(",".join, zip(*columns.values(), strict=True))]
    path = tmp_path / f"log.{ending}"
    content = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    before = mh.get_num_threads()
    mh.set_num_threads(n_threads)
    try:
        votes: Any = mh.read(path)
    finally:
        mh.set_num_threads(before)
    assert votes == mh.Annotations.from_frame(columns)
