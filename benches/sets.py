"""Sets of labels: AUC on medical relations, the first label of word senses, and seconds beside a good NumPy version.

    python benches/sets.py                     # needs ../shared/data for the first two
    python benches/sets.py --tasks 100000      # a larger crowd for the seconds

Both sides of the seconds make the same passes over the same arrays, in one run; seconds are of all processors.
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


def medical() -> None:
    import pandas as pd

    answers = mh.read(SHARED / "medical_re" / "labels.csv.gz", kind="sets", labels="label")
    start = time.process_time()
    model = mh.aggregate(answers)
    took = time.process_time() - start
    found = model.probabilities().to_pandas()
    tasks, (answer, label) = answers.codes()[0].astype(int), answers.said()
    said = pd.DataFrame({"task": answers.tasks[tasks[answer]], "label": answers.labels[label]})
    votes = said.groupby(["task", "label"]).size().reset_index(name="n")
    votes["share"] = votes.n / votes.task.map(dict(zip(answers.tasks, answers.labels_per_task, strict=True)))
    gold = pd.read_csv(SHARED / "medical_re" / "gold_binary.csv")
    print(f"medical_re: {answers!r}, {model.n_iter_} passes, {took:.2f} s")
    for name in ("CAUSES", "TREATS"):
        known = gold[gold["class"] == name]
        of = [
            known.task.map(frame[frame.label == name].set_index("task")[column]).fillna(0.0).to_numpy()
            for frame, column in ((votes, "share"), (found, "probability"))
        ]
        share, ours = (auc(scores, known.label.to_numpy()) for scores in of)
        print(f"  {name}: AUC {share:.4f} of the share, {ours:.4f}")


def senses() -> None:
    import pandas as pd

    answers = mh.read(SHARED / "uds_wordsense" / "labels.csv.gz", kind="sets", labels="label")
    start = time.process_time()
    model = mh.aggregate(answers)
    took = time.process_time() - start
    found = model.probabilities().to_pandas().sort_values("probability").groupby("task").label.last()
    gold = pd.read_csv(SHARED / "uds_wordsense" / "gold.csv")
    right = np.mean([found.get(task) == label for task, label in zip(gold.task, gold.label, strict=True)])
    print(f"uds_wordsense: {answers!r}, {model.n_iter_} passes, {took:.2f} s; first label right of {right:.3f}")


def numpy_pass(design: Design, q: np.ndarray, weights: np.ndarray, pair: np.ndarray, of: np.ndarray) -> np.ndarray:
    """What one pass makes of posteriors, without the pooled rates: counts of pairs, then posteriors."""
    yes = (design.rows & 1).astype(bool)
    n = len(design.spare)
    for part in (q[of] * yes, q[of] * ~yes, (1 - q[of]) * yes, (1 - q[of]) * ~yes):
        np.bincount(pair, part, minlength=n)
    told = np.bincount(of, weights[design.rows], minlength=len(q))
    return 1 / (1 + np.exp(-told))


def seconds(n_tasks: int) -> None:
    drawn = mh.simulate_multilabels(n_tasks, 500, 20, answers_per_task=8, labels_per_task=2.0).answers
    start = time.process_time()
    design = Design.of(drawn)
    print(f"design: {len(design.rows):,} rows, {len(design.spare):,} pairs, {time.process_time() - start:.2f} s")
    taken = {}
    for passes in (2, 22):
        start = time.process_time()
        mh._core.relevance_fit(design, max_iter=passes, tol=0.0)
        taken[passes] = time.process_time() - start
    ours = (taken[22] - taken[2]) / 20
    rng = np.random.default_rng(0)
    q, weights = rng.random(len(design.labels)), rng.random(2 * len(design.spare))
    pair = (design.rows >> 1).astype(np.int64)
    of = np.repeat(np.arange(len(q)), np.diff(design.starts.astype(np.int64)))
    start = time.process_time()
    for _ in range(5):
        numpy_pass(design, q, weights, pair, of)
    theirs = (time.process_time() - start) / 5
    print(f"a pass: {ours * 1e3:.1f} ms with pooled rates, NumPy {theirs * 1e3:.1f} ms without: x{theirs / ours:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=4_000)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if SHARED.exists():
        medical()
        senses()
    seconds(given.tasks)


if __name__ == "__main__":
    main()
