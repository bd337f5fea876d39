"""What is wrong with each judge: errors against human labels, biases, failures and drift."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands import audit
from manyhands._base.binomial import binomial_interval
from manyhands._base.estimator import Array
from manyhands.audit._rates import q_values
from manyhands.judges.estimates import wilson
from manyhands.judges.verdicts import Coded, as_number, families_by_name
from manyhands.metrics.intervals import student_quantile

if TYPE_CHECKING:
    from manyhands.judges.part import Part

Ints = npt.NDArray[np.int64]
Rows = list[dict[str, Any]]

_LEVEL, _RATE = 0.95, 0.05
#: Verdicts below which nothing is tested.
_FEWEST = 10
_TINY = 1e-12
_OWN = "own family"


def judge_rows(part: Part, criterion: Any) -> Rows:
    """One row per judge: verdicts, failures, and errors on labeled items."""
    data = part.data
    item, truth, _ = part.gold
    place = np.full(data.n_items, -1, np.int64)
    place[item] = np.arange(len(item))
    failed = np.bincount(data.judge[~part.valid], minlength=data.n_judges)
    count = np.bincount(data.judge[part.valid], minlength=data.n_judges)
    skills = part.fused.workers_frame() if data.is_classes and data.n_judges else None
    family = judge_families(part)
    rows: Rows = []
    for code, judge in enumerate(data.judges):
        row: dict[str, Any] = {"criterion": criterion, "judge": judge, "family": family[code]}
        row |= {"n_verdicts": int(count[code]), "n_failed": int(failed[code])}
        mine = np.flatnonzero(part.valid & (data.judge == code) & (place[data.item] >= 0))
        at, reply = place[data.item[mine]], data.value[mine]
        row["n_gold"] = len(np.unique(at))
        if skills is not None:
            row["skill"] = skills.column("skill")[code].as_py() if count[code] else None
            row["skill_error"] = skills.column("skill_error")[code].as_py() if count[code] else None
        if data.is_classes:
            row["accuracy"], row["low"], row["high"] = _share(data.label[mine] == part.gold_class[at], at)
            row |= _rates(part, mine, at)
        else:
            off = reply - truth[at]
            row["correlation"], row["low"], row["high"] = _correlation(per_item(reply, at), truth[np.unique(at)])
            row |= _root_of_mean(per_item(off**2, at) if data.same_scale else off[:0])
        bias, half = _mean_and_half(per_item(reply - truth[at], at)) if data.same_scale else (None, None)
        row |= {"bias": bias, "bias_low": _less(bias, half), "bias_high": _less(bias, half, 1)}
        rows.append(row)
    return rows


def _rates(part: Part, mine: Ints, at: Ints) -> dict[str, Any]:
    """Of a judge of passes: share of passes that it passes, and of failures that it fails."""
    data = part.data
    if not data.share or len(data.classes) < 2:
        return {}
    passes, reply = data.worth[part.gold_class[at]] == 1.0, data.value[mine] == 1.0
    row: dict[str, Any] = {}
    for name, right, where in (
        ("true_positive_rate", reply[passes], at[passes]),
        ("true_negative_rate", ~reply[~passes], at[~passes]),
    ):
        row[name], row[f"{name}_low"], row[f"{name}_high"] = _share(right, where)
    return row


def per_item(values: npt.NDArray[Any], at: Ints) -> Array:
    """Mean of values per item: repeated verdicts of a judge on an item are not further items."""
    code = np.unique(at, return_inverse=True)[1]
    return np.asarray(np.bincount(code, values) / np.bincount(code))


def _share(right: npt.NDArray[np.bool_], at: Ints) -> tuple[float | None, float | None, float | None]:
    """Share of items with its 95 % interval: exact, or Wilson's where items are repeated."""
    if not len(right):
        return None, None, None
    each = per_item(right, at)
    share = float(each.mean())
    exact = len(each) == len(right)
    return share, *(binomial_interval(int(right.sum()), len(right)) if exact else wilson(share, len(each)))


def _correlation(one: Array, other: Array) -> tuple[float | None, float | None, float | None]:
    """Correlation with its 95 % interval (Fisher's z)."""
    if len(one) < 4 or one.std() < _TINY or other.std() < _TINY:
        return None, None, None
    r = float(np.clip(np.corrcoef(one, other)[0, 1], -1.0, 1.0))
    middle, half = math.atanh(min(max(r, -1 + _TINY), 1 - _TINY)), student_quantile(_LEVEL, None)
    half /= math.sqrt(len(one) - 3)
    return r, math.tanh(middle - half), math.tanh(middle + half)


def _root_of_mean(squares: Array) -> dict[str, float | None]:
    """Root mean squared error with its 95 % interval."""
    mean, half = _mean_and_half(squares)
    if mean is None or half is None:
        return {"error": None, "error_low": None, "error_high": None}
    return {
        "error": math.sqrt(mean),
        "error_low": math.sqrt(max(mean - half, 0.0)),
        "error_high": math.sqrt(mean + half),
    }


