"""Numbers: kernels against NumPy in the same run, and methods against gold.

    python benches/numeric.py [--ratings 1000000] [--data ../shared/data] [--part kernels|gold|all]

Kernels: a step of the Gaussian model (values of tasks from workers, and the sums workers are learnt from) and means
with their spread, against NumPy's bincount on the same columns. Wall-clock times, the least of some runs; ours on all
threads.

The default was chosen as follows: the mean and five models were scored on workers who were left out; what is blended,
how it is drawn back and the convention of units were then settled on ten sets together, none of them by itself.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
SETS = ("affect_anger", "affect_fear", "affect_joy", "affect_valence", "movie_reviews")
ORDERED = ("web", "metaphor_novelty", "s_rel")
NOT_SHOWN = """\
What this does not show: other ways to fit the model; how far experts are from the truth."""


def timed(job: Callable[[], Any], clock: Callable[[], float], repeats: int = 7) -> float:
    """Seconds by a clock, the least of some runs."""
    found = []
    for _ in range(repeats):
        begin = clock()
        job()
        found.append(clock() - begin)
    return min(found)


def numpy_step(tasks: Any, workers: Any, x: Any, each: Any, n: int, m: int) -> Any:
    """The same step, as a good NumPy programmer would write it."""
    lam, a, _, aa, ab, _ = each.T
    precision = 1.0 + np.bincount(tasks, (lam * aa)[workers], n)
    pull = np.bincount(tasks, (lam * a)[workers] * x - (lam * ab)[workers], n)
    y, v = pull / precision, 1.0 / precision
    own, spread = y[tasks], (y * y + v)[tasks]
    sums = [np.bincount(workers, z, m) for z in (x, x * x, own, spread, x * own)]
    return y, precision, np.bincount(workers, minlength=m), sums


def numpy_spread(tasks: Any, workers: Any, x: Any, n: int, m: int) -> Any:
    """Means, squares about them, and workers' differences."""
    counts = np.bincount(tasks, minlength=n)
    away = x - (np.bincount(tasks, x, n) / np.maximum(counts, 1))[tasks]
    return np.bincount(tasks, away * away, n), np.bincount(workers, away, m), np.bincount(workers, away * away, m)


def kernels(n_ratings: int) -> None:
    """Print seconds of each kernel and of NumPy."""
    from manyhands import _core

    n, m = n_ratings // 5, max(n_ratings // 1000, 10)
    rng = np.random.default_rng(0)
    of_tasks = {
        "five ratings a task": np.repeat(np.arange(n, dtype=np.uint32), 5),
        "tasks at random": rng.integers(n, size=n_ratings, dtype=np.uint32),
    }
    each = np.tile([2.0, 1.0, 0.1, 1.1, 0.1, 0.05], (m, 1))
    view = (0, 1.0, 0.0)
    print(f"{n_ratings:,} ratings, {n:,} tasks, {m:,} workers; seconds, on the wall and of all processors")
    for how, tasks in of_tasks.items():
        by = rng.integers(m, size=n_ratings, dtype=np.uint32)
        table = _core.Ratings(tasks, by, rng.normal(size=(n_ratings, 1)), None, n, m)
        codes, workers, values = table.columns()
        codes, workers, x = codes.astype(np.int64), workers.astype(np.int64), values[:, 0].copy()
        rows = {
            "step of the Gaussian model": (
                lambda table=table: _core.gaussian_pass(table, *view, each, (0.0, 1.0)),
                lambda codes=codes, workers=workers, x=x: numpy_step(codes, workers, x, each, n, m),
            ),
            "means and their spread": (
                lambda table=table: _core.rating_spread(table, *view),
                lambda codes=codes, workers=workers, x=x: numpy_spread(codes, workers, x, n, m),
            ),
        }
        for name, (ours, theirs) in rows.items():
            for what, clock in (("wall", time.perf_counter), ("processors", time.process_time)):
                mine, other = timed(ours, clock), timed(theirs, clock)
                print(
                    f"{how:<20} {name:<28} {what:<10} manyhands {mine:8.4f}  NumPy {other:8.4f}"
                    f"  ratio {other / mine:5.1f}"
                )


def read(folder: Path, column: str) -> tuple[Any, Any]:
    """A table and the gold of its tasks, NaN where there is none."""
    import manyhands as mh

    path = folder / "labels.csv"
    with path.open(newline="") if path.exists() else gzip.open(folder / "labels.csv.gz", "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    with (folder / "gold.csv").open(newline="") as file:
        gold = {row["task"]: float(row[column]) for row in csv.DictReader(file)}
    rows = [row for row in rows if row["task"] in gold]
    columns = ([row[name] for row in rows] for name in ("task", "worker"))
    ratings = mh.Ratings.from_arrays(*columns, [float(row[column]) for row in rows])
    return ratings, np.array([gold[task] for task in ratings.tasks.tolist()])


def against_gold(data: Path) -> None:
    """Print the error of every method on every set."""
    import manyhands as mh

    warnings.simplefilter("ignore")
    methods = {
        "mean": mh.numeric.Mean(),
        "median": mh.numeric.Median(),
        "trimmed": mh.numeric.TrimmedMean(),
        "gaussian": mh.numeric.GaussianCrowd(),
        "tails=4": mh.numeric.GaussianCrowd(tails=4.0),
        "messages": mh.numeric.GaussianCrowd(bias=False, scale=False, method="messages"),
        "covariance": mh.numeric.CovarianceCrowd(),
        "blend": mh.numeric.Blend(),
    }
    print("| set | " + " | ".join(methods) + " |")
    print("| --- |" + " --: |" * len(methods))
    for name in (*SETS, *ORDERED):
        ratings, gold = read(data / name, "value" if name in SETS else "label")
        errors = [mh.metrics.rmse(model.fit(ratings).values_, gold) for model in methods.values()]
        print(
            f"| {name} | " + " | ".join(f"{error:.4g} ({error / errors[0] - 1:+.1%})" for error in errors) + " |",
            flush=True,
        )


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ratings", type=int, default=1_000_000)
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data")
    parser.add_argument("--part", choices=("kernels", "gold", "all"), default="all")
    args = parser.parse_args()
    if args.part != "gold":
        kernels(args.ratings)
    if args.part != "kernels":
        against_gold(args.data)
    print(NOT_SHOWN)


if __name__ == "__main__":
    main()
