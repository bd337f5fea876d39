"""The headline figures of the papers behind the learners and the deferral: run again, and put on one page.

    python benches/reproduce.py                 # write docs/evidence/reproduction.md from the results that are stored
    python benches/reproduce.py --run short     # first run what makes the results that are quick to have again
    python benches/reproduce.py --run all       # all of them: hours on two cores
    python benches/reproduce.py --run learn-labelme

``benches/reproduction/`` holds a TOML file a paper, which says what the paper claims, which command tries it here and
what came of it, and the results of these commands as JSON. The page is made of nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import harness

ROOT = Path(__file__).resolve().parents[1]
STORED = Path(__file__).resolve().parent / "reproduction"
PAGE = ROOT / "docs" / "evidence" / "reproduction.md"
#: The papers, in the order of the page.
PAPERS = ("learn2agree", "trace", "max-mig", "tutorial", "deferral")
HOLDS, PARTLY, FAILS, UNTRIED = VERDICTS = ("holds", "holds in part", "does not hold", "cannot be tried here")

INTRODUCTION = """\
# Reproduced results of papers

Every headline figure of the five papers behind the learners and the deferral: where it stands in the paper, on what
data it is tried here, what comes of it, and why where it does not hold. Tables give mean ± standard deviation over
seeds; a column "paper" repeats the published figure, which is mostly of other data and larger networks, so that
orders can be compared and levels cannot.

This page is written by `benches/reproduce.py` from the results in `benches/reproduction/`. `make reproduce` runs the
quick half again, `make reproduce-all` everything; both need the data sets, whose folder is given by `DATA=`.

Claims that are ours and not the paper's are counted in a column of their own. "As printed" and "to the letter" are the
forms of the paper's text, "as released" those of its authors' code; [papers and names](papers.md) lists the options.

The quick half took 22 minutes on two cores when it was run whole on another machine than most of what is stored. Of its
453 means at that time all but one came within 0.6 deviations of those below (`CrowdLayer` on LabelMe, next to
instance-dependent models: 86.1 ± 0.9 here, 85.0 ± 0.5 there). Seeds and data being the same, what differs is how torch
rounds on another processor.
"""


@dataclass(frozen=True)
class Result:
    """What a paper claims in one place, and what came of trying it."""

    where: str
    claim: str
    verdict: str
    why: str
    data: str = ""
    #: The script and its arguments, and the name under which it stores what it finds.
    command: str = ""
    result: str = ""
    #: Titles of the tables to show, all of them if none is named.
    tables: Sequence[str] = ()
    #: Whether `make reproduce` runs it, and how long it takes on two cores.
    short: bool = False
    minutes: float = 0
    #: Whether the claim is ours and not the paper's: an extension, or something that it names as open.
    ours: bool = False
    #: Files in docs/images that draw the result, and what each shows.
    figures: dict[str, str] = field(default_factory=dict)
    #: The paper's own figures, by the first cell of a row.
    paper: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Paper:
    """A paper and its results."""

    title: str
    source: str
    results: Sequence[Result]


def read(name: str) -> Paper:
    """What is stored of a paper; whatever is misspelt in it is refused."""
    path = STORED / f"{name}.toml"
    known = tomllib.loads(path.read_text())
    try:
        results = [Result(**entry) for entry in known.pop("result", [])]
        paper = Paper(**known, results=results)
    except TypeError as error:
        raise SystemExit(f"{path.name}: {error}") from None
    for result in results:
        if result.verdict not in VERDICTS:
            raise SystemExit(f"{path.name}, {result.where}: the verdict is one of {', '.join(VERDICTS)}")
        if bool(result.command) != bool(result.result) or bool(result.command) == (result.verdict == UNTRIED):
            raise SystemExit(f"{path.name}, {result.where}: what was tried has a command and a result")
    return paper


# Running ---------------------------------------------------------------------------------------------


def wanted(which: str) -> Iterator[Result]:
    """The results to have again, each command once."""
    results = [result for name in PAPERS for result in read(name).results if result.command]
    if which not in ("short", "all") and which not in {result.result for result in results}:
        raise SystemExit(f"no result {which!r}; there are {', '.join(sorted({r.result for r in results}))}")
    done = set()
    for result in results:
        chosen = which == "all" or (which == "short" and result.short) or which == result.result
        if chosen and result.command not in done:
            done.add(result.command)
            yield result


def run(which: str, data: Path) -> None:
    """Run commands one after the other; one that fails is told at the end and leaves its stored result as it was."""
    failed = []
    for result in wanted(which):
        print(f"{result.result} ({result.minutes:g} min): {result.command}", flush=True)
        start, spent = time.perf_counter(), processor()
        command = [sys.executable, *result.command.split(), "--data", str(data), "--out", str(STORED)]
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            failed.append(result.result)
        clock, busy = (time.perf_counter() - start) / 60, (processor() - spent) / 60
        print(f"{result.result}: {clock:.1f} min, {busy:.1f} of processor time\n", flush=True)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def processor() -> float:
    """Processor seconds of all commands that have ended: what a busy machine does not lengthen."""
    times = os.times()
    return times.children_user + times.children_system


# The page --------------------------------------------------------------------------------------------


def page() -> str:
    """The whole page."""
    papers = [read(name) for name in PAPERS]
    parts = [INTRODUCTION, summary(papers), *(section(paper) for paper in papers)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def summary(papers: Sequence[Paper]) -> str:
    """How many claims of each paper hold, and apart from them how many of ours."""
    rows = []
    for paper in papers:
        counts = Counter(result.verdict for result in paper.results if not result.ours)
        ours = Counter(result.verdict for result in paper.results if result.ours)
        apart = ", ".join(f"{ours[name]} {name}" for name in VERDICTS if ours[name]) or "–"
        cells = {name: counts[name] for name in VERDICTS} | {"ours, not the paper's": apart}
        rows.append({"paper": f"[{paper.title}](#{anchor(paper.title)})"} | cells)
    return harness.markdown(rows)


def anchor(title: str) -> str:
    """What a heading is linked by."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def section(paper: Paper) -> str:
    """What the page says of a paper."""
    return "\n\n".join([f"## {paper.title}", paper.source, *(entry(result) for result in paper.results)])


