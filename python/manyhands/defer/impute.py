"""Answers not given, made up first by semi-supervised learning; then learning to defer as if all had been given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands._base.checks import check_choice, check_number
from manyhands._train.batch import Batch, CrowdData
from manyhands._train.estimator import NetworkEstimator
from manyhands._train.probabilities import soft_cross_entropy
from manyhands.defer.data import answers_of, truth_of
from manyhands.defer.deferral import Views
from manyhands.defer.experts import ExpertModels, Groups, Kind, check_expert_models
from manyhands.defer.gate import Gate
from manyhands.defer.losses import evidence, posterior
from manyhands.defer.probabilistic import EMDeferral

Augmentation = Callable[[Any], Any]

#: MixMatch: exponent of sharpening, parameter of the Beta distribution of mixtures, weight of cases without an answer.
_SHARPENING, _MIXING, _MIXMATCH_WEIGHT = 2.0, 0.75, 75.0
#: FixMatch: least probability of an answer that is made up.
_CONFIDENT = 0.95
#: Noise of the default augmentations, as a share of each feature's deviation, and features left out by the strong one.
_WEAK, _STRONG, _LEFT_OUT = 0.1, 0.3, 0.2


def jitter(x: Any) -> Any:
    """The weak augmentation where none is given: a little noise on features; what are not numbers stays as it is."""
    return _noisy(x, _WEAK)


def distort(x: Any) -> Any:
    """The strong augmentation where none is given: more noise, and some features replaced by their means."""
    x = _noisy(x, _STRONG)
    if not _is_float(x):
        return x
    return torch.where(torch.rand_like(x) < _LEFT_OUT, x.mean(dim=0, keepdim=True), x)


def _noisy(x: Any, share: float) -> Any:
    return x + share * x.std(dim=0, keepdim=True, correction=0) * torch.randn_like(x) if _is_float(x) else x


def _is_float(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


class Imputer(NetworkEstimator):
    """Models of experts' answers, learned from answers given and, by semi-supervised learning, from cases without."""

    def __init__(self, models: ExpertModels, method: str, weak: Augmentation, strong: Augmentation, **settings: Any):
        self.models, self.method, self.weak, self.strong = models, method, weak, strong
        self._take_settings(settings | {"worker_lr": None})

    def _make_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        return {"network": self.models}

    def _forward(self, x: Any) -> Any:
        return x

    def _judged(self, batch: Batch, output: Any) -> tuple[Tensor, Tensor]:
        labels = self._network(batch.x)[batch.sample, batch.worker].argmax(dim=1)
        return (labels == batch.label).sum(), torch.tensor(max(batch.n_annotations, 1))

    def _start_epoch(self, epoch: int, data: CrowdData) -> None:
        #: How far training has come: cases without an answer count for more and more.
        self._ramp = epoch / self.max_epochs

    def _loss(self, batch: Batch, output: Any) -> Tensor:
        losses = self._mixmatch(batch) if self.method == "mixmatch" else self._fixmatch(batch)
        return losses.sum() * self.models.scale(len(batch), batch.n_annotations)

    def _known(self, batch: Batch, guesses: Tensor) -> tuple[Tensor, Tensor]:
        """Answers with guesses where there are none, (n, experts, classes), and which are given, (n, experts)."""
        targets, has_answer = guesses.clone(), torch.zeros(guesses.shape[:2], dtype=torch.bool, device=guesses.device)
        targets[batch.sample, batch.worker] = F.one_hot(batch.label, guesses.shape[2]).to(guesses)
        has_answer[batch.sample, batch.worker] = True
        return targets, has_answer

    def _fixmatch(self, batch: Batch) -> Tensor:
        """Cross-entropy of answers given, and of confident guesses from a weak view, in a strong one."""
        weak = self._network(self.weak(batch.x))
        top = weak.detach().max(dim=2)
        targets, has_answer = self._known(batch, F.one_hot(top.indices, weak.shape[2]).to(weak))
        strong = soft_cross_entropy(self._network(self.strong(batch.x)), targets)
        return torch.where(has_answer, soft_cross_entropy(weak, targets), strong * (top.values.exp() >= _CONFIDENT))

    def _mixmatch(self, batch: Batch) -> Tensor:
        """Answers given and sharpened guesses, mixed with those of other cases."""
        with torch.no_grad():
            views = [self._network(self.weak(batch.x)).exp() for _ in range(2)]
            sharp = (views[0] + views[1]) ** _SHARPENING
            targets, has_answer = self._known(batch, sharp / sharp.sum(dim=2, keepdim=True))
        x = self.weak(batch.x)
        share = float(torch.distributions.Beta(_MIXING, _MIXING).sample()) if _is_float(x) else 1.0
        share = max(share, 1 - share)
        other = torch.randperm(len(batch), device=targets.device)
        mixed = self._network(share * x + (1 - share) * x[other] if share < 1 else x)
        targets = share * targets + (1 - share) * targets[other]
        apart = ((mixed.exp() - targets) ** 2).mean(dim=2)
        return torch.where(has_answer, soft_cross_entropy(mixed, targets), _MIXMATCH_WEIGHT * self._ramp * apart)

    def answers(self, data: CrowdData) -> Tensor:
        """The most probable answer of each expert to each case, (n, n_experts)."""
        predictions = self._mapped(data.features, data.rows, lambda x: self._network(x).argmax(dim=2))
        return torch.from_numpy(predictions).to(torch.int16)


