"""Majority vote for boxes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from manyhands._base.checks import check_number
from manyhands._base.progress import Callback
from manyhands.boxes._matching import match_boxes_of
from manyhands.boxes.base import BoxAggregator, BoxFit, box_fit_fields
from manyhands.boxes.table import Boxes


class BoxVote(BoxAggregator):
    """Objects that a sufficient share of the workers drew, at the mean of their corners, with the most frequent label.

    A baseline that treats all workers alike. Probabilities are shares of workers.

    Parameters
    ----------
    quorum : float, default 0.5
        Minimum share of a task's workers who drew the object; exactly this share is sufficient.
    overlap : float, default 0.4
        Minimum mean intersection over union of boxes of one object.
    radius : float or None, default None
        Maximum distance between points of one object; None estimates it.

    Notes
    -----
    Label ties go to the first label. Time O(p log p) and memory O(p) for p overlapping pairs of boxes per task, or
    pairs of connected points.

    Examples
    --------
    >>> import manyhands as mh
    >>> boxes = mh.Boxes.from_arrays([1, 1, 1], list("uvw"), [[0, 0, 4, 4], [0, 0, 4, 6], [7, 7, 9, 9]])
    >>> mh.boxes.BoxVote().fit(boxes).boxes_[0].tolist()
    [[0.0, 0.0, 4.0, 5.0]]
    """

    _predicts_by_fit: ClassVar[bool] = True

    def __init__(self, *, quorum: float = 0.5, overlap: float = 0.4, radius: float | None = None) -> None:
        self.quorum = quorum
        self.overlap = overlap
        self.radius = radius

    def _fit(self, votes: Boxes, progress: Callback | None) -> BoxFit:
        check_number("quorum", self.quorum, least=0, most=1)
        check_number("overlap", self.overlap, least=0.01, most=1)
        if self.radius is not None:
            check_number("radius", self.radius, least=0)
        candidates = match_boxes_of(votes, self.overlap, self.radius)
        share = candidates.n_workers / candidates.n_looked
        label_counts = candidates.sums(np.eye(max(len(votes.classes), 1))[candidates.label])
        parts = box_fit_fields(
            candidates,
            share >= self.quorum - 1e-9,
            candidates.means(),
            label_counts.argmax(axis=1),
            share,
            votes.n_tasks,
        )
        return BoxFit(**parts, history=np.zeros(0))
