"""What a desk costs and what it is good for: steps, load, crashes, accuracy after adjudication, coverage of intervals.

    python benches/desk.py --part steps      # server time per step at 10,000 and 1,000,000 tasks
    python benches/desk.py --part start      # from the command to the first task
    python benches/desk.py --part load       # 50 clients for 60 s
    python benches/desk.py --part kill       # kill -9 at 100 random moments
    python benches/desk.py --part replay     # shared logs, an adjudicator who answers from the gold
    python benches/desk.py --part coverage   # intervals on shared logs

docs/evidence/desk.md has the results.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import manyhands as mh
from harness import human, rss
from manyhands._base.write import write_table
from manyhands.desk import Desk, Journal
from manyhands.desk.accuracy import OPEN, RIGHT, WRONG, accuracy
from manyhands.desk.sampling import Queue
from promise import logs

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
MARKS = (50, 100, 200)
LEAST = 200


class Client:
    """A connection to a desk that stays open."""

    def __init__(self, address: str) -> None:
        self.token = address.partition("token=")[2]
        self.port = int(address.split(":")[2].partition("/")[0])
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def post(self, path: str, **content: Any) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        self.connection.request("POST", path, json.dumps(content).encode(), headers)
        reply = self.connection.getresponse()
        return reply.status, json.loads(reply.read())


def start(folder: Path, *more: str) -> tuple[subprocess.Popen[str], str]:
    """Start a desk on the log of a folder; returns the process and the address."""
    command = [sys.executable, "-m", "manyhands", "desk", "log.parquet", "--no-browser", "-q", "--port", "0", *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def log_of(folder: Path, n_tasks: int) -> None:
    write_table(mh.simulate(n_tasks, 200, 4, labels_per_task=5, seed=1).log.to_frame(), folder / "log.parquet")


# ---------------------------------------------------------------------------------------------------------- cost


def steps(_: argparse.Namespace) -> None:
    print("| tasks | next, median | 99 % | decision (fsync), median | 99 % | progress, median | opening | memory |")
    print("| --: | --: | --: | --: | --: | --: | --: | --: |")
    for n in (10_000, 1_000_000):
        model = mh.MajorityVote().fit(mh.simulate(n, 200, 4, labels_per_task=5, seed=1).log)
        before = rss()
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            with Desk(model, folder) as desk:
                opening = time.perf_counter() - begin
                times: dict[str, list[float]] = {"next": [], "decide": [], "progress": []}
                for place in range(1000):
                    marks = [time.perf_counter()]
                    task = desk.next("w1")
                    marks.append(time.perf_counter())
                    assert task is not None
                    desk.adjudicate(task["task"], place % 4, client="w1")
                    marks.append(time.perf_counter())
                    desk.progress()
                    marks.append(time.perf_counter())
                    for name, seconds in zip(times, np.diff(marks), strict=True):
                        times[name].append(float(seconds))
        cells = []
        for name in ("next", "decide"):
            cells += [human(float(np.median(times[name]))), human(float(np.quantile(times[name], 0.99)))]
        cells += [human(float(np.median(times["progress"]))), human(opening), f"{(rss() - before) / 2**20:.0f} MB"]
        print(f"| {n:,} | {' | '.join(cells)} |", flush=True)


def first(_: argparse.Namespace) -> None:
    for n in (1_000, 10_000, 100_000):
        with tempfile.TemporaryDirectory() as folder:
            log_of(Path(folder), n)
            begin = time.perf_counter()
            process, address = start(Path(folder))
            status, content = Client(address).post("/next", client="w1")
            seconds = time.perf_counter() - begin
            process.send_signal(signal.SIGINT)
            process.wait()
            assert status == 200
            assert content["task"]
            print(f"{n:,} tasks: {human(seconds)} from the command to the first task")


def load(args: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log_of(Path(folder), 1_000_000 if args.large else 200_000)
        process, address = start(Path(folder), "--method", "majority")
        times: dict[str, list[float]] = {"/next": [], "/adjudicate": []}
        errors: list[Any] = []
        end = time.monotonic() + args.seconds

        def work(window: str) -> None:
            client = Client(address)
            while time.monotonic() < end:
                task = None
                for path in times:
                    content = {"client": window} if task is None else {"client": window, "task": task, "answer": 1}
                    begin = time.perf_counter()
                    try:
                        status, reply = client.post(path, **content)
                    except OSError as error:
                        errors.append(error)
                        return
                    times[path].append(time.perf_counter() - begin)
                    if status != 200:
                        errors.append((status, reply))
                        break
                    task = reply["task"]["task"] if path == "/next" else None

        threads = [threading.Thread(target=work, args=(f"w{place}",)) for place in range(args.clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        process.send_signal(signal.SIGINT)
        process.wait()
        journal = Journal(Path(folder) / "log.desk", {}, read_only=True)
        tasks = [one["task"] for one in journal.records]
        assert len(tasks) == len(set(tasks)) == len(times["/adjudicate"]), "a task was decided twice or lost"
        print(
            f"{args.clients} clients, {args.seconds:g} s: {len(tasks):,} decisions, {len(errors)} errors {errors[:3]}"
        )
        for path, seconds in times.items():
            marks = [human(float(np.quantile(seconds, q))) for q in (0.5, 0.9, 0.99, 1)]
            print(f"{path}: {len(seconds):,} requests; median {marks[0]}, 90 % {marks[1]}, 99 % {marks[2]}, {marks[3]}")


def kill(args: argparse.Namespace) -> None:
    """A client decides without a pause; the server is killed at a random moment and started again."""
    rng = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        log_of(Path(folder), 20_000)
        acknowledged: dict[Any, int] = {}
        for _ in range(args.kills):
            process, address = start(Path(folder), "--method", "majority")
            timer = threading.Timer(rng.uniform(0.0, 0.5), lambda one=process: os.kill(one.pid, signal.SIGKILL))
            timer.start()
            client = Client(address)
            try:
                while True:
                    task = client.post("/next", client="w1")[1]["task"]["task"]
                    answer = rng.randrange(4)
                    if client.post("/adjudicate", client="w1", task=task, answer=answer)[0] == 200:
                        acknowledged[task] = answer
            except (OSError, http.client.HTTPException, ValueError):
                pass
            process.wait()
            records = Journal(Path(folder) / "log.desk", {}, read_only=True).records
            stored = {one["task"]: one["answer"] for one in records}
            assert len(stored) == len(records), "a task was decided twice"
            assert acknowledged.items() <= stored.items(), "an acknowledged decision is lost"
        print(
            f"{args.kills} times kill -9: {len(acknowledged):,} decisions acknowledged, {len(stored):,} stored, 0 lost"
        )


# ------------------------------------------------------------------------------------------------------- accuracy


def known_logs(only: set[str]) -> Iterator[tuple[str, Any, Any]]:
    """Logs of classes with their known tasks only, and the truth."""
    for name, votes, truth in logs(DATA, only):
        tasks = [task for task in votes.tasks.tolist() if task in truth]
        if len(tasks) < LEAST or len(tasks) > 30_000:
            continue
        part = votes.select(tasks=tasks)
        yield name, part, np.array([truth[task] for task in part.tasks.tolist()], object)


def order_of(queue: Queue, n: int) -> list[int]:
    rows = []
    while len(rows) < n and (pick := queue.next("w1")) is not None:
        rows.append(pick.row)
        queue.close(pick.row)
    return rows


def accuracy_with(model: Any, truth: Any, rows: Any) -> float:
    """Accuracy after the answers of some tasks are replaced by the truth."""
    right = model.labels_ == truth
    right[rows] = True
    return float(right.mean())


def refit(votes: Any, truth: Any, rows: Any) -> float:
    """Accuracy of the default with some tasks known."""
    classes = {str(one) for one in votes.classes.tolist()}
    rows = [row for row in rows if truth[row] in classes]
    gold = {votes.tasks[row]: truth[row] for row in rows}
    return accuracy_with(mh.aggregate(votes, gold=gold), truth, rows)


def tasks_to_buy(votes: Any, model: Any, strategy: str, n: int) -> list[int]:
    """The tasks that `collect.next_labels` would buy labels for."""
    batch = mh.collect.next_labels(model, n, strategy=strategy)
    return list(dict.fromkeys(votes._tasks.find(batch.column("task").to_pylist()).tolist()))


def replay(args: argparse.Namespace) -> None:
    sums: dict[str, list[list[float]]] = {}
    print("| log | known | right | random | desk | desk, audit=0 | collect: best of 4 | desk, then `--gold` |")
    print("| --- | --: | --: | --: | --: | --: | --: | --: |")
    for name, votes, truth in known_logs(args.only):
        model = mh.aggregate(votes)
        n, rng = votes.n_tasks, np.random.default_rng(0)
        marks = [mark for mark in MARKS if mark < n]
        sure = model.confidence_
        plain, mixed = order_of(Queue(sure, audit=0.0), max(marks)), order_of(Queue(sure), max(marks))
        ways = {
            "random": [
                np.mean([accuracy_with(model, truth, rng.permutation(n)[:m]) for _ in range(50)]) for m in marks
            ],
            "desk": [accuracy_with(model, truth, mixed[:m]) for m in marks],
            "audit=0": [accuracy_with(model, truth, plain[:m]) for m in marks],
            "collect": [
                max(
                    accuracy_with(model, truth, tasks_to_buy(votes, model, one, m))
                    for one in ("error", "information", "entropy", "margin")
                )
                for m in marks
            ],
            "gold": [refit(votes, truth, mixed[:m]) for m in marks],
        }
        cells = [" / ".join(f"{100 * one:.1f}" for one in values) for values in ways.values()]
        print(f"| {name} | {n:,} | {100 * (model.labels_ == truth).mean():.1f} | {' | '.join(cells)} |", flush=True)
        if len(marks) == len(MARKS):
            for way, values in ways.items():
                sums.setdefault(way, []).append([float(one) for one in values])
    means = (" / ".join(f"{100 * one:.1f}" for one in np.mean(values, axis=0)) for values in sums.values())
    print(f"| mean of {len(sums['desk'])} logs | | | {' | '.join(means)} |")


def coverage(args: argparse.Namespace) -> None:
    print(
        "| log | known | right | "
        + " | ".join(f"{one} at {m}" for one in ("information", "audit", "stratified") for m in MARKS)
        + " |"
    )
    print("| --- | --: | --: |" + " --: |" * 9)
    rows: list[list[tuple[float, float]]] = []
    for name, votes, truth in known_logs(args.only):
        model = mh.aggregate(votes)
        wrong = model.labels_ != truth
        rows.append([])
        for choose in ("information", "audit", "stratified"):
            inside = np.zeros((args.draws, len(MARKS)))
            width = np.zeros_like(inside)
            for draw in range(args.draws):
                queue, states = Queue(model.confidence_, choose, seed=draw), np.full(votes.n_tasks, OPEN, np.int8)
                n_decided = 0
                for at, mark in enumerate(MARKS):
                    for row in order_of(queue, mark - n_decided):
                        states[row] = WRONG if wrong[row] else RIGHT
                    n_decided = mark
                    one = accuracy(states, queue.permutations, queue.drawn, queue.order, queue.rank, queue.passed)
                    inside[draw, at] = one.before_low - 1e-9 <= 1 - wrong.mean() <= one.before_high + 1e-9
                    width[draw, at] = one.before_high - one.before_low
            rows[-1] += list(zip(inside.mean(0), width.mean(0) / 2, strict=True))
        cells = [f"{share:.3f} ±{100 * half:.1f}" for share, half in rows[-1]]
        print(f"| {name} | {votes.n_tasks:,} | {100 * (1 - wrong.mean()):.1f} | {' | '.join(cells)} |", flush=True)
    cells = [f"{share:.3f} ±{100 * half:.1f}" for share, half in np.mean(rows, axis=0)]
    print(f"| mean of {len(rows)} logs | | | {' | '.join(cells)} |")


PARTS = {"steps": steps, "start": first, "load": load, "kill": kill, "replay": replay, "coverage": coverage}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--large", action="store_true", help="load: a million tasks in place of 200,000")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--only", type=lambda text: set(text.split(",")), default=set())
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    PARTS[args.part](args)


if __name__ == "__main__":
    main()
