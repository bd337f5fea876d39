"""Communities of workers and subtypes of classes, as one would write them on paper.

As in `oracles.em`: confusion matrices are (..., true × observed), products are sums of logs, and nothing is shared with
the library.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln, logsumexp

from oracles import bayes, em
from oracles.em import FLOOR, Rows

#: Bounds of a learnt strength, and the one that learning begins with.
LEAST, MOST, FIRST = 0.1, 1e4, 10.0


# ----------------------------------------------------------------------------------------------------- communities


@dataclass
class Communities:
    """Row k of a worker in community c ~ Dirichlet(strength · prototypes[c, k])."""

    prototypes: np.ndarray
    strength: float
    learn: bool
    pseudo: np.ndarray
    share_pseudo: float

    def __post_init__(self) -> None:
        self.shares = np.full(len(self.prototypes), 1 / len(self.prototypes))

    def member(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Memberships (M, C) and the log-probability of each worker's answers (M,)."""
        n, s = counts[:, None], self.strength
        if np.isinf(s):
            said = (n * np.log(self.prototypes)).sum(axis=(2, 3))
        else:
            at = s * self.prototypes
            said = (gammaln(n + at) - gammaln(at)).sum(axis=(2, 3))
            said = said - (gammaln(n.sum(axis=3) + s) - gammaln(s)).sum(axis=2)
        joint = np.log(self.shares) + said
        evidence = logsumexp(joint, axis=1)
        return np.exp(joint - evidence[:, None]), evidence

    def improve(self, counts: np.ndarray) -> None:
        for _ in range(2):
            membership, _ = self.member(counts)
            n, s = counts[:, None], self.strength
            at = s * self.prototypes
            tables = n if np.isinf(s) else at * (digamma(n + at) - digamma(at))
            draws = (membership[:, :, None, None] * tables).sum(axis=0)
            if self.learn:
                rows = (digamma(counts.sum(axis=2) + s) - digamma(s)).sum()
                if rows > 0:
                    self.strength = float(np.clip(draws.sum() / rows, LEAST, MOST))
            rows = draws + self.pseudo
            self.prototypes = np.maximum(rows / rows.sum(axis=2, keepdims=True), 1e-12)
            self.shares = membership.sum(axis=0) + self.share_pseudo
            self.shares = self.shares / self.shares.sum()

    def factors(self, counts: np.ndarray) -> tuple[np.ndarray, float]:
        """exp(E[ln p]) of each entry, (M, K, K), and the part of the bound that does not depend on classes."""
        membership, evidence = self.member(counts)
        if np.isinf(self.strength):
            logs = np.broadcast_to(np.log(self.prototypes), (len(counts), *self.prototypes.shape))
        else:
            at = counts[:, None] + self.strength * self.prototypes
            logs = digamma(at) - digamma(at.sum(axis=3, keepdims=True))
        mean = np.einsum("mc,mckl->mkl", membership, logs)
        priors = (self.pseudo * np.log(self.prototypes)).sum() + self.share_pseudo * np.log(self.shares).sum()
        return np.maximum(np.exp(mean), FLOOR), float(evidence.sum() - (counts * mean).sum() + priors)

    def means(self, counts: np.ndarray) -> np.ndarray:
        membership, _ = self.member(counts)
        rows = np.broadcast_to(self.prototypes, (len(counts), *self.prototypes.shape))
        if np.isfinite(self.strength):
            at = counts[:, None] + self.strength * self.prototypes
            rows = at / at.sum(axis=3, keepdims=True)
        return np.einsum("mc,mckl->mkl", membership, rows)


