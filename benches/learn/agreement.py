"""Agreement with annotators where there is no objective truth: Learn2Agree, and what is left without its parts.

    python benches/learn/agreement.py labelme           # or polarity, or cifar10n
    python benches/learn/agreement.py labelme --only "Learn2Agree kappa distribution ar"

Real disagreement, which depends on the sample (Wang et al. 2022, Tables 1, 2 and 3): LabelMe (59 workers, 2.5 labels an
image, 8 classes), sentence polarity (203 workers, 5.5 labels a sentence) and CIFAR-10N (three labels per image, 10
classes; features of random patches). The agreement ratio compares the model's agreement with annotators to theirs with
one another, on samples that it was not trained on; above 1 the model agrees better than the average annotator. Samples
are predicted half by half, by models trained on the other half.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from experiment import Measures, Run, chosen, data_set, fully_connected, parser, repeat, report
from scipy.sparse import csr_matrix
from torch import nn

import manyhands as mh
from manyhands import learn


@dataclass(frozen=True)
class Set:
    """Samples with labels of real annotators, and how a network is trained on them."""

    X: Any
    votes: mh.Annotations
    #: Class of each task where it is known, to see accuracy beside agreement.
    truth: np.ndarray
    network: Callable[[int], nn.Module]
    training: dict[str, Any]
    #: Pairs of annotators with fewer common samples are left out.
    min_overlap: int


def labelme(folder: Any) -> Set:
    arrays = np.load(data_set(folder, "labelme") / "features.npz")
    votes = mh.read(folder / "labelme" / "labels.csv")
    X = arrays["X_train"].astype(np.float32)
    return Set(X, votes, arrays["y_train"], network(X.shape[1], 8), training(20, 64), 5)


def polarity(folder: Any) -> Set:
    arrays = np.load(data_set(folder, "sentence_polarity") / "features.npz")
    shape = (len(arrays["train_indptr"]) - 1, int(arrays["n_features"]))
    values = arrays["train_data"].astype(np.float32)
    X = csr_matrix((values, arrays["train_indices"], arrays["train_indptr"]), shape=shape)
    votes = mh.read(folder / "sentence_polarity" / "labels.csv")
    return Set(
        X, votes, arrays["y_train"], network(shape[1], 2, 32), {"max_epochs": 6, "batch_size": 128, "lr": 3e-3}, 10
    )


def cifar10n(folder: Any, n: int = 5_000) -> Set:
    arrays = np.load(data_set(folder, "cifar10_features") / "features.npz")
    votes = mh.read(data_set(folder, "cifar10n") / "labels.csv.gz").select(tasks=range(n))
    X = arrays["X_train"][:n].astype(np.float32) * float(arrays["scale"])
    return Set(
        X,
        votes,
        arrays["y_train"][:n],
        network(X.shape[1], 10, 64),
        {"max_epochs": 10, "batch_size": 128, "lr": 3e-3},
        10,
    )


def network(n_inputs: int, n_classes: int, hidden: int = 128) -> Callable[[int], nn.Module]:
    return lambda seed: fully_connected(n_inputs, n_classes, hidden=hidden, dropout=0.3, seed=seed)


def training(epochs: int, batch: int) -> dict[str, Any]:
    return {"max_epochs": epochs, "batch_size": batch, "lr": 3e-3}


SETS = {"labelme": labelme, "polarity": polarity, "cifar10n": cifar10n}


def main() -> None:
    made = parser(__doc__)
    made.add_argument("set", choices=SETS)
    arguments = made.parse_args()
    tables = tables_of(SETS[arguments.set](arguments.data), arguments)
    notes = """
Agreement ratio and accuracy times 100, mean ± deviation over seeds, which also draw the halves. "Majority" and "learn
from all" by their losses; "Learn2Agree" by the loss of the classifier, the stream and the loss of the stream: Table 1
has those of a distribution by agreement regression (ar) and of a linear stream by squared error, Tables 2 and 3 the
rest. "Focal" is the paper's cross-entropy with balancing. "As printed" is the ratio without the correction of its bias.
Annotators: the ratio of each against the others. What this does not show: the paper's data, networks that see images or
movements.
"""
    report(f"learn-agreement-{arguments.set}", tables, notes, arguments.out)


def tables_of(data: Set, arguments: Any) -> dict[str, list[dict[str, Any]]]:
    tasks = data.votes.tasks.astype(np.int64)

    def run(make: type[learn.Learner], **options: Any) -> Run:
        def once(seed: int) -> Measures:
            order = np.random.default_rng(seed).permutation(len(tasks))
            answers = np.empty(len(tasks), data.votes.classes.dtype)
            halves = np.array_split(order, 2)
            for known, new in (halves, halves[::-1]):
                votes = data.votes.select(tasks=data.votes.tasks[known])
                learner = make(data.network(seed), seed=seed, reduction="worker", **data.training, **options)
                learner.fit(data.X, votes)
                answers[new] = learner.predict(data.X[tasks[new]])
            ratio, printed = (
                mh.agreement.agreement_ratio(data.votes, answers, min_overlap=data.min_overlap, corrected=corrected)
                for corrected in (True, False)
            )
            accuracy = (answers.astype(np.int64) == data.truth[tasks]).mean()
            return {
                "agreement ratio": 100 * ratio.value,
                "as printed (Eq. 10)": 100 * printed.value,
                "accuracy": 100 * accuracy,
            }

        return once

    runs = {
        "majority focal": run(learn.MajorityTarget, loss="focal"),
        "majority kappa": run(learn.MajorityTarget, loss="kappa"),
        "learn from all ce": run(learn.LearnFromAll),
        "learn from all focal": run(learn.LearnFromAll, loss="focal"),
        "learn from all kappa": run(learn.LearnFromAll, loss="kappa"),
    }
    for loss in ("focal", "kappa"):
        for stream in ("linear", "distribution"):
            for by in ("rmse", "ar"):
                title = f"Learn2Agree {loss} {stream} {by}"
                runs[title] = run(learn.Learn2Agree, loss=loss, stream=stream, stream_loss=by)
    runs["Learn2Agree ce distribution ar"] = run(learn.Learn2Agree, loss="ce")
    runs["Learn2Agree focal distribution ar with learnt weights"] = run(learn.Learn2Agree, weights="learnt")
    rows = list(repeat(chosen(runs, arguments.only), arguments.seeds))
    ratios = mh.agreement.worker_ratios(data.votes, min_overlap=data.min_overlap).column("ratio").to_numpy()
    known = ratios[np.isfinite(ratios)]
    shown = {"annotators": f"{len(known)} of {len(ratios)}"}
    for what, value in (("lowest", known.min()), ("median", np.median(known)), ("highest", known.max())):
        shown[what] = f"{100 * value:.2f}"
    return {arguments.set: rows, f"{arguments.set}, annotators": [shown]}


if __name__ == "__main__":
    main()
