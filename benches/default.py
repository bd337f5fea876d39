"""Every method on every real log with known classes: how good the default is, and where it is not.

    python benches/default.py                          all logs, all methods
    python benches/default.py --logs dog,web           some of them
    python benches/default.py --methods consensus      some methods: means, and what the default says of errors
    python benches/default.py --keep 0.5 --seed 1      on a random half of the annotations of each
    python benches/default.py --cost 10000000          what the default costs on a simulated log of so many annotations
    python benches/default.py --simulated              how well calibrated the default is on simulated crowds

Prints and writes the means of accuracy (ties shared), log-loss, calibration error and time of processors, one row a
method, and accuracy by log; then how the default compares with the better of majority vote and Dawid–Skene chosen with
the truth, on which logs it is more than half a point below that, and what leaving out any one log changes; and how
strongly errors are correlated in each log according to the default.

Simulated crowds err independently, or with a Gaussian copula of one factor a task, which everybody's errors share.

The logs are those of ``../shared/data`` beside the checkout (``--data``).
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import ndtr

import data
import harness
import manyhands as mh
from manyhands.categorical._calibration import EVEN, calibrate, information
from manyhands.categorical.base import Aggregator

# fmt: off
LOGS = [
    "bluebird", "dog", "web", "temp", "trec2010", "ducks", "sentence_polarity", "weather_cf", "weather_cf_amt",
    "product", "face", "s_rel", "fact_eval", "labelme", "reuters", "bm_tweets", "hitspam_cf", "imagenet15n",
    "cifar10n", "chaoyang", "nih_cxr", "cifar10s", "mcqa_validation", "metaphor_novelty",
]
# fmt: on

METHODS = {
    "majority": mh.MajorityVote(),
    "agreement": mh.categorical.WeightedVote("agreement"),
    "zero-based": mh.categorical.WeightedVote("zero-based"),
    "dawid-skene": mh.DawidSkene(),
    "per-class": mh.DawidSkene(model="class"),
    "one-coin": mh.DawidSkene(model="one-coin"),
    "kos": mh.categorical.KOS(),
    "bayesian": mh.BayesianDawidSkene(),
    "community": mh.categorical.CommunityDawidSkene(),
    "ebcc": mh.categorical.EBCC(),
    "hierarchical": mh.categorical.HierarchicalDawidSkene(),
    "hier-mace": mh.categorical.HierarchicalMACE(),
    "mace-learnt": mh.categorical.HierarchicalMACE(strength=float("inf")),
    "mace": mh.categorical.MACE(),
    "glad": mh.categorical.GLAD(),
    "minimax": mh.categorical.MinimaxEntropy(),
    "max-margin": mh.categorical.MaxMarginVote(),
    "crowd-svm": mh.categorical.CrowdSVM(),
    "mmsr": mh.moments.MMSR(),
    "ds-spectral": mh.DawidSkene(init="spectral"),
    "multi-spa": mh.moments.MultiSPA(),
    "coupled-nmf": mh.moments.CoupledNMF(),
    "symmetric-nmf": mh.moments.SymmetricNMF(),
    "coupled-cpd": mh.moments.CoupledCPD(),
    "spectral": mh.moments.SpectralDS(),
    "coin-spectral": mh.moments.OneCoinSpectral(),
    "coin-gradient": mh.moments.OneCoinGradient(),
    "sparse-coin": mh.categorical.SparseOneCoin(),
    "online": mh.categorical.OnlineDawidSkene(),
    "consensus": mh.Consensus(),
}
DEFAULT = "consensus"
#: Correlations of the errors on one task that the default might be calibrated with.
CORRELATIONS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
#: Simulated crowds: tasks, workers, classes, votes on a task, accuracies, whether workers confuse classes in ways of
#: their own, class frequencies, and whether some workers are much busier than others.
DESIGNS = {
    "2 classes, 3 votes": {"sizes": (1000, 30, 2), "votes": (3, 3)},
    "2 classes, 10 votes": {"sizes": (1000, 40, 2), "votes": (10, 10)},
    "2 classes 9:1, 5 votes": {"sizes": (2000, 50, 2), "votes": (5, 5), "prior": (0.9, 0.1)},
    "2 classes, 5 workers on all": {"sizes": (1000, 5, 2), "votes": (5, 5)},
    "2 classes, 200 tasks": {"sizes": (200, 10, 2), "votes": (3, 3)},
    "3 classes, 5 votes": {"sizes": (1000, 20, 3), "votes": (5, 5), "own_ways": True},
    "3 classes, 20 poor votes": {"sizes": (500, 20, 3), "votes": (20, 20), "accuracy": (0.35, 0.7)},
    "4 classes, 5 votes": {"sizes": (3000, 100, 4), "votes": (5, 5), "own_ways": True},
    "4 classes, 20 votes": {"sizes": (300, 60, 4), "votes": (20, 20), "accuracy": (0.4, 0.8)},
    "4 classes, 1 or 2 votes": {"sizes": (1000, 30, 4), "votes": (1, 2)},
    "5 classes, 500 workers": {"sizes": (3000, 500, 5), "votes": (5, 5), "busy": True},
    "5 uneven classes, 8 votes": {
        "sizes": (1500, 40, 5),
        "votes": (8, 8),
        "own_ways": True,
        "prior": (0.6, 0.2, 0.1, 0.05, 0.05),
    },
    "6 classes, 3 to 7 votes": {"sizes": (1000, 80, 6), "votes": (3, 7), "own_ways": True},
    "10 classes, 3 votes": {"sizes": (2000, 30, 10), "votes": (3, 3)},
    "10 classes, 5 votes": {"sizes": (2000, 60, 10), "votes": (5, 5)},
}
SHARED = (0.0, 0.1, 0.3, 0.5)
RIVALS = ("majority", "dawid-skene")
#: What the default says of errors on one task.
FOUND = ("correlation", "correlation_error", "discount")
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
    """Log-loss and calibration error of the default, by what confidences are discounted with."""
    model = mh.Consensus(correlation=0.0).fit(votes)
    plain = (model.posterior_ - EVEN / votes.n_classes) / (1.0 - EVEN)
    effective = votes.table.effective_votes(information(model.confusion_))
    plain, effective, truth = plain[index][truth >= 0], effective[index][truth >= 0], truth[truth >= 0]
    return [
        {
            "correlation": correlation,
            "log-loss": mh.metrics.log_loss(told := calibrate(plain, effective, correlation, EVEN), truth),
            "calibration error": mh.metrics.calibration_error(told, truth),
        }
        for correlation in CORRELATIONS
    ]


def measure(
    names: list[str], methods: list[str], folder: Path, keep: float, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    rows, calibration = [], []
    for name in names:
        votes, index, truth = read(folder / name, keep, seed)
        for method, model in ((method, METHODS[method]) for method in methods):
            # Of all processors, since other work on the machine hardly changes it.
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(votes)
            seconds = time.process_time() - start
            rows.append({"log": name, "method": method, **scores(model, index, truth), "processor seconds": seconds})
            if isinstance(model, mh.Consensus):
                rows[-1] |= {name: getattr(model, f"{name}_") for name in FOUND}
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


def dependence_report(found: pd.DataFrame) -> str:
    """What the default says of errors on one task, by log."""
    told = found[found.method == DEFAULT]
    return harness.markdown(
        {"log": row["log"]} | {name: f"{row[name]:.2f}" for name in FOUND} | {key: f"{row[key]:.3f}"}
        for key in ["calibration error"]
        for _, row in told.iterrows()
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
    methods = set(accuracy.columns)
    parts = {"Means over logs": method_report(found)}
    if methods == set(METHODS):
        parts["The default"] = default_report(accuracy)
    parts["The default, by what confidences are discounted with"] = calibration_report(calibration)
    if DEFAULT in methods:
        parts["Errors on one task, according to the default"] = dependence_report(found)
    parts["Accuracy, %"] = log_report(accuracy)
    return "\n\n".join(f"## {title}\n\n{text}" for title, text in parts.items())


def simulated(
    rng: np.random.Generator,
    sizes: tuple[int, int, int],
    votes: tuple[int, int],
    shared: float,
    accuracy: tuple[float, float] = (0.5, 0.9),
    prior: tuple[float, ...] | None = None,
    own_ways: bool = False,
    busy: bool = False,
) -> tuple[mh.Annotations, np.ndarray]:
    """A crowd whose errors have this correlation (of a Gaussian copula) on each task, and the classes."""
    n, m, k = sizes
    classes = rng.choice(k, n, p=prior)
    right = rng.uniform(*accuracy, (m, 1)) + (rng.normal(0, 0.08, (m, k)) if own_ways else 0)
    right = np.clip(np.broadcast_to(right, (m, k)), 1 / k + 0.02, 0.98)
    wrong = rng.dirichlet(np.full(k - 1, 1.0 if own_ways else 50.0), (m, k))
    activity = 1 / np.arange(1, m + 1) if busy else np.ones(m)
    # The first of all workers, ordered by exponential times, are a draw without replacement.
    order = np.argsort(rng.exponential(size=(n, m)) / activity, axis=1)
    chosen = np.arange(m) < rng.integers(votes[0], votes[1] + 1, n)[:, None]
    tasks, workers = np.nonzero(chosen)[0], order[chosen]
    truth = classes[tasks]
    factor = np.sqrt(shared) * rng.normal(size=n)[tasks] + np.sqrt(1 - shared) * rng.normal(size=len(tasks))
    missed = ndtr(factor) > right[workers, truth]
    other = (rng.random(len(tasks))[:, None] > wrong[workers, truth].cumsum(axis=1)[:, :-1]).sum(axis=1)
    labels = np.where(missed, other + (other >= truth), truth)
    return mh.Annotations.from_codes(tasks, workers, labels, n_tasks=n, n_workers=m, n_classes=k), classes


def report_simulated(seed: int, repeats: int = 3) -> str:
    """Calibration error of the default, and the correlation that it finds, by design and true correlation."""
    rows, errors = [], []
    for name, design in DESIGNS.items():
        row = {"crowd": name}
        for shared in SHARED:
            found = []
            for repeat in range(repeats):
                votes, classes = simulated(np.random.default_rng([seed, repeat, len(rows)]), shared=shared, **design)
                model = mh.aggregate(votes)
                stated = model.posterior_.max(axis=1).mean()
                right = (model.posterior_.argmax(axis=1) == classes).mean()
                error = mh.metrics.calibration_error(model.posterior_, classes)
                found.append((error, stated, right, model.correlation_, model.correlation_error_))
            error, stated, right, correlation, spread = np.mean(found, axis=0)
            errors.append({"correlation": shared, "error": error})
            row[f"{shared}: stated, right"] = f"{stated:.3f}, {right:.3f}"
            row[f"{shared}: error"] = f"{error:.3f}"
            row[f"{shared}: found"] = f"{correlation:.2f} ± {spread:.2f}"
        rows.append(row)
        print(name, flush=True)
    means = pd.DataFrame(errors).groupby("correlation").error.mean()
    mean = "; ".join(f"{error:.3f} at {correlation}" for correlation, error in means.items())
    return f"{harness.markdown(rows)}\n\nMean calibration error by correlation: {mean}."


def report_cost(n_annotations: int) -> None:
    """The default beside one fit of Dawid–Skene on the same log: seconds of the clock and of all processors."""
    codes = data.crowd(n_annotations, 10_000, 4)
    sizes = {"n_tasks": codes.n_tasks, "n_workers": codes.n_workers, "n_classes": codes.n_classes}
    votes = mh.Annotations.from_codes(codes.tasks, codes.workers, codes.labels, **sizes)
    fits = {
        "dawid-skene": mh.DawidSkene().fit,
        "consensus, correlation given": mh.Consensus(correlation=0.5).fit,
        "consensus": mh.aggregate,
    }
    taken = {}
    for name, fit in fits.items():
        processor = time.process_time()
        seconds = harness.clock(fit, votes)
        taken[name] = (seconds, time.process_time() - processor)
        print(f"{name}: {seconds:.1f} s, {taken[name][1]:.1f} of processors", flush=True)
    for name in list(taken)[:-1]:
        wall, busy = (b / a for a, b in zip(taken[name], taken["consensus"], strict=True))
        print(f"the default costs {wall:.2f} times {name} ({busy:.2f} in time of processors)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--logs", type=lambda text: text.split(","), default=LOGS)
    parser.add_argument("--methods", type=lambda text: text.split(","), default=list(METHODS))
    parser.add_argument("--keep", type=float, default=1.0, help="share of the annotations to keep")
    parser.add_argument("--seed", type=int, default=0, help="of what is kept")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--out", type=Path, default=harness.RESULTS, help="where the tables of all logs are written")
    parser.add_argument("--simulated", action="store_true", help="look at simulated crowds, and nothing else")
    parser.add_argument("--cost", type=int, default=None, help="measure time on so many annotations, and nothing else")
    args = parser.parse_args()
    if args.threads is not None:
        mh.set_num_threads(args.threads)
    if args.cost is not None:
        report_cost(args.cost)
        return
    if args.simulated:
        print(report_simulated(args.seed))
        return
    host = harness.machine(mh.get_num_threads())
    found, calibration = measure(args.logs, args.methods, args.data, args.keep, args.seed)
    text = f"{harness.describe(host)}\n\n{report(found, calibration)}"
    print(f"\n{text}")
    if args.keep == 1 and args.logs == LOGS and args.methods == list(METHODS):
        harness.save("default", args.out, {"machine": host, "rows": found.to_dict("records")}, text)


if __name__ == "__main__":
    main()
