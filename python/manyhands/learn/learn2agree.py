"""Learn2Agree: a classifier that is drawn towards what annotators agree on."""

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
from manyhands.learn.active import AnswerLoss, BinaryQuestions, Said
from manyhands.learn.losses import agreement_regression, towards_agreement
from manyhands.learn.targets import vote_shares

__all__ = ["Learn2Agree"]

#: Loss of the stream that goes with each kind of it in the paper.
_STREAM_LOSSES: dict[str, Literal["ar", "rmse"]] = {"distribution": "ar", "linear": "rmse"}
#: Steps of an annotator's weight beside those of the network: there is one number each, and all start alike.
_WEIGHT_STEPS = 10.0


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
        levels = torch.softmax(self.levels(features).unflatten(1, (self.n_tasks, -1)), dim=2)
        return levels @ self.values, self.indicator(levels)[:, :, 0]  # type: ignore[operator]


class AnnotatorWeights(nn.Module):
    """How much each annotator counts in what a sample's annotators agree on: positive, one at first.

    Numbers kept: one an annotator.
    """

    def __init__(self, n_workers: int) -> None:
        super().__init__()
        self.table = WorkerTable(n_workers, torch.zeros(1))

    def forward(self, worker: Tensor) -> Tensor:
        """Weights of some annotators, (n,)."""
        return (_WEIGHT_STEPS * self.table(worker)[:, 0]).exp()

    @torch.no_grad()
    def agreement(self, batch: Batch, said: Tensor, otherwise: Tensor) -> Tensor:
        """Weighted mean of what the annotators of each sample say, (n, n_questions); `otherwise` where nothing weighs.

        Eq. 9 divides by the number of annotators; the sum of their weights keeps the level between 0 and 1.
        """
        weight = self(batch.worker) * batch.weight
        total = weight.new_zeros(len(batch)).index_add(0, batch.sample, weight)[:, None]
        level = torch.zeros_like(otherwise).index_add(0, batch.sample, weight[:, None] * said)
        return torch.where(total > 0, level / total.clamp_min(torch.finfo(total.dtype).tiny), otherwise)

    def loss(self, batch: Batch, said: Tensor, probs: Tensor) -> Tensor:
        """Of the weights alone, which are least where each is one over the annotator's mean squared error.

        The error is that of answers, (n_annotations, n_questions), beside predictions, (n, n_questions).
        """
        weight = self(batch.worker)
        error = ((said - probs.detach()[batch.sample]) ** 2).mean(dim=1)
        return 0.5 * ((weight * error - weight.log()) * batch.weight).sum() / batch.weight.sum().clamp_min(1e-30)


class Learn2Agree(BinaryQuestions):
    """Learn2Agree: for data without an objective truth, a classifier that agrees with all annotators.

    A second stream of the network learns how far annotators agree that a sample is of a class, and moves the
    classifier's probability towards what they agree on. More than two classes are one binary question each.

    Parameters
    ----------
    backbone
        An ``nn.Sequential`` whose last layer makes the logits, or a module with parts ``trunk`` and ``head``.
    stream
        ``"distribution"``: a distribution over levels of agreement; ``"linear"``: one number.
    stream_loss
        What the stream learns by: ``"ar"``, the agreement regression loss, or ``"rmse"``, the root mean squared error;
        None for the one that the paper takes for the stream, in this order.
    loss
        Of the classifier: ``"ce"``, cross-entropy; ``"focal"``, with a power for each annotator that follows from the
        annotator's class balance; or ``"kappa"``, the weighted-kappa loss of each annotator.
    weights
        How annotators count in the agreement: ``"even"``, or ``"learnt"``, more if the prediction foretells them.
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

    The agreement regression loss is zero, whatever is predicted, where all annotators of a sample say the same: it
    learns from disagreement alone, which draws the level towards one half, and from one label a sample nothing.

    The kappa of an annotator is, as in the paper, over all of the annotator's answers, with the prediction that each
    sample had when it was last in a batch: (samples + 3 · annotators) · classes numbers are kept. Weights of
    annotations count in it, and `reduction` says how annotators are averaged: alike (``"worker"``), by their answers
    (``"label"``), or by answers of which those to one sample weigh one together (``"sample"``). The kappa of one who
    never, or always, names a class is zero whatever is predicted, and teaches nothing.

    The paper leaves open how weights are learnt. Here they tend to one over the mean squared error of the annotator's
    answers beside the prediction, as if answers were the prediction with noise of each annotator's own: they favour
    those whose answers follow from the sample. (The loss of the stream would be least if one annotator of each sample
    counted for all.) Where most annotators always say the same, these are the easiest to foretell, and gain.

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
        weights: Literal["even", "learnt"] = "even",
        strength: float = 3.0,
        bins: int = 10,
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(backbone, **training)
        self.stream = stream
        self.stream_loss = stream_loss
        self.loss = loss
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
                "start_from gives the agreement of every sample, in which no annotator is left to weigh; leave it out, "
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
        if len(self._classes) == 2:  # one question tells both
            return F.logsigmoid(torch.cat([-self._logits, self._logits], dim=1))
        return F.log_softmax(F.logsigmoid(self._logits), dim=1)

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        return self._stream_loss(batch) + self._labels_loss(batch, self._logits)

    def _stream_loss(self, batch: Batch) -> Tensor:
        """Loss of the stream and, where they are learnt, of the weights of annotators: neither moves the other's."""
        agreement = self._agreement[batch.tasks]
        of_weights = torch.zeros((), device=self._on)
        if self.weights == "learnt":
            said = (batch.label[:, None] == self._positive).float()
            of_weights = self._annotators.loss(batch, said, torch.sigmoid(self._logits))
            agreement = self._annotators.agreement(batch, said, agreement)
        if (self.stream_loss or _STREAM_LOSSES[self.stream]) == "ar":
            return of_weights + agreement_regression(self._level, agreement).mean()
        return of_weights + ((self._level - agreement) ** 2).mean().clamp_min(1e-12).sqrt()

    @property
    def _annotators(self) -> Any:
        return self._parts_or_fail()["annotators"]

    @property
    def weights_(self) -> Array:
        """Weight of each annotator in the agreement, (n_workers,); they average one."""
        self._fitted()
        with torch.no_grad():
            workers = torch.arange(len(self._workers), device=self._on)
            weights = self._annotators(workers) if self.weights == "learnt" else torch.ones(len(workers))
        found: Array = weights.double().cpu().numpy()
        return found / found.mean()
