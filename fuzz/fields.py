"""Exports changed field by field, and independent counts of the answers that they hold.

Bytes make the choices: which export, which changes, which fields. So an engine that changes bytes changes exports, and
a file of bytes reproduces a surprise.
"""

from __future__ import annotations

import csv
import io
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
#: Samples of the project, and real exports where they are.
SAMPLES = ROOT / "tests" / "data" / "exports"
REAL = ROOT.parent / "shared" / "data" / "exports"

#: Endings of files that are parsed; others are read as bytes by other targets.
ENDINGS = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".xml", ".ann", ".txt")

#: Records that are kept of a file: more would only be slow.
MOST_RECORDS = 8

T = TypeVar("T")


class Choices:
    """Choices that bytes make, the first of everything once they are used up."""

    def __init__(self, data: bytes) -> None:
        self._data = iter(data)

    def below(self, n: int) -> int:
        """Return a number below `n`."""
        number = next(self._data, 0)
        return (number if n <= 256 else number << 8 | next(self._data, 0)) % n

    def of(self, values: Sequence[T]) -> T:
        """Return one of some values."""
        return values[self.below(len(values))]

    def order(self, values: Sequence[T]) -> list[T]:
        """Return values in another order."""
        return random.Random(self.below(256)).sample(list(values), len(values))


# ------------------------------------------------------------------------------------------------------ documents


@dataclass
class Document:
    """A file of an export, parsed: a value of JSON, values by line, rows of cells, an element of XML, or lines."""

    name: str
    form: str
    content: Any

    @classmethod
    def parsed(cls, path: Path, name: str) -> Document:
        """Parse a file, cut to a few records."""
        text = path.read_text(encoding="utf-8-sig")
        form = path.suffix.lstrip(".")
        if form in ("ann", "txt") or text.lstrip().startswith("#"):
            return cls(name, "lines", text.split("\n")[:60])
        if text.lstrip().startswith("<"):
            document = cls(name, "xml", ElementTree.fromstring(text))
        elif form in ("csv", "tsv"):
            rows = list(csv.reader(io.StringIO(text), delimiter="\t" if form == "tsv" else ","))
            document = cls(name, form, rows)
        else:
            try:
                document = cls(name, "json", json.loads(text))
            except ValueError:
                document = cls(name, "jsonl", [json.loads(line) for line in text.splitlines() if line.strip()])
        document.records = document.records[:MOST_RECORDS]
        return document

    def text(self) -> str:
        """Return the document as a file has it."""
        if self.form == "json":
            return json.dumps(self.content)
        if self.form == "jsonl":
            return "".join(f"{json.dumps(value)}\n" for value in self.content)
        if self.form == "xml":
            return ElementTree.tostring(self.content, encoding="unicode")
        if self.form == "lines":
            return "\n".join(self.content)
        sink = io.StringIO()
        csv.writer(sink, delimiter="\t" if self.form == "tsv" else ",", lineterminator="\n").writerows(self.content)
        return sink.getvalue()

    @property
    def records(self) -> list[Any]:
        """The parts of a document whose order has no meaning."""
        match self.form, self.content:
            case (("json" | "jsonl"), list()):
                return list(self.content)
            case "json", {"annotations": list()}:
                return list(self.content["annotations"])
            case (("csv" | "tsv"), [_, *rows]):
                return [row for row in rows if row]
            case "xml", _:
                return list(self.content.iterfind("image"))
            case _:
                return []

    @records.setter
    def records(self, records: list[Any]) -> None:
        match self.form, self.content:
            case (("json" | "jsonl"), list()):
                self.content = records
            case "json", {"annotations": list()}:
                self.content = self.content | {"annotations": records}
            case (("csv" | "tsv"), [head, *_]):
                self.content = [head, *records]
            case "xml", root:
                for image in root.findall("image"):
                    root.remove(image)
                root.extend(records)

    def copy(self, name: str | None = None) -> Document:
        """Return a document that can be changed without this one."""
        other = Document(name or self.name, self.form, None)
        if self.form == "xml":
            other.content = ElementTree.fromstring(ElementTree.tostring(self.content))
        else:
            other.content = json.loads(json.dumps(self.content))
        return other


