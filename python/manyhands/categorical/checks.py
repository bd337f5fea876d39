"""What every aggregator of classes is held to, beyond what all estimators are."""

from __future__ import annotations

import unittest
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

import manyhands as mh
from manyhands._base.checks import LEAST_COUNT, MOST_COUNT
from manyhands.categorical.panels import Anchored
from manyhands.ordinal import decide
from manyhands.testing.compare import (
    SAME,
    assert_close,
    assert_probabilities,
    assert_same_bits,
    assert_sound,
    raises,
    require,
)
from manyhands.testing.crowds import ODD, STANDARD, UNTIED, Crowd, Rows, crowd, large
from manyhands.testing.subject import Subject


@dataclass(frozen=True)
class ClassSubject(Subject):
    """An aggregator of classes."""

    #: The most classes it takes; None for any number.
    most_classes: int | None = None

    @classmethod
    def of(cls, estimator: Any, skip: Mapping[str, str]) -> Self:
        """The subject of an aggregator's checks, on logs of no more classes than it takes."""
        subject = super().of(estimator, skip)
        return replace(subject, most_classes=subject.make(subject.standard)._most_classes)

    def fits(self, log: Crowd) -> Crowd:
        """The log, with classes laid together where it has too many."""
        return log.of_at_most(self.most_classes)

    @property
    def standard(self) -> Crowd:
        """Forty tasks of three classes, or of as many as it takes."""
        return self.fits(STANDARD)

    @property
    def other(self) -> Crowd:
        """Fewer tasks, and a class more."""
        return self.fits(crowd(n_tasks=25, n_workers=8, n_classes=4, seed=5))

    @property
    def large(self) -> Crowd:
        """Several chunks of tasks."""
        return large(self.most_classes or 3)

    def answers(self, model: Any, votes: Any) -> dict[str, Callable[[], Any]]:
        """Frames and predictions."""
        return {
            "to_frame": model.to_frame,
            "workers_frame": model.workers_frame,
            "predict": lambda: model.predict(votes),
            "predict_proba": lambda: model.predict_proba(votes),
        }


