"""What networks for answers other than classes share: a row of numbers for each worker, shrunk to the crowd."""

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
    """A network, the workers' numbers and those of the crowd, learnt from the likelihood of the answers.

    What is known of a worker beforehand, `shrink` times how far their numbers are from an average worker's, is divided
    among the worker's answers, so that a batch costs no more than the workers in it.
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
            raise ValueError(f"a {type(self).__name__} has no aggregator to start from; leave start_from out")
        super()._check()

    # ---------------------------------------------------------------------------- what a subclass is made of

    @abstractmethod
    def _average(self) -> tuple[Tensor, Tensor]:
        """The row of an average worker, which all start with, and the first numbers of the crowd."""

    @abstractmethod
    def _distance(self, rows: Tensor) -> Tensor:
        """How far workers are from an average one, beforehand, (n,)."""

    @abstractmethod
    def _log_likelihood(self, batch: Batch, output: Tensor) -> Tensor:
        """Log-probability, or density, of each answer, (n_annotations,)."""

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
        """Numbers of some workers."""
        rows: Tensor = self._parts_or_fail()["workers"](worker)
        return rows

    def _of_crowd(self) -> Tensor:
        """Numbers of the crowd."""
        crowd: Any = self._parts_or_fail()["crowd"]
        numbers: Tensor = crowd["numbers"]
        return numbers

    def _loss(self, batch: Batch, output: Tensor) -> Tensor:
        beforehand = 0.5 * self.shrink * self._distance(self._rows(batch.worker)) * self._share[batch.worker]
        weight = batch.weight / batch.weight.sum().clamp_min(torch.finfo(batch.weight.dtype).tiny)
        return -(self._log_likelihood(batch, output) * weight).sum() + beforehand.mean()

    def _judged(self, batch: Batch, output: Tensor) -> tuple[Tensor, Tensor]:
        return (self._log_likelihood(batch, output) * batch.weight).sum(), batch.weight.sum()

    def _of_network(self, X: Any) -> Array:
        """What the trained network makes of all rows."""
        self._fitted()
        features = as_features(X)
        return self._mapped(features, torch.arange(len(features)), lambda x: run(self._network, x).float())
