"""Word and character error rates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from manyhands import _core
from manyhands._base.checks import check_choice
from manyhands._base.known import Known
from manyhands.texts.words import Spelling


def word_error_rate(texts: Iterable[str], truth: Iterable[str], *, fold: bool = True, average: str = "corpus") -> float:
    """Return the word error rate: word edits as a share of the words of the true texts.

    Parameters
    ----------
    texts : iterable of str
        Texts to evaluate. An empty text has no words.
    truth : iterable of str
        True texts, in the same order.
    fold : bool, default True
        Ignore case and punctuation, as in :class:`manyhands.texts.ROVER`. In scripts without spaces, each letter is a
        word.
    average : {"corpus", "text"}, default "corpus"
        ``"corpus"`` divides all edits by all words. ``"text"`` is the mean over texts, where a true text without words
        has rate 0 if nothing was written, else 1.

    Returns
    -------
    float
        Error rate; above 1 if there are more edits than true words.

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
    """Return the character error rate: character edits as a share of the characters of the true texts.

    Parameters
    ----------
    texts, truth, fold, average
        As for :func:`word_error_rate`. A run of spaces counts as one character, combining marks as part of their
        letter.

    Returns
    -------
    float
        Error rate; above 1 if there are more edits than true characters.

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
    for name, texts_or_truth in lists.items():
        if isinstance(texts_or_truth, str):
            raise TypeError(f"{name} must be a list of texts, not a single string")
        lists[name] = [*texts_or_truth]
        for place, text in enumerate(lists[name]):
            if not isinstance(text, str):
                raise TypeError(f"{name} contains {text!r} at index {place}; texts must be strings")
    hypotheses, references = ([*texts_or_truth] for texts_or_truth in lists.values())
    if len(hypotheses) != len(references) or not references:
        raise ValueError(
            f"texts has {len(hypotheses):,} entries and truth {len(references):,}: "
            "pass lists of equal length with at least one text"
        )
    spelling = Spelling.of([*hypotheses, *references], level, fold)
    n, keys = len(references), spelling.keys.astype(np.uint32)
    cut = spelling.starts[n]
    one, other = spelling.starts[: n + 1].astype(np.uint32), (spelling.starts[n:] - cut).astype(np.uint32)
    edits = _core.edit_counts(one, keys[:cut], other, keys[cut:]).astype(np.float64)
    lengths = spelling.lengths[n:].astype(np.float64)
    if average == "text":
        return float(np.divide(edits, lengths, out=(edits > 0).astype(np.float64), where=lengths > 0).mean())
    if not lengths.sum():
        return float(edits.any())
    return float(edits.sum() / lengths.sum())


def measures(known: Known, model: Any) -> dict[str, Any]:
    """Error rates of texts against known ones, and the mean confidence."""
    truth_columns = known.columns("task", "text")
    ours, rows = known.matched(model.tasks_, truth_columns["task"])
    texts, truth = model.texts_[ours].tolist(), [str(truth_columns["text"][row] or "") for row in rows]
    return {
        "word_error_rate": word_error_rate(texts, truth),
        "character_error_rate": character_error_rate(texts, truth),
        "confidence": float(np.mean(np.asarray(model.confidence_)[ours])),
        "n_tasks": len(ours),
    }
