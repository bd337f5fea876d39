"""Detection of workers, such as spammers, against those who are known to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import preview
from manyhands._base.names import Names, sequence


class Detection(NamedTuple):
    """How well flagged workers match known ones.

    ``sensitivity`` is the share of the known workers who are flagged, ``specificity`` the share of the others who are
    not, ``precision`` the share of the flagged who are known; each NaN where there is nothing to divide by.
    ``n_flagged`` and ``n_true`` count both groups, ``n_both`` workers who are in both, ``n_workers`` all.
    """

    sensitivity: float
    specificity: float
    precision: float
    n_flagged: int
    n_true: int
    n_both: int
    n_workers: int


def detection(finding: Any, truth: Any) -> Detection:
    """Sensitivity and specificity of an audit against workers known to be spammers, colluders or the like.

    Parameters
    ----------
    finding : Finding
        The result of an audit, such as ``mh.audit.spammers(votes)``.
    truth
        The workers who should be flagged: their names (any others should not be), a mask with one boolean per worker
        in the order of the table, or a mapping from worker to boolean, which may leave workers out who then do not
        count.

    Returns
    -------
    Detection
        ``sensitivity``, ``specificity``, ``precision`` and the counts behind them.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(2000, 20, 4, crowd="one-coin", labels_per_task=10, seed=1)
    >>> tasks, workers, labels = crowd.log.codes()
    >>> labels[workers < 3] = 2
    >>> votes = mh.Annotations.from_codes(tasks, workers, labels, n_tasks=2000, n_workers=20, n_classes=4)
    >>> found = mh.metrics.detection(mh.audit.spammers(votes), truth=[0, 1, 2])
    >>> found.sensitivity, found.specificity
    (1.0, 1.0)
    """
    if not hasattr(finding, "found") or not isinstance(getattr(finding, "names", None), Names):
        raise TypeError(f"finding must be the result of an audit, not {type(finding).__name__}")
    flagged = np.asarray(finding.found)
    true, counted = _masks(finding.names, truth)
    flagged, true = flagged[counted], true[counted]
    both = flagged & true
    return Detection(
        _share(both.sum(), true.sum()),
        _share((~flagged & ~true).sum(), (~true).sum()),
        _share(both.sum(), flagged.sum()),
        int(flagged.sum()),
        int(true.sum()),
        int(both.sum()),
        len(flagged),
    )


def _masks(names: Names, truth: Any) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return masks of the workers to flag, and of those who count."""
    if isinstance(truth, Mapping):
        place = _places(names, list(truth))
        values = list(truth.values())
        for name, value in truth.items():
            if not isinstance(value, bool | np.bool_):
                raise TypeError(f"truth of worker {name!r} must be True or False, not {value!r}")
        true, counted = np.zeros(len(names), np.bool_), np.zeros(len(names), np.bool_)
        true[place], counted[place] = values, True
        return true, counted
    if isinstance(truth, str | bytes):
        raise TypeError(f"truth must be several workers, a mask or a mapping, not the single name {truth!r}")
    everyone = np.ones(len(names), np.bool_)
    names_or_mask = list(truth)
    true = np.zeros(len(names), np.bool_)
    if names_or_mask and all(isinstance(value, bool | np.bool_) for value in names_or_mask):
        if len(names_or_mask) != len(names):
            raise ValueError(f"truth is a mask of {len(names_or_mask)} workers, but the finding is about {len(names)}")
        true[:] = names_or_mask
    else:
        true[_places(names, names_or_mask)] = True
    return true, everyone


def _places(names: Names, names_or_mask: list[Any]) -> npt.NDArray[np.int64]:
    if not names_or_mask:
        return np.zeros(0, np.int64)
    place = names.match(sequence(names_or_mask))
    if (place < 0).any():
        unknown = [name for name, at in zip(names_or_mask, place, strict=True) if at < 0]
        raise ValueError(f"truth names workers who are not in the table: {preview(unknown)}")
    return place


def _share(part: Any, whole: Any) -> float:
    return float(part / whole) if whole else float("nan")
