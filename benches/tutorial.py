"""The figures of the signal-processing tutorial that need no network, as tables for the page of what papers claim.

    python benches/tutorial.py --part spammers colluders attacks groups active fairness imagenet

The experiments are those of audit.py, audit_groups.py, collect.py and fairness.py, which try more than the tutorial
does; here is what it shows: accuracy with spammers left out, accuracy by share of colluders (simulated, and injected
into four logs), groups of dependent workers, labels chosen by uncertainty against random ones, and gaps between
groups of tasks. Results are written to the folder of --out, a file a part.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import audit
import audit_groups
import collect
import fairness
import harness
import manyhands as mh
from shuffled import read

Tables = dict[str, list[dict[str, Any]]]


def spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation of shares, in per cent; the number alone where there is one."""
    mean = f"{100 * statistics.fmean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ± {100 * statistics.stdev(values):.1f}"


def spammers(folder: Path, _: int) -> Tables:
    """Accuracy with all workers, and without those whom covariances show to be spammers."""
    models = {"majority": mh.MajorityVote(), "EM": mh.DawidSkene(pseudo_count=1e-6), "default": mh.Consensus()}
    rows = []
    for name in audit.PRUNED:
        votes, truth = read(folder / name)
        found = mh.audit.spammers(votes, method="covariance")
        for what, table in (("all", votes), ("left out", votes.without(found))):
            row: dict[str, Any] = {"log": f"{name}, {what}", "workers left out": len(found) if what != "all" else 0}
            rows.append(row | {k: spread([audit.accuracy(m, table, votes, truth)]) for k, m in models.items()})
    return {"spammers": rows}


def colluders(folder: Path, seeds: int) -> Tables:
    """Accuracy by share of colluders."""
    shown = {
        "MV": "majority",
        "DS": "Dawid–Skene",
        "M-MSR": "M-MSR",
        "left out": "colluders left out",
        "as one": "as one",
    }
    curves = audit.colluders(folder, seeds) | audit.injected(folder, seeds)
    return {
        name: [
            {"colluders": f"{share:.0%}"} | {title: spread([curve[way][i]]) for way, title in shown.items()}
            for i, share in enumerate(curve["share"])
        ]
        for name, curve in curves.items()
    }


def attacks(_: Path, seeds: int) -> Tables:
    """Accuracy by share of spammers, malicious workers and colluders, with an oracle and projected gradients."""
    independent: list[dict[str, Any]] = []
    for kind in ("spammers", "malicious"):
        for share in (0.0, 0.2, 0.4, 0.6):
            columns: dict[str, list[float]] = {}
            for seed in range(seeds):
                rng = np.random.default_rng(seed)
                adverse = rng.permutation(20) < round(share * 20)
                confusion = 0.4 * np.eye(4) + 0.6 * rng.dirichlet(np.ones(4), (20, 4))
                if kind == "spammers":
                    confusion[adverse] = rng.dirichlet(np.ones(4), adverse.sum())[:, None, :]
                else:  # what an honest worker says of the next class
                    confusion[adverse] = np.roll(confusion[adverse], 1, axis=2)
                votes, truth = audit.drawn(confusion, 10_000, 20, seed)
                oracle = mh.posterior(votes, np.full(4, 0.25), confusion).argmax(axis=1)
                audited = mh.metrics.detection(mh.audit.spammers(votes, method="covariance"), adverse)
                cells = {
                    "majority": np.mean(mh.MajorityVote().fit(votes).labels_ == truth),
                    "Dawid–Skene": np.mean(mh.DawidSkene().fit(votes).labels_ == truth),
                    "oracle": np.mean(oracle == truth),
                    "sensitivity": audited.sensitivity,
                    "specificity": audited.specificity,
                }
                for name, value in cells.items():
                    columns.setdefault(name, []).append(float(value))
            shown = {name: "–" if np.isnan(values).any() else spread(values) for name, values in columns.items()}
            independent.append({"adverse workers": f"{share:.0%} {kind}"} | shown)
    colluding: list[dict[str, Any]] = []
    models = {
        "majority": mh.MajorityVote(),
        "Dawid–Skene": mh.DawidSkene(),
        "PGD": mh.moments.OneCoinGradient(),
        "M-MSR": mh.moments.MMSR(),
    }
    for share in (0.0, 0.2, 0.4):
        found: dict[str, list[float]] = {}
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            votes, truth = audit.drawn(audit.honest(rng), 5000, 60, seed)
            votes = audit.attacked(votes, truth.astype(np.int64), share, rng)[0]
            for name, model in models.items():
                found.setdefault(name, []).append(float(np.mean(model.fit(votes).labels_ == truth)))
            for method in ("covariance", "agreement"):
                rest = votes.without(mh.audit.colluders(votes, method=method))
                left = float(np.mean(mh.DawidSkene().fit(rest).labels_ == truth))
                found.setdefault(f"left out by {method}", []).append(left)
        colluding.append({"colluders": f"{share:.0%}"} | {name: spread(values) for name, values in found.items()})
    return {"spammers and malicious workers": independent, "colluders, simulated": colluding}


