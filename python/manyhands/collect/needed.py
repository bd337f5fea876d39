"""How many labels more an accuracy would take, by simulation from a fitted model."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from manyhands.aggregators._calibration import CORRELATION
from manyhands.checks import check_between, check_number
from manyhands.collect.beliefs import Beliefs, beliefs_of
from manyhands.collect.crowd import supposed
from manyhands.collect.gains import Ints, entropy, top
from manyhands.estimator import Array

#: Tasks that stand for all, workers who stand for the crowd, and labels a task after which nobody goes on.
_TASKS, _WORKERS, _MOST = 2000, 200, 40
#: Share of the tasks that get a label in a round.
_ROUND = 0.05
#: Share of the draws that the interval holds.
_LEVEL = 0.9


@dataclass(frozen=True)
class LabelsNeeded:
    """How many labels more would reach an accuracy; to be had from :func:`labels_needed`. ``int`` gives the number.

    Infinite where more labels from this crowd are not expected to reach it at all.
    """

    accuracy: float
    #: Share of right answers that the model expects now.
    now: float
    #: Median over draws, and the interval that holds nine in ten of them.
    labels: float
    low: float
    high: float
    n_tasks: int

    @property
    def interval(self) -> tuple[float, float]:
        """The least and the most of what nine draws in ten asked for."""
        return self.low, self.high

    def __int__(self) -> int:
        return int(self.labels)

    def __float__(self) -> float:
        return float(self.labels)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values; None for what is infinite."""
        return {name: None if value == math.inf else value for name, value in asdict(self).items()}

    def __str__(self) -> str:
        if self.labels == 0:
            return f"accuracy {self.accuracy:g} is expected now ({self.now:.3f})"
        if self.labels == math.inf:
            return f"accuracy {self.accuracy:g} is beyond what this crowd is expected to reach ({self.now:.3f} now)"
        most = "beyond reach" if self.high == math.inf else f"{self.high:,.0f}"
        return (
            f"{self.labels:,.0f} labels more for accuracy {self.accuracy:g} ({self.now:.3f} now); nine draws in ten "
            f"lie between {self.low:,.0f} and {most}"
        )


def labels_needed(
    model: Any, accuracy: float = 0.95, *, tasks: Any = None, votes: Any = None, draws: int = 20, seed: int = 0
) -> LabelsNeeded:
    """Estimate how many labels more would reach an accuracy, if they go to the most uncertain tasks.

    Each draw takes classes from the posterior and confusion matrices from what is known of them, lets workers answer
    the most uncertain tasks (by entropy), as often as they did so far, and counts labels until the expected share of
    right answers is reached. The interval holds what is not known of classes, workers and answers to come, and of the
    default whether errors on a task are correlated, which may put the accuracy out of reach; not that the model may be
    wrong in other ways.

    Parameters
    ----------
    model
        A fitted aggregator of classes; of a calibrated one, such as the default, the estimate is more to be trusted.
    accuracy
        The share of right answers to reach.
    tasks
        Those that it is about, also ones without any answer; None for all of the model.
    votes
        The annotations, for a model that was loaded from a file.
    draws
        How often to simulate.
    seed
        Of the draws.

    Notes
    -----
    Time O(draws · labels · n_classes) on at most 2,000 tasks, which stand for all; some seconds where many labels are
    needed. Beyond 40 labels a task the accuracy is taken to be out of reach.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(300, 20, 2, labels_per_task=2, seed=1)
    >>> found = mh.collect.labels_needed(mh.DawidSkene().fit(crowd.votes), accuracy=0.95, draws=5)
    >>> found.low <= int(found) <= found.high
    True
    """
    check_between("accuracy", accuracy, such_as=0.95)
    check_number("draws", draws, least=1, whole=True)
    check_number("seed", seed, least=0, whole=True)
    known = beliefs_of(model, tasks=tasks, votes=votes)
    n = len(known.tasks)
    if not n:
        raise ValueError("there are no tasks to reach an accuracy on")
    now = float(known.posterior.max(axis=1).mean())
    if now >= accuracy:
        return LabelsNeeded(float(accuracy), now, 0.0, 0.0, 0.0, n)
    found = np.empty(draws)
    for draw in range(draws):
        rng = np.random.default_rng([seed, draw])
        found[draw] = _simulated(*_supposed_correlated(known, model, rng), accuracy, rng)
    tails = (1 - _LEVEL) / 2
    low, middle, high = (float(np.quantile(found, q, method="nearest")) for q in (tails, 0.5, 1 - tails))
    return LabelsNeeded(float(accuracy), now, middle, low, high, n)


