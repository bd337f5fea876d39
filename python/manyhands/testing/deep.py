"""Which checks are whose, among all that trains a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from torch import nn

from manyhands import learn
from manyhands.defer.deferral import Deferral
from manyhands.testing import learners, networks, teams
from manyhands.testing.subject import checks_of

#: The subject and the checks of each kind, by the base of its estimators.
_KINDS: dict[type, tuple[type[networks.NetworkSubject], Iterable[Callable[[Any], None]]]] = {
    learn.Learner: (learners.LearnerSubject, learners.CHECKS),
    Deferral: (teams.TeamSubject, teams.CHECKS),
    learn.CrowdRegression: (learners.RatingSubject, learners.OTHER_CHECKS),
    learn.MixtureReward: (learners.GroupedComparisonSubject, learners.OTHER_CHECKS),
    learn.CrowdReward: (learners.ComparisonSubject, learners.OTHER_CHECKS),
    learn.SimilarityNetwork: (learners.SamenessSubject, learners.OTHER_CHECKS),
}


def network_checks(make: Callable[[Any], Any], skip: Mapping[str, str]) -> Iterator[tuple[str, Callable[[], None]]]:
    """The checks of whatever `make` makes of a network; see :func:`manyhands.testing.network_checks`."""
    example = make(nn.Linear(networks.FEATURES, 3)) if callable(make) else None
    for base, (subject, checks) in _KINDS.items():
        if isinstance(example, base):
            return checks_of(subject(type(example).__name__, make, skip), (*networks.CHECKS, *checks))
    raise TypeError(f"expected the class of a learner or a way to defer, or a function that makes one, not {make!r}")
