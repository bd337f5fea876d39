"""The main table: manyhands beside its rivals, same data, same passes, same run.

    python benches/aggregate.py --quick              # a few minutes
    python benches/aggregate.py                      # an hour on two cores, most of it the rivals
    python benches/aggregate.py --full --large       # every combination, ours alone at 1e8

Three parts: seconds a pass with the table already built; seconds of the whole call, from a pandas frame to
labels; peak memory, each candidate in a fresh process. See benches/README.md for what none of them shows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import data
import harness
import peers
from harness import Stat, count, human

OURS = "manyhands"
RIVALS_STOP = 20_000_000  # annotations; beyond, rivals run out of memory or patience
NOT_SHOWN = """\
What this does not show: accuracy (all candidates compute the same posteriors, see `peers.check`), convergence
(passes are fixed), logs with heavy tails (tasks have five labels each, workers are drawn evenly), other
machines or more threads. numba's compile time is left out. NumPy, SciPy and crowd-kit run on one thread: they
have no more. Whole calls of the NumPy, SciPy and numba versions encode ids with pandas.factorize.
A ratio is a candidate's median over ours. Brackets: fastest and slowest repeat; none where there was one."""


@dataclass(frozen=True)
class Cell:
    """One log: its size, classes, workers and kind of ids."""

    size: int
    n_classes: int
    n_workers: int
    ids: str = "int"

    def key(self) -> dict[str, str]:
        return {"annotations": count(self.size), "K": str(self.n_classes), "workers": count(self.n_workers)}


@dataclass
class Guess:
    """Seconds a pass, carried from the cells measured to those ahead."""

    budget: float
    known: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)

    def of(self, peer: type[peers.Peer], method: str, cell: Cell) -> float:
        seconds, cost = self.known.get((peer.name, method), (1.0, 1.0))
        return seconds * peer.cost(method, cell.size, cell.n_workers, cell.n_classes) / cost

    def learn(self, peer: type[peers.Peer], method: str, cell: Cell, seconds: float) -> None:
        cost = peer.cost(method, cell.size, cell.n_workers, cell.n_classes)
        self.known[peer.name, method] = (seconds, cost)


def passes(cell: Cell, arguments: argparse.Namespace, guess: Guess) -> Iterator[dict[str, Any]]:
    """Yield one row a method: seconds a pass of each candidate."""
    codes = data.crowd(cell.size, cell.n_workers, cell.n_classes, order=arguments.order)
    for method in arguments.methods:
        timers, skipped = {}, {}
        for name, peer in candidates(arguments, method, cell).items():
            # Fewest passes that measure one: about three, the start included.
            if (seconds := 3 * guess.of(peer, method, cell)) > guess.budget:
                skipped[name] = seconds
                continue
            warm(peer, method, cell.n_workers, cell.n_classes)
            fitted = peer(codes, method)
            if method == "vote":
                timers[name] = partial(harness.clock, fitted.run, 0)
            else:
                timers[name] = harness.pass_timer(fitted.run, peer.least)
        times = harness.take_turns(timers, arguments.repeats)
        for name, stat in times.items():
            guess.learn(arguments.registry[name], method, cell, stat.median)
        yield {"method": method, "cell": cell, "times": times, "skipped": skipped}


def whole_calls(cell: Cell, arguments: argparse.Namespace, guess: Guess) -> Iterator[dict[str, Any]]:
    """Yield one row a method: seconds from a pandas frame to labels."""
    frame = data.frame(data.crowd(cell.size, cell.n_workers, cell.n_classes, order=arguments.order), cell.ids)
    for method in arguments.methods:
        n_iter = 0 if method == "vote" else arguments.passes
        timers, skipped = {}, {}
        for name, peer in candidates(arguments, method, cell).items():
            if (seconds := (n_iter + 1) * guess.of(peer, method, cell)) > guess.budget:
                skipped[name] = seconds
                continue
            warm(peer, method, cell.n_workers, cell.n_classes)
            timers[name] = partial(harness.clock, peer.whole, frame, method, n_iter)
        times = harness.take_turns(timers, arguments.repeats)
        yield {"method": method, "cell": cell, "times": times, "skipped": skipped}


def memory(cell: Cell, arguments: argparse.Namespace, guess: Guess) -> Iterator[dict[str, Any]]:
    """Yield two rows a method: peak bytes of the whole call above the frame, and of a fit above its table."""
    # A process for each candidate and method costs minutes: at large sizes and in a hurry, one method.
    all_methods = cell.size <= 2_000_000 and not arguments.quick
    for method in arguments.methods if all_methods else ["full"]:
        peaks, skipped = {}, {}
        for name, peer in candidates(arguments, method, cell).items():
            # Memory does not depend on the number of passes: two are enough.
            if (seconds := 3 * guess.of(peer, method, cell)) > guess.budget:
                skipped[name] = seconds
                continue
            spec = {"peer": name, "method": method, "order": arguments.order, **vars(cell)}
            peaks[name] = harness.in_child("aggregate.py", spec)
        for phase in ("whole", "fit"):
            of_phase = {name: found.get(phase, found) for name, found in peaks.items()}
            yield {"method": method, "phase": phase, "cell": cell, "peaks": of_phase, "skipped": skipped}


