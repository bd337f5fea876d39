"""Checks that every clustering method must pass, in addition to those of all estimators."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

import manyhands as mh
from manyhands.clustering import Clustering
from manyhands.testing.compare import SAME, assert_close, assert_same_frames, never_falls, require
from manyhands.testing.subject import Subject


@dataclass(frozen=True)
class PairLog:
    """Answers about pairs with replaceable names; ``rows`` are left, right, worker and same, (n, 4)."""

    rows: npt.NDArray[np.int64]
    items: tuple[Any, ...]
    workers: tuple[Any, ...]
    cache: dict[str, mh.Similarities] = field(default_factory=dict, compare=False)

    def votes(self) -> mh.Similarities:
        """Return the answers as a table (cached)."""
        if "table" not in self.cache:
            items, workers = np.array(self.items, object), np.array(self.workers, object)
            left, right, who, same = self.rows.T
            self.cache["table"] = mh.Similarities.from_arrays(items[left], items[right], workers[who], same)
        return self.cache["table"]


@functools.cache
def simulate_log(n_items: int, n_workers: int, n_clusters: int, n_pairs: int, each: int, seed: int) -> PairLog:
    """Simulate a log with names."""
    crowd = mh.simulate(
        n_items, n_workers, n_clusters, pairs=n_pairs, answers_per_pair=each, spammers=0.2, seed=seed, kind="clustering"
    ).log
    pairs, workers, same = (column.astype(np.int64) for column in crowd.codes())
    left, right = (ends.astype(np.int64) for ends in crowd.pairs())
    rows = np.stack([left[pairs], right[pairs], workers, same], axis=1)
    items = tuple(f"i{code:05}" for code in range(crowd.n_items))
    return PairLog(rows, items, tuple(f"w{code:03}" for code in range(crowd.n_workers)))


def _of_rows(*rows: tuple[int, int, int, int]) -> PairLog:
    table = np.array(rows)
    return PairLog(table, tuple("abcdefgh"[: table[:, :2].max() + 1]), tuple("uvwxyz"[: table[:, 2].max() + 1]))


#: Small logs with edge cases.
ODD: dict[str, PairLog] = {
    "one answer": _of_rows((0, 1, 0, 1)),
    "one pair, two opinions": _of_rows((0, 1, 0, 1), (0, 1, 1, 0)),
    "all the same": _of_rows((0, 1, 0, 1), (1, 2, 1, 1), (0, 2, 0, 1)),
    "all different": _of_rows((0, 1, 0, 0), (1, 2, 1, 0), (0, 2, 0, 0), (2, 3, 0, 0)),
    "two groups that no pair connects": _of_rows((0, 1, 0, 1), (2, 3, 0, 1), (0, 1, 1, 1), (2, 3, 1, 0)),
    "a contradiction": _of_rows((0, 1, 0, 1), (1, 2, 0, 1), (0, 2, 0, 0)),
    "nothing but repeats": _of_rows(*([(0, 1, 0, 1)] * 5)),
}


@dataclass(frozen=True)
class SimilaritySubject(Subject):
    """A method for same or different."""

    @property
    def standard(self) -> PairLog:
        """Forty items in three clusters."""
        return simulate_log(40, 8, 3, 240, 2, 0)

    @property
    def other(self) -> PairLog:
        """A log with fewer items and one more cluster."""
        return simulate_log(30, 6, 4, 150, 2, 5)

    @property
    def large(self) -> PairLog:
        """A log of several chunks."""
        return simulate_log(2000, 60, 5, 30_000, 2, 1)

    def answers(self, model: Any, votes: Any) -> dict[str, Callable[[], Any]]:
        """Return the methods of a fitted model that give results."""
        left, right = self.standard.items[:-1], self.standard.items[1:]
        return {
            "to_frame": model.to_frame,
            "workers_frame": model.workers_frame,
            "predict": lambda: model.predict(left, right),
            "predict_proba": lambda: model.predict_proba(left, right),
        }


def _assert_sound(model: Clustering) -> None:
    n, m = len(model.items_), len(model.workers_)
    require(model.clusters_.shape == (n,), f"clusters_ has shape {model.clusters_.shape}")
    sizes = np.bincount(model.clusters_)
    require((sizes > 0).all() and (np.diff(sizes) <= 0).all(), "clusters_ are not numbered by size, without gaps")
    require(model.n_clusters_ == len(sizes), f"n_clusters_ is {model.n_clusters_}")
    for name, size in (("confidence_", n), ("recall_", m), ("specificity_", m)):
        probabilities = getattr(model, name)
        require(probabilities.shape == (size,), f"{name} has shape {probabilities.shape}")
        require(((probabilities >= 0) & (probabilities <= 1 + SAME)).all(), f"{name} contains values outside [0, 1]")
    items = model.items_
    both = model.predict_proba(items[:-1], items[1:])
    require(((both >= 0) & (both <= 1)).all(), "predict_proba returns values outside [0, 1]")
    assert_close(model.predict_proba(items[1:], items[:-1]), both, SAME, "predict_proba of swapped pairs")
    require((model.predict_proba(items, items) == 1).all(), "predict_proba of an item with itself is not 1")
    require(np.isfinite(model.history_).all() and never_falls(model.history_), "history_ decreases or is not finite")


def check_probabilities(subject: SimilaritySubject) -> None:
    """Clusters are numbered by size; confidences, skills and predictions are probabilities; history never decreases."""
    _assert_sound(subject.fitted())


def check_odd_tables(subject: SimilaritySubject) -> None:
    """Edge cases give valid results: one answer, agreement, contradictions, disconnected groups."""
    for name, log in ODD.items():
        try:
            _assert_sound(subject.fitted(log))
        except Exception as error:
            raise AssertionError(f"{name}: {type(error).__name__}: {error}") from error


def check_order_of_rows(subject: SimilaritySubject) -> None:
    """Neither the order of rows nor the sides of items change the result."""
    log, before = subject.standard, subject.fitted()
    rng = np.random.default_rng(0)
    rows = log.rows[rng.permutation(len(log.rows))]
    is_flipped = rng.random(len(rows)) < 0.5
    rows[is_flipped] = rows[is_flipped][:, [1, 0, 2, 3]]
    after = subject.fitted(replace(log, rows=rows, cache={}))
    assert_same_frames(after.to_frame(), before.to_frame(), "order of rows or sides: clusters")
    assert_same_frames(after.workers_frame(), before.workers_frame(), "order of rows or sides: skills")


def check_names_of_workers(subject: SimilaritySubject) -> None:
    """Permuting worker ids permutes their skills and changes nothing else."""
    log, before = subject.standard, subject.fitted()
    order = np.random.default_rng(1).permutation(len(log.workers))
    after = subject.fitted(replace(log, workers=tuple(log.workers[i] for i in order), cache={}))
    np.testing.assert_array_equal(after.clusters_, before.clusters_, err_msg="clusters depend on workers' names")
    for name in ("recall_", "specificity_"):
        assert_close(getattr(after, name)[order], getattr(before, name), 1e-6, f"{name} of renamed workers")


def check_unknown_items(subject: SimilaritySubject) -> None:
    """An unknown item raises an error that names it."""
    model = subject.fitted()
    try:
        model.predict_proba([model.items_[0]], ["unknown item"])
    except ValueError as error:
        require("unknown item" in str(error), f"the error does not name the item: {error}")
    else:
        raise AssertionError("predict_proba returns a probability for an unknown item")


CHECKS = (check_probabilities, check_odd_tables, check_order_of_rows, check_names_of_workers, check_unknown_items)
SUBJECT = SimilaritySubject
