"""Max-margin majority vote and Crowd-SVM, one task at a time with dense vectors over the workers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax, softmax

from oracles import voting
from oracles.em import Rows

#: A share of the cost below this is none, and so is a difference below this share of the margin.
NOTHING = 1e-12
#: Another class must have this much more, as a share of the margin or its score, to take an answer's place.
CLEAR = 1e-12


@dataclass
class Margin:
    weights: np.ndarray
    answers: np.ndarray
    history: list[float]


def indicators(rows: Rows) -> np.ndarray:
    """How much each worker voted for each class of each task, (N, K, M)."""
    votes = np.zeros((rows.n_tasks, rows.n_classes, rows.n_workers))
    np.add.at(votes, (rows.tasks, rows.labels, rows.workers), rows.weights)
    return votes


def classes_named(rows: Rows) -> list[list[int]]:
    """The classes named on each task, in the order of their codes."""
    return [sorted(set(rows.labels[rows.tasks == n].tolist())) for n in range(rows.n_tasks)]


def majority(rows: Rows) -> np.ndarray:
    return np.array([voting.leaders(share)[0] for share in voting.shares(rows)])


def lack(scores: np.ndarray, answer: int, margin: float) -> float:
    others = np.delete(scores, answer)
    return max(0.0, margin - (scores[answer] - others.max())) if len(others) else 0.0


def winner(scores: np.ndarray, answer: int, margin: float) -> int:
    near = scores >= scores.max() - CLEAR * max(abs(scores.max()), margin)
    return answer if near[answer] else int(near.argmax())


def margin_fit(rows: Rows, *, cost: float, margin: float, max_iter: int, tol: float) -> Margin:
    """By turns: sweeps over the dual variables of each task, then the answers with the greatest scores."""
    n, k, m = rows.n_tasks, rows.n_classes, rows.n_workers
    g, named = indicators(rows), classes_named(rows)
    answers, dual, weights = majority(rows), np.zeros((n, k)), np.zeros(m)
    objective, history = np.inf, []

    def sums(of_answers):
        return sum(((dual[i, d] * (g[i, of_answers[i]] - g[i, d])) for i in range(n) for d in range(k)), np.zeros(m))

    def value(eta, of_answers):
        return eta @ eta / 2 + cost * sum(lack(g[i] @ eta, of_answers[i], margin) for i in range(n))

    for _ in range(max_iter):
        eta, settled = sums(answers), False
        for _ in range(20):
            for i, y in enumerate(answers):
                eta += visit(g[i], named[i], y, dual[i], eta, cost, margin)
            eta = sums(answers)
            above, below = value(eta, answers), margin * dual.sum() - eta @ eta / 2
            if above - below <= tol * above:
                settled = True
                break
        last = objective
        if value(eta, answers) <= objective:
            better = np.array([winner(g[i] @ eta, y, margin) for i, y in enumerate(answers)], int)
            dual[better != answers] = 0.0
            weights, answers, objective = eta.copy(), better, value(eta, better)
        history.append(-objective)
        if settled and last - objective < tol * max(objective, np.finfo(float).tiny):
            break
    return Margin(weights, answers, history)


def visit(g, named, answer, dual, eta, cost, margin):
    """Move cost between two classes of a task, in place; returns the change of the weights.

    `dual` holds the shares of all classes but the answer; one class stands for all that nobody named.
    """
    k = len(g)
    unnamed = [d for d in range(k) if d not in named and d != answer][:1]
    rivals = [d for d in named if d != answer] + unnamed
    rest = cost - dual[rivals].sum()
    most, least, near = None, None, NOTHING * margin
    for d in [*rivals, answer]:
        pressure = g[d] @ eta + margin * (d != answer)
        share = rest if d == answer else dual[d]
        if share > NOTHING * cost and (least is None or pressure < least[1] - near):
            least = (d, pressure, share)
    for d in [answer, *rivals]:
        pressure = g[d] @ eta + margin * (d != answer)
        if most is None or pressure > most[1] + near:
            most = (d, pressure)
    if least is None or most[1] - least[1] <= near:
        return 0.0
    change = g[least[0]] - g[most[0]]
    square = change @ change
    amount = min(least[2], (most[1] - least[1]) / square if square > 0 else np.inf)
    for d, sign in ((least[0], -1), (most[0], 1)):
        if d != answer:
            dual[d] += sign * amount
    return amount * change


def vote_softmax(rows: Rows, weights) -> np.ndarray:
    return softmax(indicators(rows) @ weights, axis=1)


def log_odds_a_weight(rows: Rows, weights, answers, margin: float) -> float:
    right = rows.labels == answers[rows.tasks]
    agree, total = np.zeros(rows.n_workers), np.zeros(rows.n_workers)
    np.add.at(agree, rows.workers, rows.weights * right)
    np.add.at(total, rows.workers, rows.weights)
    log_odds = np.log((agree + 1) / (total - agree + 1) * max(rows.n_classes - 1, 1))
    square = (total * weights**2).sum()
    factor = (total * weights * log_odds).sum() / square if square > 0 else 0.0
    return factor if factor > 0 else 1 / margin


# ------------------------------------------------------------------------------------------------------ Crowd-SVM


MASK, GOLDEN = 2**64 - 1, 0x9E3779B97F4A7C15


def scramble(word: int) -> int:
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


class Stream:
    """SplitMix64, and draws from it."""

    def __init__(self, *words: int) -> None:
        self.state = 0
        for word in words:
            self.state = scramble(((self.state + GOLDEN) & MASK) ^ word)

    def unit(self) -> float:
        self.state = (self.state + GOLDEN) & MASK
        return 1.0 - (scramble(self.state) >> 11) / 2**53

    def normal(self) -> float:
        length = np.sqrt(-2 * np.log(self.unit()))
        return length * np.cos(2 * np.pi * self.unit())

    def log_gamma(self, shape: float) -> float:
        if shape < 1:
            return self.log_gamma(shape + 1) + np.log(self.unit()) / shape
        d = shape - 1 / 3
        while True:
            x = self.normal()
            v = (1 + x / np.sqrt(9 * d)) ** 3
            if v > 0 and np.log(self.unit()) < x**2 / 2 + d * (1 - v + np.log(v)):
                return np.log(d) + np.log(v)

    def inverse_gaussian(self, mean: float) -> float:
        y = self.normal() ** 2
        small = 4 * mean / (np.sqrt(mean * y) + np.sqrt(mean * y + 4)) ** 2
        return small if self.unit() <= mean / (mean + small) else mean**2 / small


def crowd_svm_fit(rows: Rows, *, cost, margin, variance, pseudo_count, draws: int, burn_in: int, seed: int):
    """Sweeps from the majority vote; means of posteriors, confusion matrices and weights."""
    n, k, m = rows.n_tasks, rows.n_classes, rows.n_workers
    g, answers, eta = indicators(rows), majority(rows), np.ones(m)
    named = classes_named(rows)
    posteriors, matrices, weights = [], [], []
    for sweep in range(burn_in + draws):
        counts = np.full((m, k, k), float(pseudo_count))
        np.add.at(counts, (rows.workers, answers[rows.tasks], rows.labels), rows.weights)
        logs = np.zeros((m, k, k))
        for w in range(m):
            stream = Stream(seed, 1, sweep, w)
            drawn = [[stream.log_gamma(a) for a in row] for row in counts[w]]
            logs[w] = log_softmax(np.array(drawn), axis=1)
        posterior = conditional(rows, g, logs, eta, cost, margin)
        leads, scales = np.zeros((n, m)), np.zeros(n)
        for i in range(n):
            stream = Stream(seed, 2, sweep, i)
            answers[i] = min(int((np.cumsum(posterior[i]) < stream.unit()).sum()), k - 1)
            if k > 1:
                rival = rival_of(g[i] @ eta, named[i], answers[i])
                leads[i] = g[i, answers[i]] - g[i, rival]
                loss = max(abs(margin - leads[i] @ eta), 1e-6)
                scales[i] = stream.inverse_gaussian(1 / (cost * loss))
        for w in range(m):
            x, others = leads[:, w], leads @ eta - leads[:, w] * eta[w]
            precision = 1 / variance + (cost**2 * scales * x**2).sum()
            pull = (cost * x * (1 + cost * scales * (margin - others))).sum()
            eta[w] = pull / precision + Stream(seed, 3, sweep, w).normal() / np.sqrt(precision)
        if sweep >= burn_in:
            posteriors.append(posterior)
            matrices.append(np.exp(logs))
            weights.append(eta.copy())
    return np.mean(posteriors, axis=0), np.mean(matrices, axis=0), np.mean(weights, axis=0)


def rival_of(scores, named, answer: int) -> int:
    """The other class with the greatest score: of equal ones that named first, then any that nobody named."""
    unnamed = [d for d in range(len(scores)) if d not in named and d != answer][:1]
    return max([d for d in named if d != answer] + unnamed, key=lambda d: scores[d])


def conditional(rows: Rows, g, logs, eta, cost, margin) -> np.ndarray:
    """Class probabilities of each task given confusion matrices (as logarithms) and weights, (N, K)."""
    joint = np.zeros((rows.n_tasks, rows.n_classes))
    np.add.at(joint, rows.tasks, rows.weights[:, None] * logs[rows.workers, :, rows.labels])
    for i in range(rows.n_tasks):
        scores = g[i] @ eta
        joint[i] -= 2 * cost * np.array([lack(scores, c, margin) for c in range(rows.n_classes)])
    return softmax(joint, axis=1)


def crowd_svm_posterior(rows: Rows, confusion, weights, *, cost, margin) -> np.ndarray:
    return conditional(rows, indicators(rows), np.log(np.maximum(confusion, 1e-30)), weights, cost, margin)
