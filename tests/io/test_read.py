"""The way in from files: CSV and Parquet, one or many, whole or damaged."""

from __future__ import annotations

import bz2
import gzip
import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import manyhands as mh
from files import read_table
from manyhands._base.write import write_table
from manyhands.errors import DataWarning

COLUMNS = {"task": ["b", "a", "b"], "worker": [10, 9, 9], "label": ["yes", "no", "yes"]}
ROWS = [("a", 9, "no"), ("b", 9, "yes"), ("b", 10, "yes")]
CSV = "task,worker,label\nb,10,yes\na,9,no\nb,9,yes\n"


def rows_of(votes: mh.Annotations) -> list[tuple]:
    frame = votes.to_frame()
    return list(zip(*(frame.column(name).to_pylist() for name in frame.column_names), strict=True))


def put(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def parquet(path: Path, columns: dict) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


# ------------------------------------------------------------------------------------------ kinds of file


TEXT_FILES = {
    "log.csv": CSV.encode(),
    "LOG.CSV": CSV.encode(),
    "log.v2.csv": CSV.encode(),
    "log.txt": CSV.encode(),
    "log.tsv": CSV.replace(",", "\t").encode(),
    "log.csv.gz": gzip.compress(CSV.encode()),
    "log.tsv.gz": gzip.compress(CSV.replace(",", "\t").encode()),
    "log.csv.bz2": bz2.compress(CSV.encode()),
    "log.csv.zst": pa.Codec("zstd").compress(CSV.encode(), asbytes=True),
    "crlf.csv": CSV.replace("\n", "\r\n").encode(),
    "bom.csv": b"\xef\xbb\xbf" + CSV.encode(),
    "no last newline.csv": CSV.rstrip().encode(),
    "blank lines.csv": CSV.replace("\n", "\n\n").encode(),
    "more columns.csv": b"x,label,worker,y,task\n1,yes,10,,b\n,no,9,2,a\n3,yes,9,4,b\n",
}


@pytest.mark.parametrize("name", TEXT_FILES)
def test_text_files_of_any_kind(tmp_path, name):
    path = put(tmp_path / name, TEXT_FILES[name])
    assert rows_of(mh.read(path)) == ROWS
    assert mh.read(str(path)) == mh.read([path])


@pytest.mark.parametrize("name", ["log.parquet", "log.pq"])
@pytest.mark.parametrize("category", [False, True])
def test_parquet_files(tmp_path, name, category):
    columns = {k: pa.array(v).dictionary_encode() if category else v for k, v in COLUMNS.items()}
    path = parquet(tmp_path / name, columns | {"other": [[1], [2], [3]]})
    assert rows_of(mh.read(path)) == ROWS


@pytest.mark.parametrize("group", [700, 10_000])
def test_dictionaries_of_parquet_files_are_joined(tmp_path, group):
    """Row groups with unlike dictionaries, batches that share one, missing labels, and text that never repeats."""
    n = 6_000
    columns: dict[str, list[str | None]] = {
        "task": [f"task {i // 3 * 7919 % n:05d}" for i in range(n)],
        "worker": [f"w{i % 31 if i < n // 2 else i}" for i in range(n)],
        "label": [None if i % 97 == 3 else "no" if i % 5 else "yes" for i in range(n)],
    }
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=group)
    with pytest.warns(DataWarning, match="set aside"):
        votes = mh.read(path)
    with pytest.warns(DataWarning, match="set aside"):
        assert votes == mh.Annotations.from_frame(columns)


def test_a_folder_called_like_a_column_adds_none(tmp_path):
    path = parquet(tmp_path / "worker=7" / "label=x" / "log.parquet", COLUMNS)
    assert rows_of(mh.read(path)) == ROWS


def test_another_delimiter(tmp_path):
    path = put(tmp_path / "log.csv", CSV.replace(",", ";"))
    assert rows_of(mh.read(path, delimiter=";")) == ROWS
    with pytest.raises(ValueError, match="'task;worker;label'"):
        mh.read(path, delimiter=",")
    with pytest.raises(ValueError, match=r"delimiter.*ASCII.*'::'"):
        mh.read(path, delimiter="::")


