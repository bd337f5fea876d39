"""Probabilities that networks make, and what follows from them."""

from __future__ import annotations

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from manyhands._base.estimator import Array
from manyhands.categorical._passes import judged_by
from manyhands.categorical._priors import row_pseudo
from manyhands.categorical.table import Annotations

#: Pseudo-counts (right, wrong) of the confusion matrices that follow from predictions.
PSEUDO = (0.1, 0.01)


#: Classes below which a processor is quicker across rows: torch takes fewer numbers than a vector holds one by one.
_NARROW = 16


def log_softmax(logits: Tensor) -> Tensor:
    """Log-probabilities of rows of logits, (n, n_classes)."""
    if logits.shape[1] < _NARROW and logits.device.type == "cpu":
        return F.log_softmax(logits.t(), dim=0).t()
    return F.log_softmax(logits, dim=1)


def softmax_rows(log_probs: Array) -> Array:
    """Rows of log-probabilities as probabilities that sum to one."""
    probs = np.exp(log_probs - log_probs.max(axis=1, keepdims=True))
    return probs / probs.sum(axis=1, keepdims=True)


def soft_cross_entropy(log_probs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of each row with a distribution over classes, (n,)."""
    return -(targets * log_probs).sum(dim=-1)


def estimated_confusion(votes: Annotations, posterior: Array) -> Array:
    """Confusion matrices of workers judged by posteriors, with weak pseudo-counts; compiled."""
    pseudo = row_pseudo(PSEUDO, votes.n_classes)
    return judged_by(votes.table, np.ascontiguousarray(posterior, np.float64), pseudo)
