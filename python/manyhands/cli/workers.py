"""``manyhands workers``: who is good, who is careless."""

from __future__ import annotations

import math
from argparse import Namespace
from typing import Any

from manyhands._base.checks import check_choice
from manyhands.cli.aggregate import read_and_fit, report, summary_of_fit, summary_of_log
from manyhands.cli.console import SHOWN, Stages, print_json, print_summary, print_table, write
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
    count,
)

_KEYS = ("skill", "information", "capacity", "spammer_score", "n_answers")


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "workers",
        run,
        about="Report the number of labels and the estimated skill of each worker.",
        examples="""
            log.parquet --worst 10
            log.csv --sort information -o workers.csv
        """,
    )
    add_log(parser)
    add_kind(parser)
    add_fit(parser)
    add_truth(parser, evaluate=False)
    out = parser.add_argument_group("output")
    few = out.add_mutually_exclusive_group()
    few.add_argument("--worst", type=count, metavar="N", help="only the N lowest, lowest first")
    few.add_argument("--best", type=count, metavar="N", help="only the N highest, highest first")
    out.add_argument(
        "--sort",
        metavar="COLUMN",
        help=f"what to order by; for classes {', '.join(_KEYS)}, by default skill (a spammer's spammer_score is 0)",
    )
    out.add_argument("-o", "--output", metavar="FILE", help="write CSV or Parquet, by the ending ('-': CSV on stdout)")


def run(args: Namespace) -> None:
    """Read, fit, and show the workers."""
    check_inputs(args, args.gold)
    check_outputs([args.output])
    if settle_kind(args) != CLASSES and args.gold:
        raise ValueError(f"--gold is for classes; the log holds {args.kind} answers")
    check_printed(args, "workers")
    with Stages(args) as stages:
        votes, model, _ = read_and_fit(args, stages)
        table = _sort_workers(model.workers_frame(), args)
        if args.output not in (None, STDOUT):
            with stages.stage("writing"):
                write(table, args.output)
    if args.json:
        print_json(
            args, report(args, votes, model, stages) | {"n_tied": int(model.tied_.sum()), "workers": table.to_pylist()}
        )
        return
    piped = args.output == STDOUT or args.shown == "csv"
    if piped:
        write(table, STDOUT)
    elif args.output is None:
        rows = _visible_columns(table.slice(0, args.worst or args.best or SHOWN))
        print_table(list(rows), list(zip(*rows.values(), strict=True)))
    left = table.num_rows - (args.worst or args.best or SHOWN)
    cut = left > 0 and args.output is None and not piped
    more = f"{left:,} more workers are not shown; -o FILE writes all" if cut else ""
    facts = {"log": summary_of_log(votes), "fit": summary_of_fit(args, model), "more": more}
    wrote = "" if args.output in (None, STDOUT) else args.output
    print_summary(args, facts | {"wrote": wrote, "time": str(stages)}, stderr=piped)


def _visible_columns(table: Any) -> dict[str, list[Any]]:
    """Return the columns that a terminal has room for: of the errors, only that of the skill."""
    columns: dict[str, list[Any]] = table.to_pydict()
    errors = {name: columns.pop(name) for name in list(columns) if name.endswith("_error")}
    if "skill_error" not in errors or all(map(math.isnan, errors["skill_error"])):
        return columns | errors
    pairs = zip(columns["skill"], errors["skill_error"], strict=True)
    return columns | {"skill": [f"{value:.3f} ±{error:.3f}" for value, error in pairs]}


def _sort_workers(table: Any, args: Namespace) -> Any:
    """Return the workers that were asked for, in order; equals stay in the order of their names."""
    import numpy as np

    from manyhands._base.arrow import take, to_numpy

    numbers = [field.name for field in table.schema if field.name not in ("worker", "n_answers")] + ["n_answers"]
    sort_column = args.sort or numbers[0]
    check_choice("sort", sort_column, tuple(numbers))
    key = to_numpy(table.column(sort_column))
    order = np.argsort(key if args.worst else -key, kind="stable")
    return take(table, order[: args.worst or args.best])
