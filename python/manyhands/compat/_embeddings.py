"""The twins of crowd-kit's aggregators of embeddings: the answer nearest to a mean that trusts workers differently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from manyhands._base.estimator import Array, Parameters
from manyhands.compat._log import import_pandas, series
from manyhands.texts._chi import upper_quantiles

if TYPE_CHECKING:
    from manyhands.compat._log import Frame, Series

#: The least sum of distances of a worker, so that nobody is infinitely reliable.
_LEAST = 1e-5


def columns_of(data: Frame, *names: str) -> Frame:
    """Return columns of a frame; errors name what is wrong with it."""
    if not isinstance(data, import_pandas().DataFrame):
        raise TypeError(f"expected a pandas DataFrame, not {type(data).__name__}")
    absent = [name for name in names if name not in data.columns]
    if absent:
        there = ", ".join(map(repr, data.columns[:20]))
        raise KeyError(f"no column {', '.join(map(repr, absent))}; the columns are {there}")
    if not len(data):
        raise ValueError("the log has no rows: there is nothing to aggregate")
    found: Frame = data[list(names)].reset_index(drop=True)
    return found


def _rows(data: Frame) -> Array:
    """Embeddings as rows of an array."""
    try:
        return np.stack([np.asarray(one, np.float64) for one in data["embedding"]])
    except ValueError as error:
        raise ValueError(f"embeddings must be arrays of one length: {error}") from None


class _Means:
    """Means of the embeddings of each task, those that are known held fixed."""

    def __init__(self, data: Frame, true_embeddings: Series | None) -> None:
        pandas = import_pandas()
        if true_embeddings is not None and not true_embeddings.index.is_unique:
            raise ValueError("true_embeddings has several embeddings of one task; keep one")
        self.codes, self.tasks = pandas.factorize(data["task"], sort=True)
        self.rows = _rows(data)
        known = {} if true_embeddings is None else true_embeddings.to_dict()
        self._known = [(at, np.asarray(known[task], np.float64)) for at, task in enumerate(self.tasks) if task in known]

    def of(self, weights: Array) -> Array:
        """Weighted means, (n_tasks, n_dims)."""
        sums = np.zeros((len(self.tasks), self.rows.shape[1]))
        np.add.at(sums, self.codes, weights[:, None] * self.rows)
        total = np.bincount(self.codes, weights, len(self.tasks))
        if not total.all():  # answers of which none counts count alike
            even = (total == 0)[self.codes]
            return self.of(np.where(even, 1.0, weights))
        means: Array = sums / total[:, None]
        for at, one in self._known:
            means[at] = one
        return means

    def away(self, means: Array) -> Array:
        """Squared distance of each row from the mean of its task."""
        away: Array = ((self.rows - means[self.codes]) ** 2).sum(axis=1)
        return away

    def series(self, means: Array) -> Series:
        """Means by task."""
        index = import_pandas().Index(self.tasks, name="task")
        return series(list(means), index, "embedding")


def cosine_distance(embedding: npt.NDArray[Any], average: npt.NDArray[Any]) -> float:
    """One less the cosine of two vectors; infinite where one of them is nothing."""
    norms = float(np.linalg.norm(embedding) * np.linalg.norm(average))
    return 1 - float(np.dot(embedding, average)) / norms if norms else float("inf")


class ClosestToAverage(Parameters):
    """The answer whose embedding is closest to the mean of its task.

    Parameters
    ----------
    distance
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

    embeddings_and_outputs_: Frame
    scores_: Frame

    def __init__(self, distance: Callable[[npt.NDArray[Any], npt.NDArray[Any]], float]) -> None:
        self.distance = distance

    def fit(
        self, data: Frame, aggregated_embeddings: Series | None = None, true_embeddings: Series | None = None
    ) -> Self:
        """Choose an answer of each task; means may be given."""
        data = columns_of(data, "task", "worker", "output", "embedding")
        if aggregated_embeddings is None:
            means = _Means(data, true_embeddings)
            aggregated_embeddings = means.series(means.of(np.ones(len(data))))
        average = dict(aggregated_embeddings.items())
        pairs = zip(data["embedding"], data["task"], strict=True)
        data["score"] = [float(self.distance(one, average[task])) for one, task in pairs]
        scores = data[["task", "output", "score", "embedding"]]
        best = scores.loc[scores.groupby("task")["score"].idxmin()]
        self.scores_ = scores.set_index("task")
        self.embeddings_and_outputs_ = best[["task", "output", "embedding"]].set_index("task")
        return self

    def fit_predict_scores(self, data: Frame, aggregated_embeddings: Series | None = None) -> Frame:
        """Fit and return ``scores_``."""
        return self.fit(data, aggregated_embeddings).scores_

    def fit_predict(self, data: Frame, aggregated_embeddings: Series | None = None) -> Frame:
        """Fit and return ``embeddings_and_outputs_``."""
        return self.fit(data, aggregated_embeddings).embeddings_and_outputs_