def exports(*folders: Path) -> list[list[Document]]:
    """Return the exports in some folders: each file, and the files of a folder, one per worker, as one."""
    found = []
    for folder in folders:
        paths = sorted(path for path in folder.rglob("*") if path.suffix in ENDINGS and path.is_file())
        together: dict[tuple[Path, str], list[Path]] = {}
        for path in paths:
            first = path.relative_to(folder).parts[0]
            form = path.suffix if path.suffix in (".csv", ".json") else ""
            together.setdefault((folder / first, form) if folder == SAMPLES else (path, form), []).append(path)
        for (whole, _), group in together.items():
            names = [str(path.relative_to(whole)) if whole.is_dir() else path.name for path in group]
            documents = [Document.parsed(path, name) for path, name in zip(group, names, strict=True)]
            found.append(documents)
    return found


# -------------------------------------------------------------------------------------------------------- changes

ODD: tuple[Any, ...] = (None, "", 0, 7, -1, 2.5, "x", True, [], {}, [None], ["x"], {"x": 1}, "7", "nan", 1e300)


def changed(document: Document, choices: Choices) -> str:
    """Change a document in one place; return what was done."""
    if document.records and choices.below(4) == 0:
        return _change_records(document, choices)
    change = {"json": _change_json, "jsonl": _change_json, "xml": _change_xml, "lines": _change_lines}
    return change.get(document.form, _change_cells)(document, choices)


def _change_records(document: Document, choices: Choices) -> str:
    """Drop, repeat or move a record."""
    records, at = document.records, choices.below(len(document.records))
    what = choices.of(("drop", "repeat", "move", "empty"))
    if what == "drop":
        del records[at]
    elif what == "repeat":
        records.insert(at, records[at])
    elif what == "move":
        records.insert(choices.below(len(records)), records.pop(at))
    elif document.form in ("json", "jsonl"):
        records[at] = choices.of(ODD)
    document.records = records
    return f"{what} record {at}"


def _places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, Any, tuple[Any, ...]]]:
    """Walk over a value of JSON: every container with a key, and the way there."""
    for key in list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
        yield node, key, (*path, key)
        yield from _places(node[key], (*path, key))


def _change_json(document: Document, choices: Choices) -> str:
    """Drop, rename, retype, swap, nest, empty or repeat a field."""
    places = list(_places(document.content))
    if not places:
        return "nothing"
    node, key, path = choices.of(places)
    what = choices.of(("drop", "rename", "retype", "swap", "nest", "unnest", "null", "empty", "repeat", "reorder"))
    value = node[key]
    if what == "drop":
        del node[key]
    elif what == "rename" and isinstance(node, dict):
        names = sorted({name for other, name, _ in places if isinstance(other, dict)})
        new = choices.of([f"{key}2", *names])
        node[new] = node.pop(key)
    elif what == "retype":
        node[key] = _number_or_list(value) if isinstance(value, str) else str(value)
    elif what == "swap":
        other, name, _ = choices.of(places)
        if not isinstance(value, dict | list) and not isinstance(other[name], dict | list):
            node[key], other[name] = other[name], value
    elif what == "nest":
        node[key] = [value] if choices.below(2) else {"value": value}
    elif what == "unnest" and isinstance(value, list) and value:
        node[key] = value[0]
    elif what == "null":
        node[key] = None
    elif what == "empty":
        node[key] = type(value)() if isinstance(value, str | list | dict) else choices.of(ODD)
    elif what == "repeat" and isinstance(node, list):
        node.insert(key, json.loads(json.dumps(value)))
    elif what == "reorder" and isinstance(value, list):
        node[key] = choices.order(value)
    return f"{what} {'.'.join(map(str, path))}"


