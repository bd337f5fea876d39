"""Metrics against hand formulas, scikit-learn and SciPy, and against the properties that define them."""

from __future__ import annotations

import dataclasses
import datetime
import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from manyhands import metrics

SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.integers(1, 6)
TIGHT = 1e-12  # sums of a few hundred doubles of size one


def stochastic(rng: np.random.Generator, *shape: int, sharp: float = 1.0) -> np.ndarray:
    """Rows drawn from a Dirichlet; sharp rows come close to certainty, some entries underflow to zero."""
    return rng.dirichlet(np.full(shape[-1], sharp), size=shape[:-1])


def posterior_and_truth(seed: int, n: int = 200, k: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    posterior = stochastic(rng, n, k, sharp=0.5)
    truth = np.array([rng.choice(k, p=row) for row in posterior])
    return posterior, truth


# Accuracy


LABEL_FORMS = {
    "codes": lambda codes: codes,
    "small codes": lambda codes: codes.astype(np.uint8),
    "floats": lambda codes: codes.astype(float),
    "text": lambda codes: np.array(["ant", "bee", "cat", "dog"])[codes],
    "objects": lambda codes: np.array(["ant", "bee", "cat", "dog"], dtype=object)[codes],
    "bytes": lambda codes: np.array([b"ant", b"bee", b"cat", b"dog"])[codes],
    "list": lambda codes: [["ant", "bee", "cat", "dog"][code] for code in codes],
    "tuples": lambda codes: [(int(code), "x") for code in codes],
    "dates": lambda codes: np.datetime64("2024-01-01") + codes,
}


@pytest.mark.parametrize("form", LABEL_FORMS)
def test_accuracies_agree_with_scikit_learn(form):
    sk = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(3)
    truth = rng.choice(4, 500, p=[0.6, 0.2, 0.15, 0.05])
    labels = np.where(rng.random(500) < 0.7, truth, rng.integers(0, 4, 500))
    weight = rng.random(500)
    made = LABEL_FORMS[form]
    assert metrics.accuracy(made(labels), made(truth)) == pytest.approx(sk.accuracy_score(truth, labels), abs=TIGHT)
    assert metrics.accuracy(made(labels), made(truth), sample_weight=weight) == pytest.approx(
        sk.accuracy_score(truth, labels, sample_weight=weight), abs=TIGHT
    )
    assert metrics.balanced_accuracy(made(labels), made(truth)) == pytest.approx(
        sk.balanced_accuracy_score(truth, labels), abs=TIGHT
    )


def test_string_dtype_of_numpy_two_is_read():
    if not hasattr(np.dtypes, "StringDType"):
        pytest.skip("NumPy before 2 has no StringDType")
    labels = np.array(["a", "b"], dtype=np.dtypes.StringDType())
    assert metrics.accuracy(labels, ["a", "a"]) == 0.5


@pytest.mark.parametrize(
    "labels",
    [
        ["a", None, "b", "b"],
        ["a", float("nan"), "b", "b"],
        np.array(["a", None, "b", "b"], dtype=object),
        np.ma.array(["a", "a", "b", "b"], mask=[False, True, False, False]),
    ],
    ids=["none", "nan", "array", "masked"],
)
def test_abstention_is_wrong(labels):
    truth = ["a", "a", "b", "a"]
    assert metrics.accuracy(labels, truth) == 0.5
    assert metrics.balanced_accuracy(labels, truth) == pytest.approx((1 / 3 + 1) / 2)


def test_abstention_among_codes_is_wrong():
    assert metrics.accuracy([0.0, np.nan, 1.0], np.array([0, 1, 1])) == pytest.approx(2 / 3)
    assert metrics.accuracy([None, None], [0, 1]) == 0.0


def test_missing_of_pandas_is_an_abstention():
    pd = pytest.importorskip("pandas")
    assert metrics.accuracy(pd.Series([1, None], dtype="Int64"), [1, 1]) == 0.5
    assert metrics.accuracy(pd.Series(["a", None], dtype="string"), ["a", "a"]) == 0.5
    assert metrics.accuracy([pd.NaT, pd.Timestamp("2024-01-01")], [pd.Timestamp("2024-01-01")] * 2) == 0.5


def test_nan_never_matches_the_text_nan():
    assert metrics.accuracy(["nan", float("nan")], ["nan", "nan"]) == 0.5


@given(SEEDS, SIZES, SIZES)
def test_accuracy_properties(seed, n, k):
    rng = np.random.default_rng(seed)
    labels, truth, order = rng.integers(0, k, n), rng.integers(0, k, n), rng.permutation(n)
    rename = rng.permutation(k)
    for measure in (metrics.accuracy, metrics.balanced_accuracy):
        value = measure(labels, truth)
        assert 0 <= value <= 1
        assert measure(truth, truth) == 1
        assert measure(labels[order], truth[order]) == pytest.approx(value, abs=TIGHT)
        assert measure(rename[labels], rename[truth]) == pytest.approx(value, abs=TIGHT)


def test_weight_of_two_is_a_task_twice():
    labels, truth = ["a", "b", "b"], ["a", "a", "b"]
    assert metrics.accuracy(labels, truth, sample_weight=[2, 1, 0]) == metrics.accuracy(
        ["a", "a", "b"], ["a", "a", "a"]
    )


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: metrics.accuracy([], []), ValueError, "labels is empty"),
        (lambda: metrics.accuracy([1], []), ValueError, "truth is empty"),
        (lambda: metrics.accuracy([1, 2], [1]), ValueError, "labels has 2 rows but truth has 1"),
        (lambda: metrics.accuracy([[1, 2]], [1]), ValueError, r"one-dimensional, not of shape \(1, 2\)"),
        (lambda: metrics.accuracy("abc", ["a"]), ValueError, "labels must be one-dimensional"),
        (
            lambda: metrics.accuracy([1, 2], ["1", "2"]),
            TypeError,
            "labels are integers but truth holds strings",
        ),
        (lambda: metrics.accuracy([b"a"], ["a"]), TypeError, "labels are bytes but truth holds strings"),
        (
            lambda: metrics.balanced_accuracy(["a", None], [1, 2]),
            TypeError,
            "labels are strings but .* integers",
        ),
        (lambda: metrics.accuracy(["a", "b"], ["a", None]), ValueError, "truth is missing at position 1"),
        (lambda: metrics.accuracy([1, 2], [np.nan, 1.0]), ValueError, "truth is missing at position 0"),
        (lambda: metrics.accuracy([1], [1], sample_weight=[-1]), ValueError, "must not be negative"),
        (lambda: metrics.accuracy([1], [1], sample_weight=[0]), ValueError, "not be all zero"),
        (lambda: metrics.accuracy([1], [1], sample_weight=[1, 2]), ValueError, "sample_weight has 2 rows"),
        (lambda: metrics.accuracy([1], [1], sample_weight=[np.inf]), ValueError, "holds inf at position 0"),
        (
            lambda: metrics.accuracy([1], [1], sample_weight=[[1]]),
            ValueError,
            "sample_weight must be one-dim",
        ),
    ],
)
def test_accuracy_names_what_is_wrong(call, error, match):
    with pytest.raises(error, match=match):
        call()


