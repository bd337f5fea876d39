"""Methods of moments: confusion matrices from how often workers give which labels together.

They need no start and come with conditions under which the answer is unique. All of them resolve the names of the
classes by the assumption that the crowd is better than chance on average.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import numpy as np

from manyhands import _core
from manyhands._base.checks import check_choice, check_flag, check_number, check_pairing, check_stopping
from manyhands._base.estimator import Array
from manyhands._base.progress import Callback
from manyhands.categorical._passes import judged_by, posterior_under
from manyhands.categorical.base import Aggregator, ClassFit
from manyhands.categorical.table import Annotations
from manyhands.moments._factors import (
    Blocks,
    Factors,
    drawn_towards,
    match_classes,
    normalize_rows,
    of_classes,
    with_unsaid,
)
from manyhands.moments._spa import multi_spa
from manyhands.moments.statistics import Moments, compute

_WEIGHTS = ("overlap", "even")
_NOT_NOTHING = 1e-6


class MomentAggregator(Aggregator):
    """Base of the methods of moments: a subclass gives ``_factorise``, which maps moments to parameters.

    What is common: workers without moments (no worker shares a task with them) are judged by the labels
    of the others; every confusion matrix is drawn towards the crowd's average by `shrink` labels per row, because
    moments say little of a worker with few labels; posteriors are those of the Dawid–Skene model.
    """

    min_overlap: float
    max_partners: int
    shrink: float

    @abstractmethod
    def _factorise(self, moments: Moments, progress: Callback | None) -> Factors:
        """Map moments of more than one class, with at least one pair of workers, to parameters."""

    def _check(self) -> None:
        check_pairing(self.min_overlap, self.max_partners)
        check_number("shrink", self.shrink, least=0)

    def _moments(self, votes: Annotations) -> Moments:
        return compute(votes, min_overlap=self.min_overlap, max_partners=self.max_partners)

    def factorise(self, moments: Moments) -> tuple[Array, Array]:
        """Prior (K,) and confusion matrices (M, K, K) from moments alone, as they are found: not drawn together.

        >>> import numpy as np
        >>> import manyhands as mh
        >>> confusion = np.array([[[1.0, 0.0], [0.2, 0.8]], [[0.9, 0.1], [0.0, 1.0]], [[0.7, 0.3], [0.4, 0.6]]])
        >>> moments = mh.moments.Moments.exact([0.6, 0.4], confusion)
        >>> prior, found = mh.moments.MultiSPA().factorise(moments)
        >>> bool(np.abs(found - confusion).max() < 1e-10)
        True
        """
        self._check()
        factors = self._factors(moments, None)
        return factors.prior, factors.confusion

    def _factors(self, moments: Moments, progress: Callback | None) -> Factors:
        """Factors of any moments; empty where there is nothing to factorize."""
        m, k = moments.n_workers, moments.n_classes
        has_answers = moments.first.sum(axis=0) > 0
        if has_answers.sum() > 1 and len(moments.pairs):
            factors = self._factorise(of_classes(moments, has_answers), progress)
            prior, confusion, doubts = match_classes(
                factors.prior, factors.confusion, moments.first.sum(axis=1) * factors.solved
            )
            prior, confusion = with_unsaid(has_answers, prior, confusion)
            return replace(factors, prior=prior, confusion=confusion, remarks=(*factors.remarks, *doubts))
        remarks = () if k == 1 else ("No two workers share a task: the majority decides.",)
        even = np.full((m, k, k), 1.0 / k)
        return Factors(np.full(k, 1.0 / k), even, np.zeros(m, bool), np.zeros(0), remarks=remarks)

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        self._check()
        moments = self._moments(votes)
        factors = self._factors(moments, progress)
        remarks = list(factors.remarks)
        prior, confusion = factors.prior, self._drawn_together(moments.first.sum(axis=1), factors)
        posterior = self._posterior_of(votes, factors.solved, prior, confusion)
        if not factors.solved.all():
            lonely = int((~factors.solved).sum())
            if factors.solved.any():
                remarks.append(f"{lonely} of {votes.n_workers} workers share no tasks and are judged by the others.")
            pseudo = np.full((votes.n_classes, votes.n_classes), self.shrink / votes.n_classes)
            counts = judged_by(votes.table, posterior, pseudo)
            confusion = np.where(factors.solved[:, None, None], confusion, counts)
            posterior = posterior_under(votes.table, prior, confusion)
        return ClassFit.of(
            posterior, confusion, prior, factors.history, factors.n_iter, factors.converged, remarks=tuple(remarks)
        )

    def _drawn_together(self, labels: Array, factors: Factors) -> Array:
        """Confusion matrices, drawn towards the average of those solved by `shrink` labels a row."""
        k = len(factors.prior)
        weights = labels * factors.solved
        average = np.average(factors.confusion, axis=0, weights=weights) if weights.any() else np.full((k, k), 1.0 / k)
        # The average, in turn, leaves every answer possible.
        average = normalize_rows(average + 1e-3 / k)
        return drawn_towards(average, factors.confusion, labels[:, None] * factors.prior, self.shrink)

    @staticmethod
    def _posterior_of(
        votes: Annotations, solved: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], prior: Array, confusion: Array
    ) -> Array:
        """Posteriors identified by the workers solved alone; by the votes where there are none."""
        if not solved.any():
            return votes.table.vote_shares()[0]
        silent = np.full_like(confusion[0], 1.0 / confusion.shape[-1])
        return posterior_under(votes.table, prior, np.where(solved[:, None, None], confusion, silent))


class MultiSPA(MomentAggregator):
    """MultiSPA: successive projection finds class specialists, least squares the rest (Ibrahim et al. 2019).

    Given the answer of one worker, each answer of another is a mixture of the rows of the first one's confusion
    matrix. If for each class a worker gives some answer for that class alone (a *class specialist*), the rows are the
    extreme points of these mixtures, and successive projection picks them: exact from exact moments. Others follow by
    least squares on the simplex. Several workers are tried as the first; the best fit to all pairs wins.

    Parameters
    ----------
    refine : int, default 10
        Rounds of least squares afterwards that estimate a worker's matrix from all of its partners, which averages
        the noise of one reference over all pairs. Exact moments need none.
    min_overlap : float, default 1.0
        Pairs of workers with fewer tasks in common are left out.
    max_partners : int, default 64
        Each worker's best-supported pairs, at least this number, are used; bounds time and memory.
    shrink : float, default 1.0
        Labels per row by which confusion matrices are drawn towards the crowd's average.

    Notes
    -----
    Pair moments take one pass over the co-labels; then O(pairs · classes³) a sweep. Memory O(pairs · classes²) with
    pairs ≤ workers · max_partners.

    Assumes that the crowd is better than chance on average; `remarks_` specifies where that is doubtful, and which
    workers the moments do not reach.

    References
    ----------
    Ibrahim, Fu, Kargas & Huang (2019). Crowdsourcing via pairwise co-occurrences: identifiability and algorithms.
    NeurIPS.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(500, 12, 3, labels_per_task=8, seed=1)
    >>> model = mh.moments.MultiSPA().fit(crowd.log)
    >>> mh.metrics.accuracy(model.labels_, crowd.truth) > 0.9
    True
    """

    def __init__(
        self, *, refine: int = 10, min_overlap: float = 1.0, max_partners: int = 64, shrink: float = 1.0
    ) -> None:
        self.refine = refine
        self.min_overlap = min_overlap
        self.max_partners = max_partners
        self.shrink = shrink

    def _check(self) -> None:
        super()._check()
        check_number("refine", self.refine, least=0, whole=True)

    def _factorise(self, moments: Moments, progress: Callback | None) -> Factors:
        return multi_spa(moments, self.refine)


class CoupledNMF(MomentAggregator):
    """Coupled non-negative factorization of all pairs, in Kullback–Leibler divergence (Ibrahim et al. 2019).

    Minimizes the divergence of every pair's joint frequencies from ``Σ_k prior[k] confusion[m, k, :]
    confusion[m', k, :]ᵀ``, each counted with its overlap, with rows on the simplex. Block updates never raise it.
    Unique, up to the names of the classes, under conditions weaker than MultiSPA's: workers must be *sufficiently
    scattered*, specialists are not needed. It starts from `MultiSPA`.

    Parameters
    ----------
    weights : str, default "overlap"
        ``"overlap"``: a pair counts with the tasks it shares, which makes the objective a composite likelihood;
        ``"even"``: all pairs alike, as in the paper.
    max_iter, tol
        Stop after `max_iter` updates, or when the divergence of the average pair changes by less than `tol`.
    min_overlap, max_partners, shrink
        See :class:`MultiSPA`.

    Notes
    -----
    O(pairs · classes³) time an update, memory O(pairs · classes²). ``history_`` is the negative divergence.

    References
    ----------
    Ibrahim, Fu, Kargas & Huang (2019). Crowdsourcing via pairwise co-occurrences: identifiability and algorithms.
    NeurIPS.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(500, 12, 3, labels_per_task=8, seed=1)
    >>> model = mh.moments.CoupledNMF().fit(crowd.log)
    >>> mh.metrics.accuracy(model.labels_, crowd.truth) > 0.9
    True
    """

    def __init__(
        self,
        *,
        weights: str = "overlap",
        max_iter: int = 500,
        tol: float = 1e-9,
        min_overlap: float = 1.0,
        max_partners: int = 64,
        shrink: float = 1.0,
    ) -> None:
        self.weights = weights
        self.max_iter = max_iter
        self.tol = tol
        self.min_overlap = min_overlap
        self.max_partners = max_partners
        self.shrink = shrink

    def _check(self) -> None:
        super()._check()
        check_choice("weights", self.weights, _WEIGHTS)
        check_stopping(self.max_iter, self.tol)

    def _factorise(self, moments: Moments, progress: Callback | None) -> Factors:
        start = multi_spa(moments)
        overlap = moments.pair_overlap
        result = _core.nmf_fit(
            moments.pairs,
            moments.pair_joint,
            # Updates multiply: what starts at nothing would stay there.
            normalize_rows(start.prior + _NOT_NOTHING),
            normalize_rows(start.confusion + _NOT_NOTHING),
            weights=overlap if self.weights == "overlap" else np.ones_like(overlap),
            max_iter=self.max_iter,
            tol=self.tol,
            progress=progress,
        )
        return _best_factors(start, result)


class CoupledCPD(MomentAggregator):
    """Coupled canonical polyadic decomposition of triple moments (Traganitis et al. 2018).

    Least squares on the joint frequencies of triples of workers, ``Σ_k prior[k] confusion[m, k, :] ∘
    confusion[m', k, :] ∘ confusion[m'', k, :]``, by alternating over workers with ADMM on the simplex inside each
    block. Third moments are unique as soon as three confusion matrices have full rank, whatever the answers look
    like, but need many shared tasks to be known well. It starts from `MultiSPA`.

    Each triple and pair counts with the tasks it shares, each worker's label frequencies with their labels, and each
    order of moments is scaled to an average weight of one: what is known from many tasks counts more, and no order
    drowns another. The paper has equal weights throughout.

    Parameters
    ----------
    first, second : bool, default True
        Whether label frequencies and pairs are fitted as well. They are known better than triples.
    max_iter, tol
        Stop after `max_iter` rounds over all workers, or when the squared error changes by less than `tol` of the sum
        of squares of the moments.
    max_triples : int, default 20000
        Best-supported triples that are used; bounds time and memory.
    min_overlap, max_partners, shrink
        See :class:`MultiSPA`; a triple, too, needs `min_overlap` tasks.

    Notes
    -----
    O(triples · classes⁴) time a round, memory O(triples · classes³ + pairs · classes²). ``history_`` is the negative of
    half the squared error. Where no worker shares tasks with two others at once, pairs alone are fitted, and `remarks_`
    reports it.

    References
    ----------
    Traganitis, Pagès-Zamora & Giannakis (2018). Blind multiclass ensemble classification. IEEE Transactions on Signal
    Processing 66(18).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(500, 8, 3, labels_per_task=6, seed=1)
    >>> model = mh.moments.CoupledCPD().fit(crowd.log)
    >>> mh.metrics.accuracy(model.labels_, crowd.truth) > 0.9
    True
    """

    def __init__(
        self,
        *,
        first: bool = True,
        second: bool = True,
        max_iter: int = 100,
        tol: float = 1e-9,
        min_overlap: float = 1.0,
        max_partners: int = 64,
        max_triples: int = 20_000,
        shrink: float = 1.0,
    ) -> None:
        self.first = first
        self.second = second
        self.max_iter = max_iter
        self.tol = tol
        self.min_overlap = min_overlap
        self.max_partners = max_partners
        self.max_triples = max_triples
        self.shrink = shrink

    def _check(self) -> None:
        super()._check()
        check_stopping(self.max_iter, self.tol)
        check_number("max_triples", self.max_triples, least=1, whole=True)
        check_flag("first", self.first)
        check_flag("second", self.second)

    def _moments(self, votes: Annotations) -> Moments:
        return compute(
            votes,
            order=3,
            min_overlap=self.min_overlap,
            max_partners=self.max_partners,
            max_triples=self.max_triples,
        )

    def _factorise(self, moments: Moments, progress: Callback | None) -> Factors:
        start = multi_spa(moments)
        triples = len(moments.triples) > 0
        if not triples:
            remark = "No three workers share tasks: pairs alone were fitted."
            start = replace(start, remarks=(*start.remarks, remark))
        # Workers take turns, and the outcome depends on whose comes first: an order that does not follow their codes.
        order = Blocks(moments).order
        turn = np.argsort(order).astype(np.uint32)
        pairs = slice(None if self.second or not triples else 0)
        result = _core.cpd_fit(
            moments.n_workers,
            start.prior,
            start.confusion[order],
            triples=turn[moments.triples],
            triple_values=moments.triple_frequencies,
            triple_weights=_even(moments.triple_overlap),
            pairs=turn[moments.pairs[pairs]],
            pair_values=moments.pair_frequencies[pairs],
            pair_weights=_even(moments.pair_overlap[pairs]),
            first_values=normalize_rows(moments.first[order]),
            first_weights=_even(moments.first[order].sum(axis=1)) * self.first,
            max_iter=self.max_iter,
            tol=self.tol,
            progress=progress,
        )
        return _best_factors(start, result | {"confusion": result["confusion"][turn]})


def _even(weights: Array) -> Array:
    """Weights of mean one, so that no order of moments drowns another and objectives do not grow with the log."""
    return weights / weights.mean() if len(weights) else weights


def _best_factors(start: Factors, found: _core._Factorisation) -> Factors:
    return replace(
        start,
        prior=found["prior"],
        confusion=found["confusion"],
        history=found["history"],
        n_iter=found["n_iter"],
        converged=found["converged"],
    )
