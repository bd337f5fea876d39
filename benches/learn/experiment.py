"""What the experiments with learners share: networks, repeats over seeds, and a table as Markdown and JSON.

Every number is of the last epoch, and no clean label is seen before it: they only measure.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness
import manyhands as mh

#: A measure of one run, by name; higher or lower is better as the name says.
Measures = dict[str, float]
Run = Callable[[int], Measures]

#: Seeds that run at the same time.
JOBS = 2
#: What a process runs.
_run: Run


def fully_connected(
    n_inputs: int, n_classes: int, *, hidden: int = 128, dropout: float = 0.5, seed: int = 0
) -> nn.Module:
    """One hidden layer; its start follows from the seed."""
    torch.manual_seed(seed)
    layers = [nn.Flatten(), nn.Linear(n_inputs, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, n_classes)]
    return nn.Sequential(*layers)


def repeat(runs: Mapping[str, Run], seeds: int) -> Iterator[dict[str, Any]]:
    """Run every method with every seed, two at a time; give a row a method, with mean and deviation of each measure."""
    for name, run in runs.items():
        # Forked, so that a run may be a closure; each keeps to one thread.
        with multiprocessing.get_context("fork").Pool(JOBS, _adopt, (run,)) as pool:
            done = pool.map(_once, range(seeds), chunksize=1)
        found = [measures for measures, _ in done]
        row = {"method": name} | {key: spread([f[key] for f in found]) for key in found[0]}
        row["seconds a run"] = f"{statistics.fmean(seconds for _, seconds in done):.1f}"
        print("  " + "; ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        yield row


def _adopt(run: Run) -> None:
    """Tell a fresh process what it will run."""
    global _run
    _run = run


def _once(seed: int) -> tuple[Measures, float]:
    """The measures of one seed, and the seconds it took."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _run(seed), time.perf_counter() - start


def spread(values: list[float]) -> str:
    """Mean ± standard deviation."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.fmean(values):.2f} ± {deviation:.2f}"


def on_new_samples(learner: Any, votes: Any, X: torch.Tensor, y: np.ndarray) -> Measures:
    """Accuracy on the last tasks of some votes, which are those of X, from the features alone and with the labels."""
    names = range(votes.n_tasks - len(y), votes.n_tasks)
    fresh = votes.select(tasks=names)
    return {
        "image": 100 * (learner.predict(X) == y).mean(),
        "both": 100 * (learner.predict(X, fresh, tasks=names) == y).mean(),
    }


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options all experiments have."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--seeds", type=int, default=5)
    made.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of real data sets")
    made.add_argument("--only", default="", help="comma-separated methods")
    made.add_argument("--out", type=Path, default=harness.RESULTS)
    return made


def chosen(runs: Mapping[str, Run], only: str) -> dict[str, Run]:
    """The methods asked for, all if none is named."""
    wanted = [name for name in only.split(",") if name]
    unknown = [name for name in wanted if name not in runs]
    if unknown:
        raise SystemExit(f"no method {unknown[0]!r}; there are {', '.join(runs)}")
    return {name: runs[name] for name in wanted} if wanted else dict(runs)


def report(name: str, tables: Mapping[str, list[dict[str, Any]]], notes: str, out: Path) -> None:
    """Print the tables and write them."""
    host = harness.machine(1)
    text = "\n\n".join(
        [
            harness.describe(host),
            *(f"## {title}\n\n{harness.markdown(rows)}" for title, rows in tables.items()),
            notes.strip(),
        ]
    )
    print("\n" + text)
    harness.save(name, out, {"machine": host, "tables": dict(tables)}, text)


def mnist(folder: Path, n: int) -> tuple[torch.Tensor, np.ndarray, torch.Tensor, np.ndarray]:
    """The first images to train on with their classes, and those to test with."""
    arrays = np.load(data_set(folder, "mnist") / "features.npz")
    X, X_test = (torch.from_numpy(arrays[name].astype(np.float32) / 255).flatten(1) for name in ("X_train", "X_test"))
    return X[:n], arrays["y_train"][:n].astype(int), X_test, arrays["y_test"].astype(int)


def cifar10n(folder: Path, n: int) -> tuple[np.ndarray, mh.Annotations, np.ndarray, np.ndarray, np.ndarray]:
    """Features, human labels and classes of the first images of CIFAR-10N, and features and classes of the test images.

    Votes name the classes by number.
    """
    arrays = np.load(data_set(folder, "cifar10_features") / "features.npz")
    X, X_test = ((arrays[name] * arrays["scale"]).astype(np.float32) for name in ("X_train", "X_test"))
    votes = mh.read(data_set(folder, "cifar10n") / "labels.csv.gz").select(tasks=range(n))
    return X[:n], votes, arrays["y_train"][:n].astype(int), X_test, arrays["y_test"].astype(int)


def data_set(folder: Path, name: str) -> Path:
    """The folder of a data set, or a line that says what is missing."""
    path = folder / name
    if not path.is_dir():
        raise SystemExit(f"{path} is not there; give the folder of data sets with --data")
    return path


# Small models: more threads are many times slower on shared cores.
torch.set_num_threads(1)
