"""Scores from comparisons beside scikit-learn, evalica and crowd-kit: processor seconds, same data, same run.

    python benches/comparisons.py                     # 1e6 comparisons of 1e3, 1e4 and 1e5 items
    python benches/comparisons.py --comparisons 100000 --items 1000
    python benches/comparisons.py --quality           # bad workers, coverage of intervals

Everybody starts from arrays of codes; what each needs before it can fit (a sparse matrix, a table, lists) is counted.
The likelihood that each reached is shown, since stopping rules differ: scikit-learn's is its own default, and one as
near the summit as ours; crowd-kit's own stops in its second round, since it compares a vector with itself, so that
there is a row for it without that rule, where its rounds over a matrix of items by items are not too slow. Peers that
are not installed, or that would need such a matrix beyond a gigabyte, are left out. Seconds are those of all
processors together, so that other work on the machine matters little; ours uses all threads.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np

import manyhands as mh
from manyhands.pairwise import BradleyTerry, CrowdBT, RankCentrality, WorkerBradleyTerry

#: Peers that write down a matrix of items by items get no more than so many items.
MOST_DENSE = 10_000
#: And no more than so many for a hundred rounds over it.
MOST_ROUNDS = 1_000


def log_likelihood(scores: np.ndarray, left: np.ndarray, right: np.ndarray, won: np.ndarray) -> float:
    """Mean log-likelihood of comparisons."""
    lead = np.where(won, 1.0, -1.0) * (scores[left] - scores[right])
    return float(-np.logaddexp(0.0, -lead).mean())


def ours(n: int, workers: np.ndarray, **settings: object) -> Callable[..., np.ndarray]:
    """A model of ours, from codes."""

    def fit(left: np.ndarray, right: np.ndarray, won: np.ndarray) -> np.ndarray:
        games = mh.Comparisons.from_arrays(left, right, np.where(won, left, right), workers)
        kind = settings.pop("kind", BradleyTerry)
        return kind(**settings).fit(games).scores_

    return fit


def scikit_learn(n: int, **stopping: float) -> Callable[..., np.ndarray]:
    """Logistic regression on a sparse matrix of ones and minus ones: what an expert would write."""

    def fit(left: np.ndarray, right: np.ndarray, won: np.ndarray) -> np.ndarray:
        from scipy import sparse
        from sklearn.linear_model import LogisticRegression

        rows = np.arange(len(left))
        ones = np.ones(len(left))
        where = (np.r_[rows, rows], np.r_[left, right])
        matrix = sparse.csr_matrix((np.r_[ones, -ones], where), shape=(len(left), n))
        model = LogisticRegression(fit_intercept=False, C=9.0, **stopping)
        return model.fit(matrix, won).coef_[0]

    return fit


def evalica(n: int) -> Callable[..., np.ndarray]:
    """Its Bradley–Terry, from lists."""

    def fit(left: np.ndarray, right: np.ndarray, won: np.ndarray) -> np.ndarray:
        from evalica import Winner, bradley_terry

        said = [Winner.X if one else Winner.Y for one in won.tolist()]
        found = bradley_terry(left.tolist(), right.tolist(), said).scores
        return np.log(found.reindex(np.arange(n)).to_numpy())

    return fit


def crowd_kit(n: int, tol: float = 1e-5) -> Callable[..., np.ndarray]:
    """Its Bradley–Terry; with a tolerance of 0 it makes all of its rounds."""

    def fit(left: np.ndarray, right: np.ndarray, won: np.ndarray) -> np.ndarray:
        import pandas as pd
        from crowdkit.aggregation import BradleyTerry as Theirs

        frame = pd.DataFrame({"left": left, "right": right, "label": np.where(won, left, right)})
        return np.log(Theirs(n_iter=100, tol=tol).fit(frame).scores_.reindex(np.arange(n)).to_numpy())

    return fit


def speed(n_comparisons: int, sizes: list[int]) -> None:
    """Time everybody on random pairs of items with scores from the standard normal distribution, by 100 workers."""
    print(f"{'items':>8} {'who':<28}{'seconds':>9}{'ratio':>8}{'log-lik.':>11}{'Spearman':>10}")
    for n in sizes:
        crowd = mh.simulate(n, 100, n_comparisons, seed=0, kind="pairwise")
        left, right, outcomes, workers, _ = crowd.log.codes()
        won = outcomes == 0
        everybody: dict[str, Callable[..., np.ndarray]] = {
            "ours": ours(n, workers, intervals="none"),
            "ours, with intervals": ours(n, workers),
            "ours, slopes": ours(n, workers, kind=WorkerBradleyTerry, intervals="none"),
            "scikit-learn, sparse": scikit_learn(n),
            "scikit-learn, tol 1e-7": scikit_learn(n, tol=1e-7, max_iter=1000),
        }
        if n <= MOST_DENSE:
            everybody |= {"evalica": evalica(n), "crowd-kit": crowd_kit(n)}
        if n <= MOST_ROUNDS:
            everybody["crowd-kit, 100 rounds"] = crowd_kit(n, tol=0.0)
        least = 0.0
        for who, fit in everybody.items():
            start = time.process_time()
            try:
                scores = fit(left, right, won)
            except ImportError as error:
                print(f"{n:>8} {who:<28} not installed ({error.name})")
                continue
            seconds = time.process_time() - start
            least = least or seconds
            row = f"{n:>8} {who:<28}{seconds:>9.2f}{seconds / least:>8.1f}"
            if not np.isfinite(scores).all() or np.ptp(scores) == 0:
                print(f"{row}  no ranking: scores that are all alike, or not finite", flush=True)
                continue
            reached = log_likelihood(scores, left, right, won)
            print(f"{row}{reached:>11.5f}{mh.metrics.spearman(scores, crowd.truth):>10.4f}", flush=True)


def quality() -> None:
    """Kendall's correlation with bad workers, and how often intervals of 95 % cover."""
    slopes = [1.0] * 14 + [0.0] * 3 + [-1.0] * 3
    models = {
        "BradleyTerry": BradleyTerry(intervals="none"),
        "WorkerBradleyTerry": WorkerBradleyTerry(intervals="none"),
        "CrowdBT": CrowdBT(),
        "RankCentrality": RankCentrality(),
    }
    found: dict[str, list[float]] = {name: [] for name in [*models, "BradleyTerry, good workers"]}
    for seed in range(10):
        crowd = mh.simulate(30, slopes, 6000, seed=seed, kind="pairwise")
        for name, model in models.items():
            found[name].append(mh.metrics.kendall(model.fit(crowd.log).scores_, crowd.truth))
        good = crowd.log.select(workers=list(range(14)))
        alone = BradleyTerry(intervals="none").fit(good).scores_
        found["BradleyTerry, good workers"].append(mh.metrics.kendall(alone, crowd.truth))
    print("14 good, 3 guessing, 3 adverse workers; 30 items; 6,000 comparisons; Kendall, mean of ten draws")
    for name, values in found.items():
        print(f"  {name:<28}{np.mean(values):.3f}")
    print("coverage of intervals of 95 %, mean of 40 draws (40 items, 25 workers alike, 3,000 comparisons)")
    for name in ("BradleyTerry", "WorkerBradleyTerry"):
        covered, placed = [], []
        for seed in range(40):
            crowd = mh.simulate(40, 25, 3000, ties=0.3, seed=seed, kind="pairwise")
            model = (BradleyTerry() if name == "BradleyTerry" else WorkerBradleyTerry()).fit(crowd.log)
            low, high = model.intervals_.T
            covered.append(np.mean((low <= crowd.truth) & (crowd.truth <= high)))
            best, worst = model.rank_intervals_.T
            true = np.argsort(np.argsort(-crowd.truth)) + 1
            placed.append(np.mean((best <= true) & (true <= worst)))
        print(f"  {name:<28}scores {np.mean(covered):.3f}, ranks {np.mean(placed):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--quality", action="store_true", help="how good, not how fast")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.quality:
        quality()
    else:
        speed(given.comparisons, given.items)


if __name__ == "__main__":
    main()
