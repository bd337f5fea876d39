"""Every aggregator, in every variant, against the check-list of ``checks.py``."""

from __future__ import annotations

import _thread
import functools
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import manyhands as mh
from checks import (
    CHECKS,
    STANDARD,
    TWINS,
    VARIANTS,
    Crowd,
    Variant,
    assert_permutes,
    assert_same_bits,
    assert_sound,
    of_rows,
)
from manyhands.aggregators.base import Aggregator

ALL = [variant for variants in VARIANTS.values() for variant in variants]
#: Odd tables leave something undetermined, and methods say so.
pytestmark = pytest.mark.filterwarnings("ignore::manyhands.IdentifiabilityWarning")
on_all = pytest.mark.parametrize("variant", ALL, ids=str)


@pytest.mark.parametrize("cls", mh.all_aggregators(), ids=lambda cls: cls.__name__)
def test_every_class_has_a_twin_and_variants(cls: type[Aggregator]) -> None:
    assert cls in TWINS, f"write a NumPy twin of {cls.__name__} in tests/oracles and list it in checks.TWINS"
    assert VARIANTS.get(cls), f"list the variants of {cls.__name__} in checks.VARIANTS"
    assert all(type(variant.make(STANDARD)) is cls for variant in VARIANTS[cls])


def test_all_aggregators_are_found_by_name() -> None:
    names = [cls.__name__ for cls in mh.all_aggregators()]
    assert names == sorted(names)
    assert {"DawidSkene", "MajorityVote", "WeightedVote"} <= set(names)
    assert all(hasattr(mh, name) for name in names)


@on_all
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_check(variant: Variant, check) -> None:
    check(variant)


# ------------------------------------------------------------------------------------------------------ files


@on_all
def test_save_and_load(variant: Variant, tmp_path: Path) -> None:
    votes = variant.standard.votes()
    model = variant.make(variant.standard).fit(votes)
    model.save(tmp_path / "model.mh")
    loaded = mh.load(tmp_path / "model.mh")
    assert type(loaded) is type(model)
    assert_same_bits(loaded, model)
    np.testing.assert_array_equal(loaded.predict_proba(votes), model.predict_proba(votes))
    assert loaded.to_frame().equals(model.to_frame())
    assert loaded.workers_frame().equals(model.workers_frame())
    # Parameters that are data (gold, priors, weights by worker) are not part of the file; all others are.
    data = {"gold", "worker_prior", "weights"} if not isinstance(getattr(model, "weights", ""), str) else set()
    data |= {"gold", "worker_prior"}
    kept = {name: value for name, value in model.get_params().items() if name not in data}
    assert {name: value for name, value in loaded.get_params().items() if name not in data} == kept
    if not data & {name for name, value in model.get_params().items() if value is not None}:
        assert_same_bits(loaded.fit(votes), model)


@pytest.mark.parametrize("ids", ["text", "integers"])
def test_saved_names_keep_their_type(ids: str, tmp_path: Path) -> None:
    columns = STANDARD.columns()
    if ids == "integers":
        columns = {key: [int(name[1:]) for name in column] for key, column in columns.items()}
    model = mh.MajorityVote().fit(columns)
    model.save(tmp_path / "model.mh")
    loaded = mh.load(tmp_path / "model.mh")
    for name in ("tasks_", "workers_", "classes_", "labels_"):
        assert getattr(loaded, name).dtype == getattr(model, name).dtype
        assert getattr(loaded, name).tolist() == getattr(model, name).tolist()


# ---------------------------------------------------------------------------------------------------- threads


@pytest.fixture(scope="module")
def large() -> Callable[[int], tuple[mh.Annotations, Crowd]]:
    """400,000 annotations of so many classes: several chunks in every plan of the core."""
    return functools.cache(_large)


def _large(n_classes: int = 3) -> tuple[mh.Annotations, Crowd]:
    rng = np.random.default_rng(0)
    n_tasks, n_workers, per_task = 80_000, 500, 5
    truth = rng.integers(0, n_classes, n_tasks)
    tasks = np.repeat(np.arange(n_tasks), per_task)
    workers = rng.integers(0, n_workers, len(tasks))
    wrong = rng.random(len(tasks)) > np.linspace(0.4, 0.9, n_workers)[workers]
    labels = np.where(wrong, rng.integers(0, n_classes, len(tasks)), truth[tasks])
    votes = mh.Annotations.from_codes(tasks, workers, labels, n_tasks=n_tasks, n_workers=n_workers, n_classes=n_classes)
    names = Crowd(np.zeros((0, 3), int), tuple(range(10)), tuple(range(n_workers)), tuple(range(n_classes)))
    return votes, names


@pytest.fixture
def threads():
    """Sets the number of threads, and puts it back."""
    before = mh.get_num_threads()
    yield mh.set_num_threads
    mh.set_num_threads(before)


