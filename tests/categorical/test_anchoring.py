"""Known classes correct the default, skills hold what they state, and panels are recognized."""

import math
import warnings

import numpy as np
import pytest
from scipy.stats import beta
from shard_logs import write_shards

import manyhands as mh
from manyhands.categorical import anchoring
from manyhands.categorical.panels import Agreement


def panel(seed, n=600, m=8, skilled=0.72, shared=0.6):
    """Judges who copy one shared answer with probability `shared`, and otherwise answer by themselves."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n)

    def answers(size):
        right = rng.random(size) < skilled
        wrong = (np.broadcast_to(truth.reshape(-1, *[1] * (len(size) - 1)), size) + rng.integers(1, 3, size)) % 3
        return np.where(right, truth.reshape(-1, *[1] * (len(size) - 1)), wrong)

    lure, own = answers((n,)), answers((n, m))
    labels = np.where(rng.random((n, m)) < shared, lure[:, None], own)
    labels[:, -1] = np.where(rng.random(n) < 0.85, truth, (truth + 1) % 3)
    tasks, workers = (part.ravel() for part in np.indices((n, m)))
    votes = mh.Annotations.from_codes(tasks, workers, labels.ravel(), n_tasks=n, n_workers=m, n_classes=3)
    return votes, truth, (labels == truth[:, None]).mean(axis=0)


def fit(votes, gold=None, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mh.errors.GoldWarning)
        return mh.Consensus(gold=gold, **settings).fit(votes)


def test_known_classes_correct_a_panel_and_its_skills():
    gains, within, calibration = [], [], []
    for seed in range(3):
        votes, truth, shares = panel(seed)
        plain, model = fit(votes), fit(votes, (np.arange(100), truth[:100]))
        rest = slice(100, None)
        gains.append(((model.labels_ == truth)[rest].mean() - (plain.labels_ == truth)[rest].mean()) * 100)
        calibration.append(model.confidence_[rest].mean() - (model.labels_ == truth)[rest].mean())
        for one in (plain, model):
            frame = one.workers_frame()
            off = np.abs(frame["skill"].to_numpy() - shares) / frame["skill_error"].to_numpy()
            within.append((off <= 2).mean())
        assert plain.panel_
        assert model.workers_frame()["n_gold"].to_pylist() == [100] * 8
    assert np.mean(gains) > 5
    assert np.mean(within) >= 0.9
    assert abs(np.mean(calibration)) < 0.05


def test_known_classes_of_independent_workers_do_no_harm():
    changes = []
    for seed in range(6):
        crowd = mh.simulate(300, 20, 3, labels_per_task=5, seed=seed)
        plain = fit(crowd.log).labels_ == crowd.truth
        for n in (2, 5, 20, 80):
            model = fit(crowd.log, (np.arange(n), crowd.truth[:n]))
            changes.append(100 * ((model.labels_ == crowd.truth)[n:].mean() - plain[n:].mean()))
    assert np.mean(changes) > -0.2
    assert min(changes) > -2.5


COUNTS = np.array([[[4.0, 1.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 5.0]], [[0.0, 0.0], [0.0, 0.0]]])


def test_agreement_with_the_posterior_leaves_out_known_tasks():
    agreement = Agreement.of(COUNTS, None)
    np.testing.assert_allclose(agreement.share, [6 / 8, 6 / 10, 12 / 18])  # the last worker has no labels
    assert agreement.n_labels.tolist() == [8, 10, 0]
    skills = anchoring.KnownSkills(np.array([2.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0]))
    np.testing.assert_allclose(Agreement.of(COUNTS, skills).share, [5 / 6, 6 / 10, 11 / 16])


@pytest.mark.parametrize("skill_error", [0.4, 0.05, 0.001])  # least, usual, and most pseudo-counts
@pytest.mark.parametrize("dependent", [0.0, 0.5])
def test_skills_of_dependent_workers_by_hand(skill_error, dependent):
    skills = anchoring.KnownSkills(np.array([5.0, 0.0, 0.0]), np.array([3.0, 0.0, 0.0]))
    agreement = Agreement(np.array([0.81, 0.7, 0.6]), np.array([30.0, 30.0, 30.0]), skills)
    errors = np.full(3, skill_error)
    worth = mh.metrics.Worth(np.array([0.8, 0.75, 0.5]), errors, np.full(3, 0.3), errors, np.full(3, 0.4), errors)
    result = agreement.skills(worth, dependent)
    mixed = max(dependent, 5 / anchoring.FULL_AT)
    for at in range(3):
        distance = agreement.share[at] - worth.skill[at]
        mean = worth.skill[at] + mixed * distance
        error = math.hypot(skill_error, 0.5 * mixed * distance, 0.07 * dependent)
        if at == 0:
            strength = min(max(mean * (1 - mean) / error**2 - 1, 2), 500)
            updated = beta(strength * mean + 3, strength * (1 - mean) + 2)
            mean, error = updated.mean(), updated.std()
        assert result.skill[at] == pytest.approx(mean)
        assert result.skill_error[at] == pytest.approx(error)
        assert result.information_error[at] == pytest.approx(max(error, skill_error))
        assert result.capacity_error[at] == pytest.approx(max(error, skill_error))


def known_of(seed, n=40, m=5, k=3):
    rng = np.random.default_rng(seed)
    row, worker = (part.ravel() for part in np.indices((n, m)))
    keep = rng.random(n * m) < 0.7
    code = worker * k + rng.integers(0, k, n * m)
    classes = rng.integers(0, k, n)
    votes = anchoring.KnownVotes(row[keep], code[keep], rng.uniform(0.5, 2.0, keep.sum()), classes, m, k)
    return votes, rng.normal(size=(n, k))


def test_votes_on_some_of_the_known_tasks_are_theirs():
    votes, _ = known_of(4)
    tasks = np.array([17, 0, 3])
    part = votes.some(tasks)
    assert part.classes.tolist() == votes.classes[tasks].tolist()
    for place, task in enumerate(tasks):
        here, there = part.row == place, votes.row == task
        assert here.any()
        assert part.code[here].tolist() == votes.code[there].tolist()
        assert part.weight[here].tolist() == votes.weight[there].tolist()


def test_votes_on_known_tasks_are_collected_from_shards(tmp_path):
    crowd = mh.simulate(60, 7, 3, labels_per_task=4, seed=5)
    tasks = np.array([0, 3, 19, 20, 21, 58, 59])
    whole = anchoring.known_votes(crowd.log.table, tasks, crowd.truth[tasks])
    shards = write_shards(crowd.log, tmp_path / "shards", n_shards=5)
    parts = anchoring.known_votes(shards.passes, tasks, crowd.truth[tasks])
    for name in ("row", "code", "weight", "classes"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
    assert (parts.n_workers, parts.n_classes) == (7, 3)


def loss(known, z, scales, correction):
    """The penalized log-loss of a correction, one vote at a time."""
    k, total = known.n_classes, 0.0
    scores = correction.slope * z + correction.intercepts
    for row, code, weight in zip(known.row, known.code, known.weight, strict=True):
        scores[row] += weight * correction.evidence[np.searchsorted(correction.active, code)]
    for row, y in enumerate(known.classes):
        total -= scores[row, y] - np.log(np.exp(scores[row]).sum())
    own = np.zeros_like(correction.evidence)
    for place, code in enumerate(correction.active):
        own[place, code % k] = correction.trust[np.searchsorted(correction.workers, code // k)]
    parts = ((correction.slope - 1.0), correction.intercepts, correction.trust, correction.evidence - own)
    return total + 0.5 * sum(float((np.asarray(x) ** 2).sum()) / s**2 for x, s in zip(parts, scales, strict=True))


def test_the_correction_is_the_minimum_of_its_objective():
    from dataclasses import replace

    gold_votes, z = known_of(0)
    scales = (0.3, 0.5, 0.3, 0.3)
    best = anchoring.fit_correction(gold_votes, z, scales)
    least = loss(gold_votes, z, scales, best)
    rng = np.random.default_rng(1)
    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(20):
            neighbor = replace(
                best,
                slope=best.slope + size * rng.normal(),
                intercepts=best.intercepts + size * rng.normal(size=3),
                evidence=best.evidence + size * rng.normal(size=best.evidence.shape),
                trust=best.trust + size * rng.normal(size=best.trust.shape),
            )
            assert loss(gold_votes, z, scales, neighbor) > least


def test_corrected_posteriors_match_sums_over_votes():
    votes, truth, _ = panel(5, n=80)
    default = fit(votes, panel=True).posterior_
    tasks = np.arange(40)
    gold_votes = anchoring.known_votes(votes.passes, tasks, truth[:40])
    anchor = anchoring.fit_anchor(gold_votes, default[:40], np.full(3, 1 / 3), 1.0)
    every = anchoring.known_votes(votes.passes, np.arange(80), truth)
    by_hand = np.tensordot(anchor.weights, anchor.of_known(every, default), 1)
    posterior = anchor.posterior(votes.table, default, anchoring.n_votes(votes.table))
    np.testing.assert_allclose(posterior, by_hand / by_hand.sum(axis=1, keepdims=True), rtol=1e-9, atol=1e-12)


def test_skills_of_independent_workers_are_hardly_less_certain():
    wider = []
    for design in ((300, 6, 2, 6), (300, 10, 3, 5), (500, 20, 3, 4), (300, 20, 2, 5)):
        for seed in range(4):
            crowd = mh.simulate(*design[:3], labels_per_task=design[3], seed=seed)
            errors = [fit(crowd.log, correlation=c).workers_frame()["skill_error"].to_numpy() for c in (None, 0)]
            wider.append((errors[0] / errors[1]).mean())
    assert 1.0 <= np.mean(wider) <= 1.1


def test_six_independent_workers_are_no_panel_and_three_may_be_one():
    shares = {m: [fit(mh.simulate(400, m, 2, labels_per_task=m, seed=s).log).panel_ for s in range(8)] for m in (3, 6)}
    assert np.mean(shares[6]) <= 0.25 < np.mean(shares[3])
    assert all(fit(panel(seed)[0]).panel_ for seed in range(3))
    votes = panel(0)[0]
    declared, denied = (fit(votes, panel=one) for one in (True, False))
    assert declared.discount_ == 1.0 > denied.discount_
    assert "panel=False" in declared.assumption_
    assert "panel=True" in denied.assumption_
    assert declared.confidence_.mean() < denied.confidence_.mean()
    np.testing.assert_array_equal(declared.labels_, denied.labels_)


def test_gold_that_contradicts_the_crowd_is_reported():
    votes, truth, _ = panel(1, shared=0.9, skilled=0.5)
    with pytest.warns(mh.errors.GoldWarning, match="contradict the estimates from unlabeled data"):
        mh.Consensus(gold=(np.arange(100), truth[:100]), panel=False).fit(votes)
    crowd = mh.simulate(400, 12, 3, labels_per_task=5, seed=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", mh.errors.GoldWarning)
        mh.Consensus(gold=(np.arange(60), crowd.truth[:60])).fit(crowd.log)
