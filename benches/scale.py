"""Logs on disk: seconds a pass beside memory, peak anonymous memory under a set limit, file to labels.

    python benches/scale.py passes --sizes 1e7 1e8 --workers 1e3 1e5   # shards made by mh.simulate
    python benches/scale.py file --size 1e7 --memory 1GB               # Parquet of text ids to labels
    python benches/scale.py read --size 1e7                            # memory of mh.read into memory
    python benches/scale.py traffic                                    # sums that would cross a network, on paper

Every line is measured in a fresh process whose address space is limited (RLIMIT_AS, ``--limit``), by the clock and by
the time of the processors. Anonymous memory is ``RssAnon`` of /proc/self/status, sampled ten times a second.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NOT_SHOWN = """\
What this does not show: cold disks, other machines, uneven crowds (each task has five labels, drawn evenly)."""


class Peak:
    """The most anonymous memory of this process while something runs."""

    def __init__(self) -> None:
        self.bytes = 0
        self._stop = threading.Event()

    def __enter__(self) -> Peak:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            self.bytes = max(self.bytes, anonymous())


def anonymous() -> int:
    """Bytes of memory of this process that are of no file."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) * 1024


@contextmanager
def timed(found: dict[str, float], name: str) -> Iterator[None]:
    """Note seconds by the clock and of the processors."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    found[f"{name}_s"] = round(time.perf_counter() - wall, 3)
    found[f"{name}_cpu_s"] = round(time.process_time() - cpu, 3)


def passes(args: argparse.Namespace) -> dict[str, Any]:
    """Make shards, and take the time of passes over them; beside memory where the log fits."""
    import manyhands as mh
    from manyhands.categorical.shards.votes import open_shards

    n, m, k = int(args.size), int(args.crowd), 5
    found: dict[str, Any] = {"annotations": n, "workers": m}
    directory = Path(args.directory) / f"{n}-{m}"
    if not (directory / "manifest.json").exists():
        with timed(found, "simulate"):
            mh.simulate(n // 5, m, k, labels_per_task=5, seed=1, out_of_core=directory)
    votes = open_shards(directory)
    found["bytes_per_annotation"] = sum(e.n_bytes for e in votes.passes.directory.entries) / n
    before = anonymous()
    with Peak() as peak:
        found |= _pass(votes, "shards", args.passes)
    found["shards_peak_MB"] = round((peak.bytes - before) / 1e6, 1)
    if args.beside:
        whole = votes.in_memory()
        found |= _pass(whole, "memory", args.passes)
        for what in ("s", "cpu_s"):
            found[f"ratio_{what}"] = round(found[f"shards_pass_{what}"] / found[f"memory_pass_{what}"], 3)
    if args.default:
        with Peak() as peak, timed(found, "default"):
            mh.aggregate(votes).to_parquet(directory.parent / "labels.parquet")
        found["default_peak_MB"] = round((peak.bytes - before) / 1e6, 1)
    return found


def _pass(votes: Any, name: str, n: int) -> dict[str, float]:
    """Seconds of one more pass: what n more passes take beyond one."""
    found: dict[str, float] = {}
    runs: dict[str, list[float]] = {"s": [], "cpu_s": []}
    for most in (1, 1 + n):
        here: dict[str, float] = {}
        with timed(here, "fit"):
            _core_fit(votes, most)
        runs["s"].append(here["fit_s"])
        runs["cpu_s"].append(here["fit_cpu_s"])
    for what, (one, more) in runs.items():
        found[f"{name}_pass_{what}"] = round((more - one) / n, 4)
    return found


def _core_fit(votes: Any, max_iter: int) -> None:
    import numpy as np

    from manyhands import _core

    how = {"model": "full", "assignment": "soft", "start": "majority", "tol": 0.0, "max_iter": max_iter}
    k = votes.n_classes
    _core.em_fit(votes.passes, **how, pseudo=np.full((k, k), 0.01), class_pseudo=np.zeros(k))


def file(args: argparse.Namespace) -> dict[str, Any]:
    """From a Parquet file of text ids to a file of labels, out of core."""
    import manyhands as mh

    path = Path(args.directory) / f"log-{int(args.size)}.parquet"
    if not path.exists():
        _write_log(path, int(args.size), int(args.crowd))
    found: dict[str, Any] = {"annotations": int(args.size), "file_MB": round(path.stat().st_size / 1e6, 1)}
    shards = Path(args.directory) / "file-shards"
    shutil.rmtree(shards, ignore_errors=True)
    with Peak() as peak:
        with timed(found, "encode"):
            votes = mh.read(path, out_of_core=shards, memory=args.memory)
        with timed(found, "fit"):
            model = mh.DawidSkene(max_iter=10, tol=0).fit(votes)
        with timed(found, "write"):
            model.to_parquet(Path(args.directory) / "labels.parquet")
    return found | {"peak_MB": round(peak.bytes / 1e6, 1), "memory": args.memory}


def read(args: argparse.Namespace) -> dict[str, Any]:
    """Memory of reading a log into memory, beside the table that comes of it."""
    import manyhands as mh

    found: dict[str, Any] = {"annotations": int(args.size)}
    for ending in ("parquet", "csv"):
        path = Path(args.directory) / f"log-{int(args.size)}.{ending}"
        if not path.exists():
            _write_log(path, int(args.size), int(args.crowd))
        before = anonymous()
        with Peak() as peak, timed(found, ending):
            votes = mh.read(path)
        found[f"{ending}_MB"] = round(path.stat().st_size / 1e6, 1)
        found[f"{ending}_peak_MB"] = round((peak.bytes - before) / 1e6, 1)
        found[f"{ending}_held_MB"] = round((anonymous() - before) / 1e6, 1)
        del votes
    return found


def traffic(args: argparse.Namespace) -> dict[str, Any]:
    """Bytes of sums that a pass would move each way on a cluster: the formula beside draws, then far beyond them."""
    import numpy as np

    rng = np.random.default_rng(0)
    drawn = []
    for n, m, parts, uneven in (
        (10**6, 10**3, 8, 0),
        (10**6, 10**5, 8, 0),
        (10**6, 10**5, 64, 0),
        (10**6, 10**5, 64, 1),
    ):
        shares = _shares(m, uneven)
        workers = rng.choice(m, n, p=shares)
        seen = len(np.unique(workers * parts + rng.integers(parts, size=n)))
        drawn.append({"case": [n, m, parts, uneven], "seen": seen, "formula": round(_seen(n, m, parts, uneven))})
    wide = (
        {"case": [n, m, parts, uneven], "GB": round(_seen(n, m, parts, uneven) * k * k * 8 / 1e9, 1), "classes": k}
        for n, m, k in ((10**9, 10**5, 5), (10**10, 10**6, 5), (10**11, 10**7, 5))
        for parts in (16, 128, 1024)
        for uneven in (0, 1)
    )
    return {"drawn": drawn, "on_paper": list(wide)}


def _shares(m: int, uneven: int) -> Any:
    """Each worker's share of the work: even, or as one over the rank."""
    import numpy as np

    shares = 1.0 / np.arange(1, m + 1) ** uneven
    return shares / shares.sum()


