"""Factorisations of moments in plain NumPy, written from the formulas.

Loops over points, rows and workers are Python's; sums over pairs and triples are NumPy's. Nothing is shared with the
library. `confusion` is (workers, true, observed) throughout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np

#: No probability is kept below this.
FLOOR = 1e-30
#: Residual norms within this share of the largest count as tied, and below that share of the first as zero.
TIE, ROUNDING = 1e-12, 1e-14


# ------------------------------------------------------------------------------------------- vertices and simplex


def spa(points: np.ndarray, n_pick: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of points, each the farthest from the span of those before it, and their distances from that span."""
    picks: list[int] = []
    residuals: list[float] = []
    for _ in range(n_pick):
        norms = np.linalg.norm(outside(points, points[picks]), axis=1)
        first = residuals[0] if residuals else norms.max()
        norms[norms <= ROUNDING * first] = 0.0
        left = np.setdiff1d(np.arange(len(points)), picks)
        pick = left[np.flatnonzero(norms[left] >= norms[left].max() * (1 - TIE))[0]]
        picks.append(int(pick))
        residuals.append(float(norms[pick]))
    return np.array(picks, np.uint32), np.array(residuals)


def outside(points: np.ndarray, span: np.ndarray) -> np.ndarray:
    """The part of each point that is orthogonal to the rows of `span`."""
    for row in independent(span):
        points = points - np.outer(points @ row, row)
    return points


def independent(rows: np.ndarray) -> list[np.ndarray]:
    """An orthonormal basis of the rows' span."""
    basis: list[np.ndarray] = []
    for row in rows:
        rest = row
        for unit in basis * 2:
            rest = rest - (unit @ rest) * unit
        if np.linalg.norm(rest) > ROUNDING * np.linalg.norm(rows[0]):
            basis.append(rest / np.linalg.norm(rest))
    return basis


def simplex_projection(rows: np.ndarray) -> np.ndarray:
    """The nearest point of the simplex to each row: shift all entries alike and cut at zero, by sorting."""
    return np.array([project(row) for row in rows]).reshape(rows.shape)


def project(row: np.ndarray) -> np.ndarray:
    falling = np.sort(row)[::-1]
    shifts = (np.cumsum(falling) - 1) / np.arange(1, len(row) + 1)
    last = np.flatnonzero(falling > shifts)[-1]
    return np.maximum(row - shifts[last], 0.0)


