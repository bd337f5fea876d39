"""Plain twins of the kernels that keep workloads."""

from __future__ import annotations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp, minimize


def tilted(q: np.ndarray, tilt: np.ndarray) -> np.ndarray:
    """Rows times exp(tilt), scaled to sum to one, in log space."""
    with np.errstate(divide="ignore"):
        logs = np.log(q) + tilt
    rows = np.exp(logs - logs.max(axis=1, keepdims=True))
    return rows / rows.sum(axis=1, keepdims=True)


def divergence(p: np.ndarray, q: np.ndarray, weights: np.ndarray) -> float:
    """Weighted mean of KL(p || q)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p > 0, p * (np.log(p) - np.log(q)), 0)
    return float(weights @ terms.sum(axis=1) / weights.sum())


def kkt_residual(shares: np.ndarray, tilt: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> float:
    """The largest violation of the conditions of an optimum, written out for each multiplier."""
    worst = 0.0
    for share, t, low, high in zip(shares, tilt, lower, upper, strict=True):
        worst = max(worst, low - share, share - high)  # feasible
        if t > 0:
            worst = max(worst, abs(share - low))  # a positive multiplier of the lower bound: it binds
        if t < 0:
            worst = max(worst, abs(share - high))
    return worst


def project(q: np.ndarray, lower: np.ndarray, upper: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The I-projection as it is defined: KL over all rows, minimised under linear constraints by SciPy (SLSQP)."""
    n, k = q.shape
    weights = weights / weights.sum()

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        p = np.maximum(flat.reshape(n, k), 1e-300)
        logs = np.log(p) - np.log(q)
        return float(weights @ (p * logs).sum(axis=1)), (weights[:, None] * (logs + 1)).ravel()

    rows = np.kron(np.eye(n), np.ones(k))
    mean = np.kron(weights, np.eye(k))
    constraints = [
        {"type": "eq", "fun": lambda flat: rows @ flat - 1, "jac": lambda flat: rows},
        {"type": "ineq", "fun": lambda flat: mean @ flat - lower, "jac": lambda flat: mean},
        {"type": "ineq", "fun": lambda flat: upper - mean @ flat, "jac": lambda flat: -mean},
    ]
    found = minimize(
        objective,
        q.ravel(),
        jac=True,
        bounds=[(0, 1)] * (n * k),
        constraints=constraints,
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    assert found.success, found.message
    return found.x.reshape(n, k)


def is_possible(q: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> bool:
    """Whether any rows with the zeros of q keep the bounds: a linear programme."""
    n, k = q.shape
    mean = np.kron(np.full(n, 1 / n), np.eye(k))
    found = linprog(
        np.zeros(n * k),
        A_ub=np.vstack([mean, -mean]),
        b_ub=np.concatenate([upper, -lower]),
        A_eq=np.kron(np.eye(n), np.ones(k)),
        b_eq=np.ones(n),
        bounds=[(0, 1 if x > 0 else 0) for x in q.ravel()],
    )
    return found.status == 0


def assign(scores: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> float | None:
    """The best total score of an assignment with capacities, by integer programming; None where there is none."""
    n, k = scores.shape
    allowed = np.isfinite(scores).ravel()
    each, count = np.kron(np.eye(n), np.ones(k)), np.tile(np.eye(k), n)
    found = milp(
        -np.where(allowed, scores.ravel(), 0),
        constraints=[LinearConstraint(each, 1, 1), LinearConstraint(count, lower, upper)],
        integrality=np.ones(n * k),
        bounds=Bounds(0, allowed.astype(float)),
    )
    return -found.fun if found.status == 0 else None
