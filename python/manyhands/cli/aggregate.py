"""``manyhands aggregate``: a log in, one answer per task out."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from manyhands._base.checks import plural
from manyhands._base.known import Known, measures_of
from manyhands._base.sources import Layout
from manyhands._base.verdict import Doubts, name_doubt, state_expected
from manyhands.categorical.table import Annotations
from manyhands.cli.console import Stages, number, print_frame, print_json, print_summary, write, write_parts
from manyhands.cli.kinds import CLASSES, add_kind, read_log, settle_kind
from manyhands.cli.method_names import Truth, add_fit, add_panel, chosen_method
from manyhands.cli.options import (
    LAYOUT,
    STDOUT,
    Commands,
    add_command,
    add_log,
    add_out_of_core,
    add_truth,
    check_inputs,
    check_outputs,
    check_printed,
    read_truth,
    use_threads,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from manyhands._base.kind import KindSpec
    from manyhands._base.table import Records
    from manyhands.io.exports.preannotations import Preannotations


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "aggregate",
        run,
        about="Aggregate a log: one answer per task with its confidence, and the skill of each worker.",
        examples="""
            log.csv > labels.csv
            log.parquet --method dawid-skene --set max_iter=50 -o labels.parquet --workers workers.csv
            'logs/*.csv.gz' --task item --columns weight=w --evaluate truth.csv -o labels.csv
            project-1.json --question mood -o labels.csv --preannotations pre.json
            huge.parquet --out-of-core --memory 4GB -o labels.parquet
        """,
    )
    add_log(parser)
    add_kind(parser)
    add_out_of_core(parser)
    add_fit(parser)
    add_panel(parser)
    add_truth(parser)
    out = parser.add_argument_group("output", "CSV or Parquet, by the ending of the name")
    out.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="answers; for classes task, label, confidence, tied (default: CSV on stdout)",
    )
    out.add_argument("--workers", metavar="FILE", help="one row per worker: n_answers, skill, …")
    parser.rare.add(
        out.add_argument(
            "--preannotations",
            metavar="FILE",
            help="the answers for the platform that an export came from: predictions for Label Studio (.json), "
            "suggestions for Argilla (.json, .jsonl)",
        )
    )
    out.add_argument("--save", metavar="FILE", help="the fitted model, for manyhands.load in Python")


def run(args: Namespace) -> None:
    """Read, fit, write, and report."""
    check_inputs(args, args.gold, args.evaluate)
    check_outputs([args.output, args.workers], others=[args.save, args.preannotations])
    settle_kind(args)
    check_known(args)
    check_printed(args, "labels")
    back = _preannotations(args)
    with Stages(args) as stages:
        votes, model, truth = read_and_fit(args, stages, args.evaluate)
        with stages.stage("writing"):
            counter = Seen(votes.spec)
            piped = args.output in (None, STDOUT)
            if piped:
                labels = _answers(args, model, votes)
                counter.look(labels)
            elif votes.in_shards:
                write_parts(map(counter.look, model._frames()), args.output)
            else:
                write(counter.look(_answers(args, model, votes)), args.output)
            if args.workers is not None:
                write(model.workers_frame(), args.workers)
            if args.save is not None:
                model.save(args.save)
            if back is not None:
                back.write(model, args.preannotations)
        scores = None if truth is None else truth.measure(model)
        forget(votes)
    outputs = (args.output, args.workers, args.save, args.preannotations)
    if args.json:
        content = report(args, votes, model, stages) | ({"n_tied": counter.n_tied} if args.kind == CLASSES else {})
        content["evaluation"] = scores
        content["files"] = [path for path in outputs if path is not None]
        print_json(args, content | ({"labels": labels.to_pylist()} if piped else {}))
        return
    if piped:
        with stages.stage("writing"):
            print_frame(args, labels)
    if not args.quiet:
        files = ", ".join(path for path in outputs if path not in (None, STDOUT))
        facts = {
            "log": summary_of_log(votes),
            "repeats": summary_of_repeats(args, votes),
            "answers": counter.summary(args.output),
            "gold": summary_of_gold(model),
            "fit": summary_of_fit(args, model),
            "errors": summary_of_errors(model),
        }
        facts |= {"truth": summary_of_scores(truth, scores), "wrote": files, "time": str(stages)}
        print_summary(args, facts, stderr=piped and args.shown != "table")


def _answers(args: Namespace, model: Any, votes: Any) -> pa.Table:
    """Return the answers in the form of the input: spans for an export of spans."""
    from manyhands.io.exports import Export
    from manyhands.io.shown import with_shown

    spans = args.kind == "sequences" and isinstance(args.opened.document, Export)
    return with_shown(model.spans_ if spans else model.to_frame(), votes)


def _preannotations(args: Namespace) -> Preannotations | None:
    """Return the export to write answers back to, after checking it; None if there is none."""
    if args.preannotations is None:
        return None
    from manyhands.io.exports.preannotations import Preannotations

    if len(args.log) > 1:
        raise ValueError("pre-annotations are written for one export; the log is several files")
    back = Preannotations(args.log[0], question=args.question)
    back.check(args.preannotations)
    return back


def check_known(args: Namespace) -> None:
    """Raise if the kind of the log takes no known answers to measure by."""
    if args.evaluate and args.kind != CLASSES:
        measures_of(args.kind)


def read_and_fit(args: Namespace, stages: Stages, evaluate: str | None = None) -> tuple[Any, Any, Truth | Known | None]:
    """Read the log, gold labels and the truth, if any, and fit the chosen method."""
    build = chosen_method(args)
    use_threads(args)
    with stages.stage("reading"):
        votes: Any = read_log(args)
        model = build(known_of(args, votes))
        truth: Truth | Known | None = None
        if evaluate is not None and args.kind != CLASSES:
            truth = known_answers(args, votes, evaluate)
        elif (truth_read := read_truth(args, evaluate, votes)) is not None:
            truth = Truth(votes, truth_read, str(evaluate))
    with stages.stage("fitting", model._iterations()) as progress:
        model.fit(votes, progress=progress or False)
    return votes, model, truth


def known_of(args: Namespace, votes: Any) -> Any:
    """Known answers that the method learns from: those of classes are read here, of other kinds by the method."""
    if args.kind == CLASSES or args.gold is None:
        return read_truth(args, args.gold, votes)
    if args.evaluate is None and (args.truth_task or args.truth_label):
        raise ValueError(
            f"--truth-task and --truth-label are for --evaluate where answers are {args.kind}; name the columns of "
            f"{args.gold} as those of the log"
        )
    return args.gold


def known_answers(args: Namespace, votes: Any, path: str) -> Known:
    """Known answers to a log that is not of classes, from a file."""
    layout = Layout(*(getattr(args, name) for name in LAYOUT))
    return Known(path, layout, votes, task=args.truth_task, label=args.truth_label)


def report(args: Namespace, votes: Any, model: Any, stages: Stages) -> dict[str, Any]:
    """Return the summary of a fit as plain data."""
    sizes = ("n_annotations", "n_tasks", "n_items", "n_workers", "n_classes")
    return {
        "command": args.command,
        "log": [str(path) for path in args.log],
        "kind": args.kind,
        **{name: getattr(votes, name) for name in sizes if hasattr(votes, name)},
        **({} if (repeats := _repeats(votes)) is None else {"n_repeats": repeats}),
        **({"n_unlabelled": len(votes.unlabelled)} if hasattr(votes, "unlabelled") else {}),
        "method": args.method,
        "n_iter": model.n_iter_,
        "converged": model.converged_,
        "objective": model.objective_,
        "remarks": list(model.remarks_),
        **correlation_of(model),
        "seconds": stages.seconds,
    }


def correlation_of(model: Any) -> dict[str, Any]:
    """Return the estimated correlation of errors, by name; empty if the model has none."""
    names = ("correlation", "correlation_error", "discount", "panel")
    return {name: getattr(model, f"{name}_") for name in names if hasattr(type(model), f"{name}_")}


def summary_of_log(votes: Records) -> str:
    """Summarize the size of a log."""
    if not isinstance(votes, Annotations):
        return repr(votes).strip("<>").partition(": ")[2]
    lost = f" (and {number(len(votes.unlabelled), 'task')} without a label)" if len(votes.unlabelled) else ""
    return (
        f"{number(votes.n_annotations, 'annotation')} of {number(votes.n_tasks, 'task')}{lost} "
        f"by {number(votes.n_workers, 'worker')}, {number(votes.n_classes, 'class', 'classes')}"
    )


def _repeats(votes: Records) -> int | None:
    """Count answers to a task by a worker who answered it before; None where several are one answer, as of boxes."""
    table: Any = votes._table
    return table.n_repeats() if hasattr(table, "n_repeats") and votes.kind != "boxes" else None


def summary_of_repeats(args: Namespace, votes: Records) -> str:
    """Summarize repeated answers of a worker to a task."""
    repeats = _repeats(votes)
    if not repeats or args.repeats != "keep":
        return ""
    return f"{number(repeats, 'further answer')} by a worker to the same task, all counted (--repeats first or last)"


def summary_of_fit(args: Namespace, model: Any) -> str:
    """Summarize iterations and convergence."""
    if not len(model.history_):
        return f"{args.method}, {number(model.n_iter_, 'iteration')}"
    end = "converged" if model.converged_ else "not converged"
    return f"{args.method}, {end} after {number(model.n_iter_, 'iteration')}, objective {model.objective_:,.1f}"


def summary_of_errors(model: Any) -> str:
    """Summarize the correlation of errors and what confidences assume about it."""
    if not hasattr(type(model), "assumption_"):
        return ""
    assumption = str(model.assumption_).replace("panel=True", "--panel").replace("panel=False", "--no-panel")
    dependence = correlation_of(model)
    if "correlation" not in dependence:
        return assumption
    error = f" ± {dependence['correlation_error']:.2f}" if dependence["correlation_error"] else ""
    return f"correlation {dependence['correlation']:.2f}{error} on a task; {assumption}"


def summary_of_gold(model: Any) -> str:
    """Summarize how many known classes corrected the answers."""
    n = getattr(model, "n_gold_", 0)
    return f"{number(n, 'known answer')} corrected the others" if n else ""


class Seen:
    """Confidences of answers, counted as they are written."""

    def __init__(self, spec: KindSpec) -> None:
        self.n_tied = 0
        self._spec = spec
        self._unit = spec.unit or "answer"
        self._doubts = Doubts()

    def look(self, answers: pa.Table) -> pa.Table:
        """Count the answers of a table, if their confidence is a probability, and return the table."""
        column = next((name for name in ("confidence", "probability") if name in answers.column_names), None)
        if self._spec.reliability or column is None:
            return answers
        from manyhands._base.arrow import to_numpy

        if "position" in answers.column_names:
            self._unit = "token"
        if "tied" in answers.column_names:
            self.n_tied += int(to_numpy(answers.column("tied")).sum())
        self._doubts.add(to_numpy(answers.column(column)))
        return answers

    def summary(self, output: str | None) -> str:
        """State how many answers to trust, and which ones to review."""
        if not self._doubts.n():
            return ""
        ties = f"; {number(self.n_tied, 'tie')}" if self.n_tied else ""
        verdict = state_expected(self._spec, self._doubts.mean(), self._doubts.n(), self._unit).rstrip(".")
        verdict = verdict.replace("\N{NO-BREAK SPACE}", " ")
        n_review, below = self._doubts.half()
        if not n_review:
            return verdict + ties
        where = f" in {output}" if output not in (None, STDOUT) else ""
        review, hold = (f"{n_review:,}", "they hold") if n_review > 1 else ("one", "it holds")
        return (
            f"{verdict}; review the {review} with a confidence below {below:.2f}{where}: "
            f"{hold} half of the {name_doubt(self._spec)}{ties}"
        )


def forget(votes: Annotations) -> None:
    """Delete the files that would have resumed an interrupted run."""
    if votes.in_shards:
        votes.forget()


def summary_of_scores(truth: Truth | Known | None, scores: dict[str, Any] | None) -> str:
    """Summarize the accuracy of labels, where the truth is known."""
    if truth is None or scores is None:
        return ""
    if isinstance(truth, Known):
        return summary_of_measures(scores)
    beyond = truth.n_given - scores["n_tasks"]
    others = f" ({beyond:,} more are not in the log)" if beyond else ""
    return (
        f"accuracy {scores['accuracy']:.4f} at a mean confidence of {scores['confidence']:.4f}, "
        f"balanced {scores['balanced_accuracy']:.4f}, "
        f"log-loss {scores['log_loss']:.4f}, calibration error {scores['calibration_error']:.4f} "
        f"over {number(scores['n_tasks'], 'task')}{others}"
    )


def summary_of_measures(scores: Mapping[str, Any]) -> str:
    """Summarize the metrics of answers in a line."""
    texts = [f"{name.replace('_', ' ')} {value:.4f}" for name, value in scores.items() if isinstance(value, float)]
    what, n = next((name, value) for name, value in scores.items() if name in ("n_tasks", "n_items"))
    return f"{', '.join(texts)} over {plural(n, what[2:-1])}"
