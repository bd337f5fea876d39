"""What single ways to defer do, what they refuse, and answers that were not given."""

from __future__ import annotations

import re
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from deferrals import VARIANTS, Variant, linear, table, team
from learners import backbone
from precision import TRAINED
from torch import nn

import manyhands as mh
from manyhands import defer
from manyhands.defer import deferral
from manyhands.defer.data import CaseData
from manyhands.defer.impute import distort, jitter
from oracles.defer_losses import complete_posterior, softmax

# ------------------------------------------------------------------------------------------------ what goes in


def model(**options):
    return defer.NaiveDeferral(backbone(), **{"max_epochs": 1} | options)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda log: {"y": log.truth[:-1]}, ValueError, "y.*179.*180 rows"),
        (lambda log: {"y": [None, *log.truth[1:].tolist()]}, ValueError, "row 0"),
        (lambda log: {"y": np.array(list("abc"))[log.truth]}, ValueError, "common"),
        (lambda log: {"y": log.truth * 2}, ValueError, "logit"),
        (lambda log: {"X": log.X[:10], "y": log.truth[:10]}, ValueError, "rows of X.*10"),
        (
            lambda log: {"votes": mh.Annotations.from_arrays([0, 0], ["a", "a"], [1, 2])},
            ValueError,
            "task 0",
        ),
        (
            lambda log: {"votes": mh.Annotations.from_arrays([0, 1], ["a", "a"], [1, 2], weights=[1.0, 2.0])},
            ValueError,
            "weights",
        ),
    ],
)
def test_input_that_does_not_fit(change, error, message):
    log = team()
    given = {"X": log.X, "y": log.truth, "votes": log.votes} | change(log)
    with pytest.raises(error, match=message):
        model().fit(given["X"], given["y"], given["votes"])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"coverage": 1.5}, ValueError, "coverage.*0.*1"),
        ({"coverage": (0.5, 0.2)}, ValueError, "order"),
        ({"coverage": "half"}, TypeError, "coverage"),
        ({"workload": "fair"}, ValueError, "workload.*'free'.*'balanced'"),
        ({"workload": {"nobody": 0.1}}, KeyError, "'nobody'.*0,.*1,.*2"),
        ({"workload": {0: (0.1, 2)}}, ValueError, "workload of 0"),
        ({"coverage": 0.7, "workload": {0: 0.2, 1: 0.2}}, ValueError, "sum to more than one"),
        ({"coverage": 0.1, "workload": {0: 0.1, 1: 0.1, 2: 0.1}}, ValueError, "raise the workload"),
        ({"constraint": "yearly"}, ValueError, "constraint"),
        ({"penalty": 5.0, "coverage": 0.5}, ValueError, "penalty=5.0.*constraint='penalty'"),
        ({"penalty": -1.0, "constraint": "penalty"}, ValueError, "penalty.*0"),
        ({"cost": float("nan")}, ValueError, "cost"),
        ({"cost": {"nobody": 1.0}}, KeyError, "cost.*'nobody'.*0,.*1,.*2"),
        ({"cost": {1: "much"}}, TypeError, "cost of 1"),
        ({"cost": {1: float("nan")}}, ValueError, "cost of 1"),
        ({"cost": {1: 1e9}}, ValueError, "1.*1000"),
        ({"cost": [0.1, 0.2]}, TypeError, "0.1.*0.2"),
        ({"cost": np.zeros(3)}, TypeError, "a number or a mapping"),
        ({"smoothing": 0.0}, ValueError, "smoothing.*0"),
        ({"unanswered": "asked"}, ValueError, "unanswered.*'left-out'.*'wrong'"),
        ({"gate": linear(6, 3)}, ValueError, "3 experts"),
        ({"gate": linear(5, 4)}, ValueError, "in_features=5.*out_features=4"),
        ({"gate": 7}, TypeError, "gate.*nn.Module"),
        ({"gate": "stack"}, TypeError, "None"),
        ({"lr": -1.0}, ValueError, "lr.*0"),
    ],
)
def test_settings_that_cannot_work(options, error, message):
    log = team()
    with pytest.raises(error, match=message):
        model(**options).fit(log.X, log.truth, log.votes)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (defer.ProbabilisticDeferral, {"inference": "luck"}, "inference"),
        (defer.ProbabilisticDeferral, {"experts": "one"}, "experts"),
        (defer.ProbabilisticDeferral, {"groups": 0}, "groups.*1"),
        (defer.ProbabilisticDeferral, {"groups": 1.5}, "groups"),
        (defer.ProbabilisticDeferral, {"groups": 2, "experts": "confusion"}, "groups"),
        (defer.ProbabilisticDeferral, {"n_iter": 0}, "n_iter.*1"),
        (defer.ProbabilisticDeferral, {"n_iter": 1.5}, "n_iter"),
        (defer.ImputedDeferral, {"method": "guess"}, "method"),
        (defer.ImputedDeferral, {"groups": 0}, "groups.*1"),
        (defer.ImputedDeferral, {"experts": "one"}, "experts"),
        (defer.ImputedDeferral, {"impute_epochs": 0}, "impute_epochs.*1"),
        (defer.ImputedDeferral, {"impute_epochs": 2.5}, "impute_epochs"),
        (defer.CrossEntropySurrogate, {"alpha": -1.0}, "alpha.*0"),
        (defer.RealizableSurrogate, {"alpha": 2.0}, "alpha.*1"),
        (defer.MixtureOfExperts, {"cost": -1.0}, "cost.*0"),
        (defer.MixtureOfExperts, {"cost": {1: -1.0}}, "cost of 1"),
        (defer.MixtureOfExperts, {"cost": {"Ann": 1.0}}, "cost.*'Ann'.*0,.*1,.*2"),
        (defer.MixtureOfExperts, {"cost": {2: float("nan")}}, "cost of 2"),
        (defer.MixtureOfExperts, {"cost": [0.1, 0.2, 0.3]}, "a number or a mapping"),
        (defer.Triage, {"warmup": -1}, "warmup.*0"),
        (defer.Triage, {"warmup": 0.5}, "warmup"),
        (defer.OneVsAll, {"gate": linear(6, 4)}, "3 experts"),
        (defer.OneVsAll, {"gate": "anchored"}, "options"),
    ],
)
def test_settings_of_single_methods(make, options, message):
    log = team()
    with pytest.raises((KeyError, TypeError, ValueError), match=message):
        make(backbone(), **{"max_epochs": 1} | options).fit(log.X, log.truth, log.votes)


