"""``manyhands compare``: several methods on the same log."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from manyhands.cli.aggregate import summary_of_log
from manyhands.cli.console import Growing, Stages, duration, print_json, print_rows, print_summary
from manyhands.cli.kinds import add_kind, read_classes
from manyhands.cli.method_names import COMPARED, COMPARED_LARGE, METHODS, Truth, add_fit, check_gold, given_parameters
from manyhands.cli.options import (
    Commands,
    add_command,
    add_log,
    add_truth,
    amount,
    check_inputs,
    names_of,
    read_truth,
    use_threads,
)

if TYPE_CHECKING:
    from manyhands import Annotations
    from manyhands.categorical.base import Aggregator

#: Asks for every method.
ALL = "all"
#: Annotations from which on fewer methods are compared by default.
LARGE = 1_000_000
_SCORES = ("accuracy", "balanced_accuracy", "log_loss", "calibration_error")


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "compare",
        run,
        about="Run several methods on a log; report held-out log-loss, where they agree "
        "and, given the truth, how good they are.",
        examples="""
            log.csv
            log.csv --gold gold.csv
            log.parquet --evaluate truth.csv --methods majority,dawid-skene --held-out 0
            log.csv --methods all
        """,
    )
    add_log(parser)
    add_kind(parser)
    add_fit(parser, choose=False)
    add_truth(parser, gold="labels to measure the answers by; with --evaluate, labels to hold fixed in the fit")
    others = ", ".join(name for name in METHODS if name not in COMPARED)
    parser.add_argument(
        "--methods",
        type=names_of((ALL, *METHODS)),
        metavar="A,B,…",
        help=f"what to run (default: {','.join(COMPARED)}; with more than {LARGE:.0e} annotations only "
        f"{','.join(COMPARED_LARGE)}; also {others}; {ALL} runs every one that takes the log); "
        "--set goes to those that have the parameter",
    )
    parser.add_argument(
        "--held-out",
        type=amount,
        default=0.1,
        metavar="SHARE",
        help="share of labels held out of a second fit, to measure log-loss (default: 0.1; 0: no second fit)",
    )


def run(args: Namespace) -> None:
    """Read once, fit every method, and show the results side by side."""
    import numpy as np

    check_inputs(args, args.gold, args.evaluate)
    if args.held_out >= 1:
        raise ValueError(f"--held-out must be below 1, not {args.held_out:g}")
    everything = args.methods is not None and ALL in args.methods
    methods = {name: METHODS[name] for name in (METHODS if everything else args.methods or COMPARED)}
    # Answers to tasks whose label is held fixed would all be right: that takes other labels to measure by.
    fixed = args.gold if args.evaluate is not None else None
    measure_by = args.evaluate or args.gold
    parameters = given_parameters(args, methods)
    check_gold(fixed, methods)
    use_threads(args)
    results: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    labels = []
    with Stages(args, transient=True) as stages:
        with stages.stage("reading"):
            votes = read_classes(args)
            if fixed is not None:
                parameters["gold"] = read_truth(args, fixed, votes)
            truth_read = read_truth(args, measure_by, votes)
            truth = None if truth_read is None else Truth(votes, truth_read, measure_by)
            split = held_out(votes, args.held_out)
        large = args.methods is None and votes.n_annotations > LARGE
        if large:
            methods = {name: METHODS[name] for name in COMPARED_LARGE}
        table = _Shown(args, methods, scores=truth is not None, foretold=split is not None)
        for name, method in methods.items():
            model = method.build(parameters)
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
                    scores["held_out_loss"] = split.loss(method.build(parameters | {"gold": None}))
            fit = {"method": name, "n_iter": model.n_iter_, "converged": model.converged_}
            results.append(fit | {"seconds": stages.seconds[name]} | scores)
            stages.aside(partial(table.row, results[-1], float(np.mean(labels[0] == labels[-1]))))
    agreement = [[float(np.mean(one == other)) for other in labels] for one in labels]
    if args.json:
        content = {"command": args.command, "log": args.log, "n_tasks": votes.n_tasks, "methods": results}
        content["left_out"] = left_out
        print_json(args, content | {"agreement": agreement, "seconds": stages.seconds})
        return
    table.finish()
    over = "" if truth is None else f"{len(truth.index):,} tasks"
    unseen = "" if split is None else f"{split.n_held:,} labels, log-loss in nats each"
    facts = {"log": summary_of_log(votes), "truth": over, "held out": unseen, "time": _times(stages, methods)}
    facts["methods"] = f"fewer than usual, as the log is large; --methods {','.join(COMPARED)}" if large else ""
    print_summary(args, facts | {f"no {name}": reason for name, reason in left_out.items()})


class _Shown:
    """The results on stdout, a row as soon as a method has finished; nothing where they are asked for as JSON."""

    def __init__(self, args: Namespace, methods: Collection[str], *, scores: bool, foretold: bool) -> None:
        self._args = args
        self._scores = (*(_SCORES if scores else ()), *(("held_out_loss",) if foretold else ()))
        names = (score.replace("_", " ") for score in self._scores)
        self._columns = ("method", "passes", "time", *names, f"same label as {next(iter(methods))}")
        likes: list[list[Any]] = [[*methods], ["9,999"], ["99.9 ms"]]
        likes += [[9.999] for _ in (*self._scores, "same")]
        self._table = Growing(self._columns, likes) if args.shown != "csv" else None
        self._rows = 0

    def row(self, result: dict[str, Any], same: float) -> None:
        """Show a row."""
        if self._args.json:
            return
        scores = [result[score] for score in self._scores]
        if self._table is not None:
            self._table.row((result["method"], result["n_iter"], duration(result["seconds"]), *scores, same))
            return
        row = (result["method"], result["n_iter"], result["seconds"], *scores, same)
        print_rows(self._args, ("method", "passes", "seconds", *self._scores, "same") if not self._rows else (), [row])
        self._rows += 1

    def finish(self) -> None:
        """Show the columns that did not fit into the table."""
        if self._table is not None:
            self._table.finish()


def _times(stages: Stages, methods: Collection[str]) -> str:
    """Return what took how long, all methods together: the table has the time of each."""
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
            # Warnings were given for the whole log.
            warnings.simplefilter("ignore")
            model.fit(self.seen)
        probabilities = model.confusion_[self.workers, :, self.labels]
        probability = (model.posterior_[self.tasks] * probabilities).sum(axis=1)
        return float(-np.log(np.maximum(probability, 1e-12)).mean())


def held_out(votes: Annotations, share: float) -> Split | None:
    """Set a share of the labels aside, never all of a task or of a worker; None where none can be."""
    import numpy as np

    if share <= 0:
        return None
    tasks, workers, _ = votes.codes()
    order = np.random.default_rng(0).permutation(len(tasks))
    # The first label of each task and worker, in a random order, stays.
    stays = np.zeros(len(tasks), bool)
    for codes in (tasks, workers):
        stays[order[np.unique(codes[order], return_index=True)[1]]] = True
    free = order[~stays[order]]
    is_held_out = np.zeros(len(tasks), bool)
    is_held_out[free[: round(share * len(tasks))]] = True
    return Split(votes, is_held_out) if is_held_out.any() else None
