"""LabelMe (the desktop program): a JSON file per image with the shapes that were drawn into it.

Facts from labelme's own files: ``shapes`` have a ``label``, ``points`` and a ``shape_type``, which is polygon where it
is missing; a rectangle has two opposite corners, a circle its center and a point of its edge. ``flags`` are marks of
the whole image. The file names no annotator.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from manyhands.errors import FileFormatError
from manyhands.io.exports.export import Answer, Dropped
from manyhands.io.exports.files import Contents, ExportFile, Reader, parts_of
from manyhands.io.exports.paths import worker_level
from manyhands.io.exports.shapes import ellipse, of_polygons, size_of

NAME = "labelme"
_LINES = ("line", "linestrip")


def knows(rows: list[Any]) -> bool:
    """Whether parsed JSON looks like such a file."""
    return len(rows) == 1 and isinstance(rows[0], Mapping) and {"shapes", "imagePath"} <= set(rows[0])


def answers(files: Sequence[ExportFile]) -> Iterator[Answer | Dropped]:
    """Yield the shapes of each image: rectangles as boxes, points, polygons and circles as masks, lines as they are.

    The image is `imagePath`, and the annotator is the folder or the file, whichever differs between the files of an
    image.
    """
    images = [PurePosixPath(str(file.rows[0]["imagePath"]).replace("\\", "/")).name for file in files]
    contents = Contents()
    for file, image in zip(files, images, strict=True):
        about = file.rows[0]
        size_and_image = [about.get("imageHeight"), about.get("imageWidth"), hash(about.get("imageData") or "")]
        contents.check(image, size_and_image, file)
    level = worker_level(files, images)
    flagged = any(file.rows[0].get("flags") for file in files)
    lost: Counter[str] = Counter()
    for file, image in zip(files, images, strict=True):
        content, worker = file.rows[0], file.annotator(parts_of(file.path)[level])
        size = size_of(content.get("imageHeight"), content.get("imageWidth"))
        shapes_by_kind: dict[str, list[Any]] = {"boxes": [], "points": [], "masks": [], "shapes": []}
        for number, shape in enumerate(content["shapes"], 1):
            if not isinstance(shape, Mapping):
                raise FileFormatError(f"shape {number} of {file.where} is not an object")
            kind, points = str(shape.get("shape_type") or "polygon"), _points(shape, f"shape {number} of {file.where}")
            label, place = shape.get("label"), f"image {image!r} of {file.where}"
            if kind == "rectangle" and len(points) == 2:
                (x1, y1), (x2, y2) = points
                shapes_by_kind["boxes"].append((min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2), label))
            elif kind in ("point", "points"):
                shapes_by_kind["points"] += [(x, y, None, None, label) for x, y in points]
            elif kind in ("polygon", "circle") and size is None:
                lost[f"{kind}s in images of unknown size"] += 1
            elif kind == "polygon" and len(points) >= 3 and size is not None:
                shapes_by_kind["masks"].append((of_polygons([points], size, place), label))
            elif kind == "circle" and len(points) == 2 and size is not None:
                radius = math.dist(*points)
                shapes_by_kind["masks"].append(
                    (of_polygons([ellipse(points[0], (radius, radius), 0)], size, place), label)
                )
            elif kind in _LINES:
                shapes_by_kind["shapes"].append((str(points), label))
            else:
                lost[f"shapes of type {kind!r} with {len(points)} points (not supported)"] += 1
        for question, shapes in shapes_by_kind.items():
            if shapes or question != "shapes":
                kind = "boxes" if question == "points" else question
                yield Answer(question, kind, image, worker, shapes)
        if flagged:
            flags = content.get("flags") or {}
            yield Answer("flags", "multilabel", image, worker, [name for name, on in flags.items() if on])
    for what, count in lost.items():
        yield Dropped(what, count)


def _points(shape: Mapping[str, Any], where: str) -> list[tuple[float, float]]:
    try:
        points = [(float(x), float(y)) for x, y in shape.get("points") or []]
    except (TypeError, ValueError):
        points = []
    if not points or not all(math.isfinite(x) and math.isfinite(y) for x, y in points):
        raise FileFormatError(f"{where} has no points that are pairs of numbers")
    return points


READER = Reader(
    NAME,
    "an object with 'shapes' and 'imagePath'",
    lambda file: file.is_json and knows(file.rows),
    answers,
    file_per_item=True,
)
