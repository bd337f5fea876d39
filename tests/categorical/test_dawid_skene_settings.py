"""What EM is told: known classes, starts, priors, and parameters that it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from twins import assert_parity, fit_em

import manyhands as mh
from manyhands.testing.compare import assert_close, assert_sound
from manyhands.testing.crowds import STANDARD, crowd

on_models = pytest.mark.parametrize("model", ["full", "class", "one-coin"])

# ------------------------------------------------------------------------------------------------------- gold


def spammed(seed: int = 0) -> tuple[mh.Annotations, np.ndarray]:
    """A crowd that is mostly wrong in the same way: only gold can tell."""
    rng = np.random.default_rng(seed)
    n_tasks, n_workers = 300, 9
    truth = rng.integers(0, 3, n_tasks)
    tasks, workers = np.divmod(np.arange(n_tasks * n_workers), n_workers)
    right = rng.random(len(tasks)) < np.where(workers < 3, 0.9, 0.25)
    labels = np.where(right, truth[tasks], (truth[tasks] + 1) % 3)
    votes = mh.Annotations.from_codes(tasks, workers, labels, n_tasks=n_tasks, n_workers=n_workers, n_classes=3)
    return votes, truth


@on_models
def test_gold_is_kept_and_helps(model: str) -> None:
    votes, truth = spammed()
    known = np.arange(0, 300, 3)
    others = np.setdiff1d(np.arange(300), known)
    gold = {int(task): int(truth[task]) for task in known}
    with_gold = mh.DawidSkene(model=model, gold=gold, max_iter=500).fit(votes)
    without = mh.DawidSkene(model=model, max_iter=500).fit(votes)
    np.testing.assert_array_equal(with_gold.labels_[known], truth[known])
    np.testing.assert_array_equal(with_gold.posterior_[known], np.eye(3)[truth[known]])
    score, baseline = (np.mean(fit.labels_[others] == truth[others]) for fit in (with_gold, without))
    assert score > 0.9
    assert baseline < 0.5


def test_gold_in_any_form() -> None:
    import pandas as pd
    import pyarrow as pa

    votes = STANDARD.votes()
    gold = {"t003": "c1", "t001": "c2"}
    fit = mh.DawidSkene(gold=gold, max_iter=5, tol=0.0).fit(votes)
    columns = {"task": list(gold), "label": list(gold.values())}
    for form in (
        (columns["task"], columns["label"]),
        pd.DataFrame(columns),
        pa.table(columns),
        pd.Series(gold),
    ):
        other = mh.DawidSkene(gold=form, max_iter=5, tol=0.0).fit(votes)
        np.testing.assert_array_equal(other.posterior_, fit.posterior_)
    assert fit.labels_[[3, 1]].tolist() == ["c1", "c2"]


def test_gold_may_name_a_class_that_nobody_did() -> None:
    votes = STANDARD.votes(classes=[*STANDARD.classes, "rare"])
    fit = mh.DawidSkene(gold={"t000": "rare"}, max_iter=5, tol=0.0).fit(votes)
    assert fit.labels_[0] == "rare"
    assert_sound(fit)


# ---------------------------------------------------------------------------------------- starts and restarts


def test_restarts_never_lower_the_objective() -> None:
    improved = 0
    for seed in range(12):
        votes = crowd(n_tasks=30, n_workers=6, n_classes=4, per_task=3, seed=seed).votes()
        settings = {"max_iter": 100, "tol": 0.0, "pseudo_count": 0.1}
        fits = [mh.DawidSkene(restarts=n, seed=seed, **settings).fit(votes) for n in (0, 2, 6)]
        objectives = [fit.objective_ for fit in fits]
        assert objectives == sorted(objectives)
        improved += objectives[-1] > objectives[0] + 1e-3
    assert improved, "no start led anywhere else: the test shows nothing"


def test_seeds_of_restarts_differ() -> None:
    votes = crowd(n_tasks=30, n_workers=6, n_classes=4, per_task=3, seed=1).votes()
    settings = {"restarts": 1, "max_iter": 3, "tol": 0.0, "init": np.full((30, 4), 0.25), "pseudo_count": 0.1}
    objectives = {mh.DawidSkene(seed=seed, **settings).fit(votes).objective_ for seed in range(4)}
    assert len(objectives) == 4


def test_starts_differ() -> None:
    votes = STANDARD.votes()
    first = {
        init: mh.DawidSkene(init=init, max_iter=1, tol=0.0).fit(votes).history_[0] for init in ("majority", "shares")
    }
    assert first["majority"] != first["shares"]


def test_start_from_a_fitted_aggregator() -> None:
    votes = STANDARD.votes()
    known = votes.select(workers=votes.workers[:6])
    for source in (mh.DawidSkene(max_iter=4, tol=0.0), mh.MajorityVote(), mh.categorical.WeightedVote()):
        source.fit(known)
        average = np.average(source.confusion_, axis=0, weights=known.labels_per_worker)
        confusion = np.concatenate([source.confusion_, [average, average]])
        fit = mh.DawidSkene(init=source, max_iter=4, tol=0.0).fit(votes)
        given = mh.DawidSkene(init=(source.prior_, confusion), max_iter=4, tol=0.0).fit(votes)
        assert_close(fit.history_, given.history_, 1e-12, "history")
        assert_parity(given, fit_em(given, votes))


@on_models
def test_warm_start(model: str) -> None:
    votes = STANDARD.votes()
    fit = mh.DawidSkene(model=model, max_iter=5, tol=0.0, warm_start=True).fit(votes)
    first, objective, parameters = fit.history_, fit.objective_, (fit.prior_, fit.confusion_)
    fit.fit(votes)
    assert fit.history_[0] == pytest.approx(objective, rel=1e-9)
    assert fit.history_[0] > first[0]
    wanted = fit_em(mh.DawidSkene(model=model, init=parameters, max_iter=5, tol=0.0), votes)
    assert_parity(fit, wanted)
    # Without it, a second fit is as the first.
    fit.set_params(warm_start=False).fit(votes)
    np.testing.assert_array_equal(fit.history_, first)


def test_warm_start_matches_workers_by_name() -> None:
    votes = STANDARD.votes()
    later = mh.Annotations.from_arrays(
        ["n1", "n1", "n2", "n2"],
        ["new", "w07", "w07", "w00"],
        ["c0", "c1", "c2", "c2"],
        classes=votes.classes,
    )
    fit = mh.DawidSkene(max_iter=5, tol=0.0, warm_start=True).fit(votes)
    average = np.average(fit.confusion_, axis=0, weights=votes.labels_per_worker)
    start = (fit.prior_, np.stack([average, fit.confusion_[0], fit.confusion_[7]]))
    assert later.workers.tolist() == ["new", "w00", "w07"]
    wanted = fit_em(mh.DawidSkene(init=start, max_iter=5, tol=0.0), later)
    assert_parity(fit.fit(later), wanted)


# ----------------------------------------------------------------------------------------------------- priors


def test_forms_of_pseudo_counts() -> None:
    votes = STANDARD.votes()
    pair = np.full((3, 3), 0.5) + 1.5 * np.eye(3)
    same = {
        "a number": (0.6, np.full((3, 3), 0.2)),
        "a pair": ((2.0, 1.0), pair),
        "a whole number": (3, np.ones((3, 3))),
    }
    for what, (short, spelt_out) in same.items():
        a, b = (mh.DawidSkene(pseudo_count=p, max_iter=5, tol=0.0).fit(votes) for p in (short, spelt_out))
        assert_close(a.history_, b.history_, 1e-12, what)
    a, b = (mh.DawidSkene(class_pseudo_count=p, max_iter=5, tol=0.0).fit(votes) for p in (1.5, [0.5, 0.5, 0.5]))
    assert_close(a.history_, b.history_, 1e-12, "class_pseudo_count")


def test_pseudo_counts_pull_towards_themselves() -> None:
    votes = STANDARD.votes()
    heavy = mh.DawidSkene(pseudo_count=(8e6, 2e6), class_pseudo_count=[1e6, 1e6, 2e6], max_iter=5, tol=0.0)
    heavy.fit(votes)
    np.testing.assert_allclose(heavy.confusion_, np.full((8, 3, 3), 0.1) + 0.7 * np.eye(3), atol=1e-4)
    np.testing.assert_allclose(heavy.prior_, [0.25, 0.25, 0.5], atol=1e-4)


def test_worker_prior_replaces_the_shared_one() -> None:
    votes = STANDARD.votes()
    believed = np.array([[8.0, 1.0, 1.0], [2.0, 6.0, 2.0], [0.0, 0.0, 10.0]]) * 1e6
    fit = mh.DawidSkene(worker_prior={"w03": believed}, pseudo_count=0.5, max_iter=5, tol=0.0).fit(votes)
    np.testing.assert_allclose(fit.confusion_[3], believed / 1e7, atol=1e-4)
    assert_parity(fit, fit_em(fit, votes))
    shared = mh.DawidSkene(worker_prior=dict.fromkeys(STANDARD.workers, np.full((3, 3), 0.5)), max_iter=5, tol=0.0)
    plain = mh.DawidSkene(pseudo_count=np.full((3, 3), 0.5), max_iter=5, tol=0.0)
    assert_close(shared.fit(votes).history_, plain.fit(votes).history_, 1e-12, "history")


# --------------------------------------------------------------------------------------------- bad parameters

_K, _N, _M = len(STANDARD.classes), len(STANDARD.tasks), len(STANDARD.workers)
_EVEN = np.full((_M, _K, _K), 1 / _K)


def _spoilt(shape: tuple[int, ...], value: float) -> np.ndarray:
    out = np.full(shape, 1 / shape[-1])
    out.flat[0] = value
    return out


BAD = {
    "model": ({"model": "two-coin"}, "model must be one of 'full', 'class', 'one-coin', not 'two-coin'"),
    "assignment": ({"assignment": "medium"}, "assignment must be one of"),
    "init name": ({"init": "random forest"}, "init must be one of 'majority', 'shares'"),
    "posterior of the wrong shape": (
        {"init": np.ones((_N, 2)) / 2},
        r"posterior given as init has shape \(40, 2\)",
    ),
    "posterior with NaN": ({"init": _spoilt((_N, _K), np.nan)}, "posterior given as init must hold prob"),
    "posterior below 0": ({"init": _spoilt((_N, _K), -0.1)}, "posterior given as init must hold prob"),
    "posterior that does not sum to one": ({"init": np.ones((_N, _K))}, "sum to one"),
    "prior of the wrong shape": ({"init": ([0.5, 0.5], _EVEN)}, "prior given as init has shape"),
    "prior with NaN": ({"init": ([0.5, 0.5, np.nan], _EVEN)}, "prior given as init must hold prob"),
    "confusion of the wrong shape": (
        {"init": ([0.5, 0.5, 0], _EVEN[1:])},
        "confusion given as init has shape",
    ),
    "confusion with NaN": (
        {"init": ([1, 0, 0], _spoilt(_EVEN.shape, np.nan))},
        "confusion given as init must",
    ),
    "confusion that does not sum to one": ({"init": ([1, 0, 0], 2 * _EVEN)}, "sum to one"),
    "negative pseudo-count": ({"pseudo_count": -0.1}, "pseudo_count must hold finite numbers of at least 0"),
    "pseudo-count NaN": ({"pseudo_count": np.nan}, "pseudo_count must hold finite"),
    "pseudo-count infinite": ({"pseudo_count": np.inf}, "pseudo_count must hold finite"),
    "pseudo-count of three": (
        {"pseudo_count": (1.0, 2.0, 3.0)},
        r"pseudo_count must be .* a pair \(right, wrong\)",
    ),
    "negative pair": ({"pseudo_count": (1.0, -1.0)}, "pseudo_count must hold finite"),
    "pseudo-count shape": (
        {"pseudo_count": np.ones((2, 2))},
        r"pseudo_count has shape \(2, 2\), not \(3, 3\)",
    ),
    "negative entry": ({"pseudo_count": -np.ones((_K, _K))}, "pseudo_count must hold finite"),
    "negative class pseudo-count": ({"class_pseudo_count": -1.0}, "class_pseudo_count must hold finite"),
    "class pseudo-count shape": ({"class_pseudo_count": [1.0, 1.0]}, "class_pseudo_count has shape"),
    "worker prior of nobody": ({"worker_prior": {"nobody": np.ones((3, 3))}}, "worker_prior names 'nobody'"),
    "worker prior shape": ({"worker_prior": {"w00": np.ones(3)}}, "worker_prior of 'w00' has shape"),
    "worker prior below 0": ({"worker_prior": {"w00": -np.ones((3, 3))}}, "worker_prior of 'w00' must hold"),
    "gold on an unknown task": ({"gold": {"t000": "c0", "t999": "c0"}}, "'t999'"),
    "gold of an unknown class": ({"gold": {"t005": "c9"}}, "gold gives task 't005' the class 'c9'"),
    "gold given twice": ({"gold": (["t000", "t000"], ["c0", "c1"])}, "'t000'"),
    "max_iter": ({"max_iter": 0}, "max_iter must be at least 1, not 0"),
    "tol": ({"tol": -1.0}, "tol must be at least 0, not -1"),
    "tol NaN": ({"tol": np.nan}, "tol must be a finite number, not nan"),
    "restarts": ({"restarts": -1}, "restarts must be at least 0, not -1"),
    "seed": ({"seed": -1}, "seed must be at least 0, not -1"),
    "start with other classes": (
        {"init": mh.MajorityVote().fit(crowd(n_classes=4).votes())},
        "same classes=",
    ),
}


@pytest.mark.parametrize(("params", "message"), BAD.values(), ids=BAD)
def test_bad_parameters_are_named(params, message: str) -> None:
    model = mh.DawidSkene(**params)
    with pytest.raises(ValueError, match=message):
        model.fit(STANDARD.votes())
    with pytest.raises(mh.errors.NotFittedError):
        _ = model.labels_


def test_a_start_from_label_counts_is_that_of_the_tutorial():
    """d⁰ is the frequency of labels, A⁰ the joint frequency of a worker's label and the majority class."""
    crowd = mh.simulate(60, 7, 3, labels_per_task=5, crowd="class-conditional", seed=4)
    votes = crowd.log
    tasks, workers, labels = votes.codes()
    counts = np.zeros((60, 3))
    np.add.at(counts, (tasks, labels), 1)
    best = (counts == counts.max(axis=1, keepdims=True)).astype(float)
    best /= best.sum(axis=1, keepdims=True)
    d, a = counts.sum(axis=0) / counts.sum(), np.zeros((7, 3, 3))
    for n, m, label in zip(tasks, workers, labels, strict=True):
        a[m, :, label] += best[n] / (workers == m).sum()
    q = np.tile(d, (60, 1))
    for n, m, label in zip(tasks, workers, labels, strict=True):
        q[n] *= a[m, :, label]
    q /= q.sum(axis=1, keepdims=True)
    from_counts = mh.DawidSkene(init="label-counts").fit(votes)
    from_posterior = mh.DawidSkene(init=q).fit(votes)
    np.testing.assert_allclose(from_counts.posterior_, from_posterior.posterior_, atol=1e-9)
    once = [mh.DawidSkene(init=init, max_iter=1) for init in ("label-counts", q, "majority")]
    with pytest.warns(mh.errors.ConvergenceWarning):
        rows = [model.fit(votes).posterior_ for model in once]
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-9)
    assert np.abs(rows[0] - rows[2]).max() > 1e-4
