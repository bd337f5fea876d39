"""Decisions that keep workloads: assignments against integer programming, thresholds on unseen cases, measures."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

import manyhands as mh
from manyhands._base.names import Names
from manyhands.defer import Decision, Thresholds, assign, capacities, coverage_accuracy, deferral_report
from manyhands.defer.shares import bounds as bounds_of
from oracles import defer as oracle


def draw(seed: int, n: int, k: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, k)) * rng.uniform(0.5, 2, size=k) + rng.normal(size=k)


def total(scores: np.ndarray, who: np.ndarray) -> float:
    return scores[np.arange(len(scores)), who].sum()


def count(who: np.ndarray, k: int) -> np.ndarray:
    return np.bincount(who, minlength=k)


# --- assignment -------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_assignment_is_the_best(seed, whole):
    rng = np.random.default_rng(seed)
    n, k = rng.integers(1, 25), rng.integers(1, 5)
    # Whole numbers make ties; every fourth option is forbidden.
    scores = rng.integers(-3, 4, size=(n, k)).astype(float) if whole else rng.normal(size=(n, k))
    scores[rng.uniform(size=(n, k)) < 0.25] = -np.inf
    scores[np.arange(n), rng.integers(k, size=n)] = 0.0
    lower = rng.multinomial(n // 2, np.ones(k) / k)
    upper = lower + rng.multinomial(n - n // 2 + rng.integers(4), np.ones(k) / k)
    best = oracle.assign(scores, lower, upper)
    if best is None:
        with pytest.raises(ValueError, match="cases"):
            assign(scores, lower, upper)
        return
    who = assign(scores, lower, upper)
    assert (lower <= count(who, k)).all()
    assert (count(who, k) <= upper).all()
    assert total(scores, who) == pytest.approx(best, abs=1e-9)


def test_assignment_agrees_with_the_hungarian_method():
    # Columns are repeated as often as an option has room.
    n, k = 300, 3
    scores = draw(0, n, k)
    room = np.array([50, 100, 150])
    rows, columns = linear_sum_assignment(np.repeat(scores, room, axis=1), maximize=True)
    who = assign(scores, room, room)
    assert count(who, k).tolist() == room.tolist()
    assert total(scores, who) == pytest.approx(total(scores, np.repeat(np.arange(k), room)[columns[rows]]), rel=1e-12)


def test_assignment_without_capacities_is_an_arg_max():
    scores = draw(1, 5000, 4)
    np.testing.assert_array_equal(assign(scores), scores.argmax(axis=1))


def test_large_assignments_satisfy_the_conditions_of_an_optimum():
    n, k = 50_000, 8  # large enough for starts from samples of samples
    scores = draw(2, n, k)
    lower, upper = np.full(k, n // 20), np.full(k, n // 6)
    who, offsets = mh._core.assign(scores, lower.astype(np.uint64), upper.astype(np.uint64))
    counts = count(who, k)
    assert (lower <= counts).all()
    assert (counts <= upper).all()
    # By duality: everyone is with a best option, and an offset is not zero only where a capacity binds.
    shifted = scores + offsets
    gap = shifted.max(axis=1) - shifted[np.arange(n), who]
    assert gap.max() <= 1e-12
    assert (counts[offsets > 0] == lower[offsets > 0]).all()
    assert (counts[offsets < 0] == upper[offsets < 0]).all()
    assert (offsets != 0).any()


def test_assignment_is_the_same_on_any_number_of_threads():
    scores = np.round(draw(3, 20_000, 5), 1)  # many ties
    before = mh.get_num_threads()
    try:
        found = []
        for threads in (1, 3):
            mh.set_num_threads(threads)
            found.append(assign(scores, 4000, 4000))
    finally:
        mh.set_num_threads(before)
    np.testing.assert_array_equal(found[0], found[1])


def test_assignment_of_nothing_and_of_one():
    assert assign(np.zeros((0, 3))).tolist() == []
    assert assign([[0.0]]).tolist() == [0]
    assert assign([[-np.inf, -1e300], [1e300, -np.inf]], 1, 1).tolist() == [1, 0]


def test_a_bad_score_is_named_wherever_it_is():
    """Rows are looked at in blocks of 4096, whose numbers count."""
    for row in (4100, 9000):
        scores = np.zeros((10_000, 2))
        scores[row, 1] = np.nan
        with pytest.raises(ValueError, match=f"NaN in row {row};"):
            assign(scores)


@pytest.mark.parametrize(
    ("scores", "lower", "upper", "message"),
    [
        (np.zeros((3, 2)), [2, 2], None, "4 cases.*3"),
        (np.zeros((3, 2)), None, [1, 1], "2 cases.*3"),
        (np.zeros((3, 2)), [2, 0], [1, 3], "0.*2 cases.*1"),
        ([[0, -np.inf], [0, -np.inf]], [0, 1], None, "1.*1 cases.*0"),
        ([[0, -np.inf], [0, -np.inf], [0, 0]], None, [1, 3], "0.*1 cases.*2"),
        ([[0, 0], [np.nan, 0]], None, None, "NaN in row 1"),
        ([[0, 0], [np.inf, 0]], None, None, "inf in row 1"),
        ([[0, 0], [-np.inf, -np.inf]], None, None, "row 1"),
        ([[0, 0]], [1], None, "capacity.*2"),
        ([[0, 0]], [-1, 0], None, "negative"),
        ([0, 0], None, None, "shape"),
    ],
)
def test_capacities_that_cannot_be_are_refused(scores, lower, upper, message):
    with pytest.raises(ValueError, match=message):
        assign(scores, lower, upper)


def test_shares_are_no_capacities():
    with pytest.raises(TypeError, match=r"capacities\(\)"):
        assign(np.zeros((3, 2)), [0.5, 0.5])
    for lower in ([2, 0], [np.nan, 0], [-0.1, 0]):
        with pytest.raises(ValueError, match=r"lower.*0.*1"):
            capacities(lower, None, 10, 2)
    with pytest.raises(ValueError, match="n_cases"):
        capacities(None, None, 10**17, 2)
    with pytest.raises(ValueError, match=r"n_options.*1"):
        capacities(None, None, 10, 0)


@given(st.integers(0, 1000), st.lists(st.integers(0, 50), min_size=1, max_size=8).filter(any))
def test_capacities_can_be_kept_where_shares_can(n, parts):
    shares = np.array(parts) / sum(parts)
    least, most = capacities(shares, shares, n, len(shares))
    assert least.sum() <= n <= most.sum()
    assert (most - least <= 1).all()
    assert (np.abs(least - shares * n) < 1).all()


@pytest.mark.parametrize(
    ("coverage", "workload", "lower", "upper"),
    [
        (0.4, "free", [0, 0, 0.4], [0.6, 0.6, 0.4]),
        (1.0, "free", [0, 0, 1], [0, 0, 1]),
        (None, "balanced", [1 / 3] * 3, [1 / 3] * 3),
        (0.4, "balanced", [0.3, 0.3, 0.4], [0.3, 0.3, 0.4]),
        ((0.2, 0.6), "balanced", [0.2, 0.2, 0.2], [0.4, 0.4, 0.6]),
        (0.5, {"b": 0.1}, [0, 0.1, 0.5], [0.4, 0.1, 0.5]),
        (None, {"a": (0.1, 0.3)}, [0.1, 0, 0], [0.3, 0.9, 0.9]),
    ],
)
def test_bounds_of_a_coverage_and_a_workload(coverage, workload, lower, upper):
    """Nobody's greatest share exceeds what the least shares of the others leave."""
    found = bounds_of(Names(np.array(["a", "b"])), coverage, workload)
    np.testing.assert_allclose(found, [lower, upper], atol=1e-12)
    assert bounds_of(Names(np.array(["a", "b"])), None, "free") is None


