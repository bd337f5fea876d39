"""Communities of workers, and subtypes of classes: recovery, bounds, limits and gains."""

from __future__ import annotations

import numpy as np
import pytest
from categorical_logs import crowds, drawn, even
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import PARITY

import manyhands as mh
from manyhands.testing.compare import assert_close, never_falls
from manyhands.testing.crowds import STANDARD
from oracles import communities, em

# ------------------------------------------------------------------------------------------------------ communities

#: Careful workers, workers who take the third class for the first, and guessers.
PROTOTYPES = np.array(
    [
        [[0.92, 0.04, 0.04], [0.04, 0.92, 0.04], [0.04, 0.04, 0.92]],
        [[0.80, 0.15, 0.05], [0.10, 0.80, 0.10], [0.60, 0.10, 0.30]],
        [[0.40, 0.30, 0.30], [0.35, 0.35, 0.30], [0.35, 0.30, 0.35]],
    ]
)
SHARES = np.array([0.5, 0.3, 0.2])


def kinds(k: int) -> np.ndarray:
    """The same with more classes: careful workers, workers who often name the next class, guessers; (3, K, K)."""
    off = (np.ones((k, k)) - np.eye(k)) / (k - 1)
    following = np.roll(np.eye(k), 1, axis=1)
    return np.array(
        [0.9 * np.eye(k) + 0.1 * off, 0.55 * np.eye(k) + 0.35 * following + 0.1 / k, 0.95 / k + 0.05 * np.eye(k)]
    )


