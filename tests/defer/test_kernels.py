"""Keeping workloads: projections against SciPy and the conditions of an optimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhands as mh
from manyhands.defer import project, project_chunks
from oracles import defer as oracle

#: What the kernel promises of shares and of the conditions of an optimum.
EXACT = 1e-9


def softmax(logits: np.ndarray) -> np.ndarray:
    rows = np.exp(logits - logits.max(axis=1, keepdims=True))
    return rows / rows.sum(axis=1, keepdims=True)


def draw(seed: int, n: int, k: int, scale: float = 1.0) -> np.ndarray:
    return softmax(scale * np.random.default_rng(seed).normal(size=(n, k)))


@st.composite
def problems(draw_, scales=(0.0, 1.0, 5.0, 50.0)) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows, bounds that some shares satisfy, and weights."""
    n, k = draw_(st.integers(1, 30)), draw_(st.integers(1, 6))
    rng = np.random.default_rng(draw_(st.integers(0, 2**32 - 1)))
    q = softmax(draw_(st.sampled_from(scales)) * rng.normal(size=(n, k)))
    shares = rng.dirichlet(np.ones(k))
    below, above = draw_(st.sampled_from([0.0, 0.5, 1.0])), draw_(st.sampled_from([0.0, 0.1, 1.0]))
    lower, upper = shares * (1 - below), np.minimum(shares + above * (1 - shares), 1)
    weights = rng.choice([0.5, 1.0, 3.0], size=n)
    return q, lower, upper, weights


