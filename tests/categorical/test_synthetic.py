"""Crowds that label samples with features."""

from __future__ import annotations

import numpy as np
import pytest

import manyhands as mh
from manyhands.categorical import synthetic


def answers(votes: mh.Annotations) -> np.ndarray:
    """Labels as (tasks × workers), -1 where there is none."""
    matrix = np.full((votes.n_tasks, votes.n_workers), -1)
    tasks, workers, labels = votes.codes()
    matrix[tasks, workers] = labels
    return matrix


def test_gaussians_are_as_far_apart_as_asked():
    X, truth = synthetic.gaussians(20_000, 4, n_features=5, separation=6.0, seed=1)
    for k in range(4):
        mine = X[truth == k]
        assert np.linalg.norm(mine.mean(axis=0)) == pytest.approx(6.0, abs=0.15)
        np.testing.assert_allclose(mine.std(axis=0), 1, atol=0.05)
    again, _ = synthetic.gaussians(20_000, 4, n_features=5, separation=6.0, seed=1)
    assert (again == X).all()


@pytest.mark.parametrize("n_classes", [2, 5, 10])
@pytest.mark.parametrize(("expertise", "seniors"), [("high", 5), ("low", 10)])
def test_the_seniors_are_the_same_whatever_the_mistakes(n_classes, expertise, seniors):
    truth = np.arange(3000) % n_classes
    kinds = {
        kind: synthetic.experts(truth, n_classes, expertise=expertise, mistakes=kind)
        for kind in ("independent", "naive", "correlated")
    }
    alone = kinds["independent"]
    assert alone.log.n_workers == seniors
    assert alone.log.n_annotations == 3000 * seniors
    for other in kinds.values():
        np.testing.assert_allclose(other.confusion[:seniors], alone.confusion)
    np.testing.assert_allclose(alone.confusion.sum(axis=2), 1)
    assert (alone.accuracy > 1 / n_classes).all()


def test_naive_juniors_never_look():
    said = answers(synthetic.experts(np.arange(100) % 4, 4, mistakes="naive").log)
    assert (said[:, 5:] == 0).all()
    assert said.shape == (100, 10)


def test_correlated_juniors_copy():
    said = answers(synthetic.experts(np.arange(500) % 4, 4, mistakes="correlated").log)
    for junior, senior in zip(range(5, 10), (0, 0, 2, 2, 2), strict=True):
        assert (said[:, junior] == said[:, senior]).all()
    assert (said[:, 0] != said[:, 2]).any()
    low = answers(synthetic.experts(np.arange(500) % 4, 4, expertise="low", mistakes="correlated").log)
    assert low.shape[1] == 12
    assert (low[:, 10] == low[:, 0]).all()
    assert (low[:, 11] == low[:, 2]).all()


def test_high_expertise_mixes_up_neighbours_only():
    truth = np.arange(4000) % 10
    said = answers(synthetic.experts(truth, 10).log)
    assert (said // 2 == (truth // 2)[:, None]).all()
    # The first senior says the same for both of a pair.
    assert (said[:, 0] == truth // 2 * 2).all()


def test_machines_reach_the_accuracy_asked_for():
    X, truth = synthetic.gaussians(2000, 4, separation=5.0)
    for wanted in (0.3, 0.6, 0.9):
        crowd = synthetic.machines(X, truth, 3, accuracy=(wanted, wanted))
        np.testing.assert_allclose((answers(crowd.log) == truth[:, None]).mean(axis=0), wanted, atol=0.02)
        np.testing.assert_allclose(crowd.accuracy, wanted, atol=0.02)
    sparse = synthetic.machines(X, truth, 5, density=0.2, seed=3)
    assert sparse.log.n_annotations == pytest.approx(2000 * 5 * 0.2, rel=0.1)


def test_mistakes_of_machines_follow_from_the_features():
    """Two machines err on the same samples more often than independent workers would."""
    X, truth = synthetic.gaussians(4000, 4, separation=2.0)
    wrong = answers(synthetic.machines(X, truth, 2, accuracy=(0.7, 0.7)).log) != truth[:, None]
    assert wrong.all(axis=1).mean() > 1.3 * wrong[:, 0].mean() * wrong[:, 1].mean()


def test_outliers_confuse_everybody_alike():
    X, truth = synthetic.gaussians(3000, 4, separation=4.0)
    crowd, odd = synthetic.outliers(
        X, truth, mh.categorical.crowds.one_coin(6, 4, accuracy=0.9), share=0.2, labels_per_task=6
    )
    assert odd.sum() == 600
    right = answers(crowd.log) == truth[:, None]
    assert right[~odd].mean() == pytest.approx(0.9, abs=0.02)
    assert right[odd].mean() == pytest.approx(0.09, abs=0.03)
    said = answers(crowd.log)[odd]
    assert (said[:, 0] == said[:, 1]).mean() > 0.7


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: synthetic.gaussians(0, 2), "n_samples.*1"),
        (lambda: synthetic.experts([0, 1], 2, expertise="medium"), "expertise"),
        (lambda: synthetic.experts([0, 1], 2, mistakes="honest"), "mistakes"),
        (lambda: synthetic.machines(np.zeros((3, 2)), [0, 1], 2), "0.*3 rows"),
        (lambda: synthetic.machines(np.zeros(3), [0, 1, 0], 2), "samples"),
        (lambda: synthetic.machines(np.zeros((2, 1)), [0, 1], 2, density=0.0), "density is 0.0"),
        (lambda: synthetic.machines(np.zeros((2, 1)), [0, 1], 2, accuracy=(0.9, 0.1)), "lowest"),
        (
            lambda: synthetic.outliers(np.zeros((2, 1)), [0, 1], mh.categorical.crowds.one_coin(2, 2), share=2),
            "share is 2",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("source", "high", "low"),
    [
        ("dogs-vs-cats", [(0.6, 0.8), (0.6, 0.6), (0.9, 0.6), (0.7, 0.7), (0.6, 0.7)], 0.55),
        ("luna16", [(0.6, 0.9), (0.7, 0.7), (0.9, 0.6), (0.6, 0.7), (0.7, 0.6)], 0.6),
    ],
)
def test_experts_of_two_classes_are_those_of_the_papers_data_sets(source, high, low):
    truth = np.arange(50) % 2
    found = synthetic.experts(truth, 2, source=source)
    np.testing.assert_allclose(np.diagonal(found.confusion, axis1=1, axis2=2), high)
    found = synthetic.experts(truth, 2, source=source, expertise="low")
    np.testing.assert_allclose(found.confusion, np.tile([[low, 1 - low], [1 - low, low]], (10, 1, 1)))
    with pytest.raises(ValueError, match="3"):
        synthetic.experts(np.arange(9) % 3, 3, source=source)


def test_confusions_of_machines_are_those_counted():
    X, truth = synthetic.gaussians(300, 3, seed=1)
    found = synthetic.machines(X, truth, 4, seed=1)
    tasks, workers, labels = found.log.codes()
    counts = np.zeros((4, 3, 3))
    np.add.at(counts, (workers, np.asarray(truth)[tasks], labels), 1)
    np.testing.assert_allclose(found.confusion, counts / counts.sum(axis=2, keepdims=True), atol=1e-6)
