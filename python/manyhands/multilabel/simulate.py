"""Simulation of label sets with known truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_number
from manyhands._base.simulation import Simulation
from manyhands.multilabel.table import MultiLabels

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MultilabelSimulation(Simulation):
    """Simulated label sets, true sets and parameters.

    ``recall`` and ``false_positives`` are pairs of worker effects and label effects; rates are the logistic function of
    their sum. ``patterns`` is the share of tasks with each label, per pattern, (patterns, labels).
    """

    log: MultiLabels
    truth: tuple[tuple[int, ...], ...]
    recall: tuple[Array, Array]
    false_positives: tuple[Array, Array]
    patterns: Array

    def _truth(self) -> dict[str, Any]:
        return {"task": list(range(len(self.truth))), "labels": ["|".join(map(str, one)) for one in self.truth]}


def simulate(
    n_tasks: int = 200,
    n_workers: int = 20,
    n_labels: int = 8,
    *,
    answers_per_task: int = 5,
    true_labels: float = 1.5,
    recall: float = 0.75,
    specificity: float = 0.95,
    spread: float = 0.5,
    patterns: int = 1,
    seed: int = 0,
) -> MultilabelSimulation:
    """Simulate label sets from the model of :class:`~manyhands.multilabel.PooledRelevance`.

    Parameters
    ----------
    n_tasks : int, default 200
        Number of tasks, with ids from 0.
    n_workers : int, default 20
        Number of workers, with ids from 0.
    n_labels : int, default 8
        Number of labels, with ids from 0.
    answers_per_task : int, default 5
        Number of different workers per task.
    true_labels : float, default 1.5
        Mean number of true labels per task.
    recall : float, default 0.75
        Recall of an average worker for an average label.
    specificity : float, default 0.95
        Specificity of an average worker for an average label.
    spread : float, default 0.5
        Standard deviation of worker effects and of label effects, in logits.
    patterns : int, default 1
        Number of equally likely label patterns. Each label belongs to one pattern, where it is nine times as likely as
        elsewhere.
    seed : int, default 0
        Random seed.

    Returns
    -------
    MultilabelSimulation
        The answers, true sets and parameters.

    Notes
    -----
    Time and memory O(answers + labels given + workers + labels).

    Examples
    --------
    >>> import manyhands as mh
    >>> drawn = mh.simulate(50, 6, 4, kind="multilabel", answers_per_task=3, seed=1)
    >>> drawn.log.n_annotations, len(drawn.truth)
    (150, 50)
    """
    for name, value in (("n_tasks", n_tasks), ("n_workers", n_workers), ("n_labels", n_labels)):
        check_number(name, value, least=1, whole=True)
    check_number("answers_per_task", answers_per_task, least=1, most=n_workers, whole=True)
    check_number("true_labels", true_labels, least=0, most=n_labels)
    for name, share in (("recall", recall), ("specificity", specificity)):
        check_number(name, share, least=0.001, most=0.999)
    check_number("spread", spread, least=0)
    check_number("patterns", patterns, least=1, most=n_labels, whole=True)
    rng = np.random.default_rng(seed)
    rates = []
    for rate in (recall, 1 - specificity):
        centre = float(np.log(rate / (1 - rate)))
        rates.append((rng.normal(0, spread, n_workers), centre + rng.normal(0, spread, n_labels)))
    shares = _patterns(patterns, n_labels, true_labels / n_labels)
    truth = _truth(rng, shares, n_tasks)
    tasks = np.repeat(np.arange(n_tasks), answers_per_task)
    workers = np.concatenate([rng.choice(n_workers, answers_per_task, replace=False) for _ in range(n_tasks)])
    answer_sets: list[set[int]] = [set() for _ in range(len(tasks))]
    for answer, (task, worker) in enumerate(zip(tasks.tolist(), workers.tolist(), strict=True)):
        for label in truth[task]:
            if rng.random() < _rate(rates[0], worker, label):
                answer_sets[answer].add(label)
    for label in range(n_labels):
        # Draw false positives at the maximum rate of all workers, then thin them to each worker's rate.
        most = _rate(rates[1], int(np.argmax(rates[1][0])), label)
        for answer in rng.choice(len(tasks), rng.binomial(len(tasks), most), replace=False).tolist():
            is_kept = rng.random() < _rate(rates[1], int(workers[answer]), label) / most
            if is_kept and label not in truth[tasks[answer]]:
                answer_sets[answer].add(label)
    answers = MultiLabels.from_arrays(tasks, workers, [sorted(one) for one in answer_sets], inventory=range(n_labels))
    return MultilabelSimulation(
        log=answers, truth=truth, recall=rates[0], false_positives=rates[1], patterns=shares, seed=seed
    )


def _patterns(n: int, n_labels: int, share: float) -> Array:
    """Label shares of each pattern, with mean `share` unless a share is clipped at one."""
    in_pattern = np.arange(n_labels) % n == np.arange(n)[:, None]
    shares: Array = np.minimum(np.where(in_pattern, 9.0, 1.0) * share * n / (n + 8), 1.0)
    return shares


def _truth(rng: np.random.Generator, shares: Array, n_tasks: int) -> tuple[tuple[int, ...], ...]:
    """Draw the true labels of tasks."""
    if len(shares) == 1:
        counts = rng.binomial(shares.shape[1], shares[0, 0], n_tasks)
        return tuple(tuple(sorted(rng.choice(shares.shape[1], count, replace=False).tolist())) for count in counts)
    of = rng.integers(len(shares), size=n_tasks)
    return tuple(tuple(np.flatnonzero(rng.random(shares.shape[1]) < shares[g]).tolist()) for g in of)


def _rate(of: tuple[Array, Array], worker: int, label: int) -> float:
    return float(1 / (1 + np.exp(-(of[0][worker] + of[1][label]))))
