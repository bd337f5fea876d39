"""Losses, posteriors and models of experts against plain twins, and gradients against finite differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from deferrals import table, team
from hypothesis import given
from hypothesis import strategies as st
from learners import backbone

from manyhands.defer import impute, losses
from manyhands.defer.confidence import best_threshold
from manyhands.defer.data import CaseData
from manyhands.defer.experts import ConditionalExperts, GroupedExperts, SeparateExperts, expert_models, group_experts
from manyhands.defer.impute import Imputer
from oracles import defer_losses as plain

SMOOTHING = 0.01
#: Of asking each of three experts.
PRICES = [0.2, 0.0, 0.7]


def prices(like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(PRICES, dtype=like.dtype)


def some(seed: int = 0, n: int = 7, m: int = 3, k: int = 4):
    """Logits of classes, experts and options, answers of which some are missing, and the truth; in double precision."""
    rng = np.random.default_rng(seed)
    classes, experts, gate = (torch.from_numpy(rng.normal(size=(n, c)) * 2) for c in (k, m, m + 1))
    answers = torch.from_numpy(rng.integers(-1, k, size=(n, m)))
    truth = torch.from_numpy(rng.integers(k, size=n))
    # Some answers are right.
    answers[::2, 0] = truth[::2]
    models = torch.log_softmax(torch.from_numpy(rng.normal(size=(n, m, k)) * 2), dim=2)
    return classes, experts, gate, answers, truth, models


SURROGATES = [
    (lambda c, e, g, a, t: losses.cross_entropy_surrogate(c, e, a, t, 0.6), "cross_entropy_surrogate", "experts", 0.6),
    (lambda c, e, g, a, t: losses.one_vs_all(c, e, a, t), "one_vs_all", "experts", None),
    (lambda c, e, g, a, t: losses.realizable(c, e, a, t, 1.0), "realizable", "experts", 1.0),
    (lambda c, e, g, a, t: losses.realizable(c, e, a, t, 0.3), "realizable", "experts", 0.3),
    (lambda c, e, g, a, t: losses.mixture_loss(c, g, a, t, prices(c)), "mixture", "gate", PRICES),
]


@pytest.mark.parametrize(("loss", "name", "over", "extra"), SURROGATES)
def test_surrogates(loss, name, over, extra):
    classes, experts, gate, answers, truth, _ = some()
    found = loss(classes, experts, gate, answers, truth)
    second = (experts if over == "experts" else gate).numpy()
    more = () if extra is None else (extra,)
    expected = [
        getattr(plain, name)(classes.numpy()[i], second[i], answers.numpy()[i], int(truth[i]), *more)
        for i in range(len(truth))
    ]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize(("loss", "name", "over", "extra"), SURROGATES)
def test_gradients_of_surrogates(loss, name, over, extra):
    classes, experts, gate, answers, truth, _ = some(1)
    free = [part.requires_grad_() for part in (classes, experts if over == "experts" else gate)]

    def value(first, second):
        parts = (second, gate) if over == "experts" else (experts, second)
        return loss(first, *parts, answers, truth).mean()

    assert torch.autograd.gradcheck(value, free)


def test_surrogates_are_finite_at_extremes():
    classes, experts, gate, answers, truth, _ = some(2)
    for loss, *_ in SURROGATES:
        parts = [(part * 1e4).requires_grad_() for part in (classes, experts, gate)]
        value = loss(*parts, answers, truth).sum()
        value.backward()
        assert torch.isfinite(value)
        assert all(part.grad is None or torch.isfinite(part.grad).all() for part in parts)


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(2, 5))
def test_leaving_an_expert_out_of_the_softmax_keeps_the_minimiser(seed, m, k):
    """With logits at log-probabilities, the gradient of the expected loss vanishes whoever answers."""
    rng = np.random.default_rng(seed)
    classes, accuracy = rng.dirichlet(np.ones(k)), rng.uniform(0.05, 0.95, m)
    answered = rng.random(m) < 0.6
    logits = [torch.log(torch.from_numpy(part)).requires_grad_() for part in (classes, accuracy)]
    total = torch.zeros((), dtype=torch.float64)
    # Every truth with its probability, and every expert right or wrong with theirs, one at a time.
    for y in range(k):
        truth = torch.tensor([y])
        for pattern in np.ndindex(*(2,) * m):
            chance = classes[y] * np.prod(np.where(pattern, accuracy, 1 - accuracy))
            said = np.where(answered, np.where(pattern, y, (y + 1) % k), -1)
            rows = [part[None] for part in logits]
            loss = losses.cross_entropy_surrogate(*rows, torch.from_numpy(said)[None], truth, 1.0)
            total = total + chance * loss[0]
    total.backward()
    assert logits[0].grad.abs().max() < 1e-9
    assert logits[1].grad.abs().max() < 1e-9


# ----------------------------------------------------------------------------------------------------- E-steps


def posteriors(seed: int = 0):
    classes, _, gate, answers, truth, models = some(seed)
    return torch.log_softmax(gate, dim=1), models, answers, truth, torch.log_softmax(classes, dim=1)


def test_complete_posterior():
    log_gate, _, answers, truth, log_probs = posteriors()
    evidence = losses.evidence(answers, truth, log_probs, SMOOTHING, -torch.inf)
    found = losses.posterior(log_gate, evidence).exp().numpy()
    for i in range(len(truth)):
        row = (log_gate.exp().numpy()[i], log_probs.exp().numpy()[i], answers.numpy()[i], int(truth[i]))
        np.testing.assert_allclose(found[i], plain.complete_posterior(*row, SMOOTHING), atol=1e-12)


def gates(seed: int = 0):
    """Logits of a gate, posteriors of the option and who is one; the first row has the classifier alone."""
    _, _, gate, answers, truth, _ = some(seed)
    options = torch.nn.functional.pad(answers >= 0, (0, 1), value=True)
    options[0, :-1] = False
    target = torch.from_numpy(np.random.default_rng(seed).dirichlet(np.ones(gate.shape[1]), size=len(truth)))
    return gate, target, options


def test_gate_loss():
    gate, target, options = gates()
    for chosen, kept in ((options, options), (None, torch.ones_like(options))):
        found = losses.gate_loss(gate, target, chosen).numpy()
        rows = zip(gate.numpy(), target.numpy(), kept.numpy(), strict=True)
        np.testing.assert_allclose(found, [plain.gate_loss(*row) for row in rows], rtol=1e-12, atol=1e-15)


def test_gradients_of_the_gate_loss():
    gate, target, options = gates(1)
    gate.requires_grad_()
    assert torch.autograd.gradcheck(lambda g: losses.gate_loss(g, target, options), gate)
    losses.gate_loss(gate, target, options).sum().backward()
    assert (gate.grad[~options] == 0).all()
    assert (gate.grad[0] == 0).all()


def test_the_gate_loss_is_finite_at_extremes():
    """Also where the posterior has nothing for those who are an option, as a workload may ask."""
    gate, target, options = gates(2)
    gate = (gate.float() * 1e4).requires_grad_()
    target = target.float() * torch.where(options, 0.0, 1.0)
    target[1:3] = torch.tensor([1e-42, 0.0, 0.0, 1.0])
    losses.gate_loss(gate, target, options).sum().backward()
    assert torch.isfinite(gate.grad).all()


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("n_iter", [1, 2, 10])
def test_mean_field(n_iter, released):
    given = posteriors(3)
    option, answer = losses.mean_field(*given, smoothing=SMOOTHING, n_iter=n_iter, released=released)
    _compare(
        option.exp().numpy(), answer.numpy(), given, lambda *row: plain.mean_field(*row, SMOOTHING, n_iter, released)
    )


def test_exact_posterior():
    given = posteriors(4)
    option, answer = losses.exact_posterior(*given, smoothing=SMOOTHING)
    _compare(option.exp().numpy(), answer.numpy(), given, lambda *row: plain.exact(*row, SMOOTHING))


def _compare(option, answer, parts, twin):
    log_gate, models, answers, truth, log_probs = parts
    for i in range(len(truth)):
        gate, experts, probs = (part.exp().numpy()[i] for part in (log_gate, models, log_probs))
        q_z, q_t = twin(gate, experts, probs, answers.numpy()[i], int(truth[i]))
        np.testing.assert_allclose(option[i], q_z, atol=1e-12)
        missing = answers.numpy()[i] < 0
        np.testing.assert_allclose(answer[i][missing], q_t[missing], atol=1e-12)


def test_mean_field_is_a_fixed_point_and_no_better_than_exact():
    """Its evidence lower bound never exceeds the evidence, and later iterations no longer move it."""
    log_gate, models, answers, truth, log_probs = posteriors(5)
    given = (log_gate, models, answers, truth, log_probs)
    few, many = (losses.mean_field(*given, smoothing=0.1, n_iter=n)[0] for n in (200, 201))
    np.testing.assert_allclose(few, many, atol=1e-8)


def test_all_answers_given_leaves_nothing_to_infer():
    log_gate, models, _, truth, log_probs = posteriors(6)
    answers = torch.from_numpy(np.random.default_rng(0).integers(4, size=(len(truth), 3)))
    expected = losses.posterior(log_gate, losses.evidence(answers, truth, log_probs, SMOOTHING, 0.0))
    for found in (
        losses.mean_field(log_gate, models, answers, truth, log_probs, smoothing=SMOOTHING, n_iter=10)[0],
        losses.exact_posterior(log_gate, models, answers, truth, log_probs, smoothing=SMOOTHING)[0],
    ):
        np.testing.assert_allclose(found, expected, atol=1e-12)


# -------------------------------------------------------------------------------------------- models of experts


def test_models_of_experts_are_distributions_and_start_alike():
    log = team(n_experts=5)
    data = CaseData(log.X, log.truth, table(log.given))
    x, accuracy = torch.from_numpy(log.X[:4]), np.random.default_rng(0).random((5, 3))
    network = backbone().eval()
    kinds = {"separate": SeparateExperts, "conditional": ConditionalExperts}
    for kind, made in kinds.items():
        models = expert_models(network, data, accuracy, kind).eval()
        assert type(models) is made
        np.testing.assert_allclose(models(x).exp().sum(dim=2).detach(), 1, rtol=1e-5)
        assert models(x).shape == (4, 5, 3)
    groups = expert_models(network, data, accuracy, groups=2).eval()
    assert isinstance(groups, GroupedExperts)
    # A sum over cases and experts becomes a mean for each network: of its experts' cases, or of the answers.
    assert groups.scale(10, 7) == pytest.approx(2 / 5 / 10)
    assert SeparateExperts(network, 5).scale(10, 7) == pytest.approx(1 / 10)
    conditional = expert_models(network, data, accuracy, "conditional")
    assert (conditional.scale(10, 7), conditional.scale(10, 0)) == (pytest.approx(1 / 7), 1)
    assert isinstance(expert_models(network, data, np.ones((8, 3))), ConditionalExperts)
    assert isinstance(expert_models(network, data, np.ones((7, 3))), SeparateExperts)


def test_experts_who_do_alike_are_one_group():
    rng = np.random.default_rng(0)
    centres = np.array([[0.9, 0.9, 0.1], [0.1, 0.9, 0.9], [0.5, 0.5, 0.5]])
    truth = rng.integers(3, size=60)
    found = group_experts(centres[truth] + rng.normal(size=(60, 3)) * 0.05, 3)
    assert len({(a, b) for a, b in zip(truth, found, strict=True)}) == 3
    assert group_experts(np.ones((4, 2)), 3).max() == 0  # no more groups than there are differences


# ----------------------------------------------------------------------------------------- answers made up


def imputer(method: str):
    """One whose weak view moves the features further each time, a batch, its features and answers, and the models."""
    log = team(40)
    data = CaseData(log.X, log.truth, table(log.given))
    torch.manual_seed(1)
    models = SeparateExperts(torch.nn.Linear(6, 3), 3)
    for part in models.parameters():
        torch.nn.init.normal_(part)
    views = itertools.count(1)
    made = Imputer(models, method, lambda x: x + 0.1 * next(views), lambda x: 0.5 * x, max_epochs=4)
    made._parts = torch.nn.ModuleDict({"network": models})
    made._start_epoch(1, data)

    def probs(x) -> np.ndarray:
        return models(x).exp().detach().double().numpy()

    return made, data.batch(torch.arange(40), torch.device("cpu")), torch.from_numpy(log.X), log.given, probs


def test_mixmatch():
    made, batch, x, given_, probs = imputer("mixmatch")
    torch.manual_seed(2)
    found = made._mixmatch(batch).detach().numpy()
    torch.manual_seed(2)
    share = float(torch.distributions.Beta(0.75, 0.75).sample())
    share, other = max(share, 1 - share), torch.randperm(40)
    third = x + 0.3
    mixed = probs(share * third + (1 - share) * third[other])
    expected = plain.mixmatch((probs(x + 0.1), probs(x + 0.2)), mixed, given_, share, other.numpy(), 75 / 4)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_features_that_are_no_numbers_are_not_mixed(monkeypatch):
    made, batch, x, given_, probs = imputer("mixmatch")
    monkeypatch.setattr(impute, "_is_float", lambda x: False)
    found = made._mixmatch(batch).detach().numpy()
    views = probs(x + 0.1), probs(x + 0.2)
    expected = plain.mixmatch(views, probs(x + 0.3), given_, 1.0, np.arange(40), 75 / 4)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_fixmatch():
    made, batch, x, given_, probs = imputer("fixmatch")
    weak, strong = probs(x + 0.1), probs(0.5 * x)
    sure = weak.max(axis=2)[given_ < 0] >= 0.95
    assert sure.any()
    assert not sure.all()
    expected = plain.fixmatch(weak, strong, given_)
    np.testing.assert_allclose(made._fixmatch(batch).detach(), expected, rtol=1e-4, atol=1e-6)


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0])), min_size=1, max_size=12))
def test_the_threshold_gains_all_that_any_cut_can(pairs):
    confidence, gain = np.array(pairs, float).T
    confidence /= 4
    cut = best_threshold(confidence, gain)
    assert gain[confidence < cut].sum() == pytest.approx(plain.best_threshold(confidence, gain))
