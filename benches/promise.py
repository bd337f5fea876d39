"""How often promises of an error rate are broken on real logs, and how many tasks they keep.

    python benches/promise.py [--data ../shared/data] [--splits 1000] [--only ducks,face] [--rows FILE]

Every log with at least 200 known answers. A split takes a random half of the known answers for the promise and
measures the other half: the promise is broken if more than `error` of its kept answers there are wrong. "Best judge" is
the worker most often right on the first half (at least 20 known answers, and half of those that the most complete
worker has), whose answers are kept by the same test, all or none: judges have no confidence. "Stopping" keeps what
`collect.stopping` calls done at the same error, without known answers; it is for classes. Writes
docs/evidence/promise.md.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

import manyhands as mh
from manyhands.categorical.base import Aggregator
from manyhands.collect import guarantee

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "evidence" / "promise.md"
ERRORS = (0.05, 0.1, 0.2)
CONFIDENCE = 0.9
LEAST = 200
#: Logs of grades, which are measured as classes and as ordered classes.
ORDERED = ("judges_cebab_stars", "metaphor_novelty", "web")
#: A probability that is below every level of a test.
SELDOM = 1e-5

HEAD = """# Promises of an error rate: measurements

Guide: [Promises](../promise.md). Made with `python benches/promise.py`.

A random half of the known answers tests the thresholds, the other half measures: a promise is **broken** if more than
the promised share of its kept answers there are wrong. {splits:,} splits per log, confidence 0.9, so at most 10 % may
be broken. All shared logs with at least 200 known answers, fitted with the default. Grades are measured as classes and
as ordered classes. What counts as right where answers are not classes: numbers within 0.1 (movie_reviews), transcripts
with a word error rate of at most 0.1 (crowdspeech), sets of labels that are equal (uds_wordsense). Pairs (convarg) have
the three classes first, second and tie.

**Kept** is the mean share of tasks, in percent. In parentheses: the share that the best single judge keeps by the same
test, then the share that `collect.stopping` calls done at that error and how many percent of those are wrong. The best
judge is chosen and tested with the same known answers, which flatters it where many workers compete (ducks).

How the error probability is divided among thresholds and classes was chosen on these logs, for the share that is kept;
whether a promise holds does not depend on it.