def groups(folder: Path, seeds: int) -> Tables:
    """Accuracy where workers of a group depend on one another."""
    models = {
        "majority": mh.MajorityVote(),
        "Dawid–Skene": mh.DawidSkene(),
        "group vote": mh.categorical.GroupVote(),
        "group Dawid–Skene": mh.categorical.GroupDawidSkene(),
    }
    votes, truth = read(folder / "bluebird")
    drawn = [audit_groups.seed_paper(5000, seed) for seed in range(seeds)]
    rows = []
    for name, model in models.items():
        simulated = [mh.metrics.accuracy(model.fit(made).labels_, classes) for made, classes in drawn]
        rows.append(
            {
                "method": name,
                "bluebird": spread([audit.accuracy(model, votes, votes, truth)]),
                "simulated": spread(simulated),
            }
        )
    return {"groups": rows}


def active(folder: Path, seeds: int) -> Tables:
    """Accuracy after so many labels, chosen or at random, with steps of online EM."""
    tables = {}
    for name, marks in collect.CURVES.items():
        votes, gold = collect.known(folder, name)
        rows = []
        for policy in ("random", "entropy"):
            step = int(np.gcd.reduce(marks))
            run = mh.collect.replay(
                votes,
                gold,
                policy,
                budget=marks[-1],
                seed=range(seeds),
                update="online",
                points=marks[-1] // step,
            )
            at = run.accuracies[:, np.searchsorted(run.labels, marks)].T
            rows.append({"labels": policy} | {f"{n:,}": spread(a.tolist()) for n, a in zip(marks, at, strict=True)})
        tables[name] = rows
    return tables


def unfairness(_: Path, seeds: int) -> Tables:
    """Accuracy and gaps of answers, with biased workers, before and after a gap is kept."""
    measures = ("accuracy", "parity gap", "opportunity gap")
    shown = ("majority", "dawid-skene", "default", "parity kept after", "parity kept within")
    rows: list[dict[str, Any]] = []
    for share in (0.0, 0.25, 0.5):
        found: dict[str, list[Any]] = {}
        for seed in range(seeds):
            votes, truth, who, features = fairness.crowd(share, seed)
            for name, labels in fairness.answers(votes, who).items():
                both = (*fairness.measured(labels, truth, who), *fairness.downstream(labels, truth, who, features))
                found.setdefault(name, []).append(both)
        heads = [*measures, *(f"classifier: {name}" for name in measures[:2])]
        rows += [
            {"biased, answers": f"{share:.0%}, {name}"}
            | {head: spread([run[i] for run in found[name]]) for i, head in enumerate(heads)}
            for name in shown
        ]
    return {"fairness": rows, "classifiers": downstream_table(seeds)}


