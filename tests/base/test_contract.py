"""The contract of results, over every estimator of every kind."""

import numpy as np
import pytest

import manyhands as mh
from manyhands._base.estimator import Estimator, concrete
from manyhands.testing import aggregator_checks

#: Estimators that need a parameter for each log, and those that the lists of their own tests cover.
MAKERS = {"WeightedMean": lambda log: mh.numeric.WeightedMean(dict.fromkeys(log.votes().workers.tolist(), 1.0))}
COVERED = {"LinkedDawidSkene": "needs edges between the tasks of a log; tests/sequences/test_linked.py runs the list"}
ESTIMATORS = [cls for cls in concrete(Estimator) if cls.__name__ not in COVERED]


@pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)
def test_contract(cls):
    make = MAKERS.get(cls.__name__)
    checks = aggregator_checks(cls()) if make is None else aggregator_checks(make, kind="numeric")
    dict(checks)["contract"]()


def test_all_kinds_have_estimators():
    kinds = {cls._kind for cls in ESTIMATORS}
    assert set(Estimator._bases) - kinds == {"linked classes"}


def test_reliability_of_values_and_scores():
    log = {"task": [1, 1, 2, 2, 3, 3], "worker": list("ababab"), "value": [0.0, 0.0, 1.0, 3.0, 8.0, 8.0]}
    model = mh.numeric.Mean().fit(log)
    expected = np.var(model.values_) / (np.var(model.values_) + model.errors_**2)
    np.testing.assert_allclose(model.confidence_, expected)
    huge = mh.numeric.Mean().fit(log | {"value": [1e300 * value for value in log["value"]]})
    np.testing.assert_allclose(huge.confidence_, expected)
    games = mh.simulate(kind="pairwise", seed=1).log
    assert np.isnan(mh.pairwise.BradleyTerry(intervals="none").fit(games).confidence_).all()


def test_confidence_of_objects_is_the_share_of_weight():
    votes = mh.Objects.from_arrays([1, 1, 1], list("abc"), ["x", "x", "y"], weights=[1.0, 1.0, 2.0])
    model = mh.objects.DistanceAggregator("hamming", weights="power", power=0.0).fit(votes)
    assert model.confidence_.tolist() == [0.5]
    ratings = mh.Ratings.from_arrays([1, 1], [1, 2], [3.0, 4.0])
    assert np.isnan(mh.objects.DistanceAggregator("squared").fit(ratings).confidence_).all()


def test_explanations_of_items_and_of_tasks():
    games = mh.Comparisons.from_arrays(["a", "a", "b"], ["b", "c", "c"], ["a", "tie", "c"], list("uvu"))
    why = mh.pairwise.BradleyTerry().fit(games).explain("a")
    assert why.to_frame().column("worker").to_pylist() == ["u", "v"]
    assert why.to_frame().column("agreement").to_pylist() == [1.0, 0.5]
    assert str(why).startswith("a: ")
    ratings = {"task": ["q", "q"], "worker": ["u", "v"], "value": [1.0, 3.0]}
    residuals = mh.numeric.Mean().fit(ratings).explain("q").to_frame().column("residual").to_pylist()
    assert residuals == [-1.0, 1.0]


def test_pairs_are_predicted_by_name():
    model = mh.pairwise.BradleyTerry().fit({"left": ["a", "a"], "right": ["b", "b"], "winner": ["a", "a"]})
    assert model.predict(["b", "a"], ["a", "b"]).tolist() == ["a", "a"]
