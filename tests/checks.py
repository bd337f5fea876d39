"""What every aggregator is held to, and the one place where their variants and twins are listed.

`VARIANTS` names the meaningful settings of each class, `TWINS` its plain NumPy twin; ``test_aggregators.py``
runs every entry of `CHECKS` on every variant, and fails for a class that is missing from either list.
"""

from __future__ import annotations

import copy
import pickle
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import manyhands as mh
from manyhands.aggregators.base import Aggregator
from manyhands.checks import LEAST_COUNT, MOST_COUNT
from oracles import bayes, communities, competence, em, entropy, margin, online, skills, voting
from oracles.kernels import plain_kernels
from oracles.skills import Answer

#: Answers that differ only by the order of sums must agree to this.
SAME = 1e-9
#: Compiled code and NumPy twins must agree to this.
PARITY = 1e-8


# ----------------------------------------------------------------------------------------------------- crowds


@dataclass(frozen=True)
class Crowd:
    """A log with names that can be changed: rows are positions in the lists of names."""

    rows: np.ndarray
    tasks: tuple[Any, ...]
    workers: tuple[Any, ...]
    classes: tuple[Any, ...]
    weights: np.ndarray | None = None

    def columns(self) -> dict[str, list[Any]]:
        names = (self.tasks, self.workers, self.classes)
        return {
            key: [name[i] for i in column]
            for key, name, column in zip(("task", "worker", "label"), names, self.rows.T, strict=True)
        }

    def votes(self, *, classes: Any = None) -> mh.Annotations:
        return mh.Annotations.from_arrays(*self.columns().values(), weights=self.weights, classes=classes)

    def repeated(self) -> Crowd:
        """Every third row twice."""
        return replace(self, rows=np.concatenate([self.rows, self.rows[::3]]))

    def weighted(self) -> Crowd:
        """Every third row with weight two."""
        return replace(self, weights=np.where(np.arange(len(self.rows)) % 3 == 0, 2.0, 1.0))


