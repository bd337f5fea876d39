"""UnionNet: all labels of a sample as one observation."""

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
    """Share of each worker in the labels of a class, counted in one epoch and used in the next.

    Each worker has a pseudo-count of `shrink` labels, distributed over classes like all labels. Stores
    2 · workers · classes numbers.
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
        """Log-shares of some workers in each class, (n, n_classes)."""
        return self.log_shares[worker]

    def add(self, worker: Tensor, classes: Tensor) -> None:
        """Count labels of some workers, with class probabilities, (n, n_classes)."""
        self.counts.index_add_(0, worker, classes.to(self.counts.dtype))

    def count(self) -> None:
        """Update the shares from the counts, and reset the counts."""
        totals = self.counts.sum(dim=0)
        prior = (totals + 1) / (totals + 1).sum()
        shares = self.counts + self.shrink * prior
        self.log_shares.copy_((shares / shares.sum(dim=0)).clamp_min(torch.finfo(shares.dtype).tiny).log())
        self.counts.zero_()


class UnionNet(WorkerLearner):
    """UnionNet: the labels of all workers are one observation, so that the identity of annotators is informative.

    Use it if workers choose samples by class, such as experts who answer what they know. With random assignment, the
    identity of annotators carries no information.

    Parameters
    ----------
    backbone : nn.Module
        Any ``nn.Module`` that returns logits.
    variant : {"A", "B"}, default "B"
        Worker model: ``"B"``, a confusion matrix, as in `CCEM`; ``"A"``, a softmax of transformed probabilities, as in
        `CrowdLayer`.
    shrink : float, default 10.0
        Pseudo-count of labels per worker, distributed over classes like all labels. In the limit of large values,
        variant B is `CCEM` with ``workers="softmax"``.
    **training
        See :class:`~manyhands.learn.Training`; by default every sample has equal weight (``reduction="sample"``).

    Notes
    -----
    Time per epoch O(annotations · classes² + workers · classes) in addition to the backbone.

    An observation is a set of (worker, label) pairs, with one transition matrix from classes to all pairs. The paper
    normalizes this matrix at every step, which costs O(workers · classes²). Here it is a product of the share of each
    worker in the labels of a class, which has a closed-form EM update and is counted per epoch, and the answer
    distribution of the worker, which is trained by gradients. In variant A the paper couples both; here they are
    separate.

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
        """Log-probability of each (worker, label) pair, (n,), and its evidence for the classes, (n, n_classes)."""
        class_log_probs = log_probs[batch.sample]
        evidence = class_log_probs + self._who(batch.worker)
        if self.variant == "A":
            answers = self._crowd.log_likelihood(class_log_probs, batch.worker, batch.label)
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
        """Share of each worker in the labels of each class, shape (n_workers, n_classes); columns sum to one."""
        shares: Tensor = self._fitted()["who"].log_shares.detach().double().exp()  # type: ignore[operator]
        normalized: Array = (shares / shares.sum(dim=0)).cpu().numpy()
        return normalized
