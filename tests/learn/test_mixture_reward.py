"""Rewards of groups that nobody names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import manyhands as mh
from manyhands.learn.pairs import PairData

torch.set_num_threads(1)
#: What groups want of three features.
WANTED = np.array([[2.0, 0.0, 0.5], [-2.0, 1.0, 0.5]])


def compared(seed: int = 0, n: int = 1600) -> tuple[np.ndarray, dict[str, Any], np.ndarray]:
    """Features, comparisons by ten workers and in six contexts, and the group of each worker."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 3))
    group = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 1])
    worker = rng.integers(10, size=n)
    left = rng.integers(50, size=n)
    right = (left + rng.integers(1, 50, size=n)) % 50
    rewards = X @ WANTED.T
    ahead = rewards[left, group[worker]] - rewards[right, group[worker]]
    wins = rng.random(n) < 1 / (1 + np.exp(-ahead))
    log = {"left": left, "right": right, "worker": worker, "winner": np.where(wins, "left", "right")}
    return X, log, group


def linear(seed: int = 0, groups: int = 2) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Linear(3, groups)


def matched(found: np.ndarray, group: np.ndarray) -> list[int]:
    """The number that each true group has in the model; fails where the members are not told apart."""
    names = [int(np.bincount(found[group == g]).argmax()) for g in (0, 1)]
    assert sorted(names) == [0, 1]
    assert (found == np.array(names)[group]).all()
    return names


def test_groups_and_their_rewards_are_recovered() -> None:
    X, log, group = compared()
    model = mh.learn.MixtureReward(linear(), max_epochs=25, lr=0.05).fit(X, log)
    names = matched(model.groups_.argmax(axis=1), group)
    rewards = model.predict(X)
    assert rewards.shape == (50, 2)
    for true, name in enumerate(names):
        assert np.corrcoef(rewards[:, name], X @ WANTED[true])[0, 1] > 0.97
    np.testing.assert_allclose(model.mixing_[names], [7 / 12, 5 / 12], atol=0.02)
    assert (model.reliability_ >= 0.5).all()
    # One reward for all explains less, and knows it.
    alone = mh.learn.MixtureReward(linear(groups=1), components=1, max_epochs=25, lr=0.05).fit(X, log)
    assert model.log_likelihood_ > alone.log_likelihood_ + 50
    both = model.predict_proba(X[:4], X[4:8])
    each = 1 / (1 + np.exp(rewards[4:8] - rewards[:4]))
    np.testing.assert_allclose(both, each @ model.mixing_)


def test_contexts_may_be_what_has_groups() -> None:
    X, log, group = compared()
    log = {**log, "context": [f"topic {w}" for w in log["worker"]], "worker": np.zeros(len(log["left"]), int)}
    model = mh.learn.MixtureReward(linear(), by="context", max_epochs=25, lr=0.05)
    model.fit(X, mh.Comparisons.from_frame(log, context="context"))
    assert model.members_ == [f"topic {w}" for w in range(10)]
    matched(model.groups_.argmax(axis=1), group)
    with pytest.raises(ValueError, match="comparisons"):
        mh.learn.MixtureReward(linear(), by="context").fit(X, compared()[1])


def test_the_loss_and_the_e_step_are_those_of_plain_twins() -> None:
    X, log, _ = compared(n=60)
    model = mh.learn.MixtureReward(linear(), max_epochs=2, shrink=0.7).fit(X, log)
    games = mh.Comparisons.from_frame(log)
    left, right, outcomes, workers, _ = games.codes()
    rewards, care, members = model.predict(X), model.reliability_, model.groups_
    place = games.items
    terms = np.empty((60, 2))
    for i in range(60):
        winner, loser = (left, right) if outcomes[i] == 0 else (right, left)
        sure = 1 / (1 + np.exp(rewards[place[loser[i]]] - rewards[place[winner[i]]]))
        terms[i] = np.log(care[workers[i]] * sure + (1 - care[workers[i]]) * (1 - sure))
    counts = np.bincount(workers)
    rows = model._parts["workers"].weight.detach().numpy()[:, 0]
    beforehand = np.mean([0.35 * rows[w] ** 2 / counts[w] for w in workers])
    wanted = -np.mean([members[w] @ term for w, term in zip(workers, terms, strict=True)]) + beforehand
    said = (outcomes == 0).astype(int)
    data = PairData(
        X.astype(np.float32), None, games._items, (left, right), (workers, games._workers), said, np.ones(60)
    )
    batch = data.batch(torch.arange(60), torch.device("cpu"))
    with torch.no_grad():
        assert model._loss(batch, model._forward(batch.x)).item() == pytest.approx(wanted, rel=1e-4)
    mixing = (members.sum(axis=0) + 1) / (10 + 2)
    joint = np.log(mixing) + np.array([terms[workers == w].sum(axis=0) for w in range(10)])
    posterior = np.exp(joint) / np.exp(joint).sum(axis=1, keepdims=True)
    found, total = model._e_step(data)
    np.testing.assert_allclose(found.numpy(), posterior, atol=1e-4)
    assert total == pytest.approx(np.log(np.exp(joint).sum(axis=1)).sum(), rel=1e-4)


def test_gradients_are_those_of_finite_differences() -> None:
    X, log, _ = compared(n=40)
    model = mh.learn.MixtureReward(linear(), max_epochs=1).fit(X, log)
    model._parts.double()
    model._members = model._members.double()
    games = mh.Comparisons.from_frame(log)
    left, right, outcomes, workers, _ = games.codes()
    data = PairData(X, None, games._items, (left, right), (workers, games._workers), outcomes == 0, None)
    batch = data.batch(torch.arange(40), torch.device("cpu"))
    object.__setattr__(batch, "weight", batch.weight.double())
    output = torch.randn(40, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda made: model._loss(batch, made), output)


def test_it_is_kept_resumed_and_the_same_for_a_seed(tmp_path: Path) -> None:
    X, log, _ = compared(n=300)
    options: dict[str, Any] = {"validation": 0.2, "lr": 0.05}
    network = linear()
    whole = mh.learn.MixtureReward(network, max_epochs=4, **options).fit(X, log)
    part = mh.learn.MixtureReward(network, max_epochs=2, checkpoint=tmp_path / "run", **options).fit(X, log)
    part.set_params(max_epochs=4).fit(X, log, resume=True)
    assert (part.groups_ == whole.groups_).all()
    assert (part.predict(X) == whole.predict(X)).all()
    whole.save(tmp_path / "a")
    again = mh.load(tmp_path / "a", backbone=linear(1))
    for name in ("groups_", "mixing_", "reliability_"):
        assert (getattr(again, name) == getattr(whole, name)).all()
    assert again.members_ == whole.members_
    assert again.log_likelihood_ == whole.log_likelihood_
    assert (again.predict(X) == whole.predict(X)).all()
    again.fit(X, log)
    with pytest.raises(ValueError, match="3 numbers"):
        mh.learn.MixtureReward(linear(), components=3).fit(X, log)
    with pytest.raises(ValueError, match=r"components.*1"):
        mh.learn.MixtureReward(linear(), components=0).fit(X, log)
