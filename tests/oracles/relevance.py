"""A plain version of pooled relevance: rows are answers to a task for each label that somebody said of it."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, expit

import manyhands as mh


class Effects:
    """Rates of pairs ~ Beta(strength · pooled), the logit of pooled = centre + worker + label."""

    def __init__(self, workers: np.ndarray, labels: np.ndarray, m: int, k: int, centre: float) -> None:
        self.at = {"labels": (labels, k), "workers": (workers, m)}
        self.centre, self.strength = centre, 10.0
        self.effects = {"labels": np.zeros(k), "workers": np.zeros(m)}
        self.variances = {"labels": 1.0, "workers": 1.0}

    def logits(self) -> np.ndarray:
        return self.centre + sum(self.effects[name][index] for name, (index, _) in self.at.items())

    def improve(self, yes: np.ndarray, no: np.ndarray) -> np.ndarray:
        for _ in range(2):
            p = np.clip(expit(self.logits()), 1e-9, 1 - 1e-9)
            shares, counts = np.array([p, 1 - p]), np.array([yes, no])
            at = self.strength * shares
            gains = np.where(counts > 0, digamma(counts + at) - digamma(at), 0.0)
            draws = at * gains
            total = np.where(yes + no > 0, digamma(yes + no + self.strength) - digamma(self.strength), 0.0).sum()
            if total > 0:
                self.strength = float(np.clip(self.strength * (shares * gains).sum() / total, 1e-2, 1e4))
            slope, curve = self.slopes(draws)
            self.centre += np.clip(slope.sum() / (curve.sum() + 1), -2, 2)
            for name, (index, n) in self.at.items():
                slope, curve = self.slopes(draws)
                variance, effect = self.variances[name], self.effects[name]
                curved = np.bincount(index, curve, minlength=n) + 1 / variance
                step = (np.bincount(index, slope, minlength=n) - effect / variance) / curved
                self.effects[name] = effect + np.clip(step, -2, 2)
                self.variances[name] = (1 + (self.effects[name] ** 2 + 1 / curved).sum()) / (n + 1)
        p = np.clip(expit(self.logits()), 1e-9, 1 - 1e-9)
        return (yes + self.strength * p) / (yes + no + self.strength)

    def slopes(self, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p, total = expit(self.logits()), draws.sum(axis=0)
        return draws[0] - total * p, total * p * (1 - p)


def fit(
    answers: mh.MultiLabels, max_iter: int, start: np.ndarray | None = None
) -> tuple[dict[tuple[int, int], float], list[np.ndarray], np.ndarray]:
    """Probability of each candidate (task, label), rates of hits and false alarms by pair, shares of the labels.

    `start` has the shares of labels that patterns begin with; the shares of labels are then those of all patterns.
    """
    n, m, k = answers.n_tasks, answers.n_workers, answers.n_labels
    tasks, workers, _ = (part.astype(int).tolist() for part in answers.codes())
    said = [set() for _ in tasks]
    for answer, label in zip(*answers.said(), strict=True):
        said[answer].add(int(label))
    candidates = sorted({(tasks[a], label) for a, labels in enumerate(said) for label in labels})
    rows = [
        (c, workers[a], label, label in said[a])
        for c, (task, label) in enumerate(candidates)
        for a in range(len(tasks))
        if tasks[a] == task
    ]
    pairs = sorted({(worker, label) for _, worker, label, _ in rows})
    of = np.array([c for c, *_ in rows], int)
    pair = np.array([pairs.index((worker, label)) for _, worker, label, _ in rows], int)
    yes = np.array([told for *_, told in rows], bool)
    pair_workers, pair_labels = (np.array([p[i] for p in pairs], int) for i in range(2))
    n_answers = np.bincount(workers, minlength=m)
    spare = n_answers[pair_workers] - np.bincount(pair, minlength=len(pairs))
    q = np.bincount(of, yes) / np.bincount(of)
    kinds = [Effects(pair_workers, pair_labels, m, k, centre) for centre in (0.0, -3.0)]
    label_of = np.array([label for _, label in candidates], int)
    task_of = np.array([task for task, _ in candidates], int)
    rho = (start if start is not None else (np.bincount(label_of, q, minlength=k) + 0.5)[None] / (n + 1)).copy()
    now = np.full(len(rho), 1 / len(rho)), rho
    for _ in range(max_iter):
        pi, rho = now
        hits, misses, alarms, refusals = (
            np.bincount(pair, part, minlength=len(pairs))
            for part in (q[of] * yes, q[of] * ~yes, (1 - q[of]) * yes, (1 - q[of]) * ~yes)
        )
        rates = [kinds[0].improve(hits, misses), kinds[1].improve(alarms, refusals + spare)]
        told = np.where(yes, np.log(rates[0] / rates[1])[pair], np.log((1 - rates[0]) / (1 - rates[1]))[pair])
        q, *now = mixture(np.bincount(of, told), task_of, label_of, pi, rho, n)
    return dict(zip(candidates, q.tolist(), strict=True)), rates, pi @ rho


def mixture(
    told: np.ndarray, task_of: np.ndarray, label_of: np.ndarray, pi: np.ndarray, rho: np.ndarray, n: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Posteriors where tasks are of patterns, and the patterns anew: every task, pattern and label written out."""
    said, odds = np.zeros((n, rho.shape[1]), bool), np.zeros((n, rho.shape[1]))
    said[task_of, label_of], odds[task_of, label_of] = True, told
    # Given the pattern: of the answers where a label is true, over those where it is not.
    evidence = np.where(said[:, None], 1 - rho + rho * np.exp(odds)[:, None], 1 - rho)
    of_pattern = pi * evidence.prod(axis=2)
    of_pattern /= of_pattern.sum(axis=1, keepdims=True)
    true = np.where(said[:, None], rho * np.exp(odds)[:, None] / evidence, 0.0) * of_pattern[:, :, None]
    overall = (true.sum(axis=(0, 1)) + 0.5) / (n + 1)
    if len(pi) == 1:
        rho = overall[None]
    else:
        tasks = of_pattern.sum(axis=0)
        pi, rho = (tasks + 1) / (n + len(pi)), (true.sum(axis=0) + 5 * overall) / (tasks[:, None] + 5)
    return true.sum(axis=1)[task_of, label_of], pi, rho
