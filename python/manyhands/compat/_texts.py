"""crowd-kit's aggregators of texts and embeddings: the answer nearest to a mean that trusts workers differently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from manyhands import texts
from manyhands._base.estimator import Array
from manyhands.compat._log import Twin, columns_of, import_pandas, series
from manyhands.texts._chi import upper_quantiles
from manyhands.texts.table import Texts

if TYPE_CHECKING:
    from manyhands.compat._log import Frame, Series

#: The least sum of distances of a worker, so that no worker is infinitely reliable.
_LEAST = 1e-5


class _Means:
    """Means of the embeddings of each task, those that are known held fixed."""

    def __init__(self, data: Frame, true_embeddings: Series | None) -> None:
        if true_embeddings is not None and not true_embeddings.index.is_unique:
            raise ValueError("true_embeddings has several embeddings of one task; keep one")
        self.codes, self.tasks = import_pandas().factorize(data["task"], sort=True)
        try:
            self.rows = np.stack([np.asarray(one, np.float64) for one in data["embedding"]])
        except ValueError as error:
            raise ValueError(f"embeddings must be arrays of one length: {error}") from None
        embeddings_of = {} if true_embeddings is None else true_embeddings.to_dict()
        self._known = [
            (at, np.asarray(embeddings_of[task], np.float64))
            for at, task in enumerate(self.tasks)
            if task in embeddings_of
        ]

    def of(self, weights: Array) -> Array:
        """Weighted means, (n_tasks, n_dims); where no answer of a task counts, all count alike."""
        total = np.bincount(self.codes, weights, len(self.tasks))
        weights = np.where(total[self.codes] > 0, weights, 1.0)
        means = np.zeros((len(self.tasks), self.rows.shape[1]))
        np.add.at(means, self.codes, weights[:, None] * self.rows)
        means /= np.bincount(self.codes, weights)[:, None]
        for at, one in self._known:
            means[at] = one
        return means

    def series(self, means: Array) -> Series:
        """Means by task."""
        return series(list(means), import_pandas().Index(self.tasks, name="task"), "embedding")


def cosine_distance(embedding: npt.NDArray[Any], average: npt.NDArray[Any]) -> float:
    """One less the cosine of two vectors; infinite where one of them is zero."""
    norms = float(np.linalg.norm(embedding) * np.linalg.norm(average))
    return 1 - float(np.dot(embedding, average)) / norms if norms else float("inf")


class _Closest(Twin):
    """Methods that choose the answer closest to a mean."""

    embeddings_and_outputs_: Frame
    scores_: Frame
    _answer: ClassVar[str] = "embeddings_and_outputs_"

    def fit_predict_scores(self, data: Frame, *args: Any, **kwargs: Any) -> Frame:
        """Fit and return ``scores_``."""
        self.fit_predict(data, *args, **kwargs)
        return self.scores_

    def _choose(self, data: Frame, means: Series, distance: Callable[[Any, Any], float]) -> Self:
        data = columns_of(data, "task", "worker", "output", "embedding")
        average = dict(means.items())
        pairs = zip(data["embedding"], data["task"], strict=True)
        data["score"] = [float(distance(one, average[task])) for one, task in pairs]
        best = data.loc[data.groupby("task")["score"].idxmin()]
        self.scores_ = data[["task", "output", "score", "embedding"]].set_index("task")
        self.embeddings_and_outputs_ = best[["task", "output", "embedding"]].set_index("task")
        return self


@dataclass(repr=False, eq=False)
class ClosestToAverage(_Closest):
    """The answer whose embedding is closest to the mean of its task.

    Parameters
    ----------
    distance : callable
        A function of two embeddings.

    Attributes
    ----------
    embeddings_and_outputs_ : DataFrame
        ``output`` and ``embedding`` of the chosen answer, by task.
    scores_ : DataFrame
        ``output``, ``score`` (the distance) and ``embedding`` of every answer, by task.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from manyhands.compat.crowdkit import ClosestToAverage
    >>> log = pd.DataFrame({"task": [1, 1, 1], "worker": ["a", "b", "c"], "output": ["x", "y", "z"]})
    >>> log["embedding"] = [np.array([0.0, 1.0]), np.array([0.2, 1.0]), np.array([1.0, 0.0])]
    >>> ClosestToAverage(lambda a, b: np.linalg.norm(a - b)).fit_predict(log)["output"].tolist()
    ['y']
    """

    distance: Callable[[npt.NDArray[Any], npt.NDArray[Any]], float]

    def fit(
        self, data: Frame, aggregated_embeddings: Series | None = None, true_embeddings: Series | None = None
    ) -> Self:
        """Choose an answer of each task; means may be given."""
        if aggregated_embeddings is None:
            means = _Means(columns_of(data, "task", "worker", "output", "embedding"), true_embeddings)
            aggregated_embeddings = means.series(means.of(np.ones(len(data))))
        return self._choose(data, aggregated_embeddings, self.distance)


@dataclass(repr=False, eq=False)
class RASA(_Closest):
    """RASA: workers are weighted by how close their embeddings are to the means of their tasks (Li & Fukumoto 2019).

    Parameters
    ----------
    n_iter, tol
        Most passes, and the relative change of means below which they end.
    alpha : float, default 0.05
        Level of the quantiles of chi-squared that workers with many answers gain by.

    Attributes
    ----------
    skills_, prior_skills_ : Series
        Reliability of each worker, and its numerator.
    aggregated_embeddings_ : Series
        The mean of each task.
    embeddings_and_outputs_, scores_ : DataFrame
        As for :class:`ClosestToAverage`, by the cosine.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from manyhands.compat.crowdkit import RASA
    >>> log = pd.DataFrame({"task": ["t1"] * 3, "worker": ["p1", "p2", "p3"], "output": ["a", "a", "b"]})
    >>> log["embedding"] = [np.array([1.0, 0.0]), np.array([1.0, 0.0]), np.array([0.0, 1.0])]
    >>> RASA().fit_predict(log)["output"].to_dict()
    {'t1': 'a'}
    """

    n_iter: int = 100
    tol: float = 1e-9
    alpha: float = 0.05

    def fit_predict(self, data: Frame, *args: Any, **kwargs: Any) -> Frame:
        """Fit and return ``embeddings_and_outputs_``."""
        self.fit(data, *args, **kwargs)
        return self._choose(data, self.aggregated_embeddings_, cosine_distance).embeddings_and_outputs_

    def fit(self, data: Frame, true_embeddings: Series | None = None) -> Self:
        """Learn reliabilities and means."""
        data = columns_of(data, "task", "worker", "embedding")
        self._learn(data, _Means(data, true_embeddings), np.ones(len(data)))
        return self

    def _learn(self, data: Frame, means: _Means, local: Array) -> Array:
        """Learn reliabilities and return the weights of answers; `local` is how far each answer counts besides."""
        pandas = import_pandas()
        workers, names = pandas.factorize(data["worker"])
        counted = np.bincount(workers, local > 0, len(names))
        prior = upper_quantiles(self.alpha / 2, np.maximum(counted, 1))
        skills, before, mean = np.ones(len(names)), None, means.of(local)
        self.loss_history_ = []
        for _ in range(self.n_iter):
            mean = means.of(skills[workers] * local)
            away = ((means.rows - mean[means.codes]) ** 2).sum(axis=1)
            away = np.divide(away, local, out=np.zeros(len(away)), where=local > 0)
            skills = prior / np.maximum(np.bincount(workers, away, len(names)), _LEAST)
            if before is not None:
                size = float((mean * mean).sum())
                self.loss_history_.append(float(((mean - before) ** 2).sum()) / size if size else 0.0)
                if self.loss_history_[-1] < self.tol:
                    break
            before = mean
        index = pandas.Index(names, name="worker")
        self.prior_skills_, self.skills_ = (
            series(np.where(counted, numbers, np.nan), index, name)
            for numbers, name in ((prior, "count"), (skills, "skill"))
        )
        self.aggregated_embeddings_ = means.series(mean)
        return np.asarray(skills[workers] * local)


def _likeness(away: Array, norms: Array) -> Array:
    """How like embeddings are: 1 where they are the same, 0 where one is zero and the other is not."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(away > 0, np.exp(-away / norms), 1.0))


