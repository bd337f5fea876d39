"""Promises: kept in as many draws of known answers as stated, however good the confidence is, and planned."""

import warnings
from functools import cache

import numpy as np
import pytest

import manyhands as mh
from manyhands._base.binomial import binomial_upper
from manyhands.collect import guarantee
from manyhands.collect.guarantee import chains, keep_answers, n_excluded, thresholds
from manyhands.errors import DataWarning


@pytest.fixture(scope="module")
def crowd():
    return mh.simulate(1500, 30, 3, labels_per_task=4, seed=3)


@pytest.fixture(scope="module")
def model(crowd):
    return mh.aggregate(crowd.log)


def some(crowd, n=400, seed=0):
    tasks = np.random.default_rng(seed).choice(1500, n, replace=False).tolist()
    return {task: int(crowd.truth[task]) for task in tasks}


def test_tasks_are_kept_or_left_by_the_threshold(crowd, model):
    gold = some(crowd)
    promise = mh.promise(model, gold, error=0.1)
    top, bottom = promise.kept.to_pydict(), promise.rest.to_pydict()
    assert sorted(top["task"] + bottom["task"]) == list(range(1500))
    assert min(top["confidence"]) >= promise.threshold > max(bottom["confidence"])
    tested = [task for task in top["task"] if task in gold]
    labels = dict(zip(model.tasks_.tolist(), model.labels_.tolist(), strict=True))
    wrong = sum(labels[task] != gold[task] for task in tested)
    assert (promise.n_tested, promise.n_wrong) == (len(tested), wrong)
    assert promise.error_bound == pytest.approx(binomial_upper(wrong, len(tested), 0.9))
    assert promise.error_bound <= 0.1 >= promise.unseen_bound
    assert [gold[task] for task in tested] == [
        label for task, label in zip(top["task"], top["label"], strict=True) if task in gold
    ]
    assert promise.n_kept == len(promise.kept) > 0


@pytest.mark.parametrize("shape", ["steep", "flat", "reversed", "tied", "bad top", "one class"])
def test_the_promise_is_broken_as_seldom_as_stated(shape, monkeypatch):
    monkeypatch.setattr(guarantee, "chance", cache(guarantee.chance))
    rng = np.random.default_rng(5)
    n, n_known, error = 1200, 400, 0.1
    sure = np.sort(rng.random(n))
    codes = rng.integers(0, 2, n)
    risk = {
        "steep": 0.4 * (1 - sure),
        "flat": np.full(n, 0.1),
        "reversed": 0.2 * sure,
        "tied": 0.35 * (1 - sure),
        "bad top": np.where(sure > 0.9, 0.25, 0.05),
        "one class": np.where(codes == 0, 0.02, 0.4),
    }[shape]
    sure = np.round(sure, 1) if shape == "tied" else sure
    parts = chains(sure, n_known, error, 0.9, codes)
    assert sum(part.levels.sum() for part in parts) == pytest.approx(0.1)
    n_broken, n_some = 0, 0
    for _ in range(200):
        wrong = rng.random(n) < risk
        index = rng.choice(n, n_known, replace=False)
        rest = keep_answers(parts, sure, index, wrong[index], error, 0.9).keep
        rest[index] = False
        n_some += rest.any()
        n_broken += rest.any() and wrong[rest].mean() > error
    # Ten percent are allowed; 14 % would be two standard errors more.
    assert n_broken <= 0.14 * 200
    assert n_some > 60 or shape in ("flat", "reversed")


def test_confident_answers_that_are_wrong_do_not_cost_all_the_others(monkeypatch):
    rng = np.random.default_rng(0)
    sure = np.sort(rng.random(4000))
    wrong = rng.random(4000) < np.where(sure > 0.95, 0.4, 0.02)
    index = rng.choice(4000, 1500, replace=False)
    outcome = keep_answers(chains(sure, 1500, 0.1, 0.9, None), sure, index, wrong[index], 0.1, 0.9)
    assert outcome.keep.mean() > 0.9
    assert outcome.thresholds == {}
    # The same known answers keep nothing if the test ends at the first failure.
    monkeypatch.setattr(guarantee, "_STARTS", (1.0,))
    outcome = keep_answers(chains(sure, 1500, 0.1, 0.9, None), sure, index, wrong[index], 0.1, 0.9)
    assert not outcome.keep.any()
    assert outcome.bound > 0.1


