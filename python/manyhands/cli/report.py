"""``manyhands report``: write an HTML page about a log."""

from __future__ import annotations

from argparse import Namespace

from manyhands._base.known import Known
from manyhands.cli.aggregate import check_known, read_and_fit, report, summary_of_fit, summary_of_log
from manyhands.cli.console import Stages, print_content, print_json, print_summary
from manyhands.cli.kinds import add_kind, settle_kind
from manyhands.cli.method_names import Truth, add_fit
from manyhands.cli.options import Commands, add_command, add_log, add_truth, check_inputs, check_outputs


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "report",
        run,
        about="Write an HTML page about a log: verdict, tasks to review, workers, agreement, limits.",
        examples="""
            log.parquet -o report.html
            log.csv --evaluate truth.csv --title 'Birds, May' -o report.html
        """,
    )
    add_log(parser)
    add_kind(parser)
    add_fit(parser)
    add_truth(parser)
    out = parser.add_argument_group("output")
    out.add_argument("-o", "--output", metavar="FILE", default="report.html", help="the page (default: report.html)")
    out.add_argument("--title", metavar="TEXT", help="title of the page")
    out.add_argument(
        "--no-audit", dest="audit", action="store_false", help="do not search for spammers, copies and colluders"
    )


def run(args: Namespace) -> None:
    """Read, fit, and write the page."""
    check_inputs(args, args.gold, args.evaluate)
    check_outputs([], others=[args.output])
    settle_kind(args)
    check_known(args)
    with Stages(args) as stages:
        votes, model, truth = read_and_fit(args, stages, args.evaluate)
        with stages.stage("writing"):
            from manyhands.report import write_report

            gold = (votes.tasks[truth.index], truth.classes) if isinstance(truth, Truth) else None
            files = write_report(
                model,
                args.output,
                votes=votes,
                gold=gold,
                scores=truth.measure(model) if isinstance(truth, Known) else None,
                audit=args.audit,
                title=args.title,
                source=[str(path) for path in args.log],
                notes=args.warnings,
            )
    content = report(args, votes, model, stages) | {"files": [str(path) for path in files]}
    if args.json:
        print_json(args, content)
    elif args.shown == "csv":
        print_content(args, content)
    else:
        wrote = ", ".join(map(str, files))
        facts = {"log": summary_of_log(votes), "fit": summary_of_fit(args, model), "wrote": wrote, "time": str(stages)}
        print_summary(args, facts)
