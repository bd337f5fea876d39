"""A network trained on targets that are made of the votes before training starts, or on the votes as they are."""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import replace
from typing import Unpack

import numpy as np
import torch
from torch import Tensor, nn

from manyhands._base.checks import check_number
from manyhands._base.estimator import Array
from manyhands._train.batch import Batch, CrowdData
from manyhands._train.settings import TrainingOptions
from manyhands.categorical import DawidSkene
from manyhands.categorical.base import Aggregator
from manyhands.categorical.table import Annotations
from manyhands.learn.active import AnswerLoss, BinaryQuestions, Said
from manyhands.learn.learner import Learner
from manyhands.learn.losses import bootstrap, soft_cross_entropy

__all__ = ["AggregatedTarget", "LearnFromAll", "MajorityTarget", "SoftBootstrap", "SoftTarget"]


class _TargetLearner(Learner):
    """Cross-entropy with a distribution over classes for each sample."""

    @abstractmethod
    def _targets(self, votes: Annotations) -> Array:
        """A distribution for each task, (n_tasks, n_classes)."""

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        start = self._start(data.votes)
        targets = self._targets(data.votes) if start is None else start[0]
        self._aims = torch.from_numpy(targets).float().to(self._on)
        return {}

    def _sample_losses(self, log_probs: Tensor, targets: Tensor) -> Tensor:
        return soft_cross_entropy(log_probs, targets)

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        return self._sample_losses(log_probs, self._aims[batch.tasks]).mean()


def vote_shares(votes: Annotations) -> Array:
    """Share of each class among a task's votes, (n_tasks, n_classes)."""
    return votes.table.vote_shares()[0]


def majority(votes: Annotations) -> Array:
    """The class with most votes, divided among classes that tie, (n_tasks, n_classes)."""
    shares = vote_shares(votes)
    best = (shares == shares.max(axis=1, keepdims=True)).astype(np.float64)
    return best / best.sum(axis=1, keepdims=True)


class MajorityTarget(_TargetLearner, BinaryQuestions):
    """The plain baseline: a network trained on the majority vote, which is divided among classes that tie.

    Parameters
    ----------
    backbone
        Any ``nn.Module`` that returns logits.
    loss
        ``"ce"``, cross-entropy; ``"focal"``, binary questions, one a class, with a power that follows from the class
        balance of the vote; ``"kappa"``, the weighted-kappa loss of the vote. The latter two are those of
        `Learn2Agree`, of an annotator who always says what the majority does.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    Time per epoch: the backbone's. For the kappa, samples · classes numbers are kept.

    Examples
    --------
    >>> import torch, manyhands as mh
    >>> X, truth = mh.categorical.synthetic.gaussians(300, 3)
    >>> crowd = mh.simulate(truth=truth, n_workers=20, n_classes=3, labels_per_task=3)
    >>> learner = mh.learn.MajorityTarget(torch.nn.Linear(10, 3), max_epochs=5).fit(X, crowd.log)
    >>> learner.predict_proba(X).shape
    (300, 3)
    """

    def __init__(self, backbone: nn.Module, *, loss: AnswerLoss = "ce", **training: Unpack[TrainingOptions]) -> None:
        super().__init__(backbone, **training)
        self.loss = loss

    def _targets(self, votes: Annotations) -> Array:
        return majority(votes)

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        parts = super()._extra_parts(data)
        if self.loss == "ce":
            return parts
        known = self._aims[data.samples.to(self._on)].double().cpu().numpy()
        return parts | self._question_parts(len(data), Said.of_one(known))

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        if self.loss == "ce":
            return super()._loss(batch, log_probs)
        n = len(batch)
        vote = replace(batch, sample=torch.arange(n, device=self._on), worker=batch.tasks.new_zeros(n))
        said, weight = self._aims[batch.tasks][:, self._positive], log_probs.new_ones(n)
        return self._answer_losses(vote, self._log_odds(log_probs), said, weight).mean()


