"""Plain twins of what finds spammers and colluders: loops over workers, pairs and annotations."""

import math

import numpy as np

from oracles import em, voting
from oracles.skills import Answer


def low_rank_fit(pairs, blocks, weights, start, *, ridge, max_iter, tol):
    """Ridge regressions of each worker's factor on all others', 32 groups of workers taking turns."""
    factor = np.array(start)
    n_workers, _, rank = factor.shape
    for n_iter in range(1, max_iter + 1):
        moved = 0.0
        for turn in range(min(32, n_workers)):
            fresh = {}
            for worker in range(turn, n_workers, 32):
                gram, right = ridge * np.eye(rank), np.zeros((factor.shape[1], rank))
                for (first, second), block, weight in zip(pairs, blocks, weights, strict=True):
                    if worker in (first, second):
                        other, mine = (second, block) if worker == first else (first, block.T)
                        gram += weight * factor[other].T @ factor[other]
                        right += weight * mine @ factor[other]
                fresh[worker] = right @ np.linalg.inv(gram)
            for worker, rows in fresh.items():
                moved = max(moved, np.abs(rows - factor[worker]).max())
                factor[worker] = rows
        if moved <= tol * np.abs(factor).max():
            return factor, n_iter, True
    return factor, max_iter, False


def low_rank_residuals(pairs, blocks, factor):
    """Trace and squared norm of what is left of each block."""
    rest = [block - factor[a] @ factor[b].T for (a, b), block in zip(pairs, blocks, strict=True)]
    return np.array([[np.trace(one), (one**2).sum()] for one in rest]).reshape(-1, 2)


def leave_one_out_sums(rows, posterior, confusion):
    """Each worker's labels by the posterior that the others' labels give."""
    n_workers, k, n_labels = confusion.shape
    cross, squares = np.zeros((n_workers, k, n_labels)), np.zeros((n_workers, k))
    for task, worker, label, weight in _each(rows):
        others = posterior[task] / np.maximum(confusion[worker, :, label], 1e-12) ** weight
        others /= others.sum()
        cross[worker, :, label] += weight * others
        squares[worker] += weight * others**2
    return cross, squares


def knowledge(rows, posterior, confusion):
    """Share of tasks whose class each worker knows, its error if none, and how the variance changes with the share."""
    found = []
    for worker in range(rows.n_workers):
        answers = []
        for task, who, label, _ in _each(rows):
            if who == worker:
                others = posterior[task] / np.maximum(confusion[worker, :, label], 1e-12)
                answers.append((others / others.sum(), label))
        n, k = len(answers), rows.n_classes
        mean = sum(q for q, _ in answers) / n
        spread = sum((q - mean) ** 2 for q, _ in answers) / n
        shares = (np.bincount([label for _, label in answers], minlength=k) + mean) / (n + 1)
        total = sum((q[label] - mean[label]) / shares[label] for q, label in answers)
        each = (spread / shares).sum()
        third = (spread * (1 - 2 * mean) / shares**2).sum()
        found.append((total / ((n - 1) * each), 1 / math.sqrt((n - 1) * each), third / each, each))
    return np.array(found)


def mixture(likelihood, shares, held):
    """EM for a distribution over points with one imaginary worker spread evenly; a share at the tenth may be held."""
    n, n_points = likelihood.shape
    for _ in range(500):
        counts = np.full(n_points, 1 / n_points)
        for row in likelihood:
            counts += row * shares / (row * shares).sum()
        fresh = counts / (n + 1)
        if held is not None:
            rest = fresh.sum() - fresh[9]
            fresh = fresh * (1 - held) / rest
            fresh[9] = held
        moved, shares = np.abs(fresh - shares).max(), fresh
        if moved < 1e-6:
            break
    return shares, sum(math.log((row * shares).sum()) for row in likelihood) + np.log(shares).sum() / n_points


def _each(rows):
    return zip(rows.tasks, rows.workers, rows.labels, rows.weights, strict=True)


