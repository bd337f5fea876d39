"""What readers of judges' logs share: verdicts of unlike values as answers, and what failed kept next to them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from manyhands.errors import FileFormatError
from manyhands.io.exports.export import NUMBER, UNKNOWN, Answer

#: Who annotates, by the words of MLflow, Langfuse and promptfoo.
KINDS_OF_ANNOTATORS = {
    "HUMAN": "human",
    "ANNOTATION": "human",
    "LLM_JUDGE": "model",
    "AI_JUDGE": "model",
    "EVAL": "model",
    "CODE": "code",
}


def verdict(
    question: Any, task: Any, worker: Any, value: Any, *, when: Any = None, failure: Any = None, **extra: Any
) -> Answer:
    """Return a verdict as an answer: numbers as numbers, all else as classes; without a value, it failed."""
    check_id(task, "item")
    question, worker = str(question), UNKNOWN if worker in (None, "") else worker
    details = {name: one for name, one in extra.items() if one is not None}
    if value is None or failure is not None or (isinstance(value, float) and math.isnan(value)):
        details["failure"] = str(failure or "no verdict")
        return Answer(question, "categorical", task, worker, None, when, status="failed", extra=details)
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise FileFormatError(f"the score of {worker!r} for {task!r} is {value}; correct or drop it")
        return Answer(question, "numeric", task, worker, float(value), when, extra=details)
    return Answer(question, "categorical", task, worker, str(value), when, extra=details)


def check_id(value: Any, what: str) -> None:
    """Raise if an id is missing."""
    if value is None or value == "":
        raise FileFormatError(f"a verdict names no {what} that it is about")


def one_kind_each(verdicts: Iterable[Answer]) -> Iterator[Answer]:
    """Yield verdicts with one kind of answers per question: numbers get a question of their own next to classes.

    What failed is of the kinds that the judge gives elsewhere, or that others give.
    """
    verdicts = list(verdicts)
    kinds: dict[str, dict[str, None]] = {}
    of_worker: dict[tuple[str, Any], dict[str, None]] = {}
    for one in verdicts:
        if one.status != "failed":
            kinds.setdefault(one.question, {})[one.kind] = None
            of_worker.setdefault((one.question, one.worker), {})[one.kind] = None
    for one in verdicts:
        kinds_known = kinds.get(one.question, {"categorical": None})
        expected = of_worker.get((one.question, one.worker), kinds_known) if one.status == "failed" else (one.kind,)
        for kind in expected:
            apart = kind == "numeric" and len(kinds_known) > 1
            yield replace(one, kind=kind, question=f"{one.question}{NUMBER}" if apart else one.question)


def family_of(model: Any) -> str | None:
    """Return the provider in the name of a model, ``openai`` of ``openrouter/openai/gpt``; None where there is none."""
    parts = str(model).split("/")
    return parts[-2] if len(parts) > 1 else None


def length_of(text: Any) -> int | None:
    """Return the length of an output in characters; None for what is not text."""
    return len(text) if isinstance(text, str) else None


def fields(row: Any, *names: str) -> bool:
    """Whether a value is an object with such fields."""
    return isinstance(row, Mapping) and set(names) <= set(row)
