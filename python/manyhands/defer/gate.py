"""Networks that say who should answer."""

from __future__ import annotations

import copy
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands.train.batch import CrowdData
from manyhands.train.trunk import n_features, split

Gate = nn.Module | Literal["stacked"] | None

#: Units of the hidden layer of a stacked gate.
_HIDDEN = 32


def check_networks(classifier: Any, gate: Any) -> None:
    """Refuse what is no classifier, and what is no gate."""
    if not isinstance(classifier, nn.Module):
        raise TypeError(f"classifier must be a torch nn.Module that returns logits, not {type(classifier).__name__}")
    if not (gate is None or gate == "stacked" or isinstance(gate, nn.Module)):
        raise TypeError(f'gate must be a torch nn.Module that returns logits, "stacked" or None, not {gate!r}')


def make_gate(gate: Gate, classifier: nn.Module, data: CrowdData, n_classes: int, n_outputs: int) -> nn.Module:
    """A copy of the gate given, one on what the classifier knows, or one like the classifier."""
    if isinstance(gate, nn.Module):
        return copy.deepcopy(gate)
    width = n_features(classifier, data)
    if gate == "stacked":
        return StackedGate(width, n_classes, n_outputs)
    return nn.Sequential(copy.deepcopy(split(classifier)[0]), nn.Linear(width, n_outputs))


class StackedGate(nn.Module):
    """A small network on what the classifier makes of a case: its features, and what it thinks of the classes.

    A gate of its own learns only from who was right, a bit a case. This one starts from what the classifier learnt
    from the classes, and the classifier learns nothing from it.
    """

    def __init__(self, n_features: int, n_classes: int, n_outputs: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_features + n_classes, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, n_outputs)
        )

    def forward(self, features: Tensor, classes: Tensor) -> Tensor:
        """Logits of the options, of features (n, d) and class logits (n, n_classes)."""
        known = torch.cat([features, F.log_softmax(classes, dim=1)], dim=1)
        logits: Tensor = self.layers(known.detach())
        return logits
