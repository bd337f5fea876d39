"""Exports that are recognized and not read, each with what to do instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from manyhands.errors import FileFormatError
from manyhands.io.exports.files import ExportFile

_YOLO = re.compile(r"\d+( -?\d*\.?\d+(e-?\d+)?){4,}\s*", re.IGNORECASE)
_AS_COCO = "export it as COCO, one file per annotator"


@dataclass(frozen=True)
class Unsupported:
    """A format that is not read."""

    name: str
    #: What to do instead, as an instruction.
    instead: str
    recognizes: Callable[[ExportFile], bool]


def reject_unsupported(file: ExportFile) -> None:
    """Raise for a file of a format that is not read, with what to do instead."""
    for one in UNSUPPORTED:
        if one.recognizes(file):
            raise FileFormatError(f"{file.where} is {one.name}, which is not read; {one.instead}")


def _first(file: ExportFile) -> Mapping[str, Any]:
    """The first object of a JSON document; empty where there is none."""
    if not file.is_json:
        return {}
    return next((row for row in file.rows[:1] if isinstance(row, Mapping)), {})


def _fields(*names: str) -> Callable[[ExportFile], bool]:
    return lambda file: set(names) <= set(_first(file))


def _within(name: str, *names: str) -> Callable[[ExportFile], bool]:
    """Whether a field of the first object is a list of objects with such fields, or such an object."""

    def check(file: ExportFile) -> bool:
        value = _first(file).get(name)
        inner = value[0] if isinstance(value, list) and value else value
        return isinstance(inner, Mapping) and set(names) <= set(inner)

    return check


def _xml(tag: str) -> Callable[[ExportFile], bool]:
    return lambda file: file.is_xml and str(file.xml.tag).rpartition("}")[2] == tag


def _of_voc(file: ExportFile) -> bool:
    return file.is_xml and file.xml.tag == "annotation" and file.xml.find("object/bndbox") is not None


def _of_yolo(file: ExportFile) -> bool:
    if file.source.kind != "csv" or file.path.suffix.lower() != ".txt":
        return False
    with file.source.open() as stream:
        head = bytes(stream.read(1 << 12)).decode("utf-8", "replace")
    lines = [line for line in head.split("\n") if line.strip()]
    return bool(lines) and all(_YOLO.fullmatch(line) for line in lines[:3])


def _of_superannotate(file: ExportFile) -> bool:
    first = _first(file)
    data = first.get("data")
    multimodal = isinstance(data, Mapping) and any(isinstance(one, Mapping) and "value" in one for one in data.values())
    return isinstance(first.get("metadata"), Mapping) and ("instances" in first or multimodal)


def _of_kili(file: ExportFile) -> bool:
    labels = _first(file).get("labels")
    return isinstance(labels, list) and any(isinstance(one, Mapping) and "jsonResponse" in one for one in labels)


UNSUPPORTED = (
    Unsupported(
        "Labelbox export v1",
        "export again with export v2 (NDJSON), with label details and performance details",
        lambda file: {"Label", "DataRow ID"} <= set(_first(file)) or {"Label", "Labeled Data"} <= set(_first(file)),
    ),
    Unsupported(
        "a SuperAnnotate export",
        "write one row per answer to a CSV file with columns task (metadata.name), worker (createdBy.email) and label "
        "(className, or the value of a component)",
        _of_superannotate,
    ),
    Unsupported(
        "a Scale AI task list",
        "write one row per response to a CSV file with columns task (task_id), worker and label",
        lambda file: (
            {"task_id", "response"} <= set(_first(file)) and bool({"params", "callback_url"} & set(_first(file)))
        ),
    ),
    Unsupported(
        "a Supervisely annotation",
        f"{_AS_COCO}, with Supervisely's app 'Export to COCO'",
        _within("objects", "classTitle", "geometryType"),
    ),
    Unsupported(
        "a Datumaro dataset",
        "convert it with `datum convert -f coco`, one dataset per annotator",
        _fields("infos", "categories", "items"),
    ),
    Unsupported("a V7 Darwin annotation", _AS_COCO, _within("item", "slots")),
    Unsupported(
        "a Dataturks export",
        "write one row per answer to a CSV file with columns task (content), worker and label",
        lambda file: {"content", "annotation", "extras"} <= set(_first(file)),
    ),
    Unsupported(
        "a LightTag export",
        "write one row per mark to a CSV file with columns document, worker (annotated_by), start, end and label",
        _within("examples", "content", "annotations"),
    ),
    Unsupported(
        "a tagtog annotation",
        "write one row per entity to a CSV file with columns document, worker (the member), start, end and label",
        _fields("annotatable", "anncomplete", "entities"),
    ),
    Unsupported(
        "a UBIAI export",
        "export it as spaCy JSON or in the IOB format: files .iob, one per annotator, are read",
        _fields("documentName", "document", "tokens"),
    ),
    Unsupported(
        "a Hasty export", _AS_COCO, _fields("project_name", "export_format_version", "label_classes", "images")
    ),
    Unsupported("an Encord export", _AS_COCO, _fields("label_hash", "data_hash", "data_units")),
    Unsupported(
        "a Kili export",
        "write one row per label to a CSV file with columns task (externalId), worker (author.email) and label",
        _of_kili,
    ),
    Unsupported("a Diffgram export", _AS_COCO, _fields("readme", "label_map", "attribute_groups_reference")),
    Unsupported(
        "a FiftyOne dataset",
        "export its labels with `dataset.export(dataset_type=fiftyone.types.COCODetectionDataset)`, one per annotator",
        _within("samples", "filepath", "_id"),
    ),
    Unsupported(
        "the output of a human loop of Amazon A2I",
        "write one row per entry of 'humanAnswers' to a CSV file with columns task, worker (workerId) and label",
        _fields("humanAnswers", "humanLoopName"),
    ),
    Unsupported(
        "a UIMA CAS in JSON",
        "export the project of INCEpTION as WebAnno TSV v3",
        _fields("%TYPES", "%FEATURE_STRUCTURES"),
    ),
    Unsupported("a UIMA CAS in XMI", "export the project of INCEpTION or WebAnno as WebAnno TSV v3", _xml("XMI")),
    Unsupported(
        "a GATE document",
        "export the annotations as inline BIO tags: files .bio, one per annotator, are read",
        _xml("GateDocument"),
    ),
    Unsupported(
        "a VIA 3 project",
        "write one row per answer to a CSV file with columns task, worker and label (projects of VIA 2 are read)",
        _fields("project", "config", "attribute", "file", "metadata", "view"),
    ),
    Unsupported(
        "a CVAT export of video tracks",
        "export the task again as 'CVAT for images 1.1', which has the shapes of every frame",
        lambda file: file.is_xml and file.xml.tag == "annotations" and file.xml.find("track") is not None,
    ),
    Unsupported(
        "a Pascal VOC file",
        "convert each annotator's files to one COCO file, since Pascal VOC names no annotators",
        _of_voc,
    ),
    Unsupported(
        "a YOLO label file",
        "convert each annotator's files to one COCO file, since YOLO stores neither annotators nor image sizes",
        _of_yolo,
    ),
    Unsupported(
        "a log of OpenAI Evals",
        "write one row per grade to a CSV file with columns task (sample_id), worker (the grader) and label",
        lambda file: {"run_id", "event_id", "sample_id", "type"} <= set(_first(file)),
    ),
)
