"""Coverage and accuracy of a classifier and experts, some of whose answers are missing. (Nguyen et al. 2025, Table 1)

    python benches/defer/curves.py                        # two experts, an hour
    python benches/defer/curves.py --team eight --parts workload
    python benches/defer/curves.py --set mnist --only naive,probabilistic

CIFAR-10 (256 unsupervised features, on which a classifier is right in 6 of 10 cases) or MNIST. Two experts who know
half of the classes each and take half of the other cases for another class, or eight of 80 to 87 per cent. A small
network each for classifier, gate and experts. Methods that keep a coverage while training are trained for each
coverage; all decide by capacity, so that the coverage asked for is the one kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import teams
from experiment import Measures, Run, chosen, data_set, fully_connected, mnist, parser, repeat, report
from teams import Cases

from manyhands import defer

COVERAGES = (0.0, 0.25, 0.5, 0.75, 1.0)
MISSING = (0.0, 0.3, 0.5, 0.7)
#: Networks of this size on features of this kind have learnt what they can by then.
TRAINING = {"max_epochs": 20, "lr": 0.03}
#: As in the paper, and with a confusion matrix for each expert instead of a network.
MEAN_FIELD, CONFUSION = {"inference": "mean-field"}, {"experts": "confusion"}
#: A gate that learns from answers not given as if they had been wrong.
WRONG = {"unanswered": "wrong"}
N_TEST = 2000
PARTS = ("curves", "constraint", "workload")


def images(name: str, folder: Path, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features and classes to train on and to test with."""
    if name == "mnist":
        X, y, X_test, y_test = mnist(folder, n)
        return X.numpy(), y, X_test.numpy()[:N_TEST], y_test[:N_TEST]
    arrays = np.load(data_set(folder, "cifar10_features") / "features.npz")
    scale, test = np.float32(arrays["scale"]), slice(N_TEST)
    y, y_test = arrays["y_train"][:n].astype(int), arrays["y_test"][test].astype(int)
    return arrays["X_train"][:n] * scale, y, arrays["X_test"][test] * scale, y_test


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--set", choices=("cifar10", "mnist"), default="cifar10")
    made.add_argument("--team", choices=("two", "eight"), default="two")
    made.add_argument("--images", type=int, default=3_000)
    made.add_argument("--parts", default=",".join(PARTS), help=f"comma-separated, of {', '.join(PARTS)}")
    made.add_argument("--missing", type=float, nargs="*", default=MISSING)
    arguments = made.parse_args()
    X, y, X_test, y_test = images(arguments.set, arguments.data, arguments.images + N_TEST)
    X, y, X_more = X[: arguments.images], y[: arguments.images], X[arguments.images :]
    confusion = teams.halves(10) if arguments.team == "two" else teams.graded(8, 10)

    def cases(missing: float, seed: int) -> Cases:
        votes = teams.without(teams.asked(y, confusion, seed), missing, seed)
        return Cases(X, y, votes, X_test, y_test, teams.asked(y_test, confusion, seed + 1000), X_more)

    def fitted(make: Any, given: Cases, seed: int, coverage: float | None, **options: Any) -> Any:
        network = fully_connected(X.shape[1], 10, hidden=64, dropout=0.2, seed=seed)
        model = make(network, coverage=coverage, seed=seed, **TRAINING | teams.with_own_gate(make, options))
        return model.fit(given.X, given.y, given.votes)

    def run(missing: float, make: Any, *, per_coverage: bool, **options: Any) -> Run:
        def once(seed: int) -> Measures:
            given = cases(missing, seed)
            fit = lambda coverage: fitted(make, given, seed, coverage, **options)  # noqa: E731
            return teams.curve(fit, given, COVERAGES, per_coverage=per_coverage)

        return once

    def methods(missing: float) -> dict[str, Run]:
        found: dict[str, Run] = {
            "probabilistic": run(missing, defer.ProbabilisticDeferral, per_coverage=True),
            "probabilistic mean-field": run(missing, defer.ProbabilisticDeferral, per_coverage=True, **MEAN_FIELD),
            "probabilistic confusion": run(missing, defer.ProbabilisticDeferral, per_coverage=True, **CONFUSION),
            "probabilistic stacked": run(missing, defer.ProbabilisticDeferral, per_coverage=True, gate="stacked"),
            "probabilistic confusion stacked": run(
                missing, defer.ProbabilisticDeferral, per_coverage=True, gate="stacked", **CONFUSION
            ),
            "naive": run(missing, defer.NaiveDeferral, per_coverage=True),
            "naive stacked": run(missing, defer.NaiveDeferral, per_coverage=True, gate="stacked"),
            "naive unanswered wrong": run(missing, defer.NaiveDeferral, per_coverage=True, **WRONG),
            "naive unanswered wrong stacked": run(
                missing, defer.NaiveDeferral, per_coverage=True, gate="stacked", **WRONG
            ),
            "selective": run(missing, defer.SelectivePrediction, per_coverage=False),
            "compare confidence": run(missing, defer.CompareConfidence, per_coverage=False),
            "one-vs-all": run(missing, defer.OneVsAll, per_coverage=False),
            "cross-entropy": run(missing, defer.CrossEntropySurrogate, per_coverage=False),
        }
        if missing:
            for method in ("mixmatch", "fixmatch"):
                found[method] = run(missing, defer.ImputedDeferral, per_coverage=True, method=method)
            found["mixmatch stacked"] = run(missing, defer.ImputedDeferral, per_coverage=True, gate="stacked")
        return found

    def kept(constraint: str, batch_size: int) -> Run:
        """The workload kept over a batch, the latest cases or all of them."""

        def once(seed: int) -> Measures:
            given, options = cases(0.5, seed), {"constraint": constraint, "batch_size": batch_size}
            fit = lambda c: fitted(defer.ProbabilisticDeferral, given, seed, c, **options)  # noqa: E731
            model, inner = fit(0.5), COVERAGES[1:-1]
            free = teams.free_posterior(model, given)
            order = np.random.default_rng(seed).permutation(len(free))
            batches = np.array_split(free[order], len(free) // batch_size)
            n = len(model.experts_)
            bounds = [0.0] * n + [0.5], [1.0] * n + [0.5]
            return {
                "AUC-CAC": teams.curve(fit, given, inner, per_coverage=True)["AUC-CAC"],
                "KL × 1000, each batch": 1000 * np.mean([defer.project(rows, *bounds).kl for rows in batches]),
                "KL × 1000, all cases": 1000 * defer.project(free, *bounds).kl,
            }

        return once

    def shared(workload: str) -> Run:
        """Balanced against free: accuracy at half coverage, and the most that one expert takes (Fig. 4)."""

        def once(seed: int) -> Measures:
            given = cases(0.5, seed)
            model = fitted(defer.ProbabilisticDeferral, given, seed, 0.5, workload=workload)
            who = model.decide(X_test).who
            taken = np.bincount(who, minlength=len(model.experts_) + 1)[:-1] / len(who)
            found = model.score(X_test, y_test, given.votes_test)
            return {"accuracy": 100 * found, "most to one expert": 100 * taken.max(), "least": 100 * taken.min()}

        return once

    tables = {}
    who, parts = f"{arguments.set}, {arguments.team} experts", arguments.parts.split(",")
    for missing in arguments.missing if "curves" in parts else ():
        print(f"missing {missing}", flush=True)
        rows = list(repeat(chosen(methods(missing), arguments.only), arguments.seeds))
        tables[f"{who}, {missing:.0%} of answers missing"] = rows
    if "constraint" in parts:
        kinds = [(name, size) for size in (20, 100) for name in ("batch", "running", "epoch")]
        constraints = {f"{name}, batches of {size}": kept(name, size) for name, size in kinds}
        tables[f"{who}: where the workload is kept, half missing"] = list(repeat(constraints, arguments.seeds))
    if "workload" in parts:
        both = {name: shared(name) for name in ("free", "balanced")}
        tables[f"{who}: free and balanced workload, half missing"] = list(repeat(both, arguments.seeds))
    notes = f"""
AUC-CAC: area under system accuracy against coverage {COVERAGES}, in per cent, on {N_TEST:,} cases not trained on,
decided by the method's own scores or by expected accuracy; mean ± deviation over seeds. "Coverage missed": by how many
points decisions by arg max, or by thresholds calibrated on further cases, miss the coverage; by capacity it is kept.
KL: of the posterior of who answers the cases trained on, projected to half coverage over each batch or over all cases
at once, to the free one.
What this does not show: deep networks, real experts, tuned rates (all methods use the same).
"""
    report("-".join(["defer", arguments.set, arguments.team, *parts]), tables, notes, arguments.out)


if __name__ == "__main__":
    main()