def gleu_similarity(text: str, other: str) -> float:
    """GLEU of two texts: what they share of runs of up to four words, over the longer's number of runs."""
    lists = text.split(), other.split()
    one, two = (Counter(tuple(w[i : i + n]) for n in range(1, 5) for i in range(len(w) - n + 1)) for w in lists)
    most = max(sum(one.values()), sum(two.values()))
    return sum((one & two).values()) / most if most else 0.0


@dataclass(repr=False, eq=False)
class HRRASA(RASA):
    """HRRASA: RASA with a weight per answer, its similarity to the other answers of its task (Li 2020).

    Parameters
    ----------
    n_iter, tol, alpha
        As for :class:`RASA`.
    lambda_emb, lambda_out : float, default 0.5
        Weights of the likeness of embeddings and of outputs.
    calculate_ranks : bool, default False
        Whether ``ranks_`` are computed.
    output_similarity : callable, default gleu_similarity
        A function of two outputs; by default GLEU of their words.

    Attributes
    ----------
    skills_, prior_skills_, aggregated_embeddings_, embeddings_and_outputs_, scores_
        As for :class:`RASA`; NaN for workers who answered alone wherever they answered.
    weights_ : DataFrame
        ``weight`` of each answer, by task and worker.
    ranks_ : DataFrame
        task, output and rank of each answer of tasks that have several.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from manyhands.compat.crowdkit import HRRASA
    >>> log = pd.DataFrame({"task": ["t1"] * 3, "worker": ["p1", "p2", "p3"], "output": ["a", "a", "b"]})
    >>> log["embedding"] = [np.array([1.0, 0.0]), np.array([1.0, 0.0]), np.array([0.0, 1.0])]
    >>> HRRASA().fit_predict(log)["output"].to_dict()
    {'t1': 'a'}
    """

    lambda_emb: float = 0.5
    lambda_out: float = 0.5
    calculate_ranks: bool = False
    output_similarity: Callable[[Any, Any], float] = gleu_similarity

    def fit(self, data: Frame, true_embeddings: Series | None = None) -> Self:
        """Learn reliabilities and means; a task with one answer has that answer's embedding."""
        data = columns_of(data, "task", "worker", "embedding", "output")
        means = _Means(data, true_embeddings)
        local = self._local(data, means.rows)
        weights = self._learn(data, means, local)
        several = data.groupby("task")["worker"].transform("size").to_numpy() > 1
        index = import_pandas().MultiIndex.from_frame(data[["task", "worker"]])
        self.weights_: Frame = import_pandas().DataFrame({"weight": weights}, index)[several]
        if self.calculate_ranks:
            mean = np.stack([self.aggregated_embeddings_[task] for task in data["task"]])
            away = np.maximum(((means.rows - mean) ** 2).sum(axis=1), _LEAST)
            near = _likeness(away, (means.rows**2).sum(axis=1) * (mean**2).sum(axis=1))
            rank = self.skills_.loc[data["worker"]].to_numpy() * near + local
            self.ranks_: Frame = data[["task", "output"]].assign(rank=rank)[several]
        return self

    def _local(self, data: Frame, rows: Array) -> Array:
        """How like each answer is to the others of its task; 0 for an only answer."""
        local = np.zeros(len(data))
        outputs, workers = data["output"].tolist(), data["worker"].tolist()
        norms = (rows * rows).sum(axis=1)
        for places in data.groupby("task").indices.values():
            for at in places:
                others = [other for other in places if workers[other] != workers[at]]
                if others:
                    near = _likeness(((rows[at] - rows[others]) ** 2).sum(axis=1), norms[at] * norms[others]).sum()
                    alike = sum(self.output_similarity(outputs[at], outputs[other]) for other in others)
                    local[at] = (self.lambda_emb * near + self.lambda_out * alike) / (len(places) - 1)
        return local


