"""Simulated answers that are sets of labels."""

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
    """Simulated sets of labels, the true sets, and the parameters they were drawn from.

    Rates of a worker with a label are logistic functions of the worker's number and the label's, summed: of saying a
    label that is true (``recall``), and one that is not (``false_positives``), each as (workers, labels) pairs of
    arrays. ``patterns`` has the share of each pattern's tasks that each label is true of, (patterns, labels).
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
    """Draw sets of labels, from the model of :class:`~manyhands.multilabel.PooledRelevance`.

    Time and memory O(answers + labels said), and a number for each worker and each label.

    Parameters
    ----------
    n_tasks, n_workers, n_labels
        Sizes; names are numbers from 0.
    answers_per_task
        Workers who answer a task, all different.
    true_labels
        Mean number of true labels per task. With one pattern each is as likely as any other.
    recall, specificity
        Of an ordinary worker with an ordinary label.
    spread
        Standard deviation of workers and of labels, in logits.
    patterns
        How many patterns tasks are of, each as likely as the others. Every label belongs to one of them and is nine
        times as likely there as elsewhere, so that labels of a pattern go together.
    seed
        Seed of all draws.

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
    said: list[set[int]] = [set() for _ in range(len(tasks))]
    for answer, (task, worker) in enumerate(zip(tasks.tolist(), workers.tolist(), strict=True)):
        for label in truth[task]:
            if rng.random() < _rate(rates[0], worker, label):
                said[answer].add(label)
    for label in range(n_labels):
        # Alarms at the highest rate of any worker, of which each keeps as many as their own rate leaves.
        most = _rate(rates[1], int(np.argmax(rates[1][0])), label)
        for answer in rng.choice(len(tasks), rng.binomial(len(tasks), most), replace=False).tolist():
            kept = rng.random() < _rate(rates[1], int(workers[answer]), label) / most
            if kept and label not in truth[tasks[answer]]:
                said[answer].add(label)
    answers = MultiLabels.from_arrays(tasks, workers, [sorted(one) for one in said], inventory=range(n_labels))
    return MultilabelSimulation(
        log=answers, truth=truth, recall=rates[0], false_positives=rates[1], patterns=shares, seed=seed
    )


def _patterns(n: int, n_labels: int, share: float) -> Array:
    """Shares of labels in each pattern, which are `share` on average as far as none is above one."""
    own = np.arange(n_labels) % n == np.arange(n)[:, None]
    found: Array = np.minimum(np.where(own, 9.0, 1.0) * share * n / (n + 8), 1.0)
    return found


def _truth(rng: np.random.Generator, shares: Array, n_tasks: int) -> tuple[tuple[int, ...], ...]:
    """Labels of tasks, drawn label by label where there are several patterns."""
    if len(shares) == 1:
        counts = rng.binomial(shares.shape[1], shares[0, 0], n_tasks)
        return tuple(tuple(sorted(rng.choice(shares.shape[1], count, replace=False).tolist())) for count in counts)
    of = rng.integers(len(shares), size=n_tasks)
    return tuple(tuple(np.flatnonzero(rng.random(shares.shape[1]) < shares[g]).tolist()) for g in of)


def _rate(of: tuple[Array, Array], worker: int, label: int) -> float:
    return float(1 / (1 + np.exp(-(of[0][worker] + of[1][label]))))
