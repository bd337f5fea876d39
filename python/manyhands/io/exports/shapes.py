"""Shapes that were drawn into images: polygons, ellipses, brushes and turned boxes, in the forms of platforms."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import plural, warn_of_data
from manyhands._base.limits import check_memory
from manyhands.errors import FileFormatError
from manyhands.masks.table import Masks

Pixels = npt.NDArray[np.bool_]
#: Corners of the polygon that stands for an ellipse.
_CORNERS = 96
#: Most pixels of an image that is drawn.
_MOST = 1 << 31


@dataclass(frozen=True)
class Region:
    """A part of an image: its height and width, and a function that specifies which pixels are in it."""

    size: tuple[int, int]
    draw: Callable[[], Pixels]


def size_of(height: Any, width: Any) -> tuple[int, int] | None:
    """Height and width of an image as an export states them; None where it does not."""
    try:
        size = (int(float(height)), int(float(width)))
    except (TypeError, ValueError, OverflowError):
        return None
    return size if min(size) > 0 and size[0] * size[1] < _MOST else None


# ---------------------------------------------------------------------------------------------------------- forms


def of_polygons(rings: Iterable[Any], size: tuple[int, int], where: str) -> Region:
    """What polygons enclose, in pixels; one within another is a hole."""
    outlines = [list(ring) for ring in rings]
    return Region(size, lambda: _single_mask(lambda: Masks.from_polygons([0], [0], [outlines], size), where))


def ellipse(centre: tuple[float, float], radii: tuple[float, float], degrees: float) -> list[Any]:
    """Corners of a polygon that is nearly an ellipse, turned clockwise."""
    turns = np.linspace(0, 2 * math.pi, _CORNERS, endpoint=False)
    points = rotate(radii[0] * np.cos(turns), radii[1] * np.sin(turns), degrees) + np.array(centre)
    corners: list[Any] = points.tolist()
    return corners


def of_lengths(counts: Iterable[Any], box: Sequence[float], size: tuple[int, int], where: str) -> Region:
    """Run-lengths, background first, row by row of a part of the image: left, top, width and height."""
    if not all(0 <= side <= max(size) for side in box):
        raise FileFormatError(f"{where}: a mask with the left, top, width and height {box} is not within its image")
    left, top, width, height = map(int, box)
    if left + width > size[1] or top + height > size[0]:
        raise FileFormatError(f"{where}: a mask of {width} × {height} at {left}, {top} is not within its image")
    try:
        lengths = np.array([int(count) for count in counts], np.int64)
    except (TypeError, ValueError, OverflowError):
        raise FileFormatError(f"{where}: a mask has run-lengths that are not whole numbers") from None
    if (lengths < 0).any() or int(lengths.sum()) != width * height:
        raise FileFormatError(f"{where}: a mask of {width} × {height} has runs of {int(lengths.sum()):,} pixels in all")

    def draw() -> Pixels:
        mask = np.zeros(size, np.bool_)
        inside = np.repeat(np.arange(len(lengths)) % 2 == 1, lengths)
        mask[top : top + height, left : left + width] = inside.reshape(height, width)
        return mask

    return Region(size, draw)


def of_coco(given: Any, size: tuple[int, int], where: str) -> Region:
    """What COCO calls a segmentation: polygons, or run-lengths, compressed or not."""
    if isinstance(given, Mapping):
        return Region(size, lambda: _single_mask(lambda: Masks.from_arrays([0], [0], [dict(given)]), where))
    return of_polygons(given, size, where)


def of_brush(data: Any, size: tuple[int, int], where: str) -> Region:
    """The brush of Label Studio: four channels per pixel, of which the last is how opaque it is."""
    if not isinstance(data, list) or not all(isinstance(byte, int) and 0 <= byte < 256 for byte in data):
        raise FileFormatError(f"{where}: a brush is a list of bytes")

    def draw() -> Pixels:
        channels = unpack_bits(bytes(data), 4 * size[0] * size[1], where)
        return channels.reshape(*size, 4)[:, :, 3] > 0

    return Region(size, draw)


def unpack_bits(data: bytes, n: int, where: str) -> npt.NDArray[np.uint8]:
    """Values that were packed in bits, as the library rle-pack does: n of them, in runs and pieces.

    A head of 32 bits for their number, 5 for the bits of a value and four times 4 for those of a length; then pieces: a
    bit that states whether one value is repeated, two for which of the four, a length, and the value or the values.
    """
    check_memory(9 * n + 9 * len(data), "the pixels of a brush", "draw it with polygons")
    at = 0

    def take(width: int) -> int:
        nonlocal at
        first, at = at, at + width
        if at > 8 * len(data):
            raise FileFormatError(f"{where}: a brush is cut off")
        chunk = int.from_bytes(data[first // 8 : -(-at // 8)], "big")
        return (chunk >> (-at % 8)) & ((1 << width) - 1)

    return _pieces(take, n, where)


def _pieces(take: Callable[[int], int], n: int, where: str) -> npt.NDArray[np.uint8]:
    if take(32) != n:
        raise FileFormatError(f"{where}: a brush is of another size than its image")
    width = take(5) + 1
    lengths = [take(4) + 1 for _ in range(4)]
    if width != 8:
        raise FileFormatError(f"{where}: a brush has values of {width} bits, not of bytes")
    values = np.zeros(n, np.uint8)
    at = 0
    while at < n:
        repeated = take(1)
        end = at + 1 + take(lengths[take(2)])
        if end > n:
            raise FileFormatError(f"{where}: a brush has more values than its image")
        if repeated:
            values[at:end] = take(width)
        else:
            values[at:end] = np.frombuffer(take(width * (end - at)).to_bytes(end - at, "big"), np.uint8)
        at = end
    return values


def _single_mask(make: Callable[[], Masks], where: str) -> Pixels:
    """The only mask of a table that may be rejected; a message names the place in the export."""
    try:
        return make().mask(0).astype(np.bool_)
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"{where}: {re.sub('(polygons|masks) at row 0', 'a shape', str(error))}") from None


# ---------------------------------------------------------------------------------------------------------- boxes


def rotate(x: Any, y: Any, degrees: float) -> npt.NDArray[np.float64]:
    """Points turned clockwise around the origin, where y goes down, (n, 2)."""
    angle = math.radians(degrees)
    return np.stack([x * math.cos(angle) - y * math.sin(angle), x * math.sin(angle) + y * math.cos(angle)], axis=-1)


def bounds(
    corner: tuple[float, float], size: tuple[float, float], degrees: float, about: tuple[float, float]
) -> list[float]:
    """Left, top, right and bottom of a box that is turned clockwise around a point."""
    x = corner[0] + size[0] * np.array([0, 1, 1, 0]) - about[0]
    y = corner[1] + size[1] * np.array([0, 0, 1, 1]) - about[1]
    points = rotate(x, y, degrees) + np.array(about)
    return [*points.min(axis=0).tolist(), *points.max(axis=0).tolist()]


def warn_of_turned(n: int, where: str) -> None:
    """Return how many boxes are turned, and so larger than they were drawn."""
    if n:
        warn_of_data(f"{where}: {plural(n, 'box', 'boxes')} turned; each counts as the upright one around it")


# ----------------------------------------------------------------------------------------------------------- masks


def unite(drawn: Iterable[tuple[Region, Any]], label: Any, size: tuple[int, int]) -> Pixels:
    """The pixels of all regions of a label together; none of an image of that size where there is no such region."""
    mask = np.zeros(size, np.bool_)
    for region, region_label in drawn:
        if region_label == label:
            pixels = region.draw()
            if pixels.shape != size:
                raise ValueError(f"shapes of label {label!r} are of images of {size} and {pixels.shape} pixels")
            mask |= pixels
    return mask


def as_text(pixels: Pixels) -> str:
    """A mask as run-lengths of COCO, in JSON."""
    frame = Masks.from_arrays([0], [0], [pixels]).to_frame()
    text: str = frame.column("mask")[0].as_py()
    return text
