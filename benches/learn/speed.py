"""What a crowd of workers costs in an epoch: 1e5 samples with three labels each, from 100 to 100,000 workers.

    python benches/learn/speed.py                       # twenty minutes, half of them the dense versions
    python benches/learn/speed.py --networks convolutional
    python benches/learn/speed.py --phases              # where the time of a batch goes

Two backbones: a small one of two hidden layers of 256, which makes the crowd's part large, and a small convolutional
one on images of 28 × 28. Beside the bare backbone in a plain loop of torch on one label a sample, and beside the same
loss on dense (samples × workers) labels, for as many workers as that takes reasonable time and memory; peak memory is
that of a fresh process for each.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from experiment import parser, report
from torch import nn

import harness
import manyhands as mh
from manyhands import learn
from manyhands._train.large_tables import LazyAdam
from manyhands._train.run import Run

SAMPLES, CLASSES, BATCH = 100_000, 10, 256
#: Samples of the epochs that are timed; their seconds are scaled to all samples.
PART = 10_000
#: Steps of a dense epoch that are timed.
STEPS = 8
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


LEARNERS = {
    "majority": learn.MajorityTarget,
    "CrowdLayer": learn.CrowdLayer,
    "CCEM": learn.CCEM,
    "trace": learn.TraceRegularized,
    "MaxMIG": learn.MaxMIG,
    "DeepEM": learn.DeepEM,
}
#: What takes time once an epoch by the number of workers, so that a part of the samples does not tell it.
WHOLE = ("DeepEM",)


class Log:
    """Features, and three labels each by workers drawn at random."""

    def __init__(self, network: str, samples: int, workers: int) -> None:
        rng = np.random.default_rng(0)
        self.network, self.n_workers = network, workers
        self.X = rng.standard_normal((samples, FEATURES[network]), np.float32)
        self.tasks = np.repeat(np.arange(samples), 3)
        self.workers = rng.integers(workers, size=3 * samples)
        self.labels = rng.integers(CLASSES, size=3 * samples)
        sizes = {"n_tasks": samples, "n_workers": workers, "n_classes": CLASSES}
        self.votes = mh.Annotations.from_codes(self.tasks, self.workers, self.labels, **sizes)

    def epochs(self, kind: str, n: int) -> list[float]:
        """CPU seconds of each epoch but the first, which other work disturbs less than wall time."""
        ends: list[float] = []
        if kind == "dense":
            dense(self, n, ends)
        elif kind == "plain loop":
            plain(self, n, ends)
        else:
            noting = [lambda *_: ends.append(time.process_time())]
            network = backbone(self.network)
            LEARNERS[kind](network, max_epochs=n, batch_size=BATCH, callbacks=noting).fit(self.X, self.votes)
        return np.diff(ends).tolist()


def times(spec: dict[str, Any]) -> dict[str, list[float]]:
    """Epochs of a part of the samples, all kinds taking turns, so that what else the machine does befalls all alike."""
    log, whole = (Log(spec["network"], n, spec["workers"]) for n in (PART, SAMPLES))
    found: dict[str, list[float]] = {kind: [] for kind in spec["kinds"]}
    for _ in range(spec["rounds"]):
        for kind, seconds in found.items():
            if kind in WHOLE:
                seconds += [second * PART / SAMPLES for second in whole.epochs(kind, 2)]
            else:
                seconds += log.epochs(kind, 1 if kind == "dense" else 3)
    return found


def memory(spec: dict[str, Any]) -> float:
    """The growth of memory over that of all samples."""
    log = Log(spec["network"], SAMPLES, spec["workers"])
    harness.reset_peak()
    before = harness.rss()
    log.epochs(spec["kind"], 1)
    return harness.peak() - before


def plain(log: Log, epochs: int, ends: list[float]) -> None:
    """What one writes who has a label a sample: the bare network, Adam as it comes."""
    network = backbone(log.network)
    X, labels = torch.from_numpy(log.X), torch.from_numpy(log.labels[::3])
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    for _ in range(epochs):
        for part in torch.randperm(len(X)).split(BATCH):
            optimizer.zero_grad()
            with phase("forward"):
                made = network(X[part])
            with phase("loss"):
                loss = F.cross_entropy(made, labels[part])
            with phase("backward"):
                loss.backward()
            with phase("step"):
                optimizer.step()
        ends.append(time.process_time())


#: CPU seconds of each part of a batch.
SPENT: dict[str, float] = {}


@contextmanager
def phase(name: str) -> Iterator[None]:
    start = time.process_time()
    yield
    SPENT[name] = SPENT.get(name, 0.0) + time.process_time() - start


def timed(patch: pytest.MonkeyPatch, owner: Any, method: str, name: str) -> None:
    """Note the time of a method."""
    called = getattr(owner, method)

    def noted(*args: Any, **kwargs: Any) -> Any:
        with phase(name):
            return called(*args, **kwargs)

    patch.setattr(owner, method, noted)


def phases(network: str, workers: int, kinds: Sequence[str]) -> list[dict[str, str]]:
    """Where the time of a batch goes, in microseconds."""
    log = Log(network, PART, workers)
    with pytest.MonkeyPatch.context() as patch:
        timed(patch, learn.learner.Learner, "_forward", "forward")
        for learner in LEARNERS.values():
            timed(patch, learner, "_loss", "loss")
        timed(patch, Run, "learn", "learn")
        timed(patch, Run, "step", "step")
        timed(patch, LazyAdam, "step", "sparse step")
        return [spent_on(log, kind) for kind in kinds]


def spent_on(log: Log, kind: str, epochs: int = 6) -> dict[str, str]:
    """A row: the parts of a batch of one kind of learner."""
    log.epochs(kind, 1)
    SPENT.clear()
    batches = -(-PART // BATCH)
    whole = sum(log.epochs(kind, epochs)) / (epochs - 1) / batches * 1e6
    spent = {name: value / epochs / batches * 1e6 for name, value in SPENT.items()}
    sparse = spent.get("sparse step", 0.0)
    parts = {
        "forward": spent["forward"],
        "loss": spent["loss"],
        "backward": spent.get("backward", spent.get("learn", 0.0) - spent["step"]),
        "step": spent["step"] - sparse,
        "sparse step": sparse,
    }
    parts["rest"] = whole - sum(parts.values())
    return {"µs a batch": kind} | {name: f"{value:.0f}" for name, value in parts.items()} | {"whole": f"{whole:.0f}"}


def dense(log: Log, epochs: int, ends: list[float]) -> None:
    """The usual implementation: labels samples × workers, every worker's answer to every sample, Adam on everything."""
    m = log.n_workers
    matrix = np.full((len(log.X), m), -1, np.int16)
    matrix[log.tasks, log.workers] = log.labels
    network = backbone(log.network)
    rows = nn.Parameter((6 * torch.eye(CLASSES) - 5).repeat(m, 1, 1))
    optimizer = torch.optim.Adam([*network.parameters(), rows], lr=1e-3)
    ends.append(0.0)
    for _ in range(epochs):
        parts = torch.randperm(len(log.X)).split(BATCH)
        steps = min(len(parts), STEPS)
        start = time.process_time()
        for part in parts[:steps]:
            given = torch.from_numpy(matrix[part.numpy()].astype(np.int64))
            probs = F.softmax(network(torch.from_numpy(log.X[part.numpy()])), dim=1)
            confusion = F.softplus(rows)
            confusion = confusion / confusion.sum(dim=2, keepdim=True)
            answers = torch.einsum("bk,mkl->bml", probs, confusion)
            mask = given >= 0
            right = answers.gather(2, given.clamp_min(0)[:, :, None])[:, :, 0]
            loss = -(right.clamp_min(1e-12).log() * mask).sum() / mask.sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        # A part of the steps stands for all: a whole epoch would take minutes.
        ends.append(ends[-1] + (time.process_time() - start) * len(parts) / steps)


