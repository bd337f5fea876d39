"""Four hundred experts of whose answers one in twenty is known: models of experts that share what they learn.

    python benches/defer/many.py                          # a quarter of an hour

Ten Gaussian classes that a network tells apart in two thirds of the cases. Each expert belongs to one of four kinds,
who know different classes; a case has twenty answers. Everybody may take ten cases in a thousand at most.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import teams
from experiment import Measures, Run, chosen, fully_connected, parser, repeat, report

import manyhands as mh
from manyhands import defer

COVERAGES = (0.2, 0.5, 0.8)
CLASSES, KINDS, MOST = 10, 4, 0.01


def specialists(n_experts: int) -> np.ndarray:
    """Confusion matrices: a kind knows five of the ten classes, and is right in half of the cases of the rest."""
    confusion = np.empty((n_experts, CLASSES, CLASSES))
    for expert in range(n_experts):
        known = (np.arange(CLASSES) - 3 * (expert % KINDS)) % CLASSES < CLASSES // 2
        right = np.where(known, 0.98, 0.5)
        confusion[expert] = (1 - right)[:, None] / (CLASSES - 1)
        np.fill_diagonal(confusion[expert], right)
    return confusion


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--experts", type=int, default=400)
    made.add_argument("--cases", type=int, default=4_000)
    arguments = made.parse_args()
    n, m = arguments.cases, arguments.experts
    workload = dict.fromkeys(range(m), (0.0, max(MOST, 2 / m)))

    def run(make: Any, **options: Any) -> Run:
        def once(seed: int) -> Measures:
            X, y = mh.categorical.synthetic.gaussians(n + 2000, CLASSES, n_features=16, separation=2.2, seed=seed)
            X, confusion = X.astype(np.float32), specialists(m)
            votes = teams.without(teams.asked(y[:n], confusion, seed), 0.95, seed)
            test = teams.asked(y[n:], confusion, seed + 1000)
            network = fully_connected(16, CLASSES, hidden=64, dropout=0.0, seed=seed)
            found = {}
            for coverage in COVERAGES:
                settings = {"coverage": coverage, "workload": workload, "max_epochs": 20, "lr": 0.03, "seed": seed}
                model = make(network, **settings | teams.with_own_gate(make, options)).fit(X[:n], y[:n], votes)
                found[f"accuracy at {coverage:.0%}"] = 100 * model.score(X[n:], y[n:], test)
                found[f"by expected accuracy, {coverage:.0%}"] = 100 * model.score(X[n:], y[n:], test, by="accuracy")
            found["classifier alone"] = 100 * float((model.predict(X[n:]) == y[n:]).mean())
            return found

        return once

    runs = {
        "conditional": run(defer.ProbabilisticDeferral, constraint="epoch"),
        "conditional mean-field": run(defer.ProbabilisticDeferral, constraint="epoch", inference="mean-field"),
        "four groups": run(defer.ProbabilisticDeferral, constraint="epoch", groups=KINDS),
        "confusion matrices": run(defer.ProbabilisticDeferral, constraint="epoch", experts="confusion"),
        "confusion matrices stacked": run(
            defer.ProbabilisticDeferral, constraint="epoch", experts="confusion", gate="stacked"
        ),
        "naive": run(defer.NaiveDeferral, constraint="epoch"),
        "one-vs-all": run(defer.OneVsAll),
        "compare confidence": run(defer.CompareConfidence),
        "selective": run(defer.SelectivePrediction),
    }
    rows = list(repeat(chosen(runs, arguments.only), arguments.seeds))
    notes = """
System accuracy in per cent on 2,000 cases not trained on, decided by capacity with the bound for each expert kept; mean
± deviation over seeds. What this does not show: experts who differ more than in kind, real answers.
"""
    report("defer-many", {f"{m} experts, 95 % of answers missing": rows}, notes, arguments.out)


if __name__ == "__main__":
    main()
