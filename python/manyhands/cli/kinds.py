"""Logs of any kind on the command line: which it is, the columns it has, and the methods for it."""

from __future__ import annotations

import argparse
import inspect
import re
from argparse import Namespace
from typing import Any

from manyhands._base.table import Records
from manyhands.cli.options import STDIN, Columns, Parser
from manyhands.errors import ANY

CLASSES = "categorical"
#: What makers of tables of other kinds ask besides columns, in a word.
_SETTINGS = {
    "scheme": "how tags are written: auto, bio, bilou, bioes, io or classes",
    "outside": "the tag of tokens that are in no span (default: O)",
    "gaps": "tokens that only some readers tagged: error, outside or unsaid",
    "sep": "what separates the labels of a set (default: |)",
    "winners": "what values of the winner stand for: left, right or tie, as in 0=left,1=right",
}


def _others() -> dict[str, type[Records]]:
    """The kinds besides classes, by name."""
    return {name: table for name, table in Records._kinds.items() if name != CLASSES}


def roles() -> dict[str, list[str]]:
    """The columns that logs of other kinds have besides those of classes, and which kinds those are."""
    kinds_by_role: dict[str, list[str]] = {}
    class_roles = {*Records._kinds[CLASSES].spec.roles}
    for kind, table in _others().items():
        for role in table.spec.roles:
            if role not in class_roles:
                kinds_by_role.setdefault(role, []).append(kind)
    return kinds_by_role


def add_kind(parser: Parser) -> None:
    """Add the arguments that say what kind of answers a log holds, and where they are."""
    parser.add_argument(
        "--kind",
        choices=(*Records._kinds, "ordinal"),
        metavar="KIND",
        help="kind of answers, such as numeric or ordinal (default: inferred from the columns; all: --help-all)",
    )
    group = parser.add_argument_group("kinds of answers")
    columns_option = parser._option_string_actions["--columns"]
    if isinstance(columns_option, Columns):
        columns_option.roles |= set(roles())
    for name, meaning in _SETTINGS.items():
        parse = sides if name == "winners" else str
        taking = ", ".join(_taking(name))
        parser.rare.add(group.add_argument(f"--{name}", type=parse, metavar="TEXT", help=f"{meaning} ({taking})"))
    listed = (f"{kind}: {', '.join(_own_roles(kind))}" for kind in Records._kinds)
    group.description = f"roles for --columns, by kind: {'; '.join(listed)}"


def _own_roles(kind: str) -> tuple[str, ...]:
    table = Records._kinds[kind]
    return table.spec.roles


def sides(text: str) -> dict[str, str]:
    """Return what winners stand for, written as 0=left,1=right."""
    pairs = [part.rpartition("=") for part in text.split(",")]
    if not all(equals for _, equals, _ in pairs):
        raise argparse.ArgumentTypeError(f"must be such as 0=left,1=right,2=tie, not {text!r}")
    return {name: side for name, _, side in pairs}


def _taking(setting: str) -> list[str]:
    """The kinds whose makers take a setting."""
    return [kind for kind, table in _others().items() if setting in table.spec.settings]


def as_option(name: str, value: Any) -> str:
    """Write a parameter of the library as it is typed on the command line: ``task=…`` as ``--task``."""
    if name in {"weight", "confidence", "probabilities", *roles()}:
        return f"--columns {name}={'…' if value is ANY else value}"
    if name == "header" and value is False:
        return "--no-header"
    option = f"--{'from' if name == 'format' else name.replace('_', '-')}"
    if value is ANY or value is True:
        return option
    plain = re.fullmatch(r"[\w-]+", str(value))
    return f"{option} {value if plain else repr(value)}"


def open_log_of(args: Namespace) -> None:
    """Open the log that the arguments describe, once; `args.opened` keeps it."""
    from manyhands.io.read import Log, open_log

    columns = dict(getattr(args, "columns", {}))
    for role in ("task", "worker", "label"):
        if (column := getattr(args, role, None)) is not None:
            if role in columns:
                raise ValueError(f"the column of the role {role!r} is named twice")
            columns[role] = column
    parameters = inspect.signature(Log).parameters.values()
    accepted = (
        *_SETTINGS,
        *Records._kinds[CLASSES].spec.settings,
        *(p.name for p in parameters if p.kind is p.KEYWORD_ONLY),
    )
    settings = {name: value for name in accepted if (value := getattr(args, name, None)) is not None}
    args.opened = open_log(args.log, **columns, **settings)


def settle_kind(args: Namespace) -> str:
    """Return what kind of answers the log holds: what was asked for, or what its columns show; `args` keeps it."""
    if args.kind == "ordinal":
        args.ordered = True
    args.kind = args.opened.kind
    return str(args.kind)


def read_log(args: Namespace) -> Any:
    """Read the log, or encode it on disk where it is too large for memory."""
    log = args.opened
    directory = _directory(args) if log.kind == CLASSES else None
    if directory is None:
        return log.read()
    return log.encode(directory, args.memory or "4GB").resumable()


def read_classes(args: Namespace) -> Any:
    """Read a log of classes, for a command that takes no other."""
    if args.opened.kind != CLASSES:
        raise ValueError(f"{args.command} is for answers that are classes; the log holds {args.opened.kind} answers")
    return read_log(args)


def _directory(args: Namespace) -> str | None:
    """Return the folder of shards, None to read into memory; prints a line if that was not requested."""
    if not hasattr(args, "out_of_core"):
        return None
    if not args.out_of_core and args.shards is None:
        from manyhands._base.limits import free_memory
        from manyhands.cli.console import complain

        n_bytes, free = args.opened.needed_memory(), args.memory or free_memory()
        if n_bytes is None or free is None or n_bytes <= free:
            return None
        complain(
            f"the log takes about {n_bytes / 2**30:.1f} GB in memory and {free / 2**30:.1f} GB may be used: it is "
            "encoded on disk (--out-of-core)"
        )
    if args.shards is None and str(args.log[0]) in STDIN:
        raise ValueError("name a directory for the log from stdin with --shards")
    return args.shards or f"{str(args.log[0]).replace('*', '_')}.shards"
