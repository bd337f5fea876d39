"""``manyhands next``: which labels to buy next, and from which workers."""

from __future__ import annotations

import argparse
from argparse import Namespace
from typing import TYPE_CHECKING

from manyhands.cli.aggregate import read_and_fit, report, summary_of_fit, summary_of_log
from manyhands.cli.console import Stages, number, print_frame, print_json, print_summary, write
from manyhands.cli.kinds import CLASSES, add_kind, settle_kind
from manyhands.cli.method_names import add_fit
from manyhands.cli.options import (
    STDOUT,
    Commands,
    add_command,
    add_log,
    add_truth,
    check_inputs,
    check_outputs,
    check_printed,
    natural,
    read_team,
)
from manyhands.collect.crowd import EXPLORE
from manyhands.collect.gains import STRATEGIES

if TYPE_CHECKING:
    import pyarrow as pa


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "next",
        run,
        about="Choose the labels to buy next: tasks, workers if they can be chosen, and the expected gain.",
        examples="""
            log.parquet --budget 500 -o batch.csv
            log.csv --budget 200 --ask all --error 0.05 -o batch.csv
            log.csv --budget 200 --ask team.csv --accuracy 0.95
        """,
    )
    add_log(parser)
    add_kind(parser)
    choice = parser.add_argument_group("the batch")
    choice.add_argument(
        "--budget", type=_budget, required=True, metavar="N", help="labels to buy; what to spend, where workers cost"
    )
    choice.add_argument(
        "--ask",
        metavar="WORKERS",
        help="'all' workers of the log, or a CSV or Parquet file with the columns worker, capacity, cost (the last two "
        "may be left out); by default tasks only, for any worker",
    )
    choice.add_argument("--strategy", choices=STRATEGIES, default="error", help="what ranks tasks (default: error)")
    explore = choice.add_argument(
        "--explore", choices=EXPLORE, default="epsilon-greedy", help="how unknown workers get a chance"
    )
    choice.add_argument(
        "--error", type=float, metavar="X", help="leave out tasks whose answer is wrong with at most this probability"
    )
    choice.add_argument(
        "--accuracy", type=float, metavar="X", help="also estimate how many labels are needed to reach this accuracy"
    )
    seed = choice.add_argument(
        "--seed", type=natural, default=0, metavar="N", help="seed of what is drawn for the batch"
    )
    parser.rare |= {explore, seed}
    add_fit(parser)
    add_truth(parser, evaluate=False)
    parser.add_argument_group("output").add_argument(
        "-o", "--output", metavar="FILE", help="the batch as CSV or Parquet, by the ending (default: CSV on stdout)"
    )


def run(args: Namespace) -> None:
    """Read, fit, choose, and write."""
    n_asked = None if args.ask in (None, "all") else args.ask
    check_inputs(args, args.gold, n_asked)
    check_outputs([args.output])
    check_printed(args, "batch")
    if settle_kind(args) != CLASSES:
        raise ValueError(f"only labels that are classes can be chosen; the log holds {args.kind} answers")
    from manyhands import collect

    with Stages(args) as stages:
        votes, model, _ = read_and_fit(args, stages)
        with stages.stage("choosing"):
            batch = collect.next_labels(
                model,
                args.budget,
                workers=args.ask if n_asked is None else read_team(n_asked, votes),
                strategy=args.strategy,
                explore=args.explore,
                error=args.error,
                seed=args.seed,
            )
            n_needed = None if args.accuracy is None else collect.labels_needed(model, args.accuracy, seed=args.seed)
        piped = args.output in (None, STDOUT)
        if not piped:
            with stages.stage("writing"):
                write(batch, args.output)
    if args.json:
        content = report(args, votes, model, stages) | {"n_chosen": batch.num_rows}
        content |= {"labels_needed": None if n_needed is None else n_needed.to_dict()}
        print_json(args, content | ({"batch": batch.to_pylist()} if piped else {"files": [args.output]}))
        return
    if piped:
        print_frame(args, batch)
    facts = {"log": summary_of_log(votes), "fit": summary_of_fit(args, model), "batch": _summary(batch)}
    facts["needed"] = "" if n_needed is None else str(n_needed)
    facts |= {"wrote": "" if piped else args.output, "time": str(stages)}
    print_summary(args, facts, stderr=piped and args.shown != "table")


def _budget(text: str) -> int | float:
    try:
        budget = float(text)
        return int(budget) if budget.is_integer() else budget
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of labels") from None


def _summary(batch: pa.Table) -> str:
    gain = sum(batch["expected_gain"].to_pylist())
    who = f" from {number(len(batch['worker'].unique()), 'worker')}" if "worker" in batch.column_names else ""
    return f"{number(batch.num_rows, 'label')}{who}; {gain:.2f} more right answers expected"
