"""Plain twins of the learners' losses: a sample, a label, a class at a time. Nothing is shared with the library."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from precision import sum_in_single

#: Labels as (sample, worker, label).
Triples = list[tuple[int, int, int]]
#: Weights, (outputs × inputs), and biases of a linear layer.
Layer = tuple[np.ndarray, np.ndarray]


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max())
    return e / e.sum()


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0.0, x)


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0)


def layered(x: np.ndarray, *layers: Layer, between: Callable[[np.ndarray], np.ndarray] = relu) -> np.ndarray:
    """What linear layers make of one row, with a function between two of them."""
    for number, (weights, bias) in enumerate(layers):
        x = weights @ (between(x) if number else x) + bias
    return x


def reduced(losses: list[float], triples: Triples, reduction: str) -> float:
    """Mean of the labels' losses: over all labels, or over samples or workers of the mean of their own."""
    if reduction == "label":
        return float(np.mean(losses))
    own: dict[int, list[float]] = {}
    for (sample, worker, _), loss in zip(triples, losses, strict=True):
        own.setdefault(sample if reduction == "sample" else worker, []).append(loss)
    return float(np.mean([np.mean(group) for group in own.values()]))


def free_confusion(rows: np.ndarray, link: str) -> np.ndarray:
    """Confusion matrices of free parameters, (workers × true × observed)."""
    out = np.empty_like(rows)
    for m in range(len(rows)):
        for k in range(rows.shape[1]):
            out[m, k] = softmax(rows[m, k]) if link == "softmax" else softplus(rows[m, k]) / softplus(rows[m, k]).sum()
    return out


def one_coin_confusion(log_odds: np.ndarray, n_classes: int) -> np.ndarray:
    """Confusion matrices of workers who are right with one probability, and wrong in all ways alike."""
    out = np.empty((len(log_odds), n_classes, n_classes))
    for m, value in enumerate(log_odds):
        right = 1 / (1 + np.exp(-value))
        for k in range(n_classes):
            out[m, k] = (1 - right) / (n_classes - 1)
            out[m, k, k] = right
    return out


