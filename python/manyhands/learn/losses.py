"""Losses for custom training loops: functions of tensors, in log space.

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
    """Return the soft bootstrapping loss (Reed et al. 2014), (n,): targets mixed with the prediction by ``beta``.

    The prediction part is the entropy of the prediction, so gradients flow through both factors.
    """
    return soft_cross_entropy(log_probs, beta * targets + (1 - beta) * log_probs.exp())


def log_mixture(log_probs: Tensor, log_columns: Tensor) -> Tensor:
    """Return log Σ_k p[k] · column[k], the log-probability of a given answer, (n,)."""
    return torch.logsumexp(log_probs + log_columns, dim=-1)


def log_det(gram: Tensor, *, ridge: float = 0.0, what: str = "the Gram matrix") -> Tensor:
    """Return the log-determinant of a positive definite matrix plus `ridge` on the diagonal; raise if singular."""
    gram = gram + ridge * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    factor, failed = torch.linalg.cholesky_ex(gram)
    value = 2 * factor.diagonal().log().sum()
    if bool(failed) or not bool(torch.isfinite(value)):
        raise ValueError(
            f"{what} is singular, so its log-determinant is undefined; increase ridge or the batch size, or decrease "
            "the weight of the volume term"
        )
    return value


def mutual_information_gain(h: Tensor, g: Tensor, prior: Tensor, divergence: Divergence = "kl") -> Tensor:
    """Return the f-mutual information gain of two sets of forecasts of the same samples (Max-MIG, Eq. 1).

    `h` and `g` are (n, n_classes) log-probabilities, `prior` is (n_classes,). Agreement on the same sample is rewarded,
    agreement on different samples is penalized. Time and memory O(n · n_classes) for ``"kl"``, O(n² · n_classes) and
    O(n²) for the others.
    """
    n = len(h)
    if n < 2:
        raise ValueError("the mutual information gain needs at least two samples per batch: increase batch_size")
    reward, punish = _GAINS[divergence]
    h = h - prior.log()
    same = torch.logsumexp(h + g, dim=1)
    if divergence == "kl":  # the penalty is the agreement itself, so the sum over pairs factorizes
        off = h.exp().sum(dim=0) @ g.exp().sum(dim=0) - same.exp().sum()
    else:
        others = punish(h.exp() @ g.exp().T)
        off = others.sum() - others.diagonal().sum()
    return reward(same).mean() - off / (n * (n - 1))


# f′ as a function of the log-agreement, and f*(f′) as a function of the agreement (Table 1 of Max-MIG).
_GAINS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "kl": (lambda log: 1 + log, lambda t: t),
    "pearson": (lambda log: 2 * torch.expm1(log), lambda t: t**2 - 1),
    "js": (lambda log: _LOG_2 + F.logsigmoid(log), lambda t: torch.log1p(t) - _LOG_2),
}
_LOG_2 = 0.6931471805599453


def focal(log_right: Tensor, gamma: Tensor | float) -> Tensor:
    """Return the focal loss of the given answers, ``(1 − p)^gamma · −log p``, from log p, (n,)."""
    # Keeps 1 − p away from zero, where the gradient of its power is infinite.
    wrong = (-torch.expm1(log_right)).clamp_min(1e-12)
    return -(wrong**gamma) * log_right


def agreement_regression(predicted: Tensor, agreement: Tensor) -> Tensor:
    """Return the quantile loss whose quantile is the agreement itself (Learn2Agree, Eq. 2), elementwise."""
    gap = predicted - agreement
    return torch.maximum(agreement * gap, (agreement - 1) * gap)


def towards_agreement(logit: Tensor, indicator: Tensor, strength: float) -> Tensor:
    """Return Eq. 4 of Learn2Agree in logits, elementwise; an indicator of one half changes nothing."""
    return logit + 2 * strength * (indicator - 0.5)


def outlier_penalty(squares: Tensor, p: float, zeta: float) -> Tensor:
    """Return the ℓ₂,ₚ term of each sample (COINNet): ``(squares + zeta)^(p/2)``, (n,)."""
    return (squares + zeta) ** (p / 2)


def noisy_preference(margin: Tensor, flip: Tensor | float) -> Tensor:
    """Return the loss of a preference that was inverted with probability `flip`, elementwise.

    `margin` is the lead of the preferred item: a difference of rewards, or β times that of log-ratios as in direct
    preference optimization. The loss is the negative log-likelihood of the report, which is bounded by ``-log(flip)``.
    """
    flip = torch.as_tensor(flip, dtype=margin.dtype, device=margin.device)
    return -torch.logaddexp(torch.log1p(-flip) + F.logsigmoid(margin), torch.log(flip) + F.logsigmoid(-margin))


def robust_preference(margin: Tensor, flip: Tensor | float) -> Tensor:
    """Return an unbiased loss of the true preference under inverted reports, elementwise; `flip` below one half.

    Its expectation over inversions is the loss of the true preference (Chowdhury et al., "Provably robust DPO", 2024).
    Pass the flip rate of the annotator or the pair for each row, such as one minus the reliability of
    :func:`preference_weights`. Single terms may be negative.
    """
    flip = torch.as_tensor(flip, dtype=margin.dtype, device=margin.device)
    if not bool(((flip >= 0) & (flip < 0.5)).all()):
        raise ValueError("flip must be at least 0 and below 0.5; invert the labels of rows with larger rates")
    return (flip * F.logsigmoid(-margin) - (1 - flip) * F.logsigmoid(margin)) / (1 - 2 * flip)
