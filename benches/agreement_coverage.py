"""How often the intervals of agreement hold the truth: simulated crowds whose coefficients are known.

    python benches/agreement_coverage.py                           # some minutes
    python benches/agreement_coverage.py --workers 20 --draws 100

Workers are fixed: confusion matrices are drawn once for each number of workers. Each draw is a new log of the same
workers: new tasks, new answers, and who labels what. The truth is what a coefficient would be on endlessly many tasks,
worked out from the confusion matrices. At 95 %, and if all is right, 93 to 97 of a hundred intervals hold it over 500
draws.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import manyhands as mh
from manyhands.agreement import (
    Agreement,
    agreement_ratio,
    cohen_kappa,
    fleiss_kappa,
    gwet_ac1,
    gwet_ac2,
    krippendorff_alpha,
    scott_pi,
)

#: Tasks for each number of workers, so that two workers share about 50, 25 and 10 of them; two workers share all.
N_TASKS = {2: 300, 20: 1_000, 50: 3_000, 200: 20_000}
LABELS_PER_TASK = 5
CLASSES = np.arange(1, 5)
SHARES = np.array([0.4, 0.3, 0.2, 0.1])
#: Of the model whose agreement with workers is compared with theirs.
MODEL_ACCURACY = 0.85

Measure = Callable[[mh.Annotations, np.ndarray, dict[str, Any]], Agreement]


# -------------------------------------------------------------------------------------------------- the crowd


def confusions(n_workers: int, rng: np.random.Generator) -> np.ndarray:
    """(n_workers + 1, true, said): workers of uneven accuracy and habits, and last the model."""
    k = len(SHARES)
    wrong = rng.dirichlet(np.full(k - 1, 2.0), (n_workers + 1, k))
    accuracy = rng.uniform(0.45, 0.95, n_workers + 1)
    accuracy[-1], wrong[-1] = MODEL_ACCURACY, 1 / (k - 1)
    found = np.empty((n_workers + 1, k, k))
    for cls in range(k):
        found[:, cls, cls] = accuracy
        found[:, cls, np.arange(k) != cls] = (1 - accuracy)[:, None] * wrong[:, cls]
    return found


def draw(confusion: np.ndarray, n_tasks: int, rng: np.random.Generator) -> tuple[mh.Annotations, np.ndarray]:
    """A log, and the model's answers."""
    n_workers = len(confusion) - 1
    each = min(LABELS_PER_TASK, n_workers)
    workers = rng.integers(0, n_workers, (n_tasks, each))
    while (again := (np.diff(np.sort(workers, axis=1), axis=1) == 0).any(axis=1)).any():
        workers[again] = rng.integers(0, n_workers, (again.sum(), each))
    workers = np.column_stack([workers, np.full(n_tasks, n_workers)])
    truth = rng.choice(len(SHARES), n_tasks, p=SHARES)
    bounds = confusion.cumsum(axis=2)[workers, truth[:, None], :-1]
    said = CLASSES[(rng.random((n_tasks, each + 1, 1)) > bounds).sum(axis=2)]
    tasks = np.repeat(np.arange(n_tasks), each)
    votes = mh.Annotations.from_arrays(tasks, workers[:, :-1].ravel(), said[:, :-1].ravel(), classes=CLASSES)
    return votes, said[:, -1]


# -------------------------------------------------------------------------------------------------- the truth


def apart(shape: str, positions: np.ndarray) -> np.ndarray:
    """How much each two classes differ."""
    x, y = positions[:, None], positions[None, :]
    if shape == "nominal":
        return (x != y).astype(float)
    return {"linear": np.abs(x - y), "quadratic": (x - y) ** 2, "ratio": ((x - y) / (x + y)) ** 2}[shape]


@dataclass(frozen=True)
class Truth:
    """What coefficients come to on endlessly many tasks."""

    confusion: np.ndarray

    @property
    def habits(self) -> np.ndarray:
        """How often each says what, (n_workers, n_classes)."""
        return np.einsum("c,wca->wa", SHARES, self.confusion[:-1])

    def observed(self, distance: np.ndarray, confusion: np.ndarray | None = None) -> np.ndarray:
        """The disagreement of each two workers."""
        confusion = self.confusion[:-1] if confusion is None else confusion
        return np.einsum("c,ica,jcb,ab->ij", SHARES, confusion, confusion, distance, optimize=True)

    def over_pairs(self, values: np.ndarray) -> float:
        return values[~np.eye(len(values), dtype=bool)].mean()

    def alpha(self, level: str) -> float:
        ranks = self.habits.mean(axis=0)
        positions = ranks.cumsum() - ranks / 2 if level == "ordinal" else CLASSES.astype(float)
        distance = apart({"ordinal": "quadratic", "interval": "quadratic"}.get(level, level), positions)
        return 1 - self.over_pairs(self.observed(distance)) / (ranks @ distance @ ranks)

    def fleiss(self, shape: str) -> float:
        shares, distance = self.habits.mean(axis=0), apart(shape, CLASSES.astype(float))
        return 1 - self.over_pairs(self.observed(distance)) / (shares @ distance @ shares)

    def gwet(self, shape: str) -> float:
        shares, distance = self.habits.mean(axis=0), apart(shape, CLASSES.astype(float))
        k, distance = len(CLASSES), distance / distance.max()
        chance = (1 - distance).sum() / (k * (k - 1)) * (shares * (1 - shares)).sum()
        return 1 - self.over_pairs(self.observed(distance)) / (1 - chance)

    def pairs(self, shape: str, *, shared: bool) -> float:
        distance, habits = apart(shape, CLASSES.astype(float)), self.habits
        if shared:
            both = (habits[:, None] + habits[None, :]) / 2
            expected = np.einsum("ija,ab,ijb->ij", both, distance, both, optimize=True)
        else:
            expected = habits @ distance @ habits.T
        return 1 - self.over_pairs(self.observed(distance)) / self.over_pairs(expected)

    def ratio(self, votes: mh.Annotations, min_overlap: int = 10) -> float:
        """The ratio over the pairs that share enough tasks of a log: which ones do is not for the interval to tell."""
        tasks, workers, _ = votes.codes()
        took_part = np.zeros((votes.n_tasks, votes.n_workers), np.float32)
        took_part[tasks, workers] = 1
        overlap = took_part.T @ took_part
        distance = apart("nominal", CLASSES)
        habits = np.einsum("c,wca->wa", SHARES, self.confusion)
        kappa = 1 - self.observed(distance, self.confusion) / (habits @ distance @ habits.T)
        squashed = 1 / (1 + np.exp(-kappa))
        compared = (overlap >= min_overlap) & ~np.eye(len(overlap), dtype=bool)
        return squashed[-1, :-1][np.diag(overlap) >= min_overlap].mean() / squashed[:-1, :-1][compared].mean()


