"""Checks that every numeric aggregator must pass, in addition to those of all estimators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

import manyhands as mh
from manyhands.testing.compare import SAME, assert_close, raises, require
from manyhands.testing.subject import Subject, TaskLog

#: Tolerance for results of different iteration paths, relative to the standard deviation of the ratings.
ITERATION_TOLERANCE = 1e-3


class RatingLog(TaskLog):
    """Simulated ratings: values of shape (rows,) or (rows, dimensions), and weights or None."""

    table = mh.Ratings


@cache
def simulate_log(n_tasks: int, n_workers: int, each: int, n_dims: int = 1, seed: int = 0) -> RatingLog:
    """Simulate typical workers plus one that always gives the same answer and one that guesses."""
    crowd = mh.simulate(
        n_tasks, n_workers, answers_per_task=each, n_dims=n_dims, mean=20.0, deviation=4.0, seed=seed, kind="numeric"
    )
    tasks, workers, values = crowd.log.codes()
    rng = np.random.default_rng(seed)
    values = values.copy()
    values[workers == 0] = 20.0
    values[workers == 1] = rng.normal(20.0, 8.0, values[workers == 1].shape)
    return RatingLog(tasks.astype(np.int64), workers.astype(np.int64), values)


def _log(*rows: tuple[int, int, float], weights: list[float] | None = None) -> RatingLog:
    tasks, workers, values = zip(*rows, strict=True)
    weight_array = None if weights is None else np.array(weights)
    return RatingLog(np.array(tasks), np.array(workers), np.array(values), weight_array)


def edge_cases() -> dict[str, RatingLog]:
    """Logs with edge cases."""
    many = simulate_log(30, 6, 3)
    return {
        "one rating": _log((0, 0, 3.0)),
        "one task": _log((0, 0, 3.0), (0, 1, 4.0), (0, 2, 9.0)),
        "one worker": _log((0, 0, 3.0), (1, 0, 4.0), (2, 0, 9.0)),
        "one rating per task": _log((0, 0, 3.0), (1, 1, 4.0), (2, 0, 9.0), (3, 1, 2.0)),
        "all the same": _log((0, 0, 3.0), (0, 1, 3.0), (1, 0, 3.0), (1, 1, 3.0)),
        "full agreement": _log((0, 0, 3.0), (0, 1, 3.0), (1, 0, 5.0), (1, 1, 5.0)),
        "two workers, opposite": _log((0, 0, 1.0), (0, 1, -1.0), (1, 0, -1.0), (1, 1, 1.0)),
        "repeats": _log((0, 0, 3.0), (0, 0, 3.5), (0, 1, 4.0), (1, 0, 9.0), (1, 0, 9.5)),
        "weights of zero": _log((0, 0, 3.0), (0, 1, 4.0), (1, 0, 9.0), (1, 1, 7.0), weights=[1.0, 0.0, 0.0, 0.0]),
        "heavy weights": replace(many, extra=np.where(np.arange(len(many.tasks)) % 3, 1e-20, 1e12)),
        "huge numbers": replace(many, answers=many.answers * 1e306),
        "tiny numbers": replace(many, answers=many.answers * 1e-300),
        "small differences": replace(many, answers=1e9 + many.answers * 1e-3),
        "constant workers": replace(many, answers=many.workers.astype(np.float64)),
        "points": simulate_log(20, 6, 3, 2),
    }


@dataclass(frozen=True)
class NumberSubject(Subject):
    """An aggregator of numbers."""

    @property
    def standard(self) -> RatingLog:
        """Forty tasks, four ratings each."""
        return simulate_log(40, 10, 4)

    @property
    def other(self) -> RatingLog:
        """A log with fewer tasks, and points."""
        return simulate_log(25, 8, 3, 2, seed=5)

    @property
    def large(self) -> RatingLog:
        """A log of several chunks."""
        return simulate_log(25_000, 100, 4, seed=2)

    def answers(self, model: Any, votes: Any) -> dict[str, Callable[[], Any]]:
        """Return the methods of a fitted model that give results."""
        return {
            "to_frame": model.to_frame,
            "workers_frame": model.workers_frame,
            "intervals": model.intervals,
            "predict": lambda: model.predict(votes),
        }


def assert_sound(model: Any, log: RatingLog, what: str) -> None:
    """Check that results are finite and have the right shapes, and that errors are not negative."""
    votes = log.votes()
    of_tasks = (votes.n_tasks,) if votes.n_dims == 1 else (votes.n_tasks, votes.n_dims)
    of_workers = (votes.n_workers, *of_tasks[1:])
    shapes = {"values_": of_tasks, "errors_": of_tasks, "intervals_": (*of_tasks, 2)}
    shapes |= dict.fromkeys(("bias_", "scale_", "noise_"), of_workers)
    for name, shape in shapes.items():
        value = getattr(model, name)
        require(value.shape == shape, f"{what}: {name} has shape {value.shape}, not {shape}")
        if name != "intervals_":
            require(np.isfinite(value).all(), f"{what}: {name} contains non-finite numbers")
    require((model.errors_ >= 0).all() and (model.noise_ >= 0).all(), f"{what}: errors are negative")
    ends = model.intervals_
    require((ends[..., 0] <= ends[..., 1]).all(), f"{what}: an interval ends before it starts")
    require(np.isfinite(model.history_).all(), f"{what}: history_ contains non-finite numbers")
    changes = np.diff(model.history_)
    require(
        (changes >= -1e-7 * np.abs(model.history_[1:]) - 1e-7).all(),
        f"{what}: history_ decreases by {-changes.min(initial=0):.3g}",
    )


def check_sound(subject: NumberSubject) -> None:
    """Results are finite and of the right shapes, errors are not negative, the objective never decreases."""
    assert_sound(subject.fitted(), subject.standard, "a simulated log")


def check_odd_tables(subject: NumberSubject) -> None:
    """Edge cases give valid results: one task, worker or rating, agreement, repeats, weights, numbers of any size."""
    for name, log in edge_cases().items():
        assert_sound(subject.fitted(log), log, name)


def check_full_agreement(subject: NumberSubject) -> None:
    """If all ratings of a task are equal, they are its value."""
    log = edge_cases()["full agreement"]
    assert_close(subject.fitted(log).values_, [3.0, 5.0], ITERATION_TOLERANCE, "values_ of unanimous ratings")


def check_order_of_rows(subject: NumberSubject) -> None:
    """The order of the rows does not change the result (bit for bit)."""
    before, after = subject.fitted(), subject.fitted(subject.standard.reordered())
    np.testing.assert_array_equal(before.values_, after.values_)
    np.testing.assert_array_equal(before.errors_, after.errors_)


def _rename_workers(subject: NumberSubject, part: str) -> tuple[Any, Any, npt.NDArray[np.int64]]:
    log = subject.standard
    codes = getattr(log, part)
    order = np.random.default_rng(1).permutation(int(codes.max()) + 1)
    permuted = replace(log, **{part: order[codes]})
    return subject.fitted(log), subject.make(permuted).fit(permuted.votes()), order


def check_renaming_tasks(subject: NumberSubject) -> None:
    """Permuting task ids permutes their values."""
    before, after, order = _rename_workers(subject, "tasks")
    assert_close(after.values_[order], before.values_, SAME, "values_, tasks renamed")
    assert_close(after.errors_[order], before.errors_, SAME, "errors_, tasks renamed")


def check_renaming_workers(subject: NumberSubject) -> None:
    """Permuting worker ids permutes worker parameters and does not change values."""
    before, after, order = _rename_workers(subject, "workers")
    assert_close(after.values_, before.values_, SAME, "values_, workers renamed")
    assert_close(after.noise_[order], before.noise_, SAME, "noise_, workers renamed")


def check_shift_and_scale(subject: NumberSubject) -> None:
    """Rescaled ratings (including negative factors) give rescaled values and errors."""
    log, before = subject.standard, subject.fitted()
    deviation = float(log.answers.std())
    for factor, more in ((1.0, 1e3), (1e-6, 0.0), (-2.0, 5.0)):
        after = subject.fitted(replace(log, answers=factor * log.answers + more))
        what = f"ratings times {factor:g} plus {more:g}"
        assert_close(
            (after.values_ - more) / factor / deviation, before.values_ / deviation, 1e-6, f"values_ of {what}"
        )
        assert_close(after.errors_ / abs(factor) / deviation, before.errors_ / deviation, 1e-6, f"errors_ of {what}")
        assert_close(after.scale_, before.scale_, 1e-6, f"scale_ of {what}")


def check_weights_count(subject: NumberSubject) -> None:
    """A weight of 2 equals repeating the rating."""
    log = subject.standard
    twice = RatingLog(*(np.concatenate([part, part]) for part in (log.tasks, log.workers, log.answers)))
    weighted = replace(log, extra=np.full(len(log.tasks), 2.0))
    a, b = subject.fitted(twice), subject.fitted(weighted)
    assert_close(a.values_, b.values_, 1e-6, "values_ of repeated ratings")
    assert_close(a.errors_, b.errors_, 1e-6, "errors_ of repeated ratings")


def check_predict_repeats_fit(subject: NumberSubject) -> None:
    """Prediction on the table of `fit` gives the fitted values."""
    for log in (subject.standard, subject.other):
        model = subject.fitted(log)
        assert_close(model.predict(log.votes()), model.values_, SAME, "predict on the ratings of fit")


def check_predict_others(subject: NumberSubject) -> None:
    """New tasks and unknown workers have finite values; points of another dimension raise."""
    log, model = subject.standard, subject.fitted()
    new = model.predict(replace(log, tasks=log.tasks + 100, workers=log.workers + 5).votes())
    require(np.isfinite(new).all(), "values of new tasks are not finite")
    unknown_worker = _log((0, 10**6, 21.0), (1, 10**6, 22.0)).votes()
    require(np.isfinite(model.predict(unknown_worker)).all(), "values by unknown workers are not finite")
    with raises(ValueError, "ratings of two numbers", "2 numbers"):
        model.predict(subject.other.votes())


def check_frames(subject: NumberSubject) -> None:
    """Frames contain the fitted attributes."""
    model = subject.fitted()
    frame, workers = model.to_frame(), model.workers_frame()
    require(
        frame.column_names == ["task", "value", "confidence", "error", "low", "high"],
        f"to_frame has {frame.column_names}",
    )
    np.testing.assert_array_equal(frame["value"].to_numpy(), model.values_)
    np.testing.assert_array_equal(frame["high"].to_numpy(), model.intervals_[:, 1])
    expected = ["worker", "n_answers", "skill", "skill_error", "bias", "scale", "noise"]
    require(workers.column_names == expected, f"workers_frame has {workers.column_names}")
    np.testing.assert_array_equal(workers["noise"].to_numpy(), model.noise_)
    points = subject.fitted(subject.other).to_frame().column_names
    require(len(points) == 10, f"to_frame of points has the columns {points}")


def check_wider_levels(subject: NumberSubject) -> None:
    """Intervals of a higher level contain those of a lower level; a level outside (0, 1) raises."""
    model = subject.fitted()
    inner, outer = model.intervals(0.5), model.intervals(0.99)
    require((outer[:, 0] <= inner[:, 0]).all() and (inner[:, 1] <= outer[:, 1]).all(), "99 % intervals are too narrow")
    with raises(ValueError, "a level of 1", "level"):
        model.intervals(1.0)


CHECKS = (
    check_sound,
    check_odd_tables,
    check_full_agreement,
    check_order_of_rows,
    check_renaming_tasks,
    check_renaming_workers,
    check_shift_and_scale,
    check_weights_count,
    check_predict_repeats_fit,
    check_predict_others,
    check_frames,
    check_wider_levels,
)
SUBJECT = NumberSubject
