"""How strongly errors on one task are correlated, and what the default makes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

import manyhands as mh
from manyhands._base import persist
from manyhands.categorical._calibration import CORRELATION, EVEN, discount, information
from manyhands.categorical._passes import expected_counts
from manyhands.testing.compare import assert_close
from manyhands.testing.crowds import STANDARD, Crowd, of_rows
from oracles import bayes, dependence, em


def drawn(
    sizes: tuple[int, int, int],
    per_task: int,
    *,
    shared: float = 0.0,
    accuracy: tuple[float, float] = (0.5, 0.9),
    prior: list[float] | None = None,
    seed: int = 0,
) -> tuple[mh.Annotations, np.ndarray]:
    """Workers whose errors on a task have a Gaussian copula with one factor, and the classes."""
    rng, (n, m, k) = np.random.default_rng(seed), sizes
    truth = rng.choice(k, n, p=prior)
    right = rng.uniform(*accuracy, m)
    tasks = np.repeat(np.arange(n), per_task)
    workers = np.argsort(rng.random((n, m)), axis=1)[:, :per_task].ravel()
    factor = np.sqrt(shared) * rng.normal(size=n)[tasks] + np.sqrt(1 - shared) * rng.normal(size=len(tasks))
    step = np.where(ndtr(factor) > right[workers], rng.integers(1, k, len(tasks)), 0)
    labels = (truth[tasks] + step) % k
    return mh.Annotations.from_codes(tasks, workers, labels, n_tasks=n, n_workers=m, n_classes=k), truth


def stated_and_right(model: mh.Consensus, truth: np.ndarray) -> tuple[float, float]:
    posterior = model.posterior_
    return float(posterior.max(axis=1).mean()), float(np.mean(posterior.argmax(axis=1) == truth))


# ------------------------------------------------------------------------------------------------------- the kernel


def judged(log: Crowd, seed: int) -> tuple[em.Rows, list[np.ndarray]]:
    """Any posteriors, counts that hold them, and a prior."""
    votes = log.votes()
    rows, rng = em.Rows.of(votes), np.random.default_rng(seed)
    posterior = rng.dirichlet(np.full(votes.n_classes, 0.5), votes.n_tasks)
    counts = em.counts_of(rows, posterior) + rng.uniform(0.2, 3.0, (votes.n_classes, votes.n_classes))
    return rows, [posterior, counts, rng.dirichlet(np.ones(votes.n_classes))]


@settings(max_examples=25)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 4), st.integers(1, 30), st.booleans(), st.integers(0, 99))
def test_the_kernel_matches_its_twin(n: int, m: int, k: int, size: int, weighted: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Repeats are among them: a worker's answers to one task are one in the sums over pairs.
    rows = np.stack([rng.integers(0, bound, size) for bound in (n, m, k)], axis=1)
    log = of_rows(rows, rng.choice([0.5, 1.0, 2.0], size) if weighted else None)
    plain, fit = judged(log, seed)
    got = log.votes().table.error_correlation(*fit)
    assert_close(np.array(got), np.array(dependence.error_correlation(plain, *fit)), 1e-7, "correlation and error")


@pytest.mark.parametrize(
    "log", [STANDARD, STANDARD.repeated(), STANDARD.weighted()], ids=["plain", "twice", "weighted"]
)
def test_the_kernel_matches_its_twin_on_a_crowd(log: Crowd) -> None:
    plain, fit = judged(log, 3)
    got = log.votes().table.error_correlation(*fit)
    assert_close(np.array(got), np.array(dependence.error_correlation(plain, *fit)), 1e-7, "correlation and error")


def test_the_kernel_refuses_what_does_not_fit() -> None:
    _, fit = judged(STANDARD, 0)
    for i in range(3):
        wrong = [part[..., :-1].copy() if i == j else part for j, part in enumerate(fit)]
        with pytest.raises(ValueError, match="table"):
            STANDARD.votes().table.error_correlation(*wrong)


# ------------------------------------------------------------------------------------------------------ estimates


@pytest.mark.parametrize("shared", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("n_classes", [2, 4, 8])
def test_the_correlation_of_a_copula_is_recovered(n_classes: int, shared: float) -> None:
    votes, _ = drawn((2000, 50, n_classes), 10, shared=shared, accuracy=(0.6, 0.9), seed=n_classes)
    model = mh.aggregate(votes)
    # The copula is all that is not in the members, who think themselves better than they are where it is strong.
    assert model.correlation_ == pytest.approx(shared, abs=0.04 + 0.25 * shared)
    assert model.correlation_error_ < 0.05
    assert model.discount_ > 0.45


@pytest.mark.parametrize(
    ("sizes", "per_task", "prior"),
    [
        ((1000, 30, 2), 3, None),
        ((1000, 40, 2), 10, None),
        ((2000, 50, 2), 5, [0.9, 0.1]),
        ((1000, 20, 3), 20, [0.6, 0.3, 0.1]),
        ((1500, 100, 4), 5, None),
        ((1500, 40, 10), 4, None),
    ],
)
def test_independent_workers_are_believed(sizes, per_task: int, prior) -> None:
    # Discounted by the constant of real crowds, these state between 5 and 25 points less than is right.
    votes, truth = drawn(sizes, per_task, prior=prior, seed=5)
    model = mh.aggregate(votes)
    assert model.correlation_ < 0.03 + 2.5 * model.correlation_error_
    stated, right = stated_and_right(model, truth)
    assert stated == pytest.approx(right, abs=0.04)
    assert mh.metrics.calibration_error(model.posterior_, truth) < 0.06


def test_a_simulated_crowd_states_what_it_achieves() -> None:
    mix = {"class-conditional": 0.915, "spammers": 0.08, "adversary": 0.005}
    crowd = mh.simulate(20_000, 1000, 5, labels_per_task=5, crowd=mix, seed=0)
    model = mh.aggregate(crowd.log)
    stated, right = stated_and_right(model, crowd.truth)
    assert right > 0.9
    # The constant of real crowds states 0.79 here. Two points are the members' own modesty and the even part.
    assert stated == pytest.approx(right, abs=0.03)


def test_a_part_of_a_large_log_tells_the_correlation() -> None:
    votes, _ = drawn((150_000, 30, 3), 10, shared=0.2, seed=1)
    table, fit = votes.table, mh.categorical.HierarchicalDawidSkene().fit(votes)
    counts = expected_counts(table, fit.posterior_) + fit.crowd_prior_
    correlation, error = table.error_correlation(fit.posterior_, counts, fit.prior_)
    assert correlation == pytest.approx(0.2, abs=0.04)
    assert 0 < error < 0.01


def test_the_discount_follows_the_evidence() -> None:
    assert discount(0.0, 0.001) < 0.04
    assert discount(0.3, 0.02) > 0.99 * CORRELATION
    # Nothing known: the odds of real crowds.
    assert discount(0.0, 1.0) == pytest.approx(0.75 * CORRELATION, abs=0.02)
    rising = [discount(correlation, 0.02) for correlation in np.linspace(0, 0.15, 10)]
    assert (np.diff(rising) > 0).all()
    for correlation, error in [(0.0, 0.0), (0.05, 0.02), (0.8, 0.3), (0.1, 1.0)]:
        assert discount(correlation, error) == pytest.approx(bayes.discount(correlation, error), rel=1e-9)


# ------------------------------------------------------------------------------------------------- the calibration


@pytest.mark.parametrize("shared", [0.0, 0.4])
def test_calibration_changes_no_label(shared: float) -> None:
    votes, _ = drawn((600, 20, 3), 6, shared=shared, seed=2)
    model = mh.aggregate(votes)
    members = [
        mh.categorical.HierarchicalDawidSkene(tol=1e-4).fit(votes),
        mh.categorical.HierarchicalMACE(tol=1e-4).fit(votes),
        mh.categorical.HierarchicalMACE(strength=float("inf"), tol=1e-4).fit(votes),
    ]
    rows = em.Rows.of(votes)
    weight, accuracy = bayes.vote_weight(rows, model.confusion_, model.prior_)
    plain = (1 - weight) * np.mean([member.posterior_ for member in members], axis=0)
    plain += weight * bayes.equal_vote(rows, accuracy, votes.n_classes)
    np.testing.assert_array_equal(model.posterior_.argmax(axis=1), plain.argmax(axis=1))
    np.testing.assert_array_equal(model.labels_, votes.classes[plain.argmax(axis=1)])
    effective = bayes.effective_votes(rows, bayes.information(model.confusion_))
    assert_close(model.posterior_, bayes.calibrated(plain, effective, model.discount_, EVEN), 1e-9, "posterior")


def test_information_is_that_of_even_classes() -> None:
    confusion = np.array([np.eye(3), np.full((3, 3), 1 / 3), [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.0, 0.5, 0.5]]])
    np.testing.assert_allclose(information(confusion), bayes.information(confusion), atol=1e-12)
    assert information(confusion)[0] == pytest.approx(np.log2(3))


@given(st.integers(1, 8), st.integers(1, 5), st.integers(1, 40), st.booleans(), st.integers(0, 99))
def test_effective_votes_match_their_twin(n: int, m: int, size: int, weighted: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = np.stack([rng.integers(0, n, size), rng.integers(0, m, size), np.zeros(size, int)], axis=1)
    votes = of_rows(rows, rng.choice([0.5, 1.0, 2.0], size) if weighted else None).votes()
    informs = rng.choice([0.0, 0.3, 1.0], votes.n_workers)
    got = votes.table.effective_votes(informs)
    assert_close(got, bayes.effective_votes(em.Rows.of(votes), informs), 1e-9, "effective votes")
    alike = votes.table.effective_votes(np.ones(votes.n_workers))
    weights = np.ones(size) if votes.weights is None else votes.weights
    np.testing.assert_allclose(alike, np.bincount(votes.codes()[0], weights))


def test_a_given_correlation_is_used_as_it_is() -> None:
    votes, _ = drawn((200, 20, 3), 6, shared=0.4)
    model = mh.Consensus(correlation=0.2).fit(votes)
    assert (model.correlation_, model.correlation_error_, model.discount_) == (0.2, 0.0, 0.2)
    told = mh.aggregate(votes)
    assert told.discount_ != 0.2
    assert model.posterior_.max(axis=1).mean() > told.posterior_.max(axis=1).mean()


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([(0, 0, 0)], 1.0),
        ([(i, i, i % 2) for i in range(6)], 1.0),
        ([(i, 0, i % 2) for i in range(6)], 1.0),
        ([(0, 0, 0), (0, 0, 1), (1, 0, 0)], 1.0),
        ([(i, j, 0) for i in range(4) for j in range(3)], 1.0),
        ([(0, j, j) for j in range(4)], None),
        ([(i, j, j) for i in range(4) for j in range(2)], None),
    ],
    ids=["one annotation", "one label a task", "one worker", "only repeats", "one class", "one task", "no agreement"],
)
def test_what_a_log_cannot_tell_is_finite(rows: list[tuple[int, int, int]], error: float | None) -> None:
    model = mh.aggregate(of_rows(np.array(rows)).votes())
    assert 0 <= model.correlation_ <= 0.8
    assert 0 <= model.correlation_error_ <= 1
    assert model.discount_ == 1 if model.panel_ else 0 <= model.discount_ <= CORRELATION
    assert np.isfinite(model.posterior_).all()
    if error is not None:
        assert model.correlation_error_ == error


# ------------------------------------------------------------------------------------------------------------ files


def test_what_is_said_of_errors_is_saved(tmp_path: Path) -> None:
    votes, _ = drawn((300, 20, 3), 6, shared=0.3)
    model = mh.aggregate(votes)
    model.save(tmp_path / "model.mh")
    loaded = mh.load(tmp_path / "model.mh")
    for name in ("correlation_", "correlation_error_", "discount_"):
        assert getattr(loaded, name) == getattr(model, name)
    np.testing.assert_array_equal(loaded.predict_proba(votes), model.predict_proba(votes))


def test_what_members_said_is_kept_as_codes(tmp_path: Path) -> None:
    votes, _ = drawn((300, 20, 3), 6)
    model = mh.aggregate(votes)
    model.save(tmp_path / "model.mh")
    content = persist.read(tmp_path / "model.mh")
    codes = content.arrays["fit.answers"]
    assert codes.dtype == np.uint16
    loaded = mh.load(tmp_path / "model.mh")
    np.testing.assert_array_equal(loaded.member_labels_, model.member_labels_)
    for held, told in (
        (codes.astype(float), "'fit.answers'"),
        (codes + np.uint16(3), "codes.*3"),
    ):
        persist.write(tmp_path / "other.mh", content.kind, content.meta, content.arrays | {"fit.answers": held})
        with pytest.raises(mh.errors.FileFormatError, match=told):
            mh.load(tmp_path / "other.mh")
