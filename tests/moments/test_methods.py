"""Methods of moments: exact on exact moments, better with more data, and honest where the data do not suffice."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import manyhands as mh
from manyhands import _core
from manyhands.moments import Moments, compute
from manyhands.moments.multi_spa import MomentAggregator
from manyhands.moments.spectral import _impute
from oracles import em

#: Exact moments leave rounding only.
EXACT = 1e-10
#: An iteration on exact moments must come this close.
CLOSE = 1e-6

#: Every method, with settings that let it converge on exact moments.
TO_THE_END: dict[str, MomentAggregator] = {
    "MultiSPA": mh.moments.MultiSPA(),
    "CoupledNMF": mh.moments.CoupledNMF(tol=1e-16, max_iter=3000),
    "SymmetricNMF": mh.moments.SymmetricNMF(impute=500, max_iter=5000, tol=0.0),
    "CoupledCPD": mh.moments.CoupledCPD(tol=1e-14, max_iter=1000),
}
METHODS = [*(type(model) for model in TO_THE_END.values()), mh.moments.SpectralDS]


def separable(n_workers: int, k: int, seed: int) -> np.ndarray:
    """Confusion matrices of which the first K belong to class specialists: one answer for one class alone."""
    rng = np.random.default_rng(seed)
    confusion = 0.5 * rng.dirichlet(np.ones(k), (n_workers, k)) + 0.5 * np.eye(k)
    for own in range(k):
        confusion[own, :, own] = 0.0
        confusion[own, own, own] = 0.8
    return confusion / confusion.sum(axis=2, keepdims=True)


def quiet_fit(model: Any, votes: mh.Annotations) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mh.errors.IdentifiabilityWarning)
        return model.fit(votes)


def order_of(model: Any) -> int:
    return 3 if isinstance(model, mh.moments.CoupledCPD) else 2


# -------------------------------------------------------------------------------------------- exact moments


@pytest.mark.parametrize("k", [2, 3, 7])
def test_multi_spa_is_exact_on_separable_moments(k: int) -> None:
    confusion = separable(k + 4, k, seed=k)
    prior = np.random.default_rng(k).dirichlet(np.full(k, 5.0))
    for refine in (0, 3):
        found_prior, found = mh.moments.MultiSPA(refine=refine).factorise(Moments.exact(prior, confusion))
        np.testing.assert_allclose(found, confusion, atol=EXACT)
        np.testing.assert_allclose(found_prior, prior, atol=EXACT)


@pytest.mark.parametrize("name", TO_THE_END)
def test_exact_moments_of_part_of_the_pairs(name: str) -> None:
    """Pairs on a circle with chords: workers are reached one from another."""
    model, m, k = TO_THE_END[name], 12, 3
    confusion, prior = separable(m, k, seed=1), np.array([0.5, 0.3, 0.2])
    pairs = np.array([(i, j) for i in range(m) for j in range(i + 1, m) if (j - i) % m in (1, 2, 3, m - 1, m - 2)])
    triples = np.array([(i, i + 1, i + 2) for i in range(m - 2)])
    more = {"triples": triples} if order_of(model) == 3 else {}
    moments = Moments.exact(prior, confusion, pairs=pairs, order=order_of(model), **more)
    found_prior, found = model.factorise(moments)
    np.testing.assert_allclose(found, confusion, atol=CLOSE)
    np.testing.assert_allclose(found_prior, prior, atol=CLOSE)


def test_triples_need_no_specialists() -> None:
    """Full rank is enough for third moments; successive projection alone is off where nobody is a specialist."""
    rng = np.random.default_rng(3)
    confusion = 0.5 * rng.dirichlet(np.full(3, 2.0), (8, 3)) + 0.5 * np.array([np.eye(3) * 0.6 + 0.4 / 3] * 8)
    prior = np.array([0.5, 0.3, 0.2])
    _, by_pairs = mh.moments.MultiSPA(refine=0).factorise(Moments.exact(prior, confusion))
    assert np.abs(by_pairs - confusion).max() > 0.01
    model = mh.moments.CoupledCPD(tol=0.0, max_iter=3000)
    found_prior, found = model.factorise(Moments.exact(prior, confusion, order=3))
    np.testing.assert_allclose(found, confusion, atol=1e-4)
    np.testing.assert_allclose(found_prior, prior, atol=1e-4)


# ------------------------------------------------------------------------------------------------- samples


@pytest.mark.parametrize("kind", METHODS)
def test_error_falls_with_the_root_of_the_tasks(kind: type) -> None:
    confusion = separable(9, 3, seed=2)
    sizes, errors = (500, 4000, 32000), []
    for size in sizes:
        crowds = [mh.simulate(size, confusion=confusion, density=0.6, seed=seed) for seed in range(2)]
        errors.append(np.mean([np.abs(quiet_fit(kind(), crowd.log).confusion_ - confusion).mean() for crowd in crowds]))
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert -0.75 < slope < -0.3, (slope, errors)
    assert errors[-1] < 0.012, errors


@pytest.mark.parametrize("init", ["multispa", "spectral", mh.moments.CoupledNMF()])
def test_a_start_from_moments_beats_the_majority(init: Any) -> None:
    """Specialists who say the first class of all they do not know: the majority is wrong nearly everywhere."""
    k = 10
    confusion = np.empty((40, k, k))
    for m in range(40):
        own = m % k
        rows = np.full((k, k), 0.15 / k) + 0.15 * np.eye(k)
        rows[:, own] = 0.0
        rows[:, 0 if own else 1] += 0.7
        rows[own] = np.where(np.arange(k) == own, 0.9, 0.1 / (k - 1))
        confusion[m] = rows / rows.sum(axis=1, keepdims=True)
    scores: dict[str, list[float]] = {"majority": [], "moments": []}
    for seed in range(3):
        crowd = mh.simulate(2000, confusion=confusion, density=0.5, seed=seed)
        for name, start in (("majority", "majority"), ("moments", init)):
            model = quiet_fit(mh.DawidSkene(init=start, max_iter=500), crowd.log)
            scores[name].append(mh.metrics.accuracy(model.labels_, crowd.truth))
    assert np.mean(scores["moments"]) > 0.97
    assert np.mean(scores["moments"]) > np.mean(scores["majority"]) + 0.02, scores


def test_starts_agree_where_the_majority_is_right() -> None:
    crowd = mh.simulate(2000, 30, 3, labels_per_task=5, seed=4)
    scores = [
        mh.metrics.accuracy(quiet_fit(mh.DawidSkene(init=init), crowd.log).labels_, crowd.truth)
        for init in ("majority", "multispa", "spectral")
    ]
    assert max(scores) - min(scores) < 0.005, scores


# ----------------------------------------------------------------------------------------------- fallbacks


def two_islands() -> mh.categorical.CategoricalSimulation:
    """Workers 0-5 label the first half of the tasks, 6-11 the second; worker 12 labels tasks of its own."""
    tasks, workers = [], []
    for task in range(600):
        members = range(6) if task < 300 else range(6, 12)
        for worker in members:
            tasks.append(task)
            workers.append(worker)
    tasks += list(range(600, 610))
    workers += [12] * 10
    confusion = separable(13, 3, seed=2)
    return mh.simulate(610, confusion=confusion, pairs=(tasks, workers), seed=5)


@pytest.mark.parametrize("kind", METHODS)
def test_groups_without_shared_tasks(kind: type) -> None:
    crowd = two_islands()
    with (
        pytest.warns(mh.errors.IdentifiabilityWarning)
        if kind is not mh.moments.SpectralDS
        else warnings.catch_warnings()
    ):
        model = kind().fit(crowd.log)
    assert np.isfinite(model.posterior_).all()
    assert np.isfinite(model.confusion_).all()
    assert mh.metrics.accuracy(model.labels_[:600], crowd.truth[:600]) > 0.9
    if kind is not mh.moments.SpectralDS:
        assert "2 groups" in " ".join(model.remarks_)
        assert "1 of 13 workers" in " ".join(model.remarks_)


def test_nobody_shares_a_task() -> None:
    votes = mh.Annotations.from_arrays(["a", "b", "c"], ["x", "y", "z"], [0, 1, 0])
    with pytest.warns(mh.errors.IdentifiabilityWarning, match="workers"):
        model = mh.moments.CoupledNMF().fit(votes)
    assert model.labels_.tolist() == [0, 1, 0]


def test_a_crowd_of_adversaries_is_doubted() -> None:
    """Half the crowd calls each class by the name of the next: two namings are about as good."""
    k = 3
    honest = np.full((8, k, k), 0.1) + 0.7 * np.eye(k)
    confusion = np.concatenate([honest, honest[:, [1, 2, 0]]])
    crowd = mh.simulate(2000, confusion=confusion, density=0.5, seed=1)
    with pytest.warns(mh.errors.IdentifiabilityWarning, match="3 of 3"):
        mh.moments.MultiSPA().fit(crowd.log)


def test_remarks_are_saved(tmp_path: Any) -> None:
    crowd = two_islands()
    model = quiet_fit(mh.moments.MultiSPA(), crowd.log)
    model.save(tmp_path / "model")
    assert mh.load(tmp_path / "model").remarks_ == model.remarks_ != ()


# ------------------------------------------------------------------------------------------------ EM's start


def test_starts_of_em_by_name_and_by_aggregator() -> None:
    crowd = mh.simulate(500, 12, 3, labels_per_task=6, seed=2)
    named = mh.DawidSkene(init="multispa", max_iter=5, tol=0.0).fit(crowd.log)
    unfitted = mh.moments.MultiSPA()
    given = mh.DawidSkene(init=unfitted, max_iter=5, tol=0.0).fit(crowd.log)
    fitted = mh.DawidSkene(init=mh.moments.MultiSPA().fit(crowd.log), max_iter=5, tol=0.0).fit(crowd.log)
    np.testing.assert_array_equal(named.posterior_, given.posterior_)
    np.testing.assert_allclose(named.posterior_, fitted.posterior_, atol=1e-9)
    with pytest.raises(mh.errors.NotFittedError):
        _ = unfitted.labels_


def test_unknown_start_names_the_choices() -> None:
    votes = mh.Annotations.from_dense([[0, 1], [1, 1]])
    with pytest.raises(ValueError, match="'multispa', 'spectral'"):
        mh.DawidSkene(init="multi-spa").fit(votes)


# ---------------------------------------------------------------------------------------------- bad settings


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (mh.moments.MultiSPA(refine=-1), "refine"),
        (mh.moments.MultiSPA(max_partners=0), "max_partners"),
        (mh.moments.MultiSPA(min_overlap=-1), "min_overlap"),
        (mh.moments.MultiSPA(shrink=float("nan")), "shrink"),
        (mh.moments.CoupledNMF(weights="none"), "weights"),
        (mh.moments.CoupledNMF(max_iter=0), "max_iter"),
        (mh.moments.CoupledCPD(max_triples=0), "max_triples"),
        (mh.moments.CoupledCPD(tol=-1), "tol"),
        (mh.moments.SymmetricNMF(impute=-1), "impute"),
        (mh.moments.SpectralDS(groupings=0), "groupings"),
        (mh.moments.SpectralDS(em_passes=1.5), "em_passes"),
    ],
)
def test_bad_settings_are_named(model: Any, named: str) -> None:
    with pytest.raises((ValueError, TypeError), match=named):
        model.fit(mh.Annotations.from_dense([[0, 1], [1, 1]]))


def test_symmetric_nmf_refuses_what_would_not_fit() -> None:
    votes = mh.simulate(3000, 3000, 3, labels_per_task=3, seed=0).log
    with pytest.raises(ValueError, match=r"3,000 × 3.*CoupledNMF"):
        mh.moments.SymmetricNMF().fit(votes)


# ------------------------------------------------------------------------------------------------------ the glue


def test_the_family_has_the_same_defaults() -> None:
    """Pairs are chosen and matrices drawn together in one way by all of them."""
    shared = ("min_overlap", "max_partners", "shrink")
    wanted = {"min_overlap": 1.0, "max_partners": 64, "shrink": 1.0}
    for model in TO_THE_END.values():
        assert {name: type(model)().get_params()[name] for name in shared} == wanted


def uneven() -> mh.Annotations:
    """Five workers who share from 6 to 48 tasks; one of them, w5, shares none."""
    rng = np.random.default_rng(4)
    reach = {"w0": 60, "w1": 48, "w2": 30, "w3": 12, "w4": 6}
    truth = rng.integers(0, 3, 60)
    rows = [(t, w, truth[t] if rng.random() < 0.75 else rng.integers(0, 3)) for w, n in reach.items() for t in range(n)]
    rows += [(100 + t, "w5", t % 3) for t in range(6)]
    return mh.Annotations.from_arrays(*zip(*rows, strict=True))


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the compiled factorisations were given, by name of the argument."""
    seen: dict[str, Any] = {}

    def spy(name: str) -> Any:
        real = getattr(_core, name)

        def call(*args: Any, **options: Any) -> Any:
            seen.update(options)
            return real(*args, **options)

        return call

    for name in ("nmf_fit", "cpd_fit"):
        monkeypatch.setattr(_core, name, spy(name))
    return seen


