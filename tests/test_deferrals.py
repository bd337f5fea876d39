"""What every way to defer is held to."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone

import manyhands as mh
from deferrals import VARIANTS, Variant, table, team
from manyhands import defer
from manyhands.defer.data import CaseData

every = pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)


def test_every_deferral_has_a_variant():
    assert {variant.make for variant in VARIANTS} == set(defer.all_deferrals())


@every
def test_results(variant: Variant):
    log = team()
    model = variant.model(coverage=0.5).fit(log.X, log.truth, log.votes)
    for probs, columns in ((model.predict_proba(log.X), 3), (model.defer_proba(log.X), 4)):
        assert probs.shape == (180, columns)
        np.testing.assert_allclose(probs.sum(axis=1), 1, atol=1e-9)
    expected = model.expected_accuracy(log.X)
    assert expected.shape == (180, 4)
    assert ((expected >= 0) & (expected <= 1)).all()
    assert set(model.predict(log.X)) <= {0, 1, 2}
    assert model.confusion_.shape == (3, 3, 3)
    assert model.experts_.tolist() == [0, 1, 2]
    assert model.workers_frame().num_rows == 3
    assert len(model.history_["loss"]) == 3
    decision = model.decide(log.X)
    assert (decision.who == 3).sum() == 90
    assert decision.to_frame().num_rows == 180


@pytest.mark.parametrize("variant", [each for each in VARIANTS if each.twin is not None], ids=lambda each: each.name)
def test_the_loss_of_a_batch_is_that_of_its_twin(variant: Variant):
    log = team(60)
    model = variant.model(max_epochs=1).fit(log.X, log.truth, log.votes)
    model._parts.double()
    batch = CaseData(log.X, log.truth, log.votes).batch(torch.arange(60), torch.device("cpu"))
    with torch.no_grad():
        views = model._views(batch.x.double())
        found = model._loss(batch, views).item()
    cases = zip(views.classes.numpy(), views.gate.numpy(), log.given, log.truth, strict=True)
    # The networks' logits are made single precision.
    assert found == pytest.approx(np.mean([variant.twin(*case) for case in cases]), rel=1e-5)


@every
def test_the_score_is_that_of_decisions_with_answers_looked_up(variant: Variant):
    log = team()
    model = variant.model().fit(log.X, log.truth, log.votes)
    for how, by in (("argmax", "gate"), ("capacity", "gate"), ("threshold", "accuracy"), ("capacity", "accuracy")):
        options = {"coverage": 0.4, "how": how, "by": by}
        who = model.decide(log.X, **options).who
        said = np.c_[log.answers, model.predict(log.X)][np.arange(180), who]
        found = model.score(log.X, log.truth, table(log.answers), **options)
        assert found == pytest.approx((said == log.truth).mean())
    best = model.decide(log.X, coverage=(0.0, 1.0), by="accuracy").expected_accuracy
    np.testing.assert_allclose(best, model.expected_accuracy(log.X).max(axis=1), rtol=1e-6)


@every
def test_same_seed_same_result_and_the_callers_randomness_is_left_alone(variant: Variant):
    log = team()
    first, second, other = (variant.model(coverage=0.5, seed=seed) for seed in (3, 3, 4))
    first.fit(log.X, log.truth, log.votes)
    torch.manual_seed(99)
    before = torch.get_rng_state()
    second.fit(log.X, log.truth, log.votes)
    assert torch.equal(torch.get_rng_state(), before)
    assert (first.defer_proba(log.X) == second.defer_proba(log.X)).all()
    other.fit(log.X, log.truth, log.votes)
    assert (first.defer_proba(log.X) != other.defer_proba(log.X)).any()


@every
def test_refit_forgets_and_networks_are_left_alone(variant: Variant):
    log = team()
    model = variant.model(coverage=0.5)
    before = [p.clone() for p in model.classifier.parameters()]
    first = model.fit(log.X, log.truth, log.votes).defer_proba(log.X)
    assert all(torch.equal(a, b) for a, b in zip(before, model.classifier.parameters(), strict=True))
    assert (model.fit(log.X, log.truth, log.votes).defer_proba(log.X) == first).all()


@every
def test_an_interrupted_training_resumes_to_the_same_result(variant: Variant, tmp_path):
    log = team()
    options = {"max_epochs": 4, "validation": 0.2, "coverage": 0.5}
    whole = variant.model(**options).fit(log.X, log.truth, log.votes)

    def interrupt(model: object, record: dict[str, float]) -> bool:
        return record["epoch"] == 1

    path = tmp_path / "run.pt"
    variant.model(**options, checkpoint=path, callbacks=[interrupt]).fit(log.X, log.truth, log.votes)
    resumed = variant.model(**options, checkpoint=path).fit(log.X, log.truth, log.votes, resume=True)
    assert (resumed.defer_proba(log.X) == whole.defer_proba(log.X)).all()
    np.testing.assert_array_equal(resumed.history_["loss"], whole.history_["loss"])
    np.testing.assert_array_equal(resumed.history_["score"], whole.history_["score"])


@every
def test_clone_params_repr_not_fitted(variant: Variant):
    model = variant.model(max_epochs=7, workload="balanced")
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert "max_epochs=7" in repr(model)
    with pytest.raises(ValueError, match="no parameter 'start_from'"):
        model.set_params(start_from=None)
    with pytest.raises(TypeError, match="nonsense"):
        variant.model(nonsense=1)
    with pytest.raises(mh.NotFittedError, match=r"call fit\(X, y, votes\) first"):
        model.decide(team().X)


@every
def test_pickle(variant: Variant):
    log = team()
    model = variant.model().fit(log.X, log.truth, log.votes)
    again = pickle.loads(pickle.dumps(model))
    assert (again.defer_proba(log.X) == model.defer_proba(log.X)).all()
    options = {"coverage": 0.3, "how": "threshold"}
    assert (again.decide(log.X, **options).who == model.decide(log.X, **options).who).all()


@every
@pytest.mark.parametrize(
    "case", ["one expert", "many experts", "most answers missing", "an expert who never errs", "two classes"]
)
def test_limits(variant: Variant, case: str):
    options = {
        "one expert": {"n_experts": 1},
        "many experts": {"n_experts": 12},
        "most answers missing": {"missing": 0.9},
        "two classes": {"n_classes": 2},
    }
    log = team(**options.get(case, {}))
    given = log.given.copy()
    if case == "an expert who never errs":
        given[:, 0] = log.truth
    model = variant.model(int(log.truth.max()) + 1, coverage=0.5).fit(log.X, log.truth, table(given))
    assert np.isfinite(model.defer_proba(log.X)).all()
    assert np.isfinite(model.expected_accuracy(log.X)).all()
    assert (model.decide(log.X).who == log.given.shape[1]).sum() == 90


@every
@pytest.mark.parametrize("coverage", [0.0, 1.0])
def test_nothing_and_everything_deferred(variant: Variant, coverage: float):
    log = team()
    model = variant.model(coverage=coverage).fit(log.X, log.truth, log.votes)
    for how in ("capacity", "threshold"):
        who = model.decide(log.X, how=how).who
        assert (who == 3).mean() == pytest.approx(coverage, abs=0.02)
    alone = (model.predict(log.X) == log.truth).mean()
    score = model.score(log.X, log.truth, table(log.answers))
    assert score == pytest.approx(alone) if coverage else np.isfinite(score)


@every
def test_one_case_with_one_answer(variant: Variant):
    """A table in which a single expert answered a single case still trains, and decides."""
    log = team(n=20)
    given = np.full_like(log.given, -1)
    given[3, 0] = log.truth[3]
    model = variant.model().fit(log.X, log.truth, table(given))
    assert model.experts_.tolist() == [0]
    assert model.decide(log.X[:1], coverage=1.0).who.tolist() == [1]


@every
def test_workloads_are_kept(variant: Variant):
    log = team()
    fit = variant.model(coverage=0.4, workload="balanced").fit(log.X, log.truth, log.votes)
    assert np.bincount(fit.decide(log.X).who, minlength=4).tolist() == [36, 36, 36, 72]
    bounds = {0: 0.1, 2: (0.3, 0.5)}
    shares = np.bincount(fit.decide(log.X, workload=bounds).who, minlength=4) / 180
    assert shares[0] == pytest.approx(0.1)
    assert 0.3 - 1e-9 <= shares[2] <= 0.5 + 1e-9
    assert shares[3] == pytest.approx(0.4)
    everybody = fit.decide(log.X, coverage=(0.0, 1.0), workload="free")
    assert len(everybody.who) == 180


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v.constrained], ids=lambda variant: variant.name)
def test_gates_learn_to_keep_the_workload_on_average(variant: Variant):
    """Even shares are 1/4 each, among those who may be chosen; what a gate prefers by itself is far from that."""
    log = team(300)
    model = variant.model(workload="balanced", max_epochs=15).fit(log.X, log.truth, log.votes)
    chosen = model.defer_proba(log.X)
    if getattr(model, "unanswered", None) == "left-out":
        answered = log.given >= 0
        chosen[:, :-1] *= answered
        chosen = chosen[answered.any(axis=1)]
        chosen /= chosen.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(chosen.mean(axis=0), 0.25, atol=0.07)


@every
def test_names_and_order_of_experts_and_rows_do_not_matter(variant: Variant):
    """Experts by another name and rows in another order give the same decisions, by name."""
    log = team()
    names = np.array(["zoe", "amy", "mia"])
    cases, experts = np.nonzero(log.given >= 0)
    votes = mh.Annotations.from_arrays(
        [f"case {i}" for i in cases], names[experts], log.given[cases, experts], classes=range(3)
    )
    order = np.random.default_rng(0).permutation(len(log.X))
    tasks = [f"case {i}" for i in range(len(log.X))]
    model = variant.model().fit(log.X, log.truth, votes, tasks=tasks)
    assert model.experts_.tolist() == ["amy", "mia", "zoe"]
    renamed = table(log.given[:, [1, 2, 0]])
    same = variant.model().fit(log.X, log.truth, renamed)
    np.testing.assert_allclose(model.defer_proba(log.X), same.defer_proba(log.X), atol=1e-6)
    whole = model.score(log.X, log.truth, votes, tasks=tasks, missing="available")
    moved = model.score(log.X[order], log.truth[order], votes, tasks=[tasks[i] for i in order], missing="available")
    assert whole == pytest.approx(moved)


@every
def test_learns(variant: Variant):
    """Together they are right more often than the classifier alone, and than if who answers were drawn by lot.

    On cases that were not trained on; as many go to the classifier either way.
    """
    log = team(900, n_classes=3, n_experts=2, missing=0.2, separation=1.2, seed=4)
    new = slice(600, None)
    options = {"impute_epochs": 8} if variant.make is defer.ImputedDeferral else {}
    model = variant.model(coverage=0.4, max_epochs=8, **options)
    model.fit(log.X[:600], log.truth[:600], table(log.given[:600]))
    alone = (model.predict(log.X[new]) == log.truth[new]).mean()
    together = model.score(log.X[new], log.truth[new], table(log.answers[new]))
    assert together > alone + 0.05
    by_lot = 0.4 * alone + 0.6 * (log.answers[new] == log.truth[new, None]).mean()
    assert together > by_lot + 0.02 or not variant.choosy