def _mean_and_half(values: Array) -> tuple[float | None, float | None]:
    if len(values) < 2:
        return None, None
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    return float(values.mean()), student_quantile(_LEVEL, len(values) - 1) * error


def _less(middle: float | None, half: float | None, sign: int = -1) -> float | None:
    return None if middle is None or half is None else middle + sign * half


def judge_families(part: Part) -> list[Any]:
    """Family of each judge: given by name, by the column of families, or by its name."""
    data = part.data
    outcome = [part.families.get(judge, part.families.get(str(judge))) for judge in data.judges]
    column = data.extra.get("family")
    if column is not None:
        for code in range(data.n_judges):
            rows = np.flatnonzero(data.judge == code)
            if outcome[code] is None and len(rows):
                outcome[code] = column.names[int(column.codes[rows[0]])]
    by_name = families_by_name(data.judges)
    return [own if own is not None else other for own, other in zip(outcome, by_name, strict=True)]


def _system_families(part: Part) -> list[Any]:
    data = part.data
    outcome = [part.families.get(one, part.families.get(str(one))) for one in data.systems]
    column = data.extra.get("system_family")
    if column is not None:
        system = data.system_of[data.item]
        for code in range(len(data.systems)):
            rows = np.flatnonzero(system == code)
            if outcome[code] is None and len(rows):
                outcome[code] = column.names[int(column.codes[rows[0]])]
    by_name = families_by_name(data.systems)
    return [own if own is not None else other for own, other in zip(outcome, by_name, strict=True)]


def _numbers(column: Coded, what: Callable[[float], float] = lambda x: x) -> Array:
    values = []
    for name in column.names:
        number = as_number(name)
        values.append(math.nan if number is None else what(number))
    return np.array(values, np.float64)[column.codes]


def covariates(part: Part) -> dict[str, Array]:
    """Position, binary logarithm of the length and own family (0 or 1) of each verdict, if the log has them."""
    data, outcome = part.data, {}
    if "position" in data.extra:
        position = data.extra["position"]
        outcome["position"] = _numbers(position)
        if np.isnan(outcome["position"]).all():
            outcome["position"] = position.codes.astype(np.float64) + 1
    if "length" in data.extra:
        outcome["length"] = _numbers(data.extra["length"], lambda x: math.log2(x) if x > 0 else math.nan)
    own, pieces = judge_families(part), _system_families(part)
    reference = {name for name in pieces if name is not None}
    if reference & {name for name in own if name is not None}:
        same = np.array([[one is not None and one == other for other in pieces] for one in own], np.float64)
        outcome[_OWN] = same[data.judge, data.system_of[data.item]]
    return outcome


def bias_rows(part: Part, criterion: Any) -> Rows:
    """One row per bias and judge; see `Panel.biases`."""
    data, rows = part.data, []
    valid = part.valid
    labels = np.full(data.n_items, math.nan)
    if data.same_scale:
        labels[part.gold[0]] = part.gold[1]
    family = judge_families(part)
    for name, column in covariates(part).items():
        for code, judge in enumerate(data.judges):
            mine = np.flatnonzero(valid & (data.judge == code) & ~np.isnan(column))
            kin = [
                other
                for other in range(data.n_judges)
                if other == code or (name == _OWN and family[other] is not None and family[other] == family[code])
            ]
            others = _consensus_of(part, valid & ~np.isin(data.judge, kin))
            expected = np.where(np.isnan(labels), others, labels)[data.item[mine]]
            ok = ~np.isnan(expected)
            off = data.value[mine][ok] - expected[ok]
            rows.append(
                {"criterion": criterion, "bias": name, "judge": judge}
                | _slope(column[mine][ok], off, data.clusters[data.item[mine][ok]])
            )
        reference = np.flatnonzero(valid & ~np.isnan(labels[data.item]) & ~np.isnan(column))
        if len(reference):
            off = data.value[reference] - labels[data.item[reference]]
            rows.append(
                {"criterion": criterion, "bias": name, "judge": "(all)"}
                | _slope(column[reference], off, data.clusters[data.item[reference]])
            )
    tested = [row for row in rows if row["p_value"] is not None]
    for row, q in (
        zip(tested, q_values(np.array([row["p_value"] for row in tested]), len(tested)), strict=True) if tested else ()
    ):
        row["q_value"] = float(q)
    for row in rows:
        row.setdefault("q_value", None)
        row["found"] = row["q_value"] is not None and row["q_value"] <= _RATE
    return rows


