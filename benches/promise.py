"""How often promises of an error rate are broken on real logs, and how many tasks they keep.

    python benches/promise.py [--data ../shared/data] [--splits 1000] [--only ducks,face]

Every log with at least 200 known classes. A split takes a random half of the known answers for the promise and
measures the other half: the promise is broken if more than `error` of its kept answers there are wrong. "Best judge" is
the worker most often right on the first half (at least 20 known answers, and half of those that the most complete
worker has), whose answers are kept by the same test, all or none: judges have no confidence. "Stopping" keeps what
`collect.stopping` calls done at the same error, without known answers. Writes docs/evidence/promise.md.
"""

from __future__ import annotations

import argparse
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

import manyhands as mh
from manyhands.collect import guarantee

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "evidence" / "promise.md"
ERRORS = (0.05, 0.1, 0.2)
CONFIDENCE = 0.9
LEAST = 200

HEAD = """# Promises of an error rate: measurements

Guide: [Promises](../promise.md). Made with `python benches/promise.py`.

A random half of the known answers tests the thresholds, the other half measures: a promise is **broken** if more than
the promised share of its kept answers there are wrong. {splits:,} splits per log, confidence 0.9, so at most 10 % may
be broken. All shared logs with at least 200 known classes, fitted with the default.

**Kept** is the mean share of tasks, in percent. In parentheses: the share that the best single judge keeps by the same
test, then the share that `collect.stopping` calls done at that error and how many percent of those are wrong. The best
judge is chosen and tested with the same known answers, which flatters it where many workers compete (ducks).

| log | known | right | broken at .05, .1, .2 | kept at .05 (best judge; stopping: wrong) | kept at .1 | kept at .2 |
|---|--:|--:|--:|--:|--:|--:|
"""


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


def measure(name: str, votes: Any, known: dict[str, str], splits: int) -> dict[str, Any] | None:
    model = mh.aggregate(votes)
    place = {task: at for at, task in enumerate(model.tasks_.tolist())}
    tasks = [task for task in known if task in place]
    if len(tasks) < LEAST:
        return None
    index = np.array([place[task] for task in tasks])
    truth = np.array([known[task] for task in tasks], object)
    wrong = model.labels_[index] != truth
    sure = model.confidence_
    by_worker = verdicts(votes, index, truth)
    figures: dict[str, Any] = {"name": name, "known": len(tasks), "right": 1 - wrong.mean()}
    for error in ERRORS:
        stop = mh.collect.stopping(model, error=error).done
        stopped = stop[index]
        rng = np.random.default_rng(0)
        n_broken, shares, judge = 0, [], []
        for _ in range(splits):
            order = rng.permutation(len(index))
            half, rest = np.split(order, [len(order) // 2])
            one = guarantee.lowest_threshold(sure, index[half], wrong[half], error, CONFIDENCE)
            there = sure[index[rest]] >= one.threshold
            n_broken += bool(there.any() and wrong[rest][there].mean() > error)
            shares.append(float((sure >= one.threshold).mean()))
            judge.append(best_judge(by_worker, half, error, votes.n_tasks))
        figures[error] = {
            "broken": n_broken / splits,
            "kept": float(np.mean(shares)),
            "judge": float(np.mean(judge)),
            "stopping": float(stop.mean()),
            "stopping_wrong": float(wrong[stopped].mean()) if stopped.any() else 0.0,
        }
    return figures


def verdicts(votes: Any, index: Any, truth: Any) -> Any:
    """Known answers by worker: (row among the known, worker, right), and the answers of each worker."""
    tasks, workers, labels = votes.codes()
    row = np.full(votes.n_tasks, -1)
    row[index] = np.arange(len(index))
    here = row[tasks] >= 0
    right = votes.labels[labels[here]] == truth[row[tasks[here]]]
    return row[tasks[here]], workers[here], np.asarray(right, bool), votes.labels_per_worker


def best_judge(by_worker: Any, half: Any, error: float, n_tasks: int) -> float:
    """Share of the tasks kept by the worker most often right on a half, if all of theirs pass."""
    rows, workers, right, answers = by_worker
    inside = np.zeros(rows.max() + 1 if len(rows) else 0, bool)
    inside[half[half < len(inside)]] = True
    mine = inside[rows]
    n_seen = np.bincount(workers[mine], minlength=len(answers))
    hits = np.bincount(workers[mine], weights=right[mine], minlength=len(answers)).astype(int)
    enough = (n_seen >= 20) & (n_seen >= n_seen.max() / 2)
    if not enough.any():
        return 0.0
    best = int(np.where(enough, hits / np.maximum(n_seen, 1), -1).argmax())
    n, wrong, unseen = int(n_seen[best]), int(n_seen[best] - hits[best]), int(answers[best] - n_seen[best])
    passes = max(guarantee._bounds(wrong, n, max(unseen, 0), CONFIDENCE)) <= error
    return min(1.0, answers[best] / n_tasks) if passes else 0.0


def line(figures: dict[str, Any]) -> str:
    rates = ", ".join(percent(figures[error]["broken"], 1) for error in ERRORS)
    cells = []
    for at in (figures[error] for error in ERRORS):
        stopping = f"{percent(at['stopping'])}: {percent(at['stopping_wrong'])}"
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
        mean = {name: percent(np.mean([at[name] for at in of])) for name in ("kept", "judge", "stopping")}
        worst = max(rows, key=lambda row: row[error]["broken"])
        over = sum(at["stopping"] > 0 and at["stopping_wrong"] > error for at in of)
        lines.append(
            f"- Error {error:g}: broken in {percent(np.mean([at['broken'] for at in of]), 1)} % of the splits on "
            f"average, {percent(worst[error]['broken'], 1)} % at worst ({worst['name']}). Tasks kept on average "
            f"{mean['kept']} %, by the best judge {mean['judge']} %, by `collect.stopping` {mean['stopping']} %, which "
            f"exceeds the error on {over} of {len(of)} logs."
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--splits", type=int, default=1000)
    parser.add_argument("--only", type=lambda text: set(text.split(",")), default=set())
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    # The same bounds and thresholds come again in many splits.
    guarantee._bounds = cache(guarantee._bounds)
    plain = guarantee.thresholds
    memory: dict[Any, Any] = {}

    def once(ordered: Any, *rest: Any) -> Any:
        if rest not in memory:
            memory[rest] = plain(ordered, *rest)
        return memory[rest]

    guarantee.thresholds = once
    rows = []
    for name, votes, truth in logs(args.data, args.only):
        memory.clear()
        if (figures := measure(name, votes, truth, args.splits)) is not None:
            rows.append(figures)
            print(line(figures), flush=True)
    page = HEAD.format(splits=args.splits) + "\n".join(map(line, rows)) + "\n\n" + summary(rows) + "\n"
    print(summary(rows))
    if not args.only:
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
