"""The sufficiently scattered condition, and anchor points."""

from __future__ import annotations

import numpy as np
import pytest

from manyhands.metrics import anchor_points
from manyhands.moments import scattering


def reach_of_two(confusion: np.ndarray) -> float:
    """Of two classes: how long x = (1/2 + t, 1/2 - t) may be while all products with rows are at least zero."""
    rows = confusion.swapaxes(1, 2).reshape(-1, 2)
    limits = [np.inf, np.inf]
    for a, b in rows:
        for side in (0, 1):
            slope = (a - b) * (1 if side == 0 else -1)
            if slope < 0:
                limits[side] = min(limits[side], (a + b) / 2 / -slope)
    return float(np.sqrt(0.5 + 2 * max(limits) ** 2))


def test_two_classes_are_exact():
    for seed in range(5):
        confusion = np.random.default_rng(seed).dirichlet(np.ones(2), size=(4, 2))
        assert scattering(confusion) == pytest.approx(max(reach_of_two(confusion), 1.0))


def test_specialists_are_sufficiently_scattered():
    rng = np.random.default_rng(0)
    confusion = rng.dirichlet(np.ones(4), size=(5, 4))
    for own in range(4):
        confusion[own, :, own] = 0.0
        confusion[own, own, own] = 0.8
    confusion /= confusion.sum(axis=2, keepdims=True)
    assert scattering(confusion) == pytest.approx(1.0)


@pytest.mark.parametrize("k", [3, 5])
def test_rows_around_the_cone_need_no_specialists(k):
    """Rows with a zero each have no specialists and scatter all the same; rows near the center do not."""
    rng = np.random.default_rng(1)
    rows = rng.dirichlet(np.ones(k - 1), size=40 * k)
    # Each answer is never given for one class: the rows lie on the facets, around the cone.
    stack = np.zeros((40 * k, k))
    for at, row in enumerate(rows):
        stack[at, np.arange(k) != at % k] = row
    confusion = np.stack([np.stack([row, 1 - row], axis=1) for row in stack])
    confusion = np.concatenate([confusion, np.zeros((40 * k, k, k - 2))], axis=2)
    assert scattering(confusion) < 1.05
    blurred = 0.5 * confusion + 0.5 / k
    assert scattering(blurred / blurred.sum(axis=2, keepdims=True)) > 1.1


@pytest.mark.parametrize("confusion", [np.ones((2, 2)), np.ones((1, 2, 2)), np.ones((1, 2, 3)) / 3])
def test_matrices_that_are_none(confusion):
    with pytest.raises(ValueError, match="confusion"):
        scattering(confusion)


def test_anchor_points():
    posterior = np.array([[0.98, 0.01, 0.01], [0.2, 0.5, 0.3], [0.96, 0.02, 0.02], [0.0, 0.01, 0.99]])
    points = anchor_points(posterior)
    assert points.certain.tolist() == [True, False, True]
    assert points.sample.tolist() == [0, 1, 3]
    assert points.n_samples.tolist() == [2, 0, 1]
    np.testing.assert_array_equal(points.probability, [0.98, 0.5, 0.99])
    assert anchor_points(posterior, least=0.5).certain.all()
    for bad in ([0.5, 0.5], [[0.5, 0.6]]):
        with pytest.raises(ValueError, match="posterior"):
            anchor_points(bad)
