"""``manyhands describe``: what is in a log."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from manyhands.cli.console import Stages, print_content, print_json, printable
from manyhands.cli.kinds import add_kind, read_log, settle_kind
from manyhands.cli.options import Commands, add_command, add_log, add_out_of_core, check_inputs, use_threads


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "describe",
        run,
        about="Summarize a log: sizes, classes, labels per task and worker, overlap, agreement.",
        examples="""
            log.csv
            'logs/*.parquet' --json
        """,
    )
    add_log(parser)
    add_kind(parser)
    add_out_of_core(parser)


def run(args: Namespace) -> None:
    """Read the log and describe it."""
    check_inputs(args)
    settle_kind(args)
    use_threads(args)
    with Stages(args) as stages:
        with stages.stage("reading"):
            votes: Any = read_log(args)
        with stages.stage("counting"):
            description = votes.describe()
    if args.json:
        print_json(args, {"command": args.command, "log": args.log, **description.to_dict(), "seconds": stages.seconds})
        return
    if args.shown == "csv":
        print_content(args, description.to_dict())
        return
    for line in str(description).splitlines():
        print(printable(line))
    if not args.quiet:
        print(f"{'time':<19}{stages}")
