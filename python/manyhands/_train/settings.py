"""How to train: the settings that all learners share, and small pieces of the loop."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypedDict

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from manyhands._train.callbacks import Callback, EpochCallback
from manyhands.categorical.base import Aggregator

Schedule = Literal["cosine", "step"] | Callable[[torch.optim.Optimizer], Any] | None
Optimizer = Literal["adam", "adamw", "sgd"]
#: One that is built in, or a function from groups of parameters to an optimizer, or several.
OptimizerSetting = Optimizer | Callable[[list[dict[str, Any]]], torch.optim.Optimizer | Sequence[torch.optim.Optimizer]]
Reduction = Literal["label", "sample", "worker"]
Precision = Literal["float32", "bfloat16", "float16"]
Start = Aggregator | npt.NDArray[np.floating[Any]] | None


class TrainingOptions(TypedDict, total=False):
    """The types of what :class:`Training` lists, for those who check and complete calls."""

    max_epochs: int
    batch_size: int
    lr: float
    worker_lr: float | None
    optimizer: OptimizerSetting
    weight_decay: float
    schedule: Schedule
    clip: float | None
    accumulate: int
    reduction: Reduction
    validation: float
    patience: int | None
    precision: Precision
    compile: bool | Mapping[str, Any]
    device: str | torch.device
    distributed: bool
    loader: Mapping[str, Any] | None
    seed: int
    start_from: Start
    callbacks: Sequence[EpochCallback | Callback]
    checkpoint: str | os.PathLike[str] | None


class Training:
    """How to train: what every learner takes by keyword.

    Parameters
    ----------
    max_epochs, batch_size : int, default 50, 64
        Passes over the samples, and samples a step.
    lr, worker_lr
        Learning rate of the backbone, and of all else; None for the same. What belongs to a worker moves only in
        batches with the worker's labels, so it needs larger steps.
    optimizer, weight_decay
        ``"adam"``, ``"adamw"`` or ``"sgd"`` (momentum 0.9). Weights decay in the backbone only. Or a function that is
        given groups of parameters (dictionaries with ``name``, ``params``, ``lr`` and ``weight_decay``) and returns an
        optimizer, or several: ``optimizer=lambda groups: torch.optim.RMSprop(groups)``. Large tables of workers, whose
        gradients are sparse, keep an optimizer of their own.
    schedule
        How the rates change: None, ``"cosine"`` to zero over `max_epochs`, ``"step"`` (a tenth at one half and at three
        quarters), or a function from optimizer to scheduler, stepped after each epoch. A ``ReduceLROnPlateau`` is
        stepped with the held-out score or, where none is held out, the training loss; both are turned to suit its mode,
        and its threshold is absolute: ``schedule=lambda optimizer: ReduceLROnPlateau(optimizer, patience=10)``.
    clip : float or None, default None
        Greatest norm of the gradient; None for any.
    accumulate : int, default 1
        Batches whose gradients, weighed by their samples, make a step: as one batch that many times as large where
        losses are means over samples, and in the memory of one.
    reduction : str, default "label"
        Weight of an annotation's loss: each alike (``"label"``), alike by sample (``"sample"``), or alike by worker
        (``"worker"``).
    validation, patience
        Share of samples held out, and epochs without a better score on them until training ends; the best epoch's
        parameters are kept. The score is that of the crowd's held-out labels: no clean ones are needed, and nothing
        else is learned from them before the training has ended. 0 keeps the last epoch.
    precision : str, default "float32"
        Of the backbone: ``"float32"``, or mixed with ``"bfloat16"`` or ``"float16"``, which are
        rejected on processors where they would end the process.
    compile : bool or mapping, default False
        Whether ``torch.compile`` makes the backbone faster, or its options, such as ``{"mode": "reduce-overhead"}``. A
        network that learners take apart is compiled in parts if these are named ``trunk`` and ``head``.
    device : str or torch.device, default "auto"
        ``"auto"``, or any that torch knows and finds.
    distributed : bool, default False
        Whether the processes of ``torch.distributed`` share the training, each with the same data and settings: every
        batch is divided among them, and the result is that of one process but for rounding and what is random in
        networks. Layers that remember their inputs see their own part alone.
    loader : mapping or None, default None
        Options of the ``DataLoader`` that fetches X, such as ``{"num_workers": 4, "pin_memory": True}``, or
        ``collate_fn`` for items of a ``Dataset``; None to fetch it as it is. What is random in a dataset follows from
        `seed`, whatever the number of processes.
    seed : int, default 0
        Of everything random; the same seed gives the same result on a CPU.
    start_from : Aggregator, ndarray or None, default None
        An aggregator, fitted or not, whose posteriors or confusion matrices are the start. One that is not yet is
        fitted without the held-out labels. Or confusion matrices that are known, (n_workers, n_classes, n_classes), in
        the order of ``votes.workers`` and ``votes.classes``, with the posteriors that follow from them and an even
        prior.
    callbacks : sequence, default ()
        Functions called as ``callback(learner, record)`` after each epoch, and :class:`~manyhands.learn.Callback`
        objects, called at all moments that they have methods for; one that returns True ends the training.
    checkpoint : str, path or None, default None
        File written after each epoch, from which ``fit(..., resume=True)`` goes on. One that is there already is
        written over only by ``fit(..., overwrite=True)``. It holds digests of the names of workers and classes and of
        the annotations, and the settings: another crowd's is rejected, and so are other settings.
    """

    max_epochs: int = 50
    batch_size: int = 64
    lr: float = 1e-3
    worker_lr: float | None = 1e-2
    optimizer: OptimizerSetting = "adam"
    weight_decay: float = 0.0
    schedule: Schedule = None
    clip: float | None = None
    accumulate: int = 1
    reduction: Reduction = "label"
    validation: float = 0.0
    patience: int | None = None
    precision: Precision = "float32"
    compile: bool | Mapping[str, Any] = False
    device: str | torch.device = "auto"
    distributed: bool = False
    loader: Mapping[str, Any] | None = None
    seed: int = 0
    start_from: Start = None
    callbacks: Sequence[EpochCallback | Callback] = ()
    checkpoint: str | os.PathLike[str] | None = None


def setting(name: str, default: Any, kind: str | None = None) -> inspect.Parameter:
    """A parameter that is taken by keyword, of a kind that signatures show."""
    annotation = inspect.Parameter.empty if kind is None else kind
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


TRAINING = [setting(name, getattr(Training, name), kind) for name, kind in Training.__annotations__.items()]
#: Settings that mean something only to those who learn from a crowd alone.
CROWD_ONLY = frozenset({"worker_lr", "reduction", "start_from"})
OPTIMIZERS = ("adam", "adamw", "sgd")
SCHEDULES = ("cosine", "step")
REDUCTIONS = ("label", "sample", "worker")
PRECISIONS = ("float32", "bfloat16", "float16")


DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def find_device(asked: str | torch.device) -> torch.device:
    """The device asked for, tried; ``"auto"`` is an accelerator where there is one."""
    if asked != "auto":
        try:
            torch.zeros(1, device=asked).item()
        except (RuntimeError, NotImplementedError, AssertionError) as error:
            reason = str(error).partition("\n")[0]
            raise ValueError(
                f'device="{asked}" cannot be used here ({reason}); device="auto" takes an accelerator where there is '
                "one, and else the processor"
            ) from error
        return torch.device(asked)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


@contextmanager
def explain_errors(network: nn.Module, x: Any) -> Iterator[None]:
    """Raise an error about X where torch rejects the input of a network."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, IndexError, TypeError) as error:
        if isinstance(error, TypeError) and not _is_about_arguments(error):
            raise
        text = f"the network does not take X as it is: a batch of {_describe_input(x)} goes to {_first_layer(network)}"
        if isinstance(x, Tensor) and not x.is_floating_point():
            text += "; whole numbers stay what they are, since they may be token ids: make X floats if they are not"
        raise ValueError(f"{text} (torch: {error})") from error


