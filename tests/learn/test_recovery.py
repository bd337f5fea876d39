"""Learners recover what simulated crowds were made of, and real data give the published figures."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from learners import crowd
from torch import nn

import manyhands as mh
from manyhands import learn


def network(n_features: int, n_classes: int, hidden: int = 32, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(n_features, hidden), nn.ReLU(), nn.Linear(hidden, n_classes))


@pytest.mark.parametrize("make", [learn.CCEM, learn.TraceRegularized, learn.GeoCrowdNet, learn.DeepEM])
def test_confusion_error_falls_with_the_number_of_samples(make):
    """The error falls about as 1/√n, so its square as 1/n."""
    errors = []
    for n in (300, 2400):
        log = crowd(n, n_workers=6, per_task=3, seed=2, crowd="class-conditional")
        learner = make(network(6, 3), max_epochs=max(20, 24_000 // n), lr=5e-3).fit(log.X, log.votes)
        errors.append(mh.metrics.confusion_error(learner.confusion_, log.confusion))
    assert errors[1] < errors[0] / 3


@pytest.mark.parametrize("make", [learn.CCEM, learn.ModelBootstrappedEM, learn.MaxMIG, learn.CrowdLayer])
def test_one_label_a_sample_is_enough(make):
    log = crowd(3000, n_workers=10, per_task=1, crowd="one-coin", accuracy=(0.4, 0.9), seed=1)
    learner = make(network(6, 3), max_epochs=20).fit(log.X, log.votes)
    assert mh.metrics.skill_rank_correlation(learner.confusion_, log.confusion) > 0.8
    plain = learn.MajorityTarget(network(6, 3), max_epochs=20).fit(log.X, log.votes)
    # Over seeds the two differ by up to a point either way.
    assert learner.score(log.X, log.truth) > plain.score(log.X, log.truth) - 0.03


def test_copies_mislead_em_but_not_max_mig():
    """Example E.2 of Max-MIG: the features are the class, one worker knows it, a hundred copy a coin."""
    accuracy = []
    for seed in range(3):
        truth, coin = np.random.default_rng(seed).integers(2, size=(2, 400))
        labels = np.c_[truth, np.repeat(coin[:, None], 100, axis=1)]
        X = np.eye(2, dtype=np.float32)[truth]
        torch.manual_seed(seed)
        options = {"max_epochs": 30, "lr": 1e-2, "seed": seed}
        mig = learn.MaxMIG(nn.Linear(2, 2), **options).fit(X, labels)
        assert mig.score(X, truth) == 1.0
        accuracy.append(learn.DeepEM(nn.Linear(2, 2), **options).fit(X, labels).score(X, truth))
    assert np.mean(accuracy) < 0.9


def test_outliers_are_found():
    X, truth = mh.categorical.synthetic.gaussians(2000, 4, separation=5.0, seed=3)
    log, odd = mh.categorical.synthetic.outliers(
        X, truth, mh.categorical.crowds.one_coin(8, 4, accuracy=0.85), share=0.1, labels_per_task=4, seed=3
    )
    learner = learn.COINNet(network(10, 4), max_epochs=40).fit(X, log.log)
    score = learner.outlier_scores_
    ranks = np.argsort(np.argsort(score))
    auc = (ranks[odd].mean() - ranks[~odd].mean()) / len(odd) + 0.5
    assert auc > 0.85


def test_regression_learns_scales_and_biases():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 4)).astype(np.float32)
    value = X @ np.array([1.0, -2.0, 0.5, 0.0])
    scale, bias = np.array([1.0, 1.0, 0.5, 1.5]), np.array([0.0, 1.0, -1.0, 0.0])
    answers = np.round(scale * value[:, None] + bias + rng.normal(size=(800, 4)) * 0.1, 2)
    task, worker = (index.ravel() for index in np.indices(answers.shape))
    ratings = {"task": task, "worker": worker, "value": answers.ravel()}
    learner = learn.CrowdRegression(nn.Linear(4, 1), max_epochs=60, lr=0.01).fit(X, ratings)
    # Answers identify scales up to a common factor, and with the values what each worker would answer.
    np.testing.assert_allclose(learner.scale_ / learner.scale_.mean(), scale / scale.mean(), atol=0.05)
    expected = learner.scale_ * learner.predict(X)[:, None] + learner.bias_
    np.testing.assert_allclose(expected, scale * value[:, None] + bias, atol=0.2)


@pytest.mark.parametrize("kind", ["S", "B", "S+B"])
def test_a_crowd_layer_for_numbers_points_to_crowd_regression(kind):
    with pytest.raises(ValueError, match="CrowdRegression"):
        learn.CrowdLayer(nn.Linear(4, 1), kind=kind).fit(None, None)


def test_labelme(shared_data):
    """One seed of the protocol of benches/learn/labelme.py: 87 per cent published figures apart, chance is 14.

    Other seeds, and so other processors, give 75 to 81, 85 to 86 and 85 to 87 per cent.
    """
    arrays = np.load(shared_data / "labelme" / "features.npz")
    X, X_test = arrays["X_train"].astype(np.float32), arrays["X_test"].astype(np.float32)
    votes = mh.read(shared_data / "labelme" / "labels.csv")
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Linear(512, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 8))
    for make, least in ((learn.MajorityTarget, 0.7), (learn.CrowdLayer, 0.82), (learn.MaxMIG, 0.82)):
        found = make(backbone, max_epochs=50).fit(X, votes).predict(X_test).astype(int)
        assert (found == arrays["y_test"]).mean() > least


def test_labelme_by_kappa_does_not_depend_on_the_seed(shared_data):
    """Where most batches have one answer of a worker, or several that are alike."""
    arrays = np.load(shared_data / "labelme" / "features.npz")
    votes = mh.read(shared_data / "labelme" / "labels.csv")
    for seed in range(2):
        torch.manual_seed(seed)
        backbone = nn.Sequential(nn.Linear(512, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 8))
        learner = learn.Learn2Agree(backbone, loss="kappa", seed=seed).fit(arrays["X_train"].astype(np.float32), votes)
        found = learner.predict(arrays["X_test"].astype(np.float32)).astype(int)
        assert (found == arrays["y_test"]).mean() > 0.75
