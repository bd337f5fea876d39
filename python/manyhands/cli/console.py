"""What the commands print and write: tables, JSON, warnings, progress, files."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import sys
import textwrap
import time
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TextIO

from manyhands.cli.options import STDOUT

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console
    from rich.progress import Progress

#: Wide enough for any table, where there is neither a terminal to fit into nor the variable COLUMNS.
_PIPE_WIDTH = 200

#: Narrower lines would hold nothing of a table.
_LEAST_WIDTH = 20

#: Rows of a long table that are shown on a screen.
SHOWN = 30

#: Width that a column takes in addition to its text; the table takes one more.
_PADDING = 3

# ---------------------------------------------------------------------------------------------------- streams


class ClosedStdout(io.TextIOBase):
    """Stands for a stdout that was closed before the program began: results cannot be written to it."""

    def write(self, text: str) -> NoReturn:
        """Raise, as a write to the closed file would."""
        raise OSError(errno.EBADF, "stdout is closed, so that there is nowhere to write to; name a file with -o")

    @property
    def buffer(self) -> NoReturn:
        """Raise for bytes as well."""
        self.write("")


class ClosedStdin(io.TextIOBase):
    """Stands for a stdin that was closed before the program began: nothing can be read from it."""

    @property
    def buffer(self) -> NoReturn:
        """Raise, as a read of the closed file would."""
        raise OSError(errno.EBADF, "stdin is closed, so that there is nothing to read; name a file")


def replace_closed_streams() -> None:
    """Put something in the place of standard streams that were closed (``2>&-``), which Python leaves as None.

    Output to a closed stderr is lost, as requested. Their numbers are taken by the null device: the
    next file to be opened would get them otherwise, and with it whatever is written to stdout or stderr.
    """
    if None in (sys.stdin, sys.stdout, sys.stderr):
        for number in range(3):
            try:
                os.fstat(number)
            except OSError:
                os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = ClosedStdin()
    if sys.stdout is None:
        sys.stdout = ClosedStdout()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  as long as the process


# --------------------------------------------------------------------------------------------------- messages


def complain(message: str) -> None:
    """Print one line on stderr."""
    print(f"manyhands: {printable(message)}", file=sys.stderr, flush=True)


def printable(value: object) -> str:
    """Write a value on one line, escaping what would move the cursor or color the terminal."""
    text = str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def one_line(error: BaseException) -> str:
    """Return the message of an exception."""
    # A KeyError prints its message in quotes.
    message = error.args[0] if isinstance(error, KeyError) and error.args else error
    text = " ".join(str(message).split()) or type(error).__name__
    if isinstance(error, MemoryError):
        text = f"out of memory: {text}"
    return text


@contextmanager
def printed_warnings() -> Iterator[list[str]]:
    """Print warnings as one line each, and collect them; one that is repeated in a run is printed once."""
    messages: list[str] = []

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        text = " ".join(str(message).split())
        if text not in messages:
            messages.append(text)
            complain(f"warning: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield messages


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


def print_rows(args: Namespace, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows as a table, or as CSV with all digits where that was asked for."""
    if args.shown != "csv":
        print_table(columns, rows)
        return
    import csv

    from manyhands._base.formulas import escaped_cell

    writer = csv.writer(sys.stdout, lineterminator="\n")
    if columns:  # further rows have no head
        writer.writerow(columns)
    writer.writerows([escaped_cell(_plain(value)) for value in row] for row in rows)
    sys.stdout.flush()


def print_content(args: Namespace, content: dict[str, Any]) -> None:
    """Print named facts as rows of CSV; the parts of a fact have its name before theirs."""
    print_rows(args, ("name", "value"), list(_flat("", content)))


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(f"{name}.{key}" if name else str(key), item)
    else:
        yield name, "; ".join(map(str, value)) if isinstance(value, list | tuple) else value


def print_frame(args: Namespace, table: pa.Table) -> int:
    """Print an Arrow table: as CSV, or its first rows where a table for people was asked for; returns how many."""
    if args.shown != "table":
        write(table, STDOUT)
        return int(table.num_rows)
    head = table.slice(0, SHOWN)
    print_table(head.column_names, list(zip(*head.to_pydict().values(), strict=True)))
    return int(head.num_rows)


def print_summary(args: Namespace, facts: dict[str, str], *, stderr: bool = False) -> None:
    """Print facts about a run, unless it is to be quiet; rows of CSV on stdout stay alone there."""
    if not args.quiet:
        print_facts(facts, stderr=stderr or args.shown == "csv")


def console(*, stderr: bool = False) -> Console:
    """Return a rich console that takes text as it is, and does not break lines in a pipe."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            # Rich would exit by itself, with the code of a failure.
            raise BrokenPipeError

    file = sys.stderr if stderr else sys.stdout
    columns = os.environ.get("COLUMNS", "")
    width = None if file.isatty() else _PIPE_WIDTH
    if columns.isdecimal() and int(columns) > 0:
        width = max(int(columns), _LEAST_WIDTH)
    return Plain(file=file, width=width, markup=False, emoji=False, highlight=False)


def print_facts(facts: dict[str, str], *, stderr: bool = False) -> None:
    """Print a short list of names and what there is to say of each; what is empty is left out."""
    from rich.text import Text

    if not stderr and isinstance(sys.stdout, ClosedStdout):
        return  # a summary is not a result
    width = max(map(len, facts))
    for name, fact in facts.items():
        if fact:
            line = Text.assemble((name.ljust(width), "bold"), "  ", printable(fact))
            console(stderr=stderr).print(line, soft_wrap=True)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, title: str | None = None) -> None:
    """Print a table; all columns but the first are aligned to the right.

    A heading takes several lines where it is longer than the cells below it. Columns that do not fit next to each
    other are printed below each other, the first one again with each part.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    cells = [[_cell(value) for value in column] for column in zip(*rows, strict=True)] or [[] for _ in columns]
    heads = [_heading(name, below) for name, below in zip(columns, cells, strict=True)]
    out = console()
    for part in _parts([_width(head, below) for head, below in zip(heads, cells, strict=True)], out.width - 1):
        table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", title_style="bold")
        for at in part:
            table.add_column(heads[at], justify="right" if at else "left", overflow="fold")
        for row in zip(*(cells[at] for at in part), strict=True):
            table.add_row(*row)
        out.print(table)


