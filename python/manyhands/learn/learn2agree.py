"""Learn2Agree: a classifier regularized toward the agreement of annotators."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands._base.checks import check_choice, check_number
from manyhands._base.estimator import Array
from manyhands._train.batch import Batch, CrowdData
from manyhands._train.large_tables import WorkerTable
from manyhands._train.module_calls import run
from manyhands._train.settings import TrainingOptions
from manyhands._train.trunk import n_features, split
from manyhands.learn.active import MOST_FOCUS, AnswerLoss, BinaryQuestions, Said
from manyhands.learn.losses import agreement_regression, towards_agreement
from manyhands.learn.targets import vote_shares

__all__ = ["Learn2Agree"]

#: Default loss of each kind of stream, as in the paper.
_STREAM_LOSSES: dict[str, Literal["ar", "rmse"]] = {"distribution": "ar", "linear": "rmse"}
#: Learning-rate factor of annotator weights relative to the network.
_WEIGHT_STEPS = 10.0


class AgreementStream(nn.Module):
    """Predicts the agreement of annotators from features: a level and an indicator for each binary task.

    ``"distribution"``: a distribution over `bins` + 1 levels, whose mean is the agreement, and two layers for the
    indicator; ``"linear"``: one number for both.
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
        """Return agreement and indicator of each binary task, both (n, n_tasks)."""
        if self.kind == "linear":
            agreement = torch.sigmoid(self.levels(features))
            return agreement, agreement
        levels = torch.softmax(self.levels(features).unflatten(1, (self.n_tasks, -1)), dim=2)
        return levels @ self.values, self.indicator(levels)[:, :, 0]  # type: ignore[operator]


class AnnotatorWeights(nn.Module):
    """Positive weight of each annotator in the agreement of a sample, initially one.

    Stores one number per annotator.
    """

    def __init__(self, n_workers: int) -> None:
        super().__init__()
        self.table = WorkerTable(n_workers, torch.zeros(1))

    def forward(self, worker: Tensor) -> Tensor:
        """Weights of some annotators, (n,)."""
        return (_WEIGHT_STEPS * self.table(worker)[:, 0]).exp()

    @torch.no_grad()
    def agreement(self, batch: Batch, said: Tensor, otherwise: Tensor) -> Tensor:
        """Weighted mean of the answers to each sample, (n, n_questions); `otherwise` if all weights are zero.

        Eq. 9 divides by the number of annotators; dividing by their weights keeps the level between 0 and 1.
        """
        weight = self(batch.worker) * batch.weight
        total = weight.new_zeros(len(batch)).index_add(0, batch.sample, weight)[:, None]
        level = torch.zeros_like(otherwise).index_add(0, batch.sample, weight[:, None] * said)
        return torch.where(total > 0, level / total.clamp_min(torch.finfo(total.dtype).tiny), otherwise)

    def loss(self, batch: Batch, said: Tensor, probs: Tensor) -> Tensor:
        """Loss of the weights, minimal at one over the annotator's mean squared error.

        The error compares answers, (n_annotations, n_questions), with predictions, (n, n_questions).
        """
        weight = self(batch.worker)
        error = ((said - probs.detach()[batch.sample]) ** 2).mean(dim=1)
        return 0.5 * ((weight * error - weight.log()) * batch.weight).sum() / batch.weight.sum().clamp_min(1e-30)


