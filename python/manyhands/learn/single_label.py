"""One confusion matrix for all workers."""

from __future__ import annotations

from typing import Literal, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from manyhands._base.checks import check_choice
from manyhands._base.estimator import Array
from manyhands._train.batch import Batch, CrowdData
from manyhands._train.settings import TrainingOptions
from manyhands.learn.crowd_layer import TraceRegularized
from manyhands.learn.heads import Change, ConfusionModel, FreeConfusion
from manyhands.learn.learner import Learner
from manyhands.learn.losses import soft_cross_entropy
from manyhands.learn.targets import majority

__all__ = ["SingleConfusion"]


class SingleConfusion(TraceRegularized):
    """One confusion matrix for all workers, with a penalty: a baseline that ignores worker differences.

    Parameters
    ----------
    backbone : nn.Module
        Any ``nn.Module`` that returns logits.
    labels : {"all", "majority"}, default "all"
        Training labels: all labels, or the majority vote of each sample (ties split evenly), as in the paper.
    trace : float, default 0.01
        Weight of the penalty.
    norm : {"trace", "frobenius"}, default "trace"
        Penalty on the matrix: its trace, or the sum of its squares, which Sukhbaatar et al. used in their experiments
        because it was easier to implement. Both diffuse the matrix.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    ``matrix_`` is the shared matrix. For ``"all"``, ``confusion_`` repeats it; for ``"majority"`` it describes the
    vote, and worker matrices are estimated from the network's predictions.

    References
    ----------
    S. Sukhbaatar et al., "Training convolutional networks with noisy labels" (2014); Tanno et al. 2019, Sec. 3.3.
    """

    def __init__(
        self,
        backbone: nn.Module,
        *,
        labels: Literal["all", "majority"] = "all",
        trace: float = 0.01,
        norm: Literal["trace", "frobenius"] = "trace",
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(backbone, trace=trace, workers="softplus", **training)
        self.labels = labels
        self.norm = norm

    def _check(self) -> None:
        super()._check()
        check_choice("norm", self.norm, ("trace", "frobenius"))
        check_choice("labels", self.labels, ("all", "majority"))

    def _worker_model(self, n_workers: int, n_classes: int) -> ConfusionModel:
        return _OneForAll(n_workers, n_classes)

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        self._sample_targets = torch.from_numpy(majority(data.votes)).float().to(self._on)
        return super()._extra_parts(data)

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        if self.labels == "all" and self.norm == "trace":
            return super()._loss(batch, log_probs)
        log_matrix = self._crowd.log_confusion(batch.worker.new_zeros(1))[0]
        if self.labels == "all":
            loss = -self._reduce(self._label_log_probs(batch, log_probs), batch)
            return loss + self._scale * self._penalty(log_matrix)
        votes = torch.logsumexp(log_probs[:, :, None] + log_matrix, dim=1)
        # One vote per sample, so the weight needs no rescaling.
        loss = soft_cross_entropy(votes, self._sample_targets[batch.tasks]).mean()
        return loss + self.trace * self._penalty(log_matrix)

    def _penalty(self, log_matrix: Tensor) -> Tensor:
        return log_matrix.diagonal().exp().sum() if self.norm == "trace" else (2 * log_matrix).exp().sum()

    def _learned_confusion(self, data: CrowdData, predicted: Array) -> Array:
        if self.labels == "all":
            return super()._learned_confusion(data, predicted)
        return Learner._learned_confusion(self, data, predicted)

    @property
    def matrix_(self) -> Array:
        """Shared confusion matrix, shape (n_classes true, n_classes observed)."""
        self._fitted()
        return np.array(self._matrices()[0])


class _OneForAll(FreeConfusion):
    """Free confusion with a single matrix for all workers."""

    def __init__(self, n_workers: int, n_classes: int) -> None:
        super().__init__(1, n_classes)
        self.n_workers = n_workers

    def log_confusion(self, worker: Tensor) -> Tensor:
        return super().log_confusion(torch.zeros_like(worker))

    def _unique_workers(self, worker: Tensor, label: Tensor) -> tuple[Tensor, Change, Change]:
        first = torch.zeros_like(worker)
        return first[:1], lambda matrices: matrices[first, :, label], lambda rows: rows[first]

    def set_confusion(self, confusion: Tensor) -> None:
        super().set_confusion(confusion.mean(dim=0, keepdim=True))
