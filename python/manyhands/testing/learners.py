"""What learners are held to beyond what all who train networks are: those of classes, and of other kinds of answers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

import manyhands as mh
from manyhands import Annotations
from manyhands.categorical import synthetic
from manyhands.testing.compare import Array, assert_probabilities, raises, require
from manyhands.testing.networks import FEATURES, NetworkSubject, Samples, assert_finite

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CrowdSamples(Samples):
    """Samples with labels of a crowd."""

    truth: Codes

    @property
    def votes(self) -> Annotations:
        """The crowd's labels."""
        votes: Annotations = self.given[0]
        return votes


def draw_samples(
    n: int, n_classes: int = 3, n_workers: int = 9, per_task: int = 3, seed: int = 0, **crowd: Any
) -> CrowdSamples:
    """Samples of classes that are normal distributions, and a simulated crowd."""
    X, truth = synthetic.gaussians(n, n_classes, n_features=FEATURES, separation=3.0, seed=seed)
    simulation = mh.simulate(
        truth=truth, n_workers=n_workers, n_classes=n_classes, labels_per_task=per_task, seed=seed, **crowd
    )
    return CrowdSamples(X.astype(np.float32), (simulation.log,), truth)


class LearnerSubject(NetworkSubject):
    """A learner of classes."""

    def samples(self, n: int) -> CrowdSamples:
        """Samples with labels of nine workers."""
        return draw_samples(n)

    def answers(self, model: Any, samples: Samples) -> dict[str, Callable[[], Any]]:
        """Predictions from the samples alone, and with labels."""
        X, (votes,) = samples.X, samples.given
        return {
            "predict_proba": lambda: model.predict_proba(X),
            "predict_proba with votes": lambda: model.predict_proba(X, votes),
            "predict": lambda: model.predict(X),
            "workers_frame": lambda: model.workers_frame(),
        }


def check_results(subject: LearnerSubject) -> None:
    """Probabilities are probabilities, shapes fit, and the score is the share of right predictions."""
    samples = draw_samples(120)
    model = subject.trained(samples)
    for probs in (model.predict_proba(samples.X), model.predict_proba(samples.X, samples.votes)):
        assert_probabilities(probs, (120, 3), "predict_proba")
    require(model.predict_proba(samples.X[:0]).shape == (0, 3), "no sample has predictions of another shape")
    assert_probabilities(model.confusion_, (9, 3, 3), "confusion_")
    assert_probabilities(model.prior_, (3,), "prior_")
    require(((model.skills_ >= 0) & (model.skills_ <= 1)).all(), "skills_ are not shares")
    require(model.workers_frame().num_rows == 9, "workers_frame has no row for each worker")
    predicted = model.predict(samples.X)
    require(set(predicted.tolist()) <= set(samples.votes.classes.tolist()), "predict returns unknown classes")
    right = (predicted == samples.truth).mean()
    require(model.score(samples.X, samples.truth) == right, "score is not the share of right predictions")


def _odd() -> Iterator[tuple[str, CrowdSamples]]:
    """Crowds of which something is at its least."""
    yield "one label per sample", draw_samples(120, per_task=1)
    yield "one worker", draw_samples(120, n_workers=1, per_task=1)
    yield "two classes", draw_samples(120, n_classes=2)
    usual = draw_samples(120)
    yield "one class", CrowdSamples(usual.X, (Annotations.from_dense(np.zeros((120, 2), np.int64)),), usual.truth)
    columns = usual.votes.to_frame()
    wider = Annotations.from_arrays(*(columns[name] for name in ("task", "worker", "label")), classes=range(4))
    yield "a class that no worker named", CrowdSamples(usual.X, (wider,), usual.truth)
    # 33 samples in batches of 32: the last is alone.
    yield "a batch of one sample", CrowdSamples(usual.X, (usual.votes.select(tasks=range(33)),), usual.truth)


def check_odd_crowds(subject: LearnerSubject) -> None:
    """One worker, one class, one label per sample, a class that no worker named, a batch of one: answers are finite."""
    for case, samples in _odd():
        k = samples.votes.n_classes
        with warnings.catch_warnings():
            # An aggregator beneath may need many steps where little is known.
            warnings.simplefilter("ignore", mh.errors.ConvergenceWarning)
            model = subject.trained(samples, subject.network(k))
        assert_probabilities(model.predict_proba(samples.X), (120, k), f"predict_proba, {case},")
        assert_finite(model.confusion_, f"confusion_, {case},")


def check_start_from(subject: LearnerSubject) -> None:
    """An aggregator to start from changes what is learned, fitted or not alike, or is rejected by name."""
    samples = draw_samples(120)
    start = mh.DawidSkene(model="one-coin")
    if not starts(subject.model(start_from=start), samples):
        return
    probabilities = subject.trained(samples, start_from=start).predict_proba(samples.X)
    require((probabilities != subject.trained(samples).predict_proba(samples.X)).any(), "start_from changes nothing")
    fitted = subject.trained(samples, start_from=mh.DawidSkene(model="one-coin").fit(samples.votes))
    require(
        (fitted.predict_proba(samples.X) == probabilities).all(),
        "a fitted aggregator is another start than a fresh one",
    )