class Growing:
    """A table whose rows are printed as they come, with as many columns as fit; `finish` prints the others below.

    Parameters
    ----------
    columns : sequence of str
        The headings.
    likes : sequence of sequences
        For each column what the widest of its cells may look like: rows that are not there yet must fit below it.
    """

    def __init__(self, columns: Sequence[str], likes: Sequence[Sequence[Any]]) -> None:
        self._columns = columns
        self._rows: list[Sequence[Any]] = []
        below = [[_cell(value) for value in column] for column in likes]
        self._heads = [_heading(name, cells) for name, cells in zip(columns, below, strict=True)]
        widths = [_width(head, cells) for head, cells in zip(self._heads, below, strict=True)]
        self._parts = _parts(widths, console().width - 1)
        self._widths = [width - _PADDING for width in widths]

    def row(self, row: Sequence[Any]) -> None:
        """Print a row, the first one with the headings above it."""
        if not self._rows:
            heads = [self._heads[at].split("\n") for at in self._parts[0]]
            print()
            for line in zip_longest(*heads, fillvalue=""):
                self._line(line)
            print(" " + "─" * sum(self._widths[at] + _PADDING for at in self._parts[0]))
        self._rows.append(row)
        self._line([_cell(row[at]) for at in self._parts[0]])

    def _line(self, cells: Sequence[str]) -> None:
        columns = zip(cells, self._parts[0], strict=True)
        texts = (_pad(cell, self._widths[at], to_the_right=at > 0) for cell, at in columns)
        print(("  " + (" " * _PADDING).join(texts)).rstrip(), flush=True)

    def finish(self) -> None:
        """Print the columns that did not fit."""
        for part in self._parts[1:]:
            print_table([self._columns[at] for at in part], [[row[at] for at in part] for row in self._rows])


def _pad(cell: str, width: int, *, to_the_right: bool) -> str:
    from rich.cells import cell_len

    room = " " * max(0, width - cell_len(cell))
    return room + cell if to_the_right else cell + room


def _heading(name: str, below: Sequence[str]) -> str:
    width = max([len(word) for word in name.split()] + [len(text) for text in below])
    return "\n".join(textwrap.wrap(name, width))


def _width(head: str, below: Sequence[str]) -> int:
    from rich.cells import cell_len

    return max(cell_len(line) for line in [*head.split("\n"), *below]) + _PADDING


def _parts(widths: Sequence[int], most: int) -> list[list[int]]:
    """Divide columns into runs that fit a line, the first column in each of them."""
    parts, room = [[0]], most - widths[0]
    for at, width in enumerate(widths[1:], 1):
        if width > room and len(parts[-1]) > 1:
            parts.append([0])
            room = most - widths[0]
        parts[-1].append(at)
        room -= width
    return parts


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
    from manyhands._base.write import write_table

    if path == STDOUT:
        _write_stdout(table)
    else:
        write_table(table, path)


def write_parts(tables: Iterable[pa.Table], path: str) -> None:
    """Write Arrow tables of the same columns one after the other, to a file that appears only when it is complete."""
    from manyhands._base.write import write_frames

    write_frames(tables, path)


def _write_stdout(table: pa.Table) -> None:
    import pyarrow.csv

    from manyhands._base.arrow import flat
    from manyhands._base.formulas import escape_formulas

    sys.stdout.flush()
    pyarrow.csv.write_csv(
        escape_formulas(flat(table)), sys.stdout.buffer, pyarrow.csv.WriteOptions(quoting_style="needed")
    )
    sys.stdout.buffer.flush()


# --------------------------------------------------------------------------------------------------- progress


class Stages:
    """The stages of a command: takes the time of each, and shows the one at work if stderr is a terminal.

    Attributes
    ----------
    seconds : dict
        Time spent in each stage, in the order in which they began.
    """

    def __init__(self, args: Namespace, *, transient: bool = False) -> None:
        self.seconds: dict[str, float] = {}
        self._bar: Progress | None = _bar(transient=transient) if sys.stderr.isatty() and not args.quiet else None

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
                yield from _progress_bar(self._bar, name, total)
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def aside(self, work: Callable[[], None]) -> None:
        """Do something that prints while a transient bar is taken away; a new one follows, of later stages."""
        if self._bar is not None:
            self._bar.stop()
        work()
        if self._bar is not None:
            self._bar = _bar(transient=True)  # the old one would go up and erase what was printed
            self._bar.start()

    def __str__(self) -> str:
        return ", ".join(f"{name} {duration(seconds)}" for name, seconds in self.seconds.items())


def _bar(*, transient: bool) -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    return Progress(*columns, console=console(stderr=True), redirect_stdout=False, transient=transient)


def _progress_bar(bar: Progress, name: str, total: int | None) -> Iterator[Callable[[int, float], None]]:
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