def _short(model: Aggregator) -> Aggregator:
    """The same with a few passes: what threads do shows in each of them."""
    few = {
        "max_iter": 4,
        "n_iter": 2,
        "tol": 0.0,
        "restarts": min(getattr(model, "restarts", 0), 1),
        "warmup": 1,
        "draws": 3,
    }
    few |= {"batch_size": 30_000, "rounds": 2}
    return model.set_params(**{name: value for name, value in few.items() if name in model.get_params()})


@on_all
def test_threads_do_not_change_a_bit(variant: Variant, large, threads) -> None:
    votes, names = large(variant.most_classes or 3)
    fits = []
    for n_threads in (1, 3):
        threads(n_threads)
        assert mh.get_num_threads() == n_threads
        fits.append(_short(variant.make(names)).fit(votes))
    assert_same_bits(*fits)


# ---------------------------------------------------------------------------------------- progress and Ctrl-C


def _long() -> mh.DawidSkene:
    # Far longer than any test may take, unless it is stopped.
    return mh.DawidSkene(max_iter=100_000, tol=0.0)


def test_progress_is_reported_and_its_exceptions_end_the_fit(large) -> None:
    seen = []

    class Enough(Exception):
        pass

    def progress(step: int, objective: float) -> None:
        seen.append((step, objective))
        if step > 3:
            raise Enough

    model = _long()
    with pytest.raises(Enough):
        model.fit(large(3)[0], progress=progress)
    steps = [step for step, _ in seen]
    assert steps == sorted(steps)
    assert steps[-1] > 3
    assert seen[-1][1] < 0
    with pytest.raises(mh.NotFittedError):
        _ = model.labels_


def test_progress_of_zero_based_rounds() -> None:
    seen = []
    model = mh.WeightedVote("zero-based", n_iter=4, learning_rate=0.5)
    model.fit(STANDARD.votes(), progress=lambda step, _: seen.append(step))
    assert seen == [1, 2, 3, 4]


def test_a_failing_callback_keeps_the_previous_fit() -> None:
    model = mh.WeightedVote("zero-based", n_iter=4).fit(STANDARD.votes())
    before = model.labels_

    def fail(step: int, _: float) -> None:
        raise OSError(f"round {step}")

    with pytest.raises(OSError, match="round 1"):
        model.fit(STANDARD.votes(), progress=fail)
    np.testing.assert_array_equal(model.labels_, before)


def test_interrupt_ends_the_fit(large) -> None:
    # A shell starts background jobs with interrupts ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, _thread.interrupt_main)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            _long().fit(large(3)[0])
    finally:
        timer.cancel()
        timer.join()
        signal.signal(signal.SIGINT, before)


# ------------------------------------------------------------------------------------------------- properties


@st.composite
def crowds(draw: st.DrawFn, max_rows: int = 40) -> Crowd:
    """Small logs in which every name occurs; weights on some."""
    n_tasks, n_workers, n_classes = draw(st.integers(1, 6)), draw(st.integers(1, 5)), draw(st.integers(1, 4))
    row = st.tuples(st.integers(0, n_tasks - 1), st.integers(0, n_workers - 1), st.integers(0, n_classes - 1))
    rows = np.array(draw(st.lists(row, min_size=1, max_size=max_rows)))
    weights = None
    if draw(st.booleans()):
        weight = st.sampled_from([0.5, 1.0, 2.0, 3.5])
        weights = np.array(draw(st.lists(weight, min_size=len(rows), max_size=len(rows))))
    return of_rows(rows, weights)


@on_all
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(log=crowds())
def test_any_small_table_gives_a_sound_answer(variant: Variant, log: Crowd) -> None:
    log = variant.fits(log)
    model = variant.make(log)
    if isinstance(model, mh.DawidSkene):
        # Convergence is another test's business, and would warn here.
        model.set_params(tol=0.0, max_iter=min(model.max_iter, 30))
    assert_sound(model.fit(log.votes()))


@pytest.mark.parametrize("variant", [variant for variant in ALL if variant.equivariant and variant.determined], ids=str)
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(log=crowds(), data=st.data())
def test_renaming_renames_the_answer(variant: Variant, log: Crowd, data: st.DataObject) -> None:
    log = variant.fits(log)
    parts = ["tasks", "workers"] if variant.ties_matter else ["tasks", "workers", "classes"]
    part = data.draw(st.sampled_from(parts))
    order = np.array(data.draw(st.permutations(range(len(getattr(log, part))))))

    def make(crowd: Crowd) -> Aggregator:
        # A few passes: symmetric tables are unstable fixed points, which rounding leaves sooner or later.
        model = variant.make(crowd)
        few = {"max_iter": 6, "tol": 0.0}
        return model.set_params(**few) if few.keys() <= model.get_params().keys() else model

    assert_permutes(Variant(variant.name, make), log, part, order)
