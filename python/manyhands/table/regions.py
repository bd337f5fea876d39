"""Masks in few numbers: runs of equal pixels, from arrays, run-lengths of COCO, and polygons."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
#: Most classes of a mask, background included.
MOST_CLASSES = 1 << 16


@dataclass(frozen=True, eq=False)
class Runs:
    """Masks on end: mask i has the runs `starts[i]` to `starts[i + 1]` of pixels in row order that are of a class.

    Background, class 0, has no runs; runs are in order and do not overlap.
    """

    starts: Ints
    begins: Ints
    ends: Ints
    classes: Ints

    @classmethod
    def joined(cls, parts: list[tuple[Ints, Ints, Ints]]) -> Runs:
        """Masks one after the other."""
        starts = np.concatenate([[0], np.cumsum([len(part[0]) for part in parts])]).astype(np.int64)
        begins, ends, classes = (
            np.concatenate([np.zeros(0, np.int64), *column]) for column in zip(*parts, strict=True)
        )
        return cls(starts, begins, ends, classes)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def one(self, mask: int) -> tuple[Ints, Ints, Ints]:
        """Begins, ends and classes of a mask's runs."""
        part = slice(self.starts[mask], self.starts[mask + 1])
        return self.begins[part], self.ends[part], self.classes[part]

    def take(self, masks: Ints) -> Runs:
        """Some of the masks, in another order."""
        if len(masks) == len(self) and np.array_equal(masks, np.arange(len(self))):
            return self
        return Runs.joined([self.one(mask) for mask in masks.tolist()])

    def sizes(self) -> Ints:
        """Pixels of each mask that are not background."""
        total = np.concatenate([[0], np.cumsum(self.ends - self.begins)])
        sizes: Ints = total[self.starts[1:]] - total[self.starts[:-1]]
        return sizes


def runs_of(pixels: npt.NDArray[Any], what: str) -> tuple[Ints, Ints, Ints]:
    """Runs of an array of classes."""
    if pixels.dtype.kind == "f":
        odd = ~(np.isfinite(pixels) & (pixels == np.floor(pixels)))
        if odd.any():
            at = tuple(int(i) for i in np.argwhere(odd)[0])
            raise ValueError(f"{what} holds {pixels[at]} at {at}; pixels are classes: 0 for background, 1, 2, …")
    elif pixels.dtype.kind not in "biu":
        raise TypeError(f"{what} is an array of {pixels.dtype}; pixels are booleans or whole numbers")
    if pixels.size and pixels.dtype.kind != "b" and not (pixels.min() >= 0 and pixels.max() < MOST_CLASSES):
        raise ValueError(
            f"{what} holds classes from {pixels.min()} to {pixels.max()}; they go from 0 to {MOST_CLASSES - 1}"
        )
    flat = np.ascontiguousarray(pixels).reshape(-1)
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    begins = np.concatenate([[0], changes]).astype(np.int64)[: max(flat.size, 0)]
    ends = np.concatenate([changes, [flat.size]]).astype(np.int64)[: len(begins)]
    classes = flat[begins].astype(np.int64) if flat.size else begins
    marked = classes > 0
    return begins[marked], ends[marked], classes[marked]


