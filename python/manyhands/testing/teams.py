"""What ways to defer are held to beyond what all who train networks are."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import Annotations
from manyhands.categorical import synthetic
from manyhands.errors import ConvergenceWarning
from manyhands.testing.compare import Array, assert_close, assert_probabilities, require
from manyhands.testing.networks import FEATURES, QUICK, NetworkSubject, Samples, assert_finite

Answers = npt.NDArray[np.int64]
#: Cases of a small team, and its experts.
CASES, EXPERTS = 180, 3
#: Shares of options are counts of cases: half of one may be rounded away at each border.
ROUNDED = 0.02


@dataclass(frozen=True)
class TeamSamples(Samples):
    """Cases with their truth and answers of experts."""

    truth: Answers
    #: What each expert answers to every case, (cases × experts), and the same with -1 where no worker asked.
    full: Answers
    some: Answers


def draw_team(
    n: int = CASES,
    n_classes: int = 3,
    n_experts: int = EXPERTS,
    missing: float = 0.3,
    separation: float = 2.0,
    seed: int = 0,
) -> TeamSamples:
    """Experts who know some of the classes, each others, and guess in half of the cases of the rest."""
    X, truth = synthetic.gaussians(n, n_classes, n_features=FEATURES, separation=separation, seed=seed)
    rng = np.random.default_rng([seed, 1])
    is_correct = (truth[:, None] + np.arange(n_experts)) % 2 == 0
    guess = ~is_correct & (rng.random((n, n_experts)) < 0.5)
    full = np.where(guess, rng.integers(n_classes, size=guess.shape), truth[:, None])
    return with_answers(X.astype(np.float32), truth, full, np.where(rng.random(full.shape) < missing, -1, full))


def with_answers(X: Array, truth: Answers, full: Answers, some: Answers) -> TeamSamples:
    """Cases of which some answers were asked for."""
    return TeamSamples(X, (truth, table(some)), truth, full, some)


def table(answers: Answers, names: npt.NDArray[Any] | None = None) -> Annotations:
    """Answers as a table, -1 for none; experts are numbers unless they have names."""
    cases, experts = np.nonzero(answers >= 0)
    return Annotations.from_arrays(cases, experts if names is None else names[experts], answers[cases, experts])


class TeamSubject(NetworkSubject):
    """A way to defer."""

    argument: ClassVar[str] = "classifier"
    quick: ClassVar[dict[str, Any]] = QUICK | {"lr": 0.05}

    def samples(self, n: int) -> TeamSamples:
        """Cases with answers of three experts."""
        return draw_team(n)

    def answers(self, model: Any, samples: Samples) -> dict[str, Callable[[], Any]]:
        """Classes, options, and decisions of every kind."""
        X, half = samples.X, {"coverage": 0.5}
        return {
            "predict_proba": lambda: model.predict_proba(X),
            "defer_proba": lambda: model.defer_proba(X),
            "expected_accuracy": lambda: model.expected_accuracy(X),
            "decide": lambda: model.decide(X, **half).who,
            "decide by thresholds": lambda: model.decide(X, **half, how="threshold").who,
            "workers_frame": lambda: model.workers_frame(),
        }


def check_results(subject: TeamSubject) -> None:
    """Probabilities are probabilities, shapes fit, and a decision keeps the coverage."""
    samples = draw_team()
    model = subject.trained(samples, coverage=0.5)
    assert_probabilities(model.predict_proba(samples.X), (CASES, 3), "predict_proba")
    assert_probabilities(model.defer_proba(samples.X), (CASES, EXPERTS + 1), "defer_proba")
    expected = assert_finite(model.expected_accuracy(samples.X), "expected_accuracy")
    require(expected.shape == (CASES, EXPERTS + 1), f"expected_accuracy has shape {expected.shape}")
    require(((expected >= 0) & (expected <= 1)).all(), "expected_accuracy holds no probabilities")
    assert_probabilities(model.confusion_, (EXPERTS, 3, 3), "confusion_")
    require(model.experts_.tolist() == [0, 1, 2], "experts_ are not those of the answers")
    require(model.workers_frame().num_rows == EXPERTS, "workers_frame has no row for each expert")
    decision = model.decide(samples.X)
    require((decision.who == EXPERTS).sum() == CASES // 2, "a decision does not keep the coverage")
    require(decision.to_frame().num_rows == CASES, "the frame of a decision has no row for each case")


def check_score(subject: TeamSubject) -> None:
    """The score is that of the decisions, with answers looked up; the best decision is what is expected of the best."""
    samples = draw_team()
    model = subject.trained(samples)
    own = model.predict(samples.X)
    for how, by in (("argmax", "gate"), ("capacity", "gate"), ("threshold", "accuracy"), ("capacity", "accuracy")):
        options = {"coverage": 0.4, "how": how, "by": by}
        who = model.decide(samples.X, **options).who
        labels = np.c_[samples.full, own][np.arange(CASES), who]
        score = model.score(samples.X, samples.truth, table(samples.full), **options)
        assert_close(score, (labels == samples.truth).mean(), 1e-12, f"the score by {how} of {by}")
    best = model.decide(samples.X, coverage=(0.0, 1.0), by="accuracy").expected_accuracy
    assert_close(best, model.expected_accuracy(samples.X).max(axis=1), 1e-6, "expected_accuracy of the best decision")


def check_odd_teams(subject: TeamSubject) -> None:
    """One expert, many, few answers, a perfect expert, two classes: answers are finite and coverage is kept."""
    usual = draw_team()
    right = usual.some.copy()
    right[:, 0] = usual.truth
    cases = {
        "one expert": draw_team(n_experts=1),
        "many experts": draw_team(n_experts=12),
        "most answers missing": draw_team(missing=0.9),
        "two classes": draw_team(n_classes=2),
        "an expert who never errs": with_answers(usual.X, usual.truth, usual.full, right),
    }
    for case, samples in cases.items():
        with warnings.catch_warnings():
            # So few cases may leave a router short of its share; decisions keep it.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = subject.trained(samples, subject.network(int(samples.truth.max()) + 1), coverage=0.5)
        assert_finite(model.defer_proba(samples.X), f"defer_proba, {case},")
        assert_finite(model.expected_accuracy(samples.X), f"expected_accuracy, {case},")
        n_own = (model.decide(samples.X).who == samples.full.shape[1]).sum()
        require(
            n_own == CASES // 2, f"with {case} the classifier takes {n_own} of {CASES} cases, and half was asked for"
        )


def check_one_answer(subject: TeamSubject) -> None:
    """A table in which a single expert answered a single case still trains, and decides."""
    samples = draw_team(20)
    one = np.where((np.arange(20)[:, None] == 3) & (np.arange(EXPERTS) == 0), samples.truth[:, None], -1)
    model = subject.trained(with_answers(samples.X, samples.truth, samples.full, one))
    require(model.experts_.tolist() == [0], "experts_ names those who never answered")
    require(model.decide(samples.X[:1], coverage=1.0).who.tolist() == [1], "full coverage goes to the expert")


def check_all_or_nothing(subject: TeamSubject) -> None:
    """Coverage of nothing and of everything is kept, and all of the classifier's is the classifier alone."""
    samples = draw_team()
    for coverage in (0.0, 1.0):
        model = subject.trained(samples, coverage=coverage)
        for how in ("capacity", "threshold"):
            share = (model.decide(samples.X, how=how).who == EXPERTS).mean()
            require(abs(share - coverage) <= ROUNDED, f"coverage {coverage} by {how} is {share:.3f}")
        score = assert_finite(model.score(samples.X, samples.truth, table(samples.full)), "score")
        if coverage:
            alone = (model.predict(samples.X) == samples.truth).mean()
            assert_close(score, alone, 1e-12, "the score of a team that never defers")


