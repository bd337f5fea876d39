"""Encoding of ids by NumPy's own sorting."""

from __future__ import annotations

import re

import numpy as np

#: Text in this form is read as an integer if it fits in 64 bits.
CANONICAL = re.compile(r"0|-?[1-9][0-9]*")


def encode(values: list) -> tuple[np.ndarray, list]:
    """Code of each value and the distinct values, in Python's own order."""
    column = np.empty(len(values), object)  # as objects: NumPy's text drops trailing NULs
    column[:] = values
    names, codes = np.unique(column, return_inverse=True)
    return codes, names.tolist()


def canonical_integers(texts: list[str]) -> list[int] | None:
    """The integers that the texts spell, or None if any of them is not one in plain form."""
    if all(CANONICAL.fullmatch(text) and -(2**63) <= int(text) < 2**63 for text in texts):
        return [int(text) for text in texts]
    return None