def fit_communities(rows: Rows, crowd: Communities, *, class_pseudo, gold, protected, max_iter, tol) -> em.Result:
    """Passes and improvements of the communities: first protected (or one that does not count), then free."""
    k = rows.n_classes
    classes, log_prior = np.full(k, 1 / k), 0.0
    said = np.repeat(bayes.shared(k, bayes.shared_accuracy(rows, gold))[None], rows.n_workers, axis=0)
    for first, most in ((True, max(protected, 1)), (False, max_iter)):
        passes, history, done = 0, [], False
        while passes < most and not done:
            joint = em.log_joint(rows, classes, np.maximum(said, FLOOR))
            posterior, evidence = bayes.settle(rows, joint, gold, voted_only=first and protected > 0)
            history.append(evidence + log_prior)
            done = bayes.settled(history, tol)
            passes += 1
            counts = em.counts_of(rows, posterior)
            classes = em.prior_of(posterior.sum(axis=0) + class_pseudo)
            if first or (passes < most and not done):
                crowd.improve(counts)
                said, log_prior = crowd.factors(counts)
                log_prior += float((class_pseudo * np.log(classes)).sum())
    confusion = crowd.means(counts)
    confusion = confusion / confusion.sum(axis=2, keepdims=True)
    joint = em.log_joint(rows, classes, np.maximum(confusion, FLOOR))
    posterior, _ = bayes.settle(rows, joint, gold, voted_only=False)
    return em.Result(posterior, confusion, classes, np.array(history), passes, done)


# -------------------------------------------------------------------------------------------------------- subtypes


def uniform(seed: int, n: int) -> np.ndarray:
    """The first n numbers of a stream of SplitMix64, in [0, 1)."""
    with np.errstate(over="ignore"):
        x = np.uint64(seed) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    return (x >> np.uint64(11)).astype(float) / 2**53


@dataclass(frozen=True)
class Subtypes:
    """Dirichlet parameters: classes (K,), mixtures (K, S), rows (M, K, S, K)."""

    classes: np.ndarray
    mixtures: np.ndarray
    rows: np.ndarray

    def expect(self, rows: Rows) -> tuple[np.ndarray, float]:
        """Posteriors of classes and subtypes, (N, K, S), and the log-evidence."""
        start = np.log(bayes.geometric(self.classes))[:, None] + np.log(bayes.geometric(self.mixtures))
        joint = np.tile(start, (rows.n_tasks, 1, 1))
        said = np.log(bayes.geometric(self.rows))[rows.workers, :, :, rows.labels]
        np.add.at(joint, rows.tasks, rows.weights[:, None, None] * said)
        evidence = logsumexp(joint, axis=(1, 2))
        return np.exp(joint - evidence[:, None, None]), float(evidence.sum())


def fit_subtypes(rows: Rows, *, n_subtypes, pseudo, class_pseudo, subtype_pseudo, seed, max_iter, tol):
    """Variational Bayes from shares of the votes, divided at random; the answer and its Dirichlet parameters."""
    m, k, s = rows.n_workers, rows.n_classes, n_subtypes
    noise = -np.log1p(-uniform(seed, rows.n_tasks * k * s)).reshape(rows.n_tasks, k, s)
    posterior = em.opening(rows, "shares")[:, :, None] * noise / noise.sum(axis=2, keepdims=True)
    history: list[float] = []
    prior = Subtypes(class_pseudo, np.full((k, s), subtype_pseudo), np.broadcast_to(pseudo[:, None], (m, k, s, k)))
    done = False
    while len(history) < max_iter and not done:
        counts = np.zeros((m, k, s, k))
        np.add.at(
            counts.transpose(0, 3, 1, 2),
            (rows.workers, rows.labels),
            rows.weights[:, None, None] * posterior[rows.tasks],
        )
        found = Subtypes(
            class_pseudo + posterior.sum(axis=(0, 2)), prior.mixtures + posterior.sum(axis=0), prior.rows + counts
        )
        posterior, evidence = found.expect(rows)
        parts = ("classes", "mixtures", "rows")
        history.append(evidence - sum(bayes.kl(getattr(found, part), getattr(prior, part)) for part in parts))
        done = bayes.settled(history, tol)
    mixtures = found.mixtures / found.mixtures.sum(axis=1, keepdims=True)
    matrices = found.rows / found.rows.sum(axis=3, keepdims=True)
    confusion = np.einsum("ks,mksl->mkl", mixtures, matrices)
    classes = found.classes / found.classes.sum()
    return em.Result(posterior.sum(axis=2), confusion, classes, np.array(history), len(history), done), found
