"""Shapes in exports: polygons, ellipses and brushes become masks, keypoints points, turned boxes upright ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import complaint
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhands as mh
from manyhands.cli import main
from manyhands.errors import FileFormatError
from manyhands.io.exports.shapes import unpack_bits

SQUARE = [[20, 20], [60, 20], [60, 60], [20, 60]]  # per cent of 10 × 10 pixels


def packed(values: bytes) -> list[int]:
    """What rle-pack makes of bytes: each run of equal ones as a repeat, and others as pieces of one."""
    bits = f"{len(values):032b}" + f"{7:05b}" + "".join(f"{width - 1:04b}" for width in (1, 4, 8, 16))
    at = 0
    while at < len(values):
        end = at
        while end < len(values) and values[end] == values[at] and end - at < 1 << 16:
            end += 1
        which, width = next((i, w) for i, w in enumerate((1, 4, 8, 16)) if end - at - 1 < 1 << w)
        bits += f"{int(end - at > 1)}{which:02b}{end - at - 1:0{width}b}{values[at]:08b}"
        at = end
    bits += "0" * (-len(bits) % 8)
    return [int(bits[i : i + 8], 2) for i in range(0, len(bits), 8)]


def region(kind: str, value: dict[str, Any], label: str = "dog", size: int = 10) -> dict[str, Any]:
    return {
        "id": "r1",
        "from_name": "shape",
        "type": kind,
        "original_width": size,
        "original_height": size,
        "value": value | {kind: [label]},
    }


def studio(path: Path, *results: list[dict[str, Any]]) -> Path:
    annotations = [{"completed_by": number, "result": result} for number, result in enumerate(results)]
    path.write_text(json.dumps([{"id": 5, "data": {"image": "dog.jpg"}, "annotations": annotations}]))
    return path


def test_polygons_brushes_and_ellipses_are_masks(tmp_path: Path) -> None:
    pixels = np.zeros((10, 10, 4), np.uint8)
    pixels[2:6, 2:6] = 255
    polygon = region("polygonlabels", {"points": SQUARE, "closed": True})
    brush = region("brushlabels", {"format": "rle", "rle": packed(pixels.tobytes())})
    ellipse = region("ellipselabels", {"x": 50, "y": 50, "radiusX": 30, "radiusY": 10, "rotation": 90})
    masks = mh.read(studio(tmp_path / "studio.json", [polygon], [brush], [ellipse], []))
    assert isinstance(masks, mh.Masks)
    assert masks.shapes.tolist() == [[10, 10]]
    wanted = pixels[:, :, 3] > 0
    assert np.array_equal(masks.mask(0), wanted)
    assert np.array_equal(masks.mask(1), wanted)
    # It was wide and is turned by a right angle.
    assert masks.mask(2).any(axis=1).sum() == 6
    assert masks.mask(2).any(axis=0).sum() == 2
    # Who drew nothing saw nothing.
    assert not masks.mask(3).any()
    found = mh.aggregate(masks)
    assert found.masks_[0].shape == (10, 10)


def test_each_label_is_a_mask_of_its_own(tmp_path: Path) -> None:
    other = [[0, 0], [10, 0], [10, 10], [0, 10]]
    dog, cat = region("polygonlabels", {"points": SQUARE}), region("polygonlabels", {"points": other}, "cat")
    ear = region("polygonlabels", {"points": [[50, 50], [90, 50], [90, 90], [50, 90]]})
    path = studio(tmp_path / "studio.json", [dog, ear, cat], [dog])
    masks = mh.read(path)
    assert masks.tasks.tolist() == ["5 / cat", "5 / dog"]
    frame = masks.to_frame().to_pylist()
    counts = {(row["task"], row["worker"]): int(masks.mask(at).sum()) for at, row in enumerate(frame)}
    # Regions of one label are joined, and overlap counts once.
    assert counts == {("5 / cat", "0"): 1, ("5 / cat", "1"): 0, ("5 / dog", "0"): 16 + 16 - 1, ("5 / dog", "1"): 16}
    out = tmp_path / "rows.csv"
    assert main(["import", str(path), "-o", str(out), "-q"]) == 0
    again = mh.read(out, kind="masks", task=["task", "label"])
    assert int(again.mask(0).sum()) == 1


def test_turned_boxes_become_upright_and_keypoints_points(tmp_path: Path) -> None:
    value = {"x": 50, "y": 50, "width": 20, "height": 10, "rotation": 90}
    with pytest.warns(mh.errors.DataWarning, match="1 box"):
        boxes = mh.read(studio(tmp_path / "studio.json", [region("rectanglelabels", value)]))
    # Around its upper left corner.
    assert boxes.boxes.tolist() == [pytest.approx([4, 5, 5, 7])]
    points = mh.read(studio(tmp_path / "points.json", [region("keypointlabels", {"x": 30, "y": 40, "width": 1})]))
    assert points.boxes.tolist() == [[3.0, 4.0]]


CVAT = """<annotations><image id="0" name="a.png" width="8" height="4">{}</image>
<image id="1" name="b.png" width="8" height="4"></image></annotations>"""


@pytest.mark.filterwarnings("ignore:.*1 box turned")
def test_cvat_draws_polygons_masks_and_points(tmp_path: Path) -> None:
    for job, shape in {
        "ann": '<polygon label="car" points="1,1;4,1;4,3;1,3"/><points label="nose" points="2,1;5,3"/>',
        "bob": '<mask label="car" left="1" top="1" width="3" height="2" rle="0, 4, 1, 1"/>',
        "eve": '<box label="car" xtl="2" ytl="1" xbr="4" ybr="3" rotation="45"/>',
    }.items():
        (tmp_path / f"{job}.xml").write_text(CVAT.format(shape))
    files = str(tmp_path / "*.xml")
    with pytest.warns(mh.errors.DataWarning, match="1 image"):
        masks = mh.read(files, question="masks")
    assert masks.tasks.tolist() == ["a.png"]
    drawn = [masks.mask(row)[1:3, 1:4].astype(int).tolist() for row in range(3)]
    assert drawn == [[[1, 1, 1], [1, 1, 1]], [[1, 1, 1], [1, 0, 1]], [[0, 0, 0], [0, 0, 0]]]
    with pytest.warns(mh.errors.DataWarning, match="1 box"):
        boxes = mh.read(files, question="boxes")
    half, drawn_boxes = 2**0.5, boxes.boxes[~np.isnan(boxes.boxes[:, 0])]
    assert drawn_boxes.tolist() == [pytest.approx([3 - half, 2 - half, 3 + half, 2 + half])]
    points = mh.read(files, question="points").boxes
    assert points[~np.isnan(points[:, 0])].tolist() == [[2.0, 1.0], [5.0, 3.0]]


def test_coco_holds_boxes_and_masks(tmp_path: Path) -> None:
    images = [{"id": 1, "file_name": "a.png", "height": 4, "width": 6}, {"id": 2, "file_name": "b.png"}]
    ring = {"image_id": 1, "category_id": 3, "bbox": [1, 1, 3, 2], "segmentation": [[1, 1, 4, 1, 4, 3, 1, 3]]}
    runs = {"image_id": 1, "category_id": 3, "segmentation": {"size": [4, 6], "counts": [5, 2, 2, 2, 2, 2, 9]}}
    for worker, one in {"ann": ring, "bob": runs}.items():
        content = {"images": images, "annotations": [one], "categories": [{"id": 3, "name": "car"}]}
        (tmp_path / f"{worker}.json").write_text(json.dumps(content))
    with pytest.warns(mh.errors.DataWarning, match="1 image"):
        masks = mh.read(str(tmp_path / "*.json"), question="masks")
    assert masks.workers.tolist() == ["ann", "bob"]
    assert np.array_equal(masks.mask(0), masks.mask(1))
    boxes = mh.read(str(tmp_path / "*.json"), question="boxes")
    assert repr(boxes) == "<Boxes: 1 box in 2 tasks by 2 workers, 1 label>"
    assert boxes.boxes[0].tolist() == [1.0, 1.0, 4.0, 3.0]


BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "a polygon that crosses itself": (
        "polygonlabels",
        {"points": [[0, 0], [50, 50], [50, 0], [0, 50]]},
        "image 5 by worker '0': region 'r1' of 'shape': a shape has a polygon that intersects itself",
    ),
    "points that are none": ("polygonlabels", {"points": [[1, 2, 3]]}, "points are pairs of numbers"),
    "a brush that is cut off": ("brushlabels", {"rle": packed(bytes(400))[:-1]}, "a brush is cut off"),
    "a brush of another size": ("brushlabels", {"rle": packed(bytes(16))}, "a brush is of another size than its image"),
    "a brush of text": ("brushlabels", {"rle": "AAAA"}, "a brush is a list of bytes"),
    "a place of text": ("ellipselabels", {"x": "left"}, "a region has 'x' 'left', which is not a number"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_shapes_are_named(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind, value, said = BAD[name]
    path = studio(tmp_path / "studio.json", [region(kind, value)])
    assert said in complaint(capsys, "aggregate", path, "", "-o", tmp_path / "out.csv")


def test_bad_files_of_cvat_and_coco_are_named(tmp_path: Path) -> None:
    job = tmp_path / "job.xml"
    job.write_text(CVAT.format('<mask label="car" left="1" top="1" width="3" height="2" rle="0, 4"/>'))
    with pytest.raises(FileFormatError, match=r"3.*2 has.*4 pixels"):
        mh.read(job, question="masks")
    job.write_text(CVAT.format('<mask label="car" left="7" top="1" width="3" height="2" rle="6"/>'))
    with pytest.raises(FileFormatError, match="image"):
        mh.read(job, question="masks")
    coco = tmp_path / "ann.json"
    coco.write_text(json.dumps({"images": [], "annotations": [{"image_id": 9, "bbox": [0, 0, 1, 1]}]}))
    with pytest.raises(FileFormatError, match="image 9"):
        mh.read(coco)


@settings(max_examples=40)
@given(st.binary(min_size=1, max_size=300), st.integers(1, 40))
def test_brushes_come_back_as_they_were_packed(values: bytes, times: int) -> None:
    long = bytes(byte for byte in values for _ in range(times))
    assert unpack_bits(bytes(packed(long)), len(long), "here").tobytes() == long
