"""Groups of workers as the twins see them: who is in which, and what that makes of new tasks."""

from __future__ import annotations

import numpy as np

import manyhands as mh
from oracles import audit_groups, em


def group_codes(model: mh.categorical.GroupDawidSkene | mh.categorical.GroupVote, votes: mh.Annotations) -> np.ndarray:
    """Groups that are given; on the crowds of the check-list none are found."""
    codes, names = np.arange(votes.n_workers), votes.workers.tolist()
    for group in model.groups or []:
        members = [names.index(name) for name in group]
        codes[members] = codes[members[:1]]
    return np.unique(codes, return_inverse=True)[1]


def a_vote_a_group(votes: mh.Annotations, codes: np.ndarray) -> mh.Annotations:
    """The same answers, each divided by how many of its group answered the task."""
    tasks, workers, labels = votes.codes()
    weights = np.ones(len(tasks)) if votes.weights is None else votes.weights.copy()
    for i in range(len(tasks)):
        weights[i] /= len(set(workers[(tasks == tasks[i]) & (codes[workers] == codes[workers[i]])]))
    sizes = {"n_tasks": votes.n_tasks, "n_workers": votes.n_workers, "n_classes": votes.n_classes}
    return mh.Annotations.from_codes(tasks, workers, labels, weights=weights, **sizes)


def strangers_apart(model: mh.categorical.GroupDawidSkene | mh.categorical.GroupVote, known: np.ndarray) -> np.ndarray:
    """Groups of the workers of a table, and a group of one for each who was not seen."""
    codes = model._fitted().fit.codes.astype(int)
    return np.array([codes[m] if m >= 0 else len(codes) + i for i, m in enumerate(known)])


def predict_grouped(
    model: mh.categorical.GroupDawidSkene, rows: em.Rows, known: np.ndarray, whole: np.ndarray
) -> np.ndarray:
    """Posteriors, given matrices of the workers over both layers."""
    used, codes = np.unique(strangers_apart(model, known), return_inverse=True)
    # Written with both layers where two of a group are there, and with one matrix where one is.
    several = np.bincount(codes)[codes] > 1
    members = np.where(several[:, None, None], model.members_[known], whole)
    groups = model.group_confusion_
    answers = np.array([groups[g] if g < len(groups) else np.eye(rows.n_classes) for g in used])
    return audit_groups.posterior(rows, codes, members, answers, model.prior_)


def predict_group_vote(model: mh.categorical.GroupVote, rows: em.Rows, known: np.ndarray) -> np.ndarray:
    return audit_groups.group_shares(rows, strangers_apart(model, known))
