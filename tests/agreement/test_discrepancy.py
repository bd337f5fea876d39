"""The discrepancy ratio of Lovchinsky et al. with absolute error."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import manyhands as mh
from manyhands.agreement import discrepancy_ratio


def direct(dense: np.ndarray, model: np.ndarray, min_overlap: int = 1) -> float:
    """Mean error of the model against workers over that of workers against each other; NaN is missing."""

    def error(a, b):
        both = ~np.isnan(a) & ~np.isnan(b)
        return np.abs(a[both] - b[both]).mean() if both.sum() >= min_overlap else np.nan

    own = np.array([error(column, model) for column in dense.T])
    pairs = np.array([error(a, b) for a, b in combinations(dense.T, 2)])
    return np.nanmean(own) / np.nanmean(pairs)


@pytest.mark.parametrize("min_overlap", [1, 12])
def test_the_ratio_is_that_of_its_definition(min_overlap):
    rng = np.random.default_rng(0)
    truth = rng.normal(50, 10, 60)
    dense = truth[:, None] + rng.normal(size=(60, 6)) * rng.uniform(1, 5, 6)
    dense[rng.random(dense.shape) < 0.5] = np.nan
    model = truth + rng.normal(size=60)
    model[:5] = np.nan
    tasks, workers = np.nonzero(~np.isnan(dense))
    ratings = mh.Ratings.from_arrays(tasks, workers, dense[tasks, workers])
    rated = np.asarray(ratings.tasks)
    result = discrepancy_ratio(ratings, model[rated], min_overlap=min_overlap, resamples=20)
    assert result.value == pytest.approx(direct(dense[rated], model[rated], min_overlap))
    assert result.interval[0] < result.value < result.interval[1]
    by_name = {task: value for task, value in zip(rated.tolist(), model[rated], strict=True) if not np.isnan(value)}
    assert discrepancy_ratio(ratings, by_name, min_overlap=min_overlap).value == pytest.approx(result.value)


def test_undefined_ratios_and_bad_values():
    ratings = mh.Ratings.from_arrays([0, 0, 1, 1], ["u", "v"] * 2, [1.0, 1.0, 2.0, 2.0])
    result = discrepancy_ratio(ratings, [1.0, 2.0])
    assert np.isnan(result.value)
    assert result.reason
    with pytest.raises(ValueError, match=r"values has shape \(3,\)"):
        discrepancy_ratio(ratings, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="values has task 7"):
        discrepancy_ratio(ratings, {7: 1.0})
    with pytest.raises(ValueError, match="finite"):
        discrepancy_ratio(ratings, [1.0, np.inf])
