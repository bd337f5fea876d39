"""Networks trained on fixed targets: votes, aggregated labels, or all labels."""

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
from manyhands.learn.active import MOST_FOCUS, AnswerLoss, BinaryQuestions, Said
from manyhands.learn.learner import Learner
from manyhands.learn.losses import bootstrap, soft_cross_entropy

__all__ = ["AggregatedTarget", "LearnFromAll", "MajorityTarget", "SoftBootstrap", "SoftTarget"]


class _TargetLearner(Learner):
    """Base class: cross-entropy with a target distribution per sample."""

    @abstractmethod
    def _targets(self, votes: Annotations) -> Array:
        """Return the target distribution of each task, (n_tasks, n_classes)."""

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        start = self._start(data.votes)
        targets = self._targets(data.votes) if start is None else start[0]
        self._sample_targets = torch.from_numpy(targets).float().to(self._on)
        return {}

    def _sample_losses(self, log_probs: Tensor, targets: Tensor) -> Tensor:
        return soft_cross_entropy(log_probs, targets)

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        return self._sample_losses(log_probs, self._sample_targets[batch.tasks]).mean()


def vote_shares(votes: Annotations) -> Array:
    """Vote share of each class, by task, (n_tasks, n_classes)."""
    return votes.table.vote_shares()[0]


def majority(votes: Annotations) -> Array:
    """Majority class as a distribution, with ties split evenly, (n_tasks, n_classes)."""
    shares = vote_shares(votes)
    best = (shares == shares.max(axis=1, keepdims=True)).astype(np.float64)
    return best / best.sum(axis=1, keepdims=True)


class MajorityTarget(_TargetLearner, BinaryQuestions):
    """Train on the majority vote, with ties split evenly. A baseline.

    Parameters
    ----------
    backbone : nn.Module
        Any ``nn.Module`` that returns logits.
    loss : {"ce", "focal", "kappa"}, default "ce"
        Cross-entropy; focal loss of one binary question per class, with a power from the class balance; or weighted
        kappa. The last two are those of `Learn2Agree` for a single annotator with the majority labels.
    most_focus : float or None, default 5.0
        Largest power of the focal loss; None for no limit, as in the paper, where the answers of one-sided annotators
        hardly count.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    Time per epoch: that of the backbone. Kappa stores samples · classes numbers.

    Examples
    --------
    >>> import torch, manyhands as mh
    >>> X, truth = mh.categorical.synthetic.gaussians(300, 3)
    >>> crowd = mh.simulate(truth=truth, n_workers=20, n_classes=3, labels_per_task=3)
    >>> learner = mh.learn.MajorityTarget(torch.nn.Linear(10, 3), max_epochs=5).fit(X, crowd.log)
    >>> learner.predict_proba(X).shape
    (300, 3)
    """

    def __init__(
        self,
        backbone: nn.Module,
        *,
        loss: AnswerLoss = "ce",
        most_focus: float | None = MOST_FOCUS,
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(backbone, **training)
        self.loss = loss
        self.most_focus = most_focus

    def _targets(self, votes: Annotations) -> Array:
        return majority(votes)

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        parts = super()._extra_parts(data)
        if self.loss == "ce":
            return parts
        training_targets = self._sample_targets[data.samples.to(self._on)].double().cpu().numpy()
        return parts | self._question_parts(len(data), Said.of_one(training_targets))

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        if self.loss == "ce":
            return super()._loss(batch, log_probs)
        n = len(batch)
        vote = replace(batch, sample=torch.arange(n, device=self._on), worker=batch.tasks.new_zeros(n))
        positive_shares, weight = self._sample_targets[batch.tasks][:, self._positive], log_probs.new_ones(n)
        return self._answer_losses(vote, self._log_odds(log_probs), positive_shares, weight).mean()


class SoftTarget(_TargetLearner):
    """Train on vote shares, so that disagreement becomes uncertainty.

    Use it if disagreement reflects ambiguous samples. Time per epoch: that of the backbone. Takes a backbone and the
    settings of :class:`~manyhands.learn.Training`.
    """

    def _targets(self, votes: Annotations) -> Array:
        return vote_shares(votes)


class AggregatedTarget(_TargetLearner):
    """Train on the posteriors of an aggregator: labels first, network second.

    A strong and simple baseline.

    Parameters
    ----------
    backbone : nn.Module
        Any ``nn.Module`` that returns logits.
    aggregator : Aggregator, optional
        Fitted to the votes before training (a copy; the one passed is unchanged). By default `DawidSkene()`.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    Time per epoch: that of the backbone. ``confusion_`` is that of the aggregator.
    """

    def __init__(
        self, backbone: nn.Module, *, aggregator: Aggregator | None = None, **training: Unpack[TrainingOptions]
    ) -> None:
        super().__init__(backbone, **training)
        self.aggregator = aggregator

    def _check(self) -> None:
        super()._check()
        if self.aggregator is not None and not isinstance(self.aggregator, Aggregator):
            raise TypeError(
                f"aggregator must be an aggregator such as DawidSkene(), not {type(self.aggregator).__name__}"
            )

    def _targets(self, votes: Annotations) -> Array:
        model = DawidSkene() if self.aggregator is None else copy.copy(self.aggregator)
        self._fit_of_votes = model.fit(votes)
        return self._fit_of_votes.posterior_

    def _learned_confusion(self, data: CrowdData, predicted: Array) -> Array:
        if self.start_from is not None:
            return super()._learned_confusion(data, predicted)
        return self._fit_of_votes.confusion_


class SoftBootstrap(_TargetLearner):
    """Soft bootstrapping: targets are `beta` of the majority vote plus the rest of the network's own prediction.

    Parameters
    ----------
    backbone : nn.Module
        Any ``nn.Module`` that returns logits.
    beta : float, default 0.95
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
            raise ValueError(f"beta must be between 0 and 1, not {self.beta}")

    def _targets(self, votes: Annotations) -> Array:
        return majority(votes)

    def _sample_losses(self, log_probs: Tensor, targets: Tensor) -> Tensor:
        return bootstrap(log_probs, targets, self.beta)


class LearnFromAll(BinaryQuestions):
    """Train on all labels, as if workers made no errors. A baseline.

    Parameters
    ----------
    backbone : nn.Module
        Any ``nn.Module`` that returns logits.
    loss : {"ce", "focal", "kappa"}, default "ce"
        Cross-entropy; focal loss of one binary question per class, with a power per worker; or weighted kappa per
        worker. The last two are those of `Learn2Agree`.
    most_focus : float or None, default 5.0
        Largest power of the focal loss; None for no limit, as in the paper, where the answers of one-sided annotators
        hardly count.
    **training
        See :class:`~manyhands.learn.Training`, except `start_from`.

    Notes
    -----
    With cross-entropy and ``reduction="sample"`` it equals `SoftTarget`. Time per epoch: that of the backbone, plus
    O(annotations · classes) for binary questions.
    """

    def __init__(
        self,
        backbone: nn.Module,
        *,
        loss: AnswerLoss = "ce",
        most_focus: float | None = MOST_FOCUS,
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(backbone, **training)
        self.loss = loss
        self.most_focus = most_focus

    def _check(self) -> None:
        super()._check()
        if self.start_from is not None:
            raise ValueError("LearnFromAll has neither posteriors nor confusion matrices; omit start_from")

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        if self.loss == "ce":
            return {}
        return self._question_parts(len(data), Said.of(data.votes, by_sample=self.reduction == "sample"))

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        if self.loss == "ce":
            return -self._reduce(self._label_log_probs(batch, log_probs), batch)
        return self._labels_loss(batch, self._log_odds(log_probs))
