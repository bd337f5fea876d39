"""The checks that every estimator of manyhands passes, for estimators that live elsewhere.

An aggregator derives from `Aggregator`; `check_aggregator` then tells whether it keeps what its users
may expect of it. The library's own tests run the same list, and no other copy of it.

>>> import manyhands as mh
>>> from manyhands.testing import aggregator_checks, check_aggregator
>>> sorted(check_aggregator(mh.MajorityVote()))
['interrupt']

The answer names what was skipped: a vote does not iterate. With pytest, each check is a test of its own:

>>> import pytest  # doctest: +SKIP
>>> @pytest.mark.parametrize(("name", "check"), aggregator_checks(mh.MajorityVote()))  # doctest: +SKIP
... def test_aggregator(name, check):
...     check()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from manyhands.aggregators.base import Aggregator
from manyhands.numeric.base import NumericAggregator
from manyhands.testing import classes, common, numbers
from manyhands.testing.classes import ClassSubject
from manyhands.testing.common import clone
from manyhands.testing.crowds import Crowd
from manyhands.testing.numbers import NumberSubject, RatingLog
from manyhands.testing.subject import Subject, checks_of, run_checks

__all__ = [
    "ClassSubject",
    "Crowd",
    "NumberSubject",
    "RatingLog",
    "Subject",
    "aggregator_checks",
    "check_aggregator",
    "checks_of",
    "classes",
    "common",
    "number_checks",
    "numbers",
    "run_checks",
    "subject_of",
]


def aggregator_checks(
    estimator: Aggregator | NumericAggregator | Callable[[Crowd], Aggregator], *, skip: Mapping[str, str] | None = None
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield every check of an aggregator of classes or numbers: its name, and a function without arguments.

    The function raises an AssertionError that names the check and what is wrong, and `unittest.SkipTest`, which pytest
    understands, where the check cannot be asked of the estimator.

    Parameters
    ----------
    estimator
        The aggregator, fitted or not: each check makes its own from its parameters. Where parameters name workers or
        tasks (weights, gold labels), a function that makes the aggregator for a :class:`Crowd`.
    skip
        Names of checks that its settings rule out, each with the reason. What no setting of a class can keep belongs
        into its attribute ``_skipped_checks``, which is the same; ``_most_classes`` says how many classes it takes.
    """
    if isinstance(estimator, NumericAggregator):
        return number_checks(estimator, skip=skip)
    return checks_of(subject_of(estimator, skip or {}), (*common.CHECKS, *classes.CHECKS))


def number_checks(
    estimator: NumericAggregator | Callable[[RatingLog], NumericAggregator], *, skip: Mapping[str, str] | None = None
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield every check of an aggregator of numbers, as :func:`aggregator_checks` does.

    Parameters
    ----------
    estimator
        The aggregator, or a function that makes it for a :class:`RatingLog`.
    skip
        As for :func:`aggregator_checks`.
    """
    return checks_of(numbers.subject_of(estimator, skip or {}), (*common.CHECKS, *numbers.CHECKS))


def check_aggregator(
    estimator: Aggregator | NumericAggregator | Callable[[Crowd], Aggregator], *, skip: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Run every check of an aggregator of classes or numbers; returns those that were skipped, each with the reason.

    The first check that fails raises an AssertionError that names it and says what is wrong. Takes a few seconds: one
    of the crowds has 200,000 annotations.

    Parameters
    ----------
    estimator, skip
        As for :func:`aggregator_checks`.
    """
    return run_checks(aggregator_checks(estimator, skip=skip))


def subject_of(estimator: Any, skip: Mapping[str, str]) -> ClassSubject:
    """The subject of an aggregator's checks; see :func:`aggregator_checks`."""
    if isinstance(estimator, type) or not (isinstance(estimator, Aggregator) or callable(estimator)):
        raise TypeError(f"expected an aggregator, or a function that makes one for a crowd, not {estimator!r}")
    make = (lambda _: clone(estimator)) if isinstance(estimator, Aggregator) else estimator
    made = make(ClassSubject("", make).standard)
    return ClassSubject(repr(made), make, {**made._skipped_checks, **skip}, made._most_classes)
