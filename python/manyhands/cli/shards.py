"""``manyhands shards``: what a directory of shards holds, and whether it is whole."""

from __future__ import annotations

from argparse import Namespace

from manyhands.cli.console import complain, number, print_content, print_facts, print_json
from manyhands.cli.options import Commands, add_command


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "shards",
        run,
        about="Describe a directory of shards, and check that its files are intact.",
        examples="describe log.parquet.shards",
    )
    parser.add_argument(
        "what", choices=("describe",), help="what to do: describe it, which reads and checks every file"
    )
    parser.add_argument("directory", metavar="DIR", help="the directory")


def run(args: Namespace) -> None:
    """Open the directory, read all of it, and report."""
    from manyhands.categorical.shards.directory import open_directory

    table = open_directory(args.directory)
    wrong = table.check()
    sizes, n_bytes = table.sizes, sum(entry.n_bytes for entry in table.entries)
    per_annotation = n_bytes / sizes.n_annotations
    content = {
        "directory": str(table.path),
        "n_shards": len(table.entries),
        "bytes": n_bytes,
        "bytes_per_annotation": per_annotation,
        "digest": table.digest,
        "whole": not wrong,
        "damages": wrong,
        **vars(sizes),
    }
    if args.json:
        print_json(args, {"command": args.command, **content})
    elif args.shown == "csv":
        print_content(args, content)
    else:
        weighted = ", weighted" if sizes.weighted else ""
        abstentions = sizes.n_labels - sizes.n_classes
        never = f" and {number(abstentions, 'abstention')}" if abstentions else ""
        facts = {
            "log": f"{number(sizes.n_annotations, 'annotation')} of {number(sizes.n_tasks, 'task')} by "
            f"{number(sizes.n_workers, 'worker')}, {number(sizes.n_classes, 'class', 'classes')}{never}{weighted}",
            "shards": f"{len(table.entries):,}, {n_bytes / 1e6:,.1f} MB, {per_annotation:.2f} bytes per annotation",
            "digest": table.digest,
            "files": "all whole" if not wrong else f"{number(len(wrong), 'file')} damaged",
        }
        print_facts(facts)
    for damage in wrong:
        complain(damage)
    if wrong:
        raise ValueError(f"{number(len(wrong), 'file')} of {args.directory} cannot be used; encode the log again")
