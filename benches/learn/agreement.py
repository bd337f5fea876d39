"""Agreement with annotators where there is no objective truth: Learn2Agree beside its baselines. (Wang et al. 2022,
Table 1)

    python benches/learn/agreement.py                   # a few minutes

MNIST, odd against even with few odd ones, labelled by three simulated annotators of kappa 0.8, 0.75 and 0.7 with the
truth, as the paper made its own. The agreement ratio compares the model's agreement with annotators to theirs with one
another, on images that were not trained on; above 1 the model agrees better than the average annotator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from experiment import Measures, Run, chosen, data_set, fully_connected, parser, repeat, report
from sklearn.metrics import cohen_kappa_score

import manyhands as mh
from manyhands import learn


def sigmoid(x: float) -> float:
    return 1 / (1 + np.exp(-x))


def ratio(predicted: np.ndarray, answers: np.ndarray) -> float:
    """Agreement ratio of Learn2Agree, Eq. 10; answers are (samples × annotators)."""
    model = [sigmoid(cohen_kappa_score(predicted, column)) for column in answers.T]
    n = answers.shape[1]
    pairs = [sigmoid(cohen_kappa_score(answers[:, i], answers[:, j])) for i in range(n) for j in range(i)]
    return float(np.mean(model) / np.mean(pairs))


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--images", type=int, default=4_000)
    arguments = made.parse_args()
    arrays = np.load(data_set(arguments.data, "mnist") / "features.npz")
    rng = np.random.default_rng(0)

    def part(name: str, n: int) -> tuple[torch.Tensor, np.ndarray]:
        odd = (arrays[f"y_{name}"] % 2).astype(int)
        keep = np.flatnonzero((odd == 0) | (rng.random(len(odd)) < 0.25))[:n]
        return torch.from_numpy(arrays[f"X_{name}"][keep].astype(np.float32) / 255).flatten(1), odd[keep]

    X, truth = part("train", arguments.images)
    X_test, y_test = part("test", 4_000)

    def run(make: type[learn.Learner], **options: Any) -> Run:
        def once(seed: int) -> Measures:
            both = np.concatenate([truth, y_test])
            prior = np.bincount(both) / len(both)
            confusion = np.concatenate(
                [mh.crowds.kappa(1, 2, kappa=value, prior=prior, seed=seed) for value in (0.8, 0.75, 0.7)]
            )
            log = mh.simulate(truth=both, confusion=confusion, labels_per_task=3, seed=seed)
            tasks, workers, labels = log.votes.codes()
            answers = np.empty((len(both), 3), int)
            answers[tasks, workers] = labels
            backbone = fully_connected(X.shape[1], 2, hidden=64, dropout=0.2, seed=seed)
            votes = log.votes.select(tasks=range(len(truth)))
            learner = make(backbone, max_epochs=15, seed=seed, **options).fit(X, votes)
            return {"agreement ratio × 100": 100 * ratio(learner.predict(X_test), answers[len(truth) :])}

        return once

    runs = {
        "majority": run(learn.MajorityTarget),
        "learn from all": run(learn.LearnFromAll),
        "learn from all by worker": run(learn.LearnFromAll, reduction="worker"),
        "linear focal": run(learn.Learn2Agree, stream="linear"),
        "linear kappa": run(learn.Learn2Agree, stream="linear", loss="kappa"),
        "distribution focal": run(learn.Learn2Agree),
        "distribution kappa": run(learn.Learn2Agree, loss="kappa"),
    }
    rows = list(repeat(chosen(runs, arguments.only), arguments.seeds))
    notes = "Mean ± deviation over seeds. What this does not show: real disagreement, which depends on the sample."
    report("learn-agreement", {"Agreement ratio": rows}, notes, arguments.out)


if __name__ == "__main__":
    main()
