"""MLflow: assessments of traces by people, judges and code, a trace per line or in a list.

Facts from MLflow 3: the ``info`` of a trace has ``trace_id`` and ``assessments``, each with ``assessment_name``, a
``source`` (``source_type`` and ``source_id``) and either ``feedback`` (a ``value``, or an ``error``) or
``expectation``, the truth. An assessment that was replaced is not ``valid``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from manyhands.io.exports.export import Answer, Dropped, Item, Part
from manyhands.io.exports.files import ExportFile, Reader, rows_of
from manyhands.io.exports.judged import KINDS_OF_ANNOTATORS, fields, length_of, one_kind_each, verdict

NAME = "mlflow"


def answers(files: Sequence[ExportFile]) -> Iterator[Part]:
    """Yield all feedback, each source being a worker, and expectations as gold."""
    results: list[Answer] = []
    for _, _, row in rows_of(files):
        info = row.get("info", row)
        task = info.get("trace_id") or info["request_id"]
        metadata = info.get("trace_metadata") or {}
        output = metadata.get("mlflow.traceOutputs") or info.get("response")
        yield Item(task, {"input": metadata.get("mlflow.traceInputs") or info.get("request"), "output": output})
        about = {
            "system": metadata.get("mlflow.modelId"),
            "cluster": metadata.get("mlflow.trace.session"),
            "length": length_of(output),
        }
        for one in info["assessments"] or []:
            criterion, source = str(one["assessment_name"]), one.get("source") or {}
            kind = str(source.get("source_type", "unknown"))
            worker = source.get("source_id")
            worker = kind.lower() if worker in (None, "", "default") else worker
            expectation, feedback = one.get("expectation"), one.get("feedback")
            part = expectation if feedback is None else feedback
            value = (part or {}).get("value")
            if isinstance(value, list | Mapping):
                yield Dropped("assessments of several values", 1, criterion)
                continue
            if feedback is None:
                if value is not None:
                    results.append(replace(verdict(criterion, task, None, value), source="gold", extra=None))
                continue
            error = feedback.get("error")
            answer = verdict(
                criterion,
                task,
                worker,
                value,
                when=one.get("create_time"),
                failure=_reason(error) if error else None,
                explanation=one.get("rationale"),
                annotator_kind=KINDS_OF_ANNOTATORS.get(kind),
                **about,
            )
            results.append(replace(answer, status="rejected") if one.get("valid") is False else answer)
    yield from one_kind_each(results)


def _reason(error: Any) -> str:
    if not isinstance(error, Mapping):
        return str(error)
    return ": ".join(str(error[name]) for name in ("error_code", "error_message") if error.get(name))


def _recognizes(file: ExportFile) -> bool:
    row: Any = next(iter(file.rows), None) if file.is_json else None
    return fields(row, "trace_id", "assessments") or (fields(row, "info") and fields(row["info"], "assessments"))


READER = Reader(NAME, "traces with 'assessments' in their 'info'", _recognizes, answers)
