"""Base class of networks for non-categorical answers, with worker parameters shrunk to the average."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from manyhands._base.checks import check_number
from manyhands._base.estimator import Array, KnowsWorkers
from manyhands._train.batch import Batch, CrowdData, as_features
from manyhands._train.estimator import NetworkEstimator
from manyhands._train.large_tables import WorkerTable
from manyhands._train.module_calls import run
from manyhands._train.settings import TrainingOptions


class ShrunkLearner(NetworkEstimator, KnowsWorkers):
    """A network, worker parameters and crowd parameters, trained by maximum likelihood.

    The prior of a worker (`shrink` times the distance to an average worker) is divided among the worker's answers, so
    that a batch only involves its own workers.
    """

    def __init__(self, backbone: nn.Module, *, shrink: float, **training: Unpack[TrainingOptions]) -> None:
        self.backbone = backbone
        self.shrink = shrink
        self._take_settings(training)

    def _check(self) -> None:
        if not isinstance(self.backbone, nn.Module):
            raise TypeError(f"backbone must be a torch nn.Module, not {type(self.backbone).__name__}")
        check_number("shrink", self.shrink, least=0)
        if self.start_from is not None:
            raise ValueError(f"{type(self).__name__} does not support start_from; omit it")
        super()._check()

    # ---------------------------------------------------------------------------------- hooks of subclasses

    @abstractmethod
    def _average(self) -> tuple[Tensor, Tensor]:
        """Return the initial worker row (that of an average worker), and the initial crowd parameters."""

    @abstractmethod
    def _distance(self, rows: Tensor) -> Tensor:
        """Prior distance of workers to an average worker, (n,)."""

    @abstractmethod
    def _log_likelihood(self, batch: Batch, output: Tensor) -> Tensor:
        """Log-probability or log-density of each answer, (n_annotations,)."""

    # -------------------------------------------------------------------------------------------- training

    def _make_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        counts = torch.from_numpy(data.votes.labels_per_worker).float()
        self._share = (1.0 / counts.clamp_min(1)).to(self._on)
        row, crowd = self._average()
        return {
            "network": copy.deepcopy(self.backbone),
            "workers": WorkerTable(data.votes.n_workers, row),
            "crowd": nn.ParameterDict({"numbers": nn.Parameter(crowd)}),
        }

    def _rows(self, worker: Tensor) -> Tensor:
        """Parameters of some workers."""
        rows: Tensor = self._parts_or_fail()["workers"](worker)
        return rows

    def _of_crowd(self) -> Tensor:
        """Crowd parameters."""
        crowd: Any = self._parts_or_fail()["crowd"]
        numbers: Tensor = crowd["numbers"]
        return numbers

    def _loss(self, batch: Batch, output: Tensor) -> Tensor:
        prior_terms = 0.5 * self.shrink * self._distance(self._rows(batch.worker)) * self._share[batch.worker]
        weight = batch.weight / batch.weight.sum().clamp_min(torch.finfo(batch.weight.dtype).tiny)
        return -(self._log_likelihood(batch, output) * weight).sum() + prior_terms.mean()

    def _judged(self, batch: Batch, output: Tensor) -> tuple[Tensor, Tensor]:
        return (self._log_likelihood(batch, output) * batch.weight).sum(), batch.weight.sum()

    def _of_network(self, X: Any) -> Array:
        """Outputs of the trained network for all rows."""
        self._fitted()
        features = as_features(X)
        return self._mapped(features, torch.arange(len(features)), lambda x: run(self._network, x).float())
