"""CIFAR-10N: do the outlier scores of COINNet tell the images that people label wrongly?

    python benches/learn/scores.py
    python benches/learn/scores.py --picture docs/images/learn-outlier-scores.svg

The first images with their three human labels each and features of 256 numbers. Scores are of the images trained on;
the first seed's are drawn as a histogram, of images with no, one, and two or three wrong labels.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from experiment import Measures, cifar10n, fully_connected, parser, repeat, report

from manyhands import learn


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--images", type=int, default=4_000)
    made.add_argument("--epochs", type=int, default=30)
    made.add_argument("--picture", type=Path, default=None)
    arguments = made.parse_args()
    X, votes, truth, _, _ = cifar10n(arguments.data, arguments.images)
    tasks, _, labels = votes.codes()
    wrong = np.zeros(len(X), int)
    np.add.at(wrong, tasks, votes.classes[labels].astype(int) != truth[tasks])
    answers = np.zeros((len(X), votes.n_classes))
    np.add.at(answers, (tasks, labels), 1)
    disagreement = 1 - answers.max(axis=1) / answers.sum(axis=1)

    def scores(seed: int) -> np.ndarray:
        backbone = fully_connected(X.shape[1], votes.n_classes, dropout=0.2, seed=seed)
        settings = {"max_epochs": arguments.epochs, "batch_size": 128, "seed": seed}
        return learn.COINNet(backbone, **settings).fit(X, votes).outlier_scores_

    def separation(found: np.ndarray) -> Measures:
        both = {f"{n} wrong or more": 100 * auc(found, wrong >= n) for n in (1, 2, 3)}
        unanimous = disagreement == 0
        return both | {"3 wrong, of unanimous": 100 * auc(found[unanimous], wrong[unanimous] == 3)}

    runs = {
        "COINNet's scores": lambda seed: separation(scores(seed)),
        "disagreement of the three labels": lambda seed: separation(disagreement),
    }
    rows = list(repeat(runs, arguments.seeds))
    counts = [{"wrong labels": str(n), "images": str(int((wrong == n).sum()))} for n in range(4)]
    notes = """
How probably an image with so many wrong labels has a higher score than one with fewer (area under the curve, one half
being chance), in per cent; mean ± deviation over seeds. The last column is among images whose three labels agree, of
which disagreement tells nothing. What this does not show: the images themselves, deep networks.
"""
    report("learn-outlier-scores", {"separation": rows, "images": counts}, notes, arguments.out)
    if arguments.picture is not None:
        draw(scores(0), wrong, arguments.picture)


def auc(scores: np.ndarray, marked: np.ndarray) -> float:
    """How probably a marked sample has a higher score than another, ties counting half; one half if all are alike."""
    if marked.all() or not marked.any():
        return 0.5
    order = np.sort(scores[~marked])
    below = np.searchsorted(order, scores[marked], "left") + np.searchsorted(order, scores[marked], "right")
    return float(below.mean() / 2 / len(order))


def draw(scores: np.ndarray, wrong: np.ndarray, path: Path) -> None:
    """Shares of the images by score, a line for each number of wrong labels."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    edges = np.linspace(0, np.quantile(scores, 0.98), 25)
    names = ("no wrong label", "one", "two or three")
    for n, (name, colour) in enumerate(zip(names, ("#4c78a8", "#f58518", "#e45756"), strict=True)):
        own = scores[np.minimum(wrong, 2) == n]
        axes.hist(own, edges, weights=np.full(len(own), 100 / len(own)), histtype="step", label=name, color=colour)
    axes.set(xlabel="outlier score", ylabel="per cent of such images")
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
