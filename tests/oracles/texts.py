"""Plain twins of what aligns and weighs texts."""

from __future__ import annotations

import math

import numpy as np


def edits(a, b) -> int:
    """Levenshtein's distance, by the whole table."""
    table = np.zeros((len(a) + 1, len(b) + 1), int)
    table[:, 0], table[0] = range(len(a) + 1), range(len(b) + 1)
    for i in range(len(a)):
        for j in range(len(b)):
            table[i + 1, j + 1] = min(table[i, j] + (a[i] != b[j]), table[i, j + 1] + 1, table[i + 1, j] + 1)
    return int(table[-1, -1])


def align_texts(texts: list[tuple[int, ...]], counts: list[int]) -> tuple[list[list[int]], int, float]:
    """Slots of each text's tokens, number of slots, and cost; a network is a list of rows, None for an empty slot."""
    n = len(texts)
    apart = [[edits(a, b) for b in texts] for a in texts]
    medoid = min(range(n), key=lambda a: (sum(c * d for c, d in zip(counts, apart[a], strict=True)), a))
    order = sorted(range(n), key=lambda a: (apart[medoid][a], a != medoid, a))
    rows: dict[int, list] = {}
    for text in order:
        _put(rows, text, _best(rows, counts, texts[text])[0])
    for _ in range(20):
        fell = False
        for text in range(n if n > 1 else 0):
            mine = rows.pop(text)
            kept = [j for j in range(len(mine)) if any(row[j] is not None for row in rows.values())]
            old = [mine[j] if j in kept else ("new", mine[j]) for j in range(len(mine))]
            rows = {key: [row[j] for j in kept] for key, row in rows.items()}
            path, cost = _best(rows, counts, texts[text])
            falls = cost < _price(rows, counts, old)
            fell |= falls
            _put(rows, text, path if falls else old)
        if not fell:
            break
    width = len(rows[0])
    places = [[j for j in range(width) if rows[text][j] is not None] for text in range(n)]
    cost = sum(
        counts[a] * counts[b] * sum(rows[a][j] != rows[b][j] for j in range(width)) for a in range(n) for b in range(a)
    )
    return places, width, float(cost)


def _said(rows, counts, j):
    return [(row[j], counts[text]) for text, row in rows.items()]


def _price(rows, counts, path) -> int:
    total, j, cost = sum(counts[text] for text in rows), 0, 0
    for step in path:
        if isinstance(step, tuple):
            cost += total
            continue
        cost += sum(count for said, count in _said(rows, counts, j) if said != step)
        j += 1
    return cost


def _best(rows, counts, text):
    """The cheapest path: for each slot what goes in, None for nothing, ("new", token) for a slot of its own."""
    total = sum(counts[key] for key in rows)
    width = len(next(iter(rows.values()))) if rows else 0
    cost = np.zeros((len(text) + 1, width + 1), int)
    step = np.zeros((len(text) + 1, width + 1), int)
    for i in range(len(text) + 1):
        for j in range(width + 1):
            ways = []
            if i and j:
                other = sum(count for said, count in _said(rows, counts, j - 1) if said != text[i - 1])
                ways.append((cost[i - 1, j - 1] + other, 0))
            if j:
                held = sum(count for said, count in _said(rows, counts, j - 1) if said is not None)
                ways.append((cost[i, j - 1] + held, 1))
            if i:
                ways.append((cost[i - 1, j] + total, 2))
            if ways:
                cost[i, j], step[i, j] = min(ways)
    path, i, j = [], len(text), width
    while i or j:
        now = step[i, j]
        path.append({0: text[i - 1] if i else None, 1: None, 2: ("new", text[i - 1] if i else None)}[int(now)])
        i -= now != 1
        j -= now != 2
    return path[::-1], int(cost[-1, -1])


def _put(rows, text, path) -> None:
    old = {key: iter(row) for key, row in rows.items()}
    for key in rows:
        rows[key] = [None if isinstance(step, tuple) else next(old[key]) for step in path]
    rows[text] = [step[1] if isinstance(step, tuple) else step for step in path]


