"""Answers that are more or less than one label: confidences, probabilities, abstentions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import data_checks as checks
from manyhands._base.checks import LEAST_COUNT, preview
from manyhands._base.names import Codes, Names, sequence

#: How far probabilities may be from summing to one: they are often rounded to two digits.
_ROUNDING = 0.05
#: An integer in plain form.
_CANONICAL = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


def checked_confidences(data: Any, what: str) -> npt.NDArray[np.float64]:
    """Return confidences as numbers above 0 and up to 1."""
    amounts = checks.checked_amounts(data, what)
    bad = (amounts <= 0) | (amounts > 1)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{what} holds {amounts[row]} at row {row}; a confidence must be above 0 and at most 1")
    # A table holds them as weights on the way, and takes none that is smaller.
    return np.maximum(amounts, LEAST_COUNT)


def weights_of_confidence(table: _core.Table) -> _core.Table:
    """Turn a table whose weights are confidences into one of weighted annotations.

    Among K classes, confidence c counts (c K - 1) / (K - 1) of a certain answer, and nothing where chance would do as
    well: the evidence, under workers who err evenly, of c of the label and equal parts of the rest for all others.
    Those others are not counted: taken for answers, they make all workers look careless, and EM loses its hold.
    """
    tasks, workers, labels = table.columns()
    weights, k = table.weights(), table.n_classes
    assert weights is not None
    if k > 1:
        # Abstentions keep their weight.
        weights = np.where(labels < k, np.maximum((weights * k - 1) / (k - 1), 0.0), weights)
    sizes = (table.n_tasks, table.n_workers, table.n_labels)
    return checks.made_table(tasks, workers, labels, none_if_even(weights), *sizes, n_classes=k)


def none_if_even(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64] | None:
    """No weights where all of them are one, so that certain answers are what they are without."""
    return None if (weights == 1).all() else weights


def checked_probabilities(columns: Iterable[Any], classes: Names) -> npt.NDArray[np.float64]:
    """Return an (answers, classes) array of probabilities whose rows sum to one."""
    parts = [
        checks.checked_amounts(column, f"probability column {name!r}")
        for name, column in zip(classes.values.tolist(), columns, strict=True)
    ]
    if len({len(part) for part in parts}) > 1:
        raise ValueError("columns of probabilities differ in length")
    table = np.stack(parts, axis=1)
    totals = table.sum(axis=1)
    bad = np.abs(totals - 1) > _ROUNDING
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"the probabilities of row {row} sum to {totals[row]:.4g}, not to one; name a column for each class, or "
            "give long rows with weight="
        )
    shares: npt.NDArray[np.float64] = table / totals[:, None]
    return shares


def distinctive(probabilities: npt.NDArray[np.float64], classes: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Subtract the probability that an answer gives to all classes alike; see `weights_of_confidence`."""
    if classes.sum() < 2:
        return _worth_counting(probabilities)
    common = probabilities[:, classes].min(axis=1, keepdims=True)
    return _worth_counting(np.where(classes, probabilities - common, probabilities))


def _worth_counting(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Weights without those below what a table counts: of a probability of 1e-40 nothing is left next to others."""
    counted: npt.NDArray[np.float64] = np.where(weights < LEAST_COUNT, 0.0, weights)
    return counted


def abstentions(given: Any) -> Names | None:
    """Labels that carry no information of the class: one, or several; None where there are none."""
    if given is None:
        return None
    single = isinstance(given, str) or not isinstance(given, Iterable)
    return checks.fixed_classes([given] if single else given, "abstain")


def in_numbers(abstain: Names, names: Names) -> Names:
    """Abstentions as numbers where the labels are: the command line knows text only."""
    if names.values.dtype.kind != "i" or not len(names):
        return abstain
    # Only text in the form that labels have which become integers: "007" is another name than 7.
    return sequence([int(x) if isinstance(x, str) and _CANONICAL.fullmatch(x) else x for x in abstain.values.tolist()])


def set_apart(codes: Codes, names: Names, fixed: Names | None, abstain: Names) -> tuple[Codes, Names, Names]:
    """Codes in which abstentions come after all classes; the classes, and all labels.

    An abstention that does not occur is a label all the same: another part of the log may have it.
    """
    if fixed is None:
        fixed = names.take(np.flatnonzero(abstain.match(names) < 0))
    elif (fixed.match(abstain) >= 0).any():
        both = abstain.values[fixed.match(abstain) >= 0].tolist()[0]
        raise ValueError(f"{both!r} is in both classes and abstain; a label that can be true cannot be an abstention")
    if not len(fixed):
        raise ValueError(f"every label is an abstention ({preview(abstain.values.tolist())}): there are no classes")
    labels = fixed.followed_by(abstain)
    return checks.recode(codes, names, labels), fixed, labels
