"""Spammers and colluders: who is found, what leaving them out does to accuracy, and how often somebody is accused.

    python benches/audit.py [--data ../shared/data] [--part pruning spammers clean colluders injected logs]

Parts: `pruning`, accuracy on real logs before and after spammers are left out; `spammers`, sensitivity and specificity
by share of spammers (10,000 tasks, 20 workers, 4 classes); `clean`, who is found where nobody is a spammer and nobody
colludes; `colluders` (5,000 tasks, 60 workers, 3 classes) and `injected` (the same into real logs), accuracy by share
of colluders, who all give the same wrong answer to nine tasks in ten; `logs`, who is found in real logs as they are,
beside what gold says of them, and with answers dealt anew, where errors are independent and nobody colludes.

Curves are written to results/audit.json, of which audit_pictures.py makes pictures.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import harness
import manyhands as mh
from default import LOGS
from manyhands import _core
from manyhands.audit.spammers import Knowledge
from shuffled import read, shuffled

ROOT = harness.HERE.parent
PRUNED = ("bluebird", "dog", "web")
INJECTED = ("bluebird", "dog", "web", "sentence_polarity")
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.6)
NOT_SHOWN = """\
What this does not show: colluders who hide (agree on few tasks, or only some of them at a time), spammers who copy, or
crowds in which the poor workers get the hard tasks. Settings of the covariance detector were chosen on the three logs
of the first table."""


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


def pruning(folder: Path, _: int) -> None:
    print("\nAccuracy with spammers left out (number of them); EM: pseudo-count 1e-6; DS, hier.: defaults")
    print(f"{'log':<10}{'method':<14}{'MV':>10}{'EM':>8}{'DS':>8}{'hier.':>8}")
    models = (
        mh.MajorityVote(),
        mh.DawidSkene(pseudo_count=1e-6),
        mh.DawidSkene(),
        mh.categorical.HierarchicalDawidSkene(),
    )
    for name in PRUNED:
        votes, truth = read(folder / name)
        tables = {"all": votes}
        for method in ("covariance", "score"):
            found = mh.audit.spammers(votes, method=method)
            tables[f"{method} ({len(found)})"] = votes.without(found)
        for what, table in tables.items():
            scores = [accuracy(model, table, votes, truth) for model in models]
            print(f"{name:<10}{what:<16}" + "".join(f"{x:>8.3f}" for x in scores))
        eliminated = mh.categorical.SpammerEliminatingDawidSkene()
        score = accuracy(eliminated, votes, votes, truth)
        print(f"{name:<10}eliminating while fusing: {score:.3f}, {len(eliminated.spammers_)} spammers")


def spammers(_: Path, runs: int) -> dict[str, Any]:
    print(f"\nSpammers, 10,000 tasks, 20 workers, 4 classes: sensitivity / specificity, mean of {runs} crowds")
    curves: list[Any] = []
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
            eliminated = mh.categorical.SpammerEliminatingDawidSkene().fit(votes)
            found = {m: mh.audit.spammers(votes, method=m).found for m in ("covariance", "score")}
            found["eliminating"] = eliminated.spammer_probability_ > 0.5
            for method, mask in found.items():
                hit = mask[spam].mean() if spam.any() else np.nan
                rates[method].append((hit, 1 - mask[~spam].mean()))
            rest = votes.without(votes.workers[found["score"]])
            models = ((mh.MajorityVote(), votes), (mh.DawidSkene(), votes), (mh.DawidSkene(), rest))
            accuracies.append([np.mean(model.fit(table).labels_ == truth) for model, table in models])
        means = {method: np.mean(rates[method], axis=0).tolist() for method in rates}
        cells = [f"{a:>9.2f} /{b:>5.2f}" for a, b in means.values()]
        told = np.mean(accuracies, axis=0)
        print(f"{share:>6.0%}{''.join(cells)}" + "".join(f"{x:>9.3f}" for x in told), flush=True)
        curves.append({"share": share, "rates": means, "accuracy": told.tolist()})
    return {"spammers": curves}


def clean(_: Path, runs: int) -> None:
    print("\nNobody is a spammer, workers know the class of 20 to 90 % of tasks; found at false_alarms=0.05: share of")
    print("workers, and share of crowds with colluders. Then with 30 % spammers: share of them found, share of those")
    print("found who are none (and how many were found), share of crowds with colluders")
    for n, m, k, per_task in (
        (1000, 20, 2, 5), (1000, 100, 2, 3), (2000, 400, 4, 5), (500, 200, 3, 5), (4000, 1000, 2, 5), (3000, 100, 10, 6)
    ):  # fmt: skip
        counts = np.zeros(6)
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            knows = rng.uniform(0.2, 0.9, m)
            votes, _truth = drawn(knowing(knows, k, rng), n, per_task, seed)
            nobody = len(mh.audit.spammers(votes)), len(mh.audit.colluders(votes)) > 0
            spam = rng.random(m) < 0.3
            votes, _truth = drawn(knowing(np.where(spam, 0.0, knows), k, rng), n, per_task, seed)
            found = mh.audit.spammers(votes).found
            counts += (
                *nobody,
                (found & spam).sum(),
                (found & ~spam).sum(),
                spam.sum(),
                len(mh.audit.colluders(votes)) > 0,
            )
        accused, plots, right, wrong, spammers_, more = counts
        size = f"{n:,} tasks, {m:,} workers, {k} classes, {n * per_task / m:.0f} labels a worker"
        rates = (accused / runs / m, plots / runs, right / spammers_, wrong / max(right + wrong, 1))
        print(
            f"{size:<62}" + "".join(f"{x:>8.3f}" for x in rates) + f" ({right + wrong:.0f}){more / runs:>8.3f}",
            flush=True,
        )


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


#: Ways to fuse, in the order of the columns: of all answers; without those whom reputation (soft and hard penalties) or
#: covariances find; with those whom covariances find counted as one, without and with a trusted worker; without the
#: plotters.
WAYS = ("MV", "DS", "M-MSR", "reputation", "hard", "left out", "as one", "trusted", "oracle")


def fused(votes: Any, truth: Any, plot: Any) -> tuple[list[float], list[int]]:
    """Accuracy of each way; who was found rightly and wrongly, without and with a trusted worker."""
    honest = votes.workers[~plot][np.argmax(votes.labels_per_worker[~plot])]
    found = {
        "reputation": mh.audit.colluders(votes, method="reputation").found,
        "hard": mh.audit.colluders(votes, method="reputation", penalty="hard").found,
        "left out": mh.audit.colluders(votes).found,
        "trusted": mh.audit.colluders(votes, trusted=honest).found,
    }
    models = [(mh.MajorityVote(), votes), (mh.DawidSkene(), votes), (mh.moments.MMSR(), votes)]
    models += [(mh.DawidSkene(), votes.without(votes.workers[found[way]])) for way in WAYS[3:6]]
    models += [(mh.categorical.GroupDawidSkene([votes.workers[found[way]]]), votes) for way in ("left out", "trusted")]
    models += [(mh.DawidSkene(), votes.without(votes.workers[plot]))]
    hits = [int((found[way] & side).sum()) for way in ("left out", "trusted") for side in (plot, ~plot)]
    return [accuracy(model, table, votes, truth) for model, table in models], hits


def curve(make: Any, runs: int) -> dict[str, list[float]]:
    print(f"{'share':>6}" + "".join(f"{x:>11}" for x in WAYS) + "    found right, wrong; with trusted")
    means = []
    for share in SHARES:
        rows, hits = zip(*(fused(*make(share, np.random.default_rng(seed))) for seed in range(runs)), strict=True)
        means.append(np.mean(rows, axis=0).tolist())
        counts = "  ".join(f"{x:.1f}" for x in np.mean(hits, axis=0))
        print(f"{share:>6.0%}" + "".join(f"{x:>11.3f}" for x in means[-1]) + f"    {counts}", flush=True)
    return dict(zip(WAYS, np.transpose(means).tolist(), strict=True)) | {"share": list(SHARES)}


def honest(rng: Any) -> Any:
    """Confusion matrices of sixty workers who are right in 40 to 80 of 100 tasks of three classes."""
    right = rng.uniform(0.4, 0.8, 60)
    wrong = rng.dirichlet(np.ones(2), (60, 3)) * (1 - right)[:, None, None]
    confusion = np.zeros((60, 3, 3))
    for c in range(3):
        confusion[:, c, c] = right
        confusion[:, c, np.arange(3) != c] = wrong[:, c]
    return confusion


def colluders(_: Path, runs: int) -> dict[str, Any]:
    print(f"\nColluders, 5,000 tasks, 60 workers, 3 classes: accuracy by share of them, mean of {runs} crowds")

    def make(share: float, rng: Any) -> tuple[Any, Any, Any]:
        votes, truth = drawn(honest(rng), 5000, 60, int(rng.integers(1 << 30)))
        truth = truth.astype(np.int64)
        votes, plot = attacked(votes, truth, share, rng)
        return votes, truth, plot

    return {"simulated": curve(make, runs)}


def injected(folder: Path, runs: int) -> dict[str, Any]:
    curves = {}
    for name in [name for name in INJECTED if (folder / name).exists()]:
        print(f"\nColluders injected into {name}: accuracy by share of them, mean of {runs}")
        whole, truth = read(folder / name)

        def make(share: float, rng: Any, whole: Any = whole, truth: Any = truth) -> tuple[Any, Any, Any]:
            votes, plot = attacked(whole, truth, share, rng)
            return votes, truth, plot

        curves[name] = curve(make, runs)
    return curves


def logs(folder: Path, runs: int) -> None:
    print(f"\nReal logs as they are, then with answers dealt anew (mean of {runs}): spammers found by score, those of")
    print("them whom gold shows to know 20 % or more of the classes by two errors, workers not told; colluders")
    heads = (("workers", 8), ("spammers", 10), ("gold: no", 10), ("untold", 8), ("colluders", 11))
    print(f"{'log':<20}" + "".join(f"{x:>{n}}" for x, n in (*heads, *heads[1:])))
    totals = np.zeros((2, 4))
    for name in [name for name in LOGS if (folder / name).exists()]:
        votes, truth = read(folder / name)
        anew = [alarms(shuffled(votes, truth, np.random.default_rng(seed)), truth) for seed in range(runs)]
        found = alarms(votes, truth), np.mean(anew, axis=0)
        totals += found
        cells = "".join(f"{x:>{n}.{places}f}" for row, places in zip(found, (0, 1), strict=True)
                        for x, (_, n) in zip(row, heads[1:], strict=True))  # fmt: skip
        print(f"{name:<20}{votes.n_workers:>8,}{cells}", flush=True)
    print(f"{'all':<28}" + "".join(f"{x:>{n}.1f}" for row in totals for x, (_, n) in zip(row, heads[1:], strict=True)))


def alarms(votes: Any, truth: Any) -> tuple[int, int, int, int]:
    """Spammers found, those of them who are none by gold, workers not told, and colluders found."""
    found = mh.audit.spammers(votes)
    knows, error = knowledge_by_gold(votes, truth)
    probability = found.evidence["probability"]
    untold = int((~found.found & ~(probability <= 0.05)).sum())
    wrong = int((found.found & (knows - 2 * error > 0.2)).sum())
    return len(found), wrong, untold, len(mh.audit.colluders(votes))


def knowledge_by_gold(votes: Any, truth: Any) -> tuple[Any, Any]:
    """Share of the classes that each worker knows, and its standard error, from the tasks with gold."""
    tasks, workers, labels = votes.codes()
    known = truth[tasks] >= 0
    cross = np.zeros((votes.n_workers, votes.n_classes, votes.n_classes))
    np.add.at(cross, (workers[known], truth[tasks[known]], labels[known]), 1.0)
    known = Knowledge.of(cross, cross.sum(axis=2))
    return known.knows, np.sqrt(known.variance(known.knows[:, None])[:, 0])


def main() -> None:
    parts = {f.__name__: f for f in (pruning, spammers, clean, colluders, injected, logs)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--runs", type=int, default=3, help="crowds, or deals of a log, that each row is a mean of")
    parser.add_argument("--part", nargs="*", choices=parts, default=[*parts])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.part:
        if curves := parts[name](given.data, given.runs):
            harness.note("audit", curves)
    print("\n" + NOT_SHOWN)


if __name__ == "__main__":
    main()
