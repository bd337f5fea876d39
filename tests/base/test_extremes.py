"""Settings and numbers at the ends of their ranges: sound answers within, refusals that name them beyond."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import manyhands as mh
from manyhands import _core, defer
from manyhands._base import checks
from manyhands.testing.compare import assert_sound, never_falls
from manyhands.testing.crowds import ODD, STANDARD

VOTES = STANDARD.votes()
INF = float("inf")

#: Odd settings leave something undetermined, and methods say so; few passes do not settle.
pytestmark = [
    pytest.mark.filterwarnings("ignore::manyhands.errors.IdentifiabilityWarning"),
    pytest.mark.filterwarnings("ignore::manyhands.errors.ConvergenceWarning"),
]

#: Settings that count imaginary labels, tasks or votes.
COUNTS: list[tuple[type[Any], str]] = [
    *(
        (cls, "pseudo_count")
        for cls in (mh.DawidSkene, mh.BayesianDawidSkene, mh.categorical.CommunityDawidSkene, mh.categorical.EBCC)
    ),
    *((cls, "class_pseudo_count") for cls in (mh.DawidSkene, mh.BayesianDawidSkene, mh.categorical.EBCC)),
    *(
        (cls, "class_pseudo_count")
        for cls in (
            mh.categorical.HierarchicalDawidSkene,
            mh.categorical.HierarchicalMACE,
            mh.categorical.OnlineDawidSkene,
        )
    ),
    (mh.categorical.EBCC, "subtype_pseudo_count"),
    (mh.categorical.OnlineDawidSkene, "pseudo_count"),
    (mh.categorical.MACE, "strategy_prior"),
    (mh.categorical.CrowdSVM, "pseudo_count"),
    (mh.categorical.CrowdSVM, "variance"),
    (mh.categorical.CrowdSVM, "cost"),
    (mh.categorical.CrowdSVM, "margin"),
    (mh.categorical.MaxMarginVote, "margin"),
    (mh.categorical.MaxMarginVote, "cost"),
    (mh.categorical.MinimaxEntropy, "worker_penalty"),
    (mh.categorical.MinimaxEntropy, "task_penalty"),
]
by_name = pytest.mark.parametrize(("cls", "name"), COUNTS, ids=lambda x: x if isinstance(x, str) else x.__name__)


def short(cls: type[Any], **settings: Any) -> Any:
    few = {"max_iter": 20, "restarts": 0, "draws": 10}
    return cls(**{key: value for key, value in few.items() if key in cls._parameter_names()} | settings)


@by_name
def test_settings_at_the_ends_of_their_range_give_sound_answers(cls: type[Any], name: str) -> None:
    for value in (checks.LEAST_COUNT, checks.MOST_COUNT):
        model = short(cls, **{name: value}).fit(VOTES)
        assert_sound(model, heaviest=1e18)  # rows of imaginary labels, whose gamma functions cancel
        assert np.isfinite(model.predict_proba(VOTES)).all()


@by_name
def test_settings_beyond_their_range_are_refused_by_name(cls: type[Any], name: str) -> None:
    for value in (1e-320, 1e16, 1e308, INF, float("nan"), -1.0):
        with pytest.raises(ValueError, match=f"{name}"):
            short(cls, **{name: value}).fit(VOTES)


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: mh.DawidSkene(pseudo_count=np.full((3, 3), 1e308)), ValueError, "pseudo_count .* 0 or between 1e-30"),
        (
            lambda: mh.DawidSkene(worker_prior={"w00": np.full((3, 3), 1e308)}),
            ValueError,
            "worker_prior of 'w00' .* 1e\\+308",
        ),
        (lambda: mh.DawidSkene(worker_prior=np.array([1.0])), TypeError, "worker_prior"),
        (lambda: mh.DawidSkene(worker_prior=0.5), TypeError, "worker_prior"),
        (lambda: mh.DawidSkene(init=object()), TypeError, "init"),
        (lambda: mh.DawidSkene(model=np.zeros(3)), ValueError, "model"),
        (lambda: mh.MajorityVote(ties=np.zeros(3)), ValueError, "ties"),
        (lambda: mh.categorical.WeightedVote(np.zeros(3)), ValueError, "weights.*'agreement'"),
        (
            lambda: mh.categorical.WeightedVote(dict.fromkeys(STANDARD.workers, 1e308)),
            ValueError,
            "worker 'w00'.*1.*308,",
        ),
        (
            lambda: mh.categorical.WeightedVote("zero-based", learning_rate=1e15),
            ValueError,
            "learning_rate=1e.*15",
        ),
        (lambda: mh.BayesianDawidSkene(protected=None), TypeError, "protected"),
        (lambda: mh.BayesianDawidSkene(max_iter="x"), TypeError, "max_iter"),
        (lambda: mh.categorical.CommunityDawidSkene(protected="x"), TypeError, "protected"),
        (
            lambda: mh.categorical.CommunityDawidSkene(strength=1e300),
            ValueError,
            r"strength.*1e-06.*1e\+09",
        ),
        (lambda: mh.categorical.HierarchicalMACE(strength=1e-300), ValueError, "strength"),
        (lambda: mh.moments.CoupledCPD(second=2**63), TypeError, "second must be True or False"),
        (lambda: mh.moments.CoupledCPD(first=1e300), TypeError, "first must be True or False"),
        (lambda: mh.categorical.MACE(competence_prior=(1e-320, 1e308)), ValueError, "competence_prior.*0"),
        (lambda: mh.categorical.MACE(competence_prior=(1.0, 1e308)), ValueError, "competence_prior.*0"),
        (lambda: mh.categorical.GLAD(ease_mean=1e15), ValueError, "ease_mean.*100"),
        (lambda: mh.categorical.GLAD(ability_mean=1e15), ValueError, "ability_mean"),
        (lambda: mh.categorical.GLAD(class_prior="x"), TypeError, "class_prior"),
        (lambda: mh.categorical.GLAD(tol=INF), ValueError, "tol.*inf"),
    ],
)
def test_settings_that_cannot_be_used_are_named(make: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make().fit(VOTES)


def test_a_number_that_is_not_finite_is_called_that() -> None:
    for bad in (INF, -INF, float("nan"), np.float32("inf")):
        with pytest.raises(ValueError, match=f"lr.*{bad}"):
            checks.check_number("lr", bad, least=0)
    with pytest.raises(ValueError, match=r"n.*2.*63"):
        checks.check_number("n", 2**63, least=0, whole=True)
    with pytest.raises(ValueError, match=r"n.*10, not 11"):
        checks.check_number("n", 11, least=0, most=10)
    checks.check_number("n", 2**63 - 1, least=0, whole=True)


def test_ease_at_its_ends_stays_finite() -> None:
    for ease in (-100, 100):
        assert_sound(
            mh.categorical.GLAD(ease_mean=ease, ability_mean=1e6, max_iter=5, tol=0.0).fit(VOTES), heaviest=1e50
        )


# --------------------------------------------------------------------------------------------------- once seen


def test_weights_that_once_made_samplers_loop_are_refused() -> None:
    rng = np.random.default_rng(0)
    columns = np.repeat(np.arange(20), 5), np.tile(np.arange(5), 20), rng.integers(0, 2, 100)
    for weight in (1e308, 1e300):
        with pytest.raises(ValueError, match=r"weights.*1e\+30.*row 0"):
            mh.Annotations.from_arrays(*columns, np.full(100, weight))
    with pytest.raises(ValueError, match=r"weights.*9.*row 0"):
        mh.Annotations.from_arrays(*columns, np.full(100, 1e-320))


def test_weights_that_are_next_to_nothing_count_as_nothing_and_are_told() -> None:
    columns = [0, 0, 1, 1], [0, 1, 0, 1], ["a", "b", "a", "b"]
    with pytest.warns(mh.errors.DataWarning, match=r"weights.*2 rows.*0"):
        votes = mh.Annotations.from_arrays(*columns, [1.0, 1e-40, 0.5, 1e-320])
    assert votes.weights.tolist() == [1.0, 0.0, 0.5, 0.0]


def test_the_table_itself_refuses_such_weights() -> None:
    codes = np.zeros(2, np.uint32), np.arange(2, dtype=np.uint32), np.zeros(2, np.uint16)
    for weight in (1e308, 1e-320):
        with pytest.raises(ValueError, match=f"{weight:.0e}.*row 1"):
            _core.Table(*codes, np.array([1.0, weight]), 1, 2, 1)


def test_tiny_confidences_and_probabilities_are_no_weights_to_refuse() -> None:
    votes = mh.Annotations.from_arrays([0, 0, 1], [0, 1, 0], ["a", "b", "a"], confidence=[1e-300, 0.9, 1.0])
    assert votes.weights.tolist() == pytest.approx([0.0, 0.8, 1.0])
    frame = {"task": [0, 1], "worker": [0, 0], "a": [1.0, 1e-300], "b": [1e-300, 1.0], "c": [0.0, 0.0]}
    soft = mh.Annotations.from_soft(frame, classes=["a", "b", "c"])
    assert soft.weights is None
    assert soft.n_annotations == 2


def test_forgetting_by_next_to_nothing_is_not_forgetting() -> None:
    fits = [mh.categorical.OnlineDawidSkene(forget=share, batch_size=7).fit(VOTES) for share in (1e-320, 1e-101, 0.0)]
    for fit in fits[:2]:
        np.testing.assert_array_equal(fit.posterior_, fits[2].posterior_)
    assert not np.array_equal(
        mh.categorical.OnlineDawidSkene(forget=0.5, batch_size=7).fit(VOTES).posterior_, fits[2].posterior_
    )


def test_bayes_starts_from_a_sparse_model_and_from_any_other() -> None:
    """A start whose posteriors are made on demand."""
    sparse = mh.BayesianDawidSkene(init=mh.categorical.SparseOneCoin()).fit(VOTES)
    given = mh.BayesianDawidSkene(init=mh.categorical.SparseOneCoin().fit(VOTES).posterior_).fit(VOTES)
    np.testing.assert_array_equal(sparse.posterior_, given.posterior_)
    for method in (mh.MajorityVote(), mh.categorical.KOS(), mh.categorical.GLAD()):
        assert_sound(mh.BayesianDawidSkene(init=method).fit(VOTES))


@pytest.mark.filterwarnings("error::manyhands.errors.ConvergenceWarning")
@pytest.mark.parametrize("cls", mh.categorical.all_aggregators(), ids=lambda cls: cls.__name__)
def test_with_one_class_everything_settles(cls: type[Any]) -> None:
    settings: dict[str, Any] = {"method": "em", "smoothing": 0} if cls is mh.categorical.MACE else {}
    model = cls(**settings).fit(ODD["one class"].votes())
    assert model.converged_
    np.testing.assert_allclose(model.posterior_, 1.0, rtol=1e-12)


def test_the_bound_of_communities_never_falls_without_protected_passes() -> None:
    for strength in (None, 5.0, INF):
        model = mh.categorical.CommunityDawidSkene(protected=0, strength=strength, max_iter=40, tol=0.0).fit(VOTES)
        assert never_falls(model.history_), np.diff(model.history_).min()
        assert len(model.history_) == model.n_iter_ == 40


def test_great_scores_are_assigned_or_refused_and_never_called_forbidden() -> None:
    capacity = {"lower": [1, 0], "upper": [1, 2]}
    assert defer.assign(np.array([[-1e300, 1e300], [0.0, 1e300]]), **capacity).tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"scores.*1e308 in.*1e300"):
        defer.assign(np.array([[1e308, -1e308], [0.0, 1e300]]), **capacity)


# ------------------------------------------------------------------------------------------------------- totals


def test_progress_bars_know_their_end() -> None:
    totals = {
        mh.categorical.HierarchicalDawidSkene(protected=7, max_iter=4): 11,
        mh.categorical.HierarchicalMACE(protected=7, max_iter=4): 11,
        mh.BayesianDawidSkene(protected=7, max_iter=4): 11,
        mh.BayesianDawidSkene(init="majority", protected=7, max_iter=4): 4,
        mh.BayesianDawidSkene(method="gibbs", n_chains=3, warmup=5, draws=7): 36,
        mh.categorical.CommunityDawidSkene(protected=7, max_iter=4): 11,
        mh.categorical.CrowdSVM(draws=5, burn_in=3): 8,
        mh.categorical.WeightedVote("zero-based", n_iter=6): 6,
        mh.categorical.WeightedVote(): 1,
        mh.moments.SpectralDS(em_passes=4): 4,
        mh.categorical.GLAD(max_iter=9): 9,
    }
    for model, total in totals.items():
        assert model._iterations() == total, model


def test_kernels_report_their_last_step_however_short() -> None:
    k, seen = VOTES.n_classes, []
    found = _core.em_fit(
        VOTES.table,
        model="full",
        assignment="soft",
        start="majority",
        pseudo=np.full((k, k), 0.1),
        class_pseudo=np.zeros(k),
        max_iter=3,
        tol=0.0,
        progress=lambda step, objective: seen.append((step, objective)),
    )
    assert seen[-1] == (3, found["history"][2])
    assert [step for step, _ in seen].count(3) == 1
