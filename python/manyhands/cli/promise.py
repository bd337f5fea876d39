"""``manyhands promise``: answers to deliver at a tested error rate, and a plan for the rest."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from manyhands.cli.aggregate import known_answers, read_and_fit, report, summary_of_fit, summary_of_log
from manyhands.cli.console import Stages, number, print_frame, print_json, print_summary, write
from manyhands.cli.kinds import CLASSES, add_kind, settle_kind
from manyhands.cli.method_names import add_fit
from manyhands.cli.options import (
    STDOUT,
    Commands,
    add_command,
    add_log,
    add_truth,
    amount,
    check_inputs,
    check_outputs,
    check_printed,
    read_team,
    read_truth,
)

#: The column of known answers, by kind; other kinds have a column ``right``, true or false.
_ANSWERS = {"numeric": "value", "multilabel": "labels", "texts": "text"}
_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "promise",
        run,
        about="Split answers into those to deliver at a tested error rate and the rest, and plan who answers these.",
        examples="""
            log.csv --gold known.csv --error .05 --confidence .9 -o kept.csv --rest rest.csv
            log.csv --gold known.csv --ask team.csv --budget 200 -o kept.csv --plan plan.csv
        """,
    )
    add_log(parser)
    add_kind(parser)
    promise = parser.add_argument_group("the promise")
    promise.add_argument("--error", type=float, default=0.05, metavar="X", help="error rate to promise (default: 0.05)")
    promise.add_argument(
        "--confidence", type=float, default=0.9, metavar="X", help="probability that it is kept (default: 0.9)"
    )
    within = promise.add_argument(
        "--within", type=amount, metavar="X", help="numbers: the largest distance from the known one that is right"
    )
    promise.add_argument(
        "--ask",
        metavar="WORKERS",
        help="who can answer the rest: 'all' workers of the log, or a CSV or Parquet file with the columns worker, "
        "capacity, cost, accuracy (the last three may be left out)",
    )
    promise.add_argument("--budget", type=amount, metavar="N", help="the most that the plan may cost")
    parser.rare |= {within}
    add_fit(parser)
    add_truth(parser, evaluate=False, gold="known answers of a random sample of the tasks; the fit does not use them")
    out = parser.add_argument_group("output")
    out.add_argument(
        "-o", "--output", metavar="FILE", help="kept answers as CSV or Parquet, by the ending (default: CSV on stdout)"
    )
    out.add_argument("--rest", metavar="FILE", help="the tasks that are not kept")
    out.add_argument("--plan", metavar="FILE", help="who answers each of them, at which cost (needs --ask)")
    out.add_argument("--sets", metavar="FILE", help="classes: a set per task that contains the right class")


def run(args: Namespace) -> None:
    """Read, fit, test thresholds, and write."""
    if args.gold is None:
        raise ValueError("a promise needs known answers: --gold FILE (see manyhands promise --help)")
    if args.ask is None and (args.plan is not None or args.budget is not None):
        raise ValueError("--plan and --budget need --ask, naming who can answer the rest")
    team = None if args.ask in (None, "all") else args.ask
    gold_path, args.gold = args.gold, None
    check_inputs(args, gold_path, team)
    check_outputs([args.output, args.rest, args.plan, args.sets])
    check_printed(args, "kept answers")
    if settle_kind(args) != CLASSES and args.sets is not None:
        raise ValueError(f"--sets is for classes; the log holds {args.kind} answers")
    from manyhands.collect import promise

    with Stages(args) as stages:
        votes, model, _ = read_and_fit(args, stages)
        with stages.stage("testing"):
            outcome = promise(
                model,
                _gold(args, gold_path, votes),
                args.error,
                args.confidence,
                match=args.within,
                options=args.ask if team is None else read_team(team, votes, "accuracy"),
                budget=args.budget,
            )
        piped = args.output in (None, STDOUT)
        with stages.stage("writing"):
            files = {args.rest: lambda: outcome.rest, args.plan: lambda: outcome.plan, args.sets: outcome.label_sets}
            if not piped:
                files[args.output] = lambda: outcome.kept
            for path, frame in files.items():
                if path is not None:
                    write(frame(), path)
    files_out = [path for path in (args.output, args.rest, args.plan, args.sets) if path not in (None, STDOUT)]
    names = ("threshold", "error_bound", "unseen_bound", "n_known", "n_tested", "n_wrong", "n_kept", "n_rest", "cost")
    if args.json:
        content = report(args, votes, model, stages) | {"error": args.error, "confidence": args.confidence}
        # Nothing is kept at an infinite threshold, which JSON has no number for.
        content |= {name: getattr(outcome, name) for name in names}
        by_class = {str(name): value for name, value in outcome.thresholds.items()}
        content |= {"threshold": outcome.threshold if outcome.n_kept else None, "thresholds": by_class}
        content |= {"files": files_out}
        print_json(args, content | ({"kept": outcome.kept.to_pylist()} if piped else {}))
        return
    if piped:
        print_frame(args, outcome.kept)
    facts = {"log": summary_of_log(votes), "fit": summary_of_fit(args, model)}
    facts |= {"promise": repr(outcome).strip("<>").removeprefix("Promise of ")}
    facts |= {"rest": number(outcome.n_rest, "task"), "wrote": ", ".join(files_out), "time": str(stages)}
    print_summary(args, facts, stderr=piped and args.shown != "table")


def _gold(args: Namespace, path: str, votes: Any) -> Any:
    """Known answers from a file."""
    if args.kind == CLASSES:
        pair = read_truth(args, path, votes)
        assert pair is not None
        here = votes._tasks.find(pair[0]) >= 0
        return pair[0][here], pair[1][here]
    truth = known_answers(args, votes, path)
    role = _ANSWERS.get(args.kind, "right")
    columns = truth.columns("task", role)
    names = {str(name): name for name in votes._tasks.values.tolist()}
    rows = [row for row, task in enumerate(columns["task"]) if str(task) in names]
    if not rows:
        raise ValueError(f"{path} knows none of the log's tasks")
    answers = [columns[role][row] for row in rows]
    if args.kind == "numeric":
        answers = truth.numbers(answers, "known values").tolist()
    elif args.kind == "multilabel":
        answers = [(answer.split("|") if answer else []) if isinstance(answer, str) else answer for answer in answers]
    elif role == "right":
        answers = [_verdict(answer, path) for answer in answers]
    return [names[str(columns["task"][row])] for row in rows], answers


def _verdict(text: Any, path: str) -> bool:
    word = str(text).strip().lower()
    if word not in (*_TRUE, *_FALSE):
        raise ValueError(f"{path}: the column right must hold true or false, not {text!r}")
    return word in _TRUE
