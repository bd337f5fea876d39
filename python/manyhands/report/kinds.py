"""Content of a report on answers that are not classes, worded for each kind."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from manyhands import agreement, metrics
from manyhands._base.checks import plural
from manyhands._base.verdict import name_doubt, percent, state_expected
from manyhands.io.shown import with_shown
from manyhands.report import charts
from manyhands.report.content import (
    LONGEST,
    MOST_TASKS,
    MOST_WORKERS,
    RESAMPLES,
    Z95,
    Coefficient,
    Column,
    Content,
    Part,
    Row,
    Table,
    coefficient,
    half_of_errors,
    method_of,
    to_review,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from manyhands._base.kind import KindSpec

#: Columns of answers that the page shows, in its order.
_ANSWERS = {
    "rank": Column("Rank", "place of the item; 1 is best"),
    "task": Column("Task", "id of the task"),
    "item": Column("Item", "id of the item"),
    "sequence": Column("Document", "id of the sequence or document"),
    "shown": Column("Shown", "what the task shows to workers"),
    "words": Column("Words", "the words inside the span"),
    "start": Column("Start", "first token or character of the span, counted from 0"),
    "end": Column("End", "first token or character after the span"),
    "tag": Column("Type", "type of the span"),
    "value": Column("Value", "estimated value"),
    "text": Column("Text", "the fused text"),
    "labels": Column("Labels", "labels in the answer"),
    "answer": Column("Answer", "the answer"),
    "label": Column("Class", "class of the object"),
    "score": Column("Score", "log-odds of winning against an average item"),
    "cluster": Column("Cluster", "id of the cluster"),
    "x1": Column("Left", "left edge"),
    "y1": Column("Top", "top edge"),
    "x2": Column("Right", "right edge"),
    "y2": Column("Bottom", "bottom edge"),
    "x": Column("x", "distance from the left"),
    "y": Column("y", "distance from the top"),
    "pixels": Column("Pixels", "marked pixels"),
    "disputed": Column("Disputed", "share of the marked pixels on which workers differ"),
    "confidence": Column("Confidence", "probability that the answer is correct"),
    "probability": Column("Confidence", "probability of exactly this span"),
    "start_probability": Column("Start confidence", "probability that a span begins here"),
    "end_probability": Column("End confidence", "probability that a span ends here"),
    "n_workers": Column("Drawn by", "number of workers who drew the object"),
    "error": Column("Standard error", "standard error of the estimate"),
    "low": Column("Interval, low", "lower end of the interval of the estimate"),
    "high": Column("Interval, high", "upper end of the interval of the estimate"),
    "rank_low": Column("Best rank", "best rank that the interval allows"),
    "rank_high": Column("Worst rank", "worst rank that the interval allows"),
}
_WORKERS = {
    "worker": Column("Worker", "who gave the answers"),
    "n_answers": Column("Answers", "number of answers the worker gave"),
    "n_spans": Column("Spans", "number of spans the worker marked"),
    "skill": Column("Skill", "overall quality; larger is better"),
    "skill_error": Column("Skill, standard error", "standard error of the skill"),
    "accuracy": Column("Accuracy", "share of the worker's labels that are correct"),
    "precision": Column("Precision", "share of the worker's spans that are in the answer"),
    "recall": Column("Recall", "share of what is there that the worker found"),
    "omitted": Column("Omissions", "share of words that the worker left out"),
    "inserted": Column("Insertions", "share of gaps in which the worker added a word"),
    "specificity": Column("Specificity", "share of what is not there that the worker left alone"),
    "false_positives": Column("False boxes per task", "objects per task that the worker drew and that do not exist"),
    "bias": Column("Bias", "by how much the worker's answers are too high, in units of the answer"),
    "scale": Column("Scale", "change of the worker's answer per unit of the true value; 1 is exact"),
    "noise": Column("Noise", "standard deviation of the worker's answers around their own trend"),
    "left_bias": Column("Position bias", "log-odds by which the worker favors the left item; 0 is unbiased"),
    "spammer_score": Column("Attention", "0: answers do not depend on the truth (spammer); 1: always correct"),
}
#: Level of the intervals on the page.
_LEVEL = 0.95
#: Masks that are compared with the answers.
_MOST_MASKS = 2_000


def content_of_kind(model: Any, votes: Any, scores: Mapping[str, Any] | None) -> Content:
    """Collect the content of a report on answers of any kind; `scores` are measures against known answers."""
    with warnings.catch_warnings():
        # The page lists warnings in a section of its own.
        warnings.simplefilter("ignore")
        coefficients = _AGREEMENT[votes.kind](votes, model) if votes.kind in _AGREEMENT else []
    kind, spec = votes.kind, votes.spec
    answers = _answers_of(model, votes)
    workers = model.workers_frame()
    confidence = _confidence(spec, answers)
    level = percent(_level(answers))
    described = _describe_columns(spec, level)
    specs: dict[str, Any] = {}
    unit = spec.unit or "task"
    if confidence is not None:
        specs["confidence"] = charts.histogram(confidence, f"{unit}s", "confidence")
    elif kind == "numeric" and "high" in answers.column_names:
        width = answers.column("high").to_numpy() - answers.column("low").to_numpy()
        specs["confidence"] = charts.histogram(width, "tasks", f"width of the {level} interval", unit=False)
    elif spec.ranked and answers.num_rows:
        specs["confidence"] = charts.scores(answers, level)
    tables = {"tasks": _answers(spec, with_shown(answers, votes, LONGEST), described), "workers": _workers(workers)}
    if kind == "boxes" and (lonely := _drawn_once(model, votes)) is not None:
        tables["alone"] = lonely
    return Content(
        title=repr(votes).strip("<>").partition(": ")[2],
        verdict=_verdict(spec, answers, confidence, workers, tables),
        figures=_figures(votes, confidence, coefficients),
        agreement=coefficients,
        tables=tables,
        charts=specs,
        matrices={},
        remarks=list(dict.fromkeys([*map(str, getattr(model, "remarks_", ())), *_single(votes)])),
        provenance=method_of(model),
        truth=[(name.replace("_", " "), _format(value), "") for name, value in (scores or {}).items()],
        frames={
            "tasks": _plain_columns(with_shown(answers, votes), described),
            "workers": _plain_columns(workers, _WORKERS),
        },
        log=[(str(name), str(value), "") for name, value in votes.describe().rows()],
        words=_words(spec, level),
        about=spec.note,
    )


# --------------------------------------------------------------------------------------------------------------- words


def _words(spec: KindSpec, level: str) -> dict[str, str]:
    """Return headings and captions for a kind of answers."""
    if spec.ranked:
        return {
            "tasks": "Leaderboard",
            "tasks_lead": f"Items by score, best first. Two items whose {level} intervals overlap may change places.",
            "confidence": f"Scores of the items with their {level} intervals, best first",
        }
    if spec.word == "numeric":
        return {
            "tasks": "Values to review first",
            "tasks_lead": "The values with the largest standard error come first.",
            "confidence": f"Number of tasks by the width of the {level} interval of their value",
        }
    unit = spec.unit or "answer"
    return {
        "tasks": f"{unit.capitalize()}s to review first",
        "tasks_lead": f"The {unit}s with the lowest confidence come first.",
        "confidence": f"Number of {spec.unit or 'task'}s by confidence",
    }


def _verdict(
    spec: KindSpec, answers: pa.Table, confidence: Any, workers: pa.Table, tables: Mapping[str, Table]
) -> list[list[Part]]:
    """Return the sentences of the first paragraph."""
    sentences: list[list[Part]] = []
    if spec.ranked and answers.num_rows:
        names = [str(name) for name in answers.column("item").to_pylist()]
        text = f"Item {names[0]} ranks first of {len(names):,} items"
        if "rank_high" in answers.column_names:
            worst = answers.column("rank_high")[0].as_py()
            text += (
                "; its interval allows no lower rank" if worst == 1 else f"; its interval allows ranks 1 to {worst:,}"
            )
        sentences.append([(f"{text}.", None)])
    elif spec.word == "numeric" and "error" in answers.column_names and answers.num_rows:
        error = answers.column("error").to_numpy().astype(float)
        variance = np.sort(np.where(np.isfinite(error), error, 0.0) ** 2)[::-1]
        n = int(np.searchsorted(np.cumsum(variance), variance.sum() / 2) + 1) if variance.sum() > 0 else 0
        sentences.append([(f"The median standard error of a value is {np.nanmedian(error):.3g}.", None)])
        if n:
            sentences.append(to_review(n, "value", "largest standard error", "expected squared error"))
    elif confidence is not None:
        unit = spec.unit or "answer"
        finite = confidence[np.isfinite(confidence)]
        sentences.append([(state_expected(spec, float(finite.mean()), len(finite), unit), None)])
        if n := half_of_errors(finite):
            sentences.append(to_review(n, unit, "lowest confidence", name_doubt(spec)))
    if "alone" in tables and tables["alone"].n_rows:
        n = tables["alone"].n_rows
        sentences.append([(f"Also check the {plural(n, 'object')} that only one of several workers drew.", None)])
    if "skill" in workers.column_names and workers.num_rows > 2:
        skill = workers.column("skill").to_numpy().astype(float)
        if np.isfinite(skill).any():
            lowest = int(np.nanargmin(skill))
            name = str(workers.column("worker")[lowest].as_py())
            if _stands_out(workers, skill, lowest):
                sentences.append([("The worker with the lowest skill is ", None), (name, name), (".", None)])
            else:
                sentences.append([("No worker is clearly worse than the others.", None)])
    return sentences


def _stands_out(workers: pa.Table, skill: Any, lowest: int) -> bool:
    """Return whether the lowest skill is below the median by more than its 95 % interval, if it has one."""
    if "skill_error" not in workers.column_names:
        return True
    error = workers.column("skill_error")[lowest].as_py()
    return error is None or not np.isfinite(error) or bool(np.nanmedian(skill) - skill[lowest] > Z95 * error)


def _single(votes: Any) -> list[str]:
    """Warn of answers that rest on one worker."""
    counts = getattr(votes, "labels_per_task", None)
    single = 0 if counts is None or votes.kind == "boxes" else int((np.asarray(counts) == 1).sum())
    if not single:
        return []
    verb = "was" if single == 1 else "were"
    return [
        f"{plural(single, 'task')} {verb} answered by one worker only: their confidence rests on that worker's record "
        "on other tasks."
    ]


def _figures(votes: Any, confidence: Any, coefficients: list[Coefficient]) -> list[Row]:
    compared = hasattr(votes, "n_items")
    figures = [
        ("Items" if compared else "Tasks", f"{votes.n_items if compared else votes.n_tasks:,}", ""),
        ("Workers", f"{votes.n_workers:,}", ""),
        ("Answers", f"{votes.n_annotations:,}", ""),
    ]
    if coefficients:
        figures.append(("Agreement", coefficients[0][1], coefficients[0][0]))
    if confidence is not None and len(confidence):
        unit = votes.spec.unit or "task"
        doubtful = percent(float((confidence < 0.9).mean()), 1)
        share = percent(float(np.nanmean(confidence)), 1)
        figures.append(("Mean confidence", share, f"{doubtful} of {unit}s below {percent(0.9)}"))
    return figures


def _format(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}"


# -------------------------------------------------------------------------------------------------------------- tables


def _answers_of(model: Any, votes: Any) -> pa.Table:
    """Return one row per answer, with words of spans and intervals at 95 %."""
    from manyhands._base import arrow

    frame = model.spans_ if votes.kind == "sequences" else model.to_frame()
    if votes.kind == "sequences":
        return _with_words(frame, votes)
    if votes.kind == "numeric" and "low" in frame.column_names:
        ends = model.intervals(_LEVEL)
        for place, name in enumerate(("low", "high")):
            frame = frame.set_column(
                frame.column_names.index(name), name, arrow.table({name: ends[..., place]}).column(0)
            )
        return frame.replace_schema_metadata({"level": str(_LEVEL)})
    return frame


def _with_words(spans: pa.Table, votes: Any) -> pa.Table:
    """Add the words inside each span, where the documents' texts are at hand."""
    import pyarrow as pa

    texts = getattr(votes, "shown", None)
    if not texts:
        return spans
    offsets = np.concatenate([[0], np.cumsum(votes.lengths)])
    place = {name: at for at, name in enumerate(votes.sequences.tolist())}
    words: list[str | None] = []
    for name, start, end in zip(
        *(spans.column(role).to_pylist() for role in ("sequence", "start", "end")), strict=True
    ):
        text, at = texts.get(name), place[name]
        positions = votes.positions[offsets[at] : offsets[at + 1]]
        if text is None:
            words.append(None)
        elif np.array_equal(positions, np.arange(len(positions))):
            tokens = text.split()
            words.append(" ".join(tokens[start:end]) if len(tokens) == len(positions) else None)
        else:
            words.append(text[start:end])
    return spans.append_column("words", pa.array(words, pa.string()))


