"""The journal keeps what it acknowledged: after kill -9, on a full disk, cut off, damaged, of another log."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from manyhands.desk import Journal, JournalError
from manyhands.errors import DataWarning, FileFormatError

HEADER = {"log": "a1", "kind": "categorical"}


def decide(task: str) -> dict[str, object]:
    return {"do": "decide", "task": task, "answer": "x"}


def fill(folder: Path, n: int = 3) -> Path:
    with Journal(folder, HEADER) as journal:
        for place in range(n):
            journal.append(decide(f"q{place}"))
    return journal.path


def test_records_are_read_back_with_number_and_time(tmp_path):
    fill(tmp_path / "log.desk")
    with Journal(tmp_path / "log.desk", HEADER) as journal:
        assert [(one["n"], one["task"]) for one in journal.records] == [(1, "q0"), (2, "q1"), (3, "q2")]
        assert all(one["at"].endswith("Z") for one in journal.records)
        assert journal.append(decide("q3"))["n"] == 4


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_line_that_was_cut_off_is_removed_and_work_goes_on(tmp_path, cut):
    path = fill(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    with pytest.warns(DataWarning, match=r"journal\.jsonl"):
        journal = Journal(tmp_path, HEADER)
    assert [one["task"] for one in journal.records] == ["q0", "q1"]
    journal.append(decide("q9"))
    journal.close()
    with Journal(tmp_path, HEADER) as journal:
        assert [one["task"] for one in journal.records] == ["q0", "q1", "q9"]


def test_every_length_of_the_file_gives_a_prefix_of_the_records(tmp_path):
    whole = fill(tmp_path).read_bytes()
    for length in range(len(whole) + 1):
        (tmp_path / "journal.jsonl").write_bytes(whole[:length])
        records = Journal(tmp_path, HEADER, read_only=True).records
        assert len(records) == max(whole[:length].count(b"\n") - 1, 0)


def test_damage_before_the_end_names_its_line(tmp_path):
    path = fill(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"q1", b"q7")  # the checksum differs
    path.write_bytes(b"".join(lines))
    with pytest.raises(FileFormatError, match="line 3"):
        Journal(tmp_path, HEADER)
    assert path.read_bytes() == b"".join(lines)


def test_records_that_are_missing_in_the_middle_are_noticed(tmp_path):
    path = fill(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2] + lines[3:]))
    with pytest.raises(FileFormatError, match="line 3"):
        Journal(tmp_path, HEADER)


def test_the_journal_of_another_log_is_rejected_and_stays_as_it_is(tmp_path):
    path = fill(tmp_path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="another log"):
        Journal(tmp_path, {**HEADER, "log": "b2"})
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b'{"some": "json"}\n', b'{"format":"other","crc":1}\n'])
def test_other_files_are_not_taken_for_journals(tmp_path, content):
    (tmp_path / "journal.jsonl").write_bytes(content + b"more\n")
    with pytest.raises(FileFormatError):
        Journal(tmp_path, HEADER)


def test_two_processes_do_not_write_one_journal(tmp_path):
    with Journal(tmp_path, HEADER) as journal:
        with pytest.raises(BlockingIOError, match="another process"):
            Journal(tmp_path, HEADER)
        journal.append(decide("q1"))
        assert len(Journal(tmp_path, HEADER, read_only=True).records) == 1
    Journal(tmp_path, HEADER).close()


def test_a_folder_that_is_a_file_or_has_no_parent_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="file"):
        Journal(tmp_path / "file", HEADER)
    with pytest.raises(FileNotFoundError, match="missing"):
        Journal(tmp_path / "missing" / "log.desk", HEADER)


@pytest.mark.parametrize("step", ["write", "fsync"])
def test_a_full_disk_leaves_no_part_of_a_record(tmp_path, monkeypatch, step):
    with Journal(tmp_path, HEADER) as journal:
        journal.append(decide("q0"))
        before = journal.path.read_bytes()
        real = getattr(os, step)

        def full(handle: int, *data: bytes) -> int:
            if step == "write":
                real(handle, bytes(data[0])[:10])  # as much as fits
            monkeypatch.setattr(os, step, real)
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, step, full)
        with pytest.raises(JournalError, match="No space left") as failed:
            journal.append(decide("q1"))
        assert failed.value.errno == errno.ENOSPC
        assert journal.path.read_bytes() == before
        assert len(journal.records) == 1
        assert journal.append(decide("q2"))["n"] == 2
    assert [one["task"] for one in Journal(tmp_path, HEADER, read_only=True).records] == ["q0", "q2"]


_FULL = """
import resource, signal, sys
from manyhands.desk.journal import Journal, JournalError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with Journal(sys.argv[1], {"log": "a1", "kind": "categorical"}) as journal:
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))
    n_failed = 0
    for place in range(100):
        try:
            journal.append({"do": "decide", "task": f"q{place}", "answer": "x" * 40})
        except JournalError:
            n_failed += 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    journal.append({"do": "decide", "task": "last", "answer": "x"})
    print(len(journal.records), n_failed)
"""


@pytest.mark.skipif(os.name == "nt", reason="there are no limits of files on Windows")
def test_a_file_that_cannot_grow_keeps_what_was_acknowledged_and_goes_on(tmp_path):
    output = subprocess.run([sys.executable, "-c", _FULL, str(tmp_path)], capture_output=True, text=True, check=True)
    n_records, n_failed = map(int, output.stdout.split())
    assert n_records + n_failed == 101
    assert n_records > 5
    assert n_failed > 50
    records = Journal(tmp_path, HEADER, read_only=True).records
    assert [one["task"] for one in records] == [*(f"q{place}" for place in range(n_records - 1)), "last"]


def test_after_a_failure_that_cannot_be_taken_back_nothing_more_is_written(tmp_path, monkeypatch):
    with Journal(tmp_path, HEADER) as journal:
        journal.append(decide("q0"))

        def failing(*_: object) -> int:
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", failing)
            with pytest.raises(JournalError, match="Input/output"):
                journal.append(decide("q1"))
        with pytest.raises(JournalError, match="start the desk again"):
            journal.append(decide("q2"))


def test_unknown_actions_and_closed_journals_are_rejected(tmp_path):
    journal = Journal(tmp_path, HEADER)
    with pytest.raises(ValueError, match="'guess'"):
        journal.append({"do": "guess"})
    journal.close()
    with pytest.raises(JournalError, match="closed"):
        journal.append(decide("q0"))


_WRITER = """
import sys
from manyhands.desk.journal import Journal
with Journal(sys.argv[1], {"log": "a1", "kind": "categorical"}) as journal:
    print("open", flush=True)
    for place in range(100000):
        journal.append({"do": "decide", "task": f"q{place}", "answer": "x" * (place % 50)})
        print(place, flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="there is no kill -9 on Windows")
@pytest.mark.parametrize("lines", [1, 60])
def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path, lines):
    with subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        lines_out = [writer.stdout.readline() for _ in range(lines + 1)]
        writer.send_signal(signal.SIGKILL)
        lines_out += writer.stdout.readlines()
    acknowledged = [line.strip() for line in lines_out if line.endswith("\n")][1:]
    records = Journal(tmp_path, HEADER, read_only=True).records
    assert len(records) >= len(acknowledged) >= lines
    assert [one["task"] for one in records] == [f"q{place}" for place in range(len(records))]