def test_pairs_count_by_their_overlap_or_alike(handed: dict[str, Any]) -> None:
    votes = uneven()
    overlap = compute(votes).pair_overlap
    assert len(set(overlap.tolist())) > 2
    quiet_fit(mh.moments.CoupledNMF(max_iter=2, tol=0.0), votes)
    np.testing.assert_array_equal(handed["weights"], overlap)
    quiet_fit(mh.moments.CoupledNMF(weights="even", max_iter=2, tol=0.0), votes)
    np.testing.assert_array_equal(handed["weights"], np.ones(len(overlap)))


def test_moments_of_all_orders_count_by_their_tasks_and_one_on_average(handed: dict[str, Any]) -> None:
    votes = uneven()
    moments = compute(votes, order=3)
    quiet_fit(mh.moments.CoupledCPD(max_iter=1, tol=0.0), votes)
    for name, overlap in (("pair_weights", moments.pair_overlap), ("triple_weights", moments.triple_overlap)):
        np.testing.assert_allclose(handed[name], overlap / overlap.mean())
    labels = moments.first.sum(axis=1)
    np.testing.assert_allclose(np.sort(handed["first_weights"]), np.sort(labels / labels.mean()))
    quiet_fit(mh.moments.CoupledCPD(first=False, second=False, max_iter=1, tol=0.0), votes)
    assert not handed["first_weights"].any()
    assert len(handed["pairs"]) == len(handed["pair_weights"]) == 0


