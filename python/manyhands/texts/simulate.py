"""Simulation of transcripts with known texts and workers."""

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

#: Minimum probability of mishearing a hard word, and probability of one of its two sound-alikes.
_MISHEARD, _ALIKE = 0.6, 0.5


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TextsSimulation(Simulation):
    """Simulated texts and their true parameters.

    Attributes
    ----------
    log : Texts
        The answers of the simulated workers.
    truth : ndarray of shape (n_tasks,)
        The text of each task, aligned with ``log.tasks``.
    right, omitted, inserted : ndarray of shape (n_workers,)
        Probabilities that a worker writes a word correctly, omits it, and inserts one after a word; aligned with
        ``log.workers``.
    seed : int
        Random seed.
    """

    log: Texts
    truth: npt.NDArray[np.object_]
    right: Floats
    omitted: Floats
    inserted: Floats

    def _summary(self) -> str:
        return f"{super()._summary()}; {float(np.mean(self.right)):.0%} of words correct"


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
    """Simulate transcripts of random texts.

    Parameters
    ----------
    n_tasks : int, default 100
        Number of tasks, with ids 0, 1, ….
    n_workers : int, default 20
        Number of workers, with ids 0, 1, ….
    answers_per_task : int, default 5
        Number of texts per task, by different random workers.
    words : int, default 10
        Words per true text.
    vocabulary : int, default 1000
        Number of distinct words; word k has frequency proportional to 1 / (k + 10).
    wrong : float, default 0.1
        Share of words that a typical worker replaces.
    omitted : float, default 0.05
        Share of words that a typical worker omits.
    inserted : float, default 0.05
        Share of words after which a typical worker inserts one.
    spread : float, default 1.0
        Standard deviation of the log-factor that scales the three shares of a worker (each at most one half).
    hard : float, default 0.0
        Share of words that at least 60 % of workers mishear, mostly as one of two sound-alikes. `right` excludes them.
    seed : int, default 0
        Random seed.

    Returns
    -------
    TextsSimulation
        The texts, the true texts and worker parameters.

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
        raise ValueError(f"answers_per_task={answers_per_task} exceeds n_workers={n_workers}: add workers")
    rng = np.random.default_rng(seed)
    frequency: Floats = np.asarray(1.0 / (np.arange(vocabulary) + 10.0), np.float64)
    frequency /= frequency.sum()
    times = np.exp(spread * rng.standard_normal(n_workers))
    replaced, left_out, added = (np.minimum(share * times, 0.5) for share in (wrong, omitted, inserted))
    left_out = np.minimum(left_out, 1 - replaced)
    truth = rng.choice(vocabulary, (n_tasks, words), p=frequency)
    tasks, workers = np.repeat(np.arange(n_tasks), answers_per_task), raters(rng, n_tasks, n_workers, answers_per_task)
    misleads, sound_alikes = _hard_words(seed, truth.shape, hard, vocabulary, frequency)
    texts_written = []
    for task, worker in zip(tasks, workers, strict=True):
        fate, more = rng.random(words), rng.random(words) < added[worker]
        others = rng.choice(vocabulary, (2, words), p=frequency)
        written_instead = np.where(
            misleads[task] & (fate < _ALIKE), sound_alikes[task, np.arange(words), worker % 2], others[0]
        )
        missed = np.where(misleads[task], max(replaced[worker], _MISHEARD), replaced[worker])
        row = np.where(fate < missed, written_instead, truth[task])
        row[(fate >= missed) & (fate < missed + left_out[worker])] = -1
        with_insertions = np.stack([row, np.where(more, others[1], -1)], axis=1).ravel()
        texts_written.append(_join_words(with_insertions[with_insertions >= 0]) or _join_words(truth[task][:1]))
    texts = Texts.from_arrays(tasks, workers, texts_written)
    worker_codes = texts.workers.astype(np.int64)
    return TextsSimulation(
        log=texts,
        truth=as_objects([_join_words(row) for row in truth]),
        right=(1 - replaced - left_out)[worker_codes],
        omitted=left_out[worker_codes],
        inserted=added[worker_codes],
        seed=seed,
    )


def _hard_words(
    seed: int, shape: tuple[int, int], hard: float, vocabulary: int, frequency: Floats
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Select hard words and two sound-alikes for each, from a separate random stream."""
    rng = np.random.default_rng([seed, 1])
    return rng.random(shape) < hard, rng.choice(vocabulary, (*shape, 2), p=frequency)


def _join_words(words: npt.NDArray[np.int64]) -> str:
    return " ".join(f"w{word}" for word in words)
