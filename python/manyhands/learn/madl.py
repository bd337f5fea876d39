"""A network of how well workers perform: confusion matrices made of a sample's features and a worker's embedding."""

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
from manyhands._train.settings import DTYPES, TrainingOptions, explained
from manyhands._train.trunk import n_features
from manyhands.learn.heads import picked
from manyhands.learn.instance import InstanceLearner
from manyhands.learn.losses import log_mixture

__all__ = ["AnnotMix", "MaDL"]

#: Workers that all others are compared with: all of a small crowd, some drawn at random from a larger one.
_COMPARED = 256


class PerformanceNetwork(nn.Module):
    """Confusion matrices of pairs of a sample and a worker, each given by a vector.

    Embeddings of both and their products go through a hidden layer; workers start alike, right with probability
    `right`. Without dropout it soon knows the labels by heart, and the network of the classes learns nothing from them.
    Numbers kept: size³ + size · classes² + features · size, about.
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
        """Start all workers with one matrix, (true, observed)."""
        with torch.no_grad():
            self.output.bias.copy_(confusion.clamp_min(1e-4).log().flatten())

    def forward(self, sample: Tensor, worker: Tensor) -> Tensor:
        """Log confusion matrices, (n, true, observed), of samples and workers by their embeddings."""
        both = torch.cat([worker, sample, self.product(worker, sample)], dim=1)
        logits = self.output(torch.relu(worker + self.hidden(both)))
        return F.log_softmax(logits.reshape(-1, self.n_classes, self.n_classes), dim=2)


class PerformanceLearner(InstanceLearner):
    """One whose confusion matrices a performance network makes."""

    #: The performance network is a network like the backbone; what belongs to a worker is the embedding.
    _networks: ClassVar[tuple[str, ...]] = ("network", "performance")
    #: Whether what the performance network learns changes the features that it is given.
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
        given = n_features(self.backbone, data)
        network = PerformanceNetwork(given, k, size=self.size, right=self.right, dropout=self.dropout)
        start = self._start(data.votes)
        if start is not None:
            network.set_mean(torch.from_numpy(start[1].mean(axis=0)).float())
        embedding = WorkerTable(m, torch.zeros(self.size))
        embedding.set(torch.randn(m, self.size) / math.sqrt(self.size))
        return {"performance": network, "workers": embedding}

    def _embedded(self, worker: Tensor) -> Tensor:
        rows: Tensor = self._parts_or_fail()["workers"](worker)
        return rows

    def _log_confusion(self, batch: Batch) -> Tensor:
        return self._performance(batch.sample, self._embedded(batch.worker))

    def _performance(self, sample: Tensor, worker: Tensor) -> Tensor:
        """Log confusion matrices of pairs of one of the latest samples and an embedding, (n, true, observed)."""
        network: Any = self._parts_or_fail()["performance"]
        features = self._features if self._joint else self._features.detach()
        found: Tensor = network(network.sample(features)[sample], worker)
        return found


class MaDL(PerformanceLearner):
    """Multi-annotator deep learning: a performance network for workers, who count less the more are like them.

    A worker's confusion matrix is made of the sample's features and an embedding of the worker. Workers with similar
    embeddings err together, and are given less weight each.

    Parameters
    ----------
    backbone
        An ``nn.Sequential`` whose last layer makes the logits, or a module with parts ``trunk`` and ``head``.
    right
        How probably a worker is right, at the start.
    size
        Length of the embeddings.
    dropout
        Share of what is dropped in the performance network.
    concentration, rate
        Of the gamma prior of the kernel's bandwidth, exp(−γ ‖a − b‖²) being the similarity of two workers; γ starts at
        its mode, ``(concentration - 1) / rate``. A rate of 0 weighs all workers alike.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    A worker's weight is one over the sum of similarities with all workers, and weights average one. Sums over a crowd
    of more than 256 are estimated with 256 workers drawn at random, so that a step costs no more than its labels. The
    weights do not move the embeddings, as in the paper; γ is learnt.

    Time per epoch O(annotations · (size³ + size · (classes² + 256))) beside the backbone.

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
            raise ValueError("concentration must be above 1: the prior of the bandwidth has its mode at 0 otherwise")
        check_number("rate", self.rate, least=0)

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        parts = super()._extra_parts(data)
        if self.rate:
            parts["kernel"] = WorkerKernel(data.votes.n_workers, self.concentration, self.rate)
        return parts

    def _weights_of(self, worker: Tensor) -> Tensor:
        """Weight of some workers, (n,)."""
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
        """Weight of each worker's labels, (n_workers,); one on average."""
        self._fitted()
        if not self.rate:
            return np.ones(len(self._workers))
        with torch.no_grad():
            workers = torch.arange(len(self._workers), device=self._on)
            found = torch.cat([self._weights_of(part) for part in workers.split(1 << 14)])
        return found.double().cpu().numpy()


