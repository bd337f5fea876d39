"""Coverage and width of intervals from panels of judges, with other estimators in the same draws.

``benches/judges.py DATA [--draws 1000] [--out FILE]`` draws human labels at random from panels of judges whose truth is
known, and counts how often the 95 % interval contains the score of all items. Panels are simulated (judges whose errors
share a factor), and read from ``DATA/judges_civil`` if that is there.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np

from manyhands.judges.estimates import Design, difference_of, predict, score_of, wilson
from manyhands.judges.part import Part
from manyhands.judges.verdicts import Table, encode
from manyhands.metrics.intervals import student_quantile

SIZES = (20, 30, 50, 100, 200)
N_ITEMS = 2000


def simulate(rng: np.random.Generator, share: float, *, judges: int = 9, shared: float = 0.5, n: int = N_ITEMS):
    """Verdicts of judges whose errors share a normal factor, (n, judges), and the truth."""
    truth = (rng.random(n) < share).astype(float)
    factor = math.sqrt(shared) * rng.normal(size=(n, 1)) + math.sqrt(1 - shared) * rng.normal(size=(n, judges))
    skill = rng.uniform(0.5, 1.6, judges)
    verdicts = (truth[:, None] * 2 - 1) * skill + rng.normal(0, 0.4, judges) + 1.2 * factor
    return (verdicts > 0).astype(float), truth


def part_of(verdicts: np.ndarray, kind: str | None = None) -> Part:
    """A panel of a matrix of verdicts, NaN for missing ones."""
    item, judge = np.nonzero(~np.isnan(verdicts))
    columns = {"task": item, "judge": judge, "verdict": verdicts[item, judge]}
    if kind is None:
        columns["verdict"] = columns["verdict"].astype(int)
    return Part(
        encode(Table.of(columns, "bench"), None, kind=kind, positive=None, values=None, scale=None)[None], {}, 0
    )


def estimates(part: Part, truth: np.ndarray, rows: np.ndarray, *, share: bool, bounds, clusters=None) -> dict:
    """Intervals by each estimator from some labels."""
    rest = np.setdiff1d(np.arange(len(truth)), rows)
    if clusters is None:
        design = Design.simple(len(rows), len(rest))
    else:
        zero = np.zeros(len(rows), int), np.zeros(len(rest), int)
        design = Design(np.ones(len(rows)), zero[0], clusters[rows], zero[1], clusters[rest])
    features, y = part.features, truth[rows]
    at, of = predict(features.rows(rows), lambda slope: features.times(slope)[rest], len(rest), y, design, bounds)
    one = score_of(y, at, of, design, share=share, bounds=bounds, what="")
    out = {"manyhands": (one.low, one.high), "gold, same interval": one.gold_only[1:]}
    n, mean = len(y), y.mean()
    t = student_quantile(0.95, n - 1)
    half = t * y.std(ddof=1) / math.sqrt(n)
    out["gold, t"] = (mean - half, mean + half)
    if share:
        out["gold, Wilson"] = wilson(mean, n)
    out["ppi, mean verdict"] = ppi(y, part.consensus[rows], part.consensus[rest])
    return out


def ppi(y: np.ndarray, at: np.ndarray, of: np.ndarray) -> tuple[float, float]:
    """The published interval of PPI++ with one predictor, the judges' consensus."""
    try:
        from ppi_py import ppi_mean_ci

        low, high = ppi_mean_ci(y, at, of, alpha=0.05)
        return float(low[0]), float(high[0])
    except ImportError:
        n, many = len(y), len(of)
        weight = 0.0
        if at.var() > 0:
            weight = float(np.cov(y, at)[0, 1] / ((1 + n / many) * np.r_[at, of].var(ddof=1)))
        weight = min(max(weight, 0.0), 1.0)
        middle = weight * of.mean() + (y - weight * at).mean()
        half = 1.959964 * math.sqrt((y - weight * at).var() / n + weight**2 * of.var() / many)
        return middle - half, middle + half


