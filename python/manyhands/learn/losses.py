"""Losses for one's own training loop: plain functions of tensors, in log space.

Annotations are index triples as in :class:`~manyhands.learn.Batch`; ``log_probs`` are rows of log-probabilities.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from manyhands._train.probabilities import soft_cross_entropy as soft_cross_entropy

Divergence = Literal["kl", "pearson", "js"]


def bootstrap(log_probs: Tensor, targets: Tensor, beta: float) -> Tensor:
    """Soft bootstrapping (Reed et al. 2014), (n,): the target is ``beta`` of the given one, the rest the prediction.

    The prediction's part is the entropy of the prediction, so gradients go through both of its factors.
    """
    return soft_cross_entropy(log_probs, beta * targets + (1 - beta) * log_probs.exp())


def log_mixture(log_probs: Tensor, log_columns: Tensor) -> Tensor:
    """The log of Σ_k p[k] · column[k]: the probability of an answer that was given, (n,)."""
    return torch.logsumexp(log_probs + log_columns, dim=-1)


def log_det(gram: Tensor, *, ridge: float = 0.0, what: str = "the Gram matrix") -> Tensor:
    """Log-determinant of a positive matrix with `ridge` added to its diagonal. A singular one is an error."""
    gram = gram + ridge * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    factor, failed = torch.linalg.cholesky_ex(gram)
    value = 2 * factor.diagonal().log().sum()
    if bool(failed) or not bool(torch.isfinite(value)):
        raise ValueError(
            f"{what} is singular, so its log-determinant does not exist; raise ridge, take larger batches, or lower "
            "the weight of the volume term"
        )
    return value


def mutual_information_gain(h: Tensor, g: Tensor, prior: Tensor, divergence: Divergence = "kl") -> Tensor:
    """f-mutual information gain of two sets of forecasts of the same samples (Max-MIG, Eq. 1).

    `h` and `g` are (n, n_classes) log-probabilities, `prior` (n_classes,). Rewards agreement on the same sample,
    punishes it on different ones. Time and memory O(n · n_classes) of ``"kl"``, O(n² · n_classes) and O(n²) of others.
    """
    n = len(h)
    if n < 2:
        raise ValueError("the mutual information gain needs two samples or more in a batch")
    reward, punish = _GAINS[divergence]
    h = h - prior.log()
    same = torch.logsumexp(h + g, dim=1)
    if divergence == "kl":  # what is punished is the agreement itself, whose sum over all pairs is that of the sums
        off = h.exp().sum(dim=0) @ g.exp().sum(dim=0) - same.exp().sum()
    else:
        others = punish(h.exp() @ g.exp().T)
        off = others.sum() - others.diagonal().sum()
    return reward(same).mean() - off / (n * (n - 1))


# f′ of the agreement, from its logarithm, and f* of f′, from the agreement itself (Table 1 of Max-MIG).
_GAINS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "kl": (lambda log: 1 + log, lambda t: t),
    "pearson": (lambda log: 2 * torch.expm1(log), lambda t: t**2 - 1),
    "js": (lambda log: _LOG_2 + F.logsigmoid(log), lambda t: torch.log1p(t) - _LOG_2),
}
_LOG_2 = 0.6931471805599453


def focal(log_right: Tensor, gamma: Tensor | float) -> Tensor:
    """Focal loss of the answers given: ``(1 − p)^gamma · −log p``, from log p, (n,)."""
    # 1 − p is kept away from zero, where its power has no finite gradient.
    wrong = (-torch.expm1(log_right)).clamp_min(1e-12)
    return -(wrong**gamma) * log_right


def agreement_regression(predicted: Tensor, agreement: Tensor) -> Tensor:
    """Quantile loss whose quantile is the agreement itself (Learn2Agree, Eq. 2), elementwise."""
    gap = predicted - agreement
    return torch.maximum(agreement * gap, (agreement - 1) * gap)


def towards_agreement(logit: Tensor, indicator: Tensor, strength: float) -> Tensor:
    """Learn2Agree's Eq. 4 in logits: an indicator of one half changes nothing, elementwise."""
    return logit + 2 * strength * (indicator - 0.5)


def outlier_penalty(squares: Tensor, p: float, zeta: float) -> Tensor:
    """COINNet's ℓ₂,ₚ term of each sample: ``(squares + zeta)^(p/2)``, (n,)."""
    return (squares + zeta) ** (p / 2)


def noisy_preference(margin: Tensor, flip: Tensor | float) -> Tensor:
    """Loss of a preference that was reported the other way round with probability `flip`, elementwise.

    `margin` is how far the one preferred is ahead: a difference of rewards, or β times that of log-ratios as in direct
    preference optimisation. It is the likelihood of the report, so that a margin far on the wrong side costs no more
    than ``-log(flip)``.
    """
    flip = torch.as_tensor(flip, dtype=margin.dtype, device=margin.device)
    return -torch.logaddexp(torch.log1p(-flip) + F.logsigmoid(margin), torch.log(flip) + F.logsigmoid(-margin))


def robust_preference(margin: Tensor, flip: Tensor | float) -> Tensor:
    """Loss of a preference that is right on average although reports are flipped, elementwise; `flip` below one half.

    The expectation over flips is the loss of the true preference (Chowdhury et al., "Provably robust DPO", 2024). Give
    each row the flip rate of its annotator, such as one minus the reliability of :func:`preference_weights`, or of its
    pair. Single terms may be negative.
    """
    flip = torch.as_tensor(flip, dtype=margin.dtype, device=margin.device)
    if not bool(((flip >= 0) & (flip < 0.5)).all()):
        raise ValueError("flip rates must be at least 0 and below one half; turn the labels of those above round")
    return (flip * F.logsigmoid(-margin) - (1 - flip) * F.logsigmoid(margin)) / (1 - 2 * flip)
