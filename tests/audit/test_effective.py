"""Effective number of annotators."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import multivariate_normal

import manyhands as mh
from manyhands.audit.effective import MOST_IN_PANEL, error_correlation_of, from_errors, kish

SIZES = [(judges, tasks) for judges in (5, 9, 24) for tasks in (25, 100, 1000)]


def panel(
    judges: int, tasks: int, *, shared: float = 0.0, seed: int = 0
) -> tuple[mh.Annotations, tuple[object, object]]:
    """Judges of accuracies .6 to .9 whose errors share a normal factor, and known answers of all tasks."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, tasks)
    factor = math.sqrt(shared) * rng.normal(size=(tasks, 1)) + math.sqrt(1 - shared) * rng.normal(size=(tasks, judges))
    wrong = ndtr(factor) > rng.uniform(0.6, 0.9, judges)
    at, who = np.indices(wrong.shape)
    log = mh.Annotations.from_codes(
        at.ravel(), who.ravel(), (truth[:, None] ^ wrong).ravel(), n_tasks=tasks, n_workers=judges, n_classes=2
    )
    return log, (log.tasks, truth)


def errors(tasks: int, judges: int, seed: int) -> tuple[np.ndarray, ...]:
    """Correlated errors with some missing, as columns, and strata of tasks."""
    rng = np.random.default_rng(seed)
    wrong = (rng.normal(size=(tasks, 1)) + rng.normal(size=(tasks, judges)) > 0.8).astype(float)
    task, worker = np.nonzero(rng.random((tasks, judges)) < 0.8)
    return task, worker, wrong[task, worker], rng.integers(0, 3, tasks)


@pytest.mark.parametrize(("judges", "tasks"), SIZES)
@pytest.mark.parametrize("known", [False, True])
def test_independent_judges_count_in_full(judges: int, tasks: int, known: bool) -> None:
    log, gold = panel(judges, tasks, seed=7)
    number = mh.audit.dependence(log, gold=gold if known else None).effective_annotators
    assert number.n == judges
    assert number.measured is known
    assert number.low <= number.estimate <= number.high == judges
    assert number.estimate > judges / 2
    assert not known or number.low > (1.0 if tasks < 100 else judges / 2)


@pytest.mark.parametrize("known", [False, True])
def test_judges_who_err_together_count_less(known: bool) -> None:
    log, gold = panel(9, 1500, shared=0.5, seed=1)
    wrong = log.table.columns()[2].reshape(1500, 9) != np.asarray(gold[1])[:, None]
    expected = kish(9, (np.corrcoef(wrong.T).sum() - 9) / 72)
    number = mh.audit.dependence(log, gold=gold if known else None).effective_annotators
    assert expected < 4
    assert number.low <= expected <= number.high < 5
    assert known or number.low == 1
    assert float(number) == number.estimate


def test_kish_and_eigenvalue_match_the_matrix_of_correlations() -> None:
    log, (_, truth) = panel(6, 800, shared=0.4, seed=2)
    wrong = (log.table.columns()[2].reshape(800, 6) != truth[:, None]).astype(float)
    centered = wrong - np.stack([wrong[truth == k].mean(axis=0) for k in (0, 1)])[truth]
    matrix = np.corrcoef(centered.T)
    task, worker = np.indices(wrong.shape)
    number = from_errors(task.ravel(), worker.ravel(), wrong.ravel(), truth, 6)
    assert number is not None
    mean = (matrix.sum() - 6) / 30
    assert number.correlation == pytest.approx(mean, abs=1e-12)
    assert number.estimate == pytest.approx(6 / (1 + 5 * mean), rel=1e-12)
    top, usual = np.linalg.eigvalsh(matrix)[-1], 6 / number.null
    assert number.eigenvalue == pytest.approx(6 / (1 + 5 * (top - usual) / (6 - usual)), rel=1e-9)
    assert number.p_value == pytest.approx(1 / 101)
    assert number.eigenvalue_low < number.eigenvalue < number.eigenvalue_high


