"""Chance agreement, drift and two-layer Dawid–Skene, written from the formulas: all sets of workers are looked at."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.special import kolmogorov

from oracles import bayes, em
from oracles.em import FLOOR, Rows

#: So many answers in a stratum weigh as much as a worker's matrix; probabilities are kept this far from 0 and 1.
STRENGTH = 10.0
LEAST = 1e-6


def habits(rows: Rows, posterior, confusion, strata) -> np.ndarray:
    """How each worker answers in each stratum, (workers, strata, true, observed)."""
    m, k = rows.n_workers, rows.n_classes
    counts = np.zeros((m, strata.max() + 1, k, k))
    for task, worker, label in zip(rows.tasks, rows.workers, rows.labels, strict=True):
        counts[worker, strata[task], :, label] += posterior[task]
    return (counts + STRENGTH * confusion[:, None]) / (counts.sum(axis=3, keepdims=True) + STRENGTH)


def chances(said, odds, label) -> np.ndarray:
    """(n, n): how probably both of two workers gave the label, one worker on the diagonal, given how many did."""
    n, count = len(said), int((said == label).sum())
    total, held = 0.0, np.zeros((n, n))
    for members in combinations(range(n), count):
        weight = np.prod(odds[list(members)])
        total += weight
        held[np.ix_(members, members)] += weight
    return held / total


def _tasks(rows: Rows, posterior, confusion, strata):
    """Each task's place, its workers, what they said, and the chances of each label that was given."""
    rates = habits(rows, posterior, confusion, strata)
    for task in range(rows.n_tasks):
        at = np.flatnonzero(rows.tasks == task)
        who, said = rows.workers[at], rows.labels[at]
        p = np.clip(np.einsum("k,jkl->jl", posterior[task], rates[who, strata[task]]), LEAST, 1 - LEAST)
        yield at, who, said, {label: chances(said, p[:, label] / (1 - p[:, label]), label) for label in np.unique(said)}


def pair_excess(rows: Rows, posterior, confusion, strata, min_overlap, share):
    """By pair of workers: (common, agreements, longest run, expected, variance, p-value)."""
    meetings: dict[tuple[int, int], list[tuple[bool, float]]] = {}
    for _, who, said, of_label in _tasks(rows, posterior, confusion, strata):
        both = sum(of_label.values())
        for i, j in combinations(range(len(who)), 2):
            meetings.setdefault((who[i], who[j]), []).append((said[i] == said[j], both[i, j]))
    found = {}
    for pair, met in meetings.items():
        agree, p = np.array([a for a, _ in met]), np.array([p for _, p in met])
        is_open = (p > 1e-12) & (p < 1 - 1e-12)
        if len(met) < min_overlap or not is_open.any():
            continue
        raised = p[is_open] + share * (1 - p[is_open])
        tail = np.array([1.0])
        for x in raised:
            tail = np.convolve(tail, [1 - x, x])
        told = agree[is_open].sum()
        p_value = tail[told:].sum() if told > raised.sum() else 1.0
        runs = [len(run) for run in "".join("x" if a else " " for a in agree).split()]
        found[pair] = (len(met), agree.sum(), max(runs, default=0), p.sum(), (p * (1 - p)).sum(), p_value)
    return found


def answer_drift(rows: Rows, posterior, confusion, strata, when, share=0.0):
    """By worker: (p-value, answers before the change, what changed, excess rate of each label before and since)."""
    m, k = rows.n_workers, rows.n_classes
    steps: list[list[tuple[float, np.ndarray, np.ndarray]]] = [[] for _ in range(m)]
    for at, who, said, of_label in _tasks(rows, posterior, confusion, strata):
        q = posterior[rows.tasks[at[0]]]
        for i, worker in enumerate(who):
            off, variance = np.zeros(k + 1), np.zeros(k + 1)
            if len(of_label) > 1:
                p = np.zeros(k)
                for label, held in of_label.items():
                    p[label] = held[i, i]
                off[:k] = (np.arange(k) == said[i]) - p
                variance[:k] = p * (1 - p)
                off[k], variance[k] = off[:k] @ q, (q**2) @ p - (q @ p) ** 2
            steps[worker].append((when[at[i]], off, variance))
    found = []
    for of_worker in steps:
        of_worker.sort(key=lambda step: step[0])
        times = np.array([step[0] for step in of_worker])
        off, variance = (np.array([step[j] for step in of_worker]).reshape(-1, k + 1) for j in (1, 2))
        whole, total = off.sum(axis=0), variance.sum(axis=0)
        some = total > 1e-9
        best = (0.0, 0, 0, np.zeros((k + 1, 2)))
        for i in range(len(times) - 1):
            if times[i + 1] > times[i]:
                bridge = np.zeros(k + 1)
                walked, clock = off[: i + 1].sum(axis=0), variance[: i + 1].sum(axis=0)
                strayed = np.abs(walked - clock / np.where(some, total, 1) * whole)
                strayed -= share * (i + 1) * (len(times) - i - 1) / len(times)
                bridge[some] = strayed[some] / np.sqrt(total[some])
                if bridge.max() > best[0] + 1e-12:
                    rates = np.column_stack([walked / (i + 1), (whole - walked) / (len(times) - i - 1)])
                    best = (bridge.max(), i + 1, int(bridge.argmax()), rates)
        found.append((min(1.0, some.sum() * kolmogorov(best[0])), *best[1:]))
    return found