def _confidence(spec: KindSpec, answers: pa.Table) -> Any:
    """Return the probabilities that answers are correct; None for a kind that has none."""
    name = next((name for name in ("confidence", "probability") if name in answers.column_names), None)
    if spec.reliability or name is None or not answers.num_rows:
        return None
    confidence = answers.column(name).to_numpy().astype(float)
    return confidence if np.isfinite(confidence).any() else None


def _level(answers: pa.Table) -> float:
    level = (answers.schema.metadata or {}).get(b"level", b"")
    return float(level) if level else _LEVEL


def _describe_columns(spec: KindSpec, level: str) -> dict[str, Column]:
    """Return the columns of answers, with the level of their intervals and the meaning of their confidence."""
    own = {
        "low": Column(f"{level} low", f"lower end of the {level} interval"),
        "high": Column(f"{level} high", f"upper end of the {level} interval"),
    }
    if spec.confidence:
        own["confidence"] = Column("Confidence", spec.confidence)
    return {name: own.get(name, column) for name, column in _ANSWERS.items()}


def _plain_columns(frame: pa.Table, described: Mapping[str, Column]) -> pa.Table:
    """Return the columns that the page and the file next to it can show."""
    from manyhands._base import arrow

    return arrow.flat(frame.select([name for name in frame.column_names if name in described]))


