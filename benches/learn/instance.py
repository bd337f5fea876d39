"""LabelMe and CIFAR-10N: learners whose workers depend on the sample or on one another, beside the others.

    python benches/learn/instance.py                        # both sets, five seeds
    python benches/learn/instance.py --set labelme --only CoNAL,MaDL

LabelMe as in labelme.py. CIFAR-10N: the first images with their three human labels, features of 256 numbers, one hidden
layer of 128 with a fifth dropped; accuracy on all 10,000 test images. Every learner has its default
settings, Max-MIG also those of its paper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from experiment import Measures, Run, chosen, cifar10n, data_set, fully_connected, parser, repeat, report

import manyhands as mh
from manyhands import learn

LEARNERS: dict[str, tuple[type[learn.Learner], dict[str, Any]]] = {
    "MajorityTarget": (learn.MajorityTarget, {}),
    "CrowdLayer": (learn.CrowdLayer, {}),
    "TraceRegularized": (learn.TraceRegularized, {}),
    "GeoCrowdNet F": (learn.GeoCrowdNet, {}),
    "MaxMIG": (learn.MaxMIG, {}),
    "MaxMIG as published": (learn.MaxMIG, {"prior": "uniform", "shrinkage": 0.0}),
    "COINNet": (learn.COINNet, {}),
    "InstanceTrace": (learn.InstanceTrace, {}),
    "CoNAL": (learn.CoNAL, {}),
    "UnionNet A": (learn.UnionNet, {"variant": "A"}),
    "UnionNet B": (learn.UnionNet, {"variant": "B"}),
    "MaDL": (learn.MaDL, {}),
    "AnnotMix": (learn.AnnotMix, {}),
    "AnchorTransition": (learn.AnchorTransition, {}),
}


@dataclass(frozen=True)
class Set:
    """Samples with votes, others with their classes, and how to learn from them."""

    X: np.ndarray
    votes: mh.Annotations
    X_test: np.ndarray
    y_test: np.ndarray
    dropout: float
    settings: dict[str, Any]


def labelme(folder: Path, images: int, epochs: int) -> Set:
    arrays = np.load(data_set(folder, "labelme") / "features.npz")
    X, X_test = arrays["X_train"].astype(np.float32), arrays["X_test"].astype(np.float32)
    return Set(X, mh.read(folder / "labelme" / "labels.csv"), X_test, arrays["y_test"], 0.5, {})


def cifar(folder: Path, images: int, epochs: int) -> Set:
    X, votes, _, X_test, y_test = cifar10n(folder, images)
    return Set(X, votes, X_test, y_test, 0.2, {"max_epochs": epochs, "batch_size": 128})


SETS: dict[str, tuple[str, Callable[[Path, int, int], Set]]] = {
    "labelme": ("LabelMe", labelme),
    "cifar10n": ("CIFAR-10N", cifar),
}


def run(data: Set, make: type[learn.Learner], options: dict[str, Any]) -> Run:
    def once(seed: int) -> Measures:
        backbone = fully_connected(data.X.shape[1], data.votes.n_classes, dropout=data.dropout, seed=seed)
        learner = make(backbone, seed=seed, **data.settings, **options).fit(data.X, data.votes)
        return {"accuracy": 100 * (learner.predict(data.X_test).astype(int) == data.y_test).mean()}

    return once


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--set", choices=tuple(SETS), default=None)
    made.add_argument("--images", type=int, default=4_000, help="of CIFAR-10N")
    made.add_argument("--epochs", type=int, default=15, help="on CIFAR-10N")
    arguments = made.parse_args()
    tables = {}
    for name, (title, load) in SETS.items():
        if arguments.set in (None, name):
            print(title, flush=True)
            data = load(arguments.data, arguments.images, arguments.epochs)
            runs = {method: run(data, *what) for method, what in LEARNERS.items()}
            tables[title] = list(repeat(chosen(runs, arguments.only), arguments.seeds))
    notes = """
Accuracy on new images in per cent, mean ± deviation over seeds, last epoch. What this does not show: tuned settings,
deep networks. The three workers of CIFAR-10N are three slots that hundreds of people filled, so that nothing can be
learnt of anyone there.
"""
    report("learn-instance", tables, notes, arguments.out)


if __name__ == "__main__":
    main()
