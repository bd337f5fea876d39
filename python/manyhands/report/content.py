"""Content of a report as plain values: verdict, figures, tables and charts of a fit to categorical answers."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from manyhands import agreement, metrics
from manyhands._base.checks import plural, preview
from manyhands._base.verdict import about, percent
from manyhands.audit import Review, review
from manyhands.categorical.table import Annotations
from manyhands.io.shown import with_shown
from manyhands.report import charts

if TYPE_CHECKING:
    import pyarrow as pa

    from manyhands.categorical.base import Aggregator

#: Rows of each table that the page embeds; the complete table goes to a CSV file next to the page.
MOST_WORKERS = 2_000
MOST_TASKS = 500
#: Workers whose confusion matrix the page embeds.
_MOST_MATRICES = 300
#: Classes that the heat map and the chart of classes can show.
_MOST_CLASSES = 30
#: Logs with more annotations are neither audited nor resampled for intervals.
AUDITED = 2_000_000
#: Jackknife groups behind the intervals of agreement coefficients.
RESAMPLES = 60
#: Characters of a task's text that the page shows.
LONGEST = 300
#: Workers that the verdict names.
_MOST_NAMED = 8
#: Standard errors on either side of a 95 % interval.
Z95 = 1.959964

#: A run of text, and the worker whose row it links to, if any.
Part = tuple[str, str | None]
#: Name, value, and note of a figure.
Row = tuple[str, str, str]
#: Name, value, 95 % interval, and meaning of a coefficient.
Coefficient = tuple[str, str, str, str]


@dataclass(frozen=True)
class Column:
    """Heading and meaning of a column of a table on the page."""

    title: str
    about: str


@dataclass
class Table:
    """Table of the page: described columns, the rows that are embedded, and the number of rows in all."""

    name: str
    columns: list[dict[str, str]]
    rows: list[list[Any]]
    n_rows: int
    #: Name of the CSV file with all rows, if the page embeds only some.
    file: str | None = None

    @classmethod
    def of(cls, name: str, frame: pa.Table, described: dict[str, Column], most: int, order: Any = None) -> Table:
        """Take the described columns, in the order of the descriptions, and at most `most` rows in a given order."""
        names = [
            column
            for column in described
            if column in frame.column_names and not (frame.num_rows and _is_missing(frame.column(column)))
        ]
        part = frame.select(names)
        if order is not None:
            part = part.take(order[:most])
        # Ids and labels are shown as text even if they are numbers.
        rows = [
            [str(value) if name in _IDS and value is not None else plain(value) for name, value in row.items()]
            for row in part.slice(0, most).to_pylist()
        ]
        columns = [
            {
                "name": column,
                "title": described[column].title,
                "about": described[column].about,
                "kind": _column_kind(rows, place),
            }
            for place, column in enumerate(names)
        ]
        return cls(name, columns, rows, frame.num_rows)


@dataclass
class Content:
    """Everything that the page shows."""

    title: str
    #: Sentences of the first paragraph.
    verdict: list[list[Part]]
    figures: list[Row]
    agreement: list[Coefficient]
    tables: dict[str, Table]
    charts: dict[str, dict[str, Any]]
    matrices: dict[str, Any]
    remarks: list[str]
    #: Method, settings, input and date: everything needed to repeat the run.
    provenance: list[tuple[str, str]]
    #: Heading and first sentence of the section of tasks or answers, and the captions of charts.
    words: dict[str, str]
    #: Results of the audit, each with the workers it names.
    findings: list[tuple[str, list[Part]]] = field(default_factory=list)
    #: Why the page has no audit.
    no_audit: str = ""
    truth: list[Row] = field(default_factory=list)
    #: Complete tables, for the CSV files next to the page.
    frames: dict[str, pa.Table] = field(default_factory=dict)
    #: Summary of the log.
    log: list[Row] = field(default_factory=list)
    #: What the method cannot know, for answers that are not classes.
    about: str = ""


_IDS = ("task", "worker", "label", "runner_up", "item", "sequence", "tag", "cluster")
WORKERS = {
    "worker": Column("Worker", "who gave the answers"),
    "flag": Column("Audit", "what the audit flagged the worker as; empty if nothing"),
    "n_answers": Column("Answers", "number of answers the worker gave"),
    "skill": Column("Accuracy", "expected share of the worker's answers that are correct"),
    "interval": Column("Accuracy, 95 % interval", "range that contains the accuracy with a probability of 95 %"),
    "information": Column(
        "Bits per answer", "information that one answer gives about the correct class; 0 is a guess, 1 halves the doubt"
    ),
    "spammer_score": Column("Attention", "0: answers do not depend on the class (spammer); 1: always correct"),
}
TASKS = {
    "task": Column("Task", "id of the task"),
    "shown": Column("Item", "what the task shows to workers"),
    "label": Column("Answer", "the most probable answer"),
    "confidence": Column("Confidence", "probability that the answer is correct"),
    "votes": Column("Votes", "answers of the workers, by class"),
    "runner_up": Column("Second choice", "the second most probable answer"),
    "margin": Column("Lead", "confidence minus the probability of the second choice"),
    "disagreement": Column("Model spread", "how far the averaged models disagree; 0 is not at all"),
    "n_answers": Column("Answers", "number of answers to the task"),
}


def content_of(model: Aggregator, votes: Annotations, gold: tuple[Any, Any] | None, audit: bool) -> Content:
    """Collect the content of a report on categorical answers."""
    small = votes.n_annotations <= AUDITED
    with warnings.catch_warnings():
        # The page lists warnings in a section of its own.
        warnings.simplefilter("ignore")
        audited = review(votes) if audit and small else None
        coefficients = _agreement(votes)
    tasks, workers = model.tasks_frame(), _with_intervals(model.workers_frame())
    if audited is not None:
        workers = _with_flags(workers, audited)
    confidence = tasks.column("confidence").to_numpy()
    described = votes.describe()
    truth, measured = ([], "") if gold is None else _truth(model, gold)
    figures = [
        ("Tasks", f"{votes.n_tasks:,}", _note_on_tasks(votes)),
        ("Workers", f"{votes.n_workers:,}", ""),
        ("Answers", f"{votes.n_annotations:,}", f"{described.labels_per_task.mean:.1f} per task"),
        ("Expected share correct", percent(confidence.mean(), 1), "mean confidence of the answers"),
        ("Agreement (alpha)", coefficients[0][1], _alpha_in_a_word(coefficients[0][1])),
    ]
    if truth:
        figures.insert(4, ("Measured share correct", truth[0][1], truth[0][2]))
    return Content(
        title=f"{votes.n_tasks:,} tasks answered by {votes.n_workers:,} workers",
        verdict=_verdict(confidence, measured, audited, audit),
        figures=figures,
        agreement=coefficients,
        tables={"tasks": _tasks(model, votes, tasks), "workers": _workers(workers)},
        charts=_charts(model, votes, confidence, workers, gold),
        matrices=_matrices(model, workers),
        findings=[] if audited is None else _findings(audited),
        no_audit="" if audited is not None else _no_audit(audit),
        remarks=list(dict.fromkeys([*model.remarks_, *(() if audited is None else audited.remarks)])),
        provenance=[*method_of(model), *_set_aside(votes, described)],
        truth=truth,
        frames={"tasks": with_shown(tasks, votes), "workers": workers},
        log=[(name, value, "") for name, value in described.rows()],
        words={
            "tasks": "Tasks to review first",
            "tasks_lead": "The answers with the smallest lead over the second choice come first.",
            "confidence": "Number of tasks by confidence of their answer",
        },
    )


# ------------------------------------------------------------------------------------------------------------- verdict


def half_of_errors(confidence: Any) -> int:
    """Return the smallest number of answers that together hold half of the expected errors."""
    doubt = np.sort(1.0 - np.asarray(confidence, float))[::-1]
    total = doubt.sum()
    return 0 if total <= 0 else int(np.searchsorted(np.cumsum(doubt), total / 2) + 1)


def to_review(n: int, unit: str, why: str, held: str) -> list[Part]:
    """Ask to review the n answers that hold half of the expected errors."""
    if n == 1:
        return [(f"Review the {unit} with the {why} first: it holds half of the {held}.", None)]
    return [(f"Review the {plural(n, unit)} with the {why} first: they hold half of the {held}.", None)]


def _verdict(confidence: Any, measured: str, audited: Review | None, asked: bool) -> list[list[Part]]:
    """Return the sentences of the first paragraph."""
    n = len(confidence)
    expected = f"{about(float(confidence.mean()))} of the {n:,} answers are expected to be correct."
    sentences: list[list[Part]] = [[(measured or expected, None)]]
    if doubtful := half_of_errors(confidence):
        sentences.append(
            to_review(doubtful, "answer", f"lowest confidence ({percent(doubtful / n)} of all)", "expected errors")
        )
    if audited is None:
        return [*sentences, [("Workers were not audited." if not asked else _no_audit(asked), None)]]
    names = [str(name) for name in audited.workers.tolist()]
    if not names:
        return [*sentences, [("The audit found no worker to leave out.", None)]]
    parts: list[Part] = [(f"Leave out {plural(len(names), 'worker')}: ", None), *_links(names), (".", None)]
    if audited.change.n_workers:
        parts.append((f" {_effect(audited)}", None))
    return [*sentences, parts]


def _links(names: list[str]) -> list[Part]:
    """Return names of workers as links to their rows, at most a few of them."""
    parts: list[Part] = []
    for name in names[:_MOST_NAMED]:
        parts += [(", ", None)] * bool(parts) + [(name, name)]
    if len(names) > _MOST_NAMED:
        parts.append((f" and {len(names) - _MOST_NAMED:,} more", None))
    return parts


def _effect(audited: Review) -> str:
    change = audited.change
    them = "this worker" if change.n_workers == 1 else "them"
    text = f"Without {them} ({percent(change.share, 1)} of the answers given), "
    text += (
        f"{plural(change.n_changed, 'task')} would get another answer" if change.n_changed else "no answer would change"
    )
    return f"{text}, and {plural(change.n_unanswered, 'task')} none." if change.n_unanswered else f"{text}."


def _no_audit(asked: bool) -> str:
    if not asked:
        return "The audit was switched off."
    return f"Workers were not audited: the log has over {AUDITED:,} annotations (run manyhands audit)."


def _note_on_tasks(votes: Annotations) -> str:
    missing = len(votes.unlabelled)
    return f"{plural(missing, 'further task')} without an answer" if missing else ""


def _set_aside(votes: Annotations, described: Any) -> list[tuple[str, str]]:
    """State what the answers leave out or count twice."""
    missing = len(votes.unlabelled)
    repeats = described.n_repeats
    return [
        ("Tasks set aside", f"{missing:,}, which no worker answered" if missing else "none"),
        ("Repeated answers", f"{repeats:,} further answers of a worker to the same task, all counted")
        if repeats
        else ("Repeated answers", "none"),
    ]


def method_of(model: Any) -> list[tuple[str, str]]:
    """Name the method, and its settings where they differ from the defaults."""
    import inspect

    defaults = {name: one.default for name, one in inspect.signature(type(model)).parameters.items()}
    changed = [
        f"{name.replace('_', ' ')} = {value!r}" if isinstance(value, bool | int | float | str) else name
        for name, value in model.get_params().items()
        if not (value is defaults.get(name) or (np.isscalar(value) and value == defaults.get(name)))
    ]
    return [("Method", f"{type(model).__name__}, {'; '.join(changed) if changed else 'default settings'}")]


# ----------------------------------------------------------------------------------------------------------- agreement

_MEANINGS = {
    "Krippendorff's alpha": "observed against expected disagreement; allows missing answers",
    "Fleiss' kappa": "chance agreement from the overall shares of the classes",
    "Gwet's AC1": "less sensitive to a class that dominates",
}


def coefficient(name: str, result: agreement.Agreement, meaning: str = "") -> Coefficient:
    """Return a coefficient of agreement with its interval, or why it has none."""
    value = "not defined" if math.isnan(result.value) else f"{result.value:.3f}"
    interval = "" if result.interval is None else f"{result.interval[0]:.3f}\u2013{result.interval[1]:.3f}"
    return name, value, interval or result.reason, meaning


def _agreement(votes: Annotations) -> list[Coefficient]:
    answers = agreement.result.labels_of(votes)
    small = votes.n_annotations <= AUDITED
    rows = []
    for name, measure in (
        ("Krippendorff's alpha", agreement.krippendorff_alpha),
        ("Fleiss' kappa", agreement.fleiss_kappa),
        ("Gwet's AC1", agreement.gwet_ac1),
    ):
        row = coefficient(name, measure(answers, resamples=RESAMPLES if small else 0), _MEANINGS[name])
        rows.append(row if row[2] else (*row[:2], f"not computed above {AUDITED:,} annotations", row[3]))
    return rows


def _alpha_in_a_word(value: str) -> str:
    if value == "not defined":
        return ""
    alpha = float(value)
    word = "high" if alpha >= 0.8 else "moderate" if alpha >= 0.667 else "low"
    return f"{word}; 0 is chance, 1 is perfect"


# --------------------------------------------------------------------------------------------------------------- truth


def _truth(model: Aggregator, gold: tuple[Any, Any]) -> tuple[list[Row], str]:
    """Measure the answers where the correct class is known, in figures and in a sentence."""
    index, classes = metrics.match_gold(model.tasks_, gold, unknown="ignore")
    labels, names = model.labels_[index], set(model.classes_.tolist())
    accuracy = metrics.accuracy(labels, classes)
    low, high = charts.wilson(accuracy, len(index))
    interval = f"95\N{NO-BREAK SPACE}% interval {low * 100:.1f}\u2013{percent(high, 1)}"
    base = plural(len(index), "known answer")
    rows = [("Share correct", percent(accuracy, 1), f"{interval}, on {base}")]
    expected = float(model.confidence_[index].mean())
    fit = "too low" if expected < low else "too high" if expected > high else "right on average"
    sentence = (
        f"Measured on {base}, {percent(accuracy, 1)} are correct ({interval}). The confidences of these answers are "
        f"{fit}: they expect {percent(expected, 1)}."
    )
    if all(name in names for name in classes.tolist()):
        posterior = model._rows_of_tasks(index)
        error = metrics.calibration_error(posterior, classes, classes=model.classes_)
        rows.append(("Calibration error", f"{error:.3f}", "mean distance between confidence and share correct"))
    return rows, sentence


# -------------------------------------------------------------------------------------------------------------- tables


def plain(value: Any) -> Any:
    """Return a value that JSON can hold."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _is_missing(column: pa.ChunkedArray) -> bool:
    """Return whether a column holds nothing but null and NaN."""
    import pyarrow.compute as pc

    return bool(pc.all(pc.is_null(column, nan_is_null=True)).as_py())


