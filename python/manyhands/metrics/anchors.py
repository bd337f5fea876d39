"""Anchor points: samples whose class is certain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_between
from manyhands.metrics._checks import Floats, as_probabilities


class AnchorPoints(NamedTuple):
    """The most certain sample of each class.

    ``probability`` is the largest probability that any sample has of each class, (n_classes,), ``sample`` the row of
    that sample, ``n_samples`` the number of samples at or above the threshold, and ``certain`` whether there is one.
    """

    probability: Floats
    sample: npt.NDArray[np.int64]
    n_samples: npt.NDArray[np.int64]
    certain: npt.NDArray[np.bool_]


def anchor_points(posterior: npt.ArrayLike, *, least: float = 0.95) -> AnchorPoints:
    """Check the anchor-point condition of end-to-end learning: each class has a sample that certainly belongs to it.

    Coupled cross-entropy (:class:`~manyhands.learn.CCEM`) identifies network and workers if every class has an anchor
    point, and a worker who is an expert of it (``mh.moments.diagnose(votes).specialists``). Where classes have none,
    use :class:`~manyhands.learn.GeoCrowdNet` with ``side="W"``, which needs no anchor points.

    Parameters
    ----------
    posterior : array-like of shape (n_samples, n_classes)
        Class probabilities of samples, such as ``learner.predict_proba(X)``; better from a calibrated model.
    least : float, default 0.95
        Probability from which on a sample is an anchor point.

    Returns
    -------
    AnchorPoints
        ``probability``, ``sample``, ``n_samples`` and ``certain`` for each class.

    Notes
    -----
    The condition is about the true class probabilities; those of a network are estimates, and an overconfident network
    finds anchor points everywhere. Cost: O(n_samples · n_classes) time.

    References
    ----------
    S. Ibrahim, T. Nguyen and X. Fu, "Deep learning from crowdsourced labels", ICLR 2023.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.anchor_points([[0.98, 0.02], [0.4, 0.6], [0.3, 0.7]]).certain.tolist()
    [True, False]
    """
    check_between("least", least, such_as=0.95)
    probs = as_probabilities("posterior", ("n_samples",), posterior)
    best = probs.argmax(axis=0)
    counts = (probs >= least).sum(axis=0)
    return AnchorPoints(probs.max(axis=0), best.astype(np.int64), counts.astype(np.int64), counts > 0)
