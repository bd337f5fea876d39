"""Ten million answers of other kinds than classes: seconds and memory of fits, each in a process of its own.

    python benches/large.py                            # numbers, comparisons and sets, 1e7 answers each
    python benches/large.py --answers 1e6 --only sets

Numbers: five ratings of each task by 10,000 workers. Comparisons: of 10,000 items by 1,000 workers. Sets: eight answers
of each task by 10,000 workers, 20 labels. Seconds are of all processors and on the wall, from a table to answers;
memory is the largest that the process ever had less what it had with the table alone.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import manyhands as mh


def numbers(n: int) -> Any:
    return mh.simulate(n // 5, 10_000, answers_per_task=5, seed=0, kind="numeric").log


def comparisons(n: int) -> Any:
    return mh.simulate(10_000, 1_000, n, seed=0, kind="pairwise").log


def sets(n: int) -> Any:
    return mh.simulate(n // 8, 10_000, 20, answers_per_task=8, seed=0, kind="multilabel").log


#: A kind, how its log is drawn, and its methods by name.
KINDS: dict[str, tuple[Callable[[int], Any], dict[str, Callable[[], Any]]]] = {
    "numbers": (
        numbers,
        {"Mean": mh.numeric.Mean, "GaussianCrowd": mh.numeric.GaussianCrowd, "Blend, the default": mh.numeric.Blend},
    ),
    "comparisons": (
        comparisons,
        {
            'BradleyTerry(intervals="none")': lambda: mh.pairwise.BradleyTerry(intervals="none"),
            "WorkerBradleyTerry, the default": mh.pairwise.WorkerBradleyTerry,
        },
    ),
    "sets": (sets, {"PooledRelevance, the default": mh.multilabel.PooledRelevance}),
}


def peak() -> float:
    """The largest memory of this process so far, in gigabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def one(kind: str, method: str, n: int) -> dict[str, Any]:
    """Draw, fit, and measure."""
    draw, methods = KINDS[kind]
    table = draw(n)
    # A table that was saved is read into what it needs: what drawing took is not counted.
    before, wall, of_all = peak(), time.perf_counter(), time.process_time()
    model = methods[method]().fit(table)
    took = {"processors": time.process_time() - of_all, "wall": time.perf_counter() - wall}
    return {"table": repr(table), **took, "drawn": before, "peak": peak(), "passes": model.n_iter_}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=float, default=1e7)
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.one:
        print(json.dumps(one(*given.one, int(given.answers))))
        return
    for kind, (_, methods) in KINDS.items():
        for method in methods if given.only in (None, kind) else ():
            command = [sys.executable, __file__, "--answers", str(given.answers), "--one", kind, method]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            print(
                f"{kind}, {method}: {found['processors']:.1f} s of processors, {found['wall']:.1f} s on the wall, "
                f"{found['peak']:.2f} GB at the most ({found['drawn']:.2f} when drawn), {found['passes']} passes; "
                f"{found['table']}",
                flush=True,
            )


if __name__ == "__main__":
    main()
