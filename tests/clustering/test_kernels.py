"""Kernels for same or different beside their twins."""

import numpy as np
import pytest

import manyhands as mh
from manyhands import _core
from oracles import similarity as twin

#: Sums in another order, digamma functions of another library.
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def log(request):
    rng = np.random.default_rng(5)
    crowd = mh.simulate(25, 6, 3, pairs=90, answers_per_pair=2, spammers=0.2, seed=4, kind="clustering")
    frame = crowd.log.to_frame().to_pydict()
    weights = rng.uniform(0.5, 2.0, len(frame["same"])) if request.param else None
    return mh.Similarities.from_arrays(frame["left"], frame["right"], frame["worker"], frame["same"], weights)


def columns(table):
    weights = table.weights if table.weights is not None else np.ones(len(table))
    return *table.codes(), weights


def test_evidence_of_pairs(log):
    odds = np.random.default_rng(1).normal(size=(log.n_workers, 2))
    expected = twin.pair_evidence(*columns(log), odds, log.n_pairs)
    np.testing.assert_allclose(log.table.pair_evidence(odds), expected, **CLOSE)


def test_counts_of_workers(log):
    same = np.random.default_rng(1).random(log.n_pairs)
    expected = twin.pair_counts(*columns(log), same, log.n_workers)
    np.testing.assert_allclose(log.table.pair_counts(same), expected, **CLOSE)


@pytest.mark.parametrize("passes", [1, 7])
def test_memberships(log, passes):
    start = np.random.default_rng(2).dirichlet(np.ones(4), log.n_items)
    prior = np.array([[3.0, 1.0], [0.8, 2.4]])
    left, right = log.pairs()
    found = log.table.membership_fit(left, right, start, prior, max_iter=passes, tol=0.0)
    memberships, counts, history = twin.membership_fit(*columns(log), left, right, start, prior, passes)
    np.testing.assert_allclose(found["memberships"], memberships, **CLOSE)
    np.testing.assert_allclose(found["counts"], counts, **CLOSE)
    np.testing.assert_allclose(found["history"], history, **CLOSE)
    assert found["n_iter"] == passes
    assert (np.diff(history) >= -1e-9).all()


@pytest.mark.parametrize("concentration", [None, 0.5, 4.0])
def test_search_against_all_partitions(concentration):
    rng = np.random.default_rng(3)
    everything = np.array(list(twin.partitions(7)))
    found_best = 0
    for seed in range(20):
        left, right = np.array([(a, b) for a in range(7) for b in range(a) if rng.random() < 0.7], np.uint32).T.copy()
        evidence = rng.normal(size=len(left))
        alone = np.arange(7, dtype=np.uint32)
        found = _core.cluster_search(left, right, evidence, alone, concentration=concentration, seed=seed)
        worth = twin.worth(left, right, evidence, found["clusters"], concentration)
        assert found["objective"] == pytest.approx(worth)
        best = max(twin.worth(left, right, evidence, one, concentration) for one in everything)
        assert twin.worth(left, right, evidence, alone, concentration) <= worth <= best + 1e-9
        found_best += worth > best - 1e-9
    assert found_best >= 14  # local search misses some, and would miss nearly all if it did not climb


def test_shares_of_clusters(log):
    left, right = log.pairs()
    rng = np.random.default_rng(6)
    evidence, clusters = rng.normal(size=log.n_pairs), rng.integers(0, 6, log.n_items).astype(np.uint32)
    found = _core.cluster_shares(left, right, evidence, clusters)
    for item in range(log.n_items):
        places = slice(found["offsets"][item], found["offsets"][item + 1])
        mine = dict(zip(found["clusters"][places].tolist(), found["shares"][places], strict=True))
        theirs = twin.cluster_shares(left, right, evidence, clusters, item)
        theirs.pop(None, None)
        assert mine == pytest.approx(theirs)


def test_kernels_give_the_same_bits_on_any_number_of_threads():
    crowd = mh.simulate(3000, 40, 6, pairs=40_000, answers_per_pair=2, seed=1, kind="clustering")
    left, right = crowd.log.pairs()
    start = np.random.default_rng(2).dirichlet(np.ones(5), crowd.log.n_items)
    before, runs = mh.get_num_threads(), []
    try:
        for threads in (1, 3):
            mh.set_num_threads(threads)
            fit = crowd.log.table.membership_fit(left, right, start, np.ones((2, 2)), max_iter=3, tol=0.0)
            runs.append((fit["memberships"].tobytes(), fit["counts"].tobytes(), fit["history"].tobytes()))
    finally:
        mh.set_num_threads(before)
    assert runs[0] == runs[1]
