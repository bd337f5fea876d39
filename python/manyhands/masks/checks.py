"""Checks that every mask aggregator must pass, in addition to those of all estimators."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import manyhands as mh
from manyhands.testing.common import check_order_of_rows, check_renaming
from manyhands.testing.compare import assert_same_frames, require
from manyhands.testing.subject import Subject, TaskLog


class MaskLog(TaskLog):
    """A simulated log of masks."""

    table = mh.Masks


@cache
def simulate_log(n_tasks: int, size: int, careless: int, margin: int = 0) -> MaskLog:
    """Simulate a log of nine or more workers."""
    masks = mh.simulate(n_tasks, size=size, careless=careless, seed=n_tasks, kind="masks").log
    tasks, workers, _ = masks.table.columns()
    arrays = [np.pad(masks.mask(row), margin) for row in range(len(masks))]
    return MaskLog(tasks.astype(np.int64), workers.astype(np.int64), arrays)


def edge_cases() -> dict[str, MaskLog]:
    """Logs with edge cases."""
    one, same, three = np.zeros(1, np.int64), np.zeros(3, np.int64), np.arange(3)
    nothing, all_ = np.zeros((3, 3), np.int64), np.ones((3, 3), np.int64)
    return {
        "one mask": MaskLog(one, one, [all_]),
        "all empty": MaskLog(same, three, [nothing] * 3),
        "full agreement": MaskLog(same, three, [all_] * 3),
        "nothing in common": MaskLog(same, three, [np.eye(3, dtype=int), np.eye(3, dtype=int)[::-1], nothing]),
        "one worker": MaskLog(three, same, [all_, nothing, all_]),
        "classes": MaskLog(same, three, [all_ * 3, all_, nothing]),
        "repeats": MaskLog(same, np.array([0, 0, 1]), [all_, nothing, all_]),
        "weights of zero": MaskLog(same, three, [all_, nothing, all_], np.zeros(3)),
        "one pixel": MaskLog(same, three, [np.ones((1, 1), int)] * 3),
    }


class MaskSubject(Subject):
    """An aggregator of masks."""

    @property
    def standard(self) -> MaskLog:
        """Six small images."""
        return simulate_log(6, 16, 1)

    @property
    def other(self) -> MaskLog:
        """A log with fewer images, another size and more workers."""
        return simulate_log(4, 12, 3)

    @property
    def large(self) -> MaskLog:
        """A log with more and larger images."""
        return simulate_log(20, 48, 1)


def _assert_same_masks(one: Any, other: Any, what: str) -> None:
    """Compare the masks of two models pixel by pixel."""
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=what)


def check_sound(subject: MaskSubject) -> None:
    """Each task has one mask of the right shape, and confidences are in [0, 1], including edge cases."""
    for name, log in {"an ordinary log": subject.standard, **edge_cases()}.items():
        votes, model = log.votes(), subject.fitted(log)
        shapes = [mask.shape for mask in model.masks_]
        require(shapes == [tuple(shape) for shape in votes.shapes.tolist()], f"{name}: masks have shapes {shapes}")
        for numbers in (model.confidence_, model.disputed_):
            require(((numbers >= 0) & (numbers <= 1)).all(), f"{name}: confidence_ or disputed_ is outside [0, 1]")
        for column in model.workers_frame().columns[1:]:
            values = column.to_numpy()
            sound = np.isfinite(values).all() or np.isnan(values).all()
            require(sound, f"{name}: workers_frame contains non-finite values")


def check_agreement(subject: MaskSubject) -> None:
    """Unanimous masks, including empty ones, are kept."""
    for name in ("all empty", "full agreement", "one worker"):
        log = edge_cases()[name]
        model = subject.fitted(log)
        require(not model.disputed_.any() and (model.confidence_ == 1).all(), f"{name}: unanimous pixels are disputed")
        first = [log.answers[int(np.flatnonzero(log.tasks == task)[0])] > 0 for task in range(len(model.tasks_))]
        _assert_same_masks(model.masks_, first, f"{name}: unanimous mask is changed")


def check_padding(subject: MaskSubject) -> None:
    """Empty margins do not change scores and masks."""
    before, after = subject.fitted(simulate_log(6, 16, 1)), subject.fitted(simulate_log(6, 16, 1, margin=5))
    _assert_same_masks([mask[5:-5, 5:-5] for mask in after.masks_], before.masks_, "masks_ depend on margins")
    assert_same_frames(after.workers_frame(), before.workers_frame(), "scores of workers depend on margins")
    np.testing.assert_array_equal(after.confidence_, before.confidence_)


CHECKS = (check_sound, check_agreement, check_order_of_rows, check_renaming, check_padding)
SUBJECT = MaskSubject
