"""Standard errors of workers' measures, with the uncertainty of the classes, from a reference model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from manyhands import _core, metrics
from manyhands._base.estimator import Array
from manyhands._base.fitted import numbers
from manyhands.categorical._priors import class_pseudo, with_gold
from manyhands.categorical.shards.passes import Part, Sharded
from manyhands.categorical.table import Annotations, as_annotations
from manyhands.metrics.intervals import offset_errors

Codes = npt.NDArray[np.int64]

#: The level at which intervals of ±1.96 standard errors hold.
LEVEL = 0.95
#: With more classes than this, classes are taken as known: a task's label then leaves little doubt about its class.
MOST_CLASSES = 50
#: Parameters of the joint information matrix; beyond, one per worker, and beyond that the workers with most labels.
_MOST_PARAMETERS = 600
#: Annotations that the information is computed from, and multiplications of the joint matrix.
_MOST_ANNOTATIONS, _MOST_PRODUCTS = 1 << 20, 1e9
#: Rounds of the fixed point for the crowd's prior.
_ROUNDS = 20
#: Pseudo-labels per class, which keep the prior of the crowd's mean proper.
_IMAGINARY = 3.0
#: Tasks of a block of the joint matrix.
_BLOCK = 2048


class Reference:
    """What `HierarchicalDawidSkene` estimates of each worker, computed on demand: accuracy and so on, with errors.

    Errors of any other model's estimates follow from it: see :meth:`errors_of`.

    Parameters
    ----------
    votes, gold
        The annotations and known classes of a fit.
    fitted
        Class prior and confusion matrices of the hierarchical model, if the fit has them already.
    """

    def __init__(self, votes: Annotations, gold: Any = None, fitted: tuple[Array, Array] | None = None) -> None:
        self._votes, self._gold, self._fitted = votes, gold, fitted
        self._worth: metrics.Worth | None = None

    def worth(self) -> metrics.Worth | None:
        """The reference's own measures and errors; None with more than 50 classes."""
        if self._worth is None and self._votes.n_classes <= MOST_CLASSES:
            self._worth = reference_worth(self._votes, self._gold, self._fitted)
        return self._worth

    def stored(self) -> KnownReference | None:
        """Return the form in which it is written to a file; None with more than 50 classes."""
        worth = self.worth()
        return None if worth is None else KnownReference(np.stack(worth))

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the annotations, which are not sent along with a model.
        worth = self.worth()
        return KnownReference, (None if worth is None else np.stack(worth),)

    def errors_of(self, worth: metrics.Worth, *, same_measure: bool) -> metrics.Worth:
        """Measures of another model with errors that hold about them if the reference is right.

        The truth is then normal about the reference's estimate. Errors are such that intervals of ±1.96 of them about
        the model's own estimate hold it with probability 0.95; where both estimates agree, they are the reference's.

        Parameters
        ----------
        worth
            The other model's measures; its errors take classes as known.
        same_measure : bool
            Whether the two measure the same: not where the other counts abstentions among the answers, whose errors
            are then only inflated by as much as the reference's.
        """
        reference = self.worth()
        if reference is None:
            return worth
        values, known_classes, ours, errors = worth[::2], worth[1::2], reference[::2], reference[1::2]
        if same_measure:
            new = [
                offset_errors(value - our, error, LEVEL) for value, our, error in zip(values, ours, errors, strict=True)
            ]
        else:
            new = [np.maximum(error, classes) for error, classes in zip(errors, known_classes, strict=True)]
        return metrics.Worth(*(part for pair in zip(values, new, strict=True) for part in pair))


@dataclass(frozen=True)
class KnownReference(Reference):
    """A reference that was computed before: in another process, or before the model was saved."""

    #: Measures and errors, (6, n_workers).
    measures: Array | None = field(metadata=numbers("6m", least=0))

    def worth(self) -> metrics.Worth | None:
        """The reference's own measures and errors."""
        return None if self.measures is None else metrics.Worth(*self.measures)


