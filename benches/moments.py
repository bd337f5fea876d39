"""Methods of moments: how well, how fast, and where a start from moments beats a start from the majority.

    python benches/moments.py                          # all parts, about twenty minutes on two cores
    python benches/moments.py --parts crowds,curve --seeds 3
    python benches/moments.py --parts real --data ../shared/data

Parts: `crowds` (error, accuracy and seconds of every method on five kinds of crowd), `curve` (accuracy against the
share of adversaries), `rate` (error against the number of tasks), `real` (accuracy on real logs with gold), `speed`
(kernels against one EM pass and against NumPy versions of the same algorithms, in the same process).
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import harness
import manyhands as mh
import numpy_moments
import peers
from harness import human

ROOT = harness.HERE.parent
PARTS = ("crowds", "curve", "rate", "real", "speed")
NOT_SHOWN = """\
What this does not show: crowds between the kinds drawn here, tasks of uneven difficulty, workers who depend on one
another. Errors are of confusion matrices as `metrics.confusion_error` has them, classes named by the method itself.
Seconds are of single fits on a shared machine, moments included."""

#: Real logs of the `real` part; those that are absent are left out.
REAL = ("bluebird", "dog", "web", "temp", "trec2010", "sentence_polarity", "product")

Maker = Callable[[], Any]


def methods(n_classes: int, *, dense: bool = True) -> dict[str, Maker]:
    """Return every method that applies, by name; `dense` if triples of workers share many tasks."""
    found: dict[str, Maker] = {
        "majority vote": mh.MajorityVote,
        "EM, majority": partial(mh.DawidSkene, max_iter=500),
        "MultiSPA": mh.moments.MultiSPA,
        "CoupledNMF": mh.moments.CoupledNMF,
        "SymmetricNMF": mh.moments.SymmetricNMF,
        "CoupledCPD": mh.moments.CoupledCPD,
        "SpectralDS": mh.moments.SpectralDS,
        "OneCoinSpectral": mh.moments.OneCoinSpectral,
        "OneCoinGradient": mh.moments.OneCoinGradient,
        "MMSR": mh.moments.MMSR,
        "KOS": mh.categorical.KOS,
        "EM, MultiSPA": partial(mh.DawidSkene, init="multispa", max_iter=500),
        "EM, spectral": partial(mh.DawidSkene, init="spectral", max_iter=500),
        "EM, CoupledNMF": lambda: mh.DawidSkene(init=mh.moments.CoupledNMF(), max_iter=500),
    }
    if n_classes == 2:
        found["SpectralMetaLearner"] = mh.moments.SpectralMetaLearner
    if not dense:
        del found["CoupledCPD"]
    return found


@dataclass(frozen=True)
class Kind:
    """A kind of crowd: confusion matrices of its workers, and the share of tasks each of them labels."""

    name: str
    make: Callable[[int, int, int], np.ndarray]
    density: float = 0.5


def good(n_workers: int, k: int, seed: int) -> np.ndarray:
    return mh.categorical.crowds.class_conditional(n_workers, k, skill=0.7, concentration=10.0, seed=seed)


def few_good(n_workers: int, k: int, seed: int) -> np.ndarray:
    """One in eight is good; the rest hardly look and fall for the same answers, some more often than others."""
    rng = np.random.default_rng(seed)
    n_good = max(3, n_workers // 8)
    habit = rng.dirichlet(np.full(k, 0.7))
    poor = rng.dirichlet(10 * habit + 0.1, n_workers - n_good)[:, None, :].repeat(k, axis=1)
    poor = 0.93 * poor + 0.07 * np.eye(k)
    return np.concatenate([mh.categorical.crowds.one_coin(n_good, k, accuracy=(0.85, 0.95), seed=seed), poor])


def adversarial(n_workers: int, k: int, seed: int, share: float = 0.3) -> np.ndarray:
    n_bad = round(share * n_workers)
    bad = (
        mh.categorical.crowds.adversary(n_bad, k, skill=0.7, spread=0.05, seed=seed + 1)
        if n_bad
        else np.empty((0, k, k))
    )
    return np.concatenate([mh.categorical.crowds.one_coin(n_workers - n_bad, k, accuracy=(0.6, 0.85), seed=seed), bad])


def specialists(n_workers: int, k: int, seed: int) -> np.ndarray:
    """Each worker knows one class, which it names for that class alone; of the others it mostly says the first one."""
    rng = np.random.default_rng(seed)
    out = np.empty((n_workers, k, k))
    for m in range(n_workers):
        own = m % k
        rows = 0.15 * np.eye(k) + rng.dirichlet(np.ones(k), k) * 0.15
        rows[:, own] = 0.0
        rows[:, 0 if own else 1] += 0.7
        rows[own] = 0.1 / (k - 1)
        rows[own, own] = 0.9
        out[m] = rows / rows.sum(axis=1, keepdims=True)
    return out


KINDS = (
    Kind("(a) uniformly good", good),
    Kind("(b) few good, many poor", few_good),
    Kind("(c) 30 % adversaries", adversarial),
    Kind("(d) class specialists", specialists),
    Kind("(e) 10 % observed", good, density=0.1),
)


def quiet(model: Any, votes: mh.Annotations) -> tuple[Any, float]:
    """Fit without warnings; return the model and the seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        model.fit(votes)
        return model, time.perf_counter() - start


