"""Answers that are more or less than a label: probabilities, confidences, abstentions."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from twins import PARITY

import manyhands as mh
from manyhands.cli import main
from manyhands.testing.compare import assert_close, assert_same_bits
from manyhands.testing.crowds import STANDARD
from oracles import em

CLASSES = ("c0", "c1", "c2")


def one_hot(columns: dict[str, list[str]]) -> dict[str, list]:
    """A log in wide form, with all of the probability on the labels."""
    wide = {name: [float(label == name) for label in columns["label"]] for name in CLASSES}
    return {"task": columns["task"], "worker": columns["worker"]} | wide


# ------------------------------------------------------------------------------------------------- soft labels


def test_certain_answers_are_plain_annotations() -> None:
    columns, votes = STANDARD.columns(), STANDARD.votes()
    sure = [1.0] * len(columns["task"])
    assert mh.Annotations.from_soft(one_hot(columns), CLASSES) == votes
    assert mh.Annotations.from_arrays(*columns.values(), confidence=sure) == votes
    assert mh.Annotations.from_frame(columns | {"sure": sure}, confidence="sure") == votes
    assert votes.weights is None


@st.composite
def soft_logs(draw: st.DrawFn) -> dict[str, list]:
    rows = draw(st.integers(1, 12))
    ids = st.lists(st.integers(0, 4), min_size=rows, max_size=rows)
    shares = np.array(draw(st.lists(st.tuples(*[st.integers(0, 3)] * 3).filter(any), min_size=rows, max_size=rows)))
    wide = dict(zip(CLASSES, (shares / shares.sum(axis=1, keepdims=True)).T.tolist(), strict=True))
    return {"task": draw(ids), "worker": draw(ids)} | wide


@given(log=soft_logs())
def test_what_all_classes_have_alike_counts_for_none(log: dict[str, list]) -> None:
    shares = np.array([log[name] for name in CLASSES]).T
    if (shares == shares[:, :1]).all():
        with pytest.raises(ValueError, match="probabilities"):
            mh.Annotations.from_soft(log, CLASSES)
        return
    votes = mh.Annotations.from_soft(log, CLASSES)
    counted = np.zeros((votes.n_tasks, 3))
    tasks, _, labels = votes.codes()
    np.add.at(counted, (tasks, labels), 1.0 if votes.weights is None else votes.weights)
    wanted = np.zeros_like(counted)
    np.add.at(wanted, np.searchsorted(votes.tasks, log["task"]), shares - shares.min(axis=1, keepdims=True))
    np.testing.assert_allclose(counted, wanted, atol=1e-12)


@settings(max_examples=20)
@given(log=soft_logs(), order=st.permutations(range(3)))
def test_the_order_of_columns_does_not_matter(log: dict[str, list], order: list[int]) -> None:
    assume(any(log[name] != log["c0"] for name in CLASSES))
    shuffled = [CLASSES[i] for i in order]
    a = mh.MajorityVote().fit(mh.Annotations.from_soft(log, CLASSES))
    b = mh.MajorityVote().fit(mh.Annotations.from_soft(log, shuffled))
    assert_close(b.posterior_[:, np.argsort(order)], a.posterior_, 1e-12, "posterior")


def test_fractions_add_up() -> None:
    # Twice (0.5, 0.5, 0) is one answer for each of two classes.
    twice = {"task": [1, 1, 2], "worker": ["a", "a", "b"], "x": [0.5, 0.5, 1], "y": [0.5, 0.5, 0], "z": [0, 0, 0]}
    hard = mh.Annotations.from_arrays([1, 1, 2], ["a", "a", "b"], ["x", "y", "x"], classes=["x", "y", "z"])
    options = {"max_iter": 5, "tol": 0.0}
    soft = mh.DawidSkene(**options).fit(mh.Annotations.from_soft(twice, ["x", "y", "z"]))
    plain = mh.DawidSkene(**options).fit(hard)
    assert_close(soft.posterior_, plain.posterior_, PARITY, "posterior")
    assert_close(soft.confusion_, plain.confusion_, PARITY, "confusion")


def test_a_confidence_counts_beyond_chance() -> None:
    log = {"task": [1, 2, 3], "worker": ["a", "b", "a"], "label": ["x", "y", "y"], "sure": [0.8, 1.0, 0.2]}
    votes = mh.Annotations.from_frame(log, confidence="sure", classes=["x", "y", "z"])
    assert votes.codes()[2].tolist() == [0, 1, 1]
    np.testing.assert_allclose(votes.weights, [0.7, 1.0, 0.0])
    # The same as probabilities that are even but for the label.
    wide = {"task": [1, 2], "worker": ["a", "b"], "x": [0.8, 0.0], "y": [0.1, 1.0], "z": [0.1, 0.0]}
    soft = mh.Annotations.from_soft(wide, ["x", "y", "z"])
    np.testing.assert_allclose(soft.weights, votes.weights[:2])
    alone = mh.Annotations.from_arrays([1, 2], ["a", "b"], ["x", "x"], confidence=[0.8, 1.0])
    assert alone.weights.tolist() == [0.8, 1.0]


def test_repeats_are_settled_first() -> None:
    log = {"task": [1, 1, 2], "worker": ["a", "a", "a"], "label": ["x", "y", "y"], "sure": [0.9, 0.6, 1.0]}
    for repeats, weights in (("first", [0.8, 1.0]), ("last", [0.2, 1.0])):
        votes = mh.Annotations.from_frame(log, confidence="sure", repeats=repeats)
        np.testing.assert_allclose(votes.weights, weights)
    with pytest.raises(ValueError, match="repeats"):
        mh.Annotations.from_frame(log, confidence="sure", repeats="error")


@pytest.mark.filterwarnings("ignore::manyhands.errors.DataWarning")
def test_confidences_of_missing_labels_go_with_them() -> None:
    votes = mh.Annotations.from_arrays([1, 2, 3], ["a", "a", "a"], ["x", None, "y"], confidence=[0.7, 0.1, 0.6])
    np.testing.assert_allclose(votes.weights, [0.4, 0.2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"confidence": [0.5, 0.0]}, "0.0.*row 1"),
        ({"confidence": [1.5, 0.5]}, "1.5.*row 0"),
        ({"confidence": [0.5]}, "length"),
        ({"confidence": [0.5, 0.5], "weights": [1, 1]}, "not both"),
    ],
)
def test_bad_confidences_are_named(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mh.Annotations.from_arrays([1, 2], ["a", "b"], ["x", "y"], **change)


@pytest.mark.parametrize(
    ("columns", "kind", "message"),
    [
        ({"x": [0.5, 0.5], "y": [0.5, 0.2]}, ValueError, "row 1.*0.7"),
        ({"x": [0.5, -0.5], "y": [0.5, 1.5]}, ValueError, "'x'.*-0.5"),
        ({"x": ["a", "b"], "y": [1, 1]}, TypeError, "must hold numbers"),
        ({"x": [1.0, 1.0]}, ValueError, "'y'"),
        ({"x": [1.0], "y": [0.0]}, ValueError, "length"),
    ],
)
def test_bad_probabilities_are_named(columns: dict, kind: type, message: str) -> None:
    with pytest.raises(kind, match=message):
        mh.Annotations.from_soft({"task": [1, 2], "worker": ["a", "b"]} | columns, ["x", "y"])


def test_rounded_probabilities_are_taken() -> None:
    log = {"task": [1], "worker": ["a"], "x": [0.66], "y": [0.33], "z": [0.0]}
    np.testing.assert_allclose(mh.Annotations.from_soft(log, "xyz").weights, [2 / 3, 1 / 3])


def test_confidences_that_mean_something_help() -> None:
    rng = np.random.default_rng(1)
    n_tasks, n_workers, per_task = 1500, 30, 4
    truth = rng.integers(0, 4, n_tasks)
    tasks = np.repeat(np.arange(n_tasks), per_task)
    workers = rng.integers(0, n_workers, len(tasks))
    # How often answers of this confidence are right: the judge is calibrated.
    confidence = rng.uniform(0.25, 1.0, len(tasks))
    wrong = (truth[tasks] + rng.integers(1, 4, len(tasks))) % 4
    labels = np.where(rng.random(len(tasks)) < confidence, truth[tasks], wrong)
    hard = mh.Annotations.from_arrays(tasks, workers, labels)
    soft = mh.Annotations.from_arrays(tasks, workers, labels, confidence=confidence)
    for make in (mh.MajorityVote, mh.DawidSkene, lambda: mh.DawidSkene(model="one-coin"), mh.Consensus):
        scores = [np.mean(make().fit(votes).labels_ == truth) for votes in (hard, soft)]
        assert scores[1] > scores[0] + 0.03, scores


# ------------------------------------------------------------------------------------------------- abstentions


def abstaining(n_tasks: int = 1500, seed: int = 0) -> tuple[mh.Annotations, np.ndarray, np.ndarray]:
    """Workers who say "?" mostly where the class is "b": a table, the truth, and the shares of "?" by class."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n_tasks)
    tasks = np.repeat(np.arange(n_tasks), 4)
    workers = rng.integers(0, 12, len(tasks))
    silent = np.array([0.05, 0.6, 0.05])
    right = rng.random(len(tasks)) < 0.75
    said = np.where(right, truth[tasks], (truth[tasks] + rng.integers(1, 3, len(tasks))) % 3)
    labels = np.array(["a", "b", "c", "?"])[np.where(rng.random(len(tasks)) < silent[truth[tasks]], 3, said)]
    return mh.Annotations.from_arrays(tasks, workers, labels, abstain="?"), np.array(["a", "b", "c"])[truth], silent


