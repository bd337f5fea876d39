"""What tests of logs in shards share: methods that take them, and how close answers must be."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import manyhands as mh
from manyhands._base.data_checks import made_table
from manyhands.categorical.shards.claim import Claim
from manyhands.categorical.shards.directory import Writer
from manyhands.categorical.shards.passes import Sharded

#: Sums of shards are added in another order than those of a table.
ORDER = 1e-9

METHODS: dict[str, Callable[..., Any]] = {
    "vote": lambda gold: mh.MajorityVote(),
    "weighted": lambda gold: mh.categorical.WeightedVote(),
    "full": lambda gold: mh.DawidSkene(gold=gold, max_iter=8, tol=0),
    "one-coin": lambda gold: mh.DawidSkene(model="one-coin", gold=gold, restarts=1, max_iter=8, tol=0),
    "hard": lambda gold: mh.DawidSkene(assignment="hard-then-soft", gold=gold, max_iter=8),
    "leaps": lambda gold: mh.DawidSkene(accelerate=True, gold=gold, max_iter=9, tol=0),
    "bayes": lambda gold: mh.BayesianDawidSkene(gold=gold, max_iter=6, tol=0),
    "hierarchical": lambda gold: mh.categorical.HierarchicalDawidSkene(gold=gold),
    "hierarchical-mace": lambda gold: mh.categorical.HierarchicalMACE(gold=gold),
    "default": lambda gold: mh.Consensus(gold=gold, protected=4, max_iter=2),
}


def close(model: Any, other: Any) -> None:
    assert model.n_iter_ == other.n_iter_
    for name in ("posterior_", "confusion_", "prior_"):
        np.testing.assert_allclose(getattr(other, name), getattr(model, name), rtol=0, atol=ORDER)


def fresh(folder: Path) -> Path:
    """A new directory in a folder: shards are never written over others."""
    return Path(tempfile.mkdtemp(dir=folder))


def write_shards(votes: mh.Annotations, path: str | os.PathLike[str], *, n_shards: int = 1) -> mh.Annotations:
    """Write a table that is in memory to a directory of shards, of about equally many tasks each.

    There are never more shards than tasks.
    """
    tasks, workers, labels = votes.codes()
    weights, n_labels = votes.weights, votes.n_labels
    with Claim(path) as claim:
        writer = Writer(claim, votes._workers, votes._classes, votes._labels)
        starts = np.searchsorted(tasks, np.arange(votes.n_tasks + 1))
        bounds = np.unique(np.linspace(0, votes.n_tasks, min(n_shards, votes.n_tasks) + 1).astype(np.int64))
        for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            rows = slice(starts[first], starts[last])
            table = made_table(
                tasks[rows] - np.uint32(first),
                workers[rows],
                labels[rows],
                None if weights is None else weights[rows],
                last - first,
                votes.n_workers,
                n_labels,
                n_classes=votes.n_classes,
            )
            writer.add(table, votes._tasks.take(np.arange(first, last)))
        return mh.Annotations.from_shards(Sharded(writer.finish(votes._unlabelled)))