# Log-loss and Brier


@pytest.mark.parametrize("k", [2, 3, 7])
def test_log_loss_and_brier_agree_with_scikit_learn(k):
    sk = pytest.importorskip("sklearn.metrics")
    posterior, truth = posterior_and_truth(5, k=k)
    expected = sk.log_loss(truth, posterior, labels=range(k))
    assert metrics.log_loss(posterior, truth) == pytest.approx(expected, rel=1e-9)
    by_hand = np.mean(np.sum((posterior - np.eye(k)[truth]) ** 2, axis=1))
    assert metrics.brier(posterior, truth) == pytest.approx(by_hand, abs=TIGHT)
    if k == 2:
        assert metrics.brier(posterior, truth) == pytest.approx(2 * sk.brier_score_loss(truth, posterior[:, 1]))


@given(SEEDS, SIZES, SIZES)
def test_posterior_metric_properties(seed, n, k):
    rng = np.random.default_rng(seed)
    posterior, truth = stochastic(rng, n, k), rng.integers(0, k, n)
    rows, columns = rng.permutation(n), rng.permutation(k)
    for measure, low, high in (
        (metrics.log_loss, 0, np.inf),
        (metrics.brier, 0, 2 + TIGHT),
        (metrics.calibration_error, 0, 1 + TIGHT),
    ):
        value = measure(posterior, truth)
        assert low <= value <= high
        assert measure(np.eye(k)[truth], truth) == 0
        assert measure(posterior[rows], truth[rows]) == pytest.approx(value, abs=TIGHT)
        # Column j of the new table is the class columns[j].
        assert measure(posterior[:, columns], np.argsort(columns)[truth]) == pytest.approx(value, abs=TIGHT)
        assert measure(posterior[:, columns], truth, classes=columns) == pytest.approx(value, abs=TIGHT)


@given(st.integers(2, 8))
def test_uniform_posteriors_have_known_scores(k):
    posterior, truth = np.full((k, k), 1 / k), np.arange(k)
    assert metrics.log_loss(posterior, truth) == pytest.approx(np.log(k))
    assert metrics.brier(posterior, truth) == pytest.approx(1 - 1 / k)
    assert metrics.calibration_error(posterior, truth) == pytest.approx(0, abs=TIGHT)


@given(SEEDS)
def test_brier_and_log_loss_are_proper(seed):
    """In expectation over the truth, no report beats the true distribution."""
    rng = np.random.default_rng(seed)
    honest, other = stochastic(rng, 1, 3)[0], stochastic(rng, 1, 3)[0]
    for measure in (metrics.brier, metrics.log_loss):
        expected = [sum(honest[t] * measure([report], [t]) for t in range(3)) for report in (honest, other)]
        assert expected[0] <= expected[1] + 1e-9


def test_certain_mistakes_cost_the_most():
    certain = [[1.0, 0.0, 0.0]]
    assert metrics.brier(certain, [1]) == 2
    assert metrics.calibration_error(certain, [1]) == 1
    assert metrics.log_loss(certain, [1]) == pytest.approx(-np.log(np.finfo(float).eps))
    assert metrics.log_loss(certain, [1], eps=0.01) == pytest.approx(-np.log(0.01))
    assert metrics.log_loss(certain, [1], eps=0) == np.inf
    assert metrics.log_loss(certain, [0], eps=0) == 0


