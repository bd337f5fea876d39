"""Networks with a worker model on top, trained jointly by maximum likelihood."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
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
    TaxonomyConfusion,
    WorkerModel,
    taxonomy_paths,
)
from manyhands.learn.learner import Learner
from manyhands.learn.losses import log_det, log_mixture

__all__ = ["CCEM", "CrowdLayer", "GeoCrowdNet", "TraceRegularized"]

_WORKER_MODELS = ("softplus", "softmax", "one-coin", "low-rank", "embedded", "taxonomy")


def worker_model(kind: str, n_workers: int, n_classes: int) -> ConfusionModel:
    """Return a worker model by name, with default settings."""
    if kind in ("softplus", "softmax"):
        return FreeConfusion(n_workers, n_classes, link=kind)  # type: ignore[arg-type]
    kinds = {"one-coin": OneCoin, "low-rank": LowRankConfusion, "embedded": EmbeddedConfusion}
    return kinds[kind](n_workers, n_classes)


class WorkerLearner(Learner):
    """Base class: maximum likelihood of the labels under a worker model (the part named ``workers``)."""

    @abstractmethod
    def _worker_model(self, n_workers: int, n_classes: int) -> WorkerModel:
        """Return the initial worker model."""

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

    def _learned_confusion(self, data: CrowdData, predicted: Array) -> Array:
        return self._matrices()

    def _matrices(self) -> Array:
        confusion = self._crowd.confusion().double().cpu().numpy()
        return np.ascontiguousarray(confusion / confusion.sum(axis=2, keepdims=True))


class CrowdLayer(WorkerLearner):
    """Crowd layer: each worker's answer is a softmax of transformed class probabilities of the network.

    A simple and fast choice for many annotators.

    Parameters
    ----------
    backbone : nn.Module
        Any ``nn.Module`` that returns logits.
    kind : {"MW", "VW", "VB", "VW-B"}, default "MW"
        Parameters per worker: a matrix (``"MW"``), a weight per class (``"VW"``), a bias per class (``"VB"``) or both
        (``"VW-B"``), starting at the identity. Matrices can start from log confusion matrices (`start_from`). For
        numeric answers use :class:`~manyhands.learn.CrowdRegression`.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    Time per epoch O(annotations · classes²) in addition to the backbone for ``"MW"``, O(annotations · classes) for the
    others. ``start_from=mh.MajorityVote()`` is the initialization of Cao et al. 2019 (Eq. 2), from vote shares.

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
                f"kind={self.kind!r} is for numeric answers, which CrowdLayer does not support; use "
                "mh.learn.CrowdRegression(backbone).fit(X, ratings)"
            )
        check_choice("kind", self.kind, ("MW", "VW", "VB", "VW-B"))

    def _worker_model(self, n_workers: int, n_classes: int) -> WorkerModel:
        return CrowdWeights(n_workers, n_classes, kind=self.kind)  # type: ignore[arg-type]


