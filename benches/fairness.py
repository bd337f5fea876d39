"""Gaps between groups before and after they are kept, what that costs, and how often intervals hold.

    python benches/fairness.py [--crowds 10] [--runs 300]

Crowds: 4,000 tasks of two equally frequent classes and two equally large groups, 20 workers of accuracy .65 to .95,
five labels a task. Biased workers, a share of all, take a positive of the second group for a negative with probability
.5 more. A downstream classifier (logistic regression on four features that tell the class and four that tell the group)
learns from the answers to half of the tasks and is measured on the other half.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

import manyhands as mh

N, M, PER_TASK = 4000, 20, 5


def crowd(share: float, seed: int) -> tuple[mh.Annotations, Any, Any, Any]:
    rng = np.random.default_rng(seed)
    truth, groups = rng.integers(0, 2, N), rng.integers(0, 2, N)
    skill, unfair = rng.uniform(0.65, 0.95, M), np.arange(M) < round(share * M)
    who = np.stack([rng.permutation(M)[:PER_TASK] for _ in range(N)])
    hit = ((groups == 1) & (truth == 1))[:, None] & unfair[who]
    right = np.where(hit, np.maximum(skill[who] - 0.5, 0.05), skill[who])
    said = np.where(rng.random(who.shape) < right, truth[:, None], 1 - truth[:, None])
    votes = mh.Annotations.from_codes(
        np.repeat(np.arange(N), PER_TASK), who.ravel(), said.ravel(), n_tasks=N, n_workers=M, n_classes=2
    )
    first = np.arange(8) < 4
    features = rng.normal(size=(N, 8)) + np.where(first, 0.8 * truth[:, None], groups[:, None])
    return votes, truth, groups, features


def measured(labels: Any, truth: Any, groups: Any) -> tuple[float, float, float]:
    """Accuracy, and gaps of demographic parity and equal opportunity."""
    rate = [labels[groups == g].mean() for g in (0, 1)]
    hit = [labels[(groups == g) & (truth == 1)].mean() for g in (0, 1)]
    return (labels == truth).mean(), abs(rate[0] - rate[1]), abs(hit[0] - hit[1])


def downstream(labels: Any, truth: Any, groups: Any, features: Any, model: Any = None) -> tuple[float, float, float]:
    half = np.arange(N) < N // 2
    model = (LogisticRegression(max_iter=1000) if model is None else model).fit(features[half], labels[half])
    return measured(model.predict(features[~half]), truth[~half], groups[~half])


def answers(votes: mh.Annotations, groups: Any) -> dict[str, Any]:
    default = mh.aggregate(votes)
    keep = {"attribute": groups, "gap": 0.02, "model": default}
    return {
        "majority": mh.MajorityVote().fit(votes).labels_,
        "dawid-skene": mh.DawidSkene().fit(votes).labels_,
        "default": default.labels_,
        "parity kept after": mh.fairness.aggregate(votes, **keep).labels,
        "parity kept within": mh.fairness.aggregate(votes, **keep, within=True).labels,
        "opportunity after": mh.fairness.aggregate(votes, **keep, measure="equal_opportunity").labels,
        "opportunity within": mh.fairness.aggregate(votes, **keep, measure="equal_opportunity", within=True).labels,
    }


def coverage(runs: int) -> None:
    held: dict[str, list[bool]] = {}
    rng = np.random.default_rng(0)
    for run in range(runs):
        truth, groups = rng.integers(0, 2, 200), (rng.random(200) < 0.3).astype(int)
        said = np.where(rng.random(200) < np.where(groups == 1, 0.75, 0.95), truth, 1 - truth)
        votes = mh.Annotations.from_codes(
            np.arange(200), np.zeros(200, int), said, n_tasks=200, n_workers=1, n_classes=2
        )
        found = mh.fairness.gaps(
            votes,
            (np.arange(200), truth),
            attribute=groups,
            predictions=(np.arange(200), said),
            workers=False,
            seed=run,
        )
        for measure, real in (("accuracy", 0.2), ("equal_opportunity", 0.2), ("false_positives", -0.2),
                              ("demographic_parity", 0.0)):  # fmt: skip
            gap = found.predictions[measure]
            sign = 1 if gap.rates[0] >= gap.rates[1] else -1
            held.setdefault(measure, []).append(gap.low <= sign * real <= gap.high)
    print(f"\nIntervals of 90 % that hold the gap, 200 tasks, 30 % in the smaller group, {runs} runs")
    for measure, hits in held.items():
        print(f"{measure:<22}{np.mean(hits):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crowds", type=int, default=10)
    parser.add_argument("--runs", type=int, default=300)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print("Accuracy / gap of parity / gap of opportunity, of answers and of the downstream classifier")
    for share in (0.0, 0.25, 0.5):
        rows: dict[str, list[Any]] = {}
        for seed in range(args.crowds):
            votes, truth, groups, features = crowd(share, seed)
            for name, labels in answers(votes, groups).items():
                both = (*measured(labels, truth, groups), *downstream(labels, truth, groups, features))
                rows.setdefault(name, []).append(both)
        print(f"\n{share:.0%} of the workers biased, mean of {args.crowds} crowds")
        for name, found in rows.items():
            a = np.mean(found, axis=0)
            print(f"{name:<20}{a[0]:.3f} {a[1]:.3f} {a[2]:.3f}   {a[3]:.3f} {a[4]:.3f} {a[5]:.3f}", flush=True)
    coverage(args.runs)


if __name__ == "__main__":
    main()
