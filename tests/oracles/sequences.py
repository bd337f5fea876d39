"""Sequences in plain NumPy: chains by trying all of them, and the fit written from its formulas."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln

import manyhands as mh
from manyhands.sequences.tags import NO_TAG


def all_chains(evidence: np.ndarray, log_steps: np.ndarray) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """Every chain of tags, and the logarithm of its weight."""
    n, k = evidence.shape
    chains = list(product(range(k), repeat=n))
    weights = []
    for chain in chains:
        weight = log_steps[k, chain[0]] + evidence[0, chain[0]]
        for t in range(1, n):
            weight += log_steps[chain[t - 1], chain[t]] + evidence[t, chain[t]]
        weights.append(weight)
    return chains, np.array(weights)


def marginals(chains: list[tuple[int, ...]], weights: np.ndarray, k: int) -> np.ndarray:
    """Probability of each tag of each token."""
    p = np.exp(weights - weights.max())
    p /= p.sum()
    found = np.zeros((len(chains[0]), k))
    for chain, q in zip(chains, p, strict=True):
        found[np.arange(len(chain)), chain] += q
    return found


def spans_of(chain: tuple[int, ...], spans: bool) -> list[tuple[int, int, int]]:
    """Spans, or runs of a class: first token, first behind, type."""
    found = []
    for t, tag in enumerate(chain):
        if spans:
            if tag % 2 == 1:
                end = t + 1
                while end < len(chain) and chain[end] == tag + 1:
                    end += 1
                found.append((t, end, (tag - 1) // 2))
        elif t == 0 or chain[t - 1] != tag:
            end = t + 1
            while end < len(chain) and chain[end] == tag:
                end += 1
            found.append((t, end, tag))
    return found


def span_probabilities(
    chains: list[tuple[int, ...]], weights: np.ndarray, span: tuple[int, int, int], spans: bool
) -> tuple[float, float, float]:
    """Probability of exactly a span, of one of its type that begins there, and of one that ends there."""
    p = np.exp(weights - weights.max())
    p /= p.sum()
    marked = [spans_of(chain, spans) for chain in chains]
    start, end, kind = span
    return (
        float(sum(q for one, q in zip(marked, p, strict=True) if span in one)),
        float(sum(q for one, q in zip(marked, p, strict=True) if any(s[0] == start and s[2] == kind for s in one))),
        float(sum(q for one, q in zip(marked, p, strict=True) if any(s[1] == end and s[2] == kind for s in one))),
    )


def sweep(evidence: np.ndarray, log_steps: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Probabilities of tags and of steps of one sequence, and the logarithm of its total weight; all in logarithms."""
    n, k = evidence.shape

    def total(values: np.ndarray, axis: int) -> np.ndarray:
        return np.logaddexp.reduce(values, axis=axis)

    forward, backward = np.zeros((n, k)), np.zeros((n, k))
    forward[0] = log_steps[k] + evidence[0]
    for t in range(1, n):
        forward[t] = total(forward[t - 1][:, None] + log_steps[:k], 0) + evidence[t]
    for t in range(n - 2, -1, -1):
        backward[t] = total(log_steps[:k] + evidence[t + 1] + backward[t + 1], 1)
    whole = float(total(forward[-1], 0))
    steps = np.zeros((k + 1, k))
    steps[k] = np.exp(forward[0] + backward[0] - whole)
    for t in range(1, n):
        pair = forward[t - 1][:, None] + log_steps[:k] + evidence[t] + backward[t] - whole
        steps[:k] += np.exp(pair)
    return np.exp(forward + backward - whole), steps, whole


