"""Plain twins of the losses and posteriors of learning to defer: a case and an option at a time.

Nothing is shared with the library. Options are the experts and then the classifier; an answer of -1 is none.
"""

from __future__ import annotations

import numpy as np


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max())
    return e / e.sum()


def truth_given_answer(truth: int, answer: int, n_classes: int, smoothing: float) -> float:
    """The smoothed one-hot vector of an answer, at the true class."""
    return (1 - smoothing) * (answer == truth) + smoothing / n_classes


def complete_posterior(gate, probs, answers, truth, smoothing) -> np.ndarray:
    """Eq. 12 with experts who gave no answer left out (Eq. 15), one row."""
    k = len(probs)
    weights = [
        0.0 if answer < 0 else g * truth_given_answer(truth, answer, k, smoothing)
        for g, answer in zip(gate, answers, strict=False)
    ]
    weights.append(gate[-1] * probs[truth])
    return np.array(weights) / sum(weights)


def gate_loss(gate, target, options) -> float:
    """Cross-entropy of the gate's softmax over the options with the posterior over them, one row (Eqs. 11 and 15)."""
    kept = [j for j in range(len(gate)) if options[j]]
    probs, wanted = softmax(gate[kept]), target[kept] / target[kept].sum()
    return -sum(wanted * np.log(probs))


def charged(posterior, cost) -> np.ndarray:
    """A posterior of the option times exp(-cost), one row."""
    weights = np.array([q * np.exp(-c) for q, c in zip(posterior, cost, strict=True)])
    return weights / weights.sum()


def share_penalty(gate, lower, upper) -> float:
    """Squares by which mean probabilities, of rows of logits, lie outside of their bounds."""
    total = 0.0
    for j in range(gate.shape[1]):
        share = np.mean([softmax(row)[j] for row in gate])
        total += max(lower[j] - share, 0.0, share - upper[j]) ** 2
    return total


def case_penalty(gate, lower, upper) -> float:
    """Mean over cases of the squares by which the probabilities of each lie outside of their bounds."""
    total = 0.0
    for row in gate:
        for j, share in enumerate(softmax(row)):
            total += max(lower[j] - share, 0.0, share - upper[j]) ** 2
    return total / len(gate)


def mean_field(
    gate, experts, probs, answers, truth, smoothing, n_iter, released=False
) -> tuple[np.ndarray, np.ndarray]:
    """Eqs. 22 and 23 in turn, one row: every class of every expert by itself.

    In the released code the classifier is one more expert who gave no answer, but for Eq. 23.
    """
    m, k = experts.shape
    log_lik = np.log([truth_given_answer(truth, c, k, smoothing) for c in range(k)])
    q_t, q_z = experts.copy(), None
    for _ in range(n_iter):
        q_z = np.empty(m + 1)
        for j in range(m):
            expected = log_lik[answers[j]] if answers[j] >= 0 else sum(q_t[j, c] * log_lik[c] for c in range(k))
            q_z[j] = gate[j] * np.exp(expected)
        q_z[m] = gate[m] * (np.exp(sum(probs[c] * log_lik[c] for c in range(k))) if released else probs[truth])
        q_z /= q_z.sum()
        for j in range(m):
            q_t[j] = [experts[j, c] * np.exp(q_z[j] * log_lik[c]) for c in range(k)]
            q_t[j] /= q_t[j].sum()
    return q_z, q_t


def exact(gate, experts, probs, answers, truth, smoothing) -> tuple[np.ndarray, np.ndarray]:
    """The posterior by summing over the option and one expert's missing answer at a time, one row."""
    m, k = experts.shape
    joint = np.zeros((m + 1, k))  # option, and the answer of the expert it is
    for j in range(m):
        for c in range(k):
            chance = experts[j, c] if answers[j] < 0 else float(c == answers[j])
            joint[j, c] = gate[j] * chance * truth_given_answer(truth, c, k, smoothing)
    joint[m, truth] = gate[m] * probs[truth]
    joint /= joint.sum()
    q_z = joint.sum(axis=1)
    # Where another option was taken, an expert's answer is as it was before.
    q_t = np.array([joint[j] + (1 - q_z[j]) * experts[j] for j in range(m)])
    return q_z, q_t


