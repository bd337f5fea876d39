"""The meaningful settings of each aggregator; the check-list and the comparison with twins run on all of them.

A new method is a file in ``methods``, with its settings and its reference implementation. ``test_aggregators.py`` fails
for a class that has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import methods
import numpy as np
from twins import TWINS

import manyhands as mh
from manyhands.categorical.base import Aggregator
from manyhands.categorical.checks import ClassSubject
from manyhands.categorical.panels import Anchored
from manyhands.testing import Crowd, subject_of


@dataclass(frozen=True)
class Variant:
    """Settings of an aggregator; `make` may name the tasks, workers and classes of a crowd."""

    name: str
    make: Callable[[Crowd], Aggregator]
    #: Shipped checks that these settings rule out, each with the reason.
    skip: Mapping[str, str] = field(default_factory=dict)
    #: Whether the twin follows the same path, so that all results can be compared.
    exact: bool = True
    #: Whether any table, however small, determines the answer; else twins and renamed tables may settle elsewhere.
    determined: bool = True

    def __str__(self) -> str:
        return self.name

    @cached_property
    def subject(self) -> ClassSubject:
        return subject_of(self.make, skip=self.skip)

    @property
    def standard(self) -> Crowd:
        return self.subject.standard


def _drawn(variant: Variant) -> Variant:
    """The same for settings that draw at random, of which the twin knows nothing."""
    names = ("tasks", "workers", "classes", "classes_untied")
    skip = dict.fromkeys([*(f"renaming_{name}" for name in names), "repeats_count_twice"], "draws follow the codes")
    return replace(variant, skip={**variant.skip, **skip}, exact=False)


def variant_of(cls: type[Aggregator], name: str, params: dict[str, Any], **facts: Any) -> Variant:
    """A variant whose parameters may be functions of the crowd."""

    def make(crowd: Crowd) -> Aggregator:
        return cls(**{key: value(crowd) if callable(value) else value for key, value in params.items()})

    skip = {"predict_repeats_fit": "prediction knows no gold labels"} if "gold" in params else {}
    if "gold" in params and issubclass(cls, Anchored):
        skip["renaming_tasks"] = "folds of known tasks follow the order of their names"
    return Variant(f"{cls.__name__} {name}", make, skip, **facts)


def _vote(name: str, **params: Any) -> Variant:
    return variant_of(mh.MajorityVote, name, params)


def _weighted(name: str, weights: Any, **params: Any) -> Variant:
    made = variant_of(mh.categorical.WeightedVote, name, {"weights": weights, **params})
    if not isinstance(weights, str):
        return made
    return replace(made, skip={"renaming_classes": "ties go to the lowest class, and reach the weights"})


def _em(name: str, **params: Any) -> Variant:
    # A fixed number of passes unless told otherwise: no convergence warnings on odd tables.
    return variant_of(mh.DawidSkene, name, {"max_iter": 12, "tol": 0.0} | params)


def _moments(kind: type[Aggregator], name: str, **params: Any) -> Variant:
    return variant_of(kind, name, params, determined=False)


def _skills(cls: type[Aggregator], name: str, **params: Any) -> Variant:
    # A fixed number of iterations, as in `_em`.
    return variant_of(cls, name, {"max_iter": 8, "tol": 0.0} | params)


def _bayes(cls: type[Aggregator], name: str, **params: Any) -> Variant:
    # A fixed number of passes, as in `_em`.
    return variant_of(cls, name, {"max_iter": 12, "tol": 0.0, "protected": 5} | params)


def _gibbs(name: str, **params: Any) -> Variant:
    # Draws have no twin; that they are the right ones is what test_gibbs.py is about. No verdict on so few of them.
    params = {"method": "gibbs", "n_chains": 2, "warmup": 4, "draws": 12, "max_iter": 200} | params
    made = _drawn(_bayes(mh.BayesianDawidSkene, name, **params))
    return replace(made, skip={**made.skip, "predict_repeats_fit": "posteriors are averages of draws"})


def _two_groups(crowd: Crowd) -> list[list[Any]]:
    """The first three workers, and the two after them."""
    return [list(crowd.workers[:3]), list(crowd.workers[3:5])]


def _mixed(cls: type[Aggregator], name: str, **params: Any) -> Variant:
    # A fixed number of passes, as in `_em`.
    return variant_of(cls, name, {"max_iter": 12, "tol": 0.0} | params)


def _mace(name: str, **params: Any) -> Variant:
    # A fixed number of passes, as in `_em`.
    return variant_of(mh.categorical.MACE, name, {"max_iter": 12, "tol": 0.0} | params)


def _glad(name: str, **params: Any) -> Variant:
    return variant_of(mh.categorical.GLAD, name, {"max_iter": 8, "tol": 0.0} | params)


def _sparse(name: str, **params: Any) -> Variant:
    # A fixed number of passes, as in `_em`.
    return variant_of(mh.categorical.SparseOneCoin, name, {"max_iter": 12, "tol": 0.0} | params)


def _online(name: str, **params: Any) -> Variant:
    made = variant_of(mh.categorical.OnlineDawidSkene, name, params)
    return replace(made, skip={"renaming_tasks": "batches follow the order of tasks"}) if params else made


def _minimax(name: str, **params: Any) -> Variant:
    made = variant_of(mh.categorical.MinimaxEntropy, name, {"max_iter": 6, "tol": 0.0} | params)
    ordered = dict.fromkeys(("renaming_classes", "renaming_classes_untied"), "classes have an order")
    return replace(made, skip=ordered) if params.get("ordinal") else made


def _margin(name: str, **params: Any) -> Variant:
    return variant_of(mh.categorical.MaxMarginVote, name, {"max_iter": 4, "tol": 0.0} | params)


def _crowd_svm(name: str, **params: Any) -> Variant:
    return variant_of(mh.categorical.CrowdSVM, name, {"draws": 6, "burn_in": 2} | params)


def _loosely(variant: Variant) -> Variant:
    """The same for settings whose twin takes another path."""
    return replace(variant, exact=False)


def _by_turns(crowd: Crowd) -> dict[Any, float]:
    return {worker: 1.0 + i % 3 for i, worker in enumerate(crowd.workers)}


def _first_is_gold(crowd: Crowd) -> dict[Any, Any]:
    return {crowd.tasks[0]: crowd.classes[0]}


def _third_is_gold(crowd: Crowd) -> dict[Any, Any]:
    return {task: crowd.classes[i % min(2, len(crowd.classes))] for i, task in enumerate(crowd.tasks) if i % 3 == 0}


def _first_is_trusted(crowd: Crowd) -> dict[Any, np.ndarray]:
    return {crowd.workers[0]: 5.0 * np.eye(len(crowd.classes)) + 0.5}


VARIANTS: dict[type[Aggregator], list[Variant]] = {
    mh.MajorityVote: [
        _vote("lowest"),
        _vote("random", ties="random", seed=3),
        _vote("abstain", ties="abstain"),
    ],
    mh.categorical.WeightedVote: [
        _weighted("agreement", "agreement"),
        _weighted("zero-based", "zero-based", n_iter=7, decay_every=3),
        _weighted("given", _by_turns),
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
        replace(_loosely(_em("accelerated", accelerate=True)), determined=False),
        replace(_loosely(_em("accelerated one-coin", accelerate=True, model="one-coin")), determined=False),
        _drawn(_em("restarts", restarts=3)),
        replace(_loosely(_em("from moments", init="multispa")), determined=False),
        _drawn(_em("from a spectral start", init="spectral")),
    ],
    mh.BayesianDawidSkene: [
        _bayes(mh.BayesianDawidSkene, "default", max_iter=2000, tol=1e-6, protected=20),
        _bayes(mh.BayesianDawidSkene, "majority", init="majority", pseudo_count=1.0, class_pseudo_count=3.0),
        _bayes(mh.BayesianDawidSkene, "class", model="class", init="shares"),
        _bayes(mh.BayesianDawidSkene, "one-coin", model="one-coin"),
        _bayes(mh.BayesianDawidSkene, "gold", gold=_first_is_gold),
        # Whether a leap is taken may hang on rounding.
        replace(_loosely(_bayes(mh.BayesianDawidSkene, "accelerated", accelerate=True)), determined=False),
        _gibbs("gibbs"),
        _gibbs("gibbs class", model="class", init="shares", keep="confusion", seed=3),
        _gibbs("gibbs one-coin and gold", model="one-coin", gold=_first_is_gold),
    ],
    mh.categorical.CommunityDawidSkene: [
        # Gamma functions of a large strength cancel, and passes magnify the rounding where a table leaves it open.
        replace(_mixed(mh.categorical.CommunityDawidSkene, "default", max_iter=2000, tol=1e-5), determined=False),
        replace(_mixed(mh.categorical.CommunityDawidSkene, "short"), determined=False),
        _mixed(mh.categorical.CommunityDawidSkene, "clusters", n_communities=2, strength=float("inf"), protected=3),
        _mixed(
            mh.categorical.CommunityDawidSkene, "strength and gold", n_communities=2, strength=5.0, gold=_first_is_gold
        ),
        _drawn(_mixed(mh.categorical.CommunityDawidSkene, "restarts", restarts=2)),
    ],
    mh.categorical.GroupDawidSkene: [
        variant_of(mh.categorical.GroupDawidSkene, "given", {"groups": _two_groups, "max_iter": 12, "tol": 0.0}),
        # Where nobody agrees, all classes are alike at the start: rounding breaks the balance.
        variant_of(
            mh.categorical.GroupDawidSkene,
            "found",
            {"pseudo_count": (2.0, 1.0), "max_iter": 12, "tol": 0.0},
            determined=False,
        ),
    ],
    mh.categorical.GroupVote: [
        variant_of(mh.categorical.GroupVote, "given", {"groups": _two_groups}),
        variant_of(mh.categorical.GroupVote, "found", {}),
    ],
    mh.categorical.EBCC: [
        _mixed(mh.categorical.EBCC, "short", restarts=0),
        _mixed(
            mh.categorical.EBCC,
            "priors",
            restarts=0,
            n_subtypes=3,
            pseudo_count=(2.0, 1.0),
            class_pseudo_count=2.0,
            seed=4,
        ),
        _drawn(_mixed(mh.categorical.EBCC, "restarts", n_subtypes=2, restarts=2)),
    ],
    mh.categorical.HierarchicalDawidSkene: [
        _bayes(mh.categorical.HierarchicalDawidSkene, "default", max_iter=5, tol=1e-6, protected=20),
        _bayes(mh.categorical.HierarchicalDawidSkene, "few passes"),
        _bayes(mh.categorical.HierarchicalDawidSkene, "gold", gold=_first_is_gold),
    ],
    mh.categorical.HierarchicalMACE: [
        _bayes(mh.categorical.HierarchicalMACE, "default", max_iter=5, tol=1e-6, protected=20),
        _bayes(mh.categorical.HierarchicalMACE, "mace", strength=float("inf")),
        _bayes(mh.categorical.HierarchicalMACE, "strength and gold", strength=5.0, gold=_first_is_gold),
    ],
    mh.ordinal.OrdinalCrowd: [
        _bayes(mh.ordinal.OrdinalCrowd, "default", max_iter=5, tol=1e-6, protected=20),
        _bayes(mh.ordinal.OrdinalCrowd, "nothing but order", strength=float("inf"), decision="mean", max_iter=6),
        _bayes(
            mh.ordinal.OrdinalCrowd, "strength and gold", strength=5.0, gold=_first_is_gold, decision="mode", max_iter=6
        ),
    ],
    mh.ordinal.CumulativeDawidSkene: [
        _bayes(mh.ordinal.CumulativeDawidSkene, "default", max_iter=5, tol=1e-6, protected=20),
        _bayes(mh.ordinal.CumulativeDawidSkene, "gold", gold=_first_is_gold, decision="mean"),
    ],
    mh.ordinal.OrdinalConsensus: [
        variant_of(mh.ordinal.OrdinalConsensus, "default", {}),
        variant_of(mh.ordinal.OrdinalConsensus, "gold", {"gold": _third_is_gold, "protected": 4, "decision": "mode"}),
        variant_of(mh.ordinal.OrdinalConsensus, "panel", {"panel": True, "protected": 3}),
    ],
    mh.categorical.SpammerEliminatingDawidSkene: [
        variant_of(mh.categorical.SpammerEliminatingDawidSkene, "default", {}),
        variant_of(
            mh.categorical.SpammerEliminatingDawidSkene, "few passes", {"max_iter": 4, "tol": 0.0, "pseudo_count": 1.0}
        ),
    ],
    mh.Consensus: [
        variant_of(mh.Consensus, "default", {}),
        variant_of(mh.Consensus, "given", {"correlation": 0.1, "protected": 3, "max_iter": 8, "tol": 0.0}),
        variant_of(mh.Consensus, "panel", {"panel": True, "protected": 3}),
        variant_of(mh.Consensus, "gold", {"gold": _third_is_gold}),
    ],
    mh.moments.MultiSPA: [
        _moments(mh.moments.MultiSPA, "default"),
        _moments(mh.moments.MultiSPA, "alone", refine=0, shrink=0.5, min_overlap=2.0),
    ],
    mh.moments.CoupledNMF: [
        _moments(mh.moments.CoupledNMF, "default", max_iter=30, tol=0.0),
        _moments(mh.moments.CoupledNMF, "even", weights="even", max_iter=10, tol=0.0),
    ],
    mh.moments.SymmetricNMF: [_moments(mh.moments.SymmetricNMF, "default", impute=10, max_iter=20)],
    mh.moments.CoupledCPD: [
        _moments(mh.moments.CoupledCPD, "default", max_iter=5, tol=0.0),
        _moments(mh.moments.CoupledCPD, "triples alone", first=False, second=False, max_iter=5, tol=0.0),
    ],
    mh.moments.SpectralDS: [
        _moments(mh.moments.SpectralDS, "default"),
        _moments(mh.moments.SpectralDS, "alone", em_passes=0, groupings=1),
    ],
    mh.moments.OneCoinSpectral: [
        _skills(mh.moments.OneCoinSpectral, "eigenvector"),
        _skills(mh.moments.OneCoinSpectral, "ratio", method="ratio"),
        _skills(mh.moments.OneCoinSpectral, "few pairs", min_overlap=12),
    ],
    mh.moments.OneCoinGradient: [_skills(mh.moments.OneCoinGradient, "default")],
    mh.moments.MMSR: [
        _skills(mh.moments.MMSR, "half"),
        _skills(mh.moments.MMSR, "one", trim=1),
        _skills(mh.moments.MMSR, "share", trim=0.2),
        _skills(mh.moments.MMSR, "medians", method="medians"),
    ],
    mh.moments.SpectralMetaLearner: [
        _skills(mh.moments.SpectralMetaLearner, "default"),
        _skills(mh.moments.SpectralMetaLearner, "few triples", max_triples=5, min_overlap=3),
    ],
    mh.categorical.SparseOneCoin: [
        _sparse("default", max_iter=2000, tol=1e-6),
        _sparse("shares", init="shares", pseudo_count=(2.0, 1.0), class_pseudo_count=1.0),
        _sparse("maximum likelihood", pseudo_count=(0.0, 0.0)),
    ],
    mh.categorical.OnlineDawidSkene: [
        _online("one batch"),
        _online("small batches", batch_size=7, kappa=0.6, recent=5),
        _online("forgetful", batch_size=11, kappa=1.0, forget=0.2, rounds=2),
    ],
    mh.categorical.MACE: [
        _mace("default", max_iter=2000, tol=1e-6),
        _mace("short"),
        _mace("em", method="em"),
        _mace("maximum likelihood", method="em", smoothing=0.0),
        _drawn(_mace("restarts", restarts=3)),
    ],
    mh.categorical.GLAD: [_glad("short"), _glad("hard tasks", ability_mean=0.5, ease_mean=-1.0)],
    # Ordered classes can be reversed, and not put in any other order.
    mh.categorical.MinimaxEntropy: [_minimax("short"), _minimax("ordinal", ordinal=True, task_penalty=2.0)],
    mh.categorical.MaxMarginVote: [_margin("short"), _margin("dear", cost=1.0, margin=3.0)],
    mh.categorical.CrowdSVM: [_crowd_svm("short"), _crowd_svm("dear", cost=1.0, margin=3.0, variance=0.5, seed=5)],
}

for _found in iter_modules(methods.__path__, "methods."):
    _method = import_module(_found.name)
    TWINS.update(_method.TWINS)
    VARIANTS.update(_method.VARIANTS)
