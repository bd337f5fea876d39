"""The candidates of the benches: plain, good rivals, crowd-kit and manyhands behind one small interface.

Every candidate starts from vote shares and does ``n_iter`` passes of expectation–maximisation, each an E-step
and an M-step, without smoothing: expected counts are floored at 1e-10 and normalised. So the posteriors
agree, and ``python benches/peers.py`` checks that they do before any time is believed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from data import Codes

if TYPE_CHECKING:
    import pandas as pd

METHODS = ("vote", "full", "one-coin")
THREADS = int(os.environ.get("BENCH_THREADS", "2"))
FLOOR = 1e-10


class Peer:
    """A candidate, set up for one log and one method.

    Subclasses build what they need in ``__init__`` (not timed as a pass) and answer `run`.
    """

    name: ClassVar[str]
    methods: ClassVar[tuple[str, ...]] = METHODS
    least: ClassVar[int] = 1  # passes that a run must have
    closing: ClassVar[int] = 0  # E-steps after the last pass

    def __init__(self, codes: Codes, method: str) -> None:
        self.codes, self.method = codes, method

    def run(self, n_iter: int) -> np.ndarray:
        """Return the posterior (n_tasks, n_classes) after ``n_iter`` passes; vote shares for ``"vote"``."""
        raise NotImplementedError

    @classmethod
    def whole(cls, frame: pd.DataFrame, method: str, n_iter: int) -> np.ndarray:
        """Go from a data frame with any ids to a class name for each task."""
        codes, classes = encode(frame)
        return classes[cls(codes, method).run(n_iter).argmax(axis=1)]

    @staticmethod
    def cost(method: str, n_annotations: int, n_workers: int, n_classes: int) -> float:
        """Return the rough seconds of a pass: a first guess, later scaled by what was measured."""
        return 2e-8 * n_annotations * (n_classes if method == "full" else 1)


def encode(frame: pd.DataFrame) -> tuple[Codes, np.ndarray]:
    """Turn the columns into codes with pandas, the quickest tool that needs no own code."""
    import pandas as pd

    tasks, task_names = pd.factorize(frame["task"])
    workers, worker_names = pd.factorize(frame["worker"])
    labels, classes = pd.factorize(frame["label"], sort=True)
    sizes = len(task_names), len(worker_names), len(classes)
    return Codes(tasks, workers, labels, *sizes), np.asarray(classes)


class _LogDomain(Peer):
    """EM on a dense posterior with logarithms: what NumPy and SciPy share.

    `spread` sums parameters over the annotations of a task, `gather` posteriors over those of a worker.
    """

    def run(self, n_iter: int) -> np.ndarray:
        posterior = self.shares()
        if self.method == "vote":
            return posterior
        parameters = self._maximise(posterior)
        for _ in range(n_iter):
            posterior = self._expect(*parameters)
            parameters = self._maximise(posterior)
        return posterior

    def shares(self) -> np.ndarray:
        raise NotImplementedError

    def spread(self, parameters: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def gather(self, posterior: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _expect(self, prior: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        scores = self.spread(parameters)
        scores += np.log(prior)
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        return scores

    def _maximise(self, posterior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        prior = np.maximum(posterior.mean(axis=0), FLOOR)
        counts = self.gather(posterior)
        return prior, self._log_confusion(counts) if self.method == "full" else self._log_odds(counts)

    def _log_confusion(self, counts: np.ndarray) -> np.ndarray:
        k = self.codes.n_classes
        np.maximum(counts, FLOOR, out=counts)
        table = counts.reshape(-1, k, k)  # worker, label, true class
        table /= table.sum(axis=1, keepdims=True)
        return np.log(counts, out=counts)

    def _log_odds(self, hits: np.ndarray) -> np.ndarray:
        # A wrong label weighs the same on every class: only log(right / wrong) of its own class is left.
        skill = np.clip(hits / np.maximum(self.labels_of_worker, 1), FLOOR, 1 - FLOOR)
        wrong = np.maximum((1 - skill) / max(self.codes.n_classes - 1, 1), FLOOR)
        return np.log(skill / wrong)

    @property
    def labels_of_worker(self) -> np.ndarray:
        if not hasattr(self, "_labels_of_worker"):
            self._labels_of_worker = np.bincount(self.codes.workers, minlength=self.codes.n_workers)
        return self._labels_of_worker


class NumPy(_LogDomain):
    """`bincount` with weights, one class at a time: faster than `reduceat` on rows, and no (S, K) array."""

    name = "numpy"

    def __init__(self, codes: Codes, method: str) -> None:
        super().__init__(codes, method)
        k = codes.n_classes
        # 64-bit indices: bincount and take would convert anything else at every call.
        self.tasks = codes.tasks.astype(np.int64)
        self.workers = codes.workers.astype(np.int64)
        self.cells = self.workers * k + codes.labels
        self.slots = self.tasks * k + codes.labels

    def shares(self) -> np.ndarray:
        n, k = self.codes.n_tasks, self.codes.n_classes
        votes = np.bincount(self.slots, minlength=n * k).reshape(n, k)
        return votes / votes.sum(axis=1, keepdims=True)

    def spread(self, parameters: np.ndarray) -> np.ndarray:
        n, k = self.codes.n_tasks, self.codes.n_classes
        if self.method == "one-coin":
            return np.bincount(self.slots, parameters.take(self.workers), n * k).reshape(n, k)
        scores = np.empty((n, k))
        for true, column in enumerate(np.ascontiguousarray(parameters.T)):
            scores[:, true] = np.bincount(self.tasks, column.take(self.cells), n)
        return scores

    def gather(self, posterior: np.ndarray) -> np.ndarray:
        m, k = self.codes.n_workers, self.codes.n_classes
        if self.method == "one-coin":
            return np.bincount(self.workers, posterior.ravel().take(self.slots), m)
        counts = np.empty((m * k, k))
        for true, column in enumerate(np.ascontiguousarray(posterior.T)):
            counts[:, true] = np.bincount(self.cells, column.take(self.tasks), m * k)
        return counts


class SciPy(_LogDomain):
    """One sparse matrix: E is its product with the parameters, M that of its transpose with the posterior.

    The matrix is tasks × (worker, label) for full confusion, (task, label) × workers for one coin. The
    transpose is left a view (CSC): on random workers that is up to five times faster than with a CSR copy.
    """

    name = "scipy"

    def __init__(self, codes: Codes, method: str) -> None:
        from scipy import sparse

        super().__init__(codes, method)
        n, m, k = codes.n_tasks, codes.n_workers, codes.n_classes
        # 64-bit products: a label of one byte would overflow.
        cells = codes.workers.astype(np.int64) * k + codes.labels
        slots = codes.tasks.astype(np.int64) * k + codes.labels
        ones = np.ones(codes.n_annotations)
        if method == "full":
            self.matrix = sparse.csr_array((ones, (codes.tasks, cells)), shape=(n, m * k))
        else:
            self.matrix = sparse.csr_array((ones, (slots, codes.workers)), shape=(n * k, m))
        self.slots = None if method != "full" else slots

    def shares(self) -> np.ndarray:
        n, k = self.codes.n_tasks, self.codes.n_classes
        votes = self.matrix.sum(axis=1) if self.slots is None else np.bincount(self.slots, minlength=n * k)
        votes = np.asarray(votes, float).reshape(n, k)
        return votes / votes.sum(axis=1, keepdims=True)

    def spread(self, parameters: np.ndarray) -> np.ndarray:
        return (self.matrix @ parameters).reshape(self.codes.n_tasks, self.codes.n_classes)

    def gather(self, posterior: np.ndarray) -> np.ndarray:
        return self.matrix.T @ (posterior if self.method == "full" else posterior.ravel())


class CrowdKit(Peer):
    """crowd-kit as its users call it: data frames in, a Series or a frame out.

    Its stopping rule is switched off with ``tol=-inf``: what it watches can fall, so 0 would stop it early.
    """

    name = "crowd-kit"
    least = 0

    def __init__(self, codes: Codes, method: str) -> None:
        import pandas as pd

        super().__init__(codes, method)
        columns = {"task": codes.tasks, "worker": codes.workers, "label": codes.labels}
        self.frame = pd.DataFrame({name: codes_.astype(np.int64) for name, codes_ in columns.items()})

    @staticmethod
    def _model(method: str, n_iter: int) -> object:
        from crowdkit.aggregation import DawidSkene, MajorityVote, OneCoinDawidSkene

        if method == "vote":
            return MajorityVote()
        return (DawidSkene if method == "full" else OneCoinDawidSkene)(n_iter=n_iter, tol=-np.inf)

    def run(self, n_iter: int) -> np.ndarray:
        proba = self._model(self.method, n_iter).fit_predict_proba(self.frame)
        shape = {"index": range(self.codes.n_tasks), "columns": range(self.codes.n_classes)}
        return proba.reindex(**shape, fill_value=0.0).to_numpy()

    @classmethod
    def whole(cls, frame: pd.DataFrame, method: str, n_iter: int) -> np.ndarray:
        return cls._model(method, n_iter).fit_predict(frame).to_numpy()

    @staticmethod
    def cost(method: str, n_annotations: int, n_workers: int, n_classes: int) -> float:
        # One coin writes the row of each (worker, label) from Python, dearer than a join.
        joins = n_annotations * (35e-8 + 6e-8 * n_classes)
        rows = min(n_annotations, n_workers * n_classes) if method == "one-coin" else 0
        return joins + rows * (100e-6 + 20e-6 * n_classes)


class Manyhands(Peer):
    """manyhands, from its table of codes (passes) or from the frame (whole call)."""

    name = "manyhands"
    closing = 1  # the posterior belongs to the last parameters

    def __init__(self, codes: Codes, method: str) -> None:
        import manyhands as mh

        super().__init__(codes, method)
        mh.set_num_threads(THREADS)
        sizes = {name: getattr(codes, name) for name in ("n_tasks", "n_workers", "n_classes")}
        self.votes = mh.Annotations.from_codes(codes.tasks, codes.workers, codes.labels, **sizes)

    @staticmethod
    def model(method: str, n_iter: int) -> object:
        import manyhands as mh

        if method == "vote":
            return mh.MajorityVote()
        # No prior at all, and a tolerance that nothing meets: the passes of everyone else, and a last E-step.
        fixed = {"pseudo_count": 0.0, "class_pseudo_count": 0.0, "init": "shares", "tol": 0.0}
        return mh.DawidSkene(model=method, max_iter=n_iter, **fixed)

    def run(self, n_iter: int) -> np.ndarray:
        return self.model(self.method, n_iter).fit(self.votes).posterior_

    @classmethod
    def whole(cls, frame: pd.DataFrame, method: str, n_iter: int) -> np.ndarray:
        import manyhands as mh

        mh.set_num_threads(THREADS)
        votes = mh.Annotations.from_frame(frame, task="task", worker="worker", label="label")
        return cls.model(method, n_iter).fit(votes).labels_


def registry() -> dict[str, type[Peer]]:
    """Return every candidate whose library can be imported, ours first, by name."""
    from importlib.util import find_spec

    found: list[type[Peer]] = []
    if find_spec("manyhands"):
        found.append(Manyhands)
    if find_spec("numba"):
        from peers_numba import Numba, NumbaPrefetch

        found += [Numba, NumbaPrefetch]
    if find_spec("scipy"):
        found.append(SciPy)
    found.append(NumPy)
    if find_spec("crowdkit"):
        found.append(CrowdKit)
    return {peer.name: peer for peer in found}


def _variants() -> dict[str, type[Peer]]:
    """Return code paths that the sizes of the check would not reach."""
    if "numba" not in registry():
        return {}
    from peers_numba import Numba

    return {"numba, 2 passes": type("NumbaTwoPasses", (Numba,), {"fused_bytes": 0})}


# Enough labels a worker that no row of a confusion matrix rests on the floor alone: there rules differ.
CHECKED = ((100, 2, "task"), (50, 5, "shuffled"), (50, 7, "shuffled"), (100, 10, "task"))


def check(n_annotations: int = 20_000, n_iter: int = 5) -> None:
    """Raise unless all candidates reach the same posterior after the same passes, for several logs."""
    from data import crowd, frame

    for n_workers, n_classes, order in CHECKED:
        codes = crowd(n_annotations, n_workers, n_classes, order=order, seed=n_classes)
        classes = {f"class_{k:02}" for k in range(n_classes)}
        for method in METHODS:
            references = [NumPy(codes, method).run(n_iter + more) for more in (0, 1)]
            for name, peer in (registry() | _variants()).items():
                if method not in peer.methods:
                    continue
                posterior = peer(codes, method).run(n_iter)
                gap = np.abs(posterior - references[peer.closing]).max()
                print(f"{method:9} K={n_classes:<3} {name:16} largest gap {gap:.1e}")
                # crowd-kit floors only the labels that a worker has used, so that its sums differ a little.
                if gap > (1e-4 if name == "crowd-kit" else 1e-6):
                    raise SystemExit(f"{name} disagrees with numpy on {method}, {n_classes} classes")
                if not classes.issuperset(peer.whole(frame(codes, "string"), method, 1)):
                    raise SystemExit(f"{name} names classes that are not in the frame")


if __name__ == "__main__":
    check()
