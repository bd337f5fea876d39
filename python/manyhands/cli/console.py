"""What the commands print and write: tables, JSON, warnings, progress, files."""

from __future__ import annotations

import json
import math
import re
import sys
import time
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

from manyhands.cli.options import STDOUT

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console
    from rich.progress import Progress

#: Wide enough for any table, where there is no terminal to fit into.
_PIPE_WIDTH = 200

# --------------------------------------------------------------------------------------------------- messages


def complain(message: str) -> None:
    """Print one line on stderr."""
    print(f"manyhands: {printable(message)}", file=sys.stderr, flush=True)


def printable(value: object) -> str:
    """Write a value on one line, escaping what would move the cursor or colour the terminal."""
    text = str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def one_line(error: BaseException) -> str:
    """Say what an exception says, in the words of the command line."""
    # A KeyError prints its message in quotes.
    said = error.args[0] if isinstance(error, KeyError) and error.args else error
    text = " ".join(str(said).split()) or type(error).__name__
    if isinstance(error, MemoryError):
        text = f"out of memory: {text}"
    return _as_options(text)


def _as_options(text: str) -> str:
    """Write the parameters that a message of the library recommends as options: task=… as --task."""
    text = re.sub(r"\b(task|worker|label|weight)=…", r"--\1", text)
    text = re.sub(r"\b(repeats|missing)='(\w+)'", r"--\1 \2", text)
    return re.sub(r"\b(accelerate)=True", r"--\1", text)


@contextmanager
def printed_warnings() -> Iterator[list[str]]:
    """Print warnings as one line each, and collect them."""
    found: list[str] = []

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        found.append(_as_options(" ".join(str(message).split())))
        complain(f"warning: {found[-1]}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield found


# ---------------------------------------------------------------------------------------------------- results


def print_json(args: Namespace, content: dict[str, Any]) -> None:
    """Print one JSON object: what was found, and the warnings on the way to it."""
    from manyhands import __version__

    whole = {"manyhands": __version__, **content, "warnings": list(args.warnings)}
    json.dump(_plain(whole), sys.stdout, ensure_ascii=False, allow_nan=False, default=str)
    sys.stdout.write("\n")


def _plain(value: Any) -> Any:
    """Replace numbers that JSON does not have by null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def console(*, stderr: bool = False) -> Console:
    """Return a rich console that takes text as it is, and does not break lines in a pipe."""
    from rich.console import Console

    file = sys.stderr if stderr else sys.stdout
    width = None if file.isatty() else _PIPE_WIDTH
    return Console(file=file, width=width, markup=False, emoji=False, highlight=False)


def print_facts(facts: dict[str, str], *, stderr: bool = False) -> None:
    """Print a short list of names and what there is to say of each; what is empty is left out."""
    from rich.text import Text

    width = max(map(len, facts))
    for name, fact in facts.items():
        if fact:
            line = Text.assemble((name.ljust(width), "bold"), "  ", printable(fact))
            console(stderr=stderr).print(line, soft_wrap=True)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, title: str | None = None) -> None:
    """Print a table; all columns but the first are aligned to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", title_style="bold")
    for i, name in enumerate(columns):
        table.add_column(name, justify="right" if i else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    console().print(table)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.3f}"
    return f"{value:,}" if type(value) is int else printable(value)


def number(n: int, one: str, many: str | None = None) -> str:
    """Write a count of things."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


# ------------------------------------------------------------------------------------------------------ files


def write(table: pa.Table, path: str) -> None:
    """Write an Arrow table: to stdout as CSV, or to a file that appears only when it is complete."""
    from manyhands.io import write_table
    from manyhands.persist import atomic_write

    if path == STDOUT:
        _write_stdout(table)
        return
    with atomic_write(path) as part:
        write_table(table, part)


def _write_stdout(table: pa.Table) -> None:
    import pyarrow.csv

    sys.stdout.flush()
    pyarrow.csv.write_csv(table, sys.stdout.buffer, pyarrow.csv.WriteOptions(quoting_style="needed"))
    sys.stdout.buffer.flush()


# --------------------------------------------------------------------------------------------------- progress


class Stages:
    """The stages of a command: takes the time of each, and shows the one at work if stderr is a terminal.

    Attributes
    ----------
    seconds : dict
        Time spent in each stage, in the order in which they began.
    """

    def __init__(self, args: Namespace) -> None:
        self.seconds: dict[str, float] = {}
        self._bar: Progress | None = _bar() if sys.stderr.isatty() and not args.quiet else None

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None  # further stages are timed only

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Callable[[int, float], None] | None]:
        """Take the time of a stage; yields a function of (steps done, objective), None without a bar."""
        start = time.perf_counter()
        try:
            if self._bar is None:
                yield None
            else:
                yield from _shown(self._bar, name, total)
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def __str__(self) -> str:
        return ", ".join(f"{name} {duration(seconds)}" for name, seconds in self.seconds.items())


def _bar() -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
    )
    return Progress(*columns, console=console(stderr=True), redirect_stdout=False)


def _shown(bar: Progress, name: str, total: int | None) -> Iterator[Callable[[int, float], None]]:
    task = bar.add_task(name, total=total, note="")

    def advance(steps: int, objective: float) -> None:
        goal = "" if math.isnan(objective) else f", objective {objective:,.1f}"
        bar.update(task, completed=steps, note=f"pass {steps:,}{goal}")

    yield advance
    # Fits usually stop before their limit; what is done shows as done all the same.
    bar.update(task, completed=1, total=1, note="")


def duration(seconds: float) -> str:
    """Write a time with a unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds < 1000 else f"{seconds:,.0f} s"
    return f"{seconds / 1e-9:.3g} ns"
