"""Inspect: logs of evaluations, ``.eval`` or JSON, in which every scorer or grading model is a worker.

Facts from Inspect's log format: ``eval`` names the task and the model that is evaluated, ``samples`` have an ``id``, an
``epoch``, an ``input`` and ``scores``, by scorer, with a ``value`` that is a text such as C or I, a number, a boolean,
or an object of several values. A scorer that grades by a model keeps the dialogue in ``metadata.grading``. A grade that
could not be found is NaN, with a ``reason``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manyhands._base.checks import warn_of_data
from manyhands.errors import FileFormatError
from manyhands.io.exports.export import Answer, Dropped, Item, Part, path_name
from manyhands.io.exports.files import ExportFile, Reader
from manyhands.io.exports.judged import family_of, length_of, one_kind_each, verdict

NAME = "inspect"
#: The models that are evaluated as the judges: their answers are the verdicts, and targets are the truth.
ANSWERS = "inspect-answers"


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
    graded = [(file, *one) for file in files for one in _samples(file)]
    evals = {name for _, (name, _), *_ in graded}
    models = {model for _, (_, model), *_ in graded}
    epochs = any(epoch not in (None, 1) for _, _, _, epoch, _ in graded)
    scored = Counter(
        (model, sample, epoch, scorer)
        for _, model, sample, epoch, content in graded
        for scorer in content.get("scores") or {}
    )
    again = {scorer for (*_, scorer), n in scored.items() if n > 1}
    graders = _graders([content for *_, content in graded])
    unscored = 0
    results: list[Answer] = []
    for file, model, sample, epoch, content in graded:
        task = sample if not epochs else f"{sample} / {epoch}"
        task = task if len(models) < 2 else f"{model[1]} / {task}"
        task = task if len(evals) < 2 else f"{model[0]} / {task}"
        output = _output(content)
        yield Item(task, {"input": _text(content.get("input")), "output": output, "target": content.get("target")})
        scores = content.get("scores") or {}
        unscored += not scores
        about = {
            "system": model[1],
            "item": sample if len(evals) < 2 else path_name((model[0], sample)),
            "repeat": epoch if epochs else None,
            "length": length_of(output),
        }
        for scorer, score in scores.items():
            members = _panel(file, scorer, score)
            if members is None and isinstance(score, Mapping) and isinstance(score.get("value"), list):
                yield Dropped("scores that are lists without the votes of a panel")
                continue
            grader = graders.get(scorer)
            one = [(grader, scorer if grader is None else grader, score)]
            for model_of, name, part in one if members is None else members:
                worker = file.annotator(f"{name} ({file.worker})" if scorer in again else name)
                results.extend(_verdicts(task, worker, model_of, part, about))
    yield from one_kind_each(results)
    if unscored:
        yield Dropped("samples without a score", unscored)


def _verdicts(task: Any, worker: Any, grader: str | None, score: Any, about: Mapping[str, Any]) -> Iterator[Answer]:
    """Yield the verdicts of a score: one verdict, or one for each key of an object."""
    fields: Mapping[str, Any] = score if isinstance(score, Mapping) else {"value": score}
    value = fields.get("value")
    for question, part in value.items() if isinstance(value, Mapping) else [("score", value)]:
        missing = part is None or part != part
        yield verdict(
            str(question),
            task,
            worker,
            part,
            failure=(fields.get("reason") or "no grade") if missing else None,
            explanation=fields.get("explanation"),
            family=None if grader is None else family_of(grader),
            annotator_kind=None if grader is None else "model",
            **about,
        )


def _panel(file: ExportFile, scorer: str, score: Any) -> list[tuple[str | None, str, Mapping[str, Any]]] | None:
    """The votes behind a score that a panel gave, each with its model and its name; None for another score.

    The reducer ``majority`` and that of this library keep votes and failures in ``metadata.panel``. Models are named
    there, or where the scorer was made.
    """
    metadata = score.get("metadata") if isinstance(score, Mapping) else None
    panel = metadata.get("panel") if isinstance(metadata, Mapping) else None
    votes = panel.get("votes") if isinstance(panel, Mapping) else None
    if not isinstance(panel, Mapping) or not isinstance(votes, list):
        return None
    failures = {one["index"]: one for one in panel.get("failures") or []}
    models = _models_of(file.rows[0], scorer)
    models = models if len(models) == len(votes) == len(set(models)) else [None] * len(votes)
    names = panel.get("judges")
    if not isinstance(names, list) or len(names) != len(votes):
        names = [model or f"{scorer} [{place}]" for place, model in enumerate(models, 1)]
    return [
        (
            model,
            str(name),
            {"value": vote} | {key: failures.get(place, {}).get(key) for key in ("reason", "explanation")},
        )
        for place, (model, name, vote) in enumerate(zip(models, names, votes, strict=True))
    ]


def _models_of(log: Mapping[str, Any], scorer: str) -> list[Any]:
    """The models that a scorer was made with; scorers of one name are numbered in the scores of samples."""
    counts: Counter[str] = Counter()
    for scorer_entry in log["eval"].get("scorers") or []:
        name = str(scorer_entry.get("name"))
        name_used = name if not counts[name] else f"{name}{counts[name]}"
        counts[name] += 1
        models = (scorer_entry.get("options") or {}).get("model")
        if name_used == scorer and isinstance(models, list):
            return [one.get("model") if isinstance(one, Mapping) else one for one in models]
    return []


def answers_of_models(files: Sequence[ExportFile]) -> Iterator[Part]:
    """Yield what the evaluated models answered, as the scorers found it in their outputs: each model is a worker."""
    graded = [one for file in files for one in _samples(file)]
    evals = {name for (name, _), *_ in graded}
    unscored = 0
    for (name, model), sample, epoch, content in graded:
        task = sample if len(evals) < 2 else f"{name} / {sample}"
        answers = [
            score.get("answer") for score in (content.get("scores") or {}).values() if isinstance(score, Mapping)
        ]
        if not answers:
            unscored += 1
            continue
        answer = next((one for one in answers if one not in (None, "")), None)
        yield Item(task, {"input": _text(content.get("input")), "target": content.get("target")})
        yield verdict("answer", task, model, answer, failure=None if answer is not None else "no answer", repeat=epoch)
        if isinstance(content.get("target"), str):
            yield Answer("answer", "categorical", task, None, content["target"], source="gold")
    if unscored:
        yield Dropped("samples without a score", unscored)


def _graders(samples: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The model behind each scorer that grades by one, where no two scorers grade by the same."""
    graders: dict[str, set[Any]] = {}
    for sample in samples:
        for scorer, score in (sample.get("scores") or {}).items():
            metadata = score.get("metadata") if isinstance(score, Mapping) else None
            if isinstance(metadata, Mapping) and "panel" in metadata:
                continue  # of several models, only the first is there
            grading = metadata.get("grading") if isinstance(metadata, Mapping) else None
            for message in grading if isinstance(grading, list) else []:
                if isinstance(message, Mapping) and message.get("role") == "assistant":
                    graders.setdefault(scorer, set()).add(message.get("model"))
    names = {scorer: next(iter(models)) for scorer, models in graders.items() if len(models) == 1}
    counts = Counter(names.values())
    return {scorer: model for scorer, model in names.items() if model and counts[model] == 1}


def _samples(file: ExportFile) -> Iterator[tuple[Any, Any, Any, Mapping[str, Any]]]:
    """Yield task with model, sample, epoch and content of all samples of a log."""
    log = file.rows[0]
    samples = log.get("samples") or []
    if log["status"] == "started":
        raise FileFormatError(
            f"{file.where} is of an evaluation that has not ended (status 'started', {len(samples):,} samples): wait "
            "until it ends, or finish it with `inspect eval-retry`"
        )
    if log["status"] != "success":
        total = (log.get("results") or {}).get("total_samples", log["eval"].get("dataset", {}).get("samples"))
        of = "" if total is None else f" of {total:,}"
        warn_of_data(f"{file.where}: the evaluation ended with status {log['status']!r}; {len(samples):,}{of} samples")
    for sample in samples:
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


def _recognizes(file: ExportFile) -> bool:
    return file.is_json and knows(file.rows)


READER = Reader(NAME, "an object with 'version', 'status', 'eval' and 'plan'", _recognizes, answers)
ANSWERS_READER = Reader(ANSWERS, READER.expects, _recognizes, answers_of_models)
