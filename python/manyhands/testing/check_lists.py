"""Which checks belong to which estimator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from manyhands._base.estimator import Estimator
from manyhands._base.table import Records
from manyhands.testing import common
from manyhands.testing.subject import SimulatedSubject, Subject, checks_of, run_checks


def aggregator_checks(
    estimator: Estimator[Any, Any, Any] | Callable[[Any], Estimator[Any, Any, Any]],
    *,
    kind: str = "categorical",
    skip: Mapping[str, str] | None = None,
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield every check of an aggregator of any kind of answers: its name, and a function without arguments.

    The function raises an AssertionError that names the check and what is wrong, and `unittest.SkipTest`, which pytest
    understands, where the check cannot be asked of the estimator.

    Parameters
    ----------
    estimator
        The aggregator, fitted or not: each check makes its own from its parameters. Where parameters name workers or
        tasks (weights, gold labels), a function that makes the aggregator for a made-up log, such as a :class:`Crowd`.
    kind : str, default "categorical"
        Kind of answers that an aggregator made by a function takes; others know it.
    skip : mapping or None, default None
        Names of checks that its settings rule out, each with the reason. What no setting of a class can keep belongs
        into its attribute ``_skipped_checks``, which is the same; ``_most_classes`` specifies how many classes it
        takes.
    """
    module = _checks_in(_kind_of(estimator, kind))
    subject = subject_of(estimator, kind=kind, skip=skip)
    return checks_of(subject, (*common.CHECKS, *(() if module is None else module.CHECKS)))


def subject_of(estimator: Any, *, kind: str = "categorical", skip: Mapping[str, str] | None = None) -> Any:
    """The subject of an aggregator's checks; see :func:`aggregator_checks`."""
    kind = _kind_of(estimator, kind)
    module = _checks_in(kind)
    if module is None:
        return replace(SimulatedSubject.of(estimator, skip or {}), kind=kind)
    subject: Subject = module.SUBJECT.of(estimator, skip or {})
    return subject


def _kind_of(estimator: Any, kind: str) -> str:
    """The kind of answers that an estimator takes; for one made by a function, the kind that the caller passes."""
    if isinstance(estimator, type) or not (isinstance(estimator, Estimator) or callable(estimator)):
        raise TypeError(f"expected an aggregator, or a function that makes one for a crowd, not {estimator!r}")
    kind_name: str = getattr(estimator, "_kind", kind)
    return kind_name


def _checks_in(kind: str) -> Any:
    """The module with the checks of a kind; None where it has none next to those of all kinds."""
    spec = Records._kinds[kind].spec
    return spec.module("checks") if spec.has("checks") else None


def check_aggregator(
    estimator: Estimator[Any, Any, Any] | Callable[[Any], Estimator[Any, Any, Any]],
    *,
    kind: str = "categorical",
    skip: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Run every check of an aggregator of any kind of answers; returns those that were skipped, each with the reason.

    The first check that fails raises an AssertionError that names it and specifies what is wrong. Takes a few seconds:
    one of the crowds has 200,000 annotations.

    Parameters
    ----------
    estimator, kind, skip
        As for :func:`aggregator_checks`.
    """
    return run_checks(aggregator_checks(estimator, kind=kind, skip=skip))


def network_checks(
    make: Callable[[Any], Any], *, skip: Mapping[str, str] | None = None
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield every check of a learner or a way to defer, as :func:`aggregator_checks` does.

    Parameters
    ----------
    make : callable
        Its class, or a function that makes it for a network. The network takes six features and is an
        ``nn.Sequential``; what is left at its default (`max_epochs`, `batch_size`) is set by the checks, so that they
        take some seconds.
    skip : mapping or None, default None
        Names of checks that its settings rule out, each with the reason.
    """
    from manyhands.testing import deep

    return deep.network_checks(make, skip or {})


def check_network(make: Callable[[Any], Any], *, skip: Mapping[str, str] | None = None) -> dict[str, str]:
    """Run every check of a learner or a way to defer; returns those that were skipped, each with the reason.

    The first check that fails raises an AssertionError that names it and specifies what is wrong.

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
