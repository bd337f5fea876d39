"""From columns to a table of classes: what is checked, encoded and set aside on the way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import data_checks as checks
from manyhands._base import soft_labels as soft
from manyhands._base.checks import check_choice
from manyhands._base.ids import encode_ids
from manyhands._base.labels import check_classes, merge_spellings
from manyhands._base.names import Codes, Column, Names

Repeats = Literal["keep", "first", "last", "error"]
Missing = Literal["drop", "error"]
#: What `Annotations` is made of: the table, names of tasks, workers and classes, of unlabeled tasks, and all labels.
Parts = tuple[_core.Table, Names, Names, Names, Names | None, Names]


def build(
    tasks: Column,
    workers: Column,
    labels: Column,
    *,
    weights: tuple[Any, str] | None,
    confidence: tuple[Any, str] | None,
    repeats: Repeats,
    missing: Missing,
    classes: Iterable[Any] | None,
    abstain: Any,
    fold_labels: bool = False,
) -> Parts:
    """Build a table from three columns of ids; see `Annotations.from_frame`. Numbers come with their names."""
    check_choice("repeats", repeats, ("keep", "first", "last", "error"))
    check_choice("missing", missing, ("drop", "error"))
    numbers = _numbers(weights, confidence)
    checks.check_lengths(tasks, workers, labels, numbers)
    fixed = None if classes is None else checks.fixed_classes(classes)
    never = soft.abstentions(abstain)
    checks.refuse_missing_ids(tasks, workers)
    absent = labels.missing()
    if absent is not None:
        checks.refuse_missing_answers(labels.what, absent, missing)
        labels.filter(~absent)
    label_codes, class_names, label_names = encoded_labels(labels, fixed, never, fold=fold_labels)
    ids = encode_ids(tasks, workers, absent)
    table = checks.made_table(
        ids.task_codes,
        ids.worker_codes,
        label_codes.astype(np.uint16),
        numbers if numbers is None or absent is None else numbers[~absent],
        len(ids.tasks),
        len(ids.workers),
        len(label_names),
        "keep" if repeats == "error" else repeats,
        len(class_names),
    )
    if repeats == "error":
        checks.refuse_repeats(table, ids.tasks, ids.workers)
    if confidence is not None:
        table = soft.weights_of_confidence(table)
    return table, ids.tasks, ids.workers, class_names, ids.unlabelled, label_names


def build_soft(ids: list[Column], columns: list[Any], names: list[str], abstain: Any) -> Parts:
    """Build a table from columns of tasks and workers, and one of probabilities for each name."""
    tasks, workers = ids
    said, never = checks.fixed_classes(names), soft.abstentions(abstain)
    probabilities = soft.checked_probabilities(columns, said)
    checks.check_lengths(tasks, workers, None, probabilities)
    checks.refuse_missing_ids(tasks, workers)
    true = np.ones(len(said), np.bool_) if never is None else never.match(said) < 0
    weights = soft.distinctive(probabilities, true)
    rows, columns_of_rows = np.nonzero(weights)
    if not len(rows):
        raise ValueError("all answers have even probabilities: there is nothing to aggregate")
    codes = columns_of_rows.astype(np.uint32)
    classes = labels = said
    if never is not None:
        unknown = never.values[said.match(never) < 0].tolist()
        if unknown:
            raise ValueError(f"abstain names {unknown[0]!r}, which is not a column of probabilities")
        codes, classes, labels = soft.set_apart(codes, said, None, never)
    encoded = encode_ids(tasks, workers)
    table = checks.made_table(
        encoded.task_codes[rows],
        encoded.worker_codes[rows],
        codes.astype(np.uint16),
        soft.none_if_even(weights[weights > 0]),
        len(encoded.tasks),
        len(encoded.workers),
        len(labels),
        n_classes=len(classes),
    )
    return table, encoded.tasks, encoded.workers, classes, None, labels


def _numbers(weights: tuple[Any, str] | None, confidence: tuple[Any, str] | None) -> npt.NDArray[np.float64] | None:
    """Weights or confidences of the rows, each given with what messages call it."""
    if weights is not None and confidence is not None:
        raise ValueError("give weights or confidences, not both: a confidence becomes the weight of its label")
    if confidence is not None:
        return soft.checked_confidences(*confidence)
    return None if weights is None else checks.checked_weights(*weights)


def encoded_labels(
    labels: Column,
    fixed: Names | None,
    never: Names | None,
    counts: npt.NDArray[np.int64] | None = None,
    *,
    fold: bool = False,
) -> tuple[Codes, Names, Names]:
    """Codes of the labels, the classes, which are the fixed ones if there are any, and all that codes stand for.

    A row stands for as many answers as `counts` holds for it, by default one. With `fold`, labels that differ by case
    or blanks only are one.
    """
    if fixed is not None and fixed.values.dtype == object:
        labels.parse_integers = False  # classes given as text are compared with labels as text
    codes, names = labels.encode()
    if fold:
        own = fixed if never is None else never if fixed is None else fixed.joined(never)
        codes, names = merge_spellings(codes, names, own, counts)
    if never is not None:
        never = soft.in_numbers(never, names)
        codes, classes, names = soft.set_apart(codes, names, fixed, never)
    elif fixed is not None:
        codes, names = checks.recode(codes, names, fixed), fixed
    classes = names if never is None else classes
    if fixed is None:
        true = codes < len(classes)
        n_answers = int(true.sum() if counts is None else counts[true].sum())
        check_classes(classes, n_answers, labels.what, spelt=labels.parse_integers)
    checks.check_n_classes(len(names), labels.what)
    return codes, classes, names
