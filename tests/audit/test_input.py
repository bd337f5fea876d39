"""The audits as typed, and on logs that tell too little: refused, or told in the result."""

import numpy as np
import pytest

import manyhands as mh

PARTS = ("spammers", "colluders", "copies", "groups")
POOR = {
    "no overlap": (range(60), [f"w{i % 4}" for i in range(60)], np.arange(60) % 3),
    "two workers": (np.arange(80) // 2, [f"w{i % 2}" for i in range(80)], np.arange(80) * 7 % 5 % 2),
    "one class": (np.arange(200) // 5, [f"w{i % 5}" for i in range(200)], ["x"] * 200),
}


@pytest.fixture(scope="module")
def votes():
    """Two who copy and one who guesses, among twelve with names."""
    settings = {"crowd": "one-coin", "accuracy": (0.6, 0.9), "labels_per_task": 6, "seed": 1}
    crowd = mh.simulate(400, 12, 3, groups=[0, 0] + [-1] * 10, copying=0.9, **settings)
    tasks, workers, labels = crowd.log.codes()
    guesses = np.random.default_rng(0).integers(0, 3, len(labels))
    names = np.array(["ann", *(f"w{i}" for i in range(1, 12))])
    return mh.Annotations.from_arrays(tasks, names[workers], np.where(workers == 7, guesses, labels))


def test_audits_as_typed(votes):
    found = mh.audit.spammers(votes)
    assert found.workers.tolist() == ["w7"]
    assert found.frame().num_rows == 12
    assert isinstance(found.remarks, tuple)
    clean = votes.without(found)
    assert clean.n_workers == 11
    assert votes.without(["w3", "w7"]).n_workers == 10
    assert mh.audit.colluders(votes, trusted="ann").workers.tolist() == []
    pairs = mh.audit.copies(votes)
    assert len(pairs) == 1
    (row,) = pairs.frame().to_pylist()
    assert {row["worker"], row["other"]} == {"ann", "w1"}
    assert row["q_value"] <= 0.05
    assert isinstance(mh.audit.groups(votes).groups, list)
    assert mh.categorical.GroupDawidSkene().fit(votes).labels_.shape == (400,)
    depends = mh.audit.dependence(votes)
    assert np.isfinite([depends.correlation, depends.error, depends.probability]).all()


@pytest.mark.filterwarnings(
    "ignore::manyhands.errors.OverlapWarning", "ignore::manyhands.errors.IdentifiabilityWarning"
)
@pytest.mark.parametrize("name", POOR)
def test_logs_that_tell_nothing_are_told_of(name):
    votes = mh.Annotations.from_arrays(*POOR[name])
    for part in PARTS:
        found = getattr(mh.audit, part)(votes)
        assert len(found) == 0, part
        assert found.remarks, part
    moved = mh.audit.drift(votes, np.arange(votes.n_annotations))
    assert len(moved) == 0
    assert moved.remarks
    assert np.isnan(moved.frame()["p_value"].to_numpy()).all()
    assert mh.audit.dependence(votes).cannot_tell
    review = mh.audit.review(votes)
    assert len(review.workers) == 0
    assert set(review.groups.remarks) <= set(review.remarks)
    assert "-0.00" not in repr(review.worth)
    for model in (mh.categorical.GroupDawidSkene(), mh.categorical.GroupVote()):
        assert model.fit(votes).remarks_
        assert model.groups_ == []
        assert np.isfinite(model.posterior_).all()


@pytest.mark.filterwarnings("ignore::manyhands.errors.OverlapWarning")
def test_worth_without_overlap_rests_on_beliefs_and_says_so():
    assert "prior beliefs" in " ".join(mh.audit.worth(mh.Annotations.from_arrays(*POOR["no overlap"])).remarks)


def test_which_of_two_workers_changed_is_not_told():
    said = np.random.default_rng(0).integers(0, 2, (200, 1)).repeat(2, axis=1)
    said[100:, 1] = 0
    votes = mh.Annotations.from_dense(said)
    found = mh.audit.drift(votes, np.arange(400))
    assert len(found) == 0
    assert "which one changed cannot be identified" in " ".join(found.remarks)


@pytest.mark.parametrize("trusted", ["zoe", ["ann", "zoe"], []])
def test_a_trusted_worker_who_is_not_there_is_refused(votes, trusted):
    with pytest.raises(KeyError, match="trusted"):
        mh.audit.colluders(votes, trusted=trusted)


@pytest.mark.parametrize("model", [mh.categorical.GroupDawidSkene, mh.categorical.GroupVote])
def test_workers_in_none_of_the_groups_are_counted(votes, model):
    found = model([["ann", "w1"], ["w5"]]).fit(votes)
    assert found.groups_ == [["ann", "w1"]]
    assert any("9 of 12 workers are in none of the groups" in remark for remark in found.remarks_)
    assert model([votes.workers.tolist()]).fit(votes).remarks_ == ()
