"""Learning to defer on CIFAR-10 as images, with two experts who know half of the classes each.

    python benches/defer/images.py                        # at 0, 30, 50 and 70 % missing answers
    python benches/defer/images.py --tables --draw docs/images

An expert takes half of the cases of the classes they do not know for another class. Methods that keep a coverage while
training are trained for ¼, ½ and ¾; at 0 and 1 the nearest of these decides, by capacity. Each run is stored when it
ends (``deferral-images.jsonl`` in the folder of results), and only runs that are missing are run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import teams
import torch
from cifar_images import TRAINING, images, network
from experiment import Measures, Run, chosen, parser, report
from stored import Runs, Tables

from manyhands import defer

N_TEST = 2_000
INNER = (0.25, 0.5, 0.75)
COVERAGES = (0.0, *INNER, 1.0)
MISSING = (0.0, 0.3, 0.5, 0.7)
#: The paper's gate: a network of its own, like the classifier.
OWN = {"gate": None}
#: Methods without imputation; those that are trained once for all coverages.
METHODS: dict[str, tuple[Any, dict[str, Any]]] = {
    "naive": (defer.NaiveDeferral, OWN),
    "naive, as released": (defer.NaiveDeferral, OWN | {"unanswered": "wrong"}),
    "probabilistic": (defer.ProbabilisticDeferral, OWN | {"inference": "mean-field"}),
    "probabilistic, as released": (defer.ProbabilisticDeferral, OWN | {"inference": "mean-field-released"}),
    "probabilistic, exact, anchored": (defer.ProbabilisticDeferral, {}),
    "MixMatch": (defer.ImputedDeferral, OWN | {"method": "mixmatch"}),
    "FixMatch": (defer.ImputedDeferral, OWN | {"method": "fixmatch"}),
    "selective prediction": (defer.SelectivePrediction, {}),
    "compare confidence": (defer.CompareConfidence, {}),
    "one-vs-all": (defer.OneVsAll, {}),
    "cross-entropy surrogate": (defer.CrossEntropySurrogate, {}),
}
ONCE = ("selective prediction", "compare confidence", "one-vs-all", "cross-entropy surrogate")
#: Without missing answers the other methods with a gate are the naive one.
COMPLETE = ("naive", "probabilistic, exact, anchored", *ONCE)


def experiment(arguments: Any) -> Tables:
    """All methods at each rate of missing answers."""
    X, y = images(arguments.data, "train", arguments.images)
    X_test, y_test = images(arguments.data, "test", N_TEST)
    confusion = teams.halves(10)

    def run(missing: float, name: str) -> Run:
        make, options = METHODS[name]

        def once(seed: int) -> Measures:
            votes = teams.without(teams.asked(y, confusion, seed), missing, seed)
            votes_test = teams.asked(y_test, confusion, seed + 1000)

            def team(coverage: float | None) -> Any:
                training = TRAINING | {"max_epochs": arguments.epochs, "seed": seed, "coverage": coverage}
                return make(network(seed), **training | options).fit(X, y, votes)

            models = [team(None)] * len(INNER) if name in ONCE else [team(coverage) for coverage in INNER]
            accuracy = [
                model.score(X_test, y_test, votes_test, coverage=coverage)
                for coverage, model in zip(COVERAGES, (models[0], *models, models[-1]), strict=True)
            ]
            points = {f"at {c:.0%}": 100 * a for c, a in zip(COVERAGES, accuracy, strict=True)}
            return {"AUC-CAC": 100 * defer.auc_cac(COVERAGES, accuracy)} | points

        return once

    return {
        f"{missing:.0%} of answers missing": {name: run(missing, name) for name in (METHODS if missing else COMPLETE)}
        for missing in MISSING
    }


def curves(runs: Runs, titles: list[str]) -> dict[str, dict[str, list[list[float]]]]:
    """Accuracies at the coverages by table and method, one list per seed."""
    found: dict[str, dict[str, list[list[float]]]] = {title: {} for title in titles}
    for (title, method, _), measures in runs.measures().items():
        found[title].setdefault(method, []).append([measures[f"at {c:.0%}"] / 100 for c in COVERAGES])
    return {title: methods for title, methods in found.items() if methods}


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--images", type=int, default=3_000)
    made.add_argument("--epochs", type=int, default=5)
    made.add_argument("--first", type=int, default=0, help="first seed")
    made.add_argument("--tables", action="store_true", help="run nothing; write the tables of what is stored")
    made.add_argument("--draw", type=Path, help="folder to draw the curves to")
    made.set_defaults(seeds=3)
    arguments = made.parse_args()
    settings = {"images": arguments.images, "epochs": arguments.epochs, "torch": torch.__version__}
    runs = Runs(arguments.out / "deferral-images.jsonl", settings)
    tables = experiment(arguments)
    if not arguments.tables:
        asked = {title: chosen(rows, arguments.only) for title, rows in tables.items()}
        runs.run(asked, range(arguments.first, arguments.seeds))
    if arguments.draw:
        teams.draw(curves(runs, list(tables)), COVERAGES, arguments.draw / "reproduction-deferral-images.svg")
    notes = f"""
{arguments.images:,} training images and {N_TEST:,} test images of CIFAR-10 as pictures; classifier, gate and models of
experts are networks of three convolutional layers, {arguments.epochs} epochs each, batches of 128, Adam at 0.005 with a
cosine schedule. AUC-CAC: area under system accuracy against coverage {COVERAGES}, decided by capacity; "at 25%" is the
accuracy at that coverage. Per cent, mean ± deviation over seeds. What this does not show: deep networks, real experts.
"""
    report("deferral-images", {title: rows for title in tables if (rows := runs.rows(title))}, notes, arguments.out)


if __name__ == "__main__":
    main()
