"""Passes over parts of the annotations, and loops whose passes Python makes."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhands as mh
from manyhands import _core
from oracles import em, seam

MODELS = ["full", "class", "one-coin"]
#: Sums of parts are added in another order than those of the whole.
ORDER = 1e-12
on_models = pytest.mark.parametrize("model", MODELS)
WIDTHS = {"full": lambda k: k * k, "class": lambda k: 2 * k, "one-coin": lambda k: 2}


def drawn(n: int = 400, m: int = 30, k: int = 3, *, weighted: bool = False, seed: int = 0) -> mh.Annotations:
    """Five answers a task, right seven times in ten."""
    rng = np.random.default_rng(seed)
    tasks = np.repeat(np.arange(n), 5)
    workers = np.concatenate([rng.choice(m, 5, replace=False) for _ in range(n)])
    labels = np.where(rng.random(5 * n) < 0.7, tasks % k, rng.integers(0, k, 5 * n))
    weights = rng.uniform(0.2, 3.0, 5 * n) if weighted else None
    return mh.Annotations.from_codes(tasks, workers, labels, n_tasks=n, n_workers=m, n_classes=k, weights=weights)


def sums(votes: mh.Annotations, model: str) -> dict[str, Any]:
    k = votes.n_classes
    return {"counts": np.zeros((votes.n_workers, WIDTHS[model](k))), "classes": np.zeros(k)}


# ---------------------------------------------------------------------------------------------------- twins


@on_models
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), mode=st.sampled_from(["soft", "hard", "voted"]), data=st.data())
def test_a_pass_is_its_twin(model: str, seed: int, mode: str, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, 6))
    votes = drawn(40, 7, k, weighted=data.draw(st.booleans()), seed=seed)
    rng = np.random.default_rng(seed)
    prior, confusion = rng.dirichlet(np.ones(k)), rng.dirichlet(np.ones(k), (7, k))
    gold = np.where(rng.random(40) < 0.2, rng.integers(0, k, 40), -1).astype(np.int32)
    factors, classes = _core.em_factors(confusion, prior, model=model)
    wanted = seam.em_factors(confusion, prior, model)
    np.testing.assert_allclose(factors, wanted[0], rtol=1e-12)
    np.testing.assert_allclose(classes, wanted[1], rtol=1e-12)
    rows, how = em.Rows.of(votes), {"hard": mode == "hard", "voted_only": mode == "voted"}
    got = sums(votes, model)
    evidence = votes.table.em_gather(factors, classes, model=model, gold=gold, **how, **got)
    counts, met, log = seam.em_gather(rows, prior, confusion, gold, model=model, **how)
    np.testing.assert_allclose(got["counts"], counts, atol=1e-10)
    np.testing.assert_allclose(got["classes"], met, atol=1e-10)
    assert evidence == pytest.approx(log, rel=1e-10, abs=1e-10)
    if mode == "soft":
        found = votes.table.em_answers(factors, classes, model=model, gold=gold, posterior=True)
        posterior, log = em.expect(rows, prior, em.confusion_of(confusion, model), gold, hard=False)
        np.testing.assert_allclose(found["posterior"], posterior, atol=1e-12)
        np.testing.assert_allclose(found["confidence"], posterior.max(axis=1), atol=1e-7)
        assert found["log_evidence"] == pytest.approx(log, rel=1e-10, abs=1e-10)
        winners, tied = _core.winners(found["posterior"])
        assert (found["winner"] == winners).all()
        assert (found["tied"] == tied).all()


@on_models
@pytest.mark.parametrize("start", ["shares", "majority", "posterior"])
def test_an_opening_is_its_twin(model: str, start: str) -> None:
    for weighted in (False, True):
        votes = drawn(weighted=weighted)
        rows, got = em.Rows.of(votes), sums(votes, model)
        gold = np.full(votes.n_tasks, -1, np.int32)
        gold[:9] = 1
        if start == "posterior":
            given = np.random.default_rng(1).dirichlet(np.ones(3), votes.n_tasks)
            votes.table.em_open(model=model, posterior=given, gold=gold, **got)
        else:
            given = em.opening(rows, start)
            votes.table.em_open(model=model, start=start, gold=gold, **got)
        np.testing.assert_allclose(got["counts"], seam.tied_counts(rows, em.clamp(given, gold), model), atol=1e-9)
        np.testing.assert_allclose(got["classes"], em.clamp(given, gold).sum(axis=0), atol=1e-9)


def test_sums_are_added_to_what_is_there() -> None:
    votes = drawn()
    once, twice = sums(votes, "full"), sums(votes, "full")
    for got in (once, twice, twice):
        votes.table.em_open(start="majority", **got)
    assert (twice["counts"] == 2 * once["counts"]).all()
    assert (twice["classes"] == 2 * once["classes"]).all()


# --------------------------------------------------------------------------------------------------- shards


@dataclass(frozen=True)
class Shard:
    """Some tasks, with the workers who answered them."""

    table: _core.Table
    who: np.ndarray
    first: int
    gold: np.ndarray | None


def shards_of(votes: mh.Annotations, n: int, gold: np.ndarray | None = None) -> list[Shard]:
    """Runs of tasks of unequal lengths, whose workers have codes of their own."""
    tasks, workers, labels = votes.codes()
    ends = np.unique(np.r_[0, np.sort(np.random.default_rng(5).integers(1, votes.n_tasks, n - 1)), votes.n_tasks])
    found = []
    for first, last in pairwise(ends):
        mine = (tasks >= first) & (tasks < last)
        who, codes = np.unique(workers[mine], return_inverse=True)
        table = _core.Table(
            tasks[mine] - np.uint32(first),
            codes.astype(np.uint32),
            labels[mine],
            None if votes.weights is None else votes.weights[mine],
            int(last - first),
            len(who),
            votes.n_classes,
        )
        found.append(Shard(table, who.astype(np.uint32), int(first), None if gold is None else gold[first:last]))
    return found


class InPlace:
    """Goes through one shard after the other: each is given what it needs, and answers with sums of its own."""

    def __init__(self, votes: mh.Annotations, shards: list[Shard]) -> None:
        self.n_workers, self.n_classes, self.n_labels = votes.n_workers, votes.n_classes, votes.n_labels
        self.shards = shards
        self.posterior: list[np.ndarray] = []

    def order(self) -> Iterable[int]:
        return range(len(self.shards))

    def _sums(self, pass_over: Any, counts: np.ndarray, classes: np.ndarray) -> float:
        parts = {}
        for at in self.order():
            shard = self.shards[at]
            own = {"counts": np.zeros((len(shard.who), counts.shape[1])), "classes": np.zeros(self.n_classes)}
            parts[at] = pass_over(shard, own), own
        evidence = 0.0
        for at, shard in enumerate(self.shards):
            given, own = parts[at]
            counts[shard.who] += own["counts"]
            classes += own["classes"]
            evidence += given or 0.0
        return evidence

    def open(self, *, counts: np.ndarray, classes: np.ndarray, **how: Any) -> None:
        def over(s: Shard, own: dict[str, Any]) -> Any:
            return s.table.em_open(first=s.first, gold=s.gold, **how, **own)

        self._sums(over, counts, classes)

    def gather(
        self, factors: np.ndarray, prior: np.ndarray, *, counts: np.ndarray, classes: np.ndarray, **how: Any
    ) -> float:
        def over(s: Shard, own: dict[str, Any]) -> Any:
            return s.table.em_gather(factors[s.who], prior, gold=s.gold, **how, **own)

        return self._sums(over, counts, classes)

    def conclude(self, factors: np.ndarray, prior: np.ndarray, **how: Any) -> float:
        found = [s.table.em_answers(factors[s.who], prior, gold=s.gold, posterior=True, **how) for s in self.shards]
        self.posterior.append(np.concatenate([part["posterior"] for part in found]))
        return sum((part["log_evidence"] for part in found), 0.0)


class Apart(InPlace):
    """The same in any order: a cluster."""

    def order(self) -> Iterable[int]:
        return np.random.default_rng().permutation(len(self.shards)).tolist()


def loops(model: str, start: str) -> dict[str, Any]:
    """Each loop of the core as a function of whoever holds the annotations."""
    eye = np.full((3, 3), 0.1) + np.eye(3)
    common: dict[str, Any] = {"class_pseudo": np.full(3, 0.5), "max_iter": 8, "tol": 0.0}
    em_options = {"model": model, "start": start, "seed": 3, "pseudo": eye} | common
    bayes = {"model": model, "start": "protected", "protected": 4, "pseudo": eye} | common
    return {
        "em": lambda votes, **gold: [_core.em_fit(votes, assignment="soft", **em_options, **gold)],
        "hard": lambda votes, **gold: [_core.em_fit(votes, assignment="hard-then-soft", **em_options, **gold)],
        "leaps": lambda votes, **gold: [_core.em_fit(votes, assignment="soft", accelerate=True, **em_options, **gold)],
        "bayes": lambda votes, **gold: [_core.bayes_fit(votes, **bayes, **gold)],
        "hierarchies": lambda votes, **gold: _core.hierarchy_fit(
            votes, [("crowd", None), ("spammer", None)], protected=4, **common, **gold
        ),
    }


#: Loop, model and start; loops that are not among the first have a start of their own.
DRIVEN = [
    *product(["em", "hard", "leaps"], MODELS, ["majority", "shares", "random"]),
    *product(["bayes"], MODELS, ["protected"]),
    ("hierarchies", "full", "protected"),
]


@pytest.mark.parametrize(("loop", "model", "start"), DRIVEN)
def test_shards_are_the_table(loop: str, model: str, start: str) -> None:
    for weighted, known in ((False, False), (True, True)):
        votes = drawn(weighted=weighted)
        gold = np.where(np.arange(votes.n_tasks) % 7 == 0, np.arange(votes.n_tasks) % 3, -1).astype(np.int32)
        given = {"gold": gold} if known else {}
        fit = loops(model, start)[loop]
        whole = fit(votes.table, **given)
        shards = shards_of(votes, 6, gold if known else None)
        in_place, apart = InPlace(votes, shards), Apart(votes, shards)
        found, same = fit(in_place), fit(apart)
        for one, part, other, posterior, again in zip(
            whole, found, same, in_place.posterior, apart.posterior, strict=True
        ):
            np.testing.assert_allclose(posterior, one["posterior"], atol=ORDER)
            assert (posterior == again).all()
            assert part["n_iter"] == one["n_iter"]
            for name in part.keys() - {"n_iter", "converged"}:
                np.testing.assert_allclose(part[name], one[name], rtol=1e-11, atol=ORDER, err_msg=name)
                np.testing.assert_array_equal(part[name], other[name], name)


def test_one_thread_is_enough_for_a_loop_and_its_passes() -> None:
    votes, before = drawn(), mh.get_num_threads()
    fit = loops("full", "majority")["em"]
    wanted = fit(InPlace(votes, shards_of(votes, 3)))[0]
    try:
        mh.set_num_threads(1)
        found = fit(InPlace(votes, shards_of(votes, 3)))[0]
    finally:
        mh.set_num_threads(before)
    assert (found["confusion"] == wanted["confusion"]).all()


# ------------------------------------------------------------------------------------------- what may go wrong


class Broken(InPlace):
    """Passes of which the third does something else."""

    def __init__(self, votes: mh.Annotations, instead: Any) -> None:
        super().__init__(votes, shards_of(votes, 2))
        self.instead, self.n_passes = instead, 0

    def gather(self, factors: np.ndarray, prior: np.ndarray, **how: Any) -> float:
        self.n_passes += 1
        evidence = super().gather(factors, prior, **how)
        return evidence if self.n_passes < 3 else self.instead(how, evidence)


class Lost(Exception):
    """Of a driver, which the loop knows nothing of."""


def raising(how: Any, evidence: float) -> float:
    raise Lost("a machine is gone")


def interrupted(how: Any, evidence: float) -> float:
    signal.raise_signal(signal.SIGINT)
    return evidence


def poisoned(how: Any, evidence: float) -> float:
    how["counts"][0, 0] = np.nan
    return evidence


@pytest.mark.parametrize("loop", ["em", "bayes", "hierarchies"])
@pytest.mark.parametrize(
    ("instead", "error", "message"),
    [
        (raising, Lost, "machine"),
        (interrupted, KeyboardInterrupt, None),
        (poisoned, ValueError, "NaN"),
        (lambda how, evidence: float("nan"), ValueError, "NaN"),
        (lambda how, evidence: "much", TypeError, "number"),
    ],
)
def test_a_pass_that_fails_ends_the_loop(
    loop: str, instead: Any, error: type[BaseException], message: str | None
) -> None:
    passes = Broken(drawn(), instead)
    with pytest.raises(error, match=message):
        loops("full", "majority")[loop](passes)
    assert passes.n_passes == 3
    assert not passes.posterior


def test_progress_of_passes_made_elsewhere() -> None:
    votes, steps = drawn(), []
    _core.em_fit(
        InPlace(votes, shards_of(votes, 2)),
        model="full",
        assignment="soft",
        start="majority",
        pseudo=np.full((3, 3), 0.1),
        class_pseudo=np.zeros(3),
        max_iter=5,
        tol=0.0,
        progress=lambda step, objective: steps.append((step, objective)),
    )
    assert steps[-1][0] == 5
    assert np.isfinite(steps[-1][1])


def test_a_loop_refuses_what_only_tasks_could_use() -> None:
    votes = drawn()
    passes, fit = InPlace(votes, shards_of(votes, 2)), loops("full", "majority")["em"]
    with pytest.raises(ValueError, match="passes"):
        fit(passes, gold=np.full(votes.n_tasks, -1, np.int32))
    with pytest.raises(ValueError, match="posteriors"):
        fit(passes, posterior=np.full((votes.n_tasks, 3), 1 / 3))
    for name, value in (("n_workers", 0), ("n_classes", 2**40), ("n_labels", 2), ("n_workers", 2**62)):
        wrong = InPlace(votes, [])
        setattr(wrong, name, value)
        with pytest.raises(ValueError, match="passes"):
            fit(wrong)
    with pytest.raises(AttributeError, match="n_workers"):
        fit(object())


def test_what_does_not_fit_is_refused_before_any_work() -> None:
    votes = drawn()
    table, good = votes.table, sums(votes, "full")
    factors, prior = _core.em_factors(np.full((30, 3, 3), 1 / 3), np.full(3, 1 / 3))
    for wrong, message in (
        (good | {"counts": np.zeros((29, 9))}, "counts"),
        (good | {"classes": np.zeros(4)}, "classes"),
        (good | {"counts": np.zeros((9, 30)).T}, "counts"),
        (good | {"gold": np.full(3, -1, np.int32)}, "gold.*3"),
    ):
        with pytest.raises(ValueError, match=message):
            table.em_gather(factors, prior, **wrong)
        with pytest.raises(ValueError, match=message):
            table.em_open(**wrong)
    for bad in (factors[:-1], np.where(factors > 0, 0.0, 0.0), np.full_like(factors, np.nan)):
        with pytest.raises(ValueError, match="factors"):
            table.em_gather(bad, prior, **good)
        with pytest.raises(ValueError, match="factors"):
            table.em_answers(bad, prior)
    with pytest.raises(ValueError, match=r"prior.*3 numbers"):
        _core.em_factors(np.full((30, 3, 3), 1 / 3), np.ones(4))
    with pytest.raises(ValueError, match="sums to"):
        table.em_open(posterior=np.ones((votes.n_tasks, 3)), **good)
    fixed = np.zeros((30, 9))
    fixed.flags.writeable = False
    with pytest.raises((TypeError, ValueError)):
        table.em_open(**good | {"counts": fixed})
    assert not good["counts"].any()
    assert not good["classes"].any()
