"""``manyhands methods``: the methods that ``--method`` takes, in a sentence each."""

from __future__ import annotations

from argparse import Namespace

from manyhands.cli.console import print_json, print_rows
from manyhands.cli.method_names import LISTED
from manyhands.cli.options import Commands, add_command


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "methods",
        run,
        about="List the methods that --method takes, by kind of answers.",
        examples="""
            --kind pairwise
            --json
        """,
    )
    parser.add_argument(
        "--kind", choices=tuple(LISTED), metavar="KIND", help=f"only those for one kind: {', '.join(LISTED)}"
    )


def run(args: Namespace) -> None:
    """Print one method per line, the default of each kind first."""
    listed = [
        {
            "kind": kind,
            "method": name,
            "default": place == 0,
            "class": method.aggregator.__name__,
            "about": method.about,
            "parameters": method.parameters,
        }
        for kind, methods in LISTED.items()
        if args.kind in (None, kind)
        for place, (name, method) in enumerate(methods.items())
    ]
    if args.json:
        print_json(args, {"command": args.command, "methods": listed})
        return
    if args.shown == "csv":
        names = ("kind", "method", "default", "class", "about")
        print_rows(args, names, [[row[name] for name in names] for row in listed])
        return
    width = max(len(str(row["method"])) for row in listed)
    kind = None
    for row in listed:
        if args.kind is None and row["kind"] != kind:
            kind = row["kind"]
            print(f"{kind}:")
        print(f"{'*' if row['default'] else ' '} {row['method']:<{width}}  {row['about']}")
    if not args.quiet:
        others = "; the methods for categorical answers take ordered classes too" if args.kind == "ordinal" else ""
        print(f"* default{others}")
