"""Spammers: kernels against their twins, recovery, false alarms, what cannot be told, and bad input."""

import math

import numpy as np
import pytest

import manyhands as mh
from manyhands import _core
from manyhands._base.special import log_gamma
from manyhands.audit.spammers import Knowledge, _dependence, _least_spammers, _mixture
from manyhands.categorical.spammer_eliminating import eliminate
from oracles import audit, em

METHODS = ("score", "covariance")


def drawn(confusion, n_tasks, per_task, seed=0):
    m, k, _ = confusion.shape
    truth, tasks, workers, labels = _core.simulate(
        n_tasks, m, k, prior=np.full(k, 1 / k), confusion=confusion, per_task=(per_task, per_task), seed=seed
    )
    return mh.Annotations.from_codes(tasks, workers, labels, n_tasks=n_tasks, n_workers=m, n_classes=k), truth


def knowing(knows, k, rng):
    """Workers who know the class with a probability, and else answer from shares of their own."""
    guesses = rng.dirichlet(np.full(k, 2.0), len(knows))
    return knows[:, None, None] * np.eye(k) + (1 - knows)[:, None, None] * guesses[:, None, :]


def planted(n_tasks=2000, n_workers=20, k=4, per_task=10, share=0.3, seed=0):
    """A log with spammers, and who they are."""
    rng = np.random.default_rng(seed)
    spam = rng.permutation(n_workers) < round(share * n_workers)
    knows = np.where(spam, 0.0, rng.uniform(0.4, 0.9, n_workers))
    votes, truth = drawn(knowing(knows, k, rng), n_tasks, per_task, seed)
    return votes, truth, spam


# -------------------------------------------------------------------------------------------------------------- kernels


@pytest.mark.parametrize(
    ("width", "rank", "n_workers"), [(1, 2, 5), (3, 3, 8), (2, 1, 70), (3, 2, 9), (4, 3, 9), (5, 4, 9)]
)
def test_low_rank_matches_its_twin(width, rank, n_workers):
    rng = np.random.default_rng(0)
    pairs = np.array([(a, b) for a in range(n_workers) for b in range(a + 1, n_workers) if rng.random() < 0.5])
    pairs = pairs.astype(np.uint32)
    blocks = rng.normal(size=(len(pairs), width, width))
    weights = rng.integers(0, 4, len(pairs)).astype(float)
    start = rng.normal(size=(n_workers, width, rank))
    # Beyond 32 workers several move at a time, which a few sweeps show.
    for sweeps, tol in ((3, 0.0), (60, 1e-3))[: 1 if n_workers > 32 else 2]:
        found = _core.low_rank_fit(pairs, blocks, weights, start, ridge=0.7, max_iter=sweeps, tol=tol)
        factor, n_iter, converged = audit.low_rank_fit(
            pairs, blocks, weights, start, ridge=0.7, max_iter=sweeps, tol=tol
        )
        np.testing.assert_allclose(found["factor"], factor, atol=1e-9)
        assert (found["n_iter"], found["converged"]) == (n_iter, converged)
        rest = _core.low_rank_residuals(pairs, blocks, factor)
        np.testing.assert_allclose(rest, audit.low_rank_residuals(pairs, blocks, factor), atol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ridge": 0.0}, "ridge.*0"),
        ({"ridge": math.nan}, "ridge.*0"),
        ({"weights": np.array([-1.0])}, "weights.*0"),
        ({"weights": np.ones(2)}, "weights.*1 numbers"),
        ({"blocks": np.full((1, 2, 2), np.inf)}, "blocks"),
        ({"blocks": np.full((1, 2, 2), 1e300), "start": np.full((3, 2, 1), 1e-100), "ridge": 1e-200}, "too large"),
        ({"pairs": np.array([[0, 3]], np.uint32)}, "pair"),
        ({"start": np.full((3, 2, 1), np.nan)}, "finite"),
        ({"start": np.zeros((3, 2, 0))}, "factors"),
    ],
)
def test_low_rank_refuses(change, message):
    given = {
        "pairs": np.array([[0, 1]], np.uint32),
        "blocks": np.ones((1, 2, 2)),
        "weights": np.ones(1),
        "start": np.ones((3, 2, 1)),
        "ridge": 1.0,
    } | change
    with pytest.raises(ValueError, match=message):
        _core.low_rank_fit(**given, max_iter=3, tol=0.0)