def _column_kind(rows: list[list[Any]], place: int) -> str:
    values = [row[place] for row in rows if row[place] is not None]
    return (
        "number" if values and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values) else "text"
    )


def _tasks(model: Aggregator, votes: Annotations, frame: pa.Table) -> Table:
    """Return the tasks with the least certain answers, with their votes."""
    import pyarrow as pa

    margin = frame.column("margin").to_numpy()
    order = np.argsort(margin, kind="stable")[:MOST_TASKS]
    with_items = with_shown(frame.take(order), votes, LONGEST)
    table = Table.of("tasks", with_items.append_column("votes", pa.array(_votes_of(votes, order))), TASKS, MOST_TASKS)
    table.n_rows = frame.num_rows
    return table


def _votes_of(votes: Annotations, tasks: Any) -> list[str]:
    """List the votes on each task, by class."""
    mask = np.zeros(votes.n_tasks, np.bool_)
    mask[tasks] = True
    codes, workers, labels = votes.codes()
    keep = mask[codes]
    by_task: dict[int, dict[Any, list[str]]] = {}
    for task, worker, label in zip(codes[keep].tolist(), workers[keep].tolist(), labels[keep].tolist(), strict=True):
        by_task.setdefault(task, {}).setdefault(label, []).append(str(votes.workers[worker]))
    names = votes.labels
    return [
        "; ".join(f"{names[label]}: {', '.join(who)}" for label, who in sorted(by_task.get(int(task), {}).items()))
        for task in tasks
    ]


