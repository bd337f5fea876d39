"""Losses of binary questions: whether a sample is of a class, asked of each class and answered by each annotator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands._base.checks import check_choice
from manyhands._base.estimator import Array
from manyhands._train.batch import Batch
from manyhands.categorical.table import Annotations
from manyhands.learn.learner import Learner
from manyhands.learn.losses import focal

AnswerLoss = Literal["ce", "focal", "kappa"]

#: Eq. 7 has no bound; a worker who nearly always says the same would have a power of hundreds and count for nothing.
_MOST_FOCUS = 5.0


@dataclass(frozen=True)
class Said:
    """What each annotator says of each class, over all samples: what balancing and kappa start from."""

    #: How many answers name each class, (n_workers, n_classes).
    counts: Array
    #: Share of each class by the weight of the answers, (n_workers, n_classes).
    shares: Array
    #: Weight of the annotator's answers, (n_workers,).
    total: Array

    @classmethod
    def of(cls, votes: Annotations, *, by_sample: bool) -> Said:
        """Of a table; `by_sample`: the answers to a sample weigh one together."""
        _, workers, labels = votes.codes()
        shape = (votes.n_workers, votes.n_classes)
        cells = workers.astype(np.int64) * shape[1] + labels
        counts = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
        return cls(counts, *said_shares(votes, by_sample=by_sample))

    @classmethod
    def of_one(cls, targets: Array) -> Said:
        """Of one annotator whose answers are distributions, (n_samples, n_classes)."""
        counts = targets.sum(axis=0, keepdims=True)
        return cls(counts, counts / max(len(targets), 1), counts.sum(axis=1))


class BinaryQuestions(Learner):
    """One whose loss may be of binary questions, one a class (of two classes one): cross-entropy, focal or kappa."""

    _training_parts: ClassVar[tuple[str, ...]] = ("kappa",)

    loss: AnswerLoss

    def _check(self) -> None:
        super()._check()
        check_choice("loss", self.loss, ("ce", "focal", "kappa"))

    def _question_parts(self, n_samples: int, said: Said) -> dict[str, nn.Module]:
        """What the loss needs to know of the annotators, and keeps while it is learnt."""
        k = said.counts.shape[1]
        # Of two classes the second is the positive one of a single question.
        asked = [1] if k == 2 else list(range(k))
        self._positive = torch.tensor(asked, device=self._on)
        self._gamma = torch.from_numpy(focus(said.counts)[:, asked]).float().to(self._on)
        if self.loss != "kappa":
            return {}
        shares, total = torch.from_numpy(said.shares[:, asked]), torch.from_numpy(said.total)
        return {"kappa": RunningKappa(n_samples, shares.float(), total.float())}

    def _log_odds(self, log_probs: Tensor) -> Tensor:
        """Logits of the answer yes to each question, (n, n_questions)."""
        positive = log_probs[:, self._positive]
        return positive - torch.log(-torch.expm1(positive.clamp_max(-1e-6)))

    def _answer_losses(self, batch: Batch, logits: Tensor, said: Tensor, weight: Tensor) -> Tensor:
        """Loss of each answer, (n_annotations,), the mean over questions.

        `logits` are the network's, (n, n_questions); `said` is what an annotation answers, from no (0) to yes (1),
        (n_annotations, n_questions), and `weight` what it weighs among the annotator's for the kappa.
        """
        if self.loss == "kappa":
            found: Tensor = self._parts_or_fail()["kappa"](batch, torch.sigmoid(logits), said, weight)
            return found.mean(dim=1)
        own = logits[batch.sample]
        yes, no = F.logsigmoid(own), F.logsigmoid(-own)
        if self.loss == "ce":
            return -(said * yes + (1 - said) * no).mean(dim=1)
        gamma = self._gamma[batch.worker]
        return (said * focal(yes, gamma) + (1 - said) * focal(no, gamma)).mean(dim=1)

    def _labels_loss(self, batch: Batch, logits: Tensor) -> Tensor:
        """Loss of the labels of a batch, as `reduction` weighs them."""
        said = (batch.label[:, None] == self._positive).float()
        weight = self._weights(batch) * len(batch) if self.reduction == "sample" else batch.weight
        return self._reduce(self._answer_losses(batch, logits, said, weight), batch)


def focus(counts: Array) -> Array:
    """Power of the focal loss, (n_workers, n_classes): larger where a worker's answers are one-sided (Eq. 7).

    `counts` are how often each worker names each class.
    """
    total = counts.sum(axis=1, keepdims=True)
    most = np.maximum(counts, total - counts)
    least = np.maximum(total - most, 1)
    rate = np.maximum(total - 1, 0) / np.maximum(total, 1)
    return np.minimum((1 - rate**most) / (1 - rate**least), _MOST_FOCUS)


def said_shares(votes: Annotations, *, by_sample: bool) -> tuple[Array, Array]:
    """What each worker says of all, (n_workers, n_classes), and the weight of the worker's answers, (n_workers,).

    `by_sample`: the answers to a sample weigh one together.
    """
    tasks, workers, labels = votes.codes()
    weights = votes.table.weights()
    weight = np.ones(len(tasks)) if weights is None else weights
    least = np.finfo(np.float32).tiny  # where nothing has any weight
    if by_sample:
        weight = weight / np.maximum(np.bincount(tasks, weight, minlength=votes.n_tasks), least)[tasks]
    shape = (votes.n_workers, votes.n_classes)
    cells = workers.astype(np.int64) * shape[1] + labels
    said = np.bincount(cells, weight, minlength=shape[0] * shape[1]).reshape(shape)
    total = said.sum(axis=1)
    return said / np.maximum(total, least)[:, None], total


class RunningKappa(nn.Module):
    """Weighted-kappa loss of the network with each worker, over all answers of the worker.

    A batch has few answers of a worker, often all alike: of those alone no kappa can be made. So the prediction that
    each sample had when it was last seen is kept, and with it every worker's observed disagreement O and mean
    prediction; what workers say on average is known from the start. A batch renews the predictions of its samples, and
    gradients go through these. Before a sample is seen its prediction is the average answer of the crowd: all kappas
    are zero at first.

    Numbers kept: (samples + 3 · workers) · tasks; a step touches those of its batch.

    Parameters
    ----------
    n_samples
        How many samples there are.
    said
        Share of the positive class among the answers of each worker, (n_workers, n_tasks).
    total
        Weight of the answers of each worker, (n_workers,).
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
        """Loss of the worker of each annotation, (n_annotations, n_tasks), renewed by a batch.

        `probs` are probabilities of the positive class, (n, n_tasks); `said` tells whether an annotation says it,
        (n_annotations, n_tasks), and `weight` what it weighs among the worker's. The sigmoid of log(1 − κ), κ = 1 − O /
        E, is O / (O + E): observed disagreement beside that expected by chance.
        """
        own = probs[batch.sample]
        self._renew(batch, probs.detach(), said, (weight / self.total[batch.worker])[:, None])
        share, mean = self.said[batch.worker], self.mean[batch.worker]
        observed, expected = self.observed[batch.worker].clamp_min(0), _disagreement(mean, share)
        # A worker who always says the same has κ = 0 whatever is predicted; of others E is above zero.
        telling = (share > 0) & (share < 1)
        both = torch.where(telling, observed + expected, 1.0)
        # What the loss changes by with O and with the mean prediction, at their present values.
        scale = telling / both**2
        step = scale * (expected * _disagreement(own, said) - observed * (1 - 2 * share) * own)
        return torch.where(telling, observed / both, 0.5) + step - step.detach()

    def _renew(self, batch: Batch, probs: Tensor, said: Tensor, weight: Tensor) -> None:
        before, now = self.predicted[batch.tasks][batch.sample], probs[batch.sample]
        changed = _disagreement(now, said) - _disagreement(before, said)
        self.observed.index_add_(0, batch.worker, weight * changed)
        self.mean.index_add_(0, batch.worker, weight * (now - before))
        self.predicted[batch.tasks] = probs


def _disagreement(p: Tensor, q: Tensor) -> Tensor:
    """Probability that two who answer independently differ, of two answers."""
    return p * (1 - q) + (1 - p) * q
