"""Coverage and width of intervals from panels of judges, with other estimators in the same draws.

``benches/judges.py DATA [--draws 1000] [--out FILE]`` draws logs from panels of judges whose truth is known, and human
labels from each log, and counts how often the 95 % interval contains the score of the panel's items. Items of a log are
drawn with replacement: the panel is the population that a log is a sample of. Panels are simulated (judges whose errors
share a factor), and read from ``DATA/judges_*`` if these are there. ``ppi_py`` and ``glide`` (glide-py, which needs
Python 3.12) run in the same draws if they are installed.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import zlib
from collections import Counter
from pathlib import Path

import numpy as np

from manyhands.audit.effective import from_errors
from manyhands.judges.estimates import Design, difference_of, predict, score_of, wilson
from manyhands.judges.part import Part
from manyhands.judges.planning import inclusion, systematic
from manyhands.judges.replacement import p_value
from manyhands.judges.verdicts import Table, encode
from manyhands.metrics.intervals import student_quantile

try:
    import ppi_py
except ImportError:
    ppi_py = None
try:
    import glide.estimators as glide
except ImportError:
    glide = None

SIZES = (20, 30, 50, 100, 200)
N_ITEMS = 2000
#: What the names of scenarios to run contain.
ONLY = ""


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


def everywhere(rng: np.random.Generator, pop: np.ndarray, n: int):
    """Label n items at random; returns their rows, weights, and strata of all items."""
    return rng.choice(len(pop), n, replace=False), np.ones(n), np.zeros(len(pop), int)


def estimates(verdicts, consensus, y, rows, rest, at, of, design, *, share: bool, bounds) -> dict:
    """Intervals by each estimator from some labels."""
    one = score_of(y, at, of, design, share=share, bounds=bounds, what="")
    out = {"manyhands": (one.low, one.high), "gold, same design": one.gold_only[1:]}
    n, mean = len(y), y.mean()
    half = student_quantile(0.95, n - 1) * y.std(ddof=1) / math.sqrt(n)
    if np.ptp(design.weights) or np.ptp(design.strata):
        return out
    out["gold, t"] = (mean - half, mean + half)
    if share:
        out["gold, Wilson"] = wilson(mean, n)
    out["ppi, mean verdict"] = ppi(y, consensus[rows], consensus[rest])
    if glide is not None:
        out["glide, all judges"] = multi(y, rows, verdicts)
    return out


def ppi(y: np.ndarray, at: np.ndarray, of: np.ndarray) -> tuple[float, float]:
    """The published interval of PPI++ with one predictor, the judges' consensus."""
    if ppi_py is not None:
        low, high = ppi_py.ppi_mean_ci(y, at, of, alpha=0.05)
        return float(np.ravel(low)[0]), float(np.ravel(high)[0])
    n, many = len(y), len(of)
    weight = 0.0
    if at.var() > 0:
        weight = float(np.cov(y, at)[0, 1] / ((1 + n / many) * np.r_[at, of].var(ddof=1)))
    weight = min(max(weight, 0.0), 1.0)
    middle = weight * of.mean() + (y - weight * at).mean()
    half = 1.959964 * math.sqrt((y - weight * at).var() / n + weight**2 * of.var() / many)
    return middle - half, middle + half


def multi(y: np.ndarray, rows: np.ndarray, verdicts: np.ndarray) -> tuple[float, float] | None:
    """Interval of glide-py with every judge as a predictor, None where it raises (labels that are all alike)."""
    every = np.full(len(verdicts), np.nan)
    every[rows] = y
    try:
        interval = glide.MultiPPIMeanEstimator().estimate(every, verdicts).confidence_interval
    except ValueError:
        return None
    return float(interval.lower_bound), float(interval.upper_bound)


