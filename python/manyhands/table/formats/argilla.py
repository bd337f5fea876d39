"""Argilla: records with responses to several questions, as nested JSON, as flat columns, or as a data set of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from manyhands.table.formats.export import Answer, Dropped, Status, one_or_set
from manyhands.table.formats.files import ExportFile, Reader, rows_of
from manyhands.table.formats.spans import Document, text_among

NAME = "argilla"
_STATUS: Mapping[Any, Status] = {"submitted": "given", "discarded": "skipped", "draft": "skipped", None: "given"}


def knows(rows: list[Any]) -> bool:
    """Whether rows, parsed or of a frame, look like such an export."""
    return any(isinstance(row, Mapping) and (flat_questions(row) or _nested(row)) for row in rows[:10])


def flat_questions(row: Mapping[str, Any]) -> list[str]:
    """The questions of a record with columns for each."""
    ends = (".responses", ".suggestion")
    return list(dict.fromkeys(str(name).rpartition(".")[0] for name in row if str(name).endswith(ends)))


def _nested(row: Mapping[str, Any]) -> bool:
    return "fields" in row and any(isinstance(row.get(name), Mapping) for name in ("responses", "suggestions"))


def answers(files: Sequence[ExportFile]) -> Iterator[Answer | Dropped]:
    """Yield all answers of an export."""
    for file, number, row in rows_of(files):
        if not isinstance(row, Mapping):
            continue
        for answer in _record(row, row.get("id", file.numbered(number - 1)), file):
            marks = answer.kind == "sequences" or answer.said == []
            yield replace(answer, document=_document(row)) if marks else answer


def _record(row: Mapping[str, Any], task: Any, file: ExportFile) -> Iterator[Answer]:
    """Yield all answers about one record."""
    for question in flat_questions(row):
        values = row.get(f"{question}.responses")
        users = row.get(f"{question}.responses.users")
        states = row.get(f"{question}.responses.status")
        for place, value in enumerate(_listed(values)):
            state = _at(states, place)
            yield from _answer(question, task, file.annotator(_at(users, place)), value, _STATUS.get(state, "skipped"))
        if row.get(f"{question}.suggestion") is not None:
            agent = row.get(f"{question}.suggestion.agent") or "model"
            yield from _suggestion(question, task, agent, row[f"{question}.suggestion"])
    if _nested(row):
        for question, given in (row.get("responses") or {}).items():
            for one in _listed(given):
                if isinstance(one, Mapping):
                    state = _STATUS.get(one.get("status"), "skipped")
                    yield from _answer(question, task, file.annotator(one.get("user_id")), one.get("value"), state)
        for question, one in (row.get("suggestions") or {}).items():
            if isinstance(one, Mapping):
                yield from _suggestion(question, task, one.get("agent") or "model", one.get("value"))


def _document(row: Mapping[str, Any]) -> Document:
    """The field of a record that spans are of: its only text, or the one called so."""
    known = ("id", "status", "_server_id", "external_id")
    fields = row["fields"] if _nested(row) else {name: row[name] for name in row if "." not in name}
    texts = {name: value for name, value in fields.items() if name not in known} if isinstance(fields, Mapping) else {}
    return Document(text_among(texts, "text", []))


def _suggestion(question: str, task: Any, agent: Any, value: Any) -> Iterator[Answer]:
    """What a model suggested."""
    for one in _answer(question, task, agent, value, "given"):
        yield replace(one, source="model")


def _listed(values: Any) -> list[Any]:
    return [] if values is None else list(values)


def _at(values: Any, place: int) -> Any:
    found = _listed(values)
    return found[place] if place < len(found) else None


def _answer(question: str, task: Any, worker: Any, value: Any, status: Status) -> Iterator[Answer]:
    if value is None:
        return
    if isinstance(value, bool | str):
        yield Answer(question, "classes", task, worker, value, status=status)
    elif isinstance(value, int | float):
        yield Answer(question, "numbers", task, worker, float(value), status=status)
    elif isinstance(value, list) and all(isinstance(one, str) for one in value):
        kind, said = one_or_set(value)
        yield Answer(question, kind, task, worker, said, status=status)
    elif isinstance(value, list) and all(isinstance(one, Mapping) for one in value):
        if any("rank" in one for one in value):
            ranks = [(one.get("value"), one.get("rank")) for one in value]
            yield Answer(question, "rankings", task, worker, ranks, status=status)
        else:
            spans = [(one.get("start"), one.get("end"), one.get("label")) for one in value]
            yield Answer(question, "sequences", task, worker, spans, status=status)


def _recognizes(file: ExportFile) -> bool:
    return bool(flat_questions(dict.fromkeys(file.columns))) if file.is_table else file.is_json and knows(file.rows)


READER = Reader(NAME, "records with 'fields' and 'responses', or columns '<question>.responses'", _recognizes, answers)
