"""Plain twins of binary questions, whether a sample is of a class, and of what annotators agree on in them."""

from __future__ import annotations

import numpy as np

from oracles.learn import Layer, Triples, layered, reduced, softmax


def towards_agreement(p: float, indicator: float, strength: float) -> float:
    """Eq. 4 of Learn2Agree."""
    up = p * np.exp(strength * (indicator - 0.5))
    return up / (up + (1 - p) * np.exp(strength * (0.5 - indicator)))


def agreement_regression(predicted: float, agreement: float) -> float:
    """Eq. 2 of Learn2Agree."""
    return max(agreement * (predicted - agreement), (agreement - 1) * (predicted - agreement))


def stream_loss(predicted: np.ndarray, agreement: np.ndarray, loss: str) -> float:
    """Mean over samples and classes of Eq. 2 of Learn2Agree, or the root mean square of Eq. 3."""
    pairs = list(zip(predicted.ravel(), agreement.ravel(), strict=True))
    if loss == "ar":
        return float(np.mean([agreement_regression(a, b) for a, b in pairs]))
    return float(np.sqrt(np.mean([(a - b) ** 2 for a, b in pairs])))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def distributed_agreement(
    features: np.ndarray, levels: Layer, indicator: list[Layer], n_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Of one sample, the level in each class by its distribution (Eq. 1 of Learn2Agree), and the indicator of that."""
    shares = [softmax(row) for row in layered(features, levels).reshape(n_classes, -1)]
    steps = len(shares[0]) - 1
    level = [sum(share * step / steps for step, share in enumerate(row)) for row in shares]
    return np.array(level), np.array([sigmoid(layered(row, *indicator))[0] for row in shares])


def linear_agreement(features: np.ndarray, levels: Layer) -> tuple[np.ndarray, np.ndarray]:
    """Of one sample, the level in each class by a linear layer, which is the indicator too."""
    level = sigmoid(layered(features, levels))
    return level, level


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


def focuses(triples: Triples, n_workers: int, n_classes: int) -> np.ndarray:
    """Power of the focal loss of each annotator and class."""
    said = [[label for _, worker, label in triples if worker == m] for m in range(n_workers)]
    return np.array([[focus(own.count(k), len(own)) for k in range(n_classes)] for own in said])


def answer_loss(probs: np.ndarray, said: np.ndarray, gamma: np.ndarray) -> float:
    """Mean over binary questions of the focal loss of one answer, a distribution; of two classes one is asked."""
    asked = [1] if len(probs) == 2 else range(len(probs))
    found = []
    for k in asked:
        yes, no = focal(probs[k], True, gamma[k]), focal(probs[k], False, gamma[k])
        found.append(said[k] * yes + (1 - said[k]) * no)
    return float(np.mean(found))


def answers_loss(probs: np.ndarray, triples: Triples, loss: str, reduction: str) -> float:
    """Loss of all answers, Eq. 6 of Learn2Agree where annotators count alike: cross-entropy, focal or kappa."""
    if loss == "kappa":
        return kappa_loss(probs, [(*triple, 1.0) for triple in triples], reduction)
    k = probs.shape[1]
    gamma = focuses(triples, 1 + max(worker for _, worker, _ in triples), k) * (loss == "focal")
    losses = [answer_loss(probs[sample], np.eye(k)[label], gamma[worker]) for sample, worker, label in triples]
    return reduced(losses, triples, reduction)


def weighed_agreement(triples: Triples, weights: np.ndarray, given: np.ndarray, n: int, k: int) -> np.ndarray:
    """Eq. 9 of Learn2Agree with a weight for each annotator, times that of the answer, over those who answered."""
    level = np.zeros((n, k))
    for sample in range(n):
        rows = zip(triples, given, strict=True)
        own = [(weights[worker] * share, label) for (i, worker, label), share in rows if i == sample]
        for weight, label in own:
            level[sample, label] += weight / sum(each for each, _ in own)
    return level


def weights_loss(probs: np.ndarray, triples: Triples, weights: np.ndarray, given: np.ndarray) -> float:
    """Gaussian noise of each annotator around predictions, by its precision; `given` are weights of the answers."""
    total = 0.0
    for (sample, worker, label), share in zip(triples, given / given.sum(), strict=True):
        error = np.mean([(float(label == k) - p) ** 2 for k, p in enumerate(probs[sample])])
        total += 0.5 * share * (weights[worker] * error - np.log(weights[worker]))
    return total


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
