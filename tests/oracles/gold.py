"""Known classes that correct a posterior, with dense arrays and SciPy's optimizer; shares nothing with the library."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from oracles.em import Rows

SCALES = np.array([[0.3, 0.5, 0.3, 0.3], [0.5, 1.0, 0.3, 0.5]])


def votes_of(rows: Rows, m: int, k: int) -> np.ndarray:
    """Weight of the votes of each worker for each label on each task, (tasks, workers, labels)."""
    out = np.zeros((rows.n_tasks, m, k))
    np.add.at(out, (rows.tasks, rows.workers, rows.labels), rows.weights)
    return out


def center_logs(posterior: np.ndarray) -> np.ndarray:
    logs = np.log(0.99 * posterior + 0.01 / posterior.shape[1])
    return logs - logs.mean(axis=1, keepdims=True)


def ridge(votes: np.ndarray, z: np.ndarray, classes: np.ndarray, scales: np.ndarray):
    """The most probable slope, intercepts and evidence of each vote; returns what gives log-posteriors."""
    n, m, k = votes.shape
    cells_in_gold = votes.any(axis=0)  # a worker and label without a known task teach nothing of their own
    workers_in_gold = cells_in_gold.any(axis=1)

    def scores(x: np.ndarray, votes: np.ndarray, z: np.ndarray) -> np.ndarray:
        trust = np.where(workers_in_gold, x[1 + k : 1 + k + m], 0.0) * scales[2]
        cells = np.where(cells_in_gold[:, :, None], x[1 + k + m :].reshape(m, k, k), 0.0) * scales[3]
        evidence = cells + trust[:, None, None] * np.eye(k)
        return (1 + scales[0] * x[0]) * z + scales[1] * x[1 : 1 + k] + np.einsum("nml,mlk->nk", votes, evidence)

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        logs = log_softmax(scores(x, votes, z), axis=1)
        off = np.exp(logs) - np.eye(k)[classes]
        cells = np.einsum("nml,nk->mlk", votes, off)
        gradient = [
            [scales[0] * (off * z).sum()],
            scales[1] * off.sum(axis=0),
            scales[2] * np.einsum("mll->m", cells),
            scales[3] * cells.ravel(),
        ]
        return 0.5 * x @ x - logs[np.arange(n), classes].sum(), np.concatenate(gradient) + x

    options = {"gtol": 1e-9, "maxiter": 5000}
    x = minimize(loss, np.zeros(1 + k + m + m * k * k), jac=True, method="BFGS", options=options).x
    return lambda votes, z: np.exp(log_softmax(scores(x, votes, z), axis=1))


def counts(votes: np.ndarray, classes: np.ndarray, prior: np.ndarray):
    """Naive Bayes with confusion matrices from known classes alone."""
    _, m, k = votes.shape
    tally = np.einsum("nml,nk->mkl", votes, np.eye(k)[classes])
    right, total = np.einsum("mkk->m", tally), tally.sum(axis=(1, 2))
    crowd = (right.sum() + 1) / (total.sum() + 2)
    matrices = np.empty((m, k, k))
    for j in range(m):
        accuracy = np.clip((right[j] + 4 * crowd) / (total[j] + 4), 0.02, 0.98)
        for true in range(k):
            coin = np.full(k, (1 - accuracy) / max(k - 1, 1))
            coin[true] = accuracy
            matrices[j, true] = tally[j, true] + 3 * coin
    matrices /= matrices.sum(axis=2, keepdims=True)
    share = np.log((np.bincount(classes, minlength=k) + 10 * prior) / (len(classes) + 10))

    def posterior(votes: np.ndarray, _: np.ndarray) -> np.ndarray:
        evidence = np.einsum("nml,mkl->nk", votes, np.log(matrices))
        effect = 1 + 0.5 * np.maximum(votes.sum(axis=(1, 2)) - 1, 0)
        return np.exp(log_softmax(share + evidence / effect[:, None], axis=1))

    return posterior


def correct(rows: Rows, m: int, default: np.ndarray, gold: np.ndarray, prior: np.ndarray, degree: float) -> np.ndarray:
    """Posteriors of all tasks; `gold` is -1 where no class is known."""
    k = default.shape[1]
    tasks = np.flatnonzero(gold >= 0)
    votes, z, y = votes_of(rows, m, k), center_logs(default), gold[tasks]
    n, scale = len(tasks), 0.3 + 0.7 * degree

    def components(some: np.ndarray) -> list:
        fitted = [ridge(votes[some], z[some], gold[some], scale * scales) for scales in SCALES]
        return [*fitted, counts(votes[some], gold[some], prior)]

    fold = np.random.default_rng(0).permutation(n) % min(5, n)
    right = np.tile(default[tasks, y], (4, 1))
    for turn in range(fold.max() + 1 if n > 1 else 0):
        test_tasks = tasks[fold == turn]
        for at, predict in enumerate(components(tasks[fold != turn])):
            right[1 + at, fold == turn] = predict(votes[test_tasks], z[test_tasks])[
                np.arange(len(test_tasks)), gold[test_tasks]
            ]
    pseudo = np.array([3 + 10 * (1 - degree), 5, 2, 2])
    weights = pseudo / pseudo.sum()
    for _ in range(200):
        won = weights[:, None] * np.maximum(right, 1e-12)
        weights = (won / won.sum(axis=0)).sum(axis=1) + pseudo
        weights = weights / weights.sum()
    trust = min(1.0, n / 20)
    weights = trust * weights + (1 - trust) * np.eye(4)[0]
    parts = [default, *(predict(votes, z) for predict in components(tasks))]
    return sum(w * part for w, part in zip(weights, parts, strict=True))


def under(learned, rows: Rows, default: np.ndarray, known: np.ndarray, n_labels: np.ndarray) -> np.ndarray:
    """Posteriors of other tasks under a fitted correction; workers are those of the fit, or new at -1."""

    def carried(values: np.ndarray) -> np.ndarray:
        average = np.average(values, axis=0, weights=n_labels)
        return np.array([values[m] if m >= 0 else average for m in known])

    votes, z = votes_of(rows, len(known), default.shape[1]), center_logs(default)
    mixed = learned.weights[0] * default
    for c in range(2):
        evidence = np.einsum("nml,mlk->nk", votes, carried(learned.evidence[c]))
        scores = learned.slopes[c] * z + learned.intercepts[c] + evidence
        mixed = mixed + learned.weights[1 + c] * np.exp(log_softmax(scores, axis=1))
    evidence = np.einsum("nml,mkl->nk", votes, np.log(carried(learned.confusion)))
    effect = 1 + 0.5 * np.maximum(votes.sum(axis=(1, 2)) - 1, 0)
    scores = np.log(learned.shares) + evidence / effect[:, None]
    return mixed + learned.weights[3] * np.exp(log_softmax(scores, axis=1))