def _joint_softmax(classes, experts, answers) -> np.ndarray:
    kept = [experts[j] if answers[j] >= 0 else -np.inf for j in range(len(answers))]
    return softmax(np.concatenate([classes, kept]))


def cross_entropy_surrogate(classes, experts, answers, truth, alpha) -> float:
    probs, k = _joint_softmax(classes, experts, answers), len(classes)
    right = [j for j in range(len(answers)) if answers[j] == truth]
    return -(alpha if right else 1.0) * np.log(probs[truth]) - sum(np.log(probs[k + j]) for j in right)


def one_vs_all(classes, experts, answers, truth) -> float:
    def logistic(z: float) -> float:
        return np.log(1 + np.exp(-z))

    loss = sum(logistic(g if k == truth else -g) for k, g in enumerate(classes))
    for g, answer in zip(experts, answers, strict=True):
        if answer >= 0:
            loss += logistic(g if answer == truth else -g)
    return loss


def realizable(classes, experts, answers, truth, alpha) -> float:
    probs, k = _joint_softmax(classes, experts, answers), len(classes)
    good = probs[truth] + sum(probs[k + j] for j in range(len(answers)) if answers[j] == truth)
    return -2 * alpha * np.log(good) - (1 - alpha) * np.log(softmax(classes)[truth])


def mixture(classes, gate, answers, truth, cost) -> float:
    """Expected loss of the option drawn; `cost` is that of asking each expert."""
    kept = np.array([gate[j] if answers[j] >= 0 else -np.inf for j in range(len(answers))] + [gate[-1]])
    option = softmax(kept)
    loss = -option[-1] * np.log(softmax(classes)[truth])
    for j, answer in enumerate(answers):
        loss += option[j] * ((answer != truth) + cost[j])
    return loss


def best_threshold(confidence, gain) -> float:
    """The most that can be gained by asking below a confidence, over all cuts between cases."""
    cuts = [-1.0, *np.unique(confidence)]
    return max(sum(g for c, g in zip(confidence, gain, strict=True) if c <= cut) for cut in cuts)


def mixmatch(guesses, mixed, answers, share, other, weight) -> np.ndarray:
    """MixMatch of experts' answers, (n, n_experts): cross-entropy where one was given, squares elsewhere.

    `guesses` are two views' probabilities, `mixed` those of the mixed features, in the same mixture as the answers.
    """
    n, m, k = mixed.shape
    targets = np.empty((n, m, k))
    for i, j in np.ndindex(n, m):
        sharp = ((guesses[0][i, j] + guesses[1][i, j]) / 2) ** 2
        targets[i, j] = np.eye(k)[answers[i, j]] if answers[i, j] >= 0 else sharp / sharp.sum()
    loss = np.empty((n, m))
    for i, j in np.ndindex(n, m):
        target = share * targets[i, j] + (1 - share) * targets[other[i], j]
        given = answers[i, j] >= 0
        loss[i, j] = -target @ np.log(mixed[i, j]) if given else weight * np.mean((mixed[i, j] - target) ** 2)
    return loss


def fixmatch(weak, strong, answers) -> np.ndarray:
    """FixMatch of experts' answers, (n, n_experts): those given in a weak view, guesses of 95 % in a strong one."""
    loss = np.zeros(answers.shape)
    for i, j in np.ndindex(*answers.shape):
        if answers[i, j] >= 0:
            loss[i, j] = -np.log(weak[i, j, answers[i, j]])
        elif weak[i, j].max() >= 0.95:
            loss[i, j] = -np.log(strong[i, j, weak[i, j].argmax()])
    return loss
