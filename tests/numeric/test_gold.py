"""Known values correct the default for numbers, and never do harm where the crowd is right."""

import warnings

import numpy as np
import pytest

import manyhands as mh
from manyhands.errors import GoldWarning
from manyhands.numeric import anchoring


def panel(seed, n=400, m=8, shared=0.8, noise=0.4):
    """Judges, all but the last two with a common error, that rate on a scale of their own."""
    rng = np.random.default_rng(seed)
    truth, lure = rng.normal(size=n), shared * rng.normal(size=n)
    ratings = truth[:, None] + noise * rng.normal(size=(n, m))
    ratings[:, : m - 2] += lure[:, None]
    tasks, workers = (part.ravel() for part in np.indices((n, m)))
    return mh.Ratings.from_arrays(tasks, workers, 5 + 2 * ratings.ravel()), truth


def fit(log, gold, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GoldWarning)
        return mh.numeric.Blend(gold=gold, **settings).fit(log)


@pytest.mark.parametrize("scale", ["ratings", "other"])
def test_known_values_correct_judges_whose_errors_coincide(scale):
    before, after, covered = [], [], []
    for seed in range(3):
        log, truth = panel(seed)
        y = 5 + 2 * truth if scale == "ratings" else 100 * truth
        model = fit(log, (np.arange(60), y[:60]))
        best = mh.aggregate(log).values_
        line = np.polyval(np.polyfit(best[:60], y[:60], 1), best)
        before.append(mh.metrics.rmse(line[60:], y[60:]) / y.std())
        after.append(mh.metrics.rmse(model.values_[60:], y[60:]) / y.std())
        covered.append(mh.metrics.coverage(model.intervals_[60:], y[60:]))
        assert model.values_[:60] == pytest.approx(y[:60])
        assert not model.errors_[:60].any()
    assert np.mean(after) < 0.8 * np.mean(before)
    assert 0.8 < np.mean(covered) < 0.97


def test_known_values_of_a_good_crowd_leave_its_answers_alone():
    changes = []
    for seed in range(6):
        crowd = mh.simulate(150, 12, answers_per_task=5, bias=0.0, scale=0.0, seed=seed, kind="numeric")
        for n in (3, 8, 20, 60):
            model = fit(crowd.log, (np.arange(n), crowd.truth[:n]))
            plain = mh.aggregate(crowd.log).values_
            rest = slice(n, None)
            changes.append(
                mh.metrics.rmse(model.values_[rest], crowd.truth[rest])
                / mh.metrics.rmse(plain[rest], crowd.truth[rest])
            )
    assert np.mean(changes) < 1.005
    assert max(changes) < 1.05


def test_two_known_classes_become_probabilities():
    log, truth = panel(1)
    names = np.where(truth > 0, "good", "bad")
    model = fit(log, (np.arange(80), names[:80]))
    rest = slice(80, None)
    assert (model.labels_[rest] == names[rest]).mean() > 0.85
    assert ((model.values_ >= 0) & (model.values_ <= 1)).all()
    assert abs(model.confidence_[rest].mean() - (model.labels_[rest] == names[rest]).mean()) < 0.05
    assert model.to_frame().column_names[:3] == ["task", "label", "value"]
    codes = fit(log, (np.arange(80), (truth[:80] > 0).astype(int)))
    np.testing.assert_allclose(codes.values_, model.values_)
    with pytest.raises(AttributeError, match="two classes"):
        codes.labels_  # noqa: B018
    # The names alone do not say which class has higher ratings.
    reversed_names = fit(log, (np.arange(80), np.where(truth > 0, "a", "z")[:80]))
    np.testing.assert_allclose(reversed_names.values_, model.values_)


