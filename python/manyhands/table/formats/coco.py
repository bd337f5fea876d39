"""COCO: images, categories and annotations with boxes and segmentations; who drew them is the name of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manyhands.errors import FileFormatError
from manyhands.table.formats.export import Answer, Dropped
from manyhands.table.formats.files import ExportFile, Reader
from manyhands.table.formats.shapes import of_coco, size_of

NAME = "coco"


def knows(rows: list[Any]) -> bool:
    """Whether parsed JSON looks like such a file."""
    return len(rows) == 1 and isinstance(rows[0], Mapping) and {"images", "annotations"} <= set(rows[0])


def answers(files: Sequence[ExportFile]) -> Iterator[Answer | Dropped]:
    """Yield all answers of an export, one worker's per file."""
    for file in files:
        yield from _in_file(file.rows, file.where, file.worker)


def _in_file(rows: list[Any], where: str, worker: str) -> Iterator[Answer]:
    """Yield all answers of a file: boxes, and masks where there are segmentations.

    Who drew nothing into an image that the file names saw nothing there.
    """
    content = rows[0]
    names = {one.get("id"): one.get("name") for one in _each(content, "categories", where)}
    drawn: dict[Any, list[Mapping[str, Any]]] = {}
    for one in _each(content, "annotations", where):
        drawn.setdefault(one.get("image_id"), []).append(one)
    known = set()
    for image in _each(content, "images", where):
        known.add(image.get("id"))
        task = image.get("file_name") or image.get("id")
        size, place = size_of(image.get("height"), image.get("width")), f"image {task!r} of {where}"
        boxes, masks = [], []
        for one in drawn.get(image.get("id"), []):
            label = names.get(one.get("category_id"), one.get("category_id"))
            if one.get("bbox"):
                boxes.append((*_sides(one["bbox"], place), label))
            if one.get("segmentation") and size is not None:
                masks.append((of_coco(one["segmentation"], size, place), label))
        yield Answer("boxes", "boxes", task, worker, boxes)
        yield Answer("masks", "masks", task, worker, masks)
    lost = [name for name in drawn if name not in known]
    if lost:
        raise FileFormatError(f"{where} has annotations of image {lost[0]!r}, which is not among its images")


def _each(content: Mapping[str, Any], name: str, where: str) -> list[Mapping[str, Any]]:
    found = content.get(name) or []
    if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
        raise FileFormatError(f"{where}: {name!r} is not a list of objects")
    return found


def _sides(box: Any, where: str) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of left, top, width and height."""
    try:
        left, top, width, height = map(float, box)
    except (TypeError, ValueError):
        raise FileFormatError(f"{where}: a box is left, top, width and height, not {str(box)[:60]}") from None
    return left, top, left + width, top + height


READER = Reader(
    NAME, "an object with 'images' and 'annotations'", lambda file: file.is_json and knows(file.rows), answers
)