def scenario(
    name: str, part: Part, truth: np.ndarray, draws: int, rng, *, share=True, bounds=(0.0, 1.0), clusters=None
):
    """Coverage and mean half-width by number of labels and estimator."""
    rows = []
    for n in SIZES:
        if n > len(truth) // 4:
            continue
        hits: dict[str, list] = {}
        for _ in range(draws):
            if clusters is None:
                labeled = rng.choice(len(truth), n, replace=False)
            else:
                names = rng.choice(clusters.max() + 1, n // 5, replace=False)
                labeled = np.flatnonzero(np.isin(clusters, names))
            for method, (low, high) in estimates(
                part, truth, labeled, share=share, bounds=bounds, clusters=clusters
            ).items():
                hits.setdefault(method, []).append((low <= truth.mean() <= high, (high - low) / 2))
        for method, outcomes in hits.items():
            cover, half = np.mean(outcomes, axis=0)
            rows.append({"scenario": name, "n": n, "method": method, "coverage": cover, "half_width": half})
    return rows


def differences(name: str, parts: tuple[Part, Part], truths, draws: int, rng) -> list[dict]:
    """The same for differences of two systems on the same items."""
    rows = []
    d = truths[0] - truths[1]
    for n in SIZES:
        outcomes = []
        for _ in range(draws):
            labeled = rng.choice(len(d), n, replace=False)
            rest = np.setdiff1d(np.arange(len(d)), labeled)
            design = Design.simple(n, len(rest))
            one, other = parts[0].features, parts[1].features
            at, of = predict(
                one.rows(labeled) - other.rows(labeled),
                lambda slope, one=one, other=other, rest=rest: (one.times(slope) - other.times(slope))[rest],
                len(rest),
                d[labeled],
                design,
                (-1.0, 1.0),
            )
            two = difference_of(d[labeled], at, of, design, ("a", "b"), 1.0)
            half = student_quantile(0.95, n - 1) * d[labeled].std(ddof=1) / math.sqrt(n)
            plain = abs(d[labeled].mean() - d.mean()) <= half
            outcomes.append((two.low <= d.mean() <= two.high, (two.high - two.low) / 2, plain, half))
        cover, half, plain, wide = np.mean(outcomes, axis=0)
        rows.append({"scenario": name, "n": n, "method": "manyhands", "coverage": cover, "half_width": half})
        rows.append({"scenario": name, "n": n, "method": "gold, t", "coverage": plain, "half_width": wide})
    return rows


def civil(folder: Path, share: float, rng) -> tuple[np.ndarray, np.ndarray]:
    """Scores of 24 judges on comments, with a share of toxic ones, and the truth."""
    import pyarrow.csv as pc

    gold = pc.read_csv(folder / "gold.csv.gz")
    scores = pc.read_csv(folder / "scores.csv.gz")
    tasks = {task: place for place, task in enumerate(gold["task"].to_pylist())}
    judges = sorted(set(scores["worker"].to_pylist()))
    table = np.full((len(tasks), len(judges)), np.nan)
    place = {judge: at for at, judge in enumerate(judges)}
    for task, judge, value in zip(*(scores[name].to_pylist() for name in ("task", "worker", "value")), strict=True):
        if value is not None:
            table[tasks[task], place[judge]] = value
    truth = gold["label"].to_numpy().astype(float)
    bad, good = np.flatnonzero(truth == 1), np.flatnonzero(truth == 0)
    n = round(share / (1 - share) * len(good))
    keep = np.r_[rng.choice(bad, min(n, len(bad)), replace=False), good]
    return table[keep], truth[keep]


def of_people(folder: Path, numbers: bool) -> tuple[np.ndarray, np.ndarray]:
    """Verdicts of LLMs, and the majority (of numbers, the mean) of the people on each task, without ties."""
    import pyarrow.csv as pc

    humans, judges = (pc.read_csv(folder / f"{name}.csv.gz").to_pydict() for name in ("humans", "llms"))
    labels: dict = {}
    for task, label in zip(humans["task"], humans["label"], strict=True):
        labels.setdefault(task, []).append(float(label) if numbers else float(str(label).lower() == "yes"))
    truth = {task: float(np.mean(each)) for task, each in labels.items()}
    truth = truth if numbers else {task: float(mean > 0.5) for task, mean in truth.items() if mean != 0.5}
    names = sorted(set(judges["worker"]))
    tasks = {task: place for place, task in enumerate(sorted(truth))}
    table = np.full((len(tasks), len(names)), np.nan)
    for task, name, label in zip(judges["task"], judges["worker"], judges["label"], strict=True):
        if task in tasks and label is not None:
            table[tasks[task], names.index(name)] = float(label) if numbers else float(str(label).lower() == "yes")
    keep = ~np.isnan(table).all(axis=1)
    return table[keep], np.array([truth[task] for task in tasks])[keep]


def main() -> None:
    """Run all scenarios and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", nargs="?", default="../shared/data")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--out")
    args = parser.parse_args()
    rng = np.random.default_rng(11)
    began, rows = time.process_time(), []
    for share in (0.5, 0.3, 0.1, 0.05):
        verdicts, truth = simulate(rng, share)
        rows += scenario(f"simulated, share {share:g}", part_of(verdicts), truth, args.draws, rng)
    verdicts, truth = simulate(rng, 0.3)
    missing = np.where(rng.random(verdicts.shape) < np.where(truth[:, None] == 1, 0.45, 0.25), np.nan, verdicts)
    missing[:, 0] = np.where(np.isnan(missing).all(axis=1), verdicts[:, 0], missing[:, 0])
    rows += scenario("simulated, 30 % of verdicts missing", part_of(missing), truth, args.draws, rng)
    base = rng.normal(size=N_ITEMS // 5).repeat(5)
    truth = (0.6 * base + 0.8 * rng.normal(size=N_ITEMS) > 0.52).astype(float)
    verdicts = (2 * truth - 1)[:, None] + 1.3 * rng.normal(size=(N_ITEMS, 9)) + 0.8 * rng.normal(size=(N_ITEMS, 1)) > 0
    clusters = np.arange(N_ITEMS) // 5
    rows += scenario("simulated, clusters of 5", part_of(verdicts * 1.0), truth, args.draws, rng, clusters=clusters)
    grades = np.clip(np.round(3 + rng.normal(size=N_ITEMS)), 1, 5)
    noise = 0.7 * rng.normal(size=(N_ITEMS, 1)) + 0.7 * rng.normal(size=(N_ITEMS, 9))
    scores = np.clip(np.round(grades[:, None] + rng.normal(0, 0.5, 9) + noise), 1, 5)
    rows += scenario(
        "simulated, mean grade 1 to 5", part_of(scores, "numbers"), grades, args.draws, rng, share=False, bounds=(1, 5)
    )
    shared = rng.random(N_ITEMS)
    truths = tuple((0.5 * shared + 0.5 * rng.random(N_ITEMS) < cut).astype(float) for cut in (0.6, 0.5))
    parts = tuple(
        part_of(((2 * t - 1)[:, None] + rng.normal(size=(N_ITEMS, 9)) + rng.normal(size=(N_ITEMS, 1)) > 0) * 1.0)
        for t in truths
    )
    rows += differences("simulated, paired difference", parts, truths, args.draws, rng)
    folder = Path(args.data) / "judges_civil"
    if folder.is_dir():
        for share in (0.3, 0.1):
            scores, truth = civil(folder, share, rng)
            rows += scenario(f"Civil Comments, share {share:g}", part_of(scores, "numbers"), truth, args.draws, rng)
    for name, numbers in (("framing", False), ("lgbteen", False), ("cebab_stars", True)):
        folder = Path(args.data) / f"judges_{name}"
        if folder.is_dir():
            verdicts, truth = of_people(folder, numbers)
            part = part_of(verdicts, "numbers" if numbers else None)
            bounds = (1.0, 5.0) if numbers else (0.0, 1.0)
            what = "mean grade" if numbers else f"share {truth.mean():.2f}"
            rows += scenario(f"{name}, {what}", part, truth, args.draws, rng, share=not numbers, bounds=bounds)
    for row in rows:
        print("{scenario:38} {n:4} {method:22} {coverage:.3f} {half_width:.3f}".format(**row))
    print(f"{time.process_time() - began:.0f} s of processor, {args.draws:,} draws")
    if args.out:
        Path(args.out).write_text(json.dumps({"draws": args.draws, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