def clustered(n_workers: int, labels_per_worker: int, strength: float, seed: int, prototypes: np.ndarray = PROTOTYPES):
    """Votes, five a task, of workers around the prototypes; the truth, and the community of each worker."""
    rng = np.random.default_rng(seed)
    member = rng.permutation(np.arange(n_workers) % 10)
    member = np.searchsorted(np.cumsum(10 * SHARES), member, side="right")
    confusion = prototypes[member]
    if np.isfinite(strength):
        confusion = np.array([[rng.dirichlet(strength * row) for row in matrix] for matrix in confusion])
    votes, truth = drawn(confusion, n_workers * labels_per_worker // 5, 5, seed=seed)
    return votes, truth, member


def matched(model: mh.categorical.CommunityDawidSkene) -> np.ndarray:
    """The community that was found for each prototype: the nearest, which must be a different one for each."""
    gaps = np.abs(model.community_confusion_[None] - PROTOTYPES[:, None]).sum(axis=(2, 3))
    order = gaps.argmin(axis=1)
    assert sorted(order) == [0, 1, 2], gaps
    return order


@pytest.mark.parametrize("strength", [30.0, float("inf")])
def test_recovers_communities(strength: float) -> None:
    errors = []
    for n_workers in (100, 900):
        votes, truth, member = clustered(n_workers, 30, strength, seed=n_workers)
        model = mh.categorical.CommunityDawidSkene(strength=None if np.isfinite(strength) else strength).fit(votes)
        order = matched(model)
        errors.append(np.sqrt(np.mean((model.community_confusion_[order] - PROTOTYPES) ** 2)))
        assert np.mean(model.labels_ == truth) > 0.9
    # Nine times the workers would cut the error to a third.
    assert errors[1] < 0.03, errors
    assert errors[1] < 0.7 * errors[0], errors
    assert np.mean(model.communities_.argmax(axis=1) == order[member]) > 0.85
    np.testing.assert_allclose(model.community_shares_[order], SHARES, atol=0.08)
    if np.isfinite(strength):
        assert 15 < model.strength_ < 60


def test_gains_where_workers_have_few_labels() -> None:
    found = []
    for seed in range(3):
        votes, truth, _ = clustered(200, 10, 50.0, seed, kinds(6))
        models = (mh.categorical.CommunityDawidSkene(), mh.DawidSkene(max_iter=1000), mh.MajorityVote())
        found.append([np.mean(model.fit(votes).labels_ == truth) for model in models])
    community, plain, majority = np.mean(found, axis=0)
    assert community > plain + 0.03, found
    assert community > majority, found


@settings(max_examples=40, deadline=None)
@given(
    log=crowds(),
    n=st.integers(1, 4),
    strength=st.sampled_from([None, 0.5, 20.0, float("inf")]),
    known=st.booleans(),
)
def test_the_bound_never_falls(log, n: int, strength: float | None, known: bool) -> None:
    gold = {log.tasks[0]: log.classes[0]} if known else None
    model = mh.categorical.CommunityDawidSkene(n, strength=strength, gold=gold, protected=3, max_iter=25, tol=0.0).fit(
        log.votes()
    )
    assert never_falls(model.history_), np.diff(model.history_).min()
    np.testing.assert_allclose(model.communities_.sum(axis=1), 1, atol=1e-9)
    np.testing.assert_allclose(model.community_confusion_.sum(axis=2), 1, atol=1e-9)


def test_infinite_strength_is_the_limit_of_a_large_one() -> None:
    votes = STANDARD.votes()
    fixed = {"max_iter": 6, "tol": 0.0, "n_communities": 2}
    near, limit = (mh.categorical.CommunityDawidSkene(strength=s, **fixed).fit(votes) for s in (1e9, float("inf")))
    assert_close(near.posterior_, limit.posterior_, 1e-4, "posterior")
    assert_close(near.community_confusion_, limit.community_confusion_, 1e-4, "prototypes")
    # Workers are then mixtures of prototypes.
    assert_close(limit.confusion_, np.tensordot(limit.communities_, limit.community_confusion_, axes=1), 1e-9, "rows")


def test_gold_is_kept() -> None:
    votes, truth, _ = clustered(60, 10, 50.0, 1)
    model = mh.categorical.CommunityDawidSkene(gold={int(t): int((truth[t] + 1) % 3) for t in range(5)}).fit(votes)
    np.testing.assert_array_equal(model.labels_[:5], (truth[:5] + 1) % 3)


def test_restarts_keep_the_best_bound() -> None:
    votes, _, _ = clustered(60, 10, 50.0, 2)
    bounds = [mh.categorical.CommunityDawidSkene(restarts=n).fit(votes).objective_ for n in (0, 3)]
    assert bounds[1] >= bounds[0]


# --------------------------------------------------------------------------------------------------------- subtypes


def camps(n_tasks: int, n_workers: int, seed: int):
    """Two subtypes of each of two classes, on one of which either half of the workers can only guess: and the truth."""
    rng = np.random.default_rng(seed)
    truth, subtype = rng.integers(0, 2, (2, n_tasks))
    camp = np.arange(n_workers) % 2
    right = rng.random((n_tasks, n_workers)) < np.where(camp == subtype[:, None], 0.9, 0.5)
    votes = mh.Annotations.from_dense(np.where(right, truth[:, None], 1 - truth[:, None]))
    return votes, truth


def test_gains_where_workers_err_together() -> None:
    found = []
    for seed in range(2):
        votes, truth = camps(700, 12, seed)
        models = (
            mh.categorical.EBCC(n_subtypes=4, restarts=1),
            mh.DawidSkene(max_iter=1000),
            mh.Consensus(),
            mh.MajorityVote(),
        )
        found.append([np.mean(model.fit(votes).labels_ == truth) for model in models])
    ebcc, plain, default, majority = np.mean(found, axis=0)
    # Models of independent workers take what one camp says for the class; the majority is not misled.
    assert ebcc > plain + 0.08, found
    assert ebcc > default + 0.03, found
    assert ebcc > majority - 0.02, found


def test_recovers_subtypes() -> None:
    votes, truth = camps(3000, 12, 0)
    model = mh.categorical.EBCC(n_subtypes=2, restarts=2).fit(votes)
    assert np.mean(model.labels_ == truth) > 0.92
    # Of either class, one subtype on which even workers know, and one on which odd ones do.
    right = np.einsum("mksk->ksm", model.subtype_confusion_)
    order = np.argsort(-right[:, :, 0], axis=1)
    wanted = np.where(np.arange(12) % 2 == np.array([[0], [1]]), 0.9, 0.5)
    np.testing.assert_allclose(right[np.arange(2)[:, None], order], np.stack([wanted, wanted]), atol=0.08)
    np.testing.assert_allclose(model.subtypes_, 0.5, atol=0.06)


def test_one_subtype_is_bayesian_dawid_skene() -> None:
    votes = STANDARD.votes()
    fixed = {"max_iter": 9, "tol": 0.0, "pseudo_count": (2.0, 1.0), "class_pseudo_count": 1.0}
    one = mh.categorical.EBCC(n_subtypes=1, restarts=0, **fixed).fit(votes)
    plain = mh.BayesianDawidSkene(init="shares", **fixed).fit(votes)
    # Both start from shares of the votes; one counts its last pass before, the other after.
    assert_close(one.history_, plain.history_[:-1], 1e-9, "bound")
    shorter = plain.set_params(max_iter=8).fit(votes)
    assert_close(one.confusion_, shorter.confusion_, 1e-9, "confusion")


def test_dirichlet_posteriors_match_the_twin() -> None:
    votes = STANDARD.votes()
    model = mh.categorical.EBCC(n_subtypes=3, restarts=0, max_iter=7, tol=0.0).fit(votes)
    seed = int(np.random.default_rng(0).integers(0, 2**63))
    _, found = communities.fit_subtypes(
        em.Rows.of(votes),
        n_subtypes=3,
        pseudo=np.ones((3, 3)) + 3 * np.eye(3),
        class_pseudo=np.ones(3),
        subtype_pseudo=0.1 / 3,
        seed=seed,
        max_iter=7,
        tol=0.0,
    )
    assert_close(model.subtype_confusion_, found.rows / found.rows.sum(axis=3, keepdims=True), PARITY, "rows")
    assert_close(model.subtypes_, found.mixtures / found.mixtures.sum(axis=1, keepdims=True), PARITY, "mixtures")


@settings(max_examples=40, deadline=None)
@given(log=crowds(), n=st.integers(1, 5), seed=st.integers(0, 5))
def test_the_bound_of_subtypes_never_falls(log, n: int, seed: int) -> None:
    model = mh.categorical.EBCC(n_subtypes=n, restarts=0, seed=seed, max_iter=25, tol=0.0).fit(log.votes())
    assert never_falls(model.history_), np.diff(model.history_).min()


def test_restarts_of_subtypes_keep_the_best_bound() -> None:
    votes, _ = camps(200, 6, 3)
    bounds = [mh.categorical.EBCC(n_subtypes=3, restarts=n).fit(votes).objective_ for n in (0, 4)]
    assert bounds[1] >= bounds[0]


# ---------------------------------------------------------------------------------------------------------- errors

BAD = {
    "n_communities": (mh.categorical.CommunityDawidSkene(0), "n_communities must be at least 1"),
    "strength": (mh.categorical.CommunityDawidSkene(strength=-1.0), "strength must be positive, or None to learn it"),
    "prototypes": (mh.categorical.CommunityDawidSkene(pseudo_count=0.0), "pseudo_count .* must be positive"),
    "restarts": (mh.categorical.CommunityDawidSkene(restarts=-1), "restarts must be at least 0"),
    "gold": (mh.categorical.CommunityDawidSkene(gold={"t000": "c9"}), "gold gives task 't000' the class 'c9'"),
    "n_subtypes": (mh.categorical.EBCC(n_subtypes=0), "n_subtypes must be at least 1"),
    "subtypes": (mh.categorical.EBCC(subtype_pseudo_count=0.0), "subtype_pseudo_count must be above 0"),
    "rows": (mh.categorical.EBCC(pseudo_count=(1.0, 0.0)), "pseudo_count .* must be positive"),
}


@pytest.mark.parametrize(("model", "message"), BAD.values(), ids=BAD)
def test_bad_parameters_are_named(model, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.fit(STANDARD.votes())


def test_votes_of_one_kind_need_no_communities() -> None:
    votes, truth = drawn(even(np.full((30, 1), 0.7), 3), 400, 5)
    accuracies = [np.mean(mh.categorical.CommunityDawidSkene(n).fit(votes).labels_ == truth) for n in (1, 4)]
    assert abs(accuracies[0] - accuracies[1]) < 0.03, accuracies
