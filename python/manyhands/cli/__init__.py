"""The command line: ``manyhands COMMAND …``, one module a command.

A command's module has ``add``, which declares its arguments, and ``run``, which does the work and imports
what that needs: ``--help`` must not wait for Arrow. What commands share is in `options` (arguments, checks of
paths), `method_names` (aggregators by name, evaluation) and `console` (tables, JSON, progress, files).

Exit codes: 0, 1 for a limit that does not hold (judges), 2 for input that cannot be used (with one line on stderr), 130
after Ctrl-C, 141 when the reader of the output has closed it, 143 after SIGTERM. Any other exception is a
bug and keeps its traceback.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import textwrap
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, NoReturn

from manyhands._base.atomic import protecting_inputs
from manyhands._start import raise_interrupts
from manyhands.cli import (
    aggregate,
    agreement,
    audit,
    bench,
    compare,
    completion,
    describe,
    desk,
    explain,
    fairness,
    import_,
    judges,
    methods,
    next,
    promise,
    report,
    shards,
    simulate,
    workers,
)
from manyhands.cli.console import complain, one_line, printed_warnings, replace_closed_streams
from manyhands.cli.kinds import as_option
from manyhands.cli.options import Parser
from manyhands.errors import spelling

__all__ = ["main"]

#: All commands, as help lists them.
GROUPS = {
    "answers": (aggregate, explain, report, desk, promise),
    "collecting": (next,),
    "the crowd": (describe, agreement, workers, audit, fairness),
    "LLM judges": (judges,),
    "methods": (methods, compare, bench),
    "logs": (import_, simulate, shards),
    "the shell": (completion,),
}
COMMANDS = tuple(command for group in GROUPS.values() for command in group)

#: What bad input raises. A KeyError or TypeError may still be a bug, and then --traceback shows where.
BAD_INPUT = (ValueError, KeyError, TypeError, OSError, MemoryError, OverflowError)


class Terminated(BaseException):
    """The process received SIGTERM."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; ``--help`` and ``--version`` print and exit.

    Parameters
    ----------
    argv : sequence of str or None, default None
        The arguments, without the program's name; by default those of the process.
    """
    show_traceback = False
    replace_closed_streams()
    try:
        raise_interrupts()
        _tolerate_ascii()
        args = _parser().parse_args(argv)
        show_traceback = args.traceback
        args.json = args.shown == "json"
        with (
            _terminable(),
            protecting_inputs(),
            spelling(as_option),
            _escaping(args),
            printed_warnings() as args.warnings,
        ):
            code = args.run(args)
        sys.stdout.flush()
        return code or 0
    except BrokenPipeError:
        _forget_stdout()
        return 141
    except KeyboardInterrupt:
        complain("interrupted")
        return 130
    except Terminated:
        complain("terminated")
        return 143
    except BAD_INPUT as error:
        if show_traceback:
            raise
        complain(f"error: {one_line(error)}")
        return 2


def _escaping(args: argparse.Namespace) -> AbstractContextManager[None]:
    """Escape formulas in CSV output where that was asked for."""
    from manyhands._base.formulas import escaping_formulas

    return escaping_formulas(args.escape_formulas)


def _parser() -> Parser:
    parser = Parser(
        prog="manyhands",
        usage="manyhands COMMAND [--help] …",
        description="Turn the answers of many imperfect annotators into one trustworthy answer per task.",
        epilog="example:\n  manyhands aggregate log.csv -o labels.csv --workers workers.csv",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    parser.add_argument(
        "--traceback",
        action="store_true",
        help="on bad input, show where the error was raised, for bug reports",
    )
    # Listed by group, which argparse cannot do by itself.
    commands = parser.add_subparsers(metavar="COMMAND", prog="manyhands", required=True, help=argparse.SUPPRESS)
    for title, group in GROUPS.items():
        before = len(commands._choices_actions)
        for command in group:
            command.add(commands)
        added = commands._choices_actions[before:]
        parser.add_argument_group(title, "\n".join(_command_help(each.dest, str(each.help)) for each in added))
    return parser


def _command_help(name: str, about: str) -> str:
    """A command and what it does, as a line of help or several."""
    width = max(40, shutil.get_terminal_size().columns - 4)
    return textwrap.fill(about, width, initial_indent=f"{name:<12}", subsequent_indent=" " * 12)


class _Version(argparse.Action):
    """Print the version, which is looked up only then: that takes longer than all arguments together."""

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        from manyhands import __version__

        print(f"manyhands {__version__}")
        raise SystemExit(0)


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM raise, so that half-written files are deleted; a handler of the caller's own stays in place."""
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL

    def stop(*_: Any) -> NoReturn:
        raise Terminated

    if ours:
        signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _tolerate_ascii() -> None:
    """Names that the terminal's encoding lacks are escaped; they must not end the command."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def _forget_stdout() -> None:
    """Send what is still buffered to nowhere: flushing it at exit would complain again."""
    with suppress(OSError, ValueError):  # of a stdout that is not a real file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
