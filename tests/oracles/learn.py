"""Plain twins of the learners' losses: a sample, a label, a class at a time. Nothing is shared with the library."""

from __future__ import annotations

import numpy as np


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max())
    return e / e.sum()


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0.0, x)


def free_confusion(rows: np.ndarray, link: str) -> np.ndarray:
    """Confusion matrices of free parameters, (workers × true × observed)."""
    out = np.empty_like(rows)
    for m in range(len(rows)):
        for k in range(rows.shape[1]):
            out[m, k] = softmax(rows[m, k]) if link == "softmax" else softplus(rows[m, k]) / softplus(rows[m, k]).sum()
    return out


def coupled_cross_entropy(probs: np.ndarray, confusion: np.ndarray, triples: list[tuple[int, int, int]]) -> float:
    """Mean over labels of −log Σ_k p[k] C[m, k, l]."""
    total = 0.0
    for sample, worker, label in triples:
        total -= np.log(sum(probs[sample, k] * confusion[worker, k, label] for k in range(probs.shape[1])))
    return total / len(triples)


def cross_entropy(probs: np.ndarray, triples: list[tuple[int, int, int]]) -> float:
    """Mean over labels of −log p[l]."""
    return -sum(np.log(probs[sample, label]) for sample, _, label in triples) / len(triples)


def vote_targets(triples: list[tuple[int, int, int]], n: int, k: int, *, winner: bool) -> np.ndarray:
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


def trace_loss(
    probs: np.ndarray, confusion: np.ndarray, triples: list[tuple[int, int, int]], trace: float, n_labels: np.ndarray
) -> float:
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
    triples: list[tuple[int, int, int]],
    divergence: str,
    shrinkage: float,
) -> float:
    """The gain of Max-MIG, negative, and a normal prior of every weight that some label picks, around its start."""
    picked = {(worker, label) for _, worker, label in triples}
    moved = sum(((weights[m, label] - start[m, label]) ** 2).sum() for m, label in picked)
    g = aggregator(weights, np.log(prior), triples, len(probs))
    return shrinkage / 2 * moved / len(probs) - mutual_information_gain(probs, g, prior, divergence)


def doctor_loss(features: np.ndarray, heads: np.ndarray, triples: list[tuple[int, int, int]]) -> float:
    """Mean over labels of the cross-entropy of a worker's own linear layer, whose last column is its bias."""
    total = 0.0
    for sample, worker, label in triples:
        total -= np.log(softmax(heads[worker, :, :-1] @ features[sample] + heads[worker, :, -1])[label])
    return total / len(triples)


def crowd_layer(probs: np.ndarray, weights: np.ndarray, triples: list[tuple[int, int, int]], kind: str) -> float:
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


def log_det_gram(rows: np.ndarray) -> float:
    """log det of the mean outer product of rows."""
    gram = sum(np.outer(row, row) for row in rows) / len(rows)
    return float(np.log(np.linalg.det(gram)))


def aggregator(weights: np.ndarray, log_prior: np.ndarray, triples: list[tuple[int, int, int]], n: int) -> np.ndarray:
    """Max-MIG's g: softmax of the weights that the labels pick, (samples × classes)."""
    scores = np.tile(log_prior, (n, 1))
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


def towards_agreement(p: float, indicator: float, strength: float) -> float:
    """Eq. 4 of Learn2Agree."""
    up = p * np.exp(strength * (indicator - 0.5))
    return up / (up + (1 - p) * np.exp(strength * (0.5 - indicator)))


def agreement_regression(predicted: float, agreement: float) -> float:
    return max(agreement * (predicted - agreement), (agreement - 1) * (predicted - agreement))


def focal(p: float, right: bool, gamma: float) -> float:
    """Eq. 5 of Learn2Agree."""
    g = float(right)
    return -(abs(g - p) ** gamma) * (g * np.log(p) + (1 - g) * np.log(1 - p))


