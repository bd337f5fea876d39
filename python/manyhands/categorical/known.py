"""Fusion of labels with known parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.estimator import Array
from manyhands.categorical._passes import posterior_under
from manyhands.categorical._priors import probabilities
from manyhands.categorical.table import Annotations, as_annotations


def posterior(votes: Any, prior: npt.ArrayLike, confusion: npt.ArrayLike | Mapping[Any, npt.ArrayLike]) -> Array:
    """Class posteriors under a known prior and known confusion matrices, without estimating anything.

    Use it as the oracle in simulations, or with workers whose error rates are known from elsewhere. The most probable
    class of each row is the maximum a posteriori label.

    Parameters
    ----------
    votes : Annotations or frame
        The annotations, or a frame with well-known column names.
    prior : array-like of shape (n_classes,) or (n_tasks, n_classes)
        Class probabilities, the same for all tasks or one row per task.
    confusion : array-like of shape (n_workers, n_classes, n_labels), or mapping
        Confusion matrices ``confusion[worker, true, observed]`` in the order of ``votes.workers`` and
        ``votes.classes``, or a mapping from worker to such a matrix. With abstentions, ``n_labels`` is ``n_classes``
        plus one column; otherwise they are equal.

    Returns
    -------
    ndarray of shape (n_tasks, n_classes)
        ``prior[k] · Π confusion[worker, k, label]`` over the labels of each task, normalized; the prior where a task
        has no label.

    Notes
    -----
    Time O(annotations · n_classes). Probabilities below 1e-30 count as 1e-30, so that labels that are impossible under
    the parameters leave a finite posterior. Weights of annotations are exponents.

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_arrays(["a", "a", "b"], ["u", "v", "v"], ["no", "yes", "yes"])
    >>> confusion = {"u": [[0.9, 0.1], [0.2, 0.8]], "v": [[0.6, 0.4], [0.4, 0.6]]}
    >>> mh.posterior(votes, [0.5, 0.5], confusion).round(2).tolist()
    [[0.75, 0.25], [0.4, 0.6]]
    """
    table = as_annotations(votes)
    if table.in_shards:
        table = table.in_memory()
    n, k, n_labels = table.n_tasks, table.n_classes, table.n_labels
    shape = (n, k) if np.ndim(prior) == 2 else (k,)
    matrices = _by_worker(table, confusion) if isinstance(confusion, Mapping) else confusion
    return posterior_under(
        table.table,
        probabilities(prior, shape, "prior"),
        probabilities(matrices, (table.n_workers, k, n_labels), "confusion"),
    )


def _by_worker(table: Annotations, confusion: Mapping[Any, npt.ArrayLike]) -> Array:
    """Return the matrices of a mapping in the order of the table."""
    shape = (table.n_classes, table.n_labels)
    names = table.workers.tolist()
    missing = [name for name in names if name not in confusion]
    if missing:
        raise ValueError(f"confusion has no matrix for worker {missing[0]!r}; give one for each worker of the votes")
    return np.stack([probabilities(confusion[name], shape, f"confusion of worker {name!r}") for name in names])
