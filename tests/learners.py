"""The variants of learners that the check-list runs on, and a small crowd with features for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import manyhands as mh
from manyhands import learn
from oracles import learn as plain

torch.set_num_threads(1)


@dataclass(frozen=True)
class Variant:
    """A learner with settings, and what it can do."""

    make: type[learn.Learner]
    options: dict[str, Any] = field(default_factory=dict)
    #: Whether `start_from` makes sense.
    starts: bool = True
    #: The plain twin of its loss, of the learner, class probabilities and triples (sample, worker, label).
    twin: Callable[[Any, np.ndarray, list[tuple[int, int, int]]], float] | None = None
    #: Settings with which its gradient holds nothing fixed that the loss depends on; None if it always does.
    exact: dict[str, Any] | None = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "-".join([self.make.__name__, *(str(value) for value in self.options.values())])

    def learner(self, n_classes: int = 3, **options: Any) -> learn.Learner:
        return self.make(backbone(n_classes), **{"max_epochs": 3, "batch_size": 32} | self.options | options)


def _coupled(learner: Any, probs: np.ndarray, triples: list[tuple[int, int, int]]) -> float:
    return plain.coupled_cross_entropy(probs, learner._crowd.confusion().numpy(), triples)


def _crowd_layer(kind: str) -> Variant:
    def twin(learner: Any, probs: np.ndarray, triples: list[tuple[int, int, int]]) -> float:
        table = learner._crowd.table
        weights = table.weight.detach().reshape(-1, *table.shape).numpy()
        return plain.crowd_layer(probs, weights, triples, kind)

    return Variant(learn.CrowdLayer, {"kind": kind}, starts=kind == "MW", twin=twin)


def _votes(*, winner: bool, beta: float = 1.0) -> Callable[[Any, np.ndarray, list[tuple[int, int, int]]], float]:
    def twin(learner: Any, probs: np.ndarray, triples: list[tuple[int, int, int]]) -> float:
        return plain.target_cross_entropy(probs, plain.vote_targets(triples, *probs.shape, winner=winner), beta)

    return twin


def _posterior(learner: Any, probs: np.ndarray, triples: list[tuple[int, int, int]]) -> float:
    return plain.target_cross_entropy(probs, learner._posterior.numpy())


def _aggregated(learner: Any, probs: np.ndarray, triples: list[tuple[int, int, int]]) -> float:
    return plain.target_cross_entropy(probs, learner._fit_of_votes.posterior_)


def _traced(learner: Any, probs: np.ndarray, triples: list[tuple[int, int, int]]) -> float:
    return plain.trace_loss(probs, learner._crowd.confusion().numpy(), triples, learner.trace, learner._n_labels)


def _max_mig(learner: Any, probs: np.ndarray, triples: list[tuple[int, int, int]]) -> float:
    k = probs.shape[1]
    weights, start = (
        table.detach().numpy().reshape(-1, k, k) for table in (learner._crowd.table.weight, learner._anchor)
    )
    prior = learner._crowd.log_prior().exp().detach().numpy()
    return plain.max_mig_loss(probs, weights, start, prior, triples, learner.divergence, learner.shrinkage)


VARIANTS = [
    Variant(learn.MajorityTarget, twin=_votes(winner=True)),
    Variant(learn.MajorityTarget, {"loss": "kappa"}),
    Variant(learn.SoftTarget, twin=_votes(winner=False)),
    Variant(learn.AggregatedTarget, twin=_aggregated),
    Variant(learn.AggregatedTarget, {"aggregator": mh.WeightedVote()}),
    Variant(learn.SoftBootstrap, twin=_votes(winner=True, beta=0.95)),
    Variant(learn.LearnFromAll, starts=False, twin=lambda _, probs, triples: plain.cross_entropy(probs, triples)),
    Variant(learn.LearnFromAll, {"reduction": "sample"}, starts=False),
    Variant(learn.LearnFromAll, {"loss": "focal", "reduction": "worker"}, starts=False),
    *(_crowd_layer(kind) for kind in ("MW", "VW", "VB", "VW-B")),
    Variant(learn.CCEM, twin=_coupled),
    *(
        Variant(learn.CCEM, {"workers": kind}, twin=_coupled)
        for kind in ("softmax", "one-coin", "low-rank", "embedded")
    ),
    Variant(learn.TraceRegularized, twin=_traced),
    Variant(learn.GeoCrowdNet, {"side": "F"}, exact={"momentum": 0.0}),
    Variant(learn.GeoCrowdNet, {"side": "W"}, exact={"momentum": 0.0}),
    Variant(learn.SingleConfusion, twin=_traced),
    Variant(learn.SingleConfusion, {"batch_size": 2}),
    Variant(learn.SingleConfusion, {"labels": "majority"}),
    Variant(learn.COINNet, exact={"momentum": 0.0}),
    Variant(learn.InstanceTrace),
    Variant(learn.CoNAL, starts=False),
    Variant(learn.UnionNet, {"variant": "A"}),
    Variant(learn.UnionNet, {"variant": "B"}),
    Variant(learn.MaDL, exact=None),  # similarities of workers are not for the network to change
    Variant(learn.MaDL, {"rate": 0.0}),
    Variant(learn.AnnotMix),
    Variant(learn.AnnotMix, {"alpha": 0.0}),
    Variant(learn.AnchorTransition, {"first_epochs": 5, "judging_epochs": 10, "ratio": 1.0}),
    Variant(learn.MaxMIG, {"divergence": "kl"}, twin=_max_mig),
    Variant(learn.MaxMIG, {"divergence": "pearson"}, twin=_max_mig),
    Variant(learn.MaxMIG, {"divergence": "js", "prior": "learnt"}, twin=_max_mig),
    Variant(learn.DeepEM, twin=_posterior),
    Variant(learn.ModelBootstrappedEM, {"epochs_per_step": 2}, twin=_posterior),
    Variant(learn.DoctorNet, starts=False),
    Variant(learn.WeightedDoctorNet, {"weight_epochs": 1}, starts=False),
    Variant(learn.Learn2Agree, {"stream": "distribution", "loss": "focal"}),
    Variant(learn.Learn2Agree, {"stream": "linear", "loss": "kappa"}),
    # The stream does not change the weights of annotators, which have an aim of their own.
    Variant(learn.Learn2Agree, {"stream_loss": "rmse", "loss": "ce", "weights": "learnt"}, starts=False, exact=None),
]


def backbone(n_classes: int = 3, n_features: int = 6, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(n_features, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, n_classes))


@dataclass(frozen=True)
class Crowd:
    X: np.ndarray
    votes: mh.Annotations
    truth: np.ndarray
    confusion: np.ndarray


def crowd(
    n: int = 240, n_classes: int = 3, n_workers: int = 9, per_task: int = 3, seed: int = 0, **options: Any
) -> Crowd:
    X, truth = mh.synthetic.gaussians(n, n_classes, n_features=6, separation=3.0, seed=seed)
    made = mh.simulate(
        truth=truth, n_workers=n_workers, n_classes=n_classes, labels_per_task=per_task, seed=seed, **options
    )
    return Crowd(X.astype(np.float32), made.votes, truth, made.confusion)


def slopes_agree(loss: Callable[[], Tensor], given: dict[str, Tensor]) -> None:
    """The gradient of a loss is the slope of finite differences, in a random direction of each tensor that is given."""
    learnt = {name: value for name, value in given.items() if value.requires_grad}
    found = torch.autograd.grad(loss(), list(learnt.values()), allow_unused=True)
    rng, step, moved = np.random.default_rng(1), 1e-6, 0
    for (name, value), gradient in zip(learnt.items(), found, strict=True):
        direction = torch.from_numpy(rng.normal(size=tuple(value.shape)))
        with torch.no_grad():
            value += step * direction
            above = loss().item()
            value -= 2 * step * direction
            below = loss().item()
            value += step * direction
        slope = 0.0 if gradient is None else (gradient * direction).sum().item()
        assert slope == pytest.approx((above - below) / (2 * step), rel=1e-4, abs=1e-7), name
        moved += slope != 0
    assert moved