class _Reliable(Parameters):
    """What RASA and HRRASA share: means and reliabilities by turns, then the answer closest to the mean."""

    n_iter: int
    tol: float
    alpha: float
    skills_: Series
    prior_skills_: Series
    aggregated_embeddings_: Series
    loss_history_: list[float]
    scores_: Frame
    embeddings_and_outputs_: Frame

    def _settle(self, data: Frame, true_embeddings: Series | None, local: Array) -> Array:
        """Learn reliabilities; `local` is how far each answer counts besides. Returns the weights of answers."""
        pandas = import_pandas()
        means = _Means(data, true_embeddings)
        workers, names = pandas.factorize(data["worker"])
        prior = upper_quantiles(self.alpha / 2, np.bincount(workers))
        skills, before = np.ones(len(names)), None
        self.loss_history_ = []
        found = means.of(local)
        for _ in range(self.n_iter):
            found = means.of(skills[workers] * local)
            with np.errstate(divide="ignore", invalid="ignore"):
                away = np.bincount(workers, np.nan_to_num(means.away(found) / local, posinf=1e300), len(names))
            skills = prior / np.maximum(away, _LEAST)
            if before is not None:
                size = float((found * found).sum())
                loss = float(((found - before) ** 2).sum()) / size if size else 0.0
                self.loss_history_.append(loss)
                if loss < self.tol:
                    break
            before = found
        index = pandas.Index(names, name="worker")
        self.prior_skills_, self.skills_ = series(prior, index, "count"), series(skills, index, "skill")
        self.aggregated_embeddings_ = means.series(found)
        return np.asarray(skills[workers] * local)

    def _apply(self, data: Frame) -> Self:
        closest = ClosestToAverage(cosine_distance).fit(data, self.aggregated_embeddings_)
        self.scores_, self.embeddings_and_outputs_ = closest.scores_, closest.embeddings_and_outputs_
        return self

    def fit(self, data: Frame, true_embeddings: Series | None = None) -> Self:
        """Learn reliabilities and means."""
        raise NotImplementedError

    def fit_predict_scores(self, data: Frame, true_embeddings: Series | None = None) -> Frame:
        """Fit and return ``scores_``."""
        return self.fit(data, true_embeddings)._apply(data).scores_

    def fit_predict(self, data: Frame, true_embeddings: Series | None = None) -> Frame:
        """Fit and return ``embeddings_and_outputs_``."""
        return self.fit(data, true_embeddings)._apply(data).embeddings_and_outputs_


class RASA(_Reliable):
    """Workers are as reliable as their embeddings are near the mean of their tasks (Li & Fukumoto 2019).

    Parameters
    ----------
    n_iter, tol
        Most passes, and the relative change of means below which they end.
    alpha
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

    def __init__(self, n_iter: int = 100, tol: float = 1e-9, alpha: float = 0.05) -> None:
        self.n_iter = n_iter
        self.tol = tol
        self.alpha = alpha

    def fit(self, data: Frame, true_embeddings: Series | None = None) -> Self:
        """Learn reliabilities and means."""
        data = columns_of(data, "task", "worker", "embedding")
        self._settle(data, true_embeddings, np.ones(len(data)))
        return self


def _likeness(away: Array, norms: Array) -> Array:
    """How like embeddings are: 1 where they are the same, 0 where one is nothing and the other is not."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(away > 0, np.exp(-away / norms), 1.0))


def gleu_similarity(text: str, other: str) -> float:
    """GLEU of two texts: what they share of runs of up to four words, over the longer's number of runs."""
    one, two = (_runs(part.split()) for part in (text, other))
    most = max(sum(one.values()), sum(two.values()))
    return sum((one & two).values()) / most if most else 0.0


