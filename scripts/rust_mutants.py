"""Change the compiled core in small ways and see whether the tests notice: the second half of ``make mutants``.

cargo-mutants lists the changes. To compile the crate anew for each would take hours, so a sample is compiled in at
once, each change behind a switch (rust_switches.py): one build of the test program and one of the extension serve all.
A run of the sound code notes which test reaches which switch. Each change is then judged by the tests that reach it,
quick ones first: all changes by those of Rust, then what these did not notice by those of Python. All lives in a
temporary folder: the checkout is never touched.

    python scripts/rust_mutants.py --area em --sample 20 --seed 1
    python scripts/rust_mutants.py --list
    python scripts/rust_mutants.py --survivors      # judge again what survived the last run
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, replace
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path
from typing import Any

from mutant_equivalents import RUST_EQUIVALENTS
from mutant_tests import MOST_SECONDS, PLUGIN, by_file, reached_in, total, within
from mutants import EQUIVALENT, PATIENCE, ROOT, Workplace, limited
from rust_switches import Change, Crate, listed

#: Files of each area, where the first that fits counts, and the tests of Python that reach them.
AREAS: dict[str, tuple[list[str], list[str]]] = {
    "tables, ids, votes": (
        ["categorical/table*", "categorical/votes.rs", "numeric/table.rs", "base/links*", "base/encode*"],
        ["categorical/test_table", "categorical/test_soft_labels", "base/test_ids", "categorical/test_voting"],
    ),
    "models of confusion": (
        ["categorical/em/*", "categorical/dependence.rs", "categorical/consensus.rs"],
        [
            "categorical/test_dawid_skene",
            "categorical/test_bayesian",
            "categorical/test_community",
            "categorical/test_sparse_one_coin",
            "categorical/test_gibbs",
            "categorical/test_dependence",
            "ordinal/test_ordinal",
        ],
    ),
    "shards": (["categorical/shards*"], ["categorical/test_shards", "categorical/test_shard_faults"]),
    "simulation": (
        ["categorical/simulate*", "base/random.rs", "base/gamma.rs"],
        ["categorical/test_simulate", "categorical/test_synthetic"],
    ),
    "models of skill": (
        ["categorical/*"],
        [
            "categorical/test_mace_and_glad",
            "moments/test_one_coin",
            "categorical/test_minimax",
            "categorical/test_max_margin",
            "sequences/test_linked",
        ],
    ),
    "moments, factorisation": (
        ["moments/*", "base/components.rs"],
        ["moments/test_moments", "moments/test_factor", "moments/test_methods"],
    ),
    "audit": (
        ["audit/*"],
        ["metrics/test_worth", "audit/test_worth", "audit/test_spammers", "audit/test_groups", "audit/test_colluders"],
    ),
    "same or different, any kind": (
        ["clustering/*", "objects/*"],
        ["clustering/test_kernels", "objects/test_distance", "clustering/test_methods"],
    ),
    "agreement": (["agreement/*"], ["agreement/test_agreement"]),
    "deferral": (["defer/*"], ["defer/test_kernels", "defer/test_decisions"]),
    "numbers, grades, comparisons": (
        ["numeric/*", "pairwise/*", "multilabel/*"],
        [
            "numeric/test_kernels",
            "numeric/test_compiled_table",
            "pairwise/test_table",
            "pairwise/test_methods",
            "multilabel/test_multilabel",
        ],
    ),
    "sequences, texts": (["sequences/*", "texts*"], ["sequences/test_methods", "texts/test_texts"]),
    "boxes, masks": (["boxes.rs", "masks/*"], ["boxes/test_boxes", "masks/test_masks"]),
    "numbers, threads, memory": (
        ["*"],
        [
            "categorical/test_dawid_skene",
            "moments/test_one_coin",
            "moments/test_factor",
            "base/test_limits",
            "base/test_process",
            "categorical/test_bayesian",
            "learn/test_batches",
        ],
    ),
}

#: Seconds that any run may take at least before it counts as hanging.
LEAST_PATIENCE = 10.0

#: How the plugin of pytest has switches noted again.
FORGET = """import ctypes
import manyhands._core

