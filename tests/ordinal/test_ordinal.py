"""Classes that have an order: tables, decisions, measures, and workers with thresholds."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from draws import SEEDS, stochastic
from hypothesis import given
from hypothesis import strategies as st
from twins import PARITY

import manyhands as mh
from manyhands.categorical._passes import posterior_under
from manyhands.cli import main
from manyhands.ordinal.cumulative import falling_rows
from manyhands.testing.compare import assert_close
from manyhands.testing.crowds import STANDARD
from oracles import bayes, em, ordinal

SHARED = Path(__file__).parents[3] / "shared" / "data"
SHARES = np.array([0.3, 0.2, 0.2, 0.2, 0.1])
GRADES = ["poor", "fair", "good", "great"]


def drawn(n_workers: int, n_tasks: int, per_task: int = 5, k: int = 5, seed: int = 0):
    """Votes of workers with thresholds and slopes drawn around a crowd's, these numbers, and the truth."""
    rng = np.random.default_rng(seed)
    theta = np.append(1.6 * (np.arange(k - 1) - (k - 2) / 2), 1.6) + rng.normal(0, 0.35, (n_workers, k))
    theta[:, :-1].sort(axis=1)
    truth = rng.choice(k, n_tasks, p=SHARES)
    tasks = np.repeat(np.arange(n_tasks), per_task)
    workers = np.concatenate([rng.choice(n_workers, per_task, replace=False) for _ in range(n_tasks)])
    cumulated = np.cumsum(ordinal.cells(theta)[0][workers, truth[tasks]], axis=1)
    labels = (rng.random(len(tasks))[:, None] > cumulated[:, :-1]).sum(axis=1)
    sizes = {"n_tasks": n_tasks, "n_workers": n_workers, "n_classes": k}
    return mh.Annotations.from_codes(tasks, workers, labels, ordered=True, **sizes), theta, truth


# ------------------------------------------------------------------------------------------------------- tables


def test_an_order_stays_with_its_table(tmp_path: Path) -> None:
    log = {"task": [1, 1, 2, 2], "worker": ["a", "b", "a", "b"], "label": ["good", "poor", "great", "great"]}
    votes = mh.Annotations.from_frame(log, classes=GRADES, ordered=True)
    assert votes.ordered
    assert votes.classes.tolist() == GRADES
    assert "4 ordered classes" in repr(votes)
    votes.save(tmp_path / "votes.mh")
    parts = [mh.load(tmp_path / "votes.mh"), pickle.loads(pickle.dumps(votes)), votes.select(workers=["a", "b"])]
    for same in parts:
        assert same == votes
        assert same.ordered
    assert votes.sample(per_task=1).ordered
    assert votes != mh.Annotations.from_frame(log, classes=GRADES)
    with_doubt = mh.Annotations.from_frame(
        log | {"label": ["good", "?", "great", "great"]}, abstain="?", classes=GRADES, ordered=True
    )
    assert with_doubt.without_abstentions().ordered
    soft = mh.Annotations.from_soft(
        {"task": [1], "worker": [1], "low": [0.4], "high": [0.6]}, ["low", "high"], ordered=True
    )
    assert soft.ordered
    assert mh.Annotations.from_dense([[3, 1], [2, 2]], ordered=True).classes.tolist() == [1, 2, 3]


def test_an_order_that_nobody_can_know_is_refused() -> None:
    with pytest.raises(ValueError, match=r"ordered=True.*'good', 'poor'"):
        mh.Annotations.from_dense([["good", "poor"]], ordered=True)
    with pytest.raises(TypeError, match=r"ordered.*'yes'"):
        mh.Annotations.from_dense([[1, 2]], ordered="yes")
    votes = mh.Annotations.from_dense([["a", "b"], ["c", "b"], ["a", "a"]])
    with pytest.warns(mh.errors.IdentifiabilityWarning, match="a < b < c"):
        model = mh.ordinal.OrdinalCrowd().fit(votes)
    assert "not declared ordered" in model.remarks_[-1]


def test_the_default_follows_the_order() -> None:
    votes = mh.Annotations.from_dense([[1, 1, 2], [3, 2, 3], [3, 3, 3]], ordered=True)
    assert isinstance(mh.aggregate(votes), mh.ordinal.OrdinalConsensus)
    assert mh.aggregate(votes, gold={0: 3, 1: 2}).labels_[:2].tolist() == [3, 2]
    assert isinstance(mh.aggregate(mh.Annotations.from_dense([[1, 1, 2]])), mh.Consensus)


