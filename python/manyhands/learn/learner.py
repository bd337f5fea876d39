"""What all learners share: parameters, the one training loop, prediction, and what was learnt of the workers."""

from __future__ import annotations

import copy
import inspect
import os
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands import _core, metrics
from manyhands.aggregate.em import row_pseudo
from manyhands.annotations import Annotations
from manyhands.base import Acquainted, Aggregator, Array, Parameters, Progress, concrete
from manyhands.checks import check_choice, check_number
from manyhands.errors import NotFittedError
from manyhands.learn.batch import Batch, CrowdData, Features, as_features, as_votes, rows_of
from manyhands.learn.heads import WorkerTable
from manyhands.learn.lazy import LazyAdam
from manyhands.learn.training import (
    DTYPES,
    OPTIMIZERS,
    PRECISIONS,
    REDUCTIONS,
    SCHEDULES,
    TRAINING,
    TRAINING_NAMES,
    Training,
    clip_gradients,
    find_device,
    seeded,
)
from manyhands.progress import reporting

#: Samples predicted at a time.
_PREDICTED = 1024
#: Pseudo-counts (right, wrong) of the confusion matrices that follow from predictions.
_PSEUDO = (0.1, 0.01)


@dataclass
class _Progress:
    """What a run has come to; goes into checkpoints beside the parameters."""

    epoch: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    best_score: float = -np.inf
    best_epoch: int = -1


