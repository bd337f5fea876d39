"""Dawid–Skene that leaves spammers out while it fuses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_stopping, warn_unless_converged
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, numbers
from manyhands._base.progress import Callback
from manyhands._base.special import log_gamma
from manyhands.categorical._passes import expected_counts, posterior_under
from manyhands.categorical._priors import class_pseudo, row_pseudo
from manyhands.categorical.base import Aggregator, ClassFit
from manyhands.categorical.table import Annotations

#: Pseudo-counts of workers of either kind: one spammer, one honest worker.
_PRIOR_WORKERS = 1.0


@dataclass(frozen=True, kw_only=True)
class SpammerFit(ClassFit):
    """Classes, and probabilities of workers to be spammers."""

    probability: Array = field(metadata=numbers("m"))


class SpammerEliminatingDawidSkene(Aggregator):
    """Dawid–Skene in which each worker is a spammer or not, according to the evidence.

    A worker is a spammer with a probability that all share, and then gives label ``l`` with a probability that does not
    depend on the class; or else has a confusion matrix as in :class:`DawidSkene`. In each pass the evidence of either,
    with shares and matrix summed out, is weighed on the answers that the present posteriors lead to expect. A spammer's
    answers do not move any posterior, and so leave the fusion.

    Parameters
    ----------
    pseudo_count
        Parameters of the Dirichlet prior of a row, as in :class:`BayesianDawidSkene`, all positive. A spammer's label
        shares have their mean over the classes as a prior.
    class_pseudo_count : float or array-like, default 1.0
        Pseudo-counts of the class prior, spread evenly over the classes, or an (n_classes,) array.
    max_iter, tol
        Stop after `max_iter` iterations, or when no probability of a confusion matrix moves by more than `tol`.

    Attributes
    ----------
    spammer_probability_ : ndarray of shape (n_workers,)
        Probability that each worker is a spammer.
    spammers_ : ndarray
        Names of the workers whose probability is above one half.

    Notes
    -----
    Raykar and Yu give each worker a prior that pulls the rows of its confusion matrix together, with a strength of its
    own that maximizes the evidence in Laplace's approximation; workers whose strength diverges are eliminated. Of a
    spammer whose rows differ by no more than chance, that strength diverges about half of the time. Here the choice is
    between equal rows and free ones, whose evidence is exact given the counts: the more answers, the surer it is.

    It starts from vote shares, and its E-step reads posterior means; there is no objective, and `history_` is empty. A
    worker's own answer counts in the posteriors it is held against: where tasks have two or three labels few spammers
    are noticed, and :func:`manyhands.audit.spammers` is the better judge. Time per pass as :class:`DawidSkene`, and
    O(workers · classes²) gamma functions; memory besides: a few times 8 bytes per worker and class squared.

    References
    ----------
    V. C. Raykar and S. Yu, "Eliminating spammers and ranking annotators for crowdsourced labeling tasks", JMLR 13
    (2012).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(500, 10, 3, crowd="one-coin", labels_per_task=6, seed=1)
    >>> tasks, workers, labels = crowd.log.codes()
    >>> labels[workers < 2] = 0
    >>> votes = mh.Annotations.from_codes(tasks, workers, labels, n_tasks=500, n_workers=10, n_classes=3)
    >>> mh.categorical.SpammerEliminatingDawidSkene().fit(votes).spammers_.tolist()
    [0, 1]
    """

    _fit_type: ClassVar[type[Fit]] = SpammerFit

    def __init__(
        self,
        *,
        pseudo_count: float | tuple[float, float] | npt.ArrayLike = (2.0, 1.0),
        class_pseudo_count: float | npt.ArrayLike = 1.0,
        max_iter: int = 100,
        tol: float = 1e-5,
    ) -> None:
        self.pseudo_count = pseudo_count
        self.class_pseudo_count = class_pseudo_count
        self.max_iter = max_iter
        self.tol = tol

    @property
    def spammer_probability_(self) -> Array:
        """Probability that each worker is a spammer, (n_workers,)."""
        return self._fitted().fit_as(SpammerFit).probability

    @property
    def spammers_(self) -> npt.NDArray[Any]:
        """Names of the workers who are more probably spammers than not."""
        now = self._fitted()
        return now.workers.take(np.flatnonzero(now.fit_as(SpammerFit).probability > 0.5)).values

    def _iterations(self) -> int | None:
        return self.max_iter

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        check_stopping(self.max_iter, self.tol)
        k, table = votes.n_classes, votes.table
        pseudo = row_pseudo(self.pseudo_count, k)
        if not (pseudo > 0).all():
            raise ValueError("pseudo_count must be positive throughout: evidence needs a proper prior")
        classes = class_pseudo(self.class_pseudo_count, k)
        posterior, _ = table.vote_shares()
        share, converged, n_iter = 0.5, False, 0
        confusion = np.zeros((votes.n_workers, k, k))
        while n_iter < self.max_iter and not converged:
            before = confusion
            prior = posterior.sum(axis=0) + classes
            prior /= prior.sum()
            counts = expected_counts(table, posterior)
            confusion, spam = eliminate(counts, pseudo, share)
            share = float((spam.sum() + _PRIOR_WORKERS) / (len(spam) + 2 * _PRIOR_WORKERS))
            posterior = posterior_under(table, prior, confusion)
            n_iter += 1
            change = float(np.abs(confusion - before).max())
            converged = change <= self.tol
            if progress is not None:
                progress(n_iter, -change)
        warn_unless_converged(converged, self)
        return SpammerFit.of(posterior, confusion, prior, np.zeros(0), n_iter, converged, probability=spam)


def eliminate(counts: Array, pseudo: Array, share: float) -> tuple[Array, Array]:
    """Weigh equal rows against free ones, given the answers expected by class, (workers, K, K).

    Returns the mean confusion matrices over both, and the probability of equal rows; `share` is that of any worker.
    """
    free = pseudo + counts
    common = pseudo.mean(axis=0)
    equal = common + counts.sum(axis=1)
    odds = _evidence(equal, common) - (_evidence(free, pseudo)).sum(axis=1) + np.log(share / (1 - share))
    spam = 1.0 / (1.0 + np.exp(-np.clip(odds, -700.0, 700.0)))
    rows = free / free.sum(axis=2, keepdims=True)
    flat = equal / equal.sum(axis=1, keepdims=True)
    mixed: Array = (1 - spam)[:, None, None] * rows + spam[:, None, None] * flat[:, None, :]
    return np.ascontiguousarray(mixed), spam


def _evidence(concentration: Array, prior: Array) -> Array:
    """Logarithm of the evidence of counts over the last axis, with probabilities summed out."""

    def norm(x: Array) -> Array:
        return np.asarray(log_gamma(x).sum(axis=-1) - log_gamma(x.sum(axis=-1)))

    return norm(concentration) - norm(prior)