def _runs(words: Sequence[str]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for n in range(1, 5) for i in range(len(words) - n + 1))


class HRRASA(_Reliable):
    """RASA with a reliability of each answer besides: how like it is to the others of its task (Li 2020).

    Parameters
    ----------
    n_iter, tol, alpha
        As for :class:`RASA`.
    lambda_emb, lambda_out
        Weights of the likeness of embeddings and of outputs.
    calculate_ranks
        Whether ``ranks_`` are computed.
    output_similarity
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

    weights_: Frame
    ranks_: Frame

    def __init__(
        self,
        n_iter: int = 100,
        tol: float = 1e-9,
        lambda_emb: float = 0.5,
        lambda_out: float = 0.5,
        alpha: float = 0.05,
        calculate_ranks: bool = False,
        output_similarity: Callable[[Any, Any], float] = gleu_similarity,
    ) -> None:
        self.n_iter = n_iter
        self.tol = tol
        self.lambda_emb = lambda_emb
        self.lambda_out = lambda_out
        self.alpha = alpha
        self.calculate_ranks = calculate_ranks
        self.output_similarity = output_similarity

    def fit(self, data: Frame, true_embeddings: Series | None = None) -> Self:
        """Learn reliabilities and means; a task with one answer has that answer's embedding."""
        pandas = import_pandas()
        data = columns_of(data, "task", "worker", "embedding", "output")
        alone = data.groupby("task")["worker"].transform("size") == 1
        several, single = data[~alone].reset_index(drop=True), data[alone]
        self.loss_history_ = []
        if len(several):
            local = self._local(several)
            weights = self._settle(several, true_embeddings, local)
            index = pandas.MultiIndex.from_frame(several[["task", "worker"]])
            self.weights_ = pandas.DataFrame({"weight": weights}, index)
            if self.calculate_ranks:
                self.ranks_ = self._ranked(several, local)
        else:
            empty = pandas.Series(np.zeros(0), name="skill")
            self.prior_skills_ = self.skills_ = empty
            self.aggregated_embeddings_ = pandas.Series([], dtype=object)
            self.weights_ = pandas.DataFrame({"weight": np.zeros(0)})
        if len(single):
            self._append(single)
        return self

    def _append(self, single: Frame) -> None:
        """Add what little there is to say of tasks with one answer."""
        pandas = import_pandas()
        new = [worker for worker in single["worker"].unique() if worker not in self.skills_.index]
        nothing = pandas.Series(np.nan, index=pandas.Index(new, name="worker"), dtype=np.float64)
        parts = [part for part in (self.skills_, nothing) if len(part)]
        self.skills_ = pandas.concat(parts) if parts else self.skills_
        parts = [part for part in (self.prior_skills_, nothing) if len(part)]
        self.prior_skills_ = pandas.concat(parts) if parts else self.prior_skills_
        own = pandas.Series(single["embedding"].tolist(), pandas.Index(single["task"], name="task"))
        known = self.aggregated_embeddings_
        self.aggregated_embeddings_ = pandas.concat([known, own]) if len(known) else own

    def _local(self, data: Frame) -> Array:
        """How like each answer is to the others of its task."""
        local = np.zeros(len(data))
        rows, outputs, workers = _rows(data), data["output"].tolist(), data["worker"].tolist()
        norms = (rows * rows).sum(axis=1)
        for places in data.groupby("task").indices.values():
            for at in places:
                others = [other for other in places if workers[other] != workers[at]]
                if not others:
                    continue
                away = ((rows[at] - rows[others]) ** 2).sum(axis=1)
                near = _likeness(away, norms[at] * norms[others]).sum()
                said = sum(self.output_similarity(outputs[at], outputs[other]) for other in others)
                local[at] = (self.lambda_emb * near + self.lambda_out * said) / (len(places) - 1)
        return local

    def _ranked(self, data: Frame, local: Array) -> Frame:
        means = np.stack([self.aggregated_embeddings_[task] for task in data["task"]])
        rows = _rows(data)
        away = np.maximum(((rows - means) ** 2).sum(axis=1), _LEAST)
        near = _likeness(away, (rows * rows).sum(axis=1) * (means * means).sum(axis=1))
        skill = self.skills_.loc[data["worker"]].to_numpy()
        ranked: Frame = data[["task", "output"]].assign(rank=skill * near + local)
        return ranked
