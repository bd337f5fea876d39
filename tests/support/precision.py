"""How far results in single precision may be from exact ones, on any processor.

Processors differ in how they order sums, fuse products and approximate exponentials, so that two of them agree to a few
roundings for each term and no further. A tolerance is a bound on that, and not what one machine happened to give.
"""

from __future__ import annotations

import numpy as np

#: Half the distance from one to the next number in single precision: the share that one rounding can change.
ROUNDING = float(np.finfo(np.float32).eps) / 2


def sum_in_single(n_terms: float, *, roundings: float = 4.0) -> float:
    """The share by which a sum of positive terms may be off, each the result of a few rounded operations."""
    return (n_terms + roundings) * ROUNDING


#: How far apart two trainings may end that take the same steps of Adam but add up in another order. A step is the
#: gradient by its own size: where a gradient is next to nothing, its rounding becomes a share of the rate, 1e-3.
TRAINED = 1e-4
