"""Simulation of sequence annotations: workers miss, invent and confuse spans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_number
from manyhands._base.simulation import Simulation
from manyhands.sequences.table import Sequences

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SequencesSimulation(Simulation):
    """Simulated annotations, true tags (as a table with one worker, ``truth``) and worker skills."""

    log: Sequences
    truth: Sequences
    skills: Array

    def _truth(self) -> dict[str, Any]:
        frame = self.truth.to_frame()
        return {name: frame.column(name) for name in ("sequence", "position", "label")}


def simulate(
    n_tasks: int = 100,
    n_workers: int = 10,
    n_types: int = 2,
    *,
    length: int = 20,
    answers_per_task: int = 5,
    spans: float = 2.0,
    span_length: float = 2.0,
    skill: float = 0.85,
    spread: float = 0.1,
    jitter: float = 0.0,
    visibility: float = 0.0,
    seed: int = 0,
) -> SequencesSimulation:
    """Simulate annotations of sequences with spans.

    Parameters
    ----------
    n_tasks : int, default 100
        Number of sequences, with ids from 0.
    n_workers : int, default 10
        Number of workers, with ids from 0.
    n_types : int, default 2
        Number of span types: ``t0``, ``t1``, ….
    length : int, default 20
        Tokens per sequence.
    answers_per_task : int, default 5
        Workers per sequence, all different.
    spans : float, default 2.0
        Approximate mean number of spans per sequence.
    span_length : float, default 2.0
        Approximate mean number of tokens per span.
    skill : float, default 0.85
        Mean worker skill: the probability of the correct tag at each token.
    spread : float, default 0.1
        Standard deviation of worker skills, which are clipped to [0.05, 0.99].
    jitter : float, default 0.0
        Standard deviation of where workers mark the two ends of a span, in tokens.
    visibility : float, default 0.0
        Standard deviation between spans of the probability that a worker marks one; its mean is the worker's skill.
    seed : int, default 0
        Random seed.

    Returns
    -------
    SequencesSimulation
        ``log``, ``truth`` and ``skills``.

    Notes
    -----
    True tags are a Markov chain. The correct tag is the true tag, or ``O`` inside a span whose start the worker missed;
    errors are uniform over the other legal tags. With `jitter` or `visibility`, workers err by spans instead, as people
    who highlight passages do: they miss whole spans, mark ends that differ by some tokens, and mark passages that are
    not spans. Time O(annotated tokens), in Python.

    Examples
    --------
    >>> import manyhands as mh
    >>> drawn = mh.simulate(20, 4, kind="sequences", answers_per_task=3, seed=1)
    >>> drawn.log.n_annotations, drawn.log.n_tokens
    (60, 400)
    """
    for name, value in (("n_tasks", n_tasks), ("n_workers", n_workers), ("n_types", n_types)):
        check_number(name, value, least=1, whole=True)
    check_number("length", length, least=1, whole=True)
    check_number("answers_per_task", answers_per_task, least=1, most=n_workers, whole=True)
    check_number("spans", spans, least=0, most=length / 2)
    check_number("span_length", span_length, least=1)
    check_number("skill", skill, least=0, most=1)
    check_number("spread", spread, least=0)
    check_number("jitter", jitter, least=0)
    check_number("visibility", visibility, least=0)
    rng = np.random.default_rng(seed)
    skills = np.clip(rng.normal(skill, spread, n_workers), 0.05, 0.99)
    begin, more = spans / length, 1 - 1 / span_length
    truth = np.stack([_truth(rng, length, n_types, begin, more) for _ in range(n_tasks)])
    readers = np.stack([rng.choice(n_workers, answers_per_task, replace=False) for _ in range(n_tasks)])
    if jitter or visibility:
        extra = (spans, span_length, jitter)
        annotations = [
            reading
            for row, by in zip(truth, readers, strict=True)
            for reading in _highlights(rng, row, skills[by], n_types, visibility, *extra)
        ]
    else:
        annotations = [
            _reading(rng, row, skills[w], n_types) for row, by in zip(truth, readers, strict=True) for w in by
        ]
    names = np.array(["O"] + [f"{part}-t{kind}" for kind in range(n_types) for part in "BI"], object)
    tokens = np.arange(length)

    def table(of: npt.NDArray[np.int64], by: npt.NDArray[Any], codes: npt.NDArray[np.int64]) -> Sequences:
        return Sequences.from_arrays(
            np.repeat(of, length), np.tile(tokens, len(of)), np.repeat(by, length), names[codes], scheme="bio"
        )

    every = np.arange(n_tasks)
    log = table(np.repeat(every, answers_per_task), readers.reshape(-1), np.concatenate(annotations))
    true_tags = table(every, np.full(n_tasks, "truth", object), truth.reshape(-1))
    return SequencesSimulation(log=log, truth=true_tags, skills=skills, seed=seed)


def _truth(rng: np.random.Generator, length: int, n_types: int, begin: float, more: float) -> npt.NDArray[np.int64]:
    tags, before = np.zeros(length, np.int64), 0
    for token in range(length):
        if before and rng.random() < more:
            before = before + before % 2
        else:
            before = 1 + 2 * int(rng.integers(n_types)) if rng.random() < begin else 0
        tags[token] = before
    return tags


def _reading(
    rng: np.random.Generator, truth: npt.NDArray[np.int64], skill: float, n_types: int
) -> npt.NDArray[np.int64]:
    tags, before = np.zeros(len(truth), np.int64), 0
    for token, true in enumerate(truth.tolist()):
        inside = before > 0 and before + before % 2 == true
        right = (true if inside else 0) if true > 0 and true % 2 == 0 else true
        if rng.random() < skill:
            before = right
        else:
            others = [0, *range(1, 2 * n_types, 2), *([before + before % 2] if before else [])]
            others = [tag for tag in others if tag != right]
            before = int(rng.choice(others))
        tags[token] = before
    return tags


def _highlights(
    rng: np.random.Generator,
    truth: npt.NDArray[np.int64],
    skills: Array,
    n_types: int,
    visibility: float,
    spans: float,
    span_length: float,
    jitter: float,
) -> list[npt.NDArray[np.int64]]:
    """Readings of one sequence by workers who mark whole passages."""
    n = len(truth)
    starts = np.flatnonzero(truth % 2 == 1)
    inside = np.concatenate([(truth > 0) & (truth % 2 == 0), [False]])
    ends = [start + 1 + int(np.argmin(inside[start + 1 :])) for start in starts]
    offsets = rng.normal(0.0, visibility, len(starts))
    readings = []
    for skill in skills:
        marks: list[tuple[int, int, int]] = [
            (int(start) + round(rng.normal(0, jitter)), int(end) + round(rng.normal(0, jitter)), int(truth[start]))
            for start, end, offset in zip(starts, ends, offsets, strict=True)
            if rng.random() < np.clip(skill + offset, 0.02, 0.98)
        ]
        for _ in range(rng.poisson(spans * (1 - skill))):
            start = int(rng.integers(n))
            marks.append((start, start + int(rng.geometric(1 / span_length)), 1 + 2 * int(rng.integers(n_types))))
        tags = np.zeros(n, np.int64)
        for start, end, begin in marks:
            low, high = max(start, 0), min(max(end, start + 1), n)
            if low < high and not tags[low:high].any():
                tags[low:high] = begin + 1
                tags[low] = begin
        readings.append(tags)
    return readings
