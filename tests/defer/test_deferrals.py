"""What every way to defer is held to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from deferrals import VARIANTS, Variant, team

from manyhands import defer
from manyhands.defer.data import CaseData
from manyhands.testing import network_checks


def test_every_deferral_has_a_variant():
    assert {variant.make for variant in VARIANTS} == set(defer.all_deferrals())


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=f"{variant.name}-{name}")
        for variant in VARIANTS
        for name, check in network_checks(variant.made, skip=variant.skip)
    ],
)
def test_check_list(check: Callable[[], None]):
    check()


@pytest.mark.parametrize("variant", [each for each in VARIANTS if each.twin is not None], ids=lambda each: each.name)
def test_the_loss_of_a_batch_is_that_of_its_twin(variant: Variant):
    log = team(60)
    model = variant.model(max_epochs=1).fit(log.X, log.truth, log.votes)
    model._parts.double()
    batch = CaseData(log.X, log.truth, log.votes).batch(torch.arange(60), torch.device("cpu"))
    with torch.no_grad():
        views = model._views(batch.x.double())
        found = model._loss(batch, views).item()
    cases = zip(views.classes.numpy(), views.gate.numpy(), log.given, log.truth, strict=True)
    # The networks' logits are made single precision.
    assert found == pytest.approx(np.mean([variant.twin(*case) for case in cases]), rel=1e-5)


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v.constrained], ids=lambda variant: variant.name)
def test_gates_learn_to_keep_the_workload_on_average(variant: Variant):
    """Even shares are 1/4 each, among those who may be chosen; what a gate prefers by itself is far from that."""
    log = team(300)
    model = variant.model(workload="balanced", max_epochs=15).fit(log.X, log.truth, log.votes)
    chosen = model.defer_proba(log.X)
    if getattr(model, "unanswered", None) == "left-out":
        answered = log.given >= 0
        chosen[:, :-1] *= answered
        chosen = chosen[answered.any(axis=1)]
        chosen /= chosen.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(chosen.mean(axis=0), 0.25, atol=0.07)
