"""How to train: the settings that all learners share, and small pieces of the loop."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from manyhands.base import Aggregator

#: Called after each epoch with the learner and the epoch's record.
EpochCallback = Callable[[Any, dict[str, float]], object]


class Training:
    """How to train: what every learner takes by keyword.

    Parameters
    ----------
    max_epochs, batch_size
        Passes over the samples, and samples a step.
    lr, worker_lr
        Learning rate of the backbone, and of all else; None for the same. What belongs to a worker moves only in
        batches with the worker's labels, so it needs larger steps.
    optimizer, weight_decay
        ``"adam"``, ``"adamw"`` or ``"sgd"`` (momentum 0.9). Weights decay in the backbone only.
    schedule
        How the rates change: None, ``"cosine"`` to zero over `max_epochs`, ``"step"`` (a tenth at one half and at three
        quarters), or a function from optimiser to scheduler.
    clip
        Greatest norm of the gradient; None for any.
    reduction
        Weight of an annotation's loss: each alike (``"label"``), alike by sample (``"sample"``), or alike by worker
        (``"worker"``).
    validation, patience
        Share of samples held out, and epochs without a better score on them until training ends; the best epoch's
        parameters are kept. The score is that of the crowd's held-out labels: no clean ones are needed. 0 keeps the
        last epoch.
    precision
        Of the backbone: ``"float32"``, or mixed with ``"bfloat16"`` or ``"float16"``.
    device
        ``"auto"``, or any that torch knows.
    seed
        Of everything random; the same seed gives the same result on a CPU.
    start_from
        An aggregator, fitted or not, whose posteriors or confusion matrices are the start.
    callbacks
        Functions called as ``callback(learner, record)`` after each epoch; one that returns True ends the training.
    checkpoint
        File written after each epoch, from which ``fit(..., resume=True)`` goes on.
    """

    max_epochs: int = 50
    batch_size: int = 64
    lr: float = 1e-3
    worker_lr: float | None = 1e-2
    optimizer: str = "adam"
    weight_decay: float = 0.0
    schedule: str | Callable[[torch.optim.Optimizer], Any] | None = None
    clip: float | None = None
    reduction: str = "label"
    validation: float = 0.0
    patience: int | None = None
    precision: str = "float32"
    device: str | torch.device = "auto"
    seed: int = 0
    start_from: Aggregator | None = None
    callbacks: Sequence[EpochCallback] = ()
    checkpoint: str | os.PathLike[str] | None = None


def setting(name: str, default: Any) -> inspect.Parameter:
    """A parameter that is taken by keyword."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)


TRAINING = [setting(name, getattr(Training, name)) for name in Training.__annotations__]
#: Settings that mean something only to those who learn from a crowd alone.
CROWD_ONLY = frozenset({"worker_lr", "reduction", "start_from"})
OPTIMIZERS = ("adam", "adamw", "sgd")
SCHEDULES = ("cosine", "step")
REDUCTIONS = ("label", "sample", "worker")
PRECISIONS = ("float32", "bfloat16", "float16")


DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def find_device(asked: str | torch.device) -> torch.device:
    """The device asked for; ``"auto"`` is an accelerator where there is one."""
    if asked != "auto":
        return torch.device(asked)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
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
