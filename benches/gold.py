"""Known classes: what they add to the default, on panels of language models and on logs of people.

    python benches/gold.py --panels            six panels of judges with 20 to 300 known classes
    python benches/gold.py --logs              24 logs of people with 5 to 200 known classes
    python benches/gold.py --scores            judges' scores with known classes, numbers with known values
    python benches/gold.py --sets              sets of labels with known sets
    python benches/gold.py --draws 5 …         random draws of the known classes per log and number (default 20)

Accuracy is that on the tasks whose class is known to nobody but the bench, at most 2,000 per draw. At most half of the
tasks with a known class are drawn. Data are looked for in ../shared/data (``--data``).
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import default
import harness
import manyhands as mh
import promise

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
PANELS = ("judges_10k_prompts", "judges_cebab_stars", "judges_civil", "judges_framing", "judges_lgbteen", "judges_wax")
SIZES = {"panels": (20, 50, 100, 300), "logs": (5, 10, 20, 50, 100, 200)}
NUMBERS = ("affect_anger", "affect_fear", "affect_joy", "affect_valence", "movie_reviews")
MOST_TESTED = 2000
#: Penalty of the stacked regression (scikit-learn's C), per column of votes.
STACKED = 0.1


def panel(name: str, data: Path) -> tuple[mh.Annotations, np.ndarray]:
    """The votes of a panel, and the class of each task, -1 where it is not known."""
    votes, truth = next((votes, truth) for _, votes, truth in promise.logs(data, {name}))
    return votes, codes(votes, truth)


def codes(votes: mh.Annotations, truth: dict[str, str]) -> np.ndarray:
    """Class code of each task, -1 where its class is not known or was never named."""
    place = {name: code for code, name in enumerate(votes.classes.tolist())}
    return np.array([place.get(truth.get(task, ""), -1) for task in votes.tasks.tolist()])


def people(name: str, data: Path) -> tuple[mh.Annotations, np.ndarray]:
    """A log of people, and the class of each task, -1 where it is not known."""
    votes, index, classes = default.read(data / name, 1.0, 0)
    truth = np.full(votes.n_tasks, -1)
    truth[index] = classes
    return votes, truth


def draws(truth: np.ndarray, n: int, number: int, seed: int) -> Any:
    """Places of known and of tested tasks, a number of times."""
    known = np.flatnonzero(truth >= 0)
    for turn in range(number):
        order = np.random.default_rng([*np.atleast_1d(seed), turn, n]).permutation(known)
        yield order[:n], order[n : n + MOST_TESTED]


def accuracy(posterior: np.ndarray, classes: np.ndarray) -> float:
    """Share of right classes; ties share."""
    best = posterior >= posterior.max(axis=1, keepdims=True) * (1 - 1e-12)
    return float((best[np.arange(len(classes)), classes] / best.sum(axis=1)).mean())


def one_hot(votes: mh.Annotations) -> np.ndarray:
    """Votes of each task, (tasks, workers · classes)."""
    table = np.zeros((votes.n_tasks, votes.n_workers * votes.n_classes), np.float32)
    tasks, workers, labels = votes.codes()
    table[tasks, workers * votes.n_classes + labels] = 1.0
    return table


def fit(votes: mh.Annotations, truth: np.ndarray, known: np.ndarray, **settings: Any) -> tuple[mh.Consensus, float]:
    """The default with known classes, and its processor time."""
    gold = (votes.tasks[known], votes.classes[truth[known]])
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mh.Consensus(gold=gold if len(known) else None, **settings).fit(votes)
    return model, time.process_time() - start


def skill_errors(model: mh.Consensus, true: np.ndarray) -> tuple[np.ndarray, float]:
    """Error of each judge's skill in stated standard errors, and the mean error."""
    frame = model.workers_frame()
    off = np.abs(frame["skill"].to_numpy() - true)
    return off / frame["skill_error"].to_numpy(), float(off.mean())


def judges_right(votes: mh.Annotations, truth: np.ndarray, tasks: np.ndarray | None = None) -> tuple[np.ndarray, Any]:
    """Share of right answers of each worker on tasks of known class, and how many they answered."""
    of, workers, labels = votes.codes()
    keep = truth[of] >= 0 if tasks is None else np.isin(of, tasks)
    seen = np.bincount(workers[keep], minlength=votes.n_workers)
    right = np.bincount(workers[keep], truth[of[keep]] == labels[keep], votes.n_workers)
    return right / np.maximum(seen, 1), seen


