"""What choosing labels saves, whether stopped tasks are as right as stated, and what choosing costs.

    python benches/collect.py [--data ../shared/data] [--part curves logs stopping gains cost] [--seeds 5]

Parts: `curves`, accuracy against labels bought on dog and web under random, fewest and chosen labels, stepwise EM with
step t^-0.6 and epsilon .5 for the first 100 labels, then .05; `logs`, labels until accuracy stays within a point of the
whole log's; `stopping`, the error of stopped tasks; `gains`, predicted against simulated gains; `cost`, processor time.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import harness
import manyhands as mh
from manyhands.categorical._passes import posterior_under
from manyhands.collect import gains as worth
from manyhands.collect.beliefs import beliefs_of
from manyhands.collect.stop import need_no_more
from shuffled import read

ROOT = harness.HERE.parent
CURVES = {"dog": (500, 1000, 1500, 2000, 3000, 4000), "web": (1000, 2000, 3000, 4000, 6000, 9000)}
POLICIES = ("random", "fewest", "entropy", "error", "information")
LOGS = ("bluebird", "dog", "web", "temp", "ducks", "product", "face", "sentence_polarity", "weather_cf", "s_rel")
NOT_SHOWN = """\
What this does not show: workers who tire or refuse, prices, and what a policy would have been answered where the log
has no answer. The order of a log's answers is not known and not used."""


def known(folder: Path, name: str) -> tuple[mh.Annotations, Any]:
    votes, truth = read(folder / name)
    has = truth >= 0
    return votes, (votes.tasks[has], votes.classes[truth[has]])


