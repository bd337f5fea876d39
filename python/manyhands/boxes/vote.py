"""Boxes by votes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from manyhands._base.checks import check_number
from manyhands._base.progress import Callback
from manyhands.boxes._matching import matched
from manyhands.boxes.base import BoxAggregator, BoxFit, concluded
from manyhands.boxes.table import Boxes


class BoxVote(BoxAggregator):
    """Objects that enough of those who looked drew, at the mean of their corners, named by most of them.

    Parameters
    ----------
    quorum
        The least share of the workers of a task who drew an object; one half is enough at 0.5.
    overlap
        The least intersection over union, on average, of boxes of one object.
    radius
        How far apart points of one object may be; None learns it from how far apart they usually are.

    Notes
    -----
    Probabilities are shares of workers. Of equally frequent labels the first wins. Time O(p log p) and memory O(p) for
    the p pairs of boxes of a task that overlap, or of points that a chain of near ones connects.

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
        found = matched(votes, self.overlap, self.radius)
        share = found.n_workers / found.n_looked
        named = found.sums(np.eye(max(len(votes.classes), 1))[found.label])
        parts = concluded(found, share >= self.quorum - 1e-9, found.means(), named.argmax(axis=1), share, votes.n_tasks)
        return BoxFit(**parts, history=np.zeros(0))
