"""Experts whose skill changes: counts that fade, the half-life that fits, and decisions by the present skill."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from deferrals import table, team
from learners import backbone
from torch import nn

import manyhands as mh
from manyhands import defer
from manyhands.defer.changing import best_half_life, decay
from manyhands.defer.data import CaseData

CLASSES, N, N_NEW = 3, 1200, 600


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, CLASSES))


def test_answers_fade_with_age_and_later_ones_count_in_full():
    times = np.array([5.0, 7.0, 4.0, 3.0, -np.inf])
    assert decay(5.0, times, 1.0).tolist() == [1.0, 1.0, 0.5, 0.25, 1.0]
    assert decay(5.0, times, None).tolist() == [1.0] * 5


@pytest.fixture(scope="module")
def turned():
    """One expert learns and one tires, from two in five right answers to nineteen in twenty and the reverse."""
    X, truth = mh.categorical.synthetic.gaussians(N + N_NEW, CLASSES, n_features=6, separation=1.0, seed=7)
    rng = np.random.default_rng(7)
    learns = np.interp(np.arange(N + N_NEW), [0, N], [0.4, 0.95])
    chance = np.stack([learns, 1.35 - learns], axis=1)
    wrong = rng.random(chance.shape) >= chance
    answers = np.where(wrong, (truth[:, None] + rng.integers(1, CLASSES, chance.shape)) % CLASSES, truth[:, None])
    return X.astype(np.float32), truth, answers


SETTINGS = {"max_epochs": 6, "batch_size": 100, "lr": 0.05}


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (defer.NaiveDeferral, {}),
        (defer.ProbabilisticDeferral, {"experts": "confusion"}),
        (defer.ProbabilisticDeferral, {"experts": "separate", "gate": "stacked"}),
        (defer.SelectivePrediction, {}),
    ],
    ids=str,
)
def test_whoever_is_good_now_is_asked(turned, make, options):
    """Both were equally good on the whole; only with a half-life is it seen who is better at the end."""
    X, truth, answers = turned
    new = slice(N, None)
    shares, scores = [], []
    for times, half_life in ((None, None), (np.arange(N), 100.0)):
        model = make(network(), coverage=0.2, half_life=half_life, **SETTINGS | options)
        model.fit(X[:N], truth[:N], table(answers[:N]), times=times)
        who = model.decide(X[new]).who
        shares.append((who == 0).mean())
        scores.append(model.score(X[new], truth[new], table(answers[new])))
    assert shares[1] > 0.7
    assert shares[1] > shares[0] + 0.1
    assert scores[1] > scores[0] + 0.05


def test_a_half_life_is_found_where_skills_change_and_none_where_they_do_not(turned):
    X, truth, answers = turned
    times = np.arange(N)
    model = defer.NaiveDeferral(network(), half_life="auto", **SETTINGS | {"max_epochs": 1})
    found = model.fit(X[:N], truth[:N], table(answers[:N]), times=times).half_life_
    assert found is not None
    assert 20 < found < 700
    still = np.random.default_rng(0).permutation(N)  # the same answers in another order: nothing changes with time
    model.fit(X[:N], truth[:N], table(answers[:N]), times=times[still])
    assert model.half_life_ is None
    plain = defer.NaiveDeferral(network(), **SETTINGS | {"max_epochs": 1}).fit(X[:N], truth[:N], table(answers[:N]))
    np.testing.assert_allclose(model.confusion_, plain.confusion_, rtol=1e-9)
    assert model.expected_accuracy(X[:9]) == pytest.approx(plain.expected_accuracy(X[:9]))


def foretold(times, experts, right, half_life) -> float:
    """The twin: log-probability of each answer's being right or wrong by the expert's earlier ones, one at a time."""
    start, total = right.mean(), 0.0
    for expert in np.unique(experts):
        mine = np.flatnonzero(experts == expert)
        mine = mine[np.argsort(times[mine], kind="stable")]
        for at, i in enumerate(mine):
            weights = [2.0 ** -((times[i] - times[j]) / half_life) for j in mine[:at]]
            hits = sum(w for w, j in zip(weights, mine[:at], strict=True) if right[j])
            chance = (hits + 2 * start) / (sum(weights) + 2)
            total += np.log(chance if right[i] else 1 - chance)
    return total


def test_the_half_life_chosen_foretells_best():
    rng = np.random.default_rng(1)
    times, experts = rng.permutation(160).astype(float), rng.integers(3, size=160)
    right = rng.random(160) < np.where(times > 80, 0.95, 0.2)
    tried = [159 * 2.0**-k for k in range(10)]
    values = [foretold(times, experts, right, half_life) for half_life in [*tried, np.inf]]
    assert max(values) > values[-1] + 3
    assert best_half_life(times, experts, right) == pytest.approx(tried[int(np.argmax(values))])


def counted(log, times, half_life, n_experts=3) -> np.ndarray:
    """The twin of the confusion matrices: answers fade from each expert's last on, and pseudo-counts are added."""
    found = np.full((n_experts, 3, 3), 0.01 / 2)
    for j in range(n_experts):
        found[j][np.diag_indices(3)] = 0.1
        answered = [i for i in range(len(times)) if log.given[i, j] >= 0]
        last = max(times[i] for i in answered)
        for i in answered:
            found[j, log.truth[i], log.given[i, j]] += 0.5 ** ((last - times[i]) / half_life)
    return found / found.sum(axis=2, keepdims=True)


