"""How tests run the command line."""

import csv
import subprocess
import sys

from manyhands.cli import main

#: Seconds after which a process is taken to hang: machines may be slow, and busy.
PATIENCE = 300
#: Environment of processes whose memory is limited: stacks and arenas of threads, one for each core, count as well.
FEW_THREADS = {
    "MALLOC_ARENA_MAX": "2",
    "MANYHANDS_NUM_THREADS": "2",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def words(*arguments):
    """Split arguments as a shell does; no path here holds a space."""
    return " ".join(map(str, arguments)).split()


def run(*arguments):
    """Run a command in this process; it must succeed."""
    assert main(words(*arguments)) == 0


def complaint(capsys, *arguments):
    """Run a command that must fail as on bad input, and return its one line."""
    assert main(words(*arguments)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("manyhands: error: ")
    return err.removeprefix("manyhands: error: ").strip()


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_rows(path, header, *lines):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *lines])


def subprocess_of(*arguments, **settings):
    """Start the program with its output in pipes."""
    command = [sys.executable, "-m", "manyhands", *words(*arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **{**pipes, **settings})
