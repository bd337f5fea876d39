"""Copies, groups and drift: what audits find where something is planted, and where nothing is.

    python benches/audit_groups.py                 all of it, but for the cost
    python benches/audit_groups.py null power      some parts: null, power, groups, bluebird, drift
    python benches/audit_groups.py cost --size 10000000

*null*: crowds with nothing planted. The real logs of ``../shared/data`` have each worker's answers shuffled among tasks
of one class (of the default) and of one fifth by how many agree: skills and difficulty stay, dependence is gone.
*power*: planted copies found, by share copied and common tasks. *groups*: 40 workers in 5 groups, 3 classes.
*bluebird*: the log. *drift*: workers who give one label from the middle on, or guess. *cost*: processor time beside
Dawid–Skene of 20 passes on the same log.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import manyhands as mh
from data import crowd as random_log
from default import LOGS

SEEDS = 20


def shuffled(votes: mh.Annotations, rng: np.random.Generator, n_bins: int = 5) -> mh.Annotations:
    """Each worker's answers among tasks of one class and difficulty in a random order."""
    tasks, workers, labels = (codes.astype(np.int64) for codes in votes.codes())
    winners = mh.Consensus().fit(votes).posterior_.argmax(axis=1)
    k = votes.n_classes
    share = mh.MajorityVote().fit(votes).posterior_[np.arange(votes.n_tasks), winners]
    bins = np.zeros(votes.n_tasks, np.int64)
    for c in range(k):
        mine = np.flatnonzero(winners == c)
        bins[mine[np.argsort(share[mine], kind="stable")]] = np.arange(len(mine)) * n_bins // max(len(mine), 1)
    key = (workers * k + winners[tasks]) * n_bins + bins[tasks]
    mixed = np.empty_like(labels)
    mixed[np.argsort(key, kind="stable")] = labels[np.lexsort((rng.random(len(key)), key))]
    return mh.Annotations.from_arrays(
        votes.tasks[tasks], votes.workers[workers], votes.classes[mixed], classes=list(votes.classes)
    )


def null(data: Path) -> None:
    print("\nnothing planted: pairs found of pairs compared, groups found")
    makers = {
        "one-coin, 5 a task": {"crowd": "one-coin", "accuracy": (0.4, 0.95), "labels_per_task": 5},
        "spammers": {"crowd": {"one-coin": 0.5, "spammers": 0.3, "naive": 0.2}, "labels_per_task": 7},
        "few labels a worker": {"crowd": "class-conditional", "labels_per_task": 4, "activity": 1.0},
        "rare classes": {"crowd": "confusers", "labels_per_task": 9, "prior": [0.8, 0.1, 0.1]},
    }
    for name, maker in makers.items():
        found = [mh.simulate(400, 40, 3, seed=seed, **maker).votes for seed in range(SEEDS)]
        copies = [mh.audit.copies(votes, least=0.0) for votes in found]
        groups = sum(len(mh.audit.groups(votes)) > 0 for votes in found)
        some = sum(len(pairs) > 0 for pairs in copies)
        print(f"  {name:22s} of {SEEDS} crowds {some} with pairs, {groups} with groups")
    rng = np.random.default_rng(0)
    for name in LOGS:
        file = next((f for f in sorted((data / name).glob("labels.csv*"))), None)
        if file is None:
            continue
        votes = mh.Annotations.from_frame(mh.read(file).to_frame(), repeats="first")
        cells = []
        for log in (votes, shuffled(votes, rng)):
            any_, strong = mh.audit.copies(log, least=0.0), mh.audit.copies(log)
            sizes = [len(group) for group in mh.audit.groups(log).groups]
            cells.append(f"{len(any_):4d} {len(strong):4d} of {any_.pairs.n_tested:5d}, groups {sizes}")
        print(f"  {name:18s} as it is: {cells[0]:34s} | shuffled: {cells[1]}", flush=True)


def power() -> None:
    print("\nplanted copies found (least=0.1), 8 answers a task of 40 workers, one pair copies; by common tasks")
    for n_tasks in (250, 1000, 4000):
        cells = []
        for share in (0.1, 0.2, 0.3, 0.5, 0.8):
            league = np.full(40, -1)
            league[:2] = 0
            hits, false, common = 0, 0, []
            for seed in range(SEEDS):
                settings = {"crowd": "one-coin", "labels_per_task": 8, "groups": league, "copying": np.sqrt(share)}
                votes = mh.simulate(n_tasks, 40, 3, seed=seed, **settings).votes
                found = {(row["worker"], row["other"]) for row in mh.audit.copies(votes).frame().to_pylist()}
                hits += (0, 1) in found
                false += len(found - {(0, 1)})
                tasks, workers, _ = votes.codes()
                common.append(len(np.intersect1d(tasks[workers == 0], tasks[workers == 1])))
            cells.append(f"{share:.0%}: {hits / SEEDS:.2f} (+{false})")
        print(f"  {np.mean(common):5.0f} common tasks  " + "  ".join(cells), flush=True)


