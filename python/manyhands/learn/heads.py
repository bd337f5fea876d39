"""Worker models: PyTorch modules that map class probabilities to answer probabilities.

All worker parameters are rows of a `WorkerTable`; a batch only touches the rows of its workers.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands._base.checks import check_choice, check_number
from manyhands._train.large_tables import WorkerTable as WorkerTable
from manyhands._train.probabilities import log_softmax
from manyhands.learn.losses import log_mixture

Change = Callable[[Tensor], Tensor]
#: Softplus of 1 and of −5: the initialization 6I − 5 of the paper is close to the identity.
_START = (1.0, -5.0)


def _near_identity(n_classes: int) -> Tensor:
    """Return 6I − 5, whose softplus is close to the identity."""
    return torch.full((n_classes, n_classes), _START[1]).fill_diagonal_(_START[0])


class WorkerModel(nn.Module):
    """Distribution of workers' answers given class probabilities.

    Subclasses implement `answers` and `set_confusion`; models with explicit matrices derive from `ConfusionModel`.
    """

    def __init__(self, n_workers: int, n_classes: int) -> None:
        super().__init__()
        self.n_workers, self.n_classes = n_workers, n_classes

    @abstractmethod
    def answers(self, log_probs: Tensor, worker: Tensor) -> Tensor:
        """Log-probabilities of all answers, (n, n_classes), for class log-probabilities `log_probs` (n, n_classes)."""

    @abstractmethod
    def set_confusion(self, confusion: Tensor) -> None:
        """Initialize from confusion matrices, (n_workers, true, observed), as closely as the model allows."""

    def log_likelihood(self, log_probs: Tensor, worker: Tensor, label: Tensor) -> Tensor:
        """Log-probability of the given answers, (n,)."""
        return self.answers(log_probs, worker).gather(1, label[:, None])[:, 0]

    def confusion(self) -> Tensor:
        """Answer probabilities of each worker for a known class, (n_workers, true, observed); rows sum to one."""
        k = self.n_classes
        device = next(self.parameters()).device
        certain = torch.eye(k, device=device).clamp_min(torch.finfo(torch.float32).tiny).log()
        parts = []
        with torch.no_grad():
            for part in torch.arange(self.n_workers, device=device).split(max(1, (1 << 20) // k**2)):
                class_log_probs = certain.repeat(len(part), 1)
                parts.append(self.answers(class_log_probs, part.repeat_interleave(k)).exp().reshape(-1, k, k))
        return torch.cat(parts)


def label_columns(matrices: Tensor, label: Tensor) -> Tensor:
    """Column of each annotation's label in its matrix, (n, n_classes), from (n, n_classes, n_classes)."""
    return matrices.gather(2, label[:, None, None].expand(-1, matrices.shape[1], 1))[:, :, 0]