def reading_pass(slots, rates, share, one):
    """Probabilities of the readings of each slot: slots are lists of (worker, token or None)."""
    right, omitted, inserted = rates
    found = []
    for said in slots:
        scores = {}
        for truth in sorted({token for _, token in said}, key=lambda token: (token is not None, token)):
            log = math.log(share) if truth is None else math.log((1 - share) * one)
            for worker, token in said:
                if truth is None:
                    log += math.log(1 - inserted[worker] if token is None else inserted[worker] * one)
                elif token is None:
                    log += math.log(omitted[worker])
                else:
                    wrong = 1 - right[worker] - omitted[worker]
                    log += math.log(right[worker] if token == truth else wrong * one)
            scores[truth] = log
        top = max(scores.values())
        total = sum(math.exp(score - top) for score in scores.values())
        found.append({truth: math.exp(score - top) / total for truth, score in scores.items()})
    return found


def shared_pass(slots, rates, one, *, levels, shares, nothing, variety):
    """Probabilities of the readings of each slot where errors are shared, and the logarithm of that of all slots.

    One by one: for each truth, None for nothing and "?" for a word that nobody wrote, and each level of difficulty.
    """
    right, omitted, inserted = rates
    found, total_log = [], 0.0
    for said in slots:
        words = sorted({token for _, token in said if token is not None})
        truths = ([None] if any(token is None for _, token in said) else []) + [*words, "?"]
        weights = {}
        for truth in truths:
            if truth is None:
                chance = nothing
                for worker, token in said:
                    chance *= 1 - inserted[worker] if token is None else inserted[worker] * one
                weights[truth] = chance
                continue
            # The urn of wrong words: each is drawn anew, or is one of those before.
            urn, before, drawn = 1.0, {}, 0
            for _, token in said:
                if token is not None and token != truth:
                    urn *= (before.get(token, 0) + variety * one) / (drawn + variety)
                    before[token] = before.get(token, 0) + 1
                    drawn += 1
            weights[truth] = 0.0
            for level, share in zip(levels, shares, strict=True):
                chance = (1 - nothing) * share * (1 - len(words) * one if truth == "?" else one) * urn
                for worker, token in said:
                    odds = right[worker] / (1 - right[worker]) * math.exp(level)
                    now = odds / (1 + odds)
                    left = (1 - now) / (1 - right[worker])
                    wrong = 1 - right[worker] - omitted[worker]
                    chance *= now if token == truth else left * (omitted[worker] if token is None else wrong)
                weights[truth] += chance
        total = sum(weights.values())
        total_log += math.log(total)
        found.append({truth: weight / total for truth, weight in weights.items()})
    return found, total_log


def centre_distances(points, weights):
    """Squared distances to the weighted mean of points."""
    centre = np.average(points, axis=0, weights=weights)
    return ((points - centre) ** 2).sum(axis=1)


def worker_weights(tasks, workers, points, counts, quantiles, *, local: bool, n_iter: int):
    """RASA, or HRRASA if `local`: weights of workers and of answers, by explicit centers of points."""
    apart = ((points[:, None] - points[None, :]) ** 2).sum(axis=2)
    others = (tasks[:, None] == tasks[None, :]) & ~np.eye(len(tasks), dtype=bool)
    own = np.ones(len(tasks))
    if local:
        mean_square = apart[others].mean()
        for row, near in enumerate(others):
            own[row] = np.exp(-apart[row, near] / mean_square).mean() if near.any() else 1.0
    weights = np.ones(len(quantiles))
    for _ in range(n_iter):
        sums = np.zeros(len(quantiles))
        for task in np.unique(tasks):
            here = np.flatnonzero(tasks == task)
            strength = weights[workers[here]] * counts[here] * own[here]
            distances = centre_distances(points[here], strength)
            np.add.at(sums, workers[here], counts[here] * distances / own[here])
        weights = quantiles / sums
        weights /= weights.mean()
    return weights, weights[workers] * counts * own