def _consensus_of(part: Part, rows: npt.NDArray[np.bool_]) -> Array:
    """Median of some verdicts on each item, which a single biased judge hardly moves; NaN where there is none."""
    data = part.data
    item, value = data.item[rows], data.value[rows]
    order = np.lexsort((value, item))
    item, value = item[order], value[order]
    size = np.bincount(item, minlength=data.n_items)
    first = np.cumsum(size) - size
    there = size > 0
    out = np.full(data.n_items, math.nan)
    low, high = first + (size - 1) // 2, first + size // 2
    out[there] = (value[low[there]] + value[high[there]]) / 2
    return out


def _slope(x: Array, y: Array, clusters: Ints) -> dict[str, Any]:
    """Slope of a regression with a standard error by cluster, its interval and p-value."""
    empty: dict[str, Any] = {"n": len(x), "effect": None, "low": None, "high": None, "p_value": None}
    if len(x) < _FEWEST or np.ptp(x) < _TINY:
        return empty
    offsets = x - x.mean()
    square = float(offsets @ offsets)
    slope = float(offsets @ y) / square
    rest = y - y.mean() - slope * offsets
    _, code = np.unique(clusters, return_inverse=True)
    sums = np.bincount(np.ravel(code), offsets * rest)
    n = len(sums)
    if n < 3:
        return empty
    error = math.sqrt(float((sums**2).sum()) * n / (n - 1)) / square
    if error < _TINY:
        return empty | {"effect": slope, "low": slope, "high": slope}
    half = student_quantile(_LEVEL, n - 2) * error
    p = _two_sided(abs(slope) / error, n - 2)
    return {"n": len(x), "effect": slope, "low": slope - half, "high": slope + half, "p_value": p}


def _two_sided(t: float, freedom: float) -> float:
    """Two-sided p-value of Student's t."""
    from manyhands.judges.student import student_tail

    return 2 * student_tail(t, freedom)


def failure_rows(part: Part, criterion: Any) -> Rows:
    """Failed and missing verdicts by judge, and where failures fall more often than elsewhere."""
    data = part.data
    rows: Rows = []
    bad = ~part.valid
    places: list[tuple[str, npt.NDArray[np.bool_]]] = []
    if len(data.systems) > 1:
        system = data.system_of[data.item]
        places += [(f"system {name}", system == code) for code, name in enumerate(data.systems)]
    if "length" in data.extra:
        length = _numbers(data.extra["length"])
        if not np.isnan(length).all():
            places.append(("longest quarter", length > np.nanquantile(length, 0.75)))
    if len(part.gold[0]) and data.is_classes:
        truth = np.full(data.n_items, -1, np.int64)
        truth[part.gold[0]] = part.gold_class
        places += [(f"human label {name}", truth[data.item] == code) for code, name in enumerate(data.classes)]
    for code, judge in enumerate(data.judges):
        mine = data.judge == code
        n, failed = int(mine.sum()), int((bad & mine).sum())
        absent = data.n_items - len(np.unique(data.item[mine]))
        rows.append(_failures(criterion, judge, "everywhere", n, failed) | {"n_missing": absent})
        if failed:
            rows += [
                _failures(criterion, judge, where, int((mine & there).sum()), int((bad & mine & there).sum()))
                for where, there in places
                if (mine & there).any()
            ]
    return rows


def _failures(criterion: Any, judge: Any, where: str, n: int, failed: int) -> dict[str, Any]:
    low, high = binomial_interval(failed, n)
    row = {"criterion": criterion, "judge": judge, "where": where, "n": n, "n_failed": failed}
    return row | {"share": failed / n, "low": low, "high": high}


def drift_rows(part: Part, criterion: Any) -> Rows:
    """Judges whose verdicts change over time, as `audit.drift` finds them."""
    data = part.data
    if "time" not in data.extra:
        raise ValueError("drift needs a column of times: pass time='…'")
    time = data.extra["time"]
    order = _numbers(time)
    if np.isnan(order).any():
        # Dates and times in one format sort as text; missing ones come last.
        ranked = sorted(range(len(time.names)), key=lambda at: (time.names[at] is None, str(time.names[at])))
        place = np.empty(len(ranked))
        place[ranked] = np.arange(len(ranked))
        order = place[time.codes]
    valid = part.valid
    label = data.label
    if not data.is_classes:
        label = np.zeros(len(data.item), np.int64)
        for code in range(data.n_judges):
            mine = valid & (data.judge == code)
            if mine.any():
                label[mine] = data.value[mine] > np.median(data.value[mine])
    log = {
        "task": data.item[valid],
        "worker": data.judge[valid],
        "label": label[valid],
        "time": order[valid],
    }
    outcome = audit.drift(log, order="time").frame().to_pylist()
    return [
        {
            "criterion": criterion,
            "judge": data.judges[int(row["worker"])],
            "found": row["found"],
            "n_verdicts": row["n_answers"],
            "after": row["after"],
            "before": row["before"],
            "since": row["since"],
            "p_value": row["p_value"],
            "q_value": row["q_value"],
        }
        for row in outcome
    ]
