"""Dawid–Skene against its plain twin: parity, the objective, hard assignments, acceleration, recovery."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from twins import assert_parity, fit_em

import manyhands as mh
from manyhands.testing.compare import assert_close, assert_sound, never_falls
from manyhands.testing.crowds import STANDARD, crowd
from oracles import em

MODELS = ["full", "class", "one-coin"]
ASSIGNMENTS = ["soft", "hard", "hard-then-soft"]
QUIET = {"suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much]}
on_models = pytest.mark.parametrize("model", MODELS)


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
    with pytest.warns(mh.errors.ConvergenceWarning, match="max_iter=2.*tol=1e-06"):
        fit = mh.DawidSkene(max_iter=2).fit(votes)
    assert not fit.converged_
    assert fit.n_iter_ == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # A fixed number of passes is nothing to warn of.
        assert not mh.DawidSkene(max_iter=2, tol=0.0).fit(votes).converged_
        assert mh.DawidSkene(max_iter=2000).fit(votes).converged_


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
