"""Sets of labels: AUC on medical relations, the first label of word senses, and seconds beside a good NumPy version.

    python benches/sets.py                     # needs ../shared/data for the first two
    python benches/sets.py --tasks 100000      # a larger crowd for the seconds

Both sides of the seconds make the same passes over the same arrays, in one run; seconds on the wall and of processors.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np

import manyhands as mh
from manyhands.multilabel.design import Design

SHARED = Path(__file__).parents[2] / "shared" / "data"


def auc(scores: np.ndarray, truth: np.ndarray) -> float:
    from scipy.stats import rankdata

    ranks, positive = rankdata(scores), int(truth.sum())
    return float((ranks[truth == 1].sum() - positive * (positive + 1) / 2) / (positive * (len(truth) - positive)))


def medical(patterns: int = 1) -> None:
    import pandas as pd

    answers = mh.read(SHARED / "medical_re" / "labels.csv.gz", kind="multilabel", labels="label")
    start = time.process_time()
    model = mh.multilabel.PooledRelevance(patterns=patterns).fit(answers)
    took = time.process_time() - start
    found = model.probabilities().to_pandas()
    tasks, (answer, label) = answers.codes()[0].astype(int), answers.said()
    said = pd.DataFrame({"task": answers.tasks[tasks[answer]], "label": answers.labels[label]})
    votes = said.groupby(["task", "label"]).size().reset_index(name="n")
    votes["share"] = votes.n / votes.task.map(dict(zip(answers.tasks, answers.labels_per_task, strict=True)))
    gold = pd.read_csv(SHARED / "medical_re" / "gold_binary.csv")
    print(f"medical_re: {answers!r}, patterns {patterns}, {model.n_iter_} passes, {took:.2f} s")
    for name in ("CAUSES", "TREATS"):
        known = gold[gold["class"] == name]
        of = [
            known.task.map(frame[frame.label == name].set_index("task")[column]).fillna(0.0).to_numpy()
            for frame, column in ((votes, "share"), (found, "probability"))
        ]
        share, ours = (auc(scores, known.label.to_numpy()) for scores in of)
        print(f"  {name}: AUC {share:.4f} of the share, {ours:.4f}")


def senses(patterns: int = 1) -> None:
    import pandas as pd

    answers = mh.read(SHARED / "uds_wordsense" / "labels.csv.gz", kind="multilabel", labels="label")
    start = time.process_time()
    model = mh.multilabel.PooledRelevance(patterns=patterns).fit(answers)
    took = time.process_time() - start
    found = model.probabilities().to_pandas().sort_values("probability").groupby("task").label.last()
    gold = pd.read_csv(SHARED / "uds_wordsense" / "gold.csv")
    right = np.mean([found.get(task) == label for task, label in zip(gold.task, gold.label, strict=True)])
    passes = f"patterns {patterns}, {model.n_iter_} passes, {took:.2f} s"
    print(f"uds_wordsense: {answers!r}, {passes}; first label right of {right:.3f}")


def pooled(kind: dict, yes: np.ndarray, no: np.ndarray, design: Design) -> np.ndarray:
    """Rates of pairs, and what the crowd, workers and labels have in general: what `tests/oracles` has, in place."""
    from scipy.special import digamma, expit

    of = {"labels": design.pair_labels, "workers": design.pair_workers}

    def logits() -> np.ndarray:
        return kind["centre"] + kind["labels"][design.pair_labels] + kind["workers"][design.pair_workers]

    for _ in range(2):
        p = np.clip(expit(logits()), 1e-9, 1 - 1e-9)
        shares, counts = np.stack([p, 1 - p]), np.stack([yes, no])
        at = kind["strength"] * shares
        gains = digamma(counts + at) - digamma(at)
        draws = at * gains
        total = (digamma(yes + no + kind["strength"]) - digamma(kind["strength"])).sum()
        kind["strength"] = float(np.clip(kind["strength"] * (shares * gains).sum() / total, 1e-2, 1e4))
        every = draws.sum(axis=0)
        for name in ("centre", "labels", "workers"):
            p = expit(logits())
            slope, curve = draws[0] - every * p, every * p * (1 - p)
            if name == "centre":
                kind["centre"] += slope.sum() / (curve.sum() + 1)
                continue
            n = len(kind[name])
            curves = np.bincount(of[name], curve, n) + 1.0
            kind[name] += (np.bincount(of[name], slope, n) - kind[name]) / curves
    p = expit(logits())
    return (yes + kind["strength"] * p) / (yes + no + kind["strength"])


def numpy_pass(design: Design, q: np.ndarray, pair: np.ndarray, of: np.ndarray, yes: np.ndarray, kinds: list) -> None:
    """What one pass makes of posteriors: counts of pairs, pooled rates, and posteriors."""
    n, own = len(design.spare), q[of]
    n_yes, n_all = np.bincount(pair, yes, n), np.bincount(pair, minlength=n)
    hits, every = np.bincount(pair, own * yes, n), np.bincount(pair, own, n)
    misses = every - hits
    alarms, refusals = n_yes - hits, n_all - n_yes - misses + design.spare
    hit, alarm = pooled(kinds[0], hits, misses, design), pooled(kinds[1], alarms, refusals, design)
    prior = (np.bincount(design.labels, q, design.sizes[2]) + 0.5) / (design.sizes[0] + 1)
    weights = np.stack([np.log1p(-hit) - np.log1p(-alarm), np.log(hit) - np.log(alarm)], axis=1).ravel()
    told = np.bincount(of, weights[design.rows], len(q)) + np.log(prior / (1 - prior))[design.labels]
    q[:] = 1 / (1 + np.exp(-told))


def seconds(n_tasks: int) -> None:
    drawn = mh.simulate(n_tasks, 500, 20, answers_per_task=8, true_labels=2.0, kind="multilabel").log
    start = time.process_time()
    design = Design.of(drawn)
    print(f"design: {len(design.rows):,} rows, {len(design.spare):,} pairs, {time.process_time() - start:.2f} s")
    pair = (design.rows >> 1).astype(np.int64)
    yes = (design.rows & 1).astype(np.float64)
    of = np.repeat(np.arange(len(design.labels)), np.diff(design.starts.astype(np.int64)))
    for clock in (time.perf_counter, time.process_time):
        taken = {}
        for passes in (2, 22):
            start = clock()
            mh._core.relevance_fit(design, np.zeros(0), max_iter=passes, tol=0.0)
            taken[passes] = clock() - start
        ours = (taken[22] - taken[2]) / 20
        _, m, k = design.sizes
        kinds = [
            {"centre": centre, "labels": np.zeros(k), "workers": np.zeros(m), "strength": 10.0}
            for centre in (0.0, -3.0)
        ]
        q = np.bincount(of, yes) / np.bincount(of)
        start = clock()
        for _ in range(5):
            numpy_pass(design, q, pair, of, yes, kinds)
        theirs = (clock() - start) / 5
        what = "on the wall" if clock is time.perf_counter else "of processors"
        print(f"a pass {what}: {ours * 1e3:.1f} ms, NumPy {theirs * 1e3:.1f} ms: x{theirs / ours:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=4_000)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if SHARED.exists():
        for patterns in (1, 2, 4, 8, 16):
            medical(patterns)
            senses(patterns)
    seconds(given.tasks)


if __name__ == "__main__":
    main()
