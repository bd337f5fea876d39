"""Measures of numbers against plain formulas."""

import numpy as np
import pytest

from manyhands import metrics


def test_against_plain_formulas():
    rng = np.random.default_rng(0)
    values, truth = rng.normal(size=(2, 50))
    assert metrics.rmse(values, truth) == pytest.approx(np.sqrt(((values - truth) ** 2).mean()))
    assert metrics.mae(values, truth) == pytest.approx(np.abs(values - truth).mean())
    assert metrics.correlation(values, truth) == pytest.approx(np.corrcoef(values, truth)[0, 1])
    ends = np.stack([values - 1, values + 1], axis=1)
    assert metrics.coverage(ends, truth) == pytest.approx((np.abs(values - truth) <= 1).mean())


def test_points():
    values, truth = np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([[3.0, 4.0], [1.0, 1.0]])
    assert metrics.mae(values, truth) == 2.5
    assert metrics.rmse(values, truth) == pytest.approx(np.sqrt(12.5))
    assert metrics.coverage(np.stack([values - 3, values + 3], axis=-1), truth) == 0.75


def test_size_does_not_matter_and_perfect_is_perfect():
    assert metrics.rmse([1e300, 0.0], [-1e300 / 4, 0.0]) == pytest.approx(1.25e300 / np.sqrt(2))
    assert metrics.rmse([1.0, 2.0], [1.0, 2.0]) == 0
    assert metrics.correlation([1e300, 2e300, 3e300], [1.0, 2.0, 3.0]) == pytest.approx(1)
    assert np.isnan(metrics.correlation([1.0, 1.0], [1.0, 2.0]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.rmse([1.0, np.nan], [1.0, 2.0]), "nan"),
        (lambda: metrics.mae([1.0], [1.0, 2.0]), "shape"),
        (lambda: metrics.rmse([], []), "shape"),
        (lambda: metrics.coverage([1.0, 2.0], [1.0, 2.0]), "intervals"),
        (lambda: metrics.coverage([[1.0, np.nan]], [1.0]), "index 0"),
        (lambda: metrics.correlation([1.0, 2.0], [1.0, np.inf]), "finite"),
    ],
)
def test_odd_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
