"""Losses with one binary question per class, answered by each annotator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands._base.checks import check_choice, check_number
from manyhands._base.estimator import Array
from manyhands._train.batch import Batch
from manyhands.categorical.table import Annotations
from manyhands.learn.learner import Learner
from manyhands.learn.losses import focal

AnswerLoss = Literal["ce", "focal", "kappa"]

#: Default limit of Eq. 7, which is unbounded: a one-sided worker would get a power of hundreds and be ignored.
MOST_FOCUS = 5.0


@dataclass(frozen=True)
class Said:
    """Class frequencies of each annotator, the basis of class balancing and kappa."""

    #: Number of answers per class, (n_workers, n_classes).
    counts: Array
    #: Weighted share of each class, (n_workers, n_classes).
    shares: Array
    #: Total weight of the annotator's answers, (n_workers,).
    total: Array

    @classmethod
    def of(cls, votes: Annotations, *, by_sample: bool) -> Said:
        """Frequencies of a table; with `by_sample`, the answers to a sample share a weight of one."""
        _, workers, labels = votes.codes()
        shape = (votes.n_workers, votes.n_classes)
        cells = workers.astype(np.int64) * shape[1] + labels
        counts = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
        return cls(counts, *said_shares(votes, by_sample=by_sample))

    @classmethod
    def of_one(cls, targets: Array) -> Said:
        """Frequencies of a single annotator with distributions as answers, (n_samples, n_classes)."""
        counts = targets.sum(axis=0, keepdims=True)
        return cls(counts, counts / max(len(targets), 1), counts.sum(axis=1))


class BinaryQuestions(Learner):
    """Base class of learners with an optional loss of binary questions: cross-entropy, focal or kappa.

    There is one question per class, and a single question for two classes.
    """

    _training_parts: ClassVar[tuple[str, ...]] = ("kappa",)

    loss: AnswerLoss
    most_focus: float | None

    def _check(self) -> None:
        super()._check()
        check_choice("loss", self.loss, ("ce", "focal", "kappa"))
        if self.most_focus is not None:
            check_number("most_focus", self.most_focus, least=0)

    def _question_parts(self, n_samples: int, frequencies: Said) -> dict[str, nn.Module]:
        """Set up the questions, and return the trainable or stateful modules of the loss."""
        k = frequencies.counts.shape[1]
        # With two classes, the second one is the positive class of a single question.
        positive_classes = [1] if k == 2 else list(range(k))
        self._positive = torch.tensor(positive_classes, device=self._on)
        gamma = focus(frequencies.counts, self.most_focus)[:, positive_classes]
        self._gamma = torch.from_numpy(gamma).float().to(self._on)
        if self.loss != "kappa":
            return {}
        shares, total = torch.from_numpy(frequencies.shares[:, positive_classes]), torch.from_numpy(frequencies.total)
        return {"kappa": RunningKappa(n_samples, shares.float(), total.float())}

    def _log_odds(self, log_probs: Tensor) -> Tensor:
        """Logits of each question, (n, n_questions)."""
        positive = log_probs[:, self._positive]
        return positive - torch.log(-torch.expm1(positive.clamp_max(-1e-6)))

    def _answer_losses(self, batch: Batch, logits: Tensor, said: Tensor, weight: Tensor) -> Tensor:
        """Return the loss of each answer, averaged over questions, (n_annotations,).

        `logits` are those of the network, (n, n_questions); `said` the answers from no (0) to yes (1),
        (n_annotations, n_questions); `weight` the weight of the answer within its annotator (for kappa).
        """
        if self.loss == "kappa":
            kappa_losses: Tensor = self._parts_or_fail()["kappa"](batch, torch.sigmoid(logits), said, weight)
            return kappa_losses.mean(dim=1)
        own = logits[batch.sample]
        yes, no = F.logsigmoid(own), F.logsigmoid(-own)
        if self.loss == "ce":
            return -(said * yes + (1 - said) * no).mean(dim=1)
        gamma = self._gamma[batch.worker]
        return (said * focal(yes, gamma) + (1 - said) * focal(no, gamma)).mean(dim=1)

    def _labels_loss(self, batch: Batch, logits: Tensor) -> Tensor:
        """Loss of the labels of a batch, weighted according to `reduction`."""
        is_positive = (batch.label[:, None] == self._positive).float()
        weight = self._weights(batch) * len(batch) if self.reduction == "sample" else batch.weight
        return self._reduce(self._answer_losses(batch, logits, is_positive, weight), batch)


def focus(counts: Array, most: float | None = MOST_FOCUS) -> Array:
    """Return the power of the focal loss, (n_workers, n_classes), larger for one-sided workers (Eq. 7).

    `counts` are the numbers of answers of each worker per class, `most` is the largest power, None for no limit.
    """
    total = counts.sum(axis=1, keepdims=True)
    larger = np.maximum(counts, total - counts)
    smaller = np.maximum(total - larger, 1)
    rate = np.maximum(total - 1, 0) / np.maximum(total, 1)
    return np.minimum((1 - rate**larger) / (1 - rate**smaller), np.inf if most is None else most)


def said_shares(votes: Annotations, *, by_sample: bool) -> tuple[Array, Array]:
    """Return weighted class shares of each worker, (n_workers, n_classes), and total weights, (n_workers,).

    With `by_sample`, the answers to a sample share a weight of one.
    """
    tasks, workers, labels = votes.codes()
    weights = votes.table.weights()
    weight = np.ones(len(tasks)) if weights is None else weights
    least = np.finfo(np.float32).tiny  # avoids division by zero if all weights are zero
    if by_sample:
        weight = weight / np.maximum(np.bincount(tasks, weight, minlength=votes.n_tasks), least)[tasks]
    shape = (votes.n_workers, votes.n_classes)
    cells = workers.astype(np.int64) * shape[1] + labels
    class_weights = np.bincount(cells, weight, minlength=shape[0] * shape[1]).reshape(shape)
    total = class_weights.sum(axis=1)
    return class_weights / np.maximum(total, least)[:, None], total


class RunningKappa(nn.Module):
    """Weighted-kappa loss of the network with each worker, over all answers of the worker.

    A batch contains too few answers of a worker to compute kappa. Therefore the latest prediction of each sample is
    stored, together with the observed disagreement O and the mean prediction of every worker; mean answers of workers
    are known in advance. Each batch updates the predictions of its samples, and gradients flow through these. Initial
    predictions are the average answer, so all kappas start at zero.

    Stores (samples + 3 · workers) · tasks numbers; a step touches those of its batch.

    Parameters
    ----------
    n_samples : int
        Number of samples.
    said : Tensor of shape (n_workers, n_tasks)
        Share of the positive class among the answers of each worker.
    total : Tensor of shape (n_workers,)
        Total weight of the answers of each worker.
    """

    predicted: Tensor
    said: Tensor
    total: Tensor
    observed: Tensor
    mean: Tensor

    def __init__(self, n_samples: int, said: Tensor, total: Tensor) -> None:
        super().__init__()
        average = (total @ said / total.sum()).expand(len(said), -1)
        self.register_buffer("predicted", average[:1].repeat(n_samples, 1))
        self.register_buffer("said", said)
        self.register_buffer("total", total.clamp_min(torch.finfo(total.dtype).tiny))
        self.register_buffer("observed", _disagreement(average, said))
        self.register_buffer("mean", average.clone())

    def forward(self, batch: Batch, probs: Tensor, said: Tensor, weight: Tensor) -> Tensor:
        """Return the loss of the worker of each annotation, (n_annotations, n_tasks), and update the state.

        `probs` are probabilities of the positive class, (n, n_tasks); `said` whether the annotation is positive,
        (n_annotations, n_tasks); `weight` its weight within the worker. The sigmoid of log(1 − κ), with κ = 1 − O / E,
        equals O / (O + E), where E is the disagreement expected by chance.
        """
        own = probs[batch.sample]
        self._renew(batch, probs.detach(), said, (weight / self.total[batch.worker])[:, None])
        share, mean = self.said[batch.worker], self.mean[batch.worker]
        observed, expected = self.observed[batch.worker].clamp_min(0), _disagreement(mean, share)
        # A worker with constant answers has κ = 0 for all predictions; for the others E is positive.
        has_both_answers = (share > 0) & (share < 1)
        total_disagreement = torch.where(has_both_answers, observed + expected, 1.0)
        # Derivative of the loss with respect to O and the mean prediction, at their current values.
        scale = has_both_answers / total_disagreement**2
        step = scale * (expected * _disagreement(own, said) - observed * (1 - 2 * share) * own)
        return torch.where(has_both_answers, observed / total_disagreement, 0.5) + step - step.detach()

    def _renew(self, batch: Batch, probs: Tensor, said: Tensor, weight: Tensor) -> None:
        before, now = self.predicted[batch.tasks][batch.sample], probs[batch.sample]
        changed = _disagreement(now, said) - _disagreement(before, said)
        self.observed.index_add_(0, batch.worker, weight * changed)
        self.mean.index_add_(0, batch.worker, weight * (now - before))
        self.predicted[batch.tasks] = probs


def _disagreement(p: Tensor, q: Tensor) -> Tensor:
    """Probability that two independent binary answers differ."""
    return p * (1 - q) + (1 - p) * q