def _with_intervals(frame: pa.Table) -> pa.Table:
    """Add the 95 % interval of each worker's accuracy, as text."""
    import pyarrow as pa

    skill = frame.column("skill").to_numpy().astype(float)
    reach = Z95 * frame.column("skill_error").to_numpy().astype(float)
    low, high = np.clip(skill - reach, 0, 1), np.clip(skill + reach, 0, 1)
    texts = [
        f"{a:.3f}\u2013{b:.3f}" if math.isfinite(a + b) else None
        for a, b in zip(low.tolist(), high.tolist(), strict=True)
    ]
    return frame.append_column("interval", pa.array(texts, pa.string()))


def _with_flags(frame: pa.Table, audited: Review) -> pa.Table:
    """Add what the audit flagged each worker as."""
    import pyarrow as pa

    marks = {"spammer": audited.spammers.found, "colluder": audited.colluders.found, "copy": audited.copies.found}
    flags = [", ".join(name for name, mask in marks.items() if mask[row]) for row in range(frame.num_rows)]
    return frame.append_column("flag", pa.array(flags, pa.string()))


def _order_of_workers(frame: pa.Table) -> Any:
    """Put flagged workers first, then those with most answers."""
    n_answers = -frame.column("n_answers").to_numpy().astype(float)
    if "flag" not in frame.column_names:
        return np.argsort(n_answers, kind="stable")
    flagged = np.array([bool(flag) for flag in frame.column("flag").to_pylist()], bool)
    return np.lexsort((n_answers, ~flagged))