def best_judge(votes: mh.Annotations, truth: np.ndarray, known: np.ndarray, tested: np.ndarray) -> float:
    """Accuracy of the judge who is best on the known tasks."""
    shares, seen = judges_right(votes, truth, known)
    best = int(np.argmax((shares * seen + 1) / (seen + 2)))
    return float(judges_right(votes, truth, tested)[0][best])


def stacking(features: np.ndarray, truth: np.ndarray, known: np.ndarray, tested: np.ndarray) -> float:
    """Accuracy of a ridge logistic regression from the votes to the known classes."""
    if len(np.unique(truth[known])) == 1:
        return float((truth[tested] == truth[known][0]).mean())
    model = LogisticRegression(C=STACKED, max_iter=200).fit(features[known], truth[known])
    return float((model.predict(features[tested]) == truth[tested]).mean())


def report_panels(data: Path, number: int) -> None:
    """Accuracy, calibration error and skills on panels of judges."""
    found: dict[tuple[str, int], list[dict[str, float]]] = {}
    for place, name in enumerate(PANELS):
        votes, truth = panel(name, data)
        known = np.flatnonzero(truth >= 0)
        shares, features = judges_right(votes, truth)[0], one_hot(votes)
        vote = mh.MajorityVote().fit(votes).posterior_
        for n in (0, *SIZES["panels"]):
            if n > len(known) / 2:
                continue
            for some, tested in draws(truth, n, number if n else 1, place):
                tested = tested if n else known
                model, seconds = fit(votes, truth, some)
                posterior, classes = model.posterior_[tested], truth[tested]
                off, error = skill_errors(model, shares)
                row = {
                    "default": accuracy(posterior, classes),
                    "stated": float(posterior.max(axis=1).mean()),
                    "calibration error": mh.metrics.calibration_error(posterior, classes),
                    "log-loss": mh.metrics.log_loss(posterior, classes),
                    "skills within 2 errors": float((off <= 2).mean()),
                    "mean skill error": error,
                    "majority": accuracy(vote[tested], classes),
                    "seconds": seconds,
                }
                if n:
                    row |= {
                        "best judge": best_judge(votes, truth, some, tested),
                        "stacking": stacking(features, truth, some, tested),
                    }
                found.setdefault((name, n), []).append(row)
    columns = ["default", "majority", "best judge", "stacking", "stated", "calibration error", "log-loss"]
    columns += ["skills within 2 errors", "mean skill error", "seconds"]
    rows = []
    for n in (0, *SIZES["panels"]):
        names = [name for name in PANELS if (name, n) in found]
        means = {
            name: {key: np.mean([row[key] for row in found[name, n]]) for key in found[name, n][0]} for name in names
        }
        if n:
            plain = np.mean([found[name, 0][0]["default"] for name in names])
            means = {**means, f"**mean of {len(names)}** (without gold {100 * plain:.1f})": average(means.values())}
        else:
            means = {**means, f"**mean of {len(names)}**": average(means.values())}
        rows += [
            {"known": n, "panel": name.removeprefix("judges_")} | shown(row, columns) for name, row in means.items()
        ]
    print(harness.markdown(rows))


def average(rows: Any) -> dict[str, float]:
    """Means of rows with the same columns."""
    rows = list(rows)
    return {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}


def shown(row: dict[str, float], columns: list[str]) -> dict[str, str]:
    """Accuracies in percent, other numbers to three places."""
    percent = {"default", "majority", "best judge", "stacking", "clamped", "skills within 2 errors", "without gold"}
    return {
        name: "" if name not in row else f"{100 * row[name]:.1f}" if name in percent else f"{row[name]:.3f}"
        for name in columns
    }


