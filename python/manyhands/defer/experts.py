"""Models of experts: what each would answer to a case, behind one interface, as ``nn.Module``s."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands._base.checks import check_choice, check_number
from manyhands._base.estimator import Array
from manyhands._train.batch import CrowdData
from manyhands._train.module_calls import run
from manyhands._train.trunk import n_features, split

Kind = Literal["auto", "separate", "conditional"]
#: Number of groups of experts, or that they are found by hierarchical clustering.
Groups = int | Literal["hierarchical"] | None

#: Experts from which on one conditional network stands for all of them.
CONDITIONAL_FROM = 8
#: Size of the embedding of an expert in the conditional model.
EMBEDDING = 8
_KMEANS_STEPS = 100
#: Differences in the cost of merges that do not count, as a share of the largest cost.
_JUMP = 0.01


class ExpertModels(nn.Module):
    """What experts answer, given features of the case."""

    def __init__(self, n_experts: int) -> None:
        super().__init__()
        self.n_experts = n_experts

    @abstractmethod
    def forward(self, x: Any) -> Tensor:
        """Log-probabilities of each expert's answers to each case, (n, n_experts, n_classes)."""

    @abstractmethod
    def scale(self, n_cases: int, n_answers: int) -> float:
        """What to multiply a sum over cases and experts with, so that it is a mean for each network."""


class SeparateExperts(ExpertModels):
    """A network each, as in the paper. Time and memory grow with the number of experts."""

    def __init__(self, network: nn.Module, n_experts: int) -> None:
        super().__init__(n_experts)
        self.networks = nn.ModuleList(copy.deepcopy(network) for _ in range(n_experts))

    def forward(self, x: Any) -> Tensor:
        """Log-probabilities of each expert's answers to each case, (n, n_experts, n_classes)."""
        return torch.stack([F.log_softmax(run(network, x).float(), dim=1) for network in self.networks], dim=1)

    def scale(self, n_cases: int, n_answers: int) -> float:
        """One over the number of cases."""
        return 1 / n_cases


class GroupedExperts(ExpertModels):
    """A network for each group of experts who do alike."""

    group: Tensor

    def __init__(self, network: nn.Module, group: npt.NDArray[np.int64]) -> None:
        super().__init__(len(group))
        self.register_buffer("group", torch.from_numpy(group))
        self.of_groups = SeparateExperts(network, int(group.max()) + 1)

    def forward(self, x: Any) -> Tensor:
        """Log-probabilities of each expert's answers to each case, (n, n_experts, n_classes)."""
        log_probs: Tensor = self.of_groups(x)[:, self.group]
        return log_probs

    def scale(self, n_cases: int, n_answers: int) -> float:
        """One over the number of cases and the mean size of a group."""
        return self.of_groups.n_experts / self.n_experts / n_cases


class ConditionalExperts(ExpertModels):
    """One network for all experts, distinguished by learned embeddings.

    Logits are those of the average expert plus a mixture of :data:`EMBEDDING` patterns that the network makes of the
    case, mixed by the expert's embedding: O(trunk + patterns · classes · experts) a case, and 8 numbers per expert.
    """

    def __init__(self, network: nn.Module, n_features: int, n_experts: int, n_classes: int) -> None:
        super().__init__(n_experts)
        self.trunk = copy.deepcopy(split(network)[0])
        self.average = nn.Linear(n_features, n_classes)
        self.patterns = nn.Linear(n_features, EMBEDDING * n_classes)
        # Divided by √experts: of all answers, an expert gave one part in that many, and moves by as much less per step.
        self.embedding = nn.Parameter(torch.randn(n_experts, EMBEDDING) / math.sqrt(EMBEDDING * n_experts))

    def forward(self, x: Any) -> Tensor:
        """Log-probabilities of each expert's answers to each case, (n, n_experts, n_classes)."""
        features = run(self.trunk, x)
        patterns = self.patterns(features).reshape(len(features), EMBEDDING, -1)
        own = (self.embedding * math.sqrt(self.n_experts)) @ patterns
        return F.log_softmax((self.average(features)[:, None] + own).float(), dim=2)

    def scale(self, n_cases: int, n_answers: int) -> float:
        """One over the number of answers: those who did not answer hardly move the one network."""
        return 1 / max(n_answers, 1)


