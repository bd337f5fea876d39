"""A training shared among processes: each runs the networks on a part of every batch, and all know the whole.

What the networks make of the parts is gathered, so that every process computes the loss of the whole batch, whatever
loss it is: the crowd's part is the same everywhere and costs little. Gradients are then averaged. A process's own part
of the outputs counts as often as there are processes, so that the average is the gradient of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from manyhands._train.module_calls import each_tensor, n_rows


def check_distributed() -> None:
    """Reject where no processes know of one another."""
    if not (dist.is_available() and dist.is_initialized()):
        raise ValueError(
            "distributed=True shares a training among processes, but there is no group of them: start them with "
            "torchrun, and call torch.distributed.init_process_group first"
        )


class Ranks:
    """The processes that share a training."""

    def __init__(self, device: torch.device) -> None:
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self._device = device
        self._random = torch.Generator()

    @property
    def first(self) -> bool:
        """Whether this is the one that writes files and reports."""
        return self.rank == 0

    def agree(self, known: Any) -> None:
        """Reject processes that are not about the same training."""
        replies: list[Any] = [None] * self.world
        dist.all_gather_object(replies, known)
        other = next((rank for rank, one in enumerate(replies) if one != replies[0]), None)
        if other is not None:
            raise ValueError(
                f"process {other} has other votes or settings than process 0: all that share a training need the same"
            )

    @torch.no_grad()
    def begin(self, parts: nn.Module) -> None:
        """Go on everywhere with the parts of the first process, and what their layers remember of inputs."""
        for value in [*parts.parameters(), *parts.buffers()]:
            dist.broadcast(value, 0)

    def reseed(self, seed: int) -> None:
        """Let what is random in networks follow from a seed."""
        self._random.manual_seed(seed)

    def any(self, asked: bool) -> bool:
        """Whether any process asks for something."""
        flag = torch.tensor([int(asked)], device=self._device)
        dist.all_reduce(flag, dist.ReduceOp.MAX)
        return bool(flag.item())

    def share(self, called: Callable[[Any], Tensor], x: Any) -> Tensor:
        """Run a part of the rows here, and know what the others make of theirs."""
        n = n_rows(x)
        if n < self.world:
            return called(x)
        bounds = [n * rank // self.world for rank in range(self.world + 1)]
        own = each_tensor(x, lambda tensor: tensor[bounds[self.rank] : bounds[self.rank + 1]])
        seed = int(torch.randint(1 << 31, (), generator=self._random)) + self.rank
        # What is random in the networks differs between processes; in losses, it must not.
        with torch.random.fork_rng(devices=[self._device] if self._device.type == "cuda" else []):
            torch.manual_seed(seed)
            result = called(own)
        gathered: Tensor = _Gathered.apply(result, bounds, self.rank)
        return gathered

    @torch.no_grad()
    def average(self, parameters: Iterable[nn.Parameter]) -> None:
        """Average gradients over processes. Sparse ones are of tables that only losses use, and are the same."""
        trainable = [p for p in parameters if p.requires_grad and not (p.grad is not None and p.grad.is_sparse)]
        used = torch.tensor([p.grad is not None for p in trainable], dtype=torch.int32, device=self._device)
        dist.all_reduce(used, dist.ReduceOp.MAX)
        trainable = [p for p, is_used in zip(trainable, used.tolist(), strict=True) if is_used]
        if not trainable:
            return
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in trainable])
        dist.all_reduce(flat)
        flat /= self.world
        for parameter, gradient in zip(trainable, flat.split([p.numel() for p in trainable]), strict=True):
            parameter.grad = gradient.reshape(parameter.shape)


class _Gathered(torch.autograd.Function):
    """The rows of all processes; gradients go to the own ones, as often as there are processes."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, bounds: list[int], rank: int) -> Tensor:
        ctx.bounds, ctx.rank = bounds, rank
        sizes = [stop - start for start, stop in pairwise(bounds)]
        if own.ndim == 0 or len(own) != sizes[rank]:
            raise ValueError(f"the network returns shape {tuple(own.shape)} for {sizes[rank]} rows, not a row for each")
        padded = own.new_zeros(max(sizes), *own.shape[1:])
        padded[: len(own)] = own
        buffers = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(buffers, padded)
        return torch.cat([part[:size] for part, size in zip(buffers, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        start, stop = ctx.bounds[ctx.rank : ctx.rank + 2]
        return gradients[0][start:stop] * (len(ctx.bounds) - 1), None, None
