"""Langfuse: scores as its API returns them (versions 1 to 3), pages of ``data`` or a list or a line each.

Facts from the definition of the API: a score has a ``name``, a ``source`` (ANNOTATION, API or EVAL), a ``dataType`` and
a ``value``; versions 1 and 2 give classes and booleans as ``stringValue``. It is about a ``traceId``, ``observationId``
or ``sessionId``, in version 3 a ``subject`` with ``kind`` and ``id``; there the author is in ``annotation`` and the
comment in ``details``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manyhands.io.exports.export import Answer, Dropped, Part
from manyhands.io.exports.files import ExportFile, Reader
from manyhands.io.exports.judged import KINDS_OF_ANNOTATORS, family_of, fields, one_kind_each, verdict

NAME = "langfuse"
#: Keys of a score's metadata that may name the judge.
_JUDGES = ("judge", "evaluator", "model")
_OTHER = ("TEXT", "CORRECTION")


def answers(files: Sequence[ExportFile]) -> Iterator[Part]:
    """Yield all scores: annotators are workers, and so are the judges that ``metadata`` names; names are criteria."""
    results: list[Answer] = []
    for score in (score for file in files for score in _scores(file)):
        if score["dataType"] in _OTHER:
            yield Dropped(f"scores of type {score['dataType']} (texts)", 1, score["name"])
            continue
        subject, task, session = _subject(score)
        if task is None:
            yield Dropped("scores without a trace, observation or session", 1, score["name"])
            continue
        details = score.get("details") or score
        author = (score.get("annotation") or score).get("authorUserId")
        metadata = details.get("metadata")
        judge = next((metadata[key] for key in _JUDGES if metadata.get(key)), None) if fields(metadata) else None
        value = score.get("stringValue") if score["dataType"] != "NUMERIC" else score.get("value")
        value = score.get("value") if value is None else value
        if score["dataType"] == "BOOLEAN" and isinstance(value, int | float):
            value = str(bool(value))
        results.append(
            verdict(
                str(score["name"]),
                task,
                author or judge or str(score["source"]).lower(),
                value,
                when=score.get("timestamp"),
                cluster=session if subject != "session" else None,
                family=None if judge is None else family_of(judge),
                annotator_kind=KINDS_OF_ANNOTATORS.get(score["source"]),
                explanation=details.get("comment"),
            )
        )
    yield from one_kind_each(results)


def _subject(score: Mapping[str, Any]) -> tuple[str, Any, Any]:
    """What a score is about: its kind and id, and the session where that is known."""
    subject = score.get("subject")
    if isinstance(subject, Mapping):
        return str(subject.get("kind")), subject.get("id"), score.get("sessionId")
    for kind in ("observation", "trace", "session"):
        if score.get(f"{kind}Id") is not None:
            return kind, score[f"{kind}Id"], score.get("sessionId")
    return "", None, None


def _scores(file: ExportFile) -> list[Any]:
    return [one for row in file.rows for one in (row["data"] if fields(row, "data", "meta") else [row])]


def _recognizes(file: ExportFile) -> bool:
    if not file.is_json or not isinstance(next(iter(file.rows), None), Mapping):
        return False
    first = file.rows[0]
    scores = first["data"] if fields(first, "data", "meta") and isinstance(first["data"], list) else [first]
    return fields(next(iter(scores), None), "name", "source", "dataType", "value")


READER = Reader(NAME, "scores with 'name', 'source', 'dataType' and 'value'", _recognizes, answers)
