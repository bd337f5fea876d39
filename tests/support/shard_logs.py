"""What tests of logs in shards share: methods that take them, and how close answers must be."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import manyhands as mh

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