def report_logs(data: Path, number: int) -> None:
    """Accuracy on logs of people with and without known classes, and where it falls."""
    rows, lost = [], []
    gains: dict[int, dict[str, tuple[list[float], ...]]] = {n: {} for n in SIZES["logs"]}
    for place, name in enumerate(default.LOGS):
        votes, truth = people(name, data)
        known = np.flatnonzero(truth >= 0)
        plain, base = fit(votes, truth, known[:0])
        for n in SIZES["logs"]:
            if n > len(known) / 2:
                continue
            cells: tuple[list[float], ...] = ([], [], [], [], [], [])
            for some, tested in draws(truth, n, number, place):
                model, seconds = fit(votes, truth, some)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    clamped = mh.DawidSkene(gold=(votes.tasks[some], votes.classes[truth[some]])).fit(votes)
                classes = truth[tested]
                values = [accuracy(one.posterior_[tested], classes) for one in (model, plain, clamped)]
                values += [mh.metrics.log_loss(one.posterior_[tested], classes) for one in (model, plain)]
                for cell, value in zip(cells, [*values, seconds / max(base, 1e-3)], strict=True):
                    cell.append(value)
            gains[n][name] = cells
            change = 100 * (np.array(cells[0]) - np.array(cells[1]))
            if change.mean() < -0.2:
                error = change.std(ddof=1) / np.sqrt(len(change))
                lost.append(f"{name} with {n}: {change.mean():+.1f} ± {error:.1f}")
    for n, of in gains.items():
        for title, names in (("all", list(of)), ("without ducks", [name for name in of if name != "ducks"])):
            means = np.array([[np.mean(cell) for cell in of[name]] for name in names])
            gain = 100 * (means[:, 0] - means[:, 1])
            rows.append(
                {
                    "known": n,
                    "logs": f"{len(names)} ({title})",
                    "default with gold": f"{100 * means[:, 0].mean():.2f}",
                    "without gold": f"{100 * means[:, 1].mean():.2f}",
                    "`DawidSkene(gold=)`": f"{100 * means[:, 2].mean():.2f}",
                    "log-loss, with and without": f"{means[:, 3].mean():.3f}, {means[:, 4].mean():.3f}",
                    "least, median and largest gain": f"{gain.min():+.1f}, {np.median(gain):+.1f}, {gain.max():+.1f}",
                    "time": f"{np.median(means[:, 5]):.2f}",
                }
            )
    print(harness.markdown(rows))
    print("\nLogs that lose more than 0.2 points, with the standard error over draws: " + "; ".join(lost) + ".")


def report_scores(data: Path, number: int) -> None:
    """Scores of 24 judges with known classes, and numbers with known values."""
    path = data / "judges_civil"
    scores = mh.read(path / "scores.csv.gz", kind="numeric")
    truth = pd.read_csv(path / "gold.csv.gz").set_index("task")["label"].reindex(scores.tasks).to_numpy()
    rows = []
    for n in (10, 20, 30, 50, 100, 200, 300):
        rows_of_draws = []
        for some, tested in draws(np.where(np.isnan(truth), -1, truth), n, number, 2):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = mh.numeric.Blend(gold=(scores.tasks[some], truth[some])).fit(scores)
            p, y = model.values_[tested], truth[tested].astype(int)
            both = np.stack([1 - p, p], axis=1)
            rows_of_draws.append([accuracy(both, y), both.max(axis=1).mean(), mh.metrics.calibration_error(both, y)])
        mean = np.mean(rows_of_draws, axis=0)
        columns = ("accuracy", "stated", "calibration error")
        rows.append({"known classes": n} | {name: f"{value:.3f}" for name, value in zip(columns, mean, strict=True)})
    print(harness.markdown(rows))
    rows = []
    for name in NUMBERS:
        log = mh.read(data / name / "labels.csv", kind="numeric")
        truth = pd.read_csv(data / name / "gold.csv").set_index("task")["value"].reindex(log.tasks).to_numpy()
        plain = mh.aggregate(log)
        for n in (5, 10, 20, 50, 200):
            if n > np.isfinite(truth).sum() / 2:
                continue
            rows_of_draws = []
            for some, tested in draws(np.where(np.isfinite(truth), 0, -1), n, number, 3):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = mh.numeric.Blend(gold=(log.tasks[some], truth[some])).fit(log)
                y = truth[tested]
                errors = [mh.metrics.rmse(one.values_[tested], y) for one in (model, plain)]
                rows_of_draws.append(
                    [*errors, *(mh.metrics.coverage(one.intervals_[tested], y) for one in (model, plain))]
                )
            values = np.array(rows_of_draws)
            gain, mean = values[:, 1] - values[:, 0], values.mean(axis=0)
            rows.append(
                {
                    "log": name,
                    "known values": n,
                    "RMSE with gold": f"{mean[0]:.3f}",
                    "without": f"{mean[1]:.3f}",
                    "gain": f"{gain.mean():+.3f} ± {gain.std(ddof=1) / np.sqrt(len(gain)):.3f}",
                    "in 90 % intervals, with and without": f"{mean[2]:.2f}, {mean[3]:.2f}",
                }
            )
    print(harness.markdown(rows))


