"""What a report tells of answers that are not classes: the parts of it that mean something there."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from manyhands import agreement, metrics
from manyhands._base.checks import counted
from manyhands.io.shown import with_shown
from manyhands.report.content import LONGEST, MOST_TASKS, MOST_WORKERS, Content, Table, histogram

if TYPE_CHECKING:
    import pyarrow as pa

#: What columns of answers and workers mean; only those named here are on the page.
_ANSWERS = {
    "task": "the task",
    "item": "the item",
    "sequence": "the sequence or document",
    "shown": "what it shows to workers",
    "start": "where the span begins",
    "end": "the first place behind it",
    "tag": "its type",
    "value": "its answer",
    "text": "its answer",
    "labels": "its labels",
    "label": "what it is",
    "score": "how far it is ahead, on a scale of log-odds",
    "rank": "its place",
    "cluster": "the cluster it is in",
    "x1": "left",
    "y1": "top",
    "x2": "right",
    "y2": "bottom",
    "x": "from the left",
    "y": "from the top",
    "pixels": "pixels that are marked",
    "disputed": "share of the marked pixels on which answers differ",
    "confidence": "probability of the answer",
    "probability": "probability of exactly this span",
    "start_probability": "probability that a span begins there",
    "end_probability": "probability that a span ends there",
    "n_workers": "workers who drew it",
    "error": "standard error of the answer",
    "low": "lower end of its interval",
    "high": "upper end of its interval",
    "rank_low": "the best place it may have",
    "rank_high": "the worst place it may have",
}
_WORKERS = {
    "worker": "who gave the answers",
    "n_answers": "answers given",
    "n_spans": "spans marked",
    "skill": "larger is better; see workers_frame",
    "skill_error": "standard error of the skill",
    "accuracy": "share of correct labels",
    "precision": "share of the worker's spans that are among the answers",
    "recall": "share of what there is that the worker found",
    "omitted": "share of words left out",
    "inserted": "share of empty places with a word too many",
    "specificity": "share of what is not there that the worker leaves alone",
    "false_positives": "objects per task that are none",
    "bias": "by how much answers are too high",
    "scale": "how far answers follow the truth; 1 is as it is",
    "noise": "how far answers scatter",
    "left_bias": "how far the left one is preferred",
    "spammer_score": "0: answers do not depend on the truth; 1: perfect",
}
#: The column that tells which answers to look at first, and whether they are those with least of it.
_FIRST = (("confidence", True), ("probability", True), ("error", False))


def content_of_kind(model: Any, votes: Any, scores: Mapping[str, Any] | None) -> Content:
    """Collect what there is to tell of a fit of any kind; `scores` measure it against the truth, if that is known."""
    with warnings.catch_warnings():
        # What there is to warn of is among the remarks.
        warnings.simplefilter("ignore")
        agreed = _AGREEMENT[votes.kind](votes, model) if votes.kind in _AGREEMENT else []
    answers = model.spans_ if votes.kind == "sequences" else model.to_frame()
    workers = model.workers_frame()
    said = [(str(name), str(value), "") for name, value in votes.describe().rows()]
    sure = next((name for name in ("confidence", "probability") if name in answers.column_names), None)
    charts = {}
    if sure is not None and answers.num_rows:
        charts["confidence"] = histogram(answers.column(sure).to_numpy().astype(float), _counted(votes.kind))
    remarks = list(dict.fromkeys(map(str, getattr(model, "remarks_", ()))))
    measured = {} if scores is None else scores
    return Content(
        title=f"{votes.kind.capitalize()}: {repr(votes).strip('<>').partition(': ')[2]}",
        figures=_figures(votes, answers, sure, agreed),
        agreement=agreed,
        tables={
            "tasks": _answers(votes.kind, with_shown(answers, votes, LONGEST)),
            "workers": _workers(workers),
        },
        charts=charts,
        matrices={},
        findings=[],
        remarks=remarks,
        method=repr(model),
        truth=[(name.replace("_", " "), _shown(value), "") for name, value in measured.items()],
        frames={
            "tasks": _plain_columns(with_shown(answers, votes), _ANSWERS),
            "workers": _plain_columns(workers, _WORKERS),
        },
        log=said,
        about=_ABOUT.get(votes.kind, ""),
    )


def _counted(kind: str) -> str:
    """What answers of a kind are about."""
    return {"sequences": "spans", "boxes": "objects", "clustering": "items"}.get(kind, "tasks")


def _shown(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}"


def _figures(votes: Any, answers: pa.Table, sure: str | None, agreed: list[Any]) -> list[tuple[str, str, str]]:
    about = "items" if hasattr(votes, "n_items") else "tasks"
    figures = [
        (about.capitalize(), f"{votes.n_items if about == 'items' else votes.n_tasks:,}", ""),
        ("Workers", f"{votes.n_workers:,}", ""),
        ("Answers", f"{votes.n_annotations:,}", ""),
    ]
    if agreed:
        figures.append(("Agreement", agreed[0][1], agreed[0][0]))
    if sure is not None and answers.num_rows:
        found = answers.column(sure).to_numpy().astype(float)
        what = _counted(votes.kind)
        figures.append((f"Mean {sure}", f"{found.mean():.1%}", f"{(found < 0.9).mean():.1%} of {what} below 90 %"))
    return figures


def _plain_columns(frame: pa.Table, about: Mapping[str, str]) -> pa.Table:
    """The columns that a page and a file beside it can show."""
    from manyhands._base import arrow

    return arrow.flat(frame.select([name for name in frame.column_names if name in about]))


def _answers(kind: str, frame: pa.Table) -> Table:
    """The answers to look at first; items in their order, since all of them are looked at together."""
    shown = _plain_columns(frame, _ANSWERS)
    order = np.arange(shown.num_rows)
    for name, least in _FIRST:
        if name in shown.column_names and kind not in ("pairwise", "rankings"):
            doubt = shown.column(name).to_numpy().astype(float)
            order = np.argsort(doubt if least else -doubt, kind="stable")
            break
    return Table.of("tasks", shown, _ANSWERS, MOST_TASKS, order)


def _workers(frame: pa.Table) -> Table:
    shown = _plain_columns(frame, _WORKERS)
    order = np.argsort(-shown.column("n_answers").to_numpy().astype(float), kind="stable")
    return Table.of("workers", shown, _WORKERS, MOST_WORKERS, order)


# --------------------------------------------------------------------------------------------------------- agreement

Rows = list[tuple[str, str, str]]


def _row(name: str, found: agreement.Agreement) -> tuple[str, str, str]:
    value = "not defined" if math.isnan(found.value) else f"{found.value:.3f}"
    between = "" if found.interval is None else f"{found.interval[0]:.3f} to {found.interval[1]:.3f}"
    return name, value, between or found.reason


def _of_numbers(votes: Any, model: Any) -> Rows:
    if votes.n_dims > 1:
        return []
    return [
        _row("Intraclass correlation", agreement.icc(votes, resamples=60)),
        _row("Pearson's correlation", agreement.pearson(votes, resamples=60)),
    ]


def _of_spans(votes: Any, model: Any) -> Rows:
    return [
        _row("F1 of two readers", agreement.span_agreement(votes, resamples=60)),
        _row("F1, a token off at each end", agreement.span_agreement(votes, tolerance=1, resamples=60)),
    ]


def _of_texts(votes: Any, model: Any) -> Rows:
    frame = votes.to_frame().to_pydict()
    answer = dict(zip(model.tasks_.tolist(), model.texts_.tolist(), strict=True))
    rate = metrics.word_error_rate(frame["text"], [answer[task] for task in frame["task"]])
    return [("Words of a text that are in the answer", f"{max(1 - rate, 0.0):.3f}", "one less the word error rate")]


def _of_masks(votes: Any, model: Any) -> Rows:
    tasks, masks = votes.to_frame().column("task").to_pylist(), model.masks_
    place = {name: at for at, name in enumerate(model.tasks_.tolist())}
    n = min(votes.n_annotations, _MOST_MASKS)
    found = metrics.mask_iou((votes.mask(row) for row in range(n)), (masks[place[task]] for task in tasks[:n]))
    return [("Overlap of a mask with the answer", f"{found:.3f}", f"over {counted(n, 'mask')}")]


def _of_sets(votes: Any, model: Any) -> Rows:
    frame, answers = votes.to_frame().to_pydict(), model.to_frame().to_pydict()
    answer = dict(zip(answers["task"], answers["labels"], strict=True))
    found = metrics.set_scores(frame["labels"], [answer[task] for task in frame["task"]])
    return [("Overlap of a set with the answer", f"{found.jaccard:.3f}", f"{found.exact:.1%} are the answer")]


#: Masks that are compared with the answers.
_MOST_MASKS = 2_000
_AGREEMENT: dict[str, Callable[[Any, Any], Rows]] = {
    "numeric": _of_numbers,
    "sequences": _of_spans,
    "texts": _of_texts,
    "masks": _of_masks,
    "multilabel": _of_sets,
}
#: What confidences and skills rest on, in plain words.
_ABOUT = {
    "texts": "Words are compared without case and punctuation. What misleads everybody cannot be seen here.",
    "masks": "Confidences are means over the pixels on which answers differ, and take errors for independent.",
    "boxes": "Objects that nobody drew are not here. Places are taken to be right where most workers put them.",
    "sequences": "Spans are those of the likeliest reading of each sequence; what all readers miss is not there.",
    "pairwise": "Scores tell of this set of items alone: only differences between them mean something.",
}
