"""Networks trained on answers about pairs of items: preferences, or same or different."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands._base import arrow
from manyhands._base.checks import preview
from manyhands._base.data_checks import made_table
from manyhands._base.estimator import Array, Progress
from manyhands._base.names import Names, sequence
from manyhands._train.batch import Batch, CrowdData, Features, as_features
from manyhands._train.features import Collate
from manyhands._train.module_calls import each_tensor, n_rows, run
from manyhands._train.settings import TrainingOptions
from manyhands.categorical.table import Annotations
from manyhands.clustering.table import Similarities
from manyhands.learn.losses import noisy_preference
from manyhands.learn.shrunk import ShrunkLearner
from manyhands.pairwise.table import LEFT, TIE, Comparisons

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["CrowdReward", "SimilarityNetwork"]


class _Pairs(Features):
    """Features of both items of each pair, (n, 2, ...)."""

    def __init__(self, features: Features, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> None:
        self._features = features
        self._ends = torch.from_numpy(np.stack([left, right], axis=1))

    def __len__(self) -> int:
        return len(self._ends)

    def fetch(self, rows: Tensor) -> Any:
        both = self._features.fetch(self._ends[rows].reshape(-1))
        return each_tensor(both, lambda x: x.reshape(len(rows), 2, *x.shape[1:]))

    def collated(self, collate: Collate) -> _Pairs:
        ends = self._ends.numpy()
        return _Pairs(self._features.collated(collate), ends[:, 0], ends[:, 1])


class PairData(CrowdData):
    """Questions about pairs as samples, with answers 0 or 1 as labels."""

    def __init__(
        self,
        X: Any,
        items: Any,
        names: Names,
        ends: tuple[npt.NDArray[Any], npt.NDArray[Any]],
        workers: tuple[npt.NDArray[Any], Names],
        said: npt.NDArray[Any],
        weights: npt.NDArray[np.float64] | None,
    ) -> None:
        features = as_features(X)
        rows = _rows_of_items(names, len(features), items)
        n = len(said)
        codes = workers[0].astype(np.uint32)
        table = made_table(np.arange(n, dtype=np.uint32), codes, said.astype(np.uint16), weights, n, len(workers[1]), 2)
        votes = Annotations(table, Names(np.arange(n)), workers[1], Names(np.arange(2)))
        self._take(_Pairs(features, rows[ends[0]], rows[ends[1]]), votes, None)
        #: Context codes of the questions and context names, if there are any.
        self.contexts: npt.NDArray[Any] | None = None
        self.context_names: Names | None = None


def _rows_of_items(names: Names, n_rows: int, items: Any) -> npt.NDArray[np.int64]:
    """Return the row of X of each item."""
    row_names = Names(np.arange(n_rows)) if items is None else sequence(items, "items")
    if len(row_names) != n_rows:
        raise ValueError(f"items has {len(row_names)} entries, but X has {n_rows} rows")
    rows: npt.NDArray[np.int64] = row_names.match(names)
    if (rows < 0).any():
        advice = "pass the ids as items=" if items is None else "add them, or drop them with select(items=...)"
        raise ValueError(
            f"items {preview(names.values[rows < 0].tolist())} have no row in X, which has {n_rows} rows; {advice}"
        )
    return rows


class _PairLearner(ShrunkLearner):
    """Base class: log-odds that a worker reports correctly, as a sum of a crowd value and a worker value."""

    #: Number of parameters per worker.
    _width: ClassVar[int]

    def _average(self) -> tuple[Tensor, Tensor]:
        return torch.zeros(self._width), torch.full((self._width,), 2.0)

    def _distance(self, rows: Tensor) -> Tensor:
        return (rows**2).sum(dim=1)

    def _logits(self, worker: Tensor) -> Tensor:
        """Log-odds that a worker reports correctly, (n, width)."""
        return self._of_crowd() + self._rows(worker)

    def _forward(self, x: Any) -> Tensor:
        """Output of the network for both items, (n, 2, ...)."""
        outputs = run(self._network, each_tensor(x, lambda tensor: tensor.flatten(0, 1))).float()
        return outputs.reshape(n_rows(x), 2, -1)

    @torch.no_grad()
    def _odds_of_workers(self) -> Array:
        """Worker parameters as probabilities, (n_workers, width)."""
        self._fitted()
        logits = self._logits(torch.arange(len(self._workers), device=self._on))
        return torch.sigmoid(logits).double().cpu().numpy()


class CrowdReward(_PairLearner):
    r"""Reward model from comparisons: Bradley–Terry on network outputs, with a reliability per worker.

    Use it to train reward models on preferences of several annotators.

    Parameters
    ----------
    backbone : nn.Module
        Any ``nn.Module`` that returns one number per item.
    shrink : float, default 0.25
        Prior precision of the log-odds of each worker's ω around the average.
    **training
        See :class:`~manyhands.learn.Training`; `reduction` and `start_from` are ignored.

    Notes
    -----
    Time per epoch O(comparisons) in addition to two runs of the backbone per comparison.

    The left item is preferred with probability :math:`\omega_m\sigma(r_l - r_r) + (1 - \omega_m)\sigma(r_r - r_l)` for
    rewards r: `CrowdBT` with a network in place of scores. Ties count as half a win for each item. The majority is
    assumed to be right, because comparisons do not distinguish a crowd from one with inverted answers.

    References
    ----------
    X. Chen et al., "Pairwise ranking aggregation in a crowdsourced setting", WSDM 2013.

    Examples
    --------
    >>> import numpy as np, torch, manyhands as mh
    >>> scores = np.random.default_rng(0).normal(size=40)
    >>> crowd = mh.simulate(scores, [3.0, 3.0, 3.0, -3.0], 800, seed=1, kind="pairwise")
    >>> model = mh.learn.CrowdReward(torch.nn.Linear(1, 1), max_epochs=30, lr=0.05).fit(scores[:, None], crowd.log)
    >>> bool(model.reliability_[3] < 0.5), bool(np.corrcoef(model.predict(scores[:, None]), scores)[0, 1] > 0.99)
    (True, True)
    """

    _call: ClassVar[str] = "fit(X, comparisons)"
    _width: ClassVar[int] = 1

    def __init__(self, backbone: nn.Module, *, shrink: float = 0.25, **training: Unpack[TrainingOptions]) -> None:
        super().__init__(backbone, shrink=shrink, **training)

    def fit(
        self,
        X: Any,
        comparisons: Any,
        *,
        items: Any = None,
        resume: bool = False,
        overwrite: bool = False,
        progress: Progress = False,
    ) -> Self:
        """Train on features of items and comparisons.

        Parameters
        ----------
        X : array, tensor, sparse matrix or Dataset
            One row per item: a NumPy array, torch tensor, SciPy sparse matrix or map-style ``Dataset``.
        comparisons : Comparisons or frame
            Comparisons; frames need well-known column names.
        items : list of ids, optional
            Item id of each row of X. By default, item ids are row numbers.
        resume, overwrite, progress
            As in :meth:`Learner.fit`.
        """

        def data() -> CrowdData:
            games = comparisons if isinstance(comparisons, Comparisons) else Comparisons.from_frame(comparisons)
            left, right, outcomes, workers, contexts = games.codes()
            # A tie becomes two answers with half the weight.
            labels = np.concatenate([outcomes == LEFT, np.ones(int((outcomes == TIE).sum()), np.bool_)])
            again = np.concatenate([np.arange(len(left)), np.flatnonzero(outcomes == TIE)])
            weights = np.ones(len(left)) if games.weights is None else np.asarray(games.weights)
            weights = np.where(outcomes == TIE, weights / 2, weights)[again]
            ends = (left[again], right[again])
            pair_data = PairData(X, items, games._items, ends, (workers[again], games._workers), labels, weights)
            if contexts is not None:
                pair_data.contexts, pair_data.context_names = contexts[again], games._contexts
            return pair_data

        return self._fit(data, resume=resume, overwrite=overwrite, progress=progress)

    def _forward(self, x: Any) -> Tensor:
        return self._rewards(super()._forward(x))

    def _rewards(self, outputs: Tensor) -> Tensor:
        """Validate network outputs as rewards of both items, (n, 2)."""
        if outputs.shape[2] != 1:
            raise ValueError(f"the backbone must return one number per item (a reward), not {outputs.shape[2]}")
        return outputs[:, :, 0]

    def _log_likelihood(self, batch: Batch, output: Tensor) -> Tensor:
        margins = (output[:, 0] - output[:, 1])[batch.sample] * (2.0 * batch.label - 1.0)
        return -noisy_preference(margins, torch.sigmoid(-self._logits(batch.worker)[:, 0]))

    def predict(self, X: Any) -> Array:
        """Return the reward of each row, shape (n,)."""
        return self._of_network(X).reshape(-1)

    def predict_proba(self, left: Any, right: Any) -> Array:
        """Return the probability that the left item of each pair is better, shape (n,), from features of both."""
        reward_differences = self.predict(left) - self.predict(right)
        return 1 / (1 + np.exp(-np.clip(reward_differences, -700, 700)))

    @property
    def reliability_(self) -> Array:
        """Probability ω of each worker to report their true preference, shape (n_workers,)."""
        return self._odds_of_workers()[:, 0]

    def workers_frame(self) -> pa.Table:
        """Return one row per worker: number of comparisons and reliability."""
        reliability = self.reliability_
        return arrow.table({"worker": self._workers.arrow(), "n_answers": self._n_labels, "skill": reliability})


class SimilarityNetwork(_PairLearner):
    r"""Network of cluster memberships, trained on same-or-different answers.

    Use it to cluster new items from their features.

    Parameters
    ----------
    backbone : nn.Module
        Any ``nn.Module`` that returns one logit per cluster.
    shrink : float, default 1.0
        Prior precision of the log-odds of each worker's skills around the average.
    **training
        See :class:`~manyhands.learn.Training`; `reduction` and `start_from` are ignored.

    Notes
    -----
    Time per epoch O(answers · clusters) in addition to two runs of the backbone per answer. The network maps each item
    to a distribution f over clusters; two items are the same with probability :math:`f_i^\top f_j`. A worker answers
    "same" with probability :math:`a_m` for equal items and :math:`1 - b_m` for different items. The order
    of clusters is arbitrary.

    Examples
    --------
    >>> import numpy as np, torch, manyhands as mh
    >>> X, truth = mh.categorical.synthetic.gaussians(60, 2, separation=4.0)
    >>> rng = np.random.default_rng(0)
    >>> left, right = rng.integers(60, size=(2, 800))
    >>> log = {"left": left, "right": right, "worker": rng.integers(5, size=800), "same": truth[left] == truth[right]}
    >>> log = {name: column[left != right] for name, column in log.items()}
    >>> model = mh.learn.SimilarityNetwork(torch.nn.Linear(10, 2), max_epochs=20, lr=0.05).fit(X, log)
    >>> model.predict_proba(X).shape
    (60, 2)
    """

    _call: ClassVar[str] = "fit(X, similarities)"
    _width: ClassVar[int] = 2

    def __init__(self, backbone: nn.Module, *, shrink: float = 1.0, **training: Unpack[TrainingOptions]) -> None:
        super().__init__(backbone, shrink=shrink, **training)

    def fit(
        self,
        X: Any,
        similarities: Any,
        *,
        items: Any = None,
        resume: bool = False,
        overwrite: bool = False,
        progress: Progress = False,
    ) -> Self:
        """Train on features of items and same-or-different answers.

        Parameters
        ----------
        X : array, tensor, sparse matrix or Dataset
            One row per item: a NumPy array, torch tensor, SciPy sparse matrix or map-style ``Dataset``.
        similarities : Similarities or frame
            Answers; frames need well-known column names.
        items : list of ids, optional
            Item id of each row of X. By default, item ids are row numbers.
        resume, overwrite, progress
            As in :meth:`Learner.fit`.
        """

        def data() -> CrowdData:
            answers = similarities if isinstance(similarities, Similarities) else Similarities.from_frame(similarities)
            pairs, workers, labels = answers.codes()
            left, right = (np.asarray(end)[pairs] for end in (answers._left, answers._right))
            weights = None if answers.weights is None else np.asarray(answers.weights)
            return PairData(X, items, answers._items, (left, right), (workers, answers._workers), labels, weights)

        return self._fit(data, resume=resume, overwrite=overwrite, progress=progress)

    def _forward(self, x: Any) -> Tensor:
        return F.log_softmax(super()._forward(x), dim=2)

    def _log_likelihood(self, batch: Batch, output: Tensor) -> Tensor:
        log_same = torch.logsumexp(output[:, 0] + output[:, 1], dim=1).clamp(max=-1e-7)
        log_other = torch.log(-torch.expm1(log_same))
        logits = self._logits(batch.worker)
        yes = (batch.label == 1)[:, None]
        # Log-probability of the answer for equal and for different items.
        answer_log_probs = F.logsigmoid(
            torch.where(yes, logits * logits.new_tensor([1, -1]), logits * logits.new_tensor([-1, 1]))
        )
        return torch.logaddexp(
            log_same[batch.sample] + answer_log_probs[:, 0], log_other[batch.sample] + answer_log_probs[:, 1]
        )

    def predict_proba(self, X: Any) -> Array:
        """Return cluster memberships of each row, shape (n, n_clusters)."""
        logits = torch.from_numpy(self._of_network(X))
        return torch.softmax(logits, dim=1).numpy()

    def predict(self, X: Any) -> npt.NDArray[np.int64]:
        """Return the most probable cluster of each row, shape (n,)."""
        return self.predict_proba(X).argmax(axis=1)

    @property
    def skills_(self) -> Array:
        """Accuracy of each worker for equal and for different items, shape (n_workers, 2)."""
        return self._odds_of_workers()

    def workers_frame(self) -> pa.Table:
        """Return one row per worker: number of answers, recall and specificity."""
        recall, specificity = self.skills_.T
        return arrow.table(
            {"worker": self._workers.arrow(), "n_answers": self._n_labels, "recall": recall, "specificity": specificity}
        )