@contextmanager
def on(what: str) -> Iterator[None]:
    """Say on which log something went wrong."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error


def check_probabilities(subject: ClassSubject) -> None:
    """Posteriors, confusion matrices and the prior are probabilities, shapes fit, and the objective never falls."""
    assert_sound(subject.fitted())
    model = subject.fitted()
    winners, clear = _winners(model), ~model.tied_
    decision = getattr(model, "decision", "mode")
    problem = "labels_ are not the most probable" if decision == "mode" else f"labels_ are not the {decision}"
    np.testing.assert_array_equal(np.asarray(model.labels_)[clear], model.classes_[winners][clear], err_msg=problem)


def _winners(model: Any) -> npt.NDArray[np.uint16]:
    """Codes of the classes that a model names; methods for ordered classes have a loss and a posterior to decide by."""
    return decide(getattr(model, "undiscounted_", model.posterior_), getattr(model, "decision", "mode"))


def check_odd_tables(subject: ClassSubject) -> None:
    """One task, worker, class or annotation; agreement, disagreement and repeats: all give a sound answer."""
    for name, log in ODD.items():
        with on(name):
            assert_sound(subject.fitted(subject.fits(log)))


def check_unused_class(subject: ClassSubject) -> None:
    """A class that no worker named is known and never wins."""
    if subject.most_classes is not None:
        raise unittest.SkipTest("it takes no class more")
    log = replace(subject.standard, classes=(*subject.standard.classes, "unused"))
    model = subject.make(log).fit(log.votes(classes=log.classes))
    assert_sound(model)
    require(model.classes_.tolist() == list(log.classes), f"classes_ are {model.classes_.tolist()}")
    require("unused" not in model.labels_.tolist(), "a task was given a class that no worker named")


# --------------------------------------------------------------------------------------------------- renaming


def assert_renames(subject: ClassSubject, log: Crowd, part: str, order: Rows, tolerance: float = SAME) -> None:
    """Renaming renames the answer. All names must occur in the log."""
    before = subject.fitted(log)
    permuted = log.renamed(part, order)
    after = subject.fitted(permuted)
    by = {p: order if p == part else np.arange(len(getattr(log, p))) for p in ("tasks", "workers", "classes")}
    n, m, k = by["tasks"], by["workers"], by["classes"]
    assert_close(after.posterior_[np.ix_(n, k)], before.posterior_, tolerance, f"posterior_, {part} renamed")
    assert_close(after.confusion_[np.ix_(m, k, k)], before.confusion_, tolerance, f"confusion_, {part} renamed")
    assert_close(after.prior_[k], before.prior_, tolerance, f"prior_, {part} renamed")
    assert_close(after.history_, before.history_, tolerance, f"history_, {part} renamed")
    # Posteriors as close as rounding may or may not count as tied; all others have the same winner.
    ranked = np.sort(before.posterior_, axis=1)
    clear = ranked[:, -1] - ranked[:, :-1].max(axis=1, initial=0.0) > 1e-6
    require(not after.tied_[n][clear].any(), f"tasks are tied after {part} were renamed")
    name_of = dict(zip(log.classes, permuted.classes, strict=True))
    renamed = np.array([name_of.get(label) for label in before.labels_.tolist()])
    np.testing.assert_array_equal(after.labels_[n][clear], renamed[clear], err_msg=f"labels_, {part} renamed")


def _shuffle(log: Crowd, part: str) -> Rows:
    order = np.random.default_rng(0).permutation(len(getattr(log, part)))
    # Never the order as it was.
    return np.roll(order, 1) if (order == np.arange(len(order))).all() else order


def check_renaming_tasks(subject: ClassSubject) -> None:
    """Exchanging the names of tasks, and so their order, exchanges their answers and changes nothing else."""
    assert_renames(subject, subject.standard, "tasks", _shuffle(subject.standard, "tasks"))


def check_renaming_workers(subject: ClassSubject) -> None:
    """Exchanging the names of workers exchanges what is learned of them and changes nothing else."""
    assert_renames(subject, subject.standard, "workers", _shuffle(subject.standard, "workers"))


def check_renaming_classes(subject: ClassSubject) -> None:
    """Exchanging the names of classes exchanges the answers, also where tasks are tied."""
    assert_renames(subject, subject.standard, "classes", np.arange(len(subject.standard.classes))[::-1])


def check_renaming_classes_untied(subject: ClassSubject) -> None:
    """Exchanging the names of two classes exchanges the answers where no task is tied."""
    assert_renames(subject, UNTIED, "classes", np.array([1, 0]))


def check_order_of_rows(subject: ClassSubject) -> None:
    """The order of rows in the log does not matter."""
    log = subject.standard
    shuffled = replace(log, rows=np.random.default_rng(0).permutation(log.rows))
    assert_same_bits(subject.make(log).fit(shuffled.votes()), subject.fitted(), "fits of a log in two orders")


def check_repeats_count_twice(subject: ClassSubject) -> None:
    """A row that occurs twice counts as one of weight two."""
    twice, heavy, once = (
        subject.make(subject.standard).fit(log.votes())
        for log in (subject.standard.repeated(), subject.standard.weighted(), subject.standard)
    )
    for name in ("posterior_", "confusion_", "prior_"):
        assert_close(getattr(twice, name), getattr(heavy, name), SAME, f"{name} of repeats and of weights")
    require(not np.allclose(twice.posterior_, once.posterior_), "a row that occurs twice counts once")


# ------------------------------------------------------------------------------------------- input and output


def check_any_frame(subject: ClassSubject) -> None:
    """A dictionary of columns, and each frame library that is installed, gives what the table gives."""
    columns = subject.standard.columns()
    model = subject.fitted()
    for name, frame in _frames(columns).items():
        with on(name):
            assert_same_bits(subject.make(subject.standard).fit(frame), model, "fits of a frame and of its table")
    with raises(TypeError, "fit of a list", "expected Annotations or a frame"):
        subject.make(subject.standard).fit([1, 2, 3])


def _frames(columns: dict[str, list[Any]]) -> dict[str, Any]:
    import pyarrow as pa

    frames: dict[str, Any] = {"a dictionary": columns, "an Arrow table": pa.table(columns)}
    try:
        import pandas as pd
    except ImportError:
        pass
    else:
        frames |= {"pandas": pd.DataFrame(columns), "pandas categories": pd.DataFrame(columns).astype("category")}
    try:
        import polars as pl
    except ImportError:
        pass
    else:
        frames["polars"] = pl.DataFrame(columns)
    return frames


def check_frames(subject: ClassSubject) -> None:
    """What is shown as frames agrees with the results."""
    votes = subject.standard.votes()
    model = subject.make(subject.standard).fit(votes)
    frame = model.to_frame()
    require(frame.column_names == ["task", "label", "confidence", "tied"], f"to_frame has {frame.column_names}")
    require(frame.column("task").to_pylist() == votes.tasks.tolist(), "tasks of to_frame differ from the table's")
    require(frame.column("label").to_pylist() == model.labels_.tolist(), "labels of to_frame differ from labels_")
    sure = model.posterior_[np.arange(votes.n_tasks), _winners(model)]
    assert_close(frame.column("confidence").to_numpy(), sure, 1e-12, "confidence")
    require(frame.column("tied").to_pylist() == model.tied_.tolist(), "ties of to_frame differ from tied_")
    workers = model.workers_frame()
    require(workers.column("worker").to_pylist() == votes.workers.tolist(), "workers differ from the table's")
    require(workers.column("n_answers").to_pylist() == votes.labels_per_worker.tolist(), "n_answers differ")
    right = np.einsum("k,mkk->m", model.prior_, model.confusion_)
    skill = workers.column("skill").to_numpy()
    if isinstance(model, Anchored):
        # Errors may coincide: skills are between what the matrices say and the agreement with the answers.
        require(((skill >= 0) & (skill <= 1)).all(), f"skill of a worker is {skill.min()} or {skill.max()}")
    else:
        assert_close(skill, right, SAME, "skill")
    for name in set(workers.column_names) - {"worker", "n_answers", "skill"}:
        values = workers.column(name).to_numpy()
        require(np.isfinite(values).all() and (values >= -SAME).all(), f"{name} of a worker is {values.min()}")


def check_fit_predict(subject: ClassSubject) -> None:
    """fit_predict and fit_predict_proba return what fit learns."""
    votes, model = subject.standard.votes(), subject.fitted()
    fresh = (subject.make(subject.standard) for _ in range(2))
    np.testing.assert_array_equal(next(fresh).fit_predict(votes), model.labels_, err_msg="fit_predict")
    np.testing.assert_array_equal(next(fresh).fit_predict_proba(votes), model.posterior_, err_msg="fit_predict_proba")


# ------------------------------------------------------------------------------------------------- prediction


def check_predict_repeats_fit(subject: ClassSubject) -> None:
    """Prediction for the tasks of fit repeats the answer; new tasks need neither all workers nor all classes."""
    votes = subject.standard.votes()
    model = subject.make(subject.standard).fit(votes)
    assert_close(model.predict_proba(votes), model.posterior_, SAME, "predict_proba of the same table")
    clear = ~model.tied_
    np.testing.assert_array_equal(model.predict(votes)[clear], model.labels_[clear], err_msg="predict")
    some = votes.select(tasks=votes.tasks[5:8], workers=votes.workers[:7])
    few = mh.Annotations.from_frame(some.to_frame())
    expected = model.predict_proba(votes.select(workers=votes.workers[:7]))[5:8]
    assert_close(model.predict_proba(few), expected, SAME, "predict_proba of some tasks")


def check_predict_leaves_the_fit(subject: ClassSubject) -> None:
    """Prediction for other tasks does not change what was learned."""
    model = subject.fitted()
    model.predict_proba(subject.fits(crowd(n_tasks=9, seed=8)).votes())
    assert_same_bits(model, subject.fitted(), "a model before and after prediction")


def check_unseen_worker(subject: ClassSubject) -> None:
    """Answers of workers who were not seen in fit still give probabilities."""
    model = subject.fitted()
    k = len(model.classes_)
    new = mh.Annotations.from_arrays(
        ["x", "x", "x", "y", "y", "z"],
        ["w00", "somebody", "w05", "somebody", "w01", "a stranger"],
        [model.classes_[i % k] for i in range(6)],
    )
    assert_probabilities(model.predict_proba(new), (3, k), "predict_proba")


def check_unseen_class(subject: ClassSubject) -> None:
    """A label that was not among the classes of fit is rejected; one that is only known by name does no harm."""
    model = subject.fitted()
    new = mh.Annotations.from_arrays(["x", "y"], ["w00", "w01"], ["c1", "zebra"])
    with raises(ValueError, "predict_proba of a class not seen", "'zebra'", "classes seen in fit"):
        model.predict_proba(new)
    harmless = mh.Annotations.from_arrays(["x"], ["w00"], ["c1"], classes=["c1", "zebra"])
    assert_probabilities(model.predict_proba(harmless), (1, len(model.classes_)), "predict_proba")


# ---------------------------------------------------------------------------------------------------- weights


def check_extreme_weights(subject: ClassSubject) -> None:
    """Finite in, finite out: from the smallest to the largest weight that a table takes, and their mixtures."""
    log, least, most = subject.standard, LEAST_COUNT, MOST_COUNT
    n = len(log.rows)
    task, worker = log.rows[:, 0], log.rows[:, 1]
    weights = {
        "largest": np.full(n, most),
        "smallest": np.full(n, least),
        "spread": 10.0 ** np.random.default_rng(0).uniform(np.log10(least), np.log10(most), n),
        "all zero": np.zeros(n),
        "a single giant": np.where(np.arange(n) == 7, most, 1.0),
        "half of them tiny": np.where(np.arange(n) % 2 == 0, least, 1.0),
        "a task and a worker without": np.where((task == 0) | (worker == 1), 0.0, 1.0),
    }
    for name, column in weights.items():
        heavy = replace(log, weights=column)
        with warnings.catch_warnings():
            # The fit may report what such weights do not determine.
            warnings.simplefilter("ignore", mh.errors.ConvergenceWarning)
            votes = heavy.votes()
            with on(f"weights: {name}"):
                model = subject.make(heavy).fit(votes)
                assert_sound(model, heaviest=column.max())
                assert_probabilities(model.predict_proba(votes), model.posterior_.shape, "predict_proba")
                workers = model.workers_frame()
                for measure in set(workers.column_names) - {"worker"}:
                    finite = np.isfinite(workers.column(measure).to_numpy()).all()
                    require(finite, f"{measure} of a worker is not finite")


CHECKS = (
    check_probabilities,
    check_odd_tables,
    check_unused_class,
    check_renaming_tasks,
    check_renaming_workers,
    check_renaming_classes,
    check_renaming_classes_untied,
    check_order_of_rows,
    check_repeats_count_twice,
    check_any_frame,
    check_frames,
    check_fit_predict,
    check_predict_repeats_fit,
    check_predict_leaves_the_fit,
    check_unseen_worker,
    check_unseen_class,
    check_extreme_weights,
)
SUBJECT = ClassSubject
