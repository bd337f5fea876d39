"""Measuring: interleaved repeats, peak memory of fresh processes, tables, JSON and plots.

Times are wall clock. Candidates take turns within a repeat: a slow minute of the machine hits them all.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
# Seconds after which a run is not repeated.
SLOW = 2.0
PACKAGES = ("manyhands", "numpy", "scipy", "numba", "pandas", "polars", "pyarrow", "crowd-kit")


@dataclass(frozen=True)
class Stat:
    """Seconds over repeats: median, fastest and slowest."""

    median: float
    low: float
    high: float
    repeats: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Stat:
        return cls(statistics.median(seconds), min(seconds), max(seconds), len(seconds))


def clock(call: Callable[..., object], *arguments: object) -> float:
    """Return the seconds of one call, garbage of earlier calls not included."""
    gc.collect()
    start = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - start


def take_turns(calls: Mapping[str, Callable[[], float]], repeats: int, slow: float = SLOW) -> dict[str, Stat]:
    """Call each candidate once a round and gather the seconds it returns; a slow one has only one turn."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    left = set(calls)
    for _ in range(repeats):
        for name in [name for name in calls if name in left]:
            start = time.perf_counter()
            seconds[name].append(calls[name]())
            if time.perf_counter() - start > slow:
                left.discard(name)
    return {name: Stat.of(values) for name, values in seconds.items()}


def pass_timer(run: Callable[[int], object], least: int, budget: float = 0.15) -> Callable[[], float]:
    """Return a call that measures the seconds of one pass: the difference between many passes and few.

    What a run does once (start, last write, building the answer) cancels. At least eight passes make the difference,
    so that what remains of it is small beside them, and they are doubled until they take ``budget`` seconds; only a
    candidate whose first pass is slow is judged by that. ``least`` is the smallest number of passes it accepts.
    """
    more = 1
    if (first := clock(run, least + more)) <= SLOW:
        more = 8
        while (first := clock(run, least + more)) < budget and more < 4096:
            more *= 2

    def once() -> float:
        few = clock(run, least)
        many = first if first > SLOW else clock(run, least + more)
        # Noise above the passes themselves: then the whole run is an upper bound.
        return (many - few) / more if many > few else many / (least + more)

    return once


# Memory ----------------------------------------------------------------------------------------------


def rss() -> int:
    """Return the resident bytes of this process, after giving back what allocators hold for later."""
    gc.collect()
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # not glibc
            ctypes.CDLL(None).malloc_trim(0)
    import psutil

    return psutil.Process().memory_info().rss


