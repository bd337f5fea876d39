"""Networks trained by EM, with posteriors as targets."""

from __future__ import annotations

from abc import abstractmethod
from typing import Unpack

import numpy as np
import torch
from torch import Tensor, nn

from manyhands._base.checks import check_flag, check_number
from manyhands._base.estimator import Array
from manyhands._train.batch import Batch, CrowdData
from manyhands._train.settings import TrainingOptions
from manyhands.categorical._passes import judged_by, posterior_under, resembling
from manyhands.learn.learner import Learner
from manyhands.learn.losses import log_mixture, soft_cross_entropy
from manyhands.learn.targets import vote_shares

__all__ = ["DeepEM", "ModelBootstrappedEM"]


class _EMLearner(Learner):
    """Base class: cross-entropy with posteriors that an E-step updates between epochs."""

    epochs_per_step: int
    shrink: bool

    def _check(self) -> None:
        super()._check()
        check_number("epochs_per_step", self.epochs_per_step, least=1, whole=True)
        check_flag("shrink", self.shrink)

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        start = self._start(data.votes)
        posterior, confusion = start if start is not None else (vote_shares(data.votes), None)
        self._crowd: Array | None = None
        self._take(posterior, self._judge(data, posterior) if confusion is None else confusion)
        return {}

    def _judge(self, data: CrowdData, posterior: Array) -> Array:
        """Confusion matrices given posteriors; `shrink` adds an empirical Bayes prior for workers with few labels."""
        posterior = np.ascontiguousarray(posterior, np.float64)
        if not self.shrink:
            k = data.votes.n_classes
            return judged_by(data.votes.table, posterior, np.zeros((k, k)))
        confusion, self._crowd = resembling(data.votes.table, posterior, self._crowd)
        return confusion

    def _take(self, posterior: Array, confusion: Array) -> None:
        self._posterior = torch.from_numpy(posterior).float().to(self._on)
        self._matrices = torch.from_numpy(confusion).float().to(self._on)

    @abstractmethod
    def _e_step(self, data: CrowdData, predicted: Array) -> tuple[Array, Array]:
        """Return posteriors and confusion matrices, given the network's predictions."""

    def _start_epoch(self, epoch: int, data: CrowdData) -> None:
        if epoch and epoch % self.epochs_per_step == 0:
            self._take(*self._e_step(data, self._predicted(data)))

    def _learned_confusion(self, data: CrowdData, predicted: Array) -> Array:
        return self._e_step(self._to_learn_from(data), predicted)[1]

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        return soft_cross_entropy(log_probs, self._posterior[batch.tasks]).mean()

    def _label_log_probs(self, batch: Batch, log_probs: Tensor) -> Tensor:
        columns = self._matrices[batch.worker, :, batch.label]
        return log_mixture(log_probs[batch.sample], columns.clamp_min(1e-12).log())

    def _state(self) -> dict[str, Tensor]:
        crowd = {} if self._crowd is None else {"crowd": torch.from_numpy(self._crowd)}
        return {"posterior": self._posterior, "matrices": self._matrices, **crowd}

    def _set_state(self, state: dict[str, Tensor]) -> None:
        self._posterior = state["posterior"].to(self._on)
        self._matrices = state["matrices"].to(self._on)
        self._crowd = state["crowd"].cpu().numpy() if "crowd" in state else None


class DeepEM(_EMLearner):
    """Deep EM: the network's prediction is the prior of a Dawid–Skene model, and its posteriors are the targets.

    A robust default for classification with features. With a linear backbone it is the method of Raykar et al., with a
    deep one AggNet.

    Parameters
    ----------
    backbone : nn.Module
        Any ``nn.Module`` that returns logits.
    epochs_per_step : int, default 1
        Epochs of the network per E-step.
    shrink : bool, default True
        Shrink confusion matrices of workers with few labels toward the average. False for the M-step as published,
        plain expected counts (Algorithm 2 of Tanno et al. 2019).
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    E-step and confusion matrices run in the compiled core, O(annotations · classes + workers · classes²) each; an epoch
    also costs the training of the backbone and one prediction.

    Starts from vote shares, or from the posteriors of `start_from`. The M-step shrinks workers with few labels toward
    the average as in :class:`~manyhands.categorical.HierarchicalDawidSkene`; without `shrink`, the row of a class that
    a worker never met is uniform. With `validation`, both steps use the labels of the training samples only.

    References
    ----------
    V. C. Raykar et al., "Learning from crowds", JMLR 11 (2010). S. Albarqouni et al., "AggNet", IEEE TMI 35 (2016).
    R. Tanno et al., "Learning from noisy labels by regularized estimation of annotator confusion", CVPR 2019.
    """

    def __init__(
        self,
        backbone: nn.Module,
        *,
        epochs_per_step: int = 1,
        shrink: bool = True,
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(backbone, **training)
        self.epochs_per_step = epochs_per_step
        self.shrink = shrink

    def _e_step(self, data: CrowdData, predicted: Array) -> tuple[Array, Array]:
        confusion = self._judge(data, self._posterior.double().cpu().numpy())
        return posterior_under(data.votes.table, predicted, confusion), confusion


class ModelBootstrappedEM(_EMLearner):
    """Model-bootstrapped EM: worker accuracy is estimated from the network's own predictions.

    Use it with a single label per sample.

    Parameters
    ----------
    backbone : nn.Module
        Any ``nn.Module`` that returns logits.
    epochs_per_step : int, default 10
        Epochs of the network per E-step, and before the first one.
    shrink : bool, default True
        As for `DeepEM`; False for Algorithm 3 of Tanno et al. 2019.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    Starts from vote shares, or from the posteriors of `start_from`. The network needs more epochs per E-step than in
    `DeepEM`, because its predictions must be useful first. Worker prior, held-out samples and cost are as in `DeepEM`.
    The class prior is the share of predictions; `shrink` adds 1e-6 per class, so that no class becomes impossible.

    References
    ----------
    A. Khetan, Z. C. Lipton and A. Anandkumar, "Learning from noisy singly-labeled data", ICLR 2018.
    """

    def __init__(
        self,
        backbone: nn.Module,
        *,
        epochs_per_step: int = 10,
        shrink: bool = True,
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(backbone, **training)
        self.epochs_per_step = epochs_per_step
        self.shrink = shrink

    def _e_step(self, data: CrowdData, predicted: Array) -> tuple[Array, Array]:
        one_hot_predictions = np.eye(predicted.shape[1])[predicted.argmax(axis=1)]
        prior = one_hot_predictions[data.samples.numpy()].mean(axis=0)
        if self.shrink:  # classes that are never predicted keep a positive probability
            prior = (prior + 1e-6) / (1 + 1e-6 * len(prior))
        confusion = self._judge(data, one_hot_predictions)
        return posterior_under(data.votes.table, prior, confusion), confusion
