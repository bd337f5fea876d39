"""VGG Image Annotator, version 2 (also 1): regions and attributes of images as JSON, CSV, or a saved project.

Facts from VIA's own files: a region has ``shape_attributes`` with a ``name`` (rect, circle, ellipse, polygon, polyline,
point) and the sizes that go with it, in pixels, and ``region_attributes``; an image has ``file_attributes``. Check
boxes are an object of the options that are on. The size of the image is not stored, and no annotator. The export as
COCO is read as COCO.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manyhands.errors import FileFormatError
from manyhands.io.exports.documents import parse_json
from manyhands.io.exports.export import Answer, Dropped
from manyhands.io.exports.files import Contents, ExportFile, Reader

NAME = "via"
_COLUMNS = ("filename", "region_count", "region_id", "region_shape_attributes", "region_attributes")
#: An image with its answer, and its regions with their attributes.
_Image = tuple[Mapping[str, Any], list[tuple[Mapping[str, Any], Mapping[str, Any]]]]


def knows(file: ExportFile) -> bool:
    """Whether a file is of this program."""
    if file.is_table:
        return all(name in file.columns for name in _COLUMNS)
    rows = file.rows if file.is_json else []
    if len(rows) != 1 or not isinstance(rows[0], Mapping):
        return False
    images = rows[0].get("_via_img_metadata", rows[0])
    return "_via_img_metadata" in rows[0] or (
        isinstance(images, Mapping)
        and bool(images)
        and all(isinstance(one, Mapping) and {"filename", "regions"} <= set(one) for one in images.values())
    )


def answers(files: Sequence[ExportFile]) -> Iterator[Answer | Dropped]:
    """Yield the regions of each image: rectangles as boxes, points, and all others as they are.

    The attribute of a region is its label. Where there are several attributes each is a question of its own.
    """
    contents = Contents()
    read = [(file, _images(file, contents)) for file in files]
    attributes: list[str | None] = list(
        dict.fromkeys(
            name for _, images in read for _, regions in images.values() for _, label in regions for name in label
        )
    )
    for file, images in read:
        for image, (about, regions) in images.items():
            for attribute in attributes or [None]:
                yield from _regions(file, image, regions, attribute, several=len(attributes) > 1)
            for name, value in about.items():
                if isinstance(value, Mapping):
                    yield Answer(name, "multilabel", image, file.worker, [one for one, on in value.items() if on])
                elif value not in (None, ""):
                    yield Answer(name, "categorical", image, file.worker, value)


def _regions(
    file: ExportFile,
    image: str,
    regions: list[tuple[Mapping[str, Any], Mapping[str, Any]]],
    attribute: str | None,
    *,
    several: bool,
) -> Iterator[Answer]:
    shapes_by_kind: dict[str, list[Any]] = {"boxes": [], "points": [], "shapes": []}
    where = f"image {image!r} of {file.where}"
    for shape, shape_label in regions:
        label = None if attribute is None else _label(shape_label.get(attribute))
        kind = shape.get("name")
        if kind == "rect":
            x, y, width, height = (_number(shape, name, where) for name in ("x", "y", "width", "height"))
            shapes_by_kind["boxes"].append((x, y, x + width, y + height, label))
        elif kind == "point":
            shapes_by_kind["points"].append(
                (_number(shape, "cx", where), _number(shape, "cy", where), None, None, label)
            )
        else:
            shapes_by_kind["shapes"].append((json.dumps(dict(shape)), label))
    for question, marks in shapes_by_kind.items():
        if marks or question != "shapes":
            name = f"{question}: {attribute}" if several else question
            yield Answer(name, "shapes" if question == "shapes" else "boxes", image, file.worker, marks)


def _label(value: Any) -> Any:
    """The value of an attribute as one label; of check boxes, all that are on."""
    if isinstance(value, Mapping):
        return "|".join(sorted(str(name) for name, on in value.items() if on)) or None
    return None if value in (None, "") else value


def _number(shape: Mapping[str, Any], name: str, where: str) -> float:
    try:
        number = float(shape[name])
    except (KeyError, TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise FileFormatError(f"{where}: a {shape.get('name')} has {name} {shape.get(name)!r}, which is not a number")
    return number


def _images(file: ExportFile, contents: Contents) -> dict[str, _Image]:
    """Images of a file by name; one name stands for one image, as the size of the file shows."""
    if file.is_table:
        return _in_rows(file, contents)
    images: dict[str, _Image] = {}
    for one in file.rows[0].get("_via_img_metadata", file.rows[0]).values():
        regions = one["regions"]
        regions = list(regions.values()) if isinstance(regions, Mapping) else regions
        name = str(one["filename"])
        if name in images:
            raise FileFormatError(f"{file.where} has two images called {name!r}; give them different names")
        _check_size(name, one.get("size"), file, contents)
        pairs = [(part["shape_attributes"], part.get("region_attributes") or {}) for part in regions]
        images[name] = (one.get("file_attributes") or {}, pairs)
    return images


def _check_size(name: str, size: Any, file: ExportFile, contents: Contents) -> None:
    if str(size).isdigit():  # it is -1 where it is not known
        contents.check(name, f"{size} bytes", file)


def _in_rows(file: ExportFile, contents: Contents) -> dict[str, _Image]:
    images: dict[str, _Image] = {}
    for number, row in enumerate(file.rows, 2):
        where = f"line {number} of {file.where}"
        _, regions = images.setdefault(str(row["filename"]), (_object(row, "file_attributes", where), []))
        _check_size(str(row["filename"]), row.get("file_size"), file, contents)
        shape = _object(row, "region_shape_attributes", where)
        if shape:
            regions.append((shape, _object(row, "region_attributes", where)))
    return images


def _object(row: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    content = parse_json(row.get(name) or "{}", f"{name} of {where}")
    if not isinstance(content, Mapping):
        raise FileFormatError(f"{name} of {where} is not an object")
    return content


READER = Reader(
    NAME, "images with 'filename' and 'regions', or columns filename and region_shape_attributes", knows, answers
)