forget = ctypes.CDLL(manyhands._core.__file__).forget_switches
"""


def area_of(path: str) -> str:
    """Return the first area that a file, named from rust/ on, belongs to."""
    return next(area for area in AREAS if patterns_of(area, path))


def patterns_of(area: str, path: str) -> list[str]:
    """Return the patterns of an area that fit a file."""
    return [pattern for pattern in AREAS[area][0] if fnmatch(path, pattern)]


def drawn(changes: list[Change], areas: list[str], sample: int, seed: int) -> list[Change]:
    """Draw changes of each area."""
    by_area = defaultdict(list)
    for change in changes:
        by_area[area_of(change.path.removeprefix("rust/"))].append(change)
    chosen = []
    for area in areas:
        random.Random(f"{seed} {area}").shuffle(by_area[area])
        chosen += [replace(change, area=area) for change in by_area[area][:sample]]
    return chosen


def survivors_of(report: Path, changes: list[Change], areas: list[str]) -> list[Change]:
    """Return the changes that survived an earlier run, where the code still holds them; those of equal lines count."""
    results = json.loads(report.read_text(encoding="utf-8"))["changes"]
    left = {result["key"]: result["area"] for result in results if not result["noticed_by"]}
    for key in left.keys() - {change.key for change in changes}:
        print(f"gone: {key}", flush=True)
    return [replace(change, area=left[change.key]) for change in changes if left.get(change.key) in areas]


class Court:
    """The sound code with switches, and what is known of the tests that reach each of them."""

    def __init__(self, place: Workplace, changes: list[Change]) -> None:
        self.place, self.folder = place, place.folder
        crate = Crate(self.folder, ROOT, changes, ROOT / "target" / "mutants" / "build")
        crate.mend()
        self.changes = crate.changes
        self.program = crate.test_program()
        self.crate = crate
        self.rust = self._reached_by_rust()
        self.python: dict[str, dict[int, list[tuple[float, str]]]] = {}

    def _reached_by_rust(self) -> dict[int, list[tuple[float, str]]]:
        _, _, said = limited([self.program, "--list", "--format", "terse"], self.folder, {}, None)
        reached = defaultdict(list)
        for test in (line.removesuffix(": test") for line in said.splitlines() if line.endswith(": test")):
            log = self.folder / "reached"
            log.write_text("")
            code, seconds, said = self._run_rust([test], {"MUTANT_LOG": str(log)}, None)
            if code:
                raise SystemExit(f"{test} fails on the sound code, so that it can judge no change:\n{said[-2000:]}")
            for number in log.read_text().split():
                reached[int(number)].append((seconds, test))
        return reached

    def _run_rust(self, tests: list[str], where: dict[str, str], most: float | None) -> tuple[int, float, str]:
        return limited([self.program, "--exact", *tests, "--test-threads", "1"], self.folder, where, most)

    def _reached_by_python(self, test: str) -> dict[int, list[tuple[float, str]]]:
        if test not in self.python:
            if not self.python:
                shutil.copy(self.crate.extension(), self.folder / "python" / "manyhands" / "_core.abi3.so")
                (self.folder / "python" / "switch_log.py").write_text(PLUGIN.format(forget=FORGET))
            log = self.folder / "reached"
            log.write_text("")
            args = ("-p", "switch_log", "--maxfail", "100", f"tests/{test}.py")
            code, _, said = self.place.run(args, None, MUTANT_LOG=str(log))
            if code not in (0, 1):
                raise SystemExit(f"{test} cannot run on the sound code:\n{said[-2000:]}")
            self.python[test] = reached_in(log.read_text())
        return self.python[test]

    def by_rust(self, change: Change) -> dict[str, Any]:
        """Return which tests of Rust noticed a change ("" if none did), and how many reached it."""
        reaching = sorted(self.rust[change.number])
        for group in _groups(reaching):
            where = {"MUTANT": str(change.number)}
            code, _, said = self._run_rust([test for _, test in group], where, _patience(group))
            if code:
                failed = [line for line in said.splitlines() if line.endswith("FAILED") or "panicked" in line]
                return {"noticed_by": "cargo test", "how": _how(code, failed), "tests": len(reaching)}
        return {"noticed_by": "", "how": "", "tests": len(reaching)}

    def by_python(self, change: Change) -> dict[str, Any]:
        """Return the same for the tests of Python, and how many tests of either language reached it."""
        n_rust = len(self.rust[change.number])
        reached = [self._reached_by_python(test).get(change.number, []) for test in AREAS[change.area][1]]
        chosen = by_file(within(sorted(chain.from_iterable(reached)), MOST_SECONDS))
        if chosen:
            names = self.folder / "chosen"
            names.write_text("\n".join(name for _, name in chosen))
            code, _, said = self.place.run((f"@{names}",), _patience(chosen), MUTANT=str(change.number))
            if code:
                failed = [line for line in said.splitlines() if line.startswith("FAILED")]
                return {"noticed_by": "pytest", "how": _how(code, failed), "tests": n_rust + len(chosen)}
        return {"noticed_by": "", "how": "", "tests": n_rust + len(chosen)}


def _how(code: int, failed: list[str]) -> str:
    return "took too long" if code in (-1, -signal.SIGXCPU, -signal.SIGKILL) else (failed or ["crashed"])[0][:200]


def _patience(tests: list[tuple[float, str]]) -> float:
    return LEAST_PATIENCE + PATIENCE * total(tests)


def _groups(tests: list[tuple[float, str]]) -> Iterator[list[tuple[float, str]]]:
    """Cut tests, quick ones first, into groups that each take some times as long as the one before."""
    most, at = 1.0, 0
    while at < len(tests):
        group = within(tests[at:], most)
        yield group
        at += len(group)
        most *= 5


def table(results: list[dict[str, Any]], missing: dict[str, int]) -> str:
    """Write the score of each area."""
    head = "| area | tried | noticed by cargo test | by pytest | not noticed | of these, never run | equivalent |"
    lines = [f"{head} did not compile |", f"|---|{'--:|' * 7}"]
    for area in dict.fromkeys(result["area"] for result in results):
        of = [result for result in results if result["area"] == area]
        by = Counter(result["noticed_by"] for result in of)
        idle = sum(not result["noticed_by"] and not result["tests"] for result in of)
        counts = (len(of), by["cargo test"], by["pytest"], by[""], idle, by[EQUIVALENT], missing.get(area, 0))
        lines.append(f"| {area} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines)


def run_rust(chosen: list[Change], report: Path, **about: Any) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Judge changes, and count by area those that do not compile; the report is written again after each."""
    equivalent = [change for change in chosen if change.key in RUST_EQUIVALENTS]
    results = [{**asdict(change), "noticed_by": EQUIVALENT, "how": "", "tests": 0} for change in equivalent]
    left = [change for change in chosen if change not in equivalent]
    if not left:
        return results, {}
    with Workplace() as place:
        court = Court(place, left)
        missing = Counter(change.area for change in set(left).difference(court.changes))
        judged: dict[Change, dict[str, Any]] = {}
        for judge in (court.by_rust, court.by_python):
            for change in court.changes:
                if judged.get(change, {}).get("noticed_by"):
                    continue
                start = time.monotonic()
                judged[change] = judge(change)
                by, seconds = judged[change]["noticed_by"] or "SURVIVED", time.monotonic() - start
                print(f"{by:12} {change.name} ({seconds:.0f} s)", flush=True)
                found = results + [{**asdict(change), **result} for change, result in judged.items()]
                content = {**about, "date": time.strftime("%Y-%m-%d"), "missing": missing, "changes": found}
                report.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
    return found, missing


