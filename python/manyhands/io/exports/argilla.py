"""Argilla: records with responses to several questions, as nested JSON, as flat columns, or as a data set of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from manyhands.errors import argument
from manyhands.io.exports.export import Ambiguous, Answer, Dropped, Item, Part, Status, one_or_set
from manyhands.io.exports.files import Contents, ExportFile, Reader, rows_of
from manyhands.io.exports.spans import Document, text_among

NAME = "argilla"
_STATUS: Mapping[Any, Status] = {"submitted": "given", "discarded": "skipped", "draft": "skipped", None: "given"}


def knows(rows: list[Any]) -> bool:
    """Whether rows, parsed or of a frame, look like such an export."""
    return any(isinstance(row, Mapping) and (flat_questions(row) or _is_nested(row)) for row in rows[:10])


def flat_questions(row: Mapping[str, Any]) -> list[str]:
    """The questions of a record with columns for each."""
    ends = (".responses", ".suggestion")
    return list(dict.fromkeys(str(name).rpartition(".")[0] for name in row if str(name).endswith(ends)))


def _is_nested(row: Mapping[str, Any]) -> bool:
    return "fields" in row and any(isinstance(row.get(name), Mapping) for name in ("responses", "suggestions"))


def answers(files: Sequence[ExportFile]) -> Iterator[Part]:
    """Yield all answers of an export."""
    contents = Contents()
    #: Records by question and by ranked item, of items that no field of their record identifies.
    ranked: dict[str, dict[Any, set[Any]]] = {}
    for file, number, row in rows_of(files):
        if not isinstance(row, Mapping):
            yield Dropped("records that are not objects")
            continue
        task = row.get("id", file.numbered(number - 1))
        fields = _fields(row)
        contents.check(task, fields, file)
        yield Item(task, fields)
        for part in _record(row, task, file):
            if isinstance(part, Answer) and part.kind == "rankings":
                answer = _with_names(part, fields)
                if answer is part:
                    for item, _ in part.said:
                        ranked.setdefault(part.question, {}).setdefault(item, set()).add(task)
                part = answer
            elif isinstance(part, Answer) and (part.kind == "sequences" or part.said == []):
                part = replace(part, document=Document(text_among(fields, "text", [])))
            yield part
    for question, items in ranked.items():
        shared = [item for item, tasks in items.items() if len(tasks) > 1]
        if shared:
            yield Ambiguous(
                f"{question!r} ranks {shared[0]!r} in several records, and no field of a record is called so: is it "
                "the same item in all records, or another one in each? Name the fields of records after the ranked "
                "items; or write a table with `manyhands import` and read it with "
                f"{argument('kind', 'rankings')}, which takes items "
                "of one name for one item",
                question,
            )


def _with_names(answer: Answer, fields: Mapping[str, Any]) -> Answer:
    """A ranking whose items are called by their content, where fields of the record have their names."""
    texts = [fields.get(item) if isinstance(item, str) else None for item, _ in answer.said]
    all_distinct = all(isinstance(text, str) for text in texts) and len(set(texts)) == len(texts)
    ranking = [(text, rank) for text, (_, rank) in zip(texts, answer.said, strict=True)]
    return replace(answer, said=ranking) if all_distinct else answer


def _record(row: Mapping[str, Any], task: Any, file: ExportFile) -> Iterator[Part]:
    """Yield all answers about one record."""
    for question in flat_questions(row):
        values = row.get(f"{question}.responses")
        users = row.get(f"{question}.responses.users")
        states = row.get(f"{question}.responses.status")
        for place, value in enumerate(_as_list(values)):
            state = _at(states, place)
            yield from _answer(question, task, file.annotator(_at(users, place)), value, _STATUS.get(state, "skipped"))
        if row.get(f"{question}.suggestion") is not None:
            agent = row.get(f"{question}.suggestion.agent") or "model"
            yield from _suggestion(question, task, agent, row[f"{question}.suggestion"])
    if _is_nested(row):
        for question, values_of in (row.get("responses") or {}).items():
            for one in _as_list(values_of):
                if not isinstance(one, Mapping):
                    yield Dropped("responses that are not objects", 1, question)
                else:
                    state = _STATUS.get(one.get("status"), "skipped")
                    yield from _answer(question, task, file.annotator(one.get("user_id")), one.get("value"), state)
        for question, one in (row.get("suggestions") or {}).items():
            if isinstance(one, Mapping):
                yield from _suggestion(question, task, one.get("agent") or "model", one.get("value"))
    elif isinstance(row.get("responses"), Mapping):
        for question, values_of in row["responses"].items():
            yield Dropped(
                "responses of records without fields", len(values_of) if isinstance(values_of, list) else 1, question
            )


def _fields(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a record is about: its fields, nested or flat."""
    own_fields = ("id", "status", "_server_id", "external_id", "inserted_at", "updated_at")
    fields = row["fields"] if _is_nested(row) else {name: row[name] for name in row if "." not in str(name)}
    return (
        {name: value for name, value in fields.items() if name not in own_fields} if isinstance(fields, Mapping) else {}
    )


def _suggestion(question: str, task: Any, agent: Any, value: Any) -> Iterator[Answer]:
    """What a model suggested."""
    for one in _answer(question, task, agent, value, "given"):
        if isinstance(one, Answer):
            yield replace(one, source="model")


def _as_list(values: Any) -> list[Any]:
    return [] if values is None else list(values)


def _at(values: Any, place: int) -> Any:
    items = _as_list(values)
    return items[place] if place < len(items) else None


def _answer(question: str, task: Any, worker: Any, value: Any, status: Status) -> Iterator[Part]:
    if value is None:
        yield Dropped("responses without a value", 1, question)
    elif isinstance(value, bool | str):
        yield Answer(question, "categorical", task, worker, value, status=status)
    elif isinstance(value, int | float):
        yield Answer(question, "numeric", task, worker, float(value), status=status)
    elif isinstance(value, list) and all(isinstance(one, str) for one in value):
        kind, value_read = one_or_set(value)
        yield Answer(question, kind, task, worker, value_read, status=status)
    elif isinstance(value, list) and all(isinstance(one, Mapping) for one in value):
        if any("rank" in one for one in value):
            ranks = [(one.get("value"), one.get("rank")) for one in value]
            yield Answer(question, "rankings", task, worker, ranks, status=status)
        else:
            spans = [(one.get("start"), one.get("end"), one.get("label")) for one in value]
            yield Answer(question, "sequences", task, worker, spans, status=status)
    else:
        yield Dropped("responses of another kind (not supported)", 1, question)


def _recognizes(file: ExportFile) -> bool:
    return bool(flat_questions(dict.fromkeys(file.columns))) if file.is_table else file.is_json and knows(file.rows)


READER = Reader(NAME, "records with 'fields' and 'responses', or columns '<question>.responses'", _recognizes, answers)
