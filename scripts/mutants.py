"""Change the code in small ways and see whether the tests notice: ``make mutants``.

A mutant is a copy of the Python sources with one change: a comparison turned round, a sum made a difference, a
constant moved by one, a condition negated, a check or a call removed. A first run of the tests on the sound code, with
marks at the places of all changes of a sample, notes which test reaches which. Each change is then judged by the tests
that reach it, quick ones first; where all pass, no test would notice the slip. Mutants are drawn at random from a
seed, so that a run can be repeated, and live in a temporary folder: the checkout is never touched.

    python scripts/mutants.py --area data --sample 20 --seed 1
    python scripts/mutants.py --show data:17        # the change of one mutant
    python scripts/mutants.py --survivors           # judge again what survived the last run

The compiled core has a script of its own, rust_mutants.py.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from mutant_areas import AREAS, CHECK_LISTS
from mutant_equivalents import EQUIVALENTS
from mutant_tests import MOST_SECONDS, PLUGIN, Timed, by_file, reached_in, total, within

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "python/manyhands"

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
}

#: A test run that takes so many times as long as on the sound code hangs; processor time, which a busy machine does
#: not stretch.
PATIENCE = 8

#: Bytes that a test run may allocate: a loop that has become endless may fill memory first. Reserved addresses do not
#: count, since the engine that draws the charts of reports reserves more than 30 GB.
MOST_MEMORY = 16 << 30

#: Plugins of pytest that would leave files, or run tests elsewhere or in another order.
WITHOUT = ("cacheprovider", "xdist", "randomly")


@dataclass(frozen=True)
class Mutant:
    """A change: the text between two offsets of a file becomes another."""

    path: str
    line: int
    kind: str
    start: int
    end: int
    old: str
    new: str
    #: The line of the source where it begins.
    code: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind}: {_short(self.old)} → {_short(self.new)}"

    @property
    def is_statement(self) -> bool:
        """Whether a whole statement changes; what takes the place of an expression has parentheses."""
        return not self.new.startswith("(")

    @property
    def key(self) -> str:
        """The change without the number of its line, as `EQUIVALENTS` names it."""
        return f"{self.path.removeprefix(f'{PACKAGE}/')}: {self.code}: {_short(self.old)} → {_short(self.new)}"

    def source(self) -> str:
        """Return the file with the change."""
        raw = (ROOT / self.path).read_bytes()
        return (raw[: self.start] + self.new.encode() + raw[self.end :]).decode()


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 70 else flat[:67] + "…"


# ---------------------------------------------------------------------------------------------------- changes


def mutants_of(path: Path) -> list[Mutant]:
    """List every change of a file."""
    raw = path.read_bytes()
    starts = [0]
    for line in raw.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    found = []
    for node, kind, new in _changes(ast.parse(raw)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        old = raw[start:end].decode()
        text = new if isinstance(new, str) else f"({ast.unparse(new)})"
        code = raw[starts[node.lineno - 1] : starts[node.lineno] - 1].decode().strip()
        found.append(Mutant(str(path.relative_to(ROOT)), node.lineno, kind, start, end, old, text, code))
    return found


def _changes(node: ast.AST) -> Iterator[tuple[Any, str, ast.expr | str]]:
    """Walk over what runs, and leave out what only speaks: annotations, docstrings, messages, typing."""
    if isinstance(node, ast.stmt):
        yield from _changes_of_statement(node)
    elif isinstance(node, ast.expr):
        yield from _changes_of_expression(node)
    if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.JoinedStr) or _only_typing(node):
        return
    silent = {"annotation", "returns", "decorator_list", "type_comment"}
    for name, value in ast.iter_fields(node):
        if name in silent:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _speaks(child):
                yield from _changes(child)


def _only_typing(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    if isinstance(node, ast.AnnAssign):
        return isinstance(node.annotation, ast.Name) and node.annotation.id == "TypeAlias"
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        name = node.targets[0].id
        # Names such as Array, put together with brackets or bars, are types; constants are written in capitals.
        made = isinstance(node.value, ast.Subscript | ast.BinOp)
        return name == "__all__" or (made and name.lstrip("_")[:1].isupper() and not name.isupper())
    return False


def _speaks(node: ast.AST) -> bool:
    """Whether a node is a docstring or says something: what a warning says is not a behavior to test."""
    if isinstance(node, ast.Expr):
        if isinstance(node.value, ast.Constant):
            return True
        return isinstance(node.value, ast.Call) and "warn" in ast.unparse(node.value.func)
    return False


def _changes_of_statement(node: ast.stmt) -> Iterator[tuple[Any, str, ast.expr | str]]:
    match node:
        case ast.If(body=[ast.Raise()], orelse=[]):
            yield node, "check removed", "pass"
        case ast.Expr(value=ast.Call()):
            yield node, "call removed", "pass"
        case ast.AugAssign() if type(node.op) in ARITHMETIC:
            other = copy.deepcopy(node)
            other.op = ARITHMETIC[type(node.op)]()
            yield node, "arithmetic", ast.unparse(other)
    if isinstance(node, ast.If | ast.While) and not _only_typing(node):
        yield node.test, "condition negated", ast.UnaryOp(ast.Not(), node.test)


def _changes_of_expression(node: ast.expr) -> Iterator[tuple[Any, str, ast.expr | str]]:
    match node:
        case ast.Compare():
            for i, op in enumerate(node.ops):
                for other_op in COMPARISONS[type(op)]:
                    other = copy.deepcopy(node)
                    other.ops[i] = other_op()
                    yield node, "comparison", other
        case ast.BinOp() if type(node.op) in ARITHMETIC and not _is_text(node):
            other = copy.deepcopy(node)
            other.op = ARITHMETIC[type(node.op)]()
            yield node, "arithmetic", other
        case ast.BoolOp():
            other = copy.deepcopy(node)
            other.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield node, "and, or", other
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node, "sign dropped", node.operand
        case ast.IfExp():
            other = copy.deepcopy(node)
            other.test = ast.UnaryOp(ast.Not(), other.test)
            yield node, "condition negated", other
        case ast.Constant(value=bool()):
            yield node, "constant", ast.Constant(not node.value)
        case ast.Constant(value=int() | float()):
            yield node, "constant", ast.Constant(node.value + 1)


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


# ------------------------------------------------------------------------------------------------------ marks

#: Imported by every interpreter of the first run: notes the number of a mark when it is reached.
NOTES = """
import builtins, os