def test_quoted_fields_hold_anything(tmp_path):
    text = 'task,worker,label\n"a,\nb","say ""hi""",x\n"  c",d,"y\r\n"\n'
    votes = mh.read(put(tmp_path / "log.csv", text))
    assert sorted(rows_of(votes)) == [("  c", "d", "y\r\n"), ("a,\nb", 'say "hi"', "x")]


def test_a_long_file_is_cut_between_rows(tmp_path):
    """Several of the reader's blocks, with line ends inside of quotes everywhere."""
    n = 60_000
    lines = [f'"task\n{i % 7000:06d} {"x" * 60}",{i % 11},"l\n{i % 3}"' for i in range(n)]
    votes = mh.read(put(tmp_path / "log.csv", "task,worker,label\n" + "\n".join(lines)))
    assert (votes.n_annotations, votes.n_tasks, votes.n_workers, votes.n_classes) == (n, 7000, 11, 3)


# ----------------------------------------------------------------------------------------- what text means


def test_only_plain_integers_become_integers(tmp_path):
    text = "task,worker,label\n007,7,1\n7,-3,2\n1.0,0,1\n"
    votes = mh.read(put(tmp_path / "log.csv", text))
    assert votes.tasks.tolist() == ["007", "1.0", "7"]
    assert votes.workers.tolist() == [-3, 0, 7]
    assert votes.workers.dtype == np.int64
    assert votes.classes.tolist() == [1, 2]


@pytest.mark.parametrize("odd", ["+7", "1e3", " 7", "0x7", "-0", "1_000", "٣", "99999999999999999999", "1.5"])
def test_one_odd_value_keeps_a_column_text(tmp_path, odd):
    votes = mh.read(put(tmp_path / "log.csv", f"task,worker,label\n7,1,0\n{odd},2,0\n"))
    assert sorted(votes.tasks.tolist()) == sorted(["7", odd])


def test_names_that_look_missing_are_names(tmp_path):
    names = ["NA", "null", "None", "nan", "NaN", "#N/A", "N/A", "-"]
    text = "task,worker,label\n" + "".join(f"{name},{name},{name}\n" for name in names)
    with pytest.warns(mh.errors.DataWarning, match="'NaN', 'nan'"):
        votes = mh.read(put(tmp_path / "log.csv", text))
    assert votes.classes.tolist() == votes.tasks.tolist() == sorted(names)


def test_empty_fields_are_missing(tmp_path):
    path = put(tmp_path / "log.csv", 'task,worker,label\na,1,x\nb,2,\nc,3,""\nb,1,y\n')
    with pytest.warns(mh.errors.DataWarning, match="2 rows.*1 task.*'c'"):
        votes = mh.read(path)
    assert votes.unlabelled.tolist() == ["c"]
    with pytest.raises(ValueError, match=r"column 'label'.*2.*4 rows.*row 1"):
        mh.read(path, missing="error")
    path = put(tmp_path / "ids.csv", "item,worker,label\na,1,x\n,2,y\n")
    with pytest.raises(ValueError, match=r"column 'item'.*1.*2 rows.*row 1"):
        mh.read(path)


def test_classes_given_as_text_keep_labels_text(tmp_path):
    path = put(tmp_path / "log.csv", "task,worker,label\n1,1,1\n2,1,2\n")
    assert mh.read(path, classes=["2", "1"]).classes.tolist() == ["2", "1"]
    assert mh.read(path, classes=[2, 1, 0]).classes.tolist() == [2, 1, 0]


def test_options_reach_the_table(tmp_path):
    path = put(tmp_path / "log.csv", "q,who,said,w\na,1,x,0.5\na,1,y,2\n")
    votes = mh.read(path, task="q", worker="who", label="said", weight="w", repeats="last")
    assert rows_of(votes) == [("a", 1, "y", 2.0)]
    with pytest.raises(ValueError, match=r"worker 1.*task 'a'"):
        mh.read(path, task="q", worker="who", label="said", repeats="error")