class _OfTexts(Twin):
    """Texts by way of embeddings; the other results are those of the aggregator of embeddings."""

    texts_: Series
    _inner: ClassVar[type[RASA]]

    def __getattr__(self, name: str) -> Any:
        """Look a result up in the aggregator of embeddings."""
        inner = self.__dict__.get("_fit")
        if inner is None or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}, or is not fitted")
        return getattr(inner, name)

    def _embed(self, data: Frame, true_objects: Series | None) -> tuple[Any, Frame, Series | None]:
        """An unfitted aggregator of embeddings, and its arguments."""
        settings = self.get_params()
        encoder = settings.pop("encoder")
        data = columns_of(data, "task", "worker", "text").rename(columns={"text": "output"})
        data["embedding"] = [encoder(text) for text in data["output"]]
        return self._inner(**settings), data, None if true_objects is None else true_objects.apply(encoder)

    def fit(self, data: Frame, true_objects: Series | None = None) -> Self:
        """Learn reliabilities and means."""
        inner, data, true_embeddings = self._embed(data, true_objects)
        self._fit = inner.fit(data, true_embeddings)
        return self

    def fit_predict(self, data: Frame, true_objects: Series | None = None) -> Series:
        """Fit and return ``texts_``."""
        self._fit, data, true_embeddings = self._embed(data, true_objects)
        self.texts_ = self._fit.fit_predict(data, true_embeddings)["output"].rename("text")
        return self.texts_

    def fit_predict_scores(self, data: Frame, true_objects: Series | None = None) -> Frame:
        """Fit and return the distance of each text from the mean of its task."""
        self.fit_predict(data, true_objects)
        scores: Frame = self._fit.scores_
        return scores


