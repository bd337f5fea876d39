"""The twins of crowd-kit's aggregators of texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from manyhands._base.estimator import Parameters
from manyhands.compat._embeddings import HRRASA, RASA, columns_of, gleu_similarity
from manyhands.compat._log import import_pandas

if TYPE_CHECKING:
    from manyhands.compat._log import Frame, Series

#: How often each word was said at a place; "" stands for none.
_Place = dict[str, int]


class ROVER(Parameters):
    """Words side by side, the most common one at each place (Fiscus 1997).

    Texts are aligned one after the other, as their rows come: in another order they may give another text.
    :class:`manyhands.texts.ROVER` does not depend on it, and learns workers.

    Parameters
    ----------
    tokenizer, detokenizer
        Functions from a text to its words, and back.
    silent
        Accepted, and without meaning.

    Attributes
    ----------
    texts_ : Series
        The text of each task.

    Notes
    -----
    Time: the product of the lengths of each text and of what the earlier ones made, in Python.

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import ROVER
    >>> log = pd.DataFrame({"task": [1, 1, 1], "worker": [1, 2, 3], "text": ["a red car", "a red cat", "red car"]})
    >>> ROVER(str.split, " ".join).fit_predict(log).to_dict()
    {1: 'a red car'}
    """

    texts_: Series

    def __init__(
        self, tokenizer: Callable[[str], list[str]], detokenizer: Callable[[list[str]], str], silent: bool = True
    ) -> None:
        self.tokenizer = tokenizer
        self.detokenizer = detokenizer
        self.silent = silent

    def fit(self, data: Frame) -> Self:
        """Align the texts of each task and count."""
        data = columns_of(data, "task", "worker", "text")
        found = {}
        for task, part in data.groupby("task"):
            first, *rest = (self.tokenizer(text) for text in part["text"])
            places: list[_Place] = [{word: 1} for word in first]
            for before, words in enumerate(rest, 1):
                places = _aligned(places, words, before)
            # Of equally common words the longest, and then the last in the alphabet.
            best = [max(place, key=lambda word: (place[word], len(word), word)) for place in places]
            found[task] = self.detokenizer([word for word in best if word])
        pandas = import_pandas()
        self.texts_ = pandas.Series(found, name="text").rename_axis("task")
        return self

    def fit_predict(self, data: Frame) -> Series:
        """Fit and return ``texts_``."""
        return self.fit(data).texts_


def _aligned(places: list[_Place], words: list[str], before: int) -> list[_Place]:
    """Places of texts that were aligned, with one more, which costs least; `before` is how many there were."""
    skips = [int("" not in place) for place in places]
    costs = [list(range(len(places) + 1))]
    steps = [[2] * (len(places) + 1)]
    for i, word in enumerate(words, 1):
        above, row, moves = costs[-1], [i], [1]
        for j, place in enumerate(places, 1):
            # A match, a place without a word, a word without a place: the first of the cheapest.
            options = (above[j - 1] + (word not in place), row[j - 1] + skips[j - 1], above[j] + 1)
            step = min(range(3), key=options.__getitem__)
            row.append(options[step])
            moves.append((0, 2, 1)[step])
        costs.append(row)
        steps.append(moves)
    made: list[_Place] = []
    i, j = len(words), len(places)
    while i or j:
        step = steps[i][j]
        place = {"": before} if step == 1 else places[j - 1]
        word = "" if step == 2 else words[i - 1]
        made.append({**place, word: place.get(word, 0) + 1})
        i, j = i - (step != 2), j - (step != 1)
    return made[::-1]


class _OfTexts(Parameters):
    """Texts by way of embeddings."""

    encoder: Callable[[str], Any]
    texts_: Series

    def _inner(self) -> RASA | HRRASA:
        raise NotImplementedError

    def _encoded(self, data: Frame, true_objects: Series | None) -> tuple[Frame, Series | None]:
        data = columns_of(data, "task", "worker", "text").rename(columns={"text": "output"})
        data["embedding"] = [self.encoder(text) for text in data["output"]]
        return data, None if true_objects is None else true_objects.apply(self.encoder)

    def __getattr__(self, name: str) -> Any:
        """What the aggregator of embeddings found."""
        inner = self.__dict__.get("_fit")
        if inner is None or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}, or is not fitted")
        return getattr(inner, name)

    def fit(self, data: Frame, true_objects: Series | None = None) -> Self:
        """Learn reliabilities and means."""
        self._fit = self._inner().fit(*self._encoded(data, true_objects))
        return self

    def fit_predict_scores(self, data: Frame, true_objects: Series | None = None) -> Frame:
        """Fit and return the distance of each text from the mean of its task."""
        self._fit = self._inner()
        return self._fit.fit_predict_scores(*self._encoded(data, true_objects))

    def fit_predict(self, data: Frame, true_objects: Series | None = None) -> Series:
        """Fit and return ``texts_``."""
        self._fit = self._inner()
        chosen = self._fit.fit_predict(*self._encoded(data, true_objects))
        self.texts_ = chosen["output"].rename("text")
        return self.texts_


class TextRASA(_OfTexts):
    """:class:`RASA` on embeddings of texts.

    Parameters
    ----------
    encoder
        A function from a text to its embedding.
    n_iter, tol, alpha
        As for :class:`RASA`.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from manyhands.compat.crowdkit import TextRASA
    >>> log = pd.DataFrame({"task": [1, 1, 1], "worker": [1, 2, 3], "text": ["aa", "ab", "bb"]})
    >>> TextRASA(lambda text: np.array([text.count("a"), text.count("b")], float)).fit_predict(log).to_dict()
    {1: 'ab'}
    """

    def __init__(
        self, encoder: Callable[[str], Any], n_iter: int = 100, tol: float = 1e-5, alpha: float = 0.05
    ) -> None:
        self.encoder = encoder
        self.n_iter = n_iter
        self.tol = tol
        self.alpha = alpha

    def _inner(self) -> RASA:
        return RASA(self.n_iter, self.tol, self.alpha)


class TextHRRASA(_OfTexts):
    """:class:`HRRASA` on embeddings of texts.

    Parameters
    ----------
    encoder
        A function from a text to its embedding.
    n_iter, tol, lambda_emb, lambda_out, alpha, calculate_ranks, output_similarity
        As for :class:`HRRASA`.
    """

    def __init__(
        self,
        encoder: Callable[[str], Any],
        n_iter: int = 100,
        tol: float = 1e-5,
        lambda_emb: float = 0.5,
        lambda_out: float = 0.5,
        alpha: float = 0.05,
        calculate_ranks: bool = False,
        output_similarity: Callable[[Any, Any], float] = gleu_similarity,
    ) -> None:
        self.encoder = encoder
        self.n_iter = n_iter
        self.tol = tol
        self.lambda_emb = lambda_emb
        self.lambda_out = lambda_out
        self.alpha = alpha
        self.calculate_ranks = calculate_ranks
        self.output_similarity = output_similarity

    def _inner(self) -> HRRASA:
        settings = {name: value for name, value in self.get_params().items() if name != "encoder"}
        return HRRASA(**settings)
