"""``manyhands audit``: quality and independence of workers."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from manyhands.cli.aggregate import summary_of_log
from manyhands.cli.console import Stages, number, print_facts, print_json, print_table, write
from manyhands.cli.kinds import add_kind, read_classes
from manyhands.cli.options import (
    STDOUT,
    Commands,
    add_command,
    add_log,
    check_inputs,
    check_outputs,
    check_printed,
    use_threads,
)

if TYPE_CHECKING:
    from manyhands import Annotations
    from manyhands.audit import Finding, Review

#: Names and pairs shown on the page; files have all.
_SHOWN = 5


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "audit",
        run,
        about="Audit workers: quality, spammers, colluders, copies, factions, drift.",
        examples="""
            log.parquet
            log.csv --order submitted_at -o workers.csv
            log.csv --clean clean.csv
            log.parquet --json
        """,
    )
    add_log(parser)
    add_kind(parser)
    order = parser.add_argument_group("the order")
    order.add_argument(
        "--dates",
        choices=("day-first", "month-first"),
        help="order of ambiguous dates such as 10.11.2025",
    )
    order.add_argument(
        "--order", metavar="COLUMN", help="column with the times of answers (numbers, dates, times); tests for drift"
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write one row per worker as CSV or Parquet, by the extension ('-': CSV on stdout)",
    )
    output.add_argument(
        "--clean",
        metavar="FILE",
        help="write the log without spammers, colluders, and all but one worker of each set of copies",
    )


def run(args: Namespace) -> None:
    """Read the log, audit it, and show one page."""
    check_inputs(args)
    if args.clean == STDOUT:
        raise ValueError("--clean needs the name of a file, because the audit is printed")
    check_outputs([args.output, args.clean])
    check_printed(args, "workers")
    use_threads(args)
    with Stages(args) as stages:
        with stages.stage("reading"):
            votes, order = _read(args)
        from manyhands import audit

        report = audit.review(votes, order=order, stages=stages.stage)
        if args.output not in (None, STDOUT) or args.clean:
            with stages.stage("writing"):
                if args.output not in (None, STDOUT):
                    write(report.frame(), args.output)
                if args.clean:
                    write(votes.without(report.workers).to_frame(), args.clean)
    if args.json:
        print_json(args, _content(args, report) | {"seconds": stages.seconds})
        return
    piped = args.output == STDOUT or args.shown == "csv"
    if piped:
        write(report.frame(), STDOUT)
        if args.quiet:
            return
    page = {"log": summary_of_log(votes)} | _page(report)  # the page is the result: quiet leaves out only the rest
    files = [path for path in (args.output, args.clean) if path not in (None, STDOUT)]
    wrote = "" if args.quiet else ", ".join(files)
    print_facts(page | {"wrote": wrote, "time": "" if args.quiet else str(stages)}, stderr=piped)
    if len(report.copies) and not piped:
        rows = report.copies.frame().slice(0, _SHOWN).to_pydict()
        print_table(list(rows), list(zip(*rows.values(), strict=True)), title="copies, the surest first")
    for remark in report.remarks:
        print_facts({"warning": remark}, stderr=piped)


def _read(args: Namespace) -> tuple[Annotations, Any]:
    """Read the log, and the times of its annotations if a column has them."""
    if args.order is None:
        return read_classes(args), None
    role = next((role for role in args.columns if role not in ("task", "worker", "label")), None)
    if role is not None:
        raise ValueError(f"--order and --columns {role}=… exclude each other: drift is estimated from plain labels")
    log: tuple[Annotations, Any] = args.opened.read_in_order(args.order, args.dates)
    return log


def _page(found: Review) -> dict[str, str]:
    """Summarize the result, one line per part."""
    value, depends, change = found.worth, found.dependence, found.change
    estimate = (
        "unknown (too few answers)"
        if depends.cannot_tell
        else f"correlation {depends.correlation:.2f} ±{depends.error:.2f}"
    )
    sizes = ", ".join(str(len(group)) for group in found.groups.groups[:_SHOWN])
    return {
        "worth": f"{found.n_carrying:,} of {number(len(value.names), 'worker')} contribute 95 % of the information: "
        f"{value.bits_per_task:.2f} bits per task, of {value.entropy:.2f} needed",
        "effective": _effective(found),
        "errors": estimate if depends.cannot_tell else f"{estimate} (probability of any: {depends.probability:.0%})",
        "spammers": _who(found.spammers),
        "colluders": _who(found.colluders),
        "copies": number(len(found.copies), "pair") if len(found.copies) else "none found",
        "factions": f"{number(len(found.groups), 'group')} of {sizes} workers" if len(found.groups) else "none found",
        "drift": "not tested; name the column of times with --order" if found.drift is None else _who(found.drift),
        "without": _without(found) if change.n_workers else "no worker to leave out",
    }


def _who(found: Finding) -> str:
    n, names = int(found.found.sum()), found.workers
    if not n:
        return "none found"
    first_names = ", ".join(str(name) for name in names[:_SHOWN].tolist())
    return f"{n:,} of {number(len(found.names), 'worker')}: {first_names}{', …' if n > _SHOWN else ''}"


def _without(found: Review) -> str:
    change = found.change
    unanswered = f"; {number(change.n_unanswered, 'task')} left without answers" if change.n_unanswered else ""
    return (
        "leaving out spammers, colluders and all but one of each set of copies, "
        f"{number(change.n_workers, 'worker')} and {change.share:.1%} of the labels, changes "
        f"{number(change.n_changed, 'answer')}{unanswered}; mean confidence "
        f"{change.before:.3f}, then {change.after:.3f} (--clean FILE writes the rest of the log)"
    )


def _content(args: Namespace, found: Review) -> dict[str, Any]:
    """Return everything as plain data."""
    parts = {"spammers": found.spammers, "colluders": found.colluders, "drift": found.drift}
    return {
        "command": args.command,
        "log": args.log,
        "workers": found.frame().to_pylist(),
        "bits_per_task": found.worth.bits_per_task,
        "bits_needed": found.worth.entropy,
        "carrying": found.n_carrying,
        "dependence": _dependence(found),
        **{name: None if part is None else part.workers.tolist() for name, part in parts.items()},
        "attacked_tasks": found.colluders.tasks.tolist(),
        "copies": found.copies.frame().to_pylist(),
        "groups": found.groups.groups,
        "without": vars(found.change),
        "remarks": list(found.remarks),
    }


def _effective(found: Review) -> str:
    """State the effective number of annotators."""
    effective = found.dependence.effective_annotators
    return (
        f"at most {effective.estimate:.1f} of {effective.n:.3g} annotators per task are independent (95 % bound "
        f"{effective.high:.1f}; known answers would measure it)"
    )


def _dependence(found: Review) -> dict[str, Any]:
    """The dependence of errors as plain data."""
    part = found.dependence
    names = ("correlation", "error", "probability", "cannot_tell", "remarks")
    return {name: getattr(part, name) for name in names} | {"effective_annotators": vars(part.effective_annotators)}