def focus(n_said: int, n_total: int) -> float:
    """Eq. 7 of Learn2Agree, with the library's bounds."""
    most = max(n_said, n_total - n_said)
    least = max(n_total - most, 1)
    rate = (n_total - 1) / n_total
    return min((1 - rate**most) / (1 - rate**least), 5.0)


def answer_loss(probs: np.ndarray, said: np.ndarray, gamma: np.ndarray) -> float:
    """Mean over binary questions of the focal loss of one answer, a distribution; of two classes one is asked."""
    asked = [1] if len(probs) == 2 else range(len(probs))
    found = []
    for k in asked:
        yes, no = focal(probs[k], True, gamma[k]), focal(probs[k], False, gamma[k])
        found.append(said[k] * yes + (1 - said[k]) * no)
    return float(np.mean(found))


def weighed_agreement(
    triples: list[tuple[int, int, int]], weights: np.ndarray, given: np.ndarray, n: int, k: int
) -> np.ndarray:
    """Eq. 9 of Learn2Agree with a weight for each annotator, times that of the answer, over those who answered."""
    level = np.zeros((n, k))
    for sample in range(n):
        rows = zip(triples, given, strict=True)
        own = [(weights[worker] * share, label) for (i, worker, label), share in rows if i == sample]
        for weight, label in own:
            level[sample, label] += weight / sum(each for each, _ in own)
    return level


def weights_loss(
    probs: np.ndarray, triples: list[tuple[int, int, int]], weights: np.ndarray, given: np.ndarray
) -> float:
    """Gaussian noise of each annotator around predictions, by its precision; `given` are weights of the answers."""
    total = 0.0
    for (sample, worker, label), share in zip(triples, given / given.sum(), strict=True):
        error = np.mean([(float(label == k) - p) ** 2 for k, p in enumerate(probs[sample])])
        total += 0.5 * share * (weights[worker] * error - np.log(weights[worker]))
    return total


def single_confusion(probs: np.ndarray, matrix: np.ndarray, votes: np.ndarray, trace: float) -> float:
    """Cross-entropy of votes, which are distributions, with predictions through one matrix, and the matrix's trace."""
    total = 0.0
    for p, said in zip(probs, votes, strict=True):
        total -= sum(said[label] * np.log(p @ matrix[:, label]) for label in range(len(p)))
    return total / len(probs) + trace * np.trace(matrix)


def kappa_loss(probs: np.ndarray, answers: list[tuple[int, int, int, float]], reduction: str) -> float:
    """Sigmoid of log(1 − κ) of each worker and class, over all answers (sample, worker, label, weight), averaged."""
    of_sample: dict[int, float] = {}
    for sample, _, _, weight in answers:
        of_sample[sample] = of_sample.get(sample, 0.0) + weight
    workers = sorted({worker for _, worker, _, _ in answers})
    total = share = 0.0
    for worker in workers:
        own = [(sample, label, weight) for sample, who, label, weight in answers if who == worker]
        weights = np.array(
            [weight / of_sample[sample] if reduction == "sample" else weight for sample, _, weight in own]
        )
        counts = weights.sum() / len(own) if reduction == "worker" else weights.sum()
        share += 1.0 if reduction == "worker" else counts
        for k in range(probs.shape[1]):
            p = np.array([probs[sample, k] for sample, _, _ in own])
            r = np.array([float(label == k) for _, label, _ in own])
            observed = np.average(np.abs(r - p), weights=weights)
            mean_p, mean_r = np.average(p, weights=weights), np.average(r, weights=weights)
            kappa = 1 - observed / (mean_r * (1 - mean_p) + (1 - mean_r) * mean_p)
            total += counts / (1 + np.exp(-np.log(1 - kappa))) / probs.shape[1]
    return total / share