def check_expert_models(kind: str, groups: int | str | None) -> None:
    """Raise for settings that `expert_models` cannot follow."""
    check_choice("experts", kind, ("auto", "separate", "conditional"))
    if isinstance(groups, str):
        check_choice("groups", groups, ("hierarchical",))
    elif groups is not None:
        check_number("groups", groups, least=1, whole=True)


def expert_models(
    network: nn.Module, data: CrowdData, accuracy: Array, kind: Kind = "auto", groups: Groups = None
) -> ExpertModels:
    """Models of experts, networks like the one given, of the kind asked for; `accuracy` is (n_experts, n_classes)."""
    m, k = accuracy.shape
    if isinstance(groups, str):
        return GroupedExperts(network, hierarchical(accuracy))
    if groups is not None:
        return GroupedExperts(network, group_experts(accuracy, min(groups, m)))
    if kind == "conditional" or (kind == "auto" and m >= CONDITIONAL_FROM):
        return ConditionalExperts(network, n_features(network, data), m, k)
    return SeparateExperts(network, m)


def group_experts(accuracy: Array, n_groups: int) -> npt.NDArray[np.int64]:
    """Groups of experts by their accuracy in each class, (n_experts,): k-means from centers far from one another."""
    centers = [int(accuracy.mean(axis=1).argmax())]
    while len(centers) < n_groups:
        away = _squares(accuracy, accuracy[centers]).min(axis=1)
        centers.append(int(away.argmax()))
    centres, group = accuracy[centers], np.full(len(accuracy), -1)
    for _ in range(_KMEANS_STEPS):
        nearest = _squares(accuracy, centres).argmin(axis=1)
        if (nearest == group).all():
            break
        group = nearest
        for code in np.unique(group):
            centres[code] = accuracy[group == code].mean(axis=0)
    # Groups that lost all experts have no network.
    return np.unique(group, return_inverse=True)[1]


def hierarchical(accuracy: Array) -> npt.NDArray[np.int64]:
    """Groups of experts by their accuracy in each class, (n_experts,): Ward's clustering, cut at the largest jump.

    The tree is cut before the merge whose cost is the largest multiple of the cost of the merge before it; differences
    below a hundredth of the largest cost do not count. O(n_experts³) time.
    """
    m = len(accuracy)
    groups = [[expert] for expert in range(m)]
    centres, sizes = accuracy.astype(np.float64), np.ones(m)
    costs: list[float] = []
    states: list[list[list[int]]] = [list(groups)]
    while len(groups) > 1:
        # Increase of the sum of squares by merging two groups.
        cost = _squares(centres, centres) * (sizes[:, None] * sizes / (sizes[:, None] + sizes))
        np.fill_diagonal(cost, np.inf)
        a, b = sorted(divmod(int(cost.argmin()), len(groups)))
        costs.append(float(cost[a, b]))
        centres[a] = (centres[a] * sizes[a] + centres[b] * sizes[b]) / (sizes[a] + sizes[b])
        sizes[a] += sizes[b]
        groups = [group + groups[b] if at == a else group for at, group in enumerate(groups) if at != b]
        centres, sizes = np.delete(centres, b, axis=0), np.delete(sizes, b)
        states.append(list(groups))
    floored = np.array([0.0, *costs]) + _JUMP * max(costs, default=0.0)
    n_groups = states[int((floored[1:] / floored[:-1]).argmax())] if floored[-1] > 0 else states[-1]
    codes = np.empty(m, np.int64)
    for code, group in enumerate(sorted(n_groups)):
        codes[group] = code
    return codes


def _squares(rows: Array, centres: Array) -> Array:
    return ((rows[:, None] - centres[None]) ** 2).sum(axis=2)