def measured(make: Maker, crowd: mh.categorical.CategoricalSimulation) -> dict[str, float]:
    model, seconds = quiet(make(), crowd.log)
    return {
        "accuracy": mh.metrics.accuracy(model.labels_, crowd.truth),
        "error": float(np.abs(model.confusion_ - crowd.confusion).mean()),
        "seconds": seconds,
        "doubts": len(model.remarks_),
    }


def draw(kind: Kind, n_tasks: int, n_workers: int, k: int, seed: int) -> mh.categorical.CategoricalSimulation:
    return mh.simulate(n_tasks, confusion=kind.make(n_workers, k, seed), density=kind.density, seed=seed)


def crowds(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a row a crowd, number of classes and method: means and spread over seeds."""
    for k in arguments.classes:
        for kind in KINDS:
            logs = [draw(kind, arguments.tasks, arguments.workers, k, seed) for seed in range(arguments.seeds)]
            for name, make in methods(k).items():
                yield {"crowd": kind.name, "K": k, "method": name} | summary([measured(make, log) for log in logs])


def summary(runs: list[dict[str, float]]) -> dict[str, str]:
    def spread(key: str, scale: float, digits: int) -> str:
        values = scale * np.array([run[key] for run in runs])
        return f"{values.mean():.{digits}f} ± {values.std():.{digits}f}"

    return {
        "accuracy %": spread("accuracy", 100, 1),
        "confusion error": spread("error", 1, 4),
        "seconds": human(float(np.median([run["seconds"] for run in runs]))),
        "fits with doubts": f"{sum(run['doubts'] > 0 for run in runs)} of {len(runs)}",
    }


def curve(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a row a share of adversaries: accuracy of a few methods."""
    starts = ("EM, majority", "EM, MultiSPA", "EM, spectral", "EM, CoupledNMF")
    chosen = ("majority vote", *starts, "MMSR", "OneCoinSpectral")
    for k in arguments.classes:
        makers = {name: make for name, make in methods(k).items() if name in chosen}
        for share in np.arange(0.0, 0.61, 0.1):
            kind = Kind(f"{share:.0%}", partial(adversarial, share=share))
            logs = [draw(kind, arguments.tasks, arguments.workers, k, seed) for seed in range(arguments.seeds)]
            row: dict[str, Any] = {"K": k, "adversaries": kind.name}
            for name, make in makers.items():
                values = [100 * measured(make, log)["accuracy"] for log in logs]
                row[name] = f"{np.mean(values):.1f} ± {np.std(values):.1f}"
            doubts = [measured(mh.moments.MultiSPA, log)["doubts"] for log in logs]
            yield row | {"MultiSPA doubts": f"{sum(d > 0 for d in doubts)} of {len(doubts)}"}


def rate(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a row a crowd and method: error at three sizes, and the slope of its logarithm (-0.5 is 1/√N).

    Among uniformly good workers no answer is exclusive to a class, which MultiSPA assumes and the factorisations of
    pairs need to be unique: their error has a part that does not fall. Specialists make the assumption true.
    """
    sizes = (1_000, 4_000, 16_000)
    makers = {name: make for name, make in methods(3).items() if name in ("EM, majority", *_MOMENTS)}
    for kind in (KINDS[0], KINDS[3]):
        for name, make in makers.items():
            errors = [
                np.mean([measured(make, draw(kind, size, 20, 3, seed))["error"] for seed in range(arguments.seeds)])
                for size in sizes
            ]
            slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
            cells = {f"N = {size:,}": f"{error:.4f}" for size, error in zip(sizes, errors, strict=True)}
            yield {"crowd": kind.name, "method": name} | cells | {"slope": f"{slope:.2f}"}


_MOMENTS = ("MultiSPA", "CoupledNMF", "SymmetricNMF", "CoupledCPD", "SpectralDS")


def real(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a row a method: accuracy on each real log."""
    logs = {name: read(arguments.data / name) for name in REAL if (arguments.data / name).is_dir()}
    every = {name for votes, _ in logs.values() for name in methods(votes.n_classes)}
    for method in [name for name in methods(2) if name in every]:
        row: dict[str, Any] = {"method": method}
        for name, (votes, gold) in logs.items():
            make = methods(votes.n_classes).get(method)
            row[name] = "–" if make is None else score(make, votes, gold)
        yield row


def score(make: Maker, votes: mh.Annotations, gold: Any) -> str:
    try:
        model, seconds = quiet(make(), votes)
    except ValueError as error:
        return f"error: {str(error)[:40]}"
    index, truth = mh.metrics.match_gold(model.tasks_, gold, unknown="ignore")
    doubt = "?" if model.remarks_ else ""
    return f"{100 * np.mean(model.labels_[index] == truth):.1f}{doubt} ({human(seconds)})"


def read(folder: Path) -> tuple[mh.Annotations, Any]:
    import pandas as pd

    def table(stem: str) -> Any:
        path = next(path for suffix in (".csv", ".csv.gz") if (path := folder / f"{stem}{suffix}").exists())
        # Some class names look like numbers or missing values.
        return pd.read_csv(path, dtype=str, keep_default_na=False)

    gold = table("gold")
    return mh.Annotations.from_frame(table("labels")), dict(zip(gold.task, gold.label, strict=True))


def speed(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a row a kernel: ours, one EM pass or the NumPy version, and their ratio."""
    for n_annotations, n_workers, k in ((1_000_000, 1_000, 5), (10_000_000, 10_000, 10), (10_000_000, 1_000, 5)):
        votes = mh.simulate(n_annotations // 5, n_workers, k, labels_per_task=5, seed=0).log
        timer = harness.pass_timer(lambda n, votes=votes: mh.DawidSkene(max_iter=n, tol=0.0).fit(votes), 2)
        calls = {
            "ours": lambda votes=votes: harness.clock(mh.moments.compute, votes),
            "EM pass": timer,
        }
        what = f"pair moments, {n_annotations:.0e} annotations, {n_workers:,} workers, K = {k}"
        yield _versus(what, harness.take_turns(calls, arguments.repeats), "EM pass")
    votes = mh.simulate(20_000, 200, 5, labels_per_task=10, seed=0).log
    small = mh.simulate(2_000, 30, 5, labels_per_task=30, seed=0).log
    moments = mh.moments.compute(votes)
    start = mh.moments.MultiSPA(refine=0).factorise(moments)
    passes = 20
    beside_numpy = {
        "pair moments, 2e5 annotations, 200 workers, K = 5": (
            partial(mh.moments.compute, votes),
            partial(numpy_moments.pairs, votes),
        ),
        "triple moments, 30 workers on 2,000 tasks, K = 5": (
            partial(mh.moments.compute, small, order=3),
            partial(numpy_moments.triples, small),
        ),
        f"{passes} CoupledNMF updates, 200 workers, K = 5": (
            partial(numpy_moments.ours_nmf, moments, *start, passes),
            partial(numpy_moments.nmf, moments, *start, passes),
        ),
    }
    for what, (ours, plain) in beside_numpy.items():
        calls = {"ours": partial(harness.clock, ours), "NumPy": partial(harness.clock, plain)}
        yield _versus(what, harness.take_turns(calls, arguments.repeats), "NumPy")
    whole = {"ours": lambda: harness.clock(quiet, mh.moments.CoupledNMF(), votes)}
    yield _versus("CoupledNMF, whole fit, 200 workers, K = 5", harness.take_turns(whole, arguments.repeats), None)


def _versus(what: str, found: dict[str, harness.Stat], other: str | None) -> dict[str, str]:
    ours = found["ours"].median
    beside = "" if other is None else human(found[other].median)
    ratio = "" if other is None else f"{found[other].median / ours:.3g}"
    return {"kernel": what, "ours": human(ours), "beside": other or "", "its time": beside, "its time / ours": ratio}


def main() -> None:
    """Run the parts that were asked for, print and save their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--classes", default="3,10", help="of crowds and curve")
    parser.add_argument("--tasks", type=int, default=2_000)
    parser.add_argument("--workers", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--out", type=Path, default=harness.HERE / "results")
    arguments = parser.parse_args()
    arguments.classes = [int(k) for k in arguments.classes.split(",")]
    mh.set_num_threads(peers.THREADS)
    host = harness.machine(peers.THREADS)
    text, payload = harness.describe(host), {"machine": host}
    for part in arguments.parts.split(","):
        rows = []
        for row in globals()[part](arguments):
            rows.append(row)
            print("; ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        text += f"\n\n## {part}\n\n{harness.markdown(rows)}"
        payload[part] = rows
    text += f"\n\n{NOT_SHOWN}"
    print(text)
    harness.save("moments", arguments.out, payload, text)


if __name__ == "__main__":
    main()
