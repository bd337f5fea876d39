"""The variants of learners that the check-list runs on, and a small crowd with features for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

import manyhands as mh
from manyhands import learn

torch.set_num_threads(1)


@dataclass(frozen=True)
class Variant:
    """A learner with settings, and what it can do."""

    make: type[learn.Learner]
    options: dict[str, Any] = field(default_factory=dict)
    #: Whether `start_from` makes sense.
    starts: bool = True

    @property
    def name(self) -> str:
        return "-".join([self.make.__name__, *(str(value) for value in self.options.values())])

    def learner(self, n_classes: int = 3, **options: Any) -> learn.Learner:
        return self.make(backbone(n_classes), **{"max_epochs": 3, "batch_size": 32} | self.options | options)


VARIANTS = [
    Variant(learn.MajorityTarget),
    Variant(learn.SoftTarget),
    Variant(learn.AggregatedTarget),
    Variant(learn.AggregatedTarget, {"aggregator": mh.WeightedVote()}),
    Variant(learn.SoftBootstrap),
    Variant(learn.LearnFromAll, starts=False),
    Variant(learn.LearnFromAll, {"reduction": "sample"}, starts=False),
    Variant(learn.LearnFromAll, {"reduction": "worker"}, starts=False),
    Variant(learn.CrowdLayer, {"kind": "MW"}, starts=False),
    Variant(learn.CrowdLayer, {"kind": "VW"}, starts=False),
    Variant(learn.CrowdLayer, {"kind": "VB"}, starts=False),
    Variant(learn.CrowdLayer, {"kind": "VW-B"}, starts=False),
    Variant(learn.CCEM),
    Variant(learn.CCEM, {"workers": "softmax"}),
    Variant(learn.CCEM, {"workers": "one-coin"}),
    Variant(learn.CCEM, {"workers": "low-rank"}),
    Variant(learn.CCEM, {"workers": "embedded"}),
    Variant(learn.TraceRegularized),
    Variant(learn.GeoCrowdNet, {"side": "F"}),
    Variant(learn.GeoCrowdNet, {"side": "W"}),
    Variant(learn.SingleConfusion),
    Variant(learn.SingleConfusion, {"batch_size": 2}),
    Variant(learn.COINNet),
    Variant(learn.InstanceTrace),
    Variant(learn.MaxMIG, {"divergence": "kl"}),
    Variant(learn.MaxMIG, {"divergence": "pearson"}),
    Variant(learn.MaxMIG, {"divergence": "js", "prior": "learnt"}),
    Variant(learn.DeepEM),
    Variant(learn.ModelBootstrappedEM, {"epochs_per_step": 2}),
    Variant(learn.DoctorNet, starts=False),
    Variant(learn.WeightedDoctorNet, {"weight_epochs": 1}, starts=False),
    Variant(learn.Learn2Agree, {"stream": "distribution", "loss": "focal"}),
    Variant(learn.Learn2Agree, {"stream": "linear", "loss": "kappa"}),
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
