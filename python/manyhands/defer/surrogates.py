"""Surrogate losses of the system's error: one softmax, or one set of binary problems, over classes and experts."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands._base.checks import check_number
from manyhands._train.batch import Batch, CrowdData
from manyhands._train.module_calls import run
from manyhands._train.trunk import n_features, split
from manyhands.defer import losses
from manyhands.defer.data import answers_of, truth_of
from manyhands.defer.deferral import Deferral, Views
from manyhands.defer.gate import Gate


class SurrogateDeferral(Deferral):
    """Base of the surrogates: a logit for each class and for each expert, of which the greatest decides.

    Where no router is given, experts have a layer of their own on the classifier's features, as in the papers.
    """

    @property
    def _n_gate(self) -> int:
        return len(self._workers)

    def _gate_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        if self.gate is not None:
            return super()._gate_parts(data)
        return {"gate": nn.Linear(n_features(self.classifier, data), self._n_gate)}

    def _views(self, x: Any) -> Views:
        if self.gate is not None:
            return super()._views(x)
        trunk, head = split(self._network)
        features = run(trunk, x)
        return Views(self._checked_classes(head(features)), self._checked_gate(self._parts_or_fail()["gate"](features)))

    def _scores(self, views: Views) -> Tensor:
        return torch.cat([views.gate, views.classes.max(dim=1, keepdim=True).values], dim=1)


class CrossEntropySurrogate(SurrogateDeferral):
    """Cross-entropy surrogate: experts are further classes of one softmax, right where the expert is.

    Parameters
    ----------
    classifier, coverage, workload
        See :class:`~manyhands.defer.Deferral`; the workload is kept by decisions only.
    gate
        A network with a logit for each expert; None for a layer on the classifier's features.
    alpha : float, default 1.0
        Weight of the classifier's own loss in cases where an expert is right: below one, the classifier gives way.
    **settings
        See :class:`~manyhands.defer.Deferral` and :class:`~manyhands.learn.Training`.

    Notes
    -----
    Experts who gave no answer to a case are left out of its softmax, which is as consistent as without missing answers.
    ``expected_accuracy`` is exact at the minimum where `alpha` is one. Time per epoch: the network's.

    References
    ----------
    H. Mozannar and D. Sontag, "Consistent estimators for learning to defer to an expert", ICML 2020. R. Verma,
    D. Barrejón and E. Nalisnick, "Learning to defer to multiple experts", AISTATS 2023.
    """

    def __init__(self, classifier: nn.Module, gate: Gate = None, *, alpha: float = 1.0, **settings: Any) -> None:
        super().__init__(classifier, gate, **settings)
        self.alpha = alpha

    def _check(self) -> None:
        super()._check()
        check_number("alpha", self.alpha, least=0)

    def _loss(self, batch: Batch, views: Views) -> Tensor:
        answers = answers_of(batch, len(self._workers))
        return losses.cross_entropy_surrogate(*views[:2], answers, truth_of(batch), self.alpha).mean()

    def _right(self, views: Views) -> Tensor:
        # At the minimum the softmax is proportional to class probabilities and experts' accuracies.
        experts = views.gate - torch.logsumexp(views.classes, dim=1, keepdim=True)
        own = F.log_softmax(views.classes, dim=1).max(dim=1, keepdim=True).values
        return torch.cat([experts, own], dim=1).exp().clamp_max(1.0)


class OneVsAll(SurrogateDeferral):
    """One-vs-all surrogate: a binary problem for each class and for each expert, so that accuracies are calibrated.

    Parameters
    ----------
    classifier, coverage, workload
        See :class:`~manyhands.defer.Deferral`; the workload is kept by decisions only.
    gate
        A network with a logit for each expert; None for a layer on the classifier's features.
    **settings
        See :class:`~manyhands.defer.Deferral` and :class:`~manyhands.learn.Training`.

    Notes
    -----
    An expert learns from the cases that they answered. Time per epoch: the network's.

    References
    ----------
    R. Verma and E. Nalisnick, "Calibrated learning to defer with one-vs-all classifiers", ICML 2022. R. Verma,
    D. Barrejón and E. Nalisnick, "Learning to defer to multiple experts", AISTATS 2023.
    """

    def _loss(self, batch: Batch, views: Views) -> Tensor:
        return losses.one_vs_all(*views[:2], answers_of(batch, len(self._workers)), truth_of(batch)).mean()

    def _class_log_probs(self, views: Views) -> Tensor:
        return F.logsigmoid(views.classes)

    def _right(self, views: Views) -> Tensor:
        return torch.sigmoid(self._scores(views))


class RealizableSurrogate(SurrogateDeferral):
    """Realisable surrogate: consistent also where networks are too small for every class, if some team never errs.

    Parameters
    ----------
    classifier, coverage, workload
        See :class:`~manyhands.defer.Deferral`; the workload is kept by decisions only.
    gate
        A network with a logit for each expert; None for a layer on the classifier's features.
    alpha : float, default 1.0
        Share of the system's loss; the rest is the classifier's own cross-entropy.
    **settings
        See :class:`~manyhands.defer.Deferral` and :class:`~manyhands.learn.Training`.

    Notes
    -----
    Experts who gave no answer to a case are left out of its softmax. Time per epoch: the network's.

    References
    ----------
    H. Mozannar et al., "Who should predict? Exact algorithms for learning to defer to humans", AISTATS 2023.
    """

    def __init__(self, classifier: nn.Module, gate: Gate = None, *, alpha: float = 1.0, **settings: Any) -> None:
        super().__init__(classifier, gate, **settings)
        self.alpha = alpha

    def _check(self) -> None:
        super()._check()
        check_number("alpha", self.alpha, least=0, most=1)

    def _loss(self, batch: Batch, views: Views) -> Tensor:
        answers = answers_of(batch, len(self._workers))
        return losses.realizable(*views[:2], answers, truth_of(batch), self.alpha).mean()
