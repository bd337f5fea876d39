"""Worker models: PyTorch modules that map class probabilities to answer probabilities.

All worker parameters are rows of a `WorkerTable`; a batch only touches the rows of its workers.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Literal

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


class TaxonomyConfusion(ConfusionModel):
    """Confusion along a taxonomy of the classes: the probability of the right branch at each branching.

    The true class is a leaf. Going down from the root, a worker takes the right branch with a probability per worker
    and branching, and otherwise names a leaf of another branch: each other branch is as likely, and so is each leaf
    below it. Stores one number per worker and branching instead of classes².

    Parameters
    ----------
    n_workers : int
        Number of workers.
    paths : list of tuples
        For each class, the names of the nodes above it, from the top down. Classes below the same node share its
        whole path.
    """

    above: Tensor
    last: Tensor
    rest: Tensor
    below: Tensor

    def __init__(self, n_workers: int, paths: Sequence[tuple[Any, ...]], *, accuracy: float = 0.9) -> None:
        k = len(paths)
        super().__init__(n_workers, k)
        # Each class is a node of its own below its path; branchings are nodes with more than one branch.
        full = [(*path, ("class", code)) for code, path in enumerate(paths)]
        branches: dict[tuple[Any, ...], dict[Any, int]] = {}
        for path in full:
            for depth, step in enumerate(path):
                leaves = branches.setdefault(path[:depth], {})
                leaves[step] = leaves.get(step, 0) + 1
        nodes = {node: place for place, node in enumerate(n for n, b in branches.items() if len(b) > 1)}
        n_nodes = max(len(nodes), 1)
        # Whether a branching lies above a class; the branching at which two classes part; and what then remains.
        above, below = torch.zeros(k, n_nodes), torch.zeros(n_nodes, n_nodes)
        last, rest = torch.zeros(k, k, dtype=torch.int64), torch.zeros(k, k)
        for i, path in enumerate(full):
            own = [nodes[path[:depth]] for depth in range(len(path)) if path[:depth] in nodes]
            above[i, own] = 1.0
            for place, node in enumerate(own):
                below[node, own[:place]] = 1.0
            for j, other in enumerate(full):
                if i != j:
                    depth = next(d for d, (a, b) in enumerate(zip(path, other, strict=False)) if a != b)
                    parting = path[:depth]
                    last[i, j] = nodes[parting]
                    sides = branches[parting]
                    rest[i, j] = -math.log((len(sides) - 1) * sides[other[depth]])
        for name, value in (("above", above), ("last", last), ("rest", rest), ("below", below)):
            self.register_buffer(name, value)
        self.table = WorkerTable(n_workers, torch.full((n_nodes,), math.log(accuracy / (1 - accuracy))))

    def log_confusion(self, worker: Tensor) -> Tensor:
        """Log confusion matrices of some workers, (n, true, observed)."""
        logit = self.table(worker)
        right, wrong = F.logsigmoid(logit), F.logsigmoid(-logit)
        # Right at all branchings above the one where the classes part, and wrong there.
        parting = right @ self.below.T + wrong
        k = self.n_classes
        apart = parting[:, self.last.flatten()].reshape(-1, k, k) + self.rest
        diagonal = right @ self.above.T
        return torch.where(torch.eye(k, dtype=torch.bool, device=logit.device), diagonal[:, :, None], apart)

    def set_confusion(self, confusion: Tensor) -> None:
        """Initialize from confusion matrices: the mean share of answers on the right side of each branching."""
        k = self.n_classes
        n_nodes = self.above.shape[1]
        # Branchings that a pair of classes passes on the right side: those above the parting, or all of the class.
        passes = self.below[self.last]
        passes[torch.arange(k), torch.arange(k)] = self.above
        fails = F.one_hot(self.last, n_nodes).to(confusion) * (1 - torch.eye(k).to(confusion))[:, :, None]
        right = torch.einsum("mkl,kln->mn", confusion, passes.to(confusion))
        wrong = torch.einsum("mkl,kln->mn", confusion, fails)
        share = (right / (right + wrong).clamp_min(1e-12)).clamp(1e-4, 1 - 1e-4)
        self.table.set(torch.logit(share))


def taxonomy_paths(taxonomy: Mapping[Any, Any], classes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the nodes above each class, from the top down; raise for taxonomies that are not trees of the classes."""
    if not isinstance(taxonomy, Mapping):
        raise TypeError(f"taxonomy must be a mapping from class or group to its group, not {type(taxonomy).__name__}")
    class_set = set(classes)
    for child, parent in taxonomy.items():
        if not isinstance(parent, Hashable):
            raise TypeError(
                f"taxonomy maps {child!r} to {parent!r}, which cannot be the name of a group; map each class to its "
                "group, not each group to its classes"
            )
        if parent in class_set:
            raise ValueError(f"taxonomy puts {child!r} below {parent!r}, which is a class; groups need other names")
    missing = [name for name in classes if name not in taxonomy]
    if missing:
        raise ValueError(f"taxonomy has no group for class {missing[0]!r}; map it to a group, or to None for none")
    unknown = [child for child in taxonomy if child not in class_set and child not in set(taxonomy.values())]
    if unknown:
        raise ValueError(f"taxonomy names {unknown[0]!r}, which is neither a class of the votes nor a group")
    paths = []
    for name in classes:
        path: list[Any] = []
        parent = taxonomy[name]
        while parent is not None:
            if parent in path:
                raise ValueError(f"taxonomy has a cycle through {parent!r}")
            path.append(parent)
            parent = taxonomy.get(parent)
        paths.append(tuple(reversed(path)))
    return paths


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
