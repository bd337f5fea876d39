"""The general scheme: twins, recovery, ties, answers of every form, and distances that are none."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import manyhands as mh
from manyhands import _core
from manyhands.objects.checks import CHECKS, KINDS, DistanceSubject
from manyhands.testing import checks_of, common
from oracles import distance as twin


def crowd(seed=0, n_tasks=60, n_workers=9, per_task=5):
    """Points that workers miss, some by far more than others."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n_tasks, 2)) * 5
    noise = np.repeat([0.2, 0.5, 4.0], n_workers // 3)
    tasks = np.repeat(np.arange(n_tasks), per_task)
    workers = np.concatenate([rng.permutation(n_workers)[:per_task] for _ in range(n_tasks)])
    values = truth[tasks] + rng.normal(size=(len(tasks), 2)) * noise[workers, None]
    return tasks, workers, values, truth, noise


@pytest.mark.parametrize("power", [None, 1.0, 0.5, 0.0])
@pytest.mark.parametrize("answer", ["medoid", "mean"])
def test_turns_beside_the_twin(power, answer):
    tasks, workers, values, _, _ = crowd()
    ratings = mh.Ratings.from_arrays(tasks, workers, values)
    task_codes, worker_codes, points = ratings.codes()
    settings = {"power": power or 0.0, "weights": "log" if power is None else "power", "max_iter": 4, "tol": 0.0}
    model = mh.objects.DistanceAggregator("squared", answer=answer, strength=2.0, **settings).fit(ratings)
    answers, weights, losses, history = twin.scheme(
        task_codes.astype(int),
        worker_codes.astype(int),
        9,
        lambda a, b: ((points[a] - points[b]) ** 2).sum(),
        power=power,
        strength=2.0,
        turns=4,
        values=points if answer == "mean" else None,
    )
    expected = answers if answer == "mean" else points[answers]
    np.testing.assert_allclose(model.objects_, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.weights_, weights, rtol=1e-9)
    np.testing.assert_allclose(model.losses_, losses, rtol=1e-9)
    np.testing.assert_allclose(model.history_, history, rtol=1e-9)


@pytest.mark.parametrize("weights", ["power", "log"])
@pytest.mark.parametrize("answer", ["medoid", "mean"])
def test_near_workers_weigh_more_and_answers_are_nearer(weights, answer):
    tasks, workers, values, truth, noise = crowd(n_tasks=200)
    ratings = mh.Ratings.from_arrays(tasks, workers, values)
    model = mh.objects.DistanceAggregator("squared", answer=answer, weights=weights).fit(ratings)
    plain = mh.objects.DistanceAggregator("squared", answer=answer, weights="power", power=0.0).fit(ratings)
    assert model.weights_[noise > 1].max() < model.weights_[noise < 1].min()
    assert (plain.weights_ == 1).all()
    error, before = (((one.objects_ - truth) ** 2).mean() for one in (model, plain))
    assert error < 0.9 * before
    assert (np.diff(model.history_) <= 1e-9 * model.history_[:-1]).all()
    assert model.converged_


def test_a_worker_with_one_answer_does_no_harm():
    tasks, workers, values, _, _ = crowd()
    lucky = mh.Ratings.from_arrays([*tasks, 0], [*workers, 99], [*values, values[0]])
    model = mh.objects.DistanceAggregator("squared").fit(lucky)
    typical = np.sort(model.weights_[:-1])
    assert typical[0] < model.weights_[-1] < typical[-1]


def test_names_of_distances():
    rng = np.random.default_rng(4)
    texts = ["".join(rng.choice(list("abc"), rng.integers(0, 9))) + "x" for _ in range(12)]
    orders = [list(rng.permutation(6)[: rng.integers(0, 7)]) for _ in range(12)]
    offsets = np.array([0, 5, 12], np.uint32)

    def words(answers):
        starts = np.concatenate([[0], np.cumsum([len(answer) for answer in answers])]).astype(np.uint32)
        codes = np.array([ord(x) if isinstance(x, str) else x for answer in answers for x in answer], np.uint32)
        return starts, codes

    for name, answers, between in (
        ("levenshtein", texts, twin.levenshtein),
        ("kendall", orders, twin.kendall),
        ("jaccard", [sorted(order) for order in orders], twin.jaccard),
        ("hamming", orders, lambda a, b: float(list(a) != list(b))),
    ):
        found = _core.word_distances(offsets, *words(answers), name)
        parts = [answers[:5], answers[5:]]
        expected = np.concatenate([[between(a, b) for a in part for b in part] for part in parts])
        np.testing.assert_allclose(found, expected, atol=1e-12, err_msg=name)


def test_forms_of_answers():
    texts = mh.Objects.from_arrays([1, 1, 1], list("abc"), ["colour", "color", "colours"])
    assert mh.aggregate(texts).objects_.tolist() == ["colour"]
    sets = mh.Objects.from_arrays([1, 1, 1], list("abc"), [{1, 2}, frozenset({1, 2, 3}), {1, 2}])
    assert mh.objects.DistanceAggregator("jaccard").fit(sets).objects_.tolist() == [{1, 2}]
    orders = mh.Objects.from_arrays([1, 1, 1], list("abc"), [["x", "y", "z"], ["x", "z", "y"], ["x", "y", "z"]])
    assert mh.objects.DistanceAggregator("kendall").fit(orders).objects_.tolist() == [["x", "y", "z"]]
    votes = mh.Annotations.from_dense([[0, 0, 1], [2, 2, 0]])
    assert mh.objects.DistanceAggregator().fit(votes).objects_.tolist() == [0, 2]
    odd = mh.Objects.from_arrays([1, 1, 1], list("abc"), [{"n": 1}, {"n": 2}, {"n": 9}])
    model = mh.objects.DistanceAggregator(lambda a, b: abs(a["n"] - b["n"])).fit(odd)
    assert model.objects_.tolist() == [{"n": 2}]
    frame = {"task": [1, 1, 1], "worker": list("abc"), "answer": ["sun", "sun", "son"]}
    assert mh.objects.DistanceAggregator().fit(frame).objects_.tolist() == ["sun"]
    with pytest.raises(ValueError, match="distance="):
        mh.objects.DistanceAggregator().fit(odd)


def test_distances_in_an_array():
    votes = mh.Annotations.from_arrays([1, 1, 1], list("abc"), ["low", "high", "mid"], classes=["low", "mid", "high"])
    apart = np.abs(np.subtract.outer(np.arange(3.0), np.arange(3.0)))
    assert mh.objects.DistanceAggregator(apart).fit(votes).objects_.tolist() == ["mid"]
    for change, message in (
        ((0, 1, np.nan), "finite"),
        ((0, 1, -1.0), "negative"),
        ((0, 1, 3.0), "'low'.*'mid'"),
        ((1, 1, 1.0), "must be 0"),
    ):
        bad = apart.copy()
        bad[change[0], change[1]] = change[2]
        with pytest.raises(ValueError, match=message):
            mh.objects.DistanceAggregator(bad).fit(votes)
    with pytest.raises(ValueError, match=r"\(3, 3\).*\(2, 2\)"):
        mh.objects.DistanceAggregator(np.zeros((2, 2))).fit(votes)


@pytest.mark.parametrize(
    ("distance", "message"),
    [
        (lambda a, b: float("nan"), "'s[ou]n', 's[ou]n'.*nan"),
        (lambda a, b: -1.0, "-1.0"),
        (lambda a, b: float(a > b), "distance"),
        (lambda a, b: float("inf"), "is inf"),
    ],
    ids=["nan", "negative", "asymmetric", "infinite"],
)
def test_what_is_no_distance_is_named(distance, message):
    texts = mh.Objects.from_arrays([1, 1], list("ab"), ["sun", "son"])
    with pytest.raises(ValueError, match=message):
        mh.objects.DistanceAggregator(distance).fit(texts)


def test_what_does_not_fit_is_named():
    texts = mh.Objects.from_arrays([1, 1], list("ab"), ["sun", "son"])
    for distance, kind, message in (
        ("absolute", ValueError, "numbers"),
        ("jaccard", TypeError, "'son'"),
        ("kendall", TypeError, "'son'"),
        ("euclid", ValueError, "distance"),
    ):
        with pytest.raises(kind, match=message):
            mh.objects.DistanceAggregator(distance).fit(texts)
    with pytest.raises(ValueError, match="answer='mean'"):
        mh.objects.DistanceAggregator("levenshtein", answer="mean").fit(texts)
    with pytest.raises(ValueError, match=r"weights.*'power'.*'log'"):
        mh.objects.DistanceAggregator(weights="squares").fit(texts)
    with pytest.raises(ValueError, match=r"power.*1"):
        mh.objects.DistanceAggregator(power=2.0).fit(texts)
    with pytest.raises(TypeError, match=r"Annotations.*Objects.*list"):
        mh.objects.DistanceAggregator().fit([1])
    twice = mh.Objects.from_arrays([1, 1], list("ab"), [["x", "x"], ["y", "x"]])
    with pytest.raises(ValueError, match="item"):
        mh.objects.DistanceAggregator("kendall").fit(twice)
    numbers = mh.Objects.from_arrays([1, 1], list("ab"), [3, 4])
    with pytest.raises(TypeError, match="texts"):
        mh.objects.DistanceAggregator("levenshtein").fit(numbers)


def test_ties_never_go_by_rows_or_names_of_workers():
    for answers in (["a", "b"], ["b", "a"]):
        for workers in (["u", "v"], ["v", "u"]):
            model = mh.objects.DistanceAggregator("hamming").fit(mh.Objects.from_arrays([1, 1], workers, answers))
            assert model.objects_.tolist() == ["a"]
            assert model.tied_.tolist() == [True]
    clear = mh.objects.DistanceAggregator("hamming").fit(mh.Objects.from_arrays([1, 1, 1], list("uvw"), list("bab")))
    assert (clear.objects_.tolist(), clear.tied_.tolist()) == (["b"], [False])


def test_order_of_rows_and_names_does_not_matter():
    tasks, workers, values, _, _ = crowd()
    model = mh.objects.DistanceAggregator("absolute").fit(mh.Ratings.from_arrays(tasks, workers, values))
    order = np.random.default_rng(1).permutation(len(tasks))
    names = np.array([7, 3, 5, 0, 8, 1, 2, 6, 4])
    moved = mh.objects.DistanceAggregator("absolute").fit(
        mh.Ratings.from_arrays(tasks[order], names[workers[order]], values[order])
    )
    np.testing.assert_allclose(moved.objects_, model.objects_, rtol=1e-12)
    np.testing.assert_allclose(moved.weights_[names], model.weights_, rtol=1e-9)


def test_weights_of_answers_count_them():
    twice = mh.Objects.from_arrays([1, 1, 1], list("uvw"), ["a", "b", "b"])
    weighted = mh.Objects.from_arrays([1, 1], list("uv"), ["a", "b"], weights=[1.0, 2.0])
    for log in (twice, weighted):
        assert mh.objects.DistanceAggregator("hamming").fit(log).objects_.tolist() == ["b"]


def test_spread_and_frames(tmp_path):
    ratings = mh.Ratings.from_arrays([1, 1, 2, 2], [1, 2, 1, 2], [3.0, 3.0, 1.0, 5.0])
    model = mh.objects.DistanceAggregator("absolute").fit(ratings)
    assert model.spread_[0] == 0 < model.spread_[1]
    assert model.to_frame().column_names == ["task", "answer", "confidence", "spread", "tied"]
    assert {"worker", "skill", "loss"} <= set(model.workers_frame().column_names)
    texts = mh.Objects.from_arrays([1, 1, 2], list("aba"), ["sun", "son", "day"])
    sets = mh.Objects.from_arrays([1, 1], list("ab"), [{"x"}, {"y", "x"}])
    for votes, made in (
        (ratings, model),
        (texts, mh.objects.DistanceAggregator()),
        (sets, mh.objects.DistanceAggregator("jaccard")),
    ):
        made.fit(votes).save(tmp_path / "model.mh")
        again = mh.load(tmp_path / "model.mh", mh.objects.DistanceAggregator)
        assert again.objects_.tolist() == made.objects_.tolist()
        np.testing.assert_equal(again.workers_frame().to_pydict(), made.workers_frame().to_pydict())
        assert pickle.loads(pickle.dumps(made)).objects_.tolist() == made.objects_.tolist()
    texts.save(tmp_path / "texts.mh")
    assert mh.load(tmp_path / "texts.mh", mh.Objects) == texts
    assert pickle.loads(pickle.dumps(texts)) == texts
    odd = mh.Objects.from_arrays([1], ["a"], [object()])
    with pytest.raises(TypeError, match="saved"):
        odd.save(tmp_path / "odd.mh")


def test_objects_are_a_table():
    texts = mh.Objects.from_arrays(["t", "t", "s"], list("aba"), ["x", "y", "x"])
    assert texts.describe().to_dict()["n_distinct"] == 2
    assert "3, 2 of them different" in str(texts.describe())
    assert texts.select(workers=["a"]).to_frame().to_pydict() == {
        "task": ["s", "t"],
        "worker": ["a", "a"],
        "answer": ["x", "x"],
    }
    assert texts != mh.Objects.from_arrays(["t", "t", "s"], list("aba"), ["x", "y", "z"])
    assert texts != 3
    with pytest.warns(mh.errors.DataWarning, match="1 row"):
        assert len(mh.Objects.from_arrays(["t", "t"], list("ab"), ["x", None])) == 1
    with pytest.warns(mh.errors.DataWarning, match="1 row"):
        assert mh.Objects.from_arrays(["t", "t"], list("ab"), [None, "x"], weights=[2.0, 3.0]).weights.tolist() == [3.0]
    with pytest.raises(ValueError, match="task 't'"):
        mh.Objects.from_arrays(["t", "t"], list("aa"), ["x", "y"], repeats="error")


def test_kinds_have_a_distance_of_their_own():
    sets = mh.MultiLabels.from_arrays([1, 1, 1, 2], list("uvwu"), [["x", "y"], ["x", "y"], ["z"], []])
    model = mh.objects.DistanceAggregator().fit(sets)
    assert model.objects_.tolist() == [frozenset("xy"), frozenset()]
    assert model.to_frame().column("answer").to_pylist() == [["x", "y"], []]
    orders = mh.Rankings.from_lists([["a", "b", "c"], ["a", "b", "c"], ["c", "b", "a"]], list("uvw"))
    model = mh.objects.DistanceAggregator().fit(orders)
    assert (model.tasks_.tolist(), model.objects_.tolist()) == (["all"], [["a", "b", "c"]])
    assert model.weights_[2] < model.weights_[0]
    heavy = mh.Rankings.from_lists([["a", "b"], ["b", "a"]], ["u", "v"], [1.0, 3.0])
    assert mh.objects.DistanceAggregator("kendall").fit(heavy).objects_.tolist() == [["b", "a"]]
    with pytest.raises(TypeError, match="Comparisons"):
        mh.objects.DistanceAggregator().fit(mh.Comparisons.from_arrays(["a"], ["b"], ["a"], ["u"]))


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=f"{kind}-{name}")
        for kind in KINDS
        for name, check in checks_of(
            replace(DistanceSubject.of(mh.objects.DistanceAggregator(), {}), kind=kind), (*common.CHECKS, *CHECKS)
        )
    ],
)
def test_check(check):
    check()
