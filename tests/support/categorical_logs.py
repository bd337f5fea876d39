"""Small logs of classes that several test files draw."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

import manyhands as mh
from manyhands.testing import Crowd
from manyhands.testing.crowds import of_rows


@st.composite
def crowds(draw: st.DrawFn, max_rows: int = 40) -> Crowd:
    """Small logs in which every name occurs; weights on some."""
    n_tasks, n_workers, n_classes = draw(st.integers(1, 6)), draw(st.integers(1, 5)), draw(st.integers(1, 4))
    row = st.tuples(st.integers(0, n_tasks - 1), st.integers(0, n_workers - 1), st.integers(0, n_classes - 1))
    rows = np.array(draw(st.lists(row, min_size=1, max_size=max_rows)))
    weights = None
    if draw(st.booleans()):
        weight = st.sampled_from([0.5, 1.0, 2.0, 3.5])
        weights = np.array(draw(st.lists(weight, min_size=len(rows), max_size=len(rows))))
    return of_rows(rows, weights)


on_models = pytest.mark.parametrize("model", ["full", "class", "one-coin"])


def drawn(confusion: np.ndarray, n_tasks: int, per_task: int, seed: int = 0) -> tuple[mh.Annotations, np.ndarray]:
    """Votes of workers with these confusion matrices on random tasks, classes equally frequent; and the truth."""
    rng = np.random.default_rng(seed)
    n_workers, k, _ = confusion.shape
    truth = rng.integers(0, k, n_tasks)
    tasks = np.repeat(np.arange(n_tasks), per_task)
    workers = np.concatenate([rng.permutation(n_workers)[:per_task] for _ in range(n_tasks)])
    below = confusion.cumsum(axis=2)[workers, truth[tasks]]
    labels = (rng.random((len(tasks), 1)) > below[:, :-1]).sum(axis=1)
    votes = mh.Annotations.from_codes(tasks, workers, labels, n_tasks=n_tasks, n_workers=n_workers, n_classes=k)
    return votes, truth


def even(accuracy: np.ndarray, k: int) -> np.ndarray:
    """Confusion matrices with accuracies (workers, 1 or K) on the diagonal and errors spread evenly."""
    right = np.broadcast_to(accuracy, (len(accuracy), k))[:, :, None]
    return np.where(np.eye(k, dtype=bool), right, (1 - right) / (k - 1))


@st.composite
def tables(draw: st.DrawFn) -> mh.Annotations:
    """Small logs, some with weights."""
    n_tasks, n_workers, k = draw(st.integers(1, 6)), draw(st.integers(1, 5)), draw(st.integers(1, 4))
    row = st.tuples(st.integers(0, n_tasks - 1), st.integers(0, n_workers - 1), st.integers(0, k - 1))
    rows = np.array(draw(st.lists(row, min_size=1, max_size=40)))
    weights = None
    if draw(st.booleans()):
        weights = draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=len(rows), max_size=len(rows)))
    return mh.Annotations.from_codes(*rows.T, weights=weights, n_tasks=n_tasks, n_workers=n_workers, n_classes=k)