def reference_worth(votes: Annotations, gold: Any, fitted: tuple[Array, Array] | None) -> metrics.Worth:
    """Measures of workers by `HierarchicalDawidSkene`, and errors that include the uncertainty of the classes.

    Row k of a worker's matrix has one parameter here, the log-odds of a right answer. The information about all of them
    and the class prior is the sum over tasks of the squared score of the *observed* labels (classes are averaged out),
    so that what is not known of classes and of other workers is in the inverse. To it comes the prior of the crowd,
    about a mean that is itself unknown. Errors of information and capacity are those of the delta method for known
    classes, inflated by as much as those of accuracy.
    """
    votes = as_annotations(votes)
    gold_part = with_gold(votes, gold)
    if fitted is None:
        (found,) = _core.hierarchy_fit(
            gold_part.held,
            [("crowd", None)],
            class_pseudo=class_pseudo(1.0, votes.n_classes),
            gold=gold_part.gold,
            protected=20,
            max_iter=5,
            tol=1e-6,
        )
        fitted = found["prior"], found["confusion"]
    prior, confusion = fitted
    n_labels = votes.labels_per_worker
    plain = metrics.worth(confusion, prior, n_labels)
    if votes.n_classes == 1:
        return plain
    variance = _accuracy_variance(gold_part.held, gold_part.gold, prior, confusion, n_labels)
    error = np.sqrt(np.minimum(variance, 0.25))  # no variable between 0 and 1 varies more
    inflation = np.divide(error, plain.skill_error, out=np.ones_like(error), where=plain.skill_error > 0)
    return plain._replace(
        skill_error=error,
        information_error=plain.information_error * inflation,
        capacity_error=plain.capacity_error * inflation,
    )


class _Scores(NamedTuple):
    """Annotations of some tasks with the score of each, given the labels of the whole task."""

    tasks: Codes
    workers: Codes
    labels: Codes
    #: Class posteriors of the tasks, (n_tasks, K).
    posterior: Array
    #: Derivative of the log-likelihood by the log-odds of a right answer in each class, (n_annotations, K).
    scores: Array
    weights: Array

    def every(self, stride: int) -> _Scores:
        """The same of every that many tasks."""
        if stride == 1:
            return self
        keep = self.tasks % stride == 0
        return _Scores(
            self.tasks[keep] // stride,
            self.workers[keep],
            self.labels[keep],
            self.posterior[::stride],
            self.scores[keep],
            self.weights[keep],
        )


def _accuracy_variance(
    held: Any, gold: npt.NDArray[np.int32] | None, prior: Array, confusion: Array, n_labels: Codes
) -> Array:
    """Posterior variance of each worker's accuracy."""
    m, k = confusion.shape[:2]
    right = np.clip(np.einsum("mkk->mk", confusion[:, :, :k]), 1e-6, 1 - 1e-6)
    spread = right * (1 - right)
    joint_size = min(m * k if m * k <= _MOST_PARAMETERS else m, _MOST_PARAMETERS) + k - 1
    n_annotations = int(n_labels.sum())
    stride = max(1, int(np.ceil(n_annotations / min(_MOST_ANNOTATIONS, 2e8 / k**2))))
    most_tasks = max(10 * joint_size, _MOST_PRODUCTS / joint_size**2)
    of_joint = max(1, int(np.ceil(held.n_tasks / stride / most_tasks)))

    by_class = m * k <= _MOST_PARAMETERS
    # Where parameters are too many, workers with most labels are solved for jointly.
    place = np.full(m, -1, np.int64)
    busiest = np.argsort(-n_labels, kind="stable")[:_MOST_PARAMETERS] if not by_class else np.arange(m)
    place[busiest] = np.arange(len(busiest))
    size = len(busiest) * (k if by_class else 1)

    counts, own, n_seen, used = np.zeros((m, k, k)), np.zeros((m, k, k)), np.zeros(m), 0
    joint: Array = np.zeros((size + k - 1, size + k - 1))
    for part in _sample_scores(held, gold, prior, confusion, right, stride):
        used += len(range(0, len(part.posterior), of_joint))
        n_seen += np.bincount(part.workers, minlength=m)
        for cls in range(k):
            cell = part.workers * k + part.labels
            mass = part.weights * part.posterior[part.tasks, cls]
            counts[:, :, cls] += np.bincount(cell, mass, m * k).reshape(m, k)
            if not by_class:
                for other in range(cls + 1):
                    square = part.scores[:, cls] * part.scores[:, other]
                    own[:, cls, other] += np.bincount(part.workers, square, m)
        joint += _squared_scores(part.every(of_joint), prior, place, size, by_class)
    for cls in range(k):
        own[:, :cls, cls] = own[:, cls, :cls]
    joint *= held.n_tasks / used

    strength = _core.crowd_prior(counts, rounds=_ROUNDS).sum(axis=0)  # pseudo-counts per class
    weight = strength * spread
    gradient = prior * spread
    by_prior = prior[:-1] * (right[:, :-1] - (right @ prior)[:, None])
    imaginary = _IMAGINARY * spread.mean(axis=0)
    if by_class:
        matrix, slopes = joint, np.zeros((m, size + k - 1))
        for cls in range(k):
            at = np.arange(m) * k + cls
            matrix[np.ix_(at, at)] += _about_mean(weight[:, cls], imaginary[cls])
            slopes[np.arange(m), at] = gradient[:, cls]
        slopes[:, size:] = by_prior
        return _quadratic(matrix, slopes)
    # One shift of the log-odds per worker: how much the others' uncertainty adds to what the worker's own labels leave.
    shift, slope = weight.sum(axis=1), gradient.sum(axis=1)
    joint[:size, :size] += _about_mean(shift[busiest], float(imaginary.sum()))
    slopes = np.zeros((size, size + k - 1))
    slopes[np.arange(size), np.arange(size)] = slope[busiest]
    slopes[:, size:] = by_prior[busiest]
    scale = np.divide(n_labels, n_seen, out=np.zeros(m), where=n_seen > 0)
    missing = (n_seen == 0) * n_labels / max(n_annotations, 1) * stride
    own = own * scale[:, None, None] + missing[:, None, None] * own.sum(axis=0)
    alone = slope**2 / np.maximum(own.sum(axis=(1, 2)) + shift, 1e-12)
    ratio = _quadratic(joint, slopes) / np.maximum(alone[busiest], 1e-300)
    inflation = np.full(m, np.median(ratio))
    inflation[busiest] = ratio
    own[:, np.arange(k), np.arange(k)] += weight + 1e-9
    variance: Array = np.einsum("mk,mk->m", gradient, np.linalg.solve(own, gradient[..., None])[..., 0])
    return np.asarray(variance * np.maximum(inflation, 1.0))