reached, log = set(), os.environ.get("MUTANT_LOG")

def _reached(number):
    if number not in reached and log:
        reached.add(number)
        file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, b"%d\\n" % number)
        os.close(file)

builtins._reached = _reached
"""

FORGET = "from sitecustomize import reached\n\nforget = reached.clear\n"


def marked(path: Path, mutants: list[tuple[int, Mutant]]) -> tuple[str, list[int]]:
    """Return the source of a file with a mark at each change, and the numbers of those where no mark can be."""
    raw = path.read_bytes()
    fitting = [numbered for numbered in mutants if _parses(_with_marks(raw, [numbered]))]
    return _with_marks(raw, fitting), [numbered[0] for numbered in mutants if numbered not in fitting]


def _with_marks(raw: bytes, mutants: list[tuple[int, Mutant]]) -> str:
    inserts: list[tuple[tuple[int, ...], int, str]] = []
    for number, mutant in mutants:
        length = mutant.end - mutant.start
        if mutant.is_statement:
            indent = " " * (mutant.start - raw.rfind(b"\n", 0, mutant.start) - 1)
            inserts.append(((mutant.start, 1, -length, 0, number), mutant.start, f"_reached({number})\n{indent}"))
        else:
            inserts.append(((mutant.start, 1, -length, 1, number), mutant.start, f"(_reached({number}) or ("))
            inserts.append(((mutant.end, 0, length, 1, -number), mutant.end, "))"))
    parts, at = [], 0
    for _, place, text in sorted(inserts):
        parts += [raw[at:place].decode(), text]
        at = place
    return "".join([*parts, raw[at:].decode()])


def _parses(source: str) -> bool:
    try:
        compile(source, "marked", "exec")
    except SyntaxError:
        return False
    return True


# ------------------------------------------------------------------------------------------------------- runs


def modules(area: str) -> list[Path]:
    """List the files of an area: those named, and those of its patterns that no other area names."""
    others = {f"{name}.py" for other, lines in AREAS.items() if other != area for name in lines}
    found: dict[Path, None] = {}
    for pattern in AREAS[area]:
        found |= dict.fromkeys(sorted((ROOT / PACKAGE).glob(f"{pattern}.py")))
    return [path for path in found if path.relative_to(ROOT / PACKAGE).as_posix() not in others]


def tests_of(area: str, path: str) -> list[list[str]]:
    """Return the tests that cover a file, as arguments of pytest: by its own line, else by that of its folder."""
    name = path.removeprefix(f"{PACKAGE}/").removesuffix(".py")
    folder = f"{name.rpartition('/')[0]}/*"
    tests = AREAS[area].get(name) or AREAS[area][folder]
    files = {file: test for test in tests for file in sorted((ROOT / "tests").glob(f"{test}.py"))}
    return [
        [str(file.relative_to(ROOT)), *(_classes(path) if test in CHECK_LISTS else [])] for file, test in files.items()
    ]


def _classes(path: str) -> list[str]:
    """Narrow a check-list, which runs every estimator, to those of one file; all where it defines none."""
    tree = ast.parse((ROOT / path).read_bytes())
    names = [node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    return ["-k", " or ".join(names)] if names else []


def drawn(area: str, sample: int, seed: int) -> list[Mutant]:
    """Draw mutants of an area."""
    every = [mutant for path in modules(area) for mutant in mutants_of(path)]
    random.Random(f"{seed} {area}").shuffle(every)
    return list(islice((mutant for mutant in every if _parses(mutant.source())), sample))


def survivors_of(report: Path) -> dict[str, list[Mutant]]:
    """Return the changes that survived an earlier run, by area, where the code still holds them."""
    content = json.loads(report.read_text(encoding="utf-8"))
    left: dict[str, list[Mutant]] = {}
    for result in content["mutants"]:
        if result["noticed_by"]:
            continue
        path = ROOT / result["path"]
        same = [
            mutant
            for mutant in (mutants_of(path) if path.exists() else [])
            if all(getattr(mutant, name) == result[name] for name in ("kind", "old", "new"))
        ]
        if same:
            nearest = min(same, key=lambda mutant: abs(mutant.line - result["line"]))
            left.setdefault(result["area"], []).append(nearest)
        else:
            print(f"gone: {result['path']}:{result['line']}: {result['old']} → {result['new']}", flush=True)
    return left


class Workplace:
    """A copy of the checkout, with the compiled extension, where one file at a time is changed."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="manyhands-mutants-"))
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0")
        names += [str(path.relative_to(ROOT)) for path in (ROOT / PACKAGE).glob("_core*") if path.suffix != ".pyi"]
        for name in filter(None, dict.fromkeys(names)):
            if (ROOT / name).is_file():
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, self.folder / name)

    def __enter__(self) -> Workplace:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def reaching(self, area: str, mutants: list[Mutant], most: float) -> list[list[Timed]]:
        """Return the tests that reach each change, by one run of the sound code."""
        marks, everywhere = self.folder / "marks", []
        marks.mkdir(exist_ok=True)
        (marks / "sitecustomize.py").write_text(NOTES)
        (marks / "mark_log.py").write_text(PLUGIN.format(forget=FORGET))
        numbered: dict[str, list[tuple[int, Mutant]]] = {}
        for number, mutant in enumerate(mutants):
            numbered.setdefault(mutant.path, []).append((number, mutant))
        for path, of in numbered.items():
            text, without = marked(ROOT / path, of)
            (self.folder / path).write_text(text, encoding="utf-8")
            everywhere += without
        found: dict[int, list[Timed]] = {number: [] for number in range(len(mutants))}
        try:
            for test in dict.fromkeys(tuple(test) for path in numbered for test in tests_of(area, path)):
                log = self.folder / "reached"
                log.write_text("".join(f"{number}\n" for number in everywhere))
                args = ("-p", "mark_log", "--maxfail", "100", *test)
                limit = None if most == math.inf else 60 + 2 * most
                code, _, said = self.run(args, limit, MUTANT_LOG=str(log), MUTANT_SECONDS=str(most))
                if code < 0:
                    print(f"{test} was stopped: one of its tests takes too long", flush=True)
                elif code not in (0, 1, 5):  # 1: some fail, and are left out; 5: none concerns the class
                    raise SystemExit(f"{test} cannot run on the sound code:\n{said[-2000:]}")
                for number, tests in reached_in(log.read_text()).items():
                    found[number] += tests
        finally:
            for path in numbered:
                shutil.copy(ROOT / path, self.folder / path)
        return [sorted(tests) for tests in found.values()]

    def judge(self, mutant: Mutant, tests: list[Timed]) -> str:
        """Return which tests noticed the change, "" if none did."""
        if not tests:
            return ""
        chosen = by_file(within(tests, MOST_SECONDS))
        names = self.folder / "chosen"
        names.write_text("\n".join(name for _, name in chosen))
        target = self.folder / mutant.path
        try:
            target.write_text(mutant.source(), encoding="utf-8")
            code, _, said = self.run((f"@{names}",), 30 + PATIENCE * total(chosen))
        finally:
            shutil.copy(ROOT / mutant.path, target)
        if code == 0:
            return ""
        failed = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return "too long" if code < 0 else (failed or ["crashed"])[0].partition(" - ")[0][:200]

    def run(self, test: tuple[str, ...], most: float | None, **where: str) -> tuple[int, float, str]:
        """Run a file of tests until the first fails: exit code, processor time, what was said."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", *(f"-pno:{name}" for name in WITHOUT), *test]
        paths = os.pathsep.join(str(self.folder / name) for name in ("python", "marks"))
        where |= {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "CI": "1"}
        return limited(command, self.folder, where, most)


def limited(command: list[str], folder: Path, where: dict[str, str], most: float | None) -> tuple[int, float, str]:
    """Run a program that may hang: exit code (negative where it was ended), processor time, what it said."""
    start = _children()
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **where, "OMP_NUM_THREADS": "1"},
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: _limit(most),
        )
        try:
            code = process.wait(None if most is None else 60 + 20 * most)
        except subprocess.TimeoutExpired:
            code = -1
        finally:
            with_children(process)
        said.seek(0)
        return code, _children() - start, said.read()


def with_children(process: subprocess.Popen[Any]) -> None:
    """End a process and whatever it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _children() -> float:
    used = os.times()
    return used.children_user + used.children_system


