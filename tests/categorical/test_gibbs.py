"""Gibbs sampling of Dawid–Skene: that draws come from the posterior, and what chains say about each other."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from categorical_logs import drawn, even, on_models
from scipy import stats
from scipy.special import gammaln

import manyhands as mh
from manyhands.categorical._chains import diagnose
from manyhands.testing.crowds import STANDARD, crowd

# ---------------------------------------------------------------------------------------------- the right posterior


def log_beta(a: np.ndarray) -> float:
    return float(gammaln(a).sum() - gammaln(a.sum()))


def enumerated(rows: np.ndarray, n_tasks: int, n_workers: int, k: int, model: str, gold: dict[int, int] | None = None):
    """Exact class posteriors (N, K) and expected confusion (M, K, K), by summing over all assignments of classes.

    Priors are the defaults: (2, 1) for right and wrong answers, an even Dirichlet distribution of 1 in all for classes.
    """
    logs, posteriors, matrices = [], [], []
    for classes in itertools.product(range(k), repeat=n_tasks):
        if any(classes[task] != known for task, known in (gold or {}).items()):
            continue
        counts = np.zeros((n_workers, k, k))
        for task, worker, label in rows:
            counts[worker, classes[task], label] += 1
        log = log_beta(np.bincount(classes, minlength=k) + 1 / k)
        matrix = np.zeros((n_workers, k, k))
        for worker in range(n_workers):
            right, wrong = np.diag(counts[worker]), counts[worker].sum(axis=1) - np.diag(counts[worker])
            if model == "full":
                posterior = counts[worker] + np.where(np.eye(k), 2, 1 / (k - 1))
                log += sum(log_beta(row) for row in posterior)
                matrix[worker] = posterior / posterior.sum(axis=1, keepdims=True)
                continue
            if model == "one-coin":
                right, wrong = (np.full(k, part.sum()) for part in (right, wrong))
            pairs = np.stack([right + 2, wrong + 1], axis=1)
            log += sum(log_beta(pair) for pair in (pairs[:1] if model == "one-coin" else pairs))
            # Each error is one of k - 1, all alike.
            log -= (counts[worker].sum() - np.trace(counts[worker])) * np.log(k - 1)
            accuracy = pairs[:, 0] / pairs.sum(axis=1)
            matrix[worker] = even(accuracy[None, :], k)[0]
        logs.append(log)
        posteriors.append(np.eye(k)[list(classes)])
        matrices.append(matrix)
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    return np.tensordot(weights, posteriors, axes=1), np.tensordot(weights, matrices, axes=1)


TINY = {
    # Two tasks, two workers, two classes; then three classes, a worker with one label, and a repeated answer.
    "two by two": (np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 1]]), 2, 2, 2),
    "three classes": (np.array([[0, 0, 0], [0, 1, 2], [1, 0, 1], [1, 1, 1], [2, 0, 0], [2, 0, 2], [2, 2, 2]]), 3, 3, 3),
}


@on_models
@pytest.mark.parametrize("table", TINY)
@pytest.mark.parametrize("known", [False, True], ids=["", "gold"])
def test_agrees_with_the_sum_over_all_classes(model: str, table: str, known: bool) -> None:
    rows, *sizes = TINY[table]
    n_tasks, n_workers, k = sizes
    gold = {0: 1} if known else None
    votes = mh.Annotations.from_codes(*rows.T, n_tasks=n_tasks, n_workers=n_workers, n_classes=k)
    fit = mh.BayesianDawidSkene(method="gibbs", model=model, gold=gold, warmup=100, draws=2500, seed=1).fit(votes)
    posterior, confusion = enumerated(rows, n_tasks, n_workers, k, model, gold)
    # Five standard errors of an average over some thousand effective draws of something between 0 and 1.
    size = min(float(np.nanmin(d["ess_bulk"])) for d in fit.diagnostics_.values())
    assert size > 800, size
    np.testing.assert_allclose(fit.posterior_, posterior, atol=5 * 0.5 / np.sqrt(size))
    np.testing.assert_allclose(fit.confusion_, confusion, atol=5 * 0.3 / np.sqrt(size))
    if known:
        np.testing.assert_array_equal(fit.posterior_[0], np.eye(k)[1])


def ranks(model: str, repeats: int, n_draws: int, thin: int) -> np.ndarray:
    """Ranks of parameters that data were drawn with among draws given those data, (repeats, quantities)."""
    rng = np.random.default_rng(7)
    k, m, n = 2, 3, 6
    tasks, workers = (part.ravel() for part in np.mgrid[:n, :m])
    found = []
    for repeat in range(repeats):
        prior = rng.dirichlet(np.full(k, 1 / k))
        accuracy = rng.beta(2, 1, (m, 1 if model == "one-coin" else k))
        confusion = even(accuracy, k)
        truth = (rng.random(n) > prior[0]).astype(int)
        labels = (rng.random(n * m) > confusion[workers, truth[tasks], 0]).astype(int)
        votes = mh.Annotations.from_codes(tasks, workers, labels, n_tasks=n, n_workers=m, n_classes=k)
        sampler = mh.BayesianDawidSkene(
            method="gibbs", model=model, n_chains=1, warmup=30, draws=n_draws * thin, tol=0.0, seed=repeat
        )
        draws = sampler.fit(votes).draws_
        truths = [prior[0], *np.einsum("k,mkk->m", prior, confusion)]
        chains = [draws["prior"][0, ::thin, 0], *draws["accuracy"][0, ::thin].T]
        found.append([(chain < true).sum() for true, chain in zip(truths, chains, strict=True)])
    return np.array(found)


@on_models
def test_calibrated_by_simulation(model: str) -> None:
    # Parameters from the prior, data from the parameters: ranks among draws of the posterior are uniform (Talts et al.
    # 2018). Every eighth sweep, so that draws are nearly independent; 20 possible ranks in 10 bins.
    counted = ranks(model, repeats=200, n_draws=19, thin=8)
    for quantity in counted.T:
        bins = np.bincount(quantity // 2, minlength=10)
        assert stats.chisquare(bins).pvalue > 0.01 / counted.shape[1], bins


@on_models
def test_agrees_with_variational_bayes_on_much_data(model: str) -> None:
    rng = np.random.default_rng(3)
    votes, _ = drawn(even(rng.uniform(0.6, 0.95, (10, 1)), 3), 400, 8)
    fits = [
        mh.BayesianDawidSkene(method=method, model=model, warmup=40, draws=100).fit(votes) for method in ("vb", "gibbs")
    ]
    for name, most in (("confusion_", 0.02), ("prior_", 0.01), ("posterior_", 0.15)):
        np.testing.assert_allclose(getattr(fits[0], name), getattr(fits[1], name), atol=most, err_msg=name)
    assert np.abs(fits[0].posterior_ - fits[1].posterior_).mean() < 0.01
    assert fits[1].converged_


def test_posteriors_are_wider_with_fewer_labels() -> None:
    rng = np.random.default_rng(2)
    confusion = even(rng.uniform(0.6, 0.95, (20, 1)), 3)
    covered, widths = [], []
    for n_tasks in (60, 240):
        votes, _ = drawn(confusion, n_tasks, 10, seed=n_tasks)
        fit = mh.BayesianDawidSkene(method="gibbs", model="one-coin", warmup=50, draws=150).fit(votes)
        low, high = fit.credible_interval("accuracy", level=0.9).T
        covered.append(np.mean((low <= confusion[:, 0, 0]) & (confusion[:, 0, 0] <= high)))
        widths.append(np.mean(high - low))
    # Twenty workers: 0.9 within three standard errors. Widths go as the root of the number of labels.
    assert min(covered) >= 0.7, covered
    assert 1.6 < widths[0] / widths[1] < 2.4, widths


# ------------------------------------------------------------------------------------------------------------ draws


def small(**params: object) -> mh.BayesianDawidSkene:
    # No verdict on so few draws.
    settings = {"method": "gibbs", "n_chains": 3, "warmup": 20, "draws": 40, "tol": 0.0} | params
    return mh.BayesianDawidSkene(**settings)  # type: ignore[arg-type]


@on_models
def test_draws_are_shaped_as_arviz_reads_them(model: str) -> None:
    fit = small(model=model, keep="confusion").fit(STANDARD.votes())
    draws = fit.draws_
    assert {name: values.shape for name, values in draws.items()} == {
        "prior": (3, 40, 3),
        "accuracy": (3, 40, 8),
        "log_density": (3, 40),
        "confusion": (3, 40, 8, 3, 3),
    }
    np.testing.assert_allclose(draws["confusion"].sum(axis=-1), 1)
    accuracy = np.einsum("cdk,cdmkk->cdm", draws["prior"], draws["confusion"])
    np.testing.assert_allclose(draws["accuracy"], accuracy)
    # Averages of expectations and averages of draws differ by noise.
    np.testing.assert_allclose(draws["confusion"].mean(axis=(0, 1)), fit.confusion_, atol=0.08)
    cells = fit.credible_interval("confusion", level=0.5)
    assert cells.shape == (8, 3, 3, 2)
    np.testing.assert_allclose(cells[2, 1, 0, 1], np.quantile(draws["confusion"][:, :, 2, 1, 0], 0.75))


def test_the_log_density_is_that_of_labels_and_parameters() -> None:
    votes = STANDARD.votes()
    draws = small(model="full", keep="confusion", n_chains=1, draws=5).fit(votes).draws_
    tasks, workers, labels = votes.codes()
    pseudo = np.where(np.eye(3), 2.0, 0.5)
    for prior, confusion, found in zip(draws["prior"][0], draws["confusion"][0], draws["log_density"][0], strict=True):
        joint = np.tile(np.log(prior), (votes.n_tasks, 1))
        np.add.at(joint, tasks, np.log(confusion[workers, :, labels]))
        wanted = np.log(np.exp(joint).sum(axis=1)).sum()
        wanted += ((pseudo - 1) * np.log(confusion)).sum() + ((1 / 3 - 1) * np.log(prior)).sum()
        assert found == pytest.approx(wanted, rel=1e-9)


def test_chains_and_seeds_differ() -> None:
    votes = STANDARD.votes()
    a, b = (small(seed=seed).fit(votes).draws_["accuracy"] for seed in (1, 2))
    assert not np.isclose(a, b).any()
    assert not np.isclose(a[0], a[1]).any()


def test_each_method_says_what_only_the_other_finds() -> None:
    votes = STANDARD.votes()
    sampled, varied = small().fit(votes), mh.BayesianDawidSkene(max_iter=3, tol=0.0).fit(votes)
    for fit, names in ((sampled, ("concentration_", "class_concentration_")), (varied, ("draws_", "diagnostics_"))):
        for name in names:
            with pytest.raises(AttributeError, match="method="):
                getattr(fit, name)
    with pytest.raises(ValueError, match="keep='confusion'"):
        sampled.credible_interval("confusion")
    # A model answers as it was fitted, whatever its settings have become; a new fit forgets the old.
    before = sampled.draws_
    sampled.set_params(method="vb", max_iter=3, tol=0.0)
    np.testing.assert_array_equal(sampled.draws_["prior"], before["prior"])
    sampled.fit(votes)
    np.testing.assert_array_equal(sampled.concentration_, varied.concentration_)


def test_saved_draws_come_back(tmp_path) -> None:
    fit = small(keep="confusion").fit(STANDARD.votes())
    fit.save(tmp_path / "model.mh")
    loaded = mh.load(tmp_path / "model.mh")
    for name, values in fit.draws_.items():
        np.testing.assert_array_equal(loaded.draws_[name], values)
    np.testing.assert_array_equal(loaded.credible_interval("accuracy"), fit.credible_interval("accuracy"))


BAD = {
    "n_chains": (small(n_chains=0), "n_chains must be at least 1"),
    "draws": (small(draws=0), "draws must be at least 1"),
    "warmup": (small(warmup=-1), "warmup must be at least 0"),
    "keep": (small(keep="labels"), "keep must be one of 'confusion'"),
}


@pytest.mark.parametrize(("model", "message"), BAD.values(), ids=BAD)
def test_bad_parameters_are_named(model, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.fit(STANDARD.votes())


# ------------------------------------------------------------------------------------------------------ diagnostics


def chains(seed: int, *, n_chains: int = 4, n: int = 200, rho: float = 0.6, shift: float = 0.0) -> np.ndarray:
    """Autoregressive chains, shifted against each other."""
    rng = np.random.default_rng(seed)
    values = np.zeros((n_chains, n))
    noise = rng.normal(size=(n_chains, n))
    for t in range(n):
        values[:, t] = (rho * values[:, t - 1] if t else 0.0) + noise[:, t]
    return values + shift * np.arange(n_chains)[:, None]


CHAINS = {
    "independent": chains(1, rho=0.0),
    "sticky": chains(2, rho=0.9),
    "antithetic": chains(3, rho=-0.5),
    "apart": chains(4, shift=0.7),
    "odd length": chains(5, n=101),
    "one chain": chains(6, n_chains=1),
    "two, ties": np.round(chains(7, n_chains=2)),
    "heavy": np.tan(chains(8, rho=0.3)),
    "short": chains(9, n=12),
}
#: R-hat, bulk and tail effective sample size by ArviZ 0.23.4, which has no R-hat of one chain.
ARVIZ = {
    "independent": (1.0100997206, 834.08590015, 741.25476712),
    "sticky": (1.0627090409, 78.92588201, 172.68394938),
    "antithetic": (0.9974070953, 2322.47198959, 814.10681619),
    "apart": (1.1968893805, 16.19071684, 308.97945467),
    "odd length": (1.0381960521, 98.91617097, 185.51705526),
    "one chain": (None, 43.29348435, 54.04617679),
    "two, ties": (1.0021373579, 107.61316770, 196.14276063),
    "heavy": (1.0037595490, 839.19637208, 901.19184036),
    "short": (1.2804741614, 23.36224813, 39.05735883),
}


@pytest.mark.parametrize("name", CHAINS)
def test_diagnostics_are_those_of_arviz(name: str) -> None:
    found = diagnose(CHAINS[name])
    for measure, figure in zip(("rhat", "ess_bulk", "ess_tail"), ARVIZ[name], strict=True):
        if figure is not None:
            assert float(found[measure]) == pytest.approx(figure, rel=1e-8), measure


def test_diagnostics_of_many_quantities_are_those_of_each() -> None:
    draws = np.stack([chains(seed) for seed in range(6)], axis=-1).reshape(4, 200, 2, 3)
    together = diagnose(draws)
    for name, values in together.items():
        assert values.shape == (2, 3)
        assert values[1, 2] == diagnose(draws[:, :, 1, 2])[name]


def test_nothing_to_diagnose() -> None:
    for draws in (np.ones((4, 50)), np.ones((2, 3))):
        assert all(np.isnan(value) for value in diagnose(draws).values())


def test_warns_where_chains_disagree() -> None:
    # Two workers who always contradict each other: either of them may be the one who is right.
    tasks, workers = (part.ravel() for part in np.mgrid[:200, :2])
    votes = mh.Annotations.from_codes(tasks, workers, (tasks + workers) % 2, n_tasks=200, n_workers=2, n_classes=2)
    model = mh.BayesianDawidSkene(method="gibbs", model="one-coin", n_chains=6, warmup=30, draws=40, init="shares")
    with pytest.warns(mh.errors.ConvergenceWarning, match="chains.*R-hat"):
        model.fit(votes)
    assert not model.converged_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not model.set_params(tol=0.0).fit(votes).converged_


def test_one_class_leaves_no_doubt() -> None:
    fit = small(keep="confusion").fit(crowd(n_classes=1).votes())
    for what in ("accuracy", "confusion", "prior"):
        np.testing.assert_array_equal(fit.credible_interval(what), 1.0)
    assert fit.converged_
