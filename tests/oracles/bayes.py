"""Dawid–Skene with priors, as one would write it on paper: variational Bayes, and priors learnt from the crowd.

As in `oracles.em`: confusion matrices are (workers × true × observed), products are sums of logs, and nothing is
shared with the library.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.integrate import quad
from scipy.special import digamma, gammaln, softmax
from scipy.stats import gamma, norm

from oracles import em
from oracles.dependence import error_correlation
from oracles.em import FLOOR, Rows
from oracles.gold import correct
from oracles.skills import Answer

PARTS = ("posterior", "confusion", "prior")

#: Bounds of whatever is learnt about a crowd.
LEAST, MOST = 1e-3, 1e4


# ----------------------------------------------------------------------------------------------- variational Bayes


@dataclass(frozen=True)
class Result:
    posterior: np.ndarray
    confusion: np.ndarray
    prior: np.ndarray
    history: np.ndarray
    concentration: np.ndarray
    class_concentration: np.ndarray


def kl(a: np.ndarray, b: np.ndarray) -> float:
    """KL(Dir(a) ‖ Dir(b)) along the last axis, summed; entries where b is 0 are not there."""
    real = b > 0
    total_a, total_b = (np.where(real, x, 0).sum(axis=-1) for x in (a, b))
    a, b = np.where(real, a, 1.0), np.where(real, b, 1.0)
    inner = gammaln(b) - gammaln(a) + (a - b) * (digamma(a) - digamma(total_a)[..., None])
    return float((gammaln(total_a) - gammaln(total_b)).sum() + np.where(real, inner, 0).sum())


def geometric(a: np.ndarray) -> np.ndarray:
    """exp(E[ln p]) under Dir(a), along the last axis."""
    return np.maximum(np.exp(digamma(a) - digamma(a.sum(axis=-1, keepdims=True))), FLOOR)


def groups(matrix: np.ndarray, model: str) -> np.ndarray:
    """The Dirichlet parameters that a model has in place of matrices of them, last axis a distribution."""
    if model == "full":
        return matrix
    pairs = np.stack(em.right_and_wrong(matrix), axis=-1)
    return pairs if model == "class" else pairs.sum(axis=1)


def said(concentration: np.ndarray, model: str) -> np.ndarray:
    """What the E-step reads of each cell of each worker, (M, K, K)."""
    m, k, _ = concentration.shape
    if model == "full":
        return geometric(concentration)
    if k == 1:
        return np.ones((m, 1, 1))
    expected = np.broadcast_to(
        geometric(groups(concentration, model)).reshape(m, 1 if model == "one-coin" else k, 2), (m, k, 2)
    )
    error = np.maximum(expected[:, :, 1] / (k - 1), FLOOR)
    return np.where(np.eye(k, dtype=bool), expected[:, :, :1], error[:, :, None])


def expect(rows: Rows, class_concentration, concentration, gold, model, *, voted_only=False):
    """Posteriors and their log-evidence under Dirichlet posteriors of the parameters."""
    joint = em.log_joint(rows, geometric(class_concentration), said(concentration, model))
    return settle(rows, joint, gold, voted_only=voted_only)


def settle(rows: Rows, joint: np.ndarray, gold: np.ndarray, *, voted_only: bool) -> tuple[np.ndarray, float]:
    """Posteriors from joint log-probabilities; where asked, of no class that nobody voted for."""
    if voted_only:
        votes = em.vote_counts(rows) > 0
        free = ~votes.any(axis=1) | (gold >= 0)
        joint = np.where(votes | free[:, None], joint, -np.inf)
    largest = joint.max(axis=1, keepdims=True)
    odds = np.exp(joint - largest)
    evidence = largest[:, 0] + np.log(odds.sum(axis=1))
    evidence = np.where(gold >= 0, joint[np.arange(len(joint)), gold], evidence)
    return em.clamp(odds / odds.sum(axis=1, keepdims=True), gold), float(evidence.sum())


def fit(rows: Rows, *, model, start, pseudo, class_pseudo, gold, protected, max_iter, tol) -> Result:
    """Variational Bayes from "shares", "majority", "protected" or given posteriors."""
    m, k = rows.n_workers, rows.n_classes
    pseudo = np.broadcast_to(pseudo, (m, k, k))

    def update(posterior):
        concentration = em.spread(em.counts_of(rows, posterior) + pseudo, model)
        return posterior.sum(axis=0) + class_pseudo, concentration

    def bound(params, evidence):
        return evidence - kl(params[0], class_pseudo) - kl(groups(params[1], model), groups(pseudo, model))

    if isinstance(start, str) and start == "protected":
        phases = [(True, protected), (False, max_iter)]
        alike = np.repeat(1e6 * shared(k, shared_accuracy(rows, gold))[None], m, axis=0)
        params = np.full(k, 1e6), em.spread(alike, model)
    else:
        phases = [(False, max_iter)]
        params = update(em.clamp(em.opening(rows, start) if isinstance(start, str) else start, gold))
    for voted_only, most in phases:
        passes, history, done = 0, [], False
        while passes < most and not done:
            posterior, evidence = expect(rows, *params, gold, model, voted_only=voted_only)
            history.append(bound(params, evidence))
            done = settled(history, tol)
            passes += 1
            params = update(posterior)
    posterior, evidence = expect(rows, *params, gold, model)
    history.append(bound(params, evidence))
    class_concentration, concentration = params
    return Result(
        posterior,
        em.confusion_of(concentration, model),
        class_concentration / class_concentration.sum(),
        np.array(history),
        concentration,
        class_concentration,
    )


def settled(history: list[float], tol: float) -> bool:
    return len(history) > 1 and abs(history[-1] - history[-2]) < tol * max(abs(history[-1]), em.TINY)


# -------------------------------------------------------------------------------------------------- protected start


def shared(k: int, accuracy: float) -> np.ndarray:
    """The confusion matrix of one accuracy, (K, K)."""
    return np.full((k, k), (1 - accuracy) / max(k - 1, 1)) + np.eye(k) * (accuracy - (1 - accuracy) / max(k - 1, 1))


def shared_accuracy(rows: Rows, gold: np.ndarray) -> float:
    """The accuracy that explains the votes if everybody has it and classes are equally frequent."""
    k, votes, accuracy = rows.n_classes, em.vote_counts(rows), 0.7
    for _ in range(5):
        ratio = accuracy / ((1 - accuracy) / (k - 1)) if k > 1 else 1.0
        odds = np.exp(votes * np.log(ratio) - (votes * np.log(ratio)).max(axis=1, keepdims=True))
        posterior = em.clamp(odds / odds.sum(axis=1, keepdims=True), gold)
        right = (posterior * votes).sum()
        accuracy = float(np.clip((right + 2) / (votes.sum() + 3), 1 / k + 0.01, 0.999))
    return accuracy


# ------------------------------------------------------------------------------------------- priors from the crowd


def imaginary_worker(k: int) -> np.ndarray:
    """Two right answers and one wrong one a class, (K, K)."""
    return np.where(np.eye(k, dtype=bool), 2.0, 1 / max(k - 1, 1))


def fixed_point(alpha: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """One step of Minka's fixed point: counts (workers, ..., n) are draws from Dir(alpha), of shape (..., n)."""
    gains = (digamma(counts + alpha) - digamma(alpha)).sum(axis=0)
    totals = alpha.sum(axis=-1)
    all_gains = (digamma(counts.sum(axis=-1) + totals) - digamma(totals)).sum(axis=0)
    return np.clip(alpha * gains / all_gains[..., None], LEAST, MOST)