def test_weights_must_be_numbers(tmp_path):
    path = put(tmp_path / "log.csv", "task,worker,label,w\na,1,x,heavy\n")
    with pytest.raises(mh.errors.FileFormatError, match=r"log\.csv.*invalid value 'heavy'"):
        mh.read(path, weight="w")
    path = put(tmp_path / "log.csv", "task,worker,label,w\na,1,x,\n")
    with pytest.raises(ValueError, match=r"column 'w'.*nan.*row 0"):
        mh.read(path, weight="w")
    path = parquet(tmp_path / "log.parquet", COLUMNS | {"w": ["1", "2", "3"]})
    with pytest.raises(TypeError, match="column 'w'"):
        mh.read(path, weight="w")


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)


@pytest.mark.filterwarnings("ignore:.*differ by case or blanks only")
@given(st.lists(st.tuples(NAMES, st.integers(-(10**17), 10**17), NAMES), min_size=1, max_size=20))
def test_csv_and_parquet_hold_the_same_log(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("log")
    task, worker, label = zip(*rows, strict=True)
    # Text that spells integers is read as such from CSV only.
    table = pa.table({"task": [f"t{x}" for x in task], "worker": worker, "label": [f"l{x}" for x in label]})
    pq.write_table(table, folder / "log.parquet")
    write_table(table, folder / "log.csv")
    write_table(table, folder / "log.tsv.gz")
    votes = mh.Annotations.from_frame(table)
    for name in ("log.parquet", "log.csv", "log.tsv.gz"):
        assert mh.read(folder / name) == votes


# -------------------------------------------------------------------------------------------- several files


def test_many_files_are_one_log(tmp_path):
    one = put(tmp_path / "a.csv", "task,worker,label\nb,10,yes\n")
    two = put(tmp_path / "b.csv.gz", gzip.compress(b"label,item,worker\nno,a,9\n"))
    three = parquet(tmp_path / "c.parquet", {"task": ["b"], "worker": [9], "label": ["yes"]})
    assert rows_of(mh.read([one, two, three])) == ROWS
    assert rows_of(mh.read([str(tmp_path / "[ab].csv*"), three])) == ROWS
    assert rows_of(mh.read(path for path in (three, two, one))) == ROWS
    (tmp_path / "folder.csv").mkdir()
    put(tmp_path / "deep" / "er" / "d.csv", "task,worker,label\nz,1,no\n")
    assert mh.read(tmp_path / "*.*").n_annotations == 3
    assert mh.read(f"{tmp_path}/**/*.csv").n_annotations == 2


def test_a_name_with_wildcards_that_exists_is_a_name(tmp_path):
    put(tmp_path / "log1.csv", "task,worker,label\nx,1,no\n")
    assert rows_of(mh.read(put(tmp_path / "log[1].csv", CSV))) == ROWS


def columns_with(task, **options) -> dict:
    return {"task": pa.array(task, **options), "worker": list(range(len(task))), "label": ["x"] * len(task)}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (pa.array([1, 2]), pa.array(["7", "a"]), ["1", "2", "7", "a"]),
        (pa.array([1, 2]), pa.array(["7", "8"]), [1, 2, 7, 8]),
        (pa.array([1, 2]), pa.array(["007", "8"]), ["007", "1", "2", "8"]),
        (pa.array([1, 2], pa.int8()), pa.array([300, 2**40]), [1, 2, 300, 2**40]),
        (pa.array([1, 2]), pa.array([3.0, 4.0]), [1, 2, 3, 4]),
        (pa.array([1.0, 2.0]), pa.array(["7", "a"]), ["1", "2", "7", "a"]),
        (pa.array(["a", "b"]), pa.array(["a", "c"]).dictionary_encode(), ["a", "b", "c"]),
        (pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode(), ["a", "b", "c"]),
        (pa.array([1, 2]).dictionary_encode(), pa.array(["c", "1"]).dictionary_encode(), ["1", "2", "c"]),
        (pa.array(["a"], pa.large_string()), pa.array(["b"], pa.string_view()), ["a", "b"]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else None,
)
def test_columns_of_unlike_types_are_compared_as_text(tmp_path, first, second, expected):
    one = parquet(tmp_path / "1.parquet", columns_with(first))
    two = parquet(tmp_path / "2.parquet", columns_with(second))
    assert mh.read([one, two]).tasks.tolist() == expected
    assert mh.read([two, one]).tasks.tolist() == expected


def test_csv_text_follows_the_types_of_a_parquet_file(tmp_path):
    text = put(tmp_path / "1.csv", "task,worker,label\n7,1,x\n8,1,x\n")
    numbers = parquet(tmp_path / "2.parquet", columns_with([7, 9]))
    names = parquet(tmp_path / "3.parquet", columns_with(["7", "9"]))
    assert mh.read([text, numbers]).tasks.tolist() == [7, 8, 9]
    assert mh.read([text, names]).tasks.tolist() == ["7", "8", "9"]
    assert mh.read([text, numbers, names]).tasks.tolist() == [7, 8, 9]


def test_a_file_without_labels_joins_those_with(tmp_path):
    one = parquet(tmp_path / "1.parquet", COLUMNS)
    empty = {"task": ["c"], "worker": [1], "label": pa.nulls(1)}
    two = parquet(tmp_path / "2.parquet", empty)
    with pytest.warns(mh.errors.DataWarning, match="1 task"):
        assert rows_of(mh.read([one, two])) == ROWS
    three = put(tmp_path / "3.csv", "task,worker,label\n")
    with pytest.warns(mh.errors.DataWarning, match="1 task"):
        assert rows_of(mh.read([two, three, one])) == ROWS


def test_types_that_do_not_go_together_are_refused(tmp_path):
    one = parquet(tmp_path / "1.parquet", columns_with([True, False]))
    two = parquet(tmp_path / "2.parquet", columns_with(["True"]))
    message = r"the task column has types that do not go together: .*bool in .*1\.parquet.*; convert one"
    with pytest.raises(TypeError, match=message):
        mh.read([one, two])


def test_real_logs_have_the_sizes_they_should(shared_data):
    n_logs = 0
    for meta in sorted(shared_data.glob("*/meta.json")):
        about = json.loads(meta.read_text())
        if about["type"] in ("categorical", "ordinal"):
            votes = mh.read(meta.with_name(about["file"]))
            assert (votes.n_tasks, votes.n_workers, votes.n_classes) == (about["N"], about["M"], about["K"])
            assert votes.n_annotations == about["n_labels"]
            assert votes.describe().n_repeats == about["dups"]
            n_logs += 1
    assert n_logs > 10


# ------------------------------------------------------------------------------------------------ bad files


def test_missing_files_and_folders_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file '.*nowhere\.csv'"):
        mh.read(tmp_path / "nowhere.csv")
    with pytest.raises(FileNotFoundError, match=r"no file matches '.*\*\.csv'"):
        mh.read(tmp_path / "*.csv")
    with pytest.raises(FileNotFoundError, match="file"):
        mh.read([])
    with pytest.raises(FileNotFoundError, match="folder"):
        mh.read(tmp_path)
    with pytest.raises(TypeError, match="int"):
        mh.read([3])


@pytest.mark.parametrize("name", ["log", "log.gz", "csv"])
def test_other_endings_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=f"'.*{name}'"):
        mh.read(put(tmp_path / name, CSV))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read anything")
