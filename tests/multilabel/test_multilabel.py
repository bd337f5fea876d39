"""Sets of labels: tables, pooled relevance against its twin, recovery, real data."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from draws import SEEDS
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhands as mh
from manyhands.multilabel.base import Candidates
from manyhands.multilabel.design import Design
from manyhands.multilabel.relevance import best_thresholds
from manyhands.testing import aggregator_checks
from manyhands.testing.compare import assert_close
from oracles import relevance

SHARED = Path(__file__).parents[3] / "shared" / "data"
LOG = {"task": [1, 1, 2, 3], "worker": ["a", "b", "a", "b"], "labels": ["x|y", "x", "", " z | x"]}
SETS = [["x", "y"], ["x"], [], ["x", "z"]]


# ------------------------------------------------------------------------------------------------------- tables


def test_all_forms_give_the_same_table(tmp_path: Path) -> None:
    pd, pl, pa = pytest.importorskip("pandas"), pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    answers = mh.MultiLabels.from_frame(LOG)
    assert answers.to_frame().column("labels").to_pylist() == SETS
    lists = LOG | {"labels": SETS}
    long = {"task": [1, 1, 1, 2, 3, 3, 3], "worker": ["a", "a", "b", "a", "b", "b", "b"]}
    long["label"] = ["x", "y", "x", None, "z", "x", "z"]
    path = tmp_path / "log.csv"
    pd.DataFrame(LOG).to_csv(path, index=False)
    same = [
        mh.MultiLabels.from_frame(lists),
        mh.MultiLabels.from_frame(LOG | {"labels": [set(one) for one in SETS]}),
        mh.MultiLabels.from_frame(pd.DataFrame(lists)),
        mh.MultiLabels.from_frame(pl.DataFrame(lists)),
        mh.MultiLabels.from_frame(pa.table(lists)),
        mh.MultiLabels.from_frame(long, label="label"),
        mh.MultiLabels.from_frame(pd.DataFrame(long), label="label"),
        mh.MultiLabels.from_arrays(LOG["task"], LOG["worker"], LOG["labels"]),
        mh.read(path, kind="multilabel"),
        pickle.loads(pickle.dumps(answers)),
    ]
    answers.save(tmp_path / "sets.mh")
    for other in (*same, mh.load(tmp_path / "sets.mh")):
        assert other == answers
    assert answers.kind == "multilabel"
    assert mh.aggregate(LOG).tasks_.tolist() == [1, 2, 3]


def test_parts_keep_the_inventory() -> None:
    answers = mh.MultiLabels.from_frame(LOG, inventory=["z", "y", "x", "w"])
    part = answers.select(workers=["a"])
    assert part.labels.tolist() == ["z", "y", "x", "w"]
    assert part.to_frame().column("labels").to_pylist() == [["y", "x"], []]
    assert part.unlabelled.tolist() == [3]
    assert answers != mh.MultiLabels.from_frame(LOG)
    assert len(answers.sample(per_task=1)) == 3


@pytest.mark.parametrize(
    ("change", "settings_", "error", "told"),
    [
        ({"labels": [3, "x", "", "y"]}, {}, TypeError, "3,.*row 0"),
        ({"labels": [["x"], [None], [], []]}, {}, TypeError, "row 1"),
        ({"labels": ["", "", None, []]}, {}, ValueError, "label"),
        ({}, {"inventory": ["x", "y"]}, ValueError, "label 'z'"),
        ({}, {"inventory": ["x", "y", "x"]}, ValueError, "inventory.*'x'"),
        ({}, {"sep": ""}, ValueError, "sep"),
        ({}, {"label": "worker", "labels": "labels"}, ValueError, "label=…"),
        (
            {"worker": ["a", "a", "a", "b"]},
            {"repeats": "error"},
            ValueError,
            "worker 'a'.*task 1",
        ),
        ({"task": [1, None, 2, 3]}, {}, ValueError, "column 'task'"),
        ({"labels": ["x"]}, {}, ValueError, "length"),
    ],
)
def test_bad_sets_are_named(change: dict, settings_: dict, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        mh.MultiLabels.from_frame(LOG | change, **settings_)


def test_bad_settings_are_named() -> None:
    answers = mh.MultiLabels.from_frame(LOG)
    for model, told in (
        (mh.multilabel.PooledRelevance(threshold=1.5), "threshold"),
        (mh.multilabel.PooledRelevance(max_iter=0), "max_iter.*1"),
        (mh.multilabel.PooledRelevance(patterns=0), "patterns"),
        (mh.multilabel.PooledRelevance(seed=-1), "seed"),
    ):
        with pytest.raises(ValueError, match=told):
            model.fit(answers)
    with pytest.raises(TypeError, match="patterns"):
        mh.multilabel.PooledRelevance(patterns=1.5).fit(answers)
    with pytest.raises(TypeError, match="MultiLabels"):
        mh.multilabel.PooledRelevance().fit([1, 2])
    model = mh.multilabel.PooledRelevance().fit(answers)
    with pytest.raises(ValueError, match="label 'new'"):
        model.predict({"task": [1], "worker": ["a"], "labels": ["new"]})


# -------------------------------------------------------------------------------------------------------- model


@given(seed=SEEDS, n_workers=st.integers(2, 6), n_labels=st.integers(1, 5))
@settings(deadline=None, max_examples=10)
def test_matches_its_twin(seed: int, n_workers: int, n_labels: int) -> None:
    answers = mh.simulate(
        15,
        n_workers,
        n_labels,
        answers_per_task=2,
        true_labels=0.8 * n_labels,
        specificity=0.8,
        seed=seed,
        kind="multilabel",
    ).log
    model = mh.multilabel.PooledRelevance(max_iter=4, tol=0.0, threshold=0.5)
    model.fit(answers)
    wanted, rates, prior = relevance.fit(answers, 4)
    found = model._fitted().fit.candidates
    assert list(zip(found.tasks.tolist(), found.labels.tolist(), strict=True)) == list(wanted)
    assert_close(found.probabilities, np.array(list(wanted.values())), 1e-8, "probabilities")
    assert_close(model._fitted().fit.rates, np.array(rates), 1e-8, "rates")
    assert_close(model.prior_, prior, 1e-8, "prior")
    again = model._expected(model._fitted(), answers)
    assert_close(again.probabilities, found.probabilities, 1e-9, "prediction")


@given(seed=SEEDS, n_patterns=st.integers(2, 4))
@settings(deadline=None, max_examples=10)
def test_patterns_match_their_twin(seed: int, n_patterns: int) -> None:
    answers = mh.simulate(20, 5, 6, answers_per_task=2, patterns=2, specificity=0.8, seed=seed, kind="multilabel").log
    start = np.random.default_rng(seed).uniform(0.05, 0.95, (n_patterns, 6))
    design = Design.of(answers)
    found = mh._core.relevance_fit(design, start, max_iter=4, tol=0.0)
    wanted, _, prior = relevance.fit(answers, 4, start)
    assert_close(found["posterior"], np.array(list(wanted.values())), 1e-8, "probabilities")
    assert_close(found["prior"], prior, 1e-8, "prior")
    assert abs(found["pattern_shares"].sum() - 1) < 1e-12


def test_patterns_that_were_drawn_are_found_and_help() -> None:
    drawn = mh.simulate(
        1500,
        30,
        12,
        answers_per_task=3,
        true_labels=2.5,
        recall=0.6,
        specificity=0.85,
        patterns=3,
        seed=4,
        kind="multilabel",
    )
    right, models = [], [mh.multilabel.PooledRelevance(patterns=n, threshold=0.5) for n in (1, 3)]
    for model in models:
        found = model.fit(drawn.log)._fitted().fit.candidates
        truth = np.array([label in drawn.truth[task] for task, label in zip(found.tasks, found.labels, strict=True)])
        right.append(np.mean((found.probabilities > 0.5) == truth))
    assert right[1] > right[0] + 0.02, right
    # In whatever order: each that was drawn is near one that was found.
    apart = np.abs(drawn.patterns[:, None] - models[1].patterns_).mean(axis=2)
    assert sorted(apart.argmin(axis=1).tolist()) == [0, 1, 2]
    # Of true labels 6 % are said by none of three workers, and are taken not to be true.
    assert apart.min(axis=1).max() < 0.08, apart
    # What was learnt serves other tasks as well, whatever the inventory of their table.
    part = drawn.log.select(tasks=range(40))
    again = models[1]._expected(models[1]._fitted(), part)
    first = models[1]._fitted().fit.candidates
    assert_close(again.probabilities, first.probabilities[: len(again.probabilities)], 1e-9, "prediction")


def test_recovers_skills_of_workers_and_labels() -> None:
    errors = []
    for n_tasks in (150, 2400):
        drawn = mh.simulate(n_tasks, 30, 6, answers_per_task=7, spread=0.6, seed=3, kind="multilabel")
        # Strengths settle slowly, and what workers are said to add to them.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mh.errors.ConvergenceWarning)
            model = mh.multilabel.PooledRelevance(tol=1e-5, max_iter=1000).fit(drawn.log)
        labels = model.labels_frame()
        # What all workers have in common may be the labels' as well.
        found, wanted = (of - of.mean() for of in (model._fitted().fit.of_workers[0], drawn.recall[0]))
        errors.append(np.sqrt(((found - wanted) ** 2).mean()))
        right = np.mean([one == true for one, true in zip(model.label_sets_.tolist(), drawn.truth, strict=True)])
        share = np.mean([[label in true for label in range(6)] for true in drawn.truth], axis=0)
        assert right > 0.85, right
    assert np.abs(labels.column("share").to_numpy() - share).max() < 0.03
    assert errors[1] < 0.6 * errors[0], errors
    assert errors[1] < 0.12, errors


def test_pooling_beats_the_vote_where_workers_differ() -> None:
    drawn = mh.simulate(600, 40, 8, answers_per_task=5, spread=1.2, seed=5, kind="multilabel")
    model = mh.multilabel.PooledRelevance().fit(drawn.log)
    found = model._fitted().fit.candidates
    truth = np.array([label in drawn.truth[task] for task, label in zip(found.tasks, found.labels, strict=True)])
    tasks, (answer, label) = drawn.log.codes()[0].astype(int), drawn.log.said()
    keys = found.tasks * 8 + found.labels
    shares = np.bincount(np.searchsorted(keys, tasks[answer] * 8 + label), minlength=len(keys)) / 5
    assert np.mean((found.probabilities > 0.5) == truth) > np.mean((shares > 0.5) == truth) + 0.01


def test_order_of_rows_and_names_of_workers_do_not_matter() -> None:
    drawn = mh.simulate(40, 6, 4, seed=2, kind="multilabel").log
    frame = drawn.to_frame().to_pydict()
    order = np.random.default_rng(0).permutation(len(drawn))
    moved = {name: [column[i] for i in order] for name, column in frame.items()}
    moved["worker"] = [5 - worker for worker in moved["worker"]]
    one, other = (mh.multilabel.PooledRelevance().fit(mh.MultiLabels.from_frame(log)) for log in (frame, moved))
    assert one.label_sets_.tolist() == other.label_sets_.tolist()
    assert_close(
        one._fitted().fit.candidates.probabilities, other._fitted().fit.candidates.probabilities, 1e-9, "probabilities"
    )


def test_thresholds_have_the_greatest_expected_f1() -> None:
    rng = np.random.default_rng(0)
    q = rng.random(30)
    found = Candidates(np.arange(30), np.zeros(30, np.int64), q)
    (best,) = best_thresholds(found, 1)
    f1 = [2 * q[q >= t].sum() / ((q >= t).sum() + q.sum()) for t in q]
    assert best == q[int(np.argmax(f1))]
    assert best_thresholds(found, 2)[1] == 1.0


def test_edge_tables() -> None:
    alone = mh.MultiLabels.from_arrays([1], ["a"], [["x"]])
    assert mh.aggregate(alone).label_sets_.tolist() in ([("x",)], [()])
    silent = mh.MultiLabels.from_arrays([1, 2], ["a", "a"], [[], []], inventory=["x"])
    model = mh.aggregate(silent)
    assert model.label_sets_.tolist() == [(), ()]
    assert model.to_frame().column("confidence").to_pylist() == [1.0, 1.0]
    assert model.predict({"task": [7], "worker": ["new"], "labels": ["x"]}).shape == (1,)


@pytest.mark.parametrize("quorum", [0.0, 0.4, 0.5, 1.0])
def test_votes_are_shares_of_answers(quorum: float) -> None:
    answers = mh.simulate(40, 6, 5, seed=2, kind="multilabel").log
    model = mh.multilabel.SetVote(quorum=quorum).fit(answers)
    rows = answers.to_frame().to_pylist()
    said: dict[Any, list[set[Any]]] = {}
    for row in rows:
        said.setdefault(row["task"], []).append(set(row["labels"]))
    share = {
        (task, label): np.mean([label in one for one in sets])
        for task, sets in said.items()
        for label in set().union(*sets)
    }
    found = {(row["task"], row["label"]): row["probability"] for row in model.probabilities().to_pylist()}
    assert found == pytest.approx(share)
    taken = {task: {label for of, label in share if of == task and share[of, label] >= quorum} for task in said}
    assert [set(one) for one in model.label_sets_] == [taken[task] for task in model.tasks_]
    assert model.predict(answers).tolist() == model.label_sets_.tolist()
    for row in model.workers_frame().to_pylist():
        mine = [(taken[one["task"]], set(one["labels"])) for one in rows if one["worker"] == row["worker"]]
        both, own, due = (
            sum(map(len, part)) for part in ([a & b for a, b in mine], [b for _, b in mine], [a for a, _ in mine])
        )
        assert row["precision"] == (pytest.approx(both / own) if own else None)
        assert row["recall"] == (pytest.approx(both / due) if due else None)


MODELS = (mh.multilabel.SetVote(), mh.multilabel.PooledRelevance(), mh.multilabel.PooledRelevance(patterns=2, seed=1))
CHECKS = [(f"{model!r}-{name}", check) for model in MODELS for name, check in aggregator_checks(model)]


@pytest.mark.parametrize("check", [pytest.param(check, id=name) for name, check in CHECKS])
def test_check(check: Callable[[], Any]) -> None:
    check()


# ----------------------------------------------------------------------------------------------------- real data


def test_relations_in_medical_sentences_beat_the_vote_share() -> None:
    pd = pytest.importorskip("pandas")
    metrics = pytest.importorskip("sklearn.metrics")
    if not SHARED.exists():
        pytest.skip(f"real logs are not at {SHARED}")
    answers = mh.read(SHARED / "medical_re" / "labels.csv.gz", kind="multilabel", labels="label")
    found = mh.aggregate(answers).probabilities().to_pandas()
    gold = pd.read_csv(SHARED / "medical_re" / "gold_binary.csv")
    for label, share in (("CAUSES", 0.6755), ("TREATS", 0.9055)):
        known = gold[gold["class"] == label]
        probability = known.task.map(found[found.label == label].set_index("task").probability).fillna(0.0)
        assert metrics.roc_auc_score(known.label, probability) > share + 0.01