class Crowd:
    """Row k of every worker ~ Dirichlet(alpha[k])."""

    def __init__(self, m: int, k: int) -> None:
        self.alpha = imaginary_worker(k)

    def absorb(self, counts: np.ndarray) -> np.ndarray:
        everybody = np.concatenate([counts, imaginary_worker(counts.shape[-1])[None]])
        for _ in range(2):
            self.alpha = fixed_point(self.alpha, everybody)
        return counts + self.alpha


class Spammer:
    """Row k of a worker ~ Dirichlet(strength · (competence · e_k + (1 − competence) · guesses))."""

    def __init__(self, m: int, k: int, strength: float | None) -> None:
        self.competence, self.guesses = np.full(m, 2 / 3), np.full((m, k), 1 / k)
        self.learn = strength is None
        self.strength = 4.0 if strength is None else strength
        self.knowing, self.guessing = np.array([2.0, 1.0]), np.full(k, 2 / k)

    def mean(self) -> np.ndarray:
        k = self.guesses.shape[1]
        knows = self.competence[:, None, None] * np.eye(k)
        return np.maximum(knows + ((1 - self.competence)[:, None] * self.guesses)[:, None, :], 1e-12)

    def absorb(self, counts: np.ndarray) -> np.ndarray:
        for _ in range(2):
            self.improve(counts)
        return self.mean() if np.isinf(self.strength) else counts + self.strength * self.mean()

    def improve(self, counts: np.ndarray) -> None:
        k, mean = counts.shape[-1], self.mean()
        draws = counts
        if np.isfinite(self.strength):
            at = self.strength * mean
            gains = digamma(counts + at) - digamma(at)
            draws = at * gains
            if self.learn:
                rows = (digamma(counts.sum(axis=2) + self.strength) - digamma(self.strength)).sum()
                self.strength = float(np.clip(self.strength * (mean * gains).sum() / rows, LEAST, MOST))
        share = np.minimum(self.competence[:, None, None] * np.eye(k) / mean, 1.0)
        knew, guessed = (draws * share).sum(axis=(1, 2)), (draws * (1 - share)).sum(axis=1)
        pairs = np.stack([knew, guessed.sum(axis=1)], axis=1)
        for _ in range(2):
            self.knowing = fixed_point(self.knowing, np.vstack([pairs, [2.0, 1.0]]))
            self.guessing = fixed_point(self.guessing, np.vstack([guessed, np.full(k, 2 / k)]))
        right, wrong = (pairs + self.knowing).T
        self.competence = right / (right + wrong)
        self.guesses = (guessed + self.guessing) / (pairs[:, 1] + self.guessing.sum())[:, None]


