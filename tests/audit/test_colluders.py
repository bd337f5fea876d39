"""Colluders: recovery with and without a trusted worker, tasks that were attacked, quiet crowds, and bad input."""

import pickle

import numpy as np
import pytest

import manyhands as mh
from manyhands import _core
from manyhands.audit._clusters import upper
from manyhands.audit.colluders import _merge_classes, _Search
from oracles import audit, em


def plot(share, n_tasks=800, n_workers=30, k=3, per_task=15, seed=0, wrong=0.9):
    """A log in which a share of the workers say the same, mostly wrong: votes, truth, who, and which tasks."""
    rng = np.random.default_rng(seed)
    skill = rng.uniform(0.5, 0.85, n_workers)
    confusion = ((1 - skill) / (k - 1))[:, None, None] * (1 - np.eye(k)) + skill[:, None, None] * np.eye(k)
    truth, tasks, workers, labels = _core.simulate(
        n_tasks, n_workers, k, prior=np.full(k, 1 / k), confusion=confusion, per_task=(per_task, per_task), seed=seed
    )
    who = rng.permutation(n_workers) < round(share * n_workers)
    attacked = rng.random(n_tasks) < wrong
    said = np.where(attacked, (truth + rng.integers(1, k, n_tasks)) % k, truth)
    labels = np.where(who[workers], said[tasks], labels).astype(np.uint16)
    votes = mh.Annotations.from_codes(tasks, workers, labels, n_tasks=n_tasks, n_workers=n_workers, n_classes=k)
    return votes, truth, who, attacked


@pytest.mark.parametrize("share", [0.1, 0.2, 0.3, 0.4])
def test_a_minority_that_colludes_is_found(share):
    votes, truth, who, attacked = plot(share)
    found = mh.audit.colluders(votes)
    assert found.found.tolist() == who.tolist()
    after = mh.DawidSkene().fit(votes.without(found))
    assert mh.metrics.accuracy(after.labels_, truth) > 0.95
    named = np.isin(np.arange(votes.n_tasks), found.tasks)
    # Where a colluder or none was asked, nothing can be seen of the attack.
    asked = np.bincount(votes.codes()[0][who[votes.codes()[1]]], minlength=votes.n_tasks) >= 2
    assert named[attacked & asked].mean() > 0.9
    assert named[~attacked].mean() < 0.05


def test_pairs_who_agree_too_much_do_not_sway_what_is_expected_of_the_others():
    votes, _, who, _ = plot(0.2, seed=2)
    search = _Search.of(votes, "covariance", None, 0)
    within = who[search.covariances.pairs].all(axis=1)
    plain = search.covariances.factor(
        search.covariances.start(search.rank, 0), 1.0, search.covariances.overlap, 300, 1e-6
    )
    swayed, not_swayed = (
        np.average(np.abs(excess[~within]), weights=weight[~within])
        for excess, weight in map(search._excess, (plain, search._robust(plain)))
    )
    assert not_swayed < 0.05 < 0.08 < swayed


def test_a_group_that_is_begun_wrong_comes_right():
    votes, _, who, _ = plot(0.3)
    search, begun = _Search.of(votes, "covariance", None, 0), who.copy()
    begun[[np.flatnonzero(who)[0], *np.flatnonzero(~who)[:2]]] = [False, True, True]
    assert search._explain(begun, search._empty_group()).group.tolist() == who.tolist()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("k", [8, 30])
def test_colluders_are_found_where_classes_are_merged(k, share):
    votes, _, who, _ = plot(share, n_tasks=1000, n_workers=40, k=k, per_task=10)
    found = mh.audit.colluders(votes)
    assert found.found.tolist() == who.tolist()
    assert any(f"merged {k} classes into 5" in remark for remark in found.remarks)


def test_classes_are_kept_apart_where_that_is_asked_for():
    votes, _, who, _ = plot(0.2, k=7)
    found = mh.audit.colluders(votes, max_classes=None)
    assert found.found.tolist() == who.tolist()
    assert not any("merged" in remark for remark in found.remarks)
    assert _Search.of(_merge_classes(votes, 7), "covariance", None, 0).rank == 6
    with pytest.raises(mh.errors.ParameterError):
        mh.audit.colluders(votes, max_classes=1)


def test_merged_classes_have_about_equally_many_answers():
    """Rare labels, abstentions and all: the most common label is alone, and no answer but abstentions is lost."""
    rng = np.random.default_rng(0)
    labels = rng.choice(9, 4000, p=[0.4, 0.2, 0.2, 0.1, 0.06, 0.02, 0.01, 0.005, 0.005])
    names = [*"abcdefgh", "?"]
    votes = mh.Annotations.from_arrays(
        np.repeat(np.arange(800), 5), np.tile(np.arange(5), 800), [names[i] for i in labels], abstain="?"
    )
    merged = _merge_classes(votes, 4)
    counts = merged.table.label_counts()
    alone, rest = np.sort(np.bincount(labels, minlength=9)[:3])[::-1], np.bincount(labels, minlength=9)[3:8].sum()
    assert sorted(counts.tolist()) == sorted([*alone.tolist(), int(rest)])
    assert (merged.n_tasks, merged.n_workers, merged.n_classes, merged.n_labels) == (800, 5, 4, 4)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.6])
