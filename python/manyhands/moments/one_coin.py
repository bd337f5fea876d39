"""Skills from agreement: a number or two a worker, from how often pairs of workers say the same."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import numpy as np

from manyhands import _core
from manyhands._base.checks import check_choice, check_number, check_pairing, check_stopping, warn_unless_converged
from manyhands._base.estimator import Array
from manyhands._base.progress import Callback
from manyhands.categorical._agreement import Codes, Pairs, certain, inside, with_strangers
from manyhands.categorical._matrices import with_diagonal
from manyhands.categorical._passes import posterior_under
from manyhands.categorical.base import Aggregator, ClassFit
from manyhands.categorical.table import Annotations

#: From this number of common tasks, a pair's agreement counts as evidence by itself.
_FIRM = 10.0
#: The class imbalance is taken from third moments if its standard error, on the scale of `alpha`, is below this.
_LARGEST_ERROR = 0.5


class _PairSkills(Aggregator):
    """Common to methods that find one number per worker from a number per pair."""

    min_overlap: float
    max_partners: int
    max_iter: int
    tol: float

    def _check(self) -> None:
        check_pairing(self.min_overlap, self.max_partners)
        check_stopping(self.max_iter, self.tol)


class _OneCoin(_PairSkills):
    """Common to one-coin methods: skills from agreement, and classes from skills."""

    @abstractmethod
    def _solve(self, pairs: Pairs, progress: Callback | None) -> _core._RankOne:
        """Find a vector whose products are the values of the pairs."""

    def _objective(self, found: _core._RankOne) -> Array:
        return found["history"]

    def _oriented(self, pairs: Pairs, vector: Array) -> tuple[Array, tuple[str, ...]]:
        """Return the skills with their signs, and what is doubtful about the signs."""
        return pairs.oriented(vector)

    @property
    def skills_(self) -> Array:
        """Skill of each worker, (n_workers,): 1 for always right, 0 for a guess, negative for worse than that."""
        k = len(self.classes_)
        right = self.confusion_[:, 0, 0]
        return np.ones(len(right)) if k == 1 else (k * right - 1) / (k - 1)

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        self._check()
        k = votes.n_classes
        if k == 1:
            return certain(votes)
        pairs = self._agreement(votes)
        factors = self._solve(pairs, progress)
        warn_unless_converged(factors["converged"], self, "raise max_iter or tol")
        skills, remarks = self._oriented(pairs, factors["vector"])
        accuracy = inside((1 + (k - 1) * skills) / k, pairs.labels, k)
        alone = pairs.degrees == 0
        even = np.full(k, 1.0 / k)
        confusion, more = with_strangers(votes, even, with_diagonal(accuracy, k), pairs.labels, alone)
        prior = posterior_under(votes.table, even, confusion).mean(axis=0)
        return ClassFit.of(
            posterior=posterior_under(votes.table, prior, confusion),
            confusion=confusion,
            prior=prior,
            history=self._objective(factors),
            n_iter=factors["n_iter"],
            converged=factors["converged"],
            remarks=(*remarks, *more),
        )

    def _agreement(self, votes: Annotations) -> Pairs:
        """Pairs with (K a - 1) / (K - 1), where a is the share of tasks on which they agree."""
        k, table = votes.n_classes, votes.table
        pairs, overlap, _ = table.moments_pairs(
            min_overlap=float(self.min_overlap), max_partners=self.max_partners, joint=False
        )
        agree = table.pair_agreement(pairs)
        return Pairs.of(votes, pairs, overlap, (k * agree / overlap - 1) / (k - 1))


class OneCoinSpectral(_OneCoin):
    """One skill per worker, from an eigenvector of the workers' agreement.

    Every worker is right with one probability ``p`` whatever the class, and errs evenly. With the skill
    ``s = (K p - 1) / (K - 1)`` of each, the agreement ``a`` of two workers, rescaled to ``(K a - 1) / (K - 1)``, is the
    product of their skills on average: a matrix of rank one, whose diagonal and unseen entries are missing. Skills come
    from that matrix alone, without a guess of the classes; classes then follow from skills as in one-coin Dawid–Skene.

    Parameters
    ----------
    method : str, default "eigenvector"
        ``"eigenvector"``: the weighted least-squares fit of rank one, with skills between -1 and 1, to the pairs that
        were seen, each weighted by its number of common tasks; with all seen alike, the leading eigenvector with the
        missing diagonal filled in.
        ``"ratio"``: the leading eigenvector of agreements times numbers of common tasks, divided by that of the numbers
        of common tasks.
    min_overlap : float, default 1.0
        Pairs with fewer common tasks are left aside.
    max_partners : int, default 256
        Only this number of pairs of each worker with most common tasks is used, unless their partner needs them.
    max_iter, tol
        Stop after `max_iter` iterations, or when no skill moves by more than `tol`.

    Notes
    -----
    The sign of the skills is open: the average worker, counted by labels, is taken to be better than chance. Where
    workers fall into groups without common tasks this is done in each. Accuracies are kept from 0 and 1 by ``1 /
    (labels + classes)``. A worker without a partner is judged by the others' answers. The class prior is the mean of
    the posteriors under an even one. What is doubtful is reported in :attr:`remarks_` and by a warning.

    ``objective_`` is minus the weighted mean of squared residuals (``"eigenvector"``; ``"ratio"`` has none).

    Time O(Σ n²) over tasks with n annotations, once, and O(pairs) an iteration; memory 24 bytes per pair's end,
    whatever the number of classes.

    References
    ----------
    A. Ghosh, S. Kale and P. McAfee, "Who moderates the moderators? Crowdsourcing abuse detection in user-generated
    content", EC 2011. N. Dalvi, A. Dasgupta, R. Kumar and V. Rastogi, "Aggregating crowdsourced binary ratings", WWW
    2013.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(1000, 20, 3, crowd="one-coin", labels_per_task=5, seed=1)
    >>> model = mh.moments.OneCoinSpectral().fit(crowd.log)
    >>> float(abs(model.skills_ - (3 * crowd.accuracy - 1) / 2).mean()) < 0.1
    True
    """

    def __init__(
        self,
        *,
        method: str = "eigenvector",
        min_overlap: float = 1.0,
        max_partners: int = 256,
        max_iter: int = 1000,
        tol: float = 1e-6,
    ) -> None:
        self.method = method
        self.min_overlap = min_overlap
        self.max_partners = max_partners
        self.max_iter = max_iter
        self.tol = tol

    def _check(self) -> None:
        check_choice("method", self.method, ("eigenvector", "ratio"))
        super()._check()

    def _solve(self, pairs: Pairs, progress: Callback | None) -> _core._RankOne:
        return _core.rank_one_fit(
            len(pairs.labels),
            pairs.pairs,
            pairs.values,
            pairs.overlap,
            method="spectral" if self.method == "eigenvector" else "ratio",
            components=pairs.components,
            max_iter=self.max_iter,
            tol=self.tol,
            progress=progress,
        )


class OneCoinGradient(_OneCoin):
    """One skill per worker, by projected gradient on the workers' agreement.

    The model and the least squares of :class:`OneCoinSpectral`, by gradient steps that never raise the objective:
    another way to the same answer.

    Parameters
    ----------
    min_overlap, max_partners, max_iter, tol
        As in :class:`OneCoinSpectral`.

    Notes
    -----
    As :class:`OneCoinSpectral`; the gradient is taken in the metric of the workers' numbers of common tasks.

    References
    ----------
    Y. Ma, A. Olshevsky, V. Saligrama and C. Szepesvári, "Gradient descent for sparse rank-one matrix completion for
    crowd-sourced aggregation of sparsely interacting workers", ICML 2018.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(1000, 20, 3, crowd="one-coin", labels_per_task=5, seed=1)
    >>> model = mh.moments.OneCoinGradient().fit(crowd.log)
    >>> mh.metrics.accuracy(model.labels_, crowd.truth) > 0.8
    True
    """

    def __init__(
        self,
        *,
        min_overlap: float = 1.0,
        max_partners: int = 256,
        max_iter: int = 2000,
        tol: float = 1e-6,
    ) -> None:
        self.min_overlap = min_overlap
        self.max_partners = max_partners
        self.max_iter = max_iter
        self.tol = tol

    def _solve(self, pairs: Pairs, progress: Callback | None) -> _core._RankOne:
        return _core.rank_one_fit(
            len(pairs.labels),
            pairs.pairs,
            pairs.values,
            pairs.overlap,
            method="gradient",
            max_iter=self.max_iter,
            tol=self.tol,
            progress=progress,
        )


class MMSR(_OneCoin):
    """One skill per worker, robustly: neighbors whose agreement is extreme do not count (M-MSR).

    The model of :class:`OneCoinSpectral`, but some workers may answer as they like, in concert too. Each worker's skill
    is a mean of the estimates from the agreement with each neighbor, less the `trim` largest and the `trim` smallest of
    those estimates, so that as many untruthful neighbors cannot take it outside the range of what the truthful ones
    say.

    Parameters
    ----------
    method : {"trimmed", "medians"}, default "trimmed"
        ``"trimmed"`` is M-MSR. ``"medians"`` takes medians over pairs of neighbors: slower, for dense logs of up to
        some hundred workers, and holds up to almost half of arbitrary, colluding adversaries.
    trim : int, float or None, default None
        For ``"trimmed"``: how many neighbors are set aside on either side: a whole number, or a share of each worker's
        neighbors below one half. None for half, less one, of those that share ten tasks or more with the
        worker: where pairs have but a handful, extremes are chance, and setting them aside would bias the mean.
    min_overlap, max_partners, max_iter, tol
        As in :class:`OneCoinSpectral`.

    Notes
    -----
    Signs are settled first, by a leading eigenvector of the rescaled agreements ``C``, and taken out of them. A step
    goes half way from a worker's value to the weighted mean of ``C / x`` over the neighbors that are left, where ``x``
    is the neighbor's value, each with its inverse variance (common tasks times ``x²``) as weight; steps shrink where
    values circle. (As published, the method takes sizes ``|C|``, which overrates poor workers, and plain means.) There
    is not an objective. The rest is as in :class:`OneCoinSpectral`.

    With ``"medians"``, ``C_ij C_ik / C_jk`` estimates the square of worker i's skill for each pair of neighbors that
    share tasks. It is right if both neighbors are honest, so its median over k is near for each honest j while most
    neighbors are honest, and so is the median of these over j. The sign is that of the median of ``C_ij``: most
    workers, not the average one, are taken to be better than chance. The setting is that of Kleindessner and Awasthi;
    the estimator is ours. Time O(Σ partners²) over workers.

    References
    ----------
    Q. Ma and A. Olshevsky, "Adversarial crowdsourcing through robust rank-one matrix completion", NeurIPS 2020.
    M. Kleindessner and P. Awasthi, "Crowdsourcing with arbitrary adversaries", ICML 2018.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(1000, 20, 3, crowd="one-coin", labels_per_task=8, seed=1)
    >>> model = mh.moments.MMSR().fit(crowd.log)
    >>> mh.metrics.accuracy(model.labels_, crowd.truth) > 0.8
    True
    """

    def __init__(
        self,
        *,
        method: Literal["trimmed", "medians"] = "trimmed",
        trim: int | float | None = None,
        min_overlap: float = 1.0,
        max_partners: int = 256,
        max_iter: int = 500,
        tol: float = 1e-4,
    ) -> None:
        self.method = method
        self.trim = trim
        self.min_overlap = min_overlap
        self.max_partners = max_partners
        self.max_iter = max_iter
        self.tol = tol

    def _check(self) -> None:
        check_choice("method", self.method, ("trimmed", "medians"))
        if self.trim is not None:
            if self.method == "medians":
                raise ValueError(f"trim={self.trim!r} contradicts method='medians', which sets no neighbor aside")
            whole = isinstance(self.trim, (int, np.integer))
            check_number("trim", self.trim, least=0, whole=whole)
            if not whole and self.trim >= 0.5:
                raise ValueError(f"trim must be a whole number, a share below 0.5 or None, not {self.trim}")
        super()._check()

    def _trims(self, pairs: Pairs) -> Codes:
        """How many neighbors of each worker are set aside on either side."""
        degrees = pairs.degrees
        if self.trim is None:
            firm = np.bincount(pairs.pairs[pairs.overlap >= _FIRM].ravel(), minlength=len(degrees))
            return np.maximum(firm // 2 - 1, 0).astype(np.uint32)
        if isinstance(self.trim, (int, np.integer)):
            return np.minimum(degrees, self.trim).astype(np.uint32)
        share: Codes = np.floor(degrees * self.trim).astype(np.uint32)
        return share

    def _solve(self, pairs: Pairs, progress: Callback | None) -> _core._RankOne:
        if self.method == "medians":
            return {"vector": _medians(pairs), "history": np.zeros(0), "n_iter": 1, "converged": True}
        return _core.rank_one_fit(
            len(pairs.labels),
            pairs.pairs,
            pairs.values,
            pairs.overlap,
            method="msr",
            trim=self._trims(pairs),
            max_iter=self.max_iter,
            tol=self.tol,
            progress=progress,
        )

    def _oriented(self, pairs: Pairs, vector: Array) -> tuple[Array, tuple[str, ...]]:
        skills, remarks = super()._oriented(pairs, vector)
        # Medians have signs of their own: most workers count as honest, whatever the mean skill.
        return (vector if self.method == "medians" else skills), remarks

    def _objective(self, found: _core._RankOne) -> Array:
        return np.zeros(0)


def _medians(pairs: Pairs) -> Array:
    """Skill of each worker by medians over pairs of neighbors, (n_workers,); 0 without such a pair."""
    n = len(pairs.labels)
    ends = np.concatenate([pairs.pairs, pairs.pairs[:, ::-1]]).astype(np.int64)
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    ends, values = ends[order], np.concatenate([pairs.values, pairs.values])[order]
    keys, starts = ends[:, 0] * n + ends[:, 1], np.searchsorted(ends[:, 0], np.arange(n + 1))
    skills = np.zeros(n)
    for worker in range(n):
        mine = slice(starts[worker], starts[worker + 1])
        partners, own = ends[mine, 1], values[mine]
        wanted = partners[:, None] * n + partners
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        between = np.where(keys[place] == wanted, values[place], np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            squares = own[:, None] * own / between
        squares[~np.isfinite(squares)] = np.nan
        squares = squares[~np.isnan(squares).all(axis=1)]
        if len(squares):
            square = float(np.median(np.nanmedian(squares, axis=1)))
            skills[worker] = np.sign(np.median(own)) * np.sqrt(np.clip(square, 0.0, 1.0))
    return skills


class SpectralMetaLearner(_PairSkills):
    """Two classes: sensitivity and specificity of each worker from covariances (spectral meta-learner).

    With answers -1 and +1 for the two classes, the covariance of two workers is the product of a number of each, ``v =
    sqrt(1 - b²) (sensitivity + specificity - 1)``, where ``b`` is the prevalence of the second class less that of the
    first. A rank-one fit gives ``v``, third moments of workers give ``b``, and each worker's mean answer separates
    sensitivity from specificity. No class is guessed on the way.

    Parameters
    ----------
    min_overlap, max_partners, max_iter, tol
        As in :class:`OneCoinSpectral`.
    max_triples : int, default 20000
        The number of triples of workers, those with most common tasks, whose third moments are used.

    Notes
    -----
    Two classes only; with more, an error. Moments are centered by each worker's mean over all their labels. The third
    central moment of three workers is ``-2 b / sqrt(1 - b²)`` times the product of their ``v``; where triples are
    missing or too few to estimate ``b``, it is taken from the majority vote instead, and :attr:`remarks_` reports it.
    The sign of ``v``, margins and workers without a partner are as in :class:`OneCoinSpectral`.

    Time O(Σ n³) over tasks with n annotations, once, and O(pairs) an iteration; memory 80 bytes per pair and 84 bytes a
    triple.

    References
    ----------
    F. Parisi, F. Strino, B. Nadler and Y. Kluger, "Ranking and combining multiple predictors without labeled data",
    PNAS 111 (2014). A. Jaffe, B. Nadler and Y. Kluger, "Estimating the accuracies of multiple classifiers without
    labeled data", AISTATS 2015.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(2000, 20, 2, prior=[0.7, 0.3], labels_per_task=8, seed=1)
    >>> model = mh.moments.SpectralMetaLearner().fit(crowd.log)
    >>> float(abs(model.confusion_ - crowd.confusion).mean()) < 0.1
    True
    """

    _most_classes = 2

    def __init__(
        self,
        *,
        min_overlap: float = 1.0,
        max_partners: int = 256,
        max_triples: int = 20_000,
        max_iter: int = 2000,
        tol: float = 1e-5,
    ) -> None:
        self.min_overlap = min_overlap
        self.max_partners = max_partners
        self.max_triples = max_triples
        self.max_iter = max_iter
        self.tol = tol

    def _check(self) -> None:
        super()._check()
        check_number("max_triples", self.max_triples, least=1, whole=True)

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        self._check()
        if votes.n_classes == 1:
            return certain(votes)
        if votes.n_classes > 2:
            raise ValueError(
                f"SpectralMetaLearner is for two classes, and the votes have {votes.n_classes}; OneCoinSpectral (one "
                "accuracy per worker) and MultiSPA (full confusion matrices) take more"
            )
        first = votes.table.moments_first()
        labels = first.sum(axis=1)
        mean = np.divide(first[:, 1] - first[:, 0], labels, out=np.zeros(len(labels)), where=labels > 0)
        answers = np.array([-1.0, 1.0]) - mean[:, None]  # centered, (M, 2)
        pairs, overlap, joint = votes.table.moments_pairs(
            min_overlap=float(self.min_overlap), max_partners=self.max_partners
        )
        covariance = np.einsum("pab,pa,pb->p", joint, *answers[pairs.T]) / overlap
        graph = Pairs.of(votes, pairs, overlap, covariance)
        result = _core.rank_one_fit(
            votes.n_workers,
            pairs,
            covariance,
            overlap,
            method="spectral",
            max_iter=self.max_iter,
            tol=self.tol,
            progress=progress,
        )
        warn_unless_converged(result["converged"], self, "raise max_iter or tol")
        v, remarks = graph.oriented(result["vector"])
        balance, more = self._balance(votes, pairs, v, answers)
        prior = np.array([1 - balance, 1 + balance]) / 2
        skill = v / np.sqrt(1 - balance**2)
        right = np.stack([1 - mean + (1 + balance) * skill, 1 + mean + (1 - balance) * skill], axis=1) / 2
        right = inside(right, labels[:, None], 2)
        confusion = np.where(np.eye(2, dtype=bool), right[:, :, None], 1 - right[:, :, None])
        confusion, last = with_strangers(votes, prior, confusion, labels, graph.degrees == 0)
        return ClassFit.of(
            posterior=posterior_under(votes.table, prior, confusion),
            confusion=confusion,
            prior=prior,
            history=result["history"],
            n_iter=result["n_iter"],
            converged=result["converged"],
            remarks=(*remarks, *more, *last),
        )

    def _balance(self, votes: Annotations, pairs: Codes, v: Array, answers: Array) -> tuple[float, tuple[str, ...]]:
        """Prevalence of the second class less that of the first."""
        triples, overlap, joint = votes.table.moments_triples(
            pairs, min_overlap=float(self.min_overlap), max_triples=self.max_triples
        )
        most = 1 - 2 / (votes.n_tasks + 2)
        third = np.einsum("tabc,ta,tb,tc->t", joint, *answers[triples.T])  # times the overlap
        product = v[triples].prod(axis=1)
        scale = float(overlap @ product**2)
        if scale * _LARGEST_ERROR**2 > 1:
            alpha = float(third @ product) / scale
            return float(np.clip(-alpha / np.sqrt(4 + alpha**2), -most, most)), ()
        winners, is_tied = _core.winners(votes.table.vote_shares()[0])
        majority = float(np.mean(np.where(is_tied, 0.0, 2.0 * winners - 1.0)))
        return float(np.clip(majority, -most, most)), (
            "Triples of workers have too few tasks in common to estimate the class balance, which was taken from the "
            "majority vote.",
        )
