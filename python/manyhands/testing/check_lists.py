"""Which checks belong to which estimator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from manyhands._base.estimator import Estimator
from manyhands.boxes import checks as boxes
from manyhands.boxes.base import BoxAggregator
from manyhands.categorical import checks as classes
from manyhands.categorical.base import Aggregator
from manyhands.categorical.checks import ClassSubject
from manyhands.clustering import Clustering
from manyhands.clustering.checks import clustering_checks
from manyhands.masks import checks as masks
from manyhands.masks.base import MaskAggregator
from manyhands.multilabel.base import SetAggregator
from manyhands.multilabel.checks import set_checks
from manyhands.numeric import checks as numbers
from manyhands.numeric.base import NumericAggregator
from manyhands.numeric.checks import NumberSubject, RatingLog
from manyhands.objects.checks import distance_checks
from manyhands.objects.distance import ByDistance
from manyhands.pairwise import ComparisonEstimator
from manyhands.pairwise.checks import comparison_checks
from manyhands.pairwise.checks_rankings import ranking_checks
from manyhands.pairwise.luce import RankingEstimator
from manyhands.sequences import checks as sequences
from manyhands.sequences.base import SequenceAggregator
from manyhands.testing import common
from manyhands.testing.crowds import Crowd
from manyhands.testing.subject import Subject, checks_of, clone, run_checks
from manyhands.texts import checks as texts
from manyhands.texts.base import TextAggregator

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


def aggregator_checks(
    estimator: Estimator[Any, Any, Any] | Callable[[Crowd], Aggregator], *, skip: Mapping[str, str] | None = None
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield every check of an aggregator of any kind of answers: its name, and a function without arguments.

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
    for base, checks in _OF_KINDS.items():
        if isinstance(estimator, base):
            found: Iterator[tuple[str, Callable[[], None]]] = checks(estimator, skip=skip)
            return found
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
    estimator: Estimator[Any, Any, Any] | Callable[[Crowd], Aggregator], *, skip: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Run every check of an aggregator of any kind of answers; returns those that were skipped, each with the reason.

    The first check that fails raises an AssertionError that names it and says what is wrong. Takes a few seconds: one
    of the crowds has 200,000 annotations.

    Parameters
    ----------
    estimator, skip
        As for :func:`aggregator_checks`.
    """
    return run_checks(aggregator_checks(estimator, skip=skip))


def network_checks(
    make: Callable[[Any], Any], *, skip: Mapping[str, str] | None = None
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield every check of a learner or a way to defer, as :func:`aggregator_checks` does.

    Parameters
    ----------
    make
        Its class, or a function that makes it for a network. The network takes six features and is an
        ``nn.Sequential``; what is left at its default (`max_epochs`, `batch_size`) is set by the checks, so that they
        take some seconds.
    skip
        Names of checks that its settings rule out, each with the reason.
    """
    from manyhands.testing import deep

    return deep.network_checks(make, skip or {})


def check_network(make: Callable[[Any], Any], *, skip: Mapping[str, str] | None = None) -> dict[str, str]:
    """Run every check of a learner or a way to defer; returns those that were skipped, each with the reason.

    The first check that fails raises an AssertionError that names it and says what is wrong.

    Parameters
    ----------
    make, skip
        As for :func:`network_checks`.

    Examples
    --------
    >>> import manyhands as mh
    >>> from manyhands.testing import check_network
    >>> check_network(lambda network: mh.learn.CCEM(network, workers="softmax"))
    {}
    """
    return run_checks(network_checks(make, skip=skip))


def _checks_in(module: Any) -> Callable[..., Iterator[tuple[str, Callable[[], None]]]]:
    """The checks of a kind whose module has a list of them, and makes their subject of an aggregator."""

    def checks(
        estimator: Estimator[Any, Any, Any], *, skip: Mapping[str, str] | None = None
    ) -> Iterator[tuple[str, Callable[[], None]]]:
        return checks_of(module.SUBJECT.of(estimator, skip or {}), (*common.CHECKS, *module.CHECKS))

    return checks


#: The checks of each kind of answers besides classes, by the base of its estimators.
_OF_KINDS: dict[type, Callable[..., Iterator[tuple[str, Callable[[], None]]]]] = {
    NumericAggregator: number_checks,
    ComparisonEstimator: comparison_checks,
    RankingEstimator: ranking_checks,
    Clustering: clustering_checks,
    SetAggregator: set_checks,
    ByDistance: distance_checks,
    SequenceAggregator: _checks_in(sequences),
    TextAggregator: _checks_in(texts),
    MaskAggregator: _checks_in(masks),
    BoxAggregator: _checks_in(boxes),
}


def subject_of(estimator: Any, skip: Mapping[str, str]) -> ClassSubject:
    """The subject of an aggregator's checks; see :func:`aggregator_checks`."""
    if isinstance(estimator, type) or not (isinstance(estimator, Aggregator) or callable(estimator)):
        raise TypeError(f"expected an aggregator, or a function that makes one for a crowd, not {estimator!r}")
    make = (lambda _: clone(estimator)) if isinstance(estimator, Aggregator) else estimator
    made = make(ClassSubject("", make).standard)
    return ClassSubject(repr(made), make, {**made._skipped_checks, **skip}, made._most_classes)
