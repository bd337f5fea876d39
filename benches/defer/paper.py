"""The tables and figures of Nguyen et al. (2025), made small: features in the place of images, and a layer of networks.

    python benches/defer/paper.py table1                  # ten minutes on two cores
    python benches/defer/paper.py real curves halves rates reader workload batches time ranked costs prices gates
    python benches/defer/paper.py case-penalty --seeds 3
    python benches/defer/paper.py curves --draw docs/images   # from the points that are stored

Each part is stored under its own name. CIFAR-10 has 256 unsupervised features here, 1,000 cases to learn from (table1,
gates: 2,000) and 2,000 others to judge by; networks have one hidden layer of 64 and learn for ten epochs (table1: 20).
Methods that keep a coverage while training are trained for ¼, ½ and ¾; at 0 and 1 the nearest of these decides.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import experts
import numpy as np
import teams
from curves import N_TEST, images
from experiment import Measures, Run, chosen, fully_connected, parser, repeat, report
from teams import Cases

import manyhands as mh
from manyhands import defer

INNER = (0.25, 0.5, 0.75)
N_TRAIN = 1_000
TRAINING = {"max_epochs": 10, "lr": 0.03}
PROBABILISTIC, NAIVE, IMPUTED = defer.ProbabilisticDeferral, defer.NaiveDeferral, defer.ImputedDeferral
MIXMATCH, FIXMATCH = {"method": "mixmatch"}, {"method": "fixmatch"}
#: The paper's own: a gate of its own, like the classifier.
OWN = {"gate": None}
#: Cases of a seed at a rate of missing answers.
Make = Callable[[int], Cases]


def cifar(arguments: Any, confusion: np.ndarray, missing: float, n: int = N_TRAIN) -> Make:
    """CIFAR-10 with simulated experts."""
    X, y, X_test, y_test = images("cifar10", arguments.data, n)

    def made(seed: int) -> Cases:
        votes = teams.without(teams.asked(y, confusion, seed), missing, seed)
        return Cases(X, y, votes, X_test, y_test, teams.asked(y_test, confusion, seed + 1000), X_test)

    return made


def real(arguments: Any, who: list[str] | None, missing: float, *, one: bool = False) -> Make:
    """Pathologists of Chaoyang, by name, or the radiologists of NIH (or `one` of them), with simulated features."""
    radiologists = who is None
    found = experts.radiologists(arguments.data, one=one) if radiologists else experts.chaoyang(arguments.data, who)

    def made(seed: int) -> Cases:
        cases = experts.split(*found, missing, seed)
        some = np.sort(np.random.default_rng([seed, 9]).permutation(len(cases.y))[:N_TRAIN])
        at, who, label = cases.votes.codes()
        place = np.full(len(cases.y), -1)
        place[some] = np.arange(len(some))
        keep = place[at] >= 0
        sizes = {"n_tasks": len(some), "n_workers": cases.votes.n_workers, "n_classes": cases.votes.n_classes}
        votes = mh.Annotations.from_codes(place[at[keep]], who[keep], label[keep], **sizes)
        return replace(cases, X=cases.X[some], y=cases.y[some], votes=votes)

    return made


def fitted(make: Any, cases: Cases, seed: int, **options: Any) -> Any:
    """A trained team."""
    network = fully_connected(cases.X.shape[1], int(cases.y.max()) + 1, hidden=64, dropout=0.2, seed=seed)
    return make(network, seed=seed, **TRAINING | options).fit(cases.X, cases.y, cases.votes)


def score(team: Any, cases: Cases, **given: Any) -> float:
    return 100 * team.score(cases.X_test, cases.y_test, cases.votes_test, missing="available", **given)


def trained(make: Any, cases: Cases, seed: int, **options: Any) -> list[tuple[float, Any]]:
    """Coverages with the team that decides at each."""
    once_for_all = make in (defer.SelectivePrediction, defer.CompareConfidence, defer.OneVsAll)
    models = [] if once_for_all else [fitted(make, cases, seed, coverage=c, **options) for c in INNER]
    models = models or [fitted(make, cases, seed, **options)] * len(INNER)
    return [(0.0, models[0]), *zip(INNER, models, strict=True), (1.0, models[-1])]


def area(make: Any, cases_of: Make, **options: Any) -> Run:
    """Area under the coverage–accuracy curve, by the router and by expected accuracy."""

    def once(seed: int) -> Measures:
        cases = cases_of(seed)
        teams_of = trained(make, cases, seed, **options)
        return {
            name: 100
            * defer.auc_cac(
                [c for c, _ in teams_of], [score(team, cases, coverage=c, by=by) / 100 for c, team in teams_of]
            )
            for name, by in (("AUC-CAC", "gate"), ("by expected accuracy", "accuracy"))
        }

    return once


def points(make: Any, cases_of: Make, **options: Any) -> Run:
    """Area under the curve and its points, by the router."""

    def once(seed: int) -> Measures:
        cases = cases_of(seed)
        accuracy = {c: score(team, cases, coverage=c) for c, team in trained(make, cases, seed, **options)}
        return {"AUC-CAC": defer.auc_cac(list(accuracy), list(accuracy.values()))} | {
            f"at {c:.0%}": value for c, value in accuracy.items()
        }

    return once


def methods(cases_of: Make, **training: Any) -> dict[str, Run]:
    """The rows of Table 1, and those that are ours."""
    rows = {
        "naive": (NAIVE, OWN),
        "naive, unanswered are wrong": (NAIVE, {"unanswered": "wrong"} | OWN),
        "MixMatch": (IMPUTED, MIXMATCH | OWN),
        "FixMatch": (IMPUTED, FIXMATCH | OWN),
        "probabilistic": (PROBABILISTIC, {"inference": "mean-field"} | OWN),
        "probabilistic, exact, anchored": (PROBABILISTIC, {}),
        "selective prediction": (defer.SelectivePrediction, {}),
    }
    return {name: area(make, cases_of, **training, **options) for name, (make, options) in rows.items()}


def table1(arguments: Any) -> dict[str, Any]:
    """Two experts at two rates; more of both are in ``curves.py``."""
    return {
        f"two experts, {missing:.0%} of answers missing": methods(
            cifar(arguments, teams.halves(10), missing, 2 * N_TRAIN), max_epochs=20
        )
        for missing in (0.5, 0.7)
    }


def real_experts(arguments: Any) -> dict[str, Any]:
    return {
        "Chaoyang, first two, 50% of answers missing": methods(real(arguments, ["A", "B"], 0.5)),
        "Chaoyang, all three, 50% of answers missing": methods(real(arguments, ["A", "B", "C"], 0.5)),
        "NIH, airspace opacity, missing as they were": methods(real(arguments, None, 0.0)),
    }


def released(cases_of: Make, only: str = "", **training: Any) -> dict[str, Run]:
    """The rows of Table 1 without imputing, as printed and as in the code of the authors, or some of them."""
    rows = {
        "naive": (NAIVE, OWN),
        "naive, as released": (NAIVE, {"unanswered": "wrong"} | OWN),
        "probabilistic": (PROBABILISTIC, {"inference": "mean-field"} | OWN),
        "probabilistic, as released": (PROBABILISTIC, {"inference": "mean-field-released"} | OWN),
        "probabilistic, exact, anchored": (PROBABILISTIC, {}),
        "selective prediction": (defer.SelectivePrediction, {}),
    }
    return {name: area(make, cases_of, **training, **options) for name, (make, options) in rows.items() if only in name}


def curves(arguments: Any) -> dict[str, Any]:
    """Points of the curves of real experts (Figs. 3 and 5), in the forms of the text and of the released code."""
    rows = {
        "naive": (NAIVE, OWN),
        "naive, as released": (NAIVE, {"unanswered": "wrong"} | OWN),
        "MixMatch": (IMPUTED, MIXMATCH | OWN),
        "FixMatch": (IMPUTED, FIXMATCH | OWN),
        "probabilistic": (PROBABILISTIC, {"inference": "mean-field"} | OWN),
        "probabilistic, as released": (PROBABILISTIC, {"inference": "mean-field-released"} | OWN),
        "selective prediction": (defer.SelectivePrediction, {}),
    }
    sets = {
        "Chaoyang, first two, 50% of answers missing": real(arguments, ["A", "B"], 0.5),
        "NIH, one radiologist, 20% of answers missing": real(arguments, None, 0.2, one=True),
    }
    return {
        title: {name: points(make, cases_of, **options) for name, (make, options) in rows.items()}
        for title, cases_of in sets.items()
    }


def halves(arguments: Any) -> dict[str, Any]:
    """The two experts of `table1` at the rates of the paper, as in the code of the authors."""
    return {
        f"two experts, {missing:.0%} of answers missing, as released": released(
            cifar(arguments, teams.halves(10), missing, 2 * N_TRAIN), "as released", max_epochs=20
        )
        for missing in (0.3, 0.5, 0.7)
    }


def rates(arguments: Any) -> dict[str, Any]:
    """Chaoyang's first two pathologists at the other rates of Table 1."""
    return {
        f"Chaoyang, first two, {missing:.0%} of answers missing": released(real(arguments, ["A", "B"], missing))
        for missing in (0.0, 0.3, 0.7)
    }


