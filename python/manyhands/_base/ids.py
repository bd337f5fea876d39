"""Codes of tasks and workers, which every kind of answers has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from manyhands._base import data_checks as checks
from manyhands._base.names import Codes, Column, Names


@dataclass(frozen=True)
class Ids:
    """Task and worker of each answer, by codes, what the codes stand for, and tasks without any answer."""

    task_codes: Codes
    tasks: Names
    worker_codes: Codes
    workers: Names
    unlabelled: Names | None = None


def encode_ids(tasks: Column, workers: Column, absent: npt.NDArray[np.bool_] | None = None, said: str = "label") -> Ids:
    """Encode tasks and workers; rows that are marked absent lack an answer and are left out, with a warning."""
    (task_codes, task_names), (worker_codes, worker_names) = tasks.encode(), workers.encode()
    if absent is None:
        return Ids(task_codes, task_names, worker_codes, worker_names)
    all_tasks, keep = task_names, ~absent
    task_codes, task_names, labelled = compact(task_codes[keep], task_names)
    worker_codes, worker_names, _ = compact(worker_codes[keep], worker_names)
    unlabelled = all_tasks.take(np.flatnonzero(~labelled))
    checks.warn_unlabelled(int(absent.sum()), unlabelled, said)
    return Ids(task_codes, task_names, worker_codes, worker_names, unlabelled)


def compact(codes: Codes, names: Names) -> tuple[Codes, Names, npt.NDArray[np.bool_]]:
    """Renumber the codes that occur; also returns which those are."""
    used = np.zeros(len(names), np.bool_)
    used[codes] = True
    rank = np.cumsum(used, dtype=np.uint32) - np.uint32(1)
    return rank[codes], names.take(np.flatnonzero(used)), used
