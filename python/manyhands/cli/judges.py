"""``manyhands judges``: what a panel of LLM judges shows, and whether it passes the limits of a build."""

from __future__ import annotations

import argparse
import json
import math
import sys
from argparse import Namespace
from typing import Any

from manyhands.cli.console import Stages, number, print_facts, print_table, write
from manyhands.cli.options import STDOUT, Columns, Commands, add_command, check_outputs, use_threads

#: Columns that can be named.
_ROLES = (
    "task",
    "judge",
    "verdict",
    "system",
    "criterion",
    "position",
    "length",
    "family",
    "cluster",
    "stratum",
    "time",
)
#: Rows of judges, and biases, on a screen.
_SHOWN, _MOST = 30, 5
#: Exit code of a finding: a limit does not hold.
_FINDING = 1


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "judges",
        run,
        about="Measure a panel of LLM judges: scores with intervals, independent judges, biases, limits for a build.",
        examples="""
            verdicts.csv --gold human.csv -o judges.html
            verdicts.csv --gold human.csv --compare system --min-score .8 --max-width .05
            runs/*.eval --gold human.csv --json judges.json
        """,
        json_file=True,
    )
    log = parser.add_argument_group("the verdicts")
    log.add_argument(
        "log",
        nargs="+",
        metavar="LOG",
        help="one verdict per row in CSV, Parquet or JSON files, or logs of evaluation tools; several or a glob",
    )
    log.add_argument("--gold", metavar="FILE", help="human labels of a random sample of the items: task and label")
    log.add_argument(
        "--compare", metavar="COLUMN", help="column of the systems or versions that were judged; scores each of them"
    )
    log.add_argument("--positive", metavar="CLASSES", help="classes that count as a pass, comma-separated")
    log.add_argument(
        "--values", type=_values, metavar="CLASS=X,…", help="what classes count for: correct=1,partial=.5,incorrect=0"
    )
    log.add_argument("--scale", type=_scale, metavar="LOW,HIGH", help="least and largest score (default: in the log)")
    log.add_argument(
        "--kind",
        choices=("categorical", "numeric"),
        help="take classes or numbers as verdicts (default: numbers if all are, classes where a log has both)",
    )
    log.add_argument(
        "--layout",
        choices=("long", "wide", "by-worker", "by-task"),
        default="long",
        help="one verdict per row (long, the default), one column per judge (wide), or a JSON object {judge: {task: "
        "verdict}} (by-worker) or {task: {judge: verdict}} (by-task)",
    )
    column_names: Any = log.add_argument(
        "--columns",
        action=Columns,
        dest="columns",
        default={},
        metavar="ROLE=COLUMN,…",
        help=f"columns that are not found by themselves: {', '.join(_ROLES)}",
    )
    column_names.roles |= set(_ROLES)
    limits = parser.add_argument_group("limits (exit code 1 if one does not hold)")
    limits.add_argument("--min-effective", type=float, metavar="N", help="least effective number of judges")
    limits.add_argument("--max-width", type=float, metavar="X", help="largest half-width of the interval of a score")
    limits.add_argument("--min-score", type=float, metavar="X", help="least lower end of the interval of a score")
    out = parser.add_argument_group("output")
    out.add_argument("-o", "--output", metavar="FILE", help="write one HTML page")
    out.add_argument("--markdown", metavar="FILE", help="write a summary for a pull request ('-': to stdout)")
    out.add_argument("--fused", metavar="FILE", help="write the panel's verdict on each item as CSV or Parquet")
    out.add_argument("--next", metavar="FILE", help="write the items that people should label next")
    out.add_argument("--next-labels", type=int, default=50, metavar="N", help="how many of these (default: 50)")
    out.add_argument("--seed", type=int, default=0, metavar="N", help="seed of permutations and samples (default: 0)")


