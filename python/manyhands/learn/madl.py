"""Performance networks: confusion matrices from sample features and worker embeddings."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar, Unpack

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands._base.checks import check_number
from manyhands._base.estimator import Array
from manyhands._train.batch import Batch, CrowdData
from manyhands._train.large_tables import WorkerTable
from manyhands._train.settings import DTYPES, TrainingOptions, explain_errors
from manyhands._train.trunk import n_features
from manyhands.learn.heads import label_columns
from manyhands.learn.instance import InstanceLearner
from manyhands.learn.losses import log_mixture

__all__ = ["AnnotMix", "MaDL"]

#: Number of workers used to estimate kernel sums; larger crowds are sampled.
_COMPARED = 256


class PerformanceNetwork(nn.Module):
    """Confusion matrices for (sample, worker) pairs from their vectors.

    Sample and worker embeddings and their bilinear product pass through a hidden layer. Workers start equal, with
    accuracy `right`. Without dropout the network memorizes the labels, and the classifier learns nothing. Stores about
    size³ + size · classes² + features · size numbers.
    """

    def __init__(self, n_features: int, n_classes: int, *, size: int, right: float, dropout: float) -> None:
        super().__init__()
        self.n_classes = n_classes
        self.sample = nn.Sequential(nn.Linear(n_features, size), nn.Dropout(dropout))
        self.product = nn.Bilinear(size, size, size)
        self.hidden = nn.Sequential(
            nn.Linear(3 * size, 2 * size),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(2 * size, size),
            nn.Dropout(dropout),
        )
        self.output = nn.Linear(size, n_classes**2)
        nn.init.zeros_(self.output.weight)
        wrong = (1 - right) / max(n_classes - 1, 1)
        self.set_mean(wrong + (right - wrong) * torch.eye(n_classes))

    def set_mean(self, confusion: Tensor) -> None:
        """Initialize all workers with one matrix, (true, observed)."""
        with torch.no_grad():
            self.output.bias.copy_(confusion.clamp_min(1e-4).log().flatten())

    def forward(self, sample: Tensor, worker: Tensor) -> Tensor:
        """Log confusion matrices, (n, true, observed), from sample and worker embeddings."""
        both = torch.cat([worker, sample, self.product(worker, sample)], dim=1)
        logits = self.output(torch.relu(worker + self.hidden(both)))
        return F.log_softmax(logits.reshape(-1, self.n_classes, self.n_classes), dim=2)


class PerformanceLearner(InstanceLearner):
    """Base class of learners with a performance network."""

    #: Trained like the backbone; worker parameters are the embeddings.
    _networks: ClassVar[tuple[str, ...]] = ("network", "performance")
    #: Whether gradients of the performance network reach the features.
    _joint = True

    @abstractmethod
    def __init__(
        self,
        backbone: nn.Module,
        *,
        right: float,
        size: int,
        dropout: float,
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(backbone, **training)
        self.right = right
        self.size = size
        self.dropout = dropout

    def _check(self) -> None:
        super()._check()
        for name in ("right", "dropout"):
            check_number(name, getattr(self, name), least=0, most=1)
        check_number("size", self.size, least=1, whole=True)

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        m, k = data.votes.n_workers, data.votes.n_classes
        n_inputs = n_features(self.backbone, data)
        network = PerformanceNetwork(n_inputs, k, size=self.size, right=self.right, dropout=self.dropout)
        start = self._start(data.votes)
        if start is not None:
            network.set_mean(torch.from_numpy(start[1].mean(axis=0)).float())
        embedding = WorkerTable(m, torch.zeros(self.size))
        embedding.set(torch.randn(m, self.size) / math.sqrt(self.size))
        return {"performance": network, "workers": embedding}

    def _embedding_rows(self, worker: Tensor) -> Tensor:
        rows: Tensor = self._parts_or_fail()["workers"](worker)
        return rows

    def _log_confusion(self, batch: Batch) -> Tensor:
        return self._performance(batch.sample, self._embedding_rows(batch.worker))

    def _performance(self, sample: Tensor, worker: Tensor) -> Tensor:
        """Log confusion matrices for pairs of a sample of the latest batch and an embedding, (n, true, observed)."""
        network: Any = self._parts_or_fail()["performance"]
        features = self._features if self._joint else self._features.detach()
        log_confusion: Tensor = network(network.sample(features)[sample], worker)
        return log_confusion


class MaDL(PerformanceLearner):
    """Multi-annotator deep learning: a performance network with weights that discount similar workers.

    Use it if groups of workers make the same errors. A worker's confusion matrix depends on the sample's features and
    on an embedding of the worker. Workers with similar embeddings share their weight.

    Parameters
    ----------
    backbone : nn.Sequential or nn.Module
        An ``nn.Sequential`` whose last layer returns the logits, or a module with parts ``trunk`` and ``head``.
    right : float, default 0.8
        Initial accuracy of workers.
    size : int, default 16
        Dimension of the embeddings.
    dropout : float, default 0.5
        Dropout rate of the performance network.
    concentration, rate : float, default 1.25 and 0.25
        Gamma prior of the kernel bandwidth γ in the similarity exp(−γ ‖a − b‖²); γ starts at the mode,
        ``(concentration - 1) / rate``. A rate of 0 gives equal weights.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    Time per epoch O(annotations · (size³ + size · (classes² + 256))) in addition to the backbone.

    A worker's weight is the inverse of the sum of similarities to all workers; weights have mean one. With more than
    256 workers, sums are estimated from 256 random workers. As in the paper, weights do not affect the embeddings; γ
    is trained.

    References
    ----------
    M. Herde, D. Huseljic and B. Sick, "Multi-annotator deep learning: a probabilistic framework for classification",
    Transactions on Machine Learning Research, 2023.

    Examples
    --------
    >>> import torch, manyhands as mh
    >>> X, truth = mh.categorical.synthetic.gaussians(300, 3)
    >>> crowd = mh.simulate(truth=truth, n_workers=20, n_classes=3, labels_per_task=3)
    >>> learner = mh.learn.MaDL(torch.nn.Linear(10, 3), max_epochs=5).fit(X, crowd.log)
    >>> float(learner.worker_weights_.mean().round(6))
    1.0
    """

    def __init__(
        self,
        backbone: nn.Module,
        *,
        right: float = 0.8,
        size: int = 16,
        dropout: float = 0.5,
        concentration: float = 1.25,
        rate: float = 0.25,
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(backbone, right=right, size=size, dropout=dropout, **training)
        self.concentration = concentration
        self.rate = rate

    def _check(self) -> None:
        super()._check()
        check_number("concentration", self.concentration, least=1)
        if self.concentration == 1:
            raise ValueError("concentration must be above 1, so that the prior of the bandwidth has a positive mode")
        check_number("rate", self.rate, least=0)

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        parts = super()._extra_parts(data)
        if self.rate:
            parts["kernel"] = WorkerKernel(data.votes.n_workers, self.concentration, self.rate)
        return parts

    def _weights_of(self, worker: Tensor) -> Tensor:
        """Weights of some workers, (n,)."""
        parts: Any = self._parts_or_fail()
        weights: Tensor = parts["kernel"](parts["workers"].weight.detach(), worker)
        return weights

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        likelihood = self._label_log_probs(batch, log_probs)
        if not self.rate:
            return -self._reduce(likelihood, batch)
        prior: Any = self._parts_or_fail()["kernel"]
        return -self._reduce(self._weights_of(batch.worker) * likelihood, batch) - prior.log_prior()

    @property
    def worker_weights_(self) -> Array:
        """Weight of each worker's labels, shape (n_workers,), with mean one."""
        self._fitted()
        if not self.rate:
            return np.ones(len(self._workers))
        with torch.no_grad():
            workers = torch.arange(len(self._workers), device=self._on)
            weights = torch.cat([self._weights_of(part) for part in workers.split(1 << 14)])
        return weights.double().cpu().numpy()


