"""``manyhands fairness``: whether groups of tasks, or of workers, fare alike."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from manyhands._base.spelling import did_you_mean
from manyhands.cli.aggregate import read_and_fit, report, summary_of_fit, summary_of_log
from manyhands.cli.console import Stages, number, print_json, print_summary, print_table, write
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
    read_truth,
)


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "fairness",
        run,
        about="Measure gaps between groups, and write answers with a bounded gap.",
        examples="""
            log.csv --attribute groups.csv --positive yes
            log.csv --attribute groups.csv:region --evaluate truth.csv -o gaps.csv
            log.csv --attribute groups.csv --gap 0.02 --answers labels.csv
        """,
    )
    add_log(parser)
    add_kind(parser)
    group = parser.add_argument_group("groups")
    group.add_argument(
        "--attribute",
        required=True,
        metavar="FILE[:COLUMN]",
        help="CSV or Parquet file with a column of tasks (of workers with --about worker) and one of their groups",
    )
    group.add_argument(
        "--about", choices=("task", "worker"), default="task", help="what the attribute describes (default: task)"
    )
    group.add_argument(
        "--positive", action="append", metavar="CLASS", help="the class that matters (default: the second of two)"
    )
    group.add_argument("--gap", type=float, metavar="X", help="answer so that groups differ by this much at most")
    measure = group.add_argument(
        "--measure",
        choices=("demographic_parity", "equal_opportunity", "false_positives"),
        default="demographic_parity",
        metavar="NAME",
        help="what --gap limits: demographic_parity (default), equal_opportunity or false_positives",
    )
    within = group.add_argument(
        "--within", action="store_true", help="with --gap: fit workers' errors separately for each group"
    )
    seed = group.add_argument("--seed", type=natural, default=0, metavar="N", help="seed of the intervals")
    parser.rare |= {measure, within, seed}
    add_fit(parser)
    add_truth(parser)
    out = parser.add_argument_group("output", "CSV or Parquet, by the ending of the name")
    out.add_argument("-o", "--output", metavar="FILE", help="gaps of the aggregate and of every worker")
    out.add_argument("--answers", metavar="FILE", help="with --gap: answers whose gap is within the bound")


def run(args: Namespace) -> None:
    """Read, fit, measure, and answer."""
    path, _, column = _split_path(args.attribute)
    check_inputs(args, args.gold, args.evaluate, path)
    check_outputs([args.output, args.answers])
    if STDOUT in (args.output, args.answers):
        raise ValueError(
            "gaps and labels go to files; name them with -o and --answers, or print gaps with --format csv"
        )
    check_printed(args, "gaps")
    if args.answers is not None and args.gap is None:
        raise ValueError("--answers needs --gap, the largest difference that is put up with")
    if settle_kind(args) != CLASSES:
        raise ValueError(
            f"only answers that are classes are compared between groups; the log holds {args.kind} answers"
        )
    from manyhands import fairness

    with Stages(args) as stages:
        votes, model, _ = read_and_fit(args, stages)
        truth = read_truth(args, args.evaluate, votes)
        attribute = (path, column) if column else path
        positive = None if args.positive is None else _classes(votes, args.positive)
        with stages.stage("measuring"):
            options: dict[str, Any] = {"attribute": attribute, "positive": positive}
            gaps = fairness.gaps(votes, truth or model, about=args.about, seed=args.seed, **options)
            fair = None
            if args.gap is not None:
                if args.about != "task":
                    raise ValueError("--gap needs an attribute of tasks")
                settings: dict[str, Any] = {"gap": args.gap, "measure": args.measure, "within": args.within}
                fair = fairness.aggregate(votes, model=model, **settings, **options)
        if args.output is not None:
            write(gaps.frame(), args.output)
        if fair is not None and args.answers is not None:
            write(fair.frame(), args.answers)
    if args.json:
        content = report(args, votes, model, stages) | {"gaps": gaps.frame().to_pylist(), "fair": None}
        if fair is not None:
            content["fair"] = {"before": fair.gap_before, "gap": fair.gap, "loss": fair.loss, "rates": fair.rates}
        print_json(args, content)
        return
    if args.shown == "csv":
        write(gaps.frame(), STDOUT)
    else:
        rows = [[gap.measure, gap.gap, gap.low, gap.high, *gap.rates.values()] for gap in gaps.aggregate.values()]
        print_table(["measure", "gap", "low", "high", *map(str, gaps.groups)], rows, title="gaps, intervals of 90 %")
    files = ", ".join(name for name in (args.output, args.answers) if name is not None)
    facts = {"log": summary_of_log(votes), "fit": summary_of_fit(args, model)}
    facts["answers"] = "" if fair is None else _result_line(fair)
    print_summary(args, facts | {"wrote": files, "time": str(stages)})


def _result_line(fair: Any) -> str:
    changed = number(int((fair.codes != fair.before).sum()), "answer")
    return (
        f"{changed} changed: the expected gap of {fair.measure} goes from {fair.gap_before:.3f} to {fair.gap:.3f}, and "
        f"{fair.loss:.2%} more are expected to be wrong"
    )


def _split_path(text: str) -> tuple[str, str, str]:
    """A path and a column after the last colon, unless all of it is a file."""
    from pathlib import Path

    path, mark, column = text.rpartition(":")
    return (text, "", "") if not mark or Path(text).exists() else (path, mark, column)


def _classes(votes: Any, named: list[str]) -> list[Any]:
    """Classes that texts name: those of a log may be numbers."""
    name_of = {str(name): name for name in votes.classes.tolist()}
    lacking = [name for name in named if name not in name_of]
    if lacking:
        hint = did_you_mean(lacking[0], name_of)
        raise ValueError(f"no class is called {lacking[0]!r}{hint}; the classes are {', '.join([*name_of][:5])}")
    return [name_of[name] for name in named]
