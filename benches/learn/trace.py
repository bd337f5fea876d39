"""MNIST with five simulated annotators: who recovers classes and confusion matrices? (Tanno et al. 2019, Figs. 3, 6, 9)

    python benches/learn/trace.py                       # both crowds, dense and one label an image: half an hour
    python benches/learn/trace.py --crowds flippers --labels 1 --seeds 5

Pairwise flippers and hammer–spammers of mean skill p; all five label every image, or one each. A network of one hidden
layer, Adam, fifteen epochs, the last one. CM error is the paper's: squared differences of true and learnt matrices,
summed, over workers times classes, times 100.
"""

from __future__ import annotations

from typing import Any

from experiment import Measures, Run, chosen, fully_connected, mnist, parser, repeat, report

import manyhands as mh
from manyhands import learn


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--crowds", default="flippers,hammer-spammer")
    made.add_argument("--labels", default="5,1", help="labels an image")
    made.add_argument("--skill", type=float, default=0.35)
    made.add_argument("--images", type=int, default=6_000)
    made.add_argument("--epochs", type=int, default=15)
    arguments = made.parse_args()
    X, truth, X_test, y_test = mnist(arguments.data, arguments.images)

    def crowd(kind: str, labels: int, seed: int) -> mh.Simulation:
        return mh.simulate(
            truth=truth, n_workers=5, n_classes=10, crowd=kind, skill=arguments.skill, labels_per_task=labels, seed=seed
        )

    def table(kind: str, labels: int) -> list[dict[str, Any]]:
        def run(make: type[learn.Learner], **options: Any) -> Run:
            def once(seed: int) -> Measures:
                log = crowd(kind, labels, seed)
                backbone = fully_connected(X.shape[1], 10, hidden=128, dropout=0.2, seed=seed)
                settings = {"max_epochs": arguments.epochs, "batch_size": 128, "lr": 3e-3, "seed": seed} | options
                learner = make(backbone, **settings).fit(X, log.votes)
                return {
                    "accuracy": 100 * (learner.predict(X_test) == y_test).mean(),
                    "CM error": 100 * mh.metrics.confusion_error(learner.confusion_, log.confusion),
                }

            return once

        runs = {
            "trace": run(learn.TraceRegularized),
            "no trace": run(learn.CCEM),
            "MBEM": run(learn.ModelBootstrappedEM, epochs_per_step=5),
            "deep EM": run(learn.DeepEM),
            "weighted doctor net": run(learn.WeightedDoctorNet, weight_epochs=2),
            "soft bootstrap": run(learn.SoftBootstrap),
            "single confusion": run(learn.SingleConfusion),
            "majority": run(learn.MajorityTarget),
        }
        return list(repeat(chosen(runs, arguments.only), arguments.seeds))

    tables = {}
    for kind in arguments.crowds.split(","):
        for labels in map(int, arguments.labels.split(",")):
            title = f"{kind}, p = {arguments.skill}, {labels} label{'s' if labels > 1 else ''} an image"
            print(title, flush=True)
            tables[title] = table(kind, labels)
    notes = """
Per cent, mean ± deviation over seeds; the crowd is drawn anew for each. What this does not show: convolutional
networks, choosing the epoch on clean labels (the paper does), skills other than p.
"""
    report("learn-trace", tables, notes, arguments.out)


if __name__ == "__main__":
    main()
