"""Learners as their papers print them, against a direct computation from the formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from learners import backbone, crowd
from torch import nn

import manyhands as mh
from manyhands import learn
from manyhands._train.batch import CrowdData


def shares_of(votes: mh.Annotations) -> np.ndarray:
    """Mean labels, (n_tasks, n_classes)."""
    counts = np.zeros((votes.n_tasks, votes.n_classes))
    np.add.at(counts, votes.codes()[0::2], 1.0)
    return counts / counts.sum(axis=1, keepdims=True)


def count(votes: mh.Annotations, q: np.ndarray) -> np.ndarray:
    """The M-step of Algorithms 2 and 3 of the trace paper, one sum after the other."""
    a = np.zeros((votes.n_workers, votes.n_classes, votes.n_classes))
    below = np.zeros((votes.n_workers, votes.n_classes))
    for n, r, i in zip(*votes.codes(), strict=True):
        for j in range(votes.n_classes):
            a[r, j, i] += q[n, j]
            below[r, j] += q[n, j]
    assert (below > 0).all()
    return a / below[:, :, None]


def e_step(votes: mh.Annotations, prior: np.ndarray, a: np.ndarray) -> np.ndarray:
    q = np.array(np.broadcast_to(prior, (votes.n_tasks, votes.n_classes)))
    for n, r, i in zip(*votes.codes(), strict=True):
        q[n] *= a[r, :, i]
    return q / q.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("shrink", [True, False])
@pytest.mark.parametrize("make", [learn.DeepEM, learn.ModelBootstrappedEM])
def test_em_without_shrinkage_is_the_algorithm_of_the_paper(make, shrink):
    log = crowd(n=300, n_workers=4, per_task=4)
    learner = make(backbone(), max_epochs=2, epochs_per_step=9, lr=0.02, shrink=shrink).fit(log.X, log.votes)
    # The network is that of one M-step from mean labels; now the other M-step and the E-step.
    predicted = learner.predict_proba(log.X)
    learner._take(shares_of(log.votes), learner.confusion_)
    posterior, confusion = learner._e_step(CrowdData(log.X, log.votes), predicted)
    if make is learn.DeepEM:
        expected = count(log.votes, shares_of(log.votes))
        expected_posterior = e_step(log.votes, predicted, expected)
    else:
        winners = np.eye(3)[predicted.argmax(axis=1)]
        expected = count(log.votes, winners)
        expected_posterior = e_step(log.votes, winners.mean(axis=0), expected)
    if shrink:
        assert np.abs(confusion - expected).max() > 1e-3
    else:
        np.testing.assert_allclose(confusion, expected, atol=1e-6)
        np.testing.assert_allclose(posterior, expected_posterior, atol=1e-6)


def test_a_class_that_a_worker_never_met_has_an_even_row_without_shrinkage():
    X = np.eye(3, dtype=np.float32)[[0, 1, 2, 0, 1]]
    votes = mh.Annotations.from_arrays(
        [0, 1, 2, 3, 4, 0], ["a", "a", "a", "b", "b", "b"], [0, 1, 2, 0, 1, 0], classes=range(3)
    )
    learner = learn.DeepEM(nn.Linear(3, 3), shrink=False, max_epochs=1).fit(X, votes)
    assert np.isfinite(learner.predict_proba(X, votes)).all()
    np.testing.assert_allclose(learner.confusion_[1, 2], 1 / 3)


# ------------------------------------------------------------------------------------------------------- Max-MIG


def test_max_mig_of_the_paper_starts_at_equation_2(monkeypatch):
    # The network is not trained, so that it has no names of classes to compare.
    monkeypatch.setattr(learn.MaxMIG, "_permute_classes", lambda self, data: None)
    log = crowd(n=60, n_workers=4, per_task=4)
    learner = learn.MaxMIG(backbone(), settings="paper", lr=1e-12, max_epochs=4).fit(log.X, log.votes)
    q = shares_of(log.votes)
    expected = np.zeros((4, 3, 3))
    for m in range(4):
        for c in range(3):
            for answer in range(3):
                mask = log.votes.codes()[2][log.votes.codes()[1] == m] == answer
                expected[m, answer, c] = np.log((q[:, c] * mask).sum() / q[:, c].sum())
    # A learning rate of next to nothing holds for the crowd too, and nothing restarts.
    weights = learner._crowd.table.weight.detach().numpy().reshape(4, 3, 3)
    np.testing.assert_allclose(weights, expected, atol=1e-5)
    np.testing.assert_allclose(learner._crowd.log_prior().exp().detach(), 1 / 3, rtol=1e-6)


def test_max_mig_of_the_paper_has_one_learning_rate_and_no_shrinkage():
    log = crowd(n=60)
    free = {"prior": "uniform", "shrinkage": 0.0, "worker_lr": None, "max_epochs": 2}
    # With labels of all workers on each sample the shrunk start differs from Eq. 2, explicit start or not.
    start = mh.MajorityVote().fit(log.votes)
    explicit = learn.MaxMIG(backbone(), start_from=np.array(start.confusion_), **free).fit(log.X, log.votes)
    paper = learn.MaxMIG(backbone(), settings="paper", max_epochs=2).fit(log.X, log.votes)
    np.testing.assert_allclose(paper.predict_proba(log.X), explicit.predict_proba(log.X), atol=1e-4)
    ours = learn.MaxMIG(backbone(), max_epochs=2).fit(log.X, log.votes)
    assert np.abs(ours.predict_proba(log.X) - paper.predict_proba(log.X)).max() > 1e-3


@pytest.mark.parametrize(
    ("name", "value"),
    [("start_from", mh.DawidSkene()), ("shrinkage", 1.0), ("prior", "crowd")],
)
def test_settings_of_the_paper_contradict_others(name, value):
    log = crowd(n=30)
    with pytest.raises(ValueError, match=rf'settings="paper".*{name}'):
        learn.MaxMIG(backbone(), settings="paper", **{name: value}).fit(log.X, log.votes)


def test_a_free_bias_is_learnt_apart_from_the_prior():
    log = crowd(n=120)
    learner = learn.MaxMIG(backbone(), bias="free", prior="uniform", max_epochs=3).fit(log.X, log.votes)
    bias = learner._crowd.bias.detach().numpy()
    assert np.ptp(bias) > 1e-4
    np.testing.assert_allclose(learner._crowd.log_prior().exp().detach(), 1 / 3, rtol=1e-6)
    # The forecaster of the paper, by its formula.
    with torch.no_grad():
        data = CrowdData(log.X, log.votes)
        g = learner._crowd(data.batch(data.samples, torch.device("cpu"))).exp().numpy()
    zeta = learner.predict_proba(log.X) * g
    zeta /= zeta.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(learner.predict_proba(log.X, log.votes), zeta, atol=1e-5)


def test_the_deep_aggregator_reads_the_class_from_pairs_of_answers():
    """The class is whether two workers agree: no sum of weights of single answers knows it."""
    rng = np.random.default_rng(0)
    truth, first = rng.integers(2, size=(2, 1500))
    votes = mh.Annotations.from_dense(np.c_[first, first ^ truth])
    X = (np.eye(2)[truth] + rng.normal(scale=0.7, size=(1500, 2))).astype(np.float32)
    gains = {}
    for kind in ("weights", "deep"):
        torch.manual_seed(0)
        learner = learn.MaxMIG(nn.Linear(2, 2), aggregator=kind, prior="uniform", max_epochs=15, lr=5e-3)
        learner.fit(X, votes)
        gains[kind] = -learner.history_["loss"][-1]
        if kind == "deep":
            data = CrowdData(X, votes)
            with torch.no_grad():
                g = learner._crowd(data.batch(data.samples, torch.device("cpu"))).exp().numpy()
            expected = learner.predict_proba(X) * g
            expected /= expected.sum(axis=1, keepdims=True)
            np.testing.assert_allclose(learner.predict_proba(X, votes), expected, atol=1e-5)
            agreement = (g.argmax(axis=1) == truth).mean()
            assert max(agreement, 1 - agreement) == 1.0
    assert gains["weights"] < 0.05 < 0.2 < gains["deep"]
