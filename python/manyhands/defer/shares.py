"""Who may take how much: shares of the cases that experts and classifier are asked to take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from manyhands._base.checks import check_choice, check_number, preview
from manyhands._base.estimator import Array
from manyhands._base.names import Names

#: ``"free"``, ``"balanced"``, or the least and greatest share of single experts.
Workload = Literal["free", "balanced"] | Mapping[Any, float | tuple[float, float]]
#: The share of cases that the classifier takes, or the least and the greatest; None for any.
Coverage = float | tuple[float, float] | None

#: What it costs to ask: any expert, or single ones.
Cost = float | Mapping[Any, float]

#: Costs beyond this leave nothing of a probability.
_MOST_COST = 1e3

#: Shares that miss one by no more than this sum to one.
_ROUNDING = 1e-9


def bounds(experts: Names, coverage: Coverage, workload: Workload) -> tuple[Array, Array] | None:
    """Least and greatest share of each option, experts first and the classifier last, (n_experts + 1,) each.

    None where anything goes. Shares that cannot be kept together are rejected.
    """
    if coverage is None and isinstance(workload, str) and workload == "free":
        return None
    m = len(experts)
    lower, upper = np.zeros(m + 1), np.ones(m + 1)
    if coverage is not None:
        lower[m], upper[m] = _share("coverage", coverage)
    if isinstance(workload, Mapping):
        _bound_experts(experts, workload, lower, upper)
    else:
        check_choice("workload", workload, ("free", "balanced"))
        if workload == "balanced":
            _balance(coverage is None, lower, upper)
    _refuse_impossible(lower, upper)
    return lower, _tighten(lower, upper)


def _share(what: str, value: Any) -> tuple[float, float]:
    pair = value if isinstance(value, tuple | list) else (value, value)
    if len(pair) != 2 or not all(isinstance(part, int | float | np.number) for part in pair):
        raise TypeError(f"{what} must be a share or a pair (least, greatest), not {value!r}")
    low, high = map(float, pair)
    if not 0 <= low <= high <= 1:
        raise ValueError(f"{what} must be a share from 0 to 1, or a pair of them in order, not {value!r}")
    return low, high


def costs(experts: Names, cost: Cost, *, least: float = -_MOST_COST) -> Array:
    """What it costs to ask each option, (n_experts + 1,); the classifier, the last, costs nothing."""
    cost_array = np.zeros(len(experts) + 1)
    if isinstance(cost, Mapping):
        for code, name, value in _expert_codes(experts, cost, "cost"):
            cost_array[code] = _checked_cost(f"the cost of {name!r}", value, least)
    elif isinstance(cost, Sequence | np.ndarray):
        raise TypeError(f"cost must be a number or a mapping {{expert: number}}, not {cost!r}")
    else:
        cost_array[:-1] = _checked_cost("cost", cost, least)
    return cost_array


def _checked_cost(what: str, value: Any, least: float) -> float:
    check_number(what, value, least=least, most=_MOST_COST)
    return float(value)


def _expert_codes(experts: Names, given: Mapping[Any, Any], what: str) -> Iterator[tuple[int, Any, Any]]:
    """Each expert that is named, by code and name, with the answers about them."""
    for (name, value), code in zip(given.items(), experts.find(given), strict=True):
        if code < 0:
            raise KeyError(
                f"{what} names {name!r}, which is not an expert; there are {preview(experts.values.tolist(), 5)}"
            )
        yield int(code), name, value


def _bound_experts(experts: Names, workload: Mapping[Any, Any], lower: Array, upper: Array) -> None:
    for code, name, value in _expert_codes(experts, workload, "workload"):
        lower[code], upper[code] = _share(f"the workload of {name!r}", value)


def _balance(with_classifier: bool, lower: Array, upper: Array) -> None:
    """Even shares: of what the classifier leaves, or of all where no coverage is asked for (Eq. 6)."""
    m = len(lower) - 1
    if with_classifier:
        lower[:] = upper[:] = 1 / (m + 1)
    else:
        lower[:m], upper[:m] = (1 - upper[m]) / m, (1 - lower[m]) / m


def _tighten(lower: Array, upper: Array) -> Array:
    """Greatest shares, each no more than the others leave: where the classifier takes all, experts take nothing."""
    left = 1 - (lower.sum() - lower)
    left[left < _ROUNDING] = 0.0
    return np.maximum(np.minimum(upper, left), lower)


def _refuse_impossible(lower: Array, upper: Array) -> None:
    if lower.sum() > 1 + _ROUNDING:
        raise ValueError(
            f"the least shares of the experts ({lower[:-1].sum():g} together) and of the classifier ({lower[-1]:g}) "
            "sum to more than one; lower the workload or the coverage"
        )
    if upper.sum() < 1 - _ROUNDING:
        raise ValueError(
            f"the greatest shares of the experts ({upper[:-1].sum():g} together) and of the classifier "
            f"({upper[-1]:g}) sum to less than one, so some cases would remain; raise the workload or the coverage"
        )