def child(spec: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Measure one candidate's memory in this process: frame to labels, and a fit with its table built."""
    peer, method = peers.registry()[spec["peer"]], spec["method"]
    warm(peer, method, spec["n_workers"], spec["n_classes"])
    codes = data.crowd(spec["size"], spec["n_workers"], spec["n_classes"], order=spec["order"])
    fitted = peer(codes, method)
    fit = harness.growth(fitted.run, 2)
    frame = data.frame(codes, spec["ids"])
    del codes, fitted
    return {"fit": fit, "whole": harness.growth(peer.whole, frame, method, 2)}


def candidates(arguments: argparse.Namespace, method: str, cell: Cell) -> dict[str, type[peers.Peer]]:
    """Return those that know the method; beyond 2e7 annotations only ours."""
    able = {name: peer for name, peer in arguments.registry.items() if method in peer.methods}
    return able if cell.size <= RIVALS_STOP else {name: able[name] for name in able if name == OURS}


@cache
def warm(peer: type[peers.Peer], method: str, n_workers: int, n_classes: int) -> None:
    """Import and compile on a short log, so that neither is timed nor counted as memory.

    It has as many workers and classes as the long one: kernels are chosen by the size of the worker tables.
    """
    small = data.crowd(500, n_workers, n_classes)
    peer(small, method).run(1)
    peer.whole(data.frame(small), method, 1)


def grid(arguments: argparse.Namespace) -> Iterator[Cell]:
    """Yield the cells of the first part, cheap ones first; beyond 2e6 one corner, unless told otherwise."""
    for size in sorted(arguments.sizes):
        thin = size > 2_000_000 and not arguments.full
        for n_workers, n_classes in product(sorted(arguments.workers), sorted(arguments.classes)):
            if not thin or (n_workers, n_classes) == corner(arguments):
                yield Cell(size, n_classes, n_workers)


def frames(arguments: argparse.Namespace) -> list[Cell]:
    """Return the cells of the other parts: the second smallest size and the largest that rivals can take."""
    sizes = sorted(size for size in arguments.sizes if size <= RIVALS_STOP)
    if len(sizes) > 2 and not arguments.full:
        sizes = [sizes[1], sizes[-1]]
    n_workers, n_classes = corner(arguments)
    return [Cell(size, n_classes, n_workers, ids) for size, ids in product(sizes, arguments.ids)]


def corner(arguments: argparse.Namespace) -> tuple[int, int]:
    """Return the workers and classes at which whole calls, memory and large sizes are measured."""
    return max(arguments.workers), 10 if 10 in arguments.classes else max(arguments.classes)


def timed(times: dict[str, Stat], skipped: dict[str, float], names: list[str]) -> dict[str, str]:
    """Return the text of each candidate's column: median, spread, ratio to ours."""
    ours = times.get(OURS)
    texts = {}
    for name in names:
        if name in skipped:
            texts[name] = f"skipped, ≈ {human(skipped[name])}"
        elif name in times:
            stat = times[name]
            spread = f" [{human(stat.low)}–{human(stat.high)}]" if stat.repeats > 1 else ""
            ratio = f" ×{stat.median / ours.median:.3g}" if ours and name != OURS else ""
            texts[name] = human(stat.median) + spread + ratio
        else:
            texts[name] = "–"
    return texts


def sized(row: dict[str, Any], names: list[str]) -> dict[str, str]:
    """Return peak bytes an annotation of each candidate, with the ratio to ours."""
    size = row["cell"].size
    ours = row["peaks"].get(OURS, {}).get("peak")
    texts = {}
    for name in names:
        found = row["peaks"].get(name)
        if name in row["skipped"]:
            texts[name] = "skipped"
        elif not found:
            texts[name] = "–"
        elif "error" in found:
            texts[name] = f"failed: {found['error'][:40]}"
        else:
            ratio = f" ×{found['peak'] / ours:.3g}" if ours and name != OURS else ""
            texts[name] = f"{found['peak'] / 2**20:,.0f} MB, {found['peak'] / size:.1f} B/annotation{ratio}"
    return texts


def parse() -> argparse.Namespace:
    def numbers(text: str) -> list[int]:
        return [int(float(part)) for part in text.split(",")]

    def names(text: str) -> list[str]:
        return text.split(",")

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--quick", action="store_true", help="1e5 annotations, K = 10, 1,000 workers")
    add("--full", action="store_true", help="every combination of sizes, classes and workers")
    add("--large", action="store_true", help="ours alone at 1e8 as well")
    add("--sizes", type=numbers, help="annotations, default 1e5,1e6,5e6,1e7")
    add("--classes", type=numbers, help="default 2,5,10,20")
    add("--workers", type=numbers, help="default 1000,10000")
    add("--ids", type=names, help="of the whole calls: int, hash, string; default int,string")
    add("--methods", type=names, default=list(peers.METHODS), help="default vote,full,one-coin")
    add("--peers", type=names, help="candidates, default all that are installed")
    add("--order", choices=data.ORDERS, default="task", help="row order of the log")
    add("--passes", type=int, default=20, help="EM passes of a whole call")
    add("--repeats", type=int, default=3)
    add("--budget", type=float, default=30.0, help="skip what is expected to take more seconds")
    add("--parts", type=names, default=["passes", "whole", "memory"], help="default passes,whole,memory")
    add("--out", type=Path, default=harness.RESULTS)
    add("--child", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    quick = arguments.quick
    arguments.sizes = arguments.sizes or ([100_000] if quick else [100_000, 1_000_000, 5_000_000, 10_000_000])
    arguments.classes = arguments.classes or ([10] if quick else [2, 5, 10, 20])
    arguments.workers = arguments.workers or ([1000] if quick else [1000, 10_000])
    arguments.ids = arguments.ids or ["int", "string"]
    if quick:
        arguments.repeats, arguments.budget = min(arguments.repeats, 3), min(arguments.budget, 8.0)
    if arguments.large:
        arguments.sizes.append(100_000_000)
    return arguments


def main() -> None:
    arguments = parse()
    if arguments.child:
        print(json.dumps(child(arguments.child)))
        return
    registry = peers.registry()
    if unknown := set(arguments.peers or ()) - set(registry):
        raise SystemExit(f"not installed or unknown: {sorted(unknown)}; candidates here: {list(registry)}")
    arguments.registry = {name: registry[name] for name in registry if name in (arguments.peers or registry)}
    if OURS not in registry:
        print("note: manyhands is not built, so there are no ratios (run `make build`)")
    names = list(arguments.registry)
    host = harness.machine(peers.THREADS)
    report = [harness.describe(host), ""]
    print(report[0])
    guess = Guess(arguments.budget)
    rows: dict[str, list[dict[str, Any]]] = {"passes": [], "whole": [], "memory": []}
    others = frames(arguments)
    first = [cell for cell in others if cell.ids == arguments.ids[0]]
    plan = {
        "passes": ("Seconds a pass", passes, list(grid(arguments))),
        "whole": (f"Seconds from a pandas frame to labels, {arguments.passes} passes", whole_calls, others),
        "memory": (f"Peak memory above the input, {arguments.ids[0]} ids", memory, first),
    }
    for part in arguments.parts:
        title, measure, cells = plan[part]
        print(f"\n{title} ({part}):", flush=True)
        table = []
        for cell in cells:
            for row in measure(cell, arguments, guess):
                rows[part].append({**row, "cell": vars(cell)})
                extra = {"ids": cell.ids} if part == "whole" else {}
                extra |= {"phase": row["phase"]} if part == "memory" else {}
                texts = sized(row, names) if part == "memory" else timed(row["times"], row["skipped"], names)
                table.append({"method": row["method"], **cell.key(), **extra, **texts})
                print("  " + "; ".join(f"{key} {value}" for key, value in table[-1].items()), flush=True)
        report += [f"## {title}", "", harness.markdown(table), ""]
    report.append(NOT_SHOWN)
    text = "\n".join(report)
    print("\n" + text)
    settings = {key: value for key, value in vars(arguments).items() if key not in ("registry", "child")}
    harness.save("aggregate", arguments.out, {"machine": host, "arguments": settings, **rows}, text)
    draw(rows["passes"], corner(arguments), arguments.out)


def draw(rows: list[dict[str, Any]], at: tuple[int, int], out: Path) -> None:
    """Plot seconds a pass of full Dawid–Skene against the size, at the corner that all sizes share."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        cell = row["cell"]
        if row["method"] == "full" and (cell["n_workers"], cell["n_classes"]) == at:
            for name, stat in row["times"].items():
                lines.setdefault(name, []).append((cell["size"], stat.median))
    title = f"Dawid–Skene, K = {at[1]}, {at[0]:,} workers"
    harness.plot(out / "aggregate.png", lines, title=title, xlabel="annotations", ylabel="seconds a pass")


if __name__ == "__main__":
    main()