# --- thresholds -------------------------------------------------------------------------------------------------------


SHARES = {
    "coverage alone": ([0, 0, 0, 0.6], [1, 1, 1, 0.6]),
    "balanced": ([0.15, 0.15, 0.15, 0.55], [0.15, 0.15, 0.15, 0.55]),
    "bounded": ([0, 0, 0, 0.2], [0.1, 0.3, 1, 0.5]),
}


@pytest.mark.parametrize("bounds", SHARES)
@pytest.mark.parametrize("kind", ["smooth", "two values", "all equal"])
def test_thresholds_keep_shares_of_unseen_cases(bounds, kind):
    lower, upper = map(np.array, SHARES[bounds])
    scores = draw(4, 20_000, 4)
    if kind == "two values":
        scores = np.sign(scores)
    elif kind == "all equal":
        scores = np.zeros_like(scores)
    thresholds = Thresholds.fit(scores[:10_000], lower, upper)
    shares = mh.defer.workload(thresholds.decide(scores[10_000:]), 4)
    # Two points are what is promised; an arg max misses by far more (below).
    assert (shares >= lower - 0.02).all()
    assert (shares <= upper + 0.02).all()


def test_an_arg_max_would_have_missed():
    gate = np.exp(draw(4, 10_000, 4))
    gate /= gate.sum(axis=1, keepdims=True)
    found = mh.defer.project(gate, *SHARES["balanced"])
    plain = mh.defer.workload(found.probabilities.argmax(axis=1), 4)
    assert np.abs(plain - SHARES["balanced"][0]).max() > 0.05


