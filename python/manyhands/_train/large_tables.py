"""Tables of which a batch touches few rows, and Adam for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands import _core

#: Numbers in a table from which on its gradients are sparse: a dense step would write them all for the few that
#: changed.
_LAZY_FROM = 1 << 17


class WorkerTable(nn.Module):
    """A row of numbers for each worker, all rows alike at first.

    Large tables have sparse gradients: a step costs the workers in the batch, not the crowd.
    """

    def __init__(self, n_workers: int, row: Tensor) -> None:
        super().__init__()
        self.shape = row.shape
        self.weight = nn.Parameter(row.detach().reshape(1, -1).repeat(n_workers, 1))
        self.sparse = self.weight.numel() >= _LAZY_FROM

    def forward(self, worker: Tensor) -> Tensor:
        """The rows of some workers, (n, ...)."""
        rows = F.embedding(worker, self.weight, sparse=self.sparse)
        return rows.reshape(len(worker), *self.shape)

    def set(self, rows: Tensor) -> None:
        """Give every worker its row, (n_workers, ...)."""
        with torch.no_grad():
            self.weight.copy_(rows.reshape(self.weight.shape))


class LazyAdam(torch.optim.Optimizer):
    """Adam on the rows that have a gradient; the others, and their averages, stay as they are.

    The same numbers as ``torch.optim.SparseAdam``. That one does its arithmetic on sparse tensors, each of which it
    sorts and checks; here each row of a step is fetched once, by the compiled core where the table is within its reach.
    Time a step O(rows touched · their length), memory two numbers for each of the table's.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Take a step along the gradients, which must be sparse."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is not None:
                    self._update(table, group)
        return loss

    def _update(self, table: Tensor, group: dict[str, Any]) -> None:
        state = self.state[table]
        if not state:
            state.update(step=torch.zeros(()), mean=torch.zeros_like(table), square=torch.zeros_like(table))
        state["step"] += 1
        tables = (table, state["mean"], state["square"])
        step = {"rate": group["lr"], "betas": group["betas"], "eps": group["eps"], "number": int(state["step"])}
        update = _in_core if table.device.type == "cpu" and table.dtype == torch.float32 else _in_torch
        update(tables, table.grad, **step)  # type: ignore[arg-type]


def _in_core(tables: Sequence[Tensor], gradient: Tensor, **step: Any) -> None:
    """A step by the compiled core, which fetches each row once."""
    table, mean, square = (each.numpy(force=True) for each in tables)
    rows, values = gradient._indices()[0], gradient._values().contiguous()
    _core.adam_rows(table, mean, square, rows.numpy(), values.numpy(), **step)
    torch.autograd.graph.increment_version(tables)


def _in_torch(
    tables: Sequence[Tensor], gradient: Tensor, *, rate: float, betas: tuple[float, float], eps: float, number: int
) -> None:
    """The same where the core cannot go: on accelerators, and in other precisions."""
    table, mean, square = tables
    rows, gradient = _added_up(gradient)
    first, second = betas
    own_mean, own_square = mean.index_select(0, rows), square.index_select(0, rows)
    # Added where they stand, which is quicker than to write them back.
    towards, wider = (gradient - own_mean).mul_(1 - first), (gradient * gradient).sub_(own_square).mul_(1 - second)
    mean.index_add_(0, rows, towards)
    square.index_add_(0, rows, wider)
    own_mean, own_square = own_mean.add_(towards), own_square.add_(wider)
    rate *= (1 - second**number) ** 0.5 / (1 - first**number)
    table.index_add_(0, rows, own_mean.div_(own_square.sqrt_().add_(eps)).mul_(-rate))


def _added_up(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """The rows that have a gradient, each once, and their gradients."""
    if gradient.is_coalesced():
        return gradient.indices()[0], gradient.values()
    rows, place = torch.unique(gradient._indices()[0], return_inverse=True)
    values = gradient._values()
    return rows, values.new_zeros(len(rows), values.shape[1]).index_add_(0, place, values)
