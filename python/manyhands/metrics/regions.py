"""Masks and boxes against true ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def mask_iou(masks: Iterable[Any], truth: Iterable[Any]) -> float:
    """Mean, over images, of the share of pixels in both masks among those in either.

    Two empty masks are the same: 1. Where masks have classes, an image's figure is the mean over the classes that occur
    in either, background aside.

    Parameters
    ----------
    masks, truth
        Arrays of one shape each, pair by pair: booleans, or classes with 0 for background.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.mask_iou([[[1, 1, 0]]], [[[1, 0, 0]]])
    0.5
    """
    pairs = [(np.asarray(a), np.asarray(b)) for a, b in zip(masks, truth, strict=True)]
    if not pairs:
        raise ValueError("there is no mask to compare")
    found = []
    for place, (one, other) in enumerate(pairs):
        if one.shape != other.shape:
            raise ValueError(f"masks at place {place} have shapes {one.shape} and {other.shape}")
        classes = np.setdiff1d(np.union1d(one, other), [0])
        each = [float(((one == c) & (other == c)).sum() / ((one == c) | (other == c)).sum()) for c in classes]
        found.append(float(np.mean(each)) if each else 1.0)
    return float(np.mean(found))
