"""Spammers and colluders: who is found, what leaving them out does to accuracy, and how often somebody is accused.

    python benches/audit.py [--data ../shared/data] [--part pruning spammers clean colluders injected logs]

Parts: `pruning`, accuracy on real logs before and after spammers are left out; `spammers`, sensitivity and specificity
by share of spammers (10,000 tasks, 20 workers, 4 classes); `clean`, who is found where nobody is a spammer; `colluders`
(5,000 tasks, 60 workers, 3 classes) and `injected` (the same into real logs), accuracy by share of colluders, who all
give the same wrong answer to nine tasks in ten; `logs`, who is found in real logs, beside what gold says of them.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import harness
import manyhands as mh
from manyhands import _core

ROOT = harness.HERE.parent
PRUNED = ("bluebird", "dog", "web")
INJECTED = ("bluebird", "dog", "web", "sentence_polarity")
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.6)
NOT_SHOWN = """\
What this does not show: colluders who hide (agree on few tasks, or only some of them at a time), spammers who copy, or
crowds in which the poor workers get the hard tasks. Settings of the covariance detector were chosen on the three logs
of the first table."""


def read(folder: Path, name: str) -> tuple[Any, Any, Any]:
    """A log as codes: annotations, class of each task (-1 where unknown)."""
    import pandas as pd

    def table(stem: str) -> Any:
        (path,) = [*(folder / name).glob(f"{stem}.csv"), *(folder / name).glob(f"{stem}.csv.gz")][:1]
        return pd.read_csv(path, dtype=str, keep_default_na=False)

    votes = mh.Annotations.from_frame(table("labels"), task="task", worker="worker", label="label")
    gold = table("gold")
    code = {str(c): i for i, c in enumerate(votes.classes.tolist())}
    known = dict(zip(gold["task"], gold["label"], strict=True))
    truth = np.array([code.get(known.get(str(task), ""), -1) for task in votes.tasks.tolist()])
    return votes, truth


def accuracy(model: Any, votes: Any, whole: Any, truth: Any) -> float:
    """Share of the tasks of the whole log with gold that are right; a task without labels left is wrong."""
    fitted = model.fit(votes)
    code = whole._classes.find(fitted.labels_)
    at = whole._tasks.match(votes._tasks)
    right = (truth[at] >= 0) & (truth[at] == code)
    return float(right.sum() / (truth >= 0).sum())


def drawn(confusion: Any, n_tasks: int, per_task: int, seed: int) -> tuple[Any, Any]:
    """A log of workers with these confusion matrices, and the classes."""
    m, k, _ = confusion.shape
    truth, tasks, workers, labels = _core.simulate(
        n_tasks, m, k, prior=np.full(k, 1 / k), confusion=confusion, per_task=(per_task, per_task), seed=seed
    )
    return mh.Annotations.from_codes(tasks, workers, labels, n_tasks=n_tasks, n_workers=m, n_classes=k), truth


def knowing(knows: Any, k: int, rng: Any) -> Any:
    """Confusion matrices of workers who know the class with a probability, and else answer from shares of their own."""
    guesses = rng.dirichlet(np.full(k, 2.0), len(knows))
    return knows[:, None, None] * np.eye(k) + (1 - knows)[:, None, None] * guesses[:, None, :]


def pruning(folder: Path) -> None:
    print("\nAccuracy with spammers left out (number of them); EM: hard majority start, pseudo-count 1e-6")
    print(f"{'log':<10}{'method':<14}{'MV':>8}{'EM':>8}{'DawidSkene()':>14}")
    em = mh.DawidSkene(pseudo_count=1e-6)
    for name in PRUNED:
        votes, truth = read(folder, name)
        tables = {"all": votes}
        for method in ("covariance", "score"):
            found = mh.audit.spammers(votes, method=method)
            tables[f"{method} ({len(found)})"] = votes.without(found)
        for what, table in tables.items():
            scores = [accuracy(model, table, votes, truth) for model in (mh.MajorityVote(), em, mh.DawidSkene())]
            print(f"{name:<10}{what:<16}" + "".join(f"{x:>8.3f}" for x in scores))
        eliminated = mh.SpammerEliminatingDawidSkene()
        score = accuracy(eliminated, votes, votes, truth)
        print(f"{name:<10}eliminating while fusing: {score:.3f}, {len(eliminated.spammers_)} spammers")


def spammers(_: Path, runs: int = 10) -> None:
    print("\nSpammers, 10,000 tasks, 20 workers, 4 classes: sensitivity / specificity, mean of 10 crowds")
    print(f"{'share':>6}{'covariance':>16}{'score':>16}{'eliminating':>16}{'MV':>8}{'EM':>8}{'EM after':>10}")
    for share in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7):
        rates: dict[str, list[tuple[float, float]]] = {"covariance": [], "score": [], "eliminating": []}
        accuracies = []
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            spam = rng.permutation(20) < round(share * 20)
            confusion = 0.4 * np.eye(4) + 0.6 * rng.dirichlet(np.ones(4), (20, 4))
            confusion[spam] = rng.dirichlet(np.ones(4), spam.sum())[:, None, :]
            votes, truth = drawn(confusion, 10_000, 20, seed)
            eliminated = mh.SpammerEliminatingDawidSkene().fit(votes)
            found = {m: mh.audit.spammers(votes, method=m).found for m in ("covariance", "score")}
            found["eliminating"] = eliminated.spammer_probability_ > 0.5
            for method, mask in found.items():
                hit = mask[spam].mean() if spam.any() else np.nan
                rates[method].append((hit, 1 - mask[~spam].mean()))
            rest = votes.without(votes.workers[found["score"]])
            models = ((mh.MajorityVote(), votes), (mh.DawidSkene(), votes), (mh.DawidSkene(), rest))
            accuracies.append([np.mean(model.fit(table).labels_ == truth) for model, table in models])
        cells = [f"{a:>9.2f} /{b:>5.2f}" for a, b in (np.mean(rates[m], axis=0) for m in rates)]
        print(f"{share:>6.0%}{''.join(cells)}" + "".join(f"{x:>9.3f}" for x in np.mean(accuracies, axis=0)))


def clean(_: Path, runs: int = 10) -> None:
    print("\nNobody is a spammer: workers know the class of 20 to 90 % of tasks. Share found at false_alarms=0.05, and")
    print("with 30 % spammers: share of them found, share of others among those found, share of others found")
    for n, m, k, per_task in (
        (1000, 20, 2, 5), (1000, 100, 2, 3), (2000, 400, 4, 5), (500, 200, 3, 5), (4000, 1000, 2, 5), (3000, 100, 10, 6)
    ):  # fmt: skip
        alarms, rates = [], []
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            knows = rng.uniform(0.2, 0.9, m)
            votes, _truth = drawn(knowing(knows, k, rng), n, per_task, seed)
            alarms.append(mh.audit.spammers(votes).found.mean())
            spam = rng.random(m) < 0.3
            votes, _truth = drawn(knowing(np.where(spam, 0.0, knows), k, rng), n, per_task, seed)
            found = mh.audit.spammers(votes).found
            wrong = (found & ~spam).sum()
            rates.append((found[spam].mean(), wrong / max(found.sum(), 1), wrong / (~spam).sum()))
        size = f"{n:,} tasks, {m:,} workers, {k} classes, {n * per_task / m:.0f} labels a worker"
        print(f"{size:<62}{np.mean(alarms):>7.3f}" + "".join(f"{x:>9.3f}" for x in np.mean(rates, axis=0)))


def attacked(votes: Any, truth: Any, share: float, rng: Any) -> tuple[Any, Any]:
    """A share of the workers gives one wrong answer to nine tasks in ten, all of them the same."""
    m, k = votes.n_workers, votes.n_classes
    plot = rng.permutation(m) < round(share * m)
    wrong = (np.maximum(truth, 0) + rng.integers(1, k, len(truth))) % k
    said = np.where(rng.random(len(truth)) < 0.9, wrong, np.maximum(truth, 0))
    tasks, workers, labels = votes.codes()
    labels = np.where(plot[workers], said[tasks], labels).astype(np.uint16)
    sizes = {"n_tasks": votes.n_tasks, "n_workers": m, "n_classes": k}
    return mh.Annotations.from_codes(tasks, workers, labels, **sizes), plot


def curve(make: Any, runs: int) -> None:
    heads = ("MV", "DS", "M-MSR", "found", "trusted", "agreement", "oracle")
    print(
        f"{'share':>6}"
        + "".join(f"{x:>11}" for x in heads)
        + "    found right / wrong, without and with a trusted worker"
    )
    for share in SHARES:
        rows, hits = [], []
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            votes, truth, plot = make(share, rng)
            honest = int(np.flatnonzero(~plot)[np.argmax(votes.labels_per_worker[~plot])])
            named = {"found": {}, "trusted": {"trusted": honest}, "agreement": {"method": "agreement"}}
            found = {key: mh.audit.colluders(votes, **given).found for key, given in named.items()}
            tables = [votes, votes, votes, *(votes.without(votes.workers[mask]) for mask in (*found.values(), plot))]
            models = [mh.MajorityVote(), mh.DawidSkene(), mh.MMSR()] + [mh.DawidSkene()] * 4
            rows.append([accuracy(m, table, votes, truth) for m, table in zip(models, tables, strict=True)])
            hits.append([(found[key] & side).sum() for key in ("found", "trusted") for side in (plot, ~plot)])
        counts = "  ".join(f"{x:.1f}" for x in np.mean(hits, axis=0))
        print(f"{share:>6.0%}" + "".join(f"{x:>11.3f}" for x in np.mean(rows, axis=0)) + f"    {counts}")


def colluders(_: Path) -> None:
    print("\nColluders, 5,000 tasks, 60 workers, 3 classes: accuracy by share of them, mean of 3 crowds")

    def make(share: float, rng: Any) -> tuple[Any, Any, Any]:
        right = rng.uniform(0.4, 0.8, 60)
        wrong = rng.dirichlet(np.ones(2), (60, 3)) * (1 - right)[:, None, None]
        confusion = np.zeros((60, 3, 3))
        for c in range(3):
            confusion[:, c, c] = right
            confusion[:, c, np.arange(3) != c] = wrong[:, c]
        votes, truth = drawn(confusion, 5000, 60, int(rng.integers(1 << 30)))
        truth = truth.astype(np.int64)
        votes, plot = attacked(votes, truth, share, rng)
        return votes, truth, plot

    curve(make, 3)


def injected(folder: Path) -> None:
    for name in INJECTED:
        print(f"\nColluders injected into {name}: accuracy by share of them, mean of 3")
        whole, truth = read(folder, name)

        def make(share: float, rng: Any, whole: Any = whole, truth: Any = truth) -> tuple[Any, Any, Any]:
            votes, plot = attacked(whole, truth, share, rng)
            return votes, truth, plot

        curve(make, 3)


def logs(folder: Path) -> None:
    print("\nReal logs as they are: spammers found by score, those of them whom gold shows to know 20 % or more of the")
    print("classes by two errors, and colluders found; the same with each worker's answers shuffled within class and")
    print("difficulty of the task")
    heads = (("workers", 8), ("spammers", 10), ("gold: no", 10), ("untold", 8), ("colluders", 11))
    print(f"{'log':<20}" + "".join(f"{x:>{n}}" for x, n in (*heads, *heads[1:3], heads[-1])))
    for path in sorted(folder.glob("*/gold.csv*")):
        name = path.parent.name
        if not [*path.parent.glob("labels.csv*")] or name in ("ner_mturk",):
            continue
        try:
            votes, truth = read(folder, name)
        except (KeyError, ValueError):
            continue  # another kind of answers
        if (truth >= 0).sum() < 50 or votes.n_classes > 60:
            continue
        found = mh.audit.spammers(votes)
        knows, error = knowledge_by_gold(votes, truth)
        wrong = found.found & (knows - 2 * error > 0.2)
        untold = int((found.frame()["probability"].to_numpy() > 0.05).sum() - len(found))
        plot = mh.audit.colluders(votes)
        again = shuffled(votes, truth, np.random.default_rng(0))
        planted = [len(audit(again)) for audit in (mh.audit.spammers, mh.audit.colluders)]
        known = mh.audit.spammers(again).found & (knows - 2 * error > 0.2)
        print(
            f"{name:<20}{votes.n_workers:>8,}{len(found):>10,}{wrong.sum():>10,}{untold:>8,}{len(plot):>11,}"
            f"{planted[0]:>10,}{known.sum():>10,}{planted[1]:>11,}"
        )


def shuffled(votes: Any, truth: Any, rng: Any) -> Any:
    """Each worker's answers dealt anew among its tasks of one class and difficulty: errors are then independent."""
    tasks, workers, labels = votes.codes()
    right = np.bincount(tasks, labels == truth[tasks], minlength=votes.n_tasks) / votes.labels_per_task
    level = np.digitize(right, (0.25, 0.5, 0.75, 1.0))
    stratum = (workers.astype(np.int64) * (votes.n_classes + 1) + truth[tasks] + 1) * 5 + level[tasks]
    order, dealt = np.lexsort((np.arange(len(tasks)), stratum)), np.lexsort((rng.random(len(tasks)), stratum))
    fresh = labels.copy()
    fresh[order] = labels[dealt]
    sizes = {"n_tasks": votes.n_tasks, "n_workers": votes.n_workers, "n_classes": votes.n_classes}
    return mh.Annotations.from_codes(tasks, workers, fresh, **sizes)


def knowledge_by_gold(votes: Any, truth: Any) -> tuple[Any, Any]:
    """Share of the classes that each worker knows, and its standard error, from the tasks with gold."""
    tasks, workers, labels = votes.codes()
    known = truth[tasks] >= 0
    cross = np.zeros((votes.n_workers, votes.n_classes, votes.n_classes))
    np.add.at(cross, (workers[known], truth[tasks[known]], labels[known]), 1.0)
    from manyhands.audit.spammers import _knowledge

    return _knowledge(cross, cross.sum(axis=2))


def main() -> None:
    parts = {f.__name__: f for f in (pruning, spammers, clean, colluders, injected, logs)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--part", nargs="*", choices=parts, default=[*parts])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.part:
        parts[name](given.data)
    print("\n" + NOT_SHOWN)


if __name__ == "__main__":
    main()
