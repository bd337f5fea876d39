"""Calibration errors and reliability curves, against slow forms and scikit-learn."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from draws import SEEDS, SIZES, TIGHT, posterior_and_truth, stochastic
from hypothesis import given
from hypothesis import strategies as st

from manyhands import metrics

# Calibration


def slow_calibration(posterior, truth, edges, norm):
    """One task at a time: which bin, then the gaps of the bins."""
    inside = [[] for _ in edges[1:]]
    for row, true in zip(posterior, truth, strict=True):
        top = max(row)
        b = next(b for b, upper in enumerate(edges[1:]) if top <= upper or b == len(edges) - 2)
        inside[b].append((top, float(list(row).index(top) == true)))
    gaps = [(len(each), abs(np.mean([c for c, _ in each]) - np.mean([h for _, h in each]))) for each in inside if each]
    if norm == "max":
        return max(gap for _, gap in gaps)
    power = {"l1": 1, "l2": 2}[norm]
    return (sum(n * gap**power for n, gap in gaps) / len(truth)) ** (1 / power)


def test_fifteen_bins_unless_told_otherwise():
    posterior, truth = posterior_and_truth(11)
    assert len(metrics.reliability(posterior, truth).count) == 15
    expected = metrics.calibration_error(posterior, truth, bins=15)
    assert (
        metrics.calibration_error(posterior, truth) == expected != metrics.calibration_error(posterior, truth, bins=16)
    )


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize("bins", [1, 4, 15])
def test_uniform_calibration_against_the_slow_form(norm, bins):
    posterior, truth = posterior_and_truth(11)
    expected = slow_calibration(posterior, truth, np.arange(bins + 1) / bins, norm)
    assert metrics.calibration_error(posterior, truth, bins=bins, norm=norm) == pytest.approx(expected, abs=TIGHT)


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_quantile_calibration_against_the_slow_form(norm):
    posterior, truth = posterior_and_truth(12, n=60)
    top = np.sort(posterior.max(axis=1))
    edges = [top[0], top[14], top[29], top[44], top[59]]  # 15 tasks each
    expected = slow_calibration(posterior, truth, edges, norm)
    found = metrics.calibration_error(posterior, truth, bins=4, strategy="quantile", norm=norm)
    assert found == pytest.approx(expected, abs=TIGHT)


def test_uniform_reliability_agrees_with_scikit_learn():
    calibration = pytest.importorskip("sklearn.calibration")
    posterior, truth = posterior_and_truth(13)
    hit = posterior.argmax(axis=1) == truth
    accuracy, confidence = calibration.calibration_curve(hit, posterior.max(axis=1), n_bins=10)
    found = metrics.reliability(posterior, truth, bins=10)
    filled = found.count > 0
    np.testing.assert_allclose(found.accuracy[filled], accuracy)
    np.testing.assert_allclose(found.confidence[filled], confidence)


def test_bins_are_closed_on_the_right():
    found = metrics.reliability([[0.5, 0.5], [0.5, 0.5], [0.75, 0.25]], [0, 1, 0], bins=2)
    np.testing.assert_array_equal(found.count, [2, 1])
    np.testing.assert_array_equal(found.accuracy, [0.5, 1.0])  # of equals the lowest column wins
    np.testing.assert_array_equal(found.confidence, [0.5, 0.75])


def test_ties_share_a_quantile_bin():
    posterior = [[0.5, 0.5]] * 3 + [[0.9, 0.1]]
    found = metrics.reliability(posterior, [0, 1, 0, 0], bins=2, strategy="quantile")
    np.testing.assert_array_equal(found.count, [3, 1])
    np.testing.assert_array_equal(found.edges, [0.5, 0.5, 0.9])
    same = metrics.reliability(posterior[:3], [0, 1, 0], bins=9, strategy="quantile")
    np.testing.assert_array_equal(same.count, [3])
    np.testing.assert_array_equal(same.edges, [0.5, 0.5])


@given(SEEDS, st.integers(1, 40), SIZES, st.integers(1, 20), st.sampled_from(["uniform", "quantile"]))
def test_reliability_properties(seed, n, k, bins, strategy):
    rng = np.random.default_rng(seed)
    posterior, truth = stochastic(rng, n, k).round(1 if k == 2 else 12), rng.integers(0, k, n)
    posterior /= posterior.sum(axis=1, keepdims=True)
    found = metrics.reliability(posterior, truth, bins=bins, strategy=strategy)
    filled = found.count > 0
    assert found.count.sum() == n
    assert len(found.edges) - 1 == len(found.count) == len(found.accuracy) == len(found.confidence) <= bins
    assert np.all(np.diff(found.edges) >= 0)
    assert np.all(np.isnan(found.accuracy) == ~filled)
    assert np.all(np.isnan(found.confidence) == ~filled)
    if strategy == "quantile":
        assert filled.all()
    else:
        assert len(found.count) == bins
    total = found.count[filled] @ found.accuracy[filled]
    assert total == pytest.approx(np.sum(posterior.argmax(axis=1) == truth))
    assert np.all(found.confidence[filled] >= found.edges[:-1][filled] - TIGHT)
    assert np.all(found.confidence[filled] <= found.edges[1:][filled] + TIGHT)
    l1, l2, worst = (
        metrics.calibration_error(posterior, truth, bins=bins, strategy=strategy, norm=norm)
        for norm in ("l1", "l2", "max")
    )
    assert l1 <= l2 + TIGHT
    assert l2 <= worst + TIGHT


def test_calibrated_posteriors_have_little_error():
    posterior, truth = posterior_and_truth(17, n=20_000)
    assert metrics.calibration_error(posterior, truth) < 0.02
    sharpened = posterior**4 / np.sum(posterior**4, axis=1, keepdims=True)
    assert metrics.calibration_error(sharpened, truth) > 0.05


def test_reliability_is_frozen():
    found = metrics.reliability([[1.0, 0.0]], [0])
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.count = np.array([1])


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"bins": 0}, ValueError, "bins.*1,.*0"),
        ({"bins": 2.5}, TypeError, r"bins.*2\.5"),
        ({"bins": True}, TypeError, "bins"),
        ({"strategy": "width"}, ValueError, "strategy.*'uniform'.*'quantile'.*'width'"),
        ({"norm": "l3"}, ValueError, "norm.*'l1'.*'l2'.*'max'.*'l3'"),
    ],
)
def test_calibration_options_are_checked(options, error, match):
    with pytest.raises(error, match=match):
        metrics.calibration_error([[1.0, 0.0]], [0], **options)
