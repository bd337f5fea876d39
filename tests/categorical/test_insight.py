"""What people ask of a fit: tasks to look at, why an answer is what it is, how a worker errs."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import manyhands as mh
from manyhands.cli import main

CROWD = mh.simulate(120, 12, 3, labels_per_task=4, seed=3)


@pytest.mark.parametrize(
    "model", [mh.DawidSkene(), mh.BayesianDawidSkene(), mh.Consensus(), mh.MajorityVote(), mh.categorical.GLAD()]
)
def test_evidence_adds_up_to_the_posterior(model) -> None:
    model.fit(CROWD.log)
    for place, task in enumerate(CROWD.log.tasks[:40]):
        why = model.explain(task)
        top = np.sort(model.posterior_[place])[::-1]
        assert why.answer == model.labels_[place]
        np.testing.assert_allclose(why.confidence, top[0])
        wanted = np.log(max(top[0], 1e-30)) - np.log(max(top[1], 1e-30))
        np.testing.assert_allclose(why.prior + sum(v.evidence for v in why.votes) + why.rest, wanted, atol=1e-9)
        assert len(why.votes) == CROWD.log.labels_per_task[place]


def test_a_model_of_independent_votes_has_no_discount() -> None:
    model = mh.DawidSkene(tol=0.0, max_iter=200).fit(CROWD.log)
    # At the end of EM, posteriors are those of the parameters.
    shares = [model.explain(task) for task in CROWD.log.tasks[:20]]
    assert all(abs(why.share - 1) < 1e-3 and abs(why.rest) < 1e-3 for why in shares)
    discounted = mh.Consensus(correlation=0.5).fit(CROWD.log)
    assert all(discounted.explain(task).share < 1 for task in CROWD.log.tasks[:20])


def test_votes_are_told_by_name() -> None:
    votes = mh.Annotations.from_arrays(["q"] * 3 + ["r"] * 2, ["a", "b", "c", "a", "b"], ["x", "x", "y", "y", "y"])
    why = mh.DawidSkene().fit(votes).explain("q")
    assert [(vote.worker, vote.label) for vote in why.votes] == [("a", "x"), ("b", "x"), ("c", "y")]
    assert "task q: x" in str(why)
    assert why.to_frame().num_rows == 3
    assert json.loads(json.dumps(why.to_dict()))["runner_up"] == "y"
    with pytest.raises(KeyError, match="'z'"):
        mh.DawidSkene().fit(votes).explain("z")


def test_loaded_models_are_given_the_votes(tmp_path: Path) -> None:
    model = mh.Consensus().fit(CROWD.log)
    model.save(tmp_path / "model.mh")
    task = CROWD.log.tasks[5]
    for other in (mh.load(tmp_path / "model.mh"), pickle.loads(pickle.dumps(model))):
        with pytest.raises(ValueError, match="votes="):
            other.explain(task)
        assert other.explain(task, CROWD.log) == model.explain(task)


@pytest.mark.filterwarnings("ignore::manyhands.errors.IdentifiabilityWarning")
@pytest.mark.parametrize("kind", mh.categorical.all_aggregators(), ids=lambda kind: kind.__name__)
def test_every_aggregator_tells_of_its_tasks(kind) -> None:
    votes = mh.simulate(60, 8, 2, labels_per_task=4, seed=2).log
    model = kind().fit(votes)
    frame = model.tasks_frame()
    posterior = np.sort(model.posterior_, axis=1)[:, ::-1]
    np.testing.assert_allclose(frame.column("confidence").to_numpy(), posterior[:, 0], atol=1e-12)
    np.testing.assert_allclose(frame.column("margin").to_numpy(), posterior[:, 0] - posterior[:, 1], atol=1e-12)
    assert frame.column("n_answers").to_pylist() == votes.labels_per_task.tolist()
    why = model.explain(votes.tasks[0])
    assert np.isfinite(why.log_odds)


def test_the_default_tells_where_members_disagree() -> None:
    model = mh.Consensus().fit(CROWD.log)
    assert model.tasks_frame().column("disagreement").to_pylist() == model.disagreement_.tolist()


def test_confusion_by_name() -> None:
    model = mh.DawidSkene().fit(CROWD.log)
    worker = CROWD.log.workers[4]
    frame = model.confusion_frame(worker)
    np.testing.assert_array_equal(frame.column("probability").to_numpy(), model.confusion_[4].ravel())
    assert frame.column("class").to_pylist() == np.repeat(model.classes_, 3).tolist()
    assert frame.column("label").to_pylist() == np.tile(model.classes_, 3).tolist()
    with pytest.raises(KeyError, match="'nobody'"):
        model.confusion_frame("nobody")


def test_the_command_line_explains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.csv"
    log.write_text("item,worker,label\n17,a,x\n17,b,x\n17,c,y\n18,a,y\n18,b,y\n")
    assert main(["explain", str(log), "--id", "17", "--task", "item"]) == 0
    assert "task 17: x" in capsys.readouterr().out
    assert main(["explain", str(log), "--id", "17", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["explanation"]["answer"] == "x"
    assert main(["explain", str(log), "--id", "19"]) == 2
    assert "no task is called '19'" in capsys.readouterr().err


@pytest.mark.parametrize("decision", ["mode", "median", "mean"])
def test_answers_are_those_that_were_decided(decision: str) -> None:
    votes = mh.simulate(80, 9, 4, labels_per_task=3, seed=5).log
    ordered = mh.Annotations.from_arrays(*votes.to_frame().to_pydict().values(), ordered=True)
    for model in (mh.ordinal.OrdinalConsensus(decision=decision), mh.MajorityVote(ties="random", seed=1)):
        model.fit(ordered)
        frame = model.tasks_frame()
        for name in ("label", "confidence", "tied"):
            assert frame.column(name).to_pylist() == model.to_frame().column(name).to_pylist()
        told = [model.explain(task) for task in ordered.tasks]
        assert [why.answer for why in told] == model.labels_.tolist()
        assert [why.runner_up for why in told] == frame.column("runner_up").to_pylist()
        margins = [why.confidence - why.runner_up_confidence for why in told]
        np.testing.assert_allclose(margins, frame.column("margin").to_numpy(), atol=1e-12)


@pytest.mark.parametrize("make", [mh.Consensus, mh.MajorityVote, mh.DawidSkene])
@pytest.mark.filterwarnings("ignore::manyhands.errors.OverlapWarning", "ignore::manyhands.errors.ConvergenceWarning")
def test_a_task_on_which_all_abstained_is_explained(make):
    log = {"task": [1, 1, 2, 2, 3], "worker": ["a", "b", "a", "b", "a"], "label": ["x", "y", "?", "?", "x"]}
    votes = mh.Annotations.from_frame(log, abstain="?")
    model = make().fit(votes)
    for why in (model.explain(2), model.explain(2, votes)):
        assert why.task == 2
        assert all(vote.label == "?" for vote in why.votes)
        assert why.log_odds == pytest.approx(why.prior + sum(vote.evidence for vote in why.votes) + why.rest)
        assert "task 2" in str(why)
