"""Every method on every real log with known classes: how good the default is, and where it is not.

    python benches/default.py                          all logs, all methods
    python benches/default.py --logs dog,web           some of them
    python benches/default.py --keep 0.5 --seed 1      on a random half of the annotations of each
    python benches/default.py --cost 10000000          what the default costs on a simulated log of so many annotations

Prints and writes the means of accuracy (ties shared), log-loss, calibration error and time of processors, one row a
method, and accuracy by log; then how the default compares with the better of majority vote and Dawid–Skene chosen with
the truth, on which logs it is more than half a point below that, and what leaving out any one log changes.

The logs are those of ``../shared/data`` beside the checkout (``--data``).
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import data
import harness
import manyhands as mh
from manyhands.aggregators.consensus import calibrated, task_totals
from manyhands.base import Aggregator

# fmt: off
LOGS = [
    "bluebird", "dog", "web", "temp", "trec2010", "ducks", "sentence_polarity", "weather_cf", "weather_cf_amt",
    "product", "face", "s_rel", "fact_eval", "labelme", "reuters", "bm_tweets", "hitspam_cf", "imagenet15n",
    "cifar10n", "chaoyang", "nih_cxr", "cifar10s", "mcqa_validation", "metaphor_novelty",
]
# fmt: on

METHODS = {
    "majority": mh.MajorityVote(),
    "agreement": mh.WeightedVote("agreement"),
    "zero-based": mh.WeightedVote("zero-based"),
    "dawid-skene": mh.DawidSkene(),
    "per-class": mh.DawidSkene(model="class"),
    "one-coin": mh.DawidSkene(model="one-coin"),
    "kos": mh.KOS(),
    "bayesian": mh.BayesianDawidSkene(),
    "community": mh.CommunityDawidSkene(),
    "ebcc": mh.EBCC(),
    "hierarchical": mh.HierarchicalDawidSkene(),
    "hier-mace": mh.HierarchicalMACE(),
    "mace-learnt": mh.HierarchicalMACE(strength=float("inf")),
    "mace": mh.MACE(),
    "glad": mh.GLAD(),
    "minimax": mh.MinimaxEntropy(),
    "max-margin": mh.MaxMarginVote(),
    "crowd-svm": mh.CrowdSVM(),
    "mmsr": mh.MMSR(),
    "ds-spectral": mh.DawidSkene(init="spectral"),
    "multi-spa": mh.MultiSPA(),
    "coupled-nmf": mh.CoupledNMF(),
    "symmetric-nmf": mh.SymmetricNMF(),
    "coupled-cpd": mh.CoupledCPD(),
    "spectral": mh.SpectralDS(),
    "coin-spectral": mh.OneCoinSpectral(),
    "coin-gradient": mh.OneCoinGradient(),
    "sparse-coin": mh.SparseOneCoin(),
    "online": mh.OnlineDawidSkene(),
    "consensus": mh.Consensus(),
}
DEFAULT = "consensus"
#: Correlations of the errors on one task that the default might be calibrated with.
CORRELATIONS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
RIVALS = ("majority", "dawid-skene")
#: Logs on which the default is this far below the better rival are named.
NOTABLE = 0.005


def column_text(folder: Path, stem: str) -> pd.DataFrame:
    path = next(path for suffix in (".csv", ".csv.gz") if (path := folder / f"{stem}{suffix}").exists())
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def read(folder: Path, keep: float, seed: int) -> tuple[mh.Annotations, np.ndarray, np.ndarray]:
    """The log (or a random part of its annotations), and places and class codes of the tasks with a known class."""
    frame = column_text(folder, "labels")[["task", "worker", "label"]]
    classes = sorted(frame.label.unique())
    if keep < 1:
        frame = frame.sample(frac=keep, random_state=seed)
    votes = mh.Annotations.from_frame(frame, classes=classes)
    gold = column_text(folder, "gold")
    truth = dict(zip(gold.task, gold.label, strict=True))
    index, names = mh.metrics.match_gold(votes.tasks, truth, unknown="ignore")
    code_of = {name: code for code, name in enumerate(classes)}
    return votes, index, np.array([code_of.get(name, -1) for name in names.tolist()])


def scores(model: Aggregator, index: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Accuracy with ties shared, log-loss and calibration error; a class that nobody named cannot be found."""
    posterior = model.posterior_[index]
    best = posterior >= posterior.max(axis=1, keepdims=True) * (1 - 1e-12)
    nameable = truth >= 0
    right = np.where(nameable, best[np.arange(len(truth)), truth] / best.sum(axis=1), 0.0)
    return {
        "accuracy": float(right.mean()),
        "log-loss": mh.metrics.log_loss(posterior[nameable], truth[nameable]),
        "calibration error": mh.metrics.calibration_error(posterior[nameable], truth[nameable]),
    }


def recalibrated(votes: mh.Annotations, index: np.ndarray, truth: np.ndarray) -> list[dict[str, float]]:
    """Log-loss and calibration error of the default, by correlation."""
    plain = mh.Consensus(correlation=0.0).fit(votes).posterior_[index][truth >= 0]
    totals, truth = task_totals(votes._table)[index][truth >= 0], truth[truth >= 0]
    return [
        {
            "correlation": correlation,
            "log-loss": mh.metrics.log_loss(told := calibrated(plain, totals, correlation), truth),
            "calibration error": mh.metrics.calibration_error(told, truth),
        }
        for correlation in CORRELATIONS
    ]


