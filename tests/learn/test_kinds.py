"""Networks trained on numbers, comparisons and sameness, and what a crowd's preferences are worth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from learners import slopes_agree
from torch import nn

import manyhands as mh
from manyhands._train.batch import CrowdData
from manyhands._train.estimator import NetworkEstimator
from manyhands.learn import losses

torch.set_num_threads(1)


def perceptron(n_in: int, n_out: int, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(n_in, 16), nn.Tanh(), nn.Linear(16, n_out))


# --------------------------------------------------------------------------------------------------------- numbers


def rated(n_dims: int = 1, seed: int = 0, spammers: float = 0.0) -> tuple[np.ndarray, Any]:
    crowd = mh.simulate(500, 15, answers_per_task=4, n_dims=n_dims, mean=40.0, deviation=5.0, seed=seed, kind="numeric")
    truth = crowd.truth.reshape(500, -1)
    return np.concatenate([truth, truth**2 / 40], axis=1) / 40 - 1, crowd


@pytest.mark.parametrize("n_dims", [1, 2])
def test_regression_recovers_values_and_workers(n_dims: int) -> None:
    X, crowd = rated(n_dims)
    model = mh.learn.CrowdRegression(perceptron(2 * n_dims, n_dims), max_epochs=60, lr=0.01).fit(X, crowd.log)
    found, wanted = model.predict(X), crowd.truth
    assert found.shape == wanted.shape
    of_all = [np.corrcoef(f, w)[0, 1] for f, w in zip(found.reshape(500, -1).T, wanted.reshape(500, -1).T, strict=True)]
    assert min(of_all) > 0.97
    for name in ("noise", "bias"):
        mine, true = (getattr(one, key).reshape(15, -1) for one, key in ((model, f"{name}_"), (crowd, name)))
        # A worker's mean answer: bias and scale alone trade off.
        if name == "bias":
            mine, true = mine + 40 * model.scale_.reshape(15, -1), true + 40 * crowd.scale.reshape(15, -1)
        assert np.corrcoef(mine.T.ravel(), true.T.ravel())[0, 1] > 0.9
    assert model.workers_frame().num_rows == 15


def test_regression_is_that_of_a_plain_twin() -> None:
    X, crowd = rated()
    model = mh.learn.CrowdRegression(nn.Linear(2, 1), max_epochs=1, shrink=2.0)
    model.fit(X, crowd.log)
    from manyhands.learn.crowd_regression import RatedData

    data = RatedData(X, crowd.log)
    batch = data.batch(torch.tensor([3, 8, 9]), torch.device("cpu"))
    output = torch.tensor([[0.1], [-0.4], [2.0]])
    rows = model._parts["workers"].weight.detach().numpy().reshape(15, 3)
    noise = float(model._parts["crowd"]["numbers"].detach())
    counts = np.bincount(crowd.log.codes()[1])
    tasks, workers, values = crowd.log.codes()
    values = (values - values.mean()) / values.std()
    terms, priors = [], []
    for place, task in enumerate((3, 8, 9)):
        for i in np.flatnonzero(tasks == task):
            scale, bias, own = rows[workers[i]]
            deviation = np.exp(own + noise)
            apart = (values[i] - scale * output[place].item() - bias) / deviation
            terms.append(0.5 * apart**2 + np.log(deviation) + 0.5 * np.log(2 * np.pi))
            priors.append(((scale - 1) ** 2 + bias**2 + own**2 / 4) / counts[workers[i]])
    assert model._loss(batch, output).item() == pytest.approx(np.mean(terms) + np.mean(priors), rel=1e-5)


def test_few_ratings_leave_a_worker_an_average_one() -> None:
    X, crowd = rated()
    tasks, workers, values = crowd.log.codes()
    log = {"task": [*tasks, 0], "worker": [*(f"w{w}" for w in workers), "new"], "value": [*values, values.max() + 30]}
    model = mh.learn.CrowdRegression(perceptron(2, 1), max_epochs=30, lr=0.01).fit(X, log)
    new = model.workers_.tolist().index("new")
    assert abs(model.scale_[new] - 1) < 0.35
    assert np.median(model.noise_) < model.noise_[new] < 6 * np.median(model.noise_)


def test_bad_regressions_are_refused() -> None:
    X, crowd = rated()
    with pytest.raises(ValueError, match=r"\(64, 3\)"):
        mh.learn.CrowdRegression(nn.Linear(2, 3)).fit(X, crowd.log)
    with pytest.raises(TypeError, match=r"nn.Module"):
        mh.learn.CrowdRegression(3).fit(X, crowd.log)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="start_from"):
        mh.learn.CrowdRegression(nn.Linear(2, 1), start_from=mh.MajorityVote()).fit(X, crowd.log)
    with pytest.raises(mh.errors.NotFittedError, match=r"fit\(X, ratings\)"):
        mh.learn.CrowdRegression(nn.Linear(2, 1)).predict(X)
    model = mh.learn.CrowdRegression(nn.Linear(2, 1), max_epochs=1).fit(X, crowd.log)
    with pytest.raises(ValueError, match="R²"):
        model.score(X, np.ones(500))


# --------------------------------------------------------------------------------------------------------- rewards


def compared(seed: int = 0) -> tuple[np.ndarray, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3))
    scores = X @ [1.5, -1.0, 0.0]
    return X, mh.simulate(scores, [4.0] * 6 + [-4.0] * 2, 3000, ties=0.2, seed=seed, kind="pairwise")


def test_rewards_are_learnt_through_liars() -> None:
    X, crowd = compared()
    model = mh.learn.CrowdReward(nn.Linear(3, 1), max_epochs=20, lr=0.05).fit(X, crowd.log)
    assert mh.metrics.kendall(model.predict(X), X @ [1.5, -1.0, 0.0]) > 0.93
    assert (model.reliability_[:6] > 0.6).all()
    assert (model.reliability_[6:] < 0.4).all()
    assert ((model.predict_proba(X[:5], X[5:10]) > 0.5) == (model.predict(X[:5]) > model.predict(X[5:10]))).all()
    assert model.workers_frame().column_names == ["worker", "n_answers", "skill"]


def test_items_by_name() -> None:
    X, crowd = compared()
    left, right, outcomes, workers, _ = crowd.log.codes()
    names = [f"item {i:02d}" for i in range(60)]  # in the order of the numbers, as are rows then
    log = {
        "left": [names[i] for i in left],
        "right": [names[i] for i in right],
        "winner": [("left", "right", "tie")[o] for o in outcomes],
        "worker": workers,
    }
    options = {"max_epochs": 2, "lr": 0.05}
    order = np.random.default_rng(0).permutation(60)
    torch.manual_seed(0)
    network = nn.Linear(3, 1)
    by_number = mh.learn.CrowdReward(network, **options).fit(X, crowd.log)
    by_name = mh.learn.CrowdReward(network, **options).fit(X[order], log, items=[names[i] for i in order])
    np.testing.assert_allclose(by_name.predict(X), by_number.predict(X), rtol=1e-6)
    with pytest.raises(ValueError, match="'item 00'"):
        mh.learn.CrowdReward(network).fit(X, log, items=list(range(60)))
    with pytest.raises(ValueError, match=r"3 entries.*60 rows"):
        mh.learn.CrowdReward(network).fit(X, log, items=names[:3])
    with pytest.raises(ValueError, match="item"):
        mh.learn.CrowdReward(nn.Linear(3, 2)).fit(X, crowd.log)


def test_the_loss_of_rewards_is_that_of_crowd_bt() -> None:
    margins, flips = torch.tensor([0.3, -2.0, 8.0]), torch.tensor([0.1, 0.4, 0.7])
    found = losses.noisy_preference(margins, flips).numpy()
    sure = 1 / (1 + np.exp(-margins.numpy()))
    wanted = -np.log((1 - flips.numpy()) * sure + flips.numpy() * (1 - sure))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert torch.isfinite(losses.noisy_preference(torch.tensor([-500.0, 500.0]), 0.0)).all()


def test_the_robust_loss_is_right_on_average() -> None:
    margins = torch.linspace(-3, 3, 7, dtype=torch.float64, requires_grad=True)
    flips = torch.full_like(margins, 0.3)
    told, turned = (losses.robust_preference(sign * margins, flips) for sign in (1, -1))
    true = -torch.nn.functional.logsigmoid(margins)
    torch.testing.assert_close(0.7 * told + 0.3 * turned, true)
    assert torch.autograd.gradcheck(lambda m: losses.robust_preference(m, 0.2), margins)
    assert torch.autograd.gradcheck(lambda m: losses.noisy_preference(m, 0.2), margins)
    with pytest.raises(ValueError, match="flip"):
        losses.robust_preference(margins, 0.5)


# -------------------------------------------------------------------------------------------------------- sameness


def test_memberships_are_learnt_through_spammers() -> None:
    X, truth = mh.categorical.synthetic.gaussians(90, 3, n_features=4, separation=4.0, seed=1)
    rng = np.random.default_rng(0)
    left, right = rng.integers(90, size=(2, 2500))
    left, right = left[left != right], right[left != right]
    workers = rng.integers(8, size=len(left))
    same = truth[left] == truth[right]
    said = np.where(workers < 6, same ^ (rng.random(len(left)) < 0.1), rng.random(len(left)) < 0.5)
    log = mh.Similarities.from_frame({"left": left, "right": right, "worker": workers, "same": said})
    model = mh.learn.SimilarityNetwork(nn.Linear(4, 3), max_epochs=25, lr=0.05).fit(X, log)
    found = model.predict(X)
    assert ((found[:, None] == found) == (truth[:, None] == truth)).mean() > 0.95
    quality = model.skills_.sum(axis=1)
    assert quality[:6].min() > quality[6:].max()
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_the_likelihood_of_sameness_is_that_of_a_plain_twin() -> None:
    X, _ = mh.categorical.synthetic.gaussians(20, 2, n_features=4, seed=1)
    log = {"left": [0, 1, 2, 3], "right": [4, 5, 6, 7], "worker": [0, 1, 1, 0], "same": [True, False, True, False]}
    model = mh.learn.SimilarityNetwork(perceptron(4, 3), max_epochs=3).fit(X, log)
    members, skills = model.predict_proba(X), model.skills_
    wanted = []
    for i, j, worker, said in zip(*log.values(), strict=True):
        same = members[i] @ members[j]
        yes = same * skills[worker, 0] + (1 - same) * (1 - skills[worker, 1])
        wanted.append(np.log(yes if said else 1 - yes))
    x = torch.from_numpy(X).float()
    from manyhands.learn.pairs import PairData

    ends = (np.array(log["left"]), np.array(log["right"]))
    names = mh.Similarities.from_frame(log)
    data = PairData(
        x, range(20), names._items, ends, (np.array(log["worker"]), names._workers), np.array(log["same"]), None
    )
    # Codes of items are their places among the names, which are 0 to 7 here.
    batch = data.batch(torch.arange(4), torch.device("cpu"))
    with torch.no_grad():
        found = model._log_likelihood(batch, model._forward(batch.x)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


# ------------------------------------------------------------------------------------------------------- gradients


def _answers(kind: str) -> tuple[np.ndarray, Any]:
    rng = np.random.default_rng(0)
    X, left, right = rng.normal(size=(20, 3)), rng.integers(10, size=60), rng.integers(10, 20, size=60)
    pair = {"left": left, "right": right, "worker": rng.integers(5, size=60)}
    if kind == "CrowdRegression":
        return X, mh.Ratings.from_arrays(left, pair["worker"], rng.normal(size=60))
    if kind == "SimilarityNetwork":
        return X, pair | {"same": rng.random(60) < 0.5}
    return X, mh.Comparisons.from_arrays(left, right, np.where(rng.random(60) < 0.5, left, right), pair["worker"])


@pytest.mark.parametrize(
    ("kind", "outputs"),
    [("CrowdRegression", 1), ("CrowdReward", 1), ("MixtureReward", 2), ("SimilarityNetwork", 3)],
)
def test_gradients_are_the_slopes_of_the_loss(kind: str, outputs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[CrowdData] = []
    adopt = NetworkEstimator._adopt
    monkeypatch.setattr(NetworkEstimator, "_adopt", lambda self, data: seen.append(data) or adopt(self, data))
    model = getattr(mh.learn, kind)(perceptron(3, outputs), max_epochs=3, worker_lr=0.1).fit(*_answers(kind))
    (data,) = seen
    batch = data.batch(data.samples, torch.device("cpu"))
    model._parts.eval()
    with torch.no_grad():
        output = model._forward(batch.x).double().requires_grad_()
    model._parts.double()
    batch = replace(batch, weight=batch.weight.double())
    for name, kept in list(vars(model).items()):
        if isinstance(kept, torch.Tensor) and kept.is_floating_point():
            setattr(model, name, kept.double())
    given = {"output": output, **dict(model._parts.named_parameters())}
    slopes_agree(lambda: model._loss(batch, output), given)


# ----------------------------------------------------------------------------------------------------------- files


def test_points_come_back_from_files(tmp_path: Path) -> None:
    X, crowd = rated(2)
    regression = mh.learn.CrowdRegression(nn.Linear(4, 2), max_epochs=2).fit(X, crowd.log)
    regression.save(tmp_path / "a")
    again = mh.load(tmp_path / "a", backbone=nn.Linear(4, 2))
    assert (again.predict(X) == regression.predict(X)).all()
    np.testing.assert_equal(again.workers_frame().to_pydict(), regression.workers_frame().to_pydict())


# ----------------------------------------------------------------------------------------------------- preferences


def judged(seed: int = 0, per_pair: int = 3) -> tuple[mh.Comparisons, np.ndarray]:
    """Pairs of items that occur once, each judged by several of eight workers of whom two turn things round."""
    rng = np.random.default_rng(seed)
    n, flips = 400, np.array([0.05, 0.1, 0.1, 0.2, 0.2, 0.3, 0.8, 0.5])
    pair = np.repeat(np.arange(n), per_pair)
    worker = np.concatenate([rng.choice(8, per_pair, replace=False) for _ in range(n)])
    swapped = rng.random(len(pair)) < 0.5
    better = [f"good {i}" for i in pair]
    worse = [f"bad {i}" for i in pair]
    left = np.where(swapped, worse, better)
    right = np.where(swapped, better, worse)
    wrong = rng.random(len(pair)) < flips[worker]
    games = mh.Comparisons.from_arrays(left, right, np.where(wrong, worse, better), worker)
    return games, flips


def test_weights_are_the_probability_of_being_right() -> None:
    games, flips = judged()
    right = np.array([winner.startswith("good") for winner in games.to_frame()["winner"].to_pylist()])
    found = mh.learn.preference_weights(games)
    assert found.method == "pairs"
    assert len(found) == games.n_annotations
    assert np.array_equal(np.asarray(found), found.weights)
    assert ((found.weights > 0.5) == right).mean() > 0.9
    assert abs(found.weights.mean() - right.mean()) < 0.05
    assert np.corrcoef(found.reliability, 1 - flips)[0, 1] > 0.95
    rows = found.preferences().to_pylist()
    assert len(rows) == 400
    assert np.mean([row["chosen"].startswith("good") for row in rows]) > 0.88
    assert all(row["flip_rate"] == pytest.approx(1 - row["weight"]) and row["n_answers"] == 3 for row in rows)
    frame = found.to_frame().to_pydict()
    assert frame["weight"] == found.weights.tolist()
    left_wins = np.array(frame["left"]) == np.array(frame["winner"])
    np.testing.assert_allclose(found.soft_labels, np.where(left_wins, found.weights, 1 - found.weights))


def test_arenas_are_judged_by_scores() -> None:
    crowd = mh.simulate(8, [4.0, 4.0, 4.0, -4.0], 2000, ties=0.3, seed=2, kind="pairwise")
    found = mh.learn.preference_weights(crowd.log)
    assert found.method == "scores"
    left, right, outcomes, workers, _ = crowd.log.codes()
    assert (found.weights[outcomes == 2] == 0).all()
    model = mh.pairwise.CrowdBT().fit(crowd.log)
    i = int(np.flatnonzero((outcomes == 1) & (workers == 0))[0])
    omega = model.reliability_[0]
    odds = omega / (1 - omega) * np.exp(model.scores_[right[i]] - model.scores_[left[i]])
    assert found.weights[i] == pytest.approx(odds / (1 + odds))
    assert found.preferences().num_rows == 2000


def test_contexts_are_questions_of_their_own() -> None:
    log = {"left": ["a", "a", "b"] * 2, "right": ["b", "b", "a"] * 2, "winner": ["a", "a", "b", "b", "b", "b"]}
    log |= {"worker": [1, 2, 3, 1, 2, 3], "context": ["x"] * 3 + ["y"] * 3}
    found = mh.learn.preference_weights(mh.Comparisons.from_frame(log, context="context"), method="pairs")
    assert found.preferences().to_pydict()["context"] == ["x", "y"]
    assert found.preferences().to_pydict()["chosen"] == ["a", "b"]


@pytest.mark.parametrize("method", ["pairs", "scores"])
def test_weights_are_those_of_the_rows_given(method: str) -> None:
    """Whatever their order: repeated rows, ties, contexts and weights among them."""
    rng = np.random.default_rng(5)
    n = 300
    pair = np.stack([rng.choice(6, 2, replace=False) for _ in range(n)])
    log = pa.table(
        {
            "a": pair[:, 0],
            "b": pair[:, 1],
            "won": [("model_a", "model_b", "tie")[side] for side in rng.choice(3, n, p=[0.5, 0.4, 0.1])],
            "who": rng.integers(5, size=n),
            "about": rng.choice(["x", "y"], n),
            "times": rng.choice([1.0, 2.0], n),
        }
    )
    log = pa.concat_tables([log, log.slice(0, 40)])
    named = {"left": "a", "right": "b", "winner": "won", "worker": "who", "context": "about", "weight": "times"}
    found = mh.learn.preference_weights(log, method=method, **named)
    assert found.comparisons == mh.Comparisons.from_frame(log, **named)
    assert np.array_equal(found.weights[:40], found.weights[n:])
    assert (found.weights == 0).tolist() == [won == "tie" for won in log["won"].to_pylist()]
    frame = found.to_frame()
    assert frame["left"].to_pylist() == log["a"].to_pylist()
    assert frame["worker"].to_pylist() == log["who"].to_pylist()
    assert frame["weight"].to_pylist() == found.weights.tolist()
    # A table has an order of its own, and the same weights in it.
    table = mh.learn.preference_weights(found.comparisons, method=method)
    assert sorted(map(str, table.to_frame().to_pylist())) == sorted(map(str, frame.to_pylist()))
    assert table.preferences() == found.preferences()
    shuffled = rng.permutation(log.num_rows)
    again = mh.learn.preference_weights(log.take(shuffled), method=method, **named)
    np.testing.assert_allclose(again.weights, found.weights[shuffled], rtol=1e-12)
    np.testing.assert_allclose(again.soft_labels, found.soft_labels[shuffled], rtol=1e-12)


def test_rows_that_cannot_have_a_weight_are_refused() -> None:
    log = {"left": ["a", "b"], "right": ["b", "a"], "winner": ["a", None], "worker": [1, 2]}
    with pytest.raises(ValueError, match=r"winner.*1"):
        mh.learn.preference_weights(log)
    with pytest.raises(TypeError, match=r"losers=.*'losers'"):
        mh.learn.preference_weights(log, losers="x")
    with pytest.raises(TypeError, match="left="):
        mh.learn.preference_weights(judged()[0], left="a")


def test_what_cannot_be_told_is_said() -> None:
    games, _ = judged(per_pair=1)
    with pytest.raises(ValueError, match="reliability"):
        mh.learn.preference_weights(games)
    ties = mh.Comparisons.from_arrays(["a", "a"], ["b", "b"], ["tie", "tie"], [1, 2])
    with pytest.raises(ValueError, match="comparisons"):
        mh.learn.preference_weights(ties, method="pairs")
    with pytest.raises(ValueError, match="aggregator"):
        mh.learn.preference_weights(games, method="scores", aggregator=mh.MajorityVote())
