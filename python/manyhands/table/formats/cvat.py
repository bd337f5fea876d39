"""CVAT: images with tags, boxes and masks in XML; who drew them is the name of the file, one a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from manyhands.errors import FileFormatError
from manyhands.table.formats.export import Answer, Dropped
from manyhands.table.formats.files import ExportFile, Reader
from manyhands.table.formats.shapes import Region, bounds, of_lengths, of_polygons, size_of, warn_of_turned

NAME = "cvat"


def knows(root: Any) -> bool:
    """Whether parsed XML looks like such an export."""
    return bool(root.tag == "annotations" and root.find("image") is not None)


def answers(files: Sequence[ExportFile]) -> Iterator[Answer | Dropped]:
    """Yield all answers of an export, one worker's per file."""
    for file in files:
        yield from _in_file(file.xml, file.where, file.worker)


def _in_file(root: Any, where: str, worker: str) -> Iterator[Answer]:
    """Yield all answers of a file: tags as classes, boxes, points, masks, and lines as they are.

    Who drew nothing into an image of a job saw nothing there.
    """
    warn_of_turned(sum(_number(box, "rotation") % 360 != 0 for box in root.iter("box")), where)
    for image in root.iter("image"):
        task = image.get("name") or image.get("id")
        for tag in image.findall("tag"):
            yield Answer("tag", "classes", task, worker, tag.get("label"))
            for attribute in tag.findall("attribute"):
                yield Answer(str(attribute.get("name")), "classes", task, worker, (attribute.text or "").strip())
        points = [(*point, None, None, one.get("label")) for one in image.findall("points") for point in _points(one)]
        yield Answer("boxes", "boxes", task, worker, [(*_sides(box), box.get("label")) for box in image.findall("box")])
        yield Answer("points", "boxes", task, worker, points)
        size, place = size_of(image.get("height"), image.get("width")), f"image {task!r} of {where}"
        if size is not None:
            drawn = [one for name in ("polygon", "mask") for one in image.findall(name)]
            masks = [(_region(one, size, place), one.get("label")) for one in drawn]
            yield Answer("masks", "masks", task, worker, masks)
        lines = [(one.get("points"), one.get("label")) for one in image.findall("polyline")]
        if lines:
            yield Answer("shapes", "shapes", task, worker, lines)


def _points(shape: Any) -> list[tuple[float, float]]:
    """Corners as CVAT writes them: ``x,y;x,y``."""
    try:
        pairs = [tuple(map(float, point.split(","))) for point in (shape.get("points") or "").split(";") if point]
        return [(x, y) for x, y in pairs]
    except ValueError:
        raise FileFormatError(f"a {shape.tag} has points {shape.get('points')!r}, which are no pairs") from None


def _sides(box: Any) -> list[float]:
    """Sides of a box; of one that is turned, around its centre, those it lies within."""
    left, top, right, bottom, degrees = (_number(box, name) for name in ("xtl", "ytl", "xbr", "ybr", "rotation"))
    centre = ((left + right) / 2, (top + bottom) / 2)
    return bounds((left, top), (right - left, bottom - top), degrees, centre)


def _region(shape: Any, size: tuple[int, int], where: str) -> Region:
    if shape.tag == "polygon":
        return of_polygons([_points(shape)], size, where)
    box = [_number(shape, name) for name in ("left", "top", "width", "height")]
    return of_lengths((shape.get("rle") or "").split(","), box, size, where)


def _number(shape: Any, name: str) -> float:
    try:
        return float(shape.get(name, "0"))
    except ValueError:
        raise FileFormatError(f"a {shape.tag} has {name} {shape.get(name)!r}, which is no number") from None


READER = Reader(
    NAME, "an XML file with <annotations> and <image>", lambda file: file.is_xml and knows(file.xml), answers
)
