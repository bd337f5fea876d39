"""Twin of the general scheme for answers with a distance, and of the distances."""

import numpy as np


def levenshtein(a, b):
    """Edits between two texts, as a share of the longer one."""
    table = np.zeros((len(a) + 1, len(b) + 1))
    table[:, 0], table[0] = np.arange(len(a) + 1), np.arange(len(b) + 1)
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            replaced = table[i - 1, j - 1] + (a[i - 1] != b[j - 1])
            table[i, j] = min(replaced, table[i - 1, j] + 1, table[i, j - 1] + 1)
    return table[-1, -1] / max(len(a), len(b), 1)


def jaccard(a, b):
    both = set(a) | set(b)
    return 1 - len(set(a) & set(b)) / len(both) if both else 0.0


def kendall(a, b):
    """Share of pairs of common items in another order; a half where fewer than two are common."""
    common = [item for item in a if item in b]
    pairs = [(x, y) for i, x in enumerate(common) for y in common[i + 1 :]]
    if not pairs:
        return 0.0 if list(a) == list(b) else 0.5
    return sum(b.index(x) > b.index(y) for x, y in pairs) / len(pairs)


def scheme(tasks, workers, n_workers, distance, *, power, strength, turns, values=None):
    """So many turns; `distance(i, j)` is that of two rows, whose own order breaks ties. Means where values are given.

    Returns rows or means, weights, losses and the objective after each turn.
    """
    weights, average, history = np.ones(n_workers), None, []
    given = np.bincount(workers, minlength=n_workers)
    for turn in range(turns + 1):
        answers, loss = [], np.zeros(len(workers))
        for task in range(tasks.max() + 1):
            rows = np.flatnonzero(tasks == task)
            if values is not None:
                answers.append(np.average(values[rows], axis=0, weights=weights[workers[rows]]))
                loss[rows] = ((values[rows] - answers[-1]) ** 2).sum(axis=1)
                continue
            apart = np.array([[distance(a, b) for b in rows] for a in rows])
            costs, plain = apart @ weights[workers[rows]], apart.sum(axis=1)
            best = min(range(len(rows)), key=lambda a: (round(costs[a], 9), round(plain[a], 9), rows[a]))
            answers.append(rows[best])
            # Equals share the losses, whichever of them is told.
            loss[rows] = apart[np.isclose(costs, costs.min(), rtol=1e-9, atol=0)].mean(axis=0)
        sums = np.bincount(workers, loss, n_workers)
        average = sums.sum() / len(workers) if average is None else average
        counts = given + strength
        losses = (sums + strength * average) / counts
        if turn == turns:
            return np.array(answers), weights, losses, np.array(history)
        weights = best_weights(losses, counts, power)
        history.append((weights * losses * counts).sum())
    raise AssertionError


def best_weights(losses, counts, power):
    share = losses / np.average(losses, weights=counts)
    if power is None:
        return np.maximum(np.log((len(losses) + 1) / share), 0)
    if power == 1:
        return np.exp(np.average(np.log(share), weights=counts)) / share
    return np.average(share ** (1 - power), weights=counts) ** (power / (1 - power)) / share**power
