"""What manyhands raises and warns of, beyond Python's own exceptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

#: Stands for any value of a parameter.
ANY = object()


def _as_keyword(name: str, value: Any) -> str:
    return f"{name}=…" if value is ANY else f"{name}={value!r}"


_SPELLING: ContextVar[Callable[[str, Any], str]] = ContextVar("spelling", default=_as_keyword)


def argument(name: str, value: Any = ANY) -> str:
    """Return how the caller writes a parameter in messages: ``task=…`` in Python, ``--task`` on the command line."""
    return _SPELLING.get()(name, value)


@contextmanager
def spelling(write: Callable[[str, Any], str]) -> Iterator[None]:
    """Let `write` say how a parameter, given its name and value (or `ANY`), is written in messages."""
    token = _SPELLING.set(write)
    try:
        yield
    finally:
        _SPELLING.reset(token)


class NotFittedError(ValueError, AttributeError):
    """A result was asked of an estimator before ``fit``."""


class ParameterError(ValueError):
    """A parameter does not fit; `parameter` is its name."""

    def __init__(self, message: str, parameter: str = "") -> None:
        super().__init__(message)
        self.parameter = parameter


class MissingColumnError(ParameterError):
    """A log has no column for a role, or several that could be it; `parameter` is the role."""


class FileFormatError(ValueError):
    """A file does not match its ending, is damaged, or was written by a newer version."""


class DataWarning(UserWarning):
    """Something in the data was set aside; the message specifies what and how much."""


class ConvergenceWarning(UserWarning):
    """An iteration stopped at its limit before its tolerance was met."""


class IdentifiabilityWarning(UserWarning):
    """The table does not determine what a method looks for; the message specifies what was done instead."""


class GoldWarning(UserWarning):
    """Known answers contradict what unlabeled answers suggest, or cannot correct it; the message specifies where."""


class OverlapWarning(IdentifiabilityWarning):
    """Workers overlap too little, or answer tasks again, so that no method can determine what the message names."""