def test_a_gate_of_ones_own_and_networks_that_cannot_be_split():
    log = team()

    class Closed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(6, 3)

        def forward(self, x):
            return self.inner(x)

    with pytest.raises(ValueError, match="trunk"):
        defer.NaiveDeferral(Closed(), max_epochs=1).fit(log.X, log.truth, log.votes)
    fitted = defer.NaiveDeferral(Closed(), linear(6, 4), max_epochs=1).fit(log.X, log.truth, log.votes)
    assert isinstance(fitted.gate_, nn.Linear)
    fitted = defer.OneVsAll(Closed(), linear(6, 3), max_epochs=1).fit(log.X, log.truth, log.votes)
    assert fitted.defer_proba(log.X).shape == (180, 4)


def test_the_classifier_learns_nothing_from_a_stacked_gate():
    log = team()
    fitted = defer.NaiveDeferral(backbone(), "stacked", max_epochs=1).fit(log.X, log.truth, log.votes)
    for network in (fitted.network_, fitted.gate_):
        network.zero_grad(set_to_none=True)
    fitted._views(torch.from_numpy(log.X)).gate.sum().backward()
    assert all(p.grad is None for p in fitted.network_.parameters())
    assert all(p.grad is not None for p in fitted.gate_.parameters())


def test_missing_answers_at_scoring():
    log = team(missing=0.5)
    fitted = model().fit(log.X, log.truth, log.votes)
    with pytest.raises(ValueError, match=r"row \d+ to [012].*missing='available'"):
        fitted.score(log.X, log.truth, log.votes, coverage=0.1)
    assert 0 < fitted.score(log.X, log.truth, log.votes, how="argmax", missing="available") <= 1
    first = fitted.score(log.X, log.truth, table(log.answers[:, :1]), workload={1: 0.0, 2: 0.0})
    who = fitted.decide(log.X, workload={1: 0.0, 2: 0.0}).who
    said = np.where(who == 0, log.answers[:, 0], fitted.predict(log.X))
    assert first == pytest.approx((said == log.truth).mean())  # the others need no answers
    strangers = mh.Annotations.from_arrays([0, 1], ["x", "y"], [0, 1])
    with pytest.raises(ValueError, match="expert"):
        fitted.score(log.X, log.truth, strangers)


def test_networks_that_make_no_numbers_are_no_arg_max():
    class Broken(nn.Linear):
        def forward(self, x):
            return torch.where(x[:, :1] > 1e6, torch.nan, super().forward(x))

    log = team()
    fitted = defer.NaiveDeferral(Broken(6, 3), linear(6, 4), max_epochs=1).fit(log.X, log.truth, log.votes)
    far = log.X.copy()
    far[7, 0] = 1e7
    with pytest.raises(ValueError, match=r"NaN.*row 7"):
        fitted.decide(far, how="argmax")


