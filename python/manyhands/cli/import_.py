"""``manyhands import``: an export of a labeling tool in, a plain table out."""

from __future__ import annotations

from argparse import Namespace

from manyhands.cli.console import Stages, number, print_frame, print_json, print_summary, write
from manyhands.cli.options import (
    STDOUT,
    Commands,
    add_command,
    add_files,
    check_inputs,
    check_outputs,
    check_printed,
)


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "import",
        run,
        about="Convert an export of a labeling tool into a table: one answer per row, with worker, time and status.",
        examples="""
            project-1.json > answers.csv
            project-1.json --question mood -o mood.parquet --gold gold.csv
            'ann.jsonl' 'bob.jsonl' --from doccano -o answers.csv
        """,
    )
    add_files(parser)
    out = parser.add_argument_group("output", "CSV or Parquet, by the ending of the name")
    out.add_argument("-o", "--output", metavar="FILE", help="all answers to the question (default: CSV on stdout)")
    out.add_argument("--gold", metavar="FILE", help="the known answers in the export: task and answer")


def run(args: Namespace) -> None:
    """Read, choose a question, and write its answers."""
    from manyhands.io.exports import Export

    check_inputs(args)
    check_outputs([args.output, args.gold])
    check_printed(args, "answers")
    with Stages(args) as stages:
        with stages.stage("reading"):
            document = args.opened.document
        if document is None:
            raise ValueError(f"{args.log[0]} is already a table with one answer per row; pass it to aggregate directly")
        table = document.to_frame(args.question, args.show) if isinstance(document, Export) else document
        gold = document.gold(args.question) if isinstance(document, Export) else None
        if args.gold is not None:
            if gold is None:
                raise ValueError("the export knows nothing of the truth: --gold has nothing to write")
            write(gold, args.gold)
        if not args.json or args.output not in (None, STDOUT):
            print_frame(args, table) if args.output in (None, STDOUT) else write(table, args.output)
    questions = document.questions if isinstance(document, Export) else {}
    facts = {
        "questions": ", ".join(f"{question} ({kind})" for question, kind in questions.items()),
        "answers": number(table.num_rows, "row"),
        "gold": "" if gold is None else number(gold.num_rows, "row"),
        "wrote": ", ".join(path for path in (args.output, args.gold) if path not in (None, STDOUT)),
        "time": str(stages),
    }
    if args.json:
        content = {"command": args.command, "log": args.log, "questions": questions, "n_rows": table.num_rows}
        print_json(args, content | {"seconds": stages.seconds})
        return
    print_summary(args, facts, stderr=args.output in (None, STDOUT) and args.shown != "table")
