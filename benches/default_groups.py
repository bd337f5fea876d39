"""Groups in the default: may they enter it where they are found?

    python benches/default_groups.py               all of it
    python benches/default_groups.py logs          some parts: planted, clean, logs

The rule was fixed before anything was run. Where `audit.groups` at its own settings finds no group, the default stays
as it is. Where it does, one of these is tried:

* *member*: `GroupDawidSkene` with these groups is a fourth member of the average, of equal weight;
* *replace*: it takes the place of the hierarchical member;
* *votes*: g members of a group on a task are g / (1 + r (g - 1)) votes, where r is the share of answers that pairs of
  the group share beyond chance, and log-posteriors shrink as the votes of the task do; labels stay;
* *weights*: their annotations weigh 1 / (1 + r (g - 1)) in all members; *one*: the same with r = 1.

A use is adopted only if nothing is lost where nothing is planted (mean accuracy down by at most .05 points, no crowd
by two standard errors), no real log loses more than two standard errors and half a point, nor their means of accuracy,
log-loss or calibration error get worse (by more than .005 for the latter two) with any one log left out, something is
gained where camps are planted, and looking for groups costs no more than one fit.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import manyhands as mh
from audit_groups import CLEAN, SHUFFLES, seed_paper
from default import LOGS
from manyhands import _core
from manyhands.categorical._calibration import EVEN
from manyhands.categorical._excess import beliefs, pair_excess
from manyhands.categorical._groups import find_groups
from shuffled import read, shuffled

SEEDS = 10
USES = ("member", "replace", "votes", "weights", "one")
#: Planted camps, as (workers in each camp, workers in none, probability of the camp's answer, labels a task).
PLANTED = {
    "two copies in 40": ((2,), 38, 0.9, 8),
    "three pairs in 40": ((2, 2, 2), 34, 0.9, 8),
    "a camp of 5 in 20": ((5,), 15, 0.7, 10),
    "two camps of 4 in 12": ((4, 4), 4, 0.7, 12),
    "a camp of 10 in 40": ((10,), 30, 0.6, 10),
    "three camps of 6 in 30": ((6, 6, 6), 12, 0.5, 15),
    "a camp of 8 in 20": ((8,), 12, 0.9, 20),
}


def effective(votes: mh.Annotations, codes: np.ndarray, shared: np.ndarray) -> np.ndarray:
    """What each annotation is worth, 1 / (1 + r (g - 1)) for one of g of a group on a task."""
    tasks, workers, _ = votes.codes()
    group = codes[workers]
    _, place, sizes = np.unique(tasks.astype(np.int64) * len(codes) + group, return_inverse=True, return_counts=True)
    return 1.0 / (1.0 + shared[group] * (sizes[place] - 1))


def shared_answers(known: Any, codes: np.ndarray) -> np.ndarray:
    """The share of answers that pairs within each group have in common beyond chance."""
    pairs = pair_excess(known, min_overlap=1, share=0.0, most=1.0)
    a, b = pairs.pairs.T.astype(np.int64)
    inside, n = codes[a] == codes[b], codes.max() + 1
    of = codes[a][inside]
    above = np.bincount(of, (pairs.agreements - pairs.expected)[inside], n)
    room = np.bincount(of, (pairs.common - pairs.expected)[inside], n)
    return np.clip(above / np.maximum(room, 1e-9), 0.0, 1.0)


def posteriors(votes: mh.Annotations) -> tuple[dict[str, np.ndarray], list[int]]:
    """Of the default and each use of groups, and the sizes of the groups that were found."""
    model = mh.Consensus().fit(votes)
    known = beliefs(votes)
    pairs = pair_excess(known, min_overlap=10, share=0.0, most=1.0)
    found = find_groups(known, pairs, rate=0.01)
    answer = {"default": model.posterior_}
    sizes = np.bincount(found.codes)
    if sizes.max() == 1:
        return answer | dict.fromkeys(USES, model.posterior_), []
    members = [member["posterior"] for member in model._members(votes, None, _Silent())]
    camps = mh.categorical.GroupDawidSkene(mh.audit.groups(votes).groups).fit(votes).posterior_
    informs = votes.table.effective_votes(model._information)

    def pooled(parts: list[np.ndarray], voters: np.ndarray) -> np.ndarray:
        weights = np.full(len(parts), 1 / len(parts))
        return _core.pool_posteriors(parts, weights, voters, float(model.discount_), EVEN)[0]

    shared = shared_answers(known, found.codes)
    worth = effective(votes, found.codes, shared)
    tasks, workers, labels = votes.codes()
    share = np.bincount(tasks, worth, votes.n_tasks) / np.maximum(votes.labels_per_task, 1)
    answer["member"] = pooled([*members, camps], informs)
    answer["replace"] = pooled([camps, *members[1:]], informs)
    softer = np.maximum(model.posterior_, 1e-300) ** share[:, None]
    answer["votes"] = softer / softer.sum(axis=1, keepdims=True)
    for name, weights in (("weights", worth), ("one", effective(votes, found.codes, np.ones(len(sizes))))):
        lighter = mh.Annotations.from_codes(
            tasks,
            workers,
            labels,
            weights=weights,
            n_tasks=votes.n_tasks,
            n_workers=votes.n_workers,
            n_classes=votes.n_classes,
        )
        answer[name] = mh.Consensus().fit(lighter).posterior_
    return answer, sorted(sizes[sizes > 1].tolist(), reverse=True)


class _Silent:
    """Nothing is told of passes."""

    def next(self) -> None:
        return None


def scored(name: str, votes: mh.Annotations, truth: np.ndarray) -> list[dict[str, Any]]:
    """A row for each use: how it compares with the default."""
    answers, sizes = posteriors(votes)
    known = truth >= 0
    right = {use: rows.argmax(axis=1)[known] == truth[known] for use, rows in answers.items()}
    rows = []
    for use, posterior in answers.items():
        change = right[use].astype(float) - right["default"]
        rows.append(
            {
                "crowd": name,
                "groups": sizes,
                "use": use,
                "accuracy": right[use].mean(),
                "change": change.mean(),
                "error": np.sqrt((change**2).sum()) / len(change),
                "log-loss": mh.metrics.log_loss(posterior[known], truth[known]),
                "calibration error": mh.metrics.calibration_error(posterior[known], truth[known]),
            }
        )
    return rows


def planted() -> list[dict[str, Any]]:
    rows = []
    for name, (camps, others, copying, per_task) in PLANTED.items():
        league = np.concatenate([np.repeat(np.arange(len(camps)), camps), np.full(others, -1)])
        for seed in range(SEEDS):
            settings = {"crowd": "one-coin", "accuracy": (0.45, 0.85), "labels_per_task": per_task, "seed": seed}
            crowd = mh.simulate(500, len(league), 3, groups=league, copying=copying, **settings)
            rows += scored(name, crowd.log, crowd.truth)
    for seed in range(SEEDS):
        rows += scored("five camps of 8", *seed_paper(1000, seed))
    return rows


def clean(data: Path) -> list[dict[str, Any]]:
    rows = []
    for name, (sizes, settings) in CLEAN.items():
        for seed in range(2 * SEEDS):
            crowd = mh.simulate(*sizes, seed=seed, **settings)
            rows += scored(name, crowd.log, crowd.truth)
    for name in LOGS:
        votes, truth = read(data / name)
        for seed in range(SHUFFLES):
            rows += scored("real logs, shuffled", shuffled(votes, truth, np.random.default_rng(seed)), truth)
    return rows


def logs(data: Path) -> list[dict[str, Any]]:
    return [row for name in LOGS for row in scored(name, *read(data / name))]


def report(found: pd.DataFrame) -> None:
    """Means of each use over crowds, and what the worst change was."""
    for name, part in found.groupby("crowd", sort=False):
        whole = part[part.use == "default"]
        some = whole.groups.map(len) > 0
        if not some.any():
            print(f"\n{name}: no groups in {len(whole)} crowds, nothing changes", flush=True)
            continue
        print(f"\n{name}: {len(whole)} crowds, groups found in {some.sum()}: {whole.groups[some].head(4).tolist()}")
        cells = part.groupby("use", sort=False).agg(
            accuracy=("accuracy", "mean"), change=("change", "mean"), worst=("change", "min"),
            error=("error", lambda errors: np.sqrt((errors**2).sum()) / len(errors)),
            log_loss=("log-loss", "mean"), calibration=("calibration error", "mean"),
        )  # fmt: skip
        print(cells.round(4).to_string(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["planted", "logs", "clean"])
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    jobs = {"planted": planted, "logs": lambda: logs(args.data), "clean": lambda: clean(args.data)}
    for part in args.parts:
        found = pd.DataFrame(jobs[part]())
        report(found)
        if part == "logs":
            report(found.assign(crowd="all logs"))
            means = found.pivot(index="crowd", columns="use", values=["accuracy", "log-loss", "calibration error"])
            for measure in ("accuracy", "log-loss", "calibration error"):
                gaps = means[measure][list(USES)].sub(means[measure]["default"], axis=0)
                left_out = (gaps.sum() - gaps) / (len(gaps) - 1)
                print(f"\n{measure}: mean change, and the range with any one log left out")
                print(pd.DataFrame({"mean": gaps.mean(), "low": left_out.min(), "high": left_out.max()}).round(4))


if __name__ == "__main__":
    main()
