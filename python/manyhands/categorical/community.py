"""Models of crowds of dependent workers: communities of workers, and subtypes of classes (EBCC)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_number, check_positive, check_stopping, check_strength, warn_unless_converged
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, number, numbers
from manyhands._base.progress import Callback
from manyhands.categorical._matrices import with_diagonal
from manyhands.categorical._priors import class_pseudo, gold_codes, row_pseudo
from manyhands.categorical.base import Aggregator, ClassFit, best_of, fit_of
from manyhands.categorical.bayesian import positive
from manyhands.categorical.table import Annotations


@dataclass(frozen=True, kw_only=True)
class CommunityFit(ClassFit):
    """Classes, and communities of workers."""

    membership: Array = field(metadata=numbers("mc"))
    prototypes: Array = field(metadata=numbers("ckk"))
    shares: Array = field(metadata=numbers("c"))
    strength: float = field(metadata=number(infinite=True))


class CommunityDawidSkene(Aggregator):
    """Dawid–Skene for a crowd of a few kinds of workers (CommunityBCC; worker clusters).

    Each worker belongs to one of `n_communities` communities, which has a confusion matrix of its own, the prototype.
    Row ``k`` of a worker's matrix is drawn from a Dirichlet distribution around row ``k`` of the prototype, with a
    strength that all share. A worker with few labels is judged by the community they seem to belong to, one with many
    by their own answers. Plain Dawid–Skene, which has to learn every matrix from its worker's labels alone, needs some
    tens of them; with 5 to 20 labels per worker communities gain most.

    Parameters
    ----------
    n_communities : int, default 3
        Number of communities. Too many do little harm: some stay empty, or alike.
    strength : float or None, default None
        Number of pseudo-counts that a row of the prototype counts for, from 1e-6 to 1e9; None to learn it; ``inf`` for
        workers who are exactly like their community (Imamura et al. 2018).
    pseudo_count
        Pseudo-counts in each row of each prototype, as in :class:`DawidSkene`; all positive.
    class_pseudo_count : float or array-like, default 1.0
        Pseudo-counts of the class prior, spread evenly over the classes, or an (n_classes,) array.
    gold
        Known classes of some tasks, as in :class:`DawidSkene`.
    protected : int, default 20
        Most passes, from a start with one accuracy for all workers, in which a task keeps to the classes that a worker
        voted for, as in :class:`HierarchicalDawidSkene`.
    restarts : int, default 0
        Further runs from random prototypes; the best bound wins. The first run starts from prototypes that range from
        accurate to guessing.
    max_iter, tol
        Stop after `max_iter` more iterations, or when the bound changes by less than `tol` of itself. A learned
        strength takes its time, and changes few labels by then.
    seed : int, default 0
        Seed of the restarts.

    Notes
    -----
    Classes on the one hand, memberships and matrices on the other have independent variational distributions;
    prototypes, shares of the communities, strength and class prior are the most probable ones. The objective is the
    lower bound on the evidence, plus the log-density of the priors; it never falls. ``confusion_`` holds posterior
    means, and ``posterior_`` is that of the reported parameters, so that ``predict_proba`` of the same votes repeats
    it.

    Time per pass as :class:`DawidSkene`, and O(workers · communities · classes²) gamma functions; memory likewise, and
    a number for each worker and community.

    References
    ----------
    M. Venanzi, J. Guiver, G. Kazai, P. Kohli and M. Shokouhi, "Community-based Bayesian aggregation models for
    crowdsourcing", WWW (2014). H. Imamura, I. Sato and M. Sugiyama, "Analysis of minimax error rate for crowdsourcing
    and its application to worker clustering model", ICML (2018).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(300, 100, 4, labels_per_task=5, seed=1)
    >>> model = mh.categorical.CommunityDawidSkene(2).fit(crowd.log)
    >>> model.communities_.shape, model.community_confusion_.shape
    ((100, 2), (2, 4, 4))
    """

    _fit_type: ClassVar[type[Fit]] = CommunityFit

    def __init__(
        self,
        n_communities: int = 3,
        *,
        strength: float | None = None,
        pseudo_count: float | tuple[float, float] | npt.ArrayLike = (2.0, 1.0),
        class_pseudo_count: float | npt.ArrayLike = 1.0,
        gold: Any = None,
        protected: int = 20,
        restarts: int = 0,
        max_iter: int = 500,
        tol: float = 1e-5,
        seed: int = 0,
    ) -> None:
        self.n_communities = n_communities
        self.strength = strength
        self.pseudo_count = pseudo_count
        self.class_pseudo_count = class_pseudo_count
        self.gold = gold
        self.protected = protected
        self.restarts = restarts
        self.max_iter = max_iter
        self.tol = tol
        self.seed = seed

    @property
    def communities_(self) -> Array:
        """How probably each worker belongs to each community, (n_workers, n_communities); rows sum to one."""
        return self._fitted().fit_as(CommunityFit).membership

    @property
    def community_confusion_(self) -> Array:
        """Confusion matrix of each community, (n_communities, n_classes true, n_classes observed)."""
        return self._fitted().fit_as(CommunityFit).prototypes

    @property
    def community_shares_(self) -> Array:
        """Share of the workers in each community, (n_communities,)."""
        return self._fitted().fit_as(CommunityFit).shares

    @property
    def strength_(self) -> float:
        """Number of pseudo-counts that a row of a community's confusion matrix counts for."""
        return self._fitted().fit_as(CommunityFit).strength

    def _iterations(self) -> int | None:
        return self.protected + self.max_iter

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        self._check()
        k = votes.n_classes
        pseudo = positive(row_pseudo(self.pseudo_count, k), "pseudo_count")
        common: dict[str, Any] = {
            "strength": check_strength(self.strength),
            "pseudo": pseudo,
            "share_pseudo": 1.0,
            "class_pseudo": class_pseudo(self.class_pseudo_count, k),
            "gold": None if self.gold is None else gold_codes(votes, self.gold),
            "protected": self.protected,
            "max_iter": self.max_iter,
            "tol": float(self.tol),
            "progress": progress,
        }
        best = best_of(votes.table.community_fit(start, **common) for start in self._starts(pseudo))
        warn_unless_converged(best["converged"], self)
        learned: dict[str, Any] = {name: best[name] for name in ("membership", "prototypes", "shares", "strength")}
        return fit_of(best, kind=CommunityFit, **learned)

    def _check(self) -> None:
        check_stopping(self.max_iter, self.tol)
        check_number("n_communities", self.n_communities, least=1, whole=True)
        for name in ("protected", "restarts", "seed"):
            check_number(name, getattr(self, name), least=0, whole=True)

    def _starts(self, pseudo: Array) -> Iterator[Array]:
        """Prototypes to start from, (n_communities, K, K): graded ones, then random ones."""
        yield self._graded(len(pseudo))
        for restart in range(self.restarts):
            rng = np.random.default_rng([self.seed, restart])
            yield np.stack([rng.dirichlet(row, self.n_communities) for row in pseudo], axis=1)

    def _graded(self, k: int) -> Array:
        """Prototypes from accurate to guessing, (n_communities, K, K)."""
        accuracies = 1 - (np.arange(self.n_communities) + 0.5) / self.n_communities
        return with_diagonal(1 / k + (1 - 1 / k) * accuracies, k)