def reset_peak() -> None:
    """Set the peak back to the present (Linux); elsewhere a peak before the measurement counts as well."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        print("note: the peak cannot be reset here, growth is an upper bound", file=sys.stderr)


def peak(process: int | str = "self") -> int:
    """Return the peak resident bytes of a process since its start or `reset_peak`.

    Not ``ru_maxrss``: a child inherits its parent's there.
    """
    try:
        return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text())[1]) * 1024
    except OSError:
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def growth(call: Callable[..., object], *arguments: object) -> dict[str, float]:
    """Return seconds, peak bytes above the start, and bytes still held while the answer lives."""
    before = rss()
    reset_peak()
    start = time.perf_counter()
    answer = call(*arguments)
    seconds = time.perf_counter() - start
    top = peak()
    held = rss() - before
    del answer
    return {"seconds": seconds, "peak": max(0, top - before), "held": held}


def in_child(script: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Run ``python benches/<script> --child <spec>`` and return the JSON of its last line."""
    command = [sys.executable, str(HERE / script), "--child", json.dumps(spec)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = done.stderr.strip().splitlines()[-1:] or ["no message"]
        return {"error": tail[0]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def watch(command: Sequence[str]) -> dict[str, float]:
    """Run a command; return its wall and processor seconds, and peak resident bytes (read while it runs)."""
    start, before = time.perf_counter(), _children()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    top = 0
    while process.poll() is None:
        with contextlib.suppress(OSError, TypeError):  # just ended, or without memory yet
            top = max(top, peak(process.pid))
        time.sleep(0.005)
    seconds = time.perf_counter() - start
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {process.stderr.read().strip()}")
    return {"seconds": seconds, "processor": _children() - before, "peak": top}


def _children() -> float:
    """Return the processor seconds of all children that have ended."""
    spent = os.times()
    return spent.children_user + spent.children_system


# Reports ---------------------------------------------------------------------------------------------


def note(name: str, found: Mapping[str, Any]) -> None:
    """Add what was found to a file of results, in place of what it held of the same keys."""
    path = RESULTS / f"{name}.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(known | dict(found), indent=1))


def machine(threads: int) -> dict[str, Any]:
    """Return what the numbers depend on: processor, cores, memory, load, versions."""
    import psutil

    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists() and (found := re.search(r"model name\s*:\s*(.+)", info.read_text())):
        model = found[1]
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "absent"
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "threads": threads,
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "load_before": [round(load, 2) for load in psutil.getloadavg()],
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": versions,
    }


def describe(host: Mapping[str, Any]) -> str:
    """Return the machine in two lines."""
    versions = ", ".join(f"{name} {version}" for name, version in host["versions"].items())
    busy = "\nThe machine was busy: do not trust the times." if host["load_before"][0] > 0.5 * host["cores"] else ""
    return (
        f"{host['processor']}, {host['cores']} cores, {host['threads']} threads used, {host['memory_gb']} GB,"
        f" load {host['load_before'][0]} at the start; {host['system']}\n"
        f"Python {host['python']}, {versions}{busy}"
    )


def markdown(rows: Iterable[Mapping[str, object]]) -> str:
    """Return rows (the same keys in each) as an aligned Markdown table."""
    rows = [{key: str(value) for key, value in row.items()} for row in rows]
    if not rows:
        return "(nothing measured)"
    widths = {key: max(len(key), *(len(row[key]) for row in rows)) for key in rows[0]}
    lines = [
        "| " + " | ".join(f"{key:{width}}" for key, width in widths.items()) + " |",
        "| " + " | ".join("-" * width for width in widths.values()) + " |",
    ]
    lines += ["| " + " | ".join(f"{row[key]:{width}}" for key, width in widths.items()) + " |" for row in rows]
    return "\n".join(lines)


def human(seconds: float) -> str:
    """Return a time with three digits and a fitting unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size or unit == "µs":
            return f"{seconds / size:.3g} {unit}"
    raise AssertionError


def count(number: float) -> str:
    """Return 1e6 as ``1e6`` and 1000 as ``1000``."""
    text = f"{number:.0e}".replace("e+0", "e").replace("e+", "e")
    return text if number >= 1e4 and float(text) == number else f"{number:g}"


def save(name: str, out: Path, payload: dict[str, Any], text: str) -> None:
    """Write ``<name>.json`` and ``<name>.md`` and say where."""
    out.mkdir(parents=True, exist_ok=True)

    def plain(value: object) -> object:
        return asdict(value) if isinstance(value, Stat) else str(value)

    (out / f"{name}.json").write_text(json.dumps(payload, indent=1, default=plain) + "\n")
    (out / f"{name}.md").write_text(text + "\n")
    print(f"\nwritten: {out / name}.json, {out / name}.md")


def plot(
    path: Path,
    lines: Mapping[str, Sequence[tuple[float, float]]],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
) -> None:
    """Draw a line a candidate through its (x, y) points, both axes logarithmic; nothing without points."""
    if not any(lines.values()):
        return
    try:
        import matplotlib
    except ImportError:
        print("no plot: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name, points in lines.items():
        axes.loglog(*zip(*sorted(points), strict=True), marker="o", label=name)
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    axes.grid(which="major", alpha=0.3)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    print(f"written: {path}")
