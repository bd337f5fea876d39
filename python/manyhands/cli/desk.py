"""``manyhands desk``: decide doubtful tasks in a browser, and write what was decided."""

from __future__ import annotations

import argparse
import getpass
from argparse import Namespace
from pathlib import Path
from typing import Any

from manyhands.cli.aggregate import read_and_fit, report, summary_of_fit, summary_of_log
from manyhands.cli.console import Stages, number, print_json, print_summary
from manyhands.cli.kinds import add_kind, settle_kind
from manyhands.cli.method_names import add_fit
from manyhands.cli.options import STDIN, Commands, add_command, add_log, add_truth, amount, check_inputs, natural

#: Choices, repeated here: help must not wait for NumPy.
_CHOICES = ("information", "audit", "stratified")
_PARTS = ("gold", "labels", "trail", "label-studio", "argilla")


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "desk",
        run,
        about="Open a local page to decide doubtful tasks one by one, or write what was decided.",
        examples="""
            log.parquet --show text
            log.parquet --show file --images photos --port 8765 --no-browser
            log.parquet --export gold.csv
            log.parquet --export trail.csv --part trail
        """,
    )
    add_log(parser)
    add_kind(parser)
    desk = parser.add_argument_group("the desk")
    desk.add_argument("--port", type=_port, default=8765, metavar="N", help="port; 0 for a free one (default: 8765)")
    desk.add_argument(
        "--no-browser", dest="browser", action="store_false", help="print the address and do not open a browser"
    )
    desk.add_argument("--images", metavar="DIR", help="folder of image files that tasks show by name")
    desk.add_argument(
        "--next",
        dest="choose",
        choices=_CHOICES,
        metavar="HOW",
        help="next task: information (doubtful ones and a random quarter, the default), audit (random), stratified",
    )
    desk.add_argument(
        "--open", dest="blind", action="store_false", help="show votes and the aggregated answer before the decision"
    )
    journal = desk.add_argument(
        "--journal", metavar="DIR", help="folder of decisions (default: LOG with the ending .desk)"
    )
    share = desk.add_argument(
        "--audit", type=_share, metavar="X", help="share of random tasks for information (default: 0.25)"
    )
    seed = desk.add_argument("--seed", type=natural, metavar="N", help="seed of the random tasks (default: 0)")
    within = desk.add_argument(
        "--within", type=amount, metavar="X", help="numbers: the largest distance from the decision that is right"
    )
    title = desk.add_argument("--title", metavar="TEXT", help="title of the page (default: the name of the log)")
    parser.rare |= {journal, share, seed, within, title}
    out = parser.add_argument_group("output")
    out.add_argument(
        "--export", metavar="FILE", help="write the decisions so far and exit, also while the desk is open elsewhere"
    )
    out.add_argument(
        "--part",
        choices=_PARTS,
        default="gold",
        metavar="WHAT",
        help="what to export: gold (the default), labels of all tasks, trail, label-studio, argilla",
    )
    add_fit(parser)
    add_truth(parser, evaluate=False)


def run(args: Namespace) -> None:
    """Read, fit, and serve or export."""
    check_inputs(args, args.gold)
    settle_kind(args)
    folder = _folder(args)
    from manyhands.desk import Desk
    from manyhands.desk.export import check_export, export
    from manyhands.desk.serve import check_images, check_port, libraries, serve

    if args.export is not None:
        check_export(args.export, args.part)
        if not folder.is_dir():
            raise FileNotFoundError(f"there is no journal in {str(folder)!r}: nothing was decided yet")
    else:
        libraries()
        check_images(args.images)
        if not folder.exists():  # else an open desk on this log is the better explanation
            check_port(args.port)
    with Stages(args) as stages:
        votes, model, _ = read_and_fit(args, stages)
        with stages.stage("opening"):
            reading = args.export is not None
            desk = Desk(model, folder, votes=votes, read_only=reading, within=args.within, **_design(args, folder))
    with desk:
        if args.export is not None:
            n = export(desk, args.export, args.part, _source(args), args.question)
            if args.json:
                print_json(args, report(args, votes, model, stages) | {"n_written": n, "files": [args.export]})
                return
            facts = {"log": summary_of_log(votes), "wrote": f"{number(n, 'row')} to {args.export}"}
            print_summary(args, facts)
            return
        facts = {"log": summary_of_log(votes), "fit": summary_of_fit(args, model), "journal": _counts(desk)}
        print_summary(args, facts | {"time": str(stages)})
        title = args.title or Path(str(args.log[0])).name
        serve(
            desk,
            port=args.port,
            images=args.images,
            blind=args.blind,
            title=title,
            person=_user(),
            ready=lambda address: _announce(address, args.browser),
        )


def _announce(address: str, browser: bool) -> None:
    print(address, flush=True)
    if browser:
        import threading
        import webbrowser

        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _counts(desk: Any) -> str:
    progress = desk.progress()
    return f"{desk.folder} ({progress['n_decided']:,} of {number(progress['n_tasks'], 'task')} decided)"


def _design(args: Namespace, folder: Path) -> dict[str, Any]:
    """How tasks are sampled: as the arguments ask, else as the journal began."""
    from manyhands.desk import Journal

    header = Journal(folder, {}, read_only=True).header
    options = {name: getattr(args, name) for name in ("choose", "audit", "seed")}
    return {
        name: header.get(name) if value is None else value
        for name, value in options.items()
        if value is not None or name in header
    }


def _folder(args: Namespace) -> Path:
    """The folder of the journal: next to the log, with another ending."""
    if args.journal is not None:
        return Path(args.journal)
    first = str(args.log[0])
    if first in STDIN or any(letter in first for letter in "*?["):
        raise ValueError("name a folder for the journal with --journal: the log is not a single file")
    return Path(first.rstrip("/")).with_suffix(".desk")


def _source(args: Namespace) -> str | None:
    """The export of a platform that the log came from, if decisions go back to it."""
    from manyhands.io.exports import Export
    from manyhands.io.exports.preannotations import Preannotations

    if (
        not isinstance(args.opened.document, Export)
        or len(args.log) > 1
        or args.part not in ("label-studio", "argilla")
    ):
        return None
    try:
        Preannotations(args.log[0], question=args.question, format=args.part)
    except ValueError:
        return None  # of another platform, or of a kind that is written without a template
    return str(args.log[0])


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"must be a port from 0 to 65535, not {text!r}")
    return int(text)


def _share(text: str) -> float:
    share = amount(text)
    if share > 1:
        raise argparse.ArgumentTypeError(f"must lie between 0 and 1, not {text}")
    return share
