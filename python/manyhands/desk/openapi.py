"""The OpenAPI document of a desk."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

#: Any JSON value: the form of answers and ids depends on the kind.
_ANY: dict[str, Any] = {}
_TEXT = {"type": "string"}
_NAME = {"type": "string", "maxLength": 200}
_TASK = {"description": "id of a task; a list of two items for comparisons", **_ANY}
_ANSWER = {
    "description": "a class; a list of labels; a number; a text; the better item or null; a list of spans "
    "{start, end, tag}; true or false for boxes and masks",
    **_ANY,
}
_WORDS = {
    "by": {**_NAME, "description": "name of the person"},
    "client": {**_NAME, "description": "id of the window, which tasks are reserved for"},
    "note": {"type": "string", "maxLength": 10000},
}
#: What each status means.
_ERRORS = {
    400: "The body is not JSON",
    401: "The token is missing or wrong",
    403: "A request of another site",
    404: "The log has no such task",
    405: "Another method",
    408: "The request arrived too slowly",
    409: "The task was decided, is open in another window or hidden, or there is nothing to undo",
    413: "The request is too large",
    415: "The content type is not application/json",
    421: "The host is not this machine",
    422: "The answer or another value does not fit; nothing was recorded",
    503: "Too much work at once",
    504: "No answer in time",
    507: "The disk is full; nothing was recorded",
}
_ALWAYS = (401, 403, 405, 408, 413, 421)
_WORK = (*_ALWAYS, 400, 415, 422, 504)


def document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the desk's API."""
    progress = {"progress": {"$ref": "#/components/schemas/Progress"}}
    decision = _object({"task": _TASK, "answer": _ANSWER, **_WORDS}, "task", "answer")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "manyhands desk",
            "version": version("manyhands"),
            "description": "Adjudication of a log of annotations, and aggregation as a service.",
        },
        "security": [{"bearer": []}, {"basic": []}, {"query": []}],
        "paths": {
            "/health": {
                "get": {**_operation("health", "Whether the process answers", {"status": _TEXT}), "security": []}
            },
            "/session": {"get": _operation("session", "The form of the question", {"form": _TEXT, **progress})},
            "/progress": {
                "get": _operation(
                    "progress", "Counts, accuracy with intervals, effective annotators", {"n_tasks": _INT}
                )
            },
            "/explain": {
                "get": _operation(
                    "explain",
                    "The answer to a task, its confidence, votes and decision",
                    {"task": _TASK, "answer": _ANSWER, "votes": _LIST},
                    query={"task": _TEXT},
                    errors=(404, 409, 422, 504),
                )
            },
            "/next": {
                "post": _operation(
                    "next",
                    "The next task of a window, reserved for it; null if none is left",
                    {"task": {"type": ["object", "null"]}, **progress},
                    body=_object({"client": {**_NAME, "minLength": 1}}, "client"),
                )
            },
            "/adjudicate": {
                "post": _operation(
                    "adjudicate",
                    "Record a decision; answers with the votes after it is on disk",
                    {"decision": _OBJECT, "votes": _LIST, **progress},
                    body=decision,
                    errors=(404, 409, 507),
                )
            },
            "/skip": {
                "post": _operation(
                    "skip",
                    "Put a task at the end",
                    progress,
                    body=_object({"task": _TASK, **_WORDS}, "task"),
                    errors=(404, 409, 507),
                )
            },
            "/undo": {
                "post": _operation(
                    "undo",
                    "Take the latest decision or skip of a window back",
                    {"task": _OBJECT, **progress},
                    body=_object({name: _WORDS[name] for name in ("by", "client")}),
                    errors=(409, 507),
                )
            },
            "/release": {
                "post": _operation(
                    "release",
                    "Let other windows have the reserved task",
                    {"released": {"type": "boolean"}},
                    body=_object({"client": {**_NAME, "minLength": 1}}, "client"),
                )
            },
            "/aggregate": {
                "post": _operation(
                    "aggregate",
                    "Aggregate another log with the default method",
                    {"kind": _TEXT, "answers": _LIST, "workers": _LIST},
                    body=_object(
                        {
                            "rows": {"type": "array", "items": {"type": "object", "minProperties": 1}, "minItems": 1},
                            "kind": {"type": ["string", "null"]},
                        },
                        "rows",
                    ),
                    errors=(404, 503),
                )
            },
            "/setup": {
                "post": _operation("setup", "Label Studio: start an ML backend", {"model_version": _TEXT}, _OBJECT)
            },
            "/predict": {
                "post": _operation(
                    "predict",
                    "Label Studio: predictions for tasks of the log",
                    {"results": _LIST},
                    body=_object(
                        {
                            "tasks": {"type": "array", "items": _object({"id": {"type": ["integer", "string"]}}, "id")},
                            "label_config": {"type": ["string", "null"], "description": "XML of the project"},
                        },
                        "tasks",
                    ),
                )
            },
            "/webhook": {
                "post": _operation(
                    "webhook",
                    "Label Studio: record annotations that are marked as ground truth",
                    {"recorded": {"type": "boolean"}},
                    body=_object({"action": _ANY, "annotation": _ANY, "task": _ANY}),
                    errors=(404, 409, 507),
                )
            },
        },
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "basic", "description": "any user, the token as password"},
                "query": {"type": "apiKey", "in": "query", "name": "token"},
            },
            "schemas": {
                "Error": _object({"error": _TEXT}, "error"),
                "Progress": _object({"n_tasks": _INT, "n_decided": _INT, "n_skipped": _INT, "accuracy": _OBJECT}),
            },
        },
    }


_INT = {"type": "integer"}
_OBJECT: dict[str, Any] = {"type": "object"}
_LIST = {"type": "array"}


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties} | ({"required": list(required)} if required else {})


def _operation(
    name: str,
    summary: str,
    result: dict[str, Any],
    body: dict[str, Any] | None = None,
    query: dict[str, Any] | None = None,
    errors: tuple[int, ...] = (),
) -> dict[str, Any]:
    statuses = sorted({*(_ALWAYS if body is None else _WORK), *errors})
    responses = {"200": _response("Success", _object(result, *result))}
    for status in statuses:
        responses[str(status)] = _response(_ERRORS[status], {"$ref": "#/components/schemas/Error"})
    operation: dict[str, Any] = {"operationId": name, "summary": summary, "responses": responses}
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    if query is not None:
        operation["parameters"] = [
            {"name": one, "in": "query", "required": True, "schema": schema} for one, schema in query.items()
        ]
    return operation


def _response(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}
