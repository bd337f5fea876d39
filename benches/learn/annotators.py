"""CIFAR-10 with four annotators who differ in kind: the order of Table 1 of Tanno et al. 2019, on features.

    python benches/learn/annotators.py                  # dense and one label per image

A hammer–spammer, one who mixes up similar classes (cats and dogs, automobiles and trucks, …), one who strays to classes
next by number, and an adversary who calls each class by the name of another; they are right 45 times in a hundred. The
images are given by 256 features of random patches, on which a linear network trained with the true classes reaches
about 64 per cent. One hidden layer, Adam, the last epoch; as there are few steps, those of the confusion matrices are
larger than usual (worker_lr 0.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from experiment import Measures, Run, chosen, data_set, fully_connected, parser, repeat, report

import manyhands as mh
from manyhands import learn

#: Pairs of classes to mix up: airplane and bird, automobile and truck, cat and dog, deer and horse, frog and ship.
SIMILAR = ((0, 2), (1, 9), (3, 5), (4, 7), (6, 8))


def crowd(seed: int) -> np.ndarray:
    """Confusion matrices of the four annotators; on average they are right 45 times in a hundred."""
    return np.concatenate(
        [
            mh.categorical.crowds.hammer_spammers(1, 10, skill=0.55, seed=seed),
            mh.categorical.crowds.confusers(1, 10, skill=0.6, similar=SIMILAR, seed=seed),
            mh.categorical.crowds.neighbours(1, 10, skill=0.55, seed=seed),
            mh.categorical.crowds.adversary(1, 10, skill=0.5, seed=seed),
        ]
    )


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--labels", default="4,1", help="labels per image")
    made.add_argument("--images", type=int, default=5_000)
    made.add_argument("--epochs", type=int, default=12)
    arguments = made.parse_args()
    arrays = np.load(data_set(arguments.data, "cifar10_features") / "features.npz")
    scale = float(arrays["scale"])

    def part(name: str, n: int) -> tuple[torch.Tensor, np.ndarray]:
        return torch.from_numpy(arrays[f"X_{name}"][:n].astype(np.float32) * scale), arrays[f"y_{name}"][:n].astype(int)

    X, truth = part("train", arguments.images)
    X_test, y_test = part("test", 10_000)

    def table(labels: int) -> list[dict[str, Any]]:
        def simulated(seed: int) -> mh.categorical.CategoricalSimulation:
            return mh.simulate(truth=truth, confusion=crowd(seed), labels_per_task=labels, seed=seed)

        def measured(learner: learn.Learner, log: mh.categorical.CategoricalSimulation) -> Measures:
            return {
                "accuracy": 100 * (learner.predict(X_test) == y_test).mean(),
                "CM error": 100 * mh.metrics.confusion_error(learner.confusion_, log.confusion),
                "dominance": learner.dominance_.min(),
            }

        def run(make: type[learn.Learner], knows: bool = False, **options: Any) -> Run:
            def once(seed: int) -> Measures:
                log = simulated(seed)
                backbone = fully_connected(X.shape[1], 10, hidden=64, dropout=0.2, seed=seed)
                settings = {"max_epochs": arguments.epochs, "batch_size": 128, "lr": 3e-3, "seed": seed} | options
                known = {"start_from": log.confusion, "worker_lr": 0.0} if knows else {}
                return measured(make(backbone, **settings | known).fit(X, log.log), log)

            return once

        def annotators(seed: int) -> Measures:
            log = simulated(seed)
            accuracy, least = 100 * log.accuracy.mean(), mh.metrics.dominance(log.confusion).min()
            return {"accuracy": accuracy, "dominance": least}

        runs = {
            "annotators": annotators,
            "oracle": run(learn.CCEM, knows=True),
            "trace": run(learn.TraceRegularized, worker_lr=0.1),
            "no trace": run(learn.CCEM, worker_lr=0.1),
            "trace, usual rate": run(learn.TraceRegularized),
            "no trace, usual rate": run(learn.CCEM),
            "MBEM": run(learn.ModelBootstrappedEM, epochs_per_step=6),
            "deep EM": run(learn.DeepEM, epochs_per_step=6),
            "MBEM to the letter": run(learn.ModelBootstrappedEM, epochs_per_step=6, shrink=False),
            "deep EM to the letter": run(learn.DeepEM, epochs_per_step=6, shrink=False),
            "deep EM every epoch": run(learn.DeepEM),
            "single confusion": run(learn.SingleConfusion, labels="majority"),
            "single confusion, larger rate": run(learn.SingleConfusion, labels="majority", worker_lr=0.1),
            "weighted doctor net": run(learn.WeightedDoctorNet, weight_epochs=2),
            "soft bootstrap": run(learn.SoftBootstrap),
            "majority": run(learn.MajorityTarget),
        }
        rows = repeat(chosen(runs, arguments.only), arguments.seeds)
        return [{"method": row["method"], "accuracy": row["accuracy"], "CM error": "–"} | row for row in rows]

    tables = {}
    for labels in map(int, arguments.labels.split(",")):
        title = f"{labels} label{'s' if labels > 1 else ''} per image"
        print(title, flush=True)
        tables[title] = table(labels)
    notes = """
Per cent, mean ± deviation over seeds; who is confused how is drawn anew for each. "MBEM" and "deep EM" have T = 2 steps
of EM, as in the paper; "every epoch" has one per epoch, and "to the letter" counts without shrinkage (Algorithms 2 and
3). "Usual rate" is the library's own rate of the matrices (worker_lr 0.01). "Dominance" is that of the worst class of
the mean confusion matrix, learned or, for the annotators, true. What this does not show: networks that see the images,
which reach 90 per cent on clean labels where these features end at 64.
"""
    report("learn-annotators", tables, notes, arguments.out)


if __name__ == "__main__":
    main()
