"""What makers of crowds share: checks of their arguments, skills, and matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
# In quotes: numpy.random is imported on first use.
Seed: TypeAlias = "int | Sequence[int] | np.random.SeedSequence | np.random.Generator"


def as_prior(prior: npt.ArrayLike, n_classes: int) -> Floats:
    """Check a distribution over the classes and return it as an array."""
    checked = np.asarray(prior, dtype=np.float64)
    if checked.shape != (n_classes,):
        raise ValueError(f"prior has shape {checked.shape}; give one probability for each of {n_classes} classes")
    if not (np.isfinite(checked).all() and (checked >= 0).all() and abs(checked.sum() - 1) <= 1e-9):
        raise ValueError("prior is not a distribution; give probabilities from 0 to 1 that sum to one")
    return checked


def check_sizes(n_workers: int, n_classes: int) -> None:
    for name, size in (("n_workers", n_workers), ("n_classes", n_classes)):
        if isinstance(size, bool) or not isinstance(size, int | np.integer):
            raise TypeError(f"{name} is {size!r}; give a whole number")
        if size < 1:
            raise ValueError(f"{name} is {size}; give a number of at least 1")


def check_probability(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is {value}; give a probability from 0 to 1")


def bounds(name: str, value: float | tuple[float, float]) -> tuple[float, float]:
    low, high = value if isinstance(value, Sequence) else (value, value)
    if not 0 <= low <= high <= 1:
        raise ValueError(f"{name} is {value}; give a probability, or the lowest and the highest of a range")
    return low, high


def draw_skills(rng: np.random.Generator, n_workers: int, skill: float, spread: float) -> Floats:
    """One skill per worker, of shape (n_workers,)."""
    check_probability("skill", skill)
    if not (np.isfinite(spread) and spread >= 0):
        raise ValueError(f"spread is {spread}; give a finite number of zero or more")
    return rng.normal(skill, spread, size=n_workers).clip(0, 1)


def towards(targets: npt.NDArray[np.integer], rates: Floats) -> Floats:
    """Identity matrices with each worker's rate moved from every class to its target.

    The targets have shape (n_workers, n_classes), the rates (n_workers,).
    """
    n_workers, n_classes = targets.shape
    workers, classes = np.arange(n_workers)[:, None], np.arange(n_classes)
    confusion = np.zeros((n_workers, n_classes, n_classes))
    confusion[workers, classes, classes] = (1 - rates)[:, None]
    # Added, not set: a class that is its own target keeps everything.
    confusion[workers, classes, targets] += rates[:, None]
    return confusion


def partners(n_classes: int, similar: Sequence[tuple[int, int]] | None) -> npt.NDArray[np.int64]:
    """Find the class each class is mixed up with; itself where there is none."""
    if similar is None:
        similar = [(k, k + 1) for k in range(0, n_classes - 1, 2)]
    partner = np.arange(n_classes)
    for pair in similar:
        a, b = pair
        if a == b or not (0 <= a < n_classes and 0 <= b < n_classes):
            raise ValueError(f"similar has {pair}; give two different classes from 0 to {n_classes - 1}")
        if partner[a] != a or partner[b] != b:
            raise ValueError(f"similar has {pair}, but one of them has a partner already; name each class once at most")
        partner[a], partner[b] = b, a
    return partner


def dirichlet(rng: np.random.Generator, parameters: Floats) -> Floats:
    """Draw a distribution from each row of parameters, some of which may be zero.

    In logarithms, by G(a) = G(a + 1) U^(1/a): gamma variates of small parameters underflow, at
    times a whole row of them.
    """
    # Below the floor, only the largest entry matters, and that no longer changes.
    floored = np.maximum(parameters, 1e-100)
    logs = np.log(rng.standard_gamma(floored + 1)) + np.log1p(-rng.random(floored.shape)) / floored
    logs[parameters == 0] = -np.inf
    shares = np.exp(logs - logs.max(axis=-1, keepdims=True))
    distribution: Floats = shares / shares.sum(axis=-1, keepdims=True)
    return distribution
