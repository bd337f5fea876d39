"""``manyhands agreement``: how far workers agree beyond chance."""

from __future__ import annotations

import argparse
import math
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from manyhands.agreement.counts import LEVELS
from manyhands.cli.aggregate import summary_of_log
from manyhands.cli.console import Stages, print_json, print_rows, print_summary
from manyhands.cli.kinds import CLASSES, add_kind, read_any, settle_kind
from manyhands.cli.options import Commands, add_command, add_log, check_inputs, natural, use_threads

if TYPE_CHECKING:
    from manyhands import Annotations, Ratings
    from manyhands.agreement import Agreement


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "agreement",
        run,
        about="Measure how far the labels of a log agree beyond chance: Krippendorff, Fleiss, Gwet, Cohen, Scott; "
        "of numbers, intraclass correlations and Pearson's.",
        examples="""
            log.csv
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
        help="how labels differ (default: nominal); of ordered labels, the kappas count squared distances of ranks",
    )
    group.add_argument(
        "--resamples",
        type=natural,
        default=0,
        metavar="N",
        help="for intervals: leave out this many groups of tasks in turn, a hundred or so",
    )
    group.add_argument("--confidence", type=_share, default=0.95, metavar="X", help="level of the intervals (0.95)")
    group.add_argument("--seed", type=natural, default=0, metavar="N", help="which tasks form a group")


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
    if settle_kind(args) not in _MEASURES:
        raise ValueError(f"there are no measures of agreement for {args.kind}; there are for {', '.join(_MEASURES)}")
    use_threads(args)
    with Stages(args) as stages:
        with stages.stage("reading"):
            votes: Any = read_any(args)
        with stages.stage("measuring"):
            found = _MEASURES[args.kind](votes, args)
    if args.json:
        measures = {name: measure.to_dict() for name, measure in found.items()}
        content = {"command": args.command, "log": args.log, "level": args.level, "agreement": measures}
        print_json(args, content | {"seconds": stages.seconds})
        return
    ends = ("from", "to") if args.resamples else ()
    print_rows(args, ("measure", "value", *ends, "tasks", "pairs"), _rows(found, args))
    undefined = "; ".join(dict.fromkeys(measure.reason for measure in found.values() if measure.reason))
    print_summary(args, {"log": summary_of_log(votes), "undefined": undefined, "time": str(stages)})


def _measure(votes: Annotations, args: Namespace) -> dict[str, Agreement]:
    from manyhands import agreement
    from manyhands.agreement.result import labels_of

    votes = labels_of(votes)  # that it has weights is said once, and not by each measure
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


#: How each kind of answers is measured.
_MEASURES: dict[str, Callable[[Any, Namespace], dict[str, Agreement]]] = {
    CLASSES: _measure,
    "numbers": _measure_numbers,
}


def _rows(found: dict[str, Agreement], args: Namespace) -> list[tuple[Any, ...]]:
    rows = []
    for name, measure in found.items():
        ends = (measure.interval or (math.nan, math.nan)) if args.resamples else ()
        rows.append((name, measure.value, *ends, measure.n_tasks, measure.n_pairs))
    return rows
