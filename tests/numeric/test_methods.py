"""Aggregators of numbers: the check-list, what is refused, and what the methods do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhands as mh
from manyhands.numeric._weights import least_squares_on_simplex
from manyhands.numeric.blend import MEMBERS
from manyhands.numeric.checks import simulate_log
from manyhands.testing import aggregator_checks

VARIANTS = {
    "mean": lambda _: mh.numeric.Mean(),
    "median": lambda _: mh.numeric.Median(),
    "trimmed": lambda _: mh.numeric.TrimmedMean(0.2),
    "weighted": lambda log: mh.numeric.WeightedMean(
        {w: 1.0 + (i % 3) for i, w in enumerate(np.unique(log.workers).tolist())}
    ),
    "gaussian": lambda _: mh.numeric.GaussianCrowd(max_iter=40),
    "gaussian-flat": lambda _: mh.numeric.GaussianCrowd(shrink=False, max_iter=40),
    "gaussian-bias": lambda _: mh.numeric.GaussianCrowd(scale=False, noise=False, max_iter=40),
    "gaussian-tails": lambda _: mh.numeric.GaussianCrowd(tails=4.0, max_iter=40),
    "gaussian-messages": lambda _: mh.numeric.GaussianCrowd(bias=False, scale=False, method="messages", max_iter=40),
    "covariance": lambda _: mh.numeric.CovarianceCrowd(max_iter=40),
    "covariance-2": lambda _: mh.numeric.CovarianceCrowd(2, max_iter=40),
    "blend": lambda _: mh.numeric.Blend(max_iter=15),
}
DRAWN = "its factors start at random"
SKIP = {
    "weighted": {"renaming_workers": "weights are those of the workers' places", "refit_forgets": "it names workers"},
    "gaussian-tails": {"predict_repeats_fit": "how wild a rating is depends on values that are still settling"},
    "gaussian-messages": {"weights_count": "a worker's other ratings tell of one, and a copy of it is another"},
    "covariance-2": dict.fromkeys(("renaming_workers", "shift_and_scale"), DRAWN),
}


def checks():
    for variant, make in VARIANTS.items():
        for name, check in aggregator_checks(make, kind="numeric", skip=SKIP.get(variant, {})):
            yield pytest.param(check, id=f"{variant}-{name}")


@pytest.mark.filterwarnings("ignore::manyhands.errors.OverlapWarning", "ignore::manyhands.errors.ConvergenceWarning")
@pytest.mark.parametrize("check", list(checks()))
def test_check_list(check):
    check()


def test_every_method_has_variants():
    log = simulate_log(40, 10, 4)
    assert {type(make(log)) for make in VARIANTS.values()} == set(mh.categorical.all_aggregators("numeric"))


def test_the_default_is_the_blend():
    ratings = mh.simulate(50, 8, seed=1, kind="numeric").log
    assert type(mh.aggregate(ratings)) is mh.numeric.Blend
    frame = {"task": ["a", "a", "b"], "worker": [1, 2, 1], "value": [1.0, 3.0, 4.0]}
    assert mh.aggregate(frame).values_.tolist() == [2.0, 4.0]


# ----------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (mh.numeric.TrimmedMean(0.6), ValueError, "trim.*0.5"),
        (mh.numeric.TrimmedMean("some"), TypeError, "trim"),
        (mh.numeric.WeightedMean({"u": 1.0}), ValueError, "'v'"),
        (mh.numeric.WeightedMean({"u": 1.0, "v": -1.0}), ValueError, "'v'.*0"),
        (mh.numeric.WeightedMean([1.0, 2.0]), TypeError, "mapping"),
        (mh.numeric.GaussianCrowd(method="magic"), ValueError, "method"),
        (mh.numeric.GaussianCrowd(tails=0.5), ValueError, "tails.*1"),
        (mh.numeric.GaussianCrowd(bias=2), TypeError, "bias"),
        (mh.numeric.GaussianCrowd(method="messages", tails=3.0), ValueError, "messages"),
        (mh.numeric.GaussianCrowd(max_iter=0), ValueError, "max_iter"),
        (mh.numeric.CovarianceCrowd(0), ValueError, "rank.*1"),
        (mh.numeric.Blend(folds=1), ValueError, "folds.*2"),
    ],
)
def test_odd_settings_are_refused(model, error, message):
    ratings = mh.Ratings.from_arrays(["a", "a", "b", "b"], ["u", "v", "u", "v"], [1.0, 3.0, 4.0, 6.0])
    with pytest.raises(error, match=message):
        model.fit(ratings)


def test_what_is_not_finite_is_refused_or_set_aside():
    with pytest.raises(ValueError, match="inf"):
        mh.Ratings.from_arrays(["a", "b"], ["u", "u"], [np.inf, 1.0])
    with pytest.warns(mh.errors.DataWarning):
        ratings = mh.Ratings.from_arrays(["a", "b", "b"], ["u", "u", "v"], [np.nan, 1.0, 2.0])
    assert mh.numeric.Mean().fit(ratings).values_.tolist() == [1.5]


@pytest.mark.parametrize(
    "model", [mh.numeric.Mean(), mh.numeric.GaussianCrowd(), mh.numeric.CovarianceCrowd(), mh.numeric.Blend()]
)
def test_one_rating_a_task_tells_nothing_of_noise_and_that_is_said(model):
    ratings = mh.Ratings.from_arrays([1, 2, 3, 4], ["u", "v", "u", "v"], [1.0, 3.0, 4.0, 6.0])
    with pytest.warns(mh.errors.IdentifiabilityWarning, match="rating"):
        model.fit(ratings)
    assert any("standard deviation of all ratings" in remark for remark in model.remarks_)
    assert (model.errors_ > 0).all()


# ------------------------------------------------------------------------------------------------------- methods


def test_a_crowd_of_equals_gives_nearly_the_mean():
    crowd = mh.simulate(300, 20, bias=0.0, scale=0.0, noise_spread=0.0, seed=3, kind="numeric")
    mean = mh.numeric.Mean().fit(crowd.log)
    flat = mh.numeric.GaussianCrowd(shrink=False).fit(crowd.log)
    assert np.corrcoef(mean.values_, flat.values_)[0, 1] > 0.99
    blend = mh.aggregate(crowd.log)
    assert mh.metrics.rmse(blend.values_, crowd.truth) < 1.02 * mh.metrics.rmse(mean.values_, crowd.truth)


def test_a_constant_worker_has_no_scale_and_no_say():
    crowd = mh.simulate(200, 10, answers_per_task=5, seed=4, kind="numeric")
    tasks, workers, values = crowd.log.codes()
    values[workers == 3] = 0.0
    model = mh.numeric.GaussianCrowd().fit(mh.Ratings.from_arrays(tasks, workers, values))
    assert abs(model.scale_[3]) < 0.05
    assert model.scale_[np.arange(10) != 3].min() > 0.3
    moved = values.copy()
    moved[workers == 3] = 50.0
    again = mh.numeric.GaussianCrowd().fit(mh.Ratings.from_arrays(tasks, workers, moved))
    assert abs(again.scale_[3]) < 0.2


def test_four_ratings_do_no_harm():
    crowd = mh.simulate(300, 15, seed=5, kind="numeric")
    tasks, workers, values = crowd.log.codes()
    # A stranger who is right to the last digit on four tasks, by the values of others.
    plain = mh.numeric.GaussianCrowd().fit(crowd.log)
    more = mh.Ratings.from_arrays(
        np.concatenate([tasks, [0, 1, 2, 3]]),
        np.concatenate([workers, [99] * 4]),
        np.concatenate([values, [9.0, -9.0, 9.0, -9.0]]),
    )
    with_stranger = mh.numeric.GaussianCrowd().fit(more)
    away = np.abs(with_stranger.values_ - plain.values_)
    assert away[4:].max() < 0.1
    assert mh.metrics.rmse(with_stranger.values_, crowd.truth) < 1.2 * mh.metrics.rmse(plain.values_, crowd.truth)


def test_tails_let_wild_ratings_count_less():
    crowd = mh.simulate(400, 15, answers_per_task=6, noise_spread=0.2, seed=6, kind="numeric")
    tasks, workers, values = crowd.log.codes()
    wild = np.random.default_rng(0).random(len(values)) < 0.05
    values[wild] += 15.0
    ratings = mh.Ratings.from_arrays(tasks, workers, values)
    normal, heavy = (mh.numeric.GaussianCrowd(scale=False, tails=tails).fit(ratings) for tails in (None, 3.0))
    assert mh.metrics.rmse(heavy.values_, crowd.truth) < 0.7 * mh.metrics.rmse(normal.values_, crowd.truth)


def test_points_share_how_noisy_a_worker_is():
    crowd = mh.simulate(
        150, 12, n_dims=3, bias=0.0, scale=0.0, noise_spread=1.0, answers_per_task=4, seed=7, kind="numeric"
    )
    model = mh.numeric.GaussianCrowd(bias=False, scale=False).fit(crowd.log)
    assert model.values_.shape == (150, 3)
    ratio = model.noise_ / model.noise_[:1]
    np.testing.assert_allclose(ratio, ratio[:, :1] * np.ones(3), rtol=1e-9)
    assert np.corrcoef(np.log(model.noise_[:, 0]), np.log(crowd.noise[:, 0]))[0, 1] > 0.95


def test_weights_of_the_blend_have_names():
    crowd = mh.simulate(300, 20, noise_spread=1.0, seed=8, kind="numeric")
    model = mh.numeric.Blend().fit(crowd.log)
    assert list(model.weights_) == ["mean", *MEMBERS]
    assert min(model.weights_.values()) >= 0
    assert model.weights_["mean"] < 0.3


@given(st.integers(0, 2**32), st.integers(2, 6))
@settings(deadline=None)
def test_least_squares_on_the_simplex(seed, n):
    rng = np.random.default_rng(seed)
    errors = rng.normal(size=(n, 30)) + rng.normal(size=30)
    products = errors @ errors.T / 30
    best = least_squares_on_simplex(products)
    assert best.min() >= 0
    assert abs(best.sum() - 1) < 1e-9
    for other in [*np.eye(n), *rng.dirichlet(np.ones(n), 200)]:
        assert best @ products @ best <= other @ products @ other + 1e-7 * np.trace(products)


def test_errors_are_those_of_means_where_no_model_can_tell() -> None:
    one = mh.Ratings.from_arrays([1] * 4, list("abcd"), [1.0, 2.0, 3.0, 30.0])
    model = mh.aggregate(one)
    deviation = np.std([1.0, 2.0, 3.0, 30.0], ddof=1)
    np.testing.assert_allclose([model.values_[0], model.errors_[0]], [9.0, deviation / 2])
    with pytest.warns(mh.errors.IdentifiabilityWarning, match="deviation"):
        single = mh.aggregate(mh.Ratings.from_arrays([1, 2, 3], list("aba"), [1.0, 2.0, 3.0]))
    np.testing.assert_allclose(single.errors_, np.std([1.0, 2.0, 3.0]))


def test_biases_and_scales_of_simulated_ratings_are_about_zero() -> None:
    crowd = mh.simulate(20, 6, mean=40.0, deviation=5.0, bias=0.5, scale=0.3, noise=0.0, seed=2, kind="numeric")
    tasks, workers = crowd.log.codes()[:2]
    expected = crowd.bias[workers] + crowd.scale[workers] * crowd.truth[tasks]
    np.testing.assert_allclose(crowd.log.values.reshape(-1), expected, rtol=1e-12)


def test_the_most_iterations_are_made_where_none_is_enough() -> None:
    ratings = mh.simulate(40, 8, seed=3, kind="numeric").log
    model = mh.numeric.GaussianCrowd(max_iter=3, tol=0.0).fit(ratings)
    assert (model.n_iter_, len(model.history_)) == (3, 3)


def test_members_of_the_blend_are_what_their_names_say() -> None:
    for name, structure in MEMBERS.items():
        assert {part for part in ("bias", "scale", "noise") if getattr(structure, part)} == set(name.split("+"))
