"""``manyhands simulate``: a log whose truth is known."""

from __future__ import annotations

import argparse
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from manyhands._simulate import SIMULATED
from manyhands.cli.aggregate import summary_of_log
from manyhands.cli.console import Stages, print_frame, print_json, print_summary, write
from manyhands.cli.options import (
    STDOUT,
    Commands,
    add_command,
    amount,
    check_outputs,
    check_printed,
    count,
    natural,
    use_threads,
)
from manyhands.cli.simulate_kinds import OF_CLASSES, SIZES, drawn_log, frame_of, sizes_of

if TYPE_CHECKING:
    import pyarrow as pa


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "simulate",
        run,
        about="Draw a log of annotations by a crowd of known quality.",
        examples="""
            --tasks 200000 --workers 1000 --classes 5 -o log.parquet --truth truth.parquet
            --tasks 1e4 --workers 50 --classes 2 --crowd hammer-spammer --density 0.1 > log.csv
            --tasks 1e4 --workers 50 --classes 4 --crowd one-coin=0.8,colluders=0.2 -o log.csv
            --tasks 1e4 --workers 50 --classes 3 --crowd flippers --set skill=0.9 --seed 7 -o log.csv
            --kind numeric --tasks 1e4 --workers 50 --set answers_per_task=7 -o log.csv --truth truth.csv
            --kind texts --tasks 200 --workers 20 --set words=12 -o log.csv --truth truth.csv
            --kind pairwise --items 100 --workers 50 --comparisons 1e4 --set ties=0.3 -o log.csv
            --kind rankings --items 100 --workers 50 --rankings 1e3 --set length=6 -o log.csv
        """,
    )
    parser.add_argument(
        "--kind",
        choices=SIMULATED,
        default="categorical",
        metavar="KIND",
        help=f"kind of answers: {', '.join(SIMULATED)} (default: categorical); settings of a kind go by --set",
    )
    sizes = parser.add_argument_group("sizes", "whole numbers, also written 1e6")
    for name in SIZES:
        kinds = [kind for kind in SIMULATED if name in sizes_of(kind)]
        sizes.add_argument(f"--{name}", type=count, metavar="N", help=f"how many {name} ({', '.join(kinds)})")
    sizes.add_argument(
        "--labels-per-task",
        type=_labels,
        metavar="N|LOW-HIGH",
        help="how many workers label each task (default: 5)",
    )
    sizes.add_argument("--density", type=amount, metavar="P", help="or the probability that a worker labels a task")
    sizes.add_argument(
        "--activity",
        type=amount,
        metavar="X",
        help="exponent of a power law of the answers per worker (default: all equal)",
    )
    crowd = parser.add_argument_group("the crowd")
    crowd.add_argument(
        "--crowd",
        type=_crowd,
        metavar="KIND|KIND=SHARE,…",
        help="what the workers are like: one-coin, class-conditional (default), flippers, hammer-spammer, "
        "confusers, neighbours, adversary, spammers, naive, colluders, kappa; or several with their shares",
    )
    crowd.add_argument(
        "--set",
        action="append",
        type=_setting,
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the crowd, such as skill=0.8",
    )
    crowd.add_argument("--prior", type=_numbers, metavar="P,P,…", help="class probabilities (default: all the same)")
    crowd.add_argument(
        "--copying",
        type=amount,
        metavar="P",
        help="how often colluders give their common answer (default: 1)",
    )
    crowd.add_argument("--ids", choices=("int", "str"), help="type of the ids (default: int)")
    crowd.add_argument("--seed", type=natural, default=0, metavar="N", help="seed of all random draws (default: 0)")
    out = parser.add_argument_group("output", "CSV or Parquet, by the ending of the name")
    out.add_argument("-o", "--output", metavar="FILE", help="the log: task, worker, label (default: CSV on stdout)")
    out.add_argument(
        "--truth", metavar="FILE", help="the correct answers, in the columns that --evaluate reads: task, label, …"
    )
    out.add_argument("--confusion", metavar="FILE", help="how workers err: worker, class, label, probability")


def run(args: Namespace) -> None:
    """Draw the log and write it with its truth."""
    check_outputs([args.output, args.truth, args.confusion])
    check_printed(args, "answers", printed=True)
    use_threads(args)
    piped = args.output in (None, STDOUT)
    with Stages(args) as stages:
        with stages.stage("drawing"):
            simulated = drawn_log(args)
        with stages.stage("writing"):
            log = frame_of(simulated.log)
            if args.truth is not None:
                write(simulated.truth_frame(), args.truth)
            if args.confusion is not None:
                write(_confusion(simulated), args.confusion)
            if not piped:
                write(log, args.output)
    if args.json:
        print_json(args, _report(args, simulated) | {"seconds": stages.seconds})
        return
    if piped:
        with stages.stage("writing"):
            print_frame(args, log)
    if not args.quiet:
        files = ", ".join(path for path in (args.output, args.truth, args.confusion) if path not in (None, STDOUT))
        facts = {"log": summary_of_log(simulated.log)}
        if args.kind in OF_CLASSES:
            skill = simulated.accuracy
            facts["crowd"] = f"mean accuracy {skill.mean():.3f}, from {skill.min():.3f} to {skill.max():.3f}"
        print_summary(args, facts | {"wrote": files, "time": str(stages)}, stderr=piped and args.shown != "table")


def _report(args: Namespace, drawn: Any) -> dict[str, Any]:
    votes = drawn.log
    sizes = ("n_annotations", "n_tasks", "n_items", "n_workers", "n_classes")
    report: dict[str, Any] = {"command": args.command, "kind": args.kind}
    report |= {name: getattr(votes, name) for name in sizes if hasattr(votes, name)}
    if args.kind in OF_CLASSES:
        report |= {"n_unlabelled": len(votes.unlabelled), "mean_accuracy": float(drawn.accuracy.mean())}
    files = [path for path in (args.output, args.truth, args.confusion) if path is not None]
    return report | {"seed": drawn.seed, "files": files}


def _confusion(drawn: Any) -> pa.Table:
    """Return the confusion matrices in long form, a row for each worker, true class and label."""
    import numpy as np
    import pyarrow as pa

    workers, classes = drawn.log._workers, drawn.log._classes
    worker, true, answer = (index.ravel() for index in np.indices(drawn.confusion.shape))
    columns = {"worker": workers.take(worker), "class": classes.take(true), "label": classes.take(answer)}
    table = {name: names.arrow() for name, names in columns.items()}
    return pa.table(table | {"probability": drawn.confusion.ravel()})


# ----------------------------------------------------------------------------------------- types of arguments


def _labels(text: str) -> int | tuple[int, int]:
    low, dash, high = text.partition("-")
    return (natural(low), count(high)) if dash and "e" not in low else count(text)


def _crowd(text: str) -> str | dict[str, float]:
    if "=" not in text:
        return text
    shares = dict(_setting(part) for part in text.split(","))
    if not all(isinstance(share, int | float) for share in shares.values()):
        raise argparse.ArgumentTypeError(
            f"must be a kind, or kinds with their shares, such as a=0.7,b=0.3, not {text!r}"
        )
    return shares


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or (not name.isidentifier() and not name.replace("-", "_").isidentifier()):
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, not {text!r}")
    return name, _value(value)


def _value(text: str) -> Any:
    """Return a number, a pair of numbers or text."""
    try:
        numbers = _numbers(text)
    except argparse.ArgumentTypeError:
        return text
    if len(numbers) > 1:
        return tuple(numbers)
    return int(text) if text.strip().isdecimal() else numbers[0]


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be numbers with commas between them, not {text!r}") from None
