"""``manyhands agreement``: how far workers agree beyond chance."""

from __future__ import annotations

import argparse
import math
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from manyhands.agreement.counts import LEVELS
from manyhands.cli.aggregate import summary_of_log
from manyhands.cli.console import Stages, print_json, print_rows, print_summary, write
from manyhands.cli.kinds import CLASSES, add_kind, read_log, settle_kind
from manyhands.cli.options import (
    STDOUT,
    Commands,
    add_command,
    add_log,
    check_inputs,
    check_outputs,
    check_printed,
    natural,
    use_threads,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from manyhands import Annotations, Ratings, Sequences
    from manyhands.agreement import Agreement


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "agreement",
        run,
        about="Measure agreement beyond chance: Krippendorff, Fleiss, Gwet, Cohen, Scott; "
        "for numbers, intraclass correlation and Pearson; for spans, F1 of pairs of annotators.",
        examples="""
            log.csv
            log.csv -o measures.csv --by-class classes.csv --by-task tasks.csv
            ratings.parquet --level ordinal --resamples 1000 --json
        """,
    )
    add_log(parser)
    add_kind(parser)
    group = parser.add_argument_group("the measures")
    group.add_argument(
        "--level",
        choices=LEVELS,
        default=LEVELS[0],
        help="scale of the labels (default: nominal); for ordered labels, the kappas use squared distances of ranks",
    )
    group.add_argument(
        "--resamples",
        type=natural,
        default=0,
        metavar="N",
        help="number of groups of tasks to leave out in turn for the intervals, such as 100",
    )
    group.add_argument("--confidence", type=_share, default=0.95, metavar="X", help="level of the intervals (0.95)")
    group.add_argument("--seed", type=natural, default=0, metavar="N", help="seed of the random groups of tasks")
    out = parser.add_argument_group("output", "CSV or Parquet, by the ending of the name ('-': CSV on stdout)")
    out.add_argument("-o", "--output", metavar="FILE", help="the measures, with their intervals")
    out.add_argument("--by-class", metavar="FILE", help="agreement on each class, and the classes it is confused with")
    out.add_argument("--by-task", metavar="FILE", help="agreement on each task")


