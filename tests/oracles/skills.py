"""Skills from agreement and from messages, as one would write them on paper: dense matrices, one worker at a time."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field

import numpy as np

from oracles import em, moments, voting
from oracles.em import Rows

#: A step is taken if the objective rises by no more than this.
SLACK = 1e-14
#: Squares of skills count as at least this where a step is divided by them.
LEAST_SQUARE = 0.01


@dataclass
class RankOne:
    vector: np.ndarray
    history: list[float] = field(default_factory=list)
    n_iter: int = 0
    converged: bool = False
    #: Whether signs are final, so that components are not turned.
    signed: bool = False


def dense(n: int, pairs: np.ndarray, values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Symmetric matrices of values and weights; zero where there is no pair."""
    c, w = np.zeros((n, n)), np.zeros((n, n))
    for (i, j), value, weight in zip(pairs.tolist(), values, weights, strict=True):
        c[i, j] = c[j, i] = value
        w[i, j] = w[j, i] = weight
    return c, w


def pair_agreement(rows: Rows, pairs: np.ndarray) -> np.ndarray:
    """Weight of equal labels of each pair."""
    agree = np.zeros((rows.n_workers, rows.n_workers))
    for a in range(len(rows.tasks)):
        same = (rows.tasks == rows.tasks[a]) & (rows.labels == rows.labels[a])
        for b in np.flatnonzero(same):
            agree[rows.workers[a], rows.workers[b]] += rows.weights[a] * rows.weights[b]
    return agree[pairs[:, 0], pairs[:, 1]]


# -------------------------------------------------------------------------------------------------- rank-one fits


