"""``manyhands bench``: how fast the library is on this machine."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from manyhands.cli.console import Stages, duration, print_json, print_rows, print_summary, print_table
from manyhands.cli.options import Commands, add_command, count, natural, use_threads

if TYPE_CHECKING:
    from manyhands import Annotations


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "bench",
        run,
        about="Simulate a log in memory and time each step of its aggregation; the best of several runs counts.",
        examples="""
            --annotations 1e7 --classes 10 --workers 1e4
            --threads 1 --json
        """,
    )
    parser.add_argument(
        "--annotations", type=count, default=1_000_000, metavar="N", help="size of the log (default: 1e6)"
    )
    parser.add_argument("--classes", type=count, default=5, metavar="N", help="default: 5")
    parser.add_argument("--workers", type=count, default=1_000, metavar="N", help="default: 1000")
    parser.add_argument("--labels-per-task", type=count, default=5, metavar="N", help="default: 5")
    parser.add_argument("--passes", type=count, default=20, metavar="N", help="EM passes of a fit (default: 20)")
    parser.add_argument("--runs", type=count, default=3, metavar="N", help="runs of each step (default: 3)")
    parser.add_argument("--seed", type=natural, default=0, metavar="N", help="seed of the log (default: 0)")


def run(args: Namespace) -> None:
    """Simulate, time each step, and print a table."""
    import manyhands as mh
    from manyhands.categorical.simulate import simulate

    if args.labels_per_task > args.workers:
        raise ValueError(f"--labels-per-task {args.labels_per_task} is more than --workers {args.workers}")
    use_threads(args)
    n_tasks = max(1, args.annotations // args.labels_per_task)
    with Stages(args) as stages:
        with stages.stage("simulating"):
            votes = simulate(
                n_tasks, args.workers, args.classes, labels_per_task=args.labels_per_task, seed=args.seed
            ).log
            steps = _steps(votes, args.passes, args.seed)
        results: list[dict[str, Any]] = []
        for name, (step, parts) in steps.items():
            with stages.stage(name):
                seconds = min(_time_call(step) for _ in range(args.runs)) / parts
            results.append({"step": name, "seconds": seconds, "nanoseconds": seconds / votes.n_annotations * 1e9})
    sizes = {name: getattr(votes, name) for name in ("n_annotations", "n_tasks", "n_workers", "n_classes")}
    machine = {"threads": mh.get_num_threads(), **_machine()}
    if args.json:
        print_json(args, {"command": args.command, **sizes, **machine, "passes": args.passes, "steps": results})
        return
    if args.shown == "csv":
        print_rows(args, tuple(results[0]), [tuple(step.values()) for step in results])
    else:
        rows = [(r["step"], duration(r["seconds"]), f"{r['nanoseconds']:,.1f} ns") for r in results]
        print_table(("step", "time", "an annotation"), rows)
    if not args.quiet:
        size = (
            f"{votes.n_annotations:,} annotations of {votes.n_tasks:,} tasks by {votes.n_workers:,} workers, "
            f"{votes.n_classes:,} classes; rows in random order"
        )
        where = f"{machine['threads']} threads of {machine['cores']} cores, {machine['platform']}"
        print_summary(args, {"log": size, "machine": where, "runs": f"best of {args.runs}"})


def _steps(votes: Annotations, passes: int, seed: int) -> dict[str, tuple[Callable[[], Any], int]]:
    """Return what to time, by name, and into how many parts its time is divided."""
    import numpy as np
    import pyarrow as pa

    import manyhands as mh

    # Logs do not come sorted by task, and sorted ones would be encoded faster.
    order = np.random.default_rng(seed).permutation(votes.n_annotations)
    numbers = [codes[order].astype(np.int64) for codes in votes.codes()]
    texts = [pa.array(column).cast(pa.large_string()) for column in numbers]

    def fit(model: str) -> Callable[[], Any]:
        # A tolerance of 0 never stops early, so that every fit makes the same number of passes.
        return lambda: mh.DawidSkene(model=model, max_iter=passes, tol=0).fit(votes)

    def whole() -> Any:
        table = mh.Annotations.from_arrays(*numbers)
        return mh.DawidSkene(max_iter=passes, tol=0).fit(table).to_frame()

    return {
        "encode integer ids": (lambda: mh.Annotations.from_arrays(*numbers), 1),
        "encode text ids": (lambda: mh.Annotations.from_arrays(*texts), 1),
        "majority vote": (lambda: mh.MajorityVote().fit(votes), 1),
        f"dawid-skene, one of {passes} passes": (fit("full"), passes),
        f"one-coin, one of {passes} passes": (fit("one-coin"), passes),
        f"integer ids to labels, {passes} passes": (whole, 1),
    }


def _time_call(step: Callable[[], Any]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def _machine() -> dict[str, Any]:
    import os
    import platform

    return {
        "cores": os.cpu_count(),
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