def reader(arguments: Any) -> dict[str, Any]:
    """NIH as in the paper: the radiologist with most readings, a fifth of whose answers are removed."""
    title = "NIH, airspace opacity, one radiologist, 20% of answers missing"
    return {title: released(real(arguments, None, 0.2, one=True))}


def workload(arguments: Any) -> dict[str, Any]:
    """Balanced against free at half coverage (Fig. 4)."""

    def shared(cases_of: Make, asked: str, **options: Any) -> Run:
        def once(seed: int) -> Measures:
            cases = cases_of(seed)
            team = fitted(PROBABILISTIC, cases, seed, coverage=0.5, workload=asked, **options)
            taken = defer.workload(team.decide(cases.X_test).who, len(team.experts_) + 1)[:-1]
            return {"accuracy": score(team, cases), "most to one": 100 * taken.max(), "least": 100 * taken.min()}

        return once

    sets = {
        "Chaoyang, first two": real(arguments, ["A", "B"], 0.5),
        "Chaoyang, all three": real(arguments, ["A", "B", "C"], 0.5),
        "eight experts, CIFAR-10": cifar(arguments, teams.graded(8, 10), 0.5),
    }
    gates = {"its own gate": OWN, "anchored": {}}
    return {
        title: {
            f"{asked}, {name}": shared(made, asked, **gate)
            for asked in ("free", "balanced")
            for name, gate in gates.items()
        }
        for title, made in sets.items()
    }


