"""What communities of workers and subtypes of classes gain, on simulated crowds that have them and that do not.

    python benches/structure.py                 all tables, three seeds each
    python benches/structure.py --seeds 10

Prints the share of right labels: by labels a worker for crowds of three kinds of workers; by how often workers are
right on subtypes that are strange to them; and by the size of a clique of workers who copy one another. Real logs:
``benches/default.py``.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import manyhands as mh

#: Careful workers, workers who often name the next class, and guessers.
KINDS = np.array(
    [
        0.9 * np.eye(6) + 0.02 * (1 - np.eye(6)),
        0.55 * np.eye(6) + 0.35 * np.roll(np.eye(6), 1, axis=1) + 0.1 / 6,
        0.05 * np.eye(6) + 0.95 / 6,
    ]
)
SHARES = (0.5, 0.3, 0.2)
METHODS = {
    "majority": mh.MajorityVote(),
    "dawid-skene": mh.DawidSkene(max_iter=1000),
    "one-coin": mh.DawidSkene(model="one-coin", max_iter=1000),
    "bayesian": mh.BayesianDawidSkene(),
    "hierarchical": mh.categorical.HierarchicalDawidSkene(),
    "consensus": mh.Consensus(),
    "community": mh.categorical.CommunityDawidSkene(),
    "ebcc": mh.categorical.EBCC(),
}


def kinds_of_workers(labels_per_worker: int, seed: int) -> tuple[mh.Annotations, np.ndarray]:
    """300 workers scattered around their kind, five labels a task, six classes."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice(3, 300, p=SHARES)
    confusion = np.array([[rng.dirichlet(50 * row) for row in KINDS[kind]] for kind in kinds])
    n_tasks = 300 * labels_per_worker // 5
    truth = rng.integers(0, 6, n_tasks)
    tasks = np.repeat(np.arange(n_tasks), 5)
    workers = np.concatenate([rng.permutation(300)[:5] for _ in range(n_tasks)])
    labels = (rng.random((len(tasks), 1)) > confusion.cumsum(axis=2)[workers, truth[tasks]][:, :-1]).sum(axis=1)
    votes = mh.Annotations.from_codes(tasks, workers, labels, n_tasks=n_tasks, n_workers=300, n_classes=6)
    return votes, truth


def camps(strange: int, seed: int) -> tuple[mh.Annotations, np.ndarray]:
    """12 workers on 1000 tasks of two classes, each with two subtypes, of which one is strange to every other worker.

    They are right nine times of ten on what is familiar, and so many times of ten on what is strange.
    """
    rng = np.random.default_rng(seed)
    truth, subtype = rng.integers(0, 2, (2, 1000))
    familiar = np.arange(12) % 2 == subtype[:, None]
    right = rng.random((1000, 12)) < np.where(familiar, 0.9, strange / 10)
    return mh.Annotations.from_dense(np.where(right, truth[:, None], 1 - truth[:, None])), truth


def clique(size: int, seed: int) -> tuple[mh.Annotations, np.ndarray]:
    """20 workers on 1000 tasks of two classes, all of them; so many copy a source that is right six times of ten."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, 1000)
    source = np.where(rng.random(1000) < 0.6, truth, 1 - truth)
    said = np.where(rng.random((1000, 20)) < rng.uniform(0.6, 0.8, 20), truth[:, None], 1 - truth[:, None])
    said[:, :size] = np.where(rng.random((1000, size)) < 0.95, source[:, None], 1 - source[:, None])
    return mh.Annotations.from_dense(said), truth


def table(title: str, make, values: tuple[int, ...], seeds: int) -> None:
    print(f"\n{title:<18}", *(f"{name:>12}" for name in METHODS))
    for value in values:
        found = np.zeros((seeds, len(METHODS)))
        for seed in range(seeds):
            votes, truth = make(value, seed)
            for i, model in enumerate(METHODS.values()):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", mh.errors.ConvergenceWarning)
                    found[seed, i] = np.mean(model.fit(votes).labels_ == truth)
        print(f"{value:<18}", *(f"{100 * share:>12.1f}" for share in found.mean(axis=0)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    table("labels a worker", kinds_of_workers, (5, 10, 20, 50), args.seeds)
    table("right of ten", camps, (7, 6, 5, 4, 3), args.seeds)
    table("clique of", clique, (0, 4, 6, 8), args.seeds)


if __name__ == "__main__":
    main()