| log | known | right | broken at .05, .1, .2 | kept at .05 (best judge; stopping: wrong) | kept at .1 | kept at .2 |
|---|--:|--:|--:|--:|--:|--:|
"""

FOOT = """
The promise holds on every log, also where the crowd is misled (ducks, face); it keeps little there, with a warning.
Where answers are wrong whatever their confidence (judges at .05 and .1), it keeps nothing. `collect.stopping` uses no
known answers, and calls tasks done without a test.
"""


@dataclass
class Case:
    """A fitted log with known answers."""

    name: str
    model: Any
    #: Places of tasks with a known answer, and whether the model's is wrong.
    index: Any
    wrong: Any
    #: Answers of workers to these tasks: place among the known ones, worker, whether it is right.
    rows: Any
    workers: Any
    right: Any
    #: Answers of each worker to all tasks.
    answers: Any
    #: Known classes; None for other kinds.
    truth: Any = None

    @property
    def codes(self) -> Any:
        return self.model._won.codes if isinstance(self.model, Aggregator) else None


def table(folder: Path, name: str) -> Any:
    for ending, read in ((".parquet", pa.parquet.read_table), (".csv", text), (".csv.gz", text)):
        if (path := folder / f"{name}{ending}").exists():
            return read(path)
    return None


def text(path: Path) -> Any:
    with pa.csv.open_csv(path) as reader:
        names = reader.schema.names
    kinds = pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
    return pa.csv.read_csv(path, convert_options=kinds, parse_options=pa.csv.ParseOptions(newlines_in_values=True))


def logs(data: Path, only: set[str]) -> Any:
    """Logs of classes with their known answers, by name."""
    for folder in sorted(data.iterdir()):
        if not folder.is_dir() or (only and folder.name not in only):
            continue
        read = panel if folder.name.startswith("judges_") else crowd
        log, gold = read(folder)
        if log is None or gold is None or not {"task", "worker", "label"} <= set(log.column_names):
            continue
        if not {"task", "label"} <= set(gold.column_names) or len(pc.unique(log.column("label"))) > 30:
            continue
        truth = dict(zip(map(str, gold["task"].to_pylist()), map(str, gold["label"].to_pylist()), strict=True))
        columns = [log.column(name).cast(pa.string()) for name in ("task", "worker", "label")]
        yield folder.name, mh.Annotations.from_arrays(*columns), truth


def crowd(folder: Path) -> tuple[Any, Any]:
    """Answers of people, and the truth."""
    return table(folder, "labels"), table(folder, "gold")


def panel(folder: Path) -> tuple[Any, Any]:
    """Verdicts of language models, and the truth or the people's majority, of tasks with a single first choice."""
    if (scores := table(folder, "scores")) is not None:
        positive = pc.if_else(pc.greater_equal(scores["value"].cast(pa.float64()), 4.5), "1", "0")
        return scores.drop_columns(["value"]).append_column("label", positive), table(folder, "gold")
    people = table(folder, "humans").group_by(["task", "label"]).aggregate([("worker", "count")])
    best: dict[str, tuple[int, str]] = {}
    draws = set()
    for row in people.to_pylist():
        now = (row["worker_count"], row["label"])
        if row["task"] in best and best[row["task"]][0] == now[0]:
            draws.add(row["task"])
        elif row["task"] not in best or now[0] > best[row["task"]][0]:
            best[row["task"]] = now
            draws.discard(row["task"])
    pairs = [(task, label) for task, (_, label) in best.items() if task not in draws]
    return table(folder, "llms"), pa.table({"task": [t for t, _ in pairs], "label": [x for _, x in pairs]})


def cases(data: Path, only: set[str]) -> Iterator[Case]:
    """All logs with enough known answers, fitted."""
    for name, votes, truth in logs(data, only):
        tasks = [task for task in votes.tasks.tolist() if task in truth]
        if len(tasks) >= LEAST:
            labels = {task: truth[task] for task in tasks}
            yield of_classes(name, votes, labels)
            if name in ORDERED:
                ordered = mh.Annotations.from_frame(votes.to_frame(), classes=votes.classes, ordered=True)
                yield of_classes(f"{name} (ordered)", ordered, labels)
    for name, read in OTHERS.items():
        if (not only or name in only) and (data / name).is_dir():
            yield read(name, data / name)


def of_classes(name: str, votes: Any, known: dict[str, str]) -> Case:
    model = mh.aggregate(votes)
    place = {task: at for at, task in enumerate(model.tasks_.tolist())}
    index = np.array([place[task] for task in known])
    truth = np.array(list(known.values()), object)
    tasks, workers, labels = votes.codes()
    row = np.full(votes.n_tasks, -1)
    row[index] = np.arange(len(index))
    here = row[tasks] >= 0
    right = np.asarray(votes.labels[labels[here]] == truth[row[tasks[here]]], bool)
    wrong = np.asarray(model.labels_[index] != truth)
    return Case(name, model, index, wrong, row[tasks[here]], workers[here], right, votes.labels_per_worker, truth)


def of_other(name: str, log: Any, known: dict[str, Any], is_right: Any) -> Case:
    """A log of another kind: `is_right` compares an answer with a known one."""
    model = mh.aggregate(log)
    index, wrong, _ = guarantee._compare(model, known, is_right)
    row = {task: at for at, task in enumerate(known)}
    lines = log.to_frame().to_pylist()
    names = {worker: code for code, worker in enumerate(dict.fromkeys(line["worker"] for line in lines))}
    answers = np.bincount([names[line["worker"]] for line in lines], minlength=len(names))
    role = next(key for key in lines[0] if key not in ("task", "worker"))
    lines = [line for line in lines if line["task"] in row]
    return Case(
        name,
        model,
        index,
        wrong,
        np.array([row[line["task"]] for line in lines]),
        np.array([names[line["worker"]] for line in lines]),
        np.array([is_right(line[role], known[line["task"]]) for line in lines], bool),
        answers,
    )


