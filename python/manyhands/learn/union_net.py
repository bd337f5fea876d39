"""All labels of a sample as one observation: who answered, and what."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Unpack

import torch
from torch import Tensor, nn

from manyhands._base.checks import check_choice, check_number
from manyhands._base.estimator import Array
from manyhands._train.batch import Batch, CrowdData
from manyhands._train.settings import TrainingOptions
from manyhands.learn.crowd_layer import WorkerLearner
from manyhands.learn.heads import CrowdWeights, FreeConfusion, WorkerModel
from manyhands.learn.losses import log_mixture

__all__ = ["UnionNet"]


class WhoAnswers(nn.Module):
    """The share of each worker in the labels of a class, which batches are counted for and epochs made of.

    Every worker has `shrink` labels beforehand, of all classes as often as all labels have them. Numbers kept: 2 ·
    workers · classes.
    """

    log_shares: Tensor
    counts: Tensor

    def __init__(self, n_labels: Tensor, n_classes: int, shrink: float) -> None:
        super().__init__()
        self.shrink = shrink
        self.register_buffer("counts", n_labels[:, None].expand(-1, n_classes) / n_classes)
        self.register_buffer("log_shares", torch.zeros_like(self.counts))
        self.count()

    def forward(self, worker: Tensor) -> Tensor:
        """Log-share of some workers in each class, (n, n_classes)."""
        return self.log_shares[worker]

    def add(self, worker: Tensor, classes: Tensor) -> None:
        """Count labels of some workers, of classes known by their probabilities, (n, n_classes)."""
        self.counts.index_add_(0, worker, classes.to(self.counts.dtype))

    def count(self) -> None:
        """Take the shares from what was counted, and begin to count anew."""
        totals = self.counts.sum(dim=0)
        prior = (totals + 1) / (totals + 1).sum()
        shares = self.counts + self.shrink * prior
        self.log_shares.copy_((shares / shares.sum(dim=0)).clamp_min(torch.finfo(shares.dtype).tiny).log())
        self.counts.zero_()


class UnionNet(WorkerLearner):
    """UnionNet: the labels of all workers are one observation, so that also who answered tells of the class.

    A sample's observation is a set of pairs (worker, label), and one transition matrix leads from the classes to all
    pairs. Here the matrix is kept as a product: the share of each worker in the labels of a class, and what the worker
    answers to it.

    Parameters
    ----------
    backbone
        Any ``nn.Module`` that returns logits.
    variant
        What a worker answers: ``"B"``, the network's probabilities through a confusion matrix, as `CCEM`; ``"A"``, a
        softmax of what a matrix makes of them, as `CrowdLayer`.
    shrink
        Labels that each worker is given beforehand, of classes as all labels have them: the more, the less it matters
        who answered. In the end variant B is `CCEM` with ``workers="softmax"``.
    **training
        See :class:`~manyhands.learn.Training`; by default every sample counts alike (``reduction="sample"``).

    Notes
    -----
    The paper normalises the matrix over all pairs of worker and label at every step, which costs O(workers · classes²)
    a step. A product says the same, and its parts cost no more than the labels: answers are learnt by gradients, and
    the shares, for which EM has a closed form, are counted in one epoch and used in the next. In variant A the paper
    ties who answers to what is answered; here the two are apart. Where workers are sent to samples at random, who
    answers tells nothing.

    Time per epoch O(annotations · classes² + workers · classes) beside the backbone.

    References
    ----------
    H. Wei, R. Xie, L. Feng, B. Han and B. An, "Deep learning from multiple noisy annotators as a union", IEEE
    Transactions on Neural Networks and Learning Systems 34 (2023).

    Examples
    --------
    >>> import torch, manyhands as mh
    >>> X, truth = mh.categorical.synthetic.gaussians(300, 3)
    >>> crowd = mh.simulate(truth=truth, n_workers=20, n_classes=3, labels_per_task=3)
    >>> learner = mh.learn.UnionNet(torch.nn.Linear(10, 3), max_epochs=5).fit(X, crowd.log)
    >>> learner.shares_.sum(axis=0).round(6).tolist()
    [1.0, 1.0, 1.0]
    """

    _defaults: ClassVar[dict[str, Any]] = {"reduction": "sample"}

    def __init__(
        self,
        backbone: nn.Module,
        *,
        variant: Literal["A", "B"] = "B",
        shrink: float = 10.0,
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(backbone, **training)
        self.variant = variant
        self.shrink = shrink

    def _check(self) -> None:
        super()._check()
        check_choice("variant", self.variant, ("A", "B"))
        check_number("shrink", self.shrink, least=0)

    def _worker_model(self, n_workers: int, n_classes: int) -> WorkerModel:
        if self.variant == "A":
            return CrowdWeights(n_workers, n_classes, kind="MW")
        return FreeConfusion(n_workers, n_classes, link="softmax")

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        n_labels = torch.from_numpy(data.votes.labels_per_worker).float()
        return super()._extra_parts(data) | {"who": WhoAnswers(n_labels, data.votes.n_classes, self.shrink)}

    @property
    def _who(self) -> Any:
        return self._parts_or_fail()["who"]

    def _union(self, batch: Batch, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probability of each pair of worker and label, (n,), and what it tells of the class, (n, n_classes)."""
        given = log_probs[batch.sample]
        evidence = given + self._who(batch.worker)
        if self.variant == "A":
            answers = self._crowd.log_likelihood(given, batch.worker, batch.label)
            return torch.logsumexp(evidence, dim=1) + answers, evidence
        columns = self._crowd.log_parts(batch.worker, batch.label)[0]
        return log_mixture(evidence, columns), evidence + columns

    def _label_log_probs(self, batch: Batch, log_probs: Tensor) -> Tensor:
        return self._union(batch, log_probs)[0]

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        likelihood, evidence = self._union(batch, log_probs)
        if self._parts_or_fail().training:
            self._who.add(batch.worker, torch.softmax(evidence.detach(), dim=1) * batch.weight[:, None])
        return -self._reduce(likelihood, batch)

    def _start_epoch(self, epoch: int, data: CrowdData) -> None:
        if epoch:
            self._who.count()

    def _after_training(self, data: CrowdData) -> None:
        self._who.count()
        super()._after_training(data)

    @property
    def shares_(self) -> Array:
        """Of the labels of each class, the share that each worker gave, (n_workers, n_classes); columns sum to one."""
        shares: Tensor = self._fitted()["who"].log_shares.detach().double().exp()  # type: ignore[operator]
        found: Array = (shares / shares.sum(dim=0)).cpu().numpy()
        return found
