"""The default of each kind of answers next to its trivial baseline, on small logs.

    python benches/defaults.py                 simulated pilots of 10 to 100 tasks, all kinds
    python benches/defaults.py --real          random tasks of the 24 logs of people with known classes
    python benches/defaults.py --draws 5 …     draws per size (default 30)

Measures count up: accuracy for classes, minus the mean absolute error for grades and the root mean squared error for
numbers, minus the word error rate for texts, F1 for sets of labels, spans and boxes, Kendall's tau for rankings, the
adjusted Rand index for clusters and Dice for masks. Data are looked for in ../shared/data.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import default
import gold
import harness
import manyhands as mh

SIZES = (10, 20, 50, 100)


@dataclass(frozen=True)
class Kind:
    """A simulator by size and seed, the baseline, and a measure of a model and a crowd that counts up."""

    simulate: Callable[[int, int], Any]
    baseline: Callable[[], Any]
    measure: Callable[[Any, Any], float]


def classes(n_workers: int, n_classes: int, votes: int) -> Kind:
    """Pilots of classes: accuracy, ties shared by the baseline."""

    def right(model: Any, crowd: Any) -> float:
        codes = np.searchsorted(crowd.log.classes, crowd.truth)
        return gold.accuracy(model.posterior_, np.minimum(codes, crowd.log.n_classes - 1))

    def draw(n: int, seed: int) -> Any:
        return mh.simulate(n, n_workers, n_classes, labels_per_task=votes, seed=seed)

    return Kind(draw, mh.MajorityVote, right)


@dataclass(frozen=True)
class Graded:
    """A crowd of grades, with its truth."""

    log: mh.Annotations
    truth: np.ndarray


def grades(n: int, seed: int) -> Graded:
    """Grades of one to five: workers see the true one with noise, and some are lenient."""
    rng = np.random.default_rng([n, seed])
    truth = rng.normal(0, 1.2, n)
    workers = np.argsort(rng.random((n, 10)), axis=1)[:, :5]
    noise, lenient = rng.uniform(0.3, 1.2, 10), rng.normal(0, 0.4, 10)
    seen = truth[:, None] + lenient[workers] + noise[workers] * rng.normal(size=workers.shape)
    cuts = np.array([-1.5, -0.5, 0.5, 1.5])
    codes = np.searchsorted(cuts, seen.ravel())
    tasks = np.repeat(np.arange(n), 5)
    frame = {"task": tasks, "worker": workers.ravel(), "label": codes}
    return Graded(mh.Annotations.from_frame(frame, classes=range(5), ordered=True), np.searchsorted(cuts, truth))


class MedianVote:
    """The lower median of the grades of each task."""

    def fit(self, votes: mh.Annotations) -> MedianVote:
        shares = mh.MajorityVote().fit(votes).posterior_
        self.labels_ = votes.classes[mh.ordinal.decide(shares)]
        return self


def kinds() -> dict[str, Kind]:
    """What is compared, by name."""
    metrics = mh.metrics
    return {
        "2 classes, 10 workers, 5 votes": classes(10, 2, 5),
        "3 classes, 5 workers, 5 votes": classes(5, 3, 5),
        "3 classes, 10 workers, 3 votes": classes(10, 3, 3),
        "4 classes, 20 workers, 5 votes": classes(20, 4, 5),
        "grades; median": Kind(grades, MedianVote, lambda model, c: -np.abs(model.labels_ - c.truth).mean()),
        "numbers; mean": Kind(
            lambda n, seed: mh.simulate(n, 10, answers_per_task=5, seed=seed, kind="numeric"),
            mh.numeric.Mean,
            lambda model, c: -metrics.rmse(model.values_, c.truth),
        ),
        "numbers; median": Kind(
            lambda n, seed: mh.simulate(n, 10, answers_per_task=5, seed=seed, kind="numeric"),
            mh.numeric.Median,
            lambda model, c: -metrics.rmse(model.values_, c.truth),
        ),
        "texts; closest to the others": Kind(
            lambda n, seed: mh.simulate(n, 10, answers_per_task=5, seed=seed, kind="texts"),
            mh.texts.ClosestToCentre,
            lambda model, c: -metrics.word_error_rate(model.texts_, c.truth),
        ),
        "sets of labels; vote": Kind(
            lambda n, seed: mh.simulate(n, 10, answers_per_task=5, seed=seed, kind="multilabel"),
            mh.multilabel.SetVote,
            lambda model, c: metrics.set_scores(model.label_sets_, c.truth).f1,
        ),
        "spans; token vote": Kind(
            lambda n, seed: mh.simulate(n, 8, answers_per_task=4, seed=seed, kind="sequences"),
            mh.sequences.TokenVote,
            lambda model, c: metrics.span_scores(model, c.truth).f1,
        ),
        "comparisons, 10 per item; Bradley–Terry": Kind(
            lambda n, seed: mh.simulate(n, 10, 10 * n, seed=seed, kind="pairwise"),
            mh.pairwise.BradleyTerry,
            lambda model, c: metrics.kendall(model.scores_, c.truth),
        ),
        "clusters; correlation clustering": Kind(
            lambda n, seed: mh.simulate(n, 10, pairs=0.3, seed=seed, kind="clustering"),
            mh.clustering.CorrelationClustering,
            lambda model, c: metrics.adjusted_rand(model.clusters_, c.truth),
        ),
    }


def gap(kind: Kind, n: int, draws: int) -> tuple[float, float, float, float]:
    """The default, the baseline, how far it is ahead, and the standard error of that."""
    found = []
    for seed in range(draws):
        crowd = kind.simulate(n, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            models = mh.aggregate(crowd.log), kind.baseline().fit(crowd.log)
        found.append([kind.measure(model, crowd) for model in models])
    values = np.array(found)
    ahead = values[:, 0] - values[:, 1]
    return *values.mean(axis=0), ahead.mean(), ahead.std(ddof=1) / np.sqrt(draws)


def report_simulated(draws: int) -> None:
    """Print a row per kind: the default's lead by number of tasks."""
    rows = []
    for name, kind in kinds().items():
        start, row = time.process_time(), {"kind; baseline": name}
        for n in SIZES:
            best, plain, ahead, error = gap(kind, n, draws)
            row[f"{n} tasks"] = f"{abs(best):.3f}, {abs(plain):.3f}: {ahead:+.3f} ± {error:.3f}"
        rows.append(row)
        print(f"{name}: {time.process_time() - start:.1f} s", flush=True)
    print(harness.markdown(rows))


