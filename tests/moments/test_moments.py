"""Moments against brute force, and what a table is said to determine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhands as mh
from manyhands import _core
from manyhands.testing.crowds import of_rows
from oracles import moments as oracle
from oracles.em import Rows

#: Sums of the same terms in another order.
SAME = 1e-12


@st.composite
def tables(draw: st.DrawFn) -> mh.Annotations:
    """Small tables with repeats, and weights whose products are exact."""
    n = draw(st.integers(1, 40))
    columns = [draw(st.lists(st.integers(0, top), min_size=n, max_size=n)) for top in (6, 5, 2)]
    weights = draw(st.none() | st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=n, max_size=n))
    return of_rows(np.array(columns).T, None if weights is None else np.array(weights)).votes()


def assert_same(got: tuple[np.ndarray, ...], wanted: tuple[np.ndarray, ...]) -> None:
    for one, other in zip(got, wanted, strict=True):
        assert one.shape == other.shape
        np.testing.assert_array_equal(one, other)


@settings(max_examples=150, deadline=None)
@given(tables(), st.sampled_from([0.0, 1.0, 2.5]), st.integers(1, 5), st.integers(1, 6))
def test_pairs_and_triples_are_exact(
    votes: mh.Annotations, min_overlap: float, max_partners: int, max_triples: int
) -> None:
    rows = Rows.of(votes)
    np.testing.assert_array_equal(votes.table.moments_first(), oracle.moments_first(rows))
    options = {"min_overlap": min_overlap, "max_partners": max_partners}
    found = votes.table.moments_pairs(**options)
    assert_same(found, oracle.moments_pairs(rows, **options))
    bare = votes.table.moments_pairs(**options, joint=False)
    assert_same(bare[:2], found[:2])
    options = {"min_overlap": min_overlap, "max_triples": max_triples}
    found = votes.table.moments_triples(found[0], **options)
    assert_same(found, oracle.moments_triples(rows, bare[0], **options))
    bare = votes.table.moments_triples(bare[0], **options, joint=False)
    assert_same(bare[:2], found[:2])


@settings(max_examples=100, deadline=None)
@given(tables(), st.lists(st.integers(0, 2), min_size=6, max_size=6))
def test_groups_are_exact(votes: mh.Annotations, numbers: list[int]) -> None:
    rows, groups = Rows.of(votes), np.array(numbers[: votes.n_workers], np.uint8)
    found = votes.table.moments_groups(groups)
    second, third, n_tasks = oracle.moments_groups(rows, groups)
    assert found["n_tasks"] == n_tasks
    np.testing.assert_allclose(found["second"], second, atol=SAME)
    np.testing.assert_allclose(found["third"], third, atol=SAME)
    for got, wanted in zip(votes.table.moments_cross(groups), oracle.moments_cross(rows, groups), strict=True):
        np.testing.assert_allclose(got, wanted, atol=SAME)


@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)).filter(lambda p: p[0] != p[1])))
def test_components(pairs: list[tuple[int, int]]) -> None:
    array = np.array(pairs, np.uint32).reshape(-1, 2)
    np.testing.assert_array_equal(_core.components(12, array), oracle.components(12, array))


def test_triples_that_are_given_make_moments_of_order_three():
    prior, confusion = [0.5, 0.5], np.eye(2)[None].repeat(4, axis=0)
    exact = mh.moments.Moments.exact(prior, confusion, triples=[(0, 1, 3)])
    assert exact.order == 3
    assert repr(exact).endswith("6 pairs, 1 triple)")
    assert mh.moments.Moments.exact(prior, confusion).order == 2


def test_groups_that_are_given_are_sorted_and_kept_once():
    prior, confusion = [0.5, 0.5], np.eye(2)[None].repeat(4, axis=0)
    pairs = mh.moments.Moments.exact(prior, confusion, pairs=[(3, 1), (0, 2), (1, 3), (1, 0)]).pairs
    assert pairs.tolist() == [[0, 1], [0, 2], [1, 3]]
    for wrong, message in (
        ([(1, 1)], "worker"),
        ([(0, 4)], "below 4"),
        ([(0, 1, 2)], "shape"),
    ):
        with pytest.raises(ValueError, match=message):
            mh.moments.Moments.exact(prior, confusion, pairs=wrong)