def batches(arguments: Any) -> dict[str, Any]:
    """Batches over which the workload is kept (Fig. 7)."""
    cases_of = real(arguments, ["A", "B"], 0.5)
    rows = {f"batches of {size}": area(PROBABILISTIC, cases_of, batch_size=size, **OWN) for size in (20, 50, 100)}
    return {"Chaoyang, first two, 50% of answers missing": rows}


def running_time(arguments: Any) -> dict[str, Any]:
    """Processor time of a training, beside that of the classifier by itself (Table 3)."""

    def timed(make: Any, cases_of: Make, **options: Any) -> Run:
        def once(seed: int) -> Measures:
            cases = cases_of(seed)
            fitted(defer.SelectivePrediction, cases, seed, max_epochs=1)  # what is loaded once is loaded here
            spent = []
            for kind, more in ((defer.SelectivePrediction, {}), (make, {"coverage": 0.5} | options)):
                start = time.process_time()
                fitted(kind, cases, seed, **more)
                spent.append(time.process_time() - start)
            return {"times the classifier's": spent[1] / spent[0], "seconds of processor": spent[1]}

        return once

    rows = {
        "naive": (NAIVE, OWN),
        "naive, anchored": (NAIVE, {}),
        "MixMatch": (IMPUTED, MIXMATCH | OWN),
        "FixMatch": (IMPUTED, FIXMATCH | OWN),
        "probabilistic": (PROBABILISTIC, {"inference": "mean-field"} | OWN),
        "probabilistic, exact": (PROBABILISTIC, OWN),
        "probabilistic, exact, anchored": (PROBABILISTIC, {}),
        "probabilistic, exact, once an epoch": (PROBABILISTIC, {"constraint": "epoch"}),
        "probabilistic, confusion matrices": (PROBABILISTIC, {"experts": "confusion"}),
        "compare confidence": (defer.CompareConfidence, {}),
        "one-vs-all": (defer.OneVsAll, {}),
        "cross-entropy surrogate": (defer.CrossEntropySurrogate, {}),
        "mixture of experts": (defer.MixtureOfExperts, {}),
        "triage": (defer.Triage, {}),
        "sets of answers": (defer.SetDeferral, {}),
    }
    two, eight = (cifar(arguments, confusion, 0.5) for confusion in (teams.halves(10), teams.graded(8, 10)))
    papers = ("naive", "MixMatch", "FixMatch", "probabilistic", "probabilistic, exact, anchored")
    return {
        "two experts, half missing": {name: timed(make, two, **more) for name, (make, more) in rows.items()},
        "eight experts, half missing": {name: timed(rows[name][0], eight, **rows[name][1]) for name in papers},
    }


