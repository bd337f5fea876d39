"""What parameters are rejected, and how the library speaks: warnings, numbers and lists in its messages."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.spelling import did_you_mean
from manyhands.errors import ConvergenceWarning, DataWarning, ParameterError

#: What a label may count that counts at all, as in the compiled table: beyond, sums and products leave the range of a
#: double.
LEAST_COUNT, MOST_COUNT = 1e-30, 1e15
COUNTS = f"0 or between {LEAST_COUNT:g} and {MOST_COUNT:g}"


def check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise for a setting that is not one of a few."""
    if not isinstance(value, str) or value not in allowed:
        hint = did_you_mean(value, allowed) if isinstance(value, str) else ""
        raise ParameterError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}{hint}", name)


def check_number(name: str, value: Any, *, least: float, most: float | None = None, whole: bool = False) -> None:
    """Reject a setting that is not a finite number, or not a whole one where that is needed, or too small or large."""
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise TypeError(f"{name} must be a {'whole ' if whole else ''}number, not {value!r}")
    if not isinstance(value, int) and not np.isfinite(value):
        raise ParameterError(f"{name} must be a finite number, not {value}", name)
    if value < least:
        raise ParameterError(f"{name} must be at least {least}, not {value}", name)
    if most is not None and value > most:
        raise ParameterError(f"{name} must be at most {most}, not {value}", name)
    if value >= 2**63:
        raise ParameterError(f"{name} must be below 2**63, not {value}", name)


def check_flag(name: str, value: Any) -> None:
    """Raise for a setting that is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, not {value!r}")


def countable(counts: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Mark numbers that can count labels: 0, or neither too small nor too large for sums and products of them."""
    counts = np.asarray(counts)
    return np.asarray((counts == 0) | ((counts >= LEAST_COUNT) & (counts <= MOST_COUNT)))


def check_count(name: str, value: Any) -> None:
    """Raise for a setting that cannot be a number of pseudo-counts; 0 is one."""
    _refuse_uncountable(name, value, COUNTS)
    check_number(name, value, least=0)


def _refuse_uncountable(name: str, value: Any, range_: str) -> None:
    if isinstance(value, int | float | np.number) and np.isfinite(value) and value > 0 and not countable(value):
        raise ParameterError(f"{name} must be {range_}, not {value:g}", name)


def check_positive(name: str, value: Any) -> None:
    """Reject a setting that is not a number above zero, or so near to it or so large that nothing can be made of it."""
    _refuse_uncountable(name, value, f"between {LEAST_COUNT:g} and {MOST_COUNT:g}")
    check_number(name, value, least=0)
    if value == 0:
        raise ParameterError(f"{name} must be above 0", name)


def check_between(name: str, value: Any, *, such_as: float | None = None) -> None:
    """Raise for a setting that does not lie between 0 and 1, neither of which will do."""
    check_number(name, value, least=0)
    if not 0 < value < 1:
        example = "" if such_as is None else f", such as {such_as}"
        raise ParameterError(f"{name} must lie between 0 and 1{example}, not {value}", name)


#: Finite strengths of a prior for which differences of gamma functions keep enough of their digits.
_STRENGTHS = (1e-6, 1e9)


def check_strength(strength: Any) -> float | None:
    """Raise for a strength that is neither a positive number nor None, which asks to learn it."""
    if strength is None:
        return None
    if isinstance(strength, bool) or not isinstance(strength, int | float):
        raise TypeError(f"strength must be a number or None, not {strength!r}")
    if not strength > 0:
        raise ValueError(f"strength must be positive, or None to learn it, not {strength}")
    if not (_STRENGTHS[0] <= strength <= _STRENGTHS[1] or strength == float("inf")):
        raise ValueError(
            f"strength must be between {_STRENGTHS[0]:g} and {_STRENGTHS[1]:g}, inf for workers who are exactly like "
            f"their kind, or None to learn it, not {strength}"
        )
    return float(strength)


def check_stopping(max_iter: Any, tol: Any) -> None:
    """Raise for what cannot end an iteration."""
    check_number("max_iter", max_iter, least=1, whole=True)
    check_number("tol", tol, least=0)


def check_pairing(min_overlap: Any, max_partners: Any) -> None:
    """Raise for what cannot choose pairs of workers."""
    check_number("min_overlap", min_overlap, least=0)
    check_number("max_partners", max_partners, least=1, whole=True)


def warn_unless_converged(converged: bool, model: Any, advice: str = "raise max_iter") -> None:
    """Report that an iteration with a tolerance ended without meeting it; `model` has ``max_iter`` and ``tol``."""
    if not converged and model.tol > 0:
        stopped = f"{type(model).__name__} stopped at max_iter={model.max_iter} before tol={model.tol:g} was met"
        warn_of_convergence(f"{stopped}; {advice}")


def warn_of_convergence(message: str) -> None:
    """Warn the caller that an answer is not final."""
    warnings.warn(message, ConvergenceWarning, stacklevel=_outside())


def warn_of_data(message: str) -> None:
    """Warn the caller what becomes of their data."""
    warnings.warn(message, DataWarning, stacklevel=_outside())


def _outside() -> int:
    """Stack level of the first caller outside this package, as seen by the calling function."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "manyhands":
        frame, level = frame.f_back, level + 1
    return level


def plural(n: int, one: str, many: str | None = None) -> str:
    """``3 tasks``, ``1 task``."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def preview(items: list[Any], most: int = 3) -> str:
    """List the first few, for a message."""
    return ", ".join(map(repr, items[:most])) + (", …" if len(items) > most else "")
