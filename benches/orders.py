"""Ordered classes: absolute error and quadratic kappa of methods on real logs and simulated ones, in one run.

    python benches/orders.py                        # all logs, where ../shared/data is there
    python benches/orders.py --logs web s_rel       # some of them
    python benches/orders.py --draws 5              # simulated crowds only where no logs are found
    python benches/orders.py --left-out             # which members would be averaged if a set had not been seen

Each method answers as it does by default: the median for methods of ordered classes, the most probable class for
others; the column "median" decides the posteriors of all by the median, so that models can be told from decisions.
adult3 has no gold: five labels a task are compared with the median of all ninety, without pages that are broken.
Simulated crowds have workers with biases and slopes of their own, one in five of whom does not look; errors are
logistic or normal. Seconds are of all processors.

With --left-out, all 31 averages of five members (the default's three, Consensus and the minimax method) are decided by
the median; the one of least mean error on all sets but one is judged on that one.
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import combinations
from pathlib import Path

import numpy as np

import manyhands as mh

SHARED = Path(__file__).parents[2] / "shared" / "data"
REAL = ("web", "metaphor_novelty", "s_rel", "adult3")
METHODS = {
    "majority": mh.MajorityVote,
    "dawid-skene": mh.DawidSkene,
    "minimax, ordinal": lambda: mh.categorical.MinimaxEntropy(ordinal=True),
    "consensus": mh.Consensus,
    "ordered crowd": mh.ordinal.OrdinalCrowd,
    "cumulative": mh.ordinal.CumulativeDawidSkene,
    "default": mh.ordinal.OrdinalConsensus,
}


def real(name: str, seed: int = 0) -> tuple[mh.Annotations, np.ndarray]:
    """A log, and the code of the true class of each task, -1 where it is not known."""
    import pandas as pd

    log = pd.read_csv(next((SHARED / name).glob("labels.csv*")), dtype=str)
    if name == "adult3":
        votes = mh.Annotations.from_frame(log[log.label != "B"], classes=["G", "P", "R", "X"], ordered=True)
        wanted = mh.ordinal.decide(mh.MajorityVote().fit(votes).posterior_)
        return votes.sample(per_task=5, seed=seed), wanted
    votes = mh.Annotations.from_frame(log, classes=sorted(set(log.label)), ordered=True)
    gold = pd.read_csv(SHARED / name / "gold.csv", dtype=str)
    known = dict(zip(gold.task, gold.label, strict=True))
    classes = votes.classes.tolist()
    return votes, np.array([classes.index(known[t]) if t in known else -1 for t in votes.tasks.tolist()])


def simulated(seed: int) -> tuple[mh.Annotations, np.ndarray]:
    """A crowd of some kind, which follows from the seed."""
    rng = np.random.default_rng(seed)
    k, per_task, n_workers = int(rng.integers(3, 8)), int(rng.integers(3, 8)), int(rng.choice([20, 60, 300]))
    n_tasks = 1000
    truth = rng.choice(k, n_tasks, p=rng.dirichlet(np.full(k, 3.0)))
    tasks = np.repeat(np.arange(n_tasks), per_task)
    workers = np.concatenate([rng.choice(n_workers, per_task, replace=False) for _ in range(n_tasks)])
    slopes, biases = np.exp(rng.normal(0.5, 0.4, n_workers)), rng.normal(0, 0.5, n_workers)
    noise = rng.logistic(0, 1, len(tasks)) if seed % 2 else rng.normal(0, 1.2, len(tasks))
    seen = np.round(truth[tasks] + biases[workers] + noise / slopes[workers]).clip(0, k - 1).astype(int)
    looks = rng.random(n_workers) > 0.2
    labels = np.where(looks[workers], seen, rng.integers(0, k, len(tasks)))
    votes = mh.Annotations.from_codes(
        tasks, workers, labels, n_tasks=n_tasks, n_workers=n_workers, n_classes=k, ordered=True
    )
    return votes, truth


def scores(codes: np.ndarray, truth: np.ndarray) -> list[float]:
    known = truth >= 0
    found = (codes[known], truth[known])
    return [mh.metrics.absolute_error(*found), mh.metrics.quadratic_kappa(*found)]


def run(votes: mh.Annotations, truth: np.ndarray) -> dict[str, np.ndarray]:
    """Of each method: error and kappa of its labels, of the median, and seconds."""
    found = {}
    place = {name: i for i, name in enumerate(votes.classes.tolist())}
    for name, make in METHODS.items():
        start = time.process_time()
        model = make().fit(votes)
        took = time.process_time() - start
        codes = np.array([place[label] for label in model.labels_.tolist()])
        median = mh.ordinal.decide(model.posterior_).astype(int)
        found[name] = np.array([*scores(codes, truth), *scores(median, truth), took])
    return found


def show(title: str, tables: list[dict[str, np.ndarray]]) -> None:
    print(f"\n{title}\n{'':18}   error   kappa  median   kappa       s")
    for name in METHODS:
        row = np.mean([table[name] for table in tables], axis=0)
        print(f"{name:18}" + "".join(f"{x:8.4f}" for x in row[:4]) + f"{row[4]:8.2f}")


#: What could be averaged; the default takes the first three.
MEMBERS = {
    "learnt": mh.ordinal.OrdinalCrowd,
    "thresholds": lambda: mh.ordinal.OrdinalCrowd(strength=float("inf")),
    "cumulative": mh.ordinal.CumulativeDawidSkene,
    "consensus": mh.Consensus,
    "minimax": lambda: mh.categorical.MinimaxEntropy(ordinal=True),
}
AVERAGES = [chosen for size in range(1, 6) for chosen in combinations(MEMBERS, size)]
DEFAULT = ("learnt", "thresholds", "cumulative")


def averages(votes: mh.Annotations, truth: np.ndarray) -> np.ndarray:
    """Error and kappa of every average, (31, 2)."""
    posteriors = {name: make().fit(votes).posterior_ for name, make in MEMBERS.items()}
    means = (np.mean([posteriors[name] for name in chosen], axis=0) for chosen in AVERAGES)
    return np.array([scores(mh.ordinal.decide(mean).astype(int), truth) for mean in means])


def left_out(logs: list[str], draws: int) -> None:
    """Print, for each set, the average that the others choose, and how it does there."""
    found = {}
    for name in logs:
        seeds = range(3) if name == "adult3" else range(1)
        found[name] = np.mean([averages(*real(name, seed)) for seed in seeds], axis=0)
    found["simulated"] = np.mean([averages(*simulated(seed)) for seed in range(draws)], axis=0)
    rows = []
    print("| left out | chosen on the others | there | default | best of all there |\n| --- | --- | --: | --: | --: |")
    for name, own in found.items():
        others = np.mean([table[:, 0] for other, table in found.items() if other != name], axis=0)
        places = [int(others.argmin()), AVERAGES.index(DEFAULT), int(own[:, 0].argmin())]
        rows.append(own[places])
        shown = " | ".join(f"{error:.3f} / {kappa:.3f}" for error, kappa in own[places])
        print(f"| {name} | {' + '.join(AVERAGES[places[0]])} | {shown} ({' + '.join(AVERAGES[places[2]])}) |")
    print("| mean | | " + " | ".join(f"{error:.3f} / {kappa:.3f}" for error, kappa in np.mean(rows, axis=0)) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", nargs="*", default=REAL, choices=REAL)
    parser.add_argument("--draws", type=int, default=10, help="simulated crowds")
    parser.add_argument("--left-out", action="store_true", help="choose on all sets but one, judge on that one")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.left_out:
        left_out(list(given.logs) if SHARED.exists() else [], given.draws)
        return
    tables = {}
    for name in given.logs if SHARED.exists() else ():
        seeds = range(3) if name == "adult3" else range(1)
        tables[name] = [run(*real(name, seed)) for seed in seeds]
        show(name, tables[name])
    if given.draws:
        tables["simulated"] = [run(*simulated(seed)) for seed in range(given.draws)]
        show(f"{given.draws} simulated crowds", tables["simulated"])
    means = [{name: np.mean([table[name] for table in of], axis=0) for name in METHODS} for of in tables.values()]
    show(f"mean of {', '.join(tables)}", means)


if __name__ == "__main__":
    main()
