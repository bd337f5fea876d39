"""Texts against true ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from manyhands import _core
from manyhands._base.checks import check_choice
from manyhands._base.known import Known
from manyhands.texts.words import Spelling


def word_error_rate(texts: Iterable[str], truth: Iterable[str], *, fold: bool = True, average: str = "corpus") -> float:
    """Edits between the words of texts and of the truth, as a share of the words of the truth.

    Parameters
    ----------
    texts, truth
        Texts, pair by pair. An empty text is one without words.
    fold
        Whether case and punctuation do not count, as for :class:`manyhands.texts.ROVER`. In scripts without spaces each
        letter is a word.
    average
        ``"corpus"``: all edits over all words. ``"text"``: the mean over texts; a true text without words has the rate
        0 if nothing was written, else 1.

    Returns
    -------
    float
        0 or more; above 1 where more was written than there was.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.word_error_rate(["the cat sat", "Hello, world"], ["a cat sat", "hello world"])
    0.2
    """
    return _error_rate(texts, truth, "word", fold, average)


def character_error_rate(
    texts: Iterable[str], truth: Iterable[str], *, fold: bool = True, average: str = "corpus"
) -> float:
    """Edits between the characters of texts and of the truth, as a share of the characters of the truth.

    Parameters
    ----------
    texts, truth, fold, average
        As for :func:`word_error_rate`. Spaces count, however wide they are, and marks belong to their letter.

    Returns
    -------
    float
        0 or more; above 1 where more was written than there was.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.character_error_rate(["cat"], ["cart"])
    0.25
    """
    return _error_rate(texts, truth, "character", fold, average)


def _error_rate(texts: Iterable[str], truth: Iterable[str], level: str, fold: bool, average: str) -> float:
    check_choice("average", average, ("corpus", "text"))
    lists = {"texts": texts, "truth": truth}
    for name, given in lists.items():
        if isinstance(given, str):
            raise TypeError(f"{name} must be a list of texts, not one text")
        lists[name] = [*given]
        for place, text in enumerate(lists[name]):
            if not isinstance(text, str):
                raise TypeError(f"{name} holds {text!r} at place {place}; texts are strings")
    written, true = ([*given] for given in lists.values())
    if len(written) != len(true) or not true:
        raise ValueError(
            f"there are {len(written):,} texts and {len(true):,} true ones; they go in pairs, at least one"
        )
    spelt = Spelling.of([*written, *true], level, fold)
    n, keys = len(true), spelt.keys.astype(np.uint32)
    cut = spelt.starts[n]
    one, other = spelt.starts[: n + 1].astype(np.uint32), (spelt.starts[n:] - cut).astype(np.uint32)
    edits = _core.edit_counts(one, keys[:cut], other, keys[cut:]).astype(np.float64)
    lengths = spelt.lengths[n:].astype(np.float64)
    if average == "text":
        return float(np.divide(edits, lengths, out=(edits > 0).astype(np.float64), where=lengths > 0).mean())
    if not lengths.sum():
        return float(edits.any())
    return float(edits.sum() / lengths.sum())


def measures(known: Known, model: Any) -> dict[str, Any]:
    """Error rates of texts against known ones, and the mean confidence."""
    wanted = known.columns("task", "text")
    ours, rows = known.matched(model.tasks_, wanted["task"])
    texts, truth = model.texts_[ours].tolist(), [str(wanted["text"][row] or "") for row in rows]
    return {
        "word_error_rate": word_error_rate(texts, truth),
        "character_error_rate": character_error_rate(texts, truth),
        "confidence": float(np.mean(np.asarray(model.confidence_)[ours])),
        "n_tasks": len(ours),
    }