def report_real(draws: int) -> None:
    """Print the default's lead over majority vote on random tasks of the logs of people."""
    rows = []
    leads: dict[int, list[tuple[float, float]]] = {n: [] for n in SIZES}
    for place, name in enumerate(default.LOGS):
        votes, truth = gold.people(name, gold.SHARED)
        of, workers, labels = votes.codes()
        for n in SIZES:
            pairs = []
            for _, some in gold.draws(truth, 0, draws, [place, n]):
                spot = np.full(votes.n_tasks, -1)
                spot[some[:n]] = np.arange(len(some[:n]))
                keep = spot[of] >= 0
                crowd, who = np.unique(workers[keep], return_inverse=True)
                sizes = {"n_tasks": len(some[:n]), "n_workers": len(crowd), "n_classes": votes.n_classes}
                part = mh.Annotations.from_codes(spot[of[keep]], who, labels[keep], **sizes)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    models = mh.aggregate(part), mh.MajorityVote().fit(part)
                pairs.append([gold.accuracy(model.posterior_, truth[some[:n]]) for model in models])
            leads[n].append(tuple(np.mean(pairs, axis=0)))
    for n, found in leads.items():
        values = 100 * np.array(found)
        ahead = values[:, 0] - values[:, 1]
        below = [f"{name} {gain:+.1f}" for name, gain in zip(default.LOGS, ahead, strict=True) if gain < -0.5]
        rows.append(
            {
                "tasks": n,
                "default": f"{values[:, 0].mean():.2f}",
                "majority": f"{values[:, 1].mean():.2f}",
                "more than half a point below": ", ".join(below) or "none",
            }
        )
    print(harness.markdown(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--real", action="store_true")
    asked = parser.parse_args()
    if asked.real:
        report_real(asked.draws)
    else:
        report_simulated(asked.draws)


if __name__ == "__main__":
    main()
