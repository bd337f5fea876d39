"""Exact bounds of shares, compared with sums of probabilities."""

import itertools
import math

import pytest

from manyhands._base.binomial import (
    binomial_interval,
    binomial_tail,
    binomial_upper,
    fewest_for,
    unseen_tail,
    unseen_upper,
)


def at_most(wrong, n, share):
    return math.fsum(math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(wrong + 1))


@pytest.mark.parametrize(("wrong", "n"), [(0, 1), (0, 45), (2, 105), (7, 20), (19, 20), (300, 700)])
def test_the_bound_is_where_so_few_become_improbable(wrong, n):
    bound = binomial_upper(wrong, n, 0.9)
    assert at_most(wrong, n, bound) == pytest.approx(0.1, rel=1e-6)
    low, high = binomial_interval(wrong, n, 0.8)
    assert low < wrong / n < high == pytest.approx(bound) or wrong == 0


def test_samples_without_right_answers_or_without_any_bound_nothing():
    assert binomial_upper(5, 5, 0.9) == binomial_upper(0, 0, 0.9) == 1.0
    assert binomial_interval(0, 0) == (0.0, 1.0)


def test_the_smallest_sample_that_bounds_a_share():
    for wrong, share in itertools.product((0, 1, 2, 5), (0.02, 0.05, 0.2)):
        n = fewest_for(wrong, share, 0.9)
        assert binomial_upper(wrong, n, 0.9) <= share < binomial_upper(wrong, n - 1, 0.9)


@pytest.mark.parametrize(("wrong", "n", "unseen"), [(0, 10, 10), (1, 12, 30), (3, 20, 5), (2, 2, 9), (0, 3, 40)])
def test_the_bound_of_the_unseen_is_a_count_by_definition(wrong, n, unseen):
    def few(bad):
        ways = range(wrong + 1)
        return sum(math.comb(bad, k) * math.comb(n + unseen - bad, n - k) for k in ways) / math.comb(n + unseen, n)

    most = max(bad for bad in range(unseen + 1) if few(wrong + bad) > 0.1)
    assert unseen_upper(wrong, n, unseen, 0.9) == pytest.approx(most / unseen)
    assert unseen_upper(wrong, n, 0, 0.9) == 0.0
    for share in (0.1, 0.25, 0.5):
        too_many = int(share * unseen) + 1
        expected = few(wrong + too_many) if too_many <= unseen else 0.0
        assert unseen_tail(wrong, n, unseen, share) == pytest.approx(expected)
        assert (unseen_tail(wrong, n, unseen, share) <= 0.1) == (unseen_upper(wrong, n, unseen, 0.9) <= share)


@pytest.mark.parametrize(("wrong", "n"), [(0, 1), (2, 105), (7, 20), (20, 20), (300, 700)])
def test_the_tail_is_a_sum_of_probabilities(wrong, n):
    for share in (0.01, 0.3, 0.9):
        assert binomial_tail(wrong, n, share) == pytest.approx(at_most(wrong, n, share), rel=1e-9, abs=1e-200)
