"""Known classes that correct the default: a ridge regression on votes whose prior states that the default is right.

Gold labels do not enter the EM iterations, where thousands of unlabeled votes outweigh them. They correct the result:

    s[i, k] = slope · z[i, k] + intercept[k] + Σ_j (trust[j] · [l_ij = k] + cell[j, l_ij, k]),  posterior = softmax(s),

with z the centered log of the default's posterior and l_ij the label of worker j on task i. All parameters have normal
priors around the default: slope 1, the others 0. Two prior scales, confusion matrices from gold alone, and the default
itself are mixed with the weights that predict held-out gold labels best.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import plural, preview
from manyhands._base.estimator import Array
from manyhands._base.fitted import carried_over, distributions, number, numbers
from manyhands.categorical.shards.passes import Part, Sharded

Ints = npt.NDArray[np.int64]

#: Prior standard deviations of slope, intercepts, trust and cells, of both ridge regressions.
SCALES = ((0.3, 0.5, 0.3, 0.3), (0.5, 1.0, 0.3, 0.5))
#: The share of these scales that is left where errors of workers look independent.
_LEAST_SCALE = 0.3
#: Pseudo-counts of the mixture: the default, both ridge regressions, confusion matrices from gold alone.
_PSEUDO_TASKS = (3.0, 5.0, 2.0, 2.0)
#: Further pseudo-counts of the default where errors of workers look independent.
_INDEPENDENT_TASKS = 10.0
#: With fewer known classes the default keeps a weight of at least 1 - n / 20.
FULL_AT = 20
_FOLDS = 5
#: Known tasks that the ridge regressions use at most, evenly spaced; all of them enter the workers' counts.
_MOST_TASKS = 2000
#: Evenly shared probability in the log of the default's posterior.
_EVEN = 0.01
#: Pseudo-counts: labels per row of a confusion matrix, labels of a worker's accuracy, tasks of the class shares.
_ROW, _COIN, _CLASSES = 3.0, 4.0, 10.0
#: Design effect per further vote on a task, of confusion matrices from gold alone.
_EFFECT = 0.5
_TINY = 1e-300
#: The least probability that passes of the core take.
_FLOOR = 1e-30
#: Bound of what one vote adds to a log-probability, many times the prior's scale: weights may be as large as 1e15.
_MOST_EVIDENCE = 30.0
#: By how much sums may be off, as a share of their size.
_ROUNDING = 1e-14


@dataclass(frozen=True)
class KnownVotes:
    """Votes on the tasks of known class.

    ``row`` is the place of a vote's task among the known ones, ``code`` is worker · n_classes + label.
    """

    row: Ints
    code: Ints
    weight: Array
    classes: Ints
    n_workers: int
    n_classes: int

    @property
    def n_tasks(self) -> int:
        """Number of known tasks."""
        return len(self.classes)

    def some(self, tasks: Ints) -> KnownVotes:
        """Votes on some of the known tasks, by their places."""
        place = np.full(self.n_tasks, -1, np.int64)
        place[tasks] = np.arange(len(tasks))
        keep = place[self.row] >= 0
        return replace(
            self,
            row=place[self.row[keep]],
            code=self.code[keep],
            weight=self.weight[keep],
            classes=self.classes[tasks],
        )

    def counts(self) -> Array:
        """Number of times each worker gave each label to each class, (n_workers, n_classes, n_classes)."""
        k = self.n_classes
        cell = (self.code // k * k + self.classes[self.row]) * k + self.code % k
        return np.bincount(cell, self.weight, self.n_workers * k * k).astype(np.float64).reshape(-1, k, k)

    def votes(self) -> Array:
        """Number of votes on each task."""
        return np.bincount(self.row, self.weight, self.n_tasks).astype(np.float64)


def known_votes(held: Any, tasks: Ints, classes: npt.NDArray[Any]) -> KnownVotes:
    """Collect the votes on tasks of known class from a table, or from the shards that have some."""
    if isinstance(held, Sharded):

        def look(part: Part) -> tuple[npt.NDArray[Any], ...]:
            mine = tasks[(tasks >= part.first) & (tasks < part.first + part.shard.n_tasks)] - part.first
            row, worker, label, weight = _votes_on(part.shard.table(), mine)
            return row, part.shard.who()[worker], label, weight

        parts, n = [], 0
        firsts = np.array([held.directory.first(place) for place in range(len(held))])
        places = np.unique(np.searchsorted(firsts, tasks, side="right") - 1)
        for place, (row, *others) in zip(places, held.each(look, places.tolist()), strict=True):
            parts.append((row + n, *others))
            n += int(np.count_nonzero(np.searchsorted(firsts, tasks, side="right") - 1 == place))
        row, worker, label, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    else:
        row, worker, label, weight = _votes_on(held, tasks)
    k = held.n_classes
    code = worker.astype(np.int64) * k + label.astype(np.int64)
    return KnownVotes(row, code, weight, classes.astype(np.int64), held.n_workers, k)


def _votes_on(table: _core.Table, tasks: Ints) -> tuple[npt.NDArray[Any], ...]:
    """Place of the task, worker, label and weight of each vote on some tasks."""
    offsets = table.offsets().astype(np.int64)
    size = offsets[tasks + 1] - offsets[tasks]
    row = np.repeat(np.arange(len(tasks)), size)
    at = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size) + np.repeat(offsets[tasks], size)
    _, workers, labels = table.columns()
    weights = table.weights()
    return row, workers[at], labels[at], np.ones(len(at)) if weights is None else weights[at]


def n_votes(table: _core.Table) -> Array:
    """Number of votes on each task, by weight."""
    return table.effective_votes(np.ones(table.n_workers))


@dataclass(frozen=True)
class Correction:
    """A ridge regression on votes: what is added to the log of the default's posterior."""

    slope: float
    intercepts: Array
    #: What a vote adds to each class, (codes, n_classes), for the codes in ``active``.
    evidence: Array
    active: Ints
    #: Trust in each worker who voted on a known task, and these workers.
    trust: Array
    workers: Ints

    def dense(self, n_workers: int) -> Array:
        """What each worker's labels add to each class, (n_workers, n_labels, n_classes)."""
        k = len(self.intercepts)
        table = np.zeros((n_workers, k, k))
        table[self.workers[:, None], np.arange(k), np.arange(k)] = self.trust[:, None]
        table.reshape(-1, k)[self.active] = self.evidence
        return np.clip(table, -_MOST_EVIDENCE, _MOST_EVIDENCE)


