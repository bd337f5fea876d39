"""How strongly the errors of a crowd depend on one another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from manyhands.audit._crowd import as_crowd
from manyhands.categorical._calibration import error_correlation, probability_of_correlation

#: The correlation that real crowds have on average: an error from half of it on cannot tell it from none.
_USUAL = 0.25


@dataclass(frozen=True)
class Dependence:
    """How strongly errors on a task are correlated.

    Attributes
    ----------
    correlation
        Of a Gaussian factor that all errors on a task share: 0 for workers who err independently, below 1.
    error
        Its standard error; 1 where nothing can be told.
    probability
        That errors are correlated at all.
    cannot_tell
        Whether the error is so large that a correlation as real crowds have it, 0.25, could be none.
    remarks
        What is doubtful, in whole sentences.
    """

    correlation: float
    error: float
    probability: float
    cannot_tell: bool
    remarks: tuple[str, ...] = ()

    def __repr__(self) -> str:
        found = f"{self.correlation:.2f} ± {self.error:.2f}, probability {self.probability:.0%}"
        return "\n".join((f"<Dependence of errors: {'cannot tell' if self.cannot_tell else found}>", *self.remarks))


def dependence(votes: Any) -> Dependence:
    """Measure how strongly errors on a task are correlated, from the labels alone.

    Workers who err independently given the class are fitted (`HierarchicalDawidSkene`); then a factor that all errors
    on a task share is sought whose strength explains how often residuals of two workers have the same sign. The
    probability starts from odds of three to one for a correlation, which is what real crowds have: of 24 logs, all but
    six clearly do. Camps, copies and hard tasks are not told apart; :func:`copies` and :func:`groups` do.

    Parameters
    ----------
    votes
        The annotations.

    Returns
    -------
    Dependence

    Notes
    -----
    Time: one fit, and four to fourteen passes over at most 262,144 annotations; memory as for the fit. A task that
    misleads everybody in the same way looks easy: what is found is a lower bound on what is shared.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(2000, 30, 3, labels_per_task=8, seed=1)
    >>> found = mh.audit.dependence(crowd.log)
    >>> found.correlation < 0.1, found.probability < 0.5, found.cannot_tell
    (True, True, False)
    """
    crowd = as_crowd(votes)
    fit = crowd.fit
    correlation, error = error_correlation(crowd.votes.passes, fit.posterior.dense(), fit.prior, fit.crowd_prior)
    blind = error > _USUAL / 2
    remarks = (
        (
            f"The standard error of {error:.2f} cannot tell the correlation that real crowds have, {_USUAL}, from "
            "none: more tasks with three and more workers would.",
        )
        if blind
        else ()
    )
    return Dependence(correlation, error, probability_of_correlation(correlation, error), blind, remarks)
