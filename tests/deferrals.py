"""The variants of deferral that the check-list runs on, and a small team with features for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import nn

import manyhands as mh
from learners import backbone
from manyhands import defer
from oracles import defer_losses as plain


@dataclass(frozen=True)
class Variant:
    """A way to defer with settings."""

    make: type[Any]
    options: dict[str, Any] = field(default_factory=dict)
    #: Whether training itself keeps coverage and workload.
    constrained: bool = False
    #: Whether some epochs on some hundred cases teach it whom to ask; else only to ask.
    choosy: bool = True
    #: The plain twin of the loss of a case: of logits of classes and gate, answers with -1 for none, and the truth.
    twin: Callable[[np.ndarray, np.ndarray, np.ndarray, int], float] | None = None

    @property
    def name(self) -> str:
        return "-".join([self.make.__name__, *(str(value) for value in self.options.values())])

    def model(self, n_classes: int = 3, **options: Any) -> Any:
        return self.make(
            backbone(n_classes), **{"max_epochs": 3, "batch_size": 32, "lr": 0.05} | self.options | options
        )


VARIANTS = [
    Variant(defer.NaiveDeferral, constrained=True),
    Variant(defer.NaiveDeferral, {"constraint": "epoch"}, constrained=True),
    Variant(defer.NaiveDeferral, {"unanswered": "wrong", "constraint": "running"}, constrained=True),
    Variant(defer.ProbabilisticDeferral, constrained=True),
    Variant(defer.ProbabilisticDeferral, {"constraint": "running"}, constrained=True),
    Variant(defer.ProbabilisticDeferral, {"inference": "mean-field"}, constrained=True),
    Variant(defer.ProbabilisticDeferral, {"experts": "conditional", "constraint": "epoch"}, constrained=True),
    Variant(defer.ProbabilisticDeferral, {"groups": 2, "gate": "stacked"}, constrained=True),
    Variant(defer.ProbabilisticDeferral, {"experts": "confusion"}, constrained=True),
    Variant(defer.ProbabilisticDeferral, {"experts": "confusion", "gate": None}, constrained=True),
    Variant(
        defer.ProbabilisticDeferral,
        {"experts": "confusion", "constraint": "penalty", "penalty": 50.0},
        constrained=True,
    ),
    Variant(defer.ImputedDeferral, {"method": "mixmatch", "impute_epochs": 2}, constrained=True),
    Variant(defer.ImputedDeferral, {"method": "fixmatch", "impute_epochs": 2}, constrained=True),
    Variant(defer.SelectivePrediction),
    Variant(defer.CompareConfidence),
    Variant(defer.SetDeferral, {"context": 20}),
    Variant(defer.MixtureOfExperts, twin=lambda *case: plain.mixture(*case, cost=np.zeros(3))),
    Variant(defer.MixtureOfExperts, {"gate": "stacked"}, choosy=False),
    Variant(defer.Triage, {"warmup": 1}),
    Variant(defer.CrossEntropySurrogate, twin=lambda *case: plain.cross_entropy_surrogate(*case, alpha=1.0)),
    Variant(defer.OneVsAll, twin=plain.one_vs_all),
    Variant(defer.OneVsAll, {"gate": "stacked"}),
    Variant(defer.RealizableSurrogate, twin=lambda *case: plain.realizable(*case, alpha=1.0)),
    Variant(defer.RealizableSurrogate, {"alpha": 0.5}, twin=lambda *case: plain.realizable(*case, alpha=0.5)),
]


@dataclass(frozen=True)
class Team:
    X: np.ndarray
    truth: np.ndarray
    #: What each expert answers to every case, (cases × experts).
    answers: np.ndarray
    #: The same with -1 where an answer is missing.
    given: np.ndarray

    @property
    def votes(self) -> mh.Annotations:
        return table(self.given)


def table(answers: np.ndarray) -> mh.Annotations:
    cases, experts = np.nonzero(answers >= 0)
    return mh.Annotations.from_arrays(cases, experts, answers[cases, experts])


def team(
    n: int = 180, n_classes: int = 3, n_experts: int = 3, missing: float = 0.3, separation: float = 2.0, seed: int = 0
) -> Team:
    """Experts who know some of the classes, each others, and guess in half of the cases of the rest."""
    X, truth = mh.synthetic.gaussians(n, n_classes, n_features=6, separation=separation, seed=seed)
    rng = np.random.default_rng([seed, 1])
    known = (truth[:, None] + np.arange(n_experts)) % 2 == 0
    guess = ~known & (rng.random((n, n_experts)) < 0.5)
    answers = np.where(guess, rng.integers(n_classes, size=guess.shape), truth[:, None])
    given = np.where(rng.random(answers.shape) < missing, -1, answers)
    return Team(X.astype(np.float32), truth, answers, given)


def linear(n_features: int, n_outputs: int) -> nn.Module:
    return nn.Linear(n_features, n_outputs)