def test_ridge_regressions_are_their_closed_form_and_the_logistic_ones_a_minimum():
    rng = np.random.default_rng(0)
    head, z = np.column_stack([np.ones(30), rng.normal(size=30)]), rng.normal(size=(30, 7))
    y, prior = rng.normal(size=30), np.array([0.3, 0.9])
    penalty, center = np.r_[3.0, 3.0, np.full(7, 15.0)], np.r_[prior, np.zeros(7)]
    features = np.column_stack([head, z])
    expected = np.linalg.solve(features.T @ features + np.diag(penalty), features.T @ y + penalty * center)
    coefficients = anchoring._ridge(head, z, y, prior, 15.0, False)
    np.testing.assert_allclose(np.r_[coefficients.head, coefficients.workers], expected)
    few = slice(0, 5)  # fewer rows than columns: solved by rows
    expected = np.linalg.solve(
        features[few].T @ features[few] + np.diag(penalty), features[few].T @ y[few] + penalty * center
    )
    coefficients = anchoring._ridge(head[few], z[few], y[few], prior, 15.0, False)
    np.testing.assert_allclose(np.r_[coefficients.head, coefficients.workers], expected)
    labels = (y > 0).astype(float)
    coefficients = anchoring._ridge(head, z, labels, prior, 8.0, True)
    beta = np.r_[coefficients.head, coefficients.workers]
    gradient = features.T @ (1 / (1 + np.exp(-features @ beta)) - labels)
    gradient += np.r_[1.0, 1.0, np.full(7, 8.0)] * (beta - center)
    assert np.abs(gradient).max() < 1e-7


def test_known_values_survive_files_and_predict_new_tasks(tmp_path):
    log, truth = panel(2)
    model = fit(log, (np.arange(60), truth[:60]))
    assert model.n_gold_ == 60
    assert model.workers_frame()["n_gold"].to_pylist() == [60] * 8
    model.save(tmp_path / "m.manyhands")
    loaded = mh.load(tmp_path / "m.manyhands")
    np.testing.assert_array_equal(loaded.values_, model.values_)
    np.testing.assert_allclose(loaded.predict(log)[60:], model.values_[60:])
    np.testing.assert_allclose(model.predict(log.select(tasks=log.tasks[60:])), model.values_[60:])


@pytest.mark.parametrize("form", ["mapping", "frame", "series", "file"])
def test_known_values_come_in_all_forms(form, tmp_path):
    log, truth = panel(3, n=60)
    gold = {int(task): float(truth[task]) for task in range(0, 40, 2)}
    expected = fit(log, gold).values_
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"task": list(gold), "value": list(gold.values())})
    frame.to_csv(tmp_path / "gold.csv", index=False)
    forms = {
        "mapping": gold,
        "frame": frame,
        "series": frame.set_index("task")["value"],
        "file": tmp_path / "gold.csv",
    }
    np.testing.assert_array_equal(fit(log, forms[form]).values_, expected)


@pytest.mark.parametrize(
    ("gold", "said"),
    [
        ({}, "gold is empty"),
        ({99999: 1.0}, "99999"),
        ({0: "a", 1: "b", 2: "c"}, "two classes"),
        ({0: "a", 1: "a"}, "1 class"),
        ({0: np.inf, 1: 2.0}, "task 0 is not a finite number"),
        ({0: (1.0, 2.0)}, "2 numbers per task"),
        ((np.array([1, 1]), np.array([1.0, 2.0])), "more than once"),
        (5, "gold is a int"),
    ],
)
def test_bad_gold_is_named(gold, said):
    log, _ = panel(0, n=20)
    with pytest.raises((ValueError, TypeError), match=said):
        mh.aggregate(log, gold=gold)


def test_one_known_value_corrects_no_other_and_all_of_them_are_kept():
    log, truth = panel(0, n=50)
    plain = mh.aggregate(log).values_
    with pytest.warns(GoldWarning, match="one value only"):
        model = mh.aggregate(log, gold={0: 7.0, 1: 7.0})
    np.testing.assert_array_equal(model.values_[2:], plain[2:])
    assert model.values_[:2].tolist() == [7.0, 7.0]
    np.testing.assert_allclose(fit(log, dict(enumerate(truth.tolist()))).values_, truth)


def test_errors_of_a_declared_panel_are_those_of_one_rating():
    log, _ = panel(0)
    usual, declared = mh.aggregate(log), mh.aggregate(log, panel=True)
    np.testing.assert_allclose(declared.errors_, usual.errors_ * np.sqrt(8))
    np.testing.assert_array_equal(declared.values_, usual.values_)
    assert "panel=False" in declared.assumption_
    assert "panel=True" in usual.assumption_
    with pytest.warns(GoldWarning, match="root mean squared error"):
        mh.aggregate(log, gold={task: float(task) for task in range(30)})
