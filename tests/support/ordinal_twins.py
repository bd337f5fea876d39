"""The plain twins of methods for ordered classes."""

from __future__ import annotations

from typing import Any

import numpy as np

import manyhands as mh
from oracles import bayes, em, gold, ordinal
from oracles.skills import Answer

_STOP = ("protected", "max_iter", "tol")


def _gold(model: Any, votes: mh.Annotations) -> np.ndarray:
    known, classes = model.gold or {}, votes.classes.tolist()
    return np.array([classes.index(known[task]) if task in known else -1 for task in votes.tasks.tolist()])


def _carried(model: Any, per_worker: np.ndarray, known: np.ndarray) -> np.ndarray:
    average = np.average(per_worker, axis=0, weights=model._n_labels)
    return np.array([per_worker[m] if m >= 0 else average for m in known])


def fit_crowd(model: mh.ordinal.OrdinalCrowd, votes: mh.Annotations) -> Answer:
    found = bayes.fit_hierarchy(
        em.Rows.of(votes),
        prior=ordinal.Ordered(votes.n_workers, votes.n_classes, model.strength),
        class_pseudo=np.full(votes.n_classes, model.class_pseudo_count / votes.n_classes),
        gold=_gold(model, votes),
        **{name: getattr(model, name) for name in _STOP},
    )
    return Answer(*found, np.zeros(0))


def fit_cumulative(model: Any, votes: mh.Annotations) -> Answer:
    stop = {name: getattr(model, name) for name in _STOP}
    return Answer(*ordinal.cumulative(em.Rows.of(votes), _gold(model, votes), **stop), np.zeros(0))


def predict_cumulative(model: Any, rows: em.Rows, known: np.ndarray) -> np.ndarray:
    above, nobody = np.ones((rows.n_tasks, len(model._fitted().fit.above) + 1)), np.full(rows.n_tasks, -1)
    for place, (rates, shares) in enumerate(zip(model._fitted().fit.rates, model._fitted().fit.above, strict=True)):
        question = ordinal.asked(rows, place)
        above[:, place + 1] = em.expect(question, shares, _carried(model, rates, known), nobody, hard=False)[0][:, 1]
    return ordinal.differences(above)


def ratio_of(votes: mh.Annotations, confusion: np.ndarray, prior: np.ndarray) -> float:
    """The ratio of a two-sided geometric distribution with the mean distance of the workers' grades."""
    rows, k = em.Rows.of(votes), votes.n_classes
    answers = np.bincount(rows.workers, rows.weights, votes.n_workers)
    off = [[sum(prior[a] * matrix[a, b] * abs(a - b) for a in range(k) for b in range(k))] for matrix in confusion]
    e = np.average(np.array(off)[:, 0], weights=answers)
    return float(np.clip((np.sqrt(1 + e * e) - 1) / e if e else 0.0, 0.01, 0.9))


def equal_grades(rows: em.Rows, ratio: float, k: int) -> np.ndarray:
    """Posteriors where all workers err equally, far mistakes less, and all classes are equally frequent."""
    table = np.array([[ratio ** abs(a - b) for b in range(k)] for a in range(k)])
    logs = np.zeros((rows.n_tasks, k))
    np.add.at(logs, rows.tasks, rows.weights[:, None] * np.log(table / table.sum(axis=1, keepdims=True)).T[rows.labels])
    odds = np.exp(logs - logs.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def fit_consensus(model: mh.ordinal.OrdinalConsensus, votes: mh.Annotations) -> Answer:
    rows, known = em.Rows.of(votes), _gold(model, votes)
    stop = {name: getattr(model, name) for name in _STOP}
    crowds = [mh.ordinal.OrdinalCrowd(strength=strength, **stop) for strength in (None, float("inf"))]
    nobody = mh.ordinal.CumulativeDawidSkene(**stop)
    parts = [*(fit_crowd(crowd, votes) for crowd in crowds), fit_cumulative(nobody, votes)]
    average, confusion, prior = (
        sum(getattr(one, name) for one in parts) / 3 for name in ("posterior", "confusion", "prior")
    )
    weight, _ = bayes.vote_weight(rows, confusion, prior)
    average = (1 - weight) * average + weight * equal_grades(rows, ratio_of(votes, confusion, prior), votes.n_classes)
    crowd, pseudo = bayes.Crowd(votes.n_workers, votes.n_classes), np.full(votes.n_classes, 1.0 / votes.n_classes)
    plain = bayes.fit_hierarchy(rows, prior=crowd, class_pseudo=pseudo, gold=np.full(votes.n_tasks, -1), **stop)
    discount, panel = bayes.settled_discount(rows, Answer(*plain, np.zeros(0)), crowd.alpha, model.panel)
    effective = bayes.effective_votes(rows, bayes.information(confusion))
    posterior = bayes.calibrated(average, effective, discount if panel else discount / 2, 0.01)
    if len(np.unique(known[known >= 0])) > 1:
        posterior = gold.correct(rows, votes.n_workers, posterior, known, prior, min(1.0, 2 * discount))
    return Answer(em.clamp(posterior, known), confusion, prior, np.zeros(0))


def predict_consensus(model: Any, rows: em.Rows, known: np.ndarray) -> np.ndarray:
    fit, nobody, summed = model._fitted().fit, np.full(rows.n_tasks, -1), predict_cumulative(model, rows, known)
    for matrices, prior in zip(fit.confusions, fit.priors, strict=True):
        summed = summed + em.expect(rows, prior, _carried(model, matrices, known), nobody, hard=False)[0]
    equal = equal_grades(rows, fit.vote.ratio, summed.shape[1])
    average = (1 - fit.vote.weight) * summed / 3 + fit.vote.weight * equal
    informs = _carried(model, bayes.information(model.confusion_), known)
    default = bayes.calibrated(average, bayes.effective_votes(rows, informs), model.discount_, 0.01)
    return default if fit.anchor is None else gold.under(fit.anchor, rows, default, known, model._n_labels)
