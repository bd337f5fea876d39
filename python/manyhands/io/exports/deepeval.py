"""DeepEval: the results of a test run, as it saves them (``.latest_run_full.json``, ``test_run_<date>.json``).

Facts from its classes: ``testCases`` and ``conversationalTestCases`` have a ``name`` and ``metricsData``, a list of
metrics with ``name``, ``score``, ``success`` (the score reached ``threshold``), ``reason``, ``evaluationModel`` and,
where the judge failed, ``error`` in place of the score.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manyhands.io.exports.export import Answer, Dropped, Item, Part, path_name
from manyhands.io.exports.files import ExportFile, Reader
from manyhands.io.exports.judged import family_of, fields, length_of, one_kind_each, verdict

NAME = "deepeval"
_CASES = ("testCases", "conversationalTestCases")


def answers(files: Sequence[ExportFile]) -> Iterator[Part]:
    """Yield pass or fail and the score of every metric: metrics are criteria, the models that evaluate are judges.

    Runs whose outputs for a case differ are of different systems, called by the run's identifier or its file.
    """
    cases = [(file, run, case) for file in files for run in file.rows for case in _cases(run)]
    outputs: dict[Any, set[str]] = {}
    for _, _, case in cases:
        outputs.setdefault(case.get("name"), set()).add(str(_output(case)))
    apart = any(len(output) > 1 for output in outputs.values())
    results: list[Answer] = []
    for file, run, case in cases:
        system = run.get("identifier") or (file.worker if apart else None)
        task = path_name((system, case["name"])) if apart else case["name"]
        yield Item(task, {"input": case.get("input"), "output": _output(case), "target": case.get("expectedOutput")})
        metrics = case.get("metricsData") or []
        if not metrics:
            yield Dropped("test cases without a metric")
        for metric in metrics:
            about = {
                "system": system,
                "item": case["name"] if apart else None,
                "length": length_of(_output(case)),
                "family": family_of(metric.get("evaluationModel")),
                "annotator_kind": "model" if metric.get("evaluationModel") else "code",
            }
            criterion = str(metric["name"])
            worker = metric.get("evaluationModel") or criterion
            score, passed = metric.get("score"), metric.get("success")
            if metric.get("error") is not None or score is None:
                results.append(verdict(criterion, task, worker, None, failure=metric.get("error"), **about))
                continue
            about["explanation"] = metric.get("reason")
            results.append(verdict(criterion, task, worker, float(score), **about))
            if isinstance(passed, bool):
                results.append(verdict(criterion, task, worker, "pass" if passed else "fail", **about))
    yield from one_kind_each(results)


def _cases(run: Mapping[str, Any]) -> list[Any]:
    lists = (run.get(name) for name in _CASES)
    return [case for cases in lists if isinstance(cases, list) for case in cases]


def _output(case: Mapping[str, Any]) -> Any:
    turns = case.get("turns")
    return turns[-1].get("content") if isinstance(turns, list) and turns else case.get("actualOutput")


def _recognizes(file: ExportFile) -> bool:
    if not file.is_json or not isinstance(next(iter(file.rows), None), Mapping):
        return False
    return any(fields(case, "name", "metricsData") for case in _cases(file.rows[0])[:1])


READER = Reader(NAME, "an object with 'testCases', which have 'name' and 'metricsData'", _recognizes, answers)
