"""What a crowd's labels are worth."""

import numpy as np
import pytest

import manyhands as mh


def test_better_workers_are_worth_more_and_shares_add_up():
    crowd = mh.simulate(2000, 12, 3, labels_per_task=6, seed=3, crowd={"class-conditional": 0.5, "spammers": 0.5})
    found = mh.audit.worth(crowd.log)
    frame = found.frame()
    assert frame.column("worker").to_pylist() == crowd.log.workers.tolist()
    assert frame.column("share").to_numpy().sum() == pytest.approx(1)
    truth = metrics_of(crowd)
    assert found.measures.information == pytest.approx(truth, abs=0.1)
    assert found.bits == pytest.approx(found.bits_per_task * 2000)
    assert found.capacity >= found.measures.information.sum()
    assert not found.remarks
    assert "bits per task" in repr(found)


def metrics_of(crowd):
    return mh.metrics.information(crowd.confusion, np.bincount(crowd.truth, minlength=3) / len(crowd.truth))


def test_a_class_named_more_often_elsewhere_is_remarked():
    # Everybody names classes 1 and 2 mostly by each other's names; known labels let a fit see it.
    rng = np.random.default_rng(0)
    confusion = np.array([[0.8, 0.1, 0.1], [0.1, 0.3, 0.6], [0.1, 0.6, 0.3]])
    truth = rng.integers(0, 3, 300)
    said = (rng.random((300, 10, 1)) > confusion.cumsum(axis=1)[truth][:, None]).sum(axis=2)
    votes = mh.Annotations.from_arrays(np.repeat(np.arange(300), 10), np.tile(np.arange(10), 300), said.ravel())
    model = mh.DawidSkene(gold=dict(enumerate(truth.tolist()))).fit(votes)
    found = mh.audit.worth(votes, model=model)
    assert ((found.dominance > 0) == [True, False, False]).all()
    assert len(found.remarks) == 1
    assert "1 and 2 are named" in found.remarks[0] or "1, 2 are named" in found.remarks[0]


def test_it_judges_by_the_model_it_is_given():
    crowd = mh.simulate(300, 10, 2, labels_per_task=5, seed=1)
    model = mh.MajorityVote().fit(crowd.log)
    found = mh.audit.worth(crowd.log, model=model)
    assert found.frame().column("skill").equals(model.workers_frame().column("skill"))
