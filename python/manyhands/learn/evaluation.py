"""Evaluation without truth: learners trained without some subjects, or without an annotator."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_number, preview
from manyhands._base.estimator import Array
from manyhands._base.names import Column
from manyhands._train.batch import as_votes, rows_of
from manyhands._train.features import as_features
from manyhands.agreement import cohen_kappa
from manyhands.categorical.table import Annotations
from manyhands.learn.learner import Learner

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["leave_annotators_out", "leave_subjects_out"]


def leave_subjects_out(
    learner: Learner, X: Any, votes: Any, subjects: Any, *, only: Any = None, tasks: Any = None
) -> Array:
    """Predict the samples of each subject by a learner trained on all other subjects.

    Use it where samples of one person, patient or document are alike: random folds would measure
    memorization. Compare the result with truth, or with the annotators by :func:`manyhands.agreement.agreement_ratio`.

    Parameters
    ----------
    learner : Learner
        The learner; copies of it are trained, one per subject.
    X : array
        One row per sample; an array or tensor that can be indexed by rows.
    votes : Annotations, frame or array
        The annotations, as for ``fit``.
    subjects : sequence of shape (n_samples,)
        Subject of each row of X.
    only : list, optional
        Subjects to predict; by default all of them.
    tasks : list of ids, optional
        Task id of each row of X. By default, task ids are row numbers.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        Class probabilities of the samples, NaN for those of subjects that are not in `only`.

    Notes
    -----
    Trains one network per subject.

    Examples
    --------
    >>> import torch, manyhands as mh
    >>> X, truth = mh.categorical.synthetic.gaussians(90, 3)
    >>> votes = mh.simulate(truth=truth, n_workers=5, n_classes=3, labels_per_task=2).log
    >>> learner = mh.learn.SoftTarget(torch.nn.Linear(10, 3), max_epochs=2)
    >>> mh.learn.leave_subjects_out(learner, X, votes, subjects=[row // 30 for row in range(90)]).shape
    (90, 3)
    """
    table, n = as_votes(votes), len(as_features(X))
    rows = rows_of(table, n, tasks)
    column = Column(subjects, "subjects")
    if len(column) != n:
        raise ValueError(f"subjects has {len(column)} entries, but X has {n} rows")
    absent = column.missing()
    if absent is not None:
        raise ValueError(f"subjects has no subject in row {int(np.argmax(absent))}")
    codes, names = column.encode()
    if len(names) < 2:
        raise ValueError("subjects are all the same: no other subject is left to train on")
    places_used = range(len(names))
    if only is not None:
        subject_list = list(only)
        places = names.find(subject_list)
        if (places < 0).any():
            unknown = [name for name, place in zip(subject_list, places, strict=True) if place < 0]
            raise ValueError(f"only names unknown subjects: {preview(unknown)}")
        places_used = places.tolist()
    out = np.full((n, table.n_classes), np.nan)
    for code in places_used:
        is_held_out = codes == code
        # Rows of X keep their numbers: only the votes on the held-out samples are left out.
        rest = table.select(tasks=table.tasks[~is_held_out[rows]])
        trained = _copy(learner).fit(X, rest, tasks=tasks)
        out[is_held_out] = trained.predict_proba(X)[is_held_out]
    return out


def leave_annotators_out(
    learner: Learner, X: Any, votes: Any, *, only: Any = None, min_overlap: int = 10, tasks: Any = None
) -> pa.Table:
    """Compare a learner's agreement with annotators it has not seen with that of the other annotators.

    For each annotator, the learner is trained on the labels of all others. Its predictions agree with the unseen
    annotator as well as another annotator does if both columns are equal.

    Parameters
    ----------
    learner : Learner
        The learner; copies of it are trained, one per annotator.
    X, votes, tasks
        As for ``fit``.
    only : list, optional
        Annotators to leave out; by default all with at least `min_overlap` labels.
    min_overlap : int, default 10
        Leave pairs of annotators with fewer common tasks out of the means.

    Returns
    -------
    pyarrow.Table
        One row per annotator: ``worker``, ``n_answers``, ``model`` (Cohen's kappa of the learner with the annotator),
        ``others`` (mean kappa of the other annotators with the annotator) and ``n_others``; NaN where undefined.

    Notes
    -----
    Trains one network per annotator.

    References
    ----------
    A. Kleinsmith, N. Bianchi-Berthouze and A. Steed, "Automatic recognition of non-acted affective postures", IEEE
    Transactions on Systems, Man, and Cybernetics B 41 (2011).

    Examples
    --------
    >>> import torch, manyhands as mh
    >>> X, truth = mh.categorical.synthetic.gaussians(90, 3)
    >>> votes = mh.simulate(truth=truth, n_workers=5, n_classes=3, labels_per_task=3).log
    >>> learner = mh.learn.SoftTarget(torch.nn.Linear(10, 3), max_epochs=2)
    >>> mh.learn.leave_annotators_out(learner, X, votes, only=[0]).column_names
    ['worker', 'n_answers', 'model', 'others', 'n_others']
    """
    import pyarrow as pa

    check_number("min_overlap", min_overlap, least=2, whole=True)
    table, n = as_votes(votes), len(as_features(X))
    if table.n_workers < 3:
        raise ValueError(f"votes have {table.n_workers} annotators; comparing one with others needs at least 3")
    if only is None:
        places_used = np.flatnonzero(table.labels_per_worker >= min_overlap).tolist()
    else:
        annotators = list(only)
        places = table._workers.find(annotators)
        if (places < 0).any():
            unknown = [name for name, place in zip(annotators, places, strict=True) if place < 0]
            raise ValueError(f"only names unknown annotators: {preview(unknown)}")
        places_used = places.tolist()
    names = table.workers
    columns: dict[str, list[Any]] = {"worker": [], "n_answers": [], "model": [], "others": [], "n_others": []}
    for code in places_used:
        name = names[code : code + 1].tolist()[0]
        own = table.select(workers=[name])
        rest = table.select(workers=[other for other in names.tolist() if other != name])
        predicted = _copy(learner).fit(X, rest, tasks=tasks).predict(X)
        kappas = np.array([_kappa(table, name, other, min_overlap) for other in names.tolist() if other != name])
        defined = kappas[~np.isnan(kappas)]
        columns["worker"].append(name)
        columns["n_answers"].append(int(table.labels_per_worker[code]))
        columns["model"].append(_agreement(own, predicted[rows_of(own, n, tasks)]))
        columns["others"].append(float(defined.mean()) if len(defined) else float("nan"))
        columns["n_others"].append(len(defined))
    return pa.table(columns)


def _copy(learner: Learner) -> Learner:
    if not isinstance(learner, Learner):
        raise TypeError(f"learner must be a learner of mh.learn, not {type(learner).__name__}")
    fresh: Learner = copy.copy(learner)
    return fresh


def _kappa(table: Annotations, one: Any, other: Any, min_overlap: int) -> float:
    kappa = cohen_kappa(table, (one, other))
    return kappa.value if kappa.n_tasks >= min_overlap else float("nan")


def _agreement(own: Annotations, predicted: npt.NDArray[Any]) -> float:
    """Cohen's kappa of an annotator with a prediction for each of the annotator's tasks."""
    both = Annotations.from_arrays(
        np.concatenate([own.tasks[own.codes()[0]], own.tasks]),
        np.repeat([0, 1], [len(own), own.n_tasks]),
        np.concatenate([own.labels[own.codes()[2]], predicted]),
        classes=own.classes.tolist(),
    )
    return cohen_kappa(both, (0, 1)).value
