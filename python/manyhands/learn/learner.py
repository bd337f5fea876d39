"""Base class of learners: prediction and worker estimates."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any, Self, Unpack

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from manyhands import _core, metrics
from manyhands._base.checks import check_choice
from manyhands._base.estimator import Array, Progress, concrete
from manyhands._train.batch import Batch, CrowdData, Features, as_features, as_votes, rows_of
from manyhands._train.estimator import CrowdNetworkEstimator, checked_logits
from manyhands._train.module_calls import run
from manyhands._train.probabilities import estimated_confusion, log_softmax, softmax_rows
from manyhands._train.settings import REDUCTIONS, TrainingOptions
from manyhands.categorical._passes import posterior_under
from manyhands.categorical._priors import probabilities
from manyhands.categorical.base import Aggregator
from manyhands.categorical.table import Annotations


class Learner(CrowdNetworkEstimator):
    """Base class of learners. Subclasses create their parts and implement the loss of a batch.

    The backbone is any ``nn.Module`` that returns logits. ``fit`` trains a copy, so the module passed is unchanged and
    every fit starts from it. The backbone runs once per sample, whatever the number of labels.
    """

    def __init__(self, backbone: nn.Module, **training: Unpack[TrainingOptions]) -> None:
        self.backbone = backbone
        self._take_settings(training)

    # ---------------------------------------------------------------------------------- hooks of subclasses

    def _check(self) -> None:
        """Validate the settings. Subclasses add checks of their own."""
        if not isinstance(self.backbone, nn.Module):
            raise TypeError(
                f"backbone must be a torch nn.Module that returns logits, not {type(self.backbone).__name__}"
            )
        super()._check()
        check_choice("reduction", self.reduction, REDUCTIONS)
        if not isinstance(self.start_from, Aggregator | np.ndarray | None):
            raise TypeError(
                f"start_from must be an aggregator or confusion matrices, not {type(self.start_from).__name__}"
            )

    def _make_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        counts = torch.from_numpy(data.votes.labels_per_worker).float()
        self._per_worker = (counts.sum() / (len(counts) * counts.clamp_min(1))).to(self._on)
        return {"network": copy.deepcopy(self.backbone), **self._extra_parts(data)}

    @abstractmethod
    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        """Return the modules that are trained in addition to the backbone, by name, initialized."""

    @abstractmethod
    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        """Return the loss of a batch, given the output of the backbone, (n, n_classes)."""

    def _forward(self, x: Any) -> Tensor:
        """Return log-probabilities of the classes from the backbone, (n, n_classes)."""
        return log_softmax(self._checked(run(self._network, x)))

    def _judged(self, batch: Batch, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        return (self._score(batch, log_probs) * batch.weight).sum(), batch.weight.sum()

    def _score(self, batch: Batch, log_probs: Tensor) -> Tensor:
        """Validation score of each annotation, (n_annotations,): the log-probability of its label."""
        return self._label_log_probs(batch, log_probs)

    def _label_log_probs(self, batch: Batch, log_probs: Tensor) -> Tensor:
        """Log-probability of each label, (n_annotations,); by default, as if workers made no errors."""
        return log_probs[batch.sample].gather(1, batch.label[:, None])[:, 0]

    def _learned_confusion(self, data: CrowdData, predicted: Array) -> Array:
        """Confusion matrices; by default estimated from the network's predictions of the training samples."""
        return estimated_confusion(data.votes, predicted)

    def _after_training(self, data: CrowdData) -> None:
        """Estimate worker parameters; subclasses with remaining work do it before this."""
        predicted = self._predicted(data)
        self._prior = mean_prediction(data, predicted)
        self._confusion = self._learned_confusion(data, predicted)

    # --------------------------------------------------------------------------------------------- helpers

    def _checked(self, logits: Tensor) -> Tensor:
        return checked_logits(logits, len(self._classes), "the backbone must return one logit per class")

    def _reduce(self, losses: Tensor, batch: Batch) -> Tensor:
        """Mean of annotation losses, weighted according to `reduction`."""
        return (losses * self._weights(batch)).sum()

    def _weights(self, batch: Batch) -> Tensor:
        """Weight of each annotation of a batch, summing to one (by worker: on average over batches)."""
        weight = batch.weight
        least = torch.finfo(weight.dtype).tiny  # avoids division by zero if all weights are zero
        if self.reduction == "label":
            return weight / weight.sum().clamp(min=least)
        if self.reduction == "sample":
            totals = weight.new_zeros(len(batch)).index_add(0, batch.sample, weight)
            return weight / totals[batch.sample].clamp(min=least) / len(batch)
        return weight * self._per_worker[batch.worker] / batch.n_annotations

    def _worker_mean(self, values: Tensor, batch: Batch) -> Tensor:
        """Mean over workers of a value per annotation, unbiased over batches."""
        return (values * self._per_worker[batch.worker]).sum() / batch.n_annotations

    def _start(self, votes: Annotations) -> tuple[Array, Array] | None:
        """Return posteriors and confusion matrices of `start_from` for these votes."""
        model = self.start_from
        if model is None:
            return None
        if isinstance(model, np.ndarray):
            shape = (votes.n_workers, votes.n_classes, votes.n_classes)
            confusion = probabilities(model, shape, "the confusion matrices of start_from")
            return posterior_under(votes.table, np.full(votes.n_classes, 1 / votes.n_classes), confusion), confusion
        if not model.__sklearn_is_fitted__():
            model = copy.copy(model).fit(votes)
        _, estimated = model._parameters_for(votes)
        return model.predict_proba(votes), estimated

    @property
    def dominance_(self) -> Array:
        """Diagonal dominance of the mean of ``confusion_``, by class, shape (n_classes,).

        If all values are positive, the labels identify the matrices; see :func:`manyhands.metrics.dominance`.
        """
        return metrics.dominance(self.confusion_)

    # -------------------------------------------------------------------------------------------- training

    def fit(
        self,
        X: Any,
        votes: Any,
        *,
        tasks: Any = None,
        resume: bool = False,
        overwrite: bool = False,
        progress: Progress = False,
    ) -> Self:
        """Train on features and annotations.

        Parameters
        ----------
        X : array, tensor, sparse matrix or Dataset
            One row per sample: a NumPy array, torch tensor, SciPy sparse matrix or map-style ``Dataset``.
        votes : Annotations, frame or array
            Annotations, a frame with well-known column names, or a (samples × workers) array with -1 for missing
            labels. Samples without labels are not used for training.
        tasks : list of ids, optional
            Task id of each row of X. By default, task ids are row numbers.
        resume : bool, default False
            Continue from `checkpoint`, with the same result as uninterrupted training. Requires the same votes and
            settings; `max_epochs` may be larger unless the schedule depends on it.
        overwrite : bool, default False
            Start over although the `checkpoint` file exists, and overwrite it.
        progress : bool or callable, default False
            True shows a progress bar; a callable is called after each epoch as ``progress(epoch, loss)``.

        Returns
        -------
        Learner
            The fitted learner itself.
        """
        return self._fit(lambda: CrowdData(X, votes, tasks), resume=resume, overwrite=overwrite, progress=progress)

    # ------------------------------------------------------------------------------------------ prediction

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type="classifier", target_tags=TargetTags(required=True, multi_output=True))

    def _log_probs(self, features: Features, rows: Tensor) -> Array:
        """Log-probabilities from the trained network, (n, n_classes)."""
        return self._mapped(features, rows, self._forward)

    def _log_probs_of(self, X: Any) -> Array:
        features = as_features(X)
        return self._log_probs(features, torch.arange(len(features)))

    def _predicted(self, data: CrowdData) -> Array:
        """Class probabilities of the training samples, (n_samples, n_classes)."""
        return softmax_rows(self._log_probs(data.features, data.rows))

    def predict_proba(self, X: Any, votes: Any = None, *, tasks: Any = None) -> Array:
        """Return class probabilities, shape (n, n_classes), from features alone or from features and votes.

        Rows with annotations in `votes` get the posterior with the network's prediction as prior and the estimated
        confusion matrices as likelihood; other rows get the prediction. Workers that were not in ``fit`` count as
        average.

        Parameters
        ----------
        X : array, tensor, sparse matrix or Dataset
            One row per sample.
        votes : Annotations, frame or array, optional
            Annotations of some rows.
        tasks : list of ids, optional
            Task id of each row of X, as in ``fit``.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Class probabilities.
        """
        self._fitted()
        log_probs = self._log_probs_of(X)
        return softmax_rows(log_probs) if votes is None else self._forecast(log_probs, as_votes(votes), tasks)

    def _forecast(self, log_probs: Array, votes: Annotations, tasks: Any) -> Array:
        """Posterior of the rows with annotations, and the network's prediction of the others."""
        rows = rows_of(votes, len(log_probs), tasks)
        table = self._recode(votes)
        confusion = self._carried_over(self.confusion_, self._workers.match(votes._workers))
        posterior = softmax_rows(log_probs)
        posterior[rows] = posterior_under(table, np.ascontiguousarray(posterior[rows]), confusion)
        return posterior

    def predict(self, X: Any, votes: Any = None, *, tasks: Any = None) -> npt.NDArray[Any]:
        """Return the name of the most probable class of each row; see :meth:`predict_proba`."""
        winners = _core.winners(self.predict_proba(X, votes, tasks=tasks))[0]
        return self._classes.values[winners]

    def score(self, X: Any, y: npt.ArrayLike) -> float:
        """Return the accuracy of the predictions against true classes."""
        return metrics.accuracy(self.predict(X), y)


def mean_prediction(data: CrowdData, predicted: Array) -> Array:
    """Mean prediction of the training samples, used as class prior, (n_classes,)."""
    mean = predicted[data.samples.numpy()].mean(axis=0)
    return mean / mean.sum()


def all_learners() -> list[type[Learner]]:
    """Return all learner classes of the library, sorted by name."""
    return concrete(Learner, "manyhands.learn")  # type: ignore[type-abstract]