def known_in(folder: Path, role: str, log: Any, change: Any = str) -> dict[str, Any]:
    gold = table(folder, "gold")
    pairs = zip(gold["task"].to_pylist(), gold[role].to_pylist(), strict=True)
    tasks = set(log.tasks.tolist())
    return {str(task): change(value) for task, value in pairs if str(task) in tasks}


def movies(name: str, folder: Path) -> Case:
    rows = table(folder, "labels")
    columns = rows["task"].cast(pa.string()), rows["worker"].cast(pa.string()), rows["value"].cast(pa.float64())
    log = mh.Ratings.from_arrays(*columns)
    truth = known_in(folder, "value", log, float)
    return of_other(f"{name} (within .1)", log, truth, lambda one, other: abs(one - other) <= 0.1)


def speech(name: str, folder: Path) -> Case:
    rows = table(folder, "labels")
    log = mh.Texts.from_arrays(rows["task"].cast(pa.string()), rows["worker"], rows["label"].cast(pa.string()))
    truth = known_in(folder, "label", log)

    def is_right(one: str, other: str) -> bool:
        words = one.lower().translate(str.maketrans("", "", ".,?!;:")).split()
        return edits(words, other.split()) <= 0.1 * len(other.split())

    return of_other(f"{name} (WER to .1)", log, truth, is_right)


def edits(one: list[str], other: list[str]) -> int:
    """Words to insert, delete or replace."""
    before = list(range(len(other) + 1))
    for row, word in enumerate(one, 1):
        now = [row]
        for column, right in enumerate(other, 1):
            now.append(min(before[column] + 1, now[-1] + 1, before[column - 1] + (word != right)))
        before = now
    return before[-1]


def senses(name: str, folder: Path) -> Case:
    rows = table(folder, "labels")
    sets = [one.split("|") if one else [] for one in rows["label"].to_pylist()]
    log = mh.MultiLabels.from_arrays(rows["task"].cast(pa.string()), rows["worker"], sets)
    return of_other(name, log, known_in(folder, "label", log), lambda one, other: list(one) == [other])


def relation(name: str, folder: Path) -> Case:
    """Whether a sentence states that one thing causes the other: a class of a log of label sets."""
    rows, gold = table(folder, "labels"), table(folder, "gold_binary")
    answers = ["1" if "CAUSES" in one.split("|") else "0" for one in rows["label"].to_pylist()]
    votes = mh.Annotations.from_arrays(rows["task"].cast(pa.string()), rows["worker"], answers)
    lines = gold.to_pylist()
    tasks = set(votes.tasks.tolist())
    lines = [line for line in lines if line["class"] == "CAUSES" and str(line["task"]) in tasks]
    return of_classes(f"{name} (causes)", votes, {str(line["task"]): str(line["label"]) for line in lines})


def arguments(name: str, folder: Path) -> Case:
    """Pairs as tasks with three classes; the known winners come from the same workers."""
    rows, gold = table(folder, "labels"), table(folder, "gold")

    def keys(frame: Any) -> tuple[list[str], list[str]]:
        lines = [{key: str(value) for key, value in line.items()} for line in frame.to_pylist()]
        pairs = [sorted((line["left"], line["right"])) for line in lines]
        sides = [
            "tie" if line["label"] not in pair else "first" if line["label"] == pair[0] else "second"
            for line, pair in zip(lines, pairs, strict=True)
        ]
        return [" ".join(pair) for pair in pairs], sides

    tasks, labels = keys(rows)
    votes = mh.Annotations.from_arrays(tasks, rows["worker"], labels)
    there = set(votes.tasks.tolist())
    pairs = zip(*keys(gold), strict=True)
    return of_classes(f"{name} (pairs)", votes, {task: winner for task, winner in pairs if task in there})


