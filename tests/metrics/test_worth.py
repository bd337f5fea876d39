"""What a worker is worth: capacity, errors of estimates, dominance of the diagonal."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands import _core, get_num_threads, metrics, set_num_threads
from manyhands.categorical._confusion import Matrices, OneCoin
from oracles.capacity import channel_capacity

#: What `metrics.capacity` promises, in bits.
WITHIN = 1e-6


def channels(seed, n_workers, n_classes, n_labels, evenness):
    return np.random.default_rng(seed).dirichlet(np.full(n_labels, evenness), size=(n_workers, n_classes))


@pytest.mark.parametrize(("n_classes", "n_labels"), [(2, 2), (3, 3), (5, 5), (3, 5)])
@pytest.mark.parametrize("evenness", [0.3, 3.0])
def test_capacity_is_that_of_the_plain_iteration(n_classes, n_labels, evenness):
    confusion = channels(n_classes, 4, n_classes, n_labels, evenness)
    found = metrics.capacity(confusion)
    for channel, capacity in zip(confusion, found, strict=True):
        low, high, _ = channel_capacity(channel)
        assert low - WITHIN <= capacity <= high + 1e-12


@given(st.integers(0, 2**32), st.integers(1, 6), st.sampled_from([0.05, 0.5, 5.0]))
def test_capacity_is_bounded_and_knows_no_order(seed, n_classes, evenness):
    confusion = channels(seed, 3, n_classes, n_classes, evenness)
    found = metrics.capacity(confusion)
    rng = np.random.default_rng(seed)
    assert (found <= np.log2(n_classes) + 1e-12).all()
    for _ in range(3):
        prior = rng.dirichlet(np.ones(n_classes))
        assert (metrics.information(confusion, prior) <= found + WITHIN).all()
    classes, labels = rng.permutation(n_classes), rng.permutation(n_classes)
    assert metrics.capacity(confusion[:, classes][:, :, labels]) == pytest.approx(found, abs=2 * WITHIN)
    # Telling two labels apart no longer cannot help.
    if n_classes > 1:
        merged = confusion.copy()
        merged[:, :, 0] += merged[:, :, 1]
        merged[:, :, 1] = 0
        assert (metrics.capacity(merged) <= found + WITHIN).all()


def test_the_frequencies_reach_the_capacity():
    confusion = channels(1, 20, 4, 4, 0.3)
    capacity, prior, gap = _core.channel_capacity(confusion, tol=1e-6, max_iter=10_000)
    assert (gap <= 1e-6).all()
    for worker in range(20):
        assert metrics.information(confusion[[worker]], prior[worker]) == pytest.approx(capacity[worker], abs=1e-12)


def test_capacity_that_is_cut_short_says_so():
    confusion = np.array([[[1.0, 0.0, 0.0], [0.3, 0.7, 0.0], [0.2, 0.3, 0.5]]])
    capacity, _, gap = _core.channel_capacity(confusion, tol=0.0, max_iter=2)
    exact = _core.channel_capacity(confusion, tol=1e-12, max_iter=100_000)[0]
    assert gap[0] > 1e-6
    assert capacity[0] <= exact[0] <= capacity[0] + gap[0]


def test_same_bits_on_any_number_of_threads():
    confusion, before = channels(2, 300, 5, 5, 0.5), get_num_threads()
    try:
        found = []
        for threads in (1, 3):
            set_num_threads(threads)
            found.append(_core.channel_capacity(confusion, tol=1e-6, max_iter=1000))
    finally:
        set_num_threads(before)
    for one, three in zip(*found, strict=True):
        assert (one == three).all()


def test_errors_are_the_spread_of_estimates():
    """Rows estimated again and again from labels of known classes vary as much as the delta method says."""
    rng = np.random.default_rng(5)
    truth = np.array([[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.25, 0.15, 0.6]])
    prior, n_labels, draws = np.array([0.5, 0.3, 0.2]), 2000, 1500
    counts = [rng.multinomial(round(n_labels * p), row, size=draws) for p, row in zip(prior, truth, strict=True)]
    estimates = np.stack(counts, axis=1) / (n_labels * prior)[:, None]
    spread = (
        metrics.skill(estimates, prior).std(),
        metrics.information(estimates, prior).std(),
        metrics.capacity(estimates).std(),
    )
    stated = np.concatenate(metrics.worth(truth[None], prior, [n_labels])[1::2])
    # The standard deviation of 1,500 draws is itself known to 2 %; four times that.
    assert stated == pytest.approx(np.array(spread), rel=0.08)


def test_errors_are_finite_and_fall_with_labels():
    confusion = np.array([np.eye(2), [[0.5, 0.5], [0.5, 0.5]], [[0.9, 0.1], [0.4, 0.6]]])
    for prior in (None, [1.0, 0.0]):
        few = np.array(metrics.worth(confusion, prior, [0, 1, 4]))[1::2]
        many = np.array(metrics.worth(confusion, prior, [100, 100, 400]))[1::2]
        assert np.isfinite(few).all()
        assert (many <= few).all()
    assert (few[:, 0] == 0).all()  # somebody who never errs has no spread


@pytest.mark.parametrize("n_labels", [[1], [1, -1], [1, np.nan]])
def test_errors_refuse_numbers_of_labels_that_do_not_fit(n_labels):
    with pytest.raises(ValueError, match="n_labels"):
        metrics.worth(np.array([np.eye(2), np.eye(2)]), None, n_labels)


def test_dominance_compares_within_a_label():
    # Of label 0: true 0.5, at most 0.6 elsewhere. Rows would say the contrary of class 1.
    assert metrics.dominance([[[0.5, 0.5], [0.6, 0.4]]]) == pytest.approx([-0.1, -0.1])
    mean = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.2, 0.1, 0.7]])
    assert metrics.dominance([mean, mean]) == pytest.approx([0.4, 0.2, 0.4])
    assert metrics.dominance([[[1.0]]]) == [1.0]
    # An abstention is nobody's name.
    assert metrics.dominance([[[0.3, 0.1, 0.6], [0.1, 0.2, 0.7]]]) == pytest.approx([0.2, 0.1])


def test_worth_repeats_the_measures():
    confusion, prior = channels(3, 6, 4, 4, 0.5), np.array([0.4, 0.3, 0.2, 0.1])
    found = metrics.worth(confusion, prior, np.full(6, 30))
    assert (found.skill == metrics.skill(confusion, prior)).all()
    assert (found.information == metrics.information(confusion, prior)).all()
    assert (found.capacity == metrics.capacity(confusion)).all()


@pytest.mark.parametrize("n_classes", [1, 2, 5])
def test_one_coin_workers_are_worth_what_their_matrices_are(n_classes):
    accuracy = np.array([0.0, 0.2, 1 / n_classes, 0.7, 1.0]) if n_classes > 1 else np.ones(5)
    coins = OneCoin(accuracy, n_classes)
    prior = np.random.default_rng(1).dirichlet(np.ones(n_classes))
    prior[: n_classes // 2] = prior[: n_classes // 2].mean() if n_classes > 1 else 1.0
    n_labels = np.array([0, 3, 10, 50, 400])
    short, full = coins.worth(prior, n_labels), Matrices(coins.matrices()).worth(prior, n_labels)
    for name, column in short._asdict().items():
        assert column == pytest.approx(getattr(full, name), abs=2 * WITHIN), name
