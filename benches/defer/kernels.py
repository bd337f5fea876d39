"""What it costs to keep workloads: projections beside SciPy, and assignments.

    python benches/defer/kernels.py            # a few minutes, most of them SciPy's
    python benches/defer/kernels.py --quick    # a tenth of the rows

The same dual, from the same start to the same tolerance, is solved by SciPy's L-BFGS-B with NumPy: in log space, as one
writes it so that nothing overflows, and with the two matrix products that do where probabilities are not extreme.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness
import manyhands as mh

Dual = Callable[[np.ndarray], tuple[float, np.ndarray]]


def gate(n: int, k: int) -> np.ndarray:
    """Probabilities of a confident gate with a taste of its own."""
    rng = np.random.default_rng(0)
    rows = np.exp(2 * rng.normal(size=(n, k)) + rng.normal(size=k))
    return rows / rows.sum(axis=1, keepdims=True)


def in_log_space(q: np.ndarray) -> Dual:
    logs = np.log(q)

    def smooth(tilt: np.ndarray) -> tuple[float, np.ndarray]:
        tilted = logs + tilt
        norm = logsumexp(tilted, axis=1, keepdims=True)
        return float(norm.mean()), np.exp(tilted - norm).mean(axis=0)

    return smooth


def by_products(q: np.ndarray) -> Dual:
    def smooth(tilt: np.ndarray) -> tuple[float, np.ndarray]:
        factor = np.exp(tilt)
        z = q @ factor
        return float(np.log(z).mean()), factor * ((1 / z) @ q) / len(q)

    return smooth


def lbfgs(make: Callable[[np.ndarray], Dual], q: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> dict[str, Any]:
    """Solve for the multipliers of both bounds, as Eq. 9 of the paper has them."""
    smooth, k = make(q), q.shape[1]

    def dual(both: np.ndarray) -> tuple[float, np.ndarray]:
        value, shares = smooth(both[:k] - both[k:])
        return value - lower @ both[:k] + upper @ both[k:], np.concatenate([shares - lower, upper - shares])

    found = minimize(
        dual,
        np.zeros(2 * k),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * (2 * k),
        options={"gtol": 1e-9, "ftol": 0, "maxiter": 1000, "maxfun": 2000},
    )
    shares = smooth(found.x[:k] - found.x[k:])[1]
    miss = np.maximum(lower - shares, shares - upper).max()
    return {"evaluations": found.nfev, "misses the bounds by": max(miss, 0.0)}


def timed(runs: dict[str, Callable[[], dict[str, Any]]], repeats: int) -> list[dict[str, Any]]:
    """A row a candidate: median, spread and processor time, and the ratio to the first."""
    details: dict[str, dict[str, Any]] = {}
    busy: dict[str, list[float]] = {name: [] for name in runs}

    def call(name: str) -> float:
        start, processor = time.perf_counter(), time.process_time()
        details[name] = runs[name]()
        busy[name].append(time.process_time() - processor)
        return time.perf_counter() - start

    stats = harness.take_turns({name: lambda name=name: call(name) for name in runs}, repeats, slow=20)
    first = next(iter(runs))
    rows = []
    for name, stat in stats.items():
        details[name] = {
            key: f"{value:.1e}" if isinstance(value, float) else value for key, value in details[name].items()
        }
        processor = float(np.median(busy[name]))
        rows.append(
            {
                "": name,
                "median": harness.human(stat.median),
                "fastest": harness.human(stat.low),
                "slowest": harness.human(stat.high),
                "ratio": f"{stat.median / stats[first].median:.1f}",
                "processor time": harness.human(processor),
                "ratio of that": f"{processor / np.median(busy[first]):.1f}",
                **details[name],
            }
        )
        print("  ", rows[-1], flush=True)
    return rows


def projections(n: int, k: int, repeats: int) -> dict[str, list[dict[str, Any]]]:
    q, tables = gate(n, k), {}
    for title, lower, upper in (
        ("balanced", np.full(k, 1 / k), np.full(k, 1 / k)),
        ("between 0.5/K and 1.5/K", np.full(k, 0.5 / k), np.full(k, 1.5 / k)),
    ):

        def ours(lower: np.ndarray = lower, upper: np.ndarray = upper) -> dict[str, Any]:
            found = mh.defer.project(q, lower, upper)
            return {"evaluations": found.n_iter, "misses the bounds by": found.residual}

        def theirs(make: Any, lower: np.ndarray = lower, upper: np.ndarray = upper) -> Callable[[], dict[str, Any]]:
            return lambda: lbfgs(make, q, lower, upper)

        runs = {
            "manyhands.defer.project": ours,
            "L-BFGS, NumPy in log space": theirs(in_log_space),
            "L-BFGS, NumPy matrix products": theirs(by_products),
        }
        tables[f"Projection of {n:,} × {k}, shares {title}"] = timed(runs, repeats)
    return tables


def assignments(n: int, k: int, repeats: int) -> dict[str, list[dict[str, Any]]]:
    scores = np.log(gate(n, k))
    least, most = mh.defer.capacities(1 / k, 1 / k, n, k)

    def exact() -> dict[str, Any]:
        counts = np.bincount(mh.defer.assign(scores, least, most), minlength=k)
        return {"fewest and most cases": f"{counts.min():,} and {counts.max():,}"}

    def arg_max() -> dict[str, Any]:
        counts = np.bincount(scores.argmax(axis=1), minlength=k)
        return {"fewest and most cases": f"{counts.min():,} and {counts.max():,}"}

    return {
        f"Balanced assignment of {n:,} × {k}": timed({"manyhands.defer.assign": exact, "arg max": arg_max}, repeats)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=harness.RESULTS)
    arguments = parser.parse_args()
    part = 10 if arguments.quick else 1
    host = harness.machine(mh.get_num_threads())
    tables = projections(1_000_000 // part, 20, arguments.repeats)
    for n, k in ((100_000, 11), (1_000_000, 20)):
        tables |= assignments(n // part, k, arguments.repeats)
    text = "\n\n".join(
        [harness.describe(host), *(f"## {title}\n\n{harness.markdown(rows)}" for title, rows in tables.items())]
    )
    print("\n" + text)
    harness.save("defer-kernels", arguments.out, {"machine": host, "tables": tables}, text)


if __name__ == "__main__":
    main()