def test_a_file_that_may_not_be_read_says_so(tmp_path):
    path = put(tmp_path / "log.csv", CSV)
    path.chmod(0)
    with pytest.raises(PermissionError):
        mh.read(path)


DAMAGED = {
    "empty.csv": (b"", "Empty CSV file"),
    "plain.csv.gz": (CSV.encode(), "zlib"),
    "short.csv.gz": (gzip.compress(CSV.encode() * 100)[:-30], "runcated"),
    "text.parquet": (CSV.encode(), "not a parquet file"),
    "empty.parquet": (b"", "0 bytes"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_are_named(tmp_path, name):
    content, reason = DAMAGED[name]
    message = f"cannot read '.*{name}': .*{reason}.*truncated, or of another format"
    with pytest.raises(mh.errors.FileFormatError, match=message):
        mh.read(put(tmp_path / name, content))


def test_parquet_cut_anywhere_is_refused(tmp_path):
    whole = parquet(tmp_path / "log.parquet", COLUMNS).read_bytes()
    for length in range(0, len(whole), 7):
        with pytest.raises(mh.errors.FileFormatError, match=r"cannot read .*cut\.parquet"):
            mh.read(put(tmp_path / "cut.parquet", whole[:length]))


def test_damaged_data_in_parquet_is_refused(tmp_path):
    path = tmp_path / "log.parquet"
    table = pa.table({"task": list(range(1000)), "worker": [0] * 1000, "label": [1] * 1000})
    pq.write_table(table, path, compression="gzip", use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[40:2000] = bytes(1960)
    with pytest.raises(mh.errors.FileFormatError, match=r"cannot read '.*log\.parquet'"):
        mh.read(put(path, bytes(content)))


def test_a_quote_without_end_is_refused(tmp_path):
    path = put(tmp_path / "log.csv", 'task,worker,label\na,1,"x\n' + "b,2,y\n" * 2_000_000)
    with pytest.raises(mh.errors.FileFormatError, match=r"cannot read '.*log\.csv'"):
        mh.read(path)


def test_files_without_rows_are_refused(tmp_path):
    message = "there are no annotations"
    with pytest.raises(ValueError, match=message):
        mh.read(put(tmp_path / "header.csv", "task,worker,label\n"))
    with pytest.raises(ValueError, match=message):
        mh.read(parquet(tmp_path / "empty.parquet", {name: pa.array([], "string") for name in COLUMNS}))


# ------------------------------------------------------------------------------------------------- columns


@pytest.mark.parametrize(
    "header",
    ["item,annotator,answer", "task_id,worker_id,label", "question,rater,vote", "example_id,judge,rating"],
)
def test_well_known_columns_are_found(tmp_path, header):
    assert rows_of(mh.read(put(tmp_path / "log.csv", CSV.replace("task,worker,label", header)))) == ROWS


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("names", "options", "error", "message"),
    [
        (
            ["taks", "worker", "label"],
            {},
            ValueError,
            "for the task: name it with task=…; the columns are 'taks'",
        ),
        (
            ["task", "item", "worker", "label"],
            {},
            ValueError,
            r"several columns could be the task \('task', 'item'\)",
        ),
        (["Taks", "worker", "label"], {}, ValueError, "the columns are 'Taks', 'worker', 'label'"),
        (
            ["task", "worker", "label"],
            {"label": "truth"},
            ValueError,
            "no label column 'truth'; the columns are",
        ),
        (["task", "worker", "label"], {"weight": "w"}, ValueError, "no weight column 'w'"),
        (
            ["task", "worker", "label"],
            {"label": "task"},
            ValueError,
            "column 'task' cannot be both task and label",
        ),
    ],
)
def test_unknown_columns_are_told_with_those_found(tmp_path, kind, names, options, error, message):
    path = tmp_path / f"log.{kind}"
    write_table(pa.table({name: ["1", "2"] for name in names}), path)
    with pytest.raises(error, match=rf"log\.{kind}: .*{message}"):
        mh.read(path, **options)


def test_two_columns_of_one_name_are_refused(tmp_path):
    path = put(tmp_path / "log.csv", "task,task,worker,label\n1,2,3,4\n")
    with pytest.raises(ValueError, match=r"log\.csv.*'task'"):
        mh.read(path)


def test_columns_with_odd_names(tmp_path):
    table = pa.table({"a.b": ["x"], "the, worker": [1], 'q"': [2], "a": [3]})
    for name in ("log.csv", "log.parquet"):
        write_table(table, tmp_path / name)
        votes = mh.read(tmp_path / name, task="a.b", worker="the, worker", label='q"')
        assert rows_of(votes) == [("x", 1, 2)]


# --------------------------------------------------------------------------------------- plain tables of text


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.csv.bz2", "t.csv.zst", "t.csv.lz4", "t.parquet"])
def test_tables_are_written_as_they_are_read(tmp_path, name):
    table = pa.table({"text": ["a", 'b"c', "d,\te\n", "é", None], "number": [1, -2, 3, 4, 5]})
    write_table(table, tmp_path / name)
    back = read_table(tmp_path / name)
    assert back.column("text").to_pylist() == table.column("text").to_pylist()
    assert [int(x) for x in back.column("number").to_pylist()] == [1, -2, 3, 4, 5]
    assert read_table(tmp_path / name, ["number"]).column_names == ["number"]
    with pytest.raises(ValueError, match="file"):
        write_table(table, tmp_path / "t.doc")
