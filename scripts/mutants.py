"""Change the code in small ways and see whether the tests notice: ``make mutants``.

A mutant is a copy of the Python sources with one change: a comparison turned round, a sum made a difference, a
constant moved by one, a condition negated, a check or a call removed. The tests that cover the changed module run on
it; where all pass, nobody would have noticed the slip. Mutants are drawn at random from a seed, so that a run can be
repeated, and live in a temporary folder: the checkout is never touched.

    python scripts/mutants.py --area data --sample 20 --seed 1
    python scripts/mutants.py --show data:17        # the change of one mutant

The compiled core has a script of its own, rust_mutants.py.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
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

#: Bytes of addresses that a test run may take: a loop that has become endless may fill memory first.
MOST_MEMORY = 16 << 30


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

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind}: {_short(self.old)} → {_short(self.new)}"

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
        found.append(Mutant(str(path.relative_to(ROOT)), node.lineno, kind, start, end, old, text))
    return found


def _compiles(mutant: Mutant) -> bool:
    try:
        compile(mutant.source(), mutant.path, "exec")
    except SyntaxError:
        return False
    return True


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
    """Whether a node is a docstring or says something: what a warning says is no behaviour to test."""
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
    return [[f"tests/{test}.py", *(_classes(path) if test in CHECK_LISTS else [])] for test in tests]


def _classes(path: str) -> list[str]:
    """Narrow a check-list, which runs every estimator, to those of one file; all where it defines none."""
    tree = ast.parse((ROOT / path).read_bytes())
    names = [node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    return ["-k", " or ".join(names)] if names else []


def drawn(area: str, sample: int, seed: int) -> list[Mutant]:
    """Draw mutants of an area."""
    every = [mutant for path in modules(area) for mutant in mutants_of(path)]
    random.Random(f"{seed} {area}").shuffle(every)
    return list(islice(filter(_compiles, every), sample))


class Workplace:
    """A copy of all that the tests need, where one file at a time is changed."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="manyhands-mutants-"))
        self.usual: dict[tuple[str, ...], float] = {}
        for name in ("python", "tests", "fuzz", "docs", "benches"):
            skipped = shutil.ignore_patterns("__pycache__", "target", "results")
            shutil.copytree(ROOT / name, self.folder / name, ignore=skipped)
        for name in ("pyproject.toml", "README.md", "Cargo.toml"):
            shutil.copy(ROOT / name, self.folder / name)

    def __enter__(self) -> Workplace:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def judge(self, mutant: Mutant, tests: list[list[str]]) -> str:
        """Return which tests noticed the change, "" if none did."""
        target = self.folder / mutant.path
        sound = target.read_bytes()
        for test in map(tuple, tests):
            if test not in self.usual:
                code, self.usual[test], said = self.run(test, None)
                if code not in (0, 5):  # 5: no test of this file concerns the class
                    raise SystemExit(f"{test} fails on the sound code, so that it can judge no change:\n{said[-2000:]}")
        try:
            target.write_text(mutant.source(), encoding="utf-8")
            for test in map(tuple, tests):
                code, _, _ = self.run(test, 30 + PATIENCE * self.usual[test])
                if code not in (0, 5):
                    return f"{test[0]}, too long" if code < 0 else test[0]
        finally:
            target.write_bytes(sound)
        return ""

    def run(self, test: tuple[str, ...], most: float | None, **where: str) -> tuple[int, float, str]:
        """Run a file of tests until the first fails: exit code, processor time, what was said."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *test]
        where |= {"PYTHONPATH": str(self.folder / "python"), "PYTHONDONTWRITEBYTECODE": "1", "CI": "1"}
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

    if seconds is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


# ---------------------------------------------------------------------------------------------------- reports


def run_python(areas: list[str], sample: int, seed: int, report: Path) -> list[dict[str, Any]]:
    """Judge a sample of each area; the report is written anew after each mutant."""
    results: list[dict[str, Any]] = []
    with Workplace() as place:
        for area in areas:
            for i, mutant in enumerate(drawn(area, sample, seed)):
                start = time.monotonic()
                noticed = place.judge(mutant, tests_of(area, mutant.path))
                results.append({"area": area, "number": i, "noticed_by": noticed, **asdict(mutant)})
                print(f"{noticed or 'SURVIVED':40} {mutant}  ({time.monotonic() - start:.0f} s)", flush=True)
                content = {"seed": seed, "sample": sample, "date": time.strftime("%Y-%m-%d"), "mutants": results}
                report.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
    return results


def table(results: list[dict[str, Any]]) -> str:
    """Write the score of each area."""
    lines = ["| area | valid | killed | of them by time | survived | killed, % |", "|---|---|---|---|---|---|"]
    for area in dict.fromkeys(result["area"] for result in results):
        of = [result["noticed_by"] for result in results if result["area"] == area]
        killed = sum(map(bool, of))
        late = sum("too long" in noticed for noticed in of)
        lines.append(f"| {area} | {len(of)} | {killed} | {late} | {len(of) - killed} | {killed / len(of):.0%} |")
    return "\n".join(lines)


def main() -> int:
    """Draw, judge, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--area", action="append", choices=list(AREAS), help="by default all, one after the other")
    parser.add_argument("--sample", type=int, default=20, help="mutants of each area (default: 20)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default: 1)")
    parser.add_argument("--report", type=Path, default=ROOT / "target" / "mutants" / "python.json")
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
    results = run_python(areas, args.sample, args.seed, args.report)
    print(f"\nseed {args.seed}, {args.sample} of each area\n\n{table(results)}\n")
    survivors = [result for result in results if not result["noticed_by"]]
    for result in survivors:
        print(f"survived: {result['path']}:{result['line']}: {result['kind']}: {result['old']} → {result['new']}")
    return 1 if survivors else 0


if __name__ == "__main__":
    raise SystemExit(main())
