"""All 60,000 digits and all 50,000 images of CIFAR-10N: do results on parts of them hold on the whole?

    python benches/learn/full.py digits                  # Tanno et al. 2019, Figs. 3 and 6: flippers, p = 0.2 to 0.7
    python benches/learn/full.py machines                # the tutorial's machine annotators, 57,000 digits
    python benches/learn/full.py humans                  # the tutorial's CIFAR-10N, end to end

Each run is stored when it ends (``learn-full.jsonl`` in the folder of results), and only runs that are missing are run.
``--tables`` writes the tables from the stored runs.
"""

from __future__ import annotations

from typing import Any

import torch
from experiment import Measures, Run, chosen, cifar10n, fully_connected, mnist, parser, report
from stored import Runs, Tables

import manyhands as mh
from manyhands import learn

SKILLS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
#: Images of the tutorial's machine crowd, and the machines: each labels a tenth.
N_MACHINE_IMAGES, N_MACHINES = 57_000, 30
Learners = dict[str, tuple[type[learn.Learner], dict[str, Any]]]


def training(arguments: Any, seed: int) -> dict[str, Any]:
    """Settings that all runs share."""
    return {"max_epochs": arguments.epochs, "batch_size": 256, "lr": 3e-3, "seed": seed}


def digits(arguments: Any) -> Tables:
    """Five pairwise flippers of mean skill p, who label every digit or one each."""
    X, y, X_test, y_test = mnist(arguments.data, 60_000)
    learners: Learners = {
        "trace": (learn.TraceRegularized, {"worker_lr": 0.1}),
        "trace, usual rate": (learn.TraceRegularized, {}),
        "MBEM to the letter": (learn.ModelBootstrappedEM, {"shrink": False}),
        "deep EM to the letter": (learn.DeepEM, {"shrink": False}),
        "majority": (learn.MajorityTarget, {}),
    }

    def run(labels: int, p: float, make: type[learn.Learner], options: dict[str, Any], *, oracle: bool = False) -> Run:
        def once(seed: int) -> Measures:
            crowd = {"n_workers": 5, "n_classes": 10, "crowd": "flippers", "skill": p}
            log = mh.simulate(truth=y, labels_per_task=labels, seed=seed, **crowd)
            known = {"start_from": log.confusion, "worker_lr": 0.0} if oracle else {}
            backbone = fully_connected(X.shape[1], 10, hidden=64, dropout=0.2, seed=seed)
            learner = make(backbone, **training(arguments, seed) | options | known).fit(X, log.log)
            return {
                "accuracy": 100 * (learner.predict(X_test) == y_test).mean(),
                "CM error": 100 * mh.metrics.confusion_error(learner.confusion_, log.confusion),
                "true dominance": mh.metrics.dominance(log.confusion).min(),
            }

        return once

    tables = {}
    for labels in (1, 5):
        for p in SKILLS:
            title = f"{labels} label{'s' if labels > 1 else ''} per digit, p = {p:g}"
            tables[title] = {"oracle": run(labels, p, learn.CCEM, {}, oracle=True)}
            tables[title] |= {name: run(labels, p, *how) for name, how in learners.items()}
    return tables


def end_to_end() -> Learners:
    """The tutorial's learners."""
    return {
        "MajorityTarget": (learn.MajorityTarget, {}),
        "CrowdLayer": (learn.CrowdLayer, {}),
        "DeepEM": (learn.DeepEM, {}),
        "MaxMIG": (learn.MaxMIG, {}),
        "CCEM": (learn.CCEM, {}),
        "TraceRegularized": (learn.TraceRegularized, {}),
        "GeoCrowdNet F": (learn.GeoCrowdNet, {"side": "F"}),
        "GeoCrowdNet W": (learn.GeoCrowdNet, {"side": "W"}),
        "COINNet": (learn.COINNet, {}),
    }


def machines(arguments: Any) -> Tables:
    """Machines that are right on 15 to 85 % of the digits and label a tenth of them each."""
    X, y, X_test, y_test = mnist(arguments.data, N_MACHINE_IMAGES)

    def run(make: type[learn.Learner], options: dict[str, Any]) -> Run:
        def once(seed: int) -> Measures:
            log = mh.categorical.synthetic.machines(
                X.numpy(), y, N_MACHINES, accuracy=(0.15, 0.85), density=0.1, seed=seed
            )
            backbone = fully_connected(X.shape[1], 10, hidden=128, dropout=0.2, seed=seed)
            learner = make(backbone, **training(arguments, seed) | options).fit(X, log.log)
            return {
                "accuracy": 100 * (learner.predict(X_test) == y_test).mean(),
                "CM error": 100 * mh.metrics.confusion_error(learner.confusion_, log.confusion),
            }

        return once

    return {"machine annotators, 57,000 digits": {name: run(*how) for name, how in end_to_end().items()}}


def humans(arguments: Any) -> Tables:
    """Three human labels of each image, by features."""
    X, votes, _, X_test, y_test = cifar10n(arguments.data, 50_000)

    def run(make: type[learn.Learner], options: dict[str, Any]) -> Run:
        def once(seed: int) -> Measures:
            backbone = fully_connected(X.shape[1], 10, hidden=128, dropout=0.2, seed=seed)
            learner = make(backbone, **training(arguments, seed) | options).fit(X, votes)
            return {"accuracy": 100 * (learner.predict(X_test).astype(int) == y_test).mean()}

        return once

    return {"CIFAR-10N, 50,000 images": {name: run(*how) for name, how in end_to_end().items()}}


PARTS = {"digits": digits, "machines": machines, "humans": humans}


def main() -> None:
    made = parser(__doc__)
    made.add_argument("part", choices=PARTS)
    made.add_argument("--epochs", type=int, default=3)
    made.add_argument("--first", type=int, default=0, help="first seed")
    made.add_argument("--tables", action="store_true", help="run nothing; write the tables of what is stored")
    made.set_defaults(seeds=3)
    arguments = made.parse_args()
    settings = {"part": arguments.part, "epochs": arguments.epochs, "torch": torch.__version__}
    runs = Runs(arguments.out / "learn-full.jsonl", settings)
    tables = PARTS[arguments.part](arguments)
    if not arguments.tables:
        asked = {title: chosen(rows, arguments.only) for title, rows in tables.items()}
        runs.run(asked, range(arguments.first, arguments.seeds))
    notes = f"""
All training data; one hidden layer, {arguments.epochs} epochs, batches of 256, Adam. Per cent, mean ± deviation over
seeds. What this does not show: deep networks.
"""
    report(f"learn-full-{arguments.part}", {title: runs.rows(title) for title in tables}, notes, arguments.out)


if __name__ == "__main__":
    main()
