"""Learn2Agree: a classifier that is drawn towards what annotators agree on."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Unpack

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands.checks import check_choice, check_number
from manyhands.estimator import Array
from manyhands.learn.learner import Learner
from manyhands.learn.losses import agreement_regression, focal, towards_agreement
from manyhands.learn.targets import vote_shares
from manyhands.table.annotations import Annotations
from manyhands.train.batch import Batch, CrowdData
from manyhands.train.settings import TrainingOptions
from manyhands.train.trunk import n_features, split

__all__ = ["Learn2Agree"]

#: Eq. 7 has no bound; a worker who nearly always says the same would have a power of hundreds and count for nothing.
_MOST_FOCUS = 5.0


class AgreementStream(nn.Module):
    """What annotators will agree on, from features: for each binary task a level of agreement and an indicator.

    ``"distribution"``: a distribution over `bins` + 1 levels, whose mean is the agreement and from which two layers
    make the indicator; ``"linear"``: one number that is both.
    """

    def __init__(self, n_features: int, n_tasks: int, kind: str, bins: int, hidden: int = 16) -> None:
        super().__init__()
        self.kind, self.n_tasks = kind, n_tasks
        outputs = n_tasks * (bins + 1 if kind == "distribution" else 1)
        self.levels = nn.Linear(n_features, outputs)
        if kind == "distribution":
            self.register_buffer("values", torch.linspace(0, 1, bins + 1))
            self.indicator = nn.Sequential(nn.Linear(bins + 1, hidden), nn.ReLU(), nn.Linear(hidden, 1), nn.Sigmoid())

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Agreement and indicator of each binary task, both (n, n_tasks)."""
        if self.kind == "linear":
            agreement = torch.sigmoid(self.levels(features))
            return agreement, agreement
        levels = torch.softmax(self.levels(features).reshape(len(features), self.n_tasks, -1), dim=2)
        return levels @ self.values, self.indicator(levels)[:, :, 0]  # type: ignore[operator]


class Learn2Agree(Learner):
    """Learn2Agree: for data without an objective truth, a classifier that agrees with all annotators.

    A second stream of the network learns how far annotators agree that a sample is of a class, and moves the
    classifier's probability towards what they agree on. More than two classes are one binary task each.

    Parameters
    ----------
    backbone
        An ``nn.Sequential`` whose last layer makes the logits, or a module with parts ``trunk`` and ``head``.
    stream
        ``"distribution"``: a distribution over levels of agreement, learnt by the agreement regression loss;
        ``"linear"``: one number, learnt by its root mean squared error.
    loss
        Of the classifier: ``"focal"``, with a power for each annotator that follows from the annotator's class balance,
        or ``"kappa"``, the weighted-kappa loss of each annotator.
    strength
        How far the indicator moves the probability; 0 does not.
    bins
        Levels of agreement beside the first.
    **training
        See :class:`~manyhands.learn.Training`. Annotators count alike (``reduction="worker"``), as in the paper.

    Notes
    -----
    Time per epoch O(annotations · classes) beside the backbone. The power of an annotator is at most 5, where the paper
    has no bound. Predictions are the regularised ones.

    The kappa of an annotator is, as in the paper, over all of the annotator's answers, with the prediction that each
    sample had when it was last in a batch: (samples + 3 · annotators) · classes numbers are kept. Weights of
    annotations count in it, and `reduction` says how annotators are averaged: alike (``"worker"``), by their answers
    (``"label"``), or by answers of which those to one sample weigh one together (``"sample"``). The kappa of one who
    never, or always, names a class is zero whatever is predicted, and teaches nothing.

    References
    ----------
    C. Wang et al., "Learn2Agree: fitting with multiple annotators without objective ground truth" (2022).
    """

    _defaults: ClassVar[dict[str, Any]] = {"reduction": "worker", "worker_lr": None}

    _training_parts: ClassVar[tuple[str, ...]] = ("kappa",)

    def __init__(
        self,
        backbone: nn.Module,
        *,
        stream: Literal["distribution", "linear"] = "distribution",
        loss: Literal["focal", "kappa"] = "focal",
        strength: float = 3.0,
        bins: int = 10,
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(backbone, **training)
        self.stream = stream
        self.loss = loss
        self.strength = strength
        self.bins = bins

    def _check(self) -> None:
        super()._check()
        check_choice("stream", self.stream, ("distribution", "linear"))
        check_choice("loss", self.loss, ("focal", "kappa"))
        check_number("strength", self.strength, least=0)
        check_number("bins", self.bins, least=1, whole=True)
        split(self.backbone)

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        votes = data.votes
        # Of two classes the second is the positive one of a single task.
        self._positive = torch.tensor([1] if votes.n_classes == 2 else list(range(votes.n_classes)), device=self._on)
        start = self._start(votes)
        shares = vote_shares(votes) if start is None else start[0]
        self._agreement = torch.from_numpy(shares).float().to(self._on)[:, self._positive]
        self._gamma = torch.from_numpy(focus(votes)).float().to(self._on)[:, self._positive]
        width = n_features(self.backbone, data)
        parts: dict[str, nn.Module] = {"stream": AgreementStream(width, len(self._positive), self.stream, self.bins)}
        if self.loss == "kappa":
            said, total = said_shares(votes, by_sample=self.reduction == "sample")
            parts["kappa"] = RunningKappa(
                len(data), torch.from_numpy(said).float()[:, self._positive.cpu()], torch.from_numpy(total).float()
            )
        return parts

    def _forward(self, x: Any) -> Tensor:
        trunk, head = split(self._network)
        features = trunk(x)
        log_probs = F.log_softmax(self._checked(head(features)), dim=1)
        self._level, indicator = self._parts_or_fail()["stream"](features.float())
        rest = torch.log(-torch.expm1(log_probs[:, self._positive].clamp_max(-1e-6)))
        self._logits = towards_agreement(log_probs[:, self._positive] - rest, indicator, self.strength)
        if len(self._positive) == 1:
            return F.logsigmoid(torch.cat([-self._logits, self._logits], dim=1))
        return F.log_softmax(F.logsigmoid(self._logits), dim=1)

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        agreement = self._agreement[batch.tasks]
        if self.stream == "distribution":
            of_stream = agreement_regression(self._level, agreement).mean()
        else:
            of_stream = ((self._level - agreement) ** 2).mean().clamp_min(1e-12).sqrt()
        said = (batch.label[:, None] == self._positive).float()
        logits = self._logits[batch.sample]
        if self.loss == "kappa":
            weight = self._weights(batch) * len(batch) if self.reduction == "sample" else batch.weight
            of_workers = self._parts_or_fail()["kappa"](batch, torch.sigmoid(self._logits), said, weight)
            return of_stream + self._reduce(of_workers.mean(dim=1), batch)
        log_right = F.logsigmoid(torch.where(said > 0, logits, -logits))
        return of_stream + self._reduce(focal(log_right, self._gamma[batch.worker]).mean(dim=1), batch)


def focus(votes: Annotations) -> Array:
    """Power of the focal loss, (n_workers, n_classes): larger where a worker's answers are one-sided (Eq. 7)."""
    _, workers, labels = votes.codes()
    shape = (votes.n_workers, votes.n_classes)
    said = np.bincount(workers.astype(np.int64) * shape[1] + labels, minlength=shape[0] * shape[1]).reshape(shape)
    total = said.sum(axis=1, keepdims=True)
    most = np.maximum(said, total - said)
    least = np.maximum(total - most, 1)
    rate = (total - 1) / np.maximum(total, 1)
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
