"""Copies, groups and drift: what audits find where something is planted, and where nothing is.

    python benches/audit_groups.py                 all of it, but for the cost
    python benches/audit_groups.py null power      some parts: null, power, groups, bluebird, drift
    python benches/audit_groups.py cost --size 10000000

*null*: crowds with nothing planted, and the real logs of ``../shared/data`` with answers shuffled, see `shuffled`.
*power*: planted copies found, by share copied and common tasks. *groups*: 40 workers in 5 groups, 3 classes;
its curves go to results/audit.json, of which audit_pictures.py makes pictures.
*bluebird*: the log. *drift*: workers who give one label from the middle on, or guess. *cost*: processor time beside
Dawid–Skene of 20 passes on the same log.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import harness
import manyhands as mh
from default import LOGS
from shuffled import read, shuffled

SEEDS = 20
#: Of each real log, of either kind.
SHUFFLES = 3
#: Crowds with nothing planted: sizes, and how they are drawn.
CLEAN = {
    "uneven skills, 5 a task": ((400, 40, 3), {"crowd": "one-coin", "accuracy": (0.4, 0.95), "labels_per_task": 5}),
    "many, with few labels": ((400, 200, 3), {"crowd": "one-coin", "accuracy": (0.4, 0.95), "labels_per_task": 5}),
    "few busy, many not": ((400, 40, 3), {"crowd": "class-conditional", "labels_per_task": 4, "activity": 1.0}),
    "spammers": ((400, 40, 3), {"crowd": {"one-coin": 0.5, "spammers": 0.3, "naive": 0.2}, "labels_per_task": 7}),
    "rare classes": ((400, 40, 3), {"crowd": "confusers", "labels_per_task": 9, "prior": [0.8, 0.1, 0.1]}),
    "two classes, all label all": ((200, 30, 2), {"crowd": "class-conditional", "labels_per_task": 30}),
}


def alarms(votes: mh.Annotations) -> dict[str, int]:
    """How much each audit finds."""
    return {
        "pairs of copies": len(mh.audit.copies(votes)),
        "with least=0": len(mh.audit.copies(votes, least=0.0)),
        "groups": len(mh.audit.groups(votes)),
        "drift": len(mh.audit.drift(votes, np.arange(votes.n_annotations))),
    }


def claimed(votes: mh.Annotations) -> int:
    """Whether errors are said to be correlated, with a probability of 95 % or more."""
    return int(mh.audit.dependence(votes).probability >= 0.95)


def redrawn(votes: mh.Annotations, seed: int) -> mh.Annotations:
    """The same workers on the same tasks, who err independently, as their matrices say."""
    model = mh.categorical.HierarchicalDawidSkene().fit(votes)
    tasks, workers, _ = votes.codes()
    truth = model.posterior_.argmax(axis=1)
    return mh.simulate(confusion=model.confusion_, truth=truth, pairs=(tasks, workers), seed=seed).log


def null(data: Path) -> None:
    print("\nnothing planted: share of crowds in which anything is found (how much in all)")
    rows = []
    for name, (sizes, settings) in CLEAN.items():
        crowds = [mh.simulate(*sizes, seed=seed, **settings).log for seed in range(SEEDS)]
        rows += [{"crowd": name} | alarms(votes) | {"dependence": claimed(votes)} for votes in crowds]
    print(summary(pd.DataFrame(rows)), flush=True)
    print("\nreal logs: as they are; shuffled, by the class of gold or of the default; dependence: drawn anew")
    rows = []
    for name in [name for name in LOGS if (data / name).exists()]:
        votes, truth = read(data / name)
        rows.append({"log": name, "crowd": "as it is"} | alarms(votes) | {"dependence": claimed(votes)})
        for seed in range(SHUFFLES):
            for by, classes in (("gold", truth), ("the default", np.full_like(truth, -1))):
                found = alarms(shuffled(votes, classes, np.random.default_rng(seed)))
                rows.append({"log": name, "crowd": by} | found | {"dependence": claimed(redrawn(votes, seed))})
        mine = pd.DataFrame(rows).query("log == @name").drop(columns="log")
        print(f"{name}\n{summary(mine)}", flush=True)
    print(f"all\n{summary(pd.DataFrame(rows).drop(columns='log'))}")


def summary(found: pd.DataFrame) -> str:
    """Share of crowds with any finding, and the number of findings."""
    parts = found.groupby("crowd", sort=False)
    some = parts.agg(lambda counts: f"{(counts > 0).mean():.3f} ({counts.sum()})")
    return some.assign(crowds=parts.size()).to_string()


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
                votes = mh.simulate(n_tasks, 40, 3, seed=seed, **settings).log
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
    runs = 10
    print(f"\nfive groups of eight, three classes: groups recovered exactly, and accuracy, means of {runs} crowds")
    curves = []
    for n_tasks in (200, 500, 1000, 2000, 5000):
        rows, exact = [], 0
        for seed in range(runs):
            votes, truth = seed_paper(n_tasks, seed)
            model = mh.categorical.GroupDawidSkene().fit(votes)
            exact += model.groups_ == [list(range(8 * j, 8 * j + 8)) for j in range(5)]
            others = [mh.MajorityVote(), mh.DawidSkene(), mh.categorical.GroupVote()]
            rows.append([mh.metrics.accuracy(m.labels_, truth) for m in [*(m.fit(votes) for m in others), model]])
        names = ("majority", "Dawid–Skene", "group vote", "group Dawid–Skene")
        told = dict(zip(names, np.mean(rows, axis=0).tolist(), strict=True))
        means = "  ".join(f"{name} {x:.3f}" for name, x in told.items())
        print(f"  {n_tasks} tasks: {exact}/{runs} exact  {means}", flush=True)
        curves.append({"tasks": n_tasks, "exact": exact / runs, **told})
    harness.note("audit", {"groups": curves})


def bluebird(data: Path) -> None:
    print("\nBluebird")
    votes = mh.read(data / "bluebird" / "labels.csv")
    gold = pd.read_csv(data / "bluebird" / "gold.csv")
    truth = dict(zip(gold["task"], gold["label"], strict=True))
    for model in (mh.MajorityVote(), mh.DawidSkene(), mh.categorical.GroupVote(), mh.categorical.GroupDawidSkene()):
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
                votes = mh.simulate(n_tasks, 20, 3, crowd="one-coin", accuracy=(0.7, 0.9), seed=seed).log
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
    for how, activity in (("even", 0.0), ("few do most", 1.0)):
        votes = mh.simulate(size // 5, 10_000, 4, labels_per_task=5, activity=activity, seed=0).log
        jobs = {
            "worth": lambda votes: mh.audit.worth(votes),
            "dependence": lambda votes: mh.audit.dependence(votes),
            "spammers": lambda votes: mh.audit.spammers(votes),
            "copies": lambda votes: mh.audit.copies(votes),
            "drift": lambda votes: mh.audit.drift(votes, np.arange(votes.n_annotations)),
            "colluders": lambda votes: mh.audit.colluders(votes),
            "reputation, soft": lambda votes: mh.audit.colluders(votes, method="reputation"),
            "reputation, hard": lambda votes: mh.audit.colluders(votes, method="reputation", penalty="hard"),
            "review": lambda votes: mh.audit.review(votes),
        }
        fit = seconds(lambda votes: mh.DawidSkene(max_iter=20, tol=0.0).fit(votes), votes)
        print(f"\n{votes}, {how}: Dawid–Skene of 20 passes {fit:.1f} s of processors; times that:", flush=True)
        for name, job in jobs.items():
            print(f"  {name:24s} {seconds(job, votes) / fit:7.1f}", flush=True)


def seconds(job: Callable[[mh.Annotations], object], votes: mh.Annotations) -> float:
    start = time.process_time()
    job(votes)
    return time.process_time() - start


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
