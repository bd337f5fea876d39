"""A training under way: its optimizers and schedules, what it has come to, and what a file keeps of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from manyhands._train.callbacks import Callbacks
from manyhands._train.checkpoint import Owner
from manyhands._train.ranks import Ranks
from manyhands._train.settings import clip_gradients


@dataclass
class Run:
    """All that changes next to the parts, and goes into checkpoints with them."""

    optimizers: list[torch.optim.Optimizer]
    schedulers: list[Any]
    scaler: torch.amp.GradScaler
    shuffle: torch.Generator
    callbacks: Callbacks
    #: Batches whose gradients make a step, and the greatest norm of these.
    accumulate: int = 1
    clip: float | None = None
    #: Whose training it is; None if it leaves no checkpoints.
    owner: Owner | None = None
    #: Who shares it.
    ranks: Ranks | None = None
    epoch: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    best_score: float = -np.inf
    best_epoch: int = 0
    #: What had been learned after the epoch with the best score.
    best: dict[str, Any] | None = None
    #: Batches and samples whose gradients wait for a step.
    _waiting: list[int] = field(default_factory=list)

    def forget(self, parameters: list[nn.Parameter]) -> None:
        """Begin a batch: gradients of those that a step was made of are over."""
        if not self._waiting:
            for parameter in parameters:
                parameter.grad = None

    def learn(self, loss: Tensor, n_samples: int, parameters: list[nn.Parameter]) -> None:
        """Take the gradient of a batch's loss, and a step if enough of them are there."""
        if not loss.requires_grad:
            return
        self.scaler.scale(loss if self.accumulate == 1 else loss * n_samples).backward()
        self._waiting.append(n_samples)
        if len(self._waiting) == self.accumulate:
            self.step(parameters)

    def step(self, parameters: list[nn.Parameter]) -> None:
        """Take a step along the gradients that wait, if any do."""
        if not self._waiting:
            return
        if self.accumulate > 1:
            # The mean over samples, as of one large batch.
            for parameter in parameters:
                if parameter.grad is not None:
                    parameter.grad /= sum(self._waiting)
        self._waiting.clear()
        if self.ranks is not None:
            self.ranks.average(parameters)
        if self.clip is not None:
            for optimizer in self.optimizers:
                self.scaler.unscale_(optimizer)
            clip_gradients([p for p in parameters if p.grad is not None], self.clip)
        for optimizer in self.optimizers:
            if any(p.grad is not None for group in optimizer.param_groups for p in group["params"]):
                self.scaler.step(optimizer)
        self.scaler.update()

    def ended(self, asked: bool) -> bool:
        """Whether any process that shares the training asks for its end."""
        return asked if self.ranks is None else self.ranks.any(asked)

    def step_schedules(self, score: float) -> None:
        """End an epoch that came to a score, the larger the better."""
        for scheduler in self.schedulers:
            if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
                scheduler.step(score if scheduler.mode == "max" else -score)
            else:
                scheduler.step()

    def state(self) -> dict[str, Any]:
        """As it is kept in a file."""
        return {
            "progress": [self.epoch, self.best_score, self.best_epoch],
            "history": self.history,
            "best": self.best,
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "schedulers": [[type(scheduler).__name__, scheduler.state_dict()] for scheduler in self.schedulers],
            "scaler": self.scaler.state_dict(),
            "shuffle": self.shuffle.get_state(),
            "random": torch.get_rng_state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Take back what `state` gave."""
        self.epoch, self.best_score, self.best_epoch = state["progress"]
        self.history, self.best = state["history"], state["best"]
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        for scheduler, (kind, saved) in zip(self.schedulers, state["schedulers"], strict=True):
            if type(scheduler).__name__ != kind:
                raise ValueError(f"the checkpoint's schedule is a {kind}, not a {type(scheduler).__name__}")
            scheduler.load_state_dict(saved)
        self.scaler.load_state_dict(state["scaler"])
        self.shuffle.set_state(state["shuffle"])
        torch.set_rng_state(state["random"])