class Rows:
    """Every tag that somebody gave: token, worker, context, tag; and the tokens of each sequence."""

    def __init__(self, votes: mh.Sequences, contexts: bool) -> None:
        sequences, workers, offsets, codes = votes.readings()
        k = len(votes.tags)
        rows = []
        for reading, (sequence, worker) in enumerate(zip(sequences, workers, strict=True)):
            before = k
            for place, tag in enumerate(codes[offsets[reading] : offsets[reading + 1]]):
                if tag != NO_TAG:
                    token = int(votes._grid.starts[sequence]) + place
                    rows.append((token, int(worker), int(before) if contexts else 0, int(tag)))
                before = k if tag == NO_TAG else tag
        self.rows = np.array(rows)
        self.starts = votes._grid.starts
        self.sizes = (votes.n_tokens, votes.n_workers, k + 1 if contexts else 1, k)

    def shares(self) -> np.ndarray:
        """Share of each tag among what was said of each token."""
        n, _, _, k = self.sizes
        found = np.zeros((n, k))
        np.add.at(found, (self.rows[:, 0], self.rows[:, 3]), 1.0)
        return found / found.sum(axis=1, keepdims=True)

    def counts(self, posterior: np.ndarray) -> np.ndarray:
        """Expected counts, (workers, contexts, said, true)."""
        _, m, c, k = self.sizes
        found = np.zeros((m, c, k, k))
        token, worker, context, tag = self.rows.T
        np.add.at(found, (worker, context, tag), posterior[token])
        return found

    def evidence(self, logs: np.ndarray) -> np.ndarray:
        """What all readings say for each tag of each token."""
        n, _, _, k = self.sizes
        found = np.zeros((n, k))
        token, worker, context, tag = self.rows.T
        np.add.at(found, token, logs[worker, context, tag])
        return found


def _dirichlet(counts: np.ndarray, prior: np.ndarray, axis: int, variational: bool) -> tuple[np.ndarray, float]:
    """Logarithms that evidence is made of, and this part of the objective."""
    possible = np.broadcast_to(prior > 0, counts.shape)
    both = np.where(possible, counts + prior, 1.0)
    whole = np.where(possible, both, 0.0).sum(axis=axis, keepdims=True)
    whole = np.where(whole > 0, whole, 1.0)
    wide = np.broadcast_to(prior, counts.shape)
    if not variational:
        logs = np.where(possible, np.log(both / whole), -np.inf)
        return logs, float(np.where(possible, wide * np.where(possible, logs, 0), 0).sum())
    logs = np.where(possible, digamma(both) - digamma(whole), -np.inf)
    start = np.where(possible, wide, 0).sum(axis=axis, keepdims=True)
    lines = start > 0
    divergence = np.where(lines, gammaln(whole) - gammaln(np.where(lines, start, 1.0)), 0).sum()
    inner = gammaln(np.where(possible, wide, 1.0)) - gammaln(both) + counts * np.where(possible, logs, 0)
    return logs, -float(divergence + np.where(possible, inner, 0).sum())


def fit(
    votes: mh.Sequences,
    cells: np.ndarray,
    first: np.ndarray,
    *,
    steps_before: np.ndarray,
    contexts: bool,
    learn: bool,
    variational: bool,
    n_iter: int,
    start: np.ndarray | None = None,
    first_rounds: int = 0,
) -> dict[str, Any]:
    """The same passes as the compiled fit, from vote shares or from `start`."""
    rows = Rows(votes, contexts)
    legal = votes._tags.legal().astype(float)
    k = rows.sizes[3]
    posterior = rows.shares() if start is None else start.copy()
    steps = np.zeros((k + 1, k))
    for a, b in zip(rows.starts[:-1], rows.starts[1:], strict=True):
        steps[k] += posterior[a]
        steps[:k] += posterior[a : b - 1].T @ posterior[a + 1 : b]
    steps *= legal
    assert ((steps_before > 0) == (legal > 0)).all()
    now, history = first.copy(), []
    for step in range(n_iter):
        counts = rows.counts(posterior)
        if learn:
            for _ in range(2 if step else first_rounds):
                now = _learnt(counts, cells, first, now)
        prior = np.where(cells >= 0, now[cells], 0.0)
        logs, objective = _dirichlet(counts, prior[None], 2, variational)
        log_steps, more = _dirichlet(steps, steps_before, 1, variational)
        objective += more + (float((first * np.log(now) - now).sum()) if learn else 0.0)
        evidence = rows.evidence(logs)
        concentration, step_concentration = counts + prior[None], steps + steps_before
        steps = np.zeros((k + 1, k))
        for a, b in zip(rows.starts[:-1], rows.starts[1:], strict=True):
            posterior[a:b], part, weight = sweep(evidence[a:b], log_steps)
            steps += part
            objective += weight
        history.append(objective)
    return {
        "posterior": posterior,
        "history": np.array(history),
        "prior": now,
        "concentration": concentration,
        "steps": step_concentration,
        "evidence": evidence,
        "log_steps": log_steps,
    }


