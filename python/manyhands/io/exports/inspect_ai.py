"""Inspect: logs of evaluations as JSON, in which every scorer is a worker that grades samples.

Facts from Inspect's log format: ``eval`` names the task and the model that is evaluated, ``samples`` have an ``id``, an
``epoch``, an ``input`` and ``scores``, by scorer, with a ``value`` that is a text such as C or I, a number, a boolean,
or an object of several values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manyhands.io.exports.export import Answer, Dropped, Item, Part
from manyhands.io.exports.files import ExportFile, Reader

NAME = "inspect"


def knows(rows: list[Any]) -> bool:
    """Whether parsed JSON looks like such a log."""
    return (
        len(rows) == 1
        and isinstance(rows[0], Mapping)
        and isinstance(rows[0].get("eval"), Mapping)
        and {"version", "status", "plan"} <= set(rows[0])
    )


def answers(files: Sequence[ExportFile]) -> Iterator[Part]:
    """Yield the scores of all samples: letters and booleans as classes, numbers as numbers.

    The item is the output of a model for a sample, so logs of several models or tasks have items of their own. A
    scorer that scores the same item in several logs counts as one worker per log.
    """
    graded = [(file, *one) for file in files for one in _graded(file)]
    evals = {name for _, (name, _), *_ in graded}
    models = {model for _, (_, model), *_ in graded}
    epochs = any(epoch not in (None, 1) for _, _, _, epoch, _ in graded)
    scored = Counter(
        (model, sample, epoch, scorer)
        for _, model, sample, epoch, content in graded
        for scorer in content.get("scores") or {}
    )
    again = {scorer for (*_, scorer), n in scored.items() if n > 1}
    unscored = 0
    for file, model, sample, epoch, content in graded:
        task = sample if not epochs else f"{sample} / {epoch}"
        task = task if len(models) < 2 else f"{model[1]} / {task}"
        task = task if len(evals) < 2 else f"{model[0]} / {task}"
        yield Item(
            task, {"input": _text(content.get("input")), "output": _output(content), "target": content.get("target")}
        )
        scores = content.get("scores") or {}
        unscored += not scores
        for scorer, score in scores.items():
            worker = file.annotator(f"{scorer} ({file.worker})" if scorer in again else scorer)
            value = score.get("value") if isinstance(score, Mapping) else score
            for question, part in value.items() if isinstance(value, Mapping) else [("score", value)]:
                yield _answer(str(question), task, worker, part)
    if unscored:
        yield Dropped("samples without a score", unscored)


def _answer(question: str, task: Any, worker: Any, value: Any) -> Answer:
    if isinstance(value, int | float) and not isinstance(value, bool):
        # A question has one kind of answers.
        return Answer(f"{question} (number)", "numeric", task, worker, float(value))
    if value is None:
        return Answer(question, "categorical", task, worker, None, status="skipped")
    return Answer(question, "categorical", task, worker, str(value))


def _graded(file: ExportFile) -> Iterator[tuple[Any, Any, Any, Mapping[str, Any]]]:
    """Yield task with model, sample, epoch and content of all samples of a log."""
    log = file.rows[0]
    for sample in log.get("samples") or []:
        yield (log["eval"].get("task"), log["eval"].get("model")), sample["id"], sample.get("epoch"), sample


def _text(messages: Any) -> Any:
    """What a model was asked: a text, or the last message of a dialogue."""
    if not isinstance(messages, list) or not messages:
        return messages
    last = messages[-1]
    return last.get("content") if isinstance(last, Mapping) else str(last)


def _output(sample: Mapping[str, Any]) -> Any:
    output = sample.get("output")
    return output.get("completion") if isinstance(output, Mapping) else None


READER = Reader(
    NAME,
    "an object with 'version', 'status', 'eval' and 'plan'",
    lambda file: file.is_json and knows(file.rows),
    answers,
)
