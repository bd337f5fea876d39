"""Labels that look like something else: scores with fractions, numbers, ids."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base import data_checks as checks
from manyhands._base.checks import plural, preview, warn_of_data
from manyhands._base.names import Codes, Column, Names
from manyhands._base.spelling import fold, groups_of, list_groups
from manyhands.errors import argument

#: A number as people write them, with a point or a comma.
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")
#: Messages list at most this many names.
_LOOKED_AT = 10_000
#: What stands between the labels of a set that is written as text.
_BETWEEN = "|"
#: So few classes may well occur once each.
_FEW = 20


def check_classes(names: Names, n_answers: int, what: str, *, spelt: bool) -> None:
    """Raise for numbers with fractions as classes, and warn of nearly as many classes as answers.

    Parameters
    ----------
    names : sequence
        The labels that occur, without abstentions.
    n_answers : int
        How many labels there are in all.
    what : str
        What messages call the column.
    spelled
        Whether text may spell numbers, as in a CSV file, which has no other way to write them.
    """
    # Integers have no fractions, and text is looked at only where it may spell numbers.
    fractions = fractions_among(names.values.tolist(), spelt=spelt) if spelt or not names.is_plain() else []
    if fractions:
        fix = f"read them as names with {argument('labels_as_text', True)}" if spelt else "convert them to text"
        raise ValueError(
            f"{what} holds numbers with fractions, such as {preview(fractions)} ({len(names):,} distinct values in "
            f"{plural(n_answers, 'answer')}): scores or measurements, not classes. Take their mean or median "
            f"on each task ({argument('kind', 'numeric')}, mh.Ratings), or round them to grades; if they are "
            "the names of classes "
            f"after all, {fix}"
        )
    checks.check_n_classes(len(names), what)
    warn_of_many(len(names), n_answers, what)
    _warn_of_sets(names, what)
    variants = groups_of(names.values.tolist() if names.values.dtype == object else (), fold)
    if variants:
        warn_of_data(
            f"{what} holds labels that differ by case or blanks only: {list_groups(variants)}. Each is a class of "
            f"its own; pass {argument('fold_labels', True)} to merge them"
        )


def merge_spellings(
    codes: Codes, names: Names, fixed: Names | None, counts: npt.NDArray[np.int64] | None
) -> tuple[Codes, Names]:
    """Merge labels that differ by case or blanks only.

    Parameters
    ----------
    codes, names
        The labels.
    fixed : sequence or None
        All possible labels, in their own spelling; None for the most frequent spelling of the labels that occur.
    counts : ndarray or None
        How many answers each code stands for; None for one.
    """
    texts = names.values.tolist()
    often = np.bincount(codes, counts, len(texts))
    spelling: dict[str, str] = {}
    for place in np.argsort(-often, kind="stable").tolist():
        if isinstance(texts[place], str):
            spelling.setdefault(fold(texts[place]), " ".join(texts[place].split()))
    for name in () if fixed is None else fixed.values.tolist():
        if isinstance(name, str):
            spelling[fold(name)] = name
    same = [spelling[fold(text)] if isinstance(text, str) else text for text in texts]
    places, together = Column(same, "labels").encode()
    return places[codes], together


def warn_of_many(n_classes: int, n_answers: int, what: str) -> None:
    """Warn of nearly as many classes as answers."""
    if n_classes > _FEW and 2 * n_classes > n_answers:
        warn_of_data(
            f"{what} holds {n_classes:,} distinct values in {n_answers:,} answers: ids, numbers or free text rather "
            "than classes? Hardly any two answers can agree"
        )


def _warn_of_sets(names: Names, what: str) -> None:
    """Warn of classes that look like several labels each: every combination would be a class of its own."""
    if len(names) <= _FEW:
        return
    texts = [name for name in names.values.tolist()[:_LOOKED_AT] if isinstance(name, str)]
    lost_sets = [text for text in texts if _BETWEEN in text]
    single = {part for text in texts for part in text.split(_BETWEEN)}
    if 2 * len(lost_sets) > len(texts) and 2 * len(single) < len(texts):
        warn_of_data(
            f"{what} looks like sets of labels, such as {lost_sets[0]!r}: {len(names):,} combinations of "
            f"{len(single):,} labels. Read them with {argument('kind', 'multilabel')} (mh.MultiLabels), or "
            "each combination is a class"
        )


def fractions_among(items: Sequence[Any], *, spelt: bool = False) -> list[Any]:
    """Return the first few numbers with a fraction, where most items are numbers; nothing where they are not."""
    some = items[:: 1 + len(items) // _LOOKED_AT]
    numbers = [item for item in some if _is_number(item, spelt)]
    if 2 * len(numbers) <= len(some):
        return []
    return list(islice((item for item in numbers if not _is_whole(item)), 4))


def _is_number(item: Any, spelt: bool) -> bool:
    if isinstance(item, str):
        return spelt and _NUMBER.fullmatch(item) is not None
    return isinstance(item, int | float | Decimal | Fraction) and not isinstance(item, bool)


def _is_whole(item: Any) -> bool:
    if isinstance(item, Decimal):
        return item == item.to_integral_value()
    if isinstance(item, Fraction):
        return item.denominator == 1
    return float(item.replace(",", ".") if isinstance(item, str) else item).is_integer()
