"""Experts known by sets of answers: the encoder against its twin, and newcomers who were not in training."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
import torch
from deferrals import table, team
from learners import backbone
from torch import nn

import manyhands as mh
from manyhands import defer
from manyhands.defer.data import CaseData
from manyhands.defer.population import RightGivenExpert, SetEncoder
from oracles.defer_losses import softmax

CLASSES, OLD, NEW = 4, 30, 12


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def layers(module: Iterable[nn.Module]) -> list[tuple[np.ndarray, np.ndarray]]:
    return [
        (layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy())
        for layer in module
        if isinstance(layer, nn.Linear)
    ]


def fitted(**options):
    log = team(80, n_experts=3)
    model = defer.SetDeferral(backbone(), **{"max_epochs": 2, "lr": 0.05, "context": 7} | options)
    return log, model.fit(log.X, log.truth, log.votes)


def known(model, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scaled features of one case, and log-probabilities of its classes."""
    trunk, head = model.network_[:-1], model.network_[-1]
    with torch.no_grad():
        features = trunk(torch.from_numpy(x[None]))
        classes = head(features)[0].double().numpy()
    features = features[0].double().numpy()
    features = (features - features.mean()) / np.sqrt(features.var() + 1e-5)
    return features, np.log(softmax(classes))


def logit(model, expert: list[tuple[np.ndarray, int, int]], x: np.ndarray) -> float:
    """The twin: whether an expert with these (features, answer, truth) is right in a case, one element at a time."""
    encoder, right = model._parts["encoder"], model._parts["right"]
    (w1, b1), (w2, b2) = layers(encoder.element)
    (w3, b3), (w4, b4) = layers(encoder.summary)
    total = np.zeros(len(b2))
    imaginary, average = encoder.strength.exp().item(), encoder.average.double().numpy()
    rights, asked = imaginary * average, np.full(3, imaginary)
    for features, answer, truth in expert:
        said, true = np.eye(3)[answer], np.eye(3)[truth]
        element = np.concatenate([features, said, true, said * true])
        total += relu(w2 @ relu(w1 @ element + b1) + b2)
        asked[truth] += 1
        rights[truth] += answer == truth
    mean = total / max(len(expert), 1)
    embedding = w4 @ relu(w3 @ np.append(mean, np.log(1 + len(expert))) + b3) + b4
    features, log_probs = known(model, x)
    expected = np.exp(log_probs) @ (rights / asked)
    ((w5, b5),) = layers(right.hidden)
    hidden = relu(w5 @ np.concatenate([features, log_probs]) + b5)
    ((w6, b6),), ((w7, b7),) = layers([right.average]), layers([right.patterns])
    return float(np.log(expected / (1 - expected)) + (w6 @ hidden + b6)[0] + (w7 @ hidden + b7) @ embedding)


def test_the_encoder_and_the_model_of_being_right_are_those_of_their_twin():
    log, model = fitted()
    expected = model.expected_accuracy(log.X)
    for expert in range(3):
        answered = np.flatnonzero(log.given[:, expert] >= 0)
        pairs = [(known(model, log.X[i])[0], log.given[i, expert], log.truth[i]) for i in answered]
        for i in (0, 17):
            assert expected[i, expert] == pytest.approx(1 / (1 + np.exp(-logit(model, pairs, log.X[i]))), rel=1e-4)


def test_the_loss_of_a_batch_and_the_sets_it_draws():
    """Of a batch of all cases nothing is left to draw; of a few, sets hold other cases' answers, each once."""
    log, model = fitted()
    data = CaseData(log.X, log.truth, log.votes)
    model._start_epoch(0, data)
    torch.manual_seed(0)
    assert not model._drawn(torch.arange(3), torch.arange(80)).any()
    batch = data.batch(torch.arange(6), torch.device("cpu"))
    sums = model._drawn(torch.arange(3), batch.tasks)
    n_drawn = sums[:, 32:35].sum(dim=1)
    assert ((n_drawn >= 0) & (n_drawn <= 7)).all()
    model._parts.train()
    views = model._forward(batch.x)
    torch.manual_seed(0)
    model._drawn(torch.arange(3), torch.arange(80))  # the same numbers as before
    found = model._loss(batch, views).item()
    with torch.no_grad():
        logits = model._right_logits(views.gate, views.classes, model._encoder(sums)).double().numpy()
    losses = []
    for i in range(6):
        for j in range(3):
            if log.given[i, j] >= 0:
                right = log.given[i, j] == log.truth[i]
                losses.append(np.log(1 + np.exp(-logits[i, j] if right else logits[i, j])))
    classes = views.classes.detach().double().numpy()
    own = -np.mean([np.log(softmax(row)[t]) for row, t in zip(classes, log.truth[:6], strict=True)])
    assert found == pytest.approx(own + np.mean(losses), rel=1e-5)