TRUTH_FORMS = [
    (["no", "yes"], ["yes", "no", "yes"]),
    (np.array(["no", "yes"], dtype=object), np.array(["yes", "no", "yes"])),
    ([7, 3], [3, 7, 3]),
    ([7, 3], np.array([3, 7, 3], dtype=np.uint64)),
    ([False, True], [True, False, True]),
    ([0.5, 1.5], [1.5, 0.5, 1.5]),
    (
        np.array(["2024-01-01", "2024-01-02"], "M8[D]"),
        np.array(["2024-01-02", "2024-01-01", "2024-01-02"], "M8[ns]"),
    ),
    (None, [1, 0, 1]),
    (None, [True, False, True]),
    (None, np.array([1.0, 0.0, 1.0])),
    (None, np.array([1, 0, 1], dtype=object)),
]


@pytest.mark.parametrize(("classes", "truth"), TRUTH_FORMS)
def test_truth_by_code_or_by_name(classes, truth):
    posterior = [[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]]
    assert metrics.brier(posterior, truth, classes=classes) == pytest.approx((0.125 + 0.5 + 2) / 3)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrow_posteriors_are_close_enough_to_one(dtype):
    rng = np.random.default_rng(0)
    posterior, truth = stochastic(rng, 500, 10).astype(dtype), rng.integers(0, 10, 500)
    expected = np.mean(np.sum((posterior.astype(float) - np.eye(10)[truth]) ** 2, axis=1))
    assert metrics.brier(posterior, truth) == pytest.approx(expected, abs=TIGHT)
    posterior[3] *= dtype(1.05)
    with pytest.raises(ValueError, match=r"posterior row 3 sums to 1\.0"):
        metrics.brier(posterior, truth)


def test_brier_never_falls_below_zero():
    small = np.logspace(-12, -6, 200)
    assert min(metrics.brier([[1 - p, p]], [0]) for p in small) >= 0


@pytest.mark.parametrize("measure", [metrics.log_loss, metrics.brier, metrics.calibration_error, metrics.reliability])
@pytest.mark.parametrize(
    ("posterior", "truth", "classes", "error", "match"),
    [
        ([[0.5, 0.4]], [0], None, ValueError, r"posterior row 0 sums to 0\.9"),
        ([[0.5, 0.5], [0.5, 0.50001]], [0, 0], None, ValueError, "posterior row 1 sums to"),
        ([[0.5, 0.5], [np.nan, 1]], [0, 0], None, ValueError, "posterior row 1 sums to nan"),
        ([[0.5, 0.5], [np.inf, -np.inf]], [0, 0], None, ValueError, "posterior row 1 sums to nan"),
        ([[1.5, -0.5]], [0], None, ValueError, r"posterior row 0 has the negative entry -0\.5"),
        ([0.5, 0.5], [0], None, ValueError, r"posterior must have 2 dimensions, not shape \(2,\)"),
        (np.zeros((0, 2)), [], None, ValueError, "posterior is empty"),
        (np.zeros((2, 0)), [0, 0], None, ValueError, "posterior is empty"),
        ([["a", "b"]], [0], None, TypeError, "posterior must hold numbers, not strings"),
        ([[1.0, 0.0]], [], None, ValueError, "truth is empty"),
        ([[1.0, 0.0]], [0, 1], None, ValueError, "posterior has 1 rows but truth has 2"),
        (
            [[1.0, 0.0]],
            [2],
            None,
            ValueError,
            "truth has class 2 at position 0, but posterior has the columns 0 to 1",
        ),
        ([[1.0, 0.0]] * 2, [0, -1], None, ValueError, "truth has class -1 at position 1"),
        (
            [[1.0, 0.0]],
            ["a"],
            None,
            TypeError,
            "integer class codes but holds strings; for names pass classes=",
        ),
        ([[1.0, 0.0]], [0.5], None, TypeError, "integer class codes but holds floats"),
        ([[1.0, 0.0]], [np.inf], None, TypeError, "integer class codes but holds floats"),
        ([[1.0, 0.0]], [None], None, ValueError, "truth is missing at position 0"),
        (
            [[1.0, 0.0]],
            ["c"],
            ["a", "b"],
            ValueError,
            "truth has class 'c' at position 0, which is not among classes$",
        ),
        ([[1.0, 0.0]], ["1"], [1, 2], ValueError, "class '1' .* truth holds strings but classes integers"),
        ([[1.0, 0.0]], [5], [1, 2], ValueError, "truth has class 5"),
        ([[1.0, 0.0]], ["a"], ["a"], ValueError, "classes has 1 names but posterior has 2 columns"),
        ([[1.0, 0.0]], ["a"], ["a", "a"], ValueError, "classes must be distinct; 'a' occurs twice"),
        ([[1.0, 0.0]], [4], [4, 4], ValueError, "classes must be distinct; 4 occurs twice"),
    ],
)
def test_posterior_metrics_name_what_is_wrong(measure, posterior, truth, classes, error, match):
    with pytest.raises(error, match=match):
        measure(posterior, truth, classes=classes)


@pytest.mark.parametrize("eps", [-1e-9, 1.0, float("nan")])
def test_eps_must_be_a_probability_below_one(eps):
    with pytest.raises(ValueError, match="eps must lie in"):
        metrics.log_loss([[1.0, 0.0]], [0], eps=eps)


# Calibration


def slow_calibration(posterior, truth, edges, norm):
    """One task at a time: which bin, then the gaps of the bins."""
    inside = [[] for _ in edges[1:]]
    for row, true in zip(posterior, truth, strict=True):
        top = max(row)
        b = next(b for b, upper in enumerate(edges[1:]) if top <= upper or b == len(edges) - 2)
        inside[b].append((top, float(list(row).index(top) == true)))
    gaps = [(len(each), abs(np.mean([c for c, _ in each]) - np.mean([h for _, h in each]))) for each in inside if each]
    if norm == "max":
        return max(gap for _, gap in gaps)
    power = {"l1": 1, "l2": 2}[norm]
    return (sum(n * gap**power for n, gap in gaps) / len(truth)) ** (1 / power)


