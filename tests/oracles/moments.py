"""Moments by brute force: loops over the annotations of each task, in dictionaries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from oracles.em import Rows


def _tasks(rows: Rows) -> Iterator[list[tuple[int, int, float]]]:
    """The annotations (worker, label, weight) of each task."""
    for task in range(rows.n_tasks):
        yield [
            (int(rows.workers[i]), int(rows.labels[i]), float(rows.weights[i]))
            for i in np.flatnonzero(rows.tasks == task)
        ]


def moments_first(rows: Rows) -> np.ndarray:
    """Weight of each label of each worker, (M, K)."""
    out = np.zeros((rows.n_workers, rows.n_classes))
    np.add.at(out, (rows.workers, rows.labels), rows.weights)
    return out


def _joint(rows: Rows, size: int) -> dict[tuple[int, ...], np.ndarray]:
    """Weight of each combination of labels of each group of `size` different workers that share a task."""
    out: dict[tuple[int, ...], np.ndarray] = defaultdict(lambda: np.zeros((rows.n_classes,) * size))
    for spoken in _tasks(rows):
        for group in combinations(sorted(spoken), size):
            workers, labels, weights = zip(*group, strict=True)
            if len(set(workers)) == size:
                out[workers][labels] += np.prod(weights)
    return out


def _listed(
    joint: dict[tuple[int, ...], np.ndarray], kept: set[tuple[int, ...]], size: int, k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    groups = sorted(kept)
    blocks = np.array([joint[group] for group in groups]).reshape((-1, *(k,) * size))
    overlap = blocks.sum(axis=tuple(range(1, size + 1)))
    return np.array(groups, np.uint32).reshape(-1, size), overlap, blocks


def moments_pairs(rows: Rows, *, min_overlap: float, max_partners: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs, their overlaps and blocks: each among the best supported of one of the two."""
    joint = _joint(rows, 2)
    kept = set()
    for worker in range(rows.n_workers):
        mine = [pair for pair, block in joint.items() if worker in pair and 0 < block.sum() >= min_overlap]
        mine.sort(key=lambda pair: (-joint[pair].sum(), sum(pair) - worker))
        kept.update(mine[:max_partners])
    return _listed(joint, kept, 2, rows.n_classes)


def moments_triples(
    rows: Rows, pairs: np.ndarray, *, min_overlap: float, max_triples: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Triples, their overlaps and blocks: the best supported of those whose pairs are all in `pairs`."""
    joint = _joint(rows, 3)
    allowed = {tuple(pair) for pair in pairs.tolist()}
    kept = [
        triple
        for triple, block in joint.items()
        if 0 < block.sum() >= min_overlap and all(pair in allowed for pair in combinations(triple, 2))
    ]
    kept.sort(key=lambda triple: (-joint[triple].sum(), triple))
    return _listed(joint, set(kept[:max_triples]), 3, rows.n_classes)


def _voices(annotations: list[tuple[int, int, float]], groups: np.ndarray, k: int) -> np.ndarray:
    """Average label of each group, (3, K); zero where it said nothing."""
    voices = np.zeros((3, k))
    for worker, label, weight in annotations:
        voices[groups[worker], label] += weight
    totals = voices.sum(axis=1, keepdims=True)
    return np.divide(voices, totals, out=np.zeros_like(voices), where=totals > 0)


def moments_groups(rows: Rows, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Second (3, K, K) and third moments of three groups, and the number of tasks they are means over."""
    k = rows.n_classes
    voices = [_voices(spoken, groups, k) for spoken in _tasks(rows)]
    voices = [z for z in voices if (z.sum(axis=1) > 0).all()]
    if not voices:
        return np.zeros((3, k, k)), np.zeros((k, k, k)), 0
    second = np.mean([[np.outer(z[0], z[1]), np.outer(z[1], z[2]), np.outer(z[2], z[0])] for z in voices], axis=0)
    third = np.mean([np.einsum("i,j,l->ijl", *z) for z in voices], axis=0)
    return second, third, len(voices)


def moments_cross(rows: Rows, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean of each worker's label times the voice of the next group, (M, K, K), and the weight behind it."""
    k = rows.n_classes
    cross, overlap = np.zeros((rows.n_workers, k, k)), np.zeros(rows.n_workers)
    for spoken in _tasks(rows):
        voices = _voices(spoken, groups, k)
        for worker, label, weight in spoken:
            voice = voices[(groups[worker] + 1) % 3]
            if voice.sum() > 0:
                cross[worker, label] += weight * voice
                overlap[worker] += weight
    some = overlap > 0
    cross[some] /= overlap[some, None, None]
    return cross, overlap


def components(n_workers: int, pairs: np.ndarray) -> np.ndarray:
    """Component of each worker: the lowest number that spreads along the pairs until nothing changes."""
    lowest = np.arange(n_workers)
    for _ in range(n_workers):
        for a, b in pairs.tolist():
            lowest[a] = lowest[b] = min(lowest[a], lowest[b])
    return np.unique(lowest, return_inverse=True)[1]
