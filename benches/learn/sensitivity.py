"""How far settings matter: the weight of the trace, and the epochs between two steps of EM (Tanno et al. 2019, Fig. 5).

    python benches/learn/sensitivity.py

MNIST, five pairwise flippers of mean skill 0.35 who all label every image, one hidden layer, Adam. Accuracy on other
images after a quarter, half and all of the epochs, and the error of the confusion matrices at the end. The paper holds
the gradient steps constant and divides them among T steps of EM of G each: G epochs here, T = epochs / G.
"""

from __future__ import annotations

from typing import Any

from experiment import Measures, Run, chosen, fully_connected, mnist, parser, repeat, report

import manyhands as mh
from manyhands import learn


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--images", type=int, default=3_000)
    made.add_argument("--epochs", type=int, default=20)
    made.add_argument("--skill", type=float, default=0.35)
    made.add_argument("--labels", type=int, default=5, help="labels per image")
    arguments = made.parse_args()
    X, truth, X_test, y_test = mnist(arguments.data, arguments.images)
    looks = sorted({max(1, arguments.epochs // 4), max(1, arguments.epochs // 2), arguments.epochs})

    def run(make: type[learn.Learner], **options: Any) -> Run:
        def once(seed: int) -> Measures:
            log = mh.simulate(
                truth=truth,
                n_workers=5,
                n_classes=10,
                crowd="flippers",
                skill=arguments.skill,
                labels_per_task=arguments.labels,
                seed=seed,
            )
            found: Measures = {}

            def look(learner: learn.Learner, record: dict[str, float]) -> None:
                epoch = int(record["epoch"]) + 1
                if epoch in looks:
                    right = learner._log_probs_of(X_test).argmax(axis=1) == y_test
                    found[f"epoch {epoch}"] = 100 * right.mean()

            backbone = fully_connected(X.shape[1], 10, hidden=64, dropout=0.2, seed=seed)
            settings = {"max_epochs": arguments.epochs, "batch_size": 128, "lr": 3e-3, "seed": seed} | options
            learner = make(backbone, callbacks=[look], **settings).fit(X, log.log)
            found["CM error"] = 100 * mh.metrics.confusion_error(learner.confusion_, log.confusion)
            return found

        return once

    runs = {f"trace λ = {weight:g}": run(learn.TraceRegularized, trace=weight) for weight in (0.1, 0.01, 0.001)}
    for name, make in (("deep EM", learn.DeepEM), ("MBEM", learn.ModelBootstrappedEM)):
        for between in (1, 5, 10):
            title = f"{name} T = {arguments.epochs // between} G = {between}"
            runs[title] = run(make, epochs_per_step=between)
    rows = list(repeat(chosen(runs, arguments.only), arguments.seeds))
    notes = """
Per cent, mean ± deviation over seeds; the crowd is drawn anew for each. G is in epochs. What this does not show:
convolutional networks, and as many steps as in the paper (100,000).
"""
    report("learn-sensitivity", {"Settings": rows}, notes, arguments.out)


if __name__ == "__main__":
    main()