class CCEM(WorkerLearner):
    """Coupled cross-entropy minimization: class probabilities pass through a confusion matrix per worker.

    Use it for end-to-end training with interpretable confusion matrices.

    Parameters
    ----------
    backbone : nn.Module
        Any ``nn.Module`` that returns logits.
    workers : {"softplus", "softmax", "one-coin", "low-rank", "embedded", "taxonomy"}, default "softplus"
        Worker model: a free matrix per worker (``"softplus"`` or ``"softmax"``), ``"one-coin"``, ``"low-rank"`` (for
        many classes), ``"embedded"``, or ``"taxonomy"``: one probability per worker and branching of `taxonomy`.
    taxonomy : mapping, optional
        For ``workers="taxonomy"``: the group of each class, and of each group the group above it if there is one, as
        in ``{"cat": "animal", "dog": "animal", "car": None}``.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    Time per epoch O(annotations · classes²) in addition to the backbone; a step touches only the workers of its batch.
    If the confusion matrices are known, ``CCEM(backbone, start_from=confusion, worker_lr=0)`` trains the network only
    (the oracle of Tanno et al. 2019).

    References
    ----------
    S. Ibrahim, T. Nguyen and X. Fu, "Deep learning from crowdsourced labels: coupled cross-entropy minimization,
    identifiability, and regularization", ICLR 2023.
    """

    def __init__(
        self,
        backbone: nn.Module,
        *,
        workers: str = "softplus",
        taxonomy: Mapping[Any, Any] | None = None,
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(backbone, **training)
        self.workers = workers
        self.taxonomy = taxonomy

    def _check(self) -> None:
        super()._check()
        check_choice("workers", self.workers, _WORKER_MODELS)
        if (self.workers == "taxonomy") != (self.taxonomy is not None):
            raise ValueError(
                f"workers={self.workers!r} contradicts taxonomy={self.taxonomy!r}: the worker model 'taxonomy' needs "
                "one, and no other has one"
            )

    def _worker_model(self, n_workers: int, n_classes: int) -> ConfusionModel:
        if self.taxonomy is not None:
            return TaxonomyConfusion(n_workers, taxonomy_paths(self.taxonomy, self._classes.values.tolist()))
        return worker_model(self.workers, n_workers, n_classes)


class TraceRegularized(CCEM):
    """Coupled cross-entropy with a trace penalty on the confusion matrices.

    Use it if plain `CCEM` attributes too little noise to workers.

    Parameters
    ----------
    backbone : nn.Module
        Any ``nn.Module`` that returns logits.
    trace : float, default 0.01
        Weight of the mean trace, relative to the cross-entropy summed over the labels of a sample. 0 is `CCEM`.
    workers : str, default "softplus"
        Worker model, as for `CCEM`.
    taxonomy : mapping, optional
        As for `CCEM`.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    Time per epoch O(annotations · classes²) in addition to the backbone. Network and matrices are identified if the
    mean confusion matrix is diagonally dominant, which ``dominance_`` reports. If a large weight destroys the diagonal,
    ``fit`` raises.

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
        taxonomy: Mapping[Any, Any] | None = None,
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(backbone, workers=workers, taxonomy=taxonomy, **training)
        self.trace = trace

    def _check(self) -> None:
        super()._check()
        check_number("trace", self.trace, least=0)

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        # The paper sums over the labels of a sample; the loss here is a mean over labels.
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
                f"trace={self.trace:g} is too large: the mean confusion matrix lost its diagonal (mean accuracy "
                f"{np.trace(mean) / len(mean):.3f}, below chance); lower trace"
            )
        super()._after_training(data)


class GeoCrowdNet(CCEM):
    """Coupled cross-entropy with a volume term that identifies the model without experts, or from little data.

    Use it if no worker is reliable for some class, or if there are few samples.

    Parameters
    ----------
    backbone : nn.Module
        Any ``nn.Module`` that returns logits.
    side : {"F", "W"}, default "F"
        ``"F"`` uses the log-determinant of the Gram matrix F Fᵀ of the predictions (no class experts needed); ``"W"``
        that of Wᵀ W of the confusion matrices (no anchor samples needed).
    volume : float, default 0.01
        Weight of the term. 0 is `CCEM`.
    momentum : float, default 0.9
        Share of the running Gram matrix that is kept at each batch.
    ridge : float, default 1e-6
        Value added to the diagonal. With 0, a singular Gram matrix raises.
    workers : str, default "softplus"
        Worker model, as for `CCEM`.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    Time per epoch O(annotations · classes² + steps · classes³) in addition to the backbone.

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
            raise ValueError(f"momentum must be below 1, not {self.momentum}")

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
    """Log-determinant of a running Gram matrix; gradients flow through the latest batch."""

    gram: Tensor
    seen: Tensor

    def __init__(self, n_classes: int, momentum: float, ridge: float) -> None:
        super().__init__()
        self.momentum, self.ridge = momentum, ridge
        self.register_buffer("gram", torch.zeros(n_classes, n_classes))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, gram: Tensor, what: str = "the Gram matrix") -> Tensor:
        """Add the Gram matrix of a batch and return the log-determinant of the running one."""
        now = self.momentum * self.gram + (1 - self.momentum) * gram
        average = self.momentum * self.seen + (1 - self.momentum)
        if self.training:
            self.gram.copy_(now.detach())
            self.seen.copy_(average)
        # Dividing by the total weight removes the bias of the first batches. Gradients are those of the latest batch
        # with full weight.
        whole = (now / average).detach() + gram - gram.detach()
        return log_det(whole, ridge=self.ridge, what=what)