def test_with_a_trusted_worker_the_plot_may_be_large(share):
    votes, _, who, _ = plot(share, seed=1)
    honest = int(np.flatnonzero(~who)[0])
    found = mh.audit.colluders(votes, trusted=honest)
    assert found.found.tolist() == who.tolist()
    assert mh.audit.colluders(votes, trusted=[honest, int(np.flatnonzero(~who)[1])]).found.tolist() == who.tolist()


@pytest.mark.parametrize("share", [0.3, 0.6])
def test_who_colludes_may_be_counted_as_one(share):
    """Two classes: the plot is nearly always wrong, which is worth knowing; most workers follow it at 0.6."""
    votes, truth, who, _ = plot(share, n_tasks=400, k=2, per_task=10, seed=2)
    honest = int(np.flatnonzero(~who)[0])
    found = mh.audit.colluders(votes, trusted=honest)
    assert found.found.tolist() == who.tolist()
    counted = mh.metrics.accuracy(mh.categorical.GroupDawidSkene([found.workers]).fit(votes).labels_, truth)
    left_out = mh.metrics.accuracy(mh.DawidSkene().fit(votes.without(found)).labels_, truth)
    assert counted >= left_out > mh.metrics.accuracy(mh.MajorityVote().fit(votes).labels_, truth)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [(500, 30, 3, 10), (300, 100, 2, 5), (600, 40, 5, 6)])
def test_nobody_is_found_where_nobody_colludes(seed, size):
    n, m, k, per_task = size
    votes, *_ = plot(0.0, n, m, k, per_task, seed)
    found = mh.audit.colluders(votes)
    assert not found
    assert not len(found.tasks)


def test_workers_who_hardly_err_have_settled_nothing():
    rng = np.random.default_rng(0)
    skill = rng.uniform(0.985, 1.0, 30)
    confusion = skill[:, None, None] * np.eye(2) + (1 - skill)[:, None, None] * (1 - np.eye(2))
    sizes = {"prior": np.full(2, 0.5), "confusion": confusion, "per_task": (10, 10)}
    _, tasks, workers, labels = _core.simulate(1500, 30, 2, seed=0, **sizes)
    votes = mh.Annotations.from_codes(tasks, workers, labels, n_tasks=1500, n_workers=30, n_classes=2)
    found = mh.audit.colluders(votes)
    assert not found
    assert not found.remarks


def test_a_group_that_does_no_harm_is_not_accused_but_told():
    """They share their errors, but err in three tasks of a hundred."""
    votes, *_ = plot(0.3, wrong=0.03)
    found = mh.audit.colluders(votes)
    assert not found
    assert not len(found.tasks)
    assert any("hardly ever" in remark for remark in found.remarks)


def test_more_than_half_is_not_found_but_told():
    votes, _, who, _ = plot(0.6)
    found = mh.audit.colluders(votes)
    assert not (found.found & who).any()
    assert any("half of them or more" in remark for remark in found.remarks)


def test_reputation_is_what_it_says():
    votes = mh.Annotations.from_dense([[0, 0, 0, 1], [1, 1, 1, 0], [0, 0, 1, 1]])
    found = mh.audit.colluders(votes, method="reputation")
    np.testing.assert_allclose(found.frame()["penalty"].to_numpy(), [7 / 18, 7 / 18, 7 / 18, 5 / 6])
    assert found.workers.tolist() == [3]


def test_a_hard_penalty_is_borne_by_one_and_cannot_be_handed_on():
    """Two say on every task what nobody else says: they bear all of it, eight answers between them."""
    dense = np.tile([[0, 0, 0, 0, 1, 1]], (8, 1))
    found = mh.audit.colluders(mh.Annotations.from_dense(dense), method="reputation", penalty="hard")
    assert found.frame()["penalty"].to_pylist() == [2, 2, 2, 2, 4, 4]
    assert found.workers.tolist() == [4, 5]


def test_loads_as_even_as_they_can_be_accuse_nobody():
    dense = np.array([[0, 1], [0, 1], [1, 0]])
    found = mh.audit.colluders(
        mh.Annotations.from_dense(np.hstack([dense, dense])), method="reputation", penalty="hard"
    )
    assert not found
    assert np.ptp(found.frame()["penalty"].to_numpy()) <= 1


def test_answers_that_nobody_contradicts_are_not_charged():
    """Abstentions, answers without weight and agreement are no contest."""
    dense = [[0, 0, 2], [0, 0, 1], [1, 1, 1]]
    votes = mh.Annotations.from_dense(dense, abstain=[2])
    for penalty in ("soft", "hard"):
        told = mh.audit.colluders(votes, method="reputation", penalty=penalty).frame()["penalty"].to_numpy()
        assert told[2] == 1
        assert told[:2].tolist() == [0.5, 0.5] if penalty == "soft" else sorted(told[:2]) == [0, 1]


