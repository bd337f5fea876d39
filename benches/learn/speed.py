"""What a crowd of workers costs in an epoch: 1e5 samples with three labels each, from 100 to 100,000 workers.

    python benches/learn/speed.py                       # twenty minutes, half of them the dense versions
    python benches/learn/speed.py --networks convolutional

Two backbones: a small one of two hidden layers of 256, which makes the crowd's part large, and a small convolutional
one on images of 28 × 28. Beside the bare backbone trained on one label a sample, and beside the same loss on dense
(samples × workers) labels, for as many workers as that takes reasonable time and memory; each in a fresh process, whose
peak memory is reported.
"""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from experiment import parser, report
from torch import nn

import harness
import manyhands as mh
from manyhands import learn

SAMPLES, CLASSES, BATCH = 100_000, 10, 256
FEATURES = {"small": 64, "convolutional": 28 * 28}


def backbone(network: str) -> nn.Module:
    torch.manual_seed(0)
    if network == "convolutional":
        return nn.Sequential(
            nn.Unflatten(1, (1, 28, 28)),
            nn.Conv2d(1, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * 7 * 7, 128),
            nn.ReLU(),
            nn.Linear(128, CLASSES),
        )
    return nn.Sequential(
        nn.Linear(FEATURES["small"], 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, CLASSES)
    )


def one(spec: dict[str, Any]) -> dict[str, float]:
    """CPU seconds of the quicker of two epochs, and the growth of memory.

    Other work on the machine disturbs CPU time less than wall time.
    """
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((SAMPLES, FEATURES[spec["network"]]), np.float32)
    tasks = np.repeat(np.arange(SAMPLES), 3)
    workers = rng.integers(spec["workers"], size=3 * SAMPLES)
    labels = rng.integers(CLASSES, size=3 * SAMPLES)
    votes = mh.Annotations.from_codes(
        tasks, workers, labels, n_tasks=SAMPLES, n_workers=spec["workers"], n_classes=CLASSES
    )
    harness.reset_peak()
    before = harness.rss()
    ends: list[float] = []
    if spec["kind"] == "dense":
        dense(X, tasks, workers, labels, spec["workers"], ends)
    else:
        make = {
            "backbone": learn.MajorityTarget,
            "CCEM": learn.CCEM,
            "trace": learn.TraceRegularized,
            "MaxMIG": learn.MaxMIG,
        }
        learner = make[spec["kind"]](
            backbone(spec["network"]),
            max_epochs=3,
            batch_size=BATCH,
            callbacks=[lambda *_: ends.append(time.process_time())],
        )
        learner.fit(X, votes)
    return {"seconds": min(np.diff(ends)), "bytes": harness.peak() - before}


def dense(X: np.ndarray, tasks: np.ndarray, workers: np.ndarray, labels: np.ndarray, m: int, ends: list[float]) -> None:
    """The usual implementation: labels samples × workers, every worker's answer to every sample, Adam on everything."""
    matrix = np.full((SAMPLES, m), -1, np.int16)
    matrix[tasks, workers] = labels
    network = backbone("small")
    rows = nn.Parameter((6 * torch.eye(CLASSES) - 5).repeat(m, 1, 1))
    optimizer = torch.optim.Adam([*network.parameters(), rows], lr=1e-3)
    steps = 40 if m >= 1000 else SAMPLES // BATCH
    for _ in range(3):
        order = torch.randperm(SAMPLES)
        start = time.process_time()
        for part in order.split(BATCH)[:steps]:
            given = torch.from_numpy(matrix[part.numpy()].astype(np.int64))
            probs = F.softmax(network(torch.from_numpy(X[part.numpy()])), dim=1)
            confusion = F.softplus(rows)
            confusion = confusion / confusion.sum(dim=2, keepdim=True)
            answers = torch.einsum("bk,mkl->bml", probs, confusion)
            mask = given >= 0
            right = answers.gather(2, given.clamp_min(0)[:, :, None])[:, :, 0]
            loss = -(right.clamp_min(1e-12).log() * mask).sum() / mask.sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        # A part of the steps stands for all where a whole epoch would take minutes.
        took = (time.process_time() - start) * len(order.split(BATCH)) / steps
        ends.append((ends[-1] if ends else 0.0) + took)


def measured(network: str, m: int) -> dict[str, Any]:
    """A row: every kind of learner with so many workers."""
    row: dict[str, Any] = {"workers": f"{m:,}"}
    bare = 0.0
    for kind in ("backbone", "CCEM", "trace", "MaxMIG", "dense"):
        if kind == "dense" and (m > 10_000 or network != "small"):
            row[kind] = "– (not tried)"
            continue
        found = harness.in_child("learn/speed.py", {"kind": kind, "workers": m, "network": network})
        bare = found["seconds"] if kind == "backbone" else bare
        row[kind] = f"{found['seconds']:.2f} s ×{found['seconds'] / bare:.2f}, {found['bytes'] / 2**20:,.0f} MB"
    print("  " + "; ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    return row


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--child", default="", help="used by the script itself")
    made.add_argument("--workers", default="100,1000,10000,100000")
    made.add_argument("--networks", default="small,convolutional")
    arguments = made.parse_args()
    if arguments.child:
        print(json.dumps(one(json.loads(arguments.child))))
        return
    tables = {
        f"An epoch, {network} network": [measured(network, m) for m in map(int, arguments.workers.split(","))]
        for network in arguments.networks.split(",")
    }
    notes = """
CPU seconds of the quicker of two epochs, ratio to the bare backbone, and peak memory above the input. "dense" from
1,000 workers on is a part of an epoch's steps, scaled. One thread.
"""
    report("learn-speed", tables, notes, arguments.out)


if __name__ == "__main__":
    main()
