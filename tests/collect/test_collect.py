"""Which labels to buy next: what they are worth, who is asked, and when to stop."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhands as mh
from manyhands.collect import gains
from manyhands.collect.beliefs import beliefs_of
from manyhands.collect.needed import _Worlds
from manyhands.collect.stop import need_no_more
from oracles import collect as twins

STRATEGIES = ("entropy", "margin", "error", "information")
EXPLORE = ("epsilon-greedy", "thompson", "upper", "none")


def drawn(seed: int, n: int = 40, k: int = 3, n_labels: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(k, 0.5), n)
    rows[0] = np.eye(k)[0]
    return rows, rng.dirichlet(np.full(n_labels, 0.7), k), rng.random(n)


@pytest.fixture(scope="module")
def crowd() -> mh.categorical.CategoricalSimulation:
    return mh.simulate(300, 12, 3, labels_per_task=3, seed=2)


@pytest.fixture(scope="module")
def model(crowd: mh.categorical.CategoricalSimulation) -> mh.DawidSkene:
    return mh.DawidSkene().fit(crowd.log)


# ------------------------------------------------------------------------------------------------ what it is worth


@pytest.mark.parametrize(("k", "n_labels"), [(1, 1), (2, 2), (3, 3), (4, 5)])
def test_gains_are_those_of_the_twins(k: int, n_labels: int) -> None:
    rows, worker, share = drawn(1, k=k, n_labels=n_labels)
    error = [twins.error_gain(row, worker) for row in rows]
    np.testing.assert_allclose(gains.error_gain(rows, worker), error, atol=1e-12)
    error = [twins.error_gain(row, worker, s) for row, s in zip(rows, share, strict=True)]
    np.testing.assert_allclose(gains.error_gain(rows, worker, share), error, atol=1e-12)
    bits = [twins.information_gain(row, worker) for row in rows]
    np.testing.assert_allclose(gains.information_gain(rows, worker), bits, atol=1e-12)
    bits = [twins.information_gain(row, worker, s) for row, s in zip(rows, share, strict=True)]
    np.testing.assert_allclose(gains.information_gain(rows, worker, share), bits, atol=1e-12)
    np.testing.assert_allclose(gains.information(worker[None], rows[1]), bits_of(rows[1], worker), atol=1e-12)


def bits_of(row: np.ndarray, worker: np.ndarray) -> float:
    return twins.information_gain(row, worker)


def test_margins_are_between_the_first_two_classes() -> None:
    np.testing.assert_allclose(gains.margin(np.array([[0.7, 0.3], [0.5, 0.5]])), [0.4, 0.0])
    np.testing.assert_allclose(gains.margin(np.array([[0.2, 0.5, 0.3]])), [0.2])
    np.testing.assert_allclose(gains.margin(np.ones((1, 1))), [1.0])


def test_doubts_are_what_draws_of_the_matrix_say() -> None:
    rng = np.random.default_rng(0)
    row = np.array([0.6, 0.3, 0.1])
    for strength in (1.0, 6.0, 40.0):
        found = gains.doubts(row[None, None], np.array([[strength]]))[0, 0]
        draws = rng.standard_gamma(row * strength, (20_000, 3))
        assert found == pytest.approx(twins.doubt(row, strength, draws), abs=0.01)  # noise of so many draws


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 5))
def test_a_label_is_never_worth_less_than_nothing_nor_more_than_is_unknown(seed: int, k: int) -> None:
    rows, worker, share = drawn(seed, k=k, n_labels=k)
    for s in (None, share):
        fall, bits = gains.error_gain(rows, worker, s), gains.information_gain(rows, worker, s)
        assert (fall >= 0).all()
        assert (fall <= 1 - rows.max(axis=1) + 1e-12).all()
        assert (bits >= 0).all()
        assert (bits <= gains.entropy(rows) + 1e-9).all()
    np.testing.assert_allclose(gains.error_gain(rows, np.eye(k)), 1 - rows.max(axis=1), atol=1e-12)
    np.testing.assert_allclose(gains.information_gain(rows, np.eye(k)), gains.entropy(rows), atol=1e-9)
    spammer = np.tile(worker[0], (k, 1))
    assert gains.error_gain(rows, spammer).max() < 1e-12
    assert gains.information_gain(rows, spammer).max() < 1e-9


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_a_worker_who_blurs_the_answers_of_another_is_worth_less(seed: int) -> None:
    rows, worker, _ = drawn(seed)
    blur = np.random.default_rng(seed + 1).dirichlet(np.ones(3), 3)
    assert (gains.error_gain(rows, worker @ blur) <= gains.error_gain(rows, worker) + 1e-12).all()
    assert (gains.information_gain(rows, worker @ blur) <= gains.information_gain(rows, worker) + 1e-9).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.integers(0, 31))
def test_the_first_of_equals_are_at_the_top(scores: list[int], n: int) -> None:
    expected = sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:n]
    assert gains.top(np.array(scores, float), n).tolist() == expected


def test_expected_gain_is_what_is_gained_on_average() -> None:
    """Workers and classes drawn from the model: the mean fall of error is the predicted one."""
    rng = np.random.default_rng(3)
    rows, worker, _ = drawn(3, n=200)
    predicted = gains.error_gain(rows, worker)
    n = 4000
    truth = (rng.random((200, n, 1)) > rows.cumsum(axis=1)[:, None, :]).sum(axis=2)
    label = (rng.random((200, n, 1)) > worker.cumsum(axis=1)[truth]).sum(axis=2).clip(max=2)
    answer = (rows[:, None, :] * worker.T[label]).argmax(axis=2)
    gained = (answer == truth).mean(axis=1) - (rows.argmax(axis=1)[:, None] == truth).mean(axis=1)
    assert abs(gained.mean() - predicted.mean()) < 0.003  # three standard errors of 800,000 draws
    assert np.corrcoef(gained, predicted)[0, 1] > 0.98


# -------------------------------------------------------------------------------------------------------- a batch


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_tasks_are_ranked(model: mh.DawidSkene, strategy: str) -> None:
    batch = mh.collect.next_labels(model, 20, strategy=strategy)
    assert batch.column_names == ["task", "expected_gain", "score"]
    score = batch["score"].to_numpy()
    assert (np.diff(score) <= 0).all()
    average = np.average(model.confusion_, axis=0, weights=model._n_labels)
    place = {task: i for i, task in enumerate(model.tasks_.tolist())}
    rows = model.posterior_[[place[task] for task in batch["task"].to_pylist()]]
    expected = [twins.error_gain(row, average) for row in rows]
    np.testing.assert_allclose(batch["expected_gain"].to_numpy(), expected, atol=1e-12)
    every = gains.uncertainty(strategy, model.posterior_, average, None)
    np.testing.assert_allclose(score, np.sort(every)[::-1][:20])


@pytest.mark.parametrize("explore", EXPLORE)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nobody_is_asked_again_and_seeds_repeat(model: mh.DawidSkene, strategy: str, explore: str) -> None:
    options = {"workers": "all", "strategy": strategy, "explore": explore, "seed": 5}
    batch = mh.collect.next_labels(model, 60, **options)
    assert batch.num_rows == 60
    asked = set(zip(batch["task"].to_pylist(), batch["worker"].to_pylist(), strict=True))
    assert len({task for task, _ in asked}) == 60
    votes = model._votes
    tasks, workers, _ = votes.codes()
    done = set(zip(votes.tasks[tasks].tolist(), votes.workers[workers].tolist(), strict=True))
    assert not asked & done
    assert batch.equals(mh.collect.next_labels(model, 60, **options))


def test_the_best_pairs_are_chosen(model: mh.DawidSkene) -> None:
    """Without exploration or limits, no unused pair of another task gains more than the least that was bought."""
    batch = mh.collect.next_labels(model, 10, workers="all", explore="none")
    every = np.stack([gains.error_gain(model.posterior_, matrix) for matrix in model.confusion_], axis=1)
    tasks, workers, _ = model._votes.codes()
    every[tasks, workers] = -1
    best = np.sort(every.max(axis=1))[::-1][:10]
    np.testing.assert_allclose(np.sort(batch["expected_gain"].to_numpy())[::-1], best, atol=1e-9)


def test_capacities_and_costs_are_kept(model: mh.DawidSkene) -> None:
    workers = {"worker": model.workers_.tolist(), "capacity": [3] * 12}
    batch = mh.collect.next_labels(model, 30, workers=workers)
    assert batch.num_rows == 30
    assert max(np.unique(batch["worker"].to_numpy(), return_counts=True)[1]) <= 3
    cost = dict(zip(model.workers_.tolist(), [1.0, 2.5] * 6, strict=True))
    for limit in ({"capacity": [4] * 12}, {}):
        frame = {"worker": list(cost), "cost": list(cost.values())} | limit
        batch = mh.collect.next_labels(model, 20.0, workers=frame)
        spent = sum(cost[worker] for worker in batch["worker"].to_pylist())
        assert 18 <= spent <= 20


def test_those_who_are_good_are_asked_and_the_unknown_are_tried() -> None:
    rng = np.random.default_rng(4)
    truth, skill = rng.integers(0, 2, 400), np.array([0.85, 0.85, *[0.6] * 8])
    who = np.stack([rng.permutation(10)[:4] for _ in range(400)])
    right = rng.random(who.shape) < skill[who]
    said = np.where(right, truth[:, None], 1 - truth[:, None])
    votes = mh.Annotations.from_arrays(np.repeat(np.arange(400), 4), who.ravel(), said.ravel())
    fitted = mh.categorical.HierarchicalDawidSkene().fit(votes)
    asked = mh.collect.next_labels(fitted, 40, workers="all", explore="none")["worker"].to_numpy()
    assert np.isin(asked, [0, 1]).all()
    # Somebody unknown is worth a try by optimism, and never by what is expected.
    for explore, tried in (("upper", True), ("none", False)):
        found = mh.collect.next_labels(fitted, 10, workers=[0, 1, "new"], explore=explore)["worker"].to_pylist()
        assert ("new" in found) is tried, explore


def test_new_workers_and_new_tasks_may_be_named(model: mh.DawidSkene) -> None:
    batch = mh.collect.next_labels(model, 2, workers=["somebody new"], tasks=["new", "newer"])
    assert set(batch["task"].to_pylist()) <= {"new", "newer"}
    assert set(batch["worker"].to_pylist()) == {"somebody new"}


# ------------------------------------------------------------------------------------------------------- bad input


def test_nothing_open_is_said_and_empty(model: mh.DawidSkene) -> None:
    for workers in (None, "all"):
        with pytest.warns(mh.errors.DataWarning, match="task"):
            assert mh.collect.next_labels(model, 5, tasks=[], workers=workers).num_rows == 0


@pytest.mark.parametrize(
    ("workers", "message"),
    [([], "available"), ({"worker": ["a"], "capacity": [0]}, "available"),
     ({"worker": [], "capacity": []}, "available"), ("some", "workers"),
     (["a", "a"], "twice"), ({"worker": ["a"], "cost": [0.0]}, "above 0"),
     ({"worker": ["a"], "capacity": [1.5]}, "numbers")],
)  # fmt: skip
def test_nobody_available_is_refused(model: mh.DawidSkene, workers: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mh.collect.next_labels(model, 5, workers=workers)


def test_a_budget_above_what_can_be_bought_buys_all(model: mh.DawidSkene) -> None:
    with pytest.warns(mh.errors.DataWarning, match="1,000, and 300 tasks"):
        assert mh.collect.next_labels(model, 1000).num_rows == 300
    with pytest.warns(mh.errors.DataWarning, match="9,.*4"):
        assert mh.collect.next_labels(model, 9, workers={"worker": [1, 2], "capacity": [2, 2]}).num_rows == 4


def test_slips_are_named(model: mh.DawidSkene, tmp_path: object) -> None:
    for slip, match in (
        ({"strategy": "entropie"}, "strategy"),
        ({"explore": "yes"}, "explore"),
        ({"epsilon": 2}, "epsilon"),
        ({"error": 1.0}, "error"),
    ):
        with pytest.raises(ValueError, match=match):
            mh.collect.next_labels(model, 5, **slip)
    with pytest.raises(TypeError, match="aggregator"):
        mh.collect.next_labels(model._votes, 5)
    with pytest.raises(TypeError, match="budget"):
        mh.collect.next_labels(model, 5.5)
    with pytest.raises(ValueError, match="not fitted"):
        mh.collect.next_labels(mh.DawidSkene(), 5)
    with pytest.raises(TypeError, match="several names"):
        mh.collect.next_labels(model, 5, tasks="t1")
    model.save(tmp_path / "m")
    loaded = mh.load(tmp_path / "m")
    with pytest.raises(ValueError, match="votes="):
        mh.collect.next_labels(loaded, 5, workers="all")
    with_votes = mh.collect.next_labels(loaded, 5, workers="all", votes=model._votes)
    assert with_votes.equals(mh.collect.next_labels(model, 5, workers="all"))


# -------------------------------------------------------------------------------------------------------- stopping


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 5), st.floats(0.001, 0.4))
def test_the_boundary_is_the_twins(seed: int, k: int, error: float) -> None:
    rng = np.random.default_rng(seed)
    rows, prior = rng.dirichlet(np.full(k, 0.05), 50), rng.dirichlet(np.ones(k))
    assert need_no_more(rows, prior, error).tolist() == [twins.stops(row, prior, error) for row in rows]


@pytest.mark.parametrize("prior", [(0.5, 0.5), (0.9, 0.1)])
def test_tasks_stop_at_a_wrong_class_as_seldom_as_stated(prior: tuple[float, float]) -> None:
    """Every task is looked at after every label, and stops at the first look beyond the boundary."""
    rng, n, right, error = np.random.default_rng(1), 20_000, 0.7, 0.1
    truth = (rng.random(n) < prior[1]).astype(int)
    odds, wrong, stopped = np.full(n, np.log(prior[1] / prior[0])), np.zeros(n, bool), np.zeros(n, bool)
    for _ in range(40):
        said = np.where(rng.random(n) < right, truth, 1 - truth)
        odds = np.where(stopped, odds, odds + np.where(said == 1, 1, -1) * np.log(right / (1 - right)))
        p = 1 / (1 + np.exp(-odds))
        now = ~stopped & need_no_more(np.stack([1 - p, p], axis=1), np.array(prior), error)
        wrong |= now & ((p > 0.5) != truth)
        stopped |= now
    assert stopped.mean() > 0.99
    assert wrong.mean() <= error
    # Also of the rare class by itself, which the posterior alone does not hold.
    assert wrong[truth == 1].mean() <= error + 0.02


def test_stopping_tells_which_tasks_are_done(crowd: mh.categorical.CategoricalSimulation, model: mh.DawidSkene) -> None:
    found = mh.collect.stopping(model, error=0.05)
    assert len(found) == found.done.sum() == len(found.tasks) == 300 - len(found.open)
    assert 0 < len(found) < 300
    frame = found.frame()
    assert frame["label"].to_pylist() == model.labels_.tolist()
    assert "need no more labels" in repr(found)
    batch = mh.collect.next_labels(model, 50, error=0.05)
    assert not set(batch["task"].to_pylist()) & set(found.tasks.tolist())
    fewer = mh.collect.stopping(model, error=0.01)
    assert set(fewer.tasks.tolist()) <= set(found.tasks.tolist())


def test_importing_needs_nothing_heavy() -> None:
    code = "import sys, manyhands.collect; sys.exit('manyhands.defer' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --------------------------------------------------------------------------------------------------- labels needed


def test_a_chance_of_correlated_errors_widens_what_is_needed_and_does_not_forbid_it() -> None:
    crowd = mh.simulate(300, 40, 3, labels_per_task=5, seed=1)
    model = mh.Consensus().fit(crowd.log)
    assert 0.01 < model.discount_ < 0.25
    found = mh.collect.labels_needed(model, accuracy=0.95)
    assert found.labels < 3 * 300
    assert found.high == np.inf
    apart = mh.collect.labels_needed(mh.Consensus(correlation=0).fit(crowd.log), accuracy=0.95)
    assert apart.high < np.inf


def test_gold_is_certain_in_every_draw_and_other_tasks_are_not() -> None:
    crowd = mh.simulate(40, 8, 2, labels_per_task=4, seed=1)
    gold = {task: int(crowd.truth[task]) for task in range(5)}
    for options, certain in (({"gold": gold}, 5), ({}, 0)):
        model = mh.DawidSkene(**options).fit(crowd.log)
        world = _Worlds(model, beliefs_of(model)).draw(np.random.default_rng(0))
        assert (world.posterior[np.arange(certain), crowd.truth[:certain]] == 1).all()
        assert (np.abs(world.posterior - model.posterior_)[certain:] > 1e-6).any()


def test_labels_needed_are_about_those_that_were() -> None:
    """Labels bought as the simulation buys them, from workers drawn from the model, reach the accuracy about there."""
    confusion = np.array([[0.75, 0.25], [0.25, 0.75]])
    rng = np.random.default_rng(5)
    n = 1500
    truth = rng.integers(0, 2, n)
    tasks, workers = np.repeat(np.arange(n), 3), rng.integers(0, 15, 3 * n)
    right = rng.random(3 * n) < 0.75
    votes = mh.Annotations.from_codes(
        tasks, workers, np.where(right, truth[tasks], 1 - truth[tasks]), n_tasks=n, n_workers=15, n_classes=2
    )
    fitted = mh.Consensus(correlation=0).fit(votes)
    found = mh.collect.labels_needed(fitted, accuracy=0.93, seed=1)
    assert found.low <= found.labels <= found.high < np.inf
    rows = fitted.posterior_.copy()
    bought = 0
    while (rows.argmax(axis=1) == truth).mean() < 0.93:
        asked = gains.top(gains.entropy(rows), 75)
        said = np.where(rng.random(75) < 0.75, truth[asked], 1 - truth[asked])
        rows[asked] *= confusion[:, said].T
        rows /= rows.sum(axis=1, keepdims=True)
        bought += 75
    assert 0.6 * bought < found.labels < 1.6 * bought
    assert found == mh.collect.labels_needed(fitted, accuracy=0.93, seed=1)


def test_what_is_reached_needs_nothing_and_what_cannot_be_is_infinite(model: mh.DawidSkene) -> None:
    assert int(mh.collect.labels_needed(model, accuracy=0.4)) == 0
    rng = np.random.default_rng(0)
    votes = mh.Annotations.from_arrays(np.repeat(np.arange(60), 5), np.tile(np.arange(5), 60), rng.integers(0, 2, 300))
    guessing = mh.aggregate(votes)
    found = mh.collect.labels_needed(guessing, accuracy=0.999, draws=3)
    assert found.labels == np.inf
    assert found.to_dict()["labels"] is None
    assert "beyond" in str(found)
    for accuracy in (0, 1, 1.5):
        with pytest.raises(ValueError, match="accuracy"):
            mh.collect.labels_needed(model, accuracy=accuracy)
    with pytest.raises(ValueError, match="tasks"):
        mh.collect.labels_needed(model, tasks=[])