def _share(text: str) -> float:
    """Read a number between 0 and 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} does not lie between 0 and 1")
    return value


def run(args: Namespace) -> None:
    """Read the log, measure, and show."""
    check_inputs(args)
    check_outputs([args.output, args.by_class, args.by_task])
    check_printed(args, "measures")
    if [args.output, args.by_class, args.by_task].count(STDOUT) + args.json > 1:
        raise ValueError("only one thing can go to stdout; name files for the others")
    if settle_kind(args) not in _MEASURES:
        raise ValueError(
            f"there are no measures of agreement for {args.kind} answers; there are for {', '.join(_MEASURES)}"
        )
    if args.kind != CLASSES and (args.by_class or args.by_task):
        raise ValueError(f"--by-class and --by-task are for classes; the log holds {args.kind} answers")
    use_threads(args)
    with Stages(args) as stages:
        with stages.stage("reading"):
            votes: Any = read_log(args)
        with stages.stage("measuring"):
            agreement = _MEASURES[args.kind](votes, args)
            wrote = _write_parts(votes, args)
        if args.output not in (None, STDOUT):
            with stages.stage("writing"):
                write(_frame(agreement), args.output)
                wrote.append(args.output)
    if args.json:
        measures = {name: measure.to_dict() for name, measure in agreement.items()}
        content = {"command": args.command, "log": args.log, "level": args.level, "agreement": measures, "files": wrote}
        print_json(args, content | {"seconds": stages.seconds})
        return
    ends = ("from", "to") if args.resamples else ()
    piped = STDOUT in (args.output, args.by_class, args.by_task)
    if args.output == STDOUT:
        write(_frame(agreement), STDOUT)
    elif not piped:
        print_rows(args, ("measure", "value", *ends, "tasks", "pairs"), _rows(agreement, args))
    undefined = "; ".join(dict.fromkeys(measure.reason for measure in agreement.values() if measure.reason))
    facts = {"log": summary_of_log(votes), "undefined": undefined, "wrote": ", ".join(wrote), "time": str(stages)}
    print_summary(args, facts, stderr=piped)


def _write_parts(votes: Any, args: Namespace) -> list[str]:
    """Write the tables of classes and tasks that were asked for; returns their files."""
    from manyhands import agreement
    from manyhands.agreement.result import labels_of

    paths = {args.by_class: agreement.by_class, args.by_task: agreement.by_task}
    for path, make in paths.items():
        if path is not None:
            write(make(labels_of(votes)), path)
    return [path for path in paths if path not in (None, STDOUT)]


def _frame(found: dict[str, Agreement]) -> pa.Table:
    """All measures as an Arrow table."""
    from manyhands._base import arrow

    rows = [measure.to_dict() for measure in found.values()]
    ends = [row["interval"] or (None, None) for row in rows]
    columns = {name: [row[name] for row in rows] for name in ("value", "n_tasks", "n_pairs", "reason")}
    low, high = ([pair[at] for pair in ends] for at in (0, 1))
    order = {"measure": list(found), "value": columns.pop("value"), "low": low, "high": high, **columns}
    return arrow.table(order)


def _measure(votes: Annotations, args: Namespace) -> dict[str, Agreement]:
    from manyhands import agreement
    from manyhands.agreement.result import labels_of

    votes = labels_of(votes)  # warns once that weights are ignored
    interval = {"resamples": args.resamples, "confidence": args.confidence, "seed": args.seed}
    weights = None if args.level == "nominal" else "quadratic"
    gwet = (
        {"gwet-ac1": agreement.gwet_ac1(votes, **interval)}
        if weights is None
        else {"gwet-ac2": agreement.gwet_ac2(votes, weights=weights, **interval)}
    )
    return {
        "krippendorff-alpha": agreement.krippendorff_alpha(votes, level=args.level, **interval),
        "fleiss-kappa": agreement.fleiss_kappa(votes, weights=weights, **interval),
        **gwet,
        "cohen-kappa": agreement.cohen_kappa(votes, weights=weights, **interval),
        "scott-pi": agreement.scott_pi(votes, weights=weights, **interval),
    }


def _measure_numbers(ratings: Ratings, args: Namespace) -> dict[str, Agreement]:
    from manyhands import agreement

    interval = {"resamples": args.resamples, "confidence": args.confidence, "seed": args.seed}
    single, average = (
        {
            f"icc-{name}{k}": agreement.icc(ratings, model, average=bool(k), **interval)
            for name, model in (("1", "one-way"), ("2", "two-way"), ("3", "consistency"))
        }
        for k in ("", "k")
    )
    return {**single, **average, "pearson": agreement.pearson(ratings, **interval)}


def _measure_spans(readings: Sequences, args: Namespace) -> dict[str, Agreement]:
    from manyhands import agreement

    interval = {"resamples": args.resamples, "confidence": args.confidence, "seed": args.seed}
    return {
        "spans": agreement.span_agreement(readings, **interval),
        "spans-1-off": agreement.span_agreement(readings, tolerance=1, **interval),
    }


#: How each kind of answers is measured.
_MEASURES: dict[str, Callable[[Any, Namespace], dict[str, Agreement]]] = {
    CLASSES: _measure,
    "numeric": _measure_numbers,
    "sequences": _measure_spans,
}


def _rows(found: dict[str, Agreement], args: Namespace) -> list[tuple[Any, ...]]:
    rows = []
    for name, measure in found.items():
        ends = (measure.interval or (math.nan, math.nan)) if args.resamples else ()
        rows.append((name, measure.value, *ends, measure.n_tasks, measure.n_pairs))
    return rows
