"""A classifier trained by itself, and rules for when to ask an expert: hard to beat where classes say most."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands._base.estimator import Array
from manyhands._train.batch import Batch, CrowdData
from manyhands._train.estimator import PREDICTED
from manyhands.defer.changing import PresentSkill
from manyhands.defer.data import answers_of, truth_of
from manyhands.defer.deferral import Deferral, Views


class SelectivePrediction(PresentSkill):
    """Selective prediction: the best expert is asked where the classifier is less confident than a threshold.

    The threshold is the one with the highest system accuracy on held-out cases. The expert follows from the experts'
    accuracy in each class and the classifier's probabilities of the classes.

    Parameters
    ----------
    classifier, coverage, workload
        See :class:`~manyhands.defer.Deferral`; a coverage sets the threshold instead, and the workload is kept by
        decisions only.
    half_life
        See :class:`~manyhands.defer.ProbabilisticDeferral`.
    **settings
        See :class:`~manyhands.defer.Deferral` and :class:`~manyhands.learn.Training`. A tenth of the cases is held out
        for the threshold.

    Notes
    -----
    Where the expert to ask gave no answer to a held-out case, their accuracy in its class stands for it. Time per
    epoch: the classifier's.

    References
    ----------
    C. K. Chow, "An optimum character recognition system using decision functions", IRE TEC (1957).
    """

    _defaults: ClassVar[dict[str, Any]] = Deferral._defaults | {"validation": 0.1}

    _saved_state: ClassVar[dict[str, bool]] = PresentSkill._saved_state | {"_threshold": False}

    def __init__(self, classifier: nn.Module, **settings: Any) -> None:
        super().__init__(classifier, None, **settings)

    def _gate_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        self._threshold = 0.0
        return {}

    def _views(self, x: Any) -> Views:
        classes = self._class_logits(x)
        return Views(classes, classes[:, :0])

    def _loss(self, batch: Batch, views: Views) -> Tensor:
        return F.cross_entropy(views.classes, truth_of(batch))

    def _scores(self, views: Views) -> Tensor:
        right = self._right(views)
        best = right[:, :-1].max(dim=1, keepdim=True).values
        return torch.cat([right[:, :-1] - best, right[:, -1:] - self._threshold], dim=1)

    def _after_training(self, data: CrowdData) -> None:
        parts = [self._outcome(batch) for batch in data.batches(self._to_judge_by(data), PREDICTED, self._on)]
        confidence, gain = torch.cat(parts).double().T.numpy()
        self._threshold = best_threshold(confidence, gain)
        super()._after_training(data)

    @torch.no_grad()
    def _outcome(self, batch: Batch) -> Tensor:
        """Confidence of the classifier, and how much more often than it the best expert is right, (n, 2)."""
        views, truth = self._views(batch.x), truth_of(batch)
        right = self._right(views)
        who = right[:, :-1].argmax(dim=1, keepdim=True)
        answers = answers_of(batch, len(self._workers)).gather(1, who)[:, 0]
        expected = self._expert_accuracy[who[:, 0], truth]
        expert = torch.where(answers < 0, expected, (answers == truth).to(expected))
        own = (views.classes.argmax(dim=1) == truth).to(expected)
        return torch.stack([right[:, -1], expert - own], dim=1).cpu()

    @property
    def threshold_(self) -> float:
        """Confidence below which experts are asked."""
        self._fitted()
        return self._threshold


def best_threshold(confidence: Array, gain: Array) -> float:
    """The confidence below which it gains most to ask; 0 where it never does, above 1 where it always does."""
    order = np.argsort(confidence, kind="stable")
    total = np.concatenate([[0.0], np.cumsum(gain[order])])
    # Cases of the same confidence go together, so a cut must lie between two that differ.
    sure = confidence[order]
    cut = np.concatenate([[True], sure[1:] > sure[:-1], [True]])
    best = int(np.argmax(np.where(cut, total, -np.inf)))
    if best == 0:
        return 0.0
    return float(np.nextafter(1, 2) if best == len(sure) else (sure[best - 1] + sure[best]) / 2)


class CompareConfidence(Deferral):
    """Compare confidences: a classifier, and a model of whether each expert is right, trained side by side.

    Parameters
    ----------
    classifier, coverage, workload
        See :class:`~manyhands.defer.Deferral`; the workload is kept by decisions only.
    gate
        A network with a logit for each expert: is the answer right? None for one like the classifier.
    **settings
        See :class:`~manyhands.defer.Deferral` and :class:`~manyhands.learn.Training`.

    Notes
    -----
    An expert's logit learns from the cases that they answered. Time per epoch: two networks.

    References
    ----------
    M. Raghu et al., "The algorithmic automation problem: prediction, triage, and human effort" (2019).
    """

    @property
    def _n_gate(self) -> int:
        return len(self._workers)

    def _loss(self, batch: Batch, views: Views) -> Tensor:
        truth = truth_of(batch)
        right = (batch.label == truth[batch.sample]).to(views.gate)
        logits = views.gate[batch.sample, batch.worker]
        router_loss = F.binary_cross_entropy_with_logits(logits, right, reduction="sum") / len(batch)
        return F.cross_entropy(views.classes, truth) + router_loss

    def _right(self, views: Views) -> Tensor:
        return self._scores(views).exp()

    def _scores(self, views: Views) -> Tensor:
        own = F.log_softmax(views.classes, dim=1).max(dim=1, keepdim=True).values
        return torch.cat([F.logsigmoid(views.gate), own], dim=1)