def test_the_command_line_knows_orders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, truth = tmp_path / "log.csv", tmp_path / "truth.csv"
    rows = [(t, w, GRADES[min(t + (w == 2), 3)]) for t in range(4) for w in range(3)]
    log.write_text("task,worker,label\n" + "".join(f"{t},{w},{label}\n" for t, w, label in rows))
    truth.write_text("task,label\n" + "".join(f"{t},{label}\n" for t, label in enumerate(GRADES)))
    order = ["--ordered", "--classes", ",".join(GRADES)]
    main(["aggregate", str(log), *order, "--evaluate", str(truth), "--json", "-o", str(tmp_path / "out.csv")])
    told = json.loads(capsys.readouterr().out)
    assert told["method"] == "ordinal-consensus"
    assert told["evaluation"]["absolute_error"] == 0.0
    assert told["evaluation"]["quadratic_kappa"] == 1.0
    assert mh.read(log, classes=GRADES, ordered=True).ordered
    assert main(["aggregate", str(log), "--ordered"]) != 0
    assert "name all classes" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------------- decisions


@given(seed=SEEDS, k=st.integers(1, 7))
def test_decisions_have_the_least_expected_loss(seed: int, k: int) -> None:
    posterior = stochastic(np.random.default_rng(seed), 30, k, sharp=0.7)
    distance = np.abs(np.arange(k)[:, None] - np.arange(k))
    for decision, loss in (("mode", distance > 0), ("median", distance), ("mean", distance**2)):
        expected = posterior @ loss
        chosen = expected[np.arange(30), mh.ordinal.decide(posterior, decision)]
        assert_close(chosen, expected.min(axis=1), 1e-9, decision)