@dataclass(repr=False, eq=False)
class TextRASA(_OfTexts):
    """:class:`RASA` on embeddings of texts.

    Parameters
    ----------
    encoder : callable
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

    encoder: Callable[[str], Any]
    n_iter: int = 100
    tol: float = 1e-5
    alpha: float = 0.05

    _inner: ClassVar[type[RASA]] = RASA


@dataclass(repr=False, eq=False)
class TextHRRASA(TextRASA):
    """:class:`HRRASA` on embeddings of texts.

    Parameters
    ----------
    encoder
        A function from a text to its embedding.
    n_iter, tol, lambda_emb, lambda_out, alpha, calculate_ranks, output_similarity
        As for :class:`HRRASA`.
    """

    lambda_emb: float = 0.5
    lambda_out: float = 0.5
    calculate_ranks: bool = False
    output_similarity: Callable[[Any, Any], float] = gleu_similarity

    _inner: ClassVar[type[RASA]] = HRRASA


@dataclass(repr=False, eq=False)
class ROVER(Twin):
    """ROVER: aligns words and takes the most probable one at each position (Fiscus 1997).

    Parameters
    ----------
    tokenizer, detokenizer : callable
        Functions from a text to its words, and back.
    silent : bool, default True
        Has no effect.

    Attributes
    ----------
    texts_ : Series
        The text of each task.

    Notes
    -----
    As :class:`manyhands.texts.ROVER` with ``fold=False``: workers count by their rates of errors, and the order of rows
    does not matter.

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import ROVER
    >>> log = pd.DataFrame({"task": [1, 1, 1], "worker": [1, 2, 3], "text": ["a red car", "a red cat", "red car"]})
    >>> ROVER(str.split, " ".join).fit_predict(log).to_dict()
    {1: 'a red car'}
    """

    tokenizer: Callable[[str], list[str]]
    detokenizer: Callable[[list[str]], str]
    silent: bool = True

    _answer: ClassVar[str] = "texts_"

    def fit(self, data: Frame) -> Self:
        """Align the texts of each task and vote on each word."""
        data = columns_of(data, "task", "worker", "text")
        # Words become numbers: a tokenizer may leave spaces within a word.
        codes: dict[str, str] = {}
        coded = [
            " ".join(codes.setdefault(word, f"{len(codes)}") for word in self.tokenizer(text)) for text in data["text"]
        ]
        answers = texts.ROVER(fold=False).fit(Texts.from_arrays(data["task"].tolist(), data["worker"].tolist(), coded))
        words = {code: word for word, code in codes.items()}
        sentences = [self.detokenizer([words[code] for code in text.split()]) for text in answers.texts_]
        self.texts_ = series(sentences, import_pandas().Index(answers.tasks_, name="task"), "text")
        return self