def main() -> int:
    """Draw, build, judge, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--area", action="append", choices=list(AREAS), help="by default all")
    parser.add_argument("--sample", type=int, default=20, help="changes of each area (default: 20)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default: 1)")
    parser.add_argument("--report", type=Path, default=ROOT / "target" / "mutants" / "rust.json")
    parser.add_argument("--survivors", action="store_true", help="judge again what survived in the report, no more")
    parser.add_argument("--list", action="store_true", help="print the changes that would be tried, and run nothing")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an end from outside must clean up as well
    changes, areas = listed(ROOT), args.area or list(AREAS)
    if args.survivors:
        chosen = survivors_of(args.report, changes, areas)
    else:
        chosen = drawn(changes, areas, args.sample, args.seed)
    if args.list:
        print("\n".join(f"{change.area}: {change.name}" for change in chosen))
        return 0
    args.report.parent.mkdir(parents=True, exist_ok=True)
    results, missing = run_rust(chosen, args.report, seed=args.seed)
    print(f"\nseed {args.seed}, {args.sample} of each area\n\n{table(results, missing)}\n")
    survivors = [result for result in results if not result["noticed_by"]]
    for result in survivors:
        print(f"survived ({result['tests']} tests reach it): {result['name']}")
    return 1 if survivors else 0


if __name__ == "__main__":
    raise SystemExit(main())
