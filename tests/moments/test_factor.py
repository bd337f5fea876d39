"""Kernels of the factorisations: parity with their twins, optimality, monotone objectives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

import manyhands as mh
from manyhands import _core
from manyhands.moments import Moments
from oracles import factor

#: Compiled code and NumPy twins must agree to this.
PARITY = 1e-9
#: What is exact but for rounding.
EXACT = 1e-12

seeds = st.integers(0, 2**32 - 1)


def crowd(m: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A prior and diagonally dominant confusion matrices."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(k, 5.0)), 0.5 * rng.dirichlet(np.ones(k), (m, k)) + 0.5 * np.eye(k)


def noisy(moments: Moments, seed: int) -> Moments:
    """Moments as a log of 200 shared tasks would have them."""
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.multinomial(200, block.ravel()).reshape(block.shape) for block in moments.pair_frequencies])
    triples = [rng.multinomial(200, block.ravel()).reshape(block.shape) for block in moments.triple_frequencies]
    return replace(
        moments,
        first=200 * moments.first,
        pair_joint=pairs.astype(float),
        pair_overlap=np.full(len(pairs), 200.0),
        triple_joint=np.array(triples, float).reshape(moments.triple_joint.shape),
        triple_overlap=np.full(len(triples), 200.0),
    )


def nmf(moments: Moments, prior: Any, confusion: Any, **options: Any) -> Any:
    options = {"max_iter": 20, "tol": 0.0} | options
    weights = options.pop("weights", moments.pair_overlap)
    return _core.nmf_fit(moments.pairs, moments.pair_joint, prior, confusion, weights=weights, **options)


def cpd_options(moments: Moments, **options: Any) -> dict[str, Any]:
    return {
        "triples": moments.triples,
        "triple_values": moments.triple_frequencies,
        "triple_weights": np.ones(len(moments.triples)),
        "pairs": moments.pairs,
        "pair_values": moments.pair_frequencies,
        "pair_weights": np.ones(len(moments.pairs)),
        "first_values": moments.first / moments.first.sum(axis=1, keepdims=True),
        "first_weights": np.ones(moments.n_workers),
        "max_iter": 8,
        "tol": 0.0,
    } | options


def never_falls(history: np.ndarray) -> bool:
    return bool((np.diff(history) >= -1e-12 * np.maximum(np.abs(history[:-1]), 1.0)).all())


# ------------------------------------------------------------------------------------------------------ vertices


@given(seed=seeds, n=st.integers(3, 30), d=st.integers(2, 8))
@settings(max_examples=40, deadline=None)
def test_spa_matches_its_twin(seed: int, n: int, d: int) -> None:
    points = np.random.default_rng(seed).random((n, d))
    n_pick = min(n, d)
    picks, residuals = _core.spa(points, n_pick)
    wanted, distances = factor.spa(points, n_pick)
    np.testing.assert_array_equal(picks, wanted)
    np.testing.assert_allclose(residuals, distances, atol=PARITY)


@given(seed=seeds, k=st.integers(2, 6))
@settings(max_examples=40, deadline=None)
def test_spa_finds_the_vertices_of_a_simplex(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    vertices = 0.3 * rng.dirichlet(np.ones(k), k) + 0.7 * np.eye(k)
    points = np.concatenate([rng.dirichlet(np.ones(k), 50) @ vertices, vertices])
    picks, _ = _core.spa(points, k)
    assert sorted(picks.tolist()) == list(range(50, 50 + k))


def test_spa_refuses_more_picks_than_points() -> None:
    with pytest.raises(ValueError, match="3"):
        _core.spa(np.eye(2), 3)


# ------------------------------------------------------------------------------------------------------- simplex


@given(seed=seeds, k=st.integers(1, 6), extra=st.integers(0, 4))
@settings(max_examples=60, deadline=None)
def test_least_squares_on_the_simplex_is_optimal(seed: int, k: int, extra: int) -> None:
    """Feasible, and no vertex lies downhill: the conditions of Karush, Kuhn and Tucker for a simplex."""
    rng = np.random.default_rng(seed)
    design, targets = rng.random((k + extra, k)), rng.random((4, k + extra))
    found = _core.simplex_lstsq(design, targets)
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=EXACT)
    gradient = (found @ design.T - targets) @ design
    slack = gradient.min(axis=1) - (gradient * found).sum(axis=1)
    assert slack.min() > -1e-10


def test_least_squares_matches_the_best_of_all_supports() -> None:
    rng = np.random.default_rng(0)
    design, targets = rng.random((6, 4)), rng.random((20, 6))
    np.testing.assert_allclose(_core.simplex_lstsq(design, targets), factor.simplex_lstsq(design, targets), atol=1e-10)


def test_least_squares_with_columns_that_are_alike() -> None:
    design = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    found = _core.simplex_lstsq(design, np.array([[0.4, 0.6]]))
    np.testing.assert_allclose(found @ design.T, [[0.4, 0.6]], atol=1e-9)


# ---------------------------------------------------------------------------------------------------- assignment


@given(seed=seeds, k=st.integers(1, 12), whole=st.booleans())
@settings(max_examples=80, deadline=None)
def test_assignment_is_as_good_as_scipys(seed: int, k: int, whole: bool) -> None:
    rng = np.random.default_rng(seed)
    score = rng.integers(0, 4, (k, k)).astype(float) if whole else rng.normal(size=(k, k))
    found = _core.assignment(score)
    assert sorted(found.tolist()) == list(range(k))
    rows, columns = linear_sum_assignment(score, maximize=True)
    assert score[np.arange(k), found].sum() == pytest.approx(score[rows, columns].sum(), abs=EXACT)


def test_assignment_refuses_what_is_not_a_number() -> None:
    with pytest.raises(ValueError, match=r"(?i)nan|finite"):
        _core.assignment(np.array([[0.0, np.nan], [1.0, 0.0]]))


# ------------------------------------------------------------------------------------------------ factorisations


# Two or three workers are fitted perfectly within a few steps, and what is left is rounding.
@given(seed=seeds, m=st.integers(4, 7), k=st.integers(2, 4))
@settings(max_examples=25, deadline=None)
def test_nmf_matches_its_twin_and_never_falls(seed: int, m: int, k: int) -> None:
    moments = noisy(Moments.exact(*crowd(m, k, seed)), seed)
    start = crowd(m, k, seed + 1)
    found = nmf(moments, *start, max_iter=8)
    wanted = factor.nmf_fit(
        moments.pairs, moments.pair_joint, *start, weights=moments.pair_overlap, max_iter=8, tol=0.0
    )
    np.testing.assert_allclose(found["confusion"], wanted.point.confusion, atol=1e-7)
    np.testing.assert_allclose(found["prior"], wanted.point.prior, atol=1e-7)
    np.testing.assert_allclose(found["history"], wanted.history, rtol=1e-7)
    assert never_falls(found["history"])


@given(seed=seeds, m=st.integers(3, 6), k=st.integers(2, 3), order=st.sampled_from([2, 3]))
@settings(max_examples=15, deadline=None)
def test_cpd_matches_its_twin_and_never_falls(seed: int, m: int, k: int, order: int) -> None:
    moments = noisy(Moments.exact(*crowd(m, k, seed), order=order), seed)
    start = crowd(m, k, seed + 1)
    found = _core.cpd_fit(m, *start, **cpd_options(moments))
    wanted = factor.cpd_fit(m, *start, **cpd_options(moments))
    np.testing.assert_allclose(found["confusion"], wanted.point.confusion, atol=1e-6)
    np.testing.assert_allclose(found["prior"], wanted.point.prior, atol=1e-6)
    assert never_falls(found["history"])


def perturbed(confusion: np.ndarray, seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).dirichlet(np.ones(confusion.shape[2]), confusion.shape[:2])
    return 0.85 * confusion + 0.15 * rows


def test_nmf_finds_a_separable_crowd_from_a_start_nearby() -> None:
    prior, confusion = crowd(9, 3, 1)
    for own in range(3):
        confusion[own, :, own] = 0.0
        confusion[own, own, own] = 1.0
    confusion /= confusion.sum(axis=2, keepdims=True)
    moments = Moments.exact(prior, confusion)
    found = nmf(moments, prior, perturbed(confusion, 2), max_iter=20_000, tol=1e-18)
    np.testing.assert_allclose(found["confusion"], confusion, atol=1e-5)


def test_cpd_finds_any_crowd_of_full_rank_from_a_start_nearby() -> None:
    prior, confusion = crowd(7, 3, 1)
    moments = Moments.exact(prior, confusion, order=3)
    found = _core.cpd_fit(7, prior, perturbed(confusion, 2), **cpd_options(moments, max_iter=5000, tol=1e-18))
    np.testing.assert_allclose(found["confusion"], confusion, atol=1e-6)
    np.testing.assert_allclose(found["prior"], prior, atol=1e-6)


@pytest.mark.parametrize("kernel", ["nmf", "cpd"])
def test_bits_do_not_depend_on_threads(kernel: str) -> None:
    moments = noisy(Moments.exact(*crowd(24, 4, 5), order=3), 5)
    start = crowd(24, 4, 6)
    before, found = mh.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            mh.set_num_threads(threads)
            run = (
                nmf(moments, *start)
                if kernel == "nmf"
                else _core.cpd_fit(24, *start, **cpd_options(moments, max_iter=3))
            )
            found.append(run)
    finally:
        mh.set_num_threads(before)
    for run in found[1:]:
        for name in ("prior", "confusion", "history"):
            np.testing.assert_array_equal(run[name], found[0][name])


def test_workers_without_pairs_keep_their_start() -> None:
    prior, confusion = crowd(4, 3, 1)
    moments = Moments.exact(prior, confusion, pairs=[(0, 1), (1, 2)])
    start = perturbed(confusion, 3)
    np.testing.assert_allclose(nmf(moments, prior, start)["confusion"][3], start[3], atol=EXACT)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"pairs": np.array([[0, 9]], np.uint32)}, "9"),
        ({"pairs": np.array([[1, 1]], np.uint32)}, "1"),
        ({"pair_weights": np.array([-1.0])}, "weights"),
        ({"pair_values": np.full((1, 3, 3), np.nan)}, "(?i)nan|finite|pairs"),
    ],
)
def test_bad_moments_are_named(change: dict[str, Any], named: str) -> None:
    prior, confusion = crowd(3, 3, 1)
    moments = Moments.exact(prior, confusion, pairs=[(0, 1)])
    with pytest.raises(ValueError, match=named):
        _core.cpd_fit(3, prior, confusion, **cpd_options(moments, **change))
