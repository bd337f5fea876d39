"""lm-evaluation-harness: samples that ``--log_samples`` writes, ``samples_<task>_<date>.jsonl`` in a folder per model.

Facts from the harness: a line per document and filter, with ``doc_id``, ``target``, ``resps``, ``filtered_resps``,
``filter``, ``metrics`` and the value of each metric under its name. A filter that found nothing gives ``[invalid]``. Of
tasks with choices, responses are log-likelihoods, one per choice, and the target is the place of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manyhands.io.exports.export import Answer, Dropped, Item, Part, path_name
from manyhands.io.exports.files import ExportFile, Reader
from manyhands.io.exports.judged import fields, one_kind_each, verdict

NAME = "lm-eval"
#: The models as the judges: their responses are the verdicts, and targets are the truth.
ANSWERS = "lm-eval-answers"
_FILE = re.compile(r"samples_(.+?)_\d{4}-\d\d-\d\dT[\d.-]+")
_INVALID = "[invalid]"


def answers(files: Sequence[ExportFile]) -> Iterator[Part]:
    """Yield the metrics of all samples: every metric, with its filter, is a worker that scores the output."""
    results: list[Answer] = []
    for task, model, many, row in _samples(files):
        about = path_name((model, *task)) if many else _bare(task)
        yield Item(about, _response_fields(row))
        metrics = row.get("metrics")
        names = metrics if isinstance(metrics, list) else []
        for name in names:
            value = row.get(name)
            worker = name if row.get("filter") in (None, "none") else f"{name},{row['filter']}"
            if isinstance(value, list | Mapping):
                yield Dropped("metrics of several values", 1, task[0])
                continue
            results.append(
                verdict(task[0], about, worker, value, system=model, item=_bare(task), annotator_kind="code")
            )
    yield from one_kind_each(results)


def answers_of_models(files: Sequence[ExportFile]) -> Iterator[Part]:
    """Yield the responses of models, each of which is a worker; responses of several filters count apart."""
    samples = list(_samples(files))
    filters = {(task[0], row.get("filter")) for task, _, _, row in samples}
    several = {task for task, _ in filters if sum(other == task for other, _ in filters) > 1}
    for task, model, _, row in samples:
        about, response, truth = _bare(task), _response(row), row.get("target")
        worker = f"{model},{row['filter']}" if task[0] in several else model
        yield Item(about, _response_fields(row))
        yield verdict(task[0], about, worker, response, failure="no answer was extracted" if response is None else None)
        if isinstance(truth, str | int):
            yield Answer(task[0], "categorical", about, None, str(truth), source="gold")


def _samples(files: Sequence[ExportFile]) -> Iterator[tuple[tuple[str, Any], str, bool, Mapping[str, Any]]]:
    """Yield task with document, model, whether there are several models, and content of all samples."""
    models = {file.path.resolve().parent.name for file in files}
    for file in files:
        match = _FILE.fullmatch(file.path.stem)
        name = file.worker if match is None else match[1]
        for row in file.rows:
            yield (name, row["doc_id"]), file.path.resolve().parent.name, len(models) > 1, row


def _bare(task: tuple[str, Any]) -> str:
    return path_name(task)


def _response_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    first = (row.get("arguments") or {}).get("gen_args_0") if isinstance(row.get("arguments"), Mapping) else None
    return {"input": (first or {}).get("arg_0"), "target": row.get("target")}


def _response(row: Mapping[str, Any]) -> str | None:
    """What a model answered: the filtered text, or the place of the most likely choice."""
    responses = row.get("filtered_resps") or []
    if len(responses) > 1 and all(isinstance(one, list) for one in responses):
        likely = [float(one[0]) for one in responses]
        return str(likely.index(max(likely)))
    first = responses[0] if responses else None
    return None if first in (None, "", _INVALID) or not isinstance(first, str) else first.strip()


def _recognizes(file: ExportFile) -> bool:
    return file.is_json and fields(next(iter(file.rows), None), "doc_id", "resps", "filtered_resps")


READER = Reader(NAME, "lines with 'doc_id', 'resps' and 'filtered_resps'", _recognizes, answers)
ANSWERS_READER = Reader(ANSWERS, READER.expects, _recognizes, answers_of_models)
