"""Write what crowd-kit answers, for tests that compare with it where it is not installed: tests/data/crowdkit.json.

    python scripts/crowdkit_answers.py        # in an environment with crowd-kit 1.4.2

The logs are drawn here and written beside the answers, so that the file is whole by itself. Of NoisyBradleyTerry there
are two answers: its own, and the summit of its own likelihood, found by SciPy with differences for a gradient, since
the one it has is not that of its likelihood.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import crowdkit
import numpy as np
import pandas as pd
from crowdkit.aggregation import BinaryRelevance, BradleyTerry, DawidSkene, MajorityVote, NoisyBradleyTerry
from scipy.optimize import minimize
from scipy.special import expit

OUT = Path(__file__).parent.parent / "tests" / "data" / "crowdkit.json"


def sets_log() -> pd.DataFrame:
    """Forty tasks of four labels, five answers each, so that no vote is a tie."""
    rng = np.random.default_rng(3)
    truth = rng.random((40, 4)) < 0.4
    rows = []
    for task in range(40):
        for worker in rng.choice(9, 5, replace=False):
            said = truth[task] ^ (rng.random(4) < 0.2)
            rows.append((f"t{task:02}", int(worker), [f"l{i}" for i in np.flatnonzero(said)]))
    return pd.DataFrame(rows, columns=["task", "worker", "label"])


def games_log() -> pd.DataFrame:
    """1,500 comparisons of eight items by ten workers, of whom three guess, mostly for the left."""
    rng = np.random.default_rng(4)
    scores = rng.normal(size=8)
    rows = []
    for _ in range(1500):
        left, right = (int(i) for i in rng.choice(8, 2, replace=False))
        worker = int(rng.integers(10))
        ahead = 0.8 if worker >= 7 else expit(2 * (scores[left] - scores[right]))
        rows.append((f"w{worker}", f"i{left}", f"i{right}", f"i{left if rng.random() < ahead else right}"))
    return pd.DataFrame(rows, columns=["worker", "left", "right", "label"])


def noisy(games: pd.DataFrame) -> dict[str, Any]:
    """What NoisyBradleyTerry says, and what the summit of its likelihood is."""
    items, workers = sorted({*games.left, *games.right}), sorted(set(games.worker))
    n, m = len(items), len(workers)
    codes = np.stack([games[side].map(items.index).to_numpy() for side in ("left", "right", "label")], axis=1) + 1
    by = games.worker.map(workers.index).to_numpy()
    objective = NoisyBradleyTerry._compute_log_likelihood
    start = np.concatenate([np.zeros(n + 1), np.zeros(m), np.full(m, 1.4)])
    best = minimize(objective, start, args=(codes, by, n, m, 1e-5), method="L-BFGS-B", options={"maxiter": 2000}).x
    own = NoisyBradleyTerry(n_iter=2000, tol=1e-9).fit(games)
    return {
        "itself": {
            "scores": own.scores_.to_dict(),
            "skills": own.skills_.to_dict(),
            "biases": own.biases_.to_dict(),
        },
        "summit": {
            "scores": dict(zip(items, expit(best[1 : n + 1]).tolist(), strict=True)),
            "skills": dict(zip(workers, expit(best[n + 1 + m :]).tolist(), strict=True)),
            "biases": dict(zip(workers, expit(best[n + 1 : n + 1 + m]).tolist(), strict=True)),
            "log-likelihood": -float(objective(best, codes, by, n, m, 0.0)),
        },
    }


def main() -> None:
    """Fit everything and write the file."""
    sets, games = sets_log(), games_log()
    answers = {
        "versions": {"crowd-kit": crowdkit.__version__, "pandas": pd.__version__},
        "sets": {
            "log": sets.to_dict("list"),
            "MajorityVote": BinaryRelevance(MajorityVote()).fit_predict(sets).to_dict(),
            "DawidSkene": BinaryRelevance(DawidSkene()).fit_predict(sets).to_dict(),
        },
        "comparisons": {
            "log": games.to_dict("list"),
            "BradleyTerry": BradleyTerry(n_iter=5000, tol=0.0).fit_predict(games).to_dict(),
            "BradleyTerry, its own rule": BradleyTerry(n_iter=5000).fit_predict(games).to_dict(),
            "BradleyTerry, two rounds": BradleyTerry(n_iter=2, tol=0.0).fit_predict(games).to_dict(),
            "NoisyBradleyTerry": noisy(games),
        },
    }
    OUT.write_text(json.dumps(answers, indent=None, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