def test_thresholds_lose_little_against_the_best_assignment():
    scores, (lower, upper) = draw(5, 20_000, 4), SHARES["balanced"]
    thresholds, unseen = Thresholds.fit(scores[:10_000], lower, upper), scores[10_000:]
    best = total(unseen, assign(unseen, *capacities(lower, upper, 10_000, 4)))
    # Shares are off by about a percent, so that the total may even be a little above.
    assert total(unseen, thresholds.decide(unseen)) == pytest.approx(best, rel=0.01)


def test_a_case_is_decided_the_same_way_wherever_it_comes():
    scores = np.sign(draw(6, 2000, 3))
    thresholds = Thresholds.fit(scores, 1 / 3, 1 / 3)
    together = thresholds.decide(scores)
    alone = [thresholds.decide(scores[[i]], cases=[i])[0] for i in range(0, 2000, 50)]
    np.testing.assert_array_equal(alone, together[::50])
    other = Thresholds.fit(scores, 1 / 3, 1 / 3, seed=1).decide(scores)
    assert (other != together).any()


def test_thresholds_refuse_what_they_cannot_use():
    thresholds = Thresholds.fit(draw(7, 100, 3))
    with pytest.raises(ValueError, match=r"\(n, 3\)"):
        thresholds.decide(np.zeros((4, 2)))
    with pytest.raises(ValueError, match="row 1 of"):
        thresholds.decide([[0, 0, 0], [-np.inf] * 3])
    with pytest.raises(ValueError, match=r"scores.*row 0"):
        thresholds.decide([[0, np.nan, 0]])
    with pytest.raises(ValueError, match=r"scores.*row 1"):
        thresholds.decide([[0, 0, 0], [0, np.inf, 0]])
    with pytest.raises(ValueError, match=r"cases.*2"):
        thresholds.decide(np.zeros((2, 3)), cases=[0.5, 1.5])
    with pytest.raises(ValueError, match="cases"):
        Thresholds.fit(np.zeros((0, 3)))
    assert thresholds.decide(np.zeros((0, 3))).tolist() == []


@pytest.mark.parametrize(("seed", "message"), [(1.5, "whole number"), (-1, "at least 0"), (2**63, str(2**63))])
def test_thresholds_refuse_what_is_no_seed(seed, message):
    with pytest.raises((TypeError, ValueError), match=f"seed must be .*{message}"):
        Thresholds.fit(draw(7, 100, 3), seed=seed)
    with pytest.raises((TypeError, ValueError), match=f"seed must be .*{message}"):
        Thresholds(np.zeros(3), 0.0, seed)


def test_thresholds_of_extreme_scores_keep_shares_or_are_refused():
    scores, bounds = draw(8, 2000, 4), SHARES["balanced"]
    plain = Thresholds.fit(scores, *bounds).decide(scores)
    for scale in (2.0**980, 2.0**-980):
        found = Thresholds.fit(scores * scale, *bounds).decide(scores * scale)
        np.testing.assert_array_equal(found, plain)
    for bad in (1e308, -1e308):
        with pytest.raises(ValueError, match=r"scores.*1e\+308 in.*1e\+299"):
            Thresholds.fit([[0.0, bad], [0.0, 1.0]])


# --- measures ---------------------------------------------------------------------------------------------------------


def test_measures_on_a_team_counted_by_hand():
    truth, said, own = [0, 1, 1, 0], [[0, 1], [0, -1], [1, 1], [1, 0]], [1, 1, 0, 0]
    correct = mh.defer.correctness(truth, said, own)
    np.testing.assert_array_equal(correct, [[1, 0, 0], [0, np.nan, 1], [1, 1, 0], [0, 1, 1]])
    assert mh.defer.system_accuracy([0, 2, 1, 0], correct) == 0.75
    assert mh.defer.system_accuracy([0, 1, 1, 0], correct) == pytest.approx(2 / 3)  # one answer is not known
    assert mh.defer.coverage([0, 2, 1, 0], 3) == 0.25


@pytest.mark.parametrize(
    ("truth", "experts", "classifier", "error", "message"),
    [
        ([0, 1], [[0], [1]], [1], ValueError, r"\(2,\).*\(1,\).*\(2, 1\)"),
        ([[0], [1]], [[0], [1]], [[1], [1]], ValueError, "shape"),
        ([0, 1], [0, 1], [1, 1], ValueError, "shape"),
        ([0, 1], [[0]], [1, 1], ValueError, "shape"),
        ([0, 1], [[0], [np.nan]], [1, 1], TypeError, "experts"),
        (["a", "b"], [["a"], ["b"]], ["a", "a"], TypeError, "truth"),
        ([0, -1], [[0], [1]], [1, 1], ValueError, "truth.*-1.*row 1"),
    ],
)
def test_correctness_refuses_what_does_not_fit(truth, experts, classifier, error, message):
    with pytest.raises(error, match=message):
        mh.defer.correctness(truth, experts, classifier)


