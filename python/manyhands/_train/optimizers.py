"""Optimizers and schedules: the built-in ones, and those that a user's function makes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn

from manyhands._base.checks import plural
from manyhands._train.large_tables import LazyAdam, WorkerTable
from manyhands._train.settings import OptimizerSetting, Schedule

Groups = list[dict[str, Any]]
#: Devices whose optimizers of torch have a kernel that does a whole step.
_FUSED = ("cpu", "cuda")


def made_optimizers(
    parts: nn.ModuleDict,
    networks: Sequence[str],
    optimizer: OptimizerSetting,
    rates: tuple[float, float],
    weight_decay: float,
) -> list[torch.optim.Optimizer]:
    """Optimizers of dense gradients, and one for the tables whose gradients are sparse.

    `networks` are the parts that are whole networks, and `rates` theirs and that of all else.
    """
    lazy = [m.weight for m in parts.modules() if isinstance(m, WorkerTable) and m.sparse]
    skip = {id(p) for p in lazy}
    inner = [p for name in networks if name in parts for p in parts[name].parameters() if id(p) not in skip]
    handled = {id(p) for p in inner} | skip
    others = [p for p in parts.parameters() if id(p) not in handled]
    groups: Groups = [
        {"name": "networks", "params": inner, "lr": rates[0], "weight_decay": weight_decay},
        {"name": "workers", "params": others, "lr": rates[1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]] or groups[:1]
    if not any(len(group["params"]) for group in groups):
        raise ValueError("the networks have no parameters to learn")
    dense = _users(optimizer, groups) if callable(optimizer) else [_built_in(optimizer, groups, rates[0])]
    return dense if not lazy else [*dense, LazyAdam(lazy, lr=rates[1])]


def _built_in(optimizer: str, groups: Groups, lr: float) -> torch.optim.Optimizer:
    if optimizer == "sgd":
        return torch.optim.SGD(groups, lr=lr, momentum=0.9)
    # One pass over a parameter instead of ten: of a small network, a tenth of an epoch.
    fused = all(_can_be_fused(p) for group in groups for p in group["params"])
    kind = torch.optim.AdamW if optimizer == "adamw" else torch.optim.Adam
    return kind(groups, lr=lr, fused=fused)


def _can_be_fused(parameter: nn.Parameter) -> bool:
    return parameter.device.type in _FUSED and parameter.is_floating_point()


def _users(make: Any, groups: Groups) -> list[torch.optim.Optimizer]:
    """What a user's function makes of the groups, if it is optimizers of all that is to be learned, each once."""
    optimizer = make([dict(group, params=list(group["params"])) for group in groups])
    optimizers = list(optimizer) if isinstance(optimizer, Iterable) else [optimizer]
    for one in optimizers:
        if not isinstance(one, torch.optim.Optimizer):
            raise TypeError(f"optimizer= must return an optimizer of torch, or several; it returned {one!r}")
        if isinstance(one, torch.optim.LBFGS):
            raise ValueError("LBFGS computes the loss several times a step, which this loop does not; take another")
    trained = [p for one in optimizers for group in one.param_groups for p in group["params"]]
    ids = {id(p) for p in trained}
    if len(ids) < len(trained):
        raise ValueError("optimizer= gave a parameter to two optimizers; give each to one")
    left = sum(p.requires_grad and id(p) not in ids for group in groups for p in group["params"])
    if left:
        raise ValueError(
            f"optimizer= left out {plural(left, 'parameter')}; for those that must not change, set "
            "requires_grad_(False) in the network"
        )
    if ids - {id(p) for group in groups for p in group["params"]}:
        raise ValueError("optimizer= gave parameters that are not the learner's, which trains a copy of the network")
    return optimizers


def made_scheduler(optimizer: torch.optim.Optimizer, schedule: Schedule, n_epochs: int) -> Any:
    """The scheduler of an optimizer."""
    if callable(schedule):
        scheduler = schedule(optimizer)
        if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            # Scores may be negative, of which a share is meaningless.
            scheduler.threshold_mode = "abs"
        return scheduler
    if schedule == "cosine":
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_epochs)
    return torch.optim.lr_scheduler.MultiStepLR(optimizer, [n_epochs // 2, n_epochs * 3 // 4], gamma=0.1)