def _answers(spec: KindSpec, frame: pa.Table, described: dict[str, Column]) -> Table:
    """Return the answers to review first; a ranking keeps its order."""
    if spec.reliability:
        described = {name: column for name, column in described.items() if name != "confidence"}
    flat = _plain_columns(frame, described)
    order = np.arange(flat.num_rows)
    if not spec.ranked:
        for name, sign in (("confidence", 1), ("probability", 1), ("error", -1)):
            if name in flat.column_names:
                order = np.argsort(sign * flat.column(name).to_numpy().astype(float), kind="stable")
                break
    table = Table.of("tasks", flat, described, MOST_TASKS, order)
    for place, column in enumerate(table.columns):
        if column["name"] == "labels":
            for row in table.rows:
                row[place] = row[place] or "(none)"
    return table


def _workers(frame: pa.Table) -> Table:
    """Return the workers, those with the lowest skill first."""
    flat = _plain_columns(frame, _WORKERS)
    order = np.argsort(flat.column("skill").to_numpy().astype(float), kind="stable")
    return Table.of("workers", flat, _WORKERS, MOST_WORKERS, order)


def _drawn_once(model: Any, votes: Any) -> Table | None:
    """Return the objects that one of several workers drew, most crowded tasks first."""
    from manyhands._base import arrow
    from manyhands.boxes._matching import match_boxes_of

    objects = match_boxes_of(votes, getattr(model, "overlap", 0.4), getattr(model, "radius", None))
    alone = np.flatnonzero((objects.n_workers[objects.object] == 1) & (objects.n_looked[objects.object] > 1))
    if not len(alone):
        return None
    task, worker, corners = objects.task[objects.object[alone]], objects.worker[alone], objects.boxes[alone]
    roles = ("x1", "y1", "x2", "y2") if corners.shape[1] == 4 else ("x", "y")
    columns: dict[str, Any] = {"task": arrow.take(votes._tasks.arrow(), task)}
    columns["worker"] = arrow.take(votes._workers.arrow(), worker)
    columns |= {role: corners[:, place] for place, role in enumerate(roles)}
    columns["n_looked"] = objects.n_looked[objects.object[alone]]
    described = {
        "task": _ANSWERS["task"],
        "shown": _ANSWERS["shown"],
        "worker": Column("Worker", "the worker who drew the object"),
        **{role: _ANSWERS[role] for role in roles},
        "n_looked": Column("Workers who looked", "number of workers who annotated the task"),
    }
    frame = with_shown(arrow.table(columns), votes, LONGEST)
    order = np.lexsort((task, -objects.n_looked[objects.object[alone]]))
    return Table.of("alone", frame, described, MOST_TASKS, order)


