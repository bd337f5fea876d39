"""Confusion matrices of simple forms."""

import numpy as np

from manyhands._base.estimator import Array


def with_diagonal(rates: Array, n_classes: int) -> Array:
    """Matrices with these diagonals, one a worker, and the rest of each row spread evenly."""
    if n_classes == 1:
        return np.ones((len(rates), 1, 1))
    rest = ((1 - rates) / (n_classes - 1))[:, None, None]
    return np.where(np.eye(n_classes, dtype=bool), rates[:, None, None], rest)