@settings(max_examples=200, deadline=None)
@given(problems())
def test_projection_is_optimal(problem):
    q, lower, upper, weights = problem
    found = project(q, lower, upper, weights=weights)
    p = found.probabilities
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(p, oracle.tilted(q, found.tilt), atol=1e-12)
    shares = weights @ p / weights.sum()
    np.testing.assert_allclose(found.shares, shares, atol=1e-12)
    # Rows that are tilted and satisfy these conditions are the projection: the problem is convex.
    assert oracle.kkt_residual(shares, found.tilt, lower, upper) <= EXACT
    assert found.residual <= EXACT
    assert found.kl == pytest.approx(oracle.divergence(p, q, weights), abs=1e-9, rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_projection_agrees_with_scipy(seed):
    rng = np.random.default_rng(seed)
    n, k = 6, 3 + seed % 3
    q, weights, shares = draw(seed, n, k), rng.uniform(0.5, 2, size=n), rng.dirichlet(np.ones(k))
    lower, upper = 0.9 * shares, np.minimum(1.1 * shares, 1)
    found = project(q, lower, upper, weights=weights)
    # SLSQP stops when its objective moves by less than 1e-14: its solution has half as many digits, and some less.
    np.testing.assert_allclose(found.probabilities, oracle.project(q, lower, upper, weights), atol=1e-5)


@settings(max_examples=50, deadline=None)
@given(problems(scales=(1.0, 5.0)))
def test_projecting_twice_changes_nothing(problem):
    q, lower, upper, weights = problem
    once = project(q, lower, upper, weights=weights).probabilities
    again = project(once, lower, upper, weights=weights)
    np.testing.assert_allclose(again.probabilities, once, atol=1e-7)
    assert again.kl <= 1e-12


@settings(max_examples=50, deadline=None)
@given(problems(scales=(1.0, 5.0)), st.randoms(use_true_random=False))
def test_projection_follows_permutations(problem, random):
    q, lower, upper, weights = problem
    rows, options = list(range(len(q))), list(range(q.shape[1]))
    random.shuffle(rows)
    random.shuffle(options)
    plain = project(q, lower, upper, weights=weights)
    moved = project(q[rows][:, options], lower[options], upper[options], weights=weights[rows])
    np.testing.assert_allclose(moved.probabilities, plain.probabilities[rows][:, options], atol=1e-7)


@settings(max_examples=50, deadline=None)
@given(problems())
def test_bounds_that_hold_change_nothing(problem):
    q, _, _, weights = problem
    shares = weights @ q / weights.sum()
    found = project(q, np.maximum(shares - 0.01, 0), np.minimum(shares + 0.01, 1), weights=weights)
    assert found.tilt.tolist() == [0.0] * q.shape[1]
    assert found.n_iter == 1
    np.testing.assert_allclose(found.probabilities, q, rtol=1e-15, atol=0)


@settings(max_examples=30, deadline=None)
@given(problems(scales=(1.0, 5.0)), st.integers(1, 7))
def test_chunks_give_what_all_rows_give(problem, size):
    q, lower, upper, weights = problem
    pieces = [slice(at, at + size) for at in range(0, len(q), size)]
    found = project_chunks(
        lambda: (q[piece] for piece in pieces), lower, upper, weights=lambda: (weights[piece] for piece in pieces)
    )
    whole = project(q, lower, upper, weights=weights)
    assert found.probabilities is None
    assert found.residual <= EXACT
    np.testing.assert_allclose(found.apply(q), whole.probabilities, atol=1e-7)
    assert found.kl == pytest.approx(whole.kl, abs=1e-8)


@pytest.mark.parametrize("scale", [1.0, 5.0, 30.0, 100.0])
def test_even_extreme_rows_take_few_passes(scale):
    """Steps that fail shorten the next ones, so that half of the 200 passes that Newton's method has suffice."""
    rng = np.random.default_rng(0)
    for case in range(12):
        k = 2 + case % 5
        q = draw(case, 5 + 4 * case, k, scale)
        shares = rng.dirichlet(np.ones(k))
        found = project(q, 0.98 * shares, np.minimum(1, 1.02 * shares + 1e-3))
        assert found.method == "newton"
        assert found.residual <= EXACT
        assert found.n_iter <= 100, case


def test_gradients_find_the_same():
    q = draw(1, 500, 6)
    lower, upper = np.full(6, 0.1), np.array([0.2, 0.2, 0.2, 0.2, 0.3, 1])
    newton, gradient = project(q, lower, upper), project(q, lower, upper, method="gradient")
    assert (newton.method, gradient.method) == ("newton", "gradient")
    assert gradient.residual <= EXACT
    np.testing.assert_allclose(gradient.probabilities, newton.probabilities, atol=1e-7)


def test_large_problems_start_from_a_sample_and_end_the_same():
    q = draw(2, 140_000, 5)  # above the size from which a sample is used
    weights = np.random.default_rng(0).uniform(size=len(q))
    bounds = np.full(5, 0.2), np.array([0.2, 0.2, 0.2, 0.2, 0.2])
    found = project(q, *bounds, weights=weights)
    assert found.n_iter <= 5
    assert oracle.kkt_residual(weights @ found.probabilities / weights.sum(), found.tilt, *bounds) <= EXACT
    # The rows in an order that makes the sample worthless: all of one kind first.
    order = np.argsort(q[:, 0])
    ordered = project(q[order], *bounds, weights=weights[order])
    np.testing.assert_allclose(ordered.probabilities, found.probabilities[order], atol=1e-7)


def test_same_bits_on_any_number_of_threads():
    q = draw(3, 20_000, 7)
    before = mh.get_num_threads()
    try:
        found = []
        for threads in (1, 3):
            mh.set_num_threads(threads)
            found.append(project(q, 1 / 7, 1 / 7))
    finally:
        mh.set_num_threads(before)
    np.testing.assert_array_equal(found[0].probabilities, found[1].probabilities)
    assert found[0].kl == found[1].kl


# --- edges ------------------------------------------------------------------------------------------------------------


def test_one_row_and_one_option():
    assert project([[1.0]], 1, 1).probabilities.tolist() == [[1.0]]
    found = project([[0.25, 0.75]], [0.5, 0], [1, 1])
    np.testing.assert_allclose(found.probabilities, [[0.5, 0.5]], atol=EXACT)


@pytest.mark.parametrize("tiny", [1e-30, 1e-150, 1e-300, 5e-324])
def test_rows_that_are_nearly_certain(tiny):
    q = np.full((90, 3), tiny)
    q[np.arange(90), np.repeat([0, 1, 2], [60, 20, 10])] = 1 - 2 * tiny
    found = project(q, 1 / 3, 1 / 3)
    assert found.residual <= EXACT
    np.testing.assert_allclose(found.probabilities.mean(axis=0), 1 / 3, atol=EXACT)


def test_probabilities_of_zero_stay_zero():
    q = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.9, 0.0, 0.1]])
    found = project(q, [0.5, 0, 0.4])
    assert (found.probabilities[q == 0] == 0).all()
    assert found.shares[0] == pytest.approx(0.5, abs=EXACT)
    assert found.shares[2] == pytest.approx(0.4, abs=EXACT)


