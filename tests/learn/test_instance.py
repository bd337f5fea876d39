"""Learners whose workers depend on the sample, or on one another: losses, gradients, recovery of what they model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from learners import backbone, crowd
from torch import Tensor, nn

import manyhands as mh
from manyhands import learn
from manyhands._train.batch import Batch, CrowdData
from manyhands.learn.madl import WorkerKernel
from oracles import learn_instance as instance

CPU = torch.device("cpu")


def trained(make: type[learn.Learner], n: int = 40, **options: Any) -> tuple[Any, Batch, Tensor, list]:
    """A learner with parts in double precision, a batch of all its samples, and what it makes of them."""
    log = crowd(n=n)
    learner = make(backbone(), max_epochs=2, worker_lr=0.1, **options).fit(log.X, log.votes)
    learner._parts.double()
    batch = CrowdData(log.X.astype(np.float64), log.votes).batch(torch.arange(n), CPU)
    rng = np.random.default_rng(0)
    learner._features = torch.from_numpy(rng.normal(size=(n, 16)))
    log_probs = torch.log_softmax(torch.from_numpy(rng.normal(size=(n, 3))), dim=1)
    triples = list(zip(batch.sample.tolist(), batch.worker.tolist(), batch.label.tolist(), strict=True))
    return learner, batch, log_probs, triples


def test_union_net_where_it_does_not_matter_who_answers_is_ccem():
    log = crowd()
    options = {"max_epochs": 4, "reduction": "sample"}
    union = learn.UnionNet(backbone(), shrink=1e12, **options).fit(log.X, log.votes)
    plainly = learn.CCEM(backbone(), workers="softmax", **options).fit(log.X, log.votes)
    np.testing.assert_allclose(union.predict_proba(log.X), plainly.predict_proba(log.X), atol=1e-3)


def test_similarities_with_a_large_crowd_are_estimated_without_bias():
    torch.manual_seed(0)
    embeddings = torch.randn(2000, 3, dtype=torch.float64) * 0.3
    exact = instance.similarity_weights(embeddings.numpy(), 1.0)
    total = np.zeros(2000)
    for _ in range(20):
        kernel = WorkerKernel(2000, 1.25, 0.25).double()
        total += kernel(embeddings, torch.arange(2000)).detach().numpy() / 20
    np.testing.assert_allclose(total, exact, rtol=0.1)
    assert np.abs(total / exact - 1).mean() < 0.02


def test_samples_that_cannot_be_mixed():
    log = crowd(n=20)
    tokens = np.zeros((20, 6), np.int64)
    words = nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(24, 3))
    with pytest.raises(ValueError, match="mixed"):
        learn.AnnotMix(words, max_epochs=1).fit(tokens, log.votes)
    learn.AnnotMix(words, max_epochs=1, alpha=0.0).fit(tokens, log.votes)


def test_a_ratio_that_no_class_reaches():
    log = crowd(n=40)
    with pytest.raises(ValueError, match="ratio"):
        learn.AnchorTransition(backbone(), ratio=1e12, max_epochs=1).fit(log.X, log.votes)


def gradients_agree(learner: Any, batch: Batch, log_probs: Tensor, held: str = "network") -> None:
    """The gradient of the loss is the slope of finite differences, in random directions of every parameter."""
    learner._parts.eval()
    logits = log_probs.clone().requires_grad_()
    # Tables of few workers have dense gradients.
    given = {"logits": logits, **dict(learner._parts.named_parameters())}

    def loss() -> Tensor:
        torch.manual_seed(0)
        return learner._loss(batch, torch.log_softmax(logits, dim=1))

    found = torch.autograd.grad(loss(), list(given.values()), allow_unused=True)
    checked = 0
    for (name, value), gradient in zip(given.items(), found, strict=True):
        if name.startswith(("network", held)):  # what the backbone makes is given
            continue
        assert gradient is not None, name
        direction = torch.from_numpy(np.random.default_rng(1).normal(size=tuple(value.shape)))
        with torch.no_grad():
            value += 1e-6 * direction
            above = loss()
            value -= 2e-6 * direction
            below = loss()
            value += 1e-6 * direction
        slope = (above - below).item() / 2e-6
        assert (gradient * direction).sum().item() == pytest.approx(slope, rel=1e-4, abs=1e-8), name
        checked += 1
    assert checked > 1


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (learn.CoNAL, {"apart": 0.1}),
        (learn.UnionNet, {"variant": "A"}),
        (learn.UnionNet, {"variant": "B"}),
        (learn.InstanceTrace, {"trace": 0.1}),
        (learn.MaDL, {"rate": 0.0}),
        (learn.AnnotMix, {}),
    ],
)
def test_gradients(make, options):
    learner, batch, log_probs, _ = trained(make, n=10, **options)
    gradients_agree(learner, batch, log_probs)


def test_gradients_of_the_bandwidth():
    learner, batch, log_probs, _ = trained(learn.MaDL, n=10)
    # Weights do not move the embeddings.
    gradients_agree(learner, batch, log_probs, held="workers")


# ---------------------------------------------------------------------------------------------- recovery


def network(n_features: int, n_classes: int, hidden: int = 32) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(n_features, hidden), nn.ReLU(), nn.Linear(hidden, n_classes))


def answers(rng: np.random.Generator, probs: np.ndarray) -> np.ndarray:
    """A draw from each row of probabilities."""
    return (probs.cumsum(axis=1) < rng.random((len(probs), 1))).sum(axis=1).clip(max=probs.shape[1] - 1)


def pairs(rng: np.random.Generator, n: int, m: int, each: int) -> tuple[np.ndarray, np.ndarray]:
    """Samples and workers of `each` labels a sample, by different workers at random."""
    workers = np.concatenate([rng.permutation(m)[:each] for _ in range(n)])
    return np.repeat(np.arange(n), each), workers


def test_conal_recovers_common_and_individual_confusion():
    """Where workers follow the crowd they take class 0 for 1; elsewhere each has a habit of their own."""
    n, m, k = 3000, 8, 3
    rng = np.random.default_rng(0)
    X, truth = mh.categorical.synthetic.gaussians(n, k, n_features=6, separation=5.0, seed=0)
    common = np.array([[0.0, 5.0, 0.0], [0.0, 5.0, 0.0], [0.0, 0.0, 5.0]])
    own = 5.0 * np.eye(k) + rng.normal(size=(m, k, k))
    samples, workers = pairs(rng, n, m, 4)

    def gate(samples: np.ndarray, workers: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-np.sign(X[samples, 0]) * np.where(workers % 2, 1, -1)))

    def answered(samples: np.ndarray, workers: np.ndarray) -> np.ndarray:
        rate = gate(samples, workers)[:, None, None]
        layers = rate * common + (1 - rate) * own[workers]
        shown = np.exp(layers[np.arange(len(samples)), truth[samples]])
        return shown / shown.sum(axis=1, keepdims=True)

    labels = answers(rng, answered(samples, workers))
    votes = mh.Annotations.from_codes(samples, workers, labels, n_tasks=n, n_workers=m, n_classes=k)
    learner = learn.CoNAL(network(6, k), max_epochs=30, lr=5e-3).fit(X.astype(np.float32), votes)
    batch = CrowdData(X.astype(np.float32), votes).batch(torch.arange(n), CPU)
    with torch.no_grad():
        log_probs = learner._forward(batch.x)
        layers = learner._layers(batch)[0]
        found = torch.softmax((log_probs.exp()[batch.sample][:, None, :] @ layers)[:, 0], dim=1).numpy()
    # What each worker answers to each sample, beside what the worker answers to samples of its class on average.
    given, true = (batch.sample.numpy(), batch.worker.numpy()), truth[batch.sample.numpy()]
    expected, mean = answered(*given), np.zeros((len(found), k))
    for worker in range(m):
        for c in range(k):
            alike = (given[1] == worker) & (true == c)
            mean[alike] = expected[alike].mean(axis=0)
    assert learner.score(X.astype(np.float32), truth) > 0.98
    assert np.abs(found - expected).mean() < 0.75 * np.abs(mean - expected).mean()


def test_union_net_learns_who_answers_which_class():
    n, m, k = 4000, 6, 3
    rng = np.random.default_rng(1)
    X, truth = mh.categorical.synthetic.gaussians(n, k, n_features=6, separation=2.0, seed=1)
    shares = rng.dirichlet(np.full(m, 1.0), k).T
    workers = answers(rng, shares.T[truth])
    confusion = mh.categorical.crowds.one_coin(m, k, accuracy=0.7)
    labels = answers(rng, confusion[workers, truth])
    votes = mh.Annotations.from_codes(np.arange(n), workers, labels, n_tasks=n, n_workers=m, n_classes=k)
    X = X.astype(np.float32)
    union = learn.UnionNet(network(6, k), max_epochs=30, lr=5e-3).fit(X, votes)
    counted = np.zeros((m, k))
    np.add.at(counted, (workers, truth), 1)
    assert np.abs(union.shares_ - counted / counted.sum(axis=0)).max() < 0.06


@pytest.mark.parametrize("make", [learn.MaDL, learn.AnnotMix, learn.AnchorTransition])
def test_matrices_follow_the_sample(make):
    """Half of the workers are good where the first feature is positive and poor elsewhere, half the other way round."""
    n, m, k = 3000, 8, 3
    rng = np.random.default_rng(0)
    X, truth = mh.categorical.synthetic.gaussians(n, k, n_features=6, separation=4.0, seed=0)

    def right(samples: np.ndarray, workers: np.ndarray) -> np.ndarray:
        return np.where((X[samples, 0] > 0) == (workers % 2 == 0), 0.9, 0.5)

    samples, workers = pairs(rng, n, m, 4)
    hit = rng.random(len(samples)) < right(samples, workers)
    labels = np.where(hit, truth[samples], (truth[samples] + rng.integers(1, k, len(samples))) % k)
    votes = mh.Annotations.from_codes(samples, workers, labels, n_tasks=n, n_workers=m, n_classes=k)
    X = X.astype(np.float32)
    learner = make(network(6, k), max_epochs=30, lr=5e-3).fit(X, votes)
    assert learner.score(X, truth) > 0.93
    batch = CrowdData(X, votes).batch(torch.arange(n), CPU)
    with torch.no_grad():
        learner._forward(batch.x)
        matrices = learner._log_confusion(batch).exp().numpy()
    found = matrices.diagonal(axis1=1, axis2=2)[np.arange(len(hit)), truth[batch.sample.numpy()]]
    expected = right(batch.sample.numpy(), batch.worker.numpy())
    assert np.abs(found - expected).mean() < 0.1


def test_workers_who_err_alike_count_less():
    """Ten workers with one habit, and five each with their own."""
    n, k = 3000, 4
    rng = np.random.default_rng(2)
    X, truth = mh.categorical.synthetic.gaussians(n, k, n_features=6, separation=4.0, seed=2)
    confusion = 0.6 * np.eye(k) + 0.4 * rng.dirichlet(np.full(k, 0.2), (15, k))
    confusion[:10] = confusion[0]
    samples, workers = pairs(rng, n, 15, 4)
    labels = answers(rng, confusion[workers, truth[samples]])
    votes = mh.Annotations.from_codes(samples, workers, labels, n_tasks=n, n_workers=15, n_classes=k)
    learner = learn.MaDL(network(6, k), max_epochs=20, lr=5e-3).fit(X.astype(np.float32), votes)
    weights = learner.worker_weights_
    assert weights[:10].mean() < weights[10:].mean()
