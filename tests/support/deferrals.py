"""The variants of deferral that the check-list runs on, and a small team with features for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from learners import backbone
from torch import nn

import manyhands as mh
from manyhands import defer
from manyhands.testing import teams
from manyhands.testing.teams import table
from oracles import defer_losses as plain


@dataclass(frozen=True)
class Variant:
    """A way to defer with settings."""

    make: type[Any]
    options: dict[str, Any] = field(default_factory=dict)
    #: Whether training itself keeps coverage and workload.
    constrained: bool = False
    #: Checks of the list that it cannot pass, each with the reason.
    skip: dict[str, str] = field(default_factory=dict)
    #: The plain twin of the loss of a case: of logits of classes and gate, answers with -1 for none, and the truth.
    twin: Callable[[np.ndarray, np.ndarray, np.ndarray, int], float] | None = None

    @property
    def name(self) -> str:
        return "-".join([self.make.__name__, *(str(value) for value in self.options.values())])

    def made(self, network: nn.Module) -> Any:
        return self.make(network, **self.options)

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
    Variant(
        defer.MixtureOfExperts,
        {"gate": "stacked"},
        skip={"chooses": "some epochs on some hundred cases teach it to ask, and not yet whom"},
    ),
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


def team(n: int = 180, **options: Any) -> Team:
    """The team of the check-list."""
    made = teams.draw_team(n, **options)
    return Team(made.X, made.truth, made.full, made.some)


def linear(n_features: int, n_outputs: int) -> nn.Module:
    return nn.Linear(n_features, n_outputs)