@pytest.mark.parametrize("shrink", [0.0, 2.5])
@pytest.mark.parametrize("name", TO_THE_END)
def test_fits_are_factors_drawn_together_and_lonely_workers_judged_by_the_rest(name: str, shrink: float) -> None:
    """What lies between the factors and the answer, written out with nothing of the library but the factors."""
    votes = uneven()
    model = type(TO_THE_END[name])(shrink=shrink)
    fit = quiet_fit(model, votes)
    prior, found = model.factorise(compute(votes, order=order_of(model)))
    rows, k = em.Rows.of(votes), 3
    labels = np.bincount(rows.workers, minlength=6).astype(float)
    reached = np.arange(6) != votes.workers.tolist().index("w5")
    average = np.average(found[reached], axis=0, weights=labels[reached]) + 1e-3 / k
    average /= average.sum(axis=1, keepdims=True)
    behind = (labels[:, None] * prior)[:, :, None]
    share = shrink / (behind + shrink) if shrink else 0.0
    confusion = (1 - share) * found + share * average
    confusion /= confusion.sum(axis=2, keepdims=True)
    told = np.where(reached[:, None, None], confusion, 1 / k)

    def posterior_of(matrices: np.ndarray) -> np.ndarray:
        floored = np.maximum(matrices, em.FLOOR)
        return em.expect(rows, prior, floored, np.full(votes.n_tasks, -1), hard=False)[0]

    posterior = posterior_of(told)
    counts = em.counts_of(rows, posterior)[~reached] + shrink / k
    totals = counts.sum(axis=2, keepdims=True)
    confusion[~reached] = np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), 1 / k)
    np.testing.assert_allclose(fit.prior_, prior, atol=1e-12)
    np.testing.assert_allclose(fit.confusion_, confusion, atol=1e-9)
    np.testing.assert_allclose(fit.posterior_, posterior_of(confusion), atol=1e-9)
    assert any("1 of 6 workers share no tasks" in remark for remark in fit.remarks_)


