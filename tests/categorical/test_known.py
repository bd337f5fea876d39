"""Fusion with known parameters: the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from shard_logs import write_shards

import manyhands as mh


def direct(votes, prior, confusion):
    """prior[k] · Π confusion[worker, k, label], one factor after the other."""
    q = np.array(np.broadcast_to(prior, (votes.n_tasks, votes.n_classes)), float)
    for task, worker, label in zip(*votes.codes(), strict=True):
        q[task] *= confusion[worker, :, label]
    return q / q.sum(axis=1, keepdims=True)


@pytest.fixture
def log():
    return mh.simulate(200, 8, 3, labels_per_task=(1, 5), crowd="class-conditional", seed=3)


def test_posterior_is_bayes_rule(log):
    votes, prior = log.log, np.array([0.2, 0.5, 0.3])
    result = mh.posterior(votes, prior, log.confusion)
    np.testing.assert_allclose(result, direct(votes, prior, log.confusion), atol=1e-12)
    by_name = dict(zip(votes.workers.tolist()[::-1], log.confusion[::-1], strict=True)) | {"unused": np.eye(3)}
    np.testing.assert_array_equal(mh.posterior(votes.to_frame(), prior, by_name), result)
    own = np.random.default_rng(0).dirichlet(np.ones(3), size=votes.n_tasks)
    np.testing.assert_allclose(mh.posterior(votes, own, log.confusion), direct(votes, own, log.confusion), atol=1e-12)


def test_logs_in_shards_have_the_posterior_of_their_table(log, tmp_path):
    shards = write_shards(log.log, tmp_path / "shards", n_shards=3)
    assert shards.in_shards
    prior = np.array([0.2, 0.5, 0.3])
    np.testing.assert_array_equal(
        mh.posterior(shards, prior, log.confusion), mh.posterior(log.log, prior, log.confusion)
    )


def test_true_parameters_are_at_least_as_good_as_estimates(log):
    log = mh.simulate(3000, 20, 3, labels_per_task=3, crowd="class-conditional", seed=3)
    result = mh.posterior(log.log, np.full(3, 1 / 3), log.confusion)
    estimated = mh.DawidSkene().fit(log.log)
    assert mh.metrics.log_loss(result, log.truth) < mh.metrics.log_loss(estimated.posterior_, log.truth)
    accuracy = (result.argmax(axis=1) == log.truth).mean()
    assert accuracy == pytest.approx(result.max(axis=1).mean(), abs=4 * np.sqrt(0.25 / 3000))


def test_labels_that_are_impossible_leave_probabilities():
    votes = mh.Annotations.from_dense([[0, 1]])
    result = mh.posterior(votes, [0.5, 0.5], np.stack([np.eye(2)] * 2))
    np.testing.assert_allclose(result, 0.5)


@pytest.mark.parametrize(
    ("prior", "confusion", "match"),
    [
        ([0.5, 0.6, 0.1], None, "prior"),
        ([0.5, 0.5], None, r"prior has shape \(2,\)"),
        (np.full((7, 3), 1 / 3), None, r"prior has shape \(7, 3\), not \(200, 3\)"),
        (None, np.ones((8, 3, 3)), "confusion must hold probabilities"),
        (None, np.ones((7, 3, 3)) / 3, r"confusion has shape \(7, 3, 3\)"),
        (None, {0: np.eye(3)}, "confusion.*worker 1"),
        (None, dict.fromkeys(range(8), np.ones((3, 3))), "confusion of worker 0"),
    ],
)
def test_parameters_that_are_none(log, prior, confusion, match):
    prior = np.full(3, 1 / 3) if prior is None else prior
    with pytest.raises(ValueError, match=match):
        mh.posterior(log.log, prior, log.confusion if confusion is None else confusion)
