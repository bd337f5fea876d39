"""SageMaker Ground Truth: the answer of each worker to an object, as JSON within JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manyhands.errors import FileFormatError
from manyhands.io.exports.documents import parse_json
from manyhands.io.exports.export import Answer, Dropped, Item, Part, one_or_set
from manyhands.io.exports.files import Contents, ExportFile, Reader, rows_of
from manyhands.io.exports.spans import Document

NAME = "sagemaker"
#: Where lists of workers' answers are: in consolidation requests, in custom jobs, and in workers' responses.
_LISTS = ("annotations", "annotationsFromAllWorkers", "answers")


def knows(rows: list[Any]) -> bool:
    """Whether parsed JSON looks like a consolidation request, workers' answers, or an output manifest."""
    return any(isinstance(row, Mapping) and (_of_workers(row) or _is_consolidated(row)) for row in rows[:10])


def _of_workers(row: Mapping[str, Any]) -> list[Any]:
    for name in _LISTS:
        answers = row.get(name)
        if isinstance(answers, list) and any(isinstance(one, Mapping) and "workerId" in one for one in answers):
            return answers
    return []


def _is_consolidated(row: Mapping[str, Any]) -> bool:
    return ("source" in row or "source-ref" in row) and any(str(name).endswith("-metadata") for name in row)


def answers(files: Sequence[ExportFile]) -> Iterator[Part]:
    """Yield all answers of workers; an output manifest, which holds none, is rejected."""
    has_workers = False
    contents = Contents()
    for file, number, row in rows_of(files):
        if not isinstance(row, Mapping):
            yield Dropped("values that are not objects")
            continue
        ones = _of_workers(row)
        lost = sum(len(row[name]) for name in _LISTS if not ones and isinstance(row.get(name), list))
        if lost:
            yield Dropped("answers without a workerId", lost)
        # A file of workers' responses is in a folder named after its object.
        numbered = file.path.resolve().parent.name if "answers" in row else file.numbered(number - 1)
        task = row.get("datasetObjectId", row.get("source-ref", row.get("source", numbered)))
        content = row.get("dataObject")
        if ones and content is not None:
            contents.check(task, content, file)
            yield Item(task, content if isinstance(content, Mapping) else {"content": content})
        for one in ones:
            has_workers = True
            if not isinstance(one, Mapping):
                yield Dropped("answers that are not objects")
                continue
            worker = file.annotator(one.get("workerId"))
            yield from _answer(task, worker, one, _text(content), f"{file.where}, object {number}")
    if not has_workers:
        raise FileFormatError(
            f"{files[0].where} is an output manifest, which holds only consolidated labels; the answers of workers are "
            "in annotations/worker-response or annotations/consolidated-annotation/consolidation-request of the job"
        )


def _text(content: Any) -> str | None:
    """The text of an object, where it is one."""
    text = content.get("content") if isinstance(content, Mapping) else content
    return text if isinstance(text, str) else None


def _answer(task: Any, worker: Any, one: Mapping[str, Any], text: str | None, where: str) -> Iterator[Part]:
    data = one.get("annotationData", {})
    content = one.get("answerContent", data.get("content") if isinstance(data, Mapping) else None)
    if isinstance(content, str):
        content = parse_json(content, f"the content of {where}")
    if not isinstance(content, Mapping):
        yield Dropped("answers without content")
        return
    when, seconds = one.get("submissionTime"), one.get("timeSpentInSeconds")
    for question, value in content.items():
        answer = _read_answer(value)
        if isinstance(answer, str):
            yield Dropped(answer, 1, str(question))
        else:
            document = Document(text) if answer[0] == "sequences" else None
            yield Answer(str(question), answer[0], task, worker, answer[1], when, seconds, document=document)


def _read_answer(value: Any) -> tuple[str, Any] | str:
    """Kind and content of an answer; or what it is, if it cannot be read."""
    if isinstance(value, Mapping):
        if isinstance(value.get("boundingBoxes"), list):
            return "boxes", [_box(one) for one in value["boundingBoxes"]]
        if isinstance(value.get("entities"), list):
            return "sequences", [
                (one.get("startOffset"), one.get("endOffset"), one.get("label")) for one in value["entities"]
            ]
        labels = value.get("label", value.get("labels"))
        if labels is not None:
            value = labels
    if isinstance(value, Mapping):  # radio buttons and check boxes: names, and which are on
        if not value or not all(isinstance(on, bool) for on in value.values()):
            return "answers of another kind (not supported)"
        return one_or_set([name for name, on in value.items() if on])
    if isinstance(value, list):
        if any(isinstance(label, list | dict) for label in value):
            return "answers of another kind (not supported)"
        return one_or_set(value)
    return ("categorical", value) if value is not None else "answers without a value"


def _box(one: Any) -> tuple[float, float, float, float, Any]:
    try:
        left, top, width, height = (float(one[name]) for name in ("left", "top", "width", "height"))
    except (KeyError, TypeError, ValueError):
        raise FileFormatError(f"a bounding box is left, top, width and height, not {str(one)[:60]}") from None
    return left, top, left + width, top + height, one.get("label")


READER = Reader(
    NAME,
    "objects whose 'annotations' or 'answers' name a 'workerId'",
    lambda file: file.is_json and knows(file.rows),
    answers,
)
