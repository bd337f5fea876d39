"""What every audit returns, and a table without the workers that it found."""

import pickle

import numpy as np
import pytest

import manyhands as mh
from manyhands.audit import Finding

VOTES = mh.Annotations.from_arrays(
    ["a", "a", "a", "b", "b", "c"], ["ann", "bob", "eve", "ann", "bob", "eve"], ["x", "x", "y", "y", "y", "x"]
)


def finding(found=(False, False, True), **columns):
    return Finding("spammer", VOTES._workers, np.array(found), columns, ("Nothing is certain.",))


def test_a_finding_names_workers_and_evidence():
    found = finding(score=np.array([0.5, 0.25, 0.0]))
    assert found.workers.tolist() == ["eve"]
    assert len(found) == 1
    frame = found.frame()
    assert frame.column_names == ["worker", "found", "score"]
    assert frame.to_pylist()[2] == {"worker": "eve", "found": True, "score": 0.0}
    assert repr(found) == "<Finding of spammers: 1 of 3 workers: 'eve'>\nNothing is certain."
    assert not finding((False,) * 3)
    assert "none of 3 workers" in repr(finding((False,) * 3))


def test_a_finding_survives_pickling():
    found = pickle.loads(pickle.dumps(finding(score=np.arange(3.0))))
    assert found.workers.tolist() == ["eve"]
    assert found.frame().equals(finding(score=np.arange(3.0)).frame())
    assert found.remarks == ("Nothing is certain.",)


def test_a_finding_has_an_entry_for_each_worker():
    with pytest.raises(ValueError, match="score"):
        finding(score=np.zeros(2))


@pytest.mark.parametrize("workers", [["eve"], np.array(["eve"]), [False, False, True], finding()])
def test_without(workers):
    rest = VOTES.without(workers)
    assert rest == VOTES.select(workers=["ann", "bob"])
    assert rest.workers.tolist() == ["ann", "bob"]
    assert rest.classes.tolist() == ["x", "y"]
    assert rest.unlabelled.tolist() == ["c"]


def test_without_nobody_is_the_same_table():
    assert VOTES.without([]) == VOTES
    assert VOTES.without(finding((False,) * 3)) == VOTES


def test_who_was_found_may_be_gone_already():
    rest = VOTES.without(finding())
    assert rest.without(finding()) == rest
    assert rest.without(finding((False, True, True))).workers.tolist() == ["ann"]


def test_without_refuses_what_it_does_not_know():
    with pytest.raises(KeyError, match="'zoe'"):
        VOTES.without(["eve", "zoe"])
    with pytest.raises(ValueError, match="annotation"):
        VOTES.without(["ann", "bob", "eve"])
    with pytest.raises(TypeError, match="workers"):
        VOTES.without(None)
    with pytest.raises(TypeError, match="workers"):
        VOTES.without("eve")