def test_counts_fade_and_further_answers_count_as_if_they_had_been_there():
    log = team(120)
    times = np.random.default_rng(2).permutation(120) / 10
    model = defer.NaiveDeferral(backbone(), max_epochs=1, half_life=2.5)
    whole = model.fit(log.X, log.truth, log.votes, times=times).confusion_
    np.testing.assert_allclose(whole, counted(log, times, 2.5), rtol=1e-9)
    first = times < 8
    model.fit(log.X[first], log.truth[first], table(log.given[first]), times=times[first])
    before = model.decide(log.X, how="argmax", by="accuracy").who
    assert np.abs(model.confusion_ - whole).max() > 1e-3
    late = np.flatnonzero(~first)
    model.observe(log.truth[late], table(log.given[late]), times=times[late])
    np.testing.assert_allclose(model.confusion_, whole, rtol=1e-9)
    np.testing.assert_allclose(model.gate_.accuracy, np.diagonal(whole, axis1=1, axis2=2), rtol=1e-6)
    assert (model.decide(log.X, how="argmax", by="accuracy").who != before).any()
    with pytest.raises(ValueError, match=r"calibrate\(X\)"):
        model.decide(log.X, coverage=0.5, how="threshold")


def test_the_gate_learns_from_cases_as_much_as_they_tell_of_the_present():
    log = team(40)
    times = np.arange(40.0)
    model = defer.NaiveDeferral(backbone(), max_epochs=1, half_life=5.0)
    seen = []
    weights = type(model)._case_weights
    batch = CaseData(log.X, log.truth, log.votes).batch(torch.arange(40), torch.device("cpu"))

    class Watched(defer.NaiveDeferral):
        def _loss(self, given, views):
            seen.append((given.tasks, weights(self, given.tasks)))
            return super()._loss(given, views)

    Watched(backbone(), max_epochs=1, half_life=5.0).fit(log.X, log.truth, log.votes, times=times)
    expected = 0.5 ** ((39 - times) / 5)
    for tasks, found in seen:
        np.testing.assert_allclose(found, (expected / expected.mean())[tasks.numpy()], rtol=1e-5)
    # And the loss is the mean of the gate's losses with these weights.
    model.fit(log.X, log.truth, log.votes, times=times)
    views = model._views(batch.x)
    even = model._loss(batch, views).item()
    model._recency = torch.full((40,), 3.0)
    own = nn.functional.cross_entropy(views.classes, torch.from_numpy(log.truth)).item()
    assert model._loss(batch, views).item() == pytest.approx(own + 3 * (even - own), rel=1e-5)


def test_a_training_goes_on_with_the_same_times_only(tmp_path):
    log, path = team(60), tmp_path / "run.pt"
    model = defer.NaiveDeferral(backbone(), max_epochs=1, half_life=5.0, checkpoint=path)
    model.fit(log.X, log.truth, log.votes, times=np.arange(60))
    model.fit(log.X, log.truth, log.votes, times=np.arange(60), resume=True)
    with pytest.raises(ValueError, match="times"):
        model.fit(log.X, log.truth, log.votes, times=np.arange(60)[::-1], resume=True)


def test_saved_teams_follow_skills_too(tmp_path):
    log = team(80)
    model = defer.SelectivePrediction(backbone(), max_epochs=1, half_life=10.0)
    model.fit(log.X, log.truth, log.votes, times=np.arange(80)).save(tmp_path / "team.pt")
    again = mh.load(tmp_path / "team.pt", classifier=backbone(seed=1))
    assert again.half_life_ == 10.0
    for each in (model, again):
        each.observe(log.truth[:9], table(log.given[:9]), times=np.arange(80, 89))
    assert (again.confusion_ == model.confusion_).all()
    assert (again.expected_accuracy(log.X) == model.expected_accuracy(log.X)).all()


@pytest.mark.parametrize(
    ("options", "times", "error", "message"),
    [
        ({"half_life": 3.0}, None, ValueError, "half_life=.*times="),
        ({}, np.arange(60), ValueError, "times=.*half_life="),
        ({"half_life": 0.0}, np.arange(60), ValueError, "half_life.*0"),
        ({"half_life": "soon"}, np.arange(60), TypeError, "half_life"),
        ({"half_life": 3.0}, np.arange(9), ValueError, "60 cases"),
        ({"half_life": 3.0}, ["monday"] * 60, TypeError, "times"),
        ({"half_life": 3.0}, [np.nan] + [0.0] * 59, ValueError, "case 0"),
    ],
)
def test_times_that_do_not_fit(options, times, error, message):
    log = team(60)
    with pytest.raises(error, match=message):
        defer.NaiveDeferral(backbone(), max_epochs=1, **options).fit(log.X, log.truth, log.votes, times=times)


def test_further_answers_that_do_not_fit():
    log = team(60)
    model = defer.NaiveDeferral(backbone(), max_epochs=1).fit(log.X, log.truth, log.votes)
    with pytest.raises(ValueError, match="skills"):
        model.observe([0], mh.Annotations.from_arrays([0], [0], [0]), times=[0])
    model.set_params(half_life=5.0).fit(log.X, log.truth, log.votes, times=np.arange(60))
    with pytest.raises(ValueError, match="'x'"):
        model.observe([0], mh.Annotations.from_arrays([0], ["x"], [0]), times=[60])
    with pytest.raises(ValueError, match=r"classes.*7"):
        model.observe([7], mh.Annotations.from_arrays([0], [0], [7]), times=[60])
    model.set_params(half_life=None).fit(log.X, log.truth, log.votes)
    with pytest.raises(ValueError, match="skills"):
        model.observe([0], mh.Annotations.from_arrays([0], [0], [0]), times=[0])
