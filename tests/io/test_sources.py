"""Streams, delimiters, encodings, headers: what files say of themselves, and where they are said to be wrong."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import manyhands as mh
from manyhands._base import sources
from manyhands._base.streams import batches, column_names
from manyhands.categorical.gold import read_gold
from manyhands.cli import main
from manyhands.errors import FileFormatError

CSV = "task,worker,label\nb,10,yes\na,9,no\nb,9,yes\n"
ROWS = [("a", 9, "no"), ("b", 9, "yes"), ("b", 10, "yes")]


def rows_of(votes: mh.Annotations) -> list[tuple]:
    frame = votes.to_frame()
    return list(zip(*(frame.column(name).to_pylist() for name in frame.column_names), strict=True))


def put(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def parquet_bytes() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"task": ["b", "a", "b"], "worker": [10, 9, 9], "label": ["yes", "no", "yes"]}), sink)
    return sink.getvalue()


# ------------------------------------------------------------------------------------------------------- streams

STREAMS = {
    "CSV": CSV.encode(),
    "semicolons": CSV.replace(",", ";").encode(),
    "gzip": gzip.compress(CSV.encode()),
    "zstd": pa.Codec("zstd").compress(CSV.encode(), asbytes=True),
    "Parquet": parquet_bytes(),
    "UTF-16": CSV.encode("utf-16"),
}


@pytest.fixture
def stdin(monkeypatch):
    def give(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return give


@pytest.mark.parametrize("kind", STREAMS)
def test_stdin_is_read_whatever_it_holds(kind, stdin):
    stdin(STREAMS[kind])
    assert rows_of(mh.read("-")) == ROWS


@pytest.mark.parametrize("kind", STREAMS)
def test_pipes_are_read_whatever_they_hold(kind, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(STREAMS[kind],))
    writer.start()
    assert rows_of(mh.read(pipe)) == ROWS
    writer.join()


@pytest.mark.parametrize("shell", ["cat log.csv | {} -", "{} /dev/stdin < log.csv", "{} <(gzip -c log.csv)"])
def test_the_command_line_reads_streams(shell, tmp_path):
    put(tmp_path / "log.csv", CSV)
    command = shell.format(f"{sys.executable} -m manyhands aggregate -q")
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [row[:2] for row in csv.reader(done.stdout.splitlines())] == [["task", "label"], ["a", "no"], ["b", "yes"]]


def test_gold_and_truth_come_from_stdin_too(tmp_path, monkeypatch, stdin, capsys):
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "log.csv", CSV)
    for option in ("--gold", "--evaluate"):
        stdin(b"task,label\na,no\nb,yes\n")
        assert main(["aggregate", "log.csv", "--method", "dawid-skene", option, "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["evaluation"]["accuracy"] == 1


@pytest.mark.parametrize("streams", [["-", "--gold", "-"], ["-", "-"], ["/dev/stdin", "--evaluate", "-"]])
def test_a_stream_is_read_once(streams, capsys):
    assert main(["aggregate", *streams]) == 2
    assert "stdin is named twice, and a stream can be read only once" in capsys.readouterr().err


def test_an_empty_stream_is_refused(stdin):
    stdin(b"")
    with pytest.raises(mh.errors.FileFormatError, match="CSV"):
        mh.read("-")


# ---------------------------------------------------------------------------------------------------- delimiters


@pytest.mark.parametrize("mark", [";", "\t", "|"])
@pytest.mark.parametrize("name", ["log.csv", "log.txt", "log.tsv", "log.csv.gz"])
def test_the_first_line_shows_the_delimiter(name, mark, tmp_path):
    text = CSV.replace(",", mark).replace("yes", '"y,s"').replace("task", '"task"').encode()
    path = put(tmp_path / name, gzip.compress(text) if name.endswith("gz") else text)
    assert mh.read(path).classes.tolist() == ["no", "y,s"]


def test_a_delimiter_that_does_its_work_is_kept(tmp_path):
    path = put(tmp_path / "log.csv", "task,worker,label,a;b;c;d;e\nb,10,yes,1\na,9,no,2\n")
    assert mh.read(path).n_tasks == 2
    path = put(tmp_path / "log.csv", "task;worker;label;remark, if any\nb;10;yes;1\na;9;no;2\n")
    with pytest.raises(mh.errors.FileFormatError, match=r"line 2.*1 field.*';'.*delimiter=';'"):
        mh.read(path)
    quoted = put(tmp_path / "quoted.csv", "task;worker;label,remark\nb;10;yes,1\na;9;no,2\n")
    with pytest.raises(ValueError, match=r"';'.*delimiter=';'"):
        mh.read(quoted)
    assert mh.read(path, delimiter=";").n_tasks == 2


def test_the_command_line_names_its_options_in_hints(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "mixed.csv", "task;worker;label;remark, if any\nb;10;yes;1\n")
    put(tmp_path / "bare.csv", "7,10,yes\n8,9,no\n")
    put(tmp_path / "latin.csv", "task,worker,label\nå,1,x\n".encode("latin-1"))
    put(tmp_path / "scores.csv", "task,worker,label\na,1,2.5\nb,1,3.5\n")
    for name, hint in (
        ("mixed", "--delimiter ';'"),
        ("bare", "--no-header"),
        ("latin", "--encoding latin-1"),
        ("scores", "--labels-as-text"),
    ):
        assert main(["describe", f"{name}.csv"]) == 2
        assert hint in capsys.readouterr().err


# ----------------------------------------------------------------------------------------------------- encodings

SWEDISH = "task,worker,label\nå,ö,bra\nä,ö,dåligt\n"


@pytest.mark.parametrize(
    "encoding", ["latin-1", "cp1252", "utf-16-le", "utf-16-be", "UTF-16", "utf-8-sig", "mac_roman"]
)
def test_any_encoding_can_be_named(encoding, tmp_path):
    path = put(tmp_path / "log.csv", SWEDISH.encode(encoding))
    assert mh.read(path, encoding=encoding).tasks.tolist() == ["ä", "å"]
    assert main(["describe", str(path), "--encoding", encoding]) == 0


def test_a_byte_order_mark_tells_the_encoding(tmp_path):
    for encoding in ("utf-16", "utf-32", "utf-8-sig"):
        assert mh.read(put(tmp_path / "log.csv", SWEDISH.encode(encoding))).tasks.tolist() == ["ä", "å"]


def test_an_unknown_encoding_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"'klingon'.*latin-1"):
        mh.read(put(tmp_path / "log.csv", CSV), encoding="klingon")


@pytest.mark.parametrize("rows", [0, 3, 40_000])
def test_bytes_of_another_encoding_are_found(rows, tmp_path):
    before = "task,worker,label\n" + "né,1,x\n" * rows
    path = put(tmp_path / "log.csv", before.encode() + "å,1,x\n".encode("latin-1") + b"a,2,y\n")
    place = len(before.encode())
    message = rf"log\.csv': line {rows + 2} is not in UTF-8 \(byte 0xe5 at {place:,}\); .*encoding='latin-1'"
    with pytest.raises(mh.errors.FileFormatError, match=message):
        mh.read(path)


def test_bytes_of_another_encoding_in_a_header_are_found(tmp_path):
    path = put(tmp_path / "log.csv", "task,worker,label,å\na,1,x,1\n".encode("latin-1"))
    with pytest.raises(mh.errors.FileFormatError, match=r"line 1.*UTF-8.*0xe5.*18"):
        mh.read(path)
    path = put(tmp_path / "log.csv", b"task,worker,label\na,\x81,x\n")
    with pytest.raises(mh.errors.FileFormatError, match=r"line 2.*CP1252.*0x81.*20"):
        mh.read(path, encoding="cp1252")


def test_wide_characters_without_a_mark_are_recognised(tmp_path):
    path = put(tmp_path / "log.csv", CSV.encode("utf-16-le"))
    with pytest.raises(mh.errors.FileFormatError, match=r"UTF-16.*encoding='utf-16-le'"):
        mh.read(path)
    path = put(tmp_path / "log.csv", CSV.rstrip().encode("utf-16-le"))
    with pytest.raises(ValueError, match=r"UTF-16.*encoding='utf-16-le'"):
        mh.read(path)


# ------------------------------------------------------------------------------------------------ lines, headers


@pytest.mark.parametrize(
    ("text", "line", "fields"),
    [
        ("task,worker,label\na,1,x\nb,2\n", 3, 2),
        ("task,worker,label\na,1,x,9\n", 2, 4),
        ('task,worker,label\n"a\nb",1,x\n\nb,2\n', 5, 2),
        ("task,worker,label\n" + "a,1,x\n" * 300_000 + "a,1\n", 300_002, 2),
    ],
)
def test_lines_of_another_length_are_named(text, line, fields, tmp_path):
    message = rf"cannot read '.*log\.csv': line {line} has {fields} fields, and the first line 3 \(is the file cut off"
    with pytest.raises(mh.errors.FileFormatError, match=message):
        mh.read(put(tmp_path / "log.csv", text))


def test_a_file_without_a_header(tmp_path):
    path = put(tmp_path / "log.csv", CSV.partition("\n")[2])
    votes = mh.read(path, header=False, task="1", worker="2", label="3")
    assert rows_of(votes) == ROWS
    with pytest.raises(ValueError, match=r"task=….*'1'.*'2'.*'3'"):
        mh.read(path, header=False)
    with pytest.raises(ValueError, match="header=False"):
        mh.read(path)
    gold = put(tmp_path / "gold.csv", "a,no\nb,yes\n")
    assert read_gold(gold, votes, task="1", label="2", header=False)[1].tolist() == ["no", "yes"]
    columns = ["--task", "1", "--worker", "2", "--label", "3", "--truth-task", "1", "--truth-label", "2"]
    options = ["--no-header", "--method", "dawid-skene", "--gold", str(gold)]
    assert main(["aggregate", str(path), *columns, *options]) == 0


# ------------------------------------------------------------------------------------------------ numbers, memory


def test_scores_in_a_csv_file_are_no_classes(tmp_path):
    path = put(tmp_path / "log.csv", "task,worker,label\na,1,3.1\na,2,4\nb,1,?\nb,2,3.2\n")
    message = r"label column 'label' holds numbers with fractions, such as '3.1', '3.2' .* with labels_as_text=True"
    for abstain in (None, "?"):
        with pytest.raises(ValueError, match=message):
            mh.read(path, abstain=abstain)
    assert mh.read(path, labels_as_text=True).classes.tolist() == ["3.1", "3.2", "4", "?"]
    assert main(["aggregate", str(path), "--labels-as-text"]) == 0


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["1", "2"], [1, 2]),
        (["1.0", "2.0"], ["1.0", "2.0"]),
        (["1e3", "2e3"], ["1e3", "2e3"]),
        (["v1.5", "v2.5"], ["v1.5", "v2.5"]),
        (["0.5", "x", "y"], ["0.5", "x", "y"]),
    ],
)
def test_other_text_in_a_csv_file_is_taken_as_it_is(labels, classes, tmp_path):
    lines = "".join(f"a,{place},{label}\n" for place, label in enumerate(labels))
    assert mh.read(put(tmp_path / "log.csv", "task,worker,label\n" + lines)).classes.tolist() == classes


@pytest.mark.parametrize("label", ["2,5", "-.5", "+1.25", "1e-3", "3."])
def test_numbers_in_any_writing_are_known(label, tmp_path):
    path = put(tmp_path / "log.csv", f"task;worker;label\na;1;{label}\na;2;7,5\n")
    with pytest.raises(ValueError, match="fractions"):
        mh.read(path)


def test_scores_in_a_parquet_file_are_no_classes(tmp_path):
    pq.write_table(pa.table({"task": [1, 1], "worker": [1, 2], "label": [0.5, 2.0]}), tmp_path / "log.parquet")
    with pytest.raises(ValueError, match=r"0\.5.*2 distinct.*2 answers"):
        mh.read(tmp_path / "log.parquet")
    assert mh.read(tmp_path / "log.parquet", labels_as_text=True).classes.tolist() == ["0.5", "2"]


def test_integers_of_a_file_can_stay_text(tmp_path):
    path = put(tmp_path / "log.csv", "task,worker,label\n1,1,007\n1,2,7\n")
    assert mh.read(path, labels_as_text=True).classes.tolist() == ["007", "7"]
    assert mh.read(put(path, "task,worker,label\n1,1,8\n1,2,7\n"), labels_as_text=True).classes.tolist() == ["7", "8"]


def test_text_in_parquet_that_is_not_utf8_is_refused_with_column_and_row(tmp_path):
    labels = pa.array([b"b", b"a\xff"]).view(pa.string())
    pq.write_table(pa.table({"task": [1, 2], "worker": [1, 2], "label": labels}), tmp_path / "log.parquet")
    message = r"cannot read '.*log\.parquet': column 'label' holds text that is not valid UTF-8 at row 1 \(b'a\\xff'\)"
    with pytest.raises(mh.errors.FileFormatError, match=message):
        mh.read(tmp_path / "log.parquet")


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_a_file_that_does_not_fit_is_not_called_damaged(name, tmp_path, monkeypatch):
    def full(*_args, **_options):
        raise pa.ArrowMemoryError("malloc of size 17179869184 failed")

    put(tmp_path / "log.csv", CSV)
    put(tmp_path / "log.parquet", parquet_bytes())
    monkeypatch.setattr(pyarrow.csv, "open_csv", full)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", full)
    message = rf"needed columns of '.*{name}' do not fit in memory \(malloc of size 17179869184 failed\); read fewer"
    with pytest.raises(MemoryError, match=message):
        mh.read(tmp_path / name)


def test_reading_stops_before_memory_runs_out(tmp_path, monkeypatch):
    """Arrow would end the process where it cannot allocate."""
    text = "task,worker,label\n" + "b,10,yes\n" * 2_000_000
    path = put(tmp_path / "bomb.csv.gz", gzip.compress(text.encode()))
    free = iter([1 << 40, 1 << 40, 1 << 20])
    monkeypatch.setattr(sources, "free_memory", lambda: next(free))
    monkeypatch.setattr(sources, "_WATCH_FROM", 1 << 22)
    with pytest.raises(MemoryError, match=r"'.*bomb\.csv\.gz'"):
        mh.read(path)
    monkeypatch.setattr(sources, "free_memory", lambda: 1 << 40)
    assert mh.read(path).n_annotations == 2_000_000


class _Slow(io.BytesIO):
    """A file whose third and later reads wait until it is closed, or for 0.1 s; it records a close during a read."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.n_read, self.reading, self.closed_while_read, self.ended = 0, False, False, threading.Event()

    def read(self, size: int | None = -1) -> bytes:
        self.n_read, self.reading = self.n_read + 1, True
        if self.n_read > 2 and threading.current_thread() is not threading.main_thread():
            self.ended.wait(0.1)
        content = super().read(size)
        self.reading = False
        return content

    def close(self) -> None:
        self.closed_while_read |= self.reading
        self.ended.set()
        super().close()