def test_fifteen_bins_unless_told_otherwise():
    posterior, truth = posterior_and_truth(11)
    assert len(metrics.reliability(posterior, truth).count) == 15
    expected = metrics.calibration_error(posterior, truth, bins=15)
    assert (
        metrics.calibration_error(posterior, truth) == expected != metrics.calibration_error(posterior, truth, bins=16)
    )


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize("bins", [1, 4, 15])
def test_uniform_calibration_against_the_slow_form(norm, bins):
    posterior, truth = posterior_and_truth(11)
    expected = slow_calibration(posterior, truth, np.arange(bins + 1) / bins, norm)
    assert metrics.calibration_error(posterior, truth, bins=bins, norm=norm) == pytest.approx(expected, abs=TIGHT)


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_quantile_calibration_against_the_slow_form(norm):
    posterior, truth = posterior_and_truth(12, n=60)
    top = np.sort(posterior.max(axis=1))
    edges = [top[0], top[14], top[29], top[44], top[59]]  # 15 tasks each
    expected = slow_calibration(posterior, truth, edges, norm)
    found = metrics.calibration_error(posterior, truth, bins=4, strategy="quantile", norm=norm)
    assert found == pytest.approx(expected, abs=TIGHT)


def test_uniform_reliability_agrees_with_scikit_learn():
    calibration = pytest.importorskip("sklearn.calibration")
    posterior, truth = posterior_and_truth(13)
    hit = posterior.argmax(axis=1) == truth
    accuracy, confidence = calibration.calibration_curve(hit, posterior.max(axis=1), n_bins=10)
    found = metrics.reliability(posterior, truth, bins=10)
    filled = found.count > 0
    np.testing.assert_allclose(found.accuracy[filled], accuracy)
    np.testing.assert_allclose(found.confidence[filled], confidence)


def test_bins_are_closed_on_the_right():
    found = metrics.reliability([[0.5, 0.5], [0.5, 0.5], [0.75, 0.25]], [0, 1, 0], bins=2)
    np.testing.assert_array_equal(found.count, [2, 1])
    np.testing.assert_array_equal(found.accuracy, [0.5, 1.0])  # of equals the lowest column wins
    np.testing.assert_array_equal(found.confidence, [0.5, 0.75])


def test_ties_share_a_quantile_bin():
    posterior = [[0.5, 0.5]] * 3 + [[0.9, 0.1]]
    found = metrics.reliability(posterior, [0, 1, 0, 0], bins=2, strategy="quantile")
    np.testing.assert_array_equal(found.count, [3, 1])
    np.testing.assert_array_equal(found.edges, [0.5, 0.5, 0.9])
    same = metrics.reliability(posterior[:3], [0, 1, 0], bins=9, strategy="quantile")
    np.testing.assert_array_equal(same.count, [3])
    np.testing.assert_array_equal(same.edges, [0.5, 0.5])


@given(SEEDS, st.integers(1, 40), SIZES, st.integers(1, 20), st.sampled_from(["uniform", "quantile"]))
def test_reliability_properties(seed, n, k, bins, strategy):
    rng = np.random.default_rng(seed)
    posterior, truth = stochastic(rng, n, k).round(1 if k == 2 else 12), rng.integers(0, k, n)
    posterior /= posterior.sum(axis=1, keepdims=True)
    found = metrics.reliability(posterior, truth, bins=bins, strategy=strategy)
    filled = found.count > 0
    assert found.count.sum() == n
    assert len(found.edges) - 1 == len(found.count) == len(found.accuracy) == len(found.confidence) <= bins
    assert np.all(np.diff(found.edges) >= 0)
    assert np.all(np.isnan(found.accuracy) == ~filled)
    assert np.all(np.isnan(found.confidence) == ~filled)
    if strategy == "quantile":
        assert filled.all()
    else:
        assert len(found.count) == bins
    total = found.count[filled] @ found.accuracy[filled]
    assert total == pytest.approx(np.sum(posterior.argmax(axis=1) == truth))
    assert np.all(found.confidence[filled] >= found.edges[:-1][filled] - TIGHT)
    assert np.all(found.confidence[filled] <= found.edges[1:][filled] + TIGHT)
    l1, l2, worst = (
        metrics.calibration_error(posterior, truth, bins=bins, strategy=strategy, norm=norm)
        for norm in ("l1", "l2", "max")
    )
    assert l1 <= l2 + TIGHT
    assert l2 <= worst + TIGHT


def test_calibrated_posteriors_have_little_error():
    posterior, truth = posterior_and_truth(17, n=20_000)
    assert metrics.calibration_error(posterior, truth) < 0.02
    sharpened = posterior**4 / np.sum(posterior**4, axis=1, keepdims=True)
    assert metrics.calibration_error(sharpened, truth) > 0.05


