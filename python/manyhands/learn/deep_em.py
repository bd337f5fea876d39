"""Networks trained by expectation–maximisation: their targets are posteriors, made anew between epochs."""

from __future__ import annotations

from abc import abstractmethod
from typing import Unpack

import numpy as np
import torch
from torch import Tensor, nn

from manyhands._base.checks import check_number
from manyhands._base.estimator import Array
from manyhands._train.batch import Batch, CrowdData
from manyhands._train.settings import TrainingOptions
from manyhands.categorical._passes import posterior_under, resembling
from manyhands.learn.learner import Learner
from manyhands.learn.losses import log_mixture, soft_cross_entropy
from manyhands.learn.targets import vote_shares

__all__ = ["DeepEM", "ModelBootstrappedEM"]


class _EMLearner(Learner):
    """Cross-entropy with posteriors that an E-step makes anew every so many epochs."""

    epochs_per_step: int

    def _check(self) -> None:
        super()._check()
        check_number("epochs_per_step", self.epochs_per_step, least=1, whole=True)

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        start = self._start(data.votes)
        posterior, confusion = start if start is not None else (vote_shares(data.votes), None)
        self._crowd: Array | None = None
        self._take(posterior, self._judge(data, posterior) if confusion is None else confusion)
        return {}

    def _judge(self, data: CrowdData, posterior: Array) -> Array:
        """Confusion matrices of workers judged by posteriors: those who gave few labels are taken to be like others."""
        confusion, self._crowd = resembling(data.votes.table, np.ascontiguousarray(posterior, np.float64), self._crowd)
        return confusion

    def _take(self, posterior: Array, confusion: Array) -> None:
        self._posterior = torch.from_numpy(posterior).float().to(self._on)
        self._matrices = torch.from_numpy(confusion).float().to(self._on)

    @abstractmethod
    def _e_step(self, data: CrowdData, predicted: Array) -> tuple[Array, Array]:
        """Posteriors of the samples and confusion matrices, given the network's predictions of the samples."""

    def _start_epoch(self, epoch: int, data: CrowdData) -> None:
        if epoch and epoch % self.epochs_per_step == 0:
            self._take(*self._e_step(data, self._predicted(data)))

    def _learnt_confusion(self, data: CrowdData, predicted: Array) -> Array:
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
    """Deep EM: the network's prediction is the prior of a Dawid–Skene model, whose posteriors it is trained on.

    With a linear backbone it is the method of Raykar et al.; with a deep one AggNet.

    Parameters
    ----------
    backbone
        Any ``nn.Module`` that returns logits.
    epochs_per_step
        Epochs of the network for each E-step.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    Starts from vote shares, or from the posteriors of `start_from`. The M-step takes workers to resemble each other as
    much as the crowd says they do, as :class:`~manyhands.categorical.HierarchicalDawidSkene` does: one with few labels
    is judged by the crowd's habits, one with many by their own. With `validation`, both steps count the labels of the
    training samples only.

    E- and M-step of the confusion matrices run in the compiled core, O(annotations · classes + workers · classes²)
    each; beside them an epoch costs the backbone's training and one prediction.

    References
    ----------
    V. C. Raykar et al., "Learning from crowds", JMLR 11 (2010). S. Albarqouni et al., "AggNet", IEEE TMI 35 (2016).
    """

    def __init__(self, backbone: nn.Module, *, epochs_per_step: int = 1, **training: Unpack[TrainingOptions]) -> None:
        super().__init__(backbone, **training)
        self.epochs_per_step = epochs_per_step

    def _e_step(self, data: CrowdData, predicted: Array) -> tuple[Array, Array]:
        confusion = self._judge(data, self._posterior.double().cpu().numpy())
        return posterior_under(data.votes.table, predicted, confusion), confusion


class ModelBootstrappedEM(_EMLearner):
    """Model-bootstrapped EM: workers are judged by the network's own decisions, so that one label a sample is enough.

    Parameters
    ----------
    backbone
        Any ``nn.Module`` that returns logits.
    epochs_per_step
        Epochs of the network for each E-step, and before the first.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    Starts from vote shares, or from the posteriors of `start_from`. The network must have learnt something before it
    may judge: more epochs a step than of `DeepEM`. What is learnt of the crowd, held-out samples and cost are as
    there. The class prior, the shares of the network's decisions, has 1e-6 added to each class and is normalised
    again: a class that the network never names stays possible.

    References
    ----------
    A. Khetan, Z. C. Lipton and A. Anandkumar, "Learning from noisy singly-labeled data", ICLR 2018.
    """

    def __init__(self, backbone: nn.Module, *, epochs_per_step: int = 10, **training: Unpack[TrainingOptions]) -> None:
        super().__init__(backbone, **training)
        self.epochs_per_step = epochs_per_step

    def _e_step(self, data: CrowdData, predicted: Array) -> tuple[Array, Array]:
        decided = np.eye(predicted.shape[1])[predicted.argmax(axis=1)]
        prior = decided[data.samples.numpy()].mean(axis=0)
        # A class that the network never names would stay unnamed for ever.
        prior = (prior + 1e-6) / (1 + 1e-6 * len(prior))
        confusion = self._judge(data, decided)
        return posterior_under(data.votes.table, prior, confusion), confusion
