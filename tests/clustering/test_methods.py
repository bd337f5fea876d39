"""Clusters from answers about pairs: recovery, skills, prediction, what is refused."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import manyhands as mh
from manyhands.clustering import ChosenClustering, CorrelationClustering, CrowdClustering
from manyhands.clustering._memberships import Memberships
from oracles.similarity import adjusted_rand

MUSIC = Path(__file__).parents[3] / "shared" / "data" / "music_sim_pairs" / "labels.csv"


@pytest.fixture(scope="module")
def blocks():
    """Few large clusters: 1 % of the pairs, three answers each, three workers in ten do not look."""
    return mh.simulate(2000, 50, 5, pairs=0.01, answers_per_pair=3, spammers=0.3, seed=1, kind="clustering")


@pytest.fixture(scope="module")
def records():
    """Many small clusters, of which candidates were asked by five workers each."""
    return mh.simulate(900, 30, 300, pairs=2500, answers_per_pair=5, same=0.3, spammers=0.2, seed=2, kind="clustering")


def test_large_clusters_are_found_from_one_pair_in_a_hundred(blocks):
    model = CrowdClustering().fit(blocks.log)
    assert model.n_clusters_ == 5
    assert adjusted_rand(model.clusters_, blocks.truth) > 0.95
    assert np.abs(model.recall_ - blocks.recall).mean() < 0.04
    assert np.abs(model.specificity_ - blocks.specificity).mean() < 0.03
    score = model.workers_frame()["spammer_score"].to_numpy()
    assert score[blocks.spammers].max() < score[~blocks.spammers].min()
    sure = model.confidence_ > 0.99
    assert sure.mean() > 0.9
    assert (np.diff(model.history_) >= -1e-6).all()


def test_small_clusters_are_found_by_pairs(records):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mh.errors.IdentifiabilityWarning)
        model = CorrelationClustering().fit(records.log)
    assert adjusted_rand(model.clusters_, records.truth) > 0.6
    assert np.abs(model.recall_ - records.recall).mean() < 0.06


@pytest.mark.parametrize(("log", "method"), [("blocks", "CrowdClustering"), ("records", "CorrelationClustering")])
def test_the_default_chooses_by_answers_it_has_not_seen(log, method, request):
    model = mh.aggregate(request.getfixturevalue(log).log)
    assert isinstance(model, ChosenClustering)
    assert model.method_ == method
    assert model.losses_[method] == min(model.losses_.values())


def test_probabilities_of_pairs_are_calibrated(blocks):
    model = CrowdClustering().fit(blocks.log)
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 2000, (2, 20_000))
    left, right = left[left != right], right[left != right]
    same = model.predict_proba(model.items_[left], model.items_[right])
    truth = blocks.truth[left] == blocks.truth[right]
    assert abs(same.mean() - truth.mean()) < 0.01
    assert ((same - truth) ** 2).mean() < 0.02
    assert (model.predict(model.items_[left], model.items_[right]) == truth).mean() > 0.97


def test_everybody_guesses():
    crowd = mh.simulate(300, 20, 4, pairs=2000, answers_per_pair=2, spammers=1.0, seed=5, kind="clustering")
    model = CrowdClustering().fit(crowd.log)
    assert model.workers_frame()["spammer_score"].to_numpy().mean() < 0.1


def test_clusters_are_as_many_as_allowed(blocks):
    assert CrowdClustering(n_clusters=3).fit(blocks.log).n_clusters_ == 3
    with pytest.warns(mh.errors.IdentifiabilityWarning, match="9"):
        few = CrowdClustering(n_clusters=9).fit(blocks.log)
    assert adjusted_rand(few.clusters_, blocks.truth) > 0.95


@pytest.mark.parametrize("model", [CrowdClustering(), CorrelationClustering(), ChosenClustering()])
@pytest.mark.parametrize("same", [True, False])
def test_one_answer(model, same):
    model.fit(mh.Similarities.from_arrays(["a"], ["b"], ["u"], [same]))
    assert model.items_.tolist() == ["a", "b"]
    assert np.isfinite(model.confidence_).all()
    assert 0 <= model.predict_proba(["a"], ["b"])[0] <= 1


@pytest.mark.filterwarnings("ignore::manyhands.errors.IdentifiabilityWarning")
@pytest.mark.parametrize("model", [CrowdClustering(), CorrelationClustering(), ChosenClustering()])
def test_the_order_of_rows_and_sides_does_not_matter(model):
    crowd = mh.simulate(60, 8, 3, pairs=300, answers_per_pair=2, seed=3, kind="clustering")
    frame = crowd.log.to_frame().to_pydict()
    rng = np.random.default_rng(0)
    order, turned = rng.permutation(len(frame["same"])), rng.random(len(frame["same"])) < 0.5
    left, right = (np.array(frame[side]) for side in ("left", "right"))
    shuffled = mh.Similarities.from_arrays(
        np.where(turned, left, right)[order],
        np.where(turned, right, left)[order],
        np.array(frame["worker"])[order],
        np.array(frame["same"])[order],
    )
    first = model.fit(crowd.log).to_frame()
    assert first.equals(model.fit(shuffled).to_frame())


@pytest.mark.filterwarnings("ignore::manyhands.errors.IdentifiabilityWarning")
@pytest.mark.parametrize("model", [CrowdClustering(n_clusters=4), CorrelationClustering(seed=2), ChosenClustering()])
def test_files(model, tmp_path):
    crowd = mh.simulate(60, 8, 3, pairs=300, answers_per_pair=2, seed=3, kind="clustering")
    model.fit(crowd.log).save(tmp_path / "model.mh")
    again = mh.load(tmp_path / "model.mh", type(model))
    assert again.to_frame().equals(model.to_frame())
    np.testing.assert_equal(again.workers_frame().to_pydict(), model.workers_frame().to_pydict())
    items = model.items_
    np.testing.assert_array_equal(
        again.predict_proba(items[:-1], items[1:]), model.predict_proba(items[:-1], items[1:])
    )
    assert repr(again) == repr(model)


def test_what_cannot_be_asked_is_named():
    model = CorrelationClustering()
    with pytest.raises(mh.errors.NotFittedError):
        model.predict_proba(["a"], ["b"])
    model.fit(mh.Similarities.from_arrays(["a"], ["b"], ["u"], [True]))
    with pytest.raises(ValueError, match="item 'z'"):
        model.predict_proba(["a"], ["z"])
    with pytest.raises(ValueError, match=r"2 items.*1"):
        model.predict_proba(["a", "b"], ["a"])
    with pytest.raises(TypeError, match=r"Similarities.*list"):
        model.fit([1, 2])
    with pytest.raises(ValueError, match=r"n_clusters.*1"):
        CrowdClustering(n_clusters=0).fit(mh.Similarities.from_arrays(["a"], ["b"], ["u"], [True]))
    with pytest.raises(ValueError, match="restarts"):
        CorrelationClustering(restarts=0).fit(mh.Similarities.from_arrays(["a"], ["b"], ["u"], [True]))


def test_memberships_of_pairs_are_products():
    rng = np.random.default_rng(1)
    dense = rng.dirichlet(np.ones(4), 10)
    dense[3] = [1, 0, 0, 0]
    memberships = Memberships.of_dense(dense)
    left, right = np.repeat(np.arange(10), 10), np.tile(np.arange(10), 10)
    apart = left != right
    expected = (dense[left] * dense[right]).sum(axis=1)
    np.testing.assert_allclose(memberships.together(left, right)[apart], expected[apart], rtol=1e-12)
    assert (memberships.together(left, right)[~apart] == 1).all()
    numbers = np.array([2, 0, 3, 1])
    moved = memberships.renumber(numbers)
    np.testing.assert_allclose(moved.together(left, right), memberships.together(left, right), rtol=1e-12)
    np.testing.assert_array_equal(moved.best(), numbers[dense.argmax(axis=1)])


def test_single_answers_are_remarked():
    crowd = mh.simulate(60, 8, 3, pairs=300, answers_per_pair=1, seed=3, kind="clustering")
    with pytest.warns(mh.errors.IdentifiabilityWarning, match="pairs"):
        CorrelationClustering().fit(crowd.log)


@pytest.mark.skipif(not MUSIC.exists(), reason="no real data beside the checkout (../shared/data)")
def test_music_is_of_relative_similarity():
    """Judges say which of two melodies is nearer to a query; only ties say that two melodies are as near."""
    table = mh.Similarities.from_frame(_ties(), left="left", right="right", worker="worker", same="same")
    model = mh.aggregate(table)
    assert len(model.items_) == table.n_items
    assert 1 < model.n_clusters_ <= table.n_items
    assert np.isfinite(model.confidence_).all()


def _ties():
    import pandas as pd

    log = pd.read_csv(MUSIC, dtype=str, keep_default_na=False)
    log = log[log.left != log.right]
    # Melodies are as near or not with respect to a query, so that items are melodies beside a query.
    return pd.DataFrame(
        {
            "left": log.task + " " + log.left,
            "right": log.task + " " + log.right,
            "worker": log.worker,
            "same": log.label == "tie",
        }
    )


def test_simulated_crowds_are_what_was_asked():
    crowd = mh.simulate(100, 10, 4, pairs=0.1, answers_per_pair=2, spammers=0.2, seed=7, kind="clustering")
    assert crowd.log.n_pairs == 495
    assert (crowd.log.labels_per_pair == 2).all()
    assert crowd.log.table.n_repeats() == 0
    assert crowd.spammers.sum() == 2
    np.testing.assert_allclose(crowd.recall[crowd.spammers] + crowd.specificity[crowd.spammers], 1.0)
    again = mh.simulate(100, 10, 4, pairs=0.1, answers_per_pair=2, spammers=0.2, seed=7, kind="clustering")
    assert again.log == crowd.log
    many = mh.simulate(300, 10, 100, pairs=300, same=0.5, seed=7, kind="clustering")
    left, right = many.log.pairs()
    assert (many.truth[left] == many.truth[right]).sum() == 150
    for wrong, message in (
        ({"pairs": 10_000}, "pairs.*4950"),
        ({"pairs": 0.00001}, "pairs=1e-05"),
        ({"answers_per_pair": 11}, "answers_per_pair.*10"),
        ({"spammers": 1.5}, "spammers.*1"),
        ({"pairs": 10, "same": 1.5}, "same.*1"),
    ):
        with pytest.raises(ValueError, match=message):
            mh.simulate(100, 10, 4, **wrong, kind="clustering")


def test_one_pair_in_ten_is_simulated_by_default():
    assert mh.simulate(201, 10, 4, kind="clustering").log.n_pairs == 2010


def test_items_of_a_cluster_are_simulated_equally_often():
    counts = np.zeros(30)
    for seed in range(100):
        answers = mh.simulate(30, 2, 1, pairs=20, answers_per_pair=1, same=1.0, seed=seed, kind="clustering").log
        left, right = answers.pairs()
        np.add.at(counts, answers.items[np.concatenate([left, right])], 1)
    # 4000 / 30 = 133 each; the standard deviation is 11.
    assert counts.min() > 100
    assert counts.max() < 170


@pytest.mark.filterwarnings("ignore::manyhands.errors.OverlapWarning")
def test_the_default_takes_no_room_for_items_times_clusters(monkeypatch):
    crowd = mh.simulate(400, 20, 150, pairs=900, seed=1, kind="clustering")
    monkeypatch.setattr("manyhands.clustering.consensus._MOST_MEMBERSHIPS", 1000)
    model = ChosenClustering().fit(crowd.log)
    assert model.method_ == "CorrelationClustering"
    assert np.isnan(list(model.losses_.values())).all()
    wanted = CorrelationClustering().fit(crowd.log)
    assert (model.clusters_ == wanted.clusters_).all()
    CrowdClustering().fit(crowd.log)  # whoever asks for it gets it