def measures(truth: Truth) -> Iterator[tuple[str, float | Callable[[mh.Annotations], float], Measure]]:
    """Every coefficient that has an interval, with what it should be."""
    if len(truth.confusion) == 3:
        for weights in (None, "linear", "quadratic"):
            shape = weights or "nominal"
            for name, measure in (("Cohen", cohen_kappa), ("Scott", scott_pi)):
                value = truth.pairs(shape, shared=name == "Scott")
                yield f"{name}, two workers, {shape}", value, _of_two(measure, weights)
        return
    for level in ("nominal", "ordinal", "interval", "ratio"):
        yield f"Krippendorff, {level}", truth.alpha(level), _plain(krippendorff_alpha, level=level)
    for weights in (None, "linear", "quadratic"):
        shape = weights or "nominal"
        yield f"Fleiss, {shape}", truth.fleiss(shape), _plain(fleiss_kappa, weights=weights)
        gwet = _plain(gwet_ac1) if weights is None else _plain(gwet_ac2, weights=weights)
        yield f"Gwet, {shape}", truth.gwet(shape), gwet
        for name, measure in (("Cohen", cohen_kappa), ("Scott", scott_pi)):
            value = truth.pairs(shape, shared=name == "Scott")
            yield f"{name}, {shape}", value, _plain(measure, weights=weights)
            if weights is None:
                yield f"{name}, pairs alike", value, _plain(measure, average="even")
    yield "agreement ratio", truth.ratio, lambda votes, model, options: agreement_ratio(votes, model, **options)


def _plain(measure: Callable[..., Agreement], **settings: str | None) -> Measure:
    return lambda votes, model, options: measure(votes, **settings, **options)


def _of_two(measure: Callable[..., Agreement], weights: str | None) -> Measure:
    return lambda votes, model, options: measure(votes, (0, 1), weights=weights, **options)


# ------------------------------------------------------------------------------------------------- the figures


def coverage(
    n_workers: int,
    n_draws: int,
    resamples: int,
    *,
    first: int = 0,
    n_tasks: int | None = None,
    confidence: float = 0.95,
) -> dict[str, tuple[float, ...]]:
    """For each coefficient the truth, the mean estimate, the share of intervals that hold it, and their mean width."""
    truth = Truth(confusions(n_workers, np.random.default_rng(n_workers)))
    known, n_tasks = list(measures(truth)), n_tasks or N_TASKS[n_workers]
    options = {"resamples": resamples, "confidence": confidence}
    truths, values, hits, widths = (np.empty((n_draws, len(known))) for _ in range(4))
    for i in range(n_draws):
        votes, model = draw(truth.confusion, n_tasks, np.random.default_rng([n_workers, first + i]))
        for j, (_, value, measure) in enumerate(known):
            found = measure(votes, model, options | {"seed": first + i})
            low, high = found.interval or (np.nan, np.nan)
            truths[i, j] = value(votes) if callable(value) else value
            values[i, j], hits[i, j], widths[i, j] = found.value, low <= truths[i, j] <= high, high - low
    columns = [column.mean(axis=0) for column in (truths, values, hits, widths)]
    return {name: tuple(column[j] for column in columns) for j, (name, *_) in enumerate(known)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workers", type=int, nargs="+", default=list(N_TASKS), choices=list(N_TASKS))
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="number of the first draw, to share them among processes")
    parser.add_argument("--resamples", type=int, default=12)
    args = parser.parse_args()
    for n_workers in args.workers:
        print(f"\n{n_workers} workers, {N_TASKS[n_workers]:,} tasks, {args.draws} draws, {args.resamples} resamples\n")
        print("| coefficient | truth | mean estimate | % of intervals that hold the truth | mean width |")
        print("|---|---|---|---|---|")
        found = coverage(n_workers, args.draws, args.resamples, first=args.first)
        for name, (truth, mean, share, width) in found.items():
            print(f"| {name} | {truth:.4f} | {mean:.4f} | {100 * share:.1f} | {width:.4f} |", flush=True)


if __name__ == "__main__":
    main()