def draws_of(name: str) -> np.random.Generator:
    """Random numbers of a scenario, the same whichever scenarios run."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def scenario(
    name: str, part: Part, truth: np.ndarray, draws: int, *, share=True, bounds=(0.0, 1.0), clusters=None,
    sample=everywhere,
):  # fmt: skip
    """Coverage and mean half-width by number of labels and estimator."""
    if ONLY not in name:
        return []
    every, rows = part.features.rows(np.arange(len(truth))), []
    rng = draws_of(name)
    for n in SIZES:
        if n > len(truth) // 4:
            continue
        hits: dict[str, list] = {}
        for _ in range(draws):
            if clusters is None:
                pop = rng.integers(0, len(truth), len(truth))
                mine = np.arange(len(truth))
                labeled, weights, strata = sample(rng, pop, n)
            else:
                names = rng.integers(0, len(truth) // 5, len(truth) // 5)
                pop, mine = (5 * names[:, None] + np.arange(5)).ravel(), np.arange(len(truth)) // 5
                labeled = np.flatnonzero(np.isin(mine, rng.choice(len(names), n // 5, replace=False)))
                weights, strata = np.ones(n), np.zeros(len(truth), int)
            rest = np.setdiff1d(np.arange(len(pop)), labeled)
            design = Design(weights, strata[labeled], mine[labeled], strata[rest], mine[rest])
            y, others = truth[pop[labeled]], every[pop[rest]]
            at, of = predict(every[pop[labeled]], others.__matmul__, len(rest), y, design, bounds)
            outcome = estimates(
                every[pop, 1:], part.consensus[pop], y, labeled, rest, at, of, design, share=share, bounds=bounds
            )
            for method, ends in outcome.items():
                if ends is not None:
                    hits.setdefault(method, []).append((ends[0] <= truth.mean() <= ends[1], (ends[1] - ends[0]) / 2))
        for method, outcomes in hits.items():
            cover, half = np.mean(outcomes, axis=0)
            rows.append({"scenario": name, "n": n, "method": method, "coverage": cover, "half_width": half})
            rows[-1]["draws"] = len(outcomes)
    print(table(rows), flush=True)
    return rows


def differences(name: str, parts: tuple[Part, Part], truths, draws: int, *, clusters=None) -> list[dict]:
    """The same for differences of two systems on the same items."""
    if ONLY not in name:
        return []
    rows, d, rng = [], truths[0] - truths[1], draws_of(name)
    items = np.arange(len(d))
    every = parts[0].features.rows(items) - parts[1].features.rows(items)
    for n in SIZES:
        outcomes = []
        for _ in range(draws):
            pop, mine = rng.integers(0, len(d), len(d)), items
            labeled = rng.choice(len(d), n, replace=False)
            if clusters is not None:
                names = rng.integers(0, len(d) // 5, len(d) // 5)
                pop, mine = (5 * names[:, None] + np.arange(5)).ravel(), items // 5
                labeled = np.flatnonzero(np.isin(mine, rng.choice(len(names), n // 5, replace=False)))
            rest = np.setdiff1d(items, labeled)
            zero = np.zeros(len(d), int)
            design = Design(np.ones(n), zero[labeled], mine[labeled], zero[rest], mine[rest])
            y, others = d[pop[labeled]], every[pop[rest]]
            at, of = predict(every[pop[labeled]], others.__matmul__, len(rest), y, design, (-1.0, 1.0))
            two = difference_of(y, at, of, design, ("a", "b"), 1.0)
            half = student_quantile(0.95, n - 1) * y.std(ddof=1) / math.sqrt(n)
            plain = abs(y.mean() - d.mean()) <= half
            outcomes.append((two.low <= d.mean() <= two.high, (two.high - two.low) / 2, plain, half))
        cover, half, plain, wide = np.mean(outcomes, axis=0)
        rows.append({"scenario": name, "n": n, "method": "manyhands", "coverage": cover, "half_width": half})
        rows.append({"scenario": name, "n": n, "method": "gold, t", "coverage": plain, "half_width": wide})
    print(table(rows), flush=True)
    return rows


def of_strata(strata: np.ndarray):
    """Return a sampler that labels as many items of each of two strata, whatever their sizes."""

    def sample(rng: np.random.Generator, pop: np.ndarray, n: int):
        names = strata[pop]
        mine = [rng.choice(np.flatnonzero(names == one), n // 2, replace=False) for one in (0, 1)]
        return np.concatenate(mine), np.ones(2 * (n // 2)), names

    return sample


def of_doubt(consensus: np.ndarray):
    """Return a sampler that labels items more often on which judges are in doubt, as `Panel.next_labels` does."""
    doubt = np.sqrt(np.maximum(consensus * (1 - consensus), 0.05**2))

    def sample(rng: np.random.Generator, pop: np.ndarray, n: int):
        chance = inclusion(0.5 / len(pop) + 0.5 * doubt[pop] / doubt[pop].sum(), n)
        rows = systematic(chance, rng)
        return rows, 1 / chance[rows], np.zeros(len(pop), int)

    return sample


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


def effective(data: Path) -> None:
    """Print the effective number of judges of each panel: six LLMs against people, and the best 20 and 21 of 24."""
    panels = {}
    for name in ("10k_prompts", "cebab_stars", "framing", "lgbteen", "wax"):
        people, judges = (answers(data / f"judges_{name}" / f"{who}.csv.gz") for who in ("humans", "llms"))
        counts = {task: Counter(reply.values()).most_common(2) for task, reply in people.items()}
        truth = {task: one[0][0] for task, one in counts.items() if len(one) == 1 or one[0][1] > one[1][1]}
        names = sorted({judge for reply in judges.values() for judge in reply})
        table = [[judges.get(task, {}).get(name) for name in names] for task in truth]
        wrong = [
            [math.nan if one is None else float(one != label) for one in row]
            for row, label in zip(table, truth.values(), strict=True)
        ]
        votes = [Counter(one for one in row if one is not None).most_common(1) for row in table]
        right = np.mean([vote[0][0] == label for vote, label in zip(votes, truth.values(), strict=True) if vote])
        panels[f"{name}, majority {right:.3f}"] = np.array(wrong), np.array(list(truth.values()))
    scores, truth = civil(data / "judges_civil", 0.5, np.random.default_rng(0))
    wrong = np.where(np.isnan(scores), np.nan, (scores > 4.5) != truth[:, None])
    order = np.argsort(np.nanmean(wrong, axis=0))
    panels |= {f"Civil Comments, best {n}": (wrong[:, order[:n]], truth) for n in (20, 21)}
    for name, (wrong, truth) in panels.items():
        item, judge = np.nonzero(~np.isnan(wrong))
        strata = np.unique(truth, return_inverse=True)[1]
        one = from_errors(item, judge, wrong[item, judge], strata, wrong.shape[1])
        best = 1 - np.nanmean(wrong, axis=0).min()
        kish, largest = plain(wrong)
        print(
            f"{name}, best judge {best:.3f}, {len(wrong)} items: {one}, {one.eigenvalue:.2f} by the eigenvalue, null "
            f"{one.null:.1f}; plain {kish:.2f}, {largest:.2f}"
        )


def independent(panels: int = 100) -> None:
    """Print how often the interval of the effective number contains that of independent judges."""
    rng = np.random.default_rng(17)
    print("| judges | items | in the interval | mean estimate | plain: eigenvalue |\n| --: | --: | --: | --: | --: |")
    for n_judges in (5, 9, 24):
        for n_items in (25, 100, 1000):
            hits, estimates_of, largest = [], [], []
            for _ in range(panels):
                wrong = (rng.random((n_items, n_judges)) > rng.uniform(0.6, 0.9, n_judges)) * 1.0
                item, judge = np.nonzero(~np.isnan(wrong))
                strata = rng.integers(0, 2, n_items)
                one = from_errors(item, judge, wrong[item, judge], strata, n_judges)
                if one is not None:
                    hits.append(one.low <= n_judges <= one.high)
                    estimates_of.append(one.estimate)
                    largest.append(plain(wrong[:, wrong.std(axis=0) > 0])[1])
            cells = f"{np.mean(hits):.0%} | {np.mean(estimates_of):.1f} | {np.mean(largest):.1f}"
            print(f"| {n_judges} | {n_items:,} | {cells} |", flush=True)


def plain(wrong: np.ndarray) -> tuple[float, float]:
    """Kish's number and that of the largest eigenvalue, from correlations of errors over all items."""
    correlation = np.asarray(np.ma.corrcoef(np.ma.masked_invalid(wrong), rowvar=False))
    return len(correlation) ** 2 / correlation.sum(), len(correlation) / np.linalg.eigvalsh(correlation)[-1]


