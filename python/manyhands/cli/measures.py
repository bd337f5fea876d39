"""How good answers of other kinds than classes are, where the truth is known."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from manyhands import metrics
from manyhands._base.checks import counted, listed
from manyhands._base.frames import WELL_KNOWN, known_among
from manyhands.cli.options import LAYOUT

if TYPE_CHECKING:
    import pyarrow as pa

#: Columns of a file of known answers, as lists, by role.
Columns = Mapping[str, list[Any]]
_SPANS = ("sequence", "start", "end")
_TOKENS = ("sequence", "position", "label")
_CORNERS = ("x1", "y1", "x2", "y2")


class Known:
    """Known answers to some tasks of a log that is not of classes, to measure a fit by.

    Ids are compared as they are written, since a file of text has no others.
    """

    def __init__(self, args: Namespace, votes: Any, path: str) -> None:
        from manyhands._base.sources import Layout, Source
        from manyhands._base.streams import column_names, read_columns

        source = Source(path, Layout(*(getattr(args, name) for name in LAYOUT)))
        names = column_names(source)
        self.source, self.votes = str(path), votes
        self._frame: pa.Table = read_columns(source, names)
        self._task = args.truth_task
        self._label = args.truth_label
        self._measure = _KINDS[args.kind]

    def measure(self, model: Any) -> dict[str, Any]:
        """Return the measures of the kind, by name, and the number of tasks or items they rest on."""
        return self._measure(self, model)

    def has(self, *roles: str) -> bool:
        """Whether the file has a column for each role."""
        return all(self._named(role) is not None for role in roles)

    def columns(self, *roles: str) -> dict[str, list[Any]]:
        """Columns by role, as lists."""
        found: dict[str, list[Any]] = {}
        for role in roles:
            name = self._named(role)
            if name is None:
                known = ", ".join(("truth", *WELL_KNOWN.get(role, (role,))))
                raise ValueError(
                    f"{self.source} has no column for the {role} (known are {known}); its columns are "
                    f"{listed(self._frame.column_names)}"
                )
            found[role] = self._frame.column(name).to_pylist()
        return found

    def _named(self, role: str) -> str | None:
        names = self._frame.column_names
        if role in ("task", "item", "sequence") and self._task is not None:
            return self._task if self._task in names else None
        if role in _ANSWER and self._label is not None:
            return self._label if self._label in names else None
        known = known_among(names, WELL_KNOWN.get(role, (role,)))
        if role in _ANSWER:
            known = known_among(names, (role,)) or known_among(names, ("truth", "gold", "ground_truth")) or known
        return known[0] if known else None

    def matched(self, ours: Any, theirs: list[Any]) -> tuple[list[int], list[int]]:
        """Places of the ids that both know, in ours and in theirs; raises if there are none, or one is given twice."""
        place = {str(name): at for at, name in enumerate(ours)}
        rows = [(place[str(name)], row) for row, name in enumerate(theirs) if str(name) in place]
        if not rows:
            raise ValueError(f"{self.source} knows none of the log's ids; it has {listed(theirs[:3])}")
        if len({at for at, _ in rows}) < len(rows):
            raise ValueError(f"{self.source} knows several answers to one id; keep one")
        return [at for at, _ in rows], [row for _, row in rows]

    def grouped(self, ours: Any, theirs: list[Any]) -> dict[int, list[int]]:
        """Rows of the file for each of our tasks that it knows; raises if there are none."""
        place = {str(name): at for at, name in enumerate(ours)}
        found: dict[int, list[int]] = {}
        for row, name in enumerate(theirs):
            if str(name) in place:
                found.setdefault(place[str(name)], []).append(row)
        if not found:
            raise ValueError(f"{self.source} knows none of the log's ids; it has {listed(theirs[:3])}")
        return found

    def numbers(self, values: list[Any], what: str) -> Any:
        """A column of numbers, NaN where there is none."""
        try:
            return np.array([np.nan if value in (None, "") else float(value) for value in values])
        except (TypeError, ValueError):
            raise ValueError(f"{self.source}: the {what} must be numbers") from None


#: Roles of what is known, which a column called ``truth`` has too.
_ANSWER = frozenset({"value", "score", "cluster", "labels", "text", "mask"})


def _of_numbers(known: Known, model: Any) -> dict[str, Any]:
    names = known.votes._dimensions.values.tolist()
    if len(names) == 1:
        wanted = known.columns("task", "value")
        columns = [wanted["value"]]
    else:
        wanted = known.columns("task", *map(str, names))
        columns = [wanted[str(name)] for name in names]
    ours, rows = known.matched(model.tasks_, wanted["task"])
    truth = np.stack([known.numbers(column, "true values")[rows] for column in columns], axis=1)
    values = np.asarray(model.values_).reshape(len(model.tasks_), -1)[ours]
    return {
        "rmse": metrics.rmse(values, truth),
        "mae": metrics.mae(values, truth),
        "correlation": metrics.correlation(values, truth),
        "n_tasks": len(ours),
    }


def _of_items(known: Known, model: Any) -> dict[str, Any]:
    frame = model.to_frame().to_pydict()
    role = "score" if known.has("score") else "rank"
    wanted = known.columns("item", role)
    ours, rows = known.matched(frame["item"], wanted["item"])
    truth = known.numbers(wanted[role], f"true {role}s")[rows] * (1 if role == "score" else -1)
    scores = np.array(frame["score"], np.float64)[ours]
    return {
        "kendall": metrics.kendall(scores, truth),
        "spearman": metrics.spearman(scores, truth),
        "n_items": len(ours),
    }


def _of_clusters(known: Known, model: Any) -> dict[str, Any]:
    frame, wanted = model.to_frame().to_pydict(), known.columns("item", "cluster")
    ours, rows = known.matched(frame["item"], wanted["item"])
    clusters = [frame["cluster"][at] for at in ours]
    return {
        "adjusted_rand": metrics.adjusted_rand(clusters, [str(wanted["cluster"][row]) for row in rows]),
        "n_clusters": len(set(clusters)),
        "n_items": len(ours),
    }


def _of_sets(known: Known, model: Any) -> dict[str, Any]:
    frame, wanted = model.to_frame().to_pydict(), known.columns("task", "labels")
    ours, rows = known.matched(frame["task"], wanted["task"])
    truth = [_labels(wanted["labels"][row]) for row in rows]
    found = metrics.set_scores([map(str, frame["labels"][at] or []) for at in ours], truth)
    return asdict(found) | {"n_tasks": len(ours)}


def _labels(said: Any) -> list[str]:
    if isinstance(said, str):
        return said.split("|") if said else []
    return [] if said is None else [str(one) for one in said]


def _of_texts(known: Known, model: Any) -> dict[str, Any]:
    wanted = known.columns("task", "text")
    ours, rows = known.matched(model.tasks_, wanted["task"])
    texts, truth = model.texts_[ours].tolist(), [str(wanted["text"][row] or "") for row in rows]
    return {
        "word_error_rate": metrics.word_error_rate(texts, truth),
        "character_error_rate": metrics.character_error_rate(texts, truth),
        "confidence": float(np.mean(np.asarray(model.confidence_)[ours])),
        "n_tasks": len(ours),
    }


def _of_masks(known: Known, model: Any) -> dict[str, Any]:
    from manyhands.masks.table import Masks

    wanted = known.columns("task", "mask")
    truth = Masks.from_frame(
        {"task": wanted["task"], "mask": wanted["mask"], "worker": ["truth"] * len(wanted["task"])}
    )
    ours, theirs = known.matched(model.tasks_, truth.tasks.tolist())
    if truth.n_annotations != truth.n_tasks:
        raise ValueError(f"{known.source} knows several masks of one task; keep one")
    masks = model.masks_
    found, true = [masks[at] for at in ours], [truth.mask(at) for at in theirs]
    return {
        "iou": metrics.mask_iou(found, true),
        "dice": metrics.mask_dice(found, true),
        "n_tasks": len(ours),
    }


def _of_boxes(known: Known, model: Any) -> dict[str, Any]:
    if known.votes.n_dims != 4:
        raise ValueError("points have no overlap to measure them by; --evaluate takes logs of boxes")
    wanted = known.columns("task", *_CORNERS)
    corners = np.stack([known.numbers(wanted[name], "true corners") for name in _CORNERS], axis=1)
    called = known.columns("label")["label"] if known.has("label") else None
    of = known.grouped(model.tasks_, wanted["task"])
    there = {at: [row for row in rows if not np.isnan(corners[row]).any()] for at, rows in of.items()}
    boxes, labels = model.boxes_, model.box_labels_
    found, true = [boxes[at] for at in of], [corners[there[at]] for at in of]
    scores = asdict(metrics.box_scores(found, true))
    kept = {name: scores[name] for name in ("precision", "recall", "f1", "iou", "n_found", "n_true")}
    if called is not None and len(known.votes.classes):
        names = [[str(name) for name in labels[at]] for at in of]
        truth = [[str(called[row]) for row in there[at]] for at in of]
        kept["f1_with_labels"] = metrics.box_scores(found, true, labels=names, true_labels=truth).f1
    return kept | {"n_tasks": len(of)}


def _of_sequences(known: Known, model: Any) -> dict[str, Any]:
    from manyhands.sequences.table import Sequences

    if known.has(*_SPANS):
        wanted = known.columns(*_SPANS, *(("tag",) if known.has("tag") else ()))
        of = known.grouped(model.sequences_, wanted["sequence"])
        starts, ends = (known.numbers(wanted[name], f"{name}s of true spans") for name in ("start", "end"))
        rows = [(at, row) for at, rows in of.items() for row in rows if not np.isnan(starts[row])]
        truth: Any = {
            "sequence": [str(model.sequences_[at]) for at, _ in rows],
            "start": [int(starts[row]) for _, row in rows],
            "end": [int(ends[row]) for _, row in rows],
        }
        truth |= {"tag": [str(wanted["tag"][row]) for _, row in rows]} if "tag" in wanted else {}
        asked = {str(model.sequences_[at]) for at in of}
    else:
        wanted = known.columns(*_TOKENS)
        columns = {"sequence": list(map(str, wanted["sequence"])), "worker": ["truth"] * len(wanted["sequence"])}
        places = known.numbers(wanted["position"], "positions")
        read = Sequences.from_frame({**columns, "position": places, "label": wanted["label"]})
        asked = {str(model.sequences_[at]) for at in known.grouped(model.sequences_, read.sequences.tolist())}
        truth = _written(read.spans())
    found = _written(model.spans_)
    strict, relaxed = (metrics.span_scores(found, truth, relaxed=how, sequences=asked) for how in (False, True))
    kept = {name: getattr(strict, name) for name in ("precision", "recall", "f1")}
    kept |= {f"relaxed_{name}": getattr(relaxed, name) for name in ("precision", "recall", "f1")}
    return kept | {"n_found": strict.n_found, "n_true": strict.n_true, "n_tasks": len(asked)}


def _written(spans: pa.Table) -> dict[str, list[Any]]:
    """Spans with their names as text."""
    columns: dict[str, list[Any]] = spans.select(["sequence", "start", "end", "tag"]).to_pydict()
    return columns | {name: list(map(str, columns[name])) for name in ("sequence", "tag")}


_KINDS: dict[str, Callable[[Known, Any], dict[str, Any]]] = {
    "numeric": _of_numbers,
    "pairwise": _of_items,
    "rankings": _of_items,
    "clustering": _of_clusters,
    "multilabel": _of_sets,
    "texts": _of_texts,
    "masks": _of_masks,
    "boxes": _of_boxes,
    "sequences": _of_sequences,
}
#: Kinds whose answers can be measured.
MEASURED = tuple(_KINDS)


def summary_of_measures(scores: Mapping[str, Any]) -> str:
    """Say how good the answers are, in a line."""
    shown = [f"{name.replace('_', ' ')} {value:.4f}" for name, value in scores.items() if isinstance(value, float)]
    what, n = next((name, value) for name, value in scores.items() if name in ("n_tasks", "n_items"))
    return f"{', '.join(shown)} over {counted(n, what[2:-1])}"