def filled(runs: tuple[Ints, Ints, Ints], shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
    """The array that runs stand for."""
    begins, ends, classes = runs
    size = int(np.prod(shape))
    # Background before each run, and after the last.
    edges = np.concatenate([[0], np.stack([begins, ends], axis=1).reshape(-1), [size]])
    values = np.zeros(len(edges) - 1, dtype)
    values[1::2] = classes
    return np.repeat(values, np.diff(edges)).reshape(shape)


# --------------------------------------------------------------------------------------------------------- COCO


def to_rle(runs: tuple[Ints, Ints, Ints], shape: tuple[int, ...]) -> dict[str, Any]:
    """Run-lengths as COCO has them, uncompressed: columns first, background first; classes as ``values`` if several."""
    pixels = filled(runs, shape, np.uint16)
    flat = pixels.T.reshape(-1) if pixels.ndim == 2 else pixels.reshape(-1)
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    edges = np.concatenate([[0], changes, [flat.size]]) if flat.size else np.zeros(1, np.int64)
    values = flat[edges[:-1]].tolist()
    if max(values, default=0) <= 1:
        counts = np.diff(edges).tolist()
        return {"size": list(shape), "counts": [0, *counts] if values and values[0] else counts}
    return {"size": list(shape), "counts": np.diff(edges).tolist(), "values": values}


def from_rle(given: Any, what: str) -> npt.NDArray[np.uint16]:
    """The mask of run-lengths as COCO has them: a mapping with ``size`` and ``counts``, or that as JSON text."""
    if isinstance(given, str | bytes):
        try:
            given = json.loads(given)
        except ValueError:
            raise ValueError(f"{what} is text that is no JSON; run-lengths are {{'size': …, 'counts': …}}") from None
    if not isinstance(given, Mapping) or not {"size", "counts"} <= set(given):
        raise TypeError(f"{what} must be run-lengths with size and counts, not {str(given)[:60]!r}")
    shape = tuple(int(size) for size in given["size"])
    counts = given["counts"]
    if isinstance(counts, str | bytes):
        counts = _decompressed(counts if isinstance(counts, bytes) else counts.encode(), what)
    lengths = np.asarray(counts, np.int64)
    if (lengths < 0).any() or int(lengths.sum()) != int(np.prod(shape)):
        raise ValueError(f"{what} has runs of {int(lengths.sum()):,} pixels in all, and a size of {shape}")
    values = np.asarray(given.get("values", np.arange(len(lengths)) % 2), np.uint16)
    flat = np.repeat(values, lengths)
    return flat.reshape(shape[::-1]).T if len(shape) == 2 else flat.reshape(shape)


def _decompressed(text: bytes, what: str) -> list[int]:
    """COCO's short text: five bits a character from 48 on, the sixth for more, each count less the one before last."""
    counts: list[int] = []
    at = 0
    while at < len(text):
        value, shift, more = 0, 0, True
        while more:
            if at >= len(text) or not 0 <= text[at] - 48 < 64 or shift > 60:
                raise ValueError(f"{what} has counts that are no run-lengths of COCO at character {at}")
            part = text[at] - 48
            value |= (part & 31) << shift
            more = bool(part & 32)
            at, shift = at + 1, shift + 5
            if not more and part & 16:
                value |= -1 << shift
        counts.append(value + counts[-2] if len(counts) > 2 else value)
    return counts


# ----------------------------------------------------------------------------------------------------- polygons


def from_polygons(rings: Iterable[Any], shape: tuple[int, int], what: str) -> npt.NDArray[np.uint16]:
    """The pixels whose centres lie within polygons; a ring within another is a hole. x goes right, y down."""
    height, width = shape
    found = np.zeros(shape, np.bool_)
    for ring in rings:
        points = np.asarray(ring, np.float64).reshape(-1, 2)
        if len(points) < 3 or not np.isfinite(points).all():
            raise ValueError(
                f"{what} has a polygon of {len(points)} points, or points that are not finite; it needs three"
            )
        if crossing := crosses_itself(points):
            raise ValueError(f"{what} has a polygon that crosses itself at its sides {crossing[0]} and {crossing[1]}")
        found ^= _inside(points, height, width)
    return found.astype(np.uint16)


def _inside(points: npt.NDArray[np.float64], height: int, width: int) -> npt.NDArray[np.bool_]:
    """Even and odd: how many sides lie left of each pixel's centre, in its row."""
    found = np.zeros((height, width + 1), np.int64)
    ends = np.roll(points, -1, axis=0)
    for (x0, y0), (x1, y1) in zip(points.tolist(), ends.tolist(), strict=True):
        low, high = min(y0, y1), max(y0, y1)
        rows = np.arange(max(int(np.ceil(low - 0.5)), 0), min(int(np.ceil(high - 0.5)), height))
        if not len(rows):
            continue
        across = x0 + (rows + 0.5 - y0) * (x1 - x0) / (y1 - y0)
        found[rows, np.clip(np.ceil(across - 0.5), 0, width).astype(np.int64)] ^= 1
    inside: npt.NDArray[np.bool_] = np.cumsum(found[:, :width], axis=1) % 2 == 1
    return inside


def crosses_itself(points: npt.NDArray[np.float64]) -> tuple[int, int] | None:
    """Two sides of a polygon that cross, if there are any; sides that touch at their ends do not. O(points²)."""
    ends = np.roll(points, -1, axis=0)
    n = len(points)
    for side in range(n - 2):
        others = np.arange(side + 2, n - (side == 0))
        a, b = points[side], ends[side]
        one = _turn(a, b, points[others]) * _turn(a, b, ends[others])
        c, d = points[others], ends[others]
        other = _turn(c, d, a) * _turn(c, d, b)
        hit = np.flatnonzero((one < 0) & (other < 0))
        if len(hit):
            return side, int(others[hit[0]])
    return None


def _turn(a: Any, b: Any, c: Any) -> Any:
    return np.sign(
        (b[..., 0] - a[..., 0]) * (c[..., 1] - a[..., 1]) - (b[..., 1] - a[..., 1]) * (c[..., 0] - a[..., 0])
    )


def merged(begins: Ints, ends: Ints, classes: Ints) -> tuple[Ints, Ints, Ints]:
    """Stretches of an image as runs: neighbours of one class made one, background left out."""
    if not len(begins):
        return begins, ends, classes
    new = np.concatenate([[True], classes[1:] != classes[:-1]])
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(classes)) - 1
    keep = classes[first] > 0
    return begins[first][keep], ends[last][keep], classes[first][keep]
