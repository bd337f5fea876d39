"""How strongly the errors of a crowd depend on one another."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from manyhands import metrics
from manyhands.audit._crowd import Crowd, as_crowd
from manyhands.audit.effective import MOST_IN_PANEL, EffectiveNumber, errors_of, from_errors, from_latent
from manyhands.audit.groups import groups
from manyhands.categorical._calibration import error_correlation, probability_of_correlation
from manyhands.categorical._passes import expected_counts

#: The correlation that real crowds have on average: an error from half of it on, it cannot be distinguished from none.
_USUAL = 0.25
#: Share of all possible answers from which a few annotators are a panel in which all answer each task.
_DENSE = 0.5


@dataclass(frozen=True)
class Dependence:
    """How strongly errors on a task are correlated.

    Attributes
    ----------
    correlation
        Share of the variance of a Gaussian factor that all errors on a task have in common: 0 for independent workers.
    error
        Its standard error; 1 where the log does not determine it.
    probability
        Probability that errors are correlated at all.
    cannot_tell
        True if the standard error is too large to distinguish 0.25, the correlation of real crowds, from 0.
    effective_annotators
        How many independent annotators hold as much evidence as the answers to a task, with an interval.
    remarks
        Warnings, in whole sentences.
    """

    correlation: float
    error: float
    probability: float
    cannot_tell: bool
    effective_annotators: EffectiveNumber
    remarks: tuple[str, ...] = ()
    _crowd: Crowd | None = field(default=None, repr=False, compare=False)

    @cached_property
    def families(self) -> list[list[Any]]:
        """Annotators whose errors depend on one another, as lists of names; annotators without a family are left out.

        These are the groups of :func:`groups`, searched for when first asked for.
        """
        return [] if self._crowd is None else groups(self._crowd).groups

    def __repr__(self) -> str:
        estimate = f"{self.correlation:.2f} ± {self.error:.2f}, probability {self.probability:.0%}"
        return "\n".join((f"<Dependence of errors: {'cannot tell' if self.cannot_tell else estimate}>", *self.remarks))


def dependence(votes: Any, *, gold: Any = None, seed: int = 0) -> Dependence:
    """Measure how strongly errors on a task are correlated, and the effective number of annotators.

    Use it before counting votes: nine annotators with the same blind spots may count as two. From the answers alone,
    the correlation is estimated by fitting independent workers (`HierarchicalDawidSkene`) and searching for a factor
    that all errors on a task share. With known answers, errors are measured.

    Parameters
    ----------
    votes : Annotations or frame
        The annotations.
    gold : mapping, pair or frame, optional
        Known classes of some tasks. `effective_annotators` is then measured on these tasks; otherwise it is an upper
        bound, since errors that all annotators share look like the truth.
    seed : int, default 0
        Seed of the permutations behind the null distribution.

    Returns
    -------
    Dependence
        ``correlation`` with its ``error`` and ``probability``, ``effective_annotators``, and ``families``.

    Notes
    -----
    Time: one fit, and four to fourteen iterations over at most 262,144 annotations; memory as for the fit. With gold,
    100 permutations of the errors on at most 10,000 known tasks. `families` costs as much as :func:`groups`.

    The effective number is Kish's n / (1 + (n - 1) r) with r the mean correlation of two annotators' errors on a task,
    given its class. `eigenvalue` is n divided by the largest eigenvalue of their correlation matrix. On few tasks that
    eigenvalue is large for independent annotators too, so it is corrected by its mean where errors are permuted among
    tasks of a class. The probability starts from odds of three to one for a correlation, which most real logs have.
    Factions, copies and hard tasks are not distinguished; :func:`copies` and :func:`groups` do.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(2000, 30, 3, labels_per_task=8, seed=1)
    >>> found = mh.audit.dependence(crowd.log)
    >>> found.correlation < 0.1, found.probability < 0.5, found.cannot_tell
    (True, True, False)
    >>> league = [0, 0, 0, 1, 1, 1, -1, -1]
    >>> panel = mh.simulate(400, 8, 2, crowd="one-coin", labels_per_task=8, groups=league, copying=0.8, seed=1)
    >>> found = mh.audit.dependence(panel.log, gold=(panel.log.tasks, panel.truth))
    >>> found.effective_annotators, found.families
    (<3.8 of 8 annotators; 95 % interval 3.4–4.3>, [[0, 1, 2], [3, 4, 5]])
    """
    crowd = as_crowd(votes)
    fit, table = crowd.fit, crowd.votes
    correlation, error = error_correlation(table.passes, fit.posterior.dense(), fit.prior, fit.crowd_prior)
    blind = error > _USUAL / 2
    remarks: tuple[str, ...] = (
        (
            f"With a standard error of {error:.2f}, the correlation of real crowds, {_USUAL}, cannot be distinguished "
            "from none: collect more tasks with three and more workers.",
        )
        if blind
        else ()
    )
    effective = None
    if gold is not None:
        effective = _effective_number(crowd, gold, seed)
        if effective is None:
            remarks += (
                "Known answers show too few errors for an effective number of annotators; it is estimated from the "
                "answers alone.",
            )
    if effective is None:
        n_answers = table.labels_per_worker.astype(np.float64)
        answered = max(int((table.labels_per_task > 0).sum()), 1)
        panel = table.n_workers <= MOST_IN_PANEL and table.n_annotations >= _DENSE * table.n_workers * answered
        n = float(table.n_workers) if panel else table.n_annotations / answered
        counts = expected_counts(table.passes, fit.posterior.dense()) + fit.crowd_prior
        skill = np.einsum("mkk->m", counts) / counts.sum(axis=(1, 2))
        effective = from_latent(max(n, 1.0), (correlation, error), skill, n_answers, answered)
    return Dependence(
        correlation,
        error,
        probability_of_correlation(correlation, error),
        blind,
        effective,
        remarks,
        crowd,
    )


def _effective_number(crowd: Crowd, gold: Any, seed: int) -> EffectiveNumber | None:
    """The effective number on tasks of known class."""
    table = crowd.votes
    index, truth = metrics.match_gold(table.tasks, gold)
    names, classes = np.unique(truth, return_inverse=True)
    place = {name: code for code, name in enumerate(table.labels.tolist())}
    codes = np.array([place.get(name, -1) for name in names.tolist()], np.int64)[classes]
    row, worker, wrong = errors_of(table.table, index.astype(np.int64), codes)
    return from_errors(row, worker, wrong, classes.astype(np.int64), table.n_workers, seed=seed)
