"""Losses and heads against plain twins, and their gradients against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from learners import backbone, crowd, rows
from precision import TRAINED
from torch import nn

import manyhands as mh
from manyhands import learn
from manyhands._train.batch import CrowdData
from manyhands.categorical._passes import posterior_under
from manyhands.learn import heads, losses
from manyhands.learn.active import RunningKappa, Said, focus, said_shares
from manyhands.learn.crowd_layer import RunningVolume
from manyhands.learn.doctor_net import DoctorHeads
from manyhands.learn.max_mig import CrowdAggregator
from oracles import learn as plain
from oracles import learn_agree as agree
from oracles.em import Rows

CPU = torch.device("cpu")


def some(seed: int = 0, n: int = 12, m: int = 5, k: int = 3):
    """Log-probabilities of samples, and a ragged batch of labels."""
    log = crowd(n=n, n_workers=m, n_classes=k, seed=seed)
    data = CrowdData(log.X, log.votes)
    batch = data.batch(torch.arange(n), CPU)
    rng = np.random.default_rng(seed)
    log_probs = torch.log_softmax(torch.from_numpy(rng.normal(size=(n, k))), dim=1)
    triples = list(zip(batch.sample.tolist(), batch.worker.tolist(), batch.label.tolist(), strict=True))
    return batch, log_probs, triples, rng


def random_table(table: heads.WorkerTable, rng: np.random.Generator) -> np.ndarray:
    rows = rng.normal(size=(len(table.weight), *table.shape))
    table.double()
    table.set(torch.from_numpy(rows))
    return rows


@pytest.mark.parametrize("link", ["softplus", "softmax"])
def test_coupled_cross_entropy(link):
    batch, log_probs, triples, rng = some()
    model = heads.FreeConfusion(5, 3, link=link)
    confusion = plain.free_confusion(random_table(model.table, rng), link)
    np.testing.assert_allclose(model.confusion().numpy(), confusion, atol=1e-12)
    found = -model.log_likelihood(log_probs[batch.sample], batch.worker, batch.label).mean()
    assert found.item() == pytest.approx(plain.coupled_cross_entropy(log_probs.exp().numpy(), confusion, triples))
    answers = model.answers(log_probs[batch.sample], batch.worker)
    np.testing.assert_allclose(answers.exp().sum(dim=1).detach(), 1)
    gathered = answers.gather(1, batch.label[:, None])[:, 0]
    np.testing.assert_allclose(-gathered.mean().item(), found.item())


def softmax_confusion(n_workers: int, n_classes: int) -> heads.FreeConfusion:
    return heads.FreeConfusion(n_workers, n_classes, link="softmax")


@pytest.mark.parametrize("make", [heads.FreeConfusion, softmax_confusion, heads.OneCoin, heads.LowRankConfusion])
@pytest.mark.parametrize("n_workers", [5, 500])
def test_parts_of_matrices(make, n_workers):
    """The short ways to columns and diagonals, for few workers and for many, lead where the matrices do."""
    batch, _, _, rng = some(m=5)
    model = make(n_workers, 3).double()
    random_table(model.table, rng)
    columns, diagonals = model.log_parts(batch.worker, batch.label)
    confusion = model.confusion()
    np.testing.assert_allclose(columns.detach().exp(), confusion[batch.worker, :, batch.label], rtol=1e-9)
    expected = confusion.diagonal(dim1=1, dim2=2)[batch.worker]
    np.testing.assert_allclose(diagonals.detach().exp(), expected, rtol=1e-9)


def test_the_start_of_confusion_matrices_is_the_papers():
    start = heads.FreeConfusion(2, 4).confusion()[0].numpy()
    expected = plain.softplus(6 * np.eye(4) - 5)
    np.testing.assert_allclose(start, expected / expected.sum(axis=1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(heads.FreeConfusion(2, 4, link="softmax").confusion()[0].numpy(), start, rtol=1e-5)


@pytest.mark.parametrize("kind", ["MW", "VW", "VB", "VW-B"])
def test_crowd_layer(kind):
    batch, log_probs, triples, rng = some()
    model = heads.CrowdWeights(5, 3, kind=kind)
    weights = random_table(model.table, rng)
    found = -model.log_likelihood(log_probs[batch.sample], batch.worker, batch.label).mean()
    assert found.item() == pytest.approx(plain.crowd_layer(log_probs.exp().numpy(), weights, triples, kind))


def test_crowd_layers_start_as_the_identity():
    probs = torch.tensor([[0.2, 0.5, 0.3]])
    for kind in ("MW", "VW", "VB", "VW-B"):
        answers = heads.CrowdWeights(1, 3, kind=kind).answers(probs.log(), torch.tensor([0]))
        np.testing.assert_allclose(answers.exp().detach(), torch.softmax(probs, dim=1), rtol=1e-6)


@pytest.mark.parametrize("make", [heads.FreeConfusion, heads.OneCoin, heads.LowRankConfusion])
def test_confusion_can_be_set(make):
    confusion = torch.from_numpy(mh.categorical.crowds.one_coin(7, 4, accuracy=(0.4, 0.9), seed=1)).float()
    model = make(7, 4)
    model.set_confusion(confusion)
    np.testing.assert_allclose(model.confusion().numpy(), confusion.numpy(), atol=2e-3)


def test_embedded_workers_start_as_the_mean_of_given_matrices():
    confusion = torch.tensor([[[0.9, 0.1], [0.3, 0.7]], [[0.7, 0.3], [0.1, 0.9]]])
    model = heads.EmbeddedConfusion(2, 2)
    model.set_confusion(confusion)
    expected = torch.tensor([[0.8, 0.2], [0.2, 0.8]]).expand(2, 2, 2)
    torch.testing.assert_close(model.log_confusion(torch.arange(2)).exp(), expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda: heads.FreeConfusion(5, 3),
        lambda: heads.FreeConfusion(5, 3, link="softmax"),
        lambda: heads.OneCoin(5, 3),
        lambda: heads.LowRankConfusion(5, 3),
        lambda: heads.EmbeddedConfusion(5, 3),
        lambda: heads.CrowdWeights(5, 3, kind="MW"),
        lambda: heads.CrowdWeights(5, 3, kind="VW-B"),
    ],
)
def test_gradients_of_heads(make):
    batch, log_probs, _, rng = some(n=6)
    model = make().double()
    random_table(model.table, rng)
    parameters = [p.detach().requires_grad_() for p in model.parameters()]
    names = [name for name, _ in model.named_parameters()]

    def loss(logits, *values):
        state = dict(zip(names, values, strict=True))
        given = torch.log_softmax(logits, dim=1)[batch.sample]
        return torch.func.functional_call(
            _Likelihood(model),
            {f"model.{key}": value for key, value in state.items()},
            (given, batch.worker, batch.label),
        )

    assert torch.autograd.gradcheck(loss, (log_probs.clone().requires_grad_(), *parameters))


class _Likelihood(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *given):
        return self.model.log_likelihood(*given).mean()


@pytest.mark.parametrize("divergence", ["kl", "pearson", "js"])
def test_mutual_information_gain(divergence):
    batch, log_probs, triples, rng = some()
    prior = rng.dirichlet(np.ones(3))
    crowd_part = CrowdAggregator(5, torch.from_numpy(prior)).double()
    weights = rng.normal(size=(5, 3, 3))
    crowd_part.table.set(torch.from_numpy(weights))
    g = crowd_part(batch)
    np.testing.assert_allclose(g.exp().detach(), plain.aggregator(weights, np.log(prior), triples, 12), atol=1e-7)
    gain = losses.mutual_information_gain(log_probs, g, torch.from_numpy(prior), divergence)
    expected = plain.mutual_information_gain(log_probs.exp().numpy(), g.exp().detach().numpy(), prior, divergence)
    assert gain.item() == pytest.approx(expected)

    def loss(h, g):
        return losses.mutual_information_gain(
            torch.log_softmax(h, 1), torch.log_softmax(g, 1), torch.from_numpy(prior), divergence
        )

    start = [torch.from_numpy(rng.normal(size=(4, 3))).requires_grad_() for _ in range(2)]
    assert torch.autograd.gradcheck(loss, start)


def test_the_gain_of_one_sample_is_an_error():
    with pytest.raises(ValueError, match="samples"):
        losses.mutual_information_gain(torch.zeros(1, 2), torch.zeros(1, 2), torch.ones(2) / 2)


@given(p=st.floats(0.01, 0.99), indicator=st.floats(0, 1), strength=st.floats(0, 5))
def test_regularised_probability(p, indicator, strength):
    logit = torch.tensor(np.log(p / (1 - p)))
    found = torch.sigmoid(losses.towards_agreement(logit, torch.tensor(indicator, dtype=torch.float64), strength))
    assert found.item() == pytest.approx(agree.towards_agreement(p, indicator, strength), rel=1e-9)
    unchanged = torch.sigmoid(losses.towards_agreement(logit, torch.tensor(0.5), strength))
    assert unchanged.item() == pytest.approx(p)


@given(predicted=st.floats(0, 1), agreement=st.floats(0, 1))
def test_agreement_regression(predicted, agreement):
    found = losses.agreement_regression(torch.tensor(predicted), torch.tensor(agreement))
    assert found.item() == pytest.approx(agree.agreement_regression(predicted, agreement), abs=1e-6)
    assert found.item() >= 0


@given(p=st.floats(0.001, 0.999), right=st.booleans(), gamma=st.floats(0, 5))
def test_focal(p, right, gamma):
    log_right = torch.tensor(np.log(p if right else 1 - p))
    assert losses.focal(log_right, gamma).item() == pytest.approx(agree.focal(p, right, gamma), rel=1e-9)


def test_focus():
    log = crowd(n=60)
    _, workers, labels = log.votes.codes()
    found = focus(Said.of(log.votes, by_sample=False).counts)
    for worker in range(9):
        said = labels[workers == worker]
        for k in range(3):
            assert found[worker, k] == pytest.approx(agree.focus((said == k).sum(), len(said)))


def test_focus_without_limit_is_equation_7():
    counts = np.array([[99.0, 1.0], [30.0, 70.0], [50.0, 50.0]])
    rate = 1 - 1 / 100
    expected = [(1 - rate**most) / (1 - rate ** (100 - most)) for most in (99, 70, 50)]
    assert expected[0] > 60
    np.testing.assert_allclose(focus(counts, None), np.repeat(np.array(expected)[:, None], 2, axis=1))
    votes = mh.Annotations.from_arrays(range(100), ["w"] * 100, [0] * 99 + [1], classes=range(2))
    for make in (learn.LearnFromAll, learn.MajorityTarget, learn.Learn2Agree):
        learner = make(backbone(2), loss="focal", most_focus=None, max_epochs=1)
        learner.fit(np.zeros((100, 6), np.float32), votes)
        assert learner._gamma.item() == pytest.approx(expected[0], rel=1e-5)


def weighted(log, rng):
    """The same votes with a weight each."""
    columns = [log.votes.to_frame()[name] for name in ("task", "worker", "label")]
    return mh.Annotations.from_arrays(*columns, rng.uniform(0.2, 3, len(log.votes)), classes=range(3))


def running_kappa(votes, n_samples, by_sample=False):
    said, total = said_shares(votes, by_sample=by_sample)
    return RunningKappa(n_samples, torch.from_numpy(said), torch.from_numpy(total))


@pytest.mark.parametrize("reduction", ["label", "sample", "worker"])
def test_the_kappa_loss_of_all_samples_is_that_of_the_formula_with_weights_and_reductions(reduction):
    log, rng = crowd(n=30, n_workers=5), np.random.default_rng(0)
    votes = weighted(log, rng)
    learner = learn.Learn2Agree(backbone(), loss="kappa", reduction=reduction, max_epochs=1).fit(log.X, votes)
    batch = CrowdData(log.X, votes).batch(torch.arange(30), CPU)
    answers = list(zip(*(x.tolist() for x in (batch.sample, batch.worker, batch.label, batch.weight)), strict=True))
    said = F.one_hot(batch.label, 3).double()
    weight = learner._weights(batch) * 30 if reduction == "sample" else batch.weight
    probs = rng.uniform(0.05, 0.95, size=(30, 3))
    given = torch.from_numpy(probs).requires_grad_()
    kappa = running_kappa(votes, 30, reduction == "sample")
    loss = learner._reduce(kappa(batch, given, said, weight.double()).mean(dim=1), batch)
    assert loss.item() == pytest.approx(agree.kappa_loss(probs, answers, reduction), rel=1e-5)
    loss.backward()
    for sample, k in ((0, 0), (7, 1), (29, 2)):
        step = np.zeros_like(probs)
        step[sample, k] = 1e-5
        slope = agree.kappa_loss(probs + step, answers, reduction) - agree.kappa_loss(probs - step, answers, reduction)
        assert given.grad[sample, k].item() == pytest.approx(slope / 2e-5, rel=1e-3)


def test_one_kind_of_label_in_a_batch_still_has_a_gradient_towards_it():
    """Batches of two samples with a label each: no worker has both answers to a binary task in any of them."""
    log, rng = crowd(n=60, n_workers=4, per_task=1), np.random.default_rng(1)
    data = CrowdData(log.X, log.votes)
    kappa = running_kappa(log.votes, 60)
    for _ in range(3):
        for batch in data.batches(data.samples, 2, CPU):
            said = F.one_hot(batch.label, 3).double()
            probs = torch.from_numpy(rng.uniform(0.01, 0.99, size=(2, 3))).requires_grad_()
            kappa(batch, probs, said, batch.weight.double()).sum().backward()
            assert (torch.sign(probs.grad) == 1 - 2 * said[torch.argsort(batch.sample)]).all()


def test_the_running_kappa_of_workers_is_that_of_the_latest_predictions():
    log, rng = crowd(n=40, n_workers=4), np.random.default_rng(2)
    data = CrowdData(log.X, log.votes)
    running, at_once = running_kappa(log.votes, 40), running_kappa(log.votes, 40)
    probs = torch.from_numpy(rng.random((40, 3)))
    shuffle = torch.Generator().manual_seed(0)
    for values in (torch.from_numpy(rng.random((40, 3))), probs):
        for batch in data.batches(data.samples, 7, CPU, shuffle=shuffle):
            running(batch, values[batch.tasks], F.one_hot(batch.label, 3).double(), batch.weight.double())
    whole = data.batch(data.samples, CPU)
    at_once(whole, probs, F.one_hot(whole.label, 3).double(), whole.weight.double())
    for name in ("observed", "mean", "predicted"):
        torch.testing.assert_close(getattr(running, name), getattr(at_once, name))


def test_a_worker_who_never_names_a_class_teaches_nothing_of_it_and_breaks_nothing():
    votes = mh.Annotations.from_arrays([0, 1, 2], ["a", "a", "b"], [0, 1, 0], classes=range(3))
    data = CrowdData(np.zeros((3, 6), np.float32), votes)
    batch = data.batch(data.samples, CPU)
    probs = torch.tensor([[1.0, 0.0, 0.0]] * 3, dtype=torch.float64, requires_grad=True)
    loss = running_kappa(votes, 3)(batch, probs, F.one_hot(batch.label, 3).double(), batch.weight.double())
    loss.sum().backward()
    assert torch.isfinite(probs.grad).all()
    assert (probs.grad[:, 2] == 0).all()
    assert (probs.grad[2] == 0).all()
    assert (probs.grad[:2, :2] != 0).all()


def test_max_mig_starts_from_the_logarithms_of_confusion_by_answer():
    confusion = np.random.default_rng(0).dirichlet(np.ones(4), size=(6, 4))
    crowd_part = CrowdAggregator(6, torch.ones(4) / 4)
    crowd_part.set_confusion(torch.from_numpy(confusion).float(), scale=0.5)
    weights = crowd_part.table.weight.detach().reshape(6, 4, 4)
    for worker in range(6):
        for label in range(4):
            np.testing.assert_allclose(weights[worker, label], 0.5 * np.log(confusion[worker, :, label]), rtol=1e-4)


@pytest.mark.parametrize("bias", [True, False])
def test_the_heads_of_doctors_start_as_the_backbones_last_layer(bias):
    torch.manual_seed(0)
    head, features = nn.Linear(4, 3, bias=bias), torch.randn(5, 4)
    heads_of_workers = DoctorHeads(7, head)
    expected = torch.log_softmax(head(features), dim=1)
    torch.testing.assert_close(heads_of_workers.answers(features, torch.tensor([0, 6, 3, 2, 2])), expected)
    torch.testing.assert_close(heads_of_workers.opinions(features, torch.tensor([4, 1]))[:, 1], expected)


def test_weights_of_doctors_are_learnt_from_what_others_say():
    log = crowd(n=12, n_workers=5, per_task=(1, 5))
    learner = learn.WeightedDoctorNet(backbone(), max_epochs=3, weight_epochs=2, lr=0.05, weight_lr=0.5)
    learner.fit(log.X, log.votes)
    data = CrowdData(log.X, log.votes)
    batch = data.batch(data.samples, CPU)
    assert {len(set(batch.worker[batch.sample == i].tolist())) for i in range(12)} >= {1, 5}
    triples = list(zip(batch.sample.tolist(), batch.worker.tolist(), batch.label.tolist(), strict=True))
    with torch.no_grad():
        found, features = learner._others_opinion(batch).exp(), learner._network[:-1](batch.x).double().numpy()
    expected = plain.others_opinion(features, rows(learner._heads.table), learner.weights_, triples)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_volume():
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.ones(3), size=20)
    gram = torch.from_numpy(rows.T @ rows / 20)
    assert losses.log_det(gram).item() == pytest.approx(plain.log_det_gram(rows))
    volume = RunningVolume(3, momentum=0.9, ridge=0.0).double()
    assert volume(gram).item() == pytest.approx(plain.log_det_gram(rows))
    again = rng.dirichlet(np.ones(3), size=20)
    other = torch.from_numpy(again.T @ again / 20)
    mixed = (0.09 * gram + 0.1 * other) / 0.19
    assert volume(other).item() == pytest.approx(torch.logdet(mixed).item())
    volume.eval()
    assert torch.autograd.gradcheck(lambda x: losses.log_det(x @ x.T / 20), torch.from_numpy(rows.T).requires_grad_())
    with pytest.raises(ValueError, match="singular"):
        losses.log_det(torch.ones(2, 2))
    assert np.isfinite(losses.log_det(torch.ones(2, 2), ridge=1e-3).item())


def test_bootstrap_of_one_is_cross_entropy():
    _, log_probs, _, rng = some()
    targets = torch.from_numpy(rng.dirichlet(np.ones(3), size=12))
    expected = losses.soft_cross_entropy(log_probs, targets)
    assert torch.equal(losses.bootstrap(log_probs, targets, 1.0), expected)
    entropy = -(log_probs.exp() * log_probs).sum(dim=1)
    np.testing.assert_allclose(losses.bootstrap(log_probs, targets, 0.9), 0.9 * expected + 0.1 * entropy)


@given(seed=st.integers(0, 1000), weighted=st.booleans())
def test_forecast(seed, weighted):
    log = crowd(n=15, seed=seed % 7)
    rng = np.random.default_rng(seed)
    columns = log.votes.to_frame()
    weights = rng.uniform(0.1, 3, len(log.votes)) if weighted else None
    votes = mh.Annotations.from_arrays(columns["task"], columns["worker"], columns["label"], weights, classes=range(3))
    priors, confusion = rng.dirichlet(np.ones(3), size=15), rng.dirichlet(np.ones(3), size=(votes.n_workers, 3))
    found = posterior_under(votes.table, priors, confusion)
    np.testing.assert_allclose(found, plain.forecast(Rows.of(votes), priors, confusion), atol=1e-12)


def test_forecast_of_contradictions_is_not_nan():
    votes = mh.Annotations.from_codes([0] * 400, range(400), [1] * 400, n_tasks=1, n_workers=400, n_classes=2)
    certain = np.tile(np.eye(2), (400, 1, 1))
    found = posterior_under(votes.table, np.array([[1.0, 0.0]]), certain)
    np.testing.assert_allclose(found, [[0, 1]])
    with pytest.raises(ValueError, match=r"prior.*2 numbers"):
        posterior_under(votes.table, np.array([[1.0, 0.0, 0.0]]), certain)


def test_trace_of_zero_is_ccem():
    log = crowd()
    plain_one = learn.CCEM(backbone(), max_epochs=3).fit(log.X, log.votes)
    for make, options in ((learn.TraceRegularized, {"trace": 0.0}), (learn.GeoCrowdNet, {"volume": 0.0})):
        same = make(backbone(), max_epochs=3, **options).fit(log.X, log.votes)
        assert (same.predict_proba(log.X) == plain_one.predict_proba(log.X)).all()


def test_learn_from_all_by_sample_is_soft_target():
    log = crowd()
    a = learn.LearnFromAll(backbone(), max_epochs=3, reduction="sample").fit(log.X, log.votes)
    b = learn.SoftTarget(backbone(), max_epochs=3).fit(log.X, log.votes)
    np.testing.assert_allclose(a.predict_proba(log.X), b.predict_proba(log.X), atol=TRAINED)


def test_the_batch_estimate_of_the_mean_trace_is_unbiased():
    log = crowd(n=60, per_task=2)
    data = CrowdData(log.X, log.votes)
    learner = learn.TraceRegularized(backbone(), max_epochs=1).fit(log.X, log.votes)
    values = torch.arange(9.0)
    means, sizes = [], []
    for batch in data.batches(data.samples, 7, CPU):
        means.append(learner._worker_mean(values[batch.worker], batch).item())
        sizes.append(batch.n_annotations)
    assert np.average(means, weights=sizes) == pytest.approx(values.mean().item(), rel=1e-5)


def test_reductions():
    log = crowd(n=40, per_task=(1, 4) and 3)
    data = CrowdData(log.X, log.votes.sample(fraction=0.6, seed=1))
    batch = data.batch(data.samples, CPU)
    learner = learn.LearnFromAll(backbone(), max_epochs=1).fit(log.X, data.votes)
    for reduction in ("label", "sample", "worker"):
        learner.set_params(reduction=reduction)
        weights = learner._weights(batch)
        assert weights.sum().item() == pytest.approx(1, rel=1e-5)
        if reduction != "label":
            by = batch.sample if reduction == "sample" else batch.worker
            totals = torch.zeros(int(by.max()) + 1).index_add(0, by, weights)
            np.testing.assert_allclose(totals, totals.mean(), rtol=1e-5)