def test_missing_blocks_through_two_other_workers() -> None:
    """On exact moments R[m, r] R[n, r]⁻¹ R[n, j] is the block itself, on the diagonal and off it."""
    m, k = 12, 3
    confusion, prior = separable(m, k, seed=1), np.array([0.5, 0.3, 0.2])
    pairs = np.array([(i, j) for i in range(m) for j in range(i + 1, m) if (j - i) % m in (1, 2, 3, m - 1, m - 2)])
    moments = Moments.exact(prior, confusion, pairs=pairs)
    start = np.random.default_rng(0).random((m * k, k))
    blocks = _impute(moments, np.arange(m), start, all_gaps=True).reshape(m, k, m, k).swapaxes(1, 2)
    exact = np.einsum("k,mki,nkj->mnij", prior, confusion, confusion)
    guess = (start @ start.T).reshape(m, k, m, k).swapaxes(1, 2)
    observed = {tuple(sorted(pair)) for pair in pairs.tolist()}
    n_through = 0
    for i in range(m):
        np.testing.assert_allclose(blocks[i, i], exact[i, i], atol=EXACT)
        for j in range(i + 1, m):
            if (i, j) not in observed and not np.allclose(blocks[i, j], guess[i, j]):
                np.testing.assert_allclose(blocks[i, j], exact[i, j], atol=EXACT)
                np.testing.assert_allclose(blocks[j, i], exact[i, j].T, atol=EXACT)
                n_through += 1
    assert n_through > 10


def test_symmetric_factorization_as_published() -> None:
    confusion, prior = separable(8, 3, seed=1), np.array([0.5, 0.3, 0.2])
    pairs = np.array([(i, j) for i in range(8) for j in range(i + 1, 8) if (i, j) != (0, 5)])
    moments = Moments.exact(prior, confusion, pairs=pairs)
    published = {"gaps": "blocks", "impute": 0, "max_iter": 5000, "tol": 0.0}
    _, blocks = mh.moments.SymmetricNMF(**published).factorise(moments)
    np.testing.assert_allclose(blocks, confusion, atol=CLOSE)
    # Entries below the threshold are zero: those of specialists are, and small ones become so.
    model = mh.moments.SymmetricNMF(threshold=0.1, **published)
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(9, 3)))[0]
    factor = model._rotate(basis, np.abs(basis), None)[0]
    assert (factor == 0).any()
    assert factor[factor > 0].min() >= 0.1
    for name, value in (("gaps", "none"), ("threshold", -0.1)):
        with pytest.raises(ValueError, match=name):
            quiet_fit(mh.moments.SymmetricNMF(**{name: value}), mh.simulate(50, 6, 3, seed=0).log)
