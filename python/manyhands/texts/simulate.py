"""Simulated crowds who write texts: a log whose truth is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_number
from manyhands._base.simulation import Simulation
from manyhands._base.values import as_objects
from manyhands.numeric.simulate import raters
from manyhands.texts.table import Texts

__all__ = ["TextsSimulation", "simulate"]

Floats = npt.NDArray[np.float64]

#: How often hard words are misheard, at least, and heard as one of the two that sound alike.
_MISHEARD, _ALIKE = 0.6, 0.5


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TextsSimulation(Simulation):
    """A simulated log of texts and everything that is hidden behind a real one.

    Attributes
    ----------
    log : Texts
        The answers of the simulated workers.
    truth : ndarray of shape (n_tasks,)
        The text of each task, aligned with ``log.tasks``.
    right, omitted, inserted : ndarray of shape (n_workers,)
        Probabilities that a worker writes a word as it is, leaves it out, and adds one after a word; aligned with
        ``log.workers``.
    seed : int
        What all draws followed from.
    """

    log: Texts
    truth: npt.NDArray[np.object_]
    right: Floats
    omitted: Floats
    inserted: Floats

    def _summary(self) -> str:
        return f"{super()._summary()}; {float(np.mean(self.right)):.0%} of words right"


def simulate(
    n_tasks: int = 100,
    n_workers: int = 20,
    *,
    answers_per_task: int = 5,
    words: int = 10,
    vocabulary: int = 1000,
    wrong: float = 0.1,
    omitted: float = 0.05,
    inserted: float = 0.05,
    spread: float = 1.0,
    hard: float = 0.0,
    seed: int = 0,
) -> TextsSimulation:
    """Draw a crowd that writes texts, and what it writes.

    Parameters
    ----------
    n_tasks, n_workers
        Sizes. Tasks and workers are named 0, 1, ….
    answers_per_task
        How many different workers write each text, drawn at random.
    words, vocabulary
        Words of a true text, and how many different ones there are; word k is as frequent as 1 / (k + 10).
    wrong, omitted, inserted
        Shares of words that an ordinary worker replaces by another, leaves out, and adds.
    spread
        Standard deviation of the logarithm by which a worker's three shares are multiplied, at most to one half.
    hard
        Share of words that are hard for everybody: 60 % of workers or more write another, mostly one of two that sound
        like it. The crowd's `right` is that of other words.
    seed
        What all draws follow from.

    Notes
    -----
    O(n_tasks · answers_per_task · words) time and memory.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(50, 10, kind="texts", seed=3)
    >>> crowd.log.n_annotations, crowd.log.n_workers
    (250, 10)
    """
    for name, value in {"n_tasks": n_tasks, "n_workers": n_workers, "answers_per_task": answers_per_task}.items():
        check_number(name, value, least=1, whole=True)
    for name, value in {"words": words, "vocabulary": vocabulary}.items():
        check_number(name, value, least=1, whole=True)
    for name, share in {"wrong": wrong, "omitted": omitted, "inserted": inserted}.items():
        check_number(name, share, least=0, most=0.5)
    check_number("hard", hard, least=0, most=1)
    check_number("spread", spread, least=0, most=100)
    check_number("seed", seed, least=0, whole=True)
    if answers_per_task > n_workers:
        raise ValueError(f"{answers_per_task} texts a task need as many workers, and there are {n_workers}")
    rng = np.random.default_rng(seed)
    frequency: Floats = np.asarray(1.0 / (np.arange(vocabulary) + 10.0), np.float64)
    frequency /= frequency.sum()
    times = np.exp(spread * rng.standard_normal(n_workers))
    replaced, left_out, added = (np.minimum(share * times, 0.5) for share in (wrong, omitted, inserted))
    left_out = np.minimum(left_out, 1 - replaced)
    truth = rng.choice(vocabulary, (n_tasks, words), p=frequency)
    tasks, workers = np.repeat(np.arange(n_tasks), answers_per_task), raters(rng, n_tasks, n_workers, answers_per_task)
    misleads, alike = _hard_words(seed, truth.shape, hard, vocabulary, frequency)
    said = []
    for task, worker in zip(tasks, workers, strict=True):
        fate, more = rng.random(words), rng.random(words) < added[worker]
        others = rng.choice(vocabulary, (2, words), p=frequency)
        heard = np.where(misleads[task] & (fate < _ALIKE), alike[task, np.arange(words), worker % 2], others[0])
        missed = np.where(misleads[task], max(replaced[worker], _MISHEARD), replaced[worker])
        row = np.where(fate < missed, heard, truth[task])
        row[(fate >= missed) & (fate < missed + left_out[worker])] = -1
        both = np.stack([row, np.where(more, others[1], -1)], axis=1).ravel()
        said.append(_written(both[both >= 0]) or _written(truth[task][:1]))
    texts = Texts.from_arrays(tasks, workers, said)
    here = texts.workers.astype(np.int64)
    return TextsSimulation(
        log=texts,
        truth=as_objects([_written(row) for row in truth]),
        right=(1 - replaced - left_out)[here],
        omitted=left_out[here],
        inserted=added[here],
        seed=seed,
    )


def _hard_words(
    seed: int, shape: tuple[int, int], hard: float, vocabulary: int, frequency: Floats
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Which words are hard, and two that sound like each; draws of their own, so that others stay as they are."""
    rng = np.random.default_rng([seed, 1])
    return rng.random(shape) < hard, rng.choice(vocabulary, (*shape, 2), p=frequency)


def _written(words: npt.NDArray[np.int64]) -> str:
    return " ".join(f"w{word}" for word in words)
