"""Trainings that two processes share, as the processes of a test run them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import deferrals
import numpy as np
import torch
import torch.distributed as dist
from learners import crowd
from torch import nn

from manyhands import defer, learn
from manyhands._train import large_tables as lazy

WORLD = 2
LOG = crowd(n=97)
TEAM = deferrals.team(n=61)


def network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))


class Named(nn.Module):
    """A network with a keyword that returns a mapping."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, values: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"logits": self.inner(values)}


def fits(seed: int, **options: Any) -> dict[str, np.ndarray]:
    """Predictions of several methods; batches of 33 are no multiple of the processes."""
    options = {"max_epochs": 3, "batch_size": 33} | options
    found = {}
    learners = {
        "CCEM": learn.CCEM(network(seed), validation=0.2, schedule="cosine", clip=0.5, **options),
        "MaxMIG": learn.MaxMIG(network(seed), **options),
        "DeepEM": learn.DeepEM(network(seed), accumulate=2, **options),
        "Learn2Agree": learn.Learn2Agree(network(seed), **options),
        "DoctorNet": learn.DoctorNet(network(seed), optimizer="sgd", **options),
    }
    for name, learner in learners.items():
        found[name] = learner.fit(LOG.X, LOG.votes).predict_proba(LOG.X, LOG.votes)
    before, lazy._LAZY_FROM = lazy._LAZY_FROM, 1
    try:
        sparse = learn.TraceRegularized(Named(network(seed)), **options).fit({"values": LOG.X}, LOG.votes)
        found["sparse"] = sparse.confusion_
    finally:
        lazy._LAZY_FROM = before
    teams = {
        "probabilistic": defer.ProbabilisticDeferral(network(seed), **options),
        "stacked": defer.ProbabilisticDeferral(network(seed), "stacked", **options),
        "surrogate": defer.CrossEntropySurrogate(network(seed), **options),
    }
    for name, team in teams.items():
        found[name] = team.fit(TEAM.X, TEAM.truth, TEAM.votes).defer_proba(TEAM.X)
    return found


def ended(rank: int, folder: Path, seed: int) -> dict[str, np.ndarray]:
    """A training that one of the processes ends after an epoch, and that goes on from its checkpoint."""

    def end(_: Any, record: dict[str, float]) -> bool:
        return rank == 1 and record["epoch"] == 0

    options: dict[str, Any] = {"max_epochs": 3, "distributed": True, "checkpoint": folder / "run.pt"}
    cut = learn.CCEM(network(seed), callbacks=[end], **options).fit(LOG.X, LOG.votes)
    epochs = np.array(len(cut.history_["loss"]))
    resumed = learn.CCEM(network(seed), **options).fit(LOG.X, LOG.votes, resume=True)
    return {"ended": epochs, "resumed": resumed.predict_proba(LOG.X)}


def refused(rank: int) -> dict[str, np.ndarray]:
    """What is said where settings differ."""
    try:
        learn.CCEM(network(0), lr=0.1 + rank, distributed=True).fit(LOG.X, LOG.votes)
    except ValueError as error:
        return {"refused": np.array(str(error))}
    return {}


def run(rank: int, folder: str) -> None:
    """All of it in one process, whose networks start as they will: those of the first count."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank, world_size=WORLD)
    found = fits(rank, distributed=True) | ended(rank, Path(folder), rank) | refused(rank)
    np.savez(f"{folder}/{rank}.npz", **found)
    dist.barrier()
    dist.destroy_process_group()
    # Threads of gloo that hold a tensor abort, now and then, an interpreter that ends in the ordinary way.
    os._exit(0)