def fit_correction(known: KnownVotes, z: Array, scales: tuple[float, float, float, float]) -> Correction:
    """Fit a ridge regression to known classes: the maximum a posteriori, a strictly convex problem.

    Cost: O(votes on known tasks · n_classes) for each of a few dozen evaluations.
    """
    k, n, y = known.n_classes, known.n_tasks, known.classes
    active, place = np.unique(known.code, return_inverse=True)
    workers, worker = np.unique(active // k, return_inverse=True)
    own = (np.arange(len(active)), active % k)
    forward = (known.row[:, None] * k + np.arange(k)).ravel()
    backward = (place[:, None] * k + np.arange(k)).ravel()
    each, weight = np.arange(n), known.weight[:, None]
    cuts = np.cumsum([1, k, len(workers)])

    def parts(x: Array) -> tuple[float, Array, Array, Array]:
        slope, intercepts, trust, cells = np.split(x, cuts)
        cells = scales[3] * cells.reshape(-1, k)
        cells[own] += scales[2] * trust[worker]
        return 1.0 + scales[0] * float(slope[0]), scales[1] * intercepts, scales[2] * trust, cells

    def loss(x: Array) -> tuple[float, Array]:
        slope, intercepts, _, evidence = parts(x)
        votes = np.bincount(forward, (weight * evidence[place]).ravel(), n * k).reshape(n, k)
        logs = _log_softmax(slope * z + intercepts + votes)
        off = np.exp(logs)
        off[each, y] -= 1.0
        cells = np.bincount(backward, (weight * off[known.row]).ravel(), len(active) * k).reshape(-1, k)
        gradient = [
            [scales[0] * (off * z).sum()],
            scales[1] * off.sum(axis=0),
            scales[2] * np.bincount(worker, cells[own], len(workers)),
            scales[3] * cells.ravel(),
        ]
        return float(0.5 * (x @ x) - logs[each, y].sum()), np.concatenate(gradient) + x

    slope, intercepts, trust, evidence = parts(minimize(loss, np.zeros(cuts[-1] + len(active) * k)))
    return Correction(slope, intercepts, evidence, active, trust, workers)


def minimize(
    loss: Callable[[Array], tuple[float, Array]], x: Array, *, max_iter: int = 300, tol: float = 1e-9, memory: int = 12
) -> Array:
    """Minimize a strictly convex function, given with its gradient, by L-BFGS with backtracking."""
    value, gradient = loss(x)
    pairs: list[tuple[Array, Array, float]] = []
    for _ in range(max_iter):
        if np.abs(gradient).max(initial=0.0) <= tol:
            break
        direction = _descent(gradient, pairs)
        step, descent = 1.0 if pairs else 1.0 / max(1.0, float(np.abs(gradient).sum())), float(gradient @ direction)
        while True:
            new, slope = loss(x + step * direction)
            # Near the minimum, values differ by no more than rounding.
            if new <= value + 1e-4 * step * descent + _ROUNDING * abs(value) or step < 1e-10:
                break
            step /= 2
        change, changed = step * direction, slope - gradient
        curvature = float(change @ changed)
        if curvature <= 0:
            break
        pairs = [*pairs[1 - memory :], (change, changed, curvature)]
        x, gradient, value = x + change, slope, new
    return x


def _descent(gradient: Array, pairs: list[tuple[Array, Array, float]]) -> Array:
    """Minus the gradient times the inverse curvature that the last steps imply."""
    direction, rates = -gradient, []
    for step, changed, curvature in reversed(pairs):
        rates.append(float(step @ direction) / curvature)
        direction = direction - rates[-1] * changed
    if pairs:
        _, changed, curvature = pairs[-1]
        direction = direction * (curvature / float(changed @ changed))
    for (step, changed, curvature), rate in zip(pairs, reversed(rates), strict=True):
        direction = direction + step * (rate - float(changed @ direction) / curvature)
    return direction


@dataclass(frozen=True)
class Anchor:
    """What known classes taught: components of the corrected posterior, and their weights."""

    #: Weights of the default, both ridge regressions, and confusion matrices from gold alone.
    weights: Array = field(metadata=numbers("4", least=0))
    slopes: Array = field(metadata=numbers("2"))
    intercepts: Array = field(metadata=numbers("2k"))
    #: What labels add to log-probabilities, (2, n_workers, n_labels, n_classes).
    evidence: Array = field(metadata=numbers("2mkk"))
    #: From gold alone.
    confusion: Array = field(metadata=distributions("mkk"))
    shares: Array = field(metadata=distributions("k"))
    #: Number of known tasks that it was fitted to.
    n_known: float = field(metadata=number(least=0))

    def posterior(self, part: _core.Table | _core.Shard, default: Array, votes: Array) -> Array:
        """Correct the default's posteriors of tasks with these numbers of votes.

        Cost: three passes over the votes, O(n_tasks · n_classes) memory.
        """
        z, estimate = centered_log(default), self.weights[0] * default
        for weight, slope, intercepts, evidence in zip(
            self.weights[1:3], self.slopes, self.intercepts, self.evidence, strict=True
        ):
            prior = np.maximum(np.exp(_log_softmax(slope * z + intercepts)), _FLOOR)
            estimate += weight * self._answers(part, np.exp(evidence), prior)
        flat = np.full_like(default, 1.0 / default.shape[1])
        answers = self._answers(part, np.ascontiguousarray(self.confusion.swapaxes(1, 2)), flat)
        estimate += self.weights[3] * self._from_gold(np.log(np.maximum(answers, _TINY)), votes)
        return np.asarray(estimate / estimate.sum(axis=1, keepdims=True))

    def _answers(self, part: _core.Table | _core.Shard, factors: Array, prior: Array) -> Array:
        flat = np.ascontiguousarray(np.maximum(factors, _FLOOR).reshape(len(factors), -1))
        result: Array = part.em_answers(flat, prior, posterior=True)["posterior"]
        return result

    def _from_gold(self, likelihood: Array, votes: Array) -> Array:
        effect = 1.0 + _EFFECT * np.maximum(votes - 1.0, 0.0)
        return np.exp(_log_softmax(likelihood / effect[:, None] + np.log(np.maximum(self.shares, _TINY))))

    def of_known(self, known: KnownVotes, default: Array) -> Array:
        """Posteriors of known tasks by each component, (4, n_known, n_classes)."""
        z, k = centered_log(default), known.n_classes
        scores = [
            slope * z + intercepts + _sum_votes(known, evidence.reshape(-1, k))
            for slope, intercepts, evidence in zip(self.slopes, self.intercepts, self.evidence, strict=True)
        ]
        logs = np.log(np.maximum(self.confusion, _TINY)).swapaxes(1, 2).reshape(-1, k)
        counted_votes = self._from_gold(_sum_votes(known, logs), known.votes())
        return np.stack([default, *(np.exp(_log_softmax(score)) for score in scores), counted_votes])

    def carried_over(self, workers: Ints, n_labels: Ints) -> Self:
        """The same for a table whose worker m was worker workers[m] in fit, or is new at -1."""
        return replace(
            self,
            evidence=np.stack([carried_over(rows, workers, n_labels) for rows in self.evidence]),
            confusion=carried_over(self.confusion, workers, n_labels),
        )


def fit_anchor(known: KnownVotes, default: Array, prior: Array, dependence: float) -> Anchor:
    """Learn a correction from known classes.

    Parameters
    ----------
    known
        Votes on the known tasks.
    default : ndarray
        Posteriors of the known tasks, made without their classes.
    prior : ndarray
        Shares of the classes in the log.
    dependence : float
        From 0 for workers whose errors look independent, who are corrected less, to 1.
    """
    n = known.n_tasks
    used = np.unique(np.linspace(0, n - 1, min(n, _MOST_TASKS)).astype(np.int64))
    few, rows = known.some(used), default[used]
    pseudo = np.array(_PSEUDO_TASKS)
    pseudo[0] += _INDEPENDENT_TASKS * (1.0 - dependence)
    scale = _LEAST_SCALE + (1.0 - _LEAST_SCALE) * dependence
    # Tasks take turns by a fixed shuffle, so that folds do not follow the order of the log.
    fold = np.random.default_rng(0).permutation(len(used)) % min(_FOLDS, len(used))
    right = np.tile(rows[np.arange(len(used)), few.classes], (len(pseudo), 1))
    for turn in range(int(fold.max()) + 1 if len(used) > 1 else 0):
        train, validation = np.flatnonzero(fold != turn), np.flatnonzero(fold == turn)
        trained = _components(few.some(train), few.some(train), rows[train], prior, scale)
        calibrated = trained.of_known(few.some(validation), rows[validation])
        right[:, validation] = calibrated[:, np.arange(len(validation)), few.classes[validation]]
    weights, trust = mixture_weights(right, pseudo), min(1.0, n / FULL_AT)
    weights = trust * weights + (1.0 - trust) * np.eye(len(pseudo))[0]
    return replace(_components(few, known, rows, prior, scale), weights=weights, n_known=float(n))


def _components(few: KnownVotes, known: KnownVotes, default: Array, prior: Array, scale: float) -> Anchor:
    """All components fitted to known tasks: ridge regressions to a few of them, counts to all."""
    z, m = centered_log(default), known.n_workers
    corrections = [fit_correction(few, z, tuple(scale * part for part in scales)) for scales in SCALES]  # type: ignore[arg-type]
    shares = np.bincount(known.classes, minlength=known.n_classes) + _CLASSES * prior
    return Anchor(
        weights=np.eye(4)[0],
        slopes=np.array([one.slope for one in corrections]),
        intercepts=np.stack([one.intercepts for one in corrections]),
        evidence=np.stack([one.dense(m) for one in corrections]),
        confusion=gold_confusion(known.counts()),
        shares=shares / shares.sum(),
        n_known=float(known.n_tasks),
    )


def gold_confusion(counts: Array) -> Array:
    """Confusion matrices from counts of labels on known tasks, shrunk to one accuracy per worker."""
    k = counts.shape[1]
    right, total = np.einsum("mkk->m", counts), counts.sum(axis=(1, 2))
    crowd = (right.sum() + 1.0) / (total.sum() + 2.0)
    accuracy = np.clip((right + _COIN * crowd) / (total + _COIN), 0.02, 0.98)[:, None, None]
    coin = np.where(np.eye(k, dtype=bool), accuracy, (1.0 - accuracy) / max(k - 1, 1))
    matrices: Array = counts + _ROW * coin
    matrices /= matrices.sum(axis=2, keepdims=True)
    return matrices


def mixture_weights(right: Array, pseudo: Array) -> Array:
    """Most probable weights of components that gave known classes these probabilities, (n_components, n_known)."""
    weights: Array = pseudo / pseudo.sum()
    for _ in range(200):
        shares = weights[:, None] * np.maximum(right, 1e-12)
        counts = (shares / shares.sum(axis=0)).sum(axis=1) + pseudo
        weights = counts / counts.sum()
    return weights


def centered_log(posterior: Array) -> Array:
    """Log-probabilities less their mean, with one part in a hundred shared out evenly."""
    logs = np.log((1.0 - _EVEN) * posterior + _EVEN / posterior.shape[1])
    centered: Array = logs - logs.mean(axis=1, keepdims=True)
    return centered


def _sum_votes(known: KnownVotes, evidence: Array) -> Array:
    """Sums over the votes on each task of what they add to each class."""
    k, n = known.n_classes, known.n_tasks
    cell = (known.row[:, None] * k + np.arange(k)).ravel()
    added = (known.weight[:, None] * evidence[known.code]).ravel()
    return np.bincount(cell, added, n * k).astype(np.float64).reshape(n, k)


def _log_softmax(scores: Array) -> Array:
    scores = scores - scores.max(axis=1, keepdims=True)
    logs: Array = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return logs


# --------------------------------------------------------------------------------------------------- contradictions

#: Level of a contradiction, two-sided, in standard deviations of one comparison.
_SURPRISE = 3.0
#: Known tasks that a worker is compared on at least.
_LEAST_KNOWN = 5


@dataclass(frozen=True)
class KnownSkills:
    """How often each worker was right on known tasks."""

    seen: Array = field(metadata=numbers("m", least=0))
    right: Array = field(metadata=numbers("m", least=0))

    @classmethod
    def of(cls, counts: Array) -> Self:
        """Those of counts of labels by worker and class."""
        return cls(counts.sum(axis=(1, 2)), np.einsum("mkk->m", counts))


def contradictions(
    skills: KnownSkills, accuracy: Array, n_labels: Ints, workers: Any, posterior: Array, classes: Ints
) -> tuple[str, ...]:
    """Return where known classes contradict what unlabeled data say of workers, or of the answers' confidence.

    Parameters
    ----------
    skills
        Of known tasks.
    accuracy, n_labels, workers
        Of workers according to the unlabeled data, numbers of labels, and names.
    posterior, classes : ndarray
        Of the known tasks, made without their classes.
    """
    tested = skills.seen >= _LEAST_KNOWN
    n_seen, right = skills.seen[tested], skills.right[tested]
    stated_accuracy = accuracy[tested]
    remarks = []
    if len(n_seen):
        from statistics import NormalDist  # slow to import

        # Errors at the accuracy that both sources together suggest: shares of 0 and 1 have none of their own.
        pooled = (right + n_seen * stated_accuracy + 1.0) / (2.0 * n_seen + 2.0)
        error = np.sqrt(
            pooled * (1 - pooled) / n_seen + stated_accuracy * (1 - stated_accuracy) / np.maximum(n_labels[tested], 1)
        )
        level = (1.0 - NormalDist().cdf(_SURPRISE)) / len(n_seen)
        off = np.abs(right / n_seen - stated_accuracy) > -NormalDist().inv_cdf(level) * error
        if off.any():
            names = workers.values[np.flatnonzero(tested)[off]].tolist()
            remarks.append(
                f"Gold labels contradict the estimates from unlabeled data for {plural(len(names), 'worker')} "
                f"({preview(names, 3)}): mean accuracy {(right / n_seen)[off].mean():.2f} on gold tasks, "
                f"{stated_accuracy[off].mean():.2f} without gold. Errors of workers probably coincide."
            )
    sure = posterior.max(axis=1)
    hits = float((posterior.argmax(axis=1) == classes).sum())
    if abs(sure.sum() - hits) > _SURPRISE * np.sqrt(max(float((sure * (1 - sure)).sum()), 1.0)):
        remarks.append(
            f"Without gold, the answers to {plural(len(sure), 'gold task')} had a mean confidence of "
            f"{sure.mean():.2f}, and {hits / len(sure):.2f} were correct."
        )
    return tuple(remarks)
