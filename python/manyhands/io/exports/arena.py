"""FastChat (MT-bench) judgments and AlpacaEval annotations.

Facts from FastChat: a line has ``question_id``, ``turn`` and ``judge``, a list of model and prompt. Graded answers have
``model`` and ``score``, -1 where none was found. Pairs have ``model_1``, ``model_2`` and two games, the second with the
answers in the other order: ``g1_winner`` and ``g2_winner`` are ``model_1``, ``model_2``, ``tie`` or ``error``.

Facts from AlpacaEval: an annotation has ``instruction``, ``output_1``, ``output_2``, their ``generator_1`` and
``generator_2``, ``annotator`` and ``preference``: 1 to 2, 1.5 (formerly 0) for a tie, null where none was found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manyhands.errors import FileFormatError
from manyhands.io.exports.export import UNKNOWN, Answer, Part, path_name
from manyhands.io.exports.files import ExportFile, Reader, rows_of
from manyhands.io.exports.judged import check_id, fields, length_of, verdict

FASTCHAT = "fastchat"
ALPACA_EVAL = "alpaca-eval"


def judgments(files: Sequence[ExportFile]) -> Iterator[Part]:
    """Yield the scores and both games of every judgment; the judge's model is the worker."""
    for file, number, row in rows_of(files):
        key_parts = [row[name] for name in ("question_id", "turn") if row.get(name) is not None]
        task = path_name(key_parts)
        judge = row["judge"]
        worker = judge[0] if isinstance(judge, list) and judge else judge
        about = {"when": row.get("tstamp"), "cluster": row["question_id"]}
        if "g1_winner" not in row:
            score = row["score"]
            yield _numbers_only(
                verdict(
                    "score",
                    path_name((row["model"], *key_parts)),
                    worker,
                    None if score in (-1, None) else float(score),
                    failure="no rating was found" if score in (-1, None) else None,
                    system=row["model"],
                    item=task,
                    explanation=row.get("judgment"),
                    **about,
                )
            )
            continue
        sides = {"model_1": row["model_1"], "model_2": row["model_2"], "tie": "tie"}
        for game, (left, right) in enumerate((("model_1", "model_2"), ("model_2", "model_1")), 1):
            winner = row.get(f"g{game}_winner")
            if winner not in (*sides, "error", None):
                raise FileFormatError(
                    f"line {number} of {file.where}: g{game}_winner is {winner!r}, not model_1, model_2, tie or error"
                )
            answer = (sides[left], sides[right], sides.get(winner))
            extra = {**about, "explanation": row.get(f"g{game}_judgment"), "repeat": game}
            yield _comparison("winner", task, worker, answer, extra)


def preferences(files: Sequence[ExportFile]) -> Iterator[Part]:
    """Yield the preference of every annotation: the output nearer to it won."""
    for file, number, row in rows_of(files):
        left, right = (row.get(f"generator_{side}") or f"output_{side}" for side in (1, 2))
        preference = row["preference"]
        if preference is not None and preference != preference:
            preference = None
        if preference is not None and not (preference == 0 or 1 <= preference <= 2):
            raise FileFormatError(f"item {number} of {file.where}: preference is {preference!r}, not from 1 to 2")
        winner = None
        if preference is not None:
            winner = "tie" if preference in (0, 1.5) else left if preference < 1.5 else right
        lengths = {f"{name}_length": length_of(row.get(f"output_{side}")) for side, name in ((1, "left"), (2, "right"))}
        yield _comparison(
            "preference",
            row["instruction"],
            file.annotator(row["annotator"]),
            (left, right, winner),
            {**lengths, "explanation": row.get("raw_completion")},
        )


def _comparison(question: str, task: Any, worker: Any, said: tuple[Any, Any, Any], extra: Mapping[str, Any]) -> Answer:
    for value, what in ((task, "item"), (said[0], "output"), (said[1], "output")):
        check_id(value, what)
    details = {name: value for name, value in extra.items() if value is not None and name != "when"}
    if said[-1] is None:
        details["failure"] = "no preference was found"
    status = "failed" if said[-1] is None else "given"
    worker = UNKNOWN if worker in (None, "") else worker
    return Answer(question, "pairwise", task, worker, said, extra.get("when"), status=status, extra=details)  # type: ignore[arg-type]


def _numbers_only(answer: Answer) -> Answer:
    return (
        answer
        if answer.kind == "numeric"
        else Answer(
            answer.question,
            "numeric",
            answer.task,
            answer.worker,
            None,
            answer.when,
            status="failed",
            extra=answer.extra,
        )
    )


def _of_fastchat(file: ExportFile) -> bool:
    row = next(iter(file.rows), None) if file.is_json else None
    pairs = fields(row, "question_id", "judge", "model_1", "model_2", "g1_winner")
    return pairs or fields(row, "question_id", "judge", "model", "score", "turn")


def _of_alpaca_eval(file: ExportFile) -> bool:
    row = next(iter(file.rows), None) if file.is_json else None
    return fields(row, "instruction", "output_1", "output_2", "annotator", "preference")


READERS = (
    Reader(
        FASTCHAT,
        "lines with 'question_id', 'judge' and a 'score' or 'g1_winner' with its models",
        _of_fastchat,
        judgments,
    ),
    Reader(
        ALPACA_EVAL,
        "annotations with 'instruction', 'output_1', 'output_2', 'annotator' and 'preference'",
        _of_alpaca_eval,
        preferences,
    ),
)
