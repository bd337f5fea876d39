"""Thousands of classes: the dense one-coin model, without what is dense."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import PARITY

import manyhands as mh
from manyhands._base import limits, persist
from manyhands.categorical._confusion import OneCoin
from manyhands.testing.compare import assert_close


def dense(k: int, **params) -> mh.DawidSkene:
    """The model that `SparseOneCoin` with the same settings is."""
    right, wrong = params.pop("pseudo_count", (1.0, 0.1))
    return mh.DawidSkene(model="one-coin", pseudo_count=(right / k, wrong / k), **params)


@settings(max_examples=30)
@given(
    rows=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4), st.integers(0, 7)), min_size=1, max_size=60),
    k=st.sampled_from([8, 70]),
    init=st.sampled_from(["majority", "shares"]),
)
def test_equals_the_dense_model(rows: list[tuple[int, int, int]], k: int, init: str) -> None:
    columns = np.array(rows).T
    votes = mh.Annotations.from_codes(*columns, n_tasks=10, n_workers=5, n_classes=k)
    stop = {"init": init, "max_iter": 9, "tol": 0.0}
    model, wanted = mh.categorical.SparseOneCoin(**stop).fit(votes), dense(k, **stop).fit(votes)
    for name in ("posterior_", "confusion_", "prior_", "history_"):
        assert_close(getattr(model, name), getattr(wanted, name), PARITY, name)
    clear = ~(model.tied_ | wanted.tied_)
    np.testing.assert_array_equal(model.labels_[clear], wanted.labels_[clear])
    frame, other = model.workers_frame(), wanted.workers_frame()
    for name in ("skill", "information", "spammer_score"):
        assert_close(frame.column(name).to_numpy(), other.column(name).to_numpy(), PARITY, name)


def test_the_most_probable_class_may_be_one_nobody_named() -> None:
    # Everybody lies: five classes, and the one label on the last task is almost surely wrong.
    tasks = np.repeat(np.arange(200), 4)
    workers = np.tile(np.arange(4), 200)
    truth = np.arange(200) % 2
    labels = np.where(workers < 3, truth[tasks], 2 + (tasks % 3))
    votes = mh.Annotations.from_arrays([*tasks, 200], [*workers, 3], [*labels, 4])
    model = mh.categorical.SparseOneCoin().fit(votes)
    assert model.labels_[-1] in (0, 1)
    assert model.rest_[-1] > 0.9
    np.testing.assert_array_equal(model.labels_, dense(5).fit(votes).labels_)


def test_ten_thousand_classes_are_recovered() -> None:
    rng = np.random.default_rng(0)
    n_tasks, n_workers, k = 4000, 50, 10_000
    truth = rng.integers(0, k, n_tasks)
    skill = rng.uniform(0.3, 0.95, n_workers)
    tasks = np.repeat(np.arange(n_tasks), 3)
    workers = rng.integers(0, n_workers, len(tasks))
    right = rng.random(len(tasks)) < skill[workers]
    labels = np.where(right, truth[tasks], rng.integers(0, k, len(tasks)))
    votes = mh.Annotations.from_codes(tasks, workers, labels, n_tasks=n_tasks, n_workers=n_workers, n_classes=k)
    model, smooth = (
        mh.categorical.SparseOneCoin().fit(votes),
        mh.categorical.SparseOneCoin(class_pseudo_count=10 * k).fit(votes),
    )
    majority, found, smoothed = (np.mean(m.labels_ == truth) for m in (mh.MajorityVote().fit(votes), model, smooth))
    assert found > majority + 0.05
    assert np.abs(model.accuracy_ - skill).mean() < 0.05
    # Nobody could do better than who knows the workers; fewer tasks than classes leave their frequencies open.
    none = {"start": "", "pseudo": (0.0, 0.0), "class_pseudo": 0.0, "max_iter": 0, "tol": 0.0}
    ideal = votes.table.sparse_fit(prior=np.full(k, 1 / k), accuracy=skill, **none)["winners"]
    assert found > np.mean(ideal == truth) - 0.02
    assert smoothed > np.mean(ideal == truth) - 0.005


def test_candidates_are_the_posterior(tmp_path: Path) -> None:
    votes = mh.simulate(50, 8, 30, labels_per_task=4, seed=3).log
    model = mh.categorical.SparseOneCoin().fit(votes)
    table = model.candidates()
    index = {name: i for i, name in enumerate(model.classes_.tolist())}
    at = (table.column("task").to_numpy(), [index[label] for label in table.column("label").to_pylist()])
    np.testing.assert_array_equal(model.posterior_[at], table.column("probability").to_numpy())
    sums = np.bincount(at[0], table.column("probability").to_numpy()) + model.rest_
    np.testing.assert_allclose(sums, 1)
    order = np.array([7, 3, 30])
    np.testing.assert_array_equal(model._rows_of_tasks(order), model.posterior_[order])
    some = votes.select(tasks=votes.tasks[10:20])
    other = model.candidates(some)
    assert set(other.column("task").to_pylist()) == set(range(10, 20))
    np.testing.assert_array_equal(model.predict(some), model.labels_[10:20])
    model.save(tmp_path / "model.mh")
    assert mh.load(tmp_path / "model.mh").candidates().equals(table)


def test_damaged_candidates_are_refused(tmp_path: Path) -> None:
    model = mh.categorical.SparseOneCoin().fit(mh.simulate(20, 5, 30, labels_per_task=3, seed=3).log)
    model.save(tmp_path / "model.mh")
    content = persist.read(tmp_path / "model.mh")
    changes = {
        "fit.posterior.classes": lambda array: np.full_like(array, 30),
        "fit.posterior.best.codes": lambda array: np.full_like(array, 30),
        "fit.posterior.offsets": lambda array: array[::-1].copy(),
        "fit.posterior.probabilities": lambda array: array * 2,
        "fit.confusion.accuracy": lambda array: array[1:],
    }
    for name, change in changes.items():
        arrays = content.arrays | {name: change(content.arrays[name])}
        persist.write(tmp_path / "bad.mh", "aggregator", content.meta, arrays)
        with pytest.raises(mh.errors.FileFormatError, match="damaged"):
            mh.load(tmp_path / "bad.mh")


def test_wrong_parameters_are_named() -> None:
    votes = mh.simulate(20, 5, 3, labels_per_task=3, seed=3).log
    for params, message in (
        ({"init": "spectral"}, "init"),
        ({"pseudo_count": 1.0}, "pair"),
        ({"pseudo_count": (1.0, -1.0)}, "pseudo_count"),
        ({"class_pseudo_count": -1.0}, "class_pseudo_count"),
        ({"max_iter": 0}, "max_iter"),
    ):
        with pytest.raises(ValueError, match=message):
            mh.categorical.SparseOneCoin(**params).fit(votes)


# ----------------------------------------------------------------------------------------------------- memory


@pytest.fixture
def wide() -> mh.Annotations:
    """A small log whose posteriors would take 447 GB, and confusion matrices more."""
    ids = np.arange(100)
    return mh.Annotations.from_codes(ids, ids, ids * 500, n_tasks=10**6, n_workers=1000, n_classes=60_000)


@pytest.mark.parametrize(
    "cls", [mh.DawidSkene, mh.MajorityVote, mh.categorical.MACE, mh.BayesianDawidSkene, mh.Consensus]
)
def test_what_cannot_fit_is_refused_before_work_starts(wide: mh.Annotations, cls: type) -> None:
    with pytest.raises(MemoryError, match=r"60,000 classes.*[\d,.]+ GB.*SparseOneCoin"):
        cls().fit(wide)


def test_a_sparse_fit_does_without(wide: mh.Annotations) -> None:
    model = mh.categorical.SparseOneCoin(max_iter=3, tol=0.0).fit(wide)
    assert len(model.to_frame()) == 10**6
    assert len(model.candidates()) == 100
    assert np.isfinite(model.workers_frame().column("information").to_numpy()).all()
    for get in (lambda: model.posterior_, lambda: model.confusion_, lambda: model.predict_proba(wide)):
        with pytest.raises(MemoryError, match="60,000 classes"):
            get()


def test_free_memory_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    free = limits.free_memory()
    assert free is None or free > 2**20
    monkeypatch.setattr(limits, "free_memory", lambda: 10)
    with pytest.raises(MemoryError, match="DawidSkene of 4 tasks"):
        mh.DawidSkene().fit(mh.Annotations.from_dense([[0, 1]] * 4))
    monkeypatch.setattr(limits, "free_memory", lambda: None)
    mh.DawidSkene(max_iter=1, tol=0.0).fit(mh.Annotations.from_dense([[0, 1]] * 4))


def test_closed_forms_of_one_coin_workers() -> None:
    accuracy, prior = np.array([0.2, 0.25, 0.7, 1.0]), np.array([0.1, 0.2, 0.3, 0.4])
    off = (1 - accuracy) / 3
    matrices = np.where(np.eye(4, dtype=bool), accuracy[:, None, None], off[:, None, None])
    workers = OneCoin(accuracy, 4)
    found = workers.worth(prior, np.full(4, 9))
    np.testing.assert_allclose(found.skill, mh.metrics.skill(matrices, prior), atol=1e-12)
    np.testing.assert_allclose(found.information, mh.metrics.information(matrices, prior), atol=1e-12)
    np.testing.assert_allclose(workers.spammer_scores(), mh.metrics.spammer_score(matrices), atol=1e-12)
    np.testing.assert_array_equal(workers.matrices(), matrices)
