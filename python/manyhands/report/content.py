"""What a report tells, as plain values: figures, tables and charts."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from manyhands import agreement, metrics
from manyhands._base.checks import counted
from manyhands.audit import Review, review
from manyhands.categorical.table import Annotations
from manyhands.io.shown import with_shown

if TYPE_CHECKING:
    import pyarrow as pa

    from manyhands.categorical.base import Aggregator

#: Rows of a table that a page holds; the rest goes to a file beside it.
MOST_WORKERS = 2_000
MOST_TASKS = 500
#: Workers whose confusion matrix can be looked at.
_MOST_MATRICES = 300
#: Classes that a heat map can show.
_MOST_CLASSES = 30
#: Annotations up to which copies, colluders and groups are looked for.
AUDITED = 2_000_000
_RESAMPLES = 60


@dataclass
class Table:
    """A table of the page: columns with what they mean, rows, and how many there are in all."""

    name: str
    columns: list[dict[str, str]]
    rows: list[list[Any]]
    n_rows: int
    #: The file with all rows, where the page has not.
    file: str | None = None

    @classmethod
    def of(cls, name: str, frame: pa.Table, about: dict[str, str], most: int, order: Any = None) -> Table:
        """Take the columns that `about` describes, and the first rows in an order."""
        names = [column for column in about if column in frame.column_names]
        part = frame.select(names)
        if order is not None:
            part = part.take(order[:most])
        # Names are text, though they may be numbers.
        rows = [
            [str(value) if name in _NAMES and value is not None else _plain(value) for name, value in row.items()]
            for row in part.slice(0, most).to_pylist()
        ]
        columns = [
            {"name": column, "about": about[column], "kind": _kind(rows, place)} for place, column in enumerate(names)
        ]
        return cls(name, columns, rows, frame.num_rows)


@dataclass
class Content:
    """All that a page shows."""

    title: str
    figures: list[tuple[str, str, str]]
    agreement: list[tuple[str, str, str]]
    tables: dict[str, Table]
    charts: dict[str, dict[str, Any]]
    matrices: dict[str, Any]
    findings: list[tuple[str, str]]
    remarks: list[str]
    method: str
    truth: list[tuple[str, str, str]] = field(default_factory=list)
    #: All rows of the tables, for files beside the page.
    frames: dict[str, pa.Table] = field(default_factory=dict)
    #: What the log holds, and what else is to be said of the method, where answers are not classes.
    log: list[tuple[str, str, str]] = field(default_factory=list)
    about: str = ""


_NAMES = ("task", "worker", "label", "runner_up", "item", "sequence", "tag", "cluster")
WORKERS = {
    "worker": "who gave the answers",
    "n_answers": "answers given",
    "skill": "expected share of correct answers",
    "skill_error": "standard error of the skill",
    "information": "bits that an answer tells of the class",
    "spammer_score": "0: answers do not depend on the class; 1: perfect",
    "found": "what an audit found",
}
#: Characters that a page shows of what a task shows.
LONGEST = 300
TASKS = {
    "task": "the task",
    "shown": "what the task shows to workers",
    "label": "its answer",
    "confidence": "probability of the answer",
    "runner_up": "the next best answer",
    "margin": "by how much it is less probable",
    "disagreement": "how far the averaged models are apart",
    "n_answers": "answers it rests on",
    "votes": "who said what",
}


def content_of(model: Aggregator, votes: Annotations, gold: tuple[Any, Any] | None, audit: bool) -> Content:
    """Collect what there is to tell of a fit."""
    with warnings.catch_warnings():
        # What there is to warn of is among the remarks.
        warnings.simplefilter("ignore")
        found = review(votes) if audit and votes.n_annotations <= AUDITED else None
        agreed = _agreement(votes)
    tasks, workers = model.tasks_frame(), model.workers_frame()
    confidence = tasks.column("confidence").to_numpy()
    described = votes.describe()
    figures = [
        (
            "Tasks",
            f"{votes.n_tasks:,}",
            f"{counted(len(votes.unlabelled), 'task')} without an answer" if len(votes.unlabelled) else "",
        ),
        ("Workers", f"{votes.n_workers:,}", ""),
        ("Answers", f"{votes.n_annotations:,}", f"{described.labels_per_task.mean:.1f} a task"),
        ("Agreement", agreed[0][1], agreed[0][0]),
        ("Mean confidence", f"{confidence.mean():.1%}", f"{(confidence < 0.9).mean():.1%} of tasks below 90 %"),
    ]
    truth = [] if gold is None else _truth(model, gold)
    if truth:
        figures.append(("Accuracy", truth[0][1], f"on {truth[0][2]}"))
    return Content(
        title=f"{votes.n_tasks:,} tasks answered by {votes.n_workers:,} workers",
        figures=figures,
        agreement=agreed,
        tables={"tasks": _tasks(model, votes, tasks), "workers": _workers(workers, found)},
        charts=_charts(model, votes, confidence, workers, gold),
        matrices=_matrices(model),
        findings=[] if found is None else _findings(found),
        remarks=list(dict.fromkeys([*model.remarks_, *(() if found is None else found.remarks)])),
        method=repr(model),
        truth=truth,
        frames={"tasks": with_shown(tasks, votes), "workers": workers},
    )


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _kind(rows: list[list[Any]], place: int) -> str:
    values = [row[place] for row in rows if row[place] is not None]
    return (
        "number" if values and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values) else "text"
    )


def _agreement(votes: Annotations) -> list[tuple[str, str, str]]:
    """Coefficients of agreement, each with its interval."""
    answers = agreement.result.labels_of(votes)
    rows = []
    for name, measure in (
        ("Krippendorff's alpha", agreement.krippendorff_alpha),
        ("Fleiss' kappa", agreement.fleiss_kappa),
        ("Gwet's AC1", agreement.gwet_ac1),
    ):
        found = measure(answers, resamples=_RESAMPLES if votes.n_annotations <= AUDITED else 0)
        value = "not defined" if math.isnan(found.value) else f"{found.value:.3f}"
        between = "" if found.interval is None else f"{found.interval[0]:.3f} to {found.interval[1]:.3f}"
        rows.append((name, value, between or found.reason))
    return rows


def _truth(model: Aggregator, gold: tuple[Any, Any]) -> list[tuple[str, str, str]]:
    """How good the answers are where they are known."""
    index, classes = metrics.match_gold(model.tasks_, gold, unknown="ignore")
    labels, known = model.labels_[index], set(model.classes_.tolist())
    rows = [("Accuracy", f"{metrics.accuracy(labels, classes):.1%}", counted(len(index), "task"))]
    if all(name in known for name in classes.tolist()):
        posterior = model._rows_of_tasks(index)
        error = metrics.calibration_error(posterior, classes, classes=model.classes_)
        rows.append(("Calibration error", f"{error:.3f}", "mean distance of confidence and accuracy"))
    return rows


def _tasks(model: Aggregator, votes: Annotations, frame: pa.Table) -> Table:
    """The tasks to look at first: the least certain, with their votes."""
    import pyarrow as pa

    margin = frame.column("margin").to_numpy()
    order = np.argsort(margin, kind="stable")[:MOST_TASKS]
    shown = with_shown(frame.take(order), votes, LONGEST)
    said = _votes_of(votes, order)
    found = Table.of("tasks", shown.append_column("votes", pa.array(said)), TASKS, MOST_TASKS)
    found.n_rows = frame.num_rows
    return found


def _votes_of(votes: Annotations, tasks: Any) -> list[str]:
    """Who said what of some tasks, in words."""
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


def _workers(frame: pa.Table, found: Review | None) -> Table:
    """Workers, those with most answers first; all in the file beside the page where they are too many."""
    import pyarrow as pa

    if found is not None:
        flags = {"spammer": found.spammers.found, "colluder": found.colluders.found, "copy": found.copies.found}
        said = [", ".join(name for name, marks in flags.items() if marks[row]) for row in range(frame.num_rows)]
        frame = frame.append_column("found", pa.array(said))
    order = np.argsort(-frame.column("n_answers").to_numpy(), kind="stable")
    return Table.of("workers", frame, WORKERS, MOST_WORKERS, order)


def _findings(found: Review) -> list[tuple[str, str]]:
    """What an audit found, in words."""
    change = found.change
    rows = [
        ("Spammers", f"{counted(len(found.spammers), 'worker')} whose answers tell nothing of the class"),
        ("Copies", f"{counted(len(found.copies), 'pair')} of workers who agree beyond what their skill explains"),
        (
            "Colluders",
            f"{counted(len(found.colluders), 'worker')} who answer together against the rest"
            if found.colluders.searched
            else "not searched for: many classes and workers make it slow (manyhands audit --colluders)",
        ),
        ("Groups", f"{counted(len(found.groups), 'group')} of workers who depend on one another"),
    ]
    if change.n_workers:
        rows.append(
            (
                "Without them",
                f"{counted(change.n_workers, 'worker')} with {change.share:.1%} of the answers left out: "
                f"{counted(change.n_changed, 'answer')} would change",
            )
        )
    return rows


def _matrices(model: Aggregator) -> dict[str, Any]:
    """Confusion matrices of the workers with most answers, and of the whole crowd."""
    k = len(model.classes_)
    if k > _MOST_CLASSES:
        return {}
    order = np.argsort(-model._n_labels, kind="stable")[:_MOST_MATRICES]
    confusion = model.confusion_
    crowd = np.average(confusion, axis=0, weights=np.maximum(model._n_labels, 1e-9))
    rows = [crowd, *confusion[order]]
    return {
        "classes": [str(name) for name in model.classes_.tolist()],
        "labels": [str(name) for name in model._labels.values.tolist()],
        "workers": ["the whole crowd", *(str(model.workers_[place]) for place in order)],
        "matrices": [np.round(row, 4).tolist() for row in rows],
    }


def _charts(
    model: Aggregator, votes: Annotations, confidence: Any, frame: pa.Table, gold: tuple[Any, Any] | None
) -> dict[str, dict[str, Any]]:
    """Charts, as Vega-Lite takes them."""
    order = np.argsort(-frame.column("n_answers").to_numpy(), kind="stable")[:MOST_WORKERS]
    dots = [
        {
            "worker": str(row["worker"]),
            "answers": row["n_answers"],
            "skill": row["skill"],
            "error": row["skill_error"],
        }
        for row in frame.take(order).to_pylist()
    ]
    shares = votes.table.label_counts() / votes.n_annotations
    decided = np.bincount(model._won.codes, minlength=len(model.classes_)) / len(model.tasks_)
    classes = [
        {"class": str(name), "share": float(share), "of": of}
        for of, values in (("answers given", shares[: len(decided)]), ("tasks decided", decided))
        for name, share in zip(model.classes_.tolist()[:_MOST_CLASSES], values[:_MOST_CLASSES], strict=True)
    ]
    charts = {
        "confidence": histogram(confidence, "tasks"),
        "workers": {
            "data": {"values": dots},
            "mark": {"type": "circle", "size": 60, "opacity": 0.7},
            "encoding": {
                "x": {"field": "answers", "type": "quantitative", "scale": {"type": "log"}, "title": "answers given"},
                "y": {"field": "accuracy", "type": "quantitative", "title": "accuracy", "scale": {"domain": [0, 1]}},
                "tooltip": [
                    {"field": "worker", "type": "nominal"},
                    {"field": "answers", "type": "quantitative"},
                    {"field": "accuracy", "type": "quantitative", "format": ".3f"},
                    {"field": "error", "type": "quantitative", "format": ".3f"},
                ],
            },
        },
        "classes": {
            "data": {"values": classes},
            "mark": {"type": "bar", "tooltip": True},
            "encoding": {
                "y": {"field": "class", "type": "nominal", "title": None, "sort": None},
                "yOffset": {"field": "of"},
                "x": {"field": "share", "type": "quantitative", "axis": {"format": ".0%", "tickCount": 6}},
                "color": {"field": "of", "type": "nominal", "title": None, "legend": {"orient": "top"}},
            },
        },
    }
    if gold is not None:
        charts["calibration"] = _calibration(model, gold)
    return charts


def histogram(confidence: Any, counted_as: str) -> dict[str, Any]:
    """How many answers there are of each confidence."""
    counts, edges = np.histogram(confidence, bins=20, range=(0, 1))
    bars = [
        {"from": round(float(a), 2), "to": round(float(b), 2), counted_as: int(n)}
        for a, b, n in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    return {
        "data": {"values": bars},
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {
            "x": {
                "field": "from",
                "bin": {"binned": True, "step": 0.05},
                "type": "quantitative",
                "title": "confidence",
                "axis": {"values": [0, 0.2, 0.4, 0.6, 0.8, 1], "format": ".1f"},
            },
            "x2": {"field": "to"},
            "y": {"field": counted_as, "type": "quantitative", "title": counted_as},
        },
    }


def _calibration(model: Aggregator, gold: tuple[Any, Any]) -> dict[str, Any]:
    """How often answers of a confidence are right."""
    index, classes = metrics.match_gold(model.tasks_, gold, unknown="ignore")
    confidence = model._won.confidence[index]
    right = model.labels_[index] == classes
    places = np.minimum((confidence * 10).astype(int), 9)
    points = [
        {
            "confidence": float(confidence[places == place].mean()),
            "right": float(right[places == place].mean()),
            "tasks": int((places == place).sum()),
        }
        for place in range(10)
        if (places == place).any()
    ]
    return {
        "layer": [
            {
                "data": {"values": [{"x": 0, "y": 0}, {"x": 1, "y": 1}]},
                "mark": {"type": "line", "strokeDash": [4, 4], "opacity": 0.6},
                "encoding": {"x": {"field": "x", "type": "quantitative"}, "y": {"field": "y", "type": "quantitative"}},
            },
            {
                "data": {"values": points},
                "mark": {"type": "point", "filled": True, "size": 80, "tooltip": True},
                "encoding": {
                    "x": {
                        "field": "confidence",
                        "type": "quantitative",
                        "title": "confidence",
                        "scale": {"domain": [0, 1]},
                    },
                    "y": {
                        "field": "right",
                        "type": "quantitative",
                        "title": "share that is right",
                        "scale": {"domain": [0, 1]},
                    },
                },
            },
        ]
    }
