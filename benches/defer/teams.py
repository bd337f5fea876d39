"""What the experiments with deferral share: simulated experts, missing answers, coverage–accuracy curves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "learn"))

import manyhands as mh
from manyhands import defer
from manyhands.defer.losses import exact_posterior

#: Makes a model that is to keep a coverage, and trains it.
Fit = Callable[[float | None], Any]


@dataclass(frozen=True)
class Cases:
    """Cases to train on and others to judge by, with the answers of experts to both."""

    X: Any
    y: np.ndarray
    votes: mh.Annotations
    X_test: Any
    y_test: np.ndarray
    votes_test: mh.Annotations
    #: Further cases, without truth, to calibrate thresholds with.
    X_more: Any


def halves(n_classes: int, *, mistakes: float = 0.5) -> np.ndarray:
    """Two experts who know half of the classes each, (experts, true, said).

    A class that an expert does not know is taken, at the rate of mistakes, for the next one they do not know.
    """
    confusion = np.tile(np.eye(n_classes), (2, 1, 1))
    for expert, unknown in enumerate(np.array_split(np.arange(n_classes), 2)[::-1]):
        confusion[expert, unknown, unknown] -= mistakes
        confusion[expert, unknown, np.roll(unknown, -1)] += mistakes
    return confusion


def graded(n_experts: int, n_classes: int, *, accuracy: tuple[float, float] = (0.80, 0.87)) -> np.ndarray:
    """Experts of even skill, from the lower accuracy to the higher, wrong answers spread evenly."""
    return np.concatenate(
        [mh.categorical.crowds.one_coin(1, n_classes, accuracy=float(a)) for a in np.linspace(*accuracy, n_experts)]
    )


def asked(truth: np.ndarray, confusion: np.ndarray, seed: int) -> mh.Annotations:
    """What all experts answer to all cases."""
    return mh.simulate(truth=truth, confusion=confusion, labels_per_task=len(confusion), seed=seed).log


def without(votes: mh.Annotations, missing: float, seed: int) -> mh.Annotations:
    """The same answers with each missing at a rate."""
    cases, experts, labels = votes.codes()
    keep = np.random.default_rng([seed, 7]).random(len(cases)) >= missing
    sizes = {"n_tasks": votes.n_tasks, "n_workers": votes.n_workers, "n_classes": votes.n_classes}
    return mh.Annotations.from_codes(cases[keep], experts[keep], labels[keep], **sizes)


def with_own_gate(make: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The options with the paper's gate, a network of its own, for methods by EM where no other is named."""
    by_em = make in (defer.ProbabilisticDeferral, defer.NaiveDeferral, defer.ImputedDeferral)
    return {"gate": None} | options if by_em else options


def free_posterior(model: Any, cases: Cases) -> np.ndarray:
    """Who a trained model takes for the right one to have answered the cases it learnt from, (n, n_experts + 1)."""
    answers = np.full((len(cases.y), len(model.experts_)), -1)
    tasks, experts, labels = cases.votes.codes()
    answers[tasks, experts] = labels
    logs = [torch.from_numpy(np.log(p)) for p in (model.defer_proba(cases.X), model.expert_proba(cases.X))]
    own = torch.from_numpy(np.log(model.predict_proba(cases.X)))
    given = *logs, torch.from_numpy(answers), torch.from_numpy(cases.y), own
    return exact_posterior(*given, smoothing=model.smoothing)[0].exp().numpy()


def curve(fit: Fit, cases: Cases, coverages: Sequence[float], *, per_coverage: bool) -> dict[str, float]:
    """Area under the coverage–accuracy curve, and by how much other decisions than by capacity miss the coverage.

    Methods that keep a coverage while training are trained once for each, others once for all.
    """
    model = None if per_coverage else fit(None)
    found = {"gate": [], "accuracy": []}
    missed = {"argmax": [], "threshold": []}
    for coverage in coverages:
        team = (fit(coverage) if model is None else model).calibrate(cases.X_more)
        given = {"coverage": coverage}
        for by, scores in found.items():
            scores.append(team.score(cases.X_test, cases.y_test, cases.votes_test, by=by, **given))
        for how, gaps in missed.items():
            who = team.decide(cases.X_test, how=how, **given).who
            gaps.append(abs((who == len(team.experts_)).mean() - coverage))
    return {
        "AUC-CAC": 100 * defer.auc_cac(coverages, found["gate"]),
        "by expected accuracy": 100 * defer.auc_cac(coverages, found["accuracy"]),
        "coverage missed by arg max": 100 * float(np.mean(missed["argmax"])),
        "by threshold": 100 * float(np.mean(missed["threshold"])),
    }


def draw(points: Mapping[str, Mapping[str, Sequence[Sequence[float]]]], coverages: Sequence[float], path: Path) -> None:
    """Draw coverage–accuracy curves, a panel per table: means over seeds of the accuracies of each method."""
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    # Text stays text, and the same points give the same file.
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "manyhands", "font.family": "sans-serif"})
    columns = min(len(points), 2)
    rows = -(-len(points) // columns)
    figure, panels = plt.subplots(rows, columns, figsize=(5.5 * columns, 4 * rows), squeeze=False, layout="constrained")
    for panel, (title, methods) in zip(panels.flat, points.items(), strict=False):
        curves = {name: defer.Curve(coverages, np.mean(accuracy, axis=0)) for name, accuracy in methods.items()}
        mh.plots.coverage(curves, ax=panel).set_title(title)
        panel.legend(fontsize=7)
    for panel in panels.flat[len(points) :]:
        panel.set_visible(False)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