def ranked(arguments: Any) -> dict[str, Any]:
    """Decisions by Algorithm 2 beside the best assignment of the same scores."""

    def compared(make: Any, cases_of: Make, **options: Any) -> Run:
        def once(seed: int) -> Measures:
            cases = cases_of(seed)
            team = fitted(make, cases, seed, **options)
            scores = np.log(team.defer_proba(cases.X_test))
            n, m = len(scores), len(team.experts_)
            answers = np.empty((n, m), np.int64)
            at, who, label = cases.votes_test.codes()
            answers[at, who] = label
            correct = defer.correctness(cases.y_test, answers, team.predict(cases.X_test))
            differ, over = [], []
            for c in INNER:
                low, high = np.zeros(m + 1), np.ones(m + 1)
                low[-1] = high[-1] = c
                best = defer.assign(scores, *defer.capacities(low, high, n, m + 1))
                found = defer.ranked(scores, c)
                differ.append((best != found).mean())
                over.append(defer.coverage(found, m + 1) - c)
            # As papers plot it: against the coverage asked for, whatever was reached.
            asked = np.linspace(0, 1, 21)
            plotted = [defer.system_accuracy(defer.ranked(scores, c), correct) for c in asked]
            return {
                "decisions that differ": 100 * float(np.mean(differ)),
                "coverage beyond the asked one": 100 * float(np.mean(over)),
                "area, best assignment": 100 * defer.coverage_accuracy(scores, correct).area,
                "area, ranked, over asked": 100 * defer.auc_cac(asked, plotted),
                "area, ranked, over reached": 100 * defer.coverage_accuracy(scores, correct, how="ranked").area,
            }

        return once

    rows: dict[str, dict[str, Run]] = {}
    for title, confusion in (("two experts", teams.halves(10)), ("eight experts", teams.graded(8, 10))):
        cases_of = cifar(arguments, confusion, 0.5)
        rows[f"{title}, half missing"] = {
            "naive": compared(NAIVE, cases_of, **OWN),
            "naive, anchored": compared(NAIVE, cases_of),
            "the same, trained for half coverage": compared(NAIVE, cases_of, coverage=0.5),
            "one-vs-all": compared(defer.OneVsAll, cases_of),
        }
    return rows