def simplex_lstsq(design: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The best point of the simplex for each target, by trying every set of positive entries."""
    return np.array([best_support(design, target) for target in targets]).reshape(len(targets), design.shape[1])


def best_support(design: np.ndarray, target: np.ndarray) -> np.ndarray:
    k = design.shape[1]
    best, least = np.full(k, 1 / k), np.inf
    for support in chain.from_iterable(combinations(range(k), n) for n in range(1, k + 1)):
        x = np.zeros(k)
        # Minimise over points of the support's affine hull: from its first corner, along the edges to the others.
        corner, edges = design[:, support[0]], design[:, support[1:]] - design[:, support[:1]]
        x[list(support[1:])] = np.linalg.lstsq(edges, target - corner)[0]
        x[support[0]] = 1 - x.sum()
        error = ((design @ x - target) ** 2).sum()
        if x.min() >= 0 and error < least:
            best, least = x, error
    return best


# ------------------------------------------------------------------------------------------------------ the loop


@dataclass(frozen=True)
class Point:
    """Parameters: the prior (K,) and the confusion matrices (M, K, K)."""

    prior: np.ndarray
    confusion: np.ndarray

    def flat(self) -> np.ndarray:
        return np.concatenate([self.confusion.ravel(), self.prior])

    def like(self, flat: np.ndarray) -> Point:
        k = len(self.prior)
        return Point(flat[-k:], flat[:-k].reshape(self.confusion.shape))


@dataclass
class Result:
    point: Point
    history: list[float]
    n_iter: int = 0
    converged: bool = False


def accelerate(
    run: Result,
    step: Callable[[Point], tuple[Point, float]],
    repair: Callable[[Point], Point],
    max_iter: int,
    least_gain: float,
) -> None:
    """Two steps and a leap at a time (SQUAREM); a leap after which the objective is lower is taken back."""
    longest, plain = 4.0, None
    start = run.history[-1] if run.history else -np.inf
    while run.n_iter < max_iter:
        zero = run.point
        one, objective = step(zero)
        run.n_iter += 1
        if plain is not None and objective < run.history[-1]:
            run.point, plain, longest = plain, None, max(1.0, longest / 4)
            continue
        run.point = one
        run.history.append(objective)
        run.converged = objective - start < least_gain
        start = objective
        if run.converged or run.n_iter == max_iter:
            return
        run.point, objective = step(one)
        run.n_iter += 1
        run.history.append(objective)
        if run.n_iter == max_iter:
            return
        r = one.flat() - zero.flat()
        v = run.point.flat() - one.flat() - r
        length = np.linalg.norm(r) / np.linalg.norm(v) if v.any() else np.inf
        plain = None
        if 1 < length < np.inf:
            longest *= 4 if length > longest else 1
            length = min(length, longest)
            plain = run.point
            run.point = repair(zero.like(zero.flat() + 2 * length * r + length**2 * v))
    run.point = run.point if plain is None else plain


# --------------------------------------------------------------------------------------- Kullback-Leibler, pairs


def nmf_fit(pairs, joint, prior, confusion, *, weights, max_iter, tol) -> Result:
    """Raises −Σ weights · KL(frequencies ‖ model) over the pairs."""
    pairs = pairs.astype(np.int64)
    overlap = joint.sum(axis=(1, 2))
    used = (overlap > 0) & (weights > 0)
    pairs, kept = pairs[used], weights[used]
    seen = joint[used] / overlap[used, None, None]
    run = Result(floored(Point(prior, confusion)), [])
    accelerate(run, lambda point: nmf_step(point, pairs, seen, kept), floored, max_iter, tol * weights.sum())
    run.history.append(nmf_step(run.point, pairs, seen, kept)[1])
    return run


def floored(point: Point) -> Point:
    """Rows that are positive and sum to one."""

    def rows(x: np.ndarray) -> np.ndarray:
        x = np.maximum(x, FLOOR)
        return np.maximum(x / x.sum(axis=-1, keepdims=True), FLOOR)

    return Point(rows(point.prior), rows(point.confusion))


def nmf_step(point: Point, pairs: np.ndarray, seen: np.ndarray, weights: np.ndarray) -> tuple[Point, float]:
    """A step of expectation–maximisation, and the objective before it."""
    prior, confusion = point.prior, point.confusion
    a, b = confusion[pairs[:, 0]], confusion[pairs[:, 1]]
    ratio = seen / (a.swapaxes(1, 2) @ (prior[:, None] * b))
    objective = -(weights[:, None, None] * seen * np.log(np.where(seen > 0, ratio, 1.0))).sum()
    ratio = weights[:, None, None] * ratio
    factor = np.zeros_like(confusion)
    np.add.at(factor, pairs[:, 0], b @ ratio.swapaxes(1, 2))
    np.add.at(factor, pairs[:, 1], a @ ratio)
    counts = prior[:, None] * confusion * factor
    mass = counts.sum(axis=2)
    known = mass > 1e-290
    updated = np.maximum(counts / np.where(known, mass, 1.0)[:, :, None], FLOOR)
    shares = mass.sum(axis=0)
    if shares.sum() > 0:
        prior = np.maximum(shares / shares.sum(), FLOOR)
    return Point(prior, np.where(known[:, :, None], updated, confusion)), float(objective)


# ------------------------------------------------------------------------------------------------ least squares

#: Most iterations of ADMM on one block, and the change below which it stops.
INNER, INNER_TOL = 50, 1e-10


def cpd_fit(
    n_workers,
    prior,
    confusion,
    *,
    triples,
    triple_values,
    triple_weights,
    pairs,
    pair_values,
    pair_weights,
    first_values,
    first_weights,
    max_iter,
    tol,
) -> Result:
    """Lowers ½ Σ weights · ‖observed − modelled‖² over groups of three, two and one workers, a block at a time."""
    singles = np.arange(n_workers)[:, None]
    orders = ((triples, triple_values, triple_weights), (pairs, pair_values, pair_weights))
    groups = [
        (tuple(workers.tolist()), value, weight)
        for order in (*orders, (singles, first_values, first_weights))
        for workers, value, weight in zip(*order, strict=True)
    ]
    squares = 0.5 * sum(weight * np.square(value).sum() for _, value, weight in groups)
    duals = {m: (np.zeros_like(confusion[m]), 0.0) for m in range(n_workers)} | {-1: (np.zeros_like(prior), 0.0)}

    def at(prior: np.ndarray, confusion: np.ndarray) -> float:
        gram, linear = prior_block(groups, confusion)
        return -max(squares + 0.5 * prior @ gram @ prior - linear @ prior, 0.0)

    def step(point: Point) -> tuple[Point, float]:
        prior, confusion = point.prior, point.confusion.copy()
        for m in range(n_workers):
            gram, linear = worker_block(groups, m, prior, confusion)
            confusion[m], duals[m] = improve(gram, linear, confusion[m], duals[m])
        gram, linear = prior_block(groups, confusion)
        prior, duals[-1] = improve(gram, linear, prior, duals[-1])
        return Point(prior, confusion), at(prior, confusion)

    def repair(point: Point) -> Point:
        k = len(point.prior)
        rows = simplex_projection(point.confusion.reshape(-1, k))
        return Point(project(point.prior), rows.reshape(point.confusion.shape))

    start = Point(prior / prior.sum(), confusion / confusion.sum(axis=2, keepdims=True))
    run = Result(start, [at(start.prior, start.confusion)])
    accelerate(run, step, repair, max_iter, tol * squares)
    return run


def worker_block(groups, m: int, prior: np.ndarray, confusion: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The quadratic ½ tr(Xᵀ gram X) − tr(linearᵀ X) in one worker's confusion matrix X."""
    k = len(prior)
    gram, linear = np.zeros((k, k)), np.zeros((k, k))
    for workers, value, weight in groups:
        if m not in workers:
            continue
        others = [confusion[other] for other in workers if other != m]
        value = np.moveaxis(value, workers.index(m), 0)
        # What is left of the observation, class by class, once the others' rows are multiplied in.
        told = np.array([multiplied(value, [other[c] for other in others]) for c in range(k)])
        both = np.ones((k, k))
        for other in others:
            both = both * (other @ other.T)
        gram += weight * np.outer(prior, prior) * both
        linear += weight * prior[:, None] * told
    return gram, linear


def prior_block(groups, confusion: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The quadratic in the prior."""
    k = confusion.shape[1]
    gram, linear = np.zeros((k, k)), np.zeros(k)
    for workers, value, weight in groups:
        all_of = np.ones((k, k))
        for m in workers:
            all_of = all_of * (confusion[m] @ confusion[m].T)
        gram += weight * all_of
        linear += weight * np.array([multiplied(value, [confusion[m, c] for m in workers]) for c in range(k)])
    return gram, linear


def multiplied(value: np.ndarray, rows: list[np.ndarray]) -> np.ndarray:
    """The last axes of `value` summed with a row each."""
    for row in reversed(rows):
        value = value @ row
    return value


def improve(gram, linear, x, dual):
    """A lower point of the quadratic with rows on the simplex, by ADMM or else a projected step; and the dual."""

    def cost(x: np.ndarray) -> float:
        return 0.5 * float(np.sum(x * (gram @ x))) - float(np.sum(linear * x))

    def onto(x: np.ndarray) -> np.ndarray:
        return project(x) if x.ndim == 1 else simplex_projection(x)

    found, dual = admm(gram, linear, x, dual, onto)
    if found is not None and cost(found) < cost(x):
        return found, dual
    steepest = np.abs(gram).sum(axis=1).max()
    found = onto(x - (gram @ x - linear) / steepest) if steepest > 0 else x
    return (found if cost(found) < cost(x) else x), dual


def admm(gram, linear, x, dual, onto):
    rho = np.trace(gram) / len(gram)
    if rho <= 0:
        return None, dual
    u = dual[0] * (dual[1] / rho)
    z = x
    for _ in range(INNER):
        free = np.linalg.solve(gram + rho * np.eye(len(gram)), linear + rho * (z - u))
        old, z = z, onto(free + u)
        u = u + free - z
        if np.abs(free - z).max() < INNER_TOL and np.abs(z - old).max() < INNER_TOL:
            break
    return z, (u, rho)
