"""CVAT: images with tags, boxes and masks in XML; the annotator is the name of the file, one per job."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from manyhands.errors import FileFormatError
from manyhands.io.exports.export import Answer, Dropped, Part, one_or_set, path_name
from manyhands.io.exports.files import ExportFile, Reader
from manyhands.io.exports.shapes import Region, bounds, ellipse, of_lengths, of_polygons, size_of, warn_of_turned

NAME = "cvat"
_QUESTIONS = ("tag", "boxes", "points", "masks", "shapes")
_MASKS = ("polygon", "mask", "ellipse")
_READ = ("tag", "box", "points", "polyline", *_MASKS)


def knows(root: Any) -> bool:
    """Whether parsed XML looks like such an export."""
    return bool(root.tag == "annotations" and root.find("image") is not None)


def answers(files: Sequence[ExportFile]) -> Iterator[Part]:
    """Yield all answers of an export, one worker's per file.

    Tags are classes, or sets; boxes, points and masks are marks, and a worker who drew nothing into an image of a job
    saw nothing there.
    """
    images = [(file, image) for file in files for image in file.xml.iter("image")]
    for file in files:
        warn_of_turned(sum(_number(box, "rotation", 0) % 360 != 0 for box in file.xml.iter("box")), file.where)
    attributes = _attributes([image for _, image in images])
    for (file, image), task in zip(images, _tasks(images), strict=True):
        yield from _tags(image, task, file.worker, attributes)
        yield from _shapes(image, task, file.worker, f"image {task!r} of {file.where}")


def _tasks(images: Sequence[tuple[ExportFile, Any]]) -> list[Any]:
    """Ids of images: their names, with the subset and the task of a project where names are not enough."""
    keys: list[tuple[Any, ...]] = [(image.get("name") or image.get("id"),) for _, image in images]
    subsets = [(image.get("subset"), *key) for (_, image), key in zip(images, keys, strict=True)]
    tasks = [(key[0], image.get("task_id"), *key[1:]) for (_, image), key in zip(images, subsets, strict=True)]
    for level in (keys, subsets, tasks):
        together = Counter((id(file), key) for (file, _), key in zip(images, level, strict=True))
        apart = level is not keys or len(set(subsets)) == len(set(keys))
        if apart and max(together.values()) == 1:
            return [path_name(part for part in key if part is not None) if len(key) > 1 else key[0] for key in level]
    (_, key), _ = together.most_common(1)[0]
    raise FileFormatError(f"image {key[-1]!r} is listed more than once in one file; images need different names")


def _attributes(images: Sequence[Any]) -> dict[tuple[Any, Any], str]:
    """The question that an attribute of a tag asks: its name, with that of the tag where several tags have it."""
    pairs = {
        (tag.get("label"), attribute.get("name")): None
        for image in images
        for tag in image.findall("tag")
        for attribute in tag.findall("attribute")
    }
    counts = Counter(name for _, name in pairs)
    return {
        (label, name): str(name) if counts[name] == 1 and name not in _QUESTIONS else f"{label}.{name}"
        for label, name in pairs
    }


def _tags(image: Any, task: Any, worker: Any, attributes: dict[tuple[Any, Any], str]) -> Iterator[Part]:
    tags = image.findall("tag")
    if tags:
        kind, value = one_or_set([tag.get("label") for tag in tags])
        yield Answer("tag", kind, task, worker, value)
    for tag in tags:
        for attribute in tag.findall("attribute"):
            question = attributes[tag.get("label"), attribute.get("name")]
            yield Answer(question, "categorical", task, worker, (attribute.text or "").strip())


def _shapes(image: Any, task: Any, worker: Any, where: str) -> Iterator[Part]:
    size = size_of(image.get("height"), image.get("width"))
    unread: Counter[str] = Counter()
    for one in image:
        if one.tag not in _READ:
            unread[f"{one.tag} shapes (not supported)"] += 1
        elif one.tag in _MASKS and size is None:
            unread["masks of images without width and height"] += 1
    for what, count in unread.items():
        yield Dropped(what, count)
    noted = sum(len(one.findall("attribute")) for one in image if one.tag != "tag")
    if noted:
        yield Dropped("attributes of shapes (not supported)", noted)
    marks: dict[str, list[Any]] = {
        "boxes": [(*_sides(box), box.get("label")) for box in image.findall("box")],
        "points": [(*point, None, None, one.get("label")) for one in image.findall("points") for point in _points(one)],
        "masks": [(_region(one, size, where), one.get("label")) for one in image if one.tag in _MASKS]
        if size is not None
        else [],
    }
    for question, value in marks.items():
        # What could not be read is something that was seen.
        if value or not unread:
            yield Answer(question, "masks" if question == "masks" else "boxes", task, worker, value)
    lines = [(one.get("points"), one.get("label")) for one in image.findall("polyline")]
    if lines:
        yield Answer("shapes", "shapes", task, worker, lines)


def _points(shape: Any) -> list[tuple[float, float]]:
    """Corners as CVAT writes them: ``x,y;x,y``."""
    try:
        pairs = [tuple(map(float, point.split(","))) for point in (shape.get("points") or "").split(";") if point]
        points = [(x, y) for x, y in pairs]
    except ValueError:
        points = [(math.nan, math.nan)]
    if not all(math.isfinite(x) and math.isfinite(y) for x, y in points):
        raise FileFormatError(f"a {shape.tag} has points {shape.get('points')!r}, which are not pairs of numbers")
    return points


def _sides(box: Any) -> list[float]:
    """Sides of a box; of one that is turned, around its center, those it lies within."""
    left, top, right, bottom = (_number(box, name) for name in ("xtl", "ytl", "xbr", "ybr"))
    centre = ((left + right) / 2, (top + bottom) / 2)
    return bounds((left, top), (right - left, bottom - top), _number(box, "rotation", 0), centre)


def _region(shape: Any, size: tuple[int, int], where: str) -> Region:
    if shape.tag == "polygon":
        return of_polygons([_points(shape)], size, where)
    if shape.tag == "ellipse":
        centre, radii = ((_number(shape, x), _number(shape, y)) for x, y in (("cx", "cy"), ("rx", "ry")))
        return of_polygons([ellipse(centre, radii, _number(shape, "rotation", 0))], size, where)
    box = [_number(shape, name) for name in ("left", "top", "width", "height")]
    return of_lengths((shape.get("rle") or "").split(","), box, size, where)


def _number(shape: Any, name: str, default: float | None = None) -> float:
    text = shape.get(name)
    if text is None and default is not None:
        return default
    try:
        number = float(text)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise FileFormatError(f"a {shape.tag} has {name} {text!r}, which is not a number")
    return number


READER = Reader(
    NAME, "an XML file with <annotations> and <image>", lambda file: file.is_xml and knows(file.xml), answers
)
