"""Masks by votes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manyhands.masks.base import MaskAggregator, MaskFit, concluded, folded, shares
from manyhands.progress import Callback
from manyhands.table import arrow
from manyhands.table.masks import Masks
from manyhands.table.regions import Runs

if TYPE_CHECKING:
    import pyarrow as pa


class MaskVote(MaskAggregator):
    """The class that most workers gave each pixel; of equal ones the lowest, so that half of the votes mark nothing.

    Notes
    -----
    O(runs · answers of an image) time, an image at a time.

    Examples
    --------
    >>> import manyhands as mh
    >>> masks = mh.Masks.from_arrays([1, 1, 1], list("uvw"), [[[1, 1, 0]], [[0, 1, 0]], [[1, 0, 0]]])
    >>> mh.masks.MaskVote().fit(masks).masks_[0].astype(int).tolist()
    [[1, 1, 0]]
    """

    def _fit(self, votes: Masks, progress: Callback | None) -> MaskFit:
        found = [concluded(image, shares(image, image.weights, votes.n_classes)) for image in folded(votes)]
        return MaskFit(
            runs=Runs.joined([runs for runs, _, _ in found]),
            shapes=votes.shapes,
            n_classes=votes.n_classes,
            confidence=np.array([sure for _, sure, _ in found]),
            disputed=np.array([disputed for _, _, disputed in found]),
            history=np.zeros(0),
        )

    def workers_frame(self) -> pa.Table:
        """Return one row a worker, as an Arrow table: ``n_labels``."""
        self._fitted()
        now = self._snapshot()
        return arrow.table({"worker": now._workers.arrow(), "n_labels": now._n_labels})