def test_an_option_without_a_share_is_shut():
    q = draw(4, 50, 4)
    found = project(q, upper=[0, 0.5, 1, 0])
    assert found.tilt[[0, 3]].tolist() == [-np.inf, -np.inf]
    assert (found.probabilities[:, [0, 3]] == 0).all()
    np.testing.assert_allclose(found.shares.sum(), 1)
    everything = project(q, lower=[0, 0, 0, 1])
    np.testing.assert_allclose(everything.probabilities, np.tile([0, 0, 0, 1.0], (50, 1)))


def test_bounds_rounded_by_arithmetic_are_taken():
    found = project(draw(5, 40, 10), np.full(10, 0.1), np.full(10, 0.1))  # ten times 0.1 is not 1
    np.testing.assert_allclose(found.shares, 0.1, atol=EXACT)
    split = np.append(np.full(7, 0.6 / 7), 0.4)
    np.testing.assert_allclose(project(draw(5, 40, 8), split, split).shares, split, atol=EXACT)


@pytest.mark.parametrize(
    ("q", "lower", "upper", "message"),
    [
        (draw(0, 5, 3), [0.5, 0.4, 0.3], None, "1.2"),
        (draw(0, 5, 3), None, [0.1, 0.2, 0.3], "0.6"),
        (draw(0, 5, 3), [0, 0.5, 0], [1, 0.4, 1], "1.*0.5.*0.4"),
        (draw(0, 5, 3), [0, 0.5, 0], [1, 1.5, 1], "option 1.*0.5.*1.5"),
        (draw(0, 5, 3), [0, np.nan, 0], None, "option 1"),
        (draw(0, 5, 3), [0, 0.5], None, "bound.*3"),
        ([[0.5, 0.5, 0], [0.5, 0.5, 0]], [0, 0, 0.1], None, "option 2.*10.*bounds"),
        ([[1, 0, 0], [0.5, 0.5, 0]], None, [0.4, 1, 1], "option 0.*40.*bounds"),
        ([[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]], [0.3, 0.3, 0, 0], None, "options [01], [01].*60"),
        ([[1, 0, 0], [0, 0.5, 0.5]], None, [0, 1, 1], "row 0 .* share must be 0"),
        ([[0.5, 0.6], [0.5, 0.5]], None, None, "row 0.*1.1"),
        ([[0.5, 0.5], [1.5, -0.5]], None, None, "-0.5.*row 1"),
        ([[0.5, 0.5], [np.nan, 0.5]], None, None, "NaN.*row 1"),
        (np.zeros((0, 3)), None, None, "rows"),
        (np.zeros((3, 0)), None, None, r"n_options.*\(3, 0\)"),
        (np.ones(3), None, None, "shape"),
    ],
)
def test_what_cannot_be_is_refused(q, lower, upper, message):
    with pytest.raises(ValueError, match=message):
        project(q, lower, upper)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_zeros_are_refused_exactly_where_nothing_is_possible(seed):
    rng = np.random.default_rng(seed)
    n, k = rng.integers(1, 8), rng.integers(2, 5)
    q = rng.dirichlet(np.ones(k), size=n) * (rng.uniform(size=(n, k)) < 0.5)
    q[np.arange(n), rng.integers(k, size=n)] += 0.5
    q /= q.sum(axis=1, keepdims=True)
    shares = rng.dirichlet(np.ones(k))
    lower, upper = 0.8 * shares, np.minimum(1.2 * shares, 1)
    if oracle.is_possible(q, lower, upper):
        assert project(q, lower, upper).residual <= EXACT
    else:
        with pytest.raises(ValueError, match="bounds"):
            project(q, lower, upper)


