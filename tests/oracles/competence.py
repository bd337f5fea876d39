"""MACE and GLAD as one would write them on paper: logs throughout, every step written out, nothing shared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, expit, gammaln, logsumexp

from oracles.em import FLOOR, Rows


@dataclass
class Mace:
    posterior: np.ndarray
    know: np.ndarray
    strategies: np.ndarray
    history: list[float]


def mace_fit(
    rows: Rows, know, strategies, *, variational, competence, strategy, max_iter: int, tol: float = 0.0
) -> Mace:
    """Alternate M- and E-steps, starting with an E-step from the given parameters."""
    m, k = rows.n_workers, rows.n_classes
    beta_prior = np.tile(competence, (m, 1)).astype(float)
    dirichlet_prior = np.full((m, k), float(strategy))
    weights = np.stack([know, 1 - know], axis=1)
    means, mean_strategies = weights, strategies
    posterior, _ = mace_expect(rows, weights, strategies)
    history: list[float] = []
    for _ in range(max_iter):
        knew = mace_knew(rows, posterior, weights, strategies)
        beta, dirichlet = beta_prior.copy(), dirichlet_prior.copy()
        np.add.at(beta[:, 0], rows.workers, rows.weights * knew)
        np.add.at(beta[:, 1], rows.workers, rows.weights * (1 - knew))
        np.add.at(dirichlet, (rows.workers, rows.labels), rows.weights * (1 - knew))
        means, mean_strategies = shares(beta), shares(dirichlet)
        if variational:
            weights, strategies = geometric(beta), geometric(dirichlet)
            penalty = -divergence(beta, beta_prior) - divergence(dirichlet, dirichlet_prior)
        else:
            weights, strategies = means, mean_strategies
            logs = (np.log(np.maximum(part, FLOOR)) for part in (weights, strategies))
            penalty = sum((prior * log).sum() for prior, log in zip((beta_prior, dirichlet_prior), logs, strict=True))
        posterior, evidence = mace_expect(rows, weights, strategies)
        history.append(evidence + penalty)
        if len(history) > 1 and abs(history[-1] - history[-2]) < tol * abs(history[-1]):
            break
    return Mace(posterior, means[:, 0], mean_strategies, history)


def mace_expect(rows: Rows, weights, strategies) -> tuple[np.ndarray, float]:
    """Posteriors, (N, K), and the log-evidence."""
    k = rows.n_classes
    spam = np.maximum(weights[rows.workers, 1] * strategies[rows.workers, rows.labels], FLOOR)
    right = np.eye(k)[rows.labels] * weights[rows.workers, 0][:, None]
    joint = np.full((rows.n_tasks, k), -np.log(k))
    np.add.at(joint, rows.tasks, rows.weights[:, None] * np.log(right + spam[:, None]))
    evidence = logsumexp(joint, axis=1)
    return np.exp(joint - evidence[:, None]), float(evidence.sum())


def mace_knew(rows: Rows, posterior, weights, strategies) -> np.ndarray:
    """How probable it is that the worker knew, for each annotation."""
    spam = np.maximum(weights[rows.workers, 1] * strategies[rows.workers, rows.labels], FLOOR)
    know = weights[rows.workers, 0]
    return posterior[rows.tasks, rows.labels] * know / (know + spam)


def shares(counts: np.ndarray) -> np.ndarray:
    total = counts.sum(axis=1, keepdims=True)
    return np.where(total > 0, counts / np.where(total > 0, total, 1.0), 1 / counts.shape[1])


def geometric(counts: np.ndarray) -> np.ndarray:
    """exp(E[log p]) under a Dirichlet distribution, for each row."""
    return np.exp(digamma(counts) - digamma(counts.sum(axis=1, keepdims=True)))


def divergence(counts: np.ndarray, prior: np.ndarray) -> float:
    """Kullback–Leibler divergence between Dirichlet distributions, summed over rows."""
    total, prior_total = counts.sum(axis=1), prior.sum(axis=1)
    constant = gammaln(total) - gammaln(counts).sum(axis=1) - gammaln(prior_total) + gammaln(prior).sum(axis=1)
    mean = ((counts - prior) * (digamma(counts) - digamma(total[:, None]))).sum(axis=1)
    return float((constant + mean).sum())


# ------------------------------------------------------------------------------------------------------- GLAD


@dataclass
class Glad:
    posterior: np.ndarray
    ability: np.ndarray
    ease: np.ndarray
    accuracy: np.ndarray
    history: list[float]


def climb(at: float, evaluate: Callable[[float], tuple[float, float, float]]) -> float:
    """One step uphill of at most one, by slope over bend, halved until the value does not fall, but for rounding."""
    value, slope, bend = evaluate(at)
    step = float(np.clip(slope / bend, -1, 1))
    for _ in range(20):
        if evaluate(at + step)[0] >= value - 1e-13 * abs(value):
            return at + step
        step /= 2
    return at


def log_sigmoid(x):
    return -np.logaddexp(0, -x)


def glad_task(labels, weights, ability, prior, ease: float, mean: float):
    """What a task's ease is worth: value, slope, bend; and the posterior."""
    k = len(prior)
    x = ability * np.exp(ease)
    named = labels[:, None] == np.arange(k)
    wrong = log_sigmoid(-x) - np.log(max(k - 1, 1))
    joint = np.log(prior) + (weights[:, None] * np.where(named, log_sigmoid(x)[:, None], wrong[:, None])).sum(axis=0)
    value = logsumexp(joint)
    posterior = np.exp(joint - value)
    slope = (weights * (posterior[labels] - expit(x)) * x).sum() - (ease - mean)
    bend = (weights * x**2 * expit(x) * expit(-x)).sum() + 1
    return (value - (ease - mean) ** 2 / 2, slope, bend), posterior


