"""Agreement of numbers against published figures, the analysis of variance and plain loops."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhands as mh
from manyhands import agreement

#: Six targets by four judges, of Shrout and Fleiss (1979), whose coefficients they print.
JUDGES = np.array([[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]], float)
PRINTED = {"one-way": (0.17, 0.44), "two-way": (0.29, 0.62), "consistency": (0.71, 0.91)}


def complete(matrix):
    tasks, workers = np.indices(matrix.shape)
    return mh.Ratings.from_arrays(tasks.ravel(), workers.ravel(), matrix.ravel())


@pytest.mark.parametrize("model", PRINTED)
def test_icc_of_shrout_and_fleiss(model):
    ratings = complete(JUDGES)
    single, average = (agreement.icc(ratings, model, average=average) for average in (False, True))
    assert (round(float(single), 2), round(float(average), 2)) == PRINTED[model]
    assert (single.n_tasks, single.n_pairs) == (6, 36)
    assert single.interval[0] <= single.value <= single.interval[1]


@given(st.integers(0, 2**32), st.integers(2, 8), st.integers(2, 5))
@settings(deadline=None, max_examples=50)
def test_complete_tables_give_the_analysis_of_variance(seed, n, k):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, k)) + 2 * rng.normal(size=(n, 1)) + rng.normal(size=k)
    rows, columns = x.mean(axis=1), x.mean(axis=0)
    between = k * ((rows - x.mean()) ** 2).sum() / (n - 1)
    judges = n * ((columns - x.mean()) ** 2).sum() / (k - 1)
    within = ((x - rows[:, None]) ** 2).sum() / (n * (k - 1))
    rest = ((x - rows[:, None] - columns + x.mean()) ** 2).sum() / ((n - 1) * (k - 1))
    wanted = {
        "one-way": (between - within) / (between + (k - 1) * within),
        "two-way": (between - rest) / (between + (k - 1) * rest + k * (judges - rest) / n),
        "consistency": (between - rest) / (between + (k - 1) * rest),
    }
    for model, value in wanted.items():
        got = float(agreement.icc(complete(x), model, resamples=0))
        # Where the denominator is near zero, estimates of it are all rounding.
        if abs(value) < 1:
            np.testing.assert_allclose(got, value, rtol=1e-6, atol=1e-6)


def test_sparse_tables_recover_the_components():
    crowd = mh.simulate(
        4000, 200, answers_per_task=4, bias=0.5, scale=0.0, noise=0.7, noise_spread=0.0, seed=1, kind="numeric"
    )
    total = 1 + 0.25 + 0.49
    wanted = {"one-way": 1 / total, "two-way": 1 / total, "consistency": 1 / 1.49}
    for model, value in wanted.items():
        found = agreement.icc(crowd.log, model, resamples=20)
        # Two hundred biases are known to some per cent.
        assert abs(found.value - value) < 0.03
        assert found.interval[0] < found.value < found.interval[1]
    averaged = float(agreement.icc(crowd.log, "consistency", average=True, resamples=0))
    assert abs(averaged - 1 / (1 + 0.49 / 4)) < 0.02


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    held = 0
    for seed in range(100):
        ratings = mh.simulate(
            60, 20, bias=0.0, scale=0.0, noise=1.0, noise_spread=0.0, answers_per_task=3, seed=seed, kind="numeric"
        )
        low, high = agreement.icc(ratings.log, "one-way", confidence=0.9).interval
        held += low <= 0.5 <= high
    # Ninety expected; the standard deviation of the count is three.
    assert 80 <= held <= 98


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=50)
def test_pearson_is_the_mean_over_pairs(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(12, 4)) + rng.normal(size=(12, 1))
    seen = rng.random(x.shape) < 0.8
    tasks, workers = np.nonzero(seen)
    if not len(tasks):
        return
    found = agreement.pearson(mh.Ratings.from_arrays(tasks, workers, x[seen]))
    values, weights = [], []
    for i, j in combinations(range(4), 2):
        both = seen[:, i] & seen[:, j]
        if both.sum() >= 3:
            values.append(np.corrcoef(x[both, i], x[both, j])[0, 1])
            weights.append(both.sum())
    assert found.n_pairs == len(values)
    if values:
        np.testing.assert_allclose(found.value, np.average(values, weights=weights), rtol=1e-9)


def test_pearson_has_an_interval_and_leaves_out_constant_workers():
    ratings = mh.simulate(100, 6, answers_per_task=4, seed=2, kind="numeric").log
    found = agreement.pearson(ratings, resamples=25)
    assert found.interval[0] < found.value < found.interval[1]
    tasks, workers, values = ratings.codes()
    values[workers == 0] = 3.0
    assert agreement.pearson(mh.Ratings.from_arrays(tasks, workers, values)).n_pairs == found.n_pairs - 5


def test_limits_of_agreement():
    rng = np.random.default_rng(3)
    x = rng.normal([0.5, 0.0], 1.0, size=(200, 2))
    ratings = complete(x)
    limits = agreement.bland_altman(ratings, (0, 1))
    away = x[:, 0] - x[:, 1]
    np.testing.assert_allclose(
        [limits.bias, limits.deviation, limits.low],
        [away.mean(), away.std(ddof=1), away.mean() - 1.959964 * away.std(ddof=1)],
        rtol=1e-6,
    )
    everyone = agreement.bland_altman(ratings)
    assert everyone.bias == 0
    np.testing.assert_allclose(everyone.deviation, np.sqrt((away**2).mean()), rtol=1e-9)
    assert everyone.n_pairs == limits.n_pairs == 200


def test_nothing_to_compare_is_said():
    alone = mh.Ratings.from_arrays([1, 2, 3], ["u", "u", "v"], [1.0, 2.0, 3.0])
    found = agreement.icc(alone)
    assert np.isnan(found.value)
    assert "no task" in found.reason
    assert "no two workers" in agreement.pearson(alone).reason
    assert np.isnan(agreement.bland_altman(alone).deviation)
    assert np.isnan(agreement.bland_altman(alone, ("u", "v")).bias)


def test_odd_questions_are_refused():
    ratings = complete(JUDGES)
    with pytest.raises(ValueError, match="model"):
        agreement.icc(ratings, "three-way")
    with pytest.raises(ValueError, match="worker 9"):
        agreement.bland_altman(ratings, (0, 9))
    with pytest.raises(ValueError, match="0 twice"):
        agreement.bland_altman(ratings, (0, 0))
    with pytest.raises(ValueError, match="min_overlap"):
        agreement.pearson(ratings, min_overlap=2)
    points = mh.Ratings.from_arrays([1, 1], ["u", "v"], np.zeros((2, 2)))
    with pytest.raises(ValueError, match="number"):
        agreement.icc(points)


@pytest.mark.parametrize("factor", [1e-290, 1.0, 1e290])
def test_units_do_not_matter(factor):
    ratings = complete(JUDGES * factor)
    assert round(float(agreement.icc(ratings)), 2) == 0.29
    assert np.isfinite(agreement.bland_altman(ratings).deviation)