def legal_maximum(scores: np.ndarray, legal: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The legal tags of each sequence with the largest sum of scores; of equal ones the first, from the end."""
    codes = np.zeros(len(scores), np.int64)
    k = scores.shape[1]
    for a, b in pairwise(starts):
        best = [np.where(legal[k], scores[a], -np.inf)]
        for row in scores[a + 1 : b]:
            best.append(np.where(legal[:k], best[-1][:, None], -np.inf).max(axis=0) + row)
        tag = int(best[-1].argmax())
        codes[b - 1] = tag
        for t in range(b - a - 1, 0, -1):
            tag = int(np.where(legal[:k, tag], best[t - 1], -np.inf).argmax())
            codes[a + t - 1] = tag
    return codes


def _learnt(counts: np.ndarray, cells: np.ndarray, first: np.ndarray, now: np.ndarray) -> np.ndarray:
    """One step of Minka's fixed point with a Gamma density whose mode is the first prior."""
    prior = np.where(cells >= 0, now[cells], 0.0)
    gain, cost = np.zeros(len(first)), np.zeros(len(first))
    for worker in counts:
        for context, said, truth in np.argwhere(cells >= 0):
            total = worker[context, :, truth].sum()
            if total <= 0:
                continue
            kind, strength = cells[context, said, truth], prior[context, :, truth].sum()
            n = worker[context, said, truth]
            gain[kind] += digamma(n + now[kind]) - digamma(now[kind])
            cost[kind] += digamma(total + strength) - digamma(strength)
    return (first + now * gain) / (1 + cost)


def steps_read(votes: mh.Sequences) -> np.ndarray:
    """Imaginary steps and, in the last row, first tags: those of an average reader, counted one by one.

    A step's chance is that of its kind, whatever the types, times the share of its tag among those that such a step may
    lead to; a row of steps counts as often as there are tags.
    """
    names, legal = votes.tags.tolist(), votes._tags.legal()
    spans, k = votes._tags.spans, len(names)
    kind = (lambda a, b: (a[0], b[0])) if spans else (lambda a, b: a == b)
    times: dict[Any, float] = {}
    arrivals, firsts = dict.fromkeys(names, 1.0), dict.fromkeys(names, 0.0)
    sequences, _, offsets, codes = votes.readings()
    for reading, sequence in enumerate(sequences):
        said = [names[code] for code in codes[offsets[reading] : offsets[reading + 1]]]
        firsts[said[0]] += 1 / votes.labels_per_task[sequence]
        for a, b in pairwise(said):
            times[kind(a, b)] = times.get(kind(a, b), 0.0) + 1.0
            arrivals[b] += 1.0
    found = np.zeros((k + 1, k))
    for i, a in enumerate(names):
        allowed = [b for j, b in enumerate(names) if legal[i, j]]
        for b in allowed:
            alike = sum(arrivals[other] for other in allowed if kind(a, other) == kind(a, b))
            found[i, names.index(b)] = (times.get(kind(a, b), 0.0) + 1.0) * arrivals[b] / alike
        found[i] *= k / found[i].sum()
    found[k] = [legal[k, j] * (1.0 + firsts[name]) for j, name in enumerate(names)]
    return found