def run(args: Namespace) -> int:
    """Read, measure, write, and check limits; returns the exit code."""
    _check(args)
    use_threads(args)
    with Stages(args) as stages:
        with stages.stage("reading"):
            from manyhands.judges import panel

            outcome = panel(
                args.log,
                gold=args.gold,
                **args.columns,
                kind=args.kind,
                positive=None if args.positive is None else args.positive.split(","),
                values=args.values,
                scale=args.scale,
                layout=args.layout,
                seed=args.seed,
            )
        with stages.stage("measuring"):
            from manyhands.judges.page import write_page
            from manyhands.judges.summary import as_dict, failed_gates, markdown

            gates = failed_gates(
                outcome,
                min_effective=args.min_effective,
                max_width=args.max_width,
                min_score=args.min_score,
                compared=args.compare is not None,
            )
            content = as_dict(outcome, next_labels=args.next_labels) | {"passed": not gates, "findings": gates}
        with stages.stage("writing"):
            if args.output is not None:
                write_page(content, args.output)
            if args.fused is not None:
                write(outcome.fused_frame(), args.fused)
            if args.next is not None:
                write(outcome.next_labels(args.next_labels).frame, args.next)
            _write_text(args.json_file, json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n")
            _write_text(args.markdown, markdown(content, gates))
    if STDOUT not in (args.json_file, args.markdown) and not args.quiet:
        _show(args, content, stages)
    if gates:
        print(f"fails: {gates[0]}{f' (and {len(gates) - 1} more)' if len(gates) > 1 else ''}", file=sys.stderr)
    return _FINDING if gates else 0


def _check(args: Namespace) -> None:
    """Raise before any work where arguments contradict each other or files cannot be read or written."""
    if args.shown == "csv":
        raise ValueError("--format csv does not apply to judges; write tables with --fused or --next")
    if args.shown == "json" and args.json_file is None:
        args.json_file = STDOUT
    if args.compare is not None:
        if args.columns.get("system", args.compare) != args.compare:
            raise ValueError("--compare and --columns system=… name two columns")
        args.columns = args.columns | {"system": args.compare}
    if (args.min_score is not None or args.max_width is not None) and args.gold is None:
        raise ValueError("--min-score and --max-width need human labels: --gold FILE")
    if args.output is not None and not args.output.lower().endswith((".html", ".htm")):
        raise ValueError(f"-o writes an HTML page; its name must end in .html, not {args.output!r}")
    if args.json_file == STDOUT and args.markdown == STDOUT:
        raise ValueError("--json and --markdown cannot both go to stdout; name a file for one of them")
    from manyhands._base.atomic import protect
    from manyhands._base.sources import expand

    inputs = expand([*args.log, *([] if args.gold is None else [args.gold])])
    protect(path for path in inputs if path.is_file())
    files = [None if path == STDOUT else path for path in (args.json_file, args.markdown)]
    check_outputs([args.fused, args.next], others=[args.output, *files])


def _values(text: str) -> dict[str, float]:
    outcome = {}
    for part in text.split(","):
        name, _, value = part.rpartition("=")
        if not name:
            raise argparse.ArgumentTypeError(f"must be such as pass=1,fail=0, not {text!r}")
        outcome[name.strip()] = float(value)
    return outcome


def _scale(text: str) -> tuple[float, float]:
    ends = [float(part) for part in text.split(",")]
    if len(ends) != 2 or not all(map(math.isfinite, ends)) or ends[0] >= ends[1]:
        raise argparse.ArgumentTypeError(f"must be such as 1,5, not {text!r}")
    return ends[0], ends[1]


def _write_text(path: str | None, text: str) -> None:
    if path is None:
        return
    if path == STDOUT:
        sys.stdout.write(text)
        return
    from manyhands._base.atomic import atomic_write

    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8")


def _show(args: Namespace, content: dict[str, Any], stages: Stages) -> None:
    """Print the summary and the table of judges."""
    from manyhands.judges.summary import difference_text, drift_text, drifts, name_of, number_text, plan_text

    facts = {
        "log": f"{number(content['n_verdicts'], 'verdict')} of {number(len(content['judges']), 'judge')} on "
        f"{number(content['n_items'], 'item')}; {number(content['n_failed'], 'verdict')} could not be read",
        "gold": number(content["n_gold"], "human label"),
    }
    for row in content["scores"] or []:
        facts[f"score {name_of(row)}".strip()] = (
            "too few human labels"
            if row["estimate"] is None
            else f"{row['estimate']:.3f}, 95 % interval {row['low']:.3f}–{row['high']:.3f}; {row['n_gold']:,} human "
            f"labels worth {row['worth_labels']:.0f}"
        )
    if content["scores"] is None:
        facts["score"] = content["why_no_scores"]
    for part in content["panels"]:
        where = "" if part["criterion"] is None else f" {part['criterion']}"
        for each in part.get("differences", []):
            name, _, interval = difference_text(each).partition(": ")
            facts[f"{name}{where}"] = interval
        if part["effective_judges"] is not None:
            facts[f"effective{where}"] = f"{number_text(part['effective_judges'])} judges count as independent"
        if part["families"]:
            facts[f"families{where}"] = "; ".join(", ".join(family) for family in part["families"])
        if part["next_labels"] is not None:
            facts[f"next{where}"] = plan_text(part["next_labels"])
    biased = [row for row in content["biases"] if row["found"]][:_MOST]
    if biased:
        facts["biases"] = "; ".join(
            f"{name_of(row)} by {row['bias']} {row['effect']:+.3f} ({row['low']:+.3f} to {row['high']:+.3f})"
            for row in biased
        )
    if drifts(content):
        facts["drift"] = "; ".join(drift_text(row) for row in drifts(content)[:_MOST])
    files = [path for path in (args.output, args.json_file, args.markdown, args.fused, args.next) if path is not None]
    facts |= {"wrote": ", ".join(files), "time": str(stages)}
    print_facts(facts)
    names = [
        "judge",
        "n_verdicts",
        "n_failed",
        "accuracy",
        "correlation",
        "low",
        "high",
        "bias",
        "bias_low",
        "bias_high",
    ]
    rows = content["judge_table"][:_SHOWN]
    names = [name for name in names if any(row.get(name) is not None for row in rows)]
    print_table(names, [["–" if row.get(name) is None else row[name] for name in names] for row in rows])