def test_reliability_is_frozen():
    found = metrics.reliability([[1.0, 0.0]], [0])
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.count = np.array([1])


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"bins": 0}, ValueError, "bins must be at least 1, not 0"),
        ({"bins": 2.5}, TypeError, r"bins must be a whole number, not 2\.5"),
        ({"bins": True}, TypeError, "bins must be a whole number, not True"),
        ({"strategy": "width"}, ValueError, "strategy must be one of 'uniform', 'quantile', not 'width'"),
        ({"norm": "l3"}, ValueError, "norm must be one of 'l1', 'l2', 'max', not 'l3'"),
    ],
)
def test_calibration_options_are_checked(options, error, match):
    with pytest.raises(error, match=match):
        metrics.calibration_error([[1.0, 0.0]], [0], **options)


# Workers


def test_confusion_error_is_the_formula():
    rng = np.random.default_rng(0)
    left, right = stochastic(rng, 5, 3, 3), stochastic(rng, 5, 3, 3)
    expected = sum((left[r, i, j] - right[r, i, j]) ** 2 for r in range(5) for i in range(3) for j in range(3)) / (
        5 * 3
    )
    assert metrics.confusion_error(left, right) == pytest.approx(expected, abs=TIGHT)


def test_confusion_error_reaches_two():
    assert metrics.confusion_error([np.eye(2)], [np.eye(2)[::-1]]) == 2


@given(SEEDS, SIZES, SIZES)
def test_confusion_error_properties(seed, m, k):
    rng = np.random.default_rng(seed)
    left, right = stochastic(rng, m, k, k), stochastic(rng, m, k, k)
    value, workers, classes = metrics.confusion_error(left, right), rng.permutation(m), rng.permutation(k)
    assert 0 <= value <= 2
    assert metrics.confusion_error(left, left) == 0
    assert metrics.confusion_error(right, left) == pytest.approx(value, abs=TIGHT)
    assert metrics.confusion_error(left[workers], right[workers]) == pytest.approx(value, abs=TIGHT)
    grid = np.ix_(range(m), classes, classes)
    assert metrics.confusion_error(left[grid], right[grid]) == pytest.approx(value, abs=TIGHT)


def test_skill_is_the_weighted_diagonal():
    rng = np.random.default_rng(1)
    confusion, prior = stochastic(rng, 6, 4, 4), stochastic(rng, 1, 4)[0]
    expected = [sum(prior[c] * confusion[m, c, c] for c in range(4)) for m in range(6)]
    np.testing.assert_allclose(metrics.skill(confusion, prior), expected)
    np.testing.assert_allclose(metrics.skill(confusion), np.trace(confusion, axis1=1, axis2=2) / 4)


def test_skill_error_takes_skills_or_confusions():
    rng = np.random.default_rng(2)
    left, right, prior = stochastic(rng, 6, 3, 3), stochastic(rng, 6, 3, 3), stochastic(rng, 1, 3)[0]
    a, b = metrics.skill(left, prior), metrics.skill(right, prior)
    expected = np.mean(np.abs(a - b))
    assert metrics.skill_error(left, right, prior) == pytest.approx(expected, abs=TIGHT)
    assert metrics.skill_error(a, right, prior) == pytest.approx(expected, abs=TIGHT)
    assert metrics.skill_error(a, b) == pytest.approx(expected, abs=TIGHT)
    assert metrics.skill_error(left, left) == 0
    rank = metrics.skill_rank_correlation(a, b)
    assert metrics.skill_rank_correlation(left, right, prior) == pytest.approx(rank, abs=TIGHT)
    assert metrics.skill_rank_correlation(left, b, prior) == pytest.approx(rank, abs=TIGHT)


@given(SEEDS, st.integers(2, 30), st.integers(2, 40))
def test_rank_correlation_agrees_with_scipy(seed, m, distinct):
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, distinct, m) / distinct, rng.integers(0, distinct, m) / distinct
    a[:2], b[:2] = [0, 1], [0, 1]  # neither is constant
    found = metrics.skill_rank_correlation(a, b)
    assert found == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-9)
    assert metrics.skill_rank_correlation(b, a) == pytest.approx(found, abs=TIGHT)
    assert metrics.skill_rank_correlation(a, -b) == pytest.approx(-found, abs=TIGHT)
    assert metrics.skill_rank_correlation(np.exp(a), b) == pytest.approx(found, abs=TIGHT)
    assert metrics.skill_rank_correlation(a, a) == pytest.approx(1)


@pytest.mark.parametrize(("a", "b"), [([0.5], [0.5]), ([0.5, 0.5], [0.1, 0.2]), ([0.1, 0.2], [0.5, 0.5])])
def test_rank_correlation_is_nan_where_undefined(a, b):
    assert np.isnan(metrics.skill_rank_correlation(a, b))


def test_information_against_the_double_sum():
    rng = np.random.default_rng(4)
    confusion, prior = stochastic(rng, 5, 3, 3, sharp=0.3), stochastic(rng, 1, 3)[0]
    confusion[0] = [[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1]]  # zeros add nothing
    expected = []
    for table in confusion:
        joint = prior[:, None] * table
        apart = prior[:, None] * joint.sum(axis=0)
        seen = joint > 0
        expected.append(np.sum(joint[seen] * np.log2(joint[seen] / apart[seen])))
    np.testing.assert_allclose(metrics.information(confusion, prior), expected, atol=TIGHT)


