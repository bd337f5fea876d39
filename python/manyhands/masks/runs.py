"""Masks in few numbers: runs of equal pixels, from arrays, run-lengths of COCO, and polygons."""

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
#: Most classes of a mask, background included.
MOST_CLASSES = 1 << 16
#: Points beyond are of no image.
_FARTHEST = 1e9


#: Begins, ends and classes of the runs of one mask.
OneMask = tuple[Ints, Ints, Ints]


@dataclass(frozen=True, eq=False)
class Drawn:
    """A mask that was read already: its runs, and the shape of its image."""

    runs: OneMask
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Runs:
    """Masks on end: mask i has the runs `starts[i]` to `starts[i + 1]` of pixels in row order that are of a class.

    Background, class 0, has no runs; runs are in order and do not overlap.
    """

    starts: Ints = field(metadata=offsets("N"))
    begins: Ints = field(metadata=codes("r"))
    ends: Ints = field(metadata=codes("r"))
    classes: Ints = field(metadata=codes("r"))

    @classmethod
    def joined(cls, parts: list[OneMask]) -> Runs:
        """Masks one after the other."""
        starts = np.concatenate([[0], np.cumsum([len(part[0]) for part in parts])]).astype(np.int64)
        begins, ends, classes = (
            np.concatenate([np.zeros(0, np.int64), *column]) for column in zip(*parts, strict=True)
        )
        return cls(starts, begins, ends, classes)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def one(self, mask: int) -> OneMask:
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


def runs_of(pixels: npt.NDArray[Any], what: str) -> OneMask:
    """Runs of an array of classes."""
    if pixels.dtype.kind == "f":
        odd = ~(np.isfinite(pixels) & (pixels == np.floor(pixels)))
        if odd.any():
            at = tuple(int(i) for i in np.argwhere(odd)[0])
            raise ValueError(f"{what} holds {pixels[at]} at {at}; pixels are classes: 0 for background, 1, 2, …")
    elif pixels.dtype.kind not in "biu":
        raise TypeError(f"{what} is an array of {pixels.dtype}; pixels are booleans or whole numbers")
    if pixels.dtype == np.bool_:
        pixels = pixels.view(np.uint8)
    elif pixels.dtype not in (np.uint8, np.uint16):
        if pixels.size and not (pixels.min() >= 0 and int(pixels.max()) < MOST_CLASSES):
            raise ValueError(
                f"{what} holds classes from {pixels.min()} to {pixels.max()}; they go from 0 to {MOST_CLASSES - 1}"
            )
        pixels = pixels.astype(np.uint16)
    return _core.mask_runs(np.ascontiguousarray(pixels))


def filled(runs: OneMask, shape: tuple[int, ...], n_classes: int) -> npt.NDArray[Any]:
    """The array that runs stand for: of booleans where there are two classes."""
    size = math.prod(shape)
    if n_classes == 2:
        return _core.mask_bytes(runs, size).view(np.bool_).reshape(shape)
    return _core.mask_pixels(runs, size).reshape(shape)


# --------------------------------------------------------------------------------------------------------- COCO


def to_rle(runs: OneMask, shape: tuple[int, ...]) -> dict[str, Any]:
    """Run-lengths as COCO has them, uncompressed: columns first, background first; classes as ``values`` if several."""
    lengths, values = _core.coco_lengths(runs, list(shape))
    counts = lengths.tolist()
    if values.max(initial=0) <= 1:
        return {"size": list(shape), "counts": [0, *counts] if len(values) and values[0] else counts}
    return {"size": list(shape), "counts": counts, "values": values.tolist()}


