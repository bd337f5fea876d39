"""What every way to defer is held to."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

import manyhands as mh
from deferrals import VARIANTS, Variant, linear, table, team
from learners import backbone
from manyhands import defer
from manyhands.defer.data import CaseData
from manyhands.defer.impute import distort, jitter
from oracles.defer_losses import complete_posterior, softmax

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


# ------------------------------------------------------------------------------------------------ what goes in


def model(**options):
    return defer.NaiveDeferral(backbone(), **{"max_epochs": 1} | options)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda log: {"y": log.truth[:-1]}, ValueError, "y has 179 true classes, but X has 180 rows"),
        (lambda log: {"y": [None, *log.truth[1:].tolist()]}, ValueError, "no class in row 0"),
        (lambda log: {"y": np.array(list("abc"))[log.truth]}, ValueError, "none in common"),
        (lambda log: {"y": log.truth * 2}, ValueError, "one logit a class"),
        (lambda log: {"X": log.X[:10], "y": log.truth[:10]}, ValueError, "are no rows of X, which has 10"),
        (
            lambda log: {"votes": mh.Annotations.from_arrays([0, 0], ["a", "a"], [1, 2])},
            ValueError,
            "labelled task 0 more than once",
        ),
        (
            lambda log: {"votes": mh.Annotations.from_arrays([0, 1], ["a", "a"], [1, 2], weights=[1.0, 2.0])},
            ValueError,
            "no weights",
        ),
    ],
)
def test_input_that_does_not_fit(change, error, message):
    log = team()
    given = {"X": log.X, "y": log.truth, "votes": log.votes} | change(log)
    with pytest.raises(error, match=message):
        model().fit(given["X"], given["y"], given["votes"])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"coverage": 1.5}, ValueError, "coverage must be a share from 0 to 1"),
        ({"coverage": (0.5, 0.2)}, ValueError, "in order"),
        ({"coverage": "half"}, TypeError, "coverage must be a share or a pair"),
        ({"workload": "fair"}, ValueError, "workload must be one of 'free', 'balanced'"),
        ({"workload": {"nobody": 0.1}}, KeyError, "'nobody', who is no expert; there are 0, 1, 2"),
        ({"workload": {0: (0.1, 2)}}, ValueError, "the workload of 0 must be a share"),
        ({"coverage": 0.7, "workload": {0: 0.2, 1: 0.2}}, ValueError, "sum to more than one"),
        ({"coverage": 0.1, "workload": {0: 0.1, 1: 0.1, 2: 0.1}}, ValueError, "would have nobody"),
        ({"constraint": "yearly"}, ValueError, "constraint must be one of"),
        ({"smoothing": 0.0}, ValueError, "smoothing is a share above 0"),
        ({"unanswered": "asked"}, ValueError, "unanswered must be one of 'left-out', 'wrong'"),
        ({"gate": linear(6, 3)}, ValueError, "for each of 3 experts and one for the classifier"),
        ({"gate": linear(5, 4)}, ValueError, r"goes to Linear\(in_features=5, out_features=4"),
        ({"gate": 7}, TypeError, "gate must be a torch nn.Module"),
        ({"gate": "stack"}, TypeError, '"stacked" or None, not .stack.'),
        ({"lr": -1.0}, ValueError, "lr must be at least 0"),
    ],
)
def test_settings_that_cannot_work(options, error, message):
    log = team()
    with pytest.raises(error, match=message):
        model(**options).fit(log.X, log.truth, log.votes)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (defer.ProbabilisticDeferral, {"inference": "luck"}, "inference must be one of"),
        (defer.ProbabilisticDeferral, {"experts": "one"}, "experts must be one of"),
        (defer.ProbabilisticDeferral, {"groups": 0}, "groups must be at least 1"),
        (defer.ProbabilisticDeferral, {"groups": 1.5}, "groups must be a whole number"),
        (defer.ProbabilisticDeferral, {"groups": 2, "experts": "confusion"}, "groups are of networks"),
        (defer.ProbabilisticDeferral, {"n_iter": 0}, "n_iter must be at least 1"),
        (defer.ProbabilisticDeferral, {"n_iter": 1.5}, "n_iter must be a whole number"),
        (defer.ImputedDeferral, {"method": "guess"}, "method must be one of"),
        (defer.ImputedDeferral, {"groups": 0}, "groups must be at least 1"),
        (defer.ImputedDeferral, {"impute_epochs": 0}, "impute_epochs must be at least 1"),
        (defer.ImputedDeferral, {"impute_epochs": 2.5}, "impute_epochs must be a whole number"),
        (defer.CrossEntropySurrogate, {"alpha": -1.0}, "alpha must be at least 0"),
        (defer.RealizableSurrogate, {"alpha": 2.0}, "alpha must be at most 1"),
        (defer.MixtureOfExperts, {"cost": -1.0}, "cost must be at least 0"),
        (defer.Triage, {"warmup": -1}, "warmup must be at least 0"),
        (defer.Triage, {"warmup": 0.5}, "warmup must be a whole number"),
        (defer.OneVsAll, {"gate": linear(6, 4)}, "a logit for each of 3 experts, "),
    ],
)
def test_settings_of_single_methods(make, options, message):
    log = team()
    with pytest.raises((TypeError, ValueError), match=message):
        make(backbone(), **{"max_epochs": 1} | options).fit(log.X, log.truth, log.votes)


def test_a_gate_of_ones_own_and_networks_that_cannot_be_split():
    log = team()

    class Closed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(6, 3)

        def forward(self, x):
            return self.inner(x)

    with pytest.raises(ValueError, match="parts named trunk and head"):
        defer.NaiveDeferral(Closed(), max_epochs=1).fit(log.X, log.truth, log.votes)
    fitted = defer.NaiveDeferral(Closed(), linear(6, 4), max_epochs=1).fit(log.X, log.truth, log.votes)
    assert isinstance(fitted.gate_, nn.Linear)
    fitted = defer.OneVsAll(Closed(), linear(6, 3), max_epochs=1).fit(log.X, log.truth, log.votes)
    assert fitted.defer_proba(log.X).shape == (180, 4)


def test_the_classifier_learns_nothing_from_a_stacked_gate():
    log = team()
    fitted = defer.NaiveDeferral(backbone(), "stacked", max_epochs=1).fit(log.X, log.truth, log.votes)
    for network in (fitted.network_, fitted.gate_):
        network.zero_grad(set_to_none=True)
    fitted._views(torch.from_numpy(log.X)).gate.sum().backward()
    assert all(p.grad is None for p in fitted.network_.parameters())
    assert all(p.grad is not None for p in fitted.gate_.parameters())


def test_missing_answers_at_scoring():
    log = team(missing=0.5)
    fitted = model().fit(log.X, log.truth, log.votes)
    with pytest.raises(ValueError, match=r"who gave no answer to them, first row \d+ to [012]; missing='available'"):
        fitted.score(log.X, log.truth, log.votes, coverage=0.1)
    assert 0 < fitted.score(log.X, log.truth, log.votes, how="argmax", missing="available") <= 1
    first = fitted.score(log.X, log.truth, table(log.answers[:, :1]), workload={1: 0.0, 2: 0.0})
    who = fitted.decide(log.X, workload={1: 0.0, 2: 0.0}).who
    said = np.where(who == 0, log.answers[:, 0], fitted.predict(log.X))
    assert first == pytest.approx((said == log.truth).mean())  # the others need no answers
    strangers = mh.Annotations.from_arrays([0, 1], ["x", "y"], [0, 1])
    with pytest.raises(ValueError, match="no expert of fit"):
        fitted.score(log.X, log.truth, strangers)


def test_networks_that_make_no_numbers_are_no_arg_max():
    class Broken(nn.Linear):
        def forward(self, x):
            return torch.where(x[:, :1] > 1e6, torch.nan, super().forward(x))

    log = team()
    fitted = defer.NaiveDeferral(Broken(6, 3), linear(6, 4), max_epochs=1).fit(log.X, log.truth, log.votes)
    far = log.X.copy()
    far[7, 0] = 1e7
    with pytest.raises(ValueError, match="NaN of row 7 of X"):
        fitted.decide(far, how="argmax")


def test_the_documented_example_runs():
    page = Path(__file__).parents[1] / "docs" / "learning-to-defer.md"
    example = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)[0]
    names: dict = {}
    exec(example, names)
    assert np.bincount(names["decision"].who).tolist() == [100, 100, 100, 200]


def test_a_class_that_no_expert_names_and_cases_nobody_answered():
    log = team(n_classes=3)
    given = np.where(log.given == 2, -1, log.given)
    given[:50] = -1
    fitted = model().fit(log.X, log.truth, table(given))
    assert fitted.classes_.tolist() == [0, 1, 2]
    dense = np.where(given < 0, -1, given)
    same = model().fit(log.X, log.truth, dense)
    assert (same.defer_proba(log.X) == fitted.defer_proba(log.X)).all()


# ---------------------------------------------------------------------------------- answers that were not given


@pytest.mark.parametrize("constraint", ["batch", "running", "epoch"])
@pytest.mark.parametrize("coverage", [None, 0.5])
def test_cases_nobody_answered_teach_the_gate_nothing(constraint: str, coverage: float | None):
    """However wrong the classifier is there; training on answered cases alone gives the same gate."""
    log = team(120, missing=0.0)
    given = np.where(np.arange(120)[:, None] < 60, log.answers, -1)
    # The classifier stays as it is, so that it is the same whatever cases it is shown.
    classifier, start = linear(6, 3).requires_grad_(False), linear(6, 4)

    def learnt(n: int, **more):
        options = {"constraint": constraint, "coverage": coverage, "max_epochs": 3, "batch_size": n} | more
        fitted = defer.NaiveDeferral(classifier, start, **options).fit(log.X[:n], log.truth[:n], table(given[:n]))
        return fitted.gate_.weight.detach()

    whole, answered = learnt(120, lr=0.1), learnt(60, lr=0.05)  # a mean over half as many cases, at half the rate
    np.testing.assert_allclose(whole, answered, atol=1e-6)
    assert (whole != start.weight).any()
    assert (learnt(120, lr=0.1, unanswered="wrong") - answered).abs().max() > 1e-3


@pytest.mark.parametrize(
    "variant",
    [
        Variant(defer.NaiveDeferral, {"constraint": "epoch"}),
        Variant(defer.ProbabilisticDeferral, {"constraint": "epoch", "experts": "separate"}),
        Variant(defer.Triage, {"warmup": 0}),
    ],
    ids=lambda variant: variant.name,
)
def test_training_knows_nothing_of_held_out_cases(variant: Variant):
    """Neither their truth nor their answers, wherever all cases are gone through at once."""
    log = team()
    options = {"coverage": 0.7, "validation": 0.5, "max_epochs": 1}
    first = variant.model(**options).fit(log.X, log.truth, log.votes)
    unseen = first._held_out.numpy()
    truth, given = log.truth.copy(), log.given.copy()
    truth[unseen], given[unseen] = (truth[unseen] + 1) % 3, -1
    second = variant.model(**options).fit(log.X, truth, table(given))
    assert (first.defer_proba(log.X) == second.defer_proba(log.X)).all()


def test_augmentations_add_noise_to_features_and_to_nothing_else():
    x = torch.from_numpy(team().X)
    for augmented, share in ((jitter, 0.1), (distort, 0.3)):
        torch.manual_seed(0)
        changed = augmented(x) - x
        kept = changed.abs() < 4 * share * x.std(dim=0)
        assert (changed != 0).all()
        assert kept.float().mean() > 0.7  # the strong one takes a fifth of the features for their means
        assert (changed[kept].std() / (share * x.std())).item() == pytest.approx(1, abs=0.3)
        tokens = torch.arange(12).reshape(3, 4)
        assert (augmented(tokens) == tokens).all()
        assert augmented("text") == "text"


def test_thresholds_of_confidence_are_found_without_dropout(monkeypatch):
    log, modes = team(), []
    found = defer.SelectivePrediction._outcome

    def watched(model, batch):
        modes.append(model._network.training)
        return found(model, batch)

    monkeypatch.setattr(defer.SelectivePrediction, "_outcome", watched)
    defer.SelectivePrediction(backbone(), max_epochs=1, validation=0.0).fit(log.X, log.truth, log.votes)
    assert modes == [False]


def test_a_threshold_is_judged_by_what_the_best_expert_answered():
    """Or by that expert's accuracy in the class, where there is no answer."""
    log = team(60, missing=0.5)
    fitted = defer.SelectivePrediction(backbone(), max_epochs=1).fit(log.X, log.truth, log.votes)
    data = CaseData(log.X, log.truth, log.votes)
    confidence, gain = fitted._outcome(data.batch(torch.arange(60), torch.device("cpu"))).double().numpy().T
    probs, right = fitted.predict_proba(log.X), np.diagonal(fitted.confusion_, axis1=1, axis2=2)
    np.testing.assert_allclose(confidence, probs.max(axis=1), rtol=1e-5)
    for i, truth in enumerate(log.truth):
        best = int(np.argmax(right @ probs[i]))
        expert = right[best, truth] if log.given[i, best] < 0 else float(log.given[i, best] == truth)
        assert gain[i] == pytest.approx(expert - float(probs[i].argmax() == truth), abs=1e-6)