def test_repeats_are_averaged_and_order_does_not_matter() -> None:
    task, worker, wrong, strata = errors(60, 5, 3)
    once = from_errors(task, worker, wrong, strata, 5)
    mixed = np.random.default_rng(0).permutation(2 * len(task))
    twice = from_errors(*(np.tile(column, 2)[mixed] for column in (task, worker, wrong)), strata, 5)
    assert once is not None
    assert once == twice


def test_a_class_that_is_hard_for_all_is_no_shared_error() -> None:
    rng = np.random.default_rng(4)
    strata = rng.integers(0, 2, 2000)
    wrong = (rng.random((2000, 6)) < np.where(strata == 1, 0.5, 0.05)[:, None]).astype(float)
    task, worker = np.indices(wrong.shape)
    columns = task.ravel(), worker.ravel(), wrong.ravel()
    by_class, plain = from_errors(*columns, strata, 6), from_errors(*columns, 0 * strata, 6)
    assert by_class is not None
    assert plain is not None
    assert by_class.high == 6
    assert plain.high < 4


def test_errors_that_do_not_vary_have_no_number() -> None:
    task, worker = (grid.ravel() for grid in np.indices((20, 4)))
    assert from_errors(task, worker, np.zeros(80), np.zeros(20, int), 4) is None
    assert from_errors(task[:40], 0 * worker[:40], (task[:40] % 2).astype(float), np.zeros(20, int), 1) is None
    log, gold = panel(4, 50, seed=1)
    task, worker, _ = log.table.columns()
    right = np.asarray(gold[1])[task.astype(int)]
    same = mh.Annotations.from_codes(task, worker, right, n_tasks=50, n_workers=4, n_classes=2)
    outcome = mh.audit.dependence(same, gold=gold)
    assert not outcome.effective_annotators.measured
    assert any("too few errors" in remark for remark in outcome.remarks)


def test_large_crowds_count_answers_per_task_and_have_no_eigenvalue() -> None:
    crowd = mh.simulate(600, MOST_IN_PANEL + 40, 2, labels_per_task=6, seed=5)
    gold = (crowd.log.tasks, crowd.truth)
    for number in (
        mh.audit.dependence(crowd.log).effective_annotators,
        mh.audit.dependence(crowd.log, gold=gold).effective_annotators,
    ):
        assert number.n == pytest.approx(6)
        assert number.low <= number.n
        assert number.eigenvalue is None


@pytest.mark.parametrize("latent", [0.0, 0.2, 0.6])
def test_errors_behind_a_latent_factor_correlate_as_the_bivariate_normal_says(latent: float) -> None:
    accuracies = np.array([0.6, 0.75, 0.9])
    bound = ndtri(1 - accuracies)
    total = 0.0
    for i in range(3):
        for j in range(3):
            if i != j:
                both = multivariate_normal.cdf([bound[i], bound[j]], cov=[[1, latent], [latent, 1]])
                p, q = 1 - accuracies[i], 1 - accuracies[j]
                total += (both - p * q) / math.sqrt(p * (1 - p) * q * (1 - q))
    assert error_correlation_of(latent, accuracies, np.ones(3)) == pytest.approx(total / 6, abs=0.006)


def test_families_are_the_groups() -> None:
    league = np.repeat([0, 1, -1], [4, 4, 4])
    crowd = mh.simulate(400, 12, 3, crowd="one-coin", labels_per_task=12, groups=league, copying=0.7, seed=1)
    outcome = mh.audit.dependence(crowd.log)
    assert outcome.families == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert pickle.loads(pickle.dumps(outcome)).effective_annotators == outcome.effective_annotators


def test_gold_for_unknown_tasks_is_named() -> None:
    log, _ = panel(4, 30)
    with pytest.raises(ValueError, match="99"):
        mh.audit.dependence(log, gold={99: 1, 0: 1})
