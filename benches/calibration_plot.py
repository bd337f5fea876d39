"""Plot how often answers are correct against their confidence: docs/images/confidence.svg.

python benches/calibration_plot.py [--folder ../docs/images]

Simulated: 20,000 tasks with four answers each, 70 % honest workers and 30 % who guess. It does not show real crowds,
whose errors are correlated: docs/evidence/choosing-a-method.md does.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

import manyhands as mh

#: How each method is drawn. The colors are safe for color-blind readers.
METHODS = {
    "share of votes": (mh.MajorityVote(), "#999999", "s"),
    "manyhands, the default": (mh.Consensus(), "#0072b2", "o"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parents[1] / "docs" / "images")
    folder = parser.parse_args().folder

    crowd = mh.simulate(20_000, 1_000, 3, crowd={"class-conditional": 0.7, "spammers": 0.3}, labels_per_task=4, seed=7)
    mpl.rcParams.update({"svg.hashsalt": "manyhands", "font.size": 9})
    figure, axis = plt.subplots(figsize=(4.6, 3.4), layout="constrained")
    axis.plot([0.3, 1], [0.3, 1], ":", color="#666666", linewidth=1)
    for name, (method, color, mark) in METHODS.items():
        model = method.fit(crowd.log)
        sure, right = model.posterior_.max(axis=1), model.labels_ == crowd.truth
        bins, counts = np.unique(np.floor(sure * 20), return_counts=True)
        full = [np.floor(sure * 20) == number for number in bins[counts >= 50]]
        points = np.array([(sure[these].mean(), right[these].mean()) for these in full])
        axis.plot(*points.T, mark + "-", color=color, markersize=5, label=f"{name}: {right.mean():.1%} right")
        print(name, points.round(3).tolist(), right.mean())
    axis.set(xlabel="confidence", ylabel="share of correct answers", xlim=(0.3, 1.02), ylim=(0.3, 1.02))
    axis.legend(loc="upper left", frameon=False)
    figure.savefig(folder / "confidence.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
