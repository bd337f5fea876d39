"""Costs of asking, penalties for missed shares, cases ranked for the classifier, and looking for a cost."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from deferrals import table, team
from hypothesis import given
from hypothesis import strategies as st
from learners import backbone

from manyhands import Annotations, defer, load
from manyhands.defer import experts, losses, probabilistic
from manyhands.defer.data import CaseData
from manyhands.errors import ConvergenceWarning
from oracles import defer_losses as plain

SETTINGS = {"max_epochs": 8, "batch_size": 60, "lr": 0.1}


# ------------------------------------------------------------------------------------------------------- losses


def test_costs_and_penalties_are_those_of_their_twins():
    rng = np.random.default_rng(0)
    gate, cost = rng.normal(size=(9, 4)) * 3, np.array([0.5, -1.0, 2.0, 0.0])
    posterior = rng.dirichlet(np.ones(4), 9)
    found = losses.charge_costs(torch.from_numpy(np.log(posterior)), torch.from_numpy(cost)).exp().numpy()
    np.testing.assert_allclose(found, [plain.charged(row, cost) for row in posterior], rtol=1e-12)
    for lower, upper in (([0, 0, 0, 0.9], [1, 1, 1, 0.9]), ([0.1, 0.4, 0, 0], [0.2, 0.9, 1, 0.01])):
        bounds = [torch.tensor(bound, dtype=torch.float64) for bound in (lower, upper)]
        value = losses.share_penalty(torch.from_numpy(gate), *bounds).item()
        assert value == pytest.approx(plain.share_penalty(gate, lower, upper), rel=1e-12)
        assert value > 0
        value = losses.share_penalty(torch.from_numpy(gate), *bounds, by_case=True).item()
        assert value == pytest.approx(plain.case_penalty(gate, lower, upper), rel=1e-12)


def test_gradients_of_the_penalty():
    gate = torch.from_numpy(np.random.default_rng(1).normal(size=(5, 3))).requires_grad_()
    bounds = [torch.tensor(bound, dtype=torch.float64) for bound in ([0, 0.5, 0.7], [0.05, 1, 0.7])]
    assert torch.autograd.gradcheck(lambda g: losses.share_penalty(g, *bounds), gate)


@pytest.mark.parametrize("constraint", ["penalty", "case-penalty"])
@pytest.mark.filterwarnings(r"ignore:constraint='(case-)?penalty'")
def test_the_loss_of_a_batch_with_costs_and_a_penalty(constraint):
    """Cross-entropies of classifier and gate with the charged posterior, and the weighted penalty, case by case."""
    log = team(40, missing=0.0)
    cost = {0: 0.7, 2: -0.4}
    options = {"cost": cost, "constraint": constraint, "penalty": 3.0, "coverage": 0.8}
    fitted = defer.NaiveDeferral(backbone(), **SETTINGS | {"max_epochs": 1} | options)
    fitted.fit(log.X, log.truth, log.votes)
    batch = CaseData(log.X, log.truth, log.votes).batch(torch.arange(40), torch.device("cpu"))
    with torch.no_grad():
        views = fitted._views(batch.x)
        found = fitted._loss(batch, views).item()
    gate, classes = views.gate.double().numpy(), views.classes.double().numpy()
    total = 0.0
    for i in range(40):
        probs = plain.softmax(classes[i])
        free = plain.complete_posterior(plain.softmax(gate[i]), probs, log.given[i], log.truth[i], fitted.smoothing)
        target = plain.charged(free, [0.7, 0.0, -0.4, 0.0])
        total += plain.gate_loss(gate[i], target, np.ones(4, bool)) - np.log(probs[log.truth[i]])
    penalty = {"penalty": plain.share_penalty, "case-penalty": plain.case_penalty}[constraint]
    expected = total / 40 + 3 * penalty(gate, [0, 0, 0, 0.8], [1, 1, 1, 0.8])
    assert found == pytest.approx(expected, rel=1e-5)


def test_a_coverage_by_cases_is_the_term_of_the_paper():
    """The mean over cases of (Pr(classifier | x) − c)², with a workload that is free otherwise."""
    gate = torch.from_numpy(np.random.default_rng(3).normal(size=(9, 3)))
    bounds = [torch.tensor(bound, dtype=torch.float64) for bound in ([0, 0, 0.4], [1, 1, 0.4])]
    expected = np.mean([(plain.softmax(row)[2] - 0.4) ** 2 for row in gate.numpy()])
    assert losses.share_penalty(gate, *bounds, by_case=True).item() == pytest.approx(expected)


def test_explicit_averaging_is_equation_33():
    """Of the second step: its batch counts by its step size, and the batch before by the rest."""
    log = team(40, missing=0.3)
    model = defer.ProbabilisticDeferral(backbone(), averaging=0.6, experts="separate", **SETTINGS | {"max_epochs": 1})
    model.fit(log.X, log.truth, log.votes)
    model._parts.eval()
    data = CaseData(log.X, log.truth, log.votes)
    first, second = (data.batch(torch.arange(*part), torch.device("cpu")) for part in ((0, 20), (20, 40)))
    with torch.no_grad():
        model._former, steps = None, int(model._n_steps)
        assert steps > 0
        alone = []
        for batch in (first, second):
            target, answers = model._e_step(batch, model._forward(batch.x))
            inferred = probabilistic._Inferred(batch, target.exp(), answers)
            alone.append(model._m_step(inferred, model._forward(batch.x)).item())
        model._n_steps = torch.zeros((), dtype=torch.int64)
        losses_of_steps = [model._loss(batch, model._forward(batch.x)).item() for batch in (first, second)]
    tau = 2**-0.6
    assert losses_of_steps == pytest.approx([alone[0], (1 - tau) * alone[0] + tau * alone[1]], rel=1e-6)
    with pytest.raises(ValueError, match="averaging"):
        defer.NaiveDeferral(backbone(), averaging=0.2).fit(log.X, log.truth, log.votes)


# ------------------------------------------------------------------------------------------------- what they do


@pytest.mark.parametrize("make", [defer.NaiveDeferral, defer.ProbabilisticDeferral])
def test_the_more_asking_costs_the_less_is_asked(make):
    log = team(300, separation=1.5)
    coverages = {"gate": [], "accuracy": []}
    for cost in (-2.0, 0.0, 2.0):
        fitted = make(backbone(), cost=cost, **SETTINGS).fit(log.X, log.truth, log.votes)
        for by, found in coverages.items():
            found.append(fitted.decide(log.X, how="argmax", by=by).coverage)
        assert fitted.expected_accuracy(log.X).max() <= 1
    for found in coverages.values():
        assert found[0] < 0.1
        assert found[0] <= found[1] < found[2]
        assert found[2] > 0.9


def test_an_expensive_expert_is_asked_last():
    log = team(300, n_experts=2, separation=1.0)
    fitted = defer.NaiveDeferral(backbone(), cost={0: 4.0}, **SETTINGS).fit(log.X, log.truth, log.votes)
    for by in ("gate", "accuracy"):
        taken = np.bincount(fitted.decide(log.X, how="argmax", by=by).who, minlength=3)
        assert taken[0] == 0 < taken[1]


def test_an_anchored_gate_begins_with_what_options_are_worth_and_learns_from_there():
    log = team(120)
    cost = {1: 0.3}
    start = defer.NaiveDeferral(backbone(), lr=0.0, max_epochs=1, cost=cost).fit(log.X, log.truth, log.votes)
    right, found = start.expected_accuracy(log.X), start.defer_proba(log.X)
    for i in range(0, 120, 7):
        worth = [r * np.exp(-c) for r, c in zip(right[i], [0.0, 0.3, 0.0, 0.0], strict=True)]
        np.testing.assert_allclose(found[i], np.array(worth) ** 4 / sum(w**4 for w in worth), rtol=1e-4)
    learnt = defer.NaiveDeferral(backbone(), lr=0.1, max_epochs=5, cost=cost).fit(log.X, log.truth, log.votes)
    assert learnt.gate_.layers[-1].weight.abs().max() > 0.01


@pytest.mark.parametrize(("cost", "each"), [(0.25, [0.25, 0.25, 0.25]), ({0: 0.3, 2: 0.1}, [0.3, 0.0, 0.1])])
def test_decisions_of_a_mixture_by_accuracy_count_its_cost(cost, each):
    log = team(200)
    fitted = defer.MixtureOfExperts(backbone(), cost=cost, max_epochs=2).fit(log.X, log.truth, log.votes)
    worth = fitted.expected_accuracy(log.X) - [*each, 0.0]
    who = fitted.decide(log.X, how="argmax", by="accuracy").who
    assert (who == worth.argmax(axis=1)).all()


#: All that take costs.
PRICED = [
    (defer.NaiveDeferral, {}),
    (defer.NaiveDeferral, {"gate": None}),
    (defer.NaiveDeferral, {"unanswered": "wrong"}),
    (defer.ProbabilisticDeferral, {}),
    (defer.ProbabilisticDeferral, {"inference": "mean-field"}),
    (defer.ProbabilisticDeferral, {"experts": "confusion", "constraint": "epoch", "coverage": (0.0, 0.9)}),
    (defer.ImputedDeferral, {}),
    (defer.MixtureOfExperts, {}),
]


@pytest.mark.parametrize(("make", "options"), PRICED)
def test_a_cost_goes_to_the_expert_it_names(make, options):
    """Experts who are all alike, with a tenth of the answers missing: only what they cost tells them apart."""
    log = team(300, separation=0.3)
    cases, experts = np.nonzero(np.random.default_rng(0).random((300, 3)) < 0.9)
    votes = Annotations.from_arrays(cases, np.array(["Ann", "Bob", "Cy"])[experts], log.truth[cases])
    for cheap in ("Ann", "Bob", "Cy"):
        cost = dict.fromkeys({"Cy", "Ann", "Bob"} - {cheap}, 5.0)
        fitted = make(backbone(), cost=cost, **SETTINGS | options).fit(log.X, log.truth, votes)
        for by in ("gate", "accuracy"):
            taken = np.bincount(fitted.decide(log.X, how="argmax", by=by).who, minlength=4)
            assert taken[:3].argmax() == list(fitted.experts_).index(cheap)
            assert np.sort(taken[:3])[:2].sum() == 0


@pytest.mark.parametrize(
    ("make", "worth"),
    [(defer.NaiveDeferral, lambda right, cost: right * np.exp(-cost)), (defer.MixtureOfExperts, np.subtract)],
)
def test_held_out_cases_count_what_was_paid_for_them(make, worth):
    """The best epoch is the one whose right answers are worth most, not the one that asks the dearest."""
    log = team(90)
    cost = np.array([0.9, 0.2, 0.0, 0.0])
    fitted = make(backbone(), cost=dict(enumerate(cost[:3])), max_epochs=2).fit(log.X, log.truth, log.votes)
    batch = CaseData(log.X, log.truth, log.votes).batch(torch.arange(90), torch.device("cpu"))
    with torch.no_grad():
        views = fitted._views(batch.x)
        found, number = fitted._judged(batch, views)
    scores, own = fitted._scores(views).numpy(), views.classes.argmax(dim=1).numpy()
    total = 0.0
    for i in range(90):
        options = [j for j in range(3) if log.given[i, j] >= 0] + [3]
        best = max(options, key=lambda j: scores[i, j])
        right = float((own[i] if best == 3 else log.given[i, best]) == log.truth[i])
        total += worth(right, cost[best])
    assert found.item() == pytest.approx(total, rel=1e-6)
    assert number.item() == 90


def test_costs_and_workloads_of_numpys_numbers_are_kept_in_files(tmp_path):
    log = team(90)
    given = {"cost": dict(zip(np.arange(3), np.array([0.3, 2.0, 0.0]), strict=True))}
    given |= {"workload": {np.int64(1): (np.float64(0.0), np.float32(0.25))}}
    fitted = defer.NaiveDeferral(backbone(), max_epochs=1, **given).fit(log.X, log.truth, log.votes)
    fitted.save(tmp_path / "team.pt")
    again = load(tmp_path / "team.pt", classifier=backbone(seed=1))
    assert {name: again.get_params()[name] for name in given} == given
    for how in ({"by": "accuracy"}, {"how": "argmax", "by": "accuracy"}, {"how": "argmax"}):
        assert (again.decide(log.X, **how).who == fitted.decide(log.X, **how).who).all()


def test_a_heavy_penalty_keeps_the_coverage_on_average():
    log = team(400, separation=1.5)
    for coverage in (0.2, 0.7):
        # Small steps: large ones overshoot, with most seeds, to a gate that is all but sure of the classifier, and no
        # gradient leads back from there.
        options = {"coverage": coverage, "constraint": "penalty", "penalty": 10.0, "lr": 0.01, "max_epochs": 20}
        fitted = defer.NaiveDeferral(backbone(), **SETTINGS | options).fit(log.X, log.truth, log.votes)
        assert fitted.defer_proba(log.X)[:, -1].mean() == pytest.approx(coverage, abs=0.05)


def test_a_gate_that_misses_its_shares_is_reported():
    log = team(400, separation=1.5)
    options = {"coverage": 0.2, "constraint": "penalty", "penalty": 0.0, "max_epochs": 5}
    with pytest.warns(ConvergenceWarning, match=r"0\.\d+.*0\.20"):
        defer.NaiveDeferral(backbone(), **SETTINGS | options).fit(log.X, log.truth, log.votes)


# ------------------------------------------------------------------------------------------------------- ranked


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_ranked_is_the_top_for_the_classifier_and_an_arg_max_for_the_rest(seed, coverage):
    scores = np.random.default_rng(seed).normal(size=(10, 3)).round(1)
    who = defer.ranked(scores, coverage)
    order = sorted(range(10), key=lambda i: (-scores[i, 2], i))
    top = set(order[: round(coverage * 10)])
    for i in range(10):
        assert who[i] == (2 if i in top else int(scores[i].argmax()))


def test_ranked_decisions_of_a_team_and_what_they_refuse():
    log = team(100)
    fitted = defer.NaiveDeferral(backbone(), max_epochs=2).fit(log.X, log.truth, log.votes)
    scores = np.log(fitted.defer_proba(log.X))
    found = fitted.decide(log.X, how="ranked", coverage=0.4, by="gate").who
    assert (found == defer.ranked(scores, 0.4)).all()
    for options, message in (
        ({}, "None"),
        ({"coverage": (0.1, 0.2)}, "coverage"),
        ({"coverage": 0.4, "workload": "balanced"}, "workload"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted.decide(log.X, how="ranked", **options)
    with pytest.raises(ValueError, match=r"coverage.*1"):
        defer.ranked(scores, 1.5)
    with pytest.raises(ValueError, match="forbids it"):
        defer.ranked([[0.5, -np.inf]], 1.0)


def test_a_curve_of_ranked_cases():
    scores = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.8, 0.2]])
    correct = np.array([[1, 0], [0, 1], [0, 1], [1, 0]])
    curve = defer.coverage_accuracy(scores, correct, n_points=5, how="ranked")
    assert curve.coverage.tolist() == [0.25, 0.25, 0.5, 0.75, 1.0]
    assert curve.accuracy.tolist() == [0.75, 0.75, 1.0, 0.75, 0.5]
    with pytest.raises(ValueError, match="keeps no bounds"):
        defer.coverage_accuracy(scores, correct, lower=0.5, upper=0.5, how="ranked")
    with pytest.raises(ValueError, match="how"):
        defer.coverage_accuracy(scores, correct, how="top")


# -------------------------------------------------------------------------------------------------------- sweep


def test_a_sweep_finds_the_cost_of_a_coverage():
    log = team(300, separation=1.2)
    model = defer.NaiveDeferral(backbone(), **SETTINGS)
    found = defer.sweep(model, log.X, log.truth, log.votes, coverage=0.6, tolerance=0.1)
    assert found.coverage == pytest.approx(0.6, abs=0.1)
    assert found.model.decide(log.X, how="argmax", by="gate").coverage == found.coverage
    assert (found.cost, found.coverage) == found.tried[-1]
    assert found.model.cost == found.cost
    assert model.cost == 0.0


def test_a_sweep_that_misses_says_so():
    log = team(60)
    model = defer.NaiveDeferral(backbone(), max_epochs=1)
    with pytest.warns(ConvergenceWarning, match=r"2 tried.*50.0"):
        found = defer.sweep(
            model, log.X, log.truth, table(log.answers), coverage=0.5, between=(50, 90), max_fits=2, tolerance=0
        )
    assert len(found.tried) == 2
    assert (found.cost, found.coverage) in found.tried


@pytest.mark.parametrize(
    ("model", "options", "error", "message"),
    [
        (defer.OneVsAll(backbone()), {}, TypeError, "cost"),
        (defer.NaiveDeferral(backbone(), coverage=0.5), {}, ValueError, "cost"),
        (defer.NaiveDeferral(backbone(), workload="balanced"), {}, ValueError, "cost"),
        (defer.NaiveDeferral(backbone(), cost={0: 1.0}), {}, ValueError, "experts"),
        (defer.NaiveDeferral(backbone()), {"coverage": 2.0}, ValueError, "coverage.*1"),
        (defer.NaiveDeferral(backbone()), {"between": (1.0, 0.0)}, ValueError, "order"),
        (defer.NaiveDeferral(backbone()), {"max_fits": 0}, ValueError, "max_fits.*1"),
    ],
)
def test_a_sweep_refuses_what_it_cannot_do(model, options, error, message):
    log = team(30)
    with pytest.raises(error, match=message):
        defer.sweep(model, log.X, log.truth, log.votes, **{"coverage": 0.5} | options)


# ------------------------------------------------------------------------------------- who is like which, and who errs


def test_the_confusion_of_a_gate():
    who = [0, 0, 0, 2, 2]
    correct = [[1, 0, np.nan], [0, 1, np.nan], [1, 1, 0], [0, 1, 1], [np.nan, 1, 0]]
    result = defer.gate_confusion(who, correct)
    np.testing.assert_allclose(result, [[2 / 3, 2 / 3, 0], [np.nan] * 3, [0, 1, 0.5]])
    with pytest.raises(ValueError, match="who has 1 entries"):
        defer.gate_confusion([0], correct)


def test_experts_are_grouped_by_hierarchical_clustering():
    rng = np.random.default_rng(0)
    kinds = np.array([[0.9, 0.2, 0.5], [0.3, 0.8, 0.5], [0.6, 0.6, 0.95]])
    group = rng.integers(3, size=20)
    result = experts.hierarchical(kinds[group] + rng.normal(scale=0.02, size=(20, 3)))
    assert len(np.unique(result)) == 3
    assert all((result[i] == result[j]) == (group[i] == group[j]) for i in range(20) for j in range(20))
    assert experts.hierarchical(np.full((4, 2), 0.5)).tolist() == [0, 0, 0, 0]
    assert experts.hierarchical(np.array([[0.1], [0.9]])).tolist() == [0, 1]
    log = team(60)
    model = defer.ProbabilisticDeferral(backbone(), groups="hierarchical", **SETTINGS | {"max_epochs": 1})
    model.fit(log.X, log.truth, log.votes)
    assert 1 <= model._models.of_groups.n_experts <= 3
    with pytest.raises(ValueError, match="groups"):
        defer.ProbabilisticDeferral(backbone(), groups="tree").fit(log.X, log.truth, log.votes)
