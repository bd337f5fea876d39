"""Dawid–Skene with priors: variational Bayes, priors learnt from the crowd, and the consensus of such models."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
from categorical_logs import crowds, drawn, even, on_models
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from twins import PARITY, fit_bayes, hierarchy_prior

import manyhands as mh
from manyhands import _core
from manyhands.categorical._calibration import calibrate
from manyhands.testing.compare import assert_close, never_falls
from manyhands.testing.crowds import STANDARD, crowd
from oracles import bayes, em

MODELS = ("full", "class", "one-coin")


# ------------------------------------------------------------------------------------------------ variational Bayes


@settings(max_examples=60, deadline=None)
@given(
    log=crowds(),
    model=st.sampled_from(MODELS),
    init=st.sampled_from(["protected", "majority", "shares"]),
    pseudo=st.sampled_from([0.3, 1.0, (2.0, 1.0), (0.5, 0.5)]),
    known=st.booleans(),
    accelerate=st.booleans(),
)
def test_the_bound_never_falls(log, model, init, pseudo, known, accelerate) -> None:
    gold = {log.tasks[0]: log.classes[0]} if known else None
    fit = mh.BayesianDawidSkene(
        model=model, init=init, pseudo_count=pseudo, gold=gold, accelerate=accelerate, protected=3, max_iter=25, tol=0.0
    ).fit(log.votes())
    assert never_falls(fit.history_), np.diff(fit.history_).min()
    for rows in (fit.posterior_, fit.confusion_, fit.prior_):
        np.testing.assert_allclose(rows.sum(axis=-1), 1.0, atol=1e-9)


@on_models
def test_dirichlet_posteriors_match_the_twin(model: str) -> None:
    votes = STANDARD.votes()
    fit = mh.BayesianDawidSkene(model=model, max_iter=9, protected=4, tol=0.0).fit(votes)
    twin = fit_bayes(fit, votes)
    assert_close(fit.concentration_, twin.concentration, PARITY, "concentration")
    assert_close(fit.class_concentration_, twin.class_concentration, PARITY, "class concentration")
    # Every label and every task is somewhere.
    assert fit.class_concentration_.sum() == pytest.approx(votes.n_tasks + 1)
    prior = 3 * (1 if model == "one-coin" else votes.n_classes)
    np.testing.assert_allclose(fit.concentration_.sum(axis=(1, 2)), votes.labels_per_worker + prior)


def test_the_bound_is_below_the_evidence() -> None:
    # Two tasks, two workers, two classes: all four assignments of classes can be summed up exactly.
    tasks, workers, labels = [0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 1]
    votes = mh.Annotations.from_arrays(tasks, workers, labels)
    fit = mh.BayesianDawidSkene(max_iter=500, tol=1e-12).fit(votes)

    def log_beta(a: np.ndarray) -> float:
        from scipy.special import gammaln

        return float(gammaln(a).sum() - gammaln(a.sum()))

    total = []
    for classes in [(0, 0), (0, 1), (1, 0), (1, 1)]:
        counts = np.zeros((2, 2, 2))
        for task, worker, label in zip(tasks, workers, labels, strict=True):
            counts[worker, classes[task], label] += 1
        prior = np.array([[2.0, 1.0], [1.0, 2.0]])
        log = log_beta(np.bincount(classes, minlength=2) + 0.5) - log_beta(np.full(2, 0.5))
        for worker in range(2):
            log += sum(log_beta(counts[worker, k] + prior[k]) - log_beta(prior[k]) for k in range(2))
        total.append(log)
    evidence = np.logaddexp.reduce(total)
    assert evidence - 1.0 < fit.objective_ < evidence


@on_models
def test_recovers_what_the_data_were_drawn_from(model: str) -> None:
    rng = np.random.default_rng(1)
    k, m = 3, 10
    if model == "full":
        confusion = 0.55 * np.eye(k) + 0.45 * rng.dirichlet(np.ones(k), (m, k))
    else:
        confusion = even(rng.uniform(0.5, 0.95, (m, k if model == "class" else 1)), k)
    sizes, repeats = (300, 1200, 4800), 4
    errors = np.zeros((len(sizes), repeats))
    for i, n_tasks in enumerate(sizes):
        for seed in range(repeats):
            votes, truth = drawn(confusion, n_tasks, 10, seed=seed)
            fit = mh.BayesianDawidSkene(model=model).fit(votes)
            errors[i, seed] = np.sqrt(np.mean((fit.confusion_ - confusion) ** 2))
            assert np.mean(fit.labels_ == truth) > 0.9
    error = errors.mean(axis=1)
    # Four times the tasks halve the error; the last figure is the root mean square over all entries.
    assert all(1.5 < a / b < 2.7 for a, b in pairwise(error)), error
    assert error[-1] < {"full": 0.015, "class": 0.015, "one-coin": 0.006}[model], error


@on_models
def test_intervals_cover_and_narrow(model: str) -> None:
    rng = np.random.default_rng(2)
    confusion = even(rng.uniform(0.6, 0.95, (40, 1)), 3)
    covered, widths = [], []
    for n_tasks in (100, 400):
        votes, _ = drawn(confusion, n_tasks, 20, seed=n_tasks)
        fit = mh.BayesianDawidSkene(model=model).fit(votes)
        low, high = fit.credible_interval("accuracy", level=0.9).T
        # Accuracy under the estimated prior: the truth has the same one for all classes.
        covered.append(np.mean((low <= confusion[:, 0, 0]) & (confusion[:, 0, 0] <= high)))
        widths.append(np.mean(high - low))
        np.testing.assert_array_less(low, np.einsum("k,mkk->m", fit.prior_, fit.confusion_))
    # Forty workers: 0.9 within three standard errors, and a little less for mean-field posteriors.
    assert min(covered) > 0.72, covered
    # Posteriors are wider with fewer labels, as the root of their number.
    assert 1.7 < widths[0] / widths[1] < 2.3, widths


@on_models
def test_intervals_are_beta_marginals(model: str) -> None:
    fit = mh.BayesianDawidSkene(model=model, max_iter=5, tol=0.0).fit(STANDARD.votes())
    prior = fit.credible_interval("prior", level=0.8)
    a = fit.class_concentration_
    np.testing.assert_allclose(prior[:, 0], stats.beta.ppf(0.1, a, a.sum() - a), rtol=1e-9)
    np.testing.assert_allclose(prior[:, 1], stats.beta.ppf(0.9, a, a.sum() - a), rtol=1e-9)
    cells = fit.credible_interval("confusion", level=0.8)
    assert cells.shape == (8, 3, 3, 2)
    assert (cells[..., 0] < fit.confusion_).all()
    assert (fit.confusion_ < cells[..., 1]).all()
    a = fit.concentration_[2]
    if model == "full":
        wanted = stats.beta.ppf(0.9, a[1, 2], a[1].sum() - a[1, 2])
    elif model == "class":
        wanted = stats.beta.ppf(0.9, a[1].sum() - a[1, 1], a[1, 1]) / 2
    else:
        wanted = stats.beta.ppf(0.9, a.sum() - np.trace(a), np.trace(a)) / 2
    assert cells[2, 1, 2, 1] == pytest.approx(wanted, rel=1e-9)
    # Accuracies have the standard errors of workers_frame, which include the uncertainty of the classes.
    low, high = fit.credible_interval("accuracy", level=0.8).T
    frame = fit.workers_frame()
    mean, variance = frame["skill"].to_numpy(), frame["skill_error"].to_numpy() ** 2
    size = mean * (1 - mean) / variance - 1
    wanted = stats.beta.ppf([[0.1], [0.9]], mean * size, (1 - mean) * size)
    small = variance < 0.3 * mean * (1 - mean)
    assert small.any()
    np.testing.assert_allclose(np.stack([low, high])[:, small], wanted[:, small], rtol=1e-6)


def test_intervals_of_one_class_leave_no_doubt() -> None:
    fit = mh.BayesianDawidSkene(max_iter=5, tol=0.0).fit(crowd(n_classes=1).votes())
    for what in ("accuracy", "confusion", "prior"):
        np.testing.assert_array_equal(fit.credible_interval(what), 1.0)


@settings(max_examples=100, deadline=None)
@given(a=st.floats(0.05, 1e5), b=st.floats(0.05, 1e5), p=st.floats(0.001, 0.999))
def test_quantiles_of_beta_distributions(a: float, b: float, p: float) -> None:
    (found,) = _core.beta_quantile(np.array([a]), np.array([b]), p)
    assert stats.beta.cdf(found, a, b) == pytest.approx(p, abs=1e-7) or found == pytest.approx(
        stats.beta.ppf(p, a, b), abs=1e-12
    )


def test_starts_from_others() -> None:
    votes = STANDARD.votes()
    source = mh.MajorityVote().fit(votes)
    fixed = {"max_iter": 6, "tol": 0.0}
    given_posterior = mh.BayesianDawidSkene(init=source.posterior_, **fixed).fit(votes)
    for init in (source, mh.MajorityVote(), "shares"):
        fit = mh.BayesianDawidSkene(init=init, **fixed).fit(votes)
        assert_close(fit.history_, given_posterior.history_, 1e-12, "history")


def test_warns_when_the_limit_comes_first() -> None:
    with pytest.warns(mh.errors.ConvergenceWarning, match="BayesianDawidSkene.*max_iter=2"):
        mh.BayesianDawidSkene(max_iter=2).fit(STANDARD.votes())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mh.BayesianDawidSkene(max_iter=2, tol=0.0).fit(STANDARD.votes())


BAD = {
    "method": (mh.BayesianDawidSkene(method="gibs"), "method must be one of 'vb'"),
    "model": (mh.BayesianDawidSkene(model="two-coin"), "model must be one of"),
    "init": (mh.BayesianDawidSkene(init="nowhere"), "init must be one of 'protected', 'majority', 'shares'"),
    "pseudo-count": (mh.BayesianDawidSkene(pseudo_count=0.0), "pseudo_count .* must be positive"),
    "class pseudo-count": (mh.BayesianDawidSkene(class_pseudo_count=0.0), "class_pseudo_count .* must be positive"),
    "protected": (mh.categorical.HierarchicalDawidSkene(protected=-1), "protected must be at least 0"),
    "passes": (mh.categorical.HierarchicalDawidSkene(max_iter=0), "max_iter must be at least 1"),
    "gold": (mh.categorical.HierarchicalDawidSkene(gold={"t000": "c9"}), "gold gives task 't000' the class 'c9'"),
    "strength": (
        mh.categorical.HierarchicalMACE(strength=0.0),
        "strength must be positive, or None to learn it, not 0.0",
    ),
    "strength NaN": (mh.categorical.HierarchicalMACE(strength=float("nan")), "strength must be positive"),
    "correlation": (mh.Consensus(correlation=1.5), "correlation must be at most 1, not 1.5"),
    "negative correlation": (mh.Consensus(correlation=-0.1), "correlation must be at least 0"),
}


@pytest.mark.parametrize(("model", "message"), BAD.values(), ids=BAD)
def test_bad_parameters_are_named(model, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.fit(STANDARD.votes())
    with pytest.raises(mh.errors.NotFittedError):
        _ = model.labels_


def test_bad_intervals_are_named() -> None:
    fit = mh.BayesianDawidSkene(max_iter=2, tol=0.0).fit(STANDARD.votes())
    with pytest.raises(ValueError, match=r"what.*'accuracy'"):
        fit.credible_interval("skill")
    with pytest.raises(ValueError, match=r"level.*0.*95"):
        fit.credible_interval(level=95)
    with pytest.raises(mh.errors.NotFittedError):
        mh.BayesianDawidSkene().credible_interval()


# ------------------------------------------------------------------------------------------ priors from the crowd


@pytest.mark.parametrize(
    "model",
    [mh.categorical.HierarchicalDawidSkene(), mh.categorical.HierarchicalMACE()],
    ids=lambda m: type(m).__name__,
)
def test_what_is_learnt_matches_the_twin(model) -> None:
    votes = STANDARD.votes()
    model.set_params(max_iter=8, protected=3, tol=0.0).fit(votes)
    prior = hierarchy_prior(model, votes.n_workers, votes.n_classes)
    nobody = np.full(votes.n_tasks, -1)
    bayes.fit_hierarchy(
        em.Rows.of(votes), prior=prior, class_pseudo=1 / 3, gold=nobody, protected=3, max_iter=8, tol=0.0
    )
    if isinstance(prior, bayes.Crowd):
        assert_close(model.crowd_prior_, prior.alpha, PARITY, "crowd prior")
    else:
        assert_close(model.competence_, prior.competence, PARITY, "competence")
        assert_close(model.guesses_, prior.guesses, PARITY, "guesses")
        assert model.strength_ == pytest.approx(prior.strength, rel=PARITY)


def test_the_prior_of_given_counts_matches_the_twin() -> None:
    counts = np.random.default_rng(1).gamma(0.5, 4.0, size=(30, 4, 4))
    counts[3] = 0.0
    with_imaginary = np.concatenate([counts, bayes.imaginary_worker(4)[None]])
    start = np.random.default_rng(2).gamma(1.0, size=(4, 4))
    for begin, first in ((None, bayes.imaginary_worker(4)), (start, start)):
        alpha = first
        for _ in range(5):
            alpha = bayes.fixed_point(alpha, with_imaginary)
        labels_first = np.ascontiguousarray(counts.swapaxes(1, 2))
        given = None if begin is None else np.ascontiguousarray(begin.T)
        assert_close(_core.crowd_prior(labels_first, rounds=5, start=given).T, alpha, PARITY, "crowd prior")


@pytest.mark.parametrize(
    ("counts", "start", "message"),
    [
        (np.ones((2, 3, 2)), None, "counts"),
        (np.ones((2, 0, 0)), None, "at least one class"),
        (np.full((2, 2, 2), np.nan), None, "negative"),
        (np.ones((2, 2, 2)), np.zeros((2, 2)), "positive"),
        (np.ones((2, 2, 2)), np.ones((3, 3)), "start"),
    ],
)
def test_counts_that_cannot_be_are_refused(counts, start, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _core.crowd_prior(counts, rounds=1, start=start)


def test_recovers_the_prior_of_a_crowd() -> None:
    rng = np.random.default_rng(3)
    alpha = np.array([[8.0, 1.0, 1.0], [2.0, 6.0, 1.0], [0.5, 0.5, 4.0]])
    errors = []
    for n_workers in (60, 960):
        confusion = np.stack([rng.dirichlet(row, n_workers) for row in alpha], axis=1)
        votes, truth = drawn(confusion, 12 * n_workers, 5, seed=n_workers)
        fit = mh.categorical.HierarchicalDawidSkene(max_iter=200, tol=1e-9).fit(votes)
        errors.append(np.abs(np.log(fit.crowd_prior_ / alpha)).mean())
        assert np.mean(fit.labels_ == truth) > 0.9
    # Sixteen times the workers would quarter the error, but for what is lost by posterior means of sixty labels each.
    assert errors[1] < 0.15, errors
    assert errors[1] < errors[0] / 2, errors


def test_recovers_who_knows_and_who_guesses() -> None:
    rng = np.random.default_rng(4)
    m, k = 120, 4
    competence = rng.beta(4, 2, m)
    guesses = rng.dirichlet(np.ones(k), m)
    mean = competence[:, None, None] * np.eye(k) + ((1 - competence)[:, None] * guesses)[:, None, :]
    for strength in (5.0, float("inf")):
        rows = mean if np.isinf(strength) else np.array([[rng.dirichlet(strength * r + 1e-9) for r in w] for w in mean])
        votes, truth = drawn(rows, 8000, 6, seed=5)
        fit = mh.categorical.HierarchicalMACE(strength=None if np.isfinite(strength) else strength, max_iter=60).fit(
            votes
        )
        assert np.mean(fit.labels_ == truth) > 0.85
        if np.isinf(strength):
            assert np.corrcoef(fit.competence_, competence)[0, 1] > 0.98
            assert np.abs(fit.competence_ - competence).mean() < 0.03
            assert np.abs(fit.guesses_ - guesses).mean() < 0.05
        else:
            assert fit.strength_ == pytest.approx(strength, rel=0.35)


def test_strength_tells_scatter_from_none() -> None:
    # Rows that follow their mean exactly ask for a strength far above those that scatter widely.
    rng = np.random.default_rng(6)
    competence, guesses = rng.uniform(0.4, 0.9, 50), rng.dirichlet(np.ones(3), 50)
    mean = competence[:, None, None] * np.eye(3) + ((1 - competence)[:, None] * guesses)[:, None, :]
    scattered = np.array([[rng.dirichlet(2 * row + 1e-9) for row in worker] for worker in mean])
    found = [
        mh.categorical.HierarchicalMACE(max_iter=60).fit(drawn(rows, 3000, 5)[0]).strength_
        for rows in (mean, scattered)
    ]
    assert found[0] > 10 * found[1], found


def test_thin_workers_lean_on_the_crowd() -> None:
    # Five labels a worker: maximum likelihood fits noise, a learnt prior does not.
    rng = np.random.default_rng(7)
    confusion = even(rng.uniform(0.5, 0.9, (600, 1)), 6)
    votes, truth = drawn(confusion, 600, 5, seed=7)
    plain = np.mean(mh.DawidSkene(pseudo_count=0.0, max_iter=500).fit(votes).labels_ == truth)
    for model in (mh.categorical.HierarchicalDawidSkene(), mh.categorical.HierarchicalMACE(), mh.Consensus()):
        assert np.mean(model.fit(votes).labels_ == truth) > plain + 0.02


def test_a_protected_start_keeps_rare_classes() -> None:
    # A third class that nobody sees clearly must not swallow half of a frequent one.
    rng = np.random.default_rng(8)
    k, n = 3, 600
    truth = np.where(rng.random(n) < 0.02, 2, rng.integers(0, 2, n))
    tasks = np.repeat(np.arange(n), 2)
    right = rng.random(2 * n) < 0.7
    labels = np.where(right, truth[tasks], rng.integers(0, k, 2 * n))
    votes = mh.Annotations.from_codes(tasks, rng.integers(0, 200, 2 * n), labels, n_tasks=n, n_workers=200, n_classes=k)
    protected = mh.categorical.HierarchicalDawidSkene(protected=20, max_iter=1).fit(votes)
    voted = np.zeros((n, k), bool)
    voted[tasks, labels] = True
    said = protected.posterior_.argmax(axis=1)
    assert voted[np.arange(n), said].mean() > 0.99
    assert np.mean(protected.labels_ == truth) > 0.6


# ------------------------------------------------------------------------------------------------------- consensus


def tempered(posterior: np.ndarray, totals: np.ndarray, correlation: float) -> np.ndarray:
    powers = posterior ** (1 / (1 + correlation * np.maximum(totals - 1, 0)))[:, None]
    return powers / powers.sum(axis=1, keepdims=True)


@given(
    st.integers(1, 3000), st.integers(1, 5), st.integers(1, 4), st.floats(0, 1), st.floats(0, 0.5), st.integers(0, 99)
)
def test_pooling_matches_its_twin(n: int, k: int, members: int, correlation: float, even: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    posteriors = rng.dirichlet(np.full(k, 0.3), (members, n))
    weights, totals = rng.dirichlet(np.ones(members)), rng.uniform(0, 9, n)
    pooled, apart = mh._core.pool_posteriors(list(posteriors), weights, totals, correlation, even)
    mixed = np.tensordot(weights, posteriors, axes=1)
    assert_close(pooled, (1 - even) * tempered(mixed, totals, correlation) + even / k, 1e-12, "posterior")
    wanted = np.tensordot(weights, 0.5 * np.abs(posteriors - mixed).sum(axis=2), axes=1)
    assert_close(apart, wanted, 1e-12, "disagreement")


def test_consensus_is_the_average_of_its_members() -> None:
    votes = STANDARD.votes()
    fit = mh.Consensus(tol=0.0).fit(votes)
    members = [
        mh.categorical.HierarchicalDawidSkene(tol=0.0).fit(votes),
        mh.categorical.HierarchicalMACE(tol=0.0).fit(votes),
        mh.categorical.HierarchicalMACE(strength=float("inf"), tol=0.0).fit(votes),
    ]
    rows = em.Rows.of(votes)
    weight, accuracy = bayes.vote_weight(rows, fit.confusion_, fit.prior_)
    assert 0.05 < weight < 0.95
    assert_close(
        np.array([*fit.member_weights_.values()]), np.array([(1 - weight) / 3] * 3 + [weight]), 1e-12, "weights"
    )
    equal = bayes.equal_vote(rows, accuracy, votes.n_classes)
    posteriors = np.stack([*(member.posterior_ for member in members), equal])
    mixed = np.average(posteriors, axis=0, weights=[*fit.member_weights_.values()])
    effective = bayes.effective_votes(em.Rows.of(votes), bayes.information(fit.confusion_))
    assert_close(fit.posterior_, 0.99 * tempered(mixed, effective, fit.discount_) + 0.01 / 3, 1e-12, "posterior")
    apart = np.average(0.5 * np.abs(posteriors - mixed).sum(axis=2), axis=0, weights=[*fit.member_weights_.values()])
    assert_close(fit.disagreement_, apart, 1e-12, "disagreement")
    assert ((fit.disagreement_ >= 0) & (fit.disagreement_ < 1)).all()
    for said, member in zip(fit.member_labels_, members, strict=False):
        np.testing.assert_array_equal(said, member.labels_)


def test_small_logs_lose_nothing_to_the_vote() -> None:
    gaps, designs = [], [(10, 20, 2, 20), (10, 5, 3, 5), (20, 10, 2, 5), (50, 10, 3, 3)]
    for design in designs:
        for seed in range(40):
            crowd = mh.simulate(*design[:3], labels_per_task=design[3], seed=seed)
            right = [np.mean(model.labels_ == crowd.truth) for model in (mh.aggregate(crowd.log), vote(crowd.log))]
            gaps.append((right[0] - right[1]) * 100)
    # Without the vote in the ensemble it is about a point below.
    assert np.mean(gaps) > -0.3


def vote(log: mh.Annotations) -> mh.MajorityVote:
    return mh.MajorityVote().fit(log)


def test_the_vote_fades_as_workers_answer_more() -> None:
    weights = [
        mh.aggregate(mh.simulate(n, 10, 3, labels_per_task=5, seed=0).log).member_weights_["vote"]
        for n in (10, 40, 800)
    ]
    assert weights == pytest.approx([0.93, 0.5, 0.0025], abs=0.05)


def test_aggregate_is_the_default_consensus() -> None:
    votes = STANDARD.votes()
    fit = mh.aggregate(STANDARD.columns())
    assert isinstance(fit, mh.Consensus)
    np.testing.assert_array_equal(fit.posterior_, mh.Consensus().fit(votes).posterior_)


def test_calibration_changes_no_label_and_lowers_confidence() -> None:
    rng = np.random.default_rng(0)
    posterior, totals = rng.dirichlet(np.ones(4), 200), rng.integers(1, 50, 200).astype(float)
    told = calibrate(posterior, totals, 0.3)
    np.testing.assert_array_equal(told.argmax(axis=1), posterior.argmax(axis=1))
    assert (told.max(axis=1) <= posterior.max(axis=1) + 1e-12).all()
    np.testing.assert_allclose(told[totals == 1], posterior[totals == 1])
    np.testing.assert_allclose(calibrate(posterior, totals, 0.0), posterior)
    assert_close(told, bayes.calibrated(posterior, totals, 0.3), 1e-12, "calibrated")


def test_gold_is_kept_in_the_consensus() -> None:
    votes, truth = drawn(even(np.full((20, 1), 0.6), 3), 200, 4)
    gold = {int(task): int(truth[task]) for task in range(50)}
    fit = mh.aggregate(votes, gold=gold)
    np.testing.assert_array_equal(fit.labels_[:50], truth[:50])
    np.testing.assert_array_equal(fit.posterior_[:50].max(axis=1), 1.0)
    assert fit.posterior_[50:].max() < 1.0
    assert fit.n_gold_ == 50


def test_gold_that_cannot_be_used_is_named() -> None:
    crowd = mh.simulate(60, 6, 3, labels_per_task=4, seed=0)
    truth = crowd.truth.tolist()
    for gold, named in (({999: 0}, "999"), ({0: "zebra"}, "'zebra'"), (([0, 0], [0, 1]), "task 0"), ({}, "gold")):
        with pytest.raises(ValueError, match=named):
            mh.aggregate(crowd.log, gold=gold)
    plain = mh.aggregate(crowd.log)
    with pytest.warns(mh.errors.GoldWarning, match=repr(truth[0])):
        single = mh.aggregate(crowd.log, gold={0: truth[0]})
    np.testing.assert_array_equal(single.posterior_[1:], plain.posterior_[1:])
    assert single.labels_[0] == truth[0]
    with pytest.warns(mh.errors.GoldWarning, match="60 gold tasks"):
        every = mh.aggregate(crowd.log, gold=dict(enumerate(truth)))
    assert every.labels_.tolist() == truth


def lured(share: float) -> tuple[mh.Annotations, np.ndarray]:
    """Some tasks are hard: on those, this share of the workers is drawn to the same wrong class."""
    rng = np.random.default_rng(9)
    n, m, per_task, k = 600, 40, 15, 3
    truth, lure, hard = rng.integers(0, k, n), rng.integers(0, k, n), rng.random(n) < 0.4
    tasks = np.repeat(np.arange(n), per_task)
    drawn = hard[tasks] & (rng.random(n * per_task) < share)
    seen = np.where(drawn, lure[tasks], truth[tasks])
    labels = np.where(rng.random(n * per_task) < 0.7, seen, rng.integers(0, k, n * per_task))
    workers = np.argsort(rng.random((n, m)), axis=1)[:, :per_task].ravel()
    return mh.Annotations.from_codes(tasks, workers, labels, n_tasks=n, n_workers=m, n_classes=k), truth


def test_calibration_helps_where_errors_are_shared() -> None:
    votes, truth = lured(0.5)
    raw, told = (mh.Consensus(correlation=c).fit(votes) for c in (0.0, None))
    np.testing.assert_array_equal(raw.labels_, told.labels_)
    assert mh.metrics.log_loss(told.posterior_, truth) < 0.8 * mh.metrics.log_loss(raw.posterior_, truth)


def test_what_misleads_everybody_takes_known_classes_to_see() -> None:
    # Given the class that they all saw, these workers err independently.
    votes, truth = lured(1.0)
    plain = mh.aggregate(votes)
    assert plain.discount_ < 0.1
    with pytest.warns(mh.errors.GoldWarning, match="100 gold tasks"):
        informed = mh.aggregate(votes, gold={i: int(truth[i]) for i in range(100)})
    before, after = (mh.metrics.log_loss(model.posterior_[100:], truth[100:]) for model in (plain, informed))
    assert after < 0.8 * before


def test_errors_by_one_shift_per_worker_are_near_those_by_class(monkeypatch):
    log = mh.simulate(400, 30, 3, labels_per_task=6, seed=3).log
    by_class = mh.DawidSkene().fit(log).workers_frame()["skill_error"].to_numpy()
    # As for more than 200 workers, and for more than 600.
    for most in (60, 20):
        monkeypatch.setattr("manyhands.categorical._reference._MOST_PARAMETERS", most)
        errors = mh.DawidSkene().fit(log).workers_frame()["skill_error"].to_numpy()
        assert (errors != by_class).all()
        assert 0.8 < np.median(errors / by_class) < 1.25
