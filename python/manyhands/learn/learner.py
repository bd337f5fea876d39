"""What all learners share beside the training loop: prediction, and what was learnt of the workers."""

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
from manyhands._train.probabilities import estimated_confusion, log_softmax, normalised
from manyhands._train.settings import REDUCTIONS, TrainingOptions
from manyhands.categorical._passes import posterior_under
from manyhands.categorical._priors import probabilities
from manyhands.categorical.base import Aggregator
from manyhands.categorical.table import Annotations


class Learner(CrowdNetworkEstimator):
    """Base of all learners: a subclass builds its parts and gives the loss of a batch.

    The backbone is any ``nn.Module`` that returns logits. It is copied at the start of ``fit``, so the one given stays
    as it is, and is where every fit starts. It runs once a sample, whatever the number of labels.
    """

    def __init__(self, backbone: nn.Module, **training: Unpack[TrainingOptions]) -> None:
        self.backbone = backbone
        self._take_settings(training)

    # ---------------------------------------------------------------------------- what a learner is made of

    def _check(self) -> None:
        """Refuse settings that cannot work, before any work. A subclass adds its own."""
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
        """What is trained beside the backbone, by name; starts are set here."""

    @abstractmethod
    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        """The loss of a batch, given what the backbone makes of it, (n, n_classes)."""

    def _forward(self, x: Any) -> Tensor:
        """What the backbone makes of some samples: log-probabilities of the classes, (n, n_classes)."""
        return log_softmax(self._checked(run(self._network, x)))

    def _judged(self, batch: Batch, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        return (self._score(batch, log_probs) * batch.weight).sum(), batch.weight.sum()

    def _score(self, batch: Batch, log_probs: Tensor) -> Tensor:
        """How well held-out annotations are foretold, each: the log-probability of the label, (n_annotations,)."""
        return self._label_log_probs(batch, log_probs)

    def _label_log_probs(self, batch: Batch, log_probs: Tensor) -> Tensor:
        """Log-probability of each label, (n_annotations,): here, as if the worker never erred."""
        return log_probs[batch.sample].gather(1, batch.label[:, None])[:, 0]

    def _learnt_confusion(self, data: CrowdData, predicted: Array) -> Array:
        """Confusion matrices: here, of workers judged by the network's predictions of the training samples."""
        return estimated_confusion(data.votes, predicted)

    def _after_training(self, data: CrowdData) -> None:
        """See what was learnt of the workers; a subclass with something left to do does it before this."""
        predicted = self._predicted(data)
        self._prior = mean_prediction(data, predicted)
        self._confusion = self._learnt_confusion(data, predicted)

    # --------------------------------------------------------------------------------------------- helpers

    def _checked(self, logits: Tensor) -> Tensor:
        return checked_logits(logits, len(self._classes), "the backbone must return one logit a class")

    def _reduce(self, losses: Tensor, batch: Batch) -> Tensor:
        """Mean of the annotations' losses, as `reduction` weighs them."""
        return (losses * self._weights(batch)).sum()

    def _weights(self, batch: Batch) -> Tensor:
        """Weight of each annotation of a batch, summing to one (by worker: on average over batches)."""
        weight = batch.weight
        least = torch.finfo(weight.dtype).tiny  # annotations of no weight teach nothing, also where there are no others
        if self.reduction == "label":
            return weight / weight.sum().clamp(min=least)
        if self.reduction == "sample":
            totals = weight.new_zeros(len(batch)).index_add(0, batch.sample, weight)
            return weight / totals[batch.sample].clamp(min=least) / len(batch)
        return weight * self._per_worker[batch.worker] / batch.n_annotations

    def _worker_mean(self, values: Tensor, batch: Batch) -> Tensor:
        """Mean over the crowd of a number that each annotation's worker has: right on average over batches."""
        return (values * self._per_worker[batch.worker]).sum() / batch.n_annotations

    def _start(self, votes: Annotations) -> tuple[Array, Array] | None:
        """Posteriors and confusion matrices to start from, for these votes."""
        model = self.start_from
        if model is None:
            return None
        if isinstance(model, np.ndarray):
            shape = (votes.n_workers, votes.n_classes, votes.n_classes)
            given = probabilities(model, shape, "the confusion matrices of start_from")
            return posterior_under(votes.table, np.full(votes.n_classes, 1 / votes.n_classes), given), given
        if not model.__sklearn_is_fitted__():
            model = copy.copy(model).fit(votes)
        _, confusion = model._parameters_for(votes)
        return model.predict_proba(votes), confusion

    @property
    def dominance_(self) -> Array:
        """By how much the mean of ``confusion_`` is diagonally dominant, class by class, (n_classes,).

        Where all are positive, labels alone tell the matrices; see :func:`manyhands.metrics.dominance`.
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
        X
            A row a sample: a NumPy array, a torch tensor, a SciPy sparse matrix or a map-style ``Dataset``.
        votes
            An :class:`~manyhands.Annotations` table, a frame with well-known column names, or a (samples × workers)
            array with -1 where there is no label. Samples without labels are not trained on.
        tasks
            Name of each row of X among the tasks of the votes. None if the tasks are row numbers.
        resume
            Go on from `checkpoint`, to the same result as if the training had not been interrupted. Needs the same
            votes and settings; `max_epochs` may be larger unless the schedule depends on it.
        overwrite
            Begin anew although the file of `checkpoint` is there, and write over it.
        progress
            True for a progress bar, or a function called after each epoch as ``progress(epoch, loss)``.
        """
        return self._fit(lambda: CrowdData(X, votes, tasks), resume=resume, overwrite=overwrite, progress=progress)

    # ------------------------------------------------------------------------------------------ prediction

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type="classifier", target_tags=TargetTags(required=True, multi_output=True))

    def _log_probs(self, features: Features, rows: Tensor) -> Array:
        """What the trained network makes of some rows, (n, n_classes)."""
        return self._mapped(features, rows, self._forward)

    def _log_probs_of(self, X: Any) -> Array:
        features = as_features(X)
        return self._log_probs(features, torch.arange(len(features)))

    def _predicted(self, data: CrowdData) -> Array:
        """Class probabilities of the training samples, (n_samples, n_classes)."""
        return normalised(self._log_probs(data.features, data.rows))

    def predict_proba(self, X: Any, votes: Any = None, *, tasks: Any = None) -> Array:
        """Class probabilities, (n, n_classes): from the features alone or, with votes, from both together.

        With votes, a row of X that has annotations gets the posterior of both, the network's prediction being the prior
        of the confusion matrices; other rows the prediction alone. Workers not seen in ``fit`` count as the average
        worker. Rows are matched to tasks as in ``fit``.
        """
        self._fitted()
        log_probs = self._log_probs_of(X)
        return normalised(log_probs) if votes is None else self._forecast(log_probs, as_votes(votes), tasks)

    def _forecast(self, log_probs: Array, votes: Annotations, tasks: Any) -> Array:
        """The posterior given the network's prediction of all rows and some rows' annotations."""
        rows = rows_of(votes, len(log_probs), tasks)
        table = self._recode(votes)
        confusion = self._carried_over(self.confusion_, self._workers.match(votes._workers))
        posterior = normalised(log_probs)
        posterior[rows] = posterior_under(table, np.ascontiguousarray(posterior[rows]), confusion)
        return posterior

    def predict(self, X: Any, votes: Any = None, *, tasks: Any = None) -> npt.NDArray[Any]:
        """The most probable class of each row, by name; see :meth:`predict_proba`."""
        winners = _core.winners(self.predict_proba(X, votes, tasks=tasks))[0]
        return self._classes.values[winners]

    def score(self, X: Any, y: npt.ArrayLike) -> float:
        """Accuracy of the predictions where true classes are known."""
        return metrics.accuracy(self.predict(X), y)


def mean_prediction(data: CrowdData, predicted: Array) -> Array:
    """The class prior that predictions of the training samples amount to, (n_classes,)."""
    mean = predicted[data.samples.numpy()].mean(axis=0)
    return mean / mean.sum()


def all_learners() -> list[type[Learner]]:
    """Every learner class of the library, by name."""
    return concrete(Learner, "manyhands.learn")  # type: ignore[type-abstract]
