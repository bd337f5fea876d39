"""COCO: images, categories and annotations with boxes, segmentations, keypoints, captions; one file per annotator."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manyhands.errors import FileFormatError
from manyhands.io.exports.export import Answer, Dropped, Item, Part, one_or_set, path_name
from manyhands.io.exports.files import ExportFile, Reader
from manyhands.io.exports.shapes import Region, of_coco, size_of

NAME = "coco"


def knows(rows: list[Any]) -> bool:
    """Whether parsed JSON looks like such a file."""
    return len(rows) == 1 and isinstance(rows[0], Mapping) and {"images", "annotations"} <= set(rows[0])


def answers(files: Sequence[ExportFile]) -> Iterator[Part]:
    """Yield all answers of an export, one worker's per file."""
    for file in files:
        yield from _in_file(file.rows[0], file.where, file.worker)


def _in_file(content: Mapping[str, Any], where: str, worker: str) -> Iterator[Part]:
    """Yield all answers of a file: boxes, masks, keypoints, captions, and categories of whole images.

    A worker who drew nothing into an image that the file names saw nothing there.
    """
    categories = {one.get("id"): one for one in _each(content, "categories", where)}
    shapes_by_image: dict[Any, list[Mapping[str, Any]]] = {}
    for one in _each(content, "annotations", where):
        shapes_by_image.setdefault(one.get("image_id"), []).append(one)
    images = _images(content, where)
    if not any(name in images for name in shapes_by_image):  # ids may be texts in one place and numbers in the other
        by_text = {str(name): name for name in images}
        shapes_by_image = {by_text.get(str(name), name): marks for name, marks in shapes_by_image.items()}
    lost = [name for name in shapes_by_image if name not in images]
    if lost:
        raise FileFormatError(f"{where} has annotations of image {lost[0]!r}, which is not among its images")
    for name, image in images.items():
        task = image.get("file_name") or name
        yield Item(task, {field: image[field] for field in ("coco_url", "flickr_url") if image.get(field)})
        yield from _in_image(
            shapes_by_image.get(name, []), image, task, worker, categories, f"image {task!r} of {where}"
        )


def _images(content: Mapping[str, Any], where: str) -> dict[Any, Mapping[str, Any]]:
    """Images by id; one that is listed twice counts once, and ids and names must each stand for one image."""
    images: dict[Any, Mapping[str, Any]] = {}
    names: dict[Any, Any] = {}
    for image in _each(content, "images", where):
        name, number = image.get("file_name"), image.get("id")
        if images.setdefault(number, image) != image:
            raise FileFormatError(f"{where} has two images of id {number!r}; ids must differ")
        if name and names.setdefault(name, number) != number:
            raise FileFormatError(
                f"{where} has two images called {name!r}, {names[name]!r} and {number!r}; names must differ"
            )
    return images


def _in_image(
    annotations: Sequence[Mapping[str, Any]],
    image: Mapping[str, Any],
    task: Any,
    worker: str,
    categories: Mapping[Any, Mapping[str, Any]],
    where: str,
) -> Iterator[Part]:
    size = size_of(image.get("height"), image.get("width"))
    marks: dict[str, list[Any]] = {"boxes": [], "masks": [], "keypoints": []}
    labels = []
    unread = False
    for one in annotations:
        category = categories.get(one.get("category_id"), {})
        label = category.get("name", one.get("category_id"))
        if one.get("bbox"):
            marks["boxes"].append((*_sides(one["bbox"], where), label))
        if one.get("segmentation"):
            mask = _mask(one["segmentation"], size, where)
            if mask is None:
                unread = True
                yield Dropped("segmentations of images without width and height")
            else:
                marks["masks"].append((mask, label))
        if one.get("keypoints"):
            marks["keypoints"] += _keypoints(one["keypoints"], category, label, where)
        if isinstance(one.get("caption"), str):
            yield Answer("captions", "texts", task, worker, one["caption"])
        elif isinstance(one.get("segments_info"), list):
            unread = True
            yield Dropped("panoptic segments (not supported)", len(one["segments_info"]))
        elif not any(one.get(name) for name in ("bbox", "segmentation", "keypoints")) and label is not None:
            labels.append(label)
        noted = len([name for name in one.get("attributes") or {} if name != "occluded"])
        if noted:
            yield Dropped("attributes of annotations (not supported)", noted)
    if labels:
        kind, value = one_or_set(labels)
        yield Answer("category", kind, task, worker, value)
    for question, value in marks.items():
        # What could not be read is something that was seen.
        if value or not unread:
            yield Answer(question, "masks" if question == "masks" else "boxes", task, worker, value)


def _each(content: Mapping[str, Any], name: str, where: str) -> list[Mapping[str, Any]]:
    marks = content.get(name) or []
    if not isinstance(marks, list) or not all(isinstance(one, Mapping) for one in marks):
        raise FileFormatError(f"{where}: {name!r} is not a list of objects")
    return marks


def _mask(given: Any, size: tuple[int, int] | None, where: str) -> Region | None:
    """What a segmentation encloses; None where the size of the image is unknown. Run-lengths have their own."""
    if size is None and isinstance(given, Mapping) and isinstance(given.get("size"), list) and len(given["size"]) == 2:
        size = size_of(*given["size"])
    return None if size is None else of_coco(given, size, where)


def _sides(box: Any, where: str) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of left, top, width and height."""
    try:
        left, top, width, height = map(float, box)
    except (TypeError, ValueError):
        left = top = width = height = math.nan
    if not all(map(math.isfinite, (left, top, width, height))):
        raise FileFormatError(f"{where}: a box is left, top, width and height, not {str(box)[:60]}")
    return left, top, left + width, top + height


def _keypoints(given: Any, category: Mapping[str, Any], label: Any, where: str) -> list[tuple[Any, ...]]:
    """Points that are in the image, as place and name, of triples of x, y and visibility."""
    try:
        values = [float(value) for value in given]
    except (TypeError, ValueError):
        values = [math.nan]
    if len(values) % 3 or not all(map(math.isfinite, values)):
        raise FileFormatError(f"{where}: keypoints are triples of numbers, not {str(given)[:60]}")
    names = category.get("keypoints") or []
    points = [values[at : at + 3] for at in range(0, len(values), 3)]
    return [
        (x, y, None, None, path_name((label, names[place] if place < len(names) else place + 1)))
        for place, (x, y, visible) in enumerate(points)
        if visible > 0
    ]


READER = Reader(
    NAME, "an object with 'images' and 'annotations'", lambda file: file.is_json and knows(file.rows), answers
)