def costs(arguments: Any) -> dict[str, Any]:
    """Coverages by a penalty, by a cost that is looked for, and by the projection: what the arg max then has."""
    cases_of = cifar(arguments, teams.halves(10), 0.5)

    def reached(c: float, **options: Any) -> Run:
        def once(seed: int) -> Measures:
            cases = cases_of(seed)
            team = fitted(NAIVE, cases, seed, coverage=c, **OWN | options)
            found = team.decide(cases.X_test, how="argmax").coverage
            mean = team.defer_proba(cases.X_test)[:, -1].mean()
            return {
                "coverage by arg max": 100 * found,
                "mean of the router": 100 * mean,
                "accuracy by capacity": score(team, cases, coverage=c),
            }

        return once

    def swept(c: float) -> Run:
        def once(seed: int) -> Measures:
            cases = cases_of(seed)
            network = fully_connected(cases.X.shape[1], 10, hidden=64, dropout=0.2, seed=seed)
            team = NAIVE(network, seed=seed, **TRAINING | OWN)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", mh.errors.ConvergenceWarning)
                found = defer.sweep(team, cases.X, cases.y, cases.votes, coverage=c, max_fits=8, judge=cases.X_test)
            return {
                "coverage by arg max": 100 * found.coverage,
                "mean of the router": 100 * found.model.defer_proba(cases.X_test)[:, -1].mean(),
                "accuracy by capacity": score(found.model, cases, coverage=c),
                "trainings": len(found.tried),
            }

        return once

    tables = {}
    for c in (0.2, 0.5, 0.8):
        penalties = {
            f"penalty, ζ = {weight:g}": reached(c, constraint="penalty", penalty=weight) for weight in (1, 10, 50, 1000)
        }
        tables[f"coverage {c:.0%}, two experts, half missing"] = {"projection": reached(c)} | penalties
        tables[f"coverage {c:.0%}, by a cost that is looked for"] = {"cost": swept(c)}
    return tables


def case_penalty(arguments: Any) -> dict[str, Any]:
    """The penalty as the paper prints it, the mean of squares of single cases, next to the projection."""
    cases_of = cifar(arguments, teams.halves(10), 0.5)

    def reached(c: float, **options: Any) -> Run:
        def once(seed: int) -> Measures:
            cases = cases_of(seed)
            team = fitted(NAIVE, cases, seed, coverage=c, **OWN | options)
            return {
                "coverage by arg max": 100 * team.decide(cases.X_test, how="argmax").coverage,
                "mean of the router": 100 * team.defer_proba(cases.X_test)[:, -1].mean(),
                "accuracy by capacity": score(team, cases, coverage=c),
            }

        return once

    return {
        f"coverage {c:.0%}, two experts, half missing": {"projection": reached(c)}
        | {
            f"penalty per case, ζ = {weight:g}": reached(c, constraint="case-penalty", penalty=weight)
            for weight in (1, 10, 50, 1000)
        }
        for c in (0.2, 0.5, 0.8)
    }