@given(SEEDS, SIZES, SIZES)
def test_information_properties(seed, m, k):
    rng = np.random.default_rng(seed)
    confusion, prior, classes = stochastic(rng, m, k, k), stochastic(rng, 1, k)[0], rng.permutation(k)
    bits = metrics.information(confusion, prior)
    entropy = -np.sum(prior * np.log2(prior))
    assert bits.shape == (m,)
    assert np.all((bits >= 0) & (bits <= entropy + TIGHT))
    np.testing.assert_allclose(metrics.information(confusion[:, :, classes], prior), bits, atol=TIGHT)
    np.testing.assert_allclose(metrics.information(confusion[:, classes], prior[classes]), bits, atol=TIGHT)
    # Whoever errs in a consistent way tells all; whoever ignores the class tells nothing.
    np.testing.assert_allclose(metrics.information([np.eye(k)[classes]], prior), entropy, atol=TIGHT)
    np.testing.assert_allclose(metrics.information(np.repeat(confusion[:, :1], k, axis=1), prior), 0, atol=TIGHT)


def test_information_of_spammers_never_falls_below_zero():
    rng = np.random.default_rng(6)
    spammers = np.repeat(stochastic(rng, 1000, 1, 5), 5, axis=1)
    bits = metrics.information(spammers, stochastic(rng, 1, 5)[0])
    assert bits.min() == 0
    assert bits.max() < TIGHT


def test_information_of_classes_that_never_occur():
    swaps = np.eye(3)[[1, 0, 2]]
    np.testing.assert_allclose(metrics.information([swaps], [0.5, 0.5, 0.0]), [1.0])


@given(SEEDS, SIZES, st.integers(2, 6))
def test_spammer_score_is_the_sum_over_pairs(seed, m, k):
    rng = np.random.default_rng(seed)
    confusion = stochastic(rng, m, k, k)
    expected = [
        sum(np.sum((table[c] - table[d]) ** 2) for c, d in combinations(range(k), 2)) / (k * (k - 1))
        for table in confusion
    ]
    score = metrics.spammer_score(confusion)
    np.testing.assert_allclose(score, expected, atol=TIGHT)
    assert np.all((score >= 0) & (score <= 1 + TIGHT))
    np.testing.assert_allclose(metrics.spammer_score([np.eye(k)[rng.permutation(k)]]), 1)
    np.testing.assert_allclose(metrics.spammer_score(np.repeat(confusion[:, :1], k, axis=1)), 0, atol=TIGHT)


@given(st.floats(0, 1), st.floats(0, 1))
def test_spammer_score_of_two_classes(sensitivity, specificity):
    confusion = [[[specificity, 1 - specificity], [1 - sensitivity, sensitivity]]]
    expected = (sensitivity + specificity - 1) ** 2
    assert metrics.spammer_score(confusion)[0] == pytest.approx(expected, abs=TIGHT)


def test_one_class():
    only = np.ones((3, 1, 1))
    np.testing.assert_array_equal(metrics.skill(only, [1.0]), [1, 1, 1])
    np.testing.assert_array_equal(metrics.information(only), [0, 0, 0])
    np.testing.assert_array_equal(metrics.spammer_score(only), [1, 1, 1])
    assert metrics.confusion_error(only, only) == 0
    assert metrics.log_loss([[1.0]], [0]) == 0
    assert metrics.brier([[1.0]], ["a"], classes=["a"]) == 0


def test_abstentions_are_further_columns():
    # Half of the time neither of them answers; the first is right otherwise, the second guesses.
    confusion = np.array([[[0.5, 0, 0.5], [0, 0.5, 0.5]], [[0.25, 0.25, 0.5], [0.25, 0.25, 0.5]]])
    np.testing.assert_allclose(metrics.skill(confusion), [0.5, 0.25])
    np.testing.assert_allclose(metrics.information(confusion), [0.5, 0])
    np.testing.assert_allclose(metrics.spammer_score(confusion), [0.25, 0])


CONFUSION = np.array([[[0.9, 0.1], [0.2, 0.8]]])


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: metrics.skill(CONFUSION[0]), "confusion must have 3 dimensions"),
        (lambda: metrics.skill(np.zeros((0, 2, 2))), "confusion is empty"),
        (
            lambda: metrics.skill(np.full((1, 4, 2), 0.5)),
            r"shape \(workers, classes, classes or more\), not \(1, 4, 2\)",
        ),
        (lambda: metrics.skill(CONFUSION * 0.9), r"confusion worker 0 class 0 sums to 0\.9"),
        (lambda: metrics.spammer_score([[[1, 0], [np.nan, 1]]]), "confusion worker 0 class 1 sums to nan"),
        (lambda: metrics.information([[[1, 0], [2, -1]]]), "worker 0 class 1 has the negative entry -1"),
        (lambda: metrics.skill(CONFUSION, [0.5, 0.4]), r"prior sums to 0\.9"),
        (lambda: metrics.skill(CONFUSION, [1.5, -0.5]), r"prior has the negative entry -0\.5"),
        (lambda: metrics.information(CONFUSION, [1.0]), "prior has 1 entries but confusion has 2 classes"),
        (lambda: metrics.confusion_error(CONFUSION, np.ones((1, 1, 1))), "estimated has shape .* but true"),
        (lambda: metrics.confusion_error(CONFUSION, 2 * CONFUSION), "true worker 0 class 0 sums to 2"),
        (lambda: metrics.skill_error(CONFUSION, CONFUSION[0]), "true must be skills of shape"),
        (lambda: metrics.skill_error(CONFUSION, [0.5, 0.5]), "estimated has 1 rows but true has 2"),
        (lambda: metrics.skill_error([], []), "estimated is empty"),
        (
            lambda: metrics.skill_error([np.nan], [0.1]),
            "estimated must be finite but holds nan at position 0",
        ),
        (lambda: metrics.skill_error([0.5], [0.1], prior=[1.0]), "prior is for confusion matrices"),
        (lambda: metrics.skill_rank_correlation(CONFUSION * 2, [0.1]), "estimated worker 0 class 0 sums to"),
    ],
)
def test_worker_metrics_name_what_is_wrong(call, match):
    with pytest.raises(ValueError, match=match):
        call()


