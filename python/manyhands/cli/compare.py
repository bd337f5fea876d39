"""``manyhands compare``: several methods on the same log."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from manyhands.cli.aggregate import summary_of_log
from manyhands.cli.console import Stages, duration, print_facts, print_json, print_table
from manyhands.cli.methods import COMPARED, METHODS, Truth, add_fit, given_options
from manyhands.cli.options import (
    Commands,
    add_command,
    add_log,
    add_truth,
    amount,
    check_inputs,
    names_of,
    read_log,
    read_truth,
    use_threads,
)

if TYPE_CHECKING:
    from manyhands import Annotations
    from manyhands.aggregators.base import Aggregator

#: Asks for every method.
ALL = "all"
_SCORES = ("accuracy", "balanced_accuracy", "log_loss", "calibration_error")


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "compare",
        run,
        about="Run several methods on a log; show how well they foretell labels they have not seen, where they agree "
        "and, given the truth, how good they are.",
        examples="""
            log.csv
            log.csv --gold gold.csv
            log.parquet --evaluate truth.csv --methods majority,dawid-skene --held-out 0
            log.csv --methods all
        """,
    )
    add_log(parser)
    add_fit(parser, choose=False)
    add_truth(parser, gold="labels to measure the answers by; with --evaluate, labels to hold fixed in the fit")
    others = ", ".join(name for name in METHODS if name not in COMPARED)
    parser.add_argument(
        "--methods",
        type=names_of((ALL, *METHODS)),
        default=list(COMPARED),
        metavar="A,B,…",
        help=f"what to run (default: {','.join(COMPARED)}; also {others}; {ALL} runs every one that takes the log); "
        "options of a fit go to those that have them",
    )
    parser.add_argument(
        "--held-out",
        type=amount,
        default=0.1,
        metavar="SHARE",
        help="share of the labels that a second fit does not see and must foretell (default: 0.1; 0 for no such fit)",
    )


def run(args: Namespace) -> None:
    """Read once, fit every method, and show the results side by side."""
    import numpy as np

    check_inputs(args, args.gold, args.evaluate)
    if args.held_out >= 1:
        raise ValueError(f"--held-out must be below 1, not {args.held_out:g}")
    everything = ALL in args.methods
    chosen = {name: METHODS[name] for name in (METHODS if everything else args.methods)}
    # Answers to tasks whose label is held fixed would all be right: that takes other labels to measure by.
    fixed = args.gold if args.evaluate is not None else None
    measure_by = args.evaluate or args.gold
    given = given_options(Namespace(**vars(args) | {"gold": fixed}), chosen)
    use_threads(args)
    results: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    labels = []
    with Stages(args) as stages:
        with stages.stage("reading"):
            votes = read_log(args)
            if fixed is not None:
                given["gold"] = read_truth(args, fixed, votes)
            known = read_truth(args, measure_by, votes)
            truth = None if known is None else Truth(votes, known, measure_by)
            split = held_out(votes, args.held_out)
        for name, method in chosen.items():
            model = method.build(given)
            try:
                with stages.stage(name, model._iterations()) as progress:
                    model.fit(votes, progress=progress or False)
            except (ValueError, MemoryError) as reason:
                if not everything:
                    raise
                left_out[name] = str(reason)
                continue
            labels.append(model.labels_)
            scores = {} if truth is None else truth.measure(model)
            if split is not None:
                with stages.stage("held out"):
                    scores["held_out_loss"] = split.loss(method.build(given | {"gold": None}))
            fit = {"method": name, "n_iter": model.n_iter_, "converged": model.converged_}
            results.append(fit | {"seconds": stages.seconds[name]} | scores)
    agreement = [[float(np.mean(one == other)) for other in labels] for one in labels]
    if args.json:
        content = {"command": args.command, "log": args.log, "n_tasks": votes.n_tasks, "methods": results}
        content["left_out"] = left_out
        print_json(args, content | {"agreement": agreement, "seconds": stages.seconds})
        return
    shown = (*(_SCORES if truth is not None else ()), *(("held_out_loss",) if split is not None else ()))
    first = results[0]["method"]
    print_table(
        ("method", "passes", "time", *(score.replace("_", " ") for score in shown), f"same label as {first}"),
        [
            (r["method"], r["n_iter"], duration(r["seconds"]), *(r[score] for score in shown), same)
            for r, same in zip(results, agreement[0], strict=True)
        ],
    )
    if not args.quiet:
        over = "" if truth is None else f"{len(truth.index):,} tasks"
        unseen = "" if split is None else f"{split.n_held:,} labels, log-loss in nats each"
        facts = {"log": summary_of_log(votes), "truth": over, "held out": unseen, "time": _times(stages, chosen)}
        print_facts(facts | {f"no {name}": reason for name, reason in left_out.items()})


def _times(stages: Stages, methods: Collection[str]) -> str:
    """Say what took how long, all methods together: the table has the time of each."""
    fits = sum(seconds for name, seconds in stages.seconds.items() if name in methods)
    others = [f"{name} {duration(seconds)}" for name, seconds in stages.seconds.items() if name not in methods]
    return ", ".join([*others[:1], f"fitting {duration(fits)}", *others[1:]])


class Split:
    """A log without some of its labels, and those labels."""

    def __init__(self, votes: Annotations, held: Any) -> None:
        from manyhands import Annotations

        tasks, workers, labels = votes.codes()
        weights = None if votes.weights is None else votes.weights[~held]
        self.seen = Annotations.from_codes(
            tasks[~held],
            workers[~held],
            labels[~held],
            n_tasks=votes.n_tasks,
            n_workers=votes.n_workers,
            n_classes=votes.n_classes,
            weights=weights,
            ordered=votes.ordered,
        )
        self.tasks, self.workers, self.labels = tasks[held], workers[held], labels[held]
        self.n_held = int(held.sum())

    def loss(self, model: Aggregator) -> float:
        """Mean negative logarithm of the probability that a fit to the rest gives these labels."""
        import warnings

        import numpy as np

        with warnings.catch_warnings():
            # What there is to say was said of the whole log.
            warnings.simplefilter("ignore")
            model.fit(self.seen)
        foretold = model.confusion_[self.workers, :, self.labels]
        probability = (model.posterior_[self.tasks] * foretold).sum(axis=1)
        return float(-np.log(np.maximum(probability, 1e-12)).mean())


def held_out(votes: Annotations, share: float) -> Split | None:
    """Set a share of the labels aside, never all of a task or of a worker; None where none can be."""
    import numpy as np

    if share <= 0:
        return None
    tasks, workers, _ = votes.codes()
    drawn = np.random.default_rng(0).permutation(len(tasks))
    # The first label of each task and worker, in a random order, stays.
    stays = np.zeros(len(tasks), bool)
    for codes in (tasks, workers):
        stays[drawn[np.unique(codes[drawn], return_index=True)[1]]] = True
    free = drawn[~stays[drawn]]
    held = np.zeros(len(tasks), bool)
    held[free[: round(share * len(tasks))]] = True
    return Split(votes, held) if held.any() else None
