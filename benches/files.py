"""From a file to a file: labels of a CSV or Parquet log, by the command line and by query engines that count votes.

    python benches/files.py                                   # 1e7 rows of text ids, about three minutes
    python benches/files.py --rows 1e6 --ids int,string --files csv,csv.gz,parquet --orders task,shuffled

Each candidate is a process of its own, start-up and imports included, and writes a Parquet file with a row per task:
task, label and the share of the votes. They take turns; files are in the page cache.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import data
import harness
import peers
from harness import count, human

NOT_SHOWN = """\
What this does not show: a cold disk (files are in the page cache), many files, rows with missing values, wide tables.
The engines count votes and do nothing else; the command line also checks every row and breaks ties by a rule."""
PASSES = 20

#: Programs that read the log `sys.argv[1]` and write the winners to `sys.argv[2]`.
POLARS = """
import sys, polars as pl
path, out = sys.argv[1:]
log = pl.scan_parquet(path) if path.endswith("parquet") else pl.scan_csv(path)
votes = log.group_by("task", "label").agg(pl.len().alias("n")).sort(["n", "label"], descending=[True, False])
share = (pl.col("n").first() / pl.col("n").sum()).alias("confidence")
best = votes.group_by("task").agg(pl.col("label").first(), share)
best.sort("task").collect(engine="streaming").write_parquet(out)
"""
DUCKDB = """
import sys, duckdb
path, out = sys.argv[1:]
duckdb.execute(f"set threads = {THREADS}")
duckdb.execute(f'''copy (
    with votes as (select task, label, count(*) n from '{path}' group by all)
    select task, arg_max(label, n) as label, max(n) / sum(n) as confidence from votes group by task order by task
) to '{out}' (format parquet)''')
"""
CROWD_KIT = """
import sys, pandas
from crowdkit.aggregation import MajorityVote
path, out = sys.argv[1:]
log = pandas.read_parquet(path) if path.endswith("parquet") else pandas.read_csv(path)
MajorityVote().fit_predict(log).to_frame("label").to_parquet(out)
"""
#: Engines, the module that each needs, and its program.
ENGINES = {
    "polars, majority": ("polars", POLARS),
    "DuckDB, majority": ("duckdb", DUCKDB),
    "pandas and crowd-kit, majority": ("crowdkit", CROWD_KIT),
}
#: Options of `manyhands aggregate`.
METHODS = {
    "manyhands, majority": ["--method", "majority"],
    f"manyhands, Dawid–Skene, {PASSES} iterations": [
        *("--method", "dawid-skene", "--set", f"max_iter={PASSES}", "--set", "tol=0")
    ],
    "manyhands, default": [],
}


def write(path: Path, rows: int, ids: str, order: str, arguments: argparse.Namespace) -> None:
    """Write a log by pyarrow, in a format told by the suffix."""
    import pyarrow as pa

    table = data.arrow(data.crowd(rows, int(arguments.workers), arguments.classes, order=order), ids)
    if path.suffix == ".parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, path)
        return
    import pyarrow.csv

    codec = "gzip" if path.suffix == ".gz" else None
    with pa.output_stream(str(path), compression=codec) as stream:
        pyarrow.csv.write_csv(table, stream, pyarrow.csv.WriteOptions(quoting_style="none"))


def commands(path: Path, labels: Path, extra: list[str]) -> dict[str, list[str]]:
    """Return what is timed, by name: the engines that are installed, and the command line."""
    found = {}
    for name, (module, program) in ENGINES.items():
        if find_spec(module) is None:
            print(f"note: {module} is not installed, and left out")
            continue
        found[name] = [sys.executable, "-c", program.replace("{THREADS}", str(peers.THREADS)), str(path), str(labels)]
    common = [sys.executable, "-m", "manyhands", "aggregate", str(path), "-o", str(labels), "-q"]
    threads = ["--threads", str(peers.THREADS)]
    return found | {name: [*common, *threads, *options, *extra] for name, options in METHODS.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add, listing = parser.add_argument, lambda text: text.split(",")
    add("--rows", type=float, default=1e7)
    add("--classes", type=int, default=10)
    add("--workers", type=float, default=1e4)
    add("--ids", type=listing, default=["string"], help=f"of {', '.join(data.ID_KINDS)}; default string")
    add("--files", type=listing, default=["csv", "parquet"], help="of csv, csv.gz, parquet; default csv,parquet")
    add("--orders", type=listing, default=["task"], help=f"of {', '.join(data.ORDERS)}; default task")
    add("--only", type=listing, default=[""], help="candidates with one of these in their names")
    add("--repeats", type=int, default=3)
    add("--extra", type=str.split, default=[], help="further options of `manyhands aggregate`")
    add("--out", type=Path, default=harness.RESULTS)
    arguments = parser.parse_args()
    rows = int(arguments.rows)
    host = harness.machine(peers.THREADS)
    print(harness.describe(host))
    kept, table = [], []
    with tempfile.TemporaryDirectory() as folder:
        for ids, order, ending in product(arguments.ids, arguments.orders, arguments.files):
            path, labels = Path(folder) / f"log.{ending}", Path(folder) / "labels.parquet"
            write(path, rows, ids, order, arguments)
            runs = {
                name: command
                for name, command in commands(path, labels, arguments.extra).items()
                if any(part in name for part in arguments.only)
            }
            worst: dict[str, dict[str, float]] = {name: {"peak": 0.0, "processor": float("inf")} for name in runs}

            def once(name: str, command: list[str], worst: dict[str, dict[str, float]] = worst) -> float:
                found = harness.watch(command)
                worst[name]["peak"] = max(worst[name]["peak"], found["peak"])
                worst[name]["processor"] = min(worst[name]["processor"], found["processor"])
                return found["seconds"]

            turns = {name: partial(once, name, command) for name, command in runs.items()}
            times = harness.take_turns(turns, arguments.repeats, slow=float("inf"))
            size = path.stat().st_size
            for name, stat in times.items():
                what = {"rows": rows, "ids": ids, "order": order, "file": ending, "bytes": size, "command": name}
                kept.append(what | {"seconds": stat} | worst[name])
                table.append(
                    {
                        "rows": count(rows),
                        "ids": ids,
                        "order": order,
                        "file": f"{ending}, {size / 2**20:,.0f} MB",
                        "candidate": name,
                        "seconds": f"{human(stat.low)} to {human(stat.high)}",
                        "processor": human(worst[name]["processor"]),
                        "peak memory": f"{worst[name]['peak'] / 2**20:,.0f} MB",
                    }
                )
                print("  " + "; ".join(table[-1].values()), flush=True)
            path.unlink()
    text = "\n".join([harness.describe(host), "", harness.markdown(table), "", NOT_SHOWN])
    print("\n" + text)
    harness.save("files", arguments.out, {"machine": host, "rows": kept}, text)


if __name__ == "__main__":
    main()