# Gold


TASKS = np.array(["t1", "t2", "t3", "t4"])


def gold_forms(ids, labels):
    pa, pd, pl = pytest.importorskip("pyarrow"), pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {"other": range(len(ids)), "label": labels, "task": ids}
    return {
        "mapping": dict(zip(ids, labels, strict=True)),
        "pair": (ids, labels),
        "arrays": (np.array(ids), np.array(labels)),
        "arrow": pa.table(columns),
        "dictionary": pa.table(
            {"task": pa.array(ids).dictionary_encode(), "label": pa.array(labels).dictionary_encode()}
        ),
        "pandas": pd.DataFrame(columns),
        "categories": pd.DataFrame(columns).astype({"label": "category"}),
        "series": pd.Series(labels, index=ids),
        "polars": pl.DataFrame(columns),
        "polars categories": pl.DataFrame(columns).cast({pl.String: pl.Categorical}),
    }


@pytest.mark.parametrize(
    ("tasks", "ids"),
    [(TASKS, ["t4", "t1", "t2"]), (TASKS.astype(object), ["t4", "t1", "t2"]), ([30, 10, 20, 5], [5, 30, 10])],
    ids=["text", "objects", "unsorted integers"],
)
@pytest.mark.parametrize("labels", [["x", "y", "x"], [1, 0, 1], [True, False, True]], ids=["text", "int", "bool"])
def test_gold_in_every_form(tasks, ids, labels):
    for form, gold in gold_forms(ids, labels).items():
        index, truth = metrics.match_gold(tasks, gold)
        assert index.tolist() == [0, 1, 3], form
        assert truth.tolist() == [labels[1], labels[2], labels[0]], form


def test_gold_from_duckdb():
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        gold = connection.sql("select * from (values ('t3', 1), ('t2', 0)) as g(task, label)")
        index, truth = metrics.match_gold(TASKS, gold)
    assert (index.tolist(), truth.tolist()) == ([1, 2], [0, 1])


@given(SEEDS, st.integers(1, 30), st.sampled_from([int, str, float, "uint64"]))
def test_match_gold_against_a_loop(seed, n, kind):
    rng = np.random.default_rng(seed)
    ids = rng.choice(1000, n, replace=False)
    tasks = ids.astype(kind)
    chosen = rng.permutation(n)[: rng.integers(1, n + 1)]
    labels = rng.integers(0, 3, len(chosen))
    index, truth = metrics.match_gold(tasks, (tasks[chosen], labels))
    expected = sorted(zip(chosen.tolist(), labels.tolist(), strict=True))
    assert list(zip(index.tolist(), truth.tolist(), strict=True)) == expected
    again, _ = metrics.match_gold(tasks, dict(zip(tasks[chosen].tolist(), labels.tolist(), strict=True)))
    assert again.tolist() == index.tolist()


def test_gold_without_a_label_is_no_gold():
    pa, pd, pl = pytest.importorskip("pyarrow"), pytest.importorskip("pandas"), pytest.importorskip("polars")
    for gold in (
        {"t1": None, "t3": 1},
        {"t1": float("nan"), "t3": 1},
        (["t1", "t3"], [np.nan, 1.0]),
        pa.table({"task": ["t1", "t3"], "label": [None, 1]}),
        pd.DataFrame({"task": ["t1", "t3"], "label": [None, 1]}),
        pd.Series([pd.NA, 1], index=["t1", "t3"], dtype="Int64"),
    ):
        index, truth = metrics.match_gold(TASKS, gold)
        assert (index.tolist(), truth.tolist()) == ([2], [1])
    some = pl.DataFrame({"task": ["t1", "t3", "t2"], "label": ["x", "y", None]})
    for gold in (some, some.cast(pl.Categorical), some.to_pandas(), some.to_pandas().astype("category")):
        index, truth = metrics.match_gold(TASKS, gold)
        assert (index.tolist(), truth.tolist()) == ([0, 2], ["x", "y"])
    nulls = pa.table({"task": ["t1", "t2"], "label": pa.array([None, 1], pa.int64())})
    assert metrics.match_gold(TASKS, nulls)[1].dtype == np.int64


def test_large_ids_keep_all_their_digits():
    big = 2**63 + np.arange(3, dtype=np.uint64)
    assert metrics.match_gold(big, (big[[1]], ["x"]))[0].tolist() == [1]
    near = 2**53 + np.arange(3)  # int64 that float64 cannot tell apart
    assert metrics.match_gold(near, (near[[1]].astype(np.uint64), ["x"]))[0].tolist() == [1]


def test_ids_that_are_tuples_or_dates():
    index, _ = metrics.match_gold([("a", 1), ("a", 2)], {("a", 2): "x"})
    assert index.tolist() == [1]
    days = np.array(["2024-01-01", "2024-01-02"], dtype="M8[D]")
    assert metrics.match_gold(days, (days[[1]].astype("M8[ns]"), ["x"]))[0].tolist() == [1]
    assert metrics.match_gold(days.tolist(), {datetime.date(2024, 1, 2): "x"})[0].tolist() == [1]