def test_measures_refuse_numbers_that_cannot_be():
    with pytest.raises(ValueError, match=r"correct.*0 and.*row 1"):
        mh.defer.system_accuracy([0, 1], [[1, 0], [2, 0]])
    with pytest.raises(ValueError, match=r"correct.*2,.*3"):
        coverage_accuracy(np.zeros((2, 2)), np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"n_points.*2"):
        coverage_accuracy(np.zeros((2, 2)), np.zeros((2, 2)), n_points=1)
    with pytest.raises(ValueError, match="upper"):
        deferral_report([0], [[1, 0]], upper=[np.nan, 1])
    with pytest.raises(ValueError, match=r"n_options.*1"):
        mh.defer.coverage([], 0)
    with pytest.raises(ValueError, match="finite"):
        mh.defer.auc_cac([0, 1], [1e308, 1e308])


@pytest.mark.parametrize("option", [0, 1])
def test_everything_and_nothing_deferred(option):
    correct = np.array([[1.0, 0.0], [1.0, 1.0]])
    report = deferral_report([option] * 2, correct, upper=[1, 0.5])
    assert report.coverage == option
    assert report.system_accuracy == correct[:, option].mean()
    assert math.isnan(report.accuracy[1 - option])
    assert report.miss == (0.5 if option else 0)
    assert "nan" in str(report)
    assert report.to_frame().num_rows == 2


def test_a_report_of_no_cases():
    report = deferral_report([], np.zeros((0, 2)))
    assert math.isnan(report.system_accuracy)
    assert math.isnan(report.coverage)
    assert report.n_cases.tolist() == [0, 0]
    assert "classifier" in str(report)


def test_the_curve_runs_from_the_experts_to_the_classifier():
    rng = np.random.default_rng(0)
    chance = rng.uniform(size=(2000, 3))
    correct = (rng.uniform(size=chance.shape) < chance).astype(float)
    curve = coverage_accuracy(chance, correct)
    np.testing.assert_allclose(curve.coverage, np.linspace(0, 1, 21), atol=1 / 2000)
    assert curve.accuracy[-1] == correct[:, 2].mean()
    # The best of three chances, uniform, is right in three cases of four; the best of two in two of three.
    assert curve.accuracy[0] == pytest.approx(2 / 3, abs=0.03)
    assert curve.accuracy.max() == pytest.approx(3 / 4, abs=0.03)
    assert curve.area == mh.defer.auc_cac(curve.coverage[::-1], curve.accuracy[::-1])
    balanced = coverage_accuracy(chance, correct, lower=0.5, upper=0.5, n_points=3)
    assert balanced.accuracy[0] < curve.accuracy[0] + 0.02
    with pytest.raises(ValueError, match="column"):
        coverage_accuracy([[1.0]], [[1.0]])


def test_the_area_is_a_mean_accuracy():
    assert mh.defer.auc_cac([0.2, 0.7, 0.4], [0.8, 0.8, 0.8]) == pytest.approx(0.8)
    assert mh.defer.auc_cac([0.5], [0.9]) == 0.9
    assert mh.defer.auc_cac([0, 0, 1], [0.2, 0.4, 0.5]) == pytest.approx(0.4)
    with pytest.raises(ValueError, match="finite"):
        mh.defer.auc_cac([0, 1], [np.nan, 1])
    with pytest.raises(ValueError, match="length"):
        mh.defer.auc_cac([], [])


@pytest.mark.parametrize(
    ("who", "message"), [([0, 3], "between 0 and 1"), ([0.5, 0], "numbers"), ([0], "1 entries.*2")]
)
def test_measures_refuse_what_is_no_decision(who, message):
    with pytest.raises(ValueError, match=message):
        mh.defer.system_accuracy(who, [[1, 0], [0, 1]])


def test_a_decision_becomes_a_table():
    made = Decision(
        np.array([0, 2, 1]),
        2,
        labels=np.array([3, 4, 5]),
        confidence=np.array([0.5, 0.6, 0.7]),
        cases=np.array(["a", "b", "c"]),
        experts=["Ann", "Bob"],
    )
    frame = made.to_frame()
    assert frame.column_names == ["case", "who", "label", "confidence", "expected_accuracy"]
    assert frame["who"].to_pylist() == ["Ann", "classifier", "Bob"]
    assert frame["label"].to_pylist() == [None, 4, None]
    assert made.coverage == pytest.approx(1 / 3)
    assert Decision(np.array([], int), 2).to_frame().num_rows == 0
    with pytest.raises(ValueError, match=r"confidence.*2 entries.*3 cases"):
        Decision(np.array([0, 1, 2]), 2, confidence=np.zeros(2))
    with pytest.raises(ValueError, match="1 names for 2 experts"):
        Decision(np.array([0]), 2, experts=["Ann"])
    with pytest.raises(ValueError, match="between 0 and 2"):
        Decision(np.array([3]), 2)