class WorkerKernel(nn.Module):
    """Weights of workers from their similarity to others, with a trainable kernel bandwidth."""

    compared: Tensor

    def __init__(self, n_workers: int, concentration: float, rate: float) -> None:
        super().__init__()
        self.n_workers, self.concentration, self.rate = n_workers, concentration, rate
        self.log_gamma = nn.Parameter(torch.tensor(math.log((concentration - 1) / rate)))
        self.register_buffer("compared", torch.randperm(n_workers)[:_COMPARED].sort().values)

    def log_prior(self) -> Tensor:
        """Log-density of the bandwidth, up to a constant."""
        return (self.concentration - 1) * self.log_gamma - self.rate * self.log_gamma.exp()

    def forward(self, embeddings: Tensor, worker: Tensor) -> Tensor:
        """Weights of some workers, (n,), given the embeddings of all."""
        anchors = embeddings[self.compared]
        crowd = 1 / self._sums(anchors, anchors, self.compared)
        return 1 / self._sums(embeddings[worker], anchors, worker) / crowd.mean()

    def _sums(self, rows: Tensor, anchors: Tensor, worker: Tensor) -> Tensor:
        """Sum of the similarities of some workers to all workers including themselves, (n,)."""
        similar = torch.exp(-self.log_gamma.exp() * torch.cdist(rows, anchors) ** 2)
        other = worker[:, None] != self.compared
        # The compared workers represent all other workers.
        return 1 + (self.n_workers - 1) * (similar * other).sum(dim=1) / other.sum(dim=1).clamp_min(1)


