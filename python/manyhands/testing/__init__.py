"""The checks that every estimator of manyhands passes, for estimators that live elsewhere.

An aggregator derives from `Aggregator`; `check_aggregator` then returns whether it keeps what its users
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

from manyhands.testing.check_lists import (
    aggregator_checks,
    check_aggregator,
    check_network,
    network_checks,
    subject_of,
)
from manyhands.testing.crowds import Crowd
from manyhands.testing.subject import Subject, checks_of, run_checks

__all__ = [
    "Crowd",
    "Subject",
    "aggregator_checks",
    "check_aggregator",
    "check_network",
    "checks_of",
    "network_checks",
    "run_checks",
    "subject_of",
]
