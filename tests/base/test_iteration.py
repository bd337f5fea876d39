"""The stopping rule of iterations in Python, and EM with extrapolation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from manyhands._base.iteration import accelerated_em, iterate, largest_change


def test_an_iteration_ends_at_the_first_change_below_the_tolerance():
    changes, seen = iter([0.5, 0.1, 0.05, 0.0]), []
    assert iterate(lambda _: next(changes), 9, 0.1, lambda step, value: seen.append((step, value))) == (3, True)
    assert [step for step, _ in seen] == [1, 2, 3]
    assert all(math.isnan(value) for _, value in seen)


def test_an_iteration_ends_at_its_limit_and_reports_objectives():
    seen = []
    result = iterate(lambda step: (1.0, -2.0 * step), 2, 0.1, lambda step, value: seen.append((step, value)))
    assert result == (2, False)
    assert seen == [(1, -2.0), (2, -4.0)]


def test_changes_are_the_largest_absolute_ones():
    assert largest_change(np.array([1.0, 5.0]), np.array([1.5, 3.0])) == 2.0


def linear(rate):
    """EM that approaches 1 by a rate, and its number of steps."""
    steps = []

    def step(x):
        steps.append(float(x[0]))
        after = 1.0 + rate * (x - 1.0)
        return after, -float((x[0] - 1.0) ** 2), after

    return step, steps


def test_extrapolation_takes_fewer_steps_and_never_lowers_the_objective():
    step, steps = linear(0.95)
    posterior, history, converged = accelerated_em(
        step, np.zeros(1), np.zeros(1), max_iter=500, tol=1e-8, progress=None
    )
    assert converged
    assert posterior == pytest.approx([1.0], abs=1e-6)
    assert np.all(np.diff(history) >= 0)
    assert len(steps) < 60  # without extrapolation, 300


def test_an_extrapolation_that_lowers_the_objective_is_undone():
    def step(x):
        # Even steps are extrapolated as far as allowed, to where all is worse.
        return x, float(x[0]) if x[0] < 1 else -1.0, x + 0.1

    reported = []
    _, history, converged = accelerated_em(
        step, np.zeros(1), np.full(1, 9.0), max_iter=9, tol=0.0, progress=lambda _, value: reported.append(value)
    )
    assert history == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4, 0.5])
    assert reported[2::3] == [-1.0] * 3
    assert not converged