@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_sums_match_their_twin(weighted):
    votes, _, _ = planted(60, 7, 3, 4)
    if weighted:
        rng = np.random.default_rng(1)
        sizes = {"n_tasks": 60, "n_workers": 7, "n_classes": 3}
        votes = mh.Annotations.from_codes(*votes.codes(), weights=rng.uniform(0.2, 2, len(votes)), **sizes)
    fit = mh.DawidSkene().fit(votes)
    found = votes.table.leave_one_out_sums(fit.posterior_, fit.confusion_)
    expected = audit.leave_one_out_sums(em.Rows.of(votes), fit.posterior_, fit.confusion_)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_knowledge_matches_its_twin():
    votes, _, _ = planted(80, 6, 3, 4)
    fit = mh.DawidSkene().fit(votes)
    known = Knowledge.of(*votes.table.leave_one_out_sums(fit.posterior_, fit.confusion_))
    twin = audit.knowledge(em.Rows.of(votes), fit.posterior_, fit.confusion_)
    for ours, theirs in zip((known.knows, known.error, known.skew, known.curvature), twin.T, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    share = np.array([[-0.5, 0.0, 0.3, 1.0]])
    bent = 1 + known.skew[:, None] * share - known.curvature[:, None] * share**2
    np.testing.assert_allclose(known.variance(share), known.error[:, None] ** 2 * np.maximum(bent, 0.2))


def test_the_fewest_spammers_that_answers_do_not_refute():
    """A held share is held, makes nothing more likely, and is the least that is not refuted, or nearly."""
    rng = np.random.default_rng(0)
    points = np.concatenate([-np.linspace(1, 0.2, 9), [0.0], np.linspace(0.2, 1, 33)])
    knows = np.where(rng.random(150) < 0.4, 0.0, rng.uniform(0.2, 0.9, 150)) + rng.normal(0, 0.15, 150)
    likelihood = np.exp(-0.5 * ((knows[:, None] - points) / 0.15) ** 2)
    even = np.full(len(points), 1 / len(points))
    best, told = _mixture(likelihood, even, None)
    twin, twin_told = audit.mixture(likelihood, even, None)
    np.testing.assert_allclose(best, twin, atol=1e-9)
    assert told == pytest.approx(twin_told)
    held, less = _mixture(likelihood, best, best[9] / 2)
    assert held[9] == best[9] / 2
    assert held.sum() == pytest.approx(1)
    assert less < told
    least = _least_spammers(likelihood)
    assert 0 < least[9] < best[9]
    assert told - _mixture(likelihood, least, least[9])[1] < 1.4
    assert told - _mixture(likelihood, least, least[9] - 0.05)[1] > 1.3


def test_elimination_matches_its_twin():
    rng = np.random.default_rng(0)
    counts = rng.gamma(1.0, 5.0, (6, 3, 3))
    counts[0] = 0.0
    counts[1] = np.outer([20.0, 30.0, 10.0], [0.2, 0.5, 0.3])
    pseudo = np.full((3, 3), 0.5) + 1.5 * np.eye(3)
    for ours, theirs in zip(eliminate(counts, pseudo, 0.2), audit.eliminate(counts, pseudo, 0.2), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)
    x = np.concatenate([np.geomspace(1e-6, 1e12, 200), [1.0, 2.0, 8.0]])
    np.testing.assert_allclose(log_gamma(x), [math.lgamma(v) for v in x], rtol=1e-12, atol=1e-11)


# ------------------------------------------------------------------------------------------------------------- recovery


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("share", [0.2, 0.5])
def test_spammers_are_found(method, share):
    votes, _, spam = planted(share=share)
    found = mh.audit.spammers(votes, method=method)
    assert found.found.tolist() == spam.tolist()
    assert votes.without(found).n_workers == (~spam).sum()
    frame = found.frame()
    assert frame.num_rows == votes.n_workers
    assert frame["n_answers"].to_pylist() == votes.labels_per_worker.tolist()


def test_knowledge_is_estimated_with_its_error():
    rng = np.random.default_rng(3)
    knows = rng.uniform(0.0, 0.9, 60)
    votes, _ = drawn(knowing(knows, 3, rng), 3000, 6)
    frame = mh.audit.spammers(votes).frame()
    z = (frame["knows"].to_numpy() - knows) / frame["knows_error"].to_numpy()
    # Standard normal, or nearly: the mean of 60 has an error of 0.13, the spread one of 0.09.
    assert abs(z.mean()) < 0.5
    assert 0.7 < z.std() < 1.5


@pytest.mark.parametrize("size", [(1000, 100, 2, 3), (1000, 200, 4, 5), (400, 100, 3, 5)])
def test_false_alarms_are_rare_where_nobody_is_a_spammer(size):
    n, m, k, per_task = size
    found = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        votes, _ = drawn(knowing(rng.uniform(0.2, 0.9, m), k, rng), n, per_task, seed)
        found += len(mh.audit.spammers(votes, false_alarms=0.05))
    assert found <= 0.05 * 3 * m


def test_who_is_found_is_rarely_none():
    """Few labels a worker, a third of them spammers, others who know little: the hardest case for the rate."""
    found = wrong = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        spam = rng.random(400) < 0.3
        votes, _ = drawn(knowing(np.where(spam, 0.0, rng.uniform(0.2, 0.9, 400)), 4, rng), 2000, 5, seed)
        mask = mh.audit.spammers(votes, false_alarms=0.1).found
        found, wrong = found + mask.sum(), wrong + (mask & ~spam).sum()
    assert found > 40
    # Twice the standard error beyond what was asked.
    assert wrong <= 0.1 * found + 2 * math.sqrt(0.09 * found)


def test_one_cluster_is_not_cut_in_two():
    rng = np.random.default_rng(0)
    votes, _ = drawn(knowing(rng.uniform(0.6, 0.8, 20), 4, rng), 3000, 20)
    found = mh.audit.spammers(votes, method="covariance")
    assert not found
    assert "No worker is flagged" in found.remarks[0]


@pytest.mark.parametrize("method", METHODS)
def test_one_spammer_among_equals_is_found(method):
    """The others' rows are further apart than this one is from them, but of one length."""
    rng = np.random.default_rng(1)
    confusion = 0.4 * np.eye(4) + 0.6 * rng.dirichlet(np.ones(4), (20, 4))
    confusion[7] = rng.dirichlet(np.ones(4))
    votes, _ = drawn(confusion, 4000, 20)
    assert mh.audit.spammers(votes, method=method).workers.tolist() == [7]


def test_a_consistent_swapper_is_no_spammer():
    confusion = np.stack([0.8 * np.eye(3) + 0.2 / 3] * 9 + [np.roll(np.eye(3), 1, axis=1) * 0.9 + 0.1 / 3])
    votes, _ = drawn(confusion, 1500, 6)
    assert not mh.audit.spammers(votes)


def test_elimination_names_spammers_and_ignores_them():
    votes, truth, spam = planted(1500, 20, 3, 8, share=0.5, seed=2)
    model = mh.categorical.SpammerEliminatingDawidSkene().fit(votes)
    assert model.spammers_.tolist() == np.flatnonzero(spam).tolist()
    told = mh.metrics.accuracy(model.labels_, truth)
    assert told > mh.metrics.accuracy(mh.MajorityVote().fit(votes).labels_, truth) + 0.05
    assert told > mh.metrics.accuracy(mh.DawidSkene().fit(votes).labels_, truth) - 0.01
    assert np.ptp(model.confusion_[spam], axis=1).max() < 0.01


# ----------------------------------------------------------------------------------------------------------- properties


@pytest.mark.parametrize("method", METHODS)
def test_renaming_changes_names_only(method):
    votes, _, _ = planted(600, 15, 3, 6)
    tasks, workers, labels = (codes.astype(np.int64) for codes in votes.codes())
    rng = np.random.default_rng(0)
    order = [rng.permutation(n) for n in (600, 15, 3)]
    other = mh.Annotations.from_codes(
        order[0][tasks], order[1][workers], order[2][labels], n_tasks=600, n_workers=15, n_classes=3
    )
    ours, theirs = (mh.audit.spammers(one, method=method) for one in (votes, other))
    assert ours.found.tolist() == theirs.found[order[1]].tolist()
    for name in set(ours.evidence) - {"n_answers"}:
        # Factors are found to 1e-5 of the largest from another start.
        np.testing.assert_allclose(ours.evidence[name], theirs.evidence[name][order[1]], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_threads_do_not_matter(method):
    votes, _, _ = planted(500, 40, 3, 5)
    before = mh.get_num_threads()
    frames = []
    try:
        for n in (1, 3):
            mh.set_num_threads(n)
            frames.append(mh.audit.spammers(votes, method=method).frame())
    finally:
        mh.set_num_threads(before)
    assert frames[0].equals(frames[1])


# ------------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("votes", "remark"),
    [
        (mh.Annotations.from_dense([[0, 0, 0], [0, 0, 0]]), "only one class"),
        (mh.Annotations.from_dense([[0, 1], [1, 1], [0, 0]]), "Two workers"),
        (mh.Annotations.from_dense([[0, -1, -1], [-1, 1, -1], [-1, -1, 0]]), "No task has labels of two workers"),
    ],
)
def test_what_cannot_be_told_is_said(method, votes, remark):
    found = mh.audit.spammers(votes, method=method)
    assert not found
    assert remark in found.remarks[0]
    assert found.frame().num_rows == votes.n_workers
    assert votes.without(found) == votes


def test_nothing_is_remarked_where_all_is_told():
    votes, _, spam = planted(1500, 12, 3, 8)
    found = mh.audit.spammers(votes)
    assert found.found.tolist() == spam.tolist()
    assert found.remarks == ()


@pytest.mark.parametrize("method", METHODS)
def test_who_said_nothing_has_no_evidence(method):
    votes, _, _ = planted(600, 15, 3, 6)
    silent = mh.Annotations.from_codes(*votes.codes(), n_tasks=600, n_workers=16, n_classes=3)
    found = mh.audit.spammers(silent, method=method)
    assert not found.found[15]
    measured = {name for name, values in found.evidence.items() if values.dtype == np.float64} - {"dependence"}
    assert all(np.isnan(found.evidence[name][15]) for name in measured)
    # Two who answered are two, whoever else is named.
    two = mh.Annotations.from_codes([0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 1], n_tasks=2, n_workers=3, n_classes=2)
    assert "Two workers" in mh.audit.spammers(two, method=method).remarks[0]


def test_few_answers_tell_nothing():
    votes, _, _ = planted(40, 40, 2, 4)
    found = mh.audit.spammers(votes)
    assert not found
    assert "2 workers" in found.remarks[0]


@pytest.mark.parametrize(
    "given",
    [
        {"method": "guess"},
        {"false_alarms": 0.0},
        {"false_alarms": 1.0},
        {"false_alarms": "few"},
        {"least": 0.0},
        {"least": 1.5},
        {"ridge": 0.0},
        {"max_partners": 0},
        {"seed": -1},
    ],
)
def test_settings_are_checked(given):
    with pytest.raises((TypeError, ValueError), match=next(iter(given))):
        mh.audit.spammers(planted(30, 5, 2, 3)[0], **given)


def test_anything_but_answers_is_refused():
    with pytest.raises(TypeError, match="Annotations"):
        mh.audit.spammers(3)


# ------------------------------------------------------------------------------------------------------------ real data


def real(folder, name):
    import pandas as pd

    frames = [
        pd.read_csv(folder / name / f"{stem}.csv", dtype=str, keep_default_na=False) for stem in ("labels", "gold")
    ]
    votes = mh.Annotations.from_frame(frames[0], task="task", worker="worker", label="label")
    return votes, dict(zip(frames[1]["task"], frames[1]["label"], strict=True))


def right(model, votes, gold):
    labels = dict(zip(map(str, votes.tasks.tolist()), map(str, model.fit(votes).labels_.tolist()), strict=True))
    return sum(labels.get(task) == label for task, label in gold.items()) / len(gold)


@pytest.mark.parametrize(
    ("name", "pruned", "vote", "em_"),
    [("bluebird", (22, 22), (0.851, 0.853), (0.897, 0.899)), ("dog", (40, 60), (0.819, 1), (0.834, 1)),
     ("web", (140, 170), (0.84, 1), (0.88, 1))],
)  # fmt: skip
def test_accuracy_without_spammers(shared_data, name, pruned, vote, em_):
    votes, gold = real(shared_data, name)
    found = mh.audit.spammers(votes, method="covariance")
    rest = votes.without(found)
    assert pruned[0] <= len(found) <= pruned[1]
    assert vote[0] <= right(mh.MajorityVote(), rest, gold) <= vote[1]
    assert em_[0] <= right(mh.DawidSkene(pseudo_count=1e-6), rest, gold) <= em_[1]


def test_what_depends_on_the_class_is_measured_cell_by_cell():
    """Differences of a 2 x 2 table from independence, by the hypergeometric variance with n for n - 1."""
    cross = np.array([[[120.0, 40.0], [60.0, 80.0]]])
    n, said, true = cross.sum(), cross.sum(axis=(0, 1)), cross.sum(axis=(0, 2))
    wanted = (120 - said[0] * true[0] / n) / np.sqrt(true[0] * true[1] * said[0] * said[1] / n**3)
    found, limit = _dependence(cross, squares=true[None])
    np.testing.assert_allclose(found, [wanted])
    assert wanted > limit > 1


def test_a_share_of_false_alarms_is_suggested():
    with pytest.raises(ValueError, match=r"false_alarms .*0\.05"):
        mh.audit.spammers(mh.simulate(20, 5, 2, seed=1).log, false_alarms=1.0)
