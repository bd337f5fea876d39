"""How far each preference of a crowd can be believed, for whoever trains on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from manyhands import metrics
from manyhands._base import arrow
from manyhands._base.checks import check_choice, counted, listed
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

#: Pairs that were judged more than once, of all, from which on these tell enough of the workers.
_ENOUGH_REPEATED = 0.5
#: Comparisons of a pair that the same worker judged before, of all, up to which a pair is taken for one question.
_MOST_AGAIN = 0.1
#: Comparisons an item is in, from which on its score tells something.
_ENOUGH_COMPARED = 3


@dataclass(frozen=True)
class PreferenceWeights:
    """What the crowd as a whole makes of each comparison; as an array it is ``weights``.

    Attributes
    ----------
    weights : ndarray of shape (n_comparisons,)
        Probability that the label is right: that the winner is the better one; 0 for ties, which prefer nobody.
        In the order of the rows that were given: those of the frame, or of ``comparisons.to_frame()`` if it was a
        table, which keeps no other order.
    soft_labels : ndarray of shape (n_comparisons,)
        Probability that the left item is the better one.
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
    #: The row of the table that each row given became.
    _places: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.weights)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.weights, dtype)

    def to_frame(self) -> pa.Table:
        """Return the comparisons as an Arrow table, in their order, with ``weight`` and ``soft_label`` of each."""
        frame = self.comparisons.to_frame().take(self._places)
        columns = {name: frame[name] for name in frame.column_names if name != "weight"}
        return arrow.table(columns | {"weight": self.weights, "soft_label": self.soft_labels})

    def preferences(self) -> pa.Table:
        """Return what trainers of preferences take, a row a question: ``chosen``, ``rejected``, ``weight``, ….

        A question is a pair (in its context) with method ``"pairs"``, and a comparison with ``"scores"``. The item that
        is more probably the better one is ``chosen``; ``weight`` is that probability, ``flip_rate`` one minus it, as
        label smoothing takes it, and ``n_answers`` the number of comparisons. Questions that stay level are left out.
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
    """The crowd's posterior that each preference label is right: weights or soft labels for any trainer.

    Parameters
    ----------
    comparisons
        A frame, every row of which has a winner or a tie: weights are those of its rows. Or a
        :class:`~manyhands.Comparisons` table, which has put its rows into an order of its own: weights are those of
        ``comparisons.to_frame()``.
    method
        ``"pairs"`` takes every pair (in each context) for a task of two classes and learns from pairs that several
        workers judged who is reliable. ``"scores"`` fits :class:`~manyhands.pairwise.CrowdBT` and takes every
        comparison for a question of its own: what the scores of the items say of it, and its worker, who is more or
        less reliable; for items that are compared again and again, as in arenas. ``"auto"`` takes pairs where half of
        them or more were judged by several workers, and hardly any twice by one; else scores, where items are in three
        comparisons or more on average.
    aggregator
        What judges pairs; ``DawidSkene(model="one-coin")`` if None, since which item is called the first is arbitrary.
    **columns
        Names of the frame's columns, as :meth:`Comparisons.from_frame` takes them: left, right, winner, worker,
        context, weight.

    Returns
    -------
    PreferenceWeights
        An array of weights, with soft labels, a frame, and rows of chosen and rejected for trainers of preferences.

    Raises
    ------
    ValueError
        If every pair was judged once and items are compared with hardly any others: nothing tells then who is right.

    Notes
    -----
    Time and memory O(comparisons) a pass of the fit. With ``"scores"`` a comparison takes part in the scores that it
    is judged by, which matters where an item is in few. Weights of comparisons count in both fits, ties in neither
    label.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(6, [2.0, 2.0, 2.0, 2.0, -2.0], 600, seed=0, kind="pairwise")
    >>> found = mh.learn.preference_weights(crowd.log)
    >>> len(found), bool(found.reliability[4] < 0.5)
    (600, True)
    >>> log = {"left": ["b", "a", "b"], "right": ["a", "b", "a"], "winner": ["a", "a", "b"], "worker": [2, 1, 3]}
    >>> bool(mh.learn.preference_weights(log, method="pairs").weights.argmin() == 2)  # the third row is outvoted
    True
    """
    check_choice("method", method, ("auto", "pairs", "scores"))
    odd = set(columns) - {*Comparisons.spec.roles}
    if odd or (columns and isinstance(comparisons, Comparisons)):
        why = f"no column is called {listed(sorted(odd))} here" if odd else "a table has its columns already"
        raise TypeError(f"{', '.join(sorted(columns))}= cannot be given: {why}")
    if isinstance(comparisons, Comparisons):
        games, places = comparisons, np.arange(len(comparisons))
    else:
        games, places = Comparisons._with_places(comparisons, columns)
    if method == "auto":
        method = _chosen(games) if aggregator is None else "pairs"
    if method == "scores":
        if aggregator is not None:
            raise ValueError('method="scores" fits CrowdBT and takes no aggregator; leave it out, or method="pairs"')
        soft_labels, reliability = _by_scores(games)
    else:
        soft_labels, reliability = _by_pairs(games, aggregator)
    outcomes = games.codes()[2]
    right = np.where(outcomes == LEFT, soft_labels, 1 - soft_labels)
    weights = np.where(outcomes == TIE, 0.0, right)
    return PreferenceWeights(games, weights[places], soft_labels[places], method, reliability, places)


def _chosen(games: Comparisons) -> Literal["pairs", "scores"]:
    pair, n_pairs = _pairs_of(games)[2:]
    judged = np.unique(pair * games.n_workers + games.codes()[3]) // games.n_workers
    # A pair that workers judge again and again is no single question: items meet in many, as in arenas.
    once = len(judged) >= (1 - _MOST_AGAIN) * len(pair)
    if once and np.mean(np.bincount(judged, minlength=n_pairs) > 1) >= _ENOUGH_REPEATED:
        return "pairs"
    if 2 * games.n_annotations >= _ENOUGH_COMPARED * games.n_items:
        return "scores"
    raise ValueError(
        f"of {counted(n_pairs, 'pair')} few were judged more than once, and {counted(games.n_items, 'item')} are in "
        "hardly any others: nothing tells which labels are right. Have some pairs judged by several workers; "
        'method="pairs" or method="scores" goes on regardless'
    )


def _pairs_of(games: Comparisons) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[np.int64], int]:
    """Of each comparison the item with the lower code, the other, and the number of the pair; how many pairs."""
    left, right, _, _, contexts = games.codes()
    first, second = np.minimum(left, right).astype(np.int64), np.maximum(left, right).astype(np.int64)
    key = first * games.n_items + second
    keys, pair = np.unique(key, return_inverse=True)
    if contexts is not None and games._contexts is not None:
        keys, pair = np.unique(pair.astype(np.int64) * len(games._contexts) + contexts, return_inverse=True)
    return first, second, pair.astype(np.int64), len(keys)


def _by_pairs(games: Comparisons, aggregator: Aggregator | None) -> tuple[Array, Array]:
    """Probability that the left item is better, by a model of workers who judge pairs; reliability of workers."""
    left, _, outcomes, workers, _ = games.codes()
    first, _, pair, n_pairs = _pairs_of(games)
    decided = outcomes != TIE
    if not decided.any():
        raise ValueError("all comparisons are ties: there is no preference to believe in")
    said = ((left == first) != (outcomes == LEFT)).astype(np.uint16)
    weights = None if games.weights is None else games.weights[decided]
    table = made_table(
        pair[decided].astype(np.uint32), workers[decided], said[decided], weights, n_pairs, games.n_workers, 2
    )
    votes = Annotations(table, Names(np.arange(n_pairs)), games._workers, Names(np.arange(2)))
    model = (DawidSkene(model="one-coin") if aggregator is None else aggregator).fit(votes)
    ahead = model.posterior_[pair, 0]
    return np.where(left == first, ahead, 1 - ahead), metrics.skill(model.confusion_, model.prior_)


def _by_scores(games: Comparisons) -> tuple[Array, Array]:
    """The same by scores of items, each comparison a question of its own, and by how reliable its worker is."""
    left, right, outcomes, workers, _ = games.codes()
    model = CrowdBT().fit(games)
    reliability = np.clip(model.reliability_, 1e-9, 1 - 1e-9)
    toward = np.where(outcomes == TIE, 0.0, np.where(outcomes == LEFT, 1.0, -1.0))
    log_odds = toward * np.log(reliability / (1 - reliability))[workers] + model.scores_[left] - model.scores_[right]
    return 1 / (1 + np.exp(-np.clip(log_odds, -700, 700))), model.reliability_
