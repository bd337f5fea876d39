"""CoNAL: confusion shared by all workers plus individual confusion."""

from __future__ import annotations

import math
from typing import Unpack

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands._base.checks import check_number
from manyhands._base.estimator import Array
from manyhands._train.batch import Batch, CrowdData
from manyhands._train.large_tables import WorkerTable
from manyhands._train.probabilities import log_softmax
from manyhands._train.settings import TrainingOptions
from manyhands._train.trunk import n_features
from manyhands.learn.instance import InstanceLearner

__all__ = ["CoNAL"]


class CommonLayers(nn.Module):
    """A shared layer, one layer per worker, and the mixing weight of each annotation.

    Layers start at twice the identity, worker embeddings at random. Stores classes² + workers · (classes² + size)
    numbers, plus the map from features to embeddings.
    """

    def __init__(self, n_workers: int, n_classes: int, n_features: int, size: int) -> None:
        super().__init__()
        start = 2 * torch.eye(n_classes)
        self.common = nn.Parameter(start.clone())
        self.own = WorkerTable(n_workers, start)
        self.embedding = WorkerTable(n_workers, torch.zeros(size))
        self.embedding.set(torch.randn(n_workers, size) / math.sqrt(size))
        self.sample = nn.Linear(n_features, size)

    def forward(self, features: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the mixed layer of each annotation (n, true, observed) and its worker's distance to the shared one."""
        worker_layers = self.own(batch.worker)
        rate = self.rate(features, batch)[:, None, None]
        apart = torch.linalg.vector_norm((worker_layers - self.common).flatten(1), dim=1)
        return rate * self.common + (1 - rate) * worker_layers, apart

    def rate(self, features: Tensor, batch: Batch) -> Tensor:
        """Weight of the shared layer in each annotation, (n,)."""
        sample = F.normalize(self.sample(features), dim=1)[batch.sample]
        worker = F.normalize(self.embedding(batch.worker), dim=1)
        return torch.sigmoid((sample * worker).sum(dim=1))


class CoNAL(InstanceLearner):
    """Common noise adaptation: each answer follows a mixture of a shared and an individual confusion.

    Use it if most workers confuse the same classes. The mixing weight depends on the sample's features and on an
    embedding of the worker.

    Parameters
    ----------
    backbone : nn.Sequential or nn.Module
        An ``nn.Sequential`` whose last layer returns the logits, or a module with parts ``trunk`` and ``head``.
    apart : float, default 1e-3
        Weight of the term that increases the mean distance between individual layers and the shared one.
    size : int, default 20
        Dimension of the embeddings.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    Time per epoch O(annotations · (classes² + size)) in addition to the backbone; a step touches only the workers of
    its batch.

    The paper weights the sum of distances over workers by 1e-5; here it is the mean, which does not depend on the
    number of workers. As in `CrowdLayer`, answers are a softmax of transformed class probabilities, so layers are not
    confusion matrices; ``confusion_`` is the answer distribution for a known class, averaged over the samples a worker
    labeled. Embeddings are normalized, as in the authors' code, so shared weights are between 0.27 and 0.73.

    References
    ----------
    Z. Chu, J. Ma and H. Wang, "Learning from crowds by modeling common confusions", AAAI 2021.

    Examples
    --------
    >>> import torch, manyhands as mh
    >>> X, truth = mh.categorical.synthetic.gaussians(300, 3)
    >>> crowd = mh.simulate(truth=truth, n_workers=20, n_classes=3, labels_per_task=3)
    >>> learner = mh.learn.CoNAL(torch.nn.Linear(10, 3), max_epochs=5).fit(X, crowd.log)
    >>> learner.common_confusion_.shape
    (3, 3)
    """

    def __init__(
        self, backbone: nn.Module, *, apart: float = 1e-3, size: int = 20, **training: Unpack[TrainingOptions]
    ) -> None:
        super().__init__(backbone, **training)
        self.apart = apart
        self.size = size

    def _check(self) -> None:
        super()._check()
        check_number("apart", self.apart, least=0)
        check_number("size", self.size, least=1, whole=True)

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        if self.start_from is not None:
            raise ValueError("CoNAL layers cannot start from confusion matrices; omit start_from")
        votes = data.votes
        return {"layers": CommonLayers(votes.n_workers, votes.n_classes, n_features(self.backbone, data), self.size)}

    def _layers(self, batch: Batch) -> tuple[Tensor, Tensor]:
        layers_and_distances: tuple[Tensor, Tensor] = self._parts_or_fail()["layers"](self._features, batch)
        return layers_and_distances

    def _log_confusion(self, batch: Batch) -> Tensor:
        return F.log_softmax(self._layers(batch)[0], dim=2)

    @staticmethod
    def _likelihood(batch: Batch, log_probs: Tensor, layers: Tensor) -> Tensor:
        activation = (log_probs.exp()[batch.sample][:, :, None] * layers).sum(dim=1)
        return log_softmax(activation).gather(1, batch.label[:, None])[:, 0]

    def _label_log_probs(self, batch: Batch, log_probs: Tensor) -> Tensor:
        return self._likelihood(batch, log_probs, self._layers(batch)[0])

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        layers, apart = self._layers(batch)
        likelihood = self._likelihood(batch, log_probs, layers)
        return -self._reduce(likelihood, batch) - self.apart * self._worker_mean(apart, batch)

    @property
    def common_confusion_(self) -> Array:
        """Confusion of the shared layer alone, shape (n_classes true, n_classes observed)."""
        common: Tensor = self._fitted()["layers"].common.detach()  # type: ignore[operator]
        confusion = F.softmax(common.double(), dim=1).cpu().numpy()
        return np.ascontiguousarray(confusion)
