"""Networks that say who should answer."""

from __future__ import annotations

import copy
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands._train.batch import CrowdData
from manyhands._train.trunk import n_features, split

Gate = nn.Module | Literal["stacked", "anchored"] | None

#: Units of the hidden layer of a stacked gate.
_HIDDEN = 32
#: An anchored gate begins with probabilities that are as this power of expected accuracies: with the accuracies as they
#: are, it would learn from the posterior to be surer before it learned anything else.
_SHARPNESS = 4.0
#: Least expected accuracy.
_LEAST = 1e-6


def check_networks(classifier: Any, gate: Any) -> None:
    """Raise for a module that is not a classifier or not a router."""
    if not isinstance(classifier, nn.Module):
        raise TypeError(f"classifier must be a torch nn.Module that returns logits, not {type(classifier).__name__}")
    if not (gate is None or gate in ("stacked", "anchored") or isinstance(gate, nn.Module)):
        choices = 'a torch nn.Module that returns logits, "stacked", "anchored" or None'
        raise TypeError(f"gate must be {choices}, not {gate!r}")


def make_gate(gate: Gate, classifier: nn.Module, data: CrowdData, accuracy: Tensor, n_outputs: int) -> nn.Module:
    """A copy of the router given, one on what the classifier knows, or one like the classifier.

    `accuracy` is that of each expert in each class, (n_experts, n_classes).
    """
    if isinstance(gate, nn.Module):
        return copy.deepcopy(gate)
    width, (n_experts, n_classes) = n_features(classifier, data), accuracy.shape
    if gate == "stacked":
        return StackedGate(width, n_classes, n_outputs)
    if gate == "anchored":
        if n_outputs == n_experts:
            raise ValueError('gate="anchored" needs a method whose gate has the classifier among its options')
        return AnchoredGate(width, accuracy)
    return nn.Sequential(copy.deepcopy(split(classifier)[0]), nn.Linear(width, n_outputs))


class StackedGate(nn.Module):
    """A small network on what the classifier makes of a case: its features, and what it thinks of the classes.

    A router of its own learns only from who was right, a bit a case. This one starts from what the classifier learned
    from the classes, and the classifier learns nothing from it.
    """

    def __init__(self, n_features: int, n_classes: int, n_outputs: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_features + n_classes, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, n_outputs)
        )

    def forward(self, features: Tensor, classes: Tensor) -> Tensor:
        """Logits of the options, of features (n, d) and class logits (n, n_classes)."""
        inputs = torch.cat([features, F.log_softmax(classes, dim=1)], dim=1)
        logits: Tensor = self.layers(inputs.detach())
        return logits


class AnchoredGate(StackedGate):
    """A stacked gate that starts from how often each option is expected to be right, and learns what to add to that.

    Its logits are four times the logarithms of the expected accuracies, which follow from what the classifier thinks of
    the classes and from the experts' accuracy in each, plus those of a small network that begins at zero.
    """

    accuracy: Tensor
    #: Of each option, (n_experts + 1,): an option of cost c is taken to be right exp(-c) times as often.
    cost: Tensor

    def __init__(self, n_features: int, accuracy: Tensor) -> None:
        n_experts, n_classes = accuracy.shape
        super().__init__(n_features, n_classes, n_experts + 1)
        self.register_buffer("accuracy", accuracy)
        self.register_buffer("cost", accuracy.new_zeros(n_experts + 1))
        last = self.layers[-1]
        assert isinstance(last, nn.Linear)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)

    def forward(self, features: Tensor, classes: Tensor) -> Tensor:
        """Logits of the options, of features (n, d) and class logits (n, n_classes)."""
        right = expected_right(torch.softmax(classes.detach(), dim=1), self.accuracy)
        return _SHARPNESS * (right.clamp_min(_LEAST).log() - self.cost) + super().forward(features, classes)


def expected_right(probs: Tensor, accuracy: Tensor) -> Tensor:
    """Probability that each option is right, (n, n_experts + 1): experts by their accuracy in each class."""
    return torch.cat([probs @ accuracy.T, probs.max(dim=1, keepdim=True).values], dim=1)
