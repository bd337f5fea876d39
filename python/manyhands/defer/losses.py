"""Posteriors and losses of learning to defer, for one's own training loop: plain functions of tensors, in log space.

Options are the experts in order and then the classifier. ``answers`` is (n, n_experts), -1 where an expert gave none;
``truth`` is (n,).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from manyhands._train.probabilities import soft_cross_entropy


def answer_log_likelihood(n_classes: int, smoothing: float) -> tuple[float, float]:
    """Log-probability of the true class given an answer that is right, and given one that is wrong, smoothed."""
    return math.log1p(smoothing / n_classes - smoothing), math.log(smoothing / n_classes)


def evidence(answers: Tensor, truth: Tensor, log_probs: Tensor, smoothing: float, missing: Tensor | float) -> Tensor:
    """Log-probability of the true class by each option, (n, n_experts + 1): ``ln Pr(y | z, t)``.

    `log_probs` are the classifier's, (n, n_classes); `missing` is what stands for experts who gave no answer.
    """
    right, wrong = answer_log_likelihood(log_probs.shape[1], smoothing)
    correct = answers == truth[:, None]
    log_likelihood = torch.where(correct, log_probs.new_tensor(right), log_probs.new_tensor(wrong))
    experts = torch.where(
        answers >= 0, log_likelihood, torch.as_tensor(missing, dtype=log_likelihood.dtype, device=log_likelihood.device)
    )
    return torch.cat([experts, log_probs.gather(1, truth[:, None])], dim=1)


def posterior(log_gate: Tensor, log_evidence: Tensor) -> Tensor:
    """Log-posterior of the option, (n, n_experts + 1): Eq. 12 of Nguyen et al. (2025), where all that is known."""
    return F.log_softmax(log_gate + log_evidence, dim=1)


def gate_loss(gate: Tensor, target: Tensor, options: Tensor | None = None) -> Tensor:
    """Cross-entropy of the router with the posterior of the option, (n,): what the M-step makes small.

    `gate` is (n, n_experts + 1) logits, `target` the posterior. `options`, of the same shape, marks the options of
    each case (Nguyen et al. 2025, Eq. 15): the others are left out of the softmax and of the posterior, which keeps the
    ratios of the rest, and a case with one option has no loss.
    """
    if options is None:
        return soft_cross_entropy(F.log_softmax(gate, dim=1), target)
    target_options = target * options
    # A workload may forbid all that a case has; it then has no posterior, and no loss.
    target_options = target_options / target_options.sum(dim=1, keepdim=True).clamp_min(
        torch.finfo(target_options.dtype).tiny
    )
    log_gate = F.log_softmax(gate.masked_fill(~options, -torch.inf), dim=1)
    return soft_cross_entropy(log_gate.masked_fill(~options, 0.0), target_options)


def charge_costs(log_option: Tensor, cost: Tensor) -> Tensor:
    """Log-posterior of the option with its cost counted, (n, n_experts + 1): ``q(z) exp(-cost_z)``, normalized again.

    The projection that keeps a workload does the same with costs that it finds (Nguyen et al. 2025, Eq. 10).
    """
    return F.log_softmax(log_option - cost, dim=1)


def share_penalty(gate: Tensor, lower: Tensor, upper: Tensor, *, by_case: bool = False) -> Tensor:
    """How far the gate's probabilities are from the requested shares: squared misses, summed over options.

    `gate` is (n, n_experts + 1) logits. By default the squares are those of the mean over the batch; with `by_case`,
    the mean of the squares of single cases, which with a coverage is the term of Nguyen et al. (2025, Sec. 4, ii). The
    latter draws the probabilities of every case to the share.
    """
    share = torch.softmax(gate, dim=1)
    share = share if by_case else share.mean(dim=0, keepdim=True)
    return ((share - share.clamp(lower, upper)) ** 2).sum(dim=1).mean()


def mean_field(
    log_gate: Tensor,
    log_experts: Tensor,
    answers: Tensor,
    truth: Tensor,
    log_probs: Tensor,
    *,
    smoothing: float,
    n_iter: int,
    released: bool = False,
) -> tuple[Tensor, Tensor]:
    """E-step with missing answers by mean field (Nguyen et al. 2025, Eqs. 22 and 23), from `n_iter` fixed-point steps.

    `log_experts` is (n, n_experts, n_classes), what each expert is thought to answer. With `released`, the classifier's
    answer is a latent variable as well: its evidence is the expected log-likelihood of an answer drawn from its
    probabilities, as in the code of the authors.

    Returns
    -------
    log_option : Tensor of shape (n, n_experts + 1)
        ``ln q(z)``.
    answer : Tensor of shape (n, n_experts, n_classes)
        ``q(t)``, also of answers that were given, where it must not be used.

    Notes
    -----
    All that an iteration needs of ``q(t)`` is the probability that the answer is right, so it costs O(n · experts).
    """
    right, wrong = answer_log_likelihood(log_probs.shape[1], smoothing)
    logit = _right_logit(log_experts, truth)
    p_chosen = torch.zeros_like(logit)
    for _ in range(n_iter):
        correct = torch.sigmoid(logit + p_chosen * (right - wrong))
        expected = correct * right + (1 - correct) * wrong
        log_evidence = evidence(answers, truth, log_probs, smoothing, expected)
        if released:
            own = log_evidence[:, -1:].exp()
            log_evidence = torch.cat([log_evidence[:, :-1], own * right + (1 - own) * wrong], dim=1)
        log_option = posterior(log_gate, log_evidence)
        p_chosen = log_option[:, :-1].exp()
    return log_option, _tilt(log_experts, truth, p_chosen * (right - wrong)).exp()


def exact_posterior(
    log_gate: Tensor, log_experts: Tensor, answers: Tensor, truth: Tensor, log_probs: Tensor, *, smoothing: float
) -> tuple[Tensor, Tensor]:
    """E-step with missing answers summed out, which takes no iteration; results as of `mean_field`."""
    right, wrong = answer_log_likelihood(log_probs.shape[1], smoothing)
    logit = _right_logit(log_experts, truth)
    # ln(f_y · right + (1 − f_y) · wrong): the average evidence of a missing answer about the truth.
    expected = torch.logaddexp(F.logsigmoid(logit) + right, F.logsigmoid(-logit) + wrong)
    log_option = posterior(log_gate, evidence(answers, truth, log_probs, smoothing, expected))
    p_chosen = log_option[:, :-1, None].exp()
    certain = _tilt(log_experts, truth, torch.full_like(logit, right - wrong)).exp()
    return log_option, p_chosen * certain + (1 - p_chosen) * log_experts.exp()


def _right_logit(log_experts: Tensor, truth: Tensor) -> Tensor:
    """Log-odds that each expert names the true class, (n, n_experts)."""
    at = truth[:, None, None].expand(-1, log_experts.shape[1], 1)
    correct = log_experts.gather(2, at)[:, :, 0]
    wrong = torch.logsumexp(log_experts.scatter(2, at, -torch.inf), dim=2)
    return correct - wrong


def _tilt(log_experts: Tensor, truth: Tensor, gain: Tensor) -> Tensor:
    """Log-probabilities of answers with the true class favored by `gain`, (n, n_experts), normalized again."""
    at = truth[:, None, None].expand(-1, log_experts.shape[1], 1)
    return F.log_softmax(log_experts.scatter_add(2, at, gain[:, :, None]), dim=2)


# ------------------------------------------------------------------------------------------------------ surrogates


def mask_missing(logits: Tensor, answers: Tensor) -> Tensor:
    """Logits of experts, (n, n_experts), with those who gave no answer left out of any softmax."""
    return logits.masked_fill(answers < 0, -torch.inf)


def cross_entropy_surrogate(classes: Tensor, experts: Tensor, answers: Tensor, truth: Tensor, alpha: float) -> Tensor:
    """Cross-entropy surrogate (Mozannar & Sontag 2020; for several experts Verma et al. 2023), (n,).

    ``-w ln g_y - Σ 1[expert right] ln g_expert`` with one softmax over classes and experts; `w` is `alpha` where some
    expert is right, else one. Experts who gave no answer are left out of the softmax, which leaves the ratios of the
    others, and so the minimizer, as they were.
    """
    log_all = F.log_softmax(torch.cat([classes, mask_missing(experts, answers)], dim=1), dim=1)
    correct = answers == truth[:, None]
    own = log_all.gather(1, truth[:, None])[:, 0]
    weight = torch.where(correct.any(dim=1), own.new_tensor(alpha), own.new_tensor(1.0))
    return -weight * own - log_all[:, classes.shape[1] :].masked_fill(~correct, 0.0).sum(dim=1)


def one_vs_all(classes: Tensor, experts: Tensor, answers: Tensor, truth: Tensor) -> Tensor:
    """One-vs-all surrogate with the logistic loss (Verma & Nalisnick 2022; several experts Verma et al. 2023), (n,).

    A binary problem for each class (is it the true one?) and each expert who answered (is the answer right?).
    """
    is_class = F.one_hot(truth, classes.shape[1]).bool()
    own = -F.logsigmoid(torch.where(is_class, classes, -classes)).sum(dim=1)
    signed = torch.where(answers == truth[:, None], experts, -experts)
    return own - F.logsigmoid(signed).masked_fill(answers < 0, 0.0).sum(dim=1)


def realizable(classes: Tensor, experts: Tensor, answers: Tensor, truth: Tensor, alpha: float) -> Tensor:
    """Realisable-consistent surrogate (Mozannar et al. 2023), (n,).

    ``-2 ln(g_y + Σ 1[expert right] g_expert)`` with one softmax over classes and experts who answered; `alpha` of it,
    the rest is the classifier's own cross-entropy.
    """
    logits = torch.cat([classes, mask_missing(experts, answers)], dim=1)
    is_class = F.one_hot(truth, classes.shape[1]).bool()
    good = torch.cat([is_class, answers == truth[:, None]], dim=1)
    system = torch.logsumexp(logits.masked_fill(~good, -torch.inf), dim=1) - torch.logsumexp(logits, dim=1)
    if alpha == 1:
        return -2 * system
    return -2 * alpha * system + (1 - alpha) * F.cross_entropy(classes, truth, reduction="none")


def mixture_loss(classes: Tensor, gate: Tensor, answers: Tensor, truth: Tensor, cost: Tensor) -> Tensor:
    """Expected loss of the option that the router draws (Madras et al. 2018), (n,).

    The classifier's loss is its cross-entropy, an expert's 0 or 1 and the `cost` of asking them, (n_experts,);
    `gate` is (n, n_experts + 1) logits, of which experts who gave no answer are left out.
    """
    option = torch.softmax(torch.cat([mask_missing(gate[:, :-1], answers), gate[:, -1:]], dim=1), dim=1)
    costs = (answers != truth[:, None]).to(option.dtype) + cost
    own = F.cross_entropy(classes, truth, reduction="none")
    return option[:, -1] * own + (option[:, :-1] * costs).sum(dim=1)
