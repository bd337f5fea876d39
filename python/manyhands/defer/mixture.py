"""A classifier that learns what the experts leave to it: mixture of experts, and triage."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands._base.checks import check_number
from manyhands._base.estimator import Array
from manyhands._train.batch import Batch, CrowdData
from manyhands._train.estimator import PREDICTED
from manyhands.defer import capacities
from manyhands.defer.data import answers_of, truth_of
from manyhands.defer.deferral import Deferral, Views
from manyhands.defer.gate import Gate
from manyhands.defer.losses import evidence, mask_missing, mixture_loss
from manyhands.defer.shares import Cost, costs

#: Share of an answer that is spread over all classes when losses of experts and classifier are compared.
_SMOOTHING = 0.01


class MixtureOfExperts(Deferral):
    """Mixture of experts: the expected loss of the option that the router draws is minimized as it is.

    The classifier learns most from the cases that it is likely to be given.

    Parameters
    ----------
    classifier, gate, coverage, workload
        See :class:`~manyhands.defer.Deferral`; the workload is kept by decisions only.
    cost
        Of asking an expert, or of asking each of those named, where a wrong answer costs 1; the classifier's loss is
        its cross-entropy.
    **settings
        See :class:`~manyhands.defer.Deferral` and :class:`~manyhands.learn.Training`.

    Notes
    -----
    Experts who gave no answer to a case are left out of its softmax. Time per epoch: two networks.

    References
    ----------
    D. Madras, T. Pitassi and R. Zemel, "Predict responsibly: improving fairness and accuracy by learning to defer",
    NeurIPS 2018.
    """

    def __init__(self, classifier: nn.Module, gate: Gate = None, *, cost: Cost = 0.0, **settings: Any) -> None:
        super().__init__(classifier, gate, **settings)
        self.cost = cost

    def _adopt(self, data: CrowdData) -> None:
        super()._adopt(data)
        self._cost = costs(self._workers, self.cost, least=0)

    def _worth(self, right: Array) -> Array:
        return right - self._cost

    def _loss(self, batch: Batch, views: Views) -> Tensor:
        answers, cost = answers_of(batch, len(self._workers)), torch.from_numpy(self._cost[:-1]).to(views.gate)
        return mixture_loss(views.classes, views.gate, answers, truth_of(batch), cost).mean()


class Triage(Deferral):
    """Differentiable triage: cases go where the loss is least, the classifier learns from those left to it.

    Before each epoch the training cases are divided again: an expert takes those in which the classifier's loss exceeds
    theirs by most, as far as the coverage allows. The router learns this division.

    Parameters
    ----------
    classifier, gate, coverage, workload
        See :class:`~manyhands.defer.Deferral`. Training keeps the least coverage only, decisions keep all.
    warmup : int, default 5
        Epochs before the first division, in which the classifier learns from all cases.
    **settings
        See :class:`~manyhands.defer.Deferral` and :class:`~manyhands.learn.Training`.

    Notes
    -----
    Only experts who answered a case can take it, and the router compares only those. Time per epoch: two networks, and
    the classifier's prediction of all cases.

    References
    ----------
    N. Okati, A. De and M. Gomez-Rodriguez, "Differentiable learning under triage", NeurIPS 2021.
    """

    def __init__(self, classifier: nn.Module, gate: Gate = None, *, warmup: int = 5, **settings: Any) -> None:
        super().__init__(classifier, gate, **settings)
        self.warmup = warmup

    def _check(self) -> None:
        super()._check()
        check_number("warmup", self.warmup, least=0, whole=True)

    @torch.no_grad()
    def _start_epoch(self, epoch: int, data: CrowdData) -> None:
        self._dividing = epoch >= self.warmup
        if not self._dividing:
            return
        self._parts_or_fail().eval()
        parts = [self._compared(batch) for batch in data.batches(self._training, PREDICTED, self._on)]
        gain, best = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
        least = 0 if self._bounds is None else capacities(*self._bounds, len(gain), len(self._workers) + 1)[0][-1]
        order = gain.argsort(descending=True, stable=True)[: len(gain) - int(least)]
        order = order[gain[order] > 0]
        self._division = torch.full((len(data),), len(self._workers), device=self._on)
        self._division[self._training.to(self._on)[order]] = best[order]

    def _compared(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """How much less the best expert who answered loses than the classifier, and who it is, both (n,)."""
        answers = answers_of(batch, len(self._workers))
        log_probs = F.log_softmax(self._class_logits(batch.x), dim=1)
        log_right = evidence(answers, truth_of(batch), log_probs, _SMOOTHING, -torch.inf)
        best = log_right[:, :-1].max(dim=1)
        return best.values - log_right[:, -1], best.indices

    def _loss(self, batch: Batch, views: Views) -> Tensor:
        own = F.cross_entropy(views.classes, truth_of(batch), reduction="none")
        if not self._dividing:
            return own.mean()
        division = self._division[batch.tasks]
        keeps_own = (division == len(self._workers)).to(own)
        gate = torch.cat(
            [mask_missing(views.gate[:, :-1], answers_of(batch, len(self._workers))), views.gate[:, -1:]], dim=1
        )
        return (own * keeps_own).sum() / keeps_own.sum().clamp_min(1) + F.cross_entropy(gate, division)