def test_ties_go_to_the_lower_class_and_are_told() -> None:
    votes = mh.Annotations.from_dense([[1, 2], [2, 1]], ordered=True)
    for decision in mh.ordinal.DECISIONS:
        model = mh.ordinal.OrdinalCrowd(decision=decision).fit(votes)
        assert model.tied_.all()
        assert model.labels_.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("posterior", "told"),
    [([0.5, 0.5], "shape"), ([[0.5, 0.6]], "row 0"), ([[0.5, 0.5], [np.nan, 1.0]], "row 1"), ([[1.5, -0.5]], "row 0")],
)
def test_what_is_no_posterior_is_refused(posterior, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        mh.ordinal.decide(posterior)
    with pytest.raises(ValueError, match=r"decision.*'mode'.*'mean'"):
        mh.ordinal.decide([[1.0]], "mediocre")


@pytest.mark.parametrize("cls", [mh.ordinal.OrdinalCrowd, mh.ordinal.OrdinalConsensus, mh.ordinal.CumulativeDawidSkene])
def test_bad_settings_are_named(cls: type) -> None:
    votes = STANDARD.votes()
    with pytest.raises(ValueError, match="decision"):
        cls(decision="best").fit(votes)
    with pytest.raises(ValueError, match=r"max_iter.*1"):
        cls(max_iter=0).fit(votes)


# ----------------------------------------------------------------------------------------------------- measures


def test_measures_against_their_definitions() -> None:
    rng = np.random.default_rng(0)
    said, true = rng.integers(0, 4, (2, 50))
    loss = (np.arange(4)[:, None] - np.arange(4)) ** 2
    table = np.zeros((4, 4))
    np.add.at(table, (said, true), 1)
    chance = np.outer(table.sum(axis=1), table.sum(axis=0)) / 50
    kappa = 1 - (loss * table).sum() / (loss * chance).sum()
    names = np.array(GRADES, object)
    for labels, truth, classes in ((said, true, None), (names[said], names[true], GRADES)):
        assert mh.metrics.quadratic_kappa(labels, truth, classes=classes) == pytest.approx(kappa, abs=1e-12)
        error = mh.metrics.absolute_error(labels, truth, classes=classes)
        assert error == pytest.approx(np.abs(said - true).mean(), abs=1e-12)
    assert np.isnan(mh.metrics.quadratic_kappa([1, 1], [1, 1]))


def test_measures_refuse_what_has_no_order() -> None:
    with pytest.raises(TypeError, match="classes="):
        mh.metrics.absolute_error(["a"], ["b"])
    with pytest.raises(ValueError, match=r"labels.*'bad'"):
        mh.metrics.absolute_error(["bad"], ["poor"], classes=GRADES)


# --------------------------------------------------------------------------------------------------- cumulative


@given(seed=SEEDS, k=st.integers(1, 8))
def test_falling_rows_are_isotonic_regressions(seed: int, k: int) -> None:
    rows = np.random.default_rng(seed).random((20, k))
    assert_close(falling_rows(rows), np.array([ordinal.falling(row) for row in rows]), 1e-12, "rows")


# --------------------------------------------------------------------------------------------- ordered workers


@pytest.mark.parametrize("strength", [None, 5.0, float("inf")])
def test_what_is_learnt_matches_the_twin(strength: float | None) -> None:
    votes = drawn(12, 80)[0]
    model = mh.ordinal.OrdinalCrowd(strength=strength, max_iter=6, protected=3, tol=0.0).fit(votes)
    prior, nobody = ordinal.Ordered(votes.n_workers, 5, strength), np.full(votes.n_tasks, -1)
    stop = {"protected": 3, "max_iter": 6, "tol": 0.0}
    bayes.fit_hierarchy(em.Rows.of(votes), prior=prior, class_pseudo=np.full(5, 0.2), gold=nobody, **stop)
    assert_close(np.column_stack([model.thresholds_, model.slopes_]), prior.theta, PARITY, "thresholds")
    assert_close(model.crowd_[0], prior.mean, PARITY, "mean")
    assert_close(model.crowd_[1], prior.covariance, PARITY, "covariance")
    assert model.strength_ == pytest.approx(prior.strength, rel=PARITY)


def test_recovers_thresholds_and_slopes() -> None:
    errors = []
    for n_tasks in (400, 6400):
        votes, theta, truth = drawn(40, n_tasks)
        model = mh.ordinal.OrdinalCrowd(strength=float("inf"), max_iter=60).fit(votes)
        found = np.column_stack([model.thresholds_, model.slopes_])
        errors.append(np.sqrt(((found - theta) ** 2).mean()))
        assert (np.diff(model.thresholds_, axis=1) > 0).all()
    # Sixteen times the tasks would quarter the error, but for what the prior does for few.
    assert errors[1] < 0.4 * errors[0], errors
    assert errors[1] < 0.16, errors
    known = posterior_under(votes.table, SHARES, np.ascontiguousarray(ordinal.cells(theta)[0]))
    best = np.abs(mh.ordinal.decide(known) - truth).mean()
    assert np.abs(model.labels_ - truth).mean() < best + 0.01


def test_a_worker_with_one_label_resembles_the_crowd() -> None:
    votes = drawn(20, 300)[0]
    tasks, workers, labels = (part.tolist() for part in votes.codes())
    more = mh.Annotations.from_arrays([*tasks, 0], [*workers, 99], [*labels, 4], ordered=True)
    model = mh.ordinal.OrdinalCrowd().fit(more)
    mean, covariance = model.crowd_
    away = np.column_stack([model.thresholds_, model.slopes_])[-1] - mean
    assert (np.abs(away) < np.sqrt(np.diag(covariance))).all()


@pytest.mark.parametrize("cls", [mh.ordinal.OrdinalCrowd, mh.ordinal.OrdinalConsensus, mh.ordinal.CumulativeDawidSkene])
def test_reversing_the_order_reverses_the_answer(cls: type) -> None:
    votes = drawn(15, 120)[0]
    tasks, workers, labels = votes.codes()
    sizes = {"n_tasks": votes.n_tasks, "n_workers": votes.n_workers, "n_classes": 5}
    turned = mh.Annotations.from_codes(tasks, workers, 4 - labels, ordered=True, **sizes)
    one, other = cls().fit(votes), cls().fit(turned)
    assert_close(other.posterior_[:, ::-1], one.posterior_, 1e-7, "posterior")
    assert_close(other.confusion_[:, ::-1, ::-1], one.confusion_, 1e-7, "confusion")


def test_one_who_does_not_look_has_no_slope() -> None:
    votes = drawn(12, 600)[0]
    tasks, workers, labels = (part.copy() for part in votes.codes())
    labels[workers == 0] = np.random.default_rng(1).integers(0, 5, (workers == 0).sum())
    sizes = {"n_tasks": 600, "n_workers": 12, "n_classes": 5}
    model = mh.ordinal.OrdinalCrowd().fit(mh.Annotations.from_codes(tasks, workers, labels, ordered=True, **sizes))
    assert abs(model.slopes_[0]) < 0.25
    assert model.slopes_[1:].min() > 0.8


# ----------------------------------------------------------------------------------------------------- real data


def test_the_default_is_best_on_average_on_real_logs() -> None:
    pd = pytest.importorskip("pandas")
    if not SHARED.exists():
        pytest.skip(f"real logs are not at {SHARED}")
    rivals = {
        "default": mh.ordinal.OrdinalConsensus(),
        "vote": mh.MajorityVote(),
        "dawid-skene": mh.DawidSkene(max_iter=2000),
        "minimax": mh.categorical.MinimaxEntropy(ordinal=True),
    }
    errors, kappas = ({name: [] for name in rivals} for _ in range(2))
    for name in ("web", "metaphor_novelty", "s_rel"):
        log = pd.read_csv(next((SHARED / name).glob("labels.csv*")))
        votes = mh.Annotations.from_frame(log, ordered=True)
        gold = pd.read_csv(SHARED / name / "gold.csv", dtype={"task": log.task.dtype})
        index, truth = mh.metrics.match_gold(
            votes.tasks, dict(zip(gold.task, gold.label, strict=True)), unknown="ignore"
        )
        for rival, model in rivals.items():
            labels = model.fit(votes).labels_[index]
            errors[rival].append(mh.metrics.absolute_error(labels, truth))
            kappas[rival].append(mh.metrics.quadratic_kappa(labels, truth))
    error, kappa = ({name: float(np.mean(of)) for name, of in table.items()} for table in (errors, kappas))
    assert min(error, key=error.__getitem__) == "default", error
    assert max(kappa, key=kappa.__getitem__) == "default", kappa
    assert error["default"] < 0.37, error
    assert kappa["default"] > 0.71, kappa


# ------------------------------------------------------------------------------------------------ panels and gold


def misled_panel(seed: int) -> tuple[mh.Annotations, np.ndarray]:
    """Six judges grade all tasks; on a third of them they see the same wrong grade. Two judges grade one too low."""
    rng = np.random.default_rng(seed)
    n, k = 500, 5
    truth = rng.integers(0, k, n)
    apparent = np.where(rng.random(n) < 1 / 3, np.clip(truth + rng.choice([-1, 1], n), 0, k - 1), truth)
    noise = rng.choice([-1, 0, 1], (n, 6), p=[0.1, 0.8, 0.1])
    grades = np.clip(apparent[:, None] + noise - (np.arange(6) >= 4), 0, k - 1)
    return mh.Annotations.from_dense(grades.tolist(), classes=list(range(k)), ordered=True), truth


def test_panels_are_discounted_after_the_decision() -> None:
    votes, truth = misled_panel(0)
    alone, panel = (mh.aggregate(votes, panel=panel) for panel in (False, True))
    np.testing.assert_array_equal(alone.labels_, panel.labels_)
    assert panel.discount_ == 1.0
    assert alone.discount_ <= 0.25
    right = np.mean(panel.labels_ == truth)
    assert abs(panel.confidence_.mean() - right) < 0.1
    assert alone.confidence_.mean() > right + 0.15
    # The median after the discount is another: it drifts to the middle.
    assert (mh.ordinal.decide(panel.posterior_) != panel.labels_).any()
    np.testing.assert_array_equal(mh.ordinal.decide(panel.undiscounted_), panel.labels_)
    np.testing.assert_array_equal(panel.predict(votes), panel.labels_)


def test_gold_corrects_grades() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 600)
    # All judges are lenient in the same way: nothing but gold can show it.
    lenient = np.minimum(truth[:, None] + (rng.random((600, 5)) < 0.7), 3)
    votes = mh.Annotations.from_dense(lenient.tolist(), classes=[0, 1, 2, 3], ordered=True)
    gold = {task: int(truth[task]) for task in range(100)}
    plain = mh.aggregate(votes)
    with pytest.warns(mh.errors.GoldWarning, match="100 gold tasks"):
        model = mh.aggregate(votes, gold=gold)
    before, after = (np.mean(one.labels_[100:] == truth[100:]) for one in (plain, model))
    assert after > before + 0.2
    assert model.n_gold_ == 100
    np.testing.assert_array_equal(model.labels_[:100], truth[:100])
    skills = model.workers_frame().to_pydict()
    actual = (np.minimum(lenient, 3) == truth[:, None]).mean(axis=0)
    assert (np.abs(np.array(skills["skill"]) - actual) <= 2.5 * np.array(skills["skill_error"])).all()


def test_bad_panels_are_named() -> None:
    votes = mh.Annotations.from_dense([[1, 1, 2], [3, 2, 3]], ordered=True)
    with pytest.raises(TypeError, match="panel"):
        mh.aggregate(votes, panel="yes")
    with pytest.raises(ValueError, match="'lost'"):
        mh.aggregate(votes, gold={"lost": 1})


def test_small_logs_of_grades_are_near_the_median_of_the_votes() -> None:
    gaps = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        truth = rng.integers(0, 5, 12)
        grades = np.clip(truth[:, None] + np.rint(rng.normal(0, 0.8, (12, 5))).astype(int), 0, 4)
        votes = mh.Annotations.from_dense(grades.tolist(), classes=list(range(5)), ordered=True)
        median = np.median(grades, axis=1)
        gaps.append(np.abs(mh.aggregate(votes).labels_ - truth).mean() - np.abs(median - truth).mean())
    # Without the vote in the average it is 0.06 further off.
    assert np.mean(gaps) < 0.02
