"""Vega-Lite specifications of the charts of a report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

Spec = dict[str, Any]
#: With more workers, dots would cover each other, and a chart shows counts by cell instead.
_MOST_DOTS = 300
#: Items in a chart of scores.
_MOST_ITEMS = 50


def histogram(values: Any, counted_as: str, title: str, *, unit: bool = True) -> Spec:
    """Return a histogram of finite values: from 0 to 1 in steps of 0.05 if `unit`, else over their range."""
    values = np.asarray(values, float)
    values = values[np.isfinite(values)]
    counts, edges = np.histogram(values, bins=20, range=(0, 1) if unit else None)
    digits = 2 if unit else 12
    bars = [
        {"from": round(float(a), digits), "to": round(float(b), digits), counted_as: int(n)}
        for a, b, n in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    axis = {"values": [0, 0.2, 0.4, 0.6, 0.8, 1], "format": ".1f"} if unit else {}
    return {
        "data": {"values": bars},
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {
            "x": {
                "field": "from",
                "bin": {"binned": True, "step": float(edges[1] - edges[0])},
                "type": "quantitative",
                "title": title,
                "axis": axis,
            },
            "x2": {"field": "to"},
            "y": {"field": counted_as, "type": "quantitative", "title": f"number of {counted_as}"},
        },
    }


def _answers_axis(answers: Any, field: str = "answers") -> Spec:
    """Return a logarithmic axis of numbers of answers.

    Its domain is stated: Vega's own would be that of the marks drawn, which contains zero where no mark is drawn.
    """
    low, high = (float(answers.min()), float(answers.max())) if len(answers) else (1.0, 1.0)
    low = max(low, 1.0)
    scale = {"type": "log", "domain": [low, max(high, 2 * low)], "nice": True}
    return {"field": field, "type": "quantitative", "scale": scale, "title": "answers given"}


def accuracies(frame: pa.Table) -> Spec:
    """Plot the accuracy of workers against their number of answers: dots, or counts of workers where they are many."""
    skill = frame.column("skill").to_numpy().astype(float)
    answers = frame.column("n_answers").to_numpy().astype(float)
    if len(skill) > _MOST_DOTS:
        return _cells(answers, skill)
    columns = [name for name in ("worker", "n_answers", "skill", "interval", "flag") if name in frame.column_names]
    reach = frame.column("skill_error").to_numpy().astype(float) * 1.959964
    dots = []
    for place, row in enumerate(frame.select(columns).to_pylist()):
        ends = [float(np.clip(skill[place] + sign * reach[place], 0, 1)) for sign in (-1, 1)]
        estimated = math.isfinite(skill[place])
        dots.append(
            {
                "worker": str(row["worker"]),
                "answers": row["n_answers"],
                "accuracy": float(skill[place]) if estimated else None,
                "interval": row.get("interval") or "",
                "audit": row.get("flag") or "not flagged",
                "low": ends[0] if math.isfinite(ends[0]) else None,
                "high": ends[1] if math.isfinite(ends[1]) else None,
            }
        )
    x = _answers_axis(answers)
    scale = {"domain": [0, 1]}
    y = {"type": "quantitative", "title": "accuracy, 95 % interval", "scale": scale}
    flagged = any(dot["audit"] != "not flagged" for dot in dots)
    color = {"field": "audit", "type": "nominal", "title": None, "legend": {"orient": "top"}} if flagged else None
    tooltip = [
        {"field": "worker", "type": "nominal"},
        {"field": "answers", "type": "quantitative"},
        {"field": "accuracy", "type": "quantitative", "format": ".3f"},
        {"field": "interval", "type": "nominal", "title": "95 % interval"},
        {"field": "audit", "type": "nominal"},
    ]
    shared = {"x": x} | ({} if color is None else {"color": color})
    return {
        "data": {"values": dots},
        "layer": [
            {
                "mark": {"type": "rule", "opacity": 0.4},
                "encoding": shared | {"y": {"field": "low", **y}, "y2": {"field": "high"}},
            },
            {
                "mark": {"type": "circle", "size": 60, "opacity": 0.8},
                "encoding": shared | {"y": {"field": "accuracy", **y}, "tooltip": tooltip},
            },
        ],
    }


def _cells(answers: Any, skill: Any) -> Spec:
    """Count workers by answers and accuracy, in a grid."""
    keep = np.isfinite(skill) & (answers > 0)
    x, y = np.log10(answers[keep]), skill[keep]
    edges = np.linspace(x.min(), max(x.max(), x.min() + 0.1), 25) if len(x) else np.linspace(0, 1, 25)
    counts, _, heights = np.histogram2d(x, y, bins=[edges, np.linspace(0, 1, 21)])
    places = np.argwhere(counts > 0)
    cells = [
        {
            "from": round(float(10 ** edges[i]), 3),
            "to": round(float(10 ** edges[i + 1]), 3),
            "low": round(float(heights[j]), 2),
            "high": round(float(heights[j + 1]), 2),
            "workers": int(counts[i, j]),
        }
        for i, j in places.tolist()
    ]
    return {
        "data": {"values": cells},
        "mark": {"type": "rect", "tooltip": True},
        "encoding": {
            "x": _answers_axis(answers[keep], "from"),
            "x2": {"field": "to"},
            "y": {"field": "low", "type": "quantitative", "title": "accuracy", "scale": {"domain": [0, 1]}},
            "y2": {"field": "high"},
            "opacity": {
                "field": "workers",
                "type": "quantitative",
                "title": "workers",
                "scale": {"type": "sqrt", "range": [0.15, 1]},
                "legend": {"orient": "top"},
            },
        },
    }


def shares(names: list[str], series: Mapping[str, Any]) -> Spec:
    """Return bars of the share of each class in several series."""
    rows = [
        {"class": name, "share": float(share), "of": of}
        for of, values in series.items()
        for name, share in zip(names, values[: len(names)], strict=True)
    ]
    return {
        "data": {"values": rows},
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {
            "y": {"field": "class", "type": "nominal", "title": None, "sort": None},
            "yOffset": {"field": "of"},
            "x": {"field": "share", "type": "quantitative", "axis": {"format": ".0%", "tickCount": 6}},
            "color": {"field": "of", "type": "nominal", "title": None, "legend": {"orient": "top"}},
        },
    }


def scores(frame: pa.Table, level: str) -> Spec:
    """Return scores of items with their intervals, best first."""
    rows = [
        {
            "item": str(row["item"]),
            "score": row["score"],
            **{end: row[end] for end in ("low", "high") if row.get(end) is not None and math.isfinite(row[end])},
        }
        for row in frame.slice(0, _MOST_ITEMS).to_pylist()
    ]
    y = {"field": "item", "type": "nominal", "title": None, "sort": None}
    title = f"score, {level} interval"
    x = {"type": "quantitative", "title": title, "scale": {"zero": False}}
    return {
        "height": max(120, 22 * len(rows)),
        "data": {"values": rows},
        "layer": [
            {
                "mark": {"type": "rule", "opacity": 0.6},
                "encoding": {"y": y, "x": {"field": "low", **x}, "x2": {"field": "high"}},
            },
            {
                "mark": {"type": "circle", "size": 70, "tooltip": True},
                "encoding": {"y": y, "x": {"field": "score", **x}},
            },
        ],
    }


def wilson(share: float, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share of n independent cases.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927).
    """
    z2 = 1.959964**2
    center = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    return max(center - half, 0.0), min(center + half, 1.0)


