"""Leaderboards on the Elo scale, overall and per context."""

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

#: Name of the group of all contexts.
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
    """Rate items on the Elo scale: 400 points are odds of ten to one, and the average item has 1,000.

    Parameters
    ----------
    games : Comparisons or frame
        Comparisons, such as battles of language models with judges as workers.
    model : ComparisonEstimator, optional
        Model of the ratings. By default :class:`WorkerBradleyTerry` with a left bias per judge, because judges often
        prefer the answer they read first.
    by_context : bool, default False
        Also rate the items within each context; the model is fitted again per context.
    base : float, default 1000.0
        Rating of the average item.
    scale : float, default 400.0
        Points that correspond to odds of ten to one.
    progress : bool or callable, default False
        True shows a progress bar; a callable receives progress updates of each fit.

    Returns
    -------
    pyarrow.Table
        Items from best to worst: context (if requested; ``"overall"`` first), item, rating, low, high, rank, rank_low,
        rank_high, n (comparisons), wins, losses and ties.

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
    rating_model = WorkerBradleyTerry(left_bias="worker") if model is None else model
    if not isinstance(rating_model, ComparisonEstimator):
        raise TypeError(f"model must be a comparison model, not {rating_model!r}")
    if not by_context:
        return arrow.table(_rate(table, rating_model, base, scale, progress))
    if table.contexts is None:
        raise ValueError(
            f"by_context=True needs contexts: pass the column as {argument('context')} when reading the comparisons"
        )
    parts = [{"context": OVERALL} | _rate(table, rating_model, base, scale, progress)]
    for context in table.contexts:
        with warnings.catch_warnings():
            # Contexts are small, and their wide intervals already show what is undetermined.
            warnings.simplefilter("ignore", IdentifiabilityWarning)
            part = _rate(table.select(contexts=[context]), rating_model, base, scale, progress)
        parts.append({"context": str(context)} | part)
    return _concatenate(parts)


def _rate(games: Comparisons, model: ComparisonEstimator, base: float, scale: float, progress: Progress) -> Any:
    """Return the columns of a table of ratings."""
    estimator = type(model)(**model.get_params()).fit(games, progress=progress)
    order = np.argsort(-estimator.scores_, kind="stable")
    points = scale / math.log(10.0)
    counts = games.table.item_counts()[order]
    places = estimator.rank_intervals_[order]
    return {
        "item": arrow.take(games._items.arrow(), order),
        "rating": base + points * estimator.scores_[order],
        "low": base + points * estimator.intervals_[order, 0],
        "high": base + points * estimator.intervals_[order, 1],
        "rank": estimator.ranks_[order],
        "rank_low": places[:, 0],
        "rank_high": places[:, 1],
        "n": counts[:, 0],
        "wins": counts[:, 1],
        "losses": counts[:, 0] - counts[:, 1] - counts[:, 2],
        "ties": counts[:, 2],
    }


def _concatenate(parts: list[Any]) -> pa.Table:
    """Concatenate the tables of several contexts, with the context in the first column."""
    import pyarrow as pa

    tables = []
    for part in parts:
        context = part.pop("context")
        ratings = arrow.table(part)
        tables.append(ratings.add_column(0, "context", pa.array([context] * len(ratings))))
    return pa.concat_tables(tables)
