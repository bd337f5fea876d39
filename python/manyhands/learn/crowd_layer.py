"""Networks with a model of the workers on top, trained together by the likelihood of the labels."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from manyhands._base.checks import check_choice, check_number
from manyhands._base.estimator import Array
from manyhands._train.batch import Batch, CrowdData
from manyhands._train.settings import TrainingOptions
from manyhands.learn.heads import (
    ConfusionModel,
    CrowdWeights,
    EmbeddedConfusion,
    FreeConfusion,
    LowRankConfusion,
    OneCoin,
    WorkerModel,
)
from manyhands.learn.learner import Learner
from manyhands.learn.losses import log_det, log_mixture

__all__ = ["CCEM", "CrowdLayer", "GeoCrowdNet", "TraceRegularized"]

_WORKER_MODELS = ("softplus", "softmax", "one-coin", "low-rank", "embedded")


def worker_model(kind: str, n_workers: int, n_classes: int) -> ConfusionModel:
    """A model of the workers by name, with its usual settings."""
    if kind in ("softplus", "softmax"):
        return FreeConfusion(n_workers, n_classes, link=kind)  # type: ignore[arg-type]
    kinds = {"one-coin": OneCoin, "low-rank": LowRankConfusion, "embedded": EmbeddedConfusion}
    return kinds[kind](n_workers, n_classes)


class WorkerLearner(Learner):
    """Maximises the likelihood of the labels, under a worker model that is the part named ``workers``."""

    @abstractmethod
    def _worker_model(self, n_workers: int, n_classes: int) -> WorkerModel:
        """The model of the workers, at its start."""

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        model = self._worker_model(data.votes.n_workers, data.votes.n_classes)
        start = self._start(data.votes)
        if start is not None:
            model.set_confusion(torch.from_numpy(start[1]).float())
        return {"workers": model}

    @property
    def _crowd(self) -> Any:
        return self._parts_or_fail()["workers"]

    def _label_log_probs(self, batch: Batch, log_probs: Tensor) -> Tensor:
        likelihood: Tensor = self._crowd.log_likelihood(log_probs[batch.sample], batch.worker, batch.label)
        return likelihood

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        return -self._reduce(self._label_log_probs(batch, log_probs), batch)

    def _learnt_confusion(self, data: CrowdData, predicted: Array) -> Array:
        return self._matrices()

    def _matrices(self) -> Array:
        confusion = self._crowd.confusion().double().cpu().numpy()
        return np.ascontiguousarray(confusion / confusion.sum(axis=2, keepdims=True))


class CrowdLayer(WorkerLearner):
    """Crowd layer: each worker's answer is a softmax of the network's class probabilities, transformed for the worker.

    Parameters
    ----------
    backbone
        Any ``nn.Module`` that returns logits.
    kind
        What a worker has: a matrix (``"MW"``), a weight a class (``"VW"``), a bias a class (``"VB"``) or both
        (``"VW-B"``). The identity at first; matrices may start from the logarithms of confusion matrices instead
        (`start_from`). For numeric answers use :class:`~manyhands.learn.CrowdRegression`.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    ``start_from=mh.MajorityVote()`` is the start of Cao et al. 2019 (Eq. 2): workers judged by vote shares.

    Time per epoch O(annotations · classes²) beside the backbone, ``"MW"``; O(annotations · classes) the others.

    References
    ----------
    F. Rodrigues and F. Pereira, "Deep learning from crowds", AAAI 2018.
    """

    def __init__(self, backbone: nn.Module, *, kind: str = "MW", **training: Unpack[TrainingOptions]) -> None:
        super().__init__(backbone, **training)
        self.kind = kind

    def _check(self) -> None:
        super()._check()
        if self.kind in ("S", "B", "S+B"):
            raise ValueError(
                f"kind={self.kind!r} is for numeric answers, which CrowdLayer no longer takes; use "
                "mh.learn.CrowdRegression(backbone).fit(X, ratings)"
            )
        check_choice("kind", self.kind, ("MW", "VW", "VB", "VW-B"))

    def _worker_model(self, n_workers: int, n_classes: int) -> WorkerModel:
        return CrowdWeights(n_workers, n_classes, kind=self.kind)  # type: ignore[arg-type]


class CCEM(WorkerLearner):
    """Coupled cross-entropy minimisation: the network's probabilities pass through a confusion matrix of each worker.

    Parameters
    ----------
    backbone
        Any ``nn.Module`` that returns logits.
    workers
        The model of the workers: a free matrix each by ``"softplus"`` or ``"softmax"``, ``"one-coin"``, ``"low-rank"``
        (for many classes), or ``"embedded"``.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    Time per epoch O(annotations · classes²) beside the backbone; a step touches only the workers of its batch.

    Where the confusion matrices are known, ``CCEM(backbone, start_from=confusion, worker_lr=0)`` learns the network
    alone: the oracle of Tanno et al. 2019.

    References
    ----------
    S. Ibrahim, T. Nguyen and X. Fu, "Deep learning from crowdsourced labels: coupled cross-entropy minimization,
    identifiability, and regularization", ICLR 2023.
    """

    def __init__(self, backbone: nn.Module, *, workers: str = "softplus", **training: Unpack[TrainingOptions]) -> None:
        super().__init__(backbone, **training)
        self.workers = workers

    def _check(self) -> None:
        super()._check()
        check_choice("workers", self.workers, _WORKER_MODELS)

    def _worker_model(self, n_workers: int, n_classes: int) -> ConfusionModel:
        return worker_model(self.workers, n_workers, n_classes)


class TraceRegularized(CCEM):
    """Coupled cross-entropy with the trace of the confusion matrices: as much confusion as explains the labels.

    Parameters
    ----------
    backbone
        Any ``nn.Module`` that returns logits.
    trace
        Weight of the mean trace, beside the cross-entropy summed over a sample's labels. 0 is `CCEM`.
    workers
        The model of the workers, as of `CCEM`.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    Identifies network and matrices if the mean confusion matrix is diagonally dominant; whether the learnt one is,
    ``dominance_`` tells. With a weight so large that it loses its diagonal, ``fit`` raises. Time per epoch
    O(annotations · classes²) beside the backbone.

    References
    ----------
    R. Tanno et al., "Learning from noisy labels by regularized estimation of annotator confusion", CVPR 2019, Eq. 4.
    """

    def __init__(
        self,
        backbone: nn.Module,
        *,
        trace: float = 0.01,
        workers: str = "softplus",
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(backbone, workers=workers, **training)
        self.trace = trace

    def _check(self) -> None:
        super()._check()
        check_number("trace", self.trace, least=0)

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        # The paper sums over a sample's labels where the loss here is a mean over labels.
        self._scale = self.trace / (data.votes.n_annotations / max(len(data.samples), 1))
        return super()._extra_parts(data)

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        columns, diagonals = self._crowd.log_parts(batch.worker, batch.label)
        loss = -self._reduce(log_mixture(log_probs[batch.sample], columns), batch)
        if not self.trace:
            return loss
        return loss + self._scale * self._worker_mean(diagonals.exp().sum(dim=1), batch)

    def _after_training(self, data: CrowdData) -> None:
        mean = np.average(self._matrices(), axis=0, weights=self._n_labels)
        if self.trace and len(mean) > 1 and np.trace(mean) < 1:
            raise ValueError(
                f"trace={self.trace:g} is too large: the mean confusion matrix has lost its diagonal (mean accuracy "
                f"{np.trace(mean) / len(mean):.3f}, below chance); lower it"
            )
        super()._after_training(data)


class GeoCrowdNet(CCEM):
    """Coupled cross-entropy with a volume term that identifies the model with no experts, or with little data.

    Parameters
    ----------
    backbone
        Any ``nn.Module`` that returns logits.
    side
        ``"F"``: the log-determinant of the predictions' Gram matrix F Fᵀ (no class experts needed); ``"W"``: that of
        the confusion matrices' Wᵀ W (no samples of certain class needed).
    volume
        Weight of the term. 0 is `CCEM`.
    momentum
        Share of the running Gram matrix, to which each batch adds the rest.
    ridge
        Added to the diagonal. With 0 a singular Gram matrix raises.
    workers
        The model of the workers, as of `CCEM`.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    Time per epoch O(annotations · classes² + steps · classes³) beside the backbone.

    References
    ----------
    S. Ibrahim, T. Nguyen and X. Fu, ICLR 2023 (see `CCEM`).
    """

    def __init__(
        self,
        backbone: nn.Module,
        *,
        side: Literal["F", "W"] = "F",
        volume: float = 0.01,
        momentum: float = 0.9,
        ridge: float = 1e-6,
        workers: str = "softplus",
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(backbone, workers=workers, **training)
        self.side = side
        self.volume = volume
        self.momentum = momentum
        self.ridge = ridge

    def _check(self) -> None:
        super()._check()
        check_choice("side", self.side, ("F", "W"))
        check_number("volume", self.volume, least=0)
        check_number("ridge", self.ridge, least=0)
        check_number("momentum", self.momentum, least=0)
        if self.momentum >= 1:
            raise ValueError(f"momentum is a share below 1, not {self.momentum}")

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        return super()._extra_parts(data) | {"volume": RunningVolume(data.votes.n_classes, self.momentum, self.ridge)}

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        return super()._loss(batch, log_probs) + self._volume_term(batch, log_probs)

    def _volume_term(self, batch: Batch, log_probs: Tensor) -> Tensor:
        if not self.volume:
            return torch.zeros((), device=self._on)
        volume = self._parts_or_fail()["volume"]
        if self.side == "F":
            probs = log_probs.exp()
            gram = probs.T @ probs / len(batch)
        else:
            confusion = self._crowd.log_confusion(batch.worker).exp()
            weight = self._per_worker[batch.worker] / batch.n_annotations
            gram = torch.einsum("a,aij,akj->ik", weight, confusion, confusion)
        return -self.volume * volume(gram, f"the Gram matrix of {self.side}")


class RunningVolume(nn.Module):
    """Log-determinant of a Gram matrix that batches add to; gradients go through the newest batch."""

    gram: Tensor
    seen: Tensor

    def __init__(self, n_classes: int, momentum: float, ridge: float) -> None:
        super().__init__()
        self.momentum, self.ridge = momentum, ridge
        self.register_buffer("gram", torch.zeros(n_classes, n_classes))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, gram: Tensor, what: str = "the Gram matrix") -> Tensor:
        """Add a batch's Gram matrix and return the log-determinant of the running one."""
        now = self.momentum * self.gram + (1 - self.momentum) * gram
        seen = self.momentum * self.seen + (1 - self.momentum)
        if self.training:
            self.gram.copy_(now.detach())
            self.seen.copy_(seen)
        # Divided by the weight of all batches so far, the first ones count fully. Gradients are those of the whole, as
        # if all of it were the newest batch.
        whole = (now / seen).detach() + gram - gram.detach()
        return log_det(whole, ridge=self.ridge, what=what)
