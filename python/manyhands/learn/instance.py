"""Instance-dependent worker errors: outlier samples, or confusion matrices that depend on features."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Unpack

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands._base.checks import check_number
from manyhands._base.estimator import Array
from manyhands._train.batch import Batch, CrowdData
from manyhands._train.estimator import PREDICTED
from manyhands._train.module_calls import run
from manyhands._train.settings import TrainingOptions
from manyhands._train.trunk import n_features, split
from manyhands.learn.crowd_layer import GeoCrowdNet
from manyhands.learn.heads import FreeConfusion, WorkerTable, label_columns
from manyhands.learn.learner import Learner
from manyhands.learn.losses import log_mixture, outlier_penalty

__all__ = ["COINNet", "InstanceTrace"]


#: Defaults of the penalty on deviations: weight, power and smoothing at zero.
_PENALTY = {"outlier": 3.0, "p": 0.4, "zeta": 1e-2}


class COINNet(GeoCrowdNet):
    """Coupled cross-entropy with outlier samples whose labels are confused in their own way.

    Use it if a minority of samples misleads most workers. Each annotation can deviate from the worker's confusion
    matrix by a vector; an ℓ₂,ₚ penalty with p < 1 on the vectors of a sample makes most of them zero.

    Parameters
    ----------
    backbone : nn.Module
        Any ``nn.Module`` that returns logits.
    outlier : float, default 3.0
        Weight of the outlier term. At the default, one wrong label in three is attributed to the worker, three to the
        sample.
    most_outliers : int, optional
        Constrained form: at most this many samples deviate, without a penalty. Before each epoch but the first, these
        are the samples whose labels are least probable under network and confusion matrices. Their deviations explain
        the labels in full, so that they do not count in the loss.
    p, zeta : float, default 0.4 and 1e-2
        Power of the penalty, and its smoothing at zero.
    volume, momentum, ridge, workers
        As for `GeoCrowdNet` with ``side="F"``.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    Stores annotations · classes numbers in addition to the worker model, of which a step touches those of its batch.
    Vectors are centered, so they sum to zero. The sum of confusion column and vector is clipped at 1e-6 and normalized.
    The outlier term is a mean over samples.

    References
    ----------
    T. Nguyen, S. Ibrahim and X. Fu, "Noisy label learning with instance-dependent outliers: identifiability via crowd
    wisdom", NeurIPS 2024.
    """

    def __init__(
        self,
        backbone: nn.Module,
        *,
        outlier: float = _PENALTY["outlier"],
        most_outliers: int | None = None,
        p: float = _PENALTY["p"],
        zeta: float = _PENALTY["zeta"],
        volume: float = 0.01,
        momentum: float = 0.9,
        ridge: float = 1e-6,
        workers: str = "softplus",
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(backbone, side="F", volume=volume, momentum=momentum, ridge=ridge, workers=workers, **training)
        self.outlier = outlier
        self.most_outliers = most_outliers
        self.p = p
        self.zeta = zeta

    def _check(self) -> None:
        super()._check()
        check_number("outlier", self.outlier, least=0)
        if self.most_outliers is not None:
            check_number("most_outliers", self.most_outliers, least=0, whole=True)
            self._check_no_penalty()
        for name in ("p", "zeta"):
            check_number(name, getattr(self, name), least=0)
            if not getattr(self, name):
                raise ValueError(f"{name} must be above 0")

    def _check_no_penalty(self) -> None:
        """Raise for settings of the penalty, which the constrained form does not have."""
        for name, default in _PENALTY.items():
            if getattr(self, name) != default:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} belongs to the penalty, which most_outliers={self.most_outliers} "
                    "replaces; omit one of them"
                )

    _saved_state: ClassVar[dict[str, bool]] = GeoCrowdNet._saved_state | {"_outlier_scores": False}
    _training_parts: ClassVar[tuple[str, ...]] = ("shifts",)

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        #: Offset of the annotations of each sample.
        self._begin = data.votes.table.offsets().astype(np.int64)
        self._deviates = torch.zeros(data.votes.n_tasks, dtype=torch.bool, device=self._on)
        parts = super()._extra_parts(data)
        if self.most_outliers is None:
            parts["shifts"] = WorkerTable(data.votes.n_annotations, torch.zeros(data.votes.n_classes))
        return parts

    def _shifts(self, index: Tensor) -> Tensor:
        rows: Tensor = self._parts_or_fail()["shifts"](index)
        return rows - rows.mean(dim=1, keepdim=True)

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        if self.most_outliers is not None:
            explained = self._deviates[batch.tasks][batch.sample]
            log_right = self._label_log_probs(batch, log_probs).masked_fill(explained, 0.0)
            return -self._reduce(log_right, batch) + self._volume_term(batch, log_probs)
        nominal = self._crowd.answers(log_probs[batch.sample], batch.worker).exp()
        shifts = self._shifts(batch.index)
        shifted = (nominal + shifts).clamp_min(1e-6)
        right = shifted.gather(1, batch.label[:, None])[:, 0] / shifted.sum(dim=1)
        squares = shifts.new_zeros(len(batch)).index_add(0, batch.sample, (shifts**2).sum(dim=1))
        # The loss is a mean over labels; this term is a mean over samples.
        penalty = outlier_penalty(squares, self.p, self.zeta).mean()
        return -self._reduce(right.log(), batch) + self.outlier * penalty + self._volume_term(batch, log_probs)

    @torch.no_grad()
    def _norms(self, data: CrowdData) -> Array:
        """Squared norm of the deviations of each sample, (n_tasks,)."""
        if self.most_outliers is not None:
            tasks, workers, labels = data.votes.table.columns()
            each = np.flatnonzero(self._deviates.cpu().numpy()[tasks])
            answers = np.einsum("ak,akl->al", self._predicted(data)[tasks[each]], self._matrices()[workers[each]])
            away = np.eye(data.votes.n_classes)[labels[each]] - answers
            distances: Array = np.bincount(tasks[each], (away**2).sum(axis=1), data.votes.n_tasks).astype(np.float64)
            return distances
        squares = (self._shifts(torch.arange(self._begin[-1], device=self._on)) ** 2).sum(dim=1)
        totals = np.concatenate([[0.0], np.cumsum(squares.double().cpu().numpy())])
        norms: Array = totals[self._begin[1:]] - totals[self._begin[:-1]]
        return norms

    def _choose_outliers(self, data: CrowdData) -> None:
        """Let the samples deviate whose labels are least probable: the best choice under the constraint."""
        if self.most_outliers is None:
            return
        tasks, workers, labels = data.votes.table.columns()
        columns = self._matrices()[workers, :, labels]
        right = (self._predicted(data)[tasks] * columns).sum(axis=1)
        losses = np.bincount(tasks, -np.log(np.maximum(right, 1e-30)), data.votes.n_tasks)
        outliers = np.argsort(-losses, kind="stable")[: self.most_outliers]
        self._deviates[:] = False
        self._deviates[torch.from_numpy(outliers[losses[outliers] > 0]).to(self._on)] = True

    def _start_epoch(self, epoch: int, data: CrowdData) -> None:
        super()._start_epoch(epoch, data)
        if epoch:
            self._choose_outliers(data)

    def _after_training(self, data: CrowdData) -> None:
        training_data = self._to_learn_from(data)
        self._choose_outliers(training_data)
        self._outlier_scores = self._norms(training_data)
        super()._after_training(data)

    @property
    def outlier_scores_(self) -> Array:
        """Outlier score of each task: norm of the deviations of its labels, aligned with ``votes.tasks``.

        Zero for held-out samples, whose labels are not used.
        """
        self._fitted()
        return self._outlier_scores


class InstanceLearner(Learner):
    """Base class of learners whose confusion matrices depend on the features before the last layer.

    ``confusion_`` is the mean matrix over the samples a worker labeled, weighted by predicted class probabilities.
    """

    def _check(self) -> None:
        super()._check()
        split(self.backbone)

    def _forward(self, x: Any) -> Tensor:
        trunk, head = split(self._network)
        features = run(trunk, x)
        self._features = features.float()
        return F.log_softmax(self._checked(head(features)), dim=1)

    @abstractmethod
    def _log_confusion(self, batch: Batch) -> Tensor:
        """Log confusion matrix of each annotation, (n_annotations, true, observed), from the latest features."""

    def _label_log_probs(self, batch: Batch, log_probs: Tensor) -> Tensor:
        return log_mixture(log_probs[batch.sample], label_columns(self._log_confusion(batch), batch.label))

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        return -self._reduce(self._label_log_probs(batch, log_probs), batch)

    @torch.no_grad()
    def _learned_confusion(self, data: CrowdData, predicted: Array) -> Array:
        m, k = len(self._workers), len(self._classes)
        total = torch.zeros(m, k, k, dtype=torch.float64)
        self._parts_or_fail().eval()
        for batch in data.batches(data.samples, PREDICTED, self._on):
            probs = self._forward(batch.x).exp()[batch.sample]
            joint = probs[:, :, None] * self._log_confusion(batch).exp() + 1e-9 / k
            total.index_add_(0, batch.worker.cpu(), joint.double().cpu())
        confusion = total / total.sum(dim=2, keepdim=True)
        return torch.nan_to_num(confusion, nan=1.0 / k).numpy()


class InstanceTrace(InstanceLearner):
    """Instance-dependent low-rank confusion matrices with a trace penalty.

    Use it if errors depend on the sample. A worker's logits are a matrix of its own plus the product of a (classes ×
    rank) matrix, computed from the sample's features by a shared layer, and a (rank × classes) matrix of the worker.

    Parameters
    ----------
    backbone : nn.Sequential or nn.Module
        An ``nn.Sequential`` whose last layer returns the logits, or a module with parts ``trunk`` and ``head``.
    trace : float, default 0.01
        Weight of the mean trace over all annotations, relative to the cross-entropy summed over the labels of a sample.
    rank : int, default 1
        Rank of the instance-dependent term; 0 omits it, as in `TraceRegularized`.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    Time per epoch O(annotations · classes² · rank) in addition to the backbone. ``confusion_`` is averaged over the
    samples a worker labeled, weighted by predicted class probabilities.

    References
    ----------
    L. Zhang et al., "Disentangling human error from the ground truth in segmentation of medical images", NeurIPS 2020.
    """

    def __init__(
        self, backbone: nn.Module, *, trace: float = 0.01, rank: int = 1, **training: Unpack[TrainingOptions]
    ) -> None:
        super().__init__(backbone, **training)
        self.trace = trace
        self.rank = rank

    def _check(self) -> None:
        super()._check()
        check_number("trace", self.trace, least=0)
        check_number("rank", self.rank, least=0, whole=True)

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        m, k = data.votes.n_workers, data.votes.n_classes
        matrices = FreeConfusion(m, k, link="softmax")
        start = self._start(data.votes)
        if start is not None:
            matrices.set_confusion(torch.from_numpy(start[1]).float())
        self._scale = self.trace / (data.votes.n_annotations / max(len(data.samples), 1))
        parts: dict[str, nn.Module] = {"workers": matrices}
        if self.rank:
            parts["sample"] = nn.Linear(n_features(self.backbone, data), k * self.rank)
            # Zero for workers, so that all start equal.
            parts["patterns"] = WorkerTable(m, torch.zeros(self.rank, k))
        return parts

    def _log_confusion(self, batch: Batch) -> Tensor:
        """Log confusion matrix of each annotation, (n_annotations, true, observed)."""
        parts = self._parts_or_fail()
        matrices: Any = parts["workers"]
        logits: Tensor = matrices.table(batch.worker)
        if self.rank:
            k = len(self._classes)
            sample = parts["sample"](self._features).reshape(-1, k, self.rank)
            logits = logits + sample[batch.sample] @ parts["patterns"](batch.worker)
        return F.log_softmax(logits, dim=2)

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        log_confusion = self._log_confusion(batch)
        traces = log_confusion.diagonal(dim1=1, dim2=2).exp().sum(dim=1)
        likelihood = log_mixture(log_probs[batch.sample], label_columns(log_confusion, batch.label))
        return -self._reduce(likelihood, batch) + self._scale * traces.mean()