def seed_paper(n_tasks: int, seed: int) -> tuple[mh.Annotations, np.ndarray]:
    """Forty workers in five groups who label everything; three classes."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n_tasks)

    def drawn(given: np.ndarray, skill: float) -> np.ndarray:
        return np.where(rng.random(len(given)) < skill, given, (given + rng.integers(1, 3, len(given))) % 3)

    latent = [drawn(truth, skill) for skill in (0.75, 0.7, 0.65, 0.6, 0.55)]
    said = [drawn(latent[worker // 8], rng.uniform(0.6, 0.9)) for worker in range(40)]
    return mh.Annotations.from_dense(np.stack(said, axis=1)), truth


def groups() -> None:
    print("\nfive groups of eight, three classes: groups recovered exactly, and accuracy")
    for n_tasks in (200, 1000, 5000):
        rows, exact = [], 0
        for seed in range(5):
            votes, truth = seed_paper(n_tasks, seed)
            model = mh.GroupDawidSkene().fit(votes)
            exact += model.groups_ == [list(range(8 * j, 8 * j + 8)) for j in range(5)]
            others = [mh.MajorityVote(), mh.DawidSkene(), mh.GroupVote()]
            rows.append([mh.metrics.accuracy(m.labels_, truth) for m in [*(m.fit(votes) for m in others), model]])
        names = ("majority", "Dawid–Skene", "group vote", "group Dawid–Skene")
        means = "  ".join(f"{name} {x:.3f}" for name, x in zip(names, np.mean(rows, axis=0), strict=True))
        print(f"  {n_tasks} tasks: {exact}/5 exact  {means}", flush=True)


def bluebird(data: Path) -> None:
    print("\nBluebird")
    votes = mh.read(data / "bluebird" / "labels.csv")
    gold = pd.read_csv(data / "bluebird" / "gold.csv")
    truth = dict(zip(gold["task"], gold["label"], strict=True))
    for model in (mh.MajorityVote(), mh.DawidSkene(), mh.GroupVote(), mh.GroupDawidSkene()):
        model.fit(votes)
        print(
            f"  {type(model).__name__:18s} {mh.metrics.accuracy(model.labels_, [truth[t] for t in model.tasks_]):.3f}"
        )
    print(f"  {mh.audit.dependence(votes)}")


def drift() -> None:
    print("\ndrift: share found of workers who change in the middle, and of those who do not")
    for n_tasks in (100, 400, 1600):
        for how in ("one label", "guesses"):
            hits, false, others = 0, 0, 0
            for seed in range(SEEDS):
                votes = mh.simulate(n_tasks, 20, 3, crowd="one-coin", accuracy=(0.7, 0.9), seed=seed).votes
                log = votes.to_frame().to_pydict()
                rng = np.random.default_rng(seed)
                for i in range(len(log["task"]) // 2, len(log["task"])):
                    if log["worker"][i] < 2:
                        log["label"][i] = 0 if how == "one label" else int(rng.integers(3))
                found = set(mh.audit.drift(log).workers.tolist())
                hits += len(found & {0, 1})
                false += len(found - {0, 1})
                others += 18
            each = 5 * n_tasks // 20
            print(f"  {each:4d} labels a worker, {how:10s} {hits / 2 / SEEDS:.2f}  false {false / others:.4f}")


def cost(size: int) -> None:
    codes = random_log(size, 10_000, 10)
    votes = mh.Annotations.from_arrays(codes.tasks, codes.workers, codes.labels, repeats="first")
    jobs = {
        "Dawid–Skene, 20 passes": lambda: mh.DawidSkene(max_iter=20, tol=0.0).fit(votes),
        "dependence": lambda: mh.audit.dependence(votes),
        "copies": lambda: mh.audit.copies(votes),
        "groups": lambda: mh.audit.groups(votes),
        "drift": lambda: mh.audit.drift(votes, np.arange(votes.n_annotations)),
    }
    print(f"\n{votes}: seconds of processors")
    for name, job in jobs.items():
        start = time.process_time()
        job()
        print(f"  {name:24s} {time.process_time() - start:7.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["null", "power", "groups", "bluebird", "drift"])
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--size", type=int, default=1_000_000)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    jobs = {
        "null": lambda: null(args.data),
        "power": power,
        "groups": groups,
        "bluebird": lambda: bluebird(args.data),
        "drift": drift,
        "cost": lambda: cost(args.size),
    }
    for part in args.parts:
        jobs[part]()


if __name__ == "__main__":
    main()
