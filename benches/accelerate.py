"""Accelerated against plain EM on real logs: passes over the data to the same objective.

    python benches/accelerate.py [--data ../shared/data]

The goal of each set is the objective at which plain EM ends (10,000 passes, or a change below 1e-12 of it),
less one part in a million. Passes are counted by asking for more until the goal is met, so those of refused
leaps count.
"""

from __future__ import annotations

import argparse
import bisect
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
import peers

ROOT = harness.HERE.parent
KINDS = ("categorical", "ordinal", "sequence")
MOST = 10_000
NOT_SHOWN = """\
What this does not show: accuracy, or time (a pass costs the same but for the leap itself). Sets on which the
two end at different optima are marked: there the passes do not compare."""


def logs(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield name and file of each set of single labels with worker ids."""
    for meta in sorted(folder.glob("*/meta.json")):
        about = json.loads(meta.read_text())
        path = meta.parent / str(about.get("file"))
        if about.get("type") in KINDS and path.name.startswith("labels.") and path.exists():
            yield meta.parent.name, path


def read(path: Path) -> Any:
    """Read a log with pandas, every column as text: some labels look like numbers or gaps."""
    import pandas as pd

    import manyhands as mh

    if path.suffix == ".parquet":
        frame = pd.read_parquet(path).astype(str)
    else:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    return mh.Annotations.from_frame(frame, task="task", worker="worker", label="label")


def objective(votes: Any, accelerate: bool, passes: int, model: str) -> float:
    import manyhands as mh

    fitted = mh.DawidSkene(model=model, accelerate=accelerate, max_iter=passes, tol=0.0).fit(votes)
    return fitted.objective_


def passes_to(goal: float, votes: Any, accelerate: bool, model: str) -> int | None:
    """Return the fewest passes that reach the goal: the objective never falls with more."""

    def reached(passes: int) -> bool:
        return objective(votes, accelerate, passes, model) >= goal

    most = 1
    while not reached(most):
        most *= 2
        if most > 2 * MOST:
            return None
    return bisect.bisect_left(range(most + 1), True, lo=most // 2 + 1, key=reached) if most > 1 else 1


def compare(name: str, votes: Any, model: str) -> dict[str, Any]:
    import manyhands as mh

    ends = {}
    for accelerate in (False, True):
        best = mh.DawidSkene(model=model, accelerate=accelerate, max_iter=MOST, tol=1e-12)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some sets have not converged even then, and the goal says so
            ends[accelerate] = best.fit(votes).objective_
    goal = ends[False] - 1e-6 * abs(ends[False])
    plain, fast = (passes_to(goal, votes, accelerate, model) for accelerate in (False, True))
    same = abs(ends[True] - ends[False]) <= 1e-6 * abs(ends[False])
    return {
        "set": name,
        "annotations": votes.n_annotations,
        "K": votes.n_classes,
        "plain passes": plain,
        "accelerated passes": "not reached" if fast is None else fast,
        "share": "–" if fast is None or not plain else f"{fast / plain:.2f}",
        "objective, plain": f"{ends[False]:.6f}",
        "objective, accelerated": f"{ends[True]:.6f}",
        "same optimum": "yes" if same else "no",
        "halved": fast is not None and plain is not None and 2 * fast <= plain,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--sets", type=lambda text: text.split(","), help="names, default all")
    parser.add_argument("--model", choices=("full", "class", "one-coin"), default="full")
    parser.add_argument("--out", type=Path, default=harness.RESULTS)
    arguments = parser.parse_args()
    found = [(name, path) for name, path in logs(arguments.data) if name in (arguments.sets or [name])]
    if not found:
        raise SystemExit(f"skipped: no data sets under {arguments.data} (give --data)")
    if "manyhands" not in peers.registry():
        raise SystemExit("skipped: manyhands is not built (run `make build`)")
    host = harness.machine(peers.THREADS)
    print(harness.describe(host))
    rows = []
    for name, path in found:
        rows.append(compare(name, read(path), arguments.model))
        print("  " + "; ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    halved = [row["set"] for row in rows if row["same optimum"] == "yes" and row["halved"]]
    verdict = f"At most half the passes on {len(halved)} of {len(rows)} sets: {', '.join(halved) or 'none'}."
    text = "\n".join([harness.describe(host), "", harness.markdown(rows), "", verdict, NOT_SHOWN])
    print("\n" + text)
    harness.save("accelerate", arguments.out, {"machine": host, "model": arguments.model, "rows": rows}, text)


if __name__ == "__main__":
    main()