def test_a_class_that_is_right_is_kept_although_another_is_not():
    tasks, workers = np.repeat(np.arange(1000), 5), np.tile(np.arange(5), 1000)
    rng = np.random.default_rng(1)
    crowd = rng.integers(0, 2, 1000)
    truth = np.where(crowd == 1, 1, rng.integers(0, 2, 1000))
    labels = np.where(rng.random(5000) < 0.1, 1 - crowd[tasks], crowd[tasks])
    model = mh.aggregate(mh.Annotations.from_arrays(tasks, workers, np.array(["no", "yes"])[labels]))
    promise = mh.promise(model, {task: ["no", "yes"][truth[task]] for task in range(0, 1000, 2)}, error=0.1)
    assert list(promise.thresholds) == ["yes"]
    delivered = promise.kept.filter(promise.kept["known"].to_numpy(zero_copy_only=False) == 0)
    assert set(delivered["label"].to_pylist()) == {"yes"}
    assert promise.n_kept > 400
    assert promise.threshold == min(delivered["confidence"].to_pylist()) == promise.thresholds["yes"]
    assert promise.error_bound <= 0.1 >= promise.unseen_bound
    assert "kept at thresholds of 1 class" in repr(promise)


def test_few_known_answers_are_not_divided():
    sure = np.linspace(0, 1, 300)
    (chain,) = chains(sure, 150, 0.05, 0.9, np.arange(300) % 2)
    assert chain.levels[0] == pytest.approx(0.1)
    assert not chain.levels[1:].any()


def test_thresholds_do_not_look_at_which_answers_are_right():
    sure = np.sort(np.random.default_rng(1).random(1000))
    values = thresholds(sure, 400, 0.05, 0.9)
    assert (np.diff(values) < 0).all()
    assert len(values) <= 20
    assert values[-1] == sure[0]


def test_a_misled_crowd_keeps_nothing_and_says_so():
    tasks = np.repeat(np.arange(300), 5)
    workers = np.tile(np.arange(5), 300)
    votes = mh.Annotations.from_arrays(tasks, workers, np.zeros(1500, int), classes=[0, 1])
    truth = np.random.default_rng(0).integers(0, 2, 300)
    with pytest.warns(DataWarning, match="no answer"):
        promise = mh.promise(mh.aggregate(votes), (np.arange(0, 300, 2), truth[::2]), error=0.05)
    assert len(promise.kept) == 0
    assert len(promise.rest) == 300
    assert promise.threshold == np.inf
    assert promise.error_bound > 0.05
    assert "none of 300 tasks can be kept" in repr(promise)


def test_gold_of_the_fit_is_rejected(crowd):
    gold = some(crowd)
    fitted = mh.Consensus(gold=dict(list(gold.items())[:50])).fit(crowd.log)
    with pytest.raises(ValueError, match=r"50 of 400.*gold"):
        mh.promise(fitted, gold)
    mh.promise(fitted, dict(list(gold.items())[50:]), error=0.2)


@pytest.mark.parametrize("change", [str, bool, lambda label: 7])
def test_gold_of_another_type_than_the_classes_is_rejected(crowd, model, change):
    gold = {task: change(label) for task, label in some(crowd).items()}
    with pytest.raises(ValueError, match=r"gold.*one of 0, 1, 2, not"):
        mh.promise(model, gold)


def test_gold_is_a_mapping_or_two_lists(crowd, model):
    gold = some(crowd)
    pair = list(gold), list(gold.values())
    assert repr(mh.promise(model, pair)) == repr(mh.promise(model, gold))
    with pytest.raises(ValueError, match=r"45 .*44"):
        mh.promise(model, (pair[0][:45], pair[1][:44]))


def test_bad_input(crowd, model):
    with pytest.raises(ValueError, match=r"20.*45"):
        mh.promise(model, some(crowd, 20))
    with pytest.raises(ValueError, match="error"):
        mh.promise(model, some(crowd), error=0)
    with pytest.raises(TypeError, match="Annotations"):
        mh.promise(crowd.log, some(crowd))
    with pytest.raises(ValueError, match=r"does not know 'Ann'.*accuracy"):
        mh.promise(model, some(crowd), options=["Ann"])
    with pytest.raises(ValueError, match="pass options="):
        mh.promise(model, some(crowd), budget=3)
    with pytest.raises(ValueError, match="column cost"):
        mh.promise(model, some(crowd), options="all", budget=3)
    with pytest.raises(ValueError, match="match="):
        mh.promise(model, some(crowd), match=1.0)
    with pytest.raises(mh.errors.NotFittedError):
        mh.promise(mh.Consensus(), some(crowd))


def test_known_answers_that_are_no_random_sample_are_reported(crowd, model):
    easy = np.argsort(-model.confidence_)[:400].tolist()
    with pytest.warns(DataWarning, match="known answer"):
        mh.promise(model, {task: int(crowd.truth[task]) for task in easy}, error=0.1)