def entry(result: Result) -> str:
    """What the page says of one claim."""
    claim = "Claim of ours" if result.ours else "Claim"
    parts = [f"### {result.where}: {result.verdict}", f"**{claim}.** {result.claim}"]
    if not result.command:
        return "\n\n".join([*parts, f"**Why not.** {result.why}"])
    figures = [f"![{caption}](../images/{file})" for file, caption in result.figures.items()]
    parts += [f"**Here.** {result.data}", *tables(result), *figures, f"**Result.** {result.why}"]
    parts.append(f"`python {result.command}`, about {result.minutes:g} minutes on two cores.")
    return "\n\n".join(parts)


def tables(result: Result) -> Iterator[str]:
    """The tables of a result, each under its title, with the paper's figures beside ours."""
    stored = json.loads((STORED / f"{result.result}.json").read_text())["tables"]
    missing = [title for title in result.tables if title not in stored]
    if missing:
        raise SystemExit(f"{result.result}.json has no table {missing[0]!r}; there are {', '.join(stored)}")
    shown = {title: stored[title] for title in result.tables or stored}
    heads = {next(iter(row.values())) for rows in shown.values() for row in rows}
    if strange := set(result.paper) - heads:
        raise SystemExit(f"{result.result}.json has no row {strange.pop()!r}; there are {', '.join(sorted(heads))}")
    for title, rows in shown.items():
        yield f"*{title}*\n\n{harness.markdown([beside(row, result.paper) for row in rows])}"


def beside(row: dict[str, Any], paper: dict[str, str]) -> dict[str, Any]:
    """A row with the paper's figure after its name, without what depends on the machine."""
    (head, name), *others = ((key, value) for key, value in row.items() if key != "seconds a run")
    published = {"paper": paper.get(name, "")} if paper else {}
    return {head: name} | published | dict(others)


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--run", default="", metavar="WHAT", help="short, all, or the name of a result")
    made.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of real data sets")
    arguments = made.parse_args()
    if arguments.run:
        run(arguments.run, arguments.data)
    PAGE.write_text(page())
    print(f"written: {PAGE}")


if __name__ == "__main__":
    main()