class ConfusionModel(WorkerModel):
    """Worker models with explicit confusion matrices. Subclasses implement ``log_confusion``."""

    @abstractmethod
    def log_confusion(self, worker: Tensor) -> Tensor:
        """Log confusion matrices of some workers, (n, true, observed)."""

    def answers(self, log_probs: Tensor, worker: Tensor) -> Tensor:
        """Log-probabilities of all answers, (n, n_classes)."""
        return torch.logsumexp(log_probs[:, :, None] + self.log_confusion(worker), dim=1)

    def log_parts(self, worker: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-columns of the given answers and log-diagonals, both (n, n_classes).

        Matrices are evaluated here once per step, because they dominate the cost of a worker model.
        """
        some, pick, spread = self._unique_workers(worker, label)
        log_confusion = self.log_confusion(some)
        return pick(log_confusion), spread(log_confusion.diagonal(dim1=1, dim2=2))

    def _unique_workers(self, worker: Tensor, label: Tensor) -> tuple[Tensor, Change, Change]:
        """Return the workers to evaluate, and functions that select answer columns and worker rows from their matrices.

        If there are fewer workers than answers, each worker's matrix is evaluated once instead of once per answer.
        """
        if self.n_workers < len(worker):
            every = torch.arange(self.n_workers, device=worker.device)
            return every, lambda matrices: matrices[worker, :, label], lambda rows: rows[worker]
        return worker, lambda matrices: label_columns(matrices, label), lambda rows: rows

    def log_likelihood(self, log_probs: Tensor, worker: Tensor, label: Tensor) -> Tensor:
        """Log-probability of the given answers, (n,)."""
        return log_mixture(log_probs, self.log_parts(worker, label)[0])

    def confusion(self) -> Tensor:
        """Confusion matrices of all workers, (n_workers, true, observed)."""
        workers = torch.arange(self.n_workers, device=next(self.parameters()).device)
        with torch.no_grad():
            return torch.cat([self.log_confusion(part).exp() for part in workers.split(1 << 14)])


class FreeConfusion(ConfusionModel):
    """A free confusion matrix per worker, normalized by softplus or softmax of its rows.

    Starts at softplus(6I − 5) with normalized rows (Tanno et al. 2019), or at the same matrix for softmax. Stores
    workers · classes² numbers.
    """

    def __init__(self, n_workers: int, n_classes: int, *, link: Literal["softplus", "softmax"] = "softplus") -> None:
        super().__init__(n_workers, n_classes)
        check_choice("link", link, ("softplus", "softmax"))
        self.link = link
        start = _near_identity(n_classes)
        if link == "softmax":
            start = F.softplus(start).log()
        self.table = WorkerTable(n_workers, start)

    def log_confusion(self, worker: Tensor) -> Tensor:
        """Log confusion matrices of some workers, (n, true, observed)."""
        rows = self.table(worker)
        if self.link == "softmax":
            return F.log_softmax(rows, dim=2)
        # Far below zero, softplus equals the exponential, whose logarithm is the input and does not underflow.
        log_positive = torch.where(rows < -15, rows, F.softplus(rows.clamp_min(-15)).log())
        return F.log_softmax(log_positive, dim=2)

    def log_parts(self, worker: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-columns and log-diagonals without evaluating all other logarithms."""
        some, pick, spread = self._unique_workers(worker, label)
        rows = self.table(some)
        if self.link == "softmax":
            total = torch.logsumexp(rows, dim=2)
            return pick(rows) - spread(total), spread(rows.diagonal(dim1=1, dim2=2) - total)
        positive, tiny = F.softplus(rows), torch.finfo(rows.dtype).tiny
        total = positive.sum(dim=2).clamp_min(tiny).log()
        diagonal = positive.diagonal(dim1=1, dim2=2).clamp_min(tiny).log() - total
        return pick(positive).clamp_min(tiny).log() - spread(total), spread(diagonal)

    def set_confusion(self, confusion: Tensor) -> None:
        """Initialize from confusion matrices, (n_workers, true, observed)."""
        log_rows = confusion.clamp_min(1e-6).log()
        if self.link == "softplus":
            # Scaled like the default initialization, so that steps have the same effect; then inverse softplus.
            scaled = confusion.clamp_min(1e-6) * math.log1p(math.exp(_START[0]))
            log_rows = scaled + torch.log(-torch.expm1(-scaled))
        self.table.set(log_rows)


class OneCoin(ConfusionModel):
    """One accuracy per worker, with uniform errors. Stores one number per worker."""

    def __init__(self, n_workers: int, n_classes: int, *, accuracy: float = 0.9) -> None:
        super().__init__(n_workers, n_classes)
        self.table = WorkerTable(n_workers, torch.tensor([math.log(accuracy / (1 - accuracy))]))

    def log_confusion(self, worker: Tensor) -> Tensor:
        """Log confusion matrices of some workers, (n, true, observed)."""
        logit = self.table(worker)[:, :, None]
        right = torch.eye(self.n_classes, dtype=torch.bool, device=logit.device)
        wrong = F.logsigmoid(-logit) - math.log(max(self.n_classes - 1, 1))
        log_confusion = torch.where(right, F.logsigmoid(logit), wrong)
        return log_confusion if self.n_classes > 1 else torch.zeros_like(log_confusion)

    def set_confusion(self, confusion: Tensor) -> None:
        """Initialize from the mean diagonal of confusion matrices."""
        accuracy = confusion.diagonal(dim1=1, dim2=2).mean(dim=1).clamp(1e-4, 1 - 1e-4)
        self.table.set(torch.logit(accuracy))


class LowRankConfusion(ConfusionModel):
    """Shared logits plus a worker-specific mixture of `rank` shared patterns.

    Use it for many classes, where free matrices have more parameters than there are labels. Stores
    classes² · (1 + rank) + workers · rank numbers.
    """

    def __init__(self, n_workers: int, n_classes: int, *, rank: int = 4) -> None:
        super().__init__(n_workers, n_classes)
        check_number("rank", rank, least=1, whole=True)
        self.shared = nn.Parameter(F.softplus(_near_identity(n_classes)).log())
        # The first pattern is the overall accuracy.
        patterns = torch.randn(rank, n_classes, n_classes) / n_classes
        patterns[0] = torch.eye(n_classes)
        self.patterns = nn.Parameter(patterns)
        self.table = WorkerTable(n_workers, torch.zeros(rank))

    def log_confusion(self, worker: Tensor) -> Tensor:
        """Log confusion matrices of some workers, (n, true, observed)."""
        own = (self.table(worker) @ self.patterns.flatten(1)).reshape(-1, self.n_classes, self.n_classes)
        return F.log_softmax(self.shared + own, dim=2)

    def set_confusion(self, confusion: Tensor) -> None:
        """Initialize from confusion matrices: their mean log, and the best `rank` patterns of the deviations."""
        logs = confusion.clamp_min(1e-4).log()
        mean = logs.mean(dim=0)
        rank = len(self.patterns)
        left, scale, right = torch.linalg.svd((logs - mean).flatten(1), full_matrices=False)
        keep = min(rank, len(scale))
        with torch.no_grad():
            self.shared.copy_(mean)
            self.patterns[:keep] = (scale[:keep, None].sqrt() * right[:keep]).reshape(-1, *mean.shape)
            rows = torch.zeros(self.n_workers, rank, dtype=logs.dtype)
            rows[:, :keep] = left[:, :keep] * scale[:keep].sqrt()
        self.table.set(rows)


class EmbeddedConfusion(ConfusionModel):
    """A small network that maps a worker embedding to confusion logits.

    Stores workers · `size` numbers, plus the network.
    """

    def __init__(self, n_workers: int, n_classes: int, *, size: int = 8, hidden: int = 32) -> None:
        super().__init__(n_workers, n_classes)
        check_number("size", size, least=1, whole=True)
        self.shared = nn.Parameter(F.softplus(_near_identity(n_classes)).log())
        self.table = WorkerTable(n_workers, torch.zeros(size))
        self.table.set(torch.randn(n_workers, size) / math.sqrt(size))
        self.network = nn.Sequential(nn.Linear(size, hidden), nn.Tanh(), nn.Linear(hidden, n_classes**2))
        # All workers start with the shared matrix.
        last = self.network[2]
        assert isinstance(last, nn.Linear)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)

    def log_confusion(self, worker: Tensor) -> Tensor:
        """Log confusion matrices of some workers, (n, true, observed)."""
        own = self.network(self.table(worker)).reshape(-1, self.n_classes, self.n_classes)
        return F.log_softmax(self.shared + own, dim=2)

    def set_confusion(self, confusion: Tensor) -> None:
        """Initialize from the mean of confusion matrices; embeddings differentiate workers during training."""
        with torch.no_grad():
            self.shared.copy_(confusion.mean(dim=0).clamp_min(1e-4).log())


