"""OpenTelemetry: events ``gen_ai.evaluation.result`` in the file format of OTLP (JSON lines), as logs or in spans.

Facts from the conventions for generative AI: an event has ``gen_ai.evaluation.name`` and, as far as they apply,
``gen_ai.evaluation.score.value``, ``.score.label``, ``.explanation``, ``gen_ai.response.id`` and ``error.type``; it is
about the span that it belongs to. There is no attribute for who evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manyhands.io.exports.export import Answer, Dropped, Part
from manyhands.io.exports.files import ExportFile, Reader
from manyhands.io.exports.judged import fields, one_kind_each, verdict

NAME = "otel"
EVENT = "gen_ai.evaluation.result"
_PREFIX = "gen_ai.evaluation."
#: A resource with its name, a scope's name, and the event.
_Event = tuple[str | None, str | None, Mapping[str, Any], Mapping[str, Any]]


def answers(files: Sequence[ExportFile]) -> Iterator[Part]:
    """Yield labels and scores of all evaluations: the instrumentation scope is the judge, or the service."""
    events = [event for file in files for row in file.rows for event in _events(row)]
    scopes = {scope for _, scope, *_ in events if scope}
    results: list[Answer] = []
    for service, scope, event, event_data in events:
        task = event_data.get("gen_ai.response.id") or event.get("spanId")
        name = event_data.get(f"{_PREFIX}name")
        if task is None or name is None:
            yield Dropped("evaluations without a name, or without a response or span they are about")
            continue
        worker = scope if len(scopes) > 1 else service or scope or "unknown"
        value, label = event_data.get(f"{_PREFIX}score.value"), event_data.get(f"{_PREFIX}score.label")
        about = {
            "when": event.get("timeUnixNano"),
            "system": event_data.get("gen_ai.response.model") or event_data.get("gen_ai.request.model"),
            "cluster": event_data.get("gen_ai.conversation.id"),
            "explanation": event_data.get(f"{_PREFIX}explanation"),
        }
        if value is None and label is None:
            results.append(verdict(name, task, worker, None, failure=event_data.get("error.type"), **about))
        if label is not None:
            results.append(verdict(name, task, worker, str(label), **about))
        if value is not None:
            results.append(verdict(name, task, worker, float(value), **about))
    yield from one_kind_each(results)


def _events(row: Any) -> Iterator[_Event]:
    """Yield the evaluations of a line of logs or of spans."""
    if not isinstance(row, Mapping):
        return
    for part in [*(row.get("resourceLogs") or []), *(row.get("resourceSpans") or [])]:
        service = _attributes(part.get("resource") or {}).get("service.name")
        for scoped in [*(part.get("scopeLogs") or []), *(part.get("scopeSpans") or [])]:
            scope = (scoped.get("scope") or {}).get("name")
            for record in scoped.get("logRecords") or []:
                if _name_of(record) == EVENT:
                    yield service, scope, record, _attributes(record)
            for span in scoped.get("spans") or []:
                for event in span.get("events") or []:
                    if event.get("name") == EVENT:
                        yield service, scope, {**event, "spanId": span.get("spanId")}, _attributes(event)


def _name_of(record: Mapping[str, Any]) -> Any:
    return record.get("eventName") or _attributes(record).get("event.name")


def _attributes(holder: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes by name, with their values out of their wrappers; integers are written as text."""
    attributes = {}
    for one in holder.get("attributes") or []:
        kind, value = next(iter((one.get("value") or {"": None}).items()))
        attributes[one["key"]] = int(value) if kind == "intValue" else value
    return attributes


def _recognizes(file: ExportFile) -> bool:
    if not file.is_json or EVENT not in file.text:
        return False
    return any(fields(row, name) for row in file.rows[:1] for name in ("resourceLogs", "resourceSpans"))


READER = Reader(NAME, f"OTLP lines ('resourceLogs' or 'resourceSpans') with events {EVENT!r}", _recognizes, answers)
