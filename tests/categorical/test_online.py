"""Stepwise EM: batches, what is kept between them, and how far the end is from one fit to everything."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from real_logs import accuracy, log

import manyhands as mh
from manyhands.categorical.online import fading
from manyhands.testing.compare import assert_same_bits
from manyhands.testing.crowds import STANDARD
from oracles.online import left_after

#: A replay may be this far from the batch answer, in accuracy.
HALF_A_POINT = 0.005


def pieces(votes: mh.Annotations, n: int) -> list[mh.Annotations]:
    """A table in n runs of tasks."""
    return [votes.select(tasks=part) for part in np.array_split(votes.tasks, n)]


def streamed(model: mh.categorical.OnlineDawidSkene, batches: list[mh.Annotations]) -> mh.categorical.OnlineDawidSkene:
    for batch in batches:
        model.partial_fit(batch)
    return model


# ---------------------------------------------------------------------------------------------------- the step


@given(
    points=st.tuples(*[st.floats(0, 1e4)] * 3).map(sorted),
    kappa=st.floats(0.51, 1.0),
    forget=st.sampled_from([0.0, 0.001, 0.3, 1.0]),
)
def test_answers_fade_the_past_as_they_would_one_by_one(points: list[float], kappa: float, forget: float) -> None:
    a, b, c = (np.array([x]) for x in points)
    whole, first, second = fading(a, c, kappa, forget), fading(a, b, kappa, forget), fading(b, c, kappa, forget)
    np.testing.assert_allclose(first * second, whole, rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(whole, left_after(points[0], points[2], kappa, forget), rtol=1e-9, atol=1e-300)


def test_the_step_is_that_of_the_paper() -> None:
    steps = 1 - fading(np.arange(50.0), np.arange(1, 51.0), 1.0, 0.0)
    np.testing.assert_allclose(steps, 1 / (np.arange(50) + 2))
    # Below one, the continuous form comes to (t + 2)^-kappa as steps get small: half a step is the difference.
    steps, wanted = 1 - fading(np.arange(500.0), np.arange(1, 501.0), 0.7, 0.0), (np.arange(500) + 2.0) ** -0.7
    assert (np.abs(steps / wanted - 1) < 0.5 * wanted).all()
    constant = 1 - fading(np.arange(100, 500.0), np.arange(101, 501.0), 1.0, 0.1)
    np.testing.assert_allclose(constant, 1 - np.exp(-0.1))


# ---------------------------------------------------------------------------------------------------- batches


def test_fit_is_a_replay() -> None:
    votes = STANDARD.votes()
    fitted = mh.categorical.OnlineDawidSkene(batch_size=8, kappa=0.7).fit(votes)
    parts = [votes.select(tasks=votes.tasks[i : i + 8]) for i in range(0, votes.n_tasks, 8)]
    stream = streamed(mh.categorical.OnlineDawidSkene(kappa=0.7), parts)
    np.testing.assert_array_equal(stream.workers_, fitted.workers_)
    np.testing.assert_array_equal(stream.confusion_, fitted.confusion_)
    np.testing.assert_array_equal(stream.prior_, fitted.prior_)
    np.testing.assert_array_equal(stream.predict_proba(votes), fitted.posterior_)
    assert stream.tasks_.tolist() == parts[-1].tasks.tolist()
    assert stream.n_iter_ == fitted.n_iter_ == 5


def test_tasks_workers_and_classes_may_appear_at_any_time() -> None:
    first = {"task": [1, 1, 2], "worker": ["b", "c", "b"], "label": ["x", "x", "y"]}
    later = {"task": [3, 3, 4], "worker": ["a", "c", "d"], "label": ["w", "w", "x"]}
    model = mh.categorical.OnlineDawidSkene().partial_fit(first)
    alone = dict(zip(model.workers_.tolist(), model.confusion_, strict=True))
    model.partial_fit(later)
    assert model.workers_.tolist() == ["b", "c", "a", "d"]
    assert model.classes_.tolist() == ["x", "y", "w"]
    assert model.tasks_.tolist() == [3, 4]
    assert model.labels_.tolist() == ["w", "x"]
    assert model.workers_frame().column("n_answers").to_pylist() == [2, 2, 1, 1]
    assert model.confusion_.shape == (4, 3, 3)
    assert model.predict(first).tolist() == ["x", "y"]
    # Somebody who did not answer is known as before, but for the new class, which has a share of the pseudo-counts.
    b = model._fitted().fit.counts[0]
    np.testing.assert_array_equal(b[2], 0)
    np.testing.assert_array_equal(b[:, 2], 0)
    assert alone["b"].shape == (2, 2)


def test_a_file_is_read_piece_by_piece(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    votes = mh.simulate(300, 10, 3, labels_per_task=4, seed=0).log
    pq.write_table(votes.to_frame(), tmp_path / "log.parquet")
    model = mh.categorical.OnlineDawidSkene()
    for group in pq.ParquetFile(tmp_path / "log.parquet").iter_batches(400, columns=["task", "worker", "label"]):
        model.partial_fit(group)
    whole = streamed(mh.categorical.OnlineDawidSkene(), pieces(votes, 3))
    np.testing.assert_array_equal(model.confusion_, whole.confusion_)
    assert model.tasks_.tolist() == list(range(200, 300))


def test_only_those_who_answer_move() -> None:
    votes = STANDARD.votes()
    model = mh.categorical.OnlineDawidSkene().partial_fit(votes)
    before, rest = model.confusion_.copy(), votes.select(workers=votes.workers[:3])
    model.partial_fit(rest)
    np.testing.assert_array_equal(model.confusion_[3:], before[3:])
    assert (np.abs(model.confusion_[:3] - before[:3]).max(axis=(1, 2)) > 1e-6).all()


def test_what_is_kept_does_not_grow_with_the_log() -> None:
    batches = pieces(mh.simulate(400, 10, 3, labels_per_task=4, seed=0).log, 8)
    model = mh.categorical.OnlineDawidSkene(recent=20)

    def size() -> int:
        return sum(array.nbytes for array in vars(model._fitted().fit).values() if isinstance(array, np.ndarray))

    sizes = []
    for batch in batches:
        model.partial_fit(batch)
        sizes.append(size())
    assert len(set(sizes[1:])) == 1
    assert len(model._fitted().fit.latest) == 20


def test_saved_and_resumed(tmp_path: Path) -> None:
    batches = pieces(mh.simulate(400, 10, 3, labels_per_task=4, seed=0).log, 4)
    for recent in (0, 30):
        whole = streamed(mh.categorical.OnlineDawidSkene(recent=recent, kappa=0.8), batches)
        half = streamed(mh.categorical.OnlineDawidSkene(recent=recent, kappa=0.8), batches[:2])
        half.save(tmp_path / "half.mh")
        resumed = streamed(mh.load(tmp_path / "half.mh"), batches[2:])
        assert_same_bits(resumed, whole)
        np.testing.assert_array_equal(resumed._fitted().fit.latest_rows, whole._fitted().fit.latest_rows)


def test_a_batch_that_fails_changes_nothing() -> None:
    votes = STANDARD.votes()
    model = mh.categorical.OnlineDawidSkene().partial_fit(votes)
    before = model.confusion_.copy()
    for change, message in (({"rounds": 0}, "rounds"), ({"kappa": 0.5}, "kappa"), ({"pseudo_count": [[1]]}, "pseudo")):
        with pytest.raises(ValueError, match=message):
            model.set_params(**change).partial_fit(votes)
        model.set_params(rounds=10, kappa=0.9, pseudo_count=(2.0, 1.0))
    with pytest.raises(TypeError, match="Annotations"):
        model.partial_fit([1, 2])
    np.testing.assert_array_equal(model.confusion_, before)
    with pytest.raises(mh.errors.NotFittedError):
        _ = mh.categorical.OnlineDawidSkene().confusion_


# --------------------------------------------------------------------------------------------------- recovery


def test_a_replay_ends_where_a_batch_fit_does() -> None:
    for seed in range(3):
        crowd = mh.simulate(6000, 60, 4, labels_per_task=5, seed=seed)
        batch = mh.DawidSkene(pseudo_count=(2.0, 1.0)).fit(crowd.log)
        model = mh.categorical.OnlineDawidSkene(batch_size=500).fit(crowd.log)
        score, goal = (mh.metrics.accuracy(each.labels_, crowd.truth) for each in (model, batch))
        assert abs(score - goal) <= HALF_A_POINT, (seed, score, goal)
        assert mh.metrics.skill_error(model.confusion_, crowd.confusion) < 0.03


def test_errors_of_workers_fall_as_the_log_grows() -> None:
    crowd = mh.simulate(16_000, 40, 3, labels_per_task=4, seed=5)
    model, errors = mh.categorical.OnlineDawidSkene(), []
    for i, batch in enumerate(pieces(crowd.log, 32)):
        model.partial_fit(batch)
        if i in (1, 7, 31):
            order = np.argsort(model.workers_)
            errors.append(mh.metrics.skill_error(model.confusion_[order], crowd.confusion))
    # Four times the answers halve the error; a little less is asked for.
    assert errors[0] > 1.5 * errors[1] > 1.5 * 1.5 * errors[2], errors


def test_recent_tasks_are_joined() -> None:
    crowd = mh.simulate(2000, 30, 3, labels_per_task=6, seed=2)
    votes = crowd.log
    rows = votes.to_frame()
    place = np.arange(len(rows)) % 6
    scores = {}
    for recent in (0, 300):
        model, right = mh.categorical.OnlineDawidSkene(recent=recent), 0
        for start in range(0, len(rows), 600):
            part = rows.slice(start, 600)
            for half in (place[start : start + 600] < 3, place[start : start + 600] >= 3):
                model.partial_fit(part.filter(half))
            right += int((model.labels_ == crowd.truth[model.tasks_]).sum())
        scores[recent] = right / 2000
    whole = mh.metrics.accuracy(mh.categorical.OnlineDawidSkene().fit(votes).labels_, crowd.truth)
    assert scores[300] > scores[0] + 0.02
    assert scores[300] > whole - 0.02


def test_forgetting_follows_workers_who_change() -> None:
    rng = np.random.default_rng(0)
    n_tasks, n_workers = 8000, 9
    truth = rng.integers(0, 2, n_tasks)
    tasks, workers = np.repeat(np.arange(n_tasks), 5), (np.arange(n_tasks * 5) * 7) % n_workers
    # Six workers are good, then guess; three get good.
    late = tasks >= n_tasks // 2
    skill = np.where((workers < 6) ^ late, 0.9, 0.5)
    labels = np.where(rng.random(len(tasks)) < skill, truth[tasks], 1 - truth[tasks])
    votes = mh.Annotations.from_arrays(tasks, workers, labels)
    batches = pieces(votes, 40)
    end = truth[batches[-1].tasks]
    scores = {
        forget: np.mean(streamed(mh.categorical.OnlineDawidSkene(kappa=1.0, forget=forget), batches).labels_ == end)
        for forget in (0.0, 0.01)
    }
    assert scores[0.01] > scores[0.0] + 0.03, scores


@pytest.mark.parametrize(
    "name", ["bluebird", "trec2010", "sentence_polarity", "bm_tweets", "product", "metaphor_novelty"]
)
def test_a_replay_of_a_real_log(shared_data: Path, name: str) -> None:
    votes, gold = log(shared_data / name)
    batch = accuracy(mh.DawidSkene(pseudo_count=(2.0, 1.0)).fit(votes), gold)
    assert accuracy(mh.categorical.OnlineDawidSkene().fit(votes), gold) >= batch - HALF_A_POINT
