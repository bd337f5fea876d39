"""Logs as crowd-kit takes them, and a plain twin of its EM."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from manyhands.compat import crowdkit as twin

pd = pytest.importorskip("pandas")

EM_CLASSES = [twin.DawidSkene, twin.OneCoinDawidSkene]


SKILL_CLASSES = [twin.Wawa, twin.ZeroBasedSkill]


def crowdkit_answers():
    """Logs, and what crowd-kit 1.4.2 answered, as scripts/crowdkit_answers.py wrote it."""
    return json.loads((Path(__file__).parents[1] / "data" / "crowdkit.json").read_text())


def log(rows):
    return pd.DataFrame(rows, columns=["task", "worker", "label"])


def small_log():
    """Five tasks, four workers, three labels; rows deliberately not in sorted order."""
    return log(
        [
            ("t2", "w3", "b"),
            ("t2", "w1", "a"),
            ("t2", "w2", "b"),
            ("t1", "w2", "a"),
            ("t1", "w1", "a"),
            ("t1", "w4", "c"),
            ("t3", "w1", "c"),
            ("t3", "w3", "c"),
            ("t3", "w4", "a"),
            ("t5", "w4", "b"),
            ("t5", "w2", "b"),
            ("t5", "w1", "b"),
            ("t4", "w3", "a"),
            ("t4", "w1", "a"),
        ]
    )


def random_log(seed, n_tasks=60, n_workers=8, n_classes=3, density=0.6):
    """Draw a log in which workers meet all classes often, so that nothing rests on a handful of labels."""
    rng = np.random.default_rng(seed)
    tasks, workers = np.nonzero(rng.random((n_tasks, n_workers)) < density)
    truth, accuracy = rng.integers(0, n_classes, n_tasks), rng.uniform(0.4, 0.9, n_workers)
    right = rng.random(len(tasks)) < accuracy[workers]
    labels = np.where(right, truth[tasks], rng.integers(0, n_classes, len(tasks)))
    order = rng.permutation(len(tasks))
    return log(
        {
            "task": [f"t{i:02}" for i in tasks[order]],
            "worker": workers[order],
            "label": [f"c{i}" for i in labels[order]],
        }
    )


class Plain:
    """Dawid–Skene as crowd-kit counts it: n_iter times an E-step and an M-step, from vote shares."""

    def __init__(self, data, n_iter, *, one_coin=False, true_labels=None, start=None, added=None):
        self.tasks, t = np.unique(data["task"], return_inverse=True)
        self.workers, w = np.unique(data["worker"], return_inverse=True)
        self.classes, y = np.unique(data["label"], return_inverse=True)
        n, m, k = len(self.tasks), len(self.workers), len(self.classes)
        seen = np.zeros((m, k), bool)
        seen[w, y] = True
        gold = {self.tasks.tolist().index(a): self.classes.tolist().index(b) for a, b in (true_labels or {}).items()}

        def clamp(q):
            for task, cls in gold.items():
                q[task] = np.arange(k) == cls
            return q

        def m_step(q, extra=0.0):
            counts = np.zeros((m, k, k))  # [worker, true, observed]
            np.add.at(counts, (w, slice(None), y), q[t])
            if one_coin:
                right = counts[:, range(k), range(k)].sum(axis=1) / counts.sum(axis=(1, 2))
                matrices = np.repeat(((1 - right) / max(k - 1, 1))[:, None, None], k, 1).repeat(k, 2)
                matrices[:, range(k), range(k)] = right[:, None]
                return np.clip(matrices, 1e-10, 1 - 1e-10)
            counts = np.where(seen[:, None, :], np.maximum(counts + extra, 1e-10), 0)
            return counts / counts.sum(axis=2, keepdims=True)

        q = np.zeros((n, k))
        np.add.at(q, (t, y), 1)
        q = clamp(q / q.sum(axis=1, keepdims=True))
        prior = q.mean(axis=0)
        confusion = m_step(q, 0.0 if added is None else added) if start is None else start
        self.log_likelihood = []
        for _ in range(n_iter):
            with np.errstate(divide="ignore"):
                logs = np.tile(np.log(np.maximum(prior, 1e-10)), (n, 1))
                np.add.at(logs, t, np.log(confusion)[w, :, y])
            self.log_likelihood.append(np.logaddexp.reduce(logs, axis=1).sum() / len(t))
            q = np.exp(logs - logs.max(axis=1, keepdims=True))
            q = clamp(q / q.sum(axis=1, keepdims=True))
            prior, confusion = q.mean(axis=0), m_step(q)
        self.posterior, self.prior, self.confusion = q, prior, confusion

    def check(self, model, atol=1e-7):
        probas = model.probas_.loc[list(self.tasks), list(self.classes)]
        np.testing.assert_allclose(probas.to_numpy(), self.posterior, atol=atol)
        np.testing.assert_allclose(model.priors_[list(self.classes)].to_numpy(), self.prior, atol=atol)
        for (worker, label), row in model.errors_.iterrows():
            m, y = self.workers.tolist().index(worker), self.classes.tolist().index(label)
            np.testing.assert_allclose(row[list(self.classes)].to_numpy(), self.confusion[m, :, y], atol=atol)


def history(data, seed=0):
    """Draw counts of past answers by all workers of a log."""
    workers, classes = sorted(set(data["worker"])), sorted(set(data["label"]))
    index = pd.MultiIndex.from_product([workers, classes], names=["worker", "label"])
    counts = np.random.default_rng(seed).integers(1, 9, (len(index), len(classes)))
    counts = counts + 20.0 * np.tile(np.eye(len(classes)), (len(workers), 1))
    return pd.DataFrame(counts, index, classes)
