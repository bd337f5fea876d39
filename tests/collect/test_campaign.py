"""Labels bought one after the other: campaigns, and policies replayed on logs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

import manyhands as mh
from manyhands._base import persist
from manyhands.collect import Campaign, replay
from manyhands.collect.state import State


@pytest.fixture(scope="module")
def crowd() -> mh.categorical.CategoricalSimulation:
    return mh.simulate(120, 10, 3, labels_per_task=8, seed=3)


@pytest.fixture(scope="module")
def gold(crowd: mh.categorical.CategoricalSimulation) -> tuple[np.ndarray, np.ndarray]:
    return crowd.log.tasks, crowd.truth


def answers(crowd: mh.categorical.CategoricalSimulation, seed: int = 0) -> np.ndarray:
    """What everybody would say of everything, (n_tasks, n_workers)."""
    rng = np.random.default_rng(seed)
    rows = crowd.confusion[:, crowd.truth]
    return (rng.random((*rows.shape[:2], 1)) > rows.cumsum(axis=2)).sum(axis=2).clip(max=2).T


def go_on(campaign: Campaign, said: np.ndarray, n: int) -> list[tuple[object, ...]]:
    """Ask and tell so many times; returns the requests."""
    asked = []
    for _ in range(n):
        found = campaign.ask()
        if not found:
            break
        asked.append(tuple(found[0]))
        campaign.tell(found[0].task, found[0].worker, said[found[0].task, found[0].worker])
    return asked


# ------------------------------------------------------------------------------------------------------- campaigns


@pytest.mark.parametrize("update", ["batch", "online"])
@pytest.mark.parametrize("explore", ["epsilon-greedy", "thompson", "upper", "none"])
def test_a_campaign_finds_the_classes(crowd: mh.categorical.CategoricalSimulation, update: str, explore: str) -> None:
    campaign = Campaign(range(120), range(3), workers=range(10), update=update, explore=explore, seed=1)
    asked = go_on(campaign, answers(crowd), 600)
    assert len(asked) == campaign.n_answers == 600
    assert len({(task, worker) for task, worker, *_ in asked}) == 600
    assert (campaign.labels == crowd.truth).mean() > 0.85
    np.testing.assert_allclose(campaign.posterior.sum(axis=1), 1)
    assert campaign.votes.n_annotations == 600


@pytest.mark.parametrize("update", ["batch", "online"])
def test_a_saved_campaign_goes_on_as_if_nothing_had_been(
    crowd: mh.categorical.CategoricalSimulation, update: str, tmp_path: Path
) -> None:
    said = answers(crowd)
    whole = Campaign(range(120), range(3), workers=range(10), update=update, error=0.02, seed=4)
    first = go_on(whole, said, 150)
    whole.save(tmp_path / "campaign")
    resumed = mh.load(tmp_path / "campaign")
    assert repr(resumed) == repr(whole)
    rest = go_on(whole, said, 150)
    assert go_on(resumed, said, 150) == rest
    assert resumed.log.equals(whole.log)
    np.testing.assert_array_equal(resumed.posterior, whole.posterior)
    again = Campaign(range(120), range(3), workers=range(10), update=update, error=0.02, seed=4)
    assert go_on(again, said, 300) == first + rest


def test_damaged_files_are_refused(crowd: mh.categorical.CategoricalSimulation, tmp_path: Path) -> None:
    campaign = Campaign(range(20), range(3), workers=range(10), seed=4)
    go_on(campaign, answers(crowd), 60)
    campaign.ask()
    campaign.save(tmp_path / "campaign")
    content = persist.read(tmp_path / "campaign")
    wrong_meta = [
        {"settings": content.meta["settings"] | {"strategy": "best"}},
        {"settings": content.meta["settings"] | {"error": 2.0}},
        {"settings": {}},
        {"kappa": 7.0},
        {"rng": {}},
        {"model": "os.system"},
        {"params": {"nothing": 1}},
        {"asked": "many"},
    ]
    wrong_arrays = [
        {"answers": content.arrays["answers"] + 100},
        {"answers": content.arrays["answers"][:2]},
        {"left": content.arrays["left"][1:]},
        {"scores": content.arrays["scores"][1:]},
        {"scores": content.arrays["scores"] * np.nan},
        {"pending": content.arrays["pending"] + 50},
        {"events": content.arrays["events"] + 50},
        {"state.prior": content.arrays["state.prior"][1:]},
    ]
    for meta, arrays in [*((wrong, {}) for wrong in wrong_meta), *(({}, wrong) for wrong in wrong_arrays)]:
        persist.write(tmp_path / "wrong", "campaign", content.meta | meta, content.arrays | arrays)
        with pytest.raises(mh.errors.FileFormatError):
            mh.load(tmp_path / "wrong")


def test_whoever_comes_is_given_what_they_have_not_answered() -> None:
    campaign = Campaign(["a", "b"], ["x", "y"], labels_per_task=2)
    (first,) = campaign.ask(worker="ann")
    (second,) = campaign.ask(worker="ann")
    assert {first.task, second.task} == {"a", "b"}
    assert first.why == "came"
    assert campaign.ask(worker="bob") == []  # both are being asked about
    campaign.tell(first.task, "ann", "x")
    assert campaign.ask(worker="ann") == []
    assert campaign.ask(worker="bob")[0].task == first.task
    campaign.release(second.task)
    assert campaign.ask()[0] == (second.task, None, pytest.approx(campaign.log["value"].to_pylist()[-1]), "anybody")
    campaign.tell("a", "eve", "x")
    campaign.tell("b", "eve", "y")
    campaign.tell("a", "bob", "x")
    campaign.tell("b", "bob", "y")
    assert campaign.done
    assert campaign.to_frame()["done"].to_pylist() == [True, True]
    events = campaign.log["event"].to_pylist()
    assert events.count("answer") == 5
    assert events.count("stop") == 2
    assert "labels" in campaign.log["why"].to_pylist()
    answers = campaign.log.filter(pc.equal(campaign.log["event"], "answer")).select(["task", "worker", "label"])
    assert answers.to_pylist()[-1] == {"task": "b", "worker": "bob", "label": "y"}
    assert answers.to_pylist()[-2] == {"task": "a", "worker": "bob", "label": "x"}


def test_tasks_stop_at_the_error_and_campaigns_at_the_budget(crowd: mh.categorical.CategoricalSimulation) -> None:
    campaign = Campaign(range(120), range(3), workers=range(10), error=0.05, update="online", seed=0)
    go_on(campaign, answers(crowd), 1200)
    assert campaign.done
    frame = campaign.to_frame()
    stopped = [task for task, event, why in zip(*(campaign.log[c].to_pylist() for c in ("task", "event", "why")),
                                                strict=True) if event == "stop" and why == "error"]  # fmt: skip
    assert len(stopped) > 60
    assert (campaign.labels[stopped] != crowd.truth[stopped]).mean() <= 0.08  # stated 0.05, of some 100 tasks
    assert frame["n_answers"].to_numpy().sum() == campaign.n_answers < 1200
    capped = Campaign(range(120), range(3), workers=range(10), budget=30)
    assert len(capped.ask(50)) == 30
    assert capped.done


def test_capacities_are_kept() -> None:
    campaign = Campaign(range(9), ["x", "y"], workers={"worker": ["ann", "bob"], "capacity": [3, 2]})
    asked = [request.worker for request in campaign.ask(9)]
    assert sorted(asked) == ["ann"] * 3 + ["bob"] * 2
    assert campaign.ask() == []


def test_stepwise_em_is_its_twin(crowd: mh.categorical.CategoricalSimulation) -> None:
    """Averages of workers, told label by label, are those of their definition: every answer with its faded weight."""
    state = State(20, 4, 3, None, 0.6)
    rng = np.random.default_rng(0)
    for _ in range(60):
        state.tell(int(rng.integers(20)), int(rng.integers(4)), int(rng.integers(3)))
    for worker in range(4):
        mine = [i for i, who in enumerate(state.workers) if who == worker]
        steps = np.arange(1, len(mine) + 1) ** -0.6
        weights = steps * np.append(np.cumprod((1 - steps)[::-1])[::-1][1:], 1.0)
        expected = np.zeros((3, 3))
        for weight, at in zip(weights, mine, strict=True):
            expected[:, state.labels[at]] += weight * state.posterior[state.tasks[at]]
        np.testing.assert_allclose(state.average[worker], expected, atol=1e-12)
        assert state.squares[worker] == pytest.approx((weights**2).sum())
        assert weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(state.confusion.sum(axis=2), 1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"tasks": []}, "task"), ({"classes": []}, "classes"),
     ({"workers": []}, "available"),
     ({"strategy": "best"}, "strategy"), ({"update": "never"}, "update"), ({"kappa": 0.3}, "kappa"),
     ({"error": 1.5}, "error"), ({"budget": -1}, "budget"), ({"tasks": [1, 1]}, "twice"),
     ({"workers": {"worker": [1], "cost": [2.0]}}, "costs")],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Campaign(**({"tasks": range(5), "classes": range(2)} | settings))


def test_answers_that_cannot_be_are_refused() -> None:
    campaign = Campaign(range(5), ["x", "y"])
    with pytest.raises(KeyError, match="task"):
        campaign.tell(9, "ann", "x")
    with pytest.raises(ValueError, match="classes"):
        campaign.tell(1, "ann", "z")
    with pytest.raises(ValueError, match="worker"):
        campaign.tell(1, None, "x")
    with pytest.raises(ValueError, match="asked"):
        campaign.release(1)
    with pytest.raises(TypeError, match="aggregator"):
        Campaign(range(5), range(2), model="dawid-skene")


def test_answers_that_are_there_already_count(crowd: mh.categorical.CategoricalSimulation) -> None:
    campaign = Campaign(range(120), range(3), votes=crowd.log, model=mh.DawidSkene(warm_start=True))
    assert campaign.n_answers == crowd.log.n_annotations
    np.testing.assert_allclose(campaign.posterior, mh.DawidSkene().fit(crowd.log).posterior_, atol=1e-12)


# ---------------------------------------------------------------------------------------------------------- replays


@pytest.mark.parametrize("policy", ["random", "fewest", "entropy", "margin", "error", "information"])
def test_all_of_a_log_is_all_of_it_whatever_the_policy(
    crowd: mh.categorical.CategoricalSimulation, gold: object, policy: str
) -> None:
    run = replay(crowd.log, gold, policy=policy, points=2)
    assert run.labels[-1] == crowd.log.n_annotations
    assert run.accuracy == run.whole == mh.metrics.accuracy(mh.aggregate(crowd.log).labels_, crowd.truth)


def test_seeds_repeat_and_curves_tell_their_deviation(
    crowd: mh.categorical.CategoricalSimulation, gold: object
) -> None:
    one = replay(crowd.log, gold, policy="entropy", budget=300, seed=0)
    np.testing.assert_array_equal(one.accuracies, replay(crowd.log, gold, "entropy", budget=300, seed=0).accuracies)
    both = replay(crowd.log, gold, policy="entropy", budget=300, seed=[0, 1])
    np.testing.assert_array_equal(both.accuracies[:1], one.accuracies)
    assert both.curve["labels"].to_pylist()[-1] == 300
    assert max(both.curve["deviation"].to_pylist()) > 0
    assert "entropy" in repr(one)


def test_choosing_beats_chance() -> None:
    crowd = mh.simulate(300, 30, 2, labels_per_task=12, crowd={"one-coin": 0.6, "spammers": 0.4}, seed=1)
    truth = (crowd.log.tasks, crowd.truth)
    runs = {p: replay(crowd.log, truth, p, budget=1500, seed=range(3), points=5) for p in ("random", "information")}
    assert (runs["information"].accuracies.mean(axis=0)[1:] > runs["random"].accuracies.mean(axis=0)[1:]).all()


def test_thin_logs_are_filled_with_simulated_answers(crowd: mh.categorical.CategoricalSimulation, gold: object) -> None:
    run = replay(crowd.log, gold, "entropy", budget=1100, simulated=True, points=2)
    assert run.labels[-1] == 1100 > crowd.log.n_annotations
    assert run.accuracy > 0.85


def test_slips_in_replays_are_named(crowd: mh.categorical.CategoricalSimulation, gold: object) -> None:
    with pytest.raises(ValueError, match="policy"):
        replay(crowd.log, gold, policy="best")
    with pytest.raises(ValueError, match="seeds"):
        replay(crowd.log, gold, seed=[])
    with pytest.warns(mh.errors.DataWarning, match="960 answers"):
        assert replay(crowd.log, gold, "random", budget=5000, points=1).labels[-1] == 960
    with pytest.raises(ValueError, match="gold"):
        replay(crowd.log, {})
    with pytest.raises(TypeError, match="budget"):
        replay(crowd.log, gold, budget=2.5)


def test_labels_within_a_point_are_counted() -> None:
    curve = mh.collect.Replay("random", np.array([10, 20, 30, 40]), np.array([[0.5, 0.9, 0.7, 0.9]]), 0.905)
    assert curve.labels_within() == 40
    assert curve.labels_within(0.3) == 20
    assert curve.labels_within(0.001) is None


@pytest.mark.parametrize("update", ["batch", "online"])
def test_a_repeated_delivery_is_no_further_vote(update: str) -> None:
    campaign, once = (Campaign(range(3), ["cat", "dog"], update=update, budget=6) for _ in range(2))
    for worker in "abc":
        for one in (campaign, once):
            one.tell(0, worker, "dog")
    once.tell(0, "d", "cat")
    for _ in range(4):
        campaign.tell(0, "d", "cat")
    assert campaign.labels[0] == "dog"
    assert (campaign.posterior == once.posterior).all()
    assert campaign.n_answers == 4
    assert campaign.log.equals(once.log)
    assert len(campaign.ask(2, worker="e")) == 2  # four of six labels are spent, whatever was delivered how often


@pytest.mark.parametrize(("update", "n"), [("batch", 3), ("batch", 40), ("online", 40)])
def test_a_changed_answer_replaces_the_earlier_one(
    update: str, n: int, crowd: mh.categorical.CategoricalSimulation
) -> None:
    said = answers(crowd)
    campaign, wanted = (Campaign(range(n), range(3), workers=range(6), update=update) for _ in range(2))
    campaign.tell(0, 0, (said[0, 0] + 1) % 3)
    for task in range(n):
        for worker in range(6):
            wanted.tell(task, worker, said[task, worker])
            if (task, worker) != (0, 0):
                campaign.tell(task, worker, said[task, worker])
    campaign.tell(0, 0, said[0, 0])
    assert campaign.votes == wanted.votes
    assert campaign.n_answers == 6 * n
    if update == "batch" and n > 10:
        wanted._refit()
    np.testing.assert_allclose(campaign.posterior, wanted.posterior, atol=1e-9)


@pytest.mark.parametrize(
    ("meta", "arrays"),
    [
        ({"asked": -1}, {}),
        ({"asked": 10**400}, {}),
        ({"kappa": 10**400}, {}),
        ({"settings": {"budget": -1}}, {}),
        ({"settings": {"budget": 10**400}}, {}),
        ({"settings": {"labels_per_task": 0}}, {}),
        ({"settings": {"error": 0.0}}, {}),
        ({"settings": {"epsilon": 7.0}}, {}),
        ({"settings": {"epsilon": 10**400}}, {}),
        ({"settings": {"epsilon": float("nan")}}, {}),
        ({"params": {"max_iter": 10**400}}, {}),
        ({}, {"state.settings": [50.0, -1.0]}),
        ({}, {"state.posterior": -1.0}),
        ({}, {"state.confusion": 0.0}),
        ({}, {"state.total": 0.0}),
        ({}, {"state.decay": 1.0}),
        ({}, {"left": -1}),
    ],
)
def test_crafted_campaigns_are_rejected(
    tmp_path: Path, meta: dict, arrays: dict, crowd: mh.categorical.CategoricalSimulation
) -> None:
    campaign = Campaign(range(4), range(3), workers=range(6), budget=30, labels_per_task=5)
    for task in range(3):
        campaign.tell(task, task, 1)
    campaign.save(tmp_path / "sound")
    content = persist.read(tmp_path / "sound")
    settings = {"settings": content.meta["settings"] | meta["settings"]} if "settings" in meta else meta
    changed = {
        name: np.broadcast_to(np.array(value, content.arrays[name].dtype), content.arrays[name].shape)
        for name, value in arrays.items()
    }
    persist.write(tmp_path / "crafted", "campaign", content.meta | settings, content.arrays | changed)
    try:
        loaded = mh.load(tmp_path / "crafted")
    except mh.errors.FileFormatError:
        return
    assert "params" in meta  # the model itself rejects it, when it is fitted
    with pytest.raises((ValueError, TypeError)):
        loaded._refit()