def levels(sizes: tuple[int, ...] = (30, 60, 100)) -> None:
    """Print the type-I error of the tests of replacement at 5 %, exactly: summed over all outcomes."""
    tests = ("t", "score")
    head = " | ".join(f"{test}, {n} items" for test in tests for n in sizes)
    print(f"| annotator wins, judge wins | {head} |\n| --- {'| --: ' * len(tests) * len(sizes)}|")
    for less, more in ((0.1, 0.0), (0.15, 0.05), (0.25, 0.15), (0.45, 0.35), (0.2, 0.0), (0.3, 0.1), (0.5, 0.3)):
        cells = [_level(n, less, more, test) for test in tests for n in sizes]
        print(f"| {less:.2f}, {more:.2f} | {' | '.join(f'{cell:.3f}' for cell in cells)} |".replace("0.", "."))


def _level(n: int, wins: float, losses: float, test: str) -> float:
    """Probability that a test rejects where the annotator wins and loses items with these probabilities."""
    total = 0.0
    for won in range(n + 1):
        for lost in range(n + 1 - won if losses > 0 else 1):
            same = n - won - lost
            size = math.lgamma(n + 1) - sum(math.lgamma(k + 1) for k in (won, lost, same))
            logs = [k * math.log(p) for k, p in ((won, wins), (lost, losses), (same, 1 - wins - losses)) if k]
            chance = math.exp(size + sum(logs))
            if chance > 1e-12:
                d = np.repeat([1.0, -1.0, 0.0], (won, lost, same))
                total += chance * (p_value(d, wins - losses, test) <= 0.05)
    return total