class Learner(Acquainted, Parameters, Training):
    """Base of all learners: a subclass builds its parts and gives the loss of a batch.

    The backbone is any ``nn.Module`` that returns logits. It is copied at the start of ``fit``, so the one given stays
    as it is, and is where every fit starts. It runs once a sample, whatever the number of labels.
    """

    #: Defaults of a learner that differ from those of `Training`.
    _defaults: ClassVar[dict[str, Any]] = {}

    _parts: nn.ModuleDict | None = None

    def __init__(self, backbone: nn.Module, **training: Any) -> None:
        self.backbone = backbone
        for name in training:
            if name not in TRAINING_NAMES:
                raise TypeError(
                    f"{type(self).__name__} has no parameter {name!r}; it has {inspect.signature(type(self))}"
                )
        for item in TRAINING:
            setattr(self, item.name, training.get(item.name, self._defaults.get(item.name, item.default)))

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # The signature says what `**training` stands for, so that parameters, repr and clone know it.
        super().__init_subclass__(**kwargs)
        own = [p for p in inspect.signature(cls.__init__).parameters.values() if p.kind is not p.VAR_KEYWORD]
        changed = [p.replace(default=cls._defaults.get(p.name, p.default)) for p in TRAINING]
        cls.__signature__ = inspect.Signature([*own[1:], *changed])  # type: ignore[attr-defined]

    # ---------------------------------------------------------------------------- what a learner is made of

    def _check(self) -> None:
        """Refuse settings that cannot work, before any work. A subclass adds its own."""
        if not isinstance(self.backbone, nn.Module):
            raise TypeError(
                f"backbone must be a torch nn.Module that returns logits, not {type(self.backbone).__name__}"
            )
        for name in ("max_epochs", "batch_size"):
            check_number(name, getattr(self, name), least=1, whole=True)
        check_number("seed", self.seed, least=0, whole=True)
        for name in ("lr", "weight_decay", "validation"):
            check_number(name, getattr(self, name), least=0)
        for name in ("worker_lr", "clip"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), least=0)
        if self.validation >= 1:
            raise ValueError(f"validation is the share of samples held out, below 1, not {self.validation}")
        if self.patience is not None:
            check_number("patience", self.patience, least=1, whole=True)
            if not self.validation:
                raise ValueError("patience needs samples to judge by: set validation, such as validation=0.1")
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("reduction", self.reduction, REDUCTIONS)
        check_choice("precision", self.precision, PRECISIONS)
        if isinstance(self.schedule, str):
            check_choice("schedule", self.schedule, SCHEDULES)
        if self.start_from is not None and not isinstance(self.start_from, Aggregator):
            raise TypeError(f"start_from must be an aggregator, not {type(self.start_from).__name__}")

    @abstractmethod
    def _build(self, data: CrowdData) -> dict[str, nn.Module]:
        """What is trained beside the backbone, by name; starts are set here."""

    @abstractmethod
    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        """The loss of a batch, given what the backbone makes of it, (n, n_classes)."""

    def _forward(self, x: Any) -> Tensor:
        """What the backbone makes of some samples: log-probabilities of the classes, (n, n_classes)."""
        return F.log_softmax(self._checked(self._network(x)), dim=1)

    def _start_epoch(self, epoch: int, data: CrowdData) -> None:
        """Called before each epoch, with all data: for what is learnt in other ways than by gradients."""

    def _finish(self, data: CrowdData) -> None:
        """Called once after the last epoch, in evaluation mode."""

    def _state(self) -> dict[str, Tensor]:
        """Tensors that a learner keeps outside of its parts, for checkpoints."""
        return {}

    def _set_state(self, state: dict[str, Tensor]) -> None:
        """Take back what `_state` gave."""

    def _score(self, batch: Batch, log_probs: Tensor) -> Tensor:
        """How well held-out annotations are foretold, each: the log-probability of the label, (n_annotations,)."""
        return self._label_log_probs(batch, log_probs)

    def _label_log_probs(self, batch: Batch, log_probs: Tensor) -> Tensor:
        """Log-probability of each label, (n_annotations,): here, as if the worker never erred."""
        return log_probs[batch.sample].gather(1, batch.label[:, None])[:, 0]

    def _learnt_confusion(self, data: CrowdData, predicted: Array) -> Array:
        """Confusion matrices: here, of workers judged by the network's predictions of the training samples."""
        return judged(data.votes, predicted)

    # --------------------------------------------------------------------------------------------- helpers

    @property
    def _network(self) -> nn.Module:
        assert self._parts is not None
        return self._parts["network"]

    def _checked(self, logits: Tensor) -> Tensor:
        k = len(self._classes)
        if logits.ndim != 2 or logits.shape[1] != k:
            raise ValueError(
                f"the backbone returns shape {tuple(logits.shape)}, but the votes have {k} classes: it must return one "
                f"logit a class, (n, {k})"
            )
        return logits.float()

    def _reduce(self, losses: Tensor, batch: Batch) -> Tensor:
        """Mean of the annotations' losses, as `reduction` weighs them."""
        return (losses * self._weights(batch)).sum()

    def _weights(self, batch: Batch) -> Tensor:
        """Weight of each annotation of a batch, summing to one (by worker: on average over batches)."""
        weight = batch.weight
        if self.reduction == "label":
            return weight / weight.sum()
        if self.reduction == "sample":
            totals = torch.zeros(len(batch), device=weight.device).index_add(0, batch.sample, weight)
            return weight / totals[batch.sample] / len(batch)
        return weight * self._per_worker[batch.worker] / batch.n_annotations

    def _worker_mean(self, values: Tensor, batch: Batch) -> Tensor:
        """Mean over the crowd of a number that each annotation's worker has: right on average over batches."""
        return (values * self._per_worker[batch.worker]).sum() / batch.n_annotations

    def _start(self, votes: Annotations) -> tuple[Array, Array] | None:
        """Posteriors and confusion matrices of the aggregator to start from, for these votes."""
        model = self.start_from
        if model is None:
            return None
        if not model.__sklearn_is_fitted__():
            model = copy.copy(model).fit(votes)
        _, confusion = model._parameters_for(votes)
        return model.predict_proba(votes), confusion

    # -------------------------------------------------------------------------------------------- training

    def fit(self, X: Any, votes: Any, *, tasks: Any = None, resume: bool = False, progress: Progress = False) -> Self:
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
            Go on from `checkpoint`, to the same result as if the training had not been interrupted.
        progress
            True for a progress bar, or a function called after each epoch as ``progress(epoch, loss)``.
        """
        self._check()
        if resume and self.checkpoint is None:
            raise ValueError("resume=True needs the file to resume from: set checkpoint=")
        data = CrowdData(X, votes, tasks)
        self._history: list[dict[str, float]] = []
        self._adopt_names(data.votes)
        self._on = find_device(self.device)
        counts = torch.from_numpy(data.votes.labels_per_worker).float()
        self._per_worker = (counts.sum() / (len(counts) * counts.clamp_min(1))).to(self._on)
        with seeded(self.seed, self._on), reporting(progress, self.max_epochs, type(self).__name__) as report:
            network = copy.deepcopy(self.backbone)
            self._parts = nn.ModuleDict({"network": network, **self._build(data)}).to(self._on)
            self._run(data, resume, report)
            self._parts.eval()
            self._finish(data)
            predicted = self._predicted(data)
            self._prior = mean_prediction(data, predicted)
            self._confusion = self._learnt_confusion(data, predicted)
        return self

    def _adopt_names(self, votes: Annotations) -> None:
        self._workers, self._classes = votes._workers, votes._classes
        self._n_labels = votes.labels_per_worker

    def _run(self, data: CrowdData, resume: bool, report: Callable[[int, float], object] | None) -> None:
        shuffle = torch.Generator().manual_seed(self.seed)
        training, held_out = self._split(data, shuffle)
        optimizers = self._optimizers()
        schedulers = [self._scheduler(optimizer) for optimizer in optimizers]
        scaler = torch.amp.GradScaler(self._on.type, enabled=self.precision == "float16")
        at, best = _Progress(), None
        if resume:
            at, best = self._restore(optimizers, schedulers, scaler, shuffle)
        while at.epoch < self.max_epochs:
            self._start_epoch(at.epoch, data)
            record = {"epoch": at.epoch, "lr": optimizers[0].param_groups[0]["lr"]}
            record["loss"] = self._epoch(data, training, shuffle, optimizers, scaler, at.epoch)
            for scheduler in schedulers:
                if scheduler is not None:
                    scheduler.step()
            at.epoch += 1
            if len(held_out):
                record["score"] = self._held_out_score(data, held_out)
                if record["score"] > at.best_score:
                    at.best_score, at.best_epoch, best = record["score"], at.epoch, copy.deepcopy(self._learnt())
            at.history.append(record)
            if report is not None:
                report(at.epoch, record["loss"])
            if self.checkpoint is not None:
                self._save(at, best, optimizers, schedulers, scaler, shuffle)
            enough = self.patience is not None and at.epoch - at.best_epoch >= self.patience
            # Every callback is called, whichever of them ends the training.
            asked = [callback(self, record) is True for callback in self.callbacks]
            if enough or any(asked):
                break
        self._history = at.history
        if best is not None:
            self._parts_or_fail().load_state_dict(best["parts"])
            self._set_state(best["state"])

    def _split(self, data: CrowdData, shuffle: torch.Generator) -> tuple[Tensor, Tensor]:
        order = data.samples
        n_held_out = int(self.validation * len(order))
        if not n_held_out:
            return order, order[:0]
        if n_held_out == len(order):
            raise ValueError(f"validation={self.validation} leaves no sample to train on")
        order = order[torch.randperm(len(order), generator=shuffle)]
        return order[n_held_out:].sort().values, order[:n_held_out].sort().values

    def _epoch(
        self,
        data: CrowdData,
        samples: Tensor,
        shuffle: torch.Generator,
        optimizers: list[torch.optim.Optimizer],
        scaler: torch.amp.GradScaler,
        epoch: int,
    ) -> float:
        """One pass over the samples; returns the mean loss."""
        parts = self._parts_or_fail()
        parts.train()
        total = torch.zeros((), dtype=torch.float64)
        for batch in data.batches(samples, self.batch_size, self._on, shuffle=shuffle):
            for optimizer in optimizers:
                optimizer.zero_grad(set_to_none=True)
            with torch.autocast(self._on.type, DTYPES[self.precision], enabled=self.precision != "float32"):
                log_probs = self._forward(batch.x)
            loss = self._loss(batch, log_probs)
            if not torch.isfinite(loss):
                raise FloatingPointError(
                    f"the loss became {loss.item()} in epoch {epoch + 1}; lower lr (now {self.lr:g}) or the weight "
                    "of the regulariser, or set clip"
                )
            if loss.requires_grad:
                scaler.scale(loss).backward()
                self._step(optimizers, scaler)
            total += loss.detach().cpu().double() * len(batch)
        return float(total) / max(len(samples), 1)

    def _step(self, optimizers: list[torch.optim.Optimizer], scaler: torch.amp.GradScaler) -> None:
        if self.clip is not None:
            for optimizer in optimizers:
                scaler.unscale_(optimizer)
            clip_gradients([p for p in self._parts_or_fail().parameters() if p.grad is not None], self.clip)
        for optimizer in optimizers:
            if any(p.grad is not None for group in optimizer.param_groups for p in group["params"]):
                scaler.step(optimizer)
        scaler.update()

    def _optimizers(self) -> list[torch.optim.Optimizer]:
        """One for dense gradients, and one for the tables whose gradients are sparse."""
        parts = self._parts_or_fail()
        lazy = [m.weight for m in parts.modules() if isinstance(m, WorkerTable) and m.sparse]
        skip = {id(p) for p in lazy}
        rate = self.lr if self.worker_lr is None else self.worker_lr
        network = list(self._network.parameters())
        inner = {id(p) for p in network}
        others = [p for p in parts.parameters() if id(p) not in inner and id(p) not in skip]
        groups = [{"params": network, "lr": self.lr, "weight_decay": self.weight_decay}]
        if others:
            groups.append({"params": others, "lr": rate, "weight_decay": 0.0})
        if not any(len(group["params"]) for group in groups):  # type: ignore[arg-type]
            raise ValueError("the backbone has no parameters to learn")
        dense: torch.optim.Optimizer
        if self.optimizer == "sgd":
            dense = torch.optim.SGD(groups, lr=self.lr, momentum=0.9)
        else:
            kind = torch.optim.AdamW if self.optimizer == "adamw" else torch.optim.Adam
            dense = kind(groups, lr=self.lr)
        return [dense] if not lazy else [dense, LazyAdam(lazy, lr=rate)]

    def _scheduler(self, optimizer: torch.optim.Optimizer) -> Any:
        if self.schedule is None:
            return None
        if callable(self.schedule):
            return self.schedule(optimizer)
        if self.schedule == "cosine":
            return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.max_epochs)
        milestones = [self.max_epochs // 2, self.max_epochs * 3 // 4]
        return torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones, gamma=0.1)

    @torch.no_grad()
    def _held_out_score(self, data: CrowdData, samples: Tensor) -> float:
        self._parts_or_fail().eval()
        total = weight = 0.0
        for batch in data.batches(samples, _PREDICTED, self._on):
            total += float((self._score(batch, self._forward(batch.x)) * batch.weight).sum())
            weight += float(batch.weight.sum())
        return total / weight

    # ----------------------------------------------------------------------------------------- checkpoints

    def _learnt(self) -> dict[str, Any]:
        """All that training changes."""
        return {"parts": self._parts_or_fail().state_dict(), "state": self._state()}

    def _save(self, at: _Progress, best: Any, optimizers: Any, schedulers: Any, scaler: Any, shuffle: Any) -> None:
        assert self.checkpoint is not None
        content = {
            "learner": type(self).__name__,
            "sizes": [len(self._workers), len(self._classes)],
            "progress": [at.epoch, at.best_score, at.best_epoch],
            "history": at.history,
            "now": self._learnt(),
            "best": best,
            "optimizers": [optimizer.state_dict() for optimizer in optimizers],
            "schedulers": [None if s is None else s.state_dict() for s in schedulers],
            "scaler": scaler.state_dict(),
            "shuffle": shuffle.get_state(),
            "random": torch.get_rng_state(),
        }
        # Written beside and moved: a run that is killed while it writes leaves the last whole file.
        beside = f"{os.fspath(self.checkpoint)}.part"
        torch.save(content, beside)
        os.replace(beside, self.checkpoint)

    def _restore(self, optimizers: Any, schedulers: Any, scaler: Any, shuffle: Any) -> tuple[_Progress, Any]:
        assert self.checkpoint is not None
        content = torch.load(self.checkpoint, map_location="cpu", weights_only=True)
        sizes = [len(self._workers), len(self._classes)]
        if content["learner"] != type(self).__name__ or content["sizes"] != sizes:
            raise ValueError(
                f"{self.checkpoint} is of a {content['learner']} with {content['sizes'][0]} workers and "
                f"{content['sizes'][1]} classes, not of this {type(self).__name__} with {sizes[0]} and {sizes[1]}"
            )
        self._parts_or_fail().load_state_dict(content["now"]["parts"])
        self._set_state(content["now"]["state"])
        for optimizer, state in zip(optimizers, content["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        for scheduler, state in zip(schedulers, content["schedulers"], strict=True):
            if scheduler is not None:
                scheduler.load_state_dict(state)
        scaler.load_state_dict(content["scaler"])
        shuffle.set_state(content["shuffle"])
        torch.set_rng_state(content["random"])
        epoch, best_score, best_epoch = content["progress"]
        return _Progress(epoch, content["history"], best_score, best_epoch), content["best"]

    # ------------------------------------------------------------------------------------------ prediction

    def _parts_or_fail(self) -> nn.ModuleDict:
        if self._parts is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(X, votes) first")
        return self._parts

    def _fitted(self) -> nn.ModuleDict:
        parts = self._parts_or_fail()
        if not self._history:
            raise NotFittedError(f"the last fit of this {type(self).__name__} did not end; call fit(X, votes) again")
        return parts

    def __sklearn_is_fitted__(self) -> bool:
        return self._parts is not None and bool(self._history)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type="classifier", target_tags=TargetTags(required=True, multi_output=True))

    @torch.no_grad()
    def _log_probs(self, features: Features, rows: Tensor) -> Array:
        """What the trained network makes of some rows, (n, n_classes)."""
        self._parts_or_fail().eval()
        found = [self._forward(features.take(part, self._on)).cpu().double() for part in rows.split(_PREDICTED)]
        return torch.cat(found).numpy()

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
        posterior[rows] = _core.em_forecast(table, np.ascontiguousarray(posterior[rows]), confusion)
        return posterior

    def predict(self, X: Any, votes: Any = None, *, tasks: Any = None) -> npt.NDArray[Any]:
        """The most probable class of each row, by name; see :meth:`predict_proba`."""
        winners = _core.winners(self.predict_proba(X, votes, tasks=tasks))[0]
        return self._classes.values[winners]

    def score(self, X: Any, y: npt.ArrayLike) -> float:
        """Accuracy of the predictions where true classes are known."""
        return metrics.accuracy(self.predict(X), y)

    # --------------------------------------------------------------------------------------------- results

    @property
    def network_(self) -> nn.Module:
        """The trained backbone, in evaluation mode."""
        self._fitted()
        return self._network

    @property
    def confusion_(self) -> Array:
        """Confusion matrix of each worker, (n_workers, n_classes true, n_classes observed); rows sum to one."""
        self._fitted()
        return self._confusion

    @property
    def prior_(self) -> Array:
        """Mean prediction over the training samples, (n_classes,)."""
        self._fitted()
        return self._prior

    @property
    def skills_(self) -> Array:
        """Expected share of right answers of each worker, (n_workers,)."""
        return metrics.skill(self.confusion_, self.prior_)

    @property
    def history_(self) -> dict[str, Array]:
        """Loss, learning rate and, with `validation`, held-out score of each epoch, by name."""
        self._fitted()
        return {name: np.array([record[name] for record in self._history]) for name in self._history[0]}


def normalised(log_probs: Array) -> Array:
    """Rows of log-probabilities as probabilities that sum to one."""
    probs = np.exp(log_probs - log_probs.max(axis=1, keepdims=True))
    return probs / probs.sum(axis=1, keepdims=True)


def mean_prediction(data: CrowdData, predicted: Array) -> Array:
    """The class prior that predictions of the training samples amount to, (n_classes,)."""
    mean = predicted[data.samples.numpy()].mean(axis=0)
    return mean / mean.sum()


def judged(votes: Annotations, posterior: Array) -> Array:
    """Confusion matrices of workers judged by posteriors, with weak pseudo-counts; compiled."""
    pseudo = row_pseudo(_PSEUDO, votes.n_classes)
    return _core.em_confusion(votes._table, np.ascontiguousarray(posterior, np.float64), pseudo)


def all_learners() -> list[type[Learner]]:
    """Every learner class of the library, by name."""
    return concrete(Learner, "manyhands.learn")  # type: ignore[type-abstract]
