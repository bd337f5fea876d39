"""From a file to a file: the command line on CSV and Parquet logs, beside polars only reading the same file.

    python benches/files.py                  # 1e7 rows, about three minutes
    python benches/files.py --rows 1e6

Each is a command of its own, start-up and imports included. They take turns, the file is in the page cache.
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
What this does not show: a cold disk (files are in the page cache), compressed CSV, many files, rows out of
task order. polars reads every column into memory and does nothing else; the command line reads, encodes, fits
and writes the labels."""
PASSES = 20

READERS = {
    "csv": "import sys, polars; polars.read_csv(sys.argv[1])",
    "parquet": "import sys, polars; polars.read_parquet(sys.argv[1])",
}


def write(path: Path, rows: int, ids: str, arguments: argparse.Namespace) -> None:
    """Write a log by pyarrow, in a format told by the suffix."""
    table = data.arrow(data.crowd(rows, int(arguments.workers), arguments.classes), ids)
    if path.suffix == ".csv":
        import pyarrow.csv

        pyarrow.csv.write_csv(table, path, pyarrow.csv.WriteOptions(quoting_style="none"))
    else:
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, path)


def commands(path: Path, labels: Path, extra: list[str]) -> dict[str, list[str]]:
    """Return what is timed, by name."""
    program = Path(sys.executable).with_name("manyhands")
    found = {"polars reads": [sys.executable, "-c", READERS[path.suffix[1:]], str(path)]}
    if program.exists() and find_spec("manyhands.cli"):
        common = [str(program), "aggregate", str(path), "-o", str(labels), "--threads", str(peers.THREADS)]
        skene = ["--method", "dawid-skene", "--set", f"max_iter={PASSES}", "--set", "tol=0"]
        found |= {
            "manyhands, majority": [*common, "--method", "majority", *extra],
            f"manyhands, Dawid–Skene, {PASSES} passes": [*common, *skene, *extra],
        }
    else:
        print("note: the command `manyhands` is not there, so only polars is timed (run `make build`)")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--rows", type=float, default=1e7)
    add("--classes", type=int, default=10)
    add("--workers", type=float, default=1e4)
    add("--ids", type=lambda text: text.split(","), default=["int", "string"], help="default int,string")
    add("--repeats", type=int, default=3)
    add("--extra", type=str.split, default=[], help="further options of `manyhands aggregate`")
    add("--out", type=Path, default=harness.RESULTS)
    arguments = parser.parse_args()
    rows = int(arguments.rows)
    host = harness.machine(peers.THREADS)
    print(harness.describe(host))
    kept, table = [], []
    with tempfile.TemporaryDirectory() as folder:
        for ids, suffix in product(arguments.ids, ("csv", "parquet")):
            path, labels = Path(folder) / f"log.{suffix}", Path(folder) / "labels.parquet"
            write(path, rows, ids, arguments)
            runs = commands(path, labels, arguments.extra)
            peaks = dict.fromkeys(runs, 0.0)

            def once(name: str, command: list[str], peaks: dict[str, float] = peaks) -> float:
                found = harness.watch(command)
                peaks[name] = max(peaks[name], found["peak"])
                return found["seconds"]

            turns = {name: partial(once, name, command) for name, command in runs.items()}
            times = harness.take_turns(turns, arguments.repeats, slow=float("inf"))
            size = path.stat().st_size
            reading = times["polars reads"].median
            for name, stat in times.items():
                kept.append({"rows": rows, "ids": ids, "file": suffix, "bytes": size, "command": name})
                kept[-1] |= {"seconds": stat, "peak": peaks[name]}
                table.append(
                    {
                        "rows": count(rows),
                        "ids": ids,
                        "file": f"{suffix}, {size / 2**20:,.0f} MB",
                        "command": name,
                        "seconds": f"{human(stat.median)} [{human(stat.low)}–{human(stat.high)}]",
                        "of polars reading": f"×{stat.median / reading:.2f}",
                        "peak memory": f"{peaks[name] / 2**20:,.0f} MB",
                    }
                )
                print("  " + "; ".join(table[-1].values()), flush=True)
            path.unlink()
    text = "\n".join([harness.describe(host), "", harness.markdown(table), "", NOT_SHOWN])
    print("\n" + text)
    harness.save("files", arguments.out, {"machine": host, "rows": kept}, text)


if __name__ == "__main__":
    main()
