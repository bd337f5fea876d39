"""Real experts: pathologists (Chaoyang) and radiologists (NIH chest X-rays), whose images are not here.

    python benches/defer/experts.py                       # a quarter of an hour

Answers and truth are real; features are simulated, since the images may not be passed on: a Gaussian around a centre
for each class, the wider the more the experts disagree on the case, so that what is hard for them is hard for the
network too. Chaoyang has three pathologists, of whom the third is right in 99 of 100 cases, so that a team of the first
two is tried as well; answers are removed at random. In the published test part all three agree, so the cases to judge
by are a third of the training part. Of the radiologists of airspace opacity each read only some images:
answers are missing as they were, also in the cases to judge by, where the choice is among those who read the image.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import teams
from experiment import Measures, Run, chosen, data_set, fully_connected, parser, repeat, report
from teams import Cases

import manyhands as mh
from manyhands import defer
from manyhands.categorical.gold import read_gold

COVERAGES = (0.25, 0.5, 0.75)
TRAINING = {"max_epochs": 20, "lr": 0.03}
SEPARATION = 2.0


def features(votes: mh.Annotations, truth: np.ndarray, seed: int) -> np.ndarray:
    """Simulated features of the tasks: spread by how many experts are wrong."""
    rng = np.random.default_rng(seed)
    classes = np.unique(truth)
    cases, _, labels = votes.codes()
    wrong = np.bincount(cases, votes.classes[labels] != truth[cases], minlength=votes.n_tasks)
    spread = 1 + 2 * wrong / np.maximum(votes.labels_per_task, 1)
    centres = rng.normal(size=(len(classes), 16))
    centres *= SEPARATION / np.linalg.norm(centres, axis=1, keepdims=True)
    at = centres[np.searchsorted(classes, truth)]
    return (at + spread[:, None] * rng.normal(size=at.shape)).astype(np.float32)


def chaoyang(folder: Any, experts: list[str]) -> tuple[mh.Annotations, np.ndarray, np.ndarray]:
    """Answers, truth, and which tasks are to judge by."""
    path = data_set(folder, "chaoyang")
    votes = mh.read(path / "labels.csv.gz").select(workers=experts)
    votes = votes.select(tasks=votes.tasks[np.char.startswith(votes.tasks.astype(str), "train/")])
    return votes, _truth(path / "gold.csv", votes), np.random.default_rng(0).random(votes.n_tasks) < 1 / 3


def radiologists(folder: Any, *, one: bool = False) -> tuple[mh.Annotations, np.ndarray, np.ndarray]:
    """Answers about airspace opacity by those who read a hundred images or more, truth, and a fifth of patients.

    With `one`, those of the radiologist who read most images alone.
    """
    path = data_set(folder, "nih_cxr")
    votes = mh.read(path / "labels.csv.gz", repeats="last")
    finding = np.char.startswith(votes.tasks.astype(str), "airspace_opacity/")
    votes = votes.select(tasks=votes.tasks[finding])
    counts = votes.labels_per_worker
    votes = votes.select(workers=votes.workers[counts == counts.max()][:1] if one else votes.workers[counts >= 100])
    patients = np.array([name.split("/")[1].split("_")[0] for name in votes.tasks])
    chosen_ones = np.random.default_rng(0).permutation(np.unique(patients))
    return votes, _truth(path / "gold.csv.gz", votes), np.isin(patients, chosen_ones[: len(chosen_ones) // 5])


def _truth(path: Any, votes: mh.Annotations) -> np.ndarray:
    tasks, labels = read_gold(path, votes)
    known = dict(zip(tasks.tolist(), labels.tolist(), strict=True))
    return np.array([known[task] for task in votes.tasks.tolist()])


def split(votes: mh.Annotations, truth: np.ndarray, test: np.ndarray, missing: float, seed: int) -> Cases:
    """Cases to train on, some of whose answers are removed, and cases to judge by."""
    X = features(votes, truth, seed)

    def part(keep: np.ndarray) -> mh.Annotations:
        cases, experts, labels = votes.select(tasks=votes.tasks[keep]).codes()
        sizes = {"n_tasks": int(keep.sum()), "n_workers": votes.n_workers, "n_classes": votes.n_classes}
        return mh.Annotations.from_codes(cases, experts, labels, **sizes)

    classes = {name: code for code, name in enumerate(votes.classes.tolist())}
    y = np.array([classes[name] for name in truth.tolist()])
    train = teams.without(part(~test), missing, seed)
    return Cases(X[~test], y[~test], train, X[test], y[test], part(test), X[test])


def main() -> None:
    arguments = parser(__doc__).parse_args()
    sets = {
        "Chaoyang, first two": (*chaoyang(arguments.data, ["A", "B"]), 0.5),
        "Chaoyang, all three": (*chaoyang(arguments.data, ["A", "B", "C"]), 0.5),
        "NIH, airspace opacity": (*radiologists(arguments.data), 0.0),
    }

    def run(make: Any, given: Any, *, per_coverage: bool, **options: Any) -> Run:
        *data, missing = given

        def once(seed: int) -> Measures:
            cases = split(*data, missing, seed)
            n_classes = int(cases.y.max()) + 1

            def fit(coverage: float | None) -> Any:
                network = fully_connected(cases.X.shape[1], n_classes, hidden=32, dropout=0.2, seed=seed)
                model = make(network, coverage=coverage, seed=seed, **TRAINING | teams.with_own_gate(make, options))
                return model.fit(cases.X, cases.y, cases.votes)

            one = None if per_coverage else fit(None)
            found = {}
            for coverage in COVERAGES:
                model = fit(coverage) if one is None else one
                given = {"coverage": coverage, "missing": "available"}
                score = model.score(cases.X_test, cases.y_test, cases.votes_test, **given)
                found[f"accuracy at {coverage:.0%}"] = 100 * score
                if coverage == 0.5:
                    by = model.score(cases.X_test, cases.y_test, cases.votes_test, by="accuracy", **given)
                    found["the same by expected accuracy"] = 100 * by
            return found

        return once

    tables = {}
    for title, given in sets.items():
        print(title, flush=True)
        runs = {
            "probabilistic": run(defer.ProbabilisticDeferral, given, per_coverage=True),
            "probabilistic mean-field": run(
                defer.ProbabilisticDeferral, given, per_coverage=True, inference="mean-field"
            ),
            "probabilistic confusion": run(defer.ProbabilisticDeferral, given, per_coverage=True, experts="confusion"),
            "probabilistic stacked": run(defer.ProbabilisticDeferral, given, per_coverage=True, gate="stacked"),
            "naive": run(defer.NaiveDeferral, given, per_coverage=True),
            "mixmatch": run(defer.ImputedDeferral, given, per_coverage=True, method="mixmatch"),
            "fixmatch": run(defer.ImputedDeferral, given, per_coverage=True, method="fixmatch"),
            "selective": run(defer.SelectivePrediction, given, per_coverage=False),
            "compare confidence": run(defer.CompareConfidence, given, per_coverage=False),
        }
        tables[title] = list(repeat(chosen(runs, arguments.only), arguments.seeds))
    notes = """
System accuracy in per cent on cases not trained on, decided by capacity; mean ± deviation over seeds, which draw the
simulated features too. What this does not show: real images, on which networks err in other ways than experts do.
"""
    report("defer-experts", tables, notes, arguments.out)


if __name__ == "__main__":
    main()