def _supposed_correlated(known: Beliefs, model: Any, rng: np.random.Generator) -> tuple[Beliefs, float]:
    """What is known if errors are correlated, or are not, as one draw has it; and the discount of labels to come.

    A discount that was estimated is that of correlated errors times the chance that they are: it is one or the other.
    """
    discount = float(getattr(model, "discount_", 0.0))
    if known.share is None or not discount:
        return known, 0.0
    if getattr(model, "correlation", None) is not None:
        return known, discount
    used = CORRELATION if rng.random() < discount / CORRELATION else 0.0
    return replace(known, share=1.0 / (1.0 + (1.0 / known.share - 1.0) * used / discount)), used


def _simulated(known: Beliefs, discount: float, accuracy: float, rng: np.random.Generator) -> float:
    """Labels until the accuracy is reached, in one draw."""
    n = len(known.tasks)
    rows = rng.permutation(n)[:_TASKS]
    weights = known.n_labels if known.n_labels.any() else np.ones(len(known.workers))
    crowd = rng.choice(len(known.workers), size=min(_WORKERS, len(known.workers)), p=weights / weights.sum())
    drawn = supposed("thompson", known.confusion[crowd], known.strength[crowd], rng)
    believed, real = known.posterior[rows].copy(), known.posterior[rows].copy()
    truth = _drawn(believed, rng)
    share = np.ones(len(rows)) if known.share is None else known.share[rows].copy()
    step, given = max(1, int(_ROUND * len(rows))), 0
    while given <= _MOST * len(rows):
        if real[np.arange(len(rows)), believed.argmax(axis=1)].mean() >= accuracy:
            return math.ceil(given * n / len(rows))
        asked = top(entropy(believed), step)
        who = rng.integers(len(crowd), size=step)
        fitted = known.confusion[crowd[who]]
        said = _answers(drawn[who], truth[asked], real[asked], share[asked], rng)
        believed[asked] = _told(believed[asked], fitted, said, share[asked])
        real[asked] = _told(real[asked], drawn[who], said, share[asked])
        share[asked] = 1.0 / (1.0 / share[asked] + discount)
        given += step
    return math.inf


def _answers(matrices: Array, truth: Ints, beliefs: Array, share: Array, rng: np.random.Generator) -> Ints:
    """What workers say; where a label is not new, it is whatever the others would say."""
    new = matrices[np.arange(len(truth)), truth]
    known = np.einsum("nk,nkl->nl", beliefs, matrices)
    return _drawn(np.where((rng.random(len(truth)) < share)[:, None], new, known), rng)


def _told(beliefs: Array, matrices: Array, said: Ints, share: Array) -> Array:
    """Posteriors after labels, of which a share is new."""
    likelihood = matrices[np.arange(len(said)), :, said]
    known = (beliefs * likelihood).sum(axis=1, keepdims=True)
    joint = beliefs * (share[:, None] * likelihood + (1 - share[:, None]) * known)
    total = joint.sum(axis=1, keepdims=True)
    after: Array = np.where(total > 0, joint / np.where(total > 0, total, 1.0), beliefs)
    return after


def _drawn(probabilities: Array, rng: np.random.Generator) -> Ints:
    """One code from each row of probabilities."""
    edges = probabilities.cumsum(axis=1)
    above = rng.random((len(edges), 1)) * edges[:, -1:] >= edges
    codes: Ints = np.minimum(above.sum(axis=1), probabilities.shape[1] - 1).astype(np.int64)
    return codes
