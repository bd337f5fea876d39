"""Doctor Net: one network head per worker, averaged for prediction."""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands._base.checks import check_number
from manyhands._base.estimator import Array
from manyhands._train.batch import Batch, CrowdData
from manyhands._train.large_tables import WorkerTable
from manyhands._train.module_calls import run
from manyhands._train.settings import TrainingOptions
from manyhands._train.trunk import split
from manyhands.learn.learner import Learner
from manyhands.learn.losses import soft_cross_entropy
from manyhands.learn.targets import vote_shares

__all__ = ["DoctorNet", "WeightedDoctorNet"]


class DoctorHeads(nn.Module):
    """A linear layer from d features to logits per worker, with equal initial values.

    Stores workers · (d + 1) · classes numbers.
    """

    def __init__(self, n_workers: int, head: nn.Linear) -> None:
        super().__init__()
        bias = head.bias if head.bias is not None else head.weight.new_zeros(head.out_features)
        self.table = WorkerTable(n_workers, torch.cat([head.weight, bias[:, None]], dim=1))

    def answers(self, features: Tensor, worker: Tensor) -> Tensor:
        """Log-probabilities of each worker's answer to its own sample, (n, n_classes), as one batched product."""
        rows = self.table(worker)
        return F.log_softmax(torch.baddbmm(rows[:, :, -1:], rows[:, :, :-1], features[:, :, None])[:, :, 0], dim=1)

    def opinions(self, features: Tensor, worker: Tensor) -> Tensor:
        """Log-probabilities of the answers of these workers to all samples, (n, workers, n_classes)."""
        rows = self.table(worker)
        logits = torch.einsum("nd,mkd->nmk", features, rows[:, :, :-1]) + rows[:, :, -1]
        return F.log_softmax(logits, dim=2)


