"""Two stages: workers are judged on samples whose class is plain, then the network learns from corrected labels."""

from __future__ import annotations

import copy
import math
from typing import Any, ClassVar, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from manyhands._base.checks import check_number
from manyhands._base.estimator import Array
from manyhands._train.batch import Batch, CrowdData
from manyhands._train.estimator import PREDICTED
from manyhands._train.module_calls import run
from manyhands._train.settings import TRAINING, TrainingOptions
from manyhands._train.trunk import split
from manyhands.learn.heads import picked
from manyhands.learn.losses import soft_cross_entropy
from manyhands.learn.madl import PerformanceLearner
from manyhands.learn.targets import SoftTarget

__all__ = ["AnchorTransition"]

#: Settings that are a matter of the second stage alone.
_SECOND = frozenset({"max_epochs", "validation", "patience", "callbacks", "checkpoint"})


class AnchorTransition(PerformanceLearner):
    """Label correction in two stages, by confusion matrices that depend on the sample and are learnt at anchor points.

    First a network is trained on the shares of the votes. Samples whose class it is surest of are anchor points: their
    class is taken for known, and from their labels a performance network learns how each worker confuses such samples.
    Then the labels of all samples are corrected: the class that makes them most likely, where it beats every other by a
    ratio. The network is trained on those, from the backbone as it was given.

    Parameters
    ----------
    backbone
        An ``nn.Sequential`` whose last layer makes the logits, or a module with parts ``trunk`` and ``head``.
    anchors
        Share of the samples of each predicted class that are anchor points.
    ratio
        How many times as likely as any other a class must make the labels of a sample; samples without such a class are
        not learnt from. At 1 the most likely class will do.
    first_epochs, judging_epochs
        Epochs of the first network, and of the performance network.
    right
        How probably a worker is right, at the start.
    size
        Length of the workers' embeddings.
    dropout
        Share of what is dropped in the performance network.
    **training
        See :class:`~manyhands.learn.Training`. It concerns both networks; `max_epochs`, `validation`, `patience` and
        callbacks are those of the second, and ``history_`` is its own.

    Notes
    -----
    The paper's transition model is a Bayesian network with a spike-and-slab prior; this one is a point estimate, of the
    kind that `MaDL` has, on the features of the first network. ``confusion_`` is averaged over the samples a worker
    labelled. Anchor points that are wrong stay wrong: where the votes mislead the first network, so do they the second.

    Time: the backbone's training twice, `judging_epochs` predictions of the anchor points, and O(labels of anchor
    points · (size³ + size · classes²)) in each of those. ``fit(..., resume=True)`` does the first stage again.

    References
    ----------
    H. Guo, B. Wang and G. Y. Yi, "Label correction of crowdsourced noisy annotations with an instance-dependent noise
    transition model", NeurIPS 2023.

    Examples
    --------
    >>> import torch, manyhands as mh
    >>> X, truth = mh.categorical.synthetic.gaussians(300, 3)
    >>> crowd = mh.simulate(truth=truth, n_workers=20, n_classes=3, labels_per_task=3)
    >>> learner = mh.learn.AnchorTransition(torch.nn.Linear(10, 3), max_epochs=5).fit(X, crowd.log)
    >>> bool(0.4 < learner.anchors_.mean() < 0.6)
    True
    """

    _joint = False
    _kept: ClassVar[dict[str, bool]] = PerformanceLearner._kept | {"_anchors": False}
    _training_parts: ClassVar[tuple[str, ...]] = ("first", "performance", "workers")

    def __init__(
        self,
        backbone: nn.Module,
        *,
        anchors: float = 0.5,
        ratio: float = 2.0,
        first_epochs: int = 20,
        judging_epochs: int = 20,
        right: float = 0.8,
        size: int = 16,
        dropout: float = 0.5,
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(backbone, right=right, size=size, dropout=dropout, **training)
        self.anchors = anchors
        self.ratio = ratio
        self.first_epochs = first_epochs
        self.judging_epochs = judging_epochs

    def _check(self) -> None:
        super()._check()
        check_number("anchors", self.anchors, least=0, most=1)
        check_number("ratio", self.ratio, least=1)
        for name in ("first_epochs", "judging_epochs"):
            check_number(name, getattr(self, name), least=1, whole=True)

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        first = copy.deepcopy(self.backbone).requires_grad_(requires_grad=False)
        return super()._extra_parts(data) | {"first": first}

    # --------------------------------------------------------------------------------------- the first stage

    def _prepare(self, data: CrowdData) -> None:
        shared = {item.name: getattr(self, item.name) for item in TRAINING if item.name not in _SECOND}
        first = SoftTarget(self.backbone, max_epochs=self.first_epochs, **shared)
        first._fit(lambda: data, resume=False, overwrite=False, progress=False)
        self._parts_or_fail()["first"].load_state_dict(first.network_.state_dict())
        predicted = first._predicted(data)
        self._anchors = self._surest(predicted, data.samples.numpy())
        self._judge(data, torch.from_numpy(predicted.argmax(axis=1)).to(self._on))
        self._aims = self._corrected(data)

    def _surest(self, predicted: Array, samples: Any) -> Any:
        """Which samples are anchor points: of each predicted class those of the highest probability, at least one."""
        found = np.zeros(len(predicted), np.bool_)
        winners, sure = predicted.argmax(axis=1), predicted.max(axis=1)
        for k in range(predicted.shape[1]):
            own = samples[winners[samples] == k]
            found[own[np.argsort(-sure[own], kind="stable")][: math.ceil(self.anchors * len(own)) or 1]] = True
        return found

    def _judge(self, data: CrowdData, classes: Tensor) -> None:
        """Learn how workers confuse the anchor points, whose classes are taken for known."""
        parts = self._parts_or_fail().eval()
        parts["performance"].train()
        known = torch.from_numpy(np.flatnonzero(self._anchors))
        optimizers, shuffle = self._optimizers(), torch.Generator().manual_seed(self.seed)
        for _ in range(self.judging_epochs):
            for batch in data.batches(known, self.batch_size, self._on, shuffle=shuffle):
                parts.zero_grad()
                (-self._reduce(self._known_log_probs(batch, classes), batch)).backward()
                for optimizer in optimizers:
                    optimizer.step()
        parts.zero_grad()

    def _known_log_probs(self, batch: Batch, classes: Tensor) -> Tensor:
        """Log-probability of each label given the class of its sample, (n_annotations,)."""
        columns = picked(self._log_confusion(batch), batch.label)
        return columns.gather(1, classes[batch.tasks][batch.sample][:, None])[:, 0]

    @torch.no_grad()
    def _corrected(self, data: CrowdData) -> Tensor:
        """The class of each sample as a row of ones and zeros, without a one where none beats the others."""
        self._parts_or_fail().eval()
        k = data.votes.n_classes
        aims = torch.zeros(len(data), k, device=self._on)
        for batch in data.batches(data.samples, PREDICTED, self._on):
            evidence = picked(self._log_confusion(batch), batch.label) * batch.weight[:, None]
            likelihood = evidence.new_zeros(len(batch), k).index_add(0, batch.sample, evidence)
            best, winners = likelihood.max(dim=1)
            rivals = likelihood.scatter(1, winners[:, None], -torch.inf).max(dim=1).values
            sure = best - rivals >= math.log(self.ratio)
            aims[batch.tasks, winners] = sure.to(aims.dtype)
        if not bool(aims.any()):
            raise ValueError(
                f"no sample has a class that is ratio={self.ratio:g} times as likely as the others; lower ratio"
            )
        return aims

    def _log_confusion(self, batch: Batch) -> Tensor:
        with torch.no_grad():
            self._features = run(split(self._parts_or_fail()["first"])[0], batch.x).float()
        return super()._log_confusion(batch)

    # -------------------------------------------------------------------------------------- the second stage

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        aims = self._aims[batch.tasks]
        return soft_cross_entropy(log_probs, aims).sum() / aims.sum().clamp_min(1)

    def _state(self) -> dict[str, Tensor]:
        return {"aims": self._aims}

    def _set_state(self, state: dict[str, Tensor]) -> None:
        self._aims = state["aims"].to(self._on)

    @property
    def anchors_(self) -> Any:
        """Whether each task is an anchor point, aligned with ``votes.tasks``; False for held-out samples."""
        self._fitted()
        return self._anchors
