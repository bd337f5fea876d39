"""The shipped check-list of networks holds for a learner from elsewhere, and each fault is caught by its check."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import manyhands as mh
from manyhands import defer, learn
from manyhands.testing import check_network, network_checks

OTHER_KINDS = [learn.CrowdRegression, learn.CrowdReward, learn.MixtureReward, learn.SimilarityNetwork]


@pytest.mark.parametrize(
    "check",
    [pytest.param(check, id=f"{make.__name__}-{name}") for make in OTHER_KINDS for name, check in network_checks(make)],
)
def test_learners_of_other_kinds_of_answers(check: Callable[[], None]) -> None:
    check()


class Generalized(learn.Learner):
    """Generalised cross-entropy of the labels as they are: one that the network disbelieves counts for less."""

    def __init__(self, backbone: nn.Module, *, q: float = 0.7, **training: Any) -> None:
        super().__init__(backbone, **training)
        self.q = q

    def _extra_parts(self, data):
        if self.start_from is not None:
            raise ValueError("there is nothing that start_from could start")
        return {}

    def _loss(self, batch, log_probs):
        given = self._label_log_probs(batch, log_probs)
        return self._reduce((1 - torch.exp(self.q * given)) / self.q, batch)


def test_a_learner_from_elsewhere_passes() -> None:
    assert check_network(Generalized) == {}
    skip = {"learns": "with q = 1 it learns slowly"}
    assert check_network(lambda network: Generalized(network, q=1.0, max_epochs=2), skip=skip) == skip


class Inverted(Generalized):
    """Learns what nobody said."""

    def _loss(self, batch, log_probs):
        return -super()._loss(batch, log_probs)


class TrainsWhatWasGiven(Generalized):
    def _make_parts(self, data):
        return super()._make_parts(data) | {"network": self.backbone}


class DrawsGlobally(Generalized):
    def _loss(self, batch, log_probs):
        return super()._loss(batch, log_probs) * (1 + 0.1 * torch.rand(1, generator=torch.default_generator))

    def fit(self, *given, **options):
        torch.rand(1)
        return super().fit(*given, **options)


class Remembers(Generalized):
    _fits = 0

    def _loss(self, batch, log_probs):
        return super()._loss(batch, log_probs) * (1 + self._fits)

    def fit(self, *given, **options):
        super().fit(*given, **options)
        self._fits += 1
        return self


class NoProbabilities(Generalized):
    def predict_proba(self, *given, **options):
        return 2 * super().predict_proba(*given, **options)


class ForgetsInFiles(Generalized):
    def _after_training(self, data):
        super()._after_training(data)
        self._n = len(data.samples)

    @property
    def seen_(self) -> int:
        self._fitted()
        return getattr(self, "_n", 0)


class ChangesSamples(Generalized):
    def fit(self, X, votes, **options):
        X += 1e-3
        return super().fit(X, votes, **options)


class RefusesWithoutAWord(Generalized):
    def _extra_parts(self, data):
        if self.start_from is not None:
            raise ValueError("this cannot be done")
        return {}


class SharesOfNothing(Generalized):
    """Not finite where nobody named a class."""

    def _loss(self, batch, log_probs):
        counts = torch.bincount(batch.label, minlength=log_probs.shape[1])
        return super()._loss(batch, log_probs) + (log_probs.mean(dim=0) / counts).sum() * 0


FAULTS: list[tuple[type[learn.Learner], str]] = [
    (Inverted, "learns"),
    (TrainsWhatWasGiven, "network_unchanged"),
    (DrawsGlobally, "seed_repeats"),
    (Remembers, "refit_forgets"),
    (NoProbabilities, "results"),
    (NoProbabilities, "odd_crowds"),
    (ForgetsInFiles, "save_and_load"),
    (ChangesSamples, "input_unchanged"),
    (RefusesWithoutAWord, "start_from"),
    (SharesOfNothing, "odd_crowds"),
]


@pytest.mark.parametrize(("make", "name"), FAULTS, ids=lambda given: getattr(given, "__name__", given))
def test_faults_of_learners_are_caught(make: type[learn.Learner], name: str) -> None:
    with pytest.raises(AssertionError, match=f"{make.__name__}.*{name}"):
        dict(network_checks(make))[name]()


class DrawsLots(defer.SelectivePrediction):
    def _scores(self, views):
        scores = super()._scores(views)
        return torch.rand(scores.shape, generator=torch.Generator().manual_seed(0))


class ForgetsExperts(defer.SelectivePrediction):
    def decide(self, X, **options):
        decision = super().decide(X, **options)
        np.random.default_rng(0).shuffle(decision.who)
        return decision


class ScoresTooHigh(defer.SelectivePrediction):
    def score(self, *args, **options):
        return super().score(*args, **options) + 0.1


TEAMS = [(DrawsLots, "chooses"), (ForgetsExperts, "score"), (ScoresTooHigh, "all_or_nothing")]


@pytest.mark.parametrize(("make", "name"), TEAMS, ids=lambda given: getattr(given, "__name__", given))
def test_faults_of_teams_are_caught(make: type[Any], name: str) -> None:
    with pytest.raises(AssertionError, match=f"{make.__name__}.*{name}"):
        dict(network_checks(make))[name]()


@pytest.mark.parametrize("wrong", [3, mh.DawidSkene(), lambda network: network, learn.CCEM(nn.Linear(6, 3))])
def test_what_makes_no_learner_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="learner"):
        check_network(wrong)
    with pytest.raises(ValueError, match="'renaming'"):
        check_network(learn.CCEM, skip={"renaming": "why not"})


def test_the_package_of_checks_needs_no_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; import manyhands.testing"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_page_names_every_check() -> None:
    page = (Path(__file__).parents[2] / "docs" / "torch.md").read_text(encoding="utf-8")
    section = page.split("## Your own learner")[1].split("\n## ")[0]
    told = {name for row in re.findall(r"^\| (.*?) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    kinds = (learn.CCEM, defer.OneVsAll, learn.CrowdReward)
    assert told == {name for make in kinds for name, _ in network_checks(make)}
