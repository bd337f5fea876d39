"""``manyhands compare``: several methods on the same log."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from manyhands.cli.aggregate import summary_of_log
from manyhands.cli.console import Stages, duration, print_facts, print_json, print_table
from manyhands.cli.methods import COMPARED, METHODS, Truth, add_fit, given_options
from manyhands.cli.options import (
    Commands,
    add_command,
    add_log,
    add_truth,
    check_inputs,
    names_of,
    read_log,
    read_truth,
    use_threads,
)

_SCORES = ("accuracy", "balanced_accuracy", "log_loss", "calibration_error")


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "compare",
        run,
        about="Run several methods on a log; show where they agree and, given the truth, how good they are.",
        examples="""
            log.csv
            log.parquet --evaluate truth.csv --methods majority,dawid-skene
        """,
    )
    add_log(parser)
    add_fit(parser, choose=False)
    add_truth(parser)
    others = ", ".join(name for name in METHODS if name not in COMPARED)
    parser.add_argument(
        "--methods",
        type=names_of(METHODS),
        default=list(COMPARED),
        metavar="A,B,…",
        help=f"what to run (default: {','.join(COMPARED)}; also {others}); options of a fit go to those that have them",
    )


def run(args: Namespace) -> None:
    """Read once, fit every method, and show the results side by side."""
    import numpy as np

    check_inputs(args, args.gold, args.evaluate)
    chosen = {name: METHODS[name] for name in args.methods}
    given = given_options(args, chosen)
    use_threads(args)
    results: list[dict[str, Any]] = []
    labels = []
    with Stages(args) as stages:
        with stages.stage("reading"):
            votes = read_log(args)
            if args.gold is not None:
                given["gold"] = read_truth(args, args.gold, votes)
            known = read_truth(args, args.evaluate, votes)
            truth = None if known is None else Truth(votes, known, args.evaluate)
        for name, method in chosen.items():
            model = method.build(given)
            with stages.stage(name, model._iterations()) as progress:
                model.fit(votes, progress=progress or False)
            labels.append(model.labels_)
            scores = {} if truth is None else truth.measure(model)
            fit = {"method": name, "n_iter": model.n_iter_, "converged": model.converged_}
            results.append(fit | {"seconds": stages.seconds[name]} | scores)
    agreement = [[float(np.mean(one == other)) for other in labels] for one in labels]
    if args.json:
        content = {"command": args.command, "log": args.log, "n_tasks": votes.n_tasks, "methods": results}
        print_json(args, content | {"agreement": agreement, "seconds": stages.seconds})
        return
    shown = _SCORES if truth is not None else ()
    print_table(
        ("method", "passes", "time", *(score.replace("_", " ") for score in shown)),
        [(r["method"], r["n_iter"], duration(r["seconds"]), *(r[score] for score in shown)) for r in results],
    )
    rows = [(name, *row) for name, row in zip(chosen, agreement, strict=True)]
    print_table(("same label", *chosen), rows)
    if not args.quiet:
        over = "" if truth is None else f"{len(truth.index):,} tasks"
        print_facts({"log": summary_of_log(votes), "truth": over, "time": str(stages)})
