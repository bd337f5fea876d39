"""CVAT: images with tags, boxes and shapes in XML; who drew them is the name of the file, one a job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from manyhands.table.formats.export import Answer

NAME = "cvat"
_SHAPES = ("polygon", "polyline", "points", "mask")


def knows(root: Any) -> bool:
    """Whether parsed XML looks like such an export."""
    return bool(root.tag == "annotations" and root.find("image") is not None)


def answers(root: Any, where: str, worker: str) -> Iterator[Answer]:
    """Yield all answers of a file: tags as classes, boxes, and other shapes."""
    for image in root.iter("image"):
        task = image.get("name") or image.get("id")
        for tag in image.findall("tag"):
            yield Answer("tag", "classes", task, worker, tag.get("label"))
            for attribute in tag.findall("attribute"):
                yield Answer(str(attribute.get("name")), "classes", task, worker, (attribute.text or "").strip())
        boxes = [
            (*(float(box.get(side, "0")) for side in ("xtl", "ytl", "xbr", "ybr")), box.get("label"))
            for box in image.findall("box")
        ]
        if boxes:
            yield Answer("boxes", "boxes", task, worker, boxes)
        shapes = [
            (shape.get("points") or shape.get("rle"), shape.get("label"))
            for name in _SHAPES
            for shape in image.findall(name)
        ]
        if shapes:
            yield Answer("shapes", "shapes", task, worker, shapes)
