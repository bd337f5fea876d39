"""CIFAR-10 as images, labeled by simulated annotators and by people: learning from crowds with a convolutional network.

    python benches/learn/images.py annotators            # Tanno et al. 2019, Table 1: four kinds of annotators
    python benches/learn/images.py mistakes              # Cao et al. 2019, Fig. 4 and Table 3: three kinds of mistakes
    python benches/learn/images.py humans                # CIFAR-10N: three human labels per image, and one

Each run is stored when it ends (``learn-images.jsonl`` in the folder of results), and only runs that are missing are
run. ``--tables`` writes the tables from the stored runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from annotators import SIMILAR, crowd
from cifar_images import TRAINING, images, network
from experiment import Measures, Run, chosen, data_set, on_new_samples, parser, report
from stored import Runs, Tables

import manyhands as mh
from manyhands import learn

N_TEST = 2_500
#: The paper's two EM steps divide the training in three parts.
EM_STEPS = 3
#: Matrices of the trace learners need larger steps where there are few.
LARGE = {"worker_lr": 0.1}


class Data:
    """Images to train on and to test with, and how to train."""

    def __init__(self, arguments: Any) -> None:
        self.X, self.y = images(arguments.data, "train", arguments.images)
        self.X_test, self.y_test = images(arguments.data, "test", N_TEST)
        self.n_epochs, self.folder = arguments.epochs, arguments.data

    def fitted(self, make: type[learn.Learner], votes: mh.Annotations, seed: int, **options: Any) -> learn.Learner:
        """A trained learner."""
        training = TRAINING | {"max_epochs": self.n_epochs, "seed": seed}
        return make(network(seed), **training | options).fit(self.X, votes)


def annotators(data: Data) -> Tables:
    """A hammer–spammer, one who mixes up similar classes, one who strays to neighboring ones, and an adversary."""
    em = {"epochs_per_step": max(data.n_epochs // EM_STEPS, 1)}
    learners: dict[str, tuple[type[learn.Learner], dict[str, Any]]] = {
        "majority": (learn.MajorityTarget, {}),
        "single confusion": (learn.SingleConfusion, {"labels": "majority"}),
        "no trace": (learn.CCEM, LARGE),
        "trace": (learn.TraceRegularized, LARGE),
        "MBEM": (learn.ModelBootstrappedEM, em),
        "deep EM": (learn.DeepEM, em),
        "MBEM to the letter": (learn.ModelBootstrappedEM, em | {"shrink": False}),
        "deep EM to the letter": (learn.DeepEM, em | {"shrink": False}),
        "no trace, usual rate": (learn.CCEM, {}),
        "trace, usual rate": (learn.TraceRegularized, {}),
        "weighted doctor net": (learn.WeightedDoctorNet, {"weight_epochs": 1}),
    }

    def run(labels: int, make: type[learn.Learner], options: dict[str, Any], *, oracle: bool = False) -> Run:
        def once(seed: int) -> Measures:
            log = mh.simulate(truth=data.y, confusion=crowd(seed), labels_per_task=labels, seed=seed)
            known = {"start_from": log.confusion, "worker_lr": 0.0} if oracle else {}
            learner = data.fitted(make, log.log, seed, **options | known)
            return {
                "accuracy": 100 * (learner.predict(data.X_test) == data.y_test).mean(),
                "CM error": 100 * mh.metrics.confusion_error(learner.confusion_, log.confusion),
            }

        return once

    tables = {}
    for labels in (4, 1):
        title = f"{labels} label{'s' if labels > 1 else ''} per image"
        tables[title] = {"oracle": run(labels, learn.CCEM, {}, oracle=True)}
        tables[title] |= {name: run(labels, *how) for name, how in learners.items()}
    return tables


def mistakes(data: Data) -> Tables:
    """Seniors who mix up similar classes or are right with probability 0.2, and juniors."""
    # Seniors mix up classes 2 i and 2 i + 1: these are the pairs of the paper in this order.
    place = np.argsort(np.ravel(SIMILAR))
    y, y_test = place[data.y], place[data.y_test]
    learners: dict[str, tuple[type[learn.Learner], dict[str, Any]]] = {
        "MajorityTarget": (learn.MajorityTarget, {}),
        "CrowdLayer from votes": (learn.CrowdLayer, {"start_from": mh.MajorityVote()}),
        "DeepEM": (learn.DeepEM, {}),
        "MaxMIG": (learn.MaxMIG, {"prior": "uniform", "shrinkage": 0.0}),
        "MaxMIG-letter": (learn.MaxMIG, {"settings": "paper"}),
    }

    def run(expertise: str, kind: str, make: type[learn.Learner], options: dict[str, Any]) -> Run:
        def once(seed: int) -> Measures:
            both = np.concatenate([y, y_test])
            log = mh.categorical.synthetic.experts(both, 10, expertise=expertise, mistakes=kind, seed=seed).log
            learner = data.fitted(make, log.select(tasks=range(len(y))), seed, **options)
            return on_new_samples(learner, log, data.X_test, y_test)

        return once

    return {
        f"{expertise} expertise, {kind} mistakes": {name: run(expertise, kind, *how) for name, how in learners.items()}
        for expertise in ("high", "low")
        for kind in ("independent", "naive", "correlated")
    }


def humans(data: Data) -> Tables:
    """People: three labels per image as they were given, and one of them at random."""
    n = len(data.y)
    votes = mh.read(data_set(data.folder, "cifar10n") / "labels.csv.gz").select(tasks=range(n))
    learners: dict[str, tuple[type[learn.Learner], dict[str, Any]]] = {
        "MajorityTarget": (learn.MajorityTarget, {}),
        "CrowdLayer": (learn.CrowdLayer, {}),
        "CCEM": (learn.CCEM, {}),
        "DeepEM": (learn.DeepEM, {}),
        "GeoCrowdNet F": (learn.GeoCrowdNet, {"side": "F"}),
        "GeoCrowdNet W": (learn.GeoCrowdNet, {"side": "W"}),
        "COINNet": (learn.COINNet, {}),
        "MaxMIG": (learn.MaxMIG, {}),
    }

    def one_each(seed: int) -> mh.Annotations:
        tasks, workers, labels = votes.codes()
        order = np.random.default_rng(seed).permutation(len(tasks))
        keep = order[np.unique(tasks[order], return_index=True)[1]]
        sizes = {"n_tasks": n, "n_workers": votes.n_workers, "n_classes": votes.n_classes}
        return mh.Annotations.from_codes(tasks[keep], workers[keep], labels[keep], **sizes)

    def run(of: Callable[[int], mh.Annotations], make: type[learn.Learner], options: dict[str, Any]) -> Run:
        def once(seed: int) -> Measures:
            learner = data.fitted(make, of(seed), seed, **options)
            return {"accuracy": 100 * (learner.predict(data.X_test) == data.y_test).mean()}

        return once

    kinds = {"three human labels per image": lambda seed: votes, "one human label per image": one_each}
    return {title: {name: run(of, *how) for name, how in learners.items()} for title, of in kinds.items()}


PARTS = {"annotators": annotators, "mistakes": mistakes, "humans": humans}


def main() -> None:
    made = parser(__doc__)
    made.add_argument("parts", nargs="+", choices=PARTS)
    made.add_argument("--images", type=int, default=6_000)
    made.add_argument("--epochs", type=int, default=6)
    made.add_argument("--first", type=int, default=0, help="first seed")
    made.add_argument("--tables", action="store_true", help="run nothing; write the tables of what is stored")
    made.set_defaults(seeds=3)
    arguments = made.parse_args()
    settings = {"images": arguments.images, "epochs": arguments.epochs, "torch": torch.__version__}
    runs = Runs(arguments.out / "learn-images.jsonl", settings)
    data = Data(arguments)
    tables = {part: PARTS[part](data) for part in arguments.parts}
    if not arguments.tables:
        for seed in range(arguments.first, arguments.seeds):
            for part in tables.values():
                runs.run({title: chosen(rows, arguments.only) for title, rows in part.items()}, range(seed, seed + 1))
    for part, titles in tables.items():
        notes = f"""
{arguments.images:,} training images and {N_TEST:,} test images of CIFAR-10 as pictures; three convolutional layers of
16, 32 and 64 channels, {arguments.epochs} epochs, batches of 128, Adam at 0.005 with a cosine schedule. Per cent,
mean ± deviation over seeds. What this does not show: deep networks, augmented images, all 50,000 images.
"""
        report(
            f"learn-images-{part}",
            {title: rows for title in titles if (rows := runs.rows(title))},
            notes,
            arguments.out,
        )


if __name__ == "__main__":
    main()
