"""Learning to defer by expectation–maximization: who answers is latent, and so are answers that were not given."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands._base.checks import check_choice, check_number, warn_of_convergence
from manyhands._base.estimator import Array
from manyhands._train.batch import Batch, CrowdData, as_features
from manyhands._train.probabilities import soft_cross_entropy
from manyhands._train.settings import setting
from manyhands.defer import project
from manyhands.defer.changing import PresentSkill
from manyhands.defer.data import answers_of, truth_of
from manyhands.defer.deferral import Views
from manyhands.defer.experts import ExpertModels, Groups, Kind, check_expert_models, expert_models
from manyhands.defer.gate import AnchoredGate, Gate
from manyhands.defer.losses import (
    charge_costs,
    evidence,
    exact_posterior,
    gate_loss,
    mean_field,
    posterior,
    share_penalty,
)
from manyhands.defer.shares import Cost, costs

Constraint = Literal["batch", "running", "epoch", "penalty", "case-penalty"]
#: Constraints that are terms of the loss.
_PENALTIES = ("penalty", "case-penalty")

#: Latest cases that a running constraint is kept over, but no more than this part of an epoch: older posteriors are
#: those of another gate, and making up for them would overshoot.
_WINDOW, _PART = 1024, 4
#: Weight of the squares of missed shares, where none is given.
_PENALTY = 10.0
#: A share that misses its bounds by more than this is worth a warning; a penalty is soft, and misses by a few points.
_MISSED = 0.1
#: Least probability of an option before projection: a workload may need what the posterior excludes.
_LEAST = 1e-12


class _Inferred(NamedTuple):
    """A batch with the posteriors of its E-step."""

    batch: Batch
    target: Tensor
    answers: Tensor | None


class EMDeferral(PresentSkill):
    """Base of the methods with a router that learns from posteriors of the option, which keep a workload.

    A subclass gives the posterior of a batch. The classifier learns from the truth in all cases.
    """

    _settings: ClassVar[Sequence[inspect.Parameter]] = [
        setting("constraint", "batch", "str"),
        setting("penalty", None, "float | None"),
        setting("cost", 0.0, "Cost"),
        setting("smoothing", 0.001, "float"),
        setting("averaging", None, "float | None"),
        *PresentSkill._settings,
    ]

    constraint: Constraint
    penalty: float | None
    cost: Cost
    smoothing: float
    averaging: float | None

    def _check(self) -> None:
        super()._check()
        check_choice("constraint", self.constraint, ("batch", "running", "epoch", *_PENALTIES))
        self._check_penalty()
        check_number("smoothing", self.smoothing, least=0)
        if not 0 < self.smoothing < 1:
            raise ValueError(f"smoothing is a share above 0 and below 1, not {self.smoothing}")
        if self.averaging is not None:
            check_number("averaging", self.averaging, least=0.5, most=1)

    def _check_penalty(self) -> None:
        if self.constraint in _PENALTIES:
            if self.penalty is not None:
                check_number("penalty", self.penalty, least=0)
        elif self.penalty is not None:
            raise ValueError(
                f"penalty={self.penalty!r} is the weight of constraint='penalty'; with constraint={self.constraint!r} "
                "the workload is kept by a projection, which has none"
            )

    def _adopt(self, data: CrowdData) -> None:
        super()._adopt(data)
        self._cost = costs(self._workers, self.cost)

    def _gate_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        parts = super()._gate_parts(data)
        if isinstance(parts["gate"], AnchoredGate):
            parts["gate"].cost = torch.from_numpy(self._cost).float()
        return parts

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        options = len(self._workers) + 1
        self._window = min(_WINDOW, len(data) // _PART)
        self._recent = torch.zeros(0, options, dtype=torch.float64)
        self._targets = torch.zeros(0, options)
        self._former: _Inferred | None = None
        self._n_steps = torch.zeros((), dtype=torch.int64)
        return {}

    def _expert_models(self, data: CrowdData, kind: Kind, groups: Groups) -> ExpertModels:
        """Models of experts, networks like the classifier, of the kind asked for or by groups of experts."""
        return expert_models(self.classifier, data, self._expert_accuracy.cpu().double().numpy(), kind, groups)

    @abstractmethod
    def _e_step(self, batch: Batch, views: Views) -> tuple[Tensor, Tensor | None]:
        """Log-posterior of the option, (n, n_experts + 1), and posterior answers, (n, n_experts, n_classes)."""

    def _options(self, batch: Batch) -> Tensor | None:
        """Who the router may choose in each case, (n, n_experts + 1); None if it is every expert in every case."""
        return None

    def _loss(self, batch: Batch, views: Views) -> Tensor:
        with torch.no_grad():
            log_option, answers = self._e_step(batch, views)
            target = self._constrained(batch, self._charged(log_option), self._options(batch))
        inferred = _Inferred(batch, target, answers)
        loss = self._m_step(inferred, views)
        if self.averaging is None:
            return loss
        self._n_steps += 1
        step = float(self._n_steps) ** -self.averaging
        former, self._former = self._former, inferred
        if former is None:
            return loss
        return step * loss + (1 - step) * self._m_step(former, self._forward(former.batch.x))

    def _m_step(self, inferred: _Inferred, views: Views) -> Tensor:
        """What the M-step makes small: the negative of Q of a batch, given what the E-step inferred."""
        batch, target, answers = inferred
        own = F.cross_entropy(views.classes, truth_of(batch))
        gate, weights = gate_loss(views.gate, target, self._options(batch)), self._case_weights(batch.tasks)
        gate = gate if weights is None else gate * weights
        return own + gate.mean() + self._penalty(views) + self._expert_loss(batch, views, answers)

    def _charged(self, log_option: Tensor) -> Tensor:
        """The posterior of the option with costs counted."""
        return charge_costs(log_option, torch.from_numpy(self._cost).to(log_option)) if self._cost.any() else log_option

    def _penalty(self, views: Views) -> Tensor | float:
        """What it costs the router to miss the shares asked for, where it is a matter of cost."""
        if self.constraint not in _PENALTIES or self._bounds is None:
            return 0.0
        lower, upper = (torch.from_numpy(bound).to(views.gate) for bound in self._share_bounds())
        weight = _PENALTY if self.penalty is None else self.penalty
        return weight * share_penalty(views.gate, lower, upper, by_case=self.constraint == "case-penalty")

    def _share_bounds(self) -> tuple[Array, Array]:
        """Lower and upper bounds of the shares that a penalty keeps, (n_experts + 1,)."""
        assert self._bounds is not None
        lower, upper = (np.array(bound, dtype=float) for bound in self._bounds)
        if isinstance(self.workload, str) and self.workload == "free":
            lower[:-1], upper[:-1] = 0.0, 1.0
        return lower, upper

    def _worth(self, right: Array) -> Array:
        return right * np.exp(-self._cost)

    def _expert_loss(self, batch: Batch, views: Views, answers: Tensor | None) -> Tensor | float:
        """What models of experts have to learn from answers given and inferred."""
        return 0.0

    # ---------------------------------------------------------------------------------------- the workload

    def _constrained(self, batch: Batch, log_option: Tensor, options: Tensor | None) -> Tensor:
        """The posterior nearest to the given one whose mean keeps the workload, (n, n_experts + 1).

        It is the mean over cases that leave the router a choice: the others teach it nothing, whatever stands here.
        """
        if self._bounds is None or self.constraint in _PENALTIES:
            return log_option.exp()
        if self.constraint == "epoch":
            return self._targets[batch.tasks.cpu()].to(log_option.device)
        choice = _leaves_a_choice(log_option, options)
        own = _probabilities(log_option[choice])
        if self.constraint == "running":
            # The latest cases weigh in, so that a small batch need not keep the workload by itself.
            self._recent = torch.cat([self._recent, own])[-max(self._window, len(own), 1) :]
            rows = self._recent
        else:
            rows = own
        target = log_option.exp()
        target[choice] = self._projected(rows)[len(rows) - len(own) :].to(target)
        return target

    def _projected(self, rows: Tensor) -> Tensor:
        assert self._bounds is not None
        if not len(rows):
            return rows
        projection = project(rows.numpy(), *self._bounds).probabilities
        assert projection is not None
        return torch.from_numpy(projection)

    def _start_epoch(self, epoch: int, data: CrowdData) -> None:
        # A checkpoint at the end of an epoch need not hold a batch.
        self._former = None
        if self.constraint != "epoch" or self._bounds is None:
            return
        self._parts_or_fail().eval()
        cases, parts = [], []
        with torch.no_grad():
            for batch in data.batches(self._training, _WINDOW, self._on):
                log_option = self._charged(self._e_step(batch, self._forward(batch.x))[0])
                choice = _leaves_a_choice(log_option, self._options(batch))
                cases.append(batch.tasks[choice].cpu())
                parts.append(_probabilities(log_option[choice]))
        self._targets = torch.zeros(len(data), len(self._workers) + 1)
        self._targets[torch.cat(cases)] = self._projected(torch.cat(parts)).float()

    def _after_training(self, data: CrowdData) -> None:
        # What only training needs is as large as the data.
        self._targets, self._recent, self._former = self._targets[:0], self._recent[:0], None
        super()._after_training(data)
        if self.constraint in _PENALTIES and self._bounds is not None:
            self._warn_of_missed_shares()

    def _warn_of_missed_shares(self) -> None:
        """Warn where a penalty left the router far from the shares asked for."""
        lower, upper = self._share_bounds()
        shares = torch.softmax(torch.from_numpy(self._calibration["gate"]), dim=1).mean(dim=0).numpy()
        missed = np.abs(shares - np.clip(shares, lower, upper))
        if missed.max() > _MISSED:
            option = int(missed.argmax())
            experts = self._workers.values.tolist()
            name = "the classifier" if option == len(experts) else f"expert {experts[option]!r}"
            bounds = "–".join(f"{bound:.2f}" for bound in sorted({lower[option], upper[option]}))
            warn_of_convergence(
                f"constraint={self.constraint!r}: the router gives {name} a share of {shares[option]:.2f}, and "
                f"{bounds} was asked for; lower lr, or keep the workload by a projection (constraint='running')"
            )

    def _state(self) -> dict[str, Tensor]:
        return {"recent": self._recent, "n_steps": self._n_steps}

    def _set_state(self, state: dict[str, Tensor]) -> None:
        self._recent, self._n_steps = state["recent"], state["n_steps"]


def _leaves_a_choice(log_option: Tensor, options: Tensor | None) -> Tensor:
    """Cases in which the classifier is not the only option, (n,)."""
    return log_option.new_ones(len(log_option), dtype=torch.bool) if options is None else options[:, :-1].any(dim=1)


def _probabilities(log_option: Tensor) -> Tensor:
    """Rows for the projection: in double precision, on the CPU, nowhere zero."""
    probs = log_option.cpu().double().exp().clamp_min(_LEAST)
    return probs / probs.sum(dim=1, keepdim=True)


class NaiveDeferral(EMDeferral):
    """Learning to defer among those who answered: an expert who gave no answer to a case is not an option for it.

    The router learns from each case how those who answered it compare with one another and with the classifier. Without
    missing answers this is the standard method, and `ProbabilisticDeferral` the same.

    Parameters
    ----------
    classifier, gate, coverage, workload
        See :class:`~manyhands.defer.Deferral`.
    unanswered : {"left-out", "wrong"}, default "left-out"
        What an expert who gave no answer to a case is in it. ``"left-out"``: no option, neither for the posterior of
        who should answer nor for the router that learns from it; a case without answers teaches the router nothing.
        ``"wrong"``: an expert who could not have been right, so that every missing answer moves the router
        towards the classifier and the experts who did answer.
    constraint
        Over which cases the workload is kept while training: each ``"batch"``, the latest ones (``"running"``), or
        all of them, once an ``"epoch"``. Cases without answers are not among them, unless `unanswered` is ``"wrong"``.
    penalty
        Weight of ``constraint="penalty"``: no projection, but the squares by which the gate's mean probabilities of a
        batch miss the shares are added to the loss. None for 10. ``constraint="case-penalty"`` adds the mean of the
        squares of single cases, as printed in the paper (Sec. 4, ii).
    cost
        Of asking an expert, or of asking each of those named: one of cost c counts as right exp(-c) times as often as
        they are, in training as in decisions. It may be negative.
    smoothing
        Share of an answer that is spread over all classes: how far answers are trusted.
    averaging
        Exponent κ of the explicit moving average of Q (Eq. 33): the loss of step k is ``k^-κ`` times that of its batch
        plus the rest times that of the batch before it, with the posteriors it had then. From 0.5 to 1; a step costs
        twice as much. None leaves the averaging to the momentum of the optimizer, as the authors do.
    half_life
        See :class:`~manyhands.defer.ProbabilisticDeferral`.
    **settings
        See :class:`~manyhands.defer.Deferral` and :class:`~manyhands.learn.Training`.

    Notes
    -----
    What keeps the workload while training is the choice among those who answered, and the router chooses among all:
    where many answers are missing it leaves the classifier less than its share by itself. Decisions by capacity or by
    threshold keep it all the same.

    Time per epoch O(cases · experts) in addition to two networks; ``constraint="epoch"`` keeps cases × options numbers.

    References
    ----------
    C. Nguyen, T.-T. Do and G. Carneiro, "Probabilistic learning to defer", ICLR 2025, Eqs. 11 to 15. D. Madras,
    T. Pitassi and R. Zemel, "Predict responsibly", NeurIPS 2018.

    Examples
    --------
    >>> import torch, manyhands as mh
    >>> X, y = mh.categorical.synthetic.gaussians(300, 3)
    >>> answers = mh.simulate(truth=y, n_workers=2, n_classes=3, labels_per_task=2).log
    >>> classifier = torch.nn.Sequential(torch.nn.Linear(10, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    >>> team = mh.defer.NaiveDeferral(classifier, coverage=0.5, max_epochs=2).fit(X, y, answers)
    >>> int((team.decide(X).who == 2).sum())  # two experts: option 2 is the classifier
    150
    """

    def __init__(
        self,
        classifier: nn.Module,
        gate: Gate = "anchored",
        *,
        unanswered: Literal["left-out", "wrong"] = "left-out",
        **settings: Any,
    ) -> None:
        super().__init__(classifier, gate, **settings)
        self.unanswered = unanswered

    def _check(self) -> None:
        super()._check()
        check_choice("unanswered", self.unanswered, ("left-out", "wrong"))

    def _options(self, batch: Batch) -> Tensor | None:
        if self.unanswered == "wrong":
            return None
        return F.pad(answers_of(batch, len(self._workers)) >= 0, (0, 1), value=True)

    def _e_step(self, batch: Batch, views: Views) -> tuple[Tensor, Tensor | None]:
        truth, answers = truth_of(batch), answers_of(batch, len(self._workers))
        log_evidence = evidence(answers, truth, F.log_softmax(views.classes, dim=1), self.smoothing, -torch.inf)
        return posterior(F.log_softmax(views.gate, dim=1), log_evidence), None


class ProbabilisticDeferral(EMDeferral):
    """Probabilistic learning to defer: answers that experts did not give are inferred while the router is learned.

    Each expert has a model of what they would answer. The E-step infers who should take a case and what the answers
    not given were, the workload is kept by an I-projection, and gate, classifier and experts' models learn from that.

    Parameters
    ----------
    classifier, gate, coverage, workload
        See :class:`~manyhands.defer.Deferral`. Models of experts are networks like the classifier.
    experts : str or {"confusion"}, default "auto"
        ``"separate"``: a network each; ``"conditional"``: one for all, distinguished by learned embeddings; ``"auto"``:
        the latter from 8 experts on. ``"confusion"``: no network but a confusion matrix each, so that what an expert
        would have answered follows from the truth.
    groups
        Number of networks, each for a group of experts whose accuracy in each class is alike; instead of `experts`.
        ``"hierarchical"`` finds the number of groups by hierarchical clustering.
    inference : {"exact", "mean-field", "mean-field-released"}, default "exact"
        The E-step: ``"exact"``, which sums missing answers out, or ``"mean-field"``, as in the text of the paper. The
        mean field judges the classifier by the probability of the truth, but experts who did not answer by its expected
        logarithm, so that experts whom the router rarely prefers die out. ``"mean-field-released"``, as in the code of
        the authors, takes the expectation for the classifier too, and then it is the experts who gain.
    n_iter : int, default 10
        Fixed-point steps of the mean field.
    constraint
        Over which cases the workload is kept while training: each ``"batch"``, the latest ones (``"running"``), or
        all of them, once an ``"epoch"``.
    penalty
        Weight of ``constraint="penalty"``: no projection, but the squares by which the gate's mean probabilities of a
        batch miss the shares are added to the loss. None for 10. ``constraint="case-penalty"`` adds the mean of the
        squares of single cases, as printed in the paper (Sec. 4, ii).
    cost
        Of asking an expert, or of asking each of those named: one of cost c counts as right exp(-c) times as often as
        they are, in training as in decisions. It may be negative.
    smoothing
        Share of an answer that is spread over all classes: how far answers are trusted.
    averaging
        Exponent κ of the explicit moving average of Q (Eq. 33): the loss of step k is ``k^-κ`` times that of its batch
        plus the rest times that of the batch before it, with the posteriors it had then. From 0.5 to 1; a step costs
        twice as much. None leaves the averaging to the momentum of the optimizer, as the authors do.
    half_life
        Time after which an answer counts half, in the unit of ``fit(times=)``, for experts whose skill changes;
        ``"auto"`` for the one with which answers predict the next best. None: answers count for good.
    **settings
        See :class:`~manyhands.defer.Deferral` and :class:`~manyhands.learn.Training`. Defaults are the paper's:
        gradient descent with momentum (which is its online EM), cosine schedule, gradients of norm 10 at most, 300
        epochs.

    Notes
    -----
    Time per epoch O(cases · experts · (classes + n_iter)) next to the networks, memory the same of a batch;
    ``constraint="epoch"`` keeps cases × options numbers, predicts all cases once more an epoch, and has the exact
    projection of all of them.

    References
    ----------
    C. Nguyen, T.-T. Do and G. Carneiro, "Probabilistic learning to defer: handling missing expert's annotations and
    controlling workload distribution", ICLR 2025.

    Examples
    --------
    >>> import torch, manyhands as mh
    >>> X, y = mh.categorical.synthetic.gaussians(300, 3)
    >>> answers = mh.simulate(truth=y, n_workers=3, n_classes=3, labels_per_task=1).log
    >>> classifier = torch.nn.Sequential(torch.nn.Linear(10, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    >>> team = mh.defer.ProbabilisticDeferral(classifier, coverage=0.4, workload="balanced", max_epochs=2)
    >>> decision = team.fit(X, y, answers).decide(X)
    >>> [int((decision.who == option).sum()) for option in range(4)]
    [60, 60, 60, 120]
    """

    def __init__(
        self,
        classifier: nn.Module,
        gate: Gate = "anchored",
        *,
        experts: Kind | Literal["confusion"] = "auto",
        groups: Groups = None,
        inference: Literal["exact", "mean-field", "mean-field-released"] = "exact",
        n_iter: int = 10,
        **settings: Any,
    ) -> None:
        super().__init__(classifier, gate, **settings)
        self.experts = experts
        self.groups = groups
        self.inference = inference
        self.n_iter = n_iter

    def _check(self) -> None:
        super()._check()
        if self.experts != "confusion":
            check_expert_models(self.experts, self.groups)
        elif self.groups is not None:
            raise ValueError("groups are of networks; experts='confusion' has none")
        check_choice("inference", self.inference, ("exact", "mean-field", "mean-field-released"))
        check_number("n_iter", self.n_iter, least=1, whole=True)

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        if self.experts != "confusion":
            return super()._extra_parts(data) | {"experts": self._expert_models(data, self.experts, self.groups)}
        log_confusion = np.log(self._confusion.clip(_LEAST))
        #: By the truth first: (n_classes, n_experts, n_classes).
        self._log_confusion = torch.from_numpy(log_confusion).float().transpose(0, 1).to(self._on)
        return super()._extra_parts(data)

    @property
    def _models(self) -> ExpertModels:
        models = self._parts_or_fail()["experts"]
        assert isinstance(models, ExpertModels)
        return models

    def _forward(self, x: Any) -> Views:
        views = self._views(x)
        return views if self.experts == "confusion" else views._replace(experts=self._models(x))

    def _e_step(self, batch: Batch, views: Views) -> tuple[Tensor, Tensor | None]:
        truth, answers = truth_of(batch), answers_of(batch, len(self._workers))
        log_probs, log_gate = F.log_softmax(views.classes, dim=1), F.log_softmax(views.gate, dim=1)
        log_experts = self._log_confusion[truth] if views.experts is None else views.experts
        arguments = (log_gate, log_experts, answers, truth, log_probs)
        if self.inference == "exact":
            return exact_posterior(*arguments, smoothing=self.smoothing)
        released = self.inference == "mean-field-released"
        return mean_field(*arguments, smoothing=self.smoothing, n_iter=self.n_iter, released=released)

    def _expert_loss(self, batch: Batch, views: Views, answers: Tensor | None) -> Tensor | float:
        if views.experts is None:
            return 0.0
        assert answers is not None
        answers[batch.sample, batch.worker] = F.one_hot(batch.label, answers.shape[2]).to(answers)
        loss, weights = soft_cross_entropy(views.experts, answers).sum(dim=1), self._case_weights(batch.tasks)
        loss = loss if weights is None else loss * weights
        return loss.sum() * self._models.scale(len(batch), batch.n_annotations)

    def expert_proba(self, X: Any) -> Array:
        """What each expert is thought to answer to each case, (n, n_experts, n_classes)."""
        self._fitted()
        if self.experts == "confusion":
            mixed: Array = np.einsum("nk,mkl->nml", self.predict_proba(X), self.confusion_)
            return mixed
        features = as_features(X)
        return np.exp(self._mapped(features, torch.arange(len(features)), self._models))
