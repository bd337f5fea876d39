"""Numbers: kernels against NumPy in the same run, and methods against gold.

    python benches/numeric.py [--ratings 1000000] [--data ../shared/data] [--part kernels|gold|left-out|coverage|all]

Kernels: a step of the Gaussian model (values of tasks from workers, and the sums workers are learnt from) and means
with their spread, against NumPy's bincount on the same columns, which returns the same. The least of some runs, of all
processors and on the wall; ours on all threads. Beside them what cannot be saved: the time in which fresh memory for
the answers is filled, once.

The default was chosen as follows: the mean and five models were scored on workers who were left out; what is blended,
how it is drawn back and the convention of units were then settled on ten sets together, none of them by itself.
The part "left-out" chooses among nineteen rules, the default's among them, on all sets but one (least mean logarithm
of the error as a share of the mean's), and judges the choice on that one.
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
#: The rule that Blend follows, among those of `rules`.
DEFAULT = "all, from bias, drawn back"
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
    least = np.maximum(counts, 1)
    means = np.bincount(tasks, x, n) / least
    away = x - means[tasks]
    squares = away * away
    of_workers = [np.bincount(workers, minlength=m), np.bincount(workers, away, m), np.bincount(workers, squares, m)]
    return counts, means, np.bincount(tasks, squares, n), 1.0 / least, of_workers


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
                lambda table=table: table.gaussian_pass(*view, each, (0.0, 1.0)),
                lambda codes=codes, workers=workers, x=x: numpy_step(codes, workers, x, each, n, m),
            ),
            "means and their spread": (
                lambda table=table: table.spread(*view),
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
    for columns in (2, 4):
        filled = timed(lambda columns=columns: np.zeros((n, columns)).fill(1.0), time.process_time)
        print(f"fresh memory for {columns} numbers a task: {filled:.4f}")


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
    print("| set | " + " | ".join(methods) + " | within blend's intervals |")
    print("| --- |" + " --: |" * (len(methods) + 1))
    for name, (ratings, gold) in known_sets(data).items():
        errors = [mh.metrics.rmse(model.fit(ratings).values_, gold) for model in methods.values()]
        held = mh.metrics.coverage(methods["blend"].intervals_, gold)
        row = " | ".join(f"{error:.4g} ({error / errors[0] - 1:+.1%})" for error in errors)
        print(f"| {name} | {row} | {held:.2f} |", flush=True)


def known_sets(data: Path) -> dict[str, tuple[Any, Any]]:
    """All sets with gold, as numbers."""
    return {name: read(data / name, "value" if name in SETS else "label") for name in (*SETS, *ORDERED)}


def rules(ratings: Any, gold: Any) -> dict[str, float]:
    """The error of every rule that the default could have been, by name: all from the same fits."""
    import manyhands as mh
    from manyhands.numeric import _weights, blend

    seen: dict[str, Any] = {}

    class Watched(blend._Losses):
        def weights(self) -> Any:
            seen["losses"] = self
            return super().weights()

    class Looking(mh.numeric.Blend):
        def _judge(self, table: Any, units: Any, crowds: Any, members: Any, plain: Any, done: Any) -> Any:
            seen["values"] = [plain.values] + [one.values * one.gain + one.shift for one in members]
            seen["units"] = units
            return super()._judge(table, units, crowds, members, plain, done)

    kept, blend._Losses = blend._Losses, Watched
    try:
        model = Looking().fit(ratings)
    finally:
        blend._Losses = kept
    names = ["mean", *blend.MEMBERS]
    values = np.stack([seen["units"].back(one)[:, 0] for one in seen["values"]])
    losses = seen["losses"]

    def weights(start: str, among: list[str], back: bool) -> Any:
        """Weights if blends start there, are of these members, and are drawn back or not."""
        # The place where blends start is fixed: the members are put in another order.
        others = [name for name in among if name != start]
        order = [names.index(name) for name in (others[0], start, *others[1:])]
        part = kept.__new__(kept)
        part._tasks, part._workers = losses._tasks, losses._workers
        part._products = losses._products[np.ix_(order, order)]
        part._parts = [(rows, errors[order], counts) for rows, errors, counts in losses._parts]
        scale = np.trace(part._products)
        found = part.weights() if back else _weights.least_squares_on_simplex(part._products / scale)
        return np.bincount(order, found, len(names))

    found = {name: mh.metrics.rmse(one, gold) for name, one in zip(names, values, strict=True)}
    among = {
        "all": names,
        "without scales": [name for name in names if "scale" not in name],
        "without noise": [name for name in names if "noise" not in name],
    }
    for start in ("mean", "bias"):
        for which, members in among.items():
            for back in (True, False):
                name = f"{which}, from {start}, {'drawn back' if back else 'as they are'}"
                found[name] = mh.metrics.rmse(weights(start, members, back) @ values, gold)
    found[DEFAULT] = mh.metrics.rmse(model.values_, gold)
    return found


def left_out(data: Path) -> None:
    """Print, for each set, the rule that the others choose, and how it does there."""
    warnings.simplefilter("ignore")
    found = {}
    for name, (ratings, gold) in known_sets(data).items():
        errors = rules(ratings, gold)
        found[name] = {rule: np.log(error / errors["mean"]) for rule, error in errors.items()}
        print(f"# {name}: " + ", ".join(f"{rule} {np.expm1(x):+.1%}" for rule, x in found[name].items()), flush=True)
    print("| left out | chosen on the others | there | default | best of all there |\n| --- | --- | --: | --: | --: |")
    totals = []
    for name, own in found.items():
        means = {rule: np.mean([of[rule] for other, of in found.items() if other != name]) for rule in own}
        chosen, best = min(means, key=lambda rule: means[rule]), min(own, key=lambda rule: own[rule])
        row = [np.expm1(own[rule]) for rule in (chosen, DEFAULT, best)]
        totals.append([own[rule] for rule in (chosen, DEFAULT, best)])
        print(f"| {name} | {chosen} | {row[0]:+.1%} | {row[1]:+.1%} | {row[2]:+.1%} ({best}) |")
    print("| mean | | " + " | ".join(f"{x:+.1%}" for x in np.expm1(np.mean(totals, axis=0))) + " |")


def coverage(draws: int = 10) -> None:
    """Print which share of simulated values lies within 90 % intervals, by kind of crowd.

    As drawn, and in the origin and unit of the crowd that was drawn, which is all that a crowd can tell: what its
    average worker would say without noise. Rules were settled on other draws.
    """
    crowds: list[tuple[str, int, int, dict[str, float]]] = [
        (f"30 workers, noise spread {spread}", 30, each, {"noise_spread": spread})
        for each in (3, 5, 10)
        for spread in (0.3, 1.0)
    ]
    others = {
        "10 workers": (10, {}),
        "100 workers": (100, {}),
        "workers alike but for noise": (30, {"bias": 0.0, "scale": 0.0}),
        "strong biases and scales": (30, {"bias": 1.0, "scale": 0.4}),
        "Student's t with 3 degrees": (30, {"tails": 3.0}),
        "a fifth answer at random": (30, {"spammers": 0.2}),
    }
    crowds += [(name, n, each, {**kind}) for name, (n, kind) in others.items() for each in (3, 8)]
    warnings.simplefilter("ignore")
    print("share of simulated values within intervals of 90 %, mean of draws")
    for name, n_workers, each, kind in crowds:
        shares = ", ".join("{} {:.3f} / {:.3f}".format(model, *of) for model, of in held(n_workers, each, kind, draws))
        print(f"{name}, {each} ratings a task: {shares}", flush=True)


def held(n_workers: int, each: int, kind: dict[str, Any], draws: int) -> list[tuple[str, Any]]:
    """For each method the shares of values that its intervals hold, as drawn and in the crowd's origin and unit."""
    import manyhands as mh

    models = {"mean": mh.numeric.Mean(), "gaussian": mh.numeric.GaussianCrowd(), "blend": mh.numeric.Blend()}
    found: dict[str, list[list[float]]] = {name: [] for name in models}
    for seed in range(draws):
        crowd = mh.simulate(400, n_workers, answers_per_task=each, seed=seed, **kind, kind="numeric")
        truths = (crowd.truth, crowd.truth * crowd.scale.mean() + crowd.bias.mean())
        for name, model in models.items():
            ends = model.fit(crowd.log).intervals_
            found[name].append([mh.metrics.coverage(ends, truth) for truth in truths])
    return [(name, np.mean(of, axis=0)) for name, of in found.items()]


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ratings", type=int, default=1_000_000)
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data")
    parser.add_argument("--part", choices=("kernels", "gold", "left-out", "coverage", "all"), default="all")
    args = parser.parse_args()
    parts: dict[str, Callable[[], None]] = {
        "kernels": lambda: kernels(args.ratings),
        "gold": lambda: against_gold(args.data),
        "left-out": lambda: left_out(args.data),
        "coverage": coverage,
    }
    for name, run in parts.items():
        if args.part in (name, "all"):
            run()
    print(NOT_SHOWN)


if __name__ == "__main__":
    main()