def answers(path: Path) -> dict[str, dict[str, str]]:
    """Answers by task and worker."""
    import pyarrow.csv as pc

    outcome: dict[str, dict[str, str]] = {}
    columns = pc.read_csv(path, convert_options=pc.ConvertOptions(column_types={"label": "string"})).to_pydict()
    for task, worker, label in zip(columns["task"], columns["worker"], columns["label"], strict=True):
        if label:
            outcome.setdefault(task, {})[worker] = label
    return outcome


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


def table(rows: list[dict]) -> str:
    """Coverage and half-width as a table in Markdown."""
    cells = {(row["scenario"], row["method"], row["n"]): row for row in rows}
    lines = [f"| coverage; half-width | method | {' | '.join(map(str, SIZES))} |", "| --- | --- " + "| --: " * 5 + "|"]
    for name, method in dict.fromkeys((row["scenario"], row["method"]) for row in rows):
        line = [name if method == "manyhands" else "", method]
        for n in SIZES:
            row = cells.get((name, method, n))
            text = "" if row is None else f"{row['coverage']:.3f}; {row['half_width']:.3f}".replace("0.", ".")
            line.append(f"**{text}**" if text and method == "manyhands" else text)
        lines.append(f"| {' | '.join(line)} |")
    return "\n".join(lines)


