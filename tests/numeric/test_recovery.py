"""Models of numbers recover what data were drawn from, intervals hold what they say, and real data come out well."""

import csv
from pathlib import Path

import numpy as np
import pytest

import manyhands as mh

DATA = Path(__file__).parents[3] / "shared" / "data"
#: Root mean squared error of the mean against gold, as the sets' own files say, and the most that the default may have.
REAL = {
    "affect_anger": (13.737, 13.737),
    "affect_fear": (16.241, 1.01 * 16.241),
    "affect_joy": (18.572, 1.01 * 18.572),
    "affect_valence": (26.096, 1.01 * 26.096),
    "movie_reviews": (0.0755, 0.056),
}


def test_bias_scale_and_noise_are_found():
    crowd = mh.simulate(2000, 25, answers_per_task=6, seed=1, kind="numeric")
    model = mh.numeric.GaussianCrowd().fit(crowd.log)
    # The crowd's average is the origin and unit, whatever workers were drawn.
    assert np.corrcoef(model.bias_, crowd.bias)[0, 1] > 0.98
    assert np.corrcoef(model.scale_, crowd.scale)[0, 1] > 0.95
    assert np.corrcoef(np.log(model.noise_), np.log(crowd.noise))[0, 1] > 0.98
    np.testing.assert_allclose(model.noise_, crowd.noise, rtol=0.15)


@pytest.mark.parametrize(
    "make",
    [
        mh.numeric.GaussianCrowd,
        lambda: mh.numeric.GaussianCrowd(shrink=False),
        lambda: mh.numeric.GaussianCrowd(tails=10.0),
        lambda: mh.numeric.GaussianCrowd(bias=False, scale=False, method="messages"),
        mh.numeric.CovarianceCrowd,
        mh.numeric.Blend,
    ],
)
def test_models_beat_the_mean_where_workers_differ(make):
    crowd = mh.simulate(500, 25, answers_per_task=5, noise_spread=1.0, seed=2, kind="numeric")
    mean = mh.metrics.rmse(mh.numeric.Mean().fit_predict(crowd.log), crowd.truth)
    assert mh.metrics.rmse(make().fit_predict(crowd.log), crowd.truth) < 0.95 * mean


def test_errors_vanish_as_ratings_grow():
    errors = []
    for each in (3, 12, 48):
        crowd = mh.simulate(400, 60, answers_per_task=each, bias=0.0, scale=0.0, seed=3, kind="numeric")
        model = mh.numeric.GaussianCrowd().fit(crowd.log)
        errors.append(mh.metrics.rmse(model.values_, crowd.truth))
        assert abs(np.log(errors[-1] / np.sqrt(np.mean(model.errors_**2)))) < 0.15
    assert errors[2] < 0.6 * errors[1] < 0.36 * errors[0]


@pytest.mark.parametrize("make", [mh.numeric.Mean, mh.numeric.GaussianCrowd, mh.numeric.Blend])
def test_nine_in_ten_values_lie_within_their_intervals(make):
    held = [
        mh.metrics.coverage(make().fit(crowd.log).intervals_, crowd.truth)
        for crowd in (mh.simulate(500, 40, answers_per_task=5, seed=seed, kind="numeric") for seed in range(3))
    ]
    assert 0.88 <= np.mean(held) <= 0.92


@pytest.mark.parametrize("make", [mh.numeric.GaussianCrowd, lambda: mh.numeric.Blend(folds=2)])
def test_errors_include_what_a_small_crowd_cannot_know_of_its_origin_and_unit(make):
    """Ten workers with hardly any noise are all wrong by their average bias and scale, which no rating shows."""
    away = []
    for seed in range(12):
        crowd = mh.simulate(
            40, 10, answers_per_task=10, noise=0.1, noise_spread=0.1, bias=0.5, scale=0.3, seed=seed, kind="numeric"
        )
        model = make().fit(crowd.log)
        away.append((model.values_ - crowd.truth) / model.errors_)
    # With noise alone, errors would be two to five times too small.
    assert 0.7 < np.sqrt(np.mean(np.square(away))) < 1.4


def test_two_factors_find_groups_who_share_errors():
    rng = np.random.default_rng(4)
    truth, shared = rng.normal(size=(2, 800))
    tasks, workers = np.indices((800, 12))
    group = workers >= 8
    values = truth[tasks] + np.where(group, shared[tasks], 0.0) + 0.5 * rng.normal(size=tasks.shape)
    ratings = mh.Ratings.from_arrays(tasks.ravel(), workers.ravel(), values.ravel())
    model = mh.numeric.CovarianceCrowd(2, tol=1e-3).fit(ratings)
    covariance = model._fitted().fit.factors[0] @ model._fitted().fit.factors[0].T
    apart, together = covariance[:8, 8:].mean(), covariance[8:, 8:].mean()
    assert together / apart == pytest.approx(2.0, rel=0.15)


def read(name):
    with (DATA / name / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    with (DATA / name / "gold.csv").open(newline="") as file:
        gold = {row["task"]: float(row["value"]) for row in csv.DictReader(file)}
    ratings = mh.Ratings.from_arrays(
        *([row[c] for row in rows] for c in ("task", "worker")), [float(row["value"]) for row in rows]
    )
    return ratings, np.array([gold[task] for task in ratings.tasks.tolist()])


@pytest.mark.parametrize("name", REAL)
def test_the_default_on_real_data(name):
    if not (DATA / name).exists():
        pytest.skip(f"{DATA / name} is not there")
    ratings, gold = read(name)
    mean, most = REAL[name]
    assert mh.metrics.rmse(mh.numeric.Mean().fit_predict(ratings), gold) == pytest.approx(mean, rel=1e-3)
    assert mh.metrics.rmse(mh.aggregate(ratings).values_, gold) <= most


def test_messages_of_workers_who_hardly_vary_stay_positive():
    """Most ratings are the same number: what the others leave of a worker's rate was below 0 once."""
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(30), 6)
    workers = np.concatenate([rng.choice(12, 6, replace=False) for _ in range(30)])
    values = np.where(rng.random(180) < 0.8, 0.0, rng.exponential(30.0, 180).round())
    ratings = mh.Ratings.from_arrays(tasks, workers, values)
    for each in (ratings, mh.Ratings.from_arrays(tasks, workers, np.stack([values, values[::-1]], axis=1))):
        model = mh.numeric.GaussianCrowd(bias=False, scale=False, method="messages").fit(each)
        assert np.isfinite(model.values_).all()
        assert (model.errors_ > 0).all()
