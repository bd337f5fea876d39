"""MNIST labelled by machines of graded skill, each a tenth of the images: does a criterion for no experts lead?

    python benches/learn/machines.py
    python benches/learn/machines.py --only CCEM,GeoCrowdNet\\ F --workers 40

The tutorial's experiment: annotators are classifiers, right on 15 to 85 per cent of the images, and each labels a
tenth of them. Its classifiers are of many kinds; here they are ridge regressions on part of the images with noise in
their scores, whose mistakes follow from the image all the same. A network of one hidden layer, Adam, the last epoch.
"""

from __future__ import annotations

from typing import Any

from experiment import Measures, Run, chosen, fully_connected, mnist, parser, repeat, report

import manyhands as mh
from manyhands import learn


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--images", type=int, default=4_000)
    made.add_argument("--epochs", type=int, default=15)
    made.add_argument("--workers", type=int, default=30)
    arguments = made.parse_args()
    X, truth, X_test, y_test = mnist(arguments.data, arguments.images)

    def run(make: type[learn.Learner], **options: Any) -> Run:
        def once(seed: int) -> Measures:
            log = mh.categorical.synthetic.machines(
                X.numpy(), truth, arguments.workers, accuracy=(0.15, 0.85), density=0.1, seed=seed
            )
            backbone = fully_connected(X.shape[1], 10, hidden=128, dropout=0.2, seed=seed)
            settings = {"max_epochs": arguments.epochs, "batch_size": 128, "seed": seed} | options
            learner = make(backbone, **settings).fit(X, log.log)
            return {
                "accuracy": 100 * (learner.predict(X_test) == y_test).mean(),
                "confusion error": 100 * mh.metrics.confusion_error(learner.confusion_, log.confusion),
            }

        return once

    runs = {
        "MajorityTarget": run(learn.MajorityTarget),
        "CrowdLayer": run(learn.CrowdLayer),
        "DeepEM": run(learn.DeepEM),
        "MaxMIG": run(learn.MaxMIG),
        "CCEM": run(learn.CCEM),
        "TraceRegularized": run(learn.TraceRegularized),
        "GeoCrowdNet F": run(learn.GeoCrowdNet, side="F"),
        "GeoCrowdNet W": run(learn.GeoCrowdNet, side="W"),
        "COINNet": run(learn.COINNet),
        "CoNAL": run(learn.CoNAL),
        "MaDL": run(learn.MaDL),
    }
    tables = {"machines": list(repeat(chosen(runs, arguments.only), arguments.seeds))}
    notes = f"""
{arguments.images:,} images, {arguments.workers} machines. Accuracy on new images and error of the confusion matrices
(against those counted over all images), in per cent; mean ± deviation over seeds. What this does not show: other
kinds of machines, the tutorial's 57,000 images.
"""
    report("learn-machines", tables, notes, arguments.out)


if __name__ == "__main__":
    main()
