"""Real logs with nothing planted: each worker's answers dealt anew among tasks of one class that are about as hard.

Who says what how often, on which tasks, and how hard tasks are stays as it is; who errs with whom is gone.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import manyhands as mh

#: A worker's tasks of one class are cut into at most so many parts by difficulty, each of so many answers or more: of
#: copies, parts of few answers would keep how many are wrong, and with it much of what was copied.
PARTS = 5
LEAST = 10


def read(folder: Path) -> tuple[mh.Annotations, np.ndarray]:
    """A log of categories, one answer a worker and task, and the class of each task by gold, -1 where it is unknown."""
    import pandas as pd

    def table(stem: str) -> pd.DataFrame:
        (path,) = [*folder.glob(f"{stem}.csv"), *folder.glob(f"{stem}.csv.gz")][:1]
        return pd.read_csv(path, dtype=str, keep_default_na=False)

    frame, gold = table("labels"), table("gold")
    votes = mh.Annotations.from_frame(frame[["task", "worker", "label"]], repeats="first")
    code = {label: i for i, label in enumerate(votes.classes.tolist())}
    known = dict(zip(gold["task"], gold["label"], strict=True))
    return votes, np.array([code.get(known.get(task), -1) for task in votes.tasks.tolist()])


def shuffled(
    votes: mh.Annotations, truth: np.ndarray, rng: np.random.Generator, *, parts: int = PARTS
) -> mh.Annotations:
    """Deal each worker's answers anew; where `truth` is -1, the class is the one that the default names.

    Difficulty is the share of all answers to a task that name its class; with one part it is gone as well.
    """
    tasks, workers, labels = (codes.astype(np.int64) for codes in votes.codes())
    classes = np.where(truth >= 0, truth, mh.aggregate(votes).posterior_.argmax(axis=1))
    right = np.bincount(tasks, labels == classes[tasks], minlength=votes.n_tasks) / votes.labels_per_task
    cell = workers * votes.n_classes + classes[tasks]
    by_difficulty = np.lexsort((rng.random(len(cell)), right[tasks], cell))
    sizes = np.bincount(cell)[cell[by_difficulty]]
    first = np.concatenate([[0], np.cumsum(np.bincount(cell))])[cell[by_difficulty]]
    n_parts = np.clip(sizes // LEAST, 1, parts)
    part = (np.arange(len(cell)) - first) * n_parts // sizes
    dealt = by_difficulty[np.lexsort((rng.random(len(cell)), part, cell[by_difficulty]))]
    fresh = np.empty_like(labels)
    fresh[by_difficulty] = labels[dealt]
    sizes = {"n_tasks": votes.n_tasks, "n_workers": votes.n_workers, "n_classes": votes.n_classes}
    return mh.Annotations.from_codes(tasks, workers, fresh, **sizes)
