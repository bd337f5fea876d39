"""``manyhands explain``: why a task got its answer."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from manyhands._base.spelling import did_you_mean
from manyhands.cli.aggregate import read_and_fit, report, summary_of_fit, summary_of_log
from manyhands.cli.console import Stages, print_facts, print_json, printable, write
from manyhands.cli.kinds import add_kind, settle_kind
from manyhands.cli.method_names import add_fit
from manyhands.cli.options import STDOUT, Commands, add_command, add_log, add_truth, check_inputs


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "explain",
        run,
        about="Explain why a task got its answer: every answer with its worker's skill; for classes, the evidence.",
        examples="""
            log.csv --id q17
            log.parquet --id q17 --method dawid-skene --json
        """,
    )
    parser.add_argument("--id", dest="asked", required=True, metavar="NAME", help="the task (or item) to explain")
    add_log(parser)
    add_kind(parser)
    add_fit(parser)
    add_truth(parser, evaluate=False)


def run(args: Namespace) -> None:
    """Read, fit, and explain."""
    check_inputs(args, args.gold)
    settle_kind(args)
    with Stages(args) as stages:
        votes, model, _ = read_and_fit(args, stages)
        explanation = model.explain(_find_id(votes, args.asked))
    if args.json:
        print_json(args, report(args, votes, model, stages) | {"explanation": explanation.to_dict()})
        return
    if args.shown == "csv":
        write(explanation.to_frame(), STDOUT)
        return
    for line in str(explanation).splitlines():
        print(printable(line))
    if not args.quiet:
        print()
        print_facts({"log": summary_of_log(votes), "fit": summary_of_fit(args, model), "time": str(stages)})


def _find_id(votes: Any, text: str) -> Any:
    """The task or item that a text names: ids of a log may be numbers."""
    what = "item" if hasattr(votes, "n_items") else "task"
    names = getattr(votes, f"{what}s")
    for task in names.tolist():
        if str(task) == text:
            return task
    hint = did_you_mean(text, map(str, names[:100_000].tolist()))
    raise ValueError(f"no {what} is called {text!r}{hint}")