def _limit(seconds: float | None) -> None:
    import resource

    # In the background a shell has programs ignore it, and tests that interrupt themselves would run on.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if seconds is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))


# ---------------------------------------------------------------------------------------------------- reports


def run_python(drawn_of: dict[str, list[Mutant]], report: Path, most: float, **about: Any) -> list[dict[str, Any]]:
    """Judge the changes of each area; the report is written again after each."""
    results: list[dict[str, Any]] = []
    with Workplace() as place:
        for area, mutants in drawn_of.items():
            judged = [mutant for mutant in mutants if mutant.key not in EQUIVALENTS]
            reaching = dict(zip(judged, place.reaching(area, judged, most), strict=True))
            for number, mutant in enumerate(mutants):
                start = time.monotonic()
                tests = reaching.get(mutant, [])
                noticed = place.judge(mutant, tests) if mutant in reaching else EQUIVALENT
                result = {"area": area, "number": number, "noticed_by": noticed, "tests": len(tests)}
                results.append(result | asdict(mutant))
                print(f"{noticed or 'SURVIVED'}  {mutant}  ({time.monotonic() - start:.0f} s)", flush=True)
                content = {**about, "date": time.strftime("%Y-%m-%d"), "mutants": results}
                report.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
    return results


#: What is reported of a change that makes no difference, instead of the test that noticed it.
EQUIVALENT = "equivalent"