class AnnotMix(PerformanceLearner):
    """annot-mix: mixup of samples, workers and labels, with a performance network.

    Use it to regularize large networks on noisy labels. For each label, λ is drawn from Beta(alpha, alpha); the network
    gets λ x + (1 − λ) x′, the worker embedding is λ a + (1 − λ) a′, and the loss weights the two labels by λ and 1 − λ.

    Parameters
    ----------
    backbone : nn.Sequential or nn.Module
        An ``nn.Sequential`` whose last layer returns the logits, or a module with parts ``trunk`` and ``head``.
    alpha : float, default 1.0
        Parameter of the Beta distribution; 0 disables mixing.
    right : float, default 0.9
        Initial accuracy of workers.
    size : int, default 16
        Dimension of the embeddings.
    dropout : float, default 0.5
        Dropout rate of the performance network.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    Inputs are averaged, so they must be floating-point numbers rather than token ids. A training epoch runs the
    backbone once per *label*, plus O(annotations · (size³ + size · classes²)). The performance network is that of
    `MaDL`, without gradients to the features.

    References
    ----------
    M. Herde, L. Lührs, D. Huseljic and B. Sick, "Annot-mix: learning with noisy class labels from multiple annotators
    via a mixup extension", ECAI 2024.

    Examples
    --------
    >>> import torch, manyhands as mh
    >>> X, truth = mh.categorical.synthetic.gaussians(300, 3)
    >>> crowd = mh.simulate(truth=truth, n_workers=20, n_classes=3, labels_per_task=3)
    >>> learner = mh.learn.AnnotMix(torch.nn.Linear(10, 3), max_epochs=5).fit(X, crowd.log)
    >>> learner.predict_proba(X).shape
    (300, 3)
    """

    _joint = False

    def __init__(
        self,
        backbone: nn.Module,
        *,
        alpha: float = 1.0,
        right: float = 0.9,
        size: int = 16,
        dropout: float = 0.5,
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(backbone, right=right, size=size, dropout=dropout, **training)
        self.alpha = alpha

    def _check(self) -> None:
        super()._check()
        check_number("alpha", self.alpha, least=0)

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        x = data.batch(data.samples[:1], torch.device("cpu")).x
        if self.alpha and not (isinstance(x, Tensor) and x.is_floating_point()):
            kind = x.dtype if isinstance(x, Tensor) else "several features by name"
            raise ValueError(f"X contains {kind}, which cannot be mixed; pass floating-point features, or alpha=0")
        return super()._extra_parts(data)

    def _forward(self, x: Any) -> Tensor:
        """Return log-probabilities; in training mode the inputs, which the loss mixes first."""
        return x if self.alpha and self._parts_or_fail().training else super()._forward(x)

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        if not self.alpha or not self._parts_or_fail().training:
            return super()._loss(batch, log_probs)
        share = torch.distributions.Beta(self.alpha, self.alpha).sample((batch.n_annotations,)).to(self._on)
        return self._mixed_loss(batch, log_probs, share, torch.randperm(batch.n_annotations, device=self._on))

    def _mixed_loss(self, batch: Batch, x: Tensor, share: Tensor, other: Tensor) -> Tensor:
        """Loss of mixtures of each label with another one."""

        def mix(values: Tensor) -> Tensor:
            part = share.reshape(-1, *[1] * (values.ndim - 1))
            return part * values + (1 - part) * values[other]

        with (
            torch.autocast(self._on.type, DTYPES[self.precision], enabled=self.precision != "float32"),
            explain_errors(self._network, x),
        ):
            log_probs = super()._forward(mix(x[batch.sample]))
        every = torch.arange(batch.n_annotations, device=self._on)
        matrices = self._performance(every, mix(self._embedding_rows(batch.worker)))
        weights = self._weights(batch)
        right = log_mixture(log_probs, label_columns(matrices, batch.label))
        right_other = log_mixture(log_probs, label_columns(matrices, batch.label[other]))
        return -(share * weights * right + (1 - share) * weights[other] * right_other).sum()
