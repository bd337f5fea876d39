"""Linked tasks: beliefs against all assignments and chains, recovery, what is refused."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

import manyhands as mh
from manyhands import _core
from manyhands.categorical._linked import Graph
from manyhands.testing import Crowd, aggregator_checks
from manyhands.testing.compare import assert_close
from oracles import sequences as oracle


def beliefs(n: int, pairs: list[tuple[int, int]], evidence: np.ndarray, strength: float) -> dict:
    ends = np.array(pairs, np.int64).reshape(-1, 2)
    graph = Graph.of(ends[:, 0], ends[:, 1], n)
    return _core.linked_beliefs(
        graph.offsets, graph.neighbours, graph.opposite, evidence, strength=strength, max_sweeps=50, tol=1e-12
    )


@pytest.mark.parametrize("strength", [-1.0, 0.0, 1.5])
def test_trees_agree_with_all_assignments(strength: float) -> None:
    rng = np.random.default_rng(1)
    pairs = [(0, 2), (1, 2), (2, 3), (4, 5)]
    evidence = rng.normal(size=(6, 3), scale=2.0)
    found = beliefs(6, pairs, evidence, strength)
    wanted, alike, total = np.zeros((6, 3)), 0.0, 0.0
    for classes in product(range(3), repeat=6):
        same = sum(classes[a] == classes[b] for a, b in pairs)
        weight = np.exp(evidence[np.arange(6), classes].sum() + strength * same)
        wanted[np.arange(6), classes] += weight
        alike, total = alike + same * weight, total + weight
    assert_close(found["posterior"], wanted / total, 1e-9, "posterior")
    assert_close(found["agreement"], alike / total, 1e-9, "agreement")


def test_a_chain_is_a_hidden_markov_model() -> None:
    rng = np.random.default_rng(2)
    evidence, strength, k = rng.normal(size=(40, 4), scale=2.0), 1.2, 4
    found = beliefs(40, [(i, i + 1) for i in range(39)], evidence, strength)
    stay = np.exp(strength) / (np.exp(strength) + k - 1)
    steps = np.full((k + 1, k), (1 - stay) / (k - 1))
    steps[np.arange(k), np.arange(k)] = stay
    steps[k] = 1 / k
    wanted = oracle.sweep(evidence, np.log(steps))[0]
    assert_close(found["posterior"], wanted, 1e-9, "posterior")
    decoded = _core.sequence_decode(np.array([0, 40], np.uint32), evidence, np.log(steps), False)
    assert_close(found["posterior"], decoded["posterior"], 1e-9, "posterior of the compiled chain")


def film(seed: int, n: int = 400) -> tuple[np.ndarray, mh.Annotations]:
    """Frames that change class once in twenty, and five workers who are right in 55 to 70 of 100 frames."""
    rng = np.random.default_rng(seed)
    truth = np.cumsum(rng.random(n) < 0.05) % 3
    right = rng.random((n, 5)) < rng.uniform(0.55, 0.7, 5)
    said = np.where(right, truth[:, None], rng.integers(0, 3, (n, 5)))
    return truth, mh.Annotations.from_dense(said)


def test_links_help_and_their_strength_is_learnt(tmp_path: Path) -> None:
    truth, votes = film(3)
    edges = [(i, i + 1) for i in range(len(truth) - 1)]
    model = mh.sequences.LinkedDawidSkene(edges).fit(votes)
    alone = mh.DawidSkene().fit(votes)
    assert (model.labels_ == truth).mean() > (alone.labels_ == truth).mean() + 0.05
    assert 1.5 < model.strength_ < 8
    assert model.confusion_.shape == (5, 3, 3)
    model.save(tmp_path / "model.mh")
    assert mh.load(tmp_path / "model.mh").strength_ == model.strength_
    # Links between tasks that have nothing to do with each other are found to be weak, and change little.
    order = np.random.default_rng(0).permutation(len(truth))
    odd = mh.sequences.LinkedDawidSkene([(order[i], order[i + 1]) for i in range(len(truth) - 1)]).fit(votes)
    assert abs(odd.strength_) < 0.7
    assert (odd.labels_ == truth).mean() > (alone.labels_ == truth).mean() - 0.05
    # Edges given twice, or the other way around, count once; columns will do.
    again = mh.sequences.LinkedDawidSkene(([b for _, b in edges] * 2, [a for a, _ in edges] * 2)).fit(votes)
    np.testing.assert_array_equal(again.posterior_, model.posterior_)
    framed = mh.sequences.LinkedDawidSkene({"from": [a for a, _ in edges], "to": [b for _, b in edges]}).fit(votes)
    np.testing.assert_array_equal(framed.posterior_, model.posterior_)


def test_the_posterior_is_that_of_the_documented_model() -> None:
    """Enumeration of a chain under the field, links and confusion matrices that the fit ended with."""
    votes = mh.Annotations.from_dense([[0, 0, 1], [0, 1, 0], [1, 1, 1], [2, 1, 2], [2, 2, 2], [0, 2, 0], [0, 0, 0]])
    strength, n, k = 1.3, 7, 3
    edges = [(i, i + 1) for i in range(n - 1)]
    model = mh.sequences.LinkedDawidSkene(edges, strength=strength, max_iter=2000, tol=1e-13).fit(votes)
    share = (model.posterior_.sum(axis=0) + 1) / (n + k)
    field = share * np.exp(-strength * (2 * len(edges) / n) * share)
    expected = np.zeros((n, k))
    for classes in product(range(k), repeat=n):
        weight = np.prod(field[list(classes)]) * np.exp(strength * sum(classes[a] == classes[b] for a, b in edges))
        for task, worker, label in zip(*votes.codes(), strict=True):
            weight *= model.confusion_[worker, classes[task], label]
        expected[np.arange(n), classes] += weight
    assert_close(model.posterior_, expected / expected.sum(axis=1, keepdims=True), 1e-8, "posterior")
    assert_close(model.prior_, model.posterior_.mean(axis=0), 1e-12, "prior")


@pytest.mark.parametrize(
    ("edges", "told"),
    [
        (None, "edges="),
        ([(0, 0)], "task 0"),
        ([(0, 900)], "1 task.*900"),
        (([0, 1], [1]), "length"),
    ],
)
def test_bad_edges_are_named(edges: object, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        mh.sequences.LinkedDawidSkene(edges).fit(film(1, 30)[1])


def in_a_row(crowd: Crowd) -> mh.sequences.LinkedDawidSkene:
    """A model whose edges join each task of a crowd to the next that somebody labelled."""
    there = np.unique(crowd.rows[:, 0]).tolist()
    edges = [(crowd.tasks[a], crowd.tasks[b]) for a, b in pairwise(there)]
    return mh.sequences.LinkedDawidSkene(edges)


SKIPPED = {"predict_repeats_fit": "prediction takes tasks one by one, without their edges"}


@pytest.mark.parametrize(
    "check", [pytest.param(check, id=name) for name, check in aggregator_checks(in_a_row, skip=SKIPPED)]
)
@pytest.mark.filterwarnings("ignore::manyhands.errors.ConvergenceWarning", "ignore::manyhands.errors.OverlapWarning")
def test_check_list(check) -> None:
    check()