# ----------------------------------------------------------------------------------------------------------- agreement

Rows = list[Coefficient]


def _of_numbers(votes: Any, model: Any) -> Rows:
    if votes.n_dims > 1:
        return []
    return [
        coefficient("Intraclass correlation", agreement.icc(votes, resamples=RESAMPLES), "1 is full agreement"),
        coefficient("Pearson correlation", agreement.pearson(votes, resamples=RESAMPLES), "mean over pairs of workers"),
    ]


def _of_spans(votes: Any, model: Any) -> Rows:
    exact = agreement.span_agreement(votes, resamples=RESAMPLES)
    near = agreement.span_agreement(votes, tolerance=1, resamples=RESAMPLES)
    return [
        coefficient("F1 between workers", exact, "share of spans that two workers both marked exactly"),
        coefficient("F1 between workers, tolerant", near, "spans may differ by one token at each end"),
    ]


def _of_texts(votes: Any, model: Any) -> Rows:
    frame = votes.to_frame().to_pydict()
    answer = dict(zip(model.tasks_.tolist(), model.texts_.tolist(), strict=True))
    rate = metrics.word_error_rate(frame["text"], [answer[task] for task in frame["task"]])
    return [("Words that agree with the answer", f"{max(1 - rate, 0.0):.3f}", "", "1 minus the word error rate")]