def report_sets(data: Path, number: int) -> None:
    """Sets of labels with known sets: two relations of medical_re, and uds_wordsense."""
    rows = []
    for name, log, truth in sets_of_labels(data):
        place = {task: code for code, task in enumerate(log.tasks.tolist())}
        codes_of_gold = np.array([place[task] for task in truth if task in place])
        plain, vote = mh.aggregate(log), mh.multilabel.SetVote().fit(log)
        for n in (5, 20, 50, 100, 200):
            rows_of_draws = []
            for turn in range(number):
                order = np.random.default_rng([turn, n]).permutation(codes_of_gold)
                gold = {task: truth[task] for task in log.tasks[order[:n]].tolist()}
                expected = [truth[task] for task in log.tasks[order[n:]].tolist()]
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    models = mh.multilabel.PooledRelevance(gold=gold).fit(log), plain, vote
                f1 = [mh.metrics.set_scores(one.label_sets_[order[n:]], expected).f1 for one in models]
                right = [
                    np.mean([set(a) == set(b) for a, b in zip(one.label_sets_[order[n:]], expected, strict=True)])
                    for one in models[:2]
                ]
                rows_of_draws.append([*f1, *right, *(one.confidence_[order[n:]].mean() for one in models[:2])])
            mean = np.mean(rows_of_draws, axis=0)
            gain = np.array(rows_of_draws)[:, 0] - np.array(rows_of_draws)[:, 1]
            rows.append(
                {
                    "log": name,
                    "known sets": n,
                    "F1 with gold": f"{mean[0]:.3f}",
                    "without": f"{mean[1]:.3f}",
                    "vote": f"{mean[2]:.3f}",
                    "gain": f"{gain.mean():+.3f} ± {gain.std(ddof=1) / np.sqrt(number):.3f}",
                    "stated, right": f"{mean[5]:.2f}, {mean[3]:.2f}",
                    "without: stated, right": f"{mean[6]:.2f}, {mean[4]:.2f}",
                }
            )
    print(harness.markdown(rows))


def sets_of_labels(data: Path) -> Any:
    """Logs of sets with their known sets: name, table, and a mapping from task to labels."""
    answers = pd.read_csv(data / "medical_re" / "labels.csv.gz", dtype=str, keep_default_na=False)
    experts = pd.read_csv(data / "medical_re" / "gold_binary.csv", dtype={"task": str})
    for relation in ("CAUSES", "TREATS"):
        of = experts[experts["class"] == relation]
        truth = {task: (relation,) if yes else () for task, yes in zip(of["task"], of["label"], strict=True)}
        some = answers[answers["task"].isin(truth)]
        labels = [[relation] if relation in one.split("|") else [] for one in some["label"]]
        frame = {"task": some["task"].tolist(), "worker": some["worker"].tolist(), "labels": labels}
        yield f"medical_re, {relation}", mh.MultiLabels.from_frame(frame), truth
    senses = pd.read_csv(data / "uds_wordsense" / "gold.csv", dtype=str, keep_default_na=False)
    answers = pd.read_csv(data / "uds_wordsense" / "labels.csv.gz", dtype=str, keep_default_na=False)
    some = answers[answers["task"].isin(senses["task"])]
    frame = {"task": some["task"].tolist(), "worker": some["worker"].tolist(), "labels": some["label"].tolist()}
    log = mh.MultiLabels.from_frame(frame)
    pairs = zip(senses["task"], senses["label"], strict=True)
    yield "uds_wordsense", log, {task: (label,) for task, label in pairs if label in set(log.labels.tolist())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=SHARED)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--panels", action="store_true")
    parser.add_argument("--logs", action="store_true")
    parser.add_argument("--scores", action="store_true")
    parser.add_argument("--sets", action="store_true")
    asked = parser.parse_args()
    if asked.scores:
        report_scores(asked.data, asked.draws)
    if asked.sets:
        report_sets(asked.data, asked.draws)
    if asked.panels:
        report_panels(asked.data, asked.draws)
    if asked.logs:
        report_logs(asked.data, asked.draws)


if __name__ == "__main__":
    main()
