"""Doctor Net: a head of the network for each worker, whose opinions are averaged."""

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
    """A linear layer from d features to logits for each worker, all alike at first.

    Numbers kept: workers · (d + 1) · classes.
    """

    def __init__(self, n_workers: int, head: nn.Linear) -> None:
        super().__init__()
        bias = head.bias if head.bias is not None else head.weight.new_zeros(head.out_features)
        self.table = WorkerTable(n_workers, torch.cat([head.weight, bias[:, None]], dim=1))

    def answers(self, features: Tensor, worker: Tensor) -> Tensor:
        """Log-probabilities of each worker's answer to its own sample, (n, n_classes): one batched product."""
        rows = self.table(worker)
        return F.log_softmax(torch.baddbmm(rows[:, :, -1:], rows[:, :, :-1], features[:, :, None])[:, :, 0], dim=1)

    def opinions(self, features: Tensor, worker: Tensor) -> Tensor:
        """Log-probabilities of all these workers' answers to all samples, (n, workers, n_classes)."""
        rows = self.table(worker)
        logits = torch.einsum("nd,mkd->nmk", features, rows[:, :, :-1]) + rows[:, :, -1]
        return F.log_softmax(logits, dim=2)


class DoctorNet(Learner):
    """Doctor Net: the network foretells each worker's answer with a head of its own; the answers are averaged.

    Parameters
    ----------
    backbone
        An ``nn.Sequential`` whose last layer is linear and makes the logits, or a module with parts ``trunk`` and
        ``head``. The last layer is where every worker's head starts.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    Time per epoch O(annotations · features · classes) beside the backbone; a prediction takes O(workers · features ·
    classes) a sample, since every worker is asked. There is no model of the class apart from the average opinion, so a
    crowd that is mostly wrong is followed.

    References
    ----------
    M. Y. Guan, V. Gulshan, A. M. Dai and G. E. Hinton, "Who said what: modeling individual labelers improves
    classification", AAAI 2018.
    """

    #: Heads are layers of the network, and see as many samples as others.
    _defaults: ClassVar[dict[str, Any]] = {"worker_lr": None}

    def _check(self) -> None:
        super()._check()
        head = split(self.backbone)[1]
        if not isinstance(head, nn.Linear):
            raise ValueError(f"the last layer of the backbone must be nn.Linear, not {type(head).__name__}")

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        if self.start_from is not None:
            raise ValueError(f"a {type(self).__name__} has no confusion matrices to start from; leave start_from out")
        head = split(self.backbone)[1]
        assert isinstance(head, nn.Linear)
        if head.out_features != data.votes.n_classes:
            raise ValueError(
                f"the last layer of the backbone must have one output a class, {data.votes.n_classes}, not "
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
        """The features; what the workers make of them is a matter of the loss while training."""
        features = run(split(self._network)[0], x).float()
        self._features = features
        if self._parts_or_fail().training:
            return features
        return self._average(features, self._weights_of_workers())

    def _average(self, features: Tensor, weights: Tensor, without: Tensor | None = None) -> Tensor:
        """Log of the workers' opinions averaged with weights, perhaps without some (n, workers), (n, n_classes)."""
        total = features.new_zeros(len(features), len(self._classes))
        workers = torch.arange(len(weights), device=features.device)
        for part in workers.split(max(1, (1 << 22) // max(total.numel(), 1))):
            share = weights[part].expand(len(features), -1)
            if without is not None:
                share = share.masked_fill(without[:, part], 0.0)
            # Opinions are settled where they are averaged: only weights may still be learnt.
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
    """A share for each worker, even at first."""

    def __init__(self, n_workers: int) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(n_workers))

    def forward(self) -> Tensor:
        return torch.softmax(self.logits, dim=0)


class WeightedDoctorNet(DoctorNet):
    """Weighted Doctor Net: the weights of the average are learnt, once the heads are.

    Parameters
    ----------
    backbone
        As of `DoctorNet`.
    weight_epochs
        Epochs, of all, in which only the weights are learnt: the average of those who did not label a sample shall
        agree with those who did.
    weight_lr
        Rate of the weights' logarithms, by Adam. It is larger than a network's: there is one number a worker, and all
        start alike.
    **training
        See :class:`~manyhands.learn.Training`. It concerns the heads, which have the first ``max_epochs -
        weight_epochs`` epochs; `validation` and `patience` choose among those, and weights are learnt for the best.

    Notes
    -----
    An epoch of weights takes O(workers · features · classes) a sample. Where everybody labelled a sample, all are
    averaged. Weights favour those who foretell what others say: where most answers are given without looking, they
    favour nobody. ``history_`` is that of the heads.

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
                f"weight_epochs={self.weight_epochs} leaves no epoch of max_epochs={self.max_epochs} for the heads"
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
        """Weight of each worker's opinion in the average, (n_workers,); they sum to one."""
        self._fitted()
        weights = self._weights_of_workers().detach().double().cpu().numpy()
        return weights / weights.sum()

    def _after_training(self, data: CrowdData) -> None:
        self._learn_weights(data)
        super()._after_training(data)

    def _learn_weights(self, data: CrowdData) -> None:
        """Learn how much each worker's opinion counts: the heads are settled, and in evaluation mode."""
        known = self._to_learn_from(data)
        aims = torch.from_numpy(vote_shares(known.votes)).float().to(self._on)
        optimizer = torch.optim.Adam(self._parts_or_fail()["weights"].parameters(), lr=self.weight_lr)
        shuffle = torch.Generator().manual_seed(self.seed)
        for _ in range(self.weight_epochs):
            for batch in known.batches(self._training, self.batch_size, self._on, shuffle=shuffle):
                optimizer.zero_grad()
                soft_cross_entropy(self._others_opinion(batch), aims[batch.tasks]).mean().backward()
                optimizer.step()

    def _others_opinion(self, batch: Batch) -> Tensor:
        """Log of the average opinion of those who did not label a sample, or of all if everybody did."""
        labelled = torch.zeros(len(batch), len(self._workers), dtype=torch.bool, device=self._on)
        labelled[batch.sample, batch.worker] = True
        labelled &= ~labelled.all(dim=1, keepdim=True)
        with torch.no_grad():
            features = run(split(self._network)[0], batch.x).float()
        return self._average(features, self._weights_of_workers(), labelled)