def start(c: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The same skill for everybody who has a partner."""
    mean = math.fsum((w * c).ravel()) / math.fsum(w.ravel()) if w.any() else 0.0
    return np.where(w.sum(axis=1) > 0, np.sqrt(np.clip(mean, 0.01, 1.0)), 0.0)


def loss(c: np.ndarray, w: np.ndarray, x: np.ndarray) -> float:
    """Weighted mean of squared residuals."""
    return float((w * (c - np.outer(x, x)) ** 2).sum() / w.sum()) if w.sum() > 0 else 0.0


def descend(c, w, step, *, max_iter: int, tol: float) -> RankOne:
    """Steps downhill within [-1, 1], each halved until the loss does not rise."""
    fit = RankOne(start(c, w))
    while fit.n_iter < max_iter and not fit.converged:
        x, before, size = fit.vector, loss(c, w, fit.vector), 1.0
        direction = step(x)
        trial = np.clip(x + direction, -1, 1)
        while loss(c, w, trial) > before + SLACK and size > 2.0**-39:
            size /= 2
            trial = np.clip(x + size * direction, -1, 1)
        if loss(c, w, trial) <= before + SLACK:
            fit.converged = tol > 0 and np.abs(trial - x).max() <= tol
            fit.vector = trial
        else:
            fit.converged = True
        fit.n_iter += 1
        fit.history.append(-loss(c, w, fit.vector))
    return fit


def over(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Quotients; zero where the divisor is."""
    return np.where(b > 0, a / np.where(b > 0, b, 1.0), 0.0)


def rank_one_spectral(n, pairs, values, weights, *, max_iter: int, tol: float) -> RankOne:
    """Each worker half way to their least-squares value given the others."""
    c, w = dense(n, pairs, values, weights)

    def step(x):
        pull = (w * (c - np.outer(x, x))) @ x
        return 0.5 * over(pull, np.maximum(w @ x**2, LEAST_SQUARE * w.sum(axis=1)))

    return descend(c, w, step, max_iter=max_iter, tol=tol)


def rank_one_gradient(n, pairs, values, weights, *, max_iter: int, tol: float) -> RankOne:
    """Projected gradient with the step that a bound on the second derivatives allows."""
    c, w = dense(n, pairs, values, weights)
    degree = w.sum(axis=1)

    def step(x):
        pull = (w * (c - np.outer(x, x))) @ x
        rows = w @ x**2 + (w * np.abs(2 * np.outer(x, x) - c)).sum(axis=1)
        return over(pull, degree) / max(LEAST_SQUARE, over(rows, degree).max())

    return descend(c, w, step, max_iter=max_iter, tol=tol)


def rank_one_ratio(n, pairs, values, weights, *, components, max_iter: int, tol: float) -> RankOne:
    """Leading eigenvectors of weighted agreement and of weights, component by component."""
    c, w = dense(n, pairs, values, weights)
    above, above_steps, above_done = leading(w * c, components, max_iter, tol)
    below, below_steps, below_done = leading(w, components, max_iter, tol)
    vector = np.where(below > 1e-9, above / np.where(below > 1e-9, below, 1.0), 0.0)
    return RankOne(vector, [], max(above_steps, below_steps), above_done and below_done)


def leading(matrix, components, max_iter: int, tol: float) -> tuple[np.ndarray, int, bool]:
    """Root of the largest eigenvalue times its vector, the diagonal filled in by the fit."""
    n_components = components.max() + 1
    reach = np.abs(matrix).sum(axis=1)
    x = (reach > 0).astype(float)
    shift = np.zeros(n_components)
    np.maximum.at(shift, components, reach / 2)
    value = np.zeros(n_components)

    def unit(x):
        return over(x, np.sqrt(np.bincount(components, x**2, minlength=n_components))[components])

    x, steps, done = unit(x), 0, False
    while steps < max_iter and not done:
        filled = np.maximum(value, 0)[components] * x**2
        y = matrix @ x + filled * x + shift[components] * x
        before, value = value, np.bincount(components, x * (y - shift[components] * x), minlength=n_components)
        y = unit(y)
        settled = (np.abs(value - before) <= tol * np.abs(value)).all()
        done = bool(tol > 0 and settled and np.abs(y - x).max() <= tol)
        x, steps = y, steps + 1
    return x * np.sqrt(np.maximum(value, 0))[components], steps, done


def rank_one_msr(n, pairs, values, weights, *, trim, max_iter: int, tol: float) -> RankOne:
    """Means of ratios without the most extreme; signs first."""
    c, w = dense(n, pairs, values, weights)
    fit, step, closest, idle = RankOne(start(np.abs(c), w)), 0.5, np.inf, 0
    sides = signs(c, w, fit.vector)
    turned = c * np.outer(sides, sides)
    while fit.n_iter < max_iter and not fit.converged:
        x, moved = fit.vector, fit.vector.copy()
        for i in range(n):
            partners = np.flatnonzero(w[i])
            ratios = turned[i, partners] / x[partners]
            counts = w[i, partners] * x[partners] ** 2
            order = np.lexsort((counts, ratios))
            ratios, counts = ratios[order], counts[order]
            below = min(trim[i], (ratios < x[i] * (1 - 1e-12)).sum())
            above = min(trim[i], (ratios > x[i] * (1 + 1e-12)).sum())
            left = slice(below, len(ratios) - above)
            if counts[left].sum() > 0:
                mean = (ratios[left] * counts[left]).sum() / counts[left].sum()
                moved[i] = np.clip(x[i] + step * (mean - x[i]), 1e-3, 1.0)
        change = np.abs(moved - x).max()
        fit.converged = bool(tol > 0 and change <= tol)
        closest, idle = (change / step, 0) if change / step < closest * (1 - 1e-3) else (closest, idle + 1)
        step, idle = (step / 2, 0) if idle == 20 else (step, idle)
        fit.history.append(float(np.linalg.norm(np.outer(x, x) - np.outer(moved, moved))))
        fit.vector, fit.n_iter = moved, fit.n_iter + 1
    fit.vector = fit.vector * sides
    return fit


def rank_one_fit(n, pairs, values, weights, *, method: str, **options) -> RankOne:
    """One of the fits by its name."""
    methods = {
        "spectral": rank_one_spectral,
        "gradient": rank_one_gradient,
        "ratio": rank_one_ratio,
        "msr": rank_one_msr,
    }
    return methods[method](n, pairs, values, weights, **options)


def signs(c, w, x) -> np.ndarray:
    """The sides that explain the signs of the agreements, from everybody on the same side.

    Sums are exact, since a balanced start stays balanced only without rounding.
    """
    pull = w * c * x[None, :]
    sides = np.ones(len(x))
    for _ in range(200):
        seen, reach = (np.array([math.fsum(row) for row in matrix]) for matrix in (pull * sides, np.abs(pull)))
        moved = 0.5 * (sides + over(seen, reach))
        moved[np.abs(moved) < 1e-9] = 0.0
        if not moved.any():
            break
        moved = moved / np.abs(moved).max()
        change, sides = np.abs(moved - sides).max(), moved
        if change <= 1e-9:
            break
    return np.where(sides < 0, -1.0, 1.0)


# ---------------------------------------------------------------------------------------- from skills to classes


def oriented(vector, pairs, components, labels) -> np.ndarray:
    """Every component turned so that its average worker is better than chance."""
    out = vector.copy()
    partnered = np.isin(np.arange(len(vector)), pairs)
    for part in np.unique(components):
        mine = (components == part) & partnered
        total = labels[mine].sum()
        if total > 0:
            lean = (labels[mine] * vector[mine]).sum() / total
            if abs(lean) <= 1e-9:
                lean = (labels[mine] * vector[mine] * np.abs(vector[mine])).sum() / total
            if lean < -1e-9:
                out[components == part] *= -1
    return out


def one_coin(accuracy: np.ndarray, k: int) -> np.ndarray:
    """Confusion matrices of workers who err evenly."""
    return np.array([np.where(np.eye(k, dtype=bool), p, (1 - p) / (k - 1)) for p in accuracy])


def inside(p, labels, k):
    return np.clip(p, 1 / (labels + k), 1 - 1 / (labels + k))


def posterior_of(rows: Rows, prior, confusion) -> np.ndarray:
    nobody = np.full(rows.n_tasks, -1)
    return em.expect(rows, em.prior_of(prior), np.maximum(confusion, em.FLOOR), nobody, hard=False)[0]


def with_strangers(rows: Rows, prior, confusion, labels, pairs) -> np.ndarray:
    """Workers without partners judged by the others."""
    k = rows.n_classes
    alone = ~np.isin(np.arange(rows.n_workers), pairs)
    if not alone.any():
        return confusion
    confusion = confusion.copy()
    average = (1 + (k - 1) * 0.1) / k
    if labels[~alone].sum() > 0:
        accuracy = np.array([np.trace(matrix) / k for matrix in confusion])
        average = max(average, np.average(accuracy[~alone], weights=labels[~alone]))
    confusion[alone] = 1 / k
    posterior = posterior_of(rows, prior, confusion)
    heard = {task for task, worker in zip(rows.tasks, rows.workers, strict=True) if not alone[worker]}
    for worker in np.flatnonzero(alone):
        right, total = average, 1.0
        for i in np.flatnonzero(rows.workers == worker):
            if rows.tasks[i] in heard:
                right += rows.weights[i] * posterior[rows.tasks[i], rows.labels[i]]
                total += rows.weights[i]
        confusion[worker] = one_coin(inside(np.array([right / total]), labels[worker], k), k)[0]
    return confusion


@dataclass(frozen=True)
class Answer:
    posterior: np.ndarray
    confusion: np.ndarray
    prior: np.ndarray
    history: np.ndarray


def certain(rows: Rows) -> Answer:
    return Answer(np.ones((rows.n_tasks, 1)), np.ones((rows.n_workers, 1, 1)), np.ones(1), np.zeros(0))


def one_coin_fit(rows: Rows, *, min_overlap: float, max_partners: int, solve) -> Answer:
    """What `solve(n, pairs, values, weights, components)` finds, as an answer on classes."""
    k = rows.n_classes
    if k == 1:
        return certain(rows)
    pairs, overlap, joint = moments.moments_pairs(rows, min_overlap=min_overlap, max_partners=max_partners)
    agree = np.trace(joint, axis1=1, axis2=2) / overlap
    components = moments.components(rows.n_workers, pairs)
    labels = moments.moments_first(rows).sum(axis=1)
    found = solve(rows.n_workers, pairs, (k * agree - 1) / (k - 1), overlap, components)
    skills = found.vector if found.signed else oriented(found.vector, pairs, components, labels)
    confusion = one_coin(inside((1 + (k - 1) * skills) / k, labels, k), k)
    even = np.full(k, 1 / k)
    confusion = with_strangers(rows, even, confusion, labels, pairs)
    prior = posterior_of(rows, even, confusion).mean(axis=0)
    return Answer(posterior_of(rows, prior, confusion), confusion, prior, np.array(found.history))


def meta_learner_fit(
    rows: Rows, *, min_overlap: float, max_partners: int, max_triples: int, max_iter: int, tol: float
) -> Answer:
    """Sensitivity and specificity from covariances, the class balance from third moments."""
    if rows.n_classes == 1:
        return certain(rows)
    first = moments.moments_first(rows)
    labels = first.sum(axis=1)
    mean = over(first[:, 1] - first[:, 0], labels)
    pairs, overlap, joint = moments.moments_pairs(rows, min_overlap=min_overlap, max_partners=max_partners)
    triples, shared, cubes = moments.moments_triples(rows, pairs, min_overlap=min_overlap, max_triples=max_triples)

    def centred(worker, label):
        return 2 * label - 1 - mean[worker]

    covariance = np.zeros(len(pairs))
    for p, (i, j) in enumerate(pairs):
        for a, b in np.ndindex(2, 2):
            covariance[p] += joint[p, a, b] / overlap[p] * centred(i, a) * centred(j, b)
    found = rank_one_spectral(rows.n_workers, pairs, covariance, overlap, max_iter=max_iter, tol=tol)
    v = oriented(found.vector, pairs, moments.components(rows.n_workers, pairs), labels)

    above, known = 0.0, 0.0
    for t, (i, j, k) in enumerate(triples):
        product = v[i] * v[j] * v[k]
        known += shared[t] * product**2
        for a, b, c in np.ndindex(2, 2, 2):
            above += cubes[t, a, b, c] * centred(i, a) * centred(j, b) * centred(k, c) * product
    if known > 4:
        alpha = above / known
        balance = -alpha / np.sqrt(4 + alpha**2)
    else:
        leads = [voting.leaders(row) for row in voting.shares(rows)]
        balance = np.mean([0 if len(lead) == 2 else 2 * lead[0] - 1 for lead in leads])
    most = 1 - 2 / (rows.n_tasks + 2)
    balance = np.clip(balance, -most, most)
    skill = v / np.sqrt(1 - balance**2)
    sensitivity = inside((1 + mean + (1 - balance) * skill) / 2, labels, 2)
    specificity = inside((1 - mean + (1 + balance) * skill) / 2, labels, 2)
    confusion = np.array([[[q, 1 - q], [1 - p, p]] for p, q in zip(sensitivity, specificity, strict=True)])
    prior = np.array([1 - balance, 1 + balance]) / 2
    confusion = with_strangers(rows, prior, confusion, labels, pairs)
    return Answer(posterior_of(rows, prior, confusion), confusion, prior, np.array(found.history))


# ------------------------------------------------------------------------------------------------------ messages


def _mix(word: int) -> int:
    mask = 2**64 - 1
    word = (word + 0x9E3779B97F4A7C15) & mask
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
    return word ^ (word >> 31)


def normal(seed: int, task: int, worker: int) -> float:
    """A draw of mean 1 and variance 1 that depends on its key alone."""
    step, mask = 0x9E3779B97F4A7C15, 2**64 - 1
    key = _mix((seed + step) & mask)
    key = _mix(key ^ ((task + step) & mask))
    key = _mix(key ^ ((worker + step) & mask))
    u, v = ((_mix(key ^ i) >> 11) / 2**53 for i in (1, 2))
    return 1 + np.sqrt(-2 * np.log(1 - u)) * np.cos(2 * np.pi * v)


def kos_fit(rows: Rows, *, n_iter: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores (N, K), weights (M,) and who fell silent (M,): messages as vectors with an entry a class."""
    n, m, k = rows.n_tasks, rows.n_workers, rows.n_classes
    said = np.zeros((n, m, k))
    for task, worker, label, weight in zip(rows.tasks, rows.workers, rows.labels, rows.weights, strict=True):
        said[task, worker] += weight * (np.eye(k)[label] * k - 1) / (k - 1)
    edges = np.zeros((n, m), bool)
    edges[rows.tasks, rows.workers] = True
    met = np.array([(i, j) for i in range(m) for j in range(m) if i < j and (edges[:, i] & edges[:, j]).any()])
    part = moments.components(m, met.reshape(-1, 2))
    y = np.array([[normal(seed, t, w) if edges[t, w] else 0.0 for w in range(m)] for t in range(n)])
    weights, dead = np.ones(m), np.zeros(m, bool)
    for _ in range(n_iter):
        heard = np.zeros((n, m))
        for t in range(n):
            for w in np.flatnonzero(edges[t]):
                others = [v for v in np.flatnonzero(edges[t]) if v != w]
                x = sum((said[t, v] * y[t, v] for v in others), np.zeros(k))
                heard[t, w] = said[t, w] @ x * (k - 1) / k
        for c in np.unique(part):
            mine = part == c
            largest = np.abs(heard[:, mine]).max()
            dead[mine] |= largest == 0
            heard[:, mine] /= 2.0 ** np.floor(np.log2(largest)) if largest > 0 else 1.0
        weights = heard.sum(axis=0)
        y = np.array([[heard[np.arange(n) != t, w].sum() for w in range(m)] for t in range(n)]) * edges
    labels = np.bincount(rows.workers, rows.weights, minlength=m)
    for c in np.unique(part):
        if n_iter and labels[part == c] @ weights[part == c] < 0:
            weights[part == c] *= -1
            y[:, part == c] *= -1
    weights = np.where(dead, 1.0, weights)
    y = np.where(dead, 1.0, y) * edges
    scores = np.einsum("tw,twk->tk", y, said)
    size = np.zeros(n)
    np.add.at(size, rows.tasks, rows.weights * np.abs(y[rows.tasks, rows.workers]))
    scores[(np.abs(scores) <= 1e-12 * size[:, None]).all(axis=1)] = 0.0
    return scores, weights, dead


def kos_answer(rows: Rows, *, n_iter: int, seed: int) -> Answer:
    """Scores as posteriors, through one number that takes weights to agreement."""
    k = rows.n_classes
    if k == 1:
        return certain(rows)
    scores, weights, _ = kos_fit(rows, n_iter=n_iter, seed=seed)
    agree, total = np.zeros(rows.n_workers), np.zeros(rows.n_workers)
    winners = [next(c for c in range(k) if row[c] >= row.max() - abs(row.max()) * 1e-12) for row in scores]
    for task, worker, label, weight in zip(rows.tasks, rows.workers, rows.labels, rows.weights, strict=True):
        total[worker] += weight
        agree[worker] += weight * (label == winners[task])
    least = 1e-3 / np.abs(scores).max() if np.abs(scores).max() > 0 else 1.0
    size = (total * weights**2).sum()
    corrected = over(k * agree - total, total) / (k - 1)
    scale = max((total * weights * corrected).sum() / size, least) if size > 0 else least
    odds = np.exp(scale * (scores - scores.max(axis=1, keepdims=True)))
    posterior = odds / odds.sum(axis=1, keepdims=True)
    return Answer(posterior, voting.confusion(rows, posterior), posterior.mean(axis=0), np.zeros(0))


def rank_one_medians(n: int, pairs: np.ndarray, values: np.ndarray) -> RankOne:
    """Median over neighbors j of the median over k of C_ij C_ik / C_jk, with the sign of the median of C_ij."""
    products = {}
    for (i, j), value in zip(pairs.tolist(), values.tolist(), strict=True):
        products[i, j] = products[j, i] = value
    skills = np.zeros(n)
    for i in range(n):
        partners = [j for j in range(n) if (i, j) in products]
        inner = []
        for j in partners:
            squares = [
                products[i, j] * products[i, k] / products[j, k] for k in partners if products.get((j, k), 0.0) != 0.0
            ]
            if squares:
                inner.append(statistics.median(squares))
        if inner:
            sign = np.sign(statistics.median(products[i, j] for j in partners))
            skills[i] = sign * math.sqrt(min(max(statistics.median(inner), 0.0), 1.0))
    return RankOne(skills, [], 1, True, signed=True)
