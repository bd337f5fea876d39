"""How the command line fails: bad input, closed pipes, signals."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pyarrow.parquet as pq
import pytest
from commands import PATIENCE, complaint, rows, run, subprocess_of, words, write_rows

import manyhands as mh
from manyhands import _start
from manyhands._base.write import write_table
from manyhands.categorical.simulate import simulate
from manyhands.cli import main
from manyhands.io import Log

# -------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("", "required: COMMAND (see manyhands --help)"),
        ("magic", "'magic'"),
        ("agregate log.csv", "did you mean 'aggregate'?"),
        ("aggregate", "required: LOG (see manyhands aggregate --help)"),
        ("aggregate absent.csv", "there is no file 'absent.csv'"),
        ("aggregate absent*.csv", "no file matches 'absent*.csv'"),
        ("aggregate .", "holds files of several formats"),
        ("aggregate log.csv --evaluate absent.csv", "there is no file 'absent.csv'"),
        ("aggregate log.csv --gold absent.csv", "there is no file 'absent.csv'"),
        (
            "aggregate log.csv --task thing",
            "no task column 'thing'; the columns are 'task', 'worker', 'label'",
        ),
        ("aggregate log.csv --columns weight=sure", "no weight column 'sure'"),
        ("aggregate log.csv --columns wieght=sure", "'wieght' (did you mean 'weight'?)"),
        ("aggregate log.csv --columns sure", "'sure'"),
        ("aggregate log.csv --columns weight=", "'weight='"),
        ("aggregate log.csv --columns weight=a,weight=b", "'weight' is named twice"),
        ("aggregate log.csv --task a --columns task=b", "'task' is named twice"),
        ("aggregate log.csv --columns worker=wroker", "did you mean 'worker'?"),
        ("aggregate log.csv --kind numreic", "did you mean 'numeric'?"),
        ("aggregate log.csv --method magic", "'magic'"),
        ("aggregate log.csv --method dawid_skeen", "did you mean 'dawid-skene'?"),
        ("aggregate log.csv --meth majority", "--meth majority (did you mean '--method'?)"),
        ("aggregate log.csv --max-iter 5", "--set max_iter=VALUE"),
        ("aggregate log.csv --weight w", "--columns weight=COLUMN"),
        ("aggregate log.csv --set max_iter=0", "max_iter must be at least 1, not 0"),
        ("aggregate log.csv --set max_iter=1.5", "max_iter must be a whole number, not 1.5"),
        ("aggregate log.csv --set tol=-1", "-1"),
        ("aggregate log.csv --set max_itr=5", "'max_itr' (did you mean 'max_iter'?)"),
        ("aggregate log.csv --set max_iter", "'max_iter'"),
        ("aggregate log.csv --set tol=1 --set tol=2", "--set tol is given twice"),
        ("aggregate log.csv --set gold=x", "--gold FILE"),
        ("aggregate log.csv --method one-coin --set model=full", "model='one-coin'"),
        ("aggregate log.csv --set tol=nan", "tol must be a finite number"),
        ("aggregate log.csv --method kos --set seed=-1", "-1"),
        ("aggregate log.csv --threads 1000000", "--threads: must be at most"),
        ("aggregate log.csv --method majority --set restarts=2", "majority has no parameter 'restarts'"),
        ("aggregate log.csv -o labels.txt.doc", "'labels.txt.doc'"),
        ("aggregate log.csv -o absent/labels.csv", "there is no folder 'absent'"),
        ("aggregate log.csv --save absent/m.mh", "there is no folder 'absent'"),
        ("aggregate log.csv --workers .", "kind of file"),
        ("aggregate log.csv -o log.csv", "it is read in the same run"),
        ("aggregate log.csv -o l.csv --workers l.csv", "it is written in the same run"),
        ("report log.csv -o log.csv", "it is read in the same run"),
        ("aggregate log.csv -o - --json", "cannot both go to stdout"),
        ("agreement log.csv --by-class - --by-task -", "only one thing can go to stdout"),
        (
            "aggregate log.csv --evaluate odd.csv --truth-task id --truth-label id",
            "cannot be both task and label; name another with --truth-label",
        ),
        ("aggregate log.csv --columns weight=label", "cannot be both label and weight"),
        ("aggregate log.csv --columns confidence=task", "cannot be both task and confidence"),
        ("aggregate log.csv --evaluate odd.csv", "name it with --truth-task; the columns are 'id', 'b'"),
        ("aggregate odd.csv", "odd.csv: no column has a well-known name for the worker: name it with --worker"),
        ("aggregate empty.csv", "'empty.csv': Empty CSV file"),
        ("aggregate bare.csv", "there are no annotations"),
        ("aggregate broken.parquet", "cannot read 'broken.parquet'"),
        ("describe log.txt.doc", "there is no file"),
        ("describe odd.doc", "'odd.doc'"),
        ("workers log.csv --worst 2 --best 2", "not allowed with"),
        ("workers log.csv --worst 0", "--worst: must be at least 1"),
        ("simulate --tasks 5 --workers 5 --classes 2 --crowd magic", "not 'magic'"),
        (
            "simulate --tasks 5 --workers 5 --classes 2 --crowd a=b",
            "must be a kind, or kinds with their shares",
        ),
        ("simulate --tasks 5 --workers 5 --classes 2 --set skill", "must be NAME=VALUE"),
        ("simulate --tasks 5 --workers 5 --classes 2 --prior 1,x", "must be numbers"),
        ("simulate --tasks 5 --workers 5 --classes 2 --labels-per-task 6", "6"),
        ("simulate --tasks 5 --workers 5 --classes 2 --json", "cannot both go to stdout"),
    ],
)
def test_bad_input_is_one_line_and_code_2(arguments, said, log, capsys):
    (log / "odd.csv").write_text("id,b\n1,2\n")
    (log / "odd.doc").write_text("id,b\n1,2\n")
    (log / "empty.csv").write_text("")
    (log / "bare.csv").write_text("task,worker,label\n")
    (log / "broken.parquet").write_bytes((log / "log.parquet").read_bytes()[:-20])
    before = sorted(log.iterdir())
    assert said in complaint(capsys, arguments)
    assert sorted(log.iterdir()) == before


def test_paths_are_checked_before_the_log_is_read(log, capsys, monkeypatch):
    monkeypatch.setattr(mh, "read", lambda *_, **__: pytest.fail("read too early"))
    complaint(capsys, "aggregate log.csv -o absent/l.csv")
    complaint(capsys, "aggregate log.csv --method majority --set restarts=1")


def test_names_cannot_steer_the_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_rows("log.csv", ("task", "worker", "label"), (1, "[red]ev\x1b[31ml\n", "x"), (1, "b", "y"))
    run("workers log.csv")
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert r"[red]ev\x1b[31ml\n" in text


def test_bugs_keep_their_traceback(log, monkeypatch, capsys):
    def fail(*_, **__):
        raise RuntimeError("a bug")

    with pytest.raises(ValueError, match="worker"):
        main(words("--traceback aggregate truth.csv"))
    monkeypatch.setattr(Log, "read", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        main(words("describe log.csv"))


def test_output_is_whole_or_absent(log, monkeypatch, capsys):
    (log / "labels.csv").write_text("old")

    def fail(path, schema):
        path.write_text("half")
        raise OSError("no space left on device")

    monkeypatch.setattr("manyhands._base.write._writer", fail)
    before = sorted(log.iterdir())
    assert complaint(capsys, "aggregate log.csv -o labels.csv") == "no space left on device"
    assert (log / "labels.csv").read_text() == "old"
    assert sorted(log.iterdir()) == before


# -------------------------------------------------------------------------------------------------- processes


def test_no_progress_bar_in_a_pipe(log):
    process = subprocess_of("aggregate log.csv -o l.csv", env={**os.environ, "FORCE_COLOR": "1"})
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert err == ""
    assert "300 tasks" in out
    process = subprocess_of("aggregate log.csv --json")
    out, err = process.communicate(timeout=PATIENCE)
    assert len(json.loads(out)["labels"]) == 300
    assert err == ""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pseudo-terminals")
def test_progress_bar_on_a_terminal(log):
    import pty

    master, slave = pty.openpty()
    environ = {**os.environ, "TERM": "xterm-256color"}
    process = subprocess_of("aggregate log.csv -o l.csv", stderr=slave, env=environ)
    os.close(slave)
    shown = b""
    with suppress(OSError):  # what Linux says at the end
        while chunk := os.read(master, 1 << 16):
            shown += chunk
    os.close(master)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert b"fitting" in shown
    assert "━".encode() in shown
    assert "━" not in out


def test_bad_input_of_a_process(log):
    process = subprocess_of("aggregate absent.csv")
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (2, "", "manyhands: error: there is no file 'absent.csv'\n")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such pipes")
def test_reader_that_goes_away(log):
    with subprocess_of("simulate --tasks 200000 --workers 5 --classes 2 -q") as process:
        assert process.stdout.readline() == '"task","worker","label"\n'
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=PATIENCE) == 141


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such pipes")
def test_reader_of_a_table_that_goes_away(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_table(simulate(6000, 3000, 2, labels_per_task=3, seed=1).log.to_frame(), "log.csv")
    with subprocess_of("workers log.csv --method majority --best 3000") as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=PATIENCE) == 141


def closing(number):
    """Settings of a process one of whose standard streams is closed, not merely sent elsewhere."""
    return {("stdin", "stdout", "stderr")[number]: None, "preexec_fn": lambda: os.close(number)}


@pytest.mark.skipif(os.name == "nt", reason="Windows closes no streams of a child")
@pytest.mark.parametrize("number", [0, 2])
def test_closed_streams_that_nothing_depends_on_do_no_harm(number, log):
    process = subprocess_of("describe log.csv -q", **closing(number))
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert out == f"{mh.read('log.csv').describe()}\n"
    process = subprocess_of("aggregate log.csv -o labels.csv", **closing(number))
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    run("aggregate log.csv -o again.csv -q")
    # Nothing that was said went into the file, which might have got the stream's number.
    assert (log / "labels.csv").read_bytes() == (log / "again.csv").read_bytes()
    process = subprocess_of("aggregate absent.csv", **closing(number))
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 2


@pytest.mark.skipif(os.name == "nt", reason="Windows closes no streams of a child")
def test_closed_stdout_is_no_place_for_results(log):
    for command in ("describe log.csv", "aggregate log.csv", "workers log.csv", "describe log.csv --json"):
        process = subprocess_of(command, **closing(1))
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 2
        assert err.splitlines()[-1].startswith("manyhands: error: ")
        assert "stdout is closed" in err
        assert "Traceback" not in err
    process = subprocess_of("aggregate log.csv -o labels.csv", **closing(1))
    _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")
    assert len(rows("labels.csv")) == 300


def announcing(place):
    """Return a program that is the command line, but prints a line when it comes to a place in it."""
    return f"""if True:
        import signal, sys, time, manyhands as mh, manyhands._base.write
        from manyhands.cli import main
        fit = mh.Consensus._fit
        def fitting(*arguments):
            print("there", flush=True)
            return fit(*arguments)
        def writing(path, schema):
            path.write_text("half")
            print("there", flush=True)
            time.sleep({PATIENCE})
        {place}
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.exit(main(sys.argv[1:]))
    """


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no signals")
@pytest.mark.parametrize(("number", "code", "said"), [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated")])
@pytest.mark.parametrize("place", ["mh.Consensus._fit = fitting", "mh._base.write._writer = writing"])
def test_signals_leave_nothing_behind(log, place, number, code, said):
    endless = "--set tol=0 --set max_iter=1000000000" if "fit" in place else ""
    # A parent in the background may have SIGINT ignored, and children inherit that.
    command = [sys.executable, "-c", announcing(place), *words("aggregate log.csv -o labels.csv", endless)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    before = sorted(log.iterdir())
    with subprocess.Popen(command, **pipes) as process:
        try:
            assert process.stdout.readline() == "there\n"
            process.send_signal(getattr(signal, number))
            _, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == code
    assert err == f"manyhands: {said}\n"
    assert sorted(log.iterdir()) == before


def test_a_handler_of_the_callers_own_stays(log):
    def own(*_):
        pass

    before = signal.signal(signal.SIGTERM, own)
    try:
        run("describe log.csv -q")
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)
    run("describe log.csv -q")
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("columns", ["0", "1", "-5", "x"])
def test_odd_widths_of_a_terminal_hide_nothing(log, monkeypatch, capsys, columns):
    monkeypatch.setenv("COLUMNS", columns)
    run("workers log.csv -q")
    out = capsys.readouterr().out
    assert "worker" in out
    assert len(out.splitlines()) > len(mh.read("log.csv").workers)


@pytest.mark.skipif(os.name == "nt", reason="Windows closes no streams of a child")
def test_a_closed_stdin_is_named(log):
    process = subprocess_of("aggregate - -o labels.csv", **closing(0))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "stdin is closed" in err
    assert len(err.splitlines()) == 1


def test_formulas_in_csv_are_escaped_where_that_is_asked_for(log, capsys):
    names = ["=1+1", "+a", "-b", "@c", "\td", "\re", "-1", "plain", "'q"]
    rows_ = "".join(f'{task},"{name}",{label}\n' for task, label in ((1, "x"), (2, "=y")) for name in names)
    (log / "odd.csv").write_bytes(("task,worker,label\n" + rows_).encode())
    run("aggregate odd.csv -o labels.csv --workers workers.csv -q")
    assert {row["worker"] for row in rows("workers.csv")} == set(names)
    run("aggregate odd.csv -o labels.csv --workers workers.csv -q --escape-formulas")
    escaped = {name if name in ("plain", "'q") else f"'{name}" for name in names}
    assert {row["worker"] for row in rows("workers.csv")} == escaped
    assert [row["label"] for row in rows("labels.csv")] == ["x", "'=y"]
    capsys.readouterr()
    run("aggregate odd.csv -q --escape-formulas")
    assert "'=y" in capsys.readouterr().out
    run("workers odd.csv -q --format csv --escape-formulas")
    assert "'@c" in capsys.readouterr().out
    run("aggregate odd.csv -o labels.parquet -q --escape-formulas")
    assert pq.read_table("labels.parquet")["label"].to_pylist() == ["x", "=y"]


def test_every_method_of_the_help_can_be_chosen():
    from manyhands._base.table import Records
    from manyhands.cli.method_names import BY_KIND

    assert set(BY_KIND) <= set(Records._kinds)
    assert "linked-dawid-skene" not in [name for methods in BY_KIND.values() for name in methods]


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no signals")
@pytest.mark.parametrize("start", [["manyhands"], ["-m"]])
def test_an_interrupt_while_modules_are_imported_leaves_no_traceback(start):
    code = f"""if True:
        import importlib.abc, os, signal, sys
        class Interrupted(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name == "manyhands.categorical":
                    os.kill(os.getpid(), signal.SIGINT)
        sys.meta_path.insert(0, Interrupted())
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = {start!r}
        sys.orig_argv = ["python", "-m", "manyhands"]
        import manyhands
    """
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert found.returncode == -signal.SIGINT
    assert found.stderr == ""
    # A program that imports the library keeps its handler.
    found = subprocess.run(
        [sys.executable, "-c", code.replace(repr(start), "['other.py']")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "KeyboardInterrupt" in found.stderr


@pytest.mark.parametrize(
    ("argv", "is_command"),
    [
        (["/usr/bin/manyhands", "aggregate"], True),
        (["manyhands.exe"], True),
        (["/usr/bin/pytest", "manyhands"], False),
        ([], False),
    ],
)
def test_the_program_is_known_by_its_name(argv, is_command, monkeypatch):
    monkeypatch.setattr(sys, "argv", argv)
    assert _start._is_command() is is_command


def test_interrupts_that_others_handle_are_left_alone():
    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        assert _start._is_ours()
        with ThreadPoolExecutor(1) as pool:
            assert not pool.submit(_start._is_ours).result()
        signal.signal(signal.SIGINT, lambda *_: None)
        assert not _start._is_ours()
    finally:
        signal.signal(signal.SIGINT, before)