def measured(network: str, m: int, arguments: Any) -> dict[str, Any]:
    """A row: every kind of learner with so many workers."""
    kinds = ["plain loop", *LEARNERS, *(["dense"] if arguments.dense and network == "small" and m <= 10_000 else [])]
    spec = {"network": network, "workers": m}
    seconds = harness.in_child("learn/speed.py", spec | {"kinds": kinds, "rounds": arguments.rounds})
    bare = statistics.median(seconds["plain loop"]) * SAMPLES / PART
    row: dict[str, Any] = {"workers": f"{m:,}"}
    for kind in kinds:
        own = statistics.median(seconds[kind]) * SAMPLES / PART
        row[kind] = f"{own:.2f} s ×{own / bare:.2f}"
        if arguments.memory:
            row[kind] += f", {harness.in_child('learn/speed.py', spec | {'kind': kind}) / 2**20:,.0f} MB"
    print("  " + "; ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    return row


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--child", default="", help="used by the script itself")
    made.add_argument("--workers", default="100,1000,10000,100000")
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--networks", default="small,convolutional")
    made.add_argument("--phases", action="store_true", help="where the time of a batch goes, instead")
    made.add_argument("--memory", action="store_true", help="peak memory of all samples, too")
    made.add_argument("--dense", action="store_true", help="beside dense labels, up to 10,000 workers")
    arguments = made.parse_args()
    torch.set_num_threads(1)
    if arguments.child:
        spec = json.loads(arguments.child)
        print(json.dumps(times(spec) if "kinds" in spec else memory(spec)))
        return
    networks, workers = arguments.networks.split(","), [int(m) for m in arguments.workers.split(",")]
    if arguments.phases:
        kinds = ["plain loop", *LEARNERS]
        tables = {f"A batch, {n} network, {m:,} workers": phases(n, m, kinds) for n in networks for m in workers}
        report("learn-phases", tables, f"\nCPU microseconds of a batch of {BATCH}, one thread.\n", arguments.out)
        return
    tables = {f"An epoch, {n} network": [measured(n, m, arguments) for m in workers] for n in networks}
    notes = f"""
CPU seconds of an epoch of {SAMPLES:,} samples, the median of {2 * arguments.rounds} epochs of {PART:,} scaled up (of
{", ".join(WHOLE)}, {arguments.rounds} of all), all kinds taking turns; ratio to the plain loop; peak memory above the
input of all samples. "dense" is {STEPS} steps, scaled. One thread.
"""
    report("learn-speed", tables, notes, arguments.out)


if __name__ == "__main__":
    main()