def _of_masks(votes: Any, model: Any) -> Rows:
    tasks, masks = votes.to_frame().column("task").to_pylist(), model.masks_
    place = {name: at for at, name in enumerate(model.tasks_.tolist())}
    n = min(votes.n_annotations, _MOST_MASKS)
    overlap = metrics.mask_iou((votes.mask(row) for row in range(n)), (masks[place[task]] for task in tasks[:n]))
    meaning = f"mean intersection over union of {plural(n, 'mask')}"
    return [("Overlap of masks with the answer", f"{overlap:.3f}", "", meaning)]


def _of_sets(votes: Any, model: Any) -> Rows:
    frame, answers = votes.to_frame().to_pydict(), model.to_frame().to_pydict()
    answer = dict(zip(answers["task"], answers["labels"], strict=True))
    scores = metrics.set_scores(frame["labels"], [answer[task] for task in frame["task"]])
    return [
        ("Overlap of label sets with the answer", f"{scores.jaccard:.3f}", "", "mean Jaccard index"),
        ("Label sets equal to the answer", percent(scores.exact, 1), "", "share of all answers given"),
    ]


_AGREEMENT: dict[str, Callable[[Any, Any], Rows]] = {
    "numeric": _of_numbers,
    "sequences": _of_spans,
    "texts": _of_texts,
    "masks": _of_masks,
    "multilabel": _of_sets,
}