@dataclass(frozen=True, kw_only=True)
class SubtypeFit(ClassFit):
    """Classes, and Dirichlet posteriors by subtype."""

    concentration: Array = field(metadata=numbers("mksk"))
    class_concentration: Array = field(metadata=numbers("k"))
    subtype_concentration: Array = field(metadata=numbers("ks"))


class EBCC(Aggregator):
    """Enhanced Bayesian classifier combination: workers who depend on one another, because classes have subtypes.

    A task of class ``k`` is of one of `n_subtypes` subtypes, and a worker's answer depends on both: on a subtype
    that looks like another class, many err alike. Workers are independent given class and subtype, and so depend on one
    another given the class alone. Models of independent workers count coinciding labels as independent evidence.

    Parameters
    ----------
    n_subtypes : int, default 10
        Subtypes of each class; those that nothing speaks for stay empty.
    pseudo_count
        Parameters of the Dirichlet prior of each row of a worker's confusion matrices, one for each subtype: a pair
        ``(right, wrong)``, wrong spread over the errors; a number, spread evenly; or an (n_classes, n_classes) array.
        None for 4 on the diagonal and 1 for each error, as the authors have it.
    class_pseudo_count : float, array-like or None, default None
        Parameters of the Dirichlet prior of the classes: a number spread evenly, or an (n_classes,) array. None for
        1 each.
    subtype_pseudo_count : float, default 0.1
        Parameter of the Dirichlet prior of each class's subtypes, spread evenly over them. Small: few subtypes.
    restarts : int, default 9
        Further runs from random starts; the best bound wins. Starts are shares of the votes, divided among subtypes at
        random.
    max_iter, tol
        Stop a run after `max_iter` iterations, or when the bound changes by less than `tol` of itself.
    seed : int, default 0
        Seed of the starts.

    Notes
    -----
    Mean-field variational Bayes: a distribution over classes and subtypes for each task, Dirichlet distributions for
    rows, mixtures and class prior. The objective is the lower bound on the evidence and never falls. ``confusion_``
    averages a worker's matrices over the subtypes of each class.

    Time per pass O(annotations · classes · subtypes), and O(workers · classes² · subtypes) digamma functions. Memory:
    24 bytes for each worker, class squared and subtype, as much again for each of a few chunks of tasks (8 bytes per
    annotation, 32 MB or two such tables, whichever is most).

    References
    ----------
    Y. Li, B. Rubinstein and T. Cohn, "Exploiting worker correlation for label aggregation in crowdsourcing", ICML
    (2019).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(300, 20, 3, labels_per_task=5, seed=1)
    >>> model = mh.categorical.EBCC(restarts=1).fit(crowd.log)
    >>> model.subtypes_.shape
    (3, 10)
    >>> mh.metrics.accuracy(model.labels_, crowd.truth) > 0.8
    True
    """

    _fit_type: ClassVar[type[Fit]] = SubtypeFit

    _skipped_checks: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("renaming_tasks", "renaming_classes", "renaming_classes_untied"), "starts are drawn in the order of the codes"
    )

    def __init__(
        self,
        *,
        n_subtypes: int = 10,
        pseudo_count: float | tuple[float, float] | npt.ArrayLike | None = None,
        class_pseudo_count: float | npt.ArrayLike | None = None,
        subtype_pseudo_count: float = 0.1,
        restarts: int = 9,
        max_iter: int = 500,
        tol: float = 1e-6,
        seed: int = 0,
    ) -> None:
        self.n_subtypes = n_subtypes
        self.pseudo_count = pseudo_count
        self.class_pseudo_count = class_pseudo_count
        self.subtype_pseudo_count = subtype_pseudo_count
        self.restarts = restarts
        self.max_iter = max_iter
        self.tol = tol
        self.seed = seed

    @property
    def subtypes_(self) -> Array:
        """Share of each subtype in each class, (n_classes, n_subtypes); rows sum to one."""
        return _shares(self._fitted().fit_as(SubtypeFit).subtype_concentration)

    @property
    def subtype_confusion_(self) -> Array:
        """Confusion matrices by subtype, (n_workers, n_classes true, n_subtypes, n_classes observed)."""
        return _shares(self._fitted().fit_as(SubtypeFit).concentration)

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        check_stopping(self.max_iter, self.tol)
        check_number("n_subtypes", self.n_subtypes, least=1, whole=True)
        for name in ("restarts", "seed"):
            check_number(name, getattr(self, name), least=0, whole=True)
        check_positive("subtype_pseudo_count", self.subtype_pseudo_count)
        k = votes.n_classes
        rows = (4.0, k - 1.0) if self.pseudo_count is None else self.pseudo_count
        classes = float(k) if self.class_pseudo_count is None else self.class_pseudo_count
        common: dict[str, Any] = {
            "n_subtypes": self.n_subtypes,
            "pseudo": positive(row_pseudo(rows, k), "pseudo_count"),
            "class_pseudo": positive(class_pseudo(classes, k), "class_pseudo_count"),
            "subtype_pseudo": float(self.subtype_pseudo_count) / self.n_subtypes,
            "max_iter": self.max_iter,
            "tol": float(self.tol),
            "progress": progress,
        }
        starts = np.random.default_rng(self.seed).integers(0, 2**63, self.restarts + 1).tolist()
        best = best_of(votes.table.subtypes_fit(seed=seed, **common) for seed in starts)
        warn_unless_converged(best["converged"], self)
        learned: dict[str, Any] = {
            name: best[name] for name in ("concentration", "class_concentration", "subtype_concentration")
        }
        return fit_of(best, kind=SubtypeFit, **learned)

    def _posterior(self, table: _core.Table, known: npt.NDArray[np.int64]) -> Array:
        fit = self._fitted().fit_as(SubtypeFit)
        concentration = self._carried_over(fit.concentration, known)
        return table.subtypes_posterior(fit.class_concentration, fit.subtype_concentration, concentration)


def _shares(concentration: Array) -> Array:
    """Means of Dirichlet distributions along the last axis."""
    shares: Array = concentration / concentration.sum(axis=-1, keepdims=True)
    return shares