#: Logs that are not votes on classes.
OTHERS = {
    "convarg": arguments,
    "crowdspeech_dev_clean": speech,
    "medical_re": relation,
    "movie_reviews": movies,
    "uds_wordsense": senses,
}


def measure(case: Case, splits: int) -> dict[str, Any]:
    index, wrong, sure = case.index, case.wrong, np.asarray(case.model.confidence_)
    figures: dict[str, Any] = {"name": case.name, "known": len(index), "right": 1 - wrong.mean()}
    n_half = len(index) // 2
    for error in ERRORS:
        stop = mh.collect.stopping(case.model, error=error).done if case.codes is not None else None
        rng = np.random.default_rng(0)
        chains = guarantee.chains(sure, n_half, error, CONFIDENCE, case.codes)
        n_broken, shares, judge = 0, [], []
        for _ in range(splits):
            half, rest = np.split(rng.permutation(len(index)), [n_half])
            keep = guarantee.keep_answers(chains, sure, index[half], wrong[half], error, CONFIDENCE).keep
            there = keep[index[rest]]
            n_broken += bool(there.any() and wrong[rest][there].mean() > error)
            shares.append(float(keep.mean()))
            judge.append(best_judge(case, half, error, len(sure)))
        figures[error] = {"broken": n_broken / splits, "kept": float(np.mean(shares)), "judge": float(np.mean(judge))}
        if stop is not None:
            stopped = stop[index]
            n_wrong = float(wrong[stopped].mean()) if stopped.any() else 0.0
            figures[error] |= {"stopping": float(stop.mean()), "stopping_wrong": n_wrong}
    if case.truth is not None:
        for error, (share, size) in sets(case, splits).items():
            figures[error] |= {"sets_broken": share, "set_size": size}
    return figures


def sets(case: Case, splits: int) -> dict[float, tuple[float, float]]:
    """How often sets of classes miss the right one too often, and classes per set, by error."""
    posterior = case.model.posterior_
    place = {name: at for at, name in enumerate(case.model.classes_.tolist())}
    codes = np.array([place.get(label, -1) for label in case.truth.tolist()])
    scores = np.where(codes >= 0, posterior[case.index, codes], 0.0)
    flat, top = np.sort(posterior, axis=None), np.sort(posterior.max(axis=1))
    n_half, figures = len(scores) // 2, {}
    for error in ERRORS:
        rng, n_broken, sizes = np.random.default_rng(0), 0, []
        nth = guarantee.n_excluded(n_half, len(scores) - n_half, error, CONFIDENCE)
        for _ in range(splits):
            half, rest = np.split(rng.permutation(len(scores)), [n_half])
            least = np.partition(scores[half], nth)[nth] if nth >= 0 else 0.0
            n_broken += ((scores[rest] < least) & case.wrong[rest]).mean() > error
            sizes.append((len(flat) - np.searchsorted(flat, least) + np.searchsorted(top, least)) / len(top))
        figures[error] = float(n_broken / splits), float(np.mean(sizes))
    return figures


def best_judge(case: Case, half: Any, error: float, n_tasks: int) -> float:
    """Share of the tasks kept by the worker most often right on a half, if all of theirs pass."""
    inside = np.zeros(len(case.index), bool)
    inside[half] = True
    mine, answers = inside[case.rows], case.answers
    n_seen = np.bincount(case.workers[mine], minlength=len(answers))
    hits = np.bincount(case.workers[mine], weights=case.right[mine], minlength=len(answers)).astype(int)
    enough = (n_seen >= 20) & (n_seen >= n_seen.max() / 2)
    if not enough.any():
        return 0.0
    best = int(np.where(enough, hits / np.maximum(n_seen, 1), -1).argmax())
    n, wrong, unseen = int(n_seen[best]), int(n_seen[best] - hits[best]), int(answers[best] - n_seen[best])
    passes = guarantee.chance(wrong, n, max(unseen, 0), error) <= 1 - CONFIDENCE + 1e-12
    return min(1.0, answers[best] / n_tasks) if passes else 0.0