def test_the_documented_example_runs():
    page = Path(__file__).parents[2] / "docs" / "learning-to-defer.md"
    example = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)[0]
    names: dict = {}
    exec(example, names)
    assert np.bincount(names["decision"].who).tolist() == [100, 100, 100, 200]


def test_a_class_that_no_expert_names_and_cases_nobody_answered():
    log = team(n_classes=3)
    given = np.where(log.given == 2, -1, log.given)
    given[:50] = -1
    fitted = model().fit(log.X, log.truth, table(given))
    assert fitted.classes_.tolist() == [0, 1, 2]
    dense = np.where(given < 0, -1, given)
    same = model().fit(log.X, log.truth, dense)
    assert (same.defer_proba(log.X) == fitted.defer_proba(log.X)).all()


# ---------------------------------------------------------------------------------- answers that were not given


@pytest.mark.parametrize("constraint", ["batch", "running", "epoch"])
@pytest.mark.parametrize("coverage", [None, 0.5])
def test_cases_nobody_answered_teach_the_gate_nothing(constraint: str, coverage: float | None):
    """However wrong the classifier is there; training on answered cases alone gives the same gate."""
    log = team(120, missing=0.0)
    given = np.where(np.arange(120)[:, None] < 60, log.answers, -1)
    # The classifier stays as it is, so that it is the same whatever cases it is shown.
    classifier, start = linear(6, 3).requires_grad_(False), linear(6, 4)

    def learnt(n: int, **more):
        options = {"constraint": constraint, "coverage": coverage, "max_epochs": 3, "batch_size": n} | more
        fitted = defer.NaiveDeferral(classifier, start, **options).fit(log.X[:n], log.truth[:n], table(given[:n]))
        return fitted.gate_.weight.detach()

    whole, answered = learnt(120, lr=0.1), learnt(60, lr=0.05)  # a mean over half as many cases, at half the rate
    np.testing.assert_allclose(whole, answered, atol=TRAINED)
    assert (whole != start.weight).any()
    assert (learnt(120, lr=0.1, unanswered="wrong") - answered).abs().max() > 1e-3


@pytest.mark.parametrize(
    "variant",
    [
        *VARIANTS,
        Variant(defer.ProbabilisticDeferral, {"constraint": "epoch", "experts": "separate"}),
        Variant(defer.Triage, {"warmup": 0}),
    ],
    ids=lambda variant: variant.name,
)
def test_training_knows_nothing_of_held_out_cases(variant: Variant):
    """Neither their truth nor their answers, in what networks learn and in how experts are judged."""
    log = team()
    options = {"coverage": 0.7, "validation": 0.5, "max_epochs": 1}
    first = variant.model(**options).fit(log.X, log.truth, log.votes)
    unseen = first._held_out.numpy()
    truth, given = log.truth.copy(), log.given.copy()
    truth[unseen], given[unseen] = (truth[unseen] + 1) % 3, -1
    second = variant.model(**options).fit(log.X, truth, table(given))
    assert (first.confusion_ == second.confusion_).all()
    assert (first.prior_ == second.prior_).all()
    assert (first.expected_accuracy(log.X) == second.expected_accuracy(log.X)).all()
    learnt = second._parts.state_dict()
    assert all(torch.equal(value, learnt[name]) for name, value in first._parts.state_dict().items())


def test_held_out_cases_may_not_be_all_that_experts_answered():
    log = team(40)
    model = defer.NaiveDeferral(backbone(), max_epochs=1, validation=0.5)
    unseen = model.fit(log.X, log.truth, log.votes)._held_out.numpy()
    given = np.full_like(log.given, -1)
    given[unseen] = log.given[unseen]
    with pytest.raises(ValueError, match="validation"):
        model.fit(log.X, log.truth, table(given))


def test_augmentations_add_noise_to_features_and_to_nothing_else():
    x = torch.from_numpy(team().X)
    for augmented, share in ((jitter, 0.1), (distort, 0.3)):
        torch.manual_seed(0)
        changed = augmented(x) - x
        kept = changed.abs() < 4 * share * x.std(dim=0)
        assert (changed != 0).all()
        assert kept.float().mean() > 0.7  # the strong one takes a fifth of the features for their means
        assert (changed[kept].std() / (share * x.std())).item() == pytest.approx(1, abs=0.3)
        tokens = torch.arange(12).reshape(3, 4)
        assert (augmented(tokens) == tokens).all()
        assert augmented("text") == "text"


