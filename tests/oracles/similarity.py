"""Twins of the kernels for same or different, written from the formulas, slow and plain."""

import numpy as np
from scipy.special import betaln, digamma, gammaln


def pair_evidence(pairs, workers, said, weights, log_odds, n_pairs):
    return np.bincount(pairs, weights * log_odds[workers, said], n_pairs)


def pair_counts(pairs, workers, said, weights, same, n_workers):
    counts = np.zeros((n_workers, 2, 2))
    for pair, worker, answer, weight in zip(pairs, workers, said, weights, strict=True):
        counts[worker, 1, answer] += weight * same[pair]
        counts[worker, 0, answer] += weight * (1 - same[pair])
    return counts


def bound(counts, prior, memberships):
    """Lower bound of the log-likelihood where skills and shares are the best for the memberships."""
    skills = sum(
        betaln(*(counts[worker, true] + prior[true])) - betaln(*prior[true])
        for worker in range(len(counts))
        for true in (0, 1)
    )
    k = memberships.shape[1]
    sizes = 1 + memberships.sum(axis=0)
    shares = gammaln(sizes).sum() - gammaln(sizes.sum()) + gammaln(k)
    logs = np.log(np.where(memberships > 0, memberships, 1.0))
    return skills + shares - (memberships * logs).sum()


def membership_fit(pairs, workers, said, weights, left, right, start, prior, passes):
    """Variational Bayes, so many passes; returns memberships, counts with the prior, and the bounds."""
    memberships, n_workers = start.copy(), workers.max() + 1
    history = []
    for done in range(passes + 1):
        same = (memberships[left] * memberships[right]).sum(axis=1)
        counts = pair_counts(pairs, workers, said, weights, same, n_workers)
        history.append(bound(counts, prior, memberships))
        if done == passes:
            return memberships, counts + prior, np.array(history)
        beliefs = counts + prior
        logs = digamma(beliefs) - digamma(beliefs.sum(axis=2, keepdims=True))
        evidence = pair_evidence(pairs, workers, said, weights, logs[:, 1] - logs[:, 0], len(left))
        sizes = 1 + memberships.sum(axis=0)
        shares = digamma(sizes) - digamma(sizes.sum())
        for item in range(len(memberships)):
            score = shares.copy()
            for pair in range(len(left)):
                if item in (left[pair], right[pair]):
                    other = right[pair] if left[pair] == item else left[pair]
                    score += evidence[pair] * memberships[other]
            score = np.exp(score - score.max())
            memberships[item] = score / score.sum()
    raise AssertionError


def worth(left, right, evidence, clusters, concentration=None):
    """What a partition is worth."""
    within = evidence[clusters[left] == clusters[right]].sum()
    if concentration is None:
        return within
    sizes = np.unique(clusters, return_counts=True)[1]
    return within + (np.log(concentration) + gammaln(sizes)).sum()


def partitions(n):
    """All partitions of n items, as clusters numbered by their first items."""
    if n == 1:
        yield [0]
        return
    for some in partitions(n - 1):
        for cluster in range(max(some) + 2):
            yield [*some, cluster]


def cluster_shares(left, right, evidence, clusters, item):
    """Probabilities of the clusters near an item, by name, and None for one of its own."""
    near = {int(clusters[item]): 0.0}
    for a, b, weight in zip(left, right, evidence, strict=True):
        if item in (a, b):
            other = clusters[b if a == item else a]
            near[int(other)] = near.get(int(other), 0.0) + weight
    if (clusters == clusters[item]).sum() > 1:
        near[None] = 0.0
    logs = np.array(list(near.values()))
    shares = np.exp(logs - logs.max())
    return dict(zip(near, shares / shares.sum(), strict=True))


def adjusted_rand(a, b):
    """Adjusted Rand index of two partitions."""
    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), 1)

    def pairs(n):
        return (n * (n - 1) / 2).sum()

    both, rows, columns = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    chance = rows * columns / pairs(np.array([len(a)]))
    return (both - chance) / ((rows + columns) / 2 - chance)
