"""Votes against votes counted one at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import PARITY, twin_weights

import manyhands as mh
from manyhands.testing.compare import assert_close
from manyhands.testing.crowds import STANDARD, Crowd, of_rows
from oracles import em, voting


@st.composite
def logs(draw: st.DrawFn) -> Crowd:
    row = st.tuples(st.integers(0, 6), st.integers(0, 4), st.integers(0, 3))
    rows = np.array(draw(st.lists(row, min_size=1, max_size=40)))
    weights = None
    if draw(st.booleans()):
        weight = st.sampled_from([0.0, 0.1, 0.2, 0.3, 1.0, 2.0])
        weights = np.array(draw(st.lists(weight, min_size=len(rows), max_size=len(rows))))
    return of_rows(rows, weights)


#: Tasks 1, 2 and 4 are tied: between a and b, between all, and between b and c.
TIED = {
    "task": [1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4, 4],
    "worker": [1, 2, 1, 2, 3, 1, 2, 3, 1, 2, 3, 4, 5],
    "label": list("bacabccbbcbca"),
}


# ---------------------------------------------------------------------------------------------- majority vote


@settings(max_examples=60)
@given(log=logs())
def test_majority_vote_matches_the_twin(log: Crowd) -> None:
    votes = log.votes()
    rows = em.Rows.of(votes)
    model = mh.MajorityVote().fit(votes)
    shares = voting.shares(rows)
    assert_close(model.posterior_, shares, PARITY, "posterior")
    assert_close(model.prior_, shares.mean(axis=0), PARITY, "prior")
    assert_close(model.confusion_, voting.confusion(rows, shares), PARITY, "confusion")
    leaders = [voting.leaders(row) for row in shares]
    assert model.tied_.tolist() == [len(found) > 1 for found in leaders]
    assert model.labels_.tolist() == [votes.classes[found[0]] for found in leaders]
    assert model.n_iter_ == 1
    assert model.converged_
    assert np.isnan(model.objective_)
    random = mh.MajorityVote(ties="random", seed=1).fit(votes).labels_.tolist()
    assert all(label in votes.classes[found] for label, found in zip(random, leaders, strict=True))
    abstain = mh.MajorityVote(ties="abstain").fit(votes).labels_.tolist()
    assert [label is None for label in abstain] == model.tied_.tolist()


def test_tasks_beyond_the_first_block_have_their_own_votes() -> None:
    """The core counts 2048 tasks at a time."""
    labels = np.random.default_rng(0).integers(4, size=(5000, 3))
    counts = (labels[:, :, None] == np.arange(4)).sum(axis=1)
    votes = mh.Annotations.from_dense(labels)
    np.testing.assert_allclose(mh.MajorityVote().fit(votes).posterior_, counts / 3, atol=1e-15)
    weights = np.array([1.0, 2.0, 4.0])
    weighted = ((labels[:, :, None] == np.arange(4)) * weights[:, None]).sum(axis=1)
    fit = mh.categorical.WeightedVote(dict(enumerate(weights))).fit(votes)
    np.testing.assert_allclose(fit.posterior_, weighted / 7, atol=1e-15)


def test_ties_go_to_the_lowest_class_whatever_the_order_of_rows() -> None:
    for order in (np.arange(13), np.arange(13)[::-1]):
        log = {key: [column[i] for i in order] for key, column in TIED.items()}
        model = mh.MajorityVote().fit(log)
        assert model.labels_.tolist() == ["a", "a", "c", "b"]
        assert model.tied_.tolist() == [True, True, False, True]


def test_lowest_means_the_order_of_the_given_classes() -> None:
    votes = mh.Annotations.from_frame(TIED, classes=["c", "b", "a"])
    assert mh.MajorityVote().fit(votes).labels_.tolist() == ["b", "c", "c", "c"]


def test_shares_of_thirds_are_tied() -> None:
    # 0.1 + 0.2 and 0.3 differ in the last bit.
    votes = mh.Annotations.from_arrays([1, 1, 1], [1, 2, 3], ["a", "a", "b"], weights=[0.1, 0.2, 0.3])
    assert mh.MajorityVote().fit(votes).tied_.tolist() == [True]


def test_random_ties_are_even_and_repeat_with_the_seed() -> None:
    n_tasks = 3000
    votes = mh.Annotations.from_codes(
        np.repeat(np.arange(n_tasks), 4),
        np.tile(np.arange(4), n_tasks),
        np.tile([0, 1, 2, 3], n_tasks),
        n_tasks=n_tasks,
        n_workers=4,
        n_classes=5,
    )
    first, again, other = (mh.MajorityVote(ties="random", seed=seed).fit(votes).labels_ for seed in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert np.mean(first == other) < 0.5
    # Five standard deviations of a binomial count either way; never a class nobody named.
    counts = np.bincount(first, minlength=5)
    assert counts[4] == 0
    assert np.abs(counts[:4] - n_tasks / 4).max() < 5 * np.sqrt(n_tasks * 0.25 * 0.75)


def test_random_ties_leave_clear_winners_alone() -> None:
    for seed in range(5):
        assert mh.MajorityVote(ties="random", seed=seed).fit(TIED).labels_[2] == "c"


def test_abstention_is_null_in_the_frame() -> None:
    model = mh.MajorityVote(ties="abstain").fit(TIED)
    assert model.labels_.tolist() == [None, None, "c", None]
    assert model.to_frame().column("label").to_pylist() == [None, None, "c", None]
    assert model.to_frame().column("tied").to_pylist() == [True, True, False, True]


def test_abstention_with_integer_classes() -> None:
    model = mh.MajorityVote(ties="abstain").fit({"task": [1, 1, 2], "worker": [1, 2, 1], "label": [7, 8, 8]})
    assert model.labels_.tolist() == [None, 8]
    assert model.to_frame().column("label").to_pylist() == [None, 8]


def test_unknown_tie_policy() -> None:
    with pytest.raises(ValueError, match=r"ties.*'lowest'.*'coin'"):
        mh.MajorityVote(ties="coin").fit(TIED)


def test_unknown_workers_vote_like_any_other() -> None:
    model = mh.MajorityVote().fit(TIED)
    new = mh.Annotations.from_arrays(["n"] * 3, ["x", "y", "z"], ["b", "c", "c"])
    np.testing.assert_allclose(model.predict_proba(new), [[0, 1 / 3, 2 / 3]])
    assert model.predict(new).tolist() == ["c"]


# ---------------------------------------------------------------------------------------------- weighted vote


@settings(max_examples=40)
@given(log=logs(), data=st.data())
def test_weighted_vote_matches_the_twin(log: Crowd, data: st.DataObject) -> None:
    votes = log.votes()
    rows = em.Rows.of(votes)
    weight = st.sampled_from([-1.0, 0.0, 0.25, 1.0, 2.5])
    given_weights = {worker: data.draw(weight) for worker in log.workers}
    for model in (
        mh.categorical.WeightedVote("agreement"),
        mh.categorical.WeightedVote("zero-based", n_iter=5, learning_rate=0.7, rate_decay=0.3, decay_every=2),
        mh.categorical.WeightedVote("zero-based", n_iter=3, initial_skill=0.9),
        mh.categorical.WeightedVote(given_weights),
    ):
        model.fit(votes)
        weights = twin_weights(model, votes)
        shares = voting.shares(rows, weights)
        assert_close(model.weights_, weights, PARITY, "weights")
        assert_close(model.posterior_, shares, PARITY, "posterior")
        assert_close(model.confusion_, voting.confusion(rows, shares), PARITY, "confusion")


def test_agreement_by_hand() -> None:
    # Majority: a, b. Ann always agrees, bob on the first task only, cy on the second only.
    log = {
        "task": [1, 1, 1, 2, 2, 2],
        "worker": ["ann", "bob", "cy", "ann", "bob", "cy"],
        "label": ["a", "a", "b", "b", "a", "b"],
    }
    model = mh.categorical.WeightedVote().fit(log)
    assert model.weights_.tolist() == [1.0, 0.5, 0.5]
    np.testing.assert_allclose(model.posterior_, [[0.75, 0.25], [0.25, 0.75]])
    assert model.labels_.tolist() == ["a", "b"]
    assert model.n_iter_ == 1


def test_zero_based_skill_by_hand() -> None:
    log = {"task": [1, 1, 1], "worker": ["ann", "bob", "cy"], "label": ["a", "a", "b"]}
    model = mh.categorical.WeightedVote("zero-based", n_iter=2, learning_rate=0.5, rate_decay=0.5, decay_every=1).fit(
        log
    )
    # Skills start at 1/2; agreements are 1, 1, 0; the rate shrinks before a step: 1/4 and then 1/8 of the way.
    np.testing.assert_allclose(model.weights_, [0.671875, 0.671875, 0.328125])
    assert model.n_iter_ == 2
    assert not model.converged_


def test_zero_based_skill_stops_when_nothing_moves() -> None:
    model = mh.categorical.WeightedVote("zero-based", n_iter=100, tol=1e-3).fit(STANDARD.votes())
    assert model.converged_
    assert model.n_iter_ < 100


def test_given_weights_decide() -> None:
    log = {"task": [1, 1, 1], "worker": ["ann", "bob", "cy"], "label": ["a", "b", "b"]}
    weights = {"cy": 1.0, "ann": 3.0, "bob": 1.0, "somebody else": 9.0}
    model = mh.categorical.WeightedVote(weights).fit(log)
    assert model.labels_.tolist() == ["a"]
    np.testing.assert_allclose(model.posterior_, [[0.6, 0.4]])
    assert model.weights_.tolist() == [3.0, 1.0, 1.0]
    # A negative weight takes votes away, but no class has fewer than none.
    np.testing.assert_allclose(mh.categorical.WeightedVote(weights | {"ann": -1.0}).fit(log).posterior_, [[0.0, 1.0]])


def test_given_weights_by_integer_in_any_order() -> None:
    log = {"task": [1, 1, 1], "worker": [10, 20, 30], "label": ["a", "b", "b"]}
    for order in ([10, 20, 30], [30, 10, 20], [20, 30, 10]):
        weights = {worker: worker / 10 for worker in order}
        assert mh.categorical.WeightedVote(weights).fit(log).weights_.tolist() == [1.0, 2.0, 3.0]


def test_unknown_workers_have_the_average_weight() -> None:
    # Ann has two labels, bob one: the average counts her twice.
    log = {"task": [1, 2, 2], "worker": ["ann", "ann", "bob"], "label": ["a", "a", "b"]}
    model = mh.categorical.WeightedVote({"ann": 3.0, "bob": 0.0}).fit(log)
    new = mh.Annotations.from_arrays(["n", "n"], ["ann", "stranger"], ["a", "b"])
    np.testing.assert_allclose(model.predict_proba(new), [[3 / 5, 2 / 5]])
    assert model.predict(new).tolist() == ["a"]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"weights": "fair"}, "weights must be 'agreement', 'zero-based' or a mapping.*'fair'"),
        ({"weights": {"w00": 1.0}}, "weights.*7.*8 workers"),
        ({"weights": {}}, "weights.*8.*8 workers"),
        (
            {"weights": dict.fromkeys(STANDARD.workers, 1.0) | {"w03": np.nan}},
            "worker 'w03'",
        ),
        (
            {"weights": dict.fromkeys(STANDARD.workers, 1.0) | {"w03": np.inf}},
            "worker 'w03'",
        ),
        ({"weights": "zero-based", "n_iter": 0}, "n_iter.* at least 1, not 0"),
        ({"weights": "zero-based", "decay_every": 0}, "decay_every.*1"),
    ],
)
def test_bad_parameters_are_named(params, message: str) -> None:
    model = mh.categorical.WeightedVote(**params)
    with pytest.raises(ValueError, match=message):
        model.fit(STANDARD.votes())
    with pytest.raises(mh.errors.NotFittedError):
        _ = model.labels_
