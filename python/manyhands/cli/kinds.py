"""Logs of any kind on the command line: which it is, the columns it has, and the methods for it."""

from __future__ import annotations

import argparse
from argparse import Namespace
from typing import Any

from manyhands._base.table import Records
from manyhands.cli.options import EXPORT, LAYOUT, Columns, Parser, read_log

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
    found: dict[str, list[str]] = {}
    known = {*Records._kinds[CLASSES]._roles, *Records._kinds[CLASSES]._options}
    for kind, table in _others().items():
        for role in (*table._roles, *table._options):
            if role not in known:
                found.setdefault(role, []).append(kind)
    return found


def add_kind(parser: Parser) -> None:
    """Add the arguments that say what kind of answers a log holds, and where they are."""
    parser.add_argument(
        "--kind",
        choices=(*Records._kinds, "ordinal"),
        metavar="KIND",
        help=f"what the answers are: {', '.join(Records._kinds)}, ordinal (default: inferred from the columns)",
    )
    group = parser.add_argument_group("kinds of answers")
    chosen = parser._option_string_actions["--columns"]
    if isinstance(chosen, Columns):
        for role in roles():
            chosen.roles[role] = role
            parser.set_defaults(**{role: None})
    for name, meaning in _SETTINGS.items():
        parse = sides if name == "winners" else str
        taking = ", ".join(_taking(name))
        parser.rare.add(group.add_argument(f"--{name}", type=parse, metavar="TEXT", help=f"{meaning} ({taking})"))
    listed = (f"{kind}: {', '.join(_own_roles(kind))}" for kind in Records._kinds)
    group.description = f"roles for --columns, by kind: {'; '.join(listed)}"


def _own_roles(kind: str) -> tuple[str, ...]:
    table = Records._kinds[kind]
    return (*table._roles, *table._options)


def sides(text: str) -> dict[str, str]:
    """Return what winners stand for, written as 0=left,1=right."""
    pairs = [part.rpartition("=") for part in text.split(",")]
    if not all(equals for _, equals, _ in pairs):
        raise argparse.ArgumentTypeError(f"must be such as 0=left,1=right,2=tie, not {text!r}")
    return {name: side for name, _, side in pairs}


def _taking(setting: str) -> list[str]:
    """The kinds whose makers take a setting."""
    return [kind for kind, table in _others().items() if setting in table._settings]


def settle_kind(args: Namespace) -> str:
    """Say what kind of answers the log holds: what was asked for, or what its columns tell; `args` keeps it.

    A stream can be read only once, and is a log of classes unless told otherwise.
    """
    args.inferred = args.kind is None
    if args.kind == "ordinal":
        args.kind, args.ordered = CLASSES, True
    if args.kind is None:
        args.kind = _told_by_columns(args)
    if args.kind not in Records._kinds:
        from manyhands.io.exports.export import CANNOT

        raise ValueError(f"the export holds {args.kind}: {CANNOT}")
    for name, kinds in {**roles(), **{name: _taking(name) for name in _SETTINGS}}.items():
        if getattr(args, name, None) is not None and args.kind not in kinds:
            option = f"--columns {name}=…" if name in roles() else f"--{name}"
            raise ValueError(f"{option} does not apply to {args.kind} answers; pass --kind {kinds[0]}")
    return str(args.kind)


def _told_by_columns(args: Namespace) -> str:
    from manyhands._base.sources import Layout, expand, is_stream
    from manyhands._base.streams import column_names
    from manyhands.io.exports import Export, opened, sources_to_read
    from manyhands.io.kinds import kind_by_columns

    paths = expand(args.log)
    named = {role: column for role in roles() if (column := getattr(args, role, None)) is not None}
    if args.probabilities is not None or args.layout == "wide":
        return CLASSES
    if any(map(is_stream, paths)):
        return kind_by_columns([], [*named]) if named else CLASSES
    named |= {role: column for role in ("task", "worker", "label") if (column := getattr(args, role)) is not None}
    sources = sources_to_read(args.log, Layout(*(getattr(args, name) for name in LAYOUT)), args.format)
    document = opened(sources, args.format, named, layout=args.layout, worker_from_file=args.worker_from_file)
    if isinstance(document, Export):
        args.export = document  # a large one takes long to read
        question = args.question if args.label is None else document.question_named(args.label, args.question)
        return document.questions[document.question(question)]
    return kind_by_columns(column_names(sources[0]) if document is None else document.column_names, [*named])


def read_any(args: Namespace) -> Records:
    """Read the log that the arguments describe, of the kind that `settle_kind` found."""
    import manyhands as mh
    from manyhands.io.read import of_export

    if getattr(args, "export", None) is not None:
        named = ("task", "worker", "label", "weight", "abstain", "classes", "ordered", "fold_labels")
        asked = {name: value for name in named if (value := getattr(args, name)) not in (None, False)}
        made: Records = of_export(
            args.export,
            None,
            args.question,
            args.predictions,
            asked,
            {"repeats": args.repeats, "missing": args.missing},
            args.show,
        )
        return made
    if args.kind == CLASSES:
        return read_log(args)
    table = Records._kinds[args.kind]
    given = {name: getattr(args, name, None) for name in ("label", *table._roles, *table._options)}
    settings = {name: getattr(args, name) for name in ("repeats", "missing", *EXPORT, *LAYOUT)}
    settings |= {name: value for name in _SETTINGS if (value := getattr(args, name, None)) is not None}
    settings |= {"fold_labels": True} if args.fold_labels else {}
    read: Any = mh.read
    votes: Records = read(args.log, kind=None if args.inferred else args.kind, **given, **settings)
    return votes
