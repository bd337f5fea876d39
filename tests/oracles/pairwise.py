"""Plain twins of the models of comparisons and rankings: dense Newton steps, written from the formulas."""

import itertools

import numpy as np


def likelihood(games, point, ties, slopes, biases):
    """Log-likelihood of comparisons: `point` is scores, bias to the left, and the parameter of ties (None for none)."""
    left, right, outcomes, workers, _ = games.codes()
    weights = np.ones(len(games)) if games.weights is None else games.weights
    n = games.n_items
    lead = slopes[workers] * (point[left] - point[right]) + point[n] + biases[workers]
    if ties == "half" or not (outcomes == 2).any():
        logs = np.stack([-np.logaddexp(0, -lead), -np.logaddexp(0, lead)])
        logs = np.vstack([logs, logs.mean(axis=0)])
    elif ties == "davidson":
        logs = np.stack([lead / 2, -lead / 2, np.full_like(lead, point[n + 1])])
        logs = logs - np.logaddexp.reduce(logs, axis=0)
    else:
        need = 0.5 * np.logaddexp(0, point[n + 1])  # ln θ, with θ² - 1 = exp(parameter)
        wins = [1 / (1 + np.exp(need - side)) for side in (lead, -lead)]
        logs = np.log(np.stack([*wins, 1 - wins[0] - wins[1]]))
    return float(weights @ logs[outcomes, np.arange(len(lead))])


def penalised(games, point, ties, prior, free, slopes=None, biases=None, spread=(np.nan, np.nan)):
    """Log-likelihood and log-density of the priors, as far as they depend on what is free."""
    slopes = np.ones(games.n_workers) if slopes is None else slopes
    biases = np.zeros(games.n_workers) if biases is None else biases
    value = likelihood(games, point, ties, slopes, biases)
    value -= 0.5 * (point[: games.n_items] ** 2).sum() / prior**2
    value -= 0.5 * sum(point[games.n_items + i] ** 2 for i in range(2) if free[i]) / prior**2
    if np.isfinite(spread[0]):
        value -= 0.5 * ((slopes - 1) ** 2).sum() / spread[0] ** 2
    if np.isfinite(spread[1]):
        value -= 0.5 * (biases**2).sum() / spread[1] ** 2
    return value


def climb(f, x, constraint=None, steps=100):
    """The summit of a smooth concave function by Newton's method with differences for derivatives.

    The steps keep `constraint`, rows of a matrix, times x as it is.
    """
    rows = np.zeros((0, len(x))) if constraint is None else np.atleast_2d(constraint)
    for _ in range(steps):
        gradient, hessian = derivatives(f, x)
        kkt = np.block([[-hessian, rows.T], [rows, np.zeros((len(rows), len(rows)))]])
        step = np.linalg.solve(kkt, np.r_[gradient, np.zeros(len(rows))])[: len(x)]
        length = 1.0
        while f(x + length * step) < f(x) - 1e-12 and length > 1e-8:
            length /= 2
        x = x + length * step
        if np.abs(length * step).max() < 1e-9:
            break
    return x


def derivatives(f, x, h=1e-4):
    """Gradient and Hessian by central differences."""
    n = len(x)
    eye = np.eye(n) * h
    gradient = np.array([f(x + eye[i]) - f(x - eye[i]) for i in range(n)]) / (2 * h)
    hessian = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            corner = f(x + eye[i] + eye[j]) - f(x + eye[i] - eye[j]) - f(x - eye[i] + eye[j]) + f(x - eye[i] - eye[j])
            hessian[i, j] = hessian[j, i] = corner / (4 * h * h)
    return gradient, hessian


def crowd_bt(games, link, hits, misses, n_iter):
    """CrowdBT by plain EM with exact M-steps; scores and reliabilities."""
    left, right, outcomes, workers, _ = games.codes()
    n = games.n_items
    won = np.where(outcomes == 0, 1.0, np.where(outcomes == 1, 0.0, 0.5))
    omega, scores = np.full(games.n_workers, hits / (hits + misses)), np.zeros(n)

    def m_step(scores, for_left):
        for _ in range(50):
            p = 1 / (1 + np.exp(-(scores[left] - scores[right])))
            s = 1 / (1 + np.exp(-scores))
            gradient = np.bincount(left, for_left - p, n) - np.bincount(right, for_left - p, n) + link * (1 - 2 * s)
            hessian = np.diag(2 * link * s * (1 - s))
            for i, j, w in zip(left, right, p * (1 - p), strict=True):
                hessian[[i, j], [i, j]] += w
                hessian[i, j] -= w
                hessian[j, i] -= w
            step = np.linalg.solve(hessian, gradient)
            scores = scores + step * min(1.0, 2.0 / np.abs(step).max())
            if np.abs(step).max() < 1e-13:
                break
        return scores

    scores = m_step(scores, won)
    for _ in range(n_iter):
        p, o = 1 / (1 + np.exp(-(scores[left] - scores[right]))), omega[workers]
        said_left = o * p / (o * p + (1 - o) * (1 - p))
        said_right = o * (1 - p) / (o * (1 - p) + (1 - o) * p)
        seen = won * said_left + (1 - won) * said_right
        omega = (hits + np.bincount(workers, seen, games.n_workers)) / (
            hits + misses + np.bincount(workers, minlength=games.n_workers)
        )
        scores = m_step(scores, won * said_left + (1 - won) * (1 - said_right))
    return scores, omega


def rank_centrality(games, prior):
    """Logarithms of the stationary distribution of Negahban's walk, by its eigenvector."""
    left, right, outcomes, _, _ = games.codes()
    n = games.n_items
    wins = np.zeros((n, n))
    won = np.where(outcomes == 0, 1.0, np.where(outcomes == 1, 0.0, 0.5))
    np.add.at(wins, (left, right), won)
    np.add.at(wins, (right, left), 1 - won)
    met = (wins + wins.T) > 0
    share = np.where(met, (wins.T + prior) / (wins + wins.T + 2 * prior), 0.0)  # of j over i
    walk = share / share.sum(axis=1).max()
    walk += np.diag(1 - walk.sum(axis=1))
    values, vectors = np.linalg.eig(walk.T)
    visits = np.abs(np.real(vectors[:, np.argmax(np.real(values))]))
    return np.log(visits) - np.log(visits).mean()


def plackett_luce(rankings, scores, slopes, prior):
    """Log-likelihood of rankings and log-density of the scores' prior."""
    offsets, items, workers = rankings.codes()
    weights = np.ones(len(rankings)) if rankings.weights is None else rankings.weights
    value = -0.5 * (scores**2).sum() / prior**2
    for k, (start, end) in enumerate(itertools.pairwise(offsets)):
        x = slopes[workers[k]] * scores[items[start:end]]
        value += weights[k] * sum(x[t] - np.logaddexp.reduce(x[t:]) for t in range(len(x)))
    return value
