"""Two-stage label correction: confusion matrices from anchor points, then training on corrected labels."""

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
from manyhands.learn.heads import label_columns
from manyhands.learn.losses import soft_cross_entropy
from manyhands.learn.madl import PerformanceLearner
from manyhands.learn.targets import SoftTarget

__all__ = ["AnchorTransition"]

#: Settings of the second stage only.
_SECOND = frozenset({"max_epochs", "validation", "patience", "callbacks", "checkpoint"})


class AnchorTransition(PerformanceLearner):
    """Label correction in two stages, with instance-dependent confusion matrices learned at anchor points.

    Use it if worker errors depend on the sample. First, a network is trained on vote shares. Samples with the most
    confident predictions become anchor points, whose class is treated as known; a performance network learns how
    workers label them. Then each sample gets the class with the highest likelihood of its labels, if the likelihood
    ratio to every other class is large enough. The final network is trained on these classes.

    Parameters
    ----------
    backbone : nn.Sequential or nn.Module
        An ``nn.Sequential`` whose last layer returns the logits, or a module with parts ``trunk`` and ``head``.
    anchors : float, default 0.5
        Share of anchor points among the samples of each predicted class.
    ratio : float, default 2.0
        Minimum likelihood ratio of the corrected class to all others; other samples are not used. 1 accepts the most
        likely class.
    first_epochs, judging_epochs : int, default 20
        Epochs of the first network and of the performance network.
    right : float, default 0.8
        Initial accuracy of workers.
    size : int, default 16
        Dimension of the worker embeddings.
    dropout : float, default 0.5
        Dropout rate of the performance network.
    **training
        See :class:`~manyhands.learn.Training`. Applies to both networks, except that `max_epochs`, `validation`,
        `patience`, callbacks and ``history_`` belong to the second.

    Notes
    -----
    Time: training the backbone twice, `judging_epochs` predictions of the anchor points, and O(labels of anchor points
    · (size³ + size · classes²)) for each of these. ``fit(..., resume=True)`` repeats the first stage.

    The transition model of the paper is a Bayesian network with a spike-and-slab prior; here it is a point estimate as
    in `MaDL`, on the features of the first network. ``confusion_`` is averaged over the samples a worker labeled.
    Wrong anchor points are not corrected: if votes mislead the first network, they also mislead the second.

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
    _saved_state: ClassVar[dict[str, bool]] = PerformanceLearner._saved_state | {"_anchors": False}
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

    # --------------------------------------------------------------------------------------- first stage

    def _prepare(self, data: CrowdData) -> None:
        shared = {item.name: getattr(self, item.name) for item in TRAINING if item.name not in _SECOND}
        first = SoftTarget(self.backbone, max_epochs=self.first_epochs, **shared)
        first._fit(lambda: data, resume=False, overwrite=False, progress=False)
        self._parts_or_fail()["first"].load_state_dict(first.network_.state_dict())
        predicted = first._predicted(data)
        self._anchors = self._select_anchors(predicted, data.samples.numpy())
        self._train_performance(data, torch.from_numpy(predicted.argmax(axis=1)).to(self._on))
        self._sample_targets = self._correct_labels(data)

    def _select_anchors(self, predicted: Array, samples: Any) -> Any:
        """Select the anchor points: the most confident samples of each predicted class, at least one."""
        is_anchor = np.zeros(len(predicted), np.bool_)
        winners, confidence = predicted.argmax(axis=1), predicted.max(axis=1)
        for k in range(predicted.shape[1]):
            class_samples = samples[winners[samples] == k]
            is_anchor[
                class_samples[np.argsort(-confidence[class_samples], kind="stable")][
                    : math.ceil(self.anchors * len(class_samples)) or 1
                ]
            ] = True
        return is_anchor

    def _train_performance(self, data: CrowdData, classes: Tensor) -> None:
        """Train the performance network on the anchor points, treating their classes as known."""
        parts = self._parts_or_fail().eval()
        parts["performance"].train()
        anchor_rows = torch.from_numpy(np.flatnonzero(self._anchors))
        optimizers, shuffle = self._optimizers(), torch.Generator().manual_seed(self.seed)
        for _ in range(self.judging_epochs):
            for batch in data.batches(anchor_rows, self.batch_size, self._on, shuffle=shuffle):
                parts.zero_grad()
                (-self._reduce(self._log_probs_given_class(batch, classes), batch)).backward()
                for optimizer in optimizers:
                    optimizer.step()
        parts.zero_grad()

    def _log_probs_given_class(self, batch: Batch, classes: Tensor) -> Tensor:
        """Log-probability of each label given the class of its sample, (n_annotations,)."""
        columns = label_columns(self._log_confusion(batch), batch.label)
        return columns.gather(1, classes[batch.tasks][batch.sample][:, None])[:, 0]

    @torch.no_grad()
    def _correct_labels(self, data: CrowdData) -> Tensor:
        """Return the corrected class of each sample as a one-hot row; zeros if no class is likely enough."""
        self._parts_or_fail().eval()
        k = data.votes.n_classes
        aims = torch.zeros(len(data), k, device=self._on)
        for batch in data.batches(data.samples, PREDICTED, self._on):
            evidence = label_columns(self._log_confusion(batch), batch.label) * batch.weight[:, None]
            likelihood = evidence.new_zeros(len(batch), k).index_add(0, batch.sample, evidence)
            best, winners = likelihood.max(dim=1)
            rivals = likelihood.scatter(1, winners[:, None], -torch.inf).max(dim=1).values
            is_likely = best - rivals >= math.log(self.ratio)
            aims[batch.tasks, winners] = is_likely.to(aims.dtype)
        if not bool(aims.any()):
            raise ValueError(
                f"no sample has a class that is ratio={self.ratio:g} times as likely as all others; lower ratio"
            )
        return aims

    def _log_confusion(self, batch: Batch) -> Tensor:
        with torch.no_grad():
            self._features = run(split(self._parts_or_fail()["first"])[0], batch.x).float()
        return super()._log_confusion(batch)

    # -------------------------------------------------------------------------------------- second stage

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        aims = self._sample_targets[batch.tasks]
        return soft_cross_entropy(log_probs, aims).sum() / aims.sum().clamp_min(1)

    def _state(self) -> dict[str, Tensor]:
        return {"aims": self._sample_targets}

    def _set_state(self, state: dict[str, Tensor]) -> None:
        self._sample_targets = state["aims"].to(self._on)

    @property
    def anchors_(self) -> Any:
        """Whether each task is an anchor point, aligned with ``votes.tasks``; False for held-out samples."""
        self._fitted()
        return self._anchors
