"""MNIST with five simulated annotators of growing skill: who recovers classes and confusion matrices?

    python benches/learn/trace.py                       # flippers, dense and one label per image
    python benches/learn/trace.py --crowds hammer-spammer --skills 0.3,0.5
    python benches/learn/trace.py --draw docs/images    # Fig. 4: mean confusion matrices, one label per image

Pairwise flippers or hammer–spammers of mean skill p; all five label every image, or one each (Tanno et al. 2019, Figs.
3, 6, 9, 10 and 11). A network of one hidden layer, Adam, the last epoch; as there are few steps, those
of the confusion matrices are larger than usual (worker_lr 0.1). "Annotators" is their own mean accuracy;
"oracle" knows the matrices. CM error is the paper's: squared differences of true and learnt matrices, summed, over
workers times classes, times 100.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiment import Measures, Run, chosen, fully_connected, mnist, parser, repeat, report

import manyhands as mh
from manyhands import learn


def draw(path: Path, images: int, epochs: int, data: Path) -> None:
    """Mean confusion matrices of three learners at p = 0.3 and 0.25, one label per image, in per cent (Fig. 4)."""
    X, truth, _, _ = mnist(data, images)
    for skill in (0.3, 0.25):
        log = mh.simulate(truth=truth, n_workers=5, n_classes=10, crowd="flippers", skill=skill, labels_per_task=1)
        training = {"max_epochs": epochs, "batch_size": 128, "lr": 3e-3}
        learners = {
            "trace": (learn.TraceRegularized, {"worker_lr": 0.1}),
            "MBEM to the letter": (learn.ModelBootstrappedEM, {"epochs_per_step": epochs // 3, "shrink": False}),
            "EM to the letter": (learn.DeepEM, {"shrink": False}),
        }
        models = {
            name: make(fully_connected(X.shape[1], 10, hidden=64, dropout=0.2), **training, **options).fit(X, log.log)
            for name, (make, options) in learners.items()
        }
        least = mh.metrics.dominance(log.confusion).min()
        axes = mh.plots.confusions(models, truth=log.confusion)
        axes[0].figure.suptitle(f"mean skill p = {skill:g}; dominance of the worst class {least:.2f}")
        axes[0].figure.savefig(path / f"reproduction-trace-{100 * skill:.0f}.png", dpi=55)


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--draw", type=Path, help="draw Fig. 4 to this folder and run nothing else")
    made.add_argument("--crowds", default="flippers")
    made.add_argument("--labels", default="5,1", help="labels per image")
    made.add_argument("--skills", default="0.2,0.3,0.4,0.6", help="mean skills p")
    made.add_argument("--images", type=int, default=3_000)
    made.add_argument("--epochs", type=int, default=12)
    arguments = made.parse_args()
    if arguments.draw:
        draw(arguments.draw, arguments.images, arguments.epochs, arguments.data)
        return
    X, truth, X_test, y_test = mnist(arguments.data, arguments.images)
    skills = [float(skill) for skill in arguments.skills.split(",")]

    def crowd(kind: str, labels: int, skill: float, seed: int) -> mh.categorical.CategoricalSimulation:
        return mh.simulate(
            truth=truth, n_workers=5, n_classes=10, crowd=kind, skill=skill, labels_per_task=labels, seed=seed
        )

    def tables(kind: str, labels: int) -> dict[str, list[dict[str, Any]]]:
        def annotators(seed: int) -> Measures:
            found = {}
            for skill in skills:
                log = crowd(kind, labels, skill, seed)
                found[f"accuracy, p = {skill:g}"] = 100 * log.accuracy.mean()
                found[f"dominance, p = {skill:g}"] = mh.metrics.dominance(log.confusion).min()
            return found

        def run(make: type[learn.Learner], knows: bool = False, **options: Any) -> Run:
            def once(seed: int) -> Measures:
                found = {}
                for skill in skills:
                    log = crowd(kind, labels, skill, seed)
                    backbone = fully_connected(X.shape[1], 10, hidden=64, dropout=0.2, seed=seed)
                    settings = {"max_epochs": arguments.epochs, "batch_size": 128, "lr": 3e-3, "seed": seed} | options
                    known = {"start_from": log.confusion, "worker_lr": 0.0} if knows else {}
                    learner = make(backbone, **settings | known).fit(X, log.log)
                    error = mh.metrics.confusion_error(learner.confusion_, log.confusion)
                    found[f"accuracy, p = {skill:g}"] = 100 * (learner.predict(X_test) == y_test).mean()
                    found[f"CM error, p = {skill:g}"] = 100 * error
                    found[f"dominance, p = {skill:g}"] = learner.dominance_.min()
                return found

            return once

        runs = {
            "annotators": annotators,
            "oracle": run(learn.CCEM, knows=True),
            "trace": run(learn.TraceRegularized, worker_lr=0.1),
            "no trace": run(learn.CCEM, worker_lr=0.1),
            "trace, usual rate": run(learn.TraceRegularized),
            "MBEM": run(learn.ModelBootstrappedEM, epochs_per_step=4),
            "MBEM to the letter": run(learn.ModelBootstrappedEM, epochs_per_step=4, shrink=False),
            "deep EM": run(learn.DeepEM),
            "deep EM to the letter": run(learn.DeepEM, shrink=False),
            "single confusion": run(learn.SingleConfusion, labels="majority"),
            "weighted doctor net": run(learn.WeightedDoctorNet, weight_epochs=2),
            "soft bootstrap": run(learn.SoftBootstrap),
            "majority": run(learn.MajorityTarget),
        }
        rows = list(repeat(chosen(runs, arguments.only), arguments.seeds))
        how = f"{kind}, {labels} label{'s' if labels > 1 else ''} per image"

        def only(what: str) -> list[dict[str, Any]]:
            of = [{key: value for key, value in row.items() if key.startswith((what, "method"))} for row in rows]
            renamed = [{key.removeprefix(f"{what}, "): value for key, value in row.items()} for row in of]
            return [row for row in renamed if len(row) > 1]  # annotators have no error of their own matrices

        return {f"{how}: {what}": only(what) for what in ("accuracy", "CM error", "dominance")}

    found = {}
    for kind in arguments.crowds.split(","):
        for labels in map(int, arguments.labels.split(",")):
            print(f"{kind}, {labels}", flush=True)
            found |= tables(kind, labels)
    notes = """
Accuracy and CM error in per cent, mean ± deviation over seeds; the crowd is drawn anew for each. "Dominance" is that of
the worst class of the mean confusion matrix, learnt or, for the annotators, true: where it is below zero, the paper's
theorem promises nothing. What this does not show: convolutional networks, all 60,000 images, choosing the epoch on
clean labels (the paper does).
"""
    name = "learn-trace" if arguments.crowds == "flippers" else "learn-trace-" + arguments.crowds.replace(",", "-")
    report(name, found, notes, arguments.out)


if __name__ == "__main__":
    main()