def chernoff(n_wrong: int, n: int, unseen: int, error: float) -> float:
    """A bound of `guarantee.chance`, which saves most of the exact sums."""
    if n_wrong >= n * error:
        return 1.0
    p = n_wrong / n
    hidden = (n_wrong + int(error * unseen * (1 + 1e-12)) + 1) / (n + unseen)
    q = min(error, hidden)
    if p >= q:
        return 1.0
    distance = (p * math.log(p / q) if p else 0.0) + (1 - p) * math.log((1 - p) / (1 - q))
    return math.exp(-n * distance)


def from_json(text: str) -> dict[str, Any]:
    return {float(key) if key[0] == "0" else key: value for key, value in json.loads(text).items()}


def line(figures: dict[str, Any]) -> str:
    rates = ", ".join(percent(figures[error]["broken"], 1) for error in ERRORS)
    cells = []
    for at in (figures[error] for error in ERRORS):
        stopping = f"{percent(at['stopping'])}: {percent(at['stopping_wrong'])}" if "stopping" in at else "–"
        cells.append(f"**{percent(at['kept'])}** ({percent(at['judge'])}; {stopping})")
    return (
        f"| {figures['name']} | {figures['known']:,} | {percent(figures['right'], 1)} | {rates} | {' | '.join(cells)} |"
    )


def percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f}"


def summary(rows: list[dict[str, Any]]) -> str:
    lines = []
    for error in ERRORS:
        of = [row[error] for row in rows]
        classes = [at for at in of if "stopping" in at]
        all_kept, judge = (percent(np.mean([at[name] for at in of])) for name in ("kept", "judge"))
        ours, stopping = (percent(np.mean([at[name] for at in classes])) for name in ("kept", "stopping"))
        worst = max(rows, key=lambda row: row[error]["broken"])
        over = sum(at["stopping"] > 0 and at["stopping_wrong"] > error for at in classes)
        lines.append(
            f"- Error {error:g}: broken in {percent(np.mean([at['broken'] for at in of]), 1)} % of the splits on "
            f"average, {percent(worst[error]['broken'], 1)} % at worst ({worst['name']}). Tasks kept on average "
            f"{all_kept} %, by the best judge {judge} %. Of the {len(classes)} rows of classes {ours} %, by "
            f"`collect.stopping` {stopping} %, which exceeds the error on {over} of them."
        )
        worst = max((row for row in rows if "sets_broken" in row[error]), key=lambda row: row[error]["sets_broken"])
        missed, size = (float(np.mean([at[name] for at in classes])) for name in ("sets_broken", "set_size"))
        lines.append(
            f"- Sets of classes (`label_sets()`) at {error:g}: more than {error:g} without the right class in "
            f"{percent(missed, 1)} % of the splits on average, {percent(worst[error]['sets_broken'], 1)} % at worst "
            f"({worst['name']}), {size:.2f} classes per set."
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--splits", type=int, default=1000)
    parser.add_argument("--only", type=lambda text: set(text.split(",")), default=set())
    parser.add_argument("--rows", type=Path, help="keep figures of each log as a line of JSON, and take those it has")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    exact = cache(guarantee.chance)  # the same ones come again in many splits

    def chance(n_wrong: int, n: int, unseen: int, error: float) -> float:
        bound = chernoff(n_wrong, n, unseen, error)
        return bound if bound < SELDOM else exact(n_wrong, n, unseen, error)

    guarantee.chance = chance
    rows = []
    if args.rows is not None and args.rows.exists():
        rows = [from_json(text) for text in args.rows.read_text("utf-8").splitlines()]
    names = {row["name"] for row in rows}
    for case in cases(args.data, args.only):
        if case.name in names:
            continue
        exact.cache_clear()
        rows.append(measure(case, args.splits))
        print(line(rows[-1]), flush=True)
        if args.rows is not None:
            with args.rows.open("a", encoding="utf-8") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    rows.sort(key=lambda row: row["name"])
    page = HEAD.format(splits=args.splits) + "\n".join(map(line, rows)) + "\n\n" + summary(rows) + "\n" + FOOT
    print(summary(rows))
    if not args.only:
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