def downstream_table(seeds: int) -> list[dict[str, Any]]:
    """What biased workers cost a forest and a logistic regression, by how their answers become labels.

    Differences between a crowd of which half is biased and one without, on the same tasks. "Learning from crowd" is
    Raykar's model, logistic regression with a confusion matrix per worker, whose answers train both classifiers.
    """
    import torch
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    def labels_by(votes: Any, features: Any) -> dict[str, Any]:
        torch.manual_seed(0)
        X = features.astype(np.float32)
        learner = mh.learn.DeepEM(torch.nn.Linear(X.shape[1], 2), max_epochs=15, lr=1e-2, batch_size=256).fit(X, votes)
        return {
            "majority": mh.MajorityVote().fit(votes).labels_,
            "Dawid–Skene": mh.DawidSkene().fit(votes).labels_,
            "learning from crowd": learner.predict(X, votes),
        }

    classifiers = {
        "random forest": lambda: RandomForestClassifier(200, min_samples_leaf=5, random_state=0),
        "logistic regression": lambda: LogisticRegression(max_iter=1000),
    }
    costs: dict[str, list[tuple[float, float]]] = {}
    for seed in range(seeds):
        results: dict[tuple[str, float], tuple[float, float, float]] = {}
        for share in (0.0, 0.5):
            votes, truth, who, features = fairness.crowd(share, seed)
            for name, labels in labels_by(votes, features).items():
                for title, make in classifiers.items():
                    fit = fairness.downstream(labels, truth, who, features, make())
                    results[f"{title}, {name}", share] = fit
        for name in dict.fromkeys(name for name, _ in results):
            before, after = results[name, 0.0], results[name, 0.5]
            costs.setdefault(name, []).append((before[0] - after[0], after[1] - before[1]))
    return [
        {
            "classifier, labels by": name,
            "accuracy lost": spread([each[0] for each in costs[name]]),
            "parity gap gained": spread([each[1] for each in costs[name]]),
        }
        for name in sorted(costs, key=lambda name: list(classifiers).index(name.split(", ")[0]))
    ]


def imagenet(folder: Path, seeds: int) -> Tables:
    """ImageNet-15N by its labels alone, whole and in random halves of the tasks."""
    votes, truth = read(folder / "imagenet15n")
    models = {
        "majority": mh.MajorityVote(),
        "Dawid–Skene": mh.DawidSkene(),
        "Dawid–Skene, one coin": mh.DawidSkene(model="one-coin"),
        "Dawid–Skene, shrunk": mh.HierarchicalDawidSkene(),
        "default": mh.Consensus(),
    }
    halves = [
        np.sort(np.random.default_rng(seed).permutation(votes.n_tasks)[: votes.n_tasks // 2]) for seed in range(seeds)
    ]
    rows = []
    for name, model in models.items():
        parts = [votes.select(tasks=votes.tasks[half]) for half in halves]
        accuracies = [
            (part.classes[model.fit(part).posterior_.argmax(axis=1)] == votes.classes[truth[half]]).mean()
            for part, half in zip(parts, halves, strict=True)
        ]
        whole = spread([audit.accuracy(model, votes, votes, truth)])
        rows.append({"method": name, "accuracy": whole, "on random halves": spread(accuracies)})
    return {"ImageNet-15N, labels alone": rows}


PARTS = {
    "spammers": spammers,
    "colluders": colluders,
    "attacks": attacks,
    "groups": groups,
    "active": active,
    "fairness": unfairness,
    "imagenet": imagenet,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of real data sets")
    parser.add_argument("--part", nargs="+", choices=tuple(PARTS), default=tuple(PARTS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=harness.RESULTS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    host = harness.machine(1)
    for part in given.part:
        tables = PARTS[part](given.data, given.seeds)
        text = "\n\n".join(f"## {title}\n\n{harness.markdown(rows)}" for title, rows in tables.items())
        print(text, flush=True)
        harness.save(f"tutorial-{part}", given.out, {"machine": host, "tables": tables}, text)


if __name__ == "__main__":
    main()
