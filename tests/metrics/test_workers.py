"""Measures of workers, against hand formulas, double sums and SciPy."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from draws import SEEDS, SIZES, TIGHT, stochastic
from hypothesis import given
from hypothesis import strategies as st

from manyhands import metrics

# Workers


def test_confusion_error_is_the_formula():
    rng = np.random.default_rng(0)
    left, right = stochastic(rng, 5, 3, 3), stochastic(rng, 5, 3, 3)
    expected = sum((left[r, i, j] - right[r, i, j]) ** 2 for r in range(5) for i in range(3) for j in range(3)) / (
        5 * 3
    )
    assert metrics.confusion_error(left, right) == pytest.approx(expected, abs=TIGHT)


def test_confusion_error_reaches_two():
    assert metrics.confusion_error([np.eye(2)], [np.eye(2)[::-1]]) == 2


@given(SEEDS, SIZES, SIZES)
def test_confusion_error_properties(seed, m, k):
    rng = np.random.default_rng(seed)
    left, right = stochastic(rng, m, k, k), stochastic(rng, m, k, k)
    value, workers, classes = metrics.confusion_error(left, right), rng.permutation(m), rng.permutation(k)
    assert 0 <= value <= 2
    assert metrics.confusion_error(left, left) == 0
    assert metrics.confusion_error(right, left) == pytest.approx(value, abs=TIGHT)
    assert metrics.confusion_error(left[workers], right[workers]) == pytest.approx(value, abs=TIGHT)
    grid = np.ix_(range(m), classes, classes)
    assert metrics.confusion_error(left[grid], right[grid]) == pytest.approx(value, abs=TIGHT)


def test_skill_is_the_weighted_diagonal():
    rng = np.random.default_rng(1)
    confusion, prior = stochastic(rng, 6, 4, 4), stochastic(rng, 1, 4)[0]
    expected = [sum(prior[c] * confusion[m, c, c] for c in range(4)) for m in range(6)]
    np.testing.assert_allclose(metrics.skill(confusion, prior), expected)
    np.testing.assert_allclose(metrics.skill(confusion), np.trace(confusion, axis1=1, axis2=2) / 4)


def test_skill_error_takes_skills_or_confusions():
    rng = np.random.default_rng(2)
    left, right, prior = stochastic(rng, 6, 3, 3), stochastic(rng, 6, 3, 3), stochastic(rng, 1, 3)[0]
    a, b = metrics.skill(left, prior), metrics.skill(right, prior)
    expected = np.mean(np.abs(a - b))
    assert metrics.skill_error(left, right, prior) == pytest.approx(expected, abs=TIGHT)
    assert metrics.skill_error(a, right, prior) == pytest.approx(expected, abs=TIGHT)
    assert metrics.skill_error(a, b) == pytest.approx(expected, abs=TIGHT)
    assert metrics.skill_error(left, left) == 0
    rank = metrics.skill_rank_correlation(a, b)
    assert metrics.skill_rank_correlation(left, right, prior) == pytest.approx(rank, abs=TIGHT)
    assert metrics.skill_rank_correlation(left, b, prior) == pytest.approx(rank, abs=TIGHT)


@given(SEEDS, st.integers(2, 30), st.integers(2, 40))
def test_rank_correlation_agrees_with_scipy(seed, m, distinct):
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, distinct, m) / distinct, rng.integers(0, distinct, m) / distinct
    a[:2], b[:2] = [0, 1], [0, 1]  # neither is constant
    found = metrics.skill_rank_correlation(a, b)
    assert found == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-9)
    assert metrics.skill_rank_correlation(b, a) == pytest.approx(found, abs=TIGHT)
    assert metrics.skill_rank_correlation(a, -b) == pytest.approx(-found, abs=TIGHT)
    assert metrics.skill_rank_correlation(np.exp(a), b) == pytest.approx(found, abs=TIGHT)
    assert metrics.skill_rank_correlation(a, a) == pytest.approx(1)


@pytest.mark.parametrize(("a", "b"), [([0.5], [0.5]), ([0.5, 0.5], [0.1, 0.2]), ([0.1, 0.2], [0.5, 0.5])])
def test_rank_correlation_is_nan_where_undefined(a, b):
    assert np.isnan(metrics.skill_rank_correlation(a, b))


def test_information_against_the_double_sum():
    rng = np.random.default_rng(4)
    confusion, prior = stochastic(rng, 5, 3, 3, sharp=0.3), stochastic(rng, 1, 3)[0]
    confusion[0] = [[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1]]  # zeros add nothing
    expected = []
    for table in confusion:
        joint = prior[:, None] * table
        apart = prior[:, None] * joint.sum(axis=0)
        seen = joint > 0
        expected.append(np.sum(joint[seen] * np.log2(joint[seen] / apart[seen])))
    np.testing.assert_allclose(metrics.information(confusion, prior), expected, atol=TIGHT)


@given(SEEDS, SIZES, SIZES)
def test_information_properties(seed, m, k):
    rng = np.random.default_rng(seed)
    confusion, prior, classes = stochastic(rng, m, k, k), stochastic(rng, 1, k)[0], rng.permutation(k)
    bits = metrics.information(confusion, prior)
    entropy = -np.sum(prior * np.log2(prior))
    assert bits.shape == (m,)
    assert np.all((bits >= 0) & (bits <= entropy + TIGHT))
    np.testing.assert_allclose(metrics.information(confusion[:, :, classes], prior), bits, atol=TIGHT)
    np.testing.assert_allclose(metrics.information(confusion[:, classes], prior[classes]), bits, atol=TIGHT)
    # Whoever errs in a consistent way tells all; whoever ignores the class tells nothing.
    np.testing.assert_allclose(metrics.information([np.eye(k)[classes]], prior), entropy, atol=TIGHT)
    np.testing.assert_allclose(metrics.information(np.repeat(confusion[:, :1], k, axis=1), prior), 0, atol=TIGHT)


def test_information_of_spammers_never_falls_below_zero():
    rng = np.random.default_rng(6)
    spammers = np.repeat(stochastic(rng, 1000, 1, 5), 5, axis=1)
    bits = metrics.information(spammers, stochastic(rng, 1, 5)[0])
    assert bits.min() == 0
    assert bits.max() < TIGHT


def test_information_of_classes_that_never_occur():
    swaps = np.eye(3)[[1, 0, 2]]
    np.testing.assert_allclose(metrics.information([swaps], [0.5, 0.5, 0.0]), [1.0])


@given(SEEDS, SIZES, st.integers(2, 6))
def test_spammer_score_is_the_sum_over_pairs(seed, m, k):
    rng = np.random.default_rng(seed)
    confusion = stochastic(rng, m, k, k)
    expected = [
        sum(np.sum((table[c] - table[d]) ** 2) for c, d in combinations(range(k), 2)) / (k * (k - 1))
        for table in confusion
    ]
    score = metrics.spammer_score(confusion)
    np.testing.assert_allclose(score, expected, atol=TIGHT)
    assert np.all((score >= 0) & (score <= 1 + TIGHT))
    np.testing.assert_allclose(metrics.spammer_score([np.eye(k)[rng.permutation(k)]]), 1)
    np.testing.assert_allclose(metrics.spammer_score(np.repeat(confusion[:, :1], k, axis=1)), 0, atol=TIGHT)


@given(st.floats(0, 1), st.floats(0, 1))
def test_spammer_score_of_two_classes(sensitivity, specificity):
    confusion = [[[specificity, 1 - specificity], [1 - sensitivity, sensitivity]]]
    expected = (sensitivity + specificity - 1) ** 2
    assert metrics.spammer_score(confusion)[0] == pytest.approx(expected, abs=TIGHT)


def test_one_class():
    only = np.ones((3, 1, 1))
    np.testing.assert_array_equal(metrics.skill(only, [1.0]), [1, 1, 1])
    np.testing.assert_array_equal(metrics.information(only), [0, 0, 0])
    np.testing.assert_array_equal(metrics.spammer_score(only), [1, 1, 1])
    assert metrics.confusion_error(only, only) == 0
    assert metrics.log_loss([[1.0]], [0]) == 0
    assert metrics.brier([[1.0]], ["a"], classes=["a"]) == 0


def test_abstentions_are_further_columns():
    # Half of the time neither of them answers; the first is right otherwise, the second guesses.
    confusion = np.array([[[0.5, 0, 0.5], [0, 0.5, 0.5]], [[0.25, 0.25, 0.5], [0.25, 0.25, 0.5]]])
    np.testing.assert_allclose(metrics.skill(confusion), [0.5, 0.25])
    np.testing.assert_allclose(metrics.information(confusion), [0.5, 0])
    np.testing.assert_allclose(metrics.spammer_score(confusion), [0.25, 0])


CONFUSION = np.array([[[0.9, 0.1], [0.2, 0.8]]])


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: metrics.skill(CONFUSION[0]), "confusion.*3 dimensions"),
        (lambda: metrics.skill(np.zeros((0, 2, 2))), "confusion"),
        (
            lambda: metrics.skill(np.full((1, 4, 2), 0.5)),
            r"\(1, 4, 2\)",
        ),
        (lambda: metrics.skill(CONFUSION * 0.9), r"worker 0.*class 0.*0\.9"),
        (lambda: metrics.spammer_score([[[1, 0], [np.nan, 1]]]), "worker 0.*class 1.*nan"),
        (lambda: metrics.information([[[1, 0], [2, -1]]]), "worker 0.*class 1.*-1"),
        (lambda: metrics.skill(CONFUSION, [0.5, 0.4]), r"prior.*0\.9"),
        (lambda: metrics.skill(CONFUSION, [1.5, -0.5]), r"prior.*-0\.5"),
        (lambda: metrics.information(CONFUSION, [1.0]), "prior.*1 entries.*2 classes"),
        (lambda: metrics.confusion_error(CONFUSION, np.ones((1, 1, 1))), "estimated"),
        (lambda: metrics.confusion_error(CONFUSION, 2 * CONFUSION), "worker 0.*class 0.*2"),
        (lambda: metrics.skill_error(CONFUSION, CONFUSION[0]), "true"),
        (lambda: metrics.skill_error(CONFUSION, [0.5, 0.5]), "estimated.*1 rows.*2"),
        (lambda: metrics.skill_error([], []), "estimated"),
        (
            lambda: metrics.skill_error([np.nan], [0.1]),
            "estimated.*nan.*position 0",
        ),
        (lambda: metrics.skill_error([0.5], [0.1], prior=[1.0]), "prior"),
        (lambda: metrics.skill_rank_correlation(CONFUSION * 2, [0.1]), "worker 0.*class 0"),
    ],
)
def test_worker_metrics_name_what_is_wrong(call, match):
    with pytest.raises(ValueError, match=match):
        call()