class CrowdWeights(WorkerModel):
    """The crowd layer of Rodrigues and Pereira (2018): answers are a softmax of transformed class probabilities.

    `kind` is a matrix per worker (``"MW"``), a weight per class (``"VW"``), a bias per class (``"VB"``), or both
    (``"VW-B"``), starting at the identity. Stores workers · classes², · classes, · classes and 2 · classes numbers.
    """

    def __init__(self, n_workers: int, n_classes: int, *, kind: Literal["MW", "VW", "VB", "VW-B"] = "MW") -> None:
        super().__init__(n_workers, n_classes)
        check_choice("kind", kind, ("MW", "VW", "VB", "VW-B"))
        self.kind = kind
        one, zero = torch.ones(n_classes), torch.zeros(n_classes)
        starts = {"MW": torch.eye(n_classes), "VW": one, "VB": zero, "VW-B": torch.stack([one, zero])}
        self.table = WorkerTable(n_workers, starts[kind])

    def answers(self, log_probs: Tensor, worker: Tensor) -> Tensor:
        """Log-probabilities of each possible answer, (n, n_classes)."""
        probs, rows = log_probs.exp(), self.table(worker)
        if self.kind == "MW":
            activation = (probs[:, :, None] * rows).sum(dim=1)
        elif self.kind == "VW":
            activation = probs * rows
        elif self.kind == "VB":
            activation = probs + rows
        else:
            activation = probs * rows[:, 0] + rows[:, 1]
        return log_softmax(activation)

    def set_confusion(self, confusion: Tensor) -> None:
        """Initialize from log confusion matrices, for kind ``"MW"`` only (Cao et al. 2019, Eq. 2)."""
        if self.kind != "MW":
            raise ValueError(
                f'kind="{self.kind}" has no matrix that could start from confusion matrices; omit start_from, or pass '
                'kind="MW"'
            )
        self.table.set(confusion.clamp_min(1e-6).log())
