"""The checks that every estimator of manyhands passes, for estimators that live elsewhere.

An aggregator derives from `Aggregator`; `check_aggregator` then tells whether it keeps what its users
may expect of it, and `check_network` does the same for learners and ways to defer. The library's own tests run the same
lists, and no other copy of them.

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

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # For editors and type checkers; at run time `__getattr__` imports them.
    from manyhands.testing.check_lists import ClassSubject as ClassSubject
    from manyhands.testing.check_lists import Crowd as Crowd
    from manyhands.testing.check_lists import NumberSubject as NumberSubject
    from manyhands.testing.check_lists import RatingLog as RatingLog
    from manyhands.testing.check_lists import Subject as Subject
    from manyhands.testing.check_lists import aggregator_checks as aggregator_checks
    from manyhands.testing.check_lists import check_aggregator as check_aggregator
    from manyhands.testing.check_lists import check_network as check_network
    from manyhands.testing.check_lists import checks_of as checks_of
    from manyhands.testing.check_lists import classes as classes
    from manyhands.testing.check_lists import clustering_checks as clustering_checks
    from manyhands.testing.check_lists import comparison_checks as comparison_checks
    from manyhands.testing.check_lists import distance_checks as distance_checks
    from manyhands.testing.check_lists import network_checks as network_checks
    from manyhands.testing.check_lists import number_checks as number_checks
    from manyhands.testing.check_lists import numbers as numbers
    from manyhands.testing.check_lists import ranking_checks as ranking_checks
    from manyhands.testing.check_lists import run_checks as run_checks
    from manyhands.testing.check_lists import set_checks as set_checks
    from manyhands.testing.check_lists import subject_of as subject_of

__all__ = [
    "ClassSubject",
    "Crowd",
    "NumberSubject",
    "RatingLog",
    "Subject",
    "aggregator_checks",
    "check_aggregator",
    "check_network",
    "checks_of",
    "classes",
    "clustering_checks",
    "comparison_checks",
    "distance_checks",
    "network_checks",
    "number_checks",
    "numbers",
    "ranking_checks",
    "run_checks",
    "set_checks",
    "subject_of",
]


def __getattr__(name: str) -> Any:
    # Check-lists of kinds import helpers from this package, and it offers the check-lists: it imports them when asked.
    if name in __all__:
        return getattr(import_module("manyhands.testing.check_lists"), name)
    raise AttributeError(f"module 'manyhands.testing' has no attribute {name!r}")