def test_the_rest_is_planned_within_capacities_and_budget(crowd, model):
    gold = some(crowd)
    team = {"worker": ["Ann", "judge"], "accuracy": [0.99, 0.8], "capacity": [60, 5000], "cost": [2.0, 0.5]}
    promise = mh.promise(model, gold, error=0.05, options=team)
    plan = promise.plan.to_pydict()
    assert set(plan["task"]) == {task for task in promise.rest["task"].to_pylist() if task not in gold}
    assert plan["worker"].count("Ann") == 60
    assert promise.cost == 60 * 2.0 + (len(plan["task"]) - 60) * 0.5
    n = len(plan["task"])
    for budget in (0.4, 20.0, 0.5 * n + 0.1, 0.5 * n + 30.0, 0.5 * n + 1000.0):
        cheap = mh.promise(model, gold, error=0.05, options=team, budget=budget)
        assert cheap.cost <= budget
        assert len(cheap.plan) == n
        pairs = [(ann, judge) for ann in range(61) for judge in range(n - ann + 1) if 2 * ann + judge / 2 <= budget]
        most = max(0.99 * ann + 0.8 * judge for ann, judge in pairs)
        assert sum(cheap.plan["expected_accuracy"].drop_null().to_pylist()) == pytest.approx(most)


def test_workers_of_the_log_are_not_asked_again(crowd, model):
    promise = mh.promise(model, some(crowd), error=0.05, options="all")
    tasks, workers, _ = crowd.log.codes()
    answered = set(zip(crowd.log.tasks[tasks].tolist(), crowd.log.workers[workers].tolist(), strict=True))
    pairs = zip(promise.plan["task"].to_pylist(), promise.plan["worker"].to_pylist(), strict=True)
    assert not answered & set(pairs)
    assert 0.5 < np.mean(promise.plan["expected_accuracy"].to_pylist()) <= 1


def test_sets_of_labels_cover_the_right_class(crowd, model):
    covered = []
    for seed in range(60):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            promise = mh.promise(model, some(crowd, 300, seed), error=0.1)
        sets = promise.label_sets().to_pydict()
        covered.append(np.mean([int(t) in labels for t, labels in zip(crowd.truth, sets["labels"], strict=True)]))
    assert min(sets["n_labels"]) >= 1
    # At least 90 % of the sets in at least 90 % of the draws; 80 % of 60 is far below.
    assert np.mean(np.array(covered) >= 0.9) >= 0.8
    assert sets["labels"][0][0] == model.labels_[0]


@pytest.mark.parametrize(("n", "unseen"), [(100, 20), (100, 100), (200, 4000)])
def test_sets_of_the_other_tasks_miss_as_seldom_as_stated(n, unseen):
    rng, misses = np.random.default_rng(0), []
    nth = n_excluded(n, unseen, 0.1, 0.9)
    for _ in range(4000):
        scores = rng.random(n + unseen)
        misses.append((scores[n:] < np.sort(scores[:n])[nth]).mean() > 0.1)
    # A standard error of 0.005; one more would be excluded in vain.
    assert 0.04 <= np.mean(misses) <= 0.115
    assert n_excluded(20, 10**6, 0.1, 0.9) == -1


def test_other_kinds():
    rng = np.random.default_rng(2)
    tasks, workers = np.repeat(np.arange(200), 4), np.tile(np.arange(4), 200)
    truth = rng.normal(0, 5, 200)
    ratings = mh.Ratings.from_arrays(tasks, workers, truth[tasks] + rng.normal(0, 0.3, 800))
    numbers = mh.aggregate(ratings)
    gold = {task: float(truth[task]) for task in range(100)}
    promise = mh.promise(numbers, gold, error=0.1, match=1.0)
    assert len(promise.kept) == 200
    pair = list(gold), list(gold.values())
    assert repr(mh.promise(numbers, pair, error=0.1, match=1.0)) == repr(promise)
    with pytest.raises(ValueError, match="100 tasks and 99 answers"):
        mh.promise(numbers, (pair[0], pair[1][:99]), error=0.1, match=1.0)
    with pytest.raises(ValueError, match="largest distance"):
        mh.promise(numbers, gold)
    verdicts = mh.promise(numbers, {task: task % 50 > 0 for task in range(100)}, error=0.1)
    assert verdicts.n_wrong == 2
    texts = mh.Texts.from_arrays(tasks, workers, [f"word {task}" for task in tasks])
    outcome = mh.promise(mh.aggregate(texts), {task: f"word {task}" for task in range(100)}, error=0.1)
    assert len(outcome.kept) == 200
    with pytest.raises(TypeError, match="classes"):
        outcome.label_sets()
    with pytest.raises(ValueError, match="1 of 51 gold task ids"):
        mh.promise(numbers, {**dict.fromkeys(range(50), True), "new": True}, error=0.1)


def test_answers_without_a_confidence_are_the_least_sure():
    log = mh.simulate(kind="boxes", seed=1).log
    model = mh.aggregate(log)
    doubtful = np.isnan(model.confidence_)
    assert 0 < doubtful.sum() < len(doubtful)
    tasks = model._about.values.tolist()
    bad = {task: not lacks for task, lacks in zip(tasks, doubtful.tolist(), strict=True)}
    promise = mh.promise(model, bad, error=0.1)
    assert promise.threshold > 0
    assert not {task for task, right in bad.items() if not right} & set(promise.kept.column(0).to_pylist())
    everything = mh.promise(model, dict.fromkeys(tasks, True), error=0.2)
    assert everything.n_kept == len(tasks)
    assert everything.threshold == 0.0