class DoctorNet(Learner):
    """Doctor Net: one head per worker predicts that worker's answers; predictions are averaged.

    Use it for few workers with many labels each.

    Parameters
    ----------
    backbone : nn.Sequential or nn.Module
        An ``nn.Sequential`` whose last layer is linear and returns the logits, or a module with parts ``trunk`` and
        ``head``. The last layer initializes all heads.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    Time per epoch O(annotations · features · classes) in addition to the backbone; a prediction takes O(workers ·
    features · classes) per sample. There is no model of the true class other than the average prediction, so the
    majority of workers decides.

    References
    ----------
    M. Y. Guan, V. Gulshan, A. M. Dai and G. E. Hinton, "Who said what: modeling individual labelers improves
    classification", AAAI 2018.
    """

    #: Heads are network layers with as many updates as the others.
    _defaults: ClassVar[dict[str, Any]] = {"worker_lr": None}

    def _check(self) -> None:
        super()._check()
        head = split(self.backbone)[1]
        if not isinstance(head, nn.Linear):
            raise ValueError(f"the last layer of the backbone must be nn.Linear, not {type(head).__name__}")

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        if self.start_from is not None:
            raise ValueError(f"{type(self).__name__} cannot start from confusion matrices; omit start_from")
        head = split(self.backbone)[1]
        assert isinstance(head, nn.Linear)
        if head.out_features != data.votes.n_classes:
            raise ValueError(
                f"the last layer of the backbone must have one output per class ({data.votes.n_classes}), not "
                f"{head.out_features}"
            )
        self._mean = torch.full((data.votes.n_workers,), 1.0 / data.votes.n_workers, device=self._on)
        return {"heads": DoctorHeads(data.votes.n_workers, head)}

    @property
    def _heads(self) -> Any:
        return self._parts_or_fail()["heads"]

    def _weights_of_workers(self) -> Tensor:
        return self._mean

    def _forward(self, x: Any) -> Tensor:
        """Return features in training mode, and the averaged log-probabilities otherwise."""
        features = run(split(self._network)[0], x).float()
        self._features = features
        if self._parts_or_fail().training:
            return features
        return self._average(features, self._weights_of_workers())

    def _average(self, features: Tensor, weights: Tensor, without: Tensor | None = None) -> Tensor:
        """Log of the weighted average of workers' predictions, (n, n_classes), optionally `without` some workers."""
        total = features.new_zeros(len(features), len(self._classes))
        workers = torch.arange(len(weights), device=features.device)
        for part in workers.split(max(1, (1 << 22) // max(total.numel(), 1))):
            share = weights[part].expand(len(features), -1)
            if without is not None:
                share = share.masked_fill(without[:, part], 0.0)
            # Only weights are trained at this point, so predictions are detached.
            opinions = self._heads.opinions(features, part).exp().detach()
            total = total + (opinions * share[:, :, None]).sum(dim=1)
        total = total.clamp_min(torch.finfo(total.dtype).tiny)
        return (total / total.sum(dim=1, keepdim=True)).log()

    def _label_log_probs(self, batch: Batch, log_probs: Tensor) -> Tensor:
        answers = self._heads.answers(self._features[batch.sample], batch.worker)
        likelihood: Tensor = answers.gather(1, batch.label[:, None])[:, 0]
        return likelihood

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        return -self._reduce(self._label_log_probs(batch, log_probs), batch)


class _Weights(nn.Module):
    """A trainable weight per worker, initially uniform."""

    def __init__(self, n_workers: int) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(n_workers))

    def forward(self) -> Tensor:
        return torch.softmax(self.logits, dim=0)


class WeightedDoctorNet(DoctorNet):
    """Weighted Doctor Net: the weights of the average are trained after the heads.

    Use it if some workers are much better than others.

    Parameters
    ----------
    backbone : nn.Sequential or nn.Module
        As for `DoctorNet`.
    weight_epochs : int, default 10
        Epochs, out of all, in which only the weights are trained, so that the average over the workers who did not
        label per sample predicts its labels.
    weight_lr : float, default 0.01
        Learning rate (Adam) of the log-weights; larger than for networks because there is one number per worker.
    **training
        See :class:`~manyhands.learn.Training`. Applies to the heads, which are trained in the first ``max_epochs -
        weight_epochs`` epochs; `validation` and `patience` select among these.

    Notes
    -----
    Training the weights takes O(workers · features · classes) per sample and epoch. If all workers labeled a sample,
    all are averaged. Weights favor workers who predict the answers of others; if most answers are random, they are
    uninformative. ``history_`` is that of the heads.
    favor no worker. ``history_`` is that of the heads.

    References
    ----------
    As of `DoctorNet`.
    """

    def __init__(
        self,
        backbone: nn.Module,
        *,
        weight_epochs: int = 10,
        weight_lr: float = 0.01,
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(backbone, **training)
        self.weight_epochs = weight_epochs
        self.weight_lr = weight_lr

    def _check(self) -> None:
        super()._check()
        check_number("weight_epochs", self.weight_epochs, least=1, whole=True)
        check_number("weight_lr", self.weight_lr, least=0)
        if self.weight_epochs >= self.max_epochs:
            raise ValueError(
                f"weight_epochs={self.weight_epochs} must be below max_epochs={self.max_epochs}, which includes them"
            )

    @property
    def _n_epochs(self) -> int:
        return self.max_epochs - self.weight_epochs

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        return super()._extra_parts(data) | {"weights": _Weights(data.votes.n_workers)}

    def _weights_of_workers(self) -> Tensor:
        weights: Tensor = self._parts_or_fail()["weights"]()
        return weights

    @property
    def weights_(self) -> Array:
        """Weight of each worker in the average, shape (n_workers,); weights sum to one."""
        self._fitted()
        weights = self._weights_of_workers().detach().double().cpu().numpy()
        return weights / weights.sum()

    def _after_training(self, data: CrowdData) -> None:
        self._train_weights(data)
        super()._after_training(data)

    def _train_weights(self, data: CrowdData) -> None:
        """Train the worker weights, with the heads fixed and in evaluation mode."""
        training_data = self._to_learn_from(data)
        aims = torch.from_numpy(vote_shares(training_data.votes)).float().to(self._on)
        optimizer = torch.optim.Adam(self._parts_or_fail()["weights"].parameters(), lr=self.weight_lr)
        shuffle = torch.Generator().manual_seed(self.seed)
        for _ in range(self.weight_epochs):
            for batch in training_data.batches(self._training, self.batch_size, self._on, shuffle=shuffle):
                optimizer.zero_grad()
                soft_cross_entropy(self._others_opinion(batch), aims[batch.tasks]).mean().backward()
                optimizer.step()

    def _others_opinion(self, batch: Batch) -> Tensor:
        """Log of the average prediction of workers who did not label a sample, or of all if everyone labeled it."""
        labelled = torch.zeros(len(batch), len(self._workers), dtype=torch.bool, device=self._on)
        labelled[batch.sample, batch.worker] = True
        labelled &= ~labelled.all(dim=1, keepdim=True)
        with torch.no_grad():
            features = run(split(self._network)[0], batch.x).float()
        return self._average(features, self._weights_of_workers(), labelled)
