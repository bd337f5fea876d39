"""The check-list of methods for same or different, and that it notices faults."""

import numpy as np
import pytest

import manyhands as mh
from manyhands.clustering import ChosenClustering, CorrelationClustering, CrowdClustering
from manyhands.testing import aggregator_checks

MODELS = [CrowdClustering(), CrowdClustering(2, strength=1.0, seed=3), CorrelationClustering(), ChosenClustering()]
CASES = [(model, name, check) for model in MODELS for name, check in aggregator_checks(model)]


def test_every_method_is_checked():
    assert {type(model) for model in MODELS} == set(mh.categorical.all_aggregators("clustering"))


@pytest.mark.filterwarnings("ignore::manyhands.errors.OverlapWarning", "ignore::manyhands.errors.ConvergenceWarning")
@pytest.mark.parametrize(("model", "name", "check"), CASES, ids=[f"{model!r}-{name}" for model, name, _ in CASES])
def test_clustering(model, name, check):
    check()


class Boastful(CorrelationClustering):
    """Takes workers for better than can be: a fault."""

    def _fit(self, votes, progress):
        fit = super()._fit(votes, progress)
        return type(fit)(**{**vars(fit), "recall": fit.recall + 1.0})


def test_a_fault_is_noticed():
    checks = dict(aggregator_checks(Boastful()))
    with pytest.raises(AssertionError, match="recall_"):
        checks["probabilities"]()


@pytest.mark.filterwarnings("ignore::manyhands.errors.OverlapWarning")
def test_unconnected_items_are_warned_of():
    table = mh.Similarities.from_arrays(list("aabc"), list("bbad"), list("uvuu"), [1, 1, 1, 1])
    with pytest.warns(mh.errors.OverlapWarning, match="2 groups"):
        model = CrowdClustering().fit(table)
    assert np.isfinite(model.predict_proba(["a"], ["c"])).all()
