"""MACE and GLAD beside crowd-kit's, and agreement: seconds a pass, same data, same run.

    python benches/competence.py                         # 1e5 annotations: crowd-kit takes a minute
    python benches/competence.py --annotations 1000000   # crowd-kit's GLAD takes minutes for its one pass
    python benches/competence.py --annotations 1000000 --ours

A pass is the difference between a run of many and one of few, over their number, in seconds of the clock and of all
processors; the fastest of three runs, or one run where it takes longer than two seconds. crowd-kit's GLAD is given one
gradient step a pass, the least that it can do.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import data
import harness
import manyhands as mh
import peers


def timed(run: Callable[[int], object], n: int) -> tuple[float, float]:
    """Seconds of the clock and of all processors that a run of so many passes takes; the fastest of a few."""
    taken: list[tuple[float, float]] = []
    while not taken or (len(taken) < 3 and min(taken)[0] < harness.SLOW):
        start = time.process_time()
        seconds = harness.clock(run, n)
        taken.append((seconds, time.process_time() - start))
    return min(taken)


def seconds_a_pass(run: Callable[[int], object], few: int, many: int) -> tuple[float, float]:
    """The cost of one pass; starts and last writes cancel."""
    wall, processor = (b - a for a, b in zip(timed(run, few), timed(run, many), strict=True))
    return wall / (many - few), processor / (many - few)


def crowd_kit(frame: object) -> dict[str, Callable[[int], object]]:
    """crowd-kit's classes, by a number of passes."""
    from crowdkit.aggregation import GLAD, MACE

    return {
        "MACE": lambda n: MACE(n_restarts=1, n_iter=n).fit(frame),
        "GLAD": lambda n: GLAD(n_iter=n, tol=float("-inf"), m_step_max_iter=1).fit(frame),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--annotations", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--classes", type=int, default=2)
    parser.add_argument("--ours", action="store_true", help="leave crowd-kit out")
    given = parser.parse_args()
    mh.set_num_threads(peers.THREADS)
    codes = data.crowd(given.annotations, given.workers, given.classes)
    votes = mh.Annotations.from_arrays(codes.tasks, codes.workers, codes.labels)
    ours: dict[str, Callable[[int], object]] = {
        "MACE": lambda n: mh.categorical.MACE(max_iter=n, tol=0.0).fit(votes),
        "GLAD": lambda n: mh.categorical.GLAD(max_iter=n, tol=0.0).fit(votes),
    }
    theirs = {} if given.ours else crowd_kit(votes.to_frame().to_pandas())
    for name, run in ours.items():
        mine, busy = seconds_a_pass(run, 2, 12)
        line = f"{name}: {mine * 1e3:.2f} ms a pass, {busy * 1e3:.2f} of processors"
        if name in theirs:
            rival, rival_busy = seconds_a_pass(theirs[name], 0, 1)
            line += f"; crowd-kit {rival:.3f} s, {rival_busy:.3f}: x{rival / mine:.0f}, x{rival_busy / busy:.0f}"
        print(line, flush=True)
    for resamples in (0, 1000):
        alpha = partial(mh.agreement.krippendorff_alpha, votes, resamples=resamples)
        print(f"alpha, {resamples} resamples: {harness.clock(alpha):.3f} s", flush=True)


if __name__ == "__main__":
    main()
