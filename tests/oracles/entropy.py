"""Minimax conditional entropy as one would write it on paper: explicit features, full Hessians, nothing shared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax, logsumexp

from oracles.em import Rows, vote_counts


@dataclass
class Minimax:
    posterior: np.ndarray
    confusion: np.ndarray
    sigma: np.ndarray
    tau: np.ndarray
    history: list[float]


def features(k: int, ordinal: bool) -> np.ndarray:
    """Matrix from numbers to cells, (K², numbers): the identity, or indicators of both sides of each place."""
    if not ordinal:
        return np.eye(k * k)
    truth, label = np.divmod(np.arange(k * k), k)
    columns = [
        ((truth >= place) == above_truth) & ((label >= place) == above_label)
        for place in range(1, k)
        for above_truth in (False, True)
        for above_label in (False, True)
    ]
    return np.array(columns, float).reshape(-1, k * k).T


def newton(numbers, basis, own, others, labels, masses, penalty):
    """A step of Newton's method on the expected log-likelihood, at most four long.

    `own` (K, K) and `others` (L, K, K) are logarithms of factors, `masses` (L, K) weights of labels by class.
    """
    k = own.shape[0]
    slope, bend = np.zeros(k * k), np.zeros((k * k, k * k))
    for other, label, mass in zip(others, labels, masses, strict=True):
        p = np.exp(log_softmax(own + other, axis=1))
        for c in range(k):
            cells = slice(c * k, (c + 1) * k)
            slope[cells] += mass[c] * (np.eye(k)[label] - p[c])
            bend[cells, cells] += mass[c] * (np.diag(p[c]) - np.outer(p[c], p[c]))
    slope = basis.T @ slope - penalty * numbers
    bend = basis.T @ bend @ basis + penalty * np.eye(len(numbers))
    step = np.linalg.solve(bend, slope)
    return step * min(1.0, 4.0 / max(np.abs(step).max(initial=0.0), 1e-300))


def climb(numbers, step, evaluate):
    """Halve the step until the value does not fall by more than rounding."""
    value = evaluate(numbers)
    least = value - 1e-13 * abs(value)
    for _ in range(20):
        if evaluate(numbers + step) >= least:
            return numbers + step
        step = step / 2
    return numbers


def log_likelihoods(own, others, labels, weights):
    """Weighted log-likelihood of all labels of a task, by class, (K,)."""
    logs = log_softmax(own + others, axis=-1)
    return (weights[:, None] * logs[np.arange(len(labels)), :, labels]).sum(axis=0)


def task_value(numbers, basis, others, labels, weights, penalty):
    """The log-evidence of a task less the penalty, and the posterior."""
    k = others.shape[-1]
    joint = log_likelihoods((basis @ numbers).reshape(k, k), others, labels, weights) - np.log(k)
    value = logsumexp(joint)
    return value - penalty * (numbers**2).sum() / 2, np.exp(joint - value)


def move_task(numbers, basis, others, labels, weights, penalty):
    """One step of a task with its posterior summed out."""
    k = others.shape[-1]
    _, posterior = task_value(numbers, basis, others, labels, weights, penalty)
    own = (basis @ numbers).reshape(k, k)
    step = newton(numbers, basis, own, others, labels, weights[:, None] * posterior, penalty)
    return climb(numbers, step, lambda x: task_value(x, basis, others, labels, weights, penalty)[0])


def move_worker(numbers, basis, others, labels, masses, penalty):
    """One step of a worker, given the posteriors (in the masses)."""
    k = others.shape[-1]

    def value(x):
        logs = log_softmax((basis @ x).reshape(k, k) + others, axis=-1)
        return (masses * logs[np.arange(len(labels)), :, labels]).sum() - penalty * (x**2).sum() / 2

    step = newton(numbers, basis, (basis @ numbers).reshape(k, k), others, labels, masses, penalty)
    return climb(numbers, step, value)


def minimax_fit(rows: Rows, *, ordinal, worker_penalty, task_penalty, max_iter: int, tol: float = 0.0) -> Minimax:
    """From vote shares: workers, then tasks, again and again."""
    n, m, k = rows.n_tasks, rows.n_workers, rows.n_classes
    basis = features(k, ordinal)
    theta, phi = np.zeros((m, basis.shape[1])), np.zeros((n, basis.shape[1]))
    of_task = [np.flatnonzero(rows.tasks == i) for i in range(n)]
    of_worker = [np.flatnonzero(rows.workers == j) for j in range(m)]
    counts = vote_counts(rows)
    counts[counts.sum(axis=1) == 0] = 1.0
    posterior = counts / counts.sum(axis=1, keepdims=True)

    def cells(numbers):
        return (numbers @ basis.T).reshape(-1, k, k)

    history: list[float] = []
    while len(history) < max_iter:
        tau = cells(phi)
        for j, at in enumerate(of_worker):
            masses = rows.weights[at, None] * posterior[rows.tasks[at]]
            theta[j] = move_worker(theta[j], basis, tau[rows.tasks[at]], rows.labels[at], masses, worker_penalty)
        sigma, total = cells(theta), -worker_penalty * (theta**2).sum() / 2
        for i, at in enumerate(of_task):
            said = (basis, sigma[rows.workers[at]], rows.labels[at], rows.weights[at], task_penalty)
            phi[i] = move_task(phi[i], *said)
            value, posterior[i] = task_value(phi[i], *said)
            total += value
        history.append(total)
        if len(history) > 1 and abs(history[-1] - history[-2]) < tol * max(abs(total), np.finfo(float).tiny):
            break
    sigma, tau = cells(theta), cells(phi)
    confusion = np.exp(log_softmax(sigma, axis=-1))
    for j, at in enumerate(of_worker):
        p = np.exp(log_softmax(sigma[j] + tau[rows.tasks[at]], axis=-1))
        masses = rows.weights[at, None] * posterior[rows.tasks[at]]
        known = masses.sum(axis=0) > 0
        average = (masses[:, :, None] * p).sum(axis=0)
        confusion[j][known] = average[known] / masses.sum(axis=0)[known, None]
    return Minimax(posterior, confusion, sigma, tau, history)


def minimax_posterior(rows: Rows, sigma, *, ordinal, task_penalty) -> np.ndarray:
    """Posteriors of tasks whose numbers are found anew, (N, K)."""
    k = rows.n_classes
    basis, posterior = features(k, ordinal), np.zeros((rows.n_tasks, k))
    for i in range(rows.n_tasks):
        at = np.flatnonzero(rows.tasks == i)
        said = (basis, sigma[rows.workers[at]], rows.labels[at], rows.weights[at], task_penalty)
        numbers = np.zeros(basis.shape[1])
        for _ in range(100):
            numbers = move_task(numbers, *said)
        posterior[i] = task_value(numbers, *said)[1]
    return posterior
