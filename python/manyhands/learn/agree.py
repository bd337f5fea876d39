"""Learn2Agree: a classifier that is drawn towards what annotators agree on."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands.annotations import Annotations
from manyhands.base import Array
from manyhands.checks import check_choice, check_number
from manyhands.learn.batch import Batch, CrowdData
from manyhands.learn.learner import Learner
from manyhands.learn.losses import agreement_regression, focal, towards_agreement
from manyhands.learn.targets import vote_shares
from manyhands.learn.trunk import n_features, split

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

    References
    ----------
    C. Wang et al., "Learn2Agree: fitting with multiple annotators without objective ground truth" (2022).
    """

    _defaults: ClassVar[dict[str, Any]] = {"reduction": "worker", "worker_lr": None}

    def __init__(
        self,
        backbone: nn.Module,
        *,
        stream: Literal["distribution", "linear"] = "distribution",
        loss: Literal["focal", "kappa"] = "focal",
        strength: float = 3.0,
        bins: int = 10,
        **training: Any,
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

    def _build(self, data: CrowdData) -> dict[str, nn.Module]:
        votes = data.votes
        # Of two classes the second is the positive one of a single task.
        self._positive = torch.tensor([1] if votes.n_classes == 2 else list(range(votes.n_classes)), device=self._on)
        start = self._start(votes)
        shares = vote_shares(votes) if start is None else start[0]
        self._agreement = torch.from_numpy(shares).float().to(self._on)[:, self._positive]
        self._gamma = torch.from_numpy(focus(votes)).float().to(self._on)[:, self._positive]
        width = n_features(self.backbone, data)
        return {"stream": AgreementStream(width, len(self._positive), self.stream, self.bins)}

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
        agreement = self._agreement[batch.rows]
        if self.stream == "distribution":
            of_stream = agreement_regression(self._level, agreement).mean()
        else:
            of_stream = ((self._level - agreement) ** 2).mean().clamp_min(1e-12).sqrt()
        said = (batch.label[:, None] == self._positive).float()
        logits = self._logits[batch.sample]
        if self.loss == "kappa":
            return of_stream + kappa_loss(torch.sigmoid(logits), said, batch.worker)
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


def kappa_loss(probs: Tensor, said: Tensor, worker: Tensor) -> Tensor:
    """Weighted-kappa loss of each worker's answers in a batch, through a sigmoid, averaged over workers and tasks.

    `probs` and `said` are (n, n_tasks): predicted probabilities of the positive class, and whether the worker said it.
    The sigmoid of log(1 − κ), κ = 1 − O / E, is O / (O + E): observed disagreement beside that expected by chance.
    """
    present, place = torch.unique(worker, return_inverse=True)
    count = torch.bincount(place, minlength=len(present)).to(probs.dtype)[:, None]

    def mean(values: Tensor) -> Tensor:
        zero = values.new_zeros(len(present), values.shape[1])
        return zero.index_add(0, place, values) / count

    observed = mean(said * (1 - probs) + (1 - said) * probs)
    p, r = mean(probs), mean(said)
    expected = r * (1 - p) + (1 - r) * p
    return (observed / (observed + expected).clamp_min(1e-12)).mean()