def calibration(confidence: Any, correct: Any) -> Spec:
    """Plot the share of correct answers against their confidence, in ten bins, with marks sized by count."""
    bins = np.minimum((np.asarray(confidence) * 10).astype(int), 9)
    points = []
    for place in range(10):
        inside = bins == place
        n = int(inside.sum())
        if not n:
            continue
        share = float(correct[inside].mean())
        low, high = wilson(share, n)
        points.append(
            {"confidence": float(confidence[inside].mean()), "correct": share, "tasks": n, "low": low, "high": high}
        )
    unit = {"domain": [0, 1]}
    x = {"field": "confidence", "type": "quantitative", "title": "confidence", "scale": unit}
    y = {"type": "quantitative", "title": "share correct, 95 % interval", "scale": unit}
    size = {
        "field": "tasks",
        "type": "quantitative",
        "title": "tasks",
        "scale": {"rangeMin": 10, "rangeMax": 500},
        "legend": {"orient": "top"},
    }
    return {
        "layer": [
            {
                "data": {"values": [{"x": 0, "y": 0}, {"x": 1, "y": 1}]},
                "mark": {"type": "line", "strokeDash": [4, 4], "opacity": 0.6},
                "encoding": {"x": {"field": "x", "type": "quantitative"}, "y": {"field": "y", "type": "quantitative"}},
            },
            {
                "data": {"values": points},
                "mark": {"type": "rule", "opacity": 0.5},
                "encoding": {"x": x, "y": {"field": "low", **y}, "y2": {"field": "high"}},
            },
            {
                "data": {"values": points},
                "mark": {"type": "point", "filled": True, "tooltip": True, "opacity": 0.8},
                "encoding": {"x": x, "y": {"field": "correct", **y}, "size": size},
            },
        ]
    }
