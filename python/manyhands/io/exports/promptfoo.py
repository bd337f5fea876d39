"""promptfoo: results of an evaluation, as ``promptfoo eval -o results.json`` writes them (versions 3 and 4).

Facts from its types: ``results.results`` has a row per test, prompt and provider, with ``testIdx``, ``promptIdx``,
``provider``, ``response`` and ``gradingResult``, whose ``componentResults`` are one per assertion: ``pass``, ``score``,
``reason`` and the ``assertion`` with ``type``, ``value``, ``metric`` and ``provider``, the model that graded. A grader
that failed counts as not passed, with ``graderError`` in its metadata or a reason that reports it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manyhands.io.exports.export import Answer, Dropped, Item, Part, path_name
from manyhands.io.exports.files import ExportFile, Reader
from manyhands.io.exports.judged import family_of, fields, length_of, one_kind_each, verdict

NAME = "promptfoo"
#: What a grader that failed has in its reason, in versions that do not mark it.
_FAILED = ("Could not extract JSON from", "produced malformed response")
#: Assertions by people.
_HUMAN = "human"


def answers(files: Sequence[ExportFile]) -> Iterator[Part]:
    """Yield pass or fail and the score of every assertion: metrics are criteria, and the models that grade are judges.

    An assertion without a model of its own is judged by its type.
    """
    rows = [(file, row) for file in files for row in _rows(file.rows[0])]
    prompts = {row.get("promptIdx") for _, row in rows}
    systems = {_system(row, prompts) for _, row in rows}
    results: list[Answer] = []
    for file, row in rows:
        system, item = _system(row, prompts), file.numbered(row["testIdx"])
        task = path_name((system, item)) if len(systems) > 1 else item
        output = (row.get("response") or {}).get("output")
        yield Item(task, {**(row.get("vars") or {}), "output": output})
        parts = (row.get("gradingResult") or {}).get("componentResults") or []
        if not parts:
            yield Dropped("results without an assertion (the system failed, or nothing was asserted)")
        for part in parts:
            assertion = part.get("assertion") or {}
            if not fields(part, "pass", "score") or assertion.get("metricOnly"):
                yield Dropped("assertions without a verdict")
                continue
            grader = _grader(assertion.get("provider"))
            kind = str(assertion.get("type", "assertion"))
            value = assertion.get("value")
            criterion = assertion.get("metric") or (value if grader and isinstance(value, str) else kind)
            about = {
                "system": system if len(systems) > 1 else None,
                "item": item if len(systems) > 1 else None,
                "length": length_of(output),
                "family": _family(grader),
                "annotator_kind": _HUMAN if kind == _HUMAN else "model" if grader else None,
                "explanation": part.get("reason"),
            }
            worker = grader or kind
            if _is_failure(part):
                results.append(verdict(criterion, task, worker, None, failure=part.get("reason"), **about))
                continue
            results.append(verdict(criterion, task, worker, "pass" if part["pass"] else "fail", **about))
            results.append(verdict(criterion, task, worker, float(part["score"]), **about))
    yield from one_kind_each(results)


def _rows(log: Mapping[str, Any]) -> list[Any]:
    inner = log.get("results")
    rows = inner.get("results") if isinstance(inner, Mapping) else inner
    return list(rows) if isinstance(rows, list) else []


def _system(row: Mapping[str, Any], prompts: set[Any]) -> str:
    """The provider that is evaluated, with the prompt where there are several."""
    provider = row.get("provider")
    name = (provider.get("label") or provider.get("id")) if isinstance(provider, Mapping) else provider
    if len(prompts) < 2:
        return str(name)
    label = (row.get("prompt") or {}).get("label") or row.get("promptIdx")
    return path_name((name, label))


def _grader(provider: Any) -> str | None:
    """The model that graded: a name, an object with an id, or an object by use, such as ``text``."""
    if isinstance(provider, Mapping):
        inner = next((provider[use] for use in ("id", "text") if provider.get(use)), None)
        return _grader(inner)
    return None if provider in (None, "") else str(provider)


def _family(grader: str | None) -> str | None:
    """The provider of a grader, as in ``anthropic:messages:name``."""
    if grader is None:
        return None
    return grader.partition(":")[0] if ":" in grader else family_of(grader)


def _is_failure(part: Mapping[str, Any]) -> bool:
    metadata = part.get("metadata")
    if isinstance(metadata, Mapping) and metadata.get("graderError"):
        return True
    return not part["pass"] and any(words in str(part.get("reason")) for words in _FAILED)


def _recognizes(file: ExportFile) -> bool:
    if not file.is_json or not isinstance(next(iter(file.rows), None), Mapping):
        return False
    rows = _rows(file.rows[0])
    return len(file.rows) == 1 and bool(rows) and fields(rows[0], "gradingResult", "testIdx")


READER = Reader(NAME, "'results' with 'testIdx' and 'gradingResult'", _recognizes, answers)