def test_a_threshold_is_judged_by_what_the_best_expert_answered():
    """Or by that expert's accuracy in the class, where there is no answer."""
    log = team(60, missing=0.5)
    fitted = defer.SelectivePrediction(backbone(), max_epochs=1).fit(log.X, log.truth, log.votes)
    data = CaseData(log.X, log.truth, log.votes)
    confidence, gain = fitted._outcome(data.batch(torch.arange(60), torch.device("cpu"))).double().numpy().T
    probs, right = fitted.predict_proba(log.X), np.diagonal(fitted.confusion_, axis1=1, axis2=2)
    np.testing.assert_allclose(confidence, probs.max(axis=1), rtol=1e-5)
    for i, truth in enumerate(log.truth):
        best = int(np.argmax(right @ probs[i]))
        expert = right[best, truth] if log.given[i, best] < 0 else float(log.given[i, best] == truth)
        assert gain[i] == pytest.approx(expert - float(probs[i].argmax() == truth), abs=1e-6)


def test_triage_learns_its_division():
    """The classifier from what is left to it, the gate from who takes what among those who answered."""
    log = team(60)
    fitted = defer.Triage(backbone(), coverage=0.5, warmup=0, max_epochs=1).fit(log.X, log.truth, log.votes)
    division = fitted._division.tolist()
    for rows in (range(60), [division.index(3)]):  # a single case that is left to the classifier counts in full
        batch = CaseData(log.X, log.truth, log.votes).batch(torch.tensor(list(rows)), torch.device("cpu"))
        views = fitted._views(batch.x)
        classes, gate = views.classes.detach().double().numpy(), views.gate.detach().double().numpy()
        own, asked = [], []
        for at, i in enumerate(rows):
            options = [j for j in range(3) if log.given[i, j] >= 0] + [3]
            asked.append(-np.log(softmax(gate[at, options])[options.index(division[i])]))
            if division[i] == 3:
                own.append(-np.log(softmax(classes[at])[log.truth[i]]))
        assert fitted._loss(batch, views).item() == pytest.approx(np.mean(own) + np.mean(asked), rel=1e-5)


def test_thresholds_are_calibrated_on_some_of_many_rows(monkeypatch):
    rows = []

    class Assessor:
        def _assess(self, features, chosen):
            rows.append(chosen.tolist())
            return types.SimpleNamespace(options={})

    monkeypatch.setattr(deferral, "_CALIBRATION", 5)
    for n in (3, 5, 9):
        deferral.Deferral._assess_some(Assessor(), None, torch.arange(n))
    assert rows == [[0, 1, 2], [0, 1, 2, 3, 4], [0, 2, 4, 6, 8]]


def test_answers_are_made_up_only_where_none_was_given():
    log = team(60, missing=0.5)
    fitted = defer.ImputedDeferral(backbone(), max_epochs=1).fit(log.X, log.truth, log.votes)
    batch = CaseData(log.X, log.truth, log.votes).batch(torch.arange(60), torch.device("cpu"))
    made_up = np.tile((log.truth[:, None] + 1) % 3, 3)
    fitted._made_up = torch.from_numpy(made_up)
    found = fitted._e_step(batch, fitted._views(batch.x))[0].exp().detach().numpy()
    known = np.where(log.given < 0, made_up, log.given)
    gate, probs = fitted.defer_proba(log.X), fitted.predict_proba(log.X)
    expected = [complete_posterior(*row, fitted.smoothing) for row in zip(gate, probs, known, log.truth, strict=True)]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_triage_leaves_the_classifier_its_least_coverage_while_training():
    """And no more than that, where experts are better in far more cases."""
    log = team()
    fitted = defer.Triage(backbone(), coverage=(0.8, 1.0), warmup=0, max_epochs=1).fit(log.X, log.truth, log.votes)
    assert int((fitted._division == 3).sum()) == 144


def test_without_missing_answers_probabilistic_is_naive():
    """The gate and the classifier learn the same; only the experts' models, which nobody asks, are there as well."""
    log = team(missing=0.0)
    plain = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))  # nothing random while training
    options = {"max_epochs": 3, "coverage": 0.5, "clip": None}
    naive = defer.NaiveDeferral(plain, linear(6, 4), **options).fit(log.X, log.truth, log.votes)
    for inference in ("mean-field", "exact"):
        full = defer.ProbabilisticDeferral(plain, linear(6, 4), inference=inference, **options)
        full.gate.load_state_dict(naive.gate.state_dict())
        found = full.fit(log.X, log.truth, log.votes)
        np.testing.assert_allclose(found.defer_proba(log.X), naive.defer_proba(log.X), atol=TRAINED)