def _about_mean(weight: Array, imaginary: float) -> Array:
    """Precision of parameters whose distances from an unknown mean have these precisions."""
    precision: Array = np.diag(weight) - np.outer(weight, weight) / (weight.sum() + imaginary)
    return precision


def _quadratic(information: Array, slopes: Array) -> Array:
    """Variance of linear functions, the rows of `slopes`, of parameters with this information."""
    # Directions without any information, such as a class that no task has, stay finite.
    information[np.diag_indices_from(information)] += 1e-6
    variance: Array = np.einsum("mp,pm->m", slopes, np.linalg.solve(information, slopes.T))
    return np.maximum(variance, 0.0)


def _squared_scores(part: _Scores, prior: Array, place: Codes, size: int, by_class: bool) -> Array:
    """Sum over tasks of the outer products of their scores: workers in their places, then the class prior."""
    k = len(prior)
    keep = place[part.workers] >= 0
    tasks, at = part.tasks[keep], place[part.workers[keep]]
    scores = part.scores[keep] if by_class else part.scores[keep].sum(axis=1, keepdims=True)
    width = scores.shape[1]
    columns = (at[:, None] * width + np.arange(width)).ravel()
    rows, values = np.repeat(tasks, width), scores.ravel()
    total = np.zeros((size + k - 1, size + k - 1))
    order = np.argsort(rows, kind="stable")
    rows, columns, values = rows[order], columns[order], values[order]
    for first in range(0, len(part.posterior), _BLOCK):
        rest = part.posterior[first : first + _BLOCK]
        mine = slice(*np.searchsorted(rows, [first, first + len(rest)]))
        cell = (rows[mine] - first) * size + columns[mine]
        block = np.empty((len(rest), size + k - 1))
        block[:, :size] = np.bincount(cell, values[mine], len(rest) * size).reshape(len(rest), size)
        block[:, size:] = rest[:, :-1] - prior[:-1]
        total += block.T @ block
    return total


def _sample_scores(
    held: Any, gold: npt.NDArray[np.int32] | None, prior: Array, confusion: Array, right: Array, stride: int
) -> Iterator[_Scores]:
    """Scores of every that many tasks of a table, or of shards one after the other."""
    factors, classes = _core.em_factors(confusion, prior)

    def scores_of(table: _core.Table, posterior: Array, who: npt.NDArray[Any] | None, first: int) -> _Scores:
        tasks, workers, labels = (column.astype(np.int64) for column in table.columns())
        weights = table.weights()
        weights = np.ones(len(tasks)) if weights is None else weights
        if stride > 1:
            rows = np.arange(len(posterior))[-first % stride :: stride]
            place = np.full(len(posterior), -1, np.int64)
            place[rows] = np.arange(len(rows))
            keep = place[tasks] >= 0
            tasks, workers, labels, weights = place[tasks[keep]], workers[keep], labels[keep], weights[keep]
            posterior = posterior[rows]
        workers = workers if who is None else who[workers].astype(np.int64)
        hits = labels[:, None] == np.arange(len(prior))
        scores = weights[:, None] * posterior[tasks] * (hits - right[workers])
        return _Scores(tasks, workers, labels, posterior, scores, weights)

    if not isinstance(held, Sharded):
        rows = held.em_answers(factors, classes, posterior=True, gold=gold)["posterior"]
        yield scores_of(held, rows, None, 0)
        return

    def look(part: Part) -> _Scores:
        rows = part.shard.em_answers(factors, classes, posterior=True, gold=part.gold)["posterior"]
        return scores_of(part.shard.table(), rows, part.shard.who(), part.first)

    yield from held.each(look)