class WorkerKernel(nn.Module):
    """Weights of workers by how many others are like them, under a radial kernel whose bandwidth is learnt."""

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
        """Weight of some workers, (n,), given the embeddings of all."""
        anchors = embeddings[self.compared]
        crowd = 1 / self._sums(anchors, anchors, self.compared)
        return 1 / self._sums(embeddings[worker], anchors, worker) / crowd.mean()

    def _sums(self, rows: Tensor, anchors: Tensor, worker: Tensor) -> Tensor:
        """Sum of the similarities of some workers with all, themselves included, (n,)."""
        similar = torch.exp(-self.log_gamma.exp() * torch.cdist(rows, anchors) ** 2)
        other = worker[:, None] != self.compared
        # Others that were compared stand for all others.
        return 1 + (self.n_workers - 1) * (similar * other).sum(dim=1) / other.sum(dim=1).clamp_min(1)


class AnnotMix(PerformanceLearner):
    """annot-mix: trained on mixtures of two labels, with their samples and their workers mixed alike.

    A worker's confusion matrix is made of the sample's features and an embedding of the worker. The network sees
    λ x + (1 − λ) x′, the worker λ a + (1 − λ) a′ and the label λ of one and 1 − λ of the other, λ drawn for each label
    from Beta(alpha, alpha).

    Parameters
    ----------
    backbone
        An ``nn.Sequential`` whose last layer makes the logits, or a module with parts ``trunk`` and ``head``.
    alpha
        Of the distribution of the mixtures; 0 mixes nothing.
    right
        How probably a worker is right, at the start.
    size
        Length of the embeddings.
    dropout
        Share of what is dropped in the performance network.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    Samples are mixed as they go in, so they must be numbers that can be averaged, not ids of tokens. A training epoch
    runs the backbone once a *label*, since every label has a mixture of its own; beside that O(annotations · (size³ +
    size · classes²)). The performance network is that of `MaDL`, and does not change the features it is given.

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
            raise ValueError(f"X holds {kind}, which cannot be mixed; give numbers with fractions, or alpha=0")
        return super()._extra_parts(data)

    def _forward(self, x: Any) -> Tensor:
        """Log-probabilities; while training, the samples as they are, which the loss mixes first."""
        return x if self.alpha and self._parts_or_fail().training else super()._forward(x)

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        if not self.alpha or not self._parts_or_fail().training:
            return super()._loss(batch, log_probs)
        share = torch.distributions.Beta(self.alpha, self.alpha).sample((batch.n_annotations,)).to(self._on)
        return self._mixed_loss(batch, log_probs, share, torch.randperm(batch.n_annotations, device=self._on))

    def _mixed_loss(self, batch: Batch, x: Tensor, share: Tensor, other: Tensor) -> Tensor:
        """The loss of labels of which each has a share, and another label the rest."""

        def mixed(values: Tensor) -> Tensor:
            part = share.reshape(-1, *[1] * (values.ndim - 1))
            return part * values + (1 - part) * values[other]

        with (
            torch.autocast(self._on.type, DTYPES[self.precision], enabled=self.precision != "float32"),
            explained(self._network, x),
        ):
            log_probs = super()._forward(mixed(x[batch.sample]))
        every = torch.arange(batch.n_annotations, device=self._on)
        matrices = self._performance(every, mixed(self._embedded(batch.worker)))
        weights = self._weights(batch)
        right = log_mixture(log_probs, picked(matrices, batch.label))
        right_other = log_mixture(log_probs, picked(matrices, batch.label[other]))
        return -(share * weights * right + (1 - share) * weights[other] * right_other).sum()