class Learn2Agree(BinaryQuestions):
    """Learn2Agree: a classifier that agrees with all annotators, for tasks without objective truth.

    A second stream of the network predicts how far annotators agree, and moves the classifier's probability toward
    the agreement. More than two classes are one binary question each.

    Parameters
    ----------
    backbone : nn.Sequential or nn.Module
        An ``nn.Sequential`` whose last layer returns the logits, or a module with parts ``trunk`` and ``head``.
    stream : {"distribution", "linear"}, default "distribution"
        Output of the stream: a distribution over levels of agreement, or one number.
    stream_loss : {"ar", "rmse"} or None, default None
        Loss of the stream: ``"ar"``, agreement regression, or ``"rmse"``, root mean squared error. None is ``"ar"`` for
        ``"distribution"`` and ``"rmse"`` for ``"linear"``, as in the paper.
    loss : {"ce", "focal", "kappa"}, default "focal"
        Loss of the classifier: cross-entropy; focal, with a power per annotator from the annotator's class balance; or
        weighted kappa per annotator.
    most_focus : float or None, default 5.0
        Largest power of the focal loss; None for no limit, as in the paper, where the answers of one-sided annotators
        hardly count.
    weights : {"even", "learnt"}, default "even"
        Weights of annotators in the agreement: equal, or estimated from how well the prediction matches their answers.
    strength : float, default 3.0
        Weight of the indicator in the probability; 0 disables it.
    bins : int, default 10
        Number of levels of agreement above zero.
    **training
        See :class:`~manyhands.learn.Training`. By default annotators have equal weight (``reduction="worker"``), as in
        the paper.

    Notes
    -----
    Time per epoch O(annotations · classes) in addition to the backbone. Predictions are the regularized ones.

    The agreement regression loss is zero for samples with unanimous annotators, whatever the prediction. It learns from
    disagreement only, which moves the level toward one half, and learns nothing from one label per sample.

    As in the paper, the kappa of an annotator covers all of the annotator's answers, with the latest prediction of each
    sample; (samples + 3 · annotators) · classes numbers are stored. Annotation weights count, and `reduction` sets the
    weights of annotators: equal (``"worker"``), by answers (``"label"``), or by answers with a total weight of one per
    sample (``"sample"``). Annotators with constant answers for a class have a kappa of zero and do not contribute.

    The paper does not specify how weights are learned. Here they converge to one over the mean squared error between
    the annotator's answers and the prediction, as if answers were noisy predictions. (The loss of the stream itself
    would select a single annotator per sample.) If most annotators give constant answers, these are the easiest to
    predict and gain weight.

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
        stream_loss: Literal["ar", "rmse"] | None = None,
        loss: AnswerLoss = "focal",
        most_focus: float | None = MOST_FOCUS,
        weights: Literal["even", "learnt"] = "even",
        strength: float = 3.0,
        bins: int = 10,
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(backbone, **training)
        self.stream = stream
        self.stream_loss = stream_loss
        self.loss = loss
        self.most_focus = most_focus
        self.weights = weights
        self.strength = strength
        self.bins = bins

    def _check(self) -> None:
        super()._check()
        check_choice("stream", self.stream, tuple(_STREAM_LOSSES))
        if self.stream_loss is not None:
            check_choice("stream_loss", self.stream_loss, ("ar", "rmse"))
        check_choice("weights", self.weights, ("even", "learnt"))
        check_number("strength", self.strength, least=0)
        check_number("bins", self.bins, least=1, whole=True)
        if self.weights == "learnt" and self.start_from is not None:
            raise ValueError(
                "start_from sets the agreement of all samples, so there are no annotators to weight; omit start_from "
                'or weights="learnt"'
            )
        split(self.backbone)

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        votes = data.votes
        parts = self._question_parts(len(data), Said.of(votes, by_sample=self.reduction == "sample"))
        start = self._start(votes)
        shares = vote_shares(votes) if start is None else start[0]
        self._agreement = torch.from_numpy(shares).float().to(self._on)[:, self._positive]
        width = n_features(self.backbone, data)
        parts["stream"] = AgreementStream(width, len(self._positive), self.stream, self.bins)
        if self.weights == "learnt":
            parts["annotators"] = AnnotatorWeights(votes.n_workers)
        return parts

    def _forward(self, x: Any) -> Tensor:
        trunk, head = split(self._network)
        features = run(trunk, x)
        log_probs = F.log_softmax(self._checked(head(features)), dim=1)
        self._level, indicator = self._parts_or_fail()["stream"](features.float())
        self._logits = towards_agreement(self._log_odds(log_probs), indicator, self.strength)
        if len(self._classes) == 2:  # a single question determines both classes
            return F.logsigmoid(torch.cat([-self._logits, self._logits], dim=1))
        return F.log_softmax(F.logsigmoid(self._logits), dim=1)

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        return self._stream_loss(batch) + self._labels_loss(batch, self._logits)

    def _stream_loss(self, batch: Batch) -> Tensor:
        """Loss of the stream, plus that of annotator weights if they are trained; their gradients are separate."""
        agreement = self._agreement[batch.tasks]
        of_weights = torch.zeros((), device=self._on)
        if self.weights == "learnt":
            is_positive = (batch.label[:, None] == self._positive).float()
            of_weights = self._annotators.loss(batch, is_positive, torch.sigmoid(self._logits))
            agreement = self._annotators.agreement(batch, is_positive, agreement)
        if (self.stream_loss or _STREAM_LOSSES[self.stream]) == "ar":
            return of_weights + agreement_regression(self._level, agreement).mean()
        return of_weights + ((self._level - agreement) ** 2).mean().clamp_min(1e-12).sqrt()

    @property
    def _annotators(self) -> Any:
        return self._parts_or_fail()["annotators"]

    @property
    def weights_(self) -> Array:
        """Weight of each annotator in the agreement, shape (n_workers,), with mean one."""
        self._fitted()
        with torch.no_grad():
            workers = torch.arange(len(self._workers), device=self._on)
            weights = self._annotators(workers) if self.weights == "learnt" else torch.ones(len(workers))
        mean_weights: Array = weights.double().cpu().numpy()
        return mean_weights / mean_weights.mean()