def fit_hierarchy(rows: Rows, *, prior: Crowd | Spammer, class_pseudo, gold, protected, max_iter, tol):
    """Passes and improvements of the prior: first protected, then free. Posterior, confusion and class prior."""
    m, k = rows.n_workers, rows.n_classes
    classes = np.full(k, 1 / k)
    confusion = np.repeat(shared(k, shared_accuracy(rows, gold))[None], m, axis=0)
    for voted_only, most in ((True, protected), (False, max_iter)):
        passes, history, done = 0, [], False
        while passes < most and not done:
            joint = em.log_joint(rows, classes, np.maximum(confusion, FLOOR))
            posterior, evidence = settle(rows, joint, gold, voted_only=voted_only)
            # The stopping rule counts the density of the class prior too, as that of EM does.
            history.append(evidence + float((class_pseudo * np.log(classes)).sum()))
            classes = em.prior_of(posterior.sum(axis=0) + class_pseudo)
            concentration = prior.absorb(em.counts_of(rows, posterior))
            confusion = concentration / concentration.sum(axis=2, keepdims=True)
            done = settled(history, tol)
            passes += 1
    posterior, _ = settle(rows, em.log_joint(rows, classes, np.maximum(confusion, FLOOR)), gold, voted_only=False)
    return posterior, confusion, classes


# ------------------------------------------------------------------------------------------------------- consensus


