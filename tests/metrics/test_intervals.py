"""Widths of intervals against SciPy and against their definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from manyhands.metrics.intervals import offset_errors, student_quantile


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_student_quantiles_are_those_of_scipy(level):
    for freedom in (1.0, 2.5, 30.0):
        assert student_quantile(level, freedom) == pytest.approx(stats.t.ppf(0.5 + level / 2, freedom), rel=1e-9)
    assert student_quantile(level, 0.2) == student_quantile(level, 1.0)
    assert student_quantile(level, None) == pytest.approx(stats.norm.ppf(0.5 + level / 2), rel=1e-12)


def test_offset_errors_hold_the_truth_at_their_level():
    offsets, reach = np.array([0.0, -0.4, 1.0, 3.0, 8.0]), student_quantile(0.9, None)
    half = reach * offset_errors(offsets, np.full(5, 0.5), 0.9)
    assert stats.norm.cdf(half, offsets, 0.5) - stats.norm.cdf(-half, offsets, 0.5) == pytest.approx(0.9, abs=2e-3)


def test_an_offset_without_an_error_is_covered_exactly():
    assert offset_errors(np.array([3.0]), np.zeros(1), 0.9) * student_quantile(0.9, None) == pytest.approx([3.0])