def test_weights_are_checked():
    with pytest.raises(ValueError, match="2 weights for 3 rows"):
        project(draw(0, 3, 2), weights=[1, 2])
    with pytest.raises(ValueError, match="at least 0"):
        project(draw(0, 3, 2), weights=[1, 2, -1])
    with pytest.raises(ValueError, match="positive"):
        project(draw(0, 3, 2), weights=[0, 0, 0])
    q = draw(0, 3, 2)
    twice = project(np.vstack([q, q[:1]]), 0.5, 0.5).tilt
    np.testing.assert_allclose(project(q, 0.5, 0.5, weights=[2, 1, 1]).tilt, twice, atol=1e-8)


@pytest.mark.parametrize("scale", [1e308, 1e-320])
def test_weights_whose_sums_would_not_hold_are_refused(scale):
    """Their sum may overflow, and products with the smallest of them keep no digits."""
    q, weights = draw(7, 30, 3), np.full(30, scale)
    with pytest.raises(ValueError, match=r"weights.*row 0"):
        project(q, 1 / 3, 1 / 3, weights=weights)
    with pytest.raises(ValueError, match=r"weights.*row 0"):
        project_chunks(lambda: [q], 1 / 3, 1 / 3, weights=lambda: [weights])


@pytest.mark.parametrize("scale", [2.0**49, 2.0**-99])
def test_the_scale_of_weights_changes_nothing(scale):
    q = draw(7, 30, 3)
    plain, found = (project(q, 1 / 3, 1 / 3, weights=np.full(30, weight)) for weight in (1.0, scale))
    np.testing.assert_array_equal(found.probabilities, plain.probabilities)
    assert found.kl == plain.kl


def test_chunks_are_checked():
    q = draw(0, 6, 3)
    with pytest.raises(TypeError, match="iterator"):
        project_chunks(iter([q]))
    with pytest.raises(ValueError, match="chunks"):
        project_chunks(list)
    with pytest.raises(ValueError, match="chunks"):
        project_chunks(lambda: [q, q], weights=lambda: [np.ones(6)])
    with pytest.raises(ValueError, match=r"\(n, 3\).*\(6, 2\)"):
        project_chunks(lambda: [q, q[:, :2]])
    with pytest.raises(ValueError, match=r"row 6 of.*2"):
        project_chunks(lambda: [q, 2 * q])
    with pytest.raises(ValueError, match="2 must"):
        project_chunks(lambda: [[[0.5, 0.5, 0]], [[0.1, 0.9, 0]]], lower=[0, 0, 0.5])
    with pytest.raises(ZeroDivisionError):
        project_chunks(lambda: (1 / 0 for _ in range(2)))


def test_other_rows_are_tilted_alike():
    q = draw(6, 4000, 3)
    found = project(q[:2000], 1 / 3, 1 / 3)
    other = found.apply(q[2000:])
    np.testing.assert_allclose(other, oracle.tilted(q[2000:], found.tilt), atol=1e-12)
    np.testing.assert_allclose(other.mean(axis=0), 1 / 3, atol=0.02)
    with pytest.raises(ValueError, match=r"\(n, 3\)"):
        found.apply(q[:, :2])


def test_a_row_of_which_nothing_is_left_is_named_wherever_it_is():
    """Rows are looked at in blocks of 1024, whose numbers count."""
    q = np.full((3000, 2), 0.5)
    found = project(q, upper=[0, 1])
    for row in (7, 1030, 2900):
        other = q.copy()
        other[row] = [1, 0]
        with pytest.raises(ValueError, match=f"row {row} "):
            found.apply(other)