def table(results: list[dict[str, Any]]) -> str:
    """Write the score of each area."""
    lines = [
        "| area | tried | noticed | of them by time | survived | of these, never run | equivalent | noticed, % |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for area in dict.fromkeys(result["area"] for result in results):
        of = [result for result in results if result["area"] == area]
        judged = [result for result in of if result["noticed_by"] != EQUIVALENT]
        survived = [result for result in judged if not result["noticed_by"]]
        late = sum(result["noticed_by"] == "too long" for result in judged)
        idle = sum(not result["tests"] for result in survived)
        noticed = len(judged) - len(survived)
        share = f"{noticed / len(judged):.0%}" if judged else ""
        counts = (len(of), noticed, late, len(survived), idle, len(of) - len(judged), share)
        lines.append(f"| {area} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines)


def main() -> int:
    """Draw, judge, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--area", action="append", choices=list(AREAS), help="by default all, one after the other")
    parser.add_argument("--sample", type=int, default=20, help="mutants of each area (default: 20)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default: 1)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=math.inf,
        help="of each file of tests, leave out what starts later",
    )
    parser.add_argument("--report", type=Path, default=ROOT / "target" / "mutants" / "python.json")
    parser.add_argument("--survivors", action="store_true", help="judge again what survived in the report, no more")
    parser.add_argument("--list", action="store_true", help="count the changes of each area, and run nothing")
    parser.add_argument("--show", metavar="AREA:NUMBER", help="print the source of one mutant of the sample")
    args = parser.parse_args()
    # An end from outside must clean up as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    areas = args.area or list(AREAS)
    if args.list:
        for area in areas:
            print(f"{area}: {sum(len(mutants_of(path)) for path in modules(area)):,}")
        return 0
    if args.show:
        area, _, number = args.show.rpartition(":")
        sys.stdout.write(drawn(area, int(number) + 1, args.seed)[-1].source())
        return 0
    args.report.parent.mkdir(parents=True, exist_ok=True)
    if args.survivors:
        chosen = {area: of for area, of in survivors_of(args.report).items() if area in areas}
    else:
        chosen = {area: drawn(area, args.sample, args.seed) for area in areas}
    results = run_python(chosen, args.report, args.seconds, seed=args.seed, sample=args.sample)
    print(f"\nseed {args.seed}, {args.sample} of each area\n\n{table(results)}\n")
    survivors = [result for result in results if not result["noticed_by"]]
    for result in survivors:
        print(f"survived: {result['path']}:{result['line']}: {result['kind']}: {result['old']} → {result['new']}")
    return 1 if survivors else 0


if __name__ == "__main__":
    raise SystemExit(main())
