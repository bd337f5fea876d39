"""Majority vote for masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from manyhands import _core
from manyhands._base.progress import Callback
from manyhands.masks.base import MaskAggregator, MaskFit, mask_fit_of, packed_runs, weights_of
from manyhands.masks.table import Masks

if TYPE_CHECKING:
    pass


class MaskVote(MaskAggregator):
    """Majority vote on each pixel.

    A baseline that treats all workers alike. Ties go to the lowest class, so that half of the votes mark nothing.

    Notes
    -----
    Time O(runs · answers) per image. Memory: 2 bytes per answer and column, where a column is a set of pixels that all
    workers marked alike.

    Examples
    --------
    >>> import manyhands as mh
    >>> masks = mh.Masks.from_arrays([1, 1, 1], list("uvw"), [[[1, 1, 0]], [[0, 1, 0]], [[1, 0, 0]]])
    >>> mh.masks.MaskVote().fit(masks).masks_[0].astype(int).tolist()
    [[1, 1, 0]]
    """

    _predicts_by_fit: ClassVar[bool] = True

    def _fit(self, votes: Masks, progress: Callback | None) -> MaskFit:
        return mask_fit_of(votes, _core.mask_vote(packed_runs(votes), weights_of(votes)))
