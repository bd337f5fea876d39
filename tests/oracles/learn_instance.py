"""Plain twins of learners whose workers depend on the sample, or on one another: a sample, a label at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oracles.learn import Layer, Triples, free_confusion, layered, log_det_gram, relu, softmax


def instance_matrix(features: np.ndarray, sample: Layer, patterns: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Softmax of a worker's own logits and of what a layer makes of the sample times the worker's patterns."""
    made = layered(features, sample).reshape(len(own), len(patterns))
    return free_confusion((own + made @ patterns)[None], "softmax")[0]


def instance_trace_loss(probs: np.ndarray, matrices: list[np.ndarray], triples: Triples, trace: float) -> float:
    """Cross-entropy through a matrix for each label, and their mean trace, divided by the labels a sample has."""
    entropy = traces = 0.0
    for (sample, _, label), matrix in zip(triples, matrices, strict=True):
        entropy -= np.log(sum(probs[sample, k] * matrix[k, label] for k in range(len(matrix))))
        traces += sum(matrix[k, k] for k in range(len(matrix)))
    share = len(triples) / len(probs)
    return (entropy + trace / share * traces) / len(triples)


def coin_loss(
    probs: np.ndarray,
    confusion: np.ndarray,
    shifts: np.ndarray,
    triples: Triples,
    outlier: tuple[float, float, float],
    volume: float,
    ridge: float,
) -> float:
    """COINNet: cross-entropy of shifted answers, the samples' outlier terms (weight, power, zeta), minus the volume."""
    entropy, squares = 0.0, np.zeros(len(probs))
    for (sample, worker, label), row in zip(triples, shifts, strict=True):
        shift = row - row.mean()
        answer = np.maximum(probs[sample] @ confusion[worker] + shift, 1e-6)
        entropy -= np.log(answer[label] / answer.sum())
        squares[sample] += (shift**2).sum()
    weight, power, zeta = outlier
    penalty = np.mean([(square + zeta) ** (power / 2) for square in squares])
    return float(entropy / len(triples) + weight * penalty - volume * log_det_gram(probs, ridge))


def common_rate(sample: np.ndarray, worker: np.ndarray) -> float:
    """CoNAL: how far a worker follows the crowd in a sample, from the angle between their embeddings."""
    return 1 / (1 + np.exp(-(sample @ worker) / np.linalg.norm(sample) / np.linalg.norm(worker)))


def conal_loss(
    probs: np.ndarray,
    common: np.ndarray,
    own: np.ndarray,
    rates: list[float],
    triples: Triples,
    apart: float,
) -> float:
    """CoNAL: cross-entropy of softmax(p · (ω G + (1 − ω) A_m)), minus the mean distance of the A_m from G."""
    entropy = 0.0
    for (sample, worker, label), rate in zip(triples, rates, strict=True):
        layer = rate * common + (1 - rate) * own[worker]
        entropy -= np.log(softmax(probs[sample] @ layer)[label])
    far = np.mean([np.sqrt(((layer - common) ** 2).sum()) for layer in own])
    return float(entropy / len(triples) - apart * far)


def similarity_weights(embeddings: np.ndarray, gamma: float) -> np.ndarray:
    """MaDL: one over the sum of similarities with all workers, averaging one."""
    sums = [sum(np.exp(-gamma * ((a - b) ** 2).sum()) for b in embeddings) for a in embeddings]
    weights = 1 / np.array(sums)
    return weights / weights.mean()


def weighted_cross_entropy(
    probs: np.ndarray, matrices: list[np.ndarray], weights: np.ndarray, triples: Triples
) -> float:
    """Mean over labels of −w[m] log Σ_k p[k] C[label, k, l], with a matrix for each label."""
    total = 0.0
    for (sample, worker, label), matrix in zip(triples, matrices, strict=True):
        total -= weights[worker] * np.log(probs[sample] @ matrix[:, label])
    return total / len(triples)


def log_gamma_prior(value: float, concentration: float, rate: float) -> float:
    """Log-density of a gamma distribution, up to a constant."""
    return (concentration - 1) * np.log(value) - rate * value


def mixed(rows: np.ndarray, share: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Each row by its share, and another one by the rest."""
    return np.array([share[i] * row + (1 - share[i]) * rows[other[i]] for i, row in enumerate(rows)])


def mixed_cross_entropy(probs: np.ndarray, matrices: list[np.ndarray], soft: np.ndarray) -> float:
    """annot-mix: mean over mixtures of the cross-entropy of their soft labels with what their matrices answer."""
    total = 0.0
    for p, matrix, label in zip(probs, matrices, soft, strict=True):
        total -= float(label @ np.log(p @ matrix))
    return total / len(soft)


def most_likely(matrices: list[np.ndarray], triples: Triples, n: int, ratio: float) -> list[int | None]:
    """The class that makes a sample's labels `ratio` times as likely as any other does; None where there is none."""
    likelihood = np.ones((n, len(matrices[0])))
    for (sample, _, label), matrix in zip(triples, matrices, strict=True):
        likelihood[sample] *= matrix[:, label]
    found: list[int | None] = []
    for row in likelihood:
        second, first = np.sort(row)[-2:]
        found.append(int(row.argmax()) if first >= ratio * second else None)
    return found


@dataclass(frozen=True)
class Performance:
    """A network that makes confusion matrices of a sample's features and a worker's embedding, dropping nothing."""

    sample: Layer
    #: Of products of a worker's numbers with a sample's, (outputs × worker × sample).
    product: Layer
    hidden: list[Layer]
    output: Layer

    def matrix(self, features: np.ndarray, worker: np.ndarray) -> np.ndarray:
        """The confusion matrix of a worker in a sample, (true × observed)."""
        sample = layered(features, self.sample)
        weights, bias = self.product
        product = np.array([worker @ table @ sample for table in weights]) + bias
        hidden = layered(np.concatenate([worker, sample, product]), *self.hidden)
        logits = layered(relu(worker + hidden), self.output)
        k = round(np.sqrt(len(logits)))
        return free_confusion(logits.reshape(1, k, k), "softmax")[0]