def crowd(n_tasks: int = 40, n_workers: int = 8, n_classes: int = 3, per_task: int = 5, seed: int = 0) -> Crowd:
    """Workers of mixed skill who err towards the next class; sizes as asked, every worker and class used."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n_tasks) % n_classes
    skill = np.linspace(0.5, 0.9, n_workers)
    rows = []
    for task in range(n_tasks):
        # Workers in turn, so that nobody is left out.
        for worker in (task + np.arange(per_task)) % n_workers:
            step = 0 if rng.random() < skill[worker] else (1 if rng.random() < 0.7 else 2)
            rows.append((task, worker, (truth[task] + step) % n_classes))
    return Crowd(
        np.array(rows),
        tuple(f"t{i:03}" for i in range(n_tasks)),
        tuple(f"w{i:02}" for i in range(n_workers)),
        tuple(f"c{i}" for i in range(n_classes)),
    )


def of_rows(rows: np.ndarray, weights: np.ndarray | None = None) -> Crowd:
    """A crowd of just the tasks, workers and classes that occur in the rows."""
    rows = np.stack([np.unique(column, return_inverse=True)[1] for column in rows.T], axis=1)
    sizes = rows.max(axis=0) + 1
    names = (tuple(f"{letter}{i}" for i in range(size)) for letter, size in zip("twc", sizes, strict=True))
    return Crowd(rows, *names, weights)


STANDARD = crowd()

#: Small and odd logs.
ODD: dict[str, Crowd] = {
    "one task": crowd(n_tasks=1, n_workers=5, n_classes=2),
    "one worker": crowd(n_workers=1, per_task=1),
    "one class": crowd(n_classes=1),
    "one annotation": crowd(n_tasks=1, n_workers=1, n_classes=1, per_task=1),
    "a worker with one label": replace(
        STANDARD, rows=np.vstack([STANDARD.rows, [3, 8, 1]]), workers=(*STANDARD.workers, "w08")
    ),
    "a task with one label": replace(
        STANDARD, rows=np.vstack([STANDARD.rows, [40, 0, 2]]), tasks=(*STANDARD.tasks, "t040")
    ),
    "everyone agrees": of_rows(np.array([(task, worker, task % 2) for task in range(6) for worker in range(4)])),
    "nobody agrees": of_rows(np.array([(task, worker, worker) for task in range(4) for worker in range(3)])),
    "nothing but repeats": of_rows(np.repeat(STANDARD.rows[:5], 4, axis=0)),
}


# --------------------------------------------------------------------------------------------------- variants


@dataclass(frozen=True)
class Variant:
    """Settings of an aggregator; `make` may name the tasks, workers and classes of a crowd."""

    name: str
    make: Callable[[Crowd], Aggregator]
    #: Whether renaming things renames the answer and changes nothing else; draws at random follow the codes.
    equivariant: bool = True
    #: Whether ties that go to the lowest class code reach beyond the labels, into weights or posteriors.
    ties_matter: bool = False
    #: Whether the twin follows the same path, so that all results can be compared.
    exact: bool = True
    #: Whether posteriors depend on the labels alone, so that predict repeats them.
    predicts_itself: bool = True
    #: Whether any table, however small, determines the answer; else twins and renamed tables may settle elsewhere.
    determined: bool = True
    #: The most classes it takes; None for any number.
    most_classes: int | None = None

    def __str__(self) -> str:
        return self.name

    def fits(self, log: Crowd) -> Crowd:
        """The log, with classes laid together where it has too many for this variant."""
        if self.most_classes is None or len(log.classes) <= self.most_classes:
            return log
        rows = log.rows.copy()
        rows[:, 2] %= self.most_classes
        used = np.unique(rows[:, 2])
        rows[:, 2] = np.searchsorted(used, rows[:, 2])
        return replace(log, rows=rows, classes=tuple(log.classes[i] for i in used))

    @property
    def standard(self) -> Crowd:
        return self.fits(STANDARD)


def _vote(name: str, **params: Any) -> Variant:
    return Variant(f"MajorityVote {name}", lambda _: mh.MajorityVote(**params))


def _weighted(name: str, weights: Any, *, ties_matter: bool = True, **params: Any) -> Variant:
    def make(crowd: Crowd) -> Aggregator:
        given = weights(crowd) if callable(weights) else weights
        return mh.WeightedVote(given, **params)

    return Variant(f"WeightedVote {name}", make, ties_matter=ties_matter)


def _em(name: str, *, exact: bool = True, equivariant: bool = True, **params: Any) -> Variant:
    # A fixed number of passes unless told otherwise: no convergence warnings on odd tables.
    params = {"max_iter": 12, "tol": 0.0} | params

    def make(crowd: Crowd) -> Aggregator:
        return mh.DawidSkene(**{key: v(crowd) if callable(v) else v for key, v in params.items()})

    return Variant(
        f"DawidSkene {name}",
        make,
        equivariant=equivariant,
        exact=exact,
        predicts_itself="gold" not in params,
    )


def _moments(kind: type[Aggregator], name: str, *, equivariant: bool = True, **params: Any) -> Variant:
    return Variant(f"{kind.__name__} {name}", lambda _: kind(**params), equivariant=equivariant, determined=False)


def _skills(cls: type[Aggregator], name: str, **params: Any) -> Variant:
    # A fixed number of iterations, as in `_em`.
    params = {"max_iter": 8, "tol": 0.0} | params
    most = 2 if cls is mh.SpectralMetaLearner else None
    return Variant(f"{cls.__name__} {name}", lambda _: cls(**params), most_classes=most)


def _kos(name: str, **params: Any) -> Variant:
    return Variant(f"KOS {name}", lambda _: mh.KOS(**params), equivariant=False, predicts_itself=False)


def _bayes(cls: type[Aggregator], name: str, *, exact: bool = True, **params: Any) -> Variant:
    # A fixed number of passes, as in `_em`.
    params = {"max_iter": 12, "tol": 0.0, "protected": 5} | params

    def make(crowd: Crowd) -> Aggregator:
        return cls(**{key: v(crowd) if callable(v) else v for key, v in params.items()})

    return Variant(f"{cls.__name__} {name}", make, exact=exact, predicts_itself="gold" not in params)


def _gibbs(name: str, **params: Any) -> Variant:
    # Draws have no twin; that they are the right ones is what test_gibbs.py is about. No verdict on so few of them.
    params = {"method": "gibbs", "n_chains": 2, "warmup": 4, "draws": 12, "tol": 0.0, "protected": 5} | params
    made = _bayes(mh.BayesianDawidSkene, name, exact=False, max_iter=200, **params)
    return replace(made, equivariant=False, predicts_itself=False)


def _mixed(cls: type[Aggregator], name: str, *, exact: bool = True, **params: Any) -> Variant:
    # A fixed number of passes, as in `_em`. Random starts follow the codes, also where the twin can repeat them.
    params = {"max_iter": 12, "tol": 0.0} | params

    def make(crowd: Crowd) -> Aggregator:
        return cls(**{key: v(crowd) if callable(v) else v for key, v in params.items()})

    equivariant = exact and cls is mh.CommunityDawidSkene
    return Variant(
        f"{cls.__name__} {name}", make, exact=exact, equivariant=equivariant, predicts_itself="gold" not in params
    )


def _mace(name: str, *, exact: bool = True, **params: Any) -> Variant:
    # A fixed number of passes, as in `_em`. The twin starts once; random starts follow the codes.
    params = {"max_iter": 12, "tol": 0.0} | params
    return Variant(f"MACE {name}", lambda _: mh.MACE(**params), equivariant=exact, exact=exact)


def _glad(name: str, **params: Any) -> Variant:
    # Prediction finds the eases of tasks anew.
    params = {"max_iter": 8, "tol": 0.0} | params
    return Variant(f"GLAD {name}", lambda _: mh.GLAD(**params), predicts_itself=False)


def _sparse(name: str, **params: Any) -> Variant:
    # A fixed number of passes, as in `_em`.
    params = {"max_iter": 12, "tol": 0.0} | params
    return Variant(f"SparseOneCoin {name}", lambda _: mh.SparseOneCoin(**params))


def _online(name: str, **params: Any) -> Variant:
    return Variant(f"OnlineDawidSkene {name}", lambda _: mh.OnlineDawidSkene(**params))


def _minimax(name: str, *, equivariant: bool = True, **params: Any) -> Variant:
    # Prediction finds the numbers of tasks anew.
    params = {"max_iter": 6, "tol": 0.0} | params
    make = partial(mh.MinimaxEntropy, **params)
    return Variant(f"MinimaxEntropy {name}", lambda _: make(), equivariant=equivariant, predicts_itself=False)


def _margin(name: str, **params: Any) -> Variant:
    # Sweeps go by the order of tasks, and renamed tables settle elsewhere.
    params = {"max_iter": 4, "tol": 0.0} | params
    return Variant(f"MaxMarginVote {name}", lambda _: mh.MaxMarginVote(**params), equivariant=False)


def _crowd_svm(name: str, **params: Any) -> Variant:
    params = {"draws": 6, "burn_in": 2} | params
    make = partial(mh.CrowdSVM, **params)
    return Variant(f"CrowdSVM {name}", lambda _: make(), equivariant=False, predicts_itself=False)


def _by_turns(crowd: Crowd) -> dict[Any, float]:
    return {worker: 1.0 + i % 3 for i, worker in enumerate(crowd.workers)}


def _first_is_gold(crowd: Crowd) -> dict[Any, Any]:
    return {crowd.tasks[0]: crowd.classes[0]}


def _first_is_trusted(crowd: Crowd) -> dict[Any, np.ndarray]:
    return {crowd.workers[0]: 5.0 * np.eye(len(crowd.classes)) + 0.5}


VARIANTS: dict[type[Aggregator], list[Variant]] = {
    mh.MajorityVote: [
        _vote("lowest"),
        _vote("random", ties="random", seed=3),
        _vote("abstain", ties="abstain"),
    ],
    mh.WeightedVote: [
        _weighted("agreement", "agreement"),
        _weighted("zero-based", "zero-based", n_iter=7, decay_every=3),
        _weighted("given", _by_turns, ties_matter=False),
    ],
    mh.DawidSkene: [
        _em("default", max_iter=2000, tol=1e-6),
        _em("shares", init="shares"),
        _em("maximum likelihood", pseudo_count=0.0),
        _em("pair of pseudo-counts", pseudo_count=(2.0, 1.0), class_pseudo_count=1.0),
        _em("class", model="class"),
        _em("one-coin", model="one-coin"),
        _em("hard", assignment="hard"),
        _em("hard-then-soft", assignment="hard-then-soft", max_iter=24),
        _em("class hard", model="class", assignment="hard", init="shares", pseudo_count=0.01),
        _em("gold", gold=_first_is_gold),
        _em("worker prior", worker_prior=_first_is_trusted),
        # Whether a leap is taken may hang on rounding.
        replace(_em("accelerated", accelerate=True, exact=False), determined=False),
        replace(_em("accelerated one-coin", accelerate=True, model="one-coin", exact=False), determined=False),
        _em("restarts", restarts=3, exact=False, equivariant=False),
        replace(_em("from moments", init="multispa", exact=False), determined=False),
        _em("from a spectral start", init="spectral", exact=False, equivariant=False),
    ],
    mh.BayesianDawidSkene: [
        _bayes(mh.BayesianDawidSkene, "default", max_iter=2000, tol=1e-6, protected=20),
        _bayes(mh.BayesianDawidSkene, "majority", init="majority", pseudo_count=1.0, class_pseudo_count=3.0),
        _bayes(mh.BayesianDawidSkene, "class", model="class", init="shares"),
        _bayes(mh.BayesianDawidSkene, "one-coin", model="one-coin"),
        _bayes(mh.BayesianDawidSkene, "gold", gold=_first_is_gold),
        # Whether a leap is taken may hang on rounding.
        replace(_bayes(mh.BayesianDawidSkene, "accelerated", accelerate=True, exact=False), determined=False),
        _gibbs("gibbs"),
        _gibbs("gibbs class", model="class", init="shares", keep="confusion", seed=3),
        _gibbs("gibbs one-coin and gold", model="one-coin", gold=_first_is_gold),
    ],
    mh.CommunityDawidSkene: [
        # Gamma functions of a large strength cancel, and passes magnify the rounding where a table leaves it open.
        replace(_mixed(mh.CommunityDawidSkene, "default", max_iter=2000, tol=1e-5), determined=False),
        replace(_mixed(mh.CommunityDawidSkene, "short"), determined=False),
        _mixed(mh.CommunityDawidSkene, "clusters", n_communities=2, strength=float("inf"), protected=3),
        _mixed(mh.CommunityDawidSkene, "strength and gold", n_communities=2, strength=5.0, gold=_first_is_gold),
        _mixed(mh.CommunityDawidSkene, "restarts", restarts=2, exact=False),
    ],
    mh.EBCC: [
        _mixed(mh.EBCC, "short", restarts=0),
        _mixed(mh.EBCC, "priors", restarts=0, n_subtypes=3, pseudo_count=(2.0, 1.0), class_pseudo_count=2.0, seed=4),
        _mixed(mh.EBCC, "restarts", n_subtypes=2, restarts=2, exact=False),
    ],
    mh.HierarchicalDawidSkene: [
        _bayes(mh.HierarchicalDawidSkene, "default", max_iter=5, tol=1e-6, protected=20),
        _bayes(mh.HierarchicalDawidSkene, "few passes"),
        _bayes(mh.HierarchicalDawidSkene, "gold", gold=_first_is_gold),
    ],
    mh.HierarchicalMACE: [
        _bayes(mh.HierarchicalMACE, "default", max_iter=5, tol=1e-6, protected=20),
        _bayes(mh.HierarchicalMACE, "mace", strength=float("inf")),
        _bayes(mh.HierarchicalMACE, "strength and gold", strength=5.0, gold=_first_is_gold),
    ],
    mh.Consensus: [
        Variant("Consensus default", lambda _: mh.Consensus()),
        Variant("Consensus given", lambda _: mh.Consensus(correlation=0.1, protected=3, max_iter=8, tol=0.0)),
        Variant("Consensus gold", lambda crowd: mh.Consensus(gold=_first_is_gold(crowd)), predicts_itself=False),
    ],
    mh.MultiSPA: [
        _moments(mh.MultiSPA, "default"),
        _moments(mh.MultiSPA, "alone", refine=0, shrink=0.5, min_overlap=2.0),
    ],
    mh.CoupledNMF: [
        _moments(mh.CoupledNMF, "default", max_iter=30, tol=0.0),
        _moments(mh.CoupledNMF, "even", weights="even", max_iter=10, tol=0.0),
    ],
    mh.SymmetricNMF: [_moments(mh.SymmetricNMF, "default", impute=10, max_iter=20)],
    mh.CoupledCPD: [
        _moments(mh.CoupledCPD, "default", max_iter=5, tol=0.0),
        _moments(mh.CoupledCPD, "triples alone", first=False, second=False, max_iter=5, tol=0.0),
    ],
    # Groups and starts are drawn by position.
    mh.SpectralDS: [
        _moments(mh.SpectralDS, "default", equivariant=False),
        _moments(mh.SpectralDS, "alone", em_passes=0, groupings=1, equivariant=False),
    ],
    mh.OneCoinSpectral: [
        _skills(mh.OneCoinSpectral, "eigenvector"),
        _skills(mh.OneCoinSpectral, "ratio", method="ratio"),
        _skills(mh.OneCoinSpectral, "few pairs", min_overlap=12),
    ],
    mh.OneCoinGradient: [_skills(mh.OneCoinGradient, "default")],
    mh.MMSR: [
        _skills(mh.MMSR, "half"),
        _skills(mh.MMSR, "one", trim=1),
        _skills(mh.MMSR, "share", trim=0.2),
    ],
    mh.SpectralMetaLearner: [
        _skills(mh.SpectralMetaLearner, "default"),
        _skills(mh.SpectralMetaLearner, "few triples", max_triples=5, min_overlap=3),
    ],
    mh.SparseOneCoin: [
        _sparse("default", max_iter=2000, tol=1e-6),
        _sparse("shares", init="shares", pseudo_count=(2.0, 1.0), class_pseudo_count=1.0),
        _sparse("maximum likelihood", pseudo_count=(0.0, 0.0)),
    ],
    mh.OnlineDawidSkene: [
        _online("one batch"),
        # Batches follow the order of tasks.
        replace(_online("small batches", batch_size=7, kappa=0.6, recent=5), equivariant=False),
        replace(_online("forgetful", batch_size=11, kappa=1.0, forget=0.2, rounds=2), equivariant=False),
    ],
    mh.KOS: [_kos("default"), _kos("long", max_iter=60, seed=7)],
    mh.MACE: [
        _mace("default", max_iter=2000, tol=1e-6),
        _mace("short"),
        _mace("em", method="em"),
        _mace("maximum likelihood", method="em", smoothing=0.0),
        _mace("restarts", restarts=3, exact=False),
    ],
    mh.GLAD: [_glad("short"), _glad("hard tasks", ability_mean=0.5, ease_mean=-1.0)],
    # Ordered classes cannot be renamed in any order.
    mh.MinimaxEntropy: [_minimax("short"), _minimax("ordinal", ordinal=True, task_penalty=2.0, equivariant=False)],
    mh.MaxMarginVote: [_margin("short"), _margin("dear", cost=1.0, margin=3.0)],
    mh.CrowdSVM: [_crowd_svm("short"), _crowd_svm("dear", cost=1.0, margin=3.0, variance=0.5, seed=5)],
}


# ------------------------------------------------------------------------------------------------------ twins


@dataclass(frozen=True)
class Twin:
    """Plain versions of `fit` and of `predict_proba`; the latter is told who workers were, -1 for nobody."""

    fit: Callable[[Any, mh.Annotations], Answer]
    predict_proba: Callable[[Any, em.Rows, np.ndarray], np.ndarray]


def _shares_answer(rows: em.Rows, shares: np.ndarray) -> Answer:
    return Answer(shares, voting.confusion(rows, shares), shares.mean(axis=0), np.zeros(0))


def _fit_vote(model: mh.MajorityVote, votes: mh.Annotations) -> Answer:
    rows = em.Rows.of(votes)
    return _shares_answer(rows, voting.shares(rows))


def twin_weights(model: mh.WeightedVote, votes: mh.Annotations) -> np.ndarray:
    rows = em.Rows.of(votes)
    if model.weights == "agreement":
        return voting.wawa(rows)
    if model.weights == "zero-based":
        return voting.zero_based(
            rows,
            n_iter=model.n_iter,
            learning_rate=model.learning_rate,
            rate_decay=model.rate_decay,
            decay_every=model.decay_every,
            initial_skill=model.initial_skill,
        )
    return np.array([model.weights[worker] for worker in votes.workers.tolist()], float)


def _fit_weighted(model: mh.WeightedVote, votes: mh.Annotations) -> Answer:
    rows = em.Rows.of(votes)
    return _shares_answer(rows, voting.shares(rows, twin_weights(model, votes)))


def row_counts(given: Any, k: int) -> np.ndarray:
    """What a `pseudo_count` means, (K, K)."""
    if not isinstance(given, tuple):
        return np.full((k, k), given / k) if np.ndim(given) == 0 else np.array(given)
    shared = np.full((k, k), given[1] / max(k - 1, 1))
    shared[np.diag_indices(k)] = given[0]
    return shared


def pseudo_counts(model: mh.DawidSkene, votes: mh.Annotations) -> np.ndarray:
    """What `pseudo_count` and `worker_prior` mean, (M, K, K)."""
    shared = row_counts(model.pseudo_count, votes.n_classes)
    pseudo = np.repeat(shared[None], votes.n_workers, axis=0)
    for worker, prior in (model.worker_prior or {}).items():
        pseudo[votes.workers.tolist().index(worker)] = prior
    return pseudo


def gold_codes(model: mh.DawidSkene, votes: mh.Annotations) -> np.ndarray:
    """Class code of each task, or -1."""
    gold = model.gold or {}
    classes = votes.classes.tolist()
    return np.array([classes.index(gold[t]) if t in gold else -1 for t in votes.tasks.tolist()])


def fit_em(model: mh.DawidSkene, votes: mh.Annotations, rows: em.Rows | None = None) -> em.Result:
    """The twin of a `DawidSkene`, whatever its parameters (but for acceleration and restarts)."""
    return em.fit(
        rows or em.Rows.of(votes),
        model=model.model,
        assignment=model.assignment,
        start=model.init,
        pseudo=pseudo_counts(model, votes),
        class_pseudo=np.asarray(model.class_pseudo_count, float)
        / (votes.n_classes if np.ndim(model.class_pseudo_count) == 0 else 1),
        gold=gold_codes(model, votes),
        max_iter=model.max_iter,
        tol=model.tol,
    )


def _fit_em_answer(model: mh.DawidSkene, votes: mh.Annotations) -> Answer:
    found = fit_em(model, votes)
    return Answer(found.posterior, found.confusion, found.prior, found.history)


def _class_pseudo(model: Any, k: int) -> np.ndarray:
    return np.broadcast_to(np.asarray(model.class_pseudo_count, float) / k, k)


def fit_bayes(model: mh.BayesianDawidSkene, votes: mh.Annotations) -> bayes.Result:
    """The twin of a `BayesianDawidSkene`, whatever its parameters (but for acceleration)."""
    return bayes.fit(
        em.Rows.of(votes),
        model=model.model,
        start=model.init,
        pseudo=row_counts(model.pseudo_count, votes.n_classes) / (votes.n_classes if model.model == "one-coin" else 1),
        class_pseudo=_class_pseudo(model, votes.n_classes),
        gold=gold_codes(model, votes),
        protected=model.protected,
        max_iter=model.max_iter,
        tol=model.tol,
    )


def _fit_bayes_answer(model: mh.BayesianDawidSkene, votes: mh.Annotations) -> Answer:
    found = fit_bayes(model, votes)
    return Answer(found.posterior, found.confusion, found.prior, found.history)


def _predict_bayes(model: mh.BayesianDawidSkene, rows: em.Rows, known: np.ndarray) -> np.ndarray:
    if model.method == "gibbs":
        return _predict_em(model, rows, known)
    average = np.average(model.concentration_, axis=0, weights=labels_of(model))
    concentration = np.array([model.concentration_[m] if m >= 0 else average for m in known])
    nobody = np.full(rows.n_tasks, -1)
    return bayes.expect(rows, model.class_concentration_, concentration, nobody, model.model)[0]


def hierarchy_prior(model: Aggregator, m: int, k: int) -> bayes.Crowd | bayes.Spammer:
    if isinstance(model, mh.HierarchicalMACE):
        return bayes.Spammer(m, k, model.strength)
    return bayes.Crowd(m, k)


def _fit_hierarchy(model: Any, votes: mh.Annotations) -> Answer:
    found = bayes.fit_hierarchy(
        em.Rows.of(votes),
        prior=hierarchy_prior(model, votes.n_workers, votes.n_classes),
        class_pseudo=_class_pseudo(model, votes.n_classes),
        gold=gold_codes(model, votes),
        protected=model.protected,
        max_iter=model.max_iter,
        tol=model.tol,
    )
    return Answer(*found, np.zeros(0))


def _fit_community(model: mh.CommunityDawidSkene, votes: mh.Annotations) -> Answer:
    k, n = votes.n_classes, model.n_communities
    accuracies = [1 / k + (1 - 1 / k) * (1 - (c + 0.5) / n) for c in range(n)]
    crowd = communities.Communities(
        np.array([bayes.shared(k, accuracy if k > 1 else 1.0) for accuracy in accuracies]),
        communities.FIRST if model.strength is None else model.strength,
        learn=model.strength is None,
        pseudo=row_counts(model.pseudo_count, k),
        share_pseudo=1.0,
    )
    stop = {"protected": model.protected, "max_iter": model.max_iter, "tol": model.tol}
    known = {"class_pseudo": _class_pseudo(model, k), "gold": gold_codes(model, votes)}
    found = communities.fit_communities(em.Rows.of(votes), crowd, **known, **stop)
    return Answer(found.posterior, found.confusion, found.prior, found.history)


def _fit_ebcc(model: mh.EBCC, votes: mh.Annotations) -> Answer:
    k = votes.n_classes
    pseudo = np.ones((k, k)) + 3 * np.eye(k) if model.pseudo_count is None else row_counts(model.pseudo_count, k)
    found, _ = communities.fit_subtypes(
        em.Rows.of(votes),
        n_subtypes=model.n_subtypes,
        pseudo=pseudo,
        class_pseudo=np.ones(k) if model.class_pseudo_count is None else _class_pseudo(model, k),
        subtype_pseudo=model.subtype_pseudo_count / model.n_subtypes,
        seed=int(np.random.default_rng(model.seed).integers(0, 2**63)),
        max_iter=model.max_iter,
        tol=model.tol,
    )
    return Answer(found.posterior, found.confusion, found.prior, found.history)


def _predict_ebcc(model: mh.EBCC, rows: em.Rows, known: np.ndarray) -> np.ndarray:
    average = np.average(model._concentration, axis=0, weights=labels_of(model))
    carried = np.array([model._concentration[m] if m >= 0 else average for m in known])
    params = communities.Subtypes(model._class_concentration, model._subtype_concentration, carried)
    return params.expect(rows)[0].sum(axis=2)


def _fit_consensus(model: mh.Consensus, votes: mh.Annotations) -> Answer:
    rows, gold = em.Rows.of(votes), gold_codes(model, votes)
    stop = {"protected": model.protected, "max_iter": model.max_iter, "tol": model.tol}

    def members(known: dict[Any, Any] | None) -> list[Answer]:
        return [
            TWINS[type(member)].fit(member, votes)
            for member in (
                mh.HierarchicalDawidSkene(gold=known, **stop),
                mh.HierarchicalMACE(gold=known, **stop),
                mh.HierarchicalMACE(strength=float("inf"), gold=known, **stop),
            )
        ]

    crowd = bayes.Crowd(votes.n_workers, votes.n_classes)
    pseudo = _class_pseudo(mh.HierarchicalDawidSkene(), votes.n_classes)
    bayes.fit_hierarchy(rows, prior=crowd, class_pseudo=pseudo, gold=gold, **stop)
    judged = members(None) if model.gold else None
    return bayes.consensus(members(model.gold), judged, gold, rows, model.correlation, crowd.alpha)


def _predict_consensus(model: mh.Consensus, rows: em.Rows, known: np.ndarray) -> np.ndarray:
    nobody, mixed = np.full(rows.n_tasks, -1), 0.0
    for weight, matrices, prior in zip(model.weights_, model._confusions, model._priors, strict=True):
        average = np.average(matrices, axis=0, weights=labels_of(model))
        carried = np.array([matrices[m] if m >= 0 else average for m in known])
        mixed = mixed + weight * em.expect(rows, prior, carried, nobody, hard=False)[0]
    informs = bayes.information(model.confusion_)
    average = np.average(informs, weights=labels_of(model))
    effective = bayes.effective_votes(rows, np.array([informs[m] if m >= 0 else average for m in known]))
    return bayes.calibrated(mixed, effective, model.discount_, 0.01)


def _fit_plainly(model: Aggregator, votes: mh.Annotations) -> Answer:
    with plain_kernels(votes):
        found = type(model)(**model.get_params())._fit(votes, None)
    return Answer(found.posterior, found.made(), found.prior, found.history)


def labels_of(model: Aggregator) -> np.ndarray:
    """Labels per worker in the table that a model was fitted to."""
    return model.workers_frame().column("n_labels").to_numpy()


def _fit_sparse(model: mh.SparseOneCoin, votes: mh.Annotations) -> Answer:
    """The dense model, whose pseudo-counts are those of K rows."""
    k, (right, wrong) = votes.n_classes, model.pseudo_count
    found = em.fit(
        em.Rows.of(votes),
        model="one-coin",
        start=model.init,
        pseudo=row_counts((right / k, wrong / k), k),
        class_pseudo=model.class_pseudo_count / k,
        max_iter=model.max_iter,
        tol=model.tol,
    )
    return Answer(found.posterior, found.confusion, found.prior, found.history)


def _fit_online(model: mh.OnlineDawidSkene, votes: mh.Annotations) -> Answer:
    return online.fit(
        em.Rows.of(votes),
        batch_size=model.batch_size,
        kappa=model.kappa,
        forget=model.forget,
        rounds=model.rounds,
        pseudo=row_counts(model.pseudo_count, votes.n_classes),
        class_pseudo=np.full(votes.n_classes, model.class_pseudo_count / votes.n_classes),
    )


def _predict_em(model: mh.DawidSkene, rows: em.Rows, known: np.ndarray) -> np.ndarray:
    average = np.average(model.confusion_, axis=0, weights=labels_of(model))
    confusion = np.array([model.confusion_[m] if m >= 0 else average for m in known])
    nobody = np.full(rows.n_tasks, -1)
    return em.expect(rows, model.prior_, confusion, nobody, hard=False)[0]


def _predict_weighted(model: mh.WeightedVote, rows: em.Rows, known: np.ndarray) -> np.ndarray:
    average = np.average(model.weights_, weights=labels_of(model))
    return voting.shares(rows, np.array([model.weights_[m] if m >= 0 else average for m in known]))


def _one_coin_twin(solve: Callable[[Any], Callable[..., skills.RankOne]]) -> Twin:
    """The twin of a one-coin method; `solve(model)` is how it finds skills."""

    def fit(model: Any, votes: mh.Annotations) -> Answer:
        return skills.one_coin_fit(
            em.Rows.of(votes), min_overlap=model.min_overlap, max_partners=model.max_partners, solve=solve(model)
        )

    return Twin(fit, _predict_em)


def _spectral(model: mh.OneCoinSpectral) -> Callable[..., skills.RankOne]:
    stop = {"max_iter": model.max_iter, "tol": model.tol}
    if model.method == "ratio":
        return lambda *given: skills.rank_one_ratio(*given[:4], components=given[4], **stop)
    return lambda *given: skills.rank_one_spectral(*given[:4], **stop)


def _gradient(model: mh.OneCoinGradient) -> Callable[..., skills.RankOne]:
    return lambda *given: skills.rank_one_gradient(*given[:4], max_iter=model.max_iter, tol=model.tol)


def _msr(model: mh.MMSR) -> Callable[..., skills.RankOne]:
    def solve(n, pairs, values, weights, _):
        degrees = [(pairs == worker).sum() for worker in range(n)]
        if model.trim is None:
            firm = [(pairs[weights >= 10] == worker).sum() for worker in range(n)]
            trim = [max(d // 2 - 1, 0) for d in firm]
        else:
            trim = [model.trim if isinstance(model.trim, int) else int(d * model.trim) for d in degrees]
        stop = {"max_iter": model.max_iter, "tol": model.tol}
        found = skills.rank_one_msr(n, pairs, values, weights, trim=trim, plain=False, **stop)
        found.history = []  # how far values moved: no objective
        return found

    return solve


def _fit_meta_learner(model: mh.SpectralMetaLearner, votes: mh.Annotations) -> Answer:
    return skills.meta_learner_fit(em.Rows.of(votes), **model.get_params())


def _fit_kos(model: mh.KOS, votes: mh.Annotations) -> Answer:
    return skills.kos_answer(em.Rows.of(votes), n_iter=model.max_iter, seed=model.seed)


def _fit_mace(model: mh.MACE, votes: mh.Annotations) -> Answer:
    rows, vb = em.Rows.of(votes), model.method == "vb"
    m, k = votes.n_workers, votes.n_classes
    found = competence.mace_fit(
        rows,
        np.full(m, 0.5),
        np.full((m, k), 1 / k),
        variational=vb,
        competence=model.competence_prior if vb else (model.smoothing, model.smoothing),
        strategy=model.strategy_prior if vb else model.smoothing,
        max_iter=model.max_iter,
        tol=model.tol,
    )
    spam = (1 - found.know)[:, None, None] * found.strategies[:, None, :]
    confusion = found.know[:, None, None] * np.eye(k) + spam
    prior = np.full(k, 1 / k)
    posterior = found.posterior
    if vb:
        posterior, _ = em.expect(rows, prior, np.maximum(confusion, em.FLOOR), np.full(votes.n_tasks, -1), hard=False)
    return Answer(posterior, confusion, prior, np.array(found.history))


def _fit_glad(model: mh.GLAD, votes: mh.Annotations) -> Answer:
    k, prior = votes.n_classes, np.full(votes.n_classes, 1 / votes.n_classes)
    start = (np.full(votes.n_workers, model.ability_mean), np.full(votes.n_tasks, model.ease_mean))
    found = competence.glad_fit(em.Rows.of(votes), prior, *start, max_iter=model.max_iter, tol=model.tol)
    right = found.accuracy if k > 1 else np.ones(votes.n_workers)
    off = (1 - right) / max(k - 1, 1)
    confusion = np.where(np.eye(k, dtype=bool), right[:, None, None], off[:, None, None])
    return Answer(found.posterior, confusion, prior, np.array(found.history))


def _predict_glad(model: mh.GLAD, rows: em.Rows, known: np.ndarray) -> np.ndarray:
    average = np.average(model.ability_, weights=labels_of(model))
    ability = np.array([model.ability_[m] if m >= 0 else average for m in known])
    return competence.glad_posterior(rows, model.prior_, ability, np.full(rows.n_tasks, model.ease_mean))


def _fit_minimax(model: mh.MinimaxEntropy, votes: mh.Annotations) -> Answer:
    k = votes.n_classes
    worker = k**2 / 4 if model.worker_penalty is None else model.worker_penalty
    task = worker * votes.n_tasks / votes.n_workers if model.task_penalty is None else model.task_penalty
    found = entropy.minimax_fit(
        em.Rows.of(votes),
        ordinal=model.ordinal,
        worker_penalty=worker,
        task_penalty=task,
        max_iter=model.max_iter,
        tol=model.tol,
    )
    return Answer(found.posterior, found.confusion, np.full(k, 1 / k), np.array(found.history))


def carried(model: Aggregator, per_worker: np.ndarray, known: np.ndarray) -> np.ndarray:
    """What was learnt of workers, with the average for those not seen before."""
    average = np.average(per_worker, axis=0, weights=labels_of(model))
    return np.array([per_worker[m] if m >= 0 else average for m in known])


def _predict_minimax(model: mh.MinimaxEntropy, rows: em.Rows, known: np.ndarray) -> np.ndarray:
    sigma, penalty = carried(model, model.sigma_, known), float(model._penalty[0])
    return entropy.minimax_posterior(rows, sigma, ordinal=model.ordinal, task_penalty=penalty)


def _fit_margin(model: mh.MaxMarginVote, votes: mh.Annotations) -> Answer:
    rows = em.Rows.of(votes)
    cost = model.margin * votes.n_workers / rows.weights.sum() if model.cost is None else model.cost
    found = margin.margin_fit(rows, **model.get_params() | {"cost": cost})
    scale = margin.log_odds_a_weight(rows, found.weights, found.answers, model.margin)
    posterior = margin.vote_softmax(rows, scale * found.weights)
    return Answer(posterior, voting.confusion(rows, posterior), posterior.mean(axis=0), np.array(found.history))


def _predict_margin(model: mh.MaxMarginVote, rows: em.Rows, known: np.ndarray) -> np.ndarray:
    return margin.vote_softmax(rows, model.scale_ * carried(model, model.weights_, known))


def _fit_crowd_svm(model: mh.CrowdSVM, votes: mh.Annotations) -> Answer:
    posterior, confusion, _ = margin.crowd_svm_fit(em.Rows.of(votes), **model.get_params())
    return Answer(posterior, confusion, np.full(votes.n_classes, 1 / votes.n_classes), np.zeros(0))


def _predict_crowd_svm(model: mh.CrowdSVM, rows: em.Rows, known: np.ndarray) -> np.ndarray:
    confusion, weights = (carried(model, part, known) for part in (model.confusion_, model.weights_))
    return margin.crowd_svm_posterior(rows, confusion, weights, cost=model.cost, margin=model.margin)


TWINS: dict[type[Aggregator], Twin] = {
    mh.MajorityVote: Twin(_fit_vote, lambda _model, rows, _known: voting.shares(rows)),
    mh.WeightedVote: Twin(_fit_weighted, _predict_weighted),
    mh.DawidSkene: Twin(_fit_em_answer, _predict_em),
    mh.Consensus: Twin(_fit_consensus, _predict_consensus),
    mh.BayesianDawidSkene: Twin(_fit_bayes_answer, _predict_bayes),
    mh.CommunityDawidSkene: Twin(_fit_community, _predict_em),
    mh.EBCC: Twin(_fit_ebcc, _predict_ebcc),
    mh.HierarchicalDawidSkene: Twin(_fit_hierarchy, _predict_em),
    mh.HierarchicalMACE: Twin(_fit_hierarchy, _predict_em),
    **{
        kind: Twin(_fit_plainly, _predict_em)
        for kind in (mh.MultiSPA, mh.CoupledNMF, mh.SymmetricNMF, mh.CoupledCPD, mh.SpectralDS)
    },
    mh.OneCoinSpectral: _one_coin_twin(_spectral),
    mh.OneCoinGradient: _one_coin_twin(_gradient),
    mh.MMSR: _one_coin_twin(_msr),
    mh.SpectralMetaLearner: Twin(_fit_meta_learner, _predict_em),
    mh.SparseOneCoin: Twin(_fit_sparse, _predict_em),
    mh.OnlineDawidSkene: Twin(_fit_online, _predict_em),
    mh.KOS: Twin(_fit_kos, _predict_em),
    mh.MACE: Twin(_fit_mace, _predict_em),
    mh.GLAD: Twin(_fit_glad, _predict_glad),
    mh.MinimaxEntropy: Twin(_fit_minimax, _predict_minimax),
    mh.MaxMarginVote: Twin(_fit_margin, _predict_margin),
    mh.CrowdSVM: Twin(_fit_crowd_svm, _predict_crowd_svm),
}


# ------------------------------------------------------------------------------------------------ comparisons

ARRAYS = ("posterior_", "confusion_", "prior_", "history_")
RESULTS = (
    *ARRAYS,
    "labels_",
    "tied_",
    "objective_",
    "n_iter_",
    "converged_",
    "tasks_",
    "workers_",
    "classes_",
)


def assert_close(got: np.ndarray, wanted: np.ndarray, tolerance: float, what: str) -> None:
    """Equal to an absolute tolerance, relative where numbers exceed one."""
    assert got.shape == wanted.shape, f"{what}: {got.shape} against {wanted.shape}"
    if got.size:
        off = np.abs(got - wanted) / np.maximum(np.abs(wanted), 1.0)
        assert off.max() <= tolerance, f"{what} differs by {off.max():.2e}"


def assert_same_bits(a: Aggregator, b: Aggregator) -> None:
    for name in RESULTS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def assert_matches_twin(model: Aggregator, votes: mh.Annotations) -> None:
    wanted = TWINS[type(model)].fit(model, votes)
    for name in ARRAYS:
        assert_close(getattr(model, name), getattr(wanted, name[:-1]), PARITY, name)


def never_falls(history: np.ndarray, heaviest: float = 1.0) -> bool:
    """Whether no step goes down by more than the rounding of a sum.

    Terms of an objective are as large as the logarithm of a weight's factorial, and may cancel: what is left has
    their rounding.
    """
    rounding = 4 * np.finfo(float).eps * heaviest * np.log(heaviest + 1.0)
    return bool(np.all(np.diff(history) >= -1e-9 * np.maximum(np.abs(history[:-1]), 1.0) - rounding))


def assert_sound(model: Aggregator, heaviest: float = 1.0) -> None:
    """Probabilities are probabilities, shapes fit, and the objective rises, as far as the heaviest weight allows."""
    n, m, k = len(model.tasks_), len(model.workers_), len(model.classes_)
    assert model.posterior_.shape == (n, k)
    assert model.confusion_.shape == (m, k, k)
    assert model.prior_.shape == (k,)
    assert len(model.labels_) == len(model.tied_) == n
    for rows in (model.posterior_, model.confusion_, model.prior_):
        assert np.isfinite(rows).all()
        assert (rows >= 0).all()
        np.testing.assert_allclose(rows.sum(axis=-1), 1.0, atol=SAME)
    assert np.isfinite(model.history_).all()
    assert never_falls(model.history_, heaviest), np.diff(model.history_).min()


# ----------------------------------------------------------------------------------------------------- checks

CHECKS: list[Callable[[Variant], None]] = []


def check(function: Callable[[Variant], None]) -> Callable[[Variant], None]:
    CHECKS.append(function)
    return function


@check
def check_clone(variant: Variant) -> None:
    from sklearn.base import clone

    model = variant.make(variant.standard).fit(variant.standard.votes())
    twin = clone(model)
    assert type(twin) is type(model)
    assert repr(twin) == repr(model)
    with pytest.raises(mh.NotFittedError):
        _ = twin.labels_
    assert_same_bits(twin.fit(variant.standard.votes()), model)


@check
def check_params_and_repr(variant: Variant) -> None:
    model = variant.make(variant.standard)
    params = model.get_params()
    other = type(model)().set_params(**params)
    assert other.get_params() == params
    if len(repr(model)) < 200 and "array" not in repr(model) and "..." not in repr(model):
        assert eval(repr(model), vars(mh) | {"inf": float("inf")}).get_params() == params
    with pytest.raises(ValueError, match="no_such_parameter"):
        model.set_params(no_such_parameter=1)


@check
def check_refit_forgets(variant: Variant) -> None:
    other = variant.fits(crowd(n_tasks=25, n_workers=8, n_classes=4, seed=5))
    model = variant.make(variant.standard)
    params = model.get_params()
    model.set_params(**variant.make(other).get_params()).fit(other.votes())
    model.set_params(**params).fit(variant.standard.votes())
    assert_same_bits(model, variant.make(variant.standard).fit(variant.standard.votes()))


@check
def check_seed_repeats(variant: Variant) -> None:
    a, b = (variant.make(variant.standard).fit(variant.standard.votes()) for _ in range(2))
    assert_same_bits(a, b)


@check
def check_input_unchanged(variant: Variant) -> None:
    votes = variant.standard.votes()
    model = variant.make(variant.standard)
    params, table = copy.deepcopy(model.get_params()), pickle.loads(pickle.dumps(votes))
    model.fit(votes)
    model.predict_proba(votes)
    assert votes == table
    after = model.get_params()
    assert params.keys() == after.keys()
    for name, value in params.items():
        np.testing.assert_equal(after[name], value, err_msg=name)


@check
def check_matches_twin(variant: Variant) -> None:
    if not variant.exact:
        pytest.skip("the twin takes another path")
    for log in (variant.standard, variant.standard.repeated(), variant.standard.weighted()):
        votes = log.votes()
        assert_matches_twin(variant.make(log).fit(votes), votes)


@check
def check_odd_tables(variant: Variant) -> None:
    for name, log in ODD.items():
        log = variant.fits(log)
        votes = log.votes()
        model = variant.make(log).fit(votes)
        try:
            assert_sound(model)
            if variant.exact and variant.determined:
                assert_matches_twin(model, votes)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


@check
def check_unused_class(variant: Variant) -> None:
    if variant.most_classes is not None:
        pytest.skip("takes no class more")
    log = replace(variant.standard, classes=(*variant.standard.classes, "unused"))
    votes = log.votes(classes=log.classes)
    model = variant.make(log).fit(votes)
    assert_sound(model)
    assert model.classes_.tolist() == list(log.classes)
    assert "unused" not in model.labels_.tolist()
    if variant.exact and variant.determined:
        assert_matches_twin(model, votes)


def permuted(log: Crowd, part: str, order: np.ndarray) -> Crowd:
    """The same log with names exchanged: the i-th task, say, now bears the name of the order[i]-th."""
    names = getattr(log, part)
    return replace(log, **{part: tuple(names[i] for i in order)})


def assert_permutes(variant: Variant, log: Crowd, part: str, order: np.ndarray, tolerance: float = SAME) -> None:
    """Renaming renames the answer. All names must occur in the log."""
    before = variant.make(log).fit(log.votes())
    moved = permuted(log, part, order)
    after = variant.make(moved).fit(moved.votes())
    by = {p: order if p == part else np.arange(len(getattr(log, p))) for p in ("tasks", "workers", "classes")}
    n, m, k = by["tasks"], by["workers"], by["classes"]
    assert_close(after.posterior_[np.ix_(n, k)], before.posterior_, tolerance, f"posterior, {part} renamed")
    assert_close(after.confusion_[np.ix_(m, k, k)], before.confusion_, tolerance, f"confusion, {part} renamed")
    assert_close(after.prior_[k], before.prior_, tolerance, f"prior, {part} renamed")
    assert_close(after.history_, before.history_, tolerance, f"history, {part} renamed")
    # Posteriors as close as rounding may or may not count as tied; all others have the same winner.
    ranked = np.sort(before.posterior_, axis=1)
    clear = ranked[:, -1] - ranked[:, :-1].max(axis=1, initial=0.0) > 1e-6
    assert not after.tied_[n][clear].any()
    name_of = dict(zip(log.classes, moved.classes, strict=True))
    renamed = np.array([name_of.get(label) for label in before.labels_.tolist()])
    np.testing.assert_array_equal(after.labels_[n][clear], renamed[clear])


@check
def check_renaming_renames_the_answer(variant: Variant) -> None:
    if not variant.equivariant:
        pytest.skip("draws at random follow the codes")
    rng = np.random.default_rng(0)
    for part in ("tasks", "workers", "classes"):
        # Five votes on two classes are never tied.
        log = crowd(n_classes=2) if part == "classes" and variant.ties_matter else variant.standard
        order = rng.permutation(len(getattr(log, part)))
        assert_permutes(variant, log, part, order[::-1] if part == "classes" else order)


@check
def check_repeats_count_twice(variant: Variant) -> None:
    if not variant.equivariant:
        pytest.skip("draws at random follow the rows")
    twice = variant.make(variant.standard).fit(variant.standard.repeated().votes())
    heavy = variant.make(variant.standard).fit(variant.standard.weighted().votes())
    once = variant.make(variant.standard).fit(variant.standard.votes())
    for name in ("posterior_", "confusion_", "prior_"):
        assert_close(getattr(twice, name), getattr(heavy, name), SAME, name)
    assert not np.allclose(twice.posterior_, once.posterior_)


@check
def check_any_frame(variant: Variant) -> None:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    columns = variant.standard.columns()
    model = variant.make(variant.standard).fit(variant.standard.votes())
    for frame in (columns, pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)):
        assert_same_bits(variant.make(variant.standard).fit(frame), model)
    categories = pd.DataFrame(columns).astype("category")
    assert_same_bits(variant.make(variant.standard).fit(categories), model)
    # The order of rows does not matter either.
    assert_same_bits(variant.make(variant.standard).fit(pd.DataFrame(columns).sample(frac=1, random_state=0)), model)
    with pytest.raises(TypeError, match="expected Annotations or a frame"):
        variant.make(variant.standard).fit([1, 2, 3])


@check
def check_before_fit(variant: Variant) -> None:
    model = variant.make(variant.standard)
    results = [name for name in dir(type(model)) if name.endswith("_") and not name.endswith("__")]
    assert set(RESULTS) <= set(results)
    for name in results:
        with pytest.raises(mh.NotFittedError, match="call fit"):
            getattr(model, name)
    for call in (model.to_frame, model.workers_frame, lambda: model.save("nowhere")):
        with pytest.raises(mh.NotFittedError, match=type(model).__name__):
            call()
    for call in (model.predict, model.predict_proba):
        with pytest.raises(mh.NotFittedError, match=type(model).__name__):
            call(variant.standard.votes())


@check
def check_frames(variant: Variant) -> None:
    votes = variant.standard.votes()
    model = variant.make(variant.standard).fit(votes)
    frame = model.to_frame()
    assert frame.column_names == ["task", "label", "confidence", "tied"]
    assert frame.column("task").to_pylist() == votes.tasks.tolist()
    assert frame.column("label").to_pylist() == model.labels_.tolist()
    np.testing.assert_allclose(frame.column("confidence").to_numpy(), model.posterior_.max(axis=1), rtol=1e-12)
    assert frame.column("tied").to_pylist() == model.tied_.tolist()
    workers = model.workers_frame()
    assert workers.column("worker").to_pylist() == votes.workers.tolist()
    assert workers.column("n_labels").to_pylist() == votes.labels_per_worker.tolist()
    right = np.einsum("k,mkk->m", model.prior_, model.confusion_)
    np.testing.assert_allclose(workers.column("accuracy").to_numpy(), right, atol=SAME)
    for name in ("information", "spammer_score"):
        values = workers.column(name).to_numpy()
        assert np.isfinite(values).all()
        assert (values >= -SAME).all()


@check
def check_fit_predict(variant: Variant) -> None:
    votes = variant.standard.votes()
    model = variant.make(variant.standard).fit(votes)
    np.testing.assert_array_equal(variant.make(variant.standard).fit_predict(votes), model.labels_)
    np.testing.assert_array_equal(variant.make(variant.standard).fit_predict_proba(votes), model.posterior_)


@check
def check_predict(variant: Variant) -> None:
    votes = variant.standard.votes()
    model = variant.make(variant.standard).fit(votes)
    if variant.predicts_itself:
        assert_close(model.predict_proba(votes), model.posterior_, SAME, "posterior of the same table")
        clear = ~model.tied_
        np.testing.assert_array_equal(model.predict(votes)[clear], model.labels_[clear])
        # New tasks need neither all workers nor all classes.
        some = votes.select(tasks=votes.tasks[5:8], workers=votes.workers[:7])
        few = mh.Annotations.from_frame(some.to_frame())
        expected = model.predict_proba(votes.select(workers=votes.workers[:7]))[5:8]
        assert_close(model.predict_proba(few), expected, SAME, "posterior of some tasks")
    before = model.posterior_.copy()
    model.predict_proba(variant.fits(crowd(n_tasks=9, seed=8)).votes())
    np.testing.assert_array_equal(model.posterior_, before)


@check
def check_unseen_worker_is_the_average_one(variant: Variant) -> None:
    model = variant.make(variant.standard).fit(variant.standard.votes())
    new = mh.Annotations.from_arrays(
        ["x", "x", "x", "y", "y", "z"],
        ["w00", "somebody", "w05", "somebody", "w01", "a stranger"],
        [model.classes_[i % len(model.classes_)] for i in range(6)],
    )
    names = model.workers_.tolist()
    known = np.array([names.index(w) if w in names else -1 for w in new.workers.tolist()])
    assert sorted(known)[:3] == [-1, -1, 0]
    wanted = TWINS[type(model)].predict_proba(model, em.Rows.of(new), known)
    assert_close(model.predict_proba(new), wanted, PARITY, "posterior")


@check
def check_unseen_class_is_an_error(variant: Variant) -> None:
    model = variant.make(variant.standard).fit(variant.standard.votes())
    new = mh.Annotations.from_arrays(["x", "y"], ["w00", "w01"], ["c1", "zebra"])
    with pytest.raises(ValueError, match=r"'zebra'.*classes seen in fit"):
        model.predict_proba(new)
    # A class that is only known by name does no harm.
    harmless = mh.Annotations.from_arrays(["x"], ["w00"], ["c1"], classes=["c1", "zebra"])
    assert model.predict_proba(harmless).shape == (1, len(model.classes_))


@check
def check_pickle(variant: Variant) -> None:
    votes = variant.standard.votes()
    model = variant.make(variant.standard).fit(votes)
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert_same_bits(copied, model)
        np.testing.assert_array_equal(copied.predict_proba(votes), model.predict_proba(votes))
        assert copied.to_frame().equals(model.to_frame())
        assert copied.workers_frame().equals(model.workers_frame())
    assert repr(pickle.loads(pickle.dumps(variant.make(variant.standard)))) == repr(variant.make(variant.standard))


@check
def check_threads_fit_one_table(variant: Variant) -> None:
    votes = variant.standard.votes()
    alone = variant.make(variant.standard).fit(votes)
    gate = threading.Barrier(4)

    def fit() -> Aggregator:
        gate.wait()
        return variant.make(variant.standard).fit(votes)

    with ThreadPoolExecutor(4) as pool:
        for together in [future.result() for future in [pool.submit(fit) for _ in range(4)]]:
            assert_same_bits(together, alone)


@check
def check_progress(variant: Variant) -> None:
    seen: list[tuple[int, float]] = []
    model = variant.make(variant.standard).fit(
        variant.standard.votes(), progress=lambda step, value: seen.append((step, value))
    )
    assert_same_bits(model, variant.make(variant.standard).fit(variant.standard.votes()))
    assert seen, "nothing was reported, not even the end"
    assert all(type(step) is int and type(value) is float for step, value in seen)
    assert seen[-1][0] == model.n_iter_
    most = model._iterations()
    assert most is None or max(step for step, _ in seen) <= most
    assert_same_bits(variant.make(variant.standard).fit(variant.standard.votes(), progress=True), model)


@check
def check_extreme_weights(variant: Variant) -> None:
    """Finite in, finite out: from the smallest to the largest weight that a table takes, and their mixtures."""
    log, least, most = variant.standard, LEAST_COUNT, MOST_COUNT
    n = len(log.rows)
    task, worker = log.rows[:, 0], log.rows[:, 1]
    weights = {
        "largest": np.full(n, most),
        "smallest": np.full(n, least),
        "spread": 10.0 ** np.random.default_rng(0).uniform(np.log10(least), np.log10(most), n),
        "all zero": np.zeros(n),
        "a single giant": np.where(np.arange(n) == 7, most, 1.0),
        "half of them tiny": np.where(np.arange(n) % 2 == 0, least, 1.0),
        "a task and a worker without": np.where((task == 0) | (worker == 1), 0.0, 1.0),
    }
    for name, column in weights.items():
        heavy = replace(log, weights=column)
        with warnings.catch_warnings():
            # What cannot be told from such weights may be said.
            warnings.simplefilter("ignore", mh.ConvergenceWarning)
            warnings.simplefilter("ignore", mh.IdentifiabilityWarning)
            votes = heavy.votes()
            model = variant.make(heavy).fit(votes)
        try:
            assert_sound(model, heaviest=column.max())
            predicted = model.predict_proba(votes)
            np.testing.assert_allclose(predicted.sum(axis=1), 1.0, atol=SAME)
            assert (predicted >= 0).all()
            for measure in ("accuracy", "information", "spammer_score"):
                assert np.isfinite(model.workers_frame().column(measure).to_numpy()).all()
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


@check
def check_weights_beyond_the_range_are_refused(variant: Variant) -> None:
    n = len(variant.standard.rows)
    spread = 10.0 ** np.random.default_rng(0).uniform(-320, 308, n)
    one_of_them = [np.where(np.arange(n) == 5, bad, 1.0) for bad in (1e308, 1e200, np.nan, np.inf, -1.0)]
    for weights in (*one_of_them, np.full(n, 1e308), np.full(n, 1e-320), spread):
        heavy = replace(variant.standard, weights=weights)
        with pytest.raises(ValueError, match=r"weights holds \S+ at row \d+; .*weight"):
            variant.make(heavy).fit(heavy.votes())