def low_rank_confusion(shared: np.ndarray, patterns: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Softmax of shared logits and each worker's mixture of patterns of them, (workers × true × observed)."""
    own = [sum(share * pattern for share, pattern in zip(row, patterns, strict=True)) for row in rows]
    return free_confusion(np.array([shared + logits for logits in own]), "softmax")


def embedded_confusion(shared: np.ndarray, layers: list[Layer], rows: np.ndarray) -> np.ndarray:
    """Softmax of shared logits and what layers make of each worker's embedding, (workers × true × observed)."""
    own = [layered(row, *layers, between=np.tanh).reshape(shared.shape) for row in rows]
    return free_confusion(np.array([shared + logits for logits in own]), "softmax")


def coupled_cross_entropy(probs: np.ndarray, confusion: np.ndarray, triples: Triples) -> float:
    """Mean over labels of −log Σ_k p[k] C[m, k, l]."""
    total = 0.0
    for sample, worker, label in triples:
        total -= np.log(sum(probs[sample, k] * confusion[worker, k, label] for k in range(probs.shape[1])))
    return total / len(triples)


def cross_entropy(probs: np.ndarray, triples: Triples, reduction: str = "label") -> float:
    """Mean over labels of −log p[l]."""
    return reduced([-np.log(probs[sample, label]) for sample, _, label in triples], triples, reduction)


def vote_targets(triples: Triples, n: int, k: int, *, winner: bool) -> np.ndarray:
    """Shares of the votes of each sample or, divided among ties, the class with most of them, (samples × classes)."""
    votes = np.zeros((n, k))
    for sample, _, label in triples:
        votes[sample, label] += 1
    if winner:
        votes = np.array([[float(count == max(row)) for count in row] for row in votes])
    return votes / votes.sum(axis=1, keepdims=True)


def target_cross_entropy(probs: np.ndarray, targets: np.ndarray, beta: float = 1.0) -> float:
    """Mean over samples of the cross-entropy with `beta` of a target and the rest of the prediction itself."""
    total = 0.0
    for p, target in zip(probs, targets, strict=True):
        total -= sum((beta * t + (1 - beta) * q) * np.log(q) for t, q in zip(target, p, strict=True))
    return total / len(probs)


def trace_loss(probs: np.ndarray, confusion: np.ndarray, triples: Triples, trace: float, n_labels: np.ndarray) -> float:
    """Eq. 4 of Tanno et al., divided by the labels a sample has: cross-entropy and the mean trace of all workers."""
    labelled = [confusion[m] for m in range(len(confusion)) if n_labels[m]]
    share = sum(n_labels) / len(probs)
    traces = len(labelled) / len(confusion) * mean_trace(np.array(labelled))
    return coupled_cross_entropy(probs, confusion, triples) + trace / share * traces


def max_mig_loss(
    probs: np.ndarray,
    weights: np.ndarray,
    start: np.ndarray,
    prior: np.ndarray,
    triples: Triples,
    divergence: str,
    shrinkage: float,
    scores: np.ndarray,
) -> float:
    """The gain of Max-MIG, negative, and a normal prior of every weight that some label picks, around its start.

    `scores` are what the softmax of the aggregator has apart from the weights.
    """
    picked = {(worker, label) for _, worker, label in triples}
    moved = sum(((weights[m, label] - start[m, label]) ** 2).sum() for m, label in picked)
    g = aggregator(weights, scores, triples, len(probs))
    return shrinkage / 2 * moved / len(probs) - mutual_information_gain(probs, g, prior, divergence)


def doctor_opinion(features: np.ndarray, head: np.ndarray) -> np.ndarray:
    """What a worker's own linear layer, whose last column is its bias, makes of a sample, (classes,)."""
    return softmax(head[:, :-1] @ features + head[:, -1])


def doctor_loss(features: np.ndarray, heads: np.ndarray, triples: Triples) -> float:
    """Mean over labels of the cross-entropy of the worker's own opinion."""
    total = 0.0
    for sample, worker, label in triples:
        total -= np.log(doctor_opinion(features[sample], heads[worker])[label])
    return total / len(triples)


def others_opinion(features: np.ndarray, heads: np.ndarray, weights: np.ndarray, triples: Triples) -> np.ndarray:
    """Mean opinion, by weights, of those who did not label a sample, or of all if everybody did."""
    found = []
    for sample, row in enumerate(features):
        asked = set(range(len(heads))) - {m for i, m, _ in triples if i == sample} or set(range(len(heads)))
        total = sum(weights[m] * doctor_opinion(row, heads[m]) for m in asked)
        found.append(total / sum(weights[m] for m in asked))
    return np.array(found)


def crowd_layer(probs: np.ndarray, weights: np.ndarray, triples: Triples, kind: str) -> float:
    """Mean over labels of the cross-entropy of a worker's softmax."""
    total = 0.0
    for sample, worker, label in triples:
        p, w = probs[sample], weights[worker]
        if kind == "MW":
            scores = np.array([sum(p[k] * w[k, j] for k in range(len(p))) for j in range(len(p))])
        else:
            scores = {"VW": lambda p, w: p * w, "VB": lambda p, w: p + w, "VW-B": lambda p, w: p * w[0] + w[1]}[kind](
                p, w
            )
        total -= np.log(softmax(scores)[label])
    return total / len(triples)


def mean_trace(confusion: np.ndarray) -> float:
    return float(np.mean([np.trace(matrix) for matrix in confusion]))


def log_det_gram(rows: np.ndarray, ridge: float = 0.0) -> float:
    """log det of the mean outer product of rows, with a ridge on its diagonal."""
    return log_det(sum(np.outer(row, row) for row in rows) / len(rows), ridge)


def log_det(gram: np.ndarray, ridge: float) -> float:
    return float(np.log(np.linalg.det(gram + ridge * np.eye(len(gram)))))


def geo_loss(
    probs: np.ndarray, confusion: np.ndarray, triples: Triples, side: str, volume: float, ridge: float
) -> float:
    """GeoCrowdNet: coupled cross-entropy, minus log det of the mean of F Fᵀ over samples or of Wᵀ W over workers.

    A worker's part of W has the classes in columns, where confusion matrices have them in rows.
    """
    if side == "F":
        size = log_det_gram(probs, ridge)
    else:
        size = log_det(sum(matrix @ matrix.T for matrix in confusion) / len(confusion), ridge)
    return coupled_cross_entropy(probs, confusion, triples) - volume * size


def aggregator(weights: np.ndarray, start: np.ndarray, triples: Triples, n: int) -> np.ndarray:
    """Max-MIG's g: softmax of a start and the weights that the labels pick, (samples × classes)."""
    scores = np.array(np.broadcast_to(start, (n, start.shape[-1])))
    for sample, worker, label in triples:
        scores[sample] += weights[worker, label]
    return np.array([softmax(row) for row in scores])


def mutual_information_gain(h: np.ndarray, g: np.ndarray, prior: np.ndarray, divergence: str) -> float:
    """Eq. 1 of Max-MIG, with Table 1 written out."""
    slope = {"kl": lambda t: 1 + np.log(t), "pearson": lambda t: 2 * (t - 1), "js": lambda t: np.log(2 * t / (1 + t))}
    dual = {"kl": lambda t: t, "pearson": lambda t: t**2 - 1, "js": lambda t: -np.log(2 / (1 + t))}
    n = len(h)
    same = other = 0.0
    for i in range(n):
        for j in range(n):
            agreement = sum(h[i, k] * g[j, k] / prior[k] for k in range(len(prior)))
            if i == j:
                same += slope[divergence](agreement)
            else:
                other += dual[divergence](agreement)
    return same / n - other / (n * (n - 1))


def single_confusion(probs: np.ndarray, matrix: np.ndarray, votes: np.ndarray, trace: float) -> float:
    """Cross-entropy of votes, which are distributions, with predictions through one matrix, and the matrix's trace."""
    total = 0.0
    for p, said in zip(probs, votes, strict=True):
        total -= sum(said[label] * np.log(p @ matrix[:, label]) for label in range(len(p)))
    return total / len(probs) + trace * np.trace(matrix)


def forecast(rows, priors: np.ndarray, confusion: np.ndarray) -> np.ndarray:
    """Posteriors of tasks with priors of their own: sums of logarithms."""
    logs = np.log(np.maximum(priors, 1e-30))
    for task, worker, label, weight in zip(rows.tasks, rows.workers, rows.labels, rows.weights, strict=True):
        logs[task] += weight * np.log(np.maximum(confusion[worker, :, label], 1e-30))
    return np.array([softmax(row) for row in logs])


def union_loss(probs: np.ndarray, shares: np.ndarray, matrices: np.ndarray, triples: Triples, variant: str) -> float:
    """UnionNet: mean over samples of the mean over its pairs (worker, label) of minus the pair's log-probability.

    A pair has a worker's share of the labels of a class, and the answer that the worker's confusion matrix gives to the
    class (B) or that a softmax of what the worker's matrix makes of the probabilities gives to the sample (A).
    """
    # Logarithms of single precision: their rounding, as a share of what they are logarithms of, grows with their size.
    np.testing.assert_allclose(shares.sum(axis=0), 1, rtol=sum_in_single(len(shares) - np.log(shares.min())))
    losses = []
    for sample, worker, label in triples:
        p, share, matrix = probs[sample], shares[worker], matrices[worker]
        if variant == "A":
            chance = sum(p * share) * softmax(p @ matrix)[label]
        else:
            chance = sum(p[k] * share[k] * matrix[k, label] for k in range(len(p)))
        losses.append(-np.log(chance))
    return reduced(losses, triples, "sample")


def adam_rows(table, mean, square, rows, gradient, *, rate, betas, eps, number) -> None:
    """Adam with the averages' start corrected, on the rows that have a gradient, in place."""
    for row in sorted(set(rows.tolist())):
        g = sum(gradient[at] for at, own in enumerate(rows) if own == row)
        mean[row] = betas[0] * mean[row] + (1 - betas[0]) * g
        square[row] = betas[1] * square[row] + (1 - betas[1]) * g**2
        # As torch has it, eps is added before the root is corrected.
        size = np.sqrt(square[row]) + eps
        table[row] -= rate * np.sqrt(1 - betas[1] ** number) / (1 - betas[0] ** number) * mean[row] / size
