"""SageMaker Ground Truth: what each worker said of an object, as JSON within JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manyhands.errors import FileFormatError
from manyhands.table.formats.documents import parsed
from manyhands.table.formats.export import Answer, Dropped, one_or_set
from manyhands.table.formats.files import ExportFile, Reader, rows_of

NAME = "sagemaker"
#: Where lists of workers' answers are, in consolidation requests and in custom jobs.
_LISTS = ("annotations", "annotationsFromAllWorkers")


def knows(rows: list[Any]) -> bool:
    """Whether parsed JSON looks like a consolidation request, workers' answers, or an output manifest."""
    return any(isinstance(row, Mapping) and (_of_workers(row) or _consolidated(row)) for row in rows[:10])


def _of_workers(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    for name in _LISTS:
        found = row.get(name)
        if isinstance(found, list) and any(isinstance(one, Mapping) and "workerId" in one for one in found):
            return [one for one in found if isinstance(one, Mapping)]
    return []


def _consolidated(row: Mapping[str, Any]) -> bool:
    return ("source" in row or "source-ref" in row) and any(str(name).endswith("-metadata") for name in row)


def answers(files: Sequence[ExportFile]) -> Iterator[Answer | Dropped]:
    """Yield all answers of workers; an output manifest, which holds none, is refused."""
    found = False
    for file, number, row in rows_of(files):
        if not isinstance(row, Mapping):
            continue
        task = row.get("datasetObjectId", row.get("source-ref", row.get("source", file.numbered(number - 1))))
        for one in _of_workers(row):
            found = True
            yield from _answer(task, file.annotator(one.get("workerId")), one, f"{file.where}, object {number}")
    if not found:
        raise FileFormatError(
            f"{files[0].where} is an output manifest, which holds only consolidated labels; the answers of workers are "
            "in annotations/worker-response or annotations/consolidated-annotation/consolidation-request of the job"
        )


def _answer(task: Any, worker: Any, one: Mapping[str, Any], where: str) -> Iterator[Answer]:
    data = one.get("annotationData", {})
    content = data.get("content") if isinstance(data, Mapping) else None
    if isinstance(content, str):
        content = parsed(content, f"the content of {where}")
    if not isinstance(content, Mapping):
        return
    for question, said in content.items():
        value = said.get("label", said.get("labels")) if isinstance(said, Mapping) else said
        if isinstance(value, list):
            kind, value = one_or_set(value)
            yield Answer(str(question), kind, task, worker, value)
        elif isinstance(value, Mapping):
            kind, chosen = one_or_set([name for name, on in value.items() if on])
            yield Answer(str(question), kind, task, worker, chosen)
        elif value is not None:
            yield Answer(str(question), "classes", task, worker, value)


READER = Reader(
    NAME, "objects whose 'annotations' name a 'workerId'", lambda file: file.is_json and knows(file.rows), answers
)
