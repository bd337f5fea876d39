"""Measures of soft labels against answers of people, with their disagreement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from manyhands._base.estimator import Array

_TINY = 1e-12
#: Probability below which a class counts as this probable, so that one surprise is not infinite.
_LEAST = 1e-6


@dataclass(frozen=True)
class SoftMeasures:
    """How far predicted distributions are from those of people, averaged over items.

    Attributes
    ----------
    manhattan
        Sum of absolute differences, from 0 to 2.
    wasserstein
        Distance of ordered classes in steps: the work to turn one distribution into the other.
    cross_entropy
        Of the people's distribution under the prediction, in nats.
    annotator_error
        Share of single labels that are not the predicted class of their item.
    n_items
        Number of items.
    """

    manhattan: float
    wasserstein: float
    cross_entropy: float
    annotator_error: float
    n_items: int


def soft_measures(predicted: npt.ArrayLike, people: npt.ArrayLike) -> SoftMeasures:
    """Compare predicted distributions over classes with those of people.

    Use it to validate judges against the disagreement of people, not only against their vote.

    Parameters
    ----------
    predicted : array of shape (n_items, n_classes)
        Probabilities, such as ``panel.soft_labels_`` of the labeled items.
    people : array of shape (n_items, n_classes)
        Number or share of people who gave each class. Items count alike, whatever their number of people.

    Returns
    -------
    SoftMeasures

    Examples
    --------
    >>> from manyhands.judges import soft_measures
    >>> measures = soft_measures([[0.5, 0.5], [1.0, 0.0]], [[3, 1], [4, 0]])
    >>> measures.manhattan, measures.wasserstein, measures.annotator_error
    (0.25, 0.125, 0.125)
    """
    prediction, counts = (np.asarray(one, np.float64) for one in (predicted, people))
    if prediction.ndim != 2 or prediction.shape != counts.shape or not prediction.size:
        raise ValueError(
            f"predicted and people must both have the shape (n_items, n_classes), not {prediction.shape} and "
            f"{counts.shape}"
        )
    for name, table in (("predicted", prediction), ("people", counts)):
        if not (np.isfinite(table).all() and (table >= 0).all() and (table.sum(axis=1) > _TINY).all()):
            raise ValueError(f"{name} must hold numbers of at least 0, not all of them 0 in an item")
    prediction, share = _normalize(prediction), _normalize(counts)
    away = prediction - share
    # Ties go to the first class.
    label = prediction.argmax(axis=1)
    rows = np.arange(len(label))
    return SoftMeasures(
        manhattan=float(np.abs(away).sum(axis=1).mean()),
        wasserstein=float(np.abs(np.cumsum(away, axis=1)[:, :-1]).sum(axis=1).mean()),
        cross_entropy=float(-(share * np.log(np.maximum(prediction, _LEAST))).sum(axis=1).mean()),
        annotator_error=float(1.0 - share[rows, label].mean()),
        n_items=len(label),
    )


def _normalize(table: Array) -> Array:
    return np.asarray(table / table.sum(axis=1, keepdims=True))