def log_layers(rows: Rows, groups, members, answers, prior):
    """Log-probabilities of all a task's answers, (tasks, true) and by latent answer of each group, by plain sums."""
    n, k = rows.n_tasks, rows.n_classes
    sizes = np.bincount(groups, minlength=len(answers))
    latent = np.zeros((n, len(answers), k))
    for task, worker, label, weight in zip(rows.tasks, rows.workers, rows.labels, rows.weights, strict=True):
        latent[task, groups[worker]] += weight * np.log(np.maximum(members[worker, :, label], FLOOR))
    joint = np.log(np.maximum(prior, FLOOR))[None].repeat(n, axis=0)
    present = np.zeros((n, len(answers)), bool)
    present[rows.tasks, groups[rows.workers]] = True
    for task, group in zip(*np.nonzero(present), strict=True):
        logs = latent[task, group]
        if sizes[group] == 1:
            joint[task] += logs
        else:
            top = logs.max()
            joint[task] += top + np.log(
                np.maximum(answers[group] @ (np.exp(logs - top) / np.exp(logs - top).sum()), FLOOR)
            )
            joint[task] += np.log(np.exp(logs - top).sum())
    return joint, latent, present


def posterior(rows: Rows, groups, members, answers, prior) -> np.ndarray:
    """Class posteriors under given matrices."""
    joint = log_layers(rows, groups, members, answers, prior)[0]
    shares = np.exp(joint - joint.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def fit_grouped(rows: Rows, groups, members, answers, prior, *, pseudo, class_pseudo, max_iter, tol):
    """EM of the two layers from given matrices; returns a result, members and answers."""
    k, sizes = rows.n_classes, np.bincount(groups, minlength=len(answers))
    shared = sizes > 1
    history: list[float] = []
    while True:
        joint, latent, present = log_layers(rows, groups, members, answers, prior)
        top = joint.max(axis=1, keepdims=True)
        evidence = (top[:, 0] + np.log(np.exp(joint - top).sum(axis=1))).sum()
        q = np.exp(joint - top)
        q /= q.sum(axis=1, keepdims=True)
        density = sum((pseudo * np.log(np.maximum(x, FLOOR))).sum() for x in (members, answers[shared]))
        density += (class_pseudo * np.log(prior)).sum()
        history.append(evidence + density)
        done = bayes.settled(history, tol)
        if done or len(history) >= max_iter:
            break
        counts, said = np.zeros_like(answers), np.zeros_like(members)
        of_latent = np.zeros_like(latent)
        for task, group in zip(*np.nonzero(present), strict=True):
            if not shared[group]:
                of_latent[task, group] = q[task]
                continue
            z = np.exp(latent[task, group] - latent[task, group].max())
            both = answers[group] * (z / z.sum())
            both = q[task][:, None] * both / np.maximum(both.sum(axis=1, keepdims=True), FLOOR)
            counts[group] += both
            of_latent[task, group] = both.sum(axis=0)
        for task, worker, label, weight in zip(rows.tasks, rows.workers, rows.labels, rows.weights, strict=True):
            said[worker, :, label] += weight * of_latent[task, groups[worker]]
        members, answers = em_rows(said + pseudo), np.where(shared[:, None, None], em_rows(counts + pseudo), answers)
        prior = em.prior_of(q.sum(axis=0) + class_pseudo)
    answers = np.where(shared[:, None, None], answers, np.eye(k))
    confusion = np.einsum("mkz,mzl->mkl", answers[groups], members)
    return em.Result(q, confusion, prior, np.array(history), len(history), done), members, answers


def em_rows(counts: np.ndarray) -> np.ndarray:
    """Rows that sum to one, even where nothing was counted."""
    total = counts.sum(axis=-1, keepdims=True)
    return np.maximum(np.where(total > 0, counts / np.where(total > 0, total, 1), 1 / counts.shape[-1]), FLOOR)


def group_shares(rows: Rows, groups) -> np.ndarray:
    """Shares of the votes of groups; one that is divided divides its vote, whose weight is its heaviest member's."""
    k, shares = rows.n_classes, np.zeros((rows.n_tasks, rows.n_classes))
    sizes = np.bincount(groups)

    def said(chosen):
        return np.bincount(rows.labels[chosen], rows.weights[chosen], minlength=k)

    for task in range(rows.n_tasks):
        of_task = rows.tasks == task
        for group in np.unique(groups[rows.workers[of_task]]):
            mine = of_task & (groups[rows.workers] == group)
            if sizes[group] == 1:
                shares[task] += said(mine)
                continue
            best = said(mine) == said(mine).max()
            members = [mine & (rows.workers == worker) for worker in np.unique(rows.workers[mine])]
            shares[task] += best / best.sum() * max(said(member).sum() for member in members)
        shares[task] = shares[task] / shares[task].sum() if shares[task].sum() else 1 / k
    return shares
