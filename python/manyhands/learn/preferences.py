"""Weights of preference labels by annotator reliability, for any trainer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from manyhands import metrics
from manyhands._base import arrow
from manyhands._base.checks import check_choice, plural, preview
from manyhands._base.data_checks import made_table
from manyhands._base.estimator import Array
from manyhands._base.names import Names
from manyhands.categorical import DawidSkene
from manyhands.categorical.base import Aggregator
from manyhands.categorical.table import Annotations
from manyhands.pairwise import CrowdBT
from manyhands.pairwise.table import LEFT, TIE, Comparisons

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PreferenceWeights", "preference_weights"]

#: Minimum share of pairs with several judges for the method "pairs".
_ENOUGH_REPEATED = 0.5
#: Maximum share of comparisons that repeat a pair and worker, for the method "pairs".
_MOST_AGAIN = 0.1
#: Minimum number of comparisons per item for the method "scores".
_ENOUGH_COMPARED = 3


@dataclass(frozen=True)
class PreferenceWeights:
    """Posterior of each comparison; converts to an array of ``weights``.

    Attributes
    ----------
    weights : ndarray of shape (n_comparisons,)
        Probability that the label is right, i.e. that the winner is better; 0 for ties.
        In the order of the input rows: those of the frame, or of ``comparisons.to_frame()`` for a table, which does not
        keep the original order.
    soft_labels : ndarray of shape (n_comparisons,)
        Probability that the left item is better.
    method : str
        ``"pairs"`` or ``"scores"``.
    reliability : ndarray of shape (n_workers,)
        Probability that a worker's preference is right, aligned with ``comparisons.workers``.
    """

    comparisons: Comparisons
    weights: Array
    soft_labels: Array
    method: str
    reliability: Array
    #: Table row of each input row.
    _places: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.weights)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.weights, dtype)

    def to_frame(self) -> pa.Table:
        """Return the comparisons in input order as an Arrow table, with ``weight`` and ``soft_label``."""
        frame = self.comparisons.to_frame().take(self._places)
        columns = {name: frame[name] for name in frame.column_names if name != "weight"}
        return arrow.table(columns | {"weight": self.weights, "soft_label": self.soft_labels})

    def preferences(self) -> pa.Table:
        """Return rows for preference trainers, one per question: ``chosen``, ``rejected``, ``weight``, ….

        A question is a pair (in its context) for method ``"pairs"``, and a comparison for ``"scores"``. ``chosen`` is
        the item that is more likely to be better, ``weight`` that probability, ``flip_rate`` one minus it (for label
        smoothing), and ``n_answers`` the number of comparisons. Undecided questions are omitted.
        """
        first, second, pair, _ = _pairs_of(self.comparisons)
        left, _, _, _, contexts = self.comparisons.codes()
        question = pair if self.method == "pairs" else np.arange(len(pair))
        _, row, n_answers = np.unique(question, return_index=True, return_counts=True)
        soft_labels = np.empty(len(pair))
        soft_labels[self._places] = self.soft_labels
        toward = np.where(left == first, soft_labels, 1 - soft_labels)[row]
        row, n_answers, toward = (part[toward != 0.5] for part in (row, n_answers, toward))
        items = self.comparisons._items.arrow()
        columns: dict[str, Any] = {
            "chosen": arrow.take(items, np.where(toward > 0.5, first[row], second[row])),
            "rejected": arrow.take(items, np.where(toward > 0.5, second[row], first[row])),
        }
        names = self.comparisons._contexts
        if names is not None and contexts is not None:
            columns["context"] = arrow.take(names.arrow(), contexts[row])
        weight = np.maximum(toward, 1 - toward)
        return arrow.table(columns | {"weight": weight, "flip_rate": 1 - weight, "n_answers": n_answers})


def preference_weights(
    comparisons: Any,
    *,
    method: Literal["auto", "pairs", "scores"] = "auto",
    aggregator: Aggregator | None = None,
    **columns: str | None,
) -> PreferenceWeights:
    """Return the posterior that each preference label is right: weights or soft labels for any trainer.

    Parameters
    ----------
    comparisons : frame or Comparisons
        A frame in which each row has a winner or a tie; weights are in row order. Or a table, which has its own order:
        weights are those of ``comparisons.to_frame()``.
    method : {"auto", "pairs", "scores"}, default "auto"
        ``"pairs"`` treats each pair (in each context) as a task with two classes, and estimates reliability from pairs
        with several judges. ``"scores"`` fits :class:`~manyhands.pairwise.CrowdBT` and combines item scores with the
        reliability of the worker, for items with many comparisons as in arenas. ``"auto"`` selects ``"pairs"`` if at
        least half of the pairs have several judges and few comparisons repeat a pair and worker; otherwise
        ``"scores"`` if items have at least three comparisons on average.
    aggregator : Aggregator, optional
        Model of the pairs. By default ``DawidSkene(model="one-coin")``, because the order of items is arbitrary.
    **columns : str
        Column names of the frame as in :meth:`Comparisons.from_frame`: left, right, winner, worker, context, weight.

    Returns
    -------
    PreferenceWeights
        An array of weights, with soft labels, a frame, and chosen and rejected items for preference trainers.

    Raises
    ------
    ValueError
        If every pair has a single judge and items have few comparisons, so that reliability is not identified.

    Notes
    -----
    Time and memory O(comparisons) per iteration of the fit. With ``"scores"``, a comparison contributes to the scores
    that it is evaluated by, which matters for items with few comparisons. Weights count in both fits; ties count in
    neither label.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(6, [2.0, 2.0, 2.0, 2.0, -2.0], 600, seed=0, kind="pairwise")
    >>> result = mh.learn.preference_weights(crowd.log)
    >>> len(result), bool(result.reliability[4] < 0.5)
    (600, True)
    >>> log = {"left": ["b", "a", "b"], "right": ["a", "b", "a"], "winner": ["a", "a", "b"], "worker": [2, 1, 3]}
    >>> bool(mh.learn.preference_weights(log, method="pairs").weights.argmin() == 2)  # the third row is outvoted
    True
    """
    check_choice("method", method, ("auto", "pairs", "scores"))
    unknown = set(columns) - {*Comparisons.spec.roles}
    if unknown or (columns and isinstance(comparisons, Comparisons)):
        why = (
            f"unknown column names: {preview(sorted(unknown))}"
            if unknown
            else "a Comparisons table needs no column names"
        )
        raise TypeError(f"{', '.join(sorted(columns))}= cannot be passed: {why}")
    if isinstance(comparisons, Comparisons):
        games, places = comparisons, np.arange(len(comparisons))
    else:
        games, places = Comparisons._with_places(comparisons, columns)
    if method == "auto":
        method = _select_method(games) if aggregator is None else "pairs"
    if method == "scores":
        if aggregator is not None:
            raise ValueError('method="scores" uses CrowdBT; omit aggregator, or pass method="pairs"')
        soft_labels, reliability = _by_scores(games)
    else:
        soft_labels, reliability = _by_pairs(games, aggregator)
    outcomes = games.codes()[2]
    right = np.where(outcomes == LEFT, soft_labels, 1 - soft_labels)
    weights = np.where(outcomes == TIE, 0.0, right)
    return PreferenceWeights(games, weights[places], soft_labels[places], method, reliability, places)


def _select_method(games: Comparisons) -> Literal["pairs", "scores"]:
    pair, n_pairs = _pairs_of(games)[2:]
    games_per_pair = np.unique(pair * games.n_workers + games.codes()[3]) // games.n_workers
    # Repeated judgments of a pair by one worker indicate an arena, where pairs are not single questions.
    once = len(games_per_pair) >= (1 - _MOST_AGAIN) * len(pair)
    if once and np.mean(np.bincount(games_per_pair, minlength=n_pairs) > 1) >= _ENOUGH_REPEATED:
        return "pairs"
    if 2 * games.n_annotations >= _ENOUGH_COMPARED * games.n_items:
        return "scores"
    raise ValueError(
        f"of {plural(n_pairs, 'pair')} few have several judges, and {plural(games.n_items, 'item')} have few "
        "comparisons, so reliability is not identified. Collect several judgments for some pairs, or pass "
        'method="pairs" or method="scores" to continue anyway'
    )


def _pairs_of(games: Comparisons) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[np.int64], int]:
    """Return the item with the lower code, the other item, and the pair number of each comparison; number of pairs."""
    left, right, _, _, contexts = games.codes()
    first, second = np.minimum(left, right).astype(np.int64), np.maximum(left, right).astype(np.int64)
    key = first * games.n_items + second
    keys, pair = np.unique(key, return_inverse=True)
    if contexts is not None and games._contexts is not None:
        keys, pair = np.unique(pair.astype(np.int64) * len(games._contexts) + contexts, return_inverse=True)
    return first, second, pair.astype(np.int64), len(keys)


def _by_pairs(games: Comparisons, aggregator: Aggregator | None) -> tuple[Array, Array]:
    """Return the probability that the left item is better, from a model of pairs, and worker reliability."""
    left, _, outcomes, workers, _ = games.codes()
    first, _, pair, n_pairs = _pairs_of(games)
    is_decided = outcomes != TIE
    if not is_decided.any():
        raise ValueError("all comparisons are ties: there is no preference to weight")
    answers = ((left == first) != (outcomes == LEFT)).astype(np.uint16)
    weights = None if games.weights is None else games.weights[is_decided]
    table = made_table(
        pair[is_decided].astype(np.uint32),
        workers[is_decided],
        answers[is_decided],
        weights,
        n_pairs,
        games.n_workers,
        2,
    )
    votes = Annotations(table, Names(np.arange(n_pairs)), games._workers, Names(np.arange(2)))
    model = (DawidSkene(model="one-coin") if aggregator is None else aggregator).fit(votes)
    p_first = model.posterior_[pair, 0]
    return np.where(left == first, p_first, 1 - p_first), metrics.skill(model.confusion_, model.prior_)


def _by_scores(games: Comparisons) -> tuple[Array, Array]:
    """Return the same from item scores and worker reliability, with each comparison as a separate question."""
    left, right, outcomes, workers, _ = games.codes()
    model = CrowdBT().fit(games)
    reliability = np.clip(model.reliability_, 1e-9, 1 - 1e-9)
    toward = np.where(outcomes == TIE, 0.0, np.where(outcomes == LEFT, 1.0, -1.0))
    log_odds = toward * np.log(reliability / (1 - reliability))[workers] + model.scores_[left] - model.scores_[right]
    return 1 / (1 + np.exp(-np.clip(log_odds, -700, 700))), model.reliability_
