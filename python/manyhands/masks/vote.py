"""Masks by votes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from manyhands import _core
from manyhands._base.progress import Callback
from manyhands.masks.base import MaskAggregator, MaskFit, decided, packed_runs, weights_of
from manyhands.masks.table import Masks

if TYPE_CHECKING:
    pass


class MaskVote(MaskAggregator):
    """The class that most workers gave each pixel; of equal ones the lowest, so that half of the votes mark nothing.

    Notes
    -----
    O(runs · answers) time for an image; memory 2 bytes for each answer and each column, pixels that all workers marked
    alike being one.

    Examples
    --------
    >>> import manyhands as mh
    >>> masks = mh.Masks.from_arrays([1, 1, 1], list("uvw"), [[[1, 1, 0]], [[0, 1, 0]], [[1, 0, 0]]])
    >>> mh.masks.MaskVote().fit(masks).masks_[0].astype(int).tolist()
    [[1, 1, 0]]
    """

    _predicts_by_fit: ClassVar[bool] = True

    def _fit(self, votes: Masks, progress: Callback | None) -> MaskFit:
        return decided(votes, _core.mask_vote(packed_runs(votes), weights_of(votes)))