def _is_about_arguments(error: TypeError) -> bool:
    return any(phrase in str(error) for phrase in ("unexpected keyword argument", "missing", "positional argument"))


def _describe_input(x: Any) -> str:
    if isinstance(x, Mapping):
        return "keyword arguments " + ", ".join(f"{name} of {_describe_input(value)}" for name, value in x.items())
    if not isinstance(x, Tensor):
        return type(x).__name__
    return f"shape {tuple(x.shape)} and type {str(x.dtype).removeprefix('torch.')}"


def _first_layer(network: nn.Module) -> nn.Module:
    """The first layer that has something to learn, or the network itself."""
    layers = (layer for layer in network.modules() if any(True for _ in layer.parameters(recurse=False)))
    return next(layers, network)


@contextmanager
def temporary_seed(seed: int, device: torch.device) -> Iterator[None]:
    """Everything random follows from the seed, and the caller's own randomness is as before afterwards."""
    cuda = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        torch.manual_seed(seed)
        yield


def clip_gradients(parameters: list[nn.Parameter], most: float) -> None:
    """Scale gradients down to a common norm; torch's own function does not take sparse ones."""
    gradients = [p.grad.coalesce() if p.grad.is_sparse else p.grad for p in parameters if p.grad is not None]
    values = [g.values() if g.is_sparse else g for g in gradients]
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(v) for v in values]))
    factor = (most / (norm + 1e-6)).clamp_max(1.0)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
        (gradient.values() if gradient.is_sparse else gradient).mul_(factor)
