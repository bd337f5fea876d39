"""Ratings on the scale of Elo, of all comparisons and of each context."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from manyhands._base import arrow
from manyhands._base.checks import check_flag, check_number, check_positive
from manyhands._base.estimator import Progress
from manyhands.errors import IdentifiabilityWarning, argument
from manyhands.pairwise.base import ComparisonEstimator
from manyhands.pairwise.bradley_terry import WorkerBradleyTerry
from manyhands.pairwise.table import Comparisons

if TYPE_CHECKING:
    import pyarrow as pa

#: What the rows of all contexts together are called.
OVERALL = "overall"


def leaderboard(
    games: Any,
    model: ComparisonEstimator | None = None,
    *,
    by_context: bool = False,
    base: float = 1000.0,
    scale: float = 400.0,
    progress: Progress = False,
) -> pa.Table:
    """Rate items on the scale of Elo: 400 points are odds of ten to one, and the average item has 1,000.

    Parameters
    ----------
    games
        Comparisons, such as battles of language models with judges as workers, or a frame of them.
    model
        What to rate by. By default :class:`WorkerBradleyTerry` with a bias to the left, since judges often favour what
        they read first: each judge their own where there are several.
    by_context
        Whether to rate the items of each context, too. What is learnt of judges is learnt anew in each.
    base, scale
        The rating of the average item, and the points that stand for odds of ten to one.
    progress
        True for a progress bar, or a function called now and then, for each fit.

    Returns
    -------
    pyarrow.Table
        From the best to the worst: context (where asked for; ``"overall"`` first), item, rating, low, high, rank,
        rank_low, rank_high, n (comparisons), wins, losses and ties.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(4, 3, 600, seed=0, kind="pairwise")
    >>> table = mh.pairwise.leaderboard(crowd.log)
    >>> table.column("rank").to_pylist()
    [1, 2, 3, 4]
    """
    table = Comparisons._as_table(games)
    check_flag("by_context", by_context)
    check_positive("scale", scale)
    check_number("base", base, least=-1e15)
    chosen = WorkerBradleyTerry(left_bias="worker") if model is None else model
    if not isinstance(chosen, ComparisonEstimator):
        raise TypeError(f"model must be an estimator of comparisons, not {chosen!r}")
    if not by_context:
        return arrow.table(_rated(table, chosen, base, scale, progress))
    if table.contexts is None:
        raise ValueError(
            f"these comparisons have no contexts; name their column with {argument('context')} when they are read"
        )
    parts = [{"context": OVERALL} | _rated(table, chosen, base, scale, progress)]
    for context in table.contexts:
        with warnings.catch_warnings():
            # Contexts are small: what is undetermined in one of them is plain from its intervals.
            warnings.simplefilter("ignore", IdentifiabilityWarning)
            part = _rated(table.select(contexts=[context]), chosen, base, scale, progress)
        parts.append({"context": str(context)} | part)
    return _stacked(parts)


def _rated(games: Comparisons, model: ComparisonEstimator, base: float, scale: float, progress: Progress) -> Any:
    """Columns of a table of ratings."""
    fitted = type(model)(**model.get_params()).fit(games, progress=progress)
    order = np.argsort(-fitted.scores_, kind="stable")
    points = scale / math.log(10.0)
    counts = games.table.item_counts()[order]
    places = fitted.rank_intervals_[order]
    return {
        "item": arrow.take(games._items.arrow(), order),
        "rating": base + points * fitted.scores_[order],
        "low": base + points * fitted.intervals_[order, 0],
        "high": base + points * fitted.intervals_[order, 1],
        "rank": fitted.ranks_[order],
        "rank_low": places[:, 0],
        "rank_high": places[:, 1],
        "n": counts[:, 0],
        "wins": counts[:, 1],
        "losses": counts[:, 0] - counts[:, 1] - counts[:, 2],
        "ties": counts[:, 2],
    }


def _stacked(parts: list[Any]) -> pa.Table:
    """One table of several, the context in the first column."""
    import pyarrow as pa

    tables = []
    for part in parts:
        context = part.pop("context")
        rated = arrow.table(part)
        tables.append(rated.add_column(0, "context", pa.array([context] * len(rated))))
    return pa.concat_tables(tables)