def measure(names: list[str], folder: Path, keep: float, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    rows, calibration = [], []
    for name in names:
        votes, index, truth = read(folder / name, keep, seed)
        for method, model in METHODS.items():
            # Of all processors, since other work on the machine hardly changes it.
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(votes)
            seconds = time.process_time() - start
            rows.append({"log": name, "method": method, **scores(model, index, truth), "processor seconds": seconds})
        calibration += [{"log": name} | row for row in recalibrated(votes, index, truth)]
        print(f"{name}: {sum(row['processor seconds'] for row in rows if row['log'] == name):.1f} s", flush=True)
    return pd.DataFrame(rows), pd.DataFrame(calibration)


def calibration_report(found: pd.DataFrame) -> str:
    """What each correlation gives, and how well one chosen on all other logs does on the one left out."""
    measures = ["log-loss", "calibration error"]
    grouped = found.groupby("correlation")[measures]
    rows = [
        {"correlation": correlation} | {f"{measure}, {of}": f"{value:.3f}" for (measure, of), value in row.items()}
        for correlation, row in grouped.agg(["mean", "median"]).iterrows()
    ]
    table = harness.markdown(rows)
    errors = found.pivot(index="log", columns="correlation", values="calibration error")
    if len(errors) < 3:
        return table
    chosen = {log: float(errors.drop(log).median().idxmin()) for log in errors.index}
    unseen = np.array([errors.loc[log, correlation] for log, correlation in chosen.items()])
    return (
        f"{table}\n\nChosen by the median of the other logs: {sorted(set(chosen.values()))}, calibration error on the "
        f"log left out {unseen.mean():.3f} (mean), {np.median(unseen):.3f} (median)."
    )


def method_report(found: pd.DataFrame) -> str:
    """Means of each method."""
    measures = ["accuracy", "log-loss", "calibration error", "processor seconds"]
    means = found.groupby("method", sort=False)[measures].mean()
    return harness.markdown(
        {"method": name, "accuracy": f"{100 * row['accuracy']:.2f}"} | {key: f"{row[key]:.3f}" for key in measures[1:]}
        for name, row in means.iterrows()
    )


def log_report(accuracy: pd.DataFrame) -> str:
    """Accuracy of each method, by log."""
    return harness.markdown(
        {"method": name} | {log: f"{100 * value:.1f}" for log, value in row.items()}
        for name, row in accuracy.T.iterrows()
    )


def default_report(accuracy: pd.DataFrame) -> str:
    """The default beside all others."""
    better = accuracy[list(RIVALS)].max(axis=1)
    below = (accuracy[DEFAULT] - better)[lambda gap: gap < -NOTABLE]
    singles = [method for method in METHODS if method != DEFAULT]
    left_out = [accuracy.drop(log) for log in accuracy.index]
    ahead = sum(part[DEFAULT].mean() > part[singles].mean().max() for part in left_out)
    level = sum(part[DEFAULT].mean() >= part[list(RIVALS)].max(axis=1).mean() for part in left_out)
    named = ", ".join(f"{log} ({100 * gap:+.1f})" for log, gap in below.items()) or "none"
    return (
        f"Better of {' and '.join(RIVALS)}, chosen with the truth: {100 * better.mean():.2f}; {DEFAULT}: "
        f"{100 * accuracy[DEFAULT].mean():.2f}.\nMore than {100 * NOTABLE:g} point below the better of them: {named}.\n"
        f"Leaving one log out: above every single method {ahead} times of {len(left_out)}, not below the better of two "
        f"{level} times."
    )


def report(found: pd.DataFrame, calibration: pd.DataFrame) -> str:
    accuracy = found.pivot(index="log", columns="method", values="accuracy")
    accuracy = accuracy.loc[found.log.unique(), found.method.unique()]
    parts = {
        "Means over logs": method_report(found),
        "The default": default_report(accuracy),
        "The default, by the correlation it is calibrated with": calibration_report(calibration),
        "Accuracy, %": log_report(accuracy),
    }
    return "\n\n".join(f"## {title}\n\n{text}" for title, text in parts.items())


def report_cost(n_annotations: int) -> None:
    """The default beside one fit of Dawid–Skene on the same log: seconds of the clock and of all processors."""
    codes = data.crowd(n_annotations, 10_000, 4)
    sizes = {"n_tasks": codes.n_tasks, "n_workers": codes.n_workers, "n_classes": codes.n_classes}
    votes = mh.Annotations.from_codes(codes.tasks, codes.workers, codes.labels, **sizes)
    taken = {}
    for name, fit in {"dawid-skene": mh.DawidSkene().fit, "consensus": mh.aggregate}.items():
        processor = time.process_time()
        seconds = harness.clock(fit, votes)
        taken[name] = (seconds, time.process_time() - processor)
        print(f"{name}: {seconds:.1f} s, {taken[name][1]:.1f} of processors", flush=True)
    wall, busy = (b / a for a, b in zip(*taken.values(), strict=True))
    print(f"the default costs {wall:.1f} times one fit of Dawid–Skene ({busy:.1f} in time of processors)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--logs", type=lambda text: text.split(","), default=LOGS)
    parser.add_argument("--keep", type=float, default=1.0, help="share of the annotations to keep")
    parser.add_argument("--seed", type=int, default=0, help="of what is kept")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--out", type=Path, default=harness.RESULTS, help="where the tables of all logs are written")
    parser.add_argument("--cost", type=int, default=None, help="measure time on so many annotations, and nothing else")
    args = parser.parse_args()
    if args.threads is not None:
        mh.set_num_threads(args.threads)
    if args.cost is not None:
        report_cost(args.cost)
        return
    host = harness.machine(mh.get_num_threads())
    found, calibration = measure(args.logs, args.data, args.keep, args.seed)
    text = f"{harness.describe(host)}\n\n{report(found, calibration)}"
    print(f"\n{text}")
    if args.keep == 1 and args.logs == LOGS:
        harness.save("default", args.out, {"machine": host, "rows": found.to_dict("records")}, text)


if __name__ == "__main__":
    main()
