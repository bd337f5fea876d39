"""MNIST where nobody is an expert, and where some images mislead everybody: whose assumptions hold?

    python benches/learn/outliers.py
    python benches/learn/outliers.py --only CCEM,COINNet --seeds 5

Two cases of the tutorial's. *No experts*: twenty workers who are right about two times in five, each with confusions of
its own, three labels per image; GeoCrowdNet's volume term is made for it. *Outliers*: good workers, but an eighth or a
quarter of the images is answered alike and wrongly by whoever sees it, in a way that the pixels tell; COINNet's sparse
term is made for that. A network of one hidden layer, Adam, the last epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from experiment import Measures, Run, chosen, fully_connected, mnist, parser, repeat, report

import manyhands as mh
from manyhands import learn

WORKERS, LABELS = 20, 3


def no_experts(X: np.ndarray, truth: np.ndarray, seed: int) -> tuple[mh.categorical.CategoricalSimulation, np.ndarray]:
    """Workers whose rows are drawn around a weak diagonal."""
    rng = np.random.default_rng(seed)
    confusion = rng.dirichlet(np.full(10, 0.3), (WORKERS, 10))
    confusion = 0.35 * np.eye(10) + 0.65 * confusion
    log = mh.simulate(truth=truth, confusion=confusion, labels_per_task=LABELS, seed=seed)
    return log, np.zeros(len(truth), np.bool_)


def misled(
    share: float,
) -> Callable[[np.ndarray, np.ndarray, int], tuple[mh.categorical.CategoricalSimulation, np.ndarray]]:
    """Good workers, and images that mislead them all."""

    def draw(X: np.ndarray, truth: np.ndarray, seed: int) -> tuple[mh.categorical.CategoricalSimulation, np.ndarray]:
        confusion = mh.categorical.crowds.class_conditional(WORKERS, 10, skill=0.7, concentration=10.0, seed=seed)
        return mh.categorical.synthetic.outliers(X, truth, confusion, share=share, labels_per_task=LABELS, seed=seed)

    return draw


CASES = {
    "no experts": no_experts,
    "outliers, an eighth of the images": misled(1 / 8),
    "outliers, a quarter of the images": misled(1 / 4),
}


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--images", type=int, default=4_000)
    made.add_argument("--epochs", type=int, default=30)
    arguments = made.parse_args()
    X, truth, X_test, y_test = mnist(arguments.data, arguments.images)

    def run(case: str, make: type[learn.Learner], **options: Any) -> Run:
        def once(seed: int) -> Measures:
            log, odd = CASES[case](X.numpy(), truth, seed)
            backbone = fully_connected(X.shape[1], 10, hidden=128, dropout=0.2, seed=seed)
            settings = {"max_epochs": arguments.epochs, "batch_size": 128, "lr": 1e-3, "seed": seed} | options
            learner = make(backbone, **settings).fit(X, log.log)
            found = {
                "accuracy": 100 * (learner.predict(X_test) == y_test).mean(),
                "confusion error": 100 * mh.metrics.confusion_error(learner.confusion_, log.confusion),
            }
            if isinstance(learner, learn.COINNet) and odd.any():
                found["outliers ranked (AUC)"] = 100 * auc(learner.outlier_scores_, odd)
            return found

        return once

    tables = {}
    for case in CASES:
        print(case, flush=True)
        runs = {
            "MajorityTarget": run(case, learn.MajorityTarget),
            "CrowdLayer": run(case, learn.CrowdLayer),
            "DeepEM": run(case, learn.DeepEM),
            "MaxMIG": run(case, learn.MaxMIG),
            "CCEM": run(case, learn.CCEM),
            "TraceRegularized": run(case, learn.TraceRegularized),
            "GeoCrowdNet F": run(case, learn.GeoCrowdNet, side="F"),
            "GeoCrowdNet W": run(case, learn.GeoCrowdNet, side="W"),
            "COINNet": run(case, learn.COINNet),
        }
        rows = list(repeat(chosen(runs, arguments.only), arguments.seeds))
        # A column that not every method has must be in every row to be shown.
        columns = {key: "" for row in rows for key in row}
        tables[case] = [row | {key: row.get(key, "") for key in columns} for row in rows]
    notes = """
Accuracy on new images, error of the confusion matrices, and how well COINNet's scores rank the outliers (one half is
chance), in per cent; mean ± deviation over seeds. What this does not show: other data, other ways to mislead.
"""
    report("learn-outliers", tables, notes, arguments.out)


def auc(scores: np.ndarray, marked: np.ndarray) -> float:
    """How probably a marked sample has a higher score than another."""
    ranks = scores.argsort().argsort()
    return float((ranks[marked].mean() - ranks[~marked].mean()) / len(scores) + 0.5)


if __name__ == "__main__":
    main()
