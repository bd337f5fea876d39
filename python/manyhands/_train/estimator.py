"""The one training loop, and what goes with it: settings, optimizers, schedules, early stopping, checkpoints."""

from __future__ import annotations

import copy
import inspect
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from manyhands import metrics
from manyhands._base import arrow, html
from manyhands._base.checks import check_choice, check_number, plural
from manyhands._base.estimator import Array, Parameters, Progress
from manyhands._base.names import Names
from manyhands._base.progress import reporting
from manyhands._train import checkpoint, files
from manyhands._train.batch import Batch, CrowdData, Features
from manyhands._train.callbacks import Callbacks, check_callbacks
from manyhands._train.checkpoint import Owner
from manyhands._train.half_precision import check_precision
from manyhands._train.loader import check_loader, with_loader
from manyhands._train.module_calls import plain, sharing
from manyhands._train.optimizers import made_optimizers, made_scheduler
from manyhands._train.ranks import Ranks, check_distributed
from manyhands._train.run import Run
from manyhands._train.settings import (
    DTYPES,
    OPTIMIZERS,
    PRECISIONS,
    SCHEDULES,
    TRAINING,
    Training,
    explain_errors,
    find_device,
    temporary_seed,
)
from manyhands.categorical._confusion import KnowsConfusion
from manyhands.errors import FileFormatError, NotFittedError

#: Samples predicted at a time.
PREDICTED = 1024

Report = Callable[[int, float], object]
#: Parts that may be compiled: those that a user gives.
_COMPILED = ("network", "gate")
#: Settings that a training may go on with changed; networks show by their parameters whether they are the same.
_FREE = frozenset({"max_epochs", "patience", "device", "loader", "callbacks", "checkpoint"})


