"""How often the intervals and standard errors that the library states hold the truth, in simulated crowds.

    python benches/interval_coverage.py             # all, five minutes on one core; writes docs/evidence/coverage.md
    python benches/interval_coverage.py --quick     # a tenth of the draws, half a minute; prints, writes nothing
    python benches/interval_coverage.py --only audit  # one part; prints, writes nothing
    python benches/interval_coverage.py --json FILE   # figures to FILE, such as those of an older version; no page
    python benches/interval_coverage.py --page        # the page again, from the stored figures

Every draw is a new crowd and a new log. A standard error counts as an interval of ±1.96 of it. The Monte-Carlo error is
that of the mean over draws: truths of one draw may miss together. Figures of the version before intervals were revised
are kept in benches/coverage/before.json, those of the page in benches/coverage/after.json.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import agreement_coverage
import manyhands as mh

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "evidence" / "coverage.md"
STORED = ROOT / "benches" / "coverage"

Held = np.ndarray
#: A seed to whether each stated interval of that draw holds its truth, by method.
Draw = Callable[[int], dict[str, Held]]


@dataclass(frozen=True)
class Part:
    """Intervals of one kind under one condition."""

    name: str
    condition: str
    level: float
    draws: int
    draw: Draw


def within(low: Any, truth: Any, high: Any) -> Held:
    return np.asarray((np.asarray(low) <= truth) & (truth <= np.asarray(high)))


def about(estimate: Any, error: Any, truth: Any) -> Held:
    return np.abs(np.asarray(estimate) - truth) <= 1.96 * np.asarray(error)


# ---------------------------------------------------------------------------------------------------------- classes

MODELS: dict[str, Callable[[], Any]] = {
    "`Consensus` (default)": mh.Consensus,
    "`DawidSkene`": mh.DawidSkene,
    "`BayesianDawidSkene`": mh.BayesianDawidSkene,
    "`HierarchicalDawidSkene`": mh.categorical.HierarchicalDawidSkene,
    "`MajorityVote`": mh.MajorityVote,
    "`MACE`": mh.categorical.MACE,
    '`DawidSkene(model="one-coin")`': lambda: mh.DawidSkene(model="one-coin"),
}


def workers(measure: str, models: dict[str, Callable[[], Any]], *sizes: int, **how: Any) -> Draw:
    n_tasks, n_workers, n_classes, labels = sizes

    def draw(seed: int) -> dict[str, Held]:
        crowd = mh.simulate(n_tasks, n_workers, n_classes, labels_per_task=labels, seed=seed, **how)
        truth = getattr(mh.metrics.worth(crowd.confusion, crowd.prior, np.ones(n_workers)), measure)
        held = {}
        for name, model in models.items():
            frame = model().fit(crowd.log).workers_frame()
            held[name] = about(frame[measure].to_numpy(), frame[f"{measure}_error"].to_numpy(), truth)
        return held

    return draw


def ordered(seed: int) -> dict[str, Held]:
    grades, spread = np.arange(5), np.random.default_rng(seed).uniform(0.4, 1.2, 20)
    confusion = np.exp(-0.5 * ((grades[:, None] - grades) / spread[:, None, None]) ** 2)
    confusion /= confusion.sum(axis=2, keepdims=True)
    crowd = mh.simulate(400, confusion=confusion, labels_per_task=5, seed=seed)
    held = {}
    for name in ("OrdinalConsensus", "OrdinalCrowd", "CumulativeDawidSkene"):
        frame = getattr(mh.ordinal, name)().fit(crowd.log).workers_frame()
        truth = mh.metrics.skill(crowd.confusion, crowd.prior)
        held[f"`{name}`"] = about(frame["skill"].to_numpy(), frame["skill_error"].to_numpy(), truth)
    return held


def credible(seed: int) -> dict[str, Held]:
    crowd = mh.simulate(300, 15, 2, labels_per_task=5, seed=seed)
    truth, held = mh.metrics.skill(crowd.confusion, crowd.prior), {}
    for method in ("vb", "gibbs"):
        model = mh.BayesianDawidSkene(method=method, n_chains=2, warmup=200, draws=200).fit(crowd.log)
        low, high = model.credible_interval("accuracy", level=0.95).T
        held[f'`BayesianDawidSkene(method="{method}").credible_interval("accuracy")`'] = within(low, truth, high)
        if method == "vb":
            low, high = np.moveaxis(model.credible_interval("confusion", level=0.95), -1, 0)
            held['`BayesianDawidSkene.credible_interval("confusion")`'] = within(low, crowd.confusion, high)
    return held


def online(seed: int) -> dict[str, Held]:
    crowd = mh.simulate(500, 20, 2, labels_per_task=5, seed=seed)
    model = mh.categorical.OnlineDawidSkene().partial_fit(crowd.log)
    frame = model.workers_frame()
    truth = mh.metrics.skill(crowd.confusion, crowd.prior)[np.asarray(model.workers_, dtype=int)]
    return {"`OnlineDawidSkene.partial_fit`": about(frame["skill"].to_numpy(), frame["skill_error"].to_numpy(), truth)}


def copula(correlation: float, n_classes: int = 3, n_tasks: int = 500, labels: int = 5) -> Draw:
    """Errors on a task are correlated by one normal factor."""
    from statistics import NormalDist

    def draw(seed: int) -> dict[str, Held]:
        rng = np.random.default_rng([seed, n_tasks])
        skills, truth = rng.uniform(0.55, 0.9, 20), rng.integers(0, n_classes, n_tasks)
        who = np.stack([rng.choice(20, labels, replace=False) for _ in range(n_tasks)])
        latent = np.sqrt(correlation) * rng.normal(size=(n_tasks, 1)) + np.sqrt(1 - correlation) * rng.normal(
            size=(n_tasks, labels)
        )
        right = latent < np.array([NormalDist().inv_cdf(skill) for skill in skills])[who]
        wrong = (truth[:, None] + rng.integers(1, n_classes, (n_tasks, labels))) % n_classes
        said = np.where(right, truth[:, None], wrong)
        votes = mh.Annotations.from_arrays(np.repeat(np.arange(n_tasks), labels), who.ravel(), said.ravel())
        model = mh.aggregate(votes)
        return {
            "`correlation_error_`, `audit.dependence`": about(model.correlation_, model.correlation_error_, correlation)
        }

    return draw


def knows(seed: int) -> dict[str, Held]:
    crowd = mh.simulate(400, 20, 3, crowd="one-coin", labels_per_task=5, seed=seed)
    frame = mh.audit.spammers(crowd.log).frame()
    accuracy = mh.metrics.skill(crowd.confusion, crowd.prior)[np.asarray(frame["worker"].to_pylist(), dtype=int)]
    return {"`audit.spammers`: `knows_error`": about(frame["knows"], frame["knows_error"], (accuracy * 3 - 1) / 2)}


def stopping(seed: int) -> dict[str, Held]:
    crowd = mh.simulate(400, 20, 2, labels_per_task=7, seed=seed)
    held = {}
    for name in ("`Consensus` (default)", "`DawidSkene`"):
        model = MODELS[name]().fit(crowd.log)
        done = mh.collect.stopping(model, error=0.05).done
        held[f"`collect.stopping`, {name}"] = (model.labels_ == crowd.truth[np.asarray(model.tasks_, dtype=int)])[done]
    return held


def needed(n_classes: int, n_tasks: int, labels: int, low: float, high: float, accuracy: float) -> Draw:
    """Labels are bought by entropy, a twentieth of the tasks at a time with a refit after each."""

    def draw(seed: int) -> dict[str, Held]:
        held = {}
        models = {"default": mh.Consensus, "`DawidSkene`": mh.DawidSkene}
        for name, model in (models | {"`Consensus(correlation=0)`": lambda: mh.Consensus(correlation=0)}).items():
            rng = np.random.default_rng([seed, n_tasks, n_classes])
            skills, truth = rng.uniform(low, high, 20), rng.integers(0, n_classes, n_tasks)
            tasks = np.repeat(np.arange(n_tasks), labels)
            who = np.concatenate([rng.choice(20, labels, replace=False) for _ in range(n_tasks)])
            said = _said(rng, truth[tasks], skills[who], n_classes)
            found, bought = None, 0
            while True:
                votes = mh.Annotations.from_arrays(tasks, who, said, classes=list(range(n_classes)))
                fitted = model().fit(votes)
                found = mh.collect.labels_needed(fitted, accuracy) if found is None else found
                order = np.argsort(fitted.tasks_)
                if (fitted.labels_[order] == truth).mean() >= accuracy or bought > 6 * n_tasks:
                    break
                rows = fitted.posterior_[order]
                entropy = -(rows * np.log(np.maximum(rows, 1e-300))).sum(axis=1)
                entropy[np.bincount(tasks) >= 20] = -1
                asked = np.argsort(-entropy, kind="stable")[: n_tasks // 20]
                asked = asked[entropy[asked] >= 0]
                new = np.array([rng.choice(np.setdiff1d(np.arange(20), who[tasks == task])) for task in asked])
                said = np.append(said, _said(rng, truth[asked], skills[new], n_classes))
                tasks, who, bought = np.append(tasks, asked), np.append(who, new), bought + len(asked)
            held[f"`collect.labels_needed`, {name}"] = within(found.low, bought, found.high)
        return held

    return draw


def _said(rng: np.random.Generator, truth: Any, skills: Any, n_classes: int) -> Any:
    wrong = (truth + rng.integers(1, n_classes, len(truth))) % n_classes
    return np.where(rng.random(len(truth)) < skills, truth, wrong)


def gaps(minority: float) -> Draw:
    def draw(seed: int) -> dict[str, Held]:
        rng = np.random.default_rng(seed)
        n, rates = 1000, np.array([0.9, 0.8])
        truth, groups = rng.integers(0, 2, n), (rng.random(n) < minority).astype(int)
        said = np.where(rng.random(n) < rates[groups], truth, 1 - truth)
        votes = mh.Annotations.from_arrays(np.arange(n), np.zeros(n, int), said, classes=[0, 1])
        found = mh.fairness.gaps(
            votes,
            (np.arange(n), truth),
            attribute=groups.tolist(),
            predictions=(np.arange(n), said),
            workers=False,
            seed=seed,
        )
        gap = found["accuracy"]
        return {"`fairness.gaps`: accuracy": within(gap.low, 0.1, gap.high)}

    return draw


# ------------------------------------------------------------------------------------------------------- agreement


def agreement(n_workers: int, n_tasks: int) -> Draw:
    truth = agreement_coverage.Truth(agreement_coverage.confusions(n_workers, np.random.default_rng(n_workers)))
    measures = [
        one
        for one in agreement_coverage.measures(truth)
        if "linear" not in one[0] and "quadratic" not in one[0] and "ratio" not in one[0]
    ]

    def draw(seed: int) -> dict[str, Held]:
        rng = np.random.default_rng([n_workers, seed])
        votes, model = agreement_coverage.draw(truth.confusion, n_tasks, rng)
        held = {}
        for name, value, measure in measures:
            low, high = measure(votes, model, {"resamples": 12, "confidence": 0.95, "seed": seed}).interval or (1, -1)
            held[name] = within(low, value, high)
        return held

    return draw


def correlations(seed: int) -> dict[str, Held]:
    rng = np.random.default_rng(seed)
    tasks, who = np.repeat(np.arange(60), 5), np.tile(np.arange(5), 60)
    values = rng.normal(size=60)[tasks] + 0.6 * rng.normal(size=300)
    ratings = mh.Ratings.from_arrays(tasks, who, values)
    single = 1 / (1 + 0.36)
    truths = {
        '`agreement.icc("one-way")`': (mh.agreement.icc(ratings, "one-way", seed=seed), single),
        "`agreement.icc`": (mh.agreement.icc(ratings, seed=seed), single),
        "`agreement.icc(average=True)`": (mh.agreement.icc(ratings, average=True, seed=seed), 1 / (1 + 0.36 / 5)),
        "`agreement.pearson`": (mh.agreement.pearson(ratings, resamples=12, seed=seed), single),
    }
    held = {name: within(found.interval[0], truth, found.interval[1]) for name, (found, truth) in truths.items()}
    limits = mh.agreement.bland_altman(ratings, (0, 1))
    new = 0.6 * (rng.normal(size=500) - rng.normal(size=500))
    return held | {"`agreement.bland_altman`: share of new differences": within(limits.lower, new, limits.upper)}


# --------------------------------------------------------------------------------------------------------- numbers

NUMERIC: dict[str, Callable[[], Any]] = {
    "`Blend` (default)": mh.numeric.Blend,
    "`GaussianCrowd`": mh.numeric.GaussianCrowd,
    "`GaussianCrowd(tails=4)`": lambda: mh.numeric.GaussianCrowd(tails=4),
    '`GaussianCrowd(method="messages")`': lambda: mh.numeric.GaussianCrowd(method="messages"),
    "`CovarianceCrowd`": mh.numeric.CovarianceCrowd,
    "`Mean`": mh.numeric.Mean,
    "`Median`": mh.numeric.Median,
    "`TrimmedMean`": mh.numeric.TrimmedMean,
}


def numbers(n_tasks: int, n_workers: int, ratings: int, **how: Any) -> Draw:
    def draw(seed: int) -> dict[str, Held]:
        crowd = mh.simulate(n_tasks, n_workers, answers_per_task=ratings, seed=seed, **how, kind="numeric")
        held = {}
        for name, model in NUMERIC.items():
            low, high = model().fit(crowd.log).intervals_.T
            held[name] = within(low, crowd.truth, high)
        return held

    return draw


# ----------------------------------------------------------------------------------------------------- comparisons


def slopes_of(kind: str, n_workers: int, rng: np.random.Generator) -> np.ndarray:
    if kind == "guess":
        return (np.arange(n_workers) >= n_workers // 3).astype(float)
    return rng.lognormal(0, 0.5, n_workers) if kind == "differ" else np.ones(n_workers)


def scores(n_workers: int, n: int, kind: str, *, bootstrap: bool = False, items: int = 10) -> Draw:
    def draw(seed: int) -> dict[str, Held]:
        rng = np.random.default_rng([seed, n_workers, n])
        slopes = slopes_of(kind, n_workers, rng)
        crowd = mh.simulate(items, slopes, n, seed=int(rng.integers(1 << 30)), kind="pairwise")
        truth = (crowd.truth - crowd.truth.mean()) * slopes.mean()
        models = {"`WorkerBradleyTerry` (default)": mh.pairwise.WorkerBradleyTerry()}
        if kind == "alike":
            models["`BradleyTerry`"] = mh.pairwise.BradleyTerry()
        if bootstrap:
            models['`BradleyTerry(intervals="bootstrap")`'] = mh.pairwise.BradleyTerry(
                intervals="bootstrap", n_resamples=100
            )
        held = {}
        for name, model in models.items():
            low, high = model.fit(crowd.log).intervals_.T
            held[name] = within(low, truth, high)
        frame = models["`WorkerBradleyTerry` (default)"].workers_frame()
        mine = np.asarray(frame["worker"].to_pylist(), dtype=int)
        held["`WorkerBradleyTerry`: `slope_error`"] = about(
            frame["skill"].to_numpy(), frame["skill_error"].to_numpy(), (slopes / slopes.mean())[mine]
        )
        return held

    return draw


def rankings(n_workers: int, n: int, kind: str) -> Draw:
    def draw(seed: int) -> dict[str, Held]:
        rng = np.random.default_rng([seed, n_workers, n])
        slopes = slopes_of(kind, n_workers, rng)
        crowd = mh.simulate(10, slopes, n, seed=int(rng.integers(1 << 30)), kind="rankings")
        low, high = mh.pairwise.PlackettLuce().fit(crowd.log).intervals_.T
        return {"`PlackettLuce`": within(low, (crowd.truth - crowd.truth.mean()) * slopes.mean(), high)}

    return draw


# ------------------------------------------------------------------------------------------------------- the parts


def parts() -> Iterator[Part]:
    for n_tasks, n_workers, k, labels, how, note in (
        (500, 20, 2, 3, {}, ""),
        (500, 20, 2, 5, {}, ""),
        (500, 20, 2, 10, {}, ""),
        (1000, 20, 2, 5, {}, ""),
        (200, 20, 2, 5, {}, ""),
        (500, 20, 4, 5, {}, ""),
        (200, 40, 3, 3, {}, ""),
        (500, 20, 2, 5, {"prior": [0.8, 0.2]}, ", classes 80:20"),
        (500, 20, 3, 5, {"crowd": "hammer-spammer"}, ", some spammers"),
    ):
        condition = f"{n_tasks} tasks, {n_workers} workers, {k} classes, {labels} labels per task{note}"
        draw = workers("accuracy", MODELS, n_tasks, n_workers, k, labels, **how)
        yield Part("workers: `accuracy_error`", condition, 0.95, 80, draw)
    condition = "400 tasks, 20 workers, 5 ordered classes, 5 labels per task"
    yield Part("workers: `accuracy_error`", condition, 0.95, 40, ordered)
    few = {name: MODELS[name] for name in list(MODELS)[:3]}
    for measure in ("information", "capacity"):
        condition = "500 tasks, 20 workers, 4 classes, 5 labels per task"
        yield Part(f"workers: `{measure}_error`", condition, 0.95, 80, workers(measure, few, 500, 20, 4, 5))
    many = {"`SparseOneCoin`": mh.categorical.SparseOneCoin}
    yield Part(
        "workers: `accuracy_error`",
        "600 tasks, 20 workers, 200 classes, 5 labels per task",
        0.95,
        20,
        workers("accuracy", many, 600, 20, 200, 5, crowd="one-coin"),
    )
    condition = "500 tasks, 20 workers, 2 classes, 5 labels per task"
    yield Part("workers: `accuracy_error`", condition, 0.95, 60, online)
    yield Part("workers: credible intervals", "300 tasks, 15 workers, 2 classes, 5 labels per task", 0.95, 50, credible)
    yield Part("audit", "400 tasks, 20 workers, 3 classes, 5 labels per task", 0.95, 80, knows)
    for r in (0.0, 0.3):
        condition = f"errors correlated {r:g}, 500 tasks, 3 classes, 5 labels per task"
        yield Part("audit", condition, 0.95, 100, copula(r))
    yield Part("collecting: share right of those that stop", "400 tasks, 2 classes, 7 labels", 0.95, 40, stopping)
    yield Part("collecting", "2 classes, 200 tasks, 5 labels, to .95", 0.9, 16, needed(2, 200, 5, 0.65, 0.9, 0.95))
    yield Part("collecting", "3 classes, 200 tasks, 3 labels, to .95", 0.9, 8, needed(3, 200, 3, 0.55, 0.9, 0.95))
    for share in (0.5, 0.05):
        yield Part("fairness", f"1,000 tasks, {share:.0%} in the smaller group", 0.9, 400, gaps(share))
    yield Part("agreement", "20 workers, 300 tasks, 5 labels per task", 0.95, 250, agreement(20, 300))
    yield Part("agreement", "2 workers, 100 tasks", 0.95, 400, agreement(2, 100))
    yield Part("agreement of numbers", "60 tasks, 5 workers", 0.95, 300, correlations)
    for n_tasks, n_workers, ratings, how, note, draws in (
        (30, 4, 4, {}, "", 40),
        (30, 6, 3, {}, "", 40),
        (100, 8, 3, {}, "", 25),
        (200, 30, 5, {}, "", 15),
        (300, 10, 10, {}, "", 15),
        (100, 10, 4, {"tails": 3.0}, ", noise of Student's t (3)", 20),
    ):
        condition = f"{n_tasks} tasks, {n_workers} workers, {ratings} ratings per task{note}"
        yield Part("numbers", condition, 0.9, draws, numbers(n_tasks, n_workers, ratings, **how))
    for n_workers, n, kind, draws in (
        (12, 300, "alike", 120),
        (20, 100, "alike", 120),
        (50, 300, "alike", 120),
        (20, 300, "guess", 150),
        (60, 600, "guess", 120),
        (20, 300, "differ", 150),
    ):
        said = {"alike": "workers alike", "guess": "a third guesses", "differ": "slopes log-normal"}[kind]
        condition = f"10 items, {n_workers} workers, {n} comparisons, {said}"
        yield Part("scores", condition, 0.95, draws, scores(n_workers, n, kind, bootstrap=kind == "alike"))
    for n_workers, n, kind in ((20, 100, "alike"), (20, 100, "guess"), (30, 300, "guess"), (20, 100, "differ")):
        said = {"alike": "workers alike", "guess": "a third guesses", "differ": "slopes log-normal"}[kind]
        condition = f"10 items, {n_workers} workers, {n} rankings of 5, {said}"
        yield Part("scores", condition, 0.95, 150, rankings(n_workers, n, kind))


def figures(part: Part, draws: int) -> dict[str, tuple[float, float, int]]:
    """Share of intervals that hold, its Monte-Carlo error, and how many intervals there were, by method."""
    drawn: dict[str, list[Held]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(draws):
            for name, held in part.draw(1000 + seed).items():
                drawn.setdefault(name, []).append(np.atleast_1d(held))
    found = {}
    for name, every in drawn.items():
        shares = np.array([held.mean() for held in every if len(held)])
        total = np.concatenate(every)
        found[name] = float(total.mean()), float(shares.std(ddof=1) / np.sqrt(len(shares))), len(total)
    return found


# -------------------------------------------------------------------------------------------------------- the page


def markdown(now: dict[str, Any], before: dict[str, Any]) -> str:
    lines, last = [(STORED / "head.md").read_text(encoding="utf-8")], ""
    for key, stored in now.items():
        name, condition = key.split(" | ")
        group = name.split(":")[0]
        if group != last:
            lines.append(f"\n## {group.capitalize()}\n")
            lines.append("| condition | what | stated | holds | before | draws |")
            lines.append("| --- | --- | --: | --: | --: | --: |")
            last = group
        for method, (share, error, _) in stored["figures"].items():
            level = stored["level"]
            shown = f"{100 * share:.1f} ± {100 * error:.1f}"
            if abs(share - level) > max(0.03, 2 * error):
                shown = f"**{shown}**"
            old = before.get(key, {}).get("figures", {}).get(method)
            was = "" if old is None or abs(old[0] - share) < 1e-12 else f"{100 * old[0]:.1f}"
            what = f"{name.split(': ')[1]}, {method}" if ":" in name else method
            lines.append(f"| {condition} | {what} | {100 * level:g} | {shown} | {was} | {stored['draws']} |")
    return "\n".join(lines) + "\n"


def write_page() -> None:
    now, before = (json.loads((STORED / name).read_text(encoding="utf-8")) for name in ("after.json", "before.json"))
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(markdown(now, before), encoding="utf-8")
    print(f"written: {PAGE}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="parts whose name contains this")
    parser.add_argument("--quick", action="store_true", help="a tenth of the draws")
    parser.add_argument("--json", type=Path, help="where to write figures instead of the page")
    parser.add_argument("--page", action="store_true", help="only write the page, from the stored figures")
    args = parser.parse_args()
    if args.page:
        write_page()
        return
    found: dict[str, Any] = {}
    for part in parts():
        if args.only not in part.name:
            continue
        start, draws = time.process_time(), max(part.draws // (10 if args.quick else 1), 2)
        key = f"{part.name} | {part.condition}"
        old = found.get(key, {"figures": {}})["figures"]
        found[key] = {"level": part.level, "draws": draws, "figures": old | figures(part, draws)}
        shown = ", ".join(f"{name} {100 * f[0]:.1f} ± {100 * f[1]:.1f}" for name, f in found[key]["figures"].items())
        print(f"{key} ({time.process_time() - start:.0f} s): {shown}", flush=True)
    if args.json is not None:
        args.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    elif not args.only and not args.quick:
        (STORED / "after.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        write_page()


if __name__ == "__main__":
    main()