def _workers(frame: pa.Table) -> Table:
    return Table.of("workers", frame, WORKERS, MOST_WORKERS, _order_of_workers(frame))


def _findings(audited: Review) -> list[tuple[str, list[Part]]]:
    """Summarize the audit, with links to the workers it flagged."""

    def named(text: str, names: Any) -> list[Part]:
        texts = [str(name) for name in names.tolist()]
        return [(f"{text}: " if texts else text, None), *_links(texts)]

    spammers, copies, colluders, groups = audited.spammers, audited.copies, audited.colluders, audited.groups
    rows: list[tuple[str, list[Part]]] = [
        (
            "Spammers",
            named(
                f"{plural(len(spammers), 'worker')} whose answers do not depend on the correct class",
                spammers.workers,
            ),
        ),
        (
            "Copies",
            named(
                f"{plural(len(copies), 'pair')} of workers who agree more than their accuracy explains",
                copies.workers,
            ),
        ),
        (
            "Colluders",
            named(f"{plural(len(colluders), 'worker')} who vote together against the rest", colluders.workers),
        ),
        (
            "Groups",
            [
                (f"{plural(len(groups), 'group')} of workers whose errors coincide", None),
                *(
                    (f"{': ' if place == 0 else '; '}{preview([str(name) for name in names], _MOST_NAMED)}", None)
                    for place, names in enumerate(groups.groups[:_MOST_NAMED])
                ),
            ],
        ),
    ]
    if audited.change.n_workers:
        rows.append(("Without them", [(_effect(audited), None)]))
    return rows


