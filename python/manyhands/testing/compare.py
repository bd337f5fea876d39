"""Comparisons of numbers and of fitted models; each raises an AssertionError that specifies what differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands.testing.subject import results_of

Array = npt.NDArray[np.float64]

#: Answers that differ only by the order of sums must agree to this.
SAME = 1e-9


def require(holds: object, message: str) -> None:
    """Raise an AssertionError unless something holds; unlike ``assert``, also under ``python -O``."""
    if not holds:
        raise AssertionError(message)


@contextmanager
def raises(kind: type[Exception] | tuple[type[Exception], ...], what: str, *words: str) -> Iterator[None]:
    """Require that a block raises an exception of a kind, whose message has some words."""
    name = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
    try:
        yield
    except kind as error:
        for word in words:
            require(word in str(error), f"{what} raises {name} without saying {word!r}: {error}")
    except Exception as error:
        raise AssertionError(f"{what} raises {type(error).__name__}, not {name}: {error}") from error
    else:
        raise AssertionError(f"{what} raises no {name}")


def assert_close(got: npt.ArrayLike, wanted: npt.ArrayLike, tolerance: float, what: str) -> None:
    """Equal to an absolute tolerance, relative where numbers exceed one."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    require(got.shape == wanted.shape, f"{what}: shape {got.shape} against {wanted.shape}")
    if got.size:
        off = np.abs(got - wanted) / np.maximum(np.abs(wanted), 1.0)
        require(off.max() <= tolerance, f"{what} differs by {off.max():.2e}")


def assert_same_bits(
    a: Any, b: Any, what: str = "two fits", comparable: Callable[[Any], Any] = lambda result: result
) -> None:
    """All results of two models are equal, to the last bit; `comparable` makes numbers of those that are not."""
    require(type(a) is type(b), f"{what}: {type(a).__name__} against {type(b).__name__}")
    for name in results_of(a):
        one, other = (comparable(_result_or_error(model, name)) for model in (a, b))
        try:
            np.testing.assert_equal(one, other)
        except AssertionError as error:
            raise AssertionError(f"{name} of {what} differs") from error


def _result_or_error(model: Any, name: str) -> Any:
    """A result, or the message of its rejection: some settings leave a result out."""
    try:
        return getattr(model, name)
    except (ValueError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"


def assert_same_answers(
    a: dict[str, Callable[[], Any]], b: dict[str, Callable[[], Any]], what: str = "two fits"
) -> None:
    """Methods of two models return the same, to the last bit."""
    for name, ask in a.items():
        one, other = ask(), b[name]()
        if hasattr(one, "to_pydict"):
            assert_same_frames(one, other, f"{name} of {what}")
        else:
            np.testing.assert_array_equal(one, other, err_msg=f"{name} of {what} differs")


def assert_same_frames(a: Any, b: Any, what: str = "two frames") -> None:
    """Two Arrow tables are equal, to the last bit; a NaN is the same as another."""
    require(a.schema.equals(b.schema), f"{what} differs in its columns: {a.schema} against {b.schema}")
    np.testing.assert_equal(a.to_pydict(), b.to_pydict(), err_msg=f"{what} differs")


def never_falls(history: npt.ArrayLike, heaviest: float = 1.0) -> bool:
    """Whether no step goes down by more than the rounding of a sum.

    Terms of an objective are as large as the logarithm of a weight's factorial, and may cancel: what is left has
    their rounding.
    """
    history = np.asarray(history)
    rounding = 4 * np.finfo(float).eps * heaviest * np.log(heaviest + 1.0)
    return bool(np.all(np.diff(history) >= -1e-9 * np.maximum(np.abs(history[:-1]), 1.0) - rounding))


def assert_probabilities(rows: Array, shape: tuple[int, ...], what: str) -> None:
    """An array of a shape that is finite, not negative, and sums to one along its last axis."""
    require(rows.shape == shape, f"{what} has shape {rows.shape}, not {shape}")
    require(np.isfinite(rows).all(), f"{what} holds numbers that are not finite")
    require((rows >= 0).all(), f"{what} holds a number below zero, {rows.min():.3g}")
    if rows.size:
        off = np.abs(rows.sum(axis=-1) - 1).max()
        require(off <= SAME, f"rows of {what} do not sum to one but miss it by {off:.2e}")


def assert_sound(model: Any, heaviest: float = 1.0) -> None:
    """Probabilities are probabilities, shapes fit, and the objective rises, as far as the heaviest weight allows."""
    n, m, k = len(model.tasks_), len(model.workers_), len(model.classes_)
    assert_probabilities(model.posterior_, (n, k), "posterior_")
    assert_probabilities(model.confusion_, (m, k, k), "confusion_")
    assert_probabilities(model.prior_, (k,), "prior_")
    require(len(model.labels_) == len(model.tied_) == n, "labels_ and tied_ must have one entry per task")
    require(np.isfinite(model.history_).all(), "history_ holds numbers that are not finite")
    if not never_falls(model.history_, heaviest):
        raise AssertionError(f"history_ falls by {-np.diff(model.history_).min():.3g}")