def information(confusion: np.ndarray) -> np.ndarray:
    """Bits that an answer of each worker carries of classes that are equally frequent."""
    said = confusion.mean(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(confusion > 0, confusion * np.log2(confusion / said), 0.0).sum(axis=(1, 2)) / len(confusion[0])


def effective_votes(rows: Rows, informs: np.ndarray) -> np.ndarray:
    """Votes on each task, less what is lost where some inform more than others."""
    of_vote = np.maximum(informs, 1e-9)[rows.workers]
    told, squared = (np.bincount(rows.tasks, rows.weights * of_vote**p, minlength=rows.n_tasks) for p in (1, 2))
    return told**2 / squared


def discount(correlation: float, error: float) -> float:
    """A half, times the chance that errors are correlated: Gamma(2, 0.125) against none at odds of three to one."""
    error = np.hypot(error, 0.02)

    def joint(r: float) -> float:
        return gamma.pdf(r, 2, scale=0.125) * norm.pdf(correlation, r, error)

    # The density of the estimate is narrow, and must be met by the rule.
    ends = [0.0, *(max(correlation + step * error, 0.0) for step in (-8, 0, 8)), 12.0]
    dependent = sum(quad(joint, a, b, epsabs=1e-13, epsrel=1e-12)[0] for a, b in pairwise(ends) if a < b)
    return 0.5 * 3 * dependent / (3 * dependent + norm.pdf(correlation, 0.0, error))


def calibrated(posterior: np.ndarray, votes: np.ndarray, correlation: float, even: float = 0.0) -> np.ndarray:
    """Log-posteriors divided by the design effect of correlated votes, and some of all classes."""
    with np.errstate(divide="ignore"):
        logs = np.log(posterior) / (1 + correlation * np.maximum(votes - 1, 0))[:, None]
    odds = np.exp(logs - logs.max(axis=1, keepdims=True))
    return (1 - even) * odds / odds.sum(axis=1, keepdims=True) + even / posterior.shape[1]


def vote_weight(rows: Rows, confusion: np.ndarray, prior: np.ndarray) -> tuple[float, float]:
    """How much the vote counts in the consensus, and the accuracy that it takes all workers to have."""
    answers = np.bincount(rows.workers, rows.weights, len(confusion))
    seen = (answers**2).sum() / answers.sum()
    mean = np.average(np.einsum("mkk,k->m", confusion, prior), weights=answers)
    k = len(prior)
    return 1 / (1 + (seen / 20) ** 2), min(max(mean, 0.01 + 0.99 / k), max(0.99, 1 / k))


def equal_vote(rows: Rows, accuracy: float, k: int) -> np.ndarray:
    """Posteriors where all workers have the same accuracy and all classes are equally frequent."""
    votes = np.zeros((rows.n_tasks, k))
    np.add.at(votes, (rows.tasks, rows.labels), rows.weights)
    return np.ones((len(votes), 1)) if k == 1 else softmax(votes * np.log(accuracy * (k - 1) / (1 - accuracy)), axis=1)


def settled_discount(rows: Rows, member, alpha, panel: bool | None) -> tuple[float, bool]:
    """The discount of confidences, and whether workers are a panel, by a model whose crowd prior is `alpha`."""
    counts = em.counts_of(rows, member.posterior) + alpha
    estimate, error = error_correlation(rows, member.posterior, counts, member.prior)
    m = len(member.confusion)
    if panel is None:
        # Fewer than six workers must show by two standard errors that they err independently.
        most = estimate + 2 * error if m < 6 else estimate
        panel = 2 <= m <= 30 and len(rows.tasks) / (m * rows.n_tasks) >= 0.5 and most >= 0.1
    return (1.0 if panel else discount(estimate, error)), panel


def consensus(members: list, gold, rows: Rows, correlation: float | None, alpha, panel: bool | None) -> Answer:
    """The average of the models' answers, corrected by known classes; `alpha` is the crowd prior of the first."""
    average = [np.mean([getattr(member, part) for member in members], axis=0) for part in PARTS]
    weight, accuracy = vote_weight(rows, average[1], average[2])
    average[0] = weight * equal_vote(rows, accuracy, len(average[2])) + (1 - weight) * average[0]
    if correlation is None:
        correlation = settled_discount(rows, members[0], alpha, panel)[0]
    votes = effective_votes(rows, information(average[1]))
    average[0] = calibrated(average[0], votes, correlation, 0.01)
    if len(np.unique(gold[gold >= 0])) > 1:
        degree = min(1.0, 2 * correlation)
        average[0] = correct(rows, len(average[1]), average[0], gold, average[2], degree)
    average[0] = em.clamp(average[0], gold)
    return Answer(*average, np.zeros(0))