@pytest.mark.parametrize(("n", "m", "k", "per_task"), [(30, 12, 2, 4), (40, 25, 4, 3), (60, 8, 3, 5), (25, 40, 2, 3)])
@pytest.mark.parametrize("hard", [False, True])
def test_penalties_match_their_twin(n, m, k, per_task, hard):
    rng = np.random.default_rng(n)
    # Few workers do most of the work, so that loads are far from even at first.
    chances = 1 / np.arange(1, m + 1) / (1 / np.arange(1, m + 1)).sum()
    workers = np.concatenate([rng.choice(m, per_task, replace=False, p=chances) for _ in range(n)])
    tasks, labels = np.repeat(np.arange(n), per_task), rng.integers(0, k, n * per_task)
    votes = mh.Annotations.from_codes(tasks, workers, labels, n_tasks=n, n_workers=m, n_classes=k)
    units, counts = votes.table.answer_penalties(hard=hard)
    twin, twin_counts = audit.answer_penalties(em.Rows.of(votes), hard=hard)
    assert counts.tolist() == twin_counts.tolist()
    if not hard:
        np.testing.assert_allclose(units, twin, atol=1e-12)
        return
    # Of optimal semi-matchings all have the same loads in order, and no worker's differs by more than one.
    assert np.sort(units).tolist() == np.sort(twin).tolist()
    assert np.abs(units - twin).max() <= 1


def test_upper_cluster():
    assert upper(np.array([1.0, 5.0, 1.2, 5.5])).tolist() == [False, True, False, True]
    assert not upper(np.ones(4)).any()
    assert not upper(np.ones(1)).any()


def test_rates_of_agreement_tell_them_too():
    votes, _, who, _ = plot(0.3, n_tasks=400, k=2)
    assert mh.audit.colluders(votes, method="agreement").found.tolist() == who.tolist()
    quiet, *_ = plot(0.0, n_tasks=400, k=2)
    assert not mh.audit.colluders(quiet, method="agreement")


def test_renaming_changes_names_only():
    votes, _, _, _ = plot(0.3, n_tasks=400)
    codes = [column.astype(np.int64) for column in votes.codes()]
    rng = np.random.default_rng(0)
    order = [rng.permutation(n) for n in (400, 30, 3)]
    renamed = [names[column] for names, column in zip(order, codes, strict=True)]
    other = mh.Annotations.from_codes(*renamed, n_tasks=400, n_workers=30, n_classes=3)
    ours, theirs = mh.audit.colluders(votes), mh.audit.colluders(other)
    assert ours.found.any()
    assert ours.found.tolist() == theirs.found[order[1]].tolist()
    assert ours.attacked.tolist() == theirs.attacked[order[0]].tolist()
    # Factors are fitted to 1e-3 of the largest, from another start.
    np.testing.assert_allclose(ours.evidence["agreed"], theirs.evidence["agreed"][order[1]], atol=0.02)


def test_threads_do_not_matter():
    votes, *_ = plot(0.3, n_tasks=300)
    before = mh.get_num_threads()
    frames = []
    try:
        for n in (1, 3):
            mh.set_num_threads(n)
            frames.append(mh.audit.colluders(votes).frame())
    finally:
        mh.set_num_threads(before)
    assert frames[0].equals(frames[1])


def test_a_collusion_survives_pickling():
    votes, *_ = plot(0.3, n_tasks=300)
    found = mh.audit.colluders(votes)
    again = pickle.loads(pickle.dumps(found))
    assert again.workers.tolist() == found.workers.tolist()
    assert again.tasks.tolist() == found.tasks.tolist()
    assert repr(again) == repr(found)


@pytest.mark.parametrize(
    ("votes", "remark"),
    [
        (mh.Annotations.from_dense([[0, 0, 0], [0, 0, 0]]), "only one class"),
        (mh.Annotations.from_dense([[0, 1], [1, 1], [0, 0]]), "Two workers"),
        (mh.Annotations.from_dense([[0, -1, -1], [-1, 1, -1], [-1, -1, 0]]), "No task has labels of two workers"),
    ],
)
def test_what_cannot_be_told_is_said(votes, remark):
    found = mh.audit.colluders(votes)
    assert not found
    assert remark in found.remarks[0]


def test_bad_settings_are_refused():
    votes, *_ = plot(0.0, n_tasks=50)
    with pytest.raises(KeyError, match="'ann'"):
        mh.audit.colluders(votes, trusted="ann")
    with pytest.raises(KeyError, match="trusted"):
        mh.audit.colluders(votes, trusted=[])
    with pytest.raises(ValueError, match="method"):
        mh.audit.colluders(votes, method="guess")
    with pytest.raises(ValueError, match="penalty"):
        mh.audit.colluders(votes, method="reputation", penalty="harsh")
    with pytest.raises(ValueError, match="improbable"):
        mh.audit.colluders(votes, improbable=0.0)
    with pytest.raises(ValueError, match="max_partners"):
        mh.audit.colluders(votes, max_partners=0)