def test_an_abstention_is_a_label_and_no_class() -> None:
    votes, _, _ = abstaining(200)
    assert votes.classes.tolist() == ["a", "b", "c"]
    assert votes.labels.tolist() == ["a", "b", "c", "?"]
    assert (votes.n_classes, votes.n_labels) == (3, 4)
    assert "3 classes and 1 abstention" in repr(votes)
    frame = votes.to_frame()
    assert "?" in frame.column("label").to_pylist()
    assert mh.Annotations.from_frame(frame, abstain="?") == votes
    assert mh.Annotations.from_frame(frame, abstain=["?"], classes=["a", "b", "c"]) == votes
    assert mh.Annotations.from_frame(frame) != votes
    assert "?" in votes.describe().class_shares
    assert votes.describe().n_classes == 3


def test_an_abstention_need_not_occur() -> None:
    votes = mh.Annotations.from_arrays([1, 2], [1, 1], [0, 1], abstain="don't know")
    assert votes.labels.tolist() == [0, 1, "don't know"]
    assert votes.classes.dtype == np.int64
    assert mh.DawidSkene(max_iter=2, tol=0.0).fit(votes).confusion_.shape == (1, 2, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"abstain": ["x", "y"]}, "abstention"),
        ({"abstain": "x", "classes": ["x", "y"]}, "abstain"),
        ({"abstain": []}, "abstain"),
        ({"abstain": ["x", "x"]}, "more than once"),
    ],
)
def test_bad_abstentions_are_named(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mh.Annotations.from_arrays([1, 2], [1, 1], ["x", "y"], **options)


def test_tables_keep_their_abstentions(tmp_path: Path) -> None:
    votes, _, _ = abstaining(200)
    votes.save(tmp_path / "votes.mh")
    for other in (mh.load(tmp_path / "votes.mh"), pickle.loads(pickle.dumps(votes)), votes.select(tasks=votes.tasks)):
        assert other == votes
        assert other.n_classes == 3
    assert votes.sample(per_task=2).labels.tolist() == votes.labels.tolist()
    fewer = votes.without_abstentions()
    assert fewer.n_annotations == int((votes.codes()[2] < 3).sum())
    assert (fewer.n_tasks, fewer.n_workers, fewer.n_labels) == (votes.n_tasks, votes.n_workers, 3)
    assert fewer.without_abstentions() is fewer


def test_nothing_but_abstentions_is_refused() -> None:
    votes = mh.Annotations.from_arrays([1, 2], [1, 1], ["?", "?"], abstain="?", classes=["x", "y"])
    with pytest.raises(ValueError, match="abstention"):
        mh.MajorityVote().fit(votes)


@pytest.mark.parametrize("init", ["majority", "shares"])
def test_matches_a_plain_rectangular_em(init: str) -> None:
    votes, _, _ = abstaining(150)
    options = {"init": init, "max_iter": 8, "tol": 0.0, "pseudo_count": 0.4, "class_pseudo_count": 0.3}
    model = mh.DawidSkene(**options).fit(votes)
    wanted = em.fit_abstaining(em.Rows.of(votes), 4, start=init, pseudo=0.1, class_pseudo=0.1, max_iter=8)
    for name in ("posterior_", "confusion_", "prior_", "history_"):
        assert_close(getattr(model, name), getattr(wanted, name[:-1]), PARITY, name)


@pytest.mark.parametrize("accelerate", [False, True])
def test_abstentions_are_learnt_and_never_true(accelerate: bool) -> None:
    votes, truth, silent = abstaining()
    model = mh.DawidSkene(accelerate=accelerate).fit(votes)
    assert model.confusion_.shape == (12, 3, 4)
    np.testing.assert_allclose(model.confusion_.sum(axis=2), 1)
    assert model.posterior_.shape == (votes.n_tasks, 3)
    np.testing.assert_allclose(model.posterior_.sum(axis=1), 1)
    assert np.all(np.diff(model.history_) >= -1e-9 * np.abs(model.history_[:-1]))
    # Where saying nothing says something, it is heard.
    assert np.abs(model.confusion_[:, :, 3].mean(axis=0) - silent).max() < 0.06
    deaf = mh.DawidSkene().fit(votes.without_abstentions())
    scores = [mh.metrics.accuracy(each.labels_, truth) for each in (model, deaf)]
    assert scores[0] > scores[1] + 0.03, scores
    frame = model.workers_frame()
    assert (frame.column("information").to_numpy() > 0).all()


def test_models_with_abstentions_predict_and_persist(tmp_path: Path) -> None:
    votes, _, _ = abstaining(300)
    model = mh.DawidSkene().fit(votes)
    np.testing.assert_allclose(model.predict_proba(votes), model.posterior_, atol=1e-12)
    # A table that does not declare the abstention says the same.
    undeclared = mh.Annotations.from_frame(votes.to_frame())
    np.testing.assert_array_equal(model.predict_proba(undeclared), model.predict_proba(votes))
    model.save(tmp_path / "model.mh")
    loaded = mh.load(tmp_path / "model.mh")
    assert_same_bits(loaded, model)
    np.testing.assert_array_equal(loaded.predict_proba(votes), model.predict_proba(votes))
    for init in (model, mh.MajorityVote(), (model.prior_, model.confusion_), model.posterior_):
        again = mh.DawidSkene(init=init, max_iter=2, tol=0.0).fit(votes)
        assert again.confusion_.shape == (12, 3, 4)
    plain = mh.DawidSkene(init=model, max_iter=2, tol=0.0).fit(votes.without_abstentions())
    assert plain.confusion_.shape == (12, 3, 3)


@pytest.mark.parametrize(
    "model",
    [
        mh.MajorityVote(),
        mh.DawidSkene(model="one-coin"),
        mh.BayesianDawidSkene(),
        mh.categorical.MACE(),
        mh.categorical.GLAD(max_iter=3, tol=0.0),
        mh.moments.MultiSPA(),
        mh.categorical.SparseOneCoin(),
        mh.categorical.OnlineDawidSkene(),
        mh.Consensus(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_others_take_abstentions_as_missing(model) -> None:
    votes, _, _ = abstaining(300)
    heard = model.fit(votes)
    posterior = heard.posterior_
    predicted = heard.predict_proba(votes)
    assert heard.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(posterior, model.fit(votes.without_abstentions()).posterior_)
    assert predicted.shape == posterior.shape


def test_agreement_is_that_of_answers() -> None:
    votes, _, _ = abstaining(300)
    alpha, other = (mh.agreement.krippendorff_alpha(v).value for v in (votes, votes.without_abstentions()))
    assert alpha == other


def test_soft_answers_may_abstain() -> None:
    log = {"task": [1, 1], "worker": ["a", "b"], "x": [0.5, 0.2], "?": [0.5, 0.0], "y": [0.0, 0.8]}
    votes = mh.Annotations.from_soft(log, ["x", "?", "y"], abstain="?")
    assert votes.labels.tolist() == ["x", "y", "?"]
    assert votes.codes()[2].tolist() == [0, 2, 1]
    np.testing.assert_allclose(votes.weights, [0.5, 0.5, 0.6])
    with pytest.raises(ValueError, match="'z'"):
        mh.Annotations.from_soft(log, ["x", "?", "y"], abstain="z")
    sure = mh.Annotations.from_arrays(
        [1, 1], ["a", "b"], ["x", "?"], confidence=[0.6, 0.5], classes=["x", "y"], abstain="?"
    )
    np.testing.assert_allclose(sure.weights, [0.2, 0.5])


# ------------------------------------------------------------------------------------------------------- files


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert main([*arguments, "--json"]) in (0, None)
    return json.loads(capsys.readouterr().out)


def test_files_may_hold_all_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.csv"
    log.write_text("task,worker,label,sure\n1,a,0,0.9\n1,b,9,1\n2,a,1,0.6\n2,b,1,0.7\n")
    votes = mh.read(log, confidence="sure", abstain=9)
    assert (votes.classes.tolist(), votes.labels.tolist()) == ([0, 1], [0, 1, 9])
    np.testing.assert_allclose(votes.weights, [0.8, 1.0, 0.2, 0.4])
    out = _run(
        capsys, "aggregate", str(log), "--columns", "confidence=sure", "--abstain", "9", "--method", "dawid-skene"
    )
    assert out["n_classes"] == 2
    assert [row["label"] for row in out["labels"]] == [0, 1]
    soft = tmp_path / "soft.csv"
    soft.write_text("item,judge,cat,dog\n1,a,0.9,0.1\n1,b,1,0\n2,a,0.2,0.8\n")
    votes = mh.read(soft, probabilities=["cat", "dog"])
    assert votes.classes.tolist() == ["cat", "dog"]
    np.testing.assert_allclose(votes.weights, [0.8, 1.0, 0.6])
    out = _run(capsys, "aggregate", str(soft), "--columns", "probabilities=cat,dog", "--method", "majority")
    assert [row["label"] for row in out["labels"]] == ["cat", "dog"]
    with pytest.raises(ValueError, match="label=…"):
        mh.read(soft, probabilities=["cat", "dog"], label="cat")


@pytest.mark.parametrize("method", ["online", "sparse-one-coin"])
def test_methods_have_names_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    log = tmp_path / "log.csv"
    mh.simulate(60, 6, 3, labels_per_task=4, seed=0).log.to_frame().to_pandas().to_csv(log, index=False)
    out = _run(capsys, "aggregate", str(log), "--method", method, "--workers", str(tmp_path / "workers.csv"))
    assert len(out["labels"]) == 60
    assert (tmp_path / "workers.csv").exists()


@pytest.mark.parametrize("odd", ["--5", "007", "٣", "-", "-0"])
def test_abstentions_that_only_look_like_integers_stay_text(odd: str) -> None:
    votes = mh.Annotations.from_arrays([1, 1, 2], ["a", "b", "a"], [7, 3, 0], abstain=[odd, "3"])
    assert votes.classes.tolist() == [0, 7]
    assert votes.labels.tolist() == [0, 7, odd, 3]
