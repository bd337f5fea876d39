"""The cost of asking at which a classifier takes a given share of the cases."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from manyhands._base.checks import check_number
from manyhands.defer.deferral import Deferral
from manyhands.errors import ConvergenceWarning

__all__ = ["Sweep", "sweep"]


@dataclass(frozen=True, eq=False)
class Sweep:
    """What came of looking for a cost.

    Attributes
    ----------
    model : Deferral
        The one of those trained whose coverage came nearest.
    cost, coverage : float
        Its cost of asking an expert, and the share of the cases that its arg max leaves to the classifier.
    tried : sequence of (cost, coverage)
        All that was trained, in order.
    """

    model: Any
    cost: float
    coverage: float
    tried: Sequence[tuple[float, float]]


def sweep(
    model: Deferral,
    X: Any,
    y: Any,
    votes: Any,
    *,
    coverage: float,
    tasks: Any = None,
    judge: Any = None,
    between: tuple[float, float] = (-4.0, 4.0),
    tolerance: float = 0.02,
    max_fits: int = 10,
) -> Sweep:
    """Train with one cost of asking after another, halving the range, until the arg max has a coverage.

    This is how coverages were had before workloads could be kept (Narasimhan et al. 2022), at several trainings for
    each; ``coverage=`` of the model keeps one with a single training.

    Parameters
    ----------
    model
        A method with a `cost`, free of coverage and workload; it is left as it is.
    X, y, votes, tasks
        As of :meth:`~manyhands.defer.Deferral.fit`.
    coverage : float
        Share of the cases that the classifier is to take.
    judge
        Cases to measure the coverage on, whose truth need not be known; None for X.
    between
        Least and greatest cost to try; their middle is tried first.
    tolerance, max_fits
        Stop when the coverage is missed by no more than this, or after `max_fits` trainings, with a warning.

    Returns
    -------
    Sweep

    Notes
    -----
    More cost should mean more coverage, but a router learned by gradients need not follow: the result is the nearest of
    all that were tried. Costs at most `max_fits` trainings.

    References
    ----------
    H. Narasimhan et al., "Post-hoc estimators for learning to defer to an expert", NeurIPS 2022.

    Examples
    --------
    >>> import torch, manyhands as mh
    >>> X, y = mh.categorical.synthetic.gaussians(300, 3)
    >>> answers = mh.simulate(truth=y, n_workers=2, n_classes=3, labels_per_task=2).log
    >>> classifier = torch.nn.Sequential(torch.nn.Linear(10, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    >>> team = mh.defer.NaiveDeferral(classifier, max_epochs=5, lr=0.1)
    >>> found = mh.defer.sweep(team, X, y, answers, coverage=0.5, tolerance=0.2)
    >>> abs(found.coverage - 0.5) <= 0.2
    True
    """
    _refuse_what_cannot_be_swept(model)
    check_number("coverage", coverage, least=0, most=1)
    check_number("tolerance", tolerance, least=0)
    check_number("max_fits", max_fits, least=1, whole=True)
    low, high = (float(end) for end in between)
    if not low < high:
        raise ValueError(f"between must be a pair (least, greatest) in order, not {between!r}")
    best: Any = None
    trials: list[tuple[float, float]] = []
    while len(trials) < max_fits and (best is None or abs(trials[best[1]][1] - coverage) > tolerance):
        cost = (low + high) / 2
        fitted = type(model)(**model.get_params() | {"cost": cost}).fit(X, y, votes, tasks=tasks)
        reached = fitted.decide(X if judge is None else judge, how="argmax", by="gate").coverage
        trials.append((cost, reached))
        if best is None or abs(reached - coverage) < abs(trials[best[1]][1] - coverage):
            best = fitted, len(trials) - 1
        low, high = (cost, high) if reached < coverage else (low, cost)
    fitted, at = best
    if abs(trials[at][1] - coverage) > tolerance:
        warnings.warn(
            f"no cost among {max_fits} tried leaves the classifier {coverage:.1%} of the cases; the nearest, "
            f"{trials[at][0]:g}, leaves {trials[at][1]:.1%}. coverage= of the model keeps a coverage in one training",
            ConvergenceWarning,
            stacklevel=2,
        )
    return Sweep(fitted, cost=trials[at][0], coverage=trials[at][1], tried=trials)


def _refuse_what_cannot_be_swept(model: Deferral) -> None:
    if "cost" not in model._parameter_names():
        raise TypeError(f"{type(model).__name__} has no cost of asking to look for")
    if isinstance(getattr(model, "cost", None), Mapping):
        raise ValueError(
            "the cost looked for is that of any expert; the model has one for single experts: leave it out"
        )
    if model.coverage is not None or not (isinstance(model.workload, str) and model.workload == "free"):
        raise ValueError(
            "the model keeps a coverage or workload by itself, whatever the cost; leave out coverage= and workload="
        )
