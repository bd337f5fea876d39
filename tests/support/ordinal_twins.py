"""The plain twins of methods for ordered classes."""

from __future__ import annotations

from typing import Any

import numpy as np

import manyhands as mh
from oracles import bayes, em, ordinal
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


def fit_consensus(model: mh.ordinal.OrdinalConsensus, votes: mh.Annotations) -> Answer:
    given = {name: getattr(model, name) for name in ("gold", *_STOP)}
    crowds = [mh.ordinal.OrdinalCrowd(strength=strength, **given) for strength in (None, float("inf"))]
    found = [*(fit_crowd(crowd, votes) for crowd in crowds), fit_cumulative(model, votes)]
    means = (sum(getattr(one, name) for one in found) / 3 for name in ("posterior", "confusion", "prior"))
    return Answer(*means, np.zeros(0))


def predict_consensus(model: Any, rows: em.Rows, known: np.ndarray) -> np.ndarray:
    nobody, summed = np.full(rows.n_tasks, -1), predict_cumulative(model, rows, known)
    for matrices, prior in zip(model._fitted().fit.confusions, model._fitted().fit.priors, strict=True):
        summed = summed + em.expect(rows, prior, _carried(model, matrices, known), nobody, hard=False)[0]
    return summed / 3