def test_triage_learns_its_division():
    """The classifier from what is left to it, the gate from who takes what among those who answered."""
    log = team(60)
    fitted = defer.Triage(backbone(), coverage=0.5, warmup=0, max_epochs=1).fit(log.X, log.truth, log.votes)
    batch = CaseData(log.X, log.truth, log.votes).batch(torch.arange(60), torch.device("cpu"))
    views = fitted._views(batch.x)
    classes, gate = views.classes.detach().double().numpy(), views.gate.detach().double().numpy()
    own, asked = [], []
    for i, who in enumerate(fitted._division.tolist()):
        options = [j for j in range(3) if log.given[i, j] >= 0] + [3]
        asked.append(-np.log(softmax(gate[i, options])[options.index(who)]))
        if who == 3:
            own.append(-np.log(softmax(classes[i])[log.truth[i]]))
    assert fitted._loss(batch, views).item() == pytest.approx(np.mean(own) + np.mean(asked), rel=1e-5)


def test_answers_are_made_up_only_where_none_was_given():
    log = team(60, missing=0.5)
    fitted = defer.ImputedDeferral(backbone(), max_epochs=1).fit(log.X, log.truth, log.votes)
    batch = CaseData(log.X, log.truth, log.votes).batch(torch.arange(60), torch.device("cpu"))
    made_up = np.tile((log.truth[:, None] + 1) % 3, 3)
    fitted._made_up = torch.from_numpy(made_up)
    found = fitted._e_step(batch, fitted._views(batch.x))[0].exp().detach().numpy()
    known = np.where(log.given < 0, made_up, log.given)
    gate, probs = fitted.defer_proba(log.X), fitted.predict_proba(log.X)
    expected = [complete_posterior(*row, fitted.smoothing) for row in zip(gate, probs, known, log.truth, strict=True)]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_triage_leaves_the_classifier_its_least_coverage_while_training():
    """And no more than that, where experts are better in far more cases."""
    log = team()
    fitted = defer.Triage(backbone(), coverage=(0.8, 1.0), warmup=0, max_epochs=1).fit(log.X, log.truth, log.votes)
    assert int((fitted._division == 3).sum()) == 144


def test_without_missing_answers_probabilistic_is_naive():
    """The gate and the classifier learn the same; only the experts' models, which nobody asks, are there as well."""
    log = team(missing=0.0)
    plain = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))  # nothing random while training
    options = {"max_epochs": 3, "coverage": 0.5, "clip": None}
    naive = defer.NaiveDeferral(plain, linear(6, 4), **options).fit(log.X, log.truth, log.votes)
    for inference in ("mean-field", "exact"):
        full = defer.ProbabilisticDeferral(plain, linear(6, 4), inference=inference, **options)
        full.gate.load_state_dict(naive.gate.state_dict())
        found = full.fit(log.X, log.truth, log.votes)
        np.testing.assert_allclose(found.defer_proba(log.X), naive.defer_proba(log.X), atol=1e-5)