def coin_loss(
    probs: np.ndarray,
    confusion: np.ndarray,
    shifts: np.ndarray,
    triples: list[tuple[int, int, int]],
    outlier: float,
    p: float,
    zeta: float,
    volume: float,
) -> float:
    """COINNet's loss: cross-entropy of shifted answers, the samples' outlier terms, minus the volume."""
    entropy, squares = 0.0, np.zeros(len(probs))
    for (sample, worker, label), row in zip(triples, shifts, strict=True):
        shift = row - row.mean()
        answer = np.maximum(probs[sample] @ confusion[worker] + shift, 1e-6)
        entropy -= np.log(answer[label] / answer.sum())
        squares[sample] += (shift**2).sum()
    penalty = np.mean([(square + zeta) ** (p / 2) for square in squares])
    return float(entropy / len(triples) + outlier * penalty - volume * log_det_gram(probs))


def forecast(rows, priors: np.ndarray, confusion: np.ndarray) -> np.ndarray:
    """Posteriors of tasks with priors of their own: sums of logarithms."""
    logs = np.log(np.maximum(priors, 1e-30))
    for task, worker, label, weight in zip(rows.tasks, rows.workers, rows.labels, rows.weights, strict=True):
        logs[task] += weight * np.log(np.maximum(confusion[worker, :, label], 1e-30))
    return np.array([softmax(row) for row in logs])


def conal_loss(
    probs: np.ndarray,
    common: np.ndarray,
    own: np.ndarray,
    rates: np.ndarray,
    triples: list[tuple[int, int, int]],
    apart: float,
) -> float:
    """CoNAL: cross-entropy of softmax(p · (ω G + (1 − ω) A_m)), minus the mean distance of the A_m from G."""
    entropy = 0.0
    for (sample, worker, label), rate in zip(triples, rates, strict=True):
        layer = rate * common + (1 - rate) * own[worker]
        entropy -= np.log(softmax(probs[sample] @ layer)[label])
    far = np.mean([np.sqrt(((layer - common) ** 2).sum()) for layer in own])
    return float(entropy / len(triples) - apart * far)


def union_loss(probs: np.ndarray, transition: np.ndarray, triples: list[tuple[int, int, int]]) -> float:
    """UnionNet-B: mean over samples of the mean over its pairs of −log Σ_k p[k] T[m, l, k]; T[:, :, k] sums to one."""
    np.testing.assert_allclose(transition.sum(axis=(0, 1)), 1)
    total = np.zeros(len(probs))
    pairs = np.zeros(len(probs))
    for sample, worker, label in triples:
        total[sample] -= np.log(sum(probs[sample, k] * transition[worker, label, k] for k in range(probs.shape[1])))
        pairs[sample] += 1
    return float(np.mean(total / pairs))


def similarity_weights(embeddings: np.ndarray, gamma: float) -> np.ndarray:
    """MaDL: one over the sum of similarities with all workers, averaging one."""
    sums = [sum(np.exp(-gamma * ((a - b) ** 2).sum()) for b in embeddings) for a in embeddings]
    weights = 1 / np.array(sums)
    return weights / weights.mean()


def weighted_cross_entropy(
    probs: np.ndarray, matrices: np.ndarray, weights: np.ndarray, triples: list[tuple[int, int, int]]
) -> float:
    """Mean over labels of −w[m] log Σ_k p[k] C[label, k, l], with a matrix for each label."""
    total = 0.0
    for (sample, worker, label), matrix in zip(triples, matrices, strict=True):
        total -= weights[worker] * np.log(probs[sample] @ matrix[:, label])
    return total / len(triples)


def mixed_cross_entropy(
    probs: np.ndarray, matrices: np.ndarray, labels: np.ndarray, other: np.ndarray, share: np.ndarray
) -> float:
    """annot-mix: cross-entropy of soft labels, each a share of one label and the rest of another."""
    total = 0.0
    for i in range(len(labels)):
        answer = probs[i] @ matrices[i]
        soft = np.zeros(len(answer))
        soft[labels[i]] += share[i]
        soft[labels[other[i]]] += 1 - share[i]
        total -= float(soft @ np.log(answer))
    return total / len(labels)
