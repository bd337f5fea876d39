"""Dawid–Skene against its plain twin, and what its options promise."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

import manyhands as mh
from manyhands.testing.compare import assert_close, assert_sound, never_falls
from manyhands.testing.crowds import STANDARD, crowd
from oracles import em
from twins import PARITY, fit_em

MODELS = ["full", "class", "one-coin"]
ASSIGNMENTS = ["soft", "hard", "hard-then-soft"]
QUIET = {"suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much]}
on_models = pytest.mark.parametrize("model", MODELS)


def assert_parity(model: mh.DawidSkene, wanted: em.Result, tolerance: float = PARITY) -> None:
    for name in ("posterior", "confusion", "prior", "history"):
        assert_close(getattr(model, f"{name}_"), getattr(wanted, name), tolerance, name)
    assert model.n_iter_ == wanted.n_iter
    assert model.converged_ == wanted.converged
    assert model.objective_ == model.history_[-1]


def random_votes(
    n_tasks: int, n_workers: int, n_classes: int, n_rows: int, *, seed: int = 0, weighted: bool = False
) -> mh.Annotations:
    """Labels that are right half the time, on tasks and by workers at random."""
    rng = np.random.default_rng(seed)
    tasks, workers = rng.integers(0, n_tasks, n_rows), rng.integers(0, n_workers, n_rows)
    labels = np.where(rng.random(n_rows) < 0.5, tasks % n_classes, rng.integers(0, n_classes, n_rows))
    return mh.Annotations.from_codes(
        tasks,
        workers,
        labels,
        n_tasks=n_tasks,
        n_workers=n_workers,
        n_classes=n_classes,
        weights=rng.uniform(0.2, 3.0, n_rows) if weighted else None,
    )


# ----------------------------------------------------------------------------------------------------- parity


@st.composite
def tables(draw: st.DrawFn) -> mh.Annotations:
    """Small tables, with tasks, workers and classes that may be without annotations."""
    sizes = [draw(st.integers(1, most)) for most in (8, 5, 5)]
    row = st.tuples(*(st.integers(0, size - 1) for size in sizes))
    rows = np.array(draw(st.lists(row, min_size=1, max_size=50)))
    weights = None
    if draw(st.booleans()):
        weight = st.sampled_from([0.0, 0.1, 0.2, 0.3, 1.0, 2.0, 7.5])
        weights = draw(st.lists(weight, min_size=len(rows), max_size=len(rows)))
    n_tasks, n_workers, n_classes = sizes
    return mh.Annotations.from_codes(
        *rows.T, n_tasks=n_tasks, n_workers=n_workers, n_classes=n_classes, weights=weights
    )


@st.composite
def models(draw: st.DrawFn, votes: mh.Annotations) -> mh.DawidSkene:
    """Any settings that fit the table, but for acceleration and restarts."""
    n, m, k = votes.n_tasks, votes.n_workers, votes.n_classes
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    gold = {int(t): int(rng.integers(k)) for t in np.flatnonzero(rng.random(n) < 0.3)}
    prior = {int(w): rng.gamma(1.0, size=(k, k)) for w in np.flatnonzero(rng.random(m) < 0.3)}
    init = draw(st.sampled_from(["majority", "shares", "posterior", "parameters"]))
    starts = {
        "posterior": rng.dirichlet(np.ones(k), n),
        "parameters": (rng.dirichlet(np.ones(k)), rng.dirichlet(np.ones(k), (m, k))),
    }
    pseudo_counts = [0.0, 0.01, 1.0, (2.0, 1.0), (1.0, 0.0), rng.gamma(1.0, size=(k, k))]
    return mh.DawidSkene(
        model=draw(st.sampled_from(MODELS)),
        assignment=draw(st.sampled_from(ASSIGNMENTS)),
        init=starts.get(init, init),
        pseudo_count=pseudo_counts[draw(st.integers(0, len(pseudo_counts) - 1))],
        class_pseudo_count=[0.0, 1.0, rng.gamma(1.0, size=k)][draw(st.integers(0, 2))],
        worker_prior=prior if draw(st.booleans()) else None,
        gold=gold if gold and draw(st.booleans()) else None,
        max_iter=draw(st.integers(1, 10)),
        tol=0.0,
    )


def stable(model: mh.DawidSkene, votes: mh.Annotations, wanted: em.Result) -> bool:
    """Whether the twin itself gives the same answer when its input changes by less than a rounding.

    Where it does not there is nothing to compare: an accuracy within a few ulps of one, a row whose total
    lies at the floor.
    """
    rows = em.Rows.of(votes)
    for factor in (1 - 1e-13, 1 + 1e-13):
        other = fit_em(model, votes, replace(rows, weights=rows.weights * factor))
        pairs = [(getattr(wanted, name), getattr(other, name)) for name in ("posterior", "confusion", "history")]
        if not all(np.allclose(a, b, rtol=1e-9, atol=1e-9) for a, b in pairs):
            return False
    return True


@settings(max_examples=150, **QUIET)
@given(data=st.data())
def test_parity_with_the_twin(data: st.DataObject) -> None:
    votes = data.draw(tables())
    model = data.draw(models(votes))
    wanted = fit_em(model, votes)
    assume(stable(model, votes, wanted))
    assert_parity(model.fit(votes), wanted)


@on_models
@pytest.mark.parametrize("n_classes", [1, 2, 3, 4, 5, 6, 8, 10, 16, 17, 300])
def test_parity_for_any_number_of_classes(model: str, n_classes: int) -> None:
    for weighted in (False, True):
        votes = random_votes(60, 8, n_classes, 400, weighted=weighted)
        fit = mh.DawidSkene(model=model, pseudo_count=1.0, max_iter=5, tol=0.0).fit(votes)
        assert_parity(fit, fit_em(fit, votes))


@on_models
def test_parity_with_more_parameters_than_annotations(model: str) -> None:
    # Too many workers for a table of counts per chunk: the core gathers counts in worker order instead.
    for weighted in (False, True):
        votes = random_votes(3000, 5000, 10, 15_000, weighted=weighted)
        fit = mh.DawidSkene(model=model, pseudo_count=0.1, max_iter=3, tol=0.0).fit(votes)
        assert_parity(fit, fit_em(fit, votes))


@on_models
def test_parity_over_several_chunks(model: str) -> None:
    votes = random_votes(60_000, 40, 3, 300_000)
    fit = mh.DawidSkene(model=model, max_iter=2, tol=0.0).fit(votes)
    assert_parity(fit, fit_em(fit, votes))


@on_models
def test_ten_thousand_labels_on_one_task(model: str) -> None:
    rng = np.random.default_rng(0)
    labels = np.concatenate([rng.random(10_000) < 0.4, rng.random(10_000) < 0.6]).astype(int)
    votes = mh.Annotations.from_codes(
        np.repeat([0, 1], 10_000), np.tile(np.arange(200), 100), labels, n_tasks=2, n_workers=200, n_classes=2
    )
    fit = mh.DawidSkene(model=model, pseudo_count=1.0, max_iter=4, tol=0.0).fit(votes)
    assert_sound(fit)
    assert_parity(fit, fit_em(fit, votes))
    assert fit.labels_.tolist() == [0, 1]


def test_stops_when_the_twin_does() -> None:
    votes = STANDARD.votes()
    for tol in (1e-2, 1e-4, 1e-6):
        fit = mh.DawidSkene(tol=tol, max_iter=2000).fit(votes)
        assert_parity(fit, fit_em(fit, votes))
        assert fit.converged_
        assert len(fit.history_) == fit.n_iter_ + 1


def test_one_class_is_certain() -> None:
    votes = crowd(n_classes=1).votes()
    for model in MODELS:
        fit = mh.DawidSkene(model=model).fit(votes)
        np.testing.assert_array_equal(fit.posterior_, 1.0)
        np.testing.assert_array_equal(fit.confusion_, 1.0)
        assert fit.objective_ == 0.0
        assert fit.converged_


def test_a_class_never_met_has_an_even_row() -> None:
    # The second worker answers the first task only, which is certainly an "a".
    votes = mh.Annotations.from_arrays([1, 1, 2, 2], ["x", "y", "x", "z"], ["a", "a", "b", "b"])
    fit = mh.DawidSkene(pseudo_count=0.0, gold={1: "a", 2: "b"}, max_iter=3, tol=0.0).fit(votes)
    np.testing.assert_allclose(fit.confusion_[1], [[1.0, 0.0], [0.5, 0.5]], atol=1e-20)


# ---------------------------------------------------------------------------------------------- the objective


@settings(max_examples=150, **QUIET)
@given(data=st.data())
def test_the_objective_never_falls(data: st.DataObject) -> None:
    votes = data.draw(tables())
    model = data.draw(models(votes))
    model.set_params(accelerate=data.draw(st.booleans()), max_iter=data.draw(st.integers(1, 60)))
    assert_sound(model.fit(votes))


def test_the_objective_is_the_penalised_log_likelihood() -> None:
    votes = STANDARD.votes()
    fit = mh.DawidSkene(pseudo_count=(2.0, 1.0), class_pseudo_count=3.0, max_iter=7, tol=0.0).fit(votes)
    rows = em.Rows.of(votes)
    likelihood = 0.0
    for task in range(votes.n_tasks):
        joint = fit.prior_.copy()
        for worker, label in zip(rows.workers[rows.tasks == task], rows.labels[rows.tasks == task], strict=True):
            joint *= fit.confusion_[worker, :, label]
        likelihood += np.log(joint.sum())
    diagonal = np.log(np.einsum("mkk->mk", fit.confusion_))
    penalty = 2.0 * diagonal.sum() + 0.5 * (np.log(fit.confusion_).sum() - diagonal.sum())
    assert fit.objective_ == pytest.approx(likelihood + penalty + np.log(fit.prior_).sum(), rel=1e-12)


# ------------------------------------------------------------------------------------------- hard assignments


def test_hard_assignment_is_the_likelihood_of_the_best_classes() -> None:
    votes = STANDARD.votes()
    fit = mh.DawidSkene(assignment="hard", pseudo_count=0.01, max_iter=50).fit(votes)
    joint = em.log_joint(em.Rows.of(votes), fit.prior_, fit.confusion_)
    wanted = joint.max(axis=1).sum() + 0.01 / 3 * np.log(fit.confusion_).sum()
    assert fit.converged_
    assert fit.objective_ == pytest.approx(wanted, rel=1e-9)
    assert len(fit.history_) == fit.n_iter_
    # Posteriors are soft all the same.
    assert ((fit.posterior_ > 1e-6) & (fit.posterior_ < 1 - 1e-6)).any()


def test_hard_then_soft_reports_the_soft_phase() -> None:
    votes = STANDARD.votes()
    hard = mh.DawidSkene(assignment="hard", max_iter=500).fit(votes)
    both = mh.DawidSkene(assignment="hard-then-soft", max_iter=2000).fit(votes)
    after = mh.DawidSkene(init=(hard.prior_, hard.confusion_), max_iter=2000).fit(votes)
    assert both.n_iter_ == hard.n_iter_ + after.n_iter_
    assert_close(both.history_, after.history_, 1e-12, "history")
    assert_close(both.posterior_, after.posterior_, 1e-9, "posterior")


@settings(max_examples=60, **QUIET)
@given(
    rows=st.lists(st.tuples(*[st.integers(0, n) for n in (2, 3, 2)]), min_size=1, max_size=8),
    order=st.permutations(range(4)),
    model=st.sampled_from(MODELS),
)
@example(rows=[(1, 3, 2), (1, 1, 1)], order=[2, 3, 0, 1], model="class")
@example(rows=[(1, 1, 2), (1, 1, 1), (1, 2, 1), (1, 0, 2)], order=[3, 0, 1, 2], model="one-coin")
def test_ties_of_hard_assignments_do_not_hang_on_the_last_bit(rows, order, model: str) -> None:
    tasks, workers, labels = np.array(rows).T
    fits = [
        mh.DawidSkene(model=model, assignment="hard", init="shares", pseudo_count=1.0, max_iter=5, tol=0.0).fit(
            mh.Annotations.from_codes(tasks, who, labels, n_tasks=3, n_workers=4, n_classes=3)
        )
        for who in (workers, np.array(order)[workers])
    ]
    assert_close(fits[1].posterior_, fits[0].posterior_, 1e-9, "posterior, workers renamed")


def test_a_tied_majority_is_divided_evenly() -> None:
    for weights in ([1.0, 2.0, 3.0], [0.1, 0.2, 0.3]):
        votes = mh.Annotations.from_arrays([1, 1, 1], ["x", "y", "z"], ["a", "a", "b"], weights=weights)
        fit = mh.DawidSkene(init="majority", pseudo_count=1.0, max_iter=1, tol=0.0).fit(votes)
        np.testing.assert_allclose(fit.posterior_, 0.5, atol=1e-9)


# ------------------------------------------------------------------------------------------------------- gold


def spammed(seed: int = 0) -> tuple[mh.Annotations, np.ndarray]:
    """A crowd that is mostly wrong in the same way: only gold can tell."""
    rng = np.random.default_rng(seed)
    n_tasks, n_workers = 300, 9
    truth = rng.integers(0, 3, n_tasks)
    tasks, workers = np.divmod(np.arange(n_tasks * n_workers), n_workers)
    right = rng.random(len(tasks)) < np.where(workers < 3, 0.9, 0.25)
    labels = np.where(right, truth[tasks], (truth[tasks] + 1) % 3)
    votes = mh.Annotations.from_codes(tasks, workers, labels, n_tasks=n_tasks, n_workers=n_workers, n_classes=3)
    return votes, truth


@on_models
def test_gold_is_kept_and_helps(model: str) -> None:
    votes, truth = spammed()
    known = np.arange(0, 300, 3)
    others = np.setdiff1d(np.arange(300), known)
    gold = {int(task): int(truth[task]) for task in known}
    with_gold = mh.DawidSkene(model=model, gold=gold, max_iter=500).fit(votes)
    without = mh.DawidSkene(model=model, max_iter=500).fit(votes)
    np.testing.assert_array_equal(with_gold.labels_[known], truth[known])
    np.testing.assert_array_equal(with_gold.posterior_[known], np.eye(3)[truth[known]])
    score, baseline = (np.mean(fit.labels_[others] == truth[others]) for fit in (with_gold, without))
    assert score > 0.9
    assert baseline < 0.5


def test_gold_in_any_form() -> None:
    import pandas as pd
    import pyarrow as pa

    votes = STANDARD.votes()
    gold = {"t003": "c1", "t001": "c2"}
    fit = mh.DawidSkene(gold=gold, max_iter=5, tol=0.0).fit(votes)
    columns = {"task": list(gold), "label": list(gold.values())}
    for form in (
        (columns["task"], columns["label"]),
        pd.DataFrame(columns),
        pa.table(columns),
        pd.Series(gold),
    ):
        other = mh.DawidSkene(gold=form, max_iter=5, tol=0.0).fit(votes)
        np.testing.assert_array_equal(other.posterior_, fit.posterior_)
    assert fit.labels_[[3, 1]].tolist() == ["c1", "c2"]


def test_gold_may_name_a_class_that_nobody_did() -> None:
    votes = STANDARD.votes(classes=[*STANDARD.classes, "rare"])
    fit = mh.DawidSkene(gold={"t000": "rare"}, max_iter=5, tol=0.0).fit(votes)
    assert fit.labels_[0] == "rare"
    assert_sound(fit)


# ---------------------------------------------------------------------------------------- starts and restarts


def test_restarts_never_lower_the_objective() -> None:
    improved = 0
    for seed in range(12):
        votes = crowd(n_tasks=30, n_workers=6, n_classes=4, per_task=3, seed=seed).votes()
        settings = {"max_iter": 100, "tol": 0.0, "pseudo_count": 0.1}
        fits = [mh.DawidSkene(restarts=n, seed=seed, **settings).fit(votes) for n in (0, 2, 6)]
        objectives = [fit.objective_ for fit in fits]
        assert objectives == sorted(objectives)
        improved += objectives[-1] > objectives[0] + 1e-3
    assert improved, "no start led anywhere else: the test shows nothing"


def test_seeds_of_restarts_differ() -> None:
    votes = crowd(n_tasks=30, n_workers=6, n_classes=4, per_task=3, seed=1).votes()
    settings = {"restarts": 1, "max_iter": 3, "tol": 0.0, "init": np.full((30, 4), 0.25), "pseudo_count": 0.1}
    objectives = {mh.DawidSkene(seed=seed, **settings).fit(votes).objective_ for seed in range(4)}
    assert len(objectives) == 4


def test_starts_differ() -> None:
    votes = STANDARD.votes()
    first = {
        init: mh.DawidSkene(init=init, max_iter=1, tol=0.0).fit(votes).history_[0] for init in ("majority", "shares")
    }
    assert first["majority"] != first["shares"]


def test_start_from_a_fitted_aggregator() -> None:
    votes = STANDARD.votes()
    known = votes.select(workers=votes.workers[:6])
    for source in (mh.DawidSkene(max_iter=4, tol=0.0), mh.MajorityVote(), mh.WeightedVote()):
        source.fit(known)
        average = np.average(source.confusion_, axis=0, weights=known.labels_per_worker)
        confusion = np.concatenate([source.confusion_, [average, average]])
        fit = mh.DawidSkene(init=source, max_iter=4, tol=0.0).fit(votes)
        given = mh.DawidSkene(init=(source.prior_, confusion), max_iter=4, tol=0.0).fit(votes)
        assert_close(fit.history_, given.history_, 1e-12, "history")
        assert_parity(given, fit_em(given, votes))


@on_models
def test_warm_start(model: str) -> None:
    votes = STANDARD.votes()
    fit = mh.DawidSkene(model=model, max_iter=5, tol=0.0, warm_start=True).fit(votes)
    first, objective, parameters = fit.history_, fit.objective_, (fit.prior_, fit.confusion_)
    fit.fit(votes)
    assert fit.history_[0] == pytest.approx(objective, rel=1e-9)
    assert fit.history_[0] > first[0]
    wanted = fit_em(mh.DawidSkene(model=model, init=parameters, max_iter=5, tol=0.0), votes)
    assert_parity(fit, wanted)
    # Without it, a second fit is as the first.
    fit.set_params(warm_start=False).fit(votes)
    np.testing.assert_array_equal(fit.history_, first)


def test_warm_start_matches_workers_by_name() -> None:
    votes = STANDARD.votes()
    later = mh.Annotations.from_arrays(
        ["n1", "n1", "n2", "n2"],
        ["new", "w07", "w07", "w00"],
        ["c0", "c1", "c2", "c2"],
        classes=votes.classes,
    )
    fit = mh.DawidSkene(max_iter=5, tol=0.0, warm_start=True).fit(votes)
    average = np.average(fit.confusion_, axis=0, weights=votes.labels_per_worker)
    start = (fit.prior_, np.stack([average, fit.confusion_[0], fit.confusion_[7]]))
    assert later.workers.tolist() == ["new", "w00", "w07"]
    wanted = fit_em(mh.DawidSkene(init=start, max_iter=5, tol=0.0), later)
    assert_parity(fit.fit(later), wanted)


# ----------------------------------------------------------------------------------------------------- priors


def test_forms_of_pseudo_counts() -> None:
    votes = STANDARD.votes()
    pair = np.full((3, 3), 0.5) + 1.5 * np.eye(3)
    same = {
        "a number": (0.6, np.full((3, 3), 0.2)),
        "a pair": ((2.0, 1.0), pair),
        "a whole number": (3, np.ones((3, 3))),
    }
    for what, (short, spelt_out) in same.items():
        a, b = (mh.DawidSkene(pseudo_count=p, max_iter=5, tol=0.0).fit(votes) for p in (short, spelt_out))
        assert_close(a.history_, b.history_, 1e-12, what)
    a, b = (mh.DawidSkene(class_pseudo_count=p, max_iter=5, tol=0.0).fit(votes) for p in (1.5, [0.5, 0.5, 0.5]))
    assert_close(a.history_, b.history_, 1e-12, "class_pseudo_count")


def test_pseudo_counts_pull_towards_themselves() -> None:
    votes = STANDARD.votes()
    heavy = mh.DawidSkene(pseudo_count=(8e6, 2e6), class_pseudo_count=[1e6, 1e6, 2e6], max_iter=5, tol=0.0)
    heavy.fit(votes)
    np.testing.assert_allclose(heavy.confusion_, np.full((8, 3, 3), 0.1) + 0.7 * np.eye(3), atol=1e-4)
    np.testing.assert_allclose(heavy.prior_, [0.25, 0.25, 0.5], atol=1e-4)


def test_worker_prior_replaces_the_shared_one() -> None:
    votes = STANDARD.votes()
    believed = np.array([[8.0, 1.0, 1.0], [2.0, 6.0, 2.0], [0.0, 0.0, 10.0]]) * 1e6
    fit = mh.DawidSkene(worker_prior={"w03": believed}, pseudo_count=0.5, max_iter=5, tol=0.0).fit(votes)
    np.testing.assert_allclose(fit.confusion_[3], believed / 1e7, atol=1e-4)
    assert_parity(fit, fit_em(fit, votes))
    shared = mh.DawidSkene(worker_prior=dict.fromkeys(STANDARD.workers, np.full((3, 3), 0.5)), max_iter=5, tol=0.0)
    plain = mh.DawidSkene(pseudo_count=np.full((3, 3), 0.5), max_iter=5, tol=0.0)
    assert_close(shared.fit(votes).history_, plain.fit(votes).history_, 1e-12, "history")


# ----------------------------------------------------------------------------------------------- acceleration


@on_models
def test_accelerated_em_reaches_the_plain_objective(model: str) -> None:
    saved = 0
    for seed in range(5):
        votes = crowd(n_tasks=80, n_workers=8, n_classes=3, per_task=4, seed=seed).votes()
        # A prior that keeps the optimum unique, so that both have to meet.
        settings = {"model": model, "pseudo_count": (4.0, 2.0), "max_iter": 5000, "tol": 1e-12}
        plain = mh.DawidSkene(**settings).fit(votes)
        fast = mh.DawidSkene(accelerate=True, **settings).fit(votes)
        assert fast.objective_ >= plain.objective_ - 1e-9 * abs(plain.objective_)
        assert never_falls(fast.history_)
        assert fast.converged_
        saved += plain.n_iter_ - fast.n_iter_
    assert saved > 0


def test_accelerated_em_keeps_to_max_iter() -> None:
    votes = STANDARD.votes()
    before = -np.inf
    for max_iter in range(1, 30):
        fit = mh.DawidSkene(accelerate=True, max_iter=max_iter, tol=0.0).fit(votes)
        assert fit.n_iter_ == max_iter
        assert len(fit.history_) <= max_iter + 1
        # More passes never leave it worse off.
        assert fit.objective_ >= before - 1e-9 * abs(fit.objective_)
        before = fit.objective_


# ------------------------------------------------------------------------------------------------ convergence


def test_warns_when_the_limit_comes_first() -> None:
    votes = STANDARD.votes()
    with pytest.warns(mh.ConvergenceWarning, match="max_iter=2.*tol=1e-06"):
        fit = mh.DawidSkene(max_iter=2).fit(votes)
    assert not fit.converged_
    assert fit.n_iter_ == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # A fixed number of passes is nothing to warn of.
        assert not mh.DawidSkene(max_iter=2, tol=0.0).fit(votes).converged_
        assert mh.DawidSkene(max_iter=2000).fit(votes).converged_


# --------------------------------------------------------------------------------------------- bad parameters

_K, _N, _M = len(STANDARD.classes), len(STANDARD.tasks), len(STANDARD.workers)
_EVEN = np.full((_M, _K, _K), 1 / _K)


def _spoilt(shape: tuple[int, ...], value: float) -> np.ndarray:
    out = np.full(shape, 1 / shape[-1])
    out.flat[0] = value
    return out


BAD = {
    "model": ({"model": "two-coin"}, "model must be one of 'full', 'class', 'one-coin', not 'two-coin'"),
    "assignment": ({"assignment": "medium"}, "assignment must be one of"),
    "init name": ({"init": "random forest"}, "init must be one of 'majority', 'shares'"),
    "posterior of the wrong shape": (
        {"init": np.ones((_N, 2)) / 2},
        r"posterior given as init has shape \(40, 2\)",
    ),
    "posterior with NaN": ({"init": _spoilt((_N, _K), np.nan)}, "posterior given as init must hold prob"),
    "posterior below 0": ({"init": _spoilt((_N, _K), -0.1)}, "posterior given as init must hold prob"),
    "posterior that does not sum to one": ({"init": np.ones((_N, _K))}, "sum to one"),
    "prior of the wrong shape": ({"init": ([0.5, 0.5], _EVEN)}, "prior given as init has shape"),
    "prior with NaN": ({"init": ([0.5, 0.5, np.nan], _EVEN)}, "prior given as init must hold prob"),
    "confusion of the wrong shape": (
        {"init": ([0.5, 0.5, 0], _EVEN[1:])},
        "confusion given as init has shape",
    ),
    "confusion with NaN": (
        {"init": ([1, 0, 0], _spoilt(_EVEN.shape, np.nan))},
        "confusion given as init must",
    ),
    "confusion that does not sum to one": ({"init": ([1, 0, 0], 2 * _EVEN)}, "sum to one"),
    "negative pseudo-count": ({"pseudo_count": -0.1}, "pseudo_count must hold finite numbers of at least 0"),
    "pseudo-count NaN": ({"pseudo_count": np.nan}, "pseudo_count must hold finite"),
    "pseudo-count infinite": ({"pseudo_count": np.inf}, "pseudo_count must hold finite"),
    "pseudo-count of three": (
        {"pseudo_count": (1.0, 2.0, 3.0)},
        r"pseudo_count must be .* a pair \(right, wrong\)",
    ),
    "negative pair": ({"pseudo_count": (1.0, -1.0)}, "pseudo_count must hold finite"),
    "pseudo-count shape": (
        {"pseudo_count": np.ones((2, 2))},
        r"pseudo_count has shape \(2, 2\), not \(3, 3\)",
    ),
    "negative entry": ({"pseudo_count": -np.ones((_K, _K))}, "pseudo_count must hold finite"),
    "negative class pseudo-count": ({"class_pseudo_count": -1.0}, "class_pseudo_count must hold finite"),
    "class pseudo-count shape": ({"class_pseudo_count": [1.0, 1.0]}, "class_pseudo_count has shape"),
    "worker prior of nobody": ({"worker_prior": {"nobody": np.ones((3, 3))}}, "worker_prior names 'nobody'"),
    "worker prior shape": ({"worker_prior": {"w00": np.ones(3)}}, "worker_prior of 'w00' has shape"),
    "worker prior below 0": ({"worker_prior": {"w00": -np.ones((3, 3))}}, "worker_prior of 'w00' must hold"),
    "gold on an unknown task": ({"gold": {"t000": "c0", "t999": "c0"}}, "'t999'"),
    "gold of an unknown class": ({"gold": {"t005": "c9"}}, "gold gives task 't005' the class 'c9'"),
    "gold given twice": ({"gold": (["t000", "t000"], ["c0", "c1"])}, "'t000'"),
    "max_iter": ({"max_iter": 0}, "max_iter must be at least 1, not 0"),
    "tol": ({"tol": -1.0}, "tol must be at least 0, not -1"),
    "tol NaN": ({"tol": np.nan}, "tol must be a finite number, not nan"),
    "restarts": ({"restarts": -1}, "restarts must be at least 0, not -1"),
    "seed": ({"seed": -1}, "seed must be at least 0, not -1"),
    "start with other classes": (
        {"init": mh.MajorityVote().fit(crowd(n_classes=4).votes())},
        "same classes=",
    ),
}


@pytest.mark.parametrize(("params", "message"), BAD.values(), ids=BAD)
def test_bad_parameters_are_named(params, message: str) -> None:
    model = mh.DawidSkene(**params)
    with pytest.raises(ValueError, match=message):
        model.fit(STANDARD.votes())
    with pytest.raises(mh.NotFittedError):
        _ = model.labels_


# --------------------------------------------------------------------------------------------------- recovery


def drawn(model: str, n_tasks: int, seed: int) -> tuple[mh.Annotations, np.ndarray, np.ndarray]:
    """Votes of ten workers on all tasks, drawn from the model; the truth and the true confusion."""
    rng = np.random.default_rng(seed)
    n_workers, k = 10, 3
    if model == "full":
        confusion = 0.55 * np.eye(k) + 0.45 * rng.dirichlet(np.ones(k), (n_workers, k))
    else:
        size = (n_workers, k, 1) if model == "class" else (n_workers, 1, 1)
        accuracy = rng.uniform(0.5, 0.95, size)
        confusion = np.where(np.eye(k, dtype=bool), accuracy, (1 - accuracy) / (k - 1))
    truth = rng.choice(k, n_tasks, p=[0.5, 0.3, 0.2])
    tasks, workers = np.divmod(np.arange(n_tasks * n_workers), n_workers)
    below = confusion.cumsum(axis=2)[workers, truth[tasks]]
    labels = (rng.random((len(tasks), 1)) > below[:, :-1]).sum(axis=1)
    votes = mh.Annotations.from_codes(tasks, workers, labels, n_tasks=n_tasks, n_workers=n_workers, n_classes=k)
    return votes, truth, confusion


@on_models
def test_recovers_what_the_data_were_drawn_from(model: str) -> None:
    sizes, repeats = (300, 1200, 4800), 4
    errors = np.zeros((len(sizes), repeats))
    for i, size in enumerate(sizes):
        for seed in range(repeats):
            votes, truth, confusion = drawn(model, size, seed)
            fit = mh.DawidSkene(model=model, max_iter=500).fit(votes)
            errors[i, seed] = np.sqrt(np.mean((fit.confusion_ - confusion) ** 2))
            assert np.mean(fit.labels_ == truth) > 0.9
    error = errors.mean(axis=1)
    # Four times the tasks halve the error; the last figure is the root mean square over all entries.
    for smaller, larger in zip(error[1:], error[:-1], strict=True):
        assert 1.5 < larger / smaller < 2.7, error
    assert error[-1] < {"full": 0.015, "class": 0.015, "one-coin": 0.006}[model], error
