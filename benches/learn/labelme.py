"""LabelMe: 1,000 images labelled by 59 workers, 2.5 labels each; accuracy on 1,188 others.

    python benches/learn/labelme.py                     # every learner, five seeds: a few minutes
    python benches/learn/labelme.py --only MaxMIG --seeds 10

Features of VGG-16, one hidden layer of 128 with half of it dropped, Adam, batches of 64, 50 epochs, the last one.
"""

from __future__ import annotations

import numpy as np
from experiment import Measures, Run, chosen, data_set, fully_connected, parser, repeat, report

import manyhands as mh
from manyhands import learn

#: Published (Cao et al. 2019, Table 2) or measured before with a plain implementation on these features, in per cent.
KNOWN = {
    "MajorityTarget": "80.4 / 79.6",
    "CrowdLayer": "83.7 / 83.7",
    "DoctorNet": "80.6",
    "DeepEM": "85.2 / 84.8",
    "MaxMIG-paper": "86.4 / 86.7",
    "TraceRegularized": "– / 82.4",
    "GeoCrowdNet F": "– / 82.6",
}


def main() -> None:
    arguments = parser(__doc__).parse_args()
    folder = data_set(arguments.data, "labelme")
    arrays = np.load(folder / "features.npz")
    X, X_test = arrays["X_train"].astype(np.float32), arrays["X_test"].astype(np.float32)
    truth, y_test = arrays["y_train"], arrays["y_test"]
    votes = mh.read(folder / "labels.csv")

    def run(make: type[learn.Learner], **options: object) -> Run:
        def once(seed: int) -> Measures:
            backbone = fully_connected(X.shape[1], votes.n_classes, seed=seed)
            learner = make(backbone, seed=seed, **options).fit(X, votes)
            codes = votes.classes.astype(int)
            found = {"test accuracy": 100 * (learner.predict(X_test).astype(int) == y_test).mean()}
            posterior = learner.predict_proba(X, votes)
            found["labelled images, both"] = 100 * (codes[posterior.argmax(axis=1)] == truth).mean()
            return found

        return once

    runs = {
        "MajorityTarget": run(learn.MajorityTarget),
        "SoftTarget": run(learn.SoftTarget),
        "AggregatedTarget": run(learn.AggregatedTarget),
        "LearnFromAll": run(learn.LearnFromAll),
        "SoftBootstrap": run(learn.SoftBootstrap),
        "SingleConfusion": run(learn.SingleConfusion),
        "DoctorNet": run(learn.DoctorNet),
        "WeightedDoctorNet": run(learn.WeightedDoctorNet),
        "CrowdLayer": run(learn.CrowdLayer),
        "CrowdLayer VW": run(learn.CrowdLayer, kind="VW"),
        "CrowdLayer VW-B": run(learn.CrowdLayer, kind="VW-B"),
        "CCEM": run(learn.CCEM),
        "TraceRegularized": run(learn.TraceRegularized),
        "GeoCrowdNet F": run(learn.GeoCrowdNet),
        "GeoCrowdNet W": run(learn.GeoCrowdNet, side="W"),
        "COINNet": run(learn.COINNet),
        "InstanceTrace": run(learn.InstanceTrace),
        "DeepEM": run(learn.DeepEM),
        "ModelBootstrappedEM": run(learn.ModelBootstrappedEM),
        "Learn2Agree": run(learn.Learn2Agree),
        "Learn2Agree kappa": run(learn.Learn2Agree, loss="kappa"),
        "MaxMIG": run(learn.MaxMIG),
        "MaxMIG-paper": run(learn.MaxMIG, prior="uniform", shrinkage=0.0),
        "MaxMIG-letter": run(learn.MaxMIG, settings="paper"),
        "MaxMIG-Eq.2": run(learn.MaxMIG, prior="uniform", shrinkage=0.0, start_from=mh.MajorityVote()),
        "MaxMIG pearson": run(learn.MaxMIG, divergence="pearson"),
        "MaxMIG js": run(learn.MaxMIG, divergence="js"),
    }
    # As in the papers, one rate for network and workers.
    as_published = {
        "CrowdLayer": run(learn.CrowdLayer, worker_lr=None),
        "TraceRegularized": run(learn.TraceRegularized, worker_lr=None),
        "GeoCrowdNet F": run(learn.GeoCrowdNet, worker_lr=None),
        "MaxMIG": run(learn.MaxMIG, worker_lr=None),
    }

    def rows(some: dict[str, Run]) -> list[dict[str, object]]:
        found = repeat(chosen(some, arguments.only), arguments.seeds)
        return [row | {"known": KNOWN.get(row["method"], "")} for row in found]

    tables = {"LabelMe": rows(runs)}
    if not arguments.only:
        tables["LabelMe, workers at the rate of the network"] = rows(as_published)
    notes = """
Accuracy in per cent, mean ± deviation over seeds. "Labelled images, both": of the posterior given image and labels
together, on the images trained on. "Known": published / measured with a plain implementation on the same features.
What this does not show: other networks, other numbers of epochs, tuned rates (all learners use the same).
"""
    report("learn-labelme", tables, notes, arguments.out)


if __name__ == "__main__":
    main()
