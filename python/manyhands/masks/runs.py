"""Run-length representation of masks, and conversion from arrays, COCO run-lengths and polygons."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.fitted import codes, offsets

Ints = npt.NDArray[np.int64]
#: Maximum number of classes of a mask, including background.
MOST_CLASSES = 1 << 16
#: Maximum absolute coordinate of a polygon.
_FARTHEST = 1e9


#: Start, end and class of the runs of one mask.
OneMask = tuple[Ints, Ints, Ints]


@dataclass(frozen=True, eq=False)
class ParsedMask:
    """A parsed mask: its runs and the shape of its image."""

    runs: OneMask
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Runs:
    """Concatenated masks: mask i has the runs `starts[i]` to `starts[i + 1]`, of pixels in row-major order.

    Background (class 0) has no runs. Runs are sorted and do not overlap.
    """

    starts: Ints = field(metadata=offsets("N"))
    begins: Ints = field(metadata=codes("r"))
    ends: Ints = field(metadata=codes("r"))
    classes: Ints = field(metadata=codes("r"))

    @classmethod
    def joined(cls, parts: list[OneMask]) -> Runs:
        """Concatenate masks."""
        starts = np.concatenate([[0], np.cumsum([len(part[0]) for part in parts])]).astype(np.int64)
        begins, ends, classes = (
            np.concatenate([np.zeros(0, np.int64), *column]) for column in zip(*parts, strict=True)
        )
        return cls(starts, begins, ends, classes)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def one(self, mask: int) -> OneMask:
        """Return start, end and class of the runs of a mask."""
        part = slice(self.starts[mask], self.starts[mask + 1])
        return self.begins[part], self.ends[part], self.classes[part]

    def take(self, masks: Ints) -> Runs:
        """Return a selection of masks, in the given order."""
        if len(masks) == len(self) and np.array_equal(masks, np.arange(len(self))):
            return self
        return Runs.joined([self.one(mask) for mask in masks.tolist()])

    def sizes(self) -> Ints:
        """Number of non-background pixels of each mask."""
        total = np.concatenate([[0], np.cumsum(self.ends - self.begins)])
        sizes: Ints = total[self.starts[1:]] - total[self.starts[:-1]]
        return sizes


def runs_of(pixels: npt.NDArray[Any], what: str) -> OneMask:
    """Return the runs of an array of classes."""
    if pixels.dtype.kind == "f":
        invalid = ~(np.isfinite(pixels) & (pixels == np.floor(pixels)))
        if invalid.any():
            at = tuple(int(i) for i in np.argwhere(invalid)[0])
            raise ValueError(f"{what} contains {pixels[at]} at {at}; pixels must be classes: 0 for background, 1, 2, …")
    elif pixels.dtype.kind not in "biu":
        raise TypeError(f"{what} is an array of {pixels.dtype}; pixels must be booleans or integers")
    if pixels.dtype == np.bool_:
        pixels = pixels.view(np.uint8)
    elif pixels.dtype not in (np.uint8, np.uint16):
        if pixels.size and not (pixels.min() >= 0 and int(pixels.max()) < MOST_CLASSES):
            raise ValueError(
                f"{what} contains classes from {pixels.min()} to {pixels.max()}; allowed: 0 to {MOST_CLASSES - 1}"
            )
        pixels = pixels.astype(np.uint16)
    return _core.mask_runs(np.ascontiguousarray(pixels))


def to_array(runs: OneMask, shape: tuple[int, ...], n_classes: int) -> npt.NDArray[Any]:
    """Return the array of a mask; boolean if there are two classes."""
    size = math.prod(shape)
    if n_classes == 2:
        return _core.mask_bytes(runs, size).view(np.bool_).reshape(shape)
    return _core.mask_pixels(runs, size).reshape(shape)


# --------------------------------------------------------------------------------------------------------- COCO


def to_rle(runs: OneMask, shape: tuple[int, ...]) -> dict[str, Any]:
    """Return an uncompressed COCO run-length encoding (column-major); several classes are stored as ``values``."""
    lengths, values = _core.coco_lengths(runs, list(shape))
    counts = lengths.tolist()
    if values.max(initial=0) <= 1:
        return {"size": list(shape), "counts": [0, *counts] if len(values) and values[0] else counts}
    return {"size": list(shape), "counts": counts, "values": values.tolist()}


def from_rle(encoding: Any, what: str) -> ParsedMask:
    """Parse a COCO run-length encoding: a mapping with ``size`` and ``counts``, or its JSON text."""
    if isinstance(encoding, str | bytes):
        try:
            encoding = json.loads(encoding)
        except ValueError:
            raise ValueError(
                f"{what} is not valid JSON; run-lengths have the form {{'size': …, 'counts': …}}"
            ) from None
    if not isinstance(encoding, Mapping) or not {"size", "counts"} <= set(encoding):
        raise TypeError(f"{what} must be run-lengths with size and counts, not {str(encoding)[:60]!r}")
    shape = _whole(encoding["size"], f"{what}: size", 1, 1 << 40)
    counts = encoding["counts"]
    if isinstance(counts, str | bytes):
        text = counts.encode() if isinstance(counts, str) else counts
        try:
            lengths = _core.coco_counts(text)
        except ValueError as error:
            raise ValueError(f"{what}: {error}") from None
    else:
        lengths = _whole(counts, f"{what}: counts", 0, 1 << 40)
    values = np.arange(len(lengths)) % 2
    if encoding.get("values") is not None:
        values = _whole(encoding["values"], f"{what}: values", 0, MOST_CLASSES - 1)
    size = math.prod(shape.tolist())
    if (lengths < 0).any() or int(lengths.sum()) != size:
        raise ValueError(f"{what} has runs of {int(lengths.sum()):,} pixels in total, but size {shape.tolist()}")
    if len(values) != len(lengths):
        raise ValueError(f"{what} has {len(values)} values, but {len(lengths)} counts; pass one value per count")
    return ParsedMask(_core.coco_runs(lengths, values.astype(np.uint16), shape.tolist()), tuple(shape.tolist()))


def _whole(values: Any, what: str, least: int, most: int) -> Ints:
    """Return a list of integers within bounds."""
    try:
        array = np.asarray(values)
    except ValueError:
        array = np.zeros((0, 0))
    if array.size == 0 and array.ndim == 1:
        return np.zeros(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.min() < least or array.max() > most:
        raise ValueError(f"{what} is {str(values)[:60]}; it must contain whole numbers from {least:,} to {most:,}")
    return array.astype(np.int64)


# ----------------------------------------------------------------------------------------------------- polygons


def checked_size(shape: Any) -> tuple[int, int]:
    """Validate and return the height and width of images."""
    size = tuple(shape) if isinstance(shape, Iterable) else ()
    if len(size) != 2 or not all(isinstance(n, int | np.integer) and n > 0 for n in size):
        raise ValueError(f"shape must be the (height, width) of the images in pixels, not {shape!r}")
    return int(size[0]), int(size[1])


def from_polygons(rings: Any, shape: tuple[int, int], what: str) -> ParsedMask:
    """Return the pixels whose centers lie inside polygons; a nested ring is a hole. x points right, y down."""
    height, width = shape
    if not isinstance(rings, Iterable):
        raise TypeError(f"{what} is {rings!r}; pass a list of polygons")
    corners = [_corners(ring, what) for ring in rings]
    starts = np.concatenate([[0], np.cumsum([len(points) for points in corners])]).astype(np.int64)
    points = np.concatenate([np.zeros((0, 2)), *corners])
    if not len(corners):
        nothing = np.zeros(0, np.int64)
        return ParsedMask((nothing, nothing, nothing), (height, width))
    return ParsedMask(_core.polygon_runs(starts, points, height, width), (height, width))


def _corners(ring: Any, what: str) -> npt.NDArray[np.float64]:
    """Return the corners of a simple polygon, (corners, 2)."""
    try:
        points = np.ascontiguousarray(ring, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{what} has a polygon that does not consist of numbers: {str(ring)[:60]}") from None
    if points.size % 2 or points.ndim > 2 or (points.ndim == 2 and points.shape[1] != 2):
        raise ValueError(
            f"{what} has a polygon of shape {points.shape}; pass a list of polygons, each as (x, y) pairs or as "
            "x, y, x, y, …"
        )
    points = points.reshape(-1, 2)
    if len(points) < 3 or not (np.abs(points) <= _FARTHEST).all():
        raise ValueError(
            f"{what} has a polygon of {len(points)} points, or with coordinates that are not finite or exceed a "
            "billion; at least three points are needed"
        )
    if (crossing := _core.crossing_sides(points)) is not None:
        raise ValueError(f"{what} has a polygon that intersects itself at sides {crossing[0]} and {crossing[1]}")
    return points
