"""What the experiments with deferral share: simulated experts, missing answers, coverage–accuracy curves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "learn"))

import manyhands as mh
from manyhands import defer

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


def halves(n_experts: int, n_classes: int, *, mistakes: float = 0.5) -> np.ndarray:
    """Experts who know every other class, in turn, and err in half of the cases of the rest, (experts, true, said)."""
    confusion = np.empty((n_experts, n_classes, n_classes))
    for expert in range(n_experts):
        known = (np.arange(n_classes) * 2 // n_classes) % 2 == expert % 2
        right = np.where(known, 1.0, 1 - mistakes)
        confusion[expert] = (1 - right)[:, None] / (n_classes - 1)
        np.fill_diagonal(confusion[expert], right)
    return confusion


def graded(n_experts: int, n_classes: int, *, accuracy: tuple[float, float] = (0.80, 0.87)) -> np.ndarray:
    """Experts of even skill, from the lower accuracy to the higher, wrong answers spread evenly."""
    return np.concatenate(
        [mh.crowds.one_coin(1, n_classes, accuracy=float(a)) for a in np.linspace(*accuracy, n_experts)]
    )


def asked(truth: np.ndarray, confusion: np.ndarray, seed: int) -> mh.Annotations:
    """What all experts answer to all cases."""
    return mh.simulate(truth=truth, confusion=confusion, labels_per_task=len(confusion), seed=seed).votes


def without(votes: mh.Annotations, missing: float, seed: int) -> mh.Annotations:
    """The same answers with each missing at a rate."""
    cases, experts, labels = votes.codes()
    keep = np.random.default_rng([seed, 7]).random(len(cases)) >= missing
    sizes = {"n_tasks": votes.n_tasks, "n_workers": votes.n_workers, "n_classes": votes.n_classes}
    return mh.Annotations.from_codes(cases[keep], experts[keep], labels[keep], **sizes)


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
