"""Checks that every box aggregator must pass, in addition to those of all estimators."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

import manyhands as mh
from manyhands.testing.common import check_order_of_rows, check_renaming
from manyhands.testing.compare import require
from manyhands.testing.subject import Subject, TaskLog


class BoxLog(TaskLog):
    """A simulated log of boxes."""

    table = mh.Boxes


@cache
def simulate_log(n_tasks: int, careless: int) -> BoxLog:
    """Simulate a log of four or more workers."""
    boxes = mh.simulate(n_tasks, careless=careless, seed=n_tasks, kind="boxes").log
    tasks, workers, _ = boxes.codes()
    labels = boxes.to_frame().column("label").to_pylist()
    return BoxLog(tasks.astype(np.int64), workers.astype(np.int64), boxes.boxes, labels)


def edge_cases() -> dict[str, BoxLog]:
    """Logs with edge cases."""
    one, same, three = np.zeros(1, np.int64), np.zeros(3, np.int64), np.arange(3)
    box, nothing = np.array([[0.0, 0, 1, 1]]), np.full((1, 4), np.nan)
    apart: npt.NDArray[np.float64] = box + 5.0 * np.arange(3)[:, None]
    return {
        "one box": BoxLog(one, one, box),
        "nothing seen": BoxLog(same, three, nothing.repeat(3, 0)),
        "full agreement": BoxLog(same, three, box.repeat(3, 0), ["a"] * 3),
        "nothing in common": BoxLog(same, three, apart, ["a", "b", "c"]),
        "one worker": BoxLog(three, same, apart),
        "one worker twice": BoxLog(same, same, box.repeat(3, 0)),
        "one worker saw it": BoxLog(same, three, np.concatenate([box, nothing, nothing])),
        "points": BoxLog(same, three, box.repeat(3, 0)[:, :2]),
        "points apart": BoxLog(same, three, apart[:, :2]),
        "far away": BoxLog(same, three, box.repeat(3, 0) + 1e9),
        "tiny": BoxLog(same, three, box.repeat(3, 0) * 1e-200),
        "huge": BoxLog(same, three, box.repeat(3, 0) * 1e200),
    }


class BoxSubject(Subject):
    """An aggregator of boxes."""

    @property
    def standard(self) -> BoxLog:
        """Eight images."""
        return simulate_log(8, 1)

    @property
    def other(self) -> BoxLog:
        """A log with fewer images and more workers."""
        return simulate_log(5, 3)

    @property
    def large(self) -> BoxLog:
        """A log with more images."""
        return simulate_log(150, 1)


def check_sound(subject: BoxSubject) -> None:
    """Objects are finite, have an area and are aligned with tasks, including edge cases."""
    for name, log in {"an ordinary log": subject.standard, **edge_cases()}.items():
        votes, model = log.votes(), subject.fitted(log)
        require(
            len(model.boxes_) == len(model.box_labels_) == len(model.probabilities_) == votes.n_tasks, f"{name}: lists"
        )
        boxes, probabilities = np.concatenate(model.boxes_), np.concatenate(model.probabilities_)
        require(boxes.shape[1] == votes.n_dims and np.isfinite(boxes).all(), f"{name}: boxes are not finite")
        require(votes.n_dims == 2 or (boxes[:, 2:] > boxes[:, :2]).all(), f"{name}: a box has no area")
        require(((probabilities >= 0) & (probabilities <= 1)).all(), f"{name}: a probability is outside [0, 1]")
        support = model.to_frame().column("n_workers").to_numpy()
        require(((support >= 1) & (support <= votes.n_workers)).all(), f"{name}: n_workers counts a worker twice")
        for column in model.workers_frame().columns[1:]:
            values = column.to_numpy()
            sound = np.isfinite(values).all() or np.isnan(values).all()
            require(sound, f"{name}: workers_frame contains non-finite values")


def check_agreement(subject: BoxSubject) -> None:
    """Unanimous boxes are kept, and images without boxes stay empty."""
    logs = edge_cases()
    for name in ("full agreement", "points", "far away", "tiny", "huge"):
        boxes = subject.fitted(logs[name]).boxes_[0]
        require(len(boxes) == 1, f"{name}: {len(boxes)} objects")
        np.testing.assert_allclose(boxes, logs[name].answers[:1], rtol=1e-9, err_msg=name)
    require(
        not len(subject.fitted(logs["nothing seen"]).boxes_[0]), "an object in an image that all workers left empty"
    )


CHECKS = (check_sound, check_agreement, check_order_of_rows, check_renaming)
SUBJECT = BoxSubject