def main() -> None:
    """Run all scenarios and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", nargs="?", default="../shared/data")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--out")
    parser.add_argument("--effective", action="store_true", help="only the effective number of judges")
    parser.add_argument("--levels", action="store_true", help="only the type-I error of the tests of replacement")
    parser.add_argument("--only", default="", help="scenarios whose name contains this")
    args = parser.parse_args()
    global ONLY
    ONLY = args.only
    if args.levels:
        levels()
        return
    if args.effective:
        effective(Path(args.data))
        independent()
        return
    rng = np.random.default_rng(11)
    began, rows = time.process_time(), []
    for share in (0.5, 0.3, 0.1, 0.05):
        verdicts, truth = simulate(rng, share)
        rows += scenario(f"simulated, share {share:g}", part_of(verdicts), truth, args.draws)
    verdicts, truth = simulate(rng, 0.3)
    missing = np.where(rng.random(verdicts.shape) < np.where(truth[:, None] == 1, 0.45, 0.25), np.nan, verdicts)
    missing[:, 0] = np.where(np.isnan(missing).all(axis=1), verdicts[:, 0], missing[:, 0])
    rows += scenario("simulated, 30 % of verdicts missing", part_of(missing), truth, args.draws)
    base = rng.normal(size=N_ITEMS // 5).repeat(5)
    truth = (0.6 * base + 0.8 * rng.normal(size=N_ITEMS) > 0.52).astype(float)
    verdicts = (2 * truth - 1)[:, None] + 1.3 * rng.normal(size=(N_ITEMS, 9)) + 0.8 * rng.normal(size=(N_ITEMS, 1)) > 0
    rows += scenario("simulated, clusters of 5", part_of(verdicts * 1.0), truth, args.draws, clusters=5)
    other = (0.6 * base + 0.8 * rng.normal(size=N_ITEMS) > 0.2).astype(float)
    scores = 3 + base + rng.normal(size=N_ITEMS)
    grades = np.clip(np.round(scores), 1, 5)
    noisy = part_of(np.clip(np.round(scores[:, None] + rng.normal(size=(N_ITEMS, 9))), 1, 5), "numeric")
    rows += scenario(
        "simulated, clusters of 5, mean", noisy, grades, args.draws, share=False, bounds=(1, 5), clusters=5
    )
    parts = tuple(
        part_of(((2 * t - 1)[:, None] + rng.normal(size=(N_ITEMS, 9)) + rng.normal(size=(N_ITEMS, 1)) > 0) * 1.0)
        for t in (truth, other)
    )
    rows += differences("simulated, clusters of 5, paired", parts, (truth, other), args.draws, clusters=5)
    verdicts, truth = simulate(rng, 0.3)
    rows += scenario("simulated, useless judges", part_of((rng.random(verdicts.shape) < 0.3) * 1.0), truth, args.draws)
    part = part_of(verdicts)
    strata = (rng.random(N_ITEMS) < np.where(truth == 1, 0.5, 0.1)).astype(int)
    for name, sampler in (("strata", of_strata(strata)), ("unequal sampling", of_doubt(part.consensus))):
        rows += scenario(f"simulated, {name}", part, truth, args.draws, sample=sampler)
    grades = np.clip(np.round(3 + rng.normal(size=N_ITEMS)), 1, 5)
    noise = 0.7 * rng.normal(size=(N_ITEMS, 1)) + 0.7 * rng.normal(size=(N_ITEMS, 9))
    scores = np.clip(np.round(grades[:, None] + rng.normal(0, 0.5, 9) + noise), 1, 5)
    rows += scenario(
        "simulated, mean grade 1 to 5", part_of(scores, "numeric"), grades, args.draws, share=False, bounds=(1, 5)
    )
    shared = rng.random(N_ITEMS)
    truths = tuple((0.5 * shared + 0.5 * rng.random(N_ITEMS) < cut).astype(float) for cut in (0.6, 0.5))
    parts = tuple(
        part_of(((2 * t - 1)[:, None] + rng.normal(size=(N_ITEMS, 9)) + rng.normal(size=(N_ITEMS, 1)) > 0) * 1.0)
        for t in truths
    )
    rows += differences("simulated, paired difference", parts, truths, args.draws)
    folder = Path(args.data) / "judges_civil"
    if folder.is_dir():
        for share in (0.3, 0.1):
            scores, truth = civil(folder, share, rng)
            rows += scenario(f"Civil Comments, share {share:g}", part_of(scores, "numeric"), truth, args.draws)
    for name, numbers in (("framing", False), ("lgbteen", False), ("cebab_stars", True)):
        folder = Path(args.data) / f"judges_{name}"
        if folder.is_dir():
            verdicts, truth = of_people(folder, numbers)
            part = part_of(verdicts, "numeric" if numbers else None)
            bounds = (1.0, 5.0) if numbers else (0.0, 1.0)
            what = "mean grade" if numbers else f"share {truth.mean():.2f}"
            rows += scenario(f"{name}, {what}", part, truth, args.draws, share=not numbers, bounds=bounds)
    print(table(rows))
    print(f"{time.process_time() - began:.0f} s of processor, {args.draws:,} draws")
    if args.out:
        Path(args.out).write_text(json.dumps({"draws": args.draws, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