def starts(model: Any, samples: CrowdSamples) -> bool:
    """Whether a learner takes the aggregator that it is to start from; one that does not must report it."""
    try:
        model.fit(samples.X, samples.votes)
    except ValueError as error:
        require("start_from" in str(error), f"a start is rejected without naming start_from: {error}")
        return False
    return True


def check_misaligned(subject: LearnerSubject) -> None:
    """Samples that are not finite, or that the labels' tasks are not found among, are rejected by name."""
    samples = draw_samples(60)
    holed = np.where(np.arange(60)[:, None] == 7, np.nan, samples.X)
    with raises(ValueError, "samples with NaN", "row 7"):
        subject.model().fit(holed, samples.votes)
    with raises(ValueError, "labels of tasks without samples", "not rows of X"):
        subject.model().fit(samples.X[:10], samples.votes)


def check_learns(subject: LearnerSubject) -> None:
    """From a crowd of fair workers it learns to be right more often than the labels that it was given."""
    samples = draw_samples(600, n_workers=12, crowd="one-coin", accuracy=(0.6, 0.8))
    tasks, _, labels = samples.votes.codes()
    single = (labels == samples.truth[samples.votes.tasks[tasks]]).mean()
    model = subject.trained(samples, max_epochs=25, lr=5e-3, worker_lr=5e-3)
    for name, predictions in (
        ("alone", model.predict(samples.X)),
        ("with labels", model.predict(samples.X, samples.votes)),
    ):
        right = (predictions == samples.truth).mean()
        require(right > single + 0.1, f"accuracy on samples {name} is {right:.3f}, of a single label {single:.3f}")


CHECKS = (check_results, check_odd_crowds, check_start_from, check_misaligned, check_learns)


# --------------------------------------------------------------------------------- other kinds of answers


def _features(n: int) -> Array:
    return np.random.default_rng(n).normal(size=(n, FEATURES)).astype(np.float32)


class RatingSubject(NetworkSubject):
    """A learner of numbers."""

    outputs: ClassVar[int] = 1

    def samples(self, n: int) -> Samples:
        """Samples with ratings of six workers."""
        X, rng = _features(n), np.random.default_rng(0)
        task, worker = np.arange(n).repeat(3), rng.integers(6, size=3 * n)
        values = X[task, 0] + 0.2 * worker + 0.3 * rng.normal(size=3 * n)
        return Samples(X, (mh.Ratings.from_arrays(task, worker, values),))

    def answers(self, model: Any, samples: Samples) -> dict[str, Callable[[], Any]]:
        """Predicted values, and what is known of the workers."""
        return {"predict": lambda: model.predict(samples.X), "workers_frame": lambda: model.workers_frame()}


def _pairs(X: Array) -> dict[str, Codes]:
    rng, n = np.random.default_rng(0), len(X)
    left = rng.integers(n, size=4 * n)
    return {"left": left, "right": (left + rng.integers(1, n, size=4 * n)) % n, "worker": rng.integers(6, size=4 * n)}


class ComparisonSubject(NetworkSubject):
    """A learner of rewards."""

    outputs: ClassVar[int] = 1

    def samples(self, n: int) -> Samples:
        """Items with comparisons of six workers."""
        X = _features(n)
        pairs = _pairs(X)
        ahead = X[pairs["left"], 0] - X[pairs["right"], 0] + np.random.default_rng(1).normal(size=4 * n) > 0
        winner = np.where(ahead, pairs["left"], pairs["right"])
        return Samples(X, (mh.Comparisons.from_arrays(pairs["left"], pairs["right"], winner, pairs["worker"]),))

    def answers(self, model: Any, samples: Samples) -> dict[str, Callable[[], Any]]:
        """Rewards, and the predicted winners."""
        X = samples.X
        return {"predict": lambda: model.predict(X), "predict_proba": lambda: model.predict_proba(X[:9], X[9:18])}


class GroupedComparisonSubject(ComparisonSubject):
    """A learner of the rewards of groups that comparisons do not name."""

    outputs: ClassVar[int] = 2


class SamenessSubject(NetworkSubject):
    """A learner of which samples are of one kind."""

    def samples(self, n: int) -> Samples:
        """Samples with answers of six workers whether pairs are of one kind."""
        X = _features(n)
        pairs = _pairs(X)
        same = (X[pairs["left"], 0] > 0) == (X[pairs["right"], 0] > 0)
        answers = same ^ (np.random.default_rng(1).random(4 * n) < 0.2)
        return Samples(X, (mh.Similarities.from_arrays(pairs["left"], pairs["right"], pairs["worker"], answers),))

    def answers(self, model: Any, samples: Samples) -> dict[str, Callable[[], Any]]:
        """Memberships, and what is known of the workers."""
        X = samples.X
        return {"predict_proba": lambda: model.predict_proba(X), "workers_frame": lambda: model.workers_frame()}


def check_finite(subject: NetworkSubject) -> None:
    """Whatever is asked of it is finite, for one sample and for none too."""
    model = subject.trained()
    for X in (subject.standard.X, subject.standard.X[:1], subject.standard.X[:0]):
        require(
            len(assert_finite(model.predict(X), "predict")) == len(X), f"predict of {len(X)} samples has other rows"
        )


OTHER_CHECKS = (check_finite,)