def _matrices(model: Aggregator, frame: pa.Table) -> dict[str, Any]:
    """Return confusion matrices of the whole crowd, of flagged workers and of those with most answers."""
    if len(model.classes_) > _MOST_CLASSES:
        return {}
    order = _order_of_workers(frame)[:_MOST_MATRICES]
    confusion = model.confusion_
    crowd = np.average(confusion, axis=0, weights=np.maximum(model._n_labels, 1e-9))
    return {
        "classes": [str(name) for name in model.classes_.tolist()],
        "labels": [str(name) for name in model._labels.values.tolist()],
        "workers": ["all workers", *(str(model.workers_[place]) for place in order)],
        "matrices": [np.round(row, 4).tolist() for row in [crowd, *confusion[order]]],
    }


def _charts(
    model: Aggregator, votes: Annotations, confidence: Any, frame: pa.Table, gold: tuple[Any, Any] | None
) -> dict[str, dict[str, Any]]:
    """Return the charts, as Vega-Lite specifications."""
    answer_shares = votes.table.label_counts() / votes.n_annotations
    task_shares = np.bincount(model._won.codes, minlength=len(model.classes_)) / len(model.tasks_)
    names = [str(name) for name in model.classes_.tolist()[:_MOST_CLASSES]]
    specs = {
        "confidence": charts.histogram(confidence, "tasks", "confidence"),
        "workers": charts.accuracies(frame),
        "classes": charts.shares(names, {"answers given": answer_shares, "tasks decided": task_shares}),
    }
    if gold is not None:
        index, classes = metrics.match_gold(model.tasks_, gold, unknown="ignore")
        specs["calibration"] = charts.calibration(model._won.confidence[index], model.labels_[index] == classes)
    return specs
