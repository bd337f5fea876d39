"""The whole audit: the same as its parts one by one, on one fit."""

import numpy as np
import pytest

import manyhands as mh
from manyhands.categorical.hierarchical import HierarchicalDawidSkene


def log(weighted=False):
    """Two who copy, two who say one thing whatever the task, one who does so from the middle on; in order."""
    league = [0, 0] + [-1] * 14
    settings = {"crowd": "one-coin", "accuracy": (0.6, 0.9), "labels_per_task": 8}
    crowd = mh.simulate(300, 16, 3, groups=league, copying=0.9, seed=1, **settings)
    tasks, workers, labels = crowd.log.codes()
    labels[(workers >= 14) | ((workers == 10) & (tasks >= 150))] = 2
    weights = np.where(tasks % 7 == 0, 0.5, 1.0) if weighted else None
    sizes = {"n_tasks": 300, "n_workers": 16, "n_classes": 3}
    return mh.Annotations.from_codes(tasks, workers, labels, weights=weights, **sizes), np.arange(len(tasks))


@pytest.fixture
def fits(monkeypatch):
    """How many annotations each fit of the shared model saw."""
    seen, original = [], HierarchicalDawidSkene._fit

    def counted(self, votes, progress):
        seen.append(votes.n_annotations)
        return original(self, votes, progress)

    monkeypatch.setattr(HierarchicalDawidSkene, "_fit", counted)
    return seen


@pytest.mark.parametrize("weighted", [False, True])
def test_a_review_is_its_parts(weighted):
    votes, order = log(weighted)
    found = mh.audit.review(votes, order=order)
    parts = {name: getattr(mh.audit, name)(votes) for name in ("worth", "spammers", "colluders", "copies", "groups")}
    parts["drift"] = mh.audit.drift(votes, order)
    for name, part in parts.items():
        ours, alone = getattr(found, name).frame().to_pydict(), part.frame().to_pydict()
        np.testing.assert_equal(ours, alone, err_msg=name)
        assert getattr(found, name).remarks == part.remarks, name
    assert found.dependence == mh.audit.dependence(votes)
    assert found.spammers.workers.tolist() == [14, 15]
    assert found.copies.workers.tolist() == [0, 1]
    grouped = np.isin(found.worth.names.values, found.groups.workers)
    assert not grouped.all()
    assert set(np.array(found.frame()["group"])[~grouped].tolist()) == {-1}


def test_a_review_fits_once_and_once_without_who_was_found(fits):
    votes, order = log()
    found = mh.audit.review(votes, order=order)
    assert len(found.workers)
    assert fits == [votes.n_annotations, votes.without(found.workers).n_annotations]


def test_weights_cost_one_fit_more(fits):
    votes, order = log(weighted=True)
    found = mh.audit.review(votes, order=order)
    rest = votes.without(found.workers).n_annotations
    assert fits == [votes.n_annotations, votes.n_annotations, rest]


@pytest.mark.filterwarnings("ignore::manyhands.errors.OverlapWarning")
@pytest.mark.parametrize(
    "log",
    [
        {"task": [1, 1, 1], "worker": [1, 2, 3], "label": list("abc")},
        {"task": [1], "worker": [1], "label": ["a"]},
        {"task": [1, 2], "worker": [1, 2], "label": ["a", "b"]},
        {"task": [1, 1, 2, 2], "worker": [1, 2, 1, 2], "label": list("abab")},
    ],
)
def test_logs_without_a_pair_of_workers_are_audited(log, tmp_path):
    votes = mh.Annotations.from_frame(log)
    assert not len(mh.audit.review(votes).workers)
    for method in ("covariance", "agreement", "reputation"):
        assert not len(mh.audit.colluders(votes, method=method))
    mh.MajorityVote().fit(votes).report(tmp_path / "report.html")


def test_many_classes_are_merged_in_the_search_for_colluders_and_that_is_reported(tmp_path, capsys):
    from manyhands._base.write import write_table
    from manyhands.cli import main

    votes = mh.simulate(300, 20, 7, labels_per_task=6, seed=1).log
    merged = "merged 7 classes into 5"
    assert any(merged in remark for remark in mh.audit.review(votes).remarks)
    write_table(votes.to_frame(), tmp_path / "log.csv")
    assert main(["audit", str(tmp_path / "log.csv")]) == 0
    assert merged in " ".join(capsys.readouterr().out.split())
    assert not any("merged" in remark for remark in mh.audit.review(log()[0]).remarks)