def check_workloads(subject: TeamSubject) -> None:
    """Workloads are kept: even ones, bounds of single experts, and none."""
    samples = draw_team()
    model = subject.trained(samples, coverage=0.4, workload="balanced")
    shares = np.bincount(model.decide(samples.X).who, minlength=4) / CASES
    assert_close(shares, [0.2, 0.2, 0.2, 0.4], 1e-12, "a balanced workload")
    shares = np.bincount(model.decide(samples.X, workload={0: 0.1, 2: (0.3, 0.5)}).who, minlength=4) / CASES
    assert_close(shares[[0, 3]], [0.1, 0.4], 1e-12, "the workload of one expert, and the coverage,")
    require(0.3 - 1e-9 <= shares[2] <= 0.5 + 1e-9, f"a workload of 0.3 to 0.5 is {shares[2]:.3f}")
    free = model.decide(samples.X, coverage=(0.0, 1.0), workload="free")
    require(len(free.who) == CASES, "a decision without bounds has other cases")


def check_names_and_order(subject: TeamSubject) -> None:
    """Experts by another name, and cases in another order, give the same decisions, by name."""
    samples = draw_team()
    names = np.array(["zoe", "amy", "mia"])
    model = subject.model().fit(samples.X, samples.truth, votes := table(samples.some, names))
    require(model.experts_.tolist() == ["amy", "mia", "zoe"], "experts_ are not in the order of their names")
    order = [1, 2, 0]
    same = subject.trained(with_answers(samples.X, samples.truth, samples.full[:, order], samples.some[:, order]))
    assert_close(model.defer_proba(samples.X), same.defer_proba(samples.X), 1e-6, "experts by another name")
    rows = np.random.default_rng(0).permutation(CASES)
    options = {"missing": "available"}
    whole = model.score(samples.X, samples.truth, votes, tasks=np.arange(CASES), **options)
    permuted = model.score(samples.X[rows], samples.truth[rows], votes, tasks=rows, **options)
    assert_close(permuted, whole, 1e-12, "the score of cases in another order")


def check_learns(subject: TeamSubject) -> None:
    """On cases it was not trained on, the team is right more often than the classifier alone."""
    together, alone, _ = _on_new_cases(subject)
    require(together > alone + 0.05, f"together they are right in {together:.3f}, the classifier alone in {alone:.3f}")


def check_chooses(subject: TeamSubject) -> None:
    """The team is right more often than if as many cases went to experts by lot."""
    together, _, by_lot = _on_new_cases(subject)
    require(together > by_lot + 0.03, f"together they are right in {together:.3f}, by lot in {by_lot:.3f}")


def _on_new_cases(subject: TeamSubject) -> tuple[float, float, float]:
    """How often the team is right, the classifier alone, and a team of the same coverage that draws lots."""
    whole = draw_team(4600, n_experts=2, missing=0.2, separation=1.2, seed=4)
    old, new = slice(0, 600), slice(600, None)
    old_samples = with_answers(whole.X[old], whole.truth[old], whole.full[old], whole.some[old])
    model = subject.trained(old_samples, coverage=0.4, max_epochs=8)
    X, truth, full = whole.X[new], whole.truth[new], whole.full[new]
    alone = float((model.predict(X) == truth).mean())
    by_lot = 0.4 * alone + 0.6 * float((full == truth[:, None]).mean())
    return model.score(X, truth, table(full)), alone, by_lot


CHECKS = (
    check_results,
    check_score,
    check_odd_teams,
    check_one_answer,
    check_all_or_nothing,
    check_workloads,
    check_names_and_order,
    check_learns,
    check_chooses,
)
