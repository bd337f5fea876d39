"""Measures of labels and of posteriors, against hand formulas and scikit-learn, and what all measures share."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from draws import SEEDS, SIZES, TIGHT, posterior_and_truth, stochastic
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from manyhands import metrics

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


def test_scores_of_sets_are_counted_by_hand():
    found = metrics.set_scores([["a", "b"], ["c"], []], [["a"], ["c", "d", "e"], []])
    assert found == metrics.SetScores(
        exact=1 / 3, jaccard=(1 / 2 + 1 / 3 + 1) / 3, precision=2 / 3, recall=0.5, f1=4 / 7
    )
    assert metrics.set_scores([[]], [[]]) == metrics.SetScores(
        exact=1.0, jaccard=1.0, precision=1.0, recall=1.0, f1=1.0
    )
    with pytest.raises(ValueError, match="set"):
        metrics.set_scores([], [])


def test_weight_of_two_is_a_task_twice():
    labels, truth = ["a", "b", "b"], ["a", "a", "b"]
    assert metrics.accuracy(labels, truth, sample_weight=[2, 1, 0]) == metrics.accuracy(
        ["a", "a", "b"], ["a", "a", "a"]
    )


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: metrics.accuracy([], []), ValueError, "labels"),
        (lambda: metrics.accuracy([1], []), ValueError, "truth"),
        (lambda: metrics.accuracy([1, 2], [1]), ValueError, "labels.*2 rows.*1"),
        (lambda: metrics.accuracy([[1, 2]], [1]), ValueError, r"\(1, 2\)"),
        (lambda: metrics.accuracy("abc", ["a"]), ValueError, "labels"),
        (
            lambda: metrics.accuracy([1, 2], ["1", "2"]),
            TypeError,
            "labels",
        ),
        (lambda: metrics.accuracy([b"a"], ["a"]), TypeError, "labels"),
        (
            lambda: metrics.balanced_accuracy(["a", None], [1, 2]),
            TypeError,
            "labels",
        ),
        (lambda: metrics.accuracy(["a", "b"], ["a", None]), ValueError, "truth.*position 1"),
        (lambda: metrics.accuracy([1, 2], [np.nan, 1.0]), ValueError, "truth.*position 0"),
        (lambda: metrics.accuracy([1], [1], sample_weight=[-1]), ValueError, "negative"),
        (lambda: metrics.accuracy([1], [1], sample_weight=[0]), ValueError, "not be all zero"),
        (lambda: metrics.accuracy([1], [1], sample_weight=[1, 2]), ValueError, "sample_weight has 2 rows"),
        (lambda: metrics.accuracy([1], [1], sample_weight=[np.inf]), ValueError, "inf.*position 0"),
        (
            lambda: metrics.accuracy([1], [1], sample_weight=[[1]]),
            ValueError,
            "sample_weight",
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
    with pytest.raises(ValueError, match=r"row 3 sums.*1\.0"):
        metrics.brier(posterior, truth)


def test_brier_never_falls_below_zero():
    small = np.logspace(-12, -6, 200)
    assert min(metrics.brier([[1 - p, p]], [0]) for p in small) >= 0


@pytest.mark.parametrize("measure", [metrics.log_loss, metrics.brier, metrics.calibration_error, metrics.reliability])
@pytest.mark.parametrize(
    ("posterior", "truth", "classes", "error", "match"),
    [
        ([[0.5, 0.4]], [0], None, ValueError, r"row 0.*0\.9"),
        ([[0.5, 0.5], [0.5, 0.50001]], [0, 0], None, ValueError, "row 1"),
        ([[0.5, 0.5], [np.nan, 1]], [0, 0], None, ValueError, "row 1.*nan"),
        ([[0.5, 0.5], [np.inf, -np.inf]], [0, 0], None, ValueError, "row 1.*nan"),
        ([[1.5, -0.5]], [0], None, ValueError, r"row 0.*-0\.5"),
        ([0.5, 0.5], [0], None, ValueError, r"posterior.*2 dimensions.*\(2,\)"),
        (np.zeros((0, 2)), [], None, ValueError, "posterior"),
        (np.zeros((2, 0)), [0, 0], None, ValueError, "posterior"),
        ([["a", "b"]], [0], None, TypeError, "posterior"),
        ([[1.0, 0.0]], [], None, ValueError, "truth"),
        ([[1.0, 0.0]], [0, 1], None, ValueError, "posterior.*1 rows.*2"),
        (
            [[1.0, 0.0]],
            [2],
            None,
            ValueError,
            "truth.*class 2.*position 0.*0.*1",
        ),
        ([[1.0, 0.0]] * 2, [0, -1], None, ValueError, "truth.*-1.*position 1"),
        (
            [[1.0, 0.0]],
            ["a"],
            None,
            TypeError,
            "classes=",
        ),
        ([[1.0, 0.0]], [0.5], None, TypeError, "floats"),
        ([[1.0, 0.0]], [np.inf], None, TypeError, "floats"),
        ([[1.0, 0.0]], [None], None, ValueError, "truth.*position 0"),
        (
            [[1.0, 0.0]],
            ["c"],
            ["a", "b"],
            ValueError,
            "truth.*class 'c'.*position 0",
        ),
        ([[1.0, 0.0]], ["1"], [1, 2], ValueError, "class '1'"),
        ([[1.0, 0.0]], [5], [1, 2], ValueError, "truth has class 5"),
        ([[1.0, 0.0]], ["a"], ["a"], ValueError, "classes.*1 names.*2 columns"),
        ([[1.0, 0.0]], ["a"], ["a", "a"], ValueError, "classes.*'a'"),
        ([[1.0, 0.0]], [4], [4, 4], ValueError, "classes.*4"),
    ],
)
def test_posterior_metrics_name_what_is_wrong(measure, posterior, truth, classes, error, match):
    with pytest.raises(error, match=match):
        measure(posterior, truth, classes=classes)


@pytest.mark.parametrize("eps", [-1e-9, 1.0, float("nan")])
def test_eps_must_be_a_probability_below_one(eps):
    with pytest.raises(ValueError, match="eps"):
        metrics.log_loss([[1.0, 0.0]], [0], eps=eps)


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
    here = {
        name
        for name, value in vars(metrics).items()
        if callable(value) and value.__module__.startswith(metrics.__name__) and not name.startswith("_")
    }
    assert here | metrics._OF_KINDS.keys() == set(metrics.__all__)
    for name, module in metrics._OF_KINDS.items():
        assert getattr(metrics, name).__module__ == module


def test_import_is_light():
    heavy = ("scipy", "sklearn", "pandas", "polars", "torch", "pyarrow")
    code = f"import sys, manyhands.metrics; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