@pytest.mark.parametrize("until", ["columns", "first rows", "an error"])
def test_no_file_is_closed_while_arrow_reads_ahead(tmp_path, monkeypatch, until):
    """Its thread would read on from the file that is opened next, which has the same number."""
    bad = "b,10\n" if until == "an error" else ""
    path = put(tmp_path / "log.csv", "task,worker,label\nb,10,yes\n" + bad + "b,10,yes\n" * 1_000_000)
    source = sources.Source(path, sources.Layout())
    files: list[_Slow] = []

    def slow(source):
        files.append(_Slow(path.read_bytes()))
        return pa.PythonFile(files[-1], "r")

    monkeypatch.setattr(sources.Source, "open", slow)
    names = ["task", "worker", "label"]
    if until == "columns":
        assert column_names(source) == names
    elif until == "first rows":
        rows_of_file = batches(source, names)
        assert next(rows_of_file).num_rows > 0
        rows_of_file.close()
    else:
        with pytest.raises(FileFormatError, match="line 3 has 2 fields"):
            next(batches(source, names))
    assert files[-1].closed
    assert max(file.n_read for file in files) > 2
    assert not any(file.closed_while_read for file in files)


# --------------------------------------------------------------------------------------------- what is not needed


def test_no_command_imports_pandas(tmp_path):
    """It takes longer than all that a command does with a small log."""
    put(tmp_path / "log.csv", CSV)
    put(tmp_path / "log.csv.gz", gzip.compress(CSV.encode()))
    put(tmp_path / "log.parquet", parquet_bytes())
    commands = ["describe log.csv", "describe log.csv.gz", "describe log.parquet", "agreement log.csv"]
    commands += ["aggregate log.csv --workers w.csv", "workers log.parquet", "aggregate log.csv --evaluate log.parquet"]
    code = (
        "import sys, manyhands.cli as cli\n"
        f"for command in {commands}:\n"
        "    code = cli.main(command.split())\n"
        "    assert not code and 'pandas' not in sys.modules, command"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "3 annotations" in done.stdout


def test_a_short_line_does_not_call_the_header_in_question(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("task,worker,label\n1,a\n2,b,x\n")
    with pytest.raises(mh.errors.FileFormatError, match=r"line 2.*2 fields.*3"):
        mh.read(path)
