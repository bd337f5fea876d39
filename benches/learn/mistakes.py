"""MNIST labelled by seniors, with juniors who copy them or do not look: who is misled? (Cao et al. 2019, Fig. 4, Table
3)

    python benches/learn/mistakes.py                    # high and low expertise, three kinds of mistakes
    python benches/learn/mistakes.py --only MaxMIG,DeepEM --seeds 5
    python benches/learn/mistakes.py --cifar            # features of CIFAR-10 in the place of MNIST

A network of one hidden layer, Adam, the last epoch. "Both" is the accuracy, on new images, given image and labels.
"From votes" is the start that the paper gives crowd layers on CIFAR-10, its Eq. 2. Max-MIG is as in the paper: an even
prior, and weights that are not held to their start; "to the letter" it also starts at Eq. 2 with one learning rate.
Also Example E.2: one worker who knows, and a hundred who copy a coin.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from experiment import (
    Measures,
    Run,
    chosen,
    data_set,
    fully_connected,
    mnist,
    on_new_samples,
    parser,
    repeat,
    report,
)
from torch import nn

import manyhands as mh
from manyhands import learn


def cifar(folder: Any, images: int) -> tuple[torch.Tensor, np.ndarray, torch.Tensor, np.ndarray]:
    """Features and classes of CIFAR-10 to learn from, and of 5,000 other images."""
    arrays = np.load(data_set(folder, "cifar10_features") / "features.npz")
    parts = []
    for name, n in (("train", images), ("test", 5_000)):
        parts += [torch.from_numpy(arrays[f"X_{name}"][:n].astype(np.float32) * float(arrays["scale"]))]
        parts += [arrays[f"y_{name}"][:n].astype(int)]
    return tuple(parts)


def example(make: type[learn.Learner], **options: Any) -> Run:
    """Example E.2: the features are the class, worker 0 knows it, workers 1 to 100 all say what one coin says."""

    def once(seed: int) -> Measures:
        rng = np.random.default_rng(seed)
        truth, coin = rng.integers(2, size=(2, 2000))
        labels = np.c_[truth, np.repeat(coin[:, None], 100, axis=1)]
        X = np.eye(2, dtype=np.float32)[truth]
        torch.manual_seed(seed)
        learner = make(nn.Linear(2, 2), max_epochs=30, lr=1e-2, seed=seed, **options).fit(X, labels)
        right = (learner.predict(X) == truth).mean()
        return {"accuracy": 100 * right}

    return once


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--images", type=int, default=4_000)
    made.add_argument("--epochs", type=int, default=15)
    made.add_argument("--cifar", action="store_true", help="features of CIFAR-10 in the place of MNIST")
    arguments = made.parse_args()
    X, truth, X_test, y_test = (cifar if arguments.cifar else mnist)(arguments.data, arguments.images)

    def table(expertise: str, mistakes: str) -> list[dict[str, Any]]:
        def run(make: type[learn.Learner], **options: Any) -> Run:
            def once(seed: int) -> Measures:
                both = np.concatenate([truth, y_test])
                log = mh.categorical.synthetic.experts(both, 10, expertise=expertise, mistakes=mistakes, seed=seed)
                old = log.log.select(tasks=range(len(truth)))
                backbone = fully_connected(X.shape[1], 10, hidden=128, dropout=0.2, seed=seed)
                settings = {"max_epochs": arguments.epochs, "batch_size": 128, "lr": 3e-3, "seed": seed} | options
                learner = make(backbone, **settings).fit(X, old)
                return on_new_samples(learner, log.log, X_test, y_test)

            return once

        runs = {
            "MajorityTarget": run(learn.MajorityTarget),
            "CrowdLayer": run(learn.CrowdLayer),
            "CrowdLayer from votes": run(learn.CrowdLayer, start_from=mh.MajorityVote()),
            "DoctorNet": run(learn.DoctorNet),
            "DeepEM": run(learn.DeepEM),
            "MaxMIG": run(learn.MaxMIG, prior="uniform", shrinkage=0.0),
            "MaxMIG-letter": run(learn.MaxMIG, settings="paper"),
        }
        return list(repeat(chosen(runs, arguments.only), arguments.seeds))

    tables = {}
    for expertise in ("high", "low"):
        for mistakes in ("independent", "naive", "correlated"):
            title = f"{expertise} expertise, {mistakes} mistakes"
            print(title, flush=True)
            tables[title] = table(expertise, mistakes)
    if arguments.cifar:
        notes = """
256 unsupervised features of CIFAR-10. Accuracy in per cent, mean ± deviation over seeds. What this does not show:
networks that see the images, labels missing, other juniors.
"""
        report("learn-mistakes-cifar", tables, notes, arguments.out)
        return
    print("Example E.2", flush=True)
    runs = {
        "DeepEM": example(learn.DeepEM),
        "MaxMIG": example(learn.MaxMIG, prior="uniform", shrinkage=0.0),
    }
    tables["Example E.2"] = list(repeat(runs, arguments.seeds))
    notes = """
Accuracy in per cent, mean ± deviation over seeds. What this does not show: other data, labels missing, other juniors.
"""
    report("learn-mistakes", tables, notes, arguments.out)


if __name__ == "__main__":
    main()
