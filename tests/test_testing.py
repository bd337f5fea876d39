"""The shipped check-list holds for an aggregator that lives elsewhere, and each fault is caught by its check."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pytest

import manyhands as mh
from manyhands.aggregators.base import Aggregator, Fit, Parameters
from manyhands.testing import Subject, aggregator_checks, check_aggregator, checks_of, common, run_checks, subject_of


class SmoothedShares(Aggregator):
    """Shares of the votes, each class with some imaginary ones; moved towards the crowd's own shares a few times."""

    def __init__(self, pseudo_count: float = 1.0, max_iter: int = 3, seed: int = 0) -> None:
        self.pseudo_count = pseudo_count
        self.max_iter = max_iter
        self.seed = seed

    def _fit(self, votes: mh.Annotations, progress: Callable[[int, float], object] | None) -> Fit:
        tasks, workers, labels = votes.codes()
        weights = np.ones(len(tasks)) if votes.weights is None else votes.weights
        counts = np.zeros((votes.n_tasks, votes.n_classes))
        np.add.at(counts, (tasks, labels), weights)
        prior = np.full(votes.n_classes, 1 / votes.n_classes)
        for step in range(self.max_iter):
            posterior = counts + self.pseudo_count * prior
            posterior = posterior / posterior.sum(axis=1, keepdims=True)
            prior = posterior.mean(axis=0)
            if progress is not None:
                progress(step + 1, float("nan"))
        confusion = np.full((votes.n_workers, votes.n_classes, votes.n_classes), 1 / votes.n_classes)
        np.add.at(confusion.transpose(0, 2, 1), (workers, labels), weights[:, None] * posterior[tasks])
        confusion /= confusion.sum(axis=2, keepdims=True)
        return Fit(posterior, confusion, prior, np.zeros(0), n_iter=self.max_iter)

    def _posterior(self, table: Any, known: np.ndarray) -> np.ndarray:
        tasks, _, labels, weights = table.columns()
        counts = np.zeros((table.n_tasks, len(self._classes)))
        np.add.at(counts, (tasks, labels), 1.0 if weights is None else weights)
        return counts
