"""The kernels for numbers against their twins, and on any number of threads."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhands as mh
from manyhands import _core
from manyhands._base.special import digamma, log_gamma
from manyhands.numeric.blend import _Losses
from oracles import numeric as twins

N_TASKS, N_WORKERS = 7, 5
#: Sums of a few dozen numbers of size one, in another order.
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


@st.composite
def tables(draw, weighted=None):
    """Ratings of one or two numbers, some repeated, some of weight 0; not all tasks and workers need occur."""
    n, dims = draw(st.integers(1, 40)), draw(st.integers(1, 2))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    tasks, workers = rng.integers(N_TASKS, size=n, dtype=np.uint32), rng.integers(N_WORKERS, size=n, dtype=np.uint32)
    has_weights = draw(st.booleans()) if weighted is None else weighted
    weights = rng.integers(4, size=n) / 2 if has_weights else None
    return _core.Ratings(tasks, workers, rng.normal(size=(n, dims)).round(2), weights, N_TASKS, N_WORKERS), rng


def moments(rng):
    """Workers with moments that some distribution has."""
    a, b = rng.normal(1, 0.3, N_WORKERS), rng.normal(0, 0.5, N_WORKERS)
    root = rng.normal(0, 0.3, (N_WORKERS, 2, 2))
    spread = root @ root.transpose(0, 2, 1)
    more = [a**2 + spread[:, 0, 0], a * b + spread[:, 0, 1], b**2 + spread[:, 1, 1]]
    return np.stack([rng.gamma(2, 1, N_WORKERS), a, b, *more], axis=1)


@given(tables(), st.sampled_from(["normal", "student", "others", "flat"]))
@settings(deadline=None)
def test_a_pass_of_the_gaussian_model(drawn, noise):
    table, rng = drawn
    dim, unit, centre = table.dims - 1, 1.7, 0.3
    workers, prior, rest = moments(rng), (0.2, 0.0 if noise == "flat" else 0.8), {}
    if noise == "student":
        rest = {"freedom": 4.0, "last": np.stack([rng.normal(size=N_TASKS), rng.gamma(2, 1, N_TASKS)], axis=1)}
    if noise == "others":
        # Rates that exceed what any rating of the table takes off them.
        rest = {"residuals": rng.gamma(1, 1, table.n_annotations)}
        rest["shapes"] = np.stack([np.full(N_WORKERS, 3.0), np.full(N_WORKERS, 20.0)], axis=1)
    got = table.gaussian_pass(dim, unit, centre, workers, prior, **rest)
    wanted = twins.gaussian_pass(table, dim, unit, centre, workers, prior, **rest)
    rated = np.diff(table.offsets()) > 0
    for mine, theirs in zip(got, wanted, strict=True):
        if mine.shape == (N_TASKS, 2):
            mine, theirs = mine[rated], theirs[rated]
        np.testing.assert_allclose(mine, theirs, **CLOSE)


@given(tables(), st.booleans())
@settings(deadline=None)
def test_means_and_differences(drawn, weighing):
    table, rng = drawn
    weights = rng.integers(3, size=N_WORKERS) / 2 if weighing else None
    got = table.spread(0, 1.3, -0.2, weights)
    wanted = twins.spread(table, 0, 1.3, -0.2, weights)
    for mine, theirs in zip(got, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, **CLOSE)


@given(tables(), st.sampled_from([0.0, 0.1, 0.25, 0.5]))
@settings(deadline=None)
def test_trimmed_means(drawn, trim):
    table, _ = drawn
    got = table.trimmed_means(0, 1.0, 0.0, trim)
    rated = np.flatnonzero(np.diff(table.offsets()))
    kept = table.keep(np.isin(table.columns()[0], rated)).compacted()
    np.testing.assert_allclose(got[rated], twins.trimmed_means(kept, 0, 1.0, 0.0, trim), **CLOSE)


@given(tables(), st.integers(1, 3))
@settings(deadline=None)
def test_least_squares_over_pairs_without_the_pairs(drawn, rank):
    table, rng = drawn
    means, factors = rng.normal(size=N_WORKERS), rng.normal(size=(N_WORKERS, rank))
    got = table.covariance_sums(0, 1.1, 0.1, means, factors, rank)
    np.testing.assert_allclose(got, twins.covariance_sums(table, 0, 1.1, 0.1, means, factors, rank), **CLOSE)


@given(tables(), st.integers(1, 3))
@settings(deadline=None)
def test_best_linear_prediction(drawn, rank):
    table, rng = drawn
    means, precisions, factors = (
        rng.normal(size=N_WORKERS),
        rng.gamma(2, 1, N_WORKERS),
        rng.normal(size=(N_WORKERS, rank)),
    )
    target = rng.normal(size=rank)
    arguments = (0, 1.1, 0.1, means, precisions, factors, target)
    np.testing.assert_allclose(table.factor_scores(*arguments), twins.factor_scores(table, *arguments), **CLOSE)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_same_bits_on_any_number_of_threads(weighted):
    rng = np.random.default_rng(0)
    n = 200_000
    tasks, workers = rng.integers(40_000, size=n, dtype=np.uint32), rng.integers(500, size=n, dtype=np.uint32)
    weights = rng.random(n) + 0.5 if weighted else None
    table = _core.Ratings(tasks, workers, rng.normal(size=(n, 1)), weights, 40_000, 500)
    each = np.tile([1.0, 1.0, 0.0, 1.1, 0.0, 0.1], (500, 1))
    ones = np.ones((500, 1))

    def everything():
        first = table.gaussian_pass(0, 1.0, 0.0, each, (0.0, 1.0))
        shapes = np.full((500, 2), 500.0)
        second = table.gaussian_pass(0, 1.0, 0.0, each, (0.0, 1.0), shapes=shapes, residuals=np.ones(n))
        pairs = table.covariance_sums(0, 1.0, 0.0, np.zeros(500), ones, 1)
        scores = table.factor_scores(0, 1.0, 0.0, np.zeros(500), np.ones(500), ones, np.ones(1))
        return [
            *first,
            *second,
            *table.spread(0, 1.0, 0.0),
            table.trimmed_means(0, 1.0, 0.0, 0.2),
            pairs,
            scores,
        ]

    before, found = mh.get_num_threads(), []
    try:
        for threads in (1, 3):
            mh.set_num_threads(threads)
            found.append(everything())
    finally:
        mh.set_num_threads(before)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.gaussian_pass(1, 1.0, 0.0, np.ones((1, 6)), (0.0, 1.0)), "dimension 1"),
        (lambda t: t.gaussian_pass(0, np.inf, 0.0, np.ones((1, 6)), (0.0, 1.0)), "finite"),
        (lambda t: t.gaussian_pass(0, 1.0, 0.0, np.ones((1, 5)), (0.0, 1.0)), "5 numbers.*6"),
        (lambda t: t.gaussian_pass(0, 1.0, 0.0, np.ones((1, 6)), (0.0, 1.0), freedom=3.0), "last"),
        (
            lambda t: t.gaussian_pass(0, 1.0, 0.0, np.ones((1, 6)), (0.0, 1.0), freedom=3.0, last=np.ones(1)),
            "last.*1",
        ),
        (lambda t: t.spread(0, 1.0, 0.0, np.ones(2)), "2 weights for 1 workers"),
        (lambda t: t.trimmed_means(0, 1.0, 0.0, 0.6), "trim"),
        (lambda t: t.covariance_sums(0, 1.0, 0.0, np.ones(1), np.ones((1, 2)), 1), "1 factors"),
        (
            lambda t: t.factor_scores(0, 1.0, 0.0, np.ones(1), np.ones(2), np.ones((1, 1)), np.ones(1)),
            "2 precisions for 1 workers",
        ),
    ],
)
def test_what_does_not_fit_the_table_is_refused(call, message):
    table = _core.Ratings(np.zeros(2, np.uint32), np.zeros(2, np.uint32), np.ones((2, 1)), None, 1, 1)
    with pytest.raises(ValueError, match=message):
        call(table)


@pytest.mark.parametrize("x", [0.5, 1.0, 2.5, 17.0, 1e3, 1e6])
def test_gamma_functions_are_those_of_the_library(x: float) -> None:
    assert log_gamma(np.array([x]))[0] == pytest.approx(math.lgamma(x), rel=1e-10, abs=1e-10)
    step = 1e-5 * x
    slope = (math.lgamma(x + step) - math.lgamma(x - step)) / (2 * step)
    assert digamma(np.array([x]))[0] == pytest.approx(slope, rel=1e-6, abs=1e-6)


def test_a_gain_that_may_be_chance_gives_no_weight() -> None:
    rng = np.random.default_rng(1)
    tasks, workers = np.repeat(np.arange(30), 2).astype(np.uint32), np.tile([0, 1], 30).astype(np.uint32)
    losses = _Losses(_core.Ratings(tasks, workers, np.zeros((60, 1)), None, 30, 2), 2)
    model = rng.standard_normal((60, 1))
    losses.add(np.arange(60), np.stack([model + 0.01 * rng.standard_normal((60, 1)), model]), np.ones(60))
    np.testing.assert_array_equal(losses.weights(), [0.0, 1.0])