class NetworkEstimator(Parameters, Training, ABC):
    """Base of all that is trained on samples and annotations: a subclass builds its parts and gives a batch's loss.

    Parts are networks and whatever else has parameters, by name. What the parts make of some samples (`_forward`) is
    handed to the loss as it is, so it may be anything.
    """

    #: Defaults that differ from those of `Training`.
    _defaults: ClassVar[dict[str, Any]] = {}
    #: What is taken by keyword next to a constructor's own parameters.
    _settings: ClassVar[Sequence[inspect.Parameter]] = TRAINING
    #: Parts that are whole networks: they learn at the rate `lr` and their weights decay, the rest at `worker_lr`.
    _networks: ClassVar[tuple[str, ...]] = ("network",)
    #: What predictions need next to the parts and the names: attributes, and whether they are tensors of the device.
    _saved_state: ClassVar[dict[str, bool]] = {"_n_labels": False}
    #: Parts that only training needs.
    _training_parts: ClassVar[tuple[str, ...]] = ()
    #: How ``fit`` is called, for messages.
    _call: ClassVar[str] = "fit(X, votes)"

    _parts: nn.ModuleDict | None = None
    _workers: Names
    _classes: Names

    def _take_settings(self, settings: Mapping[str, Any]) -> None:
        """Keep what was given by keyword, and defaults for the rest."""
        for name in settings:
            if name not in {item.name for item in self._settings}:
                raise TypeError(
                    f"{type(self).__name__} has no parameter {name!r}; it has {inspect.signature(type(self))}"
                )
        for item in self._settings:
            setattr(self, item.name, settings.get(item.name, self._defaults.get(item.name, item.default)))

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # The signature specifies what `**settings` stands for, so that parameters, repr and clone know it.
        super().__init_subclass__(**kwargs)
        own = [p for p in inspect.signature(cls.__init__).parameters.values() if p.kind is not p.VAR_KEYWORD]
        changed = [p.replace(default=cls._defaults.get(p.name, p.default)) for p in cls._settings]
        cls.__signature__ = inspect.Signature([*own[1:], *changed])  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        summary = super().__repr__()
        if not self.__sklearn_is_fitted__():
            return summary
        sizes = f"{plural(len(self._workers), 'worker')} and {plural(len(self._classes), 'class', 'classes')}"
        return f"{summary}, fitted to {sizes} in {plural(len(self._history), 'epoch')}"

    def _repr_html_(self) -> str:
        if not self.__sklearn_is_fitted__():
            return html.block(repr(self))
        return html.block(repr(self)) + html.table(arrow.table(self.history_))

    # ---------------------------------------------------------------------------- what a subclass is made of

    def _check(self) -> None:
        """Raise for settings that cannot work, before any work. A subclass adds its own."""
        for name in ("max_epochs", "batch_size", "accumulate"):
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
        if not callable(self.optimizer):
            check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("precision", self.precision, PRECISIONS)
        if isinstance(self.schedule, str):
            check_choice("schedule", self.schedule, SCHEDULES)
        if not isinstance(self.compile, bool | Mapping):
            raise TypeError(f"compile must be True, False or options of torch.compile, not {self.compile!r}")
        check_callbacks(self.callbacks)
        if self.loader is not None:
            check_loader(self.loader)
        if self.distributed:
            check_distributed()

    @abstractmethod
    def _make_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        """All that is trained, by name, as it is at the start; ``"network"`` is what predicts classes."""

    def _blank_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        """The same parts, for weights that come from a file: the data have the same sizes and nothing else."""
        return self._make_parts(data)

    def _prepare(self, data: CrowdData) -> None:
        """Called once before the first epoch, when all parts are made."""

    @abstractmethod
    def _forward(self, x: Any) -> Any:
        """What the parts make of some samples."""

    @abstractmethod
    def _loss(self, batch: Batch, output: Any) -> Tensor:
        """The loss of a batch, given what `_forward` makes of it."""

    @abstractmethod
    def _judged(self, batch: Batch, output: Any) -> tuple[Tensor, Tensor]:
        """How well held-out samples are predicted: a sum that must be large, and the weight to divide it by."""

    def _start_epoch(self, epoch: int, data: CrowdData) -> None:
        """Called before each epoch, with all data: for what is learned in other ways than by gradients."""

    def _after_training(self, data: CrowdData) -> None:
        """Called once after the last epoch, in evaluation mode."""

    def _state(self) -> dict[str, Tensor]:
        """Tensors that are kept outside of the parts, for checkpoints."""
        return {}

    def _set_state(self, state: dict[str, Tensor]) -> None:
        """Take back what `_state` gave."""

    @property
    def _network(self) -> nn.Module:
        assert self._parts is not None
        return self._parts["network"]

    # -------------------------------------------------------------------------------------------- training

    def _fit(self, data: Callable[[], CrowdData], *, resume: bool, overwrite: bool, progress: Progress) -> Self:
        """Train on what a function makes, which is called when settings, device and checkpoint are known to do."""
        self._check()
        check_precision(self.precision, find_device(self.device))
        checkpoint.prepare(self.checkpoint, resume=resume, overwrite=overwrite)
        batch = data()
        batch.features = with_loader(batch.features, self.loader)
        self._adopt(batch)
        self._train(batch, resume=resume, progress=progress)
        return self

    def _adopt(self, data: CrowdData) -> None:
        """Get to know the workers and classes by name."""
        votes = data.votes
        self._workers, self._classes = votes._workers, votes._classes
        self._n_labels = votes.labels_per_worker
        self._example = files.example(data.batch(data.samples[:1], torch.device("cpu")).x)

    @property
    def _n_epochs(self) -> int:
        """Epochs of the loop."""
        return self.max_epochs

    def _to_learn_from(self, data: CrowdData) -> CrowdData:
        """What training may know of the data: samples held out say which epoch is best, and nothing else."""
        return data.without(self._held_out)

    def _train(self, data: CrowdData, *, resume: bool = False, progress: Progress = False) -> None:
        """Make the parts, train them, and keep the best or the last epoch; all randomness follows from the seed."""
        self._history: list[dict[str, float]] = []
        self._on = find_device(self.device)
        ranks = Ranks(self._on) if self.distributed else None
        owner = self._owner(data) if self.checkpoint is not None or ranks is not None else None
        saved = None
        if owner is not None and ranks is not None:
            ranks.agree((owner, self.max_epochs))
        if owner is not None and resume:
            assert self.checkpoint is not None
            saved = checkpoint.read(self.checkpoint)
            owner.refuse_other(self.checkpoint, saved)
        shuffle = torch.Generator().manual_seed(self.seed)
        self._training, self._held_out = self._split(data, shuffle)
        training_data = self._to_learn_from(data)
        quiet = ranks is not None and not ranks.first
        with (
            sharing(None if ranks is None else ranks.share),
            temporary_seed(self.seed, self._on),
            reporting(False if quiet else progress, self._n_epochs, type(self).__name__) as report,
        ):
            self._parts = self._whole_parts(training_data)
            if ranks is not None:
                ranks.begin(self._parts)
            self._prepare(training_data)
            optimizers = self._optimizers()
            schedulers = [made_scheduler(one, self.schedule, self._n_epochs) for one in optimizers if self.schedule]
            scaler = torch.amp.GradScaler(self._on.type, enabled=self.precision == "float16")
            callbacks = Callbacks(self, self.callbacks)
            run = Run(optimizers, schedulers, scaler, shuffle, callbacks, self.accumulate, self.clip, owner, ranks)
            if saved is not None:
                self._restore(run, saved)
            ended = "max_epochs"
            try:
                ended = self._epochs(data, training_data, run, report)
            except BaseException as error:
                ended = type(error).__name__
                raise
            finally:
                callbacks.tell("on_fit_end", {"n_epochs": run.epoch, "ended": ended})
            if run.best is not None:
                self._parts.load_state_dict(run.best["parts"])
                self._set_state(run.best["state"])
            self._parts.eval()
            self._after_training(data)
        self._history = run.history

    def _whole_parts(self, data: CrowdData) -> nn.ModuleDict:
        """The parts on their device, compiled if that is asked for."""
        parts = nn.ModuleDict({name: plain(part) for name, part in self._make_parts(data).items()}).to(self._on)
        if self.compile is not False:
            options = {} if self.compile is True else self.compile
            arrays = [parts[name] for name in _COMPILED if name in parts]
            for network in [*arrays, *(getattr(one, name, None) for one in arrays for name in ("trunk", "head"))]:
                if isinstance(network, nn.Module):
                    network.compile(**options)
        return parts

    def _optimizers(self) -> list[torch.optim.Optimizer]:
        rates = (self.lr, self._worker_rate())
        return made_optimizers(self._parts_or_fail(), self._networks, self.optimizer, rates, self.weight_decay)

    def _worker_rate(self) -> float:
        """Learning rate of all parts that are not networks."""
        return self.lr if self.worker_lr is None else self.worker_lr

    def _epochs(self, data: CrowdData, training_data: CrowdData, run: Run, report: Report | None) -> str:
        """Train until the last epoch or an earlier stop; returns the reason for the end."""
        sizes = {"n_samples": len(self._training), "n_held_out": len(self._held_out)}
        fields = {"epoch": run.epoch, "n_epochs": self._n_epochs} | sizes
        if run.ended(run.callbacks.tell("on_fit_start", fields)):
            return "callback"
        while run.epoch < self._n_epochs:
            if self.patience is not None and run.epoch - run.best_epoch >= self.patience:
                return "patience"
            record = {"epoch": run.epoch, "lr": run.optimizers[0].param_groups[0]["lr"]}
            if run.ended(run.callbacks.tell("on_epoch_start", dict(record))):
                return "callback"
            if run.ranks is not None:
                run.ranks.reseed(self.seed + run.epoch)
            self._start_epoch(run.epoch, training_data)
            if run.ranks is not None:
                run.ranks.begin(self._parts_or_fail())
            record["loss"], cut = self._epoch(training_data, run)
            run.epoch += 1
            if len(self._held_out):
                record["score"] = self._mean_score(data, self._held_out)
                if record["score"] > run.best_score:
                    run.best_score, run.best_epoch = record["score"], run.epoch
                    run.best = copy.deepcopy(self._learnt())
            run.step_schedules(record.get("score", -record["loss"]))
            run.history.append(record)
            if report is not None:
                report(run.epoch, record["loss"])
            # An epoch that was cut short is repeated when training resumes.
            if not cut and self.checkpoint is not None and run.owner is not None and (not run.ranks or run.ranks.first):
                checkpoint.write(self.checkpoint, run.owner.content() | {"now": self._learnt()} | run.state())
            if run.ended(run.callbacks.tell("on_epoch_end", record)) or cut:
                return "callback"
        return "max_epochs"

    def _split(self, data: CrowdData, shuffle: torch.Generator) -> tuple[Tensor, Tensor]:
        order = data.samples
        n_held_out = int(self.validation * len(order))
        if not n_held_out:
            return order, order[:0]
        if n_held_out == len(order):
            raise ValueError(f"validation={self.validation} leaves no sample to train on")
        order = order[torch.randperm(len(order), generator=shuffle)]
        return order[n_held_out:].sort().values, order[:n_held_out].sort().values

    def _epoch(self, data: CrowdData, run: Run) -> tuple[float, bool]:
        """One pass over the samples; returns the mean loss, and whether a callback cut it short."""
        parts = self._parts_or_fail()
        parts.train()
        parameters = list(parts.parameters())
        total, n_seen, cut = 0.0, 0, False
        mixed = self.precision != "float32"
        for number, batch in enumerate(data.batches(self._training, self.batch_size, self._on, shuffle=run.shuffle)):
            run.forget(parameters)
            casting = torch.autocast(self._on.type, DTYPES[self.precision]) if mixed else nullcontext()
            with casting, explain_errors(self._network, batch.x):
                output = self._forward(batch.x)
            loss = self._loss(batch, output)
            value = loss.item()  # the one moment in a batch at which the device is waited for
            if not math.isfinite(value):
                raise FloatingPointError(
                    f"the loss became {value} in epoch {run.epoch + 1}; lower lr (now {self.lr:g}) or the weight "
                    "of the regularizer, or set clip"
                )
            run.learn(loss, len(batch), parameters)
            total += value * len(batch)
            n_seen += len(batch)
            if run.callbacks.awaits("on_batch_end"):
                fields = {"epoch": run.epoch, "batch": number, "n_samples": len(batch), "loss": value}
                cut = run.ended(run.callbacks.tell("on_batch_end", fields))
                if cut:
                    break
        run.step(parameters)
        return total / max(n_seen, 1), cut

    @torch.no_grad()
    def _mean_score(self, data: CrowdData, samples: Tensor) -> float:
        """How well some samples are predicted."""
        self._parts_or_fail().eval()
        total = weight = 0.0
        for batch in data.batches(samples, PREDICTED, self._on):
            score, of = self._judged(batch, self._forward(batch.x))
            total, weight = total + float(score), weight + float(of)
        return total / weight

    # ----------------------------------------------------------------------------------------- checkpoints

    def _learnt(self) -> dict[str, Any]:
        """All that training changes."""
        return {"parts": self._parts_or_fail().state_dict(), "state": self._state()}

    def _owner(self, data: CrowdData) -> Owner:
        """Whose training it is, for its checkpoints."""
        settings = {name: value for name, value in self.get_params().items() if name not in _FREE}
        if isinstance(self.schedule, str):  # which ends with the last epoch
            settings["max_epochs"] = self.max_epochs
        return Owner.of(type(self).__name__, self._workers, self._classes, data, settings)

    def _restore(self, run: Run, found: dict[str, Any]) -> None:
        """Go back to where a checkpoint left a training."""
        try:
            self._parts_or_fail().load_state_dict(found["now"]["parts"])
            self._set_state(found["now"]["state"])
            run.load(found)
        except RuntimeError as error:
            raise ValueError(f"{self.checkpoint} is of networks of other shapes than these: {error}") from error
        except (LookupError, TypeError) as error:
            raise FileFormatError(f"the checkpoint {self.checkpoint} lacks something: {error}") from error

    # ------------------------------------------------------------------------------------------ prediction

    def _parts_or_fail(self) -> nn.ModuleDict:
        if self._parts is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call {self._call} first")
        return self._parts

    def _fitted(self) -> nn.ModuleDict:
        parts = self._parts_or_fail()
        if not self._history:
            raise NotFittedError(f"the last fit of this {type(self).__name__} did not end; call {self._call} again")
        return parts

    def __sklearn_is_fitted__(self) -> bool:
        return self._parts is not None and bool(self._history)

    @torch.no_grad()
    def _mapped(self, features: Features, rows: Tensor, make: Callable[[Any], Tensor]) -> Array:
        """What a function of the trained parts makes of some rows, (n, ...), in batches."""
        self._parts_or_fail().eval()
        outputs = []
        for x in with_loader(features, self.loader).stream(rows.split(PREDICTED), self._on):
            with explain_errors(self._network, x):
                outputs.append(make(x).cpu().double())
        return torch.cat(outputs).numpy()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was learned to a file: weights and names, settings that are numbers or text, and no code.

        ``mh.load(path, ...)`` reads it back. Networks that were arguments are given again there, built alike
        (``mh.load(path, backbone=network)``); settings that are objects, such as `start_from`, matter to training alone
        and are not kept. Predictions are the same to the bit on the same machine.
        """
        files.save(self, path)

    @property
    def network_(self) -> nn.Module:
        """The trained network that predicts classes, in evaluation mode."""
        self._fitted()
        return self._network

    @property
    def history_(self) -> dict[str, Array]:
        """Loss, learning rate and, with `validation`, held-out score of each epoch, by name."""
        self._fitted()
        return {name: np.array([record[name] for record in self._history]) for name in self._history[0]}


class CrowdNetworkEstimator(NetworkEstimator, KnowsConfusion):
    """A network estimator that also learns about the workers: a subclass keeps `_confusion` and `_prior`."""

    _saved_state: ClassVar[dict[str, bool]] = NetworkEstimator._saved_state | {"_confusion": False, "_prior": False}
    _confusion: Array
    _prior: Array

    @property
    def confusion_(self) -> Array:
        """Confusion matrix of each worker, (n_workers, n_classes true, n_classes observed); rows sum to one."""
        self._fitted()
        return self._confusion

    @property
    def prior_(self) -> Array:
        """Class prior: mean prediction over the training samples or, where it is known, their truth, (n_classes,)."""
        self._fitted()
        return self._prior

    @property
    def skills_(self) -> Array:
        """Expected share of right answers of each worker, (n_workers,)."""
        return metrics.skill(self.confusion_, self.prior_)


def checked_logits(logits: Tensor, n: int, what: str) -> Tensor:
    """Check that there are `n` logits per row, and return them in full precision; `what` names their source."""
    if logits.ndim != 2 or logits.shape[1] != n:
        raise ValueError(f"{what}, (n, {n}), not of shape {tuple(logits.shape)}")
    return logits.float()
