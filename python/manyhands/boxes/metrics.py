"""Accuracy of boxes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_number
from manyhands._base.known import Known

Floats = npt.NDArray[np.float64]

_CORNERS = ("x1", "y1", "x2", "y2")


@dataclass(frozen=True)
class BoxScores:
    """Result of :func:`box_scores`.

    Attributes
    ----------
    precision : float
        Share of predicted boxes that match a true box; 1 without predictions.
    recall : float
        Share of true boxes that are matched; 1 without true boxes.
    f1 : float
        Harmonic mean of precision and recall.
    iou : float
        Mean intersection over union of matched boxes; 0 without matches.
    n_found, n_true, n_matched : int
        Numbers of predicted, true and matched boxes.
    """

    precision: float
    recall: float
    f1: float
    iou: float
    n_found: int
    n_true: int
    n_matched: int


def box_iou(boxes: npt.ArrayLike, others: npt.ArrayLike) -> Floats:
    """Return the intersection over union of all pairs of boxes (left, top, right, bottom), shape (n, m).

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.box_iou([[0, 0, 2, 1]], [[0, 0, 1, 1], [4, 4, 5, 5]]).tolist()
    [[0.5, 0.0]]
    """
    a, b = as_boxes(boxes, "boxes"), as_boxes(others, "others")
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    # Relative to the larger sizes, to avoid overflow and underflow.
    one, other = a[:, 2:] - a[:, :2], b[:, 2:] - b[:, :2]
    unit = np.maximum(one[:, None], other[None])
    intersection = (np.maximum(high - low, 0) / unit).prod(axis=2)
    overlaps: Floats = intersection / (
        (one[:, None] / unit).prod(axis=2) + (other[None] / unit).prod(axis=2) - intersection
    )
    return overlaps


def box_scores(
    boxes: Iterable[Any],
    truth: Iterable[Any],
    *,
    labels: Iterable[Any] | None = None,
    true_labels: Iterable[Any] | None = None,
    overlap: float = 0.5,
) -> BoxScores:
    """Return precision, recall and overlap of predicted boxes.

    In each image, pairs of predicted and true boxes are matched greedily by decreasing overlap, as long as the overlap
    is sufficient and labels (if passed) are equal.

    Parameters
    ----------
    boxes, truth : iterable of array-like of shape (n, 4)
        Boxes of each image as left, top, right, bottom; n may be 0.
    labels, true_labels : iterable of lists of labels, optional
        Labels of the boxes of each image.
    overlap : float, default 0.5
        Minimum intersection over union of matched boxes.

    Returns
    -------
    BoxScores
        Scores and counts.

    Examples
    --------
    >>> from manyhands import metrics
    >>> scores = metrics.box_scores([[[0, 0, 2, 2], [5, 5, 6, 6]]], [[[0, 0, 2, 2]]])
    >>> scores.precision, scores.recall, scores.iou
    (0.5, 1.0, 1.0)
    """
    check_number("overlap", overlap, least=0, most=1)
    if (labels is None) != (true_labels is None):
        raise ValueError("pass both labels and true_labels, or neither")
    pairs = [(as_boxes(a, "boxes"), as_boxes(b, "truth")) for a, b in zip(boxes, truth, strict=True)]
    kinds: list[Any] = [(None, None)] * len(pairs)
    if labels is not None and true_labels is not None:
        kinds = list(zip(labels, true_labels, strict=True))
    shared: list[float] = []
    for (predicted, true), (mine, theirs) in zip(pairs, kinds, strict=True):
        if mine is not None and (len(mine), len(theirs)) != (len(predicted), len(true)):
            raise ValueError(f"labels do not match {len(predicted)} predicted and {len(true)} true boxes of an image")
        shared += _match_overlaps(predicted, true, mine, theirs, overlap)
    n_found, n_true = (sum(len(pair[i]) for pair in pairs) for i in (0, 1))
    precision = len(shared) / n_found if n_found else 1.0
    recall = len(shared) / n_true if n_true else 1.0
    f1 = 2 * precision * recall / (precision + recall) if shared else float(not n_found and not n_true)
    return BoxScores(precision, recall, f1, float(np.mean(shared)) if shared else 0.0, n_found, n_true, len(shared))


def _match_overlaps(predicted: Floats, true: Floats, mine: Any, theirs: Any, overlap: float) -> list[float]:
    """Overlaps of the matched pairs of an image."""
    if not len(predicted) or not len(true):
        return []
    pair_overlaps = box_iou(predicted, true)
    if mine is not None:
        same = np.array([[a == b for b in theirs] for a in mine], np.bool_)
        pair_overlaps = np.where(same, pair_overlaps, -1.0)
    overlaps = []
    for _ in range(min(len(predicted), len(true))):
        i, j = np.unravel_index(int(pair_overlaps.argmax()), pair_overlaps.shape)
        if pair_overlaps[i, j] < max(overlap, 1e-12):
            break
        overlaps.append(float(pair_overlaps[i, j]))
        pair_overlaps[i, :] = pair_overlaps[:, j] = -1.0
    return overlaps


def as_boxes(boxes: npt.ArrayLike, what: str) -> Floats:
    """Return boxes as an array (n, 4) of finite numbers with positive area."""
    corners = np.asarray(boxes, np.float64)
    corners = corners.reshape(0, 4) if not corners.size else corners
    if corners.ndim != 2 or corners.shape[1] != 4:
        raise ValueError(f"{what} must have shape (n, 4) (left, top, right, bottom), not {corners.shape}")
    flat = ~(np.isfinite(corners).all(axis=1) & (corners[:, 2:] > corners[:, :2]).all(axis=1))
    if flat.any():
        raise ValueError(f"{what} contains {corners[np.argmax(flat)].tolist()}, which has no area or is not finite")
    return corners


def measures(known: Known, model: Any) -> dict[str, Any]:
    """Return precision, recall and overlap of boxes against known ones."""
    if known.votes.n_dims != 4:
        raise ValueError("points have no overlap: --evaluate requires boxes")
    truth_columns = known.columns("task", *_CORNERS)
    corners = np.stack([known.numbers(truth_columns[name], "true corners") for name in _CORNERS], axis=1)
    truth_labels = known.columns("label")["label"] if known.has("label") else None
    of = known.grouped(model.tasks_, truth_columns["task"])
    there = {at: [row for row in rows if not np.isnan(corners[row]).any()] for at, rows in of.items()}
    boxes, labels = model.boxes_, model.box_labels_
    predicted, true = [boxes[at] for at in of], [corners[there[at]] for at in of]
    scores = asdict(box_scores(predicted, true))
    selected = {name: scores[name] for name in ("precision", "recall", "f1", "iou", "n_found", "n_true")}
    if truth_labels is not None and len(known.votes.classes):
        names = [[str(name) for name in labels[at]] for at in of]
        truth = [[str(truth_labels[row]) for row in there[at]] for at in of]
        selected["f1_with_labels"] = box_scores(predicted, true, labels=names, true_labels=truth).f1
    return selected | {"n_tasks": len(of)}