def _seen(n: int, m: int, parts: int, uneven: int) -> float:
    """Expected pairs of a worker and a part that holds an answer of theirs, tasks being dealt at random."""
    import numpy as np

    return float(-parts * np.expm1(-n * _shares(m, uneven) / parts).sum())


def _write_log(path: Path, n: int, m: int) -> None:
    """A log of text ids, in random order within blocks of a million tasks."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    import manyhands as mh
    from manyhands._base.write import write_frames

    def blocks() -> Iterator[pa.Table]:
        step = 200_000
        for first in range(0, n // 5, step):
            crowd = mh.simulate(min(step, n // 5 - first), m, 5, labels_per_task=5, seed=first, confusion=skills)
            tasks, workers, labels = crowd.log.codes()
            order = np.random.default_rng(first).permutation(len(tasks))
            texts = {
                "task": ("task-", tasks.astype(np.int64) + first),
                "worker": ("worker-", workers),
                "label": ("c", labels),
            }
            yield pa.table(
                {
                    name: pc.binary_join_element_wise(letter, pc.cast(pa.array(codes[order]), pa.string()), "")
                    for name, (letter, codes) in texts.items()
                }
            )

    skills = mh.categorical.crowds.one_coin(m, 5, accuracy=0.7)
    write_frames(blocks(), path)


def main() -> None:
    """Measure each line in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("passes", "file", "read", "traffic"))
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e7])
    parser.add_argument("--size", type=float, default=1e7)
    parser.add_argument("--workers", type=float, nargs="+", default=[1e3, 1e5])
    parser.add_argument("--crowd", type=float, default=1e3)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--beside", action="store_true", help="also in memory, in the same process")
    parser.add_argument("--default", action="store_true", help="also the whole default")
    parser.add_argument("--memory", default="1GB", help="of encoding")
    parser.add_argument("--limit", default="8GB", help="address space of the process")
    parser.add_argument("--directory", default=tempfile.gettempdir() + "/manyhands-scale")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    Path(args.directory).mkdir(parents=True, exist_ok=True)
    if args.alone:
        from manyhands.categorical.shards.encoder import memory_of

        resource.setrlimit(resource.RLIMIT_AS, (memory_of(args.limit),) * 2)
        print(json.dumps(globals()[args.what](args)))
        return
    print(f"load {os.getloadavg()[0]:.1f}\n{NOT_SHOWN}", file=sys.stderr)
    given = sys.argv[1:]
    grid = (
        [(size, m) for size in args.sizes for m in args.workers] if args.what == "passes" else [(args.size, args.crowd)]
    )
    for size, m in grid:
        sizes = ["--alone", "--size", str(size), "--crowd", str(m)]
        subprocess.run([sys.executable, __file__, *given, *sizes], check=True)


if __name__ == "__main__":
    main()
