"""Same or different: the compiled passes beside NumPy, and recovery of simulated clusters.

    python benches/sameness.py [--pairs 1000000] [--clusters 10]

Both sides of a kernel run in this process on the same arrays; processor time is what is shown, of the compiled side on
all threads together.
"""

import argparse
import time
import warnings

import numpy as np

import manyhands as mh


def timed(job, repeats=3):
    best, found = np.inf, None
    for _ in range(repeats):
        start = time.process_time()
        found = job()
        best = min(best, time.process_time() - start)
    return best, found


def numpy_evidence(pairs, workers, said, odds, n_pairs):
    return np.bincount(pairs, odds[workers, said], n_pairs)


def numpy_counts(pairs, workers, said, same, n_workers):
    p = same[pairs]
    cells = workers.astype(np.int64) * 4 + said
    counts = np.bincount(cells + 2, p, 4 * n_workers) + np.bincount(cells, 1 - p, 4 * n_workers)
    return counts.reshape(n_workers, 2, 2)


def numpy_update(offsets, neighbours, links, evidence, memberships, shares):
    """All items at once: sums over sorted neighbours. (The kernel goes item by item, so that its bound never falls.)"""
    sums = np.add.reduceat(evidence[links, None] * memberships[neighbours], offsets[:-1])
    scores = sums + shares
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


def neighbours_of(left, right, n_items):
    ends, others = np.concatenate([left, right]), np.concatenate([right, left])
    order = np.argsort(ends, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n_items))])
    return offsets, others[order], np.tile(np.arange(len(left)), 2)[order]


def kernels(n_pairs, k):
    n_items = max(2000, n_pairs // 50)
    crowd = mh.simulate(n_items, 100, k, pairs=n_pairs, answers_per_pair=1, seed=0, kind="clustering")
    table = crowd.log
    pairs, workers, said = (column.astype(np.int64) for column in table.codes())
    left, right = table.pairs()
    rng = np.random.default_rng(1)
    odds, same = rng.normal(size=(table.n_workers, 2)), rng.random(table.n_pairs)
    memberships = rng.dirichlet(np.ones(k), table.n_items)
    offsets, neighbours, links = neighbours_of(left, right, table.n_items)
    prior = np.ones((2, 2))

    def numpy_pass():
        together = np.einsum("pk,pk->p", memberships[left], memberships[right])
        numpy_counts(pairs, workers, said, together, table.n_workers)
        evidence = numpy_evidence(pairs, workers, said, odds, table.n_pairs)
        return numpy_update(offsets, neighbours, links, evidence, memberships, np.zeros(k))

    def compiled(passes):
        return table.table.membership_fit(left, right, memberships, prior, max_iter=passes, tol=0.0)

    table.table.pair_counts(same)  # makes the order of workers, which the table keeps
    rows = [
        ("pair_evidence", lambda: table.table.pair_evidence(odds),
         lambda: numpy_evidence(pairs, workers, said, odds, table.n_pairs)),
        ("pair_counts", lambda: table.table.pair_counts(same),
         lambda: numpy_counts(pairs, workers, said, same, table.n_workers)),
    ]  # fmt: skip
    print(f"{table}, {k} clusters")
    for name, ours, theirs in rows:
        (a, found), (b, expected) = timed(ours), timed(theirs)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        print(f"  {name:16} {1e3 * a:8.1f} ms   NumPy {1e3 * b:8.1f} ms   {b / a:5.1f} times")
    one, three = timed(lambda: compiled(1))[0], timed(lambda: compiled(3))[0]
    a, b = (three - one) / 2, timed(numpy_pass)[0]
    print(f"  {'a pass':16} {1e3 * a:8.1f} ms   NumPy {1e3 * b:8.1f} ms   {b / a:5.1f} times")


def adjusted_rand(a, b):
    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), 1)
    pairs = lambda n: (n * (n - 1) / 2).sum()  # noqa: E731
    both, rows, columns = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    chance = rows * columns / pairs(np.array([len(a)]))
    return (both - chance) / ((rows + columns) / 2 - chance)


def recovery():
    small = {"n_items": 3000, "n_clusters": 1000, "pairs": 8000, "same": 0.3}
    settings = [
        ("1,000 items, 5 clusters, 1 %, 5 answers", {"n_items": 1000, "n_clusters": 5, "answers_per_pair": 5}),
        ("2,000 items, 5 clusters, 1 %, 3 answers", {"n_items": 2000, "n_clusters": 5}),
        ("2,000 items, 10 clusters, 1 %, 5 answers", {"n_items": 2000, "n_clusters": 10, "answers_per_pair": 5}),
        ("5,000 items, 5 clusters, 1 %, 1 answer", {"n_items": 5000, "n_clusters": 5, "answers_per_pair": 1}),
        ("3,000 items, 1,000 clusters, 8,000 pairs", small),
        ("the same, 5 answers", {**small, "answers_per_pair": 5}),
    ]
    methods = {
        "crowd": mh.clustering.CrowdClustering,
        "correlation": mh.clustering.CorrelationClustering,
        "default": mh.clustering.ChosenClustering,
    }
    print(f"\nadjusted Rand index (clusters found), 50 workers, 30 % spammers, mean of 3 draws\n{'':44}{'':4}" +
          "".join(f"{name:>20}" for name in methods))  # fmt: skip
    for name, setting in settings:
        found = {method: [] for method in methods}
        for seed in range(3):
            crowd = mh.simulate(n_workers=50, spammers=0.3, seed=seed, **setting, kind="clustering")
            for method, kind in methods.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = kind().fit(crowd.log)
                found[method].append((adjusted_rand(model.clusters_, crowd.truth), model.n_clusters_))
        cells = [
            f"{np.mean([x[0] for x in runs]):.3f} ({np.mean([x[1] for x in runs]):,.0f})" for runs in found.values()
        ]
        print(f"  {name:46}" + "".join(f"{cell:>20}" for cell in cells), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--clusters", type=int, default=10)
    parser.add_argument("--only", choices=("kernels", "recovery"))
    args = parser.parse_args()
    if args.only != "recovery":
        kernels(args.pairs, args.clusters)
    if args.only != "kernels":
        recovery()