class SoftTarget(_TargetLearner):
    """A network trained on the shares of the votes: a sample the crowd disagrees on is an uncertain one.

    Time per epoch: the backbone's. Takes a backbone and what :class:`~manyhands.learn.Training` lists.
    """

    def _targets(self, votes: Annotations) -> Array:
        return vote_shares(votes)


class AggregatedTarget(_TargetLearner):
    """A network trained on the posteriors of an aggregator: labels first, network second.

    Parameters
    ----------
    backbone
        Any ``nn.Module`` that returns logits.
    aggregator
        Fitted to these votes before training (the one given stays as it is); `DawidSkene()` if None.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    Time per epoch: the backbone's. Confusion matrices are the aggregator's.
    """

    def __init__(
        self, backbone: nn.Module, *, aggregator: Aggregator | None = None, **training: Unpack[TrainingOptions]
    ) -> None:
        super().__init__(backbone, **training)
        self.aggregator = aggregator

    def _check(self) -> None:
        super()._check()
        if self.aggregator is not None and not isinstance(self.aggregator, Aggregator):
            raise TypeError(f"aggregator must be an aggregator, not {type(self.aggregator).__name__}")

    def _targets(self, votes: Annotations) -> Array:
        model = DawidSkene() if self.aggregator is None else copy.copy(self.aggregator)
        self._fit_of_votes = model.fit(votes)
        return self._fit_of_votes.posterior_

    def _learnt_confusion(self, data: CrowdData, predicted: Array) -> Array:
        if self.start_from is not None:
            return super()._learnt_confusion(data, predicted)
        return self._fit_of_votes.confusion_


class SoftBootstrap(_TargetLearner):
    """Soft bootstrapping: the target is `beta` of the majority vote and the rest of the network's own prediction.

    Parameters
    ----------
    backbone
        Any ``nn.Module`` that returns logits.
    beta
        Weight of the majority vote; 1 is `MajorityTarget`.
    **training
        See :class:`~manyhands.learn.Training`.

    References
    ----------
    S. Reed et al., "Training deep neural networks on noisy labels with bootstrapping" (2014).
    """

    def __init__(self, backbone: nn.Module, *, beta: float = 0.95, **training: Unpack[TrainingOptions]) -> None:
        super().__init__(backbone, **training)
        self.beta = beta

    def _check(self) -> None:
        super()._check()
        check_number("beta", self.beta, least=0)
        if self.beta > 1:
            raise ValueError(f"beta is a share, between 0 and 1, not {self.beta}")

    def _targets(self, votes: Annotations) -> Array:
        return majority(votes)

    def _sample_losses(self, log_probs: Tensor, targets: Tensor) -> Tensor:
        return bootstrap(log_probs, targets, self.beta)


class LearnFromAll(BinaryQuestions):
    """A network trained on every label as it is, as if no worker ever erred.

    Parameters
    ----------
    backbone
        Any ``nn.Module`` that returns logits.
    loss
        ``"ce"``, cross-entropy; ``"focal"``, binary questions, one a class, with a power for each worker that follows
        from the worker's class balance; ``"kappa"``, the weighted-kappa loss of each worker. The latter two are those
        of `Learn2Agree`, whose notes hold here.
    **training
        See :class:`~manyhands.learn.Training`, but for `start_from`: it learns from the labels, not from posteriors.

    Notes
    -----
    With cross-entropy and ``reduction="sample"`` it is the same as `SoftTarget`. Time per epoch: the backbone's, and
    O(annotations · classes) for binary questions.
    """

    def __init__(self, backbone: nn.Module, *, loss: AnswerLoss = "ce", **training: Unpack[TrainingOptions]) -> None:
        super().__init__(backbone, **training)
        self.loss = loss

    def _check(self) -> None:
        super()._check()
        if self.start_from is not None:
            raise ValueError("a LearnFromAll has neither posteriors nor confusion matrices; leave start_from out")

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        if self.loss == "ce":
            return {}
        return self._question_parts(len(data), Said.of(data.votes, by_sample=self.reduction == "sample"))

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        if self.loss == "ce":
            return -self._reduce(self._label_log_probs(batch, log_probs), batch)
        return self._labels_loss(batch, self._log_odds(log_probs))