class ImputedDeferral(EMDeferral):
    """Learning to defer with made-up answers: a semi-supervised model of each expert fills in what is missing first.

    Parameters
    ----------
    classifier, gate, coverage, workload
        See :class:`~manyhands.defer.Deferral`.
    method : {"mixmatch", "fixmatch"}, default "mixmatch"
        ``"mixmatch"`` or ``"fixmatch"``.
    impute_epochs : int or None, default None
        Epochs of the semi-supervised learning; None for `max_epochs`.
    weak, strong
        Augmentations, from a batch of features to another; None for noise on features.
    experts, groups, constraint, penalty, cost, smoothing, half_life
        As of :class:`~manyhands.defer.ProbabilisticDeferral`.
    **settings
        See :class:`~manyhands.defer.Deferral` and :class:`~manyhands.learn.Training`; of both phases.

    Notes
    -----
    Time and memory as of `ProbabilisticDeferral` with two to three passes of the experts' models a step, and cases ×
    experts answers of two bytes, which is what the method makes up. An interrupted training makes them up again.

    References
    ----------
    P. Hemmer et al., "Learning to defer with limited expert predictions", AAAI 2023. D. Berthelot et al., "MixMatch",
    NeurIPS 2019. K. Sohn et al., "FixMatch", NeurIPS 2020.
    """

    def __init__(
        self,
        classifier: nn.Module,
        gate: Gate = "anchored",
        *,
        method: Literal["mixmatch", "fixmatch"] = "mixmatch",
        impute_epochs: int | None = None,
        weak: Augmentation | None = None,
        strong: Augmentation | None = None,
        experts: Kind = "auto",
        groups: Groups = None,
        **settings: Any,
    ) -> None:
        super().__init__(classifier, gate, **settings)
        self.method = method
        self.impute_epochs = impute_epochs
        self.weak = weak
        self.strong = strong
        self.experts = experts
        self.groups = groups

    def _check(self) -> None:
        super()._check()
        check_choice("method", self.method, ("mixmatch", "fixmatch"))
        check_expert_models(self.experts, self.groups)
        if self.impute_epochs is not None:
            check_number("impute_epochs", self.impute_epochs, least=1, whole=True)

    def _prepare(self, data: CrowdData) -> None:
        imputer = Imputer(
            self._expert_models(data, self.experts, self.groups),
            self.method,
            self.weak or jitter,
            self.strong or distort,
            max_epochs=self.impute_epochs or self.max_epochs,
            **{name: getattr(self, name) for name in _SHARED},
        )
        imputer._adopt(data)
        imputer._train(data)
        self._made_up = imputer.answers(data)

    def _after_training(self, data: CrowdData) -> None:
        del self._made_up
        super()._after_training(data)

    def _e_step(self, batch: Batch, views: Views) -> tuple[Tensor, Tensor | None]:
        answer_codes = answers_of(batch, len(self._workers))
        answers = torch.where(answer_codes >= 0, answer_codes, self._made_up[batch.tasks.cpu()].to(answer_codes))
        log_evidence = evidence(answers, truth_of(batch), F.log_softmax(views.classes, dim=1), self.smoothing, 0.0)
        return posterior(F.log_softmax(views.gate, dim=1), log_evidence), None


#: Settings of training that both phases share.
_SHARED = ("batch_size", "lr", "optimizer", "weight_decay", "schedule", "clip", "precision", "device", "seed")