def test_gradients_of_the_encoder():
    torch.manual_seed(0)
    encoder = SetEncoder(2, torch.tensor([0.5, 0.6, 0.7])).double()
    right = RightGivenExpert(2, 3).double()
    for weight in right.parameters():
        nn.init.normal_(weight)
    features = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    owner, codes = torch.tensor([0, 1, 1, 0, 1]), torch.tensor([0, 1, 2, 1, 0])
    log_probs = torch.log_softmax(torch.randn(5, 3, dtype=torch.float64), dim=1)

    def logits(given, strength):
        made = encoder.elements(given, codes, codes.flip(0))
        sums = torch.zeros(2, encoder.width, dtype=torch.float64).index_add(0, owner, made)
        return right(given, log_probs, torch.func.functional_call(encoder, {"strength": strength}, (sums,)))

    strength = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(logits, (features, strength))


# ---------------------------------------------------------------------------------------------------- newcomers


@pytest.fixture(scope="module")
def population():
    """Experts each of whom knows some of four classes and guesses the others: which, nobody is told."""
    X, truth = mh.categorical.synthetic.gaussians(1600, CLASSES, n_features=6, separation=1.5, seed=3)
    rng = np.random.default_rng(3)
    knows = rng.random((OLD + NEW, CLASSES)) < 0.4
    answers = np.where(knows[:, truth].T, truth[:, None], rng.integers(CLASSES, size=(1600, OLD + NEW)))
    given = np.where(rng.random((1000, OLD)) < 0.7, -1, answers[:1000, :OLD])
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, CLASSES))
    model = defer.SetDeferral(network, max_epochs=15, batch_size=100, lr=0.1)
    return X.astype(np.float32), truth, answers, model.fit(X[:1000].astype(np.float32), truth[:1000], table(given))


def newcomers(answers: np.ndarray, few: int) -> mh.Annotations:
    """The first answers of those who were not in training, under names of their own."""
    cases, experts = np.divmod(np.arange(few * NEW), NEW)
    return mh.Annotations.from_arrays(cases, OLD + experts, answers[cases, OLD + experts])


@pytest.mark.parametrize(("few", "gain"), [(10, 0.02), (50, 0.06)])
def test_newcomers_with_a_few_answers_are_asked_what_they_know(population, few: int, gain: float):
    """Chosen among by the case, they are right more often than the average of them; and more so with more answers."""
    X, truth, answers, model = population
    larger = model.with_experts(X[:few], truth[:few], newcomers(answers, few))
    assert larger.experts_.tolist() == list(range(OLD + NEW))
    new = slice(1000, None)
    # Only newcomers may be asked.
    score = larger.score(X[new], truth[new], table(answers[new]), coverage=0.0, workload=dict.fromkeys(range(OLD), 0.0))
    average = (answers[new, OLD:] == truth[new, None]).mean()
    assert score > average + gain


def test_newcomers_are_as_if_they_had_been_there(population):
    """One who gave the very answers of an expert of the team has the same embedding, and the others keep theirs."""
    X, truth, answers, model = population
    twin = mh.Annotations.from_arrays(range(40), [99] * 40, answers[:40, 3])
    larger = model.with_experts(X[:40], truth[:40], twin)
    again = model.with_experts(X[:40][::-1].copy(), truth[:40][::-1], twin, tasks=list(range(40))[::-1])
    np.testing.assert_allclose(larger.embeddings_, again.embeddings_, atol=1e-5)
    assert (larger.embeddings_[:-1] == model.embeddings_).all()
    assert model.experts_.tolist() == list(range(OLD))
    assert larger.confusion_.shape == (OLD + 1, CLASSES, CLASSES)
    assert larger.workers_frame().num_rows == OLD + 1


def test_a_larger_team_is_saved_and_comes_back(population, tmp_path):
    X, truth, answers, model = population
    larger = model.with_experts(X[:30], truth[:30], newcomers(answers, 30))
    larger.save(tmp_path / "team.pt")
    network = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, CLASSES))
    again = mh.load(tmp_path / "team.pt", classifier=network)
    assert again.experts_.tolist() == larger.experts_.tolist()
    assert (again.expected_accuracy(X[:50]) == larger.expected_accuracy(X[:50])).all()


def test_newcomers_need_thresholds_of_their_own_and_classes_that_are_known(population):
    X, truth, answers, model = population
    larger = model.with_experts(X[:30], truth[:30], newcomers(answers, 30))
    with pytest.raises(ValueError, match=r"calibrate\(X\)"):
        larger.decide(X, coverage=0.5, how="threshold")
    shares = (larger.calibrate(X[:800]).decide(X[800:], coverage=0.5, how="threshold").who == OLD + NEW).mean()
    assert shares == pytest.approx(0.5, abs=0.06)
    for expert in (0, 3):
        with pytest.raises(ValueError, match=f"{expert}"):
            model.with_experts(X[:5], truth[:5], mh.Annotations.from_arrays(range(5), [expert] * 5, truth[:5]))
    strange = mh.Annotations.from_arrays(range(5), ["a"] * 5, [0, 1, 2, 7, 0])
    with pytest.raises(ValueError, match=r"classes.*7"):
        model.with_experts(X[:5], truth[:5], strange)
    with pytest.raises(ValueError, match=r"context.*1"):
        defer.SetDeferral(backbone(), context=0).fit(X, truth, table(answers))
