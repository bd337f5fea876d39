"""Overlap of masks with true masks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from manyhands._base.known import Known
from manyhands.masks.table import Masks


def mask_iou(masks: Iterable[Any], truth: Iterable[Any]) -> float:
    """Return the mean intersection over union of masks and true masks.

    Two empty masks have the value 1. With several classes, the value of an image is the mean over the non-background
    classes that occur in either mask.

    Parameters
    ----------
    masks, truth : iterable of array-like
        Masks in the same order, with equal shapes: booleans, or classes with 0 for background.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.mask_iou([[[1, 1, 0]]], [[[1, 0, 0]]])
    0.5
    """
    return _mean_overlap(masks, truth, lambda both, one, other: both / (one + other - both))


def mask_dice(masks: Iterable[Any], truth: Iterable[Any]) -> float:
    """Return the mean Dice coefficient of masks and true masks.

    Empty masks and several classes are treated as in :func:`mask_iou`.

    Parameters
    ----------
    masks, truth : iterable of array-like
        Masks in the same order, with equal shapes: booleans, or classes with 0 for background.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.mask_dice([[[1, 1, 0, 0]]], [[[1, 1, 1, 1]]])
    0.6666666666666666
    """
    return _mean_overlap(masks, truth, lambda both, one, other: 2 * both / (one + other))


def _mean_overlap(masks: Iterable[Any], truth: Iterable[Any], measure: Callable[[float, float, float], float]) -> float:
    """Mean over images, and over the classes of each image, of an overlap measure."""
    pairs = [(np.asarray(a), np.asarray(b)) for a, b in zip(masks, truth, strict=True)]
    if not pairs:
        raise ValueError("masks is empty: there is nothing to compare")
    overlaps = []
    for place, (one, other) in enumerate(pairs):
        if one.shape != other.shape:
            raise ValueError(f"masks and truth at index {place} have different shapes: {one.shape} and {other.shape}")
        classes = np.setdiff1d(np.union1d(one, other), [0])
        parts = [(one == c, other == c) for c in classes]
        each = [float(measure((a & b).sum(), a.sum(), b.sum())) for a, b in parts]
        overlaps.append(float(np.mean(each)) if each else 1.0)
    return float(np.mean(overlaps))


def measures(known: Known, model: Any) -> dict[str, Any]:
    """Return the overlap of masks with known ones."""
    truth_columns = known.columns("task", "mask")
    truth = Masks.from_frame(
        {"task": truth_columns["task"], "mask": truth_columns["mask"], "worker": ["truth"] * len(truth_columns["task"])}
    )
    ours, theirs = known.matched(model.tasks_, truth.tasks.tolist())
    if truth.n_annotations != truth.n_tasks:
        raise ValueError(f"{known.source} contains several masks of one task; keep one")
    masks = model.masks_
    predicted, true = [masks[at] for at in ours], [truth.mask(at) for at in theirs]
    return {
        "iou": mask_iou(predicted, true),
        "dice": mask_dice(predicted, true),
        "n_tasks": len(ours),
    }
