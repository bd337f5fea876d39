"""Draw the pictures of docs/plots.md, from simulated crowds: ``python scripts/pictures.py [folder]``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import manyhands as mh

#: Dots an inch: six inches are as wide as a column of text.
_RESOLUTION = 90


def drawn() -> dict[str, Any]:
    """All pictures by name, as in the page."""
    crowd = mh.simulate(
        600, 40, 4, crowd={"class-conditional": 0.85, "spammers": 0.15}, labels_per_task=5, activity=0.6, seed=1
    )
    votes, gold = crowd.votes, (crowd.votes.tasks, crowd.truth)
    model, em, vote = mh.aggregate(votes), mh.DawidSkene().fit(votes), mh.MajorityVote().fit(votes)
    camps = mh.simulate(200, 24, 2, crowd={"one-coin": 0.6, "colluders": 0.4}, labels_per_task=14, seed=3).log
    scores = np.random.default_rng(0).random((400, 4))
    correct = scores + np.random.default_rng(1).normal(0, 0.3, scores.shape) > [0.3, 0.35, 0.4, 0.5]
    return {
        "confusion": mh.plots.confusion(model),
        "workers": mh.plots.workers(model),
        "reliability": mh.plots.reliability({"default": model, "Dawid–Skene": em, "votes": vote}, gold),
        "history": mh.plots.history({"Dawid–Skene": em, "accelerated": mh.DawidSkene(accelerate=True).fit(votes)}),
        "agreement": mh.plots.agreement(camps),
        "budget": mh.plots.budget({"default": model, "votes": vote}, votes, gold),
        "coverage": mh.plots.coverage({"gate": mh.defer.coverage_accuracy(scores, correct)}),
    }


def main(folder: str = "docs/images") -> None:
    """Write them as PNG."""
    for name, ax in drawn().items():
        path = Path(folder) / f"plot-{name}.png"
        ax.figure.savefig(path, dpi=_RESOLUTION, metadata={"Software": None})
        print(path, f"{path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(*sys.argv[1:])