def glad_fit(rows: Rows, prior, ability, ease, *, max_iter: int, tol: float = 0.0) -> Glad:
    """Coordinate ascent from the prior means: tasks; then workers, the common factor and tasks, again and again."""
    mean_ability, mean_ease = ability, ease
    ability, ease = ability.copy(), ease.copy()
    of_task = [np.flatnonzero(rows.tasks == n) for n in range(rows.n_tasks)]
    of_worker = [np.flatnonzero(rows.workers == w) for w in range(rows.n_workers)]
    posterior = np.zeros((rows.n_tasks, rows.n_classes))

    def move_tasks() -> float:
        total = -((ability - mean_ability) ** 2).sum() / 2
        for n, at in enumerate(of_task):
            said = (rows.labels[at], rows.weights[at], ability[rows.workers[at]], prior)
            ease[n] = climb(ease[n], lambda b, said=said, n=n: glad_task(*said, b, mean_ease[n])[0])
            (value, _, _), posterior[n] = glad_task(*said, ease[n], mean_ease[n])
            total += value
        return total

    def move_workers() -> None:
        for w, at in enumerate(of_worker):
            pace, q, weight = np.exp(ease[rows.tasks[at]]), posterior[rows.tasks[at], rows.labels[at]], rows.weights[at]

            def evaluate(a, pace=pace, q=q, weight=weight, w=w):
                x = a * pace
                value = (weight * (q * log_sigmoid(x) + (1 - q) * log_sigmoid(-x))).sum() - (
                    a - mean_ability[w]
                ) ** 2 / 2
                slope = (weight * (q - expit(x)) * pace).sum() - (a - mean_ability[w])
                return value, slope, (weight * pace**2 * expit(x) * expit(-x)).sum() + 1

            ability[w] = climb(ability[w], evaluate)

    def rescale() -> None:
        def evaluate(log):
            factor = np.exp(log)
            off = ease - log - mean_ease
            value = -((factor * ability - mean_ability) ** 2).sum() / 2 - (off**2).sum() / 2
            slope = -(factor * ability * (factor * ability - mean_ability)).sum() + off.sum()
            bend = 2 * factor**2 * (ability**2).sum() + factor * abs((ability * mean_ability).sum()) + len(ease)
            return value, slope, bend

        log = 0.0
        for _ in range(5):
            log = climb(log, evaluate)
        ability[:] *= np.exp(log)
        ease[:] -= log

    history = [move_tasks()]
    for _ in range(max_iter):
        move_workers()
        rescale()
        history.append(move_tasks())
        if abs(history[-1] - history[-2]) < tol * abs(history[-1]):
            break
    accuracy = np.zeros(rows.n_workers)
    for w, at in enumerate(of_worker):
        right, weight = expit(ability[w] * np.exp(ease[rows.tasks[at]])), rows.weights[at]
        known = weight.sum() > 0
        accuracy[w] = np.average(right, weights=weight) if known else expit(ability[w] * np.exp(ease.mean()))
    return Glad(posterior, ability, ease, accuracy, history)


def glad_posterior(rows: Rows, prior, ability, ease) -> np.ndarray:
    """Posteriors of tasks at their most probable ease, (N, K)."""
    posterior = np.zeros((rows.n_tasks, len(prior)))
    for n in range(rows.n_tasks):
        at = np.flatnonzero(rows.tasks == n)
        said = (rows.labels[at], rows.weights[at], ability[rows.workers[at]], prior)
        b = ease[n]
        for _ in range(100):
            b = climb(b, lambda b, said=said, n=n: glad_task(*said, b, ease[n])[0])
        posterior[n] = glad_task(*said, b, ease[n])[1]
    return posterior