def from_rle(given: Any, what: str) -> Drawn:
    """The mask of run-lengths as COCO has them: a mapping with ``size`` and ``counts``, or that as JSON text."""
    if isinstance(given, str | bytes):
        try:
            given = json.loads(given)
        except ValueError:
            raise ValueError(f"{what} is text that is no JSON; run-lengths are {{'size': …, 'counts': …}}") from None
    if not isinstance(given, Mapping) or not {"size", "counts"} <= set(given):
        raise TypeError(f"{what} must be run-lengths with size and counts, not {str(given)[:60]!r}")
    shape = _whole(given["size"], f"{what} has a size", 1, 1 << 40)
    counts = given["counts"]
    if isinstance(counts, str | bytes):
        text = counts.encode() if isinstance(counts, str) else counts
        try:
            lengths = _core.coco_counts(text)
        except ValueError as error:
            raise ValueError(f"{what}: {error}") from None
    else:
        lengths = _whole(counts, f"{what} has counts", 0, 1 << 40)
    values = np.arange(len(lengths)) % 2
    if given.get("values") is not None:
        values = _whole(given["values"], f"{what} has values", 0, MOST_CLASSES - 1)
    size = math.prod(shape.tolist())
    if (lengths < 0).any() or int(lengths.sum()) != size:
        raise ValueError(f"{what} has runs of {int(lengths.sum()):,} pixels in all, and a size of {shape.tolist()}")
    if len(values) != len(lengths):
        raise ValueError(f"{what} has {len(values)} values for {len(lengths)} counts; give one each")
    return Drawn(_core.coco_runs(lengths, values.astype(np.uint16), shape.tolist()), tuple(shape.tolist()))


def _whole(given: Any, what: str, least: int, most: int) -> Ints:
    """A list of whole numbers within bounds."""
    try:
        found = np.asarray(given)
    except ValueError:
        found = np.zeros((0, 0))
    if found.size == 0 and found.ndim == 1:
        return np.zeros(0, np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu" or found.min() < least or found.max() > most:
        raise ValueError(f"{what} of {str(given)[:60]}; these are whole numbers from {least:,} to {most:,}")
    return found.astype(np.int64)


# ----------------------------------------------------------------------------------------------------- polygons


def checked_size(shape: Any) -> tuple[int, int]:
    """Height and width of images, or an error."""
    size = tuple(shape) if isinstance(shape, Iterable) else ()
    if len(size) != 2 or not all(isinstance(n, int | np.integer) and n > 0 for n in size):
        raise ValueError(f"shape must be the height and width of the images in pixels, not {shape!r}")
    return int(size[0]), int(size[1])


def from_polygons(rings: Any, shape: tuple[int, int], what: str) -> Drawn:
    """The pixels whose centres lie within polygons; a ring within another is a hole. x goes right, y down."""
    height, width = shape
    if not isinstance(rings, Iterable):
        raise TypeError(f"{what} is {rings!r}; give a list of polygons")
    corners = [_corners(ring, what) for ring in rings]
    starts = np.concatenate([[0], np.cumsum([len(points) for points in corners])]).astype(np.int64)
    points = np.concatenate([np.zeros((0, 2)), *corners])
    if not len(corners):
        nothing = np.zeros(0, np.int64)
        return Drawn((nothing, nothing, nothing), (height, width))
    return Drawn(_core.polygon_runs(starts, points, height, width), (height, width))


def _corners(ring: Any, what: str) -> npt.NDArray[np.float64]:
    """Corners of a polygon, (corners, 2), which does not cross itself."""
    try:
        points = np.ascontiguousarray(ring, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{what} has a polygon that is not of numbers: {str(ring)[:60]}") from None
    if points.size % 2 or points.ndim > 2 or (points.ndim == 2 and points.shape[1] != 2):
        raise ValueError(
            f"{what} has a polygon of shape {points.shape}; give a list of polygons, each of (x, y) pairs or "
            "x, y, x, y, …"
        )
    points = points.reshape(-1, 2)
    if len(points) < 3 or not (np.abs(points) <= _FARTHEST).all():
        raise ValueError(
            f"{what} has a polygon of {len(points)} points, or points that are not finite or are beyond a billion; it "
            "needs three"
        )
    if (crossing := _core.crossing_sides(points)) is not None:
        raise ValueError(f"{what} has a polygon that crosses itself at its sides {crossing[0]} and {crossing[1]}")
    return points