def prices(arguments: Any) -> dict[str, Any]:
    """A cost for each expert: the best of three is dear, and either that is known in training or it is not."""
    cases_of = cifar(arguments, teams.graded(3, 10, accuracy=(0.6, 0.9)), 0.5)

    def taught(make: Any, price: float, known: bool, net: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Run:
        def once(seed: int) -> Measures:
            cases = cases_of(seed)
            team = fitted(make, cases, seed, **({"cost": {2: price}} if known else {}))
            who = team.decide(cases.X_test, how="argmax").who
            at, expert, label = cases.votes_test.codes()
            said = np.empty((len(cases.y_test), 4), label.dtype)
            said[at, expert], said[:, 3] = label, team.predict(cases.X_test)
            right = (said[np.arange(len(who)), who] == cases.y_test).astype(float)
            shares = 100 * np.bincount(who, minlength=4) / len(who)
            names = ("to the worst", "to the middle one", "to the best, who is dear", "kept")
            return dict(zip(names, shares.tolist(), strict=True)) | {
                "accuracy": 100 * right.mean(),
                "worth": 100 * net(right, price * (who == 2)).mean(),
            }

        return once

    def discounted(right: np.ndarray, cost: np.ndarray) -> np.ndarray:
        return right * np.exp(-cost)

    kinds = {"naive": (NAIVE, discounted), "mixture of experts": (defer.MixtureOfExperts, np.subtract)}
    return {
        f"the best of three experts costs {price:g}": {
            f"{name}, {'cost known' if known else 'cost unknown'}": taught(make, price, known, net)
            for name, (make, net) in kinds.items()
            for known in (False, True)
        }
        for price in (0.05, 0.2, 1.0)
    }


def gates(arguments: Any) -> dict[str, Any]:
    """Gates that learn from few cases beside selective prediction, also where classes do not tell who is skilled."""

    def rows(cases_of: Make) -> dict[str, Run]:
        made: dict[str, Run] = {"selective prediction": area(defer.SelectivePrediction, cases_of)}
        for name, make, more in (
            ("naive", NAIVE, {}),
            ("probabilistic, confusion matrices", PROBABILISTIC, {"experts": "confusion"}),
        ):
            for gate in (None, "stacked", "anchored"):
                made[f"{name}: {gate or 'its own gate'}"] = area(make, cases_of, gate=gate, **more)
        return made

    n = 2 * N_TRAIN
    X, y, X_test, y_test = images("cifar10", arguments.data, n)
    middle = np.median(X[:, 0])

    def sides(seed: int) -> Cases:
        """Two experts who know one side of the first feature each, and are wrong in half of the cases of the other."""

        def answers(features: np.ndarray, truth: np.ndarray, at: int) -> mh.Annotations:
            rng = np.random.default_rng([seed, at])
            unknown = np.stack([features[:, 0] <= middle, features[:, 0] > middle], axis=1)
            wrong = unknown & (rng.random(unknown.shape) < 0.5)
            other = (truth[:, None] + rng.integers(1, 10, unknown.shape)) % 10
            return mh.Annotations.from_dense(np.where(wrong, other, truth[:, None]))

        votes = teams.without(answers(X, y, 0), 0.5, seed)
        return Cases(X, y, votes, X_test, y_test, answers(X_test, y_test, 1), X_test)

    return {
        "two experts, half missing": rows(cifar(arguments, teams.halves(10), 0.5, n)),
        "eight experts, half missing": rows(cifar(arguments, teams.graded(8, 10), 0.5, n)),
        "two experts who know a side of a feature each, half missing": rows(sides),
    }


def draw(stored: Path, path: Path) -> None:
    """Draw curves of the means that are stored."""
    coverages = (0.0, *INNER, 1.0)

    def mean(cell: str) -> float:
        return float(cell.split(" ")[0]) / 100

    tables = json.loads(stored.read_text())["tables"]
    found = {
        title: {row["method"]: [[mean(row[f"at {c:.0%}"]) for c in coverages]] for row in rows}
        for title, rows in tables.items()
    }
    teams.draw(found, coverages, path)


PARTS = {
    "table1": table1,
    "real": real_experts,
    "halves": halves,
    "curves": curves,
    "rates": rates,
    "reader": reader,
    "workload": workload,
    "batches": batches,
    "time": running_time,
    "ranked": ranked,
    "costs": costs,
    "case-penalty": case_penalty,
    "prices": prices,
    "gates": gates,
}
NOTES = f"""
{N_TRAIN:,} cases to learn from, ten epochs (table1, halves: twice as many of both; gates: twice as many cases), and
others to judge by ({N_TEST:,} of CIFAR-10); per cent, mean ± deviation over seeds, which draw answers, networks and
simulated features. What this does not show: images, deep networks, tuned rates (all methods use the same).
"""


def main() -> None:
    made = parser(__doc__)
    made.add_argument("parts", nargs="+", choices=PARTS)
    made.add_argument("--draw", type=Path, help="only draw the stored points of `curves`, to this folder")
    arguments = made.parse_args()
    if arguments.draw:
        draw(arguments.out / "deferral-curves.json", arguments.draw / "reproduction-deferral-experts.svg")
        return
    for part in arguments.parts:
        tables = {}
        for title, runs in PARTS[part](arguments).items():
            print(title, flush=True)
            tables[title] = list(repeat(chosen(runs, arguments.only), arguments.seeds))
        report(f"deferral-{part}", tables, NOTES, arguments.out)


if __name__ == "__main__":
    main()