def eliminate(counts, pseudo, share):
    """Mean confusion matrices over equal and free rows, and the probability of equal ones."""
    n_workers, k, _ = counts.shape
    confusion, spam = np.zeros_like(counts), np.zeros(n_workers)
    for worker in range(n_workers):
        free = sum(_evidence(counts[worker, c], pseudo[c]) for c in range(k))
        equal = _evidence(counts[worker].sum(axis=0), pseudo.mean(axis=0))
        odds = math.log(share / (1 - share)) + equal - free
        spam[worker] = 1 / (1 + math.exp(-odds)) if odds > -700 else 0.0
        flat = counts[worker].sum(axis=0) + pseudo.mean(axis=0)
        for c in range(k):
            row = counts[worker, c] + pseudo[c]
            confusion[worker, c] = (1 - spam[worker]) * row / row.sum() + spam[worker] * flat / flat.sum()
    return confusion, spam


def _evidence(counts, prior):
    """Evidence of counts, with Dirichlet probabilities summed out."""
    total = math.lgamma(prior.sum()) - math.lgamma(prior.sum() + counts.sum())
    return total + sum(math.lgamma(a + n) - math.lgamma(a) for a, n in zip(prior, counts, strict=True))


def fit_eliminating(rows, *, pseudo, class_pseudo, max_iter, tol):
    """Dawid–Skene that weighs in each pass whether a worker is a spammer."""
    n_tasks, n_workers, k = rows.n_tasks, rows.n_workers, rows.n_classes
    posterior, nobody = voting.shares(rows), np.full(n_tasks, -1)
    share, confusion = 0.5, np.zeros((n_workers, k, k))
    for _ in range(max_iter):
        before = confusion
        prior = (posterior.sum(axis=0) + class_pseudo) / (n_tasks + class_pseudo.sum())
        counts = np.zeros((n_workers, k, k))
        for task, worker, label, weight in _each(rows):
            counts[worker, :, label] += weight * posterior[task]
        confusion, spam = eliminate(counts, pseudo, share)
        share = (spam.sum() + 1) / (n_workers + 2)
        posterior = em.expect(rows, prior, confusion, nobody, hard=False)[0]
        if np.abs(confusion - before).max() <= tol:
            break
    return Answer(posterior, confusion, prior, np.zeros(0))


def answer_penalties(rows, *, hard):
    """What workers are charged with for contested answers: shares, or loads evened out one answer at a time."""
    givers = {}
    for task, worker, label, weight in _each(rows):
        if label < rows.n_classes and weight > 0:
            givers.setdefault(task, {}).setdefault(label, set()).add(worker)
    answers = [sorted(who) for by_label in givers.values() if len(by_label) > 1 for who in by_label.values()]
    counts = np.bincount([worker for who in answers for worker in who], minlength=rows.n_workers)
    if not hard:
        units = np.zeros(rows.n_workers)
        for who in answers:
            units[who] += 1 / len(who)
        return units, counts
    bearer = [who[0] for who in answers]
    loads = np.bincount(bearer, minlength=rows.n_workers)
    while _cost_reducing_path(answers, bearer, loads):
        pass
    return loads.astype(float), counts


def _cost_reducing_path(answers, bearer, loads):
    """Pass answers on from a worker to one with two fewer, if there is any such way (Harvey et al.)."""
    for source in np.argsort(-loads):
        came = {source: None}
        frontier = [source]
        while frontier:
            worker = frontier.pop(0)
            if loads[worker] <= loads[source] - 2:
                loads[worker] += 1
                loads[source] -= 1
                while came[worker] is not None:
                    answer, before = came[worker]
                    bearer[answer] = worker
                    worker = before
                return True
            for answer, who in enumerate(answers):
                if bearer[answer] == worker:
                    for other in who:
                        if other not in came:
                            came[other] = (answer, worker)
                            frontier.append(other)
    return False