def _number_or_list(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return [text]


def _change_cells(document: Document, choices: Choices) -> str:
    """Change a cell, a column or the names of a table."""
    head, *rows = document.content
    if not rows or not head:
        return "nothing"
    column, row = choices.below(len(head)), choices.of(rows)
    what = choices.of(("blank", "retype", "swap", "short", "rename", "drop column", "repeat column", "move column"))
    if what == "drop column":
        for line in document.content:
            del line[column : column + 1]
    elif what in ("repeat column", "move column"):
        to = choices.below(len(head))
        for line in document.content:
            cell = line[column : column + 1]
            if what == "move column":
                del line[column : column + 1]
            line[to:to] = cell
    elif what == "rename":
        head[column] = choices.of([f"{head[column]}2", "", "x", *head])
    elif what == "short":
        del row[column:]
    elif column < len(row):
        other = choices.of(rows)
        if what == "swap" and column < len(other):
            row[column], other[column] = other[column], row[column]
        else:
            row[column] = "" if what == "blank" else choices.of(("7", "2.5", "x", "nan", "NA", "true", "[]", " ", "=1"))
    return f"{what} {column}"


def _change_xml(document: Document, choices: Choices) -> str:
    """Drop, repeat, rename or nest an element, or change one of its attributes."""
    elements = [(parent, child) for parent in document.content.iter() for child in parent]
    if not elements:
        return "nothing"
    parent, child = choices.of(elements)
    what = choices.of(("drop", "repeat", "rename", "nest", "attribute", "attribute", "attribute", "rename attribute"))
    names = sorted(child.attrib)
    if what == "drop":
        parent.remove(child)
    elif what == "repeat":
        parent.append(ElementTree.fromstring(ElementTree.tostring(child)))
    elif what == "rename":
        child.tag = choices.of(sorted({one.tag for _, one in elements} | {"x"}))
    elif what == "nest":
        parent.remove(child)
        ElementTree.SubElement(parent, "group").append(child)
    elif names:
        name = choices.of(names)
        value = child.attrib.pop(name)
        if what == "rename attribute":
            child.attrib[f"{name}2"] = value
        elif choices.below(3):
            child.attrib[name] = choices.of(("", "x", "nan", "-1", "1e999", "0", f"{value}0"))
    return f"{what} {child.tag}"


def _change_lines(document: Document, choices: Choices) -> str:
    """Drop, repeat or move a line, or change one of its fields."""
    lines = document.content
    at = choices.below(len(lines))
    what = choices.of(("drop", "repeat", "move", "field", "field", "field"))
    if what == "drop" and len(lines) > 1:
        del lines[at]
    elif what == "repeat":
        lines.insert(at, lines[at])
    elif what == "move":
        lines.insert(choices.below(len(lines)), lines.pop(at))
    elif what == "field":
        fields = lines[at].split("\t")
        fields[choices.below(len(fields))] = choices.of(("_", "*", "*[1]", "PER", "PER[2]", "", "x|y", "0-3", "1-1"))
        lines[at] = "\t".join(fields)
    return f"{what} line {at}"


# --------------------------------------------------------------------------------------------------------- counts


def _objects(document: Document) -> list[dict[str, Any]]:
    content = document.content if isinstance(document.content, list) else [document.content]
    return [row for row in content if isinstance(row, dict)]


def _list(node: Any, key: str) -> list[Any]:
    value = node.get(key) if isinstance(node, dict) else None
    return value if isinstance(value, list) else []


def _label_studio(document: Document) -> int:
    """Results of annotations, by their labels."""
    results = [
        one
        for task in _objects(document)
        for name in ("annotations", "completions")
        for annotation in _list(task, name)
        for part in _list(annotation, "result")
        for one in (part if isinstance(part, list) else [part])
    ]
    return sum(max(len(_list(one.get("value"), str(one.get("type")))), 1) for one in results if isinstance(one, dict))


def _prodigy(document: Document) -> int:
    """Lines, or the spans that were marked on them."""
    rows = [row for row in _objects(document) if "answer" in row]
    marking = [row for row in rows if str(row.get("_view_id")).startswith(("ner", "spans"))]
    return len(rows) + sum(len(_list(row, "spans")) - 1 for row in marking if _list(row, "spans"))


def _doccano(document: Document) -> int:
    """Spans and labels."""
    total = 0
    for row in _objects(document):
        marks = _list(row, "entities") or _list(row, "label") or _list(row, "annotations")
        total += len(marks) or isinstance(row.get("label"), str)
    return total


def _sagemaker(document: Document) -> int:
    """Annotations of workers."""
    return sum(len(_list(row, "annotations")) for row in _objects(document))


def _argilla(document: Document) -> int:
    """Responses, spans one by one."""
    responses = []
    for row in _objects(document):
        nested = row.get("responses")
        for question in nested if isinstance(nested, dict) else ():
            responses += [one.get("value") for one in _list(nested, question) if isinstance(one, dict)]
        for name in row:
            responses += _list(row, name) if name.endswith(".responses") else []
    return sum(_objects_in(value) or 1 for value in responses if value is not None)


def _objects_in(value: Any) -> int:
    return sum(isinstance(one, dict) for one in value) if isinstance(value, list) else 0


def _phoenix(document: Document) -> int:
    """Lines with a label or a score."""
    results = [row.get("result") for row in _objects(document)]
    return sum(isinstance(one, dict) and (one.get("label", one.get("score"))) is not None for one in results)


def _labelme(document: Document) -> int:
    """Shapes."""
    return sum(len(_list(row, "shapes")) for row in _objects(document))


def _inspect(document: Document) -> int:
    """Scores of samples."""
    scores = [one.get("scores") for row in _objects(document) for one in _list(row, "samples") if isinstance(one, dict)]
    return sum(len(one) for one in scores if isinstance(one, dict))


def _brat(document: Document) -> int:
    """Lines of text-bound annotations."""
    return sum(line.startswith("T") for line in document.content) if document.name.endswith(".ann") else 0


def _coco(document: Document) -> int:
    """Annotations of images."""
    return sum(len(_list(row, "annotations")) for row in _objects(document))


def _cvat(document: Document) -> int:
    """Tags and shapes of images."""
    shapes = {"tag", "box", "polygon", "polyline", "points", "mask", "ellipse", "cuboid", "skeleton"}
    return sum(child.tag in shapes for image in document.content.iter("image") for child in image)


def _webanno(document: Document) -> int:
    """Spans that have all features, each once, by its number in a sentence if it has one."""
    spans: set[Any] = set()
    for number, line in enumerate(document.content):
        sentence = line.partition("-")[0]
        cells = line.rstrip("\t").split("\t")[3:] if re.match(r"\d+-\d+\t", line) else []
        for place, part in enumerate(cells[-1].split("|") if cells and not {"", "_"} & set(cells) else ()):
            numbered = re.search(r"\[\d+\]$", part)
            spans.add((sentence, numbered[0]) if numbered else (number, place))
    return len(spans)


def _json(text: Any) -> Any:
    """Return the value of a cell that is JSON; None for other text."""
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return None


# Exact counts, over all documents of an export: what is read and what is reported as dropped, one by one.


def _label_studio_rows(documents: Sequence[Document]) -> int:
    """Count labels of regions and plain results."""
    rows: list[dict[str, Any]] = []
    for number, document in enumerate(documents):
        for row in _as_objects(document):
            cells = {name: _cell(value) if document.form == "csv" else value for name, value in row.items()}
            rows.append(cells | {"": (number, str(row.get("id")))})
    about = {"id", "annotation_id", "annotator", "lead_time", "created_at", "updated_at", "agreement", ""}
    names = dict.fromkeys(name for row in rows for name in row if name not in about)
    total = 0
    for name in names:
        if _is_a_result([(row[""], row.get(name)) for row in rows]):
            parts = [part for row in rows for part in _as_list(row.get(name)) if part not in (None, "")]
            total += sum(_labels_of(part) if isinstance(part, dict) else 1 for part in parts)
    return total


def _cell(text: Any) -> Any:
    content = _json(text) if isinstance(text, str) and text.lstrip()[:1] in ("[", "{") else None
    return text if content is None else content


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


#: Fields with the labels of a region, in the order in which they are looked for.
_REGIONS = ("choices", "taxonomy", "rating", "number", "labels", "hypertextlabels", "paragraphlabels")
_REGIONS += ("timeserieslabels", "timelinelabels", "videolabels", "rectanglelabels", "polygonlabels", "brushlabels")
_REGIONS += ("ellipselabels", "keypointlabels", "selected", "ranker", "datetime")


def _is_region(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    is_text = isinstance(part.get("text"), list) and set(part) <= {"text", "meta"}
    has_outline = {"x", "y", "width", "height"} <= set(part) or {"original_width", "points"} <= set(part)
    return is_text or has_outline or any(name in part for name in _REGIONS)


def _labels_of(region: dict[str, Any]) -> int:
    name = next((name for name in _REGIONS if name in region), None)
    return max(len(_list(region, name)), 1) if name else 1


def _is_a_result(cells: list[tuple[tuple[int, str], Any]]) -> bool:
    """Whether a column has regions, differs between annotations of a task, or is the same for several tasks."""
    filled = [(task, cell) for task, cell in cells if cell not in (None, "", [])]
    if any(map(_is_region, (part for _, cell in filled for part in _as_list(cell)))):
        return True
    if not filled or any(isinstance(cell, list | dict) for _, cell in filled):
        return False
    values: dict[Any, set[str]] = {}
    for task, cell in cells:
        values.setdefault(task, set()).add(str("" if cell is None else cell))
    differ = any(len(of) > 1 for of in values.values())
    return differ or len({str(cell) for _, cell in filled}) < len({task[1] for task, _ in filled})


def _as_objects(document: Document) -> list[dict[str, Any]]:
    if document.form == "json":
        return _objects(document)
    head, *rows = document.content
    return [dict(zip(head, row, strict=False)) for row in rows if row]


def _labelbox(documents: Sequence[Document]) -> int:
    """Count objects, answers, and the answers about objects and about answers; lines of an import."""
    total = 0
    for row in (row for document in documents for row in _objects(document)):
        if "projects" not in row:
            total += _labelbox_answers(row) if "answer" in row else 1 + _inner(row)
            continue
        for project in row["projects"].values():
            for label in _list(project, "labels"):
                annotations = label.get("annotations") or {}
                total += sum(1 + _inner(one) for one in annotations.get("objects") or [])
                total += sum(_labelbox_answers(one) for one in annotations.get("classifications") or [])
    return total


def _inner(one: Any) -> int:
    return len(one.get("classifications") or []) if isinstance(one, dict) else 0


def _labelbox_answers(one: dict[str, Any]) -> int:
    """Count the chosen options and what they were asked in turn, or the text."""
    answer = one.get("answer")
    if "radio_answer" in one or isinstance(answer, dict):
        option = one.get("radio_answer", answer)
        return _has_a_name(option) + _inner(option)
    if "checklist_answers" in one or "checklist_answer" in one or isinstance(answer, list):
        options = one.get("checklist_answers", one.get("checklist_answer", answer)) or []
        return sum(1 + _inner(option) for option in options)
    if "text_answer" in one:
        return one["text_answer"].get("content") is not None
    return 1


def _has_a_name(option: Any) -> bool:
    return bool(option.get("name") or option.get("value") or option.get("schemaId"))


def _zooniverse(documents: Sequence[Document]) -> int:
    """Count values, marks and choices, and the answers about marks and about choices; gold counts as two answers."""
    values: list[tuple[Any, Any, int]] = []
    for row in (row for document in documents for row in _as_objects(document)):
        workflow = row.get("workflow_name") or row.get("workflow_id")
        times = 2 if str(row.get("gold_standard")).lower() == "true" else 1
        for one in _zooniverse_tasks(_json(row.get("annotations") or "[]")):
            label = " ".join(str(one.get("task_label") or "").split())
            values.append(((workflow, str(one.get("task")), label), one["value"], times))
    drawing = {key for key, value, _ in values for mark in _zooniverse_marks(value) if _tool(mark)}
    return sum(_zooniverse_count(value, times, key in drawing) for key, value, times in values)


def _zooniverse_tasks(said: Any) -> Iterator[dict[str, Any]]:
    for one in said:
        value = one["value"]
        if isinstance(value, list) and value and all(isinstance(part, dict) and "task" in part for part in value):
            yield from _zooniverse_tasks(value)
        else:
            yield one


def _zooniverse_marks(value: Any) -> list[dict[str, Any]]:
    marks = value if isinstance(value, list) else []
    is_drawing = all(isinstance(mark, dict) and not {"choice", "select_label"} & set(mark) for mark in marks)
    return marks if is_drawing else []


def _tool(mark: dict[str, Any]) -> bool:
    """Whether a mark is a point or a rectangle."""
    sides = {name for name, value in mark.items() if value is not None} & {
        "x",
        "y",
        "width",
        "height",
        "r",
        "rx",
        "angle",
        "points",
    }
    return sides in ({"x", "y"}, {"x", "y", "width", "height"})


def _zooniverse_count(value: Any, times: int, drawing: bool) -> int:
    if value is None:
        return 0
    if drawing and (marks := _zooniverse_marks(value)):
        return sum((times if _tool(mark) else 1) + bool(mark.get("details")) for mark in marks)
    if isinstance(value, dict):
        return 1
    if not isinstance(value, list):
        return times
    if value and all(isinstance(one, dict) for one in value):
        if all("choice" in one for one in value):
            return times * len({str(one["choice"]) for one in value}) + sum(bool(one.get("answers")) for one in value)
        return 1
    return times * len(value)


def _via(documents: Sequence[Document]) -> int:
    """Count the regions of images, once for each attribute that any region has, and values of attributes of files."""
    n_regions, total, names = 0, 0, set()
    for document in documents:
        images: dict[str, Any] = {}
        if document.form == "csv":
            for row in _as_objects(document):
                images.setdefault(row["filename"], _json(row.get("file_attributes") or "{}"))
                if _json(row.get("region_shape_attributes") or "{}"):
                    n_regions += 1
                    names |= set(_json(row.get("region_attributes") or "{}"))
        else:
            for image in document.content.get("_via_img_metadata", document.content).values():
                images[str(image["filename"])] = image.get("file_attributes") or {}
                regions = image["regions"]
                for region in regions.values() if isinstance(regions, dict) else regions:
                    n_regions += 1
                    names |= set(region.get("region_attributes") or {})
        for attributes in images.values():
            for value in attributes.values():
                total += sum(map(bool, value.values())) if isinstance(value, dict) else value not in (None, "")
    return total + n_regions * max(len(names), 1)


def _webanno2(documents: Sequence[Document]) -> int:
    """Count spans in columns of spans alone; in other columns filled cells, unless relations are attached to them."""
    columns: list[tuple[str, list[str]]] = []
    for document in documents:
        first = next((line for line in document.content if not line.startswith("#id=")), "")
        names: list[str] = []
        if first.lstrip().startswith("# "):
            for layer in first.split("#")[1:]:
                name, *features = (part.strip() for part in layer.split("|"))
                relation = any(feature.startswith("AttachTo=") for feature in features)
                names += [f"{name} {feature}{' relation' * relation}" for feature in features if feature]
        lines = [line.rstrip("\r").split("\t")[2:] for line in document.content if line and not line.startswith("#")]
        for place in range(max(map(len, lines), default=0)):
            cells = [cells[place] if place < len(cells) else "_" for cells in lines]
            columns.append((names[place] if place < len(names) else str(place), cells))
    empty = {"_", "O", ""}
    tagged = {name for name, cells in columns if _tags(cells) and not name.endswith("relation")}
    total = 0
    for name, cells in columns:
        if name in tagged:
            total += _spans(cells)
        elif "AttachTo=" not in name:
            total += sum(cell not in empty for cell in cells)
    return total


def _tags(cells: list[str]) -> bool:
    parts = [part for cell in cells if cell not in ("_", "O", "") for part in cell.split("|")]
    return bool(parts) and all(part[:2] in ("B-", "I-") or part in ("_", "O", "") for part in parts)


def _spans(cells: list[str]) -> int:
    """Count the tags that begin a span: B-, and I- after a token without this label."""
    total, before = 0, set()
    for cell in cells:
        now = set()
        for part in cell.split("|"):
            if part[:2] in ("B-", "I-"):
                total += part[0] == "B" or part[2:] not in before
                now.add(part[2:])
        before = now
    return total


def _cells(fits: Callable[[str, list[str]], bool]) -> Callable[[Document], int]:
    def count(document: Document) -> int:
        head, *rows = document.content
        columns = [place for place, name in enumerate(head) if fits(name, head)]
        return sum(place < len(row) and row[place] != "" for row in rows for place in columns)

    return count


def most_of_a_record(count: Callable[[Document], int], document: Document) -> int:
    """Return the answers of the record that has most."""
    parts = [document.copy() for _ in document.records]
    for place, part in enumerate(parts):
        part.records = [part.records[place]]
    return max(map(count, parts or [document]))


#: How many answers a document of each platform holds, marks one by one.
COUNTS: dict[str, Callable[[Document], int]] = {
    "label-studio": _label_studio,
    "prodigy": _prodigy,
    "doccano": _doccano,
    "sagemaker": _sagemaker,
    "argilla": _argilla,
    "phoenix": _phoenix,
    "labelme": _labelme,
    "inspect": _inspect,
    "brat": _brat,
    "coco": _coco,
    "cvat": _cvat,
    "webanno": _webanno,
    "mturk": _cells(lambda name, head: name.startswith("Answer.")),
    "crowdflower": _cells(lambda name, head: f"{name}_gold" in head),
    "toloka": _cells(lambda name, head: name.startswith("OUTPUT:")),
}

#: How many answers an export of each platform holds and how many it must report as dropped, in sum and exactly.
EXACT: dict[str, Callable[[Sequence[Document]], int]] = {
    "webanno-tsv2": _webanno2,
    "label-studio-rows": _label_studio_rows,
    "labelbox": _labelbox,
    "zooniverse": _zooniverse,
    "via": _via,
}
