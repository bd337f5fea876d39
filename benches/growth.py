"""How manyhands grows: time a pass and memory from 1e5 to 1e8 annotations; and from a frame to labels.

    python benches/growth.py                 # to 1e8: about ten minutes, 12 GB
    python benches/growth.py --max 1e7       # about three

Every line is measured in a fresh process.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import data
import harness
import peers
from harness import Stat, clock, count, human

NOT_SHOWN = """\
What this does not show: other libraries (see aggregate.py), reading files (see files.py), uneven crowds (each
task has five labels, workers are drawn evenly). Memory is the resident memory of the process. "Working
memory" is the peak of a fit above its table, less the arrays that it returns (posterior and confusion)."""


def of_size(spec: dict[str, Any]) -> dict[str, Any]:
    """Build a table of codes and fit it: seconds a pass, bytes of table, working memory and results."""
    sizes = spec["size"], spec["n_workers"], spec["n_classes"]
    peers.Manyhands(data.crowd(500, *sizes[1:]), spec["method"]).run(1)
    codes = data.crowd(*sizes)
    before = harness.rss()
    fitted = peers.Manyhands(codes, spec["method"])
    table = harness.rss() - before
    fitted.codes = codes = None
    model = fitted.model(spec["method"], 2)
    fit = harness.growth(model.fit, fitted.votes)
    results = model.posterior_.nbytes + model.confusion_.nbytes
    del model
    timer = harness.pass_timer(fitted.run, fitted.least)
    return {"table": table, "fit": fit["peak"], "results": results, "passes": [timer() for _ in range(3)]}


def from_frame(spec: dict[str, Any]) -> dict[str, Any]:
    """Go from a pandas frame to labels: seconds of encoding, of the fit and of the labels by name."""
    import manyhands as mh

    mh.set_num_threads(peers.THREADS)
    codes = data.crowd(spec["size"], spec["n_workers"], spec["n_classes"], order=spec["order"])
    frame = data.frame(codes, spec["ids"])
    del codes
    seconds: dict[str, list[float]] = {"encode": [], "fit": [], "labels": [], "pass": []}
    encode = partial(mh.Annotations.from_frame, task="task", worker="worker", label="label")
    memory = harness.growth(encode, frame)
    for _ in range(3):
        start = time.perf_counter()
        votes = encode(frame)
        seconds["encode"].append(time.perf_counter() - start)
        model = peers.Manyhands.model(spec["method"], spec["passes"])
        seconds["fit"].append(clock(model.fit, votes))
        seconds["labels"].append(clock(lambda model=model: model.labels_))
        few = clock(peers.Manyhands.model(spec["method"], 1).fit, votes)
        seconds["pass"].append((seconds["fit"][-1] - few) / (spec["passes"] - 1))
    return {"seconds": seconds, "encode_peak": memory["peak"]}


def child(spec: dict[str, Any]) -> dict[str, Any]:
    return {"size": of_size, "frame": from_frame}[spec["part"]](spec)


def size_row(spec: dict[str, Any], found: dict[str, Any]) -> dict[str, str]:
    stat = Stat.of(found["passes"])
    each = 1e9 / spec["size"]
    working = max(0, found["fit"] - found["results"])
    return {
        "method": spec["method"],
        "annotations": count(spec["size"]),
        "a pass": human(stat.median),
        "ns an annotation": f"{stat.median * each:.2f} [{stat.low * each:.2f}–{stat.high * each:.2f}]",
        "table, B an annotation": f"{found['table'] / spec['size']:.1f}",
        "working memory, B an annotation": f"{working / spec['size']:.1f}",
        "results, B an annotation": f"{found['results'] / spec['size']:.1f}",
        "peak of the fit": f"{found['fit'] / 2**20:,.0f} MB",
    }


def frame_row(spec: dict[str, Any], found: dict[str, Any]) -> dict[str, str]:
    median = {part: Stat.of(values).median for part, values in found["seconds"].items()}
    total = median["encode"] + median["fit"] + median["labels"]
    return {
        "annotations": count(spec["size"]),
        "ids": spec["ids"],
        "rows in order of": "tasks" if spec["order"] == "task" else "nothing (shuffled)",
        "encode": human(median["encode"]),
        f"fit, {spec['passes']} passes": human(median["fit"]),
        "labels": human(median["labels"]),
        "total": human(total),
        "a pass": human(median["pass"]),
        "encode in passes": f"{median['encode'] / median['pass']:.1f}",
        "encode, peak B an annotation": f"{found['encode_peak'] / spec['size']:.1f}",
    }


def measure(title: str, specs: list[dict[str, Any]], row: Any, report: list[str]) -> list[dict[str, Any]]:
    """Run one child a line, print as it goes and add the table to the report."""
    print(f"\n{title}:", flush=True)
    table, kept = [], []
    for spec in specs:
        found = harness.in_child("growth.py", spec)
        kept.append({**spec, **found})
        if "error" in found:
            print(f"  failed at {spec}: {found['error']}", flush=True)
            continue
        table.append(row(spec, found))
        print("  " + "; ".join(f"{key} {value}" for key, value in table[-1].items()), flush=True)
    report += [f"## {title}", "", harness.markdown(table), ""]
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--max", type=float, default=1e8, help="largest number of annotations, from 1e5 in tens (default 1e8)")
    add("--rows", type=float, default=1e7, help="rows of the frames (default 1e7)")
    add("--classes", type=int, default=10)
    add("--workers", type=float, default=1e4)
    add("--passes", type=int, default=20, help="EM passes from frame to labels")
    add("--out", type=Path, default=harness.RESULTS)
    add("--child", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(child(arguments.child)))
        return
    host = harness.machine(peers.THREADS)
    report = [harness.describe(host), ""]
    print(report[0])
    common = {"n_workers": int(arguments.workers), "n_classes": arguments.classes}
    sizes = [10**power for power in range(5, 13) if 10**power <= arguments.max]
    by_size = [
        {"part": "size", "method": method, "size": size, **common}
        for method, size in product(("full", "one-coin"), sizes)
    ]
    title = f"From 1e5 up, K = {arguments.classes}, {common['n_workers']:,} workers, integer codes"
    lines = measure(title, by_size, size_row, report)
    by_ids = [
        {
            "part": "frame",
            "method": "full",
            "size": int(arguments.rows),
            "ids": ids,
            "order": order,
            "passes": arguments.passes,
            **common,
        }
        for ids, order in product(data.ID_KINDS, data.ORDERS)
    ]
    frames = measure("From a pandas frame to labels, full Dawid–Skene", by_ids, frame_row, report)
    text = "\n".join([*report, NOT_SHOWN])
    print("\n" + text)
    harness.save("growth", arguments.out, {"machine": host, "sizes": lines, "frames": frames}, text)
    points: dict[str, list[tuple[float, float]]] = {}
    for line in lines:
        if "passes" in line:
            point = line["size"], Stat.of(line["passes"]).median
            points.setdefault(line["method"], []).append(point)
    harness.plot(arguments.out / "growth.png", points, title=title, xlabel="annotations", ylabel="seconds a pass")


if __name__ == "__main__":
    main()
