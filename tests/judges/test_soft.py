"""Measures of soft labels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import entropy, wasserstein_distance

from manyhands.judges import soft_measures


def test_measures_match_their_definitions() -> None:
    rng = np.random.default_rng(0)
    predicted, people = (
        rng.dirichlet(np.ones(4), 30),
        rng.integers(0, 5, (30, 4)) + np.eye(4, dtype=int)[rng.integers(0, 4, 30)],
    )
    share = people / people.sum(axis=1, keepdims=True)
    measures = soft_measures(predicted, people)
    assert measures.manhattan == pytest.approx(
        np.mean([np.abs(p - q).sum() for p, q in zip(predicted, share, strict=True)])
    )
    steps = np.arange(4)
    distances = [wasserstein_distance(steps, steps, p, q) for p, q in zip(predicted, share, strict=True)]
    assert measures.wasserstein == pytest.approx(np.mean(distances))
    expected = np.mean([entropy(q) + entropy(q, p) for p, q in zip(predicted, share, strict=True)])
    assert measures.cross_entropy == pytest.approx(expected, rel=1e-6)
    errors = [1 - q[p.argmax()] for p, q in zip(predicted, share, strict=True)]
    assert measures.annotator_error == pytest.approx(np.mean(errors))
    assert measures.n_items == 30


def test_a_perfect_prediction() -> None:
    people = np.array([[2, 2, 0], [0, 5, 0]])
    measures = soft_measures(people, people)
    assert (measures.manhattan, measures.wasserstein) == (0, 0)
    assert measures.annotator_error == 0.25
    assert np.isfinite(soft_measures([[1.0, 0, 0], [1, 0, 0]], people).cross_entropy)


@pytest.mark.parametrize(
    ("predicted", "people"),
    [([[0.5, 0.5]], [[1, 2, 3]]), ([0.5, 0.5], [1, 2]), ([[0.0, 0.0]], [[1, 2]]), ([[0.5, 0.5]], [[-1, 2]])],
)
def test_bad_shapes_and_numbers(predicted: list, people: list) -> None:
    with pytest.raises(ValueError, match=r"people|predicted"):
        soft_measures(predicted, people)
