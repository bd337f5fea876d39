"""Experts who come later, and experts whose skill changes: what nobody's training saw.

    python benches/defer/population.py                    # some minutes

Ten Gaussian classes that a network tells apart in two thirds of the cases. Newcomers: experts who know four classes of
ten each, forty of them in training; twenty others have answered 10, 20 or 50 cases each when they are first asked, and
nobody but them may be. Change: of two experts one learns and one tires over the cases trained on, and on the whole they
were alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import teams  # noqa: F401 (finds the other experiments)
from experiment import Measures, Run, chosen, fully_connected, parser, repeat, report

import manyhands as mh
from manyhands import defer

CLASSES, OLD, NEW, N, N_TEST = 10, 40, 20, 2_000, 2_000
TRAINING = {"max_epochs": 15, "lr": 0.03}
FEW = (10, 20, 50)


def cases(seed: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    X, y = mh.categorical.synthetic.gaussians(N + N_TEST, CLASSES, n_features=16, separation=2.2, seed=seed)
    return X.astype(np.float32), y, np.random.default_rng([seed, 3])


def wrong_at(rate: np.ndarray, truth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Answers, (cases × experts), that are another class at a rate each."""
    other = (truth[:, None] + rng.integers(1, CLASSES, rate.shape)) % CLASSES
    return np.where(rng.random(rate.shape) < rate, other, truth[:, None])


def sparse(answers: np.ndarray, experts: np.ndarray, keep: np.ndarray) -> mh.Annotations:
    at, who = np.nonzero(keep)
    return mh.Annotations.from_arrays(at, experts[who], answers[at, who])


def newcomers(few: int) -> Run:
    """Accuracy where all cases go to newcomers, whoever of them seems best."""

    def once(seed: int) -> Measures:
        X, y, rng = cases(seed)
        knows = np.array([rng.permutation(CLASSES) < 4 for _ in range(OLD + NEW)])
        answers = wrong_at(np.where(knows[:, y].T, 0.03, 0.6), y, rng)
        network = fully_connected(16, CLASSES, hidden=64, dropout=0.0, seed=seed)
        old, new, test = np.arange(OLD), np.arange(OLD, OLD + NEW), slice(N, None)
        keep = rng.random((N, OLD)) < 0.1
        given = sparse(answers[:N, :OLD], old, keep)
        team = defer.SetDeferral(network, seed=seed, **TRAINING).fit(X[:N], y[:N], given)
        # Each newcomer's answers are to cases of their own.
        first = np.zeros((N, NEW), bool)
        for j in range(NEW):
            first[rng.choice(N, few, replace=False), j] = True
        votes = sparse(answers[:N, OLD:], new, first)
        truth = mh.Annotations.from_dense(answers[test])
        nobody = dict.fromkeys(old.tolist(), 0.0)
        larger = team.with_experts(X[:N], y[:N], votes)
        asked = {"coverage": 0.0, "workload": nobody}
        # What one has without models of experts: the counts, class by class, with weak pseudo-counts.
        counted = defer.SelectivePrediction(network, seed=seed, **TRAINING).fit(X[:N], y[:N], votes)
        by_count = counted.score(X[test], y[test], truth, coverage=0.0, by="accuracy")
        alone = (answers[test][:, OLD:] == y[test, None]).mean(axis=0)
        return {
            "sets of answers": 100 * larger.score(X[test], y[test], truth, **asked),
            "counted class by class": 100 * by_count,
            "a newcomer on average": 100 * alone.mean(),
            "the best newcomer": 100 * alone.max(),
            "half coverage, sets": 100 * larger.score(X[test], y[test], truth, **asked | {"coverage": 0.5}),
            "classifier": 100 * float((team.predict(X[test]) == y[test]).mean()),
        }

    return once


def change(make: Any, half_life: Any, **options: Any) -> Run:
    """Accuracy at a coverage of a fifth on cases that come after those trained on."""

    def once(seed: int) -> Measures:
        X, y, rng = cases(seed)
        learns = np.interp(np.arange(N + N_TEST), [0, N], [0.6, 0.05])
        answers = wrong_at(np.stack([learns, 0.65 - learns], axis=1), y, rng)
        network = fully_connected(16, CLASSES, hidden=64, dropout=0.0, seed=seed)
        team = make(network, coverage=0.2, seed=seed, half_life=half_life, **TRAINING | options)
        times = None if half_life is None else np.arange(N)
        team.fit(X[:N], y[:N], mh.Annotations.from_dense(answers[:N]), times=times)
        test, truth = slice(N, None), mh.Annotations.from_dense(answers[N:])
        return {
            "accuracy": 100 * team.score(X[test], y[test], truth),
            "to the one who learnt": 100 * float((team.decide(X[test]).who == 0).mean()),
            "half-life (0: none)": float(team.half_life_ or 0.0),
        }

    return once


def main() -> None:
    arguments = parser(__doc__).parse_args()
    later = {f"{few} answers each": newcomers(few) for few in FEW}
    changing = {
        f"{name}, half-life {half_life or 'none'}": change(make, half_life, **more)
        for name, make, more in (
            ("naive", defer.NaiveDeferral, {}),
            ("selective prediction", defer.SelectivePrediction, {}),
        )
        for half_life in (None, 50.0, 200.0, 1000.0, "auto")
    }
    tables = {
        "newcomers, per cent": list(repeat(chosen(later, arguments.only), arguments.seeds)),
        "skills that change": list(repeat(chosen(changing, arguments.only), arguments.seeds)),
    }
    notes = f"""
Ten Gaussian classes, {N:,} cases to learn from and {N_TEST:,} to judge by; mean ± deviation over seeds. "Counted class
by class": the newcomers alone, judged by their few answers with weak pseudo-counts. What this does not show: real
experts.
"""
    report("deferral-population", tables, notes, arguments.out)


if __name__ == "__main__":
    main()