def curves(folder: Path, seeds: int) -> None:
    for name, marks in CURVES.items():
        votes, gold = known(folder, name)
        print(f"\n{name}: accuracy after so many labels, mean ± deviation of {seeds} seeds")
        print(f"{'update':<8}{'policy':<14}" + "".join(f"{mark:>14,}" for mark in marks))
        for update in ("online", "batch"):
            for policy in POLICIES:
                step = np.gcd.reduce(marks)
                run = mh.collect.replay(
                    votes,
                    gold,
                    policy,
                    budget=marks[-1],
                    seed=range(seeds),
                    update=update,
                    points=int(marks[-1] // step),
                )
                at = np.searchsorted(run.labels, marks)
                mean, spread = run.accuracies.mean(axis=0)[at], run.accuracies.std(axis=0, ddof=1)[at]
                cells = (f"{m:.3f} ±{s:.3f}" for m, s in zip(mean, spread, strict=True))
                print(f"{update:<8}{policy:<14}" + "".join(f"{cell:>14}" for cell in cells), flush=True)


def logs(folder: Path, seeds: int, names: tuple[str, ...] = LOGS) -> None:
    print(f"\nLabels until accuracy stays within a point of the whole log's, mean curve of {seeds} seeds; share of all")
    columns = ("random", "fewest", "entropy", "information")
    print(f"{'log':<20}{'labels':>8}{'whole':>7}{'3 each':>8}" + "".join(f"{c:>18}" for c in columns))
    for name in names:
        votes, gold = known(folder, name)
        three = mh.collect.replay(votes, gold, "fewest", budget=min(3 * votes.n_tasks, votes.n_annotations), points=1)
        cells = []
        for policy in columns:
            run = mh.collect.replay(votes, gold, policy, seed=range(seeds), points=25)
            needed = run.labels_within()
            cells.append("never" if needed is None else f"{needed:,} ({needed / run.labels[-1]:.0%})")
        row = f"{name:<20}{votes.n_annotations:>8,}{run.whole:>7.3f}{three.accuracy:>8.3f}"
        print(row + "".join(f"{cell:>18}" for cell in cells), flush=True)


def stopping(folder: Path, seeds: int) -> None:
    print("\nTasks that stopped, and the share of them that is wrong; stated error 0.1 / 0.05 / 0.02")
    print(f"{'crowd':<26}{'model':<12}" + "".join(f"{error:>16}" for error in (0.1, 0.05, 0.02)))
    for name in ("independent", "spammers", *LOGS):
        for what, model in (("consensus", mh.Consensus()), ("dawid-skene", mh.DawidSkene())):
            cells = []
            if name in LOGS:
                votes, truth = read(folder / name)
            else:
                crowd = {"one-coin": 1.0} if name == "independent" else {"one-coin": 0.7, "spammers": 0.3}
                made = mh.simulate(3000, 40, 3, labels_per_task=(1, 9), crowd=crowd, seed=0)
                votes, truth = made.log, made.truth
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted = model.fit(votes)
            rows = fitted.posterior_
            for error in (0.1, 0.05, 0.02):
                done = need_no_more(rows, fitted.prior_, error) & (truth >= 0)
                wrong = (rows.argmax(axis=1) != truth)[done].mean() if done.any() else np.nan
                cells.append(f"{done.sum() / (truth >= 0).sum():.2f}: {wrong:.4f}")
            print(f"{name:<26}{what:<12}" + "".join(f"{cell:>16}" for cell in cells), flush=True)


def gains(_: Path, seeds: int) -> None:
    print("\nPredicted and simulated falls of error over all pairs of 300 tasks and 10 workers, 2,000 draws each")
    rng = np.random.default_rng(0)
    crowd = mh.simulate(300, 10, 3, labels_per_task=4, seed=1)
    for what, model in (("true parameters", None), ("dawid-skene", mh.DawidSkene()), ("consensus", mh.Consensus())):
        matrices, share = crowd.confusion, None
        rows = posterior_under(crowd.log.table, np.full(3, 1 / 3), np.ascontiguousarray(matrices))
        beliefs, believed = rows, matrices
        if model is not None:
            fitted = model.fit(crowd.log)
            beliefs, believed, share = fitted.posterior_, fitted.confusion_, beliefs_of(fitted).share
        predicted, gained = [], []
        for worker in range(10):
            predicted.append(worth.error_gain(beliefs, believed[worker], share))
            truth = (rng.random((300, 2000, 1)) > rows.cumsum(axis=1)[:, None]).sum(axis=2).clip(max=2)
            said = (rng.random((300, 2000, 1)) > matrices[worker].cumsum(axis=1)[truth]).sum(axis=2).clip(max=2)
            answer = (beliefs[:, None] * believed[worker].T[said]).argmax(axis=2)
            before = (beliefs.argmax(axis=1)[:, None] == truth).mean(axis=1)
            gained.append((answer == truth).mean(axis=1) - before)
        p, g = np.concatenate(predicted), np.concatenate(gained)
        means = f"mean predicted {p.mean():.4f}, gained {g.mean():.4f}"
        print(f"{what:<16} correlation {np.corrcoef(p, g)[0, 1]:.3f}, {means}")


def cost(_: Path, seeds: int) -> None:
    print("\nProcessor seconds")
    crowd = mh.simulate(1_000_000, 2000, 5, labels_per_task=5, seed=0)
    times = {}
    for n in (2, 12):
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = mh.DawidSkene(max_iter=n, tol=0).fit(crowd.log)
        times[n] = time.process_time() - start
    print(f"two passes of Dawid-Skene, 1e6 tasks, 5e6 labels, 5 classes: {(times[12] - times[2]) / 5:.3f}")
    for strategy in ("entropy", "margin", "error", "information"):
        start = time.process_time()
        mh.collect.next_labels(model, 500, strategy=strategy)
        print(f"ranking 1e6 tasks by {strategy}: {time.process_time() - start:.3f}")
    start = time.process_time()
    mh.collect.next_labels(model, 500, workers="all")
    print(f"with the choice of 2,000 workers: {time.process_time() - start:.3f}")
    rng = np.random.default_rng(0)
    for update in ("online", "batch"):
        campaign = mh.collect.Campaign(range(20_000), range(4), workers=range(100), update=update)
        truth = rng.integers(0, 4, 20_000)
        start = time.process_time()
        for _ in range(100_000):
            (request,) = campaign.ask()
            said = truth[request.task] if rng.random() < 0.7 else rng.integers(4)
            campaign.tell(request.task, request.worker, int(said))
        print(
            f"campaign of 1e5 labels, 2e4 tasks, 100 workers, {update}: {time.process_time() - start:.1f}", flush=True
        )


def main() -> None:
    parts: dict[str, Any] = {"curves": curves, "logs": logs, "stopping": stopping, "gains": gains, "cost": cost}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--part", nargs="+", choices=list(parts), default=list(parts))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--logs", nargs="+", default=LOGS, help="those of the part `logs`")
    args = parser.parse_args()
    for part in args.part:
        more = {"names": tuple(args.logs)} if part == "logs" else {}
        parts[part](args.data, args.seeds, **more)
    print(f"\n{NOT_SHOWN}")


if __name__ == "__main__":
    main()
