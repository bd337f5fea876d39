"""The command line: ``manyhands COMMAND …``, one module a command.

A command's module has ``add``, which declares its arguments, and ``run``, which does the work and imports
what that needs: ``--help`` must not wait for Arrow. What commands share is in `options` (arguments, checks of
paths), `methods` (aggregators by name, evaluation) and `console` (tables, JSON, progress, files).

Exit codes: 0, 2 for input that cannot be used (with one line on stderr), 130 after Ctrl-C, 141 when whoever
reads the output has gone away. Any other exception is a bug and keeps its traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from manyhands import __version__
from manyhands.cli import aggregate, agreement, bench, compare, describe, simulate, workers
from manyhands.cli.console import complain, one_line, printed_warnings
from manyhands.cli.options import Parser

__all__ = ["main"]

COMMANDS = (aggregate, workers, describe, agreement, compare, simulate, bench)

#: What bad input raises. A KeyError or TypeError may still be a bug, and then --traceback tells where.
BAD_INPUT = (ValueError, KeyError, TypeError, OSError, MemoryError, OverflowError)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; ``--help`` and ``--version`` print and exit.

    Parameters
    ----------
    argv
        The arguments, without the program's name; by default those of the process.
    """
    wanted = False
    try:
        _tolerate_ascii()
        args = _parser().parse_args(argv)
        wanted = args.traceback
        with printed_warnings() as args.warnings:
            args.run(args)
        sys.stdout.flush()
        return 0
    except BrokenPipeError:
        _forget_stdout()
        return 141
    except KeyboardInterrupt:
        complain("interrupted")
        return 130
    except BAD_INPUT as error:
        if wanted:
            raise
        complain(f"error: {one_line(error)}")
        return 2


def _parser() -> Parser:
    parser = Parser(
        prog="manyhands",
        description="Turn many imperfect opinions into one trustworthy answer.",
        epilog="example:\n  manyhands aggregate log.csv -o labels.csv --workers workers.csv",
    )
    parser.add_argument("--version", action="version", version=f"manyhands {__version__}")
    parser.add_argument(
        "--traceback",
        action="store_true",
        help="on bad input, show where the error was raised, for bug reports",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add(commands)
    return parser


def _tolerate_ascii() -> None:
    """Names that the terminal's encoding lacks are escaped; they must not end the command."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def _forget_stdout() -> None:
    """Send what is still buffered to nowhere: flushing it at exit would complain again."""
    with suppress(OSError, ValueError):  # of a stdout that is not a real file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
