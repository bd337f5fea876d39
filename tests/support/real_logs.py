"""Real logs with known classes, and how many answers are correct."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

import manyhands as mh

_COLUMNS = ("task", "worker", "label")


def _column_text(folder: Path, stem: str):
    import pandas as pd

    path = next(path for suffix in (".csv", ".csv.gz") if (path := folder / f"{stem}{suffix}").exists())
    # Some class names look like numbers or missing values.
    return pd.read_csv(path, dtype=str, keep_default_na=False, usecols=lambda name: name in _COLUMNS)


@cache
def log(folder: Path) -> tuple[mh.Annotations, dict[str, str]]:
    gold = _column_text(folder, "gold")
    return mh.Annotations.from_frame(_column_text(folder, "labels")), dict(zip(gold.task, gold.label, strict=True))


def accuracy(model, gold: dict[str, str]) -> float:
    index, truth = mh.metrics.match_gold(model.tasks_, gold, unknown="ignore")
    return float(np.mean(model.labels_[index] == truth))