def test_unknown_tasks_can_be_ignored():
    index, truth = metrics.match_gold(TASKS, {"t9": "x", "t2": "y"}, unknown="ignore")
    assert (index.tolist(), truth.tolist()) == ([1], ["y"])


def test_match_then_measure():
    labels = np.array(["x", "y", "y", "x"])
    index, truth = metrics.match_gold(TASKS, {"t3": "y", "t1": "y"})
    assert metrics.accuracy(labels[index], truth) == 0.5


@pytest.mark.parametrize(
    ("tasks", "gold", "options", "error", "match"),
    [
        (
            TASKS,
            {"t1": 1, "u": 1},
            {},
            ValueError,
            r"gold names 1 of its 2 tasks .*: 'u'; remove .* unknown=\"ignore\"",
        ),
        (TASKS, dict.fromkeys("abcde", 1), {}, ValueError, r"5 of its 5 tasks .* 'a', 'b', 'c', …"),
        (TASKS, {"u": 1}, {"unknown": "ignore"}, ValueError, "gold names 1 of its 1 tasks .* check the ids"),
        ([1, 2], {"1": 0}, {}, ValueError, "gold's ids are strings but the tasks' ids are integers"),
        ([1, 2], {"1": 0}, {"unknown": "ignore"}, ValueError, "ids are strings but .* integers"),
        (
            ["1", "2"],
            ([1, 2], [0, 0]),
            {},
            ValueError,
            "1, 2; gold's ids are integers but the tasks' ids are strings",
        ),
        (TASKS, {}, {}, ValueError, "gold's tasks is empty"),
        (TASKS, {"t1": None}, {}, ValueError, "gold is empty"),
        ([], {"t1": 1}, {}, ValueError, "tasks is empty"),
        (["a", "a"], {"a": 1}, {}, ValueError, "tasks must be distinct; 'a' occurs twice"),
        ([2, 1, 2], {1: 1}, {}, ValueError, "tasks must be distinct; 2 occurs twice"),
        (TASKS, (["t1", "t1"], [1, 1]), {}, ValueError, "gold names task 't1' more than once"),
        (TASKS, (["t1", "t2"], [1]), {}, ValueError, "gold's tasks has 2 rows but gold's labels has 1"),
        (TASKS, (["t1"], [1], [1]), {}, ValueError, r"pair \(tasks, labels\), not a tuple of 3"),
        (TASKS, [("t1", 1)], {}, TypeError, "gold is a list; give a mapping"),
        (TASKS, None, {}, TypeError, "gold is a NoneType"),
        (TASKS, {"t1": 1, None: 1}, {}, ValueError, "gold has no task id at row 1"),
        ([1, 2], ([np.nan, 1.0], [0, 0]), {"unknown": "ignore"}, ValueError, "gold has no task id at row 0"),
        (
            TASKS,
            {"t1": 1},
            {"unknown": "drop"},
            ValueError,
            "unknown must be one of 'raise', 'ignore', not 'drop'",
        ),
    ],
)
def test_match_gold_names_what_is_wrong(tasks, gold, options, error, match):
    with pytest.raises(error, match=match):
        metrics.match_gold(tasks, gold, **options)


def test_frames_of_the_wrong_shape():
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    with pytest.raises(ValueError, match=r"gold has no column 'task' but \['item', 'label'\]"):
        metrics.match_gold(TASKS, pa.table({"item": ["t1"], "label": [1]}))
    for ids in (pa.array(["t1", None]), pa.array(["t1", None]).dictionary_encode(), pa.array([1, None])):
        with pytest.raises(ValueError, match="gold has no task id at row 1"):
            metrics.match_gold(TASKS, pa.table({"task": ids, "label": [1, 1]}))
    with pytest.raises(TypeError, match="call collect"):
        metrics.match_gold(TASKS, pl.LazyFrame({"task": ["t1"], "label": [1]}))


# The module as a whole


@settings(max_examples=50)
@given(hnp.arrays(np.float64, (4, 3), elements=st.floats(allow_nan=True, allow_infinity=True, width=64)))
def test_any_floats_are_measured_or_refused(table):
    """No table of floats gets through with a wrong row, and none ends in anything but ValueError."""
    try:
        value = metrics.brier(table, [0, 1, 2, 0])
    except ValueError:
        assert not (np.all(table >= 0) and np.allclose(table.sum(axis=1), 1, atol=1e-7, rtol=0))
    else:
        assert 0 <= value <= 2.00001


def test_inputs_stay_as_they_were():
    posterior, truth = posterior_and_truth(1)
    confusion = stochastic(np.random.default_rng(0), 3, 4, 4)
    for array in (posterior, truth, confusion):
        array.flags.writeable = False
    metrics.log_loss(posterior, truth)
    metrics.brier(posterior, truth)
    metrics.calibration_error(posterior, truth, strategy="quantile")
    metrics.accuracy(truth, truth)
    metrics.information(confusion)
    metrics.spammer_score(confusion)
    metrics.skill_rank_correlation(confusion, confusion)


def test_all_lists_the_public_names():
    public = {
        name
        for name, value in vars(metrics).items()
        if callable(value) and value.__module__.startswith(metrics.__name__) and not name.startswith("_")
    }
    assert public == set(metrics.__all__)


def test_import_is_light():
    heavy = ("scipy", "sklearn", "pandas", "polars", "torch", "pyarrow")
    code = f"import sys, manyhands.metrics; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
